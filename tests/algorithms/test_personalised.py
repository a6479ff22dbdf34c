"""APFL and FedAMP, which keep a model for each client: rounds worked out by hand, and where the models end."""

from __future__ import annotations

import math

import numpy as np
import pytest
from differing_clients import SOLVERS, START, heterogeneous, samples
from one_round import close, memory, server

from fedtheory import algorithms, simulate
from fedtheory.algorithms.apfl import APFLState
from fedtheory.algorithms.fedamp import FedAMPState
from fedtheory.local import GradientSteps

TWO = GradientSteps(steps=2, lr=0.5)


def test_apfl(play):
    # Client 1: w = 1, 3, 4; v = 3, m = 2, gradient -3: v = 15/4, m = 27/8, gradient -13/8: v = 133/32.
    # Client 2: w = 1, -2, -1/2; v = 0, m = 1/2, gradient 9/2: v = -9/8, m = -25/16, gradient -27/16: v = -45/64.
    start = APFLState(server(1), memory(3, 0, 9), memory(0.5, 0.5, 0.5))
    state, sent = play(algorithms.APFL(0.5), start, [0, 1], TWO)
    close(state.x, 7 / 4)
    close(state.v, [133 / 32, -45 / 64, 9])
    close(state.alpha, [0.5, 0.5, 0.5])
    close(sent[0], [4, -1 / 2])


@pytest.mark.parametrize(("lr", "alpha"), [(1 / 32, [11 / 16, 41 / 64, 1 / 2]), (1 / 8, [1, 1, 1 / 2])])
def test_apfl_moves_the_mixture(play, lr, alpha):
    # <v - w, grad f(m)> = 2 * -3 and -1 * 9/2 at the start; with 1/8 both would leave [0, 1].
    start = APFLState(server(1), memory(3, 0, 9), memory(0.5, 0.5, 0.5))
    state, _ = play(algorithms.APFL(0.5, adaptive=True), start, [0, 1], GradientSteps(1, lr))
    close(state.alpha, alpha)
    close(state.v, [3 + 3 / 2 * lr, -9 / 4 * lr, 9])
    close(state.x, 1 - lr)


def test_fedamp(play):
    # sigma = 4/ln 2 and alpha = sigma/8: alpha A'(z) = 2^(-z/4)/8. From 0, 2, 4: u_1 = (2/2 + 4/16)/8 = 5/32, u_2 = 2.
    # With lam = alpha client 1 finds (5 + 5/32)/2, client 2 (-3 + 2)/4.
    sigma = 4 / math.log(2)
    start = FedAMPState(server(0), memory(0, 2, 4))
    state, sent = play(algorithms.FedAMP(sigma / 8, sigma / 8, sigma), start, [0, 1])
    close(sent[0], [165 / 64, -1 / 4])
    close(state.w, [165 / 64, -1 / 4, 4])
    close(state.x, 135 / 64)


@pytest.mark.parametrize("solver", SOLVERS)
def test_apfl_with_alpha_one_and_fedamp_with_lambda_zero_learn_alone(solver):
    problem, solver = samples(), SOLVERS[solver]
    apfl = simulate(problem, algorithms.APFL(1.0), 4, START, local_solver=solver).final
    fedamp = simulate(problem, algorithms.FedAMP(0.0, 1.0, 9.0), 4, START, local_solver=solver).final
    np.testing.assert_allclose(apfl.personal, fedamp.personal, rtol=1e-12)
    if isinstance(solver, GradientSteps):
        y = np.tile(START, (4, 1))
        for _ in range(12):
            y = y - 0.2 * problem.gradient_each(y)
        np.testing.assert_allclose(apfl.personal[0], y, rtol=1e-12)


@pytest.mark.parametrize("solver", SOLVERS)
def test_apfl_uses_the_same_mini_batch_for_both_models(solver):
    """With share 1 and both models at one point, they take the same steps."""
    looked = []
    look = lambda t, old, new, clients: looked.append((new.v, clients.sent[0]))  # noqa: E731
    simulate(samples(), algorithms.APFL(1.0), 1, START, scenarios=3, local_solver=SOLVERS[solver], on_round=look)
    np.testing.assert_allclose(*looked[0], rtol=1e-14)


def test_apfl_with_alpha_zero_never_moves_its_own_models():
    final = simulate(samples(), algorithms.APFL(0.0), 4, START, local_solver=TWO).final
    np.testing.assert_array_equal(final.v[0], np.tile(START, (4, 1)))
    np.testing.assert_array_equal(final.personal[0], np.tile(final.x[0], (4, 1)))


def test_adaptive_apfl_finds_the_clients_own_minimisers_unless_a_share_gets_stuck_at_zero():
    problem, options = heterogeneous(), {"local_solver": GradientSteps(3, 0.02), "keep_states": True}
    for start, stuck in ((0.8, []), (0.2, [0, 1])):
        run = simulate(problem, algorithms.APFL(start, adaptive=True), 600, START, **options)
        share = np.stack([s.alpha[0, :, 0] for s in run.states])
        assert share.min() >= 0 and share.max() <= 1
        slope = np.linalg.norm(problem.gradient_each(run.final.personal)[0], axis=-1)
        at_the_server = np.linalg.norm(problem.gradient(run.x[0]), axis=-1)
        assert np.nonzero(share[-1] == 0)[0].tolist() == stuck
        np.testing.assert_array_equal(slope[stuck], at_the_server[stuck])
        assert (np.delete(slope, stuck) < 0.1 * np.delete(at_the_server, stuck)).all()
        if stuck:  # with share 0 the own model does not move, nor the share while it would become negative
            np.testing.assert_array_equal(run.final.v[0, stuck], run.states[-50].v[0, stuck])


def test_fedamp_ends_where_its_objective_is_stationary():
    problem, lam, sigma = heterogeneous(), 2.0, 12.0
    w = simulate(problem, algorithms.FedAMP(lam, 2.0, sigma), 600, START).final.w[0]
    apart = w[:, None, :] - w[None, :, :]
    attention = np.exp(-(apart**2).sum(axis=-1) / sigma) / sigma
    pull = lam * (attention[:, :, None] * apart).sum(axis=1)
    slope = problem.gradient_each(w)
    assert np.abs(pull).max() > 0.1
    np.testing.assert_allclose(slope + pull, 0, atol=1e-11)


def test_fedamp_cloud_models_are_convex_combinations_that_favour_the_near():
    rng, method = np.random.default_rng(0), algorithms.FedAMP(1.0, 0.75, 3.0)  # alpha (m - 1)/sigma = 1
    w = rng.normal(size=(50, 5, 1))
    u = method.cloud(w, w)
    assert (u >= w.min(axis=1, keepdims=True)).all() and (u <= w.max(axis=1, keepdims=True)).all()
    np.testing.assert_allclose(u.mean(axis=1), w.mean(axis=1), atol=1e-14)  # attention is mutual
    near, far = method.cloud(np.array([[[0.0], [1.0]]]), np.array([[[0.0], [1.0]]])), np.array([[[0.0], [9.0]]])
    assert near[0, 0, 0] > 0.17 > 1e-10 > method.cloud(far, far)[0, 0, 0] > 0


def test_fedamp_with_no_attention_is_a_proximal_point_of_each_client():
    problem = heterogeneous()
    w = simulate(problem, algorithms.FedAMP(1.5, 1.0, 1e300), 3, START).final.w[0]
    for k in range(5):
        y = START
        for _ in range(3):
            y = np.linalg.solve(problem.hessians[k] + 1.5 * np.eye(3), problem.hessians[k] @ problem.minimisers[k] + 1.5 * y)
        np.testing.assert_allclose(w[k], y, rtol=1e-9)
