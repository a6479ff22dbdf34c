"""Mime: rounds worked out by hand, the base method that one local step is, and mini-batches."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from differing_clients import SOLVERS, START, heterogeneous, samples
from one_round import close, server

from fedtheory import algorithms, simulate
from fedtheory.algorithms.mime import MimeState
from fedtheory.local import GradientSteps
from fedtheory.local.objective import Rows
from fedtheory.local.sgd import _orders
from fedtheory.randomness import Stream

TWO = GradientSteps(steps=2, lr=0.5)


@pytest.mark.parametrize(
    ("momentum", "lite", "x", "s", "models"),
    [
        # c = (-4 + 6)/2 = 1. With e = y - 1 the corrected gradients are e + 1 and 3e + 1: e = -1/2, -3/4 and -1/2, -1/4.
        (0.0, False, 1 / 2, 1, [1 / 4, 3 / 4]),
        # Steps e - g/4 - 1/2 from s = 2: -3/4, -21/16 and -3/4, -15/16; s <- (1 + 2)/2.
        (0.5, False, -1 / 8, 3 / 2, [-5 / 16, 1 / 16]),
        # The same with g = e - 4 and 3e + 6: 1/2, 7/8 and -2, -5/2.
        (0.5, True, 3 / 16, 3 / 2, [15 / 8, -3 / 2]),
    ],
)
def test_mime(play, momentum, lite, x, s, models):
    state, sent = play(algorithms.Mime(momentum, lite), MimeState(server(1), server(2)), [0, 1], TWO)
    close(state.x, x)
    close(state.s, s)
    close(sent[0], [-4, 6])
    close(sent[1], models)


@pytest.mark.parametrize("lite", [False, True])
def test_one_local_step_of_mime_is_the_base_method(lite):
    problem, x, s = samples(), START, np.zeros(3)
    run = simulate(problem, algorithms.Mime(0.9, lite), 6, x, local_solver=GradientSteps(1, 0.4), keep_states=True)
    for state in run.states:
        np.testing.assert_allclose(state.x[0], x, rtol=1e-12)
        g = problem.gradient(x).mean(axis=0)
        x, s = x - 0.4 * (0.1 * g + 0.9 * s), 0.1 * g + 0.9 * s


@pytest.mark.parametrize("clip", [None, 0.25])
@pytest.mark.parametrize("momentum", [0.0, 0.3])
@pytest.mark.parametrize("lite", [False, True])
def test_two_rounds_with_mini_batches(lite, momentum, clip):
    """Mime's gradients at both points are of one mini-batch; clipped is what is neither weight decay nor momentum."""
    problem, stream, solver = samples(), Stream(4), replace(SOLVERS["epochs"], clip=clip)
    states = simulate(problem, algorithms.Mime(momentum, lite), 2, START, seed=4, local_solver=solver, keep_states=True).states
    x, s, cut = START, np.zeros(3), 0
    for t in (1, 2):
        c, ends = problem.gradient(x).mean(axis=0), []
        for k, count in enumerate((6, 3, 5, 4)):
            rows = Rows(np.array([k]), np.zeros((1, 1), int), np.ones((1, 1), bool), stream, t)
            order, y, one = _orders(rows, count, 0), x, problem.subset(np.array([k]))
            for a in range(0, count, 2):
                at_y, at_x = (one.client_batch_gradient(p[None, None], order[:, :, a : a + 2])[0, 0] for p in (y, x))
                loss = (at_y if lite else at_y - at_x + c) - 0.5 * y
                norm = np.linalg.norm(loss) + 1e-6
                if clip is not None and norm > clip:
                    loss, cut = loss * clip / norm, cut + 1
                y = y - 0.2 * ((1 - momentum) * (loss + 0.5 * y) + momentum * s)
            ends.append(y)
        x, s = np.mean(ends, axis=0), (1 - momentum) * c + momentum * s
        np.testing.assert_allclose(states[t].x[0], x, rtol=1e-12)
        np.testing.assert_allclose(states[t].s[0], s, rtol=1e-12)
    assert (cut > 0) == (clip is not None)


@pytest.mark.parametrize("momentum", [0.0, 0.6])
@pytest.mark.parametrize("solver", ["sgd", "epochs"])
def test_mime_converges_with_mini_batches_and_mimelite_does_not(momentum, solver):
    options = {"scenarios": 2, "local_solver": SOLVERS[solver], "record": ["distance"]}
    run = simulate(samples(), algorithms.Mime(momentum), 200, START, **options)
    assert run.metrics["distance"][-1].max() < 1e-11
    lite = simulate(samples(), algorithms.Mime(momentum, lite=True), 100, START, **options)
    assert lite.metrics["distance"][-1].min() > 1e-3


def test_mime_with_exact_local_work_solves_a_shifted_problem():
    """f_k(y) - <grad f_k(x) - c, y>: for quadratics y_k = x - H_k^-1 c."""
    problem = heterogeneous()
    run = simulate(problem, algorithms.Mime(), 1, START)
    c = problem.gradient(START).mean(axis=0)
    expected = np.mean([START - np.linalg.solve(h, c) for h in problem.hessians], axis=0)
    np.testing.assert_allclose(run.x[0], expected, rtol=1e-11)
