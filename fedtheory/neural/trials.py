"""Trials of a module on a few samples: in words, what else to give it, and where it fails."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves, tree_map

from fedtheory.errors import FedTheoryError, InvalidInput, MissingCapability
from fedtheory.neural.dropout import KeyedDropout, drawing_nothing
from fedtheory.neural.flat import FlatModule, arguments, as_module_takes, computed
from fedtheory.neural.losses import LOSSES, Loss
from fedtheory.neural.parts import described, has_labels, mapped, named, tensors, unpacked
from fedtheory.neural.torch_losses import TORCH

__all__ = ["check_labels", "check_model", "check_order", "check_samples", "check_tested", "remedy"]

PLACES = 64  # numbers a sample, of which each place is looked at by itself


def remedy(module: nn.Module, loss: Any, inputs: Any, targets: Any, outputs: Any, error: Exception) -> str:
    """Say what to do about a module or loss that failed; '' where nothing is known.

    outputs : None where the module failed
    """
    said = str(error)
    if outputs is None and _swapped(module, loss, inputs, targets):
        return ": inputs and targets look swapped, as the module takes these targets: give NeuralProblem(module, inputs, targets, ...)"
    whole = [name for name, t in named("inputs", inputs) if not t.is_floating_point() and t.dtype != torch.bool]
    floats = [name for name, t in named("inputs", inputs) if t.is_floating_point()]
    if outputs is None and whole and ("dtype" in said or "Input type" in said):  # of products, of convolutions
        name = whole[0]
        return f": {name} are whole numbers, which a module gets as int64: give floats, {name}.astype('float32'), images divided by 255"
    if outputs is None and floats and "indices" in said:
        return f": {floats[0]} are floats, and an embedding takes whole numbers: give {floats[0]}.astype(int)"
    if outputs is None:
        return "; the module is called with batches inputs[:b]: let samples come as it takes a batch, as with inputs.reshape(n, ...)"
    if not isinstance(outputs, torch.Tensor):
        return _several(loss, outputs, error)
    if not isinstance(targets, torch.Tensor):
        return ""
    classes = loss == "cross_entropy" or isinstance(loss, nn.CrossEntropyLoss | nn.NLLLoss)
    if classes and has_labels(targets) and targets.ndim == outputs.ndim and targets.shape[-1] == 1:
        return f": targets of shape (n, {', '.join(map(str, targets.shape[1:]))}) have an axis of one entry: give targets.squeeze(-1)"
    columns, wanted = (t.shape[-1] if t.ndim else 0 for t in (targets, outputs))
    if classes and not has_labels(targets) and targets.ndim == outputs.ndim and 1 < columns != wanted:
        return f": targets of {columns} columns are probabilities, and the module has {wanted} outputs: give as many"
    if classes and not has_labels(targets) and targets.shape != outputs.shape:
        return ": targets are floats, and labels are whole numbers: give targets.astype(int)"
    if classes and has_labels(targets) and targets.shape == outputs.shape:
        return ": targets of the outputs' shape are probabilities: give floats, targets.astype('float32'), or labels, targets.argmax(1)"
    if "can't be cast to the desired output type" in said and has_labels(targets):
        return ": targets are whole numbers, and this loss takes floats: give targets.astype('float32')"
    if "expected scalar type" in said or "to have the same dtype" in said:
        return f": outputs are {outputs.dtype}; let the loss make its tensors so, weight.to(outputs), or give NeuralProblem(dtype=...)"
    if ("must be the same as input size" in said or "have the same size" in said) and targets.numel() == outputs.numel():
        return ": give targets of the outputs' shape, targets[:, None] or targets.reshape(outputs.shape)"
    if isinstance(loss, nn.CrossEntropyLoss) and outputs.ndim == 3 and outputs.shape[:2] == targets.shape:
        return ": torch has the classes on axis 1; loss='cross_entropy' takes outputs (b, length, classes), or transpose them"
    return ""


def _swapped(module: nn.Module, loss: Any, inputs: Any, targets: Any) -> bool:
    """True if module and loss take the targets as inputs, and the inputs as targets."""
    try:
        with torch.no_grad():
            return Loss(loss)(computed(module, targets), inputs).ndim == 0
    except Exception:  # whatever a user's module or loss raises
        return False


def _several(loss: Any, outputs: Any, error: Exception) -> str:
    """Say what to do about outputs that are no tensor, where the loss takes one."""
    known = loss in LOSSES if isinstance(loss, str) else type(loss) in TORCH or loss in TORCH.values()
    kind = type(outputs).__name__
    if not known and not (isinstance(error, TypeError | AttributeError) and kind in str(error)):
        return ""  # a loss of the user's own, which may take them, and fails for another reason
    entries = outputs.items() if isinstance(outputs, Mapping) else enumerate(outputs) if isinstance(outputs, tuple | list) else ()
    places = [(place, isinstance(value, torch.Tensor)) for place, value in entries]
    first = next((place for place, tensor in places if tensor), 0)
    what = f"a {kind}"
    if isinstance(outputs, Mapping):
        what = f"a {kind} of {', '.join(repr(place) for place, _ in places)}"
    elif places:
        one, many = ("tensor", "tensors") if all(tensor for _, tensor in places) else ("entry", "entries")
        what = f"a {kind} of {len(places)} {one if len(places) == 1 else many}"
    name = "mse_loss" if isinstance(loss, str) and loss != "cross_entropy" else "cross_entropy"
    name = TORCH[type(loss)].__name__ if type(loss) in TORCH else name
    return f": the module returns {what}: give a loss of your own, as in lambda o, t: F.{name}(o[{first!r}], t)"


def check_model(
    module: nn.Module, loss: Any = "cross_entropy", sample: tuple[Any, Any] | None = None, whole: tuple[Any, Any] | None = None
) -> None:
    """Refuse what cannot be trained here, before anything is.

    Parameters
    ----------
    loss : name or callable, as `NeuralProblem` takes it
    sample : (inputs, targets), as `NeuralProblem` has them, or None
        A small batch, on which the loss is evaluated once.
    whole : (inputs, targets) or None
        All samples, whose shapes an error tells; None: those of the batch.

    Raises
    ------
    MissingCapability
        A layer with a buffer that changes, but for running statistics of torch's layers; a forward
        pass that draws at random but for dropout; complex parameters.
    InvalidInput
        No torch module; no parameters, or some without a size yet (lazy layers); a module that
        cannot take the inputs, or a loss that fails on its outputs, is not a scalar, or not
        differentiable.
    UnknownName
        No loss of that name.
    """
    flat = FlatModule(module)
    measure = Loss(loss)
    if sample is None:
        return
    given_samples = sample
    inputs, targets = sample = tuple(mapped(lambda t: t.clone(), part) for part in sample)
    versions = [t._version for part in sample for t in tensors(part)]
    kept = {name: value.clone() for name, value in module.named_buffers()}
    device = tensors(inputs)[0].device
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        outputs = None
        try:
            given, by_name = arguments(inputs)
            with KeyedDropout() as dropout, drawing_nothing(module, device):  # dropout's masks follow from keys
                outputs = module(*given, **by_name)
                if outputs is None:
                    raise InvalidInput(f"{type(module).__name__} returns None: let forward return what the loss takes")
                value = measure(outputs, targets)
        except FedTheoryError:
            raise
        except Exception as error:  # whatever a user's module or loss raises
            shapes = " and ".join(described(what, part) for what, part in zip(("inputs", "targets"), whole or sample, strict=True))
            raise InvalidInput(
                f"{type(module).__name__} with the loss {measure.name} fails on {shapes}: {type(error).__name__}: {error}"
                f"{remedy(module, loss, *given_samples, outputs, error)}"
            ) from error
        if versions != [t._version for part in sample for t in tensors(part)]:
            raise MissingCapability(
                f"{type(module).__name__} or its loss changes the samples it is given in place, which every client would then see: "
                "give its first layer inplace=False, and write x = x / 2 for x /= 2"
            )
        _check_repeats(module, sample, outputs)
        try:
            if dropout.shares and value.requires_grad:
                _check_backward(module, measure, sample)
            if value.requires_grad:
                _check_gradient(flat, measure, sample)
        except FedTheoryError:
            raise
        except RuntimeError as error:  # of torch
            said = str(error).split(". Hint")[0]
            if "modified by an inplace operation" in said:
                said += "; give nn.Dropout, and activations, inplace=False"
            raise InvalidInput(f"the backward pass of {type(module).__name__} with the loss {measure.name} fails: {said}") from error
    for name, held in kept.items():
        if not torch.equal(module.get_buffer(name), held):
            raise MissingCapability(
                f"a forward pass changes the buffer {name!r} of {type(module).__name__}, which is no parameter: clients' models would "
                "share it or lose it; use a module without such state"
            )
    if not value.requires_grad:
        raise InvalidInput(
            f"the loss {measure.name} does not depend on the parameters through torch operations: it has no gradient"
        )


def _check_repeats(module: nn.Module, sample: tuple[Any, Any], outputs: Any) -> None:
    """Raise `MissingCapability` where a second pass on the same samples has other outputs."""
    with torch.no_grad():
        again = computed(module, sample[0])
    pairs = zip(tree_leaves(outputs), tree_leaves(again), strict=True)
    tensors = [(a.detach(), b) for a, b in pairs if isinstance(a, torch.Tensor) and a.is_floating_point() and a.shape == b.shape]
    if any(bool((a - b).abs().max() > 1e-5 * a.abs().max()) for a, b in tensors if a.numel()):
        raise MissingCapability(
            f"{type(module).__name__} computes something else in every forward pass, though parameters and samples are the same: keep "
            "no count in it, and put what changes with each pass (spectral_norm, say) into eval mode"
        )


def _check_backward(module: nn.Module, measure: Loss, sample: tuple[Any, Any]) -> None:
    """Raise `MissingCapability` where a backward pass computes dropout again, without the key that the forward pass had."""
    parameters, found = [p for p in module.parameters() if p.requires_grad], []
    for seed in (0, 1, 2):  # of torch's own numbers, which checkpoints keep and draw from
        torch.manual_seed(seed)
        key = torch.zeros((), dtype=torch.int64, device=parameters[0].device)
        outputs = computed(module, mapped(torch.clone, sample[0]), key)  # dropout may be in place
        found.append(torch.autograd.grad(measure(outputs, sample[1]), parameters, allow_unused=True))
    if not all(a is b or torch.equal(a, b) for other in found[1:] for a, b in zip(found[0], other, strict=True)):
        raise MissingCapability(
            f"a backward pass of {type(module).__name__} computes dropout again (torch.utils.checkpoint?), with other masks than the "
            "forward pass had: put dropout outside of what is computed again, or turn it off with .eval()"
        )


def _check_gradient(flat: FlatModule, measure: Loss, sample: tuple[Any, Any]) -> None:
    """Raise `MissingCapability` where a module has another gradient once its parameters come from
    outside, as clients' models do."""
    inputs, targets = sample
    pieces = {name: p.detach().requires_grad_() for name, p in flat.views(0.9 * flat.initial()).items()}  # not the module's own point
    own = dict(flat.module.named_parameters())
    mine, before = [own[name] for name in pieces], [(own[name].detach().clone(), own[name].grad) for name in pieces]
    with KeyedDropout(), torch.enable_grad():
        try:
            for p, piece in zip(mine, pieces.values(), strict=True):
                p.data.copy_(piece.detach())
                p.grad = None
            measure(computed(flat.module, inputs), targets).backward()
            wanted = [p.grad for p in mine]
        finally:
            for p, (value, gradient) in zip(mine, before, strict=True):
                p.data.copy_(value)
                p.grad = gradient
        with flat.holding(pieces):
            found = torch.autograd.grad(measure(flat.run(pieces, inputs), targets), list(pieces.values()), allow_unused=True)
    pairs = [(a, b) for a, b in zip(wanted, found, strict=True) if a is not None]
    off = math.sqrt(sum(float((a if b is None else a - b).square().sum()) for a, b in pairs))
    size = math.sqrt(sum(float(a.square().sum()) for a, _ in pairs))
    if math.isfinite(size) and not off <= 1e-3 * size + 1e-6:
        raise MissingCapability(
            f"{type(flat.module).__name__} has another gradient once its parameters are given from outside, as clients' models are: "
            "leave out what computes with parameters it has kept, and give torch.utils.checkpoint use_reentrant=False"
        )


def check_order(given: tuple[Any, Any], test: tuple[Any, Any]) -> None:
    """Raise `InvalidInput` where test targets are of the shapes of the clients' inputs, and test
    inputs of those of their targets."""
    shapes, tested = ([[t.shape[1:] for t in tensors(part)] for part in pair] for pair in (given, test))
    if shapes[0] != shapes[1] and tested == shapes[::-1]:
        raise InvalidInput(
            f"{described('test inputs', test[0])} and {described('test targets', test[1])} look "
            "swapped, as each has the other's shape at the clients: give test=(inputs, targets)"
        )


def check_samples(module: nn.Module, sets: Mapping[str, Any]) -> None:
    """Raise `InvalidInput` where the module fails on the samples with the largest and the smallest
    whole number of each set.

    Of at most 64 numbers a sample, those of each place are tried, as each category may have an
    embedding of its own. Word numbers beyond an embedding are told so before any work, and a test
    set that the module does not take. On the CPU: on a GPU a number out of range ends the process.

    Parameters
    ----------
    sets : inputs (n, ...) by what they are called
    """
    own = copy.deepcopy(module).cpu()
    for what, inputs in sets.items():
        parts = named(what, inputs)
        numbers = _ends([t for _, t in parts])
        try:
            with torch.no_grad():
                computed(own, mapped(partial(_picked, numbers), inputs))
        except Exception as error:  # whatever a user's module raises
            which = f"samples {', '.join(map(str, numbers.tolist()))} of {what} ({_described(parts, numbers)})"
            raise InvalidInput(
                f"{type(module).__name__} fails on {which}: {type(error).__name__}: {error}; an embedding of n rows takes numbers 0 "
                "to n - 1, and test samples are of the clients' shapes"
            ) from error


def check_labels(module: nn.Module, loss: Any, inputs: Any, targets: Any, clients: Sequence[np.ndarray]) -> None:
    """Raise `InvalidInput` where a loss of the user's own fails on a client's sample with the
    largest or smallest whole number.

    An engine that computes many clients at once may not notice that a label is out of range, and
    give it loss 0.
    """
    if all(t.is_floating_point() or t.dtype == torch.bool for t in tensors(targets)):
        return
    held = torch.from_numpy(np.unique(np.concatenate(list(clients))))
    numbers = held[_ends(tensors(mapped(partial(_picked, held), targets)))]
    few_inputs, few_targets = (mapped(partial(_picked, numbers), part) for part in (inputs, targets))
    try:
        with torch.no_grad():
            outputs = computed(copy.deepcopy(module).cpu(), few_inputs)
    except Exception:  # a module that does not take so few samples
        return
    try:
        loss(outputs, unpacked(few_targets))
    except Exception as error:  # whatever a user's loss raises
        for i, number in enumerate(numbers.tolist()):
            one, target = (tree_map(lambda t, i=i: t[i : i + 1], part) for part in (outputs, unpacked(few_targets)))
            try:
                loss(one, target)
            except Exception as cause:
                shown = f" (its target is {target[0].tolist()})" if isinstance(target, torch.Tensor) else ""
                said = f"{type(cause).__name__}: {cause}"
                raise InvalidInput(f"the loss {Loss(loss).name} fails on sample {number}{shown}: {said}") from error


def check_tested(flat: FlatModule, loss: Loss, test: tuple[Any, Any], tried: int) -> None:
    """Raise `InvalidInput` where the loss fails on so many of the test samples, or is not one
    number: targets of another kind, say."""
    inputs, targets = (mapped(lambda t: t[:tried].clone(), part) for part in test)
    try:
        with torch.no_grad():
            value = loss(flat.call(flat.initial(), as_module_takes(inputs)), targets)
            told = "" if value.ndim == 0 else f"it has the shape {tuple(value.shape)}"
        cause: Exception | None = None
    except Exception as error:  # whatever a user's loss raises
        told, cause = f"{type(error).__name__}: {error}", error
    if told:
        raise InvalidInput(
            f"the loss {loss.name} fails on {described('the test inputs', inputs)} and {described('test targets', targets)}: {told}; "
            "give test targets of the dtype and shape of the clients'"
        ) from cause


def _ends(parts: list[Tensor]) -> Tensor:
    """The first and the last sample, and those with the largest and the smallest whole number at
    each of at most 64 places."""
    ends = {0, len(parts[0]) - 1}
    for t in parts:
        if not t.is_floating_point() and t.dtype != torch.bool and t.numel():
            flat = t.reshape(len(t), -1)
            if flat.shape[1] > PLACES:
                flat = torch.stack([flat.amin(dim=1), flat.amax(dim=1)], dim=1)
            ends |= {*flat.argmax(dim=0).tolist(), *flat.argmin(dim=0).tolist()}
    return torch.tensor(sorted(ends))


def _picked(numbers: Tensor, t: Tensor) -> Tensor:
    return t[numbers.to(t.device)].cpu()


def _described(parts: list[tuple[str, Tensor]], numbers: Tensor) -> str:
    told = []
    for name, t in parts:
        few = _picked(numbers, t)
        whole = not t.is_floating_point() and t.dtype != torch.bool and few.numel()
        told.append(f"{name} {tuple(few.shape)}" + (f", from {int(few.min())} to {int(few.max())}" if whole else ""))
    return "; ".join(told)

