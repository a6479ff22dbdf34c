"""Endings of a run: at the optimum, above its start, at rest, without progress, or on its way."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from fedtheory.errors import InvalidInput
from fedtheory.inputs import real_array, real_number

__all__ = ["ending", "how_it_ended"]

LEAST_FALL = 0.1  # by how much of itself the least gap must fall over the second half; 1/sqrt(t) falls by 0.29
FOUR_DIGITS = 1e-4  # of the gap: what the last tenth of the rounds may vary by where the run is at rest
OF_ALL = 1e-3  # of what all rounds vary by: a run that is merely slow varies by a tenth


def ending(gaps: Any, floor: float = 0.0) -> Literal["reached", "above", "rests", "stopped", "moves"]:
    """The end of a run by its gaps: at the floor, above the start, at rest, without progress, or on its way.

    Parameters and errors are those of `how_it_ended`.
    """
    mean = _mean(gaps)
    floor = real_number("floor", floor)
    last, half = len(mean) - 1, len(mean) // 2
    if mean[-1] <= floor:
        return "reached"
    if mean[-1] > mean[0]:
        return "above"
    before, after = mean[: half + 1].min(), mean[half + 1 :].min(initial=np.inf)
    if last < 4 or after <= max((1 - LEAST_FALL) * before, floor):
        return "moves"
    varies = float(np.ptp(mean[-_tail(last) :]))
    if last >= 10 and varies <= min(FOUR_DIGITS * mean[-1], OF_ALL * np.ptp(mean)):
        return "rests"
    return "stopped"


def _tail(last: int) -> int:
    """Return how many of the last gaps a tenth of the rounds has, at least 3."""
    return int(max(3, last // 10))


def _mean(gaps: Any) -> np.ndarray:
    gaps = real_array("gaps", gaps, finite=False)
    mean = gaps.mean(axis=1) if gaps.ndim == 2 and gaps.size else gaps
    if mean.ndim != 1 or mean.size == 0 or not np.isfinite(mean).all():
        raise InvalidInput(f"gaps has shape {gaps.shape} and must hold finite numbers, one a round: a run that diverged has no end")
    return np.asarray(mean, dtype=float)


def how_it_ended(gaps: Any, floor: float = 0.0, what: str = "F(x) - F*", descent: float | None = None) -> str:
    """In words, where a run ends above its start, at rest beside the optimum, or without progress;
    '' otherwise.

    A run makes progress when its least gap over the second half of the rounds is at least a tenth
    below that over the first half, or at the floor. It is at rest when the gaps of the last tenth
    of the rounds agree to four digits, and vary by no more than a thousandth of what all vary by.
    The words say what was seen in these rounds, not what more of them would do.

    Parameters
    ----------
    gaps : (rounds + 1,) or (rounds + 1, scenarios), entry 0 is the start; the mean over scenarios
        is judged
    floor : what cannot be told from 0, as `precision_floor` gives it
    what : the gaps' name
    descent : for a method of several local steps in which all clients take part, lr ||grad F||^2 at
        the end: by about as much one step along the gradient of F would lower F. Where a run at
        rest lowers F by less than a thousandth of it, the words name drift: the clients' steps
        cancel, and their gradients do not.

    Raises
    ------
    InvalidInput
        No entry, or one that is not finite; another shape; no numbers.
    """
    end, mean, floor = ending(gaps, floor), _mean(gaps), real_number("floor", floor)
    last = len(mean) - 1
    if last == 0 or end in ("reached", "moves"):
        return ""
    ends = f"{what} is {mean[-1]:.4g} after round {last}"
    best = int(np.argmin(mean))
    if end == "above":
        least = f"; the least was {mean[best]:.4g}, after round {best}" if best else ""
        return f"It ends above where it began: {ends}, and was {mean[0]:.4g} at the start{least}."
    if end == "rests":
        if np.ptp(mean) == 0:
            return f"It rests where it began, beside the optimum: {what} is {mean[-1]:.4g} in every round."
        rests = f"It has converged beside the optimum, at {what} = {mean[-1]:.4g}"
        tail = _tail(last)
        if descent is not None and np.ptp(mean[-tail:]) <= OF_ALL * descent:
            return f"{rests}: local steps on unlike clients end there (drift)."
        return f"{rests}, to four digits over the last {tail - 1} rounds."
    half = (last + 1) // 2
    before, after = mean[: half + 1].min(), mean[half + 1 :].min()
    if after >= before:
        return f"It does not converge in these rounds: {ends}, and the least was {mean[best]:.4g}, after round {best}."
    fell = 1 - after / before
    return f"It has all but stopped: {ends}, and the least value fell by only {100 * fell:.2g} % over the last {last - half} rounds."
