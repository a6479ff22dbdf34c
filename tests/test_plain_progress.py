"""Progress where nothing redraws: whole lines on stderr, seldom, with what, how far and how long."""

from __future__ import annotations

import io
import math
import re
import sys
import threading
import time

import pytest
from command_line import call
from rich.console import Console

from fedtheory import parallel, plain_progress
from fedtheory.cli import common
from fedtheory.plain_progress import Lines


@pytest.fixture
def clock(monkeypatch, capsys):
    """A clock that stands still until it is set, lines after two seconds, and all that they wrote: (set, read)."""
    now, told = [0.0], []
    monkeypatch.setattr(plain_progress, "FIRST", 2.0)
    monkeypatch.setattr(time, "monotonic", lambda: now[0])

    def read():
        told.extend(capsys.readouterr().err.splitlines())
        return told

    return lambda seconds: now.__setitem__(0, seconds), read


def test_lines_say_what_how_far_and_how_long(clock):
    at, read = clock
    with Lines("instances", 1200, ticking=False) as lines:
        at(1.9)
        lines.advance(30)
        assert read() == []
        at(2.0)
        lines.advance(30)
        assert read() == ["instances: 60 of 1,200 (5 %) after 2 seconds, about 38 seconds left"]
        at(11.9)
        lines.at(600)
        assert len(read()) == 1  # ten seconds have not gone by
        at(12.0)
        lines.advance(0)
        assert read()[1:] == ["instances: 600 of 1,200 (50 %) after 12 seconds, about 12 seconds left"]
        at(71.9)
        lines.at(719)
        assert len(read()) == 2  # not a tenth of all, not a minute
        lines.at(720)
        assert read()[2:] == ["instances: 720 of 1,200 (60 %) after 72 seconds, about 48 seconds left"]
        at(131.9)
        lines.at(721)
        assert read()[3:] == ["instances: 721 of 1,200 (60 %) after 2 minutes, about 88 seconds left"]
        at(150.0)
        lines.at(1200)
        assert len(read()) == 4  # the end has a line of its own
    assert read()[4:] == ["instances: done in 2 minutes"]


def test_what_was_found_says_nothing_of_the_time_left_and_one_second_is_one(clock):
    at, read = clock
    with Lines("cells", 132, ticking=False) as lines:
        at(1.0)
        lines.advance(80, known=True)
        at(3.0)
        lines.advance(0)
        assert read() == ["cells: 80 of 132 (60 %) after 3 seconds"]
        at(15.0)
        lines.advance(14)  # a second each
        at(29.0)
        lines.advance(14)
        assert read()[1:] == ["cells: 94 of 132 (71 %) after 15 seconds, about 38 seconds left",
                              "cells: 108 of 132 (81 %) after 29 seconds, about 24 seconds left"]  # fmt: skip
    assert [plain_progress.duration(s) for s in (0.4, 1.4, 1.6, 119.4, 119.6)] == [
        "0 seconds", "1 second", "2 seconds", "119 seconds", "2 minutes"
    ]  # fmt: skip


def test_a_bar_forgets_how_fast_what_was_known_came(monkeypatch):
    from rich import progress as bars

    now, made = [0.0], []
    monkeypatch.setattr(common, "err_console", lambda: Console(file=io.StringIO(), force_terminal=True))

    class Clocked(bars.Progress):
        def __init__(self, *args, **kwargs):
            made.append(self)
            super().__init__(*args, get_time=lambda: now[0], **kwargs)

    monkeypatch.setattr(bars, "Progress", Clocked)
    monkeypatch.setattr(plain_progress, "redraws", lambda stream: True)
    with common.progress("cells", 132) as advance:
        for _ in range(80):
            advance(known=True)
        for _ in range(10):
            now[0] += 1.0
            advance()
        (task,) = made[0].tasks
        assert task.completed == 90 and task.time_remaining == pytest.approx(42, abs=6)


def test_work_without_a_count(clock):
    at, read = clock
    with Lines("certifying the optimum", ticking=False) as lines:
        for second in range(300):
            at(second + 0.5)
            lines.advance(0)
    told = [line.removeprefix("certifying the optimum: under way after ") for line in read()]
    assert told == [
        "2 seconds", "12 seconds", "22 seconds", "32 seconds", "42 seconds", "52 seconds", "112 seconds", "3 minutes", "4 minutes",
        "5 minutes", "certifying the optimum: done in 5 minutes",
    ]  # fmt: skip
    with Lines("figures", ticking=False) as lines:
        at(400.0)
        lines.advance(3)
    assert "figures: 3 done after 100 seconds" in read()


def test_what_is_short_is_not_told_and_what_fails_is(clock):
    at, read = clock
    with Lines("drawing", 3, ticking=False) as lines:
        at(1.5)
        lines.advance(3)
    assert read() == []
    with pytest.raises(KeyboardInterrupt), Lines("rounds", 4, ticking=False) as lines:
        at(9.0)
        lines.advance()
        raise KeyboardInterrupt
    assert read() == ["rounds: 1 of 4 (25 %) after 8 seconds, about 22 seconds left", "rounds: stopped, 1 of 4 (25 %) after 8 seconds"]


def test_a_thread_tells_while_no_step_ends(monkeypatch):
    told = threading.Event()

    class Stream(io.StringIO):
        def write(self, text):
            told.set()
            return super().write(text)

    monkeypatch.setattr(plain_progress, "FIRST", 0.0)
    monkeypatch.setattr(sys, "stderr", Stream())
    with Lines("one long step", 1):
        assert told.wait(30)
    assert sys.stderr.getvalue().startswith("one long step: 0 of 1 (0 %) after ")
    assert re.search(r"one long step: done in \d+ seconds?\n$", sys.stderr.getvalue())


def test_a_closed_pipe_and_a_system_without_threads_end_no_work(clock, monkeypatch):
    at, _ = clock

    def broken(text):
        raise BrokenPipeError

    def none_more(thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", none_more)
    monkeypatch.setattr(sys.stderr, "write", broken)
    with Lines("instances", 5) as lines:
        at(5.0)
        lines.advance()
    assert lines.done == 1 and lines.told


def test_commands_and_runs_tell_by_lines(clock, monkeypatch):
    at, read = clock
    with common.progress("instances", 10) as advance:
        at(5.0)
        advance(5)
        advance.say("half of it")
    assert read() == ["instances: 5 of 10 (50 %) after 5 seconds, about 5 seconds left", "half of it", "instances: done in 5 seconds"]
    with parallel.Progress(8, "fedavg, 2 scenarios") as bar:
        bar.update(1)
        assert not bar.visible
        at(8.0)
        bar.update(2)
        assert bar.visible
    first, last = read()[3:]
    assert first == "fedavg, 2 scenarios: 2 of 8 (25 %) after 3 seconds, about 9 seconds left"
    assert last == "fedavg, 2 scenarios: done in 3 seconds"


def test_a_terminal_has_a_bar_and_no_lines(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setattr(plain_progress, "FIRST", 0.0)
    monkeypatch.setenv("TERM", "xterm-256color")
    stream = Terminal()
    monkeypatch.setattr(common, "err_console", lambda: Console(file=stream))
    with common.progress("instances", 4) as advance:
        advance(2)
        time.sleep(0.15)
    assert "2/4" in stream.getvalue() and "after" not in stream.getvalue()
    monkeypatch.setenv("TERM", "dumb")
    assert not plain_progress.redraws(Terminal()) and not plain_progress.redraws(io.StringIO())


def test_a_command_in_a_pipe(monkeypatch):
    assert call("solve", "quadratic").stderr == ""  # the tests' clock: never
    assert plain_progress.FIRST == math.inf
    monkeypatch.setattr(plain_progress, "FIRST", 0.0)
    said = call("run", "fedavg", "quadratic", "--rounds", 3, "--no-figures", "--json")
    assert said.stdout.startswith("{")
    assert re.search(r"^rounds: \d of 3 \(\d+ %\) after \d+ seconds?", said.stderr, re.MULTILINE)
    assert re.search(r"^rounds: done in \d+ seconds?$", said.stderr, re.MULTILINE)


def test_a_wait_for_something_else_says_nothing_of_the_time_left(clock):
    at, read = clock
    with parallel.Progress(8, "fedavg") as bar:
        at(20.0)
        bar.wait(20.0)
        at(21.0)
        bar.update(1)
        assert read() == []  # one second of work
        at(23.0)
        bar.update(3)
        assert read() == ["fedavg: 3 of 8 (37 %) after 3 seconds, about 5 seconds left"]
        at(30.0)
        bar.wait(6.0)
        at(40.0)
        bar.update(6)
        assert read()[1:] == ["fedavg: 6 of 8 (75 %) after 14 seconds, about 5 seconds left"]
