"""A round of EFL in which everybody does all E steps, in fractions, with nothing of the library.

Quadratic clients sum_i h_ki (w_i - c_ki)^2/2, and S = E; both sides are written from the formula.
"""

from __future__ import annotations

from fractions import Fraction

Q = Fraction
ROUND = {
    "scheme": "B", "tau": 1, "weights": ["2/3", "1/4", "1/12"], "h": [["1", "2"], ["3/2", "1"], ["5/4", "7/4"]],
    "c": [["1", "0"], ["-1", "2"], ["3", "-1"]], "w0": ["2", "-1"], "law": [["0", "0", "0", "1"]] * 3,
}  # fmt: skip


def fractions(rows):
    """Nested lists of strings as fractions."""
    return [fractions(row) for row in rows] if isinstance(rows, list) else Q(rows)


def both_sides(data):
    """||w_{tau+1} - w*||^2 and (1 - eta mu)^{2E} ||w_tau - w*||^2 + eta^3 (L - mu)(1 - eta mu)
    E(E-1)(2E-1)/(12 - 9t) zeta^2."""
    p, h, c, w0 = (fractions(data[name]) for name in ("weights", "h", "c", "w0"))
    N, d, E = len(p), len(w0), len(data["law"][0]) - 1
    L, mu = max(map(max, h)), min(map(min, h))
    theta = {"A": N, "B": 1, "C": E, "C-corrected": E}[data["scheme"]]
    gamma = max(Q(4 * E * theta), 32 * (1 + theta) * L / mu)  # max{4E^2 theta/S, 32E (1 + theta) L/(mu S)}
    eta = 16 / (mu * ((data["tau"] + 1) * E + gamma))
    star = [sum(p[k] * h[k][i] * c[k][i] for k in range(N)) / sum(p[k] * h[k][i] for k in range(N)) for i in range(d)]
    ends = []
    for k in range(N):
        w = list(w0)
        for _ in range(E):
            w = [x - eta * h[k][i] * (x - c[k][i]) for i, x in enumerate(w)]
        ends.append(w)
    mean = [sum(p[k] * ends[k][i] for k in range(N)) for i in range(d)]
    zeta = sum(p[k] * sum((h[k][i] * (star[i] - c[k][i])) ** 2 for i in range(d)) for k in range(N))
    q = 1 - eta * mu
    t = eta * (L - mu) * E / q**E
    if not t < Q(4, 3):
        raise ValueError(f"t = {t}")
    start = sum((x - s) ** 2 for x, s in zip(w0, star))
    floor = eta**3 * (L - mu) * q * E * (E - 1) * (2 * E - 1) / (12 - 9 * t) * zeta
    return sum((x - s) ** 2 for x, s in zip(mean, star)), q ** (2 * E) * start + floor
