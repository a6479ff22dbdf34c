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
from fedtheory.inputs import check_unit, real_number, whole_number
from fedtheory.rates.fits import (
    FLOOR_MULTIPLE,
    UNSTATED,
    check_gaps,
    check_window,
    how_fitted,
    line,
    precision_floor,
    rms,
    too_few,
    usable,
    with_interval,
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
        return f"factor {self.factor:.6g} in [{self.low:.6g}, {self.high:.6g}] ({how_fitted(self)})"


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
    values, window = check_gaps(values), check_window(window, rounds=True)
    confidence = check_unit("confidence", confidence)
    first_round = whole_number("first_round", first_round, least=0)
    max_points = whole_number("max_points", max_points, least=LEAST_POINTS, remedy="a factor with its tests needs that many")
    seed = whole_number("seed", seed, least=0)
    floor = precision_floor(optimum) if optimum is not None else real_number("floor", floor, least=0)
    floor_multiple = real_number("floor_multiple", floor_multiple, least=1)
    curves = values[:, None] if values.ndim == 1 else values
    t = first_round + np.arange(len(curves), dtype=float)
    keep, excluded = usable(t, curves.mean(axis=1), window, floor, floor_multiple)
    if len(keep) > max_points:
        spread = np.linspace(0, len(keep) - 1, max_points)
        keep = keep[np.unique(spread.round().astype(int))]
    if len(keep) < LEAST_POINTS:
        inside = np.count_nonzero((t >= window[0]) & (t <= window[1]))
        at_floor = floor > 0 and 2 * len(keep) < inside
        what = "lies at the precision floor" if at_floor else "is too short"
        few = f"{len(keep)} usable rounds {too_few(window, excluded, LEAST_POINTS)}"
        raise InvalidInput(
            f"the window {what}: {few}: widen the window, run longer, take smaller steps, "
            "or certify the optimum to a smaller gap"
        )
    t, curves = t[keep], curves[keep]
    v = np.log(curves.mean(axis=1))
    slope, intercept, half, error, dof, method = with_interval(t, curves, confidence, seed)
    middle = len(t) // 2
    halves = (line(t[: middle + 1], v[: middle + 1])[0], line(t[middle:], v[middle:])[0])
    power, p_power, power_residual = _against_power(t, v)
    return Contraction(
        math.exp(slope), math.exp(slope - half), math.exp(slope + half), confidence, slope, error,
        dof, intercept, (math.exp(halves[0]), math.exp(halves[1])), power, p_power, _bend(t, v),
        rms(v - intercept - slope * t), power_residual, len(t), window, method, schedule,
        tuple(excluded), t, curves.mean(axis=1),
    )


def _against_power(t: np.ndarray, v: np.ndarray) -> tuple[float, float, float]:
    """The exponent of a power law on the same points, the p-value of 'nothing but it', and its residual."""
    t, v = t[t > 0], v[t > 0]  # no power law reaches round 0
    u = np.log(t)
    power, intercept, _ = line(u, v)
    residual = rms(v - intercept - power * u)
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
