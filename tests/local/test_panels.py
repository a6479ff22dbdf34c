"""Four rows times a matrix, with the threshold in the registers: NumPy's numbers, at every width, and nothing beside them."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

pytest.importorskip("numba")
from numba import njit

from fedtheory.local.lanes import entries, zeros
from fedtheory.local.panels import HEIGHT, affine_soft


@njit
def _apply(out, z, m, b, depth, dim, stride, cut):
    affine_soft(entries(out), entries(z), entries(m), entries(b), depth, dim, stride, cut)


def soft(v, cut):
    return v - np.clip(v, -cut, cut)


@pytest.mark.parametrize("dim", [*range(1, 20), 24, 25, 26, 28, 31, 34, 36, 50, 66, 67, 80])
def test_numpys_numbers_at_every_width(dim):
    rng, stride = np.random.default_rng(dim), -(-dim // 8) * 8
    depth = max(1, dim - 3)
    z, b, out = zeros(HEIGHT, stride), zeros(HEIGHT, stride), zeros(HEIGHT + 1, stride)
    m = zeros(depth, stride)
    z[:, :depth], b[:, :dim], m[:, :dim] = rng.standard_normal((HEIGHT, depth)), 1.0, rng.standard_normal((depth, dim))
    z[:, depth:], out[HEIGHT] = np.nan, 7.0  # of which the first is not read, and the other stays
    wanted = z[:, :depth] @ m[:, :dim] + 1.0
    _apply(out, z, m, b, depth, dim, stride, 0.25)
    np.testing.assert_allclose(out[:HEIGHT, :dim], soft(wanted, 0.25), rtol=1e-12, atol=1e-13)
    assert not out[:HEIGHT, dim:].any() and (out[HEIGHT] == 7.0).all()
    _apply(b, z, m, b, depth, dim, stride, 0.0)  # the end may be where what is added was
    np.testing.assert_allclose(b[:, :dim], wanted, rtol=1e-12, atol=1e-13)


def test_an_entry_does_not_depend_on_where_its_column_lies():
    """Columns that share a register with other rows have the numbers of columns that do not."""
    rng = np.random.default_rng(3)
    z, m, found = zeros(HEIGHT, 56), zeros(50, 56), []
    z[:, :50], m[:, :50] = rng.standard_normal((HEIGHT, 50)), rng.standard_normal((50, 50))
    for dim in (50, 56):
        out = zeros(HEIGHT, 56)
        _apply(out, z, m, zeros(HEIGHT, 56), 50, dim, 56, 0.1)
        found.append(out.tobytes())
    assert found[0] == found[1]


def test_a_product_by_hand():
    """(1/2, 3) times ((1, 2), (-1, 4)) is (-5/2, 13); plus (1, -1) it is (-3/2, 12), and less the threshold 2 it is (0, 10)."""
    z, m, b, out = zeros(HEIGHT, 8), zeros(2, 8), zeros(HEIGHT, 8), zeros(HEIGHT, 8)
    z[0, :2], m[:, :2], b[0, :2] = (0.5, 3.0), ((1.0, 2.0), (-1.0, 4.0)), (1.0, -1.0)
    _apply(out, z, m, b, 2, 2, 8, 2.0)
    assert out[0].tolist() == [0.0, 10.0, 0, 0, 0, 0, 0, 0] and not out[1:].any()
    _apply(out, z, m, b, 2, 2, 8, 0.0)
    assert [Fraction(v) for v in out[0, :2]] == [Fraction(-3, 2), 12]
    _apply(out, z, m, b, 0, 2, 8, 0.5)  # nothing of z counts
    assert out[0, :2].tolist() == [0.5, -0.5]


def test_what_is_no_number_stays_none():
    z, m, b, out = zeros(HEIGHT, 8), zeros(1, 8), zeros(HEIGHT, 8), zeros(HEIGHT, 8)
    b[0, :3] = np.nan, np.inf, -np.inf
    _apply(out, z, m, b, 1, 3, 8, 1.0)
    assert np.isnan(out[0, 0]) and out[0, 1:3].tolist() == [np.inf, -np.inf] and not out[1:].any()


