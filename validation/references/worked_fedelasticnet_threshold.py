"""FedElasticNet's threshold in plain fractions, in one coordinate: states at which nothing is sent,
and runs of Algorithm 3.

Part of `worked_fedelasticnet_algorithm_2`, which has the instances and the table of the forms.
"""

from __future__ import annotations

from fractions import Fraction as F

from worked_fedelasticnet_steps import sign, steps


def soft(v, l1):
    return sign(v) * max(abs(v) - l1, F(0))


class Stopped:
    """A state at which nothing is sent, in one coordinate."""

    def __init__(self, d):
        self.d = d
        self.h, self.theta, self.l1, self.l2, self.e = [r[0] for r in d["h"]], d["theta"][0], d["lambda1"], d["lambda2"], d["epsilon"]
        self.m = len(self.h)
        if d["algorithm"] == 2:
            q = [1 - d["eta"] * (h + self.l2) for h in self.h]
            S = [(1 - x ** d["B"]) / (1 - x) for x in q]
            rho = [self.l1 * (1 - x ** (d["B"] - 1)) / (1 - x ** d["B"]) for x in q]
            c = d["share"][0][0] * self.e / (d["B"] * d["eta"])
            self.slope = [sign(c) * p + d["B"] * c / s for p, s in zip(rho, S)]
            self.bound = sum(p + self.e / (d["eta"] * s) for p, s in zip(rho, S)) / self.m
            # c_k = c for everybody; every client moves by -B eta c
            move = [steps(h, self.theta - g / h, self.theta, c, c, d)[1] for h, g in zip(self.h, self.slope)]
            self.state, self.after = [self.theta, *[c] * self.m], [self.theta, *(c - c - v / (d["B"] * d["eta"]) for v in move)]
            self.quiet, self.jump = all(abs(v) <= self.e for v in move), d["eta_g"] * sum(move) / self.m
        else:
            g, u = [r[0] for r in d["g"]] if d["algorithm"] == 3 else [F(0)] * self.m, [r[0] for r in d["share"]]
            limit = [self.l1 + self.e * (h + self.l2) for h in self.h]
            self.slope = [a - x * b for a, x, b in zip(g, u, limit)]
            self.bound = sum(limit) / self.m
            move = [soft(a - s, self.l1) / (h + self.l2) for a, s, h in zip(g, self.slope, self.h)]
            self.quiet = all(abs(v) <= self.e for v in move)
            self.state = self.after = [self.theta, *g]  # 0 is sent, and sign(0) = 0
            h = -sum(self.l2 * v + self.l1 * sign(v) for v in move) / self.m
            self.jump = sum(move) / self.m - (h / self.l2 if d["algorithm"] == 3 else 0)
        self.grad = sum(self.slope) / self.m


def no_effect(v):
    return [abs(v.jump)], [F(0)]


def stopped_rests(v):
    """The largest move of the model, of what clients keep, and of its mean: 0 each."""
    assert v.quiet and v.state == v.after
    return [F(0)] * 3, [F(0)] * 3


def bound(v):
    return [abs(v.grad)], [v.bound]


class Wire:
    """Algorithm 3 under the sign rule in one coordinate; 0 arrives of what is at most epsilon in
    size."""

    def __init__(self, d):
        self.d = d
        h_k, c_k, l1, l2 = [r[0] for r in d["h"]], [r[0] for r in d["c"]], d["lambda1"], d["lambda2"]
        self.m, self.l2, self.e, self.h_k, self.moves = len(h_k), l2, d["epsilon"], h_k, []
        theta, h, g, kept = d["theta"][0], F(0), [F(0)] * self.m, [F(0)] * self.m
        self.theta, self.h, self.parted, self.missed, total = [theta], [h], [], [], F(0)
        self.arrived = []
        for _ in range(d["T"]):
            move = [soft(a - b * (theta - c), l1) / (b + l2) for a, b, c in zip(g, h_k, c_k)]
            self.moves.append(move)
            wanted = [x + (y if d.get("feedback") else 0) for x, y in zip(move, kept)]
            sent = [x if abs(x) > self.e else F(0) for x in wanted]
            kept = [x - y for x, y in zip(wanted, sent)]
            self.arrived += sent
            g = [a - l2 * x - l1 * sign(x) for a, x in zip(g, move)]
            h -= sum(l2 * x + l1 * sign(x) for x in sent) / self.m
            theta = theta + sum(sent) / self.m - h / l2
            total += sum(l2 * (x - y) + l1 * (sign(x) - sign(y)) for x, y in zip(move, sent)) / self.m
            self.theta.append(theta), self.h.append(h), self.missed.append(total)
            self.parted.append(h - sum(g) / self.m)
        self.star = sum(a * b for a, b in zip(h_k, c_k)) / sum(h_k)


def closer(v):
    return [abs(v.theta[-1] - v.star)], [abs(v.theta[0] - v.star)]


def drifts(v):
    """0 on both sides where the condition does not hold."""
    most = [a * abs(v.h[1]) / v.l2**2 for a in v.h_k]
    there = v.h[1] != 0 and all(abs(x) <= y <= v.e for x, y in zip(v.moves[1], most))
    found, said = v.theta[2:], [v.theta[1] - (t - 1) * v.h[1] / v.l2 for t in range(2, len(v.theta))]
    return [x * there for x in found], [x * there for x in said]


def silent(v):
    return [F(not any(v.arrived))], [F(v.e >= max(map(abs, v.moves[0])))]


def misses(v):
    return v.parted, v.missed


def fed_back(v):
    return [abs(x) for x in v.parted], [v.l2 * v.e] * len(v.parted)


def fed_back_signs(v):
    return [abs(x) for x in v.parted], [v.l2 * v.e + v.d["lambda1"]] * len(v.parted)
