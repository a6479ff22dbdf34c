"""Compressors by name, and the two simplest: the identity and the scaled sign."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from fedtheory.arrays import Array, namespace
from fedtheory.errors import suggest
from fedtheory.messages import encoders, formats
from fedtheory.messages.base import Compressor, exact, mean_of
from fedtheory.messages.encoders import Encoded, Reader
from fedtheory.messages.quantisers import QSGD
from fedtheory.messages.rounding import NaturalRounding, StochasticRounding
from fedtheory.messages.sparsifiers import ST, RandomK, Threshold, TopK

__all__ = [
    "QSGD",
    "ST",
    "Compressor",
    "Identity",
    "NaturalRounding",
    "RandomK",
    "ScaledSign",
    "StochasticRounding",
    "Threshold",
    "TopK",
    "get",
    "names",
]


@dataclass(frozen=True)
class Identity(Compressor):
    """Every entry as a float: d * float_bits bits. omega = 0, delta = 1 with 64 bits; delta = 1 - 2^-48 with 32."""

    name: ClassVar[str] = "identity"

    def _compress(self, x: Array, uniforms: Array | None) -> Array:
        return self._rounded(x)

    def contraction_exact(self, dim: int) -> Fraction | None:
        return 1 - self._rounding_sq

    def variance_exact(self, dim: int) -> Fraction | None:
        return Fraction(0) if self.float_bits == 64 else None

    def _bits(self, rows: np.ndarray) -> np.ndarray:
        return np.full(rows.shape[0], rows.shape[1] * self.float_bits)

    def _encode(self, row: np.ndarray) -> Encoded:
        return encoders.pack(encoders.float_fields(row, self.float_bits))

    def _decode(self, encoded: Encoded, dim: int) -> np.ndarray:
        reader = Reader(encoded, self.name)
        out = reader.floats(dim, self.float_bits, "entry")
        reader.close()
        return out


@dataclass(frozen=True)
class ScaledSign(Compressor):
    """(||x||_1/d) sign(x), with sign(0) = +1: one float and d bits (Karimireddy, Rebjock, Stich, Jaggi 2019).

    With a = ||x||_1/d, ||C(x) - x||^2 = sum (|x_i| - a)^2 = ||x||^2 - ||x||_1^2/d, and ||x||_1 >= ||x||, with equality for
    messages of one nonzero entry: delta = 1/d, sharp. A sign takes one bit, so that 0 must go with one of the two; sent as 0 it
    would take a third symbol and leave delta's infimum at 1/d.
    """

    name: ClassVar[str] = "scaled-sign"

    def _compress(self, x: Array, uniforms: Array | None) -> Array:
        xp = namespace(x)
        dim = x.shape[-1]
        if exact(x):
            mean = np.asarray(np.sum(abs(x), axis=-1, keepdims=True), dtype=object) * Fraction(1, dim)
            return np.where(x < 0, -mean, mean)
        mean = self._rounded(mean_of(abs(x), float(dim)))
        return xp.where((x < 0) & (mean > 0), -mean, mean)

    def contraction_exact(self, dim: int) -> Fraction | None:
        return Fraction(1, dim) * (1 - self._rounding_sq)

    def _bits(self, rows: np.ndarray) -> np.ndarray:
        return formats.signs_bits(rows, self.float_bits, self.name)

    def _encode(self, row: np.ndarray) -> Encoded:
        return formats.encode_signs(row, self.float_bits, self.name)

    def _decode(self, encoded: Encoded, dim: int) -> np.ndarray:
        return formats.decode_signs(encoded, dim, self.float_bits, self.name)


_COMPRESSORS: dict[str, type[Compressor]] = {
    cls.name: cls
    for cls in (Identity, ST, TopK, RandomK, Threshold, ScaledSign, QSGD, NaturalRounding, StochasticRounding)
}


def names() -> list[str]:
    """Names of all compressors, as `get` takes them."""
    return list(_COMPRESSORS)


def get(name: str) -> type[Compressor]:
    """The class of a compressor by its name; its dataclass fields are the parameters.

    Raises
    ------
    UnknownName
        With the nearest known names.
    """
    name = str(name)
    found = _COMPRESSORS.get(name.lower().replace("_", "-"))
    if found is None:
        raise suggest(name.lower(), _COMPRESSORS, "compressor")
    return found
