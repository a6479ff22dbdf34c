"""Compiled counting of bins: one pass over a message, a block of which stays in the cache between rounding and counting."""

from __future__ import annotations

import numba
import numpy as np

__all__ = ["count_bins"]

BLOCK = 4096


@numba.njit(cache=True, nogil=True)
def count_bins(message: np.ndarray, bin_width: float, low: float, counts: np.ndarray) -> None:
    """Add to counts (4, bins) how many entries of the message (n,) round to low + i bins, whichever row: add them up.

    Entries are finite and none is outside. Neighbours count in rows of their own, for most of a model falls into few bins, and adding
    one to what was just stored waits for the store. Rounded and divided as NumPy does: no fast mathematics.
    """
    first, second, third, fourth = counts[0], counts[1], counts[2], counts[3]
    place = np.empty(BLOCK, np.uint32)
    for start in range(0, len(message), BLOCK):
        block = message[start : start + BLOCK]
        for i in range(len(block)):
            place[i] = np.uint32(np.int32(np.rint(np.float64(block[i]) / bin_width) - low))
        quarters = len(block) // 4
        for i in range(quarters):
            first[place[4 * i]] += 1
            second[place[4 * i + 1]] += 1
            third[place[4 * i + 2]] += 1
            fourth[place[4 * i + 3]] += 1
        for i in range(4 * quarters, len(block)):
            first[place[i]] += 1
