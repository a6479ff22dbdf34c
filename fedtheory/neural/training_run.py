"""What a training run has done: it is handed to the user, and kept in checkpoints."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from fedtheory.algorithms.base import Algorithm
from fedtheory.arrays import astype_like, to_numpy
from fedtheory.errors import InvalidInput
from fedtheory.neural import memory
from fedtheory.neural.flat import GivenModule
from fedtheory.neural.problem import NeuralProblem
from fedtheory.simulation.simulate import Resume
from fedtheory.store import checkpoints

__all__ = ["TrainingRun", "scalars"]

_MODELS = "clients' last models"  # beside the state's fields in a checkpoint


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

    # --- checkpoints ------------------------------------------------------------------------------
    def _save(self, path: Path, at: Resume) -> None:
        """Keep the state after a round, and what was measured up to it."""
        state = at.state._asdict() | ({} if at.models is None else {_MODELS: at.models})
        about = {"parts": self.provenance["parts"], "seconds": self.seconds}
        configuration = self.provenance["configuration"]
        checkpoints.save(path, checkpoints.Checkpoint(at.round_index, configuration, self.metrics, state, about))

    def _go_on(self, path: Path, algorithm: Algorithm, problem: NeuralProblem, own_start: bool) -> Resume:
        """Take up what a checkpoint holds. Raises `CheckpointError` where it is another run's."""
        found, mine = checkpoints.load(path), self.provenance["configuration"]
        checkpoints.compare(path, found.configuration, mine, own_start)
        before = found.configuration.get("problem", {})
        mine["problem"] |= {k: before[k] for k in ("start",) if k in before}  # kept when a run goes on
        with memory.explained(partial(memory.of_state, algorithm, problem), problem.device):
            shapes = algorithm.init(torch.empty(1, problem.dim, dtype=problem.dtype, device="meta"), problem.num_clients)
            models = found.fields.get(_MODELS)
            held = replace(found, fields={k: v for k, v in found.fields.items() if k != _MODELS})
            state = held.state(problem.like_array(), shapes)
            models = None if models is None else astype_like(models, problem.like_array())
        self.rounds, self.metrics, self.seconds = found.round_index, dict(found.metrics), list(found.about["seconds"])
        self.provenance["parts"] = list(found.about["parts"])
        return Resume(self.rounds, state, self.metrics, models)


def scalars(folder: Path | str) -> Callable[[Resume], None]:
    """An ``on_round`` of `train` that writes every number for TensorBoard."""
    from torch.utils.tensorboard import SummaryWriter

    board: Any = None

    def write(at: Resume) -> None:
        nonlocal board
        board = board or SummaryWriter(str(folder), purge_step=at.round_index)  # rounds that are made again
        for name, values in (at.metrics or {}).items():
            if values.ndim == 2 and np.isfinite(values[-1, 0]):
                board.add_scalar(name, float(values[-1, 0]), at.round_index)
        board.flush()

    return write
