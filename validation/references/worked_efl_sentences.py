"""Worked instances of (2), (3), (6), the order of C_tau, and EFL's claim of fewer gradients and
bits, in fractions.

Written from the paper's formulas and the LaTeX of every form; nothing of the library is imported,
and no NumPy. A function gives a form's two sides as flat lists, coordinates innermost. For an
equality they are the two sides that should agree.
"""

from __future__ import annotations

from fractions import Fraction as Q
from math import ceil

import worked_efl
from worked_efl_messages import st
from worked_efl_sections import minimiser, minus, numbers, sq


def times(factor, x):
    return [factor * v for v in x]


def plus(*xs):
    return [sum(column) for column in zip(*xs, strict=True)]


def weighted(weights, rows):
    """sum_k weights_k rows_k."""
    return plus(*(times(w, row) for w, row in zip(weights, rows, strict=True)))


def flat(rows):
    return [v for row in rows for v in row]


# --- (2) and (3) ---------------------------------------------------------------------------------
TERM = {
    "lam": "3/2", "u": [["2", "1/2"], ["1", "3"]], "anchors": [["1", "-2"], ["-1/2", "4"]],
    "next_u": [["1", "1"], ["2", "5/2"]], "next_anchors": [["0", "-1"], ["1", "3"]],
    "points": [["1", "2"], ["-3", "1/2"], ["2", "-1"]], "active": [0],
}  # fmt: skip


def two(data, w):
    """lambda/2 sum_i (w - a_i)' diag(u_i) (w - a_i)."""
    u, a = numbers(data["u"]), numbers(data["anchors"])
    return Q(data["lam"]) / 2 * sum(d * (x - y) ** 2 for ud, ad in zip(u, a) for d, x, y in zip(ud, w, ad))


def three(data, w):
    """lambda/2 w' (sum_i diag u_i) w - lambda w' sum_i diag(u_i) a_i."""
    u, a, lam = numbers(data["u"]), numbers(data["anchors"]), Q(data["lam"])
    quadratic = sum(x * sum(row[j] for row in u) * x for j, x in enumerate(w))
    cross = sum(x * sum(ud[j] * ad[j] for ud, ad in zip(u, a)) for j, x in enumerate(w))
    return lam / 2 * quadratic - lam * cross


def constant(data, prefix=""):
    """Z = lambda/2 sum_i a_i' diag(u_i) a_i."""
    u, a = numbers(data[prefix + "u"]), numbers(data[prefix + "anchors"])
    return Q(data["lam"]) / 2 * sum(d * y * y for ud, ad in zip(u, a) for d, y in zip(ud, ad))


def rearranged(data):
    first, *others = numbers(data["points"])
    rest = two(data, first) - three(data, first)
    return [two(data, w) - three(data, w) for w in others], [rest for _ in others]


def with_z(data):
    points = numbers(data["points"])
    return [two(data, w) - three(data, w) for w in points], [constant(data) for _ in points]


def gradient(data, who=None):
    """d/dw_j of lambda/2 sum_i u_ij (w_j - a_ij)^2, against lambda (sum u_j w_j - sum u_j a_j) over
    some i."""
    u, a, lam = numbers(data["u"]), numbers(data["anchors"]), Q(data["lam"])
    some = range(len(u)) if who is None else who
    left = [lam * sum(row[j] * (w[j] - ad[j]) for row, ad in zip(u, a)) for w in numbers(data["points"]) for j in range(len(w))]
    right = [
        lam * (sum(u[i][j] for i in some) * w[j] - sum(u[i][j] * a[i][j] for i in some))
        for w in numbers(data["points"])
        for j in range(len(w))
    ]
    return left, right


# --- Algorithm 1, round by round -----------------------------------------------------------------
FED = {
    "weights": ["1/4", "3/4"], "h": [["1", "1/2"], ["1/2", "1"]], "c": [["1", "-2"], ["-1", "2"]], "q": "1/2", "eta": "1/4",
    "x0": ["0", "1"], "E": 2, "schedule": [[2, 1], [0, 2]], "rounds": 3,
}  # fmt: skip
LINE = {**FED, "h": [["1"], ["1/2"]], "c": [["1"], ["-1"]], "x0": ["2"], "q": "1"}  # ST keeps the one entry


def rounds(data):
    """(w, R^G, R, p_tau, w_s^k - w, eta g_s, w', R^G', R') of every round, scheme C."""
    p, h, c, w = (numbers(data[k]) for k in ("weights", "h", "c", "x0"))
    eta, E, d = Q(data["eta"]), data["E"], len(w)
    server, clients, out = [Q(0)] * d, [[Q(0)] * d for _ in p], []
    for t in range(data["rounds"]):
        s = data["schedule"][t % len(data["schedule"])]
        share = [Q(E, x) * pk if x else Q(0) for x, pk in zip(s, p)]
        moves, last, arrives, kept = [], [], [Q(0)] * d, []
        for k, steps in enumerate(s):
            at = w
            for _ in range(steps):
                at = [x - eta * a * (x - b) for x, a, b in zip(at, h[k], c[k])]
            moves.append(minus(at, w) if steps else [Q(0)] * d)
            last.append([eta * a * (x - b) for x, a, b in zip(at, h[k], c[k])] if steps else [Q(0)] * d)
            if not steps:
                kept.append(clients[k])
                continue
            factor = Q(E, steps) if data["variant"] == "consistent" else 1
            message = plus(clients[k], times(factor, moves[k]))
            sent = st(message, Q(data["q"]))
            kept.append(minus(message, sent))
            weight = p[k] if data["variant"] == "consistent" else share[k]
            arrives = plus(arrives, times(weight, message if data["variant"] == "literal" else sent))
        total = plus(server, arrives)
        down = st(total, Q(data["q"]))
        after = plus(w, down if data["variant"] == "consistent" else total)
        out.append((w, server, clients, share, moves, last, after, minus(total, down), kept))
        w, server, clients = after, minus(total, down), kept
    return p, out


def server_step(data, form):
    """omega_{tau+1}, and what the form says it is, of every round."""
    p, found = rounds(data)
    left, right = [], []
    for w, server, clients, share, moves, last, after, server_after, kept in found:
        gradients = times(-1, weighted(share, moves))  # sum_k p_tau^k sum_{j < s} eta g_j
        one_more = weighted(share, last)
        residuals = weighted(share, clients)
        says = {
            "printed": plus(w, server, times(-1, gradients), times(-1, one_more)),
            "printed, second line": plus(w, server, weighted(share, [plus(r, m) for r, m in zip(clients, moves)])),
            "up to s-1": plus(w, server, times(-1, gradients)),
            "with R^k": plus(w, server, residuals, times(-1, gradients), times(-1, one_more)),
            "repaired": plus(w, server, residuals, times(-1, gradients)),
            "consistent": plus(
                w, server, times(-1, server_after), weighted(p, [minus(a, b) for a, b in zip(clients, kept)]), times(-1, gradients)
            ),
        }  # fmt: skip
        left += after
        right += says[form]
    return left, right


def stepping(form):
    return lambda data: server_step(data, form)


# --- gradients and bits --------------------------------------------------------------------------
COSTLY = {
    "variant": "consistent", "weights": ["1/2", "1/2"], "h": [["1", "1/2", "1"], ["1", "1", "1/2"]],
    "c": [["1", "-2", "3"], ["-1", "2", "1"]], "q": "1/3", "eta": "1/2", "x0": ["4", "4", "4"], "E": 1, "schedule": [[1, 1]],
    "rounds": 12,
}  # fmt: skip


def path(data, compressed):
    """omega_0..omega_T; without compression a round adds sum_k p_tau^k of what the local steps
    move."""
    if compressed:
        return [numbers(data["x0"]), *(r[6] for r in rounds(data)[1])]
    p, h, c, w = (numbers(data[k]) for k in ("weights", "h", "c", "x0"))
    out = [w]
    for row in schedule(data):
        moved = w
        for pk, a, b, s in zip(p, h, c, row):
            at = w
            for _ in range(s):
                at = [x - Q(data["eta"]) * y * (x - z) for x, y, z in zip(at, a, b)]
            moved = plus(moved, times(pk * Q(data["E"], s) if s else 0, minus(at, w)))
        w = moved
        out.append(w)
    return out


def schedule(data):
    """Local steps of all clients, a row for every round."""
    return [data["schedule"][t % len(data["schedule"])] for t in range(data["rounds"])]


def takes(data, compressed, messages=False):
    """Gradients of all clients until ||w - w*||^2 <= ||w_0 - w*||^2/16; where that is not reached
    at least one more.

    ``messages``: participants in place of gradients.
    """
    star = minimiser(*(numbers(data[k]) for k in ("weights", "h", "c")))
    away = [sq(minus(w, star)) for w in path(data, compressed)]
    counts = [sum(s > 0 for s in row) if messages else sum(row) for row in schedule(data)]
    return next((sum(counts[:t]) for t, v in enumerate(away) if 16 * v <= away[0]), sum(counts) + 1)


def message_bits(data):
    """k positions of ceil(log2 n) bits and k signs, and one float; and a dense message."""
    n = len(data["x0"])
    k, width = max(ceil(n * Q(data["q"])), 1), 0
    while 2**width < n:
        width += 1
    return k * (1 + width) + 32, 32 * n


def gradients(data):
    return [Q(takes(data, True))], [Q(takes(data, False))]


def bits(data):
    short, dense = message_bits(data)
    return [Q(takes(data, True, messages=True) * 2 * short)], [Q(takes(data, False, messages=True) * 2 * dense)]


def bits_with_pairs(data):
    short, dense = message_bits(data)
    return [Q(2 * short + 4 * dense)], [Q(2 * dense)]


def bits_at_least(data):
    short, dense = message_bits(data)
    return [Q(4 * dense)], [Q(2 * short + 4 * dense)]


def bits_alone(data):
    short, dense = message_bits(data)
    return [Q(2 * short)], [Q(2 * dense)]


# --- the order of C_tau, on the runs of `worked_efl` ---------------------------------------------
def order(run, tau, form):
    """C_tau, and what bounds it."""
    start, rate = run.gamma**2 * run.distance_sq[0], (16 * run.E / run.mu) ** 2
    each = [rate * run.B(t, form == "printed") / run.S[t] ** 2 for t in range(run.T)]
    C = max(start, sum(each[:tau])) if form == "printed" else start + sum(each[:tau])
    if form == "printed":
        return C, tau * max(start, *each)
    if form == "repaired":
        return C, tau * (start + max(each))
    if form == "one rate":
        return C, start + tau * max(each)
    if form == "explicit":
        theta, E, G = run.theta, run.E, run.G_sq
        b = theta * max(p * v for p, v in zip(run.p, run.sigma_sq)) + 2 * (2 + theta) * run.L * max(run.D)
        b += (2 + run.mu / (2 * (1 + theta) * run.L)) * E * (E - 1) * G * (1 + theta * max(theta - 2, 0)) + 2 * E * G * theta
        return C, start + tau * rate * b / min(run.S)
    H, y = sum(not run.same_ratio(t) for t in range(tau)), tau * run.E + run.gamma
    return C / y**2 + H * run.J() / y, (start + max(each)) / (run.E**2 * Q(tau)) + run.J() / run.E * Q(H, tau)


ORDER = ("printed", "repaired", "one rate", "explicit", "and converges")


def order_of_c(form):
    def both(scheme):
        run = worked_efl.Run(scheme, worked_efl.RUNS[scheme])
        pairs = [order(run, tau, form) for tau in (run.T - 1, run.T)]
        return [a for a, _ in pairs], [b for _, b in pairs]

    return both


_R, _S, _C = "elastic-rearrangement", "server-step", "costs"
LITERAL, TEXT, CONSISTENT = ({"variant": v, **FED} for v in ("literal", "text", "consistent"))
WORKED = {
    (_R, "printed"): (TERM, rearranged),
    (_R, "Z"): (TERM, with_z),
    (_R, "elastic gradient"): (TERM, gradient),
    (_R, "the sums over those that take part"): (TERM, lambda data: gradient(data, data["active"])),
    (_R, "one Z for all rounds"): (TERM, lambda data: ([constant(data)], [constant(data, "next_")])),
    (_S, "printed"): (LITERAL, stepping("printed")),
    (_S, "printed, second line"): (LITERAL, stepping("printed, second line")),
    (_S, "up to s-1"): (LITERAL, stepping("up to s-1")),
    (_S, "with R^k"): (LITERAL, stepping("with R^k")),
    (_S, "repaired"): (LITERAL, stepping("repaired")),
    (_S, "up to s-1, nothing left out"): ({"variant": "literal", **LINE}, stepping("up to s-1")),
    (_S, "text of 3.1"): (TEXT, stepping("printed, second line")),
    (_S, "repaired, consistent form"): (CONSISTENT, stepping("consistent")),
    (_C, "gradients to converge"): (COSTLY, gradients),
    (_C, "bits to converge"): (COSTLY, bits),
    (_C, "bits a round"): (COSTLY, bits_with_pairs),
    (_C, "bits a round, at least"): (COSTLY, bits_at_least),
    (_C, "bits a round, lambda = 0"): (COSTLY, bits_alone),
    **{("order-of-c", form, scheme): (scheme, order_of_c(form)) for form in ORDER for scheme in worked_efl.RUNS},
}  # fmt: skip
