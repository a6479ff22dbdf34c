"""Proofs about a point, worked by hand: values, gaps, residuals, acceptance, steps to it."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from fedtheory import optimum
from fedtheory.errors import InvalidInput, NotCertified
from fedtheory.optimum import Optimum, conic
from fedtheory.optimum.certify import _factor, _newton, _polish, _start
from fedtheory.optimum.intervals import Enclosure
from fedtheory.optimum.lower_bounds import Structure


class Bowl(Structure):
    """F(x) = shift + 3/2 (x_1 - 2)^2 + 5/2 (x_2 + 1)^2, of which the curvature is claimed to be `ridge`, within `spread`."""

    dim = 2

    def __init__(self, ridge=3.0, shift=0.25, spread=0.0):
        self.ridge, self.shift, self.spread, self.asked = ridge, shift, spread, []

    def evaluate(self, x):
        self.asked.append(x.copy())
        g = np.array([3 * (x[0] - 2), 5 * (x[1] + 1)])
        return Enclosure(np.float64(bowl(x, self.shift)), np.float64(0.0), np.float64(self.spread)), Enclosure.exact(g)

    def hessian(self, x, every_row=False, quick=False):
        return np.diag([3.0, 5.0]), np.array([3.0, 5.0]), 0.0

    def span_rows(self):
        return np.eye(2)

    def metric(self, x, coordinates, every_row=False):
        return None

    def why_not(self, x):
        return f"there is a reason at {x.tolist()}"


def bowl(x, shift=0.25):
    return shift + 1.5 * (x[..., 0] - 2) ** 2 + 2.5 * (x[..., 1] + 1) ** 2


def problem_of(structure):
    return SimpleNamespace(
        dim=2, structure=lambda: structure, objective=lambda x: bowl(np.asarray(x), structure.shift),
        full_gradient=lambda x: np.array([3 * (x[0] - 2), 5 * (x[1] + 1)]),
    )  # fmt: skip


def test_what_is_proven_of_a_point():
    """At (1, 1): F = 1/4 + 3/2 + 10, g = (-3, 10); F* >= F - 109/6 by the ridge 3, relative to F(0) = 1/4 + 6 + 5/2 or F."""
    x = np.array([1.0, 1.0])
    found = optimum.assess(problem_of(Bowl(spread=0.5)), x)
    assert 12.25 <= found.value <= 12.25 + 1e-12  # the largest that is enclosed
    least = 11.75 - 0.5 - 109 / 6
    assert least - 1e-9 <= found.lower_bound <= least
    assert found.gap == pytest.approx((12.25 - least) / 12.25, rel=1e-9) and found.details["scale"] == found.value
    assert 109**0.5 <= found.kkt_residual <= 109**0.5 * (1 + 1e-9)
    assert found.certificate == "strong convexity, mu = ridge = 3" and found.solver == "given point"
    assert found.details["bounds"] == {"strong convexity, mu = ridge = 3": found.lower_bound}
    assert found.x.tolist() == [1.0, 1.0] and found.x is not x


def test_a_gap_is_relative_to_the_value_at_0_where_that_is_larger():
    """At (2, -1) F = 1/4 is the least; F(0) = 35/4, and the enclosure's width 1 is what is left."""
    found = optimum.assess(problem_of(Bowl(spread=0.5)), [2.0, -1.0])
    assert found.gap == pytest.approx(1 / 8.75, rel=1e-9) and found.details["scale"] == 8.75
    below = optimum.assess(problem_of(Bowl(shift=-20.0)), [2.0, -1.0])
    assert below.details["scale"] == pytest.approx(20.0) and below.gap == pytest.approx(0.0, abs=1e-15)


def test_without_a_bound_nothing_is_claimed():
    found = optimum.assess(problem_of(Bowl(ridge=0.0)), [2.0, -1.0])
    assert (found.lower_bound, found.certificate, found.gap) == (-np.inf, "none", np.inf)
    huge = optimum.assess(problem_of(Bowl(spread=np.inf)), [2.0, -1.0])
    assert huge.lower_bound == -np.inf and not huge.gap < np.inf


def test_a_function_that_is_zero_has_no_gap():
    class Zero(Bowl):
        non_negative = True

        def evaluate(self, x):
            return Enclosure.exact(0.0), Enclosure.exact(np.zeros(2))

    made = problem_of(Zero())
    made.objective = lambda x: 0.0
    found = optimum.assess(made, [2.0, -1.0])
    assert (found.value, found.lower_bound, found.gap, found.details["scale"]) == (0.0, 0.0, 0.0, 0.0)


def test_measured_values_are_compared_with_both_ends():
    found = Optimum(np.zeros(1), 3.5, 2.25, 0.1, 0.0, "", "")
    at_most, at_least = found.excess(np.array([4.0, 3.0]))
    assert at_most.tolist() == [1.75, 0.75] and at_least.tolist() == [0.5, -0.5]


@pytest.mark.parametrize("x", [np.zeros(3), np.zeros((1, 2)), [np.nan, 0.0]])
def test_a_point_has_the_problem_s_shape(x):
    with pytest.raises(InvalidInput):
        optimum.assess(problem_of(Bowl()), x)


@pytest.mark.parametrize("gap", [0, -1e-12, np.inf, np.nan])
def test_a_gap_is_a_finite_number_above_0(gap):
    with pytest.raises(InvalidInput) as refused:
        optimum.certify(problem_of(Bowl()), gap=gap)
    assert str(refused.value) == f"gap is {gap!r}: it must be a finite number > 0; for example 1e-12"


def test_the_minimiser_is_found_without_cvxpy_and_its_record_says_so():
    found = optimum.certify(problem_of(Bowl()), max_conic_entries=0)
    np.testing.assert_allclose(found.x, [2.0, -1.0], rtol=1e-15)
    assert found.gap <= 1e-12 and found.solver == f"Newton polish only: cvxpy {found.details['conic']}"
    assert found.details["conic"] == "skipped, no cone programme has max_conic_entries = 0"
    assert found.solver_value is None and found.details["conic_value"] is None and found.details["conic_form"] == ""
    assert found.details["conic_entries"] == 0 and found.details["conic_seconds"] == 0 and found.details["newton_steps"] >= 1
    assert {"scale", "bounds"} <= set(found.details)


def test_what_the_solver_said_is_on_record(monkeypatch):
    """Its point (1, 0), of which F is 17/4, its own value, and what it solved."""
    asked, made = [], problem_of(Bowl())
    said = conic.ConicSolve(np.array([1.0, 0.0]), 4.2, "a form", 5, 0.5, "status 'optimal'")
    monkeypatch.setattr(conic, "solve", lambda *given: asked.append(given) or said)
    found = optimum.certify(made)
    assert asked == [(made, None)] and found.solver == "cvxpy with Clarabel + Newton polish" and found.solver_value == 4.2
    record = {k: found.details[k] for k in ("conic", "conic_form", "conic_entries", "conic_seconds", "conic_value")}
    assert list(record.values()) == ["status 'optimal'", "a form", 5, 0.5, 4.25]
    with pytest.raises(NotCertified, match="the limit 1e-12"):
        optimum.certify(problem_of(Bowl(spread=2.0**-30)))


@pytest.mark.parametrize(("share", "accepted"), [(0.95, True), (1.05, False)])
def test_a_gap_is_accepted_up_to_the_limit(share, accepted):
    """The enclosure is 1/2^10 wide about F* = 1/4, and F(0) = 35/4."""
    part = 2.0**-10 / (0.25 + 2.0**-11)
    made, limit = problem_of(Bowl(spread=2.0**-11)), part / share
    if accepted:
        assert optimum.certify(made, limit, 0).gap == pytest.approx(2.0**-10 / 8.75, rel=1e-9)
        return
    with pytest.raises(NotCertified) as refused:
        optimum.certify(made, limit, 0)
    said = str(refused.value)
    assert f"F* is known to {part:.3g} of itself, the limit is {limit:.3g} (||grad F|| <= 0 at" in said
    assert said.endswith("cvxpy: skipped, no cone programme has max_conic_entries = 0). There is a reason at [2.0, -1.0]")


def test_zero_is_tried_where_the_polish_proves_too_little():
    """F(0) is no larger than what the polish found, and there the gap is closed."""
    class Twice(Bowl):
        non_negative = True

        def evaluate(self, x):
            if not x.any():
                return Enclosure.exact(0.0), Enclosure.exact(np.zeros(2))
            return Enclosure(np.float64(0.0), np.float64(0.0), np.float64(0.5)), Enclosure.exact(np.array([1e-3, 0.0]))

    made = problem_of(Twice(ridge=1e-9))
    made.objective = lambda x: 0.0 if not np.any(x) else 0.25
    found = optimum.certify(made, 1e-12, 0)
    assert found.x.tolist() == [0.0, 0.0] and found.gap == 0.0


# --- the way there --------------------------------------------------------------------------------
def test_the_polish_starts_where_the_solver_ended_unless_0_is_lower():
    def after(x):
        return _start(problem_of(Bowl()), conic.ConicSolve(None if x is None else np.array(x), None, "", 0, 0.0, "said"))

    start, said, value = after([1.0, 1.0])
    assert (start.tolist(), said, value) == ([0.0, 0.0], "gave a point that is worse than 0, said", None)  # 47/4 and 35/4
    start, said, value = after([1.0, 0.0])
    assert (start.tolist(), said, value) == ([1.0, 0.0], "said", 4.25)
    start, said, value = after([0.0, 0.0])
    assert (start.tolist(), said, value) == ([0.0, 0.0], "said", 8.75)
    start, said, value = after(None)
    assert (start.tolist(), said, value) == ([0.0, 0.0], "said", None)
    assert after([np.nan, 0.0])[2] is None


def test_one_newton_step_minimises_a_quadratic_and_the_damped_one_falls():
    structure = Bowl()
    x, steps = _newton(problem_of(structure), structure, np.array([7.0, 3.0]), np.arange(2))
    np.testing.assert_allclose(x, [2.0, -1.0], rtol=1e-14)
    assert 1 <= steps <= 3
    x, steps = _polish(problem_of(structure), structure, np.array([7.0, 3.0]))
    np.testing.assert_allclose(x, [2.0, -1.0], rtol=1e-15)
    on_one, _ = _newton(problem_of(structure), structure, np.array([7.0, 3.0]), np.array([1]))
    assert on_one[0] == 7.0 and on_one[1] == pytest.approx(-1.0)


def test_the_factor_solves_on_the_coordinates_and_lifts_what_is_not_definite():
    h = np.array([[4.0, 9.0, 1.0], [9.0, 9.0, 9.0], [1.0, 9.0, 3.0]])
    solve = _factor(h, np.array([0, 2]))
    np.testing.assert_allclose(solve(np.array([5.0, -7.0])), np.linalg.solve(h[np.ix_([0, 2], [0, 2])], [5.0, -7.0]), rtol=1e-13)
    lifted = _factor(np.diag([4.0, -1e-20]), np.arange(2))
    assert lifted(np.array([8.0, 0.0]))[0] == pytest.approx(2.0, rel=1e-3) and lifted(np.array([0.0, 1.0]))[1] > 0
    assert _factor(np.full((2, 2), np.nan), np.arange(2)) is None
    huge = _factor(np.array([[1.0, 1e9], [1e9, 1.0]]), np.arange(2))
    assert huge is None
