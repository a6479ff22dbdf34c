"""One round of Algorithm 3 from given states, and what is known of a problem's optimum."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedtheory.algorithms.fedelasticnet_dyn import FedElasticNetDynState as State
from fedtheory.participation.cohorts import Cohort, Sampling, Uniform
from fedtheory.problems.base import Problem
from fedtheory.problems.linear import LeastSquares
from fedtheory.problems.quadratic import Quadratic
from fedtheory.theorems.fedelasticnet.quantities import inner, norm_sq
from fedtheory.theory.rounds.declare import Facts
from fedtheory.theory.rounds.measured import RoundQuantities
from fedtheory.theory.rounds.oracles import ProblemWorld, probabilities, repeated, rows, run, whole

__all__ = ["FederatedLosses", "round_of", "round_view"]


class FederatedLosses:
    """A problem with its certified optimum: R - R* at any points, and what is not known of it."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.optimum = problem.optimum()
        self.theta_star = self.optimum.x
        self._gap = max(self.optimum.value - self.optimum.lower_bound, 0.0)
        self._quadratic = isinstance(problem, Quadratic | LeastSquares)
        if self._quadratic:
            self._hessian = problem.full_hessian(self.theta_star)
            self._gradient = problem.full_gradient(self.theta_star)

    def excess(self, x: np.ndarray) -> np.ndarray:
        if self._quadratic:  # no cancellation: Taylor's expansion at theta* is exact
            r = x - self.theta_star
            return inner(r @ self._hessian, r) / 2 + r @ self._gradient + self._gap
        return self.problem.objective(x) - self.optimum.lower_bound

    def noise(self, x: np.ndarray) -> np.ndarray:
        eps = np.finfo(float).eps
        if self._quadratic:
            return self._gap + 32 * eps * norm_sq(x - self.theta_star) * np.abs(self._hessian).max()
        return self._gap + 32 * eps * (np.abs(self.problem.objective(x)) + abs(self.optimum.value))


def round_view(on: Any, algorithm: Any, sampling: Sampling, state: State) -> RoundQuantities:
    """One round from S given states, over all cohorts of the law; of losses in fractions in these.

    Parameters
    ----------
    on : Problem, or a world of `fedtheory.theory.rounds.oracles`
    state : FedElasticNetDynState with leading axis S
    """
    world = ProblemWorld(on) if isinstance(on, Problem) else on
    law = sampling.enumerate(world.num_clients)
    cohorts = rows(law, np.tile(np.arange(law.scenarios), len(state.x)))
    chance = probabilities(sampling, law, world.exact)
    return round_of(world, algorithm, cohorts, chance, sampling, repeated(state, law.scenarios))


def round_of(
    world: Any, algorithm: Any, cohorts: Cohort, chance: Any, sampling: Sampling, state: State
) -> RoundQuantities:
    """One round, of which the states stand one for each cohort and are all of it that is given.

    Parameters
    ----------
    chance : (C,), of so many cohorts in a row from one state
    """
    size = sampling.size if isinstance(sampling, Uniform) else world.num_clients
    counts = {"N": world.num_clients, "d": world.dim, "P": size}
    counts = {name: whole(count, world.exact) for name, count in counts.items()}
    facts = Facts({"rule": algorithm.rule, **world.constants, **counts})
    path = run(world, algorithm, {}, state.x, [cohorts], state=state._asdict())
    return RoundQuantities(world, facts, path, chance, algorithm)
