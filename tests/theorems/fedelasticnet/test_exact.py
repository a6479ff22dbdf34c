"""The exact engine against the float code: the same instances, every form of every statement."""

import re
from fractions import Fraction

import numpy as np
import pytest
from algorithm_3 import (
    DiagonalInstance,
    DiagonalLosses,
    PiecewiseLosses,
    RationalState,
    exact_array,
    exact_round,
    round_view,
)
from cases import each

from fedtheory.algorithms.fedelasticnet_dyn import FedElasticNetDyn, FedElasticNetDynState
from fedtheory.errors import InvalidInput
from fedtheory.participation.cohorts import Full, Uniform
from fedtheory.problems import Quadratic
from fedtheory.theorems import all_statements
from fedtheory.theorems.fedelasticnet.merged_clients import _Reach
from fedtheory.theorems.fedelasticnet.statements.theorem_3_1 import sqrt_upper
from fedtheory.theory.rounds.slopes import absolute

RULES = ("sign", "true-gradient")
FORMS = [(s, f) for s in all_statements("fedelasticnet/") if s.forms[0].kind == "round" for f in s.forms]


def numbers(rng, *shape):
    """Short fractions with denominators that are powers of two, so that float64 holds them exactly."""
    out = np.empty(shape, dtype=object)
    for index in np.ndindex(*shape):
        out[index] = Fraction(int(rng.integers(-12, 13)), int(2 ** rng.integers(0, 4)))
    return out


def draw(rng, m, d, rule, P):
    h = abs(numbers(rng, m, d)) / 8
    h[0] += Fraction(1, 2)  # R then has one minimiser
    if m > 1:
        h[-1, 0] = Fraction(0)
    c, x0 = numbers(rng, m, d), numbers(rng, d)
    l1 = Fraction(int(rng.integers(0, 5)), 2)
    return DiagonalInstance.exact(h, c, l1, 30 * h.max(), P, rule, x0)


def float_pair(instance):
    h, c = (np.asarray(a, dtype=float) for a in (instance.losses.h, instance.losses.c))
    problem = Quadratic(np.stack([np.diag(row) for row in h]), c)
    algorithm = FedElasticNetDyn(float(instance.lambda1), float(instance.lambda2), instance.rule)
    return problem, algorithm, Uniform(instance.P) if instance.P < instance.m else Full()


def compare(form, exact_view, float_view):
    exact, rounded = form.sides(exact_view), form.sides(float_view)
    assert all(isinstance(x, Fraction | int) for x in np.ravel(exact.lhs))
    assert all(isinstance(x, Fraction | int) for x in np.ravel(exact.rhs))
    scale = np.maximum(np.asarray(rounded.scale, dtype=float), 1e-300)
    for a, b in ((exact.lhs, rounded.lhs), (exact.rhs, rounded.rhs)):
        assert np.shape(a) == np.shape(b)
        assert np.max(np.abs(np.asarray(a, dtype=float) - b) / scale) < 1e-9


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(("m", "P", "d"), [(1, 1, 1), (2, 1, 1), (3, 2, 2), (2, 2, 2)])
def test_exact_and_float_views_agree_on_every_form(m, P, d, rule):
    rng = np.random.default_rng([m, P, d])
    for _ in range(2):
        instance = draw(rng, m, d, rule, P)
        problem, algorithm, sampling = float_pair(instance)
        cohorts = [tuple(np.flatnonzero(instance.members[rng.integers(len(instance.members))])) for _ in range(2)]
        state = instance.after(cohorts)
        float_state = FedElasticNetDynState(*(np.asarray(a, dtype=float) for a in (state.theta, state.stored, state.h, state.local)))
        one, one_float = exact_round(instance, state), round_view(problem, algorithm, sampling, float_state)
        for _, form in FORMS:
            if rule in form.established:
                compare(form, one, one_float)


CURVATURE, L2, SHARE = exact_array(["5/4", "1/3"]), Fraction(7, 2), Fraction(2, 5)


@pytest.mark.parametrize("side", [1, -1])
def test_the_intervals_of_what_identical_clients_reach_are_those_of_one_number(side):
    """h is the mean of what is stored, and at most 2/5 more of the clients a round have stored anything."""
    away = side * exact_array([[2, "-3/4"], ["-1/3", "5/2"]])  # two starts
    reach = _Reach(away, CURVATURE, L2, SHARE)
    alone = {at: [away[at]] * 2 + [0, 0] for at in np.ndindex(2, 2)}
    for t in range(1, 6):
        reach.step()
        for (s, i), (low, high, bottom, top) in alone.items():
            bottom, top = min(bottom, CURVATURE[i] * low), max(top, CURVATURE[i] * high)
            drawn = min(t * SHARE, 1)
            alone[s, i] = low - drawn * max(top, 0) / L2, high - drawn * min(bottom, 0) / L2, bottom, top
        for number, name in enumerate(("low", "high", "stored_low", "stored_high")):
            assert getattr(reach, name).tolist() == [[alone[s, i][number] for i in range(2)] for s in range(2)], name
        # A client whose stored gradient is at one end and whose gradient is at the other has the most to do.
        most = max(max(v[3] - CURVATURE[i] * v[0], CURVATURE[i] * v[1] - v[2]) for (_, i), v in alone.items())
        assert reach.still(most) and not reach.still(most - Fraction(1, 10**9))


def test_the_intervals_hold_every_state_that_is_reached():
    """All sequences of three identical clients, one a round, whose theta* is 0."""
    instance = DiagonalInstance.exact([[1]] * 3, [[0]] * 3, 3, 2, 1, "true-gradient", [1])
    reach, state = _Reach(instance.x0, 1, Fraction(2), Fraction(1, 3)), instance.start()
    for _ in range(4):
        state = RationalState(*(a.reshape(-1, *a.shape[2:]) for a in instance.step(state, instance.members)))
        reach.step()
        assert reach.low[0, 0] <= state.theta.min() and state.theta.max() <= reach.high[0, 0]
        assert reach.stored_low[0, 0] <= state.stored.min() and state.stored.max() <= reach.stored_high[0, 0]
    for start, still in ((1, True), (4, False)):
        assert _Reach(exact_array([[start]]), 1, 2, 1).still(Fraction(2)) is still


def test_at_a_kink_the_stored_gradient_is_what_stationarity_leaves():
    """3|x| from 1 with lambda_1 = 1/2, lambda_2 = 2: to 0, where 2 + 1/2 is stored, a subgradient of 3|x|."""
    kink = DiagonalInstance(PiecewiseLosses([[absolute(0, 3)]]), Fraction(1, 2), Fraction(2), 1, "true-gradient", exact_array([[1]]))
    after = kink.step(kink.start(), kink.members)
    assert (after.local[0, 0, 0, 0], after.stored[0, 0, 0, 0]) == (0, Fraction(5, 2))


def test_one_round_by_hand():
    # L(x) = x^2/2, theta = 1, lambda_1 = 1/4, lambda_2 = 2: v = -1, delta = -(1 - 1/4)/(2 + 1) = -1/4.
    for rule, stored in (("sign", Fraction(3, 4)), ("true-gradient", Fraction(3, 4))):  # delta != 0: the rules agree
        state = DiagonalInstance.exact([[1]], [[0]], "1/4", 2, 1, rule, [1]).after([(0,)])
        assert state.local[0, 0, 0] == Fraction(3, 4)
        assert state.stored[0, 0, 0] == state.h[0, 0] == stored
        assert state.theta[0, 0] == Fraction(3, 4) - stored / 2


def test_optimum_and_flat_coordinates():
    losses = DiagonalLosses(exact_array([[1, 0], [2, 0]]), exact_array([[3, 5], [0, 7]]))
    assert list(losses.theta_star) == [1, 0]
    assert losses.excess(exact_array([[4, 9]]))[0] == Fraction(3, 2) * 9 / 2
    assert (losses.grad_star.sum(axis=0) == 0).all()


def test_square_roots_are_upper_bounds():
    assert sqrt_upper(Fraction(9, 4)) == Fraction(3, 2)
    assert sqrt_upper(Fraction(0)) == 0
    for q in (Fraction(2), Fraction(1, 3), Fraction(1, 10**40), Fraction(1, 10**41), Fraction(10**41, 7)):
        root = sqrt_upper(q)
        assert root * root >= q and (root * root - q) / q < Fraction(1, 2**100)


@each(
    ("change", "message"),
    [
        ({"h": [[-1]]}, "negative"),
        ({"h": [[0]]}, "beta must be positive"),
        ({"h": [[1, 1]]}, "disagree"),
        ({"lambda1": -1}, "lambda_1"),
        ({"lambda2": 0}, "lambda_2"),
        ({"P": 2}, "between 1 and m"),
        ({"rule": "signs"}, "rule"),
        ({"x0": ["one"]}, "not a rational number"),
        ({"c": [[float("nan")]]}, "not a rational number"),
        ({"h": [1], "c": [0], "x0": 5}, "disagree"),
        ({"h": [[1]], "c": [[0], [0]]}, "disagree"),
        ({"x0": [1, 1]}, r"x0 \(2,\) disagree"),
        ({"h": [[]], "c": [[]], "x0": []}, "disagree"),
        ({"P": 1.0}, "P = 1.0 with m = 1"),
        ({"P": True}, "P = True"),
        ({"P": 0}, "between 1 and m"),
    ],
)
def test_bad_instances_are_refused(change, message):
    good = {"h": [[1]], "c": [[0]], "lambda1": 1, "lambda2": 30, "P": 1, "rule": "sign", "x0": [1]}
    DiagonalInstance.exact(**good)
    with pytest.raises(InvalidInput, match=message):
        DiagonalInstance.exact(**{**good, **change})


@pytest.mark.parametrize("cohort", [[3, 1], [-1, 1], [0, 0], [0, 1, 1], [0], [0, 1, 2]])
def test_wrong_cohorts_are_refused(cohort):
    instance = DiagonalInstance.exact([[1]] * 3, [[0]] * 3, 1, 30, 2, "sign", [1])
    words = re.escape(f"cohort {cohort} of round 2 is not P = 2 of the clients 0..2")
    with pytest.raises(InvalidInput, match=words):
        instance.after([[2, 1], cohort])


def test_one_state_follows_from_one_start():
    with pytest.raises(InvalidInput, match="2 starts: one state follows from one start only"):
        DiagonalInstance.exact([[1]] * 3, [[0]] * 3, 1, 30, 1, "sign", [[1], [2]]).after([[0]])


def test_a_view_of_a_round_has_the_state_it_starts_from():
    instance = draw(np.random.default_rng(2), 3, 2, "sign", 2)
    state = instance.after([[0, 2]])
    view = exact_round(instance, state)
    assert (view.x[:, 0] == state.theta).all()
    for name in ("h", "stored", "local"):
        assert (getattr(view.state, name)[:, 0] == getattr(state, name)).all()
    assert view.rational and view.probability.tolist() == [Fraction(1, 3)] * 3
