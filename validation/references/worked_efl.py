"""EFL's Theorem 1 worked out in fractions on two small runs: plain Python, nothing of the library.

Quadratic clients F_k(w) = sum_i h_ki (w_i - c_ki)^2/2 whose gradients carry noise of +-n_ki with
probability 1/2 each, three rounds under two laws of the local steps: in round 0 all clients do the
same work for their weight, in rounds 1 and 2 they do not. Coordinates do not mix, so that each has
a mean and a second moment of its own; the laws are enumerated case by case. Every side is written
from the printed formula beside it.
"""

from __future__ import annotations

import itertools
from fractions import Fraction

from second_writing import Sheet

Q = Fraction


def fractions(rows):
    """Nested lists of strings as fractions."""
    return [fractions(row) for row in rows] if isinstance(rows, list) else Q(rows)


TWO = {
    "weights": ["2/3", "1/3"],
    "h": [["1", "2"], ["3/2", "1"]],
    "c": [["1", "0"], ["-1", "2"]],
    "noise": [["1/2", "1"], ["2", "1/3"]],
    "w0": ["2", "-1"],
    "laws": [[["0", "1/2", "0", "1/2"], ["0", "0", "1", "0"]], [["1/4", "1/2", "0", "1/4"], ["1/3", "0", "1/3", "1/3"]]],
    "T": 3,
}
THREE = {
    "weights": ["3/4", "1/6", "1/12"],
    "h": [["1", "2"], ["3/2", "1"], ["1", "3/2"]],
    "c": [["1", "0"], ["-1", "2"], ["0", "-2"]],
    "noise": [["1/2", "1"], ["2", "1/3"], ["1", "2/3"]],
    "w0": ["2", "-1"],
    "laws": [[["0", "1/2", "1/2"]] * 3, [["0", "1/2", "1/2"], ["1/2", "0", "1/2"], ["0", "1/4", "3/4"]]],
    "T": 3,
}
MANY = {  # nine steps a round and L = mu: the first entry of gamma is the larger one
    "weights": ["2/3", "1/3"], "h": [["1"], ["1"]], "c": [["1"], ["-1"]], "noise": [["1/2"], ["2"]], "w0": ["2"],
    "laws": [[["0"] * 9 + ["1"]] * 2], "T": 1,
}  # fmt: skip
RUNS = {"A": THREE, "B": TWO, "C": TWO, "C-corrected": TWO}  # with two clients 2 p^k/K never adds up to more than 2


def coefficients(scheme, s, E, weights, law):
    """p_tau^k of each client that does s_k of E steps (section 3.2 and Ruan et al.'s schemes)."""
    if scheme == "A":  # N p^k/K of the K complete ones
        complete = sum(x == E for x in s)
        return [len(s) * w / complete if x == E else Q(0) for x, w in zip(s, weights)]
    if scheme == "B":
        return list(weights)
    out = [E * w / x if x else Q(0) for x, w in zip(s, weights)]
    return [p / (1 - row[0]) for p, row in zip(out, law)] if scheme == "C-corrected" else out


def cases(scheme, law, weights):
    """(probability, s, p) of all that may happen in a round; clients are independent."""
    E = len(law[0]) - 1
    for s in itertools.product(*([x for x in range(E + 1) if row[x]] for row in law)):
        mass = Q(1)
        for x, row in zip(s, law):
            mass *= row[x]
        yield mass, s, coefficients(scheme, s, E, weights, law)


class Run:
    """A run: its constants as Theorem 1 names them, and E||w_tau - w*||^2 in `distance_sq`.

    ``common``: all clients have the same sign of the noise in a step. ``anchors``: an elastic term
    with anchors that never move. With "lam" and "u" in the data they move: to where the clients
    end.
    """

    def __init__(self, scheme, data, common=False, anchors=None):
        self.scheme, self.common = scheme, common
        self.p, self.h, self.c, self.w0 = (fractions(data[k]) for k in ("weights", "h", "c", "w0"))
        self.n = fractions(data["noise"]) if "noise" in data else [[Q(0) for _ in row] for row in self.h]
        laws = fractions(data["laws"])
        self.T, self.N, self.d, self.E = data["T"], len(self.p), len(self.w0), len(laws[0][0]) - 1
        self.laws = [laws[min(t, len(laws) - 1)] for t in range(self.T)]
        self.L, self.mu = max(map(max, self.h)), min(map(min, self.h))
        if anchors:
            self._elastic(*(fractions(anchors[k]) for k in ("lam", "u", "anchors")))
        if "lam" in data:
            self.lam, self.u = Q(data["lam"]), fractions(data["u"])
            self.U = [sum(col) for col in zip(*self.u)]
            self.L, self.mu = self.L + self.lam * max(self.U), self.mu + self.lam * min(self.U)
        self.cases = [list(cases(scheme, law, self.p)) for law in self.laws]
        self.theta = self._theta()
        self.S = [self.mean(t, lambda s, p: sum(map(mul, p, s))) for t in range(self.T)]  # E[sum_k p_tau^k s_tau^k]
        least, E = min(self.S), self.E
        # gamma = max{4E^2 theta/min S, 32E(1 + theta)L/(mu min S)}; eta_tau = 16E/(mu
        # ((tau + 1)E + gamma) S_tau)
        self.gamma = max(4 * E**2 * self.theta / least, 32 * E * (1 + self.theta) * self.L / (self.mu * least))
        self.eta = [16 * E / (self.mu * ((t + 1) * E + self.gamma) * self.S[t]) for t in range(self.T)]
        pull = [[p * h for h in row] for p, row in zip(self.p, self.h)]
        self.star = [sum(a[i] * c[i] for a, c in zip(pull, self.c)) / sum(a[i] for a in pull) for i in range(self.d)]
        self.D = [sum(h * (x - c) ** 2 for h, c, x in zip(self.h[k], self.c[k], self.star)) / 2 for k in range(self.N)]
        self.sigma_sq = [sum(n * n for n in row) for row in self.n]
        self._follow() if "lam" in data else self._go()

    def _follow(self):
        """All steps of complete clients: y <- y - eta (h (y - c) + lam sum_i u_i (y - a_i)), then
        a_k = y_k.

        D_k is the largest F~_k(w*) - F~_k^* and G^2 the largest squared gradient of all rounds.
        """
        w, a = list(self.w0), [list(self.w0) for _ in self.p]
        self.distance_sq, self.G_sq, self.D = [sum((x - s) ** 2 for x, s in zip(w, self.star))], Q(0), [Q(0)] * self.N

        def slope(k, x):
            """grad F~_k(x)."""
            pull = [sum(u[i] * (x[i] - b[i]) for u, b in zip(self.u, a)) for i in range(self.d)]
            return [self.h[k][i] * (x[i] - self.c[k][i]) + self.lam * pull[i] for i in range(self.d)]

        for eta in self.eta:
            ends = []
            for k in range(self.N):
                gap = sum(g * g / (2 * (h + self.lam * U)) for g, h, U in zip(slope(k, self.star), self.h[k], self.U))
                self.D[k], y = max(self.D[k], gap), w
                for _ in range(self.E):
                    g = slope(k, y)
                    self.G_sq = max(self.G_sq, sum(v * v for v in g))
                    y = [x - eta * v for x, v in zip(y, g)]
                ends.append(y)
            a = ends
            w = [sum(p * y[i] for p, y in zip(self.p, ends)) for i in range(self.d)]
            self.distance_sq.append(sum((x - s) ** 2 for x, s in zip(w, self.star)))

    def _elastic(self, lam, u, a):
        """F~_k = f_k + lam/2 sum_j (w - a_j)' diag(u_j) (w - a_j); L~ = L + lam max U,
        mu~ = mu + lam min U."""
        U = [sum(col) for col in zip(*u)]
        V = [sum(u[j][i] * a[j][i] for j in range(self.N)) for i in range(self.d)]
        old = self.h
        self.h = [[h + lam * x for h, x in zip(row, U)] for row in old]
        self.c = [[(old[k][i] * self.c[k][i] + lam * V[i]) / self.h[k][i] for i in range(self.d)] for k in range(self.N)]
        self.L, self.mu = self.L + lam * max(U), self.mu + lam * min(U)

    def _theta(self):
        """The least theta that p_tau^k <= theta p^k is known to hold with: N, 1, E, E/min
        P(active)."""
        if self.scheme == "C-corrected":
            return self.E / min(1 - row[0] for law in self.laws for row in law)
        return {"A": Q(self.N), "B": Q(1), "C": Q(self.E)}[self.scheme]

    def mean(self, t, value):
        """The expectation of value(s, p) in round t."""
        return sum(mass * value(s, p) for mass, s, p in self.cases[t])

    def _go(self):
        """Mean and second moment of every coordinate, round after round; G^2 at all E virtual
        steps."""
        one, two = list(self.w0), [x * x for x in self.w0]
        self.distance_sq, self.G_sq = [self._distance_sq(one, two)], Q(0)
        for t in range(self.T):
            eta = self.eta[t]
            for k in range(self.N):
                for i in range(self.E):  # g = h (w - c) + noise, w - c = (1 - eta h)^i (w_0 - c) + earlier noise
                    square = Q(0)
                    for j in range(self.d):
                        h, c, n, keep = self.h[k][j], self.c[k][j], self.n[k][j], 1 - eta * self.h[k][j]
                        start = two[j] - 2 * c * one[j] + c * c
                        earlier = eta**2 * n * n * sum(keep ** (2 * m) for m in range(i))
                        square += h * h * (keep ** (2 * i) * start + earlier) + n * n
                    self.G_sq = max(self.G_sq, square)
            moved = [self._coordinate(t, j, one[j], two[j]) for j in range(self.d)]
            one, two = [m[0] for m in moved], [m[1] for m in moved]
            self.distance_sq.append(self._distance_sq(one, two))
        self.mean_w, self.square_w = one, two

    def _distance_sq(self, one, two):
        return sum(b - 2 * x * a + x * x for a, b, x in zip(one, two, self.star))

    def _coordinate(self, t, j, one, two):
        """w+ = w + sum_k p_k (w^k_{s_k} - w) = A w + B + noise, case by case.

        Client k's noise in step i is -eta (1 - eta h)^(s-1-i) n.
        """
        eta, out_one, out_two = self.eta[t], Q(0), Q(0)
        for mass, s, p in self.cases[t]:
            keep = [(1 - eta * self.h[k][j]) ** s[k] for k in range(self.N)]
            A = 1 + sum(p[k] * (keep[k] - 1) for k in range(self.N))
            B = sum(p[k] * (1 - keep[k]) * self.c[k][j] for k in range(self.N))
            push = [[p[k] * eta * self.n[k][j]] * s[k] for k in range(self.N)]
            push = [[x * (1 - eta * self.h[k][j]) ** i for i, x in enumerate(row)][::-1] for k, row in enumerate(push)]
            if self.common:
                var = sum(sum(row[i] for row in push if i < len(row)) ** 2 for i in range(self.E))
            else:
                var = sum(x * x for row in push for x in row)
            out_one += mass * (A * one + B)
            out_two += mass * (A * A * two + 2 * A * B * one + B * B + var)
        return out_one, out_two

    # --- the bound's parts ----------------------------------------------------------------------
    def work(self, t):
        """E[p_tau^k s_tau^k] of each client."""
        return [self.mean(t, lambda s, p, k=k: p[k] * s[k]) for k in range(self.N)]

    def same_ratio(self, t):
        """Return whether E[p_tau^k s_tau^k]/p^k has the same value for all k."""
        return len({w / p for w, p in zip(self.work(t), self.p)}) == 1

    def bracket(self, t, printed=False):
        """E of sum p s + theta (sum p - 2)_+ sum p s; printed sum p s + theta (sum p - 2) + sum p
        s."""

        def value(s, p):
            ps, over = sum(map(mul, p, s)), sum(p) - 2
            return ps + self.theta * over + ps if printed else ps + self.theta * max(over, 0) * ps

        return self.mean(t, value)

    def squares(self, t):
        """E[(p_tau^k)^2 s_tau^k]."""
        return [self.mean(t, lambda s, p, k=k: p[k] ** 2 * s[k]) for k in range(self.N)]

    def B(self, t, printed=False):
        """sum p^2 s sigma^2 + 2(2+theta)L sum p s D + (2 + mu/(2(1+theta)L)) E(E-1)G^2 (bracket)
        + 2EG^2 sum p^2 s/p^k."""
        E, G, sq = self.E, self.G_sq, self.squares(t)
        first = sum(map(mul, sq, self.sigma_sq))
        second = 2 * (2 + self.theta) * self.L * sum(map(mul, self.work(t), self.D))
        third = (2 + self.mu / (2 * (1 + self.theta) * self.L)) * E * (E - 1) * G * self.bracket(t, printed)
        return first + second + third + 2 * E * G * sum(q / p for q, p in zip(sq, self.p))

    def B_sharp(self, t, any_correlation=False):
        """sum p^2 s sigma^2 + 2(2+theta)L sum p s D
        (any correlation: sum p^2 s/p^k min(sigma^2, G^2) for its first term)
        + E(E-1)G^2 [(1 + mu/(2(1+theta)L))/2 (bracket) + sum p s/3] + (E-1)G^2 sum p^2 s/p^k."""
        E, G, sq = self.E, self.G_sq, self.squares(t)
        over = [q / p for q, p in zip(sq, self.p)]
        noise = sum(map(mul, sq, self.sigma_sq))
        if any_correlation:
            noise = sum(o * min(v, G) for o, v in zip(over, self.sigma_sq))
        drift = (1 + self.mu / (2 * (1 + self.theta) * self.L)) / 2 * self.bracket(t) + self.S[t] / 3
        data = 2 * (2 + self.theta) * self.L * sum(map(mul, self.work(t), self.D))
        return noise + data + E * (E - 1) * G * drift + (E - 1) * G * sum(over)

    def J(self, printed=False):
        """max_tau 32E sum_k E[p s] D_k/(mu S_tau); printed max sum_k 32E E[p s]/((D_k/mu)
        S_tau)."""
        if printed:
            each = [[32 * self.E * w / (D / self.mu * S) for w, D in zip(self.work(t), self.D)] for t, S in enumerate(self.S)]
            return max(map(sum, each))
        return max(32 * self.E * sum(map(mul, self.work(t), self.D)) / (self.mu * self.S[t]) for t in range(self.T))

    def J_sharp(self, t):
        """32E sum_k (E[p s] - c_t p^k) D_k/(mu S_t), c_t = min_k E[p s]/p^k."""
        work = self.work(t)
        c = min(w / p for w, p in zip(work, self.p))
        return 32 * self.E * sum((w - c * p) * D for w, p, D in zip(work, self.p, self.D)) / (self.mu * self.S[t])


def mul(a, b):
    return a * b


def theorem_1(run, tau, join="sum", flipped=False, bracket=False, J=False):
    """C_tau/(tau E + gamma)^2 + H_tau J/(tau E + gamma), H_tau = sum_{t<tau} r_t, (7).

    C_tau joins gamma^2 ||w_0 - w*||^2 and (16E/mu)^2 sum_{t<tau} E[B_t]/S_t^2 by sum, max or 2 max;
    ``flipped``: r_t = 1 iff the ratio is the same for all k, else iff it is not; ``bracket``,
    ``J``: as printed.
    """
    y = tau * run.E + run.gamma
    first = run.gamma**2 * run.distance_sq[0]
    second = (16 * run.E / run.mu) ** 2 * sum(run.B(t, bracket) / run.S[t] ** 2 for t in range(tau))
    C = {"sum": first + second, "max": max(first, second), "2 max": 2 * max(first, second)}[join]
    H = sum(run.same_ratio(t) == flipped for t in range(tau))
    return C / y**2 + H * run.J(J) / y


def theorem_1_sharp(run, tau, any_correlation=False):
    """(gamma^2 ||w_0 - w*||^2 + (16E/mu)^2 sum E[B+_t]/S_t^2)/(tau E + gamma)^2
    + sum_{t<tau} J+_t/(tau E + gamma)."""
    y = tau * run.E + run.gamma
    C = run.gamma**2 * run.distance_sq[0]
    C += (16 * run.E / run.mu) ** 2 * sum(run.B_sharp(t, any_correlation) / run.S[t] ** 2 for t in range(tau))
    return C / y**2 + sum(run.J_sharp(t) for t in range(tau)) / y


THEOREM_1 = {
    "printed": lambda run, tau: theorem_1(run, tau, "max", flipped=True, bracket=True, J=True),
    "repaired": theorem_1,
    "frozen anchors": theorem_1,
    "moving anchors": theorem_1,
    "2 max": lambda run, tau: theorem_1(run, tau, "2 max"),
    "sharpened": theorem_1_sharp,
    "sharpened, any correlation": lambda run, tau: theorem_1_sharp(run, tau, any_correlation=True),
    "sharpened, common mini-batches": theorem_1_sharp,
    "max": lambda run, tau: theorem_1(run, tau, "max"),
    "r_t flipped": lambda run, tau: theorem_1(run, tau, flipped=True),
    "bracket": lambda run, tau: theorem_1(run, tau, bracket=True),
    "J": lambda run, tau: theorem_1(run, tau, J=True),
}


def run_of(data):
    """The run of an instance's data; anchors that are given never move."""
    elastic = ("lam", "u", "anchors")
    if "anchors" in data:
        rest = {name: value for name, value in data.items() if name not in elastic}
        return Run(data["scheme"], rest, anchors={name: data[name] for name in elastic})
    return Run(data["scheme"], data, common=data.get("common", False))


SHEET = Sheet("efl", {"run": run_of, "run, frozen anchors": run_of})


def _bound(bound):
    def sides(run):
        taus = [tau for tau in (run.T - 1, run.T) if tau]  # the bound is about tau >= 1
        return [run.distance_sq[tau] for tau in taus], [bound(run, tau) for tau in taus]

    return sides


for _name, _of in THEOREM_1.items():
    SHEET.form("theorem-1", _name)(_bound(_of))
