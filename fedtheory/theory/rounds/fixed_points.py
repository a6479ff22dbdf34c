"""The model that a round leaves where it is, by Newton's method on after(x) = x."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from fedtheory.errors import NotCertified
from fedtheory.theory.rounds.forms import Undefined
from fedtheory.theory.rounds.measured import ROUNDING

__all__ = ["by_coordinate", "in_floats"]

STEPS = 80
STILL = 8 * float(np.finfo(float).eps)
NONE = "no fixed point was found"


def by_coordinate(after: Callable[[Any], Any], x: Any, exact: bool) -> Any:
    """The fixed point of a round of separable, piecewise quadratic losses: coordinate by
    coordinate it is piecewise affine.

    Parameters
    ----------
    after : a round, (S, d) -> (S, d)
    x : where to begin (1, d)
    exact : whether x is in fractions; then so is what comes back

    Raises `Undefined`: none was found.
    """
    step = Fraction(1, 4096) if exact else 1 / 4096
    for _ in range(STEPS):
        low = after(x)
        still = low == x  # whatever is around it: a coordinate may rest at any point of an interval
        if still.all():
            return x
        slope = np.where(still, 0 * x, (after(x + step) - low) / step)
        plain = abs(slope - 1) < 1e-9  # there a step is a round of the method itself
        move = (low - x) / np.where(plain, 1 + 0 * x, 1 - slope)
        if (abs(move) <= 0).all() if exact else _at_rest(low - x, move, x):
            return x
        x = x + move
    raise Undefined(NONE)


def in_floats(after: Callable[[Any], Any], x: Any) -> Any:
    """The fixed point of any other round, with differences of rounds from d + 1 points side by
    side; arguments as of `by_coordinate`. Raises `NotCertified` where none was found."""
    dim = x.shape[1]
    for again in range(STEPS):
        step = 1.0 + float(np.abs(x).max()) if again == 0 else 1e-4 * (1.0 + float(np.abs(x).max()))
        ends = after(x + step * np.concatenate([np.zeros((1, dim)), np.eye(dim)]))
        slope = (ends[1:] - ends[0]).T / step
        moved, rest = ends[0] - x[0], np.eye(dim) - slope
        move = np.linalg.lstsq(rest, moved)[0]
        if np.abs(rest @ move - moved).max() > 1e-6 * np.abs(moved).max():
            move = moved  # no step of Newton's leads there: a round of the method itself
        if _at_rest(moved, move, x):
            return x
        x = x + move
    raise NotCertified(
        f"{NONE}, the method still moves by {np.abs(moved).max():.2g}: give another start"
    )


def _at_rest(moved: Any, move: Any, x: Any) -> bool:
    """True where a round moves by no more than rounding does, or Newton's method would."""
    size = 1 + np.abs(x).max()
    return bool(np.abs(moved).max() <= STILL * size or np.abs(move).max() <= ROUNDING * size)
