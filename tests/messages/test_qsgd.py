"""QSGD's steps, levels and layouts by hand: many messages at once, messages of nothing, and limits from both sides."""

from __future__ import annotations

import re
from fractions import Fraction as F

import array_api_strict
import numpy as np
import pytest
from compressors_at_hand import fractions

from fedtheory import messages
from fedtheory.errors import DataFileError, InvalidInput
from fedtheory.messages import encoders as en
from fedtheory.messages import quantisers
from fedtheory.messages.encoders import pack
from fedtheory.messages.quantisers import _short_above

QSGD = messages.QSGD
LARGEST = {32: float(np.finfo(np.float32).max), 64: float(np.finfo(np.float64).max)}


def test_every_message_has_its_own_step():
    """The greatest common divisor of its entries: beside it larger and smaller ones, one that divides it, and nothing."""
    rows = np.array(
        [[6, -4, 0], [0.75 * 2.0**60, 0, -0.5 * 2.0**60], [6 * 2.0**-40, 4 * 2.0**-40, 0], [0, 0, 0], [1, 3, 0], [-2, 0, 4], [5, 0, -3]]
    )
    step, levels = QSGD(7)._recover(rows)
    assert step.dtype == float and levels.dtype == np.int64
    assert step.tolist() == [2, 2.0**58, 2.0**-39, 0, 1, 2, 1]
    assert levels.tolist() == [[3, 2, 0], [3, 0, 2], [3, 2, 0], [0, 0, 0], [1, 3, 0], [1, 0, 2], [5, 0, 3]]
    for code in ("sparse", "dense"):
        compressor = QSGD(7, code)
        assert compressor.bits(rows).tolist() == [compressor.encode(row).bits for row in rows]
        assert all((compressor.decode(compressor.encode(row), 3) == row).all() for row in rows)


@pytest.mark.parametrize("second", [[1.0, 3.0], [1.0, -0.0]])
def test_which_message_was_never_sent(second):
    with pytest.raises(InvalidInput, match=r"^message 1 is not made of 0\.\.2 times one step: encode what"):
        QSGD(2).bits(np.array([[1.0, 2.0], second]))


def test_messages_of_nothing():
    """Their step is 1 where it divides; sparse they are a count, dense a step of 0 and levels of one bit each."""
    for x in (fractions([[0, 0], [3, 4]]), np.array([[0.0, 0.0], [3.0, 4.0]])):
        with np.errstate(all="raise"):
            assert QSGD(1).step(x).tolist() == [[1], [5]]
    nothing = np.zeros(8)
    assert QSGD(1, "sparse").bits(nothing) == 4 and QSGD(1, "dense").bits(nothing) == 64 + 8
    assert QSGD(1, "sparse").bits(np.array([nothing, [0, 5, 0, 0, 0, 0, 0, 0]])).tolist() == [4, 4 + 64 + 3 + 1 + 1]
    assert QSGD(1, "dense").encode(nothing).payload == bytes(9)
    assert not QSGD(1, "dense").decode(QSGD(1, "dense").encode(nothing), 8).any()


def test_dense_from_as_many_squared_levels_as_entries():
    """3^2 levels and nine entries, or ten: omega(2) and a sign each, against gaps of 1, signs and levels of 1."""
    assert QSGD(3).bits(np.ones(9)) == 64 + 9 * 3 + 9
    assert QSGD(3).bits(np.ones(10)) == 4 + 64 + 10 * (1 + 1 + 1)


def test_the_largest_message():
    """An entry at the highest level stays, though the level above it is no float; what overflows is refused."""
    huge = 2.0**1023
    for library in (np.asarray, array_api_strict.asarray):
        sent = QSGD(1).expected(library([huge, 0.0]))
        assert [float(v) for v in sent] == [huge, 0.0]
    for float_bits, entry in ((32, 3e38), (64, 1.7e308)):
        says = re.escape(f"a message of norm above {LARGEST[float_bits]:.4g}: QSGD sends its norm as a float, scale")
        for levels in (1, 4):
            with np.errstate(all="raise"), pytest.raises(InvalidInput, match=says):
                QSGD(levels, float_bits=float_bits).step(np.array([entry, entry]))
    with pytest.raises(InvalidInput, match=r"norm above 3\.403e"):
        QSGD(4).step(np.array([3e38, 3e38], dtype=np.float32))


def test_a_smallest_step_that_is_too_short_is_raised_to_the_next():
    """A little more than three times the smallest 32-bit float, a third of which is rounded to it."""
    least = 2.0**-149
    entry = float(np.nextafter(3 * least, 1))
    assert 1 / 3 * entry == least < F(entry) / 3
    assert QSGD(3, float_bits=32).step(np.array([entry])).tolist() == [2 * least]


@pytest.mark.parametrize("float_bits", [32, 64])
def test_steps_of_the_smallest_messages(float_bits):
    """Whole multiples of the smallest float, though thirds of it were asked for; and what is sent comes back."""
    least = 2.0 ** {32: -149, 64: -1074}[float_bits]
    compressor = QSGD(3, float_bits=float_bits)
    x = least * np.array([[5.0, 0.0, 0.0], [2.0, 6.0, 9.0], [1.0, 0.0, 0.0]])
    with np.errstate(under="raise"):
        assert (compressor.step(x)[:, 0] / least).tolist() == [2, 4, 1]
    for u in (0.1, 0.9):
        for row in compressor.compress(x, np.full(x.shape, u)):
            assert compressor.decode(compressor.encode(row), 3).tobytes() == row.tobytes()


def test_the_largest_product_that_is_received():
    """Three steps of a third of the largest 32-bit float, 24 digits of 1, are that float; with the next longer step nothing is."""
    third = (2.0**24 - 1) / 3 * 2.0**104

    def received(step, level, float_bits):
        fields = en.float_fields(step, float_bits), en.omega_fields(np.array([level + 1])), en.fixed(0, 1)
        return QSGD(3, "dense", float_bits=float_bits).decode(pack(*fields), 1).tolist()

    assert received(third, 3, 32) == [LARGEST[32]] and received(LARGEST[64], 1, 64) == [LARGEST[64]]
    for step, level, float_bits in ((third + 2.0**103, 3, 32), (LARGEST[64], 2, 64)):
        says = f"levels up to {level}, expected a positive step and a finite product"
        with pytest.raises(DataFileError, match=says):
            received(step, level, float_bits)


@pytest.mark.parametrize(
    ("compressor", "fields", "says"),
    [
        (QSGD(2, "dense"), [en.float_fields(-0.0, 64), en.omega_fields(np.array([1]))], r"the step is -0.0, expected at least 0;"),
        (QSGD(2, "sparse"), [en.fixed(1, 1), en.float_fields(0.0, 64)], r"the step is 0.0, expected at least 4.94"),
        (QSGD(2, "sparse", float_bits=32), [en.fixed(1, 1), en.float_fields(0.0, 32)], r"the step is 0.0, expected at least 1.4"),
        (
            QSGD(2, "sparse"),
            [en.fixed(1, 1), en.float_fields(1.0, 64), en.omega_fields(np.array([1])), en.fixed(0, 1), en.omega_fields(np.array([3]))],
            "level 0 is 3, expected at most 2",
        ),
        (QSGD(2, "sparse"), [en.fixed(1, 1), en.float_fields(1.0, 64)], "gap 0 needs"),
        (QSGD(2, "sparse"), [en.fixed(1, 1), en.float_fields(1.0, 64), en.omega_fields(np.array([1]))], "the signs needs 1 bits"),
        (QSGD(2, "dense"), [en.float_fields(1.0, 64), en.omega_fields(np.array([2]))], "the signs needs 1 bits"),
        (QSGD(2, "dense"), [en.float_fields(1.0, 64)], "level 0 needs"),
    ],
)
def test_what_is_refused_says_what_and_where(compressor, fields, says):
    with pytest.raises(DataFileError, match=says):
        compressor.decode(pack(*fields), 1)


def test_levels_and_codes_at_their_limits():
    """2^30 levels, of 32-bit floats 2^12; the message says which floats."""
    for float_bits, most in ((64, 2**30), (32, 2**12)):
        assert QSGD(most, float_bits=float_bits).levels == most
        for refused in (0, most + 1):
            says = f"^levels is {refused}: it must be an integer from 1 to {most}.*with {float_bits}-bit floats the step must stay"
            with pytest.raises(InvalidInput, match=says):
                QSGD(refused, float_bits=float_bits)
    with pytest.raises(InvalidInput, match=r"^code is 'thin'; known: 'auto', 'sparse', 'dense'"):
        QSGD(1, "thin")
    with pytest.raises(InvalidInput, match=r"^float_bits is 16: numbers are sent with 32 or 64 bits"):
        QSGD(1, float_bits=16)


def test_short_numbers_above_a_fraction():
    """Of two digits above 3, 13/4 and 25/8: 3, 4 and 4; a power of two is short as it is."""
    assert [_short_above(F(v), 2) for v in (3, F(13, 4), F(25, 8), 8, F(1, 8), F(9, 64))] == [3, 4, 4, 8, F(1, 8), F(3, 16)]
    assert _short_above(np.array([3, 3.25, 8.0, 9 / 64]), 2).tolist() == [3, 4, 8, 3 / 16]


DIMS = [1, 2, 5, 7, 8, 9, 15, 16, 17, 64, 127, 128, 129, 136, 255, 257, 1000]  # around where NumPy's sums change their order


def hard_rows(rng, dim, scale):
    """(R, d): normal entries, zeros among them or everywhere, one magnitude, whole numbers, and only negative ones."""
    rows = rng.standard_normal((7, dim))
    rows[1] *= rng.random(dim) < 0.5
    rows[2] = 0.0
    rows[3] = np.sign(rows[3])
    rows[4] = np.round(3 * rows[4])
    rows[5] = -0.0
    rows[6] = -np.abs(rows[6])
    return rows * scale


@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "NumPy"])
@pytest.mark.parametrize("dim", DIMS)
def test_what_is_sent_has_the_numbers_and_bits_of_its_two_halves(monkeypatch, dim, compiled):
    """To the last bit, for every code, number of levels and width of floats, for tiny and huge messages, and for none."""
    monkeypatch.setattr(quantisers, "_worth", lambda: compiled)
    rng = np.random.default_rng(dim)
    for scale in (1.0, 1e-3, 1e35, 1e-40, 1e300, 1e-300, 1e-320):
        for levels, code, width in ((1, "auto", 64), (4, "dense", 32), (4, "sparse", 64), (4095, "sparse", 32), (5000, "auto", 64)):
            if width == 32 and scale > 1e35:
                continue
            compressor, x = QSGD(levels, code, float_bits=width), hard_rows(rng, dim, scale)
            for given in (x, x[:0], x[None, :3], x[0]):
                for uniforms in (rng.random(given.shape), np.zeros(given.shape)):
                    message, bits = compressor.sent(given, uniforms)
                    wanted = compressor.compress(given, uniforms)
                    assert message.tobytes() == wanted.tobytes() and message.shape == wanted.shape
                    assert bits.dtype == np.int64 and np.array_equal(bits, compressor.bits(wanted)) and bits.shape == given.shape[:-1]


def test_whatever_is_not_compiled_is_sent_by_numpy(monkeypatch):
    """Other floats, arrays that are no neighbours, and a compressor of its own: what is compiled is not asked, or not for long."""
    monkeypatch.setattr(quantisers, "_quantise", None)
    monkeypatch.setattr(quantisers, "_worth", lambda: True)
    x, uniforms = np.random.default_rng(1).standard_normal((2, 4, 6)), np.random.default_rng(2).random((2, 4, 6))

    class Own(QSGD):
        def _compress(self, x, uniforms):
            return np.ones_like(x)

    cases = [(QSGD(3), x.astype(np.float32), uniforms), (QSGD(3), x.swapaxes(0, 1), uniforms.swapaxes(0, 1)), (Own(3), x, uniforms)]
    cases += [(QSGD(3), array_api_strict.asarray(x), array_api_strict.asarray(uniforms))]
    for compressor, message, drawn in cases:
        sent, bits = compressor.sent(message, drawn)
        wanted = compressor.compress(message, drawn)
        assert np.array_equal(np.asarray(sent), np.asarray(wanted)) and np.array_equal(bits, compressor.bits(wanted))


@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "NumPy"])
def test_what_cannot_be_sent_is_refused_in_the_same_words(monkeypatch, compiled):
    monkeypatch.setattr(quantisers, "_worth", lambda: compiled)
    half = np.full((2, 3), 0.5)
    for entry in (np.nan, np.inf, -np.inf):
        with pytest.raises(InvalidInput, match=r"entry \(1, 2\) of the message is .*: qsgd compresses finite numbers only"):
            QSGD(4).sent(np.array([[1.0, 2.0, 3.0], [1.0, 2.0, entry]]), half)
    for given in (None, half[:1]):
        with pytest.raises(InvalidInput, match=r"qsgd is randomised: give uniforms in \[0, 1\) of shape \(2, 3\)"):
            QSGD(4).sent(half, given)
    too_large = (64, 1.7e308, "a message of norm above 1.798e+308"), (32, 1e39, "above 3.403e+38, the largest 32-bit float")
    for width, entry, says in too_large:
        with pytest.raises(InvalidInput, match=re.escape(says)):
            QSGD(4, float_bits=width).sent(np.full((2, 3), entry), half)
