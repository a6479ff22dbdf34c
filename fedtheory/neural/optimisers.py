"""The local solvers that remember gradients, on many networks' parameters at once and in place.

The definitions are those of `fedtheory.local.optimisers`.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from fedtheory.local.clipping import clipped_direction
from fedtheory.local.objective import LocalObjective
from fedtheory.local.optimisers import Adam, Momentum
from fedtheory.local.sgd import MiniBatchSolver
from fedtheory.neural.engines.base import descend

__all__ = ["RememberedSteps"]


class RememberedSteps:
    """The steps of R models y (R, d) on f_k + penalty by `Momentum` or `Adam`, with empty memory.

    objective : its arrays (R, d)
    ridge : the weight decay that belongs to f_k
    """

    def __init__(self, solver: MiniBatchSolver, objective: LocalObjective, ridge: float, y: Tensor) -> None:
        self.solver, self.objective, self.ridge = solver, objective, ridge
        self.memory = [torch.zeros_like(y) for _ in range(2 if isinstance(solver, Adam) else 1)]
        self.steps = 0

    def step(self, y: Tensor, gradient: Tensor, lr: Any) -> None:
        """One step of the first rows y (r, d), in place; gradient (r, d) is that of the loss alone, and is overwritten.

        lr : a number, or (r, 1)
        """
        r, objective = len(y), self.objective
        if not objective.none and r < len(self.memory[0]):
            objective = objective.map(lambda a: a[:r])
        g = self._whole(y, gradient, objective)
        self.steps += 1
        if isinstance(self.solver, Momentum):
            self._momentum(y, g, lr, self.solver)
        elif isinstance(self.solver, Adam):
            self._adam(y, g, lr, self.solver, objective)
        else:
            raise TypeError(f"{type(self.solver).__name__} has no steps here")

    def _whole(self, y: Tensor, g: Tensor, objective: LocalObjective) -> Tensor:
        """The gradient with that of the weight decay and of the penalty, clipped where that is asked for."""
        solver, prox = self.solver, self.solver.l1 == "prox"
        if self.ridge:
            g.add_(y, alpha=self.ridge)
        if solver.clip is not None:
            return clipped_direction(objective, y, g, self.ridge, prox, solver.clip, solver.clip_spares)
        if not objective.none:
            g.add_(objective.smooth_penalty_gradient(y))
            if objective.l1 and not prox:
                g.add_(torch.sub(y, objective.l1_center).sign_(), alpha=objective.l1)
        return g

    def _momentum(self, y: Tensor, g: Tensor, lr: Any, solver: Momentum) -> None:
        b = self.memory[0][: len(y)].mul_(solver.momentum).add_(g)
        descend(y, g.add_(b, alpha=solver.momentum) if solver.nesterov else b, lr)

    def _adam(self, y: Tensor, g: Tensor, lr: Any, solver: Adam, objective: LocalObjective) -> None:
        (beta_1, beta_2), (m, v) = solver.betas, (kept[: len(y)] for kept in self.memory)
        m.lerp_(g, 1 - beta_1)
        v.mul_(beta_2).addcmul_(g, g, value=1 - beta_2)
        root = torch.sqrt(v, out=g).div_(math.sqrt(1 - beta_2**self.steps)).add_(solver.eps)
        if solver.decoupled_decay:
            y.mul_(1 - lr * solver.decoupled_decay)
        if isinstance(lr, float):
            y.addcdiv_(m, root, value=-lr / (1 - beta_1**self.steps))
        else:
            y.sub_((m / root).mul_(lr / (1 - beta_1**self.steps)))
        if solver.l1 == "prox" and objective.l1:
            y.copy_(objective.prox(y, lr / root))
