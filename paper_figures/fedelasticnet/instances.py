"""Problems for figures, drawn by recipes.

A `ProblemInstance` is a small recipe, built where it is needed, so that it can be sent to another process.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedtheory.participation.cohorts import Uniform
from fedtheory.problems import generators
from fedtheory.problems.base import Problem
from fedtheory.problems.quadratic import Quadratic
from fedtheory.randomness import Stream

__all__ = ["L1", "ProblemInstance"]

# lambda_1 relative to the size of the gradients at the optimum: from next to nothing to "nobody ever moves".
L1 = (1e-5, 0.001, 0.03, 0.3, 1.0, 10.0)
_CONDITION = 1e4


@dataclass(frozen=True)
class ProblemInstance:
    """One instance: a problem, an algorithm's lambdas and a cohort size.

    Attributes
    ----------
    family : 'quadratic', 'ill-conditioned', 'identical', 'logistic' or 'huber'
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
        rng = Stream(self.seed).generator("start")
        return problem.optimum().x + rng.standard_normal(problem.dim)


def _build(i: ProblemInstance) -> Problem:
    heterogeneity = float(10.0 ** Stream(i.seed).generator("heterogeneity").uniform(-1, 1))
    options: dict[str, Any] = {"heterogeneity": heterogeneity, "seed": i.seed}
    if i.family == "quadratic":
        condition = 1.0 if i.dim == 1 else 10.0
        return generators.random_quadratic(i.clients, i.dim, condition=condition, **options)
    if i.family == "ill-conditioned":
        return generators.random_quadratic(i.clients, i.dim, condition=_CONDITION, **options)
    if i.family == "identical":
        one = generators.random_quadratic(1, i.dim, condition=1.0 if i.dim == 1 else 10.0, heterogeneity=0.0, seed=i.seed)
        return Quadratic(np.repeat(one.hessians, i.clients, axis=0), np.repeat(one.minimisers, i.clients, axis=0))
    condition = 1.0 if i.dim == 1 else 10.0
    samples = [6 + 4 * k for k in range(i.clients)]
    if i.family == "logistic":
        return generators.random_logistic(i.clients, i.dim, samples, condition=condition, ridge=0.1, **options)
    return generators.random_huber(i.clients, i.dim, samples, condition=condition, ridge=0.05, **options)
