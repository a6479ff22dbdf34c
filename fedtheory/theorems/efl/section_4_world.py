"""The worlds of EFL's section 4: a client that is away, one round of a client, and the bounds of
Theorem 2 with fewer samples."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np

from fedtheory.errors import InvalidInput
from fedtheory.local import LocalSGD
from fedtheory.rational import fraction, simplest, simplest_each, table, to_file
from fedtheory.theorems.efl.cases import given
from fedtheory.theorems.efl.cases.theorem_1 import law_of
from fedtheory.theorems.efl.quantities.run import gamma_of
from fedtheory.theorems.efl.shift_world import ShiftView
from fedtheory.theorems.efl.world import PLAIN, EFLWorld
from fedtheory.theory import Case, Fact, anything, derived, number, whole
from fedtheory.theory.draws import curvatures, rows, shares, signed, size
from fedtheory.theory.rounds.linear_algebra import semidefinite, solve

MOST_ROUNDS = 60  # of runs that are made once for every round


def _apart(q: AwayView) -> bool:
    """True if no Hessian has anything beside its diagonal, but rounding in floats."""
    H = q.clients.H
    off = abs(H * (1 - np.eye(H.shape[1], dtype=int))).max()
    return bool(off <= (0 if H.dtype == object else 1e-12 * abs(H).max()))


def _steepens(q: SamplesView) -> bool:
    """True if F_a's curvature left of the bend is at least that at its minimiser."""
    bent = q.bent or {}
    return bool(bent) and fraction(bent["below"], "below") >= fraction(bent["h"][-1][0], "h")


APART = Fact("coordinates that do not mix", _apart)
MIXED = Fact("coordinates that mix", lambda q: not q.has(APART))
ONE_STEP = Fact("one local step", lambda q: q.s == 1)
SEVERAL = Fact("more than one local step", lambda q: q.s != 1)
QUADRATIC = Fact("quadratic losses", lambda q: q.bent is None)
BENT = Fact("an F_a of one coordinate with two curvatures", lambda q: q.bent is not None)
OUTWARD = Fact(BENT + ", which does not fall away from a's minimiser", _steepens)


@dataclass
class QuadraticClients:
    """Clients w' H_k w/2 - b_k' w."""

    H: np.ndarray  # H, b: (N, d, d), symmetric and positive definite, and (N, d)
    b: np.ndarray

    @classmethod
    def diagonal(cls, h: np.ndarray, c: np.ndarray) -> QuadraticClients:
        """sum_i h_ki (w_i - c_ki)^2/2, from (N, d) each."""
        H = np.zeros((*h.shape, h.shape[1]), dtype=h.dtype) + 0 * h[0, 0]
        H[:, range(h.shape[1]), range(h.shape[1])] = h
        return cls(H, h * c)

    @classmethod
    def of(cls, matrices: Any, c: np.ndarray) -> QuadraticClients:
        """(w - c_k)' H_k (w - c_k)/2 of matrices as data have them."""
        H = np.stack([table(rows, "H") for rows in matrices])
        if H.shape != (*c.shape, c.shape[1]) or (H != H.swapaxes(1, 2)).any():
            raise InvalidInput(f"H {H.shape}: give a symmetric matrix of d rows for every client")
        return cls(H, (H * c[:, None, :]).sum(axis=-1))

    def slope(self, weights: np.ndarray, w: np.ndarray) -> np.ndarray:
        """sum_k weights_k grad f_k(w)."""
        return (weights[:, None, None] * self.H).sum(axis=0) @ w - weights @ self.b

    def argmin(self, weights: np.ndarray) -> np.ndarray:
        """argmin sum_k weights_k f_k."""
        return solve((weights[:, None, None] * self.H).sum(axis=0), weights @ self.b)

    def gap(self, k: int, w: np.ndarray) -> Any:
        """f_k(w) - f_k^*."""
        one = np.zeros(len(self.H), dtype=int)
        one[k] = 1
        away = w - self.argmin(one + 0 * self.b[:, 0])
        return away @ self.H[k] @ away / 2


def a_last(case: Case) -> tuple[QuadraticClients, np.ndarray]:
    """The clients in floats, and their order, client a last. Raises `MissingCapability` for losses
    that are not quadratic."""
    H, b = given.quadratics_of(case.problem)
    a = given.client_of(case)
    order = np.array([*(k for k in range(len(b)) if k != a), a])
    return QuadraticClients(np.asarray(H, dtype=float)[order], np.asarray(b, dtype=float)[order]), order


@dataclass
class AwayView(EFLWorld):
    """Runs of T rounds with Theorem 1's steps eta_t = 16/(mu (t + 1 + gamma)), client a, the last
    one, there or not."""

    kind, about = "away", "about runs in which one client is away"
    asks = (
        "strongly convex quadratic losses", "at least two clients",
        PLAIN + "; E = 1 and who is away are the statement's own",
    )  # fmt: skip
    accepts = given.options("client", "gamma", "L", "mu")
    example, local_steps, share = "--problem quadratic --rounds 12", 1, 0.2
    attained = (
        ("hardly any difference", {
            "weights": ["1/2", "1/2"], "h": [["1"], ["1"]], "c": [["0"], ["2"]], "mu": "1",
            "gamma": "2000", "T": 4, "x0": ["5"],
        }),
        ("a curved way", {
            "weights": ["1/10", "9/10"], "H": [[["15", "3"], ["3", "21"]], [["5", "-4"], ["-4", "23"]]],
            "c": [["0", "0"], ["-3", "-2"]], "mu": "83/20", "gamma": "93", "T": 4, "x0": ["-1", "1"],
        }),
        ("gradients that cancel", {
            "weights": ["9/10", "1/10"], "H": [[["5", "-3"], ["-3", "3"]], [["4", "0"], ["0", "6"]]],
            "c": [["0", "0"], ["-1", "1"]], "mu": "4/5", "gamma": "145", "T": 4, "x0": ["3", "-1"],
        }),
    )  # fmt: skip

    shows: ClassVar = {"T": "T", "mu": "mu", "gamma": "gamma", "argmin": "star"}
    reads: ClassVar = {
        "weights": number("N", above=0, total=1), "c": number("N d"), "x0": number("d"),
        "mu": number(above=0), "gamma": number(), "T": whole(2, 60),
        "h": number("N d", "curvatures", default=None),
        "H": anything("N symmetric matrices, in place of h", default=None),
    }  # fmt: skip
    demands = (Fact("at least two clients", lambda q: len(q.weights) > 1),)

    clients: QuadraticClients  # the losses
    weights: np.ndarray  # (N,) p^k
    mu: Any  # mu, gamma: of the steps
    gamma: Any
    T: int  # rounds
    x0: np.ndarray  # (d,) a start other than the optimum
    noise: Any = 0  # of a squared distance or a loss, 0 for fractions

    others = derived(
        lambda q: np.append(q.weights[:-1], 0 * q.weights[-1]), "p^k of all but a, 0 for a"
    )
    rest = derived(lambda q: q.others / q.others.sum(), "the same, of sum 1")
    star = derived(lambda q: q.clients.argmin(q.weights), "omega*, the optimum with a")

    def run(self, start: np.ndarray, weights: list[np.ndarray]) -> np.ndarray:
        """Models (T + 1, d) of rounds with these coefficients."""
        path = [start]
        for t, p in enumerate(weights):
            eta = 16 / (self.mu * (t + 1 + self.gamma))
            path.append(path[-1] - eta * self.clients.slope(p, path[-1]))
        return np.stack(path)

    def absences(self, start: np.ndarray) -> np.ndarray:
        """||w_T - omega*||^2 of the runs in which a is inactive in round t alone, t = 0..T-1."""
        ends = [self.run(start, [self.others if t == out else self.weights for t in range(self.T)])[-1] for out in range(self.T)]
        return np.array([((w - self.star) ** 2).sum() for w in ends])

    def departures(self, start: np.ndarray) -> np.ndarray:
        """F_a(w_T) - F_a* of the runs in which a works in the first tau_0 rounds and then leaves, tau_0 = 0..T."""
        weights = [[self.weights if t < tau_0 else self.rest for t in range(self.T)] for tau_0 in range(self.T + 1)]
        return np.array([self.clients.gap(len(self.weights) - 1, self.run(start, p)[-1]) for p in weights])

    def waiting(self, in_turn: bool) -> np.ndarray:
        """grad F_a(w_m) - grad F_a(w_0) (T + 1, d) while a waits and the others work, all in every
        round or one after another."""
        n = len(self.weights) - 1
        turns = [np.eye(n + 1, dtype=int)[t % n] + 0 * self.weights for t in range(self.T)]
        path = self.run(self.x0, turns if in_turn else [self.rest] * self.T)
        return (path - path[0]) @ self.clients.H[-1]

    @classmethod
    def made(cls, c: np.ndarray, h: Any, H: Any, **values: Any) -> Self:
        """Make the clients. Raises `InvalidInput` for a step above 1/L, or mu above a curvature."""
        if H is None and h is None:
            raise InvalidInput("give h, or H")
        clients = QuadraticClients.diagonal(h, c) if H is None else QuadraticClients.of(H, c)
        mu, one = values["mu"], np.eye(c.shape[1], dtype=int)
        most = mu * (1 + values["gamma"]) / 16 * one
        if not all(semidefinite(H - mu * one) and semidefinite(most - H) for H in clients.H):
            raise InvalidInput("mu must be at most every curvature, and 16/(mu (1 + gamma)) at most 1/L")
        return cls(clients, **values)

    @classmethod
    def draw(cls, rng: Any, number: int | None = None) -> tuple[str, dict[str, Any]]:
        """Draw quadratics whose coordinates do not mix."""
        n, d = int(rng.integers(2, 5)), int(rng.integers(1, 3))
        h = rows(rng, n, d, lambda g: Fraction(int(g.integers(1, 5))))
        mu = min(min(row) for row in h)
        most = 16 * max(max(row) for row in h) / mu
        data = {
            "weights": shares(rng, n), "h": h, "c": rows(rng, n, d, signed), "mu": mu,
            "gamma": most + int(rng.integers(0, 60)), "T": int(rng.integers(2, 7)),
            "x0": [signed(rng) for _ in range(d)],
        }
        return f"N={n} d={d} T={data['T']}", data

    @classmethod
    def on_problem(cls, statement: str, case: Case) -> AwayView:
        """Run quadratic clients with Theorem 1's steps and E = 1, T = 10 rounds if nothing is said.

        gamma is Theorem 1's for E = theta = S = 1 unless given. Who is away and when is the
        statement's; the user's law of s^k is not used.
        """
        given.uncompressed(case.algorithm)
        (clients, order), (L, mu) = a_last(case), given.curvatures(case.problem, case.given)
        gamma = float(given.given_number(case, "gamma", gamma_of(1, 1, L, mu, [1]), above=0))
        if 16 * L > mu * (1 + gamma) * (1 + 1e-12):
            raise InvalidInput(f"gamma = {gamma:.6g}: the first step 16/(mu (1 + gamma)) must be at most 1/L, "
                               f"use at least {16 * L / mu:.6g}")
        rounds = min(case.rounds or 10, MOST_ROUNDS)
        if rounds < 2:
            raise InvalidInput(f"T = {rounds}: two rounds are compared; ask for at least two")
        x0 = np.asarray(case.x0, dtype=float)
        view = cls(clients, case.problem.weights[order], mu, gamma, rounds, x0)
        reach = float(max(np.linalg.norm(x) for x in (x0, view.star, clients.argmin(view.rest))))
        view.noise = 1e-12 * max(1.0, L) ** 2 * max(reach, reach**2)
        return view


@dataclass
class CoefficientView(EFLWorld):
    """One round of one client, in the coordinates of its Hessian."""

    kind, about = "coefficient", "about one round of one client"
    asks = (
        "a strongly convex quadratic loss",
        "E and s, the local steps of a client that is incomplete",
    )
    accepts = given.options("client", "s")
    example = "--problem diabetes --local-steps 4 --given s=2"
    shows = ("eta", "E", "s", "factor")

    demands = (
        Fact("factor eta h <= 1", lambda q: (q.factor * q.eta * q.h).max() <= 1),
        Fact("s <= E", lambda q: q.s <= q.E),
    )
    noise = 0

    h: np.ndarray = number("d", "curvatures", above=0, letter="h")
    away: np.ndarray = number("d", "c - w", letter=r"(c_k-\omega_0)")
    eta: Any = number(above=0)
    E: int = whole(1, 100, "the most local steps")
    s: int = whole(1, 100, "those that are done")
    factor: Any = number(what="of p^k in the coefficient, or of eta", least=1, letter="c")

    distance = derived(lambda q: abs(q.away), "|c - w|, (d,)", r"|c_k-\omega_0|")

    def portion(self, steps: int, times: Any = 1) -> np.ndarray:
        """Return the part >= 0 of c - w that so many steps of size ``times`` eta go, (d,)."""
        return 1 - (1 - times * self.eta * self.h) ** steps

    def moved(self, steps: int, times: Any = 1) -> np.ndarray:
        """Return how these steps move the model, (d,)."""
        return self.portion(steps, times) * self.away

    def length(self, steps: int, times: Any = 1) -> np.ndarray:
        """Return how far they move it, (d,)."""
        return self.portion(steps, times) * self.distance

    def square(self, share: Any) -> np.ndarray:
        """share (eta h)^2 |c - w|."""
        return share * (self.eta * self.h) ** 2 * self.distance

    @classmethod
    def draw(cls, rng: Any, number: int | None = None) -> tuple[str, dict[str, Any]]:
        """Draw a client, the step and the local steps."""
        d, most = int(rng.integers(1, 3)), int(rng.integers(1, 7))
        h, factor = [size(rng) for _ in range(d)], 1 + Fraction(int(rng.integers(1, 13)), 4)
        data = {
            "h": h, "away": [signed(rng) for _ in h],
            "eta": Fraction(int(rng.integers(1, 9)), 8) / (factor * max(h)), "E": most,
            "s": int(rng.integers(1, most + 1)), "factor": factor,
        }
        return f"E={most} s={data['s']}", data

    @classmethod
    def on_problem(cls, statement: str, case: Case) -> dict[str, Any]:
        """Find one quadratic client along the eigenvectors of its Hessian, from the start.

        The client is the one that is named, else the first; it does s of E local steps (s = 1 where
        nothing is said), and the factor is scheme C's E/s. The step is that of local work if it is
        a number, else s/(E L), the longest that is judged.
        """
        law, problem, solver = law_of(case), case.problem, case.local_solver
        k, E = given.given_whole(case, "client", 0, most=problem.num_clients - 1), law.max_steps
        s = given.given_whole(case, "s", 1, least=1, most=E)
        H, b = given.quadratics_of(problem)
        h, axes = np.linalg.eigh(np.asarray(H, dtype=float)[k])
        if not h.min() > 0:
            raise InvalidInput(f"client {k} has the curvature {float(h.min()):.6g}, the limit is > 0: add a ridge")
        longest = s / (E * float(h.max()))
        eta = float(solver.lr) if isinstance(solver, LocalSGD) and not callable(solver.lr) else longest
        if eta > longest * (1 + 1e-12):
            raise InvalidInput(f"lr = {eta:.6g}: E/s times the step must be at most 1/L, the limit here is {longest:.6g}")
        away = simplest_each(axes.T @ (np.linalg.solve(np.asarray(H, dtype=float)[k], b[k]) - case.x0))
        curvatures = simplest_each(h)
        return {
            "h": curvatures, "away": away, "eta": min(simplest(eta), Fraction(s, E) / max(curvatures)),
            "E": E, "s": s, "factor": Fraction(E, s),
        }


@dataclass
class SamplesView(EFLWorld):
    """The bounds of Theorem 2 for quadratics, with all samples of client a, with fewer, and with data more alike.

    Attributes
    ----------
    bent : of one coordinate, data of kind 'shift' with a bend in F_a; None for quadratics
    """

    kind, about = "samples", "about the bounds of Theorem 2"
    asks = ("strongly convex quadratic losses", "at least two clients")
    accepts = given.options("client")
    example, share = "--problem diabetes", 0.5
    attained = (
        ("a bend", {
            "samples": ["1", "1"], "h": [["1"], ["100"]], "c": [["0"], ["101/100"]], "bend": "1",
            "below": "1", "fewer": "4/5", "closer": "1/2",
        }),
        ("a bend, steeper outwards", {
            "samples": ["2", "3"], "h": [["2"], ["3/2"]], "c": [["0"], ["4"]], "bend": "3",
            "below": "5/2", "fewer": "29/10", "closer": "1/2",
        }),
    )  # fmt: skip

    shows = ("n_a", "fewer", "closer")
    reads: ClassVar = {
        "samples": number("N", above=0), "h": number("N d", above=0), "c": number("N d"),
        "fewer": number(above=0), "closer": number(above=0, below=1),
        "bend": anything(default=None), "below": anything(default=None),
    }  # fmt: skip
    demands = (
        Fact("at least two clients", lambda q: len(q.samples) > 1),
        Fact("fewer samples than client a has", lambda q: q.fewer < q.n_a),
    )

    clients: QuadraticClients  # the losses, client a last
    samples: np.ndarray  # (N,) of every client
    fewer: Any  # samples of a, fewer than it has
    closer: Any  # the factor that draws all minimisers together
    L: Any  # L, mu: smoothness and strong convexity of all clients
    mu: Any
    noise: Any = 0
    bent: dict[str, Any] | None = None

    n_a = derived(lambda q: q.samples[-1])

    def bent_bound(self, n_a: Any = None) -> Any:
        """(11) repaired where F_a has a bend."""
        samples = [str(v) for v in (*self.samples[:-1], self.samples[-1] if n_a is None else n_a)]
        v = ShiftView.from_data({"event": "arrival", "samples": samples, **(self.bent or {})})
        return 2 * v.L * v.n_a**2 * v.D_new / (v.mu * v.n) ** 2

    def bound(self, event: str, n_a: Any = None, closer: Any = 1, repaired: bool = False) -> Any:
        """(10), or (11) as printed or as repaired."""
        samples = self.samples.copy()
        samples[-1] = self.samples[-1] if n_a is None else n_a
        weights = samples.copy()
        if event == "departure":
            weights[-1] = 0 * weights[-1]
        clients = QuadraticClients(self.clients.H, closer * self.clients.b)
        gap = clients.gap(len(samples) - 1, clients.argmin(weights / weights.sum()))
        below = samples[:-1].sum() if repaired else samples.sum()
        return (2 if repaired else 8) * self.L * samples[-1] ** 2 * gap / (self.mu * below) ** 2

    @classmethod
    def made(cls, samples: Any, h: Any, c: Any, fewer: Any, closer: Any, bend: Any, below: Any) -> Self:
        """Make an instance, of a bend in F_a with the data of it."""
        bent = None if bend is None else to_file({"h": h, "c": c, "bend": bend, "below": below})
        return cls(QuadraticClients.diagonal(h, c), samples, fewer, closer, h.max(), h.min(), bent=bent)

    @classmethod
    def draw(cls, rng: Any, number: int | None = None) -> tuple[str, dict[str, Any]]:
        """Draw clients, on the line with a bend in F_a now and then."""
        n, d = int(rng.integers(2, 5)), int(rng.integers(1, 3))
        samples = [Fraction(int(v)) for v in rng.integers(1, 30, n)]
        samples[-1] *= int(rng.choice([1, 1, 10]))
        data = {
            "samples": samples, "h": curvatures(rng, n, d), "c": rows(rng, n, d, signed),
            "fewer": samples[-1] * Fraction(int(rng.integers(1, 20)), 20),
            "closer": Fraction(int(rng.integers(1, 20)), 20),
        }
        if rng.random() < 0.3:  # one coordinate, and a bend between a's minimiser and the others
            data["h"] = curvatures(rng, n, 1)
            data["c"] = [*rows(rng, n - 1, 1, signed), [Fraction(int(rng.integers(4, 12)))]]
            data["bend"] = Fraction(int(rng.integers(1, 12)), 3)
            data["below"] = Fraction(int(rng.integers(1, 40)), 8)
            return f"N={n} d=1, a bend", data
        return f"N={n} d={d}", data

    @classmethod
    def on_problem(cls, statement: str, case: Case) -> SamplesView:
        """Take half of client a's samples, and minimisers half as far from 0, of quadratic clients."""
        clients, order = a_last(case)
        (L, mu), weights = given.curvatures(case.problem), case.problem.weights
        counts = np.asarray(case.problem.sample_counts)
        own = counts if np.allclose(weights * counts.sum(), counts, rtol=1e-12) else weights
        sizes = np.asarray(own, dtype=float)[order]
        points = [clients.argmin(p / p.sum()) for p in (sizes, np.append(sizes[:-1], 0.0), np.append(0.0 * sizes[:-1], 1.0))]
        reach = float(max(np.linalg.norm(x) for x in points))
        noise = 1e-12 * 8 * (L * reach / mu) ** 2
        return cls(clients, sizes, sizes[-1] / 2, 0.5, L, mu, noise)
