"""The part of a local step that needs no data: the pull of the penalty and of the weight decay,
clipping, and the l1 term, in place."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedtheory.compiled import available
from fedtheory.local.clipping import clipped_factor
from fedtheory.local.objective import LocalObjective
from fedtheory.neural.engines.compiled import PenaltyTerms
from fedtheory.neural.engines.kernels import penalise, shrink

__all__ = ["Penalty"]


class Penalty:
    """-<linear, y> + slope/2 ||y||^2 - <curvature center, y> + l1 ||y - anchor||_1 of R rows;
    slope = curvature + ridge.

    On a CPU with Numba everything but clipping is done in one compiled pass over y: on small
    batches a step costs what it takes to move the weights.
    """

    def __init__(self, objective: LocalObjective, ridge: float, prox: bool, y: Tensor) -> None:
        curvature = objective.curvature
        pull = objective.linear
        if not (isinstance(curvature, float | int) and curvature == 0):
            pulled = objective.center * curvature
            pull = pulled if pull is None else pull + pulled
        self.pull, self.prox, self.curvature, self.ridge = pull, prox, curvature, ridge
        self.l1 = float(objective.l1)
        self.anchor: Any = objective.l1_center if self.l1 else None
        self.compiled = available() and y.device.type == "cpu" and not isinstance(curvature, torch.Tensor)
        if self.compiled:
            none = y.new_empty((len(y), 0))
            self.arrays = [(none if a is None else a.contiguous()).numpy() for a in (self.pull, self.anchor)]
            self._l1 = y.numpy().dtype.type(self.l1)

    def tensors(self) -> dict[str, Tensor]:
        """What of the penalty differs from row to row."""
        named = {name: getattr(self, name) for name in ("pull", "anchor", "curvature")}
        return {name: a for name, a in named.items() if isinstance(a, torch.Tensor)}

    def on(self, change: Callable[[Tensor], Tensor]) -> Penalty:
        """The same penalty for steps that are recorded, with every tensor passed through `change`."""
        other = copy.copy(self)
        other.compiled = False
        for name, a in self.tensors().items():
            setattr(other, name, change(a))
        return other

    def terms(self, clip: float | None, spares: str | None) -> PenaltyTerms:
        """The same as the compiled walks take it, on a CPU with one slope for all; clip and spares
        as in `move`."""
        pull, anchor = self.arrays
        kind = type(self._l1)
        slopes = np.array(self._slopes(clip, spares) if clip else [0.0, self.curvature + self.ridge], kind)
        return PenaltyTerms(pull, anchor, slopes, self._l1, self.prox, kind(clip or 0.0))

    def _slopes(self, clip: float | None, spares: str | None, r: int | None = None) -> tuple[Any, Any]:
        """The curvature that is clipped with the gradient, and that which is added afterwards."""
        curvature = self.curvature[:r] if isinstance(self.curvature, torch.Tensor) else self.curvature
        if clip is None:
            return curvature + self.ridge, 0.0
        return (0.0, self.ridge + curvature) if spares == "curvature" else (curvature, self.ridge)

    def _terms(self, r: int, clip: float | None, spares: str | None) -> tuple[Any, ...]:
        """The arguments of `_whole` behind the gradient, of the first r rows."""
        pull = None if self.pull is None else self.pull[:r]
        anchor = self.anchor[:r] if self.l1 and not self.prox else None
        return clip, *self._slopes(clip, spares, r), pull, anchor, self.l1

    def direction(self, y: Tensor, gradient: Tensor, clip: float | None, spares: str | None) -> Tensor:
        """The gradient with that of the penalty, cut to `clip` in each row where it is given, as
        `fedtheory.local.clipping` says; gradient (r, d) is that of the loss alone."""
        return _whole(y, gradient, *self._terms(len(y), clip, spares))

    def move(self, y: Tensor, gradient: Tensor | None, lr: Any, clip: float | None, spares: str | None) -> None:
        """One step of the first rows y (r, d) along `direction`, in place; lr a number, or (r, 1)."""
        whole = _whole(y, gradient, *self._terms(len(y), clip, spares))
        y.sub_(whole, alpha=lr) if isinstance(lr, float) else y.addcmul_(whole, lr, value=-1.0)

    def before(self, y: Tensor, lr: Any) -> float:
        """To the first rows y (r, d), in place, what the gradient of the penalty does to them; lr a number, or (r, 1).

        The factor returned is what y is still to be multiplied with.
        """
        subgradient, one = self.l1 > 0 and not self.prox, not isinstance(self.curvature, torch.Tensor)
        if self.pull is None and not subgradient and isinstance(lr, float) and one:
            return 1.0 - lr * (self.curvature + self.ridge)
        if self.compiled:
            (pull, anchor), rows = self.arrays, y.numpy()
            slope = rows.dtype.type(self.curvature + self.ridge)
            penalise(rows, _each(lr, rows), slope, pull, anchor if subgradient else anchor[:, :0], self._l1)
        else:
            self.move(y, None, lr, None, None)
        return 1.0

    def after(self, y: Tensor, lr: Any) -> None:
        """Apply the prox of lr l1 ||. - anchor||_1 to the first rows y, where the term is one; lr a
        number, (r, 1) or (r, d)."""
        if not (self.l1 and self.prox):
            return
        if self.compiled and (isinstance(lr, float) or lr.shape[1] == 1):
            rows = y.numpy()
            shrink(rows, _each(lr, rows), self.arrays[1], self._l1)
            return
        anchor, bound = self.anchor[: len(y)], lr * self.l1  # a number, or a tensor: nothing is sent to a GPU
        moved = y - anchor
        y.copy_(anchor + (moved - moved.clamp(-bound, bound)))  # the brackets keep zeros exact


def _whole(
    y: Tensor, gradient: Tensor | None, limit: float | None, slope: Any, later: Any, pull: Tensor | None,
    anchor: Tensor | None, l1: float,
) -> Tensor:
    """gradient - pull + slope y + l1 sign(y - anchor), in the gradient's memory where that will do;
    with a limit clipped, and later y added."""
    whole: Any = gradient
    if gradient is not None and pull is None and not isinstance(slope, torch.Tensor):
        whole = gradient.add_(y, alpha=slope) if slope else gradient
    else:
        whole = y * slope
        if pull is not None:
            whole.sub_(pull)  # before anything is added: on the center it is 0, and no rounding error passes for a move
        if gradient is not None:
            whole.add_(gradient)
    if anchor is not None:
        whole.add_(torch.sub(y, anchor).sign_(), alpha=l1)
    if limit is not None:
        whole.mul_(clipped_factor(whole, limit))
        if isinstance(later, torch.Tensor) or later:
            whole.add_(y * later)
    return whole


def _each(lr: Any, rows: Any) -> Any:
    """The step size of each row (r,)."""
    return np.full(len(rows), lr, dtype=rows.dtype) if isinstance(lr, float) else lr.numpy()[:, 0]
