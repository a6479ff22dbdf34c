"""A tiny run of FedElasticNet's Algorithm 3 in fractions, and what (11) to (39) are about on it.

Clients with L_k(y) = sum_i H[k][i] (y_i - C[k][i])^2/2, of which PART take part in a round. On
`PRINTED` there are four in the plane, three a round, and round 1 is cohort (0, 1, 2), so that
client 3 has never taken part; the forms are about the round after, whose cohort is random. The
numbers of `OTHERS` are all different and none is 1, so that no factor can hide. The method is
written from its pseudocode. Nothing here comes from the package, and neither does
`worked_fedelasticnet_forms`, which works out the forms' two sides.
"""

from __future__ import annotations

from fractions import Fraction as F
from itertools import combinations
from typing import NamedTuple

RULES = ("sign", "true-gradient")


class Numbers(NamedTuple):
    """An instance: curvatures H and minimisers C, lambda_1, lambda_2, P, theta^0, the cohorts so
    far."""

    H: list[list[F]]
    C: list[list[F]]
    L1: F
    L2: F
    PART: int
    X0: list[F]
    BEFORE: tuple[tuple[int, ...], ...]


def fractions(rows):
    """'1/2 3, 5/2 3' -> [[1/2, 3], [5/2, 3]]"""
    return [[F(x) for x in row.split()] for row in rows.split(",")]


PRINTED = Numbers(
    fractions("1/2 3/2, 5/2 3/2, 1/2 1/2, 1/2 1/2"), fractions("-2 -9/2, 3/2 4, 1 -3, 3 -1/2"),
    F(1, 2), F(15, 2), 3, [F(-3), F(-4)], ((0, 1, 2),),
)  # fmt: skip
OTHERS = (
    Numbers(
        fractions("3/7 5/2, 2 2/3, 7/4 1/5"), fractions("-3 7/2, 5/3 -4, 9/4 3"),
        F(3, 7), F(23, 3), 2, [F(-2), F(11, 4)], ((0, 1), (1, 2)),
    ),
    Numbers(
        fractions("5/3 2/7 3, 1/2 7/3 3/4, 5/4 3/5 2, 6/5 1/3 4/3"), fractions("5 -3/2 2, -4 3 -5/3, 7/3 5/2 -6, 1/4 -2 3/2"),
        F(2, 7), F(31, 2), 2, [F(3, 2), F(-5), F(4, 3)], ((0, 2), (1, 2)),
    ),
)  # fmt: skip


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


class Instance:
    """The losses and the method on some `Numbers`, under a rule."""

    def __init__(self, rule, numbers):
        self.rule, self.numbers = rule, numbers
        self.curvature, self.centre, self.l1, self.l2, self.part, self.x0, self.before = numbers
        self.m, self.d, self.beta = len(self.curvature), len(self.x0), max(max(row) for row in self.curvature)
        self.clients, self.cohorts = range(self.m), list(combinations(range(self.m), self.part))
        columns = zip(zip(*self.curvature, strict=True), zip(*self.centre, strict=True), strict=True)
        self.star = [dot(h, c) / sum(h) for h, c in columns]
        self.grad_star = [self.grad(k, self.star) for k in self.clients]

    def loss(self, k, y):
        return sum(h * (x - c) ** 2 / 2 for h, x, c in zip(self.curvature[k], y, self.centre[k], strict=True))

    def grad(self, k, y):
        return [h * (x - c) for h, x, c in zip(self.curvature[k], y, self.centre[k], strict=True)]

    def minimiser(self, k, g, anchor):
        """argmin L_k(y) - <g, y> + L2/2 ||y - anchor||^2 + L1 ||y - anchor||_1.

        By coordinate: above the anchor if the branch y > anchor has its minimum there, below
        likewise.
        """
        out = []
        for h, c, g_i, a in zip(self.curvature[k], self.centre[k], g, anchor, strict=True):
            up, down = ((h * c + g_i + self.l2 * a - s * self.l1) / (h + self.l2) for s in (1, -1))
            out.append(up if up > a else down if down < a else a)
        return out

    def step(self, theta, h, stored, local, cohort):
        """Lines 3 to 12 of Algorithm 3; also for a virtual cohort of everyone."""
        stored, local = list(stored), list(local)
        moves, signs = [], []
        for k in cohort:
            local[k] = self.minimiser(k, stored[k], theta)  # line 4
            move = minus(local[k], theta)
            if self.rule == "sign":
                stored[k] = minus(minus(stored[k], times(self.l2, move)), times(self.l1, sign(move)))  # line 5
            else:
                stored[k] = self.grad(k, local[k])
            moves.append(move)
            signs.append(sign(move))
        if self.rule == "sign":
            h = minus(minus(h, times(self.l2 / self.m, add(*moves))), times(self.l1 / self.m, add(*signs)))  # line 11
        else:
            h = mean(stored)
        return minus(mean(local[k] for k in cohort), times(1 / self.l2, h)), h, stored, local  # line 12


class Round(Instance):
    """The round from the state (theta, h, g_k, theta_k) after the cohorts so far.

    ``after`` is the state behind each possible cohort.
    """

    def __init__(self, rule, numbers=PRINTED):
        super().__init__(rule, numbers)
        before = self.x0, [F(0)] * self.d, [[F(0)] * self.d for _ in self.clients], [self.x0] * self.m
        for cohort in self.before:
            before = self.step(*before, cohort)
        self.theta, self.h, self.g, self.local = before
        self.after = {cohort: self.step(*before, cohort) for cohort in self.cohorts}
        self.gamma = add(self.theta, times(1 / self.l2, self.h))
        self.tilde = [self.minimiser(k, self.g[k], self.theta) for k in self.clients]  # (19)
        self.own = [self.minimiser(k, self.g[k], self.local[k]) for k in self.clients]  # as Theorem 3.1 prints it
        self.g_tilde = self.step(*before, tuple(self.clients))[2]  # what client k would store
        self.move = [minus(y, self.theta) for y in self.tilde]
        self.sign = [sign(u) for u in self.move]
        self.s = [self.subgradient(k) for k in self.clients]
        self.grad_tilde = [self.grad(k, self.tilde[k]) for k in self.clients]
        self.grad_gamma = [self.grad(k, self.gamma) for k in self.clients]
        self.gap = mean(self.loss(k, self.gamma) - self.loss(k, self.star) for k in self.clients)
        self.epsilon = mean(sq(minus(y, self.gamma)) for y in self.tilde)  # (21)
        self.C = mean(sq(minus(self.g[k], self.grad_star[k])) for k in self.clients)  # C_{t-1}
        self.C_next = self.E(lambda c: mean(sq(minus(self.after[c][2][k], self.grad_star[k])) for k in self.clients))
        self.zeros = mean(sum(x == 0 for x in u) for u in self.move)
        self.away = minus(self.gamma, self.star)
        self.A = sq(self.away)
        self.A_next = self.E(lambda c: sq(minus(self.gamma_next(c), self.star)))
        self.step_sq = self.E(lambda c: sq(minus(self.gamma_next(c), self.gamma)))
        self.gamma_move = self.E(lambda c: minus(self.gamma_next(c), self.gamma))

    def E(self, of):
        """The expectation over the cohorts, all equally likely."""
        return mean(of(c) for c in self.cohorts)

    def gamma_next(self, cohort):
        """gamma^t, the mean of the cohort's models."""
        return mean(self.after[cohort][3][k] for k in cohort)

    def subgradient(self, k):
        """s_k: the sign where the model moves; else what makes (11) true, within [-1, 1]."""
        rest = times(1 / self.l1, minus(self.g[k], self.grad(k, self.theta)))
        s = [e if u != 0 else r for u, e, r in zip(self.move[k], self.sign[k], rest, strict=True)]
        if any(abs(x) > 1 for x in s):
            raise ArithmeticError(f"client {k} should have moved: s = {s} leaves [-1, 1]")
        return s
