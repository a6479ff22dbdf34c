"""Local steps and rounds of all clients where no number is 0 or 1: the package and the second writing agree exactly.

The instances of test_worked_main_text have short numbers, which other formulas may have, too. Every form of SCAFFOLD's steps and
of a round is judged here, also where it is not about the instance: its sides are formulas, and an instance at which both are 0
does not tell formulas apart.
"""

from __future__ import annotations

from fractions import Fraction as F

import numpy as np
import worked_fedelasticnet_one_round as rounds
from cases import each
from fedelasticnet_worlds import BUILDERS
from worked_fedelasticnet_main_text import FORMS as SIDES
from worked_fedelasticnet_main_text import mul, numbers, sub

from fedtheory import theorems

THREE = {"H": ["5/2 2/3;2/3 7/4", "4/3 -1/5;-1/5 8/3", "9/4 3/7;3/7 6/5"], "q": ["7/3 -5/4", "-3/2 11/6", "5/7 13/9"]}
STEPS = {**THREE, "theta": "8/3 -7/5", "lr": "2/9", "l1": "3/7", "l2": "5/2", "controls": ["2/3 -3/5", "-5/2 7/4", "9/5 -4/3"]}
UNMOVED = {"H": ["5/2 0;0 7/4", "4/3 0;0 8/3"], "q": ["7/3 -5/4", "-3/2 11/6"], "theta": "14/15 -7/5"}  # client 1 stays in the first
INSTANCES = {
    "steps": {**STEPS, "B": 4, "l1": "0", "l2": "0"},
    "penalised": {**STEPS, "B": 4},
    "fresh": {**STEPS, "B": 3, "l1": "0", "l2": "0", "controls": "fresh"},
    "fresh, penalised": {**STEPS, "B": 3, "controls": "fresh"},
    "one step": {**STEPS, "B": 1, "l1": "13/3"},
    "unmoved": {**UNMOVED, "B": 3, "lr": "2/9", "l1": "3/7", "l2": "5/2", "controls": ["0 2/3", "0 -3/5"]},
}
MOVED = {**THREE, "theta": "8/3 -7/5", "l1": "3/7", "l2": "5/2", "beta": "7/2", "mu": "2/3", "delta": ["2/3 0", "-3/5 7/4", "0 -5/6"]}
PULLS = ["3/7 -1/5", "-3/7 3/7", "2/9 -3/7"]  # lambda_1 s_k: +-lambda_1 where a client moves, less where it does not
RESTING = {**MOVED, "delta": ["0 0"] * 3}
RULES = ("sign", "true-gradient")


def kept(given):
    """The g_k with which these moves are optimal."""
    out = []
    for h, q, move, pull in zip(given["H"], given["q"], given["delta"], PULLS, strict=True):
        local = [a + b for a, b in zip(numbers(given["theta"]), numbers(move), strict=True)]
        grad = sub(mul(numbers(h), local), numbers(q))
        g = [a + F(given["l2"]) * x + p for a, x, p in zip(grad, numbers(move), numbers(pull), strict=True)]
        out.append(" ".join(map(str, g)))
    return out


ROUNDS = {"moved": {**MOVED, "stored": kept(MOVED)}, "nobody moves": {**RESTING, "stored": kept(RESTING)}}
FORMS = {
    kind: [(s, f) for s in theorems.all_statements("fedelasticnet/") if s.scope == kind for f in s.forms]
    for kind in ("local-steps", "everybody")
}


def name(x):
    return getattr(x, "id", None) or getattr(x, "name", x)


def rows(values):
    return [v.split() for v in values]


def view_of(given, kind, **more):
    data = {"H": [rows(h.split(";")) for h in given["H"]], "q": rows(given["q"]), "theta": given["theta"].split()}
    data |= {"lambda1": given["l1"], "lambda2": given["l2"], **more}
    return BUILDERS[kind](data | {k: given[k] for k in ("lr", "B", "beta", "mu") if k in given})


def compare(statement, form, view, second):
    sides = form.sides(view)
    left, right = SIDES[statement.id.split("/")[1], form.name][1](second)
    if sides.relation == "==":
        left, right = [abs(a - b) for a, b in zip(left, right, strict=True)], [F(0)] * len(left)
    assert [[F(x) for x in np.ravel(side)] for side in (sides.lhs, sides.rhs)] == [list(left), list(right)]


@each("instance", INSTANCES)
@each(("statement", "form"), FORMS["local-steps"])
def test_both_writings_of_local_steps_agree(statement, form, instance):
    given = INSTANCES[instance]
    fresh = given["controls"] == "fresh"
    view = view_of(given, "local-steps", controls="fresh" if fresh else rows(given["controls"]))
    compare(statement, form, view, rounds.Steps(given))


@each("instance", ROUNDS)
@each("rule", RULES)
@each(("statement", "form"), FORMS["everybody"])
def test_both_writings_of_a_round_agree(statement, form, rule, instance):
    given = ROUNDS[instance]
    compare(statement, form, view_of(given, "everybody", stored=rows(given["stored"]), rule=rule), rounds.Round(given, rule))


def test_one_client_stays_in_one_coordinate():
    view = view_of(INSTANCES["unmoved"], "local-steps", controls=rows(INSTANCES["unmoved"]["controls"]))
    assert (view.moves != 0).tolist() == [[False, True], [True, True]]
