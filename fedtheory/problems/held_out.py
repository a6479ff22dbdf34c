"""Samples that clients keep back from training."""

from __future__ import annotations

import copy
from typing import TypeVar

import numpy as np

from fedtheory.errors import InvalidInput
from fedtheory.inputs import check_unit, shown
from fedtheory.problems.base import Problem
from fedtheory.randomness import Stream

__all__ = ["hold_out"]

P = TypeVar("P", bound=Problem)


def hold_out(problem: P, share: float = 0.3, seed: int = 0) -> P:
    """The problem without a share of every client's samples, which become its ``held_out`` problem.

    Elastic Aggregation, Algorithm 1: B_k is drawn from D_k once, without replacement, and dropped
    from it. A client with n samples keeps back round(share * n) of them, at least 1 and at most
    n - 1; which ones is a function of (seed, client) alone. Weights n_k/n are taken anew on both
    sides, other weights kept.

    Raises
    ------
    InvalidInput
        share not strictly between 0 and 1; a client with a single sample.
    MissingCapability
        The problem has no samples.
    """
    check_unit("share", share)
    if not isinstance(problem, Problem):
        raise InvalidInput(f"problem = {shown(problem)}: a problem with samples is needed")
    if type(problem).select is Problem.select:
        problem.select([])
    counts, kept, held = np.asarray(problem.sample_counts).astype(int), [], []
    for k, n in enumerate(counts):
        if n < 2:
            raise InvalidInput(f"client {k} has {n} sample: held out, it leaves nothing to train on; leave the client out")
        order = Stream(seed).generator("held out", step=k).permutation(int(n))
        b = min(max(round(share * n), 1), n - 1)
        held.append(np.sort(order[:b]))
        kept.append(np.sort(order[b:]))
    out = copy.copy(problem.select(kept))
    out.held_out = problem.select(held)
    return out
