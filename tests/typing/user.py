"""A user's script as a type checker sees it: `make lint` reads it with mypy, and test_user_script.py runs it."""

from __future__ import annotations

from typing import assert_type

import numpy as np

from fedtheory import problems, testing, theorems
from fedtheory.algorithms import FedAvg, FedDyn, FedElasticNetDyn
from fedtheory.local import GradientSteps
from fedtheory.optimum import Optimum
from fedtheory.participation import Full, Uniform
from fedtheory.rates import Contraction
from fedtheory.simulation import Trajectory, simulate
from fedtheory.theory.judge import Bound, Checks, Statement, bound, verify


def main() -> None:
    problem = problems.Quadratic(np.ones((3, 1, 1)), np.array([[0.0], [1.0], [5.0]]))
    assert_type(problem.dim, int)
    assert_type(problem.optimum(), Optimum)
    run = simulate(problem, FedAvg(), rounds=20, sampling=Uniform(2), local_solver=GradientSteps(2, 0.1), scenarios=4)
    assert_type(run, Trajectory)
    assert_type(run.x, "np.ndarray")
    assert run.x.shape == (4, 1)
    statement = theorems.get("fedelasticnet/theorem-3.1")
    assert_type(statement, Statement)
    checks = verify(statement, problem, FedElasticNetDyn(l1=0.1, l2=30.0), sampling=Full(), rounds=3)
    assert_type(checks, Checks)
    assert_type(statement.verify(problem, FedElasticNetDyn(l1=0.1, l2=30.0), sampling=Full(), rounds=3), Checks)
    assert_type(statement.bound(problem, FedDyn(30.0), 5), Bound)
    assert_type(checks[0].tightness, float)
    assert_type(checks.verdict, str)
    assert testing.BoundCheck is not None
    gaps = 0.9 ** np.arange(101)
    assert_type(testing.assert_contraction(gaps, 0.9, window=(0, 100)), Contraction)
    kept = simulate(problem, FedDyn(2.0), rounds=5, keep_states=True)
    assert_type(testing.assert_statement("fedelasticnet/theorem-e", kept, problem), Checks)
    assert_type(bound(statement, problem, FedDyn(30.0), 5), Bound)


if __name__ == "__main__":
    main()
