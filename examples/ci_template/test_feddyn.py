"""FedDyn held to its theory; fedtheory's pytest plugin brings the problems, each with a certified optimum."""

import numpy as np
import pytest
from feddyn import feddyn

from fedtheory.algorithms import FedDyn
from fedtheory.testing import assert_reaches, assert_statement

pytestmark = pytest.mark.federated_problem("quadratic", "logistic", "steep-and-flat")


def run(problem, alpha, cohorts, start):
    starts, lr = np.tile(start, (problem.num_clients, 1)), 1 / (problem.beta_k.max() + alpha)
    return feddyn(problem.gradient_each, starts, alpha, cohorts, lr)


def test_two_clients_a_round_end_at_the_optimum(federated_problem):
    problem, rng = federated_problem, np.random.default_rng(0)
    pairs = [rng.choice(problem.num_clients, 2, replace=False) for _ in range(100)]
    models = run(problem, problem.beta_k.max(), pairs, np.zeros(problem.dim))["x"]
    gaps = problem.objective(models) - problem.optimum().lower_bound
    assert_reaches(gaps, 1e-9 * gaps[0], within=100)


def test_its_theorem_bounds_it(federated_problem):
    problem, alpha = federated_problem, 2 * federated_problem.beta_k.max()
    everybody = [np.arange(problem.num_clients)] * 200
    trajectory = run(problem, alpha, everybody, problem.optimum().x)
    assert_statement("fedelasticnet/theorem-e", trajectory, problem, FedDyn(alpha))
