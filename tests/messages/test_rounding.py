"""Random rounding by hand, in fractions and floats: expectations, magnitudes of many messages at once, limits from both sides."""

from __future__ import annotations

import math
import re
from fractions import Fraction as F

import array_api_strict
import numpy as np
import pytest
from compressors_at_hand import fractions

from fedtheory import messages
from fedtheory.arrays import to_numpy
from fedtheory.errors import InvalidInput
from fedtheory.messages.base import entries_kept, mean_of, signed
from fedtheory.messages.rounding import _power_below

Natural, Stochastic = messages.NaturalRounding, messages.StochasticRounding
FLOATS = [np.asarray, array_api_strict.asarray]
LOUD = {"over": "raise", "divide": "raise", "invalid": "raise"}
SINGLE = [lambda v: np.asarray(v, dtype=np.float32), lambda v: array_api_strict.asarray(v, dtype=array_api_strict.float32)]


def test_powers_of_two_below():
    for value, power in ((0, 0), (1, 1), (3, 2), (F(4, 7), F(1, 2)), (F(1, 4), F(1, 4)), (F(5, 16), F(1, 4)), (F(7, 8), F(1, 2))):
        assert _power_below(F(value)) == power


@pytest.mark.parametrize(
    ("compressor", "x", "error_sq"),
    [
        # 3 between 2 and 4, one half of the way; -5 between 4 and 8, a quarter: 1/2 + 1/2, 3/4 1 + 1/4 9
        (Natural(), [[3, -5], [0, F(3, 8)]], [4, F(1, 64)]),
        # steps of 2/3: 1 is 3/2 of them, -1/2 is 3/4, -1/6 a quarter, and 2/3 is one
        (Stochastic(F(2, 3)), [[1, F(-1, 2)], [F(-1, 6), F(2, 3)]], [F(4, 9) * (F(1, 4) + F(3, 16)), F(4, 9) * F(3, 16)]),
        # 3 of 4 and 1/3 of 1/2: a |x|_1 - |x|^2; of nothing nothing is sent
        (Stochastic(), [[3, -4], [F(-1, 3), F(1, 2)], [0, 0]], [28 - 25, F(5, 12) - F(13, 36), 0]),
        (Stochastic(float_bits=32), [[F(1, 3), F(-1, 6)], [0, 0]], [F(1, 6) - F(5, 36), 0]),
    ],
)
def test_expectations(compressor, x, error_sq):
    x = fractions(x)
    assert compressor.expected(x).tolist() == x.tolist() and compressor.expected_error_sq(x).tolist() == error_sq
    assert all(isinstance(v, F | int) for v in [*compressor.expected(x).ravel(), *compressor.expected_error_sq(x)])
    for library in FLOATS:
        with np.errstate(**LOUD):
            values = library(x.astype(float))
            np.testing.assert_allclose(to_numpy(compressor.expected(values)), x.astype(float), rtol=1e-15)
            error = compressor.expected_error_sq(values)
            assert type(error) is type(values)
            np.testing.assert_allclose(to_numpy(error), np.array(error_sq, float), rtol=1e-6, atol=1e-15)


def test_a_magnitude_that_is_short_stays():
    """As it is where it is a 32-bit float, else the next above; each message has its own."""
    x = np.array([[1.5, -0.75], [1 + 2.0**-30, 0.5], [0.0, 0.0]])
    sent = Stochastic(float_bits=32).compress(x, np.zeros(x.shape))
    assert sent.tolist() == [[1.5, -1.5], [1 + 2.0**-23, 1 + 2.0**-23], [0.0, 0.0]]


@pytest.mark.parametrize(
    ("compressor", "made", "most"), [(Natural(), FLOATS, 1023), (Natural(float_bits=32), FLOATS, 127), (Natural(), SINGLE, 127)]
)
def test_the_ends_of_natural_rounding(compressor, made, most):
    """The largest power stays, a little more is refused; below the smallest, 1 - most, it is that power or nothing."""
    largest, least = 2.0**most, 2.0 ** (1 - most)
    for library in made:
        with np.errstate(**LOUD):
            x = library([[largest, -largest], [least, 0.0]])
            assert to_numpy(compressor.expected(x)).tolist() == to_numpy(x).tolist()
        for entry, sent in ((0.75 * least, [-least, 0.0]), (1.5 * least, [-2 * least, -least])):
            two = library([-entry, -entry])
            u = np.array([0.4, 0.9 if entry < least else 0.6])
            assert to_numpy(compressor.compress(two, u)).tolist() == sent
        above = to_numpy(library([1.0]))[0] * largest * (1 + 2.0**-20)
        says = rf"^entry \(1, 0\) of the message is .*, above 2\^{most}, the largest power of two on the wire: scale it down"
        with pytest.raises(InvalidInput, match=says):
            compressor.expected(library([[largest, 1.0], [above, 1.0], [2.0, above]]))


def test_the_ends_of_grids():
    """2^51 steps are taken, half a step more is refused, and so is what overflows when it is divided."""
    grid = Stochastic(0.5)
    for library in FLOATS:
        assert float(grid.expected(library([2.0**50]))[0]) == 2.0**50
        says = re.escape(f"entry (0, 1) of the message is {-(2.0**50) - 0.25}, more than 2^51 steps of 0.5: use a larger step")
        with pytest.raises(InvalidInput, match=says):
            grid.expected(library([[2.0**50, -(2.0**50) - 0.25], [2.0**50, -(2.0**52)]]))
        with np.errstate(**LOUD), pytest.raises(InvalidInput, match="more than 2"):
            Stochastic(1e-300).expected(library([1e300]))
    with np.errstate(**LOUD):
        wide = Stochastic(2.0**120)  # a multiple that is no 32-bit float
        assert wide.bits(np.array([3 * 2.0**130])) == 2 * 13 - 1  # gamma(2 * 3 * 2^10), of 13 digits
        with pytest.raises(InvalidInput, match="no multiple of 1e-300"):
            Stochastic(1e-300).bits(np.array([1e300]))
    with pytest.raises(InvalidInput, match=r"where stochastic sends 0 or ±2\.0: encode what"):
        Stochastic().bits(np.array([1.0, 2.0]))
    with pytest.raises(InvalidInput, match=r"where stochastic sends 0 or ±2\.0: encode what"):
        Stochastic().encode(np.array([1.0, 2.0]))
    for step in (0, 0.0, -1.0, math.inf, "1"):
        with pytest.raises(InvalidInput, match=r"^step is .*it is the spacing of the grid; None rounds to 0, ±max"):
            Stochastic(step)
    assert Stochastic(5e-324).step == 5e-324


def test_means_that_overflow_on_the_way():
    """The sum of one message overflows and its mean does not; beside it one whose sum does not; a mean that overflows is refused."""
    unit = 2.0**1020
    for library in FLOATS:
        both = library([[8 * unit, 8 * unit, 4 * unit], [3 * unit, 2 * unit, unit]])
        with np.errstate(**LOUD):
            assert to_numpy(mean_of(both, 2)).tolist() == [[10 * unit], [3 * unit]]
            with pytest.raises(InvalidInput, match=r"^the magnitude sent, a sum over 1, overflows: scale the message down"):
                mean_of(both, 1)


def test_how_many_entries_are_kept():
    """0.07 of 100 is 7 up to rounding; a fraction is what it is."""
    assert 0.07 * 100 != 7
    for q in (0.07, F(7, 100)):
        assert entries_kept(q, 100) == 7 and isinstance(entries_kept(q, 100), int)
    assert entries_kept(F(7, 100) + F(1, 2**60), 100) == 7 + F(100, 2**60)
    assert entries_kept(F(1, 3), 100) == F(100, 3) and entries_kept(0.5, 5) == 2.5


def test_signs_and_single_precision():
    assert signed(fractions([0, -1, 2]), fractions([3, 3, 3])).tolist() == [3, -3, 3]
    short = messages.Identity(float_bits=32)
    for library in FLOATS:
        with np.errstate(**LOUD):
            sent = short.compress(library([1e-50, 1 + 2.0**-30, float(np.finfo(np.float32).max)]))
        assert type(sent) is type(library([1.0])) and to_numpy(sent).tolist() == [0.0, 1.0, float(np.finfo(np.float32).max)]
        left, right = messages.TopK(1).contraction_sides(library([[3.0, -1.0, 2.0]]))
        assert type(left) is type(right) is type(sent) and (float(left[0]), float(right[0])) == (5.0, pytest.approx(28 / 3))
    assert short.compress(fractions([F(1, 3)])).tolist() == [F(1, 3)]
    with np.errstate(**LOUD), pytest.raises(InvalidInput, match=r"is 1e\+300, no 32-bit float"):
        short.bits(np.array([1e300]))
