"""Bits on the wire: fields packed into bytes, Golomb-Rice and Elias codes, and a reader that refuses a damaged payload."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from fedtheory.errors import DataFileError, InvalidInput

__all__ = [
    "Encoded",
    "Reader",
    "bit_length",
    "count_width",
    "float_fields",
    "gamma_fields",
    "gamma_length",
    "omega_fields",
    "omega_length",
    "pack",
    "rice_fields",
    "rice_length",
    "rice_parameter",
]

_ONES = np.uint64(2**64 - 1)
SHORT = 4096  # integers whose lengths are looked up
OMEGA_LIMIT = 2**48  # an omega code below it fits into one 64-bit field


@dataclass(frozen=True)
class Encoded:
    """One message on the wire: ``bits`` bits, first bit first, padded with zeros to whole bytes."""

    bits: int
    payload: bytes


Fields = tuple[np.ndarray, np.ndarray]  # values (n,) of uint64 and their widths (n,), most significant bit first


def pack(*fields: Fields) -> Encoded:
    """Fields one after the other. A field wider than 64 bits must be all ones (the unary part of a Rice code)."""
    values = np.concatenate([np.asarray(v, dtype=np.uint64).ravel() for v, _ in fields] or [np.zeros(0, np.uint64)])
    widths = np.concatenate([np.asarray(w, dtype=np.int64).ravel() for _, w in fields] or [np.zeros(0, np.int64)])
    total = int(widths.sum())
    owner = np.repeat(np.arange(widths.size), widths)
    shift = np.cumsum(widths)[owner] - 1 - np.arange(total)
    bits = (values[owner] >> np.minimum(shift, 63).astype(np.uint64)) & np.uint64(1)
    return Encoded(total, np.packbits(bits.astype(np.uint8)).tobytes())


def fixed(values: np.ndarray | int, width: int) -> Fields:
    """Non-negative integers, ``width`` bits each."""
    values = np.atleast_1d(np.asarray(values)).astype(np.uint64)
    return values, np.full(values.shape, width)


def float_fields(values: np.ndarray | float, float_bits: int) -> Fields:
    """IEEE 754 numbers of 32 or 64 bits; values must be representable in that many (-0.0 keeps its sign)."""
    values = np.atleast_1d(np.asarray(values, dtype=np.float64))
    raw = values.view(np.uint64) if float_bits == 64 else values.astype(np.float32).view(np.uint32).astype(np.uint64)
    return raw, np.full(raw.shape, float_bits)


def count_width(dim: int) -> int:
    """Bits of a count in 0..dim."""
    return int(dim).bit_length()


def bit_length(values: np.ndarray) -> np.ndarray:
    """Binary digits of integers in 1..2^53."""
    return np.frexp(np.asarray(values, dtype=np.float64))[1].astype(np.int64)


# Golomb-Rice: the quotient by 2^b in unary (q ones, a zero), then b bits of remainder.


def rice_parameter(counts: np.ndarray, dim: int) -> np.ndarray:
    """b for the gaps between ``counts`` positions among ``dim``; the decoder knows both, so that b is never sent.

    Gaps of positions that are nonzero with probability p = count/dim are geometric: P(gap >= n) = rho^n, rho = 1 - p. The
    mean length is b + 1/(1 - rho^(2^b)), and b + 1 is better than b iff r = rho^(2^b) has r^2 + r > 1 (Kiely, Selecting the
    Golomb parameter in Rice coding, IPN Progress Report 42-159, 2004; Sattler et al., equation for b*, say the same with
    logarithms). Squaring alone decides it here, so that every machine that rounds as IEEE 754 asks finds the same b.

    counts : integers (...) in 0..dim -> (...) of int64; 0 where nothing is sent.
    """
    counts = np.asarray(counts, dtype=np.int64)
    if counts.size > 1 and (counts == counts.flat[0]).all():
        return np.full(counts.shape, _one_rice_parameter(int(counts.flat[0]), int(dim)))
    power = np.where(counts > 0, 1.0 - counts / dim, 0.0)
    b = np.zeros(counts.shape, dtype=np.int64)
    while (more := power * power + power > 1.0).any():
        b += more
        power = np.where(more, power * power, power)
    return b


@cache
def _one_rice_parameter(count: int, dim: int) -> int:
    return int(rice_parameter(np.array(count), dim))


def rice_length(values: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Bits of non-negative integers under parameters b (broadcast)."""
    return (values >> b) + 1 + b


def rice_fields(values: np.ndarray, b: int) -> Fields:
    """Two fields a value: the ones of the unary part; its zero with the remainder."""
    quotient = values >> b
    fields = np.stack([np.full(values.shape, _ONES), (values - (quotient << b)).astype(np.uint64)], axis=1)
    return fields, np.stack([quotient, np.full(values.shape, b + 1)], axis=1)


# Elias gamma (Elias 1975): as many zeros as the number has digits after the first, then the number.


def gamma_length(values: np.ndarray) -> np.ndarray:
    """Bits of integers in 1..2^53."""
    return 2 * bit_length(values) - 1


def gamma_fields(values: np.ndarray) -> Fields:
    """Two fields a value: the zeros; the number."""
    digits = bit_length(values)
    zeros = np.zeros(values.shape, dtype=np.uint64)
    return np.stack([zeros, values.astype(np.uint64)], axis=1), np.stack([digits - 1, digits], axis=1)


# Elias omega, the recursive code of the QSGD paper: the number, before it the count of its digits less one, before that ...


def omega_length(values: np.ndarray) -> np.ndarray:
    """Bits of integers in 1..2^48."""
    values = np.asarray(values)
    if values.size and 1 <= values.item(values.argmin()) <= values.item(values.argmax()) <= SHORT:
        return _short_lengths()[values - 1]
    return _omega(values)[1]


@cache
def _short_lengths() -> np.ndarray:
    """Bits of the integers in 1..SHORT, to be looked up."""
    return _omega(np.arange(1, SHORT + 1))[1]


def omega_fields(values: np.ndarray) -> Fields:
    """One field a value."""
    return _omega(values)


def _omega(values: np.ndarray) -> Fields:
    rest = np.asarray(values, dtype=np.int64)
    if rest.size and not 1 <= rest.min() <= rest.max() < OMEGA_LIMIT:
        raise InvalidInput(f"Elias omega code of {rest.min()}..{rest.max()}: integers from 1 to 2^48 - 1 only")
    code, length = np.zeros(rest.shape, dtype=np.uint64), np.ones(rest.shape, dtype=np.int64)  # the closing zero
    while (more := rest > 1).any():
        digits = bit_length(rest)
        code = np.where(more, code | (rest.astype(np.uint64) << length.astype(np.uint64)), code)
        length = np.where(more, length + digits, length)
        rest = np.where(more, digits - 1, 1)
    return code, length


class Reader:
    """Reads an `Encoded` front to back.

    Raises
    ------
    DataFileError
        From the constructor, when payload and bit count disagree; from the reads, when the payload ends too soon; from
        `close`, when bits are left over.
    """

    def __init__(self, encoded: Encoded, what: str) -> None:
        self.what, self.total, self.position = what, int(encoded.bits), 0
        size = len(encoded.payload)
        if size != (self.total + 7) // 8:
            raise DataFileError(
                f"{what} message of {size} bytes that should hold {self.total} bits, {(self.total + 7) // 8} bytes: "
                f"it was {'cut off' if size < (self.total + 7) // 8 else 'extended'} on its way; send it again"
            )
        bits = np.unpackbits(np.frombuffer(encoded.payload, dtype=np.uint8))
        if bits[self.total :].any():
            raise DataFileError(f"{what} message: a bit is set in the padding after bit {self.total}; send it again")
        self._bits = bits[: self.total]
        self._text = (self._bits + np.uint8(ord("0"))).tobytes().decode("ascii")

    def _advance(self, width: int, item: str) -> int:
        start = self.position
        if start + width > self.total:
            raise DataFileError(
                f"{self.what} message truncated: {item} needs {width} bits at bit {start}, and only {self.total - start} "
                f"of {self.total} are left; send it again"
            )
        self.position += width
        return start

    def read(self, width: int, item: str) -> int:
        """One integer of ``width`` bits (0 bits: 0)."""
        start = self._advance(width, item)
        return int(self._text[start : start + width] or "0", 2)

    def block(self, count: int, width: int, item: str) -> np.ndarray:
        """(count,) integers of ``width`` <= 64 bits each, as uint64."""
        start = self._advance(count * width, item)
        digits = self._bits[start : start + count * width].reshape(count, width).astype(np.uint64)
        return digits @ (np.uint64(1) << np.arange(width - 1, -1, -1, dtype=np.uint64))

    def floats(self, count: int, float_bits: int, item: str) -> np.ndarray:
        """(count,) IEEE 754 numbers as float64; they must be finite."""
        raw = self.block(count, float_bits, item)
        values = raw.view(np.float64) if float_bits == 64 else raw.astype(np.uint32).view(np.float32)
        if not np.isfinite(values).all():
            first = int(np.flatnonzero(~np.isfinite(values))[0])
            self.corrupt(f"{item} {first} is {values[first]}, expected a finite number")
        return values.astype(np.float64)

    def _run(self, end: str, item: str) -> int:
        stop = self._text.find(end, self.position)
        if stop < 0:  # the run goes on where the message ends: ask for one bit more than there is
            self._advance(self.total - self.position + 1, item)
        length = stop - self.position
        self.position = stop + 1
        return length

    def rice(self, b: int, item: str) -> int:
        quotient = self._run("0", item)
        return (quotient << b) + self.read(b, item)

    def gamma(self, item: str) -> int:
        digits = self._run("1", item)
        if digits > 52:
            self.corrupt(f"{item} has {digits + 1} binary digits, expected at most 53")
        return (1 << digits) + self.read(digits, item)

    def omega(self, item: str) -> int:
        value = 1
        while self.read(1, item) == 1:
            if value > 47:
                self.corrupt(f"{item} is 2^48 or more, expected less")
            value = (1 << value) + self.read(value, item)
        return value

    def corrupt(self, found: str) -> None:
        """Refuses the message for what was found in it."""
        raise DataFileError(f"{self.what} message corrupt before bit {self.position}: {found}; send it again")

    def close(self) -> None:
        """Refuses a message that goes on after its end."""
        if self.position != self.total:
            raise DataFileError(
                f"{self.what} message overlong: it ends at bit {self.position} and {self.total} were sent; send it again"
            )
