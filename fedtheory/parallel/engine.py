"""The interface of engines, which run tasks in other processes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from concurrent.futures import BrokenExecutor, Executor, Future
from typing import Any

__all__ = ["Engine", "Executors"]


class Engine(ABC):
    """An engine, where tasks run.

    Attributes
    ----------
    ahead : int
        Tasks handed out for each worker.
    lost : exceptions
        What a future raises when its worker has died: the tasks are then given out again.
    one_loss_is_all : bool
        Whether the loss of one worker is the loss of what all of them do.
    same_machine : bool
        Whether its processes see this one's temporary files, and are started by it with the same software.
    shares_files : bool
        Whether a file that they write is seen here.
    """

    name = ""
    ahead = 4
    one_loss_is_all = False
    same_machine = False
    shares_files = False
    lost: tuple[type[BaseException], ...] = (BrokenExecutor,)

    @property
    @abstractmethod
    def workers(self) -> int:
        """The number of tasks that run at the same time, by now."""

    @abstractmethod
    def submit(self, call: Callable[..., Any], *arguments: Any) -> Future:
        """``call(*arguments)`` in another process."""

    def look_after(self) -> None:  # noqa: B027, most engines need no looking after
        """Called now and then while tasks are out: start workers again where none is left."""

    def abandon(self, futures: Iterable[Future]) -> None:
        """Nobody waits for these any more."""
        for future in futures:
            future.cancel()

    def renew(self) -> None:  # noqa: B027, most engines do so themselves
        """Make good the loss of a worker, before its tasks are given out again."""


class Executors(Engine):
    """Any `concurrent.futures.Executor`, such as mpi4py's."""

    def __init__(self, executor: Executor, workers: int | None = None) -> None:
        self._executor = executor
        self._workers = workers or getattr(executor, "_max_workers", None) or 2
        self.name = type(executor).__name__
        self.one_loss_is_all = True

    @property
    def workers(self) -> int:
        return self._workers

    def submit(self, call: Callable[..., Any], *arguments: Any) -> Future:
        return self._executor.submit(call, *arguments)
