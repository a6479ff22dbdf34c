"""Newton's walk on local problems with an l1 term, worked out by hand: its parts, its warm-up, where it stops, its pieces."""

from __future__ import annotations

import math
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
from active_rows import rows_of
from two_by_two import (
    ANCHOR,
    CENTER,
    CENTERS,
    ELASTIC,
    HESSIANS,
    L1,
    LINEAR,
    PROBLEM,
    ROWS,
    START,
    Q,
    fractions,
    gradient,
    proximal_steps,
    smooth_gradient,
    soft,
)

from fedtheory import problems
from fedtheory.errors import LocalSolveFailed
from fedtheory.local import Exact, LocalObjective
from fedtheory.local import newton as newton_module
from fedtheory.local.objective import residual_scale

# --- Newton's parts -------------------------------------------------------------------------------
STEP = np.array([0.25, 0.1875])[:, None, None]


def test_the_envelope_in_fractions():
    """smooth - g'r + ||r||^2/(2s) + l1 ||p||_1 with v = z - s g, p = soft(v, s l1), r = z - p."""
    z = START - ANCHOR
    at = newton_module._point(PROBLEM, ELASTIC, z, STEP)
    for k, b in np.ndindex(2, 2):
        y, s, shift = fractions(START[k, b]), Fraction(float(STEP[k, 0, 0])), fractions(z[k, b])
        g = smooth_gradient(k, b, y)
        v = [w - s * u for w, u in zip(shift, g)]
        p = [soft(w, s * Fraction(L1)) for w in v]
        r = [u - w for u, w in zip(shift, p)]
        away = [u - Fraction(c) for u, c in zip(y, CENTERS[k])]
        loss = sum(u * w for u, w in zip(away, gradient(HESSIANS[k], CENTERS[k], y))) / 2
        parts = zip(y, fractions(CENTER[k, b]), fractions(LINEAR[k, b]))
        smooth = loss + sum(Fraction(Q) / 2 * (u - c) ** 2 - w * u for u, c, w in parts)
        squares = sum(u * u for u in r)
        envelope = smooth - sum(u * w for u, w in zip(g, r)) + squares / (2 * s) + Fraction(L1) * sum(map(abs, p))
        for got, needed in ((at.gradient, g), (at.v, v), (at.p, p), (at.envelope, [envelope]), (at.error, [math.sqrt(squares)])):
            np.testing.assert_allclose(got[k, b], [float(u) for u in needed], rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(at.residual[..., 0], ELASTIC.kkt_residual(START, PROBLEM.client_gradient(START)), rtol=1e-14)


def test_the_direction_is_newton_s_on_the_active_set_and_to_zero_off_it():
    """d = -z where |v| <= s l1, and elsewhere H_AA d_A = -(g_A + l1 sign v_A) - H_A,rest d_rest."""
    z = START - ANCHOR
    at = newton_module._point(PROBLEM, ELASTIC, z, STEP)
    h = newton_module._hessian(PROBLEM, ELASTIC, START)
    np.testing.assert_allclose(h[:, 0], np.array(HESSIANS) + Q * np.eye(2))
    scale = np.array([5.0, 7.0])[:, None, None]
    got = newton_module._direction(ELASTIC, at, h, scale, STEP)
    patterns = set()
    for k, b in np.ndindex(2, 2):
        on = np.abs(at.v[k, b]) > STEP[k, 0, 0] * L1
        patterns.add(tuple(on.tolist()))
        needed = np.where(on, 0.0, -z[k, b])
        full = np.array(HESSIANS[k]) + Q * np.eye(2)
        target = -(at.gradient[k, b] + L1 * np.sign(at.v[k, b])) - full @ needed
        if on.any():
            needed[on] = np.linalg.solve(full[np.ix_(on, on)], target[on])
        np.testing.assert_allclose(got[k, b], needed, rtol=1e-12, atol=1e-14)
    assert len(patterns) >= 2


def test_curvature_by_coordinate_is_in_the_hessian():
    objective = LocalObjective(CENTER, curvature=np.broadcast_to([0.5, 2.0], CENTER.shape))
    needed = np.broadcast_to(np.array(HESSIANS)[:, None] + np.diag([0.5, 2.0]), (2, 2, 2, 2))
    np.testing.assert_allclose(newton_module._hessian(PROBLEM, objective, START), needed)


def test_the_restriction_keeps_the_picked_block():
    h = np.arange(1.0, 10.0).reshape(1, 1, 3, 3)
    got = newton_module._restrict(h, np.array([[[True, False, True]]]), np.full((1, 1, 1), 12.0))
    assert got[0, 0].tolist() == [[1.0, 0.0, 3.0], [0.0, 12.0, 0.0], [7.0, 0.0, 9.0]]


def test_the_least_curvature_where_the_model_moved():
    """Relative to `upper`; on the first coordinate alone where the second is at the anchor."""
    y = ANCHOR + np.array([[[1.0, 0.0], [1.0, 1.0]], [[0.0, 1.0], [1.0, 1.0]]])
    upper = np.array([5.0, 8.0])
    got = newton_module.least_curvature(PROBLEM, ELASTIC, y, upper)
    eigen = [np.linalg.eigvalsh(np.array(h) + Q * np.eye(2))[0] for h in HESSIANS]
    np.testing.assert_allclose(got, [[3.4375 / 5, eigen[0] / 5], [4.4375 / 8, eigen[1] / 8]], rtol=1e-12)
    plain = newton_module.least_curvature(PROBLEM, LocalObjective(CENTER, curvature=Q), ANCHOR, upper)
    np.testing.assert_allclose(plain, np.array([[eigen[0] / 5] * 2, [eigen[1] / 8] * 2]), rtol=1e-12)


def test_pieces_cover_all_rows_once(monkeypatch):
    monkeypatch.setattr(newton_module, "_ROWS", 3)
    pieces = newton_module._client_pieces(PROBLEM, (2, 2, 2))
    assert [p[0] for p in pieces] == [slice(0, 1), slice(1, 2)] and [p[1].num_clients for p in pieces] == [1, 1]
    assert newton_module._client_pieces(PROBLEM, (2, 1, 2))[0][1] is PROBLEM
    monkeypatch.setattr(newton_module, "_CELLS", 2 * 2 * 2 * 3)
    assert newton_module._point_pieces(PROBLEM, 2, (2, 7, 2)) == [slice(0, 3), slice(3, 6), slice(6, 7)]
    whole = newton_module.newton(PROBLEM, ELASTIC, START, np.array([5.0, 6.0]), 1e-12)
    monkeypatch.undo()
    same = newton_module.newton(PROBLEM, ELASTIC, START, np.array([5.0, 6.0]), 1e-12)
    np.testing.assert_allclose(whole.y, same.y, atol=1e-12)


def test_rows_are_solved_alike_in_pieces_of_any_size(monkeypatch):
    """Seven rows a client, some of which start at their minimiser and are done at once."""
    rng = np.random.default_rng(8)
    center, linear, start = (3 * rng.standard_normal((2, 7, 2)) for _ in range(3))
    objective = LocalObjective(center, linear, Q, L1)
    best = Exact(method="prox").solve(PROBLEM, objective, start, rows_of(2, 7)).y
    start[:, ::2] = best[:, ::2]
    for rows, cells in ((64, 2_000_000), (3, 4), (64, 16)):
        monkeypatch.setattr(newton_module, "_ROWS", rows)
        monkeypatch.setattr(newton_module, "_CELLS", cells)
        got = newton_module.newton(PROBLEM, objective, start, np.array([5.0, 6.0]), 1e-12)
        np.testing.assert_allclose(got.y, best, atol=1e-10)
        assert got.residual.shape == (2, 7) and got.residual.max() <= 1e-11
        least = newton_module.least_curvature(PROBLEM, objective, best, np.array([5.0, 6.0]))
        for k, b in np.ndindex(2, 7):
            on = best[k, b] != center[k, b]
            h = (np.array(HESSIANS[k]) + Q * np.eye(2))[np.ix_(on, on)]
            eigen = min([*np.linalg.eigvalsh(h), *[(5.0, 6.0)[k]] * int((~on).sum())])
            assert least[k, b] == pytest.approx(eigen / (5.0, 6.0)[k], rel=1e-12)


def searched(factors, least):
    """Newton's direction at START, row by row times these factors, and what the line search makes of it."""
    s = np.full((2, 1, 1), 0.125)
    at = newton_module._point(PROBLEM, ELASTIC, START - ANCHOR, s)
    hessian = newton_module._hessian(PROBLEM, ELASTIC, START)
    direction = newton_module._direction(ELASTIC, at, hessian, 0.95 / s, s) * np.array(factors).reshape(2, 2, 1)
    new = newton_module._line_search(PROBLEM, ELASTIC, at, direction, hessian, s, np.full((2, 2, 1), least) * at.error)

    def envelope(step):
        return newton_module._point(PROBLEM, ELASTIC, at.z + step * direction, s).envelope[..., 0]

    return at, direction, new, envelope


def test_a_step_is_halved_until_the_envelope_falls_and_is_a_proximal_one_where_it_never_does():
    """Row by row: the whole step, one too long by far, one uphill, and one that is no number."""
    at, direction, new, envelope = searched([1.0, 40.0, -1.0, math.nan], 0.0)
    slope = (envelope(1e-6) - envelope(-1e-6)) / 2e-6
    assert slope[0, 0] < 0 and slope[0, 1] < 0 < slope[1, 0] and np.isnan(slope[1, 1])
    for b in range(2):
        tau = next(t for t in 0.5 ** np.arange(30.0) if envelope(t)[0, b] <= envelope(0)[0, b] + 1e-4 * t * slope[0, b])
        assert (tau == 1) == (b == 0)
        np.testing.assert_allclose(new.z[0, b], at.z[0, b] + tau * direction[0, b], rtol=1e-12)
    np.testing.assert_allclose(new.z[1], at.p[1], rtol=1e-12)
    again = newton_module._point(PROBLEM, ELASTIC, new.z, np.full((2, 1, 1), 0.125))
    np.testing.assert_allclose(new.envelope, again.envelope, rtol=1e-12)
    whole, along, found, _ = searched([1.0, 1.0, 1.0, 1.0], 0.0)
    np.testing.assert_allclose(found.z, whole.z + along, rtol=1e-12)  # no row fails: none takes a proximal step


@pytest.mark.parametrize(("fall", "taken"), [(2e-4, True), (0.5e-4, False)])
def test_how_far_the_envelope_has_to_fall(fall, taken):
    """By 10^-4 of what its slope promises: here is one factor at which it falls by twice that, and one at which it falls by half."""
    _, _, _, envelope = searched([1.0, 1.0, 1.0, 1.0], 0.0)
    slope = (envelope(1e-6) - envelope(-1e-6)) / 2e-6
    low, high = np.ones((2, 2)), np.full((2, 2), 64.0)
    for _ in range(80):
        t = (low + high) / 2
        there = np.array([[envelope(t[k, b])[k, b] for b in range(2)] for k in range(2)])
        falls = there - envelope(0) <= fall * t * slope
        low, high = np.where(falls, t, low), np.where(falls, high, t)
    at, direction, new, _ = searched(low, 0.0)
    whole = np.isclose(new.z, at.z + direction, rtol=1e-9).all(axis=-1)
    assert (whole == taken).all()


def test_an_error_of_half_the_least_is_enough():
    at, direction, new, _ = searched([-1e-9] * 4, 2.1)
    np.testing.assert_allclose(new.z, at.z + direction, rtol=1e-12)
    at, direction, new, _ = searched([-1e-9] * 4, 1.9)
    np.testing.assert_allclose(new.z, at.p, rtol=1e-12)


# --- Newton's warm-up, stops and pieces -----------------------------------------------------------
UPPER = np.array([5.0, 6.0])


def test_newton_starts_with_twelve_proximal_gradient_steps(monkeypatch):
    """Of length 0.95/L, from the given start; its own iterations are left out here."""
    monkeypatch.setattr(newton_module, "_ITERATIONS", 0)
    got = newton_module.newton(PROBLEM, ELASTIC, START, UPPER, 1e-12)
    for k, b in np.ndindex(2, 2):
        _, y = proximal_steps(k, b, [Fraction(95, 100) / Fraction(UPPER[k])] * 2, 12)
        np.testing.assert_allclose(got.y[k, b], [float(v) for v in y], rtol=1e-10)
    np.testing.assert_allclose(got.residual, ELASTIC.kkt_residual(got.y, PROBLEM.client_gradient(got.y)), rtol=1e-8)


@pytest.fixture
def iterations(monkeypatch):
    def count(residual, changes=(), first=0):
        """Count the iterations where the line search finds lower envelopes, one after the other.

        They are lower by this and this part of the residual, and nothing is found after that.
        """
        made = []

        def search(problem, objective, at, direction, hessian, s, least):
            fall, part = changes[len(made)] if len(made) < len(changes) else (0.0, 1.0)
            made.append(s)
            return at._replace(envelope=at.envelope - fall, residual=at.residual * part)

        monkeypatch.setattr(newton_module, "_line_search", search)
        now = newton_module._point(PROBLEM, ELASTIC, START - ANCHOR, 0.95 / UPPER[:, None, None])
        newton_module._iterate(PROBLEM, ELASTIC, now._replace(residual=residual[..., None]), UPPER, 1e-13, first)
        for s in made:
            np.testing.assert_array_equal(s, 0.95 / UPPER[:, None, None])  # the method asks for s < 1/L
        return len(made)

    return count


def test_newton_stops_at_half_the_tolerance_and_where_nothing_moves(iterations):
    """At once at half the tolerance, after two iterations where rounding explains the residual, after ten elsewhere."""
    limit, rounding = (1e-13 / 2 * scale for scale in residual_scale(ELASTIC, START, UPPER[:, None], 1e-13))
    assert (limit > 1.5e-13 / 2).all() and (rounding > 1.01 * limit).all()
    assert [iterations(limit), iterations(limit * (1 + 1e-9))] == [0, 2]
    assert [iterations(rounding), iterations(rounding * (1 + 1e-9))] == [2, 10]
    assert iterations(np.full((2, 2), 1.0), first=newton_module._ITERATIONS - 3) == 3


def test_what_counts_as_moving(iterations):
    """A lower envelope, or a residual below nine tenths of the least so far."""
    one = np.ones((2, 2))
    assert iterations(one, [(1e-3, 1.0)] * 5) == iterations(one, [(0.0, 0.89)] * 5) == 15
    assert iterations(one, [(0.0, 0.9)]) == iterations(one, [(-1e-3, 0.91)] * 5) == 10
    assert iterations(one, [(0.0, 1.0)] * 9 + [(1e-3, 1.0)]) == 20


def test_the_points_that_go_on_alone_have_the_iterations_that_are_left(iterations, monkeypatch):
    """Of each client's two points the first is done after two iterations of five."""
    monkeypatch.setattr(newton_module, "_ITERATIONS", 5)
    done = np.array([0.0, 1.0])[None, :, None]
    assert iterations(np.ones((2, 2)), [(1e-3, 1.0), (1e-3, done)] + [(1e-3, 1.0)] * 9) == 5


def test_pieces_of_other_numbers_of_clients_and_points(monkeypatch):
    """Four rows at least: of three clients with two points each, two at a time; of two such, or of four with one, all."""
    three, four = (problems.Quadratic(np.array([np.eye(2)] * n), np.zeros((n, 2))) for n in (3, 4))
    monkeypatch.setattr(newton_module, "_ROWS", 4)
    cut = newton_module._client_pieces(three, (3, 2, 2))
    assert [(c, p.num_clients) for c, p in cut] == [(slice(0, 2), 2), (slice(2, 3), 1)]
    assert newton_module._client_pieces(PROBLEM, (2, 2, 2)) == [(slice(0, 2), PROBLEM)]
    assert newton_module._client_pieces(four, (4, 1, 2)) == [(slice(0, 4), four)]
    assert [c for c, _ in newton_module._client_pieces(three, (3, 5, 2))] == [slice(0, 1), slice(1, 2), slice(2, 3)]


def test_pieces_of_points_whose_hessians_pass_through_all_samples(monkeypatch):
    """2 clients, d = 3: 9 numbers a row where the Hessian is constant, and else 3 for each of 7 samples, if these are more."""
    constant, varying = (SimpleNamespace(constant_hessian=c, sample_counts=np.array([7, 5])) for c in (True, False))
    monkeypatch.setattr(newton_module, "_CELLS", 90)
    assert newton_module._point_pieces(constant, 2, (2, 8, 3)) == [slice(0, 5), slice(5, 8)]
    assert newton_module._point_pieces(varying, 2, (2, 5, 3)) == [slice(0, 2), slice(2, 4), slice(4, 5)]
    monkeypatch.setattr(newton_module, "_CELLS", 1)
    assert newton_module._point_pieces(constant, 2, (2, 2, 3)) == [slice(0, 1), slice(1, 2)]


def test_without_l1_a_coordinate_at_the_anchor_is_like_any_other():
    """In the least curvature, and in the direction where v = 0."""
    plain, eigen = LocalObjective(CENTER, curvature=Q), [np.linalg.eigvalsh(np.array(h) + Q * np.eye(2))[0] for h in HESSIANS]
    got = newton_module.least_curvature(PROBLEM, plain, CENTER, UPPER)
    np.testing.assert_allclose(got, np.array([[eigen[0] / 5] * 2, [eigen[1] / 6] * 2]), rtol=1e-12)
    at = newton_module._point(PROBLEM, plain, START - CENTER, STEP)
    at = at._replace(v=at.v * np.array([0.0, 1.0]))
    direction = newton_module._direction(plain, at, newton_module._hessian(PROBLEM, plain, START), UPPER[:, None, None], STEP)
    for k, b in np.ndindex(2, 2):
        needed = np.linalg.solve(np.array(HESSIANS[k]) + Q * np.eye(2), -at.gradient[k, b])
        np.testing.assert_allclose(direction[k, b], needed, rtol=1e-12)


def test_the_shift_of_a_singular_system_is_small_and_upwards():
    """In units of L: 2^-40 of the loss has the same directions, and where the loss is flat they go downhill, however far."""
    tiny = problems.Quadratic(np.array(HESSIANS) * 2.0**-40, np.array(CENTERS))
    flat = problems.Quadratic(np.array([np.diag([3.0, 0.0])] * 2), np.array(CENTERS))
    for problem, unit in ((tiny, 2.0**-40), (flat, 1.0)):
        plain, scale = LocalObjective(CENTER, LINEAR * unit), unit * UPPER[:, None, None]
        at = newton_module._point(problem, plain, START - CENTER, 0.95 / scale)
        direction = newton_module._direction(plain, at, newton_module._hessian(problem, plain, START), scale, 0.95 / scale)
        if problem is tiny:
            for k, b in np.ndindex(2, 2):
                np.testing.assert_allclose(direction[k, b], np.linalg.solve(tiny.hessians[k], -at.gradient[k, b]), rtol=1e-11)
        else:
            assert (direction * at.gradient < 0).all() and np.abs(direction[..., 1]).min() > 1e12


def test_newton_takes_the_hessian_of_where_it_is(monkeypatch):
    """Of a loss whose Hessian varies, at the point of every iteration."""
    features = np.array([[[1.5, -0.75], [0.25, 2.0], [-1.25, 0.5]], [[0.5, 1.75], [-2.25, 0.125], [0.625, -1.5]]])
    problem = problems.Logistic(features, np.array([[1.0, -1.0, 1.0], [-1.0, -1.0, 1.0]]))
    true, seen, plain = newton_module._line_search, [], LocalObjective(CENTER, curvature=0.125)

    def search(problem, objective, at, direction, hessian, s, least):
        seen.append((at.z, hessian))
        return true(problem, objective, at, direction, hessian, s, least)

    monkeypatch.setattr(newton_module, "_line_search", search)
    got = newton_module.newton(problem, plain, START, np.array([9.0, 9.0]), 1e-12)
    assert got.residual.max() <= 1e-12 and len(seen) >= 2 and np.abs(seen[0][0] - seen[-1][0]).max() > 1e-6
    for z, hessian in seen:
        rows = np.einsum("nsi,nbi->nbs", features, CENTER + z)
        weights = 1 / (2 + np.exp(rows) + np.exp(-rows))
        needed = np.einsum("nbs,nsi,nsj->nbij", weights, features, features) / 3 + 0.125 * np.eye(2)
        np.testing.assert_allclose(hessian, needed, rtol=1e-10)


def held_by_l1(t):
    """H of rank one with h_11 = t/(1 + t) of its largest eigenvalue 1; l1 holds y_2 at the anchor 0, and y_1 = 1."""
    return np.array([[t, math.sqrt(t)], [math.sqrt(t), 1.0]]) / (1 + t), [0.5 + t / (1 + t), 0.0]


def test_a_flat_loss_has_a_unique_minimiser_where_l1_holds_the_flat_direction():
    """Down to 10^-9 of the largest curvature on the coordinates that moved, client by client; rows of no client do not count."""
    steep = np.diag([1.0, 0.5e-9]), [1.5, 0.5 + 0.5e-9]  # its limit is 10^-12, as it is strongly convex; y = (1, 1)
    rows = ROWS._replace(valid=np.array([[True, True], [True, False]]))
    for first, second, unique in ((0.4, 0.7, True), (1.5e-9, 0.7, True), (0.7e-9, 0.7, False), (None, 0.7, True), (0.7, 0.8e-9, False)):
        pairs = [steep if t is None else held_by_l1(t) for t in (first, second)]
        problem = problems.Quadratic(np.array([h for h, _ in pairs]), np.zeros((2, 2)))
        linear = np.repeat(np.array([w for _, w in pairs])[:, None], 2, axis=1)
        objective = LocalObjective(np.zeros((2, 2, 2)), linear, 0.0, 0.5)
        start = np.full((2, 2, 2), 0.25)
        if not unique:
            with pytest.raises(LocalSolveFailed, match=f"client {int(second < 1e-6)}: the local objective has no unique minimiser"):
                Exact(method="newton").solve(problem, objective, start, rows)
            continue
        got = Exact(method="newton").solve(problem, objective, start, rows)
        for k, t in enumerate((first, second)):
            np.testing.assert_allclose(got.y[k], [[1.0, float(t is None)]] * 2, rtol=1e-4, atol=1e-12)


@pytest.mark.parametrize(("t", "unique"), [(1e-4, True), (1e-7, False)])
def test_single_precision_tells_a_unique_minimiser_by_eight_of_its_roundings(t, unique):
    """8 eps is 9.5e-7 there."""
    hessian, linear = held_by_l1(t)
    zero = np.zeros((1, 1, 2), dtype=np.float32)
    objective = LocalObjective(zero, np.array([[linear]], dtype=np.float32), 0.0, 0.5)
    problem = problems.Quadratic(np.array([hessian]), np.zeros((1, 2))).like(zero)
    try:
        Exact(method="newton", tolerance=1e-5).solve(problem, objective, zero + np.float32(0.25), rows_of(1, 1))
    except LocalSolveFailed as refused:
        assert not unique and "no unique minimiser" in str(refused)
    else:
        assert unique
