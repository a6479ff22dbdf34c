"""Semismooth Newton on the active set, for all rows at once.

With g the gradient of the smooth part, s < 1/L, v = z - s g (z = y - anchor) and A = {|v| > s l1}, the residual
r = z - soft(v, s l1) has the generalised Jacobian that gives the direction d: d = -z off A, and on A the solution of
H_AA d_A = -(g_A + l1 sign(v_A)) - H_A,rest d_rest. It is a descent direction of the forward-backward envelope, a continuously
differentiable function with the same minimisers, on which the line search runs. Sources: Patrinos, Stella, Bemporad,
arXiv:1402.6655; Stella, Themelis, Patrinos, Comput. Optim. Appl. 67 (2017).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from fedtheory.arrays import Array, astype_like, namespace, to_numpy
from fedtheory.local.objective import LocalObjective, LocalResult, residual_scale
from fedtheory.problems.base import Problem

__all__ = ["least_curvature", "newton"]

_WARM = 12  # proximal gradient steps that come first
_ITERATIONS = 200
_STALLS = 10  # iterations without a fall after which a row counts as lost
_HALVINGS = 25
_ROWS = 64  # rows worked together, at least
_CELLS = 2_000_000  # numbers in one batch of Hessians


class _Point(NamedTuple):
    """Everything the method needs at z = y - anchor; the soft threshold's step is s."""

    z: Array
    gradient: Array  # of f_k and the smooth penalty
    v: Array  # z - s g
    p: Array  # soft(v, s l1)
    envelope: Array  # forward-backward envelope (N, B, 1)
    error: Array  # ||z - p|| (N, B, 1)
    residual: Array  # KKT residual at anchor + z, (N, B, 1)


def newton(problem: Problem, objective: LocalObjective, start: Array, upper: np.ndarray, tolerance: float) -> LocalResult:
    """Minimise every row: (N, B, d) -> y (N, B, d) and KKT residual (N, B).

    Rows are worked in pieces whose Hessians stay small. A row that does not converge raises nothing: its residual says so.
    """
    xp = namespace(start)
    objective = objective.map(lambda a: xp.broadcast_to(a, start.shape))
    results = []
    for clients, part in _client_pieces(problem, start.shape):
        scale, picked = upper[clients], []
        for points in _point_pieces(part, len(scale), start.shape):
            cut = (clients, points, slice(None))
            picked.append(_solve(part, objective.map(lambda a, c=cut: a[c]), start[cut], scale, tolerance))
        results.append([xp.concat([p[i] for p in picked], axis=1) for i in (0, 1)])
    y, residual = (xp.concat([r[i] for r in results], axis=0) for i in (0, 1))
    return LocalResult(y, residual)


def least_curvature(problem: Problem, objective: LocalObjective, y: Array, upper: np.ndarray) -> np.ndarray:
    """Least eigenvalue, relative to `upper`, of the smooth part's Hessian on the nonzero coordinates of y - anchor: (N, B)."""
    xp = namespace(y)
    objective = objective.map(lambda a: xp.broadcast_to(a, y.shape))
    out = np.empty(y.shape[:2])
    for clients, part in _client_pieces(problem, y.shape):
        for points in _point_pieces(part, clients.stop - clients.start, y.shape):
            cut = (clients, points, slice(None))
            piece = objective.map(lambda a, c=cut: a[c])
            point = y[cut]
            hessian = _hessian(part, piece, point)
            on = point != piece.l1_center if piece.l1 else xp.ones_like(point, dtype=xp.bool)
            scale = astype_like(upper[clients], y)[:, None, None]
            system = _restrict(hessian, on, scale)
            out[clients, points] = to_numpy(xp.min(xp.linalg.eigvalsh(system), axis=-1) / scale[..., 0])
    return out


def _client_pieces(problem: Problem, shape: tuple[int, ...]) -> list[tuple[slice, Problem]]:
    """Few clients at a time: rows that have converged can then be dropped early."""
    size = max(1, _ROWS // shape[1])
    if size >= shape[0]:
        return [(slice(0, shape[0]), problem)]
    cuts = [slice(first, min(first + size, shape[0])) for first in range(0, shape[0], size)]
    return [(c, problem.subset(np.arange(c.start, c.stop))) for c in cuts]


def _point_pieces(problem: Problem, clients: int, shape: tuple[int, ...]) -> list[slice]:
    samples = 0 if problem.constant_hessian else int(np.max(problem.sample_counts))  # (N, B, n, d) on the way to a Hessian
    size = max(1, _CELLS // (clients * shape[2] * max(shape[2], samples)))
    return [slice(first, min(first + size, shape[1])) for first in range(0, shape[1], size)]


def _hessian(problem: Problem, objective: LocalObjective, y: Array) -> Array:
    """Hessian of the smooth part, (N, B or 1, d, d)."""
    eye = astype_like(np.eye(y.shape[2]), y)
    curvature: Any = objective.curvature
    return problem.client_hessian(y) + eye * (float(curvature) if isinstance(curvature, float | int) else curvature[..., None])


def _restrict(hessian: Array, on: Array, scale: Array) -> Array:
    """The Hessian on the coordinates `on`, scale * identity on the rest: (N, B, d, d)."""
    xp = namespace(hessian)
    both = on[..., :, None] & on[..., None, :]
    rest = xp.where(on, xp.zeros_like(scale), scale)  # (N, B, d)
    eye = astype_like(np.eye(on.shape[-1]), hessian)
    return xp.where(both, hessian, xp.zeros_like(hessian)) + rest[..., None] * eye


def _point(problem: Problem, objective: LocalObjective, z: Array, s: Array) -> _Point:
    xp = namespace(z)
    y = objective.l1_center + z
    loss_gradient = problem.client_gradient(y)
    gradient = loss_gradient + objective.smooth_penalty_gradient(y)
    v = z - s * gradient
    t = xp.broadcast_to(s * objective.l1, v.shape)
    p = v - xp.minimum(xp.maximum(v, -t), t)
    r = z - p
    smooth = problem.client_value(y) + replace(objective, l1=0.0).penalty_value(y)
    squares = xp.sum(r * r, axis=-1, keepdims=True)
    envelope = smooth[..., None] - xp.sum(gradient * r, axis=-1, keepdims=True) + squares / (2 * s)
    envelope = envelope + objective.l1 * xp.sum(xp.abs(p), axis=-1, keepdims=True)
    residual = objective.kkt_residual(y, loss_gradient)[..., None]
    return _Point(z, gradient, v, p, envelope, xp.sqrt(squares), residual)


def _choose(mask: Array, a: _Point, b: _Point) -> _Point:
    """Rows of a where mask (N, B, 1), rows of b elsewhere."""
    xp = namespace(mask)
    return _Point(*(xp.where(mask, x, z) for x, z in zip(a, b, strict=True)))


def _solve(
    problem: Problem, objective: LocalObjective, start: Array, upper: np.ndarray, tolerance: float
) -> tuple[Array, Array]:
    s = 0.95 / astype_like(np.maximum(upper, np.finfo(float).tiny), start)[:, None, None]
    now = _point(problem, objective, start - objective.l1_center, s)
    for _ in range(_WARM):
        now = _point(problem, objective, now.p, s)
    return _iterate(problem, objective, now, upper, tolerance)


def _iterate(
    problem: Problem, objective: LocalObjective, now: _Point, upper: np.ndarray, tolerance: float, first: int = 0
) -> tuple[Array, Array]:
    xp = namespace(now.z)
    scale = astype_like(np.maximum(upper, np.finfo(float).tiny), now.z)[:, None, None]
    s = 0.95 / scale
    best, least, stalled = now, now.error, 0
    hessian = _hessian(problem, objective, now.z) if problem.constant_hessian else None
    for iteration in range(first, _ITERATIONS):
        scales = residual_scale(objective, objective.l1_center + best.z, upper[:, None], tolerance)
        residual = to_numpy(best.residual)[..., 0]
        left = residual > tolerance / 2 * scales[0]
        columns = np.nonzero(left.any(axis=0))[0]
        at_rounding = bool((residual <= tolerance / 2 * scales[1]).all())
        if not len(columns) or stalled >= (2 if at_rounding else _STALLS):
            break
        if 2 * len(columns) <= left.shape[1]:  # go on with the points that need it
            return _continue_with(columns, problem, objective, now, best, upper, tolerance, iteration)
        h = _hessian(problem, objective, objective.l1_center + now.z) if hessian is None else hessian
        new = _line_search(problem, objective, now, _direction(objective, now, h, scale, s), h, s, least)
        moving = to_numpy((new.envelope < now.envelope) | (new.residual < 0.9 * best.residual))[..., 0]
        stalled = 0 if (left & moving).any() else stalled + 1
        now, least = new, xp.minimum(least, new.error)
        best = _choose(now.residual < best.residual, now, best)
    return objective.l1_center + best.z, best.residual[..., 0]


def _continue_with(
    columns: np.ndarray, problem: Problem, objective: LocalObjective, now: _Point, best: _Point,
    upper: np.ndarray, tolerance: float, iteration: int,
) -> tuple[Array, Array]:
    xp = namespace(now.z)
    picked = astype_like(columns, now.z)
    part = objective.map(lambda a: xp.take(a, picked, axis=1))
    rest = _Point(*(xp.take(a, picked, axis=1) for a in now))
    y, residual = _iterate(problem, part, rest, upper, tolerance, iteration)
    source = np.arange(now.z.shape[1])
    source[columns] = len(source) + np.arange(len(columns))
    back = astype_like(source, now.z)
    old = objective.l1_center + best.z, best.residual[..., 0]
    return tuple(xp.take(xp.concat([a, b], axis=1), back, axis=1) for a, b in zip(old, (y, residual), strict=True))


def _direction(objective: LocalObjective, at: _Point, hessian: Array, scale: Array, s: Array) -> Array:
    xp = namespace(at.z)
    zero = xp.zeros_like(at.z)
    on = xp.abs(at.v) > s * objective.l1 if objective.l1 else xp.ones_like(at.z, dtype=xp.bool)
    off_move = xp.where(on, zero, -at.z)
    target = -(at.gradient + objective.l1 * xp.sign(at.v)) - xp.matmul(hessian, off_move[..., None])[..., 0]
    target = xp.where(on, target, zero)
    # A shift at the level of rounding keeps singular systems solvable; uniqueness is judged by the caller.
    shift = 4.5 * float(xp.finfo(zero.dtype).eps)
    system = _restrict(hessian, on, scale) + shift * scale[..., None] * astype_like(np.eye(zero.shape[-1]), zero)
    return xp.where(on, xp.linalg.solve(system, target[..., None])[..., 0], off_move)


def _line_search(
    problem: Problem, objective: LocalObjective, at: _Point, direction: Array, hessian: Array, s: Array, least: Array
) -> _Point:
    """Halve until the envelope falls enough, or the error to half the least so far (near the end rounding hides the fall).

    Where nothing does, a proximal gradient step.
    """
    xp = namespace(at.z)
    r = at.z - at.p
    turned = r - s * xp.matmul(hessian, r[..., None])[..., 0]  # s times the envelope's gradient
    slope = xp.sum(turned * direction, axis=-1, keepdims=True) / s
    usable = xp.isfinite(slope)
    new, done, tau = at, ~usable, 1.0
    for _ in range(_HALVINGS):
        trial = _point(problem, objective, at.z + tau * direction, s)
        falls = (slope < 0) & (trial.envelope <= at.envelope + 1e-4 * tau * slope)
        take = (falls | (trial.error <= 0.5 * least)) & ~done
        new = _choose(take, trial, new)
        done = done | take
        if bool(xp.all(done)):
            break
        tau /= 2
    failed = ~(done & usable)
    return _choose(failed, _point(problem, objective, at.p, s), new) if bool(xp.any(failed)) else new
