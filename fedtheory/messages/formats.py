"""Layouts of messages on the wire: their lengths for many rows at once, their encoders and decoders.

Every layout describes itself: what a decoder is told beforehand is the compressor (its parameters) and d, nothing of the row.

* sparse:  count (bits of d) | positions, Golomb-Rice gaps | values, one float each
* ternary: count (bits of d) | mu, a float | positions, Golomb-Rice gaps | one sign bit each; only the count when it is 0
* signs:   magnitude, a float | d sign bits
"""

from __future__ import annotations

import numpy as np

from fedtheory.errors import InvalidInput
from fedtheory.messages import encoders as en
from fedtheory.messages.encoders import Encoded, Reader

__all__ = [
    "Support",
    "check_representable",
    "decode_signs",
    "decode_sparse",
    "decode_ternary",
    "encode_signs",
    "encode_sparse",
    "encode_ternary",
    "signs_bits",
    "sparse_bits",
    "ternary_bits",
]


class Support:
    """The places where rows of a message (R, d) are not +0.0, flat and in increasing order.

    Attributes
    ----------
    flat, rows, columns, gaps : (M,) ints
        Every entry sent, row by row, flat in the whole array; the gap is the number of entries skipped since the one before it.
    counts : (R,) ints
    """

    def __init__(self, flat: np.ndarray, shape: tuple[int, ...]) -> None:
        self.flat, self.dim = flat, shape[1]
        self.rows, self.columns = np.divmod(self.flat, self.dim)
        self.counts = np.bincount(self.rows, minlength=shape[0])
        before = np.empty_like(self.columns)
        before[1:] = self.columns[:-1]
        before[(np.cumsum(self.counts) - self.counts)[self.counts > 0]] = -1
        self.gaps = self.columns - before - 1

    @classmethod
    def of(cls, rows: np.ndarray) -> Support:
        """That of float64 rows; -0.0 counts as sent: it must come back bit for bit."""
        return cls(np.flatnonzero(rows.view(np.int64) != 0), rows.shape)  # only +0.0 has no bit set; NumPy finds truth values faster

    def total(self, lengths: np.ndarray) -> np.ndarray:
        """Sums, row by row, of one length for every entry sent: (M,) -> (R,)."""
        ends = np.concatenate([[0], np.cumsum(lengths)])
        stop = np.cumsum(self.counts)
        return ends[stop] - ends[stop - self.counts]

    def position_bits(self) -> np.ndarray:
        """(R,) bits of the count and of the positions."""
        b = en.rice_parameter(self.counts, self.dim)
        return en.count_width(self.dim) + self.total(en.rice_length(self.gaps, b[self.rows]))


def check_representable(rows: np.ndarray, float_bits: int, what: str) -> None:
    """Refuses numbers that are not finite, or not among the floats of that width."""
    if not np.isfinite(rows).all():
        row, column = np.argwhere(~np.isfinite(rows))[0]
        raise InvalidInput(f"entry {column} of message {row} is {rows[row, column]}: {what} sends finite numbers only")
    if float_bits == 32:
        with np.errstate(over="ignore"):
            wrong = np.argwhere(rows.astype(np.float32) != rows)
        if wrong.size:
            row, column = wrong[0]
            raise InvalidInput(
                f"entry {column} of message {row} is {float(rows[row, column])!r}, no 32-bit float: encode what compress() returned"
            )


def _positions(support: Support) -> tuple[en.Fields, en.Fields]:
    count = int(support.counts[0])
    b = int(en.rice_parameter(support.counts, support.dim)[0])
    return en.fixed(count, en.count_width(support.dim)), en.rice_fields(support.gaps, b)


def read_count(reader: Reader, dim: int) -> int:
    count = reader.read(en.count_width(dim), "the count")
    if count > dim:
        reader.corrupt(f"{count} entries announced, expected at most d = {dim}")
    return count


def read_positions(reader: Reader, count: int, dim: int) -> np.ndarray:
    b = int(en.rice_parameter(np.array(count), dim))
    columns, last = np.empty(count, dtype=np.int64), -1
    for i in range(count):
        last += 1 + reader.rice(b, f"position {i}")
        if last >= dim:
            reader.corrupt(f"position {i} is {last}, expected less than d = {dim}")
        columns[i] = last
    return columns


def sparse_bits(rows: np.ndarray, float_bits: int) -> np.ndarray:
    return sparse_length(Support.of(rows), float_bits)


def sparse_length(support: Support, float_bits: int) -> np.ndarray:
    return support.position_bits() + float_bits * support.counts


def encode_sparse(row: np.ndarray, float_bits: int) -> Encoded:
    support = Support.of(row[None])
    count, positions = _positions(support)
    return en.pack(count, positions, en.float_fields(row[support.columns], float_bits))


def decode_sparse(encoded: Encoded, dim: int, float_bits: int, what: str) -> np.ndarray:
    reader = Reader(encoded, what)
    count = read_count(reader, dim)
    columns = read_positions(reader, count, dim)
    out = np.zeros(dim)
    out[columns] = values = reader.floats(count, float_bits, "value")
    if (unsent := np.flatnonzero((values == 0) & ~np.signbit(values))).size:
        reader.corrupt(f"value {unsent[0]} is 0, expected one that is sent")
    reader.close()
    return out


def _magnitude(rows: np.ndarray, support: Support, what: str) -> np.ndarray:
    """(R,) the one magnitude of the nonzero entries of each row."""
    magnitude = np.abs(rows.ravel()[support.flat])
    largest = np.zeros(rows.shape[0])
    np.maximum.at(largest, support.rows, magnitude)
    wrong = np.flatnonzero((magnitude != largest[support.rows]) | (magnitude == 0))
    if wrong.size:
        row, column = support.rows[wrong[0]], support.columns[wrong[0]]
        raise InvalidInput(
            f"entry {column} of message {row} is {float(rows[row, column])!r} where {what} sends 0 or ±{float(largest[row])!r}: "
            "encode what compress() returned"
        )
    return largest


def ternary_bits(rows: np.ndarray, float_bits: int, what: str) -> np.ndarray:
    support = Support.of(rows)
    _magnitude(rows, support, what)
    return ternary_length(support, float_bits)


def ternary_length(support: Support, float_bits: int) -> np.ndarray:
    return support.position_bits() + np.where(support.counts > 0, float_bits, 0) + support.counts


def encode_ternary(row: np.ndarray, float_bits: int, what: str) -> Encoded:
    support = Support.of(row[None])
    mu = _magnitude(row[None], support, what)
    count, positions = _positions(support)
    if support.counts[0] == 0:
        return en.pack(count)
    signs = en.fixed(np.signbit(row[support.columns]), 1)
    return en.pack(count, en.float_fields(mu, float_bits), positions, signs)


def decode_ternary(encoded: Encoded, dim: int, float_bits: int, what: str) -> np.ndarray:
    reader = Reader(encoded, what)
    count = read_count(reader, dim)
    out = np.zeros(dim)
    if count:
        (mu,) = reader.floats(1, float_bits, "the magnitude")
        if not mu > 0:
            reader.corrupt(f"the magnitude is {mu}, expected a positive number")
        columns = read_positions(reader, count, dim)
        out[columns] = np.where(reader.block(count, 1, "the signs") == 1, -mu, mu)
    reader.close()
    return out


def signs_bits(rows: np.ndarray, float_bits: int, what: str) -> np.ndarray:
    _one_magnitude(rows, what)
    return np.full(rows.shape[0], rows.shape[1] + float_bits, dtype=np.int64)


def _one_magnitude(rows: np.ndarray, what: str) -> None:
    wrong = np.argwhere(np.abs(rows) != np.abs(rows[:, :1]))
    if wrong.size:
        row, column = wrong[0]
        raise InvalidInput(
            f"entry {column} of message {row} is {float(rows[row, column])!r} where {what} sends ±{float(abs(rows[row, 0]))!r}: "
            "encode what compress() returned"
        )


def encode_signs(row: np.ndarray, float_bits: int, what: str) -> Encoded:
    _one_magnitude(row[None], what)
    return en.pack(en.float_fields(abs(row[0]), float_bits), en.fixed(np.signbit(row), 1))


def decode_signs(encoded: Encoded, dim: int, float_bits: int, what: str) -> np.ndarray:
    reader = Reader(encoded, what)
    (magnitude,) = reader.floats(1, float_bits, "the magnitude")
    if np.signbit(magnitude):
        reader.corrupt(f"the magnitude is {magnitude}, expected a number >= 0")
    out = np.where(reader.block(dim, 1, "the signs") == 1, -magnitude, magnitude)
    reader.close()
    return out
