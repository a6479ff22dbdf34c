"""`fedtheory bench` of figures: a grid and settings of one's own, runs that are kept apart, and what is refused before work."""

from __future__ import annotations

import json
from functools import partial
from types import SimpleNamespace

import command_line
import numpy as np
import pytest

from fedtheory.cli import bench as benching
from fedtheory.plotting.figure import restored

torch = pytest.importorskip("torch")

from fedtheory.neural.benchmarks import run  # noqa: E402
from fedtheory.report.redraw import known_figures  # noqa: E402
from paper_figures.networks.drawing import band  # noqa: E402

call = partial(command_line.call, "bench")
TINY = ("--quick", "--rounds", 2, "--json")


def data_of(folder, name):
    return restored(json.loads((folder / "quick" / f"{name}.json").read_text())["data"])


def test_every_figure_has_a_command_and_every_command_a_figure():
    names = {name.replace("-", "_") for name in (*benching.FIGURES, *benching.TABLES)} | {"elastic_table"}
    measured = {name for name, figure in known_figures().items() if "keep" in figure.takes}
    without = {"fedelasticnet_table1", "fedelasticnet_table5"}  # drawn by `python -m paper_figures` alone
    assert {name.replace("-", "_") for name in benching.FIGURES} <= measured - without <= names


def test_a_grid_of_lambda_1_and_seeds_of_ones_own(tmp_path):
    args = ("fedelasticnet-figure5", *TINY, "--l1", "0.3,1e-5", "--seeds", "4,7", "--lr", 0.05, "--out", tmp_path)
    found = json.loads(call(*args).stdout)
    assert [f.rpartition(".")[2] for f in found["files"]] == ["png", "pdf", "json"]
    assert "2 seeds" in found["caption"] and "lr = 0.05" in found["caption"]
    data = data_of(tmp_path, "fedelasticnet_figure5")
    panel = data["panels"][0]
    assert panel["lambdas"].tolist() == [0, 1e-5, 1e-4, 0.3]  # 0 and Table 5's are always run
    assert list(data["seeds"]) == [4, 7] and panel["runs"][0]["test_accuracy"].shape == (2, 3)
    kept = [json.loads(f.read_text()) for f in (tmp_path / "quick/kept").rglob("*.json")]
    assert len(kept) == 2 * 6 and {(k["preset"]["lr"], k["preset"]["seed"]) for k in kept} == {(0.05, 4), (0.05, 7)}
    (strong,) = (k for k in kept if k["preset"]["hyperparameters"].get("l1") == 0.3 and k["preset"]["seed"] == 7)
    assert panel["runs"][3]["nonzeros"][1].tolist() == strong["metrics"]["nonzeros"] != panel["runs"][0]["nonzeros"][1].tolist()


def test_kept_runs_stand_for_the_same_settings_alone(tmp_path, monkeypatch):
    calls, honest = [], run.run_preset

    def counted(preset, *given, **more):
        calls.append(preset.name)
        return honest(preset, *given, **more)

    monkeypatch.setattr(run, "run_preset", counted)
    args = ("fedelasticnet-figure6", *TINY, "--split", "iid", "--method", "feddyn,algorithm-3", "--seeds", "0", "--out", tmp_path)
    call(*args)
    assert len(calls) == 2
    first = data_of(tmp_path, "fedelasticnet_figure6")["panels"][0]["methods"]["algorithm-3"]
    call(*args)
    assert len(calls) == 2  # kept
    call(*args, "--epsilon", 0.5)
    assert calls[2:] == [calls[1] + "@epsilon=0.5"]  # FedDyn has no epsilon: its run stands
    call(*args, "--epochs", 1)
    assert len(calls) == 5
    shorter = data_of(tmp_path, "fedelasticnet_figure6")["panels"][0]["methods"]["algorithm-3"]
    assert not np.array_equal(first["test_accuracy"], shorter["test_accuracy"])


@pytest.mark.parametrize(
    "said, args",
    [
        ("unknown table 'fedelasticnet-figure10'", ("fedelasticnet-figure10",)),
        ("'x' is no number", ("fedelasticnet-figure3", "--l1", "1e-4,x")),
        ("draws one value a call", ("fedelasticnet-figure3", "--lr", "0.1,0.2")),
        ("--l1 1e-4: it is of FedElasticNet's figures", ("efl-figure1", "--l1", "1e-4")),
        ("fedelasticnet-figure6 has no split 'non-iid': it has dirichlet-0.3", ("fedelasticnet-figure6", "--split", "non-iid")),
        ("fedelasticnet-figure2 draws all of its own", ("fedelasticnet-figure2", "--split", "iid")),
        ("without --data runs are on scikit-learn's digits", ("fedelasticnet-figure6", "--dataset", "mnist")),
        ("--report: it is of tables", ("fedelasticnet-figure6", "--report")),
        ("the runs of efl-figure2 have settings of their own", ("efl-figure2", "--clip", 10)),
        ("the poster does not print what it ran", ("elastic-aggregation-settings", "--data", ".")),
        ("--seed 1 with --seeds 0,1", ("fedelasticnet-figure6", "--seed", 1, "--seeds", "0,1")),
        ("name at least one, with commas", ("fedelasticnet-figure6", "--method", ",")),
    ],
)
def test_what_a_figure_does_not_take_is_refused_before_work(said, args, tmp_path):
    assert said in " ".join(call(*args, "--quick", "--out", tmp_path, code=2).stderr.split())
    assert not list(tmp_path.iterdir())


def test_more_rounds_than_the_papers_are_run_and_ctrl_c_is_told(tmp_path, monkeypatch):
    args = ("fedelasticnet-figure6", "--quick", "--json", "--split", "iid", "--method", "fedprox", "--seeds", "3", "--out", tmp_path)
    assert "rounds =" not in json.loads(call(*args, "--rounds", 33).stdout)["caption"]
    panel = data_of(tmp_path, "fedelasticnet_figure6")["panels"][0]
    assert panel["rounds"] == 33 and panel["methods"]["fedprox"]["test_accuracy"].shape == (1, 34)

    def interrupted(*given, **more):
        raise KeyboardInterrupt

    monkeypatch.setattr(run, "run_preset", interrupted)
    assert "goes on from the runs that are finished" in " ".join(call(*args, "--rounds", 4, code=130).stderr.split())


def test_a_run_that_diverged_is_not_drawn():
    drawn = []
    panel = SimpleNamespace(
        plot=lambda x, values, **style: drawn.append(values.tolist()),
        fill_between=lambda x, low, high, **style: drawn.append([low.tolist(), high.tolist()]),
    )
    band(panel, [[1.0, 2.0, 3.0], [9.0, 9.0, np.nan]], color="k")
    assert drawn == [[[1, 2, 3], [1, 2, 3]], [1, 2, 3]]
    band(panel, [[9.0, 9.0, np.nan]], color="k")
    assert len(drawn) == 2
