"""A loss of which the class declares curvature and rounding: what is enclosed, and the limits of what samples can disprove."""

from __future__ import annotations

from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest

from fedtheory.errors import NotCertified
from fedtheory.optimum.custom_losses import DeclaredRows, declared_rows
from fedtheory.optimum.intervals import ROUNDOFF, Enclosure
from fedtheory.optimum.lower_bounds import Metric

U = Fraction(1, 2**53)
LONG = np.finfo(np.longdouble).eps < 2.0**-59
UNEQUAL = {"features": np.ones((1, 3, 1)), "sample_weights": np.array([[0.5, 0.5, 0.0]]), "weights": np.ones(1), "dim": 1}


def parabola(kappa=3.0, ridge=0.5, rounding=16.0, curvature_max=None, phi=0.0, dphi=0.0, d2phi=0.0, tilt=0.0, targets=(0.25, 2.0, 9.0)):
    """kappa/2 (z - b)^2, of which phi, dphi and d2phi are off: by units of roundoff in float64 (phi, dphi), and by `tilt` and d2phi."""

    def off(value, units):
        return value * (1 + units * ROUNDOFF) if value.dtype == np.float64 else value

    return SimpleNamespace(
        **UNEQUAL, ridge=ridge, rounding=rounding, curvature_max=kappa if curvature_max is None else curvature_max,
        targets=np.array([targets]),
        phi=lambda z, b: off(kappa / 2 * (z - b) ** 2, phi),
        dphi=lambda z, b: off(kappa * (1 + tilt) * (z - b), dphi),
        d2phi=lambda z, b: np.full(np.shape(z), kappa * (1 + d2phi)),
    )  # fmt: skip


def exact(number):
    return Fraction(float(number))


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("off", [0.0, 2.0**-10])
def test_value_and_slope_are_enclosed_with_what_is_declared(off, sign):
    """Of 3/2 (z - b)^2: the slope changes by 3 off, the value by less than (|slope| + 6 off + rounding) off, both besides 16 u."""
    made = DeclaredRows(parabola(phi=12 * sign, dphi=12 * sign))  # and a few of its own
    z = Enclosure(np.array([[1.5], [-0.7]]), np.array([[off / 4]] * 2), np.array([[3 * off / 4]] * 2))
    value, slope = made.losses(z)
    unit = 16 * U / (1 - 16 * U)
    for i, b in enumerate((0.25, 2.0)):
        for move in (-off / 2, off / 4, off):
            r = exact(z.hi[i, 0]) + exact(move) - Fraction(b)
            assert abs(3 * r * r / 2 - exact(value.hi[i])) <= exact(value.rad[i])
            assert abs(3 * r - exact(slope.hi[i, 0])) <= exact(slope.rad[i, 0])
        size, turn = abs(exact(slope.hi[i, 0])), 3 * exact(off)
        turned = size * unit + turn
        assert turned <= exact(slope.rad[i, 0]) <= turned * (1 + Fraction(1, 10**9))
        moved = abs(exact(value.hi[i])) * unit + (size + turned + turn) * exact(off)
        assert moved <= exact(value.rad[i]) <= moved * (1 + Fraction(1, 10**9))
    assert not value.lo.any() and not slope.lo.any() and value.lo.dtype == slope.lo.dtype == float


def test_a_large_error_is_relative_to_what_is_computed():
    """Of what is computed 2^-15/(1 - 2^-15), as it may be that much smaller than the truth."""
    value, slope = DeclaredRows(parabola(rounding=2.0**38)).losses(Enclosure.exact(np.array([[1.5], [-0.7]])))
    for got in (value.rad / value.hi, slope.rad[:, 0] / np.abs(slope.hi[:, 0])):
        assert (got >= 1 / (2.0**15 - 1)).all() and got == pytest.approx(1 / (2.0**15 - 1), rel=1e-9)


def test_a_loss_that_vanishes_keeps_a_radius():
    value, slope = DeclaredRows(parabola()).losses(Enclosure.exact(np.array([[0.25], [2.0]])))
    assert (value.hi == 0).all() and (value.rad > 0).all() and (slope.rad > 0).all() and value.rad.max() < 2.0**-900


def test_only_the_ridge_bounds_it():
    made = DeclaredRows(parabola(d2phi=-0.5))
    assert made.local_curvature(np.zeros(1), np.arange(1), Metric(np.ones(1), np.ones((1, 1)), 0.0), 1.0) == 0.0
    assert made.declared == ", phi within 16 units of roundoff as declared" and made.radius_law == "none"
    bend, relative = made.bends(Enclosure.exact(np.array([[0.25], [2.0]])))
    assert bend.tolist() == [1.5, 1.5] and relative == 0.0
    made.problem.d2phi = lambda z, b: z - b
    assert made.bends(Enclosure.exact(np.array([[1.25], [5.0]])))[0].tolist() == [1.0, 3.0]
    assert "set a larger ridge, or check that dphi is the derivative of phi and d2phi that of dphi" in made.why_not(np.zeros(1))


@pytest.mark.parametrize("taken", [{"rounding": 0.5}, {"rounding": 2.0**40}, {"rounding": 16}, {"curvature_max": 4.0}])
def test_the_ends_of_what_can_be_declared_are_taken(taken):
    assert isinstance(declared_rows(parabola(**taken, kappa=2.0**-3 if "rounding" in taken else 3.0)), DeclaredRows)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        *[({"rounding": r}, f"rounding = {r!r} and curvature_max = 3.0: declare") for r in (None, 0.49, 2.0**40 + 1, float("nan"))],
        *[({"curvature_max": c}, f"and curvature_max = {c!r}: declare") for c in (0.0, -1.0, float("inf"), float("nan"))],
        ({"ridge": 0.0}, "only the ridge's strong convexity gives a lower bound: set ridge > 0"),
    ],
)
def test_what_cannot_be_declared_is_refused(wrong, says):
    with pytest.raises(NotCertified) as refused:
        declared_rows(parabola(**wrong))
    assert says in str(refused.value)


# The differences of a parabola have no error but rounding: dphi may be off by curvature_max 2^-15 1.01 at z - b = 64, and no more.
SLOPE = 2.0**-15 * 1.01 / 64


@pytest.mark.parametrize(
    ("inside", "outside", "says"),
    [
        ({"tilt": 0.99 * SLOPE}, {"tilt": 1.1 * SLOPE}, "dphi must be the derivative of phi, and curvature_max at least sup phi''"),
        ({"tilt": -0.99 * SLOPE}, {"tilt": -1.1 * SLOPE}, "phi rises by "),
        ({"d2phi": 0.9e-9}, {"d2phi": 1.1e-9}, "outside [0, curvature_max = 3],"),
        ({"d2phi": -1 - 0.9e-9}, {"d2phi": -1 - 1.1e-9}, "the loss must be convex, and curvature_max at least sup phi''"),
        ({"d2phi": -1.0}, {"d2phi": float("nan")}, "d2phi is nan"),
        pytest.param({"phi": 14}, {"phi": 18}, "phi is off by", marks=pytest.mark.skipif(not LONG, reason="no longer float")),
        pytest.param({"dphi": -14}, {"dphi": -18}, "dphi is off by",
                     marks=pytest.mark.skipif(not LONG, reason="no longer float")),
    ],
)  # fmt: skip
def test_what_samples_disprove_is_refused_and_nothing_less(inside, outside, says):
    assert isinstance(declared_rows(parabola(**inside)), DeclaredRows)
    with pytest.raises(NotCertified) as refused:
        declared_rows(parabola(**outside))
    assert says in str(refused.value)


def test_the_labels_of_samples_that_count_are_tried_and_no_others():
    """Far from b = 9 only: no sample of that label counts. At most 50 of many labels, the first and the last among them."""
    seen = []

    def phi(z, b):
        seen.append(np.unique(b))
        return 1.5 * (z - b) ** 2

    problem = parabola()
    problem.phi = phi
    declared_rows(problem)
    assert all(s.tolist() == [0.25, 2.0] for s in seen)
    many = parabola(targets=range(120))
    many.phi, many.sample_weights, many.features = phi, np.full((1, 120), 2.0**-7), np.ones((1, 120, 1))
    seen.clear()
    declared_rows(many)
    assert all(len(s) == 50 and s[0] == 0 and s[-1] == 119 for s in seen)


@pytest.mark.parametrize("at", [0.25, -0.25, 0.0, 2.0**-30, -64.0, 64.0])
@pytest.mark.parametrize("what", ["dphi", "d2phi"])
def test_the_point_where_it_is_worst_is_named(at, what):
    """A slope or a curvature that is wrong at one z - b alone."""
    problem = parabola()
    true = getattr(problem, what)
    setattr(problem, what, lambda z, b: np.where(z - b == at, 777.0, true(z, b)))
    said = f"phi rises by {3 * at:.6g} and dphi is 777" if what == "dphi" else "d2phi is 777, outside"
    with pytest.raises(NotCertified) as refused:
        declared_rows(problem)
    assert said in str(refused.value) and f"at z = {0.25 + at:.17g}, b = 0.25:" in str(refused.value)


@pytest.mark.parametrize(("share", "taken"), [(0.995, True), (1.005, False)])
def test_rounding_of_the_difference_is_allowed_for(share, taken):
    """phi = 2^20 in float64, of a curvature of 2^-60: over 2^-14 differences are off by 2^20 (16 + 8) u 4 2^15, and 1 % more."""
    allowed = 2.0**20 * 24 * ROUNDOFF * 4 * 2.0**15 * 1.01
    problem = parabola(kappa=2.0**-60)
    flat, slope = problem.phi, problem.dphi
    problem.phi = lambda z, b: 2.0**20 + flat(z, b)
    problem.dphi = lambda z, b: slope(z, b) + share * allowed
    if taken:
        assert isinstance(declared_rows(problem), DeclaredRows)
        return
    with pytest.raises(NotCertified, match="phi rises by"):
        declared_rows(problem)
