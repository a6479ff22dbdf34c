"""The figure of a study: its formulas, its headline, its axes."""

from itertools import pairwise

import numpy as np
import pytest
from matplotlib.text import Text
from statements_at_hand import descent, sentence

from fedtheory.plotting.style import house_style
from fedtheory.theory import Quadratics, StronglyConvex, Uniform, form, le, printed, repaired, study
from fedtheory.theory.studies.counterexamples import instance_of
from fedtheory.theory.studies.figure import _excess, data, finding, formula, picture


@pytest.mark.parametrize("latex, drawn", [
    (r"F(x^+) \le F(x) - \tfrac1{2\beta} \|\nabla F(x)\|^2", r"$F(x^+) \leq F(x) - \frac{1}{2\beta} \|\nabla F(x)\|^2$"),
    (r"\Big(\tfrac12\Big) \left(x\right)", r"$(\frac{1}{2}) \left(x\right)$"),
    (r"\frac{1", ""),
    ("", ""),
    (r"\nosuchthing", ""),
])  # fmt: skip
def test_formulas_are_drawn_where_they_parse(latex, drawn):
    assert formula(latex) == drawn


def test_a_formula_that_is_too_wide_is_left_out():
    assert formula(r"F(x) + F(y)", 6.0) and not formula(r"F(x) + F(y)" * 20, 6.0)


def _texts(shown):
    with house_style():
        made = picture(shown)
        [ax] = made.axes
        said = [*ax.texts, *(t for legend in made.legends for t in legend.get_texts())]
        return made, ax, [t.get_text() for t in said]


def test_a_lemma_is_drawn_with_its_formulas_and_constants():
    [one] = study(descent(), budget=90).studies
    shown = data(one)
    _, ax, texts = _texts(shown)
    assert any(r"\nabla F" in t and t.startswith("$") for t in texts)
    assert any("half = 1/2: violated at half = " in t for t in texts)
    excess = [_excess(p) for points in shown["points"].values() for p in points]
    left, right = ax.get_xlim()
    assert left < min(excess) and max(excess) < right, "no point at an edge"
    assert right - left < 1.2 * (max(excess) - min(excess)), "and no empty half"
    assert all((_excess(p) > 0) == (p["verdict"] == "violated") for points in shown["points"].values() for p in points)


def test_a_run_whose_ratios_span_decades_has_a_logarithmic_axis_above_1():
    statement = sentence(
        lambda q: [
            printed(le(q.distance_sq[-1], q.distance_sq[0] / 1000), r"\tfrac1{1000}"),
            repaired(le(q.distance_sq[-1], q.distance_sq[0]), r"D_T \le D_0"),
            form("of the loss", le(q.F[-1], q.F[0])),
        ],
        over="run", problems=StronglyConvex(clients=1, dimension=1),
    )  # fmt: skip
    [one] = study(statement, budget=90, necessity=False).studies
    shown = data(one)
    assert shown["rounds"]["of the loss"] == [] and shown["forms"]["of the loss"]["no_ratio"]
    _, ax, texts = _texts(shown)
    assert "logarithmic above 1" in ax.get_ylabel() and ax.get_yscale() == "symlog"
    highest = max(r["ratio"] for r in shown["rounds"]["printed"])
    assert 10 < highest < ax.get_ylim()[1]
    placed = ax.yaxis.get_transform().transform(np.array([0.0, 0.25, 1.0, 10.0, 1e5]))
    assert np.allclose(placed, [0, 0.25, 1, 2, 6])  # linear up to 1, logarithmic above
    assert not len(ax.yaxis.get_minorticklocs())
    assert any(r"D_T \leq D_0" in t for t in texts) and any("no measured/bound" in t for t in texts)


def test_an_instance_is_not_cut_and_no_line_stands_on_points_or_another_row():
    statement = sentence(
        lambda q: [printed(le(q.F_next, q.F / 2)), repaired(le(q.F_next, q.F))],
        problems=Quadratics(clients=1, dimension=1),
    )
    [one] = study(statement, budget=30, necessity=False).studies
    shown = data(one)
    words = " ".join(f"word{n}" for n in range(50))
    shown["forms"]["printed"] |= {"worst": words, "constants": ["a constant"]}
    made, ax, texts = _texts(shown)
    assert words in " ".join(texts)
    with house_style():
        made.canvas.draw()
        small = [t.get_window_extent() for t in ax.texts if t.get_text()]
        points = [ax.transData.transform(c.get_offsets())[:, 1] for c in ax.collections]
    between = [(a.y0, a.y1) for a in small]
    assert not any(low < y < high for low, high in between for ys in points for y in ys)
    rows = sorted({(round(low), round(high)) for low, high in between})
    assert all(high <= low for (_, high), (low, _) in pairwise(rows))


def test_the_headline_is_never_cut():
    forms = {name: {"verdict": "holds", "attained": False} for name in ("printed", "repaired", "a form of quite a long name")}
    forms["another one with a long name"] = {"verdict": "violated", "attained": False}
    forms["sharp"] = {"verdict": "holds", "attained": True}
    assert finding({"forms": forms}) == "1 form fails; 4 forms hold; sharp with equality"
    assert finding({"forms": {"printed": forms["printed"]}}) == "Printed holds"
    few = {name: forms["printed"] for name in "abc"}
    assert finding({"forms": few}) == "A, b and c hold"


def test_dollars_in_a_title_are_no_formula():
    small = Quadratics(clients=1, dimension=1)
    statement = sentence(lambda q: [printed(le(q.F_next, q.F))], problems=small, title=r"costs $1 and \frac{ $")
    [one] = study(statement, budget=30, necessity=False).studies
    made, _, _ = _texts(data(one))
    made.savefig("/dev/null", format="png")
    shown = " ".join(t.get_text() for t in made.findobj(Text))
    assert "costs" in shown and "1 and" in shown


def test_a_bound_that_is_0_and_fails_is_drawn_above_all_ratios():
    statement = sentence(
        lambda q: [printed(le(q.distance_sq[-1], (1 - q.eta * q.mu) ** q.T * q.distance_sq[0]))],
        over="run", rounds=(1, 3), sampling=Uniform, problems=StronglyConvex(clients=2, dimension=1),
    )  # fmt: skip
    [one] = study(statement, budget=150, necessity=False).studies
    [witness] = one.counterexamples.values()
    T, shown = instance_of(witness).rounds, data(one)
    assert witness.rhs == "0"
    assert next(r["ratio"] for r in shown["rounds"]["printed"] if r["T"] == T) is None
    assert sum(count for _, count in shown["tried"]) == one.search.tried
    made, ax, texts = _texts(shown)
    above = [line for line in ax.lines if line.get_marker() == "^"]
    assert T in [x for line in above for x in line.get_xdata()]
    assert {y for line in above for y in line.get_ydata()} == {ax.get_ylim()[1]}
    assert any("▲: it is 0" in text for text in texts)
    made.canvas.draw()
    assert f"{T}\n{dict(shown['tried'])[T]}" in [t.get_text() for t in ax.get_xticklabels()]
