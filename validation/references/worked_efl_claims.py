"""Worked instances of Table 1's rows, EFL's own and the non-convex ones, in plain fractions; and
all of EFL's claims together.

Written from the LaTeX of every form; nothing of the library is imported.
"""

from __future__ import annotations

from fractions import Fraction as Q

import worked_efl_compressed
import worked_efl_participation
import worked_efl_stability
from worked_efl import RUNS, Run
from worked_efl_sections import numbers, sq

ROW = {"h": ["1/2", "2"], "start": ["2", "1"], "root": "2", "K": "10", "loss": False}
ROW_LOSS = {**ROW, "root": "1/2", "loss": True}
UNITS = {"G": "3", "L": "2", "mu": "1/2", "S": "4", "sigma": "5", "clients": "10", "root": "1/2"}


class Family:
    """F = sum h_i w_i^2/2, one client, E = 1, eta_t = 16/(mu (t + 1 + 64 L/mu)); the run until the
    error is at most epsilon."""

    def __init__(self, h, start, root, loss):
        self.h, self.L, self.mu, self.root = h, max(h), min(h), root
        self.gamma, self.G_sq = 64 * max(h) / min(h), sum((x * w) ** 2 for x, w in zip(h, start))
        self.path = [start]
        while sum((x / 2 if loss else 1) * w * w for x, w in zip(h, self.path[-1])) > root**2:
            eta = 16 / (self.mu * (len(self.path) + self.gamma))
            self.path.append([w - eta * x * w for x, w in zip(h, self.path[-1])])
        self.needed = len(self.path) - 1

    def terms(self):
        return [self.G_sq / (self.mu * self.root**2), self.L / (self.mu * self.root)]


def family(data):
    return Family(numbers(data["h"]), numbers(data["start"]), Q(data["root"]), data["loss"])


def row(data):
    f = family(data)
    return [Q(f.needed)], [Q(data["K"]) * sum(f.terms())]


def row_units(data):
    """The loss F(w/2)/9: T and both terms of its row, and what they are made of."""
    f, c, s = family(data), Q(1, 3), Q(1, 2)
    h, start = [c * c * s * s * x for x in f.h], [w / s for w in f.path[0]]
    other = Family(h, start, c * f.root if data["loss"] else f.root / s, data["loss"])
    first, second = f.terms()
    expected = [first, second / c] if data["loss"] else [c * c * s * s * first, s * second]
    return [Q(other.needed), *other.terms()], [Q(f.needed), *expected]


def row_least(data):
    f = family(data)
    flat = f.h.index(f.mu)
    at = f.gamma - 15
    return (
        [(at / (at + T)) ** 32 * f.path[0][flat] ** 2 for T in range(1, f.needed + 1)],
        [sq(w) for w in f.path[1:]],
    )


def row_suffices(scheme):
    """max{512 b/(mu^2 T), 2 gamma^2 ||w_0 - w*||^2/(T E)^2} + H_T J/(T E + gamma) at T - 1 and
    T."""
    run, left, right = Run(scheme, RUNS[scheme]), [], []
    b = max(run.B_sharp(t) / run.S[t] ** 2 for t in range(run.T))
    for T in (run.T - 1, run.T):
        reached = max(512 * b / (run.mu**2 * T), 2 * run.gamma**2 * run.distance_sq[0] / (T * run.E) ** 2)
        H = sum(not run.same_ratio(t) for t in range(T))
        left.append(run.distance_sq[T])
        right.append(reached + H * run.J() / (T * run.E + run.gamma))
    return left, right


def table(data, a=Q(1), root=Q(1)):
    """The rows of EFL, VRL-SGD and FedAMP for the loss times a; EFL's epsilon is times a, the
    others' times a^2.

    ``root``: sqrt(a)
    """
    G, L, mu, S, sigma, N, e = (Q(data[k]) for k in ("G", "L", "mu", "S", "sigma", "clients", "root"))
    G, L, mu, sigma, own, other = a * G, a * L, a * mu, a * sigma, root * e, a * e
    efl = G**2 / (mu * S * own**2) + L / (mu * own)
    vrl = N * sigma**2 / (S * other**4) + N / other**2
    amp = G**2 / (L * S * other**2) + G / other**3 + L**2 / other
    return efl, vrl, amp


def of_four(data, other):
    rows = table(data, Q(4), Q(2))
    return [rows[0]], [rows[other]]


def orders(data):
    """sqrt(a) = min{1, V/(A + B)}: EFL's is the smaller; max{1, V/A}: VRL-SGD's."""
    G, mu, S, e = (Q(data[k]) for k in ("G", "mu", "S", "root"))
    own, theirs, _ = table(data)
    low, high = min(Q(1), theirs / own), max(Q(1), theirs / (G**2 / (mu * S * e**2)))
    small, large = table(data, low**2, low), table(data, high**2, high)
    return [small[0], large[1]], [small[1], large[0]]


def powers(data):
    G, L, mu, S, e = (Q(data[k]) for k in ("G", "L", "mu", "S", "root"))
    vrl = table(data)[1]
    amp = G**2 / (4 * L * S * e**2) + G / (16 * e**3) + 4 * L**2 / e
    return list(table(data, Q(4), Q(2))), [G**2 / (mu * S * e**2) + L / (2 * mu * e), vrl / 16, amp]


_ROW, _UNITS = "efl/table-1-row", "efl/table-1-non-convex"
WORKED = {
    **worked_efl_stability.WORKED,
    **worked_efl_compressed.WORKED,
    **worked_efl_participation.WORKED,
    (_ROW, "printed"): (ROW, row),
    (_ROW, "printed, loss"): (ROW_LOSS, row),
    (_ROW, "units"): (ROW, row_units),
    (_ROW, "units", "of the loss"): (ROW_LOSS, row_units),
    (_ROW, "lower bound"): (ROW, row_least),
    **{(_ROW, "repaired", scheme): ({**RUNS[scheme], "scheme": scheme}, row_suffices) for scheme in RUNS},
    (_UNITS, "VRL-SGD, for the loss times a constant"): (UNITS, lambda data: of_four(data, 1)),
    (_UNITS, "FedAMP, for the loss times a constant"): (UNITS, lambda data: of_four(data, 2)),
    (_UNITS, "repaired"): (UNITS, orders),
    (_UNITS, "units"): (UNITS, powers),
}


def sides(key):
    """The two sides of a worked form as flat lists."""
    data, function = WORKED[key]
    return function(key[2]) if function is row_suffices else function(data)
