"""A tiny run of FedElasticNet's Algorithm 3 in fractions, and what (11) to (39) are about on it.

Four clients with L_k(y) = sum_i H[k][i] (y_i - C[k][i])^2/2 in the plane; three take part in a
round. Round 1 is cohort (0, 1, 2), so that client 3 has never taken part; the forms are about round
2, whose cohort is random. The method is written from its pseudocode. Nothing here comes from the
package, and neither does `worked_fedelasticnet_forms`, which works out the forms' two sides.
"""

from __future__ import annotations

from fractions import Fraction as F
from itertools import combinations

RULES = ("sign", "true-gradient")
H = [[F(1, 2), F(3, 2)], [F(5, 2), F(3, 2)], [F(1, 2), F(1, 2)], [F(1, 2), F(1, 2)]]
C = [[F(-2), F(-9, 2)], [F(3, 2), F(4)], [F(1), F(-3)], [F(3), F(-1, 2)]]
L1, L2, PART, X0 = F(1, 2), F(15, 2), 3, [F(-3), F(-4)]
FIRST = (0, 1, 2)
M, D, BETA = len(H), len(X0), max(max(row) for row in H)
CLIENTS, COHORTS = range(M), list(combinations(range(M), PART))
STAR = [sum(H[k][i] * C[k][i] for k in CLIENTS) / sum(H[k][i] for k in CLIENTS) for i in range(D)]


def add(*vectors):
    return [sum(parts) for parts in zip(*vectors, strict=True)]


def times(a, u):
    return [a * x for x in u]


def minus(u, v):
    return [x - y for x, y in zip(u, v, strict=True)]


def dot(u, v):
    return sum(x * y for x, y in zip(u, v, strict=True))


def sq(u):
    return dot(u, u)


def sign(u):
    return [F((x > 0) - (x < 0)) for x in u]


def mean(values):
    """(1/n) sum of numbers, or of vectors."""
    values = list(values)
    total = add(*values) if isinstance(values[0], list) else sum(values)
    return times(F(1, len(values)), total) if isinstance(total, list) else F(1, len(values)) * total


def loss(k, y):
    return sum(h * (x - c) ** 2 / 2 for h, x, c in zip(H[k], y, C[k], strict=True))


def grad(k, y):
    return [h * (x - c) for h, x, c in zip(H[k], y, C[k], strict=True)]


GRAD_STAR = [grad(k, STAR) for k in CLIENTS]


def minimiser(k, g, anchor):
    """argmin L_k(y) - <g, y> + L2/2 ||y - anchor||^2 + L1 ||y - anchor||_1.

    By coordinate: above the anchor if the branch y > anchor has its minimum there, below likewise.
    """
    out = []
    for h, c, g_i, a in zip(H[k], C[k], g, anchor, strict=True):
        up, down = ((h * c + g_i + L2 * a - s * L1) / (h + L2) for s in (1, -1))
        out.append(up if up > a else down if down < a else a)
    return out


def step(rule, theta, h, stored, local, cohort):
    """Lines 3 to 12 of Algorithm 3; also for a virtual cohort of everyone."""
    stored, local = list(stored), list(local)
    moves, signs = [], []
    for k in cohort:
        local[k] = minimiser(k, stored[k], theta)  # line 4
        move = minus(local[k], theta)
        if rule == "sign":
            stored[k] = minus(minus(stored[k], times(L2, move)), times(L1, sign(move)))  # line 5
        else:
            stored[k] = grad(k, local[k])
        moves.append(move)
        signs.append(sign(move))
    if rule == "sign":
        h = minus(minus(h, times(L2 / M, add(*moves))), times(L1 / M, add(*signs)))  # line 11
    else:
        h = mean(stored)
    return minus(mean(local[k] for k in cohort), times(1 / L2, h)), h, stored, local  # line 12


class Round:
    """Round 2 from the state (theta, h, g_k, theta_k) after cohort FIRST.

    ``after`` is the state behind each possible cohort.
    """

    def __init__(self, rule):
        zero = [[F(0)] * D for _ in CLIENTS]
        before = step(rule, X0, [F(0)] * D, zero, [X0] * M, FIRST)
        self.theta, self.h, self.g, self.local = before
        self.after = {cohort: step(rule, *before, cohort) for cohort in COHORTS}
        self.gamma = add(self.theta, times(1 / L2, self.h))
        self.tilde = [minimiser(k, self.g[k], self.theta) for k in CLIENTS]  # (19)
        self.own = [minimiser(k, self.g[k], self.local[k]) for k in CLIENTS]  # as Theorem 3.1 prints it
        self.g_tilde = step(rule, *before, tuple(CLIENTS))[2]  # what client k would store
        self.move = [minus(y, self.theta) for y in self.tilde]
        self.sign = [sign(u) for u in self.move]
        self.s = [self.subgradient(k) for k in CLIENTS]
        self.grad_tilde = [grad(k, self.tilde[k]) for k in CLIENTS]
        self.grad_gamma = [grad(k, self.gamma) for k in CLIENTS]
        self.gap = mean(loss(k, self.gamma) - loss(k, STAR) for k in CLIENTS)
        self.epsilon = mean(sq(minus(y, self.gamma)) for y in self.tilde)  # (21)
        self.C = mean(sq(minus(self.g[k], GRAD_STAR[k])) for k in CLIENTS)  # C_{t-1}
        self.C_next = self.E(lambda c: mean(sq(minus(self.after[c][2][k], GRAD_STAR[k])) for k in CLIENTS))
        self.zeros = mean(sum(x == 0 for x in u) for u in self.move)
        self.away = minus(self.gamma, STAR)
        self.A = sq(self.away)
        self.A_next = self.E(lambda c: sq(minus(self.gamma_next(c), STAR)))
        self.step_sq = self.E(lambda c: sq(minus(self.gamma_next(c), self.gamma)))
        self.gamma_move = self.E(lambda c: minus(self.gamma_next(c), self.gamma))

    def E(self, of):
        """The expectation over the cohorts, all equally likely."""
        return mean(of(c) for c in COHORTS)

    def gamma_next(self, cohort):
        """gamma^t, the mean of the cohort's models."""
        return mean(self.after[cohort][3][k] for k in cohort)

    def subgradient(self, k):
        """s_k: the sign where the model moves; else what makes (11) true, within [-1, 1]."""
        rest = times(1 / L1, minus(self.g[k], grad(k, self.theta)))
        s = [e if u != 0 else r for u, e, r in zip(self.move[k], self.sign[k], rest, strict=True)]
        if any(abs(x) > 1 for x in s):
            raise ArithmeticError(f"client {k} should have moved: s = {s} leaves [-1, 1]")
        return s
