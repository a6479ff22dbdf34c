"""The instances every statement about a round is run on: at least 500 random ones in five families.

An instance is a small recipe (`ProblemInstance`), built where it is needed, so that a campaign can be spread over processes.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from fedtheory.participation.cohorts import Uniform
from fedtheory.problems import generators
from fedtheory.problems.base import Problem
from fedtheory.problems.quadratic import Quadratic
from fedtheory.randomness import Stream

__all__ = ["FAMILIES", "ProblemInstance", "near_beta", "random_battery", "stalled_battery"]

# lambda_2/beta: just above the thresholds of Theorems A and B and of the repaired and printed Theorem 3.1, then far above.
RATIOS = (10.69, 22.84, 26.862, 27.001, 30.0, 100.0, 1000.0)
# lambda_1 relative to the size of the gradients at the optimum: from next to nothing to "nobody ever moves".
L1 = (1e-5, 0.001, 0.03, 0.3, 1.0, 10.0)
FAMILIES = {"quadratic": 200, "ill-conditioned": 80, "identical": 80, "logistic": 80, "huber": 80}
_CONDITION = 1e4


@dataclass(frozen=True)
class ProblemInstance:
    """One instance: a problem, an algorithm's lambdas and a cohort size.

    Attributes
    ----------
    family : key of `FAMILIES`, or 'stalled'
    clients, cohort, dim : m, P, d
    ratio, l1 : lambda_2/beta, and lambda_1 in units of the root mean square gradient coordinate at the optimum
    seed : of the problem and the start
    """

    family: str
    clients: int
    cohort: int
    dim: int
    ratio: float
    l1: float
    seed: int

    @property
    def name(self) -> str:
        return (
            f"{self.family} m={self.clients} P={self.cohort} d={self.dim} "
            f"l2/beta={self.ratio:g} l1={self.l1:g} seed={self.seed}"
        )

    @property
    def sampling(self) -> Uniform:
        return Uniform(self.cohort)

    def problem(self) -> Problem:
        """The problem itself (seeded)."""
        return _build(self)

    def lambdas(self, problem: Problem) -> tuple[float, float]:
        """lambda_1 and lambda_2."""
        star = problem.optimum().x
        gradients = problem.gradient(star)
        scale = math.sqrt(float((gradients**2).mean()))
        if scale < 1e-9 * float(problem.beta_k.max()):  # identical clients: gradients vanish at the optimum
            scale = float(problem.beta_k.max())
        return self.l1 * scale, self.ratio * float(problem.beta_k.max())

    def start(self, problem: Problem) -> np.ndarray:
        """The start of runs: a seeded normal point around the optimum."""
        if self.family == "stalled":
            return problem.optimum().x + 1.0  # where the gradient is beta, below lambda_1 = 1.01 beta
        rng = Stream(self.seed).generator("start")
        return problem.optimum().x + rng.standard_normal(problem.dim)

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "name": self.name}


def _build(i: ProblemInstance) -> Problem:
    heterogeneity = float(10.0 ** Stream(i.seed).generator("heterogeneity").uniform(-1, 1))
    options: dict[str, Any] = {"heterogeneity": heterogeneity, "seed": i.seed}
    if i.family == "quadratic":
        condition = 1.0 if i.dim == 1 else 10.0
        return generators.random_quadratic(i.clients, i.dim, condition=condition, **options)
    if i.family == "ill-conditioned":
        return generators.random_quadratic(i.clients, i.dim, condition=_CONDITION, **options)
    if i.family in ("identical", "stalled"):
        one = generators.random_quadratic(1, i.dim, condition=1.0 if i.dim == 1 else 10.0, heterogeneity=0.0, seed=i.seed)
        return Quadratic(np.repeat(one.hessians, i.clients, axis=0), np.repeat(one.minimisers, i.clients, axis=0))
    condition = 1.0 if i.dim == 1 else 10.0
    samples = [6 + 4 * k for k in range(i.clients)]
    if i.family == "logistic":
        return generators.random_logistic(i.clients, i.dim, samples, condition=condition, ridge=0.1, **options)
    return generators.random_huber(i.clients, i.dim, samples, condition=condition, ridge=0.05, **options)


def random_battery(seed: int = 0, scale: float = 1.0) -> list[ProblemInstance]:
    """The random instances: m from 2 to 6 with every P, d from 1 to 5, all ratios and all lambda_1, in `FAMILIES`.

    Parameters
    ----------
    scale : float
        Multiplies the number of instances (1.0: 520).
    """
    out = []
    cohorts = [(m, p) for m in range(2, 7) for p in range(1, m + 1)]
    for family, count in FAMILIES.items():
        rng = Stream(seed).generator(f"battery {family}")
        for n in range(max(len(cohorts), round(count * scale))):
            m, p = cohorts[n % len(cohorts)]  # every m and P before the rest is random
            least = 2 if family == "ill-conditioned" else 1
            dim = int(rng.integers(least, 6)) if n % 4 else least
            ratio, l1 = RATIOS[int(rng.integers(len(RATIOS)))], L1[int(rng.integers(len(L1)))]
            out.append(ProblemInstance(family, m, p, dim, ratio, l1, seed * 100_000 + n))
    return out


def stalled_battery(seed: int = 0) -> list[ProblemInstance]:
    """Identical clients, all taking part, lambda_1 just above their gradient: the sign rule never moves."""
    return [ProblemInstance("stalled", 2, 2, 1, ratio, 1.01, seed) for ratio in (50.0, 60.0, 80.0)]


def near_beta(seed: int = 0) -> list[ProblemInstance]:
    """lambda_2 of a few beta only, which Theorem E admits: on both sides of where its constants change, at 4.828."""
    return [
        ProblemInstance("quadratic", 4, 1, 2, 1.5353, 0.3, seed + 1),
        ProblemInstance("huber", 3, 2, 1, 1.6, 1.0, seed + 2),
        ProblemInstance("ill-conditioned", 3, 3, 2, 2.0, 0.3, seed + 3),
        ProblemInstance("identical", 3, 1, 1, 2.0, 10.0, seed + 4),
        ProblemInstance("logistic", 3, 1, 2, 4.8, 0.3, seed + 5),
        ProblemInstance("quadratic", 2, 1, 1, 4.85, 1.0, seed + 6),
    ]
