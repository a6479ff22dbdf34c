"""MOPES and MOLES give the same run under NumPy, array_api_strict and torch, over every set; and projections keep their library."""

from __future__ import annotations

import array_api_strict
import numpy as np
import pytest

from fedtheory.arrays import astype_like, namespace, to_numpy
from fedtheory.central import MOLES, MOPES, Ball, Box, Consensus, Joint, L1Ball, NuclearBall, Simplex
from fedtheory.errors import InvalidInput
from fedtheory.problems.nonsmooth import LAD

torch = pytest.importorskip("torch")

BACKENDS = {"strict": array_api_strict.zeros(1, dtype=array_api_strict.float64), "torch": torch.zeros(1, dtype=torch.float64)}
SETS = [Ball(6, 0.7), Ball(6, 0.7, (1.0, 0, 0, 0, 0, -1.0)), Box(6, -0.5, 0.8), Simplex(6), L1Ball(6, 1.3), NuclearBall(2, 3, 1.3)]
RNG = np.random.default_rng(0)
PROBLEM = LAD(RNG.normal(size=(3, 8, 6)), RNG.normal(size=(3, 8)))
POINTS = np.concatenate([RNG.normal(size=(4, 6)), np.zeros((1, 6))])
backends = pytest.mark.parametrize("like", BACKENDS.values(), ids=BACKENDS)
sets = pytest.mark.parametrize("constraint", SETS, ids=lambda s: type(s).__name__)


@backends
@sets
@pytest.mark.parametrize("options", [{}, {"local_training": "exact-prox"}, {"noise_std": 0.5, "sigma": 0.5}], ids=str)
@pytest.mark.parametrize("method", [MOPES, MOLES])
def test_a_run_is_the_same_everywhere(constraint, like, method, options):
    joint = Joint(PROBLEM)
    more = {"C": constraint.diameter**2 / 500} if method is MOLES else {}
    algorithm = method(0.3, 5.0, 4, float(joint.lipschitz(constraint.norm_bound)[0]), **more, **options)
    plain, other = (algorithm.run(joint, constraint, seed=1, keep=True, like=a) for a in (None, like))
    np.testing.assert_allclose(other.iterates, plain.iterates, rtol=0, atol=1e-12)
    np.testing.assert_allclose(other.values, plain.values, rtol=0, atol=1e-12)
    assert (other.lmo_calls == plain.lmo_calls).all() and (other.subgradient_calls == plain.subgradient_calls).all()
    assert type(other.x) is np.ndarray and np.ptp(plain.iterates, axis=0).max() > 1e-3


@backends
def test_over_the_consensus_set(like):
    algorithm = MOPES(0.3, 1.0, 5, float(PROBLEM.lipschitz_rms(1.0)))
    plain, other = (algorithm.run(PROBLEM, Consensus(3, 6, 1.0), like=a) for a in (None, like))
    np.testing.assert_allclose(other.x, plain.x, rtol=0, atol=1e-12)


@backends
@sets
def test_projections_and_oracles_keep_the_library(constraint, like):
    there = astype_like(POINTS, like)
    found = constraint.project(there)
    assert namespace(found) is namespace(like)
    np.testing.assert_allclose(to_numpy(found), constraint.project(POINTS), rtol=0, atol=1e-14)
    for point in POINTS:
        vertex = constraint.linear_minimiser(astype_like(point, like))
        assert namespace(vertex) is namespace(like)
        np.testing.assert_allclose(to_numpy(vertex), constraint.linear_minimiser(point), rtol=0, atol=1e-14)
        assert constraint.distance(astype_like(point, like)) == pytest.approx(constraint.distance(point), abs=1e-14)
    with pytest.raises(InvalidInput, match="shape"):
        constraint.project(astype_like(np.zeros(5), like))
    with pytest.raises(InvalidInput, match="nan"):
        constraint.project(astype_like(np.full(6, np.nan), like))


def test_single_precision_stays_single():
    like = torch.zeros(1, dtype=torch.float32)
    joint = Joint(PROBLEM)
    algorithm = MOPES(0.3, 1.0, 4, float(joint.lipschitz(1.0)[0]))
    plain, single = (algorithm.run(joint, Simplex(6), like=a) for a in (None, like))
    assert single.x.dtype == np.float32 and np.abs(single.x - plain.x).max() < 1e-5
    assert np.abs(single.x - plain.x).max() > 0
