"""One local step of many networks at once, in place: SGD, momentum and Adam, and a function of the
user's that changes the gradients.

The definitions are those of `fedtheory.local.sgd` and `fedtheory.local.optimisers`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedtheory.errors import InvalidInput, MissingCapability
from fedtheory.local.objective import LocalObjective, Rows
from fedtheory.local.optimisers import Adam, Momentum
from fedtheory.local.sgd import MiniBatchSolver
from fedtheory.neural.augment import of_row
from fedtheory.neural.engines.base import Batch, descend
from fedtheory.neural.interface import NetworkOnSamples
from fedtheory.neural.parts import mapped
from fedtheory.neural.penalty import Penalty

__all__ = ["BatchStep", "LocalStep"]

SCHEDULE = ("batch_size", "lr", "epochs", "steps", "decay", "epoch_decay")  # which the plan knows


@dataclass(frozen=True)
class BatchStep:
    """One step of r models, as `on_gradient` of `fedtheory.local.SGD` is told of it.

    Attributes
    ----------
    clients, scenarios : int arrays (r,)
        Whose models these are, and of which run.
    round, number : int
        The round, from 1, and the step within it, from 0.
    points : (r, d)
        The models before the step.
    """

    clients: np.ndarray
    scenarios: np.ndarray
    round: int
    number: int
    points: Tensor
    _problem: NetworkOnSamples
    _batch: Batch
    _rows: Rows
    _places: tuple[np.ndarray, np.ndarray]

    def per_sample(self) -> tuple[Tensor, Tensor]:
        """The gradients of the loss of every sample alone (r, b, d), and which of them are samples
        of the batch (r, b): the last batch of an epoch may be short."""
        if self._batch.points is not None:
            raise MissingCapability(
                "BatchNorm in train mode has no gradients of single samples: use GroupNorm, or .eval() of the layer"
            )
        samples, targets, _, keys, counts, _ = self._batch
        (r, d), b = self.points.shape, len(targets[0])
        if keys is not None:  # dropout of its own for every sample
            keys = (keys[:, None] + torch.arange(b, device=keys.device)).flatten()
        x, t = (mapped(lambda a: a.flatten(0, 1), given) for given in (samples, targets))
        of_each = self._problem.engine.of_samples(self.points.repeat_interleave(b, dim=0), x, t, keys)
        held = np.full(r, b) if counts is None else counts
        real = torch.arange(b) < torch.from_numpy(held)[:, None]
        return of_each.reshape(r, b, d), real.to(of_each.device)

    def normal(self) -> Tensor:
        """Standard normal numbers (r, d), a function of (seed, round, step, scenario, client)
        alone, and so the same at every call of a step."""
        n, b = self._places
        d = self.points.shape[1]

        def draw(generator: np.random.Generator, count: int) -> np.ndarray:
            return generator.standard_normal((count, d))

        places = zip(n.tolist(), b.tolist(), strict=True)
        drawn = [of_row(self._rows, "gradient", i, j, self.number, draw) for i, j in places]
        return torch.from_numpy(np.stack(drawn)).to(self.points)


class LocalStep:
    """The steps of R models y (R, d) on f_k + penalty by a solver, with empty memory.

    objective : its arrays (R, d)
    told : the `BatchStep` of the first r rows, a batch and the number of a step
        For `solver.on_gradient`.
    """

    def __init__(
        self, problem: NetworkOnSamples, solver: MiniBatchSolver, objective: LocalObjective, y: Tensor,
        told: Callable[[Tensor, Batch, int], BatchStep] | None = None,
    ) -> None:
        self.problem, self.solver, self.told = problem, solver, told
        self.penalty = Penalty(objective, problem.ridge, solver.l1 == "prox", y)
        kept = 2 if isinstance(solver, Adam) else 1 if isinstance(solver, Momentum) else 0
        self.memory = [torch.zeros_like(y) for _ in range(kept)]

    def kind(self) -> tuple[Any, ...]:
        """What of a step is no tensor with a row for each model, and no part of the plan."""
        settings = (getattr(self.solver, f.name) for f in fields(self.solver) if f.name not in SCHEDULE)
        tensors, curvature = self.penalty.tensors(), self.penalty.curvature
        number = None if "curvature" in tensors else curvature
        return type(self.solver), *settings, number, self.penalty.l1, tuple(tensors)

    def of_rows(self, y: Tensor, change: Callable[[Tensor], Tensor]) -> LocalStep:
        """The same steps for the models y, to be recorded, with every tensor passed through `change`."""
        other = copy.copy(self)
        other.penalty, other.memory = self.penalty.on(change), [torch.zeros_like(y) for _ in self.memory]
        return other

    def __call__(self, y: Tensor, batch: Batch, lr: Any, count: Any, bound: Any = None) -> None:
        """Step number `count`, from 1 (a number, or a tensor without axes in double precision), of
        the first rows y (r, d), in place; lr a number, or (r, 1)."""
        solver, penalty, engine = self.solver, self.penalty, self.problem.engine
        clipping = solver.clip, solver.clip_spares
        if solver.clip is None and solver.on_gradient is None and not self.memory:
            engine.step(y, batch, lr, partial(penalty.before, y, lr), bound)
            return penalty.after(y, lr)
        gradient = engine.gradient(y, batch)  # which must be known whole before it moves anything
        if solver.on_gradient is not None:
            assert self.told is not None  # by whoever walks with such a solver
            gradient = _changed(solver.on_gradient(gradient, self.told(y, batch, count - 1)), gradient)
        if not self.memory:
            penalty.move(y, gradient, lr, *clipping)
            return penalty.after(y, lr)
        g = penalty.direction(y, gradient, *clipping)
        if isinstance(solver, Momentum):
            b = self.memory[0][: len(y)].mul_(solver.momentum).add_(g)
            return descend(y, g.add_(b, alpha=solver.momentum) if solver.nesterov else b, lr)
        assert isinstance(solver, Adam)
        return self._adam(y, g, lr, count, solver)

    def _adam(self, y: Tensor, g: Tensor, lr: Any, count: Any, solver: Adam) -> None:
        (beta_1, beta_2), (m, v) = solver.betas, (kept[: len(y)] for kept in self.memory)
        m.lerp_(g, 1 - beta_1)
        v.mul_(beta_2).addcmul_(g, g, value=1 - beta_2)
        root = torch.sqrt(v, out=g).div_((1 - beta_2**count) ** 0.5).add_(solver.eps)
        if solver.decoupled_decay:
            y.mul_(1 - lr * solver.decoupled_decay)
        if isinstance(lr, float) and isinstance(count, int):
            y.addcdiv_(m, root, value=-lr / (1 - beta_1**count))
        else:
            y.sub_((m / root).mul_(lr / (1 - beta_1**count)))
        if self.penalty.prox and self.penalty.l1:
            self.penalty.after(y, lr / root)  # the prox in Adam's own metric


def _changed(found: Any, gradient: Tensor) -> Tensor:
    if not isinstance(found, torch.Tensor) or found.shape != gradient.shape:
        given = tuple(found.shape) if isinstance(found, torch.Tensor) else type(found).__name__
        raise InvalidInput(f"on_gradient returned {given}: return the gradients to use, {tuple(gradient.shape)} as they were given")
    return found.detach().to(gradient)
