"""Expectations over cohorts, states of runs and fixed points, each against a second way to the same numbers."""

import itertools
from dataclasses import replace
from fractions import Fraction as F

import numpy as np
import pytest
from algorithm_3 import round_view

from fedtheory.algorithms import Compressed, FedElasticNetDyn
from fedtheory.errors import InvalidInput
from fedtheory.messages.compressors import TopK
from fedtheory.participation.cohorts import Full, Uniform
from fedtheory.problems import LeastSquares, Logistic, Quadratic
from fedtheory.simulation.simulate import simulate
from fedtheory.theorems import get
from fedtheory.theorems.fedelasticnet.dynamics.motions import FederatedLosses
from fedtheory.theorems.fedelasticnet.paper import FILE
from fedtheory.theorems.fedelasticnet.statements.theorem_3_1 import Letters
from fedtheory.theory.rounds.method_setting import MethodSetting
from fedtheory.theory.rounds.run_matches_claim import as_said
from paper_figures.fedelasticnet.runs import runs
from tests.theorems.fedelasticnet.runs import START, SUMS, in_fractions, letters, tree

RULES = ("sign", "true-gradient")
H, C = [[0.5, 2.0], [1.25, 0.75], [3.0, 0.25]], [[1.0, -2.0], [0.5, 4.0], [-3.0, 1.5]]
PROBLEM = Quadratic([np.diag(row) for row in H], C)


# --- runs -----------------------------------------------------------------------------------------
@pytest.mark.parametrize("rule", RULES)
def test_a_run_of_several_starts_is_the_one_in_fractions(rule):
    """Three clients, two a round, four equally likely starts: 4 * 3 * 3 paths."""
    x0 = np.array([[2.0, -1.0], [0.25, 3.0], [-4.0, 0.5], [1.5, 1.5]])
    exact = letters(in_fractions(*(np.vectorize(F)(v) for v in (H, C)), "3/4", "165/2", 2, rule, np.vectorize(F)(x0), 2))
    view = tree(PROBLEM, FedElasticNetDyn(0.75, 82.5, rule), Uniform(2), 2, x0)
    run = letters(view)
    for name in ("excess", "zeros", *SUMS):
        assert getattr(run, name).shape == (2,)
        np.testing.assert_allclose(getattr(run, name), getattr(exact, name).astype(float), rtol=1e-9, err_msg=name)
    for name in START:
        assert getattr(run, name) == pytest.approx(float(getattr(exact, name)), rel=1e-12), name
    assert (view.d, view.rule, view.exact, view.horizons.tolist()) == (2, rule, True, [1, 2])
    assert (run.constants.m, run.constants.P, run.constants.beta) == (3, 2, 3.0)


@pytest.mark.parametrize("rule", RULES)
def test_scenarios_of_full_participation_are_the_run(rule):
    """Whoever is drawn is everyone: every scenario has the expectations themselves, of products too."""
    x0, method = np.array([2.0, -1.0]), FedElasticNetDyn(0.75, 6.0, rule)
    whole = letters(tree(PROBLEM, method, Full(), 4, x0))
    [view] = runs(PROBLEM, method, Uniform(3), 4, x0, 5, 0, "monte-carlo")
    some = letters(view)
    assert view.sampled and not view.exact and view.horizons.tolist() == [1, 2, 3, 4]
    for name in ("excess", "zeros", *SUMS):
        assert getattr(some, name).shape == (4, 5)
        expected = np.repeat(getattr(whole, name)[:, None], 5, axis=1)
        np.testing.assert_allclose(getattr(some, name), expected, rtol=1e-9, err_msg=name)
    for name in START:
        assert getattr(some, name) == pytest.approx(getattr(whole, name), rel=1e-12)


@pytest.mark.parametrize("rule", RULES)
def test_scenarios_of_a_few_clients_are_means_over_who_was_drawn(rule):
    """Two of three clients a round, written out: who was drawn keeps another model or gradient."""
    l1, l2, x0, curvature, centre = 0.25, 6.0, np.array([2.0, -1.0]), np.array(H), np.array(C)
    method, best = FedElasticNetDyn(l1, l2, rule), PROBLEM.optimum()

    def minimiser(k, anchor, stored):
        v = stored - curvature[k] * (anchor - centre[k])
        return anchor + np.sign(v) * np.maximum(np.abs(v) - l1, 0) / (curvature[k] + l2)

    [drawn_view] = runs(PROBLEM, method, Uniform(2), 5, x0, 8, 11, "monte-carlo")
    view = letters(drawn_view)
    run = simulate(PROBLEM, method, 5, x0, Uniform(2), 8, 11, keep_states=True)
    for s in range(8):
        sums, gammas = np.zeros(4), []
        for old, new in itertools.pairwise(run.states):
            theta, stored, local = old.x[s], old.stored[s], old.local[s]
            drawn = [k for k in range(3) if (new.stored[s, k] != stored[k]).any() or (new.local[s, k] != local[k]).any()]
            gammas.append(theta + old.h[s] / l2)
            assert len(drawn) == 2
            for k in drawn:
                move = minimiser(k, theta, stored[k]) - theta
                left = stored[k] - curvature[k] * (theta + move - centre[k])
                own = minimiser(k, local[k], stored[k]) - theta
                exact = np.where(move == 0, left, l1 * np.sign(move))
                parts = exact, l1 * np.sign(move), l1 * np.sign(own)
                sums += [*((gammas[-1] - best.x) @ part / 2 for part in parts), (move == 0).sum() / 10]
        expected = [PROBLEM.objective(np.mean(gammas, axis=0)) - best.value, *sums]
        names = ("excess", "inner_exact", "inner_sign", "inner_own_sign", "zeros")
        np.testing.assert_allclose([getattr(view, name)[-1, s] for name in names], expected, rtol=1e-8, atol=1e-12)
    state = run.states[2]
    one = round_view(PROBLEM, method, Uniform(2), state)
    assert (one.state.local[:, 0] == state.local).all() and (one.N, one.P) == (3, 2)
    setting = MethodSetting.of(FILE["theorem-3.1"].variants[rule])
    setting = as_said(setting, setting.facts(setting.world(PROBLEM), Uniform(2), 5), method, None)
    later = setting.problem_views(PROBLEM, None, Uniform(2), 8, x0, 5, 11, {}, "monte-carlo", first=5)
    np.testing.assert_allclose(later.once(Letters).excess, view.excess[:, 5:], rtol=1e-12)


def test_more_sequences_of_cohorts_than_are_enumerated_are_refused():
    problem = Quadratic([[[1.0]], [[2.0]]], [[0.0], [1.0]])
    assert tree(problem, FedElasticNetDyn(0.1, 60.0), Uniform(1), 12, [0.0]).x.shape == (13, 4096, 1)
    with pytest.raises(InvalidInput, match=r"2\^13 sequences of cohorts are too many"):
        tree(problem, FedElasticNetDyn(0.1, 60.0), Uniform(1), 13, [0.0])


def test_long_runs_are_looked_at_geometrically():
    problem = Quadratic([[[1.0]], [[2.0]]], [[0.0], [1.0]])
    for rounds, first in ((1, [1]), (4, [1, 2, 3, 4]), (300, [1, 2, 3, 4])):
        [view] = runs(problem, FedElasticNetDyn(0.1, 60.0), Uniform(1), rounds, [0.0], 2, 0, "monte-carlo")
        found = view.horizons
        assert found.dtype.kind == "i" and found[:4].tolist() == first and found[-1] == rounds and len(found) <= 25
    assert len(found) > 20


# --- losses ---------------------------------------------------------------------------------------
SAMPLES = [np.array([[1.0, 2.0], [0.5, -1.0]]), np.array([[3.0, 0.25], [-1.0, 1.0]])]
LABELS = [np.array([1.0, -1.0]), np.array([-1.0, 1.0])]


@pytest.mark.parametrize("problem", [PROBLEM, LeastSquares(SAMPLES, LABELS, ridge=0.125), Logistic(SAMPLES, LABELS, ridge=0.125)])
def test_losses_are_the_problems_and_uncertain_by_the_gap(problem, monkeypatch):
    losses, best = FederatedLosses(problem), problem.optimum()
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, 4, 2))
    np.testing.assert_allclose(losses.excess(x), problem.objective(x) - best.value, rtol=1e-9)
    size = np.abs(losses.excess(x)) + abs(best.value)
    assert (losses.noise(x) >= np.finfo(float).eps * losses.excess(x)).all() and (losses.noise(x) < 1e-12 * (1 + 10 * size)).all()
    wide = replace(best, lower_bound=best.value - 0.25)
    monkeypatch.setattr(problem, "optimum", lambda: wide)
    uncertain = FederatedLosses(problem)
    np.testing.assert_allclose(uncertain.excess(x) - losses.excess(x), 0.25, rtol=1e-9)
    np.testing.assert_allclose(uncertain.noise(x) - losses.noise(x), 0.25, rtol=1e-9)


def test_near_the_optimum_the_excess_of_quadratics_has_no_cancellation():
    """(x - theta*)' H (x - theta*)/2 to its last digits, and rounding of that size; of another loss, of the values'."""
    losses, H_bar = FederatedLosses(PROBLEM), np.diag(np.mean(H, axis=0))
    step = np.array([3e-6, -2e-6])
    found = losses.excess(losses.theta_star + step) - losses.excess(losses.theta_star)
    assert found == pytest.approx(step @ H_bar @ step / 2, rel=1e-6)
    assert losses.noise(losses.theta_star) == losses._gap
    steep = FederatedLosses(Quadratic([1024 * np.diag(row) for row in H], C))
    x = np.array([[30.0, -20.0], [4.0, 500.0]])
    for of, size in ((losses, 1), (steep, 1024)):
        rounding = (of.noise(x) - of._gap) / (size * np.finfo(float).eps)
        least = ((x - of.theta_star) ** 2).sum(axis=-1) * H_bar.max()
        assert (rounding >= 8 * least).all() and (rounding <= 100 * least).all()
    problem = Logistic(SAMPLES, LABELS, ridge=0.125)
    other = FederatedLosses(problem)
    rounding = (other.noise(x) - other._gap) / np.finfo(float).eps
    values = problem.objective(x) + problem.optimum().value
    assert (rounding >= 31 * values).all() and (rounding <= 100 * values).all()


# --- a compressor, of which the theorem says nothing ----------------------------------------------
@pytest.mark.parametrize("name", ["theorem-3.1", "eq-11"])
@pytest.mark.parametrize("mode", ["exact", "monte-carlo"])
def test_a_compressed_method_is_not_judged_by_the_theorem(name, mode):
    """A run of it was judged as if its messages were sent whole, and a round of it ended in a TypeError."""
    method = Compressed(FedElasticNetDyn(0.1, 90.0), TopK(1))
    checks = list(get(f"fedelasticnet/{name}").verify(PROBLEM, method, sampling=Uniform(1), rounds=2, mode=mode, scenarios=4))
    assert checks and {c.verdict for c in checks} == {"not applicable"}
    assert any("whose messages are sent whole, not Compressed(method=FedElasticNetDyn(" in c.reason for c in checks)
