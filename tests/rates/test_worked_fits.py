"""Fits worked a second time: sums, Student's t in closed form, the bootstrap over all draws."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from fedtheory.errors import InvalidInput
from fedtheory.rates import (
    RoundsToEpsilon,
    crossover,
    fit_contraction,
    fit_rate,
    fit_slope,
    fits,
    join,
    precision_floor,
    prefer,
    rounds_to_epsilon,
)

UNIT = 2.0**-52
RESAMPLES = 999


def below(t, dof):
    """P(T <= t) of Student's t, in closed form."""
    w = t / math.sqrt(dof)
    rational = w / (1 + w * w)
    if dof == 1:
        return 0.5 + math.atan(w) / math.pi
    if dof == 2:
        return 0.5 + t / (2 * math.sqrt(2 + t * t))
    if dof == 3:
        return 0.5 + (rational + math.atan(w)) / math.pi
    assert dof == 4
    sine = w / math.sqrt(1 + w * w)
    return 0.5 + sine / 2 * (1 + 1 / (2 * (1 + w * w)))


def line(u, v):
    """Slope, intercept, standard error and root mean square of the residuals, by sums."""
    n, mu, mv = len(u), sum(u) / len(u), sum(v) / len(v)
    spread = sum((a - mu) ** 2 for a in u)
    slope = sum((a - mu) * (b - mv) for a, b in zip(u, v, strict=True)) / spread
    intercept = mv - slope * mu
    left = sum((b - intercept - slope * a) ** 2 for a, b in zip(u, v, strict=True))
    return slope, intercept, math.sqrt(left / (n - 2) / spread), math.sqrt(left / n)


def statistic(first, others, v):
    """Student's t of the first of several columns, after Gram and Schmidt on the others."""
    basis = []
    for column in others:
        for b in basis:
            column = column - (b @ column) * b
        basis.append(column / np.linalg.norm(column))
    for b in basis:
        first, v = first - (b @ first) * b, v - (b @ v) * b
    slope = (first @ v) / (first @ first)
    rest = v - slope * first
    return slope / math.sqrt(rest @ rest / (len(v) - 1 - len(others)) / (first @ first))


def every_draw(u, curves):
    """The slope of the log mean of every draw of so many seeds, with their order: S^S of them."""
    draws = np.ndindex(*[curves.shape[1]] * curves.shape[1])
    return np.array([line(u, np.log(curves[:, list(d)].mean(axis=1)))[0] for d in draws])


ROUNDS = np.array([2.0, 3.0, 5.0, 9.0])
WIGGLE = np.array([0.3, -0.2, 0.15, 0.4])


def test_a_slope_by_sums_and_closed_forms():
    values = np.exp(WIGGLE) / ROUNDS
    found = fit_slope(ROUNDS, values, window=(2, 9))
    slope, intercept, error, left = line(np.log(ROUNDS), np.log(values))
    assert (found.slope, found.intercept, found.standard_error) == pytest.approx(
        (slope, intercept, error), rel=1e-12
    )
    assert (found.residual, found.dof, found.points, found.confidence) == (
        pytest.approx(left, rel=1e-12),
        2,
        4,
        0.95,
    )
    assert found.high - slope == pytest.approx(slope - found.low, rel=1e-12)
    assert below((found.high - slope) / error, 2) == pytest.approx(0.975, rel=1e-12)
    wider = fit_slope(ROUNDS, values, window=(2, 9), confidence=0.8)
    assert below((wider.high - slope) / error, 2) == pytest.approx(0.9, rel=1e-12)


TIMES = np.arange(1.0, 8.0)
SHAKEN = -0.3 * TIMES + np.array([0.1, -0.15, 0.05, 0.2, -0.1, 0.12, -0.07])


@pytest.mark.parametrize("start", [0, 1])
def test_a_factor_by_sums_and_closed_forms(start):
    """From round 0 on, the power law has six points and three degrees of freedom."""
    t = TIMES - 1 + start
    found = fit_contraction(np.exp(SHAKEN), window=(start, start + 6), first_round=start)
    rate, intercept, error, left = line(t, SHAKEN)
    assert (found.rate, found.factor) == pytest.approx((rate, math.exp(rate)), rel=1e-12)
    assert (found.intercept, found.standard_error, found.residual) == pytest.approx(
        (intercept, error, left), rel=1e-12
    )
    assert (found.dof, found.confidence, found.points) == (5, 0.95, 7)
    assert found.halves == pytest.approx(
        [math.exp(line(t[a:b], SHAKEN[a:b])[0]) for a, b in ((0, 4), (3, 7))], rel=1e-12
    )
    later, v = t[t > 0], SHAKEN[t > 0]
    power, _, _, power_left = line(np.log(later), v)
    assert (found.power, found.power_residual) == pytest.approx((power, power_left), rel=1e-12)
    one = np.ones_like(later)
    beside = statistic(later, [one, np.log(later)], v)
    assert found.p_power == pytest.approx(below(beside, len(later) - 3), rel=1e-9)
    bend = statistic(t**2, [np.ones_like(t), t], SHAKEN)
    assert found.p_bend == pytest.approx(2 * (1 - below(abs(bend), 4)), rel=1e-9)


def test_the_interval_of_a_factor_has_points_minus_two_degrees_of_freedom():
    t, v = TIMES[:6], SHAKEN[:6]
    found = fit_contraction(np.exp(v), window=(1, 6), first_round=1)
    rate, _, error, _ = line(t, v)
    for end in (math.log(found.high) - rate, rate - math.log(found.low)):
        assert below(end / error, 4) == pytest.approx(0.975, rel=1e-12)


class InTurn:
    """A generator whose draws of S of S seeds are all S^S of them in turn, again and again."""

    def integers(self, low, high, size):
        assert (low, high) == (0, size[1])
        return np.resize(list(np.ndindex(*[high] * high)), size)


@pytest.mark.parametrize("tilts", [(0.02, -0.05), (0.02, -0.05, 0.06)])
def test_the_bootstrap_over_seeds_by_the_slope_of_every_draw(tilts, monkeypatch):
    """999 draws of S seeds; S - 1 degrees of freedom, and a variance S/(S - 1) times theirs."""
    seeds, asked = len(tilts), []
    for make, x, u in ((fit_slope, (TIMES,), np.log(TIMES)), (fit_contraction, (), TIMES)):
        curves = np.exp(-0.7 * u[:, None] + u[:, None] * tilts)
        more = {} if x else {"first_round": 1}
        every = every_draw(u, curves)
        drawn = make(*x, curves, window=(1, 7), seed=5, **more)
        with monkeypatch.context() as patched:
            patched.setattr(np.random, "default_rng", lambda seed: asked.append(seed) or InTurn())
            found = make(*x, curves, window=(1, 7), seed=5, **more)
            make(*x, curves, window=(1, 7), **more)
        slopes = np.resize(every, RESAMPLES)
        mean = sum(slopes) / RESAMPLES
        variance = sum((s - mean) ** 2 for s in slopes) / (RESAMPLES - 1) * seeds / (seeds - 1)
        assert found.standard_error == pytest.approx(math.sqrt(variance), rel=1e-9)
        assert found.dof == seeds - 1 and f"bootstrap over {seeds} seeds" in found.method
        rate, high = (found.slope, found.high) if x else (found.rate, math.log(found.high))
        reach = (high - rate) / found.standard_error
        assert below(reach, seeds - 1) == pytest.approx(0.975, rel=1e-9)
        exact = math.sqrt(float(np.var(every)) * seeds / (seeds - 1))
        kurtosis = float(np.mean((every - np.mean(every)) ** 4) / np.var(every) ** 2)
        error = math.sqrt((kurtosis - 1) / (4 * RESAMPLES))  # of the logarithm of a deviation
        assert abs(drawn.standard_error / exact - 1) < 4 * error
    assert asked == [5, 0] * 2


@pytest.mark.parametrize("seeds", [(3.0, -1.0), (2.0, 0.0)])
def test_seeds_some_draws_of_which_are_not_positive_have_no_interval(seeds):
    curves = np.exp(-TIMES)[:, None] * seeds
    curves[:3] = np.exp(-TIMES[:3])[:, None]
    for call in (
        lambda: fit_slope(TIMES, curves, window=(1, 7)),
        lambda: fit_contraction(curves, window=(0, 6)),
    ):
        with pytest.raises(InvalidInput, match="some resampled seeds is not positive"):
            call()


@pytest.mark.parametrize("largest, counts", [(8, 8), (0.25, 1)])
def test_what_rounding_leaves_is_no_evidence_of_a_bend(largest, counts):
    """An exact curve whose bend is a few times 64 units of roundoff of its largest logarithm or 1.

    The logarithms are off by a unit of roundoff of the largest, and the bend by a percent: the
    p-value by less than a tenth. With 70 units for 64 it would be off by a third.
    """
    t = np.arange(24.0)
    s = (t - t.mean()) / 23
    bend = counts * 1.1e-13
    found = fit_contraction(np.exp(largest * (1 - 2 * t / 23) + bend * s**2), window=(0, 23))
    square = s**2 - (s**2).mean()  # orthogonal to the line already
    ratio = bend / (64 * UNIT * counts / math.sqrt(square @ square))
    assert 2 < ratio < 4
    assert found.p_bend == pytest.approx(2 * stats.t.sf(ratio, 21), rel=0.1)


def test_gaps_are_known_up_to_the_certified_gap_and_sixteen_units_of_roundoff():
    assert precision_floor(SimpleNamespace(value=3.0, lower_bound=3.0)) == 48 * UNIT
    assert precision_floor(SimpleNamespace(value=-3.0, lower_bound=-5.0)) == 2 + 80 * UNIT
    assert precision_floor(SimpleNamespace(value=5.0, lower_bound=-3.0)) == 8 + 80 * UNIT


@pytest.mark.parametrize("make", [fit_rate, fit_contraction])
def test_what_is_ten_times_the_floor_or_less_is_left_out_and_both_ends_of_the_window_count(make):
    values = 1 / np.arange(1.0, 31.0)
    values[4], values[5], values[6], values[7] = (
        10 * UNIT,
        10.0001 * UNIT,
        9.9999 * UNIT,
        10.9 * UNIT,
    )
    found = make(values, window=(3, 14), first_round=1, floor=UNIT)
    assert found.x.tolist() == [3, 4, 6, 8, 9, 10, 11, 12, 13, 14]
    assert found.excluded == (f"2 at or below 10 x the precision floor {UNIT:.3g}",)
    assert str(found).endswith(f"schedule: not stated; left out: {found.excluded[0]})")
    every = make(values, window=(3, 14), first_round=1, floor=UNIT, floor_multiple=1)
    assert every.points == 12 and every.excluded == ()
    assert str(every).endswith("schedule: not stated)")
    optimum = SimpleNamespace(value=2.0**-4, lower_bound=2.0**-4)  # a floor of one unit
    assert (
        make(values, window=(3, 14), first_round=1, optimum=optimum).x.tolist() == found.x.tolist()
    )
    zero = np.r_[values[:4], 0.0, values[8:]]
    left_out = "1 with a value of 0 or less, which has no logarithm"
    assert make(zero, window=(1, 20), first_round=1).excluded == (left_out,)


def test_which_points_are_taken_of_many():
    """Twelve evenly spread in the logarithm for a slope, 24 evenly spread for a factor."""
    x = np.arange(1.0, 5001.0)
    found = fit_slope(x, 1 / x, window=(1, 4096))
    goals = 4096 ** (np.arange(12) / 11)
    assert found.x.tolist() == sorted(
        {min(x, key=lambda a, g=g: abs(math.log(a / g))) for g in goals}
    )
    assert found.points == len(found.x) == 12
    rounds = fit_contraction(0.99 ** np.arange(101), window=(0, 93))
    assert rounds.x.tolist() == [round(93 * i / 23) for i in range(24)]
    assert fit_contraction(0.99 ** np.arange(101), window=(0, 23)).x.tolist() == list(range(24))
    assert fit_slope(x, 1 / x, window=(7, 18)).x.tolist() == list(range(7, 19))


def test_the_fewest_points():
    """Four for a slope, six for a factor with its tests."""
    x = np.arange(1.0, 7.0)
    assert (
        fit_slope(x, x, window=(1, 4)).points == 4
        and fit_slope(x, x, window=(1, 6), max_points=4).points == 4
    )
    with pytest.raises(InvalidInput, match=r"3 usable points .* at least 4"):
        fit_slope(x, x, window=(1, 3))
    with pytest.raises(InvalidInput, match=r"max_points .* 4"):
        fit_slope(x, x, window=(1, 6), max_points=3)
    assert (
        fit_contraction(0.5**x, window=(0, 5)).points == 6
        and fit_contraction(0.5**x, window=(0, 5), max_points=6).points == 6
    )
    with pytest.raises(InvalidInput, match=r"window is too short: 5 usable rounds .* at least 6"):
        fit_contraction(0.5**x, window=(0, 4))
    with pytest.raises(InvalidInput, match=r"max_points .* 6"):
        fit_contraction(0.5**x, window=(0, 5), max_points=5)
    half, more = (np.r_[np.full(good, 1.0), np.full(10 - good, 0.1)] for good in (5, 4))
    with pytest.raises(InvalidInput, match=r"too short: 5 usable .*\(left out: 5 at or below 2 x"):
        fit_contraction(half, window=(0, 9), floor=0.1, floor_multiple=2)
    with pytest.raises(InvalidInput, match="lies at the precision floor: 4 usable"):
        fit_contraction(more, window=(0, 9), floor=0.1, floor_multiple=2)
    with pytest.raises(InvalidInput, match=r"too short: 4 usable .*\(left out: 6 with a value of 0 or less"):
        fit_contraction(np.where(more < 1, 0, more), window=(0, 9))


@pytest.mark.parametrize(
    "rounds, low, wrong",
    [(False, 1e-300, (0.0, 1.0)), (True, 0.0, (-1e-300, 1.0))],
    ids=["of a slope", "of a factor"],
)
def test_windows_at_their_edges(rounds, low, wrong):
    check = partial(fits.check_window, rounds=rounds)
    assert check([low, 1e-3]) == (low, 1e-3) and check((low, math.inf)) == (low, math.inf)
    for window in (wrong, (2.0, 2.0), (2, 1), (1,), (1, 2, 3), "12", 5):
        with pytest.raises(InvalidInput, match="window"):
            check(window)


def test_a_constant_is_met_exactly_and_what_hardly_falls_has_an_error():
    level = np.ones(7)
    found, slope = fit_contraction(level, window=(0, 6)), fit_slope(TIMES, level, window=(1, 7))
    assert (found.low, found.factor, found.high, found.standard_error) == (1, 1, 1, 0)
    assert (slope.low, slope.slope, slope.high, slope.standard_error) == (0, 0, 0, 0)
    small = 0.1 * SHAKEN
    found, slope = (
        fit_contraction(np.exp(small), window=(0, 6)),
        fit_slope(TIMES, np.exp(small), window=(1, 7)),
    )
    assert found.standard_error == pytest.approx(line(TIMES, small)[2], rel=1e-9)
    assert slope.standard_error == pytest.approx(line(np.log(TIMES), small)[2], rel=1e-9)


@pytest.mark.parametrize(
    "x, y, says",
    [
        (np.ones(7), TIMES, "all points in the window have x = 1"),
        (TIMES[:, None], TIMES, "shape"), (TIMES, TIMES[:, None, None], "shape"),
        (TIMES, TIMES[1:], "shape"), (TIMES, np.r_[TIMES[:6], np.nan], r"y\[6, 0\] is nan"),
        (TIMES, np.r_[TIMES[:6], -np.inf], r"y\[6, 0\] is -inf"),
    ],
)  # fmt: skip
def test_what_has_no_slope(x, y, says):
    with pytest.raises(InvalidInput, match=says):
        fit_slope(x, y, window=(1, 7))


@pytest.mark.parametrize("make", [fit_rate, fit_contraction])
def test_a_run_that_diverged_has_no_rate(make):
    for bad, more in (
        ([np.inf], ""),
        ([np.inf, -np.inf], ", and 1 more of 9 entries"),
        ([np.nan] * 3, ", and 2 more of 10 entries"),
    ):
        with pytest.raises(InvalidInput) as caught:
            make(np.r_[TIMES, bad], window=(1, 6))
        assert str(caught.value).startswith(
            f"values[7] is {bad[0]}{more}: a run that diverged has no rate"
        )
    with pytest.raises(InvalidInput, match="lower_bound"):
        precision_floor(SimpleNamespace(value=1.0))


# --- which of two exponents -----------------------------------------------------------------------
def slope_of(slope, error, dof=2):
    """A fit with this slope and standard error, the rest of no account."""
    base = fit_slope(ROUNDS, np.exp(WIGGLE) / ROUNDS, window=(2, 9))
    return fits.Slope(**{**vars(base), "slope": slope, "standard_error": error, "dof": dof})


def test_both_p_values_in_closed_form_and_the_level_belongs_to_what_rejects():
    found = slope_of(-1.2, 0.1)
    said = prefer(found, -1, -2)
    assert said.p_other == pytest.approx(
        1 - below(8, 2), rel=1e-12
    ) and said.p_claimed == pytest.approx(1 - below(2, 2), rel=1e-12)
    assert (said.verdict, said.level) == ("claimed", 0.05)
    assert prefer(found, -1, -2, level=said.p_other).verdict == "claimed"
    assert prefer(found, -1, -2, level=0.999 * said.p_other).verdict == "undecided"
    turned = prefer(slope_of(-1.9, 0.1), -1, -2)
    assert turned.p_claimed == pytest.approx(
        1 - below(9, 2), rel=1e-12
    ) and turned.p_other == pytest.approx(1 - below(1, 2), rel=1e-12)
    assert prefer(slope_of(-1.9, 0.1), -1, -2, level=turned.p_claimed).verdict == "other"
    assert (
        prefer(slope_of(-1.9, 0.1), -1, -2, level=0.999 * turned.p_claimed).verdict == "undecided"
    )


@pytest.mark.parametrize("claimed, other", [(-1, -2), (-2, -1)])
def test_half_way_between_them_neither_is_preferred(claimed, other):
    assert prefer(slope_of(-1.5, 1e-3), claimed, other).verdict == "undecided"


@pytest.mark.parametrize("slope", [-0.25, -3.0])
def test_no_error_is_taken_for_less_than_four_units_of_roundoff(slope):
    off = 16 * UNIT
    said = prefer(slope_of(slope, 0.0), slope + 1, slope - off)
    ratio = (slope - (slope - off)) / (4 * UNIT * max(1, abs(slope)))
    assert said.p_other == pytest.approx(1 - below(ratio, 2), rel=1e-9)


# --- rounds to epsilon --------------------------------------------------------------------------
EPSILONS = np.geomspace(1e-1, 1e-3, 6)


def test_rounds_have_a_slope_of_95_percent_unless_told_otherwise():
    found = rounds_to_epsilon(np.r_[9.0, 7.3 / np.arange(1, 9001)], EPSILONS)
    assert found.slope((1e-3, 1e-1)).confidence == 0.95
    assert found.slope((1e-3, 1e-1), confidence=0.9).confidence == 0.9


def test_a_run_may_be_infinite_for_a_while_and_one_of_several_may_not_arrive():
    found = rounds_to_epsilon([[np.inf, 1.0], [0.05, 1.0]], [0.5, 2.0])
    assert found.first_at.tolist() == [[1, np.inf], [1, 0]]
    assert "0.5      not reached within 1 rounds by 1 of 2 runs" in str(found)
    assert "2        first at 0.5, from 0.5 on" in str(found)


def test_what_is_counted_may_stand_still_but_not_fall():
    gaps = [1.0, 0.5, 0.2, 0.1]
    assert rounds_to_epsilon(gaps, [0.3], cost=[0, 1, 1, 1]).first_at.tolist() == [1]
    with pytest.raises(InvalidInput, match=r"cost\[3\] is 0\.5, after 1"):
        rounds_to_epsilon(gaps, [0.3], cost=[0, 1, 1, 0.5])


@pytest.mark.parametrize(
    "gaps, epsilons, says",
    [
        ([1.0, 0.1], [0.5, -0.5], "must be finite numbers > 0"), ([1.0, 0.1], [0.5, 0], "> 0"),
        ([1.0, 0.1], [[0.5]], "> 0"), (np.ones((2, 2, 2)), [0.5], "gaps have shape"),
        (np.ones((0, 2)), [0.5], "gaps have shape"), (SimpleNamespace(metrics={}), [0.5], "gaps"),
    ],
)  # fmt: skip
def test_what_has_no_rounds_to_epsilon(gaps, epsilons, says):
    with pytest.raises(InvalidInput, match=says):
        rounds_to_epsilon(gaps, epsilons)
    assert rounds_to_epsilon([0.1], [0.5]).first_at.tolist() == [0]  # the start alone is a run


def test_an_epsilon_is_resolved_above_the_stated_multiple_of_the_floor():
    optimum = SimpleNamespace(value=0.25, lower_bound=0.125)  # a floor of 1/8 and four units
    floor = precision_floor(optimum)
    gaps = np.r_[9.0, 1 / np.arange(1.0, 99.0)]
    for multiple, options in ((10, {}), (0.5, {"floor_multiple": 0.5}), (0, {"floor_multiple": 0})):
        epsilons = [1e-9 + multiple * floor * (1 + UNIT), multiple * floor, 1e-3]
        found = rounds_to_epsilon(
            gaps, epsilons[: 2 if multiple else 1], optimum=optimum, **options
        )
        assert found.unresolved.tolist() == ([False, True] if multiple else [False])


def test_where_two_methods_need_as_many_rounds():
    """Straight lines between epsilons in logarithms on both axes; also at an epsilon itself."""

    def measured(rounds):
        none = np.zeros(len(rounds), dtype=bool)
        at = np.array(rounds, dtype=float)
        return RoundsToEpsilon(np.array([1.0, 0.1, 0.01]), at, at, none, "last", 9.0, "")

    assert crossover(measured([1, 4, 50]), measured([2, 4, 20])) == pytest.approx([0.1])
    (epsilon,) = crossover(measured([1, 8, 50]), measured([8, 1, 20]))
    assert epsilon == pytest.approx(10**-0.5)
    assert crossover(measured([np.inf, 8, 50]), measured([8, 1, 20])) == []
    assert crossover(measured([0, 8, 50]), measured([8, 1, 20])) == []
    assert crossover(measured([8, 1, 20]), measured([0, 8, 50])) == []
    assert crossover(measured([1, 1, 50]), measured([8, np.inf, 20])) == pytest.approx(
        [10 ** (-2 * math.log(8) / math.log(8 * 2.5))]
    )
    late = replace(measured([1, 8, 50]), first_from=np.array([1.0, 1, 1]))
    early = replace(measured([8, 1, 20]), first_from=np.array([2.0, 2, 2]))
    assert crossover(late, early) == pytest.approx([epsilon]) and not crossover(late, early, "from")
    with pytest.raises(InvalidInput, match="give RoundsToEpsilon"):
        crossover(late, [1, 2])
    assert join([measured([1, 2, 3]), replace(late, horizon=5.0)]).horizon == 9


def recorded(**metrics):
    """A run of one client and coordinate, F(x) = x^2 with the least value -3, of two seeds."""
    models = np.array([[4.0, 2.0], [3.0, 2.0], [1.0, -2.0], [2.0, 0.0]])[:, :, None]
    optimum = SimpleNamespace(value=-3.0, lower_bound=-3.5)
    problem = SimpleNamespace(
        objective=lambda x: (np.asarray(x) ** 2).sum(axis=-1) - 3, optimum=lambda: optimum
    )
    return SimpleNamespace(metrics=metrics, problem=problem, server_models=lambda: models)


def test_gaps_of_a_run_are_those_above_the_certified_optimum():
    """The mean of x_1..x_t: 3, 2, 2 and 2, 0, 0; F is recorded, of which -3 is the least."""
    run = recorded(objective=[13.0, 6.0, 1.0, -2.0])
    found = rounds_to_epsilon(run, [8.0, 2.0, 5.0], floor_multiple=0)
    assert found.first_at.tolist() == [2, 3, 2] and found.horizon == 3
    means = rounds_to_epsilon(recorded(), [16.5, 4.5, 3.5], iterate="averaged", floor_multiple=0)
    assert means.first_at.tolist() == [[0, 0], [2, 0], [np.inf, 2]]
    floor = precision_floor(run.problem.optimum())
    edge = [8 * floor, 8.1 * floor]
    assert rounds_to_epsilon(run, edge, floor_multiple=8).unresolved.tolist() == [True, False]
    given = SimpleNamespace(value=-4.0, lower_bound=-4.0)
    assert rounds_to_epsilon(run, [8.0], optimum=given).first_at.tolist() == [2]
    assert rounds_to_epsilon(run, [4.5], optimum=given).first_at.tolist() == [3]
    with pytest.raises(InvalidInput, match="no 'objective'"):
        rounds_to_epsilon(recorded(), [1.0])
