"""Words, columns and curves of a failure, worked by hand."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace

import numpy as np
import pytest
from core_forms import form

from fedtheory.errors import InvalidInput
from fedtheory.testing import ConvergenceFailure, figures
from fedtheory.testing.failure import check_diverged
from fedtheory.testing.statements import _fails
from fedtheory.theory.judge.check import Check, judge, judge_statistical
from fedtheory.theory.judge.checks import Checks
from fedtheory.theory.judge.series import MOST, keeping
from fedtheory.theory.judge.statement import Statement, eq, le

TOLD = {"statement": "p/s", "form": "printed", "rule": "any", "mode": "exact"}


def said(check, verdict="open", assumptions=("smooth", "convex"), proof=""):
    known = form("printed", "a", lambda v: le(1, 2), verdict, proof=proof)
    statement = Statement("p/s", "t", "s", "run", (known,), assumptions)
    with pytest.raises(ConvergenceFailure) as caught:
        _fails(statement, check, Checks([check], statement))
    return str(caught.value)


def judged(lhs, rhs, at=(1, 2, 3, 4), **more):
    with keeping():
        check = judge(le(np.array(lhs, float), np.array(rhs, float)), **TOLD)
    rows = check.series.index[:, 0] if len(at) > 1 else [0]
    series = replace(check.series, horizon="T", at=np.array(at)[rows])
    return replace(check, series=series, **more)


def test_a_violation_is_told_with_both_sides_and_where_it_begins():
    text = said(judged([1, 2, 1, 3], [2, 1, 2, 2]))
    assert "Statement violated: p/s [printed]." in text
    assert "left side 2, bound 1, 2 times the bound" in text
    assert "it fails at 2 of 4 horizons looked at, first at T = 2" in text
    text = said(judged([1, 2], [2, -1], at=(4, 9)))
    assert (
        "left side 2, bound -1\n" in text and "at 1 of 2 horizons looked at, first at T = 9" in text
    )
    assert "bound 0\n" in said(judged([2], [0], at=(1,)))
    several = judged([2, 2, 0, 2], [1, 1, 1, 1], at=(1, 1, 2, 2))  # two seeds
    assert "it fails at 2 of 2 horizons looked at, first at T = 1" in said(several)
    many = 1.0 + np.arange(2 * MOST) % 2
    text = said(judged(many, many * 0 + 1.5, at=range(2 * MOST)))
    assert f"horizons kept of {2 * MOST:,} entries, first at T = 1" in text
    without = judged([2], [1], at=(1,))
    assert "it fails at" not in said(replace(without, series=replace(without.series, at=None)))
    assert "it fails at" not in said(replace(without, series=None))


def test_sides_of_an_equality_and_of_means_over_seeds():
    with keeping():
        equal = judge(eq(np.array([1.0, 2.0]), np.array([1.0, 2.5])), **TOLD)
        lhs = np.array([[3.0, 3.5, 4.0]])
        mean = judge_statistical(le(lhs, 0 * lhs + 1), 0.99, **TOLD | {"mode": "statistical"})
    assert "its two sides differ by 0.5" in said(equal)
    means = "3.5 times the bound (means of 3 seeds, confidence 0.99)"
    assert means in said(replace(mean, verdict="violated"))
    undecided = said(replace(mean, verdict="inconclusive", reason="too few"))
    assert (
        "Statement inconclusive: p/s [printed].\n  too few\n  left side 3.5, bound 1" in undecided
    )
    outside = Check("p/s", "printed", "any", "inconclusive", "exact", reason="the run diverged")
    assert said(outside).startswith("Run diverged.\n  the run diverged\n  What to do:")
    outside = replace(outside, verdict="not applicable", reason="no mu")
    assert said(outside).startswith("Statement not applicable: p/s [printed].\n  no mu\n")


def test_what_is_on_record_decides_the_advice():
    wrong = judged([2], [1], at=(1,))
    seven = tuple(f"assumption {k}" for k in range(7))
    text = said(wrong, "holds", seven, "Jensen")
    assert "the theorem is proved" in text and "; ".join(seven[:6]) in text and seven[6] not in text
    assert "this form is only tested: a correct run may break it" in said(wrong, "holds", seven)
    assert "this form is refuted" in said(wrong, "violated")
    assert "this form is open" in said(wrong, "open")


def evidence(kind, **more):
    return {"kind": kind, "title": "It costs $1.", "lines": ["a", "b", "c", "d"], **more}


def test_the_columns_of_every_kind():
    seeds = np.array([[4.0, 2.0], [2.0, 0.0]])
    table = figures.columns(evidence("rate", values=seeds))
    assert {k: v.tolist() for k, v in table.items()} == {
        "x": [0, 1], "mean": [3, 1], "low": [2, 0], "high": [4, 2]
    }  # fmt: skip
    assert figures.columns(evidence("rate", values=seeds, x=7))["x"].tolist() == [0, 1]
    table = figures.columns(evidence("contraction", values=[4.0, 2.0], x=[5, 7]))
    assert {k: v.tolist() for k, v in table.items()} == {"x": [5, 7], "mean": [4, 2]}
    table = figures.columns(evidence("reaching", values=[4.0, 2.0], cost=None, x=[5, 7]))
    assert table["x"].tolist() == [0, 1]
    table = figures.columns(evidence("reaching", values=[4.0, 2.0], cost=[0, 9]))
    assert table["x"].tolist() == [0, 9]
    table = figures.columns(evidence("bound", measured=seeds, bound=[1, 2], confidence=0.9))
    assert {k: v.tolist() for k, v in table.items()} == {
        "entry": [0, 1], "measured": [3, 1], "bound": [1, 2]
    }  # fmt: skip
    table = figures.columns(evidence("bound", measured=seeds, bound=5, confidence=None))
    assert table["measured"].tolist() == [4, 2, 2, 0] and table["bound"].tolist() == [5] * 4
    more = {"value": [3.0, 1.0], "half": [0.5, 0.0], "confidence": 0.9}
    table = figures.columns(evidence("bound", measured=seeds, bound=[1, 2], **more))
    assert (table["low"].tolist(), table["high"].tolist()) == ([2.5, 1], [3.5, 1])
    assert figures.columns(evidence("statement")) == {}


def lines(figure):
    return {line.get_label(): line for line in figure.axes[0].get_lines()}


def test_no_more_than_24_failing_entries_are_marked_evenly():
    bad = np.zeros(101, dtype=bool)
    bad[[0, 3]], bad[50:] = True, True
    given = {"measured": np.r_[0.0, np.ones(100)], "bound": np.ones(101), "confidence": None}
    drawn = lines(figures.draw(evidence("bound", bad=bad, **given)))
    marks = drawn["above it, or not shown below (52 of 101)"].get_xdata()
    of_them = np.flatnonzero(bad[1:]) + 1  # 0 has no place on a logarithmic axis
    assert marks.tolist() == [of_them[round(51 * k / 23)] for k in range(24)]
    bad[4:] = False
    marks = lines(figures.draw(evidence("bound", bad=bad, **given)))
    assert marks["above it, or not shown below (1 of 101)"].get_xdata().tolist() == [3]
    assert set(lines(figures.draw(evidence("bound", **given)))) == {"measured", "bound"}


def test_a_claimed_curve_begins_where_the_window_does():
    values = np.array([9.0, 8.0, 4.0, 2.0, np.inf, 1.0])
    given = {"values": values, "window": (1.5, 3.5), "claimed": -2.0, "fit": (-1.0, np.log(8.0))}
    drawn = lines(figures.draw(evidence("rate", **given)))
    assert drawn["measured"].get_xdata().tolist() == [1, 2, 3, 5]
    x, y = drawn["claimed: x^-2"].get_data()
    assert (len(x), x[0], x[-1]) == (50, pytest.approx(2), pytest.approx(3))
    assert y == pytest.approx(4 * (x / 2) ** -2.0)
    x, y = drawn["fitted: x^-1"].get_data()
    assert y == pytest.approx(8 / x)
    assert list(drawn["not finite from here on"].get_xdata()) == [4, 4]
    given |= {"claimed": 0.5, "window": (0, 3)}
    figure = figures.draw(evidence("contraction", **given))
    x, y = lines(figure)["claimed: factor 0.5"].get_data()
    assert (x[0], x[-1]) == (0, 3) and y == pytest.approx(9 * 0.5**x)
    x, y = lines(figure)["fitted: factor 0.3679"].get_data()
    assert y == pytest.approx(8 * np.exp(-x))
    outside = lines(figures.draw(evidence("rate", **given | {"window": (7, 9)})))
    assert set(outside) == {"measured", "not finite from here on"}


def test_axes_are_logarithmic_where_there_is_something_to_draw():
    given = {"values": np.array([4.0, 2.0, 1.0]), "window": (1, 2), "claimed": 0.5}
    for kind, own, scale, label in (
        ("rate", True, "log", "x"), ("rate", False, "log", "round"),
        ("contraction", True, "linear", "round"),
    ):  # fmt: skip
        axes = figures.draw(evidence(kind, own_x=own, **given)).axes[0]
        assert (axes.get_xscale(), axes.get_yscale(), axes.get_xlabel()) == (scale, "log", label)

    def axes_of(measured, bound):
        given = {"measured": np.array(measured), "bound": np.array(bound), "confidence": None}
        figure = figures.draw(evidence("bound", **given))
        return figure.axes[0].get_yscale(), lines(figure)["bound"].get_xdata().tolist()

    assert axes_of([0.0] * 4, [np.inf, 0.5, 0.0, -1.0]) == ("log", [1])
    assert axes_of([0.5, 0.0], [0.0, 0.0]) == ("log", [])
    assert axes_of([0.0, -1.0], [0.0, np.inf]) == ("linear", [])


def test_a_band_is_drawn_where_both_ends_have_a_place_on_the_axis():
    values = np.array([[0.5, 1.5], [-1.0, 3.0], [0.2, np.inf], [2.0, 4.0], [-3.0, 1.0]])
    given = {"values": values, "target": 0.1, "within": 4}
    for cost, label in ((None, "round"), ([0, 1, 2, 3, 4], "cost")):
        axes = figures.draw(evidence("reaching", cost=cost, **given)).axes[0]
        assert axes.get_xlabel() == label
        (band,) = axes.collections
        corners = {(float(x), float(y)) for path in band.get_paths() for x, y in path.vertices}
        assert corners == {(0.0, 0.5), (0.0, 1.5), (3.0, 2.0), (3.0, 4.0)}


def test_a_figure_says_the_title_and_three_short_lines(tmp_path):
    long = ["e" * 150, "f" * 151, "third", "fourth"]
    with pytest.raises(InvalidInput, match="nothing was compared"):
        figures.draw(evidence("none"))
    told = evidence("bound", measured=np.ones(2), bound=np.ones(2), confidence=None) | {"lines": long}
    texts = " ".join(t.get_text() for t in figures.draw(told).texts)
    assert "It costs" in texts and "1." in texts and "third" in texts and "fourth" not in texts
    assert figures._short(long[0]) == long[0] and figures._short(long[1]) == "f" * 147 + "..."
    told = evidence("bound", measured=np.ones(99), bound=np.ones(100), confidence=None, checks=1)
    figures.write(told | {"bound": 2.0}, tmp_path / "a.png")
    kept = json.loads((tmp_path / "a.json").read_text())["failure"]
    assert "measured" in kept and "checks" not in kept
    figures.write(told | {"measured": np.ones(100)}, tmp_path / "b.png")
    assert "measured" not in json.loads((tmp_path / "b.json").read_text())["failure"]
    rows = (tmp_path / "a.csv").read_text().splitlines()
    assert rows[0] == "entry,measured,bound" and rows[1] == "0.0,1.0,2.0" and len(rows) == 100


def test_a_statement_is_drawn_where_it_was_compared():
    known = form("printed", "a", lambda v: le(1, 2), "open")
    statement = Statement("p/s", "t", "s", "run", (known,))
    compared = Checks([judged([1, 3], [2, 2], at=(1, 2))], statement)
    outside = Check("p/s", "printed", "any", "not applicable", "exact", reason="no mu")
    assert figures._compared({"checks": [*compared, outside]})
    (drawn,) = figures.draw(evidence("statement", checks=compared)).axes
    assert drawn.axison and drawn.get_lines()
    for kind, checks in (("statement", [outside]), ("other", compared)):
        with pytest.raises(InvalidInput, match="nothing was compared"):
            figures.draw(evidence(kind, checks=checks))
    failed = ConvergenceFailure("a", ["b"], "c", {"kind": "statement", "checks": [outside], "n": 3})
    again = pickle.loads(pickle.dumps(failed))
    assert again.evidence == {"kind": "statement", "title": "a", "lines": ["b"], "n": 3}


def test_an_infinite_entry_is_a_run_that_diverged_unless_it_means_never():
    values = np.array([[1.0, np.inf]])
    with pytest.raises(ConvergenceFailure, match=r"v\[0, 1\] \(round 1\) is inf\n  the claim\n"):
        check_diverged("v", values, ("round",), "the claim")
    check_diverged("v", values, ("round",), "the claim", never=True)
    with pytest.raises(ConvergenceFailure):
        check_diverged("v", -values, ("round",), "", never=True)
