"""Checkpoints of `fedtheory run`, each minute and when interrupted: the same command goes on."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedtheory.cells import key_of
from fedtheory.errors import CheckpointError, DataFileError, MissingCapability
from fedtheory.simulation import checkpoints

if TYPE_CHECKING:
    from fedtheory.simulation.simulate import Resume

__all__ = ["KeptRun"]

SECONDS = 15.0  # between two checkpoints, and before the first
POINTS = "points of the server"


class KeptRun:
    """The checkpoint of one run.

    Parameters
    ----------
    path : of the file
    content : what the run's numbers depend on, as JSON has it
    tell : callable(str)
        Called with a line for the user.
    """

    def __init__(self, path: Path, content: dict[str, Any], tell: Callable[[str], Any]) -> None:
        self.path, self._key, self._tell = path, key_of(content), tell
        self._last, self._at = time.monotonic(), -1
        self._newest: tuple[Resume, list[np.ndarray]] | None = None

    def found(self, fresh: Any, like: Any, names: tuple[str, ...]) -> tuple[Any, list[np.ndarray]]:
        """(what ``simulate(..., resume=)`` takes or None, the server's points up to there) of the same run, cut short.

        A file of another run stays until this one has something to keep; one that cannot be read is set aside.
        """
        if not self.path.exists():
            return None, []
        try:
            past = checkpoints.load(self.path)
            if past.configuration.get("key") != self._key:
                return None, []
            state, metrics = past.state(like, fresh), dict(past.metrics)
            points = list(metrics.pop(POINTS, ()))
            if set(metrics) != set(names):
                return None, []
        except (DataFileError, CheckpointError) as error:
            aside = self.path.with_name(f"{self.path.name}.damaged")
            os.replace(self.path, aside)
            self._tell(f"{aside} is what {self.path.name} was: {error}; the run begins again")
            return None, []
        self._tell(f"going on after round {past.round_index}, from {self.path}")
        return (past.round_index, state, metrics), points

    def keep(self, done: Resume, points: list[np.ndarray], now: bool = False) -> None:
        """Write the state after a round, where it is time, or ``now``."""
        self._newest = done, points
        if done.round_index == self._at or not (now or time.monotonic() - self._last >= SECONDS):
            return
        metrics = {**(done.metrics or {}), **({POINTS: np.stack(points)} if points else {})}
        about: dict[str, Any] = {"parts": [], "seconds": []}
        state = checkpoints.Checkpoint(done.round_index, {"key": self._key}, metrics, done.state._asdict(), about)
        try:
            checkpoints.save(self.path, state)
        except MissingCapability:  # a state of one's own that a file cannot hold: the run is then not kept
            pass
        self._last, self._at = time.monotonic(), done.round_index

    def keep_last(self) -> None:
        """Write the last state that `keep` was handed, where the rounds are over and what follows them fails."""
        if self._newest is not None:
            self.keep(*self._newest, now=True)

    def remove(self) -> None:
        """The run is at its end."""
        self.path.unlink(missing_ok=True)
