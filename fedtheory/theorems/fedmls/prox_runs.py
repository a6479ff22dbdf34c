"""A run of FedMLS in floats with every local problem solved to a certified gap, as the statements about it see it."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedtheory.algorithms.fedmls import FedMLS, FedMLSState
from fedtheory.clients.clients import Clients
from fedtheory.problems.base import Problem
from fedtheory.simulation.simulate import check_start, simulate
from fedtheory.theorems.fedmls.quantities import Bounds, values_of
from fedtheory.theorems.fedmls.views import ProxView

__all__ = ["prox_view_of_run"]


def prox_view_of_run(problem: Problem, algorithm: FedMLS, x0: Any, bounds: Bounds) -> ProxView:
    """Run FedMLS with ``local_training='exact-prox'``, and collect what its proof speaks of.

    Parameters
    ----------
    bounds : the optimum on the algorithm's ball, and the G_i
    """
    gaps: list[float] = []

    def observe(t: int, old: FedMLSState, new: FedMLSState, clients: Clients) -> None:
        if t < algorithm.rounds:
            gaps.append(float(np.mean(clients.results[-1].residual)))

    run = simulate(problem, algorithm, int(algorithm.rounds), x0, record=(), keep_states=True, on_round=observe)
    states: Any = run.states
    K, lam, star = int(algorithm.rounds), float(algorithm.lam), bounds.optimum.x
    x, z = (np.stack([getattr(s, name)[0] for s in states]) for name in ("x", "z"))  # (K + 1, d)
    own, trained = (np.stack([getattr(s, name)[0] for s in states])[:K] for name in ("x_local", "z_local"))  # (K, N, d)
    losses = values_of(problem)(own[..., None]).mean(axis=-2)[:, 0]
    psi = losses + ((x[:K, None] - own) ** 2).sum(axis=-1).mean(axis=-1) / (2 * lam)
    objective = problem.objective(x)
    size = float(np.abs(objective).max() + abs(bounds.optimum.value))
    start = check_start(problem, x0, 1)[0]
    return ProxView(
        lam, K, float(np.mean(bounds.G_i**2)), float(((start - star) ** 2).sum()),
        np.array([[objective[-1] - bounds.optimum.lower_bound]]), (psi - bounds.optimum.lower_bound)[:, None],
        ((star - z[:K]) ** 2).sum(axis=-1)[:, None], ((star - trained) ** 2).sum(axis=-1).mean(axis=-1)[:, None],
        np.array(gaps or [0.0])[:, None], bounds.optimum.value - bounds.optimum.lower_bound + 1e-12 * (1 + size),
        {"largest certified gap": max(gaps, default=0.0)},
    )  # fmt: skip
