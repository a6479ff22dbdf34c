"""The optimum on a ball by hand: the gap, the multiplier, the residual and the record of given points and multipliers."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest

from fedtheory.errors import InvalidInput, NotCertified
from fedtheory.optimum import on_ball
from fedtheory.optimum.duality import Multipliers, NonsmoothStructure
from fedtheory.optimum.intervals import Enclosure


def exact(values):
    return Enclosure.exact(np.array(values, dtype=float))


PLANE = NonsmoothStructure(2, linear=exact([-3.0, 4.0]), ridge=exact(0.5))  # least at (6/5, -8/5) on the ball of radius 2: -10 + 1
CROSS = NonsmoothStructure(2, rows=np.eye(2), offsets=np.zeros(2), low=exact([-1.0, -1.0]), high=exact([1.0, 1.0]))


def empty(form, u=()):
    groups, pieces = form.intercepts.shape
    return Multipliers(np.array(u, dtype=float), np.zeros((groups, pieces)), np.zeros(form.centers.shape), np.zeros(form.dim))


def certify(monkeypatch, form, found, gap=1e-9, radius=2.0):
    """With these candidates (point, multipliers, origin) on every ball."""
    given = [(x if x is None else np.array(x), m, o, "said") for x, m, o in found]
    monkeypatch.setattr(on_ball, "candidates", lambda *_, **near: iter(given))
    monkeypatch.setattr(on_ball, "candidates_near", lambda *_: iter(()))
    return on_ball.certify_on_ball(SimpleNamespace(nonsmooth_structure=lambda: form), radius, gap)


def test_a_point_that_is_not_the_best(monkeypatch):
    """At (1, -1) F = -13/2; the bound is -9. lambda = 7/2 - 1/2, and P + (ridge + lambda) x = (1/2, 1/2)."""
    found = certify(monkeypatch, PLANE, [([1.0, -1.0], empty(PLANE), "conic")], gap=0.4)
    assert -6.5 <= found.value <= -6.5 + 1e-12 and -9 - 1e-8 <= found.lower_bound <= -9
    assert found.gap == pytest.approx(2.5 / 6.5, rel=1e-9) and found.details["scale"] == pytest.approx(6.5)
    assert found.details["multiplier"] == pytest.approx(3.0, rel=1e-12)
    assert 0.5**0.5 <= found.kkt_residual <= 0.5**0.5 * (1 + 1e-9)
    assert found.solver == "Clarabel" and found.details["conic"] == "said" and found.details["radius"] == 2.0
    assert found.details["conic_value"] == found.solver_value == found.value
    assert found.details["polish"] == "point: conic; bound: conic" and found.certificate == "Fenchel dual on the ball of radius 2"
    with pytest.raises(NotCertified, match=r"on the ball of radius 2 could not|is 0\.385, the limit 0\.38 \(conic solver: said\)"):
        certify(monkeypatch, PLANE, [([1.0, -1.0], empty(PLANE), "conic")], gap=0.38)


def test_the_best_point_and_the_best_bound_are_taken(monkeypatch):
    best = [1.2, -1.6]
    found = certify(monkeypatch, PLANE, [
        ([1.0, -1.0], empty(PLANE), "conic"), (None, empty(PLANE), "x"), ([np.nan, 0.0], None, "y"), (best, None, "polish"),
        ([0.0, 0.0], None, "z"),
    ])  # fmt: skip
    np.testing.assert_allclose(found.x, best, rtol=1e-12)
    assert found.details["polish"] == "point: polish; bound: x"
    assert found.solver == "Clarabel + polish"  # and of equal bounds the later one
    assert found.details["multiplier"] == pytest.approx(2.0, rel=1e-9) and found.kkt_residual <= 1e-9
    assert found.solver_value == pytest.approx(-6.5) and found.gap <= 1e-9
    further = certify(monkeypatch, PLANE, [(best, empty(PLANE), "conic"), ([2.4, -3.2], None, "x")])  # -16 on the ball of radius 4
    assert further.details["active"] is True and further.details["constraint"] == "active"
    closed = certify(monkeypatch, PLANE, [(best, empty(PLANE), "closed form")])
    assert closed.solver == "closed form" and closed.solver_value is None
    with pytest.raises(NotCertified, match=r"no point or no bound on the ball of radius 2 \(conic solver: said\)"):
        certify(monkeypatch, PLANE, [(best, None, "conic")])
    with pytest.raises(NotCertified, match="no point or no bound"):
        certify(monkeypatch, PLANE, [(None, empty(PLANE), "conic")])
    with pytest.raises(NotCertified, match="the limit 1e-09"):
        certify(monkeypatch, PLANE, [([1.0, -1.0], empty(PLANE), "conic")])


def test_a_point_outside_is_drawn_in_and_has_the_value_there(monkeypatch):
    found = certify(monkeypatch, PLANE, [([12.0, -16.0], empty(PLANE), "conic")])
    assert found.value == pytest.approx(-9, rel=1e-9) and np.linalg.norm(found.x) <= 2.0


def test_where_f_is_0_at_its_minimum_and_at_0_the_gap_is_relative_to_f_on_the_sphere(monkeypatch):
    """|x_1| + |x_2| at (R, R)/sqrt(2) is sqrt(2) R; u = (e, 0) bounds it by -2e, which counts as 0 up to 1e-12 of that."""
    found = certify(monkeypatch, CROSS, [([0.0, 0.0], empty(CROSS, [2.0**-40, 0.0]), "conic")], gap=0.01)
    assert found.details["scale"] == pytest.approx(8**0.5, rel=1e-9) and found.gap == pytest.approx(2.0**-39 / 8**0.5, rel=1e-6)
    assert found.gap_to_optimum == np.inf and found.details["floor"] == pytest.approx(8**0.5 * 1e-12, rel=1e-9)
    with pytest.raises(NotCertified, match=r"F\* is known to inf of itself, the limit is 0\.01"):
        certify(monkeypatch, CROSS, [([0.0, 0.0], empty(CROSS, [1e-3, 0.0]), "conic")], gap=0.01)
    assert found.details["multiplier"] == 0.0 and found.details["constraint"] == "inactive" and found.details["active"] is False


def test_nothing_at_all_has_no_gap(monkeypatch):
    form = NonsmoothStructure(2)
    found = certify(monkeypatch, form, [([0.0, 0.0], empty(form), "conic")])
    assert found.gap == found.value == found.lower_bound == found.details["scale"] == 0.0


def holding(least, asked):
    return SimpleNamespace(
        lipschitz=asked.append,
        optimum_on_ball=lambda radius: SimpleNamespace(details={"constraint": "inactive" if radius >= least else "active"}),
    )


def test_the_radius_that_is_chosen_and_what_is_said_of_it():
    asked, chosen = [], "chosen: the least power of 2 whose ball holds a minimiser"
    assert on_ball.choose_radius(holding(0.3, asked), None) == (1.0, chosen) and asked == [1.0]
    assert on_ball.choose_radius(holding(0.3, asked), None, np.array([0.5])) == (1.0, chosen + " and x_0")
    assert on_ball.choose_radius(holding(3.0, asked), None, np.zeros(2)) == (4.0, chosen)
    assert on_ball.choose_radius(holding(9.0, asked), 0.5) == (0.5, "given") and len(asked) == 3
    for radius in (0.0, -1.0, math.inf, math.nan):
        with pytest.raises(InvalidInput, match=f"radius is {radius}: the ball needs a finite number > 0"):
            on_ball.choose_radius(holding(1.0, asked), radius)
