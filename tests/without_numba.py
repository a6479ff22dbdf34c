"""Runs of what is compiled where Numba is installed, for a Python with Numba and for one without."""

from __future__ import annotations

import numpy as np
from active_rows import rows_of

from fedtheory import simulate
from fedtheory.algorithms import FedMLS
from fedtheory.local import LocalObjective, SubgradientSliding
from fedtheory.messages import measures
from fedtheory.problems.nonsmooth import LAD
from paper_figures.fedmls.rates import competitors


def problem():
    """Three clients with four features and seven samples each."""
    rng = np.random.default_rng(5)
    return LAD(rng.standard_normal((3, 7, 4)), rng.standard_normal((3, 7)))


def one_sliding():
    """u_T and the average, of all clients in two scenarios."""
    start = np.random.default_rng(1).standard_normal((3, 2, 4))
    solver = SubgradientSliding(60, radius=2.0, noise_std=0.1)
    result = solver.solve(problem(), LocalObjective(start, curvature=0.5), start, rows_of(3, 2))
    return [result.y, result.average]


def method():
    """FedMLS on that problem."""
    return FedMLS(0.3, 1.0, 5, 3.0, problem().lipschitz_rms(3.0))


def results():
    """One run of every kind, as lists of numbers."""
    entries = np.random.default_rng(2).standard_normal(measures.COMPILED)
    runs = {
        "sliding": one_sliding(),
        "FedMLS": [simulate(problem(), method(), 5).x],
        "the rates' FedMLS": [competitors.fedmls_last(problem(), method())],
        "bins": list(measures.bin_counts(entries, 0.25)),
    }
    return {name: [np.asarray(a).tolist() for a in arrays] for name, arrays in runs.items()}
