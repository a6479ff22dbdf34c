"""A local step recorded once and replayed: a GPU then waits for no Python between the small kernels
of a step.

What a step reads lies in tensors that stay where they are: the models, what the solver remembers,
the tables of some steps, and the number of the step. A recording is of so many rows; those beyond
the models that are on their way have the step size 0, and stay as they are. One recording therefore
serves every step of a walk, later rounds, and cohorts of about its size; as models arrive, a walk
goes on with smaller ones.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from threading import Event
from typing import Any

import torch
from torch import Tensor

from fedtheory.neural.engines.base import Loop
from fedtheory.neural.interface import NetworkOnSamples
from fedtheory.neural.optimisers import LocalStep
from fedtheory.neural.plans import Tables, taken

__all__ = ["CudaGraph", "SideStreams", "Walks", "of_problem"]

ALIGNED = 128  # bytes
STREAMS = 8
KEPT = 24  # recordings of a problem, each of which holds its models and gradients
STEPS = 128  # whose tables are brought to a recording at once
FILLED = 0.5  # of a GPU's memory, above which old recordings make room for a new one


class CudaGraph:
    """Work of a device, recorded by `torch.cuda.CUDAGraph`."""

    def __init__(self) -> None:
        self._graph = torch.cuda.CUDAGraph()

    def record(self, work: Callable[[], None]) -> None:
        """Take down what `work` launches, without doing it. Raises RuntimeError where it needs the
        host on the way."""
        _without_the_host(work)
        stream, ended = torch.cuda.current_stream(), False
        try:
            with torch.cuda.graph(self._graph):
                work()
            ended = True
        finally:
            torch.cuda.set_stream(stream)  # which torch leaves at that of a capture that fails
            if not ended:  # and its pool of memory open
                with suppress(Exception):
                    torch._C._cuda_endAllocateToPool(torch.cuda.current_device(), self._graph.pool())

    def replay(self) -> None:
        """Do what was recorded again, on the same tensors."""
        self._graph.replay()


def _without_the_host(work: Callable[[], None]) -> None:
    """Do the work. Raises RuntimeError where it waits for the device on the way."""
    before = torch.cuda.get_sync_debug_mode()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Synchronization debug mode is a prototype")
        torch.cuda.set_sync_debug_mode("error")
    try:
        work()
    finally:
        torch.cuda.set_sync_debug_mode(before)


def _crowded(y: Tensor) -> bool:
    """True if the GPU of y has little memory left for more recordings."""
    if y.device.type != "cuda":
        return False
    whole = torch.cuda.get_device_properties(y.device).total_memory
    return torch.cuda.memory_reserved(y.device) > FILLED * whole


class SideStreams:
    """Streams beside the current one, for models that are computed one after another: each waits
    for what came before, not for the others. A recording keeps that order, and replays the models
    side by side."""

    def __init__(self) -> None:
        self._streams = [torch.cuda.Stream() for _ in range(STREAMS)]
        self._used: list[Any] = []

    def lane(self, row: int) -> Any:
        """Return the context that computes this row. It comes after all that was launched before
        the first of the rows."""
        stream = self._streams[row % STREAMS]
        if stream not in self._used:
            stream.wait_stream(torch.cuda.current_stream())
            self._used.append(stream)
        return torch.cuda.stream(stream)

    def join(self) -> None:
        """Let what is launched from now on wait for all rows."""
        for stream in self._used:
            torch.cuda.current_stream().wait_stream(stream)
        self._used.clear()


class Walks:
    """The recorded steps of one problem, by what they depend on."""

    def __init__(
        self, graph: Callable[[], Any] = CudaGraph, lanes: Callable[[], Any] = SideStreams
    ) -> None:
        self._graph, self._lanes, self._steps = graph, lanes, dict[Any, _Recording]()
        self.refused = False

    def __reduce__(self) -> Any:  # recordings are of this process and this problem
        return Walks, (self._graph, self._lanes)

    def walk(self, step: LocalStep, y: Tensor, tables: Tables, stop: Event) -> bool:
        """All steps of y (R, d), in place; False where they cannot be recorded, and y is as it was."""
        if self.refused or not tables.alike.any():
            return False
        state, done = [y, *step.memory], []
        try:
            for first, last, size in _blocks(tables.walking):
                recording = self._recording(step, state, tables, first, last, size)
                state = recording.walk(tables, first, last, stop)
                done.append(recording)
        except torch.OutOfMemoryError:
            self._steps.clear()
            raise
        except RuntimeError as error:
            self.refused = True
            warnings.warn(
                f"a training step cannot be recorded as a CUDA graph ({str(error).splitlines()[0]}), so that every step is launched "
                "from Python, which is slower: leave out of the module and the loss what asks for a tensor's values, as .item() does",
                UserWarning,
                stacklevel=2,
            )
            return False
        for recording in done:  # the rows that a smaller one has left out had arrived
            here = min(len(y), len(recording.y))
            y[:here].copy_(recording.y[:here])
        return True

    def _recording(
        self, step: LocalStep, state: list[Tensor], tables: Tables, first: int, last: int, size: int
    ) -> _Recording:
        """A recording of that size, which holds these models and the tables of these steps."""
        shapes = tuple(None if a is None else a.shape[2:] for a in tables.on_device())
        key = size, state[0].shape[1], shapes, step.kind()
        kept = self._steps.pop(key, None)
        if kept is None:
            if _crowded(state[0]):
                self._steps.clear()
            elif len(self._steps) >= KEPT:
                del self._steps[next(iter(self._steps))]  # the one not used for longest
            alike = first + int(tables.alike[first:last].argmax())
            kept = _Recording(step, state, tables, alike, size, self._graph(), self._lanes)
        kept.fill(step, state, tables, first, last)
        self._steps[key] = kept
        return kept


def _rows_of(count: int) -> int:
    """Rows of the recording for a cohort: so many, or at most a quarter more, of a few sizes."""
    by = max(1, min(8, 1 << max(0, count.bit_length() - 3)))
    return -(-count // by) * by


def _fewer_rows(count: int) -> int:
    """Rows of the recording on which so many go on: 1, 2, 3, 4, 6, 8, 12, 16, 24..."""
    power = 1 << (count - 1).bit_length()
    return power * 3 // 4 if count <= power * 3 // 4 else power


def _blocks(walking: list[int]) -> Iterator[tuple[int, int, int]]:
    """Steps (first, last) to be done by a recording of that size, on rows of which so many walk."""
    first, size = 0, _rows_of(walking[0])
    for j, count in enumerate(walking):
        fewer = min(size, _fewer_rows(count))
        if j > first and (fewer < size or j - first == STEPS):
            yield first, j, size
            first = j
        size = fewer
    yield first, len(walking), size


def _aligned(rows: int, like: Tensor) -> Tensor:
    """Zeros (rows, d), which begin at multiples of 128 bytes, as a GPU reads them best."""
    entries = max(1, ALIGNED // like.element_size())
    return like.new_zeros(rows, -(-like.shape[1] // entries) * entries)[:, : like.shape[1]]


class _Recording:
    """One step of `size` rows, its tensors, and the graph that replays it.

    alike : the number of a step that can be recorded, on whose samples it is tried
    """

    def __init__(
        self, step: LocalStep, state: list[Tensor], tables: Tables, alike: int, size: int,
        graph: Any, lanes: Callable[[], Any],
    ) -> None:
        self.problem, self.graph, y = step.problem, graph, state[0]
        self.lanes = lanes() if isinstance(self.problem.engine, Loop) else None
        self.y = _aligned(size, y)
        # the step's place in the tables, and the steps before them
        self.at, self.before = (torch.zeros(1, dtype=torch.int64, device=y.device) for _ in range(2))
        self.tables = [None if a is None else a.new_zeros((STEPS, size, *a.shape[2:])) for a in tables.on_device()]
        self.step = step.of_rows(self.y, lambda a: _aligned(size, a))
        self.bound = self.problem.engine.bind(self.y) if self.lanes is None else None
        self._tried(lambda: self.fill(step, state, tables, alike, alike + 1))

    @property
    def state(self) -> list[Tensor]:
        """The models, and what the solver remembers of each."""
        return [self.y, *self.step.memory]

    def fill(self, step: LocalStep, state: list[Tensor], tables: Tables, first: int, last: int) -> None:
        """Take the models of `state`, or those that fit, and the tables of steps first to last."""
        given = zip(self.state, state, strict=True)
        penalties = zip(self.step.penalty.tensors().values(), step.penalty.tensors().values(), strict=True)
        for mine, own in (*given, *penalties):
            if mine is not own:
                rows = min(len(mine), len(own))
                mine[:rows].copy_(own[:rows])
                mine[rows:].copy_(own[:1])  # whatever is a model; its step size is 0
        self.at.zero_()
        for table, own in zip(self.tables, tables.on_device(), strict=True):
            if table is not None:
                assert own is not None  # both are there, or neither
                rows = min(table.shape[1], own.shape[1])
                table[:, rows:].zero_()
                table[: last - first, :rows].copy_(own[first:last, :rows])
        self.before.fill_(first)

    def walk(self, tables: Tables, first: int, last: int, stop: Event) -> list[Tensor]:
        """Do these steps, by the graph those that are alike, and return `state`."""
        for j in range(first, last):
            if stop.is_set():
                break
            if tables.alike[j]:
                self.graph.replay()
                continue
            r = tables.walking[j]  # batches of several sizes, which are cut
            with torch.no_grad():
                self.step(self.y[:r], tables.batch(j), tables.lr[j, :r], j + 1)
                self.at.add_(1)
        return self.state

    def _tried(self, begin: Callable[[], None]) -> None:
        """Record, and compare what is replayed with what the step does by itself. Raises RuntimeError where they differ."""
        begin()
        start = self.y.clone()
        for _ in range(2):  # the first lets libraries choose their kernels and take their memory
            begin()
            self._once()
        alone = self.y.clone()
        begin()
        self.graph.record(self._once)
        begin()
        self.graph.replay()
        difference, size = (alone - self.y).abs().max(), (alone - start).abs().max()
        if bool(difference > 1e-3 * size) or int(self.at) != 1:  # a number that is none passes: the run itself will tell it
            raise RuntimeError("replayed, it does not give what it gives alone")

    def _once(self) -> None:
        engine: Any = self.problem.engine
        if self.lanes is not None:
            engine.lanes = self.lanes
        try:
            with torch.no_grad():
                self._step()
        finally:
            if self.lanes is not None:
                engine.lanes = None

    def _step(self) -> None:
        now: list[Any] = [None if a is None else a.index_select(0, self.at)[0] for a in self.tables]
        samples, weights, lr, keys, how = now
        batch = taken(self.problem, samples, weights, keys, how)
        kept = [a.clone() for a in self.state]
        count = (self.at + self.before + 1)[0].double() if self.step.memory else None
        self.step(self.y, batch, lr, count, self.bound)
        for a, old in zip(self.state, kept, strict=True):
            a.copy_(torch.where(lr > 0, a, old))
        self.at.add_(1)


def of_problem(problem: NetworkOnSamples) -> Walks | None:
    """Return the recordings of a problem; None where its steps are not recorded, but on a GPU."""
    return problem.walks if problem.device.type == "cuda" else None
