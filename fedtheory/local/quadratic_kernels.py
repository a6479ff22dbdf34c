"""The whole of `affine_proximal_gradient` compiled: what is added and cut off comes with the product, in the cache.

The products are those of SciPy's BLAS, on the rows of one client at a time.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

__all__ = ["compiled_solve"]


@cache
def compiled_solve() -> Any:
    """solve(y, residual, rows, given, models, scalars, counts, count, most, curvature, l1) -> None, compiled at its first call.

    It fills y (N, B, d) and residual (N, B), of which client k has the first counts[k] rows, by ``count`` steps on ``most`` rows at a
    time. rows are (anchor, start, linear, center), each (N, B, d); ``given`` says of the last three whether they are there: where
    there is no start it is the anchor. models are (Hessians (N, d, d), gradients at 0 (N, d)), scalars (step, shrink, coarse), each
    (N,). All are of float64 and contiguous.
    """
    from fedtheory.compiled import njit

    @njit(cache=True, nogil=True)
    def scaled(hessian: Any, pull: Any, m: Any, step: float, bend: float) -> None:
        for i in range(m.shape[0]):
            for j in range(m.shape[0]):
                pull[i, j] = m[i, j] = -step * hessian[i, j]
            m[i, i] += 1.0 - step * bend

    @njit(cache=True, nogil=True)
    def plus(b: Any, factor: float, other: Any, less: Any) -> None:
        for i in range(b.size):
            b[i] += factor * (other[i] - less[i])

    @njit(cache=True, nogil=True)
    def soft(v: Any, b: Any, z: Any, cut: float) -> None:
        for i in range(v.size):
            moved = v[i] + b[i]
            z[i] = moved - min(max(moved, -cut), cut)

    @njit(cache=True, nogil=True, fastmath={"reassoc"})
    def length(v: Any) -> float:
        total = 0.0
        for i in range(v.size):
            total += v[i] * v[i]
        return np.sqrt(total)

    @njit(cache=True, nogil=True)
    def solve(
        y: Any,
        residual: Any,
        rows: Any,
        given: Any,
        models: Any,
        scalars: Any,
        counts: Any,
        count: int,
        most: int,
        bend: float,
        l1: float,
    ) -> None:
        (anchor, start, linear, center), (hessian, slope), (steps, shrink, coarse) = rows, models, scalars
        dim = y.shape[2]
        pool, nothing, pull, m = np.empty((3, most * dim)), np.zeros(most * dim), np.empty((dim, dim)), np.empty((dim, dim))
        for k in range(y.shape[0]):
            step = steps[k]
            scaled(hessian[k], pull, m, step, bend)
            for first in range(0, counts[k], most):
                points = min(most, counts[k] - first)
                part, size, shape = slice(first, first + points), points * dim, (points, dim)
                b, z, v = pool[0, :size], pool[1, :size], pool[2, :size]
                a, at, to = anchor[k, part].reshape(size), z.reshape(shape), v.reshape(shape)
                np.dot(anchor[k, part], pull, b.reshape(shape))
                for r in range(points):
                    for i in range(dim):
                        b[r * dim + i] -= step * slope[k, i]
                if given[1]:
                    plus(b, step, linear[k, part].reshape(size), nothing)
                if given[2]:
                    plus(b, step * bend, center[k, part].reshape(size), a)
                z[:] = v[:] = 0.0
                if given[0]:
                    plus(z, 1.0, start[k, part].reshape(size), a)
                    np.dot(at, m, to)
                for _ in range(count - 1):
                    soft(v, b, z, step * l1)
                    np.dot(at, m, to)
                soft(v, b, v, step * l1)  # v is the end, y less the anchor, and z what was before
                for r in range(points):
                    row, found = slice(r * dim, (r + 1) * dim), y[k, first + r]
                    for i in range(dim):
                        found[i] = a[r * dim + i] + v[r * dim + i]
                        z[r * dim + i] -= v[r * dim + i]
                    residual[k, first + r] = length(z[row]) * shrink[k] + length(found) * coarse[k]
            y[k, counts[k] :] = 0.0
            residual[k, counts[k] :] = 0.0

    return solve
