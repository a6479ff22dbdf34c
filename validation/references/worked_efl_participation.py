"""Worked instances of EFL's convergence with compression and irregular clients, in plain fractions.

Written from the LaTeX of every form; nothing of the library is imported. Every s_tau^k of every
round is gone through, one path after the other.
"""

from __future__ import annotations

from fractions import Fraction as Q
from itertools import product
from math import ceil

from worked_efl_compressed import mix, plus, times
from worked_efl_messages import st
from worked_efl_sections import minimiser, minus, numbers, sq

PARTIAL = {
    "scheme": "C", "weights": ["1/4", "3/4"], "h": [["1", "1/2"], ["1/2", "1"]], "c": [["2", "1"], ["-1", "3"]],
    "law": [["0", "1/2", "1/2"], ["1/3", "0", "2/3"]], "q": "1/2", "down": True, "w0": ["4", "0"], "T": 2,
}  # fmt: skip
# inactive alike, no local drift, all ratios equal, and the server sends all
ALIKE = {**PARTIAL, "law": [["1/3", "2/3"], ["1/3", "2/3"]], "down": False}
# all complete and nothing left out, so that the first entry of the minimum is the smaller one in
# round 2
LATE = {
    **PARTIAL, "scheme": "B", "h": [["1", "8/9"], ["8/9", "1"]], "law": [["0"] * 8 + ["1"]] * 2, "q": "1", "down": False,
}  # fmt: skip


class Partial:
    """p_tau^k by scheme, with s^k > 0: C: E p^k/s^k, theta = E; corrected C: that over P(s^k > 0),
    theta = E/min_k P(s^k > 0); B: p^k, theta = 1; A: N p^k over the number of complete clients, 0
    for the others, theta = N.

    A client with s = 0, or with p_tau^k = 0, keeps its residual and sends nothing.
    """

    def __init__(self, data):
        self.p, self.h, self.c, law = (numbers(data[k]) for k in ("weights", "h", "c", "law"))
        self.N, self.d, self.E, self.T = len(self.p), len(self.h[0]), len(law[0]) - 1, data["T"]
        self.q, self.down = Q(data["q"]), data["down"]
        k = Q(max(ceil(self.d * self.q), 1))
        self.scheme, self.delta = data["scheme"], min(1 / k, k / self.d)
        self.active = [1 - row[0] for row in law]
        self.theta = {"A": Q(self.N), "B": Q(1), "C": Q(self.E), "C-corrected": self.E / min(self.active)}[self.scheme]
        self.cases = []
        for case in product(*([(s, chance) for s, chance in enumerate(row) if chance] for row in law)):
            mass = Q(1)
            for _, chance in case:
                mass *= chance
            self.cases.append((mass, [s for s, _ in case]))
        self.pi = [self.expect(lambda s, k=k: Q(self.coefficient(k, s) > 0)) for k in range(self.N)]
        self.ps = [self.expect(lambda s, k=k: self.coefficient(k, s) * s[k]) for k in range(self.N)]
        self.S = sum(self.ps)
        self.L, self.mu = (f(x for row in self.h for x in row) for f in (max, min))
        second = 32 * self.E * (1 + self.theta) * self.L / (self.mu * self.S)
        self.gamma = max(8 * self.E / (min(self.pi) * self.delta), second)
        self.star = minimiser(self.p, self.h, self.c)
        self.D = [sum(h * (s - c) ** 2 for h, s, c in zip(*rows)) / 2 for rows in zip(self.h, [self.star] * self.N, self.c)]
        self.paths = [self.path(choice, numbers(data["w0"])) for choice in product(self.cases, repeat=self.T)]
        steps = product(range(self.T), range(self.N), range(self.E))
        self.G_sq = max(self.mean(lambda r, at=at: sq(r["g"][at[0]][at[1]][at[2]])) for at in steps)
        first = 16 / (5 * self.delta)
        self.factors = first, (4 / self.delta - 1) * (first + 1) if self.down else Q(0)
        self.reach = self.theta**2 * self.E**2 * self.G_sq
        self.rho_sq = sum(self.factors) ** 2 * self.reach

    def expect(self, value):
        return sum(mass * value(s) for mass, s in self.cases)

    def coefficient(self, k, s):
        if not s[k]:
            return Q(0)
        if self.scheme == "A":
            return self.N * self.p[k] / s.count(self.E) if s[k] == self.E else Q(0)
        if self.scheme == "B":
            return self.p[k]
        return self.E * self.p[k] / s[k] / (self.active[k] if self.scheme == "C-corrected" else 1)

    def eta(self, t):
        return 16 * self.E / (self.mu * ((t + 1) * self.E + self.gamma) * self.S)

    def path(self, choice, w):
        R, R_G = [[Q(0)] * self.d for _ in self.p], [Q(0)] * self.d
        out = {"mass": Q(1), "g": [], "w": [w], "R": [R], "R_G": [R_G], "v": [w]}
        for t, (mass, s) in enumerate(choice):
            out["mass"] *= mass
            received, new, gradients = [], [], []
            for k in range(self.N):
                y, at, mine = w, [w], []
                for _ in range(self.E):
                    mine.append([h * (a - c) for h, a, c in zip(self.h[k], y, self.c[k])])
                    y = minus(y, times(self.eta(t), mine[-1]))
                    at.append(y)
                gradients.append(mine)
                if self.coefficient(k, s) == 0:
                    received.append([Q(0)] * self.d)
                    new.append(R[k])
                    continue
                message = plus(R[k], times(self.coefficient(k, s) / self.p[k], minus(at[s[k]], w)))
                received.append(st(message, self.q))
                new.append(minus(message, received[-1]))
            R, total = new, plus(R_G, mix(self.p, received))
            move = st(total, self.q) if self.down else total
            R_G, w = minus(total, move), plus(w, move)
            v = plus(plus(w, R_G), mix(self.p, R))
            for name, value in (("g", gradients), ("w", w), ("R", R), ("R_G", R_G), ("v", v)):
                out[name].append(value)
        return out

    def mean(self, value):
        return sum(r["mass"] * value(r) for r in self.paths)

    def squares(self, name, other=None):
        return [
            self.mean(lambda r, t=t: sq(minus(r[name][t], self.star if other is None else r[other][t])))
            for t in range(self.T + 1)
        ]

    def residuals(self, k):
        return [self.mean(lambda r, t=t: sq(r["R"][t][k])) for t in range(self.T + 1)]

    def biased(self):
        return len({w / p for w, p in zip(self.ps, self.p)}) > 1

    def B(self):
        E, G = self.E, self.G_sq

        def bracket(s):
            p = [self.coefficient(k, s) for k in range(self.N)]
            ps = sum(a * b for a, b in zip(p, s))
            return ps + self.theta * max(sum(p) - 2, 0) * ps

        gap = 2 * (2 + self.theta) * self.L * sum(w * D for w, D in zip(self.ps, self.D))
        drift = Q((E - 1) * (2 * E - 1), 3) * G + 2 * self.rho_sq
        more = (1 + self.mu / (2 * (1 + self.theta) * self.L)) * self.S * drift
        return gap + E * (E - 1) * G * self.expect(bracket) + more + 2 * self.S * self.rho_sq

    def bias(self):
        """sum E[p s] D_k, 0 where all ratios E[p s]/p^k are equal."""
        return sum(w * D for w, D in zip(self.ps, self.D)) if self.biased() else Q(0)

    def virtual_bound(self, t):
        y = t * self.E + self.gamma
        J = 32 * self.E * self.bias() / (self.mu * self.S)
        noise = t * (16 * self.E / self.mu) ** 2 * self.B() / self.S**2
        return (self.gamma**2 * self.squares("v")[0] + noise) / y**2 + t * J / y


    def sharp_B(self):
        def bracket(s):
            p = [self.coefficient(k, s) for k in range(self.N)]
            ps = sum(a * b for a, b in zip(p, s))
            return ps * (1 + self.theta * max(sum(p) - 2, 0))

        E, theta = self.E, self.theta
        gap = (9 + 5 * theta) / 2 * self.L * sum(w * D for w, D in zip(self.ps, self.D))
        spread = Q(E * (E - 1), 2) * self.G_sq * self.expect(bracket)
        return gap + spread + (1 + self.mu / ((1 + theta) * self.L)) * self.S * Q((E - 1) * (2 * E - 1), 6) * self.G_sq

    def sharp_bound(self, t):
        y = t * self.E + self.gamma
        J = 32 * self.E * self.bias() / (self.mu * self.S)
        noise = t * (16 * self.E / self.mu) ** 2 * self.sharp_B() / self.S**2
        least = min(Q(44, 3) * self.L / self.mu, Q(11, 2) * t * self.L * self.S * self.eta(0))
        return (self.gamma**2 * self.squares("v")[0] + noise) / y**2 + least * self.rho_sq * self.eta(t - 1) ** 2 + t * J / y


def sharp_model(data):
    run = Partial(data)
    right = [2 * run.sharp_bound(t) + 2 * run.rho_sq * run.eta(t) ** 2 for t in range(1, run.T + 1)]
    return run.squares("w")[1:], right


def sharp_virtual(data):
    run = Partial(data)
    return run.squares("v")[1:], [run.sharp_bound(t) for t in range(1, run.T + 1)]


def sharp_round(data):
    run, right = Partial(data), []
    a = run.squares("v")
    for t in range(run.T):
        e = run.eta(t)
        new = e * e * run.sharp_B() + Q(11, 2) * run.L * run.S * run.rho_sq * e**3
        right.append((1 - e * run.mu * run.S / 2) * a[t] + new + 2 * e * run.bias())
    return a[1:], right


def model(data):
    run = Partial(data)
    right = [2 * run.virtual_bound(t) + 2 * run.rho_sq * run.eta(t) ** 2 for t in range(1, run.T + 1)]
    return run.squares("w")[1:], right


def virtual(data):
    run = Partial(data)
    return run.squares("v")[1:], [run.virtual_bound(t) for t in range(1, run.T + 1)]


def one_round(data):
    run, right = Partial(data), []
    a = run.squares("v")
    for t in range(run.T):
        e = run.eta(t)
        right.append((1 - e * run.mu * run.S / 2) * a[t] + e * e * run.B() + 2 * e * run.bias())
    return a[1:], right


def one_client(data):
    """Round by round, client after client."""
    run, left, right = Partial(data), [], []
    each = [run.residuals(k) for k in range(run.N)]
    for t in range(run.T):
        for squares, pi in zip(each, run.pi):
            left.append(squares[t + 1])
            right.append((1 - pi * run.delta / 2) * squares[t] + 2 * pi / run.delta * run.reach * run.eta(t) ** 2)
    return left, right


def clients(data):
    run = Partial(data)
    each = [run.residuals(k) for k in range(run.N)]
    bound = [run.factors[0] ** 2 * run.reach * run.eta(t) ** 2 for t in range(1, run.T + 1)]
    return [squares[t] for t in range(1, run.T + 1) for squares in each], [b for b in bound for _ in each]


def server(data):
    run = Partial(data)
    left = [run.mean(lambda r, t=t: sq(r["R_G"][t])) for t in range(1, run.T + 1)]
    return left, [run.factors[1] ** 2 * run.reach * run.eta(t) ** 2 for t in range(1, run.T + 1)]


def apart(data):
    run = Partial(data)
    return run.squares("w", "v")[1:], [run.rho_sq * run.eta(t) ** 2 for t in range(1, run.T + 1)]


_PARTIAL = "efl/compressed-participation"
WORKED = {
    (_PARTIAL, "repaired"): (PARTIAL, model),
    (_PARTIAL, "repaired", "inactive alike"): (ALIKE, model),
    (_PARTIAL, "virtual iterate"): (PARTIAL, virtual),
    (_PARTIAL, "one round"): (PARTIAL, one_round),
    (_PARTIAL, "one round", "inactive alike"): (ALIKE, one_round),
    (_PARTIAL, "sharpened"): (PARTIAL, sharp_model),
    (_PARTIAL, "sharpened, virtual iterate"): (PARTIAL, sharp_virtual),
    (_PARTIAL, "sharpened, virtual iterate", "late"): (LATE, sharp_virtual),
    (_PARTIAL, "one round, sharpened"): (PARTIAL, sharp_round),
    (_PARTIAL, "one client"): (PARTIAL, one_client),
    (_PARTIAL, "residuals of the clients"): (PARTIAL, clients),
    (_PARTIAL, "residual of the server"): (PARTIAL, server),
    (_PARTIAL, "distance of the models"): (PARTIAL, apart),
}
