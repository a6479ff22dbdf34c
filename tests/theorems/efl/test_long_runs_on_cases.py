"""From which round on a run of EFL's elastic term is long enough to be judged, where coordinates mix."""

from __future__ import annotations

import numpy as np
import pytest

from fedtheory import problems
from fedtheory.theorems.efl import elastic_world
from fedtheory.theorems.efl.elastic_world import LONG_RUN

H = np.array([[3 / 7, 5 / 3], [5 / 2, 6 / 5], [4 / 3, 7 / 4]])
C = np.array([[3 / 2, -2 / 3], [-5 / 4, 7 / 3], [2 / 5, -3.0]])
U, P = np.array([[5 / 4, 1 / 2], [1 / 3, 3 / 2], [2 / 3, 7 / 5]]), np.array([0.2, 0.3, 0.5])
TURN, LAM = np.array([[0.6, -0.8], [0.8, 0.6]]), 0.75
TURNED = problems.Quadratic([TURN @ np.diag(row) @ TURN.T for row in H], C @ TURN.T, P)


@pytest.mark.parametrize("order", [[0, 1, 2], [1, 2, 0], [2, 0, 1]])
def test_a_run_is_long_enough_from_the_round_on_in_which_its_bound_is(order):
    """|M^T| times the start's distance <= 1e-7 (|c_1 - w| + max_k |c_k - c_1|), M read off rounds that are played.

    The bound is that of the run from w = c_1, V = U c_1: it ends within 1e-7 of that distance, and a round earlier it is not asked.
    """
    matrices, c = TURNED.hessians[order], (C @ TURN.T)[order]

    def of(rounds):
        diagonal = np.diagonal(matrices, axis1=1, axis2=2)
        return elastic_world.ElasticView(P[order], diagonal, c, U[order], LAM, 1 / 50, rounds, H=matrices)

    sums = U.sum(axis=0)

    def played(x):
        y = [x[:2] - (M @ (x[:2] - at) + LAM * (sums * x[:2] - x[2:])) / 50 for M, at in zip(matrices, c)]
        return np.append(sum(p * z for p, z in zip(P[order], y)), sum(u * z for u, z in zip(U[order], y)))

    zero = played(np.zeros(4))
    M = np.array([played(x) - zero for x in np.eye(4)]).T
    at_rest = np.linalg.solve(np.eye(4) - M, zero)
    run = np.append(c[0], sums * c[0])
    away = abs(run - at_rest)
    first = [abs(c[0][i] - at_rest[i]) + max(abs(own[i] - c[0][i]) for own in c) for i in (0, 1)]
    power, rounds = np.eye(4), 0
    while (abs(power)[:2] @ away > 1e-7 * np.array(first)).any():
        power, run, rounds = M @ power, played(run), rounds + 1
    assert rounds > 400 and not of(rounds - 1).contracts and of(rounds).contracts
    assert (abs(run - at_rest)[:2] <= 1e-7 * np.array(first)).all()
    assert of(rounds).has(LONG_RUN) == (rounds >= 1000)
