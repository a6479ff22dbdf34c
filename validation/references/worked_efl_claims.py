"""Worked instances of what EFL's paper claims without a formula, in plain fractions.

Written from the LaTeX of every form: the elastic term's stability (sections 2 and 5.3), convergence
with compression, and the rows of Table 1. Nothing of the library is imported. Noise goes through
every sign, one by one; whether a recursion settles is read off the roots of its polynomial.
"""

from __future__ import annotations

from fractions import Fraction as Q
from itertools import product

from worked_efl import RUNS, Run
from worked_efl_messages import st
from worked_efl_sections import minimiser, minus, numbers, sq


def plus(x, y):
    return [a + b for a, b in zip(x, y, strict=True)]


def times(factor, x):
    return [factor * a for a in x]


def mix(weights, rows):
    """sum_k weights_k rows_k."""
    return [sum(p * row[i] for p, row in zip(weights, rows, strict=True)) for i in range(len(rows[0]))]


# --- the elastic term ----------------------------------------------------------------------------
class Elastic:
    """One coordinate at a time: (w, V) -> (sum p^k y_k, sum u^k y_k) after E steps of every client."""

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
    """The largest of the least margins over all lambda > 0: between two lines the largest minimum is where two meet."""
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
    """Whether one of a thousand lambda settles the run, and whether b > 0 and eta a < 3."""
    e = Elastic(data)
    most = 3 / (e.eta**2 * abs(e.b(0)))
    found = any(Elastic(data, lam=most * j / 1000).settles(0) for j in range(1, 1001))
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


# --- the model held at w* ------------------------------------------------------------------------
HELD = {
    "weights": ["1/3", "1/3", "1/3"], "h": [["1", "1"], ["1", "1"], ["1", "1"]],
    "c": [["-14", "-5"], ["-8", "-25"], ["22", "30"]], "q": "1/2",
}  # fmt: skip
HELD_TEXT = {**HELD, "variant": "text", "c": [["-3", "11"], ["8", "-9"], ["-5", "-2"]]}


def held_moves(data):
    """The server's moves until the residuals come back, from residuals 0; those of the period."""
    p, h, c = (numbers(data[k]) for k in ("weights", "h", "c"))
    q, star = Q(data["q"]), minimiser(p, h, c)
    x = [[-row[i] * (star[i] - at[i]) for i in range(len(star))] for row, at in zip(h, c)]
    R, R_G, seen, moves = [[Q(0)] * len(star) for _ in p], [Q(0)] * len(star), [], []
    while (R, R_G) not in seen:
        seen.append((R, R_G))
        D = [plus(r, move) for r, move in zip(R, x)]
        sent = [st(m, q) for m in D]
        total = plus(R_G, mix(p, D if data["variant"] == "literal" else sent))
        down = st(total, q)
        R, R_G = [minus(m, s) for m, s in zip(D, sent)], minus(total, down)
        moves.append(down if data["variant"] == "consistent" else total)
    return moves[seen.index((R, R_G)) :]


def held(data):
    moves = held_moves(data)
    return [sum(m[i] for m in moves) for i in (0, 1)], [Q(0), Q(0)]


def period(a, b, phase):
    """What a client with the move (a, b) holds, and what it sends, from any round on.

    ST sends one entry of two, so that the other one is what was not sent since.
    """
    since, out = (1, 1), {}
    while since not in out:
        D = (since[0] * a, since[1] * b)
        if abs(D[0]) == abs(D[1]):
            raise ValueError(f"a tie: {D}")
        first = abs(D[0]) > abs(D[1])
        out[since] = (D, (D[0], Q(0)) if first else (Q(0), D[1]))
        since = (1, since[1] + 1) if first else (since[0] + 1, 1)
    states = list(out)
    found = [out[s] for s in states[states.index(since) :]]
    return found[phase % len(found) :] + found[: phase % len(found)]


def means_of_all_histories(data):
    """The mean moves at w*, over all phases of the clients and all histories of the server, and the least gap of a choice.

    The server holds one coordinate back, by what came in since it was last sent: any number of
    rounds ago, up to three periods. Raises `ValueError` on a tie, or where one coordinate might never
    be sent.
    """
    rows = [[Q(v) for v in row] for row in data["c"]]  # w* = 0, curvature 1: the moves
    which, lengths = 0 if data["variant"] == "literal" else 1, [len(period(*row, 0)) for row in rows]
    whole = lengths[0] * lengths[1] * lengths[2]
    means, gaps = set(), []
    for phases in product(*map(range, lengths)):
        runs = [period(*row, phase) for row, phase in zip(rows, phases)]
        m = [[sum(run[t % len(run)][which][i] for run in runs) / 3 for i in (0, 1)] for t in range(whole)]
        for j in (0, 1):
            if not always_sent([row[j] for row in m], [row[1 - j] for row in m]):
                raise ValueError(f"coordinate {j} might never be sent")
            for back in range(0, 3 * whole + 1):
                R = [Q(0), Q(0)]
                R[j] = sum((m[-1 - s % whole][j] for s in range(back)), Q(0))
                mean, gap = server_mean(m, R)
                means.add(mean)
                gaps.append(gap)
    return means, min(gaps)


def always_sent(own, other):
    """Whether a coordinate that is held back is sent some time, whatever is held: what comes in adds up, or no R has
    |R + its sums| <= |the other's| in all rounds of a period."""
    if sum(own) != 0:
        return True
    total, low, high = Q(0), [], []
    for x, y in zip(own, other, strict=True):
        total += x
        low.append(-total - abs(y))
        high.append(-total + abs(y))
    return max(low) > min(high)


def server_mean(m, R):
    """The mean of D^G over the period that is reached from what the server holds, and the least gap in it."""
    seen, log, t = {}, [], 0
    while (state := (t % len(m), *R)) not in seen:
        seen[state] = len(log)
        D = plus(R, m[t % len(m)])
        log.append((D, abs(abs(D[0]) - abs(D[1]))))
        R = [Q(0), D[1]] if abs(D[0]) > abs(D[1]) else [D[0], Q(0)]
        t += 1
    found = log[seen[state] :]
    return tuple(sum(D[i] for D, _ in found) / len(found) for i in (0, 1)), min(gap for _, gap in found)


# --- runs with compression -----------------------------------------------------------------------
PLAIN = {
    "weights": ["1/4", "3/4"], "h": [["1", "1/2"], ["1/2", "1"]], "c": [["2", "1"], ["-1", "3"]], "q": "1/2", "down": True,
    "E": 2, "T": 2, "w0": ["4", "0"],
}  # fmt: skip
NOISY = {**PLAIN, "E": 1, "noise": [["1", "1/2"], ["0", "0"]]}
ONE_WAY = {**PLAIN, "down": False}


class Compressed:
    """All paths of the noise of a run with error feedback on both sides; every expectation is their mean."""

    def __init__(self, data):
        self.p, self.h, self.c = (numbers(data[k]) for k in ("weights", "h", "c"))
        self.N, self.d, self.E, self.T = len(self.p), len(self.h[0]), data["E"], data["T"]
        self.n = numbers(data["noise"]) if "noise" in data else [[Q(0)] * self.d for _ in self.p]
        self.q, self.down, w0 = Q(data["q"]), data["down"], numbers(data["w0"])
        k = Q(1)  # one entry of two
        self.delta = min(1 / k, k / self.d)
        self.L, self.mu = (f(x for row in self.h for x in row) for f in (max, min))
        self.gamma = max(4 * self.E / self.delta, 64 * self.L / self.mu)
        self.star = minimiser(self.p, self.h, self.c)
        self.D = [sum(h * (s - c) ** 2 for h, s, c in zip(*rows)) / 2 for rows in zip(self.h, [self.star] * self.N, self.c)]
        self.sigma_sq = [sq(row) for row in self.n]
        noisy = [k for k in range(self.N) if any(self.n[k])]
        signs = product([1, -1], repeat=len(noisy) * self.E * self.T)
        self.paths = [self.path({k: s[i :: len(noisy)] for i, k in enumerate(noisy)}, w0) for s in signs]
        self.A = (4 / self.delta) * (4 / self.delta if self.down else 1)
        self.G_sq = max(
            self.mean(lambda r, t=t, k=k, j=j: sq(r["g"][t][k][j]))
            for t in range(self.T)
            for k in range(self.N)
            for j in range(self.E)
        )
        self.rho_sq = (self.A - 1) ** 2 * self.E**2 * self.G_sq

    def eta(self, t):
        return 16 / (self.mu * ((t + 1) * self.E + self.gamma))

    def path(self, signs, w):
        out = {name: [] for name in ("g", "local", "message", "sent")} | {"w": [w], "R": [], "R_G": [], "v": [w]}
        R, R_G = [[Q(0)] * self.d for _ in self.p], [Q(0)] * self.d
        out["R"].append(R)
        out["R_G"].append(R_G)
        for t in range(self.T):
            gs, locals_ = [], []
            for k in range(self.N):
                y, g_k, y_k = w, [], [w]
                for j in range(self.E):
                    sign = signs[k][t * self.E + j] if k in signs else 0
                    g = [h * (a - c) + sign * n for h, a, c, n in zip(self.h[k], y, self.c[k], self.n[k])]
                    y = minus(y, times(self.eta(t), g))
                    g_k.append(g)
                    y_k.append(y)
                gs.append(g_k)
                locals_.append(y_k)
            message = [plus(R[k], minus(locals_[k][-1], w)) for k in range(self.N)]
            sent = [st(m, self.q) for m in message]
            R = [minus(m, s) for m, s in zip(message, sent)]
            total = plus(R_G, mix(self.p, sent))
            move = st(total, self.q) if self.down else total
            R_G, w = minus(total, move), plus(w, move)
            v = plus(plus(w, R_G), mix(self.p, R))
            for name, value in zip(out, (gs, locals_, message, sent, w, R, R_G, v), strict=True):
                out[name].append(value)
        return out

    def mean(self, value):
        return sum(value(r) for r in self.paths) / len(self.paths)

    def squares(self, name, other=None):
        """E||x_t - y||^2, t = 1..T."""
        return [
            self.mean(lambda r, t=t: sq(minus(r[name][t], self.star if other is None else r[other][t])))
            for t in range(1, self.T + 1)
        ]

    def B(self):
        noise = sum(p * p * s for p, s in zip(self.p, self.sigma_sq))
        gap = sum(p * D for p, D in zip(self.p, self.D))
        i_sq = sum(i * i for i in range(self.E))
        drift = self.G_sq * i_sq + self.E * self.rho_sq
        return self.E * (noise + 6 * self.L * gap) + (2 + self.mu / (2 * self.L)) * drift

    def vbar(self, r, t, i):
        """v_t + sum p^k (w_i^k - w_t)."""
        return plus(r["v"][t], mix(self.p, [minus(r["local"][t][k][i], r["w"][t]) for k in range(self.N)]))

    def off(self, r, t, i, point):
        """sum p^k ||w_i^k - point||^2."""
        return sum(p * sq(minus(r["local"][t][k][i], point)) for k, p in enumerate(self.p))


def virtual_bound(run, t):
    first = run.gamma**2 * run.mean(lambda r: sq(minus(r["w"][0], run.star)))
    return (first + t * (16 / run.mu) ** 2 * run.B()) / (t * run.E + run.gamma) ** 2


def virtual(data):
    run = Compressed(data)
    return run.squares("v"), [virtual_bound(run, t) for t in range(1, run.T + 1)]


def model(data):
    run = Compressed(data)
    return run.squares("w"), [2 * virtual_bound(run, t) + 2 * run.rho_sq * run.eta(t) ** 2 for t in range(1, run.T + 1)]


def one_round(data):
    run = Compressed(data)
    before = [run.mean(lambda r: sq(minus(r["v"][0], run.star))), *run.squares("v")]
    etas = [run.eta(t) for t in range(run.T)]
    return before[1:], [(1 - e * run.mu * run.E / 2) * a + e * e * run.B() for e, a in zip(etas, before)]


def conserved(data):
    """v_{t+1} = v_t + sum p^k x_t^k, all rounds, paths and coordinates."""
    run, left, right = Compressed(data), [], []
    for t in range(run.T):
        for r in run.paths:
            left += r["v"][t + 1]
            right += plus(r["v"][t], mix(run.p, [minus(r["local"][t][k][-1], r["w"][t]) for k in range(run.N)]))
    return left, right


def clients_and_rounds(run):
    return [(t, k) for t in range(run.T) for k in range(run.N)]


def one_compression(data):
    run = Compressed(data)
    pairs = clients_and_rounds(run)
    right = [(1 - run.delta) * run.mean(lambda r, t=t, k=k: sq(r["message"][t][k])) for t, k in pairs]
    return [run.mean(lambda r, t=t, k=k: sq(r["R"][t + 1][k])) for t, k in pairs], right


def shorter(data):
    run = Compressed(data)
    each = [(r, t, k) for t in range(run.T) for r in run.paths for k in range(run.N)]
    return [sq(r["sent"][t][k]) for r, t, k in each], [sq(r["message"][t][k]) for r, t, k in each]


def clients_residuals(data):
    run = Compressed(data)
    pairs = clients_and_rounds(run)
    bound = [(4 / run.delta - 1) ** 2 * run.E**2 * run.G_sq * run.eta(t + 1) ** 2 for t, _ in pairs]
    return [run.mean(lambda r, t=t, k=k: sq(r["R"][t + 1][k])) for t, k in pairs], bound


def server_residual(data):
    run = Compressed(data)
    factor = (run.A - 4 / run.delta) ** 2 * run.E**2 * run.G_sq
    left = [run.mean(lambda r, t=t: sq(r["R_G"][t])) for t in range(1, run.T + 1)]
    return left, [factor * run.eta(t) ** 2 for t in range(1, run.T + 1)]


def apart(data):
    run = Compressed(data)
    return run.squares("w", "v"), [run.rho_sq * run.eta(t) ** 2 for t in range(1, run.T + 1)]


def local_steps(run):
    return [(t, i) for t in range(run.T) for i in range(run.E)]


def one_step(data):
    run, left, right = Compressed(data), [], []
    gap = sum(p * D for p, D in zip(run.p, run.D))
    noise = sum(p * p * s for p, s in zip(run.p, run.sigma_sq))
    for t, i in local_steps(run):
        e = run.eta(t)
        left.append(run.mean(lambda r, t=t, i=i: sq(minus(run.vbar(r, t, i + 1), run.star))))
        now = run.mean(lambda r, t=t, i=i: sq(minus(run.vbar(r, t, i), run.star)))
        spread = run.mean(lambda r, t=t, i=i: run.off(r, t, i, run.vbar(r, t, i)))
        away = run.mean(lambda r, t=t, i=i: run.off(r, t, i, run.star))
        right.append(now + 2 * spread + 6 * run.L * e * e * gap + e * e * noise - e * run.mu * away)
    return left, right


def drift_identity(data):
    run, left, right = Compressed(data), [], []
    for t, i in local_steps(run):
        for r in run.paths:
            at = run.vbar(r, t, i)
            left.append(run.off(r, t, i, at))
            moved = sq(minus(at, r["v"][t]))
            right.append(run.off(r, t, i, r["w"][t]) - moved + sq(minus(r["w"][t], r["v"][t])))
    return left, right


def drift_bound(data):
    run, left, right = Compressed(data), [], []
    for t, i in local_steps(run):
        left.append(run.mean(lambda r, t=t, i=i: run.off(r, t, i, run.vbar(r, t, i))))
        right.append(run.eta(t) ** 2 * run.G_sq * i * i + run.mean(lambda r, t=t: sq(minus(r["w"][t], r["v"][t]))))
    return left, right


# --- Table 1 -------------------------------------------------------------------------------------
ROW = {"h": ["1/2", "2"], "start": ["2", "1"], "root": "2", "K": "10", "loss": False}
ROW_LOSS = {**ROW, "root": "1/2", "loss": True}
UNITS = {"G": "3", "L": "2", "mu": "1/2", "S": "4", "sigma": "5", "clients": "10", "root": "1/2"}


class Family:
    """F = sum h_i w_i^2/2, one client, E = 1, eta_t = 16/(mu (t + 1 + 64 L/mu)); the run until the error is at most epsilon."""

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
    """max{512 b/(mu^2 T), 2 gamma^2 ||w_0 - w*||^2/(T E)^2} + H_T J/(T E + gamma) at T - 1 and T."""
    run, left, right = Run(scheme, RUNS[scheme]), [], []
    b = max(run.B_sharp(t) / run.S[t] ** 2 for t in range(run.T))
    for T in (run.T - 1, run.T):
        reached = max(512 * b / (run.mu**2 * T), 2 * run.gamma**2 * run.distance_sq[0] / (T * run.E) ** 2)
        H = sum(not run.same_ratio(t) for t in range(T))
        left.append(run.distance_sq[T])
        right.append(reached + H * run.J() / (T * run.E + run.gamma))
    return left, right


def table(data, a=Q(1), root=Q(1)):
    """The rows of EFL, VRL-SGD and FedAMP for the loss times a; EFL's epsilon is times a, the others' times a^2.

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


_STABLE, _DRIFT = "efl/elastic-stability", "efl/elastic-drift"
_WITH, _PROOF = "efl/compressed-convergence", "efl/compressed-convergence-proof"
_ROW, _UNITS = "efl/table-1-row", "efl/table-1-non-convex"
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
    (_WITH, "literal formulas"): ({**HELD, "variant": "literal"}, held),
    (_WITH, "text of 3.1"): (HELD_TEXT, held),
    (_WITH, "consistent, at the optimum"): ({**HELD, "variant": "consistent"}, held),
    (_WITH, "repaired"): (PLAIN, model),
    (_WITH, "repaired", "noise"): (NOISY, model),
    (_WITH, "repaired", "one way"): (ONE_WAY, model),
    (_WITH, "virtual iterate"): (PLAIN, virtual),
    (_PROOF, "repaired"): (NOISY, one_round),
    (_PROOF, "virtual iterate"): (PLAIN, conserved),
    (_PROOF, "one compression"): (NOISY, one_compression),
    (_PROOF, "shorter messages"): (PLAIN, shorter),
    (_PROOF, "residuals of the clients"): (PLAIN, clients_residuals),
    (_PROOF, "residual of the server"): (PLAIN, server_residual),
    (_PROOF, "distance of the models"): (PLAIN, apart),
    (_PROOF, "distance of the models", "one way"): (ONE_WAY, apart),
    (_PROOF, "one local step"): (NOISY, one_step),
    (_PROOF, "one local step", "two steps"): (PLAIN, one_step),
    (_PROOF, "drift, identity"): (PLAIN, drift_identity),
    (_PROOF, "drift"): (PLAIN, drift_bound),
    (_ROW, "printed, distance"): (ROW, row),
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
