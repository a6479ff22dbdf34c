"""Fractions read from lists, and square roots rounded up."""

import math
from fractions import Fraction
from typing import Any

import numpy as np

from fedtheory.errors import InvalidInput
from fedtheory.inputs import shown
from fedtheory.untrusted import ratio

__all__ = ["exact_array", "sqrt_upper"]


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
