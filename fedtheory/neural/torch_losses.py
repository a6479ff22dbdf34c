"""torch's own losses with their options, as means of numbers of single samples; and somebody's own,
looked at before work starts."""

from __future__ import annotations

import contextlib
import copy
import functools
import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils._pytree import tree_leaves, tree_map

from fedtheory.errors import InvalidInput
from fedtheory.neural.flat import FlatModule
from fedtheory.neural.losses import Loss, Slope
from fedtheory.neural.parts import has_labels, unpacked

__all__ = ["known_loss"]

FUNCTIONS: list[tuple[Any, type[nn.Module]]] = [
    (functional.cross_entropy, nn.CrossEntropyLoss),
    (functional.mse_loss, nn.MSELoss),
    (functional.l1_loss, nn.L1Loss),
    (functional.huber_loss, nn.HuberLoss),
    (functional.smooth_l1_loss, nn.SmoothL1Loss),
    (functional.binary_cross_entropy_with_logits, nn.BCEWithLogitsLoss),
]
SHAPED = (
    "give targets of the outputs' shape, targets[:, None] or targets.reshape(outputs.shape)"
)
BROADCAST = (nn.MSELoss, nn.L1Loss, nn.SmoothL1Loss, nn.HuberLoss)


def known_loss(loss: Any, sets: Sequence[Any], flat: FlatModule, inputs: Any, targets: Any) -> Loss:
    """The loss as `Loss` takes it: torch's own, with their options, sample by sample where that has
    the same mean on these samples.

    Known are cross entropies of labels, and every loss of torch's that is a mean over the entries
    of outputs and targets of one shape, which is found by asking it for those entries.

    Parameters
    ----------
    sets : the targets (n, ...) of each set of samples
    flat, inputs, targets : the module, and a few samples, on which both ways are tried
    """
    if isinstance(loss, str):
        named = Loss(loss)
        if named.labels is not None and not has_labels(targets):
            named.slope = None  # the compiled steps take labels, and no probabilities
        return named
    module = _as_module(loss)
    outputs: Any = None
    with contextlib.suppress(Exception), torch.no_grad():  # which `check_model` tells
        outputs = flat.call(flat.initial(), inputs)
    one = isinstance(outputs, torch.Tensor) and isinstance(targets, torch.Tensor)
    for part in sets if one and outputs.ndim and isinstance(module, BROADCAST) else ():
        shapes = [f"(b{''.join(f', {n}' for n in t.shape[1:])})" for t in (outputs, part)]
        if shapes[0] != shapes[1]:  # outputs (b, 1) and targets (b,), say
            raise InvalidInput(
                f"{type(module).__name__} of outputs {shapes[0]} and targets {shapes[1]}: torch "
                f"would take every output with every target; {SHAPED}"
            )
    if one and module is not None:
        module = copy.deepcopy(module).to(outputs.device, outputs.dtype)
        known = _of_labels if has_labels(targets) else _of_values
        made = known(module, sets, outputs)
        if made is not None and (made.labels == (-1, None) or _same(made, module, outputs, targets)):
            return made
    _look_at(loss, outputs, targets)
    return Loss(loss)


def _as_module(loss: Any) -> nn.Module | None:
    """A loss of torch's that is a mean over the batch, given as a module, a function, or a partial
    of one; None of all else."""
    partial = isinstance(loss, functools.partial) and not loss.args
    found, given = (loss.func, loss.keywords) if partial else (loss, {})
    kind = next((module for function, module in FUNCTIONS if function is found), None)
    if kind is not None:
        try:
            loss = kind(**given)
        except TypeError:  # options that the function alone has
            return None
    ours = type(loss).__module__ == "torch.nn.modules.loss"
    if not ours or getattr(loss, "reduction", None) != "mean":
        return None
    changed = "forward" in vars(loss) or loss._forward_hooks or loss._forward_pre_hooks
    return None if changed else loss


def _options(module: nn.Module) -> dict[str, Any]:
    """The options of a loss that are none of its defaults."""
    usual = {**vars(type(module)()), "reduction": "mean"}
    own = {n: v for n, v in vars(module).items() if not n.startswith("_") and n != "training"}
    tensors = {n: v for n, v in module._buffers.items() if v is not None}
    return {n: v for n, v in own.items() if v != usual.get(n)} | tensors


def _said(module: nn.Module, options: dict[str, Any]) -> str:
    plain = {n: v.tolist() if isinstance(v, torch.Tensor) else v for n, v in options.items()}
    told = ", ".join(f"{n}={plain[n]!r}" for n in sorted(plain))
    return f"{type(module).__name__}({told})" if told else type(module).__name__


def _entries(module: nn.Module) -> Callable[[Tensor, Tensor], Tensor]:
    """each(outputs, targets) -> (b,), the mean of a sample's entries."""
    none: Any = copy.deepcopy(module)
    none.reduction = "none"

    def each(outputs: Tensor, targets: Tensor) -> Tensor:
        found = none(outputs, targets)
        return found.reshape(len(found), -1).mean(dim=1)

    return each


def _of_values(module: nn.Module, sets: Sequence[Any], outputs: Tensor) -> Loss | None:
    if any(has_labels(t) or t.shape[1:] != outputs.shape[1:] for t in sets):
        return None  # torch broadcasts, or fails
    if type(module) is nn.MSELoss:
        return Loss("mean_squared_error")
    options = _options(module)
    slope = None if type(module) is nn.CrossEntropyLoss else _slope(module, options, outputs)
    return Loss(module, (_entries(module), None), _said(module, options), slope)


def _of_labels(module: nn.Module, sets: Sequence[Any], outputs: Tensor) -> Loss | None:
    """The cross entropy of labels, whose mean over a batch is sum mass each / sum mass."""
    if type(module) is not nn.CrossEntropyLoss:
        return None
    options, ignored = _options(module), module.ignore_index
    weight: Any = options.get("weight")
    # where a sample whose class has no weight still has a loss, that of smoothing, there is no mean
    # of weighted samples
    least = math.inf if weight is None else float(weight.min())
    if least < 0 or (least == 0 and module.label_smoothing):
        return None
    if not any(bool((t[:] == ignored).any()) for t in sets):
        options.pop("ignore_index", None)
        if not options and outputs.ndim == 2:  # torch has a sequence's classes on another axis
            return Loss("cross_entropy")
    entries = _entries(module)

    def mass(targets: Tensor) -> Tensor:
        real = targets != ignored
        counted = real.double() if weight is None else weight[torch.where(real, targets, 0)] * real
        return counted.reshape(len(targets), -1).mean(dim=1)

    def each(outputs: Tensor, targets: Tensor) -> Tensor:
        found, counted = entries(outputs, targets), mass(targets).to(outputs.dtype)
        return torch.where(counted > 0, found / counted.clamp(min=torch.finfo(found.dtype).tiny), 0.0)

    made = Loss(module, (each, mass), _said(module, options), _slope(module, options, outputs))
    made.labels = (1, int(ignored))
    return made


def _slope(module: Any, options: dict[str, Any], outputs: Tensor) -> Slope | None:
    """Return the loss as the compiled steps take it, of outputs (b, c); None where they lack it."""
    kind, weight = type(module), options.get("weight")
    if outputs.ndim != 2 or (weight is not None and kind is not nn.CrossEntropyLoss):
        return None
    if kind is nn.CrossEntropyLoss:
        shares = () if weight is None else tuple(weight.tolist())
        return Slope(0, float(module.label_smoothing), float(module.ignore_index), shares)
    if kind is nn.HuberLoss:
        return Slope(1, 1.0, float(module.delta))
    if kind is nn.SmoothL1Loss and module.beta > 0:
        return Slope(1, 1 / module.beta, float(module.beta))
    if kind is nn.BCEWithLogitsLoss:
        positive = options.get("pos_weight")
        every = () if positive is None else positive.expand(outputs.shape[1]).tolist()
        return Slope(2, 1.0, 0.0, tuple(every))
    return None


def _same(made: Loss, plain: nn.Module, outputs: Tensor, targets: Tensor) -> bool:
    """True if both have the same mean on a few samples; where torch refuses, or has none, it is
    asked again later."""
    try:
        a, b = made(outputs, targets), plain(outputs, targets)
    except Exception:
        return False
    return bool(torch.isclose(a, b, rtol=1e-4, atol=1e-6)) or not bool(torch.isfinite(b))


def _look_at(loss: Any, outputs: Any, targets: Any) -> None:
    """Raise `InvalidInput` where a loss of somebody's own has a gradient in parameters that it
    holds.

    Warn where it is a sum over the batch, and where it takes every output (b, 1) with every target
    (b,).
    """

    def of(outputs: Any, targets: Any) -> Any:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return loss(outputs, targets)
        except Exception:  # which `check_model` tells, or nobody, of what cannot be taken twice
            return None

    def number(outputs: Any, targets: Any) -> float:
        value = of(outputs, targets)
        return float(value) if isinstance(value, torch.Tensor) and value.numel() == 1 else math.nan

    targets = unpacked(targets)
    with torch.enable_grad():
        value = None if outputs is None else of(outputs, targets)
    if isinstance(value, torch.Tensor) and value.requires_grad:
        raise InvalidInput(
            "the loss depends on parameters that it holds itself, whose copies the clients would "
            "not train: keep them in the module, let forward return what the loss needs of them, "
            "(outputs, penalty), or set requires_grad_(False) on what is constant; ridge= is half "
            "a squared norm"
        )
    leaves = tree_leaves((outputs, targets))
    if all(isinstance(t, torch.Tensor) and t.ndim for t in leaves):
        once, again = number(outputs, targets), number(outputs, targets)
        both = number(*tree_map(lambda t: torch.cat([t, t]), (outputs, targets)))
        if once != 0 and math.isclose(both, 2 * once, rel_tol=1e-5):
            _warn(
                f"the loss of a batch is {once:.4g}, and {both:.4g} where the batch has every "
                "sample twice: a sum, and it must be the mean over the batch, or clients and test "
                "sets are weighted by the sizes of the pieces they come in"
            )
        paired = len(leaves) == 2 and len(targets) > 1 and targets.is_floating_point()
        if paired and {outputs.shape, targets.shape} == {targets.shape[:1], (len(targets), 1)}:
            alike = number(outputs.reshape(targets.shape), targets)
            differs = not math.isclose(once, alike, rel_tol=1e-4, abs_tol=1e-6)
            if once == again and differs and math.isfinite(alike):
                _warn(
                    f"the loss of outputs {tuple(outputs.shape)} and targets "
                    f"{tuple(targets.shape)} is {once:.4g}, and of outputs of the targets' shape "
                    f"{alike:.4g}: torch takes every output with every target; {SHAPED}"
                )


def _warn(said: str) -> None:
    warnings.warn(said, stacklevel=5)  # NeuralProblem's caller
