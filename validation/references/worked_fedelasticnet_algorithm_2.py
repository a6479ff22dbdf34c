"""FedElasticNet's Algorithm 2 and its threshold in plain fractions, with nothing of the library:
both sides of every form.

Clients are L_k(x) = sum_i h_ki (x_i - c_ki)^2/2. Every side is written from the formula of the
form: `SIDES` maps (statement, form) to a list of (name of an instance, function that returns the
two sides as flat lists).
"""

from __future__ import annotations

from fractions import Fraction as F

import worked_fedelasticnet_threshold as threshold
from worked_fedelasticnet_steps import sign, steps


def numbers(value):
    """Strings in nested lists as fractions; whole numbers stay."""
    if isinstance(value, list):
        return [numbers(v) for v in value]
    return F(value) if isinstance(value, str) else value


def flat(values):
    return [x for v in values for x in (flat(v) if isinstance(v, list) else [v])]


TWO = {
    "h": [["1/2", "1"], ["1", "1/2"]], "c": [["1", "-2"], ["-3", "2"]], "theta": ["1", "-1"], "c_k": [["1", "-1"], ["0", "2"]],
    "lambda1": "2", "lambda2": "1/2", "eta": "1/2", "B": 3, "eta_g": "3/2", "cohorts": [[0, 1], [1]],
}  # fmt: skip
INSTANCES = {
    "two rounds": ("algorithm-2", TWO),
    "everybody": ("algorithm-2", {**TWO, "cohorts": [[0, 1]]}),
    "one step": ("algorithm-2", {**TWO, "B": 1}),
    "at rest": ("algorithm-2 at rest", {
        "h": [["1"], ["1/2"]], "c": [["1"], ["-2"]], "sigma": [[1], [-1]], "lambda1": "3", "lambda2": "1/2", "eta": "1/2", "B": 3,
        "eta_g": "1/2", "shift": ["1/16"], "shift_k": [["1/8"], ["-1/4"]]}),
    "optimum": ("algorithm-2 at rest", {
        "h": [["1"], ["1/2"]], "c": [["1"], ["-2"]], "sigma": [[0], [0]], "lambda1": "3", "lambda2": "1/2", "eta": "1/2", "B": 4,
        "eta_g": "1/2", "shift": ["1/16"], "shift_k": [["1/8"], ["-1/4"]]}),
    "one client": ("scaffold stability", {"H": [[["3"]]], "lambda2": "1", "eta": "1/8", "B": 3, "eta_g": "7/4"}),
    "unequal": ("scaffold stability", {"H": [[["1"]], [["3"]]], "lambda2": "0", "eta": "1/4", "B": 3, "eta_g": "7/4"}),
    "stopped 2": ("threshold at rest", {
        "algorithm": 2, "h": [["1"], ["1/2"]], "theta": ["3"], "share": [["1/2"], ["0"]], "epsilon": "1/4", "lambda1": "1",
        "lambda2": "1/2", "eta": "1/2", "B": 2, "eta_g": "1"}),
    "stopped 3": ("threshold at rest", {
        "algorithm": 3, "h": [["1"], ["1/2"]], "theta": ["3"], "share": [["1/2"], ["1"]], "g": [["1"], ["-1"]], "epsilon": "1/4",
        "lambda1": "1", "lambda2": "2"}),
    "wire": ("threshold on the wire", {
        "h": [["1"], ["2"]], "c": [["0"], ["1"]], "theta": ["20"], "lambda1": "1", "lambda2": "20", "epsilon": "3/4", "T": 3}),
    "wire, alone": ("threshold on the wire", {
        "h": [["1"]], "c": [["0"]], "theta": ["41"], "lambda1": "1", "lambda2": "30", "epsilon": "1/2", "T": 4}),
    "wire, silent": ("threshold on the wire", {
        "h": [["1"], ["2"]], "c": [["0"], ["1"]], "theta": ["4"], "lambda1": "1", "lambda2": "2", "epsilon": "5/4", "T": 3}),
    "wire, fed back": ("threshold on the wire", {
        "h": [["1"], ["2"]], "c": [["0"], ["1"]], "theta": ["20"], "lambda1": "0", "lambda2": "20", "epsilon": "3/4", "T": 3,
        "feedback": 1}),
    "wire, fed back signs": ("threshold on the wire", {
        "h": [["1"]], "c": [["0"]], "theta": ["3"], "lambda1": "1/2", "lambda2": "2", "epsilon": "1", "T": 2, "feedback": 1}),
}  # fmt: skip


def data(name):
    return {key: numbers(value) for key, value in INSTANCES[name][1].items()}


# --- Algorithm 2, one coordinate of one client at a time ------------------------------------------
class Rounds:
    """The rounds of an instance; what non-members would do is left at 0."""

    def __init__(self, d):
        self.d = d
        self.m, self.n, self.eta, self.B = len(d["h"]), len(d["theta"]), d["eta"], d["B"]
        m, n, B, eta = self.m, self.n, self.B, self.eta
        theta, c_k = d["theta"], d["c_k"]
        c = [sum(row[i] for row in c_k) / m for i in range(n)]
        self.theta, self.c_k, self.c, self.trace, self.move = [theta], [c_k], [c], [], []
        for members in d["cohorts"]:
            done = [[steps(d["h"][k][i], d["c"][k][i], theta[i], c_k[k][i], c[i], d) for i in range(n)] for k in range(m)]
            move = [[done[k][i][1] if k in members else F(0) for i in range(n)] for k in range(m)]
            new = [[c_k[k][i] - c[i] - move[k][i] / (B * eta) if k in members else c_k[k][i] for i in range(n)] for k in range(m)]
            theta = [theta[i] + d["eta_g"] * sum(row[i] for row in move) / len(members) for i in range(n)]
            c = [c[i] + sum(new[k][i] - c_k[k][i] for k in members) / m for i in range(n)]
            c_k = new
            self.theta.append(theta), self.c_k.append(c_k), self.c.append(c)
            self.trace.append([[done[k][i][0] if k in members else None for i in range(n)] for k in range(m)])
            self.move.append(move)

    def each(self, f):
        """f(t, k, i) for rounds, clients and coordinates; 0 for who does not take part."""
        there = [set(members) for members in self.d["cohorts"]]
        return [
            f(t, k, i) if k in there[t] else F(0) for t in range(len(there)) for k in range(self.m) for i in range(self.n)
        ]


def mean_of_c_k(r):
    return flat(r.c[1:]), [sum(row[i] for row in c_k) / r.m for c_k in r.c_k[1:] for i in range(r.n)]


def gradient_part(r, t, k, i, l1):
    """(1/B) sum of grad L_k + lambda_2 (y - theta) + l1 sign(y - theta)."""
    d = r.d
    return sum(
        d["h"][k][i] * (r.theta[t][i] + move - d["c"][k][i]) + d["lambda2"] * move + l1 * s for _, s, move in r.trace[t][k][i]
    ) / r.B


def what_c_k_holds(r):
    return r.each(lambda t, k, i: r.c_k[t + 1][k][i]), r.each(lambda t, k, i: gradient_part(r, t, k, i, r.d["lambda1"]))


def l1_part(r):
    left = r.each(lambda t, k, i: abs(r.c_k[t + 1][k][i] - gradient_part(r, t, k, i, 0)))
    return left, [r.d["lambda1"] * F(r.B - 1, r.B)] * len(left)


def servers_step(r):
    left = [b - a for x, y in zip(r.theta, r.theta[1:]) for a, b in zip(x, y)]
    return left, [-r.d["eta_g"] * r.B * r.eta * x for c in r.c[1:] for x in c]


def change(r, t, k, i):
    return r.c_k[t + 1][k][i] - r.c_k[t][k][i]


def recovered(r):
    return r.each(lambda *at: change(r, *at)), r.each(lambda t, k, i: -r.c[t][i] - r.move[t][k][i] / (r.B * r.eta))


def twice(r):
    left, right = recovered(r)
    assert left == right
    return [2 * r.n] * len(r.move), [r.n] * len(r.move)


def nonzeros(r):
    left, right = [], []
    for t, members in enumerate(r.d["cohorts"]):
        for k in range(r.m):
            left.append(sum(x != 0 for x in r.c[t]) if k in members else 0)
            right.append(sum((r.move[t][k][i] != 0) + (change(r, t, k, i) != 0) for i in range(r.n)) if k in members else 0)
    return left, right


def held(r, f):
    """f where |g_b| <= lambda_1 at every step, else 0."""
    return r.each(lambda t, k, i: f(t, k, i) if all(abs(g) <= r.d["lambda1"] for g, _, _ in r.trace[t][k][i]) else F(0))


def moved(r):
    return held(r, lambda t, k, i: abs(r.move[t][k][i]))


def sparsifies(r):
    left = moved(r)
    return left, [F(0)] * len(left)


def to_and_fro(r):
    return moved(r), held(r, lambda t, k, i: r.eta * (r.d["lambda1"] + max(abs(g) for g, _, _ in r.trace[t][k][i])))


def what_epsilon_has_to_be(r):
    return moved(r), held(r, lambda *_: 2 * r.eta * r.d["lambda1"])


def one_step(r):
    d = r.d

    def step(t, k, i):
        return -r.eta * (d["h"][k][i] * (r.theta[t][i] - d["c"][k][i]) - r.c_k[t][k][i] + r.c[t][i])

    return r.each(lambda t, k, i: r.move[t][k][i]), r.each(step)


def drag(r):
    d = r.d

    def one_way(t, k, i):
        later = {s for _, s, _ in r.trace[t][k][i][1:]}
        return len(later) == 1 and 0 not in later

    def formula(t, k, i):
        q, g = 1 - r.eta * (d["h"][k][i] + d["lambda2"]), r.trace[t][k][i][0][0]
        S, less = (1 - q**r.B) / (1 - q), (1 - q ** (r.B - 1)) / (1 - q)
        return -r.eta * (S * g - d["lambda1"] * less * sign(g))

    there = r.each(lambda *at: int(one_way(*at)))
    found, given = r.each(lambda t, k, i: r.move[t][k][i]), r.each(formula)
    return [x * on for x, on in zip(found, there)], [x * on for x, on in zip(given, there)]


# --- at rest, one coordinate ----------------------------------------------------------------------
class Rest:
    """rho = lambda_1 (1 - q^(B-1))/(1 - q^B); theta from grad R = mean of the r_k."""

    def __init__(self, d):
        self.d = d
        self.h, self.B, self.l1 = [row[0] for row in d["h"]], d["B"], d["lambda1"]
        self.m, self.eta = len(self.h), d["eta"]
        self.q = [1 - d["eta"] * (h + d["lambda2"]) for h in self.h]
        self.rho = [self.l1 * (1 - q ** (self.B - 1)) / (1 - q**self.B) for q in self.q]
        self.r = [s[0] * x for s, x in zip(d["sigma"], self.rho)]
        self.theta = (sum(h * c[0] for h, c in zip(self.h, d["c"])) + sum(self.r)) / sum(self.h)
        self.slope = [h * (self.theta - c[0]) for h, c in zip(self.h, d["c"])]
        self.c_k = [g - r for g, r in zip(self.slope, self.r)]
        self.grad = sum(self.slope) / self.m

    def after(self, theta, c_k):
        """A round of everybody, line by line."""
        c = sum(c_k) / self.m
        move = [steps(h, x[0], theta, k, c, self.d)[1] for h, x, k in zip(self.h, self.d["c"], c_k)]
        return [theta + self.d["eta_g"] * sum(move) / self.m, *(k - c - v / (self.B * self.eta) for k, v in zip(c_k, move))]

    def near(self):
        """Return what a round makes of the shifts, and the formula M(shifts) + J."""
        d, shift, more = self.d, self.d["shift"][0], [row[0] for row in self.d["shift_k"]]
        there = self.after(self.theta + shift, [a + b for a, b in zip(self.c_k, more)])
        left = [a - b for a, b in zip(there, [self.theta, *self.c_k])]
        mean, out = sum(more) / self.m, []
        for h, q, own, s, rest in zip(self.h, self.q, more, d["sigma"], self.r):
            r = h * shift - own + mean
            S = (1 - q**self.B) / (1 - q)
            jump = (-1) ** self.B * self.eta * self.l1 * (1 - (-q) ** (self.B - 1)) / (1 + q) * sign(rest + r)
            out.append((own, S * r, jump if s[0] == 0 else F(0)))
        theta = shift + d["eta_g"] * sum(J - self.eta * r for _, r, J in out) / self.m
        return left, [theta, *(own - mean + r / self.B - J / (self.B * self.eta) for own, r, J in out)]


def stationary(v):
    return [abs(v.grad)], [F(0)]


def within(v):
    return [abs(v.grad)], [sum(v.rho) / v.m]


def rests(v):
    return v.after(v.theta, v.c_k), [v.theta, *v.c_k]


def optimum_rests(v):
    """The first step of each client, of slope grad L_k - c_k, and what the whole round moves."""
    moved = v.after(v.theta, v.c_k)[0] - v.theta
    return [-v.eta * (g - c) + moved for g, c in zip(v.slope, v.c_k)], [F(0)] * v.m


def attracts(v):
    return [abs(v.near()[0][0])], [abs(v.d["shift"][0])]


# --- stability ------------------------------------------------------------------------------------
class Matrix:
    """SCAFFOLD of one or two clients: trace and determinant of (theta, c_1 - c); a further
    eigenvalue is 0."""

    def __init__(self, d):
        a, self.B, step = [h[0][0] for h in d["H"]], d["B"], d["eta_g"] * d["eta"]
        q = [1 - d["eta"] * (x + d["lambda2"]) for x in a]
        S = [(1 - x**self.B) / (1 - x) for x in q]
        if len(a) == 1:
            self.trace, self.det = 1 - step * S[0] * a[0], F(0)
            return
        A = [[1 - step * (S[0] * a[0] + S[1] * a[1]) / 2, step * (S[0] - S[1]) / 2],
             [(S[0] * a[0] - S[1] * a[1]) / (2 * self.B), 1 - (S[0] + S[1]) / (2 * self.B)]]  # fmt: skip
        self.trace, self.det = A[0][0] + A[1][1], A[0][0] * A[1][1] - A[0][1] * A[1][0]
        self.rise = step * (S[0] * a[0] + S[1] * a[1] - S[0] * S[1] * (a[0] + a[1]) / (2 * self.B))
        self.most = 4 - (S[0] + S[1]) / self.B

    def largest(self):
        """z (z^2 - trace z + det): |det|, then |trace|/(1 + det)."""
        return max(abs(self.det), abs(self.trace) / (1 + self.det))


def every_heterogeneity(v):
    return [v.largest()], [F(1)]


def room(v):
    """Return what the condition of two clients leaves: it is stable where this is above 0."""
    return v.most - v.rise


def two_clients(v):
    return [F(v.largest() < 1)], [F(v.rise < v.most)]


SIDES = {
    ("algorithm-2-variates", "c is the mean"): ("two rounds", Rounds, mean_of_c_k),
    ("algorithm-2-variates", "what c_k holds"): ("two rounds", Rounds, what_c_k_holds),
    ("algorithm-2-variates", "its l1 part"): ("two rounds", Rounds, l1_part),
    ("algorithm-2-variates", "the server's step"): ("everybody", Rounds, servers_step),
    ("second-message", "twice"): ("two rounds", Rounds, twice),
    ("second-message", "recovered"): ("two rounds", Rounds, recovered),
    ("second-message", "nonzeros of both"): ("two rounds", Rounds, nonzeros),
    ("algorithm-2-sparsity", "sparsifies"): ("two rounds", Rounds, sparsifies),
    ("algorithm-2-sparsity", "to and fro"): ("two rounds", Rounds, to_and_fro),
    ("algorithm-2-sparsity", "what epsilon has to be"): ("two rounds", Rounds, what_epsilon_has_to_be),
    ("algorithm-2-sparsity", "one local step"): ("one step", Rounds, one_step),
    ("algorithm-2-sparsity", "drag"): ("two rounds", Rounds, drag),
    ("algorithm-2-at-rest", "the drift is addressed"): ("at rest", Rest, stationary),
    ("algorithm-2-at-rest", "repaired"): ("at rest", Rest, within),
    ("algorithm-2-at-rest", "these points rest"): ("at rest", Rest, rests),
    ("algorithm-2-at-rest", "the optimum rests"): ("optimum", Rest, optimum_rests),
    ("algorithm-2-near-rest", "the optimum attracts"): ("optimum", Rest, attracts),
    ("algorithm-2-near-rest", "repaired"): ("optimum", Rest, Rest.near),
    ("algorithm-2-stability", "every heterogeneity"): ("one client", Matrix, every_heterogeneity),
    ("algorithm-2-stability", "two clients"): ("unequal", Matrix, two_clients),
    ("threshold-at-rest", "does not affect"): ("stopped 3", threshold.Stopped, threshold.no_effect),
    ("threshold-at-rest", "these states rest"): ("stopped 3", threshold.Stopped, threshold.stopped_rests),
    ("threshold-at-rest", "Algorithms 1 and 3"): ("stopped 3", threshold.Stopped, threshold.bound),
    ("threshold-at-rest", "Algorithm 2"): ("stopped 2", threshold.Stopped, threshold.bound),
    ("threshold-on-the-wire", "does not affect"): ("wire", threshold.Wire, threshold.closer),
    ("threshold-on-the-wire", "it drifts away"): ("wire, alone", threshold.Wire, threshold.drifts),
    ("threshold-on-the-wire", "nothing is ever sent"): ("wire, silent", threshold.Wire, threshold.silent),
    ("threshold-on-the-wire", "what the server misses"): ("wire", threshold.Wire, threshold.misses),
    ("threshold-on-the-wire", "with error feedback"): ("wire, fed back", threshold.Wire, threshold.fed_back),
    ("threshold-on-the-wire", "with error feedback, any lambda_1"): ("wire, fed back signs", threshold.Wire, threshold.fed_back_signs),
    ("threshold-on-the-wire", "does not affect, with error feedback"): ("wire, fed back signs", threshold.Wire, threshold.closer),
}


def worked(statement, form):
    """Both sides of a form on its instance, as flat lists."""
    name, kind, sides = SIDES[statement, form]
    return sides(kind(data(name)))
