"""Losses by name, one number a sample; torch's own, known for what they are; and the checks of a user's own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import FunctionType
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.nn import functional

from fedtheory.errors import InvalidInput, suggest

if TYPE_CHECKING:
    from torch import Tensor

    from fedtheory.neural.flat import FlatModule

__all__ = ["LOSSES", "Loss", "as_named", "options_of"]


def _cross_entropy(outputs: Tensor, targets: Tensor) -> Tensor:
    """Outputs (b, classes) or, for sequences, (b, length, classes); the mean over a sequence."""
    if outputs.ndim == 3:
        each = functional.cross_entropy(outputs.transpose(1, 2), targets, reduction="none")
        return each.mean(dim=1)
    return functional.cross_entropy(outputs, targets, reduction="none")


def _mean_squared_error(outputs: Tensor, targets: Tensor) -> Tensor:
    return ((outputs - targets.reshape(outputs.shape)) ** 2).reshape(len(outputs), -1).mean(dim=1)


def _squared_error(outputs: Tensor, targets: Tensor) -> Tensor:
    return _mean_squared_error(outputs, targets) / 2


LOSSES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "cross_entropy": _cross_entropy, "squared_error": _squared_error, "mean_squared_error": _mean_squared_error,
}  # fmt: skip

DEFAULTS = {"weight": None, "ignore_index": -100, "reduction": "mean", "label_smoothing": 0.0}  # of torch's two losses
TORCH = {nn.CrossEntropyLoss: "cross_entropy", nn.MSELoss: "mean_squared_error"}
FUNCTIONS: dict[Any, str] = {functional.cross_entropy: "cross_entropy", functional.mse_loss: "mean_squared_error"}


def _torch_name(loss: Any) -> str | None:
    """The name of `LOSSES` that goes with a loss of torch itself, whatever its options."""
    if isinstance(loss, nn.Module):
        as_torch_has_it = "forward" not in vars(loss) and not loss._forward_hooks and not loss._forward_pre_hooks
        return TORCH.get(type(loss)) if as_torch_has_it else None
    return FUNCTIONS.get(loss) if isinstance(loss, FunctionType) else None


def options_of(loss: Any) -> dict[str, Any]:
    """The options of a loss of torch that are not its defaults; {} for anything else."""
    if _torch_name(loss) is None or not isinstance(loss, nn.Module):
        return {}
    given = {name: getattr(loss, name, default) for name, default in DEFAULTS.items()}
    return {name: value for name, value in given.items() if value is not DEFAULTS[name] and value != DEFAULTS[name]}


def as_named(loss: Any, targets: Sequence[Tensor], flat: FlatModule, inputs: Tensor) -> Any:
    """The name of `LOSSES` that has the same value on these targets, or the loss as it is.

    Named are nn.CrossEntropyLoss() and nn.MSELoss() with their default options, and the functions of the same kind, themselves: not
    subclasses, partials or lambdas around them.

    Parameters
    ----------
    targets : tensors (n, ...), one for each set of samples
    flat, inputs : the module, and a few samples
        Tried for the squared error only: torch's broadcasts where the targets have another shape than the outputs.
    """
    name, options = _torch_name(loss), options_of(loss)
    ignored = options.pop("ignore_index", DEFAULTS["ignore_index"])
    if name is None or options:
        return loss
    if name == "cross_entropy":  # torch has the classes of a sequence's outputs on another axis
        labels = all(t.ndim == 1 and not t.is_floating_point() and not bool((t == ignored).any()) for t in targets)
        return name if labels else loss
    found = _tried(flat, inputs) if all(t.is_floating_point() for t in targets) else None
    if not isinstance(found, torch.Tensor) or not found.is_floating_point():
        return loss
    return name if all(found.shape[1:] == t.shape[1:] for t in targets) else loss


def _tried(flat: FlatModule, inputs: Tensor) -> Any:
    """The module's outputs, or None where it fails, which `check_model` tells."""
    try:
        with torch.no_grad(), torch.random.fork_rng(devices=[inputs.device] if inputs.device.type == "cuda" else []):
            return flat.call(flat.initial(), inputs)
    except Exception:
        return None


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
        if isinstance(loss, type):
            raise InvalidInput(f"loss is the class {loss.__name__}: give one of its instances, {loss.__name__}()")
        if isinstance(loss, nn.Module) and getattr(loss, "reduction", "mean") == "sum":
            raise InvalidInput(f"loss is {loss} with reduction='sum': it must be the mean over the batch, reduction='mean'")
        if isinstance(loss, str) and loss not in LOSSES:
            raise suggest(loss, LOSSES, "loss")
        self.name = loss if isinstance(loss, str) else getattr(loss, "__name__", type(loss).__name__)
        self.options = options_of(loss)
        self._each = LOSSES[loss] if isinstance(loss, str) else None
        self._mean: Callable[[Any, Any], Any] | None = None if isinstance(loss, str) else loss

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
        if self._mean is None:
            each = self.each(outputs, targets)
            return each.mean() if weights is None else (each * weights).sum()
        value = self._mean(outputs, targets)
        if not isinstance(value, torch.Tensor) or value.ndim != 0:
            shape = tuple(value.shape) if isinstance(value, torch.Tensor) else type(value).__name__
            raise InvalidInput(f"the loss {self.name} returned {shape}: it must be a scalar tensor, the mean over the batch")
        return value
