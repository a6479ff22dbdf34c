"""Independent tasks on several processes, such that Ctrl-C ends them in order and loses nothing that is finished."""

from __future__ import annotations

import os
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import contextmanager
from itertools import islice
from typing import Any

__all__ = ["as_finished", "stop_workers"]

AHEAD = 2  # tasks handed out for each worker; loky's queue takes no more, and what waits before it breaks its shutdown (KeyError)
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


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


def as_finished(work: Callable[[Any], Any], tasks: Sequence[Any], workers: int) -> Iterator[tuple[int, Any]]:
    """(index, work(task)) for all tasks, in the order in which they finish, on that many processes (1: in this one, in order).

    Ctrl-C ends the workers and is raised here, as KeyboardInterrupt, between two results: what was yielded is whole.
    """
    if workers <= 1 or len(tasks) <= 1:
        for i, task in enumerate(tasks):
            yield i, work(task)
        return
    with _held_back() as interrupted:
        executor, todo = _executor(workers), enumerate(tasks)
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
                if interrupted():
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
