"""Random fractions for `World.draw`: numbers, shares, laws and tables of them."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

__all__ = [
    "curvatures", "few_shares", "half", "law", "part", "rows", "shares", "signed", "size",
]


def size(rng: np.random.Generator, decades: float = 1.5) -> Fraction:
    """A positive fraction, log-uniform over 10^-decades..10^decades, with two digits."""
    return Fraction(f"{10 ** rng.uniform(-decades, decades):.1e}")


def signed(rng: np.random.Generator) -> Fraction:
    """A fraction from -16 to 16 over 1, 2 or 4."""
    return Fraction(int(rng.integers(-16, 17)), int(rng.choice([1, 2, 4])))


def shares(rng: np.random.Generator, n: int) -> list[Fraction]:
    """n positive fractions of sum 1."""
    parts = [int(v) for v in rng.integers(1, 9, n) ** int(rng.integers(1, 3))]
    return [Fraction(v, sum(parts)) for v in parts]


def law(rng: np.random.Generator, most: int, idle: bool) -> list[Fraction]:
    """A probability over 0..most, some of its entries 0."""
    keep = rng.random(most + 1) < 0.6
    keep[0] &= idle
    keep[1 + int(rng.integers(most))] = True
    parts = np.where(keep, rng.integers(1, 7, most + 1), 0)
    return [Fraction(int(v), int(parts.sum())) for v in parts]


def rows(
    rng: np.random.Generator, n: int, d: int, make: Callable[[Any], Fraction]
) -> list[list[Fraction]]:
    """A table (n, d) of fractions."""
    return [[make(rng) for _ in range(d)] for _ in range(n)]


def curvatures(rng: np.random.Generator, n: int, d: int) -> list[list[Fraction]]:
    """A table (n, d) of positive fractions, now and then of one number."""
    if rng.random() < 0.25:
        return [[size(rng)] * d] * n  # L = mu
    return rows(rng, n, d, size)


def part(rng: np.random.Generator, most: int = 16, of: int = 8) -> Fraction:
    """A multiple of 1/of, from one to ``most`` of them."""
    return Fraction(int(rng.integers(1, most + 1)), of)


def half(rng: np.random.Generator) -> Fraction:
    """A multiple of 1/2 from -4 to 4."""
    return Fraction(int(rng.integers(-8, 9)), 2)


def few_shares(rng: np.random.Generator, n: int) -> list[Fraction]:
    """n positive fractions of sum 1, of like size."""
    parts = [int(v) for v in rng.integers(1, 5, n)]
    return [Fraction(v, sum(parts)) for v in parts]
