"""How pairs of worked instances are frozen, and what the comparison with them reports."""

from __future__ import annotations

import shutil
from dataclasses import replace
from fractions import Fraction

import pytest
import worked_pairs as kept
from second_writing import Sheet

DATA = {"h": ["5/3", "2/7"], "away": ["3", "-5"], "eta": "1/9", "E": 4, "s": 1, "factor": "7/5"}
STEP = Sheet("efl", {"coefficient": lambda data: data}, {"one step": ("coefficient", DATA)})


@STEP.form("coefficient-as-step", "one local step")
def _(data):
    """c eta h e of either step, from the same point."""
    step = Fraction(data["factor"]) * Fraction(data["eta"])
    moved = [step * Fraction(h) * Fraction(e) for h, e in zip(data["h"], data["away"], strict=True)]
    return moved, moved


def test_fractions_must_be_the_same_and_floats_but_for_their_last_digits():
    assert kept.same(["1/3 2", "2/3"], ["1/3 2", "2/3"])
    assert not kept.same(["1/3", "2/3"], ["1/3", "2000001/3000001"])
    assert kept.same(["0.1", "2.0"], ["0.1000000000000001", "2.0"])
    for other in (["0.1", "2.1"], ["0.1 0.2", "2.0"], ["1/10", "2"], ["0.1", "2.0", "2.1"]):
        assert not kept.same(["0.1", "2.0"], other)


@pytest.fixture
def own_file(tmp_path, monkeypatch):
    """A copy of the frozen pairs, of which one is asked to freeze."""
    file = tmp_path / "pairs.json.gz"
    shutil.copy(kept.FILE, file)
    monkeypatch.setattr(kept, "FILE", file)
    return file


def test_a_second_writing_is_frozen_where_it_gives_what_the_package_gives(own_file, monkeypatch):
    before = len(kept.rows())
    monkeypatch.setattr(kept, "sheets", lambda names=(): iter([STEP]))
    kept.freeze(["worked_of_a_test"])
    *_, new = kept.rows()
    assert len(kept.rows()) == before + 1 and new["data"] == DATA
    assert list(new["forms"]) == ["coefficient-as-step [one local step]"]
    assert not list(kept.differences(new))


def test_a_wrong_one_is_refused_and_nothing_is_written(own_file, monkeypatch):
    before, right = own_file.read_bytes(), STEP.forms["coefficient-as-step [one local step]"]

    def wrong(data):
        return right({**data, "eta": "11/90"})

    sheet = replace(STEP, forms={"coefficient-as-step [one local step]": wrong})
    monkeypatch.setattr(kept, "sheets", lambda names=(): iter([sheet]))
    with pytest.raises(SystemExit, match="by the second writing"):
        kept.freeze(["worked_of_a_test"])
    assert own_file.read_bytes() == before


@pytest.mark.parametrize("holds", [True, False])
def test_an_edge_of_a_condition_is_kept_where_it_is_as_written(holds, own_file, monkeypatch):
    """In one local step nothing is said of several."""
    words, data = "more than one local step", {**DATA, "factor": "8/5"}
    edges = [(words, "coefficient", data, holds)]
    monkeypatch.setattr(kept, "sheets", lambda names=(): iter([replace(STEP, edges=edges)]))
    if holds:
        with pytest.raises(SystemExit, match="should be True"):
            kept.freeze(["worked_of_a_test"])
    else:
        kept.freeze(["worked_of_a_test"])
        assert kept.rows()[-1]["data"] == data and kept.rows()[-1]["facts"][words] is False


def test_what_differs_is_named():
    rows = kept.rows("elastic-aggregation")
    row = next(row for row in rows if row["forms"] and row.get("values"))
    assert not list(kept.differences(row))
    key, name = next(iter(row["forms"])), next(iter(row["values"]))
    other = {**row, "facts": row["facts"] | {"another": True}}
    other["values"] = {**row["values"], name: "1/7"}
    other["forms"] = {**row["forms"], key: ["1/7", "1/7"]}
    assert len(list(kept.differences(other))) == 3
