"""A training run's record: checkpoints, TensorBoard's scalars, Ctrl-C, and the result."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedtheory.arrays import astype_like, to_numpy
from fedtheory.errors import CheckpointError, InvalidInput, MissingCapability
from fedtheory.provenance import provenance
from fedtheory.simulation import checkpoints
from fedtheory.simulation.simulate import Resume

if TYPE_CHECKING:
    from torch import nn

    from fedtheory.algorithms.base import Algorithm
    from fedtheory.neural.flat import GivenModule
    from fedtheory.neural.problem import NeuralProblem

__all__ = ["Log", "TrainingRun", "board_in", "patient", "summary_writer"]

_MODELS = "clients' last models"  # beside the state's fields in a checkpoint
SECONDS = 60.0  # between two checkpoints, unless told otherwise


@dataclass
class TrainingRun:
    """The measurements of a training run.

    Attributes
    ----------
    rounds : int
        Rounds done.
    metrics : dict of (rounds + 1, 1) arrays
        Entry 0 is the start. A metric of one's own that returns arrays (c, ...) is (rounds + 1, 1,
        c, ...).
    final : the algorithm's last state; None where the run diverged
    seconds : list of float
        Wall-clock seconds of each round, evaluation included; without the wait for Numba, which
        compiles the steps of small networks once.
    provenance : dict
        Seed, and for every part of the run its rounds, versions, device and time.
    """

    rounds: int
    metrics: dict[str, np.ndarray]
    final: Any
    seconds: list[float] = field(default_factory=list)
    provenance: dict[str, Any] = field(default_factory=dict)
    given: GivenModule | None = field(default=None, repr=False, compare=False)  # the module before training, for `module`

    def __repr__(self) -> str:
        last = ", ".join(f"{name} {float(v[-1, 0]):.4g}" for name, v in self.metrics.items() if v.ndim == 2)
        return f"TrainingRun({self.rounds} rounds{', diverged' if self.final is None else ''}: {last})"

    @property
    def x(self) -> np.ndarray:
        """The server's last model (1, d)."""
        return to_numpy(self.final.x)

    def module(self, device: Any = None, dtype: Any = None) -> nn.Module:
        """A copy of the module that was trained, with the server's last model as its parameters.

        Parameters that were not trained, buffers but running statistics that were averaged, and
        modes (train or eval) are as in the module that was given, and what was shared is shared. Of a method's personal models,
        `NeuralProblem.module` makes one: ``problem.module(run.final.v[0, k])`` for APFL's.

        Parameters
        ----------
        device, dtype : of the copy; None: as the module was given, each parameter by itself

        Raises
        ------
        InvalidInput
            The run diverged, so that there is no last model; no such device or dtype.
        """
        if self.final is None or self.given is None:
            why = "it diverged" if self.final is None else "it was not made by fedtheory.neural.train"
            raise InvalidInput(f"this run has no trained module, because {why}: use problem.module(x) for a model x that you have")
        return self.given.filled(self.final.x, device, dtype)


def summary_writer() -> Any:
    """TensorBoard's writer. Raises `MissingCapability` where it is not installed."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise MissingCapability(
            f"scalars for TensorBoard need tensorboard, which cannot be imported ({error}): pip install 'fedtheory[tensorboard]'"
        ) from error
    return SummaryWriter


@contextmanager
def board_in(folder: Path | str | None, past: int) -> Iterator[Any]:
    """TensorBoard's writer, or None."""
    if folder is None:
        yield None
        return
    with summary_writer()(str(folder), purge_step=past + 1 if past else None) as writer:
        yield writer


@contextmanager
def patient() -> Iterator[Callable[[], bool]]:
    """Lets a round end after Ctrl-C: yields whether one came. A second one interrupts at once;
    where it is ignored, it stays so."""
    asked = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield asked.is_set
        return
    before = signal.getsignal(signal.SIGINT)
    if before in (None, signal.SIG_IGN):  # not Python's, or a background job's, which nobody means to interrupt: leave it
        yield asked.is_set
        return

    def ask(number: int, frame: Any) -> None:
        asked.set()
        signal.signal(signal.SIGINT, before if callable(before) else signal.default_int_handler)

    signal.signal(signal.SIGINT, ask)
    try:
        yield asked.is_set
    finally:
        signal.signal(signal.SIGINT, before)


class Log:
    """The record of a run: what it has done, and what is kept of it after every round."""

    def __init__(self, rounds: int, seed: int, configuration: dict[str, Any], checkpoint: Path | str | None, every: int | None) -> None:
        self.rounds, self.seed, self.configuration = rounds, seed, configuration
        self.checkpoint, self.every = checkpoint, every
        self.past: Resume | None = None
        self.parts: list[dict[str, Any]] = []
        self.seconds: list[float] = []
        self.measured: dict[str, np.ndarray] = {}
        self.saved = self.round_began = 0.0
        self._before = 0  # seconds that are those of earlier parts

    @property
    def done(self) -> int:
        """Rounds of earlier parts."""
        return 0 if self.past is None else self.past.round_index

    @property
    def last(self) -> int:
        """Rounds done by now."""
        return self.done + len(self.seconds) - self._before

    def go_on(self, checkpoint: Path | str, algorithm: Algorithm, problem: NeuralProblem, own_start: bool) -> None:
        """Begin where the checkpoint stands. Raises `CheckpointError` where it is another run's, or
        beyond the rounds asked for."""
        import torch

        from fedtheory.neural import memory

        found = checkpoints.load(checkpoint)
        checkpoints.compare(checkpoint, found.configuration, self.configuration, own_start)
        before = found.configuration.get("problem", {})
        began = {k: before[k] for k in ("start",) if k in before}  # kept when a run goes on
        self.configuration = self.configuration | {"problem": self.configuration["problem"] | began}
        with memory.explained(partial(memory.of_state, algorithm, problem), problem.device):
            shapes = algorithm.init(torch.empty(1, problem.dim, dtype=problem.dtype, device="meta"), problem.num_clients)
            models = found.fields.get(_MODELS)
            held = replace(found, fields={k: v for k, v in found.fields.items() if k != _MODELS})
            state = held.state(problem.like_array(), shapes)
            last = None if models is None else astype_like(models, problem.like_array())
            self.past = Resume(found.round_index, state, measured := dict(found.metrics), last)
        self.parts, self.seconds = list(found.about["parts"]), list(found.about["seconds"])
        self.measured = measured
        if self.done > self.rounds:
            raise CheckpointError(
                f"{checkpoint} is at round {self.done}, beyond rounds = {self.rounds}: ask for as many, or name another file"
            )

    def begin(self, problem: NeuralProblem) -> None:
        """A new part of the run, on this machine, and its clocks."""
        import torch

        made_with = provenance(self.seed, str(problem.device), str(problem.dtype).removeprefix("torch."), "torch")
        machine = {"engine": type(problem.engine).__name__, "threads": torch.get_num_threads(), **made_with}
        self.parts.append({"first_round": self.done + 1, "last_round": self.done, **machine})
        self._before = len(self.seconds)
        self.saved = self.round_began = time.perf_counter()

    def note(self, at: Resume, interrupted: Callable[[], bool], board: Any) -> bool:
        """Take what a round measured, write it for TensorBoard, and the checkpoint where it is due;
        whether the run is to end here."""
        now, t, stop = time.perf_counter(), at.round_index, interrupted()
        self.measured = {} if at.metrics is None else at.metrics
        self.seconds.append(now - self.round_began)
        for name, values in self.measured.items() if board is not None else ():
            if values.ndim == 2 and np.isfinite(values[t, 0]):
                board.add_scalar(name, float(values[t, 0]), t)
        due = now - self.saved >= SECONDS if self.every is None else t % self.every == 0
        if self.checkpoint is not None and (due or stop or t == self.rounds):
            self._save(self.checkpoint, at)
        return stop

    def _save(self, checkpoint: Path | str, at: Resume) -> None:
        self.parts[-1]["last_round"] = at.round_index
        about = {"parts": self.parts, "seconds": self.seconds}
        state = dict(zip(at.state._fields, at.state, strict=True)) | ({} if at.models is None else {_MODELS: at.models})
        checkpoints.save(checkpoint, checkpoints.Checkpoint(at.round_index, self.configuration, self.measured, state, about))
        self.saved = time.perf_counter()

    def run(self, rounds: int, metrics: dict[str, np.ndarray], final: Any, given: GivenModule) -> TrainingRun:
        """Return what is handed to the user after so many rounds."""
        self.parts[-1]["last_round"] = rounds
        made_with = {"seed": self.seed, "parts": self.parts, "configuration": self.configuration}
        return TrainingRun(rounds, metrics, final, self.seconds, made_with, given)
