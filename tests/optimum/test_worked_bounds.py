"""Lower bounds by hand: numbers of which no two are equal and none is 0 or 1, both sides in fractions or in 60 digits.

A bound is at most the number worked out here, and at most a billionth of it below: what is a tenth off does not pass.
"""

from __future__ import annotations

import warnings
from fractions import Fraction
from types import SimpleNamespace

import mpmath as mp
import numpy as np
import pytest

from fedtheory.optimum import lower_bounds as certificates
from fedtheory.optimum.intervals import Enclosure, gamma
from fedtheory.optimum.loss_enclosures import SoftmaxRows, SquareRows
from fedtheory.optimum.lower_bounds import LowerBound, Metric, Structure, exact_columns, lower_bounds, newton_metric

NEAR = mp.mpf(10) ** -9

pytestmark = pytest.mark.usefixtures("sixty_digits")


def real(number):
    """A fraction or a float64 number in 60 digits."""
    return mp.mpf(number.numerator) / number.denominator if isinstance(number, Fraction) else mp.mpf(number)


def just_above(given, needed):
    return real(needed) <= real(float(given)) <= real(needed) * (1 + NEAR)


def just_below(given, needed):
    return real(needed) - abs(real(needed)) * NEAR <= real(float(given)) <= real(needed)


# --- the Newton metric ----------------------------------------------------------------------------
def test_the_dual_norm_is_that_of_the_farthest_gradient_enclosed():
    """X'(scale g) with X = ((2, 1), (0, 3)), scale = (1/2, 4), g within 3/8 of 3 and within 5/16 of -5.

    Its entries are g_1 and g_1/2 + 12 g_2, at most 27/8 and |3/2 - 60| + 3/16 + 15/4.
    """
    g = Enclosure(np.array([3.0, -5.0]), np.array([0.25, -0.25]), np.array([0.125, 0.0625]))
    metric = Metric(np.array([0.5, 4.0]), np.array([[2.0, 1.0], [0.0, 3.0]]), 0.25)
    farthest = (Fraction(27, 8), Fraction(117, 2) + Fraction(3, 16) + Fraction(15, 4))
    assert just_above(metric.dual_norm(g), mp.sqrt(real(sum(f**2 for f in farthest))))
    assert just_above(metric.x_norm, mp.sqrt(14))


def test_what_cancels_in_the_dual_norm_may_be_rounding():
    """1 + 2^-53 - 1 is 2^-53, in float64 0: three products and two additions are off by at most gamma(5) of the sizes."""
    g = Enclosure.exact(np.array([1.0, 2.0**-53, -1.0]))
    norm = Metric(np.ones(3), np.ones((3, 1)), 0.25).dual_norm(g)
    assert gamma(5) * 2 <= norm <= gamma(5) * (2 + 1e-9) + 2.0**-52


def test_how_far_the_metric_is_from_the_identity_counts_every_error():
    """H = diag(4, 16) scaled by 1/2 and 1/4 is the identity, so that X is: what is left is the error handed in and rounding.

    ||X||^2 = 2, and three matrix products of two columns are off by gamma(8) of ||X||^2 ||H||, ||H|| = sqrt(2).
    """
    h = np.diag([4.0, 16.0])
    metric = newton_metric(h, lambda scale: float(scale @ [0.125, 0.5]))
    assert metric.scale.tolist() == [0.5, 0.25] and metric.x_factor.tolist() == np.eye(2).tolist()
    assert just_above(metric.delta, Fraction(3, 8))  # 2 (1/16 + 1/8)
    rounding = 2 * real(gamma(8)) * mp.sqrt(2) + real(gamma(4))
    assert just_above(newton_metric(h, lambda scale: 0.0).delta, rounding)


def test_the_distance_from_the_identity_is_an_upper_bound():
    h = np.array([[5.0, 2.0, 0.3], [2.0, 3.0, -0.7], [0.3, -0.7, 11.0]])
    metric = newton_metric(h, lambda scale: 0.0)
    assert metric.scale.tolist() == [0.5, 0.5, 0.25]
    x = [[Fraction(float(v)) for v in row] for row in metric.x_factor]
    hs = [[Fraction(float(v)) * Fraction(a) * Fraction(b) for v, b in zip(row, metric.scale)] for row, a in zip(h, metric.scale)]
    off = Fraction(0)
    for i in range(3):
        for j in range(3):
            entry = sum(x[k][i] * hs[k][m] * x[m][j] for k in range(3) for m in range(3))
            off += (entry - (i == j)) ** 2
    assert off <= Fraction(metric.delta) ** 2 <= Fraction(1, 10**28)


@pytest.mark.parametrize("diagonal", [(1.0, 0.0), (1.0, -2.0), (0.0,)])
def test_a_diagonal_that_is_not_positive_has_no_metric(diagonal):
    assert newton_metric(np.diag(diagonal), lambda scale: 0.0) is None


def test_a_matrix_without_rows_has_the_empty_metric():
    assert newton_metric(np.zeros((0, 0)), lambda scale: 0.0).delta <= 1e-15


# --- structures -----------------------------------------------------------------------------------
class Plane(Structure):
    """F(x) = value with gradient g and Hessian h on `rows`, as a problem would hand them over."""

    def __init__(self, h, g, value, rows=None, majorant=None, relative=0.0, mu=None, **given):
        self.h, self.g, self.number = np.array(h, dtype=float), g, value
        self.dim, self.mu, self.relative, self.asked = len(self.h), mu, relative, []
        self.majorant = np.diag(self.h).copy() if majorant is None else np.array(majorant)
        self.rows = self.h if rows is None else np.array(rows)
        for name, what in given.items():
            setattr(self, name, what)

    def evaluate(self, x):
        self.asked.append(("point", x.copy()))
        return self.number, self.g

    def hessian(self, x, every_row=False, quick=False):
        self.asked.append(("hessian", every_row, x.tolist()))
        return self.h, self.majorant, self.relative

    def span_rows(self):
        return self.rows

    def local_curvature(self, x, coordinates, metric, radius):
        self.asked.append(("radius", radius, x.tolist(), coordinates.tolist()))
        return super().local_curvature(x, coordinates, metric, radius) if self.mu is None else self.mu

    def bounds(self, x=None, **limit):
        return lower_bounds(self, np.zeros(self.dim) if x is None else x, self.number, self.g, **limit)


VALUE = Enclosure(np.float64(2.25), np.float64(0.0), np.float64(0.125))
GRADIENT = Enclosure.exact(np.array([3.0, -5.0]))
H = np.diag([4.0, 16.0])


def test_the_ridge_bounds_by_the_gradient():
    """17/8 - 34/(2 5/2): the least F enclosed, less ||g||^2/(2 ridge)."""
    made = Plane(H, GRADIENT, VALUE, ridge=2.5, declared=", as declared")
    found = {b.name: b.value for b in made.bounds()}
    assert just_below(found["strong convexity, mu = ridge = 2.5, as declared"], Fraction(17, 8) - Fraction(34, 5))


def test_the_ridge_bounds_by_the_farthest_gradient_enclosed():
    """Within 1/4 of 3 and within 1/2 of -5: 17/8 - ((13/4)^2 + (11/2)^2)/(2 5/2)."""
    wide = Enclosure(np.array([3.0, -5.0]), np.zeros(2), np.array([0.25, 0.5]))
    (bound, *_) = (b for b in Plane(H, wide, VALUE, ridge=2.5).bounds() if "ridge" in b.name)
    assert just_below(bound.value, Fraction(17, 8) - (Fraction(13, 4) ** 2 + Fraction(11, 2) ** 2) / 5)


def test_the_newton_metric_bounds_a_quadratic_by_its_least_value():
    """g'H^-1 g/2 = (9/4 + 25/16)/2 below F(x): what a quadratic with this gradient and Hessian falls by."""
    (bound,) = Plane(H, GRADIENT, VALUE).bounds()
    assert bound.name == "strong convexity in the Newton metric"
    assert just_below(bound.value, Fraction(17, 8) - Fraction(61, 32))


def test_a_local_curvature_bounds_in_its_ball():
    """mu = 3/5 for ||u|| <= 4 ||X'g||: F* >= F(x) - (61/16)/(2 3/5)."""
    made = Plane(H, GRADIENT, VALUE, mu=0.6, radius_law="nearby")
    (bound,) = made.bounds()
    assert just_below(bound.value, Fraction(17, 8) - Fraction(61, 16) / Fraction(6, 5))
    ((_, radius, x, coordinates),) = [a for a in made.asked if a[0] == "radius"]
    assert x == [0.0, 0.0] and coordinates == [0, 1]
    assert just_above(radius, 4 * mp.sqrt(real(Fraction(61, 16))))
    assert bound.name == f"ball of radius {radius:.3g} in the Newton metric (nearby)"


@pytest.mark.parametrize(("mu", "bounds"), [(0.5, 0), (0.5 * (1 + 2.0**-38), 1)])
def test_a_local_curvature_must_outgrow_the_gradient_with_room_for_rounding(mu, bounds):
    assert len(Plane(H, GRADIENT, VALUE, mu=mu, radius_law="nearby").bounds()) == bounds


def test_everything_is_asked_at_the_point():
    """And the coordinates at 0, of the matrix whose null space is F's."""
    class Further(Plane):
        def further_bounds(self, x, value, gradient):
            self.asked.append(("further", x.tolist(), value, gradient))
            return []

    made, x = Further(H, GRADIENT, VALUE, mu=0.6, radius_law="nearby"), np.array([0.5, 0.25])
    made.bounds(x)
    asked = {(a[0], a[1]) if a[0] == "hessian" else a[0]: a for a in made.asked}
    assert asked["hessian", True][2] == [0.0, 0.0] and asked["hessian", False][2] == x.tolist()
    assert asked["radius"][2] == x.tolist() and asked["further"] == ("further", x.tolist(), VALUE, GRADIENT)


def test_no_bound_is_left_out_unless_one_meets_the_value():
    """By default the search ends only where F(x) itself is a bound: at F(x) = 0 of what is not negative."""
    zero = Plane(H, GRADIENT, Enclosure.exact(0.0), non_negative=True)
    assert [b.name for b in zero.bounds()] == ["non-negativity"]
    near = Plane(H, Enclosure.exact(np.array([0.5, 0.25])), Enclosure.exact(0.25), ridge=2.5, non_negative=True)
    assert len(near.bounds()) == 3


def test_coordinates_on_which_nothing_depends_are_left_out_and_the_bound_says_so():
    flat = np.diag([4.0, 0.0, 16.0])
    g = Enclosure.exact(np.array([3.0, 0.0, -5.0]))
    (bound,) = Plane(flat, g, VALUE).bounds()
    assert bound.name == "strong convexity in the Newton metric on 2 of 3 coordinates that span"
    assert just_below(bound.value, Fraction(17, 8) - Fraction(61, 32))


def test_a_constant_is_its_own_bound():
    (bound,) = Plane(np.zeros((2, 2)), Enclosure.exact(np.zeros(2)), VALUE).bounds()
    assert just_below(bound.value, Fraction(17, 8)) and bound.name == "F is constant"


def test_bounds_are_sorted_the_best_first_and_those_that_are_not_finite_are_none():
    class Further(Plane):
        def further_bounds(self, x, value, gradient):
            return [LowerBound(-np.inf, "nothing"), LowerBound(1.5, "best"), LowerBound(np.nan, "less"), LowerBound(-7.0, "worst")]

    made = Further(H, GRADIENT, VALUE, ridge=2.5, non_negative=True)
    found = made.bounds()
    assert [b.value for b in found] == sorted((b.value for b in found), reverse=True) and len(found) == 5
    assert found[0].name == "best" and found[-1].name == "worst" and LowerBound(0.0, "non-negativity") in found
    made.non_negative = False
    assert "non-negativity" not in [b.name for b in made.bounds()]


def test_the_cheap_bounds_end_the_search_where_they_are_near_enough():
    """Non-negativity is 19/8 below the largest F enclosed, the ridge 6.8 + 1/4."""
    made = Plane(H, GRADIENT, VALUE, ridge=2.5, non_negative=True)
    x = np.zeros(2)
    assert len(lower_bounds(made, x, VALUE, GRADIENT, enough=2.4)) == 2
    cheap = lower_bounds(made, x, VALUE, GRADIENT, enough=2.4)
    assert [b.name[:6] for b in cheap] == ["non-ne", "strong"]
    assert len(lower_bounds(made, x, VALUE, GRADIENT, enough=2.3)) == 3


def test_the_error_of_a_hessian_is_relative_to_its_majorant():
    """On coordinates 0 and 2, scaled by 1/2 and 1/4: ||X||^2 = 2 times 1/16 (3/4 + 20/16)."""
    made = Plane(np.diag([4.0, 7.0, 16.0]), GRADIENT, VALUE, majorant=[3.0, 5.0, 20.0], relative=2.0**-4)
    assert just_above(made.metric(np.zeros(3), np.array([0, 2])).delta, Fraction(1, 4))
    made.metric(np.zeros(3), np.array([0, 2]), every_row=True)
    assert [a[:2] for a in made.asked if a[0] == "hessian"] == [("hessian", False), ("hessian", True)]


@pytest.mark.parametrize(("relative", "regular"), [(0.9 / 16, True), (1.1 / 16, False)])
def test_the_coordinates_are_proven_by_the_same_majorant(relative, regular):
    """diag(4, 16) with majorant (3, 20): twice the error, 2 2 relative (3/4 + 20/16), must be at most 1/2."""
    made = Plane(H, GRADIENT, VALUE, majorant=[3.0, 20.0], relative=relative)
    assert made.coordinates[1] is regular and made.coordinates[0].tolist() == [0, 1]
    thin = Plane(np.diag([4.0, 0.0, 16.0]), GRADIENT, VALUE, majorant=[3.0, 0.0, 20.0], relative=relative)
    assert thin.coordinates[1] is regular and thin.coordinates[0].tolist() == [0, 2]
    assert Plane(H, GRADIENT, VALUE, relative=9.0, ridge=2.5).coordinates[1]  # a ridge needs no proof


@pytest.mark.parametrize(("relative", "regular"), [(0.9 / 16, True), (1.1 / 16, False)])
def test_small_hessians_are_proven_in_their_own_scale(relative, regular):
    """diag(1/64, 1/256) scaled by 8 and 16 is the identity, and so is its majorant: twice the error is 2 2 2 relative."""
    assert Plane(np.diag([2.0**-6, 2.0**-8]), GRADIENT, VALUE, relative=relative).coordinates[1] is regular


def test_no_rows_at_all_span_nothing():
    (bound,) = Plane(np.zeros((2, 2)), Enclosure.exact(np.zeros(2)), VALUE, rows=np.zeros((0, 2))).bounds()
    assert bound.name == "F is constant"


def test_the_metric_need_not_be_the_inverse_factor_and_how_far_it_is_off_counts(monkeypatch):
    """X = 11/10 I of H = I: X'HX - I = 21/100 I, of the norm 21/100 sqrt(2)."""
    true = certificates.scipy.linalg.solve_triangular
    monkeypatch.setattr(certificates.scipy.linalg, "solve_triangular", lambda *a, **k: 1.1 * true(*a, **k))
    delta = newton_metric(np.diag([4.0, 16.0]), lambda scale: 0.0).delta
    assert 0.21 * 2**0.5 * (1 - 1e-12) <= delta <= 0.21 * 2**0.5 * (1 + 1e-9)


def test_an_overflow_shows_as_a_number_that_is_not_finite_and_is_not_warned_of():
    class Huge(Plane):
        def evaluate(self, x):
            large = np.array([1e300]) * 1e300
            return large, large - large

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        large, nothing = Huge(H, GRADIENT, VALUE).enclose(np.zeros(2))
    assert np.isinf(large).all() and np.isnan(nothing).all()


def test_an_evaluation_is_kept_for_the_last_two_points():
    made = Plane(H, GRADIENT, VALUE)
    point = np.array([0.5, 0.25])
    assert made.enclose(point) == (VALUE, GRADIENT) and made.enclose(point.copy()) == (VALUE, GRADIENT)
    assert len(made.asked) == 1
    point[0] = 0.75  # the point itself was kept, not the caller's array
    made.enclose(point)
    made.enclose(np.array([0.5, 0.25]))
    assert [a[1].tolist() for a in made.asked] == [[0.5, 0.25], [0.75, 0.25]]
    made.enclose(np.zeros(2))
    made.enclose(np.array([0.5, 0.25]))
    assert [a[1].tolist() for a in made.asked] == [
        [0.5, 0.25],
        [0.75, 0.25],
        [0.0, 0.0],
        [0.5, 0.25],
    ]


def test_a_structure_says_what_it_lacks_and_claims_nothing():
    bare = Structure()
    for ask in (lambda: bare.evaluate(np.zeros(1)), lambda: bare.hessian(np.zeros(1)), bare.span_rows):
        with pytest.raises(NotImplementedError):
            ask()
    assert bare.further_bounds(np.zeros(1), VALUE, GRADIENT) == [] and bare.separated(np.zeros(1)) is False
    assert bare.why_not(np.zeros(1)) == "no argument applies"
    assert bare.local_curvature(np.zeros(1), np.arange(1), Metric(np.ones(1), np.ones((1, 1)), 0.3), 2.0) == 0.7


# --- coordinates of data --------------------------------------------------------------------------
def samples(features, ridge=0.0, classes=1):
    """One client with these rows."""
    a = np.array(features, dtype=float)[None]
    return SimpleNamespace(
        dim=a.shape[2] * classes, ridge=ridge, weights=np.ones(1), features=a, sample_weights=np.full(a.shape[:2], 2.0**-3)
    )


DEPENDENT = [[3.0, 5.0, 8.0, 0.0], [1.0, 7.0, 8.0, 0.0], [2.0, -4.0, -2.0, 0.0], [6.0, 0.5, 6.5, 0.0]]  # the third is a sum


def test_features_that_others_span_are_left_out_for_every_class_and_the_last_class_with_them():
    picked, proven = SquareRows(samples(DEPENDENT), np.zeros((1, 4))).coordinates
    assert proven and len(picked) == 2 and 3 not in picked and sorted(picked) == picked.tolist()
    labels = np.eye(3)[[0, 1, 2, 0]][None]
    several, proven = SoftmaxRows(samples(DEPENDENT, classes=3), labels).coordinates
    assert proven and several.tolist() == [3 * i + c for i in picked for c in (0, 1)]
    every, proven = SoftmaxRows(samples(np.array(DEPENDENT)[:, :2], classes=3), labels).coordinates
    assert proven and every.tolist() == [0, 1, 3, 4]
    ridged, proven = SoftmaxRows(samples(DEPENDENT, 0.5, 3), labels).coordinates
    assert proven and ridged.tolist() == list(range(12))


@pytest.mark.parametrize("size", [2.0**-40, 2.0**40])
def test_features_of_other_sizes_are_no_less_independent(size):
    rows = np.array(DEPENDENT)[:, :2] * [1.0, size]
    picked, proven = SquareRows(samples(np.column_stack([rows, rows @ [2.0, -1.0]])), np.zeros((1, 4))).coordinates
    assert proven and len(picked) == 2


def test_a_dependence_up_to_rounding_is_not_proven():
    rows = np.array(DEPENDENT)
    rows[0, 2] = np.nextafter(8.0, 9.0)
    picked, proven = SquareRows(samples(rows), np.zeros((1, 4))).coordinates
    assert len(picked) == 2 and not proven


def test_columns_that_are_given_span_those_of_zeros():
    rows = np.array([[1.5, 0.0], [2.5, 0.0], [0.0, 0.0]])
    assert exact_columns(rows, np.array([0]))
    assert exact_columns(np.zeros((3, 2)), np.array([], dtype=int))
    assert not exact_columns(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([], dtype=int))


def test_a_combination_with_fractions_is_checked_with_every_weight():
    """The last column is 2/3 of the first less 5/7 of the second, and there are more rows than columns."""
    first, second = np.array([21.0, 42.0, 63.0, 21.0]), np.array([7.0, 35.0, -14.0, 21.0])
    last = 2 * first / 3 - 5 * second / 7
    assert exact_columns(np.stack([first, second, last], axis=1), np.array([0, 1]))
    assert exact_columns(np.stack([last, first, second], axis=1), np.array([1, 2]))
    for row in range(4):
        wrong = last.copy()
        wrong[row] = np.nextafter(wrong[row], np.inf)
        assert not exact_columns(np.stack([first, second, wrong], axis=1), np.array([0, 1]))


@pytest.mark.parametrize(("denominator", "spans"), [(1000, True), (1001, False)])
def test_denominators_up_to_1000_are_short(denominator, spans):
    first, second = np.array([1.0, 0.0, 3.0]) * denominator, np.array([0.0, 2.0, 5.0])
    assert exact_columns(np.stack([first, second, first / denominator + second], axis=1), np.array([0, 1])) is spans


def test_a_square_is_rounded_up_even_where_it_underflows():
    assert certificates._square(0.0) == 0.0 and just_above(certificates._square(0.3), real(0.3) ** 2)
    assert Fraction(2) ** -1200 <= Fraction(certificates._square(2.0**-600)) <= Fraction(2) ** -999
