"""What models make of samples: hits and losses, summed on the device, and brought to the host once."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np
import torch

from fedtheory.arrays import to_numpy
from fedtheory.errors import MissingCapability
from fedtheory.neural.interface import NetworkOnSamples
from fedtheory.neural.threads import in_pieces

if TYPE_CHECKING:
    from torch import Tensor

    from fedtheory.neural.flat import FlatModule

__all__ = ["accuracy_of_clients", "objective", "on_test_set", "sums"]

ON_GPU = 4096  # samples of a piece
MOST, IN_CACHE = 1000, 6 * 2**20  # on a CPU: so many at most, and bytes of the largest layer's outputs, which the next layer reads
_BYTES: WeakKeyDictionary[FlatModule, int] = WeakKeyDictionary()


def sums(
    problem: NetworkOnSamples,
    points: Tensor,
    inputs: Any,
    targets: Tensor,
    samples: np.ndarray | None = None,
    shares: np.ndarray | None = None,
    keep: Callable[[Any], Any] | None = None,
) -> tuple[Tensor, list[Any]]:
    """Sums over samples of (hit, loss) under each model: float64 (M, 2), on the device; hits are NaN where nothing is classified.

    Parameters
    ----------
    points : (M, d)
        Models; each piece of samples is fetched once for all of them.
    inputs, targets : n samples
    samples : int (m,) or None
        Numbers of those that count; None: all, in their order.
    shares : (m,) or None
        What each is multiplied with; None: 1.
    keep : callable(outputs)
        Called with the outputs of every piece; what it returned is the list, in the order of the samples.

    Notes
    -----
    On a CPU, pieces run in as many threads as torch may use, each on one core. The numbers depend on neither.
    """
    device = problem.device
    count = len(targets) if samples is None else len(samples)
    index = None if samples is None else torch.from_numpy(samples).to(device)
    share = None if shares is None else torch.from_numpy(np.ascontiguousarray(shares, dtype=float)).to(device)

    def piece(part: slice) -> tuple[Tensor, list[Any]]:
        chosen = part if index is None else index[part]
        x, t, s = inputs[chosen], targets[chosen], None if share is None else share[part]
        found, kept = [], []
        with torch.no_grad():
            for point in points:
                outputs = problem.engine.outputs(point, x)
                found.append(torch.stack([_sum(each, s) for each in (_hits(outputs, t), problem.loss.each(outputs, t))]))
                if keep is not None:
                    kept.append(keep(outputs))
        return torch.stack(found), kept

    done = in_pieces(problem, count, _size(problem, inputs, count), piece, "evaluation")
    if not done:
        return torch.zeros(len(points), 2, dtype=torch.float64, device=device), []
    return torch.stack([found for found, _ in done]).sum(dim=0), [outputs for _, kept in done for outputs in kept]


def _sum(each: Tensor, share: Tensor | None) -> Tensor:
    each = each.to(torch.float64)
    return each.sum() if share is None else each @ share


def _hits(outputs: Any, targets: Tensor) -> Tensor:
    """The share of each sample's labels that are right (b,)."""
    if not isinstance(outputs, torch.Tensor) or outputs.ndim != targets.ndim + 1 or targets.is_floating_point():
        return torch.full((len(targets),), float("nan"), dtype=torch.float64, device=targets.device)
    return (outputs.argmax(dim=-1) == targets).to(torch.float64).reshape(len(targets), -1).mean(dim=1)


def _size(problem: NetworkOnSamples, inputs: Any, count: int) -> int:
    """Samples of a piece, from the sizes of the problem alone."""
    if problem.device.type == "cuda":
        return ON_GPU
    if problem.flat not in _BYTES:
        _BYTES[problem.flat] = _largest_output(problem.flat, inputs[: min(2, count)])
    return max(1, min(MOST, IN_CACHE // _BYTES[problem.flat]))


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

    Raises
    ------
    MissingCapability
        The problem was made without test samples.
    """
    if problem.test is None:
        raise MissingCapability("this problem has no test samples: give test=(inputs, targets)")
    total, kept = sums(problem, points, *problem.test, keep=keep)
    return to_numpy(total) / len(problem.test[1]), kept


def accuracy_of_clients(problem: NetworkOnSamples, x: Tensor, personal: Tensor | None) -> np.ndarray:
    """`NeuralProblem.evaluate_clients`: server models (S, d), personal ones (S, N, d) -> (S,)."""
    if problem.test is None or problem.test[1].is_floating_point() or (problem.tested is None and problem.test[1].ndim != 1):
        raise MissingCapability("accuracy by label needs test samples with one label each: give test=(inputs, labels)")
    if problem.tested is not None:
        numbers, shares = zip(*((own, np.full(len(own), 1 / len(own))) for own in problem.tested if len(own)), strict=True)
        clients = [k for k, own in enumerate(problem.tested) if len(own)]
    else:
        labels, shares = to_numpy(problem.test[1]), _by_label(problem)
        numbers, clients = (np.arange(len(labels)),) * len(shares), list(range(len(shares)))
        if personal is None:  # all clients weigh the same samples
            numbers, shares = numbers[:1], (np.mean(shares, axis=0),)
            return to_numpy(sums(problem, x, *problem.test, None, shares[0])[0][:, 0])
    if personal is None:  # one pass over all of them
        return to_numpy(sums(problem, x, *problem.test, np.concatenate(numbers), np.concatenate(shares))[0][:, 0]) / len(clients)
    each = [sums(problem, personal[:, k], *problem.test, n, s)[0][:, 0] for k, n, s in zip(clients, numbers, shares, strict=True)]
    return to_numpy(torch.stack(each).mean(dim=0))


def _by_label(problem: NetworkOnSamples) -> list[np.ndarray]:
    """For each client, what each test sample counts (n,): labels are as frequent as among the client's own samples."""
    held, tested = to_numpy(problem.targets), to_numpy(problem.test[1])  # type: ignore[index]
    classes = int(max(held.max(), tested.max())) + 1
    there = np.bincount(tested, minlength=classes)
    share = np.stack([np.bincount(held[c], minlength=classes) for c in problem.client_samples]) * (there > 0)
    share = share / np.maximum(share.sum(axis=1, keepdims=True), 1) / np.maximum(there, 1)
    return [own[tested] for own in share]


def objective(problem: NetworkOnSamples, weights: np.ndarray, x: Tensor) -> Tensor:
    """sum_k weights_k f_k at (..., d), from one pass over all samples that count."""
    share = np.zeros(len(problem.targets))
    for w, held in zip(weights, problem.client_samples, strict=True):
        np.add.at(share, held, w / len(held))
    used, points = np.nonzero(share)[0], x.reshape(-1, problem.dim)
    everybody = None if len(used) == len(share) else used
    losses = sums(problem, points, problem.inputs, problem.targets, everybody, share[used])[0][:, 1]
    squares = (points * points).sum(dim=1)
    return (losses + problem.ridge / 2 * squares).to(x.dtype).reshape(x.shape[:-1])
