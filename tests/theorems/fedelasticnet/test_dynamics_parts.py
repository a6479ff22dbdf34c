"""Parts of the statements on FedElasticNet's dynamics: subgradients at jumps, what is frozen, fixed points, floats beside fractions."""

from __future__ import annotations

from fractions import Fraction as F

import numpy as np
import pytest
from fedelasticnet_worlds import BUILDERS

from fedtheory import problems
from fedtheory.algorithms import FedElasticNetDyn
from fedtheory.errors import InvalidInput
from fedtheory.theorems.fedelasticnet.dynamics import facts
from fedtheory.theorems.fedelasticnet.dynamics.facts import FROZEN, HALF, OWN, RESTS, STRONG, TWO_STILL
from fedtheory.theorems.fedelasticnet.dynamics.motions import Motion, data_of
from fedtheory.theorems.fedelasticnet.dynamics.separable import pieces_of
from fedtheory.theorems.fedelasticnet.dynamics.standstills import _between
from fedtheory.theory import Fact
from fedtheory.theory.rounds.slopes import Piece, absolute, clipped, huber, quadratic, ramp

SIGN, TRUE = "sign", "true-gradient"
TINY = F(1, 10**9)
FACTS = [fact for fact in vars(facts).values() if isinstance(fact, Fact)]


def motion(losses, l1, l2, theta, rounds, stored=None, rule=SIGN):
    return Motion.from_data(data_of(losses, l1, l2, rule, theta, rounds, stored))


def jump(low, high, at=0):
    """The slope is low left of a point, high right of it."""
    return ramp(low, high, at, at)


# --- where a slope jumps --------------------------------------------------------------------------
def test_the_subgradient_at_a_jump_is_the_one_nearest_to_the_step():
    """|x| with lambda_1 = 1/4 and lambda_2 = 1/2 from 1: both local models are the kink.

    Round 1: 3/4 + (y - 1)/2 is 1/4 at y = 0, and -2 + 3/4 - 1/2 < 0. So y = 0 with g - lambda_2 delta = 1/2 in [-1, 1], and it
    stores 1/2 - (-1/4) = 3/4 with theta = 0 - (3/4)/(1/2) = -3/2. Round 2: the slope -1 - 3/4 - 1/4 - (3/2)/2 < 0 there, and
    at y = 0 it is -3/4 + 3/4 + 1/4 - 1 < 0 < 1 from the right. So y = 0 again, with g - lambda_2 delta = 3/4 - 3/4 = 0.
    """
    view = motion([[absolute(0)]], F(1, 4), F(1, 2), [1], 2)
    assert view.y.ravel().tolist() == [0, 0] and view.theta.ravel().tolist()[:2] == [1, F(-3, 2)]
    assert view.stored.ravel().tolist()[:2] == [0, F(3, 4)] and view.grad_y.ravel().tolist() == [F(1, 2), 0]


def test_a_jump_beyond_the_step_has_its_own_end():
    """Slopes from -1 to 1/8: of the step 1/2 the nearest is 1/8."""
    far = [[jump(-1, F(1, 8))], [jump(-1, F(9, 8))]]
    view = motion(far, F(1, 16), F(1, 2), [1], 1)
    assert [x for row in view.y[0] for x in row] == [F(7, 8), 0] and view.grad_y[0].ravel().tolist() == [F(1, 8), F(1, 2)]


# --- what is frozen -------------------------------------------------------------------------------
def back(rounds, at=2, stored=-5):
    """x^2/2 with lambda_1 = 1 and lambda_2 = 1/2: from (2, -5) to (2, -2) and to (0, 0), where it stays.

    Round 1: y - g + (y - 2)/2 - 1 = 0 at y = -2, which it stores; theta = -2 + 2 2. Round 2: 0 + 2 - 1 - 1 = 0 at y = 0.
    """
    return motion([[quadratic(1)]], 1, F(1, 2), [at], rounds, [[stored]])


def test_a_run_that_ends_at_rest():
    first, second, third = (back(n) for n in (1, 2, 3))
    assert second.theta.ravel().tolist() == [2, 2, 0] and second.stored.ravel().tolist() == [-5, -2, 0]
    assert [v.has(FROZEN) for v in (first, second, third)] == [False, True, True]
    assert [v.has(RESTS) for v in (first, second, third)] == [False, False, True]
    assert not third.has(TWO_STILL) and back(4).has(TWO_STILL) and not third.has(OWN)


@pytest.mark.parametrize("at", [F(3, 7), F(-3, 7)])
def test_frozen_at_the_limit_on_both_sides(at):
    """Slopes of 3/5 and -3/5, and lambda_1 = 3/5 or a little less."""
    for l1, frozen in ((F(3, 5), True), (F(3, 5) - TINY, False)):
        view = motion([[quadratic(F(7, 5))]], l1, F(7, 2), [at], 1)
        assert view.has(FROZEN) == frozen


def test_what_the_true_gradient_rule_freezes():
    """Opposed clients move by 1/4 each, and h = 0: nobody moves again, but the gradients stored are those of the local models."""
    pair = [[quadratic(1, 1)], [quadratic(1, -1)]]
    moved = motion(pair, F(1, 2), 1, [0], 1, rule=TRUE)
    assert moved.delta.ravel().tolist() == [F(1, 4), F(-1, 4)] and not moved.h[-1].any()
    assert abs(moved.stored[-1] - moved.grad[-1]).max() == F(1, 4) and not moved.has(FROZEN)
    assert motion(pair, 2, 1, [0], 1, rule=TRUE).has(FROZEN)  # -1 and 1 are stored, and 0 stays
    sliding = motion([[huber(0, 1)]], 2, 1, [9], 1, [[1]], rule=TRUE)
    assert sliding.theta[-1, 0] == 8 and (sliding.stored[-1] == sliding.grad[-1]).all() and not sliding.has(FROZEN)


@pytest.mark.parametrize("way", [1, -1])
@pytest.mark.parametrize(("behind", "ahead", "frozen"), [(0, 0, True), (5, 0, True), (0, 5, False), (0, F(1, 4), False)])
def test_a_drift_is_frozen_where_no_slope_ahead_is_steep(way, behind, ahead, frozen):
    """Three clients, one of them steep, drift to the right, or their image; far off a slope may rise, ahead of it or behind it."""

    def rising(low, high, p, q):
        return ramp(low, high, p, q) if way == 1 else ramp(-high, -low, -q, -p)

    def far(rise, at):
        return rising(0, rise, at, at + 1) if at > 0 else rising(-rise, 0, at - 1, at)

    flat = rising(0, 1, 1, 2) + far(ahead, 50) + far(behind, -50)
    view = motion([[rising(F(-3, 2), F(-1, 2), 1, 2)], [flat], [rising(0, 1, 1, 2)]], 1, 28, [0], 6)
    assert view.h[-1, 0] == F(-way, 2) and not view.delta[1:].any() and view.has(FROZEN) == frozen


def test_whose_start_it_is():
    """g_k = 0 for all clients, whatever they store later; a mean of 0 is not enough."""
    assert motion([[quadratic(1)]], 1, 1, [9], 2).has(OWN)
    pair = [[quadratic(1)]] * 2
    assert not motion(pair, 1, 1, [9], 2, [[1], [-1]]).has(OWN)
    assert motion([[quadratic(F(1, 2))]], 1, 1, [9], 2).has(STRONG)


def test_two_rounds_without_moves_follow_each_other():
    """One round of three is without moves: v is 4, 1/2 and beyond lambda_1 = 1 again."""
    view = motion([[quadratic(1)]], 1, F(1, 2), [F(1, 2)], 3)
    assert view.still.all() and view.has(TWO_STILL)
    swings = [v for v in (motion([[quadratic(1)]], 1, F(3, 4), [F(x, 8)], 5) for x in range(9, 40)) if 0 < v.still.sum() < 5]
    assert swings
    for v in swings:
        assert v.has(TWO_STILL) == any(a and b for a, b in zip(v.still, v.still[1:], strict=False))
    assert any(not v.has(TWO_STILL) for v in swings)


def test_states_are_one_up_to_their_size():
    """1e-12 (1 + |theta|) apart, as floats are rounded."""
    view = motion([[quadratic(1)]], 1, 1, [1000], 1)
    view.theta, view.stored, view.rounding = np.array([[1000.0], [0.0]]), np.zeros((2, 1, 1)), 1e-12
    for size, off, same in ((1000.0, 9e-10, True), (1000.0, 1.2e-9, False), (0.0, 0.9e-12, True), (0.0, 1.8e-12, False)):
        view.theta = np.array([[size], [size + off]])
        assert view.same(0, 1) == same


def test_a_curvature_that_is_not_there_is_said():
    jumps, flat = motion([[absolute(0)]], 1, 1, [1], 1), motion([[Piece()]], 1, 1, [1], 1)
    assert "lambda_2 is unknown of it" in HALF.unmet(jumps) and "lambda_2 is inf of it" in HALF.unmet(flat)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"losses": [[{}], [{}, {}]]}, "expected a row a client, all of one length"),
        ({"losses": [[]]}, "expected a row a client"),
        ({"losses": "x"}, "expected a row a client"),
        ({"losses": {"a": [{}]}}, "expected a row a client"),
        ({"losses": [[{"curvature": "1"}, {"curvature": "-1"}]]}, r"losses\[0\]\[1\].curvature = -1"),
        ({"lambda2": "two"}, "lambda2"),
    ],
)
def test_malformed_runs_are_told(change, says):
    with pytest.raises(InvalidInput, match=says):
        Motion.from_data(data_of([[quadratic(1)]], 1, 28, SIGN, [1], 2) | change)


# --- floats beside fractions ----------------------------------------------------------------------
SPACE = problems.Quadratic([np.diag([0.5, 3.0, 1.25]), np.diag([1.5, 2.0, 0.25])], [[1.0, -0.5, 2.0], [-2.0, 0.75, 0.5]])
NUMBERS = ("theta", "h", "stored", "y", "grad", "grad_y", "excess", "excess_gamma", "theta_star")


@pytest.mark.parametrize("rule", [SIGN, TRUE])
@pytest.mark.parametrize(("l1", "l2"), [(0.125, 4.0), (0.5, 1.0), (8.0, 4.0)])
def test_floats_and_fractions_agree_in_space(rule, l1, l2):
    """Every number of the run, the curvatures of R, and the direction of the largest one, which is not the first coordinate."""
    exact = motion(pieces_of(SPACE), F(l1), F(l2), [F(3), F(-1), F(1, 2)], 4, rule=rule)
    floats = Motion.followed(SPACE, FedElasticNetDyn(l1, l2, rule), 4, [3.0, -1.0, 0.5])
    for name in NUMBERS:
        np.testing.assert_allclose(getattr(floats, name), getattr(exact, name).astype(float), rtol=1e-9, atol=1e-9, err_msg=name)
    assert exact.top.tolist() == [0, 1, 0] and np.abs(floats.top).tolist() == [0, 1, 0]
    assert (exact.beta, exact.mu, exact.beta_joint) == (3, F(3, 4), F(5, 2))
    assert (floats.beta, floats.mu, floats.beta_joint) == pytest.approx((3, 0.75, 2.5), rel=1e-12)
    assert 0 < floats.noise < 1e-9 and [floats.has(fact) for fact in FACTS] == [exact.has(fact) for fact in FACTS]


@pytest.mark.parametrize(
    ("start", "l1", "rule", "frozen"),
    [
        (6.0, 1.0, SIGN, [False, True, True]),  # to (-4, 3), and to (0, 0)
        (3.0, 1.0, SIGN, [False, False, False]),
        (1.0, 1.5, SIGN, [True, True, True]),  # the slope is lambda_1
        (1.0, 1.4375, SIGN, [False, False, False]),
        (0.0, 1.0, SIGN, [True, True, True]),
        (0.0, 1.0, TRUE, [False, False, False]),  # not known in floats
        (6.0, 1.0, TRUE, [False, False, False]),
    ],
)
def test_what_is_frozen_in_floats(start, l1, rule, frozen):
    """3 x^2/4 and lambda_2 = 1/2 after 1, 2 and 3 rounds, without rounding: moves are (|v| - lambda_1)/2."""
    line = problems.Quadratic([[[1.5]]], [[0.0]])
    views = [Motion.followed(line, FedElasticNetDyn(l1, 0.5, rule), n, [start]) for n in (1, 2, 3)]
    assert [v.has(FROZEN) for v in views] == frozen == [v.frozen for v in views]


def test_gradients_beyond_lambda_1_are_not_frozen_although_h_is_0():
    """Opposed clients at their mean move by 2, and h = 0: their gradients there are 2 from what they store."""
    pair = problems.Quadratic([[[1.0]], [[1.0]]], [[-3.0], [3.0]])
    view = Motion.followed(pair, FedElasticNetDyn(0.5, 0.25), 1, [0.0])
    assert not view.h.any() and view.delta.any() and not view.has(FROZEN)
    assert Motion.followed(pair, FedElasticNetDyn(3.0, 4.0), 1, [0.0]).has(FROZEN)
    close = Motion.followed(pair, FedElasticNetDyn(1.0, 3.0), 1, [0.0])  # 2.5 is stored where the slope is 3
    assert close.delta.any() and close.has(FROZEN)
    slid = Motion.followed(problems.Huber([[[1.0]], [[1.0]]], [[-9.0], [9.0]], delta=0.5), FedElasticNetDyn(0.25, 4.0), 2, [20.0])
    assert slid.h[-1].any() and np.abs(slid.stored[-1] - slid.grad[-1]).max() <= 0.25 and slid.frozen is False


def test_least_squares_of_one_feature_a_sample_are_parabolas():
    """Clients of 2 and 3 samples in the plane, a ridge of 1/8: the mean of (a x - b)^2/2, whose constant is left out."""
    features = [[[2.0, 0.0], [0.0, 0.5]], [[1.5, 0.0], [0.0, 0.0], [0.0, -3.0]]]
    targets = [[1.0, -0.25], [0.5, 4.0, 2.0]]
    problem = problems.LeastSquares([np.array(f) for f in features], [np.array(t) for t in targets], ridge=0.125)
    pieces = pieces_of(problem)
    for x in ([0.0, 0.0], [1.5, -2.0], [-0.75, 3.0]):
        exact = [[p.slopes(F(v)) for p, v in zip(row, x, strict=True)] for row in pieces]
        np.testing.assert_allclose([[float(low) for low, _ in row] for row in exact], problem.gradient(np.array(x)), rtol=1e-14)
    assert [p.slopes(F(0))[0] for p in pieces[0]] == [-F(2 * 1, 2), -F(1, 2) * F(-1, 4) / 2]
    assert [p.beta for p in pieces[1]] == [F(9, 4) / 3 + F(1, 8), F(9, 3) + F(1, 8)]


# --- fixed points of Algorithm 1 ------------------------------------------------------------------
def standstill(losses, l1, l2, theta, counts=None, rounds=1):
    rows = data_of(losses, l1, l2, SIGN, theta, rounds)
    data = {k: rows[k] for k in ("losses", "lambda1", "lambda2", "theta", "rounds")}
    return BUILDERS["standstill"](data | {"counts": [str(n) for n in counts or [1] * len(losses)]})


CLIPPED = [[huber(-3, F(1, 2), 3)], [huber(F(5, 3), 2)]]
ENDS = {  # what decides: bends of the losses, bends of the moves, jumps, one slope that never changes
    "bent": ([[huber(-3, F(1, 2), 3)], [huber(F(5, 3), 2)], [huber(F(1, 3), F(1, 4), 5)]], F(3, 7), F(5, 2), [3, 2, 5]),
    "jumps": ([[absolute(-1, F(7, 3))], [absolute(F(1, 3))], [absolute(2, F(3, 2))]], F(3, 7), F(5, 2), [3, 2, 5]),
    "a jump that holds": ([[absolute(0, 5)], [quadratic(2, 1)]], F(1, 4), F(3, 2), [1, 1]),
    "curved against linear": ([[quadratic(2, F(1, 3))], [Piece(slope=F(5, 3))]], F(1, 4), F(3, 2), [2, 3]),
    "linear against curved": ([[Piece(slope=F(-5, 3))], [quadratic(2, F(1, 3))]], F(1, 4), F(3, 2), [2, 3]),
    "curved and clipped": ([[quadratic(2, F(1, 3))], [huber(-40, 1, F(5, 3))]], F(1, 4), F(3, 2), [2, 3]),
    "clipped and curved": ([[huber(40, 1, F(5, 3))], [quadratic(2, F(1, 3))]], F(1, 4), F(3, 2), [3, 2]),
    "weighed": (CLIPPED, F(1, 7), F(2, 3), [2, 3]),
    "weighed the other way": (CLIPPED, F(1, 7), F(2, 3), [7, 3]),
    "flat in between": ([[huber(-3, 1)], [huber(3, 1)]], F(1, 4), F(3, 2), [1, 1]),
    "far apart": ([[quadratic(1, -8)], [quadratic(1)], [Piece(slope=F(4))]], F(2), F(1, 2), [1, 1, 1]),
    "jumps and bends": ([[absolute(0) + huber(4, 2, 3)], [absolute(1, 2) + huber(-4, F(1, 3), 2)]], F(2, 3), F(1, 3), [1, 2]),
}


@pytest.mark.parametrize("mirror", [1, -1])
@pytest.mark.parametrize("name", ENDS)
def test_the_ends_are_where_the_mean_move_changes_sign(name, mirror):
    losses, l1, l2, counts = ENDS[name]
    if mirror == -1:
        losses = [[Piece(-p.slope - sum(g for *_, g in p.ramps), p.curvature, -p.centre,
                         tuple((-b, -a, g) for a, b, g in p.ramps)) for p in row] for row in losses]  # fmt: skip
    view = standstill(losses, l1, l2, [0], counts)

    def move(x):
        return view.mean(view.moves(np.array([x], dtype=object)))[0]

    low, high = view.ends[0][0], view.ends[1][0]
    assert low <= high and move(low) == move(high) == 0 and move(low - TINY) > 0 > move(high + TINY)
    plain = standstill(*ENDS[name][:3], [0], counts)
    assert (low, high) == ((plain.ends[0][0], plain.ends[1][0]) if mirror == 1 else (-plain.ends[1][0], -plain.ends[0][0]))


@pytest.mark.parametrize("way", [1, -1])
@pytest.mark.parametrize("off", [F(1, 2), F(1), F(3, 2), F(2), F(5, 2), F(3)])
def test_one_fixed_point_beyond_all_corners(off, way):
    """x^2/2 and a slope of 1 + off/2 with lambda_1 = lambda_2 = 1: (-x - 1)/2 = off/2 at x = -1 - off, wherever that is."""
    view = standstill([[quadratic(1)], [Piece(slope=way * (1 + off / 2))]], 1, 1, [0])
    assert [end.tolist() for end in view.ends] == [[-way * (1 + off)]] * 2


@pytest.mark.parametrize(
    ("losses", "l1", "why"),
    [
        ([[huber(0, 1)], [huber(1, 1)]], 1, "has no end"),
        ([[ramp(-2, F(1, 2), 0, 1)]], 1, "has no end"),  # on the right
        ([[Piece()], [Piece()]], 1, "has no end"),  # a coordinate that no loss depends on
        ([[Piece(slope=F(3))], [Piece(slope=F(-3))]], 1, "has no end"),
        ([[Piece(slope=F(3))], [Piece(slope=F(-2))], [Piece(slope=F(-1))]], 2, "has none: the mean move is 0 nowhere"),
        ([[ramp(F(-1, 2), 2, 0, 1)]], 1, "has no end"),  # on the left
        ([[quadratic(1)], [Piece()]], 1, None),
        ([[absolute(0, 2)], [absolute(0, F(1, 2))]], 1, None),
    ],
)
def test_fixed_points_without_an_end_are_refused(losses, l1, why):
    if why is None:
        assert standstill(losses, l1, 2, [0]).ends
        return
    with pytest.raises(InvalidInput, match=rf"of coordinate 0: the interval {why}; take losses whose slopes exceed lambda_1"):
        standstill(losses, l1, 2, [0])


def test_no_fixed_points_at_all():
    """R is flat left of 0; there one client moves down by (3 - lambda_1)/2 and two move up by (3/2 - lambda_1)/2 each."""
    losses = [[Piece(slope=F(3))], *[[ramp(F(-3, 2), 0, 0, 1)]] * 2]
    with pytest.raises(InvalidInput, match="the interval has none: the mean move is 0 nowhere; take losses whose slopes"):
        standstill(losses, F(1, 4), 2, [0])


def some_pieces():
    yield from (quadratic(F(3, 2), F(1, 3)), quadratic(1) + Piece(slope=F(2)), Piece(), Piece(slope=F(1)), Piece(slope=F(3)))
    yield from (huber(0, 1), huber(F(1, 2), F(1, 4), 3), absolute(F(-1, 2)), ramp(-2, 3, 0, 0), ramp(1, 2, -1, 2))
    yield from (ramp(2, 4, -1, 1), ramp(-4, -2, 0, F(1, 2)), ramp(-1, 2, 0, 1) + ramp(0, 1, 2, 2), ramp(-3, -1, 0, 1))


@pytest.mark.parametrize(("low", "high"), [(F(-1), F(1)), (F(-2), F(2)), (F(-1, 2), F(1, 2)), (F(1), F(2))])
def test_where_a_slope_lies_between_two_numbers(low, high):
    """Point by point: some subgradient is at least low, and some at most high."""
    grid = [F(n, 12) for n in range(-72, 73)]
    for p in some_pieces():
        found, inside = _between(p, low, high), [x for x in grid if p.slopes(x)[1] >= low and p.slopes(x)[0] <= high]
        assert (found is None) == (not inside), p
        if found is not None:
            left, right = found
            assert inside == [x for x in grid if (left is None or x >= left) and (right is None or x <= right)], p


@pytest.mark.parametrize(("x", "low", "high", "said"), [(1, 0, 2, 1), (-1, 0, 2, 0), (3, 0, 2, 2), (3, 0, None, 3), (-3, None, 2, -3),
                                                        (3, None, 2, 2), (-3, 0, None, 0), (5, None, None, 5)])  # fmt: skip
def test_the_nearest_point_of_an_interval(x, low, high, said):
    assert clipped(x, low, high) == said


def test_slopes_at_jumps_are_those_of_least_size():
    """And a client that stays holds lambda_1 s = -L'(x); one that moves down has s = -1, one that moves up 1."""
    losses = [[absolute(0, 5), huber(0, 4), jump(1, 3)], [jump(-3, -1), jump(F(-1, 2), F(1, 2)), jump(-2, 0)],
              [jump(0, 2), jump(-2, F(1, 4)), quadratic(1, F(1, 2))], [quadratic(4, 1), quadratic(1, 1), quadratic(5, 1)]]  # fmt: skip
    view, at = standstill(losses, F(3, 4), 2, [0, 0, 0]), np.array([F(0)] * 3, dtype=object)
    assert view.slopes(at).tolist() == [[0, 0, 1], [-1, 0, 0], [0, 0, F(-1, 2)], [-4, -1, -5]]
    assert (view.moves(at) != 0).tolist() == [[False, False, True], [True, False, False], [False, False, False], [True] * 3]
    quarter = F(3, 4)
    assert view.subgradients(at).tolist() == [[0, 0, -quarter], [quarter, 0, 0], [0, 0, F(1, 2)], [quarter] * 3]
