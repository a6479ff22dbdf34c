"""Factors and both sides of their inequalities as fractions worked out by hand, in dimensions and with parameters that are not 1."""

from __future__ import annotations

import re
from fractions import Fraction as F

import array_api_strict
import numpy as np
import pytest
from cases import each
from compressors_at_hand import COMPRESSORS, fractions

from fedtheory import messages
from fedtheory.arrays import to_numpy
from fedtheory.errors import DataFileError, InvalidInput
from fedtheory.messages.encoders import Encoded, fixed, pack
from fedtheory.messages.quantisers import root_above

U = F(1, 2**24)  # the relative error of rounding to single precision


def slack(digits, dim):
    """Bound QSGD's step above ||x||/levels: 2/2^digits, 2^-53 for each of dim + 8 operations."""
    return 1 + F(2, 2**digits) + F(dim + 8, 2**53)


FACTORS = [  # compressor, d, delta, omega, Delta_sq
    (messages.Identity(), 5, 1, 0, None),
    (messages.Identity(float_bits=32), 5, 1 - U**2, None, None),
    (messages.ScaledSign(), 5, F(1, 5), None, None),
    (messages.ScaledSign(float_bits=32), 5, F(1, 5) * (1 - U**2), None, None),
    (messages.TopK(2), 5, F(2, 5), None, None),
    (messages.TopK(q=F(3, 10), float_bits=32), 5, F(2, 5) * (1 - U**2), None, None),
    (messages.TopK(q=F(1, 10)), 5, F(1, 5), None, None),
    (messages.RandomK(2), 5, F(2, 5), None, None),
    (messages.RandomK(q=F(2, 5)), 5, F(2, 5), None, None),
    (messages.RandomK(q=F(2, 5), scaled=True), 5, None, F(3, 2), None),
    (messages.RandomK(q=1), 5, 1, 0, None),
    (messages.RandomK(2, float_bits=32), 5, F(2, 5) * (1 - U**2), None, None),
    (messages.RandomK(5), 5, 1, 0, None),
    (messages.RandomK(2, scaled=True), 5, None, F(3, 2), None),
    (messages.RandomK(3, scaled=True), 6, None, 1, None),
    (messages.RandomK(4, scaled=True), 5, F(3, 4), F(1, 4), None),
    (messages.RandomK(4, scaled=True, float_bits=32), 5, F(4, 5) * (1 - (F(5, 4) * (1 + U) - 1) ** 2), None, None),
    (messages.RandomK(2, scaled=True, float_bits=32), 5, None, None, None),
    (messages.ST(0.3), 10, F(3, 10), None, None),
    (messages.ST(F(4, 5)), 5, F(1, 4), None, None),
    (messages.ST(F(4, 5), float_bits=32), 5, F(1, 4) * (1 - U**2), None, None),
    (messages.ST(F(4, 5), "printed"), 5, F(3, 16), None, None),
    (messages.ST(F(7, 10), "printed"), 5, F(2) / F(7, 2) ** 2, None, None),
    (messages.ST(F(1, 2), "printed"), 6, None, None, None),
    (messages.ST(F(4, 5), "printed", float_bits=32), 5, (8 * (1 - U) - 5 * (1 + U) ** 2) / 16, None, None),
    (messages.Threshold(F(3, 7)), 5, None, None, 5 * F(9, 49)),
    (messages.Threshold(F(3, 7), float_bits=32), 5, None, None, None),
    (messages.Threshold(0), 5, 1, None, 0),
    (messages.Threshold(0, float_bits=32), 5, 1 - U**2, None, None),
    (messages.NaturalRounding(), 5, F(7, 8), F(1, 8), None),
    (messages.StochasticRounding(), 4, F(1, 2), F(1, 2), None),
    (messages.StochasticRounding(), 9, None, 1, None),
    (messages.StochasticRounding(float_bits=32), 4, 1 - (1 + 8 * U) / 2, (1 + 8 * U) / 2, None),
    (messages.StochasticRounding(F(2, 3)), 5, None, None, F(5, 9)),
    # t = 1/16 and 1/4, a little below: sqrt(1/t) - 1, and from there on 1/(4 t); levels of 1, 2 and 3 take 1, 2 and 2 digits
    (messages.QSGD(1), 16, None, 4 * slack(52, 16) - 1, None),
    (messages.QSGD(2), 16, None, 2 * slack(51, 16) - 1, None),
    (messages.QSGD(2), 12, 1 - F(3, 4) * slack(51, 12) ** 2, F(3, 4) * slack(51, 12) ** 2, None),
    (messages.QSGD(3), 4, 1 - slack(51, 4) ** 2 / 9, slack(51, 4) ** 2 / 9, None),
    (messages.QSGD(3, float_bits=32), 4, 1 - slack(22, 4) ** 2 / 9, slack(22, 4) ** 2 / 9, None),
]


@each(("compressor", "dim", "delta", "omega", "bound"), FACTORS)
def test_factors_by_hand(compressor, dim, delta, omega, bound) -> None:
    for name, value in (("contraction", delta), ("variance", omega), ("absolute", bound)):
        found = getattr(compressor, f"{name}_exact")(dim)
        assert found == value and isinstance(found, F | int | None), name
        as_float = getattr(compressor, name)(dim)
        assert as_float == (None if value is None else float(value))
        with pytest.raises(InvalidInput, match="dimension 0"):
            getattr(compressor, name)(0)


@pytest.mark.parametrize("batch", [False, True])
def test_both_sides_by_hand(batch) -> None:
    """x = (3, -1, 2, 1/2) has the square 57/4; top-2 and the threshold 1 leave 1 + 1/4 behind; d/k - 1 is 1, and d epsilon^2 is 4."""
    x = fractions([3, -1, 2, F(1, 2)])
    x = np.stack([x, 2 * x]) if batch else x
    by = np.array([1, 4]) if batch else 1
    for compressor, factor, left, right in (
        (messages.TopK(2), "contraction", F(5, 4), F(57, 8)),
        (messages.RandomK(2, scaled=True), "variance", F(57, 4), F(57, 4)),
        (messages.Threshold(1), "absolute", F(5, 4), 4),
    ):
        if factor == "absolute" and batch:
            left, right = np.array([F(5, 4), F(1)], dtype=object), 4  # 2 x = (6, -2, 4, 1): 1 is not above 1
            wanted = (left, right)
        else:
            wanted = (left * by, right * by)
        for values, as_number in ((x, lambda v: v), (x.astype(float), lambda v: np.asarray(v, dtype=float))):
            sides = getattr(compressor, f"{factor}_sides")(values)
            for side, value in zip(sides, wanted):
                assert np.shape(side) == x.shape[:-1]
                assert np.asarray(side).dtype == values.dtype
                assert (side == as_number(value)).all() if batch else side == as_number(value)


SENT = [  # compressor, message, uniforms, what is sent
    (messages.Identity(), [3, F(-1, 2), 0], None, [3, F(-1, 2), 0]),
    (messages.ScaledSign(), [3, F(-1, 2), 0], None, [F(7, 6), F(-7, 6), F(7, 6)]),
    (messages.TopK(2), [3, F(-1, 2), F(1, 2), -4], None, [3, 0, 0, -4]),
    (messages.TopK(2), [F(1, 2), F(-1, 2), 2, F(1, 2)], None, [F(1, 2), 0, 2, 0]),
    (messages.ST(F(1, 2)), [3, F(-1, 2), F(1, 2), -4], None, [F(7, 2), 0, 0, F(-7, 2)]),
    (messages.ST(F(3, 5), "printed"), [3, F(-1, 2), F(1, 2), -4], None, [F(10, 3), F(-10, 3), F(10, 3), F(-10, 3)]),
    (messages.ST(F(1, 2)), [3, 0, 0, 0], None, [F(3, 2), 0, 0, 0]),
    (messages.ST(F(1, 2), "printed"), [-3, 0, 0, 0], None, [F(-3, 2), 0, 0, 0]),
    (messages.ST(F(1, 2), "printed"), [1, -1, 1, 2], None, [F(5, 2), F(-5, 2), F(5, 2), F(5, 2)]),
    (messages.RandomK(2), [3, F(-1, 2), F(1, 2), -4], [0.6, 0.2, 0.9, 0.3], [0, F(-1, 2), 0, -4]),
    (messages.RandomK(2, scaled=True), [3, F(-1, 2), F(1, 2), -4], [0.6, 0.2, 0.9, 0.3], [0, -1, 0, -8]),
    (messages.Threshold(F(1, 2)), [3, F(-1, 2), F(5, 8), -4], None, [3, 0, F(5, 8), -4]),
    # the norm is 5, the step 5/2: 3 and -4 are 6/5 and 8/5 steps long
    (messages.QSGD(2), [3, -4, 0], [0.15, 0.65, 0], [5, F(-5, 2), 0]),
    (messages.QSGD(2), [3, -4, 0], [0.25, 0.55, 0], [F(5, 2), -5, 0]),
    # 3 between 2 and 4, one half of the way; -5 between 4 and 8, a quarter
    (messages.NaturalRounding(), [3, -5, 0, F(3, 8)], [0.45, 0.2, 0, 0.55], [4, -8, 0, F(1, 4)]),
    (messages.NaturalRounding(), [3, -5, 0, F(3, 8)], [0.55, 0.3, 0, 0.45], [2, -4, 0, F(1, 2)]),
    # largest 4: kept with probability 3/4 and 1/4
    (messages.StochasticRounding(), [3, -4, -1], [0.7, 0.99, 0.2], [4, -4, -4]),
    (messages.StochasticRounding(), [3, -4, -1], [0.8, 0.99, 0.3], [0, -4, 0]),
    # steps of 3/2: 4 is 8/3 of them, -2 is 4/3
    (messages.StochasticRounding(F(3, 2)), [4, -2, 0], [0.6, 0.4, 0.9], [F(9, 2), F(-3, 2), 0]),
    (messages.StochasticRounding(F(3, 2)), [4, -2, 0], [0.7, 0.3, 0.9], [3, -3, 0]),
]  # fmt: skip


@each(("compressor", "x", "u", "sent"), SENT)
def test_what_is_sent_by_hand(compressor, x, u, sent) -> None:
    """In fractions and in floats, alone and as one of two messages; zeros are +0.0, but of the identity."""
    uniforms, sent = None if u is None else np.array(u), fractions(sent)
    both = None if u is None else np.stack([uniforms, uniforms])
    x = np.stack([fractions(x), -fractions(x)])
    odd = np.where(x[0] == 0, sent, -sent) if isinstance(compressor, messages.ScaledSign) else -sent
    assert compressor.compress(x[0], uniforms).tolist() == sent.tolist()
    assert compressor.compress(x, both).tolist() == [sent.tolist(), odd.tolist()]
    wanted = np.stack([sent, odd]).astype(float)
    as_sent = compressor.compress(x.astype(float), both)
    codes = [compressor.encode(message) for message in as_sent]
    assert compressor.bits(as_sent).tolist() == [code.bits for code in codes]
    assert [compressor.decode(code, as_sent.shape[1]).tolist() for code in codes] == as_sent.tolist()
    for library in (np.asarray, np.asfortranarray, array_api_strict.asarray):
        values = library(x.astype(float))
        out = compressor.compress(values, both)
        assert type(out) is type(values)
        np.testing.assert_allclose(to_numpy(out), wanted, rtol=1e-15)
        zero = to_numpy(out) == 0
        assert isinstance(compressor, messages.Identity) or not (np.signbit(to_numpy(out)) & zero).any()


def test_sides_are_as_exact_as_the_message() -> None:
    """(1 - 1/3) 14 in fractions and in floats; the absolute bound is the same for a message that is 0."""
    x, top = fractions([3, -1, 2]), messages.TopK(1)
    assert top.contraction_sides(x) == (5, F(28, 3)) and isinstance(top.contraction_sides(x)[1], F)
    assert top.contraction_sides(x.astype(float))[1] == pytest.approx(28 / 3, rel=1e-15)
    assert messages.Threshold(F(1, 3)).absolute_sides(0 * x) == (0, F(1, 3))
    assert messages.Threshold(0.5).absolute_sides(np.zeros(3)) == (0, 0.75)


def test_messages_of_different_size_at_once() -> None:
    """Each has its own magnitude; what vanishes when the mean is rounded comes out as +0.0."""
    x = fractions([[3, F(-1, 2), F(1, 2), -4], [1, -2, 0, 0]])
    wanted = fractions([[F(7, 2), 0, 0, F(-7, 2)], [F(3, 2), F(-3, 2), 0, 0]])
    for rule in ("exact", "printed"):
        assert (messages.ST(F(1, 2), rule).compress(x) == wanted).all()
        assert (messages.ST(F(1, 2), rule).compress(x.astype(float)) == wanted.astype(float)).all()
        lost = messages.ST(F(2, 3), rule).compress(np.array([-5e-324, 0.0, 0.0]))
        assert not lost.any() and not np.signbit(lost).any()


@pytest.mark.parametrize(("float_bits", "width", "least", "most"), [(64, 11, -1022, 1023), (32, 8, -126, 127)])
def test_the_largest_and_smallest_powers_of_two(float_bits, width, least, most) -> None:
    """Both come back, and the exponent field of infinity does not."""
    compressor = messages.NaturalRounding(float_bits=float_bits)
    row = np.array([2.0**most, -(2.0**most), 2.0**least, -(2.0**least), 0.0])
    assert compressor.decode(compressor.encode(row), 5).tolist() == row.tolist()
    with pytest.raises(DataFileError, match=f"entry 0 has exponent field {2**width - 1}, expected at most {2**width - 2}"):
        compressor.decode(pack(fixed(2**width - 1, width + 1)), 1)
    with pytest.raises(InvalidInput, match=rf"no power of two from 2\^{least} on"):
        compressor.encode(np.array([2.0 ** (least - 1)]))


def test_the_ends_of_a_grid() -> None:
    """2^51 steps and one more, multiples rounded to single precision, and no negative zero."""
    last = 2.0**51 + 1
    assert messages.StochasticRounding(1.0).bits(np.array([last])) == 2 * 53 - 1
    assert messages.StochasticRounding(0.1).bits(np.array([0.3], dtype=np.float32)) == 5
    for refused in (last + 1, -0.0):
        with pytest.raises(InvalidInput, match=f"entry 0 of message 0 is {re.escape(repr(refused))}, no multiple of 1"):
            messages.StochasticRounding(1.0).bits(np.array([refused]))


@each("compressor", COMPRESSORS)
def test_what_is_cut_off_names_the_compressor(compressor) -> None:
    what = "(the count|the magnitude|the step|entry 0|entry|entries) needs"
    with pytest.raises(DataFileError, match=f"^{compressor.name} message truncated: {what}"):
        compressor.decode(Encoded(0, b""), 5)


@pytest.mark.parametrize("scaled", [False, True])
def test_expectations_of_random_k(scaled) -> None:
    """One of three entries: x/3, or x; 2/3 of the square is lost, or the entry comes back threefold: 4/3 + 2/3 of it."""
    compressor, x = messages.RandomK(q=F(1, 3), scaled=scaled), fractions([3, -1, 2])
    assert compressor.expected(x).tolist() == ([3, -1, 2] if scaled else [1, F(-1, 3), F(2, 3)])
    assert compressor.expected_error_sq(x) == (28 if scaled else F(28, 3))
    for library in (np.asarray, array_api_strict.asarray):
        values = library(x.astype(float))
        for found, exact in (
            (compressor.expected(values), compressor.expected(x)),
            (compressor.expected_error_sq(values), compressor.expected_error_sq(x)),
        ):
            assert found.dtype == values.dtype
            np.testing.assert_allclose(to_numpy(found), np.asarray(exact, dtype=float), rtol=1e-15)


@each("numerator", [1, 2, 3, 10**40 + 1])
@each("denominator", [1, 7, 9, 10**50 + 3])
def test_roots_are_above_and_close(numerator, denominator) -> None:
    square = F(numerator, denominator)
    root = root_above(square)
    assert square <= root**2 <= square * (1 + F(1, 2**60)) ** 2
    assert root_above(square * square) == square
