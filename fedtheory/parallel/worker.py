"""The other process: its tasks, on one BLAS thread each, and its end when the parent is gone."""

from __future__ import annotations

import os
import pickle
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from fedtheory.errors import FedTheoryError

__all__ = ["Done", "end_with_parent", "one_thread", "software", "work_through"]

WATCH = 0.5  # seconds between two looks at whether the parent lives
LONG = 1.0  # seconds after which the results of several tasks are handed over, and the rest given back: a kill loses no more


class Done(NamedTuple):
    """The outcome of some tasks: the results, the first error, and the seconds. Results are those
    up to the error, or of the tasks that were begun in time."""

    results: list[Any]
    error: Exception | None
    seconds: float


def end_with_parent(parent: int) -> None:
    """For processes started by process ``parent``: leave Ctrl-C to it, and end soon after it has ended, whatever ended it.

    Ctrl-C reaches all processes of a terminal, and a worker that it ends in the middle breaks the pool.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(WATCH)
        os._exit(1)

    threading.Thread(target=watch, daemon=True, name="fedtheory: ends with its parent").start()


def software() -> dict[str, str]:
    """The versions on which the last bits of a result depend, of this process."""
    from fedtheory.provenance import versions

    found = {name: versions().get(name, "not installed") for name in ("fedtheory", "numpy", "scipy")}
    return {"python": ".".join(map(str, sys.version_info[:2])), **found}


class _OneThread:
    """A context in which BLAS has one thread: with several, the last bits of a sum depend on how many there are.

    The contexts of several threads of this process may overlap: the first sets the limit, and the last one takes it away.
    """

    def __init__(self) -> None:
        self._lock, self._inside = threading.Lock(), 0
        self._modules, self._controller, self._limit = -1, None, None  # type: int, Any, Any

    def __enter__(self) -> None:
        with self._lock:
            self._inside += 1
            if self._inside > 1:
                return
            if len(sys.modules) != self._modules:  # a library may have come with one of them
                from threadpoolctl import ThreadpoolController

                self._controller, self._modules = ThreadpoolController(), len(sys.modules)
            self._limit = self._controller.limit(limits=1, user_api="blas")

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                self._limit.restore_original_limits()


one_thread = _OneThread()


def work_through(expected: dict[str, str] | None, work: Callable[[Any], Any], tasks: Sequence[Any]) -> Done:
    """The tasks one after the other, up to the first error. ``expected``: `software` of who asks, on another machine."""
    start, results = time.perf_counter(), []
    try:
        if expected is not None and software() != expected:
            here, there = (", ".join(f"{k} {v}" for k, v in found.items()) for found in (software(), expected))
            raise FedTheoryError(f"a worker has {here}, the process that asks it {there}: install the same on both")
        for task in tasks:
            with one_thread:
                results.append(work(task))
            if time.perf_counter() - start >= LONG:
                break
    except Exception as error:
        return Done(results, _sendable(error), time.perf_counter() - start)
    return Done(results, None, time.perf_counter() - start)


def _sendable(error: Exception) -> Exception:
    """The error, or one that says the same where it does not survive a pickle."""
    try:
        if type(pickle.loads(pickle.dumps(error))) is type(error):
            return error
    except Exception:
        pass
    return RuntimeError(f"{type(error).__name__}: {error}")
