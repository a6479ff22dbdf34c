"""One round of a method on three one-dimensional quadratics, as the tests that work it out by hand call it.

f_k(x) = h_k (x - c_k)^2 / 2 with (h, c) = (1, 5), (3, -1), (1, 3/2); from x = 1 the gradients are -4, 6, -1/2.
"""

from __future__ import annotations

import numpy as np

from fedtheory import problems
from fedtheory.clients.clients import Clients
from fedtheory.local import Exact
from fedtheory.participation.cohorts import Cohort

HAND = problems.Quadratic(np.reshape([1.0, 3.0, 1.0], (3, 1, 1)), np.reshape([5.0, -1.0, 1.5], (3, 1)))


def after_one_round(layout, algorithm, state, members, solver=None, problem=HAND):
    """The new state (scenario 0, squeezed) and the messages (participants,) of a round with these members, dense or gathered."""
    cohort = Cohort(problem.num_clients, members=np.array([members]))
    cohort = cohort.dense() if layout == "dense" else cohort
    clients = Clients(problem, cohort, solver or Exact(), state.x)
    new = algorithm.round(state, clients)
    return type(new)(*(None if a is None else np.asarray(a)[0, ..., 0] for a in new)), [m[:, 0] for m in clients.sent_numpy()]


def server(value):
    """A server model (1, 1)."""
    return np.array([[float(value)]])


def memory(*values):
    """Return the clients' memory (1, N, 1)."""
    return np.array(values, dtype=float)[None, :, None]


def close(actual, expected):
    """Equal up to the rounding of a few operations."""
    np.testing.assert_allclose(actual, expected, rtol=1e-13, atol=1e-14)
