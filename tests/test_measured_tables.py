"""The measured rows of docs/networks.md are those of the committed results, and follow from their rounds."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parent.parent
KEPT = ROOT / "validation" / "bench_fedelasticnet.json"


@pytest.fixture
def made(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "validation"))
    import bench_table

    yield bench_table
    sys.modules.pop("bench_table", None)


def test_the_document_has_every_row_and_no_other(made):
    kept = json.loads(KEPT.read_text())
    lines = (ROOT / "docs" / "networks.md").read_text().splitlines()
    rows = [*made.rows_of_tables_2_and_3(kept), *made.rows_of_table_4(kept)]
    starts = {row.split(" | ")[0] for row in rows}
    assert [line for line in lines if line.split(" | ")[0] in starts] == rows


def test_sums_are_those_of_the_rounds():
    """Nonzeros sent: each round's mean over messages times those who sent; entropy: the rounds' sum."""
    kept = json.loads(KEPT.read_text())
    runs = {run["preset"]: run["metrics"] for run in kept["runs"]}
    for table, metric in (("table2", "nonzeros"), ("table3", "entropy"), ("table4", "entropy")):
        for row in kept.get(table, []):
            participation = "100%" if table == "table4" else "10%"
            m = runs[f"fedelasticnet/{row['dataset']}/{row['split']}/{participation}/{row['method']}"]
            assert row["rounds"] == row["rounds_of_paper"] == len(m["entropy"]) - 1
            each = np.array(m[metric][1:]) * (np.array(m["participants"][1:]) if metric == "nonzeros" else 1.0)
            ours = row["measured"][0] if isinstance(row["measured"], list) else row["measured"]
            assert each.sum() == pytest.approx(ours, rel=1e-4)  # rounds are kept to five digits


def test_unfinished_runs_are_left_out(made, tmp_path, monkeypatch):
    kept = json.loads(KEPT.read_text())
    here = tmp_path / "kept.json"
    here.write_text(json.dumps(kept))
    monkeypatch.setattr(made, "HERE", here)
    row = {**kept["table2"][0], "error": None, "measured": 1.0}
    other = {**kept["table2"][1], "error": None, "measured": 2.0, "rounds": 3}
    content = {"rows": [row, other], "runs": []}
    (tmp_path / "fedelasticnet-table2.json").write_text(json.dumps(content))
    made.collect([tmp_path])
    now = json.loads(here.read_text())
    assert now["table2"][0]["measured"] == 1.0
    assert now["table2"][1:] == kept["table2"][1:] and now["runs"] == kept["runs"]
