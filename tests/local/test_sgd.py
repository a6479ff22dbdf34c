"""Gradient steps and SGD: steps by hand, schedules, what an epoch takes, unbiased mini-batches, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from active_rows import rows_of
from local_problems import elastic, least_squares

from fedtheory import problems
from fedtheory.clients.clients import Clients
from fedtheory.errors import InvalidInput
from fedtheory.local import SGD, Exact, GradientSteps, LocalObjective
from fedtheory.participation.cohorts import Cohort
from fedtheory.randomness import Stream


def test_one_gradient_step_by_hand() -> None:
    """f = (y - 1)^2, center 0, linear 0.5, curvature 2, l1 0.3, from y = 1, lr 0.1."""
    problem = problems.Quadratic(np.full((1, 1, 1), 2.0), np.ones((1, 1)))
    objective = LocalObjective(np.zeros((1, 1, 1)), np.full((1, 1, 1), 0.5), 2.0, 0.3)
    start = np.ones((1, 1, 1))
    step = GradientSteps(1, 0.1).solve(problem, objective, start, rows_of(1, 1))
    assert step.y.item() == pytest.approx(1 - 0.1 * (0 - 0.5 + 2 + 0.3))
    assert step.step_sum == pytest.approx(0.1)
    step = GradientSteps(1, 0.1, l1="prox").solve(problem, objective, start, rows_of(1, 1))
    assert step.y.item() == pytest.approx(1 - 0.1 * (0 - 0.5 + 2) - 0.03)
    at_zero = GradientSteps(1, 0.1).solve(problem, objective, 0 * start, rows_of(1, 1))
    assert at_zero.y.item() == pytest.approx(0.1 * 2.5)  # sign(0) = 0: no l1 term


def test_step_size_decays_by_round_and_epoch() -> None:
    problem = problems.Quadratic(np.zeros((1, 1, 1)), np.zeros((1, 1)))
    pull = LocalObjective(np.zeros((1, 1, 1)), np.ones((1, 1, 1)))  # gradient -1 everywhere
    walked = GradientSteps(3, 0.5, decay=0.9).solve(problem, pull, np.zeros((1, 1, 1)), rows_of(1, 1, round_index=3))
    assert walked.y.item() == pytest.approx(3 * 0.5 * 0.81)
    assert walked.step_sum == pytest.approx(3 * 0.5 * 0.81)
    steps = SGD(4, 0.5, epochs=2, decay=0.9, epoch_decay=0.5).schedule(10, round_index=2)
    assert [s[:3] for s in steps] == [(0, 0, 4), (0, 4, 8), (0, 8, 10), (1, 0, 4), (1, 4, 8), (1, 8, 10)]
    np.testing.assert_allclose([s[3] for s in steps], [0.45] * 3 + [0.225] * 3)
    assert len(SGD(4, 0.5, steps=7).schedule(10)) == 7
    assert SGD(50, 0.5, steps=3).schedule(10)[2][:3] == (2, 0, 10)


def test_gradient_steps_with_prox_reach_the_exact_minimiser() -> None:
    rng = np.random.default_rng(11)
    problem = least_squares(rng)
    objective, start = elastic(rng, problem, 1.0, 0.1)
    exact = Exact().solve(problem, objective, start, rows_of(*start.shape[:2])).y
    lr = 1 / (objective.curvature + float(problem.beta_k.max()))
    walked = GradientSteps(400, lr, l1="prox").solve(problem, objective, start, rows_of(*start.shape[:2])).y
    np.testing.assert_allclose(walked, exact, atol=1e-12)
    np.testing.assert_array_equal(walked == start, exact == start)


def test_full_batches_are_gradient_steps() -> None:
    rng = np.random.default_rng(12)
    sizes = [4, 11, 4]
    problem = problems.LeastSquares([rng.standard_normal((n, 3)) for n in sizes], [rng.standard_normal(n) for n in sizes])
    objective, start = elastic(rng, problem, 0.1, 0.05)
    rows = rows_of(*start.shape[:2])
    full = SGD(11, 0.1, epochs=5).solve(problem, objective, start, rows)
    steps = GradientSteps(5, 0.1).solve(problem, objective, start, rows)
    np.testing.assert_allclose(full.y, steps.y, atol=1e-13)
    np.testing.assert_allclose(full.step_sum, steps.step_sum)


class Recording(problems.LeastSquares):
    """Notes which samples each mini-batch held."""

    def client_batch_gradient(self, y, samples):
        self.__class__.seen.append(np.array(samples))
        return super().client_batch_gradient(y, samples)


def test_an_epoch_takes_every_sample_once_and_reshuffles() -> None:
    rng = np.random.default_rng(13)
    problem = Recording(rng.standard_normal((2, 10, 3)), rng.standard_normal((2, 10)))
    Recording.seen = []
    objective, start = elastic(rng, problem, 0.1, 0.0, points=4)
    SGD(4, 0.01, epochs=2).solve(problem, objective, start, rows_of(2, 4))
    assert [s.shape[-1] for s in Recording.seen] == [4, 4, 2, 4, 4, 2]
    first, second = (np.concatenate(Recording.seen[a : a + 3], axis=-1) for a in (0, 3))
    for epoch in (first, second):
        np.testing.assert_array_equal(np.sort(epoch, axis=-1), np.broadcast_to(np.arange(10), (2, 4, 10)))
    assert (first != second).any(axis=-1).all()
    orders = first.reshape(-1, 10)
    assert len(np.unique(orders, axis=0)) == len(orders)  # every client and scenario has its own


def test_mini_batches_do_not_depend_on_who_else_takes_part() -> None:
    """Client 2 of scenario 70 draws the same whatever the rows around it, but anew in each round."""
    rng = np.random.default_rng(14)
    problem = problems.LeastSquares(rng.standard_normal((4, 12, 3)), rng.standard_normal((4, 12)))
    theta, solver = rng.standard_normal((200, 3)), SGD(5, 0.1, epochs=1)

    def model(cohort: Cohort, scenarios: range, row: int, slot: int, round_index: int = 1) -> np.ndarray:
        x = theta[scenarios.start : scenarios.stop]
        clients = Clients(problem, cohort, solver, x, Stream(1), round_index, scenarios)
        center = clients.broadcast(x)
        return clients.minimise(LocalObjective(center, curvature=0.1), center).y[row, slot]

    alone = model(Cohort(4, members=np.array([[2]])), range(70, 71), 0, 0)
    pairs = model(Cohort(4, members=np.tile([[0, 2]], (200, 1))), range(200), 70, 1)
    dense = model(Cohort(4, mask=np.ones((30, 4), bool)), range(60, 90), 10, 2)
    np.testing.assert_allclose(pairs, alone, rtol=1e-13)
    np.testing.assert_allclose(dense, alone, rtol=1e-13)
    assert abs(model(Cohort(4, members=np.array([[2]])), range(70, 71), 0, 0, 2) - alone).max() > 1e-6


def test_mini_batch_gradients_are_unbiased() -> None:
    """The mean of one SGD step over many scenarios is the full gradient step, within six standard errors."""
    rng = np.random.default_rng(15)
    problem = problems.LeastSquares(rng.standard_normal((1, 12, 3)), rng.standard_normal((1, 12)))
    start = np.zeros((1, 4000, 3))
    objective = LocalObjective(start)
    y = SGD(3, 1.0, steps=1).solve(problem, objective, start, rows_of(1, 4000)).y[0]
    full = -problem.client_gradient(start[:, :1])[0, 0]
    error = np.abs(y.mean(axis=0) - full) / (y.std(axis=0) / np.sqrt(4000))
    assert (error < 6).all()
    assert y.std(axis=0).min() > 0.01


@pytest.mark.parametrize(
    "build",
    [
        lambda: GradientSteps(0, 0.1),
        lambda: GradientSteps(1.5, 0.1),
        lambda: GradientSteps(1, 0.0),
        lambda: GradientSteps(1, float("nan")),
        lambda: GradientSteps(1, 0.1, l1="soft"),
        lambda: GradientSteps(1, 0.1, decay=1.1),
        lambda: SGD(0, 0.1, epochs=1),
        lambda: SGD(1, 0.1),
        lambda: SGD(1, 0.1, epochs=1, steps=1),
        lambda: SGD(1, 0.1, epochs=0),
        lambda: SGD(1, -0.1, epochs=1),
        lambda: SGD(1, 0.1, epochs=1, epoch_decay=0.0),
        lambda: Exact(tolerance=0.0),
        lambda: Exact(method="simplex"),
    ],
)
def test_bad_hyperparameters_are_refused(build) -> None:
    with pytest.raises(InvalidInput):
        build()
