"""Other instances of the forms about MOPES, MOLES, the exact proximal step, Moreau's envelope and other methods, whose parameters are
all different and none of them 1: the library and the second writings (`validation/references/worked_mopes.py`) give the same sides."""

from __future__ import annotations

from fractions import Fraction as Q

import numpy as np
import pytest
import worked_mopes as worked

from fedtheory import theorems
from fedtheory.central import MOLES, Simplex
from fedtheory.problems.nonsmooth import MaxAffine
from fedtheory.theorems.fedmls import data
from fedtheory.theorems.fedmls.mopes_instances import view_of_central_run
from fedtheory.verification.rational import to_file

LOSSES = [[(Q(7, 3), Q(0)), (Q(-5, 4), Q(1, 2))], [(Q(-2), Q(2, 3)), (Q(11, 4), Q(-3))], [(Q(-3, 5), Q(1, 7)), (Q(3, 2), Q(-1))]]
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
    view, rows = data.prox_of(given), worked.exact_prox(LOSSES, lam, Q(3, 2), Q(-5, 4), 5)
    for form in ("repaired", "7.9 for 8", "rounds to epsilon"):
        assert both_sides("exact-prox", form, view) == rows[form], form
    assert both_sides("exact-prox-recursion", "repaired", view) == rows["recursion"]
    need, have = rows["enough"][0]
    assert (need <= have) == bool(view.facts)


@pytest.mark.parametrize("form", LOCAL)
def test_mopes(form):
    words = {"sliding": "steps", "exact": "prox", "flat": "flat"}[LOCAL[form]]
    numbers = {"lam": Q(2, 5), "D": Q(7, 2), "low": Q(-1, 3), "high": Q(5, 4), "radius": Q(9, 4), "x0": Q(6, 7)}
    view = data.mopes_of({**lines_of([LOSS]), **to_file(numbers), "rounds": 4, "local": LOCAL[form]})
    excess, distance_sq, under, penalty = worked.mopes(
        LOSS, Q(2, 5), Q(7, 2), (Q(-1, 3), Q(5, 4)), Q(9, 4), Q(6, 7), 4, words
    )
    start, slack = {"local problem solved": (8, 0), "10 and 4": (10, 4)}.get(form, (10, 8))
    assert both_sides("mopes-bound", form, view) == [(excess, (start * distance_sq + slack * Q(7, 2)) / under + penalty)]


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


def test_fedmls_is_mopes():
    numbers = {"lam": Q(2, 3), "D": Q(21), "radius": Q(2), "x0": Q(-3, 4)}
    view, paths = data.same_of({**lines_of(LOSSES), **to_file(numbers), "rounds": 4}), worked.both(LOSSES, *numbers.values(), 4)
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
    view, rows = data.envelope_of(to_file(given)), worked.envelope(losses, Q(3, 5), u, star)
    for form, sides in rows.items():
        assert both_sides("moreau-envelope", form, view) == [sides], form


@pytest.mark.parametrize("printed", [True, False])
def test_orders(printed):
    view = data.orders_of({"reach": "7/3", "sigma": "3/4", "rounds": "printed" if printed else "fewest"})
    for form, sides in worked.orders(Q(7, 3), Q(3, 4), printed).items():
        assert both_sides("theorem-2-orders" if printed else "mopes-calls", form, view) == [sides], form


def test_other_methods():
    for n, mu, step, rounds, local in ((5, Q(2, 3), Q(3, 8), 5, 1), (4, Q(3, 5), Q(2, 7), 3, 5)):
        name, form = ("subgradient", "one subgradient a round") if local == 1 else ("local-steps", "every other method")
        view = data.conventional_of({"method": name, "n": n, "mu": str(mu), "step": str(step), "rounds": rounds, "local": local})
        assert view.applies(theorems.get("fedmls/conventional-rounds").form(form)) is None
        assert both_sides("conventional-rounds", form, view) == worked.nesterov(n, mu, step, rounds, local)
    for first, step in ((Q(3, 2), Q(2, 5)), (Q(1, 4), Q(7, 5))):
        numbers = {"shallow": Q(2, 7), "slope": Q(4, 5), "second": Q(5, 3), "first": first, "step": step}
        view = data.conventional_of({"method": "fedprox", **to_file(numbers), "rounds": 6})
        assert both_sides("conventional-rounds", "FedProx with a constant step", view) == worked.pull(*numbers.values(), 6)
