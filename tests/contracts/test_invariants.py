"""Invariants of every round, and the well-known bugs of public ports that each must reject."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from fedtheory import Bernoulli, Full, Uniform, algorithms, problems, simulate
from fedtheory.arrays import soft_threshold
from fedtheory.local import Exact, GradientSteps
from fedtheory.local.objective import LocalObjective

SCENARIOS = 3
SAMPLINGS = pytest.mark.parametrize("sampling", [Uniform(2), Bernoulli(0.5), Full()], ids=["uniform", "bernoulli", "full"])


@pytest.fixture(scope="module")
def problem():
    """Five heterogeneous quadratics in dimension 3, 0.4 <= eigenvalues <= 1."""
    rng = np.random.default_rng(2)
    q = np.linalg.qr(rng.normal(size=(5, 3, 3)))[0]
    hessians = np.einsum("kij,kj,klj->kil", q, rng.uniform(0.4, 1.0, size=(5, 3)), q)
    return problems.Quadratic((hessians + hessians.transpose(0, 2, 1)) / 2, rng.normal(size=(5, 3)))


@dataclass
class Round:
    """One round as the checks see it; arrays of participants are (participants over all scenarios, d)."""

    old: object
    new: object
    mask: np.ndarray  # (S, N)
    start: np.ndarray  # (S, N, d) server model each client received
    y: np.ndarray  # (S, N, d) local models, of participants only
    sent: list[np.ndarray]


def watch(problem, algorithm, check, solver=None, sampling=None, rounds=25):
    """Run the method and call check(algorithm, problem, Round) after each round."""

    def on_round(t, old, new, clients):
        dense = clients.cohort.dense()
        y = clients.put(np.full((SCENARIOS, *problem.minimisers.shape), np.nan), clients.results[0].y)
        start = np.broadcast_to(old.x[:, None], y.shape)
        check(algorithm, problem, Round(old, new, dense.mask, start, y, clients.sent_numpy()))

    x0 = np.random.default_rng(8).normal(size=(SCENARIOS, problem.dim))
    run = simulate(
        problem,
        algorithm,
        rounds,
        x0=x0,
        sampling=sampling or Uniform(2),
        scenarios=SCENARIOS,
        seed=1,
        local_solver=solver or Exact(),
        on_round=on_round,
    )
    assert np.abs(run.x - x0).max() > 1e-3  # something happened
    return run


def equal(a, b, tolerance=1e-11):
    np.testing.assert_allclose(a, b, rtol=0, atol=tolerance)


def untouched(old, new, mask):
    """Clients outside the cohort keep their memory, bit for bit."""
    assert (new[~mask] == old[~mask]).all()


# --- FedDyn and Algorithm 3 -----------------------------------------------------------------------
def check_feddyn(algorithm, problem, r):
    equal(r.new.h, r.new.gradients.mean(axis=1))  # h = mean of the stored gradients
    untouched(r.old.gradients, r.new.gradients, r.mask)
    equal(r.new.gradients[r.mask], problem.gradient_each(r.y)[r.mask])  # (9): stored = grad L_k(theta_k)
    gamma = r.new.x + r.new.h / algorithm.alpha
    equal(gamma, np.nanmean(r.y, axis=1))  # gamma = theta + h/alpha = mean local model of the cohort


def check_elastic_dyn(algorithm, problem, r):
    equal(r.new.h, r.new.stored.mean(axis=1))
    untouched(r.old.stored, r.new.stored, r.mask)
    untouched(r.old.local, r.new.local, r.mask)
    equal(r.new.local[r.mask], r.y[r.mask], 0)
    equal(r.new.x + r.new.h / algorithm.l2, np.nanmean(r.y, axis=1))
    delta = (r.y - r.start)[r.mask]
    true = problem.gradient_each(r.y)[r.mask]
    v = r.old.stored[r.mask] - true  # (11): lambda_2 delta + lambda_1 s with s in the subdifferential of ||.||_1
    s = (v - algorithm.l2 * delta) / algorithm.l1
    equal(s[delta != 0], np.sign(delta[delta != 0]), 1e-9)
    assert (np.abs(s[delta == 0]) <= 1 + 1e-9).all()
    moved = r.new.stored[r.mask]
    if algorithm.rule == "true-gradient":
        equal(moved, true)
        (sent,) = r.sent
        equal(soft_threshold(sent, algorithm.l1) / algorithm.l2, delta)  # the server recovers delta from what was sent
        assert np.count_nonzero(sent) == sent.size  # dense, and counted as such
    else:
        equal(moved[delta != 0], true[delta != 0])  # off the support the printed rule is wrong by at most lambda_1
        assert (np.abs(moved - true) <= algorithm.l1 + 1e-11).all()
        (sent,) = r.sent
        assert (sent == delta).all()
        equal(r.new.stored[r.mask], r.old.stored[r.mask] - algorithm.l2 * sent - algorithm.l1 * np.sign(sent))


@SAMPLINGS
def test_feddyn(problem, sampling):
    watch(problem, algorithms.FedDyn(2.0), check_feddyn, sampling=sampling)


@SAMPLINGS
@pytest.mark.parametrize("rule", ["sign", "true-gradient"])
def test_elastic_dyn(problem, rule, sampling):
    zeros = []

    def check(algorithm, problem, r):
        check_elastic_dyn(algorithm, problem, r)
        zeros.append(((r.y - r.start)[r.mask] == 0).mean())

    watch(problem, algorithms.FedElasticNetDyn(0.2, 3.0, rule), check, sampling=sampling)
    assert 0 < np.mean(zeros) < 1  # both branches of the subgradient were met


def test_thresholding_keeps_the_mean(problem):
    def check(algorithm, problem, r):
        equal(r.new.h, r.new.stored.mean(axis=1))
        assert ((r.sent[-1] == 0) | (np.abs(r.sent[-1]) > algorithm.epsilon)).all()

    for rule in ("sign", "true-gradient"):
        watch(problem, algorithms.FedElasticNetDyn(0.01, 3.0, rule, epsilon=0.02), check)


class FedDynLosesItsMemory(algorithms.FedDyn):
    """The stored gradients are identically zero."""

    def round(self, state, clients):
        return super().round(state, clients)._replace(gradients=0 * state.gradients)


class FedDynStartsFromTheWeights(algorithms.FedDyn):
    """The stored gradients are initialised with the model."""

    def init(self, x, num_clients):
        state = super().init(x, num_clients)
        return state._replace(gradients=state.gradients + x[:, None])


class FedDynAveragesOverTheCohort(algorithms.FedDyn):
    """h moves by 1/P instead of 1/m."""

    def round(self, state, clients):
        new = super().round(state, clients)
        h = state.h + (new.h - state.h) * clients.num_clients / clients.size
        return new._replace(h=h, x=new.x + (new.h - h) / self.alpha)


class FedDynAddsH(algorithms.FedDyn):
    """The server adds h/alpha instead of subtracting it."""

    def round(self, state, clients):
        new = super().round(state, clients)
        return new._replace(x=new.x + 2 * new.h / self.alpha)


FEDDYN_OBJECTIVE_BUGS = {
    "wrong sign of the linear term": lambda center, linear, curvature: LocalObjective(center, -linear, curvature),
    "missing linear term": lambda center, linear, curvature: LocalObjective(center, None, curvature),
    "missing quadratic term": lambda center, linear, curvature: LocalObjective(center, linear),
    "quadratic term without its half": lambda center, linear, curvature: LocalObjective(center, linear, 2 * curvature),
}


@pytest.mark.parametrize(
    "mutant", [FedDynLosesItsMemory, FedDynStartsFromTheWeights, FedDynAveragesOverTheCohort, FedDynAddsH]
)
def test_feddyn_mutants_are_rejected(problem, mutant):
    with pytest.raises(AssertionError):
        watch(problem, mutant(2.0), check_feddyn)


@pytest.mark.parametrize("bug", FEDDYN_OBJECTIVE_BUGS)
def test_feddyn_objective_mutants_are_rejected(problem, bug, monkeypatch):
    monkeypatch.setattr("fedtheory.algorithms.feddyn.LocalObjective", FEDDYN_OBJECTIVE_BUGS[bug])
    with pytest.raises(AssertionError):
        watch(problem, algorithms.FedDyn(2.0), check_feddyn)


ELASTIC_OBJECTIVE_BUGS = {
    "wrong sign of the linear term": lambda linear, **k: LocalObjective(linear=-linear, **k),
    "missing quadratic term": lambda curvature, **k: LocalObjective(**k),
    "missing l1 term": lambda l1, **k: LocalObjective(**k),
    "l1 of the model, not of the update": lambda center, **k: LocalObjective(center, anchor=0 * center, **k),
}


@pytest.mark.parametrize("rule", ["sign", "true-gradient"])
@pytest.mark.parametrize("bug", ELASTIC_OBJECTIVE_BUGS)
def test_elastic_dyn_objective_mutants_are_rejected(problem, bug, rule, monkeypatch):
    monkeypatch.setattr("fedtheory.algorithms.fedelasticnet_dyn.LocalObjective", ELASTIC_OBJECTIVE_BUGS[bug])
    with pytest.raises(AssertionError):
        watch(problem, algorithms.FedElasticNetDyn(0.2, 3.0, rule), check_elastic_dyn)


class FlippedSign(algorithms.FedElasticNetDyn):
    """Line 5 adds lambda_1 sign(delta); h follows, so that only the true gradients give it away."""

    def round(self, state, clients):
        new = super().round(state, clients)
        theta = clients.broadcast(state.x)
        flip = 2 * self.l1 * np.sign(clients.results[0].y - theta)
        stored = clients.put(new.stored, clients.take(new.stored) + flip)
        h = stored.mean(axis=1)
        return new._replace(stored=stored, h=h, x=new.x + (new.h - h) / self.l2)


def test_flipped_sign_is_rejected(problem):
    with pytest.raises(AssertionError):
        watch(problem, FlippedSign(0.2, 3.0, "sign"), check_elastic_dyn)


# --- SCAFFOLD and Algorithm 2 ---------------------------------------------------------------------
LR = 0.3


def check_scaffold(algorithm, problem, r):
    """Control variates after one local step of LR: both options give grad f_k(x)."""
    equal(r.new.c, r.new.c_k.mean(axis=1))  # c = mean of the c_k
    untouched(r.old.c_k, r.new.c_k, r.mask)
    at_start = problem.gradient_each(np.ascontiguousarray(r.start))
    equal(r.new.c_k[r.mask], at_start[r.mask])
    slope = at_start - r.old.c_k + r.old.c[:, None]
    equal(r.y[r.mask], (r.start - LR * slope)[r.mask])  # line 10
    equal(r.new.x, r.old.x + algorithm.server_lr * (np.nanmean(r.y, axis=1) - r.old.x))  # line 17


@SAMPLINGS
@pytest.mark.parametrize(
    "algorithm",
    [
        algorithms.Scaffold("gradient"),
        algorithms.Scaffold("difference", server_lr=0.5),
        algorithms.FedElasticNetScaffold(0.1, 0.5),
        algorithms.FedElasticNetScaffold(0.1, 0.5, "gradient"),
    ],
    ids=["I", "II", "elastic II", "elastic I"],
)
def test_scaffold(problem, algorithm, sampling):
    watch(problem, algorithm, check_scaffold, GradientSteps(1, LR, l1="subgradient"), sampling)


@pytest.mark.parametrize("steps", [1, 3])
@pytest.mark.parametrize("l1", ["prox", "subgradient"])
def test_scaffold_mean_control_variate(problem, steps, l1):
    """c = mean c_k whatever the local steps, the penalties and the threshold."""

    def check(algorithm, problem, r):
        equal(r.new.c, r.new.c_k.mean(axis=1))
        untouched(r.old.c_k, r.new.c_k, r.mask)

    for option in ("gradient", "difference"):
        algorithm = algorithms.FedElasticNetScaffold(0.1, 0.5, option, epsilon=0.01)
        watch(problem, algorithm, check, GradientSteps(steps, LR, l1=l1))


class ZeroControlVariates(algorithms.Scaffold):
    """The control variates are computed and never kept: c = mean c_k = 0 holds all the same."""

    def round(self, state, clients):
        return super().round(state, clients)._replace(c_k=0 * state.c_k, c=0 * state.c)


class WeightsAsControlVariates(algorithms.Scaffold):
    """The clients' control variates are initialised with the model's weights."""

    def init(self, x, num_clients):
        state = super().init(x, num_clients)
        return state._replace(c_k=state.c_k + x[:, None])


class CohortMeanOfControlVariates(algorithms.Scaffold):
    """c moves by the cohort's mean, without |S|/N."""

    def round(self, state, clients):
        new = super().round(state, clients)
        return new._replace(c=state.c + (new.c - state.c) * clients.num_clients / clients.size)


class ForgottenServerControl(algorithms.Scaffold):
    """Option II without '- c'."""

    def round(self, state, clients):
        new = super().round(state, clients)
        c_plus = clients.take(new.c_k) + clients.broadcast(state.c)
        c_k = clients.put(new.c_k, c_plus)
        return new._replace(c_k=c_k, c=c_k.mean(axis=1))


SCAFFOLD_MUTANTS = [
    ZeroControlVariates, WeightsAsControlVariates, CohortMeanOfControlVariates, ForgottenServerControl
]


@pytest.mark.parametrize("mutant", SCAFFOLD_MUTANTS)
def test_scaffold_mutants_are_rejected(problem, mutant):
    with pytest.raises(AssertionError):
        watch(problem, mutant(), check_scaffold, GradientSteps(1, LR))


def test_scaffold_with_the_wrong_sign_is_rejected(problem, monkeypatch):
    monkeypatch.setattr(
        "fedtheory.algorithms.scaffold.LocalObjective", lambda center, linear: LocalObjective(center, -linear)
    )
    with pytest.raises(AssertionError):
        watch(problem, algorithms.Scaffold("gradient"), check_scaffold, GradientSteps(1, LR))


# --- where the methods end ------------------------------------------------------------------------
ROUNDS_TO_REST = 500


def ends_at_the_optimum(problem, algorithm, solver=None):
    """With heterogeneous clients, several local steps and partial participation."""
    run = simulate(
        problem, algorithm, ROUNDS_TO_REST, sampling=Uniform(2), scenarios=SCENARIOS, local_solver=solver or Exact()
    )
    h = problem.hessians.mean(axis=0)
    x_star = np.linalg.solve(h, np.einsum("kij,kj->i", problem.hessians, problem.minimisers) / problem.num_clients)
    equal(run.x, np.broadcast_to(x_star, run.x.shape), 1e-8)


@pytest.mark.parametrize(
    ("algorithm", "solver"),
    [
        (algorithms.Scaffold("difference"), GradientSteps(4, 0.1)),
        (algorithms.Scaffold("gradient"), GradientSteps(4, 0.1)),
        (algorithms.FedDyn(5.0), None),
        (algorithms.FedElasticNetDyn(0.0, 5.0), None),
        (algorithms.FedElasticNetDyn(0.05, 5.0, "true-gradient"), None),
    ],
)
def test_corrected_methods_end_at_the_optimum(problem, algorithm, solver):
    ends_at_the_optimum(problem, algorithm, solver)


@pytest.mark.parametrize(
    ("algorithm", "solver"),
    [
        (algorithms.FedAvg(), GradientSteps(4, 0.1)),
        (algorithms.FedProx(1.0), None),
        (ZeroControlVariates(), GradientSteps(4, 0.1)),
        (FedDynLosesItsMemory(5.0), None),
        (algorithms.FedElasticNetDyn(0.05, 5.0, "sign"), None),
    ],
)
def test_uncorrected_methods_and_mutants_do_not(problem, algorithm, solver):
    """FedAvg and FedProx drift and the printed sign rule stalls: the check above sees all of it."""
    with pytest.raises(AssertionError):
        ends_at_the_optimum(problem, algorithm, solver)
