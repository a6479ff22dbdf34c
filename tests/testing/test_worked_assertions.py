"""Limits of assertions from both sides, with half-widths in closed form."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from fedtheory.errors import InvalidInput
from fedtheory.rates import fit_contraction, fit_slope
from fedtheory.testing import (
    ConvergenceFailure,
    assert_bound_holds,
    assert_contraction,
    assert_rate,
    assert_reaches,
)
from fedtheory.testing.diagnosis import levels_off, precision, short_window
from fedtheory.testing.rates import _check_covered, _judge_contraction, _judge_rate, _narrow, _why
from fedtheory.testing.reaching import _forecast

LESS, MORE = 1 - 1e-6, 1 + 1e-6


def told(call, *arguments, **options):
    """The message of the assertion, '' where it passes."""
    try:
        call(*arguments, **options)
    except ConvergenceFailure as failure:
        return str(failure)
    return ""


# --- bounds ---------------------------------------------------------------------------------------
SEEDS = np.array([[1.0, 2.0, 4.5], [-1.0, 0.25, 3.0]])


@pytest.mark.parametrize("entries", [1, 2])
@pytest.mark.parametrize("confidence", [0.9, 0.99])
def test_the_half_width_of_a_mean_in_closed_form(entries, confidence):
    """P(T <= z) = 1/2 + z/(2 sqrt(2 + z^2)) of Student's t with two degrees of freedom."""
    seeds = SEEDS[:entries]
    share = 1 - 2 * (1 - confidence) / entries
    z = share * math.sqrt(2 / (1 - share**2))
    mean = [sum(row) / 3 for row in seeds]
    half = [
        z * math.sqrt(sum((x - m) ** 2 for x in row) / 2 / 3)
        for row, m in zip(seeds, mean, strict=True)
    ]
    judged = {"confidence": confidence, "rtol": 0.0}
    for k in range(entries):
        bound = np.array(mean) + 2 * np.array(half)  # clear of all
        for at, says in (
            (-MORE, "violated"),
            (-LESS, "inconclusive"),
            (LESS, "inconclusive"),
            (MORE, ""),
        ):
            bound[k] = mean[k] + at * half[k]
            text = told(assert_bound_holds, seeds, bound, **judged)
            assert (says in text) if says else (text == "")
    bound = np.array(mean) + 10 * np.array(half)
    bound[0] = mean[0] + half[0] / 3.1
    need = math.ceil(3 * 3.1**2)
    assert f"(about {need} seeds)" in told(assert_bound_holds, seeds, bound, **judged)


def test_what_rounding_and_noise_allow():
    """rtol of both sides, a billionth each, and the noise as it is."""
    assert told(assert_bound_holds, 1 + 1.98e-9, 1.0) == "" and "violated" in told(
        assert_bound_holds, 1 + 2.02e-9, 1.0
    )
    assert told(assert_bound_holds, -1.0, -1 - 1.98e-9) == "" and "violated" in told(
        assert_bound_holds, -1.0, -1 - 2.02e-9
    )
    assert told(assert_bound_holds, 1.5, 1.0, rtol=0.2) == "" and "violated" in told(
        assert_bound_holds, 1.501, 1.0, rtol=0.2
    )
    assert told(assert_bound_holds, 1.5, 1.0, noise=0.5, rtol=0) == ""
    assert "violated" in told(assert_bound_holds, 1.5 * MORE, 1.0, noise=0.5, rtol=0)
    assert told(assert_bound_holds, 1.0, 1.0, rtol=0) == ""


def test_the_entry_that_is_nearest_its_bound_is_so_relatively():
    check = assert_bound_holds([1.0, 90.0, -5.0, -2.0], [2.0, 100.0, 0.0, -1.0])
    assert (check.where, check.measured, check.bound, check.tightness) == ((1,), 90.0, 100.0, 0.9)
    assert math.isnan(assert_bound_holds([-1.0], [0.0]).tightness)
    assert assert_bound_holds([0.25], [0.5]).tightness == 0.5
    for value, worst in (
        (-3.1, 0),
        (-2.9, 1),
    ):  # -1 against 2.1/2.05 and 1.9/1.95, of the mean size of both
        assert assert_bound_holds([1.0, value], [3.0, -1.0]).where == (worst,)
    cube = np.stack([np.ones((2, 3)), np.full((2, 3), 1.1)], axis=-1)
    assert assert_bound_holds(cube, 5 * np.ones((2, 3)), confidence=0.9).count == 6


@pytest.mark.parametrize(
    ("measured", "options", "says"),
    [
        (np.ones(2), {"noise": [0.1, -0.2]}, "noise = -0.2"),
        (np.ones(2), {"noise": [-0.1, 0.2]}, "noise = -0.1"),
        (np.float64(1), {"confidence": 0.9}, ">= 2 seeds"),
        (np.ones((2, 1)), {"confidence": 0.9}, ">= 2 seeds"),
    ],
)  # fmt: skip
def test_what_cannot_be_judged(measured, options, says):
    with pytest.raises(InvalidInput, match=says):
        assert_bound_holds(measured, 2.0, **options)


# --- powers ---------------------------------------------------------------------------------------
X = np.array([2.0, 3.0, 5.0, 9.0])
SLOPE = fit_slope(X, np.exp([0.3, -0.2, 0.15, 0.4]) / X, window=(2, 9))
HERE = {"kind": "rate"}


def rate(low, high, claimed, kind="equal", against=None, confidence=0.95, **more):
    found = replace(SLOPE, slope=(low + high) / 2, low=low, high=high, **more)
    return told(_judge_rate, found, claimed, 0.25, kind, against, confidence, HERE)


@pytest.mark.parametrize(
    ("kind", "low", "high", "says"),
    [
        ("equal", -1.25, -0.75, ""), ("equal", -1.25 * MORE, -0.75, "inconclusive"),
        ("equal", -1.25, -0.75 * LESS, "inconclusive"),
        ("equal", -2, -1.25, "inconclusive"), ("equal", -2, -1.25 * MORE, "contradicted"),
        ("equal", -0.75, 0, "inconclusive"), ("equal", -0.75 * LESS, 0, "contradicted"),
        ("at least as fast", -9, -0.75, ""), ("at least as fast", -9, -0.75 * LESS, "inconclusive"),
        ("at least as slow", -1.25, 9, ""), ("at least as slow", -1.25 * MORE, 9, "inconclusive"),
    ],
)  # fmt: skip
def test_where_an_interval_lies_within_what_is_claimed(kind, low, high, says):
    text = rate(low, high, -1.0, kind)
    assert (says in text) if says else (text == "")


def test_the_defaults_are_a_quarter_of_an_exponent_a_tenth_of_a_factor_and_95_percent():
    level = np.ones(50)  # slope 0 in [0, 0]
    for claimed, fine in ((0.25, True), (0.2501, False), (-0.25, True), (-0.2501, False)):
        assert (told(assert_rate, level, claimed, window=(10, 49)) == "") is fine
    for power, fine in ((1.0999, True), (1.1001, False), (0.9001, True), (0.8999, False)):
        assert (
            told(assert_contraction, 0.9 ** (power * np.arange(60)), 0.9, window=(0, 59)) == ""
        ) is fine
    wavy = 1 + 0.01 * np.cos(np.arange(60))
    assert assert_rate(wavy, 0, window=(10, 59)).confidence == 0.95
    assert assert_contraction(wavy * 0.5 ** np.arange(60), 0.5, window=(0, 59)).confidence == 0.95


def test_the_other_exponent_is_rejected_at_one_minus_the_confidence():
    """Two degrees of freedom: P(T > t) = 0.05 at t = 0.9 sqrt(2/0.19)."""
    error = 0.5 / (
        0.9 * math.sqrt(2 / 0.19)
    )  # of a slope of -1 that lies 1/2 from the other exponent
    for factor, fine in ((LESS, True), (MORE, False)):
        text = rate(-1.1, -0.9, -1.0, against=-1.5, standard_error=factor * error, dof=2)
        assert (text == "") is fine and (fine or "not told apart" in text)
    assert rate(-1.1, -0.9, -1.0, against=-1.5, confidence=0.9, standard_error=error, dof=2) == ""


def test_how_far_the_data_may_end_before_the_window_and_begin_after_it():
    for last, fine in ((90.0, True), (90 * LESS, False)):
        covered = np.array([1.0, last])
        if fine:
            _check_covered((1, 100), covered, True)
        else:
            with pytest.raises(InvalidInput, match="window ends at 100"):
                _check_covered((1, 100), covered, True)
    _check_covered((10, 100), np.array([0.0, 10 * 1.1, 100]), True)
    with pytest.raises(InvalidInput, match="begins at 10, the data at 11"):
        _check_covered((10, 100), np.array([0.0, 11 * MORE, 100]), True)
    _check_covered((10, 100), np.array([50.0, 100]), False)


def test_where_the_data_begin_counts_where_they_do_not_begin_with_round_0():
    values = 1 / np.arange(10.0, 110.0)
    assert_rate(values, -1, window=(10, 109), first_round=10)
    assert_rate(np.r_[9.0, 1 / np.arange(1.0, 100.0)], -1, window=(0.5, 99))
    with pytest.raises(InvalidInput, match=r"begins at 0\.5, the data at 1"):
        assert_rate(1 / np.arange(1.0, 100.0), -1, window=(0.5, 99), first_round=1)
    steep = 0.5 ** np.arange(30)
    assert_contraction(steep, 0.5, window=(10, 39), first_round=10)
    with pytest.raises(InvalidInput, match=r"begins at 0\.5, the data at 1"):
        assert_contraction(steep, 0.5, window=(0.5, 29), first_round=1)


def test_what_grows_where_it_should_not_is_told_so():
    assert "grow faster than claimed" in rate(0.3, 0.4, 0.0)
    assert "grow, where a decay is claimed" in rate(0.3, 0.4, -1e-9)
    assert "decay slower" in rate(-0.4, -0.3, -1.0)


def test_a_line_that_scatters_by_more_than_a_tenth_is_told_of_its_scatter():
    assert "scatter" in _narrow(replace(SLOPE, residual=0.1 * MORE)) and "scatter" not in _narrow(
        replace(SLOPE, residual=0.1)
    )


def why(x, y, claimed=-1.0, residual=0.0, low=-1.0):
    x, y = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    return " ".join(_why(replace(SLOPE, x=x, y=y, residual=residual, low=low), claimed))


def test_growth_by_more_than_a_factor_of_two_is_divergence():
    for last, low, grows in ((2 * MORE, 0.1, True), (2 * LESS, 0.1, False), (3.0, 0.0, False)):
        told_ = why([1, 2, 3, 5], 100 * np.array([1.0, 1.2, 1.5, last]), low=low)
        assert ("diverges" in told_) is grows


@pytest.mark.parametrize(
    ("fall", "last", "claimed", "level"),
    [(0.0499, 4, -1, True), (0.0501, 4, -1, False), (0.0499, 3.99, -1, False), (0.01, 4, 0, False)],
)
def test_a_fall_of_five_hundredths_over_a_factor_of_four_is_level(fall, last, claimed, level):
    values = np.exp([fall, 0, fall, 0])
    assert ("level at about" in why([3, 6, 9, 3 * last], values, claimed)) is level


def test_a_factor_is_told_where_it_fits_twice_as_well():
    """A straight line leaves sqrt(20/4) hundredths."""
    x = np.array([1.0, 2, 3, 4])
    left = 0.01 * np.array([1, -3, 3, -1])
    for share, bends in ((MORE, True), (LESS, False)):
        text = why(x, np.exp(-x / 2 + left), residual=share * 0.02 * math.sqrt(5))
        assert ("a geometric rate of factor 0.6065" in text) is bends
    assert "geometric" not in why(x, np.exp(x / 2 + left), residual=1.0)


FAR = np.array([1.0, 2, 4, 100])


def test_a_level_of_a_tenth_of_the_last_value_is_told():
    for share, named in ((0.1 * MORE, True), (0.1 * LESS, False)):
        values = 1 / FAR + share / (1 - share) / 100
        assert ("towards a level" in why(FAR, values, residual=0.5)) is named
    assert "towards a level" not in why(FAR, FAR**0.5 + 9, claimed=0.5, residual=0.5)


def test_a_level_is_told_where_it_fits_twice_as_well():
    """A power and a level, fitted relative to the values by the normal equations."""
    values = 1 / FAR + 0.02 + 1e-3 * np.array([1, -1, 1, -1])
    terms = np.array([1 / FAR, np.ones(4)]).T / values[:, None]
    left = np.ones(4) - terms @ np.linalg.solve(terms.T @ terms, terms.T @ np.ones(4))
    for share, named in ((MORE, True), (LESS, False)):
        text = why(FAR, values, residual=share * 2 * math.sqrt(left @ left / 4))
        assert ("towards a level" in text) is named


# --- levels ---------------------------------------------------------------------------------------
def kinked(slope):
    """Falls by 1 a step to 0 at 4, then on by ``slope`` up to 16."""
    u = np.arange(17.0)
    return u, np.where(u <= 4, 4 - u, -slope * (u - 4))


def test_a_tail_of_a_tenth_of_the_slope_before_is_level():
    """The median of the last quarter is -10 s, its deviation sqrt(2) s.

    So the level is reached at 12. The mean slope is (4 + 10 s)/12, and s a tenth of it at 4/110.
    """
    edge = 4 / 110
    assert levels_off(*kinked(0.995 * edge)) == 12 and levels_off(*kinked(1.005 * edge)) is None


def test_from_where_on_a_curve_is_level():
    u = np.arange(17.0)
    v = np.r_[4, 3, 2, 1, 0.1001, 0.0999, np.zeros(11)]
    assert levels_off(u, v) == 5  # a tenth above the level
    shaken = 0.2 * np.array([1.0, -1, 0, -1, 1])  # median 0, no slope, deviation 0.2 sqrt(4/5)
    edge = 0.4 * math.sqrt(4 / 5)
    v = np.r_[4, 3, 2, 1, edge * 1.001, edge * 0.999, np.zeros(6), shaken]
    assert levels_off(u, v) == 5  # two standard deviations above it
    for fall, found in ((math.log(2) * MORE, 1), (math.log(2) * LESS, None)):
        assert levels_off(u, np.r_[fall, np.zeros(16)]) == found
    for n, found in ((6, 3), (5, None)):
        assert levels_off(np.arange(float(n)), np.r_[3.0, 2.0, 1.0, np.zeros(n - 3)]) == found
    assert levels_off(u, np.zeros(17)) is None and levels_off(np.zeros(17), v) is None


def test_a_tail_that_only_scatters_is_not_called_level():
    """Its slope must be above half the mean slope by two standard errors.

    One of d (1, -1, 0, -1, 1) is d sqrt(4/3/10).
    """
    u = np.arange(17.0)
    edge = 1.5 / (2 * math.sqrt(4 / 30))  # the mean slope is -12/4 where the fall of 12 ends at 4
    for factor, found in ((0.999, 4), (1.001, None)):
        v = np.r_[
            12,
            10,
            8,
            2 * factor * edge * math.sqrt(0.8) * 1.001,
            np.zeros(8),
            factor * edge * np.array([1.0, -1, 0, -1, 1]),
        ]
        assert levels_off(u, v) == found


def test_tails_that_are_no_level():
    u = np.arange(17.0)
    assert levels_off(u, np.r_[4, 3, 2, 1, np.zeros(12), 1]) is None  # the last point is above it
    shaken = 0.45 * np.array([1.0, -1, 0, -1, 1])
    assert levels_off(u, np.r_[np.full(12, 0.7), shaken]) is None  # no point is above it
    tail = np.r_[
        3, 2.5, 2, 1.5, 1.2, 1.16, 0.3, -0.6, 0.3
    ]  # three points, and sqrt(3) 0.3 of error
    assert levels_off(u[:9], tail) is None and levels_off(u[:9], np.r_[tail[:6], 0, 0, 0]) == 6
    assert (
        levels_off(u, np.r_[np.full(8, 0.7), np.zeros(9)]) == 8
    )  # no error: however little it fell
    for share, found in ((0.995, 12), (1.005, None)):
        at, v = kinked(share * 4 / 110)
        assert levels_off(at + 5, v) == found


def test_the_last_quarter_is_what_counts():
    """Falling before it, and level in it alone: of 17 points those from 12 on."""
    u = np.arange(17.0)
    assert levels_off(u, np.maximum(12 - u, 0)) == 12
    late = np.maximum(13 - u, 0)  # 1, 0, 0, 0, 0: median 0, deviation 0.4
    assert levels_off(u, late) is None
    four = np.arange(9.0)
    assert (
        levels_off(four[:8], np.r_[6.0, 5, 4, 3, 2, 1, 0, 0]) == 6
    )  # two points: no scatter is told


def test_what_is_precision_and_what_is_short():
    assert "precision floor" in precision(2.0, 2e-10) and "no lower" in precision(2.0, 2e-10 * MORE)
    assert (
        short_window(3, 12) == ""
        and "factor of 4" in short_window(3, 12 * LESS)
        and short_window(0, 1) == ""
    )
    assert "factor of 2" in short_window(0.5, 1)


# --- factors --------------------------------------------------------------------------------------
FACTOR = replace(
    fit_contraction(2 * 0.9 ** np.arange(61), window=(0, 60)),
    low=0.9, high=0.9, p_power=0.01, p_bend=0.01, halves=(0.9, 0.9), residual=0.1,
    power_residual=1.0,
)  # fmt: skip


def factor(kind="equal", confidence=0.95, **more):
    return told(
        _judge_contraction,
        replace(FACTOR, **more),
        0.9,
        0.1,
        kind,
        confidence,
        {"kind": "contraction"},
    )


@pytest.mark.parametrize(
    ("kind", "low", "high", "says"),
    [
        ("equal", 1.1, 0.9, ""), ("equal", 1.1 * MORE, 0.9, "inconclusive"),
        ("equal", 1.1, 0.9 * LESS, "inconclusive"),
        ("equal", 2, 1.1, "inconclusive"), ("equal", 2, 1.1 * MORE, "contradicted"),
        ("equal", 0.9, 0.5, "inconclusive"), ("equal", 0.9 * LESS, 0.5, "contradicted"),
        ("at least as fast", 90, 0.9, ""), ("at least as fast", 9, 0.9 * LESS, "inconclusive"),
        ("at least as slow", 1.1, 0, ""), ("at least as slow", 1.1 * MORE, 0, "inconclusive"),
    ],
)  # fmt: skip
def test_where_an_interval_of_a_factor_lies_within_what_is_claimed(kind, low, high, says):
    """Ends as powers of the claimed factor."""
    text = factor(kind, low=0.9**low, high=0.9**high)
    assert (says in text) if says else (text == "")


def test_a_power_law_beside_a_factor():
    well = 0.04 * 60 * -math.log(0.9)
    assert factor(p_power=0.0499) == "" and "power law is not rejected" in factor(p_power=0.0501)
    assert factor(p_power=0.0999, confidence=0.9) == "" and "not rejected" in factor(
        p_power=0.1001, confidence=0.9
    )
    power = {"p_power": 0.5, "power_residual": well * LESS}
    assert "the curve is a power law" in factor(**power, residual=2 * well)
    assert "the curve is a power law" not in factor(**power, residual=2 * well * LESS * LESS)
    assert "the curve is a power law" not in factor(
        **{**power, "power_residual": well * MORE}, residual=9.0
    )
    assert "grow, by a factor of 0.0018 over" in factor(low=1 * MORE, high=1.1)
    assert "grow" not in factor(low=1.0, high=1.1)
    assert f"fall by a factor of {0.9**-60:.3g} over it" in factor(p_power=0.0501)


def test_halves_that_differ_by_more_than_both_tolerances():
    """Twice a tenth of log(0.9) between them.

    For 'at least as fast' only where the second is too slow itself.
    """
    for apart, fine in ((0.2 * LESS, True), (0.2 * MORE, False)):
        for sign in (1, -1):
            halves = (0.9 ** (1 + sign * apart / 2), 0.9 ** (1 - sign * apart / 2))
            text = factor(halves=halves)
            assert (text == "") is fine and (fine or "factor changes over the window" in text)
            slow = factor(
                "at least as fast", halves=(0.9 ** (0.9 * LESS + apart), 0.9 ** (0.9 * LESS))
            )
            assert (slow == "") is fine
        assert factor("at least as fast", halves=(0.9**1.2, 0.9 ** (0.9 * MORE))) == ""
        assert factor("at least as fast", halves=(0.9**0.5, 0.9 ** (0.5 + apart))) == ""
    bent = {"halves": (0.9**2, 0.9)}
    assert "changes over the window" in factor(**bent, p_bend=0.0499)
    assert "by no more than their scatter" in factor(**bent, p_bend=0.0501)


def test_the_other_factor_must_lie_outside_the_interval():
    noise = 1 + 0.01 * np.cos(np.arange(61))
    found = fit_contraction(0.9 ** np.arange(61) * noise, window=(0, 60))
    for against, fine in (
        (found.low, False),
        (found.high, False),
        (found.low - 1e-9, True),
        (found.high + 1e-9, True),
    ):
        text = told(
            assert_contraction, 0.9 ** np.arange(61) * noise, 0.9, window=(0, 60), against=against
        )
        assert (text == "") is fine and (fine or "not told apart" in text)


# --- reaching -------------------------------------------------------------------------------------
def test_where_the_last_half_of_a_run_points_to():
    count = np.arange(101.0)
    later = np.maximum(count, 1)
    for slope, says in (
        (0.101, "it grows"),
        (0.099, "stopped falling"),
        (-0.00099, "stopped falling"),
        (-0.00101, "at its slope"),
    ):
        assert says in _forecast(count, later**slope, 1e-3)
    turned = np.where(
        count < 50, 1.0, (later / 50) ** -2.0
    )  # from 50 on it counts, and would be at 1e-4 after 5000
    assert "slope of -2.00" in _forecast(count, turned, 1e-4) and "about 5e+03" in _forecast(
        count, turned, 1e-4
    )
    turned[49] = 1e9
    assert "about 5e+03" in _forecast(count, turned, 1e-4)
    assert (
        _forecast(np.array([0.0, 1, 2]), np.array([3.0, 2, 1]), 0.1) == "the run never gets there"
    )  # two points of its last half
    assert "at its slope" in _forecast(
        np.array([0.0, 1, 2, 3, 4]), np.array([9.0, 4, 3, 2, 1]), 0.1
    )
    short = np.array([0.2, 0.4, 0.6, 0.8, 1.0])  # of a cost
    assert "at its slope of -1.00" in _forecast(short, 1 / short, 0.1)
    assert "at its slope of -1.00" in _forecast(2 * short, 1 / short, 0.1)
    zero = np.where(count == 80, 0.0, turned)
    assert "about 5e+03" in _forecast(count, zero, 1e-4)
    assert "about 1.01e+304" in _forecast(count, later**-0.002, 1e-3)


def test_which_runs_are_late():
    runs = np.stack([3 / np.arange(1.0, 200), 6 / np.arange(1.0, 200)], axis=1)
    assert assert_reaches(runs[:, 0], 0.03, within=100).tolist() == [100]
    assert "1 of 2 runs fail; the latest is run 1" in told(assert_reaches, runs, 0.0301, within=99)
    assert assert_reaches([0.05, 0.5], 0.1, within=0).tolist() == [0]


def test_what_a_failed_bound_says():
    text = told(assert_bound_holds, [1.0, 3.0, 2.0], [1.0, 0.5, 0.5])
    assert "worst entry [1]: measured 3, bound 0.5, 6 times the bound" in text
    assert "2 of 3 entries, the first at [1]" in text
    text = told(assert_bound_holds, [[1.0, 2.0, 3.0]], [2.0], confidence=0.9)
    assert "raise the number of seeds (more seeds)" in text
