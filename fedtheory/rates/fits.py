"""Slopes in log-log with an honest interval, and the choice between two of them.

A slope is only as good as its window, its points and the optimum behind the gaps, so all three are
part of the result: the window is declared, never chosen by the fit; points near the precision floor
of F* are left out, and said so; neighbouring rounds of one smooth curve are not independent
evidence, so at most a dozen points, evenly spread in the logarithm, are used.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import scipy  # its stats is loaded when first used

from fedtheory.arrays import OwnArrays
from fedtheory.errors import InvalidInput
from fedtheory.inputs import check_unit, real_array, real_number, shown, whole_number

__all__ = [
    "FLOOR_MULTIPLE", "UNSTATED", "Preference", "Slope", "bootstrap_error", "fit_rate", "fit_slope",
    "not_finite", "precision_floor", "prefer",
]

FLOOR_MULTIPLE = 10.0  # a gap below this many times its own uncertainty says nothing about a rate
MAX_POINTS = 12
LEAST_POINTS = 4  # two parameters and at least two degrees of freedom
RESAMPLES = 999
UNSTATED = "not stated"
NOT_POSITIVE = "with a value of 0 or less, which has no logarithm"


@dataclass(frozen=True)
class Slope(OwnArrays):
    """A fitted exponent: y ~ exp(intercept) * x**slope on a window.

    Attributes
    ----------
    low, high : float
        Confidence interval of the slope, at `confidence`.
    standard_error : float
        The larger of the residual and the bootstrap standard error; `dof` are its degrees of freedom.
    points : int
        Points used; ``x`` and ``y`` hold them ((points,), the mean over seeds).
    window : (float, float)
        The declared range of x.
    excluded : tuple of str
        What was left out, and why.
    residual : float
        Root mean square of the residuals, in natural logarithms.
    method : str
        How the interval was made.
    schedule : str
        The step sizes and the like that the slope belongs to.
    """

    slope: float
    low: float
    high: float
    confidence: float
    standard_error: float
    dof: int
    intercept: float
    points: int
    window: tuple[float, float]
    residual: float
    method: str
    schedule: str
    excluded: tuple[str, ...]
    x: np.ndarray
    y: np.ndarray

    def __str__(self) -> str:
        return f"slope {self.slope:.3f} in [{self.low:.3f}, {self.high:.3f}] ({how_fitted(self)})"


def how_fitted(fit: Any) -> str:
    """The confidence, the method, the points and the schedule of a fit, in words."""
    left_out = f"; left out: {', '.join(fit.excluded)}" if fit.excluded else ""
    window = f"window {fit.window[0]:.4g} to {fit.window[1]:.4g}"
    return f"{fit.confidence:.0%}, {fit.method}, {fit.points} points, {window}; schedule: {fit.schedule}{left_out}"


@dataclass(frozen=True)
class Preference:
    """The one of two exponents that the data support.

    Attributes
    ----------
    verdict : 'claimed', 'other' or 'undecided'
    p_claimed, p_other : float
        One-sided p-values of "the slope is the claimed (other) one, or further away on its own side".
    """

    verdict: Literal["claimed", "other", "undecided"]
    claimed: float
    other: float
    p_claimed: float
    p_other: float
    level: float
    slope: Slope

    def __str__(self) -> str:
        return (
            f"{self.verdict}: exponent {self.claimed:g} has p = {self.p_claimed:.3g}, exponent "
            f"{self.other:g} has p = {self.p_other:.3g} (level {self.level:g}); {self.slope}"
        )


def precision_floor(optimum: Any) -> float:
    """Bound how far a measured gap F(x) - F* may be off: F*'s certified gap plus the rounding of F.

    Parameters
    ----------
    optimum : anything with ``value`` and ``lower_bound``
    """
    if not (hasattr(optimum, "value") and hasattr(optimum, "lower_bound")):
        raise InvalidInput(f"optimum = {shown(optimum)}: it needs .value and .lower_bound, as problem.optimum() has them")
    value, lower = (real_number(f"optimum.{name}", getattr(optimum, name)) for name in ("value", "lower_bound"))
    size = max(abs(value), abs(lower))
    return value - lower + 16 * np.finfo(float).eps * size


def _points(x: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
    x, y = real_array("x", x), real_array("y", y, finite=False)
    if x.ndim != 1 or y.ndim not in (1, 2) or len(x) != len(y):
        raise InvalidInput(f"x has shape {x.shape} and y {y.shape}: expected (n,) and (n,) or (n, seeds)")
    y = y[:, None] if y.ndim == 1 else y
    if y.shape[1] == 0:
        raise InvalidInput("y has no seeds: its second axis is empty")
    bad = np.isnan(y) | (y == -np.inf)  # +inf stands for an epsilon that is never reached
    if bad.any():
        where = tuple(int(i) for i in np.argwhere(bad)[0])
        raise InvalidInput(f"y{list(where)} is {y[where]}: a run that diverged has no rate; cut it off or leave it out")
    return x, y


def not_finite(name: str, values: np.ndarray, axes: tuple[str, ...] = (), never: bool = False) -> str:
    """Say where values stop being finite; '' where all are.

    As in 'values[7, 2] (round 7, seed 2) is inf, and 2 more of 200 entries'.

    axes : what the last axes count; never : +inf is meant, and says "never reached"
    """
    bad = ~np.isfinite(values) & ~(values == np.inf if never else np.zeros(values.shape, dtype=bool))
    if not bad.any():
        return ""
    where = tuple(int(i) for i in np.argwhere(bad)[0])
    last = where[len(where) - len(axes) :]
    told = f" ({', '.join(f'{axis} {i}' for axis, i in zip(axes, last, strict=True))})" if axes else ""
    more = f", and {int(bad.sum()) - 1} more of {values.size} entries" if bad.sum() > 1 else ""
    return f"{name}{list(where) if where else ''}{told} is {values[where]}{more}"


def check_window(window: Any, rounds: bool = False) -> tuple[float, float]:
    """(low, high) with 0 < low < high, or 0 <= low for rounds; high may be infinite."""
    least = "0 <= low < high, in rounds" if rounds else "0 < low < high, in the unit of x"
    wrong = InvalidInput(f"window = {shown(window)}: it must be (low, high) with {least}")
    if isinstance(window, str) or not isinstance(window, Sequence | np.ndarray) or len(window) != 2:
        raise wrong
    low = real_number("window[0]", window[0])
    infinite = isinstance(window[1], float) and window[1] == math.inf
    high = math.inf if infinite else real_number("window[1]", window[1])
    if not 0 <= low < high or (low == 0 and not rounds):
        raise wrong
    return low, high


def _thin(x: np.ndarray, count: int) -> np.ndarray:
    """Indices of at most `count` points, evenly spread in log x."""
    if len(x) <= count:
        return np.arange(len(x))
    log = np.log(x)
    goals = np.linspace(log[0], log[-1], count)
    return np.unique(np.abs(log[None, :] - goals[:, None]).argmin(axis=1))


def fit_slope(
    x: Any, y: Any, *, window: tuple[float, float], floor: float = 0.0,
    floor_multiple: float = FLOOR_MULTIPLE, confidence: float = 0.95, schedule: str = UNSTATED,
    max_points: int = MAX_POINTS, seed: int = 0,
) -> Slope:
    """The exponent p of y ~ x**p by least squares in log-log, with a confidence interval.

    One curve: Student's t on the residuals, with points - 2 degrees of freedom. Several seeds: the mean over seeds is
    fitted, and the interval is the wider of that one and of slope +- t(seeds - 1) * (bootstrap standard error over
    seeds): residuals do not see noise that all rounds of a seed share, and seeds do not see that a curve is no power law.

    Parameters
    ----------
    x : (n,) positive, e.g. rounds or 1/epsilon
    y : (n,) or (n, seeds), e.g. gaps; for noisy gaps one may be negative as long as the mean over seeds is positive
    window : (low, high)
        The range of x that counts, both ends included. Declare it from the theory, not from the plot.
    floor : float >= 0
        Absolute uncertainty of y (see `precision_floor`). Points with mean y <= floor_multiple * floor are left out.
    confidence : float in (0, 1)
    schedule : str
        What the slope belongs to; printed beside it.
    max_points : int >= 4
        Thinning: at most so many points, evenly spread in log x.
    seed : int
        Of the bootstrap over seeds.

    Raises
    ------
    InvalidInput
        Fewer than 4 usable points, NaN, shapes that disagree, an empty window.
    """
    x, y = _points(x, y)
    confidence = check_unit("confidence", confidence)
    window = check_window(window)
    floor, floor_multiple = real_number("floor", floor, least=0), real_number("floor_multiple", floor_multiple, least=1)
    max_points = whole_number("max_points", max_points, least=LEAST_POINTS, remedy="a slope with an interval needs that many")
    seed = whole_number("seed", seed, least=0)
    keep, excluded = usable(x, y.mean(axis=1), window, floor, floor_multiple)
    keep = keep[_thin(x[keep], max_points)]
    if len(keep) < LEAST_POINTS:
        raise InvalidInput(
            f"{len(keep)} usable points with x {too_few(window, excluded, LEAST_POINTS)}: "
            "widen the window, run longer, or certify the optimum to a smaller gap"
        )
    u, curves = np.log(x[keep]), y[keep]
    if np.ptp(u) == 0:
        raise InvalidInput(f"all points in the window have x = {x[keep][0]:.6g}: a slope needs different ones")
    slope, intercept, half, error, dof, method = with_interval(u, curves, confidence, seed)
    mean = curves.mean(axis=1)
    return Slope(
        slope, slope - half, slope + half, confidence, error, dof, intercept, len(keep), window,
        rms(np.log(mean) - intercept - slope * u), method, schedule, tuple(excluded), x[keep], mean,
    )


def line(u: np.ndarray, v: np.ndarray) -> tuple[float, float, float]:
    """(slope, intercept, standard error) of v against u; a constant is met exactly."""
    fit = scipy.stats.linregress(u, v)
    return float(fit.slope), float(fit.intercept), float(fit.stderr) if np.ptp(v) > 0 else 0.0


def rms(residuals: np.ndarray) -> float:
    return float(np.sqrt(np.mean(residuals**2)))


def with_interval(
    u: np.ndarray, curves: np.ndarray, confidence: float, seed: int
) -> tuple[float, float, float, float, int, str]:
    """(slope, intercept, half the interval, error, dof, method) of log(mean curve) against u."""
    slope, intercept, error = line(u, np.log(curves.mean(axis=1)))
    dof, method, seeds = len(u) - 2, "t on residuals", curves.shape[1]
    half = float(scipy.stats.t.ppf((1 + confidence) / 2, dof)) * error
    if seeds > 1:
        spread = bootstrap_error(u, curves, seed)
        over_seeds = float(scipy.stats.t.ppf((1 + confidence) / 2, seeds - 1)) * spread
        method = f"t on residuals and bootstrap over {seeds} seeds"
        if over_seeds > half:
            half, error, dof = over_seeds, spread, seeds - 1
    return slope, intercept, half, error, dof, method


def usable(
    x: np.ndarray, mean: np.ndarray, window: tuple[float, float], floor: float, multiple: float
) -> tuple[np.ndarray, list[str]]:
    """Return the points of the window to fit, by ascending x, and in words what was left out."""
    inside = (x >= window[0]) & (x <= window[1])
    unreached = inside & ~np.isfinite(mean)
    limit = multiple * floor
    low = inside & ~unreached & (mean <= limit)
    excluded = []
    if unreached.any():
        excluded.append(f"{unreached.sum()} infinite (never reached)")
    if low.any():
        near = f"at or below {multiple:g} x the precision floor {floor:.3g}"
        what = near if floor > 0 else NOT_POSITIVE
        excluded.append(f"{low.sum()} {what}")
    keep = np.flatnonzero(inside & ~unreached & ~low)
    return keep[np.argsort(x[keep], kind="stable")], excluded


def too_few(window: tuple[float, float], excluded: list[str], least: int) -> str:
    why = f" (left out: {', '.join(excluded)})" if excluded else ""
    return f"in [{window[0]:.4g}, {window[1]:.4g}]{why}, at least {least} are needed"


def bootstrap_error(u: np.ndarray, curves: np.ndarray, seed: int) -> float:
    """Bootstrap standard error over seeds of the slope of log(mean curve).

    It is corrected for the bootstrap's factor (S - 1)/S in the variance.

    Raises
    ------
    InvalidInput
        The mean over some resampled seeds is not positive.
    """
    seeds = curves.shape[1]
    centred = (u - u.mean()) / ((u - u.mean()) ** 2).sum()
    draws = np.random.default_rng(seed).integers(0, seeds, (RESAMPLES, seeds))
    means = curves[:, draws].mean(axis=-1)  # (n, resamples)
    if not (means > 0).all():
        raise InvalidInput(
            "the mean over some resampled seeds is not positive: the gaps drown in the noise of "
            "the seeds; raise the number of seeds or end the window earlier"
        )
    return float((centred @ np.log(means)).std(ddof=1)) * math.sqrt(seeds / (seeds - 1))


def check_gaps(values: Any) -> np.ndarray:
    """Gaps by round, (n,) or (n, seeds), none of them from a run that diverged."""
    values = real_array("values", values, finite=False)
    if values.ndim not in (1, 2) or 0 in values.shape:
        raise InvalidInput(
            f"values have shape {values.shape}: expected (rounds + 1,) or (rounds + 1, seeds)"
        )
    if bad := not_finite("values", values):
        raise InvalidInput(
            f"{bad}: a run that diverged has no rate; lower its step size, "
            "cut it off or leave it out"
        )
    return values


def fit_rate(values: Any, *, window: tuple[float, float], optimum: Any = None, first_round: int = 0, **options: Any) -> Slope:
    """The exponent of a gap against the round, for values (T,) or (T, seeds) whose entry 0 belongs to round `first_round`.

    ``optimum`` (with ``value`` and ``lower_bound``) sets the precision floor; the rest is `fit_slope`'s.
    """
    values, first_round = check_gaps(values), whole_number("first_round", first_round, least=0)
    if optimum is not None:
        options.setdefault("floor", precision_floor(optimum))
    return fit_slope(first_round + np.arange(len(values)), values, window=window, **options)


def prefer(slope: Slope, claimed: float, other: float, level: float = 0.05) -> Preference:
    """Choose which of two exponents the data support, by one-sided t-tests of both.

    'claimed' when the other exponent is rejected at `level` in the direction of the claimed one and
    the claimed one is nearer; 'other' the other way round; 'undecided' when neither is rejected,
    and half way between the two.

    Raises
    ------
    InvalidInput
        The exponents are equal, or the level is outside (0, 1).
    """
    level = check_unit("level", level)
    claimed, other = real_number("claimed", claimed), real_number("other", other)
    if not isinstance(slope, Slope):
        raise InvalidInput(f"slope = {shown(slope)}: give a Slope, as fit_slope and fit_rate make it")
    if claimed == other:
        raise InvalidInput(f"both exponents are {claimed:g}: there is nothing to choose between")
    direction = np.sign(claimed - other)
    error = max(slope.standard_error, 4 * np.finfo(float).eps * max(1.0, abs(slope.slope)))
    p_other = float(scipy.stats.t.sf(direction * (slope.slope - other) / error, slope.dof))
    p_claimed = float(scipy.stats.t.sf(-direction * (slope.slope - claimed) / error, slope.dof))
    from_claimed, from_other = abs(slope.slope - claimed), abs(slope.slope - other)
    verdict: Literal["claimed", "other", "undecided"] = "undecided"
    if from_claimed < from_other and p_other <= level:
        verdict = "claimed"
    elif from_other < from_claimed and p_claimed <= level:
        verdict = "other"
    return Preference(verdict, float(claimed), float(other), p_claimed, p_other, level, slope)
