"""Exact local solutions: proximal points of the losses of the rates' instances, compiled.

A client's loss is, in the numbers of `Losses`,

    f_i(x) = linear_i'x + sum_j kinks_ij |x_j - at_j| + sum_j links_ij |x_j - x_{j+1}|
             + mean_j |features_ij'x - targets_ij|
             + weight max(max of the client's share, -floor)

where a coordinate has a kink or one link at a client, not both, and there are features or the rest.
The share, where there is one, stands for itself: the clients' shares are alike, start alike and
stay alike, so that one is kept.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from fedtheory.compiled import njit

__all__ = ["Losses", "dot", "proximal_point"]


class Losses(NamedTuple):
    """linear, kinks (N, d); at (d,); links (N, d), the last column 0; copies (d,): how many
    coordinates each stands for (all of them alike, 1 otherwise); constant: added to F; features (N,
    n, d), targets (N, n), n = 0 for none; share, weight, floor: of the maximum, share = 0 for
    none."""

    linear: np.ndarray
    kinks: np.ndarray
    at: np.ndarray
    links: np.ndarray
    copies: np.ndarray
    constant: float
    features: np.ndarray
    targets: np.ndarray
    share: int
    weight: float
    floor: float


@njit(cache=True)
def _shrink(value, by):
    return math.copysign(max(abs(value) - by, 0.0), value)


@njit(cache=True, fastmath={"reassoc", "contract", "nsz"})  # the sum may be reordered
def dot(a, b):
    total = 0.0
    for j in range(a.size):
        total += a[j] * b[j]
    return total


@njit(cache=True)
def _solve(a, b):
    """b <- the solution of a x = b, a symmetric and positive definite, overwritten."""
    n = b.size
    for k in range(n):
        for i in range(k + 1, n):
            ratio = a[i, k] / a[k, k]
            for j in range(k, n):
                a[i, j] -= ratio * a[k, j]
            b[i] -= ratio * b[k]
    for k in range(n - 1, -1, -1):
        for j in range(k + 1, n):
            b[k] -= a[k, j] * b[j]
        b[k] /= a[k, k]


@njit(cache=True)
def _on_kinks(rows, targets, active, signs, w, h, c, u):
    """u <- the minimiser of c'u + ||u - w||^2/(2h) with the active residuals 0, c <- the other
    residuals' slope; the multipliers."""
    samples, dim = rows.shape
    chosen = np.flatnonzero(active)
    c[:] = 0.0
    for s in range(samples):
        if not active[s]:
            for j in range(dim):
                c[j] += signs[s] / samples * rows[s, j]
    for j in range(dim):
        u[j] = w[j] - h * c[j]
    products, t = np.empty((chosen.size, chosen.size)), np.empty(chosen.size)
    for k in range(chosen.size):
        t[k] = (dot(rows[chosen[k]], u) - targets[chosen[k]]) / h
        for q in range(chosen.size):
            products[k, q] = dot(rows[chosen[k]], rows[chosen[q]])
    _solve(products, t)
    for k in range(chosen.size):
        for j in range(dim):
            u[j] -= h * t[k] * rows[chosen[k], j]
    return t


@njit(cache=True)
def _line_search(rows, targets, active, signs, u, p, slope, curvature):
    """Move u along p to the minimum of a convex piecewise quadratic; signs of residuals that are
    crossed flip, one that stops the way becomes active. Whether the whole of p was walked, with
    nothing crossed."""
    samples, dim = rows.shape
    at, clean = 0.0, True
    along, residual = np.empty(samples), np.empty(samples)
    for s in range(samples):
        along[s], residual[s] = dot(rows[s], p), dot(rows[s], u) - targets[s]
        if abs(along[s]) <= 1e-12 * math.sqrt(dot(rows[s], rows[s]) * dot(p, p)):
            along[s] = 0.0
    while True:
        next_at, which = 1e300, -1
        for s in range(samples):
            if not active[s] and signs[s] * along[s] < 0.0:
                where = max(at, -residual[s] / along[s])
                if where < next_at:
                    next_at, which = where, s
        zero = at - slope / curvature if slope < 0.0 else at
        if zero <= next_at:
            for j in range(dim):
                u[j] += zero * p[j]
            return clean
        slope += curvature * (next_at - at)
        at = next_at
        jump = 2.0 * abs(along[which]) / samples
        if slope + jump >= 0.0:
            for j in range(dim):
                u[j] += at * p[j]
            active[which] = True
            return False
        slope += jump
        signs[which], clean = -signs[which], False


@njit(cache=True)
def _gap(rows, targets, active, signs, t, w, h, u):
    """The duality gap at u, with the multipliers t of the active residuals clipped to 1/n."""
    samples, dim = rows.shape
    rest, gap, q = np.empty(dim), 0.0, 0
    for j in range(dim):
        rest[j] = (u[j] - w[j]) / h
    for s in range(samples):
        m = signs[s] / samples
        if active[s]:
            m = min(max(t[q], -1.0 / samples), 1.0 / samples)
            q += 1
        residual = dot(rows[s], u) - targets[s]
        gap += abs(residual) / samples - m * residual
        for j in range(dim):
            rest[j] += m * rows[s, j]
    return gap + h / 2.0 * dot(rest, rest)


@njit(cache=True)
def _absolute_deviations(rows, targets, w, h, u):
    """u <- argmin (1/n) sum_s |rows_s'u - targets_s| + ||u - w||^2/(2h), by active sets from the
    given u; its duality gap.

    It ends when the multipliers of the residuals that are 0 lie within 1/n. With multipliers that
    are clipped, the gap sum_s (|r_s|/n - m_s r_s) + (h/2) ||(u - w)/h + sum_s m_s rows_s||^2 bounds
    ||u - u*||^2/(2h), however it was found. Infinite where 500 changes were not enough.
    """
    samples, dim = rows.shape
    signs, active = np.ones(samples), np.zeros(samples, dtype=np.bool_)
    for s in range(samples):
        if dot(rows[s], u) < targets[s]:
            signs[s] = -1.0
    c, best, p = np.empty(dim), np.empty(dim), np.empty(dim)
    for _ in range(500):
        t = _on_kinks(rows, targets, active, signs, w, h, c, best)
        slope = 0.0
        for j in range(dim):
            p[j] = best[j] - u[j]
            slope += p[j] * (c[j] + (u[j] - w[j]) / h)
        rounding = 1e-13 * (1.0 + math.sqrt(dot(w, w)) + h * math.sqrt(dot(c, c)))
        if t.size < dim and dot(p, p) > rounding * rounding and not _line_search(
            rows, targets, active, signs, u, p, slope, dot(p, p) / h
        ):
            continue
        for j in range(dim):
            u[j] = best[j]
        chosen = np.flatnonzero(active)
        worst, k = 1.0 / samples * (1.0 + 1e-12), -1
        for q in range(chosen.size):
            if abs(t[q]) > worst:
                worst, k = abs(t[q]), q
        if k < 0:
            return _gap(rows, targets, active, signs, t, w, h, u)
        active[chosen[k]] = False
        signs[chosen[k]] = np.sign(t[k])
    return math.inf


@njit(cache=True)
def proximal_point(f, i, w, h, u):
    """u <- argmin f_i(u) + ||u - w||^2/(2h); a bound of the objective's gap, 0 for a closed form. A
    share's coordinate is one of x."""
    if f.features.shape[1]:
        return _absolute_deviations(f.features[i], f.targets[i], w, h, u)
    j = 0
    while j < w.size:
        if f.links[i, j] > 0.0:
            mean, half = (w[j] + w[j + 1]) / 2.0, _shrink((w[j] - w[j + 1]) / 2.0, h * f.links[i, j])
            u[j], u[j + 1] = mean + half, mean - half
            j += 2
        else:
            short = h / f.copies[j]
            u[j] = w[j] - short * f.linear[i, j]
            if f.kinks[i, j] > 0.0:
                u[j] = f.at[j] + _shrink(u[j] - f.at[j], short * f.kinks[i, j])
            j += 1
    return 0.0
