"""Both sides of every form about MOPES, MOLES, exact proximal steps, Moreau's envelope and orders.

On worked instances they are what is worked out without the package, in fractions
(`validation/references/worked_mopes.py`, and `worked_fedmls_<statement>.py` where there is one).
"""

from __future__ import annotations

from fractions import Fraction as Q
from importlib import import_module
from importlib.util import find_spec
from math import ceil

import numpy as np
import pytest
import worked_mopes as worked
from cases import each

from fedtheory import theorems
from fedtheory.central import MOLES, Simplex
from fedtheory.problems.nonsmooth import MaxAffine
from fedtheory.rational import to_file
from fedtheory.theorems.fedmls.conventional_rounds import ConventionalView
from fedtheory.theorems.fedmls.exact_prox_world import ENOUGH, ProxView
from fedtheory.theorems.fedmls.mopes_is_fedmls import SameView
from fedtheory.theorems.fedmls.mopes_world import MopesView, view_of_central_run
from fedtheory.theorems.fedmls.notation import PRINTED_COUNTS
from fedtheory.theorems.fedmls.orders import OrdersView
from fedtheory.theory.judge.check import judge_view
from fedtheory.theory.judge.registry import setting_of

LOSSES = [[(Q(2), Q(0)), (Q(-1), Q(1, 2))], [(Q(-2), Q(1)), (Q(3), Q(-3))], [(Q(-1), Q(0)), (Q(1), Q(-1))]]
LOSS = [(Q(-1), Q(0)), (Q(2), Q(-3, 2))]
PIECES = [[Q(1), Q(-1), Q(0)], [Q(0), Q(1), Q(-2)], [Q(-1), Q(0), Q(2)]]  # their maximum on the simplex is 0 at (2, 2, 1)/5 only

STATED = [
    (s.id.split("/")[1], f.name)
    for s in theorems.all_statements("fedmls/")
    if s.scope not in ("fedmls", "algebra")
    for f in s.forms
    if f.sides
]
PATHS = [form for statement, form in STATED if statement == "mopes-is-fedmls"]
BOUNDS = [key for key in STATED if key[0] != "mopes-is-fedmls"]
COUNTS = [key for key in STATED if key[0] in ("theorem-2-orders", "mopes-calls")]
LOCAL = {"prox without the square": ("flat", Q(-1, 4)), "local problem solved": ("exact", Q(0)), "x_0 outside X": ("sliding", Q(3, 2)),
         "x_0 outside X'": ("sliding", Q(5, 2)), "10 and 8": ("sliding", Q(0)), "10 and 4": ("sliding", Q(0))}  # fmt: skip
FACTORS = {"local problem solved": (8, 0), "10 and 4": (10, 4)}


def lines_of(losses):
    return {"slopes": to_file([[p for p, _ in c] for c in losses]), "offsets": to_file([[q for _, q in c] for c in losses])}


def form_of(statement, form):
    return theorems.get(f"fedmls/{statement}").form(form)


def moles_case(C):
    """(view of the library's run, excess and calls worked out) for one C, D = 19, K = 3 from (1, 0, 0)."""
    problem = MaxAffine(np.array(PIECES, dtype=float)[None], np.zeros((1, 3)))
    method = MOLES(1.0, 19.0, 3, 5**0.5, radius=4.0, C=float(C))
    star = np.array([0.4, 0.4, 0.2])
    view = view_of_central_run(method, problem, Simplex(3), np.array([1.0, 0, 0]), star, 0.0)
    value, calls = worked.moles(PIECES, Q(1), Q(19), C, Q(4), [Q(1), Q(0), Q(0)], 3, Q(5))
    return view, value, calls


def worked_out(statement, form):
    """(the package's sides, (lhs, rhs) of every row worked out without it)."""
    make = form_of(statement, form).sides
    name = f"worked_fedmls_{statement.replace('-', '_')}"
    if find_spec(name) is not None:
        own, build = import_module(name), setting_of(f"fedmls/{statement}").builders[form_of(statement, form).kind]
        return make(build(own.data(form))), own.sides(form)
    if statement.startswith("exact-prox"):
        lam = Q(3) if form == "rounds to epsilon" or statement.endswith("recursion") else Q(1, 2)
        given = {**lines_of(LOSSES), "lam": str(lam), "radius": "2", "x0": "-1", "rounds": 4}
        rows = worked.exact_prox(LOSSES, lam, Q(2), Q(-1), 4)
        view = ProxView.from_data(given)
        need, have = rows["enough"][0]
        assert (need <= have) == view.has(ENOUGH)
        return make(view), rows["recursion" if statement.endswith("recursion") else form]
    if statement == "mopes-bound":
        local, x0 = LOCAL[form]
        given = {**lines_of([LOSS]), "lam": "1/2", "D": "3", "low": "-1/2", "high": "1", "radius": "2", "x0": str(x0), "rounds": 3}
        words = {"sliding": "steps", "exact": "prox", "flat": "flat"}[local]
        excess, distance_sq, under, penalty = worked.mopes(LOSS, Q(1, 2), Q(3), (Q(-1, 2), Q(1)), Q(2), x0, 3, words)
        start, slack = FACTORS.get(form, (10, 8))
        view = MopesView.from_data({**given, "local": local})
        assert view.applies(form_of(statement, form)) is None
        return make(view), [(excess, (start * distance_sq + slack * 3) / under + penalty)]
    if statement.startswith("moles"):
        C = Q(7, 50) if form == "calls a round" else Q(2)
        view, value, calls = moles_case(C)
        rows = {
            "with 2C": [(value, (10 * (Q(9, 25) + Q(4, 25) + Q(1, 25)) + 8 * 19 + 2 * C) / 12 + Q(5, 2))],
            "calls a round": [(Q(c), Q(max(3, ceil(16 * 3 * 2 / C)))) for c in calls], "calls in all": [(Q(sum(calls)), Q(16 * 9))],
        }[form]
        return make(view), rows
    if statement == "conventional-rounds":
        if form.startswith("FedProx"):
            given = {"method": "fedprox", "shallow": "1/5", "slope": "3/4", "second": "1", "first": "1/2", "step": "1/3", "rounds": 4}
            return make(ConventionalView.from_data(given)), worked.pull(Q(1, 5), Q(3, 4), Q(1), Q(1, 2), Q(1, 3), 4)
        n, step, rounds, local = (4, Q(1, 3), 4, 1) if form.startswith("one") else (3, Q(1, 4), 2, 12)
        method = "subgradient" if local == 1 else "local-steps"
        given = {"method": method, "n": n, "mu": "1/2", "step": str(step), "rounds": rounds, "local": local}
        return make(ConventionalView.from_data(given)), worked.nesterov(n, Q(1, 2), step, rounds, local)
    assert (statement, form) in COUNTS, f"validation/references/{name}.py is to work out fedmls/{statement} a second time"
    printed = statement == "theorem-2-orders"
    rounds = "printed" if printed else "fewest"
    view = OrdersView.from_data({"reach": "5/2", "sigma": "1/2", "rounds": rounds})
    return make(view), [worked.orders(Q(5, 2), Q(1, 2), printed)[form]]


@each("name", BOUNDS)
def test_both_sides_are_the_numbers(name):
    sides, rows = worked_out(*name)
    assert sides.relation == "<=" and sides.lhs.shape == (len(rows), 1)
    for (lhs, rhs), a, b in zip(rows, sides.lhs[:, 0], sides.rhs[:, 0], strict=True):
        if name[0].startswith("moles"):  # the package's own MOLES, in floats
            assert (float(a), float(b)) == pytest.approx((float(lhs), float(rhs)), rel=1e-11)
        else:
            assert (a, b) == (lhs, rhs)


@pytest.mark.parametrize("form", PATHS)
def test_both_paths_are_the_numbers(form):
    losses = LOSSES[:2]
    given = {**lines_of(losses), "lam": "1", "D": "20", "radius": "2", "x0": "-1", "rounds": 3}
    view, paths = SameView.from_data(given), worked.both(losses, Q(1), Q(20), Q(2), Q(-1), 3)
    first = "z'" if form.startswith("line 14") else "fedmls"
    second = {"plain product, rescaled": "plain, rescaled", "plain product, the same parameters": "plain"}.get(form, "mean")
    assert [x[0] for x in paths[first]] == list(view.printed_line_14 if first == "z'" else view.fedmls)
    scale, share = {"mean": (1, 1), "plain": (1, 2), "plain, rescaled": (2, 2)}[second]
    assert paths[second] == view.mopes(scale, share).tolist()
    sides = form_of("mopes-is-fedmls", form).sides(view)
    assert sides.relation == "==" and sides.lhs.shape == (4,)
    assert [max(abs(a[0] - b) for b in c) for a, c in zip(paths[first], paths[second], strict=True)] == list(sides.lhs)


@pytest.mark.parametrize(("statement", "form"), COUNTS, ids=str)
def test_a_tenth_matters_where_a_limit_is_near(statement, form):
    """At reach = 100 the sandwiches are narrow: a constant a tenth off is refuted by one instance."""
    whole, of = theorems.get(f"fedmls/{statement}"), form_of(statement, form)
    rounds = "printed" if PRINTED_COUNTS in of.needs else "fewest"
    view = OrdersView.from_data({"reach": "100", "sigma": "1", "rounds": rounds})
    assert judge_view(whole, of, view).verdict == "holds"
    (mutant,) = of.mutants
    assert judge_view(whole, of, view, sides=mutant.sides).verdict == "violated"
