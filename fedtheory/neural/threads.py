"""The split of work: rows trained together, samples evaluated together, and the core for each."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any

import numpy as np
import torch

from fedtheory.neural.interface import NetworkOnSamples
from fedtheory.neural.memory import in_chunks, rows_at_once

__all__ = ["in_pieces", "side_by_side"]

IN_CACHE = 2**22  # bytes of the models a core walks with: what it reads again at the next step should not have left the cache
WORTH_A_THREAD = 2**23  # weights moved by all threads together, well above what starting them costs
WORTH_A_POOL = 2**28  # multiplications of an evaluation (at least), a few milliseconds of one core


def side_by_side(
    problem: NetworkOnSamples, lengths: np.ndarray, work: Callable[[slice, Event], None],
    singly: bool = False, batch: int = 0, alone: bool = False,
) -> None:
    """work(rows, stop) over all rows, which make `lengths` (R,) steps on batches of so many
    samples; on a CPU in as many threads as torch may use.

    A thread takes a few rows at a time and computes with one core. ``stop`` is set when another one
    failed, or on Ctrl-C. Where the work takes its rows `singly` anyway, a thread is given as few as
    one, so that all end together; alone: one thread of torch's own does it all.
    """
    rows, stop = len(lengths), Event()
    size, threads, before = rows_at_once(problem, rows, batch), 1, torch.get_num_threads()
    if problem.device.type == "cpu" and not alone:
        threads = min(before, rows)
        fitting = max(1, IN_CACHE // (problem.dim * problem.dtype.itemsize))
        share = max(1, rows // (8 * threads)) if singly else -(-rows // threads)
        size = min(size, fitting, share) if problem.rows_at_once is None else size
    small = threads == 1 or problem.dim * int(lengths.sum()) < WORTH_A_THREAD
    torch.set_num_threads(1 if threads > 1 else before)
    try:
        _in_threads(problem, rows, size, lambda part: work(part, stop), "steps", 1 if small else threads, stop)
    finally:
        torch.set_num_threads(before)


def in_pieces(
    problem: NetworkOnSamples, total: int, size: int, work: Callable[[slice], Any], kind: str
) -> list[Any]:
    """work(slice) over range(total) in pieces of `size`, the results in their order; on a CPU in as
    many threads as torch may use.

    Each thread computes with one core, so that the numbers do not depend on how many there are.
    """
    threads = torch.get_num_threads()
    few = min(threads, -(-total // size)) < 2 or problem.dim * total < WORTH_A_POOL
    here = problem.device.type != "cpu" or few
    return _in_threads(problem, total, size, work, kind, 1 if here else threads, Event())


def _in_threads(
    problem: NetworkOnSamples, total: int, size: int, work: Callable[[slice], Any], kind: str,
    threads: int, stop: Event,
) -> list[Any]:
    """`in_chunks`, whose pieces are computed by one core each of so many threads."""
    if threads == 1:
        return in_chunks(problem, total, size, work, kind)

    def piece(first: int) -> list[Any]:
        def shifted(part: slice) -> Any:
            return work(slice(first + part.start, first + part.stop))

        count = min(size, total - first)
        return in_chunks(problem, count, count, shifted, kind)

    with ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        waiting = [pool.submit(piece, first) for first in range(0, total, size)]
        try:
            return [found for one in waiting for found in one.result()]
        except BaseException:
            stop.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
