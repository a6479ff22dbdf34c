"""The theorem's bound where two clients a round take part: on the mean over who does."""

import numpy as np
import pytest
from test_feddyn import run

from fedtheory.algorithms import FedDyn
from fedtheory.participation import Uniform
from fedtheory.testing import assert_statement


@pytest.mark.federated_problem("steep-and-flat")
def test_its_theorem_bounds_the_mean_over_cohorts(federated_problem):
    problem, alpha = federated_problem, 2 * federated_problem.beta_k.max()
    rng, runs = np.random.default_rng(0), []
    for _ in range(40):  # seeds
        pairs = [rng.choice(problem.num_clients, 2, replace=False) for _ in range(30)]
        runs.append(run(problem, alpha, pairs, np.zeros(problem.dim)))
    trajectory = {name: np.stack([r[name] for r in runs], axis=1) for name in ("x", "h")}
    assert trajectory["x"].shape == (31, 40, problem.dim)  # rounds + 1, seeds, d
    assert_statement(
        "fedelasticnet/theorem-e", trajectory, problem, FedDyn(alpha), sampling=Uniform(2)
    )
