"""Worked instances of EFL's messages, of the compressors beside ST, and of Table 1, in fractions.

Written from Algorithms 1 and 2, section 3.1 and the LaTeX of every form; nothing of the library is
imported. Expectations go through every outcome of a compressor, one by one. A contraction
||C(x) - x||^2 <= (1 - delta) ||x||^2 is written delta ||x||^2 <= ||x||^2 - error.
"""

from __future__ import annotations

from fractions import Fraction as Q
from itertools import combinations, product
from math import ceil, floor, isqrt

from worked_efl_sections import minimiser, minus, numbers, sq


# --- Algorithm 2 and other compressors, each as a list of (probability, C(x)) --------------------
def largest(x, count):
    """The indices of so many largest magnitudes, of equal ones the first."""
    return sorted(range(len(x)), key=lambda i: (-abs(x[i]), i))[:count]


def sign(v):
    return (v > 0) - (v < 0)


def root(square):
    """The root of a fraction that has a rational one."""
    found = Q(isqrt(square.numerator), isqrt(square.denominator))
    if found**2 != square:
        raise ValueError(f"{square} is not the square of a fraction")
    return found


def st(x, q, rule="exact"):
    """Algorithm 2: k = max(nq, 1), all at the threshold or above are kept, with the magnitude
    sum/k.

    With the rule "exact" k is rounded up, and exactly k are kept.
    """
    k = max(len(x) * q, 1)
    kept = largest(x, ceil(k))
    if rule == "exact":
        k = ceil(k)
    else:
        e = abs(x[kept[-1]])
        kept = [i for i, v in enumerate(x) if abs(v) >= e]
    mu = sum(abs(x[i]) for i in kept) / Q(k)
    return [mu * sign(v) if i in kept else Q(0) for i, v in enumerate(x)]


def independent(choices):
    """Outcomes of coordinates rounded independently, from ((probability, value), ...) of each."""
    out = []
    for outcome in product(*choices):
        chance = Q(1)
        for p, _ in outcome:
            chance *= p
        out.append((chance, [v for _, v in outcome]))
    return out


def between(v, low, high):
    """|v| rounded to low or high without bias, with v's sign."""
    up = Q(0) if low == high else (abs(v) - low) / (high - low)
    return ((1 - up, sign(v) * low), (up, sign(v) * high))


def power_below(v):
    """The largest power of two that is at most v > 0."""
    power = Q(1)
    while power > v:
        power /= 2
    while 2 * power <= v:
        power *= 2
    return power


def outcomes(data):
    """Every (probability, C(x)) of an instance's compressor."""
    spec, x = data["compressor"], numbers(data["x"])
    n, name = len(x), spec["name"]
    if name == "st":
        return [(Q(1), st(x, Q(spec["q"]), spec["rule"]))]
    if name == "top-k":
        kept = largest(x, spec["k"])
        return [(Q(1), [v if i in kept else Q(0) for i, v in enumerate(x)])]
    if name == "random-k":
        sets, factor = list(combinations(range(n), spec["k"])), Q(n, spec["k"]) if spec.get("scaled") else 1
        return [(Q(1, len(sets)), [factor * v if i in kept else Q(0) for i, v in enumerate(x)]) for kept in sets]
    if name == "scaled-sign":
        return [(Q(1), [sum(abs(v) for v in x) / n * sign(v) for v in x])]
    if name == "threshold":
        return [(Q(1), [v if abs(v) > Q(spec["epsilon"]) else Q(0) for v in x])]
    if name == "natural":
        return independent([between(v, power_below(abs(v)), 2 * power_below(abs(v))) for v in x])
    top = max(abs(v) for v in x)
    if name == "qsgd":
        step = root(sq(x)) / spec["levels"]
    elif name == "stochastic":
        step = Q(spec["step"]) if "step" in spec else top
    else:
        raise ValueError(f"no compressor is named {name!r} here")
    cells = [min(floor(abs(v) / step), max(ceil(abs(v) / step) - 1, 0)) * step for v in x]
    return independent([between(v, low, low + step) for v, low in zip(x, cells, strict=True)])


def error(data):
    """E||C(x) - x||^2."""
    x = numbers(data["x"])
    return sum(p * sq(minus(sent, x)) for p, sent in outcomes(data))


def square(data):
    return sq(numbers(data["x"]))


def within(factor):
    """E||C(x) - x||^2 <= factor(n, spec) ||x||^2."""
    return lambda data: ([error(data)], [factor(len(data["x"]), data["compressor"]) * square(data)])


def absolute(bound):
    """E||C(x) - x||^2 <= bound(n, spec)."""
    return lambda data: ([error(data)], [bound(len(data["x"]), data["compressor"])])


def keeps(delta):
    """delta(n, spec) ||x||^2 <= ||x||^2 - E||C(x) - x||^2."""
    return lambda data: ([delta(len(data["x"]), data["compressor"]) * square(data)], [square(data) - error(data)])


def st_k(n, spec):
    k = max(n * Q(spec["q"]), 1)
    return Q(ceil(k)) if spec["rule"] == "exact" else k


def st_delta(n, spec):
    """min{1/k, k/n}."""
    return min(1 / st_k(n, spec), st_k(n, spec) / n)


def st_delta_printed(n, spec):
    """min over m in {ceil(k), n} of (2k - m) min(1, m^2/n)/k^2."""
    k = st_k(n, spec)
    return min((2 * k - m) * min(Q(1), Q(m * m, n)) / k**2 for m in (ceil(k), n))


def st_identity(data):
    """||C(x) - x||^2 = ||x||^2 - (S/k)^2 (2k - m): S the kept magnitudes, m how many of them are
    not 0."""
    x, k = numbers(data["x"]), st_k(len(data["x"]), data["compressor"])
    kept = [abs(x[i]) for i in largest(x, int(k))]
    return [error(data)], [square(data) - (sum(kept) / k) ** 2 * (2 * k - sum(1 for v in kept if v))]


def unbiased(data):
    """E C(x) = x."""
    drawn = outcomes(data)
    return [sum(p * sent[i] for p, sent in drawn) for i in range(len(data["x"]))], numbers(data["x"])


def qsgd_printed(data):
    """E||C(x) - x||^2 <= min{n/s^2, sqrt(n)/s} ||x||^2, as the first, and the second squared."""
    n, s, err, size = len(data["x"]), data["compressor"]["levels"], error(data), square(data)
    return [err, err**2], [Q(n, s**2) * size, (Q(n, s**2)) * size**2]


def qsgd_sharpened(n, spec):
    """psi(t)/t, t = s^2/n, psi(t) = sqrt(t) - t where t <= 1/4, else 1/4."""
    t = Q(spec["levels"] ** 2, n)
    return (root(t) - t if t <= Q(1, 4) else Q(1, 4)) / t


def message(name, *x, **parameters):
    return {"compressor": {"name": name, **parameters}, "x": list(x)}


TIES = message("st", "3", "-3", "2", "3", "-3", q="1/5", rule="printed")
HALF = message("st", "4", "-1", "2", "1", q="5/8", rule="printed")  # k = 5/2 is not whole, and 2k > n
SPARSE = message("st", "4", "-1", "2", "0", "3", q="2/5", rule="exact")
ZEROS = message("st", "4", "0", "0", "-1", "0", q="3/5", rule="exact")  # m = 2 of the 3 kept
PEAK = message("st", "8", "1", "-1", "1", q="3/4", rule="exact")
TOP = message("top-k", "4", "-1", "2", "1/2", "3", k=2)
RANDOM = message("random-k", "4", "-1", "2", "1/2", k=3)
SCALED = message("random-k", "4", "-1", "2", "1/2", k=3, scaled=True)
SIGNS = message("scaled-sign", "4", "-1", "2", "1/2")
LOST = message("threshold", "1/2", "-3/4", "1", "5", epsilon="3/4")
BELOW = message("threshold", "1/2", "-3/4", "1", epsilon="1")
QSGD_LOW = message("qsgd", "5", "-3", "1", "1", "7", "-3", "2", "1", "1", levels=1)  # norm 10, s < sqrt(n)/2
QSGD_HIGH = message("qsgd", "5", "-3", "1", "1", levels=3)  # norm 6, on which the bound beyond is attained
QSGD = message("qsgd", "5", "-3", "1", "1", levels=4)
NATURAL = message("natural", "4/3", "-5/8", "3")
STOCHASTIC = message("stochastic", "6", "-2", "1", "3")
GRID = message("stochastic", "1/3", "-3/4", "2/5", step="1/2")

# --- Algorithm 1 with ST both ways ---------------------------------------------------------------
FEEDBACK = {
    "weights": ["1/4", "3/4"], "h": [["1", "1/2", "1/4"], ["1/2", "3/4", "1"]],
    "c": [["3", "-2", "5"], ["-1", "2", "1"]], "q": "1/2", "eta": "1/2",
    "x0": ["1", "3", "-2"], "E": 2, "rounds": 3, "schedule": [[2, 1], [0, 2], [1, 0]],
}  # fmt: skip
PLAIN = {**FEEDBACK, "E": 1, "rounds": 3, "schedule": [[1, 1]]}
GROWS = {
    "weights": ["1"], "h": [["1"] * 4], "c": [["1", "2", "-1", "1"]], "q": "1/4", "eta": "1",
    "x0": ["4", "4", "1", "3"], "E": 1, "rounds": 20, "schedule": [[1]],
}  # fmt: skip


def run(data):
    """Models omega_0..omega_T, the last R^G and R^k, and omega_0 + sum_t sum_k p_t^k x_t^k.

    x_t^k is the local change, p_t^k = E p^k/s. 'consistent': clients scale by E/s, then send ST;
    the server adds ST of its delta. 'after': E/s is applied to what was sent. 'literal': clients
    send their deltas, the server adds its own, each with its residual, which is kept as well.
    'text': clients send ST of theirs, the server adds its own uncompressed.
    """
    variant, q, eta = data["variant"], Q(data["q"]), Q(data["eta"])
    p, h, c, w = (numbers(data[k]) for k in ("weights", "h", "c", "x0"))
    d = len(w)
    R_G, R, moved, path = [Q(0)] * d, [[Q(0)] * d for _ in p], list(w), [w]
    for t in range(data["rounds"]):
        delta_G = list(R_G)
        for k, s in enumerate(data["schedule"][t % len(data["schedule"])]):
            if s == 0:
                continue
            local = list(w)
            for _ in range(s):
                local = [x - eta * a * (x - b) for x, a, b in zip(local, h[k], c[k], strict=True)]
            x, scale = minus(local, w), Q(data["E"], s)
            moved = [m + p[k] * scale * v for m, v in zip(moved, x, strict=True)]
            early, late = (scale, 1) if variant == "consistent" else (1, scale)
            delta = [r + early * v for r, v in zip(R[k], x, strict=True)]
            R[k] = minus(delta, st(delta, q))
            sent = delta if variant == "literal" else st(delta, q)
            delta_G = [g + p[k] * late * v for g, v in zip(delta_G, sent, strict=True)]
        R_G = minus(delta_G, st(delta_G, q))
        step = st(delta_G, q) if variant in ("consistent", "after") else delta_G
        w = [x + v for x, v in zip(w, step, strict=True)]
        path.append(w)
    return path, R_G, R, moved


def invariant(data):
    """omega_T + R^G_T + sum_k p^k R^k_T = omega_0 + sum_{t,k} p_t^k x_t^k."""
    path, R_G, R, moved = run(data)
    held = [sum(Q(p) * row[i] for p, row in zip(data["weights"], R, strict=True)) for i in range(len(R_G))]
    return [x + g + r for x, g, r in zip(path[-1], R_G, held, strict=True)], moved


def mean_model(path):
    """(1/T) sum_{t<T} omega_t."""
    return [sum(column) / (len(path) - 1) for column in zip(*path[:-1], strict=True)]


def mean_bias(data):
    """sum_k p^k h_k |mean omega - omega*| <= (|omega_T - omega_0| + |R^G_T| + sum_k p^k
    |R^k_T|)/(eta T)."""
    path, R_G, R, _ = run(data)
    p, h, c = (numbers(data[k]) for k in ("weights", "h", "c"))
    star, mean, lhs, rhs = minimiser(p, h, c), mean_model(path), [], []
    for i, x in enumerate(star):
        lhs.append(sum(a * row[i] for a, row in zip(p, h, strict=True)) * abs(mean[i] - x))
        left = abs(R_G[i]) + sum(a * abs(row[i]) for a, row in zip(p, R, strict=True))
        rhs.append((abs(path[-1][i] - path[0][i]) + left) / (Q(data["eta"]) * data["rounds"]))
    return lhs, rhs


def mean_within(data):
    """||mean omega - omega*||^2 <= ||omega_0 - omega*||^2."""
    path = run(data)[0]
    star = minimiser(*(numbers(data[k]) for k in ("weights", "h", "c")))
    return [sq(minus(mean_model(path), star))], [sq(minus(path[0], star))]


# --- Table 1 -------------------------------------------------------------------------------------
POINT = {"G": "1", "L": "3", "mu": "1/2", "S": "5", "root": "1/3", "delta": "2"}
LARGE_G = {**POINT, "G": "4"}
NEAR_G = {**POINT, "G": "9/4"}  # G >= L (1 - sqrt(epsilon)), but not for F/4
LARGE_DELTA = {**POINT, "delta": "10"}


def row(name, data, of=1):
    """A row of Table 1 for the loss times ``of``, which multiplies G, L, mu, delta and epsilon."""
    G, L, mu, delta, epsilon = (
        of * Q(v) for v in (data["G"], data["L"], data["mu"], data["delta"], Q(data["root"]) ** 2)
    )
    first = G**2 / (mu * Q(data["S"]) * epsilon)
    if name == "EFL":
        return first + L / (mu * root(epsilon))
    return first + (G / (mu * root(epsilon)) + L / mu if name == "SCAFFOLD" else delta / mu)


def rows(left, right, of=1):
    """The row of the first method <= the row of the second."""
    return lambda data: ([row(left, data, of)], [row(right, data, of)])


_ST, _CONTRACTION, _VARIANCE = "efl/st-lemma", "efl/contraction-factors", "efl/variance-factors"
_INVARIANT, _BIAS, _SCAFFOLD, _MIME = (
    f"efl/{name}" for name in ("residual-invariant", "compression-bias", "table-1-scaffold", "table-1-mime")
)
_ALL = {
    (_ST, "printed rule"): (TIES, within(lambda n, spec: 1)),
    (_ST, "repaired"): (SPARSE, keeps(st_delta)),
    (_ST, "repaired", "more than a root"): (PEAK, keeps(st_delta)),
    (_ST, "printed rule, more than half"): (HALF, keeps(st_delta_printed)),
    (_ST, "as top-k"): (PEAK, within(lambda n, spec: 1 - st_k(n, spec) / n)),
    (_ST, "identity"): (ZEROS, st_identity),
    (_CONTRACTION, "top-k"): (TOP, keeps(lambda n, spec: Q(spec["k"], n))),
    (_CONTRACTION, "random-k"): (RANDOM, within(lambda n, spec: 1 - Q(spec["k"], n))),
    (_CONTRACTION, "sign with scale"): (SIGNS, keeps(lambda n, spec: Q(1, n))),
    (_CONTRACTION, "threshold"): (LOST, absolute(lambda n, spec: n * Q(spec["epsilon"]) ** 2)),
    (_CONTRACTION, "threshold, relative"): (BELOW, within(lambda n, spec: 1 - Q(1, 1000))),
    (_VARIANCE, "random-k, scaled"): (SCALED, within(lambda n, spec: Q(n, spec["k"]) - 1)),
    (_VARIANCE, "QSGD"): (QSGD, qsgd_printed),
    (_VARIANCE, "QSGD, sharpened"): (QSGD_LOW, within(qsgd_sharpened)),
    (_VARIANCE, "QSGD, sharpened", "attained"): (QSGD_HIGH, within(qsgd_sharpened)),
    (_VARIANCE, "natural rounding"): (NATURAL, within(lambda n, spec: Q(1, 8))),
    (_VARIANCE, "stochastic rounding"): (STOCHASTIC, within(lambda n, spec: (root(Q(n)) - 1) / 2)),
    (_VARIANCE, "rounding to a grid"): (GRID, absolute(lambda n, spec: n * Q(spec["step"]) ** 2 / 4)),
    (_VARIANCE, "random-k, scaled, unbiased"): (SCALED, unbiased),
    (_VARIANCE, "QSGD, unbiased"): (QSGD, unbiased),
    (_VARIANCE, "natural rounding, unbiased"): (NATURAL, unbiased),
    (_VARIANCE, "stochastic rounding, unbiased"): (STOCHASTIC, unbiased),
    (_VARIANCE, "rounding to a grid, unbiased"): (GRID, unbiased),
    (_INVARIANT, "literal formulas"): ({**FEEDBACK, "variant": "literal"}, invariant),
    (_INVARIANT, "repaired"): ({**FEEDBACK, "variant": "consistent"}, invariant),
    (_INVARIANT, "text of 3.1"): ({**FEEDBACK, "variant": "text"}, invariant),
    (_INVARIANT, "scaled after ST"): ({**FEEDBACK, "variant": "after"}, invariant),
    (_BIAS, "literal formulas"): ({**PLAIN, "variant": "literal"}, mean_bias),
    (_BIAS, "repaired"): ({**PLAIN, "variant": "consistent"}, mean_bias),
    (_BIAS, "any step up to 1/L"): ({**GROWS, "variant": "consistent"}, mean_within),
    (_BIAS, "text of 3.1"): ({**PLAIN, "variant": "text"}, mean_bias),
    (_SCAFFOLD, "printed"): (POINT, rows("EFL", "SCAFFOLD")),
    (_SCAFFOLD, "repaired"): (LARGE_G, rows("EFL", "SCAFFOLD")),
    (_SCAFFOLD, "repaired, converse"): (POINT, rows("SCAFFOLD", "EFL")),
    (_SCAFFOLD, "for the loss times a constant"): (NEAR_G, rows("EFL", "SCAFFOLD", Q(1, 4))),
    (_MIME, "printed"): (POINT, rows("EFL", "MIME")),
    (_MIME, "repaired"): (LARGE_DELTA, rows("EFL", "MIME")),
    (_MIME, "repaired, converse"): (POINT, rows("MIME", "EFL")),
}  # fmt: skip
WORKED = {(statement, form, "any", *more): found for (statement, form, *more), found in _ALL.items()}


def sides(key):
    """The two sides of a worked form as flat lists of fractions."""
    data, function = WORKED[key]
    return function(data)
