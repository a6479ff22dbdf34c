"""Checkpoints of the cells that a sweep has begun and not finished, each in its own folder."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from fedtheory.errors import DataFileError
from fedtheory.store.result_store import ResultStore, key_of

__all__ = ["Running"]

NAME = "sweep.running"
KEY = 24  # characters of a cell's key that name its folder


class Running:
    """A folder in that of the sweep: a cell's checkpoint stays in it until its row is kept.

    Parameters
    ----------
    out : of the sweep
    """

    def __init__(self, out: Path) -> None:
        self.folder = out.absolute() / NAME  # workers of an engine may stand elsewhere

    def of(self, content: Any) -> Path:
        """Return the path where the cell of that content keeps its checkpoint."""
        return self.folder / key_of(content)[:KEY]

    def set_aside_damaged(self, tell: Callable[[str], Any]) -> None:
        """Set checkpoints aside that cannot be read, and say which: their cells begin again."""
        from fedtheory.store import checkpoints

        for file in sorted(self.folder.rglob("*.ckpt")):
            try:
                checkpoints.load(file)
            except DataFileError as error:
                aside = self.folder / f"{file.relative_to(self.folder).parts[0]}.ckpt.damaged"
                os.replace(file, aside)
                tell(f"{aside} is what {file.name} was: {error}; its cell begins again")

    def begun(self, contents: Sequence[Any], cells: ResultStore) -> int:
        """Count the cells that go on in their middle."""
        names = {file.relative_to(self.folder).parts[0] for file in self.folder.rglob("*.ckpt")}
        keys = map(key_of, contents) if names else ()
        return sum(key[:KEY] in names and key not in cells for key in keys)

    def finished(self, content: Any) -> None:
        """The cell's row is kept: its checkpoint is not needed any more."""
        if self.folder.exists():
            shutil.rmtree(self.of(content), ignore_errors=True)

    def remove(self) -> None:
        """The sweep is at its end: what another version of the package has begun goes, too; damaged checkpoints stay."""
        if self.folder.exists():
            for folder in (p for p in self.folder.iterdir() if p.is_dir()):
                shutil.rmtree(folder, ignore_errors=True)
            if not any(self.folder.iterdir()):
                self.folder.rmdir()
