"""A geometric rate passes, and everything that is none fails by its name."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest

from fedtheory.errors import InvalidInput
from fedtheory.rates import fit_contraction
from fedtheory.testing import ConvergenceFailure, assert_contraction, assert_rate

T = np.arange(201)
GEOMETRIC = 3 * 0.9**T
POWER = np.r_[3.0, 3.0 / T[1:]]


def failure(call, *arguments, **options) -> ConvergenceFailure:
    with pytest.raises(ConvergenceFailure) as caught:
        call(*arguments, **options)
    return caught.value


def test_the_factor_is_found_with_an_interval_that_holds_it():
    assert fit_contraction(GEOMETRIC, window=(0, 100)).factor == pytest.approx(0.9, rel=1e-12)
    rng = np.random.default_rng(0)
    hits = 0
    for _ in range(200):
        found = fit_contraction(GEOMETRIC * np.exp(0.2 * rng.standard_normal(len(T))), window=(1, 100))
        hits += found.low <= 0.9 <= found.high
    assert 180 <= hits <= 199  # 95 % of 200 is 190


def test_seeds_that_share_their_noise_widen_the_interval():
    rng = np.random.default_rng(1)
    tilted = GEOMETRIC[:, None] * np.exp(0.005 * T[:, None] * rng.standard_normal(12))  # straight for every seed
    one = fit_contraction(tilted[:, 0], window=(1, 100))
    many = fit_contraction(tilted, window=(1, 100))
    assert many.high - many.low > 10 * (one.high - one.low) and "12 seeds" in str(many)


def test_a_geometric_rate_passes_and_wrong_factors_do_not():
    assert assert_contraction(GEOMETRIC, 0.9, window=(0, 200)).halves == pytest.approx((0.9, 0.9))
    assert_contraction(GEOMETRIC, 0.9, window=(1, 100), against=1.0)
    assert_contraction(GEOMETRIC, 0.95, window=(1, 100), kind="at least as fast")
    assert_contraction(GEOMETRIC, 0.85, window=(1, 100), kind="at least as slow")
    text = str(failure(assert_contraction, GEOMETRIC, 0.8, window=(1, 100), schedule="1/beta"))
    assert "contradicted" in text and "slower" in text and "factor 0.9" in text and "1/beta" in text
    assert "faster" in str(failure(assert_contraction, GEOMETRIC, 0.97, window=(1, 100)))
    assert "slower" in str(failure(assert_contraction, GEOMETRIC, 0.85, window=(1, 100), kind="at least as fast"))
    assert "faster" in str(failure(assert_contraction, GEOMETRIC, 0.95, window=(1, 100), kind="at least as slow"))


def test_the_tolerance_is_a_share_of_the_rounds_a_digit_costs():
    for factor in (0.5, 0.9, 0.999):
        allowed = factor ** (1 / 1.08)  # 8 % more rounds a digit
        values = allowed ** np.arange(301)
        assert_contraction(values, factor, window=(1, 30), tolerance=0.1)
        assert "contradicted" in str(failure(assert_contraction, values, factor, window=(1, 30), tolerance=0.05))


def test_a_power_law_is_told_as_one_whatever_factor_is_claimed():
    found = fit_contraction(POWER, window=(10, 100))
    text = str(failure(assert_contraction, POWER, found.factor, window=(10, 100), tolerance=0.9))
    assert "No geometric rate: the curve is a power law" in text and "x**-1" in text
    assert "power law" in str(failure(assert_contraction, POWER, 0.999, window=(10, 100), kind="at least as fast"))
    assert_contraction(POWER, 0.9, window=(10, 100), kind="at least as slow")  # a lower bound's claim is true of it


def test_a_geometric_rate_is_told_where_a_power_is_claimed():
    text = str(failure(assert_rate, 3 * 0.99**T, -1, window=(10, 200)))
    assert "why:      the curve bends: a geometric rate of factor 0.99 fits it better" in text


def test_a_curve_that_levels_off_is_told_with_its_level():
    text = str(failure(assert_contraction, GEOMETRIC + 1e-6, 0.9, window=(0, 200)))
    assert "levels off" in text and "1e-06" in text and "bias" in text
    text = str(failure(assert_contraction, GEOMETRIC * 1e-3**T + 1e-16, 0.9, window=(0, 60)))
    assert "precision floor" in text
    text = str(failure(assert_rate, POWER + 0.5, -1, window=(1, 200)))
    assert "why:      the values level off at about 0.5" in text and "bias" in text
    text = str(failure(assert_rate, np.maximum(POWER**8, 1e-7), -8, window=(1, 200)))
    assert "precision floor of F* or of float64" in text


def test_the_floor_of_an_optimum_ends_the_curve():
    optimum = SimpleNamespace(value=1.0 + 1e-7, lower_bound=1.0)
    found = assert_contraction(GEOMETRIC + 1e-7, 0.9, window=(0, 200), optimum=optimum)
    assert "precision floor" in found.excluded[0] and found.x[-1] < 160


def test_noise_lets_hardly_any_power_law_pass_and_hardly_any_factor_fail():
    passed = {"power": 0, "factor": 0}
    for seed in range(120):
        noise = np.exp(0.05 * np.random.default_rng(seed).standard_normal(len(T)))
        power = POWER * noise
        fitted = fit_contraction(power, window=(60, 90)).factor
        claims = {"power": (power, fitted, (60, 90), 0.5), "factor": (GEOMETRIC * noise, 0.9, (0, 60), 0.1)}
        for name, (values, claimed, window, tolerance) in claims.items():
            try:
                assert_contraction(values, claimed, window=window, tolerance=tolerance)
                passed[name] += 1
            except ConvergenceFailure:
                pass
    assert passed["power"] <= 15 and passed["factor"] >= 115  # of 120; at 95 % 6 power laws are expected to pass


def test_growth_is_divergence():
    text = str(failure(assert_contraction, 1 / GEOMETRIC, 0.9, window=(0, 100)))
    assert "contradicted" in text and "the run diverges" in text and "step size" in text
    assert "the run diverges" in str(failure(assert_rate, 1.1**T, -1, window=(10, 200)))
    text = str(failure(assert_contraction, np.r_[GEOMETRIC[:50], np.inf], 0.9, window=(0, 40)))
    assert text.startswith("Run diverged.") and "values[50] (round 50) is inf" in text


def test_too_short_windows_are_told_as_such():
    with pytest.raises(InvalidInput, match=r"window is too short: 5 usable rounds in \[3, 7\], at least 6"):
        assert_contraction(GEOMETRIC, 0.9, window=(3, 7))
    optimum = SimpleNamespace(value=1.0 + 1e-3, lower_bound=1.0)
    with pytest.raises(InvalidInput, match=r"window lies at the precision floor: 0 usable rounds in \[80, 120\]"):
        assert_contraction(GEOMETRIC, 0.9, window=(80, 120), optimum=optimum)
    rng = np.random.default_rng(9)
    noisy = 3 * 0.99**T * np.exp(0.05 * rng.standard_normal(len(T)))
    text = str(failure(assert_contraction, noisy, 0.99, window=(60, 90), tolerance=0.25))
    assert "the two halves differ, by no more than their scatter" in text and "longer window" in text
    text = str(failure(assert_contraction, noisy, 0.99, window=(60, 90), tolerance=0.9))
    assert "power law is not rejected" in text and "the window is short" in text
    assert_contraction(noisy, 0.99, window=(1, 200), tolerance=0.3)
    curve = POWER * np.exp(0.2 * rng.standard_normal(len(T)))
    assert "why:      the window is short" in str(failure(assert_rate, curve, -1, window=(60, 90)))


def test_a_factor_that_changes_is_none():
    two = 0.5**T + 1e-7 * 0.9**T  # fast at first
    text = str(failure(assert_contraction, two, 0.9, window=(0, 60)))
    assert "No geometric rate: the factor changes over the window" in text and "first rounds" in text
    assert_contraction(two, 0.9, window=(40, 150))
    assert_contraction(0.9 ** (T**1.2), 0.9, window=(1, 100), kind="at least as fast")  # faster and faster is at least as fast


def test_values_that_are_not_positive_are_no_rate():
    text = str(failure(assert_contraction, GEOMETRIC - 1e-6, 0.9, window=(0, 200)))
    assert "not all values of the window are positive" in text
    assert_contraction(GEOMETRIC, 0.9, window=(0, math.inf))


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"claimed": 1.0}, "claimed"), ({"claimed": -1}, "claimed"), ({"tolerance": 1.5}, "tolerance"), ({"kind": "nearly"}, "kind"),
        ({"window": (5, 5)}, "window"), ({"window": "all"}, "window"), ({"window": (0, 900)}, "the data at 200"),
        ({"against": 2.0}, "against"), ({"points": 3}, "points is no option"), ({"max_points": 3}, "max_points"),
        ({"values": np.ones((2, 2, 2))}, "shape"), ({"values": []}, "shape"), ({"confidence": 95}, "confidence"),
    ],
)  # fmt: skip
def test_bad_arguments_are_named(options, text):
    given = {"values": GEOMETRIC, "claimed": 0.9, "window": (0, 100), **options}
    with pytest.raises(InvalidInput, match=text):
        assert_contraction(given.pop("values"), given.pop("claimed"), **given)


def test_a_geometric_curve_passes_as_a_power_where_it_falls_little_and_fails_where_it_falls_far():
    rounds = np.arange(1, 101)
    for fallen, passes in ((3.0, True), (100.0, False)):  # over rounds 10 to 100
        values, claimed = fallen ** (-rounds / 90), -np.log10(fallen)
        if passes:
            assert_rate(values, claimed, window=(10, 100), first_round=1)
        else:
            with pytest.raises(AssertionError):
                assert_rate(values, claimed, window=(10, 100), first_round=1)


def test_the_interval_of_a_factor_covers_it_as_often_as_it_says_and_not_where_rounds_scatter_alike():
    generator, covered = np.random.default_rng(3), []
    for memory in (0.0, 0.9):
        hits = 0
        for _ in range(200):
            noise = generator.normal(size=61)
            for t in range(1, 61):
                noise[t] = memory * noise[t - 1] + np.sqrt(1 - memory**2) * noise[t]
            found = fit_contraction(0.95 ** np.arange(61) * np.exp(0.2 * noise), window=(0, 60))
            hits += found.low <= 0.95 <= found.high
        covered.append(hits / 200)
    assert covered[0] > 0.9
    assert covered[1] < 0.8  # what the docstring warns of
