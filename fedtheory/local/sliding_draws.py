"""The random numbers of subgradient sliding, which its two engines share."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Protocol, cast

import numpy as np

from fedtheory.local.objective import Rows
from fedtheory.problems.base import Problem

__all__ = ["Sliding", "draws"]

CHUNK = 1 << 20  # random numbers held at a time


class Sliding(Protocol):
    """The part of `fedtheory.local.SubgradientSliding` that the engines read."""

    @property
    def steps(self) -> int: ...
    @property
    def radius(self) -> float: ...
    @property
    def noise_std(self) -> float: ...
    @property
    def batch_size(self) -> int | None: ...
    @property
    def threads(self) -> int | None: ...


def draws(
    solver: Sliding, problem: Problem, dim: int, rows: Rows
) -> Iterator[tuple[int, np.ndarray | None, np.ndarray | None]]:
    """c, noise (N, B, c, d) and sample numbers (N, B, c, batch) of the next c steps, until all are served; None if not wanted."""
    shape, batch = rows.scenarios.shape, solver.batch_size
    if not solver.noise_std and batch is None:
        yield solver.steps, None, None
        return
    flat = [(int(c), int(s)) for c, line in zip(rows.clients, rows.scenarios, strict=True) for s in line]
    counts = np.repeat(np.asarray(problem.sample_counts).astype(int), shape[1])

    def generators(purpose: str) -> list[np.random.Generator]:
        return [rows.stream.generator(purpose, rows.round_index, client, scenario) for client, scenario in flat]

    normal = generators("sliding noise") if solver.noise_std else None
    picks = generators("sliding samples") if batch is not None else None
    scale = solver.noise_std / math.sqrt(dim)
    width = (dim if normal else 0) + (batch or 0)
    chunk = max(1, CHUNK // (width * len(flat)))
    for t in range(0, solver.steps, chunk):
        size = min(chunk, solver.steps - t)
        noise = samples = None
        if normal is not None:
            noise = np.empty((len(flat), size, dim))
            for out, generator in zip(noise, normal, strict=True):
                generator.standard_normal(out=out)
            noise *= scale
            noise = noise.reshape(*shape, size, dim)
        if picks is not None:
            samples = np.stack([g.integers(0, n, size=(size, cast(int, batch))) for g, n in zip(picks, counts, strict=True)])
            samples = samples.reshape(*shape, size, -1)
        yield size, noise, samples
