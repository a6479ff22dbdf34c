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


@form("stability", "as FedAvg")
@form("sign", "repaired")
def _(w: Round) -> tuple[Any, Any]:
    # V(theta+) <= V(theta)
    return w.V(w.after), w.V(w.theta)


@form("stability", "repaired")
def _(w: Round) -> tuple[Any, Any]:
    # V(theta+) + eta (1 - eta (1 + tau) L/2) sum_i zeta^i (M (theta - bar))_i^2 <= V(theta)
    pull = times(w.mean, minus(w.theta, w.bar))
    return w.V(w.after) + w.eta * w.room * sum(z * p**2 for z, p in zip(w.z, pull, strict=True)), w.V(w.theta)


@form("stability", "rate")
@form("stability", "rate, always")
def _(w: Round) -> tuple[Any, Any]:
    # V(theta+) <= (1 - 2 eta tau mu_M (1 - eta (1 + tau) L/2)) V(theta)
    return w.V(w.after), (1 - 2 * w.eta * w.tau * w.mu_M * w.room) * w.V(w.theta)


@form("stability", "rate, dead layers too")
def _(w: Round) -> tuple[Any, Any]:
    # V(theta+) <= (1 - 2 eta min(1, tau) mu_M (1 - eta (1 + tau) L/2)) V(theta)
    return w.V(w.after), (1 - 2 * w.eta * min(1, w.tau) * w.mu_M * w.room) * w.V(w.theta)


@form("stability", "each coordinate")
def _(w: Round) -> tuple[Any, Any]:
    # |theta+_i - bar_i| <= max(|1 - eta tau m_i|, |1 - eta (1 + tau) m_i|) |theta_i - bar_i|
    most = [max(abs(1 - w.eta * w.tau * m), abs(1 - w.eta * (1 + w.tau) * m)) for m in w.m]
    return sizes(minus(w.after, w.bar)), product(most, sizes(minus(w.theta, w.bar)))


@form("sign", "printed")
def _(w: Round) -> tuple[Any, Any]:
    # theta - eta Delta: V(theta+) <= V(theta)
    return w.V(w.away), w.V(w.theta)


@form("sign", "growth")
def _(w: Round) -> tuple[Any, Any]:
    # theta - eta Delta: (1 + eta tau mu_M)^2 V(theta) <= V(theta+)
    return (1 + w.eta * w.tau * w.mu_M) ** 2 * w.V(w.theta), w.V(w.away)


@form("sampled-fixed-point", "as FedAvg")
@form("sampled-fixed-point", "one parameter")
@form("sampled-fixed-point", "one parameter, always")
@form("sampled-fixed-point", "all take part")
def _(w: Cohorts) -> tuple[Any, Any]:
    # E Delta = 0
    return w.mean(w.Deltas), zeros(w)


@form("sampled-fixed-point", "repaired")
def _(w: Cohorts) -> tuple[Any, ...]:
    # E[zeta Delta] = sum_k v_k Delta_k, v_k^i = E[w_k zeta^i]; both are 0, and E|Delta|
    parts = [product(w.v(k), w.local(k, w.theta, w.c[k])) for k in w.all]
    return w.motion(), [sum(p[i] for p in parts) for i in range(w.d)], w.mean([sizes(D) for D in w.Deltas])


@form("sampled-fixed-point", "between")
def _(w: Cohorts) -> tuple[Any, Any]:
    # |2 theta^i - (low + high)| <= high - low, of the c_k^i
    low, high = ([pick(c[i] for c in w.c) for i in range(w.d)] for pick in (min, max))
    return [abs(2 * x - a - b) for x, a, b in zip(w.theta, low, high, strict=True)], minus(high, low)


@form("sampled-fixed-point", "covariance")
def _(w: Cohorts) -> tuple[Any, Any]:
    # E Delta^i = -Cov(zeta^i, Delta^i)/E zeta^i
    zeta, Delta = w.mean(w.zetas), w.mean(w.Deltas)
    gaps = [product(minus(z, zeta), minus(v, Delta)) for z, v in zip(w.zetas, w.Deltas, strict=True)]
    return Delta, [-c / z for c, z in zip(w.mean(gaps), zeta, strict=True)]


@form("sampled-fixed-point", "distance")
@form("sampled-fixed-point", "distance, always")
def _(w: Cohorts) -> tuple[Any, Any]:
    # (1 + 2 tau) |E Delta^i| <= E|Delta^i|
    return scaled(1 + 2 * w.tau, sizes(w.mean(w.Deltas))), w.mean([sizes(D) for D in w.Deltas])


@form("sampled-fixed-point", "distance, insensitive cohorts too")
def _(w: Cohorts) -> tuple[Any, Any]:
    # (1 + tau + min(1, tau)) |E Delta^i| <= (1 + tau - min(1, tau)) E|Delta^i|
    low, high = min(Fraction(1), w.tau), 1 + w.tau
    return scaled(high + low, sizes(w.mean(w.Deltas))), scaled(high - low, w.mean([sizes(D) for D in w.Deltas]))


@form("sampled-fixed-point", "one local step")
def _(w: Cohorts) -> tuple[Any, Any]:
    # theta = theta*
    return w.theta, w.star()


@form("sampled-stability", "always")
def _(w: Cohorts) -> tuple[Any, Any]:
    # 0 <= det(-J)
    return 0, det(w.minus_J())


@form("sampled-stability", "all take part")
def _(w: Cohorts) -> tuple[Any, Any]:
    # J = -zeta M
    mean = weighted_matrices(w.weights(w.all), w.Ms)
    return [scaled(-1, row) for row in w.minus_J()], [scaled(-z, row) for z, row in zip(w.zetas[0], mean, strict=True)]


@form("sampled-stability", "one parameter")
def _(w: Cohorts) -> tuple[Any, Any]:
    # J = -tau sum_k u_k M_k
    return -w.minus_J()[0][0], -w.tau * sum(w.u(k) * w.Ms[k][0][0] for k in w.all)
