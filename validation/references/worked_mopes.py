"""Bounds of MOPES, MOLES and of exact proximal steps, in fractions and with the standard library
alone: written from the formulas as `fedtheory explain` shows them and from the poster's pseudocode.
"""

from __future__ import annotations

from fractions import Fraction as Q
from math import ceil
from typing import Any

from second_writing import Sheet

Loss = list[tuple[Q, Q]]  # f(u) = max of p u + q; the first of the largest gives the subgradient


def f(loss: Loss, u: Q) -> Q:
    return max(p * u + q for p, q in loss)


def df(loss: Loss, u: Q) -> Q:
    return next(p for p, q in loss if p * u + q == f(loss, u))


def mean(values: list[Q]) -> Q:
    return sum(values, Q(0)) / len(values)


def clip(u: Q, low: Q, high: Q) -> Q:
    return low if u < low else high if u > high else u


def bisect_prox(loss: Loss, w: Q, beta: Q, R: Q) -> Q:
    """argmin f(u) + beta/2 (u - w)^2 on [-R, R]: where 0 lies between the left and the right
    derivative."""

    def derivatives(u: Q) -> tuple[Q, Q]:
        met = [p for p, q in loss if p * u + q == f(loss, u)]
        return min(met) + beta * (u - w), max(met) + beta * (u - w)

    if derivatives(-R)[1] >= 0:
        return -R
    if derivatives(R)[0] <= 0:
        return R
    crossings = [(b - d) / (c - a) for a, b in loss for c, d in loss if a < c]
    for u in crossings:
        if abs(u) < R and derivatives(u)[0] <= 0 <= derivatives(u)[1]:
            return u
    (found,) = {w - p / beta for p, _ in loss if abs(w - p / beta) < R and df(loss, w - p / beta) == p}
    return found


def slide(loss: Loss, u0: Q, g: Q, beta: Q, T: int, R: Q) -> tuple[Q, Q]:
    """Lines 18-27 in one dimension."""
    u = average = u0
    for t in range(1, T + 1):
        theta = Q(2 * (t + 1), t * (t + 3))
        u = clip(u - (df(loss, u) + beta * (u - u0 + g / beta)) / ((1 + Q(t, 2)) * beta), -R, R)
        average = (1 - theta) * average + theta * u
    return u, average


def steps(lam: Q, D: Q, K: int, G_sq: Q, sigma_sq: Q = Q(0)) -> list[int]:
    return [ceil((4 * G_sq + sigma_sq) * lam**2 * K * k**2 / (2 * D)) for k in range(1, K + 1)]


def run(losses: list[Loss], lam: Q, K: int, R: Q, x0: Q, X: tuple[Q, Q], train) -> dict[str, list]:
    """The poster's update for k = 1..K with x projected onto X; train(i, u_0, g, beta, k) -> (z',
    what x' takes)."""
    n = len(losses)
    x, z, xl, zl = [x0], [x0], [[x0] * n], [[x0] * n]
    for k in range(1, K + 1):
        b, c = 4 / (lam * k), Q(2, k + 1)
        y = (1 - c) * x[-1] + c * z[-1]
        yl = [(1 - c) * p + c * q for p, q in zip(xl[-1], zl[-1], strict=True)]
        z.append(clip(z[-1] - (y - mean(yl)) / (b * lam), *X))
        x.append((1 - c) * x[-1] + c * z[-1])
        if k < K:
            got = [train(i, zl[-1][i], (yl[i] - y) / lam, b, k) for i in range(n)]
            xl.append([(1 - c) * p + c * t for p, (_, t) in zip(xl[-1], got, strict=True)])
            zl.append([s for s, _ in got])
    return {"x": x, "z": z, "xl": xl, "zl": zl}


def longest(loss: Loss, R: Q) -> Q:
    return max(abs(p) for end in (R, -R) for p, q in loss if p * end + q == f(loss, end))


def minimise(losses: list[Loss], X: tuple[Q, Q]) -> tuple[Q, Q]:
    """(F*, the only minimiser) over X; an error where there are several."""
    points = {X[0], X[1]} | {(b - d) / (c - a) for loss in losses for a, b in loss for c, d in loss if a < c}
    values = {u: mean([f(loss, u) for loss in losses]) for u in points if X[0] <= u <= X[1]}
    (star,) = [u for u, v in values.items() if v == min(values.values())]
    return values[star], star


# --- the local problems solved --------------------------------------------------------------------
def exact_prox(losses: list[Loss], lam: Q, R: Q, x0: Q, K: int) -> dict[str, list[tuple[Q, Q]]]:
    """(lhs, rhs) of every form, row by row."""
    r = run(losses, lam, K, R, x0, (-R, R), lambda i, u0, g, b, k: (bisect_prox(losses[i], u0 - g / b, b, R),) * 2)
    least, star = minimise(losses, (-R, R))
    G_sq = mean([longest(loss, R) ** 2 for loss in losses])

    def F(u: Q) -> Q:
        return mean([f(loss, u) for loss in losses])

    def Psi(k: int) -> Q:
        return mean([f(loss, u) + (r["x"][k] - u) ** 2 / (2 * lam) for loss, u in zip(losses, r["xl"][k], strict=True)])

    recursion = []
    for k in range(1, K):
        c, b = Q(2, k + 1), 4 / (lam * k)
        server = (star - r["z"][k - 1]) ** 2 - (star - r["z"][k]) ** 2
        client = mean([(star - u) ** 2 for u in r["zl"][k - 1]]) - mean([(star - u) ** 2 for u in r["zl"][k]])
        recursion.append((Psi(k) - least, (1 - c) * (Psi(k - 1) - least) + c * b / 2 * (server + client)))
    excess, start = F(r["x"][-1]) - least, (x0 - star) ** 2 / (lam * K * (K + 1))
    return {
        "recursion": recursion, "repaired": [(excess, 8 * start + G_sq * lam / 2)],
        "7.9 for 8": [(excess, Q("7.9") * start + G_sq * lam / 2)], "rounds to epsilon": [(excess, lam * G_sq)],
        "enough": [(16 * G_sq * (x0 - star) ** 2 / (lam * G_sq) ** 2, Q(K * (K + 1)))],
    }  # fmt: skip


# --- MOPES ----------------------------------------------------------------------------------------
def mopes(loss: Loss, lam: Q, D: Q, X: tuple[Q, Q], R: Q, x0: Q, K: int, local: str) -> tuple[Q, Q, Q, Q]:
    """F(x_K) - F*, ||x_0 - x*||^2, and what divides and is added: lambda K (K+1), G^2 lambda/2."""
    G_sq = longest(loss, R) ** 2
    T = steps(lam, D, K, G_sq)

    def flat(w: Q, b: Q) -> Q:
        points = [p for p in (R, -R, w, *((q - s) / (r - p) for p, q in loss for r, s in loss if p < r)) if abs(p) <= R]
        return min(points, key=lambda u: f(loss, u) + b / 2 * abs(u - w))

    def train(i, u0, g, b, k):
        if local == "steps":
            return slide(loss, u0, g, b, T[k - 1], R)
        u = bisect_prox(loss, u0 - g / b, b, R) if local == "prox" else flat(u0 - g / b, b)
        return u, u

    least, star = minimise([loss], X)
    x_K = run([loss], lam, K, R, x0, X, train)["x"][-1]
    return f(loss, x_K) - least, (x0 - star) ** 2, lam * K * (K + 1), G_sq * lam / 2


def frank_wolfe(target: list[Q], u: list[Q], gap: Q, corners: list[list[Q]]) -> tuple[list[Q], int]:
    """Exact line search towards the corner with the least <u - target, s>, until the Wolfe gap is
    at most ``gap``; calls made."""
    for calls in range(1, 100):
        r = [a - b for a, b in zip(u, target, strict=True)]
        s = min(corners, key=lambda corner: sum((a * b for a, b in zip(r, corner, strict=True)), Q(0)))
        d = [a - b for a, b in zip(s, u, strict=True)]
        wolfe = -sum((a * b for a, b in zip(r, d, strict=True)), Q(0))
        if wolfe <= gap:
            return u, calls
        step = min(Q(1), wolfe / sum((a * a for a in d), Q(0)))
        u = [a + step * b for a, b in zip(u, d, strict=True)]
    raise ArithmeticError("no such gap in 100 calls")


def moles(slopes: list[list[Q]], lam: Q, D: Q, C: Q, R: Q, x0: list[Q], K: int, G_sq: Q) -> tuple[Q, list[int]]:
    """F(x_K) of F(u) = max_j <slopes_j, u> on the unit simplex, and the linear minimisations of
    every round."""
    d = len(x0)
    corners = [[Q(int(i == j)) for i in range(d)] for j in range(d)]

    def value(u: list[Q], a: list[Q]) -> Q:
        return sum((p * v for p, v in zip(a, u, strict=True)), Q(0))

    def mix(c: Q, a: list[Q], b: list[Q]) -> list[Q]:
        return [(1 - c) * p + c * q for p, q in zip(a, b, strict=True)]

    x = z = xl = zl = x0
    calls, T = [], steps(lam, D, K, G_sq)
    for k in range(1, K + 1):
        b, c = 4 / (lam * k), Q(2, k + 1)
        y, yl = mix(c, x, z), mix(c, xl, zl)
        z, used = frank_wolfe([p - (q - r) / (b * lam) for p, q, r in zip(z, y, yl, strict=True)], z, C / (4 * K), corners)
        x = mix(c, x, z)
        calls.append(used)
        if k == K:
            break
        u = average = zl
        for t in range(1, T[k - 1] + 1):
            best = max(value(u, a) for a in slopes)
            s = next(a for a in slopes if value(u, a) == best)
            pull = [p + (q - r) / lam + b * (v - w) for p, q, r, v, w in zip(s, yl, y, u, zl, strict=True)]
            u = [v - p / ((1 + Q(t, 2)) * b) for v, p in zip(u, pull, strict=True)]
            if sum(v * v for v in u) > R * R:
                raise ArithmeticError("an iterate leaves the ball: its projection is no fraction")
            average = mix(Q(2 * (t + 1), t * (t + 3)), average, u)
        zl, xl = u, mix(c, xl, average)
    return max(value(x, a) for a in slopes), calls


# --- forms ----------------------------------------------------------------------------------------
def losses_of(data: dict[str, Any]) -> list[Loss]:
    return [
        [(Q(p), Q(q)) for p, q in zip(*client, strict=True)]
        for client in zip(data["slopes"], data["offsets"], strict=True)
    ]


def prox_of(data: dict[str, Any]) -> dict[str, list[tuple[Q, Q]]]:
    numbers = (Q(data[name]) for name in ("lam", "radius", "x0"))
    made = exact_prox(losses_of(data), *numbers, data["rounds"])
    return {**made, "recursion": made["recursion"] or [(Q(0), Q(0))]}  # of one round nothing is said


def mopes_of(data: dict[str, Any]) -> tuple[Q, ...]:
    lam, D, low, high, R, x0 = (Q(data[name]) for name in ("lam", "D", "low", "high", "radius", "x0"))
    local = {"sliding": "steps", "exact": "prox", "flat": "flat"}[data["local"]]
    return (*mopes(losses_of(data)[0], lam, D, (low, high), R, x0, data["rounds"], local), D)


_OTHER = {
    "slopes": [["-4/3", "7/3"]], "offsets": [["1/5", "-3/2"]], "lam": "2/5", "D": "7/2", "low": "-1/3", "high": "5/4",
    "radius": "9/4", "rounds": 4, "local": "sliding",
}  # fmt: skip
_ONE_LINE = {"slopes": [["3"]], "offsets": [["1/5"]], "lam": "4", "x0": "6/7", "local": "flat"}
SHEET = Sheet(
    "fedmls",
    {"prox": prox_of, "mopes": mopes_of},
    {
        "outside X": ("mopes", {**_OTHER, "x0": "2"}),
        "outside the ball": ("mopes", {**_OTHER, "x0": "-5/2"}),
        "the prox without its square at the left end": ("mopes", {**_OTHER, **_ONE_LINE}),
    },
)
for _statement, _form, _rows in (
    *(("exact-prox", name, name) for name in ("repaired", "7.9 for 8", "rounds to epsilon")),
    ("exact-prox-recursion", "repaired", "recursion"),
):
    SHEET.form(_statement, _form)(
        lambda rows, name=_rows: ([lhs for lhs, _ in rows[name]], [rhs for _, rhs in rows[name]])
    )


def bound(start: int, slack: int) -> Any:
    """(start ||x_0 - x*||^2 + slack D)/(lambda K (K+1)) + lambda G^2/2."""

    def sides(made: tuple[Q, ...]) -> tuple[Q, Q]:
        excess, distance_sq, under, penalty, D = made
        return excess, (start * distance_sq + slack * D) / under + penalty

    return sides


for _form in ("10 and 8", "x_0 outside X", "x_0 outside X'", "prox without the square"):
    SHEET.form("mopes-bound", _form)(bound(10, 8))
SHEET.form("mopes-bound", "10 and 4")(bound(10, 4))
SHEET.form("mopes-bound", "local problem solved")(bound(8, 0))
