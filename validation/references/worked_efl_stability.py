"""Worked instances of the elastic term's stability (sections 2 and 5.3 of EFL), in plain fractions.

Written from the LaTeX of every form; nothing of the library is imported. Whether a recursion
settles is read off the roots of its polynomial.
"""

from __future__ import annotations

from fractions import Fraction as Q

from worked_efl_sections import numbers


class Elastic:
    """One coordinate at a time: (w, V) -> (sum p^k y_k, sum u^k y_k) after E steps of every
    client."""

    def __init__(self, data, eta=None, lam=None):
        self.p = numbers(data["weights"])
        self.h, self.c, self.u = (numbers(data[k]) for k in ("h", "c", "u"))
        self.lam = Q(data["lam"]) if lam is None else lam
        self.eta, self.E = Q(data["eta"]) if eta is None else eta, data["E"]
        self.d = len(self.h[0])
        self.U = [sum(row[i] for row in self.u) for i in range(self.d)]
        self.start = numbers(data["start"]) if "start" in data else [Q(0)] * self.d
        anchors = numbers(data["anchors"]) if "anchors" in data else [[Q(0)] * self.d for _ in self.p]
        self.V = [sum(u[i] * a[i] for u, a in zip(self.u, anchors, strict=True)) for i in range(self.d)]

    def client(self, k, i, w, V, c):
        y = w
        for _ in range(self.E):
            y = y - self.eta * (self.h[k][i] * (y - c) + self.lam * (self.U[i] * y - V))
        return y

    def polynomial(self, i):
        """T and D of x^2 - T x + D, from the images of (1, 0) and (0, 1) with all minimisers 0."""
        columns = []
        for w, V in ((Q(1), Q(0)), (Q(0), Q(1))):
            ys = [self.client(k, i, w, V, Q(0)) for k in range(len(self.p))]
            columns.append((sum(p * y for p, y in zip(self.p, ys)), sum(u[i] * y for u, y in zip(self.u, ys))))
        (a, c), (b, d) = columns
        return a + d, a * d - b * c

    def margins(self):
        out = []
        for i in range(self.d):
            T, D = self.polynomial(i)
            out.append(min(1 - D, 1 - T + D, 1 + T + D))
        return out

    def settles(self, i):
        """Both roots inside the unit circle, by the formula of the roots."""
        T, D = self.polynomial(i)
        if T * T < 4 * D:
            return D < 1
        return abs(T) < 2 and T * T - 4 * D < (2 - abs(T)) ** 2

    def all_settle(self):
        return [Q(self.settles(i)) for i in range(self.d)]

    def a(self, i):
        return sum(p * h[i] for p, h in zip(self.p, self.h))

    def b(self, i):
        return sum((u[i] - p * self.U[i]) * h[i] for p, u, h in zip(self.p, self.u, self.h))

    def moved(self, lam):
        other = Elastic.__new__(Elastic)
        other.__dict__ = {**self.__dict__, "lam": lam}
        rows = range(len(self.p))
        return [
            other.client(k, i, self.start[i], self.V[i], self.c[k][i]) - self.start[i] for k in rows for i in range(self.d)
        ]


TWO = {
    "weights": ["1/4", "3/4"], "h": [["1", "2"], ["3", "1"]], "c": [["1", "-2"], ["2", "3"]],
    "u": [["3", "1/2"], ["1", "1"]],
    "lam": "1/10", "eta": "1/2", "E": 1, "start": ["1/2", "1"], "anchors": [["1", "-1"], ["3", "1/2"]],
}  # fmt: skip
FIRM = {**TWO, "u": [["1/2", "1"], ["3", "1/4"]], "lam": "28/5"}  # a tenth off 1/(eta^2 b) on both sides
LONG = {**TWO, "h": [["1"], ["3"]], "c": [["0"], ["1"]], "u": [["1/4"], ["3"]], "eta": "26/25", "lam": "1/2"}
LONG = {k: v for k, v in LONG.items() if k not in ("start", "anchors")}
THREE_STEPS = {**TWO, "E": 3, "eta": "11/16"}
ALIKE = {**TWO, "h": [["1", "2"], ["1", "2"]], "E": 2, "eta": "7/8", "lam": "1/5"}  # eta (h + lambda U) = 161/80
SHORT = {**TWO, "E": 2, "eta": "1/8", "lam": "1/2", "anchors": [["1/2", "1"], ["1/2", "1"]]}


def every_lambda(data):
    """Jury's least margin is at least 0 in every coordinate."""
    e = Elastic(data)
    return [Q(0)] * e.d, e.margins()


def some_lambda(data):
    """The largest of the least margins over all lambda > 0: between two lines the largest minimum
    is where two meet."""
    e = Elastic(data)
    lines = []  # constant and slope in x = eta^2 lambda
    for i in range(e.d):
        lines += [(Q(1), -e.b(i)), (e.eta * e.a(i), e.b(i)), (2 - e.eta * e.a(i), e.b(i))]
    at = [Q(0)]
    for n, (c1, s1) in enumerate(lines):
        at += [(c2 - c1) / (s1 - s2) for c2, s2 in lines[:n] if s1 != s2]
    return [Q(0)], [max(min(c + s * x for c, s in lines) for x in at if x >= 0)]


def region(data):
    """-eta a < eta^2 lambda b < 1 and eta a < 2 + eta^2 lambda b."""
    e, inside = Elastic(data), []
    for i in range(e.d):
        a, b = e.eta * e.a(i), e.eta**2 * e.lam * e.b(i)
        inside.append(Q(-a < b < 1 and a < 2 + b))
    return inside, e.all_settle()


def when_some(data):
    """Return whether one of two hundred lambda settles the run, and whether b > 0 and eta a < 3."""
    e = Elastic(data)
    most = 3 / (e.eta**2 * abs(e.b(0)))
    found = any(Elastic(data, lam=most * j / 200).settles(0) for j in range(1, 201))
    return [Q(found)], [Q(e.b(0) > 0 and e.eta * e.a(0) < 3)]


def any_steps(data):
    """|T| < 1 + D < 2 with T and D in closed form."""
    e, inside = Elastic(data), []
    for i in range(e.d):
        r = [1 - e.eta * (h[i] + e.lam * e.U[i]) for h in e.h]
        q = [(1 - x**e.E) / (h[i] + e.lam * e.U[i]) for x, h in zip(r, e.h)]
        u, kept = [row[i] for row in e.u], [x**e.E for x in r]
        first, second = sum(p * x for p, x in zip(e.p, kept)), sum(v * x for v, x in zip(u, q))
        cross = sum(p * x for p, x in zip(e.p, q)) * sum(v * x for v, x in zip(u, kept))
        T, D = first + e.lam * second, e.lam * (first * second - cross)
        inside.append(Q(abs(T) < 1 + D < 2))
    return inside, e.all_settle()


def alike(data):
    """|1 - (1 - r^E) h/(h + lambda U)| < 1."""
    e, inside = Elastic(data), []
    for i in range(e.d):
        h, U = e.h[0][i], e.U[i]
        r = 1 - e.eta * (h + e.lam * U)
        inside.append(Q(abs(1 - (1 - r**e.E) * h / (h + e.lam * U)) < 1))
    return inside, e.all_settle()


def never_helps(data):
    """Settles with lambda => settles without, one coordinate at a time."""
    e = Elastic(data)
    return e.all_settle(), [Q(abs(1 - e.eta * h) < 1) for h in e.h[0]]


def drift(data):
    e = Elastic(data)
    return [abs(x) for x in e.moved(e.lam)], [abs(x) for x in e.moved(Q(0))]


def drift_formula(data):
    """y_k - w = -q_k (grad f_k(w) + lambda (U w - V))."""
    e, right = Elastic(data), []
    for k in range(len(e.p)):
        for i in range(e.d):
            stiff = e.h[k][i] + e.lam * e.U[i]
            q = (1 - (1 - e.eta * stiff) ** e.E) / stiff
            right.append(-q * (e.h[k][i] * (e.start[i] - e.c[k][i]) + e.lam * (e.U[i] * e.start[i] - e.V[i])))
    return e.moved(e.lam), right


_STABLE, _DRIFT = "efl/elastic-stability", "efl/elastic-drift"
WORKED = {
    (_STABLE, "every lambda"): (TWO, every_lambda),
    (_STABLE, "every lambda, b positive"): (FIRM, every_lambda),
    (_STABLE, "some lambda"): (LONG, some_lambda),
    (_STABLE, "repaired"): (FIRM, region),
    (_STABLE, "when some lambda does"): (LONG, when_some),
    (_STABLE, "any number of steps"): (THREE_STEPS, any_steps),
    (_STABLE, "clients of one curvature"): (ALIKE, alike),
    (_STABLE, "clients of one curvature, more steps"): (ALIKE, never_helps),
    (_DRIFT, "every round"): (THREE_STEPS, drift),
    (_DRIFT, "repaired"): (SHORT, drift),
    (_DRIFT, "formula"): (THREE_STEPS, drift_formula),
}
