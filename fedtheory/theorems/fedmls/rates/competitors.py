"""Rounds to epsilon of tuned methods (and FedMLS on the two-client pull), on instances where a million rounds must take a second.

The loops here are FedMLS, FedAvg and FedProx on the two-client pull, and the subgradient method on Nesterov's function, each written
out for its instance and compiled; the tests run the library's own methods beside them.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numba
import numpy as np

from fedtheory.algorithms.fedmls import FedMLS
from fedtheory.errors import InvalidInput
from fedtheory.local.subgradient import CUT, Schedule
from fedtheory.local.subgradient import ScheduleKind as Kind
from fedtheory.problems.nonsmooth_instances import NesterovWorst, TwoClientPull

__all__ = ["Schedule", "fedmls_on_pull", "nesterov_rounds", "pull_rounds", "subgradient_rounds", "tune"]

_CODES = {"constant": 0, "inverse-sqrt": 1, "hold-and-cut": 2}


@numba.njit(cache=True)
def _step(kind: int, step: float, hold: int, t: int) -> float:
    if kind == 1:
        return step / math.sqrt(t)
    if kind == 2 and t > hold:
        return step * CUT ** (t - hold)
    return step


@numba.njit(cache=True)
def _pull(
    local_steps: int, kind: int, step: float, hold: int, limit: int, target: float,
    pulls: np.ndarray, slopes: np.ndarray, first: float, second: float, shallow: float,
) -> int:  # fmt: skip
    x, y = 0.0, 0.0
    for t in range(1, limit + 1):
        h = _step(kind, step, hold, t)
        mean_x, mean_y = 0.0, 0.0
        for i in range(2):
            u, v = x, y
            if local_steps == 0:  # the exact proximal point, coordinate by coordinate
                a, b = u - h * pulls[i] - first, v - second
                u = first + math.copysign(max(abs(a) - h * slopes[i], 0.0), a)
                v = second + math.copysign(max(abs(b) - h * shallow, 0.0), b)
            for _ in range(local_steps):
                u -= h * (pulls[i] + slopes[i] * np.sign(u - first))
                v -= h * shallow * np.sign(v - second)
            mean_x += u / 2
            mean_y += v / 2
        x, y = mean_x, mean_y
        if slopes[1] / 2 * abs(x - first) + shallow * abs(y - second) <= target:
            return t
    return -1


def pull_rounds(problem: TwoClientPull, schedule: Schedule, local_steps: int, limit: int, epsilon: float) -> float:
    """First round with F(x_t) - F* <= epsilon from 0, within `limit` rounds; inf: not reached.

    local_steps >= 1: FedAvg with that many subgradient steps a round, each as long as the schedule says (1: the distributed
    subgradient method). local_steps = 0: FedProx, solved exactly, mu = 1/step. F* = 0; no projection, as both methods have none.
    """
    found = _pull(
        int(local_steps), _CODES[schedule.kind], schedule.step, schedule.hold, int(limit), float(epsilon),
        problem.pulls, problem.slopes, problem.first, problem.second, problem.shallow,
    )  # fmt: skip
    return math.inf if found < 0 else float(found)


@numba.njit(cache=True)
def _fedmls_pull(
    steps: np.ndarray, lam: float, radius: float,
    pulls: np.ndarray, slopes: np.ndarray, first: float, second: float, shallow: float,
) -> tuple[float, float]:  # fmt: skip
    rounds = len(steps)
    x, z, y, sent = np.zeros(2), np.zeros(2), np.zeros(2), np.zeros((2, 2))
    x_local, z_local = np.zeros((2, 2)), np.zeros((2, 2))
    for k in range(1, rounds + 1):
        gamma, beta = 2.0 / (k + 1), 4.0 / (lam * k)
        sent[:] = (1 - gamma) * x_local + gamma * z_local
        y[:] = (1 - gamma) * x + gamma * z
        z -= k / 4 * (y - (sent[0] + sent[1]) / 2)
        size = math.hypot(z[0], z[1])
        if size > radius:
            z *= radius / size
        x[:] = (1 - gamma) * x + gamma * z
        if k == rounds:
            break
        for i in range(2):
            u, v = z_local[i, 0], z_local[i, 1]
            # beta u_0 - g, and the average as a sum with weights t + 1
            a, b = beta * u - (sent[i, 0] - y[0]) / lam - pulls[i], beta * v - (sent[i, 1] - y[1]) / lam
            sum_u, sum_v, slope = 0.0, 0.0, slopes[i]
            for t in range(1, steps[k - 1] + 1):
                h = 2.0 / ((2.0 + t) * beta)
                pull_u = slope if u > first else (-slope if u < first else 0.0)
                pull_v = shallow if v > second else (-shallow if v < second else 0.0)
                u -= h * (pull_u + beta * u - a)
                v -= h * (pull_v + beta * v - b)
                if u * u + v * v > radius * radius:
                    size = math.hypot(u, v)
                    u, v = u * (radius / size), v * (radius / size)
                sum_u += (t + 1) * u
                sum_v += (t + 1) * v
            weight = steps[k - 1] * (steps[k - 1] + 3.0) / 2
            z_local[i, 0], z_local[i, 1] = u, v
            x_local[i, 0] = (1 - gamma) * x_local[i, 0] + gamma * sum_u / weight
            x_local[i, 1] = (1 - gamma) * x_local[i, 1] + gamma * sum_v / weight
    return x[0], x[1]


def fedmls_on_pull(problem: TwoClientPull, algorithm: FedMLS) -> np.ndarray:
    """x_K (2,) of FedMLS from 0: averaged line 14, projected server, no noise, the mean norm; round K's local work is skipped.

    Raises
    ------
    InvalidInput
        Another variant of FedMLS.
    """
    if algorithm.average != "averaged" or not algorithm.server_projection or algorithm.norm != "mean" or algorithm.noise_std:
        raise InvalidInput(f"{algorithm}: this loop is FedMLS as repaired and without noise; use simulate for other variants")
    counts = np.array([algorithm.steps(k) for k in range(1, int(algorithm.rounds) + 1)], dtype=np.int64)
    return np.array(_fedmls_pull(
        counts, float(algorithm.lam), float(algorithm.radius),
        problem.pulls, problem.slopes, problem.first, problem.second, problem.shallow,
    ))  # fmt: skip


@numba.njit(cache=True)
def _nesterov(n: int, mu: float, kind: int, step: float, hold: int, limit: int, target: float) -> int:
    # x = scale * v: a round shrinks all coordinates and lowers the first largest one, which stands on top of the heap
    heap = [(0.0, j) for j in range(n)]
    heapq.heapify(heap)
    scale, size_sq = 1.0, 0.0
    for t in range(1, limit + 1):
        h = _step(kind, step, hold, t)
        shrink = 1.0 - h * mu
        if shrink <= 0.0:
            return -1
        scale *= shrink
        size_sq *= shrink * shrink
        low, j = heap[0]
        old = -low * scale
        size_sq += h * h - 2 * h * old
        heapq.heapreplace(heap, (low + h / scale, j))
        if scale < 1e-150:
            return -1
        if -heap[0][0] * scale + mu / 2 * size_sq <= target:
            return t
    return -1


def nesterov_rounds(problem: NesterovWorst, schedule: Schedule, limit: int, epsilon: float) -> float:
    """First round with F(x_t) - F* <= epsilon of x <- x - h_t g_t from 0 with the first-index subgradient; inf: not within `limit`.

    Steps with h mu >= 1 count as not reaching. F* is the closed form on the ball of radius 1, which holds the minimiser when
    mu = 1/sqrt(n).
    """
    target = problem.least_value(1.0) + epsilon
    code = _CODES[schedule.kind]
    found = _nesterov(problem.dim, problem.mu, code, schedule.step, schedule.hold, int(limit), float(target))
    return math.inf if found < 0 else float(found)


def subgradient_rounds(
    problem: Any, schedules: Sequence[Schedule], limit: int, optimum: float, epsilons: Sequence[float], radius: float = math.inf,
    best_only: bool = False,
) -> np.ndarray:  # fmt: skip
    """First rounds (E, schedules) with F(x_t) - optimum <= epsilon of the projected distributed subgradient method from 0; inf: none.

    All schedules run as one batch; it ends when every schedule has reached every epsilon (best_only: when some schedule has reached
    each), or at `limit`.
    """
    from fedtheory.local.sliding import project_ball

    goals = np.asarray(epsilons, dtype=float)[:, None]
    found = np.full((len(goals), len(schedules)), math.inf)
    x = np.zeros((len(schedules), problem.dim))
    kinds = np.array([_CODES[s.kind] for s in schedules])
    steps, hold = np.array([s.step for s in schedules]), np.array([s.hold for s in schedules])
    for t in range(1, int(limit) + 1):
        h = np.where(kinds == 1, steps / math.sqrt(t), steps)
        h = np.where(kinds == 2, steps * CUT ** np.maximum(t - hold, 0).astype(float), h)
        x = project_ball(x - h[:, None] * problem.full_gradient(x), radius)
        gap = problem.objective(x) - optimum
        new = (gap <= goals) & ~np.isfinite(found)
        if new.any():
            found[new] = t
            if np.isfinite(found.min(axis=1) if best_only else found).all():
                break
    return found


def tune(
    run: Callable[[Schedule, int], float], kind: Kind, steps: Sequence[float], likely: float, limit: int,
    holds: Sequence[int] = (0,),
) -> tuple[float, Schedule | None]:  # fmt: skip
    """The fewest rounds over a grid of steps (and of holds), and the schedule that had them; (inf, None) when none gets there.

    run(schedule, limit) gives rounds or inf. Steps near `likely` go first, so that a hopeless one is stopped at the best so far.
    """
    best, winner = math.inf, None
    for step in sorted(steps, key=lambda s: abs(math.log(s / likely))):
        for hold in holds:
            schedule = replace(Schedule(kind, float(step)), hold=int(hold))
            rounds = run(schedule, int(min(limit, best - 1)))
            if rounds < best:
                best, winner = rounds, schedule
            if best <= 1:
                return best, winner
    return best, winner
