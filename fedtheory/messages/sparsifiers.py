"""Compressors that send some entries and no others: ST, top-k, random-k, threshold."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Literal

import numpy as np

from fedtheory.arrays import Array, is_numpy, namespace, top_k_mask
from fedtheory.errors import InvalidInput
from fedtheory.inputs import check_flags, real_number, whole_number
from fedtheory.messages import formats
from fedtheory.messages.base import Compressor, Few, as_uniforms, entries_kept, exact, mean_of
from fedtheory.messages.encoders import Encoded
from fedtheory.messages.selection import top_k_places

__all__ = ["ST", "RandomK", "Threshold", "TopK"]


def check_q(q: float | Fraction) -> None:
    real_number("q", q, above=0, most=1, remedy="it is the part of the entries that is sent")


def only_where(mask: Array, x: Array) -> Array:
    """x where the mask is, +0.0 elsewhere; a -0.0 becomes +0.0."""
    if exact(x):
        return np.where(mask, x, 0)
    if is_numpy(x):
        out = np.zeros_like(x)
        np.copyto(out, x, where=mask)
        out += 0.0
        return out
    xp = namespace(x)
    return xp.where(mask, x, xp.zeros_like(x)) + 0.0


@dataclass(frozen=True)
class ST(Compressor):
    """Sparse ternary compression: the largest entries, all with the mean magnitude (EFL, Algorithm 2; Sattler et al. 2020, STC).

    Parameters
    ----------
    q : in (0, 1], the sparsity; a Fraction for exact work. nq that is an integer up to rounding is taken as that integer.
    rule : how Algorithm 2 is read where it leaves a choice.
        "exact": k = max(ceil(nq), 1) entries, of equal ones those of lower index, and mu their mean magnitude.
        "printed": k = max(nq, 1), an integer or not. The threshold e is the ceil(k)-th largest magnitude (the largest e that
        at least k entries reach), every entry with |T_i| >= e is kept, ties included, and mu = (kept magnitudes)/k, with the
        k that need not be their number.

    Notes
    -----
    With S = sum of kept magnitudes, m the number of kept entries that are not 0 and mu = S/k,
    ||C(x) - x||^2 = ||x||^2 - (S/k)^2 (2k - m): expand sum over kept of (|x_i| - mu)^2 = sum x_i^2 - 2 mu S + m mu^2.

    "exact" contracts with delta = min(1/k, k/n), sharp. Proof: m <= k gives an error of at most ||x||^2 - S^2/k. For given S,
    ||x||^2 is convex on {a_1 >= ... >= a_k >= the others >= 0, a_1 + ... + a_k = S}, whose vertices are j < k equal entries and
    no others (S^2/j) or k equal ones and some of the others equal to them (at most n S^2/k^2): ||x||^2 <= S^2 max(1, n/k^2).
    Both are approached: by all entries equal, and by one large entry and n - 1 that tend to 0.

    "printed" contracts iff 2k > n, with delta = (2k - n)/k^2, sharp. With all entries equal m = n and the error is
    ||x||^2 (n/k - 1)^2, as large as (1/q - 1)^2 ||x||^2. Where 2k > n, K = ceil(k): m < K entries that are not 0 are all kept,
    S^2 >= ||x||^2 and 2k - m >= 2k - n; for K <= m <= n the same vertices give ||x||^2 <= S^2 max(1, n/m^2) = S^2, since
    m >= K > n/2 and so m^2 >= n (n = 1, 2, 3 by hand). The worst is a large entry and n - 1 equal ones that tend to 0.
    """

    name: ClassVar[str] = "st"

    q: float | Fraction
    rule: Literal["exact", "printed"] = "exact"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_q(self.q)
        if self.rule not in ("exact", "printed"):
            raise InvalidInput(
                f"rule is {self.rule!r}; known: 'exact' (exactly k entries), 'printed' (ties kept, mu over k)"
            )

    def sizes(self, dim: int) -> tuple[int, int | float | Fraction]:
        """K, the rank of the threshold, and the k that mu is divided by; equal unless the printed rule's nq is no integer."""
        k = max(entries_kept(self.q, dim), 1)
        return math.ceil(k), (math.ceil(k) if self.rule == "exact" else k)

    def most(self, dim: int) -> int:
        return self.sizes(dim)[0] if self.rule == "exact" else dim  # the printed rule keeps ties

    def _compress(self, x: Array, uniforms: Array | None) -> Array:
        xp, plain = namespace(x), is_numpy(x) and not exact(x)
        rank, k = self.sizes(x.shape[-1])
        if plain and self.rule == "exact":
            return self._spread(x, top_k_places(x, rank))
        magnitude = abs(x)
        mask = top_k_mask(magnitude, rank, ties=self.rule == "printed")
        if plain and np.count_nonzero(mask) == rank * math.prod(x.shape[:-1]):
            return self._spread(x, np.flatnonzero(mask).reshape(*x.shape[:-1], rank))
        kept = only_where(mask, magnitude)
        if exact(x):
            mu = np.asarray(kept.sum(axis=-1, keepdims=True), dtype=object) / Fraction(k)
            return np.where(mask, np.where(x > 0, mu, np.where(x < 0, -mu, 0)), 0)
        mu = self._rounded(mean_of(kept, float(k)))
        return only_where(mask & (x != 0), xp.where(x > 0, mu, -mu))

    def few(self, x: np.ndarray, compiled: bool = False) -> Few | None:
        if type(self) is not ST or self.rule == "printed" or not self._fit(x):
            return None
        where = top_k_places(x, self.sizes(x.shape[-1])[0], compiled)
        where, values = where.ravel(), self._ternary(x, where).ravel()
        where, values = where[values != 0], values[values != 0]
        return Few(where, values, formats.ternary_length(formats.Support(where, x.shape), self.float_bits))

    def _ternary(self, x: np.ndarray, where: np.ndarray) -> np.ndarray:
        """Return what is sent of the entries kept of each message, at flat places (..., rank). Only
        these are touched again."""
        kept = x.ravel()[where]
        mu = self._rounded(mean_of(abs(kept), float(self.sizes(x.shape[-1])[1])))
        return np.where(kept > 0, mu, np.where(kept < 0, -mu, 0.0)) + 0.0

    def _spread(self, x: np.ndarray, where: np.ndarray) -> np.ndarray:
        out = np.zeros_like(x, order="C")
        out.ravel()[where] = self._ternary(x, where)
        return out

    def contraction_exact(self, dim: int) -> Fraction | None:
        k = Fraction(self.sizes(dim)[1])
        if self.rule == "exact":
            return min(1 / k, k / dim) * (1 - self._rounding_sq)
        slack = _root(self._rounding_sq)  # mu is off by a factor 1 + slack at most
        delta = (2 * k * (1 - slack) - dim * (1 + slack) ** 2) / k**2
        return delta if delta > 0 else None

    def _bits(self, rows: np.ndarray) -> np.ndarray:
        return formats.ternary_bits(rows, self.float_bits, self.name)

    def _encode(self, row: np.ndarray) -> Encoded:
        return formats.encode_ternary(row, self.float_bits, self.name)

    def _decode(self, encoded: Encoded, dim: int) -> np.ndarray:
        return formats.decode_ternary(encoded, dim, self.float_bits, self.name)


def _root(square: Fraction) -> Fraction:
    return Fraction(math.isqrt(square.numerator), math.isqrt(square.denominator))


class _Sparse(Compressor):
    """Sends positions and floats."""

    def _bits(self, rows: np.ndarray) -> np.ndarray:
        return formats.sparse_bits(rows, self.float_bits)

    def _encode(self, row: np.ndarray) -> Encoded:
        return formats.encode_sparse(row, self.float_bits)

    def _decode(self, encoded: Encoded, dim: int) -> np.ndarray:
        return formats.decode_sparse(encoded, dim, self.float_bits, self.name)


@dataclass(frozen=True)
class _KeepsK(_Sparse):
    """k entries, given as a number or as a part q of the dimension: k = max(ceil(nq), 1)."""

    k: int | None = None
    q: float | Fraction | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.k is None) == (self.q is None):
            raise InvalidInput(f"{self.name} with k = {self.k!r} and q = {self.q!r}: give one of the two")
        if self.q is not None:
            check_q(self.q)
        else:
            whole_number("k", self.k, remedy="from 1 to d entries are sent; a part goes in q")

    def count(self, dim: int) -> int:
        """k in dimension dim."""
        return int(self.k) if self.k is not None else max(math.ceil(entries_kept(self.q, dim)), 1)  # type: ignore[arg-type]  # one of k and q is given

    def most(self, dim: int) -> int:
        return self.count(dim)

    def check(self, dim: int) -> None:
        super().check(dim)
        if self.k is not None and self.k > dim:
            raise InvalidInput(
                f"k = {self.k} entries of a message of dimension {dim}: k must not exceed it; give q instead"
            )


@dataclass(frozen=True)
class TopK(_KeepsK):
    """The k largest entries in magnitude, of equal ones those of lower index.

    delta = k/d, sharp where all entries are equal: the d - k dropped squares are at most (d - k)/d of all (Stich, Cordonnier,
    Jaggi 2018, Lemma A.1).

    Parameters
    ----------
    k : number of entries, or
    q : part of the entries in (0, 1], k = max(ceil(dq), 1).
    """

    name: ClassVar[str] = "top-k"

    def _compress(self, x: Array, uniforms: Array | None) -> Array:
        return only_where(top_k_mask(abs(x), self.count(x.shape[-1])), self._rounded(x))

    def few(self, x: np.ndarray, compiled: bool = False) -> Few | None:
        if type(self) is not TopK or not self._fit(x):
            return None
        where = top_k_places(x, self.count(x.shape[-1]), compiled).ravel()
        values = self._rounded(x.ravel()[where]) + 0.0  # a -0.0 becomes +0.0, which is not sent
        where, values = where[values != 0], values[values != 0]
        return Few(where, values, formats.sparse_length(formats.Support(where, x.shape), self.float_bits))

    def contraction_exact(self, dim: int) -> Fraction | None:
        return Fraction(self.count(dim), dim) * (1 - self._rounding_sq)


@dataclass(frozen=True)
class RandomK(_KeepsK):
    """k entries chosen uniformly among all subsets of that size: those with the smallest uniforms.

    Not scaled: E||C(x) - x||^2 = (1 - k/d)||x||^2 for every x, so delta = k/d. Scaled by d/k: unbiased, and E||C(x) - x||^2 =
    (d/k - 1)||x||^2 for every x, so omega = d/k - 1 (each entry survives with probability k/d). With 32-bit floats the scaled
    values are rounded to nearest, which is not unbiased: then there is no omega.

    Parameters
    ----------
    k, q : as in `TopK`.
    scaled : whether what is sent is multiplied by d/k.
    """

    name: ClassVar[str] = "random-k"
    randomised: ClassVar[bool] = True

    scaled: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_flags(self)

    def _factor(self, x: Array) -> float | Fraction | int:
        if not self.scaled:
            return 1
        factor = Fraction(x.shape[-1], self.count(x.shape[-1]))
        return factor if exact(x) else float(factor)

    def _compress(self, x: Array, uniforms: Array | None) -> Array:
        mask = top_k_mask(-as_uniforms(uniforms, x), self.count(x.shape[-1]))
        with np.errstate(over="ignore"):
            sent = only_where(mask, self._rounded(x * self._factor(x)))
        if not exact(x) and not bool(namespace(x).all(namespace(x).isfinite(sent))):
            raise InvalidInput(
                f"an entry times d/k = {self._factor(x):.3g} overflows: use scaled=False, or scale the message down"
            )
        return sent

    def expected(self, x: Array) -> Array:
        self._enter(x)
        chance = Fraction(self.count(x.shape[-1]), x.shape[-1])
        return self._rounded(x * self._factor(x)) * (chance if exact(x) else float(chance))

    def expected_error_sq(self, x: Array) -> Array:
        self._enter(x)
        chance = Fraction(self.count(x.shape[-1]), x.shape[-1])
        p = chance if exact(x) else float(chance)
        sent = self._rounded(x * self._factor(x))
        return namespace(x).sum(p * (sent - x) ** 2 + (1 - p) * x * x, axis=-1)

    def contraction_exact(self, dim: int) -> Fraction | None:
        chance = Fraction(self.count(dim), dim)
        if not self.scaled:
            return chance * (1 - self._rounding_sq)
        delta = chance * (1 - ((1 + _root(self._rounding_sq)) / chance - 1) ** 2)  # without rounding 2 - 1/chance
        return delta if delta > 0 else None

    def variance_exact(self, dim: int) -> Fraction | None:
        if self.float_bits == 32 or (not self.scaled and self.count(dim) < dim):
            return None
        return Fraction(dim, self.count(dim)) - 1


@dataclass(frozen=True)
class Threshold(_Sparse):
    """The entries with |x_i| > epsilon, as they are (hard threshold).

    ||C(x) - x||^2 <= d epsilon^2, reached where every |x_i| = epsilon: an absolute factor (Sahu et al. 2021). No delta: a message
    below the threshold is lost altogether (unless epsilon = 0, which sends everything).

    Parameters
    ----------
    epsilon : >= 0, a Fraction for exact work.
    """

    name: ClassVar[str] = "threshold"

    epsilon: float | Fraction

    def __post_init__(self) -> None:
        super().__post_init__()
        real_number("epsilon", self.epsilon, least=0, remedy="it is the largest magnitude that is dropped")

    def _enter_message(self, rows: np.ndarray) -> None:
        super()._enter_message(rows)
        size = np.abs(rows)  # of 32 bits, what was above epsilon may be sent as its rounding
        dropped = size <= float(self.epsilon) if self.float_bits == 64 else size < np.float32(self.epsilon)
        if (bad := dropped & (rows != 0)).any():
            row, entry = (int(i) for i in np.argwhere(bad)[0])
            raise InvalidInput(
                f"entry {entry} of message {row} is {rows[row, entry]:.6g}, not above epsilon = {float(self.epsilon):g}: encode what "
                "compress() returned"
            )

    def _compress(self, x: Array, uniforms: Array | None) -> Array:
        return only_where(abs(x) > (self.epsilon if exact(x) else float(self.epsilon)), self._rounded(x))

    def contraction_exact(self, dim: int) -> Fraction | None:
        return 1 - self._rounding_sq if self.epsilon == 0 else None

    def absolute_exact(self, dim: int) -> Fraction | None:
        return dim * Fraction(self.epsilon) ** 2 if self.float_bits == 64 else None
