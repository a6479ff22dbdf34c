"""The world of EFL's convergence with compression of complete clients, with its theorems' steps.

The consistent form of Algorithm 1: D^k = R^k + (p_tau^k/p^k) x^k of those that make steps, c^k =
C(D^k), R^k <- D^k - c^k; the others keep R^k and send nothing. D^G = R^G + sum_k p^k c^k, R^G <- D^G
- C(D^G), w <- w + C(D^G). Runs are made in fractions,
over all signs of the noise, with full gradients.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Self, cast

import numpy as np

from fedtheory.algorithms.efl import EFL
from fedtheory.errors import InvalidInput
from fedtheory.local import LocalSGD
from fedtheory.local.local_sgd import TheoremStep
from fedtheory.messages import compressors
from fedtheory.messages.compressors import Compressor
from fedtheory.optimum.certify import Optimum
from fedtheory.optimum.client_minima import client_minima
from fedtheory.simulation.simulate import simulate
from fedtheory.theorems.efl import world as efl
from fedtheory.theorems.efl.cases import given
from fedtheory.theorems.efl.cases.theorem_1 import ROUNDS, assumption_failure, law_of
from fedtheory.theorems.efl.compressed_paths import cases_of, play, signs_of
from fedtheory.theory import Case, Sides, derived, flag, le, number, whole
from fedtheory.theory.draws import few_shares, half, part, rows
from fedtheory.theory.fields import reads_of
from fedtheory.theory.judge.symbolic import minimum

OFF = r"\mathbb E\|%s-\omega^*\|^2"
LOCAL = r"\textstyle\sum_kp^k\mathbb E"
SHORTER = ("st", "top-k", "scaled-sign")  # deterministic, and ||C(x)|| <= ||x||
THREE: dict[str, Any] = {"weights": ["1/3", "1/3", "1/3"], "h": [["1", "1"]] * 3, "q": "1/2"}  # w* = 0, gradients -c_k
ASKS = (
    efl.CONVEX, "EFL with residuals on both sides, variant consistent, lambda = 0",
    "ST by the exact rule, top-k or the scaled sign",
    "all clients complete, full gradients, LocalSGD with the theorem's steps",
)  # fmt: skip
WITH_ST = {**reads_of(efl.Clients), "q": number(what="of ST")}


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
    out, most = list[np.ndarray](), 0.0
    for w, eta in zip(models, etas, strict=True):
        path = [np.broadcast_to(w, (case.problem.num_clients, len(w)))]
        for _ in range(E):
            g = np.asarray(case.problem.gradient_each(path[-1]))
            most = max(most, float((g * g).sum(axis=-1).max()))
            path.append(path[-1] - eta * g)
        out.append(np.stack(path)[:, None])
    return np.stack(out), most


def gamma_under_compression(E: int, L: Any, mu: Any, delta: Any) -> Any:
    """gamma = max{4E/delta, 64L/mu}: Theorem 1's for all clients complete, its first entry divided by delta."""
    return max(4 * E / delta, 64 * L / mu)


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

    def rounding(self, problem: Any, optimum: Optimum, *arrays: Any) -> tuple[float, float]:
        """The error of models, and of squared distances, of what is known in floats."""
        off = given.distance_off(problem, optimum)
        size = max(float(abs(a).max()) for a in (self.w, self.R, self.R_G, *arrays, optimum.x))
        points = 1e-13 * size * (self.T + 10)
        return points, len(optimum.x) * (points + off) * (points + off + 2 * size)


def of_quadratics(weights: Any, h: Any, c: Any, q: Any, down: bool) -> dict[str, Any]:
    """The constants of a `CompressedRun` of quadratic clients with ST."""
    star, delta = efl.centre(weights, h, c), compressors.ST(q).contraction_exact(h.shape[1])
    return {
        "weights": weights, "L": h.max(), "mu": h.min(), "delta": delta,
        "down": delta if down else None, "D": (h * (star - c) ** 2).sum(axis=1) / 2, "star": star,
    }  # fmt: skip


def of_a_case(case: Case, algorithm: EFL) -> tuple[dict[str, Any], float, Optimum]:
    """The same of a user's case, with the least factor of a compressor, and the optimum."""
    problem, both = case.problem, (algorithm.compressor, algorithm.down_compressor)
    up, down = (factor_of(c, problem.dim) for c in both)
    (L, mu), optimum = given.curvatures(problem, case.given), problem.optimum()
    D = np.maximum(problem.client_losses(optimum.x) - client_minima(problem), 0)
    known = {
        "weights": problem.weights, "L": L, "mu": mu, "delta": up, "down": down, "D": D,
        "star": optimum.x,
    }  # fmt: skip
    return known, min(1.0 if d is None else d for d in (up, down)), optimum


@dataclass
class CompressedView(CompressedRun):
    """A run of complete clients on P equally likely paths of the noise; one where there is none.

    Attributes
    ----------
    noise, noise_of_points : absolute error of squared distances, and of models, of what is known in floats
    """

    kind, about, asks = "compressed", "about convergence with compression", ASKS
    example = efl.ST_BOTH_WAYS
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
        known = of_quadratics(weights, h, c, q, down)
        gamma = gamma_under_compression(E, known["L"], known["mu"], known["delta"])
        law = np.array([[Fraction(int(s == E)) for s in range(E + 1)]] * len(h), dtype=object)
        found = play(
            lambda y: h * (y - c), cases_of("C", law, weights), st, st if down else None, weights,
            w0, steps_of(E, known["mu"], gamma, T), E, signs_of(n, E * T)[..., None] * n,
        )  # fmt: skip
        noise, within = (n**2).sum(axis=1), {"local": found.local, "sent": found.sent}
        return cls(**known, **found.run, **within, E=E, gamma=gamma, sigma_sq=noise)

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
        known, least, optimum = of_a_case(case, algorithm)
        mu = known["mu"]
        gamma = gamma_under_compression(E, known["L"], mu, least)
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
            **known, E=E, gamma=gamma, G_sq=G_sq, w=w[:, None], R=R, R_G=R_G, chance=np.ones(1),
            sigma_sq=np.zeros(problem.num_clients), local=local, sent=sent,
        )  # fmt: skip
        made.noise_of_points, made.noise = made.rounding(problem, optimum, local)
        return made
