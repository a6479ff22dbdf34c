"""Steps of a command are kept and found again, by name and number; loops go on; nothing is kept where no command asks for it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

from fedtheory import steps
from fedtheory.errors import DataFileError
from fedtheory.problems import Quadratic
from fedtheory.steps import Loop, Steps, whole


class State(NamedTuple):
    x: np.ndarray
    last: Any = None


class Killed(BaseException):
    pass


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    for name in ("WAIT", "EVERY", "SHORT"):
        monkeypatch.setattr(steps, name, -1.0)


def walk(last, killed_after=None):
    """State after so many rounds, and all states; the rounds that were made now."""
    made, loop = [], Loop("walk", ([State(np.zeros(2))], [], 1.0))
    path, numbers, factor = loop.state
    for t in loop.upto(last):
        made.append(t)
        path.append(State(path[-1].x * factor + t, t))
        numbers.append(np.float64(factor))
        factor /= 3
        loop.state = path, numbers, factor
        if len(made) == killed_after:
            raise Killed
    return path, numbers, made


def same(one, two):
    return one.last == two.last and np.array_equal(one.x, two.x) and type(one) is type(two)


def test_a_loop_that_was_killed_anywhere_goes_on(tmp_path):
    path, numbers, made = walk(9)
    assert made == list(range(1, 10)) and not list(tmp_path.iterdir())
    for _ in range(4):
        with pytest.raises(Killed), Steps(tmp_path / "kept", 1).keeping():
            walk(9, killed_after=2)
    with Steps(tmp_path / "kept", 1).keeping():
        again, found, made = walk(9)
    assert made == [5, 6, 7, 8, 9], "of the round that a kill ends nothing is kept"
    assert len(again) == 10 and all(map(same, again, path)) and found == numbers
    with Steps(tmp_path / "kept", 2).keeping():
        assert walk(9)[2] == list(range(1, 10)), "another content"


def test_steps_within_a_step_are_known_by_their_place(tmp_path):
    made = []

    def leaf(name):
        made.append(name)
        return name

    def command(killed=False):
        for number in range(3):
            found = whole("look", lambda n=number: [whole("part", lambda k=k: leaf((n, k))) for k in range(2)])
            assert found == [(number, 0), (number, 1)]
            if killed and number == 1:
                raise Killed

    with pytest.raises(Killed), Steps(tmp_path / "kept", None).keeping():
        command(killed=True)
    kept = Steps(tmp_path / "kept", None)
    with kept.keeping():
        command()
        assert made == [(n, k) for n in range(3) for k in range(2)] and kept.begun
        kept.remove()
    assert not list(tmp_path.iterdir())


def test_an_optimum_is_that_of_its_problem_whichever_was_asked_for_before(tmp_path):
    """A look that was kept does not ask for what those after it then ask for first."""

    def command(killed=False):
        one, two = Quadratic(np.ones((1, 1, 1)), np.array([[3.0]])), Quadratic(np.ones((1, 1, 1)), np.array([[5.0]]))
        whole("look", lambda: float(one.optimum().x[0]))
        found = whole("look", lambda: [float(p.optimum().x[0]) for p in ((two, one) if killed else (one, two))])
        if killed:
            raise Killed
        return found

    with pytest.raises(Killed), Steps(tmp_path / "kept", None).keeping():
        command(killed=True)
    for file in (tmp_path / "kept").glob("*.npz"):  # what was kept of the second look, but for the optima
        if b'"result": {"list"' in file.read_bytes() or b'["result", {"list"' in file.read_bytes():
            file.unlink()
    with Steps(tmp_path / "kept", None).keeping():
        assert command() == [3.0, 5.0]


def test_an_error_that_what_was_kept_may_have_led_to_is_told_in_a_line(tmp_path):
    kept = Steps(tmp_path / "kept", None)
    with kept.keeping():
        whole("checks", lambda: [1])
    with pytest.raises(DataFileError, match=r"cannot be gone on from \(TypeError: .*delete it to begin again"):
        with Steps(tmp_path / "kept", None).keeping():
            dict(**whole("checks", lambda: {"a": 1}))
    with pytest.raises(TypeError), Steps(tmp_path / "other", None).keeping():
        dict(**whole("checks", lambda: [1]))


def test_what_a_file_cannot_hold_is_made_again(tmp_path):
    with Steps(tmp_path / "kept", None).keeping():
        assert whole("a set", lambda: {1, 2}) == {1, 2}
    assert not list(tmp_path.iterdir())


def test_nothing_is_kept_of_the_first_seconds(monkeypatch, tmp_path):
    monkeypatch.setattr(steps, "WAIT", 1000.0)
    with Steps(tmp_path / "kept", None).keeping():
        walk(3)
    assert not list(tmp_path.iterdir())
