"""The yardstick of the speed figures: rounds of one problem and method, written by hand in NumPy.

    python validation/timings/by_hand.py

prints how fast fedtheory is beside them, on least squares with 100 clients, ten a round, d = 50.
FedDyn makes ten gradient steps, or solves exactly by kept inverses. FedElasticNet's Algorithm 3
makes proximal gradient steps. One scenario is a batch of the cohort's ten clients. Of many, the
rows of each client lie side by side, and one product a client and step serves them all. Nothing is
checked, counted or kept beside the states: no residual, no divergence, no bits on the wire.

Between the two stands the least that leaves a method a class of its own: fedtheory's FedDyn and its
law of cohorts, and clients that do by hand what FedDyn asks of them, for this one problem.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from joblib import Parallel, delayed, parallel_config
from rows import Figure
from threadpoolctl import threadpool_limits

from fedtheory import simulate
from fedtheory.algorithms import FedDyn, FedElasticNetDyn
from fedtheory.local import Exact, GradientSteps
from fedtheory.local.objective import LocalObjective, LocalResult
from fedtheory.participation.cohorts import Uniform
from fedtheory.problems import LeastSquares
from fedtheory.randomness import Stream

__all__ = ["ByHand", "Least", "core_rows", "least_squares", "rounds_by_hand"]

CLIENTS, COHORT, DIM, SAMPLES, SCENARIOS, STEPS, ALPHA, SEED = 100, 10, 50, 100, 1000, 10, 0.5, 1


def least_squares() -> LeastSquares:
    """100 clients of 100 samples in d = 50."""
    rng = np.random.default_rng(SEED)
    features = rng.standard_normal((CLIENTS, SAMPLES, DIM))
    noise = rng.standard_normal((CLIENTS, SAMPLES)) + rng.standard_normal((CLIENTS, 1))
    return LeastSquares(features, features @ rng.standard_normal(DIM) + noise)


@dataclass(frozen=True)
class ByHand:
    """A method's rounds, with what can be worked out once.

    gram (N, d, d), moment (N, d): gradients are gram_k y - moment_k.

    step (N,), count: of the local steps; count = 0 is an exact solve.
    l2, l1: of the penalty. scenarios: S.
    certified: whether an exact solve of one scenario is followed by its KKT residual.
    """

    gram: np.ndarray
    moment: np.ndarray
    step: np.ndarray
    count: int
    l2: float
    l1: float
    scenarios: int
    certified: bool = False

    def matrices(self) -> np.ndarray:
        """Give what local models are multiplied with: inverses (N, d, d), or matrices of steps."""
        eye = np.eye(self.moment.shape[1])
        if not self.count:
            return np.linalg.inv(self.gram + self.l2 * eye)
        return eye - self.step[:, None, None] * (self.gram + self.l2 * eye)

    def start(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """x (S, d), the clients' duals (S, N, d) and the server's (S, d)."""
        clients, dim = self.moment.shape
        return (
            np.zeros((self.scenarios, dim)),
            np.zeros((self.scenarios, clients, dim)),
            np.zeros((self.scenarios, dim)),
        )

    def rounds(self, cohorts: Iterator[np.ndarray]) -> Iterator[np.ndarray]:
        """x (S, d) after one round and another; cohorts (S, P) each."""
        (clients, dim), matrix = self.moment.shape, self.matrices()
        x, duals, h = self.start()
        for members in cohorts:
            size = members.shape[1]
            if self.scenarios == 1:
                chosen = members[0]
                old, theta = duals[0, chosen], x[0]
                pull = self.moment[chosen] + old + self.l2 * theta
                y = self._batch(matrix[chosen], pull, self.step[chosen, None], theta)
                moved = y - theta
                if self.certified:
                    residual = np.abs(
                        np.matmul(y[:, None], self.gram[chosen])[:, 0] + self.l2 * y - pull
                    ).max(axis=1)
                    if not (residual <= 1e-12 * np.maximum(1.0, np.abs(old).max(axis=1))).all():
                        raise SystemExit(
                            f"a local solve ended at a residual of {residual.max():.3g}"
                        )
                change = -self.l2 * moved
                if self.l1:
                    change -= self.l1 * np.sign(moved)
                duals[0, chosen] = old + change
                h[0] += change.sum(0) / clients
                x = y.mean(0)[None] - h / self.l2
            else:
                flat = members.ravel()
                order = np.argsort(flat.astype(np.int16), kind="stable")
                scenario, client = order // size, flat[order]
                ends = np.cumsum(np.bincount(flat, minlength=clients))
                theta, old = x[scenario], duals[scenario, client]
                pull = old + self.moment[client]
                pull += self.l2 * theta
                y = np.empty_like(theta)
                for k, (first, last) in enumerate(zip([0, *ends[:-1]], ends, strict=True)):
                    rows = slice(first, last)
                    y[rows] = self._rows(matrix[k], pull[rows], self.step[k], theta[rows])
                change = y - theta
                if self.l1:
                    change = self.l2 * change + self.l1 * np.sign(change)
                    change *= -1
                else:
                    change *= -self.l2
                old += change
                duals[scenario, client] = old
                back = np.empty_like(order)
                back[order] = np.arange(order.size)
                h += change[back].reshape(*members.shape, dim).sum(1) / clients
                x = y[back].reshape(*members.shape, dim).mean(1) - h / self.l2
            yield x

    def _batch(
        self, matrix: np.ndarray, pull: np.ndarray, step: np.ndarray, theta: np.ndarray
    ) -> np.ndarray:
        """Local models (P, d) of a cohort."""
        if not self.count:
            return (matrix @ pull[..., None])[..., 0]
        y, pull = np.repeat(theta[None], len(pull), 0), pull * step
        for _ in range(self.count):
            y = (matrix @ y[..., None])[..., 0]
            y += pull
            if self.l1:
                y -= theta
                y = theta + (y - y.clip(-step * self.l1, step * self.l1))
        return y

    def _rows(
        self, matrix: np.ndarray, pull: np.ndarray, step: float, theta: np.ndarray
    ) -> np.ndarray:
        """Local models (R, d) of one client, in the cache."""
        if not self.count:
            return np.dot(pull, matrix)
        y, other, pull, cut = theta.copy(), np.empty_like(theta), pull * step, step * self.l1
        if self.l1:  # around theta: z <- soft(z M + b)
            np.dot(theta, matrix, out=other)
            pull += other
            pull -= theta
            y[...] = 0.0
        for _ in range(self.count):
            np.dot(y, matrix, out=other)
            other += pull
            if self.l1:
                np.clip(other, -cut, cut, out=y)
                np.subtract(other, y, out=y)
            else:
                y, other = other, y
        return y + theta if self.l1 else y


class Least:
    """A cohort of one scenario that does by hand what `FedDyn.round` asks of it, no more."""

    num_clients = CLIENTS

    def __init__(self, hand: ByHand, matrices: np.ndarray, members: np.ndarray) -> None:
        self.hand, self.matrices, self.members = hand, matrices, members

    def broadcast(self, x: np.ndarray) -> np.ndarray:
        return np.broadcast_to(x[:, None, :], (1, self.members.size, x.shape[1]))

    def take(self, memory: np.ndarray) -> np.ndarray:
        return memory.take(self.members, axis=1)

    def minimise(self, objective: LocalObjective, start: np.ndarray) -> LocalResult:
        hand, chosen, theta = self.hand, self.members, start[0, 0]
        pull = hand.moment.take(chosen, axis=0) + objective.linear[0] + objective.curvature * theta
        step = hand.step.take(chosen)[:, None]
        return LocalResult(hand._batch(self.matrices.take(chosen, axis=0), pull, step, theta)[None])

    def moved(self, y: np.ndarray, start: np.ndarray) -> np.ndarray:
        return y - start

    def send(self, message: np.ndarray) -> None:
        """Count nothing."""

    def dual_step(
        self, memory: np.ndarray, duals: np.ndarray, moved: np.ndarray, l2: float
    ) -> tuple[np.ndarray, np.ndarray]:
        new = duals - l2 * moved
        memory[0, self.members] = new[0]
        return memory, np.add.reduce(new - duals, 1)

    def mean(self, values: np.ndarray) -> np.ndarray:
        return np.add.reduce(values, 1) / values.shape[1]


def least_rounds(hand: ByHand, method: FedDyn) -> Iterator[np.ndarray]:
    """x (1, d) after one round and another of the method on `Least`."""
    matrices, law, stream = hand.matrices(), Uniform(COHORT), Stream(SEED)
    state = method.init(np.zeros((1, DIM)), CLIENTS)
    for t in itertools.count(1):
        members = law.sample(stream, t, range(1), CLIENTS).members[0]
        state = method.round(state, Least(hand, matrices, members))
        yield state.x


def drawn(scenarios: int, size: int) -> Iterator[np.ndarray]:
    """Cohorts (S, P), uniform without replacement."""
    rng = np.random.default_rng(SEED)
    while True:
        if scenarios == 1:
            yield rng.choice(CLIENTS, size, replace=False)[None]
        else:
            yield np.argpartition(rng.random((scenarios, CLIENTS)), size - 1, axis=1)[:, :size]


def rounds_by_hand(
    hand: ByHand,
    count: int,
    clock: Callable[[], float] = time.process_time,
    method: FedDyn | None = None,
) -> float:
    """Seconds a round, of so many after two; CPU seconds unless another clock is given.

    With a method, the rounds are that method's, on `Least`.
    """
    run = least_rounds(hand, method) if method else hand.rounds(drawn(hand.scenarios, COHORT))
    next(run), next(run)
    begin = clock()
    for _ in range(count):
        next(run)
    return (clock() - begin) / count


def apart(hand: ByHand, problem: LeastSquares, method: Any, solver: Any, rounds: int = 6) -> float:
    """Difference after a few rounds of the same cohorts; `SystemExit` if it is more than
    rounding."""
    common = dict(sampling=Uniform(COHORT), scenarios=hand.scenarios, seed=SEED, record=())
    found = simulate(problem, method, rounds, local_solver=solver, **common)
    same = (
        Uniform(COHORT).sample(Stream(SEED), t, range(hand.scenarios), CLIENTS).members
        for t in range(1, rounds + 1)
    )
    ways = [hand.rounds(same)]
    if hand.scenarios == 1:
        ways.append(itertools.islice(least_rounds(hand, method), rounds))
    difference = max(float(np.abs(list(way)[-1] - found.x).max()) for way in ways)
    if not difference < 1e-11:
        raise SystemExit(
            f"by hand and fedtheory differ by {difference:.3g}: the ratios would mean nothing"
        )
    return difference


def _in_turns(ways: list[Callable[[], float]], repeats: int) -> list[float]:
    return [float(v) for v in np.median([[way() for way in ways] for _ in range(repeats)], axis=0)]


def _half(hand: ByHand, count: int) -> float:
    with threadpool_limits(1):
        return rounds_by_hand(hand, count, time.perf_counter)


def two_by_hand(hand: ByHand, count: int) -> float:
    """Seconds a round of two processes side by side, each with a hand's scenarios."""
    with parallel_config(backend="loky", n_jobs=2, inner_max_num_threads=1):
        return max(Parallel(max_nbytes=None)(delayed(_half)(hand, count) for _ in range(2)))


def core_rows(repeats: int = 7, tick: Callable[[], None] = lambda: None) -> list[Figure]:
    """Time FedDyn's rounds beside those by hand: one scenario, many, and many on two cores."""
    problem, out = least_squares(), []
    step = 1.0 / (float(problem.beta_k.max()) + ALPHA)
    kinds = {"10 gradient steps": (STEPS, GradientSteps(STEPS, step)), "exact solves": (0, Exact())}
    for name, (count, solver) in kinds.items():
        method = FedDyn(ALPHA)
        make = partial(
            ByHand, problem.gram, problem.moment, np.full(CLIENTS, step), count, ALPHA, 0.0
        )
        for scenarios in (1, 20):
            apart(make(scenarios), problem, method, solver)

        def ours(
            scenarios: int, rounds: int, workers: int, method: Any = method, solver: Any = solver
        ) -> float:
            common = dict(
                sampling=Uniform(COHORT),
                scenarios=scenarios,
                seed=SEED,
                local_solver=solver,
                record=(),
                workers=workers,
            )
            ends, clock = [], time.process_time if workers == 1 else time.perf_counter
            for length in (rounds + 5, 5):
                begin = clock()
                simulate(problem, method, length, **common)
                ends.append(clock() - begin)
            return (ends[0] - ends[1]) / rounds

        cases = [(1, 300, 1, False), (SCENARIOS, 20, 1, False), (SCENARIOS, 100, 2, False)]
        for scenarios, rounds, workers, certified in cases + [(1, 300, 1, True)] * (count == 0):
            with threadpool_limits(1):
                if workers == 1:
                    hand = partial(rounds_by_hand, make(scenarios, certified), rounds)
                else:
                    hand = partial(two_by_hand, make(scenarios // 2), rounds)
                ways = [partial(ours, scenarios, rounds, workers), hand]
                if scenarios == 1:
                    ways.append(partial(rounds_by_hand, make(1), rounds, method=method))
                mine, theirs, *least = _in_turns(ways, repeats)
            title = (
                f"FedDyn, {name}, {scenarios:,} scenario{'s' * (scenarios > 1)}"
                + ", two cores" * (workers == 2)
            )
            title += ", residuals by hand, too" * certified
            clock = "wall" if workers == 2 else "CPU"
            how = f"a round {1e6 * mine:,.0f} us, by hand {1e6 * theirs:,.0f}"
            how += "".join(f", FedDyn's class on clients by hand {1e6 * v:,.0f}" for v in least)
            how += f"; {clock} time, medians of {repeats} in turns"
            out.append(Figure(title, theirs / mine, "x by hand", ">= 0.9", how))
            tick()
    return out


def elastic_by_hand(
    problem: LeastSquares, method: FedElasticNetDyn, step: np.ndarray, count: int, scenarios: int
) -> ByHand:
    """FedElasticNet's Algorithm 3 with ``count`` proximal gradient steps."""
    return ByHand(problem.gram, problem.moment, step, count, method.l2, method.l1, scenarios)


if __name__ == "__main__":
    for figure in core_rows():
        print(f"{figure.name:60}{figure.value:8.2f} {figure.unit:10} {figure.note}", flush=True)
