"""Claims of EFL's paper without a formula, on a user's problem: in fractions and by hand."""

from __future__ import annotations

from fractions import Fraction as F

import numpy as np
import pytest
from efl_on_a_problem import BOTH_WAYS, BUILDERS, ST, checks_of, view_of

from fedtheory import problems
from fedtheory.algorithms import EFL
from fedtheory.errors import InvalidInput
from fedtheory.local import LocalSGD
from fedtheory.participation.irregular import Irregular
from fedtheory.simulation.simulate import simulate
from fedtheory.theorems.efl.compressed_paths import cases_of, play


def test_the_real_run_with_compression_is_the_one_in_fractions():
    """The library's EFL on two clients, E = 2, ST both ways, against the run that is written down in fractions."""
    data = {
        "weights": ["1/2", "1/2"], "h": [["1", "1/2"], ["1/2", "1"]], "c": [["2", "1"], ["-1", "3"]], "q": "1/2", "down": True,
        "E": 2, "T": 4, "w0": ["4", "0"],
    }  # fmt: skip
    exact = BUILDERS["compressed"](data)
    problem = problems.Quadratic([np.diag([1.0, 0.5]), np.diag([0.5, 1.0])], [[2.0, 1.0], [-1.0, 3.0]])
    how = {"x0": [4.0, 0.0], "rounds": 4, "local_solver": LocalSGD(2, 1.0)}
    real = view_of("compressed-convergence", "repaired", problem, BOTH_WAYS, **how)
    for name in ("w", "R", "R_G", "local", "sent", "star", "D", "weights"):
        assert getattr(real, name) == pytest.approx(getattr(exact, name).astype(float), rel=1e-9, abs=1e-9), name
    for name in ("gamma", "G_sq", "L", "mu", "delta", "down", "rho_sq", "E", "T"):
        assert getattr(real, name) == pytest.approx(float(getattr(exact, name))), name


def test_a_path_of_participation_is_the_librarys_run():
    """Client 0 makes 2, then 1 of E = 2 steps, client 1 is inactive, then complete; scheme C, ST both ways."""
    weights, law = np.array([0.25, 0.75]), np.array([[0.0, 0.5, 0.5], [0.3, 0.0, 0.7]])
    problem = problems.Quadratic([np.diag([1.0, 0.5]), np.diag([0.5, 1.0])], [[2.0, 1.0], [-1.0, 3.0]], weights)
    cases, etas, rounds = cases_of("C", law, weights), [0.1, 0.05], [[2, 0], [1, 2]]
    start = np.array([4.0, 0.0])
    mass, G_sq, w, R, R_G, *_ = play(lambda y: np.asarray(problem.gradient_each(y)), cases, ST, ST, weights, start, etas, 2)
    first, second = (int(np.flatnonzero((cases.steps == s).all(axis=1))[0]) for s in rounds)
    path = first * len(cases.steps) + second
    sampling = Irregular(2, [np.eye(3)[s] for s in rounds])
    solver = LocalSGD(2, lambda t: etas[t - 1])
    run = simulate(problem, BOTH_WAYS, 2, start, sampling, local_solver=solver, keep_states=True, record=())
    for t, state in enumerate(list(run.states)[-2:], start=1):
        assert np.asarray(state.x)[0] == pytest.approx(w[t, path])
        assert np.asarray(state.residuals)[0] == pytest.approx(R[t, path])
        assert np.asarray(state.server_residual)[0] == pytest.approx(R_G[t, path])
    assert mass[path] == pytest.approx(0.5 * 0.3 * 0.5 * 0.7) and mass.sum() == pytest.approx(1) and G_sq > 0


@pytest.mark.parametrize(("lam", "lr", "settles"), [(1.0, 0.75, False), (0.5, 0.75, True), (1.0, 0.5, True)])
def test_the_library_settles_where_the_region_says(lam, lr, settles):
    """Curvatures 1 and 3, u = (1, 0): b = -1, so that 2 - 2 eta - eta^2 lambda > 0 is what counts."""
    problem = problems.Quadratic([[[1.0]], [[3.0]]], [[0.0], [1.0]])
    assert (2 - 2 * lr - lr**2 * lam > 0) == settles
    how = {"local_solver": LocalSGD(1, lr), "given": {"u_0": [[1.0], [0.0]]}}
    checks = checks_of("elastic-stability", problem, EFL(lam=lam), **how)
    assert (checks["every lambda"].verdict == "holds") == settles and checks["repaired"].verdict == "holds"
    w, V = 2.0, 2.0
    for _ in range(2000):
        y = [w - lr * (h * (w - c) + lam * (w - V)) for h, c in ((1, 0), (3, 1))]
        w, V = sum(y) / 2, y[0]
        if abs(w) > 1e6:
            break
    assert (abs(w) < 10) == settles


def test_more_local_steps_may_settle_where_clients_differ():
    """E = 2, p = (1/4, 3/4), curvatures 7 and 1, u = (1, 0), eta = 2/5: T = 27/25 without the term, and lambda = 5 settles it."""
    data = {
        "weights": ["1/4", "3/4"], "h": [["7"], ["1"]], "c": [["0"], ["1"]], "u": [["1"], ["0"]], "lam": "5", "eta": "2/5", "E": 2,
    }  # fmt: skip
    view = BUILDERS["stability"](data)
    assert view.trace_and_determinant(0) == (F(27, 25), 0) and view.margin(0)[0] < 0 < view.margin(view.lam)[0]
    assert view.settles[0] == 1


def test_stability_where_coordinates_mix():
    """h_k R with R of eigenvalues 1 and 3, and u the same in both coordinates: the margin of the stiffer direction."""
    R = np.array([[2.0, 1.0], [1.0, 2.0]])
    problem = problems.Quadratic([R, 3 * R], [[0.0, 0.0], [1.0, 1.0]])
    given = {"u_0": [[1.0, 1.0], [0.0, 0.0]]}
    for lr, holds in ((0.2, True), (0.3, False)):  # along (1, 1): a = 6, b = -3
        how = {"local_solver": LocalSGD(1, lr), "given": given}
        view = view_of("elastic-stability", "every lambda", problem, EFL(lam=1.0), **how)
        assert view.margin(0)[0] > 0 and (2 - 6 * lr - 3 * lr**2 > 0) == holds
        assert (checks_of("elastic-stability", problem, EFL(lam=1.0), **how)["every lambda"].verdict == "holds") == holds


def test_the_rounds_that_a_run_needs_by_hand():
    """One client w^2/2 from 1 with L = mu: w_t = prod (1 - 16/(t + 65)); its square is below 1/2 after two rounds."""
    problem = problems.Quadratic([[[1.0]]], [[0.0]])
    how = {"x0": [1.0], "rounds": 10, "local_solver": LocalSGD(1, 1.0)}
    view = view_of("table-1-row", "printed", problem, EFL(), **how)
    assert (49 / 65) ** 2 > 0.5 > (49 / 65 * 50 / 66) ** 2
    assert view.needed == 2 and view.terms == pytest.approx((2.0, 2**0.5))  # G = mu = 1, epsilon = 1/2
    with pytest.raises(InvalidInput, match="not reached"):
        view_of("table-1-row", "printed", problem, EFL(), **how, given={"epsilon": 1e-9})
