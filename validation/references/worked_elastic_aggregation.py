"""Elastic Aggregation's sign, stability and sampled fixed points in fractions, from Algorithm 1.

From the poster's pseudocode, with lists and `fractions.Fraction` only: nothing is shared with the
library. Clients are f_k(x) = (x - c_k)' H_k (x - c_k)/2 with n_k samples and make E gradient steps
of length lr; client k's one batch B_k has the Gram matrix S_k, so that
|g| = |grad |F(theta; x)|^2| = |2 S_k theta|.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations
from typing import Any

from second_writing import Sheet

Vector = list[Fraction]
Matrix = list[Vector]


# --- arithmetic ----------------------------------------------------------------------------------
def numbers(a: Any) -> Any:
    """Nested lists of fractions from nested lists of their texts."""
    return [numbers(x) for x in a] if isinstance(a, list) else Fraction(a)


def matrix(rows: list[Any]) -> Matrix:
    """A matrix; a row of numbers stands for its diagonal."""
    if isinstance(rows[0], list):
        return rows
    return [[v if i == j else Fraction(0) for j in range(len(rows))] for i, v in enumerate(rows)]


def dot(a: Vector, b: Vector) -> Fraction:
    return sum((x * y for x, y in zip(a, b, strict=True)), Fraction(0))


def times(A: Matrix, x: Vector) -> Vector:
    return [dot(row, x) for row in A]


def minus(a: Vector, b: Vector) -> Vector:
    return [x - y for x, y in zip(a, b, strict=True)]


def weighted(weights: Vector, vectors: list[Vector]) -> Vector:
    """sum_k w_k x_k."""
    return [dot(weights, [x[i] for x in vectors]) for i in range(len(vectors[0]))]


def weighted_matrices(weights: Vector, matrices: list[Matrix]) -> Matrix:
    return [weighted(weights, [A[i] for A in matrices]) for i in range(len(matrices[0]))]


def det(A: Matrix) -> Fraction:
    """By expansion along the first row."""
    if len(A) == 1:
        return A[0][0]
    minors = [det([row[:j] + row[j + 1 :] for row in A[1:]]) for j in range(len(A))]
    return sum(((-1) ** j * v * m for j, (v, m) in enumerate(zip(A[0], minors, strict=True))), Fraction(0))


def solve(A: Matrix, b: Vector) -> Vector:
    """A^-1 b by Cramer's rule."""
    n = range(len(b))
    replaced = [[[b[i] if j == k else A[i][j] for j in n] for i in n] for k in n]
    return [det(B) / det(A) for B in replaced]


# --- the method ----------------------------------------------------------------------------------
class Clients:
    """The clients of an instance, and what Algorithm 1 makes of all of them or of one cohort."""

    def __init__(self, data: dict[str, Any]) -> None:
        self.n = numbers(data["counts"])
        self.H = [matrix(h) for h in numbers(data["H"])]
        self.S = [matrix(s) for s in numbers(data["S"])]
        self.c, self.theta = numbers(data["c"]), numbers(data["theta"])
        self.tau, self.eta, self.lr = Fraction(data["tau"]), Fraction(data.get("eta", "1")), Fraction(data["lr"])
        self.E, self.N, self.d = data["E"], len(data["counts"]), len(data["theta"])
        self.all = tuple(range(self.N))

    def local(self, k: int, theta: Vector, c: Vector) -> Vector:
        """Delta_k = theta_k - theta after theta_k <- theta_k - lr H_k (theta_k - c), E times."""
        at = theta
        for _ in range(self.E):
            at = minus(at, [self.lr * g for g in times(self.H[k], minus(at, c))])
        return minus(at, theta)

    def M(self, k: int) -> Matrix:
        """M of Delta_k = -M (theta - c_k): its columns are -Delta_k at the unit vectors, c_k =
        0."""
        units = [[Fraction(i == j) for j in range(self.d)] for i in range(self.d)]
        columns = [self.local(k, e, [Fraction(0)] * self.d) for e in units]
        return [[-columns[j][i] for j in range(self.d)] for i in range(self.d)]

    def weights(self, cohort: tuple[int, ...]) -> Vector:
        """w_k = n_k/sum n over the cohort, for its members in order."""
        total = sum(self.n[k] for k in cohort)
        return [self.n[k] / total for k in cohort]

    def Omega(self, cohort: tuple[int, ...], x: Vector) -> Vector:
        return weighted(self.weights(cohort), [[abs(2 * v) for v in times(self.S[k], x)] for k in cohort])

    def zeta(self, cohort: tuple[int, ...], x: Vector) -> Vector:
        """1 + tau - Omega/Omega'; 1 where Omega' = 0, as the method's zero='one' has it."""
        Omega = self.Omega(cohort, x)
        return [1 + self.tau - o / max(Omega) if max(Omega) else Fraction(1) for o in Omega]

    def Delta(self, cohort: tuple[int, ...], x: Vector) -> Vector:
        """sum_k w_k Delta_k, without zeta."""
        return weighted(self.weights(cohort), [self.local(k, x, self.c[k]) for k in cohort])

    def balance(self, weights: Vector, matrices: list[Matrix]) -> Vector:
        """The x with sum_k weights_k A_k (x - c_k) = 0."""
        right = weighted(weights, [times(A, c) for A, c in zip(matrices, self.c, strict=True)])
        return solve(weighted_matrices(weights, matrices), right)

    def star(self) -> Vector:
        """argmin sum_k w_k f_k."""
        return self.balance(self.weights(self.all), self.H)


class Round(Clients):
    """All clients take part."""

    def __init__(self, data: dict[str, Any]) -> None:
        super().__init__(data)
        w, Ms = self.weights(self.all), [self.M(k) for k in self.all]
        self.mean = weighted_matrices(w, Ms)
        self.bar = self.balance(w, Ms)  # FedAvg's fixed point
        self.m = [self.mean[i][i] for i in range(self.d)]
        self.mu_M = min(self.m)  # for diagonal Hessians
        self.L = max(sum(abs(v) for v in row) for row in self.mean)  # at least M's largest eigenvalue
        self.z, self.D = (f(self.all, self.theta) for f in (self.zeta, self.Delta))
        self.after = self.step(self.theta)
        self.away = [x - self.eta * z * v for x, z, v in zip(self.theta, self.z, self.D, strict=True)]  # as printed
        self.room = 1 - self.eta * (1 + self.tau) * self.L / 2

    def V(self, x: Vector) -> Fraction:
        e = minus(x, self.bar)
        return dot(e, times(self.mean, e)) / 2

    def step(self, x: Vector) -> Vector:
        """theta+ of a round from x, with the repaired sign."""
        zeta, Delta = self.zeta(self.all, x), self.Delta(self.all, x)
        return [a + self.eta * z * v for a, z, v in zip(x, zeta, Delta, strict=True)]


class Cohorts(Clients):
    """P of the N clients take part, all cohorts alike; theta is a zero of the mean motion."""

    def __init__(self, data: dict[str, Any]) -> None:
        super().__init__(data)
        self.cohorts = list(combinations(range(self.N), data["P"]))
        self.zetas = [self.zeta(C, self.theta) for C in self.cohorts]
        self.Ms, last = [self.M(k) for k in self.all], self.N - 1
        v = [self.v(k) for k in self.all]
        rest = [sum(v[k][i] * self.local(k, self.theta, self.c[k])[i] for k in range(last)) for i in range(self.d)]
        gap = solve(self.Ms[last], [r / u for r, u in zip(rest, v[last], strict=True)])  # theta - c_N
        self.c.append(minus(self.theta, gap))
        self.Deltas = [self.Delta(C, self.theta) for C in self.cohorts]

    def mean(self, of: list[Any]) -> Any:
        """E over the cohorts, of numbers or vectors."""
        if isinstance(of[0], list):
            return [self.mean([x[i] for x in of]) for i in range(len(of[0]))]
        return sum(of, Fraction(0)) / len(self.cohorts)

    def share(self, k: int, C: tuple[int, ...]) -> Fraction:
        return self.weights(C)[C.index(k)] if k in C else Fraction(0)

    def u(self, k: int) -> Fraction:
        """E w_k."""
        return self.mean([self.share(k, C) for C in self.cohorts])

    def v(self, k: int) -> Vector:
        """E[w_k zeta^i]."""
        return self.mean([[self.share(k, C) * z for z in zeta] for C, zeta in zip(self.cohorts, self.zetas, strict=True)])

    def motion(self) -> Vector:
        """E[zeta Delta]."""
        return self.mean([[z * v for z, v in zip(*pair, strict=True)] for pair in zip(self.zetas, self.Deltas, strict=True)])

    def bar(self) -> Vector:
        """FedAvg's: E Delta = 0."""
        return self.balance([self.u(k) for k in self.all], self.Ms)

    def minus_J(self) -> Matrix:
        """-d E[zeta^i Delta^i]/d theta_j, by the product rule and the quotient rule."""
        every = range(len(self.cohorts))
        return [[self.mean([self.minus_slope(n, i, j) for n in every]) for j in range(self.d)] for i in range(self.d)]

    def minus_slope(self, n: int, i: int, j: int) -> Fraction:
        C, Omega = self.cohorts[n], self.Omega(self.cohorts[n], self.theta)
        w, a = self.weights(C), Omega.index(max(Omega))

        def grows(r: int) -> Fraction:  # d Omega^r/d theta_j
            signs = [1 if times(self.S[k], self.theta)[r] > 0 else -1 for k in C]
            return sum((2 * x * s * self.S[k][r][j] for x, s, k in zip(w, signs, C, strict=True)), Fraction(0))

        ratio = (grows(i) * Omega[a] - Omega[i] * grows(a)) / Omega[a] ** 2
        stays = weighted_matrices(w, [self.Ms[k] for k in C])[i][j]
        return self.zetas[n][i] * stays + self.Deltas[n][i] * ratio


SHEET = Sheet("elastic-aggregation", {"aggregation": Round, "sampled": Cohorts})
form = SHEET.form


def zeros(w: Any) -> list[Fraction]:
    return [Fraction(0)] * w.d


def sizes(x: list[Fraction]) -> list[Fraction]:
    return [abs(v) for v in x]


def scaled(a: Fraction, x: list[Fraction]) -> list[Fraction]:
    return [a * v for v in x]


def product(a: list[Fraction], b: list[Fraction]) -> list[Fraction]:
    return [x * y for x, y in zip(a, b, strict=True)]
