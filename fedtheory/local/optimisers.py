"""Local solvers with a memory of past gradients: SGD with momentum, and Adam."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from fedtheory.arrays import Array, namespace
from fedtheory.errors import InvalidInput
from fedtheory.inputs import flag, real_number, require
from fedtheory.local.objective import LocalObjective
from fedtheory.local.sgd import MiniBatchSolver, _with_penalty
from fedtheory.problems.base import Problem

__all__ = ["Adam", "Momentum"]


@dataclass(frozen=True)
class _Remembering(MiniBatchSolver):
    """Steps along what is remembered of the gradients of the whole local objective."""

    reports_steps: ClassVar[bool] = False

    def _whole_gradient(self, problem: Problem, objective: LocalObjective, y: Array, gradient: Array) -> Array:
        """The gradient of f_k, its ridge included, and of the penalty, clipped where that is asked for."""
        if self.clip is not None:
            return self._clipped(problem, objective, y, gradient)
        return _with_penalty(objective, y, gradient, self.l1)


@dataclass(frozen=True)
class Momentum(_Remembering):
    """Mini-batch SGD with momentum, step for step as torch.optim.SGD(momentum=..., dampening=0, nesterov=...).

    b <- momentum * b + g, and y <- y - lr * b, or y - lr * (g + momentum * b) with `nesterov`. The memory b starts at zero in every
    round at every client. g is the gradient of the mini-batch's loss, of the problem's ridge (torch's weight_decay) and of the penalty.

    Parameters
    ----------
    batch_size to clip_spares : as of `SGD`, which also says what is clipped: g, before it is remembered
    momentum : float in (0, 1)
    nesterov : bool

    Raises
    ------
    InvalidInput
        Values out of range. l1='prox': steps become as long as lr/(1 - momentum) while the soft threshold stays lr * l1, so that
        the walk would come to rest at the minimiser of an objective with another l1.

    Notes
    -----
    Steps are no multiples of gradients, so that there is no ``step_sum``: methods that divide by it refuse this solver. Theorems about
    SGD or about exact local solutions are not about it.
    """

    momentum: float = 0.9
    nesterov: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        real_number("momentum", self.momentum, above=0, below=1, remedy="without any use SGD")
        flag("nesterov", self.nesterov)
        if self.l1 == "prox":
            raise InvalidInput(
                "l1 = 'prox' with momentum: the steps grow to lr/(1 - momentum) and the soft threshold does not, so that the walk "
                "would end at the minimiser for another l1: use l1='subgradient', or SGD or Adam with 'prox'"
            )

    def _step(
        self, problem: Problem, objective: LocalObjective, y: Array, gradient: Array, lr: float, memory: Any
    ) -> tuple[Array, Any]:
        g = self._whole_gradient(problem, objective, y, gradient)
        b = g if memory is None else self.momentum * memory + g
        return y - lr * (g + self.momentum * b if self.nesterov else b), b


@dataclass(frozen=True)
class Adam(_Remembering):
    """Adam on mini-batches (Kingma and Ba 2015, Algorithm 1), step for step as torch.optim.Adam; with `decoupled_decay` AdamW.

    m <- beta_1 m + (1 - beta_1) g,  v <- beta_2 v + (1 - beta_2) g^2, and in step t
    y <- y - lr/(1 - beta_1^t) m/(sqrt(v/(1 - beta_2^t)) + eps).

    m, v and t start at zero in every round at every client. g is the gradient of the mini-batch's loss, of the problem's ridge (torch's
    weight_decay) and of the penalty.

    Parameters
    ----------
    batch_size to clip_spares : as of `SGD`, which also says what is clipped: g, before it is remembered
        l1='prox' is the prox in Adam's own metric, with the threshold l1 lr/(sqrt(v/(1 - beta_2^t)) + eps) in each coordinate: a
        minimiser of the local objective is a fixed point. A coordinate that never had a gradient is set on the anchor.
    betas : two floats in [0, 1)
    eps : float > 0
        It has the unit of the gradient.
    decoupled_decay : float >= 0
        y is multiplied by 1 - lr * decoupled_decay before each step, as by torch.optim.AdamW (Loshchilov and Hutter 2019). It is no
        part of the objective, of which the problem's ridge is.

    Raises
    ------
    InvalidInput
        Values out of range.

    Notes
    -----
    Steps are no multiples of gradients, so that there is no ``step_sum``: methods that divide by it refuse this solver. Theorems about
    SGD or about exact local solutions are not about it.
    """

    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    decoupled_decay: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        pair = isinstance(self.betas, tuple | list) and len(self.betas) == 2
        require(pair, "betas", self.betas, "use two numbers in [0, 1)")
        for i, beta in enumerate(self.betas):
            real_number(f"betas[{i}]", beta, least=0, below=1)
        object.__setattr__(self, "betas", tuple(self.betas))
        real_number("eps", self.eps, above=0)
        real_number("decoupled_decay", self.decoupled_decay, least=0)
        if not callable(self.lr):
            self.step_size(1)

    def step_size(self, round_index: int) -> Any:
        lr = super().step_size(round_index)
        limit = f"with lr = {lr!r} it must be below 1/lr"
        require(lr * self.decoupled_decay < 1, "decoupled_decay", self.decoupled_decay, limit)
        return lr

    def _step(
        self, problem: Problem, objective: LocalObjective, y: Array, gradient: Array, lr: float, memory: Any
    ) -> tuple[Array, Any]:
        xp, (beta_1, beta_2) = namespace(y), self.betas
        g = self._whole_gradient(problem, objective, y, gradient)
        m, v, t = memory or (xp.zeros_like(g), xp.zeros_like(g), 0)
        m, v, t = m + (1 - beta_1) * (g - m), beta_2 * v + (1 - beta_2) * g * g, t + 1
        root = xp.sqrt(v) / math.sqrt(1 - beta_2**t) + self.eps
        y = y * (1 - lr * self.decoupled_decay) - lr / (1 - beta_1**t) * m / root
        return objective.prox(y, lr / root) if self.l1 == "prox" else y, (m, v, t)
