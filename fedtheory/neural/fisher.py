"""Fisher diagonals of a network, means of squared gradients, and the sensitivities of its output that
Elastic Aggregation measures."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedtheory.errors import MissingCapability
from fedtheory.neural import memory
from fedtheory.neural.interface import NetworkOnSamples
from fedtheory.neural.parts import described, has_labels

__all__ = ["check_fisher", "check_output", "fisher_diagonal", "output_gradient"]

ENTRIES = 2**26  # numbers in the gradients of one piece of samples


def check_fisher(problem: NetworkOnSamples, kind: str) -> None:
    """Raise `MissingCapability` for kinds that a network or its loss does not have."""
    if problem.flat.depends_on_batch:
        why = "here a sample's output depends on its batch, as with BatchNorm"
        raise MissingCapability(f"a Fisher diagonal is a mean over samples, and {why}")
    if kind == "gram":
        raise MissingCapability("a network has no Gram matrix apart from its parameters: use fisher='empirical' or 'model'")
    labels = has_labels(problem.targets) and problem.targets.ndim == 1
    if kind == "model" and not (problem.loss.weighted and problem.loss.name == "cross_entropy" and labels):
        raise MissingCapability(
            f"the model Fisher expects over one label a sample, with the loss 'cross_entropy', not {problem.loss.name} of targets "
            f"{described('', problem.targets).strip()}: use fisher='empirical'"
        )


def fisher_diagonal(problem: NetworkOnSamples, y: Tensor, kind: str) -> Tensor:
    """diag I_k(y_kb) (N, B, d) without the ridge: the mean over a client's samples of the squared
    gradient of the loss.

    Parameters
    ----------
    kind : 'empirical' or 'model'
        With the samples' labels, or in expectation over labels drawn from the network's own output
        (as many passes as classes). A sample's loss is its own mean: class weights cancel in it,
        and one whose label is ignored has the gradient 0, and counts.
    """
    check_fisher(problem, kind)
    rows = [torch.stack([_one(problem, held, point, kind) for point in y[k]]) for k, held in enumerate(problem.client_samples)]
    return torch.stack(rows)


def _one(problem: NetworkOnSamples, held: Any, point: Tensor, kind: str) -> Tensor:
    def squares(x: Any, t: Any, weights: Tensor) -> Tensor:
        return weights @ problem.engine.of_samples(point.expand(len(x), -1), x, t) ** 2

    def some(places: slice) -> Tensor:
        part = torch.from_numpy(held[places]).to(problem.device)
        x, t = problem.inputs[part], problem.targets[part]
        if kind == "empirical":
            return squares(x, t, torch.ones(len(part)).to(point))
        with torch.no_grad():
            chance = torch.softmax(problem.flat.call(point, x), dim=-1)
        return sum(squares(x, torch.full_like(t, c), chance[:, c]) for c in range(chance.shape[-1]))

    piece = max(1, ENTRIES // len(point))
    return sum(memory.in_chunks(problem, len(held), piece, some, "fisher")) / len(held)


def check_output(problem: NetworkOnSamples) -> None:
    """Raise `MissingCapability` where the module's output is no tensor (b, ...), whose norm `output_gradient` takes."""
    if not problem.flat.has_rows:
        what = f"the output of {type(problem.flat.module).__name__} is not one tensor with a row for each sample"
        raise MissingCapability(f"{what}, of which this method takes the norm: return one, or use another method")


def output_gradient(problem: NetworkOnSamples, y: Tensor, first: int, last: int) -> Tensor:
    """`Problem.client_output_gradient` of a network: (N, B, d) -> (N, B, d)."""
    held = [c[first:last] for c in problem.client_samples]
    counts = np.array([len(c) for c in held])
    rows = np.flatnonzero(counts)
    out = torch.zeros_like(y)
    if not len(rows):
        return out
    index = np.empty((len(rows), counts.max()), dtype=np.int64)
    for r, k in enumerate(rows):
        index[r], index[r, : counts[k]] = held[k][0], held[k]  # padded with its first sample, without a part in the mean
    points = y.shape[1]
    where = torch.from_numpy(index).to(problem.device).repeat_interleave(points, dim=0)
    real = torch.from_numpy(counts[rows]).repeat_interleave(points)
    flat = y[torch.from_numpy(rows).to(problem.device)].reshape(-1, problem.dim)

    def piece(part: slice) -> Tensor:
        return problem.engine.output_gradient(flat[part], problem.inputs[where[part]], real[part])

    found = memory.in_chunks(problem, len(flat), None, piece, "outputs")
    out[torch.from_numpy(rows).to(problem.device)] = torch.cat(found).reshape(len(rows), points, problem.dim)
    return out
