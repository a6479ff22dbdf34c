"""The losses of the exact engine: diagonal quadratics, in fractions or in float64."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from fedtheory.errors import InvalidInput
from fedtheory.inputs import shown
from fedtheory.theorems.fedelasticnet.quantities import sgn
from fedtheory.untrusted import ratio

__all__ = ["DiagonalLosses", "RationalLosses", "exact_array", "sqrt_upper"]


def exact_array(values: Any) -> np.ndarray:
    """Nested lists or an array of ints, floats, strings such as '3/7' or Fractions, as an object array of Fractions.

    Raises
    ------
    InvalidInput
        An entry that is not a finite number, rows of different lengths.
    """
    raw = np.asarray(values.tolist() if isinstance(values, np.ndarray) else values, dtype=object)
    out = np.empty(raw.shape, dtype=object)
    for index in np.ndindex(raw.shape):
        entry: Any = raw[index]
        try:
            out[index] = ratio(entry) if isinstance(entry, str) else Fraction(entry)
        except (TypeError, ValueError, ZeroDivisionError, OverflowError) as error:
            raise InvalidInput(f"{shown(entry)} at {index} is not a rational number (write 3, 0.25 or '3/7')") from error
    return out


def sqrt_upper(q: Fraction, bits: int = 120) -> Fraction:
    """A rational r >= sqrt(q), exact for squares, else within 2^-bits relative. A bound that grows with it stays a bound."""
    n, d = q.numerator, q.denominator
    root, below = math.isqrt(n), math.isqrt(d)
    if root * root == n and below * below == d:
        return Fraction(root, below)
    shift = 2 * (bits + max(0, d.bit_length() - n.bit_length()))
    return Fraction(math.isqrt((n << shift) // d) + 1, 1 << (shift // 2))


class RationalLosses:
    """Losses of all clients, a coordinate at a time."""

    shape: tuple[int, int]  # rows and coordinates
    is_exact: bool  # of fractions
    values_each: Callable[[Any], Any]
    gradients_each: Callable[[Any], Any]

    @property
    def m(self) -> int:
        """The number of clients."""
        return self.shape[0]

    def mean(self, values: Any) -> Any:
        """(1/m) sum over the clients: the axis before the last."""
        return values.sum(axis=-2) / (Fraction(self.m) if self.is_exact else float(self.m))

    def values(self, x: Any) -> Any:
        return self.values_each(self._of_each(x))

    def gradients(self, x: Any) -> Any:
        return self.gradients_each(self._of_each(x))

    def _of_each(self, x: Any) -> Any:
        """One point for every row: (..., d) -> (..., m, d)."""
        return np.broadcast_to(x[..., None, :], (*x.shape[:-1], *self.shape))


@dataclass(frozen=True)
class DiagonalLosses(RationalLosses):
    """L_k(x) = sum_i h_ki (x_i - c_ki)^2 / 2. h, c : (m, d)."""

    h: Any
    c: Any

    @property
    def shape(self) -> tuple[int, int]:  # type: ignore[override]
        """Rows and coordinates."""
        return self.h.shape[-2:]

    @property
    def is_exact(self) -> bool:  # type: ignore[override]
        """True if the numbers are fractions."""
        return self.h.dtype == object

    @cached_property
    def joint(self) -> Any:
        """Curvature of R: (d,)."""
        return self.mean(self.h)

    @cached_property
    def theta_star(self) -> Any:
        """The minimiser of R; 0 in coordinates R does not depend on: (d,)."""
        pull = self.mean(self.h * self.c)
        return pull / (self.joint + (self.joint == 0).astype(int))

    @cached_property
    def grad_star(self) -> Any:
        return self.h * (self.theta_star - self.c)

    @property
    def beta(self) -> Any:
        return self.h.max(axis=(-2, -1))

    @property
    def mu(self) -> Any:
        """The least curvature of R."""
        return self.joint.min(axis=-1)

    def values_each(self, y: Any) -> Any:
        return (self.h * (y - self.c) * (y - self.c)).sum(axis=-1) / 2

    def gradients_each(self, y: Any) -> Any:
        return self.h * (y - self.c)

    def minimise(self, anchor: Any, stored: Any, l1: Any, l2: Any) -> Any:
        """argmin L_k(y) - <g_k, y> + l2/2 ||y - anchor||^2 + l1 ||y - anchor||_1 for all clients: (S, m, d)."""
        v = stored - self.gradients_each(anchor)
        return anchor + sgn(v) * np.maximum(abs(v) - l1, 0 * v) / (self.h + l2)

    def nearest_gradients(self, y: Any, g: Any) -> Any:
        """The gradients at y_k, whatever they should be near."""
        return self.gradients_each(y)

    def excess(self, x: Any) -> Any:
        away = x - self.theta_star
        return (self.joint * away * away).sum(axis=-1) / 2
