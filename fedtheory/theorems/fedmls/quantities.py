"""Everything a run of FedMLS makes measurable, in the symbols of its proof (Thekumparampil et al. 2020; Lan 2016).

Norms are those of the mean product <u, v> = (1/N) sum_i <u_i, v_i>, in which the poster's algorithm lives. Rounds stand on axis 0,
scenarios on the last axis.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from fedtheory.algorithms.fedmls import FedMLS, FedMLSState
from fedtheory.clients.clients import Clients
from fedtheory.errors import InvalidInput
from fedtheory.local.sliding import SubgradientSliding
from fedtheory.optimum.certify import Optimum
from fedtheory.problems.base import Problem
from fedtheory.randomness import Stream
from fedtheory.simulation.kept import Observer
from fedtheory.simulation.simulate import check_start, simulate
from fedtheory.theorems.fedmls.constants import (
    MLSConstants,
    c_factor,
    harmonic,
    k_min,
    kappa,
    kappa_last,
    kappa_noise,
)
from fedtheory.theorems.fedmls.letters import RUN
from fedtheory.theorems.fedmls.notation import applies
from fedtheory.theory import World
from fedtheory.theory.judge.statement import Form

__all__ = [
    "Bounds", "MLSConstants", "MLSView", "c_factor", "harmonic", "k_min", "kappa", "kappa_last", "kappa_noise", "values_of",
    "view_of_run",
]  # fmt: skip


@dataclass
class MLSView(World):
    """A run of FedMLS with K rounds. Shapes: K rounds, N clients, d coordinates, S scenarios.

    Attributes
    ----------
    x, z : (K + 1, d, S); x_client, z_client : (K + 1, N, d, S)
        Server and client iterates x_k, z_k, x'_k, z'_k (round 0 first).
    z_average : (K + 1, N, d, S)
        The averaged outputs u~_T of local training (round 0 unused).
    gradient : (K + 1, N, d, S)
        g of line 13, (1/lambda)(y'_k - y_k).
    values : callable
        f_i at a point of its own for each client: (..., N, d, S) -> (..., N, S).
    excess : (K + 1, S)
        F(x_k) - F*, against the certified lower bound.
    points : (Q, d)
        Points u of the ball at which 'for every u' is checked; x* first.
    exact : bool
        Whether the run is deterministic.
    facts : what holds of it, of those that a form may need
    shown : constants that are shown with the verdict
    """

    kind, scope, letters = "run", "fedmls", RUN
    about = "about a run of FedMLS with K rounds"

    constants: MLSConstants
    x: np.ndarray
    z: np.ndarray
    x_client: np.ndarray
    z_client: np.ndarray
    z_average: np.ndarray
    gradient: np.ndarray
    values: Callable[[np.ndarray], np.ndarray]
    excess: np.ndarray
    noise: float
    points: np.ndarray
    exact: bool
    facts: frozenset[str] = frozenset()
    shown: dict[str, Any] = field(default_factory=dict)
    horizon: ClassVar[str] = "K"

    @property
    def horizons(self) -> np.ndarray:
        """(1,) K, the round that a bound on F(x_K) - F* is about."""
        return np.array([len(self.x) - 1])

    @property
    def rule(self) -> str:  # type: ignore[override]
        """The rule of a form's verdict about it."""
        return "deterministic" if self.exact else "stochastic"

    def applies(self, form: Form) -> str | None:
        """Why the form is not claimed for this run, or None."""
        return applies(form, self) or super().applies(form)

    def printed_constants(self) -> dict[str, Any]:
        """Constants that are shown with the verdict."""
        return self.shown

    @property
    def last_excess(self) -> np.ndarray:
        """F(x_K) - F*: (1, S)."""
        return self.excess[-1:]

    def constant(self, value: float) -> np.ndarray:
        """The same number for every scenario: (1, S)."""
        return np.full((1, self.excess.shape[-1]), value)

    @property
    def epsilon(self) -> float:
        """The accuracy that lambda = epsilon/G^2 stands for."""
        return self.lam * self.constants.G_sq

    @property
    def joint_epsilon(self) -> float:
        """The same with a bound of the joint gradient for G."""
        return self.lam * self.constants.joint_G_sq

    @property
    def K(self) -> int:
        return self.constants.K

    @property
    def lam(self) -> float:
        return self.constants.lam

    @cached_property
    def k(self) -> np.ndarray:
        """1..K as a column."""
        return np.arange(1, self.K + 1)[:, None]

    @cached_property
    def beta(self) -> np.ndarray:
        """beta_k = 4/(lambda k): (K, 1)."""
        return 4 / (self.lam * self.k)

    @cached_property
    def gamma(self) -> np.ndarray:
        """gamma_k = 2/(k + 1): (K, 1)."""
        return 2 / (self.k + 1)

    @cached_property
    def T(self) -> np.ndarray:
        """T_k: (K, 1)."""
        return self.constants.steps[:, None].astype(float)

    @staticmethod
    def mean_sq(values: np.ndarray) -> np.ndarray:
        """(1/N) sum_i ||u_i||^2: (..., N, d, S) -> (..., S)."""
        return (values**2).sum(axis=-2).mean(axis=-2)

    def psi(self, x: np.ndarray, clients: np.ndarray) -> np.ndarray:
        """Psi(x, x') = mean_i f_i(x'_i) + mean_i ||x - x'_i||^2/(2 lambda): (..., d, S), (..., N, d, S) -> (..., S)."""
        return self.values(clients).mean(axis=-2) + self.mean_sq(x[..., None, :, :] - clients) / (2 * self.lam)

    @cached_property
    def Psi(self) -> np.ndarray:
        """Psi(x_k, x'_k): (K + 1, S)."""
        return self.psi(self.x, self.x_client)

    @cached_property
    def targets(self) -> np.ndarray:
        """The points u as consensus points of every client: (Q, N, d, S)."""
        shape = (len(self.points), self.x_client.shape[1], *self.points.shape[1:], self.x.shape[-1])
        return np.broadcast_to(self.points[:, None, :, None], shape)

    @cached_property
    def Psi_targets(self) -> np.ndarray:
        """Psi(u, u) = F(u): (Q, S)."""
        return self.values(self.targets).mean(axis=-2)

    def inner_error(self, kind: str = "sharp") -> np.ndarray:
        """E_i of the inner loop's bound: (K, N, 1).

        'lan': 8 (4 G^2 + sigma^2)/(beta (T + 3)), as Lan prints it; 'sharp': [8 G^2 (T + H_T) + 4 sigma^2 (T + 3/2 - H_{T+2})]
        /(beta T (T + 3)).
        """
        g_sq, s_sq = self.constants.G_i[None, :, None] ** 2, self.constants.sigma_i[None, :, None] ** 2
        t, beta = self.T[:, None], self.beta[:, None]
        if kind == "lan":
            return 8 * (4 * g_sq + s_sq) / (beta * (t + 3))
        return (8 * g_sq * (t + harmonic(t)) + 4 * s_sq * (t + 1.5 - harmonic(t + 2))) / (beta * t * (t + 3))


# --- a run ----------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Bounds:
    """What the theorems need to know of a problem on the ball.

    Attributes
    ----------
    optimum : over the ball
    G_i, sigma_i : (N,) bounds of the subgradients on the closed ball, and noise levels
    """

    optimum: Optimum
    G_i: np.ndarray
    sigma_i: np.ndarray


def view_of_run(
    problem: Problem,
    algorithm: FedMLS,
    x0: np.ndarray,
    scenarios: int = 1,
    seed: int = 0,
    *,
    radius: float | None = None,
    points: int = 4,
    bounds: Bounds | None = None,
    solver: SubgradientSliding | None = None,
    facts: frozenset[str] = frozenset(),
) -> MLSView:
    """Run FedMLS and collect what its proof speaks of.

    Parameters
    ----------
    radius : R of the ball that G_i and the optimum belong to; default the algorithm's
    points : how many points of the ball are looked at beside x*
    bounds : where they are known already; default the problem's own, and the algorithm's noise
    solver : adds noise, or takes mini-batches

    Raises
    ------
    InvalidInput
        When the run skips round K's local training, whose iterates the proof steps need.
    NotCertified
        When the optimum on the ball cannot be certified.
    """
    if algorithm.skip_last:
        raise InvalidInput("skip_last = True leaves out round K's iterates: make FedMLS with skip_last=False")
    radius = float(algorithm.radius) if radius is None else radius
    if bounds is None:
        noise = np.full(problem.num_clients, float(algorithm.noise_std))
        bounds = Bounds(problem.optimum_on_ball(radius), problem.lipschitz(radius), noise)
    optimum = bounds.optimum
    averages: list[np.ndarray] = []

    def observe(t: int, old: FedMLSState, new: FedMLSState, clients: Clients) -> None:
        average: Any = clients.results[-1].average
        averages.append(average)

    observer = Observer(observe, lambda: {"averages": averages}, lambda noted: averages.extend(noted["averages"]))
    run = simulate(
        problem, algorithm, algorithm.rounds, x0, scenarios=scenarios, seed=seed, record=(), keep_states=True, on_round=observer,
        local_solver=solver,
    )  # fmt: skip
    states: Sequence[FedMLSState] = run.states  # type: ignore[assignment]
    x, z = (np.moveaxis(np.stack([getattr(s, f) for s in states]), 1, -1) for f in ("x", "z"))
    local_x, local_z = (np.moveaxis(np.stack([getattr(s, f) for s in states]), 1, -1) for f in ("x_local", "z_local"))
    average = np.moveaxis(np.stack([averages[0] * 0, *averages]), 1, -1)
    gradient = np.zeros_like(local_x)
    for k in range(1, algorithm.rounds + 1):
        gamma = 2 / (k + 1)
        y_local = (1 - gamma) * local_x[k - 1] + gamma * local_z[k - 1]
        y = (1 - gamma) * x[k - 1] + gamma * z[k - 1]
        gradient[k] = (y_local - y) / float(algorithm.lam)
    rng = Stream(seed).generator("points of the ball")
    others = rng.standard_normal((points, problem.dim))
    others *= radius * rng.random((points, 1)) / np.linalg.norm(others, axis=1, keepdims=True)
    steps = np.array([algorithm.steps(k) for k in range(1, algorithm.rounds + 1)])
    start = check_start(problem, x0, 1)[0]
    constants = MLSConstants(
        algorithm.rounds, float(algorithm.lam), float(algorithm.D), bounds.G_i, bounds.sigma_i,
        float(((start - optimum.x) ** 2).sum()), steps, (radius + float(np.linalg.norm(start))) ** 2,
        (float(algorithm.lipschitz), float(algorithm.sigma)),
    )  # fmt: skip
    objective = problem.objective(np.moveaxis(x, -1, 1))
    size = float(np.abs(objective).max() + abs(optimum.value))
    noisy = bool(algorithm.noise_std) or (solver is not None and (bool(solver.noise_std) or solver.batch_size is not None))
    return MLSView(
        constants, x, z, local_x, local_z, average, gradient, values_of(problem),
        excess=objective - optimum.lower_bound,
        noise=optimum.value - optimum.lower_bound + 1e-12 * (1 + size),
        points=np.concatenate([optimum.x[None], others]),
        exact=not noisy, facts=facts,
    )  # fmt: skip


def values_of(problem: Problem) -> Callable[[np.ndarray], np.ndarray]:
    """f_i at a point of its own for each client: (..., N, d, S) -> (..., N, S)."""

    def values(u: np.ndarray) -> np.ndarray:
        moved = np.moveaxis(u, (-3, -2, -1), (0, -1, -2))  # (N, ..., S, d)
        out = problem.client_value(np.ascontiguousarray(moved).reshape(problem.num_clients, -1, problem.dim))
        return np.moveaxis(out.reshape(moved.shape[:-1]), 0, -2)

    return values
