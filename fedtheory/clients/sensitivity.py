"""Sensitivities of a model's output to its parameters, seen by clients on unlabelled samples.

Elastic Aggregation's Algorithm 1 uses them.

Over the batches j = 1..m of a client's samples B_k, in their order, with g_j = gradient of the batch's mean of ||F(y; a)||_2^2,

    Omega <- mu Omega + (1 - mu) |g_j|,    Omega = 0 at first,

so that the last batches count most, and all of them together 1 - mu^m: what 'corrected' divides by.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from fedtheory.arrays import Array, astype_like, namespace
from fedtheory.problems.base import Problem

__all__ = ["Average", "check_sensitivity", "client_sensitivity", "num_batches"]

Average = Literal["printed", "corrected"]


def num_batches(counts: np.ndarray, batch_size: int | None) -> np.ndarray:
    """Batches of clients that hold `counts` samples (N,): the last one may be short; None: all samples in one."""
    return np.ones(len(counts), dtype=int) if batch_size is None else -(-np.asarray(counts).astype(int) // batch_size)


def client_sensitivity(
    problem: Problem, y: Array, batch_size: int | None = None, mu: float = 0.95, ema: Average = "corrected"
) -> Array:
    """Omega_k(y_kb) >= 0 on the problem's samples: client-major (N, B, d) -> (N, B, d).

    Raises
    ------
    MissingCapability
        The problem has no model output.
    """
    xp, counts = namespace(y), np.asarray(problem.sample_counts).astype(int)
    batches = num_batches(counts, batch_size)
    size = int(counts.max()) if batch_size is None else batch_size
    omega = xp.zeros_like(y)
    for j in range(int(batches.max())):
        g = xp.abs(problem.client_output_gradient(y, j * size, (j + 1) * size))
        there = astype_like(batches[:, None, None] > j, y)
        omega = xp.where(there, mu * omega + (1 - mu) * g, omega)
    if ema == "corrected":
        omega = omega / astype_like((1 - mu**batches)[:, None, None], y)
    return omega


def check_sensitivity(problem: Problem) -> None:
    """Raise `MissingCapability` when the problem has no model output, or none of which a norm is defined."""
    if hasattr(problem, "check_output"):
        problem.check_output()
    if type(problem).client_output_gradient is Problem.client_output_gradient:
        problem.client_output_gradient(None, 0, 0)
