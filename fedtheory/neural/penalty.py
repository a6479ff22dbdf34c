"""The part of a local step that needs no data: the pull of the penalty and of the weight decay, and
the l1 term, in place."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedtheory.compiled import available
from fedtheory.local.clipping import EPSILON
from fedtheory.local.objective import LocalObjective
from fedtheory.neural.engines.compiled import PenaltyTerms
from fedtheory.neural.engines.kernels import penalise, shrink
from fedtheory.neural.fused import fused

__all__ = ["Penalty"]


class Penalty:
    """-<linear, y> + slope/2 ||y||^2 - <curvature center, y> + l1 ||y - anchor||_1 of R rows;
    slope = curvature + ridge.

    On a CPU with Numba everything is done in one compiled pass over y: on small batches a step
    costs what it takes to move the weights.
    """

    def __init__(self, objective: LocalObjective, ridge: float, prox: bool, y: Tensor) -> None:
        curvature = objective.curvature
        pull = objective.linear
        if not (isinstance(curvature, float | int) and curvature == 0):
            pulled = objective.center * curvature
            pull = pulled if pull is None else pull + pulled
        self.pull, self.slope, self.prox = pull, curvature + ridge, prox
        self.curvature, self.ridge = curvature, ridge
        self.l1 = float(objective.l1)
        self.anchor: Any = objective.l1_center if self.l1 else None
        self.recorded = False  # whether a GPU records the steps: shapes stay, and step sizes are tensors
        self.compiled = available() and y.device.type == "cpu" and not isinstance(self.slope, torch.Tensor)
        if self.compiled:
            none = y.new_empty((len(y), 0))
            self.arrays = [(none if a is None else a.contiguous()).numpy() for a in (self.pull, self.anchor)]
            self._l1 = y.numpy().dtype.type(self.l1)

    def terms(self, clip: float | None, spares: str | None) -> PenaltyTerms:
        """The same as the compiled walks take it, on a CPU with one slope for all; clip and spares as in `clipped_step`."""
        pull, anchor = self.arrays
        kind = type(self._l1)
        later = self.ridge + (self.curvature if spares == "curvature" else 0.0)  # what is not clipped
        slopes = np.array([self.slope - later, later] if clip else [0.0, self.slope], kind)
        return PenaltyTerms(pull, anchor, slopes, self._l1, self.prox, kind(clip or 0.0))

    def before(self, y: Tensor, lr: Any) -> float:
        """To the first rows y (r, d), in place, what the gradient of the penalty does to them; lr a number, or (r, 1).

        The factor returned is what y is still to be multiplied with.
        """
        subgradient = self.l1 > 0 and not self.prox
        if self.pull is None and not subgradient and isinstance(lr, float) and not isinstance(self.slope, torch.Tensor):
            return 1.0 - lr * self.slope
        r = len(y)
        if self.compiled:
            pull, anchor = self.arrays
            rows = y.numpy()
            penalise(rows, _each(lr, rows), rows.dtype.type(self.slope), pull, anchor if subgradient else anchor[:, :0], self._l1)
            return 1.0
        slope = self.slope[:r] if isinstance(self.slope, torch.Tensor) else self.slope
        pull, anchor = None if self.pull is None else self.pull[:r], self.anchor[:r] if subgradient else None
        (_pulled_at_once if self.recorded else _pulled)(y, lr, slope, pull, anchor, self.l1)
        return 1.0

    def clipped_step(self, y: Tensor, gradient: Tensor, lr: Any, limit: float, spares: str | None) -> None:
        """One step of the first rows y (r, d), in place, with what `fedtheory.local.clipping` clips
        cut to `limit` in each row.

        gradient (r, d) is that of the loss alone; lr a number, or (r, 1).
        """
        r = len(y)
        curvature = self.curvature[:r] if isinstance(self.curvature, torch.Tensor) else self.curvature
        slope, later = (0.0, self.ridge + curvature) if spares == "curvature" else (curvature, self.ridge)
        pull, anchor = None if self.pull is None else self.pull[:r], self.anchor[:r] if self.l1 and not self.prox else None
        (_clipped_at_once if self.recorded else _clipped)(y, gradient, lr, limit, slope, later, pull, anchor, self.l1)

    def after(self, y: Tensor, lr: Any) -> None:
        """Apply the prox of lr l1 ||. - anchor||_1 to the first rows y, where the term is one."""
        if not (self.l1 and self.prox):
            return
        if self.compiled:
            rows = y.numpy()
            shrink(rows, _each(lr, rows), self.arrays[1], self._l1)
            return
        (_shrunk_at_once if self.recorded else _shrunk)(y, lr, self.l1, self.anchor[: len(y)])


def _pulled(y: Tensor, lr: Any, slope: Any, pull: Tensor | None, anchor: Tensor | None, l1: float) -> None:
    """y <- y - lr (slope y - pull + l1 sign(y - anchor))."""
    moved = y * slope
    if pull is not None:
        moved.sub_(pull)  # before anything is scaled: on the center it is 0, and no rounding error passes for a move
    if anchor is not None:
        moved.add_(torch.sub(y, anchor).sign_(), alpha=l1)
    y.sub_(moved, alpha=lr) if isinstance(lr, float) else y.addcmul_(moved, lr, value=-1.0)


def _clipped(
    y: Tensor, gradient: Tensor, lr: Any, limit: float, slope: Any, later: Any, pull: Tensor | None, anchor: Tensor | None, l1: float
) -> None:
    """y <- (1 - lr later) y - lr clipped(gradient - pull + slope y + l1 sign(y - anchor))."""
    if pull is not None:
        gradient = gradient - pull
    if isinstance(slope, torch.Tensor) or slope:
        tensor = isinstance(slope, torch.Tensor)
        gradient = torch.addcmul(gradient, y, slope) if tensor else torch.add(gradient, y, alpha=slope)
    if anchor is not None:
        gradient = torch.add(gradient, torch.sub(y, anchor).sign(), alpha=l1)
    norm = torch.sqrt(torch.sum(gradient * gradient, dim=-1, keepdim=True))
    step = torch.clip(limit / (norm + EPSILON), None, 1.0) * lr  # `clipped_factor`, which a compiler cannot look through
    y.copy_(torch.addcmul(y * (1.0 - lr * later), gradient, step, value=-1.0))


def _shrunk(y: Tensor, lr: Any, l1: float, anchor: Tensor) -> None:
    """y <- prox of lr l1 ||. - anchor||_1."""
    moved, bound = y - anchor, lr * l1  # a number, or (r, 1): nothing is sent to a GPU
    y.copy_(anchor + (moved - moved.clamp(-bound, bound)))  # the brackets keep zeros exact


_pulled_at_once, _clipped_at_once, _shrunk_at_once = fused(_pulled), fused(_clipped), fused(_shrunk)


def _each(lr: Any, rows: Any) -> Any:
    """The step size of each row (r,)."""
    return np.full(len(rows), lr, dtype=rows.dtype) if isinstance(lr, float) else lr.numpy()[:, 0]
