"""The steps of `affine_proximal_gradient` on one tile, compiled: what is added and cut off comes with the product, in the cache.

The products are those that NumPy would make, of the same rows, by SciPy's BLAS.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

__all__ = ["compiled_steps"]


@cache
def compiled_steps() -> Any:
    """steps(z, v, b, m, low, high, count) -> None, all of a tile.

    Of every client k, ``count`` times: z[k] = v[k] - clip(v[k], low[k], high[k]), then v[k] = z[k] m[k] + b[k]. z, v and b are
    (n, B, d), m (n, d, d), low and high (n,), of float64, each contiguous.
    """
    from fedtheory.compiled import njit

    @njit(cache=True, nogil=True)
    def steps(z: Any, v: Any, b: Any, m: Any, low: Any, high: Any, count: int) -> None:
        size = z.shape[1] * z.shape[2]
        for k in range(z.shape[0]):
            at, to, more = z[k].reshape(size), v[k].reshape(size), b[k].reshape(size)
            for i in range(size):
                at[i] = to[i] - min(max(to[i], low[k]), high[k])
            np.dot(z[k], m[k], v[k])
            for _ in range(count - 1):
                for i in range(size):
                    moved = to[i] + more[i]
                    at[i] = moved - min(max(moved, low[k]), high[k])
                np.dot(z[k], m[k], v[k])
            for i in range(size):
                to[i] += more[i]

    return steps
