"""The measured rows of docs/networks_tables.md are those of the committed results, and follow from their rounds."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest
import typer
from repository import ROOT

from fedtheory.neural.benchmarks import printed_tables as papers

KEPT = ROOT / "validation" / "published" / "bench_fedelasticnet.json"


@pytest.fixture
def made(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "validation" / "published"))
    import bench_table

    yield bench_table
    sys.modules.pop("bench_table", None)


def test_the_document_has_every_row_and_no_other(made):
    import seeds_table

    text = (ROOT / "docs" / "networks_tables.md").read_text()
    assert seeds_table.filled(text) == text, "python validation/published/seeds_table.py write"
    assert len(seeds_table.lines_of_tables_2_and_3()) == 36
    import efl_search

    searched = text.partition("## EFL's λ and sparsity")[2].partition("\n## ")[0].splitlines()
    assert [line for line in searched if line.startswith(("| EFL", "| FedAvg"))] == efl_search.rows()
    sys.modules.pop("efl_search", None)
    sys.modules.pop("seeds_table", None)


def runs_of(kept):
    """Each row of each table with its run."""
    runs = {run["preset"]: run for run in kept["runs"]}
    for table in ("table2", "table3", "table4"):
        for row in kept.get(table, []):
            participation = "100%" if table == "table4" else "10%"
            yield table, row, runs[f"fedelasticnet/{row['dataset']}/{row['split']}/{participation}/{row['method']}"]


def test_sums_are_those_of_the_rounds():
    """Nonzeros sent: each round's mean over messages times those who sent; entropies: the rounds' sums, of each message."""
    for table, row, run in runs_of(json.loads(KEPT.read_text())):
        m = run["metrics"]
        assert row["rounds"] == row["rounds_of_paper"] == len(m["nonzeros"]) - 1
        for name, ours in row["entropies"].items():
            assert (ours is None) == (name not in m)
            assert ours is None or sum(m[name][1:]) == pytest.approx(ours, rel=1e-4)  # rounds are kept to five digits
        if table == "table2":
            assert np.dot(m["nonzeros"][1:], m["participants"][1:]) == pytest.approx(row["measured"], rel=1e-4)
        elif row["measured"] is None:  # the second message's was not kept
            assert row["method"] in ("scaffold", "algorithm-2") and row["entropies"]["entropy"] is None
        else:
            ours = row["measured"] if isinstance(row["measured"], list) else [row["measured"]]
            assert ours == pytest.approx([row["entropies"][k] for k in ("entropy", "update_entropy")[: len(ours)]], rel=1e-4)
            assert row["entropies"]["entropy"] == pytest.approx(
                row["entropies"]["entropy_1"] + row["entropies"]["entropy_2"], rel=1e-4
            )


def test_where_epsilon_is_half_a_bin_entropy_is_at_least_twice_the_share_sent():
    """h(q) >= 2 q up to q = 1/2, in every round of ours; the printed tables give sums of 2 q that exceed the printed entropies."""
    seen = 0
    for table, row, run in runs_of(json.loads(KEPT.read_text())):
        if (table, row["dataset"], row["method"]) == ("table3", "mnist", "algorithm-3"):
            share = np.array(run["metrics"]["nonzeros"][1:]) / row["parameters"]
            assert run["configuration"]["algorithm"]["epsilon"] == 0.01 / 2 and share.max() < 0.5
            assert (np.array(run["metrics"]["entropy"][1:]) >= 2 * share).all()
            seen += 1
    assert seen == 3
    sent, entropy = papers.table("fedelasticnet-table2"), papers.table("fedelasticnet-table3")
    note = entropy.notes[-1]
    for split in ("dirichlet-0.3", "dirichlet-0.6", "iid"):
        share = sent.value(split, "mnist", "algorithm-3") / sent.value(split, "mnist", "feddyn")
        assert 100 * 2 * share > entropy.value(split, "mnist", "algorithm-3")
        assert f"{100 * 2 * share:.1f}" in note and entropy.printed(split, "mnist", "algorithm-3") in note


def test_rows_from_before_the_correction_are_known(made):
    kept = json.loads(KEPT.read_text())
    for _, row, run in runs_of(kept):
        assert row["before_penalty_correction"] == made.before_correction(run)
    assert made.before_correction({"parts": [{"commit": "7b20bf370970e3e5e9012606eb4a0018ec766023"}]})
    assert not made.before_correction({"parts": [{"commit": "e8d547b3fcad"}, {"commit": None}]})
    assert not any(row["before_penalty_correction"] for row in kept["table3"])  # the runs that a document shows are from after it


def test_means_and_ranges_over_seeds(made, monkeypatch):
    """A file with two more seeds of one row and a run that diverged."""
    import seeds_table

    key, name = ("iid", "mnist", "feddyn"), "fedelasticnet/mnist/iid/10%/feddyn@seed="
    (zero,) = [r for r in seeds_table.rows_of_tables_2_and_3() if r.key == key]
    run = {"seed": 1, "error": None, "nonzeros": 2e8, "accuracy_last_ten": 0.9, "entropies": {"entropy": 300.0, "update_entropy": 60.0}}
    other = {**run, "seed": 2, "nonzeros": 1e8, "entropies": {"entropy": 320.0, "update_entropy": 40.0}}
    monkeypatch.setattr(seeds_table, "_file", lambda table: {name + "2": other, name + "1": run, name + "3": {"error": "diverged"}})
    (row,) = [r for r in seeds_table.rows_of_tables_2_and_3() if r.key == key]
    assert row.seeds == [0, 1, 2] and row.nonzeros == [zero.nonzeros[0], 2e8, 1e8]
    assert row.entropy == [zero.entropy[0], 300.0, 320.0] and row.update == [zero.update[0], 60.0, 40.0]
    assert row.accuracy[0] == pytest.approx(zero.accuracy[0]) and row.accuracy[1:] == [0.9, 0.9]
    assert seeds_table.over([1.0, 2.0, 6.0], ".2f") == "3.00 [1.00, 6.00]" and seeds_table.over([2.5], ".1f") == "2.5"
    assert seeds_table.ratios(row, "fedelasticnet-table3")[1][1:] == pytest.approx([60 / 27.76, 40 / 27.76])
    assert seeds_table.ratios(row, "fedelasticnet-table2")[0][2] == pytest.approx(1e8 / 20.3e7)
    assert "3 of 24" not in seeds_table.headline([row]) and "1 of 1 of what the baselines send" in seeds_table.headline([row])
    sys.modules.pop("seeds_table", None)


def test_a_run_of_efl_that_diverged_is_named_and_not_averaged(made, monkeypatch):
    import seeds_table

    name, fine = "efl/mnist/non-iid/all/fedgate", {"seed": 1, "error": None, "measured": 0.9, "rounds": 100}
    monkeypatch.setattr(seeds_table, "_file", lambda table: {
            name: {**fine, "error": "diverged", "rounds": 10}, name + "@seed=1": fine, name + "@lr=0.03": fine,
        })  # fmt: skip
    assert seeds_table.lines_of_efl() == [
        "| FedGATE | 90.00; diverged in round 11 | 99.15 | 2 |", "| FedGATE, step 0.03 | 90.00 | 99.15 | 1 |",
    ]  # fmt: skip
    sys.modules.pop("seeds_table", None)


def test_tables_without_each_messages_entropy_are_refused(made, tmp_path):
    row = {"rounds": 100, "rounds_of_paper": 100, "error": None}
    (tmp_path / "fedelasticnet-table3.json").write_text(json.dumps({"rows": [row], "runs": []}))
    with pytest.raises(typer.BadParameter, match=r"does not have each message's entropy \(1 rows\): .* --report --out"):
        made.collect([tmp_path])


def test_unfinished_runs_are_left_out(made, tmp_path, monkeypatch):
    kept = json.loads(KEPT.read_text())
    here = tmp_path / "kept.json"
    here.write_text(json.dumps(kept))
    monkeypatch.setattr(made, "HERE", here)
    row = {**kept["table2"][0], "error": None, "measured": 1.0, "ratio": [0.5], "before_penalty_correction": False}
    other = {**kept["table2"][1], "error": None, "measured": 2.0, "rounds": 3}
    preset = {**{k: row[k] for k in ("split", "dataset", "method")}, "name": "n", "rounds": 100}
    run = {"preset": preset, "rounds": 3, "error": None, "provenance": {"parts": [{"commit": "7b20bf3" + 33 * "0"}]}}
    content = {"rows": [row, other], "runs": [run]}
    (tmp_path / "fedelasticnet-table2.json").write_text(json.dumps(content))
    made.collect([tmp_path])
    now = json.loads(here.read_text())
    assert now["table2"][0] == {k: v for k, v in row.items() if k != "error"} | {"before_penalty_correction": True}
    assert now["table2"][1:] == kept["table2"][1:] and now["runs"] == kept["runs"]


def test_settings_of_the_grid_are_means_over_the_seeds_that_ended(made, monkeypatch, tmp_path):
    import seeds_table

    run = {
        "dataset": "mnist", "method": "feddyn", "batch_size": 20, "lr": 0.1, "clip": None,
        "seed": 0, "error": None, "nonzeros": 2.0, "nonzeros_of_paper": 4.0,
        "entropy": [9.0, 3.0], "entropy_of_paper": [3.0, 2.0], "accuracy_last_ten": 0.9,
    }  # fmt: skip
    second = {**run, "seed": 1, "entropy": [9.0, 1.0], "nonzeros": 6.0, "accuracy_last_ten": 0.8}
    runs = {"a": run, "b": second, "c": {**run, "seed": 2, "error": "diverged"}}
    (tmp_path / "grid.json").write_text(json.dumps(runs))
    monkeypatch.setattr(seeds_table, "HERE", tmp_path)
    cell = seeds_table.grid()["mnist", "feddyn", 20, 0.1, 0.0]
    assert cell == seeds_table.Cell(1.0, 1.0, pytest.approx(85.0), 2, 1)
    assert seeds_table.lines_of_grid() == [
        "| MNIST | FedDyn | 20 | no |  |  | 1.00 / 1.00 (85.00, 2 seeds, 1 diverged) |  |",
    ]
    sys.modules.pop("seeds_table", None)
