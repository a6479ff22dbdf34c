"""Both sides of each form on where FedElasticNet's Algorithm 1 rests on parabolas, or goes.

They are in one coordinate and in fractions.

Beside worked_fedelasticnet_dynamics, which has the losses. Fixed points are found by trying which
clients move, and which way.
"""

from __future__ import annotations

from fractions import Fraction as F
from itertools import pairwise, product

from worked_fedelasticnet_dynamics import PARABOLA, local, parabola, rise, sign, slope


class Standstill:
    """Everyone in every round, w_k = n_k/n."""

    def __init__(self, losses, counts, l1, l2, start, rounds):
        self.losses, self.l1, self.l2, self.start, self.rounds = losses, F(l1), F(l2), F(start), rounds
        self.weights = [F(n) / sum(counts) for n in counts]
        self.bowls = [(h, c - own / h) for own, h, c, _ in losses]  # h (x - c)^2/2
        self.beta = max(h for h, _ in self.bowls)

    def mean(self, values):
        return sum((w * v for w, v in zip(self.weights, values, strict=True)), F(0))

    def moves(self, x):
        return [local(p, x, F(0), self.l1, self.l2) - x for p in self.losses]

    def slopes(self, x):
        return [slope(p, x) for p in self.losses]

    def shares(self, signs):
        """sum of w_k h_k/(h_k + lambda_2), and of w_k (h_k c_k - lambda_1 s_k)/(h_k + lambda_2), of
        the clients that move."""
        moving = [(w, h, c, s) for w, (h, c), s in zip(self.weights, self.bowls, signs, strict=True) if s]
        return (
            sum((w * h / (h + self.l2) for w, h, _, _ in moving), F(0)),
            sum((w * (h * c - self.l1 * s) / (h + self.l2) for w, h, c, s in moving), F(0)),
        )

    @property
    def ends(self):
        """The least and the largest fixed point."""
        low = max(c - self.l1 / h for h, c in self.bowls)
        high = min(c + self.l1 / h for h, c in self.bowls)
        if low <= high:
            return low, high
        for signs in product((-1, 0, 1), repeat=len(self.losses)):
            if any(signs):
                curved, pulled = self.shares(signs)
                if [sign(x) for x in self.moves(pulled / curved)] == list(signs):
                    return (pulled / curved,) * 2
        raise ValueError("no fixed point")

    @property
    def optimum(self):
        """Of sum_k w_k L_k."""
        return self.mean([h * c for h, c in self.bowls]) / self.mean([h for h, _ in self.bowls])


def in_words(v):
    return [v.mean([rise(p, v.optimum, x) for p in v.losses]) for x in v.ends], [F(0)] * 2


def stays(v):
    return [abs(v.mean(v.moves(v.optimum)))], [F(0)]


def limit(v):
    low, high = v.ends
    goal, path = min(max(v.start, low), high), [v.start]
    for _ in range(v.rounds):
        path.append(path[-1] + v.mean(v.moves(path[-1])))
    return [abs(b - goal) + abs(b - a) for a, b in pairwise(path)], [abs(a - goal) for a in path[:-1]]


def closed_form(v):
    pairs = [(x, *v.shares([sign(u) for u in v.moves(x)])) for x in v.ends]
    return [x * curved for x, curved, _ in pairs], [pulled for _, _, pulled in pairs]


def interval(v):
    """The ends, each where one step further the method moves, and the box in which no slope is
    above lambda_1."""
    tiny, (low, high) = F(1, 10**9), v.ends
    found = [x for x, out in ((low, -tiny), (high, tiny)) if not v.mean(v.moves(x)) and v.mean(v.moves(x + out))]
    bounds = [(c - v.l1 / h, c + v.l1 / h) for h, c in v.bowls]
    return found, [max(a for a, _ in bounds), min(b for _, b in bounds)]


def distance(v):
    out = []
    for x in v.ends:
        pulls = [v.l1 * sign(u) if u else -s for u, s in zip(v.moves(x), v.slopes(x), strict=True)]
        out.append(v.beta * v.mean([abs(u) for u in v.moves(x)]) / 2 + abs(v.mean(pulls)))
    return [abs(v.mean(v.slopes(x))) for x in v.ends], out


def apart():
    return Standstill([parabola(1, 0), parabola(3, 1)], [3, 1], F(1, 10), 1, F(1, 4), 2)


def alike():
    return Standstill([PARABOLA] * 2, [1, 1], 1, 1, F(1, 4), 2)


FORMS = {
    "in words": (apart, in_words),
    "in words, the optimum stays": (apart, stays),
    "limit": (apart, limit),
    "closed form": (apart, closed_form),
    "interval": (alike, interval),
    "distance": (apart, distance),
}
