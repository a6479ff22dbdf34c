"""Why a curve has not the rate that is claimed, where the curve itself shows it."""

from __future__ import annotations

import numpy as np

__all__ = ["LEVEL", "levels_off", "precision", "short_window"]

LEVEL = 0.1  # of the first third's slope: a curve whose last third is flatter has levelled off
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
    third = np.ptp(u) / 3
    first, last = u <= u[0] + third, u >= u[-1] - third
    if min(first.sum(), last.sum()) < 2:
        return None
    falls, rest = (float(np.polyfit(u[part], v[part], 1)[0]) for part in (first, last))
    if not (falls < 0 and rest > LEVEL * falls and v[first][0] - v[last].mean() > np.log(2)):
        return None
    level = float(np.median(v[last]))
    above = np.flatnonzero(v > level + max(0.1, 2 * float(np.std(v[last]))))
    return int(above[-1] + 1) if len(above) and above[-1] + 1 < len(v) else int(np.argmax(last))


def precision(first: float, level: float) -> str:
    """What a level is, in words: the precision floor, or something that the method cannot get below."""
    if level <= PRECISION * first:
        return "the precision floor of F* or of float64: end the window before it, or name it (optimum=..., floor=...)"
    return (
        "the method gets no lower: a bias (a wrong or stale control variate, a wrong weight), the noise of mini-batches under constant "
        "steps, or an F* that is too low; where it is none of these, end the window before it"
    )


def short_window(low: float, high: float) -> str:
    """Whether the window is too short to tell powers apart, in words; '' where it is not."""
    if low > 0 and high / low < SHORT:
        factor = high / low
        return f"the window is short: {low:g} to {high:g} is a factor of {factor:.3g} in x; powers are told apart over {SHORT:g}"
    return ""
