"""The pieces of the measured rates' loops, each a second time in plain Python: values, proximal points, their gap, and local steps.

They are run here as Python runs them, which saves compiling them once more; `test_rates_loops` runs them compiled.
"""

from __future__ import annotations

import importlib.util
import itertools
import math

import numba
import numpy as np
import pytest


def interpreted(name):
    """A copy of the module whose functions are not compiled; the module itself, which the copy may import, is imported before."""
    spec = importlib.import_module(f"paper_figures.fedmls.rates.{name}").__spec__
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(numba.config, "DISABLE_JIT", 1)
        spec.loader.exec_module(module)
    return module


proximal, loops = interpreted("proximal"), interpreted("loops")
loops.dot, loops.proximal_point = proximal.dot, proximal.proximal_point
Losses, Pace, proximal_point = proximal.Losses, loops.Pace, proximal.proximal_point
LINEAR = np.array([[0.75, -1.25, 0.5, 2.25, -0.375], [-0.625, 0.875, 1.5, -0.25, 1.125]])
KINKS = np.array([[1.75, 0.0, 0.0, 0.0, 0.625], [0.0, 0.0, 0.0, 2.5, 0.875]])
LINKS = np.array([[0.0, 1.375, 0.0, 0.0, 0.0], [0.4375, 0.0, 0.0, 0.0, 0.0]])
AT, COPIES = np.array([0.3, -0.7, 1.1, -1.9, 0.6]), np.array([1.0, 1.0, 1.0, 3.0, 2.0])
ROWS = np.array([[[0.3, -1.7, 0.9, 1.2, 0.4], [2.2, 0.4, -0.6, 0.8, -1.1], [-0.9, 0.8, 1.3, -0.5, 0.7]],
                 [[1.9, 1.1, -0.2, 0.6, -0.8], [-1.3, 0.45, 0.7, 1.6, 0.25], [0.15, -0.35, 1.6, -1.2, 2.1]]])  # fmt: skip
TARGETS = np.array([[0.2, -0.55, 1.4], [0.65, 2.1, -1.3]])
EVERYTHING = Losses(LINEAR, KINKS, AT, LINKS, COPIES, 0.8125, ROWS, TARGETS, 4, 1.5, 0.35)
CLOSED = EVERYTHING._replace(features=np.zeros((2, 0, 5)), targets=np.zeros((2, 0)))
POINTS = np.array([[0.4, -1.2, 2.3, 0.7, -0.9], [-1.6, 0.9, 0.9, -1.9, 0.6], [0.3, 0.25, -0.5, -2.5, 1.75]])


def loss(i, x, rows=True):
    """f_i without the maximum."""
    value = sum(LINEAR[i, j] * x[j] + KINKS[i, j] * abs(x[j] - AT[j]) for j in range(5))
    value += sum(LINKS[i, j] * abs(x[j] - x[j + 1]) for j in range(4))
    return value + sum(abs(a @ x - b) for a, b in zip(ROWS[i], TARGETS[i])) / 3 if rows else value


def slope(i, x):
    g = LINEAR[i] + KINKS[i] * np.sign(x - AT)
    for j in range(4):
        g[j] += LINKS[i, j] * np.sign(x[j] - x[j + 1])
        g[j + 1] -= LINKS[i, j] * np.sign(x[j] - x[j + 1])
    return g + sum(np.sign(a @ x - b) * a for a, b in zip(ROWS[i], TARGETS[i])) / 3


@pytest.mark.parametrize("x", POINTS)
def test_the_value_and_a_subgradient(x):
    """At the second point three terms are at their kinks, where np.sign(0) = 0."""
    assert loops._value(EVERYTHING, x) == pytest.approx((loss(0, x) + loss(1, x)) / 2 + 0.8125, rel=1e-14)
    for i in range(2):
        g = np.full(5, math.nan)
        loops._subgradient(EVERYTHING, i, x, g)
        np.testing.assert_allclose(g, slope(i, x), rtol=1e-13, atol=1e-15)


def test_a_residual_of_zero_has_the_slope_zero():
    one = EVERYTHING._replace(features=np.eye(5)[None, :1], targets=np.array([[0.4]]))
    g = np.zeros(5)
    loops._subgradient(one, 0, POINTS[0], g)
    none = np.zeros(5)
    loops._subgradient(CLOSED, 0, POINTS[0], none)
    assert POINTS[0, 0] == 0.4 and g.tolist() == none.tolist()


def test_the_length_of_a_step():
    constant, root, cut = (Pace(kind, 0.75, 3, 99, 0.0) for kind in range(3))
    assert [loops._step(constant, t) for t in (1, 3, 50)] == [0.75] * 3
    assert [loops._step(root, t) for t in (1, 4, 9)] == [0.75, 0.375, 0.25]
    np.testing.assert_allclose([loops._step(cut, t) for t in (1, 3, 4, 6)], [0.75, 0.75, 0.6, 0.384], rtol=1e-15)


# --- proximal points ------------------------------------------------------------------------------
@pytest.mark.parametrize("h", [0.0625, 0.4, 7.0])
@pytest.mark.parametrize("i", [0, 1])
def test_the_closed_form_is_the_minimiser(i, h):
    """0 lies between the slopes to the left and to the right, along each coordinate and along both of a link; a coordinate that
    stands for several has as many squares of its distance."""
    w, u = 1.3 * POINTS[0], np.full(5, 9.0)
    linked = (LINKS[i] > 0) | (np.roll(LINKS[i], 1) > 0)  # what is linked has neither slope nor kink
    assert proximal_point(CLOSED._replace(linear=np.where(linked, 0.0, LINEAR)), i, w, h, u) == 0.0

    def phi(x):
        return loss(i, x, rows=False) - np.where(linked, LINEAR[i], 0) @ x + (COPIES * (x - w) ** 2).sum() / (2 * h)

    at = phi(u)
    both = np.array([[1.0, 1, 0, 0, 0], [1, -1, 0, 0, 0], [0, 1, 1, 0, 0], [0, 1, -1, 0, 0]])
    for d, length in itertools.product([*np.eye(5), *both], (1e-3, -1e-3)):
        growth = (length * d) @ (COPIES * d) * length / (2 * h)  # of the square alone
        assert phi(u + length * d) - at >= growth - 1e-13 * (1 + abs(at) + 1 / h)


def least(rows, targets, w, h):
    """The minimiser of the mean absolute deviation and the square, by trying every set of residuals that are 0 and every sign."""
    n, best = len(rows), (math.inf, None)
    for pattern in itertools.product((-1, 0, 1), repeat=n):
        pull = sum((s / n * a for s, a in zip(pattern, rows)), np.zeros(len(w)))
        met = [k for k in range(n) if pattern[k] == 0]
        x = w - h * pull
        if len(met) > len(w):
            continue
        if met:
            e = rows[met]
            x = x - e.T @ np.linalg.solve(e @ e.T, e @ x - targets[met])
        value = np.abs(rows @ x - targets).mean() + ((x - w) ** 2).sum() / (2 * h)
        best = min(best, (value, x.tolist()))
    return best


FOUR = np.array([[1.5, -0.75], [0.25, 2.0], [-1.25, 0.5], [0.375, 1.75]])
AIMS = np.array([0.3, -1.1, 0.8, -0.45])


@pytest.mark.parametrize("h", [0.05, 0.6, 4.0, 90.0])
def test_absolute_deviations_from_every_start(h):
    f = CLOSED._replace(features=FOUR[None], targets=AIMS[None])
    for w in (np.array([0.7, -1.9]), np.array([-2.6, 0.4]), np.array([3.1, 2.2])):
        value, x = least(FOUR, AIMS, w, h)
        for start in ([0.0, 0.0], [5.0, -3.0], [-0.8, -0.6], x):
            u = np.array(start)
            gap = proximal_point(f, 0, w, h, u)
            np.testing.assert_allclose(u, x, atol=1e-11)
            assert 0 <= gap <= 1e-12 * (1 + abs(value)) or abs(gap) <= 1e-13


def test_a_residual_that_became_zero_on_the_way_leaves_zero_again():
    """From this start one multiplier comes to lie between 1/n and 2/n, and its residual has to be let go."""
    rows, aims = np.array([[0.0, -1.25], [1.25, -1.75], [-0.25, -1.0], [1.0, 1.0]]), np.array([1.0, 1.75, 1.75, -1.25])
    w, u = np.array([-2.5, -2.25]), np.array([3.0, 2.75])
    gap = proximal_point(CLOSED._replace(features=rows[None], targets=aims[None]), 0, w, 2.0, u)
    np.testing.assert_allclose(u, least(rows, aims, w, 2.0)[1], atol=1e-12)
    assert abs(gap) <= 1e-13


@pytest.mark.parametrize("t", [[0.1, -0.2, 0.15], [0.3, -0.9, 0.05], [-0.25, 0.25, -0.7]])
def test_the_gap_of_given_multipliers(t):
    """sum (|r|/n - m r) + h/2 ||(u - w)/h + sum m a||^2, m the sign over n, of active residuals t within 1/n."""
    w, h, u = np.array([0.7, -1.9]), 0.6, np.array([0.4, -0.3])
    active, signs, given = np.array([True, True, False, True]), np.array([1.0, 1.0, -1.0, 1.0]), iter(t)
    total, rest = 0.0, (u - w) / h
    for s in range(4):
        m = min(max(next(given), -0.25), 0.25) if active[s] else signs[s] / 4
        r = FOUR[s] @ u - AIMS[s]
        total, rest = total + abs(r) / 4 - m * r, rest + m * FOUR[s]
    got = proximal._gap(FOUR, AIMS, active, signs, np.array(t), w, h, u)
    assert got == pytest.approx(total + h / 2 * rest @ rest, rel=1e-13)


def test_the_minimiser_where_active_residuals_are_zero():
    w, h = np.array([0.7, -1.9]), 0.6
    for chosen in ([], [1], [1, 2]):
        active, signs = np.isin(np.arange(4), chosen), np.array([1.0, 1.0, -1.0, -1.0])
        c, u = np.full(2, 9.0), np.full(2, 9.0)
        t = proximal._on_kinks(FOUR, AIMS, active, signs, w, h, c, u)
        pull = sum(signs[s] / 4 * FOUR[s] for s in range(4) if s not in chosen)
        np.testing.assert_allclose(c, pull, rtol=1e-14)
        e = FOUR[chosen].reshape(-1, 2)
        system = np.block([[np.eye(2) / h, e.T], [e, np.zeros((len(chosen), len(chosen)))]])
        both = np.linalg.solve(system, np.concatenate([w / h - pull, AIMS[chosen]]))
        np.testing.assert_allclose(u, both[:2], rtol=1e-12)
        np.testing.assert_allclose(t, both[2:], rtol=1e-12)


def test_a_linear_system_and_the_small_pieces():
    a = np.array([[4.0, 1.5, -0.75], [1.5, 3.0, 0.5], [-0.75, 0.5, 2.0]])
    b = np.array([1.25, -2.0, 0.375])
    x, work = np.linalg.solve(a, b), b.copy()
    proximal._solve(a.copy(), work)
    np.testing.assert_allclose(work, x, rtol=1e-14)
    assert [proximal._shrink(v, 0.75) for v in (2.0, 0.5, -0.5, -2.0, 0.75)] == [1.25, 0.0, 0.0, -1.25, 0.0]
    assert proximal.dot(np.array([1.5, -2.0, 3.0]), np.array([0.5, 1.25, 2.0])) == 4.25


@pytest.mark.parametrize("scale", [0.2, 0.9, 3.0, 40.0])
@pytest.mark.parametrize("on", [[], [2], [0, 3]])
def test_a_line_search_stops_at_the_minimum_of_a_piecewise_quadratic(scale, on):
    """slope a + curvature a^2/2 + sum of 2 |r'|/n (a - a_s) beyond every a_s at which a residual that is not active crosses 0."""
    u, p, curvature = np.array([1.9, 1.4]), scale * np.array([-1.1, -0.7]), 0.3
    rows, aims = np.vstack([FOUR, [[0.7, -1.1]]]), np.append(AIMS, 5.0)  # nothing changes of the last one, which is below 0
    along, r = rows @ p, rows @ u - aims
    along[4] = 0.0
    signs, active = np.sign(r), np.isin(np.arange(5), on)
    for first in (-0.02, -0.8, -5.0, -60.0, 0.3):
        crossings = sorted((-r[s] / along[s], s) for s in range(5) if not active[s] and signs[s] * along[s] < 0)
        derivative, at, where, crossed, stopped = first, 0.0, None, [], None
        while where is None:
            ahead = crossings[len(crossed)] if len(crossed) < len(crossings) else (math.inf, None)
            free = at - derivative / curvature if derivative < 0 else at
            if free <= ahead[0]:
                where = free
                break
            derivative, at = derivative + curvature * (ahead[0] - at), ahead[0]
            if derivative + 2 * abs(along[ahead[1]]) / 5 >= 0:
                where, stopped = at, ahead[1]
                break
            derivative += 2 * abs(along[ahead[1]]) / 5
            crossed.append(ahead[1])
        v, now, signed = u.copy(), active.copy(), signs.copy()
        clean = proximal._line_search(rows, aims, now, signed, v, p, first, curvature)
        np.testing.assert_allclose(v, u + where * p, rtol=1e-13)
        assert clean == (not crossed and stopped is None)
        assert sorted(np.flatnonzero(now)) == sorted([*on, *([] if stopped is None else [stopped])])
        assert [s for s in range(5) if signed[s] != signs[s]] == sorted(crossed)


# --- local steps ----------------------------------------------------------------------------------
@pytest.mark.parametrize(("room", "left"), [(1e9, False), (0.81, True), (-1.0, True)])
def test_local_steps_and_their_average(room, left):
    """u_t = u - h (f'(u) + beta u - pull), h = 2/((2 + t) beta), drawn back to ||u||^2 <= room; weights t + 1 of the average."""
    beta, pull, T = 1.75, np.array([0.9, -0.4, 1.3, -2.2, 0.7]), 4
    u, total, mine, average = POINTS[2].copy(), np.full(5, 9.0), POINTS[2].copy(), np.zeros(5)
    assert loops._local_steps(EVERYTHING, 1, T, beta, u, pull, total, room) == left
    for t in range(1, T + 1):
        mine = mine - 2 / ((2 + t) * beta) * (slope(1, mine) + beta * mine - pull)
        mine = mine * min(1.0, math.sqrt(max(room, 0) / (mine @ mine)))
        average += (t + 1) * mine / sum(range(2, T + 2))
    np.testing.assert_allclose(u, mine, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(total, average, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize(("floor", "scale"), [(0.35, 1.0), (5.0, 1.0), (-1.6, 1.0), (-1.4, 1.0), (0.35, 0.0625)])
def test_local_steps_on_a_share_at_its_own_client_and_at_another(floor, scale):
    """The maximum of the share is felt at its own client, its first index where two are largest, and not below -floor."""
    f, beta, T = CLOSED._replace(floor=floor, weight=1.5 * scale, linear=np.zeros((3, 5))), 0.875, 5
    own, other = scale * np.array([0.6, 1.4, -0.7, 1.4]), scale * np.array([0.2, -1.1, 0.9, 0.5])
    pull, away = scale * np.array([0.35, -0.5, 0.15, -0.25]), scale * np.array([1.3, 0.4, -0.6, 0.75])
    a, b, total = own.copy(), other.copy(), np.full((2, 4), 9.0)
    largest = loops._share_steps(f, T, beta, a, pull, b, away, total)
    averages, sizes = np.zeros((2, 4)), []
    for t in range(1, T + 1):
        h, g = 2 / ((2 + t) * beta), np.zeros(4)
        if own.max() >= -floor:
            g[own.argmax()] = 1.5 * scale
        own, other = own - h * (g + beta * own - pull), other - h * (beta * other - away)
        averages += (t + 1) / sum(range(2, T + 2)) * np.array([own, other])
        sizes.append(own @ own + 2 * other @ other)
    np.testing.assert_allclose(a, own, rtol=1e-12)
    np.testing.assert_allclose(b, other, rtol=1e-12)
    np.testing.assert_allclose(total, averages, rtol=1e-12)
    assert largest == pytest.approx(max(sizes), rel=1e-12)


def test_a_local_step_onto_the_ball_s_edge_is_inside():
    """From 0, without a loss and with h = 1, the step ends at the pull, (3, 4, 0, 0, 0), whose square is 25."""
    still, pull = CLOSED._replace(linear=np.zeros((1, 5)), kinks=np.zeros((1, 5)), links=np.zeros((1, 5))), np.array([3.0, 4, 0, 0, 0])
    for room, left in ((25.0, False), (24.75, True)):
        u, total = np.zeros(5), np.zeros(5)
        assert loops._local_steps(still, 0, 1, 2 / 3, u, pull, total, room) == left
        assert (u == pull).all() != left


@pytest.mark.parametrize("floor", [-0.375, -0.25, 9.0])
@pytest.mark.parametrize("steps", [2, 3, 7])
def test_rounds_on_a_share_of_which_one_client_moves_each(steps, floor):
    """Its largest coordinate, the first of several, goes down by `length` unless it is below -floor: so often; then the mean."""
    values, clients = np.array([0.5, 0.25, 0.5, -0.125, 0.375]), 4
    mine, heap = values.copy(), [(-v, j) for j, v in enumerate(values)]
    loops.heapq.heapify(heap)
    touched, last, seen = np.zeros((steps, 2)), np.zeros(5, dtype=np.int64), set()
    for t in range(1, 13):
        length, u = (0.375, 0.25, 0.125)[t % 3], mine.copy()
        for _ in range(steps):
            if u.max() < -floor:
                seen.add("below")
                break
            seen.add("at" if u.max() == -floor else "above")
            u[u.argmax()] -= length
        mine = mine + (u - mine) / clients
        loops._share_round(heap, values, touched, last, t, steps, length, floor, clients)
        np.testing.assert_array_equal(values, mine)
        assert loops._top(heap, values) == (values.max(), values.argmax())
    assert seen == ({"above"} if floor == 9 else {"above", "at", "below"})



# --- whole loops ----------------------------------------------------------------------------------
# f_i(x) = a_i'x + sum_j k_ij |x_j - at_j| on two coordinates, the second of which stands for three
THREE = Losses(
    np.array([[0.75, -0.5], [-1.25, 0.25], [0.375, 0.125]]), np.array([[1.5, 0.625], [0.875, 2.0], [2.25, 1.125]]),
    np.array([1.75, -0.875]), np.zeros((3, 2)), np.array([1.0, 3.0]), 0.3125, np.zeros((3, 0, 2)), np.zeros((3, 0)), 0, 0.0, 0.0,
)  # fmt: skip


def value(x):
    return sum(THREE.linear[i] @ x + THREE.kinks[i] @ np.abs(x - THREE.at) for i in range(3)) / 3 + 0.3125


def prox(i, w, h):
    step = h / THREE.copies
    v = w - step * THREE.linear[i] - THREE.at
    return THREE.at + np.sign(v) * np.maximum(np.abs(v) - step * THREE.kinks[i], 0)


def fedprox_values(steps):
    x = np.zeros(2)
    for h in steps:
        x = sum(prox(i, x, h) for i in range(3)) / 3
        yield value(x)


def feddyn_values(step, rounds):
    """p_i <- p_i + x - u_i with u_i = prox_i(p_i) and x the mean of 2 u_i - p_i."""
    p = [np.zeros(2)] * 3
    for _ in range(rounds):
        u = [prox(i, p[i], step) for i in range(3)]
        x = sum(2 * u[i] - p[i] for i in range(3)) / 3
        p = [p[i] + x - u[i] for i in range(3)]
        yield value(x)


def fedmls_values(lam, rounds, radius=math.inf, drawn=None):
    """`drawn` is given the rounds in which the server projects."""
    x, z, mine, its = np.zeros(2), np.zeros(2), [np.zeros(2)] * 3, [np.zeros(2)] * 3
    for k in range(1, rounds + 1):
        gamma, beta = 2 / (k + 1), 4 / (lam * k)
        sent = [(1 - gamma) * a + gamma * b for a, b in zip(mine, its)]
        y = (1 - gamma) * x + gamma * z
        z = z - (y - sum(sent) / 3) / (lam * beta)
        if THREE.copies @ z**2 > radius**2:
            z = z * radius / math.sqrt(THREE.copies @ z**2)
            drawn.append(k)
        x = (1 - gamma) * x + gamma * z
        yield value(x)
        its = [prox(i, its[i] - (sent[i] - y) / (lam * beta), 1 / beta) for i in range(3)]
        if any(THREE.copies @ v**2 > radius**2 for v in its):
            return
        mine = [(1 - gamma) * a + gamma * b for a, b in zip(mine, its)]


def fedavg_values(steps, count):
    x = np.zeros(2)
    for h in steps:
        ends = []
        for i in range(3):
            u = x
            for _ in range(count):
                u = u - h * (THREE.linear[i] + THREE.kinks[i] * np.sign(u - THREE.at))
            ends.append(u)
        x = sum(ends) / 3
        yield value(x)


def first_rounds(loop, values):
    """The loop finds every new least value in its round, and no lower one."""
    values, least, new = list(values), math.inf, 0
    for t, v in enumerate(values, 1):
        if v < least - 1e-9:
            assert loop(Pace(0, 0.0, 0, len(values), v + 1e-12)._replace(limit=t)) == t
            assert loop(Pace(0, 0.0, 0, t - 1, v + 1e-12)) == -1
            least, new = v, new + 1
    assert new >= 3
    assert loop(Pace(0, 0.0, 0, len(values), least - 1e-9)) == -1


def test_fedprox_round_by_round():
    def loop(pace):
        t, gap = loops.fedprox(THREE, pace._replace(step=0.375))
        assert gap == 0.0
        return t

    first_rounds(loop, fedprox_values([0.375] * 6))
    first_rounds(lambda p: loop(p._replace(kind=1)), fedprox_values([0.375 / math.sqrt(t) for t in range(1, 7)]))
    cut = [0.375, 0.375, *(0.375 * 0.8**j for j in range(1, 5))]
    first_rounds(lambda p: loop(p._replace(kind=2, hold=2)), fedprox_values(cut))


def test_feddyn_and_fedmls_round_by_round():
    assert loops.feddyn(THREE, Pace(0, 0.375, 0, 3, -1e9)) == loops.fedmls_exact(THREE, Pace(0, 0.75, 0, 3, -1e9), 50.0) == (-1, 0.0)
    first_rounds(lambda p: loops.feddyn(THREE, p._replace(step=0.375))[0], feddyn_values(0.375, 7))
    free = list(fedmls_values(0.75, 9))
    for radius, rounds, drawn in ((50.0, 9, []), (2.4, 7, [6, 7]), (2.25, 5, []), (2.0, 4, [])):
        seen, made = list(fedmls_values(0.75, 9, radius, projected := [])), Pace(0, 0.75, 0, 9, 0.0)
        assert len(seen) == rounds and projected == drawn  # in the smaller balls the clients' points leave, and the run ends
        first_rounds(lambda p, r=radius: loops.fedmls_exact(THREE, p._replace(step=0.75), r)[0], seen)
        for v in free[rounds:]:  # reached later where there is room
            assert v < min(seen) and loops.fedmls_exact(THREE, made._replace(target=v + 1e-12), radius)[0] == -1


@pytest.mark.parametrize("count", [1, 3])
def test_fedavg_round_by_round(count):
    steps = [0.25, 0.25, *(0.25 * 0.8**j for j in range(1, 9))]
    first_rounds(lambda p: loops.fedavg(THREE, p._replace(kind=2, step=0.25, hold=2), count), fedavg_values(steps, count))


def test_a_local_solution_on_the_sphere_is_in_the_ball():
    """f(x) = (3, 4)'x and lambda = 4: the first local solution is -(3, 4), and x_2 = -(1, 4/3), where f is -25/3."""
    linear, pace = np.array([[3.0, 4.0]]), Pace(0, 4.0, 0, 2, -8.25)
    f = THREE._replace(linear=linear, kinks=0 * linear, links=0 * linear, copies=np.ones(2), constant=0.0, features=np.zeros((1, 0, 2)))
    assert loops.fedmls_exact(f, pace, 5.0)[0] == 2 and loops.fedmls_exact(f, pace, 4.9)[0] == -1


def slope_with_shares(f, i, u):
    """On all coordinates: client i's share, i * share to (i + 1) * share - 1, and the rest at the end."""
    N, m, g = len(f.linear), f.share, np.zeros(len(u))
    own = u[i * m : (i + 1) * m]
    if m and own.max() >= -f.floor:
        g[i * m + own.argmax()] = f.weight
    g[N * m :] = f.linear[i] + f.kinks[i] * np.sign(u[N * m :] - f.at)
    return g


@pytest.mark.parametrize(("share", "floor", "steps"), [(1, 0.375, 2), (3, 0.375, 1), (3, 0.125, 4), (2, -0.25, 3)])
def test_fedavg_with_a_share_of_a_maximum_for_each_client(share, floor, steps):
    f = THREE._replace(share=share, floor=floor, weight=1.25)
    x, values = np.zeros(3 * share + 2), []
    for _ in range(9):
        ends = []
        for i in range(3):
            u = x
            for _ in range(steps):
                u = u - 0.0613 * slope_with_shares(f, i, u)
            ends.append(u)
        x = sum(ends) / 3
        tops = [max(x[i * share : (i + 1) * share].max(), -floor) for i in range(3)]
        values.append(value(x[3 * share :]) + 1.25 * sum(tops) / 3)
    first_rounds(lambda p: loops.fedavg(f, p._replace(step=0.0613), steps), values)


def fedmls_run(f, counts, lam, radius):
    """FedMLS with local steps on all coordinates: x_K, the rounds in which the server projects, whether a client does, and the
    largest sum of ||shares_t||^2 and ||rest_s||^2 of a client and round."""
    N, dim, m = *f.linear.shape, f.share
    x = z = np.zeros(N * m + dim)
    mine, its, server, left, largest = np.zeros((N, len(x))), np.zeros((N, len(x))), [], False, 0.0
    for k, T in enumerate(counts, 1):
        gamma, beta = 2 / (k + 1), 4 / (lam * k)
        sent, y = (1 - gamma) * mine + gamma * its, (1 - gamma) * x + gamma * z
        z = z - (y - sent.mean(axis=0)) / (lam * beta)
        if z @ z > radius**2:
            z = z * radius / math.sqrt(z @ z)
            server.append(k)
        x = (1 - gamma) * x + gamma * z
        if k == len(counts):
            return x, server, left, largest
        for i in range(N):
            u, pull, average, shares, rests = its[i].copy(), beta * its[i] - (sent[i] - y) / lam, 0.0, [], []
            for t in range(1, T + 1):
                u = u - 2 / ((2 + t) * beta) * (slope_with_shares(f, i, u) + beta * u - pull)
                shares.append(u[: N * m] @ u[: N * m])
                rests.append(u[N * m :] @ u[N * m :])
                left = left or u @ u > radius**2
                u = u * min(1.0, radius / max(math.sqrt(u @ u), 1e-300))
                average += (t + 1) / (T * (T + 3) / 2) * u
            its[i], mine[i] = u, (1 - gamma) * mine[i] + gamma * average
            largest = max(largest, max(shares) + max(rests))


COUNTS = np.array([2, 3, 1, 4, 2, 3, 2, 5, 1, 2, 3, 1])


@pytest.mark.parametrize(("share", "floor", "weight", "lam", "radius", "projects"), [
    (0, 0.0, 0.0, 0.25, 50.0, []), (0, 0.0, 0.0, 0.125, 1.5, [11, 12]), (0, 0.0, 0.0, 0.25, 0.5, [5, 6, 7, 8, 9, 10, 11, 12]),
    (3, 0.375, 1.25, 0.05, 0.875, [12]), (3, 5.0, 2.5, 0.125, 2.125, [12]),
    (2, 0.125, 2.5, 0.25, 9.0, []), (1, 0.375, 1.25, 0.25, 9.0, []),
])  # fmt: skip
def test_fedmls_with_local_steps(share, floor, weight, lam, radius, projects):
    f = THREE._replace(share=share, floor=floor, weight=weight)
    x, server, left, _ = fedmls_run(f, COUNTS, lam, radius)
    assert server == projects and left == (share == 0 and radius < 50)
    np.testing.assert_allclose(loops.fedmls(f, COUNTS, lam, radius), x, rtol=1e-11, atol=1e-14)


@pytest.mark.parametrize(("share", "floor", "weight", "lam"), [(3, 0.375, 1.25, 0.125), (2, 5.0, 2.5, 0.25), (1, 0.125, 4.0, 0.5)])
def test_fedmls_gives_no_number_where_local_steps_may_leave_the_ball(share, floor, weight, lam):
    """It takes the largest square of the shares in a round with that of the rest, at each step: no less than the square at a step."""
    f, counts = THREE._replace(share=share, floor=floor, weight=weight), COUNTS[:4]
    x, server, _, largest = fedmls_run(f, counts, lam, 99.0)
    size = math.sqrt(largest)
    assert not server and 2 * abs(size - 1) > 1e-3
    np.testing.assert_allclose(loops.fedmls(f, counts, lam, size * (1 + 1e-9)), x, rtol=1e-11, atol=1e-14)
    none = loops.fedmls(f, counts, lam, size * (1 - 1e-9))
    assert none.shape == (3 * share + 2,) and np.isnan(none).all()
    assert not fedmls_run(f, counts, lam, size * (1 + 1e-9))[1]  # the server is inside


def test_a_value_equal_to_the_target_has_reached_it():
    pace = Pace(0, 0.375, 0, 3, 1.0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loops, "_value", lambda *_: 1.0)
        assert loops.fedprox(THREE, pace) == loops.feddyn(THREE, pace) == loops.fedmls_exact(THREE, pace, 50.0) == (1, 0.0)
        assert loops.fedavg(THREE, pace, 2) == 1


def test_fedprox_starts_a_local_problem_at_the_server_s_point():
    """Mean absolute deviations, of which the proximal point is sought from a start."""
    f = CLOSED._replace(linear=np.zeros((2, 2)), kinks=np.zeros((2, 2)), links=np.zeros((2, 2)), at=np.zeros(2), copies=np.ones(2),
                        constant=0.0, features=np.array([FOUR, FOUR[::-1] / 2]), targets=np.array([AIMS, -AIMS]))  # fmt: skip
    x = np.zeros(2)
    for t in range(1, 3):
        x = sum(np.array(least(a, b, x, 0.6)[1]) for a, b in zip(f.features, f.targets)) / 2
        v = sum(np.abs(a @ x - b).mean() for a, b in zip(f.features, f.targets)) / 2
        assert loops.fedprox(f, Pace(0, 0.6, 0, 9, v + 1e-11))[0] == t


def test_a_schedule_that_has_come_to_rest_ends_the_run():
    """A step below 10^-8 comes first in the round 1 + log(10^-8)/log(0.8), rounded up; no round is made then. 10^-8 is made."""
    last = math.ceil(math.log(1e-8) / math.log(0.8)) + 1
    made = []
    loud = THREE._replace(constant=0.0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loops, "_value", lambda *_: made.append(1) or 1.0)
        for run in (lambda p: loops.fedprox(loud, p)[0], lambda p: loops.fedavg(loud, p, 1)):
            made.clear()
            assert run(Pace(2, 1.0, 1, 500, 0.0)) == -1 and len(made) == last - 1
            assert run(Pace(2, 1e-8, 3, 3, 0.0)) == -1 and len(made) == last + 2


def test_a_constant_step_that_moves_nothing_any_more_ends_the_run():
    made, still = [], THREE._replace(linear=np.zeros((3, 2)))  # the clients agree, and reach the minimiser
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loops, "_value", lambda *_: made.append(1) or 1.0)
        assert loops.fedprox(still, Pace(0, 8.0, 0, 500, 0.0)) == (-1, 0.0)
    assert len(made) == 2
