"""Fractions on either side of e^-x: what turns a comparison with an exponential into one of fractions."""

import math
from fractions import Fraction
from functools import lru_cache

from fedtheory.errors import InvalidInput

__all__ = ["MOST", "exp_minus"]

MOST = 1000  # the largest x: e^-1000 is below 1e-434
_BITS = 128  # of e^-x that are right, at least


@lru_cache(maxsize=1000)
def exp_minus(x: Fraction) -> tuple[Fraction, Fraction]:
    """Two fractions around e^-x, the second at most 1 + 2^-100 times the first.

    e^-y for y = x/2^j <= 1 lies between neighbouring partial sums of its series, whose terms alternate and decrease; j
    squarings follow, each rounded outwards.

    Raises
    ------
    InvalidInput
        x below 0 or above 1000.
    """
    if not 0 <= x <= MOST:
        raise InvalidInput(f"x = {float(x):.6g}: e^-x is enclosed for 0 <= x <= {MOST}")
    halvings = max(0, math.ceil(math.log2(x))) if x > 1 else 0
    y = x / 2**halvings
    unit = 2 ** (_BITS + halvings + 2 * math.ceil(1.5 * x))  # fixed point: e^-x > 2^(-1.5 x)
    term, total, n = Fraction(1), Fraction(1), 0
    low, high = Fraction(0), Fraction(1)
    while high - low > Fraction(1, unit):
        n += 1
        term = -term * y / n
        total += term
        low, high = (total, high) if n % 2 else (low, total)
    low, high = _down(low, unit), _up(high, unit)
    for _ in range(halvings):
        low, high = _down(low * low, unit), _up(high * high, unit)
    return low, high


def _down(x: Fraction, unit: int) -> Fraction:
    return Fraction(math.floor(x * unit), unit)


def _up(x: Fraction, unit: int) -> Fraction:
    return Fraction(math.ceil(x * unit), unit)
