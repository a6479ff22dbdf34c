"""Every assertion passes on what is true, fails on a planted error, and says why."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from cases import each

from fedtheory.errors import InvalidInput
from fedtheory.testing import assert_bound_holds, assert_contraction, assert_rate, assert_reaches

ROUNDS = np.arange(1, 2001)
WINDOW = (20, 2000)
ONE = np.r_[5.0, 3.0 / ROUNDS]
HALF = np.r_[5.0, 3.0 / np.sqrt(ROUNDS)]


def test_a_claim_needs_its_window():
    """Python's own words for a missing argument do not say what a window is."""
    with pytest.raises(InvalidInput, match=r"no window was given. Say which rounds the claim is about, as window=\(10, 1000\)"):
        assert_rate(ONE, -1)
    with pytest.raises(InvalidInput, match=r"no window was given.*as window=\(0, 100\)"):
        assert_contraction(ONE, 0.9)


def message(call, *arguments, **options):
    """Return what the failing assertion says."""
    with pytest.raises(AssertionError) as caught:
        call(*arguments, **options)
    return str(caught.value)


# --- assert_rate ----------------------------------------------------------------------------------
def test_right_rates_pass():
    assert assert_rate(ONE, -1, window=WINDOW).slope == pytest.approx(-1)
    assert_rate(HALF, -0.5, window=WINDOW)
    assert_rate(ONE, -1, window=WINDOW, against=-0.5)
    assert_rate(1 / np.geomspace(1e-3, 1e-1, 8), -1, x=np.geomspace(1e-3, 1e-1, 8), window=(1e-3, 1e-1))


def test_a_wrong_rate_fails_and_says_which_was_found():
    text = message(assert_rate, HALF, -1, window=WINDOW, schedule="constant step 0.3")
    assert "contradicted" in text and "slope -0.500" in text and "slower than claimed" in text
    assert "constant step 0.3" in text and "20 to 2000" in text and "What to do" in text
    assert "faster than claimed" in message(assert_rate, ONE, -0.5, window=WINDOW)


def test_a_growing_curve_is_told_as_growing():
    text = message(assert_rate, 1 / HALF, -1, window=WINDOW)
    assert "the values grow, where a decay is claimed" in text and "decay slower" not in text
    assert "grow faster than claimed" in message(assert_rate, 1 / ONE, 0.5, window=WINDOW)


def test_one_sided_claims():
    assert_rate(ONE, -0.5, window=WINDOW, kind="at least as fast")  # an upper bound is met by a faster method
    assert_rate(HALF, -1, window=WINDOW, kind="at least as slow")
    assert "at least as fast" in message(assert_rate, HALF, -1, window=WINDOW, kind="at least as fast")
    assert "no faster than" in message(assert_rate, ONE, -0.5, window=WINDOW, kind="at least as slow")


def test_a_noisy_curve_is_inconclusive_and_does_not_pass():
    rng = np.random.default_rng(0)
    noisy = ONE * np.exp(1.5 * rng.normal(size=len(ONE)))
    text = message(assert_rate, noisy, -1, window=WINDOW, max_points=6)
    assert "inconclusive" in text and "more seeds" in text
    seeds = ONE[:, None] * np.exp(1.5 * rng.normal(size=(len(ONE), 400)))
    assert_rate(seeds, -1, window=WINDOW)  # what the message advised


def test_a_generous_tolerance_does_not_hide_the_wrong_exponent():
    assert_rate(ONE, -1.4, window=WINDOW, tolerance=0.5)
    text = message(assert_rate, ONE, -1.4, window=WINDOW, tolerance=0.5, against=-1.0)
    assert "not told apart" in text and "exponent -1" in text


def test_a_rate_measured_below_the_floor_of_the_optimum_fails_without_it():
    floor = 2e-3
    values = np.r_[5.0, 3.0 / ROUNDS + floor]
    optimum = SimpleNamespace(value=1.0 + floor, lower_bound=1.0)
    assert_rate(values, -1, window=WINDOW, optimum=optimum)
    assert "slower than claimed" in message(assert_rate, values, -1, window=WINDOW, tolerance=0.1)


@each(
    ("options", "text"),
    [
        ({"kind": "roughly"}, "kind"),
        ({"tolerance": 0.0}, "tolerance"),
        ({"tolerance": 1j}, "tolerance"),
        ({"against": np.nan}, "against"),
        ({"confidence": 2}, "confidence"),
        ({"confidence": True}, "confidence"),
        ({"window": (20,)}, "window"),
        ({"window": None}, "window"),
        ({"window": (np.nan, 20)}, "window"),
        ({"floor": np.nan}, "floor"),
        ({"max_points": "a"}, "max_points"),
        ({"first_round": 0.5}, "first_round"),
        ({"optimum": 3}, "lower_bound"),
        ({"colour": 3}, "colour is no option"),
        ({"window": (5000, 6000)}, "the window ends at 6000, the data at 2000"),
        ({"window": (10, 1e9)}, "end the window there"),
        ({"window": (10, 500), "x": np.arange(len(ONE)) + 100.0}, "begins at 10, the data at 100"),
        ({"window": (1500.2, 1502.9)}, "usable points"),
        ({"x": np.arange(len(ONE)), "optimum": SimpleNamespace(value=1.0, lower_bound=1.0)}, "floor="),
    ],
)
def test_bad_input_to_assert_rate(options, text):
    with pytest.raises(InvalidInput, match=text):
        assert_rate(ONE, -1, **{"window": WINDOW, **options})


def test_a_rate_is_shown_on_the_window_or_not_at_all():
    ended = np.where(np.arange(201) < 50, 1 / (1.0 + np.arange(201)), 0.0)
    text = message(assert_rate, ended, -1, window=(10, 200))
    assert "inconclusive" in text and "151 with a value of 0 or less" in text and "end the window before" in text
    assert_rate(ended, -1, window=(10, 49))
    assert_rate(ended, -0.5, window=(10, 200), kind="at least as fast")  # 0 is below every upper bound
    assert_rate(1 / (1.0 + np.arange(201)), -1, window=(10, np.inf))
    assert_rate(1 / (1.0 + np.arange(0, 2001, 150)), -1, x=1.0 + np.arange(0, 2001, 150), window=(1, 2000))  # up to 1951


# --- assert_bound_holds ---------------------------------------------------------------------------
def test_exact_bounds():
    check = assert_bound_holds(ONE, np.r_[6.0, 3.0 / ROUNDS])  # attained everywhere but at the start
    assert check.tightness == pytest.approx(1.0) and check.count == 2001
    assert_bound_holds([1.0 + 1e-10], [1.0])  # rounding


def test_a_bound_that_is_too_small_names_the_entry():
    bound = np.r_[6.0, 3.0 / ROUNDS]
    bound[700] *= 1 - 1e-6
    text = message(assert_bound_holds, ONE, bound, factor_hint="Theorem 1, right-hand side")
    assert "violated" in text and "worst entry [700]" in text and "1 of 2001" in text and "Theorem 1" in text
    assert "measured 0.004285714286" in text and "excess 4.286e-09" in text
    matrix = np.zeros((3, 4))
    matrix[1, 2] = 1.0
    assert "worst entry [1, 2]" in message(assert_bound_holds, matrix, 0.5)
    assert_bound_holds(matrix, 0.5, noise=0.6)  # the uncertainty of what was measured
    assert "violated" in message(assert_bound_holds, matrix, 0.5, noise=0.4)


def test_statistical_bounds():
    rng = np.random.default_rng(0)
    gaps = np.array([3.0, 2.0, 1.0])[:, None] + rng.normal(size=(3, 400))
    assert_bound_holds(gaps, [3.5, 2.5, 1.5], confidence=0.99)
    assert "violated" in message(assert_bound_holds, gaps, [3.5, 1.5, 1.5], confidence=0.99)
    text = message(assert_bound_holds, gaps, [3.5, 2.5, 1.05], confidence=0.99)
    assert "inconclusive" in text and "worst entry [2]" in text and "mean of 400 seeds" in text
    many = 1.0 + rng.normal(size=(1, 40_000))
    assert_bound_holds(many, [1.05], confidence=0.99)  # what the message advised


def test_single_seeds_may_exceed_a_bound_on_the_mean_but_not_an_exact_one():
    gaps = np.array([[0.5, 1.2, 0.4, 0.6, 0.5, 0.3]])
    assert_bound_holds(gaps, [1.0], confidence=0.95)
    assert "worst entry [0, 1]" in message(assert_bound_holds, gaps, 1.0)


def test_error_probability_is_shared_out_over_the_entries():
    """2000 true statements, each with its mean at the bound: hardly ever called violated."""
    calls = 0
    for run in range(40):
        gaps = np.random.default_rng(run).normal(size=(2000, 30))
        try:
            assert_bound_holds(gaps, 0.0, confidence=0.95)
        except AssertionError as error:
            calls += "violated" in str(error)
    assert calls <= 7  # 2 expected; without Bonferroni all 40


def test_seeds_that_do_not_vary_are_judged_exactly():
    assert_bound_holds(np.ones((2, 5)), 1.0, confidence=0.99)
    assert "violated" in message(assert_bound_holds, np.ones((2, 5)), [1.0, 1 - 1e-6], confidence=0.99)


@each(
    ("measured", "bound", "options", "text"),
    [
        ([1.0], [np.nan], {}, r"bound\[0\] is nan"),
        ([2.0, 2.0], [3.0, np.inf], {}, r"bound\[1\] is inf: it shows nothing"),
        ([2.0], [-np.inf], {}, r"bound\[0\] is -inf"),
        *(([2.0], [1.0], {"rtol": bad}, "rtol is ") for bad in (np.nan, np.inf, -1.0, 1.0, 1j, "a", True)),
        *(([2.0], [1.0], {"noise": bad}, "noise") for bad in (np.nan, np.inf, -1.0, 1j, "a", [0.1, -0.2], [1.0, 2.0, 3.0])),
        ([2.0 + 1j], [3.0], {}, "measured holds complex"),
        ([2.0], [3.0 + 0j], {}, "bound holds complex"),
        ([[1.0, 2.0]], [3.0], {"confidence": True}, "confidence"),
        ([1.0, 2.0], [1.0, 2.0, 3.0], {}, "broadcast"),
        ([[1.0]], [1.0], {"confidence": 0.9}, "2 seeds"),
        ([[1.0, 2.0]], [1.0], {"confidence": 1.9}, "confidence"),
        ([], [], {}, "empty"),
    ],
)
def test_bad_input_to_assert_bound_holds(measured, bound, options, text):
    with pytest.raises(InvalidInput, match=text):
        assert_bound_holds(measured, bound, **options)


# --- runs that diverged ---------------------------------------------------------------------------
@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
def test_a_run_that_diverged_fails_as_such_at_its_first_entry(bad):
    """Whatever is claimed: it is neither slow, nor a matter of more seeds, nor bad input."""
    one, two = ONE.copy(), np.stack([ONE, ONE], axis=1)
    one[700:], two[700:, 1] = bad, bad
    calls = [
        ("values[700] (round 700)", assert_rate, one, -1, {"window": WINDOW}),
        ("values[700, 1] (round 700, seed 1)", assert_rate, two, -1, {"window": WINDOW, "kind": "at least as slow"}),
        ("measured[700]", assert_bound_holds, one, 10.0, {}),
        ("measured[700, 1] (seed 1)", assert_bound_holds, two, 10.0, {"confidence": 0.9}),
        ("values[700] (round 700)", assert_reaches, one, 1e-3, {"within": 10}),
        ("values[700, 1] (round 700, run 1)", assert_reaches, two, 1e-3, {"within": 10}),
    ]
    for place, call, values, claim, options in calls:
        text = message(call, values, claim, **options)
        assert "diverged" in text and f"{place} is {bad}, and 1300 more of {values.size}" in text and "step size" in text
        assert not any(word in text for word in ("inconclusive", "slower", "seeds (", "violated", "not reached"))


def test_with_x_infinity_says_never_reached():
    """Rounds to epsilon against epsilon: inf is left out, and NaN is still no number."""
    epsilons = np.geomspace(1e-3, 1e-1, 8)
    rounds = np.r_[np.inf, 1 / epsilons[1:]]
    assert assert_rate(rounds, -1, x=epsilons, window=(1e-3, 1e-1)).points == 7
    rounds[3] = np.nan
    assert "values[3] (entry 3) is nan" in message(assert_rate, rounds, -1, x=epsilons, window=(1e-3, 1e-1))


def test_a_measured_number_so_large_that_sums_overflow_is_judged():
    assert "violated" in message(assert_bound_holds, [1.7e308], [1e308])
    assert "inconclusive" in message(assert_bound_holds, [[1.7e308, 1e300]], [1e308], confidence=0.9)
    assert_bound_holds([1e308], [1.7e308])


def test_a_constant_curve_has_slope_zero_exactly():
    found = assert_rate(np.full(2001, 0.5), 0, window=WINDOW)
    assert (found.low, found.high) == (0, 0)


# --- assert_reaches -------------------------------------------------------------------------------
def test_reaching():
    assert assert_reaches(ONE, 0.03, within=101).tolist() == [101]
    assert assert_reaches(np.stack([ONE, ONE / 2], axis=1), 0.03, within=101).tolist() == [101, 51]
    assert assert_reaches(ONE, 0.03, within=1010, cost=10 * np.arange(len(ONE))).tolist() == [1010]


def test_too_slow_says_by_how_much():
    text = message(assert_reaches, ONE, 0.03, within=90)
    assert "0.0333333 (at 90), 1.111 times the target" in text and "gets there at 101" in text
    text = message(assert_reaches, np.stack([ONE / 2, ONE], axis=1), 0.03, within=90)
    assert "1 of 2 runs" in text and "run 1" in text


def test_never_reaching_says_why():
    far = message(assert_reaches, ONE, 1e-4, within=2000)
    assert "slope of -1.00" in far and "about 3e+04" in far
    assert "stopped falling" in message(assert_reaches, np.full(100, 0.5), 0.1, within=99)
    assert "run longer" in message(assert_reaches, ONE, 1e-3, within=10_000)


def test_staying_below():
    gaps = np.array([1.0, 0.05, 0.5, 0.05, 0.05])
    assert assert_reaches(gaps, 0.1, within=1).tolist() == [1]
    assert "stays below only from 3" in message(assert_reaches, gaps, 0.1, within=1, stay=True)
    assert assert_reaches(gaps, 0.1, within=1, stay=True, iterate="best").tolist() == [1]
    assert "does not stay" in message(assert_reaches, gaps[:3], 0.1, within=2, stay=True)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"target": 0.0}, "> 0"),
        ({"within": -1}, "within"),
        ({"iterate": "averaged"}, "last"),
        ({"within": np.nan}, "within"),
        ({"target": [0.1, 0.2]}, "target"),
        ({"target": 1j}, "target"),
        ({"values": [1j, 0.0]}, "complex"),
        ({"stay": "no"}, "stay"),
        ({"cost": -np.arange(len(ONE))}, "cannot fall"),
        ({"cost": np.full(len(ONE), np.nan)}, "cost"),
    ],
)
def test_bad_input_to_assert_reaches(options, text):
    arguments = {"values": ONE, "target": 0.1, "within": 10, **options}
    with pytest.raises(InvalidInput, match=text):
        assert_reaches(arguments.pop("values"), arguments.pop("target"), **arguments)


FROM_ONE = np.arange(1.0, 1001.0)


@pytest.mark.parametrize(
    "values, told",
    [
        (np.ones(1000), "level at about 1 over the whole window"),
        (3 / FROM_ONE + 0.05, "bends towards a level of about 0.05: the method gets no lower: a bias"),
    ],
    ids=["level", "bias"],
)
def test_a_level_is_named(values, told):
    with pytest.raises(AssertionError, match=told):
        assert_rate(values, -1, window=(10, 1000), first_round=1)


def test_a_run_that_grows_is_not_said_to_have_stopped_falling():
    with pytest.raises(AssertionError, match=r"it grows .* as runs do that diverge"):
        assert_reaches(2.0 ** np.arange(50), 1e-3, within=40)


def test_seeds_first_are_told_that_rounds_come_first():
    with pytest.raises(InvalidInput, match="hand over rounds first"):
        assert_rate(np.tile(1 / FROM_ONE, (5, 1)), -1, window=(10, 500))
