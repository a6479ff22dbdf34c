"""Encodings: what is counted is what is sent, it decodes bit for bit, and a damaged message is refused."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from cases import each
from hypothesis import given, settings
from hypothesis import strategies as st

from fedtheory import messages
from fedtheory.errors import DataFileError, InvalidInput
from fedtheory.messages import encoders as en
from fedtheory.messages.encoders import Encoded, Reader, pack

BOTH = [
    messages.Identity(),
    messages.ST(0.2),
    messages.ST(0.2, "printed"),
    messages.TopK(q=0.3),
    messages.RandomK(q=0.3),
    messages.RandomK(q=0.3, scaled=True),
    messages.Threshold(0.5),
    messages.ScaledSign(),
    messages.QSGD(1),
    messages.QSGD(3, "sparse"),
    messages.QSGD(3, "dense"),
    messages.QSGD(200),
    messages.NaturalRounding(),
    messages.StochasticRounding(),
    messages.StochasticRounding(0.1),
]
COMPRESSORS = BOTH + [dataclasses.replace(c, float_bits=32) for c in BOTH]
IDS = [str(c) for c in COMPRESSORS]


def text(fields) -> str:
    """The bits of fields as zeros and ones."""
    encoded = pack(*fields)
    return "".join(f"{byte:08b}" for byte in encoded.payload)[: encoded.bits]


def test_code_words() -> None:
    def omega(n):
        return text([en.omega_fields(np.array([n]))])

    def gamma(n):
        return text([en.gamma_fields(np.array([n]))])

    # Elias 1975, IEEE Trans. Inf. Theory 21, Table II (omega) and gamma
    assert [omega(n) for n in (1, 2, 3, 4, 7, 8, 15, 16, 32, 100)] == [
        "0", "100", "110", "101000", "101110", "1110000", "1111110", "10100100000", "101011000000", "1011011001000",
    ]  # fmt: skip
    assert [gamma(n) for n in (1, 2, 3, 4, 5, 8, 17)] == ["1", "010", "011", "00100", "00101", "0001000", "000010001"]
    assert text([en.rice_fields(np.array([0, 1, 5, 11]), 2)]) == "000" + "001" + "1001" + "11011"
    assert text([en.rice_fields(np.array([0, 3]), 0)]) == "0" + "1110"
    assert text([en.rice_fields(np.array([130]), 0)]) == "1" * 130 + "0"  # wider than a word
    assert text([en.float_fields(np.array([-2.0]), 32)]) == "1" + "10000000" + "0" * 23
    assert text([en.fixed(np.array([5, 1]), 4)]) == "01010001"
    assert pack() == Encoded(0, b"")
    with pytest.raises(InvalidInput, match="from 1 to 2\\^48"):
        en.omega_length(np.array([0]))


def test_the_longest_gamma_code() -> None:
    """53 binary digits, as many as a float holds; one more is refused."""
    longest = np.array([2**53 - 1, 2**52, 5])
    reader = Reader(pack(en.gamma_fields(longest)), "test")
    assert [reader.gamma("n") for _ in longest] == longest.tolist()
    reader.close()
    with pytest.raises(DataFileError, match="n has 54 binary digits, expected at most 53"):
        Reader(pack(en.fixed(0, 53), en.fixed(2**53, 54)), "test").gamma("n")


@given(st.lists(st.integers(1, 2**48 - 1), min_size=1, max_size=8), st.integers(0, 20))
@settings(max_examples=80, deadline=None)
def test_codes_come_back_and_have_the_length_counted(values, b) -> None:
    large, small = np.array(values), np.array(values) % 3000
    for numbers, fields, lengths, read in (
        (large, en.omega_fields(large), en.omega_length(large), lambda r: r.omega("n")),
        (large, en.gamma_fields(large), en.gamma_length(large), lambda r: r.gamma("n")),
        (small, en.rice_fields(small, b), en.rice_length(small, b), lambda r: r.rice(b, "n")),
    ):
        encoded = pack(fields)
        assert encoded.bits == lengths.sum()
        reader = Reader(encoded, "test")
        assert [read(reader) for _ in values] == list(numbers)
        reader.close()


def test_rice_parameter_is_the_best_for_geometric_gaps() -> None:
    """Against the mean length b + 1/(1 - rho^(2^b)), minimised by trial."""
    for dim in (1, 2, 3, 10, 97, 1000):
        counts = np.arange(1, dim + 1)
        rho = 1 - counts / dim
        trial = np.arange(14)[:, None]
        mean = trial + 1 / (1 - rho[None] ** (2.0**trial))
        chosen = en.rice_parameter(counts, dim)
        np.testing.assert_allclose(mean[chosen, counts - 1], mean.min(axis=0), rtol=1e-13)
    assert en.rice_parameter(np.array([0, 1]), 1000)[0] == 0
    assert (np.diff(en.rice_parameter(np.arange(1, 1001), 1000)) <= 0).all()


@pytest.mark.parametrize(("dim", "q"), [(1000, 0.01), (1000, 0.1), (10000, 0.01), (10000, 0.1)])
def test_positions_cost_little_more_than_their_entropy(dim, q) -> None:
    """Uniformly random positions: log2 C(d, k) bits at least on average, and Golomb-Rice within 3 % of it."""
    k = round(q * dim)
    rows = messages.TopK(k).compress(np.random.default_rng(0).normal(size=(200, dim)))
    spent = messages.TopK(k).bits(rows) - 64 * k - en.count_width(dim)
    least = (math.lgamma(dim + 1) - math.lgamma(k + 1) - math.lgamma(dim - k + 1)) / math.log(2)
    assert 1.0 < spent.mean() / least < 1.03


values = st.sampled_from([0.0, 0.0, -0.0, 1.0, -1.0, 1.0, 0.5, -2.5, 1e-3, 5e-324, -1e-310, 3e-40, 1e30, -7.0])


@pytest.mark.parametrize("compressor", COMPRESSORS, ids=IDS)
@given(data=st.data())
@settings(max_examples=25, deadline=None)
def test_what_is_counted_is_what_is_sent_and_it_comes_back(compressor, data) -> None:
    shape = data.draw(st.sampled_from([(1,), (5,), (2, 1), (3, 7), (2, 2, 9), (2, 33), (0, 4)]))
    size = math.prod(shape)
    x = np.array(data.draw(st.lists(values, min_size=size, max_size=size)), dtype=float).reshape(shape)
    if getattr(compressor, "step", None):
        x = np.clip(x, -1e10, 1e10)
    sent = compressor.compress(x, np.random.default_rng(data.draw(st.integers(0, 99))).random(shape))
    counted = compressor.bits(sent)
    assert counted.dtype == np.int64 and counted.shape == shape[:-1]
    for i in np.ndindex(shape[:-1]):
        encoded = compressor.encode(sent[i])
        assert encoded.bits == counted[i]
        assert len(encoded.payload) == -(-encoded.bits // 8)
        assert compressor.decode(encoded, shape[-1]).tobytes() == sent[i].tobytes()


def example(compressor):
    """A message of dimension 9 and its encoding."""
    rng = np.random.default_rng(4)
    sent = compressor.compress(rng.normal(size=9), rng.random(9))
    return sent, compressor.encode(sent)


@each("compressor", COMPRESSORS)
def test_damaged_messages_are_refused(compressor) -> None:
    sent, encoded = example(compressor)
    assert np.count_nonzero(sent)
    payload, bits = encoded.payload, encoded.bits
    with pytest.raises(DataFileError, match=f"should hold {bits} bits.*cut off"):
        compressor.decode(Encoded(bits, payload[:-1]), 9)
    with pytest.raises(DataFileError, match=f"should hold {bits} bits.*extended"):
        compressor.decode(Encoded(bits, payload + b"\0"), 9)
    for cut in range(bits):  # every prefix, consistently announced
        short = np.packbits(np.unpackbits(np.frombuffer(payload, np.uint8))[:cut]).tobytes()
        with pytest.raises(DataFileError, match=r"truncated|corrupt"):
            compressor.decode(Encoded(cut, short), 9)
    longer = np.append(np.unpackbits(np.frombuffer(payload, np.uint8))[:bits], [0] * 9).astype(np.uint8)
    with pytest.raises(DataFileError, match=f"overlong: it ends at bit {bits} and {bits + 9} were sent"):
        compressor.decode(Encoded(bits + 9, np.packbits(longer).tobytes()), 9)
    if bits % 8:
        with pytest.raises(DataFileError, match="padding"):
            compressor.decode(Encoded(bits, payload[:-1] + bytes([payload[-1] | 1])), 9)


@pytest.mark.parametrize("compressor", COMPRESSORS, ids=IDS)
@given(data=st.data())
@settings(max_examples=40, deadline=None)
def test_random_bits_are_refused_or_are_a_message(compressor, data) -> None:
    """Whatever arrives, the decoder gives finite numbers of the right shape, or says what is wrong."""
    _, encoded = example(compressor)
    bits = np.unpackbits(np.frombuffer(encoded.payload, np.uint8))[: encoded.bits]
    for at in data.draw(st.lists(st.integers(0, encoded.bits - 1), min_size=1, max_size=3)):
        bits[at] ^= 1
    try:
        out = compressor.decode(Encoded(encoded.bits, np.packbits(bits).tobytes()), 9)
    except DataFileError as error:
        assert "send it again" in str(error)
    else:
        assert out.shape == (9,) and np.isfinite(out).all()


CORRUPT = [
    (messages.TopK(2), [en.fixed(10, 4)], 9, "10 entries announced, expected at most d = 9"),
    (messages.TopK(2), [en.fixed(1, 2), en.rice_fields(np.array([3]), 1)], 3, "position 0 is 3, expected less than d = 3"),
    (messages.Identity(), [en.float_fields(np.array([1.0, np.nan]), 64)], 2, "entry 1 is nan, expected a finite number"),
    (messages.Identity(float_bits=32), [en.float_fields(np.array([np.inf]), 32)], 1, "entry 0 is inf"),
    (messages.TopK(1), [en.fixed(1, 1), en.rice_fields(np.array([0]), 0), en.float_fields(0.0, 64)], 1, "value 0 is 0"),
    (messages.ST(1.0), [en.fixed(1, 1), en.float_fields(-1.0, 64)], 1, "the magnitude is -1.0, expected a positive"),
    (messages.ScaledSign(), [en.float_fields(-1.0, 64)], 1, "the magnitude is -1.0, expected a number >= 0"),
    (messages.QSGD(2, "dense"), [en.float_fields(1.0, 64), en.omega_fields(np.array([4]))], 1, "level 0 is 3, expected at most 2"),
    (messages.QSGD(2, "dense"), [en.float_fields(1.0, 64), en.fixed(0b10_111_10000000_1, 14)], 1, "level 0 is 2\\^48 or more"),
    (messages.QSGD(2, "dense"), [en.float_fields(0.0, 64), en.omega_fields(np.array([2])), en.fixed(0, 1)], 1, "step 0.0 with levels"),
    (messages.QSGD(2, "dense"), [en.float_fields(1e308, 64), en.omega_fields(np.array([3])), en.fixed(0, 1)], 1, "a finite product"),
    (messages.QSGD(2, "sparse"), [en.fixed(1, 1), en.float_fields(-1.0, 64)], 1, "the step is -1.0, expected at least 4.9"),
    (messages.QSGD(2, "sparse"), [en.fixed(1, 1), en.float_fields(1.0, 64), en.omega_fields(np.array([2]))], 1, "position 1, expected"),
    (messages.NaturalRounding(), [en.fixed(2047, 12)], 1, "exponent field 2047, expected at most 2046"),
    (messages.StochasticRounding(1.0), [en.fixed(np.zeros(60, int), 1), en.fixed(1, 1)], 1, "61 binary digits, expected at most 53"),
]  # fmt: skip


@each(("compressor", "fields", "dim", "says"), CORRUPT)
def test_corrupt_messages_say_what_was_expected_and_found(compressor, fields, dim, says) -> None:
    with pytest.raises(DataFileError, match=says):
        compressor.decode(pack(*fields), dim)


NOT_MESSAGES = [
    (messages.ST(0.5), [1.0, 2.0], "entry 0 of message 0 is .*1.0.* where st sends 0 or ±2.0: encode what"),
    (messages.ST(0.5), [1.0, -0.0], "entry 1 of message 0 is .*-0.0"),
    (messages.ScaledSign(), [1.0, 0.0], "entry 1 of message 0 is .*0.0.* where scaled-sign sends ±1.0: encode what"),
    (messages.QSGD(2), [1.0, 3.0], "message 0 is not made of 0..2 times one step"),
    (messages.QSGD(2), [1.0, 1e-30], "not made of 0..2 times one step"),
    (messages.NaturalRounding(), [1.0, 3.0], "entry 1 .* no power of two"),
    (messages.NaturalRounding(), [1.0, 2.0**-1023], "entry 1 .* no power of two from 2\\^-1022 on"),
    (messages.StochasticRounding(0.5), [1.0, 0.7], "entry 1 .* no multiple of 0.5"),
    (messages.Identity(float_bits=32), [1.0, 0.1], "entry 1 .* no 32-bit float: encode what compress"),
    (messages.TopK(1), [1.0, math.inf], "entry 1 of message 0 is inf: top-k sends finite numbers only"),
]


@pytest.mark.parametrize(("compressor", "row", "says"), NOT_MESSAGES)
def test_what_a_compressor_cannot_have_sent_is_not_encoded(compressor, row, says) -> None:
    for call in (compressor.encode, compressor.bits):
        with pytest.raises(InvalidInput, match=says):
            call(np.array(row))
    with pytest.raises(InvalidInput, match="row by row"):
        compressor.encode(np.array([row]))


def test_lengths_by_hand() -> None:
    row = np.array(
        [0.0, 0.0, 3.0, 0.0, -3.0, 0.0, 0.0, 0.0]
    )  # 2 of 8: rho = 3/4, 9/16 + 3/4 > 1 and (9/16)^2 + 9/16 < 1: b = 1
    positions = 4 + (2 + 1) + (1 + 1)  # the count in 0..8; gap 2 is 10|0 and gap 1 is 0|1
    assert messages.TopK(2).bits(row) == positions + 2 * 64
    assert messages.ST(0.25).bits(row) == positions + 64 + 2
    assert messages.ST(0.25, float_bits=32).bits(row) == positions + 32 + 2
    assert messages.ST(0.25).bits(0 * np.abs(row)) == 4
    assert messages.ScaledSign().bits(np.full(8, 3.0)) == 64 + 8
    assert messages.Identity().bits(row) == 512
    assert messages.NaturalRounding().bits(np.zeros(8)) == 12 * 8
    assert messages.NaturalRounding(float_bits=32).bits(np.zeros(8)) == 9 * 8
    # sparse QSGD: count, step, omega(3) = 110 and omega(2) = 100 for the gaps, two signs, omega(1) = 0 twice
    assert messages.QSGD(1, "sparse").bits(row) == 4 + 64 + 3 + 3 + 2 + 1 + 1
    # dense QSGD: step, omega(1) six times, omega(2) twice, two signs
    assert messages.QSGD(1, "dense").bits(row) == 64 + 6 + 3 + 3 + 2
    assert messages.QSGD(2).bits(np.ones(5)) == messages.QSGD(2, "sparse").bits(np.ones(5))  # 2^2 < 5
    assert messages.QSGD(2).bits(np.ones(4)) == messages.QSGD(2, "dense").bits(np.ones(4))
    # grid: gamma(1) six times, gamma(2 * 3) and gamma(2 * 3 + 1)
    assert messages.StochasticRounding(1.0).bits(row) == 6 + 5 + 5


def test_negative_zeros_are_sent_where_floats_are() -> None:
    row = np.array([-0.0, 1.0, 0.0])
    for compressor in (messages.TopK(2), messages.Identity(), messages.Threshold(0.5)):
        encoded = compressor.encode(row)
        assert encoded.bits == compressor.bits(row)
        assert compressor.decode(encoded, 3).tobytes() == row.tobytes()


def test_many_messages_at_once_are_counted_as_each_alone() -> None:
    """Enough entries for the code lengths to be looked up."""
    rng = np.random.default_rng(8)
    x = rng.standard_normal((40, 3, 60))
    for compressor in (messages.QSGD(7), messages.QSGD(30), messages.QSGD(2**20), messages.ST(0.1), messages.TopK(3)):
        sent = compressor.compress(x, rng.random(x.shape))
        assert (compressor.bits(sent) == [[compressor.encode(m).bits for m in rows] for rows in sent]).all()
