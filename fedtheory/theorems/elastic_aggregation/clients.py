"""Rounds of Elastic Aggregation in fractions, with quadratic clients.

Clients f_k(x) = (x - c_k)' H_k (x - c_k)/2 make E gradient steps of length lr, so that
Delta_k = -M_k (theta - c_k) with M_k = I - (I - lr H_k)^E. The sensitivity of a linear model on one
batch with Gram matrix S_k is Omega_k = |2 S_k theta|. The rounds are those of `ElasticAggregation`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, lru_cache
from types import SimpleNamespace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from fedtheory.algorithms import ElasticAggregation
from fedtheory.algorithms.base import aggregate
from fedtheory.errors import InvalidInput, MissingCapability
from fedtheory.local.objective import LocalObjective, LocalResult
from fedtheory.participation.cohorts import Cohort
from fedtheory.problems.linear import LeastSquares
from fedtheory.rational import in_fractions, table, to_file, vector
from fedtheory.theorems.elastic_aggregation import drawn, of_a_problem
from fedtheory.theorems.elastic_aggregation.letters import ROUND
from fedtheory.theory import Draws, Fact, derived, number, whole
from fedtheory.theory.fields import Read
from fedtheory.theory.rounds.linear_algebra import identity, product, semidefinite, solve
from fedtheory.theory.rounds.rational_clients import SlotClients, SlotWork

SENSITIVE = Fact("some sensitivity", lambda q: q.omega(q.theta).max() > 0)
TAU, TAU_0 = Fact("tau > 0", lambda q: q.tau > 0), Fact("tau = 0", lambda q: q.tau == 0)
FIXED = Fact("some sensitivity at the fixed point", lambda q: q.sensitive_at_end)
DIAGONAL = Fact("diagonal Hessians", lambda q: q.diagonal)
SMALL = Fact("eta (1 + tau) L < 2", lambda q: q.eta * (1 + q.tau) * q.L < 2)
SHORT = Fact("eta (1 + tau) L <= 1", lambda q: q.eta * (1 + q.tau) * q.L <= 1)
NAIVE_STABLE = Fact("a step that naive aggregation stands, eta L < 2", lambda q: q.eta * q.L < 2)
INSENSITIVE = Fact(
    "slow coordinates of little sensitivity, and sensitive ones fast", lambda q: q.slow_insensitive
)
ONE = Fact("one parameter a layer", lambda q: len(q.theta) == 1)
ONE_STEP = Fact("one local step", lambda q: q.E == 1)


def diagonal(matrices: np.ndarray) -> bool:
    """True if all of (N, d, d) are diagonal."""
    return not (matrices * (1 - np.eye(matrices.shape[-1], dtype=int))).any()


def ratios(omega: np.ndarray) -> np.ndarray:
    """Omega/Omega' of sensitivities Omega (d,) with Omega' > 0."""
    return omega / omega.max()


@lru_cache(typed=True)  # of floats another method than of equal fractions
def elastic(tau: Any, eta: Any, sign: str = "repaired") -> ElasticAggregation:
    """The method with its numbers as fractions, or as floats where tau is one."""
    made = ElasticAggregation(float(tau), server_lr=float(eta), sign=sign)  # type: ignore[arg-type]
    return made if isinstance(tau, float) else in_fractions(made, {"tau": tau, "server_lr": eta})


class QuadraticLosses(NamedTuple):
    """Losses y' H y/2 - b' y of clients or slots, H (..., d, d) and b (..., d)."""

    H: Any
    b: Any

    def take(self, index: Any) -> QuadraticLosses:
        """The rows with these numbers."""
        return QuadraticLosses(self.H[index], self.b[index])

    def gradient(self, y: Any) -> Any:
        """The gradients at y, (..., d) -> (..., d)."""
        return (self.H @ y[..., None])[..., 0] - self.b


class Reach(NamedTuple):
    """The E local steps of clients or slots as one affine map: M (..., d, d), c (..., d)."""

    M: Any
    c: Any

    def take(self, index: Any) -> Reach:
        """The rows with these numbers."""
        return Reach(self.M[index], self.c[index])


class AllSteps(SlotWork):
    """The local work of `Reach`: y - M (y - c), in one product where E steps take E."""

    def run(self, pieces: Any, objective: LocalObjective, start: Any) -> LocalResult:
        """On arrays (C, P, d), of the loss alone."""
        if objective.linear is not None or objective.l1 or np.any(objective.curvature):
            raise MissingCapability("the local steps are those of the loss alone")
        return LocalResult(start - (pieces.M @ (start - pieces.c)[..., None])[..., 0])


class ModelClients(SlotClients):
    """One round's clients of quadratic losses, with a linear model whose output is measured.

    Parameters
    ----------
    losses : QuadraticLosses, or Reach, of all clients
    S : (N, d, d) Gram matrices of B_k
    counts : (N,) samples, which weigh the clients
    members : (C, P) the cohorts, as scenarios
    """

    def __init__(
        self, losses: QuadraticLosses | Reach, S: Any, counts: Any, members: Any, work: SlotWork
    ) -> None:
        own: Any = SimpleNamespace(pieces=losses, weights=counts / counts.sum())
        super().__init__(own, Cohort(len(counts), members=members), work, losses[1][:1])
        self.S = S[members]

    @property
    def problem(self) -> Any:  # type: ignore[override]
        """The model, which is one layer."""
        return SimpleNamespace(layers=lambda kind: [slice(0, self.S.shape[-1])])

    def sensitivity(self, y: Any, batch_size: Any, mu: Any, ema: Any) -> Any:
        """|2 S_k y| of every slot, (C, P, d) -> (C, P, d)."""
        return abs(2 * (self.S @ y[..., None])[..., 0])


def read_matrices(name: str, values: Any, before: Mapping[str, Any]) -> np.ndarray:
    """Symmetric semidefinite matrices (N, d, d), where a row of d numbers stands for a diagonal."""
    if not isinstance(values, list) or not values:
        raise InvalidInput(f"{name} = {values!r}: expected one matrix a client")
    d, out = len(before["theta"]), []
    for k, rows in enumerate(values):
        at = f"{name}[{k}]"
        full = isinstance(rows, list) and rows and isinstance(rows[0], list)
        m = table(rows, at) if full else np.diag(vector(rows, at)) + Fraction(0)
        if m.shape != (d, d) or (m != m.T).any() or np.diagonal(m).min() < 0:
            raise InvalidInput(
                f"{at}: expected a symmetric ({d}, {d}) matrix, or its diagonal of numbers >= 0"
            )
        if not semidefinite(m):
            raise InvalidInput(
                f"{at} = {to_file(m)} is not positive semidefinite, as Hessians of convex clients "
                "and Gram matrices are; of one sample a the Gram matrix has the entries a_i a_j"
            )
        out.append(m)
    return np.stack(out)


MATRICES = {"read": Read(read_matrices, "matrices of the clients", ("N", "d", "d"))}


@dataclass(kw_only=True)
class ElasticWorld(of_a_problem.ModelWorld):
    """Clients with their weights, the server's model, and the numbers of the method."""

    shows: ClassVar = {"tau": "tau", "eta": "eta", "theta": "theta"}
    takes: ClassVar[tuple[str, ...]] = ("local_steps", "local_lr")

    theta: np.ndarray = number("d", "the server's model")
    counts: np.ndarray = number("N", "samples that weigh the clients", above=0)
    tau: Any = number(least=0)
    eta: Any = number(what="the server's step", above=0, default=Fraction(1))
    lr: Any = number(what="the clients' step", above=0)
    E: int = whole(1, 20, "local steps")

    everyone = derived(lambda q: np.arange(len(q.counts))[None], "The cohort of all clients (1, N)")
    w = derived(lambda q: q.counts / q.counts.sum(), "n_k/n (N,)")


@dataclass(kw_only=True)
class QuadraticClients(ElasticWorld):
    """N clients in d dimensions: Hessians H, minimisers c, Gram matrices S of held-out samples."""

    H: np.ndarray = field(metadata=MATRICES)
    S: np.ndarray = field(metadata=MATRICES)
    c: np.ndarray = number("N d", "minimisers")

    # --- the method -------------------------------------------------------------------------------
    def clients(self, members: np.ndarray) -> ModelClients:
        """The clients of a round with these cohorts (C, P)."""
        return ModelClients(Reach(self.M, self.c), self.S, self.counts, members, AllSteps())

    def after(
        self, x: np.ndarray, members: np.ndarray, sign: int = 1, clients: ModelClients | None = None
    ) -> np.ndarray:
        """The server's models (C, d) after a round from x (d,) with each of the cohorts.

        clients : those of the cohorts, as `clients` gives them, where there are any already
        """
        method = elastic(self.tau, self.eta, "repaired" if sign == 1 else "printed")
        start = method.init(np.repeat(x[None], len(members), axis=0), len(self.counts))
        return method.round(start, clients or self.clients(members)).x

    def zetas(self, x: np.ndarray, members: np.ndarray) -> np.ndarray:
        """zeta (C, d) of the cohorts, 1 where one sees no sensitivity."""
        clients, models = self.clients(members), np.repeat(x[None, None], members.shape[1], axis=1)
        omega = clients.sensitivity(models, None, 0, "corrected")
        return elastic(self.tau, self.eta).zeta(aggregate(clients, omega, "samples"), clients)

    # --- letters ----------------------------------------------------------------------------------
    diagonal = derived(lambda q: diagonal(q.H), "True if all Hessians are diagonal")

    @cached_property
    def M(self) -> np.ndarray:
        """Symmetric M_k (N, d, d): E local steps take M_k (x - c_k) off the distance to c_k."""
        one = identity(len(self.theta), self.H.dtype)
        step = one - self.lr * self.H
        left = np.broadcast_to(one, step.shape)
        for _ in range(self.E):
            left = np.stack([product(*of) for of in zip(left, step, strict=True)])
        return one - left

    def updates(self, x: np.ndarray) -> np.ndarray:
        """Delta_k (N, d)."""
        return -(self.M @ (x - self.c)[..., None])[..., 0]

    def sensitivities(self, x: np.ndarray) -> np.ndarray:
        """Omega_k (N, d)."""
        return abs(2 * (self.S @ x))

    def balance(self, matrices: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """An x with sum_k weights_k matrices_k (x - c_k) = 0, weights (N, 1, 1).

        There is one, as the matrices are semidefinite. Where their mean is singular it is one of
        many, which differ in directions that no client has a gradient in.
        """
        A = weights * matrices
        return solve(A.sum(axis=0), (A @ self.c[..., None])[..., 0].sum(axis=0), one_of_many=True)

    star = derived(lambda q: q.balance(q.H, q.w[:, None, None]), "The optimum of sum_k w_k f_k")

    def losses(self, x: np.ndarray) -> np.ndarray:
        """f_k(x) (N,)."""
        gaps = x - self.c
        return (gaps * (self.H @ gaps[..., None])[..., 0]).sum(axis=1) / 2

    def value(self, x: np.ndarray) -> Any:
        """F(x)."""
        return (self.w * self.losses(x)).sum()

    @classmethod
    def made(cls, *args: Any, **values: Any) -> Self:
        """Make an instance whose clients' steps are no longer than 1/L."""
        lr = values["lr"]
        for k, h in enumerate(values["H"]):
            if not semidefinite(identity(len(h)) / lr - h):
                raise InvalidInput(
                    f"lr = {lr}: it must be no more than 1/L of every client, "
                    f"which it is not for H[{k}] = {to_file(h)}"
                )
        return cls(**values)


@dataclass(kw_only=True)
class Aggregation(QuadraticClients):
    """One round from theta in which all clients take part."""

    kind, family = "aggregation", "elastic aggregation, aggregation"
    letters = ROUND
    about = "about one round of Elastic Aggregation in which all clients take part"
    asks = (
        of_a_problem.MODEL, "least squares, but of statements about zeta alone",
        of_a_problem.ONE_BATCH,
    )
    example = "--problem axes --clients 3 --held-out 0.3 --start 1"

    sensitive_at_end = derived(
        lambda q: q.diagonal and q.mu > 0 and q.tau > 0 and q.omega(q.fedavg).max() > 0,
        "True for diagonal Hessians, mu > 0 and tau > 0 if Omega > 0 at FedAvg's fixed point",
    )

    @property
    def slow_insensitive(self) -> bool:
        """True if also there Omega_i <= tau Omega' wherever tau m_i < mu."""
        if not self.sensitive_at_end:
            return False
        omega = self.omega(self.fedavg)
        return ((omega <= self.tau * omega.max()) | (self.tau * self.m >= self.mu)).all()

    def omega(self, x: np.ndarray) -> np.ndarray:
        """Omega (d,)."""
        return self.w @ self.sensitivities(x)

    def zeta(self, x: np.ndarray) -> np.ndarray:
        """zeta (d,), 1 where nothing is sensitive."""
        known, at = self.__dict__.setdefault("zeta_at", {}), tuple(x)
        if at not in known:
            known[at] = self.zetas(x, self.everyone)[0]
        return known[at]

    def delta(self, x: np.ndarray) -> np.ndarray:
        """sum_k w_k Delta_k (d,)."""
        return self.w @ self.updates(x)

    def step(self, x: np.ndarray, sign: int = 1) -> np.ndarray:
        """The server's model after a round."""
        return self.after(x, self.everyone, sign)[0]

    def naive(self, x: np.ndarray) -> np.ndarray:
        """The server's model after a round with zeta = 1."""
        return x + self.eta * self.delta(x)

    mean = derived(lambda q: np.tensordot(q.w, q.M, 1), "M = sum_k w_k M_k")
    m = derived(lambda q: np.diagonal(q.mean).copy(), "The diagonal of M")
    L = derived(
        lambda q: abs(q.mean).sum(axis=1).max(),
        "At least M's largest eigenvalue (Gershgorin), and exactly that where M is diagonal",
    )
    mu = derived(lambda q: min(q.m), "M's least eigenvalue, for diagonal Hessians")
    fedavg = derived(lambda q: q.balance(q.M, q.w[:, None, None]), "FedAvg's fixed point")

    def V(self, x: np.ndarray) -> Any:
        """(x - theta_avg)' M (x - theta_avg)/2."""
        e = x - self.fedavg
        return (e @ self.mean @ e) / 2

    def factor(self, zeta: Any) -> Any:
        """The factor of the contraction near the fixed point, max_i |1 - eta zeta_i m_i|."""
        return max(abs(1 - self.eta * zeta * self.m))

    # --- instances --------------------------------------------------------------------------------
    @classmethod
    def on_problem(cls, statement: str, case: Any) -> dict[str, Any]:
        """Give the data of one round from x0.

        In statements about zeta alone the losses play no part. There every client is given the
        curvature 1 and the minimiser theta, which no such form looks at.
        """
        of_a_problem.check_everyone(case)
        data, n = of_a_problem.sensitive(case), case.problem.num_clients
        of_zeta = statement.rpartition("/")[2] in ("factors", "zero-sensitivity")
        if not of_zeta or isinstance(case.problem, LeastSquares):
            return data | of_a_problem.quadratics(case)
        H, c = [[Fraction(1)] * case.problem.dim] * n, [data["theta"]] * n
        return data | {"H": H, "c": c, "lr": Fraction(1), "E": 1}


# --- random instances -----------------------------------------------------------------------------
def _any_shape(rng: np.random.Generator) -> tuple[str, dict[str, Any]]:
    n, d = int(rng.integers(1, 4)), int(rng.integers(1, 4))
    data = drawn.clients(rng, n, d) | {"c": drawn.rows(rng, n, d)}
    data["eta"] = Fraction(int(rng.integers(1, 17)), int(rng.choice([4, 8, 16])))
    shape = rng.integers(12)
    if shape == 0:  # a dead layer, where zeta = 1 may be less than tau
        data["theta"] = [Fraction(0)] * d
        data["tau"] = data["tau"] * int(rng.choice([1, 4]))
    elif shape == 1:
        data["tau"] = Fraction(0)
    elif shape == 2 and d > 1:  # held-out samples that leave some coordinates alone
        data["S"] = [[Fraction(0), *[drawn.positive(rng)] * (d - 1)]] * n
        data["theta"] = [drawn.signed(rng), *[Fraction(0)] * (d - 1)]
    return f"N={n} d={d}", data


def _of_samples(rng: np.random.Generator) -> tuple[str, dict[str, Any]]:
    """Gram matrices of samples in general position."""
    data = drawn.of_samples(rng, 1)
    n, d = len(data["H"]), len(data["theta"])
    data["eta"] = Fraction(int(rng.integers(1, 9)), 8)
    if rng.random() < 0.4:  # fewer samples than parameters at every client: many fixed points
        data["H"] = [drawn.gram(rng, d, 1) for _ in range(n)]
        data["lr"] = Fraction(1, 2) / (drawn.largest(data["H"]) or 1)
    elif rng.random() < 0.5:  # from the optimum, which several local steps lead away from
        data["theta"] = list(Aggregation.from_data(to_file(data)).star)
    return f"samples N={n} d={d}", data


Aggregation.draws = (
    Draws("elastic aggregation battery aggregation", _any_shape, 160),
    Draws("elastic aggregation battery aggregation, samples", _of_samples, 24),
)
