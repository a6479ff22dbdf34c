"""Enclosures against fractions: every radius is at least what rounding and the operands can cause, and next to nothing more.

What is needed is worked out from the standard model alone: a rounded operation is off by at most 2^-53 of its result.
"""

from __future__ import annotations

from fractions import Fraction

import mpmath
import numpy as np
import pytest

from fedtheory.optimum import intervals
from fedtheory.optimum.intervals import (
    ROUNDOFF,
    Enclosure,
    Rows,
    dot,
    gamma,
    norm_up,
    stack_sum,
    two_product,
)

U = Fraction(1, 2**53)
TINIEST = Fraction(1, 2**999)


def exact(number):
    return Fraction(float(number))


def one(hi, lo=0.0, rad=0.0):
    return Enclosure(np.float64(hi), np.float64(lo), np.float64(rad))


def enough(given, needed, more=Fraction(1, 10**9)):
    """given is at least what is needed, and at most a billionth more."""
    return needed <= exact(given) <= needed * (1 + more) + TINIEST


def holds(ball, number):
    return abs(number - exact(ball.hi) - exact(ball.lo)) <= exact(ball.rad)


def low_parts(a, b, joined):
    """The rounding errors of the high parts' joint result and what is left, exact: (its float64 value, the error)."""
    rounded = float(joined)
    return rounded, float(joined - Fraction(rounded))


# --- bounds of rounding ---------------------------------------------------------------------------
@pytest.mark.parametrize("n", [1, 3, 1000, 2**40])
def test_gamma_is_n_u_over_1_minus_n_u_rounded_up(n):
    assert enough(gamma(n), n * U / (1 - n * U))


@pytest.mark.parametrize("size", [1.0, 1e-320, 2.0**-1074, 1e-200, 1e200, 0.7])
def test_a_norm_is_rounded_up_and_neither_underflows_nor_overflows(size):
    """2^-1074 sqrt(26) is no float64 number and the one next to it is smaller: the least normal number stands for all below."""
    values = size * np.array([3.0, -4.0, 1.0])
    with mpmath.workdps(60):
        true = mpmath.sqrt(mpmath.fsum(mpmath.mpf(float(v)) ** 2 for v in values))
        assert true <= mpmath.mpf(norm_up(values)) <= max(true * (1 + mpmath.mpf(2) ** -36), mpmath.mpf(2) ** -1022)
    assert norm_up(np.zeros((2, 2))) == 0.0 == norm_up(np.zeros(0)) and norm_up(np.array([1.0, np.inf])) == np.inf


def test_the_norm_of_many_numbers_has_room_for_their_roundings():
    n = 250_000  # sqrt(n) is an integer, and n u is more than the room there always is
    assert 500 * (1 + n * U) <= exact(norm_up(np.ones(n))) <= 500 * (1 + 2 * n * U)


@pytest.mark.parametrize(("a", "b"), [(0.1, 0.3), (-1 / 3, 1e10 / 7), (1 + 2.0**-52, 1 - 2.0**-53), (3e150, 7e150)])
def test_a_product_is_split_without_error(a, b):
    product, error = two_product(a, b)
    assert product == a * b and exact(product) + exact(error) == exact(a) * exact(b)


# --- the two ends ---------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("hi", "lo", "rad"),
    [(1.0, 0.5, 0.25), (1.0, -0.5, 0.25), (-1.0, 1.0, 2.0**-53), (1.0, -1.0, 2.0**-54), (0.0, 0.3, 0.1), (-7.0, 0.0, 1e-300)],
)
def test_the_ends_are_rounded_outwards(hi, lo, rad):
    """Of (-1, 1, 2^-53) the rest 1 + 2^-53 rounds to 1, so that 0 would be the end of a plain sum."""
    ball, centre = one(hi, lo, rad), exact(hi) + exact(lo)
    room = Fraction(1, 10**14) * (1 + abs(exact(hi)))
    assert centre + exact(rad) <= exact(ball.upper) <= centre + exact(rad) + room
    assert centre - exact(rad) - room <= exact(ball.lower) <= centre - exact(rad)
    assert enough(ball.mag, abs(exact(hi)) + abs(exact(lo)) + exact(rad))


def test_a_number_is_its_own_end():
    assert one(0.3).upper == one(0.3).lower == 0.3
    ball = Enclosure.exact([1, 2])
    assert ball.hi.tolist() == [1.0, 2.0] and ball.lo.tolist() == ball.rad.tolist() == [0.0, 0.0]
    assert {part.dtype for part in (ball.hi, ball.lo, ball.rad)} == {np.dtype(float)}


# --- sums and products ----------------------------------------------------------------------------
PAIRS = [((1.7, 0.3), (-0.9, 0.7)), ((0.1, 5.3), (0.2, -0.6)), ((2.0**60, 2.0**-53), (1.0, 0.0)), ((0.0, 1.0), (0.0, 2.0**-53))]


@pytest.mark.parametrize(("a", "b"), PAIRS)
def test_the_radius_of_a_sum_is_what_its_two_roundings_can_cause(a, b):
    """The low parts' sum, and that of it and the high parts' error. In the last two pairs one of them is all that is off."""
    _, error = low_parts(a, b, exact(a[0]) + exact(b[0]))
    low = a[1] + b[1]
    total = one(*a) + one(*b)
    assert enough(total.rad, U * (abs(exact(low)) + abs(exact(error + low))))
    assert holds(total, sum(map(exact, (*a, *b))))
    apart = one(*a) - one(-b[0], -b[1])
    assert (apart.hi, apart.lo, apart.rad) == (total.hi, total.lo, total.rad)


@pytest.mark.parametrize(("a", "b"), PAIRS)
def test_the_radius_of_a_product_is_what_its_roundings_and_the_part_left_out_can_cause(a, b):
    """Rounded: both mixed products, their sum, and that of it and the high parts' error. Left out: the low parts' product."""
    _, error = low_parts(a, b, exact(a[0]) * exact(b[0]))
    u, v = a[0] * b[1], a[1] * b[0]
    rounded = sum(abs(exact(part)) for part in (u, v, u + v, error + (u + v)))
    product = one(*a) * one(*b)
    assert enough(product.rad, U * rounded + abs(exact(a[1]) * exact(b[1])))
    assert holds(product, (exact(a[0]) + exact(a[1])) * (exact(b[0]) + exact(b[1])))


def test_radii_are_carried_on():
    a, b = one(1.5, 0.25, 0.125), one(-0.75, 0.5, 0.03125)
    quarter = Fraction(1, 4)
    assert enough((a + b).rad, Fraction(1, 8) + Fraction(1, 32))
    # every product is within |a| rad_b + |b| rad_a of what the centres' is known up to, the low parts' product
    needed = Fraction(1, 8) + (Fraction(7, 4) + Fraction(1, 8)) / 32 + (Fraction(5, 4) + Fraction(1, 32)) / 8
    assert enough((a * b).rad, needed)
    assert enough((a * one(2.0)).rad, quarter) and enough((one(2.0) * a).rad, quarter)
    assert (2.0 * a).hi == (a * 2.0).hi and (1.0 + a).hi == (a + 1.0).hi
    assert (-a).hi == -1.5 and (-a).lo == -0.25 and (-a).rad == 0.125


def test_what_underflows_is_in_the_radius():
    small = 2.0**-600
    assert holds(one(small) * one(small), exact(small) ** 2)
    rows, x = np.array([[small, small]]), np.array([[small, small]])
    product = dot(rows, x)[0, 0]
    assert holds(product, 2 * exact(small) ** 2)
    assert not dot(rows, 0 * x).rad.any()
    zero = Enclosure.exact(np.zeros(3))  # of which every product is 0, without a radius
    for factor in (zero, Enclosure.exact(np.ones(3))):
        for product in (zero * factor, factor * zero):
            assert product.hi.tolist() == product.lo.tolist() == product.rad.tolist() == [0.0] * 3


def test_parts_that_broadcast_are_picked_together():
    ball = Enclosure(np.array([1.0, 2.0, 3.0]), np.float64(0.5), np.float64(0.25))
    picked = ball[1:]
    assert picked.hi.tolist() == [2.0, 3.0] and picked.lo.tolist() == [0.5] * 2 and picked.rad.tolist() == [0.25] * 2
    for last in range(3):  # whichever of the three is the longest
        parts = [np.float64(2.0), np.float64(0.5), np.float64(0.25)]
        parts[last] = np.array([1.0, 4.0, 8.0])
        one_of, total = Enclosure(*parts)[1], Enclosure(*parts).sum()
        assert [one_of.hi, one_of.lo, one_of.rad] == [4.0 if i == last else p for i, p in enumerate((2.0, 0.5, 0.25))]
        whole = [13 if i == last else 3 * exact(p) for i, p in enumerate((2.0, 0.5, 0.25))]
        assert exact(total.hi) + exact(total.lo) == whole[0] + whole[1] and enough(total.rad, whole[2], Fraction(1, 10**8))
    stacked = stack_sum([one(1.0, 2.0, 3.0), one(4.0, 5.0, 6.0)])
    assert (stacked.hi.tolist(), stacked.lo.tolist(), stacked.rad.tolist()) == ([1.0, 4.0], [2.0, 5.0], [3.0, 6.0])


@pytest.mark.parametrize(
    ("hi", "lo", "clipped"),
    [(0.5, 0.25, 0.75), (1.5, -1.0, 0.5), (0.5, 1.0, 1.0), (1.0, 0.25, 1.0), (1.0, -0.25, 0.75), (-2.5, 1.0, -1.5), (-1.5, -1.0, -2.0),
     (-2.0, -0.25, -2.0), (-2.0, 0.25, -1.75), (5.0, 0.0, 1.0), (-5.0, 0.0, -2.0)],
)  # fmt: skip
def test_a_clip_looks_at_the_whole_number(hi, lo, clipped):
    """Clipped to [-2, 1]: what counts is hi + lo, not hi."""
    ball = one(hi, lo, 0.125).clip(-2.0, 1.0)
    assert ball.hi + ball.lo == clipped and ball.rad == 0.125


@pytest.mark.parametrize("n", [1, 2, 3, 5, 6, 7, 8])
def test_a_sum_over_an_axis_counts_every_entry_once(n):
    hi = np.array([[2.0**i, 3.0**i] for i in range(n)])
    total = Enclosure(hi, np.float64(0.25), hi * 2.0**-20).sum()
    for j, base in enumerate((2, 3)):
        whole = sum(Fraction(base) ** i for i in range(n))
        part = total[j]
        assert exact(part.hi) + exact(part.lo) == whole + Fraction(n, 4)
        assert enough(part.rad, whole / 2**20, Fraction(1, 10**8))


def test_a_sum_of_nothing_is_zero():
    total = Enclosure.exact(np.zeros((0, 2))).sum()
    assert total.hi.shape == (2,) and not total.hi.any() and not total.lo.any() and not total.rad.any()


@pytest.mark.parametrize("p", [1, 2, 3, 7])
def test_the_radius_of_a_scalar_product_is_the_bound_of_what_is_left_over(p):
    """2p leftovers, in all at most (p + 1) u |rows||x|, are added in float64: gamma(2p) of that.

    One more u is for the last addition. A feature that no row has is none of the p.
    """
    rng = np.random.default_rng(p)
    rows, x = rng.standard_normal((5, p + 1)), rng.standard_normal((2, p + 1))
    rows[:, 1] = 0
    product = dot(rows, x)
    for i in range(5):
        for c in range(2):
            each = [exact(a) * exact(b) for a, b in zip(rows[i], x[c], strict=True)]
            left = exact(gamma(2 * p)) * U * sum(map(abs, each))
            assert holds(product[i, c], sum(each))
            assert (
                (p + 1) * left
                <= exact(product.rad[i, c])
                <= (p + 2) * left * (1 + Fraction(1, 10**9)) + TINIEST
            )


def test_scalar_products_of_nothing_but_zeros_are_zeros():
    product = dot(np.zeros((2, 3)), np.ones((4, 3)))
    for part in (product.hi, product.lo):
        assert part.dtype == float and part.shape == (2, 4) and not part.any()
    assert product.rad.shape == (2, 4) and (0 <= product.rad).all() and (product.rad <= 2.0**-998).all()


@pytest.mark.parametrize("together", [1, 2**13])
def test_products_of_sparse_rows_leave_zeros_out(together, monkeypatch):
    """Rows with 0, 1, 3, 4 and 13 entries of 13."""
    monkeypatch.setattr(intervals, "IN_CACHE", together)
    rng = np.random.default_rng(0)
    rows, x = np.zeros((40, 13)), rng.standard_normal((2, 13))
    for i, count in enumerate([0, 1, 3, 4, 13]):
        rows[i, rng.permutation(13)[:count]] = rng.standard_normal(count)
    made = Rows(rows)
    product = made.dot(x)
    assert made.sparse and sorted(
        (len(some), len(entries)) for some, _, entries in made._packed
    ) == ([(1, 1), (1, 13), (2, 4)] if together > 1 else [(1, 1), (1, 4), (1, 4), (1, 13)])
    for i in range(5):
        for c in range(2):
            each = [exact(a) * exact(b) for a, b in zip(rows[i], x[c], strict=True)]
            most = 2 * 26 * 15 * U**2 * sum(map(abs, each)) + TINIEST
            assert holds(product[i, c], sum(each)) and exact(product.rad[i, c]) <= most
    assert not product.hi[5:].any() and not product.rad[5:].any()
    dense = Rows(rows[:5])
    assert not dense.sparse and (dense.dot(x).hi == dot(rows[:5], x).hi).all()


def test_the_unit_of_roundoff_is_that_of_float64():
    assert exact(ROUNDOFF) == U and 1 + ROUNDOFF == 1 < 1 + 2 * ROUNDOFF


@pytest.mark.parametrize("n", [2, 80])
def test_a_scalar_product_is_the_same_to_the_last_bit_however_many_columns_are_worked_on_together(n, monkeypatch):
    """The recurrence written out, column after column; a column of zeros is no term, whatever x has there."""
    rng = np.random.default_rng(0)
    rows, x = rng.standard_normal((n, 9)) * 10.0 ** rng.integers(-6, 6, (n, 9)), rng.standard_normal((2, 9))
    rows[:, 4] = 0.0
    total, rest, size = (np.zeros((n, 2)) for _ in range(3))
    for i in (0, 1, 2, 3, 5, 6, 7, 8):
        product, e = two_product(rows[:, i : i + 1], x[:, i])
        before, total = total, total + product
        z = total - before
        rest = rest + (e + ((before - (total - z)) + (product - z)))
        size = size + np.abs(product)
    hi = total + rest
    for together in (1, 8 * n, 2**13):
        monkeypatch.setattr(intervals, "IN_CACHE", together)
        found = dot(rows, x)
        assert (found.hi == hi).all() and (found.hi + found.lo == hi).all()
        np.testing.assert_array_equal(found.rad, dot(rows[:, [0, 1, 2, 3, 5, 6, 7, 8, 4]], x[:, [0, 1, 2, 3, 5, 6, 7, 8, 4]]).rad)
        assert (found.rad >= gamma(16) * 10 * 2.0**-53 * size).all()
    x[:, 4] = np.inf
    np.testing.assert_array_equal(dot(rows, x).hi, hi)
