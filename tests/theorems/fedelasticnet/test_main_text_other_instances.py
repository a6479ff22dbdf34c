"""FedElasticNet's main text: the package and the second writing agree on instances whose numbers are all different.

The worked instances have small numbers, on which a product and a quotient, or a square and its
double, may be the same. Here no parameter is 0 or 1 and no two are equal, there are three features
or clients, and what is compared are both sides of every form that is about the instance. Minimisers
are the package's, and the second writing proves them.
"""

from __future__ import annotations

from fractions import Fraction as F

import numpy as np
import pytest
import worked_fedelasticnet_main_text as worked
import worked_fedelasticnet_one_round as rounds
import worked_fedelasticnet_signs as chance
from cases import each
from fedelasticnet_worlds import BUILDERS
from main_text_views import view_of
from mpmath import mp, mpf

from fedtheory import theorems
from fedtheory.theorems.fedelasticnet.statements.messages import PI_E, PI_E_ABOVE

NET = {"l1": "3/7", "l2": "5/2"}
REGRESSION = {
    "general": {
        **NET, "X": "3/2 2 -1/3;1/5 7/4 2;-2 1/2 5/3;4/3 -1 1/7", "y": "3 -2 5/3 7/2", "start": "2/3 -5/4 7/2", "trial": "-1/2 4/3 3",
    },
    "twins": {**NET, "X": "3/2 3/2 -1/3;7/4 7/4 2", "y": "3 5/3", "start": "2/3 -5/4 7/2", "trial": "-1/2 4/3 3"},
    "alike": {**NET, "X": "3/2 7/5 -1/3;7/4 9/5 2;2 2 5", "y": "3 5/3 2/7", "start": "2/3 -5/4 7/2", "trial": "-1/2 4/3 3"},
    "units": {**NET, "X": "3/5 5/13 -8/17;4/5 12/13 15/17", "y": "7/2 5/3", "start": "2/3 -5/4 7/2", "trial": "-1/2 4/3 3"},
    "orthonormal": {
        **NET, "X": "2/3 2/3 -1/3;-1/3 2/3 2/3;2/3 -1/3 2/3", "y": "3 5/2 7/2", "start": "2/3 -5/4 7/2", "trial": "-1/2 4/3 3",
    },
}  # fmt: skip
CURVED = {"H": "3 1/2 -2/3;1/2 5/2 1/4;-2/3 1/4 4/3", "q": "3/2 -7/3 5/4", "theta": "2/3 -5/4 7/2", "trial": "-1/2 4/3 3"}
MIXED = {**CURVED, **NET, "g": "7/5 -2/9 4/3"}
LOCAL = {
    "stored": MIXED,
    "not stored": {**MIXED, "g": "0 0 0"},
    "without l1": {**MIXED, "l1": "0", "g": "7/5 0 4/3"},
    "in practice": {**MIXED, "l1": "1/1000000"},
    "at rest": {**MIXED, "l1": "25/2"},
    "at the limit": {**MIXED, "l1": "463/120"},  # the largest entry of g - grad L(theta)
    "below it": {**MIXED, "l1": "463/160"},
    "does not mix": {**MIXED, "H": "3 0 0;0 5/2 0;0 0 4/3"},
    "concave": {**MIXED, "H": "-3 0 0;0 5/2 0;0 0 -4/3", "g": "0 0 0", "l2": "7/2"},
    "stands": {**MIXED, "H": "-3 0 0;0 5/2 0;0 0 -4/3", "g": "0 0 0", "l1": "45/4"},
}
THREE = {
    "H": ["3 1/2;1/2 5/2", "2 -2/3;-2/3 4/3", "7/5 0;0 1/3"], "q": ["3/2 -7/3", "-5/4 2", "2/9 7/2"], "theta": "2/3 -5/4", "l1": "3/7",
    "l2": "233/2", "beta": "19/5", "counts": "5 2 3",
}  # fmt: skip
OBJECTIVE = {
    "counts": THREE,
    "equal": {**THREE, "counts": "3/2 3/2 3/2", "theta": "2/3 0"},
    "in practice": {**THREE, "l1": "1/1000000"},
    "flat": {**THREE, "H": ["0 0;0 0", "2 0;0 0", "7/5 0;0 0"], "theta": "0 -5/4"},
}
MADE = {"regression": worked.Samples, "local": worked.Local, "objective": rounds.Objective}
ALL = [(k, n, g) for k, of in (("regression", REGRESSION), ("local", LOCAL), ("objective", OBJECTIVE)) for n, g in of.items()]
HALF = F(1, 2)
LAWS = {
    "fair": {"laws": [(F(1), [(F(5, 2), HALF), (F(-3, 7), HALF)])], "n": [1] * 3, "delta": F(2, 7), "theta": F(-4, 5), "d": 3},
    "weights": {"laws": [(F(1), [(F(5, 2), HALF), (F(-3, 7), HALF)])], "n": [2, 5, 3], "delta": F(2, 7)},
    "copies": {"laws": [(F(1), [(F(5, 2), HALF), (F(-3, 7), HALF)])], "n": [2] * 3, "copies": 4, "delta": F(3, 11)},
    "zeros": {"laws": [(F(1), [(F(5, 2), F(2, 7)), (F(0), F(3, 7)), (F(-3, 7), F(2, 7))])], "n": [3] * 3, "delta": F(2, 9)},
    "unfair": {
        "laws": [(F(1), [(F(5, 2), F(2, 7)), (F(0), F(1, 7)), (F(4, 3), F(2, 7)), (F(-3, 7), F(2, 7))])], "n": [2] * 3,
        "delta": F(2, 9), "theta": F(3, 5), "d": 2,
    },
    "either side": {
        "laws": [
            (F(2, 5), [(F(5, 2), F(4, 5)), (F(-3, 7), F(1, 5))]), (F(3, 5), [(F(5, 2), F(3, 10)), (F(-3, 7), F(7, 10)), (F(2), F(0))]),
        ],
        "n": [1] * 4, "delta": F(2, 9), "theta": F(1, 3), "d": 2,
    },
}  # fmt: skip
MESSAGES = {
    "fine": {"x": "1/5 -2/5 7/5 3 22/7 -1 0 1 1", "theta": "5/2 1/3 0 3/7 2 -3 5/2 0 -1", "t": "3/5", "bin": "2/7"},
    "threshold": {"x": "1/5 -2/5 7/5 3 22/7 -1 1/7", "theta": "5/2 1/3 0 3/7 2 -3 5/2", "t": "4/7", "bin": "2/7"},
    "grid": {"x": "2/7 -4/7 10/7 10/7 -8/7 12/7", "theta": "6/7 6/7 -4/7 -4/7 -8/7 2/7", "t": "4/7", "bin": "2/7"},
}
CELLS = {
    "own variance": ([(F(-5, 3), F(2, 7), 3), (F(-1, 2), F(9, 4), 5), (F(5, 2), F(3, 8), 2)], None),
    "another": ([(F(-5, 3), F(2, 7), 3), (F(-1, 2), F(9, 4), 5), (F(5, 2), F(3, 8), 2)], F(11, 6)),
}


def shown(x) -> str:
    return " ".join(str(v) for v in x)


def with_minimisers(kind: str, given, view):
    """The same with the package's minimisers, which the second writing proves."""
    if kind == "regression":
        return {**given, "lasso": [shown(x) for x in view.lasso], "net": shown(view.net), "update": shown(view.update)}
    unbounded = kind == "local" and (np.diagonal(view.H) + view.lambda2).min() <= 0
    found = {"delta": "", "delta0": ""} if unbounded else {}
    if kind == "local" and not unbounded:
        found = {"delta": shown(view.delta), "delta0": shown(view.without_l1.delta)}
    return {**given, **found}


def forms_of(kind: str):
    every = [(s, n, theorems.get(f"fedelasticnet/{s}").form(n)) for s, n in worked.FORMS]
    return [found for found in every if found[2].kind == kind]


def entries(side) -> list[F]:
    return [F(x) for x in np.asarray(side, dtype=object).reshape(-1)]


def judged(kind: str, given):
    """The view, and the forms that are about it."""
    view = view_of(kind, given)
    return view, [f for f in forms_of(kind) if view.applies(f[2]) is None]


@each(("kind", "name", "given"), ALL)
def test_both_sides_agree(kind, name, given):
    view, forms = judged(kind, given)
    made = MADE[kind](with_minimisers(kind, given, view))
    for statement, name, form in forms:
        left, right = worked.FORMS[statement, name][1](made)
        found, more = form.sides(view).terms[0], form.sides(view).terms[1:]
        assert [entries(found), entries(sum(more))] == [list(left), list(right)], (statement, name)


def test_no_form_is_left_out():
    have = {f[:2] for kind, _, given in ALL for f in judged(kind, given)[1]}
    assert {f[:2] for kind in MADE for f in forms_of(kind)} - have == set()


@pytest.mark.parametrize("with_l1", [True, False])
def test_in_other_units_everything_is_as_many_times_as_large(with_l1):
    """The gap of R, the minimiser and the second term are those of losses and parameters times 5/3."""
    view = view_of("objective", THREE)
    scaled = view.scaled(F(5, 3), with_l1)
    assert (scaled.star == view.star).all() and scaled.gap == F(5, 3) * view.gap and view.gap > 0
    at = [view.theta] * view.m
    assert (scaled.gradients(at) == F(5, 3) * view.gradients(at)).all()
    assert scaled.floor == view.floor * (F(5, 3) if with_l1 else F(3, 5))  # lambda_1^2 over something like lambda_2
    one = view_of("local", MIXED)
    times = one.scaled(F(5, 3), with_l1)
    assert times.lambda1 == one.lambda1 * (F(5, 3) if with_l1 else 1) and (times.pull == F(5, 3) * one.pull).all()
    assert (times.delta == one.delta).all() == with_l1


# --- chance -------------------------------------------------------------------------------------
def real(x: F) -> mpf:
    """A fraction to as many digits as mpmath has."""
    return mpf(x.numerator) / x.denominator


@pytest.mark.parametrize("name", LAWS)
def test_chances_agree(name):
    """On every law, also where a form is not about it: its sides are numbers all the same."""
    view, law = view_of("signs", LAWS[name]), chance.Law(LAWS[name])
    mp.dps = 60
    for (statement, form), (_, sides_of) in chance.SIGNS.items():
        if form == "about its mean" and len(law.laws) > 1:  # the mean of what: only given the law
            continue
        judged, (p, (factor, x)) = theorems.get(f"fedelasticnet/{statement}").form(form), sides_of(law)
        sides = judged.sides(view)
        ((left,), (right,)) = map(entries, sides.terms)
        if sides.relation == "==":
            assert (left, right, x) == (p, factor, 0)
            continue
        off = real(right) - real(F(factor)) * mp.exp(-real(x))
        assert left == p and abs(off) < mpf(10) ** -25, form
        assert off <= 0 if judged.established["any"] == "holds" else off >= 0, form


@pytest.mark.parametrize("name", MESSAGES)
def test_messages_agree(name):
    view, found = view_of("message", MESSAGES[name]), chance.message(MESSAGES[name])
    for statement in ("l1-and-entropy", "updates-for-models"):
        for form in theorems.get(f"fedelasticnet/{statement}").forms:
            assert (view.applies(form) is None) == ((statement, form.name) in found)
            if view.applies(form) is None:
                assert tuple(t for side in form.sides(view).terms for t in entries(side)) == found[statement, form.name], form.name


@pytest.mark.parametrize("name", CELLS)
def test_densities_agree(name):
    cells, given = CELLS[name]
    data = {"cells": [[str(a), str(w), c] for a, w, c in cells]} | ({} if given is None else {"variance": str(given)})
    view, (power, n, variance) = BUILDERS["density"](data), chance.density(cells, given)
    for form, pi_e in (("for a given variance", PI_E), ("hence", PI_E_ABOVE)):
        found = theorems.get("fedelasticnet/gaussian-entropy").form(form)
        left, right = found.sides(view).terms
        assert left * (2 * pi_e * variance) ** n == power and right == 1
    assert (view.applies(theorems.get("fedelasticnet/gaussian-entropy").form("for a given variance")) is None) == (given is None)
