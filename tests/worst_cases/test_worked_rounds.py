"""Defaults of methods by hand, and classes of losses at their edges."""

from __future__ import annotations

import math
from fractions import Fraction as F

import pytest

from fedtheory.errors import InvalidInput
from fedtheory.worst_cases import bounds
from fedtheory.worst_cases.classes import Losses, Point, WeaklyConvex
from fedtheory.worst_cases.gram import common

TINY = F(1, 10**30)


def test_options_that_nobody_gives_by_hand():
    """L = 7, G = 3, ||x_0 - x*|| = 5 and T = 4 rounds; square roots to six digits from below."""
    smooth, steep = Losses(F(7)), Losses(None, lipschitz=F(3))
    classes = {
        "fedavg": smooth, "scaffold": smooth, "fedprox": smooth, "feddyn": smooth,
        "fedelasticnet-dyn": smooth, "subgradient": steep, "fedmls": steep, "mopes": steep,
    }  # fmt: skip
    found = {
        name: dict(bounds.asked(name, {}, rounds=4, losses=losses, distance=5).subject.options)
        for name, losses in classes.items()
    }
    root = F(math.isqrt(20 * 10**12), 10**6)
    assert root**2 <= 20 < (root + F(1, 10**6)) ** 2
    assert found == {
        "fedavg": {"step": F(1, 7)}, "scaffold": {"step": F(1, 7)}, "fedprox": {"mu": 7},
        "feddyn": {"alpha": 7}, "fedelasticnet-dyn": {"l2": 14}, "subgradient": {"step": F(5, 3 * 2)},
        "fedmls": {"lam": 4 * 5 / (3 * root), "lipschitz": 3},
        "mopes": {"lam": 4 * 5 / (3 * root), "lipschitz": 3},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("mu", "fine"),
    [(F(-3), True), (-3 - TINY, False), (3 - TINY, True), (F(3), False), (F(0), True)],
)
def test_curvatures_of_weakly_convex_losses(mu, fine):
    if fine:
        assert WeaklyConvex(F(3), mu).strong_convexity == mu
    else:
        with pytest.raises(InvalidInput, match="-L <= curvature < L"):
            WeaklyConvex(F(3), mu)


def test_weakly_convex_losses():
    """x^2/2 and -x^2/4 are of the class, -x^2 is not."""
    x = common("x")
    condition = WeaklyConvex(F(1), F(-1, 2)).condition(Point("0", 0 * x, 0 * x), Point("x", x, 0 * x))
    assert condition.values == {"0": 1, "x": -1}
    for curvature, holds in ((F(1), True), (F(-1, 2), True), (F(0), True), (F(-2), False), (F(2), False)):
        at = WeaklyConvex(F(1), F(-1, 2)).condition(Point("0", 0 * x, 0 * x), Point("x", x, curvature * x))
        left = at.gram.get(("mean", "x", "x"), F(0)) - curvature / 2
        assert (left >= 0) == holds


@pytest.mark.parametrize("L", [None, F(0), F(-1), F(-1, 3)])
def test_weakly_convex_losses_have_a_largest_curvature_above_nothing(L):
    for mu in (F(0), F(1, 3), F(-1, 3), F(-2)):
        with pytest.raises(InvalidInput, match="-L <= curvature < L"):
            WeaklyConvex(L, mu)


@pytest.mark.parametrize(
    ("change", "fine"),
    [
        ({}, True), ({"participants": 3}, True), ({"participants": 4}, False),
        ({"participants": 0}, False),
        ({"clients": 1, "participants": 1}, True), ({"rounds": 0}, False),
        ({"distance": F(0)}, True),
        ({"distance": -TINY}, False), ({"heterogeneity": F(0)}, True),
        ({"heterogeneity": -TINY}, False),
        ({"heterogeneity": None}, True), ({"options": {"step": TINY}}, True),
        ({"options": {"step": F(0)}}, False),
        ({"local_steps": 0}, False), ({"method": "fedprox", "options": {"mu": F(1)}}, True),
        ({"method": "fedprox", "options": {"mu": F(1)}, "local_steps": 2}, False),
        ({"method": "fedprox", "options": {"mu": F(1), "step": F(1)}, "local_steps": 2}, True),
        ({"method": "subgradient"}, False), ({"criterion": "loss"}, False),
        ({"options": {}}, True), ({"method": "fedprox", "options": {}}, True),
        ({"method": "fedmls", "options": {"lam": F(1)}, "losses": Losses(None, lipschitz=F(1)),
          "participants": 2}, False),
    ],
)  # fmt: skip
def test_what_can_be_asked(change, fine):
    plain = {
        "method": "fedavg", "losses": Losses(), "local_steps": 1, "rounds": 2, "criterion": "gap",
        "heterogeneity": F(1),
        "distance": F(1), "options": {"step": F(1)}, "clients": 3, "participants": 3,
    }  # fmt: skip
    if fine:
        bounds.asked(**{**plain, **change}).check()
    else:
        with pytest.raises(InvalidInput):
            bounds.family(bounds.asked(**{**plain, **change}))


@pytest.mark.parametrize(
    ("participants", "rounds", "criterion", "tree"),
    [(3, 2, "gap", False), (2, 2, "gap", True), (2, 1, "distance", False), (2, 2, "distance", True),
     (2, 1, "gap", True)],
)  # fmt: skip
def test_where_every_cohort_is_looked_at(participants, rounds, criterion, tree):
    def q(losses, criterion="gap", zeta=1, R=3, rounds=1, participants=3, method="fedavg"):
        return bounds.asked(method, {"step": F(1)}, 1, rounds, criterion, losses, zeta, R, 3, participants)

    found = q(Losses(), criterion, 1, 1, rounds, participants)
    assert found.tree is tree
    assert (found.units.position, found.units.gradient) == (1, 1)
    other = q(Losses(F(5)), zeta=2)
    assert (other.units.position, other.units.gradient) == (3, 15)
    at_the_optimum = q(Losses(F(5)), zeta=2, R=0)
    assert (at_the_optimum.units.position, at_the_optimum.units.gradient) == (F(2, 5), 2)
    kinks = q(Losses(None, lipschitz=F(4)), zeta=None, method="subgradient")
    assert (kinks.units.position, kinks.units.gradient) == (3, 4)
