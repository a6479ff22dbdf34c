"""The local problem solved: against cvxpy, its certificate, what it refuses, and FedMLS with it."""

from __future__ import annotations

import math
from dataclasses import replace

import cvxpy as cp
import numpy as np
import pytest
from active_rows import rows_of

from fedtheory import simulate
from fedtheory.algorithms import FedMLS
from fedtheory.algorithms.fedmls import fedmls_parameters
from fedtheory.errors import InvalidInput, LocalSolveFailed, MissingCapability
from fedtheory.local import ExactProx, LocalObjective, SubgradientSliding, exact_prox
from fedtheory.problems import random_quadratic
from fedtheory.problems.nonsmooth import LAD, EuclideanDistance, Hinge, L1Distance, MaxAffine, Quantile
from fedtheory.problems.nonsmooth_instances import ArjevaniShamir, NesterovWorst, TwoClientPull

torch = pytest.importorskip("torch")
RNG = np.random.default_rng(8)


def normal(*shape):
    return RNG.standard_normal(shape)


PROBLEMS = {
    "lad": LAD(normal(2, 7, 3), normal(2, 7)), "lad, unequal": LAD([normal(1, 3), normal(9, 3)], [normal(1), normal(9)]),
    "quantile": Quantile(normal(2, 6, 2), normal(2, 6), 0.3), "hinge": Hinge(normal(2, 7, 3), np.sign(normal(2, 7)), 0.1),
    "max affine": MaxAffine(normal(2, 5, 3), normal(2, 5)), "l1 distance": L1Distance(normal(2, 3)),
    "distance": EuclideanDistance(normal(2, 3)), "pull": TwoClientPull(0.1), "nesterov": NesterovWorst(5, num_clients=2),
    "chain": ArjevaniShamir(4, num_clients=2),
}  # fmt: skip


def penalty(problem, beta, radius, seed=4):
    rng = np.random.default_rng(seed)
    shape = (problem.num_clients, 2, problem.dim)
    center, linear = rng.standard_normal(shape), rng.standard_normal(shape)
    return LocalObjective(center=center * 0.9 * radius / np.linalg.norm(center, axis=-1, keepdims=True), linear=linear, curvature=beta)


def solved(problem, objective, radius, **options):
    return ExactProx(radius, **options).solve(problem, objective, objective.center, rows_of(problem.num_clients, 2))


def value(problem, objective, y):
    return problem.client_value(y) + objective.penalty_value(y)


@pytest.mark.parametrize("beta", [0.2, 3.0, 100.0])
@pytest.mark.parametrize("radius", [0.6, 3.0])
@pytest.mark.parametrize("name", PROBLEMS)
def test_the_certificate_is_what_it_says(name, radius, beta):
    """Phi(y) <= Phi(u) - beta/2 ||u - y||^2 + gap at many points u of the ball, near y and far from it."""
    problem = PROBLEMS[name]
    objective = penalty(problem, beta, radius)
    found = solved(problem, objective, radius)
    y, gap = found.y, found.residual
    assert np.linalg.norm(y, axis=-1).max() <= radius * (1 + 1e-12) and (found.average == y).all()
    at = value(problem, objective, y)
    assert gap.shape == at.shape and (gap >= 0).all() and (gap <= 1e-12 * (1 + np.abs(at) + beta * radius**2) * 30).all()
    rng = np.random.default_rng(1)
    for size in (1e-4, 1e-2, 1.0):
        for _ in range(20):
            u = y + size * rng.standard_normal(y.shape)
            u *= np.minimum(1, radius / np.linalg.norm(u, axis=-1, keepdims=True))
            there = value(problem, objective, u) - beta / 2 * ((u - y) ** 2).sum(axis=-1)
            assert (at <= there + gap + 1e-12 * (1 + np.abs(there))).all()


@pytest.mark.parametrize("name", ["lad", "hinge", "max affine", "distance", "l1 distance"])
def test_it_is_the_conic_solver_s_point(name):
    problem, beta, radius = PROBLEMS[name], 2.0, 0.8
    objective = penalty(problem, beta, radius)
    found = solved(problem, objective, radius).y
    for k in range(2):
        x = cp.Variable(problem.dim)
        own = problem.subset(np.array([k])).cvxpy_objective(x)
        phi = own - objective.linear[k, 0] @ x + beta / 2 * cp.sum_squares(x - objective.center[k, 0])
        cp.Problem(cp.Minimize(phi), [cp.norm(x) <= radius]).solve(solver=cp.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10)
        np.testing.assert_allclose(found[k, 0], x.value, rtol=0, atol=1e-5)


def test_closed_forms():
    """|u - c| in every coordinate is soft thresholding; without a ball nothing is cut."""
    problem = L1Distance(np.zeros((1, 3)))
    center = np.array([[[2.0, -0.3, 0.8]]])
    rows = rows_of(1, 1)
    free = ExactProx().solve(problem, LocalObjective(center=center, curvature=2.0), center, rows)
    np.testing.assert_allclose(free.y[0, 0], [1.5, 0.0, 0.3], rtol=0, atol=1e-15)
    cut = ExactProx(1.0).solve(problem, LocalObjective(center=center, curvature=2.0), center, rows).y[0, 0]
    np.testing.assert_allclose(cut, np.array([1.5, 0.0, 0.3]) / math.hypot(1.5, 0.3), rtol=0, atol=1e-9)


def test_torch_and_single_precision():
    problem, objective = PROBLEMS["lad"], penalty(PROBLEMS["lad"], 2.0, 1.0)
    plain = solved(problem, objective, 1.0)
    for dtype, tolerance in ((torch.float64, 0), (torch.float32, 1e-6)):
        like = objective.map(lambda a, dtype=dtype: torch.tensor(a, dtype=dtype))
        found = solved(problem.like(like.center), like, 1.0)
        assert found.y.dtype == dtype and found.residual.dtype == dtype
        np.testing.assert_allclose(found.y.numpy(), plain.y, rtol=0, atol=tolerance)


class Cancelling(TwoClientPull):
    """A dual form that leaves out what cancels between the clients, also where there is one client."""

    def nonsmooth_structure(self):
        return replace(super().nonsmooth_structure(), linear=None)


def test_what_cannot_be_solved_is_refused(monkeypatch):
    problem, objective = PROBLEMS["lad"], penalty(PROBLEMS["lad"], 2.0, 1.0)
    with pytest.raises(MissingCapability, match="nonsmooth_structure"):
        ExactProx().check(random_quadratic(2, 2, seed=0))
    with pytest.raises(MissingCapability, match="client 0 alone"):
        solved(Cancelling(0.1), penalty(PROBLEMS["pull"], 2.0, 1.0), 1.0)
    for bad, says in (({"curvature": 0.0}, "curvature = 0.0"), ({"l1": 1.0}, "l1 = 1.0"), ({"curvature": math.inf}, "curvature = inf")):
        with pytest.raises(InvalidInput, match=says):
            solved(problem, replace(objective, **bad), 1.0)
    for bad in ({"radius": 0.0}, {"radius": math.nan}, {"radius": "1"}, {"tolerance": 0.0}, {"tolerance": 1.0}):
        with pytest.raises(InvalidInput, match=next(iter(bad))):
            ExactProx(**bad)
    for name, value in (("MOST", 1), ("FIRST", 1), ("TOLERANCES", ())):  # a solver that stops at once
        monkeypatch.setattr(exact_prox, name, value)
    with pytest.raises(LocalSolveFailed, match="client 0: the local problem was solved to a gap of"):
        solved(problem, objective, 1.0)


# --- FedMLS with it -------------------------------------------------------------------------------
def lad():
    rng = np.random.default_rng(1)
    return LAD(rng.standard_normal((3, 6, 2)), rng.standard_normal((3, 6)))


def test_more_and_more_steps_tend_to_the_exact_prox():
    problem, g = lad(), lad().lipschitz_rms(2.0)
    exact = simulate(problem, FedMLS(0.4, 1.0, 6, 2.0, g, local_training="exact-prox"), 6).x[0]
    away = [np.linalg.norm(simulate(problem, FedMLS(0.4, d, 6, 2.0, g), 6).x[0] - exact) for d in (1.0, 1e-2, 1e-4)]
    assert away[0] > 10 * away[1] > 50 * away[2] and away[2] < 1e-4


def test_its_parameters_and_what_it_counts():
    problem = lad()
    steps, exact = (fedmls_parameters(problem, 0.2, 2.0, 1.0, **m) for m in ({}, {"local_training": "exact-prox"}))
    product = problem.lipschitz_rms(2.0) ** 2 / 0.2**2
    for method, constant in ((steps, 36), (exact, 16)):
        K = method.rounds
        assert K * (K + 1) >= constant * product > (K - 1) * K
    assert exact.total_steps() == exact.rounds - 1 and exact.steps(3) == 1 and exact.solved and not steps.solved
    run = simulate(problem, exact, exact.rounds)
    best = problem.optimum_on_ball(2.0)
    assert run.metrics["objective"][-1, 0] - best.lower_bound <= 0.2


def test_under_torch_it_is_the_same_run():
    problem = lad()
    exact = fedmls_parameters(problem, 0.4, 2.0, 1.0, local_training="exact-prox")
    plain, other = (simulate(problem, exact, exact.rounds, like=a).x for a in (None, torch.zeros(1, dtype=torch.float64)))
    np.testing.assert_allclose(np.asarray(other), plain, rtol=0, atol=1e-12)


def test_line_14_has_one_reading_then():
    problem, g = lad(), lad().lipschitz_rms(2.0)
    averaged = FedMLS(0.4, 1.0, 5, 2.0, g, local_training="exact-prox")
    assert (simulate(problem, averaged, 5).x == simulate(problem, replace(averaged, average="printed"), 5).x).all()


def test_noise_and_smooth_problems_are_refused():
    exact = FedMLS(0.4, 1.0, 5, 2.0, 1.0, local_training="exact-prox")
    with pytest.raises(InvalidInput, match=r"noise_std = 0.5: local_training = 'exact-prox'"):
        replace(exact, noise_std=0.5)
    with pytest.raises(InvalidInput, match="local_training = 'prox'"):
        replace(exact, local_training="prox")
    with pytest.raises(InvalidInput, match="asks for no subgradients"):
        simulate(lad(), exact, 5, local_solver=SubgradientSliding(batch_size=2))
    with pytest.raises(MissingCapability, match="nonsmooth_structure"):
        simulate(random_quadratic(2, 2, seed=0), exact, 5)
    with pytest.raises(InvalidInput, match="local problems a client would take"):
        simulate(lad(), replace(exact, rounds=10**7), 10**7)
