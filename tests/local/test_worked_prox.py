"""The local problem's dual, one step of it and its gap, against a second writing on a loss with every kind of term at once."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from active_rows import rows_of

from fedtheory import problems
from fedtheory.errors import InvalidInput, LocalSolveFailed, MissingCapability
from fedtheory.local import ExactProx, LocalObjective, exact_prox
from fedtheory.local.exact_prox import _combine, _Dual, _forms, _onto_simplices, _scale, with_groups
from fedtheory.optimum.duality import Multipliers, NonsmoothStructure
from fedtheory.optimum.intervals import Enclosure

ROWS, OFFSETS, LOW, HIGH = [[3.0, 0.7], [-0.5, 2.0]], [1.1, -0.6], [-0.75, -2.5], [1.25, 0.375]
SLOPES = [[[0.3, -1.7], [2.2, 0.4], [-0.9, 0.8]], [[1.9, 3.1], [-2.3, 0.45], [0.15, -0.35]]]
INTERCEPTS = [[0.2, -0.55, 1.4], [0.65, 2.1, -1.3]]
WEIGHTS, CENTERS, PULLS = [1.5, 0.625], [[2.7, -0.8], [-1.6, 3.3]], [0.875, 1.75]
LINEAR, RIDGE, SLOPE, BETA = [0.85, -1.15], 0.375, [-2.3, 1.9], 0.8125


def exact(values):
    return Enclosure.exact(np.array(values, dtype=float))


FORM = NonsmoothStructure(
    2, rows=np.array(ROWS), offsets=np.array(OFFSETS), low=exact(LOW), high=exact(HIGH), slopes=np.array(SLOPES),
    intercepts=np.array(INTERCEPTS), group_weights=exact(WEIGHTS), centers=np.array(CENTERS), center_weights=exact(PULLS),
    linear=exact(LINEAR), ridge=exact(RIDGE),
)  # fmt: skip
GIVEN = Multipliers(
    np.array([-0.5, 0.25]), np.array([[0.25, 0.75, 0.5], [0.375, 0.125, 0.125]]), np.array([[0.5, -0.25], [-0.75, 1.25]]), np.zeros(2)
)
L2 = RIDGE + BETA


def inner(a, b):
    return math.fsum(u * v for u, v in zip(a, b, strict=True))


def combined(m):
    """P, the linear terms and all slopes."""
    total = [a + b for a, b in zip(LINEAR, SLOPE)]
    parts = [*zip(m.u, ROWS), *((1.0, q) for q in m.q)]
    parts += [(s, a) for shares, slopes in zip(m.s, SLOPES) for s, a in zip(shares, slopes)]
    for weight, vector in parts:
        total = [t + weight * v for t, v in zip(total, vector)]
    return total


def least(p, radius):
    """argmin <P, x> + l2/2 ||x||^2 over the ball."""
    size = math.hypot(*p)
    length = min(size / L2, radius)
    return [-length * v / size for v in p]


def phi(x):
    value = inner(LINEAR, x) + inner(SLOPE, x) + L2 / 2 * inner(x, x)
    for a, b, low, high in zip(ROWS, OFFSETS, LOW, HIGH):
        z = inner(a, x) - b
        value += max(low * z, high * z)
    for w, slopes, intercepts in zip(WEIGHTS, SLOPES, INTERCEPTS):
        value += w * max(inner(a, x) + b for a, b in zip(slopes, intercepts))
    return value + sum(w * math.dist(x, c) for w, c in zip(PULLS, CENTERS))


def dual(m, radius):
    p = combined(m)
    x = least(p, radius)
    constant = -inner(m.u, OFFSETS) + sum(inner(s, b) for s, b in zip(m.s, INTERCEPTS)) - sum(inner(q, c) for q, c in zip(m.q, CENTERS))
    return constant + inner(p, x) + L2 / 2 * inner(x, x)


@pytest.fixture(params=[0.7, 40.0, math.inf], ids="R = {}".format)
def made(request):
    """The ball cuts off the minimiser, or not."""
    return _Dual(FORM, np.array(SLOPE), BETA, request.param)


def test_the_point_its_value_and_the_dual_s(made):
    at = made.at(GIVEN)
    x = least(combined(GIVEN), made.radius)
    np.testing.assert_allclose(at.x, x, rtol=1e-13)
    np.testing.assert_allclose(made.slope(GIVEN), combined(GIVEN), rtol=1e-13)
    assert at.value == pytest.approx(phi(x), rel=1e-13) and at.dual == pytest.approx(dual(GIVEN, made.radius), rel=1e-13)
    assert at.gap == at.value - at.dual > 0.1 and at._replace(value=at.dual - 1).gap == 0.0
    assert made.ridge == L2 and made.linear.tolist() == [a + b for a, b in zip(LINEAR, SLOPE)]


def test_one_step_of_the_dual(made):
    """u + s (Ax - b), s + s (Cx + d), q + s (x - c), made feasible; s is l2 over the largest squared norm of all rows together."""
    x = least(combined(GIVEN), made.radius)
    stacked = np.array([*ROWS, *[a for slopes in SLOPES for a in slopes], *np.eye(2), *np.eye(2)])
    step = L2 / np.linalg.svd(stacked, compute_uv=False)[0] ** 2
    assert made.step == pytest.approx(step, rel=1e-13)
    got = made.climb(GIVEN)
    for j in range(2):
        moved = GIVEN.u[j] + step * (inner(ROWS[j], x) - OFFSETS[j])
        assert got.u[j] == pytest.approx(min(max(moved, LOW[j]), HIGH[j]), rel=1e-12)
    moved = [[s + step * (inner(a, x) + b) for s, a, b in zip(*parts)] for parts in zip(GIVEN.s, SLOPES, INTERCEPTS)]
    np.testing.assert_allclose(got.s, [nearest(v, w) for v, w in zip(moved, WEIGHTS)], rtol=1e-11, atol=1e-14)
    for c in range(2):
        moved = [q + step * (v - p) for q, v, p in zip(GIVEN.q[c], x, CENTERS[c])]
        factor = min(1.0, PULLS[c] / math.hypot(*moved))
        np.testing.assert_allclose(got.q[c], [factor * v for v in moved], rtol=1e-12)


def nearest(v, total):
    """The point of the simplex next to v: max(v - t, 0), t by bisection."""
    low, high = min(v) - total, max(v)
    for _ in range(200):
        t = (low + high) / 2
        low, high = (t, high) if sum(max(a - t, 0) for a in v) > total else (low, t)
    return [max(a - t, 0.0) for a in v]


def test_rows_are_projected_onto_their_simplices():
    rows = np.array([[0.5, -0.3, 2.0], [0.1, 0.2, 0.4], [-3.0, -5.0, -4.5], [1.0, 1.0, 1.0]])
    totals = np.array([1.5, 4.0, 0.625, 2.0])
    got = _onto_simplices(rows, totals)
    np.testing.assert_allclose(got, [nearest(v, w) for v, w in zip(rows.tolist(), totals)], atol=1e-12)
    np.testing.assert_allclose(got.sum(axis=1), totals, rtol=1e-15)


def test_what_is_feasible_stays_and_what_is_not_is_cut(made):
    kept = made.feasible(GIVEN)
    for a, b in ((kept.u, GIVEN.u), (kept.s, GIVEN.s), (kept.q[0], GIVEN.q[0])):
        np.testing.assert_allclose(a, b, rtol=1e-14)
    cut = made.feasible(Multipliers(np.array([9.0, -9.0]), GIVEN.s, GIVEN.q * 100, np.zeros(2)))
    assert cut.u.tolist() == [1.25, -2.5] and np.linalg.norm(cut.q, axis=1) == pytest.approx(PULLS)


def test_how_far_a_step_is_carried_on():
    doubled = Multipliers(2 * GIVEN.u, 2 * GIVEN.s, 2 * GIVEN.q, GIVEN.top)
    ahead = _combine(doubled, GIVEN, 0.25)
    for a, b in ((ahead.u, GIVEN.u), (ahead.s, GIVEN.s), (ahead.q, GIVEN.q)):
        np.testing.assert_allclose(a, 2.25 * b)


def test_the_sizes_of_all_terms(made):
    """|Phi| + |slope|'|x| + offset, and every multiplier times the sizes of what it multiplies."""
    at = made.at(GIVEN)
    x = [abs(v) for v in at.x]
    size = abs(at.value) + inner(map(abs, SLOPE), x) + 2.5
    size += sum(abs(u) * (inner(map(abs, a), x) + abs(b)) for u, a, b in zip(GIVEN.u, ROWS, OFFSETS))
    for shares, slopes, intercepts in zip(GIVEN.s, SLOPES, INTERCEPTS):
        size += sum(abs(s) * (inner(map(abs, a), x) + abs(b)) for s, a, b in zip(shares, slopes, intercepts))
    size += sum(abs(q[i]) * (x[i] + abs(c[i])) for q, c in zip(GIVEN.q, CENTERS) for i in range(2))
    assert _scale(at, FORM, np.array(SLOPE), 2.5) == pytest.approx(size, rel=1e-12)
    nothing = at._replace(value=0.0, x=np.zeros(2), m=Multipliers(0 * GIVEN.u, 0 * GIVEN.s, 0 * GIVEN.q, GIVEN.top))
    assert _scale(nothing, FORM, np.array(SLOPE), 0.0) == 1e-300


def test_the_solution_meets_its_gap(made):
    found = made.solve(1e-9, 0.0)
    assert found.gap <= 1e-9 * _scale(found, made.form, made.linear, 0.0) / 4
    assert found.value == pytest.approx(phi(found.x), rel=1e-12) and found.dual == pytest.approx(dual(found.m, made.radius), rel=1e-9)
    assert np.linalg.norm(found.x) <= made.radius * (1 + 1e-12)
    for move in ([1e-3, 0], [-1e-3, 0], [0, 1e-3], [0, -1e-3]):
        there = found.x + move
        there = there * min(1.0, made.radius / np.linalg.norm(there))
        assert phi(there) >= found.dual + L2 / 2 * np.sum((there - found.x) ** 2) - 1e-12


@pytest.mark.parametrize("radius", [0.7, math.inf])
def test_a_polish_solves_what_the_steps_come_near_to(radius):
    """Without distances: multipliers near the best ones show which kinks and ties are met, and one guess then closes the gap."""
    form = replace(FORM, centers=np.zeros((0, 0)), center_weights=exact([]))
    made = _Dual(form, np.array(SLOPE), BETA, radius)
    best = made.solve(1e-12, 0.0).m
    near = made.feasible(replace(best, u=best.u + 1e-5, s=best.s + 1e-5 * np.array([[1, 0, -1], [0, 1, -1]])))
    assert made.at(near).gap > 1e-12
    polished = made.polishes(made.at(near))
    assert len(polished) == 2 and min(p.gap for p in polished) <= 1e-14  # of three margins two say the same


def test_no_polish_where_what_is_met_lies_outside_or_with_distances(made):
    kink = NonsmoothStructure(1, rows=np.ones((1, 1)), offsets=np.array([5.0]), low=exact([-1.0]), high=exact([1.0]))
    met = Multipliers(np.zeros(1), np.zeros((0, 1)), np.zeros((0, 0)), np.zeros(1))
    outside, inside = (_Dual(kink, np.array([0.25]), 0.5, radius) for radius in (4.0, 6.0))
    assert outside.polishes(outside.at(met)) == []
    assert [p.x.tolist() for p in inside.polishes(inside.at(met))] == [[1.5]]  # by all margins, u cut to -1: (1 - 1/4) / (1/2)
    assert made.polishes(made.at(GIVEN)) == []


def test_small_rows_take_long_steps_and_none_need_none():
    small = replace(FORM, rows=np.array(ROWS) / 100, slopes=np.array(SLOPES) / 100, centers=np.zeros((0, 0)), center_weights=exact([]))
    stacked = np.array([*ROWS, *[a for slopes in SLOPES for a in slopes]]) / 100
    step = L2 / np.linalg.svd(stacked, compute_uv=False)[0] ** 2
    assert _Dual(small, np.array(SLOPE), BETA, 3.0).step == pytest.approx(step, rel=1e-13) and step > L2
    plain = NonsmoothStructure(2, linear=exact(LINEAR), ridge=exact(RIDGE))
    found = _Dual(plain, np.array(SLOPE), BETA, math.inf).solve(1e-12, 0.0)
    np.testing.assert_allclose(found.x, [-(a + b) / L2 for a, b in zip(LINEAR, SLOPE)], rtol=1e-15)
    one = _onto_simplices(np.array([[0.25], [-3.0]]), np.array([1.5, 0.5]))  # groups of one piece
    assert one.tolist() == [[1.5], [0.5]]


def test_what_is_no_number_is_no_solution(monkeypatch):
    monkeypatch.setattr(exact_prox, "MOST", 30)
    assert _Dual(FORM, np.array([math.nan, 1.0]), BETA, 2.0).solve(1e-9, 0.0) is None


@pytest.mark.parametrize(("gap", "taken"), [(0.99, True), (1.01, False), (None, False)])
def test_what_every_row_is_solved_for_and_how_near(monkeypatch, gap, taken):
    """Of row (n, b): the slope -beta center - linear, the offset beta/2 ||center||^2, and a gap within tolerance times all sizes."""
    center, linear = np.array([[[3.0, -1.0], [1.5, 0.5]]]), np.array([[[0.25, -0.75], [0.5, 0.125]]])
    problem = problems.LAD(np.array([[[1.0, 0.0], [0.0, 1.0]]]), np.array([[1.25, -0.5]]))
    asked = []

    class Given(_Dual):
        def __init__(self, form, slope, beta, radius):
            super().__init__(form, slope, beta, radius)
            asked.append([slope.tolist(), beta, radius])
            self.slope_given = slope

        def solve(self, tolerance, offset):
            asked[-1] += [tolerance, offset]
            found = super().solve(1e-12, offset)
            limit = tolerance * _scale(found, self.form, self.slope_given, offset)
            return None if gap is None else found._replace(dual=found.value - gap * limit)

    monkeypatch.setattr(exact_prox, "_Dual", Given)
    solver, objective = ExactProx(7.0, 1e-3), LocalObjective(center, linear, 2.5)
    if taken:
        solver.solve(problem, objective, center, rows_of(1, 2))
        assert asked[1][4] == 2.5 / 2 * (1.5**2 + 0.5**2)
    else:
        with pytest.raises(LocalSolveFailed, match="solved to a gap of inf" if gap is None else r"solved to a gap of 0\.0"):
            solver.solve(problem, objective, center, rows_of(1, 2))
    assert asked[0] == [[-2.5 * 3 - 0.25, 2.5 + 0.75], 2.5, 7.0, 1e-3, 2.5 / 2 * 10]


def test_single_precision_is_solved_in_double():
    """The same numbers in both: the answers agree to the last digit that single precision keeps."""
    problem = problems.LAD(np.array([[[1.5, 0.3], [-0.4, 1.1]]]), np.array([[1.25, -0.5]]))
    center, linear = (np.array([[v]], dtype=np.float32) for v in ([3.1, -1.3], [0.2, -0.7]))
    single = ExactProx().solve(problem, LocalObjective(center, linear, 2.3), center, rows_of(1, 1))
    wide = LocalObjective(center.astype(float), linear.astype(float), 2.3)
    double = ExactProx().solve(problem, wide, wide.center, rows_of(1, 1))
    assert single.y.dtype == np.float32 and (single.y == double.y.astype(np.float32)).all()


def test_a_largest_coordinate_is_a_group_of_coordinates():
    form = with_groups(NonsmoothStructure(3, top_weight=exact(0.75)))
    x = np.array([0.5, -2.0, 1.25])
    assert form.value(x).upper == pytest.approx(0.75 * 1.25, rel=1e-15) and float(form.top_weight.mag) == 0
    assert with_groups(FORM) is FORM


def test_the_local_problem_in_closed_form():
    """|y_1 - 5/4|/2 + |y_2 + 1/2|/2: the soft threshold 1/(2 beta) around (5/4, -1/2) of center + linear/beta."""
    problem = problems.LAD(np.array([[[1.0, 0.0], [0.0, 1.0]]]), np.array([[1.25, -0.5]]))
    center, linear = np.array([[[3.0, -1.0], [1.5, 0.0]]]), np.array([[[0.25, -0.75], [0.5, 0.125]]])
    got = ExactProx().solve(problem, LocalObjective(center, linear, 2.5), center, rows_of(1, 2))
    for b in range(2):
        v = center[0, b] + linear[0, b] / 2.5 - np.array([1.25, -0.5])
        needed = np.array([1.25, -0.5]) + np.sign(v) * np.maximum(np.abs(v) - 0.5 / 2.5, 0)
        np.testing.assert_allclose(got.y[0, b], needed, atol=1e-9)
    assert (got.average == got.y).all() and (got.residual >= 0).all() and got.residual.max() <= 1e-10
    part = ExactProx().solve(
        problem, LocalObjective(center, linear, 2.5), center, rows_of(1, 2)._replace(valid=np.array([[True, False]]))
    )
    assert (part.y[0, 1] == center[0, 1]).all() and part.residual[0, 1] == 0 and (part.y[0, 0] == got.y[0, 0]).all()


@pytest.mark.parametrize("radius", [0, -1.0, math.nan, True, "1"])
def test_a_radius_is_a_number_above_0(radius):
    with pytest.raises(InvalidInput) as refused:
        ExactProx(radius)
    assert str(refused.value) == f"radius is {radius!r}: the ball needs a number > 0"
    for tolerance in (0.0, 1.0, -1.0):
        with pytest.raises(InvalidInput, match=r"^tolerance is "):
            ExactProx(1.0, tolerance)


def test_what_it_cannot_solve_is_refused_with_value_and_remedy(monkeypatch):
    monkeypatch.setattr(exact_prox, "MOST", 50)
    problem = problems.LAD(np.array([[[1.0, 0.0], [0.0, 1.0]]]), np.array([[1.25, -0.5]]))
    start = np.zeros((1, 1, 2))
    for curvature in (0.0, -1.0, math.inf, np.ones(2)):
        with pytest.raises(InvalidInput, match="the exact prox needs one finite number beta > 0"):
            ExactProx().solve(problem, LocalObjective(start, curvature=curvature), start, rows_of(1, 1))
    with pytest.raises(InvalidInput, match=r"l1 = 0\.5: the exact prox has no l1 penalty; put it into the problem's loss"):
        ExactProx().solve(problem, LocalObjective(start, curvature=1.0, l1=0.5), start, rows_of(1, 1))
    with pytest.raises(LocalSolveFailed, match=r"round 1, client 0: .* to a gap of .*, above the tolerance 1e-40: allow a larger"):
        ExactProx(tolerance=1e-40).solve(
            problems.EuclideanDistance([[2.7, -0.8]]), LocalObjective(start + 0.3, start + 0.1, 0.7), start, rows_of(1, 1)
        )
    with pytest.raises(MissingCapability, match="nonsmooth_structure"):
        ExactProx().check(problems.Quadratic(np.eye(2)[None], np.zeros((1, 2))))


def test_a_dual_form_that_is_not_the_client_s_loss_is_refused():
    class Other(problems.LAD):
        def client_value(self, y):
            return super().client_value(y) + 0.1

    problem = Other(np.array([[[1.0, 0.0], [0.0, 1.0]]]), np.array([[1.25, -0.5]]))
    start = np.zeros((1, 1, 2))
    with pytest.raises(MissingCapability, match=r"Other: the dual form of client 0 alone is .* where its loss is"):
        ExactProx().solve(problem, LocalObjective(start, curvature=1.0), start, rows_of(1, 1))
    assert _forms(problem) is _forms(problem)


@pytest.mark.parametrize(("off", "taken"), [(7e-8, True), (8e-8, False)])
def test_a_loss_may_differ_from_its_dual_form_by_rounding(off, taken):
    """f = 5/2 at (1, 3): 10^-8 (1 + 5/2 + 4) is the limit."""

    class Near(problems.LAD):
        def client_value(self, y):
            return super().client_value(y) + off

    problem = Near(np.array([[[2.0, 0.0], [0.0, 1.0]]]), np.array([[0.5, -0.5]]))
    form, y = _forms(problem), np.array([[[1.0, 3.0]]])
    assert super(Near, problem).client_value(y).item() == 2.5
    if taken:
        ExactProx()._same_losses(problem, form, y)
    else:
        with pytest.raises(MissingCapability, match=r"client 0 alone is 2\.5 where its loss is 2\.5"):
            ExactProx()._same_losses(problem, form, y)
