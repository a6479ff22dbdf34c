"""A progress bar on the error stream for work that takes longer than two seconds."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Any

from fedtheory.plain_progress import Lines, redraws

__all__ = ["Progress"]


class Progress:
    """A progress bar on the error stream, which appears once the work has taken `delay` seconds;
    plain lines where that is no terminal.

    Parameters
    ----------
    total : int
        Value of ``update`` at which the work is done.
    shown : bool
        False: do nothing.
    """

    def __init__(self, total: int, label: str, shown: bool = True, delay: float = 2.0) -> None:
        self.total, self.label, self.shown, self.delay = total, label, shown, delay
        self._bar: Any = None
        self._lines: Lines | None = None
        self._start = time.monotonic()

    @property
    def visible(self) -> bool:
        return self._bar is not None or (self._lines is not None and self._lines.told)

    def update(self, done: int) -> None:
        if not self.shown or (self._bar is None and time.monotonic() - self._start < self.delay):
            return
        if self._bar is None and self._lines is None:
            if done >= self.total:
                return
            self._open()
        if self._lines is not None:
            self._lines.at(done)
        else:
            self._bar.update(self._task, completed=done)

    def wait(self, seconds: float) -> None:
        """Leave so many seconds out, which were spent on something else, and say nothing of the time left."""
        self._start += seconds
        if self._lines is not None:
            self._lines.start += seconds

    def _open(self) -> None:
        if not redraws(sys.stderr):
            self._lines = Lines(self.label, self.total, ticking=False)
            self._lines.start = self._start
            return
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar

        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        self._bar = Bar(*columns, console=Console(stderr=True), transient=True, speed_estimate_period=600)  # rounds may take minutes
        self._task = self._bar.add_task(self.label, total=self.total)
        self._bar.start()

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
        if self._lines is not None:
            self._lines.__exit__(kind, error, trace)
