"""Losses by name and torch's own, sample by sample; and a user's own, as they are."""

from __future__ import annotations

import copy
import functools
import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from inspect import signature
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.nn import functional

from fedtheory._moved import names_before
from fedtheory.errors import InvalidInput, suggest
from fedtheory.neural.parts import unpacked

if TYPE_CHECKING:
    from torch import Tensor

    from fedtheory.neural.flat import FlatModule

__all__ = ["LOSSES", "TORCH", "Loss", "Slope", "count_of", "known_loss"]


def _cross_entropy(outputs: Tensor, targets: Tensor) -> Tensor:
    """Outputs (b, classes) or, for sequences, (b, length, classes); the mean over a sequence."""
    if outputs.ndim == 3:
        each = functional.cross_entropy(outputs.transpose(1, 2), targets, reduction="none")
        return each.mean(dim=1)
    return functional.cross_entropy(outputs, targets, reduction="none")


def _mean_squared_error(outputs: Tensor, targets: Tensor) -> Tensor:
    return ((outputs - targets.reshape(outputs.shape)) ** 2).reshape(len(targets), -1).mean(dim=1)  # squeeze() may leave no axis


def _squared_error(outputs: Tensor, targets: Tensor) -> Tensor:
    return _mean_squared_error(outputs, targets) / 2


__getattr__ = names_before(__name__)

LOSSES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "cross_entropy": _cross_entropy, "squared_error": _squared_error, "mean_squared_error": _mean_squared_error,
}  # fmt: skip

# torch's losses that are means over samples, and over the entries of a sample; the first also of probabilities and with weights
TORCH: dict[type[nn.Module], Any] = {
    nn.CrossEntropyLoss: functional.cross_entropy,
    nn.NLLLoss: functional.nll_loss,
    nn.MSELoss: functional.mse_loss,
    nn.L1Loss: functional.l1_loss,
    nn.SmoothL1Loss: functional.smooth_l1_loss,
    nn.HuberLoss: functional.huber_loss,
    nn.BCEWithLogitsLoss: functional.binary_cross_entropy_with_logits,
    nn.BCELoss: functional.binary_cross_entropy,
    nn.SoftMarginLoss: functional.soft_margin_loss,
    nn.PoissonNLLLoss: functional.poisson_nll_loss,
}
CLASSES = (functional.cross_entropy, functional.nll_loss)
BROADCAST = (functional.mse_loss, functional.l1_loss, functional.smooth_l1_loss, functional.huber_loss)
KEPT_BY_MODULES = {"weight", "pos_weight", "ignore_index", "label_smoothing", "beta", "delta", "log_input", "full", "eps"}


@dataclass(frozen=True)
class Slope:
    """The derivative of a loss in the outputs, as the compiled steps take it.

    Attributes
    ----------
    kind : 0, the cross entropy; 1, scale clip(output - target, -limit, limit); 2, scale (sigmoid(output) (1 + (p - 1) t) - p t)
        1 and 2 of each output, with the mean over a sample's outputs.
    scale, limit : float
        Of kind 0, the label smoothing and the label that is ignored.
    weights : (classes,), (outputs,) or empty
        Class weights of kind 0, p of kind 2.
    """

    kind: int
    scale: float
    limit: float
    weights: tuple[float, ...] = ()


def _function(loss: Any) -> tuple[Any, dict[str, Any]] | None:
    """torch's function behind a loss of torch's, and its options: of modules, functions and partials of functions; None of all else."""
    if isinstance(loss, nn.Module):
        as_torch_has_it = "forward" not in vars(loss) and not loss._forward_hooks and not loss._forward_pre_hooks
        found = TORCH.get(type(loss)) if as_torch_has_it else None
        if found is None or loss.reduction != "mean":
            return None
        given = {name: getattr(loss, name) for name in KEPT_BY_MODULES if hasattr(loss, name)}
    elif isinstance(loss, functools.partial):
        found, given = loss.func, dict(loss.keywords)
        if loss.args or not _among(found) or given.pop("reduction", "mean") != "mean":
            return None
    else:
        found, given = loss, {}
        if not _among(loss):
            return None
    if not {"size_average", "reduce"}.isdisjoint(given) and any(given.pop(n, None) is not None for n in ("size_average", "reduce")):
        return None
    defaults = signature(found).parameters
    return found, {n: v for n, v in given.items() if v is not None and (isinstance(v, torch.Tensor) or v != defaults[n].default)}


def _among(function: Any) -> bool:
    return any(function is f for f in TORCH.values())


def known_loss(loss: Any, sets: Sequence[Any], flat: FlatModule, inputs: Any, targets: Any) -> Loss:
    """The loss as `Loss` takes it: torch's own, with their options, sample by sample where that has the same mean on these samples.

    Parameters
    ----------
    sets : the targets (n, ...) of each set of samples
    flat, inputs, targets : the module, and a few samples, on which both ways are tried
    """
    found = None if isinstance(loss, str) else _function(loss)
    if found is None:
        if not isinstance(loss, str):
            _warn_of_pairs(loss, flat, inputs, targets)
        return Loss(loss)
    function, options = found
    outputs = _tried(flat, inputs)
    if not isinstance(outputs, torch.Tensor) or not all(isinstance(t, torch.Tensor) for t in sets):
        return Loss(loss)
    if function in BROADCAST:
        for part in sets:
            _check_alike(_said(loss, function, {}), outputs, part)
    if function not in CLASSES and any(t.shape[1:] != outputs.shape[1:] or not t.is_floating_point() for t in sets):
        return Loss(loss)  # torch broadcasts, or fails
    options = {n: _beside(outputs, v) for n, v in options.items()}
    classes = function in CLASSES and not targets.is_floating_point()
    if classes and _smooths_what_does_not_count(options):
        return Loss(loss)
    ignored = options.get("ignore_index", -100)
    if classes and not any(bool((t == ignored).any()) for t in sets):
        options.pop("ignore_index", None)
        if not options and function is functional.cross_entropy and outputs.ndim == 2:  # torch has a sequence's classes on another axis
            return Loss("cross_entropy")
    if function is functional.mse_loss:
        return Loss("mean_squared_error")
    made = Loss(loss, _sample_by_sample(function, options, classes), _said(loss, function, options))
    made.slope = _slope(function, options, outputs) if classes or function not in CLASSES else None
    made.labels = (1, int(ignored)) if classes else None
    return made if _same(made, Loss(loss), outputs, targets) else Loss(loss)


def _check_alike(name: str, outputs: Tensor, targets: Tensor) -> None:
    """Raise `InvalidInput` where torch would take every output with every target: outputs (b, 1) and targets (b,), say."""
    wanted, given = tuple(outputs.shape[1:]), tuple(targets.shape[1:])
    if wanted != given and outputs.ndim > 0 and len(outputs):
        told = [f"(b{''.join(f', {n}' for n in shape)}{',' if not shape else ''})" for shape in (wanted, given)]
        raise InvalidInput(
            f"{name} of outputs {told[0]} and targets {told[1]}: torch would broadcast one to the other; give targets of the outputs' "
            "shape, targets[:, None] or targets.reshape(outputs.shape)"
        )


def _warn_of_pairs(loss: Any, flat: FlatModule, inputs: Any, targets: Any) -> None:
    """Warn where a loss of somebody's own takes outputs (b, 1) with targets (b,), and says something else of outputs (b,)."""
    outputs = _tried(flat, inputs)
    if not isinstance(outputs, torch.Tensor) or not isinstance(targets, torch.Tensor) or not targets.is_floating_point():
        return
    if {outputs.shape, targets.shape} != {targets.shape[:1], (len(targets), 1)} or len(targets) < 2:
        return
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            paired, again, alike = (float(loss(o, targets)) for o in (outputs, outputs, outputs.reshape(targets.shape)))
    except (RuntimeError, ValueError, TypeError, IndexError):
        return
    if math.isfinite(paired) and paired == again and not math.isclose(paired, alike, rel_tol=1e-4, abs_tol=1e-6):
        shapes = f"outputs {tuple(outputs.shape)} and targets {tuple(targets.shape)}"
        warnings.warn(
            f"the loss of {shapes} is {paired:.4g}, and of outputs of the targets' shape {alike:.4g}: torch takes every output with "
            "every target; give targets of the outputs' shape, targets[:, None] or targets.reshape(outputs.shape)",
            stacklevel=3,
        )


def _smooths_what_does_not_count(options: dict[str, Any]) -> bool:
    """Whether a sample whose class has no weight still has a loss, that of smoothing, so that the mean is none of weighted samples."""
    weight = options.get("weight")
    return weight is not None and (bool((weight < 0).any()) or (bool((weight == 0).any()) and options.get("label_smoothing", 0.0) > 0))


def _beside(outputs: Tensor, option: Any) -> Any:
    if not isinstance(option, torch.Tensor):
        return option
    return option.to(outputs.device, outputs.dtype if option.is_floating_point() else option.dtype)


def _same(made: Loss, plain: Loss, outputs: Tensor, targets: Tensor) -> bool:
    """Whether both have the same mean on a few samples; where torch refuses, or has none, it is asked again later."""
    try:
        a, b = made(outputs, targets), plain(outputs, targets)
    except Exception:
        return False
    return bool(torch.isclose(a, b, rtol=1e-4, atol=1e-6)) or not bool(torch.isfinite(b))


def _sample_by_sample(
    function: Any, options: dict[str, Any], classes: bool
) -> tuple[Callable[[Tensor, Tensor], Tensor], Callable[[Tensor], Tensor] | None]:
    """each(outputs, targets) -> (b,) and mass(targets) -> (b,) or None: the mean over a batch is sum mass each / sum mass."""
    none = functools.partial(function, **options, reduction="none")
    weight, ignored = options.get("weight"), options.get("ignore_index", -100)

    def mass(targets: Tensor) -> Tensor:
        real = targets != ignored
        counted = real.to(torch.get_default_dtype()) if weight is None else weight[torch.where(real, targets, 0)] * real
        return counted.reshape(len(targets), -1).mean(dim=1)

    def each(outputs: Tensor, targets: Tensor) -> Tensor:
        found = none(outputs, targets)
        return found.reshape(len(found), -1).mean(dim=1)

    def each_of_classes(outputs: Tensor, targets: Tensor) -> Tensor:
        found, counted = each(outputs, targets), mass(targets).to(outputs.dtype)
        return torch.where(counted > 0, found / counted.clamp(min=torch.finfo(found.dtype).tiny), 0.0)

    return (each_of_classes, mass) if classes else (each, None)


def _slope(function: Any, options: dict[str, Any], outputs: Tensor) -> Slope | None:
    """What the compiled steps need to know of outputs (b, c); None where they do not have this loss."""
    if outputs.ndim != 2:
        return None
    width = outputs.shape[1]
    if function is functional.cross_entropy:
        weight = tuple(options["weight"].tolist()) if "weight" in options else ()
        return Slope(0, float(options.get("label_smoothing", 0.0)), float(options.get("ignore_index", -100)), weight)
    if function is functional.mse_loss:
        return Slope(1, 2.0, float("inf"))
    if function is functional.huber_loss and "weight" not in options:
        return Slope(1, 1.0, float(options.get("delta", 1.0)))
    if function is functional.smooth_l1_loss and options.get("beta", 1.0) > 0:
        beta = float(options.get("beta", 1.0))
        return Slope(1, 1 / beta, beta)
    if function is functional.binary_cross_entropy_with_logits and "weight" not in options:
        positive = options.get("pos_weight")
        return Slope(2, 1.0, 0.0, () if positive is None else tuple(positive.expand(width).tolist()))
    return None


def _said(loss: Any, function: Any, options: dict[str, Any]) -> str:
    name = type(loss).__name__ if isinstance(loss, nn.Module) else function.__name__
    told = (f"{n}={v.tolist() if isinstance(v, torch.Tensor) else v!r}" for n, v in sorted(options.items()))
    return f"{name}({', '.join(told)})" if options else name


def _tried(flat: FlatModule, inputs: Any) -> Any:
    """The module's outputs, or None where it fails, which `check_model` tells."""
    device = flat.initial().device
    try:
        with torch.no_grad(), torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            return flat.call(flat.initial(), inputs)
    except Exception:
        return None


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
    InvalidInput
        Neither a name nor callable.
    """

    def __init__(
        self,
        loss: str | Callable[[Any, Any], Tensor],
        by_sample: tuple[Callable[[Tensor, Tensor], Tensor], Callable[[Tensor], Tensor] | None] | None = None,
        name: str | None = None,
        slope: Slope | None = None,
    ) -> None:
        if not isinstance(loss, str) and not callable(loss):
            raise InvalidInput(f"loss is {loss!r}: use {' or '.join(map(repr, LOSSES))}, or a callable(outputs, targets) -> scalar")
        if isinstance(loss, type):
            raise InvalidInput(f"loss is the class {loss.__name__}: give one of its instances, {loss.__name__}()")
        if isinstance(loss, nn.Module) and any(p.requires_grad for p in loss.parameters()):
            raise InvalidInput(
                f"loss is a {type(loss).__name__} with parameters of its own, which no client would train: keep them in the module, or "
                "set requires_grad_(False)"
            )
        if isinstance(loss, nn.Module) and getattr(loss, "reduction", "mean") == "sum":
            raise InvalidInput(f"loss is {loss} with reduction='sum': it must be the mean over the batch, reduction='mean'")
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
        self.slope = slope
        if isinstance(loss, str):
            self.slope = {
                "cross_entropy": Slope(0, 0.0, -100.0),
                "mean_squared_error": Slope(1, 2.0, float("inf")),
                "squared_error": Slope(1, 1.0, float("inf")),
            }[loss]

    @property
    def weighted(self) -> bool:
        """Whether samples may be weighted, which padded batches need."""
        return self._each is not None

    def each(self, outputs: Any, targets: Any) -> Tensor:
        """One number a sample (b,); for a user's loss the mean, repeated."""
        if self._each is not None:
            return self._each(outputs, targets)
        return self(outputs, targets).expand(count_of(targets))

    def mass(self, targets: Any) -> Tensor | None:
        """What each sample counts for in a mean (b,): weights of its class, 0 where its label is ignored; None: all alike."""
        return None if self._mass is None else self._mass(targets)

    def _shares(self, targets: Tensor, weights: Tensor | None, like: Tensor) -> Tensor | None:
        """Of each row's samples (R, b), summing to 1, or to 0 where nothing counts; None: all alike."""
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
        """A user's loss of every model: by vmap, or, where that fails, one after another; the graph behind the outputs is one."""
        if not self._row_by_row:
            try:
                return torch.func.vmap(self)(outputs, unpacked(targets))
            except InvalidInput:
                raise
            except Exception:  # branches on values, .item(), operations without a rule
                self._row_by_row = True
        rows = count_of(targets)
        return torch.stack([self(_row(outputs, r), _row(targets, r)) for r in range(rows)])

    def __call__(self, outputs: Any, targets: Any, weights: Tensor | None = None) -> Tensor:
        """The mean over a batch; with weights (b,) that sum to 1, the weighted sum.

        Raises
        ------
        InvalidInput
            A user's loss that is not a scalar.
        """
        if self._each is not None:
            each = self._each(outputs, targets)
            shares = self._shares(targets[None], None if weights is None else weights[None], each)
            return each.mean() if shares is None else (each * shares.reshape(-1)).sum()
        assert self._mean is not None
        value = self._mean(outputs, unpacked(targets))
        if not isinstance(value, torch.Tensor) or value.ndim != 0:
            shape = tuple(value.shape) if isinstance(value, torch.Tensor) else type(value).__name__
            raise InvalidInput(f"the loss {self.name} returned {shape}: it must be a scalar tensor, the mean over the batch")
        return value


def count_of(values: Any) -> int:
    """The length of a tensor, or of the tensors in a dict or tuple."""
    if isinstance(values, dict | tuple | list):
        return count_of(next(iter(values.values() if isinstance(values, dict) else values)))
    return len(values)


def _row(values: Any, r: int) -> Any:
    if isinstance(values, dict):
        return {name: _row(v, r) for name, v in values.items()}
    return type(values)(_row(v, r) for v in values) if type(values) in (tuple, list) else values[r]
