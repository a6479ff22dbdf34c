"""One run cut into chunks of scenarios, which stop together.

Processes, not threads: the kernels are many short NumPy calls, between which threads would wait for one interpreter lock.
"""

from __future__ import annotations

import os
import pickle
import shutil
import tempfile
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

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


def stow(state: Any, folder: str) -> Any:
    """A state (NamedTuple) whose large NumPy arrays are left in files of the folder: cheaper than a pipe between processes."""
    fields = []
    for value in state:
        if isinstance(value, np.ndarray) and value.nbytes > 2**20:
            path = Path(folder) / f"{uuid.uuid4().hex}.npy"
            np.save(path, value)
            value = path
        fields.append(value)
    return type(state)(*fields)


def fetch(state: Any) -> Any:
    """The inverse of `stow`; the arrays are read-only maps of the files."""
    return type(state)(*(np.load(v, mmap_mode="r") if isinstance(v, Path) else v for v in state))


def run_processes(
    job: Callable[..., Any], pieces: Sequence[Any], workers: int, progress: Progress, collect: Callable[[list[Any]], Any]
) -> Any:
    """collect([job(i, piece, folder, board, chunks)] for all pieces), on the engine in use, one BLAS thread each.

    The folder and the board in it live until `collect` has returned; on other machines, which do not see them, both are None: their
    results come back whole, and each goes to its own end. An interrupt (Ctrl-C) ends the workers and is raised again.

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
