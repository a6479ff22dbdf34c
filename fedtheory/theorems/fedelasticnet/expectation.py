"""Expectations over the cohorts of one round, all of which the algorithm's own ``round`` is given."""

from __future__ import annotations

import numpy as np

from fedtheory.algorithms.fedelasticnet_dyn import FedElasticNetDyn, FedElasticNetDynState
from fedtheory.clients.clients import Clients
from fedtheory.local.exact import Exact
from fedtheory.local.objective import LocalObjective, LocalSolver
from fedtheory.participation.cohorts import Cohort, Full, Sampling, Uniform
from fedtheory.problems.base import Problem
from fedtheory.problems.linear import LeastSquares
from fedtheory.problems.quadratic import Quadratic
from fedtheory.steps import whole
from fedtheory.theorems.fedelasticnet.quantities import ElasticConstants, RoundView, inner, norm_sq
from fedtheory.theorems.fedelasticnet.states import State, uncompressed

__all__ = ["FederatedLosses", "constants_of", "full_round", "own_anchor", "random_states", "round_view"]


class FederatedLosses:
    """A `Problem` with its certified optimum, as the views need it."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.optimum = problem.optimum()
        self.theta_star = self.optimum.x
        self.grad_star = problem.gradient(self.theta_star)
        self._gap = max(self.optimum.value - self.optimum.lower_bound, 0.0)
        self._quadratic = isinstance(problem, Quadratic | LeastSquares)
        if self._quadratic:
            self._hessian = problem.full_hessian(self.theta_star)
            self._gradient = problem.full_gradient(self.theta_star)

    def values(self, x: np.ndarray) -> np.ndarray:
        return self.problem.client_losses(x)

    def gradients(self, x: np.ndarray) -> np.ndarray:
        return self.problem.gradient(x)

    def gradients_each(self, y: np.ndarray) -> np.ndarray:
        return self.problem.gradient_each(y)

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


def constants_of(problem: Problem, algorithm: FedElasticNetDyn, sampling: Sampling) -> ElasticConstants:
    size = sampling.size if isinstance(sampling, Uniform) else problem.num_clients
    return ElasticConstants(problem.num_clients, size, float(problem.beta_k.max()), algorithm.l1, algorithm.l2)


def _expand(state: State, count: int) -> FedElasticNetDynState:
    return FedElasticNetDynState(*(np.repeat(a, count, axis=0) for a in uncompressed(state)))


def _tile(cohort: Cohort, states: int) -> Cohort:
    """The C cohorts of a law for each of the states, states slowest."""
    if cohort.members is not None:
        return Cohort(cohort.num_clients, members=np.tile(cohort.members, (states, 1)))
    return Cohort(cohort.num_clients, mask=np.tile(cohort.taking_part(), (states, 1)))


def full_round(
    problem: Problem, algorithm: FedElasticNetDyn, solver: LocalSolver, state: State
) -> np.ndarray:
    """theta_tilde of (19) for all m clients, from the algorithm's own code: (S, m, d)."""
    everyone = Full().enumerate(problem.num_clients)
    clients = Clients(problem, _tile(everyone, state.x.shape[0]), solver, state.x)
    algorithm.round(state, clients)
    return clients.results[-1].y


def own_anchor(
    problem: Problem, algorithm: FedElasticNetDyn, solver: LocalSolver, state: State
) -> np.ndarray:
    """theta_tilde anchored at theta_k^{t-1}, as Theorem 3.1 prints it: (S, m, d)."""
    everyone = Full().enumerate(problem.num_clients)
    clients = Clients(problem, _tile(everyone, state.x.shape[0]), solver, state.x)
    objective = LocalObjective(center=state.local, linear=state.stored, curvature=algorithm.l2, l1=algorithm.l1)
    return clients.minimise(objective, start=state.local).y


def round_view(
    problem: Problem,
    algorithm: FedElasticNetDyn,
    sampling: Sampling,
    state: State,
    solver: LocalSolver | None = None,
    losses: FederatedLosses | None = None,
) -> RoundView:
    """One round from S given states, over all cohorts of the law.

    Parameters
    ----------
    state : FedElasticNetDynState with leading axis S
    """
    solver, losses = solver or Exact(), losses or FederatedLosses(problem)
    law = sampling.enumerate(problem.num_clients)
    states, cohorts = state.x.shape[0], law.scenarios
    clients = Clients(problem, _tile(law, states), solver, state.x)
    new = whole("round of all cohorts", lambda: tuple(uncompressed(algorithm.round(_expand(state, cohorts), clients))))
    after = [a.reshape(states, cohorts, *a.shape[1:]) for a in new]
    return RoundView(
        losses=losses,
        constants=constants_of(problem, algorithm, sampling),
        rule=algorithm.rule,
        theta=state.x,
        h=state.h,
        stored=state.stored,
        local=state.local,
        tilde=whole("full round", lambda: full_round(problem, algorithm, solver, state)),
        tilde_own=whole("own anchor", lambda: own_anchor(problem, algorithm, solver, state)),
        members=law.dense().mask,
        probability=law.probability,
        theta_next=after[0],
        h_next=after[2],
        stored_next=after[1],
        local_next=after[3],
    )


def random_states(
    problem: Problem, count: int, rng: np.random.Generator, lambda2: float, spread: float = 1.0
) -> FedElasticNetDynState:
    """States with arbitrary stored gradients (h their mean): the lemmas are claimed for all of them.

    Every fourth state has gamma next to the optimum, where only the memories are wrong and the bounds are closest.
    """
    m, d = problem.num_clients, problem.dim
    star, beta = problem.optimum().x, float(problem.beta_k.max())
    grad_star = problem.gradient(star)
    size = spread * 10.0 ** rng.uniform(-2, 1, (count, 1))
    offset = size * rng.standard_normal((count, d))
    local = star + offset[:, None, :] + size[:, None] * rng.standard_normal((count, m, d)) * rng.integers(0, 2, (count, 1, 1))
    kind = rng.integers(0, 3, (count, 1, 1))
    noise = beta * size[:, None] * rng.standard_normal((count, m, d))
    stored = np.where(kind == 0, grad_star + noise, np.where(kind == 1, problem.gradient_each(local), noise))
    h = stored.mean(axis=1)
    near = (np.arange(count) % 4 == 3)[:, None]
    theta = star + np.where(near, 1e-3 * beta / lambda2 * offset - h / lambda2, offset)
    return FedElasticNetDynState(theta, stored, h, local)
