"""Eight doubles at a time: every operation as NumPy does it, and what is no array of doubles is refused."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("numba")
from numba import njit
from numba.core.errors import TypingError

from fedtheory.local.lanes import above, entries, fused, load, load_one, padded, splat, store, total, totals

RNG = np.random.default_rng(1)
A, B, C = (RNG.standard_normal(11) * 10.0 ** RNG.integers(-9, 9, 11) for _ in range(3))


@njit
def _apply(what, a, b, c, out):
    x, y, z, into = load(entries(a), 2), load(entries(b), 1), load(entries(c), 3), entries(out)
    if what == 0:
        store(into, 1, x + y)
    elif what == 1:
        store(into, 1, x - y)
    elif what == 2:
        store(into, 1, x * y)
    elif what == 3:
        store(into, 1, fused(x, y, z))
    elif what == 4:
        store(into, 1, above(x, y))
    elif what == 5:
        store(into, 1, splat(load_one(entries(a), 4)))


def applied(what, a=A, b=B, c=C):
    out = np.full(10, np.nan)
    _apply(what, a, b, c, out)
    assert np.isnan(out[[0, 9]]).all()  # nothing beside the eight
    return out[1:9]


def test_operations_of_eight_are_numpys():
    x, y, z = A[2:10], B[1:9], C[3:11]
    for what, wanted in ((0, x + y), (1, x - y), (2, x * y), (4, 1.0 * (x > y)), (5, np.full(8, A[4]))):
        np.testing.assert_array_equal(applied(what), wanted)
    np.testing.assert_allclose(applied(3), x * y + z, rtol=0, atol=4e-16 * np.max(np.abs(x * y) + np.abs(z)))


def test_equal_numbers_and_nan_are_not_above():
    a, b = np.array([0, 0, 1.0, -0.0, np.nan, 2, np.inf, 3, -1, 0, 0]), np.array([0, 1.0, 0.0, 1, np.nan, np.inf, 3, -2, 0, 0, 0])
    np.testing.assert_array_equal(applied(4, a, b), a[2:10] > b[1:9])


@njit
def _sums(rows, out):
    at = entries(rows)
    a, b, c, d = load(at, 0), load(at, 8), load(at, 16), load(at, 24)
    e, f, g, h = load(at, 32), load(at, 40), load(at, 48), load(at, 56)
    store(entries(out), 0, totals(a, b, c, d, e, f, g, h))
    return total(c)


def test_sums_are_of_their_own_eight_in_the_order_that_is_told():
    rows, out = RNG.standard_normal((8, 8)), np.zeros(8)
    third = _sums(rows.ravel(), out)
    np.testing.assert_allclose(out, rows.sum(axis=1), rtol=0, atol=1e-14)
    v = rows[2]
    assert third == ((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7]))


@pytest.mark.parametrize("array", [A.reshape(-1, 1)[::2, 0], A.astype(np.float32), np.arange(11)])
def test_what_is_no_contiguous_array_of_doubles_is_refused(array):
    with pytest.raises(TypingError, match="contiguous array of doubles"):
        _apply(0, array, B, C, np.zeros(10))


def test_padding_is_of_zeros_up_to_a_multiple_of_eight():
    values = RNG.standard_normal((3, 9, 8))
    wide = padded(values, 1)
    assert wide.shape == (3, 16, 8) and wide.flags.c_contiguous and not wide[:, 9:].any()
    np.testing.assert_array_equal(wide[:, :9], values)
    assert padded(values).shape == values.shape and padded(values) is not values
