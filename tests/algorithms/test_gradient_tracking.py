"""VRL-SGD and FedGATE: rounds worked out by hand, corrections that sum to zero and estimate gradients."""

from __future__ import annotations

import numpy as np
import pytest
from differing_clients import SOLVERS, START, samples
from one_round import close, memory, server

from fedtheory import Bernoulli, Full, Uniform, algorithms, messages, simulate
from fedtheory.algorithms.fedgate import FedGATEState
from fedtheory.algorithms.vrl_sgd import VRLSGDState
from fedtheory.local import SGD, GradientSteps

QUARTER = GradientSteps(steps=2, lr=0.25)


def test_vrl_sgd(play):
    # Gradients e - 6 and 3e + 7, e = 3/2, 21/8 and -7/4, -35/16, mean 7/32; k gamma = 1/2, so Delta moves by 2 (7/32 - e).
    state, sent = play(algorithms.VRLSGD(), VRLSGDState(server(1), memory(2, -1, -1)), [0, 1], QUARTER)
    close(state.x, 39 / 32)
    close(state.delta, [-45 / 16, 61 / 16, -1])
    close(sent[0], [29 / 8, -19 / 16])


def test_fedgate(play):
    # The same local work; messages -2e with mean -7/16, and half the server's step.
    state, sent = play(algorithms.FedGATE(server_lr=0.5), FedGATEState(server(1), memory(2, -1, -1)), [0, 1], QUARTER)
    close(state.x, 71 / 64)
    close(state.delta, [-45 / 16, 61 / 16, -1])
    close(sent[0], [-21 / 4, 35 / 8])


def test_fedcomgate(play):
    # -21/4 passes the threshold and 35/8 does not: the mean message is -21/8.
    method = algorithms.Compressed(algorithms.FedGATE(0.5), messages.Threshold(5.0))
    start = method.init(server(1), 3)._replace(delta=memory(2, -1, -1))
    state, sent = play(method, start, [0, 1], QUARTER)
    close(state.x, 53 / 32)
    close(state.delta, [-5 / 8, 13 / 8, -1])
    close(sent[0], [-21 / 4, 0])


@pytest.mark.parametrize(
    "algorithm",
    [algorithms.VRLSGD(), algorithms.FedGATE(1.3), algorithms.Compressed(algorithms.FedGATE(0.6), messages.QSGD(2))],
    ids=str,
)
@pytest.mark.parametrize("sampling", [Full(), Uniform(2), Bernoulli(0.5)], ids=str)
def test_corrections_sum_to_zero_and_estimate_gradients(algorithm, sampling):
    solver, problem = SGD(steps=3, lr=0.05, batch_size=2), samples()
    run = simulate(problem, algorithm, 30, START, sampling, 3, local_solver=solver, keep_states=True)
    deltas = np.stack([s.delta for s in run.states])
    assert np.abs(deltas.sum(axis=2)).max() < 1e-13
    assert (np.abs(deltas[3]).max(axis=(1, 2)) > 0.01).all()  # identically zero ones would sum to 0 as well
    full = simulate(problem, algorithm, 400, START, local_solver=GradientSteps(3, 0.1))
    np.testing.assert_allclose(full.final.delta[0], problem.gradient(problem.optimum().x), atol=1e-11)


def test_fedcomgate_sends_fewer_bits():
    options = {"local_solver": SOLVERS["steps"], "record": ["bits_up"]}
    plain = algorithms.FedGATE(1.0)
    dense, short = (
        simulate(samples(), m, 1, START, **options) for m in (plain, algorithms.Compressed(plain, messages.QSGD(1)))
    )
    assert 0 < short.metrics["bits_up"][1, 0] < dense.metrics["bits_up"][1, 0] / 2
