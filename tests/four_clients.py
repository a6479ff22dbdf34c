"""Four clients with least squares, the cohorts of five rounds, and the models of our simulation of them."""

from __future__ import annotations

import numpy as np

from fedtheory import simulate
from fedtheory.problems import LeastSquares
from fedtheory.testing.audit.ours import Given

SIZES, COHORTS = (5, 9, 7, 6), ((0, 1, 2, 3), (1, 3), (2,), (0, 3), (3, 1, 2))
DRAWN = np.random.default_rng(3)
PROBLEM = LeastSquares([DRAWN.normal(size=(n, 3)) for n in SIZES], [DRAWN.normal(size=n) for n in SIZES])
START = DRAWN.normal(size=3)


def simulated(algorithm, solver, **how):
    """The server's model after every round."""
    run = simulate(
        PROBLEM, algorithm, rounds=len(COHORTS), x0=START, sampling=Given(COHORTS), local_solver=solver, record=(),
        keep_states=True, **how,
    )  # fmt: skip
    return run.server_models()[1:, 0]
