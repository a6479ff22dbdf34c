"""The whole of `affine_proximal_gradient` compiled: four rows at a time make all their steps before the next four are looked at."""

from __future__ import annotations

from functools import cache
from itertools import accumulate
from typing import Any

import numpy as np

__all__ = ["compiled_solve"]


@cache
def compiled_solve() -> Any:
    """solve(y, residual, rows, given, models, scalars, counts, count, curvature, l1) -> None, compiled at its first call.

    It fills y (N, B, d) and residual (N, B), of which client k has the first counts[k] rows, by ``count`` steps. rows are (anchor,
    start, linear, center), each (N, B, d); ``given`` says of the last three whether they are there: where there is no start it is the
    anchor. models are (Hessians (N, d, d), gradients at 0 (N, d)), scalars (step, shrink, coarse), each (N,). All are of float64 and
    contiguous. A row's numbers do not depend on the rows beside it, to the last bit.
    """
    from fedtheory.compiled import njit
    from fedtheory.local.lanes import LANES, entries, fused, load, load_one, splat, store, store_one, total, zeros
    from fedtheory.local.panels import HEIGHT, affine_soft

    @njit(cache=True, nogil=True)
    def scaled(hessian: Any, slope: Any, pull: Any, m: Any, base: Any, step: float, bend: float) -> None:
        for i in range(hessian.shape[0]):
            for j in range(hessian.shape[0]):
                pull[i, j] = m[i, j] = -step * hessian[i, j]
            m[i, i] += 1.0 - step * bend
            base[0, i] = -step * slope[i]

    @njit(cache=True, nogil=True)
    def copied(to: Any, at: int, of: Any, first: int, count: int) -> None:
        whole = count - count % LANES
        for i in range(0, whole, LANES):
            store(to, at + i, load(of, first + i))
        for i in range(whole, count):
            store_one(to, at + i, load_one(of, first + i))

    @njit(cache=True, nogil=True)
    def plus(b: Any, at: int, wide: int, factor: float, one: Any, less: Any, from_less: int) -> None:
        """b += factor (one - less)."""
        by = splat(factor)
        for i in range(0, wide, LANES):
            store(b, at + i, fused(by, load(one, i) - load(less, from_less + i), load(b, at + i)))

    @njit(cache=True, nogil=True)
    def begun(work: Any, at: int, row: int, rows: Any, given: Any, step: float, bend: float, dim: int, wide: int) -> None:
        """A row's anchor a, its start from there z, and of b what does not ask for the Hessian."""
        _, _, base, t, nothing, a, b, z, _ = work
        anchor, start, linear, center = rows
        copied(a, at, anchor, row, dim)
        copied(b, at, base, 0, wide)
        copied(z, at, nothing, 0, wide)
        if given[0]:
            copied(t, 0, start, row, dim)
            plus(z, at, wide, 1.0, t, a, at)
        if given[1]:
            copied(t, 0, linear, row, dim)
            plus(b, at, wide, step, t, nothing, 0)
        if given[2]:
            copied(t, 0, center, row, dim)
            plus(b, at, wide, step * bend, t, a, at)

    @njit(cache=True, nogil=True)
    def ended(y: Any, row: int, a: Any, v: Any, z: Any, at: int, dim: int, wide: int) -> Any:
        """y = a + z, which overwrites v; how long the last step v -> z and y are."""
        moved, length = splat(0.0), splat(0.0)
        for i in range(0, wide, LANES):
            step, end = load(z, at + i) - load(v, at + i), load(a, at + i) + load(z, at + i)
            store(v, at + i, end)
            moved, length = fused(step, step, moved), fused(end, end, length)
        copied(y, row, v, at, dim)
        return np.sqrt(total(moved)), np.sqrt(total(length))

    @njit(cache=True, nogil=True)
    def loops(
        work: Any,
        y: Any,
        residual: Any,
        rows: Any,
        given: Any,
        models: Any,
        scalars: Any,
        counts: Any,
        count: int,
        bend: float,
        l1: float,
    ) -> None:
        (hessian, slope), (steps, shrink, coarse), (most, dim) = models, scalars, y.shape[1:]
        wide = work[0].shape[1]
        anchor, start, linear, center = rows
        (pull, m, base, t, nothing, a, b, z, v), ends = work, entries(y)
        of = entries(anchor), entries(start), entries(linear), entries(center)
        places = entries(pull), entries(m), entries(base), entries(t), entries(nothing), entries(a), entries(b), entries(z), entries(v)
        matrix, times, _, _, _, a_, b_, z_, v_ = places
        for k in range(y.shape[0]):
            scaled(hessian[k], slope[k], pull, m, base, steps[k], bend)
            for first in range(0, counts[k], HEIGHT):
                height = min(HEIGHT, counts[k] - first)
                for r in range(height):
                    begun(places, r * wide, (k * most + first + r) * dim, of, given, steps[k], bend, dim, wide)
                affine_soft(b_, a_, matrix, b_, dim, wide, 0.0)
                before, after = v_, z_
                for i in range(count):
                    before, after = after, before
                    depth = dim if i or given[0] else 0  # what begins at the anchor has z = 0
                    affine_soft(after, before, times, b_, depth, wide, steps[k] * l1)
                for r in range(height):
                    moved, length = ended(ends, (k * most + first + r) * dim, a_, before, after, r * wide, dim, wide)
                    residual[k, first + r] = moved * shrink[k] + length * coarse[k]
            y[k, counts[k] :] = 0.0
            residual[k, counts[k] :] = 0.0

    def solve(y: Any, *rest: Any) -> None:
        dim = y.shape[2]
        wide = -(-dim // LANES) * LANES
        heights = (dim, dim, 1, 1, 1, HEIGHT, HEIGHT, HEIGHT, HEIGHT)
        room, ends = zeros(sum(heights), wide), accumulate(heights)  # each begins where a line of the cache does
        loops(tuple(room[end - height : end] for height, end in zip(heights, ends, strict=True)), y, *rest)

    return solve
