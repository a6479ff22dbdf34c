"""Instances of EFL's Theorem 1 in floats: exact quadratics of any shape, and real runs."""

from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from fedtheory.participation.coefficients import SCHEMES
from fedtheory.participation.irregular import Irregular
from fedtheory.problems.base import Problem
from fedtheory.problems.datasets import breast_cancer
from fedtheory.problems.generators import random_least_squares, random_logistic
from fedtheory.problems.partitions import dirichlet, federate
from fedtheory.randomness import Stream
from fedtheory.theorems.efl.quantities.exact_run import quadratic_run, round_laws
from fedtheory.theorems.efl.quantities.measured_run import measured_run
from fedtheory.theorems.efl.quantities.run import EFLRun
from fedtheory.theorems.efl.quantities.step import StepsView, reached
from fedtheory.theory import derived
from fedtheory.theory.rounds.second_moments import QuadraticOracles, oracles_of

PARTICIPATION = ("full", "inactive", "rare", "incomplete", "same incomplete", "departure", "alternating")


def participation_laws(participation: str, clients: int, E: int, rng: np.random.Generator) -> list[np.ndarray]:
    """Laws (N, E + 1) of s_k, one a round and the last for all that follow.

    'full'; 'inactive': each client with its own probability; 'rare': P(s = 0) = 0.99 for one
    client, 0.9 for the others; 'incomplete': any law with P(s = 0) < 1; 'same incomplete': one law
    for all; 'departure': the last client is gone after three rounds; 'alternating': two laws in
    turn for ten rounds.
    """
    full = np.zeros((clients, E + 1))
    full[:, E] = 1.0

    def absent(p: np.ndarray) -> np.ndarray:
        law = full.copy()
        law[:, 0], law[:, E] = p, 1 - p
        return law

    if participation == "full":
        return [full]
    if participation == "inactive":
        return [absent(rng.choice([0.0, 0.1, 0.5, 0.9], clients) * rng.random(clients))]
    if participation == "rare":
        return [absent(np.where(np.arange(clients) == 0, 0.99, 0.9))]
    if participation == "departure":
        return [full, full, full, absent((np.arange(clients) == max(clients - 1, 1)).astype(float))]
    concentration = rng.choice([0.2, 1.0, 5.0])

    def any_law(rows: int) -> np.ndarray:
        law = rng.dirichlet(np.full(E + 1, concentration), rows)
        law = 0.95 * law + 0.05 * full[:1]  # nobody is never active
        return law / law.sum(axis=1, keepdims=True)

    if participation == "same incomplete":
        return [np.repeat(any_law(1), clients, axis=0)]
    return [any_law(clients)] if participation == "incomplete" else [any_law(clients), any_law(clients)] * 5


class Named:
    """An instance that is told by its fields and its name."""

    seed: int

    def rng(self, what: str) -> np.random.Generator:
        """Give the randomness of a part of it."""
        return Stream(self.seed).generator(f"efl {what}")

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "name": self.name}  # type: ignore[call-overload, attr-defined]


@dataclass(frozen=True)
class QuadraticInstance(Named):
    """Quadratic clients, everything about them exact.

    Attributes
    ----------
    spread : size of the clients' distances from each other; 0: all minimisers are equal, D_k = 0
    common : all clients draw the same one, and its noise pushes them alike (samples > 1)
    """

    seed: int
    clients: int = 2  # clients, dim, E, rounds: N, d, E, T
    dim: int = 2
    E: int = 2
    rounds: int = 100
    scheme: str = "B"  # scheme, participation: of `SCHEMES`, `PARTICIPATION`
    participation: str = "inactive"
    condition: float = 5.0  # L/mu up to a rotation
    spread: float = 1.0
    noise: float = 0.0  # of the gradients, root mean square
    samples: int = 1  # terms of each F_k; a step draws one of them (1: full gradients)
    skew: float = 0.5  # p^k proportional to exp(skew * normal)
    start: float = 1.0  # ||w_0 - w*|| (0: at the optimum)
    lam: float = 0.0  # lambda, with frozen anchors (0: no elastic term)
    looks: int = 40  # how many horizons are judged
    first_look: int = 0  # the first of them (at 0 the bound is attained)
    common: bool = False
    kind: str = "run"
    family: str = "exact quadratics"

    @property
    def name(self) -> str:
        text = f"quadratics N={self.clients} d={self.dim} E={self.E} T={self.rounds} {self.scheme} {self.participation}"
        extra = f" L/mu={self.condition:g} spread={self.spread:g} noise={self.noise:g} samples={self.samples} skew={self.skew:g}"
        drawn = " common draws" if self.common else ""
        return f"{text}{extra}{drawn} start={self.start:g}{f' lam={self.lam:g}' if self.lam else ''} seed={self.seed}"

    def weights(self) -> np.ndarray:
        w = np.exp(self.skew * self.rng("weights").standard_normal(self.clients))
        return w / w.sum()

    def oracles(self) -> QuadraticOracles:
        """Curvatures from 1 to L/mu in random directions, samples that differ in curvature and in their linear terms."""
        rng, n, j, d = self.rng("quadratics"), self.clients, self.samples, self.dim
        size = self.condition ** rng.random((n, d))
        if self.condition > 1:
            size.flat[:2] = (self.condition, 1.0)[: size.size]
        turn = np.linalg.qr(rng.standard_normal((n, d, d)))[0]
        mean = turn @ (size[:, :, None] * np.swapaxes(turn, 1, 2))
        mean = (mean + np.swapaxes(mean, 1, 2)) / 2
        tilt = rng.uniform(-0.3, 0.3, (n, j, 1, 1)) if j > 1 else np.zeros((n, j, 1, 1))
        tilt -= tilt.mean(axis=1, keepdims=True)
        push = rng.standard_normal((n, j, d)) * self.noise if j > 1 else np.zeros((n, j, d))
        push -= push.mean(axis=1, keepdims=True)
        if self.common:
            push[:] = push[:1]
        center = self.spread * rng.standard_normal((n, d)) + rng.standard_normal(d)
        b = (mean @ center[:, :, None])[..., 0]
        extra = np.full(n, self.noise**2 if j == 1 else 0.0)
        H, b = mean[:, None] * (1 + tilt), b[:, None] + push
        return QuadraticOracles(H, b, np.full((n, j), 1 / j), self.weights(), extra, common=self.common)

    def laws(self) -> list[np.ndarray]:
        return participation_laws(self.participation, self.clients, self.E, self.rng("laws"))

    def anchors(self) -> tuple[float, np.ndarray, np.ndarray] | None:
        if not self.lam:
            return None
        rng = self.rng("anchors")
        return self.lam, rng.random((self.clients, self.dim)), rng.standard_normal((self.clients, self.dim))

    def view(self) -> EFLRun | StepsView:
        oracles = self.oracles()
        direction = self.rng("start").standard_normal(self.dim)
        w0 = oracles.star + self.start * direction / np.linalg.norm(direction)
        laws = round_laws(self.scheme, self.laws(), self.rounds, oracles.weights)
        if self.kind == "step":
            return reached(oracles, laws, w0, self.rng("path"))
        horizons = np.unique(np.concatenate([[0, 1, 2, 3], np.linspace(0, self.rounds, self.looks).astype(int)]))
        return quadratic_run(oracles, laws, w0, horizons[(horizons >= self.first_look) & (horizons <= self.rounds)], self.anchors())


@dataclass(frozen=True)
class LeastSquaresInstance(Named):
    """EFL without compression on ridge-regularised least squares with samples, in exact second
    moments."""

    seed: int
    clients: int = 3  # clients, E, rounds: N, E, T
    E: int = 5
    rounds: int = 60
    scheme: str = "C"  # scheme, participation: of `SCHEMES`, `PARTICIPATION`
    participation: str = "inactive"
    ridge: float = 0.1  # mu
    batch_size: int | None = None  # samples a step, drawn with replacement; None: all
    kind: str = "run"
    family: str = "least squares"
    losses, scenarios_told = "least squares", ""

    @property
    def name(self) -> str:
        batch = "full gradients" if self.batch_size is None else f"batch={self.batch_size}"
        text = f"{self.losses} N={self.clients} E={self.E} T={self.rounds} {self.scheme} {self.participation}"
        return f"{text} {batch} ridge={self.ridge:g}{self.scenarios_told} seed={self.seed}"

    def sizes(self) -> np.ndarray:
        """Draw the clients' numbers of samples."""
        return 5 + self.rng("sizes").integers(0, 20, self.clients)

    def laws(self) -> list[np.ndarray]:
        """Draw the laws of s_k."""
        return participation_laws(self.participation, self.clients, self.E, self.rng("laws"))

    def problem(self) -> Problem:
        """Draw the losses."""
        return random_least_squares(
            self.clients, 3, self.sizes(), ridge=self.ridge, weights="samples", seed=self.seed
        )

    def view(self) -> EFLRun:
        """Make the run."""
        problem = self.problem()
        x0 = self.rng("real start").standard_normal(problem.dim)
        rounds = round_laws(self.scheme, self.laws(), self.rounds, problem.weights)
        horizons = np.unique(np.linspace(1, self.rounds, 8).astype(int))
        return quadratic_run(oracles_of(problem, self.batch_size), rounds, x0, horizons)


@dataclass(frozen=True)
class RealInstance(LeastSquaresInstance):
    """A real run on ridge-regularised logistic regression."""

    clients: int = 10
    rounds: int = 30
    ridge: float = 1.0
    family: str = "logistic regression"
    data: str = "breast cancer"  # data, scenarios: 'synthetic' or 'breast cancer', and S
    scenarios: int = 200

    losses = derived(lambda q: f"logistic, {q.data}")
    scenarios_told = derived(lambda q: f" S={q.scenarios}")

    def problem(self) -> Problem:
        """Draw the losses, or deal the data."""
        how: dict[str, Any] = {"ridge": self.ridge, "weights": "samples"}
        if self.data == "synthetic":
            return random_logistic(self.clients, 6, self.sizes(), seed=self.seed, **how)
        data, alike = breast_cancer(), 1.0 if self.clients <= 30 else 10.0
        return federate(data, dirichlet(data.targets, self.clients, alike, seed=self.seed), **how)

    def view(self) -> EFLRun:
        """Make the run."""
        problem, law = self.problem(), Irregular(self.E, self.laws())
        x0 = self.rng("real start").standard_normal(problem.dim) / np.sqrt(problem.dim)
        how = (self.scenarios, self.seed, self.batch_size)
        return measured_run(problem, self.scheme, law, self.rounds, x0, *how)


SQUARES: tuple[dict[str, Any], ...] = (
    {"clients": 3, "E": 10, "batch_size": 1},
    {"clients": 10, "E": 5, "scheme": "A", "participation": "same incomplete", "batch_size": 2},
    {"clients": 30, "E": 1, "scheme": "B"},
    {"clients": 30, "E": 5, "scheme": "C-corrected", "participation": "incomplete", "batch_size": 4},
)
REAL: tuple[dict[str, Any], ...] = (
    {"data": "synthetic", "clients": 3, "E": 5, "scheme": "B", "participation": "inactive"},
    {"data": "synthetic", "clients": 10, "E": 10, "scheme": "C", "participation": "incomplete", "batch_size": 2},
    {"data": "synthetic", "clients": 30, "E": 1, "scheme": "A", "participation": "inactive", "batch_size": 1},
    {"clients": 10, "E": 5, "scheme": "A", "participation": "same incomplete"},
    {"clients": 30, "E": 1, "scheme": "C", "participation": "inactive", "batch_size": 4},
    {"clients": 100, "E": 5, "rounds": 12, "scheme": "C-corrected", "participation": "inactive"},
    {"clients": 10, "E": 10, "rounds": 20, "scheme": "B", "participation": "full", "batch_size": 4},
)


def _shape(kind: str, rng: np.random.Generator, seed: int, **given: Any) -> QuadraticInstance:
    """One shape, drawn over all of them; what is given stays."""
    scheme = given.pop("scheme", None) or str(rng.choice(SCHEMES))
    shape: dict[str, Any] = {
        "clients": int(rng.choice([1, 2, 3, 5, 10, 30] if kind == "run" else [1, 2, 3])),
        "dim": int(rng.integers(1, 4 if kind == "run" else 3)),
        "E": int(rng.choice([1, 2, 5, 10] if kind == "run" else [1, 2, 3, 4])),
        "rounds": int(rng.choice([20, 100, 300])) if kind == "run" else 6,
        "participation": str(rng.choice(PARTICIPATION)),
        "condition": float(rng.choice([1.0, 3.0, 30.0, 1e4])),
        "spread": float(rng.choice([0.0, 0.1, 1.0, 10.0])),
        "noise": float(rng.choice([0.0, 0.1, 1.0, 10.0])),
        "samples": int(rng.choice([1, 2, 4] if kind == "run" else [1, 2])),
        "skew": float(rng.choice([0.0, 0.5, 3.0])),
        "start": float(rng.choice([0.0, 0.01, 1.0, 10.0])),
        "lam": float(rng.choice([0.0, 0.0, 0.0, 0.1, 1.0])) if kind == "run" else 0.0,
    }
    shape |= given
    if kind == "step":  # everything a round can bring is enumerated
        shape["samples"] = 1 if shape["clients"] * shape["E"] > 4 else shape["samples"]
        shape["noise"] = shape["noise"] if shape["samples"] > 1 else 0.0
    if scheme == "A" and shape["clients"] > 10:
        shape["clients"] = 10
    if scheme == "C-corrected" and shape["participation"] == "departure":
        shape["participation"] = "inactive"  # a client that is never active again has no corrected coefficient
    return QuadraticInstance(seed, scheme=scheme, kind=kind, **shape)


def random_instance(kind: str, rng: np.random.Generator) -> QuadraticInstance:
    """One exact instance of any shape, for the search for counterexamples."""
    instance = _shape(kind, rng, int(rng.integers(2**31)), first_look=1)
    return replace(instance, common=instance.samples > 1 and instance.clients <= 5 and rng.random() < 0.3)


def in_floats(seed: int = 0, scale: float = 1.0) -> list[Any]:
    """Exact runs of every scheme and participation, and real ones."""
    rng = Stream(seed).generator("efl runs")
    out: list[Any] = []
    for i in range(max(8, round(32 * scale))):
        scheme, participation = SCHEMES[i % 4], PARTICIPATION[(i // 4 + i) % len(PARTICIPATION)]
        out.append(_shape("run", rng, seed * 1000 + i, scheme=scheme, participation=participation))
    for i in range(max(8, round(24 * scale))):
        scheme, participation = SCHEMES[i % 4], PARTICIPATION[(i // 4 + i) % len(PARTICIPATION)]
        out.append(_shape("step", rng, seed * 1000 + 500 + i, scheme=scheme, participation=participation))
    out += [RealInstance(seed * 1000 + 700 + i, **shape) for i, shape in enumerate(REAL)]
    out += [LeastSquaresInstance(seed * 1000 + 800 + i, **shape) for i, shape in enumerate(SQUARES)]
    # bias that only the J term bounds: long, one client gone, one curvature
    common: dict[str, Any] = {"clients": 2, "dim": 1, "E": 1, "rounds": 8000, "condition": 1.0, "skew": 0.0, "noise": 0.0}
    out.append(QuadraticInstance(seed * 1000 + 900, participation="departure", scheme="B", start=0.0, looks=20, **common))
    return out + _common_draws(seed)


def _common_draws(seed: int) -> list[QuadraticInstance]:
    """All clients with the same mini-batch: from one optimum, where only this noise moves them, and from afar."""
    shapes: list[dict[str, Any]] = [
        {"clients": 5, "E": 1, "condition": 1.0, "spread": 0.0, "start": 0.0, "participation": "full", "skew": 0.0},
        {"clients": 3, "E": 2, "participation": "incomplete"},
    ]
    both: dict[str, Any] = {"dim": 1, "samples": 2, "noise": 1.0, "common": True, "first_look": 1}
    return [
        QuadraticInstance(seed * 1000 + 920 + 10 * n + i, scheme=scheme, kind=kind, rounds=rounds, **both | shape)
        for n, (kind, rounds) in enumerate((("run", 60), ("step", 6)))
        for i, (scheme, shape) in enumerate((scheme, shape) for scheme in SCHEMES for shape in shapes)
    ]
