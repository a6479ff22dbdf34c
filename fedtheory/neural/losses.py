"""Losses by name, sample by sample; and a user's own, as they are. torch's own are known in `torch_losses`."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.utils._pytree import tree_map, tree_map_only

from fedtheory.errors import InvalidInput, suggest
from fedtheory.neural.parts import unpacked

__all__ = ["LOSSES", "Loss", "Slope"]

NO_LABEL = -(2**62)  # in place of torch's -100, which a loss by name does not ignore


def _cross_entropy(outputs: Tensor, targets: Tensor) -> Tensor:
    """Outputs (b, classes) or, for sequences, (b, length, classes); the mean over a sequence."""
    sequences = getattr(outputs, "ndim", 0) == 3
    outputs = outputs.transpose(1, 2) if sequences else outputs
    each = functional.cross_entropy(outputs, targets, reduction="none", ignore_index=NO_LABEL)
    return each.mean(dim=1) if sequences else each


def _mean_squared_error(outputs: Tensor, targets: Tensor) -> Tensor:
    return ((outputs - targets.reshape(outputs.shape)) ** 2).reshape(len(targets), -1).mean(dim=1)  # squeeze() may leave no axis


def _squared_error(outputs: Tensor, targets: Tensor) -> Tensor:
    return _mean_squared_error(outputs, targets) / 2


LOSSES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "cross_entropy": _cross_entropy, "squared_error": _squared_error,
    "mean_squared_error": _mean_squared_error,
}


@dataclass(frozen=True)
class Slope:
    """The derivative of a loss in the outputs, as the compiled steps take it.

    Attributes
    ----------
    kind : 0, the cross entropy; 1, scale clip(output - target, -limit, limit); 2, scale
        (sigmoid(output) (1 + (p - 1) t) - p t); 1 and 2 of each output, with the mean over a
        sample's outputs.
    scale, limit : float
        Of kind 0, the label smoothing and the label that is ignored.
    weights : (classes,), (outputs,) or empty
        Class weights of kind 0, p of kind 2.
    """

    kind: int
    scale: float
    limit: float
    weights: tuple[float, ...] = ()


SLOPES = {
    "cross_entropy": Slope(0, 0.0, -100.0), "squared_error": Slope(1, 1.0, float("inf")),
    "mean_squared_error": Slope(1, 2.0, float("inf")),
}


class Loss:
    """A mean loss over a batch, with sample weights where the loss is known sample by sample.

    Parameters
    ----------
    loss : name of `LOSSES`, or callable(outputs, targets) -> scalar tensor, the mean over the batch
    by_sample : (each, mass) of `known_loss`, or None
    name : what it is called; of options, too
    slope : Slope or None
        For the compiled steps.

    Attributes
    ----------
    labels : (axis, ignored) or None
        Of cross entropies of labels: where the outputs' classes are, and the label that does not count, if there is one.

    Raises
    ------
    UnknownName
        No loss of that name.
    """

    def __init__(
        self, loss: str | Callable[[Any, Any], Tensor],
        by_sample: tuple[
            Callable[[Tensor, Tensor], Tensor], Callable[[Tensor], Tensor] | None
        ] | None = None,
        name: str | None = None, slope: Slope | None = None,
    ) -> None:
        if isinstance(loss, str) and loss not in LOSSES:
            raise suggest(loss, LOSSES, "loss")
        self.name = name or (loss if isinstance(loss, str) else getattr(loss, "__name__", type(loss).__name__))
        self._each: Callable[[Any, Any], Tensor] | None = LOSSES[loss] if isinstance(loss, str) else None
        self._mass: Callable[[Any], Tensor] | None = None
        if by_sample is not None:
            self._each, self._mass = by_sample
        self._mean: Callable[[Any, Any], Any] | None = None if isinstance(loss, str) else copy.copy(loss)
        self.labels: tuple[int, int | None] | None = (-1, None) if loss == "cross_entropy" else None
        self._row_by_row = False  # whether vmap has failed on a user's loss
        self.slope = SLOPES[loss] if isinstance(loss, str) else slope

    @property
    def weighted(self) -> bool:
        """True if samples may be weighted, which padded batches need."""
        return self._each is not None

    def each(self, outputs: Any, targets: Any) -> Tensor:
        """One number a sample (b,); for a user's loss the mean, repeated."""
        if self._each is not None:
            return self._each(outputs, targets)
        return self(outputs, targets).expand(len(targets))

    def mass(self, targets: Any) -> Tensor | None:
        """Return each sample's weight in a mean (b,), its class's, 0 where ignored; None: all 1."""
        return None if self._mass is None else self._mass(targets)

    def _shares(self, targets: Tensor, weights: Tensor | None, like: Tensor) -> Tensor | None:
        """Each row's shares of samples (R, b), of sum 1, or 0 if none counts; None: all alike."""
        if self._mass is None:
            return weights
        mass = self._mass(targets.flatten(0, 1)).reshape(targets.shape[:2]).to(like.dtype)
        mass = mass if weights is None else mass * weights
        return mass / mass.sum(dim=1, keepdim=True).clamp(min=torch.finfo(like.dtype).tiny)

    def of_all(self, outputs: Any, targets: Any, weights: Tensor | None = None) -> Tensor:
        """Losses (R,) of R models: outputs and targets (R, b, ...), weights (R, b) that sum to 1 in each row, or None."""
        if self._each is None:
            return self._of_each(outputs, targets)
        flat = outputs.flatten(0, 1) if outputs.ndim > 1 else outputs  # of one sample each, without its axis
        each = self._each(flat, targets.flatten(0, 1)).reshape(targets.shape[:2])
        shares = self._shares(targets, weights, each)
        return each.mean(dim=1) if shares is None else (each * shares).sum(dim=1)

    def _of_each(self, outputs: Any, targets: Any) -> Tensor:
        """A user's loss of every model: by vmap, or, where that fails, one after another; the graph
        behind the outputs is one."""
        if not self._row_by_row:
            try:
                alike = tree_map(lambda part: 0 if isinstance(part, torch.Tensor) else None, outputs)  # {"loss": None}, say
                return torch.func.vmap(self, in_dims=(alike, 0))(outputs, unpacked(targets))
            except InvalidInput:
                raise
            except Exception:  # branches on values, .item(), operations without a rule
                self._row_by_row = True
        rows = [tree_map_only(torch.Tensor, itemgetter(r), outputs) for r in range(len(targets))]
        return torch.stack([self(row, targets[r]) for r, row in enumerate(rows)])

    def __call__(self, outputs: Any, targets: Any, weights: Tensor | None = None) -> Tensor:
        """The mean over a batch; with weights (b,) that sum to 1, the weighted sum.

        Raises `InvalidInput` where a user's loss is no scalar.
        """
        if self._each is not None:
            each = self._each(outputs, targets)
            shares = self._shares(targets[None], None if weights is None else weights[None], each)
            return each.mean() if shares is None else (each * shares.reshape(-1)).sum()
        assert self._mean is not None  # where there is no loss of each sample
        value = self._mean(outputs, unpacked(targets))
        if not isinstance(value, torch.Tensor) or value.ndim != 0:
            shape = tuple(value.shape) if isinstance(value, torch.Tensor) else type(value).__name__
            raise InvalidInput(f"the loss {self.name} returned {shape}: it must be a scalar tensor, the mean over the batch")
        return value
