"""EFL's Corollary 1 in plain fractions, from the formulas as they are shown: limits with a client
that is idle with probability y and without it, two clients at a deadline, and local epochs.
"""

from __future__ import annotations

from second_writing import Sheet
from worked_efl import Q, Run, fractions, theorem_1, theorem_1_sharp


class Abandon:
    """Limits argmin sum_k E[p s] f_k, the last client idle with probability y; 1: without it."""

    def __init__(self, data):
        self.p, self.h, self.c, self.y = (
            fractions(data["weights"]),
            fractions(data["h"]),
            fractions(data["c"]),
            Q(data["y"]),
        )
        self.L, self.mu = max(map(max, self.h)), min(map(min, self.h))
        self.rho = self.y * self.p[-1]
        self.kept, self.gone, self.star = (self.limit(y) for y in (self.y, 1, 0))
        self.distance_sq = sum((a - b) ** 2 for a, b in zip(self.kept, self.star))
        self.D_a = self.loss(self.kept, -1)  # F_a(lim w) - F_a^*

    def limit(self, y):
        p = [*self.p[:-1], self.p[-1] * (1 - y)]
        return [
            sum(w * h[i] * c[i] for w, h, c in zip(p, self.h, self.c))
            / sum(w * h[i] for w, h in zip(p, self.h))
            for i in range(len(self.h[0]))
        ]

    def loss(self, x, k):
        return sum(h * (a - c) ** 2 for h, a, c in zip(self.h[k], x, self.c[k])) / 2

    def F(self, x, clients=None):
        """sum_k p^k f_k(x), of the first `clients` where given."""
        return sum(self.p[k] * self.loss(x, k) for k in range(clients or len(self.p)))


class Keep:
    """Client 2 of (w - 1)^2/2 and (w + 1)^2/2 idle with probability y, scheme C; client 1 alone.

    (8) is y J > f_1(T): J of the run with both clients, f_1 Theorem 1's bound of the one alone.
    """

    def __init__(self, data):
        noise, idle = {"9/4": "3/2", "25/9": "5/3"}[data["sigma_sq"]], str(1 - Q(data["y"]))
        one = {"weights": ["1"], "h": [["1"]], "c": [["1"]], "noise": [[noise]], "w0": [data["x0"]]}
        both = {
            "weights": ["1/2"] * 2,
            "h": [["1"]] * 2,
            "c": [["1"], ["-1"]],
            "noise": [[noise]] * 2,
        }
        laws, T = [[["0", "1"], [data["y"], idle]]], data["rounds"]
        self.kept = Run("C", {**one, **both, "laws": laws, "T": T})
        self.alone = Run("C", {**one, "laws": [[["0", "1"]]], "T": T})
        self.J, self.f_1 = self.kept.J(), theorem_1(self.alone, T)


class Epochs:
    """Thresholds at E and E + 1 for full participation without the client: S = E, theta = 1,
    mu = 1, up to 8/sum p D.

    C = (16/mu)^2 B, J = 32E sum p D/mu, B = E noise + (2 + mu/(4L)) E(E-1)G^2 E + 2E^2 G^2, so that
    C/J = B/E up to that factor.
    """

    def __init__(self, data):
        self.noise, self.G, self.kappa = (Q(data[k]) for k in ("noise", "G_sq", "kappa"))
        self.E, self.T = data["E"], data["T"]

    def C_over_J(self, E):
        return (
            E * self.noise
            + (2 + 1 / (4 * self.kappa)) * E * (E - 1) * self.G * E
            + 2 * E * E * self.G
        ) / E

    def by_9(self, E):
        """(C/J)/(TE), times T."""
        return self.C_over_J(E) / E

    def by_8(self, E):
        """f_1(T)/J = T (C/J)/(TE + gamma)^2, gamma = max{4E^2/E, 64E kappa/E}."""
        return self.T * self.C_over_J(E) / (self.T * E + max(4 * E, 64 * self.kappa)) ** 2

    def late(self, E):
        """lim T f_1(T)/J = (C/J)/E^2."""
        return self.C_over_J(E) / E**2


_EPOCHS = {"G_sq": "5/3", "kappa": "9/4", "E": 2, "T": 5}
SHEET = Sheet(
    "efl",
    {"abandon": Abandon, "keep": Keep, "epochs": Epochs},
    {
        "much noise": ("epochs", _EPOCHS | {"noise": "40"}),
        "little": ("epochs", _EPOCHS | {"noise": "1/7"}),
    },
)
form = SHEET.form


@form("corollary-1", "printed, T to infinity")
def _(v):
    return v.F(v.gone), v.F(v.kept)


@form("corollary-1", "repaired")
def _(v):
    return v.F(v.kept), v.F(v.gone)


@form("corollary-1", "without a")
def _(v):
    return v.F(v.gone, 2), v.F(v.kept, 2)


@form("corollary-1", "bias")
def _(v):
    # ||lim w - w*||^2 <= 2L (y p^a)^2 D_a/mu^2
    return v.distance_sq, 2 * v.L * v.rho**2 * v.D_a / v.mu**2


@form("corollary-1", "sharp bias")
def _(v):
    # ||lim w - w*||^2 <= 2L rho^2 D_a/(mu^2 (1 - rho)^2 + mu L rho (2 - rho))
    below = v.mu**2 * (1 - v.rho) ** 2 + v.mu * v.L * v.rho * (2 - v.rho)
    return v.distance_sq, 2 * v.L * v.rho**2 * v.D_a / below


@form("corollary-1", "printed")
def _(v):
    # E F(w_T) without the client and with it, F = ((w - 1)^2 + (w + 1)^2)/4 = (w^2 + 1)/2
    return (v.alone.square_w[0] + 1) / 2, (v.kept.square_w[0] + 1) / 2


@form("corollary-1-own-optimum", "own optima")
def _(v):
    return v.alone.distance_sq[-1], v.kept.distance_sq[-1]


@form("corollary-1-own-optimum", "bound")
def _(v):
    return v.alone.distance_sq[-1], theorem_1_sharp(v.alone, v.alone.T)


for name, threshold, way in (
    ("through (9)", Epochs.by_9, 1), ("through (8)", Epochs.by_8, 1),
    ("through (8), T to infinity", Epochs.late, 1),
    ("through (8), T to infinity, converse", Epochs.late, -1),
    ("repaired", Epochs.by_9, 1), ("repaired, converse", Epochs.by_9, -1),
):  # fmt: skip
    form("corollary-1-epochs", name)(
        lambda v, of=threshold, way=way: (of(v, v.E + 1), of(v, v.E))[::way]
    )


@form("corollary-1-epochs", "for a given number of steps")
def _(v):
    return v.by_9(v.E) * v.E, v.by_9(v.E + 1) * (v.E + 1)
