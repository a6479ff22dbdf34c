"""Compressors at the ends: the smallest and largest floats, draws of 0 and almost 1, signed zeros, steps that must be rounded up."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from cases import each
from compressors_at_hand import COMPRESSORS, fractions

from fedtheory import messages

torch = pytest.importorskip("torch")


@each("compressor", COMPRESSORS)
def test_extreme_magnitudes(compressor) -> None:
    """Messages of the size of the smallest floats; and large ones, whose sums and squares overflow, are sent as small ones are."""
    x = np.array([1.0, -3.0, 0.0, 2.0, 3.0, -1.0])
    for u in (0.0, 0.3, 0.5, 1 - 2.0**-53):
        uniforms = np.full(6, u) + np.arange(6) * 2.0**-60
        for scale in (5e-324, 1e-310, 1e-160):
            sent = compressor.compress(scale * x, uniforms)
            assert np.isfinite(sent).all() and not (np.signbit(sent) & (sent == 0)).any()
            encoded = compressor.encode(sent)
            assert compressor.decode(encoded, 6).tobytes() == sent.tobytes()
        if not isinstance(compressor, messages.Threshold) and getattr(compressor, "step", None) != 0.25:
            for scale in (2.0**-900, 2.0**1021):
                assert (compressor.compress(scale * x, uniforms) == scale * compressor.compress(x, uniforms)).all()


def test_the_ends_of_the_unit_interval() -> None:
    """A grid point stays, also for u = 0; a sure change happens, also for the largest u."""
    for compressor in (
        messages.NaturalRounding(),
        messages.StochasticRounding(0.25),
        messages.QSGD(1),
        messages.StochasticRounding(),
    ):
        x = np.array([0.0, 2.0, 0.0])
        assert (compressor.compress(x, np.zeros(3)) == x).all()
    top = torch.asarray([3.0, -3.0], dtype=torch.float32)
    for last in (1 - 2.0**-53, 1 - 2.0**-25):  # single precision would make them 1
        assert (messages.StochasticRounding().compress(top, np.full(2, last)) == top).all()


def test_a_ternary_magnitude_is_rounded_up() -> None:
    """Rounded down, the largest entry would be kept with a probability above 1, and its expectation fall short."""
    x = np.array([1 + 2.0**-30, 0.5])
    ternary = messages.StochasticRounding(float_bits=32)
    assert np.abs(ternary.compress(x, np.zeros(2))).max() == 1 + 2.0**-23
    np.testing.assert_allclose(ternary.expected(x), x, rtol=1e-15)


def test_negative_zeros_are_not_sent() -> None:
    x = np.array([-0.0, -0.0, -1.0])
    for compressor in (
        messages.TopK(2),
        messages.ST(1.0),
        messages.RandomK(3),
        messages.Threshold(0.0),
        messages.QSGD(1),
    ):
        for library in (np.asarray, torch.asarray):
            sent = np.asarray(compressor.compress(library(x), np.zeros(3)))
            assert (np.signbit(sent) == [False, False, True]).all()


def test_sign_of_zero_is_plus() -> None:
    assert (messages.ScaledSign().compress(np.array([0.0, -0.0, 4.0, -4.0])) == [2.0, 2.0, 2.0, -2.0]).all()
    lost = messages.ScaledSign().compress(np.array([-5e-324, 0.0, 0.0]))  # the mean is below the smallest float
    assert not lost.any() and not np.signbit(lost).any()


@pytest.mark.parametrize("float_bits", [64, 32])
@pytest.mark.parametrize("levels", [1, 2, 3, 7, 1000])
def test_qsgd_steps_are_short_and_not_below_the_norm(levels, float_bits) -> None:
    """So short that every multiple up to levels is a float, and at least ||x||/levels, by less than 2^-(digits - 1) relatively."""
    compressor = messages.QSGD(levels, float_bits=float_bits)
    digits = {64: 53, 32: 24}[float_bits] - levels.bit_length()
    x = np.random.default_rng(levels).normal(size=(50, 3))
    for row, c in zip(fractions(x), compressor.step(x)[:, 0]):
        norm_sq = (row * row).sum()
        for step, tolerance in ((Fraction(c), Fraction(1, 2**49)), (compressor.step(row)[0], 0)):
            odd = step.numerator // (step.numerator & -step.numerator)
            assert odd.bit_length() <= digits
            assert (
                norm_sq * (1 - tolerance)
                <= (step * levels) ** 2
                <= norm_sq * (1 + Fraction(1, 2 ** (digits - 1)) + tolerance) ** 2
            )


def test_qsgd_with_a_step_that_had_to_be_rounded_up() -> None:
    """A largest entry that rounding would put above the highest level; and the factor, which the longer step makes larger."""
    for levels, entry in ((3, "0x1.e7991cf4c446bp+0"), (6, "0x1.e90ff2294d4d5p+1"), (7, "0x1.f81403481d0d3p+1")):
        x = np.array([float.fromhex(entry)])
        assert Fraction(messages.QSGD(levels).step(x)[0]) * levels >= Fraction(x[0])
    for compressor in (
        messages.QSGD(1),
        messages.QSGD(1, float_bits=32),
    ):  # the norm is irrational, and all entries equal the worst
        left, right = compressor.variance_sides(fractions([1] * 15))
        assert 15 * (15**0.5 - 1) < left <= right


def test_no_contraction_where_the_variance_is_as_large_as_the_message() -> None:
    for compressor in (messages.QSGD(1), messages.StochasticRounding(), messages.RandomK(10, scaled=True)):
        assert compressor.variance(100) > 1 and compressor.contraction(100) is None
