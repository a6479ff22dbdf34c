"""Rounds to epsilon of FedMLS and of tuned methods, on instances where a million rounds must take a second.

The loops are in `paper_figures.fedmls.rates.loops`, and the tests run the library's own methods beside them. What is tuned is a
length per slope with all of them: the step of the subgradient method, FedAvg's local steps of a round together, 1/mu of FedProx,
1/alpha of FedDyn, lambda of FedMLS. So one grid serves all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from fedtheory.algorithms.fedmls import FedMLS
from fedtheory.errors import InvalidInput, NotCertified
from fedtheory.local.subgradient import Schedule
from fedtheory.local.subgradient import ScheduleKind as Kind
from fedtheory.problems.base import Problem
from fedtheory.problems.maximum_and_chain import HALF, MaximumAndChain
from fedtheory.problems.nonsmooth import LAD
from fedtheory.problems.nonsmooth_instances import ArjevaniShamir, TwoClientPull
from paper_figures.fedmls.rates import loops
from paper_figures.fedmls.rates.loops import Pace
from paper_figures.fedmls.rates.proximal import Losses

__all__ = ["Schedule", "Trials", "fedmls_last", "losses", "tune"]

_CODES = {"constant": 0, "inverse-sqrt": 1, "hold-and-cut": 2}
LARGEST_GAP = 1e-6  # of a local solution, in units of epsilon; rounding alone leaves 3e-12 where a step is 1e4


def fedmls_last(problem: Problem, algorithm: FedMLS) -> np.ndarray:
    """x_K (d,) of FedMLS from 0: averaged line 14, projected server, no noise, the mean norm; round K's local work is skipped.

    NaN where local steps on a `MaximumAndChain` leave the ball, or may: the loop keeps one share for all.

    Raises
    ------
    InvalidInput
        Another variant of FedMLS.
    """
    if algorithm.average != "averaged" or not algorithm.server_projection or algorithm.norm != "mean" or algorithm.noise_std:
        raise InvalidInput(f"{algorithm}: this loop is FedMLS as repaired and without noise; use simulate for other variants")
    counts = np.array([algorithm.steps(k) for k in range(1, int(algorithm.rounds) + 1)], dtype=np.int64)
    return loops.fedmls(losses(problem, exact=False), counts, float(algorithm.lam), float(algorithm.radius))


def losses(problem: Problem, exact: bool) -> Losses:
    """The compiled loops' numbers of an instance.

    Parameters
    ----------
    exact : whether local problems are solved exactly: there a share of the maximum is one coordinate at its own client, which stands
        for all of them. They start alike, and the proximal point of a loss that no permutation of them changes is alike, too.

    Raises
    ------
    InvalidInput
        A problem of another class.
    """
    N, none = problem.num_clients, np.zeros((problem.num_clients, 0, problem.dim))
    flat, empty = np.zeros((N, problem.dim)), np.zeros((N, 0))
    if isinstance(problem, LAD):  # copies, as the loops would be compiled again for arrays that are read only
        features, targets = np.array(problem.features), np.array(problem.targets)
        return Losses(flat, flat, flat[0], flat, flat[0] + 1, 0.0, features, targets, 0, 0.0, 0.0)
    if isinstance(problem, TwoClientPull):
        linear, kinks = flat.copy(), np.column_stack([problem.slopes, np.full(2, problem.shallow)])
        linear[:, 0] = problem.pulls
        return Losses(linear, kinks, np.array(problem.minimiser), flat, flat[0] + 1, 0.0, none, empty, 0, 0.0, 0.0)
    if not isinstance(problem, ArjevaniShamir | MaximumAndChain):
        raise InvalidInput(f"{problem!r}: the loops know LAD, TwoClientPull, ArjevaniShamir and MaximumAndChain")
    heads, links = problem.heads, problem.links
    kinks = np.column_stack([heads, np.zeros_like(links)])
    along, at = np.column_stack([links, np.zeros(N)]), np.append(problem.target, np.zeros(links.shape[1]))
    none, copies = np.zeros((N, 0, len(at))), np.ones(len(at))
    if isinstance(problem, ArjevaniShamir):
        return Losses(np.zeros_like(kinks), kinks, at, along, copies, 0.0, none, empty, 0, 0.0, 0.0)
    if not exact:
        return Losses(np.zeros_like(kinks), kinks, at, along, copies, 0.0, none, empty, problem.share, HALF, problem.floor)
    own, zeros = HALF / 2 * np.eye(N), np.zeros((N, N))  # p max(y, -c) = p/2 y + p/2 |y + c| - p c/2
    return Losses(
        np.hstack([own, np.zeros_like(kinks)]), np.hstack([own, kinks]), np.append(np.full(N, -problem.floor), at),
        np.hstack([zeros, along]), np.append(np.full(N, float(problem.share)), copies), -HALF * problem.floor / 2,
        np.zeros((N, 0, N + len(at))), empty, 0, 0.0, 0.0,
    )  # fmt: skip


class Trials:
    """First rounds with F(x_t) - F* <= epsilon from x_0 = 0 of the tuned methods on one instance.

    Parameters
    ----------
    value : F*
    radius : of FedMLS's ball; the others have none
    """

    def __init__(self, problem: Problem, value: float, epsilon: float, radius: float) -> None:
        self.epsilon, self.target, self.radius = epsilon, float(value + epsilon), float(radius)
        self.exact, self.stepping = losses(problem, True), losses(problem, False)

    def _pace(self, schedule: Schedule, limit: int) -> Pace:
        return Pace(_CODES[schedule.kind], float(schedule.step), int(schedule.hold), int(limit), self.target)

    def fedavg(self, schedule: Schedule, limit: int, steps: int) -> float:
        """With that many local steps, together as long as the schedule says for the round; 1: the distributed subgradient method."""
        return _rounds(loops.fedavg(self.stepping, self._pace(replace(schedule, step=schedule.step / steps), limit), int(steps)))

    def fedprox(self, schedule: Schedule, limit: int) -> float:
        """mu = 1/step, local problems solved exactly."""
        return self._certified(*loops.fedprox(self.exact, self._pace(schedule, limit)))

    def feddyn(self, schedule: Schedule, limit: int) -> float:
        """alpha = 1/step, local problems solved exactly, every client in every round: consensus ADMM."""
        return self._certified(*loops.feddyn(self.exact, self._pace(schedule, limit)))

    def fedmls_exact(self, schedule: Schedule, limit: int) -> float:
        """lambda = step, local problems solved exactly."""
        return self._certified(*loops.fedmls_exact(self.exact, self._pace(schedule, limit), self.radius))

    def _certified(self, found: int, gap: float) -> float:
        if not gap <= LARGEST_GAP * self.epsilon:
            raise NotCertified(f"a local problem was solved to a duality gap of {gap:.3g} only, above {LARGEST_GAP:g} epsilon")
        return _rounds(found)


def _rounds(found: int) -> float:
    return math.inf if found < 0 else float(found)


def tune(
    run: Callable[[Schedule, int], float], kind: Kind, steps: Sequence[float], likely: float, limit: int,
    holds: Sequence[int] = (0,),
) -> tuple[float, Schedule | None]:  # fmt: skip
    """The fewest rounds over a grid of steps (and of holds), and the schedule that had them; (inf, None) when none gets there.

    run(schedule, limit) gives rounds or inf. Steps near `likely` go first, so that a hopeless one is stopped at the best so far. A hold
    of at least as many rounds as the best so far is a constant step within them, which is tried once.
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
            if hold >= min(limit, best - 1):
                break
    return best, winner
