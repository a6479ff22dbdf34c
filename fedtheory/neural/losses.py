"""Losses by name, one number a sample, and the checks of a user's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch.nn import functional

from fedtheory.errors import InvalidInput, suggest

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["LOSSES", "Loss"]


def _cross_entropy(outputs: Tensor, targets: Tensor) -> Tensor:
    """Outputs (b, classes) or, for sequences, (b, length, classes); the mean over a sequence."""
    if outputs.ndim == 3:
        each = functional.cross_entropy(outputs.transpose(1, 2), targets, reduction="none")
        return each.mean(dim=1)
    return functional.cross_entropy(outputs, targets, reduction="none")


def _squared_error(outputs: Tensor, targets: Tensor) -> Tensor:
    return ((outputs - targets.reshape(outputs.shape)) ** 2).flatten(1).mean(dim=1) / 2


LOSSES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {"cross_entropy": _cross_entropy, "squared_error": _squared_error}


class Loss:
    """A mean loss over a batch, with sample weights where the loss gives one number a sample.

    Parameters
    ----------
    loss : name of `LOSSES`, or callable(outputs, targets) -> scalar tensor, the mean over the batch

    Raises
    ------
    UnknownName
        No loss of that name.
    InvalidInput
        Neither a name nor callable.
    """

    def __init__(self, loss: str | Callable[[Any, Any], Tensor]) -> None:
        if not isinstance(loss, str) and not callable(loss):
            raise InvalidInput(f"loss is {loss!r}: use {' or '.join(map(repr, LOSSES))}, or a callable(outputs, targets) -> scalar")
        if isinstance(loss, str) and loss not in LOSSES:
            raise suggest(loss, LOSSES, "loss")
        self.name = loss if isinstance(loss, str) else getattr(loss, "__name__", type(loss).__name__)
        self._each = LOSSES[loss] if isinstance(loss, str) else None
        self._mean = None if isinstance(loss, str) else loss

    @property
    def weighted(self) -> bool:
        """Whether samples may be weighted, which padded batches need."""
        return self._each is not None

    def each(self, outputs: Any, targets: Any) -> Tensor:
        """One number a sample (b,); for a user's loss the mean, repeated."""
        return self._each(outputs, targets) if self._each is not None else self(outputs, targets).expand(len(targets))

    def __call__(self, outputs: Any, targets: Any, weights: Tensor | None = None) -> Tensor:
        """The mean over a batch; with weights (b,) that sum to 1, the weighted sum.

        Raises
        ------
        InvalidInput
            A user's loss that is not a scalar.
        """
        if self._each is not None:
            each = self._each(outputs, targets)
            return each.mean() if weights is None else (each * weights).sum()
        value = self._mean(outputs, targets)
        if not isinstance(value, torch.Tensor) or value.ndim != 0:
            shape = tuple(value.shape) if isinstance(value, torch.Tensor) else type(value).__name__
            raise InvalidInput(f"the loss {self.name} returned {shape}: it must be a scalar tensor, the mean over the batch")
        return value
