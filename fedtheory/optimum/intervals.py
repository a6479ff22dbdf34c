"""Numbers with a proven error: double-double midpoints with a radius, elementwise on NumPy arrays.

An `Enclosure` (hi, lo, rad) holds every real number within rad of hi + lo. Every operation returns
an enclosure of the exact result for all numbers in its operands, rounding included; radii are
rounded up. The building blocks are the error-free transformations of Knuth (two_sum) and Dekker
(two_product); the bound of `dot` follows Ogita, Rump, Oishi, "Accurate sum and dot product", SIAM
J. Sci. Comput. 26 (2005).

What is assumed: IEEE 754 binary64 in round to nearest, and that exp and log1p of the platform are
within `LIBRARY_ERROR` (16 units of roundoff; NumPy documents 4 ulp = 8 units). Overflow shows as
NaN or infinity, and no bound is then claimed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

__all__ = [
    "LIBRARY_ERROR", "ROUNDOFF", "TINY", "UP", "Enclosure", "Rows", "dot", "gamma", "norm_up",
    "packed", "stack_sum", "two_product",
]  # fmt: skip

ROUNDOFF = 2.0**-53
LIBRARY_ERROR = 16 * ROUNDOFF
UP = 1 + 2.0**-40  # covers the roundings made while a radius of a few thousand operations is computed
TINY = 2.0**-1000  # covers products that underflow
IN_CACHE = 2**13  # numbers of an array that are worked on together
SMALLEST = 2.0**-1022  # normal number: below it a rounding is no longer relative to the result


def gamma(n: int) -> float:
    """n u / (1 - n u), rounded up: Higham, Accuracy and Stability, Lemma 3.1."""
    return n * ROUNDOFF / (1 - n * ROUNDOFF) * UP


def norm_up(values: np.ndarray) -> float:
    """An upper bound of the Euclidean (Frobenius) norm of float64 numbers; it never underflows, as
    it is 0 or a normal number."""
    largest = float(np.abs(values).max(initial=0.0))
    if largest == 0 or not np.isfinite(largest):
        return largest
    unit = 2.0 ** np.floor(np.log2(largest))
    return max(float(np.linalg.norm(values / unit)) * unit * UP * (1 + gamma(np.size(values) + 4)), SMALLEST)


def _two_sum(a: Any, b: Any) -> tuple[Any, Any]:
    s = a + b
    return s, _two_sum_rest(a, b, s)


def _two_sum_rest(a: Any, b: Any, s: Any) -> Any:
    """a + b - s for the rounded sum s."""
    z = s - a
    return (a - (s - z)) + (b - z)


def _split(a: Any) -> tuple[Any, Any]:
    c = 134217729.0 * a  # 2**27 + 1
    high = c - (c - a)
    return high, a - high


def two_product(a: Any, b: Any) -> tuple[Any, Any]:
    p = a * b
    ah, al = _split(a)
    bh, bl = _split(b)
    return p, ((ah * bh - p) + ah * bl + al * bh) + al * bl


@dataclass(frozen=True)
class Enclosure:
    """All real numbers within rad of hi + lo, elementwise; the three arrays broadcast against each other."""

    hi: Any
    lo: Any
    rad: Any

    @staticmethod
    def exact(values: Any) -> Enclosure:
        """The float64 numbers themselves."""
        values = np.asarray(values, dtype=float)
        return Enclosure(values, np.zeros_like(values), np.zeros_like(values))

    @property
    def mag(self) -> Any:
        """An upper bound of |number|."""
        return (np.abs(self.hi) + np.abs(self.lo) + self.rad) * UP

    @property
    def upper(self) -> Any:
        """A float64 number that no member exceeds."""
        rest = self.lo + self.rad
        rounded = np.nextafter(self.hi + rest * (1 + np.sign(rest) * 2.0**-50), np.inf)
        return np.where(rest == 0, self.hi, rounded)  # a float sum is 0 only when the exact one is

    @property
    def lower(self) -> Any:
        """A float64 number that every member reaches."""
        return -(-self).upper

    def __neg__(self) -> Enclosure:
        return Enclosure(-self.hi, -self.lo, self.rad)

    def __add__(self, other: Any) -> Enclosure:
        other = _enclosed(other)
        s, e = _two_sum(self.hi, other.hi)
        t = self.lo + other.lo
        low = e + t
        hi, lo = _two_sum(s, low)
        return Enclosure(hi, lo, (self.rad + other.rad + ROUNDOFF * (np.abs(t) + np.abs(low))) * UP)

    def __sub__(self, other: Any) -> Enclosure:
        return self + -_enclosed(other)

    def __mul__(self, other: Any) -> Enclosure:
        other = _enclosed(other)
        p, e = two_product(self.hi, other.hi)
        u, v = self.hi * other.lo, self.lo * other.hi
        t = u + v
        low = e + t
        hi, lo = _two_sum(p, low)
        rounding = ROUNDOFF * (np.abs(u) + np.abs(v) + np.abs(t) + np.abs(low)) + np.abs(self.lo * other.lo)
        carried = self.mag * other.rad + other.mag * self.rad  # counts rad*rad twice: still an upper bound
        nonzero = (self.mag > 0) & (other.mag > 0)
        return Enclosure(hi, lo, (rounding + carried) * UP + TINY * nonzero)

    __radd__ = __add__
    __rmul__ = __mul__

    def __getitem__(self, key: Any) -> Enclosure:
        shape = np.broadcast_shapes(np.shape(self.hi), np.shape(self.lo), np.shape(self.rad))
        return Enclosure(*(np.broadcast_to(a, shape)[key] for a in (self.hi, self.lo, self.rad)))

    def clip(self, low: float, high: float) -> Enclosure:
        """Elementwise clip at two float64 limits; it is 1-Lipschitz, so radii do not grow."""
        above, below = (self.hi - high) + self.lo > 0, (self.hi - low) + self.lo < 0
        hi = np.where(above, high, np.where(below, low, self.hi))
        return Enclosure(hi, np.where(above | below, 0.0, self.lo), self.rad)

    def sum(self) -> Enclosure:
        """Sum over axis 0, in pairs: log2(n) levels."""
        shape = np.broadcast_shapes(np.shape(self.hi), np.shape(self.lo), np.shape(self.rad))
        if shape[0] == 0:
            return Enclosure.exact(np.zeros(shape[1:]))
        hi, lo, rad = (np.broadcast_to(a, shape) for a in (self.hi, self.lo, self.rad))
        while (n := len(hi)) > 1:
            half = n // 2
            paired = Enclosure(hi[:half], lo[:half], rad[:half]) + Enclosure(*(a[half : 2 * half] for a in (hi, lo, rad)))
            if n % 2:
                parts = zip((paired.hi, paired.lo, paired.rad), (hi, lo, rad))
                hi, lo, rad = (np.concatenate([a, rest[2 * half :]]) for a, rest in parts)
            else:
                hi, lo, rad = paired.hi, paired.lo, paired.rad
        return Enclosure(hi[0], lo[0], rad[0])


def _enclosed(values: Any) -> Enclosure:
    return values if isinstance(values, Enclosure) else Enclosure.exact(values)


def stack_sum(columns: list[Enclosure]) -> Enclosure:
    """Scalars or equal-shaped enclosures -> one enclosure of shape (len, ...)."""
    return Enclosure(*(np.stack([np.asarray(getattr(c, f)) for c in columns]) for f in ("hi", "lo", "rad")))


def dot(rows: np.ndarray, x: np.ndarray) -> Enclosure:
    """rows (n, p) times x (C, p) transposed, both exact float64: an enclosure (n, C)."""
    used = rows.any(axis=0)
    entries, factors = np.ascontiguousarray(rows.T[used]), np.ascontiguousarray(x.T[used])
    return _dot(entries[:, :, None], factors[:, None])


def _dot(entries: np.ndarray, factors: np.ndarray) -> Enclosure:
    """Sums over axis 0 of entries (p, n, 1) times factors (p, n or 1, C): an enclosure (n, C).

    Products and partial sums are split without error; the 2p leftovers, each at most roundoff times
    a partial sum of |entries| |factors|, are added in plain float64. Their sum's error is at most
    gamma(2p) (p + 1) roundoff |entries| |factors|.
    """
    p, n, c = len(entries), entries.shape[1], factors.shape[2]
    total, rest, size = np.zeros((3, n, c))
    together = max(1, IN_CACHE // max(n * c, 1))
    for start in range(0, p, together):
        some = slice(start, start + together)
        product, e = two_product(entries[some], factors[some])
        sums = _running(total, product)
        f = _two_sum_rest(sums[:-1], product, sums[1:])
        total, rest, size = sums[-1], _running(rest, e + f)[-1], _running(size, np.abs(product))[-1]
    hi, lo = _two_sum(total, rest)
    rad = gamma(2 * p) * (p + 2) * ROUNDOFF * size * (UP + 4 * p * ROUNDOFF)
    return Enclosure(hi, lo, rad + p * TINY * (factors != 0).any())


def _running(first: np.ndarray, terms: np.ndarray) -> np.ndarray:
    """Partial sums (p + 1, ...) of terms (p, ...) along axis 0, one after another, from `first`."""
    sums = np.empty((len(terms) + 1, *first.shape))
    sums[0] = first
    if first.size < 64:  # beyond, NumPy adds whole rows faster than it accumulates
        sums[1:] = terms
        return np.add.accumulate(sums, out=sums)
    for i, term in enumerate(terms):
        np.add(sums[i], term, out=sums[i + 1])
    return sums


def packed(a: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Columns of a (n, p) with about as many entries other than 0, as many as stay in the cache.

    With their numbers (k,) come the rows (m, k) of these entries and the entries (m, k). m is the
    most that one has, less than twice the fewest; where there are fewer, 0 of row 0.
    """
    counts = np.count_nonzero(a, axis=0)
    classes = np.ceil(np.log2(np.maximum(counts, 0.5)))  # -1: none
    for size in np.unique(classes[counts > 0]):
        alike = np.flatnonzero(classes == size)
        m = int(counts[alike].max())
        together = max(1, IN_CACHE // m)
        for some in np.split(alike, range(together, len(alike), together)):
            columns, rows = a[:, some], np.arange(m)[:, None]
            if m < len(a):
                which, on = np.nonzero(columns.T)
                before = np.cumsum(counts[some]) - counts[some]
                place = np.arange(len(on)) - np.repeat(before, counts[some])
                rows, entries = np.zeros((m, len(some)), dtype=int), np.zeros((m, len(some)))
                rows[place, which], entries[place, which] = on, columns[on, which]
                columns = entries
            yield some, rows, columns


class Rows:
    """Rows (n, p), exact float64, for products with vectors; without zeros where most are zeros."""

    def __init__(self, rows: np.ndarray) -> None:
        self.rows, self.sparse = rows, 4 * np.count_nonzero(rows) < rows.size

    @cached_property
    def _packed(self) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        return list(packed(self.rows.T))

    def dot(self, x: np.ndarray) -> Enclosure:
        """`dot` of the rows and x (C, p)."""
        if not self.sparse:
            return dot(self.rows, x)
        hi, lo, rad = np.zeros((3, len(self.rows), len(x)))
        for some, places, entries in self._packed:
            part = _dot(entries[:, :, None], x.T[places])
            hi[some], lo[some], rad[some] = part.hi, part.lo, part.rad
        return Enclosure(hi, lo, rad)
