"""Several processes: chunks of scenarios with a progress bar, and independent tasks that Ctrl-C ends in order.

Processes, not threads: the kernels are many short NumPy calls, between which threads would wait for one interpreter lock.
`run_processes` cuts one run into chunks, which stop together; `as_finished` gives the results of independent tasks as they come.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
import tempfile
import threading
import time
import uuid
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from fedtheory.errors import InvalidInput
from fedtheory.plain_progress import Lines, redraws

__all__ = ["Board", "Progress", "as_finished", "fetch", "interrupted", "run_processes", "stop_workers", "stow"]

_NEVER = np.iinfo(np.int64).max
AHEAD = 2  # tasks handed out for each worker; loky's queue takes no more, and what waits before it breaks its shutdown (KeyError)
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


class Board:
    """Rounds done by each chunk, and the round after which all stop; shared between processes when given a file.

    A chunk that fails in round t lowers the limit to t: the others need not go further, and go that far, so that the error that is
    reported (the earliest round) does not depend on how the scenarios were cut.
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
        """A new shared board, owned by this process; its children open it with ``Board(chunks, path)``."""
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
        orphaned = self._owner not in (None, os.getpid(), os.getppid())
        return 0 if orphaned else int(self._cells[self._chunks :].min())

    @property
    def done(self) -> int:
        return int(self._cells[: self._chunks].sum())


class Progress:
    """A progress bar on the error stream, which appears once the work has taken `delay` seconds; plain lines where that is no terminal.

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
    """collect([job(i, piece, folder, board)] for all pieces), on `workers` processes with one BLAS thread each.

    The folder and the board in it live until `collect` has returned. An interrupt (Ctrl-C) ends the workers and is raised again.

    Raises
    ------
    InvalidInput
        What the job holds cannot be pickled.
    """
    from joblib import Parallel, delayed, parallel_config

    with tempfile.TemporaryDirectory(prefix="fedtheory-", ignore_cleanup_errors=True) as folder:
        path = Path(folder) / "board"
        board = Board.on_disk(len(pieces), path)
        tasks = (delayed(job)(i, piece, folder, str(path), len(pieces)) for i, piece in enumerate(pieces))
        with parallel_config(backend="loky", n_jobs=workers, inner_max_num_threads=1), _polling(progress, board):
            try:
                return collect(Parallel(max_nbytes=None)(tasks))
            except BaseException as error:
                board.stop()  # workers end by themselves; killing them is not always possible
                if interrupted(error):
                    raise KeyboardInterrupt from None
                if isinstance(error, pickle.PicklingError):
                    last = str(error.__cause__ or error).strip('"\n ').splitlines()[-1]  # of the traceback of the thread that sends
                    why = f"cannot be sent to other processes ({last}): use workers=1"
                    raise InvalidInput(f"workers = {workers}: something of this run, such as its problem, {why}") from error
                raise


def interrupted(error: BaseException | None) -> bool:
    """Whether an interrupt is behind the error: joblib's clean-up may fail after one and hide it, and so may an import."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None


# --- independent tasks -------------------------------------------------------------------------------------------------
def _leave_interrupts_to_the_parent() -> None:
    """Ctrl-C reaches all processes of a terminal; a worker that it ends in the middle breaks the pool."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextmanager
def _held_back() -> Iterator[Callable[[], bool]]:
    """Whether there was a Ctrl-C, to be asked where it can be served; a second one is raised at once."""
    seen: list[int] = []
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or before is not signal.default_int_handler:
        yield lambda: False  # somebody else's
        return

    def handler(number: int, frame: Any) -> None:
        seen.append(number)
        if len(seen) > 1:
            raise KeyboardInterrupt

    signal.signal(signal.SIGINT, handler)
    try:
        yield lambda: bool(seen)
    finally:
        signal.signal(signal.SIGINT, before)


_kept: dict[int, Any] = {}  # the executor of so many workers: starting one takes a second or two


def _executor(workers: int) -> Any:
    from joblib.externals.loky import ProcessPoolExecutor

    if workers not in _kept:
        stop_workers()
        threads = str(max(1, (os.cpu_count() or 1) // workers))
        env = {name: os.environ.get(name, threads) for name in _THREADS}
        _kept[workers] = ProcessPoolExecutor(workers, timeout=300, initializer=_leave_interrupts_to_the_parent, env=env)
    return _kept[workers]


def as_finished(
    work: Callable[[Any], Any], tasks: Sequence[Any], workers: int, here: float = 0.0
) -> Iterator[tuple[int, Any]]:
    """(index, work(task)) for all tasks, in the order in which they finish, on that many processes (1: in this one, in order).

    ``here``: seconds for which tasks are done in this process before others are started, as few small tasks are not worth that.
    Ctrl-C ends the workers and is raised here, as KeyboardInterrupt, between two results: what was yielded is whole.
    """
    todo, alone, start = enumerate(tasks), workers <= 1 or len(tasks) <= 1, time.monotonic()
    while alone or time.monotonic() - start < here:
        following = next(todo, None)
        if following is None:
            return
        yield following[0], work(following[1])
    with _held_back() as asked_to_stop:
        executor = _executor(workers)
        waiting: dict[Future, int] = {}
        try:
            while True:
                for i, task in islice(todo, AHEAD * workers - len(waiting)):
                    waiting[executor.submit(work, task)] = i
                if not waiting:
                    return
                done, _ = wait(waiting, timeout=0.2, return_when=FIRST_COMPLETED)
                for future in done:
                    yield waiting.pop(future), future.result()
                if asked_to_stop():
                    raise KeyboardInterrupt
        except BaseException:  # an abandoned generator, too
            _kill(executor)
            raise


def _kill(executor: Any) -> None:
    """End the workers in the middle of what they do."""
    _kept.clear()
    time.sleep(0.1)  # what was submitted last is on its way to the queue
    with warnings.catch_warnings():  # of the ways to find the workers' children, which have none
        warnings.simplefilter("ignore")
        executor.shutdown(wait=True, kill_workers=True)


def stop_workers() -> None:
    """End the workers in order, so that the memory of their processes is accounted for."""
    while _kept:
        _kept.popitem()[1].shutdown(wait=True)
