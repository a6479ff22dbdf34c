"""The whole of `affine_proximal_gradient` compiled: four rows at a time make all their steps before the next four are looked at.

Imported where a compiled solve is asked for, and with Numba alone. Functions within a function would be compiled by every process anew.
"""

from __future__ import annotations

from itertools import accumulate
from typing import Any

import numpy as np

from fedtheory.compiled import njit
from fedtheory.local.lanes import LANES, copied, entries, fetch_row, fused, load, splat, store, total, zeros
from fedtheory.local.panels import HEIGHT, affine_soft

__all__ = ["solve"]


@njit(cache=True, nogil=True)
def scaled(hessian: Any, slope: Any, pull: Any, m: Any, base: Any, step: float, bend: float) -> None:
    """pull = -step H, m = I - step (H + bend I), base = -step slope."""
    for i in range(hessian.shape[0]):
        for j in range(hessian.shape[0]):
            pull[i, j] = m[i, j] = -step * hessian[i, j]
        m[i, i] += 1.0 - step * bend
        base[0, i] = -step * slope[i]


@njit(cache=True, nogil=True)
def plus(b: Any, at: int, wide: int, factor: float, one: Any, less: Any, from_less: int) -> None:
    """b += factor (one - less)."""
    by = splat(factor)
    for i in range(0, wide, LANES):
        store(b, at + i, fused(by, load(one, i) - load(less, from_less + i), load(b, at + i)))


@njit(cache=True, nogil=True)
def begun(
    work: Any, at: int, i: int, j: int, rows: Any, steps: Any, given: Any, step: float, bend: float, dim: int, wide: int
) -> None:
    """The anchor a of entry (i, j), its start from there z, and of b what does not ask for the Hessian."""
    _, _, base, t, nothing, a, b, z, _ = work
    anchor, start, linear, center = rows
    copied(a, at, anchor, i * steps[0, 0] + j * steps[0, 1], dim)
    copied(b, at, base, 0, wide)
    copied(z, at, nothing, 0, wide)
    if given[0]:
        copied(t, 0, start, i * steps[1, 0] + j * steps[1, 1], dim)
        plus(z, at, wide, 1.0, t, a, at)
    if given[1]:
        copied(t, 0, linear, i * steps[2, 0] + j * steps[2, 1], dim)
        plus(b, at, wide, step, t, nothing, 0)
    if given[2]:
        copied(t, 0, center, i * steps[3, 0] + j * steps[3, 1], dim)
        plus(b, at, wide, step * bend, t, a, at)


@njit(cache=True, nogil=True)
def asked(y: Any, to: int, i: int, j: int, rows: Any, steps: Any, given: Any, dim: int) -> None:
    """Ask for what `begun` and `ended` will read and write of entry (i, j): no processor could guess their order."""
    anchor, start, linear, center = rows
    fetch_row(y, to, dim)
    fetch_row(anchor, i * steps[0, 0] + j * steps[0, 1], dim)
    if given[0]:
        fetch_row(start, i * steps[1, 0] + j * steps[1, 1], dim)
    if given[1]:
        fetch_row(linear, i * steps[2, 0] + j * steps[2, 1], dim)
    if given[2]:
        fetch_row(center, i * steps[3, 0] + j * steps[3, 1], dim)


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
def place(slots: Any, many: int, k: int, r: int) -> Any:
    if many == 0:
        return k, r
    return slots[k, r] // many, slots[k, r] % many


@njit(cache=True, nogil=True)
def four_begun(
    places: Any, ends: Any, slots: Any, many: int, which: Any, of_rows: Any, step: float,
    bend: float, sizes: Any,
) -> int:
    """Begin four rows of a client, or what is left of them, and ask for those after.

    which: the client, its first of these rows, and how many it has. sizes: P, d, and d padded.
    """
    (k, first, count), (rows, steps, given), (across, dim, wide) = which, of_rows, sizes
    height = min(HEIGHT, count - first)
    for r in range(height):
        i, j = place(slots, many, k, first + r)
        begun(places, r * wide, i, j, rows, steps, given, step, bend, dim, wide)
    if many:
        for r in range(min(HEIGHT, count - first - HEIGHT)):
            i, j = place(slots, many, k, first + HEIGHT + r)
            asked(ends, (i * across + j) * dim, i, j, rows, steps, given, dim)
    affine_soft(places[6], places[5], places[0], places[6], dim, dim, wide, 0.0)  # b += a pull
    return height


@njit(cache=True, nogil=True)
def loops(
    work: Any, y: Any, residual: Any, slots: Any, many: int, rows: Any, strides: Any, given: Any,
    models: Any, scalars: Any, counts: Any, numbers: Any,
) -> None:
    (hessian, slope), (steps, shrink, coarse), (count, bend, l1), (across, dim) = models, scalars, numbers, y.shape[1:]
    wide = work[0].shape[1]
    anchor, start, linear, center = rows
    (pull, m, base, t, nothing, a, b, z, v), ends = work, entries(y)
    of_rows = (entries(anchor), entries(start), entries(linear), entries(center)), strides, given
    places = entries(pull), entries(m), entries(base), entries(t), entries(nothing), entries(a), entries(b), entries(z), entries(v)
    _, times, _, _, _, a_, b_, z_, v_ = places
    for k in range(len(counts)):
        scaled(hessian[k], slope[k, 0], pull, m, base, steps[k], bend)
        for first in range(0, counts[k], HEIGHT):
            which = k, first, counts[k]
            height = four_begun(places, ends, slots, many, which, of_rows, steps[k], bend, (across, dim, wide))
            before, after = v_, z_
            for step in range(count):
                before, after = after, before
                depth = dim if step or given[0] else 0  # what begins at the anchor has z = 0
                affine_soft(after, before, times, b_, depth, dim, wide, steps[k] * l1)
            for r in range(height):
                i, j = place(slots, many, k, first + r)
                moved, length = ended(ends, (i * across + j) * dim, a_, before, after, r * wide, dim, wide)
                residual[i, j] = moved * shrink[k] + length * coarse[k]


@njit(cache=True, nogil=True)
def length(v: Any, at: int, wide: int) -> float:
    """The Euclidean norm of a row."""
    squares = splat(0.0)
    for i in range(0, wide, LANES):
        squares = fused(load(v, at + i), load(v, at + i), squares)
    return np.sqrt(total(squares))


@njit(cache=True, nogil=True)
def left_over(v: Any, b: Any, z: Any, matrix: Any, bend: float, dim: int, wide: int) -> None:
    """v = b - z (H + bend I) in four rows, of the matrix -H."""
    less = splat(-bend)
    for i in range(0, HEIGHT * wide, LANES):
        store(v, i, fused(less, load(z, i), load(b, i)))
    affine_soft(v, z, matrix, v, dim, dim, wide, 0.0)


@njit(cache=True, nogil=True)
def refined(
    v: Any, b: Any, z: Any, at: int, wide: int, reach: float, tolerance: float, fine: float
) -> bool:
    """True of a row that is to be refined."""
    if reach * length(b, at, wide) <= tolerance:
        return False
    return not length(v, at, wide) <= fine * length(z, at, wide)


@njit(cache=True, nogil=True)
def directly(
    work: Any, y: Any, residual: Any, slots: Any, many: int, rows: Any, strides: Any, given: Any,
    models: Any, scalars: Any, counts: Any, numbers: Any,
) -> None:
    """Solve z = b H^-1, refined by z += (b - z H) H^-1 at most twice.

    A row is refined while b - z H is longer than the second scalar times z. It is left as it is where
    the first scalar times the length of b, which bounds that of b - z H, is within the tolerance, the
    third number.
    """
    (hessian, slope, inverses), (reach, fine, coarse) = models, scalars
    (_, bend, tolerance), (across, dim) = numbers, y.shape[1:]
    wide = work[0].shape[1]
    anchor, start, linear, center = rows
    (pull, own, base, t, nothing, a, b, z, v), ends = work, entries(y)
    of_rows = (entries(anchor), entries(start), entries(linear), entries(center)), strides, given
    places = entries(pull), entries(own), entries(base), entries(t), entries(nothing), entries(a), entries(b), entries(z), entries(v)
    matrix, inverse, _, there, _, a_, b_, z_, v_ = places
    for k in range(len(counts)):
        for i in range(dim):
            own[i, :dim] = inverses[k, i]
            for j in range(dim):
                pull[i, j] = -hessian[k, i, j]
            base[0, i] = -slope[k, 0, i]
        for first in range(0, counts[k], HEIGHT):
            which = k, first, counts[k]
            height = four_begun(places, ends, slots, many, which, of_rows, 1.0, bend, (across, dim, wide))
            affine_soft(z_, b_, inverse, z_, dim, dim, wide, 0.0)  # z is 0 so far
            known = 0  # rows whose residual is small enough by what is known of the inverse
            for r in range(height):
                known += reach[k] * length(b_, r * wide, wide) <= tolerance
            if known < height:
                left_over(v_, b_, z_, matrix, bend, dim, wide)
            for _ in range(2):
                more = 0
                for r in range(height if known < height else 0):
                    more += refined(v_, b_, z_, r * wide, wide, reach[k], tolerance, fine[k])
                if more == 0:
                    break
                affine_soft(there, v_, inverse, z_, dim, dim, wide, 0.0)
                for r in range(height):
                    if refined(v_, b_, z_, r * wide, wide, reach[k], tolerance, fine[k]):
                        copied(z_, r * wide, there, r * wide, wide)
                left_over(v_, b_, z_, matrix, bend, dim, wide)
            for r in range(height):
                i, j = place(slots, many, k, first + r)
                left = reach[k] * length(b_, r * wide, wide)
                if not left <= tolerance:
                    left = length(v_, r * wide, wide)
                _, size = ended(ends, (i * across + j) * dim, a_, v_, z_, r * wide, dim, wide)
                residual[i, j] = left + size * coarse[k]


def solve(
    y: Any, residual: Any, slots: Any, views: Any, models: Any, scalars: Any, counts: Any, count: int, curvature: float, l1: float
) -> None:
    """Compiled at its first call.

    Of client k it solves the first counts[k] rows, by ``count`` steps, or directly where the models
    have inverses (N, d, d) of H + curvature. Row (k, r) is entry (k, r) of y (N, B, d), residual
    (N, B) and the views, or, where slots (N, B) is given, entry divmod(slots[k, r], P) of y (S, P, d)
    and so on. views are (anchor, start, linear, center), of the last three None where they are not
    there: without a start it is the anchor. models are (Hessians (N, d, d), gradients at 0 (N, 1, d)),
    scalars (step, shrink, coarse), or of a direct solve those of `directly`, each (N,). All are of
    float64, y, residual and models contiguous. A row's numbers do not depend on
    the rows beside it, to the last bit.
    """
    dim = y.shape[2]
    wide = -(-dim // LANES) * LANES
    heights = (dim, dim, 1, HEIGHT, 1, HEIGHT, HEIGHT, HEIGHT, HEIGHT)
    room, ends = zeros(sum(heights), wide), accumulate(heights)  # each begins where a line of the cache does
    work = tuple(room[end - height : end] for height, end in zip(heights, ends, strict=True))
    there = [views[0] if view is None else view for view in views]
    strides, given = np.array([view[1:] for view in there]), tuple(view is not None for view in views[1:])
    index, many = (np.zeros((1, 1), np.int64), 0) if slots is None else (slots, y.shape[1])
    numbers = tuple(view.numbers for view in there)
    run = directly if len(models) == 3 else loops
    run(work, y, residual, index, many, numbers, strides, given, models, scalars, counts, (count, curvature, l1))
