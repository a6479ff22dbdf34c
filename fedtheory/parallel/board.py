"""Rounds done by every chunk of a run, shared between its processes."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

__all__ = ["Board"]

_NEVER = np.iinfo(np.int64).max


class Board:
    """Rounds done by each chunk, and the round after which all stop; shared between processes when
    given a file.

    A chunk that fails in round t lowers the limit to t: the others need not go further, and go that
    far, so that the error that is reported (the earliest round) does not depend on how the
    scenarios were cut.
    """

    def __init__(self, chunks: int, path: str | None = None) -> None:
        self._chunks, self._owner = chunks, None
        if path is None:
            self._cells = np.zeros(2 * chunks, dtype=np.int64)
            self._cells[chunks:] = _NEVER
        else:
            self._cells = np.memmap(path, np.int64, "r+", shape=(2 * chunks,))
            self._owner = int(np.fromfile(path, np.int64)[-1])

    @classmethod
    def on_disk(cls, chunks: int, path: Path) -> Board:
        """A new shared board, owned by this process; children open ``Board(chunks, path)``."""
        np.array([0] * chunks + [_NEVER] * chunks + [os.getpid()], dtype=np.int64).tofile(path)
        return cls(chunks, str(path))

    def tick(self, chunk: int, rounds: int) -> None:
        self._cells[chunk] = rounds

    def fail(self, chunk: int, round_index: int) -> None:
        """One cell a chunk: no two processes write the same one."""
        self._cells[self._chunks + chunk] = round_index

    def stop(self) -> None:
        """All chunks end before their next round."""
        self._cells[self._chunks :] = 0

    @property
    def limit(self) -> int:
        """The last round anyone need run; 0 once nobody waits for the result."""
        if self._owner is not None and self._owner not in (os.getpid(), os.getppid()):
            return 0  # orphaned
        return min(self._cells[self._chunks :].tolist())

    @property
    def done(self) -> int:
        return sum(self._cells[: self._chunks].tolist())
