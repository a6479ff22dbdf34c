"""Everything a run of FedMLS makes measurable, in the symbols of its proof (Thekumparampil et al.
2020; Lan 2016).

Norms are those of the mean product <u, v> = (1/N) sum_i <u_i, v_i>, in which the poster's algorithm
lives. Rounds stand on axis 0, scenarios on the last axis.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from numbers import Rational
from typing import Any

import numpy as np

from fedtheory.algorithms.fedmls import FedMLS, FedMLSState, exact_number
from fedtheory.clients.clients import Clients
from fedtheory.errors import InvalidInput
from fedtheory.local.sliding import SubgradientSliding
from fedtheory.optimum.certify import Optimum
from fedtheory.problems.base import Problem
from fedtheory.randomness import Stream
from fedtheory.simulation.simulate import check_start, simulate
from fedtheory.theorems.fedmls.constants import MLSConstants, c_factor, harmonic
from fedtheory.theorems.fedmls.letters import RUN
from fedtheory.theorems.fedmls.notation import applies
from fedtheory.theorems.fedmls.of_files import OfRounds
from fedtheory.theory import Form, derived


@dataclass
class MLSView(OfRounds):
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
    excess : (K + 1, S), or at least of the last round
        F(x_k) - F*, against the certified lower bound.
    points : (Q, d)
        Points u of the ball at which 'for every u' is checked; x* first.
    exact : True if the run is deterministic
    facts : what holds of it, of those that a form may need
    shown : constants that are shown with the verdict
    reading : the form on record as violated whose run it is, '' for the others
    """

    kind, family, scope, letters = "lines", "FedMLS on an interval", "fedmls", RUN
    about = "about a run of FedMLS with K rounds"

    constants: MLSConstants
    x: Any
    z: Any
    x_client: Any
    z_client: Any
    z_average: Any
    gradient: Any
    values: Callable[[Any], Any]
    excess: np.ndarray
    noise: Any
    points: np.ndarray
    exact: bool
    facts: frozenset[str] = frozenset()
    shown: dict[str, Any] = field(default_factory=dict)
    reading: str = ""

    @property
    def rational(self) -> bool:  # type: ignore[override]
        """True if its numbers are fractions."""
        return self.excess.dtype == object

    def applies(self, form: Form) -> str | None:
        """Why the form is not claimed for this run, or None."""
        return applies(form, self) or super().applies(form)

    def printed_constants(self) -> dict[str, Any]:
        """Constants that are shown with the verdict."""
        return self.shown

    last_excess = derived(lambda q: q.excess[-1:], "F(x_K) - F*: (1, S)")

    def constant(self, value: Any) -> np.ndarray:
        """The same number for every scenario: (1, S).

        Raises
        ------
        InvalidInput
            A float of a run in fractions, where it would stand for another number.
        """
        if self.rational and not isinstance(value, Rational):
            raise InvalidInput(f"a side is {value!r}, and no fraction: it proves nothing")
        return np.full((1, self.excess.shape[-1]), value, dtype=self.excess.dtype)

    def decimal(self, value: float) -> Any:
        """A decimal of a formula as the run's numbers have it: 9.9 is 99/10 in fractions."""
        return exact_number(value) if self.rational else value

    epsilon = derived(
        lambda q: q.lam * q.constants.G_sq, "The accuracy that lambda = epsilon/G^2 stands for"
    )
    joint_epsilon = derived(
        lambda q: q.lam * q.constants.joint_G_sq,
        "The same with a bound of the joint gradient for G",
    )
    K = derived(lambda q: q.constants.K, "The number of rounds")
    lam = derived(lambda q: q.constants.lam, "lambda")

    def _column(self, values: Any) -> np.ndarray:
        """Whole numbers of the rounds (K, 1) as the run has numbers."""
        if self.rational:
            return np.array([Fraction(int(v)) for v in values], dtype=object)[:, None]
        return np.asarray(values)[:, None]

    k = derived(lambda q: q._column(np.arange(1, q.K + 1)), "1..K as a column")
    beta = derived(lambda q: 4 / (q.lam * q.k), "beta_k = 4/(lambda k): (K, 1)")
    gamma = derived(lambda q: 2 / (q.k + 1), "gamma_k = 2/(k + 1): (K, 1)")
    T = derived(lambda q: q._column(q.constants.steps) * (1 if q.rational else 1.0), "T_k: (K, 1)")
    c = derived(lambda q: np.asarray(c_factor(q.T)), "c(T_k): (K, 1)")

    @staticmethod
    def mean_sq(values: np.ndarray) -> np.ndarray:
        """(1/N) sum_i ||u_i||^2: (..., N, d, S) -> (..., S)."""
        return (values**2).sum(axis=-2).mean(axis=-2)

    def penalty(self, x: np.ndarray, clients: np.ndarray) -> np.ndarray:
        """mean_i ||x - x'_i||^2/(2 lambda): (..., d, S), (..., N, d, S) -> (..., S)."""
        return self.mean_sq(x[..., None, :, :] - clients) / (2 * self.lam)

    def psi(self, x: np.ndarray, clients: np.ndarray) -> np.ndarray:
        """Psi(x, x') = mean_i f_i(x'_i) + mean_i ||x - x'_i||^2/(2 lambda)."""
        return self.values(clients).mean(axis=-2) + self.penalty(x, clients)

    Psi = derived(lambda q: q.psi(q.x, q.x_client), "Psi(x_k, x'_k): (K + 1, S)")

    @cached_property
    def targets(self) -> np.ndarray:
        """The points u as consensus points of every client: (Q, N, d, S)."""
        shape = (len(self.points), self.x_client.shape[1], *self.points.shape[1:], self.x.shape[-1])
        return np.broadcast_to(self.points[:, None, :, None], shape)

    Psi_targets = derived(lambda q: q.values(q.targets).mean(axis=-2), "Psi(u, u) = F(u): (Q, S)")

    def inner_error(self, kind: str = "sharp") -> np.ndarray:
        """E_i of the inner loop's bound: (K, N, 1).

        'lan': 8 (4 G^2 + sigma^2)/(beta (T + 3)), as Lan prints it; 'sharp': [8 G^2 (T + H_T) +
        4 sigma^2 (T + 3/2 - H_{T+2})]/(beta T (T + 3)).
        """
        g_sq = self.constants.G_i[None, :, None] ** 2
        s_sq = self.constants.sigma_i[None, :, None] ** 2
        t, beta = self.T[:, None], self.beta[:, None]
        if kind == "lan":
            return 8 * (4 * g_sq + s_sq) / (beta * (t + 3))
        noise = t + (t * 0 + 3) / 2 - harmonic(t + 2)
        return (8 * g_sq * (t + harmonic(t)) + 4 * s_sq * noise) / (beta * t * (t + 3))

    inner_errors = derived(lambda q: q.inner_error(), "`inner_error`, (K, N, 1)")


# --- a run ----------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Bounds:
    """The constants of a problem on the ball that the theorems need.

    Attributes
    ----------
    optimum : over the ball
    G_i, sigma_i : (N,) bounds of the subgradients on the closed ball, and noise levels
    """

    optimum: Optimum
    G_i: np.ndarray
    sigma_i: np.ndarray

    def noise(self, size: float) -> float:
        """The absolute uncertainty of F(x) - F*, where values of F are of that size."""
        return self.optimum.value - self.optimum.lower_bound + 1e-12 * (1 + size)


def states_and(
    name: str, problem: Problem, algorithm: FedMLS, x0: Any, **options: Any
) -> tuple[list[FedMLSState], list[Any]]:
    """The states of a run of FedMLS, and what local training gave by that name in its rounds."""
    found: list[Any] = []

    def observe(t: int, old: FedMLSState, new: FedMLSState, clients: Clients) -> None:
        if t < algorithm.rounds or not algorithm.skip_last:
            found.append(getattr(clients.results[-1], name))

    run = simulate(
        problem, algorithm, int(algorithm.rounds), x0, record=(), keep_states=True,
        on_round=observe, **options,
    )  # fmt: skip
    return list(run.states or ()), found


def view_of_run(
    problem: Problem, algorithm: FedMLS, x0: np.ndarray, scenarios: int = 1, seed: int = 0, *,
    radius: float | None = None, points: int = 4, bounds: Bounds | None = None,
    solver: SubgradientSliding | None = None, facts: frozenset[str] = frozenset(),
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
    states, averages = states_and(
        "average", problem, algorithm, x0, scenarios=scenarios, seed=seed, local_solver=solver
    )
    x, z, local_x, local_z = (
        np.moveaxis(np.stack([getattr(s, name) for s in states]), 1, -1)
        for name in ("x", "z", "x_local", "z_local")
    )
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
    start = check_start(problem, x0, 1)[0]
    constants = constants_of(algorithm, bounds, start, radius)
    objective = problem.objective(np.moveaxis(x, -1, 1))
    size = float(np.abs(objective).max() + abs(optimum.value))
    noisy = bool(algorithm.noise_std) or (solver is not None and (bool(solver.noise_std) or solver.batch_size is not None))
    return MLSView(
        constants, x, z, local_x, local_z, average, gradient, values_of(problem),
        excess=objective - optimum.lower_bound, noise=bounds.noise(size),
        points=np.concatenate([optimum.x[None], others]), exact=not noisy, facts=facts,
    )


def constants_of(
    algorithm: FedMLS, bounds: Bounds, start: np.ndarray, radius: float
) -> MLSConstants:
    """The constants of the theorems for a run from ``start``."""
    K = int(algorithm.rounds)
    distance_sq = float(((start - bounds.optimum.x) ** 2).sum())
    steps = np.array([algorithm.steps(k) for k in range(1, K + 1)])
    reach_sq = (radius + float(np.linalg.norm(start))) ** 2
    return MLSConstants(
        K, float(algorithm.lam), float(algorithm.D), bounds.G_i, bounds.sigma_i, distance_sq, steps,
        reach_sq, (float(algorithm.lipschitz), float(algorithm.sigma)),
    )  # fmt: skip


def values_of(problem: Problem) -> Callable[[np.ndarray], np.ndarray]:
    """f_i at a point of its own for each client: (..., N, d, S) -> (..., N, S)."""

    def values(u: np.ndarray) -> np.ndarray:
        moved = np.moveaxis(u, (-3, -2, -1), (0, -1, -2))  # (N, ..., S, d)
        out = problem.client_value(np.ascontiguousarray(moved).reshape(problem.num_clients, -1, problem.dim))
        return np.moveaxis(out.reshape(moved.shape[:-1]), 0, -2)

    return values
