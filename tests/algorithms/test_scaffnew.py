"""Scaffnew: both faces of its coin worked out by hand, what it is at p = 1, its linear rate, and what it sends."""

from __future__ import annotations

from fractions import Fraction as F

import numpy as np
import pytest
from differing_clients import START, heterogeneous, samples
from one_round import HAND, close, memory, server

from fedtheory import Bernoulli, Full, Uniform, algorithms, errors, problems, simulate
from fedtheory.algorithms.scaffnew import ScaffnewState
from fedtheory.arrays import to_numpy
from fedtheory.clients.clients import Clients
from fedtheory.local import Exact, GradientSteps
from fedtheory.participation import irregular
from fedtheory.randomness import Stream
from fedtheory.rational import in_fractions
from fedtheory.theory.rounds.losses import SeparableLosses
from fedtheory.theory.rounds.rational_clients import NotInFractions, SlotClients, SlotWork

# Gradients at 2, 0, 1: -3, 3, -1/2. With gamma = 1/4 the steps -(g - h)/4 are 1, -5/4, 9/8. With p = 1/2 the messages
# are y - h/2 = 5/2, -1/4, 1/8, and their mean is 19/24. h moves by 2 (19/24 - y).
BEFORE = (2, 0, 1), (1, -2, 4)
Y = 3, F(-5, 4), F(17, 8)
SENT = F(5, 2), F(-1, 4), F(1, 8)
AVERAGE = F(19, 24)
AFTER = F(-41, 12), F(25, 12), F(4, 3)


def everybody(scenarios):
    return Full().sample(Stream(0), 1, range(scenarios), 3)


def test_a_round_by_hand():
    many = 40
    local, h = (np.repeat(memory(*values), many, axis=0) for values in BEFORE)
    state = ScaffnewState(np.full((many, 1), 7.0), local, h)
    clients = Clients(HAND, everybody(many), GradientSteps(1, 0.25), state.x)
    new = algorithms.Scaffnew(0.5).round(state, clients)
    heads = new.x[:, 0] != 7
    assert 0 < heads.sum() < many
    close(new.x[heads], float(AVERAGE))
    close(new.local[heads], float(AVERAGE))
    close(new.h[heads, :, 0], np.tile(np.array(AFTER, float), (heads.sum(), 1)))
    close(new.local[~heads, :, 0], np.tile(np.array(Y, float), (many - heads.sum(), 1)))
    assert (new.h[~heads] == h[~heads]).all()
    (sent,) = clients.sent_numpy()
    close(sent[:, 0], np.tile(np.array(SENT, float), heads.sum()))
    for bits in clients.client_bits():
        assert (bits == 64 * heads[:, None]).all()


@pytest.mark.parametrize("heads", [True, False])
def test_a_round_in_fractions(heads):
    class Coined(SlotClients):
        def coin(self, p):
            assert p == F(1, 2)
            return np.array([[heads]])

    exact = [np.array([F(v) for v in values], dtype=object).reshape(1, 3, 1) for values in BEFORE]
    x = np.array([[F(7)]], dtype=object)
    curvature, center, none = ([[F(v)] for v in values] for values in ((1, 3, 1), (5, -1, F(3, 2)), (0, 0, 0)))
    losses = SeparableLosses.of(curvature, center, none, none, [[None]] * 3, [F(1, 3)] * 3)
    method, cohort = in_fractions(algorithms.Scaffnew(0.5)), everybody(1)
    work = SlotWork(1, F(1, 4))
    new = method.round(ScaffnewState(x, *exact), Coined(losses, cohort, work, x))
    assert new.x[0, 0] == (AVERAGE if heads else 7)
    assert tuple(new.local[0, :, 0]) == ((AVERAGE,) * 3 if heads else Y)
    assert tuple(new.h[0, :, 0]) == (AFTER if heads else BEFORE[1])
    with pytest.raises(NotInFractions, match="flips a coin"):
        method.round(ScaffnewState(x, *exact), SlotClients(losses, cohort, work, x))


# --- p = 1 ----------------------------------------------------------------------------------------
@pytest.mark.parametrize(("steps", "other"), [(1, algorithms.FedAvg("cohort")), (1, algorithms.VRLSGD()), (4, algorithms.VRLSGD())])
def test_with_probability_one_it_is_vrl_sgd_and_with_one_step_gradient_descent(steps, other):
    options = {"local_solver": GradientSteps(steps, 0.1), "keep_states": True}
    runs = [simulate(heterogeneous(), method, 6, START, **options) for method in (algorithms.Scaffnew(1), other)]
    for one, two in zip(*(run.states for run in runs), strict=True):
        np.testing.assert_allclose(one.x, two.x, rtol=1e-12)
        if hasattr(two, "delta"):
            np.testing.assert_allclose(one.h, two.delta, rtol=1e-9, atol=1e-12)
        np.testing.assert_array_equal(one.local, np.broadcast_to(one.x[:, None], one.local.shape))


# --- convergence ----------------------------------------------------------------------------------
@pytest.mark.parametrize("p", [0.2, 0.5, 0.9])
def test_theorem_3_6(p):
    """E Psi_T <= max(1 - gamma mu, 1 - p^2)^T Psi_0, which in the mean over runs is far from tight; and all arrive."""
    problem = problems.random_quadratic(num_clients=5, dim=3, heterogeneity=3.0, condition=10.0, seed=2)
    L, mu = float(problem.smoothness().max()), float(problem.strong_convexity().min())
    gamma, many, rounds = 1 / L, 400, 60
    run = simulate(
        problem, algorithms.Scaffnew(p), rounds, START, scenarios=many, seed=4,
        local_solver=GradientSteps(1, gamma), keep_states=True,
    )  # fmt: skip
    star = problem.optimum().x
    slopes = problem.gradient(star)

    def psi(state):
        far = ((state.local - star) ** 2).sum(axis=2).mean(axis=1)
        return far + (gamma / p) ** 2 * ((state.h - slopes) ** 2).sum(axis=2).mean(axis=1)

    mean = np.array([psi(state).mean() for state in run.states])
    rho = max(1 - gamma * mu, 1 - p**2)
    assert (mean <= rho ** np.arange(rounds + 1) * mean[0] * (1 + 1e-9)).all()
    assert mean[-1] < mean[0] / 10
    assert np.abs(run.final.h.mean(axis=1)).max() < 1e-12
    long = simulate(problem, algorithms.Scaffnew(p), 1500, START, local_solver=GradientSteps(1, gamma))
    np.testing.assert_allclose(long.final.local[0], np.tile(star, (5, 1)), atol=1e-9)
    np.testing.assert_allclose(long.final.h[0], slopes, atol=1e-8)


# --- the coin, and what is sent -------------------------------------------------------------------
def flipped(p, scenarios, round_index=1, like=None, seed=0, times=1):
    first = np.zeros((1, 1)) if like is None else like
    cohort = everybody(len(scenarios))
    clients = Clients(HAND, cohort, Exact(), first, Stream(seed), round_index, scenarios)
    for _ in range(times):
        coin = clients.coin(p)
    return coin


def test_the_coin():
    many = flipped(0.3, range(4000))
    assert many.shape == (4000, 1) and many.dtype == bool
    assert abs(many.mean() - 0.3) < 4 * np.sqrt(0.21 / 4000)
    np.testing.assert_array_equal(flipped(0.3, range(100, 200)), many[100:200])
    assert flipped(1, range(500)).all()
    others = [flipped(0.3, range(4000), **more) for more in ({"round_index": 2}, {"seed": 1}, {"times": 2})]
    for coin in others:
        assert (coin != many).mean() == pytest.approx(0.42, abs=0.05)  # independent


@pytest.mark.parametrize("p", [-0.1, 1.1, float("nan")])
def test_a_coin_has_a_probability(p):
    with pytest.raises(errors.InvalidInput, match=r"coin\(.*: a probability lies in \[0, 1\]"):
        flipped(p, range(3))


def test_the_coin_of_torch_is_that_of_numpy():
    torch = pytest.importorskip("torch")
    coin = flipped(0.3, range(200), like=torch.zeros((1, 1)))
    assert coin.dtype == torch.bool
    np.testing.assert_array_equal(to_numpy(coin), flipped(0.3, range(200)))


def test_only_rounds_with_the_coin_are_counted():
    run = simulate(
        samples(), algorithms.Scaffnew(0.4), 20, START, scenarios=6, local_solver=GradientSteps(1, 0.2),
        record=["bits_up", "bits_down"], keep_states=True,
    )  # fmt: skip
    moved = np.array([(one.x != two.x).any(axis=1) for one, two in zip(run.states[1:], run.states)])
    assert 0 < moved.sum() < moved.size
    for way in ("bits_up", "bits_down"):
        np.testing.assert_array_equal(run.metrics[way][1:], 64 * 3 * 4 * moved)


# --- what is refused ------------------------------------------------------------------------------
@pytest.mark.parametrize("p", [0, -0.5, 1.5, float("nan"), "1"])
def test_p_is_a_probability_above_0(p):
    with pytest.raises(errors.InvalidInput, match=r"p = .*the probability p that a round communicates"):
        algorithms.Scaffnew(p)


@pytest.mark.parametrize("sampling", [Uniform(3), Bernoulli(0.9), irregular.inactive(4, 1, 0.5)], ids=str)
def test_everybody_takes_part(sampling):
    with pytest.raises(errors.InvalidInput, match=r"every client takes part in every round of Scaffnew.*use Full\(\)"):
        simulate(samples(), algorithms.Scaffnew(0.5), 1, START, sampling, local_solver=GradientSteps(1, 0.1))
    whole = [
        simulate(samples(), algorithms.Scaffnew(0.5), 5, START, law, local_solver=GradientSteps(1, 0.1)).x
        for law in (Full(), Uniform(4))
    ]
    np.testing.assert_allclose(*whole, rtol=1e-12)


def test_it_divides_by_the_step_size():
    with pytest.raises(errors.MissingCapability, match="Exact takes no gradient steps, and the corrections of Scaffnew"):
        simulate(samples(), algorithms.Scaffnew(0.5), 1, START, local_solver=Exact())


def test_what_is_sent_is_zero_without_the_coin():
    cohort = everybody(1)
    clients = Clients(HAND, cohort, GradientSteps(1, 0.25), server(1), Stream(0))
    sent = clients.send(memory(1, 2, 3), senders=np.zeros((1, 3), dtype=bool))
    assert not sent.any() and not clients.bits_up.any()
