"""Samples on which a user's module or loss fails or is not finite, sought once one did."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedtheory.errors import FedTheoryError, InvalidInput
from fedtheory.local.objective import Rows
from fedtheory.neural.engines.base import Batch
from fedtheory.neural.interface import NetworkOnSamples
from fedtheory.neural.parts import gathered, has_labels, mapped, repeated, tensors

__all__ = ["failed_in_a_round", "failed_where_measured", "not_finite"]

AT_ONCE = 500  # samples of a piece that is tried
Trial = Callable[[np.ndarray], Any]  # of sample numbers: what goes wrong, None where nothing does


def failed_in_a_round(problem: NetworkOnSamples, error: Exception, start: Tensor, rows: Rows) -> Exception:
    """Return the error to raise for one in local steps: it names round, client and sample.

    The steps are those of `rows` from start (N, B, d).

    Each client's samples are tried where its steps began. An error that they do not show again is
    told without a sample where the loss is a user's own, and is left as it is where the loss is
    known, as it may be no user's.
    """
    clients = rows.clients.tolist()
    for n, held in enumerate(problem.client_samples):
        if rows.valid[n].any():
            point = start[n, int(rows.valid[n].argmax())]
            if told := _failing(problem, error, point, (problem.inputs, problem.targets), held):
                return InvalidInput(f"round {rows.round_index}, client {clients[n]}: {told}")
    if problem.loss.weighted:
        return error
    who = [str(k) for k, valid in zip(clients, rows.valid, strict=True) if valid.any()]
    return InvalidInput(
        f"round {rows.round_index}, {'client' if len(who) == 1 else 'one of the clients'} {', '.join(who)}: the loss "
        f"{problem.loss.name}, or {type(problem.flat.module).__name__}, fails: {type(error).__name__}: {error}; where the round began "
        "it fails on none of their samples, so let it take what a few steps lead to, and batches of every size"
    )


def failed_where_measured(problem: NetworkOnSamples, error: Exception, tested: bool) -> Exception:
    """Return the error to raise for one on the test set or on the clients' samples.

    It names the sample, which is tried at the start.
    """
    point, sets = problem.flat.initial(), problem.test if tested and problem.test is not None else (problem.inputs, problem.targets)
    held = np.arange(len(sets[1])) if tested else np.unique(np.concatenate(problem.client_samples))
    told = _failing(problem, error, point, sets, held, "test sample" if tested else "sample")
    return error if told is None else InvalidInput(told)


def not_finite(problem: NetworkOnSamples, start: Any, client: int | None) -> str | None:
    """In words, the first of a client's samples (None: of all clients') whose loss, or its
    gradient, is not finite at the start."""
    point = torch.as_tensor(start).reshape(-1).to(problem.flat.initial())
    held = problem.client_samples if client is None else [problem.client_samples[client]]

    def loss(numbers: np.ndarray) -> Any:
        with torch.no_grad():
            value = problem.loss(*_computed(problem, point, (problem.inputs, problem.targets), numbers))
        return None if bool(torch.isfinite(value)) else f"the loss {problem.loss.name} is {float(value)}"

    def gradient(numbers: np.ndarray) -> Any:
        x, t = _taken(problem, (problem.inputs, problem.targets), numbers)
        found = problem.engine.gradient(point[None], Batch(repeated(x, 1), repeated(t, 1)))
        finite = torch.isfinite(found).all()
        return None if bool(finite) else f"the gradient of the loss {problem.loss.name} is not finite"

    try:
        found = _first(loss, np.concatenate(held)) or _first(gradient, np.concatenate(held))
    except Exception:  # whatever a user's loss raises: the run has its own error
        return None
    if found is None:
        return None
    numbers, said = found
    odd = [t[numbers[0]] for t in tensors(problem.targets) if t.is_floating_point()]
    if any(not bool(torch.isfinite(t).all()) for t in odd):
        return f"{said} on {_named(problem.targets, numbers)} at the start already: clean or drop that sample"
    return (
        f"{said} on {_named(problem.targets, numbers)} at the start already, before any step: let the loss and the module be finite "
        "there, as log(z + 1e-8) and sqrt(z + 1e-8) are, or start elsewhere"
    )


def _failing(
    problem: NetworkOnSamples, error: Exception, point: Tensor, sets: tuple[Any, Any], held: np.ndarray, kind: str = "sample"
) -> str | None:
    outputs: list[Any] = []

    def fails(numbers: np.ndarray) -> Any:
        what = f"{type(problem.flat.module).__name__} fails"
        try:
            with torch.no_grad():
                found, t = _computed(problem, point, sets, numbers)
                outputs[:], what = [found], f"the loss {problem.loss.name} fails"
                problem.loss(found, t)
        except FedTheoryError:
            return None
        except Exception as again:  # whatever a user's module or loss raises
            return what if type(again) is type(error) else None
        return None

    found = _first(fails, held)
    if found is None:
        return None
    (numbers, what), said = found, str(error).rstrip(".")
    return (
        f"{what} on {_named(sets[1], numbers, kind)}: {type(error).__name__}: {said}{_labels(outputs, sets[1], numbers)}; mend that "
        "sample, leave it out, or let the loss take it"
    )


def _labels(outputs: list[Any], targets: Any, numbers: np.ndarray) -> str:
    """That a target is no label of such outputs, where it is none."""
    if not outputs or not isinstance(outputs[0], torch.Tensor) or not has_labels(targets) or outputs[0].ndim != targets.ndim + 1:
        return ""
    classes, labels = outputs[0].shape[-1], targets[numbers[0]]
    return "" if bool(((labels >= 0) & (labels < classes)).all()) else f" (labels of {classes} outputs are 0 to {classes - 1})"


def _taken(problem: NetworkOnSamples, sets: tuple[Any, Any], numbers: np.ndarray) -> tuple[Any, Any]:
    index = torch.from_numpy(np.ascontiguousarray(numbers)).to(problem.device)
    return gathered(sets[0], index), gathered(sets[1], index)


def _computed(problem: NetworkOnSamples, point: Tensor, sets: tuple[Any, Any], numbers: np.ndarray) -> tuple[Any, Any]:
    """Outputs and targets of the samples of these numbers."""
    x, t = _taken(problem, sets, numbers)
    return problem.engine.outputs(point, x), t


def _first(trial: Trial, held: np.ndarray) -> tuple[np.ndarray, Any] | None:
    """The fewest samples, by halving the first piece that does, on which something goes wrong, and what it is."""
    for samples in np.array_split(held, -(-len(held) // AT_ONCE)):
        said = trial(samples)
        if said is None:
            continue
        while len(samples) > 1:
            halves = [samples[: len(samples) // 2], samples[len(samples) // 2 :]]
            worse = next(((half, told) for half in halves if (told := trial(half)) is not None), None)
            if worse is None:  # only together
                break
            samples, said = worse
        return samples, said
    return None


def _named(targets: Any, numbers: np.ndarray, kind: str = "sample") -> str:
    if len(numbers) > 1:
        few = ", ".join(map(str, numbers[:5].tolist()))
        return f"{kind}s {few}{f', ... ({len(numbers)} in all)' if len(numbers) > 5 else ''} together"
    own = tensors(mapped(lambda t: t[int(numbers[0])], targets))
    told = f" (its target is {own[0].item():.6g})" if len(own) == 1 and own[0].numel() == 1 else ""
    return f"{kind} {numbers[0]}{told}"
