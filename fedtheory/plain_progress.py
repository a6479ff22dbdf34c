"""Progress in whole lines on stderr, for a log, a pipe, or a terminal that cannot redraw."""

from __future__ import annotations

import sys
import threading
import time
from types import TracebackType
from typing import IO

__all__ = ["Lines", "duration", "redraws"]

FIRST = 2.0  # seconds after which the first line is written; what takes less is not told
BETWEEN = 10.0  # the least seconds between two lines
AT_MOST = 60.0  # seconds without a line, where there is less than `SHARE` to tell
SHARE = 0.1  # of the whole that a line is worth before


def duration(seconds: float) -> str:
    """'1 second', '40 seconds', '90 minutes', '3.2 hours', '12.0 years'."""
    for unit, size in (("years", 365.25 * 86400), ("days", 86400.0), ("hours", 3600.0)):
        if seconds >= 2 * size:
            return f"{seconds / size:,.1f} {unit}" if seconds < 1e4 * size else f"{seconds / size:.3g} {unit}"
    if seconds >= 119.5:  # not '120 seconds'
        return f"{seconds / 60:.0f} minutes"
    return "1 second" if f"{seconds:.0f}" == "1" else f"{seconds:.0f} seconds"


def redraws(stream: IO[str]) -> bool:
    """True if a bar can move there: a terminal that is not a dumb one."""
    from rich.console import Console

    console = Console(file=stream)
    return console.is_terminal and not console.is_dumb_terminal


class Lines:
    """Lines such as 'instances: 53 of 534 (10 %) after 12 seconds, about 2 minutes left'.

    The first is written after `FIRST` seconds. The next one follows after `BETWEEN` seconds at the
    earliest, and once a tenth more is done or a minute has gone by. What was told of has a last
    line, with how long it took or where it stopped.

    Parameters
    ----------
    what : the work, in words
    total : int or None
        Steps in all, where that is known.
    ticking : bool
        Whether lines also appear while no step ends, from a thread (where the system has threads).
    """

    def __init__(self, what: str, total: int | None = None, ticking: bool = True) -> None:
        self.what, self.total, self.ticking, self.done = what, total, ticking, 0
        self.start, self.last, self.told_of = time.monotonic(), 0.0, 0
        self.told, self.known, self.known_until = False, 0, 0.0
        self._stream, self._lock, self._end = sys.stderr, threading.Lock(), threading.Event()
        self._thread: threading.Thread | None = None

    def at(self, done: int) -> None:
        """So many steps are done in all."""
        self.done = done
        self._look()

    def advance(self, steps: int = 1, known: bool = False) -> None:
        """So many steps more are done; ``known``: they were found and not done now, so that they
        say nothing of the time left."""
        if known:
            self.known, self.known_until = self.known + steps, time.monotonic() - self.start
        self.at(self.done + steps)

    def _due(self, spent: float) -> bool:
        if not self.told:
            return spent >= FIRST
        since = spent - self.last
        if self.total is None:
            return since >= (BETWEEN if spent <= AT_MOST else AT_MOST)
        return since >= BETWEEN and (self.done - self.told_of >= SHARE * self.total or since >= AT_MOST)

    def _look(self) -> None:
        with self._lock:
            spent = time.monotonic() - self.start
            if self._due(spent) and (self.total is None or self.done < self.total):
                self.told, self.last, self.told_of = True, spent, self.done
                self._write(f"{self._far()} after {duration(spent)}{self._left(spent)}")

    def _far(self) -> str:
        if self.total is None:
            return f"{self.done:,} done" if self.done else "under way"
        return f"{self.done:,} of {self.total:,} ({100 * self.done // max(1, self.total)} %)"

    def _left(self, spent: float) -> str:
        if self.total is None or self.done <= self.known:
            return ""
        each = (spent - self.known_until) / (self.done - self.known)
        return f", about {duration(each * (self.total - self.done))} left"

    def _write(self, text: str) -> None:
        try:
            self._stream.write(f"{self.what}: {text}\n")
            self._stream.flush()
        except (OSError, ValueError):  # a closed pipe ends no work
            self._end.set()

    def _tick(self) -> None:
        while not self._end.wait(0.5):
            self._look()

    def __enter__(self) -> Lines:
        if self.ticking:
            thread = threading.Thread(target=self._tick, daemon=True)
            try:
                thread.start()
            except RuntimeError:  # no thread can start, as in a browser: lines come as steps end
                return self
            self._thread = thread
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._end.set()
        if self._thread is not None:
            self._thread.join()
        if self.told:
            spent = duration(time.monotonic() - self.start)
            self._write(f"done in {spent}" if kind is None else f"stopped, {self._far()} after {spent}")
