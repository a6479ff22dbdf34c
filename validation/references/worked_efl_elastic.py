"""Worked instances of EFL's elastic term (sections 2, 3.1 and 4.3), in plain fractions.

Written from (2), (3) and the LaTeX of every form; nothing of the library is imported. Long runs are
in plain floats.
"""

from __future__ import annotations

from fractions import Fraction as Q

from worked_efl_sections import minimiser, numbers

ELASTIC = {
    "weights": ["1/4", "1/2", "1/4"], "h": [["1", "1/2"], ["3/4", "1"], ["1/2", "5/8"]],
    "c": [["2", "-2"], ["-1", "-3"], ["1/2", "4"]], "u": [["1/2", "3/4"], ["1/4", "1"], ["1", "1/8"]],
    "lam": "1/2", "eta": "1/4", "rounds": 0, "leaver": 1, "anchor": ["-2", "5"],
}  # fmt: skip
MATCHED = {**ELASTIC, "u": [["1/4", "1/2"], ["1/2", "1"], ["1/4", "1/2"]]}
# So slow that rounding does not cover what is left:
LONG_RUN = {**ELASTIC, "eta": "1/31", "rounds": 1000, "arithmetic": "float"}
DECAY = {**ELASTIC, "eta": "3/4", "rounds": 4, "c": [["2", "-5/4"], ["-1", "-3"], ["1/2", "4"]]}


class Elastic:
    """Quadratic clients, u^k fixed, E = 1.

    y_k = w - eta (grad f_k(w) + lambda (U w - V)), w' = sum_k p^k y_k, V' = sum_k u^k y_k.
    """

    def __init__(self, data):
        self.p, self.h, self.c, self.u = (numbers(data[k]) for k in ("weights", "h", "c", "u"))
        self.lam, self.eta, self.rounds = Q(data["lam"]), Q(data["eta"]), data["rounds"]
        self.leaver, self.anchor = data["leaver"], numbers(data["anchor"])
        self.U = [sum(column) for column in zip(*self.u, strict=True)]
        self.star = minimiser(self.p, self.h, self.c)
        e = self.lam * self.eta
        self.mixed = []  # p^k (1 - lambda eta U) + lambda eta u^k
        for p, row in zip(self.p, self.u, strict=True):
            self.mixed.append([p * (1 - e * U) + e * v for v, U in zip(row, self.U, strict=True)])
        self.fixed = minimiser(self.mixed, self.h, self.c)
        stay = [Q(0) if k == self.leaver else p for k, p in enumerate(self.p)]
        self.rest = [p / sum(stay) for p in stay]
        self.rest_star = minimiser(self.rest, self.h, self.c)

    def total(self, weights, i, x):
        """sum_k weights_k (grad f_k(x))_i, weights (N,)."""
        return sum(w * row[i] * (x - at[i]) for w, row, at in zip(weights, self.h, self.c, strict=True))

    def round(self, w, V, eta):
        new, report = [], []
        for i, x in enumerate(w):
            pull = self.lam * (self.U[i] * x - V[i])
            y = [x - eta * (row[i] * (x - at[i]) + pull) for row, at in zip(self.h, self.c, strict=True)]
            new.append(sum(p * v for p, v in zip(self.p, y, strict=True)))
            report.append(sum(row[i] * v for row, v in zip(self.u, y, strict=True)))
        return new, report

    def column(self, i):
        return [row[i] for row in self.u]

    def kept_limit(self):
        """sum_{k != a} hat p^k grad f_k(w) + lambda u^a (w - w^a) = 0."""
        out = []
        for i, at in enumerate(self.anchor):
            pull, own = (
                self.lam * self.u[self.leaver][i],
                sum(p * row[i] for p, row in zip(self.rest, self.h, strict=True)),
            )
            out.append((own * self.rest_star[i] + pull * at) / (own + pull))
        return out


def elastic_unbiased(data):
    """omega_eta = argmin sum_k p^k f_k."""
    e = Elastic(data)
    return e.fixed, e.star


def _stays(e, w):
    """w and V after a round, and before it: V with sum p^k grad f_k(w) + lambda (U w - V) = 0."""
    V = [e.U[i] * x + e.total(e.p, i, x) / e.lam for i, x in enumerate(w)]
    new, report = e.round(w, V, e.eta)
    return [*new, *report], [*w, *V]


def elastic_repaired(data):
    """A fixed point of (w, V): sum_k [p^k (1 - lambda eta U) + lambda eta u^k] grad f_k(w) = 0."""
    e = Elastic(data)
    return _stays(e, e.fixed)


def elastic_matched(data):
    """Compare the argmin with the fixed point of (w, V), where u^k/p^k is the same for all k."""
    e = Elastic(data)
    return _stays(e, e.star)


def elastic_when_unbiased(data):
    """sum_k [p^k (1 - lambda eta U) + lambda eta u^k] h_k (omega_eta - omega*)
    = -lambda eta sum_k u^k grad f_k(omega*)."""
    e = Elastic(data)
    lhs = [
        sum(m[i] * row[i] for m, row in zip(e.mixed, e.h, strict=True)) * (e.fixed[i] - x)
        for i, x in enumerate(e.star)
    ]
    return lhs, [-e.lam * e.eta * e.total(e.column(i), i, x) for i, x in enumerate(e.star)]


def elastic_distance(data):
    """sum_k p^k h_k |omega_eta - omega*| <= lambda eta |sum_k (u^k - p^k U) grad
    f_k(omega_eta)|."""
    e = Elastic(data)
    lhs, rhs = [], []
    for i, x in enumerate(e.fixed):
        lhs.append(sum(p * row[i] for p, row in zip(e.p, e.h, strict=True)) * abs(x - e.star[i]))
        weights = [v - p * e.U[i] for p, v in zip(e.p, e.column(i), strict=True)]
        rhs.append(e.lam * e.eta * abs(e.total(weights, i, x)))
    return lhs, rhs


def stale_kept(data):
    """The pair of the leaver kept: the limit against argmin sum_{k != a} hat p^k f_k."""
    e = Elastic(data)
    return e.kept_limit(), e.rest_star


def stale_repaired(data):
    """The pair removed: eta sum_{k != a} hat p^k grad f_k = 0 at argmin sum_{k != a} hat p^k
    f_k."""
    e = Elastic(data)
    return [e.eta * e.total(e.rest, i, x) for i, x in enumerate(e.rest_star)], [Q(0)] * len(e.star)


def stale_limit(data):
    """eta times sum_{k != a} hat p^k grad f_k(omega_infinity) + lambda u^a
    (omega_infinity - omega^a) = 0."""
    e, lhs = Elastic(data), []
    for i, x in enumerate(e.kept_limit()):
        lhs.append(e.eta * (e.total(e.rest, i, x) + e.lam * e.u[e.leaver][i] * (x - e.anchor[i])))
    return lhs, [Q(0)] * len(e.star)


def _floats(e):
    """The run from w = V/U = c_1 in plain floats, the step constant."""
    e.p, e.lam, e.U = [float(v) for v in e.p], float(e.lam), [float(v) for v in e.U]
    e.h, e.c, e.u = ([[float(v) for v in row] for row in rows] for rows in (e.h, e.c, e.u))
    w = e.c[0]
    V = [u * x for u, x in zip(e.U, w, strict=True)]
    for _ in range(e.rounds):
        w, V = e.round(w, V, float(e.eta))
    return w


def elastic_run(data):
    """|omega_T - omega_eta| <= 10^-6 (|omega_0 - omega_eta| + max_k |c_k - c_1|), the step
    constant."""
    e = Elastic(data)
    first = [abs(e.c[0][i] - x) + max(abs(row[i] - e.c[0][i]) for row in e.c) for i, x in enumerate(e.fixed)]
    end = [abs(x - float(y)) for x, y in zip(_floats(e), e.fixed, strict=True)]
    return end, [float(v / 10**6) for v in first]


def _decaying(e):
    """The run from w = V/U = c_1 with the steps eta/(1 + tau/10), and the steps."""
    steps = [e.eta / (1 + Q(tau, 10)) for tau in range(e.rounds + 1)]
    path, V = [e.c[0]], [u * x for u, x in zip(e.U, e.c[0], strict=True)]
    for step in steps[:-1]:
        w, V = e.round(path[-1], V, step)
        path.append(w)
    return path, steps


def elastic_decayed(data):
    """|omega_T - omega*| <= K eta_T for T = t_0 + 2, ..., eta_tau = eta/(1 + tau/10), coordinate by
    coordinate.

    K is the largest of |omega_t - omega*|/eta_t for t = t_0, t_0 + 1, and
    (11/10) lambda |sum_k u^k grad f_k(omega*)|/(a - 1/(10 eta) - (11/10) lambda eta_{t_0} |b|).
    """
    e = Elastic(data)
    path, steps = _decaying(e)
    coordinates = range(len(e.star))
    a = [sum(p * row[i] for p, row in zip(e.p, e.h, strict=True)) for i in coordinates]
    b = []
    for i in coordinates:
        terms = zip(e.p, e.column(i), e.h, strict=True)
        b.append(abs(sum((u - p * e.U[i]) * row[i] for p, u, row in terms)))
    less = 1 / (10 * e.eta)

    def ready(step):
        return all(step * x <= 1 and Q(11, 5) * e.lam * step * y <= x - less for x, y in zip(a, b, strict=True))

    t_0 = min(t for t, step in enumerate(steps) if ready(step))
    K = []
    for i in coordinates:
        forced = Q(11, 10) * e.lam * abs(e.total(e.column(i), i, e.star[i]))
        room = a[i] - less - Q(11, 10) * e.lam * steps[t_0] * b[i]
        K.append(max(*(abs(path[t][i] - e.star[i]) / steps[t] for t in (t_0, t_0 + 1)), forced / room))
    later = [(t, i) for t in range(t_0 + 2, e.rounds + 1) for i in coordinates]
    return [abs(path[t][i] - e.star[i]) for t, i in later], [K[i] * steps[t] for t, i in later]


def elastic_factor_5(data):
    """|omega_T - omega*| <= 5 (|omega_0 - omega*| + |omega_eta - omega*|)/(1 + T/10)."""
    e = Elastic(data)
    first = [abs(x - y) + abs(z - y) for x, y, z in zip(e.c[0], e.star, e.fixed, strict=True)]
    end = [abs(x - y) for x, y in zip(_decaying(e)[0][-1], e.star, strict=True)]
    return end, [5 * v / (1 + Q(e.rounds, 10)) for v in first]


_FIXED, _STALE = "efl/elastic-fixed-point", "efl/stale-anchor"
WORKED = {
    (_FIXED, "unbiased", "any"): (ELASTIC, elastic_unbiased),
    (_FIXED, "repaired", "any"): (ELASTIC, elastic_repaired),
    (_FIXED, "matched diagonals", "any"): (MATCHED, elastic_matched),
    (_FIXED, "when unbiased", "any"): (ELASTIC, elastic_when_unbiased),
    (_FIXED, "distance", "any"): (ELASTIC, elastic_distance),
    (_FIXED, "run", "any"): (LONG_RUN, elastic_run),
    ("efl/elastic-limit", "repaired", "any"): (DECAY, elastic_decayed),
    ("efl/elastic-limit", "factor 5", "any"): (DECAY, elastic_factor_5),
    (_STALE, "kept", "any"): (ELASTIC, stale_kept),
    (_STALE, "repaired", "any"): (ELASTIC, stale_repaired),
    (_STALE, "limit with the pair kept", "any"): (ELASTIC, stale_limit),
}


def sides(key):
    """The two sides of a worked form as flat lists, of floats where the run is long."""
    data, function = WORKED[key]
    return function(data)
