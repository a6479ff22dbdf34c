"""The reference engine of subgradient sliding: batched steps, in any array namespace.

NumPy spends a third of a microsecond on being called, and a step makes a dozen calls: for few rows
more than the arithmetic takes. So its arrays are written to and not made, points are averaged many
at a time, and what is alike in all steps is made before the first. Rows do not touch each other:
those walk together who stay in the cache with their clients' data.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import repeat
from typing import Any, cast

import numpy as np

from fedtheory.arrays import Array, astype_like, is_numpy, namespace, sealed
from fedtheory.local.objective import LocalObjective, LocalResult, Rows
from fedtheory.local.sliding_draws import Sliding, draws
from fedtheory.problems.base import Problem, prepared
from fedtheory.problems.linear import LinearModel
from fedtheory.problems.nonsmooth import LAD, Hinge, Quantile

__all__ = ["schedule", "solve"]

IN_CACHE = 2**17  # numbers that a step makes, or that are averaged together; of data four times it
FEW = 8  # steps that are not worth what is made for many


@lru_cache(maxsize=256)
def schedule(first: int, last: int) -> tuple[np.ndarray, np.ndarray]:
    """1 + t/2 of line 22 for t = first..last, and what the u_t weigh in avg_last.

    These are 2(t + 1)/(last (last + 3)): line 24's theta_t is 2(t + 1)/(t(t + 3)).
    """
    t = np.arange(first, last + 1.0)
    return sealed((1.0 + 0.5 * t, 2.0 * (t + 1.0) / (last * (last + 3.0))))


def solve(
    solver: Sliding, problem: Problem, objective: LocalObjective, start: Array, rows: Rows
) -> LocalResult:
    """`SubgradientSliding.solve` for any problem; start (N, B, d)."""
    beta, arrays = float(objective.curvature), [start, objective.center, objective.linear]
    if not is_numpy(start):
        return _walk(solver, problem, beta, rows, *arrays)
    shape, dtype = start.shape, start.dtype if start.dtype.kind == "f" else np.dtype(float)
    arrays = [a if a is None or a.shape == shape else np.broadcast_to(a, shape) for a in arrays]
    pieces = _pieces(problem, shape, solver.steps)
    if not pieces:
        arrays = [a if a is None else np.ascontiguousarray(a, dtype) for a in arrays]
        return _walk(solver, problem, beta, rows, *arrays)
    y, average = np.empty(shape, dtype), np.empty(shape, dtype)
    for part, clients, points in pieces:
        at = clients, points
        own = Rows(rows.clients[clients], rows.scenarios[at], rows.valid[at], *rows[3:5])
        cut = [a if a is None else np.ascontiguousarray(a[at], dtype) for a in arrays]
        found = _walk(solver, part, beta, own, *cut)
        y[at], average[at] = found.y, found.average
    return LocalResult(y, average=average)


def _linear(problem: Problem) -> bool:
    """True if the gradient is that of `LinearModel`."""
    kind: Any = type(problem)
    return (
        kind.client_gradient is LinearModel.client_gradient
        and kind._predict is LinearModel._predict
    )


def _pieces(
    problem: Problem, shape: tuple[int, ...], steps: int
) -> list[tuple[Problem, slice, slice]]:
    """List the rows that walk together, clients at points of each; none where all do."""
    clients, points, made = shape
    groups, p = 1, cast(LinearModel, problem)
    if _linear(problem):
        made += p.features.shape[1]
        groups = 1 if steps < FEW else min(clients, -(-p.features.size // (2 * IN_CACHE)))
    if groups == 1 and clients * points * made <= IN_CACHE:
        return []
    found = []
    for part, own in _parts(problem, groups):
        cuts = -(-points // max(1, IN_CACHE // (part.num_clients * made)))
        found += [
            (part, own, slice(points * i // cuts, points * (i + 1) // cuts)) for i in range(cuts)
        ]
    return found


def _parts(problem: Problem, groups: int) -> list[tuple[Problem, slice]]:
    """The clients in groups, kept with the problem."""
    many = problem.num_clients
    cuts = [slice(many * i // groups, many * (i + 1) // groups) for i in range(groups)]
    if groups == 1:
        return [(problem, cuts[0])]
    parts = prepared(
        problem, f"{groups} groups",
        lambda: [problem.subset(np.arange(c.start, c.stop)) for c in cuts],
    )
    return list(zip(parts, cuts, strict=True))


def _gradient(problem: Problem, points: int, steps: int) -> Callable[[np.ndarray], np.ndarray]:
    """`client_gradient`, made for many steps from so many points; it overwrites what it gave."""
    if steps == 1 or not _linear(problem):
        return problem.client_gradient
    p = cast(LinearModel, problem)
    transposed = prepared(p, "transposed", lambda: sealed(np.ascontiguousarray(p.features.mT)))
    targets, shares = p.targets[:, None, :], p.sample_weights[:, None, :]
    if points > 1 and steps >= FEW:  # so that no loop is as short as one client's samples
        targets, shares = np.repeat(targets, points, axis=1), np.repeat(shares, points, axis=1)
    clients, dim, samples = transposed.shape
    z, slopes = (
        np.empty((clients, points, samples), transposed.dtype),
        np.empty((clients, points, samples), transposed.dtype),
    )
    features, ridge, found = p.features, p.ridge, np.empty((clients, points, dim), transposed.dtype)
    slope, matmul, multiply = _SLOPES.get(type(p).dphi, _slope), np.matmul, np.multiply

    def gradient(u: np.ndarray) -> np.ndarray:
        matmul(u, transposed, z)
        slope(p, z, targets, slopes)
        multiply(slopes, shares, slopes)
        matmul(slopes, features, found)
        return found + ridge * u if ridge else found

    return gradient


def _slope(p: Any, z: np.ndarray, targets: np.ndarray, out: np.ndarray) -> None:
    """phi'(z, b); z may be overwritten."""
    out[...] = p.dphi(z, targets)


def _of_lad(p: Any, z: np.ndarray, targets: np.ndarray, out: np.ndarray) -> None:
    np.subtract(z, targets, z)
    np.sign(z, out)


def _of_quantile(p: Any, z: np.ndarray, targets: np.ndarray, out: np.ndarray) -> None:
    np.multiply(z > targets, 1 - p.tau, out)
    np.multiply(z < targets, p.tau, z)
    np.subtract(out, z, out)


def _of_hinge(p: Any, z: np.ndarray, targets: np.ndarray, out: np.ndarray) -> None:
    np.multiply(z, targets, z)
    np.multiply(z < 1, targets, out)
    np.negative(out, out)


_SLOPES = {LAD.dphi: _of_lad, Quantile.dphi: _of_quantile, Hinge.dphi: _of_hinge}


def _subtract(a: Array, b: Array, out: Array) -> Array:
    out[...] = a - b
    return out


def _drawn(
    solver: Sliding, problem: Problem, dim: int, rows: Rows
) -> Iterator[tuple[np.ndarray | None, np.ndarray | None]]:
    """Noise (N, B, d) and sample numbers (N, B, batch) of each step; None if not wanted."""
    for size, noise, samples in draws(solver, problem, dim, rows):
        if noise is None and samples is None:
            yield from repeat((None, None), size)
            continue
        for s in range(size):
            one, some = (
                a if a is None else np.ascontiguousarray(a[:, :, s]) for a in (noise, samples)
            )
            yield one, some


def _walk(
    solver: Sliding, problem: Problem, beta: float, rows: Rows, start: Array, center: Array,
    linear: Array | None,
) -> LocalResult:
    """All steps of some rows; of arrays of NumPy center and linear are contiguous."""
    xp, shape, numpy = namespace(start), start.shape, is_numpy(start)
    gradient = _gradient(problem, shape[1], solver.steps) if numpy else problem.client_gradient
    subtract: Callable[[Array, Array, Array], Array] = np.subtract if numpy else _subtract
    like: dict[str, Any] = {"dtype": start.dtype, "device": start.device}
    curvature, radius = xp.asarray(beta, **like), None
    most, bounded = solver.radius**2 * (1.0 - 1e-9), solver.radius < math.inf and 0 not in shape
    at_once = max(1, min(IN_CACHE // max(1, math.prod(shape)), 64, solver.steps))
    spare, kept = (xp.empty(n, **like) for n in (shape, (at_once, *shape)))
    paces = xp.empty(at_once, **like)
    places = [(kept[s, ...], paces[s, ...]) for s in range(at_once)]
    u, average, vecdot, drawn = start, start, xp.vecdot, _drawn(solver, problem, shape[-1], rows)
    for done in range(0, solver.steps, at_once):
        steps = min(at_once, solver.steps - done)
        growth, weights = schedule(done + 1, done + steps)
        paces[:steps] = xp.asarray(1.0 / (growth * beta), **like)
        for (place, pace), (noise, samples) in zip(places[:steps], drawn, strict=False):
            if samples is None:
                slope = gradient(u)
            else:
                slope = problem.client_batch_gradient(u, astype_like(samples, u))
            if noise is not None:
                slope = slope + astype_like(noise, u)
            move = subtract(u, center, spare)
            move *= curvature
            if linear is not None:
                move -= linear
            move += slope
            move *= pace
            u = subtract(u, move, place)  # line 22
            if bounded:  # line 23; the root only where it may matter
                norm_sq = vecdot(u, u)
                if not (numpy and norm_sq.item(norm_sq.argmax()) <= most):
                    radius = xp.asarray(float(solver.radius), **like) if radius is None else radius
                    u *= (radius / xp.maximum(xp.sqrt(norm_sq), radius))[..., None]
        weights = xp.asarray(weights, copy=True, **like)
        mean = xp.reshape(xp.matmul(weights, xp.reshape(kept[:steps, ...], (steps, -1))), shape)
        rest = done * (done + 3.0) / ((done + steps) * (done + steps + 3.0))
        average = average * rest + mean if done else mean
    return LocalResult(xp.asarray(u, copy=True), average=average)
