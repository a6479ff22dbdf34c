"""Fisher diagonals of a network: means of squared gradients, sample by sample."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from fedtheory.errors import MissingCapability
from fedtheory.neural import memory
from fedtheory.neural.interface import NetworkOnSamples
from fedtheory.neural.parts import described, has_labels

__all__ = ["check_fisher", "fisher_diagonal"]

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
