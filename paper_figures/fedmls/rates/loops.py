"""Compiled loops of FedMLS and of its competitors, on the losses of `paper_figures.fedmls.rates.proximal`."""

from __future__ import annotations

import heapq
import math
from typing import NamedTuple

import numpy as np

from fedtheory.compiled import njit
from paper_figures.fedmls.rates.proximal import dot, proximal_point

__all__ = ["Pace", "fedavg", "feddyn", "fedmls", "fedmls_exact", "fedprox"]

CUT = 0.8  # of `fedtheory.local.subgradient.Schedule`; the tests compare
STILL = 1e-8  # a step at which a cut schedule ends: all steps to come add up to four times as much


class Pace(NamedTuple):
    """kind: 0 constant, 1 step/sqrt(t), 2 held for `hold` rounds, then cut; limit on the rounds; target: F* + epsilon."""

    kind: int
    step: float
    hold: int
    limit: int
    target: float


@njit(cache=True)
def _copy(to, values):
    """to <- values, entry by entry: Numba compiles ``to[:] = values`` for seconds, with words for shapes that differ."""
    for j in range(to.size):
        to[j] = values[j]


@njit(cache=True)
def _step(pace, t):
    if pace.kind == 1:
        return pace.step / math.sqrt(t)
    if pace.kind == 2 and t > pace.hold:
        return pace.step * CUT ** (t - pace.hold)
    return pace.step


@njit(cache=True)
def _value(f, x):
    """F(x) without the maximum."""
    clients, samples, total = f.linear.shape[0], f.features.shape[1], 0.0
    for i in range(clients):
        for j in range(x.size):
            total += f.linear[i, j] * x[j] + f.kinks[i, j] * abs(x[j] - f.at[j])
            if f.links[i, j] > 0.0:
                total += f.links[i, j] * abs(x[j] - x[j + 1])
        for s in range(samples):
            residual = -f.targets[i, s]
            for j in range(x.size):
                residual += f.features[i, s, j] * x[j]
            total += abs(residual) / samples
    return total / clients + f.constant


@njit(cache=True, inline="always")
def _rounded(value, big):
    """The value as a multiple of the last binary place of ``big``; as it is where ``big`` is 0."""
    return (value + big) - big


@njit(cache=True, inline="always")  # a call would pass as many words as it computes
def _subgradient(f, i, u, g, h=1.0, big=0.0):
    """g <- h times a subgradient of f_i at u without the maximum, its terms `_rounded`, those of
    the samples excepted; sign(0) = 0."""
    dim, samples, carry = u.size, f.features.shape[1], 0.0
    linear, kinks, links, at = f.linear[i], f.kinks[i], f.links[i], f.at
    for j in range(dim):
        off = u[j] - at[j]
        g[j] = _rounded(h * linear[j], big) - carry
        if kinks[j] > 0.0:
            g[j] += _rounded(h * kinks[j], big) * ((off > 0.0) * 1.0 - (off < 0.0) * 1.0)
        carry = 0.0
        if links[j] > 0.0:
            off = u[j] - u[j + 1]
            carry = _rounded(h * links[j], big) * ((off > 0.0) * 1.0 - (off < 0.0) * 1.0)
            g[j] += carry
    for s in range(samples):
        row, residual = f.features[i, s], -f.targets[i, s]
        for j in range(dim):
            residual += row[j] * u[j]
        slope = h * ((residual > 0.0) * 1.0 - (residual < 0.0) * 1.0) / samples
        for j in range(dim):
            g[j] += slope * row[j]


@njit(cache=True)
def fedprox(f, pace):
    """(first round with F <= target or -1, the largest gap of a local solution) of FedProx with
    exact local solutions from 0."""
    clients, dim = f.linear.shape
    x, u, mean, largest = np.zeros(dim), np.zeros(dim), np.zeros(dim), 0.0
    for t in range(1, pace.limit + 1):
        h = _step(pace, t)
        if pace.kind == 2 and h < STILL:
            break
        mean[:] = 0.0
        for i in range(clients):
            _copy(u, x)
            largest = max(largest, proximal_point(f, i, x, h, u))
            mean += u / clients
        still = pace.kind == 0 and np.abs(mean - x).max() <= 1e-15 * (1.0 + np.abs(x).max())
        _copy(x, mean)
        if _value(f, x) <= pace.target:
            return t, largest
        if still:  # a mean of proximal maps expands no distance, so that the moves of a constant step never grow again
            break
    return -1, largest


@njit(cache=True)
def feddyn(f, pace):
    """The same for FedDyn with alpha = 1/step: theta + gradient_i/alpha is kept, as in Douglas and Rachford's splitting."""
    clients, dim = f.linear.shape
    x, mean, largest = np.zeros(dim), np.zeros(dim), 0.0
    points, solved = np.zeros((clients, dim)), np.zeros((clients, dim))
    for t in range(1, pace.limit + 1):
        mean[:] = 0.0
        for i in range(clients):
            largest = max(largest, proximal_point(f, i, points[i], pace.step, solved[i]))
            mean += (2.0 * solved[i] - points[i]) / clients
        _copy(x, mean)
        for i in range(clients):
            _copy(points[i], points[i] + (x - solved[i]))
        if _value(f, x) <= pace.target:
            return t, largest
    return -1, largest


@njit(cache=True)
def fedmls_exact(f, pace, radius):
    """The same for FedMLS with lambda = step and exact local solutions, T_k without end, as long as
    they stay in the ball.

    The server projects z_k; where a local solution leaves the ball the run ends, as not reached: it
    is not the one on the ball.
    """
    clients, dim = f.linear.shape
    lam, largest = pace.step, 0.0
    x, z, y, mean = np.zeros(dim), np.zeros(dim), np.zeros(dim), np.zeros(dim)
    sent, x_local, z_local = np.zeros((clients, dim)), np.zeros((clients, dim)), np.zeros((clients, dim))
    for k in range(1, pace.limit + 1):
        gamma, beta = 2.0 / (k + 1), 4.0 / (lam * k)
        mean[:] = 0.0
        for i in range(clients):
            _copy(sent[i], (1 - gamma) * x_local[i] + gamma * z_local[i])
            mean += sent[i] / clients
        y = (1 - gamma) * x + gamma * z
        z -= k / 4.0 * (y - mean)
        size = math.sqrt((f.copies * z * z).sum())
        if size > radius:
            z *= radius / size
        x = (1 - gamma) * x + gamma * z
        if _value(f, x) <= pace.target:
            return k, largest
        for i in range(clients):
            largest = max(largest, proximal_point(f, i, z_local[i] - (sent[i] - y) / (lam * beta), 1.0 / beta, z_local[i]))
            if (f.copies * z_local[i] * z_local[i]).sum() > radius * radius:
                return -1, largest
            _copy(x_local[i], (1 - gamma) * x_local[i] + gamma * z_local[i])
    return -1, largest


# --- local subgradient steps ----------------------------------------------------------------------
@njit(cache=True)
def _top(heap, values):
    """The largest coordinate of the share and its first index; entries that are out of date are dropped."""
    while True:
        low, j = heap[0]
        if -low == values[j]:
            return -low, j
        heapq.heappop(heap)


@njit(cache=True)
def _share_round(heap, values, touched, last_touched, t, steps, length, floor, clients):
    """Round t of one client's local steps on its share, then the mean over clients, of whom one moved it."""
    count = 0
    for _ in range(steps):
        top, j = _top(heap, values)
        if top < -floor:
            break
        if last_touched[j] < t:
            last_touched[j] = t
            touched[count, 0], touched[count, 1] = j, top
            count += 1
        values[j] = top - length
        heapq.heapreplace(heap, (-values[j], j))
    for q in range(count):
        j = int(touched[q, 0])
        values[j] = touched[q, 1] + (values[j] - touched[q, 1]) / clients
        heapq.heappush(heap, (-values[j], j))


@njit(cache=True)
def _grid(f, pace, steps):
    """The least slope of a link or kink, and a number whose last binary place is the unit of a
    walk: 0, for none, where there are neither, and where the number of clients is no power of 2.

    Moves that are multiples of the unit, and their means over the clients, add up without rounding:
    no coordinate takes more than 53 binary places from the range of the walk on.
    """
    clients, dim = f.linear.shape
    slope, least, furthest = f.weight, math.inf, f.floor
    for j in range(dim):
        furthest = max(furthest, abs(f.at[j]))
        for i in range(clients):
            before = f.links[i, j - 1] if j else 0.0
            slope = max(slope, abs(f.linear[i, j]) + f.kinks[i, j] + f.links[i, j] + before)
            for each in (f.kinks[i, j], f.links[i, j]):
                if each > 0.0:
                    least = min(least, each)
    if least == math.inf or clients & (clients - 1):
        return 1.0, 0.0
    reach = 4.0 * (furthest + steps * pace.step * slope)
    return least, 1.5 * clients * clients * 2.0 ** math.ceil(math.log2(reach))


@njit(cache=True)
def fedavg(f, pace, steps):
    """First round with F <= target, or -1, of FedAvg with that many local subgradient steps from 0
    (1: the distributed subgradient method).

    A walk along links and kinks comes back to where they do not pull, and rounding must not decide
    sign(0) = 0. So every move is a multiple of `_grid`'s unit, 2^-50 of the walk's range with two
    clients: the steps are changed by half a unit at most, and what is a whole number of the
    shortest moves stays one.
    """
    clients, dim = f.linear.shape
    x, u, g, mean = np.zeros(dim), np.zeros(dim), np.zeros(dim), np.zeros(dim)
    values = np.zeros(max(1, f.share))
    heap = [(0.0, j) for j in range(values.size)]
    touched, last_touched = np.zeros((steps, 2)), np.zeros(values.size, dtype=np.int64)
    least, big = _grid(f, pace, steps)
    for t in range(1, pace.limit + 1):
        h = _step(pace, t)
        if pace.kind == 2 and h < STILL:
            break
        h = _rounded(h * least, big) / least
        mean[:] = 0.0
        for i in range(clients):
            _copy(u, x)
            for _ in range(steps):
                _subgradient(f, i, u, g, h, big)
                u -= g
            mean += u / clients
        _copy(x, mean)
        value = _value(f, x)
        if f.share:
            _share_round(heap, values, touched, last_touched, t, steps, _rounded(h * f.weight, big), f.floor, clients)
            value += f.weight * max(_top(heap, values)[0], -f.floor)
        if value <= pace.target:
            return t
    return -1


@njit(cache=True)
def _share_steps(f, T, beta, own, pull, other, away, total):
    """T local steps on a share from z', in place: at its own client (own, towards pull) and at
    another (other, towards away).

    total <- the averages, one row each. At another client no loss is felt, so that T steps are two
    numbers: times where they begin, and times what pulls. The largest ||.||^2 on the way of a share
    of every client, at one client.
    """
    start_sq, both, pulled_sq = dot(other, other), dot(other, away), dot(away, away)
    last, after, average, mixed, largest = 1.0, 0.0, 0.0, 0.0, 0.0
    total[:] = 0.0
    for t in range(1, T + 1):
        h, best = 2.0 / ((2.0 + t) * beta), 0
        for j in range(1, own.size):
            if own[j] > own[best]:
                best = j
        lowered = h * f.weight if own[best] >= -f.floor else 0.0
        for j in range(own.size):
            own[j] -= h * (beta * own[j] - pull[j])
        own[best] -= lowered
        for j in range(own.size):
            total[0, j] += (t + 1) * own[j]
        last, after = last * (1.0 - h * beta), after * (1.0 - h * beta) + h
        average, mixed = average + (t + 1) * last, mixed + (t + 1) * after
        others = last * last * start_sq + 2.0 * last * after * both + after * after * pulled_sq
        largest = max(largest, dot(own, own) + (f.linear.shape[0] - 1) * others)
    weights = T * (T + 3.0) / 2.0
    _copy(total[0], total[0] / weights)
    _copy(total[1], (average * other + mixed * away) / weights)
    _copy(other, last * other + after * away)
    return largest


@njit(cache=True)
def _local_steps(f, i, T, beta, u, pull, total, room):
    """T local steps of client i from u on all but the shares, in place; total <- their average.
    Whether the ball's rest, ||.||^2 <= room, was left, and projected onto."""
    dim, left = u.size, False
    g = np.empty(dim)
    total[:] = 0.0
    for t in range(1, T + 1):
        h = 2.0 / ((2.0 + t) * beta)
        _subgradient(f, i, u, g)
        size_sq = 0.0
        for j in range(dim):
            u[j] -= h * (g[j] + beta * u[j] - pull[j])
            size_sq += u[j] * u[j]
        if size_sq > room:
            left = True
            u *= math.sqrt(max(room, 0.0) / size_sq)
        for j in range(dim):
            total[j] += (t + 1) * u[j]
    total /= T * (T + 3.0) / 2.0
    return left


@njit(cache=True)
def fedmls(f, counts, lam, radius):
    """x_K of FedMLS with T_k = counts[k - 1] from 0, the shares' coordinates first: line 14
    averaged, the server projects, round K's local work is skipped. NaN where there are shares and
    local steps leave the ball, or may: the largest square of a round's shares is taken with that of
    the rest at every step.

    The shares are alike: kept are one of the server's, and one at its own client and at another.
    Rows 0 to N - 1 are the clients' other coordinates, row N a share at its own client, row N + 1
    at another.
    """
    N, dim, share, rounds = f.linear.shape[0], f.linear.shape[1], f.share, len(counts)
    size = max(dim, share)
    x, z, y, mean = np.zeros((2, size)), np.zeros((2, size)), np.zeros((2, size)), np.zeros((2, size))  # row 1: a share
    sent, x_local, z_local, pull = (
        np.zeros((N + 2, size)), np.zeros((N + 2, size)), np.zeros((N + 2, size)),
        np.zeros((N + 2, size)),
    )
    total, averages = np.zeros(dim), np.zeros((2, share))
    for k in range(1, rounds + 1):
        gamma, beta, T = 2.0 / (k + 1), 4.0 / (lam * k), counts[k - 1]
        sent = (1 - gamma) * x_local + gamma * z_local
        _copy(mean[0], sent[0] / N)
        for i in range(1, N):
            _copy(mean[0], mean[0] + sent[i] / N)
        _copy(mean[1], sent[N] / N + sent[N + 1] * ((N - 1.0) / N))
        y = (1 - gamma) * x + gamma * z
        z -= k / 4.0 * (y - mean)
        norm = math.sqrt(dot(z[0], z[0]) + N * dot(z[1], z[1]))
        if norm > radius:
            z *= radius / norm
        x = (1 - gamma) * x + gamma * z
        if k == rounds:
            break
        for i in range(N + 2):
            _copy(pull[i], beta * z_local[i] - (sent[i] - y[0 if i < N else 1]) / lam)  # beta u_0 - g
        room = radius * radius
        if share:
            own, other = z_local[N, :share], z_local[N + 1, :share]
            room -= _share_steps(f, T, beta, own, pull[N, :share], other, pull[N + 1, :share], averages)
            for r in range(2):
                _copy(x_local[N + r, :share], (1 - gamma) * x_local[N + r, :share] + gamma * averages[r])
        for i in range(N):
            if _local_steps(f, i, T, beta, z_local[i, :dim], pull[i, :dim], total, room) and share:
                return np.full(N * share + dim, math.nan)
            _copy(x_local[i, :dim], (1 - gamma) * x_local[i, :dim] + gamma * total)
    out = np.empty(N * share + dim)
    for i in range(N):
        _copy(out[i * share : (i + 1) * share], x[1, :share])
    _copy(out[N * share :], x[0, :dim])
    return out
