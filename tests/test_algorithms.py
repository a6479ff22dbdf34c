"""One round of every method worked out by hand, hyperparameters out of range, and the registry.

The clients are one-dimensional quadratics f_k(x) = h_k (x - c_k)^2 / 2 with (h, c) = (1, 4), (3, -2), (1, 1/2); the
numbers below are derived in each test's comment and are dyadic or thirds, so that they hold to a rounding or two.
"""

from __future__ import annotations

import numpy as np
import pytest

from fedtheory import algorithms, errors, problems, simulate
from fedtheory.algorithms.fedavg import FedAvgState
from fedtheory.algorithms.feddyn import FedDynState
from fedtheory.algorithms.fedelasticnet_dyn import FedElasticNetDynState
from fedtheory.algorithms.fedelasticnet_prox import FedElasticNetProxState
from fedtheory.algorithms.fedelasticnet_scaffold import FedElasticNetScaffoldState
from fedtheory.algorithms.fedprox import FedProxState
from fedtheory.algorithms.scaffold import ScaffoldState
from fedtheory.arrays import soft_threshold
from fedtheory.clients import Clients
from fedtheory.cohorts import Cohort
from fedtheory.local import Exact, GradientSteps

HAND = problems.Quadratic(np.reshape([1.0, 3.0, 1.0], (3, 1, 1)), np.reshape([4.0, -2.0, 0.5], (3, 1)))


@pytest.fixture(params=["gathered", "dense"])
def play(request):
    """One round with a given cohort; returns the new state (scenario 0, squeezed) and the messages (participants, d)."""

    def one_round(algorithm, state, members, solver=None, problem=HAND):
        cohort = Cohort(problem.num_clients, members=np.array([members]))
        cohort = cohort.dense() if request.param == "dense" else cohort
        clients = Clients(problem, cohort, solver or Exact(), state.x)
        new = algorithm.round(state, clients)
        return type(new)(*(np.asarray(a)[0, ..., 0] for a in new)), [m[:, 0] for m in clients.sent_numpy()]

    return one_round


def server(value):
    return np.array([[float(value)]])


def memory(*values):
    return np.array(values, dtype=float)[None, :, None]


def close(actual, expected):
    np.testing.assert_allclose(actual, expected, rtol=1e-13, atol=1e-14)


# --- FedAvg -----------------------------------------------------------------------------------------------------------
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
    # From 0 with step 1/2: client 1: 0 -> 2 -> 3. Client 2: 0 -> -3 -> -3 - (3/2)(-1) = -3/2. Mean 3/4; updates are the
    # models.
    state, sent = play(
        algorithms.FedAvg("cohort", send="update"), FedAvgState(server(0)), [0, 1], GradientSteps(steps=2, lr=0.5)
    )
    close(state.x, 3 / 4)
    close(sent[0], [3, -3 / 2])


# --- FedProx, FedElasticNet Algorithm 1 -------------------------------------------------------------------------------
def test_fedprox(play):
    # mu = 1, theta = 0: y = h c/(h + 1) = 2 and -3/2; mean 1/4.
    state, sent = play(algorithms.FedProx(1), FedProxState(server(0)), [0, 1])
    close(state.x, 1 / 4)
    close(sent[0], [2, -3 / 2])


@pytest.mark.parametrize(("aggregation", "expected"), [("printed", 1 / 2), ("cohort", 3 / 4), ("samples", 3 / 4)])
def test_fedelasticnet_prox(play, aggregation, expected):
    # l1 = l2 = 1, theta = 0: y = soft(h c, 1)/(h + 1): client 1: 3/2; client 3: soft(1/2, 1) = 0 exactly. n_k/n = 1/3.
    state, sent = play(
        algorithms.FedElasticNetProx(1, 1, aggregation), FedElasticNetProxState(server(0)), [0, 2]
    )
    close(state.x, expected)
    close(sent[0], [3 / 2, 0])
    assert sent[0][1] == 0


def test_fedelasticnet_prox_epsilon(play):
    # Without l1, client 3's update is (1/2)/2 = 1/4 and client 1's is 2: a threshold of 1/4 stops the former only (<=).
    algorithm = algorithms.FedElasticNetProx(0, 1, "cohort", epsilon=0.25)
    state, sent = play(algorithm, FedElasticNetProxState(server(0)), [0, 2])
    close(state.x, 1)
    assert sent[0].tolist() == [2, 0]


# --- SCAFFOLD, FedElasticNet Algorithm 2 ------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("option", "c_k", "c"),
    [("difference", (-3, 0, 3), 0), ("gradient", (-4, 6, 3), 5 / 3)],
)
def test_scaffold(play, option, c_k, c):
    # x = 0, c_k = (1, -1, 3), c = 1, two steps of 1/2 on cohort {1, 2}. Client 1: slope -4 - 1 + 1 = -4: y = 2; slope
    # -2 - 1 + 1 = -2: y = 3. Client 2: slope 6 + 1 + 1 = 8: y = -4; -6 + 2: y = -2. Option II: 1 - 1 + (0 - 3)/(2/2) =
    # -3 = mean(-4, -2); -1 - 1 + 2/1 = 0 = mean(6, -6). Option I: gradients at 0: -4, 6. eta_g = 1/2: x = (1/2)(3 -
    # 2)/2 = 1/4. c = 1 + ((-3 - 1) + (0 + 1))/3 = 0; 1 + ((-4 - 1) + (6 + 1))/3 = 5/3.
    old = ScaffoldState(server(0), memory(1, -1, 3), server(1))
    state, sent = play(algorithms.Scaffold(option, server_lr=0.5), old, [0, 1], GradientSteps(steps=2, lr=0.5))
    close(state.x, 1 / 4)
    close(state.c_k, c_k)
    close(state.c, c)
    close(sent[0], [3, -2])
    close(sent[1], np.array(c_k[:2]) - [1, -1])


def test_scaffold_option_one_takes_the_exact_solver(play):
    # min (y - 4)^2/2 - (1 - 1) y = 4; min 3(y + 2)^2/2 - (-1 - 1) y: 3(y + 2) = -2: y = -8/3. x = (4 - 8/3)/2 = 2/3.
    old = ScaffoldState(server(0), memory(1, -1, 3), server(1))
    state, _ = play(algorithms.Scaffold("gradient"), old, [0, 1])
    close(state.x, 2 / 3)
    close(state.c_k, [-4, 6, 3])


@pytest.mark.parametrize(
    ("l1_step", "y", "c_k", "x", "c"),
    [
        ("subgradient", (3 / 2, 1 / 2), (-3 / 2, -5 / 2, 3), 1 / 2, -1 / 3),
        ("prox", (3 / 2, 0), (-3 / 2, -2, 3), 3 / 8, -1 / 6),
    ],
)
def test_fedelasticnet_scaffold(play, l1_step, y, c_k, x, c):
    # l1 = l2 = 1, otherwise as above; sign(0) = 0 in the first step. 'subgradient', line 7. Client 1: y = 2; slope -2 -
    # 1 + 1 + 2 + 1 = 1: 3/2. Client 2: y = -4; -6 + 1 + 1 - 4 - 1 = -9: 1/2. Line 9: 1 - 1 - 3/2 = -3/2; -1 - 1 - 1/2 =
    # -5/2. x = (1/2)(3/2 + 1/2)/2; c = 1 + (-5/2 - 3/2)/3 = -1/3. 'prox', threshold 1/2 after each step. Client 1:
    # soft(2) = 3/2; slope -5/2 + 0 + 3/2 = -1: soft(2) = 3/2. Client 2: soft(-4) = -7/2; slope -9/2 + 2 - 7/2 = -6:
    # soft(-1/2) = 0. Line 9: -1 - 1 - 0 = -2. x = (1/2)(3/2)/2; c = 1 + (-5/2 - 1)/3 = -1/6.
    old = FedElasticNetScaffoldState(server(0), memory(1, -1, 3), server(1))
    state, sent = play(
        algorithms.FedElasticNetScaffold(1, 1, server_lr=0.5), old, [0, 1], GradientSteps(steps=2, lr=0.5, l1=l1_step)
    )
    close(sent[0], y)
    close(state.x, x)
    close(state.c_k, c_k)
    close(state.c, c)
    close(sent[1], np.array(c_k[:2]) - [1, -1])


# --- FedDyn, FedElasticNet Algorithm 3 --------------------------------------------------------------------------------
def test_feddyn(play):
    # alpha = 1, theta = 0, g = (1, -1, 3), h = 1 (their mean). Client 1: y - 4 - 1 + y = 0: 5/2. Client 2: 3(y + 2) + 1
    # + y = 0: -7/4. g: 1 - 5/2 = -3/2 (f' = 5/2 - 4), -1 + 7/4 = 3/4 (f' = 3/4). h = 1 - (5/2 - 7/4)/3 = 3/4. theta =
    # (3/4)/2 - 3/4.
    old = FedDynState(server(0), memory(1, -1, 3), server(1))
    state, sent = play(algorithms.FedDyn(1), old, [0, 1])
    close(state.gradients, [-3 / 2, 3 / 4, 3])
    close(state.h, 3 / 4)
    close(state.x, -3 / 8)
    close(sent[0], [5 / 2, -7 / 4])


@pytest.mark.parametrize(
    ("rule", "stored", "h", "x", "sent_values"),
    [("sign", (-2, -1, 0), -1, 2, (2, 0)), ("true-gradient", (-2, -1, -1 / 2), -7 / 6, 13 / 6, (3, 1 / 2))],
)
def test_fedelasticnet_dyn(play, rule, stored, h, x, sent_values):
    # l1 = l2 = 1, theta = 0, g = (1, -1, 0), h = 0, cohort {1, 3}. Client 1: y = (4 + 1 - 1)/2 = 2. Client 3: |g -
    # f'(0)| = 1/2 < 1: 0. sign: g_1 = 1 - 2 - 1 = -2 (f' = -2), g_3 = 0 since sign(0) = 0; true gradient: f_3' = -1/2.
    # h = (-2 - 1 + 0)/3 or (-2 - 1 - 1/2)/3; theta = (2 + 0)/2 - h. v = g - f': 1 + 2 = 3 and 1/2; soft(v, 1)/1 = (2,
    # 0).
    old = FedElasticNetDynState(server(0), memory(1, -1, 0), server(0), memory(0, 7, 0))
    state, sent = play(algorithms.FedElasticNetDyn(1, 1, rule), old, [0, 2])
    close(state.stored, stored)
    close(state.h, h)
    close(state.x, x)
    close(state.local, [2, 7, 0])
    assert len(sent) == 1
    close(sent[0], sent_values)
    if rule == "true-gradient":
        close(soft_threshold(sent[0], 1.0), [2, 0])


def test_fedelasticnet_dyn_epsilon(play):
    # Client 1's update 2 falls to the threshold 2: nothing moves, so the sign rule keeps g and h. The true gradient at
    # 0 is -4, v = 5, and soft(5, 1) = 4 is not the update 0 that was taken: delta has to be sent, too.
    old = FedElasticNetDynState(server(0), memory(1, -1, 0), server(0), memory(0, 7, 0))
    state, sent = play(algorithms.FedElasticNetDyn(1, 1, epsilon=2), old, [0])
    assert (state.x, state.h, state.stored[0], len(sent)) == (0, 0, 1, 1)
    state, sent = play(algorithms.FedElasticNetDyn(1, 1, "true-gradient", epsilon=2), old, [0])
    close(state.stored, [-4, -1, 0])
    close(state.h, -5 / 3)
    close([m[0] for m in sent], [5, 0])


def test_an_inexact_local_solver_sends_delta_with_the_true_gradient(play):
    # One step of 1/4 from 0 on client 1: slope f' - g = -5, y = 5/4; soft by 1/4 gives 1. f'(1) = -3, v = 1 + 3 = 4,
    # delta = 1.
    old = FedElasticNetDynState(server(0), memory(1, -1, 0), server(0), memory(0, 7, 0))
    _, sent = play(
        algorithms.FedElasticNetDyn(1, 1, "true-gradient"), old, [0], GradientSteps(steps=1, lr=0.25, l1="prox")
    )
    close([m[0] for m in sent], [4, 1])


# --- what is refused --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
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
    assert algorithms.names() == [
        "fedavg",
        "fedprox",
        "scaffold",
        "feddyn",
        "fedelasticnet-prox",
        "fedelasticnet-scaffold",
        "fedelasticnet-dyn",
    ]
    for name in algorithms.names():
        assert algorithms.get(name).name == name
        assert algorithms.get(name).source and algorithms.get(name).__doc__
    assert algorithms.get("FedElasticNet_Dyn") is algorithms.FedElasticNetDyn
    with pytest.raises(errors.UnknownName, match=r"unknown algorithm 'skaffold': did you mean 'scaffold'"):
        algorithms.get("skaffold")
