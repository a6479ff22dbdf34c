"""Sensitivities of a network's output to its parameters, as Elastic Aggregation measures them."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from fedtheory.errors import MissingCapability
from fedtheory.neural import memory
from fedtheory.neural.interface import NetworkOnSamples

__all__ = ["check_output", "output_gradient"]


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
