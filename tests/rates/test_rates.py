"""Slopes whose truth is known: coverage of the interval, the precision floor, the choice between exponents, rounds to epsilon."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from fedtheory import Full, problems, simulate
from fedtheory.algorithms import FedAvg
from fedtheory.errors import InvalidInput
from fedtheory.local import GradientSteps
from fedtheory.rates import crossover, fit_rate, fit_slope, join, precision_floor, prefer, rounds_to_epsilon

ROUNDS = np.arange(1, 1001)
WINDOW = (10, 1000)


@pytest.mark.parametrize("exponent", [-2.0, -1.0, -0.5])
def test_an_exact_power_law_is_found_to_rounding(exponent):
    slope = fit_rate(np.r_[9.0, 3.0 * ROUNDS**exponent], window=WINDOW, schedule="constant step 0.1")
    assert slope.slope == pytest.approx(exponent, abs=1e-12)
    assert slope.high - slope.low < 1e-6
    assert np.exp(slope.intercept) == pytest.approx(3.0)
    assert "constant step 0.1" in str(slope) and "10 to 1000" in str(slope)


def test_the_start_is_round_0():
    values = 1.0 / ROUNDS
    right = fit_rate(values, window=(1, 100), first_round=1)
    assert right.slope == pytest.approx(-1, abs=1e-12)
    assert abs(fit_rate(values, window=(1, 100)).slope + 1) > 0.02  # shifted by one round: another curve


def coverage(make, runs, **options):
    """Share of intervals that hold the true exponent -1."""
    inside = 0
    for run in range(runs):
        slope = fit_slope(ROUNDS, make(np.random.default_rng(run)), window=WINDOW, **options)
        inside += slope.low <= -1 <= slope.high
    return inside / runs


def test_coverage_of_one_noisy_curve():
    def noisy(rng):
        return np.exp(0.3 * rng.normal(size=len(ROUNDS))) / ROUNDS

    few = {"max_points": 5}  # three degrees of freedom: the normal law would cover about 0.85
    for options in ({}, few):
        assert 0.91 <= coverage(noisy, 400, **options) <= 0.985  # 0.95 +- 3.6 standard errors


def test_coverage_when_every_seed_has_an_exponent_of_its_own():
    """Straight lines, so that residuals see nothing: only the bootstrap over seeds knows."""

    def make(rng):
        return np.exp(0.05 * rng.normal(size=8) * np.log(ROUNDS / 100)[:, None]) / ROUNDS[:, None]

    assert 0.87 <= coverage(make, 150) <= 1.0
    one = fit_slope(ROUNDS, make(np.random.default_rng(0))[:, 0], window=WINDOW)
    assert one.high - one.low < 1e-6  # what a single seed claims about itself


def test_dense_points_do_not_sharpen_the_interval():
    """A smooth curve that is no power law: 1000 points are not 1000 pieces of evidence."""
    curve = (1 + 3 / np.sqrt(ROUNDS)) / ROUNDS
    slope = fit_slope(ROUNDS, curve, window=WINDOW)
    assert slope.points <= 12
    wide = fit_slope(ROUNDS, curve, window=WINDOW, max_points=1000)
    assert (wide.high - wide.low) < 0.3 * (slope.high - slope.low)


def test_points_at_the_precision_floor_are_left_out_and_said_so():
    floor = 1e-4
    measured = 1.0 / ROUNDS**2 + floor  # the certified value is too low by exactly its gap
    optimum = SimpleNamespace(value=1.0 + floor, lower_bound=1.0)
    assert precision_floor(optimum) == pytest.approx(floor, rel=1e-9)
    values = np.r_[1.0, measured]
    cut, plain = fit_rate(values, window=(3, 1000), optimum=optimum), fit_rate(values, window=(3, 1000))
    assert abs(cut.slope + 2) < 0.15 < abs(plain.slope + 2)
    assert "precision floor" in str(cut) and "precision floor" not in str(plain)
    assert cut.x.max() <= 34  # 1/t^2 + f <= 10 f from t = 34 on


def test_negative_gaps_are_left_out_and_said_so():
    values = 1.0 / ROUNDS - 0.004
    slope = fit_rate(np.r_[1.0, values], window=(10, 1000))
    assert "751 with a value of 0 or less, which has no logarithm" in str(slope)  # rounds 250 to 1000


def test_too_few_points_say_what_to_do():
    optimum = SimpleNamespace(value=1.0, lower_bound=0.9)
    with pytest.raises(InvalidInput, match=r"1 usable points.*precision floor 0\.1.*certify the optimum"):
        fit_rate(np.r_[9.0, 2 / ROUNDS], window=(1, 1000), optimum=optimum)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"window": (0, 10)}, "window"),
        ({"window": (10, 10)}, "window"),
        ({"confidence": 1.0}, "confidence"),
        ({"floor": -1.0}, "floor"),
        ({"max_points": 3}, "max_points"),
        ({"y": np.full(1000, np.nan)}, "nan: a run that diverged"),
        ({"y": np.ones(999)}, "shape"),
        ({"y": np.ones((1000, 0))}, "no seeds"),
    ],
)
def test_bad_input(change, message):
    arguments = {"x": ROUNDS, "y": 1.0 / ROUNDS, "window": WINDOW, **change}
    with pytest.raises(InvalidInput, match=message):
        fit_slope(**arguments)


def test_the_claimed_exponent_is_preferred_to_the_wrong_one_and_the_other_way_round():
    rng = np.random.default_rng(0)
    noise = np.exp(0.3 * rng.normal(size=len(ROUNDS)))
    slope = fit_slope(ROUNDS, noise / ROUNDS, window=WINDOW)
    assert prefer(slope, -1, -2).verdict == "claimed"
    assert prefer(slope, -2, -1).verdict == "other"  # a wrong claim loses
    assert prefer(slope, -1, -2).p_other < 1e-4 < prefer(slope, -1, -2).p_claimed
    assert "exponent -2" in str(prefer(slope, -1, -2))
    few = fit_slope(ROUNDS, np.exp(3 * rng.normal(size=len(ROUNDS))) / ROUNDS, window=WINDOW, max_points=4)
    assert prefer(few, -1, -1.2).verdict == "undecided"
    with pytest.raises(InvalidInput, match="nothing to choose"):
        prefer(slope, -1, -1)


def test_the_wrong_exponent_is_rejected_no_more_often_than_the_level():
    """The truth as "other": it may be rejected in a share `level` of the cases."""
    rejected = 0
    for run in range(300):
        rng = np.random.default_rng(run)
        slope = fit_slope(ROUNDS, np.exp(0.3 * rng.normal(size=len(ROUNDS))) / ROUNDS, window=WINDOW)
        rejected += prefer(slope, -1.001, -1).p_other <= 0.05
    assert 2 <= rejected <= 27  # 15 +- 3.2 standard errors


# --- rounds to epsilon ----------------------------------------------------------------------------
def test_first_at_and_first_from_by_hand():
    gaps = [5.0, 0.9, 2.0, 0.5, 0.05, 0.2, 0.01, 0.02]
    found = rounds_to_epsilon(gaps, [1.0, 0.1, 0.015, 1e-3, 10.0])
    assert found.first_at.tolist() == [1, 4, 6, np.inf, 0]
    assert found.first_from.tolist() == [3, 6, np.inf, np.inf, 0]
    best = rounds_to_epsilon(gaps, [1.0, 0.1, 0.015], iterate="best")
    assert best.first_at.tolist() == best.first_from.tolist() == [1, 4, 6]
    assert "not reached within 7" in str(found)
    assert rounds_to_epsilon(gaps, [0.1], cost=10 * np.arange(8)).first_at.tolist() == [40]
    assert rounds_to_epsilon([1.0, 0.1], [0.1]).first_at.tolist() == [np.inf]  # below means strictly below


def test_seeds_have_rounds_of_their_own():
    gaps = np.array([[1.0, 1.0], [0.5, 0.05], [0.05, 0.5]])
    found = rounds_to_epsilon(gaps, [0.1])
    assert found.first_at.tolist() == [[2, 1]] and found.first_from.tolist() == [[2, np.inf]]


def test_slope_of_rounds_against_epsilon():
    epsilons = np.geomspace(1e-1, 1e-3, 9)
    t = np.arange(1, 200_001)
    linear = rounds_to_epsilon(np.r_[9.0, 7.3 / t], epsilons, schedule="theory")
    assert linear.slope((1e-3, 1e-1)).slope == pytest.approx(-1, abs=0.01)
    root = rounds_to_epsilon(np.r_[9.0, 0.4 / np.sqrt(t)], epsilons, schedule="1/sqrt(t)").slope((1e-3, 1e-1))
    assert root.slope == pytest.approx(-2, abs=0.02) and "1/sqrt(t)" in str(root)
    cut = rounds_to_epsilon(np.r_[9.0, 0.4 / np.sqrt(t[:10_000])], epsilons).slope((1e-3, 1e-1))
    assert "never reached" in str(cut) and cut.slope == pytest.approx(-2, abs=0.02)


def test_an_epsilon_that_the_optimum_cannot_resolve_is_said():
    optimum = SimpleNamespace(value=1.0, lower_bound=1.0 - 1e-3)
    found = rounds_to_epsilon(np.r_[9.0, 1.0 / ROUNDS], np.geomspace(1, 2e-3, 8), optimum=optimum)
    assert found.unresolved.tolist() == [False] * 6 + [True] * 2  # epsilon <= 10 * 1e-3
    assert np.isnan(found.first_at[found.unresolved]).all() and "not resolved" in str(found)
    assert "not resolved" in str(found.slope((1e-3, 1)))


def test_trajectories_with_last_best_and_averaged_iterates():
    rng = np.random.default_rng(0)
    problem = problems.LeastSquares(rng.normal(size=(3, 8, 2)), rng.normal(size=(3, 8)))
    run = simulate(
        problem, FedAvg(), 30, sampling=Full(), local_solver=GradientSteps(1, 0.3), keep_states=True, scenarios=2,
        x0=rng.normal(size=(2, 2)),
    )  # fmt: skip
    optimum = problem.optimum()
    gaps = run.metrics["objective"] - optimum.value
    epsilons = [gaps[3, 0] * 1.0001, gaps[3, 0] * 0.9999]
    for iterate in ("last", "best"):
        found = rounds_to_epsilon(run, epsilons, iterate=iterate)
        assert found.first_at[:, 0].tolist() == [3, 4]
    averaged = rounds_to_epsilon(run, epsilons, iterate="averaged")
    models = run.server_models()[1:, 0]
    by_hand = [float(problem.objective(models[:t].mean(axis=0))) - optimum.value for t in range(1, 31)]
    expected = [next(t + 1 for t, g in enumerate(by_hand) if g < e) for e in epsilons]
    assert averaged.first_at[:, 0].tolist() == expected != [3, 4]
    with pytest.raises(InvalidInput, match="averaged"):
        rounds_to_epsilon(gaps, epsilons, iterate="averaged")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"epsilons": [0.0]}, "must be finite numbers > 0"),
        ({"epsilons": [-1.0]}, "must be finite numbers > 0"),
        ({"iterate": "median"}, "last, best, averaged"),
        ({"source": [1.0, np.nan]}, "diverged"),
        ({"source": [1.0, np.nan, 0.1], "iterate": "best"}, "diverged"),
        ({"cost": [1, 2, 3]}, "cost"),
    ],
)
def test_bad_input_to_rounds(arguments, message):
    with pytest.raises(InvalidInput, match=message):
        rounds_to_epsilon(**{"source": [1.0, 0.1], "epsilons": [0.5], **arguments})


def test_crossover():
    """100/t against 1/sqrt(t): equally many rounds at epsilon = 0.01, the first is ahead below it."""
    t = np.arange(1, 10**6)
    epsilons = np.geomspace(0.2, 1.1e-3, 12)
    fast, slow = (rounds_to_epsilon(np.r_[99.0, g], epsilons) for g in (100 / t, 1 / np.sqrt(t)))
    (epsilon,) = crossover(fast, slow)
    assert epsilon == pytest.approx(0.01, rel=0.01)
    assert crossover(fast, rounds_to_epsilon(np.r_[99.0, 300 / t], epsilons)) == []
    with pytest.raises(InvalidInput, match="different epsilons"):
        crossover(fast, rounds_to_epsilon(np.r_[99.0, 1 / t], epsilons[:3]))


def test_join_runs_made_for_one_epsilon_each():
    """A method with step epsilon/2 on |x| from 1 needs more than 2/epsilon - 2 rounds: the slope is -1/(1 - epsilon)."""
    epsilons = np.geomspace(0.3, 0.003, 8)
    parts = []
    for epsilon in epsilons:
        gaps = np.abs(1 - np.arange(2000) * epsilon / 2)
        parts.append(rounds_to_epsilon(gaps, [epsilon], schedule="step epsilon/2"))
    found = join(parts)
    assert found.first_at.tolist() == np.floor(2 / epsilons - 1).tolist()
    assert found.slope((0.001, 0.05)).slope == pytest.approx(-1, abs=0.05)
    assert found.schedule == "step epsilon/2" and found.first_at.tolist() == [p.first_at[0] for p in parts]
    with pytest.raises(InvalidInput, match="iterate"):
        join([parts[0], rounds_to_epsilon([1.0, 0.1], [0.5], iterate="best")])
    with pytest.raises(InvalidInput, match="seeds"):
        join([parts[0], rounds_to_epsilon([[1.0, 1.0], [0.1, 0.1]], [0.5])])
    with pytest.raises(InvalidInput, match="nothing"):
        join([])
