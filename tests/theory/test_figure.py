"""The figure of a study: its formulas, its headline, its axes."""

import re
from itertools import pairwise

import numpy as np
import pytest
from matplotlib.text import Text
from statements_at_hand import descent, sentence

from fedtheory.plotting.style import house_style
from fedtheory.theory import Quadratics, StronglyConvex, Uniform, form, le, printed, repaired, study
from fedtheory.theory.studies.counterexamples import instance_of
from fedtheory.theory.studies.figure import (
    _excess,
    _small_print,
    _two_lines,
    data,
    finding,
    formula,
    picture,
)


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


def test_an_instance_has_two_lines_and_says_what_is_left_out():
    losses = "; ".join(f"f{k} = 15/13 huber_107/2150(x - {k}) + (x - {k})²/2" for k in range(1, 11))
    words = f"measured/bound up to 0.9985 for {losses}, start 760/11, P = 1"
    first, second = _two_lines(words)
    found = re.fullmatch(r"(.*f(\d) = [^;]*); (\d) more losses, start 760/11, P = 1", f"{first} {second}")
    assert words.startswith(found[1]) and int(found[2]) + int(found[3]) == 10 and int(found[2]) > 1
    assert _two_lines(words.replace(losses, "f1 = x²/2")) == ["measured/bound up to 0.9985 for f1 = x²/2, start 760/11, P = 1"]
    several = "; ".join(f"f{k} = {'9' * 70} x²" for k in (1, 2, 3, 4))
    assert " ".join(_two_lines(several)).endswith("x²; 2 more losses")
    assert " ".join(_two_lines("; ".join(several.split("; ")[:3]))).endswith("x²; 1 more loss")
    assert _two_lines("word " * 99)[1].endswith("... (the rest is in the data of the picture)")
    constant = f"c = 1: violated at c = 2 (proved: {losses}, start (1, 2), with k = 1); no violation found at c = 3/2"
    form = {"worst": "", "constants": [constant]}
    assert _small_print(form) == ["c = 1: violated at c = 2 (proved); no violation found at c = 3/2"]


def test_a_form_that_fails_with_a_free_number_as_stated_is_not_said_to_fail():
    def doubled(q):
        yield printed(le(q.distance_sq_next, q.constant("kappa", 0, free=True) * q.distance_sq))

    [one] = study(sentence(doubled, problems=Quadratics(1, 1)), budget=20, necessity=False).studies
    shown = data(one)
    assert shown["forms"]["printed"]["verdict"] == "violated"
    assert finding(shown) == "Printed fails with the free number stated"


def test_no_line_stands_on_points_or_another_row():
    statement = sentence(
        lambda q: [printed(le(q.F_next, q.F / 2)), repaired(le(q.F_next, q.F))],
        problems=Quadratics(clients=1, dimension=1),
    )
    [one] = study(statement, budget=30, necessity=False).studies
    shown = data(one)
    words = " ".join(f"word{n}" for n in range(30))
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
