"""Data far from 0: F(0) is huge, F* is not, and what is proved of F* is told in units of F*."""

from __future__ import annotations

from fractions import Fraction
from statistics import median_low

import numpy as np
import pytest

from fedtheory import problems
from fedtheory.errors import NotCertified
from fedtheory.optimum import Optimum, certify

SPREAD = (0.0, 0.1, 0.2, 0.3)


def exactly(values):
    return [Fraction(float(v)) for v in np.ravel(values)]


def test_the_variance_of_large_numbers():
    """f = the mean of (x - b_j)^2/2, F* half the variance: non-negativity alone leaves all of it open."""
    targets = 2e6 + np.array(SPREAD)
    best = problems.LeastSquares([np.ones((4, 1))] * 2, [targets] * 2).optimum()
    b = exactly(targets)
    mean = sum(b) / 4
    f_star = sum((v - mean) ** 2 for v in b) / 8
    assert Fraction(best.lower_bound) <= f_star <= Fraction(best.value)
    assert best.width <= 1e-12 * float(f_star) and best.gap_to_optimum <= 1e-12
    assert best.details["bounds"]["non-negativity"] == 0.0 and best.certificate != "non-negativity"


def test_data_that_are_met_need_no_second_bound():
    """F* = 0: 0 is the best bound, and nothing is divided by it."""
    a = np.random.default_rng(1).normal(size=(2, 6, 3))
    best = problems.LeastSquares(a, a @ np.array([1.0, -2.0, 3.0])).optimum()
    assert best.certificate == "non-negativity" and best.lower_bound == 0 and best.within(1e-12)
    assert problems.LeastSquares(a, np.zeros((2, 6))).optimum().gap_to_optimum == 0


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("far", [0.0, 1e6, 1e15])
@pytest.mark.parametrize("weights", ["uniform", (0.1, 0.2, 0.3, 0.15, 0.25)])
def test_l1_distances(weights, far, seed):
    """With weights whose multipliers are rounded, the radius times that rounding, 1e-17, is not known; the point is still exact."""
    centers = far + np.random.default_rng(seed).standard_normal((5, 2))
    problem = problems.L1Distance(centers, weights=weights)
    best = problem.optimum_on_ball(4 * max(far, 1.0))
    c, w = np.array(exactly(centers)).reshape(5, 2), exactly(problem.weights)
    f_star = sum(min(sum(v * abs(x - m) for v, x in zip(w, column, strict=True)) for m in column) for column in c.T)
    assert Fraction(best.lower_bound) <= f_star <= Fraction(best.value)
    assert best.value - float(f_star) <= 1e-12 * float(f_star)
    assert best.width <= (1e-9 * float(f_star) if weights == "uniform" or far < 1e15 else 1e-16 * far * 8)


@pytest.mark.parametrize("far", [1e6, 1e12])
@pytest.mark.parametrize("kind", ["lad", "max of affine"])
def test_medians(kind, far):
    """The same |x - b_k| as a kink and as the larger of two lines."""
    b = far + np.random.default_rng(3).standard_normal(5)
    if kind == "lad":
        problem = problems.LAD(np.ones((5, 1, 1)), b[:, None])
    else:
        problem = problems.MaxAffine(np.array([[[1.0], [-1.0]]] * 5), np.stack([-b, b], axis=1))
    best = problem.optimum_on_ball(2 * far)
    w, numbers = exactly(problem.weights), exactly(b)
    middle = median_low(numbers)
    f_star = sum(v * abs(n - middle) for v, n in zip(w, numbers, strict=True))
    assert abs(Fraction(best.value) - f_star) <= Fraction(1, 10**9) * f_star
    assert 0 <= f_star - Fraction(best.lower_bound) <= Fraction(1, 10**9) * f_star


@pytest.mark.parametrize("far", [1e6, 1e10])
def test_a_geometric_median(far):
    """The Fermat point of an equilateral triangle moved far away: F* is the mean distance to it, up to the rounding of the move."""
    near = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, 3**0.5 / 2]])
    best = problems.EuclideanDistance(near + far).optimum_on_ball(4 * far)
    assert best.value == pytest.approx(3**-0.5, abs=4 * np.spacing(far)) and best.width <= 1e-9 * best.value


def test_what_counts_as_known():
    def found(value, width, scale, floor=0.0):
        return Optimum(np.zeros(1), value, value - width, width / max(scale, 1e-300), 0.0, "", "", {"scale": scale, "floor": floor})

    vague = found(0.00625, 0.00625, 2e12)
    assert vague.gap < 1e-12 and vague.gap_to_optimum == 1 and not vague.within(1e-12) and vague.within(1.0)
    assert "F* is known to 1 of itself, the limit is 1e-12" in vague.short_of(1e-12)
    assert found(0.00625, 0.00625, 2e12, floor=0.01).within(1e-12)
    assert not found(1.0, 1e-3, 1.0, floor=0.01).within(1e-9), "the floor is not for what is told of |F(0)|"
    assert found(0.0, 0.0, 0.0).gap_to_optimum == 0 and found(0.0, 1.0, 1.0).gap_to_optimum == np.inf


def test_what_only_non_negativity_bounds_is_refused(monkeypatch):
    from fedtheory.optimum.loss_enclosures import SquareRows

    problem = problems.LeastSquares([np.ones((4, 1))] * 2, [2e6 + np.array(SPREAD)] * 2)
    monkeypatch.setattr(SquareRows, "metric", lambda *_: None)
    with pytest.raises(NotCertified, match="F\\* is known to 1 of itself"):
        certify(problem)
