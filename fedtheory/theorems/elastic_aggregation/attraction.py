"""Whether a zero of the mean motion attracts the method, in mean and in mean square, in fractions.

Near a zero theta_infinity a round with cohort C takes e = theta - theta_infinity to A_C e + eta zeta_C Delta_C, up to terms of second
order, with A_C = I + eta J_C and J_C the derivative of zeta_C Delta_C there. The mean of e is multiplied by A = E A_C, and its second
moments by X -> E[A_C X A_C'], whose eigenvalues are those of E[A_C (x) A_C]. That all of them lie inside the unit circle is decided
without computing one: by the solution of a linear system, Lyapunov's equation, and whether it is positive definite.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from fedtheory.errors import InvalidInput
from fedtheory.theorems.elastic_aggregation.exact import sampled_view_of
from fedtheory.theorems.elastic_aggregation.mean_motion import semidefinite, solve
from fedtheory.theorems.elastic_aggregation.notation import BUILDERS
from fedtheory.theorems.elastic_aggregation.quantities import SMOOTH, SampledView, diagonal
from fedtheory.verification.rational import objects

__all__ = ["ATTRACTS", "PLAIN", "STABLE_STEP", "LinearisedView", "contracts", "linearised_view", "lyapunov"]

ATTRACTS = "small steps lead to it"
PLAIN = "diagonal Hessians and Gram matrices, and no theta_i = 0"
STABLE_STEP = "eta (1 + tau) L < 2 in every cohort"


def lyapunov(operator: Callable[[np.ndarray], np.ndarray], d: int) -> np.ndarray | None:
    """The symmetric X (d, d) with operator(X) = I, for a linear operator on symmetric matrices; None where there is not exactly one."""
    pairs = [(i, j) for i in range(d) for j in range(i + 1)]

    def unit(i: int, j: int) -> np.ndarray:
        return objects([[Fraction(int((r, c) in ((i, j), (j, i)))) for c in range(d)] for r in range(d)])

    columns = [operator(unit(i, j)) for i, j in pairs]
    rows = objects([[column[i, j] for column in columns] for i, j in pairs])
    try:
        found = solve(rows, objects([Fraction(int(i == j)) for i, j in pairs]))
    except InvalidInput:
        return None
    return sum(x * unit(i, j) for x, (i, j) in zip(found, pairs, strict=True))


def _from_floats(maps: Sequence[np.ndarray]) -> np.ndarray | None:
    """A symmetric X (d, d) of short fractions near the solution of X - mean A' X A = I; None where floats find none."""
    floats, d = [A.astype(float) for A in maps], len(maps[0])
    system = np.eye(d * d) - sum(np.kron(A.T, A.T) for A in floats) / len(floats)
    try:
        X = np.linalg.solve(system, np.eye(d).ravel()).reshape(d, d)
    except np.linalg.LinAlgError:
        return None
    if not np.isfinite(X).all() or abs(X).max() > 1e12:
        return None
    return objects([[Fraction(round(float(X[i, j] + X[j, i]) * 2**19), 2**20) for j in range(d)] for i in range(d)])


def contracts(maps: Sequence[np.ndarray]) -> bool:
    """Whether the spectral radius of X -> mean of A' X A over the maps A (d, d) is below 1: of one map, its own is.

    The operator keeps the cone of positive semidefinite matrices. So its spectral radius is below 1 exactly where X - mean A' X A = I
    has one solution and that is positive semidefinite: then it is the sum of the operator's powers at I. Any X >= 0 with
    X - mean A' X A >= I/2 shows it, too: one from floats, checked in fractions, spares solving in fractions of many digits.
    """
    guess = _from_floats(maps)
    if guess is not None:
        moved = guess - sum(A.T @ guess @ A for A in maps) / Fraction(len(maps))
        half = objects([[Fraction(int(i == j), 2) for j in range(len(guess))] for i in range(len(guess))])
        if semidefinite(guess) and semidefinite(moved - half):
            return True
    X = lyapunov(lambda X: X - sum(A.T @ X @ A for A in maps) / Fraction(len(maps)), len(maps[0]))
    return X is not None and semidefinite(X)


@dataclass
class LinearisedView(SampledView):
    """A zero of the mean motion with what a round does near it; eta is the server's step."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, here in (
            (ATTRACTS, SMOOTH in self.facts and self.X is not None),
            (PLAIN, self.diagonal and diagonal(self.S) and all(self.theta != 0)),
            (STABLE_STEP, self.eta * (1 + self.tau) * self.L < 2),
        ):
            self.facts |= {name} if here else set()

    @cached_property
    def cohort_M(self) -> list[np.ndarray]:
        """M_C = sum_k w_k M_k (d, d) of every cohort."""
        return [(w[:, None, None] * self.M).sum(axis=0) for w, _ in self.cohorts]

    @property
    def L(self) -> Any:
        """At least the largest eigenvalue of every M_C (Gershgorin); exactly that where they are diagonal."""
        return max(abs(M).sum(axis=1).max() for M in self.cohort_M)

    @cached_property
    def cohort_J(self) -> list[np.ndarray]:
        """J_C (d, d) of every cohort; their mean is J."""
        updates = self.updates(self.theta)
        return [
            -z[:, None] * M - (w[:, None] * updates).sum(axis=0)[:, None] * slope
            for (w, z), M, (_, slope) in zip(self.cohorts, self.cohort_M, self.slopes or [], strict=True)
        ]

    @property
    def one(self) -> np.ndarray:
        return objects(np.eye(len(self.theta), dtype=int).tolist()) * Fraction(1)

    def in_mean(self, eta: Any) -> bool:
        """Whether the spectral radius of I + eta J is below 1."""
        return contracts([self.one + eta * self.J])

    def in_mean_square(self, eta: Any) -> bool:
        """Whether that of E[A_C (x) A_C] is."""
        return contracts([self.one + eta * J for J in self.cohort_J])

    @cached_property
    def X(self) -> np.ndarray | None:
        """X > 0 (d, d) with J' X + X J = -I: there is one exactly where all eigenvalues of J have negative real parts."""
        found = lyapunov(lambda X: -(self.J.T @ X + X @ self.J), len(self.theta))
        return found if found is not None and semidefinite(found) else None

    @property
    def longest(self) -> Any:
        """1/tr E[J_C' X J_C]."""
        J = self.cohort_J
        return Fraction(len(J)) / sum((A.T @ self.X @ A).trace() for A in J)

    @property
    def q(self) -> np.ndarray:
        """q_ij (d, d): E[Delta^i Omega^i/Omega'; j is the most sensitive]/theta_i, 0 where j = i; for diagonal S_k, no theta_i = 0."""
        updates, d = self.updates(self.theta), len(self.theta)
        total = objects([[Fraction(0)] * d for _ in range(d)])
        for (w, z), (a, _) in zip(self.cohorts, self.slopes or [], strict=True):
            part = (w[:, None] * updates).sum(axis=0) * (1 + self.tau - z) / self.theta
            part[a] = Fraction(0)
            total[:, a] += part
        return total / Fraction(len(self.cohorts))

    def dominated(self, share: Any) -> bool:
        """A_i > share sum_j max(0, -q_ij) for all i."""
        nothing: Any = Fraction(0)
        against = np.where(self.q < 0, -self.q, nothing).sum(axis=1)
        return all(a > share * b for a, b in zip(self.pull, against, strict=True))

    def second_moment(self, distance: Any) -> Any:
        """E (theta+ - theta_infinity)^2 of a round from theta_infinity - distance or + distance, with equal chances; one parameter."""
        total = Fraction(0)
        for at in (self.theta - distance, self.theta + distance):
            omegas, updates = self.sensitivities(at), self.updates(at)
            for w, _ in self.cohorts:
                omega = (w[:, None] * omegas).sum(axis=0)
                zeta = 1 + self.tau - omega / omega.max()
                after = at + self.eta * zeta * (w[:, None] * updates).sum(axis=0)
                total += (after[0] - self.theta[0]) ** 2
        return total / (2 * len(self.cohorts))

    @property
    def m(self) -> np.ndarray:
        """m_C of every cohort, for one parameter."""
        return objects([M[0, 0] for M in self.cohort_M])

    @property
    def mean_square_update(self) -> Any:
        """E Delta_C^2 at the zero, for one parameter."""
        updates = self.updates(self.theta)
        return self.expect(lambda w, z: (w[:, None] * updates).sum(axis=0)[0] ** 2)


@BUILDERS.add("linearised")
def linearised_view(data: dict[str, Any]) -> LinearisedView:
    """From the data of a sampled view, with eta."""
    return sampled_view_of(LinearisedView, data)
