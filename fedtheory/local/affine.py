"""Proximal gradient for quadratic clients under NumPy: one affine map and one soft threshold a step, in cache-sized tiles.

With z = y - anchor the smooth gradient is H z + c, H = H_k + curvature, so that a step is z <- soft(z M + b, t) with
M = I - step H, b = -step c, t = step l1: a matrix product and three elementwise passes over buffers that stay in the cache. Its
results agree with the generic path to rounding.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fedtheory.local.objective import LocalObjective, LocalResult, Rows
from fedtheory.problems.base import Problem

__all__ = ["affine_proximal_gradient", "tiles"]

TILE = 8192  # numbers in one buffer: five buffers fit a 1 MB second-level cache


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

    Needs ``problem.constant_hessian`` and one curvature. Padding rows come back as copies of their start with residual 0.
    """
    shape, l1 = start.shape, objective.l1
    anchor = np.broadcast_to(objective.l1_center, shape)
    step = 2.0 / (lower + upper)
    hessian = problem.client_hessian(start[:, :1, :])[:, 0, :, :]
    matrix = hessian * -step[:, None, None]
    diagonal = np.einsum("nii->ni", matrix)
    diagonal += (1.0 - step * objective.curvature)[:, None]
    offset = problem.client_gradient(anchor)  # becomes -step * (smooth gradient at the anchor)
    if anchor is not objective.center and objective.anchor is not None:
        offset += (anchor - objective.center) * objective.curvature
    if objective.linear is not None:
        offset -= objective.linear
    offset *= -step[:, None, None]
    from_anchor = start is objective.l1_center
    y, residual = np.array(start), np.zeros(shape[:2])
    counts = _prefix_counts(rows.valid)
    size = max((c.stop - c.start) * (p.stop - p.start) for c, p in tiles(counts, shape[2])) * shape[2]
    pool = np.empty((3, size))
    for clients, points in tiles(counts, shape[2]):
        part = (clients, points)
        b = offset[part]
        z, v, w = (buffer[: b.size].reshape(b.shape) for buffer in pool)
        m, s = matrix[clients], step[clients, None, None]
        t = s * l1 if len(s) > 1 else float(s[0, 0, 0]) * l1
        if from_anchor:
            z.fill(0.0)
            v[...] = b
        else:
            np.subtract(start[part], anchor[part], out=z)
            np.matmul(z, m, out=v)
            v += b
        for _ in range(count - 1):
            if l1:
                v.clip(-t, t, out=w)
                np.subtract(v, w, out=z)
            else:
                z, v = v, z
            np.matmul(z, m, out=v)
            v += b
        if l1:
            v.clip(-t, t, out=w)
            np.subtract(v, w, out=z)
        else:
            z, v = v, z
        np.add(anchor[part], z, out=y[part])
        np.subtract(y[part], anchor[part], out=z)  # as the caller will see it, after rounding
        residual[part] = _residual(z, m, b, s, l1, v, w)
    return LocalResult(y, residual)


def _prefix_counts(valid: np.ndarray) -> np.ndarray:
    """Rows of each client up to its last valid one, at least 1."""
    last = valid.shape[1] - np.argmax(valid[:, ::-1], axis=1)
    return np.where(valid.any(axis=1), last, 1)


def _residual(
    z: np.ndarray, m: np.ndarray, b: np.ndarray, step: np.ndarray, l1: float, v: np.ndarray, w: np.ndarray
) -> np.ndarray:
    """KKT residual at anchor + z, through the gradient (z - (z M + b))/step; v and w are scratch."""
    np.matmul(z, m, out=v)
    v += b
    np.subtract(z, v, out=v)
    if l1:
        t = step * l1
        np.sign(z, out=w)
        w *= t
        v += w
        np.abs(v, out=v)
        np.abs(w, out=w)
        w -= t  # -t at the zeros, 0 elsewhere
        v += w
        np.maximum(v, 0.0, out=v)
    else:
        np.abs(v, out=v)
    return v.max(axis=-1) / step[..., 0]
