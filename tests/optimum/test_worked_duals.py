"""A nonsmooth F and its dual bound with every kind of term at once, against fractions and 60 digits.

No two numbers are alike and none is 0 or 1, so that every term counts with its own sign and factor.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from cases import each

from fedtheory.errors import InvalidInput
from fedtheory.optimum.duality import (
    Multipliers,
    NonsmoothStructure,
    _largest,
    _norm,
    _on_simplex,
    _root,
    _transposed,
    check_gap,
    check_radius,
    into_ball,
)
from fedtheory.optimum.intervals import ROUNDOFF, Enclosure, norm_up

NEAR = mp.mpf(10) ** -9
U = mp.mpf(2) ** -53

pytestmark = pytest.mark.usefixtures("sixty_digits")


def real(number):
    if isinstance(number, Fraction):
        return mp.mpf(number.numerator) / number.denominator
    return number if isinstance(number, mp.mpf) else mp.mpf(float(number))


def exact(values):
    return Enclosure.exact(np.array(values, dtype=float))


def ball(hi, lo=0.0, rad=0.0):
    return Enclosure(np.array([hi]), np.array([lo]), np.array([rad]))


ROWS, OFFSETS, LOW, HIGH = [[3.0, 0.7], [-0.5, 2.0]], [1.1, -0.6], [-0.75, -2.5], [1.25, 0.375]
SLOPES = [[[0.3, -1.7], [2.2, 0.4], [-0.9, 0.8]], [[1.9, 3.1], [-2.3, 0.45], [0.15, -0.35]]]
INTERCEPTS = [[0.2, -0.55, 1.4], [0.65, 2.1, -1.3]]
GROUP_WEIGHTS, CENTERS, CENTER_WEIGHTS = [1.5, 0.625], [[2.7, -0.8], [-1.6, 3.3]], [0.875, 1.75]
TOP, LINEAR, RIDGE = 2.25, [0.85, -1.15], 0.375
FORM = NonsmoothStructure(
    2, rows=np.array(ROWS), offsets=np.array(OFFSETS), low=exact(LOW), high=exact(HIGH), slopes=np.array(SLOPES),
    intercepts=np.array(INTERCEPTS), group_weights=exact(GROUP_WEIGHTS), centers=np.array(CENTERS),
    center_weights=exact(CENTER_WEIGHTS), top_weight=exact(TOP), linear=exact(LINEAR), ridge=exact(RIDGE),
)  # fmt: skip
KINDS = {
    "kinks": {"rows": FORM.rows, "offsets": FORM.offsets, "low": FORM.low, "high": FORM.high},
    "groups": {"slopes": FORM.slopes, "intercepts": FORM.intercepts, "group_weights": FORM.group_weights},
    "distances": {"centers": FORM.centers, "center_weights": FORM.center_weights},
    "largest coordinate": {"top_weight": FORM.top_weight},
    "linear": {"linear": FORM.linear},
    "ridge": {"ridge": FORM.ridge},
}


def inner(a, b):
    return sum(real(u) * real(v) for u, v in zip(a, b, strict=True))


def value(x, kinds):
    """F at x, of the terms named."""
    out = mp.mpf(0)
    if "kinks" in kinds:
        for a, b, low, high in zip(ROWS, OFFSETS, LOW, HIGH):
            z = inner(a, x) - real(b)
            out += max(real(low) * z, real(high) * z)
    if "groups" in kinds:
        for w, slopes, intercepts in zip(GROUP_WEIGHTS, SLOPES, INTERCEPTS):
            out += real(w) * max(inner(a, x) + real(b) for a, b in zip(slopes, intercepts))
    if "distances" in kinds:
        for w, c in zip(CENTER_WEIGHTS, CENTERS):
            out += real(w) * mp.sqrt(sum((real(v) - real(u)) ** 2 for v, u in zip(x, c)))
    if "largest coordinate" in kinds:
        out += real(TOP) * max(real(v) for v in x)
    if "linear" in kinds:
        out += inner(LINEAR, x)
    if "ridge" in kinds:
        out += real(RIDGE) / 2 * inner(x, x)
    return out


FEASIBLE = Multipliers(
    np.array([-0.5, 0.25]), np.array([[0.25, 0.75, 0.5], [0.375, 0.125, 0.125]]), np.array([[0.5, -0.25], [-0.75, 1.25]]),
    np.array([1.5, 0.75]),
)  # fmt: skip


def dual(m, radius, kinds):
    """The bound of feasible multipliers and their slope P."""
    constant, slope = mp.mpf(0), [mp.mpf(0)] * 2

    def add(weight, vector):
        slope[:] = [p + real(weight) * real(v) for p, v in zip(slope, vector)]

    if "kinks" in kinds:
        for u, a, b in zip(m.u, ROWS, OFFSETS):
            constant -= real(u) * real(b)
            add(u, a)
    if "groups" in kinds:
        for shares, slopes, intercepts in zip(m.s, SLOPES, INTERCEPTS):
            for s, a, b in zip(shares, slopes, intercepts):
                constant += real(s) * real(b)
                add(s, a)
    if "distances" in kinds:
        for q, c in zip(m.q, CENTERS):
            constant -= inner(q, c)
            add(1, q)
    if "largest coordinate" in kinds:
        add(1, m.top)
    if "linear" in kinds:
        add(1, LINEAR)
    ridge, size = real(RIDGE) if "ridge" in kinds else mp.mpf(0), mp.sqrt(inner(slope, slope))
    r = min(real(radius), size / ridge) if ridge else real(radius)
    return constant - r * size + ridge * r * r / 2, slope


CASES = [tuple(KINDS), *((k,) for k in KINDS), tuple(k for k in KINDS if k != "ridge")]


def made_of(kinds):
    return NonsmoothStructure(2, **{name: part for kind in kinds for name, part in KINDS[kind].items()})


@pytest.mark.parametrize("kinds", CASES, ids="+".join)
def test_the_value_is_enclosed(kinds):
    for x in ([0.35, -0.6], [-1.2, 0.9], [2.5, 3.25], [2.7, -0.8]):  # the last is a centre
        got, true = made_of(kinds).value(np.array(x)), value(x, kinds)
        assert real(got.lower) <= true <= real(got.upper)
        # a piece's upper end is a float64 number: the largest of a group is known to its rounding, all else to twice the digits
        assert real(got.rad) <= (4 * U * (abs(true) + 1) if "groups" in kinds else mp.mpf("1e-28"))
        assert real(got.upper) - real(got.lower) <= 2 * real(got.rad) + 8 * U * (abs(true) + 1)


@each("radius", [0.5, 1.3, 40.0])
@each("kinds", CASES)
def test_the_bound_of_feasible_multipliers(kinds, radius):
    """With the ridge and the largest ball the minimum is inside, at r = ||P||/ridge."""
    bound, slope = made_of(kinds).bound(FEASIBLE, radius)
    true, p = dual(FEASIBLE, radius, kinds)
    assert true - NEAR * (abs(true) + 1) <= real(bound) <= true
    for i in range(2):
        assert abs(p[i] - real(slope.hi[i]) - real(slope.lo[i])) <= real(slope.rad[i]) <= 1e-28
    assert real(bound) <= value([0.35, -0.3], kinds)  # a point of every ball


def test_a_bound_where_the_slope_vanishes_is_the_constant():
    """|x_1 - 3/2| + |x_2| with u = 0 on any ball: 0, with a ridge, too."""
    form = NonsmoothStructure(2, rows=np.eye(2), offsets=np.array([1.5, 0.0]), low=exact([-1.0, -1.0]), high=exact([1.0, 1.0]))
    nothing = Multipliers(np.zeros(2), np.zeros((0, 1)), np.zeros((0, 2)), np.zeros(2))
    assert form.bound(nothing, 5.0)[0] == replace(form, ridge=exact(0.5)).bound(nothing, 5.0)[0] == 0.0
    assert NonsmoothStructure(2).value(np.array([0.5, 2.0])).upper == 0.0


@pytest.mark.parametrize("share", [1 - 1e-9, 1.0, 1 + 1e-9])
def test_the_two_bounds_with_a_ridge_meet_where_the_minimum_is_on_the_sphere(share):
    """c x + ridge/2 x^2 at radius R = c/ridge: -c^2/(2 ridge)."""
    form = NonsmoothStructure(1, linear=exact([2.5 * share]), ridge=exact(1.25))
    bound, _ = form.bound(Multipliers(np.zeros(0), np.zeros((0, 1)), np.zeros((0, 1)), np.zeros(1)), 2.0)
    true = -mp.mpf(share * 2.5) ** 2 / mp.mpf(2.5) if share <= 1 else mp.mpf(2.5) - 2 * mp.mpf(2.5 * share)
    assert true * (1 + NEAR) <= real(bound) <= true


def test_a_ridge_that_is_known_up_to_a_radius_counts_with_its_least_member():
    form = NonsmoothStructure(1, linear=exact([2.5]), ridge=Enclosure(np.float64(1.5), np.float64(0.0), np.float64(0.25)))
    for radius, true in ((40.0, -(2.5**2) / 2.5), (1.5, 1.25 * 1.125 - 3.75)):
        bound, _ = form.bound(Multipliers(np.zeros(0), np.zeros((0, 1)), np.zeros((0, 1)), np.zeros(1)), radius)
        assert true - 1e-9 <= bound <= true


def test_a_slope_whose_square_underflows_bounds_from_below():
    """-2^-1200/(2 5/4), of which float64 knows only that it is negative."""
    form = NonsmoothStructure(1, linear=exact([2.0**-600]), ridge=exact(1.25))
    bound, _ = form.bound(Multipliers(np.zeros(0), np.zeros((0, 1)), np.zeros((0, 1)), np.zeros(1)), 2.0)
    assert -(2.0**-990) <= bound and Fraction(bound) <= -Fraction(1, 2**1200) / Fraction(5, 2)


def test_a_slope_whose_square_underflows_counts_where_the_ridge_is_as_small():
    """-2^-1080/(2 2^-900) = -2^-181."""
    form = NonsmoothStructure(1, linear=exact([2.0**-540]), ridge=exact(2.0**-900))
    bound, _ = form.bound(
        Multipliers(np.zeros(0), np.zeros((0, 1)), np.zeros((0, 1)), np.zeros(1)), 2.0**400
    )
    assert -(2.0**-181) * (1 + 1e-12) <= bound <= -(2.0**-181)


def test_a_largest_coordinate_of_little_weight_counts():
    form = NonsmoothStructure(2, top_weight=exact(0.75))
    assert form.value(np.array([0.5, 2.0])).upper == pytest.approx(1.5, rel=1e-15)
    bound, _ = form.bound(replace(FEASIBLE, u=np.zeros(0), s=np.zeros((0, 1)), q=np.zeros((0, 2)), top=np.array([0.25, 0.5])), 2.0)
    assert bound == pytest.approx(-2 * (0.25**2 + 0.5**2) ** 0.5, rel=1e-9)


# --- multipliers that are not feasible ------------------------------------------------------------
def test_shares_are_scaled_and_sum_exactly_to_every_weight_enclosed():
    """(3, -1, nan, 1) of a weight 10: (7.5, 0, 0, 2.5), and the largest takes what is enclosed beyond it."""
    weight = Enclosure(np.float64(10.0), np.float64(0.25), np.float64(0.125))
    s = _on_simplex(np.array([3.0, -1.0, np.nan, 1.0]), weight)
    assert (s.hi + s.lo).tolist() == [7.75, 0.0, 0.0, 2.5]
    assert s.rad[0] >= 0.125 and s.rad[0] == pytest.approx(0.125, rel=1e-9) and s.rad[1:].tolist() == [0.0] * 3
    nothing = _on_simplex(np.array([0.0, -2.0, np.inf, 0.0]), weight)
    assert (nothing.hi + nothing.lo).tolist() == [2.75, 2.5, 2.5, 2.5]


def test_shares_sum_exactly_to_a_weight_of_two_parts():
    s = _on_simplex(np.array([2.0, 1.0, 0.5]), Enclosure(np.float64(1.0), np.float64(2.0**-60), np.float64(0.0)))
    parts = [Fraction(float(v)) for part in (s.hi, s.lo) for v in part]
    assert abs(sum(parts) - 1 - Fraction(1, 2**60)) <= Fraction(float(s.rad[0])) <= Fraction(1, 2**100)
    assert s.lo[0] != 0 and s.lo[1:].tolist() == s.rad[1:].tolist() == [0.0, 0.0]


def test_shares_that_leave_too_little_are_put_into_one():
    """Of 1 within 3/8 thirds leave 1/3 - 3/8 < 0: all goes into the largest."""
    s = _on_simplex(np.array([2.0, 2.0, 2.5]), Enclosure(np.float64(1.0), np.float64(0.0), np.float64(0.5)))
    assert s.hi.tolist() == [0.0, 0.0, 1.0] and s.rad.tolist()[:2] == [0.0, 0.0] and s.rad[2] >= 0.5


def test_the_whole_bound_uses_multipliers_made_feasible():
    """u cut at its slopes, shares scaled, pulls drawn into their balls: the bound is that of what they become."""
    wild = Multipliers(np.array([-7.0, 9.0]), FEASIBLE.s * 3.0, FEASIBLE.q * 100.0, np.array([3.0, 1.5]))
    sizes = np.linalg.norm(FEASIBLE.q, axis=1, keepdims=True)
    tame = Multipliers(np.array([-0.75, 0.375]), FEASIBLE.s, FEASIBLE.q / sizes * np.array(CENTER_WEIGHTS)[:, None], FEASIBLE.top)
    for radius in (0.5, 40.0):
        true = dual(tame, radius, tuple(KINDS))[0]
        assert true - 1e-9 <= real(FORM.bound(wild, radius)[0]) <= true + 1e-9


@pytest.mark.parametrize(("x", "radius"), [([3.0, -4.0], 2.5), ([1e200, 1e200], 3.0), ([1e-200, -2e-200], 1e-201)])
def test_a_point_outside_is_drawn_to_the_sphere_from_within(x, radius):
    got = into_ball(np.array(x), radius)
    size = mp.sqrt(inner(got, got))
    assert real(radius) * (1 - mp.mpf(2) ** -48) <= size <= real(radius)
    assert got[1] * x[0] == pytest.approx(got[0] * x[1], rel=1e-12)
    inside = np.array(x) / 8 if radius == 2.5 else np.array(x) * 0.0
    assert into_ball(inside, radius) is inside
    least = norm_up(np.array(x))
    assert into_ball(np.array(x), least).tolist() == x and into_ball([0, 0], radius).dtype == float


def test_points_are_drawn_in_each_for_itself():
    x = np.array([[3.0, -4.0], [0.3, 0.4], [0.0, 0.0], [1e-200, 0.0]])
    got = into_ball(x, np.array([2.5, 0.5000000001, 0.0, 0.0]))
    assert (
        got[1].tolist() == [0.3, 0.4]
        and not got[2:].any()
        and abs(got[0] - [1.5, -2.0]).max() <= 2.0**-47
    )


@pytest.mark.parametrize("unit", [1e-250, 1.0, 1e250])
def test_a_norm_is_enclosed_to_the_last_bits(unit):
    """Of (3, -4)(1 +- 2^-60) and (0, 0) and of numbers known up to more than their size."""
    off = np.array([[3.0, 4.0], [0.0, 0.0]]) * unit
    norms = _norm(Enclosure(np.array([[3.0, -4.0], [0.0, 0.0]]) * unit, off * 0.0, off * 2.0**-60))
    low, high = real(norms.lower[0]), real(norms.upper[0])
    true, share = mp.sqrt(sum(real(v) ** 2 for v in off[0])), mp.mpf(2) ** -60
    assert (
        low <= true * (1 - share)
        and true * (1 + share) <= high
        and high - low <= 5 * unit * mp.mpf(2) ** -51
    )
    assert norms.upper[1] == norms.lower[1] == 0.0
    wide = _norm(Enclosure(np.array([1e-9, 0.0]) * unit, np.zeros(2), np.array([3.0, 4.0]) * unit))
    # a square counts its radius twice
    assert real(wide.lower) <= 0 and 5 * real(unit) <= real(wide.upper) <= mp.mpf(7.08) * unit


def test_pulls_that_are_a_hair_too_large_shrink_alike_and_go_on_cancelling():
    """Three of the size 1 up to rounding, of which one is inside and one outside."""
    angles = 0.3 + 2 * np.pi / 3 * np.arange(3)
    centers = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    form = NonsmoothStructure(2, centers=centers, center_weights=Enclosure.exact(np.ones(3)))
    pulls = -centers * np.array([1 - 2.0**-50, 1 + 2.0**-50, 1.0])[:, None]
    pulls[2] = -pulls[0] - pulls[1]
    assert [into_ball(q, 1.0) is q for q in pulls[:2]] == [True, False]
    constant, slope = form.dual(Multipliers(np.zeros(0), np.zeros((0, 1)), pulls, np.zeros(2)))
    assert abs(slope.hi).max() <= 3e-16 and 3 - float(constant.lower) <= 1e-14


@pytest.mark.parametrize("whole", range(3))
def test_parts_are_transposed_together(whole):
    full, row = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]), np.array([[7.0, 8.0, 9.0]])
    parts = [np.float64(0.5), row, row]
    parts[whole] = full
    for got, given in zip(_transposed(Enclosure(*parts)), parts, strict=True):
        np.testing.assert_array_equal(got, np.broadcast_to(given, (2, 3)).T)


# --- roots and largest pieces ---------------------------------------------------------------------
@pytest.mark.parametrize(
    ("r", "e", "rad"),
    [(3.0, 2.0**-60, 0.0), (3.0, 2.0**-20, 0.0), (3.0, -1.5, 0.0), (0.25, 0.0, 2.0**-10), (5.0, 0.5, 2.0**-4)],
)
def test_the_radius_of_a_root_is_the_bound_of_what_the_tangent_leaves(r, e, rad):
    """|sqrt(r^2 + e) - r - e/(2r)| <= e^2/(2 r^3) for every e enclosed, and the radius of e passes through 1/r at most."""
    root = _root(ball(r * r, e, rad))
    miss = abs(mp.mpf(e)) + mp.mpf(rad)
    needed = miss**2 / (2 * mp.mpf(r) ** 3) + mp.mpf(rad) / r + 4 * U * abs(mp.mpf(e) / (2 * r))  # and the tangent's rounding
    assert needed <= real(root.rad[0]) <= needed * (1 + NEAR) + 8 * U * abs(mp.mpf(e)) + mp.mpf(2) ** -990
    assert root.hi[0] == r and root.lo[0] == e / (2 * r)
    for member in (mp.mpf(r) ** 2 + e - rad, mp.mpf(r) ** 2 + e + rad):
        assert abs(mp.sqrt(member) - real(root.hi[0]) - real(root.lo[0])) <= real(root.rad[0])


def test_the_root_of_what_is_no_square_is_enclosed():
    for number in (2.0, 3e-5, 7e40):
        root = _root(ball(number))
        off = abs(mp.sqrt(real(number)) - real(root.hi[0]) - real(root.lo[0]))
        assert off <= real(root.rad[0]) <= mp.mpf(2) ** -98 * mp.sqrt(real(number))
    nothing = _root(ball(0.0, 0.0, 6.25))
    assert nothing.hi[0] == nothing.lo[0] == 0.0 and 2.5 <= nothing.rad[0] <= 2.5 * (1 + 1e-9)
    below = _root(ball(-1.0, 0.0, 7.25))  # what may be a square is between 0 and 6.25
    assert below.hi[0] == below.lo[0] == 0.0 and 2.5 <= below.rad[0] <= 2.5 * (1 + 1e-9)
    assert 0 <= _root(ball(0.0)).rad[0] <= 2.0**-450 and 0 <= _root(ball(4.0)).rad[0] <= 2.0**-900


def test_the_largest_of_each_group_counts_every_piece_that_may_be_larger():
    """Group 1: 2 + 1/4 within 1/8, and 3/2 + 1/2 within 3/4 may be 11/4. Group 2: 7 within 1/2 has no rival."""
    flat = Enclosure(
        np.array([2.0, 1.5, 0.5, 3.0, 7.0, 6.0]), np.array([0.25, 0.5, 0.0, 0.0, 0.0, 0.25]),
        np.array([0.125, 0.75, 0.0, 0.5, 0.5, 0.0]),
    )  # fmt: skip
    got = _largest(flat, 2, 3)
    assert got.hi.tolist() == [2.0, 7.0] and got.lo.tolist() == [0.25, 0.0]
    assert 0.5 <= got.rad[0] <= 0.5 + 1e-12 and 0.5 <= got.rad[1] <= 0.5 + 1e-12
    alone = _largest(Enclosure(np.array([2.0, 1.0]), np.array([-0.75, 0.0]), np.zeros(2)), 1, 2)
    assert 0 <= alone.rad[0] <= 1e-12 and alone.rad[0] >= 0.75 * ROUNDOFF


# --- what is asked --------------------------------------------------------------------------------
@pytest.mark.parametrize("radius", [0, -1.0, 0.0, float("nan"), True, "1", None])
def test_a_radius_is_a_number_above_zero(radius):
    for finite, what in ((True, "a finite number > 0"), (False, "a number > 0")):
        with pytest.raises(InvalidInput) as refused:
            check_radius(radius, finite)
        assert str(refused.value) == f"radius is {radius!r}: the ball needs {what}"


def test_a_radius_may_be_infinite_where_that_is_said():
    assert check_radius(math.inf, finite=False) == math.inf and check_radius(np.float32(0.5)) == 0.5 and check_radius(3) == 3.0
    assert type(check_radius(np.int64(3))) is float
    with pytest.raises(InvalidInput, match="finite"):
        check_radius(math.inf)


def test_a_gap_is_a_finite_number_above_zero():
    assert check_gap(1e-300) == 1e-300 and type(check_gap(2)) is float and check_gap(np.float64(0.5)) == 0.5
    for gap in (0, 0.0, -1e-9, math.inf, float("nan"), "1", None):
        with pytest.raises(InvalidInput) as refused:
            check_gap(gap)
        assert str(refused.value) == f"gap is {gap!r}: it must be a finite number > 0; for example 1e-9"
