"""MOPES, MOLES, exact proximal steps and other methods: certified gaps, few rounds, limits, and MOLES against the second writing."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction as Q
from math import ceil

import numpy as np
import pytest
import worked_mopes as worked

from fedtheory import theorems
from fedtheory.central import MOLES, Simplex
from fedtheory.errors import InvalidInput
from fedtheory.problems.nonsmooth import MaxAffine
from fedtheory.rational import to_file
from fedtheory.theorems.fedmls.conventional_rounds import ConventionalView
from fedtheory.theorems.fedmls.exact_prox_world import ENOUGH, ProxView
from fedtheory.theorems.fedmls.mopes_is_fedmls import SameView
from fedtheory.theorems.fedmls.mopes_world import INSIDE, OUTSIDE, OUTSIDE_BALL, MopesView, view_of_central_run
from fedtheory.theorems.fedmls.notation import PRINTED_COUNTS
from fedtheory.theorems.fedmls.of_files import column
from fedtheory.theorems.fedmls.orders import OrdersView
from fedtheory.theory.judge.check import judge_view

# one is steepest on the left, and a piece of one is nowhere the largest
LOSSES = [
    [(Q(7, 3), Q(0)), (Q(-5, 4), Q(1, 2))], [(Q(-11, 4), Q(2, 3)), (Q(2), Q(-3))],
    [(Q(-3, 5), Q(1, 7)), (Q(3, 2), Q(-1)), (Q(5), Q(-40))],
]  # fmt: skip
LOSS = [(Q(-4, 3), Q(1, 5)), (Q(7, 3), Q(-3, 2))]
PIECES = [[Q(1), Q(-1), Q(0)], [Q(0), Q(1), Q(-2)], [Q(-1), Q(0), Q(2)]]  # their maximum on the simplex is 0 at (2, 2, 1)/5 only


def lines_of(losses):
    return {"slopes": to_file([[p for p, _ in c] for c in losses]), "offsets": to_file([[q for _, q in c] for c in losses])}


def both_sides(statement, form, view):
    sides = theorems.get(f"fedmls/{statement}").form(form).sides(view)
    return list(zip(np.ravel(sides.lhs), np.ravel(sides.rhs), strict=True))


def test_what_the_certified_gaps_cost():
    """gamma_k eta_k in round k's recursion, 2/(K(K+1)) sum_k k eta_k in the bounds; and what is uncertain of F* is in their noise."""
    given = {**lines_of(LOSSES), "lam": "2/5", "radius": "3/2", "x0": "-5/4", "rounds": 4}
    eta, solved = [Q(1, 3), Q(2, 5), Q(3, 7)], ProxView.from_data(given)
    view = replace(solved, gaps=column(eta), noise=Q(1, 8))
    more = {
        ("exact-prox", "repaired"): [Q(2, 20) * (eta[0] + 2 * eta[1] + 3 * eta[2])],
        ("exact-prox-recursion", "repaired"): [eta[0], Q(2, 3) * eta[1], Q(2, 4) * eta[2]],
    }
    more |= {("exact-prox", form): more["exact-prox", "repaired"] for form in ("7.9 for 8", "rounds to epsilon")}
    for name, added in more.items():
        before, after = both_sides(*name, solved), both_sides(*name, view)
        assert after == [(a, b + extra) for (a, b), extra in zip(before, added, strict=True)], name
        assert theorems.get(f"fedmls/{name[0]}").form(name[1]).sides(view).noise == Q(1, 8)


def test_few_rounds_have_few_rows():
    given = {**lines_of(LOSSES), "lam": "2/5", "radius": "3/2", "x0": "-5/4"}
    one, two = (ProxView.from_data({**given, "rounds": K}) for K in (1, 2))
    assert both_sides("exact-prox-recursion", "repaired", one) == [(0, 0)]
    assert len(both_sides("exact-prox-recursion", "repaired", two)) == 1
    assert two.client_sq[0, 0] == two.server_sq[0, 0] == two.distance_sq  # all start at x_0


def test_enough_rounds_to_epsilon():
    """K(K+1) >= 16 G^2 ||x_0 - x*||^2/epsilon^2 with epsilon = lambda G^2: 12 * 4/9 * 9 = 48 = 16 * 3, and no more than that."""
    given = {"lam": "2/3", "radius": "3/2", "x0": "-5/4", "rounds": 3}
    view = ProxView.from_data({**lines_of(LOSSES), **given})
    view = replace(view, G_sq=Q(9), distance_sq=Q(3))
    assert view.has(ENOUGH) and not replace(view, distance_sq=Q(3) + Q(1, 10**9)).has(ENOUGH)


def test_where_the_start_is():
    numbers = {"lam": "2/5", "D": "7/2", "low": "-1/3", "high": "5/4", "radius": "9/4", "rounds": 1}
    for x0, where in (("-1/3", INSIDE), ("5/4", INSIDE), ("9/4", OUTSIDE), ("-9/4", OUTSIDE), ("23/10", OUTSIDE_BALL)):
        assert where in MopesView.from_data({**lines_of([LOSS]), **numbers, "x0": x0}).facts, x0


def test_runs_too_long_for_fractions_are_refused():
    numbers = {"lam": "2/5", "low": "-1/3", "high": "5/4", "radius": "9/4", "x0": "0"}
    with pytest.raises(InvalidInput, match=r"\d+ exact local steps, more than 10000: take fewer rounds"):
        MopesView.from_data({**lines_of([LOSS]), **numbers, "D": "1/10000", "rounds": 4})
    with pytest.raises(InvalidInput, match=r"\d+ exact local steps, more than 10000"):
        given = {"lam": "2/5", "D": "1/10000", "radius": "2", "x0": "0", "rounds": 4}
        SameView.from_data({**lines_of(LOSSES), **given}).mopes()


def test_moles():
    lam, D, C, K = Q(3, 2), Q(47), Q(9, 5), 3
    method = MOLES(float(lam), float(D), K, 5**0.5, radius=4.0, C=float(C))
    problem = MaxAffine(np.array(PIECES, dtype=float)[None], np.zeros((1, 3)))
    view = view_of_central_run(method, problem, Simplex(3), np.array([1.0, 0, 0]), np.array([0.4, 0.4, 0.2]), 0.0, noise=0.375)
    value, calls = worked.moles(PIECES, lam, D, C, Q(4), [Q(1), Q(0), Q(0)], K, Q(5))
    sides = theorems.get("fedmls/moles-bound").form("with 2C").sides(view)
    bound = (10 * Q(14, 25) + 8 * D + 2 * C) / (lam * K * (K + 1)) + lam * Q(5, 2)
    assert (sides.lhs[0, 0], sides.rhs[0, 0]) == pytest.approx((float(value), float(bound)), rel=1e-11)
    assert 0.375 <= sides.noise <= 0.375 + 1e-11  # F* is known to this, and the run to its rounding
    limit = max(3, -(-16 * K * 2 * 5 // 9))
    assert both_sides("moles-calls", "calls a round", view) == [(c, limit) for c in calls]
    assert replace(view, diameter_sq=Q(1, 40)).call_limit().tolist() == [[3.0]] * K  # 16 K Delta^2/C < 1


def moles_case(C):
    """(view of the library's run, excess and calls worked out) for one C, D = 19, K = 3 from (1, 0, 0)."""
    problem = MaxAffine(np.array(PIECES, dtype=float)[None], np.zeros((1, 3)))
    method = MOLES(1.0, 19.0, 3, 5**0.5, radius=4.0, C=float(C))
    star = np.array([0.4, 0.4, 0.2])
    view = view_of_central_run(method, problem, Simplex(3), np.array([1.0, 0, 0]), star, 0.0)
    value, calls = worked.moles(PIECES, Q(1), Q(19), C, Q(4), [Q(1), Q(0), Q(0)], 3, Q(5))
    return view, value, calls


@pytest.mark.parametrize(
    ("statement", "form", "C"),
    [("moles-bound", "with 2C", Q(2)), ("moles-calls", "calls a round", Q(7, 50)), ("moles-calls", "calls in all", Q(2))],
)
def test_moles_worked(statement, form, C):
    """The package's own MOLES is in floats."""
    view, value, calls = moles_case(C)
    rows = {
        "with 2C": [(value, (10 * (Q(9, 25) + Q(4, 25) + Q(1, 25)) + 8 * 19 + 2 * C) / 12 + Q(5, 2))],
        "calls a round": [(Q(c), Q(max(3, ceil(16 * 3 * 2 / C)))) for c in calls],
        "calls in all": [(Q(sum(calls)), Q(16 * 9))],
    }[form]
    found = both_sides(statement, form, view)
    assert np.ravel(found) == pytest.approx([float(x) for x in np.ravel(rows)], rel=1e-11) and len(found) == len(rows)


COUNTS = [
    (statement, form.name) for statement in ("theorem-2-orders", "mopes-calls")
    for form in theorems.get(f"fedmls/{statement}").forms
]  # fmt: skip


@pytest.mark.parametrize(("statement", "form"), COUNTS, ids=str)
def test_a_tenth_matters_where_a_limit_is_near(statement, form):
    """At reach = 100 the sandwiches are narrow: a constant a tenth off is refuted by one instance."""
    whole = theorems.get(f"fedmls/{statement}")
    of = whole.form(form)
    rounds = "printed" if PRINTED_COUNTS in of.needs else "fewest"
    view = OrdersView.from_data({"reach": "100", "sigma": "1", "rounds": rounds})
    assert judge_view(whole, of, view).verdict == "holds"
    (mutant,) = of.mutants
    assert judge_view(whole, of, view, sides=mutant.sides).verdict == "violated"


STEPS = {"method": "subgradient", "n": 3, "mu": "2/3", "step": "3/8", "rounds": 2}
PULL = {"method": "fedprox", "shallow": "2/7", "slope": "4/5", "second": "5/3", "first": "1/4", "step": "2/5", "rounds": 2}


@pytest.mark.parametrize(
    ("given", "changes"),
    [
        (STEPS, {"n": 0, "mu": "0", "step": "0", "rounds": 0, "local": 2}),
        (STEPS, {"method": "local steps"}),
        ({**STEPS, "method": "local-steps"}, {"local": 0}),
        (PULL, {"shallow": "0", "slope": "1/2", "second": "0", "first": "0", "step": "0", "rounds": 0}),
    ],
    ids=["subgradient", "no method", "local steps", "fedprox"],
)
def test_numbers_of_no_other_method_are_refused(given, changes):
    """Each at the limit itself: what is asked for is above it."""
    for name, value in changes.items():
        with pytest.raises(InvalidInput, match=f"{name} = "):
            ConventionalView.from_data({**given, name: value})


def test_the_least_numbers_are_taken():
    view = ConventionalView.from_data({**STEPS, "n": 1, "rounds": 1, "mu": "1/1000", "step": "1/1000"})
    assert view.excess.tolist() == view.floor.tolist() == [[Q(500)]]
    assert len(ConventionalView.from_data({**PULL, "slope": "501/1000", "rounds": 1}).excess) == 2
    assert len(ConventionalView.from_data({**STEPS, "rounds": 7}).excess) == 3  # of x_k with k < n alone
