"""Candidates on a ball: the optimality conditions solved a second time as one linear system, and what each guess of a kink rests on."""

from __future__ import annotations

import math
from dataclasses import replace

import cvxpy as cp
import numpy as np
import pytest

from fedtheory.optimum.active_set import _newton, _pulls, _solution, _symmetric, candidates, conic_point, polished
from fedtheory.optimum.duality import Multipliers, NonsmoothStructure
from fedtheory.optimum.intervals import Enclosure

pytestmark = pytest.mark.filterwarnings("ignore:Solution may be inaccurate")


def exact(values):
    return Enclosure.exact(np.array(values, dtype=float))


ROWS = np.array([[1.5, -0.75, 0.25, 2.25], [0.5, 1.25, -1.75, 0.875], [-2.5, 0.375, 0.625, -0.125]])
OFFSETS, LOW, HIGH = np.array([0.7, -1.3, 2.1]), np.array([-0.75, -2.5, -0.5]), np.array([1.25, 0.375, 3.5])
SLOPES = np.array(
    [
        [[0.3, -1.7, 0.9, 0.2], [2.2, 0.4, -0.6, 1.1], [-0.9, 0.8, 1.3, -0.45]],
        [[1.9, 3.1, -0.2, 0.65], [-2.3, 0.45, 0.7, 1.6], [0.15, -0.35, 2.6, -1.2]],
    ]
)
INTERCEPTS, WEIGHTS = np.array([[0.2, -0.55, 1.4], [0.65, 2.1, -1.3]]), np.array([1.5, 0.625])
LINEAR, RIDGE = np.array([0.85, -1.15, 0.55, 0.35]), 1.375
FORM = NonsmoothStructure(
    4, rows=ROWS, offsets=OFFSETS, low=exact(LOW), high=exact(HIGH), slopes=SLOPES, intercepts=INTERCEPTS, group_weights=exact(WEIGHTS),
    linear=exact(LINEAR), ridge=exact(RIDGE),
)  # fmt: skip
# kink 0 is met, kink 1 is at its low slope, kink 2 at its high one; pieces 0 and 2 of the first group are tied, of the second 1 leads
SHOWN = Multipliers(np.array([0.1, -2.5, 3.5]), np.array([[0.7, 0.0, 0.8], [0.0, 0.625, 0.0]]), np.zeros((0, 0)), np.zeros(4))
MET = np.array([ROWS[0], SLOPES[0, 0] - SLOPES[0, 2]])
SIDES = np.array([OFFSETS[0], INTERCEPTS[0, 2] - INTERCEPTS[0, 0]])
PULL = LINEAR + LOW[1] * ROWS[1] + HIGH[2] * ROWS[2] + WEIGHTS[0] * SLOPES[0, 2] + WEIGHTS[1] * SLOPES[1, 1]
NOWHERE = np.full(4, 9.0)


def stationary(mu, met=MET, sides=SIDES, pull=PULL):
    """(x, y) of mu x + pull + met'y = 0 and met x = sides."""
    n, dim = met.shape
    system = np.block([[mu * np.eye(dim), met.T], [met, np.zeros((n, n))]])
    both = np.linalg.solve(system, np.concatenate([-pull, sides]))
    return both[:dim], both[dim:]


def on_the_sphere(radius, met=MET, sides=SIDES, pull=PULL, low=RIDGE):
    """The stationary point of that norm, its multiplier of the ball by bisection."""
    high = 1e8
    for _ in range(200):
        mu = math.sqrt(low * high)
        low, high = (mu, high) if np.linalg.norm(stationary(mu, met, sides, pull)[0]) > radius else (low, mu)
    return stationary(mu, met, sides, pull)


@pytest.mark.parametrize("radius", [60.0, 1.1])
def test_the_optimality_conditions_as_one_linear_system(radius):
    x, y = stationary(RIDGE) if radius == 60 else on_the_sphere(radius)
    assert (np.linalg.norm(stationary(RIDGE)[0]) > 1.1) and np.linalg.norm(x) == pytest.approx(min(radius, np.linalg.norm(x)))
    [(_, found, m)] = polished(FORM, radius, NOWHERE, SHOWN, [1e-6])
    np.testing.assert_allclose(found, x, rtol=1e-10)
    np.testing.assert_allclose(m.u, [y[0], LOW[1], HIGH[2]], rtol=1e-10)
    np.testing.assert_allclose(m.s, [[y[1], 0, WEIGHTS[0] - y[1]], [0, WEIGHTS[1], 0]], rtol=1e-10)
    assert m.q is SHOWN.q and m.top is SHOWN.top


def test_ties_in_both_groups_beside_a_kink():
    """Pieces 0 and 2 of the first group, 1 and 0 of the second: each finds its own multiplier among all."""
    shown = replace(SHOWN, s=np.array([[0.7, 0.0, 0.8], [0.125, 0.5, 0.0]]))
    met = np.array([ROWS[0], SLOPES[0, 0] - SLOPES[0, 2], SLOPES[1, 0] - SLOPES[1, 1]])
    x, y = stationary(RIDGE, met, np.array([*SIDES, INTERCEPTS[1, 1] - INTERCEPTS[1, 0]]))
    [(_, found, m)] = polished(FORM, 60.0, NOWHERE, shown, [1e-6])
    np.testing.assert_allclose(found, x, rtol=1e-9)
    np.testing.assert_allclose(m.u, [y[0], LOW[1], HIGH[2]], rtol=1e-9)
    np.testing.assert_allclose(m.s, [[y[1], 0, WEIGHTS[0] - y[1]], [y[2], WEIGHTS[1] - y[2], 0]], rtol=1e-9)


def test_each_kind_alone():
    kinks = NonsmoothStructure(4, rows=ROWS, offsets=OFFSETS, low=exact(LOW), high=exact(HIGH), ridge=exact(RIDGE))
    nothing = Multipliers(SHOWN.u, np.zeros((0, 1)), np.zeros((0, 0)), np.zeros(4))
    x, y = stationary(RIDGE, ROWS[:1], OFFSETS[:1], LOW[1] * ROWS[1] + HIGH[2] * ROWS[2])
    [(_, found, m)] = polished(kinks, 60.0, NOWHERE, nothing, [1e-6])
    np.testing.assert_allclose(found, x, rtol=1e-10)
    np.testing.assert_allclose(m.u, [y[0], LOW[1], HIGH[2]], rtol=1e-10)
    groups = NonsmoothStructure(4, slopes=SLOPES, intercepts=INTERCEPTS, group_weights=exact(WEIGHTS), ridge=exact(RIDGE))
    pull = WEIGHTS[0] * SLOPES[0, 2] + WEIGHTS[1] * SLOPES[1, 1]
    x, y = stationary(RIDGE, MET[1:], SIDES[1:], pull)
    [(_, found, m)] = polished(groups, 60.0, NOWHERE, replace(SHOWN, u=np.zeros(0)), [1e-6])
    np.testing.assert_allclose(found, x, rtol=1e-10)
    np.testing.assert_allclose(m.s, [[y[0], 0, WEIGHTS[0] - y[0]], [0, WEIGHTS[1], 0]], rtol=1e-10)
    plain = NonsmoothStructure(4, linear=exact(LINEAR), ridge=exact(RIDGE))
    [(_, found, m)] = polished(plain, 60.0, NOWHERE, replace(nothing, u=np.zeros(0)), [1e-6])
    np.testing.assert_allclose(found, -LINEAR / RIDGE, rtol=1e-14)
    [(_, found, _)] = polished(plain, 0.5, NOWHERE, replace(nothing, u=np.zeros(0)), [1e-6])
    np.testing.assert_allclose(found, -LINEAR / np.linalg.norm(LINEAR) / 2, rtol=1e-14)
    [(_, found, _)] = polished(replace(plain, ridge=exact(0.0), linear=None), 2.0, np.zeros(4), m, [1e-6])
    assert not found.any()


def line(low=-1.0, high=3.0, **more):
    """max(low (x - 5), high (x - 5)) of one coordinate."""
    kink = {"rows": np.ones((1, 1)), "offsets": np.array([5.0]), "low": exact([low]), "high": exact([high])}
    return NonsmoothStructure(1, **(kink | more))


@pytest.mark.parametrize(
    ("u", "guess"),
    [
        (-9.0, "low"), (-1.0, "low"), (0.0, "low"), (0.001, "met"), (1.0, "met"), (1.999, "met"), (2.0, "high"), (3.0, "high"),
        (7.0, "high"),
    ],
)
def test_a_kink_is_met_where_its_multiplier_is_inside_by_the_margin(u, guess):
    """The margin is a quarter of high - low = 4. Met: x = 5; else the sphere's point against the slope."""
    m = Multipliers(np.array([u]), np.zeros((0, 1)), np.zeros((0, 0)), np.zeros(1))
    [(_, x, found)] = polished(line(), 8.0, np.zeros(1), m, [0.25])
    assert x == pytest.approx({"low": 8.0, "met": 5.0, "high": -8.0}[guess], rel=1e-14)
    assert found.u == pytest.approx({"low": -1.0, "met": 0.0, "high": 3.0}[guess], abs=1e-14)


@pytest.mark.parametrize(("u", "guess"), [(0.999, -1.0), (1.0, 3.0)])
def test_the_nearer_end_is_taken(u, guess):
    m = Multipliers(np.array([u]), np.zeros((0, 1)), np.zeros((0, 0)), np.zeros(1))
    [(_, _, found)] = polished(line(), 8.0, np.zeros(1), m, [0.5])
    assert found.u == guess


@pytest.mark.parametrize(("share", "met"), [(0.5, False), (0.501, True), (-0.5, False)])
def test_a_piece_is_tied_where_its_share_is_above_the_margin(share, met):
    """2 max(x - 1, -3x + 7): tied at x = 2, with shares 3/2 and 1/2. Else the sphere's point against the first slope."""
    form = NonsmoothStructure(
        1, slopes=np.array([[[1.0], [-3.0]]]), intercepts=np.array([[-1.0, 7.0]]), group_weights=exact([2.0])
    )  # fmt: skip
    m = Multipliers(np.zeros(0), np.array([[2 - share, share]]), np.zeros((0, 0)), np.zeros(1))
    [(_, x, found)] = polished(form, 8.0, np.zeros(1), m, [0.25])
    assert x == pytest.approx(2.0 if met else -8.0, rel=1e-14)
    np.testing.assert_allclose(found.s, [[1.5, 0.5]] if met else [[2.0, 0.0]], rtol=1e-14)


def test_a_flat_keeps_the_solver_s_point_and_equal_rows_keep_what_tells_their_multipliers_apart():
    """|x_1 - 1| + |x_1 - 1| on the plane: every (1, y) minimises; the multipliers -0.3 and 0.5 become -0.4 and 0.4."""
    form = NonsmoothStructure(
        2, rows=np.array([[1.0, 0.0], [1.0, 0.0]]), offsets=np.ones(2), low=exact([-1.0, -1.0]), high=exact([1.0, 1.0])
    )  # fmt: skip
    m = Multipliers(np.array([-0.3, 0.5]), np.zeros((0, 1)), np.zeros((0, 0)), np.zeros(2))
    for y, kept in ((0.6, 0.6), (-0.6, -0.6), (7.0, 0.75), (0.0, 0.0)):
        [(_, x, found)] = polished(form, 1.25, np.array([0.3, y]), m, [1e-6])
        np.testing.assert_allclose(x, [1.0, kept], rtol=1e-14, atol=1e-15)
        np.testing.assert_allclose(found.u, [-0.4, 0.4], rtol=1e-13)
    tried = list(candidates(form, 1.25))
    assert len(tried) > 1 and all(c[0] == pytest.approx(np.array([1.0, tried[0][0][1]]), abs=1e-7) for c in tried)
    [(_, x, _)] = polished(replace(form, ridge=exact(0.5)), 1.25, np.array([0.3, 0.6]), m, [1e-6])
    np.testing.assert_allclose(x, [1.0, 0.0], atol=1e-15)  # with a ridge there is one minimiser


def test_what_is_met_outside_the_ball_is_no_candidate():
    """|x - 5|: 25 against the radius' square, and a billionth of it more."""
    met = Multipliers(np.array([0.0]), np.zeros((0, 1)), np.zeros((0, 0)), np.zeros(1))
    form = line(-1.0, 1.0)
    for share, inside in ((1.0, True), (1 - 0.9e-9, True), (1 - 1.1e-9, False)):
        found = [x for _, x, _ in polished(form, 5.0 * math.sqrt(share), np.zeros(1), met, [1e-6])]
        assert len(found) == inside and all(x == pytest.approx(5.0) for x in found)


def test_a_kink_met_on_the_sphere_leaves_no_room():
    """x_1 + |x_2 - 2| on the ball of radius 2: (0, 2) is all there is of the kink."""
    form = NonsmoothStructure(
        2, rows=np.array([[0.0, 1.0]]), offsets=np.array([2.0]), low=exact([-1.0]), high=exact([1.0]), linear=exact([1.0, 0.0])
    )  # fmt: skip
    m = Multipliers(np.array([0.5]), np.zeros((0, 1)), np.zeros((0, 0)), np.zeros(2))
    [(_, x, _)] = polished(form, 2.0, np.array([0.7, 0.3]), m, [1e-6])
    np.testing.assert_allclose(x, [0.0, 2.0], atol=1e-15)


def test_what_several_tolerances_take_to_be_met_is_solved_once():
    """The margins are shares of high - low = 4: at 1/8 and 1/4 the multiplier 1/2 is inside, at 1/2 it is at its nearer end, -1."""
    m = Multipliers(np.array([0.5]), np.zeros((0, 1)), np.zeros((0, 0)), np.zeros(1))
    found = {tolerance: x for tolerance, x, _ in polished(line(), 8.0, np.zeros(1), m, [1 / 8, 1 / 4, 1 / 2, 0.45])}
    assert found == {1 / 8: pytest.approx(5.0), 1 / 2: pytest.approx(8.0)}


def test_the_least_solution_and_the_directions_left():
    rows = np.array([[1.5, -0.75, 0.25], [3.0, -1.5, 0.5], [0.5, 1.25, -1.75]])
    x, null = _solution(rows, rows @ np.array([0.7, -1.9, 2.3]), 3)
    cross = np.cross(rows[0], rows[2])
    cross = cross / np.linalg.norm(cross)
    wanted = np.array([0.7, -1.9, 2.3])
    np.testing.assert_allclose(x, wanted - cross * (cross @ wanted), rtol=1e-12)
    assert null.shape == (3, 1) and abs(null[:, 0] @ cross) == pytest.approx(1.0, rel=1e-13)
    zero, every = _solution(np.zeros((0, 3)), np.zeros(0), 3)
    assert not zero.any() and every.tolist() == np.eye(3).tolist()
    for small, rank in ((5e-10, 1), (2e-9, 2)):  # a row counts from 1e-11 of the largest singular value on
        assert _solution(np.array([[100.0, 0.0], [0.0, small]]), np.array([300.0, 0.0]), 2)[1].shape == (2, 2 - rank)


# --- distances ------------------------------------------------------------------------------------
def distances(centers, weights, **more):
    return NonsmoothStructure(2, centers=np.array(centers, dtype=float), center_weights=exact(weights), **more)


def test_the_pull_of_every_centre_and_what_those_at_the_point_take():
    """At (1, 2): 5/2 of length towards (3, 4)/5, 0.75 towards (-1, 0), and 2 + 6 at the point itself, which share the balance."""
    form = distances([[-2, -2], [2, 2], [1, 2], [1, 2]], [2.5, 0.75, 2.0, 6.0])
    others = np.array([2.5 * 0.6 - 0.75, 2.5 * 0.8])
    np.testing.assert_allclose(
        _pulls(form, np.array([1.0, 2.0])), [[1.5, 2.0], [-0.75, 0.0], -others / 4, -3 * others / 4], rtol=1e-14, atol=1e-15
    )
    near = _pulls(form, np.array([1.0, 2.0 + 1e-9]))
    np.testing.assert_allclose(near[2:], [[0.0, 2.0], [0.0, 6.0]], rtol=1e-12)
    weightless = _pulls(distances([[1, 2], [2, 2]], [0.0, 0.75]), np.array([1.0, 2.0]))
    np.testing.assert_allclose(weightless, [[0.0, 0.0], [-0.75, 0.0]])
    # the same point: within 1e-12 of the largest coordinate
    for away, same in ((3e-9, True), (5e-9, False)):
        pulls = _pulls(distances([[4000.0, 0.0], [0.0, 0.0]], [1.0, 0.25]), np.array([4000.0 - away, 0.0]))
        np.testing.assert_allclose(pulls[0], [-0.25 if same else -1.0, 0.0], rtol=1e-9)
    for away, same in ((0.9e-12, True), (1.1e-12, False)):  # or of 1
        pulls = _pulls(distances([[0.0, 0.0], [-0.5, 0.0]], [1.0, 0.25]), np.array([away, 0.0]))
        np.testing.assert_allclose(pulls[0], [-0.25 if same else 1.0, 0.0], rtol=1e-9)


def weiszfeld(centers, weights, x):
    """The minimiser of sum w ||x - c||, by means weighed with w/||x - c||."""
    for _ in range(3000):
        share = weights / np.linalg.norm(x - centers, axis=1)
        x = share @ centers / share.sum()
    return x


@pytest.mark.parametrize("scale", [1.0, 0.0625])
def test_newton_finds_where_the_pulls_balance_or_point_out_of_the_ball(scale):
    form = distances(scale * np.array([[-1.0, 3.5], [2.5, 1.0], [0.5, -2.0], [4.0, 3.0]]), [1.0, 0.5, 1.25, 0.75])
    best = weiszfeld(form.centers, form.center_weights.hi, scale * np.array([1.0, 1.0]))
    found = list(_newton(form, scale * 9, best + scale * np.array([0.2, -0.1])))
    assert len(found) == 3 and found[0][0].tolist() == [2.5 * scale, scale]
    inside, m = found[1]
    np.testing.assert_allclose(inside, best, rtol=1e-9)
    away = inside - form.centers
    np.testing.assert_allclose(m.q, (form.center_weights.hi / np.linalg.norm(away, axis=1))[:, None] * away, rtol=1e-13)
    np.testing.assert_allclose(m.q.sum(axis=0), 0.0, atol=1e-14)
    assert m.u.shape == (0,) and m.s.shape == (0, 1) and m.top.tolist() == [0.0, 0.0]
    tried = list(candidates(form, scale * 9))
    assert [c[2] for c in tried[:2]] == ["conic", "Newton"] and any(c[0] == pytest.approx(best, rel=1e-9) for c in tried[1:])
    assert [c[2] for c in candidates(form, scale * 0.375)] == ["conic", "Newton", "Newton"]
    found = list(_newton(form, scale * 0.375, scale * np.array([1.2, 0.9])))
    assert len(found) == 2  # no centre lies in this ball
    out, m = found[1]
    pull = m.q.sum(axis=0)
    assert np.linalg.norm(out) == pytest.approx(scale * 0.375, rel=1e-14)
    assert pull @ out < 0 and abs(pull[0] * out[1] - pull[1] * out[0]) <= 1e-14
    alone = list(_newton(distances([[3, 4]], [1.0]), 5.0, np.array([1.0, 0.0])))
    assert alone[0][0].tolist() == [3.0, 4.0]  # a centre on the sphere counts


# --- the largest coordinate -----------------------------------------------------------------------
def test_the_largest_coordinate_by_symmetry():
    """W max x_i + m/2 ||x||^2 with all coordinates equal to -r/sqrt(n): -W r/sqrt(n) + m r^2/2, least at r = W/(m sqrt(n))."""
    form = NonsmoothStructure(4, top_weight=exact(0.75), ridge=exact(0.09375))
    for radius, size in ((60.0, 4.0), (3.0, 3.0)):
        x, m = _symmetric(form, radius)
        np.testing.assert_allclose(x, np.full(4, -size / 2), rtol=1e-15)
        assert m.top.tolist() == [0.1875] * 4 and m.u.shape == (0,) and m.s.shape == (0, 1) and m.q.shape == (0, 4)
    x, _ = _symmetric(replace(form, ridge=exact(0.0)), 3.0)
    np.testing.assert_allclose(x, np.full(4, -1.5), rtol=1e-15)
    found = list(candidates(form, 3.0))
    assert [c[2] for c in found] == ["conic", "closed form"] and found[0][1] is None
    assert found[1][3] == found[0][3] and found[0][3].startswith("status 'optimal")
    np.testing.assert_allclose(found[0][0], np.full(4, -1.5), atol=1e-6)


# --- the conic solver's point ---------------------------------------------------------------------
CENTERS = np.array([[2.7, -0.8, 0.4, 1.1], [-1.6, 3.3, 0.2, -0.7]])
ALL = replace(FORM, ridge=exact(0.375), centers=CENTERS, center_weights=exact([0.875, 1.75]))


@pytest.mark.parametrize("radius", [0.6, 50.0])
def test_the_conic_solver_s_multipliers_prove_its_point(radius):
    """Signs and places of all multipliers: the bound that they give meets the value at the point."""
    x, m, said = conic_point(ALL, lambda x: [cp.norm(x) <= radius])
    value, bound = float(ALL.value(x).upper), ALL.bound(m, radius)[0]
    assert said.startswith("status 'optimal") and abs(value - bound) <= 1e-6 * abs(value)
    assert m.top.tolist() == [0.0] * 4 and x.dtype == m.u.dtype == m.s.dtype == float
    where = [o for *_, o, _ in candidates(FORM, radius)]
    assert where[0] == "conic" and set(where[1:]) <= {f"active set at {t}" for t in ("1e-06", "1e-08", "0.0001", "1e-10", "0.001")}
    best = [(float(FORM.value(x).upper), FORM.bound(m, radius)[0]) for x, m, *_ in candidates(FORM, radius)]
    assert min(v for v, _ in best) - max(b for _, b in best) <= 1e-10 and len(best) > 1  # the conic point may lie outside by a hair


def test_clarabel_is_asked_for_twelve_digits(monkeypatch):
    given = []
    monkeypatch.setattr(cp.Problem, "solve", lambda self, **options: given.append(options))
    conic_point(FORM, lambda x: [cp.norm(x) <= 1.0])
    assert given == [{"solver": cp.CLARABEL, "tol_gap_abs": 1e-12, "tol_gap_rel": 1e-12, "tol_feas": 1e-12}]


def test_without_the_conic_solver_there_are_candidates_and_its_words(monkeypatch):
    def fails(self, **_):
        raise cp.SolverError("out of order")

    def empty(self, **_):
        return None

    def infinite(self, **_):
        next(v for v in self.variables() if v.shape == (4,)).value = np.array([np.inf, 0.0, 0.0, 0.0])

    nothing = "no point, status None"
    for solve, said in ((fails, "failed: SolverError: out of order"), (empty, nothing), (infinite, nothing)):
        monkeypatch.setattr(cp.Problem, "solve", solve)
        assert conic_point(FORM, lambda x: [cp.norm(x) <= 1.0]) == (None, None, said)
        x, m, origin, words = next(iter(candidates(FORM, 1.0)))
        assert not x.any() and not m.u.any() and not m.s.any() and (origin, words) == ("conic", said)
        assert m.u.shape == (3,) and m.s.shape == (2, 3) and m.q.shape == (0, 0) and m.top.shape == (4,)
        assert all(words == said for *_, words in candidates(FORM, 1.0))
    x, m, *_ = next(iter(candidates(NonsmoothStructure(4, top_weight=exact(3.0)), 3.0)))
    assert x is None and m is None
