"""The distributed subgradient method and local subgradient steps: by hand, against their bound, and against each other."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fedtheory import algorithms, errors, problems, simulate
from fedtheory.algorithms.subgradient import Subgradient, subgradient_bound, subgradient_parameters
from fedtheory.local import GradientSteps, LocalObjective, Schedule, SubgradientSteps
from fedtheory.participation.cohorts import Uniform
from fedtheory.problems.nonsmooth import LAD, EuclideanDistance, Hinge, L1Distance, MaxAffine
from fedtheory.problems.nonsmooth_instances import NesterovWorst, TwoClientPull

LINE = L1Distance([[3.0], [2.0], [-1.0]])  # at 1 the mean subgradient is -1/3, at 2 it is 0
R2, R3 = math.sqrt(2), math.sqrt(3)
P2 = 1.5 + 0.5 / R2


@pytest.mark.parametrize(
    ("options", "points", "averages"),
    [
        ({}, [3 / 2, 2, 2], [1, 5 / 4, 3 / 2]),
        ({"radius": 7 / 4}, [3 / 2, 7 / 4, 7 / 4], [1, 5 / 4, 17 / 12]),  # at 7/4 the mean is still -1/3: held at the rim
        # steps 3/2, 3/4, 3/8: p_3 = 7/4 + 1/8; averages 1, (1 + 1/2 3/2)/(3/2), (1 + 3/4 + 7/16)/(7/4)
        ({"schedule": "hold-and-cut", "hold": 1, "cut": 0.5}, [3 / 2, 7 / 4, 15 / 8], [1, 7 / 6, 5 / 4]),
        (
            {"schedule": "inverse-sqrt"},
            [3 / 2, P2, P2 + 0.5 / R3],
            [1, (1 + 1.5 / R2) / (1 + 1 / R2), (1 + 1.5 / R2 + P2 / R3) / (1 + 1 / R2 + 1 / R3)],
        ),
    ],
)
def test_three_rounds_by_hand(options, points, averages):
    for output, expected in (("last", points), ("average", averages)):
        states = simulate(LINE, Subgradient(1.5, output=output, **options), 3, x0=[1.0], keep_states=True).states[1:]
        for state, value, point in zip(states, expected, points, strict=True):
            np.testing.assert_allclose(state.x[0, 0], value, rtol=1e-14)
            np.testing.assert_allclose(state.point[0, 0], point, rtol=1e-14)


RNG = np.random.default_rng(8)
BOUNDED = {
    "lad": LAD(RNG.standard_normal((4, 6, 3)), RNG.standard_normal((4, 6))),
    "lad, weighted": LAD(RNG.standard_normal((3, 6, 3)), RNG.standard_normal((3, 6)), weights=[0.7, 0.2, 0.1]),
    "hinge": Hinge(RNG.standard_normal((3, 8, 3)), np.sign(RNG.standard_normal((3, 8))), 0.1),
    "max affine": MaxAffine(RNG.standard_normal((3, 5, 3)), np.zeros((3, 5)) + np.arange(5)),
    "median": EuclideanDistance(RNG.standard_normal((5, 3))),
    "nesterov": NesterovWorst(6, num_clients=2),
    "pull": TwoClientPull(0.1),
}


@pytest.mark.parametrize("name", BOUNDED)
@pytest.mark.parametrize("schedule", ["constant", "inverse-sqrt"])
def test_the_average_keeps_its_bound(name, schedule):
    problem, radius, rounds = BOUNDED[name], 3.0, 200
    best = problem.optimum_on_ball(radius)
    distance = float(np.linalg.norm(best.x))
    algorithm = subgradient_parameters(problem, rounds, radius, distance, schedule)
    gap = simulate(problem, algorithm, rounds).metrics["objective"][:, 0] - best.lower_bound
    G = float(problem.weights @ problem.lipschitz(radius))
    for t in (1, 2, 17, rounds):
        assert gap[t] <= subgradient_bound((algorithm.steps_of.at(s) for s in range(1, t + 1)), distance, G)


def test_the_bound_is_no_larger_than_it_must_be():
    # |x| from 1, K steps of 1/sqrt(K): the bound 1/sqrt(K) is met to one half, so that a third of it would be broken
    problem, K = L1Distance([[0.0]]), 2500
    algorithm = subgradient_parameters(problem, K, 2.0, 1.0)
    bound = subgradient_bound((algorithm.steps_of.at(t) for t in range(1, K + 1)), 1.0, 1.0)
    assert bound == pytest.approx(1 / math.sqrt(K), rel=1e-12)
    value = simulate(problem, algorithm, K, x0=[1.0]).metrics["objective"][-1, 0]
    assert bound / 3 < value <= bound
    for step in (0.5, 2.0):  # and the step given minimises the bound
        assert subgradient_bound([algorithm.step * step] * K, 1.0, 1.0) > bound


def test_one_subgradient_needs_n_rounds_on_nesterovs_function():
    problem = NesterovWorst(30)
    values = simulate(problem, Subgradient(0.2, radius=1.0), 60, x0=np.zeros(30)).metrics["objective"][:, 0]
    assert (values[:30] >= 0).all() and values[-1] < 0


@pytest.mark.parametrize("schedule", [Schedule("constant", 0.1), Schedule("inverse-sqrt", 0.2), Schedule("hold-and-cut", 0.1, 7, 0.9)])
def test_fedavg_with_one_step_is_the_subgradient_method(schedule):
    problem = BOUNDED["lad"]
    fedavg = simulate(problem, algorithms.FedAvg(), 30, local_solver=SubgradientSteps(1, schedule))
    mine = simulate(problem, Subgradient(schedule.step, schedule.kind, hold=schedule.hold, cut=schedule.cut), 30)
    np.testing.assert_allclose(fedavg.x, mine.x, rtol=0, atol=1e-13)


@pytest.mark.parametrize("algorithm", [algorithms.FedAvg(), algorithms.FedProx(0.7)])
@pytest.mark.parametrize("name", BOUNDED)
def test_constant_local_steps_are_gradient_steps(name, algorithm):
    a, b = (
        simulate(BOUNDED[name], algorithm, 20, local_solver=s, scenarios=2)
        for s in (SubgradientSteps(4, Schedule("constant", 0.05)), GradientSteps(4, 0.05))
    )
    np.testing.assert_array_equal(a.x, b.x)
    np.testing.assert_array_equal(a.metrics["objective"], b.metrics["objective"])


def test_local_steps_stay_in_the_ball():
    problem = TwoClientPull(0.1)
    solver = SubgradientSteps(50, Schedule("constant", 0.3), radius=0.7)
    run = simulate(problem, algorithms.FedAvg(), 5, local_solver=solver, keep_states=True)
    assert max(np.linalg.norm(s.x, axis=-1).max() for s in run.states) <= 0.7 * (1 + 1e-15)
    free = simulate(problem, algorithms.FedAvg(), 5, local_solver=SubgradientSteps(50, Schedule("constant", 0.3)))
    assert np.linalg.norm(free.x) > 0.7


def test_local_l1_penalty_uses_its_subgradient():
    problem = BOUNDED["lad"]
    start = np.zeros((4, 1, 3))
    objective = LocalObjective(start, curvature=1.0, l1=0.5, anchor=start - 1)
    solvers = (SubgradientSteps(3, Schedule("constant", 0.1)), GradientSteps(3, 0.1))
    a, b = (s.solve(problem, objective, start, _rows()) for s in solvers)
    np.testing.assert_array_equal(a.y, b.y)


def _rows():
    from fedtheory.local.objective import Rows
    from fedtheory.randomness import Stream

    return Rows(np.arange(4), np.zeros((4, 1), dtype=int), np.ones((4, 1), dtype=bool), Stream(0), 1)


def test_partial_participation_and_torch():
    problem = BOUNDED["lad"]
    torch = pytest.importorskip("torch")
    for kw in ({}, {"sampling": Uniform(2)}, {"sampling": Uniform(2), "dense": True}):
        mine = simulate(problem, Subgradient(0.1, "inverse-sqrt", "average", 2.0), 10, scenarios=3, **kw)
        theirs = simulate(
            problem, Subgradient(0.1, "inverse-sqrt", "average", 2.0), 10, scenarios=3, like=torch.zeros(1, dtype=torch.float64), **kw
        )
        np.testing.assert_allclose(mine.x, theirs.x, rtol=0, atol=1e-13)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"step": 0.0}, "step is 0.0"),
        ({"step": math.inf}, "step is inf"),
        ({"schedule": "halving"}, "schedule = 'halving'"),
        ({"output": "best"}, "output = 'best'"),
        ({"radius": 0.0}, "radius = 0.0"),
        ({"hold": -1}, "hold is -1"),
        ({"cut": 1.0}, "cut is 1.0"),
    ],
)
def test_values_out_of_range(change, words):
    with pytest.raises(errors.InvalidInput, match=words):
        Subgradient(**{"step": 0.1} | change)


def test_other_refusals():
    with pytest.raises(errors.InvalidInput, match="outside the ball"):
        simulate(LINE, Subgradient(0.1, radius=1.0), 3, x0=[2.0])
    with pytest.raises(errors.MissingCapability, match="lipschitz"):
        subgradient_parameters(problems.random_quadratic(2, 3, 1), 10, 1.0, 1.0)
    for wrong in ({"rounds": 0}, {"distance": 0.0}, {"schedule": "hold-and-cut"}):
        with pytest.raises(errors.InvalidInput, match=f"{next(iter(wrong))} = "):
            subgradient_parameters(LINE, **{"rounds": 10, "radius": 4.0, "distance": 1.0} | wrong)
    with pytest.raises(errors.InvalidInput, match="steps is 0"):
        SubgradientSteps(0, Schedule("constant", 0.1))
    with pytest.raises(errors.InvalidInput, match=r"schedule = 0.1: give a Schedule"):
        SubgradientSteps(1, 0.1)
    with pytest.raises(errors.InvalidInput, match=r"radius is -1"):
        SubgradientSteps(1, Schedule("constant", 0.1), -1)
