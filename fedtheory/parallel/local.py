"""The processes of this machine: started once, kept for the next call, and ended with this one."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from typing import Any

from fedtheory.parallel.engine import Engine
from fedtheory.parallel.worker import end_with_parent

__all__ = ["Local", "stop_workers"]

_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
_kept: dict[int, Any] = {}  # the executor of so many workers: starting one takes a second or two


class Local(Engine):
    """So many processes of this machine, through loky; each has one BLAS thread."""

    name = "local"
    same_machine = shares_files = True
    one_loss_is_all = True
    ahead = 2  # loky's queue takes no more, and what waits before it breaks its shutdown (KeyError)

    def __init__(self, workers: int) -> None:
        self._workers = workers

    @property
    def workers(self) -> int:
        return self._workers

    def _executor(self) -> Any:
        from joblib.externals.loky import ProcessPoolExecutor

        if self._workers not in _kept:
            stop_workers()
            warnings.filterwarnings("ignore", message="A worker stopped while some jobs", category=UserWarning)  # told in our words
            env = {name: os.environ.get(name, "1") for name in _THREADS}
            _kept[self._workers] = ProcessPoolExecutor(
                self._workers, timeout=300, initializer=end_with_parent, initargs=(os.getpid(),), env=env
            )
        return _kept[self._workers]

    def submit(self, call: Callable[..., Any], *arguments: Any) -> Future:
        return self._executor().submit(call, *arguments)

    def abandon(self, futures: Iterable[Future]) -> None:
        """End the workers in the middle of what they do."""
        executor = _kept.pop(self._workers, None)
        if executor is None:
            return
        time.sleep(0.1)  # what was submitted last is on its way to the queue
        with warnings.catch_warnings():  # of the ways to find the workers' children, which have none
            warnings.simplefilter("ignore")
            executor.shutdown(wait=True, kill_workers=True)

    def renew(self) -> None:
        """New processes, after one was lost and loky has given up the rest."""
        self.abandon(())


def stop_workers() -> None:
    """End the workers in order, so that the memory of their processes is accounted for."""
    while _kept:
        _kept.popitem()[1].shutdown(wait=True)
