"""Compiled loops of subgradient sliding; imported only when a compiled run is asked for.

Every walk takes (first, last, per, form, points, pace, drawn): rows first..last of all, `per` rows a client; the arrays and numbers of
the problem's compiled form; and three tuples, `Points`, `Pace` and `Drawn`.

Elementwise work keeps NumPy's order of operations. Only sums over samples and coordinates are reordered.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from fedtheory.compiled import njit

__all__ = ["WALKS", "Drawn", "Pace", "Points"]

_SUM = {"reassoc", "contract", "nsz"}  # sums may be reordered and fused, nothing else
LAD, QUANTILE, HINGE = 0, 1, 2


class Points(NamedTuple):
    """(rows, d) each: where the walks are and the averages of their points, both overwritten; the penalty's centre and linear part."""

    u: np.ndarray
    average: np.ndarray
    center: np.ndarray
    linear: np.ndarray


class Pace(NamedTuple):
    """The penalty's curvature, the ball's radius, and steps done + 1..done + steps."""

    beta: float
    radius: float
    done: int
    steps: int


class Drawn(NamedTuple):
    """Noise (rows, steps, d) and sample numbers (rows, steps, b), empty where not wanted."""

    noise: np.ndarray
    samples: np.ndarray


@njit(cache=True, nogil=True, fastmath=_SUM)
def _norm_sq(u):
    total = 0.0
    for i in range(u.size):
        total += u[i] * u[i]
    return total


@njit(cache=True, nogil=True, inline="always")  # a call would pass sixty words a step
def _finish(t, u, average, gradient, center, linear, beta, radius, noisy, noise, r, s):
    """Lines 22-24 with the subgradient at hand."""
    step = 1.0 / ((1.0 + 0.5 * t) * beta)
    if noisy:
        for i in range(u.size):
            gradient[i] += noise[r, s, i]
    for i in range(u.size):
        u[i] -= (gradient[i] + ((u[i] - center[i]) * beta - linear[i])) * step
    if radius < math.inf:
        norm_sq = _norm_sq(u)
        if norm_sq > radius * radius * (1.0 - 1e-9):  # the root only where it may matter
            norm = math.sqrt(norm_sq)
            if norm > radius:
                scale = radius / norm
                for i in range(u.size):
                    u[i] *= scale
    theta = 2.0 * (t + 1) / (t * (t + 3.0))
    if t == 1:
        for i in range(u.size):
            average[i] = u[i]
    else:
        for i in range(u.size):
            average[i] = (1.0 - theta) * average[i] + theta * u[i]


# --- linear models: features as (N, d, n), so that all loops run over samples ------------------------------------------------
@njit(cache=True, nogil=True, fastmath=_SUM)
def _predict(features, targets, u, z):
    d, n = features.shape
    for j in range(n):
        z[j] = 0.0
    for q in range(d // 4):
        i = 4 * q
        r0, r1, r2, r3 = features[i], features[i + 1], features[i + 2], features[i + 3]
        a0, a1, a2, a3 = u[i], u[i + 1], u[i + 2], u[i + 3]
        for j in range(n):
            z[j] += r0[j] * a0 + r1[j] * a1 + r2[j] * a2 + r3[j] * a3
    for i in range(4 * (d // 4), d):
        row, a = features[i], u[i]
        for j in range(n):
            z[j] += row[j] * a


@njit(cache=True, nogil=True)
def _slopes(loss, tau, targets, share, z):
    """z <- share_j phi'(z_j, b_j), with the problems' choices at kinks."""
    if loss == LAD:
        for j in range(z.size):
            r = z[j] - targets[j]
            z[j] = share[j] * ((r > 0.0) * 1.0 - (r < 0.0) * 1.0)
    elif loss == QUANTILE:
        for j in range(z.size):
            z[j] = share[j] * ((1.0 - tau) * ((z[j] > targets[j]) * 1.0) - tau * ((z[j] < targets[j]) * 1.0))
    else:
        for j in range(z.size):
            z[j] = share[j] * (-targets[j] * ((targets[j] * z[j] < 1.0) * 1.0))


@njit(cache=True, nogil=True, fastmath=_SUM)
def _combine(features, slopes, gradient):
    d, n = features.shape
    for q in range(d // 4):
        i = 4 * q
        r0, r1, r2, r3 = features[i], features[i + 1], features[i + 2], features[i + 3]
        s0 = s1 = s2 = s3 = 0.0
        for j in range(n):
            a = slopes[j]
            s0 += r0[j] * a
            s1 += r1[j] * a
            s2 += r2[j] * a
            s3 += r3[j] * a
        gradient[i], gradient[i + 1], gradient[i + 2], gradient[i + 3] = s0, s1, s2, s3
    for i in range(4 * (d // 4), d):
        total, row = 0.0, features[i]
        for j in range(n):
            total += row[j] * slopes[j]
        gradient[i] = total


@njit(cache=True, nogil=True)
def _sampled(loss, tau, features, targets, picked, u, z, target, share, gradient):
    """The subgradient of the picked samples only."""
    d, b = u.size, picked.size
    for p in range(b):
        total = 0.0
        for i in range(d):
            total += features[i, picked[p]] * u[i]
        z[p], target[p], share[p] = total, targets[picked[p]], 1.0 / b
    _slopes(loss, tau, target, share, z)
    for i in range(d):
        total = 0.0
        for p in range(b):
            total += features[i, picked[p]] * z[p]
        gradient[i] = total


@njit(cache=True, nogil=True)
def linear_model(first, last, per, form, points, pace, drawn):
    loss, tau, ridge, features, targets, shares = form
    u_all, average_all, centers, linears = points
    beta, radius, done, steps = pace
    noise, samples = drawn
    d, b = u_all.shape[1], samples.shape[2]
    gradient = np.empty(d)
    z = np.empty(features.shape[2])
    zb, target, share = np.empty(b), np.empty(b), np.empty(b)
    noisy = noise.size > 0
    for r in range(first, last):
        u, average, center, linear = u_all[r], average_all[r], centers[r], linears[r]
        a, y, w = features[r // per], targets[r // per], shares[r // per]
        for s in range(steps):
            if b:
                _sampled(loss, tau, a, y, samples[r, s], u, zb, target, share, gradient)
            else:
                _predict(a, y, u, z)
                _slopes(loss, tau, y, w, z)
                _combine(a, z, gradient)
            if ridge:
                for i in range(d):
                    gradient[i] += ridge * u[i]
            _finish(done + s + 1, u, average, gradient, center, linear, beta, radius, noisy, noise, r, s)


# --- maxima ------------------------------------------------------------------------------------------------------------------
@njit(cache=True, nogil=True, fastmath=_SUM)
def _piece(slope, u):
    total = 0.0
    for i in range(u.size):
        total += slope[i] * u[i]
    return total


@njit(cache=True, nogil=True)
def max_affine(first, last, per, form, points, pace, drawn):
    slopes, offsets = form
    u_all, average_all, centers, linears = points
    beta, radius, done, steps = pace
    noise = drawn.noise
    d = u_all.shape[1]
    gradient, noisy = np.empty(d), noise.size > 0
    for r in range(first, last):
        u, average, center, linear = u_all[r], average_all[r], centers[r], linears[r]
        a, b = slopes[r // per], offsets[r // per]
        for s in range(steps):
            best, top = 0, -math.inf
            for j in range(b.size):
                value = _piece(a[j], u) + b[j]
                if value > top:
                    best, top = j, value
            for i in range(d):
                gradient[i] = a[best, i]
            _finish(done + s + 1, u, average, gradient, center, linear, beta, radius, noisy, noise, r, s)


@njit(cache=True, nogil=True)
def largest_coordinate(first, last, per, form, points, pace, drawn):
    """max_j x_j + (mu/2)||x||^2."""
    (mu,) = form
    u_all, average_all, centers, linears = points
    beta, radius, done, steps = pace
    noise = drawn.noise
    d = u_all.shape[1]
    gradient, noisy = np.empty(d), noise.size > 0
    for r in range(first, last):
        u, average, center, linear = u_all[r], average_all[r], centers[r], linears[r]
        for s in range(steps):
            best = 0
            for i in range(1, d):
                if u[i] > u[best]:
                    best = i
            for i in range(d):
                gradient[i] = mu * u[i]
            gradient[best] = 1.0 + mu * u[best]
            _finish(done + s + 1, u, average, gradient, center, linear, beta, radius, noisy, noise, r, s)


# --- distances and chains ----------------------------------------------------------------------------------------------------
@njit(cache=True, nogil=True)
def separable(first, last, per, form, points, pace, drawn):
    """sum_i pull_i x_i + slope_i |x_i - kink_i|: the l1 distance and the two-client pull."""
    pulls, slopes, kinks = form
    u_all, average_all, centers, linears = points
    beta, radius, done, steps = pace
    noise = drawn.noise
    d = u_all.shape[1]
    gradient, noisy = np.empty(d), noise.size > 0
    for r in range(first, last):
        u, average, center, linear = u_all[r], average_all[r], centers[r], linears[r]
        p, a, c = pulls[r // per], slopes[r // per], kinks[r // per]
        for s in range(steps):
            for i in range(d):
                gap = u[i] - c[i]
                gradient[i] = p[i] + a[i] * ((gap > 0.0) * 1.0 - (gap < 0.0) * 1.0)
            _finish(done + s + 1, u, average, gradient, center, linear, beta, radius, noisy, noise, r, s)


@njit(cache=True, nogil=True)
def distance(first, last, per, form, points, pace, drawn):
    """||x - point||."""
    (places,) = form
    u_all, average_all, centers, linears = points
    beta, radius, done, steps = pace
    noise = drawn.noise
    d = u_all.shape[1]
    gradient, noisy = np.empty(d), noise.size > 0
    for r in range(first, last):
        u, average, center, linear = u_all[r], average_all[r], centers[r], linears[r]
        c = places[r // per]
        for s in range(steps):
            for i in range(d):
                gradient[i] = u[i] - c[i]
            size = math.sqrt(_norm_sq(gradient))
            if size > 0.0:
                for i in range(d):
                    gradient[i] /= size
            _finish(done + s + 1, u, average, gradient, center, linear, beta, radius, noisy, noise, r, s)


@njit(cache=True, nogil=True)
def chain(first, last, per, form, points, pace, drawn):
    """head |x_1 - end| + sum_j link_j |x_j - x_{j+1}|."""
    heads, links, end = form
    u_all, average_all, centers, linears = points
    beta, radius, done, steps = pace
    noise = drawn.noise
    d = u_all.shape[1]
    gradient, noisy = np.empty(d), noise.size > 0
    for r in range(first, last):
        u, average, center, linear = u_all[r], average_all[r], centers[r], linears[r]
        head, link = heads[r // per], links[r // per]
        for s in range(steps):
            gradient[0] = head * ((u[0] > end) * 1.0 - (u[0] < end) * 1.0)
            for i in range(d - 1):
                pull = link[i] * ((u[i] > u[i + 1]) * 1.0 - (u[i] < u[i + 1]) * 1.0)
                gradient[i] += pull
                gradient[i + 1] = -pull
            _finish(done + s + 1, u, average, gradient, center, linear, beta, radius, noisy, noise, r, s)


@njit(cache=True, nogil=True)
def maximum_and_chain(first, last, per, form, points, pace, drawn):
    """weight max(max_{j in the share} y_j, -floor), and head |v_1 - end| + sum_j link_j |v_j - v_{j+1}|."""
    starts, share, count, numbers, heads, links = form
    weight, floor, end = numbers
    u_all, average_all, centers, linears = points
    beta, radius, done, steps = pace
    noise = drawn.noise
    d = u_all.shape[1]
    gradient, noisy = np.zeros(d), noise.size > 0
    for r in range(first, last):
        u, average, center, linear = u_all[r], average_all[r], centers[r], linears[r]
        start, head, link = starts[r // per], heads[r // per], links[r // per]
        for s in range(steps):
            gradient[:count] = 0.0
            best = start
            for i in range(start + 1, start + share):
                if u[i] > u[best]:
                    best = i
            if u[best] >= -floor:
                gradient[best] = weight
            gradient[count] = head * ((u[count] > end) * 1.0 - (u[count] < end) * 1.0)
            for i in range(count, d - 1):
                pull = link[i - count] * ((u[i] > u[i + 1]) * 1.0 - (u[i] < u[i + 1]) * 1.0)
                gradient[i] += pull
                gradient[i + 1] = -pull
            _finish(done + s + 1, u, average, gradient, center, linear, beta, radius, noisy, noise, r, s)


WALKS = {
    "linear model": linear_model,
    "max affine": max_affine,
    "largest coordinate": largest_coordinate,
    "separable": separable,
    "distance": distance,
    "chain": chain,
    "maximum and chain": maximum_and_chain,
}
