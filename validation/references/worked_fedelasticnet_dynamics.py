"""FedElasticNet's dynamics a second time: both sides of every form on small runs, in plain
fractions and without the library.

A loss of one coordinate is (slope, curvature, centre, ramps), its slope at x being
slope + curvature (x - centre) and, of every ramp (p, q, G), what part of G lies left of x. All
losses here are smooth.
"""

from __future__ import annotations

from fractions import Fraction as F
from itertools import pairwise

SIGN, TRUE = "sign", "true-gradient"
PARABOLA = (F(0), F(1), F(0), ())
BENT = (F(-1), F(0), F(0), ((F(0), F(2), F(3, 2)),))
STEEP = (F(-3, 2), F(0), F(0), ((F(1), F(2), F(1)),))
FLAT = (F(0), F(0), F(0), ((F(1), F(2), F(1)),))


def parabola(h, c):
    return (F(0), F(h), F(c), ())


def slope(loss, x: F) -> F:
    own, h, c, ramps = loss
    return own + h * (x - c) + sum((g * min(max((x - p) / (q - p), F(0)), F(1)) for p, q, g in ramps), F(0))


def bends(loss) -> list[F]:
    return [x for p, q, _ in loss[3] for x in (p, q)]


def bent(losses) -> list[F]:
    """The curvatures of the mean of these losses, between two bends each and beyond them."""
    stops = sorted({F(0), *(x for p in losses for x in bends(p))})
    slopes = [(x, sum(slope(p, x) for p in losses) / len(losses)) for x in (stops[0] - 1, *stops, stops[-1] + 1)]
    return [(g - f) / (y - x) for (x, f), (y, g) in pairwise(slopes)]


def sign(x: F) -> int:
    return (x > 0) - (x < 0)


def rise(loss, a: F, b: F) -> F:
    """L(b) - L(a): the slope is linear between bends, so trapezia are exact."""
    if a > b:
        return -rise(loss, b, a)
    stops = [a, *sorted(x for x in set(bends(loss)) if a < x < b), b]
    return sum(((y - x) * (slope(loss, x) + slope(loss, y)) / 2 for x, y in pairwise(stops)), F(0))


def zero_of(function, stops: list[F]) -> F:
    """The zero of an increasing function that is linear between the stops, and beyond them."""
    stops = sorted(set(stops))
    stops = [stops[0] - 1, *stops, stops[-1] + 1]
    for x, y in pairwise(stops):
        a, b = function(x), function(y)
        last, first = y == stops[-1], x == stops[0]
        if (a <= 0 or first) and (b >= 0 or last):
            root = x - a * (y - x) / (b - a)
            if (first or root >= x) and (last or root <= y):
                return root
    raise ValueError("no zero")


def local(loss, theta: F, g: F, l1: F, l2: F) -> F:
    """The minimiser of L(y) - g y + l2/2 (y - theta)^2 + l1 |y - theta|."""
    v = g - slope(loss, theta)
    if abs(v) <= l1:
        return theta
    return zero_of(lambda y: slope(loss, y) - g + l2 * (y - theta) + l1 * sign(v), [*bends(loss), theta])


def minimiser(column, start: F) -> F:
    """That of the mean of the losses nearest to start, where the mean is not flat at its minimum
    but around start."""
    total = lambda x: sum((slope(p, x) for p in column), F(0))  # noqa: E731
    if total(start) == 0:
        return start
    return zero_of(total, [x for p in column for x in bends(p)] + [F(0)])


class Run:
    """T rounds of Algorithm 3, everyone in every round; losses[k][i]."""

    def __init__(self, losses, l1, l2, rule, theta, rounds, stored=None):
        self.losses, self.l1, self.l2, self.m, self.d = losses, F(l1), F(l2), len(losses), len(theta)
        theta = [F(x) for x in theta]
        g = [[F(x) for x in row] for row in stored] if stored else [[F(0)] * self.d for _ in losses]
        self.thetas, self.gs, self.ys = [theta], [g], []
        for _ in range(rounds):
            y = [[local(p, x, s, self.l1, self.l2) for p, x, s in zip(*row, strict=True)] for row in
                 ((losses[k], theta, g[k]) for k in range(self.m))]  # fmt: skip
            if rule == SIGN:
                g = [
                    [s - self.l2 * (b - a) - self.l1 * sign(b - a) for s, a, b in zip(g[k], theta, y[k], strict=True)]
                    for k in range(self.m)
                ]
            else:
                g = [[slope(p, b) for p, b in zip(losses[k], y[k], strict=True)] for k in range(self.m)]
            h = self.mean(g)
            theta = [a - b / self.l2 for a, b in zip(self.mean(y), h, strict=True)]
            self.thetas.append(theta)
            self.gs.append(g)
            self.ys.append(y)
        self.star = [minimiser([row[i] for row in losses], self.thetas[0][i]) for i in range(self.d)]

    def mean(self, rows):
        return [sum(column, F(0)) / self.m for column in zip(*rows, strict=True)]

    def grads(self, x):
        return [[slope(p, a) for p, a in zip(row, x, strict=True)] for row in self.losses]

    def grad(self, x):
        return self.mean(self.grads(x))

    def excess(self, x):
        return sum((rise(p, s, a) for row in self.losses for p, s, a in zip(row, self.star, x, strict=True)), F(0)) / self.m

    def h(self, t):
        return self.mean(self.gs[t])

    def gamma(self, t):
        return [a + b / self.l2 for a, b in zip(self.thetas[t], self.h(t), strict=True)]

    def delta(self, t):
        """Of round t >= 1."""
        return [[b - a for a, b in zip(self.thetas[t - 1], row, strict=True)] for row in self.ys[t - 1]]

    def v(self, t):
        return [[a - b for a, b in zip(x, y, strict=True)] for x, y in zip(self.gs[t], self.grads(self.thetas[t]), strict=True)]

    def still(self):
        """The rounds in which nobody moves."""
        return [t for t in range(1, len(self.thetas)) if not any(x for row in self.delta(t) for x in row)]

    def orbit(self):
        """The rounds since the last state was reached before."""
        states = list(zip(self.thetas, self.gs, strict=True))
        last = len(self.ys)
        return range(max(s for s in range(last) if states[s] == states[last]) + 1, last + 1)

    @property
    def beta(self):
        return max(max(bent([p])) for row in self.losses for p in row)

    @property
    def mu(self):
        """The least curvature of R."""
        return min(min(bent(column)) for column in zip(*self.losses, strict=True))

    @property
    def curvatures(self):
        """The largest ones of R, in every coordinate."""
        return [max(bent(column)) for column in zip(*self.losses, strict=True)]

    @property
    def beta_r(self):
        return max(self.curvatures)

    def spread(self, t):
        return sum((sq(row) for row in self.delta(t)), F(0)) / self.m


def sq(x) -> F:
    return sum((a * a for a in x), F(0))


def away(x, y) -> F:
    return sq([a - b for a, b in zip(x, y, strict=True)])


def soft(v: F, l1: F) -> F:
    return sign(v) * max(abs(v) - l1, F(0))


# --- both sides on a run, as lists ----------------------------------------------------------------
def pushes(r: Run, most: bool):
    moved = [sq(row) for t in range(1, len(r.thetas)) for row in r.delta(t)]
    pushed = [sq([soft(x, r.l1) for x in row]) for t in range(len(r.ys)) for row in r.v(t)]
    if most:
        return [r.l2**2 * x for x in moved], pushed
    return pushed, [(r.l2 + r.beta) ** 2 * x for x in moved]


def stalls(r: Run):
    moved = any(r.thetas[t] != r.thetas[0] or r.gs[t] != r.gs[0] for t in range(1, len(r.thetas)))
    said = any(r.h(0)) or any(abs(x) > r.l1 for row in r.v(0) for x in row)
    return [F(moved) - F(said)], [F(0)]


def drift(r: Run):
    """Largest difference of theta^t and h^t from their closed form, a round without moves each."""
    out = []
    for t in r.still():
        said = [a - b / r.l2 for a, b in zip(r.thetas[t - 1], r.h(t - 1), strict=True)]
        pairs = [*zip(r.thetas[t], said, strict=True), *zip(r.h(t), r.h(t - 1), strict=True)]
        out.append(max(abs(a - b) for a, b in pairs))
    return out, [F(0)] * len(out)


def growth(r: Run):
    two = [t for t in r.still() if t + 1 in r.still()]
    return [r.excess(r.thetas[t]) - r.excess(r.thetas[t - 1]) for t in two], [r.l1**2 * r.d / (4 * r.l2)] * len(two)


def descent(r: Run):
    out = []
    for t in r.still():
        said = [a - b / r.l2 for a, b in zip(r.thetas[t - 1], r.grad(r.thetas[t - 1]), strict=True)]
        out.append(max(abs(a - b) for a, b in zip(r.thetas[t], said, strict=True)))
    return out, [F(0)] * len(out)


def rate(r: Run):
    times = range(1, len(r.thetas))
    return [r.excess(r.thetas[t]) for t in times], [r.l2 * away(r.thetas[0], r.star) / (4 * t + 2) for t in times]


def energy(r: Run, t: int) -> F:
    return sq(r.h(t)) + r.l2**2 * r.spread(t)


def potential(r: Run, t: int) -> F:
    return r.excess(r.thetas[t - 1]) + energy(r, t) / (2 * r.l2 - r.beta)


def descends(r: Run):
    times = range(1, len(r.ys))
    less = [sq(r.grad(r.thetas[t - 1])) / (2 * r.l2) for t in times]
    return [potential(r, t + 1) for t in times], [potential(r, t) - x for t, x in zip(times, less, strict=True)]


def gradients(r: Run):
    T = len(r.ys) - 1
    mean = sum((sq(r.grad(r.thetas[t])) for t in range(T)), F(0)) / T
    return [mean], [2 * r.l2 / T * potential(r, 1)]


def calms(r: Run):
    right = []
    for t in range(1, len(r.ys)):
        moves = r.l2**2 * (r.spread(t + 1) + (1 - r.beta / (2 * r.l2)) * r.spread(t))
        turned = (2 * r.l2 - r.beta) * away(r.h(t + 1), r.h(t))
        right.append(r.beta * (energy(r, t) - moves) - turned)
    return [r.beta * energy(r, t + 1) for t in range(1, len(r.ys))], right


def closer(r: Run, factor: F = F(1)):
    return [away(r.thetas[t], r.star) for t in r.still()], [factor * away(r.thetas[t - 1], r.star) for t in r.still()]


def contraction(r: Run) -> F:
    return max(abs(1 - c / r.l2) for c in (r.mu, r.beta_r)) ** 2


def along(r: Run):
    """In the coordinate of R's largest curvature."""
    out, top = [], r.curvatures.index(max(r.curvatures))
    for t in r.still():
        before, after = (r.thetas[s][top] - r.star[top] for s in (t - 1, t))
        out.append(abs(after - (1 - r.beta_r / r.l2) * before))
    return out, [F(0)] * len(out)


def orbit_excess(r: Run):
    return [r.excess(r.gamma(t)) for t in r.orbit()], [F(0)] * len(r.orbit())


def orbit_gradient(r: Run):
    ys = [r.ys[t - 1] for t in r.orbit()]
    rows = [[slope(p, b) for p, b in zip(r.losses[k], y[k], strict=True)] for y in ys for k in range(r.m)]
    return [abs(sum(c, F(0)) / len(rows)) for c in zip(*rows, strict=True)], [r.l1] * r.d


TWO = [[parabola(1, -1), BENT], [parabola(F(1, 2), 2), PARABOLA]]  # beta = 1; R's curvature: 3/4 and between 1/2 and 7/8


def general(rule: str) -> Run:
    """From (1/2, -1), where the losses bend on the way."""
    return Run(TWO, F(1, 4), 4, rule, [F(1, 2), -1], 4)


def silent(rule: str) -> Run:
    return Run(TWO, F(5, 2), 4, rule, [F(1, 2), -1], 3)


def stall(start) -> Run:
    return Run([[parabola(2, 0)] * 2] * 2, 1, 60, SIGN, start, 2)


def drift_of_three(rounds: int = 4) -> Run:
    return Run([[STEEP], [FLAT], [FLAT]], 1, 1, SIGN, [0], rounds)


def short_cycle() -> Run:
    l2, g = F(3, 4), F(2, 3)
    return Run([[PARABOLA]], 1, l2, SIGN, [g - g / l2], 4, [[g]])


def apart() -> Run:
    """Two parabolas that pull apart, at the optimum, with their slopes stored."""
    return Run([[parabola(1, -3)], [parabola(1, 3)]], 1, 28, TRUE, [0], 2, [[3], [-3]])


def two_cycle() -> Run:
    gamma = F(5, 9)
    return Run([[PARABOLA]], 1, F(2, 5), TRUE, [gamma * (1 - F(5, 2))], 2, [[gamma]])


def repelled() -> Run:
    return Run([[PARABOLA]], 1, F(2, 5), TRUE, [F(1, 100)], 2, [[F(1, 100)]])


def two_curvatures() -> Run:
    x = F(1, 10)
    return Run([[PARABOLA, parabola(F(1, 4), 0)]], 1, 1, TRUE, [x, x], 2, [[x, x / 4]])


def at_rest(r: Run):
    return [abs(x) for x in r.grad(r.thetas[-1])]


def bias(r: Run):
    found = [abs(x - y) for t in r.still() for x, y in zip(r.h(t - 1), r.grad(r.thetas[t - 1]), strict=True)]
    return found, [r.l1] * len(found)


def silence(r: Run):
    return [max(abs(x) for row in r.v(t) for x in row) for t in range(len(r.ys))], [r.l1] * len(r.ys)


def still_there(r: Run):
    """The last state, of a run that never moves."""
    return r.excess(r.thetas[-1])


STALLED = lambda: stall([F(1, 2), F(-1, 4)])  # noqa: E731
FORMS = {  # (statement, form, rule): the run, and both sides on it
    ("at-rest", "in words", SIGN): (STALLED, lambda r: ([max(at_rest(r))], [F(0)])),
    ("at-rest", "in words", TRUE): (apart, lambda r: ([max(at_rest(r))], [F(0)])),
    ("at-rest", "repaired", SIGN): (STALLED, lambda r: (at_rest(r), [r.l1] * r.d)),
    ("at-rest", "excess", SIGN): (STALLED, lambda r: ([still_there(r)], [r.l1**2 * r.d / (2 * r.mu)])),
    ("moves", "at most", SIGN): (lambda: general(SIGN), lambda r: pushes(r, True)),
    ("moves", "at most", TRUE): (lambda: general(TRUE), lambda r: pushes(r, True)),
    ("moves", "at least", SIGN): (lambda: general(SIGN), lambda r: pushes(r, False)),
    ("moves", "at least", TRUE): (lambda: general(TRUE), lambda r: pushes(r, False)),
    ("stalls", "any state", SIGN): (short_cycle, stalls),
    ("stalls", "own start", SIGN): (lambda: silent(SIGN), stalls),
    ("returns", "in words", SIGN): (short_cycle, orbit_excess),
    ("returns", "in words", TRUE): (two_cycle, orbit_excess),
    ("returns", "in words, lambda_2 > 27 beta", SIGN): (STALLED, lambda r: ([still_there(r)], [F(0)])),
    ("returns", "in words, lambda_2 > 27 beta", TRUE): (apart, lambda r: ([still_there(r)], [F(0)])),
    ("returns", "mean gradient", SIGN): (STALLED, orbit_gradient),
    ("returns", "mean gradient", TRUE): (two_cycle, orbit_gradient),
    ("drift", "in words", SIGN): (drift_of_three, lambda r: ([abs(x) for x in r.h(len(r.ys))], [F(0)] * r.d)),
    ("drift", "closed form", SIGN): (drift_of_three, drift),
    ("drift", "bias", SIGN): (drift_of_three, bias),
    ("drift", "bias", TRUE): (two_curvatures, bias),
    ("drift", "growth", SIGN): (lambda: drift_of_three(5), growth),
    ("descent", "rate", SIGN): (lambda: silent(SIGN), rate),
    ("descent", "rate", TRUE): (lambda: silent(TRUE), rate),
    ("descent", "silence", SIGN): (lambda: silent(SIGN), silence),
    ("descent", "silence", TRUE): (lambda: silent(TRUE), silence),
    ("descent", "gradient descent", SIGN): (lambda: silent(SIGN), descent),
    ("descent", "gradient descent", TRUE): (lambda: silent(TRUE), descent),
    ("convergence", "repaired", TRUE): (lambda: general(TRUE), descends),
    ("convergence", "rate", TRUE): (lambda: general(TRUE), gradients),
    ("convergence", "moves", TRUE): (lambda: general(TRUE), calms),
    ("near-the-optimum", "in words", TRUE): (repelled, closer),
    ("near-the-optimum", "repaired", TRUE): (two_curvatures, closer),
    ("near-the-optimum", "factor", TRUE): (two_curvatures, lambda r: closer(r, contraction(r))),
    ("near-the-optimum", "repels", TRUE): (two_curvatures, along),
}
