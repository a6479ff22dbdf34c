"""The minimiser on a ball: known closed forms, an independent conic solve, and a dual bound that is really a bound."""

from dataclasses import replace
from fractions import Fraction

import cvxpy as cp
import numpy as np
import pytest
from problem_makers import NONSMOOTH

from fedtheory.errors import InvalidInput, MissingCapability, NotCertified
from fedtheory.optimum import active_set
from fedtheory.optimum.active_set import candidates
from fedtheory.optimum.duality import Multipliers, NonsmoothStructure, check_radius, into_ball
from fedtheory.optimum.intervals import Enclosure
from fedtheory.optimum.on_ball import choose_radius, is_smooth
from fedtheory.problems import (
    LAD,
    ArjevaniShamir,
    EuclideanDistance,
    Hinge,
    L1Distance,
    MaxAffine,
    NesterovWorst,
    Quadratic,
    Quantile,
    TwoClientPull,
    random_euclidean_distance,
    random_hinge,
    random_l1_distance,
    random_lad,
    random_max_affine,
)

GAP = 1e-9


@pytest.fixture(params=NONSMOOTH)
def problem(request):
    return NONSMOOTH[request.param]()


def _independent(problem, radius):
    """min F on the ball by another cvxpy model and another solver."""
    x = cp.Variable(problem.dim)
    return cp.Problem(cp.Minimize(problem.cvxpy_objective(x)), [cp.norm(x) <= radius]).solve(solver=cp.SCS, eps=1e-9)


@pytest.mark.parametrize("radius", [0.05, 0.7, 10.0])
def test_certified_and_equal_to_another_solver(problem, radius):
    best = problem.optimum_on_ball(radius)
    assert 0 <= best.gap <= GAP and best.lower_bound <= best.value
    assert sum(Fraction(v) ** 2 for v in best.x) <= Fraction(radius) ** 2  # inside, in exact arithmetic
    scale = best.details["scale"]
    assert best.value == pytest.approx(float(problem.objective(best.x)), abs=1e-13 * scale)
    assert best.value == pytest.approx(_independent(problem, radius), abs=1e-6 * scale)
    assert best.details["radius"] == radius and problem.optimum_on_ball(radius) is best


def test_no_sampled_point_is_below_the_bound(problem):
    g = np.random.default_rng(0)
    for radius in (0.3, 3.0):
        best = problem.optimum_on_ball(radius)
        x = g.normal(size=(2000, problem.dim))
        x *= radius * g.random((2000, 1)) ** (1 / problem.dim) / np.linalg.norm(x, axis=1, keepdims=True)
        near = best.x + 1e-3 * radius * g.normal(size=(200, problem.dim))
        near = np.array([into_ball(v, radius) for v in near])
        assert problem.objective(np.concatenate([x, near])).min() >= best.lower_bound


@pytest.mark.parametrize("radius", [0.4, 4.0])
def test_any_multipliers_give_a_bound(problem, radius):
    """Weak duality: wild, infeasible or non-finite multipliers may give a bad bound, never a wrong one."""
    form, best = problem.nonsmooth_structure(), problem.optimum_on_ball(radius)
    g = np.random.default_rng(1)
    groups, pieces = form.intercepts.shape
    for size in (0.0, 0.1, 10.0):
        for _ in range(10):
            wild = Multipliers(
                size * g.normal(size=len(form.rows)), size * g.normal(size=(groups, pieces)),
                size * g.normal(size=form.centers.shape), size * g.normal(size=form.dim),
            )  # fmt: skip
            assert form.bound(wild, radius)[0] <= best.value
            assert form.bound(wild, 2 * radius)[0] <= form.bound(wild, radius)[0]


def test_value_encloses_the_objective(problem):
    form = problem.nonsmooth_structure()
    for x in np.random.default_rng(2).normal(size=(20, problem.dim)):
        value = form.value(x)
        assert value.upper - value.lower <= 1e-14 * abs(value.upper)
        assert float(problem.objective(x)) == pytest.approx(float(value.hi), rel=1e-13)


def test_enclosures_against_fractions():
    """F and a dual bound of a LAD instance in exact rational arithmetic."""
    problem = random_lad(2, 3, 2, seed=9)
    form = problem.nonsmooth_structure()
    x = np.array([0.3, -0.7])
    exact = Fraction(0)
    for k in range(2):
        for j in range(3):
            z = sum(Fraction(a) * Fraction(v) for a, v in zip(problem.features[k, j], x, strict=True))
            share = Fraction(problem.weights[k]) * Fraction(problem.sample_weights[k, j])
            exact += share * abs(z - Fraction(problem.targets[k, j]))
    value = form.value(x)
    assert Fraction(float(value.lower)) <= exact <= Fraction(float(value.upper))
    # rows'u = 0 for u = 0, so the bound with u = 0 is 0 exactly
    nothing = Multipliers(np.zeros(6), np.zeros((0, 1)), np.zeros((0, 2)), np.zeros(2))
    assert form.bound(nothing, 5.0)[0] == 0.0


def test_two_client_pull_closed_form():
    for epsilon in (0.1, 1e-2, 1e-3):
        problem = TwoClientPull(epsilon)
        best = problem.optimum_on_ball(4.0)
        np.testing.assert_allclose(best.x, problem.minimiser, atol=1e-9)
        assert abs(best.value) <= 1e-15 and best.details["active"] is False
        # on a small ball only the pull along (s_1, s) counts: F = s_1 c_1 + s c - R ||(s_1, s)|| while neither kink is reached
        small = problem.optimum_on_ball(0.3)
        slopes = np.array([problem.slope, problem.shallow])
        expected = slopes @ problem.minimiser - 0.3 * np.linalg.norm(slopes)
        assert small.value == pytest.approx(expected, rel=1e-11)
        np.testing.assert_allclose(small.x, 0.3 * slopes / np.linalg.norm(slopes), atol=1e-9)
        assert small.details["active"] is True
        assert small.details["multiplier"] == pytest.approx(np.linalg.norm(slopes) / 0.3, rel=1e-9)


@pytest.mark.parametrize("n", [1, 7, 249, 2499])
def test_nesterov_closed_form(n):
    problem = NesterovWorst(n)
    for radius in (0.5, 1.0, 4.0):
        best = problem.optimum_on_ball(radius)
        assert best.value == pytest.approx(problem.least_value(radius), rel=1e-11)
    assert best.value == pytest.approx(-1 / (2 * np.sqrt(n)), rel=1e-11)
    assert best.details["active"] is False and problem.optimum_on_ball(0.5).details["active"] is True
    flat = NesterovWorst(n, mu=0.0)
    assert flat.optimum_on_ball(2.0).value == pytest.approx(-2 / np.sqrt(n), rel=1e-11)


def test_nesterov_closed_form_is_what_the_general_route_finds():
    problem = NesterovWorst(6)
    as_pieces = NonsmoothStructure(
        6, slopes=np.eye(6)[None], intercepts=np.zeros((1, 6)),
        group_weights=Enclosure.exact(np.ones(1)), ridge=Enclosure.exact(problem.mu),
    )  # fmt: skip
    values = [float(as_pieces.value(into_ball(x, 3.0)).upper) for x, *_ in candidates(as_pieces, 3.0)]
    bounds = [as_pieces.bound(m, 3.0)[0] for _, m, *_ in candidates(as_pieces, 3.0)]
    assert min(values) == pytest.approx(problem.least_value(3.0), rel=1e-10)
    assert max(bounds) == pytest.approx(problem.least_value(3.0), rel=1e-10)


def test_l1_distance_is_the_median_inside_the_ball():
    problem = random_l1_distance(5, 4, seed=2)
    best = problem.optimum_on_ball(10.0)
    np.testing.assert_allclose(best.x, np.median(problem.centers, axis=0), atol=1e-12)
    assert best.details["active"] is False


def test_chain_closed_form():
    for links in (2, 10, 40):
        problem = ArjevaniShamir(links)
        best = problem.optimum_on_ball(1.5)
        assert abs(best.value) <= 1e-15
        np.testing.assert_allclose(best.x, problem.minimiser, atol=1e-9)


def test_euclidean_closed_forms():
    angles = 2 * np.pi * np.arange(3) / 3
    ring = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    best = EuclideanDistance(ring + np.array([3.0, 0.0])).optimum_on_ball(10.0)  # the Fermat point
    np.testing.assert_allclose(best.x, [3, 0], atol=1e-9)
    assert best.value == pytest.approx(1.0, rel=1e-11)
    # the ball in the way: by symmetry the nearest point of it
    near = EuclideanDistance(ring[[0]] * 5).optimum_on_ball(2.0)
    np.testing.assert_allclose(near.x, [2, 0], atol=1e-9)
    assert near.value == pytest.approx(3.0, rel=1e-11) and near.details["active"] is True
    # a centre that outweighs the others is the minimiser itself
    heavy = EuclideanDistance([[1.0, 1.0], [2.0, 5.0], [-3.0, 0.0]], weights=[0.6, 0.2, 0.2]).optimum_on_ball(4.0)
    np.testing.assert_array_equal(heavy.x, [1.0, 1.0])
    # two centres: any point between
    line = EuclideanDistance([[1.0, 1.0], [3.0, 3.0]]).optimum_on_ball(9.0)
    assert line.value == pytest.approx(np.sqrt(2), rel=1e-11)


def test_scalar_quantile_is_the_quantile():
    targets = np.array([5.0, 1.0, 4.0, 2.0, 3.0])
    problem = Quantile(np.ones((1, 5, 1)), targets[None], 0.7)
    best = problem.optimum_on_ball(10.0)
    np.testing.assert_allclose(best.x, [4.0], atol=1e-9)
    held = problem.optimum_on_ball(2.5)
    np.testing.assert_allclose(held.x, [2.5], atol=1e-12)
    assert held.details["constraint"] == "active"


def test_constraint_is_told_on_both_sides_of_the_unconstrained_minimiser():
    problem = random_lad(3, 7, 3, seed=1)
    size = float(np.linalg.norm(problem.optimum_on_ball(50.0).x))
    assert problem.optimum_on_ball(size * 1.01).details["active"] is False
    assert problem.optimum_on_ball(size * 0.9).details["active"] is True
    values = [problem.optimum_on_ball(r).value for r in (0.3 * size, 0.6 * size, 0.9 * size, 2 * size)]
    assert values == sorted(values, reverse=True) and values[0] > values[1] > values[2]


@pytest.mark.parametrize("ridge", [0.0, 0.01])
def test_where_the_ball_holds_it_the_value_is_known_to_its_last_bits(ridge):
    """And the point, of which the solver's value alone says little: it is polished."""
    found = random_hinge(3, 40, 5, ridge=ridge, seed=3).optimum_on_ball(0.1)
    assert (
        found.details["constraint"] == "active"
        and found.gap <= 2e-15
        and found.kkt_residual <= 1e-15
    )
    assert (
        1 - 2.0**-46 <= Fraction(0.1) ** -2 * sum(Fraction(v) ** 2 for v in found.x.tolist()) <= 1
    )


def test_the_solver_is_asked_once_where_its_point_polished_shows_that_the_ball_is_active(monkeypatch):
    asked, real = [], active_set.conic_point
    monkeypatch.setattr(active_set, "conic_point", lambda *a: asked.append(a) or real(*a))
    for problem in (random_lad(3, 40, 5, seed=1), random_hinge(3, 40, 5, ridge=0.01, seed=3), random_max_affine(3, 5, 3, seed=1)):
        asked.clear()
        found = problem.optimum_on_ball(0.1)
        assert found.details["constraint"] == "active" and len(asked) == 1
        wide = problem.optimum_on_ball(0.2)
        assert wide.value < found.lower_bound


def test_degenerate_data():
    """Repeated rows and centres, integer ties, zero columns, an optimum at 0 with value 0."""
    g = np.random.default_rng(4)
    rows, targets = g.integers(-2, 3, size=(3, 6, 3)).astype(float), g.integers(-2, 3, size=(3, 6)).astype(float)
    rows[:, :, 2] = 0
    slopes = g.integers(-2, 3, size=(2, 5, 2)).astype(float)
    for problem in (
        LAD(rows, targets), Hinge(rows, np.where(targets < 0, -1, 1)), MaxAffine(slopes, np.zeros((2, 5))),
        L1Distance(np.zeros((3, 2))), EuclideanDistance([[1.0, 0.0]] * 3 + [[-1.0, 0.0]] * 3), LAD([[[1.0]]], [[0.0]]),
    ):  # fmt: skip
        for radius in (0.5, 5.0):
            assert problem.optimum_on_ball(radius).gap <= GAP


def test_many_random_instances_are_all_certified():
    g = np.random.default_rng(6)
    worst = 0.0
    for seed in range(12):
        counts = {"num_clients": int(g.integers(1, 6)), "dim": int(g.integers(1, 5)), "seed": seed}
        unequal = 10 ** g.uniform(0, 4)
        for problem in (
            random_lad(samples=int(g.integers(1, 9)), unequal=unequal, **counts),
            random_hinge(samples=int(g.integers(1, 9)), unequal=unequal, ridge=float(g.choice([0, 0.01])), **counts),
            random_max_affine(unequal=unequal, **counts),
            random_euclidean_distance(**counts),
        ):
            worst = max(worst, problem.optimum_on_ball(10 ** g.uniform(-2, 2)).gap)
    assert worst <= GAP


def test_a_smaller_gap_is_asked_anew_and_refused_when_impossible():
    problem = TwoClientPull(0.1)
    with pytest.raises(NotCertified, match="proven relative gap"):
        problem.optimum_on_ball(0.3, gap=1e-18)
    assert problem.optimum_on_ball(0.3).gap <= GAP


def test_a_wrong_dual_form_does_not_pass():
    """Mutants of the form: the bound must then fail against the true values, or the gap stay open."""
    problem = random_lad(3, 7, 3, seed=1)
    form, best = problem.nonsmooth_structure(), problem.optimum_on_ball(1.0)
    found = [m for _, m, *_ in candidates(form, 1.0)]
    wide = replace(form, low=form.low * 1.5, high=form.high * 1.5)  # multipliers beyond the slopes
    true = float(form.value(best.x).upper)
    assert max(wide.bound(m, 1.0)[0] for _, m, *_ in candidates(wide, 1.0)) > true
    smaller = max(form.bound(m, 0.1)[0] for _, m, *_ in candidates(form, 0.1))  # the bound of another ball
    assert smaller > true
    assert max(form.bound(m, 1.0)[0] for m in found) == pytest.approx(true, rel=1e-9)


@pytest.mark.parametrize("radius", [0, -1, float("nan"), float("inf"), True, "1", None])
def test_bad_radius(radius):
    with pytest.raises(InvalidInput, match="radius is"):
        TwoClientPull(0.1).optimum_on_ball(radius)
    if radius != float("inf"):
        with pytest.raises(InvalidInput, match="radius is"):
            check_radius(radius, finite=False)


@pytest.mark.parametrize("gap", [0, -1e-9, float("nan"), None])
def test_bad_gap(gap):
    with pytest.raises(InvalidInput, match="gap is"):
        TwoClientPull(0.1).optimum_on_ball(1.0, gap=gap)
    kept = TwoClientPull(0.1)
    kept.optimum_on_ball(1.0)
    with pytest.raises(InvalidInput, match="gap is"):
        kept.optimum_on_ball(1.0, gap=gap)


def test_missing_capability_names_it():
    from fedtheory.problems import random_quadratic

    with pytest.raises(MissingCapability, match="nonsmooth_structure"):
        random_quadratic(2, 2).optimum_on_ball(1.0)


def test_the_radius_chosen_is_the_least_power_of_2_whose_ball_holds_a_minimiser():
    problem = L1Distance(np.array([[5.0, 0.0]]))  # ||x*|| = 5
    assert choose_radius(problem, None)[0] == 8.0
    assert choose_radius(problem, None, np.array([0.0, 20.0]))[0] == 32.0  # and x_0
    assert choose_radius(problem, 6, np.array([0.0, 5.0])) == (6.0, "given")


@pytest.mark.parametrize(
    ("radius", "x0", "says"),
    [
        (-1.0, None, "radius is -1"),
        (float("nan"), None, "radius is nan"),
        (3.0, np.array([0.0, 4.0]), r"= 4 is outside the ball of radius 3: enlarge the radius, or start inside it"),
    ],
)
def test_a_radius_that_cannot_be_is_refused(radius, x0, says):
    with pytest.raises(InvalidInput, match=says):
        choose_radius(L1Distance(np.array([[5.0, 0.0]])), radius, x0)


def test_what_has_no_smoothness_constant_is_solved_on_a_ball():
    assert not is_smooth(L1Distance(np.array([[5.0, 0.0]])))
    assert is_smooth(Quadratic([np.eye(2)], [[5.0, 0.0]]))
    with pytest.raises(MissingCapability, match="no Lipschitz constant on a ball"):
        choose_radius(Quadratic([np.eye(2)], [[5.0, 0.0]]), None)
