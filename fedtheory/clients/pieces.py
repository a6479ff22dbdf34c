"""Work on all messages of a round in NumPy, some of them at a time: what is made of a piece stays in the cache until it is done with.

Every operation on a whole memory (S, P, d) reads and writes it where it lies, in main memory; in pieces the first operation reads it
and the last one writes. Messages are made and compressed one by one anyway, so that the numbers are the same to the last bit.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from fedtheory.arrays import Array, all_finite, is_numpy, memory_of
from fedtheory.compiled import available
from fedtheory.errors import InvalidInput
from fedtheory.messages.base import exact

__all__ = [
    "At", "Moved", "compressed", "large", "loops", "places", "rows_in_order", "sent_by", "wanted_messages", "weighted_sum", "worth",
]  # fmt: skip

IN_CACHE = 2**17  # numbers of a piece, of which several copies are at work
COMPILED = 2**20  # numbers from which compiled loops are worth Numba's import
At = tuple[np.ndarray, np.ndarray]  # scenarios and slots of some messages, (R,) each


def loops() -> Any:
    """`fedtheory.clients.kernels`, which is imported with Numba at its first call."""
    from fedtheory.clients import kernels

    return kernels


def large(values: Array) -> bool:
    """True if an array is of NumPy's floats, and of more than one piece."""
    return is_numpy(values) and values.size > IN_CACHE and not exact(values)


def many(values: Array) -> bool:
    """True if an array is worth compiled loops."""
    return is_numpy(values) and values.dtype == np.float64 and worth(values.size, IN_CACHE)


def worth(numbers: int, least: int) -> bool:
    """True if so many are worth compiled loops, which give the same ones: from `least` on where Numba is there already."""
    return numbers >= (least if "numba" in sys.modules else COMPILED) and available()


class Moved(NamedTuple):
    """factors (y - start), (S, P, d), of which entries are made when they are asked for: large updates are never made as a whole."""

    y: Array
    start: Array
    factors: Array | None = None  # (S, P, 1)

    @property
    def shape(self) -> tuple[int, ...]:
        """(S, P, d)."""
        return tuple(self.y.shape)

    def __getitem__(self, at: Any) -> Array:
        moved = self.y[at] - self.start[at]
        return moved if self.factors is None else moved * self.factors[at]


def wanted_messages(memory: np.ndarray, update: Any, of: Callable[[At], At]) -> Callable[[At], np.ndarray]:
    """make(at): memory + update of some slots, (R, d); memory (S, N, d) has them at of(at)."""

    def make(at: At) -> np.ndarray:
        wanted = memory[of(at)]
        wanted += update[at]
        return wanted

    if type(update) is not Moved or not many(memory):
        return make
    kept, y, start = (memory_of(a) for a in (memory, update.y, update.start))
    if kept is None or y is None or start is None:
        return make

    def compiled(at: At) -> np.ndarray:
        out = np.empty((len(at[0]), memory.shape[2]))
        factors = np.ones(len(out)) if update.factors is None else update.factors[at][:, 0]
        loops().wanted(out, kept.numbers, kept.begin(*of(at)), y.numbers, y.begin(*at), start.numbers, start.begin(*at), factors)
        return out

    return compiled


def places(who: np.ndarray | None, shape: tuple[int, ...]) -> Iterator[At]:
    """Yield, piece by piece, where an array (S, P, d) has the messages whose senders who (S, P)
    names (None: all)."""
    count, slots, dim = shape[0] * shape[1], shape[1], shape[2]
    flat, size = np.arange(count) if who is None else np.flatnonzero(who), max(1, IN_CACHE // max(1, dim))
    for first in range(0, len(flat), size):
        yield np.divmod(flat[first : first + size], slots)


def sent_by(compressor: Any, message: Array, uniforms: Array | None) -> tuple[Array, np.ndarray]:
    """Return what arrives of messages (..., d), and their bits (...)."""
    if hasattr(compressor, "sent"):
        return compressor.sent(message, uniforms)
    if not all_finite(message):  # one of anyone's need not refuse it, nor do both at once
        raise InvalidInput("a message that is not finite cannot be sent")
    arrived = compressor.compress(message, uniforms)
    return arrived, np.asarray(compressor.bits(arrived), dtype=np.int64)


def compressed(
    make: Callable[[At], np.ndarray],
    compressor: Any,
    uniforms: np.ndarray | None,
    who: np.ndarray | None,
    out: np.ndarray,
    refuse: Callable[[np.ndarray, At], None],
    keep: Callable[[At, np.ndarray], None] | None = None,
) -> np.ndarray:
    """Fill out (S, P, d) of zeros with what arrives of the messages make(at), and say their bits (S, P).

    Parameters
    ----------
    make : of messages (R, d); where `keep` is given, in memory that nobody else holds.
    who : (S, P) of bools: who sends; None: everybody.
    refuse : called with messages (R, d) whose sum is not finite, and where they are; raises if they are not.
    keep : called with what the compressor left out of them (R, d).

    Raises
    ------
    InvalidInput
        As the compressor does, with the entry's place in all messages.
    """
    bits, compiled = np.zeros(out.shape[:2], dtype=np.int64), many(out)
    entries = getattr(compressor, "few", lambda rows, compiled: None)  # a compressor of anyone's need not say it
    for at in places(who, out.shape):
        rows, drawn = np.ascontiguousarray(make(at)), None if uniforms is None else uniforms[at]
        if not all_finite(rows):
            refuse(rows, at)
        few = entries(rows, compiled)
        if few is not None:
            row, column = np.divmod(few.where, rows.shape[1])
            out[at[0][row], at[1][row], column], bits[at] = few.values, few.bits
            if keep is not None:
                rows.ravel()[few.where] -= few.values
                keep(at, rows)
            continue
        try:
            sent, count = sent_by(compressor, rows, drawn)
        except InvalidInput:
            whole = np.zeros_like(out)
            whole[at] = rows
            compressor.compress(whole, uniforms)
            raise
        out[at], bits[at] = sent, count
        if keep is not None:
            keep(at, np.subtract(rows, sent, out=rows))
    return bits


def rows_in_order(values: Array) -> bool:
    """True if an array is large, and NumPy's sum over its slots adds one message after another: where entries are neighbours."""
    return large(values) and values.ndim == 3 and values.shape[2] > 1 and values.strides[2] == values.itemsize


def weighted_sum(values: np.ndarray, weights: np.ndarray | None, who: np.ndarray | None) -> np.ndarray:
    """sum_k weights_k values_k over the slots that who (S, P) names, in order: values (S, P, d), weights (S, P, 1) -> (S, d)."""
    scenarios, slots, dim = values.shape
    weights = None if weights is None else np.broadcast_to(weights, (scenarios, slots, 1))
    lie = memory_of(values) if many(values) else None
    if lie is not None:
        out = np.empty((scenarios, dim))
        weights = np.ones((scenarios, slots)) if weights is None else np.ascontiguousarray(weights[:, :, 0], dtype=float)
        loops().add(out, lie.numbers, lie[1:], weights, np.ones((scenarios, slots), dtype=bool) if who is None else who)
        return out
    size, out = max(1, IN_CACHE // (slots * dim)), np.empty((scenarios, dim), dtype=values.dtype)
    for first in range(0, scenarios, size):
        some = slice(first, first + size)
        part = values[some] if weights is None else weights[some] * values[some]
        if who is not None:  # chosen, not multiplied: outside the cohort there may be infinities
            part = np.where(who[some, :, None], part, part.dtype.type(0))
        out[some] = part.sum(axis=1)
    return out
