"""The worlds of EFL's convergence with compression, with the steps of its theorems.

The consistent form of Algorithm 1: D^k = R^k + (p_tau^k/p^k) x^k of those that make steps, c^k =
C(D^k), R^k <- D^k - c^k; the others keep R^k and send nothing. D^G = R^G + sum_k p^k c^k, R^G <- D^G
- C(D^G), w <- w + C(D^G). Runs are made in fractions, of complete clients over all signs of the
noise, of irregular ones over every participation of every round, with full gradients and one law
of s^k for all rounds. A run can only end at w* if the moves that it makes with the model held at w*
cancel: while the steps fall slowly the residuals, divided by the step, follow the recursion of a
constant step at w*. `FrozenView` is that recursion, over one period.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, NamedTuple, Self, cast

import numpy as np

from fedtheory.algorithms.efl import EFL
from fedtheory.errors import InvalidInput
from fedtheory.local import LocalSGD
from fedtheory.local.local_sgd import TheoremStep
from fedtheory.messages import compressors
from fedtheory.messages.compressors import Compressor
from fedtheory.optimum.certify import Optimum
from fedtheory.participation.coefficients import SCHEMES, coefficients
from fedtheory.participation.moments import Moments, moments
from fedtheory.simulation.simulate import simulate
from fedtheory.steps import Loop
from fedtheory.theorems.efl import world as efl
from fedtheory.theorems.efl.cases import given
from fedtheory.theorems.efl.cases.theorem_1 import ROUNDS, assumption_failure, law_of
from fedtheory.theorems.efl.feedback_world import LOOPS
from fedtheory.theorems.efl.quantities.measured_run import client_minima
from fedtheory.theorems.efl.world import clients_that_end
from fedtheory.theory import Case, Fact, Letters, Sides, derived, flag, le, number, whole, word
from fedtheory.theory.draws import few_shares, half, part, rows
from fedtheory.theory.fields import reads_of
from fedtheory.theory.judge.symbolic import minimum
from fedtheory.theory.rounds.oracles import repeated

OFF = r"\mathbb E\|%s-\omega^*\|^2"
LOCAL = r"\textstyle\sum_kp^k\mathbb E"
SHORTER = ("st", "top-k", "scaled-sign")  # deterministic, and ||C(x)|| <= ||x||
MOST, MOST_SIGNS = 1296, 4096  # paths of participation, and of the noise
VARIANTS = ("consistent", "literal", "text")
LONGEST = 300  # rounds until a state comes back
CLEAR = Fact("no choice of ST is a tie over the period", lambda q: q.gap > 0)
THREE: dict[str, Any] = {"weights": ["1/3", "1/3", "1/3"], "h": [["1", "1"]] * 3, "q": "1/2"}  # w* = 0, gradients -c_k
ASKS = (
    efl.CONVEX, "EFL with residuals on both sides, variant consistent, lambda = 0",
    "ST by the exact rule, top-k or the scaled sign",
    "all clients complete, full gradients, LocalSGD with the theorem's steps",
)  # fmt: skip
WITH_ST = {**reads_of(efl.Clients), "q": number(what="of ST")}


def gap_of(message: np.ndarray, k: int) -> Any:
    """A message's (d,) k-th largest magnitude less the next, which is 0 where there is none."""
    found = sorted((abs(x) for x in message), reverse=True)
    return found[k - 1] - (found[k] if k < len(found) else 0)


@dataclass
class FrozenView(efl.EFLWorld):
    """The residuals while the model stays at w*: E = 1, step 1, all active, ST both ways.

    ST sends exactly k entries.

    Attributes
    ----------
    gap : the least difference, over the period, between a magnitude that is sent and the largest that is not
    """

    kind, about, asks = "frozen", "about convergence with compression", ASKS
    accepts, method, example = given.options("L", "mu"), efl.BOTH_WAYS, efl.ST_BOTH_WAYS
    count, share = 24, 0.1
    attained = (
        ("the formulas as printed, three clients", {
            **THREE, "variant": "literal", "c": [["-14", "-5"], ["-8", "-25"], ["22", "30"]],
        }),
        ("the text of 3.1, three clients", {
            **THREE, "variant": "text", "c": [["-3", "11"], ["8", "-9"], ["-5", "-2"]],
        }),
    )  # fmt: skip

    reads: ClassVar = {**WITH_ST, "variant": word(*VARIANTS)}

    variant: str  # 'consistent', 'literal' (the formulas as printed) or 'text' (section 3.1)
    gradients: np.ndarray  # (N, d) at w*, of mean 0
    moves: np.ndarray  # (P, d) of the server's model, over one period of the residuals
    gap: Any

    def __post_init__(self) -> None:
        self.facts = frozenset({LOOPS[self.variant]})

    @classmethod
    def made(cls, weights: Any, h: Any, c: Any, q: Any, variant: str) -> Self:
        """Take the residuals from 0 to the end of the first period."""
        st, star = compressors.ST(q), efl.centre(weights, h, c)
        k, g = st.sizes(h.shape[1])[0], h * (star - c)
        method: Any = EFL(compressor=st, down_compressor=st, variant=variant)  # type: ignore[arg-type]
        clients = (star - g)[None], weights, np.ones((1, len(h)), dtype=int), 1
        state = method.init(star[None], len(h))
        state = state._replace(server_residual=0 * state.x, residuals=0 * g[None])
        seen: dict[Any, int] = {}
        moves: list[np.ndarray] = []
        gaps: list[Any] = []
        while (held := (*state.residuals.ravel(), *state.server_residual[0])) not in seen:
            if len(moves) > LONGEST:
                raise InvalidInput(
                    f"the residuals do not come back within {LONGEST} rounds: take ST with one entry"
                )
            seen[held] = len(moves)
            new = method.round(state, clients_that_end(*clients))
            moves.append(new.x[0] - star)
            left = new.server_residual[0] if variant == "consistent" else 0  # else all is added
            messages = (*(state.residuals[0] - g), moves[-1] + left)
            gaps.append(min(gap_of(m, k) for m in messages))
            state = new._replace(x=state.x)
        first = seen[held]
        return cls(variant, g, np.stack(moves[first:]), min(gaps[first:]))

    @classmethod
    def draw(cls, rng: Any, number: int | None = None) -> tuple[str, dict[str, Any]]:
        """Draw a variant and clients of curvature 1."""
        variant, n, d = str(rng.choice(VARIANTS)), int(rng.integers(1, 4)), int(rng.integers(1, 3))
        data = {
            "variant": variant, "weights": [Fraction(1, n)] * n, "h": [[Fraction(1)] * d] * n,
            "c": rows(rng, n, d, lambda g: Fraction(int(g.integers(-7, 8)))), "q": Fraction(1, d),
        }  # fmt: skip
        return f"{variant} N={n} d={d}", data

    @classmethod
    def on_problem(cls, statement: str, case: Case) -> Any:
        """Raise `InvalidInput`, always: it is not made of a problem of a user's."""
        raise InvalidInput(
            "the residuals' period at w* is looked at in fractions, on instances of its own: "
            "`fedtheory replay` shows one"
        )


def factor_of(compressor: Compressor | None, dim: int) -> float | None:
    """delta of a compressor that the theorem is about; None where nothing is compressed. Raises
    `InvalidInput` for others."""
    if compressor is None:
        return None
    compressor.check(dim)
    delta = compressor.contraction_exact(dim) if compressor.name in SHORTER else None
    if delta is None or compressor.float_bits != 64:
        raise InvalidInput(
            f"{compressor}: the theorem needs ||C(x) - x||^2 <= (1 - delta)||x||^2 and ||C(x)|| <= "
            "||x|| surely; use ST by the exact rule, TopK or ScaledSign, with float_bits=64"
        )
    return float(delta)


def method_of(case: Case) -> EFL:
    """The algorithm, if the theorem is about it. Raises `InvalidInput` with what does not fit."""
    algorithm = case.algorithm
    reason = assumption_failure(case.problem, EFL(lam=getattr(algorithm, "lam", 0.0)), case.local_solver)
    if not isinstance(algorithm, EFL):
        reason = f"the statement is about EFL, not {type(algorithm).__name__}"
    elif algorithm.variant != "consistent" or not algorithm.scaled_before:
        reason = f"variant = {algorithm.variant!r}: the theorem is about 'consistent', with the coefficient before the compressor"
    elif not (algorithm.client_feedback and algorithm.server_feedback):
        reason = "residuals are not kept: use client_feedback=True and server_feedback=True"
    if reason is not None:
        raise InvalidInput(reason)
    return algorithm


def steps_when_complete(case: Case) -> int:
    """E, where all clients are complete and gradients are full. Raises `InvalidInput` where they are not."""
    law = law_of(case)
    for t in range(1, (case.rounds or ROUNDS) + 1):
        short = np.flatnonzero(law.law(t)[:, -1] < 1)
        if len(short):
            k = int(short[0])
            raise InvalidInput(f"client {k} may be inactive or incomplete in round {t}: the theorem is about complete clients")
    check_full_gradients(case)
    return law.max_steps


def check_full_gradients(case: Case) -> None:
    """Nothing where local work is plain SGD with full gradients. Raises `InvalidInput` for mini-batches and noise."""
    solver = case.local_solver
    if isinstance(solver, LocalSGD) and (solver.batch_size is not None or solver.noise_std):
        raise InvalidInput("mini-batches or noise: a run is judged with full gradients here; leave them out")


def local_work(case: Case, models: np.ndarray, etas: list[float], E: int) -> tuple[np.ndarray, float]:
    """The clients' models within each round (T, E + 1, 1, N, d), and the largest squared gradient that they meet."""
    rounds, loop = list(zip(models, etas, strict=True)), Loop("local work", ([], 0.0))
    out, most = loop.state
    for t in loop.upto(len(rounds)):
        w, eta = rounds[t - 1]
        path = [np.broadcast_to(w, (case.problem.num_clients, len(w)))]
        for _ in range(E):
            g = np.asarray(case.problem.gradient_each(path[-1]))
            most = max(most, float((g * g).sum(axis=-1).max()))
            path.append(path[-1] - eta * g)
        out.append(np.stack(path)[:, None])
        loop.state = out, most
    return np.stack(out), most


def gamma_under_compression(E: int, L: Any, mu: Any, delta: Any) -> Any:
    """gamma = max{4E/delta, 64L/mu}: Theorem 1's for all clients complete, its first entry divided by delta."""
    return max(4 * E / delta, 64 * L / mu)


def gamma_with_participation(E: int, L: Any, mu: Any, delta: Any, m: Moments, pi: Any) -> Any:
    """gamma = max{8E/(pi delta), 32E(1 + theta)L/(mu S)}, pi the least probability of sending."""
    return max(8 * E / (pi * delta), 32 * E * (1 + m.theta) * L / (mu * m.sum_ps))


def steps_of(E: int, mu: Any, gamma: Any, rounds: int, S: Any = None) -> list[Any]:
    """eta_t = 16E/(mu ((t + 1) E + gamma) S), t = 0..rounds - 1; S = E where all are complete."""
    times = 16 if S is None else 16 * E / S
    return [times / (mu * ((t + 1) * E + gamma)) for t in range(rounds)]


@dataclass
class CompressedRun(efl.EFLWorld):
    """A run of T rounds over P paths, with the virtual iterate that its bounds are about.

    Attributes
    ----------
    delta, down : the factor of the clients' compressor, and of the server's; None where nothing is compressed
    w, R, R_G : models (T + 1, P, d), residuals of the clients (T + 1, P, N, d) and of the server (T + 1, P, d)
    """

    accepts, method = given.options("L", "mu"), efl.BOTH_WAYS
    count, share, horizon, noise = 24, 0.1, "t", cast(Any, 0)
    letters: ClassVar = {
        "E": "", "gamma": "", "L": "", "mu": "", "delta": "", "down": lambda q: q.delta,
        "G_sq": "G^2", "weights": "p^k", "star": r"\omega^*", "R": "R^k_<t>", "R_G": "R^G_<t>",
        "local": r"\omega^k_<i>", "mean": r"\mathbb E\|{}\|^2", "among": LOCAL + r"\|{}\|^2",
    }  # fmt: skip

    weights: np.ndarray  # (N,) p^k
    E: int  # E, gamma, L, mu, G_sq: of Theorem 1; G^2 is the largest E||g||^2 of this run
    gamma: Any
    L: Any
    mu: Any
    G_sq: Any
    delta: Any
    down: Any
    D: np.ndarray  # D, star: (N,), and w* (d,)
    star: np.ndarray
    w: np.ndarray
    R: np.ndarray
    R_G: np.ndarray
    chance: np.ndarray  # (P,) probabilities of the paths

    T = derived(lambda q: len(q.w) - 1)
    horizons = derived(
        lambda q: np.arange(1, q.T + 1), "t = 1..T, of what is compared round by round"
    )
    times = derived(
        lambda q: np.arange(q.T + 1) + 0 * q.mu, "t = 0..T, in the arithmetic of the view", "<t>"
    )
    y = derived(lambda q: q.times * q.E + q.gamma, "t E + gamma, t = 0..T", r"(<t>E+\gamma)")
    S = derived(lambda q: q.E, "E[sum_k p^k s^k]")
    eta = derived(
        lambda q: 16 * q.E / (q.mu * (q.y + q.E) * q.S),
        "eta_t, t = 0..T (the last one is not used by the run)", r"\eta_<t>",
    )
    rho_sq = derived(
        lambda q: q.between**2 * q.reach_sq, "E||w_t - v_t||^2 <= rho^2 eta_t^2", r"\rho^2"
    )

    def average(self, x: np.ndarray) -> np.ndarray:
        """sum_k p^k x_k over the last axis but one."""
        return (self.weights[:, None] * x).sum(axis=-2)

    v = derived(
        lambda q: q.w + q.R_G + q.average(q.R), "v_t = w_t + R^G_t + sum_k p^k R^k_t (T + 1, P, d)"
    )

    def mean(self, x: np.ndarray, axis: int = 1) -> np.ndarray:
        """E ||x||^2, paths along the axis and coordinates along the last one."""
        return (np.moveaxis((x * x).sum(axis=-1), axis, -1) * self.chance).sum(axis=-1)

    distance_sq = derived(
        lambda q: q.mean(q.w - q.star), "E||w_t - w*||^2 (T + 1,)", OFF % r"\omega_<t>"
    )
    virtual_sq = derived(lambda q: q.mean(q.v - q.star), "E||v_t - w*||^2 (T + 1,)", OFF % "v_<t>")
    apart_sq = derived(
        lambda q: q.mean(q.w - q.v), "E||w_t - v_t||^2 (T + 1,)", r"\mathbb E\|\omega_<t>-v_<t>\|^2"
    )

    def falling(self, B: Any) -> list[np.ndarray]:
        """gamma^2 ||w_0 - w*||^2/y^2 and t (16E/mu)^2 B/(S y)^2, t = 1..T."""
        y, noise = self.y[1:], self.times[1:] * (16 * self.E / self.mu) ** 2 * B / self.S**2
        return [self.gamma**2 * self.distance_sq[0] / y**2, noise / y**2]

    def of_virtual(self, *terms: np.ndarray) -> Sides:
        """Sides of E||v_t - w*||^2 <= sum of terms, t = 1..T."""
        return le(self.virtual_sq[1:], *terms, noise=self.noise)

    def of_model(self, *terms: np.ndarray) -> Sides:
        """Sides of E||w_t - w*||^2 <= 2 sum of terms + 2 rho^2 eta_t^2, t = 1..T."""
        both = (*terms, self.rho_sq * self.eta[1:] ** 2)
        return le(self.distance_sq[1:], *(2 * term for term in both), noise=self.noise)

    def rounding(self, optimum: Optimum, off: float, *arrays: np.ndarray) -> tuple[float, float]:
        """The error of models, and of squared distances, of what is known in floats."""
        size = max(float(abs(a).max()) for a in (self.w, self.R, self.R_G, *arrays, optimum.x))
        points = 1e-13 * size * (self.T + 10)
        return points, len(optimum.x) * (points + off) * (points + off + 2 * size)


class Known(NamedTuple):
    """Give what a user's case says of both theorems: the factors of the compressors, the least of them,
    L, mu, the optimum, its error, and D_k."""

    up: float | None
    down: float | None
    least: float
    L: float
    mu: float
    optimum: Optimum
    off: float
    D: np.ndarray


def known_of(case: Case, algorithm: EFL) -> Known:
    """Find it, before a run is made."""
    problem = case.problem
    up, down = (factor_of(c, problem.dim) for c in (algorithm.compressor, algorithm.down_compressor))
    L, mu = given.curvatures(problem, case.given)
    optimum = problem.optimum()
    D = np.maximum(problem.client_losses(optimum.x) - client_minima(problem), 0)
    least = min(1.0 if d is None else d for d in (up, down))
    return Known(up, down, least, L, mu, optimum, given.distance_off(problem, optimum), D)


@dataclass
class CompressedView(CompressedRun):
    """A run of complete clients on P equally likely paths of the noise; one where there is none.

    Attributes
    ----------
    noise, noise_of_points : absolute error of squared distances, and of models, of what is known in floats
    """

    kind, about, asks, example = "compressed", FrozenView.about, ASKS, efl.ST_BOTH_WAYS
    attained = (
        *(
            (f"from a flat direction, {'both ways' if down else 'one way'}", {
                "weights": ["1"], "h": [["1", "4000"]], "c": [["0", "0"]], "q": "1/2", "down": down,
                "E": 1, "T": 2, "w0": ["1", "0"],
            })
            for down in (True, False)
        ),
        ("three clients, from their optimum", {
            **THREE, "c": [["2", "1"], ["1", "-3"], ["-3", "2"]], "down": False, "E": 1, "T": 3,
            "w0": ["0", "0"],
        }),
        ("equal entries, noise only", {
            "weights": ["1"], "h": [["1", "1"]], "c": [["0", "0"]], "noise": [["1", "1"]],
            "q": "1/2", "down": True, "E": 1, "T": 2, "w0": ["0", "0"],
        }),
    )  # fmt: skip

    shows: ClassVar = {
        **{name: name for name in ("E", "gamma", "L", "mu", "G_sq", "delta", "down")},
        "rounds": "T", "eta_0": "eta_0", "rho^2": "rho_sq",
    }  # fmt: skip
    reads: ClassVar = {
        **WITH_ST, "w0": number("d"), "E": whole(1, 20), "T": whole(1, 60),
        "down": flag("the server compresses with the same ST"),
        "noise": number("N d", "gradients are off by +-n_k in every step", default=None),
    }  # fmt: skip

    sigma_sq: np.ndarray  # (N,)
    local: np.ndarray  # (T, E + 1, P, N, d) the clients' models within a round, the first one w_t
    sent: np.ndarray  # (T, P, N, d) what clients sent
    noise: Any = 0
    noise_of_points: Any = 0

    eta_0 = derived(lambda q: q.eta[0])

    # --- the constants ----------------------------------------------------------------------------
    client_factor = derived(
        lambda q: 1 if q.delta is None else 4 / q.delta,
        "4/delta of the clients, 1 where they send uncompressed",
    )
    whole_factor = derived(
        lambda q: q.client_factor * (1 if q.down is None else 4 / q.down),
        "A = (4/delta)(4/delta of the server), without the factor of an uncompressed side",
    )
    reach_sq = derived(lambda q: q.E**2 * q.G_sq, "(E G)^2")
    between = derived(lambda q: q.whole_factor - 1, "A - 1")
    squares = derived(
        lambda q: (q.E - 1) * q.E * (2 * q.E - 1) // 6, "sum_{i < E} i^2",
        r"\textstyle\sum_{i<E}i^2",
    )
    steps_sq = derived(lambda q: np.arange(q.E) ** 2, "i^2, i = 0..E - 1", "i^2")
    eta_now = derived(lambda q: q.eta[:-1, None], "eta_t beside the steps of a round", r"\eta")
    apart_now = derived(
        lambda q: q.apart_sq[:-1, None], "E||w_t - v_t||^2 beside them",
        r"\mathbb E\|\omega_t-v_t\|^2",
    )
    spread = derived(lambda q: (q.weights * q.D).sum(), "sum_k p^k D_k", r"\textstyle\sum_kp^kD_k")
    variance = derived(
        lambda q: (q.weights**2 * q.sigma_sq).sum(), "sum_k (p^k)^2 sigma_k^2",
        r"\textstyle\sum_k(p^k)^2\sigma_k^2",
    )
    drift = derived(lambda q: q.squares * q.G_sq + q.E * q.rho_sq)
    B = derived(
        lambda q: q.E * (q.variance + 6 * q.L * q.spread) + (2 + q.mu / (2 * q.L)) * q.drift,
        "E (sum p^2 sigma^2 + 6 L sum p D) + (2 + mu/(2L)) (G^2 sum_{i<E} i^2 + E rho^2)", "B",
    )

    @property
    def sharp(self) -> tuple[np.ndarray, ...]:
        """The three terms of the sharpened bound of E||v_t - w*||^2, t = 1..T."""
        eta, before = self.eta[1:], self.eta[:-1]
        for_ever, at_first = 5 * eta / (4 * self.mu), self.times[1:] * self.E * before**2
        drift = 5 * self.L * minimum(3 * eta**2 / (2 * self.mu), at_first * self.eta[0]) / 2
        start = (eta / self.eta[0]) ** 16 * self.distance_sq[0]
        return start, minimum(for_ever, at_first) * self.variance, drift * self.off

    off = derived(
        lambda q: (q.E - 1) ** 2 * q.G_sq + q.rho_sq,
        "(E - 1)^2 G^2 + rho^2: how far clients are from vbar_i in mean square, over eta_t^2",
    )
    kept = derived(lambda q: (1 - q.eta[:-1] * q.mu) ** q.E, "(1 - eta_t mu)^E, t = 0..T - 1")

    # --- within a round ---------------------------------------------------------------------------
    inner = derived(
        lambda q: q.v[:-1, None] + q.average(q.local - q.w[:-1, None, :, None]),
        "vbar_i = v_t + sum_k p^k (w_i^k - w_t), i = 0..E: (T, E + 1, P, d)",
    )
    inner_sq = derived(
        lambda q: q.mean(q.inner - q.star, axis=2), "E||vbar_i - w*||^2 (T, E + 1)",
        OFF % r"\bar v_<i>",
    )
    message = derived(
        lambda q: q.R[:-1] + q.local[:, -1] - q.local[:, 0], "D^k = R^k + x^k (T, P, N, d)",
        r"R^k_{t-1}+x^k_{t-1}",
    )

    def among(self, x: np.ndarray) -> np.ndarray:
        """sum_k p^k E||x_i^k||^2 (T, E), of (T, E, P, N, d)."""
        return (self.weights * self.mean(x, axis=2)).sum(axis=-1)

    off_inner = derived(
        lambda q: q.among(q.local[:, :-1] - q.inner[:, :-1, :, None]),
        "sum_k p^k E||w_i^k - vbar_i||^2", LOCAL + r"\|\omega^k_i-\bar v_i\|^2",
    )

    @classmethod
    def made(
        cls, weights: Any, h: Any, c: Any, q: Any, w0: Any, E: int, T: int, down: bool, noise: Any
    ) -> Self:
        """Make the run with ST over all signs of the noise."""
        n, st = 0 * c if noise is None else noise, compressors.ST(q)
        delta, L, mu = st.contraction_exact(h.shape[1]), h.max(), h.min()
        gamma, star = gamma_under_compression(E, L, mu, delta), efl.centre(weights, h, c)
        law = np.array([[Fraction(int(s == E)) for s in range(E + 1)]] * len(h), dtype=object)
        found = play(
            lambda y: h * (y - c), cases_of("C", law, weights), st, st if down else None, weights,
            w0, steps_of(E, mu, gamma, T), E, _signs(n, E * T)[..., None] * n,
        )  # fmt: skip
        D = (h * (star - c) ** 2).sum(axis=1) / 2
        return cls(
            weights, E, gamma, L, mu, found.G_sq, delta, delta if down else None, D, star, found.w,
            found.R, found.R_G, found.mass, (n**2).sum(axis=1), found.local, found.sent,
        )

    @classmethod
    def draw(cls, rng: Any, number: int | None = None) -> tuple[str, dict[str, Any]]:
        """Draw a short run, with noise in three of ten."""
        n, d, E = int(rng.integers(1, 3)), int(rng.integers(1, 3)), int(rng.integers(1, 3))
        noisy, T = rng.random() < 0.3, int(rng.integers(1, 4))
        c = [[half(rng) for _ in range(d)]] * n if rng.random() < 0.3 else rows(rng, n, d, half)
        data = {
            "weights": few_shares(rng, n),
            "h": rows(rng, n, d, lambda g: Fraction(2) ** int(g.integers(-1, 2))), "c": c,
            "q": Fraction(int(rng.integers(1, d + 1)), d), "down": bool(rng.random() < 0.7), "E": E,
            "T": 2 // E if noisy else T,
            "w0": c[0] if rng.random() < 0.4 else [half(rng) for _ in range(d)],
        }
        if noisy:
            data["noise"] = rows(rng, 1, d, lambda g: part(g, 8, 4)) + [[Fraction(0)] * d] * (n - 1)
        return f"N={n} d={d} E={E}" + (" noise" if noisy else ""), data

    @classmethod
    def on_problem(cls, statement: str, case: Case) -> CompressedView:
        """Run the user's method, T = 50 rounds where nothing else is said, with the theorem's steps.

        Without noise the run is its own expectation: G^2 is the largest squared gradient that it
        meets. A step that is a number stands for the theorem's.
        """
        algorithm, problem, T, E = method_of(case), case.problem, case.rounds or ROUNDS, steps_when_complete(case)
        known = known_of(case, algorithm)
        mu, optimum = known.mu, known.optimum
        gamma = gamma_under_compression(E, known.L, mu, known.least)
        etas, solver = steps_of(E, mu, gamma, T), case.local_solver
        own = isinstance(solver, LocalSGD) and callable(solver.lr)
        if own and any(abs(solver.lr(t + 1) - e) > 1e-9 * e for t, e in enumerate(etas)):
            raise InvalidInput("the schedule of lr is not the theorem's, 16/(mu ((t + 1) E + gamma)): leave it out")
        run = simulate(
            problem, algorithm, T, case.x0, None, 1, case.seed,
            LocalSGD(E, TheoremStep(mu, E, gamma, float(E))), record=(), keep_states=True, dense=True,
        )  # fmt: skip
        states = list(run.states or ())[-T:]
        w = np.concatenate([case.x0[None], *(np.asarray(s.x)[:1] for s in states)])
        R, R_G = np.zeros((T + 1, 1, problem.num_clients, problem.dim)), np.zeros((T + 1, 1, problem.dim))
        for t, s in enumerate(states, start=1):
            R[t, 0] = 0 if s.residuals is None else np.asarray(s.residuals)[0]
            R_G[t, 0] = 0 if s.server_residual is None else np.asarray(s.server_residual)[0]
        local, G_sq = local_work(case, w[:-1], etas, E)
        sent = R[:-1] + local[:, -1] - local[:, 0] - R[1:]
        made = cls(
            problem.weights, E, gamma, known.L, mu, G_sq, known.up, known.down, known.D, optimum.x,
            w[:, None], R, R_G, np.ones(1), np.zeros(problem.num_clients), local, sent,
        )
        made.noise_of_points, made.noise = made.rounding(optimum, known.off, local)
        return made


def _signs(noise: np.ndarray, steps: int) -> np.ndarray:
    """All sign patterns of the clients that have noise (P, steps, N), 0 for the others. Raises
    `InvalidInput` for too many."""
    noisy = [k for k, row in enumerate(noise) if any(row)]
    if 2 ** (len(noisy) * steps) > MOST_SIGNS:
        raise InvalidInput(f"2^{len(noisy) * steps} paths of the noise: at most {MOST_SIGNS} are enumerated; take fewer rounds")
    out = np.zeros((2 ** (len(noisy) * steps), steps, len(noise)), dtype=object) + Fraction(0)
    for row, pattern in zip(out, itertools.product([1, -1], repeat=len(noisy) * steps), strict=True):
        row[:, noisy] = np.array(pattern, dtype=object).reshape(steps, len(noisy))
    return out


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
        E, st = law.shape[1] - 1, compressors.ST(q)
        m, cases = moments(scheme, law, E, weights, exact=True), cases_of(scheme, law, weights)
        delta, L, mu = st.contraction_exact(h.shape[1]), h.max(), h.min()
        gamma = gamma_with_participation(E, L, mu, delta, m, min(cases.pi))
        etas, star = steps_of(E, mu, gamma, T, m.sum_ps), efl.centre(weights, h, c)
        found = play(lambda y: h * (y - c), cases, st, st if down else None, weights, w0, etas, E)
        D = (h * (star - c) ** 2).sum(axis=1) / 2
        return cls(
            weights, E, gamma, L, mu, found.G_sq, delta, delta if down else None, D, star, found.w,
            found.R, found.R_G, found.mass, m, cases.pi,
        )

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
        E, weights, known = law.shape[1] - 1, problem.weights, known_of(case, algorithm)
        m, cases = moments(algorithm.scheme, law, E, weights), cases_of(algorithm.scheme, law, weights)
        gamma = gamma_with_participation(E, known.L, known.mu, known.least, m, float(cases.pi.min()))
        T = min(case.rounds or 20, 20, max(1, int(np.log(MOST) / np.log(len(cases.steps)))) if len(cases.steps) > 1 else 20)
        found = play(
            lambda y: np.asarray(problem.gradient_each(y)), cases, algorithm.compressor,
            algorithm.down_compressor, weights, np.asarray(case.x0, dtype=float),
            steps_of(E, known.mu, gamma, T, m.sum_ps), E,
        )  # fmt: skip
        made = cls(
            weights, E, gamma, known.L, known.mu, float(found.G_sq), known.up, known.down, known.D,
            known.optimum.x, found.w, found.R, found.R_G, found.mass, m, cases.pi,
        )
        made.noise = made.rounding(known.optimum, known.off)[1]
        return made


@dataclass(frozen=True)
class Cases:
    """The cases of a round: steps (C, N) of at most E, probabilities (C,), who sends (C, N), and
    the scheme with the probabilities (N,) of being active that it may ask for."""

    steps: np.ndarray
    chance: np.ndarray
    sends: np.ndarray
    scheme: Any
    active: np.ndarray

    @property
    def pi(self) -> np.ndarray:
        """P(client k sends) (N,). Raises `InvalidInput` where one of them is 0."""
        found = (self.sends * self.chance[:, None]).sum(axis=0)
        if min(found) <= 0:
            raise InvalidInput(f"client {int(np.argmin(found))} never sends anything: the theorem needs P(it sends) > 0")
        return found


def cases_of(scheme: Any, law: np.ndarray, weights: np.ndarray) -> Cases:
    """Every s of independent clients that has a probability, from their law (N, E + 1)."""
    rows = [[(s, chance) for s, chance in enumerate(row) if chance > 0] for row in law]
    if (count := math.prod(len(row) for row in rows)) > MOST:
        raise InvalidInput(f"{count} cases in one round: at most {MOST} are gone through; take fewer clients or local steps")
    found = list(itertools.product(*rows))
    steps = np.array([[s for s, _ in case] for case in found])
    chance = np.array([math.prod(c for _, c in case) for case in found], dtype=law.dtype)
    factor = coefficients(scheme, steps, law.shape[1] - 1, weights, 1 - law[:, 0]) / weights
    return Cases(steps, chance, (steps > 0) & (factor > 0), scheme, 1 - law[:, 0])


class Paths(NamedTuple):
    """All paths of a run: their probabilities (P,), the largest E||g||^2, w, R and R_G of all rounds,
    and within rounds the clients' models (T, E + 1, P, N, d) and what they sent (T, P, N, d)."""

    mass: np.ndarray
    G_sq: Any
    w: np.ndarray
    R: np.ndarray
    R_G: np.ndarray
    local: np.ndarray
    sent: np.ndarray


def play(
    gradient: Callable[[np.ndarray], np.ndarray], cases: Cases, up: Any, down: Any,
    weights: np.ndarray, w0: np.ndarray, etas: list[Any], E: int, pushes: np.ndarray | None = None,
) -> Paths:  # fmt: skip
    """Go through every path of participation.

    Parameters
    ----------
    gradient : callable(y) -> grad f_k(y_k), (P, N, d) -> (P, N, d)
    up, down : the compressors, None for one that sends uncompressed
    pushes : (P, T E, N, d) what gradients are off by on equally likely paths, with one case a round
    """
    if len(cases.steps) ** len(etas) > MOST:
        raise InvalidInput(f"{len(cases.steps)}^{len(etas)} paths: at most {MOST} are gone through; take fewer rounds")
    start, shape = 1 if pushes is None else len(pushes), (len(weights), len(w0))
    method, count, most = EFL(scheme=cases.scheme, compressor=up, down_compressor=down), len(cases.steps), 0 * w0[0]
    w = np.stack([w0] * start)
    none = np.stack([0 * w] * shape[0], axis=1)
    state: Any = method.init(w, shape[0])._replace(residuals=up and none, server_residual=down and 0 * w)
    mass = (cases.chance[:1] * 0 + 1).repeat(start) / start
    kept: list[tuple[np.ndarray, ...]] = [(w, none, 0 * w)]
    within: list[tuple[np.ndarray, ...]] = []
    for t, eta in enumerate(etas):
        path = [state.x[:, None] + 0 * kept[-1][1]]
        for j in range(E):
            g = gradient(path[-1]) + (0 if pushes is None else pushes[:, t * E + j])
            most = max(most, *((g * g).sum(axis=-1) * mass[:, None]).sum(axis=0))
            path.append(path[-1] - eta * g)
        ends, who = np.stack(path), np.arange(shape[0])  # every path meets every case: the next round's paths are (path, case)
        at = np.stack([ends[s, :, who].transpose(1, 0, 2) for s in cases.steps], axis=1).reshape(-1, *shape)
        clients = clients_that_end(at, weights, np.tile(cases.steps, (len(mass), 1)), E, cases.active)
        state = method.round(repeated(state, count), clients)
        mass = (mass[:, None] * cases.chance).ravel()
        R = 0 * at if state.residuals is None else state.residuals
        kept.append((state.x, R, 0 * state.x if state.server_residual is None else state.server_residual))
        within.append((ends.swapaxes(0, 1), clients.sent[0]))

    def each(rounds: list[tuple[np.ndarray, ...]], i: int) -> np.ndarray:
        return np.stack([np.repeat(r[i], len(mass) // len(r[i]), axis=0) for r in rounds])

    models, R, R_G = (each(kept, i) for i in range(3))
    return Paths(mass, most, models, R, R_G, each(within, 0).swapaxes(1, 2), each(within, 1))
