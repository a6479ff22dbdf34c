"""Compressors: their rules against slow readings of the papers, their factors on exact fractions, their laws by enumeration."""

from __future__ import annotations

import dataclasses
import itertools
import math
from fractions import Fraction

import array_api_strict
import numpy as np
import pytest
from cases import each
from compressors_at_hand import COMPRESSORS, IDS, fractions
from hypothesis import given, settings
from hypothesis import strategies as st

from fedtheory import messages
from fedtheory.arrays import to_numpy, top_k_mask
from fedtheory.errors import InvalidInput, MissingCapability, UnknownName
from fedtheory.messages.base import entries_kept

torch = pytest.importorskip("torch")

SIDES = ("contraction", "variance", "absolute")


# Ties and zeros are the rule here, not the exception: few values, many entries.
few = st.sampled_from([0, 0, 1, 1, -1, 2, -2, 3, -7, Fraction(1, 2), Fraction(4, 3), Fraction(-1, 1000), 10**6])
vectors = st.lists(few, min_size=1, max_size=12).map(fractions)
parts = st.one_of(st.fractions(Fraction(1, 50), 1, max_denominator=50), st.floats(0.01, 1.0))


def slow_st(x, q, rule):
    """Algorithm 2, one entry at a time: the message, k, and how many entries that are not 0 it keeps."""
    n = len(x)
    k = max(entries_kept(q, n), 1)
    k = math.ceil(k) if rule == "exact" else Fraction(k)
    order = sorted(range(n), key=lambda i: (-abs(x[i]), i))[: math.ceil(k)]
    if rule == "printed":
        order = [i for i in range(n) if abs(x[i]) >= abs(x[order[-1]])]
    total = sum(abs(x[i]) for i in order)
    sign = [(v > 0) - (v < 0) for v in x]
    out = [total / k * sign[i] if i in order else Fraction(0) for i in range(n)]
    return fractions(out), Fraction(k), total, sum(1 for i in order if x[i] != 0)


@given(vectors, parts, st.sampled_from(["exact", "printed"]))
@settings(max_examples=150, deadline=None)
def test_st_is_algorithm_2_and_its_error_is_the_identity_of_the_docstring(x, q, rule) -> None:
    expected, k, total, kept = slow_st(x, q, rule)
    compressor = messages.ST(q, rule)
    sent = compressor.compress(x)
    assert (sent == expected).all()
    norm_sq = (x * x).sum()
    assert compressor.expected_error_sq(x) == norm_sq - (total / k) ** 2 * (2 * k - kept)
    np.testing.assert_allclose(
        compressor.compress(x.astype(float)), sent.astype(float), rtol=4e-16 * len(x), atol=0
    )  # the same entries in floats


def test_nq_that_is_an_integer_up_to_rounding() -> None:
    assert 0.07 * 100 > 7 and 0.29 * 100 < 29
    assert messages.ST(0.07).sizes(100) == (7, 7)
    assert messages.ST(0.07, "printed").sizes(100) == (7, 7)
    assert messages.ST(0.29).sizes(100) == (29, 29)
    assert messages.TopK(q=0.29).count(100) == 29
    assert messages.ST(0.125).sizes(20) == (3, 3)
    assert messages.ST(0.125, "printed").sizes(20) == (3, 2.5)
    assert messages.ST(Fraction(1, 3), "printed").sizes(10) == (4, Fraction(10, 3))
    assert messages.ST(1e-9, "printed").sizes(10) == (1, 1)
    assert messages.ST(0.1 + 1e-12).sizes(10) == (2, 2)  # not a rounding error
    assert messages.ST(1.0).sizes(7) == (7, 7)


@pytest.mark.parametrize("compressor", COMPRESSORS, ids=IDS)
@given(x=vectors)
@settings(max_examples=40, deadline=None)
def test_factors_hold_on_fractions_without_tolerance(compressor, x) -> None:
    for factor in SIDES:
        if getattr(compressor, f"{factor}_exact")(len(x)) is not None:
            left, right = getattr(compressor, f"{factor}_sides")(x)
            assert isinstance(left, int | Fraction)
            assert left <= right, factor
            if factor == "variance":
                assert (compressor.expected(x) == x).all()


@given(st.sampled_from(range(2, 40)), st.data())
@settings(max_examples=60, deadline=None)
def test_st_contracts_as_claimed_and_no_better(dim, data) -> None:
    """The two worst messages reach delta; the printed rule has none up to 2k = n."""
    k = data.draw(st.integers(1, dim))
    equal = fractions([1] * dim)
    peak = fractions([10**9] + [1] * (dim - 1))
    exact_rule = messages.ST(Fraction(k, dim))
    delta = exact_rule.contraction_exact(dim)
    ratios = [1 - exact_rule.expected_error_sq(x) / (x * x).sum() for x in (equal, peak)]
    assert float(min(ratios)) == pytest.approx(float(delta), rel=1e-7)
    printed = messages.ST(Fraction(k, dim), "printed")
    ratio = 1 - printed.expected_error_sq(equal) / (equal * equal).sum()
    assert 1 - ratio == (Fraction(dim, k) - 1) ** 2
    if 2 * k <= dim:
        assert printed.contraction(dim) is None and ratio <= 0
        with pytest.raises(MissingCapability, match="no contraction factor for d = "):
            printed.contraction_sides(equal)
    else:
        just = fractions([1] * k + [1 - Fraction(1, 10**9)] * (dim - k))
        worst = [1 - printed.expected_error_sq(x) / (x * x).sum() for x in (equal, peak, just)]
        assert float(min(worst)) == pytest.approx(printed.contraction(dim), rel=1e-6)


SHARP = [
    (messages.TopK(2), "contraction", [1] * 5),
    (messages.RandomK(2), "contraction", [3, 1, 0, 5, 1]),
    (messages.RandomK(2, scaled=True), "variance", [3, 1, 0, 5, 1]),
    (messages.ScaledSign(), "contraction", [0, 0, 7, 0, 0]),
    (messages.QSGD(1), "variance", [1] * 16),
    (messages.QSGD(2), "variance", [1] * 16),
    (messages.NaturalRounding(), "variance", [Fraction(4, 3), Fraction(-8, 3), 0]),
    (messages.StochasticRounding(), "variance", [4, 1, 1, 1, 1, 1, 1, 1, 1]),
    (messages.StochasticRounding(0.5), "absolute", [0.25, 0.75, -0.25]),
    (messages.Threshold(0.5), "absolute", [0.5, -0.5, 0.5]),
]


@pytest.mark.parametrize(("compressor", "factor", "x"), SHARP, ids=[str(row[0]) for row in SHARP])
def test_factors_are_sharp(compressor, factor, x) -> None:
    left, right = getattr(compressor, f"{factor}_sides")(fractions(x))
    assert float(left) == pytest.approx(float(right), rel=1e-12)
    assert float(left) > 0


def test_factors_that_do_not_exist() -> None:
    assert messages.Threshold(0.5).contraction(3) is None
    assert messages.StochasticRounding(0.1).variance(3) is None
    assert messages.TopK(1).variance(3) is None
    assert messages.RandomK(1).variance(3) is None
    assert messages.RandomK(1, scaled=True, float_bits=32).variance(3) is None
    assert messages.ST(0.5, "printed").contraction(4) is None
    assert messages.ST(0.5, "printed").contraction(1) == 1.0
    assert messages.RandomK(3, scaled=True).contraction(4) == pytest.approx(2 - 4 / 3)
    assert messages.QSGD(4).variance(10**4) == pytest.approx(10**2 / 4 - 1, rel=1e-9)
    assert messages.QSGD(4).variance(10) == pytest.approx(10 / 64, rel=1e-9)  # a quarter of the paper's d/s^2
    assert messages.QSGD(3).contraction(4) == pytest.approx(1 - 1 / 9, rel=1e-9)


ENUMERABLE = [  # messages whose probabilities are multiples of 1/m
    (messages.QSGD(1), [3, -4, 0], 5),
    (messages.QSGD(2), [3, -4, 0], 5),
    (messages.NaturalRounding(), [3, -5, 1, Fraction(7, 16)], 4),
    (messages.StochasticRounding(), [3, -1, 4, 0], 4),
    (messages.StochasticRounding(0.5), [Fraction(5, 8), Fraction(-1, 8), Fraction(7, 4)], 4),
]


@pytest.mark.parametrize(("compressor", "x", "m"), ENUMERABLE, ids=[str(row[0]) for row in ENUMERABLE])
def test_expectations_by_enumerating_the_uniforms(compressor, x, m) -> None:
    """All m^d cells of the cube of uniforms, through compress itself; in fractions and in floats."""
    x = fractions(x)
    cells = np.array(list(itertools.product((np.arange(m) + 0.5) / m, repeat=len(x))))
    every = np.broadcast_to(x, cells.shape)
    sent = compressor.compress(every, cells)
    assert (sent.sum(axis=0) / Fraction(len(cells)) == x).all()
    assert (compressor.expected(x) == x).all()
    error_sq = ((sent - every) ** 2).sum() / Fraction(len(cells))
    assert error_sq == compressor.expected_error_sq(x) > 0
    assert (compressor.compress(every.astype(float), cells) == sent.astype(float)).all()


@pytest.mark.parametrize("scaled", [False, True])
def test_random_k_by_enumerating_the_orders(scaled) -> None:
    x = fractions([3, -1, 0, 2])
    orders = np.array(list(itertools.permutations([0.1, 0.2, 0.3, 0.4])))
    every = np.broadcast_to(x, orders.shape)
    for k in (1, 2, 3, 4):
        compressor = messages.RandomK(k, scaled=scaled)
        sent = compressor.compress(every, orders)
        assert ((sent != 0).sum(axis=1) == [(order[x != 0] <= k / 10 + 0.05).sum() for order in orders]).all()
        assert (sent.sum(axis=0) / Fraction(24) == compressor.expected(x)).all()
        assert (compressor.expected(x) == (x if scaled else x * Fraction(k, 4))).all()
        assert ((sent - every) ** 2).sum() / Fraction(24) == compressor.expected_error_sq(x)


@pytest.mark.parametrize("float_bits", [64, 32])
@pytest.mark.parametrize("compressor", COMPRESSORS, ids=IDS)
@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=10, deadline=None)
def test_every_array_library_sends_the_same(compressor, float_bits, seed) -> None:
    compressor = dataclasses.replace(compressor, float_bits=float_bits)
    rng = np.random.default_rng(seed)
    x = rng.integers(-4, 5, size=(2, 3, 7)) / 8  # sums are exact in any order
    u = rng.random(x.shape)
    sent = compressor.compress(x, u)
    assert sent.dtype == np.float64 and not (np.signbit(sent) & (sent == 0)).any()
    for library in (array_api_strict.asarray, torch.asarray):
        for uniforms in (library(u), u):
            other = compressor.compress(library(x), uniforms)
            assert type(other) is type(library(x)) and other.dtype == library(x).dtype
            np.testing.assert_allclose(to_numpy(other), sent, rtol=1e-14 if float_bits == 64 else 1e-6, atol=0)
            assert (compressor.bits(other) == compressor.bits(sent)).all()
    for i in np.ndindex(2, 3):  # rows do not see each other
        np.testing.assert_allclose(compressor.compress(x[i], u[i]), sent[i], rtol=1e-14)


@each("compressor", COMPRESSORS)
def test_single_precision_messages(compressor) -> None:
    """float_bits=32: what is sent is a 32-bit float, and the factor that allows for it holds for the floats that were sent."""
    compressor = dataclasses.replace(compressor, float_bits=32)
    rng = np.random.default_rng(3)
    x = rng.normal(size=(20, 6))
    u = rng.random(x.shape)
    sent = compressor.compress(x, u)
    if compressor != messages.StochasticRounding(0.25, float_bits=32):
        assert (sent.astype(np.float32) == sent).all()
    delta = compressor.contraction_exact(6)
    if delta is not None and not compressor.randomised:
        for row, message in zip(fractions(x), fractions(sent)):
            assert ((message - row) ** 2).sum() <= (1 - delta) * (row * row).sum()
    single = compressor.compress(torch.asarray(x, dtype=torch.float32), u)
    assert single.dtype == torch.float32
    np.testing.assert_allclose(single.numpy(), compressor.compress(x.astype(np.float32).astype(float), u), rtol=1e-5)


@given(st.integers(1, 9), st.data())
@settings(max_examples=80, deadline=None)
def test_top_k_mask_is_that_of_a_stable_sort(dim, data) -> None:
    values = np.array(
        data.draw(st.lists(st.lists(st.integers(0, 3), min_size=dim, max_size=dim), min_size=1, max_size=4)), float
    )
    k = data.draw(st.integers(1, dim))
    expected = np.zeros(values.shape, dtype=bool)
    np.put_along_axis(expected, np.argsort(-values, axis=1, kind="stable")[:, :k], True, axis=1)
    with_ties = values >= np.sort(values, axis=1)[:, [-k]]
    for library in (np.asarray, array_api_strict.asarray, torch.asarray, fractions):
        assert (to_numpy(top_k_mask(library(values), k)) == expected).all()
        assert (to_numpy(top_k_mask(library(values), k, ties=True)) == with_ties).all()


def test_top_k_selects_without_sorting(monkeypatch) -> None:
    def refuse(*args, **kwargs):
        raise AssertionError("a full sort")

    for name in ("sort", "argsort"):
        monkeypatch.setattr(np, name, refuse)
        monkeypatch.setattr(torch, name, refuse)
        monkeypatch.setattr(torch.Tensor, name, refuse)
    x = np.random.default_rng(0).normal(size=(4, 50))
    for compressor in (messages.ST(0.1), messages.ST(0.1, "printed"), messages.TopK(5), messages.RandomK(5)):
        compressor.compress(x, np.abs(x) / 10)
        compressor.compress(torch.asarray(x), torch.asarray(np.abs(x) / 10))


BAD = [
    (lambda: messages.ST(0.0), "q is 0.0.*must lie in \\(0, 1\\]"),
    (lambda: messages.ST(1.5), "q is 1.5"),
    (lambda: messages.ST(math.nan), "q is nan"),
    (lambda: messages.ST(0.5, "other"), "rule is 'other'; known: 'exact'.*'printed'"),
    (lambda: messages.TopK(), "give one of the two"),
    (lambda: messages.TopK(1, 0.5), "give one of the two"),
    (lambda: messages.TopK(q=-0.1), "q is -0.1"),
    (lambda: messages.TopK(0), "k is 0.*from 1 to d"),
    (lambda: messages.TopK(0.1), "k is 0.1.*a part goes in q"),
    (lambda: messages.TopK(5).check(4), "k = 5 .* dimension 4"),
    (lambda: messages.RandomK(5).compress(np.ones(4), np.ones(4) / 2), "k = 5 .* dimension 4"),
    (
        lambda: messages.RandomK(2).compress(np.ones(4)),
        "random-k is randomised: give uniforms .* of shape \\(4,\\), not None",
    ),
    (lambda: messages.QSGD(2).compress(np.ones(4), np.ones(3)), "not \\(3,\\)"),
    (lambda: messages.QSGD(0), "levels is 0: it must be an integer from 1 to 1073741824"),
    (lambda: messages.QSGD(2**13, float_bits=32), "levels is 8192: it must be an integer from 1 to 4096"),
    (lambda: messages.QSGD(2.5), "levels is 2.5"),
    (lambda: messages.QSGD(2, "gamma"), "code is 'gamma'; known: 'auto'"),
    (lambda: messages.Threshold(-1.0), "epsilon is -1.0"),
    (lambda: messages.StochasticRounding(0.0), "step is 0.0"),
    (lambda: messages.StochasticRounding(1e-300).compress(np.ones(2), np.zeros(2)), "more than 2\\^51 steps"),
    (lambda: messages.Identity(float_bits=16), "float_bits is 16.*32 or 64"),
    (
        lambda: messages.Identity(float_bits=32).compress(np.array([[1.0], [1e39]])),
        "entry \\(1, 0\\).*1e\\+39.*float_bits=64",
    ),
    (
        lambda: messages.ScaledSign().compress(np.array([[1.0, 2.0], [3.0, np.nan]])),
        "entry \\(1, 1\\) of the message is nan",
    ),
    (lambda: messages.TopK(1).compress(torch.asarray([1.0, -math.inf])), "entry \\(1,\\) of the message is -inf"),
    (lambda: messages.ST(0.5).compress(np.arange(3)), "dtype int64: give floats"),
    (lambda: messages.ST(0.5).compress(np.zeros((2, 0))), "dimension 0"),
    (lambda: messages.ST(0.5).compress(np.float64(1.0)), "not a number"),
    (lambda: messages.NaturalRounding().compress(np.array([1.5 * 2.0**1023]), np.zeros(1)), "above 2\\^1023"),
    (
        lambda: messages.RandomK(1, scaled=True).compress(np.full(9, 1e308), np.arange(9) / 9),
        "overflows: use scaled=False",
    ),
    (lambda: messages.QSGD(1).compress(np.full(9, 1e308), np.zeros(9)), "norm above"),
]


@each(("call", "says"), BAD)
def test_bad_input_is_named(call, says) -> None:
    with pytest.raises(InvalidInput, match=says):
        call()


def test_by_name() -> None:
    assert {type(c).name for c in COMPRESSORS} == set(messages.names())
    for name in messages.names():
        assert messages.get(name).name == name
    assert messages.get("Top_K") is messages.TopK
    with pytest.raises(UnknownName, match="did you mean 'top-k'"):
        messages.get("topk")
