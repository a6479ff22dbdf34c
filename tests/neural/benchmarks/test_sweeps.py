"""Other values than the papers' and several seeds: names that never collide, runs of their own, and rows over seeds."""

from __future__ import annotations

import json
import math
from functools import partial

import command_line
import numpy as np
import pytest

from fedtheory.cli.bench_options import numbers
from fedtheory.errors import InvalidInput
from fedtheory.neural.benchmarks import presets, run

call = partial(command_line.call, "bench")
ROW = dict.fromkeys(("dataset", "split", "participation", "method", *presets.OPTIONS), 0) | {
    "rounds": 3, "error": None, "entropies": None, "seconds": 1.0, "ratio": None, "best_accuracy": 0.5,
}  # fmt: skip


def rows(*measured, **more):
    return [{**ROW, "seed": i, "measured": m, "test_accuracy": m / 10, **more} for i, m in enumerate(measured)]


def test_a_value_that_is_the_papers_is_the_papers_run_and_any_other_one_of_its_own():
    paper = presets.of_table("fedelasticnet-table3", "mnist", "iid")
    names = {p.name for p in presets.of_table("fedelasticnet-table3")}
    made = presets.expand(paper, {"l1": [1e-4, 1e-2, 1.00000001e-2], "lr": [0.1, 0.05]}, [0, 7])
    assert len({p.name for p in made}) == len(made) == 2 * 2 * (3 * 1 + 3 * 3)  # two rates, two seeds
    for p in made:
        unchanged = p.seed == 0 and not p.own
        assert (p.name in names) == unchanged
        assert p.own == {k: v for k in presets.OPTIONS if (v := p.value(k)) != presets.get(p.name.split("@")[0]).value(k)}
    net = next(p for p in made if p.method == "algorithm-3" and p.own == {"lr": 0.05, "l1": 1e-2})
    assert net.changed().name == presets.get(net.name.split("@")[0]).changed(lr=0.05, l1=1e-2).name
    assert net.make_algorithm().l1 == 1e-2 and net.make_solver().lr == 0.05
    (dyn,) = presets.expand([presets.get("fedelasticnet/mnist/iid/10%/feddyn")], {"l2": [0.25]}, [0])
    assert dyn.make_algorithm().alpha == 0.25 and dyn.name.endswith("/feddyn@l2=0.25")


@pytest.mark.parametrize(
    "option, text", [("l1", "1e-4,x"), ("l1", ""), ("l2", "-1"), ("epsilon", "nan"), ("lr", "0"), ("lr", "inf")]
)
def test_values_that_are_none_are_refused(option, text):
    with pytest.raises(InvalidInput, match=f"--{option}"):
        numbers(option, text)


def test_several_seeds_are_a_mean_with_its_range():
    (row,) = run.over_seeds(rows(1.0, 2.0, 6.0))
    assert row["measured"] == 3.0 and row["range"]["measured"] == [1.0, 6.0] and row["seeds"] == [0, 1, 2]
    assert row["standard_error"]["measured"] == pytest.approx(math.sqrt(7) / math.sqrt(3))  # deviations -2, -1, 3 over 3 - 1
    (pair,) = run.over_seeds([r | {"measured": (r["measured"], 1.0)} for r in rows(1.0, 2.0)])
    assert pair["measured"] == [1.5, 1.0] and pair["range"]["measured"] == [1.0, 2.0]
    assert run.over_seeds(rows(4.0)) == rows(4.0)


def test_seeds_of_other_settings_are_rows_of_their_own():
    first, second = rows(1.0, 3.0)
    for name, value in (("epochs", 5), ("network", "logistic"), ("clip", 10.0), ("augment", "flip-crop"), ("solver", "adam")):
        assert len(run.over_seeds([first, second | {name: value}])) == 2
    assert len(run.over_seeds([first, second])) == 1


def test_a_seed_that_diverged_or_is_not_finished_is_told_and_not_averaged():
    good, bad, short = rows(1.0, 100.0, 50.0)
    bad["error"], short["rounds"] = "diverged in round 2", 2
    (row,) = run.over_seeds([good, bad, short])
    assert row["measured"] == 1.0 and row["seeds"] == [0] and row["range"] == {}
    assert row["error"] == "seed 1: diverged in round 2; seed 2: only 2 rounds"
    (none,) = run.over_seeds([bad, bad | {"seed": 2}])
    assert none["measured"] is None and none["seeds"] == []


def test_the_command_sweeps_resumes_and_reports(tmp_path):
    pytest.importorskip("torch")
    args = ("fedelasticnet-table2", "--quick", "--dataset", "mnist", "--split", "iid", "--method", "feddyn,algorithm-3")
    plain = json.loads(call(*args, "--json", "--out", tmp_path).stdout)
    more = ("--l1", "1e-4,0.03", "--seeds", "0,1", "--json", "--out", tmp_path)
    found = json.loads(call(*args, *more).stdout)
    assert [(r["method"], r["l1"], r["seeds"]) for r in found["rows"]] == [
        ("feddyn", None, [0, 1]), ("algorithm-3", 1e-4, [0, 1]), ("algorithm-3", 0.03, [0, 1]),
    ]  # fmt: skip
    written = json.loads((tmp_path / "quick/fedelasticnet-table2.json").read_text())
    single = {(r["method"], r["l1"], r["seed"]): r["measured"] for r in written["rows_of_seeds"]}
    for row in plain["rows"]:  # the paper's own run is one of them, with its numbers
        assert single[row["method"], row["l1"], 0] == row["measured"]
    assert single["algorithm-3", 0.03, 0] != single["algorithm-3", 1e-4, 0] != single["algorithm-3", 1e-4, 1]
    assert "| data | split | method | l1 | rounds |" in (tmp_path / "quick/fedelasticnet-table2.md").read_text()
    for command, before in (((*args, *more), found), ((*args, "--json", "--out", tmp_path), plain)):
        rows_now = json.loads(call(*command, "--report").stdout)["rows"]
        assert [r | {"seconds": 0} for r in rows_now] == [r | {"seconds": 0} for r in before["rows"]]
    extra = ("--record", "test_accuracy_all", "--seeds", "1", "--json", "--out", tmp_path)
    call(*args, *extra)
    runs = json.loads((tmp_path / "quick/fedelasticnet-table2.json").read_text())["runs"]
    assert all("test_accuracy_all" in r["metrics"] and r["preset"]["name"].endswith("@seed=1@with=test_accuracy_all") for r in runs)


def test_what_cannot_be_swept_is_told_before_work(tmp_path):
    pytest.importorskip("torch")
    for message, args in (
        ("--l1: none of these methods has it", ("fedelasticnet-table2", "--quick", "--method", "feddyn", "--l1", "1e-4")),
        ("--l2: none of these methods has it", ("elastic-table", "--quick", "--l2", "1")),
        ("--seeds 0,x: 'x' is no whole number", ("fedelasticnet-table2", "--quick", "--seeds", "0,x")),
        ("unknown metric 'accuracy'", ("fedelasticnet-table2", "--quick", "--record", "accuracy")),
    ):
        said = " ".join(call(*args, "--out", tmp_path, code=2).stderr.split())
        assert message in said, said
    assert not list(tmp_path.rglob("*.ckpt"))


def test_a_diverged_run_is_not_drawn_and_other_values_are_panels_of_their_own(tmp_path):
    from fedtheory.neural.benchmarks.run import Result
    from paper_figures.fedelasticnet.table_runs import accuracy_data, draw_accuracy

    def results(method, l1, seed, error=None, split="iid"):
        made = presets.expand([presets.get(f"fedelasticnet/mnist/{split}/10%/{method}")], {"l1": l1} if l1 else {}, [seed])
        return [Result(p, {"test_accuracy": [0.1, 0.5 + 0.01 * seed, 0.6]}, rounds=2, error=error) for p in made]

    runs = [r for seed in (0, 1) for r in results("feddyn", [], seed)]
    runs += results("algorithm-3", [1e-4, 1e-2], 0) + results("algorithm-3", [1e-4], 1) + results("algorithm-3", [1e-2], 1, "diverged")
    data = accuracy_data([*runs, *results("algorithm-3", [1e-4], 0, split="dirichlet-0.3")])
    ended = [{m: np.isfinite(r["test_accuracy"][:, -1]).tolist() for m, r in p["methods"].items()} for p in data["panels"]]
    found = [(p["split"], p["own"], of) for p, of in zip(data["panels"], ended, strict=True)]
    assert found == [
        ("iid", {"l1": 1e-4}, {"feddyn": [True, True], "algorithm-3": [True, True]}),
        ("iid", {"l1": 1e-2}, {"feddyn": [True, True], "algorithm-3": [True, False]}),  # FedDyn has no l1: it stands in both
        ("dirichlet-0.3", {}, {"algorithm-3": [True, False]}),
    ]
    assert data["panels"][1]["methods"]["algorithm-3"]["errors"] == ["diverged"]
    unfinished = Result(runs[0].preset, {"test_accuracy": [0.1, 0.5, None]}, rounds=2)
    assert accuracy_data([unfinished])["panels"][0]["methods"]["feddyn"]["test_accuracy"].tolist() == [[0.1, 0.5]]
    assert len(draw_accuracy(runs, tmp_path / "a")) == 2 and (tmp_path / "a.pdf").exists()
    assert draw_accuracy(results("algorithm-3", [1e-2], 1, "diverged"), tmp_path / "b") == []
    assert not (tmp_path / "b.png").exists()
