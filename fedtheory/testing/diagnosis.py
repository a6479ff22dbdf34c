"""Why a curve has not the rate that is claimed, where the curve itself shows it."""

from __future__ import annotations

import numpy as np
import scipy  # its stats is loaded when first used

__all__ = ["LEVEL", "SHORT", "levels_off", "precision", "short_window"]

LEVEL = 0.1  # of the mean slope before: a curve whose last quarter is flatter has levelled off
SHORT = 4.0  # a window shorter than this factor in rounds tells powers badly apart
PRECISION = 1e-10  # of the first value: what stays below is rounding, or what is not known of F*
FEWEST = 6


def levels_off(u: np.ndarray, v: np.ndarray) -> int | None:
    """From which point on a falling curve is level; None where it is not.

    Parameters
    ----------
    u, v : (n,), the abscissa in which the claim is a straight line, ascending, and log values
    """
    if len(u) < FEWEST or np.ptp(u) == 0:
        return None
    last = u >= u[-1] - np.ptp(u) / 4
    if last.sum() < 2:
        return None
    level, spread = float(np.median(v[last])), float(np.std(v[last]))
    above = np.flatnonzero(v > level + max(0.1, 2 * spread))
    at = int(above[-1] + 1) if len(above) else 0
    if not 0 < at < len(v) or v[0] - level < np.log(2):
        return None
    falls, rest = (level - v[0]) / (u[at] - u[0]), scipy.stats.linregress(u[last], v[last])
    scatter = 2 * float(rest.stderr) if last.sum() > 2 and spread > 0 else 0.0  # a curve that only scatters is not called level
    return at if rest.slope > LEVEL * falls and rest.slope - scatter > falls / 2 else None


def precision(first: float, level: float) -> str:
    """Say what a level is: the precision floor, or something that the method cannot get below."""
    if level <= PRECISION * first:
        return "the precision floor of F* or of float64: end the window before it, or name it (optimum=..., floor=...)"
    return (
        "the method gets no lower: a bias (a wrong or stale control variate, a wrong weight), the noise of mini-batches under constant "
        "steps, or an F* that is too low; where it is none of these, end the window before it"
    )


def short_window(low: float, high: float) -> str:
    """Say why the window is too short to tell powers apart; '' where it is not."""
    if low > 0 and high / low < SHORT:
        factor = high / low
        return f"the window is short: {low:g} to {high:g} is a factor of {factor:.3g} in x; powers are told apart over {SHORT:g}"
    return ""
