"""Geometric rates: the factor by which a gap falls in every round, with an interval, told apart
from a power law.

A straight line in log gap against the round is a geometric rate, one in log gap against log round a
power law. On a short window both fit. So the fit also says how the halves of the window differ, and
tests the power law: gap ~ t^p q^t is fitted with both parts, and the power law alone is rejected
where q = 1 is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy  # its stats is loaded when first used

from fedtheory.arrays import OwnArrays
from fedtheory.errors import InvalidInput
from fedtheory.inputs import check_unit, real_array, real_number, shown, whole_number
from fedtheory.rates.fits import (
    FLOOR_MULTIPLE,
    NOT_POSITIVE,
    UNSTATED,
    bootstrap_error,
    not_finite,
    precision_floor,
)

__all__ = ["LEAST_POINTS", "Contraction", "fit_contraction"]

LEAST_POINTS = 6  # three parameters of the test against a power law, and three degrees of freedom
MAX_POINTS = 24
EXACT = 64 * float(np.finfo(float).eps)  # of log gaps: what rounding leaves of a straight line


@dataclass(frozen=True)
class Contraction(OwnArrays):
    """A fitted factor: gap ~ exp(intercept) * factor**t on a window.

    Attributes
    ----------
    low, high : confidence interval of the factor, at `confidence`
    rate, standard_error : log(factor), and its standard error, of `dof` degrees of freedom
    halves : (float, float), the factor in the first and in the second half of the points
    power : the exponent of the power law fitted to the same points
    p_power : p-value of 'a power law is all there is'
    p_bend : p-value of 'no bend', of the square of t beside the line
    residual, power_residual : root mean squares of the residuals of both fits, in natural logarithms
    points, window, excluded, method, schedule, x, y : as of `fedtheory.rates.Slope`
    """

    factor: float
    low: float
    high: float
    confidence: float
    rate: float
    standard_error: float
    dof: int
    intercept: float
    halves: tuple[float, float]
    power: float
    p_power: float
    p_bend: float
    residual: float
    power_residual: float
    points: int
    window: tuple[float, float]
    method: str
    schedule: str
    excluded: tuple[str, ...]
    x: np.ndarray
    y: np.ndarray

    def __str__(self) -> str:
        left_out = f"; left out: {', '.join(self.excluded)}" if self.excluded else ""
        return (
            f"factor {self.factor:.6g} in [{self.low:.6g}, {self.high:.6g}] ({self.confidence:.0%}, {self.method}, "
            f"{self.points} points, window {self.window[0]:.4g} to {self.window[1]:.4g}; schedule: {self.schedule}{left_out})"
        )


def check_rounds(window: Any) -> tuple[float, float]:
    """(low, high) with 0 <= low < high; high may be infinite.

    Raises
    ------
    InvalidInput
        Another window.
    """
    wrong = InvalidInput(f"window = {shown(window)}: it must be (low, high) with 0 <= low < high, in rounds")
    if isinstance(window, str) or not isinstance(window, list | tuple | np.ndarray) or len(window) != 2:
        raise wrong
    low = real_number("window[0]", window[0], least=0)
    high = math.inf if isinstance(window[1], float) and window[1] == math.inf else real_number("window[1]", window[1])
    if not low < high:
        raise wrong
    return low, high


def fit_contraction(
    values: Any, *, window: tuple[float, float], optimum: Any = None, floor: float = 0.0,
    floor_multiple: float = FLOOR_MULTIPLE, confidence: float = 0.95, schedule: str = UNSTATED,
    first_round: int = 0, max_points: int = MAX_POINTS, seed: int = 0,
) -> Contraction:
    """The factor q of gap_t ~ q**t by least squares of log gap against t, with its interval.

    One curve: Student's t on the residuals, which are taken as independent. Where neighbouring rounds scatter alike,
    as with stochastic steps, the interval is too short: with a correlation of 0.9, intervals of 95% covered in 42% to
    63% of simulated curves. Several seeds: the mean over seeds is fitted, and the interval is the wider of that one
    and of the bootstrap over seeds, as in `fedtheory.rates.fit_slope`.

    Parameters
    ----------
    values : (n,) or (n, seeds), gaps; entry 0 belongs to round ``first_round``
    window : (low, high), the rounds that are fitted; low may be 0
    optimum : with ``value`` and ``lower_bound``: sets the floor
    floor, floor_multiple : values up to ``floor_multiple * floor`` are left out
    max_points : at most so many rounds, evenly spread
    seed : of the bootstrap

    Raises
    ------
    InvalidInput
        Too few usable points, values that are not finite, arguments out of range.
    """
    values = real_array("values", values, finite=False)
    if values.ndim not in (1, 2) or 0 in values.shape:
        raise InvalidInput(f"values have shape {values.shape}: expected (rounds + 1,) or (rounds + 1, seeds)")
    if bad := not_finite("values", values):
        raise InvalidInput(f"{bad}: a run that diverged has no rate; lower its step size, cut it off or leave it out")
    low, high = check_rounds(window)
    confidence = check_unit("confidence", confidence)
    first_round = whole_number("first_round", first_round, least=0)
    max_points = whole_number("max_points", max_points, least=LEAST_POINTS, remedy="a factor with its tests needs that many")
    seed = whole_number("seed", seed, least=0)
    floor = precision_floor(optimum) if optimum is not None else real_number("floor", floor, least=0)
    limit = real_number("floor_multiple", floor_multiple, least=1) * floor
    curves = values[:, None] if values.ndim == 1 else values
    t = first_round + np.arange(len(curves), dtype=float)
    keep, excluded = _usable(t, curves.mean(axis=1), (low, high), limit, floor, floor_multiple, max_points)
    t, curves = t[keep], curves[keep]
    v = np.log(curves.mean(axis=1))
    error, dof, method = _line(t, v)[2], len(t) - 2, "t on residuals"
    slope, intercept, _ = _line(t, v)
    quantile = float(scipy.stats.t.ppf((1 + confidence) / 2, dof))
    half = quantile * error
    if curves.shape[1] > 1:
        method = f"t on residuals and bootstrap over {curves.shape[1]} seeds"
        spread = bootstrap_error(t, curves, seed)
        other = float(scipy.stats.t.ppf((1 + confidence) / 2, curves.shape[1] - 1)) * spread
        if other > half:
            half, error, dof = other, spread, curves.shape[1] - 1
    middle = len(t) // 2
    halves = (_line(t[: middle + 1], v[: middle + 1])[0], _line(t[middle:], v[middle:])[0])
    power, p_power, power_residual = _against_power(t, v)
    return Contraction(
        math.exp(slope), math.exp(slope - half), math.exp(slope + half), confidence, slope, error,
        dof, intercept, (math.exp(halves[0]), math.exp(halves[1])), power, p_power, _bend(t, v),
        _rms(v - intercept - slope * t), power_residual, len(t), (low, high), method, schedule,
        tuple(excluded), t, curves.mean(axis=1),
    )


def _rms(residuals: np.ndarray) -> float:
    return float(np.sqrt(np.mean(residuals**2)))


def _line(t: np.ndarray, v: np.ndarray) -> tuple[float, float, float]:
    """(slope, intercept, standard error) of v against t; a constant is met exactly."""
    line = scipy.stats.linregress(t, v)
    return float(line.slope), float(line.intercept), float(line.stderr) if np.ptp(v) > 0 else 0.0


def _usable(
    t: np.ndarray, mean: np.ndarray, window: tuple[float, float], limit: float, floor: float, multiple: float, most: int
) -> tuple[np.ndarray, list[str]]:
    """Return the rounds to fit, and what was left out in words. Raises `InvalidInput` where they
    are too few."""
    inside = (t >= window[0]) & (t <= window[1])
    low = inside & (mean <= limit)
    excluded = []
    if low.any():
        what = f"at or below {multiple:g} x the precision floor {floor:.3g}" if floor > 0 else NOT_POSITIVE
        excluded.append(f"{low.sum()} {what}")
    keep = np.flatnonzero(inside & ~low)
    if len(keep) > most:
        keep = keep[np.unique(np.linspace(0, len(keep) - 1, most).round().astype(int))]
    if len(keep) < LEAST_POINTS:
        why = f" (left out: {', '.join(excluded)})" if excluded else ""
        what = "the window lies at the precision floor" if 2 * low.sum() > inside.sum() and floor > 0 else "the window is too short"
        raise InvalidInput(
            f"{what}: {len(keep)} usable rounds in [{window[0]:.4g}, {window[1]:.4g}]{why}, at least {LEAST_POINTS} "
            "are needed: widen the window, run longer, take smaller steps, or certify the optimum to a smaller gap"
        )
    return keep, excluded


def _against_power(t: np.ndarray, v: np.ndarray) -> tuple[float, float, float]:
    """The exponent of a power law on the same points, the p-value of 'nothing but it', and its residual."""
    t, v = t[t > 0], v[t > 0]  # no power law reaches round 0
    u = np.log(t)
    power, intercept, _ = _line(u, v)
    residual = _rms(v - intercept - power * u)
    statistic, dof = _statistic(np.stack([t / t[-1], u, np.ones_like(t)], axis=1), v)
    return power, float(scipy.stats.t.sf(-statistic, dof)), residual  # one-sided: a factor below 1 beside the power law


def _bend(t: np.ndarray, v: np.ndarray) -> float:
    """p-value of 'no bend', two-sided."""
    s = (t - t.mean()) / max(float(np.ptp(t)), 1e-300)
    statistic, dof = _statistic(np.stack([s**2, s, np.ones_like(s)], axis=1), v)
    return float(2 * scipy.stats.t.sf(abs(statistic), dof))


def _statistic(design: np.ndarray, v: np.ndarray) -> tuple[float, int]:
    """Student's t of the first column's coefficient, and its degrees of freedom; residuals are never below rounding."""
    solution, *_ = np.linalg.lstsq(design, v, rcond=None)
    dof, left = len(v) - design.shape[1], v - design @ solution
    variance = max(float(left @ left) / dof, (EXACT * max(1.0, float(np.abs(v).max()))) ** 2)
    return float(solution[0] / math.sqrt(variance * np.linalg.pinv(design.T @ design)[0, 0])), dof
