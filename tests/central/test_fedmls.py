"""FedMLS is MOPES on the consensus set."""

from __future__ import annotations

import math

import cvxpy as cp
import numpy as np
import pytest

from fedtheory import simulate
from fedtheory.algorithms.fedmls import FedMLS
from fedtheory.central import (
    MOLES,
    MOPES,
    Consensus,
    Joint,
    L1Ball,
)
from fedtheory.errors import InvalidInput
from fedtheory.problems.nonsmooth import LAD, EuclideanDistance, MaxAffine
from fedtheory.testing import assert_bound_holds


def federated():
    rng = np.random.default_rng(3)
    return [
        LAD(rng.normal(size=(4, 7, 3)), rng.normal(size=(4, 7))),
        MaxAffine(rng.normal(size=(3, 5, 3)), rng.normal(size=(3, 5))),
        EuclideanDistance(rng.normal(size=(5, 3))),
    ]


CONSTANTS = {"lam": 0.3, "D": 2.0, "rounds": 9, "lipschitz": 2.0, "sigma": 0.5}
X0 = np.array([0.5, -0.8, 0.3])


def both(problem, server_projection=True, noise_std=0.0, radius=1.1, **fedmls):
    """Server models and local models of FedMLS and of MOPES, (K + 1, d) and (K + 1, N, d)."""
    method = FedMLS(**{**CONSTANTS, **fedmls}, radius=radius, server_projection=server_projection, noise_std=noise_std)
    run = simulate(problem, method, CONSTANTS["rounds"], x0=X0, keep_states=True, seed=5)
    consensus = Consensus(problem.num_clients, problem.dim, radius if server_projection else None)
    central = MOPES(**CONSTANTS, radius=radius, noise_std=noise_std).run(
        problem, consensus, np.tile(X0, problem.num_clients), seed=5, keep=True
    )
    federated = np.stack([s.x[0] for s in run.states]), np.stack([s.x_local[0] for s in run.states])
    shape = (-1, problem.num_clients, problem.dim)
    return federated, (central.iterates.reshape(shape), central.local_iterates.reshape(shape)), central


@pytest.mark.parametrize("noise_std", [0.0, 0.5])
@pytest.mark.parametrize("server_projection", [True, False])
@pytest.mark.parametrize("problem", federated(), ids=lambda p: type(p).__name__)
def test_fedmls_is_mopes_on_the_consensus_set(problem, server_projection, noise_std):
    (x, x_local), (u, u_local), central = both(problem, server_projection, noise_std)
    assert (u == u[:, :1]).all()  # consensus
    np.testing.assert_allclose(u[:, 0], x, rtol=0, atol=1e-11)
    np.testing.assert_allclose(u_local, x_local, rtol=0, atol=1e-11)
    assert np.abs(x[-1] - x[0]).max() > 0.05 and central.projections[-1] == 9  # one projection is one exchange


def test_fedmls_in_the_product_norm_is_the_same_mopes():
    problem = federated()[0]
    scale = 4.0
    product = {"lam": 0.3 * scale, "D": 2.0 * scale, "lipschitz": 2.0 / math.sqrt(scale), "sigma": 0.5 / math.sqrt(scale)}
    (x, _), (u, _), _ = both(problem, norm="product", **product)
    np.testing.assert_allclose(u[:, 0], x, rtol=0, atol=1e-11)


def test_fedmls_as_printed_and_mixed_norms_are_not_mopes():
    problem = federated()[0]
    for wrong in ({"average": "printed"}, {"norm": "product"}):
        (x, _), (u, _), _ = both(problem, **wrong)
        assert np.abs(u[:, 0] - x).max() > 1e-5  # a million times what the equal ones differ by at most


def test_joint_problem_over_a_set():
    """All data in one place: LAD over the l1 ball, against cvxpy on the same set."""
    problem = federated()[0]
    joint, constraint = Joint(problem), L1Ball(3, 0.4)
    variable = cp.Variable(3)
    solve = cp.Problem(cp.Minimize(problem.cvxpy_objective(variable)), constraint.constraints(variable))
    least = solve.solve(solver="CLARABEL", tol_gap_abs=1e-10, tol_gap_rel=1e-10)
    g = float(joint.lipschitz(0.4)[0])
    assert g == pytest.approx(float(problem.weights @ problem.lipschitz(0.4)))
    x = np.random.default_rng(0).normal(size=(6, 3))
    np.testing.assert_allclose(joint.objective(x), problem.objective(x), rtol=1e-12)
    np.testing.assert_allclose(joint.full_gradient(x), problem.full_gradient(x), rtol=1e-12)
    distance_sq = float(variable.value @ variable.value)
    for algorithm in (MOPES.for_accuracy(0.3, g, distance_sq), MOLES.for_accuracy(0.5, g, distance_sq, constraint.diameter)):
        run = algorithm.run(joint, constraint, np.zeros(3))
        assert_bound_holds(run.values[-1] - least, algorithm.bound(distance_sq), noise=1e-8)
        assert constraint.distance(run.x) <= 1e-12 and run.values[-1] >= least - 1e-8
    with pytest.raises(InvalidInput, match=r"Joint\(problem\)"):
        algorithm.run(problem, constraint)
