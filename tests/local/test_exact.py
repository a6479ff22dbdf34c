"""Exact local solves: residuals, exact zeros, independent solvers, and the same answer on every path, layout and array library."""

from __future__ import annotations

import array_api_strict
import numpy as np
import pytest
import torch
from active_rows import rows_of
from cases import each
from local_problems import PROBLEMS, elastic, kkt, least_squares, logistic, quadratic
from scipy.optimize import minimize

from fedtheory import Uniform, problems, simulate
from fedtheory.algorithms import FedDyn
from fedtheory.arrays import to_numpy
from fedtheory.clients.clients import Clients
from fedtheory.errors import Diverged, InvalidInput, LocalSolveFailed, MissingCapability
from fedtheory.local import SGD, Exact, GradientSteps, LocalObjective
from fedtheory.local.objective import Rows
from fedtheory.local.quadratic import TILE, tiles
from fedtheory.participation.cohorts import Cohort
from fedtheory.randomness import Stream

EPS = np.finfo(float).eps
LIKES = {
    "numpy": np.zeros(1),
    "strict": array_api_strict.asarray(np.zeros(1)),
    "torch": torch.zeros(1, dtype=torch.float64),
}


@each("name", PROBLEMS)
@each("curvature", [0.0, 1e-4, 0.1, 1.0, 28.0, 1000.0])
@each("l1", [0.0, 0.01, 0.3])
def test_exact_reaches_the_kkt_tolerance(name: str, curvature: float, l1: float) -> None:
    rng = np.random.default_rng(1)
    problem = PROBLEMS[name](rng)
    objective, start = elastic(rng, problem, curvature, l1)
    result = Exact().solve(problem, objective, start, rows_of(*start.shape[:2]))
    residual = kkt(problem, objective, result.y)
    scale = 1 + objective.curvature * np.abs(result.y - start).max()
    rounding = 64 * EPS * (objective.curvature + problem.beta_k.max()) * np.abs(result.y).max()
    assert residual.max() <= 1e-12 * scale + rounding
    np.testing.assert_allclose(result.residual, residual, atol=1e-13 * scale + rounding)
    if l1 == 0.3 and curvature >= 0.1:
        assert (result.y == start).any() and (result.y != start).any()  # some zeros, exact, but not all


@pytest.mark.parametrize("name", PROBLEMS)
def test_a_start_far_away_costs_no_accuracy(name: str) -> None:
    """The penalty cancels the loss's gradient near the center, so that only the start is large."""
    rng = np.random.default_rng(20)
    problem = PROBLEMS[name](rng)
    objective, start = elastic(rng, problem, 28.0, 0.01)
    y = Exact().solve(problem, objective, start + 1e7, rows_of(*start.shape[:2])).y
    near = Exact().solve(problem, objective, start, rows_of(*start.shape[:2])).y
    assert kkt(problem, objective, y).max() <= 1e-11
    np.testing.assert_allclose(y, near, atol=1e-13)
    np.testing.assert_array_equal(y == start, near == start)


def test_zeros_are_those_of_the_minimiser() -> None:
    """d = 1: y = center exactly when |linear - f'(center)| <= l1, also with an uneven center."""
    center = np.array([0.1, 1 / 3, -7.7, 1e3])[None, :, None]
    problem = problems.Quadratic(np.full((1, 1, 1), 2.0), np.full((1, 1), 0.3))
    pull = 2.0 * (center - 0.3)
    for curvature in (1e-3, 1.0, 60.0):
        for method in ("prox", "newton"):
            inside = LocalObjective(center, pull + 0.499, curvature, 0.5)
            y = Exact(method=method).solve(problem, inside, center + 1.0, rows_of(1, 4)).y
            assert (y == center).all()
            outside = LocalObjective(center, pull + 0.6, curvature, 0.5)
            y = Exact(method=method).solve(problem, outside, center, rows_of(1, 4)).y
            np.testing.assert_allclose(y - center, 0.1 / (2.0 + curvature), rtol=1e-9)


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("l1", [0.0, 0.05, 0.3])
def test_newton_agrees_with_proximal_gradient(name: str, l1: float) -> None:
    rng = np.random.default_rng(2)
    problem = PROBLEMS[name](rng)
    objective, start = elastic(rng, problem, 0.5, l1)
    rows = rows_of(*start.shape[:2])
    walked = Exact(method="prox").solve(problem, objective, start, rows)
    jumped = Exact(method="newton").solve(problem, objective, start, rows)
    np.testing.assert_allclose(jumped.y, walked.y, atol=2e-12)
    np.testing.assert_array_equal(jumped.y == start, walked.y == start)


def test_fused_path_agrees_with_the_generic_one() -> None:
    """Padding, several tiles, an anchor that is not the center, and a start that is neither."""
    from fedtheory.local.exact import _proximal_gradient
    from fedtheory.local.quadratic import affine_proximal_gradient, curvature_bounds

    rng = np.random.default_rng(3)
    problem = least_squares(rng, clients=4, dim=30)
    shape = (4, 700, 30)
    center, anchor, start, linear = (rng.standard_normal(shape) for _ in range(4))
    valid = np.arange(700) < np.array([700, 3, 0, 350])[:, None]
    rows = Rows(np.arange(4), np.broadcast_to(np.arange(700), (4, 700)), valid, Stream(0), 1)
    for objective in (
        LocalObjective(center, linear, 3.0, 0.2, anchor),
        LocalObjective(center, None, 3.0, 0.2),
        LocalObjective(center, linear, 3.0, 0.0),
    ):
        args = (problem, objective, start, rows, *curvature_bounds(problem, objective), 40)
        fused, plain = affine_proximal_gradient(*args), _proximal_gradient(*args)
        np.testing.assert_allclose(fused.y[valid], plain.y[valid], atol=1e-14)
        offset = objective.l1_center
        np.testing.assert_array_equal((fused.y == offset)[valid], (plain.y == offset)[valid])
        assert fused.residual[valid].max() < 1e-12


def test_tiles_cover_every_row_once() -> None:
    for counts, dim in (([3, 1, 900, 2], 50), ([1], 100_000), ([100] * 7, 50), ([1] * 300, 40)):
        seen = np.zeros((len(counts), max(counts)), dtype=int)
        for clients, points in tiles(np.array(counts), dim):
            seen[clients, points] += 1
            assert seen[clients, points].size <= max(1, TILE // dim)
        assert seen.max() == 1
        assert all((seen[k, :c] == 1).all() for k, c in enumerate(counts))


@pytest.mark.filterwarnings("ignore:Solution may be inaccurate")  # its tolerances are out of Clarabel's reach; the gap is what counts
@pytest.mark.parametrize("name", ["quadratic", "logistic"])
def test_exact_agrees_with_cvxpy(name: str) -> None:
    import cvxpy as cp

    rng = np.random.default_rng(4)
    problem = PROBLEMS[name](rng, clients=1, dim=5)
    objective, start = elastic(rng, problem, 0.01, 0.2, points=2)
    y = Exact().solve(problem, objective, start, rows_of(1, 2)).y
    for b in range(2):
        v = cp.Variable(5)
        c, g = objective.center[0, b], objective.linear[0, b]
        penalty = objective.curvature / 2 * cp.sum_squares(v - c) - g @ v + objective.l1 * cp.norm1(v - c)
        solved = cp.Problem(cp.Minimize(problem.cvxpy_objective(v) + penalty))
        solved.solve(solver=cp.CLARABEL, tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11)
        np.testing.assert_allclose(y[0, b], v.value, atol=2e-4)  # least curvature 0.01: the gap bounds the distance
        own = float(problem.client_value(y[:, b : b + 1])[0, 0] + objective.penalty_value(y)[0, b])
        assert own <= solved.value + 1e-9 * max(1.0, abs(solved.value))


def test_exact_agrees_with_scipy() -> None:
    """Split into positive and negative parts, the local problem is smooth with bounds: L-BFGS-B solves it independently."""
    rng = np.random.default_rng(5)
    problem = logistic(rng, clients=1, dim=4)
    objective, start = elastic(rng, problem, 0.5, 0.05, points=1)
    y = Exact().solve(problem, objective, start, rows_of(1, 1)).y[0, 0]
    center, linear = objective.center[0, 0], objective.linear[0, 0]

    def split(w: np.ndarray) -> tuple[float, np.ndarray]:
        z = w[:4] - w[4:]
        point = (center + z)[None, None]
        value = problem.client_value(point)[0, 0] - linear @ (center + z) + objective.curvature / 2 * z @ z
        gradient = problem.client_gradient(point)[0, 0] - linear + objective.curvature * z
        return value + objective.l1 * w.sum(), np.concatenate([gradient, -gradient]) + objective.l1

    options = {"ftol": 1e-16, "gtol": 1e-12, "maxiter": 5000}
    found = minimize(split, np.zeros(8), jac=True, method="L-BFGS-B", bounds=[(0, None)] * 8, options=options)
    np.testing.assert_allclose(y, center + found.x[:4] - found.x[4:], atol=1e-6)


def test_curvature_may_differ_by_coordinate() -> None:
    rng = np.random.default_rng(6)
    for problem in (least_squares(rng), logistic(rng)):
        shape = (3, 4, problem.dim)
        for low in (1e-3, 1.0):
            q = low + rng.random(shape)
            objective = LocalObjective(rng.standard_normal(shape), 0.1 * rng.standard_normal(shape), q, 0.1)
            result = Exact().solve(problem, objective, objective.center, rows_of(3, 4))
            assert kkt(problem, objective, result.y).max() <= 2e-12


def test_unequal_curvature_needs_no_more_than_its_spread() -> None:
    """beta = mu and one curvature: the problem is a scaled identity and the threshold gives the answer in closed form."""
    problem = problems.Quadratic(np.array([np.eye(3) * 2.0]), np.zeros((1, 3)))
    objective = LocalObjective(np.zeros((1, 1, 3)), np.array([[[3.0, 0.2, -1.0]]]), 4.0, 0.5)
    y = Exact().solve(problem, objective, objective.center, rows_of(1, 1)).y
    np.testing.assert_allclose(y[0, 0], [2.5 / 6, 0.0, -0.5 / 6], rtol=1e-15)


def test_no_unique_minimiser_is_refused() -> None:
    rng = np.random.default_rng(7)
    wide = problems.LeastSquares(rng.standard_normal((2, 3, 6)), rng.standard_normal((2, 3)))  # n < d
    free = LocalObjective(np.zeros((2, 1, 6)))
    with pytest.raises(LocalSolveFailed, match=r"round 4, client 0.*unique minimiser"):
        Exact().solve(wide, free, np.zeros((2, 1, 6)), rows_of(2, 1, round_index=4))
    margin = rng.standard_normal((1, 8, 3))
    separable = problems.Logistic(margin, np.where(margin[..., 0] > 0, 1.0, -1.0))  # its minimiser is at infinity
    with pytest.raises(LocalSolveFailed, match="unique minimiser"):
        Exact().solve(separable, LocalObjective(np.zeros((1, 1, 3))), np.zeros((1, 1, 3)), rows_of(1, 1))
    saddle = problems.Quadratic(np.array([np.diag([1.0, -1.0])]), np.zeros((1, 2)))
    for l1 in (0.0, 0.1):
        objective = LocalObjective(np.ones((1, 1, 2)), None, 0.5, l1)
        with pytest.raises(LocalSolveFailed):
            Exact().solve(saddle, objective, np.ones((1, 1, 2)), rows_of(1, 1))
    enough = LocalObjective(np.ones((1, 1, 2)), np.zeros((1, 1, 2)), 1.5, 0.1)  # 1.5 > 1 makes it convex
    assert kkt(saddle, enough, Exact().solve(saddle, enough, np.ones((1, 1, 2)), rows_of(1, 1)).y) < 1e-12


def test_weakly_convex_clients_with_l1_are_solved_where_the_minimiser_is_unique() -> None:
    rng = np.random.default_rng(8)
    wide = problems.LeastSquares(rng.standard_normal((1, 4, 9)), rng.standard_normal((1, 4)))
    objective = LocalObjective(np.zeros((1, 3, 9)), np.zeros((1, 3, 9)), 0.0, 0.2)
    y = Exact().solve(wide, objective, rng.standard_normal((1, 3, 9)), rows_of(1, 3)).y
    assert kkt(wide, objective, y).max() <= 1e-12
    np.testing.assert_allclose(y[0, 1], y[0, 0], atol=1e-10)  # whatever the start
    assert (np.count_nonzero(y, axis=-1) <= 4).all()


def test_overflow_is_reported_as_divergence() -> None:
    problem = problems.Quadratic(np.array([np.eye(2)]), np.full((1, 2), -1e100))
    far = np.full((1, 1, 2), 1.5e308)
    objective = LocalObjective(far, None, 1e10, 0.1)
    with pytest.raises(Diverged, match="client 0") as caught, np.errstate(all="ignore"):
        Exact().solve(problem, objective, far, rows_of(1, 1, round_index=9))
    assert (caught.value.round_index, caught.value.client) == (9, 0)


@pytest.mark.parametrize("library", ["strict", "torch"])
@pytest.mark.parametrize("name", ["quadratic", "logistic"])
@pytest.mark.parametrize("solver", [Exact(), Exact(method="newton"), GradientSteps(3, 0.1), SGD(7, 0.1, epochs=2)])
def test_array_libraries_agree(library: str, name: str, solver: object) -> None:
    rng = np.random.default_rng(9)
    if isinstance(solver, SGD) and name == "quadratic":
        name = "least squares"
    problem = PROBLEMS[name](rng)
    for curvature in (0.01, 28.0):
        objective, start = elastic(rng, problem, curvature, 0.1)
        if not isinstance(solver, Exact) and curvature > 1:
            continue
        own = solver.solve(problem, objective, start, rows_of(*start.shape[:2])).y
        like = LIKES[library]
        xp = array_api_strict if library == "strict" else torch
        moved = objective.map(xp.asarray)
        other = solver.solve(problem.like(like), moved, xp.asarray(start), rows_of(*start.shape[:2])).y
        np.testing.assert_allclose(to_numpy(other), own, atol=1e-10)
        np.testing.assert_array_equal(to_numpy(other) == start, own == start)


@pytest.mark.parametrize("solver", [Exact(), Exact(method="newton"), GradientSteps(4, 0.05), SGD(6, 0.05, epochs=2)])
def test_dense_and_gathered_cohorts_agree(solver: object) -> None:
    rng = np.random.default_rng(10)
    sizes = [5, 20, 9, 20]
    problem = problems.LeastSquares([rng.standard_normal((n, 6)) for n in sizes], [rng.standard_normal(n) for n in sizes])
    members = np.array([[0, 1], [1, 3], [0, 2], [1, 3], [2, 3]])
    cohort = Cohort(4, members=members)
    memory, theta = rng.standard_normal((5, 4, 6)), rng.standard_normal((5, 6))
    found = []
    for layout in (cohort, cohort.dense()):
        clients = Clients(problem, layout, solver, theta, Stream(3), 2)
        center = clients.broadcast(theta)
        objective = LocalObjective(center, 0.1 * clients.take(memory), 0.5, 0.1)
        result = clients.minimise(objective, center)
        sums = np.zeros((1, 1, 1)) if result.step_sum is None else np.asarray(result.step_sum)
        sums = np.broadcast_to(sums, (*result.y.shape[:2], 1))
        found.append([clients.put(memory, result.y), clients.put(memory, np.broadcast_to(sums, result.y.shape))])
    np.testing.assert_allclose(found[0][0], found[1][0], atol=1e-13)
    np.testing.assert_allclose(found[0][1], found[1][1], atol=1e-15)


def test_what_a_problem_keeps_for_the_next_round_is_of_its_curvature() -> None:
    """Curvatures that come and go give what a problem gives that never saw another."""
    problem = quadratic(np.random.default_rng(17))
    for curvature in (0.5, 2.0, 2.0, 0.5):
        objective, start = elastic(np.random.default_rng(18), problem, curvature, 0.0)
        rows, fresh = rows_of(*start.shape[:2]), quadratic(np.random.default_rng(17))
        found, wanted = (Exact(method="direct").solve(p, objective, start, rows) for p in (problem, fresh))
        np.testing.assert_array_equal(found.y, wanted.y)
        assert np.max(kkt(problem, objective, found.y)) < 1e-11


def test_unavailable_paths_are_refused() -> None:
    rng = np.random.default_rng(16)
    problem = quadratic(rng)
    objective, start = elastic(rng, problem, 0.0, 0.1)
    with pytest.raises(MissingCapability, match="GradientSteps"):
        SGD(2, 0.1, epochs=1).check(problem)
    with pytest.raises(InvalidInput, match="direct"):
        Exact(method="direct").solve(problem, objective, start, rows_of(*start.shape[:2]))
    saddle = problems.Quadratic(np.array([np.diag([1.0, -1.0])]), np.zeros((1, 2)))
    flat = LocalObjective(np.zeros((1, 1, 2)), None, 0.5, 0.1)
    with pytest.raises(InvalidInput, match="strongly convex"):
        Exact(method="prox").solve(saddle, flat, np.zeros((1, 1, 2)), rows_of(1, 1))


def test_the_hessians_are_inverted_once_whatever_the_cohorts(monkeypatch):
    rng = np.random.default_rng(3)
    problem = problems.LeastSquares(rng.normal(size=(12, 9, 4)), rng.normal(size=(12, 9)))
    inverted, plain = [], np.linalg.inv
    monkeypatch.setattr(np.linalg, "inv", lambda a: (inverted.append(len(a)), plain(a))[1])
    long = simulate(problem, FedDyn(alpha=0.5), 40, sampling=Uniform(3), local_solver=Exact())
    assert sum(inverted) <= 12 + 3 and len(inverted) <= 2
    inverted.clear()
    again = problems.LeastSquares(problem.features, problem.targets)
    again.__dict__["_prepared"] = {"inverse": (0.25, None)}  # asked for another curvature before
    np.testing.assert_array_equal(
        simulate(again, FedDyn(alpha=0.5), 40, sampling=Uniform(3), local_solver=Exact()).x, long.x
    )
    assert sum(inverted) <= 12 + 3


def test_what_is_kept_of_a_problem_goes_with_its_arrays():
    rng = np.random.default_rng(31)
    problem, other = quadratic(rng), quadratic(rng)
    objective, start = elastic(rng, problem, 0.5, 0.0)
    rows = rows_of(*start.shape[:2])
    for _ in range(2):
        Exact().solve(problem, objective, start, rows)
    problem.hessians, problem.minimisers = other.hessians, other.minimisers
    found = Exact().solve(problem, objective, start, rows)
    np.testing.assert_array_equal(found.y, Exact().solve(other, objective, start, rows).y)


def test_a_direct_solve_is_refined_where_rounding_calls_for_it(monkeypatch):
    """A well conditioned client takes one product with its inverse; one of condition 1e9 ends at rounding of H y, too."""
    rng = np.random.default_rng(32)
    products, plain = [], problems.Quadratic.client_gradient
    monkeypatch.setattr(problems.Quadratic, "client_gradient", lambda p, y: (products.append(1), plain(p, y))[1])
    for spread, count in ((1.0, 2), (9.0, 3)):
        q, _ = np.linalg.qr(rng.standard_normal((6, 6)))
        h = q * np.logspace(0, -spread, 6) @ q.T
        problem = problems.Quadratic(h[None], rng.standard_normal((1, 6)))
        start = rng.standard_normal((1, 1, 6))
        objective = LocalObjective(start)  # the minimiser is of the size of the start, whatever the condition
        products.clear()
        result = Exact().solve(problem, objective, start, rows_of(1, 1))
        assert len(products) == count
        assert result.residual.max() <= 16 * EPS * np.abs(result.y).max()
        true = np.abs(h @ (result.y - problem.minimisers)[0, 0]).max()
        np.testing.assert_allclose(result.residual, true, atol=4 * EPS * np.abs(result.y).max())
