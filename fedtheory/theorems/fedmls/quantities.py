"""Everything a run of FedMLS makes measurable, in the symbols of its proof (Thekumparampil et al. 2020; Lan 2016).

Norms are those of the mean product <u, v> = (1/N) sum_i <u_i, v_i>, in which the poster's algorithm lives. Rounds stand on axis 0,
scenarios on the last axis.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from math import ceil, isqrt
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
from fedtheory.theorems.fedmls.notation import applies
from fedtheory.verification.statement import Form

__all__ = [
    "Bounds", "MLSConstants", "MLSView", "c_factor", "harmonic", "k_min", "kappa", "kappa_last", "kappa_noise", "values_of",
    "view_of_run",
]  # fmt: skip


def harmonic(n: Any) -> Any:
    """H_n, from scipy's digamma."""
    from scipy.special import digamma

    return digamma(np.asarray(n, dtype=float) + 1) + np.euler_gamma


def c_factor(steps: Any) -> Any:
    """c(T) = (T+1)(T+2)/(T(T+3)), decreasing, 3/2 at T = 1."""
    t = np.asarray(steps, dtype=float)
    return (t + 1) * (t + 2) / (t * (t + 3))


def kappa(steps: Any) -> Any:
    """(T + H_T)/(T + 3), at most 1.0302444 (T = 33)."""
    t = np.asarray(steps, dtype=float)
    return (t + harmonic(t)) / (t + 3)


def kappa_noise(steps: Any) -> Any:
    """(T + 3/2 - H_{T+2})/(T + 3), below 1."""
    t = np.asarray(steps, dtype=float)
    return (t + 1.5 - harmonic(t + 2)) / (t + 3)


def kappa_last(steps: int, noise: bool = False) -> float:
    """kappa's counterpart when line 14 takes the last iterate: about (log T)/2 + 0.64, at most 4 up to T = 828.

    noise: that of `kappa_noise`, which is smaller, and at most 2 up to T = 26.
    """
    t = np.arange(1, steps + 1, dtype=float)
    error = 4 * (t + 1) / (t + 2 if noise else t)
    after = np.concatenate([np.cumsum(error[::-1])[::-1], [0.0]])  # after[j] = sum_{t > j} e_t
    weight = np.concatenate([np.cumsum((t + 1)[::-1])[::-1], [0.0]])  # weight[j - 1] = sum_{t >= j} (t + 1)
    j = np.arange(1, steps)
    return float(steps / 8 * (after[0] / weight[0] + ((j + 1) * after[j] / (weight[j - 1] * weight[j])).sum()))


def k_min(product: Fraction, slack: int | Fraction = 8) -> int:
    """Least K with K (K + 1) >= 2 (10 + slack) G^2 D/epsilon^2, in exact arithmetic; ``product`` is G^2 D/epsilon^2."""
    need = 2 * (10 + Fraction(slack)) * product
    return max(1, (isqrt(ceil(1 + 4 * need) - 1) + 1) // 2)  # the least K with (2 K + 1)^2 >= 1 + 4 need


@dataclass(frozen=True)
class MLSConstants:
    """The constants of Theorems 1 and 2.

    Attributes
    ----------
    K : rounds; lam : lambda; D : D-tilde
    G_i, sigma_i : (N,) bounds of the subgradients on the closed ball, and noise levels
    distance_sq : ||x_0 - x*||^2
    steps : (K,) T_k
    reach_sq : (R + ||x_0||)^2, which no ||x_0 - u||^2 in the ball exceeds
    line_4 : G and sigma of T_k, where they are not the root mean squares of the G_i and sigma_i
    """

    K: int
    lam: float
    D: float
    G_i: np.ndarray
    sigma_i: np.ndarray
    distance_sq: float
    steps: np.ndarray
    reach_sq: float = float("inf")
    line_4: tuple[float, float] | None = None

    @property
    def line_4_G_sq(self) -> float:
        """G^2 of T_k."""
        return self.G_sq if self.line_4 is None else self.line_4[0] ** 2

    @property
    def line_4_sigma_sq(self) -> float:
        """sigma^2 of T_k."""
        return self.sigma_sq if self.line_4 is None else self.line_4[1] ** 2

    @property
    def N(self) -> int:
        """How many clients there are."""
        return len(self.G_i)

    @property
    def total_steps(self) -> float:
        """sum_k T_k."""
        return float(self.steps.sum())

    @property
    def G_sq(self) -> float:
        """Mean of G_i^2: the constant that the proof needs."""
        return float(np.mean(self.G_i**2))

    @property
    def sigma_sq(self) -> float:
        return float(np.mean(self.sigma_i**2))

    @property
    def joint_G_sq(self) -> float:
        """||grad F||^2 of the joint F on R^{Nd}: mean of G_i^2 over N. The poster's reading."""
        return self.G_sq / self.N

    def theorem_1(self, start: float = 10, slack: float = 8, G_sq: float | None = None) -> float:
        """(start ||x_0 - x*||^2 + slack D)/(lam K (K+1)) + G^2 lam/2."""
        G_sq = self.G_sq if G_sq is None else G_sq
        return (start * self.distance_sq + slack * self.D) / (self.lam * self.K * (self.K + 1)) + G_sq * self.lam / 2

    def excess_of_psi(self, distance_sq: float) -> float:
        """Bound of E Psi_K - Psi(u, u') after the steps T_k that were taken, with ||u - x_0||^2, ||u' - x_0||^2 <= distance_sq.

        The training of round K does not enter x_K, so that it may be thought of as exact.
        """
        k = np.arange(1, self.K)
        t = self.steps[: self.K - 1]
        inner = k**2 * (self.G_sq * kappa(t) + self.sigma_sq * kappa_noise(t) / 2) / t
        start = 4 + 4 * c_factor(self.steps[0])
        return float((start * distance_sq + 4 * self.lam**2 * float(inner.sum())) / (self.lam * self.K * (self.K + 1)))

    def a_posteriori(self) -> float:
        """Theorem 1 with the steps T_k that were taken."""
        return self.excess_of_psi(self.distance_sq) + self.G_sq * self.lam / 2

    def large_k(self) -> float:
        """lam G^2/4 + G sqrt(lam e/2) + e, with e = `excess_of_psi` of any point of the ball."""
        e = self.excess_of_psi(self.reach_sq)
        return self.lam * self.G_sq / 4 + float(np.sqrt(self.G_sq * self.lam * e / 2)) + e


@dataclass
class MLSView:
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
    def rule(self) -> str:
        """Which of a form's verdicts is about it."""
        return "deterministic" if self.exact else "stochastic"

    def applies(self, form: Form) -> str | None:
        """Why the form is not claimed for this run, or None."""
        return applies(form, self)

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
