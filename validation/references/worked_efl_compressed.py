"""Worked instances of EFL's convergence with compression, in plain fractions.

Written from Algorithms 1 and 2 and the LaTeX of every form; nothing of the library is imported.
Noise goes through every sign, one by one.
"""

from __future__ import annotations

from fractions import Fraction as Q
from itertools import product
from math import ceil

from worked_efl_messages import st
from worked_efl_sections import minimiser, minus, numbers, sq


def plus(x, y):
    return [a + b for a, b in zip(x, y, strict=True)]


def times(factor, x):
    return [factor * a for a in x]


def mix(weights, rows):
    """sum_k weights_k rows_k."""
    return [sum(p * row[i] for p, row in zip(weights, rows, strict=True)) for i in range(len(rows[0]))]


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
    return [sum(column) for column in zip(*moves)], [Q(0) for _ in moves[0]]


def period(a, b, phase):
    """Return what a client with the move (a, b) holds, and what it sends, from any round on.

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
    """The mean moves at w*, over all phases of the clients and all histories of the server, and the
    least gap of a choice.

    The server holds one coordinate back, by what came in since it was last sent: any number of
    rounds ago, up to three periods. Raises `ValueError` on a tie, or where one coordinate might
    never be sent.
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
    """Return whether a coordinate that is held back is sent some time, whatever is held.

    What comes in adds up, or no R has |R + its sums| <= |the other's| in all rounds of a period.
    """
    if sum(own) != 0:
        return True
    total, low, high = Q(0), [], []
    for x, y in zip(own, other, strict=True):
        total += x
        low.append(-total - abs(y))
        high.append(-total + abs(y))
    return max(low) > min(high)


def server_mean(m, R):
    """The mean of D^G over the period that is reached from what the server holds, and the least gap
    in it."""
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
# the first entries of the minima are the smaller ones
LATE = {**PLAIN, "h": [["1", "2/3"], ["2/3", "1"]], "E": 9, "T": 1, "noise": [["1/2", "0"], ["0", "0"]]}


class Compressed:
    """All paths of the noise of a run with error feedback on both sides; every expectation is their
    mean."""

    def __init__(self, data):
        self.p, self.h, self.c = (numbers(data[k]) for k in ("weights", "h", "c"))
        self.N, self.d, self.E, self.T = len(self.p), len(self.h[0]), data["E"], data["T"]
        self.n = numbers(data["noise"]) if "noise" in data else [[Q(0)] * self.d for _ in self.p]
        self.q, self.down, w0 = Q(data["q"]), data["down"], numbers(data["w0"])
        k = Q(max(ceil(self.d * self.q), 1))
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


def sharp_bound(run, t):
    """(eta_t/eta_0)^16 ||w_0 - w*||^2, the noise and what the clients and the residuals are off,
    for t >= 1."""
    now, before, first = run.eta(t), run.eta(t - 1), run.eta(0)
    start = (now / first) ** 16 * run.mean(lambda r: sq(minus(r["w"][0], run.star)))
    variance = sum(p * p * s for p, s in zip(run.p, run.sigma_sq))
    noise = min(5 * now / (4 * run.mu), t * run.E * before**2) * variance
    least = min(3 * now**2 / (2 * run.mu), t * run.E * first * before**2)
    return start + noise + Q(5, 2) * run.L * least * ((run.E - 1) ** 2 * run.G_sq + run.rho_sq)


def sharp_virtual(data):
    run = Compressed(data)
    return run.squares("v"), [sharp_bound(run, t) for t in range(1, run.T + 1)]


def sharp_model(data):
    run = Compressed(data)
    return run.squares("w"), [2 * sharp_bound(run, t) + 2 * run.rho_sq * run.eta(t) ** 2 for t in range(1, run.T + 1)]


def sharp_round(data):
    run, right = Compressed(data), []
    a = [run.mean(lambda r: sq(minus(r["v"][0], run.star))), *run.squares("v")]
    noise = sum(p * p * s for p, s in zip(run.p, run.sigma_sq))
    for t in range(run.T):
        e = run.eta(t)
        q = (1 - e * run.mu) ** run.E
        off = Q(5, 2) * run.L * e * ((run.E - 1) ** 2 * run.G_sq + run.rho_sq)
        right.append(q * a[t] + (1 - q) * e / run.mu * (noise + off))
    return a[1:], right


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


def sharp_step(data):
    run, left, right = Compressed(data), [], []
    noise = sum(p * p * s for p, s in zip(run.p, run.sigma_sq))
    for t, i in local_steps(run):
        e = run.eta(t)
        left.append(run.mean(lambda r, t=t, i=i: sq(minus(run.vbar(r, t, i + 1), run.star))))
        now = run.mean(lambda r, t=t, i=i: sq(minus(run.vbar(r, t, i), run.star)))
        spread = run.mean(lambda r, t=t, i=i: run.off(r, t, i, run.vbar(r, t, i)))
        right.append((1 - e * run.mu) * now + Q(5, 2) * e * run.L * spread + e * e * noise)
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


_WITH, _PROOF = "efl/compressed-convergence", "efl/compressed-proof"
WORKED = {
    (_WITH, "literal formulas"): ({**HELD, "variant": "literal"}, held),
    (_WITH, "text of 3.1"): (HELD_TEXT, held),
    (_WITH, "consistent, at the optimum"): ({**HELD, "variant": "consistent"}, held),
    (_WITH, "repaired"): (PLAIN, model),
    (_WITH, "repaired", "noise"): (NOISY, model),
    (_WITH, "repaired", "one way"): (ONE_WAY, model),
    (_WITH, "virtual iterate"): (PLAIN, virtual),
    (_WITH, "sharpened"): (PLAIN, sharp_model),
    (_WITH, "sharpened", "noise"): (NOISY, sharp_model),
    (_WITH, "sharpened, virtual iterate"): (PLAIN, sharp_virtual),
    (_WITH, "sharpened, virtual iterate", "late"): (LATE, sharp_virtual),
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
    (_PROOF, "one local step, sharpened"): (NOISY, sharp_step),
    (_PROOF, "one local step, sharpened", "two steps"): (PLAIN, sharp_step),
    (_PROOF, "one round, sharpened"): (NOISY, sharp_round),
    (_PROOF, "one round, sharpened", "two steps"): (PLAIN, sharp_round),
    (_PROOF, "drift, identity"): (PLAIN, drift_identity),
    (_PROOF, "drift"): (PLAIN, drift_bound),
}
