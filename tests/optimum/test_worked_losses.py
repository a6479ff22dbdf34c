"""Quadratics and losses of linear predictions as the certificates see them, against fractions and 60 digits.

Two clients of unequal weight and unequal samples, one client and two samples that count for nothing, and no two numbers alike.
"""

from __future__ import annotations

from fractions import Fraction
from types import SimpleNamespace

import mpmath as mp
import numpy as np
import pytest
from worked_rows import (
    LABELS,
    NEAR,
    PROBLEM,
    RIDGE,
    SIGNS,
    SOFT,
    SOFT_X,
    TARGETS,
    WITHOUT,
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
    square,
    total,
)

from fedtheory.optimum import intervals
from fedtheory.optimum.intervals import ROUNDOFF, Enclosure
from fedtheory.optimum.loss_enclosures import HuberRows, LogisticRows, SoftmaxRows, SquareRows

pytestmark = pytest.mark.usefixtures("sixty_digits")


# --- values and gradients -------------------------------------------------------------------------
@pytest.mark.parametrize("ridge", [0.0, RIDGE])
@pytest.mark.parametrize(("make", "loss"), [(SquareRows, square), (lambda p, b: HuberRows(p, b, 1.75), huber)], ids=["square", "huber"])
def test_value_and_gradient_in_fractions(make, loss, ridge):
    """At X the residuals of the Huber loss are outside on both sides, and one is inside."""
    made = make(PROBLEM if ridge else WITHOUT, TARGETS)
    value, grad = made.evaluate(X)
    f, g = total(loss, TARGETS, ridge)
    assert encloses(value, f, 1e-28)
    assert all(encloses(grad[i], g[i], 1e-28) for i in range(2))
    assert made.non_negative and made.dim == 2 and made.ridge == ridge


@pytest.mark.parametrize("ridge", [0.0, RIDGE])
def test_value_and_gradient_of_the_logistic_loss(ridge):
    made = LogisticRows(PROBLEM if ridge else WITHOUT, SIGNS)
    value, grad = made.evaluate(X)
    f, g = real(ridge) / 2 * sum(real(v) ** 2 for v in X), [real(ridge) * real(v) for v in X]
    for omega, a, (k, j) in rows():
        phi, slope = logistic(real(SIGNS[k, j]) * sum(real(u) * real(v) for u, v in zip(a, X)))
        f, g = f + real(omega) * phi, [q + real(omega) * real(SIGNS[k, j]) * slope * real(u) for q, u in zip(g, a)]
    assert encloses(value, f, 40 * U * f) and all(encloses(grad[i], g[i], 400 * U) for i in range(2))
    assert not made.non_negative


@pytest.mark.parametrize("ridge", [0.0, RIDGE])
def test_value_and_gradient_of_the_softmax_loss(ridge):
    made = SoftmaxRows(SimpleNamespace(**{**vars(SOFT), "ridge": ridge}), LABELS)
    value, grad = made.evaluate(SOFT_X)
    f, g = real(ridge) / 2 * sum(real(v) ** 2 for v in SOFT_X), [real(ridge) * real(v) for v in SOFT_X]
    for omega, a, (k, j) in rows():
        z = [sum(real(a[i]) * real(SOFT_X[3 * i + c]) for i in range(2)) for c in range(3)]
        phi, slope = soft(z, int(np.argmax(LABELS[k, j])))
        f += real(omega) * phi
        for i in range(2):
            for c in range(3):
                g[3 * i + c] += real(omega) * slope[c] * real(a[i])
    assert encloses(value, f, 200 * U * f) and all(encloses(grad[i], g[i], 2000 * U) for i in range(6))


# --- a library that is as inexact as is assumed ---------------------------------------------------
@pytest.fixture(params=[(1, 1), (1, -1), (-1, 1), (-1, -1)], ids=str)
def inexact(request, monkeypatch):
    """exp and log1p off by 15 units of roundoff, of the 16 assumed."""
    for name, sign in zip(("exp", "log1p"), request.param, strict=True):
        true = getattr(np, name)
        monkeypatch.setattr(
            intervals.np, name, lambda v, true=true, sign=sign: true(v) * (1 + sign * 15 * ROUNDOFF)
        )


MARGINS = np.array([-40.0, -3.0, -0.3, 0.0, 0.3, 3.0, 40.0, 600.0])


@pytest.mark.usefixtures("inexact")
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_logistic_losses_stay_enclosed_by_such_a_library(sign):
    made = object.__new__(LogisticRows)
    made.b = np.full(len(MARGINS), sign)
    loss, slope = made.losses(Enclosure.exact(sign * MARGINS[:, None]))
    bend, relative = made.bends(Enclosure.exact(sign * MARGINS[:, None]))
    assert relative == 8 * 16 * ROUNDOFF
    for i, m in enumerate(MARGINS):
        phi, dphi = logistic(real(m))
        tail = mp.log1p(mp.e ** -abs(real(m)))
        rounded = 36.001 if m >= 0 else 38.001  # below 0 the margin is added, with two roundings more
        assert encloses(loss[i], phi, rounded * U * tail) and real(loss.rad[i]) >= 35.999 * U * tail
        assert encloses(slope[i, 0], sign * dphi, 70 * U * abs(dphi))
        assert abs(bend[i] / (-dphi * (1 + dphi)) - 1) <= relative


@pytest.mark.usefixtures("inexact")
def test_softmax_losses_stay_enclosed_by_such_a_library():
    z = np.array([[0.3, -0.7, 1.9], [5.0, 4.0, -3.0], [0.0, 0.0, 0.0], [-30.0, 2.0, 1.0], [-60.0, 1.0, 1.5]])
    made = object.__new__(SoftmaxRows)
    made.b, made.classes = np.array([0, 1, 2, 0, 0]), 3
    loss, slope = made.losses(Enclosure.exact(z))
    p, relative = made.bends(Enclosure.exact(z))
    assert relative <= 1100 * ROUNDOFF
    for i, row in enumerate(z):
        phi, dphi = soft([real(v) for v in row], made.b[i])
        assert encloses(loss[i], phi, 300 * U * (phi + 1))
        for c in range(3):
            share = dphi[c] + (c == made.b[i])
            assert encloses(slope[i, c], dphi[c], 600 * U * share)
            assert abs(real(p[i, c]) ** 2 / share**2 - 1) <= relative


def test_the_radii_of_softmax_losses_are_twice_the_first_order():
    """Every exponential is off by 2 16 u, sums of 3 classes by 6 u or 12 u, the logarithm and the quotient by 2 16 u."""
    z = np.array([[0.375, -0.75, 1.875], [5.0, 4.0, -3.0], [0.25, 0.0, 0.5]])
    made = object.__new__(SoftmaxRows)
    made.b, made.classes = np.array([2, 0, 2]), 3  # the top ones
    loss, slope = made.losses(Enclosure.exact(z))
    assert just_above(made.bends(Enclosure.exact(z))[1], 8 * 32 * U + 16 * 16 * U + 24 * U)
    lo, rad = np.array([[1.0, -2.0, 3.0]]) * 2.0**-20, np.array([[0.5, 0.25, 0.125]]) * 2.0**-20
    ball = Enclosure(z, np.broadcast_to(lo, z.shape), np.broadcast_to(rad, z.shape))
    moved, turned = made.losses(ball)
    apart = []
    for i in range(3):
        phi, dphi = soft([real(v) for v in z[i]], made.b[i])
        p = [v + (c == made.b[i]) for c, v in enumerate(dphi)]
        others, top = 1 - max(p), made.b[i]
        assert abs(real(loss.rad[i]) / (2 * U * (38 * others + 32 * phi)) - 1) < 1e-6
        # the low parts move the logits, and those less the top one have both radii
        p = [v + (c == top) for c, v in enumerate(soft([real(v) + real(w) for v, w in zip(z[i], lo[0])], top)[1])]
        off = [2 * (real(rad[0, c]) + real(rad[0, top])) for c in range(3)]
        apart += [o / 2 for o in off]
        mean = sum(q * o for q, o in zip(p, off))
        rest = sum(q * o for c, (q, o) in enumerate(zip(p, off)) if c != top)
        # the loss is less than the label's logit by the radius of that, too, which is 0 but for its own radius
        assert abs(real(moved.rad[i]) / (2 * rest + 2 * real(rad[0, top])) - 1) < 1e-6
        for c in range(3):
            assert abs(real(slope.rad[i, c]) / (216 * U * (dphi[c] + (c == top))) - 1) < 1e-6
            assert abs(real(turned.rad[i, c]) / (2 * p[c] * (off[c] + mean)) - 1) < 1e-6
    assert abs(real(made.bends(ball)[1]) / (16 * max(apart)) - 1) < 1e-6


def test_what_underflows_is_in_the_radius_of_a_loss():
    """exp(-800) is 0 in float64; of a class that rare not even a radius of 1 counts in the error of the others' curvature."""
    made = object.__new__(LogisticRows)
    made.b = np.ones(1)
    loss, slope = made.losses(Enclosure.exact(np.array([[800.0]])))
    assert encloses(loss[0], mp.e**-800, 2.0**-999) and encloses(slope[0, 0], -(mp.e**-800), 2.0**-999)
    several = object.__new__(SoftmaxRows)
    several.b, several.classes = np.array([1]), 3
    rare = Enclosure(np.array([[-900.0, 0.0, -800.0]]), np.zeros((1, 3)), np.array([[0.0, 0.0, 1.0]]))
    for ball in (Enclosure.exact(rare.hi), rare):
        loss, slope = several.losses(ball)
        assert encloses(loss[0], mp.e**-800, 2.0**-998)
        assert all(encloses(slope[0, c], mp.e**v, 2.0**-998) for c, v in ((0, -900), (2, -800)))
        assert just_above(several.bends(ball)[1], (8 * 32 + 16 * 16 + 24) * U)


@pytest.mark.parametrize(
    ("made", "x"),
    [(SquareRows(PROBLEM, TARGETS), X), (HuberRows(PROBLEM, TARGETS, 1.75), X), (LogisticRows(PROBLEM, SIGNS), X),
     (SoftmaxRows(SOFT, LABELS), SOFT_X)],
    ids=["square", "huber", "logistic", "softmax"],
)  # fmt: skip
def test_enclosures_are_of_float64_numbers(made, x):
    for ball in (*made.evaluate(x), *made.losses(made.predict(x))):
        assert {np.asarray(part).dtype for part in (ball.hi, ball.lo, ball.rad)} == {np.dtype(float)}
    bend, _ = made.bends(made.predict(x))
    assert bend.dtype == float


# --- margins and predictions that are known up to a radius ----------------------------------------
@pytest.mark.parametrize("m", [-3.0, -0.3, 0.0, 0.3, 3.0])
@pytest.mark.parametrize("off", [2.0**-30, 2.0**-6])
def test_logistic_losses_of_every_margin_enclosed(m, off):
    """The loss changes by its slope times the margin's error, at 0 by a half of it, and the slope by a quarter at most."""
    made = object.__new__(LogisticRows)
    made.b = -np.ones(1)
    z = Enclosure(np.array([[-m]]), np.array([[off / 4]]), np.array([[3 * off / 4]]))
    loss, slope = made.losses(z)
    bend, relative = made.bends(z)
    here = logistic(real(m))
    for member in (real(m) - real(off), real(m) - real(off) / 4, real(m) + real(off) / 2):
        phi, dphi = logistic(member)
        assert encloses(loss[0], phi, real(off) * (-here[1] + real(off)) * (1 + NEAR) + 50 * U)
        assert encloses(slope[0, 0], -dphi, real(off) * (1 + NEAR) + 100 * U)
        assert abs(bend[0] / (-dphi * (1 + dphi)) - 1) <= relative
    assert just_above(relative, 8 * 16 * U + 4 * real(off))


@pytest.mark.parametrize("off", [2.0**-30, 2.0**-8])
def test_softmax_losses_of_every_logit_enclosed(off):
    z = np.array([[0.3, -0.7, 1.9], [5.0, 4.5, -3.0], [0.0, 0.0, 0.0]])
    made = object.__new__(SoftmaxRows)
    made.b, made.classes = np.array([0, 1, 2]), 3
    ball = Enclosure(z, np.full(z.shape, off / 4), np.full(z.shape, 3 * off / 4))
    loss, slope = made.losses(ball)
    p, relative = made.bends(ball)
    for i in range(3):
        for signs in np.ndindex(2, 2, 2):
            members = [real(v) + real(off) * (1 if s else mp.mpf(-1) / 2) for v, s in zip(z[i], signs)]
            phi, dphi = soft(members, made.b[i])
            assert encloses(loss[i], phi, 8 * real(off))
            for c in range(3):
                share = dphi[c] + (c == made.b[i])
                assert encloses(slope[i, c], dphi[c], 16 * real(off) * share)
                assert abs(real(p[i, c]) ** 2 / share**2 - 1) <= relative <= 200 * off


def test_how_far_inside_the_quadratic_zone_a_residual_is_for_every_member():
    """delta - |z - b| - radius: 7/4 - 3/2 - 1/8, and of the other 7/4 - 5/4 - 1/4."""
    made = object.__new__(HuberRows)
    made.delta, made.b = 1.75, np.array([0.25, 0.5])
    margin = made.margins(Enclosure(np.array([[1.5], [-0.5]]), np.array([[0.25], [-0.25]]), np.array([[0.125], [0.25]])))
    assert just_below(margin[0], Fraction(1, 8)) and just_below(margin[1], Fraction(1, 4))
    assert margin[0] < 0.125 - 3 * ROUNDOFF * 1.75
    for share, bend in ((0.9e-9, 0.0), (1.1e-9, 1.0)):  # what is inside by less than 1e-9 of delta counts as outside
        assert made.bends(Enclosure.exact(made.b[:, None] + np.array([[1.75 * (1 - share)], [0.0]])))[0].tolist() == [bend, 1.0]
        assert made.bends(Enclosure.exact(made.b[:, None]))[1] == 0.0


@pytest.mark.parametrize("delta", [1.0, 1024.0])
def test_a_margin_is_rounded_down(delta):
    """delta - 2^-60 delta is delta in float64."""
    made = object.__new__(HuberRows)
    made.delta, made.b = delta, np.zeros(1)
    (margin,) = made.margins(Enclosure.exact(np.array([[delta * 2.0**-60]])))
    assert delta * (1 - 5 * ROUNDOFF) <= margin and Fraction(float(margin)) <= Fraction(delta) * (1 - Fraction(1, 2**60))


def test_the_gradient_is_the_same_to_the_last_bit_however_many_columns_are_summed_together(monkeypatch):
    """Columns with 0, 1, 5, 7 and 9 entries other than 0, each in its own order.

    Those with 5 and 7 are summed together, one with two zeros at its end.
    """
    rng = np.random.default_rng(1)
    a = rng.standard_normal((1, 9, 5))
    for column, rows_ in enumerate([range(9), range(1, 9), (1, 3, 5, 8), (0, 2), ()]):
        a[0, list(rows_), column] = 0.0
    problem = SimpleNamespace(
        weights=np.ones(1), sample_weights=np.full((1, 9), 1 / 9), features=a, targets=rng.standard_normal((1, 9)), ridge=0.25, dim=5
    )  # fmt: skip
    x = rng.standard_normal(5)
    _, together = SquareRows(problem, problem.targets).evaluate(x)
    monkeypatch.setattr(intervals, "IN_CACHE", 1)
    form = SquareRows(problem, problem.targets)
    assert [(len(columns), len(entries)) for columns, _, entries in form._columns] == [
        (1, 1),
        (1, 7),
        (1, 7),
        (1, 9),
    ]
    _, alone = form.evaluate(x)
    weighted = (form.losses(form.predict(x))[1] * form.omega[:, None])[:, 0]
    for i, zeros in enumerate([0, 0, 2, 0, 0]):
        on = np.append(np.flatnonzero(a[0, :, i]), np.flatnonzero(a[0, :, i] == 0)[:zeros])
        written = (weighted[on] * a[0, on, i]).sum() + Enclosure.exact(x)[i] * 0.25
        for part in ("hi", "lo", "rad"):
            assert getattr(together, part)[i] == getattr(alone, part)[i] == getattr(written, part)
