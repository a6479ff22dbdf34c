"""Mime, VRL-SGD, FedGATE, APFL and FedAMP: rounds worked out by hand, invariants against the usual mistakes, reductions, backends.

The clients of the rounds by hand are f_k(x) = h_k (x - c_k)^2 / 2 with (h, c) = (1, 5), (3, -1), (1, 3/2); from x = 1 the gradients
are -4, 6, -1/2.
"""

from __future__ import annotations

import functools
import math

import array_api_strict
import numpy as np
import pytest

from fedtheory import Bernoulli, Full, Uniform, algorithms, errors, messages, problems, simulate
from fedtheory.algorithms.apfl import APFLState
from fedtheory.algorithms.fedamp import FedAMPState
from fedtheory.algorithms.fedgate import FedGATEState
from fedtheory.algorithms.mime import MimeState
from fedtheory.algorithms.vrl_sgd import VRLSGDState
from fedtheory.arrays import to_numpy
from fedtheory.clients.clients import Clients
from fedtheory.local import SGD, Exact, GradientSteps, LocalSGD, Schedule, SubgradientSteps
from fedtheory.local.objective import Rows
from fedtheory.local.sgd import _orders
from fedtheory.participation import irregular as participation
from fedtheory.participation.cohorts import Cohort
from fedtheory.randomness import Stream

HAND = problems.Quadratic(np.reshape([1.0, 3.0, 1.0], (3, 1, 1)), np.reshape([5.0, -1.0, 1.5], (3, 1)))
TWO = GradientSteps(steps=2, lr=0.5)


@pytest.fixture(params=["gathered", "dense"])
def play(request):
    """One round with a given cohort; returns the new state (scenario 0, squeezed) and the messages (participants,)."""

    def one_round(algorithm, state, members, solver=None):
        cohort = Cohort(3, members=np.array([members]))
        cohort = cohort.dense() if request.param == "dense" else cohort
        clients = Clients(HAND, cohort, solver or Exact(), state.x)
        new = algorithm.round(state, clients)
        return type(new)(*(np.asarray(a)[0, ..., 0] for a in new)), [m[:, 0] for m in clients.sent_numpy()]

    return one_round


def server(value):
    return np.array([[float(value)]])


def memory(*values):
    return np.array(values, dtype=float)[None, :, None]


def close(actual, expected):
    np.testing.assert_allclose(actual, expected, rtol=1e-13, atol=1e-14)


# --- one round by hand ------------------------------------------------------------------------------------------------
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
    method = algorithms.FedGATE(0.5, messages.Threshold(5.0))
    state, sent = play(method, FedGATEState(server(1), memory(2, -1, -1)), [0, 1], QUARTER)
    close(state.x, 53 / 32)
    close(state.delta, [-5 / 8, 13 / 8, -1])
    close(sent[0], [-21 / 4, 0])


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


# --- invariants and reductions ----------------------------------------------------------------------------------------
@functools.cache
def heterogeneous():
    """Five quadratics in dimension 3 with Hessians and minimisers far apart, eigenvalues in [1/2, 4]."""
    rng = np.random.default_rng(5)
    turns = [np.linalg.qr(rng.normal(size=(3, 3)))[0] for _ in range(5)]
    hessians = [q * rng.uniform(0.5, 4, 3) @ q.T for q in turns]
    return problems.Quadratic([(h + h.T) / 2 for h in hessians], 3 * rng.normal(size=(5, 3)))


@functools.cache
def samples(ridge=0.5):
    """Four clients of unequal size in dimension 3."""
    rng = np.random.default_rng(21)
    counts = (6, 3, 5, 4)
    features = [rng.normal(size=(n, 3)) / 2 for n in counts]
    return problems.LeastSquares(features, [rng.normal(size=n) for n in counts], ridge=ridge)


START = np.random.default_rng(3).normal(size=3)
UNBIASED = [
    algorithms.Mime(),
    algorithms.Mime(0.5),
    algorithms.VRLSGD(),
    algorithms.FedGATE(0.8),
    algorithms.FedGATE(compressor=messages.QSGD(4)),
    algorithms.FedGATE(0.5, messages.RandomK(k=2)),
]


@pytest.mark.parametrize("algorithm", UNBIASED, ids=str)
def test_they_converge_to_the_minimiser_where_fedavg_does_not(algorithm):
    problem, solver = heterogeneous(), GradientSteps(5, 0.05)
    run = simulate(problem, algorithm, 300, START, local_solver=solver, record=["distance"])
    assert run.metrics["distance"][-1, 0] < 1e-11
    biased = simulate(problem, algorithms.FedAvg("cohort"), 300, START, local_solver=solver, record=["distance"])
    assert biased.metrics["distance"][-1, 0] > 0.05
    lite = simulate(problem, algorithms.Mime(0.5, lite=True), 300, START, local_solver=solver, record=["distance"])
    assert lite.metrics["distance"][-1, 0] > 0.02


@pytest.mark.parametrize("algorithm", UNBIASED, ids=str)
def test_the_minimiser_is_a_fixed_point(algorithm):
    """With the corrections that belong to it, grad f_k(x*): their sign, and their not being 0, matter."""
    problem = heterogeneous()
    x = problem.optimum().x
    state = algorithm.init(x[None], 5)
    if hasattr(state, "delta"):
        state = state._replace(delta=problem.gradient(x)[None])
    clients = Clients(problem, Full().sample(Stream(0), 1, range(1), 5), GradientSteps(4, 0.1), state.x)
    new = algorithm.round(state, clients)
    for before, after in zip(state, new, strict=True):
        np.testing.assert_allclose(after, before, atol=1e-12)


@pytest.mark.parametrize(
    "algorithm", [algorithms.VRLSGD(), algorithms.FedGATE(1.3), algorithms.FedGATE(0.6, messages.QSGD(2))], ids=str
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


@pytest.mark.parametrize("algorithm", [algorithms.Mime(), algorithms.VRLSGD(), algorithms.FedGATE()], ids=str)
def test_one_local_step_is_gradient_descent(algorithm):
    problem, x = samples(), START
    run = simulate(problem, algorithm, 5, x, local_solver=GradientSteps(1, 0.4), keep_states=True)
    for state in run.states:
        np.testing.assert_allclose(state.x[0], x, rtol=1e-12)
        x = x - 0.4 * problem.gradient(x).mean(axis=0)


@pytest.mark.parametrize("lite", [False, True])
def test_one_local_step_of_mime_is_the_base_method(lite):
    problem, x, s = samples(), START, np.zeros(3)
    run = simulate(problem, algorithms.Mime(0.9, lite), 6, x, local_solver=GradientSteps(1, 0.4), keep_states=True)
    for state in run.states:
        np.testing.assert_allclose(state.x[0], x, rtol=1e-12)
        g = problem.gradient(x).mean(axis=0)
        x, s = x - 0.4 * (0.1 * g + 0.9 * s), 0.1 * g + 0.9 * s


def same(first, second, rtol=1e-12):
    for one, two in zip(first.states, second.states, strict=True):
        np.testing.assert_allclose(one.x, two.x, rtol=rtol, atol=1e-14)


SOLVERS = {"steps": GradientSteps(3, 0.2), "sgd": SGD(steps=3, lr=0.2, batch_size=2), "epochs": SGD(2, 0.2, epochs=1)}


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize(
    ("one", "other"),
    [
        (algorithms.Mime(lite=True), algorithms.FedAvg("cohort")),
        (algorithms.APFL(0.0), algorithms.FedAvg("cohort")),
        (algorithms.APFL(0.7, adaptive=True), algorithms.FedAvg("cohort")),  # the mixture does not touch the global model
        (algorithms.FedGATE(), algorithms.VRLSGD()),
    ],
    ids=["mimelite-fedavg", "apfl0-fedavg", "apfl-fedavg", "fedgate-vrl"],
)
def test_reductions(one, other, solver):
    if solver == "epochs" and isinstance(one, algorithms.FedGATE):
        pytest.skip("clients make unequal steps")
    runs = [simulate(samples(), a, 4, START, Uniform(3), 2, local_solver=SOLVERS[solver], keep_states=True) for a in (one, other)]
    same(*runs)


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


# --- Mime with mini-batches -------------------------------------------------------------------------------------------
def test_mime_uses_the_same_mini_batch_at_both_points():
    problem, momentum, stream = samples(), 0.3, Stream(4)
    state = simulate(problem, algorithms.Mime(momentum), 2, START, seed=4, local_solver=SOLVERS["epochs"], keep_states=True).states[1]
    x, s = START, np.zeros(3)
    c = problem.gradient(x).mean(axis=0)
    ends = []
    for k, count in enumerate((6, 3, 5, 4)):
        rows = Rows(np.array([k]), np.zeros((1, 1), int), np.ones((1, 1), bool), stream, 1)
        order, y, one = _orders(rows, count, 0), x, problem.subset(np.array([k]))
        for a in range(0, count, 2):
            at_y, at_x = (one.client_batch_gradient(p[None, None], order[:, :, a : a + 2])[0, 0] for p in (y, x))
            y = y - 0.2 * ((1 - momentum) * (at_y - at_x + c) + momentum * s)
        ends.append(y)
    np.testing.assert_allclose(state.x[0], np.mean(ends, axis=0), rtol=1e-12)
    np.testing.assert_allclose(state.s[0], (1 - momentum) * c, rtol=1e-12)


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


# --- FedAMP -----------------------------------------------------------------------------------------------------------
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


# --- backends ---------------------------------------------------------------------------------------------------------
METHODS = {
    "mime": algorithms.Mime(0.4),
    "mimelite": algorithms.Mime(0.4, lite=True),
    "vrl-sgd": algorithms.VRLSGD(),
    "fedgate": algorithms.FedGATE(0.7),
    "fedcomgate": algorithms.FedGATE(0.7, messages.QSGD(3)),
    "apfl": algorithms.APFL(0.4, adaptive=True),
    "fedamp": algorithms.FedAMP(1.0, 0.5, 2.0),
}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("sampling", [Full(), Uniform(2), Bernoulli(0.5)], ids=str)
@pytest.mark.parametrize("solver", ["steps", "sgd"])
def test_backends_and_layouts_agree(method, sampling, solver):
    torch = pytest.importorskip("torch")
    likes = [None, array_api_strict.zeros(1, dtype=array_api_strict.float64), torch.zeros(1, dtype=torch.float64)]
    x0 = np.random.default_rng(1).normal(size=(2, 3))
    states = []
    for like, dense in [(None, False), (None, True), *((like, False) for like in likes[1:]), (None, False)]:
        in_place = len(states) < 4  # the last run keeps its memories
        run = simulate(
            samples(), METHODS[method], 3, x0, sampling, 2, 7, SOLVERS[solver], like=like, dense=dense, in_place=in_place
        )
        assert all(type(leaf) is type(run.final.x) for leaf in run.final)
        assert like is None or type(run.final.x) is type(like)
        states.append([to_numpy(leaf) for leaf in run.final])
    for other in states[1:]:
        for one, two in zip(states[0], other, strict=True):
            np.testing.assert_allclose(one, two, rtol=1e-12, atol=1e-13)


# --- incomplete clients and bits ------------------------------------------------------------------------------------------
@pytest.mark.parametrize("method", METHODS)
def test_inactive_clients_and_empty_rounds(method):
    """Clients do all E steps or none; whoever is out keeps what it had, and an empty round changes nothing."""
    seen = []

    def look(t, old, new, clients):
        out = ~clients.cohort.mask
        empty = out.all(axis=1)
        seen.extend(empty)
        for before, after in zip(old, new, strict=True):
            if before.ndim == 3:
                np.testing.assert_array_equal(after[out], before[out])
            np.testing.assert_allclose(after[empty], before[empty], rtol=1e-14)

    law = participation.inactive(4, 3, 0.7)
    run = simulate(samples(), METHODS[method], 8, START, law, 4, local_solver=LocalSGD(3, 0.2, batch_size=2), on_round=look)
    assert any(seen) and not all(seen) and np.isfinite(run.x).all()


def test_incomplete_clients():
    law = participation.incomplete(4, 3, [0.1, 0.2, 0.3, 0.4])
    for method in ("mime", "apfl", "fedamp"):
        simulate(samples(), METHODS[method], 3, START, law, 4, local_solver=LocalSGD(3, 0.2))
    for method in ("vrl-sgd", "fedgate"):
        with pytest.raises(errors.MissingCapability, match=r"unequal local steps \(step sizes sum to 0.2 up to 0.6\)"):
            simulate(samples(), METHODS[method], 3, START, law, 4, local_solver=LocalSGD(3, 0.2))


@pytest.mark.parametrize(
    ("algorithm", "up", "down"),
    [  # numbers a participant and round, d = 3
        (algorithms.Mime(), 6, 6),  # gradient and model; x and c
        (algorithms.Mime(0.5), 6, 9),  # and the momentum
        (algorithms.Mime(0.5, lite=True), 6, 6),
        (algorithms.VRLSGD(), 3, 3),
        (algorithms.FedGATE(), 3, 6),  # w and the mean message
        (algorithms.APFL(0.5), 3, 3),
        (algorithms.FedAMP(1.0, 0.5, 2.0), 3, 3),
    ],
    ids=str,
)
def test_bits(algorithm, up, down):
    run = simulate(samples(), algorithm, 1, START, Uniform(3), local_solver=SOLVERS["steps"], record=["bits_up", "bits_down"])
    assert (run.metrics["bits_up"][1, 0], run.metrics["bits_down"][1, 0]) == (64 * 3 * up, 64 * 3 * down)


def test_fedcomgate_sends_fewer_bits():
    options = {"local_solver": SOLVERS["steps"], "record": ["bits_up"]}
    dense, short = (simulate(samples(), algorithms.FedGATE(1.0, c), 1, START, **options) for c in (None, messages.QSGD(1)))
    assert 0 < short.metrics["bits_up"][1, 0] < dense.metrics["bits_up"][1, 0] / 2


# --- what is refused --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: algorithms.Mime(1.0), r"momentum = 1.0.*\[0, 1\)"),
        (lambda: algorithms.Mime(-0.1), "momentum = -0.1"),
        (lambda: algorithms.Mime(float("nan")), "momentum = nan"),
        (lambda: algorithms.Mime(lite="yes"), "lite = 'yes'"),
        (lambda: algorithms.FedGATE(0.0), "server_lr = 0.0"),
        (lambda: algorithms.FedGATE(compressor="top-k"), "compressor = 'top-k'"),
        (lambda: algorithms.APFL(1.5), r"alpha = 1.5.*\[0, 1\]"),
        (lambda: algorithms.APFL(0.5, adaptive=1), "adaptive = 1"),
        (lambda: algorithms.FedAMP(-1.0, 1.0, 1.0), "lam = -1.0"),
        (lambda: algorithms.FedAMP(1.0, 0.0, 1.0), "alpha = 0.0"),
        (lambda: algorithms.FedAMP(1.0, 1.0, math.inf), "sigma = inf"),
    ],
)
def test_bad_hyperparameters(make, words):
    with pytest.raises(errors.InvalidInput, match=words):
        make()


@pytest.mark.parametrize(
    "algorithm", [algorithms.Mime(0.5), algorithms.VRLSGD(), algorithms.FedGATE(), algorithms.APFL(0.5)], ids=str
)
def test_methods_of_gradient_steps_refuse_the_exact_solver(algorithm):
    with pytest.raises(errors.MissingCapability, match=r"Exact.*(use|gradient)"):
        simulate(samples(), algorithm, 1, local_solver=Exact())


@pytest.mark.parametrize("algorithm", [algorithms.VRLSGD(), algorithms.FedGATE()], ids=str)
def test_unequal_local_steps_are_refused(algorithm):
    with pytest.raises(errors.MissingCapability, match=r"unequal local steps.*steps="):
        simulate(samples(), algorithm, 1, local_solver=SOLVERS["epochs"])


def test_apfl_refuses_a_projection_noise_of_no_sample_is_refused_and_fedamp_refuses_too_strong_a_pull():
    ball = SubgradientSteps(2, Schedule("constant", 0.1), radius=2.0)
    with pytest.raises(errors.MissingCapability, match="two models at once"):
        simulate(samples(), algorithms.APFL(0.5), 1, local_solver=ball)
    for method in (algorithms.APFL(0.5), algorithms.Mime(), algorithms.Mime(0.5, lite=True)):
        with pytest.raises(errors.MissingCapability, match=r"noise_std = 0.1 belongs to no sample"):
            simulate(samples(), method, 1, local_solver=LocalSGD(2, 0.1, noise_std=0.1))
    simulate(samples(), algorithms.Mime(lite=True), 1, local_solver=LocalSGD(2, 0.1, noise_std=0.1))
    with pytest.raises(errors.InvalidInput, match=r"alpha \(m - 1\)/sigma = 3 must be at most 1.*alpha <= 0.333333"):
        simulate(samples(), algorithms.FedAMP(1.0, 1.0, 1.0), 1)
