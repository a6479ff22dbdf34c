"""Assertions about convergence for any test suite, in the manner of ``numpy.testing``.

Each takes plain arrays, returns what it found (so that a test can print it), and raises AssertionError with a message that says
which entry failed, what was measured, what was allowed, and what to do. Passing means *shown*: an interval too wide to tell fails as
"inconclusive", it does not pass. A run that left the finite numbers fails as "diverged", at its first such entry, whatever is claimed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy import stats

from fedtheory.errors import InvalidInput
from fedtheory.inputs import check_unit, real_array, real_number, shown
from fedtheory.rates.fits import NOT_POSITIVE, Slope, check_window, fit_rate, fit_slope, not_finite, prefer
from fedtheory.rates.rounds import rounds_to_epsilon

__all__ = ["BoundCheck", "assert_bound_holds", "assert_rate", "assert_reaches"]

OPTIONS = {"first_round", "floor", "floor_multiple", "max_points", "schedule", "seed"}
KINDS = {
    "equal": "equal to",
    "at least as fast": "at most (decaying at least as fast as)",
    "at least as slow": "at least (decaying no faster than)",
}


def _fail(title: str, lines: list[str], hint: str) -> None:
    __tracebackhide__ = True
    raise AssertionError("\n".join([title, *(f"  {line}" for line in lines), f"  What to do: {hint}"]))


def _check_finite(name: str, values: np.ndarray, axes: tuple[str, ...], claim: str, never: bool = False) -> None:
    """Fail as 'diverged' where an entry is not finite; axes: what the last axes count."""
    __tracebackhide__ = True
    if bad := not_finite(name, values, axes, never):
        hint = "lower the step size (below 2/beta for gradient steps), or cut the run off before that entry if the claim is about less"
        _fail("Run diverged.", [bad, *([claim] if claim else [])], hint)


def assert_rate(
    values: Any,
    claimed: float,
    *,
    window: tuple[float, float],
    confidence: float = 0.95,
    tolerance: float = 0.25,
    kind: Literal["equal", "at least as fast", "at least as slow"] = "equal",
    against: float | None = None,
    x: Any = None,
    optimum: Any = None,
    **options: Any,
) -> Slope:
    """Assert that values decay like x**claimed on the window.

    An equivalence test: the whole confidence interval of the fitted exponent must lie within claimed +- tolerance (for the one-sided
    kinds: on the right side of claimed +- tolerance).

    Parameters
    ----------
    values : (n,) or (n, seeds)
        Gaps; entry 0 belongs to round 0 (the start) unless `x` or ``first_round`` says otherwise.
    claimed : float
        The exponent: -1 for O(1/T), -0.5 for O(1/sqrt(T)).
    window : (low, high)
        Rounds (or values of x) the claim is about.
    tolerance : float > 0
        What separates the claim from others; the default is a quarter of the way from 1/T to 1/T^2.
    kind : 'equal', 'at least as fast' (an upper bound's claim) or 'at least as slow' (a lower bound's)
    against : float
        A wrong exponent that must also be rejected by a one-sided t-test at level 1 - confidence.
    x : (n,)
        Abscissae other than the round, for example epsilons.
    optimum : with ``value`` and ``lower_bound``
        Sets the precision floor of the gaps.
    options : passed on to `fedtheory.rates.fit_slope` (schedule, floor, floor_multiple, max_points, seed)

    Raises
    ------
    AssertionError
        The rate is contradicted, the data cannot tell, or the run diverged: a value is NaN or infinite. With `x`, +inf stands for what
        is never reached, and is left out.
    InvalidInput
        Too few points, bad arguments.
    """
    __tracebackhide__ = True
    if kind not in KINDS:
        raise InvalidInput(f"kind = {kind!r}: use one of {', '.join(repr(k) for k in KINDS)}")
    claimed, tolerance = real_number("claimed", claimed), real_number("tolerance", tolerance, above=0)
    confidence = check_unit("confidence", confidence)
    against = None if against is None else real_number("against", against)
    if unknown := set(options) - OPTIONS:
        raise InvalidInput(f"{sorted(unknown)[0]} is no option: known are {', '.join(sorted(OPTIONS))}")
    values = real_array("values", values, finite=False)
    if values.ndim in (1, 2):
        axes = ("entry" if x is not None or options.get("first_round") else "round", "seed")[: values.ndim]
        _check_finite("values", values, axes, f"claimed:  exponent {KINDS[kind]} {claimed:g}", never=x is not None)
    first = options.get("first_round", 0)
    _check_covered(window, np.arange(len(values)) + first if x is None else x, 0 < first if x is None else True)
    if x is None:
        found = fit_rate(values, window=window, optimum=optimum, confidence=confidence, **options)
    else:
        if optimum is not None:
            raise InvalidInput(
                "optimum sets the floor of gaps against rounds; with x, give floor=... in the unit of the values"
            )
        found = fit_slope(x, values, window=window, confidence=confidence, **options)
    _judge_rate(found, claimed, tolerance, kind, against, confidence)
    return found


def _judge_rate(
    found: Slope, claimed: float, tolerance: float, kind: str, against: float | None, confidence: float
) -> None:
    """Raise `AssertionError` unless the interval lies within what is claimed, and tells it apart from `against`."""
    __tracebackhide__ = True
    low = -np.inf if kind == "at least as fast" else claimed - tolerance
    high = np.inf if kind == "at least as slow" else claimed + tolerance
    lines = [
        f"claimed:  exponent {KINDS[kind]} {claimed:g}, tolerance {tolerance:g}: allowed [{low:g}, {high:g}]",
        f"measured: {found}",
    ]
    if kind != "at least as fast" and any(text.endswith(NOT_POSITIVE) for text in found.excluded):
        _fail("Rate inconclusive: not all values of the window are positive.", lines, (
            "end the window before the gaps reach the precision of F*, or name that precision: optimum=..., floor=..."))  # fmt: skip
    if not (low <= found.low and found.high <= high):
        if found.high < low or found.low > high:
            side = "decay slower than claimed" if found.low > high else "decay faster than claimed"
            if found.low > max(high, 0):
                side = "grow, where a decay is claimed" if claimed < 0 else "grow faster than claimed"
            hint = (
                f"the values {side}: check the claim, the step sizes ({found.schedule}) and that the window lies "
                "in the regime the claim is about (not in the first rounds, not at the precision floor)"
            )
            _fail("Rate contradicted.", lines, hint)
        _fail(
            "Rate inconclusive: the interval does not lie within what is allowed, nor outside.", lines, _narrow(found)
        )
    if against is not None:
        choice = prefer(found, claimed, against, level=1 - confidence)
        if choice.verdict != "claimed":
            lines.append(
                f"against:  exponent {against:g} has p = {choice.p_other:.3g}, needed at most {1 - confidence:.3g}"
            )
            _fail("Rate not told apart from the other exponent.", lines, _narrow(found))


def _check_covered(window: Any, x: Any, from_below: bool) -> None:
    """Raise where the data end before the window does, or begin after it does; a tenth is left for rounds that were not recorded."""
    low, high = check_window(window)
    x = real_array("x", x)
    x = x[x > 0] if x.ndim == 1 else x
    if x.ndim != 1 or x.size == 0:
        return  # told by the fit
    if np.isfinite(high) and x.max() < 0.9 * high:
        raise InvalidInput(
            f"the window ends at {high:g}, the data at {x.max():g}: nothing is shown beyond; end the window there (math.inf: with the "
            "data), or run longer"
        )
    if from_below and x.min() > 1.1 * low:
        raise InvalidInput(
            f"the window begins at {low:g}, the data at {x.min():g}: begin the window there, or give earlier points"
        )


def _narrow(found: Slope) -> str:
    if found.residual > 0.1:
        return f"the points scatter by {found.residual:.0%} about the line: more seeds, or a window where the curve is straight"
    return "a longer window, more seeds, or an optimum certified to a smaller gap make the interval shorter"


def _broadcasts(shape: tuple[int, ...], to: tuple[int, ...]) -> bool:
    try:
        return np.broadcast_shapes(shape, to) == to
    except ValueError:
        return False


@dataclass(frozen=True)
class BoundCheck:
    """What `assert_bound_holds` found: the entry nearest its bound.

    Attributes
    ----------
    tightness : float
        Largest measured / bound over entries with a positive bound (1: attained).
    where : index of the worst entry
    """

    tightness: float
    where: tuple[int, ...]
    measured: float
    bound: float
    count: int
    mode: str

    def __str__(self) -> str:
        return (
            f"bound holds at {self.count} entries ({self.mode}); worst at {list(self.where)}: {self.measured:.6g} <= {self.bound:.6g}, "
            f"tightness {self.tightness:.3g}"
        )


def assert_bound_holds(
    measured: Any,
    bound: Any,
    *,
    confidence: float | None = None,
    rtol: float = 1e-9,
    noise: Any = 0.0,
    factor_hint: str = "",
) -> BoundCheck:
    """Assert measured <= bound, entry by entry, exactly or for the mean over seeds with confidence.

    Parameters
    ----------
    measured : exact: any shape; statistical: (..., seeds), with independent seeds along the last axis
    bound : broadcasts to measured (statistical: to its shape without the last axis)
    confidence : float in (0, 1), or None
        None: exact, up to rtol (|measured| + |bound|) + noise. Otherwise the statement is about the expectation: one-sided Student-t
        limits, the error probability shared out over the entries (Bonferroni). Seeds that do not vary at all at an entry are judged
        exactly there.
    rtol : float in [0, 1)
    noise : float or array >= 0, finite
        Absolute uncertainty of measured - bound, for example the optimum's certified gap.
    factor_hint : str
        Added to the failure message (what the bound is, where it stands).

    Raises
    ------
    AssertionError
        'violated', 'inconclusive' (statistical: the interval of the mean contains the bound), or 'diverged': a measured entry is NaN or
        infinite, -inf included, which is no measurement.
    InvalidInput
        A bound that is NaN or infinite (an infinite one shows nothing), rtol or noise out of range, complex numbers, shapes that do not
        broadcast, fewer than two seeds.
    """
    __tracebackhide__ = True
    measured, bound = real_array("measured", measured, finite=False), real_array("bound", bound, finite=False)
    rtol, noise = real_number("rtol", rtol, least=0, below=1), real_array("noise", noise)
    if (noise < 0).any():
        raise InvalidInput(
            f"noise = {shown(noise[noise < 0].flat[0].item())}: an uncertainty must be >= 0; give its absolute value"
        )
    if confidence is not None:
        confidence = check_unit("confidence", confidence)
        if measured.ndim == 0 or measured.shape[-1] < 2:
            raise InvalidInput(
                f"measured has shape {measured.shape}: a statistical statement needs >= 2 seeds on the last axis"
            )
    if measured.size == 0:
        raise InvalidInput("measured is empty: there is nothing to hold the bound against")
    _check_finite("measured", measured, () if confidence is None else ("seed",), factor_hint)
    if not np.isfinite(bound).all():
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(bound))[0])
        raise InvalidInput(
            f"bound{list(where)} is {bound[where]}: it shows nothing of what was measured; leave that entry out"
        )
    shape = measured.shape if confidence is None else measured.shape[:-1]
    for name, a in (("bound", bound), ("noise", noise)):
        if not _broadcasts(a.shape, shape):
            raise InvalidInput(f"{name} has shape {a.shape}, measured {shape} (without seeds): they must broadcast")
    bound, noise = np.broadcast_to(bound, shape), np.broadcast_to(noise, shape)
    half, seeds = np.zeros(shape), 0
    with np.errstate(
        over="ignore", invalid="ignore"
    ):  # what overflows makes an interval infinite, or a comparison fail
        value = measured if confidence is None else measured.mean(axis=-1)
        allowed = bound + (rtol * np.abs(value) + rtol * np.abs(bound)) + noise
        if confidence is not None:
            seeds = measured.shape[-1]
            z = stats.t.ppf(1 - (1 - confidence) / max(value.size, 1), df=seeds - 1)
            half = z * measured.std(axis=-1, ddof=1) / np.sqrt(seeds)
        beyond = value - allowed
        violated, open_ = beyond - half > 0, ~(beyond + half <= 0)
        rank = beyond / np.maximum(np.abs(value) / 2 + np.abs(bound) / 2, np.finfo(float).tiny)
    if violated.any() or open_.any():
        about = f" (mean of {seeds} seeds, {confidence:.4g} over {value.size} entries)" if seeds else ""
        wrong = bool(violated.any())
        _bound_fails(value, bound, allowed, half, violated if wrong else open_, rank, wrong, seeds, about, factor_hint)
    worst = np.unravel_index(int(np.argmax(rank)), value.shape)
    positive = bound > 0
    tightness = float((value[positive] / bound[positive]).max()) if positive.any() else float("nan")
    mode = "exact" if confidence is None else f"{seeds} seeds, confidence {confidence:g}"
    return BoundCheck(
        tightness, tuple(int(i) for i in worst), float(value[worst]), float(bound[worst]), value.size, mode
    )


def _bound_fails(
    value: np.ndarray, bound: np.ndarray, allowed: np.ndarray, half: np.ndarray, bad: np.ndarray, rank: np.ndarray, is_wrong: bool,
    seeds: int, about: str, factor_hint: str,
) -> None:  # fmt: skip
    """The failure of `assert_bound_holds`, at the worst of the bad entries: 'violated' (is_wrong) or 'inconclusive'."""
    __tracebackhide__ = True
    worst = np.unravel_index(int(np.argmax(np.where(bad, rank, -np.inf))), value.shape)
    first = np.unravel_index(int(np.argmax(bad)), value.shape)
    half_width = f" +- {half[worst]:.3g}" if seeds else ""
    ratio = f", {value[worst] / bound[worst]:.4g} times the bound" if bound[worst] > 0 else ""
    lines = [
        f"worst entry {[int(i) for i in worst]}: measured {value[worst]:.10g}{half_width}{about}, bound {bound[worst]:.10g}{ratio}",
        f"excess {value[worst] - bound[worst]:.4g}, allowed for rounding and noise {allowed[worst] - bound[worst]:.3g}",
        f"{int(bad.sum())} of {value.size} entries, the first at {[int(i) for i in first]}",
    ]
    if factor_hint:
        lines.append(factor_hint)
    if is_wrong:
        _fail("Bound violated.", lines, (
            "check the constants of the bound at that entry (a factor, a norm that is not squared, an index off by one), and that "
            "measured gaps use the optimum of the same set"))  # fmt: skip
    slack = float(bound[worst] - value[worst])
    known = slack > 0 and np.isfinite(half[worst])
    need = f"about {int(np.ceil(seeds * (half[worst] / slack) ** 2))} seeds" if known else "more seeds"
    _fail(
        "Bound inconclusive: the interval of the mean contains the bound.", lines, f"raise the number of seeds ({need})"
    )


def assert_reaches(
    values: Any,
    target: float,
    *,
    within: float,
    stay: bool = False,
    iterate: Literal["last", "best"] = "last",
    cost: Any = None,
) -> np.ndarray:
    """Assert that values fall below target in at most `within` rounds, in every run.

    Parameters
    ----------
    values : (rounds + 1,) or (rounds + 1, seeds)
        Entry 0 is the start.
    target : float > 0
    within : rounds allowed (or what `cost` counts)
    stay : bool
        Also stay below from then on to the end.
    iterate : 'last' or 'best'
    cost : (rounds + 1,)
        What to count instead of rounds.

    Returns
    -------
    array
        The round, one for each run.

    Raises
    ------
    AssertionError
        With the run, the best value within the limit, and how far the run would have to go; or 'diverged', with the round and the run,
        where a value is NaN or infinite.
    InvalidInput
        Arguments out of range.
    """
    __tracebackhide__ = True
    if iterate not in ("last", "best"):
        raise InvalidInput(f"iterate = {iterate!r}: values are given as they are: use 'last' or 'best'")
    if not isinstance(stay, bool | np.bool_):
        raise InvalidInput(f"stay = {shown(stay)}: use True or False")
    target, within = real_number("target", target, above=0), real_number("within", within, least=0)
    values = real_array("values", values, finite=False)
    if values.ndim in (1, 2):
        _check_finite("values", values, ("round", "run")[: values.ndim], f"target {target:.6g} within {within:g}")
    found = rounds_to_epsilon(values, [target], iterate=iterate, cost=cost)
    rounds = np.atleast_1d((found.first_from if stay else found.first_at)[0])
    if (rounds <= within).all():
        return rounds
    run = int(np.argmax(rounds))
    curves = values[:, None] if values.ndim == 1 else values
    count = np.arange(len(curves), dtype=float) if cost is None else real_array("cost", cost)
    early = count <= within
    late = int((rounds > within).sum())
    lines = [f"target {target:.6g} within {within:g}: {late} of {len(rounds)} runs fail; the latest is run {run}"]
    if early.any():
        best = int(np.argmin(np.where(early, curves[:, run], np.inf)))
        lines.append(
            f"run {run}: the best value within the limit is {curves[best, run]:.6g} (at {count[best]:g}), "
            f"{curves[best, run] / target:.4g} times the target; the last one {curves[early, run][-1]:.6g}"
        )
    at = np.atleast_1d(found.first_at[0])[run]
    if np.isfinite(rounds[run]):
        what = "it stays below only from" if stay and at <= within else "it gets there at"
        lines.append(f"{what} {rounds[run]:g}, {rounds[run] / max(within, 1):.3g} times the limit")
        hint = f"allow {rounds[run]:g}, or find out why the method is slower than expected"
    elif count[-1] < within:
        lines.append(f"the run ends at {count[-1]:g}, before the limit")
        hint = "run longer: the data do not cover the limit"
    elif np.isfinite(at):
        lines.append(f"it is below at {at:g} but does not stay there")
        hint = "use the best iterate, a smaller final step, or stay=False"
    else:
        lines.append(_forecast(count, curves[:, run], target))
        hint = "check the step sizes and the target (is it above the precision of F*?), or allow more rounds"
    _fail("Target not reached.", lines, hint)
    raise AssertionError  # unreachable; for type checkers


def _forecast(count: np.ndarray, curve: np.ndarray, target: float) -> str:
    """Where the last half of the run points to, as a power law."""
    ok = (count >= count[-1] / 2) & (count > 0) & (curve > 0) & np.isfinite(curve)
    if ok.sum() < 3 or np.ptp(count[ok]) == 0:
        return "the run never gets there"
    line = stats.linregress(np.log(count[ok]), np.log(curve[ok]))
    if line.slope > -1e-3:
        return f"the run never gets there and has stopped falling (slope {line.slope:.2g} over its last half)"
    reach = np.exp(np.clip((np.log(target) - line.intercept) / line.slope, None, 700))
    return (
        f"the run never gets there; at its slope of {line.slope:.2f} over the last half it would at about {reach:.3g}"
    )
