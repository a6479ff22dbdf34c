"""Trials of a module and a loss on a few samples, and the errors of those that fail later."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from fedtheory.arrays import to_numpy
from fedtheory.errors import FedTheoryError, InvalidInput, MissingCapability
from fedtheory.local.objective import Rows
from fedtheory.neural.dropout import KeyedDropout, drawing_nothing
from fedtheory.neural.flat import FlatModule, arguments, computed
from fedtheory.neural.interface import NetworkOnSamples
from fedtheory.neural.losses import Loss
from fedtheory.neural.parts import OnHost, described, mapped, tensors

__all__ = [
    "check_ends", "check_model", "failed_in_a_round", "failed_where_measured", "failing_is_told",
    "not_finite",
]

PLACES = 64  # numbers a sample, of which each place is looked at by itself
WIDEST = 2**20  # numbers from the least to the largest label, if each of them is looked for
CLASSES = 100  # labels of which a sample each is tried: of more, the first and the last fifty


@contextmanager
def failing_is_told(what: str) -> Iterator[None]:
    """Raise `InvalidInput` that says what fails, and what torch or the user's code says of it."""
    try:
        yield
    except FedTheoryError:
        raise
    except Exception as error:  # whatever a user's module, loss or metric raises
        raise InvalidInput(f"{what}: {type(error).__name__}: {error}") from error


def _both(module: nn.Module, loss: Loss) -> str:
    return f"{type(module).__name__} with the loss {loss.name}"


def _shapes(sample: tuple[Any, Any]) -> str:
    return f"{described('inputs', sample[0])} and {described('targets', sample[1])}"


def check_model(module: nn.Module, loss: Any, sample: tuple[Any, Any]) -> None:
    """Refuse what cannot be trained here, before anything is, on a small batch (inputs, targets).

    The module's own parameters are changed.

    Raises
    ------
    MissingCapability
        Another buffer than running statistics of torch's layers that changes; a forward pass that
        draws at random but for dropout, changes its samples, or computes something else each time;
        gradients that are others once the parameters come from outside.
    InvalidInput
        A module that cannot take the inputs, or a loss that fails on its outputs, is not a scalar,
        or not differentiable.
    """
    flat, measure = FlatModule(module), Loss(loss)
    inputs, targets = sample = tuple(mapped(lambda t: t.clone(), part) for part in sample)
    versions = [t._version for part in sample for t in tensors(part)]
    kept = {name: value.clone() for name, value in module.named_buffers()}
    with (
        failing_is_told(f"{_both(module, measure)} fails on a batch of {_shapes(sample)}"),
        KeyedDropout() as dropout,  # its masks follow from keys
        drawing_nothing(module, tensors(inputs)[0].device),
    ):
        positional, by_name = arguments(inputs)
        outputs = module(*positional, **by_name)
        value = measure(outputs, targets)
    if versions != [t._version for part in sample for t in tensors(part)]:
        raise MissingCapability(
            f"{type(module).__name__} or its loss changes the samples it is given in place, which "
            "every client would then see: give its first layer inplace=False, and write x = x / 2 "
            "for x /= 2"
        )
    _check_repeats(module, inputs, outputs)
    with failing_is_told(f"the backward pass of {_both(module, measure)} fails"):
        if dropout.shares and value.requires_grad:
            _check_backward(module, measure, sample)
        _check_gradient(flat, measure, sample)
    for name, held in kept.items():
        if not torch.equal(module.get_buffer(name), held):
            raise MissingCapability(
                f"a forward pass changes the buffer {name!r} of {type(module).__name__}, which is no parameter: clients' models would "
                "share it or lose it; use a module without such state"
            )


def _check_repeats(module: nn.Module, inputs: Any, outputs: Any) -> None:
    """Raise `MissingCapability` where a second pass on the same samples has other outputs."""
    with torch.no_grad():
        again = computed(module, inputs)
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
    device = parameters[0].device
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        for seed in (0, 1, 2):  # of torch's own numbers, which checkpoints keep and draw from
            torch.manual_seed(seed)
            key = torch.zeros((), dtype=torch.int64, device=device)
            outputs = computed(module, mapped(torch.clone, sample[0]), key)  # it may be in place
            value = measure(outputs, sample[1])
            found.append(torch.autograd.grad(value, parameters, allow_unused=True))
    if not all(a is b or torch.equal(a, b) for other in found[1:] for a, b in zip(found[0], other, strict=True)):
        raise MissingCapability(
            f"a backward pass of {type(module).__name__} computes dropout again (torch.utils.checkpoint?), with other masks than the "
            "forward pass had: put dropout outside of what is computed again, or turn it off with .eval()"
        )


def _check_gradient(flat: FlatModule, measure: Loss, sample: tuple[Any, Any]) -> None:
    """Raise `MissingCapability` where a module has another gradient once its parameters come from
    outside, as clients' models do."""
    inputs, targets = sample
    views = flat.views(0.9 * flat.initial())
    pieces = {name: p.detach().requires_grad_() for name, p in views.items()}
    parameters = dict(flat.module.named_parameters())
    mine = [parameters[name] for name in pieces]
    with torch.no_grad():
        for p, piece in zip(mine, pieces.values(), strict=True):
            p.copy_(piece)  # not the module's own point, of which it may have kept something
            p.grad = None
    with KeyedDropout(), torch.enable_grad():
        measure(computed(flat.module, inputs), targets).backward()  # nested passes included
        with flat.holding(pieces):
            value = measure(flat.run(pieces, inputs), targets)
            found = torch.autograd.grad(value, list(pieces.values()), allow_unused=True)
    pairs = [(p.grad, b) for p, b in zip(mine, found, strict=True) if p.grad is not None]
    off = math.sqrt(sum(float((a if b is None else a - b).square().sum()) for a, b in pairs))
    size = math.sqrt(sum(float(a.square().sum()) for a, _ in pairs))
    if math.isfinite(size) and not off <= 1e-3 * size + 1e-6:
        raise MissingCapability(
            f"{type(flat.module).__name__} has another gradient once its parameters are given from outside, as clients' models are: "
            "leave out what computes with parameters it has kept, and give torch.utils.checkpoint use_reentrant=False"
        )


def check_ends(
    module: nn.Module, loss: Any, sets: Mapping[str, tuple[Any, Any]], held: np.ndarray
) -> None:
    """Raise `InvalidInput` where module or loss fail on samples with the largest or the smallest
    whole number, or of a label.

    Under vmap an embedding takes the next model's rows for a number beyond its own, a loss may give
    a label out of range the loss 0, and compiled steps read memory by it. Of at most 64 numbers a
    sample, those of each place are tried, as each category may have an embedding of its own. On the
    CPU: on a GPU a number out of range ends the process.

    Parameters
    ----------
    loss : name or callable
    sets : (inputs, targets) by what their samples are called; the first are the clients'
    held : the numbers of the samples that a client has, whose labels count
    """
    own = copy.deepcopy(module).cpu()
    measure = Loss(copy.deepcopy(loss).cpu() if isinstance(loss, nn.Module) else loss)
    for what, (inputs, targets) in sets.items():
        numbers = _ends(inputs, targets, np.arange(len(targets)) if what else held)
        x, t = (mapped(partial(_picked, numbers), part) for part in (inputs, targets))
        some = ", ".join(map(str, numbers[:30].tolist())) + ", ..." * (len(numbers) > 30)
        which = f"{what}samples {some} ({_shapes((x, t))})"
        with torch.no_grad(), failing_is_told(f"{_both(module, measure)} fails on {which}"):
            try:
                measure(computed(own, x), t)
            except RuntimeError as error:
                if "same device" not in str(error):  # as of constants that they keep on a GPU
                    raise


def _ends(inputs: Any, targets: Any, held: np.ndarray) -> Tensor:
    """Numbers of samples: the first and the last, those with the largest and the smallest whole
    number at each of at most 64 places of the inputs, and one of each label held."""
    ends = {int(held[0]), int(held[-1])}
    for t in filter(_is_whole, map(_whole, tensors(inputs))):
        flat = t.reshape(len(t), -1)
        if flat.shape[1] > PLACES:
            flat = torch.stack([flat.amin(dim=1), flat.amax(dim=1)], dim=1)
        ends |= {*flat.argmax(dim=0).tolist(), *flat.argmin(dim=0).tolist()}
    for t in filter(_is_whole, map(_whole, tensors(targets))):
        values = to_numpy(t[torch.from_numpy(held).to(t.device)]).reshape(len(held), -1)
        least, most = int(values.min()), int(values.max())
        if most - least < WIDEST:
            one = np.full(most - least + 1, -1)
            one[values.astype(np.int64) - least] = held[:, None]
            one = one[one >= 0]
            ends |= {*(one if len(one) <= CLASSES else np.r_[one[:50], one[-50:]]).tolist()}
        else:
            ends |= {*held[[values.min(axis=1).argmin(), values.max(axis=1).argmax()]].tolist()}
    return torch.tensor(sorted(ends))


def _whole(samples: Tensor | OnHost) -> Tensor:
    """All samples where they lie."""
    return samples.held if isinstance(samples, OnHost) else samples


def _is_whole(t: Tensor) -> bool:
    return not t.is_floating_point() and t.dtype != torch.bool and t.numel() > 0


def _picked(numbers: Tensor, t: Tensor | OnHost) -> Tensor:
    return t[numbers.to(t.device)].cpu()


def failed_in_a_round(
    problem: NetworkOnSamples, error: Exception, start: Tensor, rows: Rows
) -> Exception:
    """Return the error to raise for one in the local steps of `rows` from start (N, B, d).

    It names the round, and the client whose loss fails where its steps began, if there is one. An
    error that no client shows then is left as it is where the loss is known, as it may be no
    user's; so is one of CUDA, after which everything fails.
    """
    told = f"{_both(problem.flat.module, problem.loss)} fails: {type(error).__name__}: {error}"
    who = [n for n in range(len(rows.clients)) if rows.valid[n].any()]
    for n in who if "CUDA error" not in str(error) else ():
        try:
            point = start[n, int(rows.valid[n].argmax())]
            problem.subset(np.array([n])).client_value(point[None, None])
        except Exception:  # whatever a user's module or loss raises
            return InvalidInput(f"round {rows.round_index}, client {rows.clients[n]}: {told}")
    if problem.loss.weighted:
        return error
    one = "one of the clients" if len(who) > 1 else "client"
    clients = ", ".join(str(rows.clients[n]) for n in who)
    return InvalidInput(f"round {rows.round_index}, {one} {clients}: {told}")


def failed_where_measured(problem: NetworkOnSamples, error: Exception, tested: bool) -> Exception:
    """Return the error to raise for one on the test set or on the clients' samples."""
    where = f"fails on the {'test ' * tested}samples: {type(error).__name__}: {error}"
    return InvalidInput(f"{_both(problem.flat.module, problem.loss)} {where}")


def not_finite(problem: NetworkOnSamples, start: Any, client: int | None) -> str | None:
    """In words, that a client's loss (None: any client's), or its gradient, is not finite at the
    start."""
    y = torch.as_tensor(start).reshape(1, 1, -1).to(problem.flat.initial())
    for k in range(problem.num_clients) if client is None else [client]:
        own = problem.subset(np.array([k]))
        kernels = {"loss": own.client_value, "gradient of the loss": own.client_gradient}
        for what, compute in kernels.items():
            if not bool(torch.isfinite(compute(y)).all()):
                return (
                    f"the {what} {problem.loss.name} is not finite at client {k} at the start "
                    "already, before any step: clean its samples and targets, or let the loss and "
                    "the module be finite there, as log(z + 1e-8) and sqrt(z + 1e-8) are"
                )
    return None
