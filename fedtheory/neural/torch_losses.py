"""torch's own losses with their options, as means of numbers of single samples; and somebody's own,
looked at before work starts."""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Callable, Sequence
from inspect import signature
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils._pytree import tree_map

from fedtheory.errors import InvalidInput
from fedtheory.neural.flat import FlatModule
from fedtheory.neural.losses import Loss, Slope
from fedtheory.neural.parts import has_labels, unpacked

__all__ = ["TORCH", "known_loss"]

# torch's losses that are means over samples, and over the entries of a sample; the first also of
# probabilities and with weights
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


def _function(loss: Any) -> tuple[Any, dict[str, Any]] | None:
    """torch's function behind a loss of torch's, and its options: of modules, functions and
    partials of functions; None of all else."""
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
    """The loss as `Loss` takes it: torch's own, with their options, sample by sample where that has
    the same mean on these samples.

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
    found = _function(loss)
    if found is None:
        outputs = _tried(flat, inputs)
        _check_closed(loss, outputs, targets)
        _warn_of_sums(loss, outputs, targets)
        _warn_of_pairs(loss, outputs, targets)
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


def _check_closed(loss: Any, outputs: Any, targets: Any) -> None:
    """Raise `InvalidInput` where a loss of somebody's own has a gradient in something else than the
    outputs: in parameters it holds."""
    if outputs is None:
        return
    try:
        with torch.enable_grad():
            value = loss(outputs, unpacked(targets))
    except Exception:  # which `check_model` tells
        return
    if isinstance(value, torch.Tensor) and value.requires_grad:
        raise InvalidInput(
            "the loss depends on parameters that it holds itself, of the module given, say, whose copies the clients train: they would "
            "not move with the clients' models, and have no gradient. Let forward return what the loss needs of them, (outputs, "
            "penalty); ridge= is half a squared norm; set requires_grad_(False) on what is constant"
        )


def _warn_of_sums(loss: Any, outputs: Any, targets: Any) -> None:
    """Warn where the loss of a batch that has every sample twice is twice the loss: it is a sum, and no mean."""
    try:
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            twice = [tree_map(lambda t: torch.cat([t, t]), part) for part in (outputs, unpacked(targets))]
            once, both = float(loss(outputs, unpacked(targets))), float(loss(*twice))
    except Exception:  # which `check_model` tells, or nobody, of what cannot be taken twice
        return
    if once != 0 and math.isfinite(once) and math.isclose(both, 2 * once, rel_tol=1e-5):
        warnings.warn(
            f"the loss of a batch is {once:.4g}, and {both:.4g} where the batch has every sample twice: a sum, and it must be the mean "
            "over the batch, or clients and test sets are weighted by the sizes of the pieces they come in",
            stacklevel=4,
        )


def _warn_of_pairs(loss: Any, outputs: Any, targets: Any) -> None:
    """Warn where a loss of somebody's own takes outputs (b, 1) with targets (b,), and says
    something else of outputs (b,)."""
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
            stacklevel=4,
        )


def _smooths_what_does_not_count(options: dict[str, Any]) -> bool:
    """True if a sample whose class has no weight still has a loss, that of smoothing, so that the
    mean is none of weighted samples."""
    weight = options.get("weight")
    return weight is not None and (bool((weight < 0).any()) or (bool((weight == 0).any()) and options.get("label_smoothing", 0.0) > 0))


def _beside(outputs: Tensor, option: Any) -> Any:
    if not isinstance(option, torch.Tensor):
        return option
    return option.to(outputs.device, outputs.dtype if option.is_floating_point() else option.dtype)


def _same(made: Loss, plain: Loss, outputs: Tensor, targets: Tensor) -> bool:
    """True if both have the same mean on a few samples; where torch refuses, or has none, it is asked again later."""
    try:
        a, b = made(outputs, targets), plain(outputs, targets)
    except Exception:
        return False
    return bool(torch.isclose(a, b, rtol=1e-4, atol=1e-6)) or not bool(torch.isfinite(b))


def _sample_by_sample(
    function: Any, options: dict[str, Any], classes: bool
) -> tuple[Callable[[Tensor, Tensor], Tensor], Callable[[Tensor], Tensor] | None]:
    """each(outputs, targets) -> (b,) and mass(targets) -> (b,) or None: the mean over a batch is
    sum mass each / sum mass."""
    none = functools.partial(function, **options, reduction="none")
    weight, ignored = options.get("weight"), options.get("ignore_index", -100)

    def mass(targets: Tensor) -> Tensor:
        real = targets != ignored
        counted = real.double() if weight is None else weight[torch.where(real, targets, 0)] * real
        return counted.reshape(len(targets), -1).mean(dim=1)

    def each(outputs: Tensor, targets: Tensor) -> Tensor:
        found = none(outputs, targets)
        return found.reshape(len(found), -1).mean(dim=1)

    def each_of_classes(outputs: Tensor, targets: Tensor) -> Tensor:
        found, counted = each(outputs, targets), mass(targets).to(outputs.dtype)
        return torch.where(counted > 0, found / counted.clamp(min=torch.finfo(found.dtype).tiny), 0.0)

    return (each_of_classes, mass) if classes else (each, None)


def _slope(function: Any, options: dict[str, Any], outputs: Tensor) -> Slope | None:
    """Return the loss as the compiled steps take it, of outputs (b, c); None where they lack it."""
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
