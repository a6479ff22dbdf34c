"""The world of EFL's convergence with compression and irregular clients.

D^k = R^k + (p_tau^k/p^k) x^k of those that make steps, c^k = C(D^k), R^k <- D^k - c^k; the others
keep R^k and send nothing. D^G = R^G + sum_k p^k c^k, R^G <- D^G - C(D^G), w <- w + C(D^G). Runs go,
in fractions, over every participation of every round. Full gradients; the laws of s^k are the same
in all rounds.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Self

import numpy as np

from fedtheory.errors import InvalidInput
from fedtheory.messages import compressors
from fedtheory.participation.coefficients import coefficients
from fedtheory.participation.moments import Moments, moments
from fedtheory.rational import fraction, integer, objects, text, vector
from fedtheory.theorems.efl.cases import given
from fedtheory.theorems.efl.compressed_world import (
    ASKS,
    CompressedRun,
    check_full_gradients,
    factor_of,
    method_of,
)
from fedtheory.theorems.efl.draws import few_shares, half, rows
from fedtheory.theorems.efl.quantities.measured_run import client_minima
from fedtheory.theorems.efl.quantities.run import given_curvatures
from fedtheory.theorems.efl.world import ONE_LAW, clients_of
from fedtheory.theory.judge.case import Case
from fedtheory.theory.rounds.irregular_run import laws_of

MOST = 1296  # paths of participation


def gamma_with_participation(E: int, L: Any, mu: Any, delta: Any, m: Moments, pi: Any) -> Any:
    """gamma = max{8E/(pi delta), 32E(1 + theta)L/(mu S)}, pi the least probability of sending."""
    return max(8 * E / (pi * delta), 32 * E * (1 + m.theta) * L / (mu * m.sum_ps))


@dataclass
class PartialView(CompressedRun):
    """A run of T rounds over P paths of participation.

    Attributes
    ----------
    chance : (P,) probabilities of the paths
    moments : of (p_tau, s_tau)
    pi : (N,) P(client k sends)
    delta, down : the factor of the clients' compressor, and of the server's; None where nothing is compressed
    weights, E, gamma, L, mu, G_sq, D, star : as in `CompressedView`
    w, R, R_G : (T + 1, P, d), (T + 1, P, N, d), (T + 1, P, d)
    noise : absolute error of squared distances, of what is known in floats
    """

    kind, about = "compressed-partial", "about convergence with compression and irregular clients"
    asks = (
        *ASKS[:-1], f"{ONE_LAW}, few independent clients: all that may happen is gone through",
        "full gradients, LocalSGD with the theorem's steps",
    )
    example = "--problem diabetes --clients 3 --inactive 0.3 --local-steps 2"
    attained = (
        ("from a flat direction", {
            "scheme": "C-corrected", "weights": ["1"], "h": [["1", "4000000"]], "c": [["0", "0"]],
            "law": [["1/2", "1/2"]], "q": "1/2", "down": False, "T": 2, "w0": ["1", "0"],
        }),
        # each entry waits up to 16 rounds and then jumps beyond the optimum: only rho bounds this
        ("one entry a round, and nothing but the residuals", {
            "scheme": "A", "weights": ["1"], "h": [["17/8"] * 16 + ["1"]], "c": [["0"] * 17],
            "law": [["0", "1"]], "q": "1/17", "down": False, "T": 16, "w0": ["1"] * 16 + ["0"],
        }),
    )  # fmt: skip

    weights: np.ndarray
    chance: np.ndarray
    moments: Moments
    pi: np.ndarray
    E: int
    gamma: Any
    L: Any
    mu: Any
    G_sq: Any
    delta: Any
    down: Any
    D: np.ndarray
    star: np.ndarray
    w: np.ndarray
    R: np.ndarray
    R_G: np.ndarray
    noise: Any = 0

    def mean(self, x: np.ndarray) -> np.ndarray:
        """E ||x||^2, paths along axis 1 and coordinates along the last: (T + 1, ...)."""
        squares = np.moveaxis((x * x).sum(axis=-1), 1, -1)
        return (squares * self.chance).sum(axis=-1)

    @property
    def S(self) -> Any:
        return self.moments.sum_ps

    @cached_property
    def eta(self) -> np.ndarray:
        """16E/(mu (y + E) S), t = 0..T."""
        return 16 * self.E / (self.mu * (self.y + self.E) * self.S)

    # --- the constants ----------------------------------------------------------------------------
    @property
    def reach_sq(self) -> Any:
        """(theta E G)^2."""
        return self.moments.theta**2 * self.E**2 * self.G_sq

    @property
    def client_factor(self) -> Any:
        """16/(5 delta): ||R^k_t|| <= 16/(5 delta) theta E G eta_t; 0 for uncompressed clients."""
        return 0 if self.delta is None else 16 / (5 * self.delta)

    @property
    def server_factor(self) -> Any:
        """(4/delta - 1)(16/(5 delta) + 1), first delta the server's; 0 without its compression."""
        return 0 if self.down is None else (4 / self.down - 1) * (self.client_factor + 1)

    @property
    def rho_sq(self) -> Any:
        """E||w_t - v_t||^2 <= rho^2 eta_t^2."""
        return (self.client_factor + self.server_factor) ** 2 * self.reach_sq

    @property
    def J(self) -> Any:
        """32E sum E[p s] D_k/(mu S)."""
        return 32 * self.E * (self.moments.ps * self.D).sum() / (self.mu * self.S)

    @property
    def r(self) -> int:
        """1 where E[p s]/p^k is not the same for all k."""
        return 0 if self.moments.ratio_equal else 1

    @property
    def B(self) -> Any:
        """2(2+theta)L sum E[p s] D_k + G^2 E(E-1) bracket + (1 + mu/(2(1+theta)L)) S ((E-1)(2E-1)
        G^2/3 + 2 rho^2) + 2 S rho^2."""
        m, E = self.moments, self.E
        gap = 2 * (2 + m.theta) * self.L * (m.ps * self.D).sum()
        spread = self.G_sq * E * (E - 1) * (m.sum_ps + m.theta * m.overlap)
        drift = (E - 1) * (2 * E - 1) * self.G_sq / 3 + 2 * self.rho_sq
        return gap + spread + (1 + self.mu / (2 * (1 + m.theta) * self.L)) * self.S * drift + 2 * self.S * self.rho_sq

    @property
    def B_sharp(self) -> Any:
        """B without rho: (9 + 5 theta)/2 L sum E[p s] D_k, and what stands with G^2."""
        m, E = self.moments, self.E
        gap = (9 + 5 * m.theta) * self.L * (m.ps * self.D).sum() / 2
        drift = (1 + self.mu / ((1 + m.theta) * self.L)) * self.S * ((E - 1) * (2 * E - 1)) / 6
        return gap + self.G_sq * (E * (E - 1) * (m.sum_ps + m.theta * m.overlap) / 2 + drift)

    @property
    def off(self) -> Any:
        """(11/2) L S rho^2: what the residuals add in a round, over eta_t^3."""
        return 11 * self.L * self.S * self.rho_sq / 2

    def printed_constants(self) -> dict[str, Any]:
        names = ("E", "gamma", "L", "mu", "G_sq", "delta", "S", "r")
        return {**{n: text(getattr(self, n)) for n in names}, "rounds": self.T, "pi": [text(x) for x in self.pi]}

    @classmethod
    def from_data(cls, data: dict[str, Any]) -> Self:
        """Make an instance of weights, h, c, scheme, law (N rows over s = 0..E), q of ST, down, w0, T."""
        (weights, h, c), w0 = clients_of(data), vector(data["w0"], "w0")
        if w0.shape != h.shape[1:] or not isinstance(data["down"], bool):
            raise InvalidInput("h and w0 do not fit together, or down is not true or false")
        (law,), T = laws_of([data["law"]], len(weights)), integer(data["T"], "T", 1, 20)
        E, st, p = law.shape[1] - 1, compressors.ST(fraction(data["q"], "q")), weights[:, None]
        m, cases = moments(data["scheme"], law, E, weights, exact=True), cases_of(data["scheme"], law, weights)
        delta, L, mu = st.contraction_exact(h.shape[1]), h.max(), h.min()
        gamma = gamma_with_participation(E, L, mu, delta, m, min(cases.pi))
        etas, down = steps_with_participation(E, mu, gamma, m.sum_ps, T), st if data["down"] else None
        mass, G_sq, *paths = play(lambda y: h * (y - c), cases, st, down, weights, w0, etas, E)
        star = (p * h * c).sum(axis=0) / (p * h).sum(axis=0)
        gaps = objects([(row * (star - at) ** 2).sum() / 2 for row, at in zip(h, c, strict=True)])
        down_delta = delta if data["down"] else None
        return cls(weights, mass, m, cases.pi, E, gamma, L, mu, G_sq, delta, down_delta, gaps, star, *paths)

    @classmethod
    def draw(cls, rng: Any, number: int | None = None) -> tuple[str, dict[str, Any]]:
        """Draw a scheme, laws and one or two rounds."""
        scheme = str(rng.choice(["A", "B", "C", "C-corrected"]))
        n, d, E = (int(v) for v in rng.integers(1, 3, 3))
        law = []
        for _ in range(n):
            parts = [int(v) for v in rng.integers(0, 4, E)] + [int(rng.integers(1, 4))]
            law.append([Fraction(v, sum(parts)) for v in parts])
        c = rows(rng, n, d, half)
        data = {
            "scheme": scheme, "weights": few_shares(rng, n),
            "h": rows(rng, n, d, lambda g: Fraction(2) ** int(g.integers(-1, 2))), "c": c, "law": law,
            "q": Fraction(int(rng.integers(1, d + 1)), d), "down": bool(rng.random() < 0.7),
            "w0": c[0] if rng.random() < 0.4 else [half(rng) for _ in range(d)],
            "T": 1 if n * E == 4 else 2,
        }
        return f"{scheme} N={n} d={d} E={E}", data

    @classmethod
    def on_problem(cls, statement: str, case: Case) -> PartialView:
        """Go through every participation of a few rounds on the user's problem, in floats.

        There are as many rounds as there are paths for, at most 20.

        Raises
        ------
        InvalidInput, MissingCapability
            As `CompressedView.on_problem`; laws that change, clients that depend on each other, or
            too many cases in one round.
        NotCertified
            An optimum that cannot be certified.
        """
        algorithm, problem = method_of(case), case.problem
        check_full_gradients(case)
        law = given.law_in_fractions(case, "A").astype(float)  # of independent clients, whatever the scheme
        E, weights = law.shape[1] - 1, problem.weights
        delta, down = (factor_of(c, problem.dim) for c in (algorithm.compressor, algorithm.down_compressor))
        L, mu = given_curvatures(case.given, float(problem.beta_k.max()), float(problem.mu_k.min()))
        m, cases = moments(algorithm.scheme, law, E, weights), cases_of(algorithm.scheme, law, weights)
        least = min(1.0 if d is None else d for d in (delta, down))
        gamma = gamma_with_participation(E, L, mu, least, m, float(cases.pi.min()))
        T = min(case.rounds or 20, 20, max(1, int(np.log(MOST) / np.log(len(cases.steps)))) if len(cases.steps) > 1 else 20)
        optimum = problem.optimum()
        etas, up = steps_with_participation(E, mu, gamma, m.sum_ps, T), algorithm.compressor
        gradient = lambda y: np.asarray(problem.gradient_each(y))  # noqa: E731
        x0 = np.asarray(case.x0, dtype=float)
        mass, G_sq, *paths = play(gradient, cases, up, algorithm.down_compressor, weights, x0, etas, E)
        D = np.maximum(problem.client_losses(optimum.x) - client_minima(problem), 0)
        off = given.distance_off(problem, optimum)
        size = max(float(abs(a).max()) for a in (*paths, optimum.x))
        points = 1e-13 * size * (T + 10)
        noise = problem.dim * (points + off) * (points + off + 2 * size)
        w, R, R_G = paths
        known = (cases.pi, E, gamma, L, mu, float(G_sq), delta, down, D, optimum.x)
        return cls(weights, mass, m, *known, w, R, R_G, noise)


@dataclass(frozen=True)
class Cases:
    """The cases of a round: steps (C, N), probabilities (C,), p_tau^k/p^k and senders (C, N)."""

    steps: np.ndarray
    chance: np.ndarray
    factor: np.ndarray
    sends: np.ndarray

    @property
    def pi(self) -> np.ndarray:
        """P(client k sends) (N,). Raises `InvalidInput` where one of them is 0."""
        found = (self.sends * self.chance[:, None]).sum(axis=0)
        if min(found) <= 0:
            raise InvalidInput(f"client {int(np.argmin(found))} never sends anything: the theorem needs P(it sends) > 0")
        return found


def cases_of(scheme: Any, law: np.ndarray, weights: np.ndarray) -> Cases:
    """Every s of independent clients that has a probability, from their law (N, E + 1).

    Raises
    ------
    InvalidInput
        More than `MOST` of them.
    """
    rows = [[(s, chance) for s, chance in enumerate(row) if chance > 0] for row in law]
    if (count := math.prod(len(row) for row in rows)) > MOST:
        raise InvalidInput(f"{count} cases in one round: at most {MOST} are gone through; take fewer clients or local steps")
    found = list(itertools.product(*rows))
    steps = np.array([[s for s, _ in case] for case in found])
    chance = np.array([math.prod(c for _, c in case) for case in found], dtype=law.dtype)
    factor = coefficients(scheme, steps, law.shape[1] - 1, weights, 1 - law[:, 0]) / weights
    return Cases(steps, chance, factor, (steps > 0) & (factor > 0))


def play(
    gradient: Callable[[np.ndarray], np.ndarray], cases: Cases, up: Any, down: Any,
    weights: np.ndarray, w0: np.ndarray, etas: list[Any], E: int,
) -> tuple[np.ndarray, Any, np.ndarray, np.ndarray, np.ndarray]:
    """Every path of participation: the paths' probabilities, the largest E||g||^2, and w, R, R_G of all rounds.

    Parameters
    ----------
    gradient : callable(y) -> grad f_k(y_k), (P, N, d) -> (P, N, d)
    up, down : the compressors, None for one that sends uncompressed

    Raises
    ------
    InvalidInput
        Too many paths.
    """
    if len(cases.steps) ** len(etas) > MOST:
        raise InvalidInput(f"{len(cases.steps)}^{len(etas)} paths: at most {MOST} are gone through; take fewer rounds")
    zero = 0 * w0
    shape = (len(weights), len(w0))
    w, R, R_G, mass, most = w0[None], np.stack([zero] * shape[0])[None], zero[None], cases.chance[:1] * 0 + 1, 0 * w0[0]
    kept = [(mass, w, R, R_G)]
    for eta in etas:
        path = [w[:, None] + 0 * R]
        for _ in range(E):
            g = gradient(path[-1])
            most = max(most, *((g * g).sum(axis=-1) * mass[:, None]).sum(axis=0))
            path.append(path[-1] - eta * g)
        ends, who = np.stack(path), np.arange(shape[0])  # every path meets every case: the next round's paths are (path, case)
        x = np.stack([ends[s, :, who].transpose(1, 0, 2) for s in cases.steps], axis=1) - w[:, None, None]
        D = R[:, None] + cases.factor[:, :, None] * x
        sent = np.where(cases.sends[:, :, None], D if up is None else up.compress(D), 0 * D)
        R = np.where(cases.sends[:, :, None], D - sent, R[:, None] + 0 * D).reshape(-1, *shape)
        to_all = (R_G[:, None] + (weights[:, None] * sent).sum(axis=-2)).reshape(-1, shape[1])
        move = to_all if down is None else down.compress(to_all)
        R_G, w = to_all - move, np.repeat(w, len(cases.steps), axis=0) + move
        mass = (mass[:, None] * cases.chance).ravel()
        kept.append((mass, w, R, R_G))
    paths = [np.stack([np.repeat(state[i], len(mass) // len(state[0]), axis=0) for state in kept]) for i in (1, 2, 3)]
    return mass, most, paths[0], paths[1], paths[2]


def steps_with_participation(E: int, mu: Any, gamma: Any, S: Any, rounds: int) -> list[Any]:
    """eta_t = 16E/(mu ((t + 1)E + gamma) S), t = 0..rounds - 1."""
    return [16 * E / (mu * ((t + 1) * E + gamma) * S) for t in range(rounds)]
