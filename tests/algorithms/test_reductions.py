"""Reductions of one method to another: l1 = 0, mu = 0, one local step, and nothing moving."""

from __future__ import annotations

import numpy as np
import pytest

from fedtheory import Bernoulli, Full, Uniform, algorithms, problems, simulate
from fedtheory.local import Exact, GradientSteps
from fedtheory.local.objective import LocalObjective
from fedtheory.participation.cohorts import Sampling
from fedtheory.randomness import Stream

ROUNDS, SCENARIOS, P = 40, 3, 2


@pytest.fixture(scope="module")
def problem():
    """Six heterogeneous clients in dimension 4 with 5 to 10 samples each; beta is below 1 after the scaling."""
    rng = np.random.default_rng(11)
    counts = rng.integers(5, 11, size=6)
    features = [rng.normal(size=(n, 4)) / 3 for n in counts]
    targets = [a @ rng.normal(size=4) + rng.normal(size=len(a)) for a in features]
    built = problems.LeastSquares(features, targets, ridge=0.3)
    assert built.constants().beta < 1.5
    return built


@pytest.fixture(scope="module")
def x0():
    return np.random.default_rng(5).normal(size=(SCENARIOS, 4))


def play(problem, algorithm, x0, solver=None, sampling=None, rounds=ROUNDS):
    """Server models of all rounds (rounds + 1, S, d)."""
    run = simulate(
        problem,
        algorithm,
        rounds,
        x0=x0,
        sampling=sampling or Uniform(P),
        scenarios=SCENARIOS,
        seed=3,
        local_solver=solver or Exact(),
        keep_states=True,
    )
    return run.server_models()


def agree(a, b, tolerance=1e-10):
    """Both runs moved, and stay within a rounding of each other; tolerance covers the local solver's 1e-12 over many rounds."""
    assert np.abs(np.diff(a, axis=0)).max() > 1e-3
    np.testing.assert_allclose(a, b, rtol=0, atol=tolerance)


# --- lambda_1 = 0 and mu = 0 ----------------------------------------------------------------------
WITHOUT_L1 = {
    "prox, cohort": (
        lambda l1: algorithms.FedElasticNetProx(l1, 0.7, "cohort"), algorithms.FedProx(0.7, "cohort"), Exact()
    ),
    "prox, samples": (
        lambda l1: algorithms.FedElasticNetProx(l1, 0.7, "samples"), algorithms.FedProx(0.7, "samples"), Exact()
    ),
    "prox, printed": (
        lambda l1: algorithms.FedElasticNetProx(l1, 0.7), algorithms.FedProx(0.7, "printed"), GradientSteps(4, 0.5)
    ),
    "scaffold, option II": (
        lambda l1: algorithms.FedElasticNetScaffold(l1, 0.0), algorithms.Scaffold(), GradientSteps(4, 0.3)
    ),
    "scaffold, option I": (
        lambda l1: algorithms.FedElasticNetScaffold(l1, 0.0, "gradient", server_lr=0.5),
        algorithms.Scaffold("gradient", server_lr=0.5),
        GradientSteps(4, 0.3),
    ),
    "dyn, sign": (lambda l1: algorithms.FedElasticNetDyn(l1, 4.0), algorithms.FedDyn(4.0), Exact()),
    "dyn, true gradient": (
        lambda l1: algorithms.FedElasticNetDyn(l1, 4.0, "true-gradient"), algorithms.FedDyn(4.0), Exact()
    ),
}


@pytest.mark.parametrize("case", WITHOUT_L1)
@pytest.mark.parametrize("sampling", [Uniform(P), Bernoulli(0.5), Full()], ids=["uniform", "bernoulli", "full"])
def test_without_l1(problem, x0, case, sampling):
    elastic, plain, solver = WITHOUT_L1[case]
    expected = play(problem, plain, x0, solver, sampling)
    agree(play(problem, elastic(0.0), x0, solver, sampling), expected)
    with pytest.raises(AssertionError):  # the comparison sees a small lambda_1
        agree(play(problem, elastic(1e-3), x0, solver, sampling), expected)


@pytest.mark.parametrize("aggregation", ["cohort", "samples", "printed"])
@pytest.mark.parametrize("solver", [Exact(), GradientSteps(3, 0.4)], ids=["exact", "steps"])
def test_mu_zero_is_fedavg(problem, x0, aggregation, solver):
    expected = play(problem, algorithms.FedAvg(aggregation), x0, solver)
    agree(play(problem, algorithms.FedProx(0.0, aggregation), x0, solver), expected)
    with pytest.raises(AssertionError):
        agree(play(problem, algorithms.FedProx(1e-3, aggregation), x0, solver), expected)


def test_a_prox_without_its_quadratic_is_rejected(problem, x0, monkeypatch):
    """The public-port bug: the proximal term is left out, so that FedProx is FedAvg for every mu."""
    expected = play(problem, algorithms.FedElasticNetProx(0.0, 0.7, "cohort"), x0)
    agree(play(problem, algorithms.FedProx(0.7), x0), expected)
    monkeypatch.setattr("fedtheory.algorithms.fedprox.LocalObjective", lambda center, curvature: LocalObjective(center))
    with pytest.raises(AssertionError):
        agree(play(problem, algorithms.FedProx(0.7), x0), expected)


# --- one local step, everyone taking part: gradient descent ---------------------------------------
def descend(gradient, x0, lr, rounds=ROUNDS):
    xs = [x0]
    for _ in range(rounds):
        xs.append(xs[-1] - lr * gradient(xs[-1]))
    return np.stack(xs)


def weighted(problem, weights):
    return lambda x: np.einsum("k,skd->sd", weights, problem.gradient(x))


@pytest.mark.parametrize("name", ["fedavg", "fedprox", "scaffold-I", "scaffold-II", "elastic-prox", "elastic-scaffold"])
def test_one_step_is_gradient_descent(problem, x0, name):
    """The penalties' slopes vanish at the server's model, where the only step starts; the control variates average out."""
    algorithm = {
        "fedavg": algorithms.FedAvg("cohort"),
        "fedprox": algorithms.FedProx(0.7),
        "scaffold-I": algorithms.Scaffold("gradient"),
        "scaffold-II": algorithms.Scaffold(),
        "elastic-prox": algorithms.FedElasticNetProx(0.0, 0.7, "cohort"),
        "elastic-scaffold": algorithms.FedElasticNetScaffold(0.2, 0.7),
    }[name]
    solver = GradientSteps(1, 0.5, l1="subgradient")
    expected = descend(weighted(problem, np.full(6, 1 / 6)), x0, 0.5)
    agree(play(problem, algorithm, x0, solver, Full()), expected, 1e-12)
    with pytest.raises(AssertionError):  # two local steps are not one
        agree(play(problem, algorithm, x0, GradientSteps(2, 0.5, l1="subgradient"), Full()), expected, 1e-12)


@pytest.mark.parametrize("aggregation", ["samples", "printed"])
def test_one_step_with_sample_weights(problem, x0, aggregation):
    share = problem.sample_counts / problem.sample_counts.sum()
    assert len(set(share)) > 1
    expected = descend(weighted(problem, share), x0, 0.5)
    agree(play(problem, algorithms.FedAvg(aggregation), x0, GradientSteps(1, 0.5), Full()), expected, 1e-12)
    with pytest.raises(AssertionError):
        agree(play(problem, algorithms.FedAvg("cohort"), x0, GradientSteps(1, 0.5), Full()), expected, 1e-12)


def test_scaffold_options_coincide_after_one_step(problem, x0):
    """With K = 1, (x - y)/eta_l + c_k - c is the gradient at x."""
    one, two = (play(problem, algorithms.Scaffold(o), x0, GradientSteps(1, 0.3)) for o in ("gradient", "difference"))
    agree(one, two)


# --- while nothing moves --------------------------------------------------------------------------
HUGE = 1e3  # lambda_1 above every |g_k - grad f_k| of these runs, so that every delta is exactly 0


def sag(problem, x0, lr, sampling: Sampling, rounds, seed=3):
    """Minibatch SAG (Schmidt, Le Roux and Bach 2017): refresh the cohort's rows of a gradient table, step along the mean."""
    x, table, xs = x0.copy(), np.zeros((SCENARIOS, 6, 4)), [x0]
    for t in range(1, rounds + 1):
        cohort = sampling.sample(Stream(seed), t, range(SCENARIOS), 6).dense()
        for s in range(SCENARIOS):
            for k in np.flatnonzero(cohort.mask[s]):
                table[s, k] = problem.gram[k] @ x[s] - problem.moment[k]
        x = x - lr * table.mean(axis=1)
        xs.append(x)
    return np.stack(xs)


@pytest.mark.parametrize("sampling", [Uniform(P), Uniform(1), Bernoulli(0.4), Full()], ids=str)
def test_while_nothing_moves_the_true_gradient_rule_is_sag(problem, x0, sampling):
    l2 = 12.0
    run = simulate(
        problem,
        algorithms.FedElasticNetDyn(HUGE, l2, "true-gradient"),
        400,
        x0=x0,
        sampling=sampling,
        scenarios=SCENARIOS,
        seed=3,
        keep_states=True,
    )
    for old, new in zip(run.states, run.states[1:]):  # nothing moves: a client that takes part holds the server's model
        took_part = (new.local != old.local).any(axis=-1)
        assert (new.local[took_part] == np.broadcast_to(old.x[:, None], new.local.shape)[took_part]).all()
    expected = sag(problem, x0, 1 / l2, sampling, 400)
    agree(run.server_models(), expected, 1e-11)
    assert np.linalg.norm(problem.full_gradient(expected[-1])) < 1e-2 * np.linalg.norm(problem.full_gradient(x0))
    with pytest.raises(AssertionError):
        agree(run.server_models(), sag(problem, x0, 1.01 / l2, sampling, 400), 1e-11)


def test_with_everyone_the_still_true_gradient_rule_is_gradient_descent(problem, x0):
    algorithm = algorithms.FedElasticNetDyn(HUGE, 3.0, "true-gradient")
    agree(play(problem, algorithm, x0, sampling=Full()), descend(problem.full_gradient, x0, 1 / 3), 1e-12)


def test_while_nothing_moves_the_sign_rule_stalls(problem, x0):
    """sign(0) = 0 keeps g = 0 and h = 0, so that the server's model stays where it started."""
    models = play(problem, algorithms.FedElasticNetDyn(HUGE, 3.0, "sign"), x0)
    assert (models == x0).all()
