"""Minima over convex sets, and MOPES and MOLES with the parameters of their bounds."""

from __future__ import annotations

import math

import numpy as np
import pytest
from cases import each

from fedtheory.central import (
    MOLES,
    MOPES,
    Ball,
    Box,
    Consensus,
    ConstraintSet,
    Joint,
    L1Ball,
    NuclearBall,
    Simplex,
    named_set,
    optimum_over,
    plan,
)
from fedtheory.central.named_sets import SETS, shape_of
from fedtheory.errors import InvalidInput, MissingCapability, NotCertified
from fedtheory.problems import random_quadratic
from fedtheory.problems.nonsmooth import LAD, EuclideanDistance, Hinge, MaxAffine
from fedtheory.problems.nonsmooth_instances import NesterovWorst

RNG = np.random.default_rng(6)
PROBLEMS = {
    "lad": LAD(RNG.normal(size=(3, 8, 6)), RNG.normal(size=(3, 8))),
    "hinge": Hinge(RNG.normal(size=(3, 9, 6)), np.sign(RNG.normal(size=(3, 9))), 0.1),
    "max affine": MaxAffine(RNG.normal(size=(3, 5, 6)), RNG.normal(size=(3, 5))),
    "distance": EuclideanDistance(RNG.normal(size=(4, 6))), "nesterov": NesterovWorst(6),
}  # fmt: skip
SHAPES = {"nuclear-ball": (2, 3)}


@each("name", ["ball", "box", "simplex", "l1-ball", "nuclear-ball"])
@each("problem", PROBLEMS.values())
def test_the_minimum_is_between_its_bounds(problem, name):
    constraint = named_set(name, 6, 0.7, SHAPES.get(name))
    best = optimum_over(problem, constraint)
    assert constraint.distance(best.x) <= 1e-12
    assert best.lower_bound <= float(problem.objective(best.x)) <= best.value + 1e-15 and 0 <= best.gap <= 1e-6
    rng = np.random.default_rng(0)
    points = constraint.project(rng.standard_normal((400, 6)))
    near = constraint.project(best.x + 1e-3 * rng.standard_normal((400, 6)))
    assert problem.objective(np.concatenate([points, near])).min() >= best.lower_bound


def test_the_ball_s_minimum_is_the_problem_s_own():
    problem = PROBLEMS["lad"]
    own, found = problem.optimum_on_ball(0.7), optimum_over(problem, Ball(6, 0.7))
    assert abs(own.value - found.value) <= 1e-9 and found.lower_bound <= own.value
    block = optimum_over(problem, Consensus(3, 6, 0.7))
    assert block.value == own.value and (block.x.reshape(3, 6) == own.x).all()


class Blind(Ball):
    """A ball whose description for cvxpy is another one: the point that comes back is no minimiser of it."""

    def constraints(self, variable):
        return [variable == np.full(self.dim, 0.01)]


def test_what_cannot_be_certified():
    with pytest.raises(MissingCapability, match="nonsmooth_structure"):
        optimum_over(random_quadratic(2, 6, seed=0), Ball(6, 1.0))
    with pytest.raises(MissingCapability, match="unbounded"):
        optimum_over(PROBLEMS["lad"], Consensus(3, 6))
    with pytest.raises(NotCertified, match="relative gap is"):
        optimum_over(PROBLEMS["lad"], Blind(6, 1.0))
    with pytest.raises(InvalidInput, match="gap"):
        optimum_over(PROBLEMS["lad"], Ball(6, 1.0), gap=0.0)


@pytest.mark.parametrize("local_training", ["sliding", "exact-prox"])
@pytest.mark.parametrize("method", ["mopes", "moles"])
@pytest.mark.parametrize("name", ["box", "simplex", "nuclear-ball"])
def test_a_plan_keeps_its_promise(name, method, local_training):
    problem, constraint = PROBLEMS["max affine"], named_set(name, 6, 0.7, SHAPES.get(name))
    made = plan(problem, constraint, method, epsilon=0.5, local_training=local_training)
    run = made.method.run(made.problem, constraint, made.x0)
    assert run.values[-1] - made.optimum.lower_bound <= made.bound <= made.epsilon * (1 + 1e-12)
    assert isinstance(made.method, MOLES) == (method == "moles") and made.to_json()["bound"] == made.bound
    K = made.method.rounds
    first = 8 if local_training == "exact-prox" else 18
    more = 0 if method == "mopes" else 2 * constraint.diameter**2
    need = 2 * float(made.method.lipschitz) ** 2 * (first * made.distance**2 + more) / made.epsilon**2
    assert (K - 1) * K < need * (1 + 1e-9) and K * (K + 1) >= need * (1 - 1e-9)
    rows = dict(made.rows())
    assert ("linear minimisations" in rows) == (method == "moles") and ("solved" in rows["subgradients"]) == (first == 8)


def test_over_the_consensus_set_it_is_fedmls_s_plan():
    from fedtheory.algorithms.fedmls import fedmls_parameters

    problem = PROBLEMS["lad"]
    made = plan(problem, Consensus(3, 6, 0.9), epsilon=0.4)
    same = fedmls_parameters(problem, made.epsilon, 0.9, made.distance)
    assert (made.method.rounds, float(made.method.lam)) == (same.rounds, pytest.approx(float(same.lam)))
    assert made.problem is problem and made.method.radius is None


def test_given_numbers_stand():
    problem = PROBLEMS["lad"]
    given = {"rounds": 4, "lam": 0.3, "D": 2.0, "lipschitz": 9.0, "C": 0.25, "noise": 0.1, "radius": 4.0}
    made = plan(problem, Box(6, -0.5, 0.5), "moles", np.full(6, 0.5), **given)
    m = made.method
    assert (m.rounds, m.lam, m.D, m.lipschitz, m.C, m.radius) == (4, 0.3, 2.0, 9.0, 0.25, 4.0)
    assert m.noise_std == m.sigma == pytest.approx(0.9) and (made.x0 == 0.5).all()
    assert dict(made.rows())["noise added"].endswith("0.9")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"name": "fedavg"}, "method = 'fedavg'"), ({"epsilon": 0.0}, "epsilon"), ({"C": 1.0}, "C = 1: it is moles'"),
        ({"x0": np.full(6, 2.0)}, "away from the set"), ({"noise": 0.1, "noise_std": 0.1}, "give one of them"),
        ({"epsilon": 1e-7}, "more than 200,000"), ({"epsilon": 1e-4}, "hours here, and max_steps"), ({"radius": 0.1}, "X' must hold X"),
        ({"local_training": "prox"}, "local_training = 'prox'"),
        ({"local_training": "exact-prox", "noise": 0.1}, "asks for no subgradients"),
    ],
    ids=str,
)  # fmt: skip
def test_plans_that_cannot_be_made(change, says):
    with pytest.raises(InvalidInput, match=says):
        plan(PROBLEMS["lad"], Ball(6, 0.5), **change)


def test_from_the_minimiser_there_is_no_plan():
    problem = EuclideanDistance(np.zeros((1, 2)))
    with pytest.raises(InvalidInput, match="x_0 is the minimiser"):
        plan(problem, Ball(2, 1.0), x0=optimum_over(problem, Ball(2, 1.0)).x)


def test_names_of_sets():
    made = {name: named_set(name, 6, 2.0, SHAPES.get(name), clients=3) for name in SETS}
    assert {type(s) for s in made.values()} == {Ball, Box, Simplex, L1Ball, NuclearBall, Consensus}
    assert all(isinstance(s, ConstraintSet) and s.block_norm_bound <= 2 * math.sqrt(6) for s in made.values())
    assert shape_of("2x3") == (2, 3) and shape_of(None) is None
    for call, says in (
        (lambda: named_set("cone", 6), "set = 'cone'"), (lambda: named_set("ball", 6, 0.0), "set_size"),
        (lambda: named_set("nuclear-ball", 6), "set_shape"), (lambda: named_set("ball", 6, 1.0, (2, 3)), "set_shape"),
        (lambda: named_set("nuclear-ball", 6, 1.0, (2, 2)), "has 4 entries"), (lambda: shape_of("2*3"), "as in 2x3"),
        (lambda: shape_of("0x3"), "as in 2x3"),
    ):  # fmt: skip
        with pytest.raises(InvalidInput, match=says):
            call()


def test_joint_problems_hand_their_dual_form_on():
    problem = PROBLEMS["lad"]
    x = np.linspace(-1, 1, 6)
    assert float(Joint(problem).nonsmooth_structure().value(x).hi) == pytest.approx(float(problem.objective(x)), rel=1e-12)
    run = MOPES(0.1, 1.0, 3, 5.0, local_training="exact-prox").run(Joint(problem), Ball(6, 0.7))
    assert run.subgradient_calls[-1] == 0 and run.values[-1] < run.values[0]
