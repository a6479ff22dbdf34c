"""One run cut into chunks of scenarios, which stop together.

Processes, not threads: the kernels are many short NumPy calls, between which threads would wait for one interpreter lock.
"""

from __future__ import annotations

import math
import os
import pickle
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fedtheory.errors import InvalidInput
from fedtheory.parallel.board import Board
from fedtheory.parallel.engines import chosen_engine
from fedtheory.parallel.progress import Progress
from fedtheory.parallel.tasks import as_finished, interrupted
from fedtheory.provenance import alive

__all__ = ["fetch", "run_processes", "stow"]

PREFIX = "fedtheory-"  # of folders, before the number of the process they belong to


@contextmanager
def _polling(progress: Progress, board: Board) -> Iterator[None]:
    """Keep the bar up to date from a thread while the main thread waits for the workers."""
    stop = threading.Event()

    def poll() -> None:
        while not stop.wait(0.2):
            progress.update(board.done)

    thread = threading.Thread(target=poll, daemon=True)
    if progress.shown:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        if progress.shown:
            thread.join()


class Stowed(NamedTuple):
    """An array that a worker left in a file: its scenarios from `begin` bytes on, where they lie
    among those of the other workers."""

    path: Path
    begin: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]


def stow(state: Any, folder: str, name: str, first: int) -> Any:
    """A state (NamedTuple) whose large NumPy arrays (S, ...) are left in files of the folder:
    cheaper than a pipe between processes.

    Those of one name, which go on from scenario `first`, make one array that nobody has to put
    together.
    """
    fields = []
    for field, value in enumerate(state):
        if isinstance(value, np.ndarray) and value.nbytes > 2**20 and not value.dtype.hasobject:
            path, begin = Path(folder) / f"{name}-{field}", first * (value.nbytes // len(value))
            with open(os.open(path, os.O_CREAT | os.O_WRONLY | getattr(os, "O_BINARY", 0)), "wb") as file:
                file.seek(begin)
                file.write(np.ascontiguousarray(value).data)
            value = Stowed(path, begin, value.shape, value.dtype)
        fields.append(value)
    return type(state)(*fields)


def fetch(values: Sequence[Any]) -> list[Any]:
    """Read what `stow` left of one field, in order: one array where it made one, else several."""
    if not all(isinstance(v, Stowed) for v in values):
        return [_mapped(v) if isinstance(v, Stowed) else v for v in values]
    first, size = values[0], sum(v.shape[0] for v in values)
    follows = all(w.begin == v.begin + math.prod(v.shape) * v.dtype.itemsize for v, w in pairwise(values))
    if not follows or any((v.path, v.dtype, v.shape[1:]) != (first.path, first.dtype, first.shape[1:]) for v in values):
        return [_mapped(v) for v in values]
    return [_mapped(first._replace(shape=(size, *first.shape[1:])))]


def _mapped(stowed: Stowed) -> np.ndarray:
    """The file's numbers where they lie; what is written to them stays in this process."""
    mapped: np.ndarray = np.asarray(np.memmap(stowed.path, stowed.dtype, "c", stowed.begin, stowed.shape))
    return mapped


def run_processes(
    job: Callable[..., Any], pieces: Sequence[Any], workers: int, progress: Progress, collect: Callable[[list[Any]], Any]
) -> Any:
    """collect([job(i, piece, folder, board, chunks)] for all pieces), on the engine in use, one
    BLAS thread each.

    The folder and the board in it live until `collect` has returned; on other machines, which do
    not see them, both are None: their results come back whole, and each goes to its own end. An
    interrupt (Ctrl-C) ends the workers and is raised again.

    Raises
    ------
    InvalidInput
        What the job holds cannot be pickled.
    """
    engine = chosen_engine(workers)
    with _folder() as folder:
        path = folder / "board"
        board = Board.on_disk(len(pieces), path)
        shared = engine is None or engine.same_machine
        where = (str(folder), str(path)) if shared else (None, None)
        tasks = [(job, i, piece, *where, len(pieces)) for i, piece in enumerate(pieces)]
        with _polling(progress, board):
            try:
                parts: list[Any] = [None] * len(pieces)
                for i, part in as_finished(_piece, tasks, workers):
                    parts[i] = part
                return collect(parts)
            except BaseException as error:
                board.stop()  # workers end by themselves; killing them is not always possible
                if interrupted(error):
                    raise KeyboardInterrupt from None
                if isinstance(error, pickle.PicklingError):
                    last = str(error.__cause__ or error).strip('"\n ').splitlines()[-1]  # of the traceback of the thread that sends
                    why = f"cannot be sent to other processes ({last}): use workers=1"
                    raise InvalidInput(f"workers = {workers}: something of this run, such as its problem, {why}") from error
                raise


def _piece(task: tuple[Any, ...]) -> Any:
    job, *arguments = task
    return job(*arguments)


@contextmanager
def _folder() -> Iterator[Path]:
    """A folder for as long as this process lives; what processes that were killed left behind is removed."""
    for left in Path(tempfile.gettempdir()).glob(f"{PREFIX}*-*"):
        owner = left.name.removeprefix(PREFIX).partition("-")[0]
        if owner.isdecimal() and not alive(int(owner)):
            shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=f"{PREFIX}{os.getpid()}-", ignore_cleanup_errors=True) as made:
        yield Path(made)
