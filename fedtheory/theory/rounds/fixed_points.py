"""The model that a round leaves where it is, by Newton's method on after(x) = x."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from fedtheory.theory.rounds.forms import Undefined
from fedtheory.theory.rounds.measured import ROUNDING

__all__ = ["by_coordinate", "in_floats"]

STEPS = 40


def by_coordinate(after: Callable[[Any], Any], x: Any, exact: bool) -> Any:
    """The fixed point of a round of separable, piecewise quadratic losses: coordinate by
    coordinate it is piecewise affine.

    Parameters
    ----------
    after : a round, (S, d) -> (S, d)
    x : where to begin (1, d)
    exact : whether x is in fractions; then so is what comes back

    Raises
    ------
    Undefined
        There is none, or no single one.
    """
    step = Fraction(1, 4096) if exact else 1 / 4096
    for _ in range(STEPS):
        low = after(x)
        slope = (after(x + step) - low) / step
        if (abs(slope - 1) < 1e-9).any():
            raise Undefined("a coordinate that no client moves has no single fixed point")
        move = (low - x) / (1 - slope)
        if (abs(move) <= (0 if exact else ROUNDING * (1 + abs(x)))).all():
            return x
        x = x + move
    raise Undefined("no fixed point was found")


def in_floats(after: Callable[[Any], Any], x: Any) -> Any:
    """The fixed point of any other round, with differences of rounds from d + 1 points side by
    side; arguments and errors as of `by_coordinate`."""
    dim = x.shape[1]
    for again in range(STEPS):
        step = 1.0 + float(np.abs(x).max()) if again == 0 else 1e-4 * (1.0 + float(np.abs(x).max()))
        ends = after(x + step * np.concatenate([np.zeros((1, dim)), np.eye(dim)]))
        slope = (ends[1:] - ends[0]).T / step
        try:
            move = np.linalg.solve(np.eye(dim) - slope, (ends[0] - x[0]))
        except np.linalg.LinAlgError as error:
            raise Undefined("the fixed point is not unique") from error
        if np.abs(move).max() <= ROUNDING * (1 + np.abs(x).max()):
            return x
        x = x + move
    raise Undefined("no fixed point was found")
