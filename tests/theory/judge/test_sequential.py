"""Monte Carlo that stops when it has decided: its looks, what each may err, and how often a verdict is wrong."""

from __future__ import annotations

import math

import numpy as np
import pytest
from cases import each
from scipy import stats
from statements_at_hand import sentence

from fedtheory.problems.generators import random_quadratic
from fedtheory.theory import Quadratics, Uniform, le, printed, verify
from fedtheory.theory.judge.check import CONFIDENCE, Check, judge_statistical
from fedtheory.theory.judge.sequential import FIRST, LEAST_ERROR, fewest, in_looks, looks
from fedtheory.theory.judge.statement import Sides


def test_looks_double_up_to_what_is_asked_for():
    assert [n for n, _ in looks(1000, 0.999)] == [32, 63, 125, 250, 500, 1000]
    assert [n for n, _ in looks(400, 0.999)] == [50, 100, 200, 400]
    assert [n for n, _ in looks(400, 0.999, least=150)] == [200, 400]
    for few in (1, 30, 59):
        assert looks(few, 0.999) == [(few, pytest.approx(0.999, abs=1e-15))]


def test_what_the_looks_may_err_by_hand():
    (first, second, last) = looks(120, 0.9)  # 30, 60, 120 scenarios: (1/4)^3, (1/2)^3 and 1 of 99/1000, a third of 1/1000 each
    assert [n for n, _ in (first, second, last)] == [30, 60, 120]
    assert 1 - first[1] == pytest.approx(0.099 / 64 + 0.001 / 3, rel=1e-9)
    assert 1 - second[1] == pytest.approx(0.099 * (1 / 8 - 1 / 64) + 0.001 / 3, rel=1e-9)
    assert 1 - last[1] == pytest.approx(0.099 * (1 - 1 / 8) + 0.001 / 3, rel=1e-9)


def test_the_first_look_decides_what_is_clear_however_many_may_follow():
    few, many = looks(1000, CONFIDENCE)[0], looks(10**9, CONFIDENCE)[0]
    assert few[0] == 32 and many[0] == 30 and 1 - many[1] > 1e-7
    assert stats.t.isf((1 - many[1]) / 50, df=29) < 9  # standard errors, of 30: less than two standard deviations


@each("confidence", [0.5, 0.95, CONFIDENCE, 1 - 1e-9])
@each("scenarios", [2, 77, 1000, 10**6])
def test_all_of_the_error_is_spent_and_no_look_is_told_from_certainty_by_rounding(scenarios, confidence):
    errors = [1 - c for _, c in looks(scenarios, confidence)]
    assert sum(errors) == pytest.approx(1 - confidence, rel=1e-3)
    assert min(errors) >= 0.99 * LEAST_ERROR


@pytest.mark.parametrize(("alpha", "most"), [(1.05e-9, 10), (0.95e-9, 9)])
def test_no_look_could_only_err_by_less_than_a_trillionth(alpha, most):
    """Of K looks each has alpha/(100 K) at least, of which 1e-12 is left at K = 10 for 1e-9."""
    assert len(looks(10**6, 1 - alpha)) == most


def test_the_first_look_waits_until_every_client_took_part():
    assert fewest(1.0, 1) == FIRST and fewest(0.5, 50) == FIRST
    assert fewest(0.01, 1) == 1000 and fewest(0.1, 1) == 100
    assert fewest(0.01, 10) == math.ceil(10 / (1 - 0.99**10))
    assert fewest(0.0, 5) == FIRST


# --- how often a verdict is wrong -----------------------------------------------------------------
DRAWS = {  # mean 0; what a bound is above or below of
    "normal": lambda rng, shape: rng.standard_normal(shape),
    "exponential": lambda rng, shape: 1 - rng.exponential(size=shape),
    "other tail": lambda rng, shape: rng.exponential(size=shape) - 1,
    "uniform": lambda rng, shape: rng.random(shape) - 0.5,
}


def shares_of_wrong(draw, paid, confidence, runs, rows=3, scenarios=480):
    """Shares of runs in which some look says 'holds' or 'violated' of slacks of mean 0, both being wrong where the mean is a little
    to the other side. The rows are running means, as the horizons of a run are."""
    rng = np.random.default_rng(1)
    slack = np.cumsum(draw(rng, (runs, rows, scenarios)), axis=1)
    holds, violated = np.zeros(runs, dtype=bool), np.zeros(runs, dtype=bool)
    for n, level in looks(scenarios, confidence):
        z = stats.t.isf((1 - (level if paid else confidence)) / rows, df=n - 1)
        part = slack[:, :, :n]
        mean, error = part.mean(axis=2), part.std(axis=2, ddof=1) / np.sqrt(n)
        open_ = ~(holds | violated)
        violated |= open_ & (mean + z * error < 0).any(axis=1)
        holds |= open_ & (mean - z * error >= 0).any(axis=1)  # one entry alone: of correlated ones all together are rarer
    return holds.mean(), violated.mean()


def test_the_simulation_judges_as_the_check_does():
    rng = np.random.default_rng(0)
    for shift, verdict in ((1.0, "holds"), (-1.0, "violated"), (0.0, "inconclusive")):
        slack = rng.standard_normal((3, 60)) + shift
        sides = Sides(0 * slack, slack, np.ones_like(slack), "<=")
        check = judge_statistical(sides, 0.99, statement="s", form="f", rule="r", mode="statistical")
        half = stats.t.isf(0.01 / 3, df=59) * slack.std(axis=1, ddof=1) / np.sqrt(60)
        mean = slack.mean(axis=1)
        again = "violated" if (mean + half < 0).any() else "holds" if (mean - half >= 0).all() else "inconclusive"
        assert check.verdict == again == verdict


@pytest.mark.parametrize("law", DRAWS)
@pytest.mark.parametrize("confidence", [0.9, 0.98])
def test_a_verdict_is_wrong_as_rarely_as_stated_however_often_one_looks(law, confidence):
    runs, alpha = 3000, 1 - confidence
    allowed = alpha + 3 * math.sqrt(alpha * confidence / runs)
    skewed = law in ("exponential", "other tail")  # Student's t takes means for normal: of 480 draws that costs a half of alpha
    holds, violated = shares_of_wrong(DRAWS[law], True, confidence, runs)
    assert max(holds, violated) <= (1.5 if skewed else 1.0) * allowed


def test_looks_that_are_not_paid_for_are_wrong_more_often():
    runs, alpha = 3000, 0.1
    holds, violated = shares_of_wrong(DRAWS["normal"], False, 0.9, runs, rows=1)
    assert min(holds, violated) > alpha + 3 * math.sqrt(alpha * 0.9 / runs)


def test_a_rare_event_that_no_scenario_met_is_missed_as_the_module_says():
    """E[slack] = -1 by an event of one run in a thousand: 32 scenarios without it hold for sure."""
    slack = np.full((1, 32), 1.0) + 1e-3 * np.random.default_rng(0).standard_normal((1, 32))
    sides = Sides(0 * slack, slack, np.ones_like(slack), "<=")
    first = looks(1000, CONFIDENCE)[0][1]
    assert judge_statistical(sides, first, statement="s", form="f", rule="r", mode="statistical").verdict == "holds"


# --- the loop -------------------------------------------------------------------------------------
def check(verdict, mode="statistical", **more):
    return Check("s", "f", "r", verdict, mode, **{"confidence": 0.5, "scenarios": 1, **more})


def test_only_open_statistical_checks_are_looked_at_again():
    asked, told = [], []
    at = {"clear": 30, "late": 120, "never": 10**9}

    def judge(names, n, confidence):
        asked.append((list(names), n))
        made = {
            "exact": check("inconclusive", "exact", scenarios=None, confidence=None),
            "diverged": check("inconclusive", scenarios=None),
            **{k: check("holds" if n >= least else "inconclusive", scenarios=n) for k, least in at.items()},
        }
        return [made[name] for name in names]

    names = ["exact", "diverged", "clear", "late", "never"]
    found = in_looks(judge, names, 240, 0.99, after=lambda checks: told.append([c.verdict for c in checks]))
    assert asked == [(names, 30), (["late", "never"], 60), (["late", "never"], 120), (["never"], 240)]
    assert [c.scenarios for c in found] == [None, None, 30, 120, 240]
    assert [c.confidence for c in found] == [None, 0.99, 0.99, 0.99, 0.99]
    assert told[-1] == ["inconclusive", "inconclusive", "holds", "holds", "inconclusive"] and len(told) == 4


@pytest.mark.parametrize(("factor", "verdict", "most"), [(20, "holds", 100), (1, "violated", 200)])
def test_a_statement_of_ones_own_takes_no_more_scenarios_than_decide(factor, verdict, most):
    """E F(x_T) <= factor F(x_0) of FedAvg with two of twelve clients: 400 scenarios at most, and fewer where it is clear."""

    def ends(q):
        yield printed(le(q.gap[-1], factor * q.gap[0]), r"\mathbb E F(x_T) - F^* \le c (F(x_0) - F^*)")

    statement = sentence(ends, over="run", sampling=Uniform(2), rounds=(4, 4), problems=Quadratics((2, 12), (1, 2)))
    problem = random_quadratic(12, 2, seed=1)
    how = {"sampling": Uniform(2), "rounds": 4, "seed": 3, "x0": problem.optimum().x + 0.2}
    (found,) = verify(statement, problem, **how)
    assert (found.verdict, found.mode, found.confidence) == (verdict, "statistical", CONFIDENCE)
    assert found.scenarios in (50, 100, 200, 400) and found.scenarios <= most
    (few,) = verify(statement, problem, **how, scenarios=50)
    assert few.rhs == pytest.approx(found.rhs, rel=1e-12) and few.scenarios == 50  # every look is at a run from the same start
