"""Proximal gradient for quadratic clients under NumPy: one affine map and one soft threshold a step, in cache-sized tiles.

With z = y - anchor the smooth gradient is H z + c, H = H_k + curvature, so that a step is z <- soft(z M + b, t) with
M = I - step H, b = -step c, t = step l1: a matrix product and three elementwise passes over buffers that stay in the cache, or, where
Numba is and a solve is large, compiled whole. Its results agree with the generic path to rounding.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from fedtheory.arrays import Memory, broadcast_to, memory_of
from fedtheory.compiled import available
from fedtheory.local.objective import LocalObjective, LocalResult, Rows
from fedtheory.problems.base import Problem

__all__ = ["affine_in_slots", "affine_proximal_gradient", "tiles"]

COMPILED = 1e8  # multiplications and additions of one solve, of which a run has many: loading Numba costs as much as a few hundred
TILE = 16384  # numbers in one buffer: four buffers fit a 1 MB second-level cache


def tiles(counts: np.ndarray, dim: int) -> Iterator[tuple[slice, slice]]:
    """Cut rows (N, max(counts)), of which row k holds counts[k], into (clients, points) of about `TILE` numbers."""
    most = max(1, TILE // dim)
    first = 0
    while first < len(counts):
        last, width = first + 1, int(counts[first])
        while last < len(counts) and (last + 1 - first) * max(width, int(counts[last])) <= most:
            width = max(width, int(counts[last]))
            last += 1
        pieces = max(1, -(-width // most))
        size = -(-width // pieces)
        for begin in range(0, width, size):
            yield slice(first, last), slice(begin, min(begin + size, width))
        first = last


def affine_proximal_gradient(
    problem: Problem,
    objective: LocalObjective,
    start: np.ndarray,
    rows: Rows,
    lower: np.ndarray,
    upper: np.ndarray,
    count: int,
) -> LocalResult:
    """Run `count` steps of size 2/(lower + upper) on every valid row; (N, B, d) in, (N, B, d) and (N, B) out.

    Needs ``problem.constant_hessian`` and one curvature. The residual is an upper bound of the KKT residual, from the last step
    z -> p: (z - p)(I - step H)/step is minus a subgradient at p, so that it is at most ||z - p||/step times the contraction; what
    rounding y = anchor + p can add is added. Padding rows come back as 0 with residual 0.
    """
    counts, shape = _prefix_counts(rows.valid), start.shape
    models, scalars, arrays = _parts(problem, objective, start, lower, upper)
    numbers = float(objective.curvature), float(objective.l1)
    if _is_worth(counts, count, shape[2]):
        views = _views(arrays, shape)
        if views is None:
            views = _views([None if a is None else np.array(broadcast_to(a, shape), order="C") for a in arrays], shape)
        y, residual = np.zeros(shape), np.zeros(shape[:2])
        _solve(y, residual, None, views, models, scalars, counts, count, *numbers)
        return LocalResult(y, residual)
    y, residual = np.empty(shape), np.zeros(shape[:2])
    whole = [None if a is None else broadcast_to(a, shape) for a in arrays]
    _in_tiles(y, residual, whole, models, scalars, counts, count, *numbers)
    return LocalResult(y, residual)


def affine_in_slots(
    problem: Problem,
    objective: LocalObjective,
    start: np.ndarray,
    rows: Rows,
    slots: np.ndarray,
    lower: np.ndarray,
    upper: np.ndarray,
    count: int,
) -> LocalResult | None:
    """The same on arrays (S, P, d), where row (n, b) is the flat slot slots[n, b]; None where it is not compiled."""
    counts = _prefix_counts(rows.valid)
    if not _is_worth(counts, count, start.shape[2]):
        return None
    models, scalars, arrays = _parts(problem, objective, start, lower, upper)
    views = _views(arrays, start.shape)
    if views is None:
        return None
    y, residual = np.empty(start.shape), np.empty(start.shape[:2])
    _solve(y, residual, slots, views, models, scalars, counts, count, float(objective.curvature), float(objective.l1))
    return LocalResult(y, residual)


def _solve(*given: Any) -> None:
    """The compiled solve, which is imported with Numba at its first call."""
    from fedtheory.local.quadratic_kernels import solve

    solve(*given)


def _is_worth(counts: np.ndarray, count: int, dim: int) -> bool:
    return bool(2.0 * counts.sum() * count * dim**2 >= COMPILED and available())


def _parts(
    problem: Problem, objective: LocalObjective, start: np.ndarray, lower: np.ndarray, upper: np.ndarray
) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, ...], tuple[np.ndarray | None, ...]]:
    """(Hessians (N, d, d), gradients at 0 (N, 1, d)), three numbers of each client, and (anchor, start, linear, center).

    Of the last three None stands for what is not there: without a start it is the anchor.
    """
    origin = np.zeros((len(lower), 1, start.shape[2]))
    if "_slope" not in problem.__dict__:  # of a problem that lives for many rounds: it asks for all data
        problem.__dict__["_slope"] = _plain(problem.client_gradient(origin))
    models = _plain(problem.client_hessian(origin)[:, 0, :, :]), problem.__dict__["_slope"]
    scalars = 2.0 / (lower + upper), (upper - lower) / 2, np.finfo(float).eps / 2 * upper  # contraction/step; unit rounding of H y
    anchor = objective.l1_center
    center = None if objective.anchor is None else objective.center
    return models, scalars, (anchor, None if start is anchor else start, objective.linear, center)


def _views(arrays: Sequence[np.ndarray | None], shape: tuple[int, ...]) -> tuple[Memory | None, ...] | None:
    """The arrays as they lie, broadcast to the shape; None where one does not lie in rows."""
    views = [None if a is None else memory_of(broadcast_to(a, shape)) for a in arrays]
    return None if any(v is None and a is not None for v, a in zip(views, arrays, strict=True)) else tuple(views)


def _plain(values: np.ndarray) -> np.ndarray:
    """The numbers as an array of one kind, for which the compiled solve exists: contiguous and writable."""
    return values if values.flags.carray and values.dtype == float else np.require(values, float, ["C", "W"])


def _in_tiles(y, residual, rows, models, scalars, counts, count, curvature, l1) -> None:
    """All rows by NumPy, tile by tile."""
    (anchor, start, linear, center), (hessian, slope), (step, shrink, coarse) = rows, models, scalars
    matrix, base = hessian * -step[:, None, None], slope * -step[:, None, None]
    pull = matrix.copy()  # anchor @ pull + base + step * linear = -step * (smooth gradient at the anchor)
    diagonal = np.einsum("nii->ni", matrix)
    diagonal += (1.0 - step * curvature)[:, None]
    cuts = list(tiles(counts, y.shape[2]))
    pool = np.empty((4, max((c.stop - c.start) * (p.stop - p.start) for c, p in cuts) * y.shape[2]))
    for part in cuts:
        clients, points = part
        cells = (clients.stop - clients.start, points.stop - points.start, y.shape[2])
        b, z, v, w = (buffer[: cells[0] * cells[1] * cells[2]].reshape(cells) for buffer in pool)
        m, s, a = matrix[clients], step[clients, None, None], anchor[part]
        np.matmul(a, pull[clients], out=b)
        b += base[clients]
        if linear is not None:
            np.multiply(linear[part], s, out=w)
            b += w
        if center is not None:
            np.subtract(center[part], a, out=w)
            w *= s * curvature
            b += w
        if start is None:
            z.fill(0.0)
            v[...] = b
        else:
            np.subtract(start[part], a, out=z)
            np.matmul(z, m, out=v)
            v += b
        low, high = -s * l1, s * l1
        if cells[0] == 1:  # numbers make the clip faster than arrays
            low, high = float(low[0, 0, 0]), float(high[0, 0, 0])
        for _ in range(count - 1):
            if l1:
                v.clip(low, high, out=w)
                np.subtract(v, w, out=z)
            else:
                z, v = v, z
            np.matmul(z, m, out=v)
            v += b
        if l1:
            v.clip(low, high, out=w)
            v -= w
        z -= v
        np.add(a, v, out=y[part])
        bound = np.sqrt(np.vecdot(z, z)) * shrink[clients, None]
        residual[part] = bound + np.sqrt(np.vecdot(y[part], y[part])) * coarse[clients, None]
    for n in np.nonzero(counts < y.shape[1])[0]:
        y[n, counts[n] :] = 0.0


def _prefix_counts(valid: np.ndarray) -> np.ndarray:
    """Rows of each client up to its last valid one, at least 1."""
    if valid.all():
        return np.full(valid.shape[0], valid.shape[1])
    last = valid.shape[1] - np.argmax(valid[:, ::-1], axis=1)
    return np.where(valid.any(axis=1), last, 1)
