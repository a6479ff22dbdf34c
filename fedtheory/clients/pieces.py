"""Work on all messages of a round in NumPy, some of them at a time: what is made of a piece stays in the cache until it is done with.

Every operation on a whole memory (S, P, d) reads and writes it where it lies, in main memory; in pieces the first operation reads it and
the last one writes. Messages are made and compressed one by one anyway, so that the numbers are the same to the last bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from fedtheory.arrays import Array, is_numpy
from fedtheory.errors import InvalidInput
from fedtheory.messages.base import exact

__all__ = ["At", "compressed", "large", "places", "weighted_sum"]

IN_CACHE = 2**15  # numbers of a piece, of which several copies are at work
At = tuple[np.ndarray, np.ndarray]  # scenarios and slots of some messages, (R,) each


def large(values: Array) -> bool:
    """Whether an array is of NumPy's floats, and of more than one piece."""
    return is_numpy(values) and values.size > IN_CACHE and not exact(values)


def places(who: np.ndarray | None, shape: tuple[int, ...]) -> Iterator[At]:
    """Where the messages of an array (S, P, d) are whose senders who (S, P) names (None: all), piece by piece."""
    count, slots, dim = shape[0] * shape[1], shape[1], shape[2]
    flat, size = np.arange(count) if who is None else np.flatnonzero(who), max(1, IN_CACHE // max(1, dim))
    for first in range(0, len(flat), size):
        yield np.divmod(flat[first : first + size], slots)


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
    who : (S, P) of bools, or None
        Who sends; None: everybody.
    refuse : called with messages (R, d) whose sum is not finite, and where they are; raises if they are not.
    keep : called with what the compressor left out of them (R, d).

    Raises
    ------
    InvalidInput
        As the compressor does, with the entry's place in all messages.
    """
    bits = np.zeros(out.shape[:2], dtype=np.int64)
    for at in places(who, out.shape):
        rows, drawn = make(at), None if uniforms is None else uniforms[at]
        if not np.isfinite(rows.sum()):
            refuse(rows, at)
        try:
            sent = compressor.compress(rows, drawn)
        except InvalidInput:
            whole = np.zeros_like(out)
            whole[at] = rows
            compressor.compress(whole, uniforms)
            raise
        out[at], bits[at] = sent, compressor.bits(sent)
        if keep is not None:
            keep(at, np.subtract(rows, sent))
    return bits


def weighted_sum(values: np.ndarray, weights: np.ndarray | None, who: np.ndarray | None) -> np.ndarray:
    """sum_k weights_k values_k over the slots that who (S, P) names: values (S, P, d), weights (S, P, 1) -> (S, d), the slots in order."""
    scenarios, slots, dim = values.shape
    columns = max(1, min(dim, IN_CACHE // slots))
    size, out = max(1, IN_CACHE // (slots * columns)), np.empty((scenarios, dim), dtype=values.dtype)
    for first in range(0, scenarios, size):
        some = slice(first, first + size)
        for start in range(0, dim, columns):
            part = values[some, :, start : start + columns]
            part = part if weights is None else weights[some] * part
            if who is not None:  # chosen, not multiplied: outside the cohort there may be infinities
                part = np.where(who[some, :, None], part, part.dtype.type(0))
            out[some, start : start + columns] = part.sum(axis=1)
    return out
