"""The exact engine against the float code: the same instances, every form of every statement."""

from fractions import Fraction

import numpy as np
import pytest

from fedtheory.algorithms.fedelasticnet_dyn import FedElasticNetDyn, FedElasticNetDynState
from fedtheory.errors import InvalidInput
from fedtheory.participation.cohorts import Full, Uniform
from fedtheory.problems import Quadratic
from fedtheory.theorems import all_statements
from fedtheory.theorems.fedelasticnet.exact import DiagonalInstance, DiagonalLosses, exact_array, sqrt_upper
from fedtheory.theorems.fedelasticnet.expectation import round_view, tree

RULES = ("sign", "true-gradient")
SCOPES = ("round", "run")
FORMS = [(s, f) for s in all_statements("fedelasticnet/") if s.scope in SCOPES for f in s.forms]


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
        one, one_float = instance.round_view(state), round_view(problem, algorithm, sampling, float_state)
        run = instance.run_view(3)
        run_float = tree(problem, algorithm, sampling, 3, np.asarray(instance.x0[0], dtype=float))
        for statement, form in FORMS:
            if rule in form.established:
                exact, rounded = (one, one_float) if statement.scope == "round" else (run, run_float)
                compare(form, exact, rounded)


@pytest.mark.parametrize("rule", RULES)
def test_a_batch_is_its_instances_one_by_one(rule):
    rng = np.random.default_rng(5)
    single = [draw(rng, 3, 2, rule, 2) for _ in range(3)]
    arrays = [np.stack([np.asarray(getattr(i.losses, n), dtype=float) for i in single]) for n in ("h", "c")]
    l1, l2 = (np.array([float(getattr(i, n)) for i in single]) for n in ("lambda1", "lambda2"))
    batch = DiagonalInstance.batch(*arrays, l1, l2, 2, rule, np.stack([np.asarray(i.x0[0], dtype=float) for i in single]))
    cohorts = [(0, 1), (1, 2)]
    one, run = batch.round_view(batch.after(cohorts)), batch.run_view(3)
    for k, instance in enumerate(single):
        exact_one, exact_run = instance.round_view(instance.after(cohorts)), instance.run_view(3)
        for statement, form in FORMS:
            sides = form.sides(one if statement.scope == "round" else run)
            exact = form.sides(exact_one if statement.scope == "round" else exact_run)
            pick = (slice(k, k + 1),) if statement.scope == "round" else (slice(None), slice(k, k + 1))
            scale = np.maximum(sides.scale[pick], 1e-300)
            for a, b in ((exact.lhs, sides.lhs), (exact.rhs, sides.rhs)):
                assert np.max(np.abs(np.asarray(a, dtype=float) - b[pick]) / scale) < 1e-9, (statement.id, form.name)


@pytest.mark.parametrize("rule", RULES)
def test_a_batch_with_several_starts_and_merged_clients_is_its_instances_one_by_one(rule):
    """Two instances, three starts each, five clients of two kinds: (2, 3, d) starts and (2, 2, d) kinds."""
    rng = np.random.default_rng(7)
    copies, h, c, x0 = (2, 3), abs(numbers(rng, 2, 2, 2)) + Fraction(1, 2), numbers(rng, 2, 2, 2), numbers(rng, 2, 3, 2)
    l1, l2 = [Fraction(1, 2), Fraction(5, 4)], [Fraction(40), Fraction(75)]
    floats = [np.array(a, dtype=float) for a in (h, c, l1, l2)]
    run = DiagonalInstance.batch(*floats, 5, rule, x0, copies).run_view(4)
    names = ("excess", "inner_exact", "inner_sign", "inner_own_sign", "inner_split", "inner_split_own_sign", "zeros")
    for k in range(2):
        exact = DiagonalInstance.exact(h[k], c[k], l1[k], l2[k], 5, rule, x0[k], copies).run_view(4)
        for name in names:
            np.testing.assert_allclose(getattr(run, name)[:, k], getattr(exact, name)[:, 0].astype(float), rtol=1e-9, atol=1e-9)
        for name in ("start_sq", "C0", "C0_printed", "C0_true"):
            assert getattr(run, name)[k] == pytest.approx(float(getattr(exact, name)[0]), rel=1e-12)


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
    for q in (Fraction(2), Fraction(1, 3), Fraction(1, 10**40), Fraction(10**41, 7)):
        root = sqrt_upper(q)
        assert root * root >= q and (root * root - q) / q < Fraction(1, 2**100)


@pytest.mark.parametrize(
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
    ],
)
def test_bad_instances_are_refused(change, message):
    good = {"h": [[1]], "c": [[0]], "lambda1": 1, "lambda2": 30, "P": 1, "rule": "sign", "x0": [1]}
    DiagonalInstance.exact(**good)
    with pytest.raises(InvalidInput, match=message):
        DiagonalInstance.exact(**{**good, **change})


def test_too_many_paths_and_wrong_cohorts_are_refused():
    instance = DiagonalInstance.exact([[1]] * 3, [[0]] * 3, 1, 30, 1, "sign", [1])
    with pytest.raises(InvalidInput, match="paths"):
        instance.run_view(20)
    with pytest.raises(InvalidInput, match="cohort"):
        instance.after([(3,)])
