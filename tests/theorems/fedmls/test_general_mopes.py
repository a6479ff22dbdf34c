"""Other instances of the forms about MOPES, MOLES, the exact proximal step, Moreau's envelope and other methods, whose parameters are
all different and none of them 1: the library and the second writings (`validation/references/worked_mopes.py`) give the same sides."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction as Q

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
from fedtheory.theorems.fedmls.moreau_envelope import EnvelopeView
from fedtheory.theorems.fedmls.of_files import column
from fedtheory.theorems.fedmls.orders import OrdersView

# one is steepest on the left, and a piece of one is nowhere the largest
LOSSES = [
    [(Q(7, 3), Q(0)), (Q(-5, 4), Q(1, 2))], [(Q(-11, 4), Q(2, 3)), (Q(2), Q(-3))],
    [(Q(-3, 5), Q(1, 7)), (Q(3, 2), Q(-1)), (Q(5), Q(-40))],
]  # fmt: skip
LOSS = [(Q(-4, 3), Q(1, 5)), (Q(7, 3), Q(-3, 2))]
PIECES = [[Q(1), Q(-1), Q(0)], [Q(0), Q(1), Q(-2)], [Q(-1), Q(0), Q(2)]]  # their maximum on the simplex is 0 at (2, 2, 1)/5 only
LOCAL = {"prox without the square": "flat", "local problem solved": "exact", "10 and 8": "sliding", "10 and 4": "sliding"}


def lines_of(losses):
    return {"slopes": to_file([[p for p, _ in c] for c in losses]), "offsets": to_file([[q for _, q in c] for c in losses])}


def both_sides(statement, form, view):
    sides = theorems.get(f"fedmls/{statement}").form(form).sides(view)
    return list(zip(np.ravel(sides.lhs), np.ravel(sides.rhs), strict=True))


@pytest.mark.parametrize("lam", [Q(2, 5), Q(12, 5)], ids=str)
def test_local_problems_solved(lam):
    given = {**lines_of(LOSSES), "lam": str(lam), "radius": "3/2", "x0": "-5/4", "rounds": 5}
    view, rows = ProxView.from_data(given), worked.exact_prox(LOSSES, lam, Q(3, 2), Q(-5, 4), 5)
    for form in ("repaired", "7.9 for 8", "rounds to epsilon"):
        assert both_sides("exact-prox", form, view) == rows[form], form
    assert both_sides("exact-prox-recursion", "repaired", view) == rows["recursion"]
    need, have = rows["enough"][0]
    assert (need <= have) == view.has(ENOUGH)
    assert view.client_sq[0, 0] == view.server_sq[0, 0] == view.distance_sq  # all start at x_0


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
    found = both_sides("exact-prox-recursion", "repaired", two)
    assert found == worked.exact_prox(LOSSES, Q(2, 5), Q(3, 2), Q(-5, 4), 2)["recursion"] and len(found) == 1


def test_enough_rounds_to_epsilon():
    """K(K+1) >= 16 G^2 ||x_0 - x*||^2/epsilon^2 with epsilon = lambda G^2: 12 * 4/9 * 9 = 48 = 16 * 3, and no more than that."""
    given = {"lam": "2/3", "radius": "3/2", "x0": "-5/4", "rounds": 3}
    view = ProxView.from_data({**lines_of(LOSSES), **given})
    view = replace(view, G_sq=Q(9), distance_sq=Q(3))
    assert view.has(ENOUGH) and not replace(view, distance_sq=Q(3) + Q(1, 10**9)).has(ENOUGH)


@pytest.mark.parametrize("form", LOCAL)
def test_mopes(form):
    words = {"sliding": "steps", "exact": "prox", "flat": "flat"}[LOCAL[form]]
    numbers = {"lam": Q(2, 5), "D": Q(7, 2), "low": Q(-1, 3), "high": Q(5, 4), "radius": Q(9, 4), "x0": Q(6, 7)}
    given = {**to_file(numbers), "rounds": 4, "local": LOCAL[form]}
    view = MopesView.from_data({**lines_of([LOSS]), **given})
    excess, distance_sq, under, penalty = worked.mopes(
        LOSS, Q(2, 5), Q(7, 2), (Q(-1, 3), Q(5, 4)), Q(9, 4), Q(6, 7), 4, words
    )
    start, slack = {"local problem solved": (8, 0), "10 and 4": (10, 4)}.get(form, (10, 8))
    assert both_sides("mopes-bound", form, view) == [(excess, (start * distance_sq + slack * Q(7, 2)) / under + penalty)]


def test_the_prox_without_its_square_at_the_left_end():
    loss, numbers = [(Q(3), Q(1, 5))], {"lam": Q(4), "D": Q(7, 2), "low": Q(-1, 3), "high": Q(5, 4), "radius": Q(9, 4), "x0": Q(6, 7)}
    view = MopesView.from_data({**lines_of([loss]), **to_file(numbers), "rounds": 4, "local": "flat"})
    assert view.excess[0, 0] == worked.mopes(loss, Q(4), Q(7, 2), (Q(-1, 3), Q(5, 4)), Q(9, 4), Q(6, 7), 4, "flat")[0]


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


def test_fedmls_is_mopes():
    numbers = {"lam": Q(2, 3), "D": Q(21), "radius": Q(2), "x0": Q(-3, 4)}
    view = SameView.from_data({**lines_of(LOSSES), **to_file(numbers), "rounds": 4})
    paths = worked.both(LOSSES, *numbers.values(), 4)
    assert [[x] for x in view.fedmls] == paths["fedmls"] and [[x] for x in view.printed_line_14] == paths["z'"]
    for name, scale, share in (("mean", 1, 1), ("plain", 1, 3), ("plain, rescaled", 3, 3)):
        assert view.mopes(scale, share).tolist() == paths[name], name


def test_envelope():
    """The two clients in the plane, 5/3 times as steep, and a third one that is flat where the others meet."""
    by = Q(5, 3)
    near, far = (by / 2, Q(0)), (by * Q(40, 41), by * Q(9, 41))
    losses = [[([s * near[0], near[1]], by / 4), ([s * far[0], far[1]], by * Q(20, 41))] for s in (1, -1)]
    losses.append([([Q(0), Q(0)], Q(0)), ([Q(0), Q(-1)], Q(-5, 2))])
    u, star = [[Q(-1, 2), Q(0)], [Q(1, 2), Q(0)], [Q(0), Q(0)]], [Q(0), Q(-13, 12)]
    given = {
        "lam": Q(3, 5), "u": u, "slopes": [[a for a, _ in loss] for loss in losses], "star": star,
        "drops": [[Q(0), Q(0)], [Q(0), Q(0)], [Q(0), Q(5, 2)]], "multipliers": [[Q(1), Q(0)]] * 3,
    }  # fmt: skip
    view, rows = EnvelopeView.from_data(to_file(given)), worked.envelope(losses, Q(3, 5), u, star)
    for form, sides in rows.items():
        assert both_sides("moreau-envelope", form, view) == [sides], form


@pytest.mark.parametrize("printed", [True, False])
def test_orders(printed):
    rounds = "printed" if printed else "fewest"
    view = OrdersView.from_data({"reach": "7/3", "sigma": "3/4", "rounds": rounds})
    for form, sides in worked.orders(Q(7, 3), Q(3, 4), printed).items():
        assert both_sides("theorem-2-orders" if printed else "mopes-calls", form, view) == [sides], form


def test_other_methods():
    for n, mu, step, rounds, local in ((5, Q(2, 3), Q(3, 8), 5, 1), (4, Q(3, 5), Q(2, 7), 3, 5)):
        name, form = ("subgradient", "one subgradient a round") if local == 1 else ("local-steps", "every other method")
        given = {"method": name, "n": n, "mu": str(mu), "step": str(step), "rounds": rounds}
        view = ConventionalView.from_data({**given, "local": local})
        assert view.applies(theorems.get("fedmls/conventional-rounds").form(form)) is None
        assert both_sides("conventional-rounds", form, view) == worked.nesterov(n, mu, step, rounds, local)
    for first, step in ((Q(3, 2), Q(2, 5)), (Q(1, 4), Q(7, 5))):
        numbers = {"shallow": Q(2, 7), "slope": Q(4, 5), "second": Q(5, 3), "first": first, "step": step}
        view = ConventionalView.from_data({"method": "fedprox", **to_file(numbers), "rounds": 6})
        assert view.applies(theorems.get("fedmls/conventional-rounds").form("FedProx with a constant step")) is None
        assert both_sides("conventional-rounds", "FedProx with a constant step", view) == worked.pull(*numbers.values(), 6)


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
