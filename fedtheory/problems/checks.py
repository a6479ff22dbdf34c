"""Checks of what a problem's clients are given: weights, numbers of samples, kinds of layers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from fedtheory.errors import InvalidInput
from fedtheory.inputs import numbered, real_array, require

__all__ = ["LAYERS", "HasSamples", "check_layers", "check_samples", "check_weights", "weights_after"]

LAYERS = ("module", "tensor", "model")


class HasSamples(Protocol):
    """N clients with their weights w_k (N,) and numbers of samples n_k (N,)."""

    num_clients: int
    weights: np.ndarray
    sample_counts: np.ndarray


def check_weights(weights: Any, sample_counts: np.ndarray) -> np.ndarray:
    """'uniform' -> 1/N, 'samples' -> n_k/n, or N given positive numbers that sum to 1."""
    num_clients = len(sample_counts)
    if isinstance(weights, str):
        if weights == "uniform":
            return np.full(num_clients, 1.0 / num_clients)
        if weights == "samples":
            return sample_counts / sample_counts.sum()
        raise InvalidInput(f"weights = {weights!r}: use 'uniform' (1/m), 'samples' (n_k/n) or {num_clients} numbers")
    w = real_array("weights", weights)
    if w.shape != (num_clients,):
        raise InvalidInput(f"weights has shape {w.shape}, but there are {num_clients} clients: give one number each")
    if (w < 0).any() or abs(w.sum() - 1) > 1e-12:
        raise InvalidInput(f"weights sum to {float(w.sum())!r} (least {float(w.min())!r}): they must be >= 0 and sum to 1")
    return w


def check_layers(kind: str) -> None:
    """Raise `InvalidInput` unless it is one of `LAYERS`."""
    if kind not in LAYERS:
        raise InvalidInput(f"layers = {kind!r}: use one of {', '.join(LAYERS)}")


def weights_after(problem: HasSamples, counts: np.ndarray) -> np.ndarray:
    """Weights of a problem whose clients now hold `counts` samples: n_k/n where they were that, else unchanged."""
    before = problem.sample_counts / problem.sample_counts.sum()
    return counts / counts.sum() if np.array_equal(problem.weights, before) else problem.weights


def check_samples(problem: HasSamples, samples: Sequence[Any]) -> list[np.ndarray]:
    """N arrays of sample numbers, none of them empty, as `Problem.select` takes them.

    Raises
    ------
    InvalidInput
        No sequence; another number of arrays; no samples, or a number that is none of the client's.
    """
    needed = f"give an array of sample numbers for each of {problem.num_clients} clients"
    listed = hasattr(samples, "__len__") and not isinstance(samples, str | Mapping) and getattr(samples, "ndim", 1) > 0
    require(listed, "samples", samples, needed)
    if len(samples) != problem.num_clients:
        raise InvalidInput(f"samples for {len(samples)} clients: give an array of sample numbers for each of {problem.num_clients}")
    counts = problem.sample_counts
    return [numbered(f"samples[{k}]", s, int(n), "sample") for k, (s, n) in enumerate(zip(samples, counts, strict=True))]
