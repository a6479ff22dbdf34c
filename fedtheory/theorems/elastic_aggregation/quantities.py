"""What the statements about Elastic Aggregation are judged on, in fractions.

Clients f_k(x) = (x - c_k)' H_k (x - c_k)/2 that make E gradient steps of length lr, so that Delta_k = -M_k (theta - c_k) with
M_k = I - (I - lr H_k)^E; a linear model's sensitivity on one batch with Gram matrix S_k is Omega_k = |2 S_k theta|, labels aside.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np

from fedtheory.theorems.elastic_aggregation.mean_motion import ratio_slopes, solve
from fedtheory.verification.rational import objects, text
from fedtheory.verification.setting import ClosedView

__all__ = [
    "ALIKE", "ALIVE", "ALL", "BETWEEN", "DIAGONAL", "EQUAL", "FIXED", "FOLLOWS", "INSENSITIVE", "LOCAL_STEPS", "NAIVE_STABLE", "ONE",
    "ONE_STEP", "PAIR", "SAME_COUNT", "SENSITIVE", "SHORT", "SMALL", "SMOOTH", "TAU", "TAU_0", "TWO", "AggregationView",
    "AverageView", "ClientsView", "SampledView", "client_factors", "cohort_factors", "diagonal",
]  # fmt: skip

SENSITIVE, TAU, TAU_0 = "some sensitivity", "tau > 0", "tau = 0"
FIXED, ALIVE = "some sensitivity at the fixed point", "some sensitivity in every cohort"
DIAGONAL, SMALL, SHORT = "diagonal Hessians", "eta (1 + tau) L < 2", "eta (1 + tau) L <= 1"
NAIVE_STABLE = "a step that naive aggregation stands, eta L < 2"
INSENSITIVE = "slow coordinates of little sensitivity, and sensitive ones fast"
ONE, ALL, EQUAL = "one parameter a layer", "all clients in every round", "as many samples at every client"
ONE_STEP, PAIR = "one local step", "two clients, one a round"
FOLLOWS, BETWEEN = "sensitivity that follows curvature", "sensitivity against curvature, not beyond it"
LOCAL_STEPS, TWO = "several local steps", "two parameters, each sensitive by itself"
SMOOTH = (
    "a derivative of zeta: in every cohort some sensitivity, none that passes 0, "
    "and one coordinate with the largest"
)
SAME_COUNT, ALIKE = "as many batches at every client", "batches that are alike"


def diagonal(matrices: np.ndarray) -> bool:
    """Whether all of (N, d, d) are."""
    return all(m[i, j] == 0 for m in matrices for i in range(len(m)) for j in range(len(m)) if i != j)


def ratios(omega: np.ndarray) -> np.ndarray:
    """Omega/Omega', (d,) -> (d,); Omega' > 0."""
    return omega / omega.max()


@dataclass
class ClientsView(ClosedView):
    """N clients in d dimensions.

    Attributes
    ----------
    counts : (N,) samples n_k
    H, S : (N, d, d) Hessians, and Gram matrices of the held-out samples
    c : (N, d) minimisers
    theta : (d,) the server's model
    tau, eta, lr, E : tau, the server's and the clients' step, local steps
    """

    counts: np.ndarray
    H: np.ndarray
    S: np.ndarray
    c: np.ndarray
    theta: np.ndarray
    tau: Any
    eta: Any
    lr: Any
    E: int

    @property
    def diagonal(self) -> bool:
        return diagonal(self.H)

    @cached_property
    def w(self) -> np.ndarray:
        """n_k/n (N,)."""
        return self.counts / self.counts.sum()

    @cached_property
    def M(self) -> np.ndarray:
        """What E local steps take off the distance to c_k, (N, d, d): they are symmetric."""
        one = objects(np.eye(len(self.theta), dtype=int).tolist()) * Fraction(1)
        out = []
        for H in self.H:
            left, step = one, one - self.lr * H
            for _ in range(self.E):
                left = left @ step
            out.append(one - left)
        return np.stack(out)

    def updates(self, x: np.ndarray) -> np.ndarray:
        """Delta_k (N, d)."""
        return np.stack([-(M @ (x - c)) for M, c in zip(self.M, self.c, strict=True)])

    def sensitivities(self, x: np.ndarray) -> np.ndarray:
        """Omega_k (N, d)."""
        return np.stack([abs(2 * (S @ x)) for S in self.S])

    def balance(self, matrices: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """An x with sum_k weights_k matrices_k (x - c_k) = 0, weights (N, 1, 1): there is one, as the matrices are semidefinite.

        Where their mean is singular it is one of many, which differ in directions that no client has a gradient in.
        """
        A = (weights * matrices).sum(axis=0)
        return solve(A, sum((m @ c for m, c in zip(weights * matrices, self.c, strict=True)), start=0 * self.c[0]), one_of_many=True)

    @cached_property
    def star(self) -> np.ndarray:
        """The optimum of sum_k w_k f_k."""
        return self.balance(self.H, self.w[:, None, None])

    def value(self, x: np.ndarray) -> Any:
        """F(x)."""
        gaps = [(x - c) @ H @ (x - c) for H, c in zip(self.H, self.c, strict=True)]
        return sum(w * g for w, g in zip(self.w, gaps, strict=True)) / 2

    def printed_constants(self) -> dict[str, Any]:
        return {"tau": text(self.tau), "eta": text(self.eta), "theta": [text(v) for v in self.theta]}


@dataclass
class AggregationView(ClientsView):
    """All clients take part; one round from theta."""

    def __post_init__(self) -> None:
        facts = {TAU if self.tau > 0 else TAU_0}
        for name, here in ((SENSITIVE, self.omega(self.theta).max() > 0), (DIAGONAL, self.diagonal), (ONE, len(self.theta) == 1)):
            facts |= {name} if here else set()
        for name, here in (
            (SMALL, self.eta * (1 + self.tau) * self.L < 2),
            (SHORT, self.eta * (1 + self.tau) * self.L <= 1),
            (NAIVE_STABLE, self.eta * self.L < 2),
            (ONE_STEP, self.E == 1),
        ):
            facts |= {name} if here else set()
        if self.diagonal and min(self.m) > 0 and self.tau > 0 and self.omega(self.fedavg).max() > 0:
            facts.add(FIXED)
            r, m = ratios(self.omega(self.fedavg)), self.m
            if all(r[i] <= self.tau or self.tau * m[i] >= min(m) for i in range(len(m))):
                facts.add(INSENSITIVE)
        self.facts = frozenset(facts)

    def omega(self, x: np.ndarray) -> np.ndarray:
        return (self.w[:, None] * self.sensitivities(x)).sum(axis=0)

    def zeta(self, x: np.ndarray) -> np.ndarray:
        """(d,); 1 where nothing is sensitive."""
        omega = self.omega(x)
        return 1 + self.tau - ratios(omega) if omega.max() > 0 else 0 * omega + 1

    def delta(self, x: np.ndarray) -> np.ndarray:
        return (self.w[:, None] * self.updates(x)).sum(axis=0)

    def step(self, x: np.ndarray, sign: int = 1) -> np.ndarray:
        """The server's model after a round."""
        return x + sign * self.eta * self.zeta(x) * self.delta(x)

    def naive(self, x: np.ndarray) -> np.ndarray:
        return x + self.eta * self.delta(x)

    @cached_property
    def mean(self) -> np.ndarray:
        """M = sum_k w_k M_k."""
        return (self.w[:, None, None] * self.M).sum(axis=0)

    @cached_property
    def m(self) -> np.ndarray:
        """Its diagonal."""
        return np.diagonal(self.mean).copy()

    @cached_property
    def L(self) -> Any:
        """At least its largest eigenvalue (Gershgorin); exactly that where it is diagonal."""
        return abs(self.mean).sum(axis=1).max()

    @cached_property
    def mu(self) -> Any:
        """Its least eigenvalue, for diagonal Hessians."""
        return min(self.m)

    @cached_property
    def fedavg(self) -> np.ndarray:
        """FedAvg's fixed point."""
        return self.balance(self.M, self.w[:, None, None])

    def V(self, x: np.ndarray) -> Any:
        """(x - theta_avg)' M (x - theta_avg)/2."""
        e = x - self.fedavg
        return (e @ self.mean @ e) / 2

    def factor(self, zeta: Any) -> Any:
        """Of the contraction near the fixed point: max_i |1 - eta zeta_i m_i|."""
        return max(abs(1 - self.eta * zeta * self.m))


@dataclass
class SampledView(ClientsView):
    """P of the N clients take part, all such cohorts alike; theta is where the mean motion E[zeta * Delta] is 0."""

    P: int

    def __post_init__(self) -> None:
        facts = set()
        n, equal = len(self.counts), len(set(self.counts)) == 1
        for name, here in (
            (ONE, len(self.theta) == 1), (ALL, n == self.P), (EQUAL, equal), (ONE_STEP, self.E == 1), (DIAGONAL, self.diagonal),
            (LOCAL_STEPS, self.E > 1), (SMOOTH, self.slopes is not None), (ALIVE, not self.dead),
            (TWO, len(self.theta) == 2 and self.diagonal and diagonal(self.S) and all(self.theta != 0)),
        ):  # fmt: skip
            facts |= {name} if here else set()
        if n == 2 and self.P == 1 and self.diagonal and equal:
            facts.add(PAIR)
            h, m, v = (np.stack([np.diagonal(a) for a in self.H]), np.stack([np.diagonal(a) for a in self.M]), self.v)
            order = [(0, 1) if h[0][i] >= h[1][i] else (1, 0) for i in range(len(self.theta))]
            if ((h[0] - h[1]) * (v[0] - v[1]) <= 0).all():
                facts.add(FOLLOWS)
            mv = m * v
            if all(v[b][i] <= v[a][i] and mv[a][i] * h[b][i] <= mv[b][i] * h[a][i] for i, (a, b) in enumerate(order)):
                facts.add(BETWEEN)
        self.facts = frozenset(facts)

    @cached_property
    def cohorts(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """For every cohort its weights over all clients (N,), and zeta (d,)."""
        return cohort_factors(self.counts, self.sensitivities(self.theta), self.P, self.tau)

    @property
    def dead(self) -> list[tuple[int, ...]]:
        """The cohorts that see no sensitivity at theta."""
        omega = self.sensitivities(self.theta)
        members = [tuple(k for k in range(len(w)) if w[k]) for w, _ in self.cohorts]
        return [cohort for cohort in members if omega[list(cohort)].max() == 0]

    def expect(self, of: Any) -> Any:
        """Mean of of(weights, zeta) over the cohorts."""
        return sum(of(w, z) for w, z in self.cohorts) / Fraction(len(self.cohorts))

    @cached_property
    def drift(self) -> np.ndarray:
        """E[zeta * Delta] (d,), cohort by cohort."""
        updates = self.updates(self.theta)
        return self.expect(lambda w, z: z * (w[:, None] * updates).sum(axis=0))

    def mean_update(self, x: np.ndarray) -> np.ndarray:
        """E Delta (d,)."""
        updates = self.updates(x)
        return self.expect(lambda w, z: (w[:, None] * updates).sum(axis=0))

    @property
    def mean_abs_update(self) -> np.ndarray:
        """E |Delta| (d,)."""
        updates = self.updates(self.theta)
        return self.expect(lambda w, z: abs((w[:, None] * updates).sum(axis=0)))

    @cached_property
    def slopes(self) -> list[tuple[int, np.ndarray]] | None:
        """`ratio_slopes` of every cohort; None where one of them has none."""
        found = [ratio_slopes(self.S, self.theta, w) for w, _ in self.cohorts]
        return None if any(f is None for f in found) else found  # type: ignore[return-value]

    @cached_property
    def J(self) -> np.ndarray:
        """The derivative (d, d) of the mean motion E[zeta * Delta] in theta."""
        updates, total = self.updates(self.theta), 0 * self.M[0]
        for (w, z), (_, slope) in zip(self.cohorts, self.slopes or [], strict=True):
            mean = (w[:, None, None] * self.M).sum(axis=0)
            total = total - z[:, None] * mean - (w[:, None] * updates).sum(axis=0)[:, None] * slope
        return total / Fraction(len(self.cohorts))

    @cached_property
    def M_mean(self) -> np.ndarray:
        """sum_k u_k M_k (d, d)."""
        return (self.u[:, None, None] * self.M).sum(axis=0)

    @property
    def pull(self) -> np.ndarray:
        """A (d,): what the mean motion loses with theta_i while zeta stays, for diagonal Hessians."""
        return (self.v * np.stack([np.diagonal(M) for M in self.M])).sum(axis=0)

    @property
    def push(self) -> np.ndarray:
        """q (d,): E[Delta^i Omega^i/Omega'; i is not the most sensitive]/theta_i, what it loses with zeta, for diagonal S_k."""
        updates, total = self.updates(self.theta), 0 * self.theta
        for (w, z), (a, _) in zip(self.cohorts, self.slopes or [], strict=True):
            others = objects([Fraction(int(i != a)) for i in range(len(total))])
            total = total + others * (w[:, None] * updates).sum(axis=0) * (1 + self.tau - z) / self.theta
        return total / Fraction(len(self.cohorts))

    @property
    def mean_zeta(self) -> np.ndarray:
        return self.expect(lambda w, z: z)

    @cached_property
    def u(self) -> np.ndarray:
        """What a client counts for in naive aggregation, E w_k (N,)."""
        return self.expect(lambda w, z: w)

    @cached_property
    def v(self) -> np.ndarray:
        """What it counts for here, E[w_k zeta] (N, d)."""
        return client_factors(self.cohorts)

    @cached_property
    def fedavg(self) -> np.ndarray:
        """Where E Delta = 0."""
        return self.balance(self.M, self.u[:, None, None])


@dataclass
class AverageView(ClosedView):
    """Moving averages over the clients' batches.

    Attributes
    ----------
    w : (N,) weights
    batches : N arrays (m_k, d) of |g| > 0 or 0, in the order of the batches
    mu, tau
    """

    w: np.ndarray
    batches: list[np.ndarray]
    mu: Any
    tau: Any

    def __post_init__(self) -> None:
        facts = set()
        if len({len(b) for b in self.batches}) == 1:
            facts.add(SAME_COUNT)
        if all((b == b[0]).all() for b in self.batches):
            facts.add(ALIKE)
        self.facts = frozenset(facts)

    @property
    def factors(self) -> np.ndarray:
        """1 - mu^m of every client (N,)."""
        return objects([1 - self.mu ** len(b) for b in self.batches])

    @cached_property
    def printed(self) -> np.ndarray:
        """Omega_k (N, d), from 0."""
        out = []
        for batches in self.batches:
            omega = 0 * batches[0]
            for g in batches:
                omega = self.mu * omega + (1 - self.mu) * g
            out.append(omega)
        return np.stack(out)

    @property
    def corrected(self) -> np.ndarray:
        return self.printed / self.factors[:, None]

    def zeta(self, omegas: np.ndarray) -> np.ndarray:
        return 1 + self.tau - ratios((self.w[:, None] * omegas).sum(axis=0))

    def printed_constants(self) -> dict[str, Any]:
        return {"mu": text(self.mu), "batches": [len(b) for b in self.batches]}


def cohort_factors(counts: np.ndarray, omegas: np.ndarray, P: int, tau: Any) -> list[tuple[np.ndarray, np.ndarray]]:
    """Weights (N,) and zeta (d,) of every cohort of P clients; zeta is 1 if it sees no sensitivity."""
    out = []
    for members in combinations(range(len(counts)), P):
        there = objects([Fraction(int(k in members)) for k in range(len(counts))])
        w = there * counts
        w = w / w.sum()
        omega = (w[:, None] * omegas).sum(axis=0)
        out.append((w, 1 + tau - ratios(omega) if omega.max() > 0 else 0 * omega + 1))
    return out


def client_factors(cohorts: list[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """E[w_k zeta] (N, d)."""
    return sum(w[:, None] * z[None, :] for w, z in cohorts) / Fraction(len(cohorts))
