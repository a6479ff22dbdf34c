"""Refusals of what would not fit into memory, or not end within a day, before it begins, and the announcement of long work.

Both are bounds from below: what passes may still be too much. A day is `LONGEST`; `unlimited` lets a longer run begin.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path

from fedtheory.errors import InvalidInput

__all__ = ["LONGEST", "announce", "announcing", "ended_within", "free_memory", "in_bytes", "must_end", "must_fit", "unlimited"]

LONGEST = 24 * 3600.0  # seconds
PATIENCE = 2.0  # seconds of work that is not announced
_UNLIMITED: ContextVar[bool] = ContextVar("unlimited", default=False)
_SAY: ContextVar[Callable[[str], None] | None] = ContextVar("say", default=None)
_GROUP = Path("/sys/fs/cgroup")


def free_memory() -> float:
    """Bytes that this process may still take: of the machine, of its control group and of its own
    limit; infinite where unknown."""
    return min(_of_machine(), _of_group(), _of_process())


def _of_machine() -> float:
    with suppress(OSError, ValueError, IndexError):
        lines = Path("/proc/meminfo").read_text().splitlines()
        return 1024.0 * sum(int(line.split()[1]) for line in lines if line.startswith(("MemAvailable:", "SwapFree:")))
    return float("inf")


def _of_group() -> float:
    with suppress(OSError, ValueError, IndexError):
        used = int((_GROUP / "memory.current").read_text())
        cached = [line for line in (_GROUP / "memory.stat").read_text().splitlines() if line.startswith("inactive_file ")]
        return float((_GROUP / "memory.max").read_text()) - used + sum(int(line.split()[1]) for line in cached)
    return float("inf")


def _of_process() -> float:
    with suppress(ImportError, OSError, ValueError, IndexError):
        import resource

        most = resource.getrlimit(resource.RLIMIT_AS)[0]
        if most != resource.RLIM_INFINITY:
            return float(most - int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE"))
    return float("inf")


def must_fit(what: str, numbers: float, remedy: str) -> None:
    """Raise `InvalidInput` where so many float64 numbers are more than the memory that is free; ``what``: '9 scenarios'."""
    numbers = float(min(numbers, 1e300))
    if 8 * numbers > 2**20 and 8 * numbers > (free := free_memory()):
        told = f"{what} would take at least {in_bytes(8 * numbers)} of memory, and {in_bytes(free)}"
        raise InvalidInput(f"{told} are free here: {remedy}")


def must_end(what: str, seconds: float, remedy: str) -> None:
    """Raise `InvalidInput` where so many seconds exceed `LONGEST`, unless within `unlimited`."""
    seconds = float(min(seconds, 1e300))
    if seconds > LONGEST and not _UNLIMITED.get():
        raise InvalidInput(
            f"{what} would take at least {_days(seconds)} here, the limit is {_days(LONGEST)}: "
            f"{remedy}, or begin it within fedtheory.limits.unlimited()"
        )


@contextmanager
def ended_within(seconds: float, what: str, remedy: str) -> Iterator[None]:
    """Raise `InvalidInput` once the block has taken so many seconds of processor time, unless
    within `unlimited`.

    For work whose time is not known before. It takes Unix and the main thread, and that nobody else
    counts by SIGVTALRM; elsewhere the block runs to its end.
    """
    try:
        import signal

        counted = not _UNLIMITED.get() and signal.getitimer(signal.ITIMER_VIRTUAL)[0] == 0
        before = signal.signal(signal.SIGVTALRM, lambda *_: _too_long(seconds, what, remedy)) if counted else None
    except (ImportError, AttributeError, ValueError):  # not here, or not in this thread
        counted = False
    if not counted:
        yield
        return
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def _too_long(seconds: float, what: str, remedy: str) -> None:
    raise InvalidInput(f"{what} took more than {seconds:g} seconds: {remedy}, or give it within fedtheory.limits.unlimited()")


@contextmanager
def announcing(say: Callable[[str], None]) -> Iterator[None]:
    """Within it ``say`` is told the size of long work before that begins."""
    token = _SAY.set(say)
    try:
        yield
    finally:
        _SAY.reset(token)


def announce(what: str, seconds: float) -> None:
    """Tell how large the work is that follows, and about how long it takes, if that is more than two seconds."""
    if (say := _SAY.get()) is not None and seconds > PATIENCE:
        say(f"{what}: about {seconds:.0f} s" if seconds < 120 else f"{what}: about {seconds / 60:.0f} minutes")


@contextmanager
def unlimited() -> Iterator[None]:
    """Within it `must_end` and `ended_within` refuse nothing."""
    token = _UNLIMITED.set(True)
    try:
        yield
    finally:
        _UNLIMITED.reset(token)


def in_bytes(size: float) -> str:
    """'3.1 GiB'."""
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.3g} {unit}"
        size /= 1024
    return f"{size:.3g} TiB" if size < 100 or size >= 1e9 else f"{size:,.0f} TiB"


def _days(seconds: float) -> str:
    """'24 hours', '12 days', '3,200 years'."""
    for unit, size in (("years", 365.25 * 86400), ("days", 86400.0)):
        if seconds >= 2 * size:
            return f"{seconds / size:,.0f} {unit}" if seconds < 1e15 else f"{seconds / size:.0e} {unit}"
    return f"{seconds / 3600:.0f} hours"
