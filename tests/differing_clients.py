"""Small problems whose clients differ, and local solvers, for the methods that EFL is compared with."""

from __future__ import annotations

import functools

import numpy as np

from fedtheory import problems
from fedtheory.local import SGD, GradientSteps

START = np.random.default_rng(3).normal(size=3)
SOLVERS = {"steps": GradientSteps(3, 0.2), "sgd": SGD(steps=3, lr=0.2, batch_size=2), "epochs": SGD(2, 0.2, epochs=1)}


@functools.cache
def heterogeneous():
    """Five quadratics in dimension 3 with Hessians and minimisers far apart, eigenvalues in [1/2, 4]."""
    rng = np.random.default_rng(5)
    turns = [np.linalg.qr(rng.normal(size=(3, 3)))[0] for _ in range(5)]
    hessians = [q * rng.uniform(0.5, 4, 3) @ q.T for q in turns]
    return problems.Quadratic([(h + h.T) / 2 for h in hessians], 3 * rng.normal(size=(5, 3)))


@functools.cache
def samples(ridge=0.5):
    """Four clients of unequal size in dimension 3."""
    rng = np.random.default_rng(21)
    counts = (6, 3, 5, 4)
    features = [rng.normal(size=(n, 3)) / 2 for n in counts]
    return problems.LeastSquares(features, [rng.normal(size=n) for n in counts], ridge=ridge)
