"""Evaluation on samples: hits and losses, summed on the device, and brought to the host once."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor

from fedtheory.arrays import to_numpy
from fedtheory.errors import MissingCapability
from fedtheory.neural.flat import FlatModule
from fedtheory.neural.interface import NetworkOnSamples
from fedtheory.neural.parts import has_labels
from fedtheory.neural.threads import in_pieces

__all__ = ["accuracy_of_clients", "alike", "counts", "has_accuracy", "objective", "on_test_set", "sums"]

ON_GPU = 4096  # samples of a piece
MOST, IN_CACHE = 1000, 6 * 2**20  # on a CPU: so many at most, and bytes of the largest layer's outputs, which the next layer reads
OF_ONE_BATCH = 500
_BYTES: WeakKeyDictionary[FlatModule, int] = WeakKeyDictionary()


def sums(
    problem: NetworkOnSamples, points: Tensor, inputs: Any, targets: Any,
    samples: np.ndarray | None = None, shares: np.ndarray | None = None,
    keep: Callable[[Any, Tensor], Any] | None = None,
) -> tuple[Tensor, list[Any]]:
    """Sums over samples of (hit, loss) under each model: float64 (M, 2), on the device; hits are
    NaN where nothing is classified.

    Parameters
    ----------
    points : (M, d)
        Models; each piece of samples is fetched once for all of them.
    inputs, targets : n samples
    samples : int (m,) or None
        Numbers of those that count; None: all, in their order.
    shares : (m,), (2, m) or None
        What each is multiplied with, or what its hit is and what its loss is; None: 1.
    keep : callable(outputs, targets)
        Called with those of every piece and model; what it returned is the list, by pieces in the
        order of the samples.

    Notes
    -----
    On a CPU, pieces run in as many threads as torch may use, each on one core. The numbers depend
    on neither.
    """
    device = problem.device
    count = len(targets) if samples is None else len(samples)
    index = None if samples is None else torch.from_numpy(samples).to(device)
    share = None if shares is None else torch.from_numpy(np.array(shares, dtype=float)).to(device)

    def piece(part: slice) -> tuple[Tensor, list[Any]]:
        chosen = part if index is None else index[part]
        x, t, s = inputs[chosen], targets[chosen], None if share is None else share[..., part]
        found, kept = [], []
        with torch.no_grad():
            for point in points:
                outputs = problem.engine.outputs(point, x)
                losses = problem.loss.each(outputs, t).to(torch.float64)
                each = torch.stack([_hits(problem, outputs, t), losses])
                found.append((each if s is None else each * s).sum(dim=1))
                if keep is not None:
                    kept.append(keep(outputs, t))
        return torch.stack(found), kept

    done = in_pieces(problem, count, _size(problem, inputs, count), piece, "evaluation")
    if not done:
        return torch.zeros(len(points), 2, dtype=torch.float64, device=device), []
    return torch.stack([found for found, _ in done]).sum(dim=0), [outputs for _, kept in done for outputs in kept]


def _hits(problem: NetworkOnSamples, outputs: Any, targets: Any) -> Tensor:
    """The share of each sample's labels that are right (b,), of those that count."""
    axis, ignored = problem.loss.labels or (-1, None)
    classified = isinstance(outputs, torch.Tensor) and has_labels(targets)
    found = outputs.argmax(dim=axis) if classified and outputs.ndim == targets.ndim + 1 else None
    if found is None or found.shape != targets.shape:  # the batch may not be on the first axis
        return torch.full((len(targets),), float("nan"), dtype=torch.float64, device=problem.device)
    right = (found == targets).to(torch.float64).reshape(len(targets), -1)
    if ignored is None:
        return right.mean(dim=1)
    counted = (targets != ignored).reshape(len(targets), -1)
    return (right * counted).sum(dim=1) / counted.sum(dim=1).clamp(min=1)


def counts(problem: NetworkOnSamples, samples: np.ndarray) -> np.ndarray:
    """Return each client sample's weight in a mean of the loss (n,). It is the weight of its class,
    0 where its label is ignored, and 1 without weights."""
    if problem.loss.mass(problem.targets[:1]) is None:  # asked of one, as the targets may be large
        return np.ones(len(samples))
    found = problem.loss.mass(problem.targets[torch.from_numpy(samples).to(problem.device)])
    return to_numpy(found).astype(float)


def alike(count: int, most: int | None = None) -> int:
    """Samples of a piece, `most` or fewer, such that no piece is much smaller than the others, and
    none has a single sample."""
    size = -(-count // -(-max(count, 1) // (most or OF_ONE_BATCH)))
    return next((s for s in (*range(size, 1, -1), *range(size + 1, count + 1)) if count % s != 1), size)


def _size(problem: NetworkOnSamples, inputs: Any, count: int) -> int:
    """Samples of a piece, from the sizes of the problem alone."""
    if problem.flat.depends_on_batch:
        return alike(count)
    if problem.device.type == "cuda":
        return alike(count, ON_GPU)
    if problem.flat not in _BYTES:
        _BYTES[problem.flat] = _largest_output(problem.flat, inputs[: min(2, count)])
    return alike(count, max(2, min(MOST, IN_CACHE // _BYTES[problem.flat])))


def _largest_output(flat: FlatModule, inputs: Any) -> int:
    """Bytes for each sample of the largest tensor that a part of the module returns."""
    found = [1]

    def look(part: Any, given: Any, returned: Any) -> None:
        tensors = returned if isinstance(returned, tuple | list) else (returned,)
        found.extend(t.numel() * t.element_size() // len(inputs) for t in tensors if isinstance(t, torch.Tensor))

    hooks = [part.register_forward_hook(look) for part in flat.module.modules()]
    try:
        with torch.no_grad():
            flat.call(flat.initial(), inputs)
    finally:
        for hook in hooks:
            hook.remove()
    return max(found)


def on_test_set(problem: NetworkOnSamples, points: Tensor, keep: Callable[[Any], Any] | None = None) -> tuple[np.ndarray, list[Any]]:
    """Mean (hit, loss) over the test set of each model (M, d): (M, 2), and what `keep` returned.

    Raises `MissingCapability` where the problem was made without test samples.
    """
    if problem.test is None:
        raise MissingCapability("this problem has no test samples: give test=(inputs, targets)")
    once = None if keep is None else lambda outputs, _: keep(outputs)
    mass, labels = problem.loss.mass(problem.test[1][:]), problem.loss.labels
    if mass is None:
        total, kept = sums(problem, points, *problem.test, keep=once)
        return to_numpy(total) / len(problem.test[1]), kept
    counted = (problem.test[1][:] != (labels or (1, None))[1]).reshape(len(mass), -1).any(dim=1)
    with np.errstate(invalid="ignore"):  # a test set of ignored labels has no mean, as in torch
        shares = np.stack([own / own.sum() for own in (to_numpy(counted).astype(float), to_numpy(mass).astype(float))])
    total, kept = sums(problem, points, *problem.test, shares=shares, keep=once)
    return to_numpy(total), kept


def accuracy_of_clients(problem: NetworkOnSamples, x: Tensor, personal: Tensor | None) -> np.ndarray:
    """`NeuralProblem.evaluate_clients`: server models (S, d), personal ones (S, N, d) -> (S,)."""
    test, tested, clients = problem.test, problem.tested, problem.client_samples
    if test is None or not has_labels(test[1]) or (tested is None and test[1].ndim != 1):
        raise MissingCapability("accuracy by label needs test samples with one label each: give test=(inputs, labels)")
    ignored = (problem.loss.labels or (-1, None))[1]
    ignored, labels = -1 if ignored is None else ignored, to_numpy(test[1][:])
    counted = (labels != ignored).reshape(len(labels), -1).any(axis=1)
    real, held, there = np.flatnonzero(counted), labels[:0], np.zeros(0, int)
    if tested is None:
        held = to_numpy(problem.targets[:])
        there = np.bincount(labels[real], minlength=int(held.max()) + 1)

    def shares(k: int) -> tuple[np.ndarray, np.ndarray]:
        """The numbers of the client's test samples, and what each counts."""
        if tested is not None:
            own = tested[k][counted[tested[k]]]
            return own, np.full(len(own), 1 / max(len(own), 1))
        mine = held[clients[k]]
        each = np.bincount(mine[mine != ignored], minlength=len(there)) * (there > 0)
        return real, (each / max(each.sum(), 1) / np.maximum(there, 1))[labels[real]]

    def hits(points: Tensor, numbers: np.ndarray) -> np.ndarray:
        _, kept = sums(problem, points, *test, numbers, keep=partial(_hits, problem))
        return np.stack([to_numpy(torch.cat(kept[m :: len(points)])) for m in range(len(points))])

    total, everybody, count = np.zeros(len(x)), np.zeros(len(labels)), 0
    for k in range(problem.num_clients):
        numbers, share = shares(k)
        count += len(numbers) > 0
        if personal is None:
            np.add.at(everybody, numbers, share)
        elif len(numbers):
            total += hits(personal[:, k], numbers) @ share
    used = np.flatnonzero(everybody)
    if len(used):
        total = hits(x, used) @ everybody[used]
    return total / count if count else np.full(len(x), np.nan)


def has_accuracy(problem: NetworkOnSamples) -> bool:
    """True if the test targets are labels, and the outputs have a class for each."""
    if problem.test is None:
        return False
    inputs, targets = problem.test
    with torch.no_grad():
        outputs = problem.engine.outputs(problem.flat.initial(), inputs[:2])
    return bool(torch.isfinite(_hits(problem, outputs, targets[:2])).all())


def objective(problem: NetworkOnSamples, weights: np.ndarray, x: Tensor) -> Tensor:
    """sum_k weights_k f_k at (..., d), from one pass over all samples that count."""
    share = np.zeros(len(problem.targets))
    for w, held in zip(weights, problem.client_samples, strict=True):
        counted = counts(problem, held)
        np.add.at(share, held, w * counted / counted.sum())
    used, points = np.nonzero(share)[0], x.reshape(-1, problem.dim)
    everybody = None if len(used) == len(share) else used
    losses = sums(problem, points, problem.inputs, problem.targets, everybody, share[used])[0][:, 1]
    squares = points[:, : problem.flat.trained].square().sum(dim=1)
    return (losses + problem.ridge / 2 * squares).to(x.dtype).reshape(x.shape[:-1])
