"""EFL's sections 4.1, 4.2 and Corollary 1 in fractions: plain Python, nothing of the library.

Every function gives both sides of one form, from the printed formula beside it; of an equality
|lhs - rhs| and 0.
"""

from __future__ import annotations

from worked_efl import Q, Run, cases, fractions, mul, theorem_1, theorem_1_sharp

# round by round: nobody idle; all alike; not alike; one of both; nobody
LATE = {
    "idle": [["0", "0"], ["1/4", "1/4"], ["1/4", "1/2"], ["0", "1/2"], ["0", "0"]],
    "E": 3, "T": 5, "gamma": "13", "J": "7/3", "C": "11/2", "y": "1/5", "tau_0": 2,
}  # fmt: skip
START = LATE | {"tau_0": 0}
INCOMPLETE = {
    "weights": ["2/3", "1/3"], "law": [["0", "1/2", "0", "1/2"], ["0", "1/4", "3/4", "0"]], "L": "5/2", "mu": "2/3", "G_sq": "7",
    "sigma_sq": ["1/2", "3"], "D": ["1/5", "4/3"],
}  # fmt: skip
ABANDON = {
    "weights": ["1/2", "1/6", "1/3"], "h": [["1", "2"], ["3", "1"], ["2", "1/2"]], "c": [["1", "0"], ["-1", "2"], ["3", "-2"]],
    "y": "1/4",
}  # fmt: skip
MANY = {"noise": "9", "G_sq": "1/2", "kappa": "3", "E": 3, "T": 7}
FEW = MANY | {"noise": "16"}
MORE = MANY | {"noise": "1/20"}
KEEP = {"y": "1/3", "sigma_sq": "9/4", "x0": "3/2", "rounds": 3}


# --- 4.1: inactive clients ---------------------------------------------------------------------
class Inactive:
    """H_tau = sum r_t, r_t = 1 iff E[p s]/p^k = E (1 - y_t^k) is not the same for all k; some = sum
    y_t, y_t = 1 iff somebody may be idle."""

    def __init__(self, data):
        idle = fractions(data["idle"])
        self.E, self.T, self.tau_0 = data["E"], data["T"], data["tau_0"]
        self.gamma, self.J, self.C, self.y = (Q(data[k]) for k in ("gamma", "J", "C", "y"))
        self.H = sum(len({self.E * (1 - y) for y in row}) > 1 for row in idle)
        self.some = sum(any(y > 0 for y in row) for row in idle)
        # C~_T/(E(T - tau_0) + gamma~)^2, C~_T = TC
        self.f_1 = self.T * self.C / (self.E * (self.T - self.tau_0) + self.gamma) ** 2
        self.order = self.C / self.J / (self.T * self.E)  # (C/J)/(TE)
        self.whole = self.T * self.C / (self.T * self.E + self.gamma) ** 2 + self.H * self.J / (self.T * self.E + self.gamma)

    def term(self, total, tau):
        return total * self.J / (tau * self.E + self.gamma)


INACTIVE_RATE = {
    # H J/(tau E + gamma) <= sum y_t J/(tau E + E^2)
    "heterogeneity term": (LATE, lambda v: (v.term(v.H, v.T), v.some * v.J / (v.T * v.E + v.E**2))),
    # TC/(tau E + gamma)^2 + H J/(tau E + gamma) <= (1 + C/(EJ)) sum y_t J/(tau E + E^2), or 1000
    # for the bracket
    "printed": (LATE, lambda v: (v.whole, (1 + v.C / (v.E * v.J)) * v.some * v.J / (v.T * v.E + v.E**2))),
    "one constant": (LATE, lambda v: (v.whole, 1000 * v.some * v.J / (v.T * v.E + v.E**2))),
    "equality": (LATE, lambda v: (abs(v.H - v.some), 0)),
    "repaired": (LATE, lambda v: (v.H, v.some)),
    # with y_t = 1 in every round: the term at 4 tau below that at tau
    "converges if y_t is O(tau)": (LATE, lambda v: (v.term(4 * v.T, 4 * v.T), v.term(v.T, v.T))),
    # sum y_t J/(tau E + gamma) <= (J/E) (1/tau) sum y_t
    "converges if the sum is o(tau)": (LATE, lambda v: (v.term(v.some, v.T), v.J / v.E * v.some / v.T)),
    # lim tau J/(tau E + gamma) = J/E against y J, and against J/E
    "f_0": (LATE, lambda v: (abs(v.J / v.E - v.y * v.J), 0)),
    "f_0 repaired": (LATE, lambda v: (Q(0), 0)),
}
THRESHOLD = {
    "printed": (LATE, lambda v: (v.f_1 / v.J, 4 * v.order)),  # f_1(T)/J <= 4 (C/J)/(TE)
    "without the O, necessary": (LATE, lambda v: (v.order, v.y)),
    "without the O, sufficient": (LATE, lambda v: (v.f_1, v.y * v.J)),  # (8)
    "without the O, from the start": (START, lambda v: (v.f_1 / v.J, v.order)),
    "repaired": (START, lambda v: (v.f_1 / v.J, v.order / v.E)),  # (C/J)/(TE^2)
}


# --- 4.2: incomplete clients -------------------------------------------------------------------
def incomplete(data):
    """E[B_t] of scheme C, theta = E, against
    (6L max D + 17/4 G^2) E^5 sum p E[1/s] + E^2 sum (p sigma)^2 E[1/s]."""
    p, law, sigma_sq, D = (fractions(data[k]) for k in ("weights", "law", "sigma_sq", "D"))
    L, mu, G = (Q(data[k]) for k in ("L", "mu", "G_sq"))
    E = theta = len(law[0]) - 1
    B = Q(0)
    for mass, s, c in cases("C", law, p):
        ps = sum(map(mul, c, s))
        noise = sum(x * x * n * v for x, n, v in zip(c, s, sigma_sq))
        data = 2 * (2 + theta) * L * sum(x * n * d for x, n, d in zip(c, s, D))
        bracket = ps + theta * max(sum(c) - 2, 0) * ps
        third = (2 + mu / (2 * (1 + theta) * L)) * E * (E - 1) * G * bracket
        B += mass * (noise + data + third + 2 * E * G * sum(x * x * n / w for x, n, w in zip(c, s, p)))
    inverse = [sum(q / s for s, q in enumerate(row) if s) for row in law]
    spread = (6 * L * max(D) + Q(17, 4) * G) * E**5 * sum(map(mul, p, inverse))
    return B, spread + E**2 * sum(w * w * v * x for w, v, x in zip(p, sigma_sq, inverse))


def unbiased(data):
    """|E[p s] - E p^k| of the last client."""
    p, law = fractions(data["weights"]), fractions(data["law"])
    return abs(sum(mass * c[-1] * s[-1] for mass, s, c in cases("C", law, p)) - (len(law[0]) - 1) * p[-1]), 0


# --- Corollary 1 -------------------------------------------------------------------------------
class Abandon:
    """Limits argmin sum_k E[p s] f_k, the last client idle with probability y; 1: without it."""

    def __init__(self, data):
        self.p, self.h, self.c, self.y = fractions(data["weights"]), fractions(data["h"]), fractions(data["c"]), Q(data["y"])
        self.L, self.mu = max(map(max, self.h)), min(map(min, self.h))
        self.rho = self.y * self.p[-1]
        self.kept, self.gone, self.star = (self.limit(y) for y in (self.y, 1, 0))
        self.distance_sq = sum((a - b) ** 2 for a, b in zip(self.kept, self.star))
        self.D_a = self.loss(self.kept, -1)  # F_a(lim w) - F_a^*

    def limit(self, y):
        p = [*self.p[:-1], self.p[-1] * (1 - y)]
        return [
            sum(w * h[i] * c[i] for w, h, c in zip(p, self.h, self.c)) / sum(w * h[i] for w, h in zip(p, self.h))
            for i in range(len(self.h[0]))
        ]

    def loss(self, x, k):
        return sum(h * (a - c) ** 2 for h, a, c in zip(self.h[k], x, self.c[k])) / 2

    def F(self, x, clients=None):
        """sum_k p^k f_k(x), of the first `clients` where given."""
        return sum(self.p[k] * self.loss(x, k) for k in range(clients or len(self.p)))


def _keep():
    """Client 2 of (w - 1)^2/2 and (w + 1)^2/2 idle with probability y, scheme C; client 1 alone."""
    noise = {"9/4": "3/2", "25/9": "5/3"}[KEEP["sigma_sq"]]
    idle = str(1 - Q(KEEP["y"]))
    both = {"weights": ["1/2", "1/2"], "h": [["1"], ["1"]], "c": [["1"], ["-1"]], "noise": [[noise]] * 2, "w0": [KEEP["x0"]]}
    kept = Run("C", both | {"laws": [[["0", "1"], [KEEP["y"], idle]]], "T": KEEP["rounds"]})
    one = {"weights": ["1"], "h": [["1"]], "c": [["1"]], "noise": [[noise]], "w0": [KEEP["x0"]], "laws": [[["0", "1"]]]}
    return kept, Run("C", one | {"T": KEEP["rounds"]})


def rule_8():
    """J of the run with both clients, and f_1(T), Theorem 1's bound as repaired for the one alone.

    (8) is y J > f_1(T).
    """
    kept, alone = _keep()
    return kept.J(), theorem_1(alone, alone.T)


def at_the_deadline():
    """E F(w_T) without the client and with it, F = ((w - 1)^2 + (w + 1)^2)/4 = (w^2 + 1)/2."""
    kept, alone = _keep()
    return (alone.square_w[0] + 1) / 2, (kept.square_w[0] + 1) / 2


def own_optima():
    """E||w_T - w*||^2, each run against its own optimum."""
    kept, alone = _keep()
    return alone.distance_sq[-1], kept.distance_sq[-1]


def own_bound():
    """E||w_T - w*||^2 of client 1 alone against Theorem 1 as sharpened."""
    alone = _keep()[1]
    return alone.distance_sq[-1], theorem_1_sharp(alone, alone.T)


COROLLARY_1 = {
    "printed": (KEEP, at_the_deadline),
    "printed, T to infinity": (ABANDON, lambda v: (v.F(v.gone), v.F(v.kept))),
    "repaired": (ABANDON, lambda v: (v.F(v.kept), v.F(v.gone))),
    "without a": (ABANDON, lambda v: (v.F(v.gone, 2), v.F(v.kept, 2))),
    # ||lim w - w*||^2 <= 2L (y p^a)^2 D_a/mu^2
    "bias": (ABANDON, lambda v: (v.distance_sq, 2 * v.L * v.rho**2 * v.D_a / v.mu**2)),
    # ||lim w - w*||^2 <= 2L rho^2 D_a/(mu^2 (1 - rho)^2 + mu L rho (2 - rho))
    "sharp bias": (
        ABANDON,
        lambda v: (
            v.distance_sq,
            2 * v.L * v.rho**2 * v.D_a / (v.mu**2 * (1 - v.rho) ** 2 + v.mu * v.L * v.rho * (2 - v.rho)),
        ),
    ),
}


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
        return (E * self.noise + (2 + 1 / (4 * self.kappa)) * E * (E - 1) * self.G * E + 2 * E * E * self.G) / E

    def by_9(self, E):
        """(C/J)/(TE), times T."""
        return self.C_over_J(E) / E

    def by_8(self, E):
        """f_1(T)/J = T (C/J)/(TE + gamma)^2, gamma = max{4E^2/E, 64E kappa/E}."""
        return self.T * self.C_over_J(E) / (self.T * E + max(4 * E, 64 * self.kappa)) ** 2

    def late(self, E):
        """lim T f_1(T)/J = (C/J)/E^2."""
        return self.C_over_J(E) / E**2


def _falls(of):
    return lambda v: (getattr(v, of)(v.E + 1), getattr(v, of)(v.E))


def _rises(of):
    return lambda v: _falls(of)(v)[::-1]


EPOCHS = {
    "through (9)": (MANY, _falls("by_9")),
    "through (8)": (MANY, _falls("by_8")),
    "through (8), T to infinity": (MANY, _falls("late")),
    "through (8), T to infinity, converse": (MORE, _rises("late")),
    "repaired": (FEW, _falls("by_9")),
    "repaired, converse": (MANY, _rises("by_9")),
    "for a given number of steps": (MANY, lambda v: (v.by_9(v.E) * v.E, v.by_9(v.E + 1) * (v.E + 1))),
}

FORMS = {
    **{("inactive-rate", f): (data, lambda d, fn=fn: fn(Inactive(d))) for f, (data, fn) in INACTIVE_RATE.items()},
    ("incomplete-rate", "printed"): (INCOMPLETE, incomplete),
    ("incomplete-rate", "unbiased"): (INCOMPLETE, unbiased),
    **{
        ("corollary-1", f): (data, (lambda d, fn=fn: fn()) if data is KEEP else (lambda d, fn=fn: fn(Abandon(d))))
        for f, (data, fn) in COROLLARY_1.items()
    },
    **{("corollary-1-threshold", f): (data, lambda d, fn=fn: fn(Inactive(d))) for f, (data, fn) in THRESHOLD.items()},
    **{("corollary-1-epochs", f): (data, lambda d, fn=fn: fn(Epochs(d))) for f, (data, fn) in EPOCHS.items()},
    ("corollary-1-own-optimum", "own optima"): (KEEP, lambda d: own_optima()),
    ("corollary-1-own-optimum", "bound"): (KEEP, lambda d: own_bound()),
}
