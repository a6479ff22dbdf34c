"""Problems with many minimisers are certified, those with none or with one that rounding cannot tell are refused."""


import numpy as np
import pytest

from fedtheory.errors import NotCertified
from fedtheory.optimum.lower_bounds import exact_columns
from fedtheory.problems import Huber, LeastSquares, Logistic, Quadratic, Softmax

LIMIT = 1e-12


def test_exact_columns_proves_only_exact_dependence():
    rng = np.random.default_rng(0)
    base = rng.integers(-8, 8, (30, 3)).astype(float)
    rows = np.column_stack([base, base @ [1, -1, 0], base @ [0.5, 0, 2], np.zeros(30)])
    assert exact_columns(rows, np.arange(3))
    assert not exact_columns(rows, np.arange(2))
    rows[7, 3] = np.nextafter(rows[7, 3], np.inf)
    assert not exact_columns(rows, np.arange(3))
    few = np.repeat(rng.standard_normal((2, 5)), 4, axis=0)  # 2 distinct rows: 2 independent columns span everything
    assert exact_columns(few, np.array([0, 3]))


def test_dependence_up_to_rounding_is_refused_and_a_ridge_cures_it():
    rng = np.random.default_rng(4)
    a = rng.standard_normal((3, 8, 3))
    a = np.concatenate([a, 0.1 * a[:, :, :1] + 0.7 * a[:, :, 1:2]], axis=2)
    b = rng.standard_normal((3, 8))
    with pytest.raises(NotCertified, match=r"dependent up to rounding.*ridge > 0"):
        LeastSquares(a, b).optimum()
    assert LeastSquares(a, b, ridge=1e-6).optimum().gap <= LIMIT


def test_shared_rows_and_interpolation():
    rng = np.random.default_rng(6)
    few = np.repeat(rng.standard_normal((1, 3, 6)), 4, axis=0)  # 3 distinct rows in 6 dimensions
    for build in (LeastSquares, Huber):
        best = build(few, rng.standard_normal((4, 3))).optimum()
        assert best.gap <= LIMIT and "3 of 6 coordinates" in best.certificate
    wide = LeastSquares(rng.standard_normal((2, 2, 9)), rng.standard_normal((2, 2))).optimum()
    assert wide.gap <= LIMIT and wide.lower_bound == 0 and wide.certificate == "non-negativity"


def test_huber_with_a_flat_bottom():
    best = Huber([[[1.0]], [[1.0]]], [[10.0], [-10.0]]).optimum()  # every x in [-9, 9] minimises
    assert best.gap <= LIMIT and best.certificate.startswith("sublevel ball")
    assert best.lower_bound <= 9.5 <= best.value


def test_constant_and_zero_problems():
    best = Quadratic(np.zeros((2, 3, 3)), np.ones((2, 3))).optimum()
    assert (best.value, best.lower_bound, best.gap) == (0.0, 0.0, 0.0)
    best = Quadratic([np.eye(3)] * 2, np.zeros((2, 3))).optimum()
    assert (best.value, best.gap) == (0.0, 0.0)


def test_non_convex_quadratics_are_refused_by_eigenvalue():
    h = [np.diag([1.0, 2.0, -0.5]), np.diag([1.0, 2.0, -0.25])]
    with pytest.raises(NotCertified, match=r"most negative eigenvalue of its Hessian is -0\.375.*unbounded below"):
        Quadratic(h, np.zeros((2, 3))).optimum()
    # one client may be indefinite as long as F is not
    h[1] = np.diag([1.0, 2.0, 4.0])
    assert Quadratic(h, np.ones((2, 3))).optimum().gap <= LIMIT


def test_a_hessian_singular_to_rounding_is_not_certified():
    q = np.linalg.qr(np.random.default_rng(0).standard_normal((4, 4)))[0]
    h = (q * [1.0, 1.0, 1.0, 0.0]) @ q.T
    with pytest.raises(NotCertified, match="cannot tell the smallest from zero"):
        Quadratic([(h + h.T) / 2] * 2, np.random.default_rng(1).standard_normal((2, 4))).optimum()


@pytest.mark.parametrize("quasi", [False, True])
def test_separable_data_without_ridge_have_no_minimiser(quasi):
    a = np.random.default_rng(0).standard_normal((2, 12, 3))
    y = np.sign(a[:, :, 0])
    if quasi:  # two samples on the separating plane, one of each label
        a[0, 0], a[0, 1] = [0, 1.0, 0.5], [0, 1.0, 0.5]
        y[0, :2] = [1, -1]
    for build in (
        lambda ridge: Logistic(a, y, ridge),
        lambda ridge: Softmax(a, (y > 0).astype(int), 2, ridge),
    ):
        with pytest.raises(NotCertified, match=r"no minimiser: the data .*separable.*set ridge > 0"):
            build(0.0).optimum()
        assert build(1e-4).optimum().gap <= LIMIT
