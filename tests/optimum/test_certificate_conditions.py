"""Every inequality on which a certificate is accepted: a case worked out by hand just inside it, which is accepted, and one just
outside it, which is refused."""

from __future__ import annotations

from math import sqrt
from types import SimpleNamespace

import numpy as np
import pytest

from fedtheory.errors import InvalidInput, NotCertified
from fedtheory.optimum import on_ball
from fedtheory.optimum.duality import Multipliers, NonsmoothStructure, _largest, _on_simplex, _root, into_ball
from fedtheory.optimum.intervals import Enclosure
from fedtheory.optimum.lower_bounds import Metric, Structure, exact_columns, lower_bounds, newton_metric

GAP = 2.0**-6


def kink(offset):
    """F(x) = |x - offset| in one dimension."""
    one = Enclosure.exact(np.ones(1))
    return NonsmoothStructure(1, rows=np.ones((1, 1)), offsets=np.array([float(offset)]), low=-one, high=one)


def slope(c, ridge=0.0):
    """F(x) = c x + ridge/2 x^2 in one dimension."""
    return NonsmoothStructure(1, linear=Enclosure.exact(np.array([float(c)])), ridge=Enclosure.exact(float(ridge)))


def multipliers(form, u=(), q=None):
    groups, pieces = form.intercepts.shape
    pulls = np.zeros(form.centers.shape) if q is None else np.asarray(q, dtype=float)
    return Multipliers(np.array(u, dtype=float), np.zeros((groups, pieces)), pulls, np.zeros(form.dim))


@pytest.fixture
def judge(monkeypatch):
    """Certify with one point for each radius and one set of multipliers, and nothing else to choose from."""

    def run(form, points, u=(), gap=GAP):
        asked = []

        def candidates(_, radius, near=None):
            asked.append(radius)
            yield np.array([float(points[radius])]), multipliers(form, u), "conic", "given"

        monkeypatch.setattr(on_ball, "candidates", candidates)
        monkeypatch.setattr(on_ball, "candidates_near", lambda *_: iter(()))
        best = on_ball.certify_on_ball(SimpleNamespace(nonsmooth_structure=lambda: form), 2.0, gap)
        return best, asked

    return run


# --- on a ball: what gap is accepted --------------------------------------------------------------
def between(first=1):
    """F(x) = |x - first| + |x - first - 2| in one dimension: F* = 2, F(0) = 2 + 2 first."""
    ones = Enclosure.exact(np.ones(2))
    return NonsmoothStructure(1, rows=np.ones((2, 1)), offsets=np.array([first, first + 2.0]), low=-ones, high=ones)


@pytest.mark.parametrize(
    ("form", "point", "u", "gap"),
    [
        # F(x) = 2 + share GAP, bound 2; F(0) = 4
        (between(), lambda share: 1 - share * GAP / 2, [1.0, -1.0], lambda share: share * GAP / 4),
        (slope(-4), lambda share: 2 / (1 + share * GAP), [], lambda share: share * GAP),  # F = -8/(1 + share GAP), bound -8
    ],
    ids=["below F(0)", "above F(0)"],
)
def test_a_gap_is_accepted_up_to_the_limit_of_the_value_and_no_further(judge, form, point, u, gap):
    """The limit is met by (value - bound)/|value|, whatever F(0) is."""

    def certify(share):
        limit = GAP / (2 + share * GAP) if len(u) else GAP
        return judge(form, {2.0: point(share), 4.0: point(share)}, u, limit)[0]

    found = certify(0.95)
    assert found.gap == pytest.approx(gap(0.95), rel=1e-6)
    with pytest.raises(NotCertified, match="the limit"):
        certify(1.05)


@pytest.mark.parametrize(("offset", "scale"), [(1, 1), (0, 2)], ids=["relative to F(0)", "relative to F elsewhere"])
def test_where_f_is_0_at_its_minimum_a_width_counts_as_0_up_to_the_floor(judge, offset, scale):
    """|x - offset| at x = offset with the multiplier e is 0, its bound -e (offset + 2); the scale is F(0), or F(2) where that is 0."""

    def certify(share):
        return judge(kink(offset), dict.fromkeys((2.0, 4.0), float(offset)), [share * on_ball.FLOOR * scale / (offset + 2)])[0]

    assert certify(0.95).width == pytest.approx(0.95 * on_ball.FLOOR * scale, rel=1e-6)
    with pytest.raises(NotCertified, match=r"F\* is known to .* of itself, the limit is"):
        certify(1.05)


def test_the_ball_is_idle_where_the_bound_on_twice_the_radius_closes_the_gap(judge):
    """|x| + |x - 2| at x = 0 is 2; with the multipliers 1 and e - 1 the bound on the ball of radius r is 2 - 2e - e r: 2 - 4e at R = 2,
    2 - 6e at 2R."""
    inside, asked = judge(between(0), {2.0: 0.0, 4.0: 0.0}, [1.0, 0.95 * GAP / 3 - 1])
    assert inside.details["constraint"] == "inactive" and asked == [2.0]
    assert inside.lower_bound == pytest.approx(2 - 4 * 0.95 * GAP / 3, rel=1e-6)
    outside, asked = judge(between(0), {2.0: 0.0, 4.0: 0.0}, [1.0, 1.05 * GAP / 3 - 1])
    assert outside.details["constraint"] == "undecided" and asked == [2.0, 4.0]


def test_the_ball_is_active_where_a_point_outside_is_below_the_bound(judge):
    """-x is -2 at the end of the ball of radius 2, and that is its bound there."""
    beyond, asked = judge(slope(-1), {2.0: 2.0, 4.0: 2 + GAP / 100})
    assert beyond.details["constraint"] == "active" and asked == [2.0, 4.0]
    assert judge(slope(-1), {2.0: 2.0, 4.0: 2.0})[0].details["constraint"] == "undecided"
    short = judge(slope(-1), {2.0: 2 - GAP, 4.0: 2 - GAP / 100})[0]  # below the value, but not below the bound
    assert short.details["constraint"] == "undecided"


def _holding(least):
    """A problem of which every ball from radius `least` on is shown to hold a minimiser."""
    return SimpleNamespace(
        lipschitz=lambda radius: np.ones(1),
        optimum_on_ball=lambda radius: SimpleNamespace(details={"constraint": "inactive" if radius >= least else "undecided"}),
    )


def test_a_start_may_be_outside_a_given_ball_by_rounding_only():
    assert on_ball.choose_radius(_holding(1), 2.0, np.array([2 * (1 + 0.9e-12)])) == (2.0, "given")
    with pytest.raises(InvalidInput, match="outside the ball"):
        on_ball.choose_radius(_holding(1), 2.0, np.array([2 * (1 + 1.1e-12)]))


def test_a_radius_that_is_chosen_holds_the_start_and_ends_at_the_largest():
    assert on_ball.choose_radius(_holding(1), None, np.array([2.0]))[0] == 2
    assert on_ball.choose_radius(_holding(1), None, np.array([2 * (1 + 1e-12)]))[0] == 4
    assert on_ball.choose_radius(_holding(on_ball.LARGEST_RADIUS), None)[0] == on_ball.LARGEST_RADIUS == 2**20
    with pytest.raises(InvalidInput, match="no ball up to radius"):
        on_ball.choose_radius(_holding(2 * on_ball.LARGEST_RADIUS), None)


# --- the dual bound -------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("c", "least"),
    [(1.1, -(1.1**2) / 4), (1.99, -(1.99**2) / 4), (2.01, 1 - 2.01), (3.9, 1 - 3.9)],
    ids=["well inside", "just inside", "just outside", "well outside"],
)
def test_the_bound_with_a_ridge_is_the_minimum_on_the_ball(c, least):
    """c x + x^2 on [-1, 1]: -c^2/4 at -c/2 where c <= 2, else 1 - c at the end."""
    form = slope(c, ridge=2)
    assert least - 1e-9 <= form.bound(multipliers(form), 1.0)[0] <= least


def test_multipliers_of_kinks_are_cut_at_the_slopes():
    """|x - 1| on [-2, 2]: u bounds it by -u - 2|u|, -1 <= u <= 1."""
    form = kink(1)
    for given, used in ((0.95, 0.95), (1.05, 1.0), (-0.95, -0.95), (-1.05, -1.0), (-4.0, -1.0)):
        bound = form.bound(multipliers(form, [given]), 2.0)[0]
        assert bound == pytest.approx(-used - 2 * abs(used), abs=1e-9)
    tall = kink(10)  # on [-2, 2] |x - 10| >= 8: with u = -1 the bound is 10 - 2
    assert tall.bound(multipliers(tall, [-1.05]), 2.0)[0] == pytest.approx(8, abs=1e-9)


def test_multipliers_of_distances_are_cut_at_the_weight():
    """3 ||x - (6, 8)|| on the ball of radius 2 is least in the direction of the centre: 3 (10 - 2) = 24, with q = -3 (0.6, 0.8)."""
    form = NonsmoothStructure(2, centers=np.array([[6.0, 8.0]]), center_weights=Enclosure.exact(np.array([3.0])))
    for size, used in ((0.95, 0.95), (1.05, 1.0), (4.0, 1.0)):
        q = [[-3 * size * 0.6, -3 * size * 0.8]]
        assert form.bound(multipliers(form, q=q), 2.0)[0] == pytest.approx(24 * used, rel=1e-9)


@pytest.mark.parametrize(("spread", "shares"), [(0.45, (0.5, 0.5)), (0.55, (1.0, 0.0))], ids=["just enough", "just too little"])
def test_shares_stay_at_or_above_zero_for_every_weight_enclosed(spread, shares):
    """Of a weight 1 +- spread halves leave 1/2 +- spread to the largest: too little from 1/2 on, and it then takes all."""
    s = _on_simplex(np.array([1.0, 1.0]), Enclosure(np.float64(1.0), np.float64(0.0), np.float64(spread)))
    assert (s.lower >= 0).all() and s.hi == pytest.approx(shares) and s.upper.sum() >= 1 + spread


def test_a_point_is_drawn_into_the_ball_and_left_alone_inside():
    inside = np.array([3.0, 4.0]) * (1 - 1e-9)
    assert into_ball(inside, 5.0) is inside
    outside = into_ball(np.array([3.0, 4.0]) * (1 + 1e-9), 5.0)
    assert 5 * (1 - 1e-11) <= sqrt(outside @ outside) <= 5


@pytest.mark.parametrize("e", [-8.99, -1.0, 1.0, 20.0])
def test_a_root_stays_enclosed_when_the_low_part_is_large(e):
    """sqrt(9 + e) is within e^2/(2 27) of 3 + e/6; at e = -9 that is attained."""
    root = _root(Enclosure(np.array([9.0]), np.array([e]), np.zeros(1)))
    assert root.lower[0] <= sqrt(9 + e) <= root.upper[0]


def test_a_root_stays_enclosed_for_every_number_of_the_radius():
    root = _root(Enclosure(np.array([9.0]), np.zeros(1), np.array([8.0])))
    assert root.lower[0] <= 1 and root.upper[0] >= sqrt(17)
    nothing = _root(Enclosure(np.zeros(1), np.zeros(1), np.array([4.0])))
    assert nothing.lower[0] <= 0 and nothing.upper[0] >= 2


def test_the_largest_is_enclosed_when_another_piece_may_be_larger():
    pieces = Enclosure(np.array([1.0, 0.75]), np.zeros(2), np.array([0.0, 0.5]))
    largest = _largest(pieces, 1, 2)
    assert largest.lower[0] <= 1 and largest.upper[0] >= 1.25


# --- lower bounds without a ball ------------------------------------------------------------------
def test_a_metric_is_accepted_while_it_is_within_one_half_of_the_identity():
    metric = newton_metric(np.ones((1, 1)), lambda scale: 0.49)
    assert metric.delta == pytest.approx(0.49, rel=1e-9) and metric.delta >= 0.49
    assert newton_metric(np.ones((1, 1)), lambda scale: 0.51) is None
    # X = 1/sqrt(2) makes X'HX = 1 of H = 2: an error of H counts half
    assert newton_metric(np.array([[2.0]]), lambda scale: 0.9 * scale[0] ** 2) is not None  # 0.9/2 = 0.45
    assert newton_metric(np.array([[2.0]]), lambda scale: 1.1 * scale[0] ** 2) is None  # 1.1/2 = 0.55


class Given(Structure):
    """F(x) = value, with gradient g, Hessian h known up to `relative` and curvature mu where asked, in one dimension."""

    dim = 1

    def __init__(self, mu=None, ridge=0.0, law="local", g=1.0, h=1.0, relative=0.0):
        self.mu, self.ridge, self.radius_law, self.g, self.h, self.relative = mu, ridge, law, g, h, relative

    def hessian(self, x, every_row=False, quick=False):
        return np.array([[self.h]]), np.array([self.h]), self.relative

    def span_rows(self):
        return np.ones((1, 1))

    def local_curvature(self, x, coordinates, metric, radius):
        return super().local_curvature(x, coordinates, metric, radius) if self.mu is None else self.mu

    def bounds(self, enough=0.0):
        value, gradient = Enclosure.exact(0.0), Enclosure.exact(np.array([self.g]))
        return lower_bounds(self, np.zeros(1), value, gradient, enough)


@pytest.mark.parametrize("g", [1.0, 3.0])
def test_a_ball_bounds_where_its_curvature_outgrows_the_gradient(g):
    """On the sphere of radius r = 4|g| F is at least F(x) - |g| r + mu r^2/2, which is F(x) at mu = 1/2."""
    (bound,) = Given(0.51, g=g).bounds()
    assert bound.value == pytest.approx(-(g**2) / 1.02, rel=1e-9) and bound.value <= -(g**2) / 1.02
    assert "ball of radius" in bound.name
    assert Given(0.49, g=g).bounds() == []


def test_a_global_curvature_bounds_where_it_is_positive():
    (bound,) = Given(0.01, law="global").bounds()
    assert bound.value == pytest.approx(-50, rel=1e-9)
    assert Given(0.0, law="global").bounds() == Given(-0.01, law="global").bounds() == []


def test_the_metrics_own_error_is_taken_from_the_curvature():
    metric = Metric(np.ones(1), np.ones((1, 1)), 0.25)
    assert Given().local_curvature(np.zeros(1), np.arange(1), metric, 1.0) == 0.75
    (bound,) = Given(law="global", relative=0.2).bounds()
    assert bound.value == pytest.approx(-1 / (2 * 0.8), rel=1e-9) and bound.value <= -1 / 1.6


def test_a_hessian_is_regular_while_twice_its_error_is_below_one_half():
    assert Given(relative=0.24).coordinates[1] and not Given(relative=0.26).coordinates[1]
    assert Given(law="global", relative=0.24).bounds() and not Given(law="global", relative=0.26).bounds()


def test_a_costly_bound_is_left_out_only_while_the_cheap_one_is_near_enough():
    """With the ridge 1 and the Hessian 2 in the metric's coordinates, F >= -1/2 by the one and -1/4 by the other."""
    made = Given(ridge=1.0, law="global", h=2.0)
    assert [b.value for b in made.bounds(enough=0.55)] == [pytest.approx(-0.5, rel=1e-9)]
    assert [b.value for b in made.bounds(enough=0.45)] == [pytest.approx(-0.25, rel=1e-9), pytest.approx(-0.5, rel=1e-9)]


# --- columns that span the others exactly ---------------------------------------------------------
def _sum_of_two(unit, wrong=0.0):
    """Three rows; the third column is the sum of the first two."""
    first, second = np.array([1.0, 0.0, 1.0]), np.array([0.0, 1.0, 2.0])
    return unit * np.stack([first, second, first + second + np.array([0.0, 0.0, wrong])], axis=1)


def test_as_many_rows_as_columns_span_and_one_more_does_not():
    rows = np.array([[1.0, 0.0, 0.3], [0.0, 1.0, 0.7], [1.0, 1.0, 0.123]])
    assert exact_columns(rows[:2], np.array([0, 1])) and not exact_columns(rows, np.array([0, 1]))
    assert exact_columns(np.concatenate([rows[:2], rows[:1], 0 * rows]), np.array([0, 1]))  # repeated and zero rows are none


def test_a_dependence_holds_to_the_last_bit():
    assert exact_columns(_sum_of_two(1.0), np.array([0, 1]))
    assert not exact_columns(_sum_of_two(1.0, 2.0**-51), np.array([0, 1]))  # 3 and the next number


@pytest.mark.parametrize(("inside", "outside"), [(2.0**-465, 2.0**-466), (2.0**463, 2.0**464)], ids=["small", "large"])
def test_products_must_neither_underflow_nor_overflow(inside, outside):
    """Entries from 1e-140 to 1e140: 2^-465 = 1.05e-140, and 3 2^463 = 7.1e139."""
    assert exact_columns(_sum_of_two(inside), np.array([0, 1]))
    assert not exact_columns(_sum_of_two(outside), np.array([0, 1]))


def _combination(denominators):
    """Columns of a basis, the last column sum_i basis_i/denominators_i, one row more than there are in the basis."""
    n = len(denominators)
    counts = np.concatenate([np.eye(n), np.ones((1, n))])
    return np.concatenate([counts * np.array(denominators, dtype=float), counts.sum(axis=1, keepdims=True)], axis=1), np.arange(n)


@pytest.mark.parametrize(
    ("inside", "outside"),
    [((1, 997), (1, 1009)), ((96, 101, 103), (97, 101, 103)), ((1,) * 200, (1,) * 201)],
    ids=["a denominator up to 1000", "a common one up to 10^6: 998688 and 1009091", "up to 200 columns"],
)
def test_coefficients_must_be_short(inside, outside):
    assert exact_columns(*_combination(inside)) and not exact_columns(*_combination(outside))
