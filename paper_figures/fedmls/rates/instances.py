"""The instances on which rounds to epsilon are measured, with what FedMLS is told about them and what no method can beat."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np

from fedtheory.algorithms.fedmls import FedMLS, fedmls_parameters
from fedtheory.errors import InvalidInput
from fedtheory.local.sliding import SubgradientSliding
from fedtheory.problems.base import Problem
from fedtheory.problems.maximum_and_chain import MaximumAndChain
from fedtheory.problems.nonsmooth import LAD
from fedtheory.problems.nonsmooth_instances import ArjevaniShamir, TwoClientPull
from fedtheory.rates.fits import precision_floor
from fedtheory.simulation.simulate import simulate
from paper_figures.fedmls.rates.competitors import Trials, fedmls_last
from paper_figures.fedmls.rates.series import Series

__all__ = ["INSTANCES", "Case", "bounds", "cases", "chain_case", "lad_case", "lad_instance", "pull_case", "split_case"]

INSTANCES = {
    "pull": "two-client pull, made for each epsilon (s = 2 epsilon)",
    "fixed-pull": "two-client pull, fixed (s = 0.2)",
    "chain": "Arjevani-Shamir chain, made for each epsilon (d = about 1/(2 sqrt(2) epsilon))",
    "split": "maximum split over two clients beside a chain, made for each epsilon",
    "lad": "LAD, one fixed data set",
}
LAD_RADIUS = 8.0


@dataclass
class Case:
    """A problem with what FedMLS is told about it."""

    problem: Problem
    radius: float
    distance: float
    value: float  # F*

    def fedmls(self, epsilon: float, rounds: int | Literal["fewest", "printed"]) -> FedMLS:
        return fedmls_parameters(
            self.problem, epsilon, self.radius, self.distance, rounds=rounds, lipschitz=self.lipschitz, allow_long=True
        )

    def trials(self, epsilon: float) -> Trials:
        return Trials(self.problem, self.value, epsilon, self.radius)

    @cached_property
    def lipschitz(self) -> float:
        return self.problem.lipschitz_rms(self.radius)

    def with_lambda(self, epsilon: float, rounds: int, lam: float | None) -> FedMLS:
        """Theorem 2's parameters, or those with another lambda, on which T_k of line 4 depends."""
        made = self.fedmls(epsilon, rounds)
        return made if lam is None else replace(made, lam=lam)

    def gap(self, epsilon: float, rounds: int, lam: float | None = None) -> float:
        algorithm = self.with_lambda(epsilon, rounds, lam)
        x = fedmls_last(self.problem, algorithm)
        if np.isnan(x).any():
            x = simulate(self.problem, algorithm, rounds, record=(), local_solver=SubgradientSliding(threads=1)).x[0]
        return float(self.problem.objective(x)) - self.value

    def seconds(self, epsilon: float, rounds: int, lam: float | None = None) -> float:
        """A rough prediction: what a step costs in each engine, measured on a slow core."""
        steps, N, d = self.with_lambda(epsilon, rounds, lam).total_steps(), self.problem.num_clients, self.problem.dim
        if isinstance(self.problem, MaximumAndChain):
            return rounds * 1e-4 + steps * (1e-7 + 2.5e-9 * self.problem.share + 1e-8 * self.problem.length)
        return steps * N * (2.6e-8 + 4e-9 * d * max(1.0, 0.6 * float(np.max(self.problem.sample_counts))))


def pull_case(epsilon: float) -> Case:
    problem = TwoClientPull(epsilon)
    return Case(problem, 4.0, float(np.linalg.norm(problem.minimiser)), 0.0)


def chain_case(epsilon: float) -> Case | None:
    try:
        return Case(ArjevaniShamir.for_epsilon(epsilon), 2.0, 1.0, 0.0)
    except InvalidInput:  # no chain is short enough
        return None


def split_case(epsilon: float) -> Case | None:
    try:
        problem = MaximumAndChain.for_epsilon(epsilon)
    except InvalidInput:
        return None
    return Case(problem, 4.0, math.sqrt(2), problem.least_value)


def lad_instance(seed: int = 0, clients: int = 5, samples: int = 20, dim: int = 5) -> LAD:
    """Heterogeneous regression: targets a_kj'(w + v_k) + noise, ||w|| = 2, columns of a_kj scaled
    from 1 to 0.1; noise and the entries of v_k have standard deviation 1/2."""
    rng = np.random.default_rng(seed)
    features = rng.standard_normal((clients, samples, dim)) * np.geomspace(1, 0.1, dim)
    models = 2 * np.ones(dim) / math.sqrt(dim) + 0.5 * rng.standard_normal((clients, dim))
    return LAD(features, np.einsum("knd,kd->kn", features, models) + 0.5 * rng.standard_normal((clients, samples)))


def lad_case(seed: int = 0) -> tuple[Case, float]:
    """`lad_instance` with its certified optimum on the ball of radius 8, and how far F* may be from its value."""
    problem = lad_instance(seed)
    optimum = problem.optimum_on_ball(LAD_RADIUS)
    return Case(problem, LAD_RADIUS, float(np.linalg.norm(optimum.x)), optimum.value), precision_floor(optimum)


def cases(lad: Case) -> dict[str, Callable[[float], Case | None]]:
    """The instance for an epsilon, of every name of `INSTANCES`; None where there is none."""
    fixed = pull_case(0.1)
    return {"pull": pull_case, "fixed-pull": lambda e: fixed, "chain": chain_case, "split": split_case, "lad": lambda e: lad}


def bounds(name: str, make: Callable[[float], Case | None], epsilons: Sequence[float]) -> list[Series]:
    """Return the rounds that any method of a class needs before the server's model is good enough.
    The model is in the span of what was seen."""
    if name not in ("chain", "split"):
        return []
    rule = "any local work, any steps: a round for each of the chain's coordinates"
    out = [Series(name, "any method", "any method at all", "lower bound", rule)]
    if name == "split":
        rule = "one subgradient of each client a round, any steps: m rounds, the clients' shares"
        out.append(Series(name, "any span method", "one subgradient a round", "lower bound", rule))
    for epsilon in epsilons:
        case = make(epsilon)
        if case is not None and name == "chain":
            out[0].add(epsilon, case.problem.dim)
        elif case is not None and isinstance(case.problem, MaximumAndChain):
            out[0].add(epsilon, case.problem.length + 2)
            out[1].add(epsilon, case.problem.share, case.problem.share)
    return out
