"""Fixed points of Algorithm 1: by hand, in fractions and in floats."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction as F

import numpy as np
import pytest
import worked_fedelasticnet_identities as identities
import worked_fedelasticnet_theorems as worked

from fedtheory import problems, theorems
from fedtheory.algorithms import FedElasticNetProx
from fedtheory.participation.cohorts import Full
from fedtheory.problems.linear import LeastSquares
from fedtheory.theorems.fedelasticnet.paper import FILE
from fedtheory.theory.judge.check import judge_view
from fedtheory.theory.rounds.instances import Draw
from fedtheory.theory.rounds.method_setting import MethodSetting
from fedtheory.theory.rounds.run_matches_claim import as_said
from paper_figures.fedelasticnet.instances import ProblemInstance

STATEMENT = FILE["algorithm-1-fixed-point"]
SETTING = MethodSetting.of(STATEMENT)
# Curvatures (1, 1) and (4, 1), minimisers (5, 1/4) and (0, -1/10), six samples and two;
# lambda_1 = 1/2, lambda_2 = 3.
# In coordinate 0 both move: 3 (5 - x - 1/2)/4 = (4x - 1/2)/7 at x = 193/74, by 35/74 and -105/74.
# In coordinate 1 nobody moves from 0: the slopes there are -1/4 and 1/10.
CLIENTS = LeastSquares(
    [np.array([[1.0, 1.0], [1.0, -1.0]] * 3), np.array([[2.0, 1.0], [2.0, -1.0]])],
    [[5.25, 4.75] * 3, [-0.1, 0.1]],
)
PROX = FedElasticNetProx(0.5, 3.0)


def at_rest(problem, algorithm, start):
    """The quantities at the fixed point that is found from a start."""
    facts = SETTING.facts(SETTING.world(problem), Full(), 0)
    said = as_said(SETTING, facts, algorithm, None)
    return said.problem_views(problem, np.random.default_rng(0), x0=start, rounds=0)


@pytest.mark.parametrize("aggregation", ["printed", "samples"])
def test_a_fixed_point_of_clients_of_unequal_weights_by_hand(aggregation):
    found = at_rest(CLIENTS, replace(PROX, aggregation=aggregation), [0.0, 0.0])
    x = 193 / 74
    np.testing.assert_allclose(found.x, [[[x, 0]]], rtol=1e-12, atol=1e-12)
    moves = found.local_models - found.x[..., None, :]
    np.testing.assert_allclose(moves, [[[[35 / 74, 0], [-105 / 74, 0]]]], rtol=1e-12, atol=1e-12)
    assert found.weights.tolist() == [0.75, 0.25] and found.beta == pytest.approx(4, rel=1e-12)
    np.testing.assert_allclose(found.gradient, [[[0.75 * (x - 5) + x, -0.1625]]], rtol=1e-12)
    assert {
        judge_view(STATEMENT.statement, f, found).verdict for f in STATEMENT.statement.forms
    } == {"holds"}


def test_a_plain_mean_has_another_fixed_point():
    found = at_rest(CLIENTS, replace(PROX, aggregation="cohort"), [0.0, 0.0])
    moves = found.local_models - found.x[..., None, :]
    assert abs(moves.mean(axis=-2)).max() < 1e-14 and abs(found.x[0, 0, 0] - 193 / 74) > 0.1
    assert {
        judge_view(STATEMENT.statement, f, found).verdict for f in STATEMENT.statement.forms
    } == {"holds"}


def test_a_fixed_point_where_the_clients_are_the_same():
    """Local models must be known to the last digits, or the mean update never comes below 8 eps."""
    instance = ProblemInstance(
        "identical", clients=4, cohort=1, dim=5, ratio=27.001, l1=1e-05, seed=45
    )
    problem = instance.problem()
    lambda1, _ = instance.lambdas(problem)
    slow = FedElasticNetProx(lambda1, float(problem.beta_k.max()), aggregation="cohort")
    found = at_rest(problem, slow, instance.start(problem))
    assert abs((found.local_models - found.x[..., None, :]).mean(axis=-2)).max() < 1e-15


def test_what_is_left_of_a_move_is_in_the_noise_and_no_more():
    """Off a fixed point the identity misses by lambda_2 times the mean move, which is its noise."""
    found = at_rest(CLIENTS, PROX, [0.0, 0.0])
    sides = STATEMENT.on(found)["repaired"].sides
    assert sides.noise.max() < 2e-12
    near = found.other()
    near._kept, near._solved = {}, {}
    near.path = found.path._replace(
        states=[s._replace(x=s.x + np.array([0.25, 0])) for s in found.path.states]
    )
    off = STATEMENT.on(near)["repaired"].sides
    left = abs(((near.local_models - near.x[..., None, :]) * [[0.75], [0.25]]).sum(axis=-2)).max()
    assert off.lhs.max() == pytest.approx(3 * left, rel=1e-9) and left > 0.05
    assert off.noise.max() == pytest.approx(7 * left, rel=1e-9)
    [wrong] = STATEMENT.statement.forms[0].mutants
    assert (
        judge_view(
            STATEMENT.statement, STATEMENT.statement.forms[0], found, sides=wrong.sides
        ).verdict
        == "violated"
    )


def test_the_worked_reference_off_a_fixed_point():
    """At (0, -4), where sum_k w_k delta_k is not 0: the equation misses by lambda_2 times that."""
    p = identities.Proximal([F(0), F(-4)])
    curvatures = np.array(worked.H, dtype=object)
    slopes = np.array([worked.gradient(k, [F(0), F(0)]) for k in range(worked.M)], dtype=object)
    zero = 0 * curvatures
    none = np.full(curvatures.shape, None)
    weights = np.array(identities.WEIGHTS, dtype=object)
    start = np.array([F(0), F(-4)], dtype=object)
    drawn = {"method.l1": worked.LAMBDA_1, "method.l2": worked.LAMBDA_2 / worked.BETA}
    instance = Draw(curvatures, -slopes / curvatures, zero, zero, none, weights, start, drawn=drawn)
    samples = replace(
        STATEMENT.about,
        hyperparameters={**STATEMENT.about.hyperparameters, "aggregation": "samples"},
    )
    here = replace(SETTING, method=samples, of_statement=replace(STATEMENT, over="round"))
    sides = STATEMENT.on(here.view(instance))["repaired"].sides
    assert (
        (sides.lhs.item(), sides.rhs.item())
        == identities.fixed_point_equation(p)
        == (F(10580, 3751), 0)
    )
    view = here.view(instance, exact=False)
    numbers = {"distance to stationarity": 1.026367842123, "half of beta": 0.929850587728}
    for (name, right), share in zip(numbers.items(), (1.0, 0.5), strict=True):
        sides, ours = STATEMENT.on(view)[name].sides, identities.distance_to_stationarity(p, share)
        both = sides.lhs.item(), sides.rhs.item()
        assert both == pytest.approx(ours, rel=1e-12) and both == pytest.approx(
            (3.97998464542, right), rel=1e-12
        )


def test_the_optimum_may_be_one_though_the_clients_disagree():
    problem = problems.Quadratic([[[1.0]], [[1.0]]], [[-1.0], [1.0]])
    found = at_rest(problem, FedElasticNetProx(l1=0.1, l2=1.0, aggregation="cohort"), [0.4])
    assert abs(found.x[0, 0, 0]) < 1e-12
    np.testing.assert_allclose(abs(found.local_models), 0.45, rtol=1e-12)


def test_another_point_may_be_one_though_the_clients_agree():
    problem = problems.Quadratic([[[1.0]], [[1.0]]], [[0.0], [0.0]])
    found = at_rest(problem, FedElasticNetProx(l1=1.0, l2=1.0, aggregation="cohort"), [0.5])
    assert (
        found.x[0, 0, 0] == 0.5
        and (found.local_models == 0.5).all()
        and (found.gradient == 0.5).all()
    )
    statement = theorems.get("fedelasticnet/algorithm-1-fixed-point")
    assert "not optima" not in statement.title
    assert {judge_view(statement, f, found).verdict for f in statement.forms} == {"holds"}


@pytest.mark.parametrize(
    "statement", [s for s in FILE.authored.values() if not s.of_world], ids=lambda s: s.name
)
def test_forms_are_what_a_run_of_the_file_yields(statement):
    """A package's statements are read off without a run; sums and shapes are looked over here."""
    found = statement.looked_over()
    assert list(found) == list(statement.forms)
    for name, form in statement.forms.items():
        assert (form.latex, form.established) == (found[name].latex, found[name].established)
        assert [m.name for m in form.mutants] == [m.name for m in found[name].mutants]
