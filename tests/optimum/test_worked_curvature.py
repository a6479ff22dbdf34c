"""Hessians, how curvature changes, data without a minimiser and quadratics as the certificates see them, against fractions."""

from __future__ import annotations

from fractions import Fraction
from types import SimpleNamespace

import mpmath as mp
import numpy as np
import pytest
from worked_rows import (
    COUNTED,
    FEATURES,
    LABELS,
    METRIC,
    PROBLEM,
    RIDGE,
    SIGNS,
    SOFT,
    SOFT_X,
    TARGETS,
    WEIGHTS,
    U,
    X,
    encloses,
    huber,
    just_above,
    just_below,
    logistic,
    real,
    rows,
    soft,
)

from fedtheory.errors import NotCertified
from fedtheory.optimum import loss_enclosures
from fedtheory.optimum.intervals import ROUNDOFF, gamma
from fedtheory.optimum.loss_enclosures import HuberRows, LogisticRows, QuadraticForm, SoftmaxRows, SquareRows
from fedtheory.optimum.lower_bounds import Metric, newton_metric

pytestmark = pytest.mark.usefixtures("sixty_digits")


# --- Hessians -------------------------------------------------------------------------------------
def weighted(bends, ridge=RIDGE):
    h = [[Fraction(ridge) * (i == m) for m in range(2)] for i in range(2)]
    for (omega, a, _), bend in zip(rows(), bends, strict=True):
        h = [[h[i][m] + omega * bend * a[i] * a[m] for m in range(2)] for i in range(2)]
    return h


def test_hessians_in_fractions():
    """kappa = 1 for squares, and for a Huber loss on the rows inside; an error of gamma(n + 8), n = 5 samples that count."""
    residuals = [sum(u * Fraction(float(v)) for u, v in zip(a, X)) - Fraction(TARGETS[k, j]) for _, a, (k, j) in rows()]
    inside = [abs(r) < Fraction(7, 4) for r in residuals]
    assert 0 < sum(inside) < 5
    squares, kinked = SquareRows(PROBLEM, TARGETS), HuberRows(PROBLEM, TARGETS, 1.75)
    for made, bends, every in ((squares, [1] * 5, False), (kinked, inside, False), (kinked, [1] * 5, True)):
        for quick in (False, True):
            h, diagonal, relative = made.hessian(X, every_row=every, quick=quick)
            np.testing.assert_allclose(h, [[float(v) for v in row] for row in weighted(bends)], rtol=1e-14)
            assert diagonal.tolist() == np.diag(h).tolist() and relative == gamma(13)
    logit = LogisticRows(PROBLEM, SIGNS)
    bends = []
    for _, a, _ in rows():
        slope = logistic(sum(real(u) * real(v) for u, v in zip(a, X)))[1]
        bends.append(Fraction(float(-slope * (1 + slope))))
    h, _, relative = logit.hessian(X)
    np.testing.assert_allclose(h, [[float(v) for v in row] for row in weighted(bends)], rtol=1e-13)
    assert just_above(relative, 8 * 16 * U + real(gamma(13))) or relative > gamma(13) + 8 * 16 * ROUNDOFF
    np.testing.assert_allclose(logit.gram()[0], [[float(v) for v in row] for row in weighted([1] * 5)], rtol=1e-14)
    assert (squares.span_rows() == np.array([FEATURES[k, j] for k, j in COUNTED])).all()


def test_the_hessian_of_the_softmax_loss():
    """sum_j omega_j (diag(p) - pp') x aa' + ridge I, below 2 sum_j omega_j diag(p) x diag(a^2) + ridge I in size."""
    made = SoftmaxRows(SOFT, LABELS)
    h, majorant, relative = made.hessian(SOFT_X)
    needed, above = np.zeros((2, 3, 2, 3)), np.zeros((2, 3))
    for omega, a, _ in rows():
        z = [sum(real(a[i]) * real(SOFT_X[3 * i + c]) for i in range(2)) for c in range(3)]
        p = [float(v) for v in soft(z, 0)[1]]
        p[0] += 1
        for i, c in np.ndindex(2, 3):
            above[i, c] += 2 * float(omega * a[i] * a[i]) * p[c]
            for m, e in np.ndindex(2, 3):
                needed[i, c, m, e] += float(omega * a[i] * a[m]) * p[c] * ((c == e) - p[e])
    np.testing.assert_allclose(h, needed.reshape(6, 6) + RIDGE * np.eye(6), rtol=1e-13, atol=1e-15)
    np.testing.assert_allclose(majorant, above.ravel() + RIDGE, rtol=1e-13)
    p, own = made.bends(made.predict(SOFT_X))
    assert relative == own + gamma(5 + 16) and own >= 8 * 2 * 16 * ROUNDOFF and np.allclose(p.sum(axis=1), 1)
    gram, diagonal, error = made.hessian(SOFT_X, every_row=True)
    np.testing.assert_allclose(gram, [[float(v) for v in row] for row in weighted([1] * 5)], rtol=1e-14)
    assert error == gamma(13) and diagonal.tolist() == np.diag(gram).tolist()
    np.testing.assert_allclose(made.hessian(SOFT_X, quick=True)[0], h, rtol=1e-13, atol=1e-15)


# --- how the curvature changes --------------------------------------------------------------------
def test_how_far_predictions_move():
    """sqrt(sum_i (scale_i a_ji)^2) ||X|| for each row, and with classes the largest of the classes."""
    reach = SquareRows(PROBLEM, TARGETS).reach(np.arange(2), METRIC)
    for got, (_, a, _) in zip(reach, rows(), strict=True):
        assert just_above(got, mp.sqrt(real((a[0] / 2) ** 2 + (a[1] / 4) ** 2) * 14))
    one = SquareRows(PROBLEM, TARGETS).reach(np.array([1]), Metric(np.array([0.25]), np.array([[3.0]]), 0.0))
    for got, (_, a, _) in zip(one, rows(), strict=True):
        assert just_above(got, 3 * abs(a[1]) / 4)
    # of six coordinates i 3 + c: 0 and 4 belong to the classes 0 and 1, 5 to class 2
    several = SoftmaxRows(SOFT, LABELS).reach(np.array([0, 4, 5, 2]), Metric(np.array([0.5, 0.25, 2.0, 4.0]), 3 * np.eye(4), 0.0))
    for got, (_, a, _) in zip(several, rows(), strict=True):
        largest = max((a[0] / 2) ** 2, (a[1] / 4) ** 2, (2 * a[1]) ** 2 + (4 * a[0]) ** 2)
        assert just_above(got, mp.sqrt(real(largest) * 36))


def test_the_curvature_of_exponential_losses_falls_at_most_exponentially():
    """phi'' by exp(-|dz|), softmax by exp(-4 |dz|), where |dz| is at most what the farthest row moves, and 1 - 1/4 for the metric."""
    farthest = mp.sqrt(max(real((a[0] / 2) ** 2 + (a[1] / 4) ** 2) for _, a, _ in rows()) * 14)
    mu = LogisticRows(PROBLEM, SIGNS).local_curvature(X, np.arange(2), METRIC, 0.125)
    assert just_below(mu, mp.mpf(3) / 4 * mp.e ** (-farthest / 8))
    picked = np.array([0, 3])
    mu = SoftmaxRows(SOFT, LABELS).local_curvature(SOFT_X, picked, METRIC, 0.03125)
    assert just_below(mu, mp.mpf(3) / 4 * mp.e ** (-4 * farthest / 32))
    assert SquareRows(PROBLEM, TARGETS).local_curvature(X, np.arange(2), METRIC, 5.0) == 0.75
    # on the second feature alone, and in a scale in which no row moves by as much as ||u||
    small, moved = Metric(np.array([2.0**-6]), np.array([[3.0]]), 0.25), 3 * max(abs(a[1]) for _, a, _ in rows()) / 64
    assert moved < 1
    mu = LogisticRows(PROBLEM, SIGNS).local_curvature(X, np.array([1]), small, 2.0)
    assert just_below(mu, mp.mpf(3) / 4 * mp.e ** (-2 * real(moved)))
    mu = SoftmaxRows(SOFT, LABELS).local_curvature(SOFT_X, np.array([4]), small, 2.0)
    assert just_below(mu, mp.mpf(3) / 4 * mp.e ** (-8 * real(moved)))


def test_the_curvature_stays_a_lower_bound_with_an_inexact_exponential(monkeypatch):
    true = np.exp
    monkeypatch.setattr(loss_enclosures.np, "exp", lambda v: true(v) * (1 + 15 * ROUNDOFF))
    for made, x in ((LogisticRows(PROBLEM, SIGNS), X), (SoftmaxRows(SOFT, LABELS), SOFT_X)):
        mu = made.local_curvature(x, np.arange(1), Metric(np.ones(1), np.ones((1, 1)), 0.25), 2.0**-70)
        assert 0.75 * (1 - 200 * ROUNDOFF) <= mu <= 0.75


def test_a_huber_row_keeps_its_curvature_while_it_stays_inside():
    """The rows inside must move less than their margin: with the ball's radius at the least margin/reach the bound is lost."""
    made = HuberRows(PROBLEM, TARGETS, 1.75)
    least = min(
        (Fraction(7, 4) - abs(r)) / 1 / Fraction(float(reach))
        for r, reach in zip(
            (sum(u * Fraction(float(v)) for u, v in zip(a, X)) - Fraction(TARGETS[k, j]) for _, a, (k, j) in rows()),
            made.reach(np.arange(2), METRIC), strict=True,
        )
        if abs(r) < Fraction(7, 4)
    )  # fmt: skip
    assert made.local_curvature(X, np.arange(2), METRIC, 0.999 * float(least)) == 0.75
    assert made.local_curvature(X, np.arange(2), METRIC, 1.001 * float(least)) == 0.0


def test_only_the_rows_inside_and_the_coordinates_picked_limit_the_ball_of_a_huber_loss():
    """delta = 64, margins 63 and 10^-8, which is less than 10^-9 delta and counts as outside; the second feature moves by 1 and 5/4."""
    a = np.array([[[100.0, 1.0], [100.0, 1.25]]])
    problem = SimpleNamespace(dim=2, ridge=0.0, weights=np.ones(1), features=a, sample_weights=np.array([[0.5, 0.25]]))
    made = HuberRows(problem, np.array([[1.0, 64 - 1e-8]]), 64.0)
    metric = Metric(np.ones(1), np.ones((1, 1)), 0.25)
    for radius, mu in ((62.9, 0.75), (63.1, 0.0)):
        assert made.local_curvature(np.zeros(2), np.array([1]), metric, radius) == mu


def test_the_sublevel_ball_of_a_huber_loss():
    """One feature: F - |g|/sqrt(h) (2 F/delta + delta sum omega)/sqrt(least omega), h = sum omega a^2."""
    shares = np.array([[0.5, 0.25, 0.0], [0.75, 0.25, 0.125]])
    one = SimpleNamespace(
        dim=1, ridge=0.0, weights=np.array([0.25, 0.75]), features=FEATURES[:2, :, :1], sample_weights=shares
    )
    made = HuberRows(one, TARGETS[:2], 1.75)
    x = np.array([0.4])
    value, grad = made.evaluate(x)
    omegas, f, g, h = [], Fraction(0), Fraction(0), Fraction(0)
    for k, j in [(0, 0), (0, 1), (1, 0), (1, 1), (1, 2)]:
        omega, a = Fraction(one.weights[k]) * Fraction(shares[k, j]), Fraction(float(FEATURES[k, j, 0]))
        phi, slope = huber(a * Fraction(0.4), Fraction(float(TARGETS[k, j])))
        omegas, f, g, h = [*omegas, omega], f + omega * phi, g + omega * slope * a, h + omega * a * a
    growth = 2 * f / Fraction(7, 4) + Fraction(7, 4) * sum(omegas)
    radius = real(growth) / mp.sqrt(real(min(omegas)))
    (bound,) = made.further_bounds(x, value, grad)
    assert just_below(bound.value, real(f) - abs(real(g)) / mp.sqrt(real(h)) * radius)
    assert bound.name == f"sublevel ball of radius {float(radius):.3g} in the Gram metric"
    known = Metric(np.array([0.5]), np.array([[1.5]]), 0.25)  # as good as any metric, with (1 - 1/4) in place of 1
    made.metric = lambda at, coordinates, every_row: known if every_row else None
    (bound,) = made.further_bounds(x, value, grad)
    assert just_below(bound.value, real(f) - abs(real(g)) * mp.mpf(3) / 4 * radius / mp.sqrt(mp.mpf(3) / 4))
    ridged = HuberRows(SimpleNamespace(**{**vars(one), "ridge": 0.5}), TARGETS[:2], 1.75)
    assert ridged.further_bounds(x, *ridged.evaluate(x)) == []


# --- data without a minimiser ---------------------------------------------------------------------
def margins_case(features, signs, ridge=0.0):
    a = np.array(features, dtype=float)[None]
    problem = SimpleNamespace(dim=a.shape[2], ridge=ridge, weights=np.ones(1), features=a, sample_weights=np.ones(a.shape[:2]))
    return LogisticRows(problem, np.array([signs], dtype=float))


def test_margins_and_their_rows():
    made = LogisticRows(PROBLEM, SIGNS)
    got = made.margins(made.predict(X))
    for i, (_, a, (k, j)) in enumerate(rows()):
        assert encloses(got[i], Fraction(SIGNS[k, j]) * sum(u * Fraction(float(v)) for u, v in zip(a, X)), 1e-28)
        assert made.differences()[i].tolist() == [float(SIGNS[k, j]) * float(u) for u in a]


def test_the_lead_of_a_label_over_every_other_class_and_its_rows():
    made = SoftmaxRows(SOFT, LABELS)
    lead, i = made.margins(made.predict(SOFT_X)), 0
    products = made.differences() @ SOFT_X
    for _, a, (k, j) in rows():
        z = [sum(a[q] * Fraction(float(SOFT_X[3 * q + c])) for q in range(2)) for c in range(3)]
        label = int(np.argmax(LABELS[k, j]))
        for c in range(3):
            if c != label:
                assert encloses(lead[i], z[label] - z[c], 1e-28)
                assert products[i] == pytest.approx(float(z[label] - z[c]), abs=1e-14)
                i += 1
    assert i == len(products) == 10


def test_a_point_separates_where_every_margin_is_above_zero():
    made = margins_case([[2.0, 1.0], [-1.0, 3.0]], [1, -1])
    assert made.separated(np.array([2.0, 0.5])) and made.separated(np.array([2.0, 0.5]), quick=True)
    assert not made.separated(np.array([3.0, 1.0]))  # a margin of 0
    assert not margins_case([[2.0, 1.0], [-1.0, 3.0]], [1, -1], ridge=0.5).separated(np.array([2.0, 0.5]))
    # -1/2, which is 1/2 where every sum is rounded: it is the exact one that counts
    large = 2.0**53 + 2
    assert not margins_case([[large, 1.0, -large, -1.0, -0.5]], [1]).separated(np.ones(5))


def test_a_linear_programme_tells_separable_from_quasi_separable_and_from_neither():
    rows = np.array([[2.0, 1.0], [1.0, -3.0]])
    assert loss_enclosures._separate(rows) == "are separable"
    assert loss_enclosures._separate(np.concatenate([rows, [[0.0, 0.0]]])) == "appear to be separable or quasi-separable"
    assert loss_enclosures._separate(np.array([[2.0, 1.0], [-2.0, -1.0], [1.0, -2.0], [-1.0, 2.0]])) is None
    assert loss_enclosures._separate(np.array([[2.0, 0.0], [1.0, 0.0]])) == "are separable"  # a feature that no row has
    assert loss_enclosures._separate(None) is None and loss_enclosures._separate(np.ones((150_001, 2))) is None
    assert loss_enclosures._separate(np.array([[2.0, 1.0]])) == "are separable"  # a single row
    assert loss_enclosures._separate(rows * [2.0**-30, 2.0**30]) == "are separable"  # features of very unequal sizes


def test_more_numbers_than_a_linear_programme_takes_are_not_tried():
    few, many = (np.broadcast_to(np.eye(3)[0], (1, n, 3)) for n in (16_666, 16_667))  # n 6 coordinates 3 classes: 300,000
    for labels, made in ((few, True), (many, False)):
        n = labels.shape[1]
        problem = SimpleNamespace(
            dim=6, ridge=0.0, weights=np.ones(1), features=np.ones((1, n, 2)), sample_weights=np.ones((1, n))
        )
        rows = SoftmaxRows(problem, labels)
        assert (rows.differences() is not None) is made
    # of too many rows only the point itself can tell that they are separable
    assert "F has no minimiser: the data are separable" in rows.why_not(np.array([1.0, 0.0, 0.0, 1.0, 0.0, 0.0]))
    assert rows.why_not(np.zeros(6)).startswith("the Hessian at the best point found is singular")


def test_why_nothing_could_be_certified():
    apart = margins_case([[2.0, 1.0], [-1.0, 3.0]], [1, -1])
    for x in ([2.0, 0.5], [-1.0, -1.0]):  # at a point that separates, and where a linear programme finds one
        assert "F has no minimiser: the data are separable, and along a direction" in apart.why_not(np.array(x))
    for made in (margins_case([[1.0], [1.0]], [1, -1]), margins_case([[2.0, 1.0], [-1.0, 3.0]], [1, -1], ridge=0.5)):
        assert made.why_not(np.zeros(made.dim)).startswith("the Hessian at the best point found is singular to rounding")
        assert "set ridge > 0 or drop dependent features" in made.why_not(np.zeros(made.dim))
    assert "drop the dependent features or set ridge > 0" in SquareRows(PROBLEM, TARGETS).why_not(X)
    huber = HuberRows(PROBLEM, TARGETS, 1.75)  # of independent features: not to blame
    inner = sum(abs(a @ X - b) < 1.75 for a, b in zip(huber.a, huber.b, strict=True))
    assert huber.why_not(X).startswith(f"{inner} of 5 residuals lie within delta = 1.75")


# --- quadratics -----------------------------------------------------------------------------------
HESSIANS = np.array([[[3.0, 0.7], [0.7, 2.0]], [[0.5, -1.1], [-1.1, 5.0]], [[-9.0, 0.0], [0.0, -9.0]]])
CENTERS = np.array([[1.1, -0.6], [0.4, -3.7], [2.0, 2.0]])


def test_a_quadratic_in_fractions():
    """The third client, of weight 0, is no part of it."""
    made = QuadraticForm(HESSIANS, CENTERS, WEIGHTS)
    f, g, h = Fraction(0), [Fraction(0)] * 2, [[Fraction(0)] * 2 for _ in range(2)]
    for k in range(2):
        w, r = Fraction(WEIGHTS[k]), [Fraction(float(v)) - Fraction(float(c)) for v, c in zip(X, CENTERS[k])]
        own = [[Fraction(float(v)) for v in row] for row in HESSIANS[k]]
        hr = [sum(own[i][m] * r[m] for m in range(2)) for i in range(2)]
        f, g = f + w * sum(a * b for a, b in zip(hr, r)) / 2, [q + w * v for q, v in zip(g, hr)]
        h = [[h[i][m] + w * own[i][m] for m in range(2)] for i in range(2)]
    value, grad = made.evaluate(X)
    assert encloses(value, f, 1e-28) and all(encloses(grad[i], g[i], 1e-28) for i in range(2))
    got, diagonal, relative = made.hessian(X)
    np.testing.assert_allclose(got, [[float(v) for v in row] for row in h], rtol=1e-15)
    np.testing.assert_allclose(diagonal, np.diag(got), rtol=1e-15)
    assert relative == gamma(5) and made.dim == 2
    assert made.span_rows().tolist() == sorted(HESSIANS[:2].reshape(-1, 2).tolist())


def test_the_error_of_a_quadratic_s_hessian_is_that_of_its_terms():
    """Terms that cancel, (64 - 60) and (256 - 240): 124 and 496, scaled by 1/2 and 1/4 both 31, of which gamma(2 + 3) may be lost."""
    h = np.array([np.diag([128.0, 512.0]), np.diag([-120.0, -480.0])])
    made = QuadraticForm(h, CENTERS[:2], np.array([0.5, 0.5]))
    delta = made.metric(X, np.arange(2)).delta
    own = newton_metric(np.diag([4.0, 16.0]), lambda scale: 0.0).delta
    assert just_above(delta - own, real(2 * 31) * mp.sqrt(2) * real(gamma(5)))
    assert made.coordinates[1] and made.coordinates[0].tolist() == [0, 1]


def test_coordinates_of_a_singular_quadratic():
    h = np.array([np.diag([4.0, 0.0, 16.0]), np.diag([2.0, 0.0, 3.0])])
    picked, proven = QuadraticForm(h, np.ones((2, 3)), np.array([0.25, 0.75])).coordinates
    assert proven and picked.tolist() == [0, 2]
    flat, proven = QuadraticForm(np.zeros((1, 2, 2)), np.ones((1, 2)), np.ones(1)).coordinates
    assert proven and len(flat) == 0
    third = np.array([[[2.0, 2.0, 0.0], [2.0, 2.0, 0.0], [0.0, 0.0, 3.0]]])  # two columns alike
    picked, proven = QuadraticForm(third, np.ones((1, 3)), np.ones(1)).coordinates
    assert proven and len(picked) == 2 and 2 in picked


def test_a_negative_eigenvalue_is_refused_beyond_rounding_only():
    """Of diag(1, -e) in two dimensions, whose entries have the norm 1: rounding is 64 2 2^-53."""
    limit = 128 * ROUNDOFF
    QuadraticForm(np.array([np.diag([1.0, -0.99 * limit])]), np.ones((1, 2)), np.ones(1))
    with pytest.raises(NotCertified, match=r"most negative eigenvalue of its Hessian is -1\.4"):
        QuadraticForm(np.array([np.diag([1.0, -1.01 * limit])]), np.ones((1, 2)), np.ones(1))
    # terms that cancel make the rounding as large as they are: 2^10 - 2^10 - e
    pair = np.array([np.diag([1024.0, 1024.0]), np.diag([-1023.0, -1024.0 - 400 * limit])])
    QuadraticForm(pair, np.ones((2, 2)), np.ones(2))


def test_the_eigenvalues_are_named_where_no_bound_was_found():
    said = QuadraticForm(np.array([np.diag([0.25, 8.0, 3.0])]), np.ones((1, 3)), np.ones(1)).why_not(np.zeros(3))
    assert said.startswith("the Hessian's eigenvalues go from 0.25 to 8, and float64 cannot tell the smallest from zero")
