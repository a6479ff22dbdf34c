"""Plans of FedMLS on a user's problem: Theorem 2's numbers, its readings', and MOPES's on a set."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction as Q

import numpy as np
import pytest
from efl_on_a_problem import case_of

from fedtheory import theorems
from fedtheory.algorithms import FedProx
from fedtheory.algorithms.fedmls import FedMLS, fewest_rounds, printed_rounds
from fedtheory.central.sets import Ball, Box
from fedtheory.errors import InvalidInput
from fedtheory.local import SubgradientSliding
from fedtheory.problems.nonsmooth import LAD, MaxAffine
from fedtheory.rational import to_file
from fedtheory.theorems.fedmls.exact_prox_world import ProxView, prox_view_of_run
from fedtheory.theorems.fedmls.mopes_world import MopesView, method_of, planned_of
from fedtheory.theorems.fedmls.orders import OrdersView
from fedtheory.theorems.fedmls.parameters import make_fedmls
from fedtheory.theorems.fedmls.quantities import Bounds, view_of_run
from fedtheory.theorems.fedmls.readings import READINGS, reading_of

SLOPES, OFFSETS = [[2.0, -1.0], [-2.0, 3.0], [-1.0, 1.0]], [[0.0, 0.5], [1.0, -3.0], [0.0, -1.0]]
LINES = MaxAffine(np.array(SLOPES)[:, :, None], np.array(OFFSETS))
POINTS = LAD(np.array([[[3.0, 0.0]], [[0.0, 1.0]], [[1.0, 1.0]]]), np.array([[1.5], [0.25], [0.75]]))  # zero at (1/2, 1/4) only
G = math.sqrt((9 + 1 + 2) / 3)


def test_the_plan_is_theorem_2s():
    x0 = np.array([1.0, 0.5])
    distance = math.hypot(0.5, 0.25)
    made = make_fedmls(POINTS, {"epsilon": 0.3, "radius": 2.0}, x0, "fewest")
    a, epsilon = made.algorithm, 0.3 * G * distance
    assert (made.distance, made.epsilon, made.g) == pytest.approx((distance, epsilon, G)) and made.relative == 0.3
    assert (a.lam, a.D, a.lipschitz, a.radius) == pytest.approx((epsilon / G**2, distance**2, G, 2.0))
    assert (a.rounds, a.sigma, a.noise_std, made.radius_from, made.given) == (fewest_rounds(epsilon, G, distance), 0, 0, "given", ())
    assert make_fedmls(POINTS, {"radius": 2.0}, x0, "printed").algorithm.rounds == printed_rounds(0.2 * G * distance, G, distance)
    noisy = make_fedmls(POINTS, {"radius": 2.0, "noise": 0.5}, x0, 7).algorithm
    assert (noisy.rounds, noisy.noise_std, noisy.sigma) == (7, pytest.approx(G / 2), pytest.approx(G / 2))
    own = make_fedmls(POINTS, {"radius": 2.0, "noise_std": 3.0, "sigma": 4.0, "lam": 0.125, "D": 5.0, "lipschitz": 9.0}, x0, 7)
    assert (own.algorithm.noise_std, own.algorithm.sigma, own.algorithm.lam, own.algorithm.D) == (3, 4, 0.125, 5)
    assert own.algorithm.lipschitz == 9 and own.given == ("lam", "D")


def test_the_plan_in_the_plain_product_norm_is_the_same_run():
    x0, how = np.array([1.0, 0.5]), {"epsilon": 0.3, "radius": 2.0, "noise": 0.5}
    mean, plain = (make_fedmls(POINTS, {**how, "norm": norm}, x0, 7).algorithm for norm in ("mean", "product"))
    scale = math.sqrt(3)
    assert (plain.lam, plain.D) == pytest.approx((3 * mean.lam, 3 * mean.D))
    assert (plain.lipschitz, plain.sigma) == pytest.approx((mean.lipschitz / scale, mean.sigma / scale))
    assert [plain.steps(k) for k in range(1, 8)] == [mean.steps(k) for k in range(1, 8)]
    given = make_fedmls(POINTS, {**how, "norm": "product", "lam": 0.125}, x0, 7).algorithm
    assert (given.lam, given.D, given.lipschitz) == pytest.approx((0.125, mean.D, mean.lipschitz))


def test_mini_batches_count_in_the_noise():
    many = LAD(np.array([[[3.0, 0.0], [1.0, 2.0]], [[0.0, 1.0], [1.0, 1.0]]]), np.array([[1.5, 1.0], [0.25, 0.75]]))
    x0 = np.array([1.0, 0.5])
    drawn = float(np.mean(many.batch_noise_sq(2.0, 1)))
    made = make_fedmls(many, {"radius": 2.0, "noise_std": 0.5}, x0, 3, batch_size=1).algorithm
    assert drawn > 0 and made.sigma == pytest.approx(math.sqrt(0.25 + drawn)) and made.noise_std == 0.5
    with pytest.raises(InvalidInput, match="batch_size = 1: local_training = 'exact-prox'"):
        make_fedmls(many, {"radius": 2.0, "local_training": "exact-prox"}, x0, 3, batch_size=1)


@pytest.mark.parametrize(
    ("options", "x0", "said"),
    [
        ({"epsilon": 0.0}, (1, 0.5), "epsilon = 0"), ({"epsilon": math.inf}, (1, 0.5), "epsilon = inf"),
        ({"noise": -0.1}, (1, 0.5), "noise = -0.1"), ({"noise": math.inf}, (1, 0.5), "noise = inf"),
        ({"noise": 0.5, "noise_std": 1.0}, (1, 0.5), "give one of them"), ({}, (0.5, 0.25), "x_0 is the minimiser"),
        ({"epsilon": 1e-8}, (1, 0.5), r"would take at least [\d,.]+ hours"),
    ],
)  # fmt: skip
def test_what_no_plan_can_be_made_for(options, x0, said):
    problem = POINTS if x0 != (0.5, 0.25) else LAD(np.eye(2)[:, None], np.zeros((2, 1)))
    with pytest.raises(InvalidInput, match=said):
        make_fedmls(problem, {"radius": 2.0, **options}, np.array(x0 if problem is POINTS else (0.0, 0.0), dtype=float), "fewest")


# --- readings -------------------------------------------------------------------------------------
G_I = np.array([3.0, 5.0, 10.0])


def test_what_the_readings_take_for_g():
    rms = math.sqrt((9 + 25 + 100) / 3)
    steep = MaxAffine(np.array([[[100.0], [-1.0]]]), np.array([[-101.0, 0.0]]))  # 100 at the end of [-1, 1] only
    for name, bounds, g in (
        ("printed", G_I, rms / math.sqrt(3)), ("consensus G", [6, 6, 6], 6), ("mixed norms", G_I, rms), ("9.9 for 10", G_I, rms),
    ):  # fmt: skip
        reading = reading_of(name)
        found = reading.bounds(steep, 1.0, G_I, False)
        assert found.tolist() == list(bounds) and reading.lipschitz(found) == pytest.approx(g)
    inside = READINGS["Lipschitz G"]
    assert 1 < inside.bounds(steep, 1.0, np.array([100.0]), False)[0] < 1 + 1e-7
    assert inside.bounds(steep, 1.0, np.array([100.0]), True) == [100] and inside.bounds(steep, 1.0, np.array([0.5]), False) == [0.5]
    assert "in one dimension only" in reading_of("prox without the square").one_dimension


def test_what_the_readings_run():
    given = FedMLS(0.5, 2.0, 4, 1.0, 7.0, average="printed", server_projection=False, norm="product", skip_last=True)
    changes = {"mixed norms": {"norm": "product"}, "no server projection": {"server_projection": False}}
    for name, reading in ((r.form or name, r) for name, r in READINGS.items() if not r.holds):
        plain = {"average": "averaged", "server_projection": True, "norm": "mean", "skip_last": False, **changes.get(name, {})}
        expected = replace(given, lipschitz=reading.lipschitz(G_I), **plain)
        assert reading.algorithm(given, G_I) == expected, name
        D = 2.25 * (3 if name == "printed, joint distance" else 1)
        planned = reading.plan(given, G_I, 1.5, 2.25)
        rounds = printed_rounds(1.5, expected.lipschitz, math.sqrt(D))
        assert planned == replace(expected, lam=1.5 / expected.lipschitz**2, D=D, rounds=rounds), name
    with pytest.raises(InvalidInput, match="x_0 is the minimiser"):
        reading_of("printed").plan(given, G_I, 1.5, 0.0)


# --- a run in floats ------------------------------------------------------------------------------
def test_what_is_uncertain_of_a_run_and_where_it_is_looked_at():
    """F* is known to 1/8 here; to that the rounding of F along the run is added, 10^-12 of its size and F*'s."""
    optimum = LINES.optimum_on_ball(2.0)
    bounds = Bounds(replace(optimum, lower_bound=optimum.value - 0.125), LINES.lipschitz(2.0), np.zeros(3))
    algorithm, start = FedMLS(0.75, 1.0, 3, 2.0, 7.0, skip_last=False), np.array([-1.0])
    view = view_of_run(LINES, algorithm, start, points=3, bounds=bounds, facts=frozenset({"mine"}))
    largest = max(float(LINES.objective(view.x[k, :, 0])) for k in range(4))
    assert largest == float(LINES.objective(start)) > 1.5 and optimum.value > 0.1
    assert view.noise - 0.125 == pytest.approx(1e-12 * (1 + largest + optimum.value), rel=1e-3)
    np.testing.assert_allclose(view.excess[0], largest - optimum.value + 0.125, rtol=1e-14)
    assert view.points.shape == (4, 1) and (view.points[0] == optimum.x).all() and (np.abs(view.points) <= 2).all()
    assert view.facts == {"mine"} and view.exact is True


@pytest.mark.parametrize(
    ("noise_std", "solver", "exact"),
    [
        (0.0, SubgradientSliding(), True), (0.0, SubgradientSliding(noise_std=0.5), False), (0.5, None, False),
        (0.0, SubgradientSliding(batch_size=1), False), (0.5, SubgradientSliding(), False),
        (0.0, SubgradientSliding(noise_std=0.5, batch_size=1), False),
    ],
)  # fmt: skip
def test_a_run_is_exact_without_noise_and_mini_batches(noise_std, solver, exact):
    algorithm = FedMLS(0.75, 1.0, 1, 2.0, 7.0, noise_std=noise_std, skip_last=False)
    assert view_of_run(POINTS, algorithm, np.array([1.0, 0.5]), solver=solver).exact is exact


# --- local problems solved ------------------------------------------------------------------------
def test_a_run_in_floats_is_the_one_in_fractions():
    lines = {"slopes": to_file([[Q(v) for v in row] for row in SLOPES]), "offsets": to_file([[Q(v) for v in row] for row in OFFSETS])}
    exact = ProxView.from_data({**lines, "lam": "3/4", "radius": "2", "x0": "-1", "rounds": 5})
    bounds = Bounds(LINES.optimum_on_ball(2.0), LINES.lipschitz(2.0), np.zeros(3))
    algorithm = FedMLS(0.75, 1.0, 5, 2.0, 7.0, local_training="exact-prox")
    view = prox_view_of_run(LINES, algorithm, np.array([-1.0]), bounds)
    for name in ("lam", "K", "G_sq", "distance_sq", "excess", "psi", "server_sq", "client_sq"):
        expected = np.array(getattr(exact, name), dtype=float)
        assert np.shape(getattr(view, name)) == expected.shape and getattr(view, name) == pytest.approx(expected, abs=1e-6), name
    assert view.gaps.shape == (4, 1) and (view.gaps >= 0).all() and view.shown == {"largest certified gap": view.gaps.max()}
    gap = bounds.optimum.value - bounds.optimum.lower_bound
    assert gap < view.noise <= gap + 1e-10
    once = prox_view_of_run(LINES, replace(algorithm, rounds=1), np.array([-1.0]), bounds)
    assert once.gaps.tolist() == [[0.0]] and once.psi.shape == (1, 1)


# --- on a set -------------------------------------------------------------------------------------
def test_mopes_on_a_users_set():
    bound, moles = theorems.get("fedmls/mopes-bound"), theorems.get("fedmls/moles-bound")
    assert (method_of(bound.id), method_of(moles.id)) == ("mopes", "moles")
    x0, square = np.array([0.75, -0.5]), Box(2, -1.0, 1.0)
    made = planned_of(bound.id, POINTS, {"X": square, "epsilon": 0.3, "K": 5}, x0)
    assert made.constraint is square and made.x0.tolist() == x0.tolist() and made.method.rounds == 5
    distance = math.hypot(0.25, 0.75)
    g = (3 + 1 + math.sqrt(2)) / 3  # of F itself
    assert made.distance == pytest.approx(distance) and made.method.lam == pytest.approx(0.3 * distance / g)
    ball = planned_of(bound.id, POINTS, {"K": 3}, np.zeros(2))
    assert isinstance(ball.constraint, Ball) and ball.constraint.radius == 1 and not ball.x0.any()
    with pytest.raises(InvalidInput, match="X is 3: give a set"):
        planned_of(bound.id, POINTS, {"X": 3}, x0)
    case = case_of(POINTS, None, x0=x0, given={"X": square, "K": 5, "epsilon": 0.3}, mode="exact")
    view = MopesView.on_problem(bound.id, case)
    assert view.distance_sq == pytest.approx(distance**2) and view.excess.shape[-1] == 1 and view.K == 5
    for scenarios, count in ((10, 50), (60, 60), (900, 200)):
        noisy = replace(case, given={"X": square, "K": 2, "noise": 0.5}, scenarios=scenarios, mode="auto")
        assert MopesView.on_problem(bound.id, noisy).excess.shape[-1] == count
    fedmls = FedMLS(1.0, 1.0, 1, 1.0, 1.0)
    for other, said in ((replace(noisy, mode="exact"), "is not enumerated"), (replace(case, algorithm=fedmls), "about MOPES with")):
        with pytest.raises(InvalidInput, match=said):
            MopesView.on_problem(bound.id, other)


def test_the_orders_of_a_users_fedmls():
    """epsilon = lambda G^2, so that the reach G ||x_0 - x*||/epsilon is sqrt(D)/(lambda G); sigma is in units of G."""
    algorithm = FedMLS(0.25, 9.0, 4, 1.0, 8.0, sigma=12.0)
    statement = theorems.get("fedmls/theorem-2-orders")
    view = OrdersView.on_problem(statement.id, case_of(POINTS, algorithm))
    expected = OrdersView.from_data({"reach": "3/2", "sigma": "3/2", "rounds": "printed"})
    assert (view.K, view.product, view.unit) == (expected.K, expected.product, expected.unit)
    checks = statement.verify(POINTS, FedProx(mu=1.0))
    assert all("about FedMLS, not FedProx" in c.reason for c in checks)


def test_a_set_without_the_origin_and_an_optimum_that_is_not_zero():
    bound = theorems.get("fedmls/mopes-bound")
    away = planned_of(bound.id, POINTS, {"X": Box(2, 0.25, 1.0), "K": 2}, np.zeros(2))
    assert away.x0.tolist() == [0.25, 0.25]  # the set's point nearest to 0
    case = case_of(LINES, None, x0=np.array([-0.5]), given={"X": Box(1, -1.0, 0.75), "K": 2})
    made, view = planned_of(bound.id, LINES, case.given, case.x0), MopesView.on_problem(bound.id, case)
    optimum = made.optimum
    assert optimum.value > 0.1 and 0 <= view.noise - (optimum.value - optimum.lower_bound) < 1e-9
