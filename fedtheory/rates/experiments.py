"""Rounds to epsilon, measured: where FedMLS's 1/epsilon beats 1/epsilon^2, where nothing can beat 1/epsilon, and where it loses.

Four instances, each with its methods: the two-client pull and Nesterov's worst function (made anew for every epsilon), the
Arjevani-Shamir chain (a lower bound for every method), and one fixed low-dimensional LAD problem.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np

from fedtheory.algorithms.fedmls import FedMLS, fedmls_parameters, fewest_rounds, printed_rounds
from fedtheory.errors import InvalidInput
from fedtheory.local.sliding import SubgradientSliding, compiled
from fedtheory.problems.base import Problem
from fedtheory.problems.nonsmooth import LAD
from fedtheory.problems.nonsmooth_instances import ArjevaniShamir, NesterovWorst, TwoClientPull
from fedtheory.rates.competitors import CUT, Kind, Schedule, nesterov_rounds, pull_rounds, subgradient_rounds, tune
from fedtheory.rates.fits import LEAST_POINTS, fit_slope, precision_floor, prefer
from fedtheory.rates.rounds import RoundsToEpsilon, crossover
from fedtheory.simulation import simulate

__all__ = ["EPSILONS", "INSTANCES", "QUICK_EPSILONS", "Series", "compute", "crossovers", "lad_instance", "smallest_rounds"]

EPSILONS = tuple(float(f"{e:.6g}") for e in np.geomspace(1e-1, 1e-3, 9))
QUICK_EPSILONS = tuple(float(f"{e:.6g}") for e in np.geomspace(1e-1, 1e-2, 5))
INSTANCES = {
    "pull": "two-client pull, made for each epsilon (s = 2 epsilon)",
    "nesterov": "Nesterov's worst function, n = ceil(1/(4 epsilon^2)) - 1",
    "chain": "Arjevani-Shamir chain, d = about 1/(2 sqrt(2) epsilon)",
    "lad": "LAD, one fixed data set",
}
AVERAGE_STEPS = 10  # FedAvg's local steps a round
_PER_DECADE = 8  # of every grid of steps
Role = Literal["measured", "theory", "lower bound"]


@dataclass
class Series:
    """Rounds to epsilon of one method on one instance.

    Attributes
    ----------
    role : 'measured', 'theory' (what a theorem asks for), or 'lower bound' (what no method of the class can beat)
    epsilons, rounds, local_steps : (E,)
        rounds: inf where never reached within the horizon. local_steps: of one client; NaN where local problems are solved exactly.
    schedule : what the rounds belong to
    notes : what was left out, and why
    details : of each epsilon
    """

    instance: str
    method: str
    role: Role
    schedule: str
    epsilons: list[float] = field(default_factory=list)
    rounds: list[float] = field(default_factory=list)
    local_steps: list[float] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    details: list[str] = field(default_factory=list)

    def add(self, epsilon: float, rounds: float, local_steps: float = math.nan, detail: str = "") -> None:
        self.epsilons.append(float(epsilon))
        self.rounds.append(float(rounds))
        self.local_steps.append(float(local_steps))
        self.details.append(detail)

    @cached_property
    def fit(self) -> dict[str, Any] | None:
        """Slope of rounds against epsilon over all epsilons, its interval, and the verdict between -1 and -2; None below 4 points."""
        if np.isfinite(self.rounds).sum() < LEAST_POINTS:
            return None
        slope = fit_slope(self.epsilons, self.rounds, window=(min(self.epsilons), max(self.epsilons)), schedule=self.schedule)
        choice = prefer(slope, -1.0, -2.0)
        text = {"claimed": "1/eps", "other": "1/eps^2", "undecided": "undecided"}[choice.verdict]
        if slope.low > -0.75:  # nearer 0 than -1 with room to spare: no statement about -1 or -2
            text = "better than 1/eps"
        return {
            "slope": slope.slope, "low": slope.low, "high": slope.high, "confidence": slope.confidence, "points": slope.points,
            "verdict": text, "p_minus_1": choice.p_claimed, "p_minus_2": choice.p_other, "excluded": slope.excluded,
        }  # fmt: skip

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "fit": self.fit}


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
        run = simulate(self.problem, algorithm, rounds, record=(), local_solver=SubgradientSliding(threads=1))
        return float(self.problem.objective(run.x)[0]) - self.value

    def seconds(self, epsilon: float, rounds: int) -> float:
        """A rough prediction: what a step costs in each engine, measured on a slow core."""
        steps = self.fedmls(epsilon, rounds).total_steps()
        work = self.problem.num_clients * (10e-9 + 2e-9 * self.problem.dim * float(np.max(self.problem.sample_counts)))
        return rounds * 3e-4 + steps * (work if compiled(self.problem) else 5e-5 + work)


def smallest_rounds(case: _Case, epsilon: float, guess: int, seconds: float) -> tuple[float, str]:
    """The smallest K of a bisection at which FedMLS with Theorem 2's lambda and T_k has F(x_K) - F* <= epsilon.

    Every K is a run of its own, since T_k depends on K: K reaches epsilon and K - 1 does not. NaN and the reason, when one of
    the runs would take more than `seconds`.
    """
    reached: dict[int, bool] = {1: case.gap(epsilon, 1) <= epsilon}
    if reached[1]:
        return 1.0, "x_0 is good enough"

    def reaches(rounds: int) -> bool:
        if rounds not in reached:
            reached[rounds] = case.gap(epsilon, rounds) <= epsilon
        return reached[rounds]

    high = max(2, guess)
    while True:
        if case.seconds(epsilon, high) > seconds:
            steps = case.fedmls(epsilon, high).total_steps()
            return math.nan, f"epsilon = {epsilon:.3g} not run: K = {high:,} takes {steps:,} local steps a client, too long here"
        if reaches(high):
            break
        high = math.ceil(1.25 * high)
    low = 1
    while high - low > 1:
        below = [k for k, ok in reached.items() if not ok and k < high]
        low = max(below)
        step = math.floor(high / 1.25) if low < high / 1.5 else (low + high) // 2
        middle = max(low + 1, min(step, high - 1))
        if middle <= low or middle >= high:
            break
        if reaches(middle):
            high = middle
        else:
            low = middle
    return float(high), ""


def _fedmls_series(
    name: str, make: Callable[[float], _Case | None], epsilons: Sequence[float], seconds: float, tick: Callable[[str], Any]
) -> list[Series]:
    rule = "lambda = eps/G^2, D~ = ||x_0 - x*||^2, T_k of line 4"
    measured = Series(name, "FedMLS", "measured", f"{rule}; smallest K that reaches eps, by bisection")
    least = Series(name, "FedMLS, K_min", "theory", f"{rule}; K_min of Theorem 1 as repaired")
    printed = Series(name, "FedMLS, printed K", "theory", f"{rule}; K of Theorem 2 as printed")
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
        guess = K * epsilon / epsilons[i] if i < len(epsilons) else K
    return [measured, least, printed]


# --- the four instances -------------------------------------------------------------------------------------------------
def _grid(low: float, high: float) -> np.ndarray:
    return 10.0 ** (np.arange(round(low * _PER_DECADE), round(high * _PER_DECADE) + 1) / _PER_DECADE)


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
            held = f"; rounds held: {_HOLDS[0]} to {_HOLDS[-1]}" if kind == "hold-and-cut" else ""
            low, high = _PULL_GRID
            grid = f"h tuned for each eps: 1e{low} to 1e{high}, {_PER_DECADE} a decade{held}"
            series = Series("pull", method, "measured", f"{_words(kind)} ({local}); {grid}")
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
    bound = Series("nesterov", "any span method", "lower bound", "one subgradient a round, any steps: n rounds (proved)")
    out = [bound]
    for epsilon in epsilons:
        n = NesterovWorst.for_epsilon(epsilon).dim
        bound.add(epsilon, n, n)
    for kind in ("constant", "inverse-sqrt"):
        grid = f"h tuned for each eps: 0.1 to 10 times {'1/sqrt(n)' if kind == 'constant' else '1'}, {_PER_DECADE} a decade"
        series = Series("nesterov", "subgradient method", "measured", f"{_words(kind)} (one local step); {grid}")
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
    bound = Series("chain", "any method", "lower bound", "any local work, any steps: d - 1 rounds (proved)")
    for epsilon in epsilons:
        case = chain_case(epsilon)
        if case is not None:
            bound.add(epsilon, case.problem.dim - 1)
    return [bound]


def lad_instance(seed: int = 0, clients: int = 10, samples: int = 20, dim: int = 10) -> LAD:
    """Heterogeneous regression: client k's targets are a_kj'(w + v_k) + noise, v_k of size 1/2 sqrt(d), noise of size 1."""
    rng = np.random.default_rng(seed)
    features = rng.standard_normal((clients, samples, dim))
    models = np.ones(dim) / math.sqrt(dim) + 0.5 * rng.standard_normal((clients, dim))
    return LAD(features, np.einsum("knd,kd->kn", features, models) + rng.standard_normal((clients, samples)))


_LAD_RADIUS, _LAD_GRID, _LAD_LIMIT = 4.0, (-4, 1), 3000


def _lad_competitors(case: _Case, epsilons: Sequence[float], tick: Callable[[str], Any]) -> list[Series]:
    out, steps = [], _grid(*_LAD_GRID)
    grid = f"h tuned for each eps: 1e{_LAD_GRID[0]} to 1e{_LAD_GRID[1]}, {_PER_DECADE} a decade"
    holds = (0, 2, 4, 8, 16, 32)
    for kind in ("constant", "inverse-sqrt", "hold-and-cut"):
        tick("subgradient method, LAD")
        schedules = [Schedule(kind, float(h), hold) for h in steps for hold in (holds if kind == "hold-and-cut" else (0,))]
        found = subgradient_rounds(case.problem, schedules, _LAD_LIMIT, case.value, epsilons, case.radius)
        held = f"; rounds held: {', '.join(map(str, holds))}" if kind == "hold-and-cut" else ""
        series = Series("lad", "subgradient method", "measured", f"{_words(kind)} (one local step); {grid}{held}")
        for epsilon, row in zip(epsilons, found, strict=True):
            best = int(row.argmin())
            series.add(epsilon, row[best], row[best], _schedule_text(schedules[best] if np.isfinite(row[best]) else None))
        out.append(series)
    tick("subgradient method, LAD")
    series = Series("lad", "subgradient method", "measured", "constant eps/G^2 as theory gives it (one local step), not tuned")
    schedules = [Schedule("constant", epsilon / case.lipschitz**2) for epsilon in epsilons]
    limit = math.ceil(2 * (case.lipschitz * case.distance / min(epsilons)) ** 2)
    found = subgradient_rounds(case.problem, schedules, min(limit, 20_000), case.value, epsilons, case.radius)
    for i, epsilon in enumerate(epsilons):
        series.add(epsilon, found[i, i], found[i, i], _schedule_text(schedules[i]))
    return [*out, series]


# --- all together -------------------------------------------------------------------------------------------------------
def crossovers(series: Sequence[Series]) -> list[dict[str, Any]]:
    """For every method beside the measured FedMLS on the same instance: who is ahead at both ends, and where they change places."""
    out = []
    for ours in (s for s in series if s.method == "FedMLS"):
        for other in series:
            if other.instance != ours.instance or other is ours or other.role == "theory":
                continue
            common = sorted(set(ours.epsilons) & set(other.epsilons))
            if not common:
                continue
            a, b = (
                np.array([s.rounds[s.epsilons.index(e)] for e in common]) for s in (ours, other)
            )
            none = np.zeros(len(common), dtype=bool)
            pair = [RoundsToEpsilon(np.array(common), r, r, none, "last", math.inf, "") for r in (a, b)]
            ahead = ["FedMLS" if p < q else other.method if q < p else "equal" for p, q in zip(a, b, strict=True)]
            out.append({
                "instance": ours.instance, "other": other.method, "schedule": other.schedule, "role": other.role,
                "at": crossover(*pair), "smallest_epsilon": common[0], "ahead_at_smallest": ahead[0],
                "largest_epsilon": common[-1], "ahead_at_largest": ahead[-1],
            })  # fmt: skip
    return out


def check_epsilons(epsilons: Sequence[float]) -> list[float]:
    """Sorted, largest first.

    Raises
    ------
    InvalidInput
        Not in (0, 0.25], or fewer than four.
    """
    for epsilon in epsilons:
        if not (isinstance(epsilon, int | float | np.number) and 0 < epsilon <= 0.25):
            raise InvalidInput(f"epsilon = {epsilon!r}: it must lie in (0, 0.25], as in 0.1 or 0.001 (at more the start is good enough)")
    found = sorted({float(e) for e in epsilons}, reverse=True)
    if len(found) < LEAST_POINTS:
        raise InvalidInput(f"{len(found)} different epsilons: a slope with an interval needs at least {LEAST_POINTS}")
    if found[-1] < 1e-4:
        raise InvalidInput(f"epsilon = {found[-1]:g}: below 1e-4 Nesterov's function has n > 25 million; stay at or above 1e-4")
    return found


def compute(
    epsilons: Sequence[float] | None = None, quick: bool = False, seed: int = 0, progress: Callable[[str], Any] | None = None
) -> dict[str, Any]:
    """All series and their fits.

    Parameters
    ----------
    epsilons : four or more in [1e-4, 0.25]; default 1e-1 to 1e-3 (quick: to 1e-2)
    quick : bool
        No single run of FedMLS longer than about a second (otherwise twenty).
    seed : of the LAD data
    progress : called with a name `steps(epsilons)` times

    Raises
    ------
    InvalidInput
        As `check_epsilons`; before work starts.
    """
    chosen = check_epsilons(epsilons if epsilons is not None else QUICK_EPSILONS if quick else EPSILONS)
    tick = progress or (lambda name: None)
    seconds = 1.0 if quick else 20.0
    problem = lad_instance(seed)
    optimum = problem.optimum_on_ball(_LAD_RADIUS)
    if precision_floor(optimum) > chosen[-1] / 100:
        raise InvalidInput(f"epsilon = {chosen[-1]:g} is too near what is known of F* of the LAD problem ({optimum.gap:.2g})")
    lad = _Case(problem, _LAD_RADIUS, float(np.linalg.norm(optimum.x)), optimum.value)
    series = [
        *_fedmls_series("pull", pull_case, chosen, seconds, tick), *_pull_competitors(chosen, tick),
        *_fedmls_series("nesterov", nesterov_case, chosen, seconds, tick), *_nesterov_competitors(chosen, tick),
        *_fedmls_series("chain", chain_case, chosen, seconds, tick), *_chain_bound(chosen),
        *_fedmls_series("lad", lambda e: lad, chosen, seconds, tick), *_lad_competitors(lad, chosen, tick),
    ]  # fmt: skip
    return {
        "epsilons": chosen, "quick": quick, "instances": INSTANCES, "series": [s.to_json() for s in series],
        "crossovers": crossovers(series),
        "lad": {"clients": problem.num_clients, "dim": problem.dim, "radius": lad.radius, "lipschitz": lad.lipschitz,
                "distance": lad.distance, "optimum": optimum.value, "gap": optimum.gap},
    }  # fmt: skip


def steps(epsilons: Sequence[float] | None = None, quick: bool = False) -> int:
    """How often `compute` calls `progress`."""
    count = len(check_epsilons(epsilons if epsilons is not None else QUICK_EPSILONS if quick else EPSILONS))
    return count * (4 + 8 + 2) + 4
