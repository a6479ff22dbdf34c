"""Local steps, schedules and sliding on small instances of which no two numbers are alike, against a second writing.

The second writing is plain Python, one row and one coordinate at a time, in fractions wherever no root is taken.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from active_rows import rows_of
from cases import each
from worked_steps import (
    ANCHOR,
    CENTER,
    CURVATURE,
    LINEAR,
    LR,
    OBJECTIVES,
    PROBLEM,
    START,
    close,
    direction,
    fractions,
    loss_gradient,
    made,
    parts,
    sign,
    walk,
)

from fedtheory.errors import InvalidInput
from fedtheory.local import SGD, GradientSteps, LocalObjective, LocalSGD, SubgradientSliding
from fedtheory.local.local_sgd import Constant, InverseTime, TheoremStep
from fedtheory.local.objective import residual_scale
from fedtheory.local.sliding import project_ball
from fedtheory.local.sliding_steps import schedule
from fedtheory.local.subgradient import CUT, Schedule, SubgradientSteps


# --- the objective --------------------------------------------------------------------------------
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
    plain, rounded = residual_scale(made(name), y, upper[:, None], tolerance)
    unit = 32 * 2.0**-52 / tolerance
    for k, b in np.ndindex(2, 2):
        center, linear, q, l1, _ = parts(name, k, b)
        at = fractions(y[k, b])
        scale = max(Fraction(1), max(abs(q * (v - c)) for v, c in zip(at, center)) + l1 + max(map(abs, linear)))
        close(plain[k, b], [scale])
        size = math.sqrt(sum(v * v for v in at))
        assert rounded[k, b] == pytest.approx(float(scale) * max(1.0, unit) + unit * upper[k] * size, rel=1e-13)


# --- steps ----------------------------------------------------------------------------------------
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
    for kind, sizes in (("constant", [0.375] * 4), ("inverse-sqrt", [0.375, 0.375 / 2**0.5, 0.375 / 3**0.5, 0.1875]),
                       ("hold-and-cut", [0.375, 0.375, 0.375 * 0.625, 0.375 * 0.625**2])):  # fmt: skip
        schedule = Schedule(kind, 0.375, hold=2, cut=0.625)
        np.testing.assert_allclose([schedule.at(t) for t in (1, 2, 3, 4)], sizes, rtol=1e-15)
    assert Schedule("constant", 1).cut == CUT and Schedule("constant", 1).hold == 0 and type(Schedule("constant", 1).at(1)) is float


CONSTANT = Schedule("constant", 1.0)
POSITIVE, COUNT = "it must be a finite number > 0", "it must be an integer >= 1"
OUT_OF_RANGE = [  # maker, argument, values, limit
    (lambda v: Schedule("constant", v), "step", (0, -1.0, math.inf, True, "1"), POSITIVE),
    (lambda v: Schedule("constant", 1.0, v), "hold", (-1, 1.5, True), "it must be an integer >= 0"),
    (lambda v: Schedule("constant", 1.0, cut=v), "cut", (0.0, 1.0, -0.5, math.nan),
     "it must lie in (0, 1); the step's factor"),
    (lambda v: SubgradientSteps(v, CONSTANT), "steps", (0, 1.5, True), COUNT),
    (lambda v: SubgradientSteps(1, CONSTANT, v), "radius", (0, -1.0, math.nan, True),
     "the ball needs a number > 0"),
    (Constant, "lr", (0, math.inf, True, -0.5), f"{POSITIVE}; the local step size"),
    (InverseTime, "lr", (0, math.inf), f"{POSITIVE}; the first local step size"),
    (lambda v: InverseTime(1.0, v), "delay", (0, math.inf), f"{POSITIVE}; the rounds until"),
    (lambda v: TheoremStep(v, 1, 1.0, 1.0), "mu", (0,), f"{POSITIVE}; the strong convexity"),
    (lambda v: TheoremStep(1.0, v, 1.0, 1.0), "E", (0,), f"{COUNT}; the number of local steps"),
    (lambda v: TheoremStep(1.0, 1, v, 1.0), "gamma", (0,), POSITIVE),
    (lambda v: LocalSGD(v, 1.0), "steps", (0,), f"{COUNT}; the number E"),
    (lambda v: LocalSGD(1, v), "lr", (0.0,), POSITIVE),
    (lambda v: LocalSGD(1, 1.0, v), "batch_size", (0, 1.5, True), COUNT),
    (lambda v: LocalSGD(1, 1.0, noise_std=v), "noise_std", (-1.0, math.inf, True, "1"),
     "it must be a finite number >= 0; a root mean square norm"),
    (lambda v: SGD(2, 1.0, epochs=1, decay=v), "decay", (0, 1.5),
     "it must lie in (0, 1]; the step size's factor"),
    (lambda v: SGD(2, 1.0, epochs=1, epoch_decay=v), "epoch_decay", (0, 1.5),
     "it must lie in (0, 1]"),
    (lambda v: SGD(v, 1.0, epochs=1), "batch_size", (0,), COUNT),
    (lambda v: SGD(2, 1.0, steps=v), "steps", (0,), COUNT),
    (lambda v: SGD(2, 1.0, epochs=v), "epochs", (0,), COUNT),
    (lambda v: GradientSteps(v, 1.0), "steps", (0,), COUNT),
]  # fmt: skip


@each(
    ("wrong", "says"),
    [
        *[
            (partial(make, value), f"{name} is {value!r}: {limit}")
            for make, name, values, limit in OUT_OF_RANGE
            for value in values
        ],
        (lambda: Schedule("linear", 1.0),
         "kind = 'linear': use one of constant, inverse-sqrt, hold-and-cut"),
        (lambda: SubgradientSteps(1, 0.5), "schedule = 0.5: give a Schedule"),
        (lambda: TheoremStep(1.0, 1, 1.0, 0), "S = 0: E[sum p s]"),
        (lambda: TheoremStep(1.0, 1, 1.0, ()), "S = (): E[sum p s]"),
        (lambda: TheoremStep(1.0, 1, 1.0, (1.0, 0.0)), "S = (1.0, 0.0): E[sum p s]"),
        *[
            (partial(SGD, 2, value, epochs=1), f"lr = {value!r}: the local step size must be")
            for value in (0, math.inf, True)
        ],
        (lambda: SGD(2, 1.0, epochs=1, clip=1.0, clip_spares="l1"),
         "clip_spares = 'l1': use None or 'curvature'"),
        *[
            (partial(SGD, 2, 1.0, epochs=1, clip=value), f"clip = {value!r}: use a finite norm > 0")
            for value in (0, math.inf)
        ],
        (lambda: SGD(2, 1.0, epochs=1, clip_spares="curvature"),
         "clip_spares = 'curvature' without clip"),
        (lambda: SGD(2, 1.0, epochs=1, l1="hard"),
         "l1 = 'hard': use 'subgradient' (as printed) or 'prox'"),
        (lambda: SGD(2, 1.0), "epochs = None, steps = None: give exactly one of the two"),
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


# --- subgradient steps and sliding ----------------------------------------------------------------
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
    assert (outside > 0) == (radius < 2)
    assert [list(part) for part in schedule(2, 4)] == [[2.0, 2.5, 3.0], [6 / 28, 8 / 28, 10 / 28]]


def test_a_point_is_projected_only_from_outside():
    u = np.array([[0.75, -1.0], [3.0, -4.0], [0.0, 0.0], [0.6, 0.8]])
    got = project_ball(u, 1.25)
    assert (got[[0, 2, 3]] == u[[0, 2, 3]]).all()
    np.testing.assert_allclose(got[1], [0.75, -1.0], rtol=1e-15)
    assert project_ball(u, math.inf) is u
