"""Worked instances of what EFL says in its sentences about clients that come, go, wait or do less,
in fractions.

Written from the paper's formulas and the LaTeX of every form; nothing of the library is imported,
and no NumPy. A function gives a form's two sides as flat lists, coordinates innermost.
"""

from __future__ import annotations

from fractions import Fraction as Q
from itertools import pairwise, product

from worked_efl_sections import minimiser, minus, numbers, sq
from worked_efl_sentences import flat, plus, times

# --- tolerance, early and late departures, staleness ---------------------------------------------
INACTIVE = {"idle": ["0", "1/3"], "E": 3, "T": 7, "gamma": "25/2", "J": "5/4", "C": "7/2", "y": "1/3", "tau_0": 2}
AWAY = {
    "weights": ["1/2", "1/3", "1/6"], "h": [["2", "1"], ["1", "3"], ["3", "2"]], "c": [["1", "0"], ["-2", "1"], ["4", "3"]],
    "mu": "1", "gamma": "50", "T": 3, "x0": ["5", "-4"],
}  # fmt: skip


# Hessians that are not diagonal
CURVED = {
    "weights": ["1/10", "9/10"], "H": [[["15", "3"], ["3", "21"]], [["5", "-4"], ["-4", "23"]]],
    "c": [["0", "0"], ["-3", "-2"]], "mu": "83/20", "gamma": "93", "T": 4, "x0": ["-1", "1"],
}  # fmt: skip
CANCEL = {
    "weights": ["9/10", "1/10"], "H": [[["5", "-3"], ["-3", "3"]], [["4", "0"], ["0", "6"]]],
    "c": [["0", "0"], ["-1", "1"]], "mu": "4/5", "gamma": "145", "T": 4, "x0": ["3", "-1"],
}  # fmt: skip


def threshold(data, T):
    """f_1(T)/J = T C/(J (E(T - tau_0) + gamma)^2)."""
    return T * Q(data["C"]) / (Q(data["J"]) * (data["E"] * (T - data["tau_0"]) + Q(data["gamma"])) ** 2)


def falls(data):
    return [threshold(data, data["T"] + 1)], [threshold(data, data["T"])]


def falls_by(data):
    E, T, gamma = data["E"], data["T"], Q(data["gamma"])
    y = E * (T - data["tau_0"]) + gamma
    by = Q(data["C"]) * (T * (T + 1) * E**2 - (gamma - E * data["tau_0"]) ** 2) / (Q(data["J"]) * y**2 * (y + E) ** 2)
    return [threshold(data, T) - threshold(data, T + 1)], [by]


def order_falls(data):
    over = Q(data["C"]) / Q(data["J"])
    return [over / ((data["T"] + 1) * data["E"])], [over / (data["T"] * data["E"])]


def discard(data):
    """f_0 - f_1 at tau_0 = 1..T-1, against tau_0 = 0..T-2."""
    T, E, gamma, J = data["T"], data["E"], Q(data["gamma"]), Q(data["J"])
    C = T * Q(data["C"])
    y = T * E + gamma
    values = [C / y**2 + (T - 1 - t) * J / y - C / (E * (T - t) + gamma) ** 2 for t in range(T)]
    return values[1:], values[:-1]


def times_hessian(data, k, x):
    """H_k x, of a row of curvatures or of a matrix."""
    if "H" in data:
        return [sum(a * v for a, v in zip(row, x)) for row in numbers(data["H"])[k]]
    return [a * v for a, v in zip(numbers(data["h"])[k], x)]


def descend(data, start, coefficients):
    """Gradient steps of size 16/(mu (t + 1 + gamma)) with these coefficients, one list a round."""
    c, w = numbers(data["c"]), start
    out = [w]
    for t, p in enumerate(coefficients):
        eta = Q(16) / (Q(data["mu"]) * (t + 1 + Q(data["gamma"])))
        for k, pk in enumerate(p):
            w = minus(w, times(eta * pk, times_hessian(data, k, minus(out[-1], c[k]))))
        out.append(w)
    return out


def coefficients_of(data):
    """p, p without client a, and the same of sum 1."""
    p = numbers(data["weights"])
    others = [*p[:-1], Q(0)]
    return p, others, times(1 / sum(others), others)


def star_of(data):
    if "H" not in data:
        return minimiser(*(numbers(data[k]) for k in ("weights", "h", "c")))
    p, H, c = (numbers(data[k]) for k in ("weights", "H", "c"))  # two coordinates, by Cramer's rule
    (a, b), (_, d) = ([sum(w * m[i][j] for w, m in zip(p, H)) for j in range(2)] for i in range(2))
    e, f = map(sum, zip(*(times(w, times_hessian(data, k, c[k])) for k, w in enumerate(p))))
    return [(d * e - b * f) / (a * d - b * b), (a * f - b * e) / (a * d - b * b)]


def absences(data, start):
    p, others, _ = coefficients_of(data)
    star, T = star_of(data), data["T"]
    ends = [descend(data, start, [others if t == out else p for t in range(T)])[-1] for out in range(T)]
    return [sq(minus(w, star)) for w in ends]


def departures(data, start):
    p, _, rest = coefficients_of(data)
    c, T = numbers(data["c"])[-1], data["T"]
    ends = [descend(data, start, [p if t < tau_0 else rest for t in range(T)])[-1] for tau_0 in range(T + 1)]
    away = [minus(w, c) for w in ends]
    return [sum(x * y for x, y in zip(v, times_hessian(data, -1, v))) / 2 for v in away]


def waits(data, in_turn):
    """grad F_a(w_m) - grad F_a(w_0), m = 0..T."""
    n, T = len(data["weights"]) - 1, data["T"]
    turns = [[Q(int(k == t % n)) for k in range(n + 1)] for t in range(T)]
    models = descend(data, numbers(data["x0"]), turns if in_turn else [coefficients_of(data)[2]] * T)
    return [times_hessian(data, -1, minus(w, models[0])) for w in models]


def grows(values):
    return values[:-1], values[1:]


def wait_bound(data):
    found = waits(data, True)
    moved = [[abs(v) for v in minus(b, a)] for a, b in pairwise(found)]
    sums = [plus(*moved[: m + 1]) for m in range(len(moved))]
    return [abs(v) for v in flat(found[1:])], flat(sums)


# --- coefficients and learning rates; the conclusion of Theorem 2 --------------------------------
COEFFICIENT = {"h": ["2", "1/2"], "away": ["3", "-5"], "eta": "1/8", "E": 5, "s": 3, "factor": "5/2"}
TWO_STEPS = {**COEFFICIENT, "s": 2}
ONE_STEP = {**COEFFICIENT, "s": 1}
ATTAINED = {"h": ["1"], "away": ["4"], "eta": "1/4", "E": 2, "s": 1, "factor": "2"}
SAMPLES = {
    "samples": ["2", "3", "4"], "h": [["1", "2"], ["3", "1"], ["2", "5/2"]], "c": [["1", "-1"], ["0", "2"], ["4", "-3"]],
    "fewer": "3/2", "closer": "2/5",
}  # fmt: skip
MANY = {"samples": ["1", "9"], "h": [["2"], ["3"]], "c": [["0"], ["1"]], "fewer": "2", "closer": "1/2"}


# F_a has curvature 1 left of 1 and 100 right of it, where its minimiser 101/100 lies
BENT = {
    "samples": ["1", "1"], "h": [["1"], ["100"]], "c": [["0"], ["101/100"]], "bend": "1", "below": "1", "fewer": "4/5",
    "closer": "1/2",
}  # fmt: skip
# curvature 5/2 left of 3, and 3/2 right of it, where its minimiser 4 lies
STEEPER = {
    "samples": ["2", "3"], "h": [["2"], ["3/2"]], "c": [["0"], ["4"]], "bend": "3", "below": "5/2", "fewer": "2",
    "closer": "1/2",
}  # fmt: skip


def bent_bound(data, n_a):
    """2L n_a^2 hat D_a/(mu^2 n^2), F_o = h_o w^2/2, of n samples: n h_o w + n_a F_a'(w) = 0 left of
    the bend b.

    F_a' = h_a (b - c) at b, and falls from there to the left with the other curvature k.
    """
    (h_o,), (h_a,) = numbers(data["h"][0]), numbers(data["h"][1])
    n, c, b, k = Q(data["samples"][0]), Q(data["c"][1][0]), Q(data["bend"]), Q(data["below"])
    slope = h_a * (b - c)
    w = n_a * (k * b - slope) / (n * h_o + n_a * k)
    if w > b:
        raise ValueError("the optimum of this instance should not lie right of the bend")
    gap = h_a * (b - c) ** 2 / 2 + slope * (w - b) + k * (w - b) ** 2 / 2
    return 2 * max(h_o, h_a, k) * n_a**2 * gap / (min(h_o, h_a, k) * n) ** 2


def fewer_bent(data):
    """The bound with fewer samples, and with all of them."""
    return [bent_bound(data, Q(data["fewer"]))], [bent_bound(data, Q(data["samples"][-1]))]


def walk(data, steps, step):
    """Return how far gradient steps on h (w - c)^2/2 go from w, c - w = away, by coordinate."""
    out = []
    for h, away in zip(numbers(data["h"]), numbers(data["away"])):
        w = Q(0)
        for _ in range(steps):
            w -= step * h * (w - away)
        out.append(w)
    return out


def second_order(data, number):
    return [number * (Q(data["eta"]) * h) ** 2 * abs(a) for h, a in zip(numbers(data["h"]), numbers(data["away"]))]


def with_coefficient(data):
    return times(Q(data["factor"]), walk(data, data["s"], Q(data["eta"])))


def with_step(data):
    return walk(data, data["s"], Q(data["factor"]) * Q(data["eta"]))


def absolute(x):
    return [abs(v) for v in x]


def by_how_much(data):
    s, f = data["s"], Q(data["factor"])
    left = [a - b for a, b in zip(absolute(with_coefficient(data)), absolute(with_step(data)))]
    return left, second_order(data, Q(s * (s - 1), 2) * f * (f - 1))


def scaled(data):
    return times(Q(data["E"], data["s"]), walk(data, data["s"], Q(data["eta"])))


def complete(data):
    return walk(data, data["E"], Q(data["eta"]))


def at_most(data):
    left = [a - b for a, b in zip(absolute(scaled(data)), absolute(complete(data)))]
    return left, second_order(data, Q(data["E"] * (data["E"] - data["s"]), 2))


def bound_of(data, event, n_a=None, closer=Q(1), repaired=False):
    """8L n_a^2 hat D_a/(mu^2 n^2), n all samples together; repaired, of an arrival, 2 for 8 and n
    the others'."""
    samples, h = numbers(data["samples"]), numbers(data["h"])
    c = [times(closer, row) for row in numbers(data["c"])]
    n_a, others = samples[-1] if n_a is None else n_a, samples[:-1]
    new = minimiser(others, h[:-1], c[:-1]) if event == "departure" else minimiser([*others, n_a], h, c)
    gap = sum(a * (x - b) ** 2 for a, x, b in zip(h[-1], new, c[-1])) / 2
    L, mu = max(flat(h)), min(flat(h))
    if repaired:
        return 2 * L * n_a**2 * gap / (mu * sum(others)) ** 2
    return 8 * L * n_a**2 * gap / (mu * (sum(others) + n_a)) ** 2


def fewer(event, repaired=False):
    return lambda data: (
        [bound_of(data, event, Q(data["fewer"]), repaired=repaired)], [bound_of(data, event, repaired=repaired)],
    )  # fmt: skip


def more_alike(data):
    cases, t = (("departure", False), ("arrival", False), ("arrival", True)), Q(data["closer"])
    return (
        [bound_of(data, event, closer=t, repaired=r) for event, r in cases],
        [t**2 * bound_of(data, event, repaired=r) for event, r in cases],
    )


# --- Theorem 1 across a shift: E = 1, scheme B, so that p_tau^k = p^k for who is active -----------
RESTART = {
    "event": "departure", "scheme": "B", "weights": ["1/2", "1/3", "1/6"], "h": [["1"], ["2"], ["3"]], "c": [["1"], ["-1"], ["2"]],
    "noise": [["1/2"], ["1"], ["2"]], "law": [["1/4", "3/4"], ["0", "1"], ["1/2", "1/2"]], "w0": ["3"], "tau_0": 2, "rounds": 2,
}  # fmt: skip
RESTART_ARRIVAL = {**RESTART, "event": "arrival"}
FAR = {  # almost all of the bound is used
    "event": "departure", "scheme": "B", "weights": ["99/100", "1/100"], "h": [["1"], ["10"]], "c": [["0"], ["12"]],
    "noise": [["0"], ["0"]], "law": [["0", "1"], ["0", "1"]], "w0": ["12"], "tau_0": 1, "rounds": 1,
}  # fmt: skip
ALPHAS = (Q(1, 100), Q(1, 3), Q(1), Q(3))


class Federation:
    """Clients in one coordinate, E = 1; L and mu are handed in."""

    def __init__(self, data, who, L, mu):
        p = numbers(data["weights"])
        self.p = [p[k] / sum(p[i] for i in who) for k in who]
        self.h, self.c, self.n = ([numbers(data[name])[k][0] for k in who] for name in ("h", "c", "noise"))
        self.q = [numbers(data["law"])[k][1] for k in who]
        self.L, self.mu = L, mu
        self.S = sum(p * q for p, q in zip(self.p, self.q))
        self.star = minimiser(self.p, [[v] for v in self.h], [[v] for v in self.c])[0]
        self.D = [h * (self.star - c) ** 2 / 2 for h, c in zip(self.h, self.c)]
        self.gamma = max(4 / self.S, 64 * L / (mu * self.S))  # theta = 1

    def go(self, one, two, y_0, many):
        """Mean and second moment of w, E||w - w*||^2 of every round, and G^2."""
        distance, G = [two - 2 * self.star * one + self.star**2], Q(0)
        for t in range(many):
            eta = 16 / (self.mu * (t + 1 + y_0) * self.S)
            G = max([G, *(h**2 * (two - 2 * c * one + c * c) + n * n for h, c, n in zip(self.h, self.c, self.n))])
            next_one, next_two = Q(0), Q(0)
            for active in product((0, 1), repeat=len(self.p)):
                mass, a, b, noise = Q(1), Q(1), Q(0), Q(0)
                for on, p, q, h, c, n in zip(active, self.p, self.q, self.h, self.c, self.n):
                    mass *= q if on else 1 - q
                    a, b, noise = a - on * eta * p * h, b + on * eta * p * h * c, noise + on * (eta * p * n) ** 2
                next_one += mass * (a * one + b)
                next_two += mass * (a * a * two + 2 * a * b * one + b * b + noise)
            one, two = next_one, next_two
            distance.append(two - 2 * self.star * one + self.star**2)
        return one, two, distance, G

    def bound(self, start_sq, y_0, many, G):
        """(y_0^2 start + (16/mu)^2 sum B/S^2)/y^2 + H J/y of every round, theta = E = 1."""
        ps = [p * q for p, q in zip(self.p, self.q)]
        squares = [p * p * q for p, q in zip(self.p, self.q)]
        data = sum(a * D for a, D in zip(ps, self.D))
        B = sum(s * n * n for s, n in zip(squares, self.n)) + 6 * self.L * data + 2 * G * self.S
        J, differs = 32 * data / (self.mu * self.S), len(set(self.q)) > 1
        rest = [(16 / self.mu) ** 2 * t * B / self.S**2 for t in range(many + 1)]
        return [(y_0**2 * start_sq + r) / (t + y_0) ** 2 + t * differs * J / (t + y_0) for t, r in enumerate(rest)]


def shifted(data):
    """Everything that the forms compare."""
    everyone = range(len(data["weights"]))
    L, mu = max(flat(numbers(data["h"]))), min(flat(numbers(data["h"])))
    together, apart = Federation(data, everyone, L, mu), Federation(data, everyone[:-1], L, mu)
    leaves = data["event"] == "departure"
    old, new = (together, apart) if leaves else (apart, together)
    tau_0, after, w0 = data["tau_0"], data["rounds"], Q(data["w0"][0])
    p = numbers(data["weights"])
    h_a, c_a = numbers(data["h"])[-1][0], numbers(data["c"])[-1][0]
    gap, n = h_a * (new.star - c_a) ** 2 / 2, sum(p) if leaves else sum(p[:-1])
    printed_n = n if leaves else n + p[-1]
    out = {
        "moved": (old.star - new.star) ** 2, "Theta": 2 * L * p[-1] ** 2 * gap / (mu * n) ** 2,
        "printed": 8 * L * p[-1] ** 2 * gap / (mu * printed_n) ** 2,
    }  # fmt: skip
    for name, gamma, first in (("fresh", old.gamma, None), ("kept", max(old.gamma, new.gamma), tau_0)):
        one, two, distance, G = old.go(w0, w0**2, gamma, tau_0)
        A = old.bound(distance[0], gamma, tau_0, G)[-1]
        y_0 = new.gamma if first is None else first + gamma
        _, _, found, G = new.go(one, two, y_0, after)
        start = min((1 + a) * A + (1 + 1 / a) * out["Theta"] for a in ALPHAS)
        out[name] = found, new.bound(start, y_0, after, G), A
    return out


def additional_term(data):
    v = shifted(data)
    return [v["fresh"][0][0]], [v["fresh"][2] + v["printed"]]


def at_the_shift(data):
    v = shifted(data)
    return [v["fresh"][0][0] for _ in ALPHAS], [(1 + a) * v["fresh"][2] + (1 + 1 / a) * v["Theta"] for a in ALPHAS]


def approximately(data):
    v = shifted(data)
    return [abs(v["fresh"][0][0] - v["moved"])], [3 * v["fresh"][2] + v["Theta"] / 2]


_T, _D, _W = "tolerance", "departure-early-or-late", "staleness"
_K, _N, _B = "coefficient-as-step", "theorem-2-conclusion", "shift-bound"
LATE, EARLY = {**INACTIVE, "T": 20}, {**INACTIVE, "T": 1, "tau_0": 0}
WORKED = {
    (_T, "through (8)"): (EARLY, falls),
    (_T, "through (8), late"): (LATE, falls),
    (_T, "through (8), exactly"): (INACTIVE, falls_by),
    (_T, "through (9)"): (INACTIVE, order_falls),
    (_T, "one absence"): (AWAY, lambda data: grows(absences(data, star_of(data)))),
    (_T, "one absence, any start"): (AWAY, lambda data: grows(absences(data, numbers(data["x0"])))),
    (_D, "through the bounds"): (INACTIVE, discard),
    (_D, "from the optimum"): (AWAY, lambda data: grows(departures(data, star_of(data)))[::-1]),
    (_D, "from the optimum, coordinates that mix"): (CURVED, lambda data: grows(departures(data, star_of(data)))[::-1]),
    (_D, "any start"): (AWAY, lambda data: grows(departures(data, numbers(data["x0"])))[::-1]),
    (_W, "the others in turn"): (AWAY, lambda data: grows([sq(v) for v in waits(data, True)])),
    (_W, "all others"): (AWAY, lambda data: grows([sq(v) for v in waits(data, False)])),
    (_W, "all others, coordinates that mix"): (CANCEL, lambda data: grows([sq(v) for v in waits(data, False)])),
    (_W, "bound"): (AWAY, wait_bound),
    (_K, "equivalent"): (COEFFICIENT, lambda data: (with_coefficient(data), with_step(data))),
    (_K, "one local step"): (ONE_STEP, lambda data: (with_coefficient(data), with_step(data))),
    (_K, "further"): (COEFFICIENT, lambda data: (absolute(with_step(data)), absolute(with_coefficient(data)))),
    (_K, "by how much"): (COEFFICIENT, by_how_much),
    (_K, "by how much", "attained"): (TWO_STEPS, by_how_much),
    (_K, "compensates"): (COEFFICIENT, lambda data: (scaled(data), complete(data))),
    (_K, "at least compensates"): (COEFFICIENT, lambda data: (absolute(complete(data)), absolute(scaled(data)))),
    (_K, "at most"): (COEFFICIENT, at_most),
    (_K, "at most", "attained"): (ATTAINED, at_most),
    (_N, "(11), fewer samples"): (MANY, fewer("arrival")),
    (_N, "(11) repaired, fewer samples"): (SAMPLES, fewer("arrival", True)),
    (_N, "(11) repaired, fewer samples, any loss"): (BENT, fewer_bent),
    (_N, "(11) repaired, fewer samples, steeper outwards"): (STEEPER, fewer_bent),
    (_N, "(10), fewer samples"): (SAMPLES, fewer("departure")),
    (_N, "more alike"): (SAMPLES, more_alike),
    (_B, "an additional term"): (FAR, additional_term),
    (_B, "at the shift"): (RESTART, at_the_shift),
    (_B, "at the shift", "arrival"): (RESTART_ARRIVAL, at_the_shift),
    (_B, "approximately"): (RESTART, approximately),
    (_B, "fresh start"): (RESTART, lambda data: shifted(data)["fresh"][:2]),
    (_B, "fresh start", "arrival"): (RESTART_ARRIVAL, lambda data: shifted(data)["fresh"][:2]),
    (_B, "kept step"): (RESTART, lambda data: shifted(data)["kept"][:2]),
    (_B, "kept step", "arrival"): (RESTART_ARRIVAL, lambda data: shifted(data)["kept"][:2]),
}  # fmt: skip
