"""Both sides of every form about MOPES, MOLES, the exact proximal step, Moreau's envelope and
Theorem 2's orders, in fractions and with the standard library alone: written from the formulas as
`fedtheory explain` shows them and from the poster's pseudocode.
"""

from __future__ import annotations

from fractions import Fraction as Q
from math import ceil, isqrt

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


def both(losses: list[Loss], lam: Q, D: Q, R: Q, x0: Q, K: int) -> dict[str, list[list[Q]]]:
    """x_0..x_K: of FedMLS, of FedMLS with z' in line 14, and of every coordinate of MOPES in the
    two inner products."""
    n, G_sq = len(losses), mean([longest(loss, R) ** 2 for loss in losses])
    T = steps(lam, D, K, G_sq)

    def fedmls(last: bool) -> list[list[Q]]:
        def train(i, u0, g, b, k):
            z, average = slide(losses[i], u0, g, b, T[k - 1], R)
            return z, z if last else average

        return [[x] for x in run(losses, lam, K, R, x0, (-R, R), train)["x"]]

    def vectors(lam: Q, D: Q, G_sq: Q, weight: Q) -> list[list[Q]]:
        """MOPES on R^N with the inner product weight * sum u_i v_i, in which grad (1/N) sum f_i has
        entries f_i'/(N weight)."""
        x = z = xl = zl = [x0] * n
        out, T = [x], steps(lam, D, K, G_sq)
        for k in range(1, K + 1):
            b, c = 4 / (lam * k), Q(2, k + 1)
            y, yl = ([(1 - c) * p + c * q for p, q in zip(u, v, strict=True)] for u, v in ((x, z), (xl, zl)))
            centre = mean([p - (q - r) / (b * lam) for p, q, r in zip(z, y, yl, strict=True)])
            z = [clip(centre, -R, R)] * n
            x = [(1 - c) * p + c * q for p, q in zip(x, z, strict=True)]
            out.append(x)
            if k < K:
                got = [
                    slide([(p / (n * weight), q) for p, q in loss], zl[i], (yl[i] - y[i]) / lam, b, T[k - 1], R)
                    if len(loss) == 1 else _slide_scaled(loss, n * weight, zl[i], (yl[i] - y[i]) / lam, b, T[k - 1], R)
                    for i, loss in enumerate(losses)
                ]
                zl, xl = [s for s, _ in got], [(1 - c) * p + c * t for p, (_, t) in zip(xl, got, strict=True)]
        return out

    return {
        "fedmls": fedmls(False), "z'": fedmls(True), "mean": vectors(lam, D, G_sq, Q(1, n)),
        "plain, rescaled": vectors(n * lam, n * D, G_sq / n, Q(1)), "plain": vectors(lam, D, G_sq, Q(1)),
    }  # fmt: skip


def _slide_scaled(loss: Loss, by: Q, u0: Q, g: Q, beta: Q, T: int, R: Q) -> tuple[Q, Q]:
    """`slide` with the subgradients divided."""
    u = average = u0
    for t in range(1, T + 1):
        theta = Q(2 * (t + 1), t * (t + 3))
        u = clip(u - (df(loss, u) / by + beta * (u - u0) + g) * 2 / ((2 + t) * beta), -R, R)
        average += theta * (u - average)
    return u, average


# --- Moreau's envelope ----------------------------------------------------------------------------
def envelope(losses: list[list[tuple[list[Q], Q]]], lam: Q, prox: list[list[Q]], star: list[Q]) -> dict[str, tuple[Q, Q]]:
    """Losses max of <a, u> + b in R^d, x^ = 0 with its proxes, and a minimiser of F: (lhs, rhs) of
    every form."""

    def value(loss: list[tuple[list[Q], Q]], u: list[Q]) -> Q:
        return max(sum((p * v for p, v in zip(a, u, strict=True)), Q(0)) + b for a, b in loss)

    def square(u: list[Q]) -> Q:
        return sum((v * v for v in u), Q(0))

    psi = mean([value(loss, u) + square(u) / (2 * lam) for loss, u in zip(losses, prox, strict=True)])
    at = mean([value(loss, [Q(0)] * len(star)) for loss in losses])
    least = mean([value(loss, star) for loss in losses])
    G_sq = mean([max(square(a) for a, _ in loss) for loss in losses])
    return {
        "the same minimiser": (at, least), "Psi from below": (least, psi + lam * G_sq / 2), "Psi from above": (psi, least),
        "F at Psi's minimiser": (at, least + lam * G_sq / 4),
    }  # fmt: skip


# --- orders ---------------------------------------------------------------------------------------
def orders(reach: Q, sigma: Q, printed: bool) -> dict[str, tuple[Q, Q]]:
    """G = epsilon = 1 and ||x_0 - x*|| = reach, which is all that matters: (lhs, rhs) of the forms
    about either K."""
    P = reach**2
    K = next(k for k in range(1, 10**6) if (k * k >= 72 * P if printed else k * (k + 1) >= 36 * P))
    if printed and K != isqrt(ceil(72 * P) - 1) + 1:
        raise ArithmeticError("the least K with K^2 >= 72 P is not the ceiling of the root")
    total = Q(sum(steps(Q(1), P, K, Q(1), sigma**2)))
    unit = (4 + sigma**2) * P
    if printed:
        above = 864 * Q(K) ** 2 * (K + 1) * (K + Q(1, 2)) / Q(K - 1) ** 4 + 18 * Q(K) / Q(K - 1) ** 2
        return {
            "local training rounds": (total, unit * above), "local training rounds, from below": (864 * unit, total),
            "communication rounds": (Q((K - 1) ** 2), 72 * P), "communication rounds, from below": (72 * P, Q(K * K)),
        }  # fmt: skip
    above = 216 * (K + 1) * (K + Q(1, 2)) / Q(K - 1) ** 2 + Q(9, K - 1)
    return {
        "projections": (Q((K - 1) ** 2), 36 * P), "subgradients": (total, unit * above),
        "subgradients, from below": (216 * unit, total + 3 * (4 + sigma**2) * K),
    }


# --- other methods --------------------------------------------------------------------------------
def nesterov(n: int, mu: Q, h: Q, rounds: int, local: int) -> list[tuple[Q, Q]]:
    """(1/(2 mu n), F(x_k) - F*), k = 0..rounds-1, of ``local`` subgradient steps a round from 0 on
    max_j x_j + mu/2 ||x||^2."""
    x, rows = [Q(0)] * n, []
    for _ in range(rounds):
        rows.append((1 / (2 * mu * n), max(x) + mu / 2 * sum((v * v for v in x), Q(0)) + 1 / (2 * mu * n)))
        for _ in range(local):
            j = x.index(max(x))
            x = [v - h * (mu * v + Q(int(i == j))) for i, v in enumerate(x)]
    return rows


def pull(s: Q, s1: Q, c: Q, c1: Q, h: Q, rounds: int) -> list[tuple[Q, Q]]:
    """(s_1 min(c_1, h) + s (c - s h k)_+, F(x_k) - F*), k = 0..rounds, of FedProx: both clients'
    proxes, averaged."""
    along = [[(Q(1), Q(0))], [(-1 - 2 * s1, 2 * s1 * c1), (2 * s1 - 1, -2 * s1 * c1)]]
    across = [(-s, s * c), (s, -s * c)]
    far, u, v, rows = 1000 * (1 + c + c1 + h), Q(0), Q(0), []
    for k in range(rounds + 1):
        shallow = c - s * h * k
        rows.append((s1 * min(c1, h) + (s * shallow if shallow > 0 else 0), mean([f(loss, u) for loss in along]) + f(across, v)))
        u, v = mean([bisect_prox(loss, u, 1 / h, far) for loss in along]), bisect_prox(across, v, 1 / h, far)
    return rows
