"""Monte Carlo that grows: each view holds the scenarios of the one before (`fedtheory.theory.judge.sequential`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from fedtheory.algorithms.fedelasticnet_dyn import FedElasticNetDyn
from fedtheory.participation.cohorts import Sampling
from fedtheory.problems.base import Problem
from fedtheory.theorems.fedelasticnet.accumulator import SPLIT
from fedtheory.theorems.fedelasticnet.expectation import FederatedLosses, monte_carlo
from fedtheory.theorems.fedelasticnet.pairs import RANDOM
from fedtheory.theorems.fedelasticnet.quantities import RunView

__all__ = ["growing_views"]

TOGETHER = 4_000_000  # predictions of all clients in all scenarios that are held at once

OnProgress = Callable[[int, int, int], None]


def growing_views(
    problem: Problem,
    algorithm: FedElasticNetDyn,
    sampling: Sampling,
    rounds: int,
    x0: Any,
    sizes: list[int],
    seed: int,
    losses: FederatedLosses,
    on_progress: OnProgress | None = None,
    paired: bool = False,
) -> Iterator[RunView]:
    """The run with so many scenarios, one view after the other; each holds those of the one before;
    ``paired`` as of `monte_carlo`.

    on_progress(done, stage, most): rounds of one scenario each that are done, that this stage ends
    with, and that the last one would end with.
    """
    largest = max(problem.dim, int(np.max(problem.sample_counts)))
    together = max(1, TOGETHER // (problem.num_clients * largest))
    view: RunView | None = None
    done = 0
    for size in sizes:
        pieces = -(-(size - done) // together)
        while done < size:
            count = -(-(size - done) // pieces)
            pieces -= 1

            def after(t: int, done: int = done, count: int = count, size: int = size) -> None:
                if on_progress is not None:
                    on_progress(done * rounds + t * count, size * rounds, sizes[-1] * rounds)

            part = monte_carlo(
                problem, algorithm, sampling, rounds, x0, count, seed, losses=losses, on_round=after, first_scenario=done,
                paired=paired,
            )  # fmt: skip
            view = part if view is None else _with_more(view, part)
            done += count
        if view is not None:
            yield view


def _with_more(view: RunView, part: RunView) -> RunView:
    """The scenarios of both."""
    names = [n for n in (*RANDOM, *(f"inner_{name}" for name in SPLIT)) if getattr(view, n) is not None]
    both: dict[str, Any] = {n: np.concatenate([getattr(view, n), getattr(part, n)], axis=1) for n in names}
    joined = replace(view, **both)
    if view.pairs is None or part.pairs is None:
        return joined
    return replace(joined, pairs=_with_more(view.pairs, part.pairs))
