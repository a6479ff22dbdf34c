"""Rounds to epsilon, measured, on four instances, each with its methods.

The two-client pull and Nesterov's worst function are made anew for every epsilon: there FedMLS's 1/epsilon meets the 1/epsilon^2 of
FedProx and FedAvg, and of one subgradient a round. On the pull the distributed subgradient method with a tuned step h/sqrt(t)
needs fewer rounds than FedMLS all the same, and Nesterov's instance has one client, on which FedAvg with n local steps needs one
round. The Arjevani-Shamir chain is a lower bound for every method. On the fixed low-dimensional LAD problem tuned steps win.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

from fedtheory.algorithms.fedmls import FedMLS, fedmls_parameters, fewest_rounds, printed_rounds
from fedtheory.errors import InvalidInput
from fedtheory.inputs import real_array
from fedtheory.local.sliding import SubgradientSliding, compiled
from fedtheory.problems.base import Problem
from fedtheory.problems.nonsmooth import LAD
from fedtheory.problems.nonsmooth_instances import ArjevaniShamir, NesterovWorst, TwoClientPull
from fedtheory.rates.fits import LEAST_POINTS, precision_floor
from fedtheory.rates.series import Series, crossovers
from fedtheory.simulation.simulate import simulate
from fedtheory.theorems.fedmls.rates.competitors import (
    CUT,
    Kind,
    Schedule,
    fedmls_on_pull,
    nesterov_rounds,
    pull_rounds,
    subgradient_rounds,
    tune,
)

__all__ = ["EPSILONS", "INSTANCES", "QUICK_EPSILONS", "check_epsilons", "compute", "lad_instance", "smallest_rounds", "steps"]

EPSILONS = tuple(float(f"{e:.6g}") for e in np.geomspace(1e-1, 1e-3, 9))
QUICK_EPSILONS = tuple(float(f"{e:.6g}") for e in np.geomspace(1e-1, 1e-2, 5))
INSTANCES = {
    "pull": "two-client pull, made for each epsilon (s = 2 epsilon)",
    "nesterov": "Nesterov's worst function, one client, n = ceil(1/(4 epsilon^2)) - 1",
    "chain": "Arjevani-Shamir chain, d = about 1/(2 sqrt(2) epsilon)",
    "lad": "LAD, one fixed data set",
}
AVERAGE_STEPS = 10  # FedAvg's local steps a round
_PER_DECADE = 8  # of every grid of steps


# --- FedMLS -------------------------------------------------------------------------------------------------------------
@dataclass
class _Case:
    """A problem with what FedMLS is told about it."""

    problem: Problem
    radius: float
    distance: float
    value: float  # F*

    def fedmls(self, epsilon: float, rounds: int | Literal["fewest", "printed"]) -> FedMLS:
        return fedmls_parameters(
            self.problem, epsilon, self.radius, self.distance, rounds=rounds, lipschitz=self.lipschitz, allow_long=True
        )

    @cached_property
    def lipschitz(self) -> float:
        return self.problem.lipschitz_rms(self.radius)

    def gap(self, epsilon: float, rounds: int) -> float:
        algorithm = self.fedmls(epsilon, rounds)
        if isinstance(self.problem, TwoClientPull):
            return float(self.problem.objective(fedmls_on_pull(self.problem, algorithm))) - self.value
        run = simulate(self.problem, algorithm, rounds, record=(), local_solver=SubgradientSliding(threads=1))
        return float(self.problem.objective(run.x)[0]) - self.value

    def seconds(self, epsilon: float, rounds: int) -> float:
        """A rough prediction: what a step costs in each engine, measured on a slow core."""
        steps = self.fedmls(epsilon, rounds).total_steps()
        if isinstance(self.problem, TwoClientPull):
            return steps * 2.5e-8
        work = self.problem.num_clients * (5e-8 + 3e-9 * self.problem.dim * float(np.max(self.problem.sample_counts)))
        return rounds * 3e-4 + steps * (work if compiled(self.problem) else 5e-5 + work)


def smallest_rounds(
    case: _Case, epsilon: float, guess: int, seconds: float, precision: float = 0.005
) -> tuple[float, str]:
    """The smallest K found by bisection at which FedMLS with Theorem 2's lambda and T_k has F(x_K) - F* <= epsilon.

    Every K is a run of its own, since T_k depends on K. K reaches epsilon, and some K' >= K/(1 + precision) - 1 below it does not.
    NaN and the reason, when one of the runs would take more than `seconds`.
    """
    if case.gap(epsilon, 1) <= epsilon:
        return 1.0, "x_0 is good enough"
    low, high, width, K = 1, 0, 1.04, max(2, guess)  # low does not reach epsilon, high does (0: not known yet)
    while not high or high - low > max(1, precision * high):
        predicted = case.seconds(epsilon, K)
        if predicted > seconds:
            steps = case.fedmls(epsilon, K).total_steps()
            why = f"epsilon = {epsilon:.3g} not run: K = {K:,} takes {steps:,} local steps a client, about {predicted:.0f} s a run"
            return math.nan, why
        if case.gap(epsilon, K) <= epsilon:
            high = K
            K = max(low + 1, math.floor(high / width)) if low < high / width else (low + high) // 2
        else:
            low = K
            K = (low + high) // 2 if high else max(low + 1, math.ceil(low * width))
        width = min(width**2, 2.0)
    return float(high), ""


def _fedmls_series(
    name: str, make: Callable[[float], _Case | None], epsilons: Sequence[float], seconds: float, tick: Callable[[str], Any]
) -> list[Series]:
    rule = "lambda = eps/G^2, D~ = ||x_0 - x*||^2, T_k of line 4"
    measured = Series(name, "FedMLS", "FedMLS", "measured", f"{rule}; smallest K that reaches eps, by bisection to 0.5 %")
    least = Series(name, "FedMLS", "FedMLS, K_min", "theory", f"{rule}; K_min of Theorem 1 as repaired")
    printed = Series(name, "FedMLS", "FedMLS, printed K", "theory", f"{rule}; K of Theorem 2 as printed")
    guess, stopped = 3.0, False
    for epsilon in epsilons:
        tick(f"FedMLS, {name}")
        case = make(epsilon)
        if case is None:
            measured.notes.append(f"epsilon = {epsilon:.3g}: no such instance")
            continue
        for series, count in ((least, fewest_rounds), (printed, printed_rounds)):
            K = count(epsilon, case.lipschitz, case.distance)
            series.add(epsilon, K, case.fedmls(epsilon, K).total_steps() if K < 10**5 else math.nan)
        if stopped:
            continue
        K, why = smallest_rounds(case, epsilon, round(guess), seconds)
        if math.isnan(K):
            measured.notes.append(why + "; smaller ones neither")
            stopped = True
            continue
        measured.add(epsilon, K, case.fedmls(epsilon, int(K)).total_steps(), why)
        i = epsilons.index(epsilon) + 1
        guess = K * epsilon / epsilons[i] if i < len(epsilons) else K  # only where the search begins
    return [measured, least, printed]


# --- the four instances -------------------------------------------------------------------------------------------------
def _grid(low: float, high: float) -> np.ndarray:
    return 10.0 ** (np.arange(round(low * _PER_DECADE), round(high * _PER_DECADE) + 1) / _PER_DECADE)


_SHORT: dict[Kind, str] = {"constant": "constant", "inverse-sqrt": "1/sqrt(t)", "hold-and-cut": "held, cut"}


def _words(kind: Kind, letter: str = "h") -> str:
    return {
        "constant": f"constant {letter}", "inverse-sqrt": f"{letter}/sqrt(t)",
        "hold-and-cut": f"{letter} held, then x{CUT:g} a round",
    }[kind]  # fmt: skip


def pull_case(epsilon: float) -> _Case:
    problem = TwoClientPull(epsilon)
    return _Case(problem, 4.0, float(np.linalg.norm(problem.minimiser)), 0.0)


_PULL_GRID = (-6, 4)
_HOLDS = tuple(sorted({round(2 ** (k / 2)) for k in range(16)}))


def _pull_competitors(epsilons: Sequence[float], tick: Callable[[str], Any]) -> list[Series]:
    out = []
    for method, steps in (("FedProx", 0), ("FedAvg", AVERAGE_STEPS), ("subgradient method", 1)):
        kinds: tuple[Kind, ...] = ("constant", "inverse-sqrt") + (("hold-and-cut",) if steps != 1 else ())
        for kind in kinds:
            local = {0: "1/mu = h, exact local solves", 1: "one local step"}.get(steps, f"{steps} local steps of h")
            short = "subgradient" if steps == 1 else method
            held = f"; rounds held: {_HOLDS[0]} to {_HOLDS[-1]}" if kind == "hold-and-cut" else ""
            low, high = _PULL_GRID
            grid = f"h tuned for each eps: 1e{low} to 1e{high}, {_PER_DECADE} a decade{held}"
            series = Series("pull", method, f"{short}, {_SHORT[kind]}", "measured", f"{_words(kind)} ({local}); {grid}")
            for epsilon in epsilons:
                tick(f"{method}, two-client pull")
                problem, limit = TwoClientPull(epsilon), math.ceil(10 / epsilon**2)
                scale = {"constant": epsilon, "inverse-sqrt": 0.5, "hold-and-cut": 0.1 / epsilon}[kind] / max(1, steps)
                rounds, best = tune(
                    lambda s, most, p=problem, n=steps, e=epsilon: pull_rounds(p, s, n, most, e),
                    kind, _grid(*_PULL_GRID), scale, limit if kind != "hold-and-cut" else 10_000,
                    _HOLDS if kind == "hold-and-cut" else (0,),
                )  # fmt: skip
                series.add(epsilon, rounds, rounds * steps if steps else math.nan, _schedule_text(best))
            out.append(series)
    return out


def _schedule_text(best: Schedule | None) -> str:
    if best is None:
        return "not reached"
    return f"h = {best.step:.4g}" + (f", held for {best.hold} rounds" if best.kind == "hold-and-cut" else "")


def nesterov_case(epsilon: float) -> _Case:
    problem = NesterovWorst.for_epsilon(epsilon)
    return _Case(problem, 1.0, 1.0, problem.least_value(1.0))


def _nesterov_competitors(epsilons: Sequence[float], tick: Callable[[str], Any]) -> list[Series]:
    rule = "iterates in the span of one subgradient a round, any steps: n rounds (proved)"
    bound = Series("nesterov", "any span method", "one subgradient a round", "lower bound", rule)
    out = [bound]
    for epsilon in epsilons:
        n = NesterovWorst.for_epsilon(epsilon).dim
        bound.add(epsilon, n, n)
    for kind in ("constant", "inverse-sqrt"):
        grid = f"h tuned for each eps: 0.1 to 10 times {'1/sqrt(n)' if kind == 'constant' else '1'}, {_PER_DECADE} a decade"
        rule = f"{_words(kind)} (one local step); {grid}"
        series = Series("nesterov", "subgradient method", f"subgradient, {_SHORT[kind]}", "measured", rule)
        for epsilon in epsilons:
            tick("subgradient method, Nesterov's function")
            problem = NesterovWorst.for_epsilon(epsilon)
            scale = 1 / math.sqrt(problem.dim) if kind == "constant" else 1.0
            rounds, best = tune(
                lambda s, most, p=problem, e=epsilon: nesterov_rounds(p, s, most, e),
                kind, scale * _grid(-1, 1), scale, 20 * problem.dim,
            )  # fmt: skip
            series.add(epsilon, rounds, rounds, _schedule_text(best))
        out.append(series)
    return out


def chain_case(epsilon: float) -> _Case | None:
    try:
        return _Case(ArjevaniShamir.for_epsilon(epsilon), 2.0, 1.0, 0.0)
    except InvalidInput:  # no chain is short enough
        return None


def _chain_bound(epsilons: Sequence[float]) -> list[Series]:
    bound = Series("chain", "any method", "any method at all", "lower bound", "any local work, any steps: d - 1 rounds (proved)")
    for epsilon in epsilons:
        case = chain_case(epsilon)
        if case is not None:
            bound.add(epsilon, case.problem.dim - 1)
    return [bound]


def lad_instance(seed: int = 0, clients: int = 5, samples: int = 20, dim: int = 5) -> LAD:
    """Heterogeneous regression: targets a_kj'(w + v_k) + noise, ||w|| = 2, columns of a_kj scaled from 1 to 0.1; noise and the entries
    of v_k have standard deviation 1/2."""
    rng = np.random.default_rng(seed)
    features = rng.standard_normal((clients, samples, dim)) * np.geomspace(1, 0.1, dim)
    models = 2 * np.ones(dim) / math.sqrt(dim) + 0.5 * rng.standard_normal((clients, dim))
    return LAD(features, np.einsum("knd,kd->kn", features, models) + 0.5 * rng.standard_normal((clients, samples)))


_LAD_RADIUS, _LAD_GRID, _LAD_LIMIT = 8.0, (-3, 1), 2000


def _lad_competitors(case: _Case, epsilons: Sequence[float], tick: Callable[[str], Any]) -> list[Series]:
    out, steps = [], _grid(*_LAD_GRID)
    grid = f"h tuned for each eps: 1e{_LAD_GRID[0]} to 1e{_LAD_GRID[1]}, {_PER_DECADE} a decade"
    holds = (0, 2, 4, 8, 16, 32, 64)
    for kind in ("constant", "inverse-sqrt", "hold-and-cut"):
        tick("subgradient method, LAD")
        schedules = [Schedule(kind, float(h), hold) for h in steps for hold in (holds if kind == "hold-and-cut" else (0,))]
        found = subgradient_rounds(case.problem, schedules, _LAD_LIMIT, case.value, epsilons, case.radius, best_only=True)
        held = f"; rounds held: {', '.join(map(str, holds))}" if kind == "hold-and-cut" else ""
        rule = f"{_words(kind)} (one local step); {grid}{held}"
        series = Series("lad", "subgradient method", f"subgradient, {_SHORT[kind]}", "measured", rule)
        for epsilon, row in zip(epsilons, found, strict=True):
            best = int(row.argmin())
            series.add(epsilon, row[best], row[best], _schedule_text(schedules[best] if np.isfinite(row[best]) else None))
        out.append(series)
    tick("subgradient method, LAD")
    rule = "constant eps/G^2 as theory gives it (one local step), not tuned"
    series = Series("lad", "subgradient method", "subgradient, eps/G^2", "measured", rule)
    schedules = [Schedule("constant", epsilon / case.lipschitz**2) for epsilon in epsilons]
    limit = math.ceil(2 * (case.lipschitz * case.distance / min(epsilons)) ** 2)
    found = subgradient_rounds(case.problem, schedules, min(limit, 50_000), case.value, epsilons, case.radius)
    for i, epsilon in enumerate(epsilons):
        series.add(epsilon, found[i, i], found[i, i], _schedule_text(schedules[i]))
    return [*out, series]


# --- all together -------------------------------------------------------------------------------------------------------
def check_epsilons(epsilons: Sequence[float]) -> list[float]:
    """Sorted, largest first.

    Raises
    ------
    InvalidInput
        Not in (0, 0.25], or fewer than four.
    """
    given = np.atleast_1d(real_array("epsilons", epsilons, finite=False)).tolist()
    for epsilon in given:
        if not 0 < epsilon <= 0.25:
            raise InvalidInput(f"epsilon = {epsilon!r}: it must lie in (0, 0.25], as in 0.1 or 0.001")
    found = sorted(set(given), reverse=True)
    if len(found) < LEAST_POINTS:
        raise InvalidInput(f"{len(found)} different epsilons: a slope with an interval needs at least {LEAST_POINTS}")
    if found[-1] < 1e-4:
        raise InvalidInput(f"epsilon = {found[-1]:g}: below 1e-4 Nesterov's function has n > 25 million; stay at or above 1e-4")
    return found


def compute(
    epsilons: Sequence[float] | None = None, quick: bool = False, seed: int = 0, progress: Callable[[str], Any] | None = None
) -> dict[str, Any]:
    """All series and their fits; with KeyboardInterrupt the instances and methods that are finished, and ``complete`` is False.

    Parameters
    ----------
    epsilons : four or more in [1e-4, 0.25]; default 1e-1 to 1e-3 (quick: to 1e-2)
    quick : bool
        No single run of FedMLS predicted to take more than a second (otherwise twelve).
    seed : of the LAD data
    progress : called with a name `steps(epsilons)` times

    Raises
    ------
    InvalidInput
        As `check_epsilons`; before work starts.
    """
    chosen = check_epsilons(epsilons if epsilons is not None else QUICK_EPSILONS if quick else EPSILONS)
    tick = progress or (lambda name: None)
    seconds = 1.0 if quick else 12.0
    problem = lad_instance(seed)
    optimum = problem.optimum_on_ball(_LAD_RADIUS)
    if precision_floor(optimum) > chosen[-1] / 100:
        raise InvalidInput(f"epsilon = {chosen[-1]:g} is too near what is known of F* of the LAD problem ({optimum.gap:.2g})")
    lad = _Case(problem, _LAD_RADIUS, float(np.linalg.norm(optimum.x)), optimum.value)
    parts: list[Callable[[], list[Series]]] = [
        lambda: _fedmls_series("pull", pull_case, chosen, seconds, tick), lambda: _pull_competitors(chosen, tick),
        lambda: _fedmls_series("nesterov", nesterov_case, chosen, seconds, tick), lambda: _nesterov_competitors(chosen, tick),
        lambda: _fedmls_series("chain", chain_case, chosen, seconds, tick), lambda: _chain_bound(chosen),
        lambda: _fedmls_series("lad", lambda e: lad, chosen, seconds, tick), lambda: _lad_competitors(lad, chosen, tick),
    ]  # fmt: skip
    series: list[Series] = []
    complete = False
    try:
        for part in parts:
            series += part()
        complete = True
    except KeyboardInterrupt:
        if not series:
            raise
    reached = {s.instance for s in series}
    return {
        "epsilons": chosen, "quick": quick, "complete": complete,
        "instances": {name: title for name, title in INSTANCES.items() if name in reached},
        "series": [s.to_json() for s in series], "crossovers": crossovers(series, "FedMLS"),
        "lad": {"clients": problem.num_clients, "dim": problem.dim, "radius": lad.radius, "lipschitz": lad.lipschitz,
                "distance": lad.distance, "optimum": optimum.value, "gap": optimum.gap},
    }  # fmt: skip


def steps(epsilons: Sequence[float] | None = None, quick: bool = False) -> int:
    """How often `compute` calls `progress`."""
    count = len(check_epsilons(epsilons if epsilons is not None else QUICK_EPSILONS if quick else EPSILONS))
    return count * (4 + 8 + 2) + 4
