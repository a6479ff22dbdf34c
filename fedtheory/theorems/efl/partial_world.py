"""The world of EFL's convergence with compression and irregular clients.

Runs are gone through over every participation of every round, with full gradients and one law of
s^k for all rounds.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np

from fedtheory.messages import compressors
from fedtheory.participation.coefficients import SCHEMES
from fedtheory.participation.moments import Moments, moments
from fedtheory.theorems.efl import world as efl
from fedtheory.theorems.efl.cases import given
from fedtheory.theorems.efl.compressed_paths import MOST, cases_of, play
from fedtheory.theorems.efl.compressed_world import (
    ASKS,
    WITH_ST,
    CompressedRun,
    CompressedView,
    check_full_gradients,
    method_of,
    of_a_case,
    of_quadratics,
    steps_of,
)
from fedtheory.theory import Case, Letters, Sides, derived, number, whole, word
from fedtheory.theory.draws import few_shares, half, rows
from fedtheory.theory.judge.symbolic import minimum


def gamma_with_participation(E: int, L: Any, mu: Any, delta: Any, m: Moments, pi: Any) -> Any:
    """gamma = max{8E/(pi delta), 32E(1 + theta)L/(mu S)}, pi the least probability of sending."""
    return max(8 * E / (pi * delta), 32 * E * (1 + m.theta) * L / (mu * m.sum_ps))


@dataclass
class PartialView(CompressedRun):
    """A run over P paths of participation."""

    kind, about = "compressed-partial", "about convergence with compression and irregular clients"
    asks = (
        *ASKS[:-1], f"{efl.ONE_LAW}, few independent clients: all that may happen is gone through",
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

    shows: ClassVar = {
        **{name: name for name in ("E", "gamma", "L", "mu", "G_sq", "delta", "S", "r")},
        "rounds": "T", "pi": "pi",
    }  # fmt: skip
    reads: ClassVar = {
        **WITH_ST, "scheme": word(*SCHEMES), "w0": number("d"), "T": whole(1, 20),
        "law": number("N s", least=0, total=1), "down": CompressedView.reads["down"],
    }  # fmt: skip

    moments: Moments  # of (p_tau, s_tau)
    pi: np.ndarray  # (N,) P(client k sends)
    noise: Any = 0  # absolute error of squared distances, of what is known in floats

    S = derived(lambda q: q.moments.sum_ps, letter="S")
    letters: ClassVar = {
        **CompressedRun.letters, "pi": r"\pi_k", "r": "r_t", "moments": Letters(
            {"theta": "", "overlap": r"\mathbb E[(\sum p-2)_+\sum ps]", "sum_ps": "S"}, ("overlap",)
        ),
    }  # fmt: skip

    # --- the constants ----------------------------------------------------------------------------
    reach_sq = derived(lambda q: q.moments.theta**2 * q.E**2 * q.G_sq, "(theta E G)^2")
    client_factor = derived(
        lambda q: 0 if q.delta is None else 16 / (5 * q.delta),
        "16/(5 delta): ||R^k_t|| <= 16/(5 delta) theta E G eta_t; 0 for uncompressed clients",
    )
    server_factor = derived(
        lambda q: 0 if q.down is None else (4 / q.down - 1) * (q.client_factor + 1),
        "(4/delta - 1)(16/(5 delta) + 1), first delta the server's; 0 without its compression",
    )
    between = derived(lambda q: q.client_factor + q.server_factor)
    J = derived(lambda q: 32 * q.E * q.gaps / (q.mu * q.S), "32E sum E[p s] D_k/(mu S)")
    r = derived(
        lambda q: 0 if q.moments.ratio_equal else 1, "1 where E[p s]/p^k is not the same for all k",
    )
    gaps = derived(
        lambda q: (q.moments.ps * q.D).sum(), "sum_k E[p s] D_k",
        r"\textstyle\sum_k\mathbb E[ps]D_k",
    )
    squares = derived(lambda q: (q.E - 1) * (2 * q.E - 1), "six times the mean of i^2, i < E")
    bracket = derived(
        lambda q: q.E * (q.E - 1) * (q.S + q.moments.theta * q.moments.overlap),
        "E (E - 1) E[sum p s + theta (sum p - 2)_+ sum p s]",
    )

    def more(self, times: int) -> Any:
        """1 + mu/(times (1 + theta) L)."""
        return 1 + self.mu / (times * (1 + self.moments.theta) * self.L)

    B = derived(
        lambda q: 2 * (2 + q.moments.theta) * q.L * q.gaps + q.G_sq * q.bracket
        + q.more(2) * q.S * (q.squares * q.G_sq / 3 + 2 * q.rho_sq) + 2 * q.S * q.rho_sq,
        letter="B",
    )
    B_sharp = derived(
        lambda q: (9 + 5 * q.moments.theta) * q.L * q.gaps / 2
        + q.G_sq * (q.bracket / 2 + q.more(1) * q.S * q.squares / 6),
        "B without rho", "B^+",
    )

    off = derived(
        lambda q: 11 * q.L * q.S * q.rho_sq / 2,
        "(11/2) L S rho^2: what the residuals add in a round, over eta_t^3",
    )

    bias = derived(
        lambda q: q.times[1:] * q.r * q.J / q.y[1:], "H_t J/(t E + gamma), t = 1..T",
        r"\frac{H_tJ}{tE+\gamma}",
    )

    @property
    def residuals(self) -> np.ndarray:
        """min{44L/(3 mu) rho^2, t eta_0 (11/2) L S rho^2} eta_{t-1}^2, t = 1..T."""
        t, before = self.times[1:], self.eta[:-1]
        for_ever = 44 * self.L * self.rho_sq / (3 * self.mu) + 0 * t
        return minimum(for_ever, t * self.off * self.eta[0]) * before**2

    def one_round(self, *new: Any) -> Sides:
        """a_{t+1} <= (1 - eta mu S/2) a_t + sum of terms + r 2 eta sum E[p s] D_k, a_t = E||v_t - w*||^2."""
        eta = self.eta[:-1]
        kept = (1 - eta * self.mu * self.S / 2) * self.virtual_sq[:-1]
        return self.of_virtual(kept, *new, self.r * 2 * eta * self.gaps)

    @classmethod
    def made(
        cls, weights: Any, h: Any, c: Any, q: Any, scheme: Any, w0: Any, T: int, law: Any, down: bool
    ) -> Self:
        """Make the run with ST over every participation."""
        E, st, known = law.shape[1] - 1, compressors.ST(q), of_quadratics(weights, h, c, q, down)
        m, cases = moments(scheme, law, E, weights, exact=True), cases_of(scheme, law, weights)
        mu = known["mu"]
        gamma = gamma_with_participation(E, known["L"], mu, known["delta"], m, min(cases.pi))
        etas = steps_of(E, mu, gamma, T, m.sum_ps)
        found = play(lambda y: h * (y - c), cases, st, st if down else None, weights, w0, etas, E)
        return cls(**known, **found.run, E=E, gamma=gamma, moments=m, pi=cases.pi)

    @classmethod
    def draw(cls, rng: Any, number: int | None = None) -> tuple[str, dict[str, Any]]:
        """Draw a scheme, laws and one or two rounds."""
        scheme = str(rng.choice(SCHEMES))
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
        """
        algorithm, problem = method_of(case), case.problem
        check_full_gradients(case)
        law = given.law_in_fractions(case, "A").astype(float)  # of independent clients, whatever the scheme
        E, weights = law.shape[1] - 1, problem.weights
        known, least, optimum = of_a_case(case, algorithm)
        m, cases = moments(algorithm.scheme, law, E, weights), cases_of(algorithm.scheme, law, weights)
        mu, pi = known["mu"], float(cases.pi.min())
        gamma = gamma_with_participation(E, known["L"], mu, least, m, pi)
        T = min(case.rounds or 20, 20, max(1, int(np.log(MOST) / np.log(len(cases.steps)))) if len(cases.steps) > 1 else 20)
        found = play(
            lambda y: np.asarray(problem.gradient_each(y)), cases, algorithm.compressor,
            algorithm.down_compressor, weights, np.asarray(case.x0, dtype=float),
            steps_of(E, mu, gamma, T, m.sum_ps), E,
        )  # fmt: skip
        run = found.run | {"G_sq": float(found.G_sq)}
        made = cls(**known, **run, E=E, gamma=gamma, moments=m, pi=cases.pi)
        made.noise = made.rounding(problem, optimum)[1]
        return made
