"""One round of every method worked out by hand, hyperparameters out of range, and the registry.

The clients are one-dimensional quadratics f_k(x) = h_k (x - c_k)^2 / 2 with (h, c) = (1, 5), (3, -1), (1, 3/2). All rounds
start at 1, from where the minimisers are 4, -2 and 1/2 away: a model and an update are never the same number.
"""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from cases import each
from one_round import close, memory, server

from fedtheory import algorithms, errors, local, problems, simulate
from fedtheory.algorithms import base
from fedtheory.algorithms.fedavg import FedAvgState
from fedtheory.algorithms.feddyn import FedDynState
from fedtheory.algorithms.fedelasticnet_dyn import FedElasticNetDynState
from fedtheory.algorithms.fedelasticnet_prox import FedElasticNetProxState
from fedtheory.algorithms.fedelasticnet_scaffold import FedElasticNetScaffoldState
from fedtheory.algorithms.fedprox import FedProxState
from fedtheory.algorithms.scaffold import ScaffoldState
from fedtheory.arrays import soft_threshold
from fedtheory.local import SGD, GradientSteps


# --- FedAvg ---------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("aggregation", "expected"),
    [("cohort", 1.0), ("samples", -1 / 2), ("printed", 1 / 4)],
)
def test_fedavg_weights(play, aggregation, expected):
    # f_k = (x - c_k)^2/2 with n = (1, 3, 4) samples and c = (4, -2, 7): the local models are c_1, c_2, the updates from
    # x = 1 are 3, -3. cohort: 1 + (3 - 3)/2; samples: 1 + (1*3 - 3*3)/4; printed: 1 + (1*3 - 3*3)/8.
    counts, targets = (1, 3, 4), (4.0, -2.0, 7.0)
    problem = problems.LeastSquares([np.ones((n, 1)) for n in counts], [np.full(n, t) for n, t in zip(counts, targets)])
    state, sent = play(algorithms.FedAvg(aggregation), FedAvgState(server(1)), [0, 1], problem=problem)
    close(state.x, expected)
    close(sent[0], [4, -2])


def test_fedavg_two_local_steps(play):
    # Distances from 1 with step 1/2: client 1: 0 -> 2 -> 3. Client 2: 0 -> -3 -> -3 - (3/2)(-1) = -3/2. Mean 3/4.
    solver = GradientSteps(steps=2, lr=0.5)
    state, sent = play(algorithms.FedAvg("cohort"), FedAvgState(server(1)), [0, 1], solver)
    close(state.x, 7 / 4)
    close(sent[0], [4, -1 / 2])
    state, sent = play(algorithms.FedAvg("cohort", send="update"), FedAvgState(server(1)), [0, 1], solver)
    close(state.x, 7 / 4)
    close(sent[0], [3, -3 / 2])


# --- FedProx, FedElasticNet Algorithm 1 -----------------------------------------------------------
@pytest.mark.parametrize(("send", "message"), [("model", (3, -1 / 2)), ("update", (2, -3 / 2))])
def test_fedprox(play, send, message):
    # mu = 1: updates h (c - 1)/(h + 1) = 4/2 and -6/4; their mean is 1/4.
    state, sent = play(algorithms.FedProx(1, send=send), FedProxState(server(1)), [0, 1])
    close(state.x, 5 / 4)
    close(sent[0], message)


@pytest.mark.parametrize(("aggregation", "expected"), [("printed", 3 / 2), ("cohort", 7 / 4), ("samples", 7 / 4)])
def test_fedelasticnet_prox(play, aggregation, expected):
    # l1 = l2 = 1: updates soft(h (c - 1), 1)/(h + 1): client 1: 3/2; client 3: soft(1/2, 1) = 0 exactly. n_k/n = 1/3.
    state, sent = play(algorithms.FedElasticNetProx(1, 1, aggregation), FedElasticNetProxState(server(1)), [0, 2])
    close(state.x, expected)
    close(sent[0], [3 / 2, 0])
    assert sent[0][1] == 0


def test_fedelasticnet_prox_epsilon(play):
    # Without l1, client 3's update is (1/2)/2 = 1/4 and client 1's is 2: a threshold of 1/4 stops the former only (<=).
    algorithm = algorithms.FedElasticNetProx(0, 1, "cohort", epsilon=0.25)
    state, sent = play(algorithm, FedElasticNetProxState(server(1)), [0, 2])
    close(state.x, 2)
    assert sent[0].tolist() == [2, 0]


# --- SCAFFOLD, FedElasticNet Algorithm 2 ----------------------------------------------------------
@pytest.mark.parametrize(
    ("option", "c_k", "c"),
    [("difference", (-7 / 2, 3, 3), 5 / 6), ("gradient", (-4, 6, 3), 5 / 3)],
)
def test_scaffold(play, option, c_k, c):
    # x = 1, c_k = (1, -1, 3), c = 1, two steps of 1/4 on cohort {1, 2}; u = y - x.
    # Client 1: slope -4 - 1 + 1 = -4: u = 1; slope -3: u = 7/4.  Client 2: slope 6 + 1 + 1 = 8: u = -2; 0 + 2: u = -5/2.
    # Option II: 1 - 1 - (7/4)/(2/4) = -7/2 = mean(-4, -3); -1 - 1 + 5 = 3 = mean(6, 0). Option I: gradients -4, 6.
    # eta_g = 1/2: x = 1 + (1/2)(7/4 - 5/2)/2 = 13/16.
    # c = 1 + ((-7/2 - 1) + (3 + 1))/3 = 5/6;  1 + ((-4 - 1) + (6 + 1))/3 = 5/3.
    old = ScaffoldState(server(1), memory(1, -1, 3), server(1))
    state, sent = play(algorithms.Scaffold(option, server_lr=0.5), old, [0, 1], GradientSteps(steps=2, lr=0.25))
    close(state.x, 13 / 16)
    close(state.c_k, c_k)
    close(state.c, c)
    close(sent[0], [7 / 4, -5 / 2])
    close(sent[1], np.array(c_k[:2]) - [1, -1])
    models = algorithms.Scaffold(option, server_lr=0.5, send="model")
    again, sent = play(models, old, [0, 1], GradientSteps(steps=2, lr=0.25))
    close(again.x, 13 / 16)
    close(sent[0], [1 + 7 / 4, 1 - 5 / 2])


def test_scaffold_option_one_takes_the_exact_solver(play):
    # min (u - 4)^2/2 - (1 - 1) u: u = 4; min 3(u + 2)^2/2 - (-1 - 1) u: 3(u + 2) = -2: u = -8/3. x = 1 + (4 - 8/3)/2.
    old = ScaffoldState(server(1), memory(1, -1, 3), server(1))
    state, _ = play(algorithms.Scaffold("gradient"), old, [0, 1])
    close(state.x, 5 / 3)
    close(state.c_k, [-4, 6, 3])


def test_scaffold_divides_by_each_clients_own_steps(play):
    # f_k = (x - t_k)^2/2 with n = (1, 2, 3) equal samples, one epoch of single samples with step 1/2: B = 1, 2, 3 steps
    # shrink the distance by 1/2 each. From 0 with t = (4, -4, 8): y = 2, -3, 7; c_k = -y/(B/2) = -4, 3, -14/3: the mean
    # slopes -4; (4 + 2)/2; -(8 + 4 + 2)/3. c = their mean = (-17/3)/3.
    counts, targets = (1, 2, 3), (4.0, -4.0, 8.0)
    problem = problems.LeastSquares([np.ones((n, 1)) for n in counts], [np.full(n, t) for n, t in zip(counts, targets)])
    old = ScaffoldState(server(0), memory(0, 0, 0), server(0))
    state, sent = play(algorithms.Scaffold(), old, [0, 1, 2], SGD(batch_size=1, lr=0.5, epochs=1), problem)
    close(state.x, 2)
    close(state.c_k, [-4, 3, -14 / 3])
    close(state.c, -17 / 9)
    close(sent[0], [2, -3, 7])


@pytest.mark.parametrize(
    ("l1_step", "epsilon", "delta", "c_k", "x", "c"),
    [
        ("subgradient", 0, (5 / 4, -7 / 4), (-5 / 2, 3 / 2, 3), 7 / 8, 2 / 3),
        ("subgradient", 3 / 2, (0, -7 / 4), (-5 / 2, 3 / 2, 3), 9 / 16, 2 / 3),
        ("prox", 0, (9 / 8, -7 / 4), (-9 / 4, 3 / 2, 3), 27 / 32, 3 / 4),
    ],
)
def test_fedelasticnet_scaffold(play, l1_step, epsilon, delta, c_k, x, c):
    # l1 = l2 = 1, otherwise as above; sign(0) = 0 in the first step.
    # 'subgradient', line 7. Client 1: u = 1; slope -3 + 0 + 1 + 1 = -1: 5/4. Client 2: u = -2; 0 + 2 - 2 - 1 = -1: -7/4.
    # Line 9: 1 - 1 - (5/4)/(1/2) = -5/2; -1 - 1 + 7/2 = 3/2.  Lines 12 and 13: x = 1 + (1/2)(5/4 - 7/4)/2,
    # c = 1 + (-7/2 + 5/2)/3 = 2/3.  A threshold of 3/2 drops 5/4 from line 12: x = 1 - 7/16; line 9 stays as it is.
    # 'prox', soft threshold 1/4 after each step. Client 1: soft(1) = 3/4; slope -13/4 + 3/4 = -5/2: soft(11/8) = 9/8.
    # Client 2: soft(-2) = -7/4; slope 3/4 + 2 - 7/4 = 1: soft(-2) = -7/4.  Line 9: -9/4; 3/2.
    # x = 1 + (1/2)(9/8 - 7/4)/2;  c = 1 + (-13/4 + 5/2)/3 = 3/4.
    old = FedElasticNetScaffoldState(server(1), memory(1, -1, 3), server(1))
    algorithm = algorithms.FedElasticNetScaffold(1, 1, server_lr=0.5, epsilon=epsilon)
    state, sent = play(algorithm, old, [0, 1], GradientSteps(steps=2, lr=0.25, l1=l1_step))
    close(sent[0], delta)
    close(state.x, x)
    close(state.c_k, c_k)
    close(state.c, c)
    close(sent[1], np.array(c_k[:2]) - [1, -1])


# --- FedDyn, FedElasticNet Algorithm 3 ------------------------------------------------------------
@pytest.mark.parametrize(("send", "message"), [("model", (8 / 3, -2 / 5)), ("update", (5 / 3, -7 / 5))])
def test_feddyn(play, send, message):
    # alpha = 2, theta = 1, g = (1, -1, 3), h = 1 (their mean); u = theta_k - theta.
    # Client 1: u - 4 - 1 + 2u = 0: 5/3. Client 2: 3(u + 2) + 1 + 2u = 0: -7/5.
    # g: 1 - 10/3 = -7/3 (f' = 5/3 - 4), -1 + 14/5 = 9/5 (f' = 9/5).  h = 1 - (2/3)(5/3 - 7/5) = 37/45.
    # theta = 1 + (5/3 - 7/5)/2 - 37/90 = 13/18.
    old = FedDynState(server(1), memory(1, -1, 3), server(1))
    state, sent = play(algorithms.FedDyn(2, send=send), old, [0, 1])
    close(state.gradients, [-7 / 3, 9 / 5, 3])
    close(state.h, 37 / 45)
    close(state.x, 13 / 18)
    close(sent[0], message)


DYN_START = FedElasticNetDynState(server(1), memory(1, -1, 0), server(0), memory(0, 7, 0))


@pytest.mark.parametrize("epsilon", [0, 1 / 4])
@pytest.mark.parametrize(
    ("rule", "stored", "h", "x", "message"),
    [
        ("sign", (-8 / 3, -1, 0), -11 / 9, 41 / 18, (4 / 3, 0)),
        ("true-gradient", (-8 / 3, -1, -1 / 2), -25 / 18, 85 / 36, (11 / 3, 1 / 2)),
    ],
)
def test_fedelasticnet_dyn(play, rule, epsilon, stored, h, x, message):
    # l1 = 1, l2 = 2, theta = 1, g = (1, -1, 0), h = 0, cohort {1, 3}.
    # Client 1: u - 4 - 1 + 2u + 1 = 0: 4/3. Client 3: |g - f'(1)| = 1/2 < 1: 0. A threshold of 1/4 changes neither.
    # sign: g_1 = 1 - 8/3 - 1 = -8/3 (f' = 4/3 - 4), g_3 = 0 since sign(0) = 0; true gradient: f_3' = -1/2.
    # h = (-8/3 - 1 + 0)/3 or (-8/3 - 1 - 1/2)/3;  theta = 1 + (4/3 + 0)/2 - h/2.
    # v = g - f': 1 + 8/3 = 11/3 and 1/2, from which soft(v, 1)/2 = (4/3, 0).
    algorithm = algorithms.FedElasticNetDyn(1, 2, rule, epsilon)
    state, sent = play(algorithm, DYN_START, [0, 2])
    close(state.stored, stored)
    close(state.h, h)
    close(state.x, x)
    close(state.local, [7 / 3, 7, 1])
    close(sent[0], message)
    if rule == "true-gradient":
        close(soft_threshold(sent[0], 1.0) / 2, [4 / 3, 0])
    assert len(sent) == (2 if epsilon and rule == "true-gradient" else 1)
    if len(sent) == 2:
        close(sent[1], [4 / 3, 0])


def test_fedelasticnet_dyn_epsilon(play):
    # Client 1's update 4/3 falls to the threshold 3/2: nothing moves, so the sign rule keeps g and h. The true gradient
    # at 1 is -4, v = 5, and soft(5, 1)/2 = 2 is not the update 0 that was taken: delta has to be sent, too.
    state, sent = play(algorithms.FedElasticNetDyn(1, 2, epsilon=1.5), DYN_START, [0])
    assert (state.x, state.h, state.stored[0], len(sent)) == (1, 0, 1, 1)
    state, sent = play(algorithms.FedElasticNetDyn(1, 2, "true-gradient", epsilon=1.5), DYN_START, [0])
    close(state.stored, [-4, -1, 0])
    close(state.h, -5 / 3)
    close(state.x, 1 + 5 / 6)
    close([m[0] for m in sent], [5, 0])


def test_an_inexact_local_solver_sends_delta_with_the_true_gradient(play):
    # One step of 1/4 on client 1: slope f' - g = -5, u = 5/4; soft by 1/4 gives 1. f' = -3, v = 1 + 3 = 4, delta = 1.
    solver = GradientSteps(steps=1, lr=0.25, l1="prox")
    _, sent = play(algorithms.FedElasticNetDyn(1, 2, "true-gradient"), DYN_START, [0], solver)
    close([m[0] for m in sent], [4, 1])


# --- what is refused ------------------------------------------------------------------------------
@each(
    ("build", "words"),
    [
        (lambda: algorithms.FedAvg("mean"), "aggregation = 'mean'"),
        (lambda: algorithms.FedAvg(send="delta"), "send = 'delta'"),
        (lambda: algorithms.FedProx(-1), "mu = -1: mu must be a finite number >= 0"),
        (lambda: algorithms.FedProx(float("nan")), "mu = nan"),
        (lambda: algorithms.FedProx("1"), "mu = '1'"),
        (lambda: algorithms.FedProx(True), "mu = True"),
        (lambda: algorithms.FedProx(1, "printed "), "aggregation"),
        (lambda: algorithms.Scaffold("II"), "option = 'II'"),
        (lambda: algorithms.Scaffold(server_lr=0), "server_lr = 0: .* > 0"),
        (lambda: algorithms.FedDyn(0), "alpha = 0: .* > 0: the method divides by it"),
        (lambda: algorithms.FedDyn(-1e-300), "alpha"),
        (lambda: algorithms.FedElasticNetProx(-0.1, 1), "l1 = -0.1: lambda_1"),
        (lambda: algorithms.FedElasticNetProx(0.1, -1), "l2 = -1: lambda_2"),
        (lambda: algorithms.FedElasticNetProx(0.1, 1, epsilon=-1), "epsilon = -1"),
        (lambda: algorithms.FedElasticNetScaffold(float("inf"), 1), "l1 = inf"),
        (lambda: algorithms.FedElasticNetScaffold(1, 1, server_lr=-1), "server_lr = -1"),
        (lambda: algorithms.FedElasticNetDyn(1, 0), "l2 = 0: .* > 0: the method divides by it"),
        (lambda: algorithms.FedElasticNetDyn(1, -2), "l2 = -2"),
        (lambda: algorithms.FedElasticNetDyn(1, 1, "signs"), "rule = 'signs': use 'sign' or 'true-gradient'"),
    ],
)
def test_hyperparameters_out_of_range(build, words):
    with pytest.raises(errors.InvalidInput, match=words):
        build()


def test_numbers_of_any_kind_become_floats():
    algorithm = algorithms.FedElasticNetDyn(np.int64(1), np.float32(2))
    assert type(algorithm.l1) is float and algorithm.l2 == 2.0
    assert algorithm == algorithms.FedElasticNetDyn(1.0, 2.0)


@pytest.mark.parametrize("algorithm", [algorithms.Scaffold(), algorithms.FedElasticNetScaffold(0.1, 1.0)])
def test_option_two_needs_a_step_size(play, algorithm):
    words = r"Exact takes no gradient steps.*use option='gradient'"
    with pytest.raises(errors.MissingCapability, match=words):
        play(algorithm, algorithm.init(server(0), 3), [0, 1])
    flat = problems.Quadratic(np.zeros((2, 1, 1)), np.zeros((2, 1)))  # refused before a local solve could fail
    with pytest.raises(errors.MissingCapability, match=words):
        simulate(flat, algorithm, 1)


def test_registry():
    public = (getattr(algorithms, name) for name in algorithms.__all__)
    methods = [c for c in public if isinstance(c, type) and issubclass(c, algorithms.Algorithm) and hasattr(c, "name")]
    assert len(methods) >= 16 and sorted(algorithms.names()) == sorted(m.name for m in methods), "exported and registered are the same"
    assert {algorithms.get(name) for name in algorithms.names()} == set(methods)
    for name in algorithms.names():
        assert algorithms.get(name).name == name
        assert algorithms.get(name).source and algorithms.get(name).__doc__
    assert algorithms.get("FedElasticNet_Dyn") is algorithms.FedElasticNetDyn
    with pytest.raises(errors.UnknownName, match=r"unknown algorithm 'skaffold': did you mean 'scaffold'"):
        algorithms.get("skaffold")


def test_a_method_that_divides_by_the_local_step_size_needs_one():
    words = "Exact takes no gradient steps, and this method divides by the local step size: use a gradient local solver"
    with pytest.raises(errors.MissingCapability, match=words):
        base.step_sum(SimpleNamespace(solver=local.Exact()), None)
    assert base.step_sum(None, 0.3) == 0.3
    with pytest.raises(errors.MissingCapability, match=r"option II\) divides .*: use option='gradient' \(option I\) or a gradient"):
        algorithms.Scaffold().check(local.Exact())
