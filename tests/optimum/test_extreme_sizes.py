"""Data, ridges, balls and zones of any size that is allowed: an optimum, or a refusal that says what is wrong, and no raw error."""

from __future__ import annotations

import numpy as np
import pytest

from fedtheory import problems
from fedtheory.errors import InvalidInput, NotCertified

FAR = 2.0**266  # about 1e80, and all that is multiplied by it is exact


def gaussian(seed, make, **options):
    g = np.random.default_rng(seed)
    return make(g.normal(size=(3, 8, 3)), g.normal(size=(3, 8)), **options)


@pytest.mark.parametrize("seed", range(6))
def test_a_narrow_quadratic_zone(seed):
    """delta |r| - delta^2/2 <= h(r) <= delta |r|, so that F*/delta is within delta/2 below the least absolute deviations."""
    delta = 1e-6
    best = gaussian(seed, problems.Huber, delta=delta).optimum()
    lad = gaussian(seed, problems.LAD).optimum_on_ball(8.0)
    assert lad.details["constraint"] == "inactive" and best.gap_to_optimum <= 1e-12
    assert lad.lower_bound - delta / 2 <= best.value / delta and best.lower_bound / delta <= lad.value * (1 + 1e-12)


@pytest.mark.parametrize("delta", [1e-9, 1e-100, 1e-300])
def test_a_zone_that_no_solver_meets_is_named(delta):
    """Gaussian features are not dependent: that is not the reason."""
    with pytest.raises(NotCertified, match=rf"of 24 residuals lie within delta = {delta:g} at the best point.*raise delta") as refused:
        gaussian(0, problems.Huber, delta=delta).optimum()
    assert "dependent" not in str(refused.value)


def test_dependent_features_are_still_the_reason_where_they_are():
    g = np.random.default_rng(1)
    a = g.normal(size=(2, 6, 2))
    a = np.concatenate([a, a @ np.array([[0.1], [0.3]])], axis=2)  # 0.1 and 0.3 are rounded
    with pytest.raises(NotCertified, match="dependent up to rounding but not exactly"):
        problems.Huber(a, g.normal(size=(2, 6)), delta=0.1).optimum()


@pytest.mark.parametrize("ridge", [1e308, 1.1e100])
@pytest.mark.parametrize("make", [problems.LeastSquares, problems.Logistic, problems.Huber, problems.Hinge])
def test_a_ridge_whose_square_is_no_float_is_refused(make, ridge):
    with pytest.raises(InvalidInput, match=r"ridge is .*it must lie in \[0, 1e\+100\]; rescale"):
        make(np.ones((1, 2, 1)), np.ones((1, 2)), ridge=ridge)
    with pytest.raises(InvalidInput, match="ridge"):
        problems.Softmax(np.ones((1, 2, 1)), np.ones((1, 2)), 2, ridge=ridge)


def test_the_largest_ridge():
    best = problems.LeastSquares(np.ones((1, 2, 1)), np.ones((1, 2)), ridge=1e100).optimum()
    assert best.value == pytest.approx(0.5, rel=1e-12) and 0 <= best.x[0] <= 1e-99


@pytest.mark.parametrize("make", [problems.EuclideanDistance, problems.L1Distance])
def test_distances_of_any_size(make):
    """F is homogeneous: all that is far is the near problem times a power of two."""
    centers = np.random.default_rng(1).normal(size=(4, 2))
    near, far = make(centers).optimum_on_ball(8.0), make(FAR * centers).optimum_on_ball(8.0 * FAR)
    assert far.value == pytest.approx(FAR * near.value, rel=1e-9) and far.gap_to_optimum <= 1e-9
    assert far.details["constraint"] == near.details["constraint"] == "inactive"


@pytest.mark.parametrize("make", [problems.EuclideanDistance, problems.L1Distance, problems.LAD, problems.MaxAffine])
@pytest.mark.parametrize("size", [1e-100, 1e-50, 1e50, 1e100])
@pytest.mark.parametrize("radius", [1e-160, 1.0, 1e149])
def test_sizes_and_radii_that_have_nothing_to_do_with_each_other(make, size, radius):
    g = np.random.default_rng(2)
    signs = np.sign(g.normal(size=(2, 3, 2)))
    distances = make in (problems.EuclideanDistance, problems.L1Distance)
    problem = make(size * signs[0]) if distances else make(size * signs, g.normal(size=(2, 3)))
    try:
        best = problem.optimum_on_ball(radius)
    except NotCertified:
        return
    assert best.lower_bound <= best.value and np.linalg.norm(best.x) <= radius


@pytest.mark.parametrize("radius", [1e300, 1.1e150])
@pytest.mark.parametrize("name", ["random_lad", "random_hinge", "random_max_affine", "random_l1_distance", "random_euclidean_distance"])
def test_a_ball_whose_radius_has_no_square_is_refused(name, radius):
    problem = getattr(problems, name)(*((3, 3) if "distance" in name else (3, 4, 3)), seed=1)
    with pytest.raises(InvalidInput, match=r"radius is .*it must be at most 1e\+150, so that its square is a float"):
        problem.optimum_on_ball(radius)
