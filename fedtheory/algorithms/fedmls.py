"""FedMLS: federated learning with multiple local steps (Palenzuela, Löfstedt and Yurtsever, Algorithm 1)."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from numbers import Rational
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from fedtheory.algorithms.base import Algorithm, check_choice, finite, require
from fedtheory.arrays import Array, namespace, to_numpy
from fedtheory.clients.clients import Clients
from fedtheory.errors import InvalidInput
from fedtheory.inputs import check_flags, check_problem, real_array, unbounded
from fedtheory.local.exact_prox import ExactProx
from fedtheory.local.objective import LocalObjective
from fedtheory.local.sliding import SubgradientSliding, project_ball
from fedtheory.plain_progress import duration
from fedtheory.problems.base import Problem

__all__ = ["FedMLS", "FedMLSState", "duration", "exact_number", "fedmls_parameters", "fewest_rounds", "local_steps", "printed_rounds"]

LONG = 3600.0  # seconds; longer runs need allow_long=True
ALWAYS_SHORT = 2_000_000  # client-steps that are not worth a measurement


def exact_number(value: Any) -> Fraction:
    """A hyperparameter as an exact fraction; a float stands for the shortest decimal that reads as it: 0.1 is 1/10."""
    if isinstance(value, Rational):
        return Fraction(int(value.numerator), int(value.denominator))
    return Fraction(repr(float(value)))


@lru_cache(maxsize=64, typed=True)  # Fraction(0.1) equals 0.1 but stands for another number
def _growth(lam: Any, D: Any, rounds: int, lipschitz: Any, sigma: Any) -> Fraction:
    lam, D, G, sigma = (exact_number(v) for v in (lam, D, lipschitz, sigma))
    return (4 * G**2 + sigma**2) * lam**2 * rounds / (2 * D)


def local_steps(k: int, lam: Any, D: Any, rounds: int, lipschitz: Any, sigma: Any = 0) -> int:
    """T_k = ceil((4G^2 + sigma^2) lambda^2 K k^2/(2 D~)) of line 4, in exact arithmetic, at least 1."""
    growth = _growth(lam, D, rounds, lipschitz, sigma)
    return max(1, -(-growth.numerator * k**2 // growth.denominator))


@lru_cache(maxsize=64)
def _total_steps(growth: Fraction, last: int) -> int:
    """T_1 + ... + T_last, where T_k = max(1, ceil(growth k^2)), exactly."""
    p, q = growth.numerator, growth.denominator
    return sum(max(1, -(-p * k * k // q)) for k in range(1, last + 1))


def _ceil_sqrt(value: Fraction) -> int:
    """ceil(sqrt(value)): the least integer m with m^2 >= value."""
    whole = math.ceil(value)
    root = math.isqrt(whole)
    return root if root**2 >= whole else root + 1


def printed_rounds(epsilon: Any, lipschitz: Any, distance: Any) -> int:
    """K = ceil(6 G sqrt(2 D~)/epsilon) of Theorem 2 with D~ = distance^2, in exact arithmetic (at least 1)."""
    e, G, r = (exact_number(v) for v in (epsilon, lipschitz, distance))
    return max(1, _ceil_sqrt(72 * (G * r / e) ** 2))


def fewest_rounds(epsilon: Any, lipschitz: Any, distance: Any, constant: int = 36) -> int:
    """K_min: the least K with K(K + 1) >= 36 G^2 D~/epsilon^2, for which the repaired Theorem 1 gives epsilon (at least 1).

    Fewer can do: with the sharpened Theorem 1 the ``constant`` 28 is enough, and with the local problems solved exactly 16.
    """
    e, G, r = (exact_number(v) for v in (epsilon, lipschitz, distance))
    product = math.ceil(constant * (G * r / e) ** 2)
    K = max(1, (math.isqrt(4 * product + 1) - 1) // 2)
    return K if K * (K + 1) >= product else K + 1


class FedMLSState(NamedTuple):
    x: Array  # x_k (S, d)
    z: Array  # z_k (S, d)
    x_local: Array  # x'_{i,k} (S, N, d)
    z_local: Array  # z'_{i,k} (S, N, d)


@dataclass(frozen=True)
class FedMLS(Algorithm):
    """FedMLS: accelerated consensus on the server, subgradient sliding on the clients, one exchange a round.

    It minimises the plain mean F = (1/N) sum_i f_i over the ball ||x|| <= R, with every client in every round and exactly
    `rounds` rounds (T_k depends on K). Its local training is its own: a run's local solver matters only if it is a
    `SubgradientSliding`, whose noise, batches and engine are then taken over.

    Parameters
    ----------
    lam : float > 0
        lambda of the Moreau penalty (1/(2 lambda)) ||x - x'||^2.
    D : float > 0
        D~ of T_k; Theorem 2 takes ||x_0 - x*||^2.
    rounds : int >= 1
        K.
    radius : float > 0
        R; ``math.inf`` for none.
    lipschitz : float > 0
        G. What the proof needs is the root mean square of the clients' G_i, each a bound of every subgradient that is returned on
        the closed ball: `Problem.lipschitz_rms`.
    sigma : float >= 0
        Root mean square of the subgradients' noise, as T_k assumes it. It adds no noise.
    noise_std : float >= 0
        Adds noise of that root mean square to every local subgradient (see `SubgradientSliding`).
    average : 'averaged' or 'printed'
        Line 14 with the averaged z~' (as in Lan and in MOPES; the proof needs it), or with the last z' as printed.
    server_projection : bool
        Project z_k onto the ball. Not printed, but without it the consensus set is not inside the ball.
    norm : 'mean' or 'product'
        The inner product on the N copies: (1/N) sum <u_i, v_i>, or sum <u_i, v_i>. The second with (N lam, N D, G/sqrt(N),
        sigma/sqrt(N)) is the first with (lam, D, G, sigma).
    skip_last : bool
        Skip round K's local work, on which x_K does not depend.
    allow_long : bool
        Start a run that is estimated to take more than an hour.
    local_training : 'sliding' or 'exact-prox'
        T_k subgradient steps, as printed, or the minimiser of the local problem on the ball, to a certified gap (`ExactProx`):
        what more and more steps tend to. D, sigma and T_k then mean nothing, line 14 has one reading, and there is no noise.

    lam, D, lipschitz and sigma may be ints or fractions, too: T_k is computed exactly, a float standing for its shortest
    decimal.

    Raises
    ------
    InvalidInput
        Values out of range; x_0 outside the ball; a cohort that is not everybody; weights other than 1/N; a run of other than
        `rounds` rounds; a run that would take hours (says how long).

    Notes
    -----
    x_1 = x_0 whatever the problem. Lines 8-10 use what the clients sent before line 13, so a round is one exchange.
    """

    name: ClassVar[str] = "fedmls"
    source: ClassVar[str] = "Palenzuela, Löfstedt and Yurtsever, FedMLS, Algorithm 1"
    coordinatewise: ClassVar[bool] = False
    local_work: ClassVar[str] = "sliding"
    nonsmooth: ClassVar[bool] = True
    plain_mean: ClassVar[bool] = True
    exact_numbers: ClassVar[tuple[str, ...]] = ("lam", "D", "lipschitz", "sigma")
    parameters_from: ClassVar[str] = "fedmls"

    lam: float  # lambda
    D: float  # D~
    rounds: int  # K
    radius: float  # R
    lipschitz: float  # G
    sigma: float = 0.0
    noise_std: float = 0.0
    average: Literal["averaged", "printed"] = "averaged"
    server_projection: bool = True
    norm: Literal["mean", "product"] = "mean"
    skip_last: bool = True
    allow_long: bool = False
    local_training: Literal["sliding", "exact-prox"] = "sliding"

    def __post_init__(self) -> None:
        check_flags(self)
        for field, limit in (
            ("lam", "lambda must be a finite number > 0"),
            ("D", "D~ must be a finite number > 0 (Theorem 2: ||x_0 - x*||^2)"),
            ("lipschitz", "the Lipschitz constant G must be a finite number > 0"),
        ):
            value = getattr(self, field)
            require(finite(value) and value > 0, field, value, limit)
        require(finite(self.sigma) and self.sigma >= 0, "sigma", self.sigma, "the noise sigma must be a finite number >= 0")
        whole = isinstance(self.rounds, int | np.integer) and not isinstance(self.rounds, bool)
        require(whole and self.rounds >= 1, "rounds", self.rounds, "the number of rounds K must be an integer >= 1")
        real = finite(self.radius) or unbounded(self.radius)
        require(real and self.radius > 0, "radius", self.radius, "the ball's radius R must be > 0 (math.inf for no ball)")
        check_choice(self, "average", ("averaged", "printed"))
        check_choice(self, "norm", ("mean", "product"))
        check_choice(self, "local_training", ("sliding", "exact-prox"))
        if self.solved and self.noise_std:
            self._no_noise(f"noise_std = {self.noise_std!r}")
        SubgradientSliding(noise_std=self.noise_std)  # refuses what it cannot use

    @classmethod
    def usual_parameters(cls, scale: Any, given: Mapping[str, Any]) -> dict[str, Any]:
        solved = {} if "D" in given else {"D": 1, "local_training": "exact-prox"}
        lam = 4 * scale.R / (scale.G * scale.root(scale.T * (scale.T + 1)))
        return {"lam": lam, "rounds": scale.T, "radius": math.inf, "lipschitz": scale.G, **solved}

    @property
    def solved(self) -> bool:
        """True if the local problems are solved instead of walked along."""
        return self.local_training == "exact-prox"

    @staticmethod
    def _no_noise(given: str) -> None:
        raise InvalidInput(f"{given}: local_training = 'exact-prox' asks for no subgradients, noisy ones or of batches; leave it out")

    def steps(self, k: int) -> int:
        """T_k (1 <= k <= K); 1 where the local problem is solved."""
        if self.solved:
            return 1
        return local_steps(k, self.lam, self.D, int(self.rounds), self.lipschitz, self.sigma)

    def total_steps(self, skip_last: bool | None = None) -> int:
        """Local steps of one client over the whole run, or local problems; exact up to a million rounds, a lower estimate beyond."""
        last = int(self.rounds) - (self.skip_last if skip_last is None else skip_last)
        if self.solved:
            return last
        growth = _growth(self.lam, self.D, int(self.rounds), self.lipschitz, self.sigma)
        if last > 10**6:
            return max(last, int(growth * last * (last + 1) * (2 * last + 1) / 6))
        return _total_steps(growth, last)

    def check_run(self, problem: Problem, rounds: int) -> None:
        """Refuse a run whose number of rounds is not K, or whose objective is not the plain mean, before it starts."""
        if abs(problem.weights * problem.num_clients - 1).max() > 1e-9:
            low, high = problem.weights.min(), problem.weights.max()
            raise InvalidInput(
                f"the problem's weights lie between {low:.4g} and {high:.4g}, but FedMLS minimises the plain mean: make the problem "
                "with weights='uniform'"
            )
        if rounds != self.rounds:
            raise InvalidInput(
                f"rounds = {rounds}, but this FedMLS is made for K = {self.rounds}, on which T_k depends: run {self.rounds} "
                f"rounds, or make it with rounds={rounds}"
            )

        if self.solved:
            ExactProx(float(self.radius)).check(problem)

    def init(self, x: Array, num_clients: int) -> FedMLSState:
        size = np.zeros(1) if unbounded(self.radius) else np.linalg.norm(to_numpy(x), axis=-1)
        if (size > self.radius * (1 + 1e-12)).any():
            raise InvalidInput(
                f"||x_0|| = {float(size.max()):.6g} is outside the ball of radius R = {float(self.radius):.6g}: enlarge the "
                "radius, or start inside it"
            )
        local = namespace(x).broadcast_to(x[:, None, :], (x.shape[0], num_clients, x.shape[1]))
        return FedMLSState(x, x, local, local)  # line 2

    def round(self, state: FedMLSState, clients: Clients) -> FedMLSState:
        k = clients.round_index
        if k > self.rounds:
            raise InvalidInput(f"round {k}, but this FedMLS is made for K = {self.rounds} rounds: make it with rounds >= {k}")
        everyone = clients.cohort.everyone  # what they have now then is the memory
        if not everyone and not (clients.cohort.size() == clients.num_clients).all():
            raise InvalidInput("FedMLS needs every client in every round: leave out the sampling (full participation)")
        solver = self._solver(clients)
        if k == 1 and isinstance(clients.problem, Problem):
            self._check_duration(clients, solver, state.x)
        gamma = 2 / (k + 1)  # line 4
        x_local, z_local = clients.take(state.x_local), clients.take(state.z_local)
        y_local = clients.send((1 - gamma) * x_local + gamma * z_local)  # lines 5-6
        rest = (1 - gamma) * state.x
        y = rest + gamma * state.z  # line 8
        z = state.z - k / 4 * (y - clients.mean(y_local))  # line 9
        z = self._projected(z, clients)
        x = rest + gamma * z  # line 10
        if k == self.rounds and self.skip_last:
            return FedMLSState(x, z, state.x_local, state.z_local)
        result = clients.minimise(  # lines 11 and 13
            self._local_objective(k, y_local - clients.broadcast(y), z_local, clients),
            start=z_local,
            solver=solver,
        )
        chosen: Array = result.average if self.average == "averaged" else result.y
        x_local, z_local = (1 - gamma) * x_local + gamma * chosen, result.y  # line 14
        if not everyone:
            x_local = clients.put(state.x_local, x_local)
            z_local = clients.put(state.z_local, z_local)
        return FedMLSState(x, z, x_local, z_local)

    def _projected(self, z: Array, clients: Clients) -> Array:
        return project_ball(z, float(self.radius)) if self.server_projection else z

    def _local_objective(self, k: int, difference: Array, z_local: Array, clients: Clients) -> LocalObjective:
        """f_i(u) + <g, u> + beta_k/2 ||u - z'||^2; the product norm's f_i/N + ... is N times smaller."""
        lam = clients.real(self.lam) / (clients.num_clients if self.norm == "product" else 1)
        return LocalObjective(center=z_local, linear=difference / -lam, curvature=4 / (lam * k))  # lines 4 and 13

    def _solver(self, clients: Clients) -> SubgradientSliding | ExactProx:
        """The local solver of the round."""
        given = clients.solver
        sliding = given if isinstance(given, SubgradientSliding) else SubgradientSliding()
        if self.solved:
            if sliding.noise_std or sliding.batch_size is not None:
                self._no_noise(f"local solver {given!r}")
            return given if isinstance(given, ExactProx) else ExactProx(float(self.radius))
        noise = float(self.noise_std) or sliding.noise_std
        steps = self.steps(clients.round_index)
        return replace(sliding, steps=steps, radius=float(self.radius), noise_std=noise)

    # --- how long it will take ----------------------------------------------------------------------------------------
    def _check_duration(self, clients: Clients, solver: SubgradientSliding | ExactProx, x: Array) -> None:
        if self.allow_long:
            return
        steps = self.total_steps()
        if not self.solved and steps * clients.num_clients * len(clients.scenarios) < ALWAYS_SHORT and self.rounds < 10**5:
            return
        seconds = self._seconds_per_step(clients, solver, x) * steps + 1e-4 * self.rounds
        if seconds > LONG:
            work = f"{steps:,} local problems a client" if self.solved else (
                f"{steps:,} local steps a client (T_K = {self.steps(int(self.rounds)):,})"
            )  # fmt: skip
            raise InvalidInput(
                f"K = {self.rounds:,} rounds with {work} would take "
                f"about {duration(seconds)} here: ask for a larger epsilon or fewer scenarios, or pass allow_long=True to go on"
            )

    def _seconds_per_step(self, clients: Clients, solver: SubgradientSliding | ExactProx, x: Array) -> float:
        """Seconds that one local step of all clients and scenarios takes here, measured."""
        point = clients.broadcast(x)
        if isinstance(solver, SubgradientSliding):
            solver = replace(solver, steps=1)
        probe = Clients(clients.problem, clients.cohort, solver, x, clients.stream, 1, clients.scenarios)
        objective = LocalObjective(center=point, curvature=1.0)
        probe.minimise(objective, point)  # compiles and warms up
        if isinstance(solver, ExactProx):
            begin = time.perf_counter()
            probe.minimise(objective, point)
            return time.perf_counter() - begin
        count = 16
        while True:
            begin = time.perf_counter()
            probe.minimise(objective, point, replace(solver, steps=count))
            seconds = time.perf_counter() - begin
            if seconds > 0.01 or count > 2**20:
                return seconds / count
            count *= 4


def fedmls_parameters(
    problem: Problem,
    epsilon: Any,
    radius: float,
    distance: Any = None,
    *,
    x0: Any = None,
    rounds: Literal["fewest", "printed"] | int = "fewest",
    sigma: Any = 0,
    lipschitz: Any = None,
    **options: Any,
) -> FedMLS:
    """FedMLS with Theorem 2's lambda = epsilon/G^2, D~ = distance^2 and K, so that E F(x_K) - F* <= epsilon.

    Parameters
    ----------
    problem : Problem
        With a Lipschitz constant on the ball; F is its plain mean.
    epsilon : float > 0
    radius : float > 0
    distance : float >= 0 or None
        ||x_0 - x*||, or an upper bound. None: from the certified optimum on the ball, which is then checked to be one on a
        ball twice as large.
    x0 : (d,), default 0
        For distance=None.
    rounds : 'fewest', 'printed' or int
        K_min (the least K that the repaired Theorem 1, or with local_training='exact-prox' its bound, calls enough), the
        printed ceil(6 G sqrt(2 D~)/epsilon), or a number.
    lipschitz : float, default ``problem.lipschitz_rms(radius)``
    options : further fields of `FedMLS`

    Raises
    ------
    InvalidInput
        epsilon <= 0; a ball too small for x_0, or for every minimiser.
    MissingCapability
        A problem without a Lipschitz constant.
    """
    check_problem(problem)
    require(finite(epsilon) and epsilon > 0, "epsilon", epsilon, "the accuracy must be a finite number > 0")
    real = finite(radius) or unbounded(radius)
    require(real and radius > 0, "radius", radius, "the ball's radius R must be > 0")
    G = problem.lipschitz_rms(float(radius)) if lipschitz is None else lipschitz
    if distance is None:
        distance = _distance(problem, radius, x0)
    require(finite(distance) and distance >= 0, "distance", distance, "||x_0 - x*|| must be a finite number >= 0")
    if distance == 0:  # D~ > 0 is needed; from an optimum any will do
        distance = exact_number(epsilon) / exact_number(G)
    if rounds == "fewest":
        rounds = fewest_rounds(epsilon, G, distance, 16 if options.get("local_training") == "exact-prox" else 36)
    elif rounds == "printed":
        rounds = printed_rounds(epsilon, G, distance)
    lam: Any = exact_number(epsilon) / exact_number(G) ** 2
    D: Any = exact_number(distance) ** 2
    if not all(isinstance(v, Rational) for v in (epsilon, G, distance)):  # floats in, floats out
        lam, D = float(lam), float(D)
    return FedMLS(lam, D, rounds, radius, G, sigma, **options)


def _distance(problem: Problem, radius: float, x0: Any) -> float:
    """||x_0 - x*|| with the certified optimum on the ball, which must be an optimum of a ball twice as large."""
    start = np.zeros(problem.dim) if x0 is None else real_array("x0", x0)
    if start.shape != (problem.dim,):
        raise InvalidInput(f"x0 has shape {start.shape}: expected ({problem.dim},)")
    size = float(np.linalg.norm(start))
    if size > radius:
        raise InvalidInput(f"||x_0|| = {size:.6g} is outside the ball of radius R = {radius:.6g}: enlarge the radius")
    optimum = problem.optimum_on_ball(radius)
    if math.isfinite(radius):
        wider = problem.optimum_on_ball(2 * radius)
        if wider.value < optimum.lower_bound - 1e-9 * max(1.0, abs(optimum.value)):
            raise InvalidInput(
                f"radius = {radius:.6g}: the ball holds no minimiser: F reaches {wider.value:.6g} at ||x|| = "
                f"{float(np.linalg.norm(wider.x)):.6g}, and only {optimum.value:.6g} inside: enlarge the radius"
            )
    return float(np.linalg.norm(start - optimum.x))
