"""Questions to cvxpy and answers kept, on programmes whose size and solution are known by hand."""

from __future__ import annotations

import threading
import time
import warnings
from types import SimpleNamespace
from typing import ClassVar

import cvxpy as cp
import numpy as np
import pytest
from scipy.sparse import csc_array

from fedtheory.errors import InvalidInput, MissingCapability
from fedtheory.optimum.conic import ConicSolve, _size, announced, solve

CENTER = np.array([1.75, -0.625])


def asking(objective, dim=2, form="by hand"):
    size = SimpleNamespace(dim=dim, cvxpy_objective=objective, cvxpy_form=lambda: form)
    size.objective = lambda x: 2.75  # at 0, as the corner's
    return size


CORNER = asking(lambda x: cp.norm1(x - CENTER) + 0.375)  # |x - c| + |y - d|: four inequalities of two numbers each


def test_the_size_in_words():
    dims = SimpleNamespace(exp=1, soc=[3, 4], nonneg=2, zero=1)
    rows = csc_array(([1.0] * 5, ([0, 1, 2, 3, 4], [0, 0, 1, 1, 1233])), shape=(6, 1234))
    data = {"dims": dims, "A": rows, "P": csc_array(np.eye(3))}
    words = "1 exponential cone, 2 second-order cones, 2 inequalities, 1 equality, a quadratic objective, 1,234 variables, 8 entries"
    assert _size(asking(None), data) == (f"by hand: {words}", 8)
    dims = SimpleNamespace(exp=1200, soc=[], nonneg=1, zero=0)
    for without in ({}, {"P": None}, {"P": csc_array((2, 2))}):
        data = {"dims": dims, "A": csc_array(np.ones((1, 1))), **without}
        assert _size(asking(None, form=""), data) == ("1,200 exponential cones, 1 inequality, 1 variables, 1 entries", 1)


def test_the_point_the_value_and_the_form():
    before = time.perf_counter()
    found = solve(CORNER)
    assert 0 < found.seconds <= time.perf_counter() - before
    np.testing.assert_allclose(found.x, CENTER, atol=1e-6)
    assert found.value == pytest.approx(0.375, abs=1e-6) and isinstance(found.value, float) and found.x.dtype == float
    assert found.said == "status 'optimal'"
    assert (found.form, found.entries) == ("by hand: 4 inequalities, 4 variables, 8 entries", 8)


def test_the_limit_on_the_entries():
    assert solve(CORNER, 8).said == "status 'optimal'"
    found = solve(CORNER, 7)
    assert found.said == "skipped, its cone programme of 8 entries exceeds max_conic_entries = 7"
    assert (found.x, found.value, found.entries) == (None, None, 8) and found.form.startswith("by hand: 4") and found.seconds > 0
    assert solve(CORNER, 1).said.endswith("= 1")
    assert solve(CORNER, 0) == ConicSolve(None, None, "", 0, 0.0, "skipped, no cone programme has max_conic_entries = 0")
    for wrong in (-1, 1.5, 8.0, True, False):
        with pytest.raises(InvalidInput) as refused:
            solve(CORNER, wrong)
        assert str(refused.value) == f"max_conic_entries is {wrong!r}: it must be an integer >= 0; None for no limit"


def test_a_loss_without_a_cone_programme_is_skipped_by_name():
    def lacks(x):
        raise MissingCapability("Mine: no cone: programme")

    found = solve(asking(lacks))
    assert found.said == "skipped, Mine" and (found.x, found.value, found.form, found.entries) == (None, None, "", 0)


@pytest.mark.parametrize("failure", [cp.SolverError("late"), cp.DCPError("late"), ValueError("late"), ZeroDivisionError("late")])
def test_what_fails_is_said_with_the_form_that_failed(monkeypatch, failure):
    def fails(self, **_):
        raise failure

    monkeypatch.setattr(cp.Problem, "solve", fails)
    found = solve(CORNER)
    assert found.said == f"failed: {type(failure).__name__}: late"
    assert (found.x, found.value, found.entries) == (None, None, 8) and found.form.startswith("by hand: 4")
    not_convex = solve(asking(lambda x: -cp.sum_squares(x)))
    assert not_convex.said.startswith("failed: DCPError: ") and (not_convex.form, not_convex.entries) == ("", 0)


def test_a_point_or_a_value_that_is_not_finite_is_none_at_all(monkeypatch):
    for answer in (None, np.array([np.inf, 0.0]), np.array([0.0, np.nan])):
        monkeypatch.setattr(cp.Problem, "solve", lambda self, a=answer, **_: self.variables()[0].save_value(a))
        found = solve(CORNER)
        assert found.said == "no point, status None" and (found.x, found.value) == (None, None)
        assert found.entries == 8 and found.form.startswith("by hand: 4")
    monkeypatch.setattr(cp.Problem, "solve", lambda self, **_: setattr(self.variables()[0], "value", CENTER))
    for value, kept in ((np.inf, None), (np.nan, None), (None, None), (np.float64(2.5), 2.5), (0.0, 0.0)):
        monkeypatch.setattr(cp.Problem, "value", property(lambda self, v=value: v))
        found = solve(CORNER)
        assert found.value == kept and found.x.tolist() == CENTER.tolist() and found.said == "status None"


def test_clarabel_with_one_thread_and_no_warning(monkeypatch):
    given = []

    def loud(self, **options):
        given.append(options)
        warnings.warn("inaccurate", UserWarning, stacklevel=1)
        self.variables()[0].value = np.array([1.0, -1.0]) / np.zeros(2) * 0 + CENTER  # NumPy, too, says nothing

    monkeypatch.setattr(cp.Problem, "solve", loud)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        solve(CORNER)
    assert given == [{"solver": cp.CLARABEL, "max_threads": 1, "min_switch_step_length": 0.5}]


class Clock:
    """Stands for `threading.Timer`: its time is up when the test says so."""

    made: ClassVar[list[Clock]] = []

    def __init__(self, interval, tell):
        self.interval, self.tell, self.done = interval, tell, []
        Clock.made.append(self)

    def start(self):
        self.done.append(("started", self.daemon))

    def cancel(self):
        self.done.append("cancelled")


def test_what_lasts_is_told_to_the_innermost_with_what_is_being_done(monkeypatch):
    """While the programme is made its form is not known yet; a telling that waits keeps no process alive, and none is left behind."""
    monkeypatch.setattr(threading, "Timer", Clock)
    Clock.made, said, outer = [], [], []

    def late(x):
        Clock.made[-1].tell()
        return cp.norm1(x - CENTER)

    monkeypatch.setattr(cp.Problem, "solve", lambda self, **_: Clock.made[-1].tell())
    form = "by hand: 4 inequalities, 4 variables, 8 entries"
    with announced(outer.append), announced(said.append):
        solve(asking(late))
    assert said == [f"solving with cvxpy ({what}) ..." for what in ("making the cone programme", form)] and outer == []
    with announced(outer.append), pytest.raises(KeyError), announced(said.append):
        raise KeyError
    with announced(outer.append):  # the other listener was taken away all the same
        solve(CORNER)
        with pytest.raises(RuntimeError):
            solve(asking(lambda x: (_ for _ in ()).throw(RuntimeError)))
    assert outer == [f"solving with cvxpy ({form}) ..."] and len(said) == 2
    assert [(c.interval, c.done) for c in Clock.made] == [(2.0, [("started", True), "cancelled"])] * 3
    monkeypatch.setattr(cp.Problem, "solve", lambda self, **_: None)
    solve(CORNER)  # nobody listens
    assert len(Clock.made) == 3
