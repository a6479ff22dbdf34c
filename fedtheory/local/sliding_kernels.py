"""Compiled loops of subgradient sliding; imported only when a compiled run is asked for.

Every walk takes (first, last, per, form, points, pace, drawn): rows first..last of all, `per` rows a client; the arrays and numbers of
the problem's compiled form; and three tuples, `Points`, `Pace` and `Drawn`.

Elementwise work keeps NumPy's order of operations. Only sums over samples and coordinates are reordered.

Points are padded with zeros to a multiple of eight coordinates, and samples to a multiple of eight with weight 0, so that the loops of
a step are whole vectors (`fedtheory.local.lanes`).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from fedtheory.compiled import njit
from fedtheory.local.lanes import above, entries, fused, load, load_one, splat, store, store_one, total, totals

__all__ = ["WALKS", "Drawn", "Pace", "Points"]

LAD, QUANTILE, HINGE = 0, 1, 2


class Points(NamedTuple):
    """(rows, d padded) each: where the walks are and their points' averages, both overwritten; the penalty's centre and linear part."""

    u: np.ndarray
    average: np.ndarray
    center: np.ndarray
    linear: np.ndarray


class Pace(NamedTuple):
    """The penalty's curvature, the ball's radius, d, and steps done + 1..done + steps."""

    beta: float
    radius: float
    dim: int
    done: int
    steps: int


class Drawn(NamedTuple):
    """Noise (rows, steps, d) and sample numbers (rows, steps, b), empty where not wanted."""

    noise: np.ndarray
    samples: np.ndarray


@njit(cache=True, nogil=True)
def _norm_sq(u, width):
    squares = splat(0.0)
    for i in range(0, width, 8):
        squares = fused(load(u, i), load(u, i), squares)
    return total(squares)


@njit(cache=True, nogil=True)
def _row(points, r):
    """Where row r's point, average, centre and linear part lie."""
    u, average, center, linear = points
    return entries(u[r]), entries(average[r]), entries(center[r]), entries(linear[r])


@njit(cache=True, nogil=True)
def _finish(row, gradient, noise, noisy, r, s, pace, width):
    """Noise (rows, steps, d) and lines 22-24 of step s with the subgradient at hand."""
    (u, average, center, linear), (beta, radius, dim, done, steps) = row, pace
    t = done + s + 1
    if noisy:
        at = (r * steps + s) * dim
        for i in range(dim):
            store_one(gradient, i, load_one(gradient, i) + load_one(noise, at + i))
    step, curvature = splat(1.0 / ((1.0 + 0.5 * t) * beta)), splat(beta)
    for i in range(0, width, 8):
        here = load(u, i)
        pull = (here - load(center, i)) * curvature - load(linear, i)
        store(u, i, here - (load(gradient, i) + pull) * step)
    if radius < math.inf:
        norm_sq = _norm_sq(u, width)
        if norm_sq > radius * radius * (1.0 - 1e-9):  # the root only where it may matter
            norm = math.sqrt(norm_sq)
            if norm > radius:
                scale = splat(radius / norm)
                for i in range(0, width, 8):
                    store(u, i, load(u, i) * scale)
    if t == 1:
        for i in range(0, width, 8):
            store(average, i, load(u, i))
    else:
        theta = 2.0 * (t + 1) / (t * (t + 3.0))
        old, new = splat(1.0 - theta), splat(theta)
        for i in range(0, width, 8):
            store(average, i, old * load(average, i) + new * load(u, i))


# --- linear models: features as tiles (N, n/8, d, 8) of eight samples -----------------------------
@njit(cache=True, nogil=True)
def _slope(loss, tau, z, target, share):
    """share_j phi'(z_j, b_j) of eight samples, with the problems' choices at kinks."""
    if loss == LAD:
        return share * (above(z, target) - above(target, z))
    if loss == QUANTILE:
        return share * (splat(1.0 - tau) * above(z, target) - splat(tau) * above(target, z))
    return share * ((splat(0.0) - target) * above(splat(1.0), target * z))


@njit(cache=True, nogil=True)
def _slopes(loss, tau, tiles, targets, shares, u, dim, width, blocks, slopes):
    """The slopes of all samples at u: two tiles at a time, as each coordinate of u is read once for both."""
    for b in range(0, blocks - 1, 2):
        p, q = 8 * b * width, 8 * (b + 1) * width
        even = odd = even_2 = odd_2 = splat(0.0)
        for i in range(0, dim, 2):
            first, second = splat(load_one(u, i)), splat(load_one(u, i + 1))
            even, odd = fused(load(tiles, p + 8 * i), first, even), fused(load(tiles, p + 8 * i + 8), second, odd)
            even_2, odd_2 = fused(load(tiles, q + 8 * i), first, even_2), fused(load(tiles, q + 8 * i + 8), second, odd_2)
        at, after = 8 * b, 8 * b + 8
        store(slopes, at, _slope(loss, tau, even + odd, load(targets, at), load(shares, at)))
        store(slopes, after, _slope(loss, tau, even_2 + odd_2, load(targets, after), load(shares, after)))
    if blocks % 2:
        at = 8 * (blocks - 1)
        p, even, odd = at * width, splat(0.0), splat(0.0)
        for i in range(0, dim, 2):
            even = fused(load(tiles, p + 8 * i), splat(load_one(u, i)), even)
            odd = fused(load(tiles, p + 8 * i + 8), splat(load_one(u, i + 1)), odd)
        store(slopes, at, _slope(loss, tau, even + odd, load(targets, at), load(shares, at)))


@njit(cache=True, nogil=True)
def _combine(tiles, slopes, width, blocks, gradient):
    """gradient <- sum_j slope_j a_j: eight coordinates at a time."""
    for i in range(0, width, 8):
        a = b = c = d = e = f = g = h = splat(0.0)
        for block in range(blocks):
            slope, p = load(slopes, 8 * block), 8 * (block * width + i)
            a, b = fused(load(tiles, p), slope, a), fused(load(tiles, p + 8), slope, b)
            c, d = fused(load(tiles, p + 16), slope, c), fused(load(tiles, p + 24), slope, d)
            e, f = fused(load(tiles, p + 32), slope, e), fused(load(tiles, p + 40), slope, f)
            g, h = fused(load(tiles, p + 48), slope, g), fused(load(tiles, p + 56), slope, h)
        store(gradient, i, totals(a, b, c, d, e, f, g, h))


@njit(cache=True, nogil=True)
def _sampled(loss, tau, tiles, targets, samples, r, s, u, dim, width, gradient):
    """The subgradient of the picked samples only."""
    count = samples.shape[2]
    for i in range(dim):
        gradient[i] = 0.0
    for p in range(count):
        picked = samples[r, s, p]
        at, z = 8 * (picked // 8) * width + picked % 8, 0.0
        for i in range(dim):
            z += load_one(tiles, at + 8 * i) * u[i]
        target = load_one(targets, picked)
        if loss == LAD:
            slope = (z > target) * 1.0 - (z < target) * 1.0
        elif loss == QUANTILE:
            slope = (1.0 - tau) * ((z > target) * 1.0) - tau * ((z < target) * 1.0)
        else:
            slope = -target * ((target * z < 1.0) * 1.0)
        slope *= 1.0 / count
        for i in range(dim):
            gradient[i] += load_one(tiles, at + 8 * i) * slope


@njit(cache=True, nogil=True)
def linear_model(first, last, per, form, points, pace, drawn):
    loss, tau, ridge, all_tiles, all_targets, all_shares = form
    samples, noise, noisy = drawn.samples, entries(drawn.noise), drawn.noise.size > 0
    width, blocks, dim = points.u.shape[1], all_tiles.shape[1], pace.dim
    room, slope_room = np.zeros(width), np.zeros(8 * blocks)
    gradient, slopes = entries(room), entries(slope_room)
    for r in range(first, last):
        row, k, point = _row(points, r), r // per, points.u[r]
        tiles, targets = entries(all_tiles[k]), entries(all_targets[k])
        shares, u = entries(all_shares[k]), row[0]
        for s in range(pace.steps):
            if samples.shape[2]:
                _sampled(loss, tau, tiles, targets, samples, r, s, point, dim, width, room)
            else:
                _slopes(loss, tau, tiles, targets, shares, u, dim, width, blocks, slopes)
                _combine(tiles, slopes, width, blocks, gradient)
            if ridge:
                for i in range(0, width, 8):
                    store(gradient, i, load(gradient, i) + splat(ridge) * load(u, i))
            _finish(row, gradient, noise, noisy, r, s, pace, width)


# --- maxima ---------------------------------------------------------------------------------------
@njit(cache=True, nogil=True)
def max_affine(first, last, per, form, points, pace, drawn):
    all_slopes, all_offsets = form
    width, pieces, noise = points.u.shape[1], all_offsets.shape[1], drawn.noise
    room = np.zeros(width)
    gradient = entries(room)
    for r in range(first, last):
        row, slopes, offsets = _row(points, r), entries(all_slopes[r // per]), all_offsets[r // per]
        for s in range(pace.steps):
            best, top = 0, -math.inf
            for j in range(pieces):
                products = splat(0.0)
                for i in range(0, width, 8):
                    products = fused(load(slopes, j * width + i), load(row[0], i), products)
                value = total(products) + offsets[j]
                if value > top:
                    best, top = j, value
            for i in range(0, width, 8):
                store(gradient, i, load(slopes, best * width + i))
            _finish(row, gradient, entries(noise), noise.size > 0, r, s, pace, width)


@njit(cache=True, nogil=True)
def largest_coordinate(first, last, per, form, points, pace, drawn):
    """max_j x_j + (mu/2)||x||^2."""
    (mu,), width, noise = form, points.u.shape[1], drawn.noise
    gradient = np.zeros(width)
    for r in range(first, last):
        u, row = points.u[r], _row(points, r)
        for s in range(pace.steps):
            best = 0
            for i in range(1, pace.dim):
                if u[i] > u[best]:
                    best = i
            for i in range(pace.dim):
                gradient[i] = mu * u[i]
            gradient[best] = 1.0 + mu * u[best]
            _finish(row, entries(gradient), entries(noise), noise.size > 0, r, s, pace, width)


# --- distances and chains -------------------------------------------------------------------------
@njit(cache=True, nogil=True)
def separable(first, last, per, form, points, pace, drawn):
    """sum_i pull_i x_i + slope_i |x_i - kink_i|: the l1 distance and the two-client pull."""
    (pulls, slopes, kinks), width, noise = form, points.u.shape[1], drawn.noise
    gradient = np.zeros(width)
    for r in range(first, last):
        u, row = points.u[r], _row(points, r)
        p, a, c = pulls[r // per], slopes[r // per], kinks[r // per]
        for s in range(pace.steps):
            for i in range(pace.dim):
                gap = u[i] - c[i]
                gradient[i] = p[i] + a[i] * ((gap > 0.0) * 1.0 - (gap < 0.0) * 1.0)
            _finish(row, entries(gradient), entries(noise), noise.size > 0, r, s, pace, width)


@njit(cache=True, nogil=True)
def distance(first, last, per, form, points, pace, drawn):
    """||x - point||."""
    (places,), width, noise = form, points.u.shape[1], drawn.noise
    gradient = np.zeros(width)
    for r in range(first, last):
        u, row, c = points.u[r], _row(points, r), places[r // per]
        for s in range(pace.steps):
            for i in range(pace.dim):
                gradient[i] = u[i] - c[i]
            size = math.sqrt(_norm_sq(entries(gradient), width))
            if size > 0.0:
                for i in range(pace.dim):
                    gradient[i] /= size
            _finish(row, entries(gradient), entries(noise), noise.size > 0, r, s, pace, width)


@njit(cache=True, nogil=True)
def _links(gradient, u, head, link, end, at, d):
    """Of head |v_1 - end| + sum_j link_j |v_j - v_{j+1}|, v = u from `at` on."""
    gradient[at] = head * ((u[at] > end) * 1.0 - (u[at] < end) * 1.0)
    for i in range(at, d - 1):
        pull = link[i - at] * ((u[i] > u[i + 1]) * 1.0 - (u[i] < u[i + 1]) * 1.0)
        gradient[i] += pull
        gradient[i + 1] = -pull


@njit(cache=True, nogil=True)
def chain(first, last, per, form, points, pace, drawn):
    """head |x_1 - end| + sum_j link_j |x_j - x_{j+1}|."""
    (heads, links, end), width, noise = form, points.u.shape[1], drawn.noise
    gradient = np.zeros(width)
    for r in range(first, last):
        u, row, head, link = points.u[r], _row(points, r), heads[r // per], links[r // per]
        for s in range(pace.steps):
            _links(gradient, u, head, link, end, 0, pace.dim)
            _finish(row, entries(gradient), entries(noise), noise.size > 0, r, s, pace, width)


@njit(cache=True, nogil=True)
def maximum_and_chain(first, last, per, form, points, pace, drawn):
    """weight max(max_{j in the share} y_j, -floor), and a chain of what comes after y."""
    (starts, share, count, (weight, floor, end), heads, links), noise = form, drawn.noise
    width = points.u.shape[1]
    gradient = np.zeros(width)
    for r in range(first, last):
        u, row = points.u[r], _row(points, r)
        start, head, link = starts[r // per], heads[r // per], links[r // per]
        for s in range(pace.steps):
            gradient[:count] = 0.0
            best = start
            for i in range(start + 1, start + share):
                if u[i] > u[best]:
                    best = i
            if u[best] >= -floor:
                gradient[best] = weight
            _links(gradient, u, head, link, end, count, pace.dim)
            _finish(row, entries(gradient), entries(noise), noise.size > 0, r, s, pace, width)


WALKS = {
    "linear model": linear_model,
    "max affine": max_affine,
    "largest coordinate": largest_coordinate,
    "separable": separable,
    "distance": distance,
    "chain": chain,
    "maximum and chain": maximum_and_chain,
}
