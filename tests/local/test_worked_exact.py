"""Exact local solves on instances of two coordinates, against closed forms and a second writing of each step in fractions."""

from __future__ import annotations

import math
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
import two_by_two
from active_rows import rows_of
from two_by_two import (
    ANCHOR,
    CENTER,
    CENTERS,
    DIAGONAL,
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
    soft,
)

from fedtheory import problems
from fedtheory.compiled import available
from fedtheory.errors import Diverged, InvalidInput, LocalSolveFailed
from fedtheory.local import Exact, LocalObjective
from fedtheory.local import exact as exact_module
from fedtheory.local import quadratic as quadratic_module
from fedtheory.local.exact import _proximal_gradient, _steps_needed
from fedtheory.local.objective import LocalResult, residual_scale
from fedtheory.local.quadratic import _prefix_counts, affine_proximal_gradient, curvature_bounds


# --- minimisers in closed form --------------------------------------------------------------------
@pytest.mark.parametrize("method", ["auto", "direct", "prox", "newton"])
def test_the_minimiser_without_l1_solves_a_linear_system(method):
    """(H + q) y = H m + linear + q center, by Cramer's rule."""
    got = Exact(method=method).solve(PROBLEM, LocalObjective(CENTER, LINEAR, Q), START, ROWS)
    for k, b in np.ndindex(2, 2):
        (a, c), (_, d) = [[Fraction(h) + (i == j) * Fraction(Q) for j, h in enumerate(row)] for i, row in enumerate(HESSIANS[k])]
        pull = gradient(HESSIANS[k], [-v for v in CENTERS[k]], [Fraction(0)] * 2)
        u, v = [p + w + Fraction(Q) * x for p, w, x in zip(pull, fractions(LINEAR[k, b]), fractions(CENTER[k, b]))]
        det = a * d - c * c
        np.testing.assert_allclose(got.y[k, b], [float((d * u - c * v) / det), float((a * v - c * u) / det)], rtol=1e-12)
    assert got.residual.max() <= 1e-12


@pytest.mark.parametrize("method", ["auto", "prox", "newton"])
@pytest.mark.parametrize("curvature", [Q, np.array([0.4375, 1.5])], ids=["one", "by coordinate"])
def test_the_minimiser_with_l1_coordinate_by_coordinate(method, curvature):
    """y = anchor + soft(h m + linear + q center - (h + q) anchor, l1)/(h + q), of a diagonal Hessian; some are at the anchor."""
    objective = LocalObjective(CENTER, LINEAR, curvature, L1, ANCHOR)
    got = Exact(method=method).solve(DIAGONAL, objective, START, ROWS)
    zeros = 0
    for k, b, i in np.ndindex(2, 2, 2):
        q = Fraction(float(np.broadcast_to(curvature, 2)[i]))
        h, m, w, c, a = (
            Fraction(float(v)) for v in (DIAGONAL.hessians[k, i, i], CENTERS[k][i], LINEAR[k, b, i], CENTER[k, b, i], ANCHOR[k, b, i])
        )
        z = soft(h * m + w + q * c - (h + q) * a, Fraction(L1)) / (h + q)
        zeros += z == 0
        assert (got.y[k, b, i] == float(a)) if z == 0 else got.y[k, b, i] == pytest.approx(float(a + z), rel=1e-11)
    assert 0 < zeros < 8


# --- proximal gradient ----------------------------------------------------------------------------
@pytest.fixture(params=["numpy", "compiled"])
def engine(request, monkeypatch):
    """The tests of the fused steps run on NumPy's tiles and on the compiled solve."""
    if request.param == "compiled" and not available():
        pytest.skip("there is no Numba")
    monkeypatch.setattr(quadratic_module, "COMPILED", 0.0 if request.param == "compiled" else np.inf)


@pytest.mark.parametrize("curvature", [Q, np.array([0.4375, 1.5])], ids=["one", "by coordinate"])
def test_steps_of_two_over_the_sum_of_the_curvatures(curvature):
    objective = LocalObjective(CENTER, LINEAR, curvature, L1, ANCHOR)
    lower, upper = curvature_bounds(PROBLEM, objective)
    got = _proximal_gradient(PROBLEM, objective, START, ROWS, lower, upper, 3)
    for k, b in np.ndindex(2, 2):
        q = [Fraction(float(v)) for v in np.broadcast_to(curvature, 2)]
        middle = (Fraction(float(PROBLEM.beta_k[k])) + Fraction(float(PROBLEM.mu_k[k]))) / 2
        _, y = proximal_steps(k, b, [1 / (middle + p) for p in q], 3, q)
        np.testing.assert_allclose(got.y[k, b], [float(v) for v in y], rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(got.residual, objective.kkt_residual(got.y, PROBLEM.client_gradient(got.y)), rtol=1e-12)


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("given", ["anchor", "start"])
def test_the_fused_steps_and_their_residual(given, count, monkeypatch):
    """||z - p||/step times the contraction, (upper - lower)/2 in all, and half an eps of upper ||y||: no less than the true one."""
    start = ANCHOR if given == "anchor" else START
    monkeypatch.setattr(two_by_two, "START", start)
    lower, upper = curvature_bounds(PROBLEM, ELASTIC)
    got = affine_proximal_gradient(PROBLEM, ELASTIC, start, ROWS, lower, upper, count)
    true = ELASTIC.kkt_residual(got.y, PROBLEM.client_gradient(got.y))
    for k, b in np.ndindex(2, 2):
        step = 2 / (Fraction(float(lower[k])) + Fraction(float(upper[k])))
        before, y = proximal_steps(k, b, [step] * 2, count)
        np.testing.assert_allclose(got.y[k, b], [float(v) for v in y], rtol=1e-11, atol=1e-14)
        bound = math.hypot(*(float(u - v) for u, v in zip(before, y))) * (upper[k] - lower[k]) / 2
        assert got.residual[k, b] == pytest.approx(bound + 2.0**-53 * upper[k] * math.hypot(*got.y[k, b]), rel=1e-9)
        assert true[k, b] <= got.residual[k, b] * (1 + 1e-12)
    padded = ROWS._replace(valid=np.array([[True, False], [False, False]]))
    part = affine_proximal_gradient(PROBLEM, ELASTIC, start, padded, lower, upper, count)
    np.testing.assert_allclose(part.y[0, 0], got.y[0, 0], rtol=1e-14)
    assert not part.y[0, 1].any() and not part.residual[0, 1] and not part.y[1, 1].any()


@pytest.mark.usefixtures("engine")
def test_the_fused_steps_without_a_linear_part_and_around_the_center():
    objective = LocalObjective(CENTER, curvature=Q, l1=L1)
    lower, upper = curvature_bounds(PROBLEM, objective)
    for start in (CENTER, START):
        fused = affine_proximal_gradient(PROBLEM, objective, start, ROWS, lower, upper, 3)
        y = start
        for _ in range(3):
            step = (2 / (lower + upper))[:, None, None]
            y = objective.prox(y - step * (PROBLEM.client_gradient(y) + Q * (y - CENTER)), step)
        np.testing.assert_allclose(fused.y, y, rtol=1e-12, atol=1e-14)


def test_tiles_by_hand(monkeypatch):
    """Six points of two numbers in twelve: clients of 3 and 1 rows in one tile, of 2 alone, and 9 rows in two tiles of 5 and 4."""
    monkeypatch.setattr(quadratic_module, "TILE", 12)
    few, wide = [(0, 2, 0, 3), (2, 3, 0, 2), (3, 4, 0, 5), (3, 4, 5, 9)], [(0, 1, 0, 1), (0, 1, 1, 2), (1, 2, 0, 1)]
    for counts, d, cuts in (([3, 1, 2, 9], 2, few), ([2, 1], 100, wide), ([7, 1, 1, 2], 2, [(0, 1, 0, 4), (0, 1, 4, 7), (1, 4, 0, 2)])):
        assert [(c.start, c.stop, p.start, p.stop) for c, p in quadratic_module.tiles(np.array(counts), d)] == cuts


@pytest.mark.usefixtures("engine")
def test_the_residual_counts_what_rounding_can_add():
    """At the minimiser no step moves, and what is left is half an eps times upper ||y||."""
    lower, upper = curvature_bounds(PROBLEM, ELASTIC)
    got = affine_proximal_gradient(PROBLEM, ELASTIC, START, ROWS, lower, upper, 400)
    floor = 2.0**-53 * upper[:, None] * np.linalg.norm(got.y, axis=-1)
    assert (got.residual >= floor * (1 - 1e-12)).all() and (got.residual <= 8 * floor).all()
    assert (got.residual / floor).min() == pytest.approx(1, rel=1e-9)  # a row that no step moves any more


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("l1", [0.0, L1])
def test_rows_are_the_same_in_tiles_of_any_size(l1, monkeypatch):
    center, linear, anchor, start = np.random.default_rng(3).standard_normal((4, 2, 5, 2))
    objective = LocalObjective(center, linear, Q, l1, anchor)
    lower, upper = curvature_bounds(PROBLEM, objective)
    rows = rows_of(2, 5)
    whole = affine_proximal_gradient(PROBLEM, objective, start, rows, lower, upper, 3)
    plain = _proximal_gradient(PROBLEM, objective, start, rows, lower, upper, 3)
    np.testing.assert_allclose(whole.y, plain.y, rtol=1e-12, atol=1e-14)
    for tile in (4, 8, 14):
        monkeypatch.setattr(quadratic_module, "TILE", tile)
        cut = affine_proximal_gradient(PROBLEM, objective, start, rows, lower, upper, 3)
        np.testing.assert_allclose(cut.y, whole.y, rtol=1e-13, atol=1e-15)
        np.testing.assert_allclose(cut.residual, whole.residual, rtol=1e-12)
        padded = rows._replace(valid=np.arange(5) < [[3], [5]])
        assert not affine_proximal_gradient(PROBLEM, objective, start, padded, lower, upper, 3).y[0, 3:].any()


def test_rows_are_counted_to_the_last_that_is_valid():
    valid = np.array([[True, False, True, False], [False] * 4, [True] * 4, [True, False, False, False]])
    assert _prefix_counts(valid).tolist() == [3, 1, 4, 1] and _prefix_counts(valid[2:3]).tolist() == [4]


# --- which path, and how many steps ---------------------------------------------------------------
def test_how_many_steps_shrink_the_distance_to_1e_16():
    """Contractions 1/2 and 1/3: 54 halvings."""
    assert _steps_needed(np.array([1.0, 2.0]), np.array([3.0, 4.0])) == math.ceil(16 / math.log10(2)) == 54
    assert _steps_needed(np.array([2.0]), np.array([4.0])) == math.ceil(16 / math.log10(3)) == 34
    assert _steps_needed(np.array([1.0]), np.array([1.0])) == 2 and _steps_needed(np.array([1.0, 0.0]), np.ones(2)) == math.inf
    assert _steps_needed(np.array([1.0]), np.array([3e9])) == math.inf and _steps_needed(np.array([1.0]), np.array([1.5e9])) < math.inf
    assert _steps_needed(np.array([1.0]), np.array([1 + 1e-8])) == 2 and _steps_needed(np.array([1.0]), np.array([1 + 3e-8])) == 3


def test_the_curvature_of_the_smooth_part():
    lower, upper = curvature_bounds(PROBLEM, LocalObjective(CENTER, curvature=np.array([0.5, 2.0])))
    np.testing.assert_array_equal(lower, PROBLEM.mu_k + 0.5)
    np.testing.assert_array_equal(upper, PROBLEM.beta_k + 2.0)
    np.testing.assert_array_equal(curvature_bounds(PROBLEM, LocalObjective(CENTER, curvature=3))[0], PROBLEM.mu_k + 3.0)
    saddle = SimpleNamespace(convex=False, beta_k=np.array([3.0, 0.5]), num_clients=2, dim=1)
    lower, upper = curvature_bounds(saddle, LocalObjective(CENTER, curvature=5.0))
    assert lower.tolist() == [2.0, 4.5] and upper.tolist() == [8.0, 5.5]


@pytest.mark.parametrize(("fast", "most"), [(True, 1000), (False, 300)])
def test_proximal_gradient_is_taken_while_it_needs_few_steps(fast, most):
    for count, path in ((most, "prox"), (most + 1, "newton")):
        contraction = 1e-16 ** (1 / (count - 0.5))
        lower, upper = np.array([1 - contraction]), np.array([1 + contraction])
        assert _steps_needed(lower, upper) == count
        assert Exact()._plan(ELASTIC, lower, upper, fast) == (path, count if path == "prox" else 0)
    assert Exact()._is_direct(PROBLEM, LocalObjective(CENTER, curvature=Q))
    assert Exact()._plan(LocalObjective(CENTER, curvature=np.ones(2)), lower, upper, fast)[0] == "newton"
    assert Exact(method="newton")._plan(ELASTIC, 0 * lower, upper, fast) == ("newton", 0)
    assert Exact(method="prox")._plan(ELASTIC, lower, upper, fast) == ("prox", most + 1)


def test_which_walk_is_taken(monkeypatch):
    """The fused one for float64 numbers and one curvature, the generic one else, and Newton's where many steps are needed."""
    taken = []
    for name in ("affine_proximal_gradient", "_proximal_gradient", "newton"):
        true = getattr(exact_module, name)
        monkeypatch.setattr(exact_module, name, lambda *a, true=true, name=name: taken.append(name) or true(*a))
    single = LocalObjective(CENTER.astype(np.float32), curvature=Q, l1=L1)
    Exact().solve(PROBLEM, ELASTIC, START, ROWS)
    Exact().solve(PROBLEM, LocalObjective(CENTER, LINEAR, np.array([0.4375, 1.5]), L1, ANCHOR), START, ROWS)
    Exact(tolerance=1e-3).solve(PROBLEM.like(single.center), single, START.astype(np.float32), ROWS)
    steep = problems.Quadratic(np.array([np.diag([1.0, 1e4])] * 2), np.array(CENTERS))
    Exact().solve(steep, LocalObjective(CENTER, LINEAR, Q, L1), START, ROWS)
    assert taken == ["affine_proximal_gradient", "_proximal_gradient", "_proximal_gradient", "newton"]


def test_the_steps_of_a_loss_that_is_not_convex():
    """Its curvature is between -beta and beta, so that the step is 1/q: center + linear/q - grad f/q, and the threshold l1/q."""
    flat = SimpleNamespace(convex=False, beta_k=np.array([0.25, 0.5]), mu_k=np.ones(2), client_gradient=PROBLEM.client_gradient)
    got = _proximal_gradient(flat, ELASTIC, START, ROWS, np.ones(2), np.ones(2), 1)
    for k, b in np.ndindex(2, 2):
        _, y = proximal_steps(k, b, [1 / Fraction(Q)] * 2, 1)
        np.testing.assert_allclose(got.y[k, b], [float(v) for v in y], rtol=1e-12)


def test_a_path_that_is_not_there_is_refused():
    for objective in (ELASTIC, LocalObjective(CENTER, curvature=np.ones(2))):
        with pytest.raises(InvalidInput, match="method = 'direct' needs a quadratic problem, one curvature and no l1"):
            Exact(method="direct").solve(PROBLEM, objective, START, ROWS)
    flat = problems.Quadratic(np.zeros((2, 2, 2)), np.array(CENTERS))
    with pytest.raises(InvalidInput, match=r"method = 'prox' needs a strongly convex local objective \(curvature at least 0\)"):
        Exact(method="prox").solve(flat, LocalObjective(CENTER, LINEAR), START, ROWS)


@pytest.mark.parametrize("tolerance", [0.0, 1.0, -0.5, 1, float("nan"), "1e-9"])
def test_a_tolerance_lies_between_0_and_1(tolerance):
    with pytest.raises(InvalidInput) as refused:
        Exact(tolerance=tolerance)
    assert str(refused.value) == f"tolerance = {tolerance!r}: the KKT tolerance must lie in (0, 1)"
    with pytest.raises(InvalidInput, match="method = 'cg': use one of 'auto', 'prox', 'direct', 'newton'"):
        Exact(method="cg")


@pytest.mark.parametrize("method", ["auto", "newton"])
def test_a_minimiser_that_is_not_unique_is_refused_by_client_and_curvature(method):
    """Client 1's second coordinate has the curvature 0, or a millionth of a millionth of the first's."""
    for least, unique in ((0.0, False), (0.9e-12, False), (1e-8, True)):
        problem = problems.Quadratic(np.array([np.eye(2), np.diag([2.0, 2 * least])]), np.array(CENTERS))
        solve = Exact(method=method, tolerance=1e-9).solve
        if unique:
            solve(problem, LocalObjective(CENTER), START, ROWS)
            continue
        with pytest.raises(LocalSolveFailed, match=r"round 1, client 1: the local objective has no unique minimiser \(least curvature"):
            solve(problem, LocalObjective(CENTER), START, ROWS)
    with pytest.raises(LocalSolveFailed, match=r"client 1: .*\(least curvature 9e-13 of the largest, limit 1e-12\)"):
        quarter = problems.Quadratic(np.array([np.eye(2), np.diag([0.25, 0.25 * 0.9e-12])]), np.array(CENTERS))
        Exact(method="direct").solve(quarter, LocalObjective(CENTER), START, ROWS)


def test_what_was_not_reached_is_told_with_the_worst_row():
    residual = np.array([[1e-13, 0.25], [0.5, 1e-14]])

    def check(y, residual, rows=ROWS):
        Exact()._check(PROBLEM, ELASTIC, LocalResult(y, residual), rows)

    check(START, np.full((2, 2), 1e-12))
    upper = curvature_bounds(PROBLEM, ELASTIC)[1]
    relative = 0.5 / residual_scale(ELASTIC, START, upper[:, None], 1e-12)[1][1, 0]
    with pytest.raises(LocalSolveFailed, match=r"round 1, client 1: local KKT residual 0\.5") as refused:
        check(START, residual)
    assert f"(relative {relative:.3g}) is above 1e-12;" in str(refused.value)
    check(START, residual, ROWS._replace(valid=residual < 0.1))
    lost = np.where(np.arange(8).reshape(2, 2, 2) == 6, np.nan, START)
    with pytest.raises(Diverged, match=r"diverged in round 1 at client 1 \(scenario 1\): the local model is not finite") as diverged:
        check(lost, residual)
    assert (diverged.value.round_index, diverged.value.client, diverged.value.scenario) == (1, 1, 1)
    with pytest.raises(Diverged, match=r"client 0 \(scenario 1\)"):
        check(START, np.array([[1e-13, np.inf], [0.5, 1e-14]]))


def test_a_run_that_was_too_short_goes_on_from_where_it_is():
    """From 10^9 away 10^-16 of the distance is not the tolerance, and a second run reaches it."""
    got = Exact(method="prox").solve(PROBLEM, LocalObjective(CENTER, LINEAR, Q), START + 1e9, ROWS)
    near = Exact(method="direct").solve(PROBLEM, LocalObjective(CENTER, LINEAR, Q), START, ROWS)
    np.testing.assert_allclose(got.y, near.y, atol=1e-11)
