"""Independent tasks on any engine: results as they come, lost workers made good, and a Ctrl-C that
ends everything in order."""

from __future__ import annotations

import math
import signal
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import contextmanager
from typing import Any

from fedtheory.errors import WorkerLost
from fedtheory.parallel.engine import Engine
from fedtheory.parallel.engines import chosen_engine
from fedtheory.parallel.worker import Done, one_thread, software, work_through

__all__ = ["as_finished", "held_back", "interrupted"]

TRIES = 3  # of a task whose worker was lost
TOGETHER = 0.1  # seconds: shorter tasks are sent several at once, so that sending them costs little beside doing them
MOST = 256  # of them


def interrupted(error: BaseException | None) -> bool:
    """True if an interrupt is behind the error: joblib's clean-up may fail after one and hide it, and so may an import."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None


@contextmanager
def held_back() -> Iterator[Callable[[], bool]]:
    """True if there was a Ctrl-C, asked where it can be served; a second one is raised at once."""
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


def as_finished(
    work: Callable[[Any], Any], tasks: Sequence[Any], workers: int, here: float = 0.0
) -> Iterator[tuple[int, Any]]:
    """(index, work(task)) for all tasks, in the order in which they finish.

    They run on the engine in use (`fedtheory.parallel.engines`): on that many processes of this
    machine, unless another was chosen; with 1, in this process and in order. Each has one BLAS
    thread, so that results do not depend on where they come from.

    ``here``: seconds for which tasks are done in this process before others are started, as few
    small tasks are not worth that. Ctrl-C ends the workers and is raised here, as
    KeyboardInterrupt, between two results: what was yielded is whole.

    Raises
    ------
    WorkerLost
        The worker of a task died, each of the three times that it was given out.
    """
    engine = chosen_engine(workers)
    todo, start = deque(range(len(tasks))), time.monotonic()
    alone = engine is None or (len(tasks) <= 1 and engine.same_machine)
    while todo and (alone or time.monotonic() - start < here):
        i = todo.popleft()
        with one_thread:
            result = work(tasks[i])
        yield i, result
    if not todo:
        return
    if isinstance(engine, Engine):
        yield from _on_engine(engine, work, tasks, todo)
    elif engine is not None:
        with one_thread:
            for i, done in engine.results(_numbered, ((i, None if engine.same_machine else software(), work, tasks[i]) for i in todo)):
                if done.error is not None:
                    raise done.error
                yield i, done.results[0]


def _numbered(argument: tuple[int, Any, Callable[[Any], Any], Any]) -> tuple[int, Done]:
    i, expected, work, task = argument
    return i, work_through(expected, work, [task])


class _Parcels:
    """The number of tasks sent at once: about `TOGETHER` seconds of them, fewer towards the end."""

    def __init__(self) -> None:
        self._seconds = math.inf  # of one task

    def size(self, left: int, workers: int) -> int:
        return max(1, min(int(TOGETHER / max(self._seconds, 1e-9)), MOST, left // (4 * workers)))

    def saw(self, done: Done) -> None:
        """Of the newest results: what tasks cost may change on the way."""
        if done.results:
            each = done.seconds / len(done.results)
            self._seconds = each if math.isinf(self._seconds) else 0.5 * (self._seconds + each)


def _on_engine(engine: Engine, work: Callable[[Any], Any], tasks: Sequence[Any], todo: deque[int]) -> Iterator[tuple[int, Any]]:
    expected = None if engine.same_machine else software()
    waiting: dict[Future, list[int]] = {}
    tries: dict[int, int] = {}  # of tasks whose worker was lost
    parcels = _Parcels()

    def send() -> None:
        workers = max(engine.workers, 1)
        while todo and len(waiting) < engine.ahead * workers:
            alone = todo[0] in tries or any(i in tries for some in waiting.values() for i in some)
            if alone and waiting and engine.one_loss_is_all:  # the task that ends its worker is to take no other with it
                return
            some = [todo.popleft() for _ in range(1 if alone else parcels.size(len(todo), workers))]
            waiting[engine.submit(work_through, expected, work, [tasks[i] for i in some])] = some

    with held_back() as asked_to_stop:
        try:
            while todo or waiting:
                try:
                    send()
                except engine.lost as error:  # noticed when something was sent
                    _again(engine, list(waiting), waiting, todo, tries, error)
                    continue
                engine.look_after()
                done, _ = wait(waiting, timeout=0.2, return_when=FIRST_COMPLETED)
                for future in done:
                    if isinstance(loss := future.exception(), engine.lost):
                        _again(engine, [future], waiting, todo, tries, loss)
                        break
                    some, finished = waiting.pop(future), future.result()
                    parcels.saw(finished)
                    yield from zip(some, finished.results)
                    if finished.error is not None:
                        raise finished.error
                    todo.extendleft(reversed(some[len(finished.results) :]))
                if asked_to_stop():
                    raise KeyboardInterrupt
        except BaseException:  # an abandoned generator, too
            engine.abandon(list(waiting))
            raise


def _again(
    engine: Engine, broken: list[Future], waiting: dict[Future, list[int]], todo: deque[int],
    tries: dict[int, int], error: BaseException,
) -> None:
    """Give out a lost worker's tasks again, before the rest and in the same order."""
    if engine.one_loss_is_all:  # what finished meanwhile has its result
        broken = [f for f in waiting if not f.done() or f.cancelled() or f.exception() is not None]
    lost = sorted(i for future in broken for i in waiting.pop(future))
    for i in lost:
        tries[i] = tries.get(i, 0) + 1
        if tries[i] >= TRIES:
            raise WorkerLost(i, TRIES) from error
    todo.extendleft(reversed(lost))
    warnings.warn(f"a worker died ({type(error).__name__}): what it was doing is done again", stacklevel=2)
    engine.renew()
