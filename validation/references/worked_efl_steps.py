"""The steps of the proof of EFL's Theorem 1 in one round, in fractions, with nothing of the
library.

Two quadratic clients as in `worked_efl`, scheme C, one round from a given state: the four cases of
(p, s) and the 64 paths of the noise's signs are enumerated. A side is a list over cases, paths and
(where it has one) the step i; every one is written from the printed formula.
"""

from __future__ import annotations

import itertools

from worked_efl import TWO, Q, Run, fractions, mul

ROUND = {k: TWO[k] for k in ("weights", "h", "c", "noise", "w0")} | {
    "law": [["0", "1/2", "1/2", "0"], ["1/4", "0", "0", "3/4"]],
    "tau": 1,
}
SIGNS = (1, -1)


def square(x):
    return sum(a * a for a in x)


def minus(x, y):
    return [a - b for a, b in zip(x, y)]


class Round(Run):
    """One round tau of a run with one law from w_0: eta, gamma, theta of that law, G and sigma_k of
    this round."""

    def __init__(self, scheme="C", data=ROUND):
        self.tau = data["tau"]
        super().__init__(scheme, {**data, "laws": [data["law"]], "T": 1}, common=data.get("common", False))
        self.step = 16 * self.E / (self.mu * ((self.tau + 1) * self.E + self.gamma) * self.S[0])
        self.eta = [self.step]
        self._go()  # again, with the step of round tau: G^2 and the distance after the round
        self.w = [self._paths(k) for k in range(self.N)]
        signs = range(len(SIGNS) ** self.E)
        self.joint = [(path,) * self.N for path in signs] if self.common else list(itertools.product(signs, repeat=self.N))

    def _paths(self, k):
        """w_0^k..w_E^k of each sequence of signs; g = h (w - c) - sign n."""
        out = []
        for signs in itertools.product(SIGNS, repeat=self.E):
            points = [self.w0]
            for sign in signs:
                w = points[-1]
                g = [h * (x - c) - sign * n for h, x, c, n in zip(self.h[k], w, self.c[k], self.n[k])]
                points.append([x - self.step * y for x, y in zip(w, g)])
            out.append(points)
        return out

    # --- at a point -----------------------------------------------------------------------------
    def gradient(self, k, w):
        return [h * (x - c) for h, x, c in zip(self.h[k], w, self.c[k])]

    def gap(self, k, w):
        """F_k(w) - F_k^*."""
        return sum(h * (x - c) ** 2 for h, x, c in zip(self.h[k], w, self.c[k])) / 2

    def wbar(self, s, p, path, i):
        """w_0 + sum_k p_k (w^k_{min(i, s_k)} - w_0)."""
        out = list(self.w0)
        for k in range(self.N):
            moved = minus(self.w[k][path[k]][min(i, s[k])], self.w0)
            out = [a + p[k] * b for a, b in zip(out, moved)]
        return out

    def active(self, s, p, path, i, value):
        """sum_k p_k alpha_i^k value(k, w_i^k), alpha_i^k = 1 where i < s_k."""
        return sum((p[k] * value(k, self.w[k][path[k]][i]) for k in range(self.N) if i < s[k]), Q(0))

    def gbar(self, s, p, path, i):
        """sum_k p_k alpha_i^k grad F_k(w_i^k)."""
        return [self.active(s, p, path, i, lambda k, w, j=j: self.gradient(k, w)[j]) for j in range(self.d)]

    # --- over what may happen -------------------------------------------------------------------
    def each(self, value, steps=None):
        """[value(s, p, path, i)] over cases, paths and steps (0..E - 1 where not said)."""
        steps = range(self.E) if steps is None else steps
        return [value(s, p, path, i) for _, s, p in self.cases[0] for path in self.joint for i in steps]

    def over_batches(self, value):
        """The mean over the paths, for each case and step."""
        return [
            sum(value(s, p, path, i) for path in self.joint) / len(self.joint) for _, s, p in self.cases[0] for i in range(self.E)
        ]

    def expectation(self, value):
        """E sum_i of it, over cases and paths."""
        each = self.over_batches(value)
        return sum(m * sum(each[o * self.E : (o + 1) * self.E]) for o, (m, _, _) in enumerate(self.cases[0]))

    def sum_D(self, sharp=False):
        """sum_k E[p s] D_k; sharpened sum_k (E[p s] - c p^k) D_k, c = min_k E[p s]/p^k."""
        work = self.work(0)
        c = min(w / p for w, p in zip(work, self.p)) if sharp else 0
        return sum((w - c * p) * D for w, p, D in zip(work, self.p, self.D))

    @property
    def gamma_prime(self):
        """2 eta (1 - L (1 + theta) eta)."""
        return 2 * self.step * (1 - self.L * (1 + self.theta) * self.step)


def noise(r, any_correlation=False):
    """E||wbar_{i+1} - w*||^2 <= E||wbar_i - w* - eta gbar_i||^2 + eta^2 sum p_k^2 alpha sigma_k^2;
    any correlation: p_k^2/p^k."""

    def rhs(s, p, path, i):
        point = [x - r.step * g for x, g in zip(minus(r.wbar(s, p, path, i), r.star), r.gbar(s, p, path, i))]
        each = (p[k] ** 2 * r.sigma_sq[k] / (r.p[k] if any_correlation else 1) for k in range(r.N) if i < s[k])
        return square(point) + r.step**2 * sum(each)

    return r.over_batches(lambda s, p, path, i: square(minus(r.wbar(s, p, path, i + 1), r.star))), r.over_batches(rhs)


def aggregated(r):
    """||gbar_i||^2 <= theta sum p alpha ||grad F_k(w_i^k)||^2."""
    rhs = r.each(lambda *at: r.theta * r.active(*at, lambda k, w: square(r.gradient(k, w))))
    return r.each(lambda *at: square(r.gbar(*at))), rhs


def smoothness(r):
    """sum p alpha ||grad F_k(w_i^k)||^2 <= 2L sum p alpha (F_k(w_i^k) - F_k^*)."""
    lhs = r.each(lambda *at: r.active(*at, lambda k, w: square(r.gradient(k, w))))
    return lhs, r.each(lambda *at: 2 * r.L * r.active(*at, r.gap))


def inner_product(r):
    """-2 eta <wbar_i - w*, gbar_i> <= sum p alpha ||wbar_i - w_i^k||^2 + 2L eta^2 sum p alpha
    (F_k(w_i^k) - F_k^*)
    - 2 eta sum p alpha (F_k(w_i^k) - F_k(w*)) - eta mu sum p alpha ||w_i^k - w*||^2."""
    eta = r.step

    def rhs(*at):
        bar = r.wbar(*at)
        first = r.active(*at, lambda k, w: square(minus(bar, w)))
        second = 2 * r.L * eta**2 * r.active(*at, r.gap)
        third = 2 * eta * r.active(*at, lambda k, w: r.gap(k, w) - r.D[k])
        return first + second - third - eta * r.mu * r.active(*at, lambda k, w: square(minus(w, r.star)))

    lhs = r.each(lambda *at: -2 * eta * sum(map(mul, minus(r.wbar(*at), r.star), r.gbar(*at))))
    return lhs, r.each(rhs)


def contraction(r):
    """-eta mu sum p alpha ||w_i^k - w*||^2 <= -eta mu/4 sum p alpha ||w_0 - w*||^2
    + eta mu/2 sum p alpha ||wbar_i - w_0||^2 + eta mu sum p alpha ||w_i^k - wbar_i||^2."""
    rate = r.step * r.mu

    def rhs(*at):
        bar = r.wbar(*at)
        start = r.active(*at, lambda k, w: square(minus(r.w0, r.star))) / 4
        moved = r.active(*at, lambda k, w: square(minus(bar, r.w0))) / 2
        return rate * (moved - start + r.active(*at, lambda k, w: square(minus(w, bar))))

    return r.each(lambda *at: -rate * r.active(*at, lambda k, w: square(minus(w, r.star)))), r.each(rhs)


def loss_gaps(r):
    """sum_{i,k} p alpha [2L(1+theta)eta^2 (F_k(w_i^k) - F_k^*) - 2 eta (F_k(w_i^k) - F_k(w*))]
    <= -gamma'(1 - eta L) sum p s (F_k(w_0) - F_k(w*)) + 2(2+theta)L eta^2 sum p s D_k
    + sum_{i,k} p alpha ||w_i^k - w_0||^2."""
    eta, E = r.step, r.E

    def gaps(k, w):
        return 2 * r.L * (1 + r.theta) * eta**2 * r.gap(k, w) - 2 * eta * (r.gap(k, w) - r.D[k])

    def rhs(s, p, path, _):
        ps = list(map(mul, p, s))
        start = r.gamma_prime * (1 - eta * r.L) * sum(x * (r.gap(k, r.w0) - r.D[k]) for k, x in enumerate(ps))
        moved = sum(r.active(s, p, path, i, lambda k, w: square(minus(w, r.w0))) for i in range(E))
        return 2 * (2 + r.theta) * r.L * eta**2 * sum(map(mul, ps, r.D)) + moved - start

    lhs = r.each(lambda s, p, path, _: sum(r.active(s, p, path, i, gaps) for i in range(E)), [0])
    return lhs, r.each(rhs, [0])


def loss_gaps_expected(r, sharp=False):
    """-gamma'(1 - eta L) sum_k E[p s] (F_k(w_0) - F_k(w*)) <= 2 eta r sum E[p s] D_k;
    sharpened 2 eta sum (E[p s] - c p^k) D_k."""
    gaps = sum(w * (r.gap(k, r.w0) - r.D[k]) for k, w in enumerate(r.work(0)))
    rhs = 2 * r.step * (r.sum_D(True) if sharp else (not r.same_ratio(0)) * r.sum_D())
    return [-r.gamma_prime * (1 - r.step * r.L) * gaps], [rhs]


def expanded_at_wbar(r):
    """0 <= E sum_{i,k} p_k alpha_i^k (F_k(wbar_i) - F_k(w*)), as lhs <= rhs with the sum's negative
    on the left."""

    def value(*at):
        bar = r.wbar(*at)
        return r.active(*at, lambda k, w: r.gap(k, bar) - r.D[k])

    return [-r.expectation(value)], [0]


def drift_left(r):
    """(1 + eta mu) E sum p alpha ||wbar_i - w_i^k||^2 + E sum p alpha ||w_i^k - w_0||^2
    + eta mu/2 E sum p alpha ||wbar_i - w_0||^2."""
    rate = r.step * r.mu

    def value(*at):
        bar = r.wbar(*at)
        return r.active(
            *at,
            lambda k, w: (1 + rate) * square(minus(bar, w)) + square(minus(w, r.w0)) + rate / 2 * square(minus(bar, r.w0)),
        )

    return [r.expectation(value)]


def drift(r, sharp=False):
    """<= eta^2 {(2 + mu/(2(1+theta)L)) E(E-1)G^2 (bracket) + 2EG^2 sum E[p^2 s]/p^k}; sharpened
    eta^2 {E(E-1)G^2 ((1/2 + mu/(4(1+theta)L)) (bracket) + E sum p s/3) + (E-1)G^2 sum E[p^2
    s]/p^k}."""
    E, G, ratio = r.E, r.G_sq, r.mu / ((1 + r.theta) * r.L)
    over = sum(q / p for q, p in zip(r.squares(0), r.p))
    if sharp:
        rhs = E * (E - 1) * G * ((1 + ratio / 2) / 2 * r.bracket(0) + r.S[0] / 3) + (E - 1) * G * over
    else:
        rhs = (2 + ratio / 2) * E * (E - 1) * G * r.bracket(0) + 2 * E * G * over
    return drift_left(r), [r.step**2 * rhs]


def one_client(r):
    """E||w_i^k - w_0||^2 <= eta^2 G^2 i^2, clients one after the other, i = 1..E."""
    at = [(k, i) for k in range(r.N) for i in range(1, r.E + 1)]
    lhs = [sum(square(minus(points[i], r.w0)) for points in r.w[k]) / len(r.w[k]) for k, i in at]
    return lhs, [r.step**2 * r.G_sq * i**2 for _, i in at]


def identity(r):
    """sum p_k ||wbar - w_k||^2 - sum p_k ||w_k - w_0||^2 - (sum p_k - 2) ||wbar - w_0||^2 = 0 at
    the stopped points."""

    def difference(s, p, path, i):
        bar, points = r.wbar(s, p, path, i), [r.w[k][path[k]][min(i, s[k])] for k in range(r.N)]
        spread = sum(p[k] * (square(minus(bar, w)) - square(minus(w, r.w0))) for k, w in enumerate(points))
        return abs(spread - (sum(p) - 2) * square(minus(bar, r.w0)))

    return (found := r.each(difference)), [0 * x for x in found]


def jensen(r):
    """||wbar - w_0||^2 <= sum p_k^2/p^k ||w_k - w_0||^2, and that <= theta sum p_k ||w_k - w_0||^2,
    i = 1..E."""
    after = range(1, r.E + 1)

    def moved(s, p, path, i, weights):
        return sum(x * square(minus(r.w[k][path[k]][min(i, s[k])], r.w0)) for k, x in enumerate(weights))

    first = r.each(lambda *at: square(minus(r.wbar(*at), r.w0)), after)
    second = r.each(lambda s, p, path, i: moved(s, p, path, i, [x * x / w for x, w in zip(p, r.p)]), after)
    third = r.each(lambda s, p, path, i: r.theta * moved(s, p, path, i, p), after)
    return first + second, second + third


def sums(r):
    """sum_{i<E} min(i, s)^2 <= sE(E-1)/2, then sum_{i<s} i^2 <= sE(E-1)/3, s = 1..E."""
    E = r.E
    lhs = [sum(min(i, s) ** 2 for i in range(E)) for s in range(1, E + 1)] + [sum(i * i for i in range(s)) for s in range(1, E + 1)]
    full = fractions([str(s * E * (E - 1)) for s in range(1, E + 1)])
    return lhs, [x / 2 for x in full] + [x / 3 for x in full]


def one_round(r, B, J):
    """E||w_{tau+1} - w*||^2 <= (1 - eta mu S/4) ||w_tau - w*||^2 + eta^2 E[B] + J."""
    return [r.distance_sq[1]], [(1 - r.step * r.mu * r.S[0] / 4) * r.distance_sq[0] + r.step**2 * B + J]


def sharp_round(r, any_correlation=False):
    """The same with B+ and J+/((tau + 1)E + gamma)."""
    return one_round(r, r.B_sharp(0, any_correlation), r.J_sharp(0) / ((r.tau + 1) * r.E + r.gamma))


STEPS = {
    ("1", "repaired"): noise,
    ("1", "any correlation"): lambda r: noise(r, any_correlation=True),
    ("2", "repaired"): aggregated,
    ("2", "smoothness"): smoothness,
    ("3", "repaired"): inner_product,
    ("4", "repaired"): contraction,
    ("5", "repaired"): loss_gaps,
    ("5", "expectation"): loss_gaps_expected,
    ("5", "sharpened"): lambda r: loss_gaps_expected(r, sharp=True),
    ("5", "expanded at wbar_i"): expanded_at_wbar,
    ("6", "repaired"): drift,
    ("6", "sharpened"): lambda r: drift(r, sharp=True),
    ("6", "one client"): one_client,
    ("6", "identity"): identity,
    ("6", "Jensen"): jensen,
    ("6", "sums"): sums,
    ("7", "repaired"): lambda r: one_round(r, r.B(0), 2 * r.step * (not r.same_ratio(0)) * r.sum_D()),
    ("7", "sharpened"): sharp_round,
    ("7", "sharpened, any correlation"): lambda r: sharp_round(r, any_correlation=True),
}
