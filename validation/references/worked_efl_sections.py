"""Worked instances of EFL's sections 3 and 4 after Corollary 1, and of Theorem 2, in fractions.

Written from the paper's pseudocode and the LaTeX of every form alone: nothing of the library is
imported, and no NumPy. An instance is a dictionary of strings; a function a form gives its two
sides as flat lists, coordinates innermost. For an equality they are the two sides that should
agree. The elastic term is in `worked_efl_elastic`, the messages of Algorithms 1 and 2 and Table 1
in `worked_efl_messages`.
"""

from __future__ import annotations

from fractions import Fraction as Q
from itertools import product

SCHEMES = ("A", "B", "C", "C-corrected")


def numbers(value):
    """Strings as fractions, in lists of any depth."""
    return [numbers(v) for v in value] if isinstance(value, list) else Q(value)


def minimiser(weights, h, c):
    """argmin_w sum_k sum_i weights_ki h_ki (w_i - c_ki)^2/2, the weights (N,) or (N, d)."""
    out = []
    for i in range(len(h[0])):
        pull = [(w[i] if isinstance(w, list) else w) * row[i] for w, row in zip(weights, h, strict=True)]
        out.append(sum(a * row[i] for a, row in zip(pull, c, strict=True)) / sum(pull))
    return out


def loss(h, c, w):
    """sum_i h_i (w_i - c_i)^2/2, whose minimum is 0."""
    return sum(a * (x - b) ** 2 for a, b, x in zip(h, c, w, strict=True)) / 2


def minus(x, y):
    return [a - b for a, b in zip(x, y, strict=True)]


def sq(x):
    return sum(v * v for v in x)


# --- 4.3 and 4.4, Theorem 2 ----------------------------------------------------------------------
SAMPLES = {
    "samples": ["3", "5", "4"], "h": [["7/4", "3"], ["2", "5/2"], ["4", "3/2"]],
    "c": [["1", "-2"], ["0", "3"], ["2", "5"]],
}  # fmt: skip
DEPARTURE = {"event": "departure", **SAMPLES}
ARRIVAL = {"event": "arrival", **SAMPLES}
MANY = {
    "event": "arrival", "samples": ["1", "2", "27"], "h": [["2", "5/2"], ["9/4", "2"], ["2", "7/3"]],
    "c": SAMPLES["c"],
}  # fmt: skip
# One coordinate, the others' curvature mu = 2; F_a has curvature mu left of the joint optimum at
# 3/2 and L = 5 beyond it. Where it bends further to the right, the joint optimum is left of the
# bend.
BENT = {
    "samples": ["2", "1", "4"], "h": [["2"], ["2"], ["5"]], "c": [["-1/2"], ["-1/2"], ["21/10"]],
    "bend": "3/2", "below": "2",
}  # fmt: skip
FURTHER = {**BENT, "bend": "2", "below": "3/2"}
BENT_DEPARTURE = {"event": "departure", **BENT}
BENT_ARRIVAL = {"event": "arrival", **BENT}
SLIGHT = {"event": "departure", "samples": ["3", "2"], "h": [["2"], ["3"]], "c": [["1"], ["2"]]}
UNMOVED = {"event": "departure", "samples": ["3", "2"], "h": [["2"], ["3"]], "c": [["1"], ["1"]]}
EQUAL = {"event": "arrival", "samples": ["3", "3"], "h": [["2"], ["2"]], "c": [["1"], ["4"]]}  # attained


def shift(data):
    """The quantities of Theorem 2 and section 4.3: client a's gap is D before the shift, D_hat
    after."""
    samples, h, c = (numbers(data[k]) for k in ("samples", "h", "c"))
    n_a, others = samples[-1], samples[:-1]
    curvatures = [v for row in h for v in row]
    alone = minimiser(others, h[:-1], c[:-1])
    if "bend" in data:
        b, m, big, centre = Q(data["bend"]), Q(data["below"]), h[-1][0], c[-1][0]
        curvatures.append(m)

        def gap(w):  # F_a'' = L right of b, m left of it; F_a and F_a' are continuous at b
            left = min(w[0] - b, 0)
            return big * (max(w[0], b) - centre) ** 2 / 2 + big * (b - centre) * left + m * left**2 / 2

        # sum_{k != a} n_k h_k (w - c_k) + n_a (L (b - c_a) + m (w - b)) = 0, left of the bend or at
        # it
        own, end = sum(n * row[0] for n, row in zip(others, h[:-1], strict=True)), alone[0]
        together = [(own * end - n_a * (big * (b - centre) - m * b)) / (own + n_a * m)]
        if together[0] > b:
            raise ValueError("the joint optimum of this instance should not lie right of the bend")
    else:

        def gap(w):
            return loss(h[-1], c[-1], w)

        together = minimiser(samples, h, c)
    leaves = data["event"] == "departure"
    old, new = (together, alone) if leaves else (alone, together)
    return {
        "n": sum(others) + (n_a if leaves else 0), "n_a": n_a, "L": max(curvatures), "mu": min(curvatures),
        "distance": sq(minus(old, new)), "D_hat": gap(new), "D": gap(old),
        "slope_sq": None if "bend" in data else sq([a * (x - b) for a, x, b in zip(h[-1], old, c[-1], strict=True)]),
    }  # fmt: skip


def theorem_2_departure_printed(data):
    """||omega* - hat omega*||^2 <= 8 L n_a^2 hat D_a / (mu^2 n^2), n with a's samples."""
    q = shift(data)
    return [q["distance"]], [8 * q["L"] * q["n_a"] ** 2 * q["D_hat"] / (q["mu"] ** 2 * q["n"] ** 2)]


def theorem_2_two(data):
    """||omega* - hat omega*||^2 <= 2 L n_a^2 hat D_a / (mu^2 n^2), n the samples before the
    shift."""
    q = shift(data)
    return [q["distance"]], [2 * q["L"] * q["n_a"] ** 2 * q["D_hat"] / (q["mu"] ** 2 * q["n"] ** 2)]


def theorem_2_departure_sharp(data):
    """||omega* - hat omega*||^2 <= 2 L n_a^2 hat D_a / (mu^2 (n - n_a)^2 + mu L n_a (2n - n_a))."""
    q = shift(data)
    n, n_a, L, mu = q["n"], q["n_a"], q["L"], q["mu"]
    return [q["distance"]], [2 * L * n_a**2 * q["D_hat"] / (mu**2 * (n - n_a) ** 2 + mu * L * n_a * (2 * n - n_a))]


def theorem_2_arrival_printed(data):
    """||omega* - hat omega*||^2 <= 8 L n_a^2 hat D_a / (mu^2 (n + n_a)^2)."""
    q = shift(data)
    return [q["distance"]], [8 * q["L"] * q["n_a"] ** 2 * q["D_hat"] / (q["mu"] * (q["n"] + q["n_a"])) ** 2]


def theorem_2_arrival_old_optimum(data):
    """||omega* - hat omega*||^2 <= 2 L n_a^2 D_a / (mu^2 n^2 + mu L n_a (2n + n_a)), D_a at the old
    optimum."""
    q = shift(data)
    n, n_a, L, mu = q["n"], q["n_a"], q["L"], q["mu"]
    return [q["distance"]], [2 * L * n_a**2 * q["D"] / (mu**2 * n**2 + mu * L * n_a * (2 * n + n_a))]


def no_convergence_printed(data):
    """hat omega* != omega*, as 1 <= (1 where they differ, else 0)."""
    return [Q(1)], [Q(1 if shift(data)["distance"] else 0)]


def no_convergence_repaired(data):
    """||omega* - hat omega*||^2 <= 2 L n_a^2 (F_a(omega*) - F_a^*) / (mu^2 (n - n_a)^2).

    What is printed between the two is `middle`.
    """
    q = shift(data)
    return [q["distance"]], [2 * q["L"] * q["n_a"] ** 2 * q["D"] / (q["mu"] * (q["n"] - q["n_a"])) ** 2]


def middle(data):
    """||grad F_a(omega*)||^2 n_a^2 / (mu^2 (n - n_a)^2)."""
    q = shift(data)
    return q["slope_sq"] * q["n_a"] ** 2 / (q["mu"] * (q["n"] - q["n_a"])) ** 2


WORK = {"T": 5, "tau_0": 2, "mean_work": [["1", "1"], ["1/2", "3/4"], ["2", "2"], ["1", "1"], ["3/2", "0"]]}

ALIKE = {"T": 5, "tau_0": 2, "mean_work": [["1", "1", "1"]] * 5}


def heterogeneous_rounds(data):
    """H_T = sum_{t<T} r_t, r_t = 1 where E[p_t^k s_t^k]/p^k is not the same for all k.

    Client a, the last, does nothing after round tau_0.
    """
    rows = [row if t <= data["tau_0"] else [*row[:-1], "0"] for t, row in enumerate(data["mean_work"])]
    return sum(1 for row in rows if len({Q(v) for v in row}) > 1)


def heterogeneity_printed(data):
    """T - tau_0 <= H_T."""
    return [Q(data["T"] - data["tau_0"])], [Q(heterogeneous_rounds(data))]


def heterogeneity_repaired(data):
    """T - 1 - tau_0 <= H_T: rounds count from 0, so that the last is T - 1."""
    return [Q(data["T"] - 1 - data["tau_0"])], [Q(heterogeneous_rounds(data))]


QUIET = {
    "curvature": ["5/4", "3/2"],
    "start": ["1", "-2"],
    "mu": "1",
    "gamma": "24",
    "tau_0": 7,
    "rounds": 2,
    "sigma_sq": "0",
}
NOISY = {**QUIET, "start": ["1/3", "-1/2"], "sigma_sq": "3"}


def after_shift(data, age):
    """E||w - hat omega*||^2 after 1..rounds steps w <- w - eta (H (w - hat omega*) + noise).

    eta_tau = 16/(mu (tau + 1 + gamma)), and the first step is that of round ``age``; sigma_sq is
    the variance of the noise in every coordinate.
    """
    h, moments, out = numbers(data["curvature"]), [Q(x) ** 2 for x in data["start"]], []
    for t in range(data["rounds"]):
        eta = 16 / (Q(data["mu"]) * (age + t + 1 + Q(data["gamma"])))
        moments = [(1 - eta * a) ** 2 * m + eta**2 * Q(data["sigma_sq"]) for a, m in zip(h, moments, strict=True)]
        out.append(sum(moments))
    return out


def fresh_against_kept(data):
    """E||omega_fresh - hat omega*||^2 <= E||omega - hat omega*||^2, a round a time."""
    return after_shift(data, 0), after_shift(data, data["tau_0"])


def kept_step(data):
    """||omega_tau - hat omega*||^2 <= ((tau_0 + gamma)/(tau + gamma))^32 ||omega* - hat
    omega*||^2."""
    first, at = sq(numbers(data["start"])), data["tau_0"] + Q(data["gamma"])
    return after_shift(data, data["tau_0"]), [(at / (at + t + 1)) ** 32 * first for t in range(data["rounds"])]


# --- 3.2 and 4: the limit of the schemes ---------------------------------------------------------
LIMIT = {
    "weights": ["1/3", "2/3"], "h": [["1", "1/2"], ["1/4", "3/4"]], "c": [["1", "-2"], ["3", "2"]],
    "law": [["1/4", "1/4", "1/2"], ["1/2", "1/4", "1/4"]], "eta": "1/2",
    "x0": ["-1", "4"], "step": "6", "offset": "18", "rounds": 2,
}  # fmt: skip
NEAR_BY = {**LIMIT, "x0": ["3/2", "1/2"], "rounds": 3}  # where the second of the two in the maximum decides
SAME_LAWS = {**LIMIT, "law": [["1/4", "1/4", "1/2"]] * 2}
NEVER_IDLE = {**LIMIT, "law": [["0", "1/4", "3/4"], ["0", "1/2", "1/2"]]}
EQUALLY_ACTIVE = {**LIMIT, "law": [["1/4", "1/4", "1/2"], ["1/4", "1/2", "1/4"]]}


def coefficient(scheme, k, steps, most, weights, law):
    """p_tau^k of the scheme, for s^1..s^N = steps."""
    if scheme == "A":  # N p^k/K for the K complete clients
        complete = sum(s == most for s in steps)
        return len(steps) * weights[k] / complete if steps[k] == most else Q(0)
    if scheme == "B":
        return weights[k]
    if steps[k] == 0:
        return Q(0)
    return most * weights[k] / steps[k] / (1 - law[k][0] if scheme == "C-corrected" else 1)


def mean_of(data, scheme, k, value):
    """E[p_tau^k value(s^k)] over all cases of independent clients."""
    weights, law = numbers(data["weights"]), numbers(data["law"])
    most, total = len(law[0]) - 1, Q(0)
    for steps in product(range(most + 1), repeat=len(law)):
        chance = Q(1)
        for row, s in zip(law, steps, strict=True):
            chance *= row[s]
        total += chance * coefficient(scheme, k, steps, most, weights, law) * value(steps[k])
    return total


def means(data, scheme, value):
    """E[p_tau^k value(s^k, h_ki)] (N, d)."""
    h = numbers(data["h"])
    return [[mean_of(data, scheme, k, lambda s, a=a: value(s, a)) for a in row] for k, row in enumerate(h)]


def targets(data, scheme):
    """omega_infinity = argmin sum_k E[p s] f_k and omega* = argmin sum_k p^k f_k."""
    h, c = numbers(data["h"]), numbers(data["c"])
    return minimiser(means(data, scheme, lambda s, a: s), h, c), minimiser(numbers(data["weights"]), h, c)


def after_round(data, scheme, w, eta):
    """The mean of omega after one round from omega = w, w_k = c_k + (1 - eta h_k)^s (w - c_k)."""
    pull = means(data, scheme, lambda s, a: 1 - (1 - eta * a) ** s)
    c = numbers(data["c"])
    return [x - sum(p[i] * (x - at[i]) for p, at in zip(pull, c, strict=True)) for i, x in enumerate(w)]


def fixed_of(data, scheme):
    """omega_eta: sum_k E[p (1 - (1 - eta h_k)^s)] (omega_eta - c_k) = 0."""
    eta, c = Q(data["eta"]), numbers(data["c"])
    pull = means(data, scheme, lambda s, a: 1 - (1 - eta * a) ** s)
    return [
        sum(p[i] * at[i] for p, at in zip(pull, c, strict=True)) / sum(p[i] for p in pull) for i in range(len(c[0]))
    ]


def second_of(data, scheme, w):
    """sum_k E[p s(s - 1)/2] h_k^2 |w - c_k|."""
    parts, c = means(data, scheme, lambda s, a: Q(s * (s - 1), 2) * a**2), numbers(data["c"])
    return [sum(p[i] * abs(x - at[i]) for p, at in zip(parts, c, strict=True)) for i, x in enumerate(w)]


def curvature_of(data, scheme):
    """M = sum_k E[p s] h_k."""
    return [sum(column) for column in zip(*means(data, scheme, lambda s, a: s * a), strict=True)]


def limit_is_star(data, scheme):
    """lim E omega_tau = argmin sum_k p^k f_k, the limit being omega_infinity."""
    return targets(data, scheme)


def limit_repaired(data, scheme):
    """|E omega_tau - omega_infinity| <= max{b |omega_0 - omega_infinity|, a^2 Q/(a
    M - 1)}/(tau + b).

    eta_tau = a/(tau + b), and Q is the most that `second_of` comes to on the way.
    """
    a, b, path = Q(data["step"]), Q(data["offset"]), [numbers(data["x0"])]
    for tau in range(data["rounds"]):
        path.append(after_round(data, scheme, path[-1], a / (tau + b)))
    end, M = targets(data, scheme)[0], curvature_of(data, scheme)
    top = []
    for i, m in enumerate(M):
        most = max(second_of(data, scheme, w)[i] for w in path[:-1])
        top.append(max(b * abs(path[0][i] - end[i]), a**2 * most / (a * m - 1)))
    lhs = [abs(v) for w in path[1:] for v in minus(w, end)]
    return lhs, [v / (tau + b) for tau in range(1, data["rounds"] + 1) for v in top]


def limit_constant_step(data, scheme):
    """|omega_eta - omega_infinity| sum E[p s] h_k <= eta sum E[p s(s-1)/2] h_k^2 |omega_eta -
    c_k|."""
    w, end = fixed_of(data, scheme), targets(data, scheme)[0]
    lhs = [m * abs(x - y) for m, x, y in zip(curvature_of(data, scheme), w, end, strict=True)]
    return lhs, [Q(data["eta"]) * v for v in second_of(data, scheme, w)]


def limit_equal_laws(data, scheme):
    """omega_eta = omega*."""
    return fixed_of(data, scheme), targets(data, scheme)[1]


def limit_fixed_point(data, scheme):
    """One round leaves the mean omega_eta where it is."""
    w = fixed_of(data, scheme)
    return after_round(data, scheme, w, Q(data["eta"])), w


_T2, _LIMIT = "efl/theorem-2-", "efl/scheme-limit"
WORKED = {
    (_T2 + "departure", "printed", "any"): (DEPARTURE, theorem_2_departure_printed),
    (_T2 + "departure", "sharpened", "any"): (DEPARTURE, theorem_2_two),
    (_T2 + "departure", "sharp", "any"): (DEPARTURE, theorem_2_departure_sharp),
    (_T2 + "departure", "sharp", "any", "attained"): (BENT_DEPARTURE, theorem_2_departure_sharp),
    (_T2 + "departure", "sharp", "any", "left of the bend"): (
        {"event": "departure", **FURTHER},
        theorem_2_departure_sharp,
    ),
    (_T2 + "arrival", "printed", "any"): (MANY, theorem_2_arrival_printed),
    (_T2 + "arrival", "repaired", "any"): (ARRIVAL, theorem_2_two),
    (_T2 + "arrival", "printed, few", "any"): (ARRIVAL, theorem_2_arrival_printed),
    (_T2 + "arrival", "printed, few", "any", "attained"): (EQUAL, theorem_2_arrival_printed),
    (_T2 + "arrival", "old optimum", "any"): (ARRIVAL, theorem_2_arrival_old_optimum),
    (_T2 + "arrival", "old optimum", "any", "attained"): (BENT_ARRIVAL, theorem_2_arrival_old_optimum),
    (_T2 + "arrival", "repaired", "any", "left of the bend"): ({"event": "arrival", **FURTHER}, theorem_2_two),
    ("efl/departure-heterogeneity", "printed", "any"): (ALIKE, heterogeneity_printed),
    ("efl/departure-heterogeneity", "repaired", "any"): (WORK, heterogeneity_repaired),
    ("efl/departure-no-convergence", "the optimum moves", "any"): (UNMOVED, no_convergence_printed),
    ("efl/departure-no-convergence", "the optimum moves", "any", "moved"): (SLIGHT, no_convergence_printed),
    ("efl/departure-no-convergence", "repaired", "any"): (DEPARTURE, no_convergence_repaired),
    ("efl/learning-rate-after-shift", "fresh start", "any"): (NOISY, fresh_against_kept),
    ("efl/learning-rate-after-shift", "repaired", "any"): (QUIET, fresh_against_kept),
    ("efl/learning-rate-after-shift", "kept step", "any"): (QUIET, kept_step),
    (_LIMIT, "repaired", "B", "from near by"): ({"scheme": "B", **NEAR_BY}, limit_repaired),
    **{
        (_LIMIT, form, scheme): ({"scheme": scheme, **data}, function)
        for form, data, function, schemes in (
            ("unbiased", LIMIT, limit_is_star, SCHEMES),
            ("repaired", LIMIT, limit_repaired, SCHEMES),
            ("constant step", LIMIT, limit_constant_step, SCHEMES),
            ("constant step, equal laws", SAME_LAWS, limit_equal_laws, SCHEMES),
            ("fixed point", LIMIT, limit_fixed_point, SCHEMES),
            ("C without idle clients", NEVER_IDLE, limit_is_star, SCHEMES[2:]),
            ("C with equal activity", EQUALLY_ACTIVE, limit_is_star, SCHEMES[2:]),
        )
        for scheme in schemes
    },
}


def sides(key):
    """The two sides of a worked form as flat lists of fractions."""
    data, function = WORKED[key]
    return function(data, data["scheme"]) if "scheme" in data else function(data)
