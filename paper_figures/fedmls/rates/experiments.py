"""Rounds to epsilon, measured, on five instances, each method tuned by the same rule.

Three instances are made anew for every epsilon: the two-client pull, the Arjevani-Shamir chain, and
a maximum split over clients beside such a chain. Two are fixed: the pull with the slope it has at
epsilon = 0.1, and LAD on one data set.

The rule: what a method is tuned in is a length per slope (the step h of the subgradient method and
of FedAvg, 1/mu of FedProx, 1/alpha of FedDyn, lambda of FedMLS), on `STEPS`, the same 33 values for
all; a schedule that is held and then cut has 33 holds, too. The best is the one with the fewest
rounds until F(x) - F* <= epsilon, for every epsilon anew, within 2/epsilon^2 rounds; and within
600, or twenty times what the accuracy before it leads to expect of a method with 1/epsilon^2.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cache, lru_cache, partial
from typing import Any, NamedTuple

import numpy as np

from fedtheory.algorithms.fedmls import fewest_rounds, printed_rounds
from fedtheory.errors import InvalidInput
from fedtheory.inputs import real_array
from fedtheory.parallel import as_finished
from fedtheory.problems.maximum_and_chain import MaximumAndChain
from fedtheory.problems.nonsmooth import LAD
from fedtheory.provenance import to_jsonable
from fedtheory.rates.fits import LEAST_POINTS
from fedtheory.store.result_store import ResultStore
from paper_figures.fedmls.rates.competitors import Kind, Schedule, Trials, tune
from paper_figures.fedmls.rates.instances import INSTANCES, Case, bounds, cases, lad_case, lad_instance
from paper_figures.fedmls.rates.series import Series, best_of, crossovers

__all__ = [
    "EPSILONS", "HOLDS", "INSTANCES", "METHODS", "QUICK_EPSILONS", "SECONDS", "STEPS",
    "check_epsilons", "compute", "lad_instance", "parts", "smallest_rounds", "tuned_lambda",
]

EPSILONS = tuple(float(f"{e:.6g}") for e in np.geomspace(1e-1, 1e-3, 9))
QUICK_EPSILONS = tuple(float(f"{e:.6g}") for e in np.geomspace(1e-1, 1e-2, 5))
STEPS = tuple(float(f"{h:.6g}") for h in np.geomspace(1e-4, 1e4, 33))
HOLDS = tuple(sorted({0, *(round(2 ** (k / 2)) for k in range(40))}))[: len(STEPS)]  # 0 to 65536
SECONDS = {"quick": 1.0, "default": 1.5}  # that one run of FedMLS, or the tuning of one method, may be predicted to take
BUDGET = 4  # local steps of a run with a lambda that is tried, in units of those with Theorem 2's lambda


# --- FedMLS ---------------------------------------------------------------------------------------
def smallest_rounds(
    case: Case, epsilon: float, guess: int, seconds: float, precision: float = 0.005, lam: float | None = None
) -> tuple[float, str]:
    """The smallest K found by bisection at which FedMLS with line 4's T_k has
    F(x_K) - F* <= epsilon; lambda is Theorem 2's, or given.

    Every K is a run of its own, since T_k depends on K. K reaches epsilon, and some
    K' >= K/(1 + precision) - 1 below it does not. NaN and the reason, when one of the runs would
    take more than `seconds`.
    """
    if case.gap(epsilon, 1, lam) <= epsilon:
        return 1.0, "x_0 is good enough"
    low, high, width, K = 1, 0, 1.04, max(2, guess)  # low does not reach epsilon, high does (0: not known yet)
    while not high or high - low > max(1, precision * high):
        predicted = case.seconds(epsilon, K, lam)
        if predicted > seconds:
            steps = case.with_lambda(epsilon, K, lam).total_steps()
            why = f"epsilon = {epsilon:.3g} not run: K = {K:,} takes {steps:,} local steps a client, about {predicted:.0f} s a run"
            return math.nan, why
        if case.gap(epsilon, K, lam) <= epsilon:
            high = K
            K = max(low + 1, math.floor(high / width)) if low < high / width else (low + high) // 2
        else:
            low = K
            K = (low + high) // 2 if high else max(low + 1, math.ceil(low * width))
        width = min(width**2, 2.0)
    return float(high), ""


def tuned_lambda(case: Case, epsilon: float, known: int) -> tuple[float, float, int]:
    """The smallest K over all lambda of `STEPS`, that lambda, and how many of them were left out;
    (NaN, NaN, ...) when none is smaller than `known`, what Theorem 2's lambda needs.

    A lambda is tried with one round less than the best so far, and bisected where that reaches
    epsilon. It is left out when that run would take more than `BUDGET` times the local steps that
    Theorem 2's lambda takes: ten times the lambda asks for a hundred times as many in every round.
    """
    theory, most = epsilon / case.lipschitz**2, BUDGET * case.with_lambda(epsilon, known, None).total_steps()
    best, winner, left_out = float(known), math.nan, 0
    for lam in sorted(STEPS, key=lambda v: abs(math.log(v / theory))):
        K = int(best) - 1
        if K < 1:
            break
        if case.with_lambda(epsilon, K, lam).total_steps() > most:
            left_out += 1
        elif case.gap(epsilon, K, lam) <= epsilon:
            best, winner = smallest_rounds(case, epsilon, K, math.inf, 0.02, lam)[0], lam
    return (best, winner, left_out) if math.isfinite(winner) else (math.nan, math.nan, left_out)


def _fedmls_series(
    name: str, make: Callable[[float], Case | None], epsilons: Sequence[float], seconds: float, tick: Callable[[str], Any]
) -> list[Series]:
    rule = "lambda = eps/G^2, D~ = ||x_0 - x*||^2, T_k of line 4"
    measured = Series(name, "FedMLS", "FedMLS", "measured", f"{rule}; smallest K that reaches eps, by bisection to 0.5 %")
    capped = f"lambda tuned, T_k of line 4, {BUDGET} times as many local steps at most; smallest K to 2 %"
    tuned = Series(name, "FedMLS", "FedMLS, tuned", "measured", capped)
    least = Series(name, "FedMLS", "FedMLS, K_min", "theory", f"{rule}; K_min of Theorem 1 as repaired")
    printed = Series(name, "FedMLS", "FedMLS, printed K", "theory", f"{rule}; K of Theorem 2 as printed")
    guess = 3.0
    for at, epsilon in enumerate(epsilons):
        tick(f"FedMLS, {name}")
        case = make(epsilon)
        if case is None:
            measured.notes.append(f"epsilon = {epsilon:.3g}: no such instance")
            tick(f"FedMLS, lambda tuned, {name}")
            continue
        for series, count in ((least, fewest_rounds), (printed, printed_rounds)):
            K = count(epsilon, case.lipschitz, case.distance)
            series.add(epsilon, K, case.fedmls(epsilon, K).total_steps() if K < 10**5 else math.nan)
        found, why = (math.nan, "") if guess < 0 else smallest_rounds(case, epsilon, round(guess), seconds)
        if guess > 0 and math.isnan(found):
            measured.notes.append(why + "; smaller ones neither")
        guess = -1.0 if math.isnan(found) else found * epsilon / epsilons[min(at + 1, len(epsilons) - 1)]
        tick(f"FedMLS, lambda tuned, {name}")
        if guess < 0:
            continue
        measured.add(epsilon, found, case.fedmls(epsilon, int(found)).total_steps(), why)
        if case.seconds(epsilon, int(found)) > seconds / 20:
            continue
        best, lam, left_out = tuned_lambda(case, epsilon, int(found))
        ratio = lam * case.lipschitz**2 / epsilon
        told = f"lambda = {lam:.4g}, {ratio:.2g} eps/G^2" if math.isfinite(lam) else "no other lambda that was run needs fewer rounds"
        K = int(best) if math.isfinite(lam) else int(found)
        local_steps = case.with_lambda(epsilon, K, lam if math.isfinite(lam) else None).total_steps()
        tuned.add(epsilon, K, local_steps, f"{told}; {left_out} larger ones left out")
    return [measured, tuned, least, printed]


def _fedavg(trials: Trials, schedule: Schedule, most: int, n: int) -> float:
    return trials.fedavg(schedule, most, n)


# --- the methods ----------------------------------------------------------------------------------
@dataclass(frozen=True)
class Method:
    """A method with one way to set its steps.

    Attributes
    ----------
    name : methods of the same name are one line in figures, the best of them at every epsilon
    steps : local subgradient steps a round, 0 where local problems are solved exactly
    """

    name: str
    label: str
    what: str
    run: Callable[[Trials, Schedule, int], float]
    kind: Kind = "constant"
    steps: int = 0


_SHORT: dict[Kind, str] = {"constant": "constant", "inverse-sqrt": "1/sqrt(t)", "hold-and-cut": "held, cut"}


def _methods() -> tuple[Method, ...]:
    out = [
        Method("FedDyn", "FedDyn, exact", "1/alpha = h, exact local solves: consensus ADMM", Trials.feddyn),
        Method("FedMLS, exact", "FedMLS, exact", "lambda = h, exact local solves: T_k without end", Trials.fedmls_exact),
    ]
    out += [Method("FedProx", f"FedProx, {s}", "1/mu = h, exact local solves", Trials.fedprox, k) for k, s in _SHORT.items()]
    for steps, name, label in ((10, "FedAvg", "FedAvg 10"), (100, "FedAvg", "FedAvg 100"), (1, "subgradient", "subgradient")):
        what = f"{steps} local step{'s' * (steps > 1)} of h/{steps}" if steps > 1 else "1 local step"
        out += [
            Method(name, f"{label}, {s}", what, partial(_fedavg, n=steps), k, steps)
            for k, s in _SHORT.items()
        ]  # fmt: skip
    return tuple(out)


METHODS = _methods()
_RULE: dict[Kind, str] = {"constant": "h constant", "inverse-sqrt": "h/sqrt(t)", "hold-and-cut": "h held, then x0.8 a round"}


def _predicted(method: Method, case: Case, rounds: float) -> float:
    """Seconds that tuning takes when the best needs so many rounds, roughly: every step of the grid
    is run as far as that."""
    N, d = case.problem.num_clients, case.problem.dim
    if isinstance(case.problem, MaximumAndChain):
        d = case.problem.length + 2  # the share's steps are counted below
    if isinstance(case.problem, LAD):
        d *= case.problem.features.shape[1]
    a_round = N * d * (2e-9 * method.steps if method.steps else 5e-8 if isinstance(case.problem, LAD) else 4e-9) + 1.5e-7 * method.steps
    held = 3.4 * rounds + len(HOLDS) * min(rounds, 80.0) if method.kind == "hold-and-cut" else rounds
    return held * len(STEPS) * a_round


def _tuned_series(
    name: str, method: Method, make: Callable[[float], Case | None], epsilons: Sequence[float],
    seconds: float, tick: Callable[[str], Any],
) -> Series:
    held = "; rounds held: 33 values from 0 to 65536" if method.kind == "hold-and-cut" else ""
    rule = f"{_RULE[method.kind]} ({method.what}); h tuned for each eps: 33 values from 1e-4 to 1e4{held}"
    series = Series(name, method.name, method.label, "measured", rule)
    likely, guess = 0.5, 30.0
    for epsilon in epsilons:
        tick(f"{method.label}, {name}")
        case = make(epsilon)
        if case is None or series.notes:
            continue
        if series.rounds and math.isfinite(series.rounds[-1]):
            guess = series.rounds[-1] * (series.epsilons[-1] / epsilon) ** 2
        if (predicted := _predicted(method, case, guess)) > seconds:
            series.notes.append(f"epsilon = {epsilon:.3g} and smaller not run: tuning would take about {predicted:.0f} s")
            continue
        trials = case.trials(epsilon)
        holds = HOLDS if method.kind == "hold-and-cut" else (0,)
        limit = min(_limit(epsilon), max(600, math.ceil(20 * guess)))
        rounds, best = tune(partial(method.run, trials), method.kind, STEPS, likely, limit, holds)
        likely = likely if best is None else best.step
        series.add(epsilon, rounds, rounds * method.steps if method.steps else math.nan, _schedule_text(best))
    return series


def _limit(epsilon: float) -> int:
    return math.ceil(2 / epsilon**2)


def _schedule_text(best: Schedule | None) -> str:
    if best is None:
        return "not reached"
    edge = " (the grid's end)" if best.step in (STEPS[0], STEPS[-1]) else ""
    return f"h = {best.step:.4g}{edge}" + (f", held for {best.hold} rounds" if best.kind == "hold-and-cut" else "")


def _untuned(name: str, make: Callable[[float], Case | None], epsilons: Sequence[float], tick: Callable[[str], Any]) -> Series:
    """The distributed subgradient method with the step of its theorem."""
    rule = "h constant = eps/G^2 as theory gives it (1 local step), not tuned"
    series = Series(name, "subgradient, not tuned", "subgradient, eps/G^2", "measured", rule)
    for epsilon in epsilons:
        tick(f"subgradient, eps/G^2, {name}")
        case = make(epsilon)
        if case is not None:
            schedule = Schedule("constant", epsilon / case.lipschitz**2)
            rounds = case.trials(epsilon).fedavg(schedule, _limit(epsilon), 1)
            series.add(epsilon, rounds, rounds, _schedule_text(schedule))
    return series


# --- all together ---------------------------------------------------------------------------------
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
        raise InvalidInput(f"epsilon = {found[-1]:g}: below 1e-4 an instance has 50 million coordinates; stay at or above 1e-4")
    return found


class _Part(NamedTuple):
    """A piece of the experiments that may be kept: a method on an instance for all epsilons.

    Method -1 is FedMLS with the lower bounds, and the last one the subgradient method with the step
    of its theorem.
    """

    instance: str
    method: int
    epsilons: tuple[float, ...]
    seconds: float
    seed: int


@lru_cache(maxsize=1)
def _cases(seed: int) -> dict[str, Callable[[float], Case | None]]:
    return {name: cache(make) for name, make in cases(lad_case(seed)[0]).items()}


def _measured(part: _Part, tick: Callable[[str], Any] = lambda name: None) -> list[dict[str, Any]]:
    """The part's series, as JSON has them."""
    name, epsilons, make = part.instance, part.epsilons, _cases(part.seed)[part.instance]
    if part.method < 0:
        series = [*_fedmls_series(name, make, epsilons, part.seconds, tick), *bounds(name, make, epsilons)]
    elif part.method < len(METHODS):
        series = [_tuned_series(name, METHODS[part.method], make, epsilons, part.seconds, tick)]
    else:
        series = [_untuned(name, make, epsilons, tick)]
    return [to_jsonable(asdict(s)) for s in series]


def parts(
    epsilons: Sequence[float] | None = None, quick: bool = False, seed: int = 0, seconds: float | None = None
) -> list[_Part]:
    """List the pieces that `compute` measures. Raises `InvalidInput` as `check_epsilons`."""
    chosen = tuple(check_epsilons(epsilons if epsilons is not None else QUICK_EPSILONS if quick else EPSILONS))
    seconds = SECONDS["quick" if quick else "default"] if seconds is None else seconds
    return [_Part(name, method, chosen, seconds, seed) for name in INSTANCES for method in range(-1, len(METHODS) + 1)]


def _of_whole_instances(found: dict[int, list[Series]], todo: Sequence[_Part]) -> list[Series]:
    """In the order of the parts, of the instances all of whose parts were measured."""
    missing = {part.instance for i, part in enumerate(todo) if i not in found}
    return [s for i in sorted(found) if todo[i].instance not in missing for s in found[i]]


def compute(
    epsilons: Sequence[float] | None = None, quick: bool = False, seed: int = 0,
    progress: Callable[[str], Any] | None = None, seconds: float | None = None, workers: int = 1,
    cells: ResultStore | None = None,
) -> dict[str, Any]:
    """All series and their fits; with KeyboardInterrupt the instances that are finished, and ``complete`` is False.

    Parameters
    ----------
    epsilons : four or more in [1e-4, 0.25]; default 1e-1 to 1e-3 (quick: to 1e-2)
    quick : bool
        Fewer accuracies, and shorter runs.
    seed : of the LAD data
    progress : called with a name after each of `parts`
    seconds : that one run of FedMLS, or the tuning of one method, may be predicted to take; default `SECONDS`
    workers : processes
    cells : where measured parts are kept, and found again

    Raises
    ------
    InvalidInput
        As `check_epsilons`; before work starts.
    """
    todo = parts(epsilons, quick, seed, seconds)
    chosen = list(todo[0].epsilons)
    lad, floor = lad_case(seed)
    if floor > chosen[-1] / 100:
        raise InvalidInput(f"epsilon = {chosen[-1]:g} is too near what is known of F* of the LAD problem ({floor:.2g})")
    found: dict[int, list[Series]] = {}
    complete = False
    try:
        finished = as_finished(_measured, todo, workers) if cells is None else cells.compute(_measured, todo, todo, workers)
        for i, told in finished:
            found[i] = [Series.from_json(each) for each in told]
            if progress is not None:
                progress(f"{found[i][0].label}, {todo[i].instance}")
        complete = True
    except KeyboardInterrupt:
        if not _of_whole_instances(found, todo):
            raise
    series = _of_whole_instances(found, todo)
    best = [
        best_of(name, [s for s in series if s.method == name and s.instance == instance])
        for instance in dict.fromkeys(s.instance for s in series)
        for name in ("FedProx", "FedAvg", "subgradient")
    ]
    rivals = [s for s in series if s.label in ("FedMLS", "FedMLS, exact", "FedDyn, exact") or s.role == "lower bound"] + best
    return {
        "epsilons": chosen, "quick": quick, "complete": complete,
        "instances": {name: title for name, title in INSTANCES.items() if any(s.instance == name for s in series)},
        "series": [s.to_json() for s in series], "best": [s.to_json() for s in best],
        "crossovers": [*crossovers(rivals, "FedMLS"), *crossovers(rivals, "FedMLS, exact")],
        "lad": {"clients": lad.problem.num_clients, "dim": lad.problem.dim, "radius": lad.radius, "lipschitz": lad.lipschitz,
                "distance": lad.distance, "optimum": lad.value, "floor": floor},
    }  # fmt: skip
