"""The compiled solve: two steps by hand, and whole runs with and without it. tests/local/test_worked_exact.py has the rest."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest

from fedtheory import Full, Uniform, simulate
from fedtheory.algorithms import FedElasticNetDyn
from fedtheory.arrays import memory_of
from fedtheory.clients.clients import Clients
from fedtheory.compiled import available
from fedtheory.local import Exact, GradientSteps, LocalObjective, exact, quadratic, quadratic_kernels
from fedtheory.local.objective import Rows
from fedtheory.local.shifted_gradients import ScaledView
from fedtheory.problems import LeastSquares, Quadratic, random_quadratic
from fedtheory.randomness import Stream

pytestmark = pytest.mark.skipif(not available(), reason="there is no Numba")


def solve(counts, count, hessian, slope, step, l1, anchor, start=None):
    """The compiled solve of one number a row: y and residual, with shrink = coarse = 1 and no linear part nor center."""
    y, residual = np.full_like(anchor, 7.0), np.full(anchor.shape[:2], 7.0)
    views, ones = (memory_of(anchor), None if start is None else memory_of(start), None, None), np.ones(len(counts))
    models, scalars = (np.array(hessian)[:, None, None], np.array(slope)[:, None, None]), (np.array(step), ones, ones)
    quadratic_kernels.solve(y, residual, None, views, models, scalars, np.array(counts), count, 0.0, l1)
    return y[..., 0].tolist(), residual.tolist()


def test_two_steps_by_hand():
    """h = 1, f' = y - 4, step 1/2, l1 = 1 around 1, from 1: z = soft(3/2, 1/2) = 1, then soft(1/2 + 3/2, 1/2) = 3/2: y = 5/2.

    From y = 3, z = 2: soft(1 + 3/2, 1/2) = 2 stays, y = 3, nothing moved. The second client has one row; what
    pads it is left alone.
    """
    anchor = np.ones((2, 3, 1))
    start = np.array([[[1.0], [3.0], [1.0]], [[3.0], [1.0], [1.0]]])
    y, residual = solve([3, 1], 2, [1.0, 1.0], [-4.0, -4.0], [0.5, 0.5], 1.0, anchor, start)
    assert y == [[2.5, 3.0, 2.5], [3.0, 7.0, 7.0]]
    assert residual == [[0.5 + 2.5, 3.0, 0.5 + 2.5], [3.0, 7.0, 7.0]]
    assert solve([3, 1], 2, [1.0, 1.0], [-4.0, -4.0], [0.5, 0.5], 1.0, anchor)[0] == [[2.5, 2.5, 2.5], [2.5, 7.0, 7.0]]


@pytest.mark.parametrize("dim", [1, 6, 33])
def test_whole_runs_with_and_without_them_agree(dim, monkeypatch):
    problem = random_quadratic(5, dim, seed=1, condition=10.0 if dim > 1 else 1.0)
    method = FedElasticNetDyn(0.3, 30 * float(problem.beta_k.max()))
    called = []
    real = quadratic._solve
    monkeypatch.setattr(quadratic, "_solve", lambda *given: called.append(1) or real(*given))
    how = {"rounds": 3, "sampling": Uniform(2), "scenarios": 17, "seed": 2}
    plain = simulate(problem, method, **how).final.x
    assert not called, "so little work is not worth a compiled loop"
    monkeypatch.setattr(quadratic, "COMPILED", 0.0)
    fused = simulate(problem, method, **how).final.x
    assert called
    np.testing.assert_allclose(fused, plain, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("sampling", [Uniform(2), Full()])
def test_slots_are_solved_where_they_lie(sampling, monkeypatch):
    """With the numbers of rows that were gathered first, to the last bit; what does not end within the tolerance is left to `solve`."""
    problem = random_quadratic(5, 6, seed=1, condition=10.0)
    method = FedElasticNetDyn(0.3, 30 * float(problem.beta_k.max()))
    monkeypatch.setattr(quadratic, "COMPILED", 0.0)
    taken = []

    @dataclass(frozen=True)
    class Gathered(Exact):
        def solve_slots(self, *args):
            taken.append(super().solve_slots(*args) is not None)

    how = {"rounds": 4, "sampling": sampling, "scenarios": 17, "seed": 2, "record": ("objective", "distance")}
    there, rows = (simulate(problem, method, local_solver=solver, **how) for solver in (Exact(), Gathered()))
    assert taken == ([True] * 4 if sampling == Uniform(2) else [])  # of everybody no rows are gathered
    for name in how["record"]:
        np.testing.assert_array_equal(there.metrics[name], rows.metrics[name])
    for one, other in zip(there.final, rows.final, strict=True):
        np.testing.assert_array_equal(one, other)
    def one_step(*args):
        return quadratic.affine_proximal_gradient(*args[:6], 1 if len(args) > 7 else args[6], *args[7:])

    monkeypatch.setattr(exact, "affine_proximal_gradient", one_step)  # of slots
    np.testing.assert_array_equal(simulate(problem, method, **how).final.x, there.final.x)


def test_a_number_that_is_none_stays_one():
    anchor = np.array([[[np.nan], [1.0]]])
    start = np.array([[[1.0], [np.inf]]])
    (y,), _ = solve([2], 2, [1.0], [-4.0], [0.5], 1.0, anchor, start)
    assert np.isnan(y[0]) and not np.isfinite(y[1])


def test_a_row_is_the_same_beside_any_others():
    """To the last bit: first, last and alone, in memory of its own, and beside rows that are no numbers."""
    rng = np.random.default_rng(4)
    dim, rows = 21, 9
    hessian, slope = np.eye(dim)[None] + 0.1 * rng.random((1, dim, dim)), rng.standard_normal((1, 1, dim))
    anchor, start, linear, center = rng.standard_normal((4, 1, rows, dim))
    scalars = np.array([0.4]), np.array([1.0]), np.array([1.0])

    def run(which, given=(True, True, True)):
        parts = tuple(np.ascontiguousarray(part[:, which]) for part in (anchor, start, linear, center))
        views = tuple(memory_of(part) if there else None for part, there in zip(parts, (True, *given), strict=True))
        y, residual = np.empty_like(parts[0]), np.empty(parts[0].shape[:2])
        quadratic_kernels.solve(y, residual, None, views, (hessian, slope), scalars, np.array([len(which)]), 6, 0.7, 0.3)
        return y[0], residual[0]

    everything = list(range(rows))
    for given in ((True, True, True), (False, True, False), (False, False, False)):
        y, residual = run(everything, given)
        for which in ([8], [3, 8], [8, 7, 6, 5, 4], everything[::-1]):
            part, left = run(which, given)
            np.testing.assert_array_equal(part, y[which])
            np.testing.assert_array_equal(left, residual[which])
    before = run(everything)
    anchor[0, 2], start[0, 4] = np.nan, np.inf
    y, residual = run(everything)
    good = [0, 1, 3, 5, 6, 7, 8]
    np.testing.assert_array_equal(y[good], before[0][good])
    np.testing.assert_array_equal(residual[good], before[1][good])
    assert not np.isfinite(y[[2, 4]]).any() and not np.isfinite(residual[[2, 4]]).any()


class Walked(GradientSteps):
    """The same steps as `client_gradient` gives them, one after the other."""

    def solve_slots(self, *args):
        return None


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("dim", [1, 6, 33])
def test_gradient_steps_of_quadratics_are_affine(dim, compiled, monkeypatch):
    """Whatever the start, the center and the penalty; the l1 subgradient is no affine map and is left out."""
    problem = random_quadratic(5, dim, seed=1, condition=10.0 if dim > 1 else 1.0)
    rng, lr = np.random.default_rng(3), 0.4 / float(problem.beta_k.max())
    monkeypatch.setattr(quadratic, "COMPILED", 0.0 if compiled else np.inf)
    center, start, linear, anchor = rng.standard_normal((4, 5, 7, dim))
    rows = Rows(np.arange(5), np.tile(np.arange(7), (5, 1)), np.ones((5, 7), dtype=bool), Stream(0), 3)
    for objective in (
        LocalObjective(center),
        LocalObjective(center, linear, 0.7),
        LocalObjective(start, linear, 0.7, 0.2, anchor),
        LocalObjective(center, None, 0.7, 0.2),
    ):
        for l1 in ("prox", "subgradient"):
            args = problem, objective, start, rows
            fast, slow = (kind(4, lr, l1, decay=0.9).solve(*args) for kind in (GradientSteps, Walked))
            assert fast.step_sum == slow.step_sum == 4 * lr * 0.9**2
            np.testing.assert_allclose(fast.y, slow.y, rtol=1e-13, atol=1e-14)
            assert (GradientSteps(4, lr, l1).solve_slots(*args, None) is None) == (l1 == "subgradient" and bool(objective.l1))


def test_steps_that_are_no_affine_map_of_the_problem_walk():
    """A view changes the gradients and not the Hessians; few samples are cheaper than a Hessian of many coordinates."""
    problem = random_quadratic(3, 4, seed=1)
    rows = Rows(np.arange(3), np.zeros((3, 1), dtype=int), np.ones((3, 1), dtype=bool), Stream(0), 1)
    start = np.ones((3, 1, 4))
    steps, objective = GradientSteps(3, 0.1), LocalObjective(start)
    halved = steps.solve(ScaledView(problem, 0.5), objective, start, rows).y
    np.testing.assert_allclose(halved, GradientSteps(3, 0.05).solve(problem, objective, start, rows).y, rtol=1e-13)
    rng = np.random.default_rng(0)
    wide = LeastSquares(rng.standard_normal((3, 2, 9)), rng.standard_normal((3, 2)))
    assert wide.few_samples
    steps.solve(wide, LocalObjective(np.ones((3, 1, 9))), np.ones((3, 1, 9)), rows)
    assert "_grams" not in wide.__dict__


class Tilted(LeastSquares):
    """The gradient alone is a subclass's own."""

    def client_gradient(self, y):
        return super().client_gradient(y) + np.sin(y)


def test_a_gradient_of_ones_own_is_walked_along():
    rng = np.random.default_rng(9)
    problem = Tilted(rng.standard_normal((2, 7, 3)), rng.standard_normal((2, 7)))
    rows = Rows(np.arange(2), np.zeros((2, 1), dtype=int), np.ones((2, 1), dtype=bool), Stream(0), 1)
    y = start = np.ones((2, 1, 3))
    for _ in range(3):
        y = y - 0.1 * problem.client_gradient(y)
    found = GradientSteps(3, 0.1).solve(problem, LocalObjective(start), start, rows).y
    np.testing.assert_allclose(found, y, rtol=1e-14)


def test_matrices_too_large_to_be_kept_are_not_made_for_a_few_steps(monkeypatch):
    """Making them each round would cost more than they save; compiled they are made row by row."""
    problem = random_quadratic(5, 6, seed=1)
    start = np.ones((5, 1, 6))
    rows = Rows(np.arange(5), np.zeros((5, 1), dtype=int), np.ones((5, 1), dtype=bool), Stream(0), 1)
    args, steps = (problem, LocalObjective(start), start, rows, None), GradientSteps(3, 0.1)
    wanted = steps.solve_slots(*args).y
    monkeypatch.setattr(quadratic, "KEPT", 5 * 6 * 6 - 1)
    assert steps.solve_slots(*args) is None
    np.testing.assert_allclose(steps.solve(*args[:4]).y, wanted, rtol=1e-14)


@pytest.mark.parametrize("spread", [1.0, 8.0])
def test_exact_solves_in_slots(spread, monkeypatch):
    """The KKT residual that is told bounds the true one, which is rounding, whatever the condition; alone or beside others."""
    rng = np.random.default_rng(5)
    d, q = 13, [np.linalg.qr(rng.standard_normal((13, 13)))[0] for _ in range(4)]
    problem = Quadratic(np.array([u * np.logspace(0, -spread, d) @ u.T for u in q]), rng.standard_normal((4, d)))
    x, linear = rng.standard_normal((2, 6, 3, d))
    cohort = Uniform(3).sample(Stream(1), 1, range(6), 4)
    clients = Clients(problem, cohort, Exact(), x, Stream(1))
    objective = LocalObjective(x, linear, 0.25 if spread == 1.0 else 0.0)
    plain = clients.minimise(objective, x).y
    monkeypatch.setattr(quadratic, "COMPILED", 0.0)
    made = []
    monkeypatch.setattr(exact, "direct_solve", lambda *args: made.append(quadratic.direct_solve(*args)) or made[-1])
    found = clients.minimise(objective, x)
    assert made[0] is not None
    result = made[0]
    np.testing.assert_allclose(result.y, plain, rtol=1e-12 * 10**spread, atol=1e-13)
    gradient = problem.subset(cohort.members.ravel()).client_gradient(result.y.reshape(-1, 1, d)).reshape(x.shape)
    true = np.linalg.norm(gradient + objective.smooth_penalty_gradient(result.y), axis=-1)
    size = np.linalg.norm(result.y, axis=-1)
    assert (true <= result.residual + 2**-50 * 1.25 * size).all()
    assert (result.residual <= np.maximum(1e-12, 2**-53 * 1.25 * 20 * (size + np.linalg.norm(x, axis=-1)))).all()
    np.testing.assert_array_equal(found.y, result.y)


@pytest.mark.parametrize("spread", [0.5, 3.0, 6.0])
def test_what_a_kept_inverse_can_lose(spread):
    """||b - (b G) H||, in fractions, is within reach of ||b||; a reach a thousandth as large is not, for ill conditioned clients."""
    rng = np.random.default_rng(7)
    u = np.linalg.qr(rng.standard_normal((6, 6)))[0]
    problem = Quadratic((u * np.logspace(0, -spread, 6) @ u.T)[None], np.zeros((1, 6)))
    inverse, whole = quadratic.inverses(problem, 0.0, np.eye(6))[0], problem.hessians[0]
    (reach,), worst = quadratic._reach(problem, 0.0), 0.0
    for b in rng.standard_normal((40, 6)):
        z = [Fraction(float(v)) for v in b @ inverse]
        left = [Fraction(float(b[j])) - sum(z[i] * Fraction(float(whole[i, j])) for i in range(6)) for j in range(6)]
        worst = max(worst, math.hypot(*map(float, left)) / float(np.linalg.norm(b)))
    assert worst <= reach and (worst > reach / 1000 or spread < 1)
