"""The worlds of EFL's convergence with compression, all clients complete, with Theorem 1's steps.

The consistent form of Algorithm 1: D^k = R^k + x^k, R^k <- D^k - C(D^k), D^G = R^G + sum_k p^k
C(D^k), R^G <- D^G - C(D^G), w <- w + C(D^G). Runs are made in fractions over all signs of the
noise. A run can only end at w* if the moves that it makes with the model held at w* cancel: while
the steps fall slowly the residuals, divided by the step, follow the recursion of a constant step at
w*. `FrozenView` is that recursion, over one period.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Self

import numpy as np

from fedtheory.algorithms.efl import EFL
from fedtheory.errors import InvalidInput
from fedtheory.local import LocalSGD
from fedtheory.local.local_sgd import TheoremStep
from fedtheory.messages import compressors
from fedtheory.messages.compressors import Compressor
from fedtheory.rational import fraction, integer, objects, table, text, vector
from fedtheory.simulation.simulate import simulate
from fedtheory.steps import Loop
from fedtheory.theorems.efl.cases import given
from fedtheory.theorems.efl.cases.theorem_1 import ROUNDS, assumption_failure, law_of
from fedtheory.theorems.efl.draws import few_shares, half, part, rows
from fedtheory.theorems.efl.feedback_world import LOOPS
from fedtheory.theorems.efl.quantities.measured_run import client_minima
from fedtheory.theorems.efl.quantities.run import given_curvatures
from fedtheory.theorems.efl.world import BOTH_WAYS, CONVEX, ST_BOTH_WAYS, EFLWorld, clients_of
from fedtheory.theory import Fact
from fedtheory.theory.judge.case import Case

SHORTER = ("st", "top-k", "scaled-sign")  # deterministic, and ||C(x)|| <= ||x||
MOST = 4096  # paths of the noise
VARIANTS = ("consistent", "literal", "text")
LONGEST = 300  # rounds until a state comes back
CLEAR = Fact("no choice of ST is a tie over the period")
THREE: dict[str, Any] = {"weights": ["1/3", "1/3", "1/3"], "h": [["1", "1"]] * 3, "q": "1/2"}  # w* = 0, gradients -c_k
ASKS = (
    CONVEX, "EFL with residuals on both sides, variant consistent, lambda = 0",
    "ST by the exact rule, top-k or the scaled sign",
    "all clients complete, full gradients, LocalSGD with the theorem's steps",
)  # fmt: skip


def gap_of(message: np.ndarray, k: int) -> Any:
    """A message's (d,) k-th largest magnitude less the next, which is 0 where there is none."""
    found = sorted((abs(x) for x in message), reverse=True)
    return found[k - 1] - (found[k] if k < len(found) else 0)


@dataclass
class FrozenView(EFLWorld):
    """The residuals while the model stays at w*: E = 1, step 1, all active, ST both ways.

    ST sends exactly k entries.

    Attributes
    ----------
    variant : 'consistent', 'literal' (the formulas as printed) or 'text' (section 3.1)
    gradients : (N, d) at w*, of mean 0
    moves : (P, d) of the server's model, over one period of the residuals
    gap : the least difference, over the period, between a magnitude that is sent and the largest that is not
    """

    kind, about, asks = "frozen", "about convergence with compression", ASKS
    accepts, method, example = given.options("L", "mu"), BOTH_WAYS, ST_BOTH_WAYS
    count, share = 24, 0.1
    attained = (
        ("the formulas as printed, three clients", {
            **THREE, "variant": "literal", "c": [["-14", "-5"], ["-8", "-25"], ["22", "30"]],
        }),
        ("the text of 3.1, three clients", {
            **THREE, "variant": "text", "c": [["-3", "11"], ["8", "-9"], ["-5", "-2"]],
        }),
    )  # fmt: skip

    variant: str
    gradients: np.ndarray
    moves: np.ndarray
    gap: Any

    def __post_init__(self) -> None:
        self.facts = frozenset({LOOPS[self.variant], *([CLEAR] if self.gap > 0 else [])})

    @classmethod
    def from_data(cls, data: dict[str, Any]) -> Self:
        """Make an instance of variant, weights, h, c and q of ST.

        The residuals go from 0 to the end of the first period.
        """
        if data["variant"] not in VARIANTS:
            raise InvalidInput(f"variant = {data['variant']!r}: use {', '.join(VARIANTS)}")
        weights, h, c = clients_of(data)
        p, st = weights[:, None], compressors.ST(fraction(data["q"], "q"))
        k = st.sizes(h.shape[1])[0]
        g = h * ((p * h * c).sum(axis=0) / (p * h).sum(axis=0) - c)
        R, R_G = 0 * g, 0 * g[0]
        seen: dict[Any, int] = {}
        moves: list[np.ndarray] = []
        gaps: list[Any] = []
        while (state := tuple((x.numerator, x.denominator) for x in (*R.ravel(), *R_G))) not in seen:
            if len(moves) > LONGEST:
                raise InvalidInput(f"the residuals do not come back within {LONGEST} rounds: take ST with one entry")
            seen[state] = len(moves)
            D = R - g
            sent = st.compress(D)
            to_all = R_G + (p * (D if data["variant"] == "literal" else sent)).sum(axis=0)
            down = st.compress(to_all)
            R, R_G = D - sent, to_all - down
            moves.append(down if data["variant"] == "consistent" else to_all)
            gaps.append(min(gap_of(m, k) for m in (*D, to_all)))
        first = seen[state]
        return cls(data["variant"], g, np.stack(moves[first:]), min(gaps[first:]))

    @classmethod
    def draw(cls, rng: Any, number: int | None = None) -> tuple[str, dict[str, Any]]:
        """Draw a variant and clients of curvature 1."""
        variant, n, d = str(rng.choice(["consistent", "literal", "text"])), int(rng.integers(1, 4)), int(rng.integers(1, 3))
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


def steps_of(E: int, mu: Any, gamma: Any, rounds: int) -> list[Any]:
    """eta_t = 16/(mu ((t + 1) E + gamma)), t = 0..rounds - 1: Theorem 1's, as S_t = E."""
    return [16 / (mu * ((t + 1) * E + gamma)) for t in range(rounds)]


class CompressedRun(EFLWorld):
    """A run with compression, with the virtual iterate that its bounds are about."""

    accepts, method = given.options("L", "mu"), BOTH_WAYS
    count, share, horizon = 24, 0.1, "t"
    weights: np.ndarray
    E: int
    gamma: Any
    mu: Any
    w: np.ndarray
    R: np.ndarray
    R_G: np.ndarray

    @property
    def T(self) -> int:
        return len(self.w) - 1

    @property
    def horizons(self) -> np.ndarray:
        """t = 1..T, of what is compared round by round."""
        return np.arange(1, self.T + 1)

    @cached_property
    def times(self) -> np.ndarray:
        """t = 0..T, in the arithmetic of the view."""
        return np.arange(self.T + 1) + 0 * self.mu

    @cached_property
    def y(self) -> np.ndarray:
        """t E + gamma, t = 0..T."""
        return self.times * self.E + self.gamma

    def average(self, x: np.ndarray) -> np.ndarray:
        """sum_k p^k x_k over the last axis but one."""
        return (self.weights[:, None] * x).sum(axis=-2)

    @cached_property
    def v(self) -> np.ndarray:
        """v_t = w_t + R^G_t + sum_k p^k R^k_t (T + 1, P, d)."""
        return self.w + self.R_G + self.average(self.R)


@dataclass
class CompressedView(CompressedRun):
    """A run of T rounds on P equally likely paths of the noise; one path where there is none.

    Attributes
    ----------
    weights : (N,) p^k
    E, gamma, L, mu, G_sq : of Theorem 1; G^2 is the largest E||g||^2 of this run
    delta, down : the factor of the clients' compressor, and of the server's; None where nothing is compressed
    sigma_sq, D : (N,)
    star : (d,) w*
    w, R, R_G : models (T + 1, P, d), residuals of the clients (T + 1, P, N, d) and of the server (T + 1, P, d)
    local : (T, E + 1, P, N, d) the clients' models within a round, the first one w_t
    sent : (T, P, N, d) what clients sent
    noise, noise_of_points : absolute error of squared distances, and of models, of what is known in floats
    """

    kind, about, asks, example = "compressed", FrozenView.about, ASKS, ST_BOTH_WAYS
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

    weights: np.ndarray
    E: int
    gamma: Any
    L: Any
    mu: Any
    G_sq: Any
    delta: Any
    down: Any
    sigma_sq: np.ndarray
    D: np.ndarray
    star: np.ndarray
    w: np.ndarray
    R: np.ndarray
    R_G: np.ndarray
    local: np.ndarray
    sent: np.ndarray
    noise: Any = 0
    noise_of_points: Any = 0

    @cached_property
    def eta(self) -> np.ndarray:
        """eta_t, t = 0..T (the last one is not used by the run)."""
        return 16 / (self.mu * (self.y + self.E))

    def mean(self, x: np.ndarray, axis: int = 1) -> np.ndarray:
        """The expectation over paths of ||x||^2, the coordinates in the last axis of x."""
        squares = (x * x).sum(axis=-1)
        return squares.sum(axis=axis) / squares.shape[axis]

    @cached_property
    def distance_sq(self) -> np.ndarray:
        """E||w_t - w*||^2 (T + 1,)."""
        return self.mean(self.w - self.star)

    @cached_property
    def virtual_sq(self) -> np.ndarray:
        """E||v_t - w*||^2 (T + 1,)."""
        return self.mean(self.v - self.star)

    @cached_property
    def apart_sq(self) -> np.ndarray:
        """E||w_t - v_t||^2 (T + 1,)."""
        return self.mean(self.w - self.v)

    # --- the constants ----------------------------------------------------------------------------
    @property
    def client_factor(self) -> Any:
        """4/delta of the clients, 1 where they send uncompressed."""
        return 1 if self.delta is None else 4 / self.delta

    @property
    def whole_factor(self) -> Any:
        """A = (4/delta)(4/delta of the server), without the factor of an uncompressed side."""
        return self.client_factor * (1 if self.down is None else 4 / self.down)

    @property
    def rho_sq(self) -> Any:
        """((A - 1) E G)^2: E||w_t - v_t||^2 <= rho^2 eta_t^2."""
        return (self.whole_factor - 1) ** 2 * self.E**2 * self.G_sq

    @property
    def squares(self) -> Any:
        """sum_{i < E} i^2."""
        return (self.E - 1) * self.E * (2 * self.E - 1) // 6

    @property
    def spread(self) -> Any:
        """sum_k p^k D_k."""
        return (self.weights * self.D).sum()

    @property
    def variance(self) -> Any:
        """sum_k (p^k)^2 sigma_k^2."""
        return (self.weights**2 * self.sigma_sq).sum()

    def B(self, residuals: Any = 1) -> Any:
        """E (sum p^2 sigma^2 + 6 L sum p D) + (2 + mu/(2L)) (G^2 sum_{i<E} i^2 + E rho^2)."""
        drift = self.squares * self.G_sq + residuals * self.E * self.rho_sq
        return self.E * (self.variance + 6 * self.L * self.spread) + (2 + self.mu / (2 * self.L)) * drift

    @property
    def off(self) -> Any:
        """(E - 1)^2 G^2 + rho^2: how far clients are from vbar_i in mean square, over eta_t^2."""
        return (self.E - 1) ** 2 * self.G_sq + self.rho_sq

    @cached_property
    def kept(self) -> np.ndarray:
        """(1 - eta_t mu)^E, t = 0..T - 1."""
        return (1 - self.eta[:-1] * self.mu) ** self.E

    # --- within a round ---------------------------------------------------------------------------
    @cached_property
    def inner(self) -> np.ndarray:
        """vbar_i = v_t + sum_k p^k (w_i^k - w_t), i = 0..E: (T, E + 1, P, d)."""
        return self.v[:-1, None] + self.average(self.local - self.w[:-1, None, :, None])

    def printed_constants(self) -> dict[str, Any]:
        names = ("E", "gamma", "L", "mu", "G_sq", "delta", "down")
        return {**{n: text(getattr(self, n)) for n in names}, "rounds": self.T, "eta_0": text(self.eta[0]), "rho^2": text(self.rho_sq)}

    @classmethod
    def from_data(cls, data: dict[str, Any]) -> Self:
        """Make an instance of weights, h, c, noise, q of ST, down, w0, E and T.

        noise, if there is any, has N rows of d: gradients are off by +-n_k in every step. down is
        true where the server compresses with the same ST, false where it sends uncompressed.
        """
        (weights, h, c), w0 = clients_of(data), vector(data["w0"], "w0")
        n = table(data["noise"], "noise") if "noise" in data else 0 * c
        E, T, down, q = integer(data["E"], "E", 1, 20), integer(data["T"], "T", 1, 60), data["down"], fraction(data["q"], "q")
        if h.shape != n.shape or w0.shape != h.shape[1:] or not isinstance(down, bool):
            raise InvalidInput(
                "h, noise and w0 do not fit together: N rows of d, and d numbers; down is true or "
                "false"
            )
        st = compressors.ST(q)
        delta, L, mu = st.contraction_exact(h.shape[1]), h.max(), h.min()
        gamma = gamma_under_compression(E, L, mu, delta)
        signs, p = _signs(n, E * T), weights[:, None]
        P, shape = len(signs), (len(signs), *h.shape)
        w, R, R_G = np.stack([w0] * P), np.zeros(shape, dtype=object) + Fraction(0), np.stack([0 * w0] * P)
        kept: dict[str, list[np.ndarray]] = {"w": [w], "R": [R], "R_G": [R_G], "local": [], "sent": []}
        G_sq = Fraction(0)
        for t, eta in enumerate(steps_of(E, mu, gamma, T)):
            y = w[:, None] + 0 * R
            path = [y]
            for j in range(E):
                g = h * (y - c) + signs[:, t * E + j, :, None] * n
                G_sq = max(G_sq, *((g * g).sum(axis=-1).sum(axis=0) / P))
                y = y - eta * g
                path.append(y)
            message = R + y - w[:, None]
            sent = st.compress(message)
            R, to_all = message - sent, R_G + (p * sent).sum(axis=1)
            move = st.compress(to_all) if down else to_all
            R_G, w = to_all - move, w + move
            for name, value in (("w", w), ("R", R), ("R_G", R_G), ("local", np.stack(path)), ("sent", sent)):
                kept[name].append(value)
        star = (p * h * c).sum(axis=0) / (p * h).sum(axis=0)
        D = objects([(row * (star - at) ** 2).sum() / 2 for row, at in zip(h, c, strict=True)])
        stacked = {name: np.stack(values) for name, values in kept.items()}
        sigma_sq = (n**2).sum(axis=1)
        return cls(
            weights, E, gamma, L, mu, G_sq, delta, delta if down else None, sigma_sq, D, star,
            **stacked,
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

        Raises
        ------
        InvalidInput, MissingCapability
            What the theorem asks of the problem, the compressors, the participation or the local
            work.
        NotCertified
            An optimum that cannot be certified.
        """
        algorithm, problem, T, E = method_of(case), case.problem, case.rounds or ROUNDS, steps_when_complete(case)
        delta, down = (factor_of(c, problem.dim) for c in (algorithm.compressor, algorithm.down_compressor))
        L, mu = given_curvatures(case.given, float(problem.beta_k.max()), float(problem.mu_k.min()))
        gamma = gamma_under_compression(E, L, mu, min(1.0 if d is None else d for d in (delta, down)))
        schedule, etas = TheoremStep(mu, E, gamma, float(E)), steps_of(E, mu, gamma, T)
        solver = case.local_solver
        own = isinstance(solver, LocalSGD) and callable(solver.lr)
        if own and any(abs(solver.lr(t + 1) - e) > 1e-9 * e for t, e in enumerate(etas)):
            raise InvalidInput("the schedule of lr is not the theorem's, 16/(mu ((t + 1) E + gamma)): leave it out")
        optimum = problem.optimum()
        off = given.distance_off(problem, optimum)
        run = simulate(
            problem, algorithm, T, case.x0, None, 1, case.seed, LocalSGD(E, schedule), record=(),
            keep_states=True, dense=True,
        )
        states = list(run.states or ())[-T:]
        w = np.concatenate([case.x0[None], *(np.asarray(s.x)[:1] for s in states)])
        R, R_G = np.zeros((T + 1, 1, problem.num_clients, problem.dim)), np.zeros((T + 1, 1, problem.dim))
        for t, s in enumerate(states, start=1):
            R[t, 0] = 0 if s.residuals is None else np.asarray(s.residuals)[0]
            R_G[t, 0] = 0 if s.server_residual is None else np.asarray(s.server_residual)[0]
        local, G_sq = local_work(case, w[:-1], etas, E)
        sent = R[:-1] + local[:, -1] - local[:, 0] - R[1:]
        D = np.maximum(problem.client_losses(optimum.x) - client_minima(problem), 0)
        size = max(float(abs(a).max()) for a in (w, local, R, R_G, optimum.x))
        made = cls(
            problem.weights, E, gamma, L, mu, G_sq, delta, down, np.zeros(problem.num_clients), D,
            optimum.x, w[:, None], R, R_G, local, sent,
        )
        points = 1e-13 * size * (T + 10)
        made.noise_of_points, made.noise = points, problem.dim * (points + off) * (points + off + 2 * size)
        return made


def _signs(noise: np.ndarray, steps: int) -> np.ndarray:
    """All sign patterns of the clients that have noise (P, steps, N), 0 for the others. Raises
    `InvalidInput` for too many."""
    noisy = [k for k, row in enumerate(noise) if any(row)]
    if 2 ** (len(noisy) * steps) > MOST:
        raise InvalidInput(f"2^{len(noisy) * steps} paths of the noise: at most {MOST} are enumerated; take fewer rounds")
    out = np.zeros((2 ** (len(noisy) * steps), steps, len(noise)), dtype=object) + Fraction(0)
    for row, pattern in zip(out, itertools.product([1, -1], repeat=len(noisy) * steps), strict=True):
        row[:, noisy] = np.array(pattern, dtype=object).reshape(steps, len(noisy))
    return out
