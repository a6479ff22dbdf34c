"""Local solves of quadratic clients under NumPy: affine steps, and minimisers by kept inverses.

With z = y - anchor the smooth gradient is H z + c, H = H_k + curvature. A (proximal) gradient step
is z <- soft(z M + b, t) with M = I - step H, b = -step c, t = step l1: a matrix product and three
elementwise passes over buffers that stay in the cache. The minimiser without l1 is z = -c H^-1.
Where Numba is and a solve is large, it is compiled whole. Results agree with the generic path to
rounding.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any, cast

import numpy as np

from fedtheory.arrays import (
    Array,
    Memory,
    all_true,
    astype_like,
    broadcast_to,
    is_numpy,
    memory_of,
    namespace,
)
from fedtheory.compiled import available
from fedtheory.local.objective import NUMBERS, LocalObjective, LocalResult, Rows
from fedtheory.problems.base import Problem

__all__ = [
    "REFINED", "affine_proximal_gradient", "affine_steps", "curvature_bounds", "direct_solve",
    "inverses", "is_affine", "kept", "tiles",
]  # fmt: skip

# Multiplications and additions of one solve, of which a run has many: to load Numba costs as much
# as a few hundred such solves.
COMPILED = 5e7
PRODUCTS = 3  # of a direct solve that is not refined
REFINED = 16  # roundings of H y, of which a residual is left as it is
TILE = 16384  # numbers in one buffer: four buffers fit a 1 MB second-level cache


def tiles(counts: np.ndarray, dim: int) -> Iterator[tuple[slice, slice]]:
    """Cut rows (N, max(counts)) into (clients, points) of about `TILE` numbers.

    Client k has counts[k] of them.
    """
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


@cache
def _of_one_class(kind: type[Problem]) -> bool:
    """True if one class gives both gradient and Hessian: a subclass may have changed one alone."""
    names = "client_gradient", "client_hessian"
    return len({next(c for c in kind.__mro__ if name in vars(c)) for name in names}) == 1


def is_affine(problem: Problem, objective: LocalObjective, start: Array) -> bool:
    """True if the smooth part's gradient is H y + c with one H a client, in NumPy's float64."""
    one = isinstance(objective.curvature, NUMBERS) and problem.constant_hessian
    double = is_numpy(start) and start.dtype == np.float64
    return bool(one and double and _of_one_class(cast(Any, type(problem))))


def affine_proximal_gradient(
    problem: Problem, objective: LocalObjective, start: np.ndarray, rows: Rows, lower: np.ndarray,
    upper: np.ndarray, count: int, slots: np.ndarray | None = None,
) -> LocalResult | None:
    """Run `count` steps of size 2/(lower + upper); shapes and None as in `affine_steps`.

    The residual is an upper bound of the KKT residual, from the last step z -> p: minus a
    subgradient at p is (z - p)(I - step H)/step, at most ||z - p||/step times the contraction. What
    rounding y = anchor + p can add is added.
    """

    def steps(some: Problem) -> np.ndarray:
        least, most = curvature_bounds(some, objective)
        return 2.0 / (least + most)

    # the contraction over the step, and the rounding of H y
    ends = (upper - lower) / 2, np.finfo(float).eps / 2 * upper
    return affine_steps(problem, objective, start, rows, slots, count, "best", steps, ends)


def curvature_bounds(problem: Problem, objective: LocalObjective) -> tuple[np.ndarray, np.ndarray]:
    """Least and largest curvature of the smooth part of the local objectives, (N,) each."""
    q = objective.curvature
    xp = None if isinstance(q, NUMBERS) else namespace(q)
    most = (float(q), float(q)) if xp is None else (float(xp.min(q)), float(xp.max(q)))

    def bounds(some: Problem) -> np.ndarray:
        mu = some.mu_k if some.convex else -some.beta_k
        return np.stack([mu + most[0], some.beta_k + most[1]], axis=1)

    found = kept(problem, "curvatures", most, bounds, None)
    return found[:, 0], found[:, 1]


def affine_steps(
    problem: Problem, objective: LocalObjective, start: np.ndarray, rows: Rows,
    slots: np.ndarray | None, count: int, name: Any, steps: Callable[[Problem], float | np.ndarray],
    ends: tuple[np.ndarray, np.ndarray] | None = None,
) -> LocalResult | None:
    """Run `count` proximal gradient steps on every valid row, (N, B, d) -> (N, B, d) and (N, B).

    Parameters
    ----------
    problem, objective : with ``problem.constant_hessian`` and one curvature
    slots : (N, B) or None
        Arrays are then (S, P, d), in which row (n, b) is the flat slot slots[n, b].
    name, steps : of the step sizes; steps(some) are those of a problem's clients (N,), or one number
    ends : (N,) twice, or None
        How often the residual has the length of the last step, and that of y. Rows that pad come
        back as 0. None: no residual is wanted.

    Returns
    -------
    LocalResult or None
        None with slots where it is not compiled, and for steps without a residual where their
        matrices are too large to be kept, so that making them costs more than they save.
    """
    step, shape = steps(problem), start.shape
    compiled = _is_worth(rows.valid, count, shape[2])
    dear = slots is not None or (ends is None and not _is_kept(problem))
    if dear and not compiled:
        return None
    slope, arrays = _parts(problem, objective, start)
    curvature, l1 = float(objective.curvature), float(objective.l1)
    if compiled:
        views = _views(arrays, shape)
        if views is None and slots is not None:
            return None
        if views is None:
            copies = (
                a if a is None else np.array(broadcast_to(a, shape), order="C") for a in arrays
            )
            views = _views(list(copies), shape)
        y, residual = (np.zeros if slots is None else np.empty)(shape), np.zeros(shape[:2])
        models, counts = (_writeable(problem, start), slope), _prefix_counts(rows.valid)
        each = np.full(shape[0], step) if isinstance(step, NUMBERS) else step
        scalars = each, *(ends or (np.zeros_like(each),) * 2)
        _solve(y, residual, slots, views, models, scalars, counts, count, curvature, l1)
        return LocalResult(y, residual)

    def matrices(some: Problem) -> np.ndarray:
        return _matrices(_hessians(some), steps(some), curvature)

    matrix = kept(problem, "steps", (name, curvature), matrices, start)
    y, left = np.empty(shape), None if ends is None else np.zeros(shape[:2])
    whole = [a if a is None or a.shape == shape else broadcast_to(a, shape) for a in arrays]
    _in_tiles(y, left, whole, (slope, matrix), step, ends, rows.valid, count, curvature, l1)
    return LocalResult(y, left)


def _matrices(hessian: np.ndarray, step: float | np.ndarray, curvature: float) -> np.ndarray:
    """I - step (H + curvature I): (N, d, d)."""
    each = np.reshape(step, (-1, 1, 1))
    matrix = hessian * -each
    diagonal = np.einsum("nii->ni", matrix)
    diagonal += 1.0 - each[:, 0] * curvature
    return matrix


def direct_solve(
    problem: Problem, objective: LocalObjective, rows: Rows, slots: np.ndarray, inverse: np.ndarray,
    upper: np.ndarray, tolerance: float,
) -> LocalResult | None:
    """Solve y = center + (linear - grad f_k(center)) (H_k + curvature)^-1 in the slots (S, P, d).

    inverse is (N, d, d), upper (N,) the largest curvature. The residual is an upper bound of the
    KKT residual. It is measured, and refined where it is more than rounding, unless what is known
    of the inverse shows it to be within the tolerance. None comes back where it is not compiled.
    """
    center, curvature = objective.center, float(objective.curvature)
    shape = center.shape
    if not _is_worth(rows.valid, PRODUCTS, shape[2]):
        return None
    slope, arrays = _parts(problem, objective, center)
    views = _views(arrays, shape)
    if views is None:
        return None
    y, residual = np.empty(shape), np.zeros(shape[:2])
    unit = np.finfo(float).eps / 2 * upper
    hessian = _writeable(problem, center)

    def bounds(some: Problem) -> np.ndarray:
        return _reach(some, curvature)

    reach = kept(problem, "reach", curvature, bounds, center)
    scalars = reach, REFINED * unit, unit
    _solve(
        y, residual, slots, views, (hessian, slope, inverse), scalars, _prefix_counts(rows.valid),
        0, curvature, tolerance,
    )
    return LocalResult(y, residual)


def _reach(problem: Problem, curvature: float) -> np.ndarray:
    """Bound ||b - z H||/||b|| for z = b H^-1 as computed with the kept inverse G of H: (N,).

    b - z H = b (I - G H) - e H with |e| <= gamma_d |b| |G|, the rounding of the product. Spectral
    norms are bounded by Frobenius's, or by sums of rows. What computing G H can lose is added, of
    each entry gamma_d |G| |H|.
    """
    eye = np.eye(problem.dim)
    inverse, whole = inverses(problem, curvature, eye), _hessians(problem) + curvature * eye
    size, gamma = np.abs(whole), (problem.dim + 2) * np.finfo(float).eps / 2

    def norm(matrices: np.ndarray) -> np.ndarray:
        return np.linalg.norm(matrices, axis=(1, 2))

    both = norm(np.matmul(np.abs(inverse), size))
    rows = size.sum(axis=2).max(axis=1)  # the Hessians are symmetric
    lost = gamma * (both + np.minimum(both, norm(inverse) * np.minimum(norm(whole), rows)))
    return (norm(eye - np.matmul(inverse, whole)) + lost) * (1 + 1e-9)


def inverses(problem: Problem, curvature: float, like: Array) -> Array:
    """(H_k + curvature)^-1 of every client (N, d, d), symmetric, kept with the problem."""

    def inverted(some: Problem) -> Array:
        xp = namespace(like)
        origin = astype_like(np.zeros((some.num_clients, 1, some.dim)), like)
        hessian = some.client_hessian(origin)[:, 0, :, :]
        inverse = xp.linalg.inv(hessian + curvature * astype_like(np.eye(some.dim), like))
        return (inverse + xp.matrix_transpose(inverse)) / 2

    return kept(problem, "inverse", curvature, inverted, like)


def _solve(
    y: Any, residual: Any, slots: Any, views: Any, models: Sequence[np.ndarray], *more: Any
) -> None:
    """The compiled solve, which is imported with Numba at its first call."""
    from fedtheory.local.quadratic_kernels import solve

    solve(y, residual, slots, views, tuple(map(_plain, models)), *more)


def _is_worth(valid: np.ndarray, count: int, dim: int) -> bool:
    each = 2.0 * count * dim**2
    if valid.size * each < COMPILED:
        return False
    return bool(_prefix_counts(valid).sum() * each >= COMPILED and available())


def _parts(
    problem: Problem, objective: LocalObjective, start: np.ndarray
) -> tuple[np.ndarray, tuple[np.ndarray | None, ...]]:
    """Gradients at 0 (N, 1, d), and (anchor, start, linear, center).

    Of the last three None stands for what is not there. Without an l1 penalty any point is an
    anchor, and the start is taken. Without a start it is the anchor.
    """

    def at_0(some: Problem) -> np.ndarray:
        return some.client_gradient(np.zeros((some.num_clients, 1, some.dim)))

    slope = kept(problem, "slope", None, at_0, start)
    anchor = objective.l1_center if objective.l1 else start
    center = None if objective.center is anchor or not objective.curvature else objective.center
    return slope, (anchor, None if start is anchor else start, objective.linear, center)


def _hessians(problem: Problem) -> np.ndarray:
    return problem.client_hessian(np.zeros((problem.num_clients, 1, problem.dim)))[:, 0, :, :]


def _writeable(problem: Problem, like: np.ndarray) -> np.ndarray:
    """The Hessians in memory of their own, as the compiled solve takes them."""
    return kept(problem, "Hessians", None, lambda some: _plain(_hessians(some)), like)


KEPT = 2**22  # numbers that are kept with a problem under one name, 32 MiB
_NEVER = object()  # a key that nobody asks for


def _source(problem: Problem) -> tuple[Problem, np.ndarray | None]:
    """The problem that this is a part of, and its clients there; itself and None for a whole."""
    (whole,), clients = problem.__dict__.get("_whole", ((problem,), None))
    return (whole, clients) if isinstance(clients, np.ndarray) else (problem, None)


def _is_kept(problem: Problem) -> bool:
    """True if matrices of all clients are kept: they are few and small enough."""
    return math.prod((_source(problem)[0].num_clients, problem.dim, problem.dim)) <= KEPT


def kept(
    problem: Problem, name: str, key: Any, make: Callable[[Problem], Array], like: Array
) -> Array:
    """Give make(problem), an array (N, ...) that depends on the key and the problem alone.

    The whole problem keeps it for all clients where it is not large, once a cohort has asked for
    one key twice, and hands it to the problems of its cohorts.
    """
    whole, clients = _source(problem)
    known = whole.__dict__.setdefault("_prepared", {})
    asked, of_all = known.get(name, (_NEVER, None))
    if of_all is None or asked != key:
        if not _is_kept(problem):
            return make(problem)
        known[name] = key, make(whole) if asked == key or clients is None else None
        of_all = known[name][1]
        if of_all is None:
            return make(problem)
    if clients is None:
        return of_all
    if is_numpy(of_all):
        return of_all.take(clients, axis=0)
    return namespace(like).take(of_all, astype_like(clients, like), axis=0)


def _views(
    arrays: Sequence[np.ndarray | None], shape: tuple[int, ...]
) -> tuple[Memory | None, ...] | None:
    """The arrays as they lie, broadcast to the shape; None where one does not lie in rows."""
    views = [None if a is None else memory_of(broadcast_to(a, shape)) for a in arrays]
    return (
        None
        if any(v is None and a is not None for v, a in zip(views, arrays, strict=True))
        else tuple(views)
    )


def _plain(values: np.ndarray) -> np.ndarray:
    """Contiguous and writable numbers, the kind of array for which the compiled solve exists."""
    return (
        values
        if values.flags.carray and values.dtype == float
        else np.require(values, float, ["C", "W"])
    )


def _in_tiles(y, residual, rows, models, step, ends, valid, count, curvature, l1) -> None:
    """All rows by NumPy, tile by tile; without ends (N,) twice there is no residual."""
    (anchor, start, linear, center), (slope, matrix) = rows, models
    cuts, size = [(slice(0, y.shape[0]), slice(0, y.shape[1]))], y.size
    if size > TILE:
        cuts = list(tiles(_prefix_counts(valid), y.shape[2]))
        size = max((c.stop - c.start) * (p.stop - p.start) for c, p in cuts) * y.shape[2]
    pool = np.empty((4, size))
    for part in cuts:
        clients, points = part
        cells = (clients.stop - clients.start, points.stop - points.start, y.shape[2])
        b, z, v, w = pool[:, : cells[0] * cells[1] * cells[2]].reshape(4, *cells)
        m, a = matrix[clients], anchor[part]
        s = step if isinstance(step, NUMBERS) else step[clients, None, None]
        if len(a) == 1 and not isinstance(s, NUMBERS):
            s = s.item()  # numbers make products and the clip faster than arrays
        low, high = -s * l1, s * l1
        if center is None:
            np.negative(slope[clients], out=w)
        else:
            np.subtract(center[part], a, out=w)
            w *= curvature
            w -= slope[clients]
        if linear is not None:
            w += linear[part]
        w *= s
        np.matmul(a, m, out=b)
        np.multiply(a, 1.0 - s * curvature, out=v)
        b -= v
        b += (
            w  # -step (smooth gradient at the anchor), as a M - (1 - step curvature) a is -step H a
        )
        if start is None:
            v[...] = b  # z is 0
        else:
            np.subtract(start[part], a, out=z)
            np.matmul(z, m, out=v)
            v += b
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
        np.add(a, v, out=y[part])
        if ends is None:
            continue
        if count > 1 or start is not None:
            z -= v
        else:
            np.negative(v, out=z)
        bound = np.sqrt(np.vecdot(z, z)) * ends[0][clients, None]
        residual[part] = bound + np.sqrt(np.vecdot(y[part], y[part])) * ends[1][clients, None]
    if y.shape[1] > 1:
        counts = _prefix_counts(valid)
        for n in np.nonzero(counts < y.shape[1])[0]:
            y[n, counts[n] :] = 0.0
            if ends is not None:
                residual[n, counts[n] :] = 0.0


def _prefix_counts(valid: np.ndarray) -> np.ndarray:
    """Rows of each client up to its last valid one, at least 1."""
    if valid.shape[1] == 1 or all_true(valid):
        return np.full(valid.shape[0], valid.shape[1])
    last = valid.shape[1] - np.argmax(valid[:, ::-1], axis=1)
    return np.where(valid.any(axis=1), last, 1)
