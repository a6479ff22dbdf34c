"""Mime, VRL-SGD, FedGATE, APFL and FedAMP together: reductions, layouts, incomplete clients, bits, and what is refused."""

from __future__ import annotations

import math

import array_api_strict
import numpy as np
import pytest
from differing_clients import SOLVERS, START, heterogeneous, samples

from fedtheory import Bernoulli, Full, Uniform, algorithms, errors, messages, simulate
from fedtheory.arrays import to_numpy
from fedtheory.clients.clients import Clients
from fedtheory.local import Exact, GradientSteps, LocalSGD, Schedule, SubgradientSteps
from fedtheory.participation import irregular as participation
from fedtheory.randomness import Stream

UNBIASED = [
    algorithms.Mime(),
    algorithms.Mime(0.5),
    algorithms.VRLSGD(),
    algorithms.FedGATE(0.8),
    algorithms.Compressed(algorithms.FedGATE(), messages.QSGD(4)),
    algorithms.Compressed(algorithms.FedGATE(0.5), messages.RandomK(k=2)),
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
        assert (before is None and after is None) or np.abs(after - before).max() <= 1e-12


@pytest.mark.parametrize("algorithm", [algorithms.Mime(), algorithms.VRLSGD(), algorithms.FedGATE()], ids=str)
def test_one_local_step_is_gradient_descent(algorithm):
    problem, x = samples(), START
    run = simulate(problem, algorithm, 5, x, local_solver=GradientSteps(1, 0.4), keep_states=True)
    for state in run.states:
        np.testing.assert_allclose(state.x[0], x, rtol=1e-12)
        x = x - 0.4 * problem.gradient(x).mean(axis=0)


def same(first, second, rtol=1e-12):
    for one, two in zip(first.states, second.states, strict=True):
        np.testing.assert_allclose(one.x, two.x, rtol=rtol, atol=1e-14)


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


# --- backends -------------------------------------------------------------------------------------
METHODS = {
    "mime": algorithms.Mime(0.4),
    "mimelite": algorithms.Mime(0.4, lite=True),
    "vrl-sgd": algorithms.VRLSGD(),
    "fedgate": algorithms.FedGATE(0.7),
    "fedcomgate": algorithms.Compressed(algorithms.FedGATE(0.7), messages.QSGD(3)),
    "apfl": algorithms.APFL(0.4, adaptive=True),
    "fedamp": algorithms.FedAMP(1.0, 0.5, 2.0),
    "fedavgm": algorithms.FedAvgM(0.4),
    "fedyogi": algorithms.FedYogi(),
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
        leaves = [leaf for leaf in run.final if leaf is not None]
        assert all(type(leaf) is type(run.final.x) for leaf in leaves)
        assert like is None or type(run.final.x) is type(like)
        states.append([to_numpy(leaf) for leaf in leaves])
    for other in states[1:]:
        for one, two in zip(states[0], other, strict=True):
            np.testing.assert_allclose(one, two, rtol=1e-12, atol=1e-13)


# --- incomplete clients and bits ------------------------------------------------------------------
@pytest.mark.parametrize("method", METHODS)
def test_inactive_clients_and_empty_rounds(method):
    """Clients do all E steps or none; whoever is out keeps what it had, and an empty round changes nothing."""
    seen = []

    def look(t, old, new, clients):
        out = ~clients.cohort.mask
        empty = out.all(axis=1)
        seen.extend(empty)
        for before, after in zip(old, new, strict=True):
            if before is None:
                continue
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
        (algorithms.FedAdam(), 3, 3),
    ],
    ids=str,
)
def test_bits(algorithm, up, down):
    run = simulate(samples(), algorithm, 1, START, Uniform(3), local_solver=SOLVERS["steps"], record=["bits_up", "bits_down"])
    assert (run.metrics["bits_up"][1, 0], run.metrics["bits_down"][1, 0]) == (64 * 3 * up, 64 * 3 * down)


# --- what is refused ------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: algorithms.Mime(1.0), r"momentum = 1.0.*\[0, 1\)"),
        (lambda: algorithms.Mime(-0.1), "momentum = -0.1"),
        (lambda: algorithms.Mime(float("nan")), "momentum = nan"),
        (lambda: algorithms.Mime(lite="yes"), "lite = 'yes'"),
        (lambda: algorithms.FedGATE(0.0), "server_lr = 0.0"),
        (lambda: algorithms.Compressed(algorithms.FedGATE(), "top-k"), "up = 'top-k'"),
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
