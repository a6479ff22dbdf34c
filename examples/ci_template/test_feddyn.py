"""FedDyn held to its theory; fedtheory's pytest plugin brings the problems, each with a certified optimum."""

import numpy as np
import pytest
from feddyn import feddyn

from fedtheory.algorithms import FedDyn
from fedtheory.participation import Uniform
from fedtheory.testing import assert_reaches, assert_statement, check_algorithm

KINDS = pytest.mark.federated_problem("quadratic", "logistic", "steep-and-flat")


def run(problem, alpha, cohorts, start):
    lr = 1 / (problem.beta_k.max() + alpha)
    return feddyn(problem.gradient_each, np.tile(start, (problem.num_clients, 1)), alpha, cohorts, lr)


def pairs(problem, rounds, seed):
    rng = np.random.default_rng(seed)
    return [rng.choice(problem.num_clients, 2, replace=False) for _ in range(rounds)]


@KINDS
def test_two_clients_a_round_end_at_the_optimum(federated_problem):
    problem, alpha = federated_problem, federated_problem.beta_k.max()
    models = run(problem, alpha, pairs(problem, 100, seed=0), np.zeros(problem.dim))["x"]
    gaps = problem.objective(models) - problem.optimum().lower_bound
    assert_reaches(gaps, 1e-9 * gaps[0], within=100)


@KINDS
def test_the_theorem_bounds_it(federated_problem):  # from the optimum, where the bound is least
    problem, alpha = federated_problem, 2 * federated_problem.beta_k.max()
    trajectory = run(problem, alpha, [np.arange(problem.num_clients)] * 200, problem.optimum().x)
    print(assert_statement("fedelasticnet/theorem-e", trajectory, problem, FedDyn(alpha)))


@pytest.mark.federated_problem("steep-and-flat")
def test_the_theorem_bounds_the_mean_over_cohorts(federated_problem):
    problem, alpha = federated_problem, 2 * federated_problem.beta_k.max()
    runs = [run(problem, alpha, pairs(problem, 30, seed), np.zeros(problem.dim)) for seed in range(40)]
    trajectory = {name: np.stack([r[name] for r in runs], axis=1) for name in ("x", "h")}  # (rounds + 1, seeds, d)
    print(assert_statement("fedelasticnet/theorem-e", trajectory, problem, FedDyn(alpha), sampling=Uniform(2)))


def adapter(start, clients, cohorts, learning_rate, local_steps, alpha):
    def gradients(points):
        return np.array([client.gradient(point) for client, point in zip(clients, points, strict=True)])

    starts, chosen = np.tile(start, (len(clients), 1)), [np.array(cohort) for cohort in cohorts]
    return feddyn(gradients, starts, alpha, chosen, learning_rate, local_steps)["x"]


def test_every_round_is_the_reference():
    check_algorithm(adapter, "feddyn")
