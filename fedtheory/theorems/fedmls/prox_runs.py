"""A run of FedMLS in floats with every local problem solved to a certified gap, as the statements about it see it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from fedtheory.algorithms.fedmls import FedMLS, FedMLSState, fedmls_parameters
from fedtheory.clients.clients import Clients
from fedtheory.problems.base import Problem
from fedtheory.problems.nonsmooth import LAD, EuclideanDistance
from fedtheory.randomness import Stream
from fedtheory.simulation.kept import Observer
from fedtheory.simulation.simulate import check_start, simulate
from fedtheory.theorems.fedmls.quantities import Bounds, values_of
from fedtheory.theorems.fedmls.views import ProxView

__all__ = ["ProxInstance", "prox_battery", "prox_view_of_run"]

RADIUS = 2.0


def prox_view_of_run(problem: Problem, algorithm: FedMLS, x0: Any, bounds: Bounds) -> ProxView:
    """Run FedMLS with ``local_training='exact-prox'``, and collect what its proof speaks of.

    Parameters
    ----------
    bounds : the optimum on the algorithm's ball, and the G_i
    """
    gaps: list[float] = []

    def observe(t: int, old: FedMLSState, new: FedMLSState, clients: Clients) -> None:
        if t < algorithm.rounds:
            residual: Any = clients.results[-1].residual
            gaps.append(float(np.mean(residual)))

    observer = Observer(observe, lambda: {"gaps": gaps}, lambda noted: gaps.extend(noted["gaps"]))
    run = simulate(problem, algorithm, int(algorithm.rounds), x0, record=(), keep_states=True, on_round=observer)
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


@dataclass(frozen=True)
class ProxInstance:
    """A run of FedMLS in floats, local problems solved, on random clients in the plane, to an accuracy of G ||x_0 - x*||/2.

    Attributes
    ----------
    family : 'LAD' or 'Euclidean distance'
    """

    family: str
    seed: int

    kind = "prox"

    @property
    def name(self) -> str:
        return f"{self.family}, local problems solved, seed={self.seed}"

    def view(self) -> ProxView:
        """The run. Raises `NotCertified` where the optimum on the ball cannot be certified."""
        rng = Stream(self.seed).generator(f"fedmls exact prox {self.family}")
        features, targets = rng.standard_normal((3, 4, 2)), rng.standard_normal((3, 4))
        problem = LAD(features, targets) if self.family == "LAD" else EuclideanDistance(features[:, 0])
        bounds = Bounds(problem.optimum_on_ball(RADIUS), problem.lipschitz(RADIUS), np.zeros(3))
        x0 = np.array([0.6, -0.8])
        distance = float(np.linalg.norm(x0 - bounds.optimum.x))
        g = problem.lipschitz_rms(RADIUS)
        made = fedmls_parameters(problem, g * distance / 2, RADIUS, distance, lipschitz=g, local_training="exact-prox")
        return prox_view_of_run(problem, made, x0, bounds)

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "name": self.name}


def prox_battery(seed: int = 0) -> list[ProxInstance]:
    """One run on each family."""
    return [ProxInstance(family, seed) for family in ("LAD", "Euclidean distance")]
