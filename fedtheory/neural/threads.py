"""The split of work: rows trained together, samples evaluated together, and the core for each."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
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
    singly: bool = False, batch: int = 0,
) -> None:
    """work(rows, stop) over all rows, which make `lengths` (R,) steps on batches of so many
    samples; on a CPU in as many threads as torch may use.

    A thread takes a few rows at a time and computes with one core. ``stop`` is set when another one
    failed, or on Ctrl-C. Where the work takes its rows `singly` anyway, a thread is given as few as
    one, so that all end together.
    """
    rows, stop = len(lengths), Event()
    size, threads, before = rows_at_once(problem, rows, batch), 1, torch.get_num_threads()
    if problem.device.type == "cpu":
        threads = min(before, rows)
        fitting = max(1, IN_CACHE // (problem.dim * problem.dtype.itemsize))
        share = max(1, rows // (8 * threads)) if singly else -(-rows // threads)
        size = min(size, fitting, share) if problem.rows_at_once is None else size

    def piece(part: slice) -> None:
        work(part, stop)

    if threads == 1:
        in_chunks(problem, rows, size, piece, "steps")
        return
    pieces = _pieces(problem, rows, size, piece, "steps")
    torch.set_num_threads(1)
    try:
        if problem.dim * int(lengths.sum()) < WORTH_A_THREAD:
            for one in pieces:
                one()
        else:
            _in_threads(threads, pieces, stop)
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
    if problem.device.type != "cpu" or few:
        return in_chunks(problem, total, size, work, kind)
    return _in_threads(threads, _pieces(problem, total, size, work, kind), Event())


def _pieces(
    problem: NetworkOnSamples, total: int, size: int, work: Callable[[slice], Any], kind: str
) -> list[Callable[[], list[Any]]]:
    """Functions that compute `in_chunks` of `size` places each."""

    def piece(first: int) -> list[Any]:
        def shifted(part: slice) -> Any:
            return work(slice(first + part.start, first + part.stop))

        count = min(size, total - first)
        return in_chunks(problem, count, count, shifted, kind)

    return [partial(piece, first) for first in range(0, total, size)]


def _in_threads(threads: int, pieces: list[Callable[[], list[Any]]], stop: Event) -> list[Any]:
    """The pieces' results, each computed by one core of one of the threads."""
    with ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        waiting = [pool.submit(piece) for piece in pieces]
        try:
            return [found for one in waiting for found in one.result()]
        except BaseException:
            stop.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
