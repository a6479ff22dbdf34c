"""MOPES: a nonsmooth convex function over a convex set, with few projections (Thekumparampil et al.
2020, arXiv 2010.01848).

    min over x in X, x' in X' of  F(x') + 1/(2 lambda) ||x - x'||^2

by accelerated gradient steps. The x-part costs one projection onto X; the x'-part is solved roughly
by subgradient sliding (Lan 2016), the same inner loop as FedMLS's local training. X' is the ball
||u|| <= R that holds X. With the consensus set as X it *is* FedMLS.

The paper's abstract states O(1/epsilon) projections and O(1/epsilon^2) subgradients; more of it was
not read. The bound is the one that the FedMLS poster prints for the consensus set. The statements
fedmls/mopes-bound, mopes-calls and mopes-is-fedmls judge it.

Theorem (unbiased subgradients of variance at most sigma^2, F convex and G-Lipschitz on X', x_0 in
X). For every x in X

    E F(x_K) - F(x) <= (10 ||x_0 - x||^2 + 8 D)/(lambda K (K + 1)) + lambda G^2/2.

Proof.
(1) A sliding step minimises <s + g, u> + beta/2 ||u - u_0||^2 + beta t/4 ||u - u_{t-1}||^2 over X',
with s the subgradient at u_{t-1}. With weights t + 1 these inequalities telescope, and
F(u_t) <= F(u_{t-1}) + <F', u_t - u_{t-1}> + 2G ||u_t - u_{t-1}|| costs (2G + noise)^2/(beta t) a
step. With a_T = (T+1)(T+2)/(T(T+3)) and the harmonic number H_T, for all u in X':

    E[<g, u~ - u> + F(u~) - F(u) + beta/2 ||u~ - u_0||^2]
        <= beta a_T/2 E[||u - u_0||^2 - ||u - u_T||^2] + 4 (4G^2 + sigma^2)(T + H_T)/(beta T (T+3)).

(2) h(x, x') = ||x - x'||^2/(2 lambda) is 2/lambda-smooth and beta_k >= 2 gamma_k/lambda, so (x_k,
x'_k) obeys the accelerated recursion. Its weights gamma_k beta_k/Gamma_k = 4/lambda, with
Gamma_k = 2/(k(k+1)), do not depend on k. Summed up they leave 4 ||x_0 - x||^2 from the x-part, 4
a_{T_1} <= 6 times that from the x'-part (a_T falls as T_k grows), and, since
T_k >= (4G^2 + sigma^2) lambda^2 K k^2/(2D), 4 D (1 + H_T/T) <= 8 D.
(3) F(x_K) <= F(x'_K) + G r with r = ||x_K - x'_K||, and G r - r^2/(2 lambda) <= lambda G^2/2.

Of x_0 the proof uses that it lies in X' only: gamma_1 = 1, so that x_1 = z_1 lies in X, and the
projection's inequality holds from any z_0. `run` asks for a point of X all the same, so that its
first value is one of a feasible point.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar, Literal

import numpy as np

from fedtheory.algorithms.fedmls import FedMLS, exact_number, local_steps
from fedtheory.arrays import Array, OwnArrays, astype_like, namespace, to_numpy
from fedtheory.central.sets import ConstraintSet
from fedtheory.errors import Diverged, InvalidInput
from fedtheory.inputs import check_flags, flag, real_array, real_number, shown, whole_number
from fedtheory.local.exact_prox import ExactProx
from fedtheory.local.objective import LocalObjective, LocalResult, LocalSolver, Rows
from fedtheory.local.sliding import SubgradientSliding
from fedtheory.problems.base import Problem
from fedtheory.randomness import Stream

__all__ = ["MOPES", "CentralRun", "OverAnySet"]

FEASIBLE = 1e-9  # relative distance from X that a start may have
MAX_STEPS = 10**8  # subgradient calls beyond which a run must be asked for by name
STILL_SHORT = 200_000  # rounds, likewise


def positive(name: str, value: Any, least: str = "> 0") -> None:
    """Raise `InvalidInput` unless value is a finite number > 0 (or >= 0)."""
    limit: dict[str, Any] = {"above": 0} if least == "> 0" else {"least": 0}
    real_number(name, value, **limit)


@dataclass(frozen=True)
class CentralRun(OwnArrays):
    """The measurements of a run of MOPES or MOLES.

    Attributes
    ----------
    x : (d,)
        x_K, feasible.
    values : (K + 1,)
        F(x_k), the start first.
    local_steps : (K,)
        T_k taken.
    projections, subgradient_calls, lmo_calls : (K + 1,)
        Calls so far. A call of the product problem counts once for all clients.
    gaps : (K,) Wolfe gaps at which Frank-Wolfe stopped (MOLES), or empty
    iterates : (K + 1, d), local_iterates : (K + 1, d), when kept
    """

    x: np.ndarray
    values: np.ndarray
    local_steps: np.ndarray
    projections: np.ndarray
    subgradient_calls: np.ndarray
    lmo_calls: np.ndarray
    gaps: np.ndarray = field(default_factory=lambda: np.zeros(0))
    iterates: np.ndarray | None = None
    local_iterates: np.ndarray | None = None

    def __str__(self) -> str:
        return (
            f"F(x_K) = {self.values[-1]:.10g} after {len(self.local_steps)} rounds: {self.projections[-1]} projections, "
            f"{self.lmo_calls[-1]} linear minimisations, {self.subgradient_calls[-1]} subgradients"
        )


@dataclass(frozen=True)
class MOPES:
    """MOreau envelope Projection Efficient Subgradient method (Thekumparampil et al. 2020; the
    poster's eq. (2) and update).

    Parameters
    ----------
    lam : float > 0
        lambda, the smoothing parameter.
    D : float > 0
        D~, the allowance for the inexact inner loop; ||x_0 - x*||^2 is the natural choice.
    rounds : int >= 1
        K.
    lipschitz : float > 0
        G, of F on the ball of radius `radius`. On a product space: the root mean square of the
        clients' constants.
    sigma : float >= 0
        sigma^2 bounds the variance of the subgradients.
    radius : float > 0
        R of X'; default: the least ball around 0 that holds X.
    noise_std, batch_size
        Of the stochastic oracle, as in `SubgradientSliding`.
    skip_last : bool
        Leave out the inner loop of round K: x_K does not depend on it.
    local_training : 'sliding' or 'exact-prox'
        T_k subgradient steps, or the minimiser of the inner problem on X', to a certified gap
        (`fedtheory.local.ExactProx`); D, sigma and T_k then mean nothing.
    max_steps : int
        Runs of more subgradients are refused, with the time they would take.

    Raises
    ------
    InvalidInput
        A number outside its range; X not inside X'; x_0 not in X; runs that would take hours.
    """

    lam: float
    D: float
    rounds: int
    lipschitz: float
    sigma: float = 0.0
    radius: float | None = None
    noise_std: float = 0.0
    batch_size: int | None = None
    skip_last: bool = True
    max_steps: int = MAX_STEPS
    local_training: Literal["sliding", "exact-prox"] = "sliding"

    def __post_init__(self) -> None:
        check_flags(self)
        if self.local_training not in ("sliding", "exact-prox"):
            raise InvalidInput(f"local_training = {self.local_training!r}: use 'sliding' or 'exact-prox'")
        if self.solved and (self.noise_std or self.batch_size is not None):
            given = f"noise_std = {self.noise_std!r}, batch_size = {self.batch_size!r}"
            raise InvalidInput(f"{given}: local_training = 'exact-prox' asks for no subgradients; leave them out")
        for name in ("lam", "D", "lipschitz"):
            positive(name, getattr(self, name))
        positive("sigma", self.sigma, ">= 0")
        if self.radius is not None:
            positive("radius", self.radius)
        whole_number("rounds", self.rounds)
        SubgradientSliding(noise_std=self.noise_std, batch_size=self.batch_size)  # refuses what it cannot use

    @property
    def solved(self) -> bool:
        """True if the inner problems are solved instead of walked along."""
        return self.local_training == "exact-prox"

    @staticmethod
    def rounds_for(epsilon: Any, lipschitz: Any, distance_sq: Any, local_training: str = "sliding") -> int:
        """The least K with K (K+1) >= 36 G^2 D/epsilon^2; 16 for 36 if inner problems are solved.

        With lambda = epsilon/G^2 and D = ||x_0 - x*||^2 the bound is then at most epsilon (FedMLS's Theorem 2, repaired).
        """
        for name, value in (("epsilon", epsilon), ("lipschitz", lipschitz), ("distance_sq", distance_sq)):
            positive(name, value)
        product = exact_number(lipschitz) ** 2 * exact_number(distance_sq) / exact_number(epsilon) ** 2
        return least_rounds((16 if local_training == "exact-prox" else 36) * product)

    @classmethod
    def for_accuracy(cls, epsilon: Any, lipschitz: Any, distance_sq: Any, **options: Any) -> MOPES:
        """Parameters that guarantee E F(x_K) - F* <= epsilon when ||x_0 - x*||^2 <= distance_sq."""
        rounds = cls.rounds_for(epsilon, lipschitz, distance_sq, options.get("local_training", "sliding"))
        lam: Any = exact_number(epsilon) / exact_number(lipschitz) ** 2
        return cls(lam=lam, D=distance_sq, rounds=rounds, lipschitz=lipschitz, **options)

    def local_steps(self) -> list[int]:
        """T_k = ceil((4 G^2 + sigma^2) lambda^2 K k^2/(2 D)), in exact arithmetic: (K,); 0 where
        the inner problem is solved."""
        rounds = int(self.rounds)
        if self.solved:
            return [0] * rounds
        return [local_steps(k, self.lam, self.D, rounds, self.lipschitz, self.sigma) for k in range(1, rounds + 1)]

    def bound(self, distance_sq: float) -> float:
        """Bound E F(x_K) - F(x) by the theorem above, for x in X, ||x_0 - x||^2 = distance_sq."""
        size = float(self.lam) * self.rounds * (self.rounds + 1)
        return self._allowance(distance_sq) / size + float(self.lam) * float(self.lipschitz) ** 2 / 2

    def _allowance(self, distance_sq: float) -> float:
        return 8 * distance_sq if self.solved else 10 * distance_sq + 8 * float(self.D)

    def run(
        self, problem: Problem, constraint: ConstraintSet, x0: Any = None, seed: int = 0,
        keep: bool = False, like: Array | None = None,
        on_round: Callable[[int, float], None] | None = None,
    ) -> CentralRun:
        """Minimise F over X.

        Parameters
        ----------
        problem : Problem
            One client (see `Joint` and `Function`): F itself. N clients: the product space R^(N d)
            with the mean inner product, F = (1/N) sum_i f_i(u_i), and X' the product of N balls; X
            is then a set in R^(N d), such as `Consensus`.
        x0 : (d,), default the projection of 0
        seed : int
        keep : bool
            Keep all iterates.
        like : array
            Of the namespace, device and precision that it runs in; default NumPy's, in double
            precision. What is returned is NumPy's in any case.
        on_round : callable(k, F(x_k)), after every round
        """
        flag("keep", keep)
        x, radius = self.ready(problem, constraint, x0)
        blocks, dim = problem.num_clients, problem.dim
        problem, x = (problem, x) if like is None else (problem.like(like), astype_like(x, like))
        steps, lam = self.local_steps(), float(self.lam)
        taken = [*steps[:-1], 0] if self.skip_last else steps
        layout = (blocks, 1, dim)
        z, z_local, x_local = x, x, x
        values, iterates, local_iterates = [self._value(problem, x)], [to_numpy(x)], [to_numpy(x_local)]
        xp = namespace(x)
        projections, lmo, gaps = [0], [0], list[float]()
        stream = Stream(seed)
        for k in range(1, int(self.rounds) + 1):
            beta, gamma = 4 / (lam * k), 2 / (k + 1)
            y, y_local = (1 - gamma) * x + gamma * z, (1 - gamma) * x_local + gamma * z_local
            target = z - (y - y_local) / (beta * lam)
            if not np.isfinite(to_numpy(target)).all():
                raise self._diverged(k)
            z, used, gap = self._step(constraint, z, target)
            if taken[k - 1] or (self.solved and (k < self.rounds or not self.skip_last)):
                linear = -xp.reshape((y_local - y) / lam, layout)
                result = self._slide(problem, xp.reshape(z_local, layout), linear, beta, taken[k - 1], radius, stream, k)
                z_local, averaged = xp.reshape(result.y, (-1,)), xp.reshape(result.average, (-1,))
                x_local = (1 - gamma) * x_local + gamma * averaged
            x = (1 - gamma) * x + gamma * z
            if not (np.isfinite(to_numpy(x)).all() and np.isfinite(to_numpy(x_local)).all()):
                raise self._diverged(k)
            values.append(self._value(problem, x))
            projections.append(projections[-1] + (0 if used else 1))
            lmo.append(lmo[-1] + used)
            gaps += [gap] if used else []
            if keep:
                iterates.append(to_numpy(x))
                local_iterates.append(to_numpy(x_local))
            if on_round is not None:
                on_round(k, values[-1])
        return CentralRun(
            to_numpy(x), np.array(values), np.array(taken), np.array(projections),
            np.concatenate([[0], np.cumsum(taken)]), np.array(lmo), np.array(gaps),
            np.stack(iterates) if keep else None, np.stack(local_iterates) if keep else None,
        )

    def ready(self, problem: Problem, constraint: ConstraintSet, x0: Any = None) -> tuple[np.ndarray, float]:
        """x_0 (d,) and the radius of X', once it is known that a run of them can start; what `run` raises before it does."""
        if not (isinstance(problem, Problem) and isinstance(constraint, ConstraintSet)):
            raise InvalidInput(f"problem = {shown(problem)}, constraint = {shown(constraint)}: give a Problem and a ConstraintSet")
        radius = self._check(problem, constraint)
        x = self._start(constraint, x0)
        self._check_duration(problem, x, radius)
        return x, radius

    def _diverged(self, k: int) -> Diverged:
        return Diverged(f"round {k}: not finite; is F Lipschitz with G = {float(self.lipschitz):.4g}?", k, None, 0)

    def _step(self, constraint: ConstraintSet, z: Array, target: Array) -> tuple[Array, int, float]:
        """z_k: the projection of target; with the number of linear minimisations (0: one projection) and their gap."""
        return constraint.project(target), 0, 0.0

    def _slide(
        self, problem: Problem, start: Array, linear: Array, beta: float, steps: int, radius: float,
        stream: Stream, round_index: int,
    ) -> LocalResult:
        """The inner loop, from start (N, 1, d)."""
        blocks = start.shape[0]
        solver: LocalSolver = ExactProx(radius)
        if not self.solved:
            solver = SubgradientSliding(steps=steps, radius=radius, noise_std=self.noise_std, batch_size=self.batch_size)
        rows = Rows(
            np.arange(blocks), np.zeros((blocks, 1), dtype=int), np.ones((blocks, 1), dtype=bool), stream, round_index
        )
        return solver.solve(problem, LocalObjective(center=start, linear=linear, curvature=beta), start, rows)

    def total_steps(self) -> int:
        """Subgradients of the whole run; exact up to a million rounds, a lower estimate beyond."""
        if self.solved:
            return 0
        same = FedMLS(self.lam, self.D, self.rounds, math.inf, self.lipschitz, self.sigma, skip_last=self.skip_last)
        return same.total_steps()

    def _check_duration(self, problem: Problem, x: np.ndarray, radius: float) -> None:
        total = self.total_steps()
        if total <= self.max_steps:
            return
        start = x.reshape(problem.num_clients, 1, problem.dim)
        seconds = []
        for _ in range(2):  # the first call may compile
            begin = time.perf_counter()
            self._slide(problem, start, 0 * start, 1.0, 200, radius, Stream(0), 1)
            seconds.append((time.perf_counter() - begin) / 200)
        hours = seconds[-1] * total / 3600
        raise InvalidInput(
            f"this run takes {total:.3g} subgradients in K = {self.rounds:,} rounds, about {hours:.3g} hours here, and "
            f"max_steps = {self.max_steps:.3g}: choose a larger epsilon, or pass a larger max_steps to go on"
        )

    def _value(self, problem: Problem, x: Array) -> float:
        layout = namespace(x).reshape(x, (problem.num_clients, 1, problem.dim))
        return float(problem.weights @ to_numpy(problem.client_value(layout))[:, 0])

    def _check(self, problem: Problem, constraint: ConstraintSet) -> float:
        if constraint.dim != problem.num_clients * problem.dim:
            raise InvalidInput(
                f"the set lies in R^{constraint.dim}, the problem in R^{problem.num_clients * problem.dim} (clients x dim); to "
                "minimise the joint F over a set in R^d wrap the problem: Joint(problem)"
            )
        if np.ptp(problem.weights) > 1e-12:
            raise InvalidInput("the product space uses the mean inner product: the weights must all be 1/N")
        bound = constraint.block_norm_bound
        radius = float(self.radius) if self.radius is not None else bound
        if not math.isfinite(radius):
            raise InvalidInput("the set is unbounded: state the radius of the local ball X' (radius=...)")
        if math.isfinite(bound) and radius < bound * (1 - 1e-12):
            raise InvalidInput(f"radius = {radius:.6g}: X' must hold X, whose points have norms up to {bound:.6g}; raise it")
        return radius

    def _start(self, constraint: ConstraintSet, x0: Any) -> np.ndarray:
        if x0 is None:
            return constraint.project(np.zeros(constraint.dim))
        x = np.array(real_array("x0", x0))
        if x.shape != (constraint.dim,):
            raise InvalidInput(f"x0 has shape {x.shape}: expected ({constraint.dim},) finite numbers")
        away = constraint.distance(x)
        if away > FEASIBLE * max(1.0, float(np.linalg.norm(x))):
            raise InvalidInput(f"x0 is {away:.3g} away from the set: start inside it, for example at constraint.project(x0)")
        return x


@dataclass(frozen=True)
class OverAnySet(FedMLS):
    """MOPES for one loss over any closed convex set: the question of a worst case.

    With one client, and the set in place of the ball, FedMLS's round is MOPES's.
    """

    name: ClassVar[str] = "mopes"
    source: ClassVar[str] = "Thekumparampil et al. 2020"
    one_loss: ClassVar[bool] = True

    def _projected(self, z: Array, clients: Any) -> Array:
        return clients.onto_any_set(z)


def least_rounds(product: Fraction) -> int:
    """The least K >= 1 with K (K+1) >= product, exactly."""
    guess = max(1, (math.isqrt(math.ceil(4 * product) + 1) - 1) // 2 - 1)
    while guess * (guess + 1) < product:
        guess += 1
    return guess
