"""Defaults of methods and printed constants of one round by hand, and the edges of both."""

from __future__ import annotations

import math
from fractions import Fraction as F

import pytest

from fedtheory.errors import InvalidInput
from fedtheory.worst_cases import bounds
from fedtheory.worst_cases.classes import Losses
from fedtheory.worst_cases.literature import printed
from fedtheory.worst_cases.potentials import WeaklyConvex, question
from fedtheory.worst_cases.rounds import ROUNDS

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
    ("asked", "options", "rho", "fixed"),
    [
        (dict(method="fedavg"), {"step": F(1, 36)}, 1, {"kappa_0": F(1, 24)}),
        (dict(method="fedavg", B=F(2)), {"step": F(1, 36), "B": 2}, F(35, 36),
         {"kappa_0": F(1, 36)}),
        (dict(method="scaffold", participants=3), {"step": F(1, 729)}, 1 - F(1, 729), {}),
        (dict(method="scaffold", participants=1, strong_convexity=F(2)), {"step": F(1, 900)},
         F(299, 300), {}),
        (dict(method="scaffold", strong_convexity=0), {"step": F(1, 729)}, 1, {}),
        (dict(method="efl"), {"step": F(1, 12)}, F(23, 24), {"kappa_0": 0}),
        (dict(method="fedprox", local_steps=1), {"mu": 36, "B": 1}, 1, {}),
    ],
    ids=["fedavg", "fedavg, bounded", "scaffold", "scaffold, few", "scaffold, convex", "efl",
     "fedprox"],
)  # fmt: skip
def test_options_of_one_round_that_nobody_gives_by_hand(asked, options, rho, fixed):
    """L = 3, mu = 2/3, ten clients and three local steps."""
    plain = {"smoothness": 3, "strong_convexity": F(2, 3), "local_steps": 3}
    if asked["method"] == "fedavg" and "B" not in asked:
        plain["strong_convexity"] = 0
    found = question(**{**plain, **asked})
    assert (dict(found.options), found.rho, dict(found.fixed)) == (options, rho, fixed)


def test_the_noise_of_efls_round_is_its_theorems():
    """B_t of Theorem 1 with theta = 1, p_t^k = p^k, s_t^k = E and no variance, times step^2."""
    L, mu, E, theta, step, D = F(3), F(2, 3), 4, 1, F(1, 50), F(7)
    asked = question("efl", smoothness=L, strong_convexity=mu, local_steps=E, step=step).asked
    noise = ROUNDS["efl"].round(asked).noise
    above = noise.constant + D * noise.values["*"]
    third = (2 + mu / (2 * (1 + theta) * L)) * E * (E - 1) * (E + theta * 0)
    assert above == step**2 * (2 * (2 + theta) * L * E * D + third + 2 * E * E)
    assert noise.values["own optimum"] == -noise.values["*"] and not noise.gram


@pytest.mark.parametrize(
    ("asked", "numbers", "outside"),
    [  # step = 1/60, K = 3 and L = 2: h = 1/20
        (dict(method="fedavg"), {"rho": 1, "kappa_0": F(1, 40), "c": F(24, 8000)}, None),
        (dict(method="fedavg", participants=3), {"rho": 1, "kappa_0": F(1, 40), "c": F(24, 8000)},
         "everybody"),
        (
            dict(method="fedavg", B=F(2), participants=1),
            {"rho": 1 - F(1, 60), "kappa_0": F(1, 60), "c": F(9, 10) * F(4, 400) + F(36, 8000)},
            "B^2",
        ),
        (
            dict(method="scaffold", participants=4),
            {"rho": 1 - F(1, 60), "kappa_0": F(1, 20), "kappa": F(90, 4 * 400)}, "81 L K",
        ),
        (dict(method="efl"), {"rho": 1 - F(1, 120), "kappa_0": 0, "c": 1}, None),
    ],
    ids=["fedavg", "a cohort", "bounded", "scaffold", "efl"],
)  # fmt: skip
def test_what_is_printed_of_one_round_by_hand(asked, numbers, outside):
    strong = 0 if asked["method"] == "fedavg" and "B" not in asked else F(2, 3)
    plain = {"step": F(1, 60), "local_steps": 3, "smoothness": 2, "strong_convexity": strong}
    row = printed(question(**{**plain, **asked}))[0]
    assert row.numbers == numbers and (outside is None) == (row.outside is None)
    assert outside is None or outside in row.outside


@pytest.mark.parametrize(("step", "outside"), [(F(1, 3), "< 2"), (F(1, 4), None)])
def test_the_bound_for_every_number_of_local_steps_by_hand(step, outside):
    """K = 3 and L = 2, s = 24 step^2: at 1/3 it is 8/3."""
    row = printed(question("fedavg", step=step, local_steps=3, smoothness=2))[1]
    if outside is None:
        assert row.outside is None
        assert row.numbers == {
            "rho": 1,
            "kappa_0": F(3, 2),
            "c": F(1, 64) * 2 * 3 * 2 * 5 / (3 * (2 - F(24, 16))),
        }
    else:
        assert outside in row.outside and "c" not in row.numbers


def test_the_bound_for_every_number_of_local_steps_up_to_the_step_1_over_L():
    at, beyond = (
        printed(question("fedavg", step=F(1, 2) + more, smoothness=2))[1] for more in (0, TINY)
    )
    assert at.outside is None and "1/L" in beyond.outside


@pytest.mark.parametrize(("mu", "B", "claimed"), [(20, 3, False), (200, 1, True)])
def test_theorem_4_of_fedprox_by_hand(mu, B, claimed):
    """L = 4, curvatures from -4 on, 8 of 10 clients: sqrt(2/8) = 1/2 and 2 sqrt(16) + 2 = 10."""
    asked = question("fedprox", mu=mu, B=B, smoothness=4, strong_convexity=-4, participants=8)
    near = mu - 4
    last = 4 * B**2 * (1 / (2 * near**2) + 10 / (8 * near**2))
    row = printed(asked)[0]
    by_hand = 1 / mu - B / 2 / near - 4 * B / (near * mu) - last
    assert row.numbers["kappa_0"] == pytest.approx(by_hand, rel=1e-12)
    assert (row.outside is None) is claimed is (by_hand > 0)


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


@pytest.mark.parametrize(
    "at",
    [
        dict(method="fedavg", step=F(1, 24)), dict(method="scaffold", step=F(1, 486)),
        dict(method="fedavg", B=F(3), step=F(1, 480), participants=1),
        dict(method="scaffold", participants=2, strong_convexity=F(1), step=F(1, 1485), clients=66),
        dict(method="efl", step=F(1, 8), strong_convexity=F(1, 2)),
    ],
    ids=["fedavg", "scaffold", "bounded", "scaffold, few", "efl"],
)  # fmt: skip
def test_printed_inequalities_hold_up_to_their_step_and_not_beyond(at):
    """L = 2 and K = 3: 4 L h, 8 (1 + B^2) L h and 81 L h at most 1, 15 mu N h at most P."""
    plain = {"smoothness": 2, "local_steps": 3}
    for more, inside in ((0, True), (TINY, False)):
        row = printed(question(**{**plain, **at, "step": at["step"] + more}))[0]
        assert (row.outside is None) is inside


def test_the_bound_for_every_number_of_local_steps_needs_s_below_2():
    """K = 2 and step 1/L: s = 2."""
    row = printed(question("fedavg", step=F(1, 2), local_steps=2, smoothness=2))[1]
    assert "< 2" in row.outside and "c" not in row.numbers
