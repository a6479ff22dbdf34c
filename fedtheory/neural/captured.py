"""A local step recorded once and replayed: a GPU then waits for no Python between the small kernels
of a step.

What a step reads lies in tensors that stay where they are: the models, the tables of the whole
walk, and the number of the step. Rows that have arrived are left as they are, so that one recording
serves every step of a walk, and the walks of later rounds.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from fedtheory.neural.engines.base import Batch, Loop
from fedtheory.neural.interface import NetworkOnSamples
from fedtheory.neural.parts import gathered
from fedtheory.neural.penalty import Penalty

__all__ = ["CudaGraph", "SideStreams", "Walks", "of_problem"]

ALIGNED = 128  # bytes
STREAMS = 8
KEPT = 16  # recordings of a problem, each of which holds its models and gradients
FILLED = 0.5  # of a GPU's memory, above which old recordings make room for a new one


class CudaGraph:
    """Work of a device, recorded by `torch.cuda.CUDAGraph`."""

    def __init__(self) -> None:
        self._graph = torch.cuda.CUDAGraph()

    def record(self, work: Callable[[], None]) -> None:
        """Take down what `work` launches, without doing it. Raises RuntimeError where it needs the
        host on the way."""
        _without_the_host(work)  # a capture that fails on its way leaves its pool of memory open
        stream = torch.cuda.current_stream()
        try:
            with torch.cuda.graph(self._graph):
                work()
        except BaseException:
            torch.cuda.set_stream(stream)  # which torch leaves at the capture's
            raise

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
        self._graph, self._lanes, self._steps = graph, lanes, dict[Any, _Step]()
        self.refused = False

    def __reduce__(self) -> Any:  # recordings are of this process and this problem
        return Walks, (self._graph, self._lanes)

    def walk(
        self, problem: NetworkOnSamples, penalty: Penalty, clip: tuple[float | None, str | None], y: Tensor, tables: tuple[Any, ...]
    ) -> bool:
        """All steps of y (R, d), in place; False where they cannot be recorded, and y is as it was.

        Parameters
        ----------
        clip : `SGD.clip` and `SGD.clip_spares`
        tables : samples (T, R, b) int64, weights (T, R, b) or None, step sizes (T, R, 1), which are
            0 once a row has arrived, and keys of dropout (T, R) int64 or None
        """
        if self.refused:
            return False
        samples, weights, *_ = tables
        steps = len(samples)
        room = 1 << (steps - 1).bit_length()  # so that a few samples more or less need no other recording
        key = (tuple(y.shape), samples.shape[1:], room, weights is None, clip, _numbers(penalty))
        step = self._steps.pop(key, None)
        try:
            if step is None:
                if _crowded(y):
                    self._steps.clear()
                elif len(self._steps) >= KEPT:
                    del self._steps[next(iter(self._steps))]  # the one not used for longest
                step = _Step(problem, penalty, clip, y, tables, room, self._graph(), self._lanes)
            else:
                step.fill(penalty, y, tables)
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
        self._steps[key] = step
        for _ in range(steps):
            step.graph.replay()
        y.copy_(step.y)
        return True


def _numbers(penalty: Penalty) -> tuple[Any, ...]:
    """Return what of a penalty a recording holds as numbers; of its tensors, the shapes."""
    return penalty.prox, *(tuple(v.shape) if isinstance(v, torch.Tensor) else v for v in _parts(penalty).values())


def _parts(penalty: Penalty) -> dict[str, Any]:
    return {name: getattr(penalty, name) for name in ("pull", "anchor", "slope", "curvature", "ridge", "l1")}


def _aligned(y: Tensor) -> Tensor:
    """A copy of (R, d) whose rows begin at multiples of 128 bytes, as a GPU reads them best."""
    entries = max(1, ALIGNED // y.element_size())
    room = y.new_zeros(len(y), -(-y.shape[1] // entries) * entries)[:, : y.shape[1]]
    return room.copy_(y)


class _Step:
    """One step, its tensors, and its recording."""

    def __init__(
        self, problem: NetworkOnSamples, penalty: Penalty, clip: tuple[float | None, str | None],
        y: Tensor, tables: tuple[Any, ...], room: int, graph: Any, lanes: Callable[[], Any],
    ) -> None:
        self.problem, self.clip, self.graph = problem, clip, graph
        self.lanes = lanes() if isinstance(problem.engine, Loop) else None
        self.y, self.at = _aligned(y), torch.zeros(1, dtype=torch.int64, device=y.device)
        self.tables = [None if a is None else a.new_zeros((room, *a.shape[1:])) for a in tables]
        self.penalty, penalty.compiled, penalty.recorded = penalty, False, True
        for name, value in _parts(penalty).items():
            if isinstance(value, torch.Tensor):
                setattr(penalty, name, _aligned(value) if value.shape == y.shape else value.clone())
        self.bound = problem.engine.bind(self.y) if self.lanes is None else None
        self.fill(penalty, y, tables)
        self._tried()
        self.fill(penalty, y, tables)

    def fill(self, penalty: Penalty, y: Tensor, tables: tuple[Any, ...]) -> None:
        """The tensors of another walk."""
        self.y.copy_(y)
        self.at.zero_()
        for mine, given in zip(self.tables, tables, strict=True):
            if mine is not None:
                mine[: len(given)].copy_(given)
        for name, value in _parts(penalty).items():
            if isinstance(value, torch.Tensor):
                getattr(self.penalty, name).copy_(value)

    def _tried(self) -> None:
        """Record, and compare what is replayed with what the step does by itself. Raises RuntimeError where they differ."""
        start = self.y.clone()
        for _ in range(2):  # the first lets libraries choose their kernels and take their memory
            self.y.copy_(start)
            self.at.zero_()
            self._once()
        alone = self.y.clone()
        self.y.copy_(start)
        self.at.zero_()
        self.graph.record(self._once)
        self.y.copy_(start)
        self.at.zero_()
        self.graph.replay()
        difference, size = (alone - self.y).abs().max(), (alone - start).abs().max()
        if bool(difference > 1e-3 * size) or int(self.at) != 1:  # a number that is none passes: the run itself will tell it
            raise RuntimeError("replayed, it does not give what it gives alone")

    def _once(self) -> None:
        if self.lanes is None:
            return self._step()
        assert isinstance(self.problem.engine, Loop)
        self.problem.engine.lanes = self.lanes
        try:
            self._step()
        finally:
            self.problem.engine.lanes = None

    def _step(self) -> None:
        now: list[Any] = [None if a is None else a.index_select(0, self.at)[0] for a in self.tables]
        (samples, weights, lr, keys), (limit, spares) = now, self.clip
        problem, y, penalty = self.problem, self.y, self.penalty
        with torch.no_grad():
            x = gathered(problem.inputs, samples)
            batch = Batch(x, problem.targets[samples], weights, keys)
            before = y.clone()
            problem.engine.padded = True
            try:
                if limit is None:
                    problem.engine.step(y, batch, lr, lambda: penalty.before(y, lr), self.bound)
                else:
                    penalty.clipped_step(y, problem.engine.gradient(y, batch), lr, limit, spares)
            finally:
                problem.engine.padded = False
            penalty.after(y, lr)
            y.copy_(torch.where(lr > 0, y, before))
            self.at.add_(1)


def of_problem(problem: NetworkOnSamples, weighted: bool) -> Walks | None:
    """Return the recordings of a problem; None where its steps are not recorded. They are on a GPU,
    with images as they are, samples on it, and a loss that takes the weights it needs."""
    if problem.device.type != "cuda" or problem.augment is not None or problem.on_host:
        return None
    if weighted and (not problem.loss.weighted or problem.flat.depends_on_batch):
        return None
    return problem.walks
