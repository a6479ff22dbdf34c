"""LocalSGD: how many steps, which samples, how much noise, and that nothing else matters for what is drawn."""

from __future__ import annotations

import numpy as np
import pytest

from fedtheory import Bernoulli, Uniform, algorithms, problems, simulate
from fedtheory.clients.clients import Clients
from fedtheory.errors import InvalidInput, MissingCapability
from fedtheory.local import SGD, Constant, GradientSteps, InverseTime, LocalObjective, LocalSGD, Schedule, TheoremStep
from fedtheory.local.objective import Rows
from fedtheory.participation.cohorts import Cohort
from fedtheory.participation.irregular import incomplete
from fedtheory.problems.base import Problem
from fedtheory.randomness import BLOCK, Stream


class Recorder(Problem):
    """f_k = 0, and it remembers the mini-batches it was asked for."""

    def __init__(self, counts):
        self.num_clients, self.dim = len(counts), 4
        self.sample_counts, self.weights = np.array(counts), np.full(len(counts), 1 / len(counts))
        self.seen = []

    def client_gradient(self, y):
        return np.zeros_like(y)

    def client_batch_gradient(self, y, samples):
        self.seen.append(np.array(samples))
        return np.zeros_like(y)


def rows_of(clients, scenarios, steps=None, round_index=1, seed=0):
    grid = np.broadcast_to(np.asarray(scenarios), (len(clients), len(scenarios)))
    return Rows(np.asarray(clients), grid, np.ones(grid.shape, bool), Stream(seed), round_index, steps)


def drawn(solver, counts, scenarios, clients=None, **key):
    """Samples of all steps (steps, N, B, b) and end points (N, B, d), f = 0."""
    problem = Recorder(counts)
    clients = np.arange(len(counts)) if clients is None else clients
    start = np.zeros((len(counts), len(scenarios), problem.dim))
    result = solver.solve(problem, LocalObjective(center=start), start, rows_of(clients, scenarios, **key))
    return np.array(problem.seen), result.y


def test_the_steps_are_gradient_steps_and_stop_where_the_cohort_says():
    rng = np.random.default_rng(0)
    problem = problems.LeastSquares(rng.normal(size=(3, 5, 2)), rng.normal(size=(3, 5)), ridge=0.1)
    start, steps = rng.normal(size=(3, 4, 2)), rng.integers(0, 5, (3, 4))
    steps[0, :2] = 0, 4
    objective = LocalObjective(center=start + 1, linear=rng.normal(size=start.shape), curvature=rng.random(start.shape))
    result = LocalSGD(4, lambda t: 0.1 / t).solve(problem, objective, start, rows_of(range(3), range(4), steps, 2))
    for k in range(3):
        for b in range(4):
            expected = GradientSteps(int(max(steps[k, b], 1)), 0.05).solve(
                problem, objective, start, rows_of(range(3), range(4))
            )
            if steps[k, b]:
                np.testing.assert_allclose(result.y[k, b], expected.y[k, b], rtol=1e-13)
            else:
                assert (result.y[k, b] == start[k, b]).all()
    np.testing.assert_allclose(result.step_sum[..., 0], 0.05 * steps, rtol=1e-15)
    everything = LocalSGD(4, 0.05).solve(problem, objective, start, rows_of(range(3), range(4)))
    assert everything.step_sum == 0.2
    np.testing.assert_array_equal(everything.y[steps == 4], result.y[steps == 4])


def test_a_client_that_stopped_early_drew_what_it_would_have_drawn():
    rng = np.random.default_rng(1)
    problem = problems.LeastSquares(rng.normal(size=(2, 6, 3)), rng.normal(size=(2, 6)))
    start = np.zeros((2, 5, 3))
    ends = [
        LocalSGD(3, 0.1, batch_size=2, noise_std=0.3).solve(
            problem, LocalObjective(center=start), start, rows_of(range(2), range(5), np.full((2, 5), s))
        )
        for s in (1, 2, 3)
    ]
    mixed = np.array([[1, 2, 3, 1, 2], [3, 3, 1, 2, 0]])
    y = LocalSGD(3, 0.1, batch_size=2, noise_std=0.3).solve(
        problem, LocalObjective(center=start), start, rows_of(range(2), range(5), mixed)
    )
    for k in range(2):
        for b in range(5):
            expected = ends[mixed[k, b] - 1].y[k, b] if mixed[k, b] else 0 * start[k, b]
            np.testing.assert_array_equal(y.y[k, b], expected)


@pytest.mark.parametrize("replacement", [True, False])
def test_draws_depend_on_seed_round_step_scenario_and_client_alone(replacement):
    solver = LocalSGD(3, 0.1, batch_size=4, noise_std=0.7, replacement=replacement)
    counts = [4, 9, 6, 7]
    many, ends = drawn(solver, counts, range(2 * BLOCK + 3))
    shifted, shifted_ends = drawn(solver, counts, range(BLOCK - 2, BLOCK + 5))
    np.testing.assert_array_equal(shifted, many[:, :, BLOCK - 2 : BLOCK + 5])
    np.testing.assert_array_equal(shifted_ends, ends[:, BLOCK - 2 : BLOCK + 5])
    some, some_ends = drawn(solver, [6, 9], [7, 3], clients=[2, 1])  # other clients, another order
    np.testing.assert_array_equal(some, many[:, [2, 1]][:, :, [7, 3]])
    np.testing.assert_array_equal(some_ends, ends[[2, 1]][:, [7, 3]])
    for other in (drawn(solver, counts, range(9), round_index=2), drawn(solver, counts, range(9), seed=1)):
        assert (other[0] != many[:, :, :9]).mean() > 0.3 and (other[1] != ends[:, :9]).all()
    assert (many[0] != many[1]).mean() > 0.3  # a new batch every step
    assert (many[:, 2] != many[:, 3]).mean() > 0.3


@pytest.mark.parametrize("batch", [1, 3, 4])
def test_few_of_many_clients_draw_what_they_draw_among_all(batch):
    """Jump over the numbers between the drawn ones, where most of a block's are nobody's."""
    solver = LocalSGD(2, 0.1, batch_size=batch)
    many, _ = drawn(solver, [5] * 900, [BLOCK + 3, BLOCK + 4])
    few, _ = drawn(solver, [5, 5], [BLOCK + 4, BLOCK + 3], clients=[7, 899])
    np.testing.assert_array_equal(few, many[:, [7, 899]][:, :, [1, 0]])


@pytest.mark.parametrize("replacement", [True, False])
def test_every_sample_is_as_likely_as_every_other(replacement):
    """2000 scenarios x 3 steps x b = 3: each count is binomial, and 5 standard deviations wide."""
    counts = [3, 5, 8]
    batches, _ = drawn(LocalSGD(3, 0.1, batch_size=3, replacement=replacement), counts, range(2000))
    for k, n in enumerate(counts):
        picks = batches[:, k]
        assert picks.min() >= 0 and picks.max() < n
        distinct = np.array([len(set(p)) for p in picks.reshape(-1, 3).tolist()])
        assert (distinct == 3).all() if not replacement else (distinct < 3).any()
        for place in range(3):
            share = np.bincount(picks[..., place].ravel(), minlength=n) / (3 * 2000)
            assert np.abs(share - 1 / n).max() < 5 * np.sqrt((1 - 1 / n) / n / 6000)
        both = (picks[..., 0] == 0) & (picks[..., 1] == n - 1)
        pair = 1 / n**2 if replacement else 1 / (n * (n - 1))
        assert abs(both.mean() - pair) < 5 * np.sqrt(pair * (1 - pair) / 6000)


def test_noise_has_the_given_mean_square_norm():
    _, ends = drawn(LocalSGD(1, 0.5, noise_std=2.0), [1, 1], range(4000))
    noise = ends / -0.5
    assert abs((noise**2).sum(axis=-1).mean() / 4.0 - 1) < 5 * np.sqrt(2 / 4 / 8000)
    assert np.abs(noise.mean(axis=(0, 1))).max() < 5 * 1.0 / np.sqrt(8000)


def test_layouts_and_chunks_agree():
    rng = np.random.default_rng(3)
    problem = problems.LeastSquares(
        [rng.normal(size=(n, 3)) for n in (4, 6, 3)], [rng.normal(size=n) for n in (4, 6, 3)]
    )
    solver = LocalSGD(3, InverseTime(0.1, 4), batch_size=2, noise_std=0.1)
    for sampling in (Uniform(2), Bernoulli(0.6), incomplete(3, 3, [0.3, 0.3, 0.2, 0.2])):
        ends = [
            simulate(
                problem,
                algorithms.EFL(),
                4,
                sampling=sampling,
                scenarios=5,
                local_solver=solver,
                dense=dense,
                chunk=chunk,
            ).x
            for dense, chunk in ((False, None), (True, None), (False, 2))
        ]
        np.testing.assert_allclose(ends[1], ends[0], rtol=1e-12)
        np.testing.assert_allclose(ends[2], ends[0], rtol=1e-12)


def test_schedules():
    assert [Constant(0.3)(t) for t in (1, 9)] == [0.3, 0.3]
    assert [InverseTime(0.5, 2)(t) for t in (1, 3, 5)] == [0.5, 0.25, 0.5 / 3]
    step = TheoremStep(mu=2.0, E=5, gamma=15.0, S=(4.0, 8.0))
    assert [step(t) for t in (1, 2, 3)] == [16 * 5 / (2 * 20 * 4), 16 * 5 / (2 * 25 * 8), 16 * 5 / (2 * 30 * 4)]
    assert LocalSGD(1, Schedule("inverse-sqrt", 1.0).at).step_size(4) == 0.5


def test_a_cohort_with_steps_needs_a_solver_that_stops_there():
    rng = np.random.default_rng(4)
    problem = problems.LeastSquares(rng.normal(size=(3, 5, 2)), rng.normal(size=(3, 5)))
    sampling = incomplete(3, 2, [0.2, 0.4, 0.4])
    for solver in (None, GradientSteps(2, 0.1), SGD(steps=2, lr=0.1, batch_size=2)):
        with pytest.raises(MissingCapability, match=r"LocalSGD\(steps=2"):
            simulate(problem, algorithms.FedAvg(), 1, sampling=sampling, local_solver=solver)
    with pytest.raises(InvalidInput, match=r"E = 2 .* steps = 3"):
        simulate(problem, algorithms.FedAvg(), 1, sampling=sampling, local_solver=LocalSGD(3, 0.1))


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"steps": 0}, "steps is 0"),
        ({"lr": 0.0}, "lr is 0.0"),
        ({"lr": float("nan")}, "lr is nan"),
        ({"batch_size": 0}, "batch_size is 0"),
        ({"noise_std": -1.0}, "noise_std is -1.0"),
    ],
)
def test_bad_input(bad, message):
    with pytest.raises(InvalidInput, match=message):
        LocalSGD(**({"steps": 2, "lr": 0.1} | bad))


def test_bad_input_of_problem_and_schedule():
    quadratic = problems.Quadratic(np.eye(2)[None], np.zeros((1, 2)))
    with pytest.raises(MissingCapability, match="batch_size=None"):
        LocalSGD(2, 0.1, batch_size=1).check(quadratic)
    with pytest.raises(InvalidInput, match="only 3 samples"):
        LocalSGD(2, 0.1, batch_size=4, replacement=False).check(Recorder([5, 3]))
    with pytest.raises(InvalidInput, match=r"lr\(2\) is 0"):
        LocalSGD(2, lambda t: 2.0 - t).step_size(2)
    for bad in ({"mu": 0.0}, {"E": 0}, {"gamma": -1.0}, {"S": 0.0}, {"S": ()}, {"S": (1.0, -1.0)}):
        with pytest.raises(InvalidInput):
            TheoremStep(**({"mu": 1.0, "E": 2, "gamma": 1.0, "S": 1.0} | bad))
    cohort = Cohort(1, mask=np.zeros((1, 1), bool), steps=np.zeros((1, 1), int), max_steps=2)
    clients = Clients(quadratic, cohort, LocalSGD(2, 0.1), np.zeros((1, 2)))
    start = np.ones((1, 1, 2))
    np.testing.assert_array_equal(clients.minimise(LocalObjective(center=start), start).y, start)
