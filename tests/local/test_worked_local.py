"""Local steps, schedules, clipping and views on small instances of which no two numbers are alike, against a second writing.

The second writing is plain Python, one row and one coordinate at a time, in fractions wherever no root is taken.
"""

from __future__ import annotations

import math
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
from active_rows import rows_of

from fedtheory import problems
from fedtheory.errors import InvalidInput, MissingCapability
from fedtheory.local import SGD, GradientSteps, LocalObjective, LocalSGD, SubgradientSliding
from fedtheory.local.clipping import clipped_direction, clipped_factor
from fedtheory.local.local_sgd import Constant, InverseTime, TheoremStep, _distinct, _per_row
from fedtheory.local.objective import Rows, residual_scale
from fedtheory.local.sgd import sample_order
from fedtheory.local.shifted_gradients import (
    MixedView,
    OnView,
    SameBatchView,
    ScaledView,
    View,
    draws_batches,
    refuse_noise,
)
from fedtheory.local.sliding import averaging_weight, project_ball
from fedtheory.local.subgradient import CUT, Schedule, SubgradientSteps
from fedtheory.randomness import BLOCK, Stream

HESSIANS = [[[3.0, 0.75], [0.75, 2.0]], [[1.5, -0.25], [-0.25, 4.0]]]
CENTERS = [[1.25, -0.5], [-2.0, 0.375]]
PROBLEM = problems.Quadratic(np.array(HESSIANS), np.array(CENTERS))
CENTER = np.array([[[0.5, -1.5], [0.25, 2.5]], [[-0.75, 1.75], [3.5, -2.25]]])  # (N, B, d)
LINEAR = np.array([[[0.125, -0.625], [1.125, 0.875]], [[-1.375, 0.3125], [0.4375, -0.1875]]])
ANCHOR = CENTER + np.array([0.25, -0.75])
START = np.array([[[0.625, -1.5], [-0.5, 1.0]], [[0.0, 2.0], [5.0, -0.125]]])
CURVATURE, L1, LR = 0.4375, 0.1875, 0.09375
OBJECTIVES = {
    "nothing": {},
    "linear": {"linear": LINEAR},
    "curvature": {"curvature": CURVATURE},
    "l1": {"l1": L1},
    "everything": {"linear": LINEAR, "curvature": CURVATURE, "l1": L1, "anchor": ANCHOR},
}


def made(name):
    return LocalObjective(CENTER, **OBJECTIVES[name])


def fractions(values):
    return [Fraction(float(v)) for v in values]


def sign(v):
    return (v > 0) - (v < 0)


def parts(name, k, b):
    """center, linear, curvature, l1 and anchor of one row, in fractions."""
    given = OBJECTIVES[name]
    linear = fractions(given["linear"][k, b]) if "linear" in given else [Fraction(0)] * 2
    anchor = fractions(given["anchor"][k, b]) if "anchor" in given else fractions(CENTER[k, b])
    return fractions(CENTER[k, b]), linear, Fraction(given.get("curvature", 0)), Fraction(given.get("l1", 0)), anchor


def loss_gradient(k, y):
    r = [v - c for v, c in zip(y, fractions(CENTERS[k]))]
    return [sum(Fraction(h) * v for h, v in zip(row, r)) for row in HESSIANS[k]]


def direction(name, k, b, y, l1=True):
    center, linear, q, weight, anchor = parts(name, k, b)
    g = loss_gradient(k, y)
    return [
        g[i] - linear[i] + q * (y[i] - center[i]) + (weight * sign(y[i] - anchor[i]) if l1 else 0) for i in range(2)
    ]


def soft(v, t):
    return v - t if v > t else v + t if v < -t else Fraction(0)


def walk(name, k, b, steps, lr, l1="subgradient"):
    y = fractions(START[k, b])
    _, _, _, weight, anchor = parts(name, k, b)
    for _ in range(steps):
        g = direction(name, k, b, y, l1 == "subgradient")
        y = [v - lr * u for v, u in zip(y, g)]
        if l1 == "prox":
            y = [a + soft(v - a, lr * weight) for v, a in zip(y, anchor)]
    return y


def close(got, needed):
    np.testing.assert_allclose(got, [float(v) for v in needed], rtol=1e-13, atol=1e-15)


# --- the objective ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", OBJECTIVES)
def test_the_penalty_in_fractions(name):
    objective = made(name)
    value, slope = objective.penalty_value(START), np.broadcast_to(objective.smooth_penalty_gradient(START), START.shape)
    gradient = PROBLEM.client_gradient(START)
    residual = objective.kkt_residual(START, gradient)
    for k, b in np.ndindex(2, 2):
        center, linear, q, l1, anchor = parts(name, k, b)
        y = fractions(START[k, b])
        smooth = [q * (v - c) - u for v, c, u in zip(y, center, linear)]
        close(slope[k, b], smooth)
        close(value[k, b], [sum(q * (v - c) ** 2 / 2 - u * v + l1 * abs(v - a) for v, c, u, a in zip(y, center, linear, anchor))])
        r = [g + s for g, s in zip(loss_gradient(k, y), smooth)]
        off = [abs(v + l1 * sign(w - a)) if w != a else max(abs(v) - l1, 0) for v, w, a in zip(r, y, anchor)]
        close(residual[k, b], [max(off)])
    assert objective.none is (name == "nothing")
    assert (objective.l1_center == (ANCHOR if name == "everything" else CENTER)).all()
    half = objective.map(lambda a: a / 2)
    assert (half.center == CENTER / 2).all() and half.curvature == objective.curvature and half.l1 == objective.l1
    assert (half.linear is None) == (objective.linear is None)


def test_an_array_of_curvatures_is_a_penalty():
    assert not LocalObjective(CENTER, curvature=np.zeros(2)).none and LocalObjective(CENTER, curvature=0).none
    by_coordinate = LocalObjective(CENTER, curvature=np.array([0.5, 0.25])).map(lambda a: a * 2)
    assert by_coordinate.curvature.tolist() == [1.0, 0.5]


def test_zeros_at_the_anchor_have_the_residual_that_no_l1_slope_takes_away():
    """At the anchor 0 is within l1 of the slope or not: |r| - l1, not less than 0; beside it r + l1 sign."""
    objective = LocalObjective(np.array([0.5, 0.25, -1.0]), l1=0.75)
    y, g = np.array([0.5, 0.25, -1.5]), np.array([1.0, -0.25, 0.5])
    assert objective.kkt_residual(y, g) == 0.25  # max(1/4, 0, |1/2 - 3/4|)
    assert objective.kkt_residual(y, np.array([-1.25, 0.0, 0.5])) == 0.5
    assert objective.kkt_residual(y, np.array([0.0, 0.0, -1.0])) == 1.75
    assert objective.kkt_residual(y, np.array([1.25, 0.0, 0.5])) == 0.5


def test_the_prox_with_a_step_of_each_coordinate():
    """Soft thresholds of 3/2 and 1/2 around the anchors."""
    objective = LocalObjective(np.zeros(3), l1=0.5, anchor=np.array([1.0, -1.0, 0.25]))
    v, step = np.array([[3.0, -1.25, -2.0]]), np.array([3.0, 1.0, 3.0])
    assert objective.prox(v, step).tolist() == [[1.5, -1.0, -0.5]]
    assert objective.prox(v, 1.0).tolist() == [[2.5, -1.0, -1.5]] and LocalObjective(v).prox(v, step) is v


def test_rounding_is_that_of_the_numbers_given():
    y = np.array([[[0.5, 2.0]]])
    double, single = (
        residual_scale(LocalObjective(np.zeros(2)), y.astype(kind), np.ones(1), 2.0**-20)[1] for kind in (np.float64, np.float32)
    )
    assert double == pytest.approx(1 + 32 * 2.0**-32 * 4.25**0.5) and single == pytest.approx(32 * 2.0**-3 * (1 + 4.25**0.5))


@pytest.mark.parametrize("tolerance", [1e-6, 2.0**-50])
@pytest.mark.parametrize("name", OBJECTIVES)
def test_what_a_tolerance_is_relative_to(name, tolerance):
    """max(1, |curvature (y - center)| + l1 + |linear|), and with rounding 32 eps/tolerance times upper ||y|| besides."""
    y, upper = 8 * START, np.array([2.5, 7.0])
    plain, rounded = residual_scale(made(name), y, upper, tolerance)
    unit = 32 * 2.0**-52 / tolerance
    for k, b in np.ndindex(2, 2):
        center, linear, q, l1, _ = parts(name, k, b)
        at = fractions(y[k, b])
        scale = max(Fraction(1), max(abs(q * (v - c)) for v, c in zip(at, center)) + l1 + max(map(abs, linear)))
        close(plain[k, b], [scale])
        size = math.sqrt(sum(v * v for v in at))
        assert rounded[k, b] == pytest.approx(float(scale) * max(1.0, unit) + unit * upper[k] * size, rel=1e-13)


# --- steps -----------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("l1", ["subgradient", "prox"])
@pytest.mark.parametrize("name", OBJECTIVES)
def test_gradient_steps_in_fractions(name, l1):
    """Three steps in round 3, each 3/32 (3/4)^2."""
    got = GradientSteps(3, LR, l1=l1, decay=0.75).solve(PROBLEM, made(name), START, rows_of(2, 2, round_index=3))
    for k, b in np.ndindex(2, 2):
        close(got.y[k, b], walk(name, k, b, 3, Fraction(LR) * Fraction(9, 16), l1))
    assert got.step_sum == pytest.approx(3 * LR * 0.5625, rel=1e-15)


@pytest.mark.parametrize("name", OBJECTIVES)
def test_plain_local_steps_stop_where_each_row_has_made_its_own(name):
    steps = np.array([[0, 3], [2, 1]])
    rows = rows_of(2, 2, round_index=3)._replace(steps=steps)
    got = LocalSGD(3, lambda t: LR * t).solve(PROBLEM, made(name), START, rows)
    for k, b in np.ndindex(2, 2):
        close(got.y[k, b], walk(name, k, b, int(steps[k, b]), 3 * Fraction(LR)))
    assert (got.y[0, 0] == START[0, 0]).all()
    np.testing.assert_allclose(got.step_sum[..., 0], steps * 3 * LR, rtol=1e-15)
    every = LocalSGD(3, LR).solve(PROBLEM, made(name), START, rows_of(2, 2))
    for k, b in np.ndindex(2, 2):
        close(every.y[k, b], walk(name, k, b, 3, Fraction(LR)))
    assert every.step_sum == pytest.approx(3 * LR, rel=1e-15)


def test_step_sizes_by_round():
    assert [Constant(0.375)(t) for t in (1, 5)] == [0.375, 0.375]
    assert [InverseTime(0.375, 5.0)(t) for t in (1, 6, 3)] == [0.375, 0.1875, 0.375 / 1.4] and InverseTime(2.0)(2) == 1.0
    # 16 E/(mu ((tau + 1) E + gamma) S), tau = round - 1, E = 3
    step = TheoremStep(0.75, 3, 7.0, (2.5, 0.5))
    assert step(1) == pytest.approx(48 / (0.75 * 10 * 2.5)) and step(2) == pytest.approx(48 / (0.75 * 13 * 0.5))
    assert step(3) == pytest.approx(48 / (0.75 * 16 * 2.5))
    assert TheoremStep(0.75, 3, 7.0, 1.25)(4) == pytest.approx(48 / (0.75 * 19 * 1.25))
    for kind, each in (("constant", [0.375] * 4), ("inverse-sqrt", [0.375, 0.375 / 2**0.5, 0.375 / 3**0.5, 0.1875]),
                       ("hold-and-cut", [0.375, 0.375, 0.375 * 0.625, 0.375 * 0.625**2])):  # fmt: skip
        schedule = Schedule(kind, 0.375, hold=2, cut=0.625)
        np.testing.assert_allclose([schedule.at(t) for t in (1, 2, 3, 4)], each, rtol=1e-15)
    assert Schedule("constant", 1).cut == CUT and Schedule("constant", 1).hold == 0 and type(Schedule("constant", 1).at(1)) is float


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda: Schedule("linear", 1.0), "kind = 'linear': use one of constant, inverse-sqrt, hold-and-cut"),
        *[(lambda s=s: Schedule("constant", s), f"step = {s!r}: it must be a finite") for s in (0, -1.0, math.inf, True, "1")],
        *[(lambda h=h: Schedule("constant", 1.0, hold=h), f"hold = {h!r}: the rounds before") for h in (-1, 1.5, True)],
        *[(lambda c=c: Schedule("constant", 1.0, cut=c), f"cut = {c!r}: the step's factor") for c in (0.0, 1.0, -0.5, math.nan)],
        *[(lambda s=s: SubgradientSteps(s, Schedule("constant", 1.0)), f"steps = {s!r}: the number") for s in (0, 1.5, True)],
        (lambda: SubgradientSteps(1, 0.5), "schedule = 0.5: give a Schedule"),
        *[
            (lambda r=r: SubgradientSteps(1, Schedule("constant", 1.0), r), f"radius = {r!r}: the ball")
            for r in (0, -1.0, math.nan, True)
        ],
        *[(lambda v=v: Constant(v), f"lr = {v!r}: the local step size") for v in (0, math.inf, True, -0.5)],
        *[(lambda v=v: InverseTime(v), f"lr = {v!r}: the first local step size") for v in (0, math.inf)],
        *[(lambda v=v: InverseTime(1.0, v), f"delay = {v!r}: the rounds until") for v in (0, math.inf)],
        (lambda: TheoremStep(0, 1, 1.0, 1.0), "mu = 0: the strong convexity"),
        (lambda: TheoremStep(1.0, 0, 1.0, 1.0), "E = 0: the number of local steps"),
        (lambda: TheoremStep(1.0, 1, 0, 1.0), "gamma = 0: it must be"),
        (lambda: TheoremStep(1.0, 1, 1.0, 0), "S = 0: E[sum p s]"),
        (lambda: TheoremStep(1.0, 1, 1.0, ()), "S = (): E[sum p s]"),
        (lambda: TheoremStep(1.0, 1, 1.0, (1.0, 0.0)), "S = (1.0, 0.0): E[sum p s]"),
        (lambda: LocalSGD(0, 1.0), "steps = 0: the number E"),
        (lambda: LocalSGD(1, 0.0), "lr = 0.0: the local step size"),
        *[(lambda v=v: LocalSGD(1, 1.0, v), f"batch_size = {v!r}: use an integer >= 1") for v in (0, 1.5, True)],
        *[(lambda v=v: LocalSGD(1, 1.0, noise_std=v), f"noise_std = {v!r}: the noise's") for v in (-1.0, math.inf, True, "1")],
        *[(lambda v=v: SGD(2, v, epochs=1), f"lr = {v!r}: the local step size must be") for v in (0, math.inf, True)],
        *[(lambda v=v: SGD(2, 1.0, epochs=1, decay=v), f"decay = {v!r}: the step size's factor") for v in (0, 1.5)],
        *[(lambda v=v: SGD(2, 1.0, epochs=1, epoch_decay=v), f"epoch_decay = {v!r}: use (0, 1]") for v in (0, 1.5)],
        *[(lambda v=v: SGD(2, 1.0, epochs=1, clip=v), f"clip = {v!r}: use a finite norm > 0") for v in (0, math.inf)],
        (lambda: SGD(2, 1.0, epochs=1, clip=1.0, clip_spares="l1"), "clip_spares = 'l1': use None or 'curvature'"),
        (lambda: SGD(2, 1.0, epochs=1, clip_spares="curvature"), "clip_spares = 'curvature' without clip"),
        (lambda: SGD(2, 1.0, epochs=1, l1="hard"), "l1 = 'hard': use 'subgradient' (as printed) or 'prox'"),
        (lambda: SGD(0, 1.0, epochs=1), "batch_size = 0: the mini-batch must be an integer >= 1"),
        (lambda: SGD(2, 1.0), "epochs = None, steps = None: give exactly one of the two"),
        (lambda: SGD(2, 1.0, steps=0), "steps = 0: it must be an integer >= 1"),
        (lambda: SGD(2, 1.0, epochs=0), "epochs = 0: it must be an integer >= 1"),
        (lambda: GradientSteps(0, 1.0), "steps = 0: "),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_with_its_name_and_value(wrong, says):
    with pytest.raises(InvalidInput) as refused:
        wrong()
    assert says in str(refused.value)


def test_the_ends_of_what_can_be_are_taken():
    assert SGD(1, 1e-9, steps=1, decay=1.0, epoch_decay=1, clip=1e-9).steps == 1 and GradientSteps(1, 1e-9, decay=1).steps == 1
    assert SubgradientSteps(np.int64(1), Schedule("constant", 1e-9, hold=0, cut=1 - 1e-9), 1e-9).steps == 1
    assert TheoremStep(1e-9, 1, 1e-9, 1e-9).E == 1 and LocalSGD(1, 1e-9, 1, 0).noise_std == 0
    with pytest.raises(InvalidInput, match=r"lr\(3\)"):
        LocalSGD(1, lambda t: 0.0).step_size(3)


# --- subgradient steps and sliding -------------------------------------------------------------------------------------------
def test_projected_subgradient_steps():
    """Two steps of 3/8 cut once by 5/8, each drawn back to the ball of radius 3/2 where it has left it."""
    got = SubgradientSteps(2, Schedule("hold-and-cut", 0.375, hold=2, cut=0.625), 1.5).solve(
        PROBLEM, made("everything"), START, rows_of(2, 2, round_index=3)
    )
    step, outside = Fraction(3, 8) * Fraction(5, 8), 0
    for k, b in np.ndindex(2, 2):
        y = fractions(START[k, b])
        for _ in range(2):
            y = [v - step * g for v, g in zip(y, direction("everything", k, b, y))]
            size = math.hypot(*y)
            if size > 1.5:
                y, outside = [Fraction(float(v) * 1.5 / size) for v in y], outside + 1
        close(got.y[k, b], y)
    assert 0 < outside < 8 and got.step_sum == pytest.approx(2 * float(step), rel=1e-15)


@pytest.mark.parametrize("radius", [1.25, math.inf])
def test_sliding_in_its_lines(radius):
    """u_t = proj(u - (g + beta (u - center) - linear)/((1 + t/2) beta)); avg_t = (1 - theta) avg + theta u, theta = 2(t+1)/(t(t+3))."""
    objective = LocalObjective(CENTER, LINEAR, CURVATURE)
    got = SubgradientSliding(4, radius, engine="numpy").solve(PROBLEM, objective, START, rows_of(2, 2))
    outside = 0
    for k, b in np.ndindex(2, 2):
        u, center, linear = fractions(START[k, b]), fractions(CENTER[k, b]), fractions(LINEAR[k, b])
        average, beta = None, Fraction(CURVATURE)
        for t in range(1, 5):
            g = loss_gradient(k, u)
            pace = (1 + Fraction(t, 2)) * beta
            u = [v - (s + beta * (v - c) - w) / pace for v, s, c, w in zip(u, g, center, linear)]
            size = math.hypot(*u)
            if size > radius:
                u, outside = [Fraction(float(v) * radius / size) for v in u], outside + 1
            theta = Fraction(2 * (t + 1), t * (t + 3))
            average = u if t == 1 else [(1 - theta) * a + theta * v for a, v in zip(average, u)]
        np.testing.assert_allclose(got.y[k, b], [float(v) for v in u], rtol=1e-12)
        np.testing.assert_allclose(got.average[k, b], [float(v) for v in average], rtol=1e-12)
    assert (outside > 0) == (radius < 2) and [averaging_weight(t) for t in (1, 2, 5)] == [1.0, 0.6, 0.3]


def test_a_point_is_projected_only_from_outside():
    u = np.array([[0.75, -1.0], [3.0, -4.0], [0.0, 0.0], [0.6, 0.8]])
    got = project_ball(u, 1.25)
    assert (got[[0, 2, 3]] == u[[0, 2, 3]]).all()
    np.testing.assert_allclose(got[1], [0.75, -1.0], rtol=1e-15)
    assert project_ball(u, math.inf) is u


# --- clipping ---------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("limit", [0.5, 1e3])
@pytest.mark.parametrize("spares", [None, "curvature"])
@pytest.mark.parametrize("prox", [False, True])
@pytest.mark.parametrize("ridge", [0.0, 0.3125])
@pytest.mark.parametrize("name", OBJECTIVES)
def test_what_of_a_step_is_clipped(name, ridge, prox, spares, limit):
    """min(1, limit/(norm + 1e-6)) of all but ridge y, and with spares all but curvature y, which are added afterwards."""
    gradient = PROBLEM.client_gradient(START) + ridge * START
    got = clipped_direction(made(name), START, gradient, ridge, prox, limit, spares)
    for k, b in np.ndindex(2, 2):
        y, (center, linear, q, l1, anchor) = fractions(START[k, b]), parts(name, k, b)
        own = loss_gradient(k, y)
        cut = [
            own[i] - linear[i] - q * center[i] + (0 if spares else q * y[i]) + (0 if prox else l1 * sign(y[i] - anchor[i]))
            for i in range(2)
        ]
        factor = min(1.0, limit / (math.hypot(*cut) + 1e-6))
        assert (factor < 1) == (limit < 1)
        needed = [factor * float(c) + (ridge + (float(q) if spares else 0)) * float(v) for c, v in zip(cut, y)]
        np.testing.assert_allclose(got[k, b], needed, rtol=1e-12)


def test_the_factor_of_each_row():
    got = clipped_factor(np.array([[3.0, -4.0], [0.3, 0.4], [0.0, 0.0], [np.nan, 1.0]]), 2.0)
    np.testing.assert_allclose(got[:, 0], [2 / (5 + 1e-6), 1.0, 1.0, np.nan], rtol=1e-15)


# --- mini-batches -----------------------------------------------------------------------------------------------------------
FEATURES = [np.array([[0.5, -1.5], [2.5, 0.75], [-0.25, 1.25], [1.75, -0.125], [0.875, 3.0]]), np.array([[1.5, 0.25], [-2.0, 0.625]])]
TARGETS = [np.array([0.375, -1.25, 2.0, 0.6875, -0.5]), np.array([1.0, -0.75])]
RIDGE = 0.28125
SAMPLES = problems.LeastSquares(FEATURES, TARGETS, RIDGE)


def batch_gradient(k, y, batch):
    """Mean over the batch of a (a'y - b), and the ridge."""
    out = [Fraction(RIDGE) * v for v in y]
    for j in batch:
        a = fractions(FEATURES[k][j])
        r = sum(u * v for u, v in zip(a, y)) - Fraction(float(TARGETS[k][j]))
        out = [o + r * u / len(batch) for o, u in zip(out, a)]
    return out


class Noted(problems.LeastSquares):
    """Notes the samples that it is asked for."""

    def client_batch_gradient(self, y, samples):
        Noted.seen.append((self.num_clients, np.array(samples)))
        return super().client_batch_gradient(y, samples)


def test_sgd_in_fractions_on_the_samples_it_drew():
    """Clients of 5 and 2 samples in batches of 2: three steps and one an epoch, of 3/32 (3/4)^2 (5/8)^epoch in round 3."""
    Noted.seen = []
    problem = Noted(FEATURES, TARGETS, RIDGE)
    got = SGD(2, LR, epochs=2, decay=0.75, epoch_decay=0.625).solve(problem, made("everything"), START, rows_of(2, 2, round_index=3))
    drawn = [s for _, s in Noted.seen]
    assert sorted(s.shape[-1] for s in drawn) == [1, 1, 2, 2, 2, 2, 2, 2]
    base = Fraction(LR) * Fraction(9, 16)
    walks = {1: [s for s in drawn[:2]], 0: [s for s in drawn[2:]]}  # the fewest samples first
    sums = {0: base * 3 * (1 + Fraction(5, 8)), 1: base * (1 + Fraction(5, 8))}
    for k, b in np.ndindex(2, 2):
        y, (center, linear, q, l1, anchor) = fractions(START[k, b]), parts("everything", k, b)
        per = 3 if k == 0 else 1
        for step, batch in enumerate(walks[k]):
            g = batch_gradient(k, y, batch[0, b])
            lr = base * Fraction(5, 8) ** (step // per)
            y = [
                v - lr * (u - w + q * (v - c) + l1 * sign(v - a)) for v, u, w, c, a in zip(y, g, linear, center, anchor)
            ]
        close(got.y[k, b], y)
        assert got.step_sum[k, b, 0] == pytest.approx(float(sums[k]), rel=1e-14)


def test_what_is_drawn_is_addressed_by_seed_round_step_scenario_and_client():
    """The first rows of a block of scenarios: the same whoever else takes part, and the same in every release."""
    clients, scenarios = np.array([5, 2]), np.array([[3, BLOCK + 5, 2 * BLOCK], [0, 1, BLOCK]])
    stream = Stream(11)
    rows = Rows(clients, scenarios, np.ones((2, 3), bool), stream, 4)
    for n, b in np.ndindex(2, 3):
        client, (block, inside) = int(clients[n]), divmod(int(scenarios[n, b]), BLOCK)
        keys = stream.generator("minibatch", 4, 7, (client << 32) | block).random((BLOCK, 9))[inside]
        assert sample_order(rows, n, b, 9, 7).tolist() == np.argsort(keys).tolist()
        drawn = stream.generator("local batch", 4, 7, block).random((6, BLOCK, 2))[client, inside]
        assert _per_row(rows, "local batch", 7, 2, np.random.Generator.random)[n, b].tolist() == drawn.tolist()


def test_the_first_places_of_a_shuffle():
    """u = (0, 1/2, 3/4) of 5: swap 0 with 0, 1 with 1 + 2 and 2 with 2 + 2; of 3 samples 1 with 2, and 2 with itself."""
    u = np.array([[[0.0, 0.5, 0.75]], [[0.0, 0.5, 0.75]]])
    assert _distinct(u, np.array([5, 3])[:, None, None])[:, 0].tolist() == [[0, 3, 4], [0, 2, 1]]


def test_clients_of_as_many_samples_have_one_step_sum():
    """A number; with unequal ones, one for each row, (N, B, 1). A problem that walks itself is left to it."""
    rng = np.random.default_rng(4)
    alike = problems.LeastSquares(rng.standard_normal((2, 3, 2)), rng.standard_normal((2, 3)))
    assert SGD(2, LR, epochs=2).solve(alike, made("linear"), START, rows_of(2, 2)).step_sum == pytest.approx(4 * LR)
    assert SGD(2, LR, epochs=1).solve(SAMPLES, made("linear"), START, rows_of(2, 2)).step_sum.shape == (2, 2, 1)
    alike.walk = lambda *given: given
    solver, objective, rows = SGD(2, LR, epochs=2), made("linear"), rows_of(2, 2)
    assert solver.solve(alike, objective, START, rows) == (solver, objective, START, rows)


@pytest.mark.parametrize("l1", ["subgradient", "prox"])
@pytest.mark.parametrize("spares", [None, "curvature"])
def test_clipped_sgd_steps(l1, spares):
    """Whole batches, clipped at 1/2: the step, and the prox after it."""
    got = SGD(5, LR, steps=2, l1=l1, clip=0.5, clip_spares=spares).solve(SAMPLES, made("everything"), START, rows_of(2, 2))
    y = START
    for _ in range(2):
        along = clipped_direction(made("everything"), y, SAMPLES.client_gradient(y), RIDGE, l1 == "prox", 0.5, spares)
        y = y - LR * along
        if l1 == "prox":
            y = ANCHOR + np.sign(y - ANCHOR) * np.maximum(np.abs(y - ANCHOR) - LR * L1, 0)
    np.testing.assert_allclose(got.y, y, rtol=1e-13)


def test_mini_batches_of_plain_local_steps():
    """With replacement any sample of the client, without it different ones; the noise has the mean square asked for."""
    for replacement in (True, False):
        Noted.seen = []
        problem = Noted(FEATURES, TARGETS, RIDGE)
        solver = LocalSGD(40, LR, 2, replacement=replacement)
        got = solver.solve(problem, made("linear"), START, rows_of(2, 2))
        drawn = [s for _, s in Noted.seen]
        assert len(drawn) == 40 and {s.shape for s in drawn} == {(2, 2, 2)}
        for k, n in enumerate((5, 2)):
            picks = np.stack([s[k] for s in drawn])
            assert set(picks.ravel().tolist()) == set(range(n))
            assert (picks[..., 0] == picks[..., 1]).any() == replacement
        y = fractions(START[0, 1])
        for s in drawn:
            y = [v - Fraction(LR) * (u - w) for v, u, w in zip(y, batch_gradient(0, y, s[0, 1]), fractions(LINEAR[0, 1]))]
            y = [Fraction(float(v)) for v in y]
        np.testing.assert_allclose(got.y[0, 1], [float(v) for v in y], rtol=1e-11)
    flat = problems.Quadratic(np.zeros((1, 4, 4)), np.zeros((1, 4)))
    noise = LocalSGD(1, 1.0, noise_std=0.75).solve(flat, LocalObjective(np.zeros(4)), np.zeros((1, 4000, 4)), rows_of(1, 4000)).y
    assert (noise**2).sum(axis=-1).mean() == pytest.approx(0.5625, rel=0.06) and abs(noise.mean()) < 0.02


def test_mini_batches_need_samples_and_without_replacement_enough_of_them():
    with pytest.raises(MissingCapability, match="Quadratic has no samples to draw mini-batches from"):
        LocalSGD(1, 1.0, 1).check(PROBLEM)
    with pytest.raises(MissingCapability, match="Quadratic has no samples to draw mini-batches from"):
        SGD(1, 1.0, epochs=1).check(PROBLEM)
    LocalSGD(1, 1.0, 2, replacement=False).check(SAMPLES)
    LocalSGD(1, 1.0, 3).check(SAMPLES)
    with pytest.raises(InvalidInput, match="batch_size = 3 without replacement, but a client has only 2 samples"):
        LocalSGD(1, 1.0, 3, replacement=False).check(SAMPLES)


# --- views ------------------------------------------------------------------------------------------------------------------
PICKS = np.array([[[0, 3], [2, 2]], [[1, 1], [0, 1]]])


def test_a_view_is_its_problem_seen_through():
    view = View(SAMPLES)
    assert view.ridge == RIDGE and view.dim == 2
    np.testing.assert_array_equal(view.client_gradient(START), SAMPLES.client_gradient(START))
    np.testing.assert_array_equal(view.client_batch_gradient(START, PICKS), SAMPLES.client_batch_gradient(START, PICKS))
    assert not hasattr(view, "walk") and not hasattr(View(SimpleNamespace(walk=1)), "walk")
    for name in ("__len__", "problem"):
        with pytest.raises(AttributeError, match=name):
            getattr(View.__new__(View) if name == "problem" else View(SimpleNamespace(__len__=1)), name)
    with pytest.raises(AttributeError, match="problem"):
        View.__new__(View).dim  # noqa: B018
    g = SAMPLES.client_gradient(START)
    np.testing.assert_array_equal(
        view.clipped_direction(made("everything"), START, g, True, 0.5, "curvature"),
        clipped_direction(made("everything"), START, g, RIDGE, True, 0.5, "curvature"),
    )


def test_a_scaled_view():
    """What is clipped is the gradient before it is scaled: of what is left after the momentum is taken out, which is added again."""
    view, s = ScaledView(SAMPLES, 0.375), 0.375
    np.testing.assert_allclose(view.client_gradient(START), s * SAMPLES.client_gradient(START))
    np.testing.assert_allclose(view.client_batch_gradient(START, PICKS), s * SAMPLES.client_batch_gradient(START, PICKS))
    momentum = LINEAR[::-1] / 4
    for held in (None, momentum):
        linear = LINEAR if held is None else LINEAR - held  # linear holds -momentum
        objective = LocalObjective(CENTER, linear, CURVATURE, L1, momentum=held)
        got = view.clipped_direction(objective, START, view.client_gradient(START), False, 0.5, None)
        g = SAMPLES.client_gradient(START)
        own = g - RIDGE * START + (CURVATURE * (START - CENTER) - LINEAR + L1 * np.sign(START - CENTER)) / s
        factor = np.minimum(1, 0.5 / (np.linalg.norm(own, axis=-1, keepdims=True) + 1e-6))
        needed = s * (own * factor + RIDGE * START) + (0 if held is None else held)
        np.testing.assert_allclose(got, needed, rtol=1e-12)
    # with a prox for the l1 term and the curvature spared: neither is clipped
    objective, along = LocalObjective(CENTER, LINEAR, CURVATURE, L1), view.client_gradient(START)
    spared = view.clipped_direction(objective, START, along, True, 0.5, "curvature")
    own = SAMPLES.client_gradient(START) - RIDGE * START - (CURVATURE * CENTER + LINEAR) / s
    factor = np.minimum(1, 0.5 / (np.linalg.norm(own, axis=-1, keepdims=True) + 1e-6))
    np.testing.assert_allclose(spared, s * (own * factor + RIDGE * START) + CURVATURE * START, rtol=1e-12)
    bare = view.clipped_direction(LocalObjective(CENTER), START, view.client_gradient(START), True, 0.5, None)
    own = SAMPLES.client_gradient(START) - RIDGE * START
    factor = np.minimum(1, 0.5 / (np.linalg.norm(own, axis=-1, keepdims=True) + 1e-6))
    np.testing.assert_allclose(bare, s * (own * factor + RIDGE * START), rtol=1e-12)


def test_the_same_batch_at_the_anchor():
    """scale (grad(y; batch) - grad(anchor; batch) + grad(anchor)), and with some clients only theirs."""
    view = SameBatchView(SAMPLES, ANCHOR, 0.375)
    needed = np.empty_like(START)
    for k, b in np.ndindex(2, 2):
        here, there = (batch_gradient(k, fractions(p[k, b]), PICKS[k, b]) for p in (START, ANCHOR))
        full = batch_gradient(k, fractions(ANCHOR[k, b]), range(len(TARGETS[k])))
        needed[k, b] = [float(Fraction(0.375) * (u - v + w)) for u, v, w in zip(here, there, full)]
    np.testing.assert_allclose(view.client_batch_gradient(START, PICKS), needed, rtol=1e-12)
    np.testing.assert_allclose(view.client_gradient(START), 0.375 * SAMPLES.client_gradient(START))
    swapped = view.subset(np.array([1, 0]))
    np.testing.assert_allclose(swapped.client_batch_gradient(START[::-1], PICKS[::-1]), needed[::-1], rtol=1e-12)
    np.testing.assert_allclose(SameBatchView(SAMPLES, ANCHOR).client_gradient(START), SAMPLES.client_gradient(START))


@pytest.mark.parametrize("adaptive", [True, False])
def test_two_models_and_their_mixture(adaptive):
    """(grad f(w), a grad f(m), <v - w, grad f(m)>) at m = a v + (1 - a) w; where a has left [0, 1] its nearest end is used."""
    view, mix = MixedView(SAMPLES, adaptive), np.array([[0.375, -0.5], [1.25, 0.625]])
    y = np.concatenate([START, ANCHOR, mix[..., None]], axis=-1)
    for batches in (None, PICKS):
        got = view.client_gradient(y) if batches is None else view.client_batch_gradient(y, batches)
        for k, b in np.ndindex(2, 2):
            a = Fraction(min(max(mix[k, b], 0.0), 1.0))
            w, v = fractions(START[k, b]), fractions(ANCHOR[k, b])
            batch = range(len(TARGETS[k])) if batches is None else batches[k, b]
            at_w = batch_gradient(k, w, batch)
            at_m = batch_gradient(k, [a * p + (1 - a) * q for p, q in zip(v, w)], batch)
            slope = sum((p - q) * g for p, q, g in zip(v, w, at_m)) if adaptive else Fraction(0)
            close(got[k, b], [*at_w, *(a * g for g in at_m), slope])
    whole, a = view.client_gradient(y), np.clip(mix, 0, 1)[..., None]
    got = view.clipped_direction(LocalObjective(y), y, whole, False, 0.0625, None)
    for part, decay in ((slice(0, 2), RIDGE * START), (slice(2, 4), RIDGE * a * (a * ANCHOR + (1 - a) * START))):
        own = whole[..., part] - decay
        factor = np.minimum(1, 0.0625 / (np.linalg.norm(own, axis=-1, keepdims=True) + 1e-6))
        np.testing.assert_allclose(got[..., part], own * factor + decay, rtol=1e-12)
    np.testing.assert_array_equal(got[..., 4:], whole[..., 4:])


def test_a_solver_on_a_view_is_that_solver():
    solver = OnView(LocalSGD(3, LR), lambda problem, start: ScaledView(problem, 0.375))
    assert solver.honours_steps is True and solver.steps == 3 and OnView(SimpleNamespace(honours_steps=False), None).steps is None
    got = solver.solve(SAMPLES, LocalObjective(START), START, rows_of(2, 2)).y
    y = START
    for _ in range(3):
        y = y - LR * 0.375 * SAMPLES.client_gradient(y)
    np.testing.assert_allclose(got, y, rtol=1e-12)
    asked = []
    noting = SimpleNamespace(check=lambda *a: asked.append(a), solve=lambda *a: asked.append(a))
    OnView(noting, None).check(SAMPLES, "objective")
    OnView(noting, lambda *a: asked.append(a) or "view").solve(SAMPLES, "objective", "start", "rows")
    assert asked == [(SAMPLES, "objective"), (SAMPLES, "start"), ("view", "objective", "start", "rows")]
    with pytest.raises(MissingCapability, match="no samples"):
        OnView(LocalSGD(1, 1.0, 1), None).check(PROBLEM)
    assert draws_batches(LocalSGD(1, 1.0, 1)) and not draws_batches(LocalSGD(1, 1.0)) and not draws_batches(GradientSteps(1, 1.0))
    refuse_noise(LocalSGD(1, 1.0), "it")
    refuse_noise(GradientSteps(1, 1.0), "it")
    with pytest.raises(MissingCapability, match=r"noise_std = 0\.5 belongs to no sample, and it needs gradients"):
        refuse_noise(LocalSGD(1, 1.0, noise_std=0.5), "it")
