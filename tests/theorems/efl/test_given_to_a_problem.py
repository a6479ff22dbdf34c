"""EFL's statements on a problem of a user's: what is given must be what it is said to be, and rounding decides nothing."""

from __future__ import annotations

import numpy as np
import pytest
from efl_on_a_problem import DIAGONAL, LAW, LOGISTIC, TWO, checks_of

from fedtheory import messages, problems
from fedtheory.algorithms import EFL
from fedtheory.local import GradientSteps, LocalSGD
from fedtheory.participation.cohorts import Uniform
from fedtheory.participation.irregular import Irregular, complete, inactive, windows
from fedtheory.theorems import get


# --- Theorem 1: what is given ---------------------------------------------------------------------
def test_a_given_bound_of_gradients_is_used_where_it_is_one():
    own = checks_of("theorem-1", TWO, x0=[3.0])["repaired"]
    wider = checks_of("theorem-1", TWO, x0=[3.0], given={"G": 10})["repaired"]
    assert wider.verdict == "holds" and wider.where["constants"]["G_sq"] == 100 > own.where["constants"]["G_sq"]
    small = checks_of("theorem-1", TWO, x0=[3.0], given={"G": 1})["repaired"]
    assert small.verdict == "not applicable" and "E||g||^2 is 9.0, the limit is G^2 = 1" in small.reason
    curved = checks_of("theorem-1", TWO, x0=[3.0], given={"L": 2, "mu": 0.5})["repaired"]
    assert curved.verdict == "holds" and curved.where["constants"]["gamma"] > own.where["constants"]["gamma"]
    assert "below a client's smoothness 1.0" in checks_of("theorem-1", TWO, given={"L": 0.5})["repaired"].reason


def test_a_given_bound_on_a_real_run_is_looked_at():
    how = {"sampling": LAW, "rounds": 5, "scenarios": 20}
    assert checks_of("theorem-1", LOGISTIC, given={"G": 5}, **how)["repaired"].verdict == "holds"
    refused = checks_of("theorem-1", LOGISTIC, given={"G": 1e-3}, **how)["repaired"]
    assert refused.verdict == "not applicable" and "is no bound (Assumption 4)" in refused.reason


def test_frozen_anchors_can_be_given():
    """f = (w - c)^2/2, u = 1 each, lambda = 1/2: F~_k = f_k + (w^2 - 2 V w)/2 with V = 6, so that w~* = (1/2 + 3)/2."""
    how = {"x0": [1.0], "given": {"u_0": [[1.0], [1.0]], "v_0": [[2.0], [4.0]]}}
    checks = checks_of("theorem-1", TWO, EFL(lam=0.5), **how)
    assert checks["frozen anchors"].verdict == "holds" and "frozen anchors" in checks["repaired"].reason
    constants = checks["frozen anchors"].where["constants"]
    assert (constants["L"], constants["mu"], constants["start_sq"]) == (2, 2, pytest.approx((1 - 7 / 4) ** 2))
    assert "give u_0 and v_0" in checks_of("theorem-1", TWO, EFL(lam=0.5))["frozen anchors"].reason
    assert "without u_0" in checks_of("theorem-1", TWO, EFL(lam=0.5), given={"v_0": [[0.0], [0.0]]})["repaired"].reason


# --- what is asked of a problem, a law and a solver, and what rounding alone decides --------------
SAME = problems.Quadratic(
    [[[2.0, 1.0], [1.0, 2.0]], [[3.0, -1.0], [-1.0, 2.0]], [[1.0, 0.5], [0.5, 4.0]]], [[0.3, -0.7]] * 3, [0.2, 0.3, 0.5]
)
THREE_IDLE = Irregular(1, [[0.0, 1.0], [0.3, 0.7], [0.5, 0.5]])
ONES = {"u_0": np.ones((3, 2))}


@pytest.mark.parametrize(
    ("statement", "how"),
    [
        ("elastic-fixed-point", {"given": {**ONES, "client": 0}}),
        ("stale-anchor", {"given": {**ONES, "client": 0}}),
        ("learning-rate-after-shift", {}),
    ],
)
@pytest.mark.parametrize(
    ("sampling", "missing"),
    [
        (THREE_IDLE, "client 1 is inactive with probability 0.3 in round 1, the limit is 0"),
        (Uniform(2), "client 0 is inactive with probability 0.333333 in round 1, the limit is 0"),
        (complete(3, 5), "E = 5: the statement is about one local step a round, the limit is 1"),
        (windows(complete(3, 1), {2: (3, None), 1: (2, None)}), "is not there in round 1"),
    ],
)
def test_statements_about_all_clients_active_ask_for_them_whoever_leaves(statement, how, sampling, missing):
    algorithm = EFL() if statement == "learning-rate-after-shift" else EFL(lam=0.1)
    for check in get(f"efl/{statement}").verify(DIAGONAL, algorithm, sampling=sampling, **how):
        assert check.verdict == "not applicable" and missing in check.reason, check


def test_a_client_that_leaves_or_joins_for_good_may_do_so():
    leaves, joins = (windows(complete(3, 1), {1: window}) for window in ((None, 5), (5, None)))
    for sampling in (leaves, joins):
        assert checks_of("learning-rate-after-shift", DIAGONAL, sampling=sampling)["repaired"].verdict == "holds"
    assert checks_of("stale-anchor", DIAGONAL, EFL(lam=0.1), sampling=leaves)["repaired"].verdict == "holds"
    for statement in ("stale-anchor", "elastic-fixed-point"):
        assert {c.verdict for c in checks_of(statement, DIAGONAL, EFL(lam=0.1), sampling=joins).values()} == {"not applicable"}


@pytest.mark.parametrize(
    ("statement", "law"),
    [
        ("theorem-1", LAW), ("scheme-limit", LAW), ("inactive-rate", inactive(3, 2, [0, 0, 0.5])),
        ("corollary-1-epochs", complete(3, 2)), ("corollary-1-own-optimum", inactive(3, 2, [0, 0, 0.5])),
        ("incomplete-rate", Irregular(2, [[0, 0.5, 0.5]] * 3)),
    ],
)  # fmt: skip
def test_a_law_and_a_solver_with_other_numbers_of_steps_are_refused(statement, law):
    for check in checks_of(statement, DIAGONAL, sampling=law, local_solver=LocalSGD(7, 0.1)).values():
        assert check.verdict == "not applicable" and "E = 2 local steps, but the local solver makes steps = 7" in check.reason


@pytest.mark.parametrize(
    ("solver", "missing"),
    [
        (LocalSGD(2, lambda t: 0.1), "give no schedule"), (LocalSGD(2, 1.0, 1, replacement=False), "replacement=True"),
        (GradientSteps(2, 0.1), "use LocalSGD"),
    ],
)  # fmt: skip
def test_both_runs_of_corollary_1_are_theorem_1s(solver, missing):
    problem = problems.random_least_squares(3, 2, ridge=0.1, seed=0)
    for check in checks_of("corollary-1-own-optimum", problem, sampling=inactive(3, 2, [0, 0, 0.5]), local_solver=solver).values():
        assert check.verdict == "not applicable" and missing in check.reason


def test_where_all_is_rounding_nothing_is_called_a_violation():
    """Equal minimisers, a start at the optimum, coordinates whose parts cancel: both sides are 0 but for rounding."""
    half = EFL(compressor=messages.ST(0.5), down_compressor=messages.ST(0.5))
    for seed in range(6):
        rng = np.random.default_rng(seed)
        star, weights = rng.normal(size=3), np.array([0.2, 0.3, 0.5])
        rows = [rng.normal(size=(6, 3)) for _ in weights]
        alike = problems.LeastSquares(rows, [a @ star for a in rows], 0.0, weights)
        at = checks_of("compression-bias", alike, half, x0=star, local_solver=LocalSGD(1, 0.3 / alike.beta_k.max()))
        assert at["repaired"].verdict == "holds"
        c = rng.normal(size=(3, 3))
        c[2] = -(weights[0] * c[0] + weights[1] * c[1]) / weights[2]
        cancels = problems.Quadratic([np.eye(3)] * 3, c, weights)
        assert checks_of("residual-invariant", cancels, half, rounds=1)["repaired"].verdict == "holds"
        mixed = [a.T @ a + 1e-3 * np.eye(3) for a in rows]
        c[2] = -np.linalg.solve(weights[2] * mixed[2], weights[0] * mixed[0] @ c[0] + weights[1] * mixed[1] @ c[1])
        law = Irregular(2, [[0, 0.1, 0.9], [0, 0.3, 0.7], [0, 0.5, 0.5]])
        limit = checks_of("scheme-limit", problems.Quadratic(mixed, c, weights), sampling=law)
        assert limit["C without idle clients"].verdict == "holds"
    rng = np.random.default_rng(4)
    curvatures, centre = rng.uniform(0.5, 1, (3, 4)), rng.normal(size=4)
    one_alike = problems.Quadratic([np.diag(h) for h in curvatures], [centre] * 3, [0.2, 0.3, 0.5])
    u = {"u_0": rng.uniform(0, 1, (3, 4))}
    assert checks_of("elastic-limit", one_alike, EFL(lam=0.1), given=u)["repaired"].verdict == "holds"
    for statement, more in (("elastic-fixed-point", {}), ("stale-anchor", {"client": 1})):
        for check in checks_of(statement, SAME, EFL(lam=0.1), given={**ONES, **more}).values():
            assert check.verdict in ("holds", "not applicable"), check


def test_optima_that_rounding_alone_tells_apart_are_not_said_to_differ():
    check = checks_of("departure-no-convergence", SAME)["the optimum moves"]
    assert check.verdict == "not applicable" and "told apart" in check.reason
    assert checks_of("departure-no-convergence", TWO)["the optimum moves"].verdict == "holds"


@pytest.mark.parametrize(
    ("statement", "given", "missing"),
    [
        ("theorem-1", {"G": -1e3}, "G is -1000.0"), ("theorem-1", {"G": "x"}, "G is 'x'"),
        ("theorem-1", {"sigma_sq": -1.0}, "sigma_sq = -1.0"), ("theorem-1", {"L": "x"}, "L is 'x'"),
        ("table-1-mime", {"G": 1e-9}, "G = 1e-09 is no bound"),
        ("theorem-1", {"u_0": "a", "v_0": np.ones((3, 2))}, "u_0"),
        ("theorem-1", {"u_0": np.full((3, 2), np.inf), "v_0": np.ones((3, 2))}, "inf"),
    ],
)  # fmt: skip
def test_what_is_given_must_be_what_it_is_said_to_be(statement, given, missing):
    for check in checks_of(statement, DIAGONAL, given=given, rounds=3).values():
        assert check.verdict == "not applicable" and missing in check.reason, check


def test_a_given_noise_must_bound_the_noise_and_is_then_used():
    """Quadratics with additive noise of norm 2, so that sigma_k^2 = 4."""
    how = {"local_solver": LocalSGD(1, 1.0, noise_std=2.0), "rounds": 3}
    low = checks_of("theorem-1", DIAGONAL, given={"sigma_sq": 3.9}, **how)["repaired"]
    assert low.verdict == "not applicable" and "sigma_sq = 3.9 of client 0 is no bound (Assumption 3)" in low.reason
    own, larger = (checks_of("theorem-1", DIAGONAL, given=g, **how)["repaired"] for g in ({}, {"sigma_sq": 40.0}))
    assert own.verdict == larger.verdict == "holds" and larger.rhs > own.rhs


@pytest.mark.parametrize(
    ("given", "missing"),
    [({"u_0": -np.ones((3, 2))}, "u_0 goes down to -1"), ({**ONES, "client": 1, "anchor": [1.0]}, "anchor (1,)")],
)
def test_diagonals_and_anchors_are_looked_at_where_coordinates_mix(given, missing):
    for check in checks_of("stale-anchor", SAME, EFL(lam=0.1), given={"client": 1, **given}).values():
        assert check.verdict == "not applicable" and missing in check.reason
