"""The instances that FedMLS's theorems are run on."""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np

from fedtheory.algorithms.fedmls import FedMLS
from fedtheory.problems import nonsmooth, nonsmooth_instances
from fedtheory.problems.base import Problem
from fedtheory.randomness import Stream
from fedtheory.theorems.fedmls.constants import k_min
from fedtheory.theorems.fedmls.notation import LINE_14, LINE_22, ROUNDS, SLACK
from fedtheory.theorems.fedmls.of_files import InFloats
from fedtheory.theorems.fedmls.quantities import MLSView, view_of_run
from fedtheory.theory import derived

ANALYTIC = ("two-client pull", "Nesterov's worst function", "Arjevani-Shamir chain")
FAMILIES = ("LAD", "quantile", "hinge", "hinge with ridge", "max of affine", "l1 distance", "Euclidean distance")
RADIUS = 3.0


def facts_of(rounds: str | int, average: str, norm: str, lam_scale: float = 1.0) -> frozenset[str]:
    """The facts of such a run: its K and lambda, and how lines 14 and 22 are read."""
    facts = ({LINE_14} if average == "printed" else set()) | ({LINE_22} if norm == "product" else set())
    return frozenset(facts | ({ROUNDS[str(rounds)]} if rounds in ROUNDS and lam_scale == 1 else set()))


@dataclass(frozen=True)
class MLSInstance(InFloats):
    """One instance of FedMLS's theorems.

    Attributes
    ----------
    family : of `FAMILIES` or `ANALYTIC`
    clients, dim : N, d
    noise : noise_std in units of the root mean square Lipschitz constant; 0 is deterministic
    accuracy : epsilon in units of G ||x_0 - x*||, for lambda = epsilon/G^2
    rounds : of Theorem 2 'printed', 'fewest' (K_min) or 'sharpened' (K_min of the sharpened Theorem
        1); or a number, as Theorem 1 holds for any K
    lam_scale : multiplies lambda (1 for Theorem 2)
    scenarios : of stochastic runs
    """

    family: str
    clients: int
    dim: int
    noise: float
    accuracy: float
    rounds: str | int
    lam_scale: float
    scenarios: int
    seed: int
    average: Literal["averaged", "printed"] = "averaged"  # line 14: 'averaged' or 'printed'
    norm: Literal["mean", "product"] = "mean"  # line 22: along grad f_i, or along grad f_i/N

    kind, reading = MLSView.kind, ""

    rule = derived(lambda q: "stochastic" if q.noise else "deterministic")
    facts = derived(lambda q: facts_of(q.rounds, q.average, q.norm, q.lam_scale))

    @property
    def name(self) -> str:
        kind = f"noise={self.noise:g}" if self.noise else "exact"
        where = f"{self.family} N={self.clients} d={self.dim} {kind}"
        lines = {"printed": ", line 14 as printed"}.get(self.average, "") + {"product": ", line 22 with grad f_i/N"}.get(self.norm, "")
        return f"{where} eps={self.accuracy:g} K={self.rounds} lam*{self.lam_scale:g} seed={self.seed}{lines}"

    def problem(self) -> Problem:
        """The problem, seeded; the clients' Lipschitz constants differ by up to a factor of 30."""
        rng = Stream(self.seed).generator(f"fedmls {self.family}")
        n, d = self.clients, self.dim
        if self.family == "two-client pull":
            return nonsmooth_instances.TwoClientPull(0.1)
        if self.family == "Nesterov's worst function":
            return nonsmooth_instances.NesterovWorst(d, num_clients=n)
        if self.family == "Arjevani-Shamir chain":
            return nonsmooth_instances.ArjevaniShamir(d, num_clients=n)
        size = 10.0 ** rng.uniform(-1.0, 0.5, n)
        if self.family == "l1 distance" or self.family == "Euclidean distance":
            centers = rng.standard_normal((n, d)) / math.sqrt(d)
            return (nonsmooth.L1Distance if self.family == "l1 distance" else nonsmooth.EuclideanDistance)(centers)
        if self.family == "max of affine":
            pieces = 4
            return nonsmooth.MaxAffine(size[:, None, None] * rng.standard_normal((n, pieces, d)), rng.standard_normal((n, pieces)))
        counts = rng.integers(3, 9, n)
        features = [s * rng.standard_normal((c, d)) for s, c in zip(size, counts, strict=True)]
        if self.family.startswith("hinge"):
            labels = [np.where(rng.random(c) < 0.5, -1.0, 1.0) for c in counts]
            return nonsmooth.Hinge(features, labels, ridge=0.1 if "ridge" in self.family else 0.0)
        planted = rng.standard_normal((n, d)) / math.sqrt(d)
        targets = [a @ x + 0.3 * rng.standard_normal(len(a)) for a, x in zip(features, planted, strict=True)]
        if self.family == "quantile":
            return nonsmooth.Quantile(features, targets, tau=0.8)
        return nonsmooth.LAD(features, targets)

    def algorithm(self, problem: Problem) -> FedMLS:
        """FedMLS with the parameters of Theorem 2, or with lambda scaled and K given; those of
        R^{Nd} where line 22 has grad f_i/N."""
        star = problem.optimum_on_ball(RADIUS).x
        g = problem.lipschitz_rms(RADIUS)
        distance_sq = max(float(((self.start(problem) - star) ** 2).sum()), 1e-4)
        epsilon = self.accuracy * g * math.sqrt(distance_sq)
        sigma = self.noise * g
        product = g * g * distance_sq / epsilon**2
        if self.rounds == "printed":
            rounds = math.ceil(6 * math.sqrt(2 * product))
        else:
            slack = SLACK.get(str(self.rounds))
            rounds = int(self.rounds) if slack is None else k_min(Fraction(product), slack)
        n = problem.num_clients if self.norm == "product" else 1
        return FedMLS(
            n * self.lam_scale * epsilon / g**2, n * distance_sq, rounds, RADIUS, g / math.sqrt(n),
            sigma=sigma / math.sqrt(n), noise_std=sigma, average=self.average, norm=self.norm,
            skip_last=False,
        )

    def start(self, problem: Problem) -> np.ndarray:
        """A seeded point of the ball."""
        x = Stream(self.seed).generator("fedmls start").standard_normal(problem.dim)
        return x * min(1.0, 0.9 * RADIUS / float(np.linalg.norm(x)))

    def view(self) -> MLSView:
        """The run. Raises `NotCertified` where the optimum on the ball cannot be certified."""
        problem = self.problem()
        scenarios = self.scenarios if self.noise else 1
        algorithm, x0 = self.algorithm(problem), self.start(problem)
        return view_of_run(problem, algorithm, x0, scenarios, self.seed, radius=RADIUS, facts=self.facts)


def mls_battery(seed: int = 0, scale: float = 1.0) -> list[MLSInstance]:
    """Every family, N from 1 to 20 with exact and with noisy subgradients, Theorem 2's parameters
    (printed K, K_min, also that of the sharpened Theorem 1) and free ones; K_min from 6 to 100."""
    out = []
    for family in FAMILIES:
        rng = Stream(seed).generator(f"fedmls battery {family}")
        for n in range(max(7, round(9 * scale))):
            clients = (2, 1, 3, 20, 5, 10)[n % 6]
            noise = 0.0 if n % 6 else float(rng.choice([0.5, 2.0]))
            rounds: str | int = ("fewest", "printed", int(rng.integers(1, 12)))[(n + n // 6) % 3]
            lam = 1.0 if isinstance(rounds, str) else float(10 ** rng.uniform(-1, 1))
            accuracy = float(rng.choice([0.5, 0.8])) if noise == 0 else 1.0
            average: Literal["averaged", "printed"]
            average = "printed" if n == 3 or (n == 6 and family in ("LAD", "l1 distance")) else "averaged"
            dim = int(rng.integers(1, 6))
            out.append(MLSInstance(family, clients, dim, noise, accuracy, rounds, lam, 100, seed * 1000 + n, average))
        for n, noise in enumerate((0.0, 0.5)):
            out.append(MLSInstance(family, 3, 2, noise, 1.0 if noise else 0.5, "sharpened", 1.0, 100, seed * 1000 + 500 + n))
    for family, clients, dim in zip(ANALYTIC, (2, 3, 4), (2, 8, 6), strict=True):
        every: tuple[str | int, ...] = ("fewest", "printed", 7)
        for n, rounds in enumerate(every):
            noise = 1.0 if rounds == 7 else 0.0
            out.append(MLSInstance(family, clients, dim, noise, 0.5, rounds, 1.0, 100, seed * 1000 + n))
    return [*out, *_noisy(seed), *_on_the_product(seed)]


def _on_the_product(seed: int) -> list[MLSInstance]:
    """Line 22 along grad f_i/N: every family once, exact subgradients and noisy ones, Theorem 2's
    printed K and any other."""
    out = []
    for n, family in enumerate(FAMILIES):
        rounds: str | int
        noise, rounds, lam, clients = ((0.0, "printed", 1.0, 3), (0.5, "printed", 1.0, 8), (0.0, 2, 0.01, 20), (1.0, 7, 0.01, 2))[n % 4]
        out.append(MLSInstance(family, clients, 3, noise, 0.8, rounds, lam, 50, seed * 1000 + 800 + n, norm="product"))
    return out


MANY_ROUNDS = {"LAD": (3, 2, 12), "l1 distance": (1, 2, 64)}  # clients, dim, scenarios


def _noisy(seed: int) -> list[MLSInstance]:
    """Noisy subgradients with 1 to 20 clients on every family, where the family's number of clients
    is free, and K_min = 100."""
    out = []
    for family in (*FAMILIES, *ANALYTIC[1:]):  # the two-client pull has two
        chain = family == "Arjevani-Shamir chain"  # an even number of clients, and of links
        for n, clients in enumerate((2, 6, 20) if chain else (1, 5, 20)):
            noise, rounds = (0.5, "fewest") if n % 2 == 0 else (2.0, "sharpened")
            out.append(MLSInstance(family, clients, 2 + 2 * chain, noise, 1.0, rounds, 1.0, (50, 24, 12)[n], seed * 1000 + 600 + n))
    for n, (family, (clients, dim, scenarios)) in enumerate(MANY_ROUNDS.items()):
        out.append(MLSInstance(family, clients, dim, 0.5, 0.06, "fewest", 1.0, scenarios, seed * 1000 + 700 + n))
    return out
