"""Elastic Aggregation worked out on tiny instances, continued: attraction, the poster's words, and
samples with labels.

With lists and `fractions.Fraction` only; nothing is shared with the library. That a spectral radius
is below 1 is decided here by the characteristic polynomial's coefficients (Jury's conditions, and
Routh and Hurwitz's for the sign of real parts), while the library solves Lyapunov's equation.
Worked for two parameters at most.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from worked_elastic_aggregation import (
    INSTANCES,
    KINDS,
    Clients,
    Cohorts,
    Matrix,
    Vector,
    det,
    dot,
    minus,
    numbers,
    times,
    weighted,
    weighted_matrices,
)

__all__ = ["Labelled", "Near"]

_MIRROR = {
    "counts": ["1", "1"], "H": [["1", "1"], ["1", "1"]], "S": [["1", "1/2"], ["1/2", "1"]], "c": [["-5", "4"]], "theta": ["1", "1"],
    "tau": "1/2", "eta": "1", "lr": "1", "E": 1, "P": 1,
}  # fmt: skip
_LINE = {
    "counts": ["1", "2"], "H": [["1"], ["1/2"]], "S": [["1"], ["3"]], "c": [["2"]], "theta": ["1"], "tau": "1/2", "eta": "3/4",
    "lr": "1", "E": 2, "P": 1,
}  # fmt: skip
_LABELS = {
    "held": [[["1", "2"], ["3", "-1"]], [["1", "1"]]], "held_labels": [["1", "0"], ["2"]],
    "train": [[["1", "0"], ["1", "1"]], [["0", "2"]]], "labels": [["1", "2"], ["3"]], "others": [["-1", "0"], ["1"]],
    "counts": ["2", "1"], "theta": ["1", "1/2"], "tau": "1/2", "eta": "1", "lr": "1/4", "E": 2,
}  # fmt: skip
INSTANCES |= {
    "mirror": ("linearised", _MIRROR),  # outside the unit circle by (1 + tau) L eta < 2
    "mirror, squares": ("linearised", {**_MIRROR, "S": [["1", "1/4"], ["1/4", "1"]], "c": [["-9", "5"]]}),
    "mirror, repels": ("linearised", {**_MIRROR, "c": [["9", "-3"]]}),
    "cohorts, step": ("linearised", {**INSTANCES["cohorts"][1], "eta": "3/4"}),
    "all, step": ("linearised", {**INSTANCES["all"][1], "eta": "1"}),
    "line": ("linearised", _LINE),
    "labels": ("labels", _LABELS),
}


def trace(A: Matrix) -> Fraction:
    return sum((A[i][i] for i in range(len(A))), Fraction(0))


def product(A: Matrix, B: Matrix) -> Matrix:
    return [[dot(row, [b[j] for b in B]) for j in range(len(B[0]))] for row in A]


def polynomial(A: Matrix) -> Vector:
    """1, a_1, ..., a_n of det(x I - A) = x^n + a_1 x^(n-1) + ..., by Faddeev and LeVerrier."""
    n, power, found = len(A), [[Fraction(i == j) for j in range(len(A))] for i in range(len(A))], [Fraction(1)]
    for k in range(1, n + 1):
        moved = product(A, power)
        found.append(-trace(moved) / k)
        power = [[moved[i][j] + found[-1] * (i == j) for j in range(n)] for i in range(n)]
    return found


def inside(A: Matrix) -> bool:
    """Return whether all eigenvalues lie inside the unit circle, by Schur and Cohn's recursion.

    The recursion is on the characteristic polynomial.
    """
    p = polynomial(A)
    while len(p) > 1:
        if abs(p[-1]) >= abs(p[0]):
            return False
        p = [p[0] * a - p[-1] * b for a, b in zip(p[:-1], p[:0:-1], strict=True)]
    return True


def kronecker(A: Matrix) -> Matrix:
    d = range(len(A))
    return [[A[i][j] * A[k][m] for j in d for m in d] for i in d for k in d]


class Near(Cohorts):
    """A round near a zero of the mean motion."""

    def __init__(self, data: dict[str, Any]) -> None:
        super().__init__(data)
        d, every = range(self.d), range(len(self.cohorts))
        self.Js = [[[-self.minus_slope(n, i, j) for j in d] for i in d] for n in every]
        self.J = [[self.mean([J[i][j] for J in self.Js]) for j in d] for i in d]
        self.Mc = [weighted_matrices(self.weights(C), [self.Ms[k] for k in C]) for C in self.cohorts]
        self.L = max(sum(abs(v) for v in row) for M in self.Mc for row in M)

    def one_plus(self, eta: Fraction, J: Matrix) -> Matrix:
        return [[Fraction(i == j) + eta * J[i][j] for j in range(self.d)] for i in range(self.d)]

    def in_mean(self, eta: Fraction) -> int:
        return int(inside(self.one_plus(eta, self.J)))

    def in_square(self, eta: Fraction) -> int:
        squares = [kronecker(self.one_plus(eta, J)) for J in self.Js]
        n = range(len(squares[0]))
        return int(inside([[self.mean([A[i][j] for A in squares]) for j in n] for i in n]))

    def falls(self) -> int:
        """Re lambda < 0 for both eigenvalues of J: trace < 0 < determinant."""
        return int(trace(self.J) < 0 < det(self.J)) if self.d == 2 else int(self.J[0][0] < 0)

    def limit(self) -> Fraction:
        """1/tr E[J_C' X J_C], J'X + XJ = -I: X = -(det J I + adj(J)' adj(J))/(2 tr J det J) for two
        parameters, -1/(2J) for one."""
        if self.d == 1:
            return -2 * self.J[0][0] / self.mean([J[0][0] ** 2 for J in self.Js])
        (a, b), (c, d) = self.J
        adj, size, middle = [[d, -b], [-c, a]], det(self.J), 2 * trace(self.J) * det(self.J)
        square = product([list(r) for r in zip(*adj, strict=True)], adj)
        X = [[-(size * (i == j) + square[i][j]) / middle for j in range(2)] for i in range(2)]
        parts = [trace(product(product([list(r) for r in zip(*J, strict=True)], X), J)) for J in self.Js]
        return 1 / self.mean(parts)

    def q_from(self, i: int, j: int) -> Fraction:
        """E[Delta^i Omega^i/Omega'; j is the most sensitive]/theta_i."""
        total = []
        for C, Delta in zip(self.cohorts, self.Deltas, strict=True):
            O = self.Omega(C, self.theta)
            total.append(Delta[i] * O[i] / max(O) if i != j and O[j] == max(O) else Fraction(0))
        return self.mean(total) / self.theta[i]

    def m(self) -> Vector:
        return [M[0][0] for M in self.Mc]


class Labelled:
    """Samples with labels: F(theta; a) = a' theta, the loss (a' theta - y)^2/2, and Algorithm 1
    sample by sample."""

    def __init__(self, data: dict[str, Any]) -> None:
        for name in ("held", "held_labels", "train", "labels", "others", "theta"):
            setattr(self, name, numbers(data[name]))
        n = numbers(data["counts"])
        self.w = [v / sum(n) for v in n]
        self.tau, self.eta, self.lr = (Fraction(data[k]) for k in ("tau", "eta", "lr"))
        self.E, self.d = data["E"], len(data["theta"])

    def Omega(self, x: Vector) -> list[Vector]:
        """|mean of 2 F a| of every client."""
        out = []
        for rows in self.held:
            terms = [[2 * dot(a, x) * v for v in a] for a in rows]
            out.append([abs(sum(t[i] for t in terms)) / len(rows) for i in range(self.d)])
        return out

    def of_gram(self, x: Vector) -> list[Vector]:
        """|2 S x|, S_ij the mean of a_i a_j."""
        d, out = range(self.d), []
        for rows in self.held:
            S = [[sum(a[i] * a[j] for a in rows) / len(rows) for j in d] for i in d]
            out.append([abs(2 * v) for v in times(S, x)])
        return out

    def loss(self, x: Vector) -> Vector:
        """|sum_k w_k grad of the mean of (a' x - y)^2|."""
        parts = []
        for rows, ys in zip(self.held, self.held_labels, strict=True):
            terms = [[2 * (dot(a, x) - y) * v for v in a] for a, y in zip(rows, ys, strict=True)]
            parts.append([sum(t[i] for t in terms) / len(rows) for i in range(self.d)])
        return [abs(v) for v in weighted(self.w, parts)]

    def after(self, labels: list[Vector]) -> Vector:
        deltas = []
        for rows, ys in zip(self.train, labels, strict=True):
            x = self.theta
            for _ in range(self.E):
                terms = [[(dot(a, x) - y) * v for v in a] for a, y in zip(rows, ys, strict=True)]
                x = [v - self.lr * sum(t[i] for t in terms) / len(rows) for i, v in enumerate(x)]
            deltas.append(minus(x, self.theta))
        Omega = weighted(self.w, self.Omega(self.theta))
        zeta = [1 + self.tau - o / max(Omega) for o in Omega]
        return [x + self.eta * z * v for x, z, v in zip(self.theta, zeta, weighted(self.w, deltas), strict=True)]


KINDS |= {"linearised": Near, "labels": Labelled}


def squared_distance(w: Near, start: Fraction, C: tuple[int, ...]) -> Fraction:
    """(theta+ - theta_infinity)^2 of a round of this cohort from there, for one parameter."""
    clients: Clients = w
    zeta, Delta = clients.zeta(C, [start])[0], clients.Delta(C, [start])[0]
    return (start + clients.eta * zeta * Delta - w.theta[0]) ** 2
