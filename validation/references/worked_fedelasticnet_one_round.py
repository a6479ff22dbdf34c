"""FedElasticNet, (3), (5)-(7), and one round of all clients: both sides of every form, in plain
fractions.

As worked_fedelasticnet_main_text, which has the helpers. Local models are given and proved.
"""

from __future__ import annotations

from fractions import Fraction as F
from typing import Any

from worked_fedelasticnet_main_text import add, dot, form, mul, numbers, optimal, proved, sgn, solve_2, sub

__all__ = ["ROUNDS", "Objective", "Round", "Steps"]

TWO = {"H": ["2 1;1 1", "1 0;0 3"], "q": ["1 3", "-2 1"], "theta": "1 0"}
ROUNDS: dict[str, dict[str, Any]] = {
    # (5) and (7)
    "steps": {**TWO, "lr": "1/4", "B": 2, "l1": "0", "l2": "0", "controls": ["1 -1", "0 2"]},
    "penalised": {**TWO, "lr": "1/4", "B": 3, "l1": "1/2", "l2": "2", "controls": ["1 -1", "0 2"]},
    "one step": {**TWO, "lr": "1/4", "B": 1, "l1": "9", "l2": "2", "controls": ["1 -1", "0 2"]},
    "fresh": {**TWO, "lr": "1/4", "B": 2, "l1": "0", "l2": "0", "controls": "fresh"},
    "fresh, penalised": {**TWO, "lr": "1/4", "B": 2, "l1": "9", "l2": "0", "controls": "fresh"},
    "at rest": {**TWO, "theta": "-8/11 13/11", "lr": "1/4", "B": 2, "l1": "1/2", "l2": "2", "controls": "fresh"},
    "bends": {
        "H": ["1 0;0 0", "144/169 60/169;60/169 25/169"], "q": ["0 0", "0 0"], "theta": "3 -4", "lr": "1", "B": 8, "l1": "0",
        "l2": "0", "controls": "fresh",
    },
    # (3) and the second term
    "counts": {**TWO, "counts": "3 1", "l1": "1/2", "l2": "168", "beta": "3"},
    "equal": {**TWO, "counts": "2 2", "l1": "1/2", "l2": "168", "beta": "3"},
    "practice": {**TWO, "counts": "1 1", "l1": "1/10000", "l2": "168", "beta": "3"},
    "slope": {"H": ["1 0;0 0", "2 0;0 0"], "q": ["1 3", "1 -1"], "theta": "1 0", "counts": "1 1", "l1": "1", "l2": "84", "beta": "3"},
    # one round of all clients; delta of each
    "round": {**TWO, "stored": ["1 0", "2 -1"], "l1": "1/2", "l2": "3", "beta": "3", "mu": "1", "delta": ["0 3/8", "-1/8 0"]},
    "FedDyn": {**TWO, "stored": ["1 0", "2 -1"], "l1": "0", "l2": "3", "beta": "3", "mu": "1", "delta": ["-2/19 10/19", "-1/4 0"]},
    "rest": {  # grad L_k(theta) = (1, -2) and (-1/2, 7/4); what is stored is within 1/4 of it and adds up to 0
        "H": ["2 1;1 1", "1 0;0 3"], "q": ["1 3", "3/2 -7/4"], "theta": "1 0", "stored": ["3/4 -15/8", "-3/4 15/8"], "l1": "1/2",
        "l2": "3", "beta": "3", "mu": "1", "delta": ["0 0", "0 0"],
    },
    "rest, true": {  # grad L_k(theta) = (1, -2), and minus that
        "H": ["2 1;1 1", "1 0;0 3"], "q": ["1 3", "2 -2"], "theta": "1 0", "stored": ["1 -2", "-1 2"], "l1": "1/2", "l2": "3",
        "beta": "3", "mu": "1", "delta": ["0 0", "0 0"],
    },
    "rest, FedDyn": {
        "H": ["2 1;1 1", "1 0;0 3"], "q": ["1 3", "2 -2"], "theta": "1 0", "stored": ["1 -2", "-1 2"], "l1": "0", "l2": "3",
        "beta": "3", "mu": "1", "delta": ["0 0", "0 0"],
    },
}  # fmt: skip


class Clients:
    """L_k(x) = x'H_k x/2 - q_k'x in the plane."""

    def __init__(self, given: dict[str, Any]) -> None:
        self.H, self.q = [numbers(h) for h in given["H"]], [numbers(q) for q in given["q"]]
        self.theta, self.m = numbers(given["theta"]), F(len(given["H"]))
        self.l1, self.l2 = F(given["l1"]), F(given["l2"])

    def grad(self, k: int, x: list[F]) -> list[F]:
        return sub(mul(self.H[k], x), self.q[k])

    @property
    def each(self) -> range:
        return range(len(self.H))

    def mean(self, rows: list[list[F]]) -> list[F]:
        return [sum(column) / self.m for column in zip(*rows, strict=True)]

    @property
    def slope(self) -> list[F]:
        """grad R(theta)."""
        return self.mean([self.grad(k, self.theta) for k in self.each])

    @property
    def star(self) -> list[F]:
        H = [[self.m * x for x in self.mean([h[i] for h in self.H])] for i in range(2)]
        return solve_2(H, [self.m * x for x in self.mean(self.q)])

    def R(self, x: list[F]) -> F:
        return sum(dot(x, mul(h, x)) / 2 - dot(q, x) for h, q in zip(self.H, self.q, strict=True)) / self.m


# --- (5) to (7) -----------------------------------------------------------------------------------
class Steps(Clients):
    """B local steps of each client."""

    def __init__(self, given: dict[str, Any]) -> None:
        super().__init__(given)
        self.lr, self.B = F(given["lr"]), given["B"]
        fresh = given["controls"] == "fresh"
        self.c_k = [self.grad(k, self.theta) for k in self.each] if fresh else [numbers(c) for c in given["controls"]]
        self.c = self.mean(self.c_k)
        self.path = [self.steps(k, self.l1, self.l2) for k in self.each]
        self.moves = [sub(path[-1], self.theta) for path in self.path]

    def steps(self, k: int, l1: F, l2: F) -> list[list[F]]:
        """theta, and the local model after each step of (7)."""
        y, out = self.theta, [self.theta]
        for _ in range(self.B):
            g = self.grad(k, y)
            y = [
                y[i] - self.lr * (g[i] - self.c_k[k][i] + self.c[i] + l2 * (y[i] - self.theta[i]) + l1 * sgn(y[i] - self.theta[i]))
                for i in range(2)
            ]
            out.append(y)
        return out

    def control(self, k: int) -> list[F]:
        """(6)."""
        return [self.c_k[k][i] - self.c[i] + (self.theta[i] - self.path[k][-1][i]) / (self.B * self.lr) for i in range(2)]

    def seen(self, k: int, penalties: int) -> list[F]:
        """(1/B) sum_b of the gradients, with the penalties or without."""
        total = [F(0), F(0)]
        for y in self.path[k][:-1]:
            g, away = self.grad(k, y), sub(y, self.theta)
            total = [t + g[i] + penalties * (self.l2 * away[i] + self.l1 * sgn(away[i])) for i, t in enumerate(total)]
        return [t / self.B for t in total]


def flat(rows: list[list[F]]) -> list[F]:
    return [x for row in rows for x in row]


@form("eq-6", "mean of the gradients", "steps", "fresh")
@form("eq-7", "control variate", "penalised")
def _(v: Steps):
    return flat([v.control(k) for k in v.each]), flat([v.seen(k, 0) for k in v.each])


@form("eq-7", "repaired", "penalised")
def _(v: Steps):
    return flat([v.control(k) for k in v.each]), flat([v.seen(k, 1) for k in v.each])


@form("eq-7", "the gradient of the l1 norm", "penalised")
def _(v: Steps):  # x the update of a client, z three times that of the one before it
    pairs = list(zip(flat(v.moves), flat([[3 * x for x in move] for move in (v.moves[-1], *v.moves[:-1])]), strict=True))
    return [v.l1 * (abs(x) + sgn(x) * (z - x)) for x, z in pairs], [v.l1 * abs(z) for _, z in pairs]


@form("eq-7", "the first step", "penalised", "one step")
def _(v: Steps):
    return flat([v.path[k][1] for k in v.each]), flat([v.steps(k, F(0), F(0))[1] for k in v.each])


@form("eq-7", "it sparsifies", "one step", "penalised")
def _(v: Steps):
    out = []
    for k in v.each:
        pull = [g - c + mean for g, c, mean in zip(v.grad(k, v.theta), v.c_k[k], v.c, strict=True)]
        out += [abs(move) if abs(p) <= v.l1 else F(0) for move, p in zip(v.moves[k], pull, strict=True)]
    return out, [F(0)] * len(out)


@form("local-direction", "an acute angle", "steps", "bends")
@form("local-direction", "fresh, an acute angle", "fresh", "bends")
def _(v: Steps):
    return [F(0)] * len(v.moves), [dot(move, sub(v.star, v.theta)) for move in v.moves]


@form("local-direction", "repaired", "fresh", "bends")
def _(v: Steps):
    return [dot(v.slope, move) for move in v.moves], [-v.lr * dot(v.slope, v.slope)] * len(v.moves)


@form("local-direction", "of the steps (7)", "fresh, penalised")
def _(v: Steps):
    return [dot(v.slope, move) for move in v.moves], [F(0)] * len(v.moves)


@form("local-direction", "at the optimum", "at rest")
def _(v: Steps):
    return flat([path[-1] for path in v.path]), flat([v.theta for _ in v.each])


# --- (3) and the second term ----------------------------------------------------------------------
class Objective(Clients):
    """R, the counts and the constants."""

    def __init__(self, given: dict[str, Any]) -> None:
        super().__init__(given)
        self.counts, self.beta = numbers(given["counts"]), F(given["beta"])

    def second(self, c: F = F(1)) -> F:
        """kappa'/kappa_0 lambda_1^2 d, everything times c."""
        b, l2, l1 = c * self.beta, c * self.l2, c * self.l1
        kappa_1 = 5 / l2 * (l2 + b) / (l2**2 - 25 * b**2)
        kappa_0 = 2 / l2 * (l2**2 - 25 * l2 * b - 50 * b**2) / (l2**2 - 25 * b**2)
        return kappa_1 / kappa_0 * l1**2 * len(self.theta)


@form("eq-3", "a minimiser exists", "slope")
def _(v: Objective):
    """The least |d_i R| of diagonal losses: 0 where R is curved along i, and what the slope is
    where it is flat."""
    curved = [any(h[i][i] for h in v.H) for i in range(2)]
    return [F(0) if c else abs(s) for c, s in zip(curved, v.slope, strict=True)], [F(0), F(0)]


@form("eq-3", "Algorithm 1", "counts")
@form("eq-3", "equal counts", "equal")
def _(v: Objective):
    n = sum(v.counts)
    rows = [[c / n * x for x in v.grad(k, v.star)] for k, c in enumerate(v.counts)]
    return [sum(column) for column in zip(*rows, strict=True)], [F(0), F(0)]


@form("second-term", "a hundredth of the gap", "practice")
def _(v: Objective):
    return [v.second()], [(v.R(v.theta) - v.R(v.star)) / 100]


@form("second-term", "repaired", "counts", "practice")
def _(v: Objective):  # times the square of the gradient
    b = v.beta / v.l2
    c = 5 * b * (1 + b) / (1 - 25 * b - 50 * b**2)
    return [v.second() * dot(v.slope, v.slope)], [c * v.l1**2 * len(v.theta) * (v.R(v.theta) - v.R(v.star))]


@form("second-term", "units", "counts")
def _(v: Objective):
    return [v.second(F(7, 2))], [F(7, 2) * v.second()]


# --- one round of all clients ---------------------------------------------------------------------
class Round(Clients):
    """One round from (theta, stored), the local models proved."""

    def __init__(self, given: dict[str, Any], rule: str) -> None:
        super().__init__(given)
        self.g, self.delta = [numbers(g) for g in given["stored"]], [numbers(x) for x in given["delta"]]
        self.beta, self.mu = F(given["beta"]), F(given["mu"])
        self.h = self.mean(self.g)
        self.gamma = add(self.theta, [x / self.l2 for x in self.h])
        self.local = [add(self.theta, x) for x in self.delta]
        self.at_local = [self.grad(k, x) for k, x in enumerate(self.local)]
        for k, x in enumerate(self.delta):
            proved(optimal(add(sub(self.at_local[k], self.g[k]), [self.l2 * v for v in x]), x, self.l1))
        self.signs = [[F(sgn(v)) for v in x] for x in self.delta]
        line_5 = [
            [a - self.l2 * x - self.l1 * s for a, x, s in zip(*row, strict=True)]
            for row in zip(self.g, self.delta, self.signs, strict=True)
        ]
        self.stored = line_5 if rule == "sign" else self.at_local
        self.off = sum(dot(sub(x, self.star), sub(x, self.star)) for x in self.local) / self.m

    def square(self, x: list[F]) -> F:
        return dot(x, x)

    @property
    def C(self) -> F:
        return sum(self.square(sub(g, self.grad(k, self.star))) for k, g in enumerate(self.stored)) / self.m


@form("consistency", "FedDyn", "rest, FedDyn")
@form("consistency", "stationary for R", "rest", "rest, true")
def _(v: Round):
    return v.slope, [F(0), F(0)]


@form("consistency", "repaired", "rest")
def _(v: Round):
    return [abs(x) for x in v.slope], [v.l1, v.l1]


@form("consistency", "no drift at rest", "rest", "rest, true", "rest, FedDyn")
def _(v: Round):
    return flat(v.local), flat([v.theta for _ in v.local])


@form("average-of-signs", "a tenth", "round")
def _(v: Round):
    return [abs(x) for x in v.mean(v.signs)], [F(1, 10)] * 2


@form("average-of-signs", "repaired", "round")
def _(v: Round):
    """lambda_1 s_k is what (11) leaves: +-lambda_1 where delta is not 0, g - grad L(theta_k) where
    it is."""
    s = []
    for k, move in enumerate(v.delta):
        pull = sub(v.g[k], v.at_local[k])
        s.append([v.l1 * sgn(x) if x else p for x, p in zip(move, pull, strict=True)])
    right = sub(sub(v.h, v.mean(v.at_local)), [v.l2 * x for x in v.mean(v.delta)])
    return v.mean(s), right


@form("deviation", "at the optimum", "rest", "rest, true")
def _(v: Round):
    return v.gamma, v.star


@form("deviation", "repaired", "rest")
def _(v: Round):  # squared
    return [v.mu**2 * v.square(sub(v.gamma, v.star))], [2 * v.l1**2]


@form("limits-of-c-and-epsilon", "C_t, gradients of L_k", "round", "FedDyn")
def _(v: Round):
    away = [sub(g, v.grad(k, v.star)) for k, g in enumerate(v.at_local)]
    return [sum(v.square(x) for x in away) / v.m], [v.beta**2 * v.off]


@form("limits-of-c-and-epsilon", "C_t, as stored", "round", "rest")
def _(v: Round):
    return [v.C], [v.beta**2 * v.off]


@form("limits-of-c-and-epsilon", "C_t, repaired", "round", "rest")
def _(v: Round):
    zeros = sum(x == 0 for move in v.delta for x in move) / v.m
    return [v.C], [2 * v.beta**2 * v.off + 2 * v.l1**2 * zeros]


@form("limits-of-c-and-epsilon", "epsilon_t", "round", "FedDyn")
def _(v: Round):
    epsilon = sum(v.square(sub(x, v.gamma)) for x in v.local) / v.m
    return [epsilon], [2 * v.off + 2 * v.square(sub(v.gamma, v.star))]


@form("no-additional-costs", "from the updates alone", "round")
def _(v: Round):
    sent = [[v.l2 * x + v.l1 * s for x, s in zip(*row, strict=True)] for row in zip(v.delta, v.signs, strict=True)]
    return v.mean(v.stored), sub(v.h, v.mean(sent))
