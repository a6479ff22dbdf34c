"""The largest entries of many messages, by partial selection."""

from __future__ import annotations

import numpy as np

from fedtheory.arrays import top_k_mask
from fedtheory.compiled import available

__all__ = ["top_k_places"]

IN_CACHE = 2**16  # numbers that are looked at at a time
MOST, SHARE = 64, 8  # entries up to which, and of at least how many times as many, a compiled heap is faster


def top_k_places(x: np.ndarray, k: int, compiled: bool = False) -> np.ndarray:
    """Return where the k largest magnitudes along the last axis are: (..., d) -> (..., k).

    Places are flat in all of x and in increasing order.

    Of equal ones those of lower index. A NaN must have been refused before.

    compiled : these are some of so many that Numba is worth its import.
    """
    rows = x.reshape(-1, x.shape[-1])
    out, dim = np.empty((len(rows), k), dtype=np.int64), rows.shape[1]
    if compiled and k <= min(MOST, dim // SHARE) and rows.dtype == np.float64 and available():
        from fedtheory.messages.selection_kernels import select

        select(np.ascontiguousarray(rows), out)
        return out.reshape(*x.shape[:-1], k)
    size = max(1, IN_CACHE // dim)
    for first in range(0, len(rows), size):
        mask = top_k_mask(np.abs(rows[first : first + size]), k)
        out[first : first + size] = np.flatnonzero(mask).reshape(-1, k) + first * dim
    return out.reshape(*x.shape[:-1], k)
