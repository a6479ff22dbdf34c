"""The largest entries of many messages, and messages by the few entries they send: as a stable sort and `compress` have them."""

from __future__ import annotations

import numpy as np
import pytest

from fedtheory import messages
from fedtheory.messages import encoders
from fedtheory.messages.selection import top_k_places

RNG = np.random.default_rng(7)


def rows(dim):
    """Messages with ties and without, in order, sparse, of zeros of both signs."""
    return np.concatenate(
        [
            RNG.standard_normal((40, dim)),
            RNG.integers(-2, 3, (40, dim)).astype(float),
            RNG.standard_normal((10, dim)) * (RNG.random((10, dim)) < 0.02),
            np.array([np.arange(dim), -np.arange(dim)[::-1], np.ones(dim), np.zeros(dim), np.full(dim, -0.0)], dtype=float),
        ]
    )


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("dim", [8, 64, 100, 129, 1000])
@pytest.mark.parametrize("k", [1, 2, 12, 64])
def test_places_are_those_of_a_stable_sort(dim, k, compiled):
    x, k = rows(dim), min(k, dim)
    wanted = np.sort(np.argsort(-abs(x), axis=1, kind="stable")[:, :k], axis=1) + np.arange(len(x))[:, None] * dim
    assert (top_k_places(x, k, compiled) == wanted).all()
    assert (top_k_places(x.reshape(5, -1, dim), k, compiled) == wanted.reshape(5, -1, k)).all()
    assert (top_k_places(x.astype(np.float32).astype(float), k, compiled) == top_k_places(x.astype(np.float32), k, compiled)).all()


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize(
    "compressor", [messages.ST(0.05), messages.ST(0.05, float_bits=32), messages.TopK(k=3), messages.TopK(q=0.3, float_bits=32)]
)
def test_few_entries_are_the_message_and_its_bits(compressor, compiled):
    for x in (rows(64), rows(64).astype(np.float32)):
        few, wanted = compressor.few(x, compiled), compressor.compress(x)
        found = np.zeros_like(x)
        found.ravel()[few.where] = few.values
        assert found.tobytes() == wanted.tobytes() and few.bits.tolist() == compressor.bits(wanted).tolist()
        assert (few.values != 0).all()


def test_what_is_not_for_few_entries_is_left_to_compress():
    x = np.full((2, 8), 1e39)
    single = (messages.TopK(k=2, float_bits=32), messages.ST(0.5, float_bits=32))
    for compressor in (messages.ST(0.5, "printed"), messages.QSGD(2), *single):
        assert compressor.few(x) is None

    class Other(messages.TopK):
        def _compress(self, x, uniforms):
            return 0 * x

    assert Other(k=2).few(np.ones((2, 8))) is None


def test_one_rice_parameter_for_equal_counts_is_that_of_each():
    for dim in (1, 10, 1000, 10**6):
        for count in {0, 1, dim // 100, dim // 3, dim}:
            (one,), two = encoders.rice_parameter(np.array([count]), dim), encoders.rice_parameter(np.array([count] * 2), dim)
            assert two.dtype == np.int64 and two.tolist() == [one, one]
