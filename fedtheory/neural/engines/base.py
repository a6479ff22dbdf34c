"""The interface of the engines, and the one that takes the models one after another.

All engines give the same numbers to rounding; which is fastest depends on the model and the device
(`fedtheory.neural.engines.select`).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.utils._pytree import tree_map_only

from fedtheory.neural.dropout import number
from fedtheory.neural.flat import FlatModule
from fedtheory.neural.losses import Loss
from fedtheory.neural.parts import mapped

__all__ = ["Batch", "Engine", "Loop", "descend", "shares", "whole"]



class Batch(NamedTuple):
    """The samples of one step of R models, a row for each.

    Attributes
    ----------
    inputs, targets : (R, b, ...)
    weights : (R, b) or None
        Of the samples. They sum to 1 in every row, and padding has weight 0.
    keys : int64 (R,) or None
        What dropout follows from; None: nothing is dropped.
    counts : int array (R,) or None
        Real samples of each row, alike in weight, before its padding, as the host knows them: rows
        may then be cut. None: they keep their padding, as a recorded step needs, which has one
        shape for all.
    points : (R, D) or None
        The whole points, in a local step of models with running statistics, which it changes in
        place.
    """

    inputs: Any
    targets: Any
    weights: Tensor | None = None
    keys: Tensor | None = None
    counts: np.ndarray | None = None
    points: Tensor | None = None


class Engine:
    """Losses and gradients of R models, params (R, d), on the R rows of a `Batch`."""

    name = "engine"
    # the dtype of the forward and backward passes of `gradient`, where it is not the params'
    autocast: str | None = None
    # whether images and filters are laid out so, which a CPU's convolutions are faster with
    channels_last = False
    # computes the gradients of single samples side by side, in full precision, if there is one
    samplewise: Engine | None = None

    def __init__(self, flat: FlatModule, loss: Loss) -> None:
        self.flat, self.loss = flat, loss

    def settle(self, inputs: Any) -> None:
        """Find out, on a few samples (n, ...), what the module can take."""

    def outputs(self, point: Tensor, inputs: Any) -> Any:
        """Evaluate the module with the parameters point (d,) on inputs (n, ...)."""
        return self.flat.call(point, inputs)

    @property
    def cuts(self) -> bool:
        """True if padded samples cannot be weighed away, and batches are cut to their own."""
        return not self.loss.weighted or self.flat.depends_on_batch

    def value(self, params: Tensor, batch: Batch) -> Tensor:
        """Losses (R,), without dropout."""
        with torch.no_grad():
            rows = [
                self.loss(self.flat.call(own, batch.inputs[r]), batch.targets[r], _of(batch.weights, r))
                for r, own in enumerate(params)
            ]
        return torch.stack(rows)

    def gradient(self, params: Tensor, batch: Batch) -> Tensor:
        """Gradients (R, d)."""
        raise NotImplementedError

    def of_samples(self, params: Tensor, inputs: Any, targets: Any, keys: Tensor | None = None) -> Tensor:
        """Gradients (n, d) of the losses of n samples (n, ...), each alone, at n points (n, d)."""
        engine = Loop(self.flat, self.loss) if self.samplewise is None else self.samplewise
        return engine.gradient(params, Batch(inputs[:, None], targets[:, None], keys=keys))

    def output_gradient(self, params: Tensor, inputs: Any, counts: Tensor) -> Tensor:
        """Gradients (R, d) of the mean of ||module(input)||^2 over the first counts[r] >= 1 inputs
        of each row, in full precision."""
        out = torch.empty_like(params)
        for r, count in enumerate(counts.tolist()):
            leaf = params[r].detach().requires_grad_()
            with torch.enable_grad(), self.flat.holding(pieces := self.flat.pieces_of(leaf)):
                outputs = self.flat.run(pieces, inputs[r, :count])
                (out[r],) = torch.autograd.grad((outputs * outputs).sum() / count, leaf)
        return out

    def _mixed(self, device: torch.device) -> Any:
        """The context of a forward pass. The loss is taken outside it, in full precision.

        Casts are not kept for a second use: under vmap they would outlive the call they belong to.
        """
        if self.autocast is None:
            return nullcontext()
        return torch.autocast(device.type, getattr(torch, self.autocast), cache_enabled=False)

    def bind(self, params: Tensor) -> Any:
        """Return what `step` would otherwise make anew for the same params at every step."""
        return None

    def step(
        self, params: Tensor, batch: Batch, lr: float | Tensor, penalise: Callable[[], float],
        bound: Any = None,
    ) -> None:
        """In place: params <- penalised params - lr * gradient, the gradient taken at the old
        params; lr a number, or (R, 1).

        ``penalise()`` is called once, when the old params are needed no more, and changes them in
        place, but for a factor it returns.
        """
        gradient = self.gradient(params, batch)
        factor = penalise()
        if factor != 1.0:
            params.mul_(factor)
        descend(params, gradient, lr)


def descend(y: Tensor, direction: Tensor, lr: float | Tensor) -> None:
    """y <- y - lr direction, in place; lr a number, or a tensor that broadcasts."""
    if isinstance(lr, float):
        y.sub_(direction, alpha=lr)
    else:
        y.addcmul_(direction, lr, value=-1.0)


def _of(rows: Any, r: int) -> Any:
    return None if rows is None else rows[r]


def shares(counts: Tensor, width: int, like: Tensor) -> Tensor:
    """1/counts[r] for the first counts[r] places of each row, 0 for the others: (R,) -> (R,
    width)."""
    counts = counts.to(like.device)[:, None]
    return (torch.arange(width, device=like.device) < counts).to(like.dtype) / counts


def _only_one(row: int) -> AbstractContextManager[Any]:
    return nullcontext()


class Loop(Engine):
    """One model after another, each with ordinary autograd; convolutions on a CPU have their
    channels last in memory."""

    name = "loop"
    # `captured.SideStreams`, on which the rows run beside one another while a GPU records a step
    lanes: Any = None

    def __init__(self, flat: FlatModule, loss: Loss) -> None:
        super().__init__(flat, loss)
        images = any(isinstance(m, torch.nn.Conv2d) for m in flat.module.modules())
        self.channels_last = images and next(flat.module.parameters()).device.type == "cpu"

    def settle(self, inputs: Any) -> None:
        if self.channels_last:
            try:
                with torch.no_grad():
                    self.outputs(self.flat.initial(), inputs)
            except Exception:  # Tensor.view of a convolution's output; whatever else is wrong is told by those who ask next
                self.channels_last = False

    def outputs(self, point: Tensor, inputs: Any) -> Any:
        pieces = {n: self._laid_out(p) for n, p in self.flat.pieces_of(point).items()}
        return self.flat.run(pieces, mapped(self._laid_out, inputs))

    def _laid_out(self, values: Tensor) -> Tensor:
        last = self.channels_last and values.ndim == 4
        return values.contiguous(memory_format=torch.channels_last) if last else values

    def gradient(self, params: Tensor, batch: Batch) -> Tensor:
        out = torch.empty_like(params)
        trained = out[:, : self.flat.trained]
        out[:, self.flat.trained :] = 0
        lane = _only_one if self.lanes is None else self.lanes.lane
        for r, own in enumerate(params):
            with lane(r):
                pieces = self.flat.views(own).items()
                leaves = {n: self._laid_out(p.detach()).requires_grad_() for n, p in pieces}
                found = self._row(r, leaves, batch, own)
                torch.cat([p.reshape(-1) for p in found], out=trained[r])
        if self.lanes is not None:
            self.lanes.join()
        return out

    def _row(
        self, r: int, leaves: dict[str, Tensor], batch: Batch, own: Tensor
    ) -> tuple[Tensor, ...]:
        """The gradient of row r in these leaves; its statistics are those of its own point, which
        nothing changes, or in a local step of the batch's."""
        train = batch.points is not None
        statistics = self.flat.statistics(own if batch.points is None else batch.points[r])
        some = next(iter(leaves.values()))
        x, t, w, key = batch.inputs[r], batch.targets[r], _of(batch.weights, r), _of(batch.keys, r)
        if batch.counts is not None:
            held = int(batch.counts[r])
            x, t, w = x[:held], t[:held], None
        with torch.enable_grad(), self.flat.holding(leaves | statistics, train):
            with self._mixed(some.device):
                x = mapped(self._laid_out, x)
                outputs = self.flat.run(leaves, x, None if key is None else number(key))
            value = self.loss(whole(outputs, some.dtype), t, w)
            return torch.autograd.grad(value, list(leaves.values()), materialize_grads=True)

    def bind(self, params: Tensor) -> list[dict[str, Tensor]] | None:
        if self.channels_last or self.lanes is not None:
            return None
        return [
            {n: p.detach().requires_grad_() for n, p in self.flat.views(row).items()}
            for row in params
        ]

    def step(
        self, params: Tensor, batch: Batch, lr: float | Tensor, penalise: Callable[[], float],
        bound: list[dict[str, Tensor]] | None = None,
    ) -> None:
        if bound is None:
            return super().step(params, batch, lr, penalise)
        found = [self._row(r, leaves, batch, params[r]) for r, leaves in enumerate(bound)]
        factor = penalise()
        if factor != 1.0:
            params.mul_(factor)
        with torch.no_grad():
            for r, (leaves, gradients) in enumerate(zip(bound, found, strict=True)):
                for leaf, gradient in zip(leaves.values(), gradients, strict=True):
                    descend(leaf, gradient, lr if isinstance(lr, float) else lr[r])


def whole(outputs: Any, dtype: torch.dtype) -> Any:
    """Return in full precision what a module returned in mixed precision."""

    def one(value: Tensor) -> Tensor:
        return value.to(dtype) if value.is_floating_point() else value

    is_one = isinstance(outputs, torch.Tensor)
    return one(outputs) if is_one else tree_map_only(torch.Tensor, one, outputs)

