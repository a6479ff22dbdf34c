"""Fields of a message one by one: what a message that is cut off lacks, codes at their limits, messages of one entry or of nothing."""

from __future__ import annotations

import re

import array_api_strict
import numpy as np
import pytest

from fedtheory import messages
from fedtheory.arrays import to_numpy
from fedtheory.errors import DataFileError, InvalidInput, MissingCapability
from fedtheory.messages import encoders as en
from fedtheory.messages.encoders import Encoded, Reader, pack

SPARSE, DENSE = [0.0, 0.0, 3.0, 0.0, -3.0, 0.0, 0.0, 0.0], [3.0, -3.0, 3.0]
PARTS = [  # compressor, message, its parts in their order
    (messages.TopK(2), SPARSE, ["the count", "position 0", "position 1", "value"]),
    (messages.ST(0.25), SPARSE, ["the count", "the magnitude", "position 0", "position 1", "the signs"]),
    (messages.ScaledSign(), DENSE, ["the magnitude", "the signs"]),
    (messages.Identity(), DENSE, ["entry"]),
    (messages.NaturalRounding(), [0.0, 2.0, -4.0], ["entries"]),
    (messages.StochasticRounding(), SPARSE, ["the count", "the magnitude", "position 0", "position 1", "the signs"]),
    (messages.StochasticRounding(3.0), DENSE, ["entry 0", "entry 1", "entry 2"]),
    (messages.QSGD(1, "sparse"), SPARSE, ["the count", "the step", "gap 0", "gap 1", "the signs", "level 0", "level 1"]),
    (messages.QSGD(1, "dense"), DENSE, ["the step", "level 0", "level 1", "level 2", "the signs"]),
]


@pytest.mark.parametrize(("compressor", "row", "parts"), PARTS, ids=[str(r[0]) for r in PARTS])
def test_what_a_message_lacks_that_is_cut_off(compressor, row, parts):
    """Wherever it ends, the part that is named is the one that the end is in."""
    sent = compressor.encode(np.array(row))
    bits, lacking = np.unpackbits(np.frombuffer(sent.payload, np.uint8)), []
    for end in range(sent.bits):
        with pytest.raises(DataFileError) as refused:
            compressor.decode(Encoded(end, np.packbits(bits[:end]).tobytes()), len(row))
        says = rf"{compressor.name} message truncated: (.*) needs (\d+) bits at bit (\d+), and only (\d+) of {end} are left; "
        said = re.fullmatch(says + "send it again", str(refused.value))
        item, needs, at, there = said[1], *map(int, said.groups()[1:])
        assert at + there == end < at + needs <= sent.bits
        lacking.append(item)
    assert list(dict.fromkeys(lacking)) == parts


ONE = [messages.ScaledSign(), messages.Identity(), messages.TopK(1), messages.ST(1.0), messages.StochasticRounding()]


@pytest.mark.parametrize("compressor", ONE, ids=str)
def test_messages_of_one_entry(compressor):
    for entry in (-2.0, 2.0):
        sent = compressor.encode(np.array([entry]))
        assert sent.bits == compressor.bits(np.array([entry]))
        assert compressor.decode(sent, 1).tolist() == [entry]


@pytest.mark.parametrize("compressor", [messages.ST(0.5), messages.TopK(2), messages.StochasticRounding()], ids=str)
def test_messages_of_nothing_are_a_count(compressor):
    nothing = np.zeros((2, 8))
    assert compressor.bits(nothing).tolist() == [4, 4] and compressor.bits(nothing.reshape(2, 1, 8)).tolist() == [[4], [4]]
    assert compressor.encode(nothing[0]) == Encoded(4, b"\0") and not compressor.decode(Encoded(4, b"\0"), 8).any()


def test_a_magnitude_of_zero_is_never_sent():
    with pytest.raises(DataFileError, match=r"the magnitude is 0\.0, expected a positive number"):
        messages.ST(1.0).decode(pack(en.fixed(1, 1), en.float_fields(0.0, 64)), 1)
    with pytest.raises(DataFileError, match=r"the magnitude is -0\.0, expected a number >= 0"):
        messages.ScaledSign().decode(pack(en.float_fields(-0.0, 64)), 1)


def test_omega_codes_at_their_limits():
    """2^48 - 1 has a code and 2^48 has none; lengths that are looked up are those of one number at a time."""
    last = 2**48 - 1
    sent = pack(en.omega_fields(np.array([last])))
    assert Reader(sent, "test").omega("n") == last and en.omega_length(np.array([last])).tolist() == [sent.bits]
    for refused in (2**48, 0):
        with pytest.raises(InvalidInput, match=rf"^Elias omega code of {refused}\.\.{refused}: integers from 1 to 2\^48 - 1 only"):
            en.omega_length(np.array([refused]))
    each = en.omega_fields(np.arange(1, 4099))[1]
    for most in (4096, 4097, 4098):
        numbers = np.resize(np.arange(1, most + 1), 5000)
        assert (en.omega_length(numbers) == each[numbers - 1]).all()
        assert en.omega_length(np.array([[most]])).tolist() == [[each[most - 1]]] and en.omega_length(numbers[:0]).shape == (0,)
    too_many = pack(en.fixed(0b10_101_110000_1, 12), en.fixed(0, 48))  # 2, 5, 48: of a number with 49 digits
    with pytest.raises(DataFileError, match=r"n is 2\^48 or more, expected less"):
        Reader(too_many, "test").omega("n")
    large = np.resize(np.array([last, 5]), 5000)
    assert (en.omega_length(large)[:2] == [sent.bits, each[4]]).all()


def test_numbers_are_sent_as_floats():
    """Integers as well, and 32 bits of them."""
    for float_bits in (32, 64):
        whole, real = (pack(en.float_fields(np.array(values), float_bits)) for values in ([1, -2], [1.0, -2.0]))
        assert whole == real and Reader(real, "test").floats(2, float_bits, "n").tolist() == [1.0, -2.0]


def test_single_precision_that_is_counted_and_sent():
    """A message in single precision has the bits of the same numbers in double precision."""
    for library in (np.asarray, array_api_strict.asarray):
        x = library(np.array([[1.0, 0.0, -2.0], [0.0, 0.0, 0.0]], dtype=np.float32))
        for compressor in (messages.TopK(2), messages.Identity(), messages.ST(0.4), messages.QSGD(2, "sparse")):
            sent = compressor.compress(x, library(np.zeros((2, 3))))
            host = to_numpy(sent).astype(np.float64)
            assert compressor.bits(sent).tolist() == compressor.bits(host).tolist() and compressor.bits(sent).dtype == np.int64
            assert compressor.encode(sent[0, :]) == compressor.encode(host[0])


def test_what_is_no_message():
    """A number, integers, entries that are not finite or too large, uniforms of another shape: what and where."""
    top, short = messages.TopK(1), messages.TopK(1, float_bits=32)
    for value in (3.0, [1.0, 2.0], np.array(3.0)):
        with pytest.raises(InvalidInput, match=r"^message = .*: a message is an array \(\.\.\., d\), not a number or a list"):
            top.compress(value)
    with pytest.raises(InvalidInput, match=r"^message = 3\.0: "):
        top.compress(3.0)
    with pytest.raises(InvalidInput, match=r"^a message of dtype int64: give floats, or an object array of Fractions"):
        top.compress(np.array([1, 2]))
    largest = float(np.finfo(np.float32).max)
    for library in (np.asarray, array_api_strict.asarray):
        says = r"^entry \(1, 0\) of the message is inf: top-k compresses finite numbers only; .*lower its step"
        with pytest.raises(InvalidInput, match=says):
            top.compress(library([[1.0, 2.0], [np.inf, 3.0], [4.0, np.nan]]))
        says = r"^entry \(1, 0\) of the message is -3\.5e\+38, above 3\.403e\+38, the largest 32-bit float: use float_bits=64"
        with pytest.raises(InvalidInput, match=says):
            short.compress(library([[1.0, largest], [-3.5e38, 3.0], [4.0, 3.6e38]]))
        assert to_numpy(short.compress(library([0.0, -largest]))).tolist() == [0.0, -largest]
    x = np.ones((2, 3))
    for uniforms, given in ((None, "None"), (np.zeros(3), r"\(3,\)")):
        says = rf"^random-k is randomised: give uniforms in \[0, 1\) of shape \(2, 3\), not {given}$"
        with pytest.raises(InvalidInput, match=says):
            messages.RandomK(1).compress(x, uniforms)
    with pytest.raises(MissingCapability, match=r"^TopK.* has no variance factor for d = 3: judge expected_error_sq\(x\) against"):
        top.variance_sides(np.ones(3))


@pytest.mark.parametrize(
    ("bits", "size", "needed", "what"),
    [(12, 1, 2, "cut off"), (12, 3, 2, "extended"), (16, 1, 2, "cut off"), (16, 3, 2, "extended"), (64, 7, 8, "cut off")],
)
def test_payloads_of_another_size(bits, size, needed, what):
    says = f"^test message of {size} bytes that should hold {bits} bits, {needed} bytes: it was {what} on its way; send it again$"
    with pytest.raises(DataFileError, match=says):
        Reader(Encoded(bits, bytes(size)), "test")
    Reader(Encoded(bits, bytes(needed)), "test")
