"""How a run ended: above its start, without progress, or neither."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedtheory.errors import InvalidInput
from fedtheory.inputs import real_array, real_number

__all__ = ["how_it_ended"]

LEAST_FALL = 0.1  # by how much of itself the least gap must fall over the second half; 1/sqrt(t) falls by 0.29


def how_it_ended(gaps: Any, floor: float = 0.0, what: str = "F(x) - F*") -> str:
    """In words, where a run ends above its start or stops making progress; '' otherwise.

    A run makes progress when its least gap over the second half of the rounds is at least a tenth below that over the first half, or
    at the floor. The words say what was seen in these rounds, not what more of them would do.

    Parameters
    ----------
    gaps : (rounds + 1,) or (rounds + 1, scenarios), entry 0 is the start; the mean over scenarios is judged
    floor : what cannot be told from 0, as `precision_floor` gives it
    what : the gaps' name

    Raises
    ------
    InvalidInput
        No entry, or one that is not finite; another shape; no numbers.
    """
    gaps, floor = real_array("gaps", gaps, finite=False), real_number("floor", floor)
    mean = gaps.mean(axis=1) if gaps.ndim == 2 and gaps.size else gaps
    if mean.ndim != 1 or mean.size == 0 or not np.isfinite(mean).all():
        raise InvalidInput(f"gaps has shape {gaps.shape} and must hold finite numbers, one a round: a run that diverged has no end")
    last = len(mean) - 1
    if last == 0 or mean[-1] <= floor:
        return ""
    ends = f"{what} is {mean[-1]:.4g} after round {last}"
    best = int(np.argmin(mean))
    if mean[-1] > mean[0]:
        least = f"; the least was {mean[best]:.4g}, after round {best}" if best else ""
        return f"It ends above where it began: {ends}, and was {mean[0]:.4g} at the start{least}."
    half = (last + 1) // 2
    before, after = mean[: half + 1].min(), mean[half + 1 :].min(initial=np.inf)
    if last < 4 or after <= max((1 - LEAST_FALL) * before, floor):
        return ""
    if after >= before:
        return f"It does not converge in these rounds: {ends}, and the least was {mean[best]:.4g}, after round {best}."
    fell = 1 - after / before
    return f"It has all but stopped: {ends}, and the least value fell by only {100 * fell:.2g} % over the last {last - half} rounds."
