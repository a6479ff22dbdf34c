"""The compiled steps are those of NumPy: a tile by hand, and whole solves with and without them."""

from __future__ import annotations

import numpy as np
import pytest

from fedtheory import Uniform, simulate
from fedtheory.algorithms import FedElasticNetDyn
from fedtheory.compiled import available
from fedtheory.local import quadratic
from fedtheory.local.quadratic_kernels import compiled_steps
from fedtheory.problems import random_quadratic

pytestmark = pytest.mark.skipif(not available(), reason="there is no Numba")


def test_two_steps_by_hand():
    """d = 1, z <- soft(v, 1), v <- z/2 + 3: v = 4, z = 3, v = 4.5, z = 3.5, v = 4.75; and from v = 1/2: z = 0, v = 3, z = 2, v = 4."""
    v = np.array([[[4.0], [0.5]]])
    z, b, m = np.zeros_like(v), np.full_like(v, 3.0), np.full((1, 1, 1), 0.5)
    compiled_steps()(z, v, b, m, np.array([-1.0]), np.array([1.0]), 2)
    assert v.ravel().tolist() == [4.75, 4.0] and z.ravel().tolist() == [3.5, 2.0]


@pytest.mark.parametrize(("clients", "points", "dim", "count"), [(1, 1, 1, 1), (3, 7, 5, 4), (2, 327, 50, 11), (5, 64, 8, 3)])
def test_a_tile_as_numpy_makes_it(clients, points, dim, count):
    rng = np.random.default_rng(clients)
    v, b = rng.standard_normal((2, clients, points, dim))
    m, high = rng.standard_normal((clients, dim, dim)) / dim, rng.random(clients)
    again, at = v.copy(), np.empty_like(v)
    for _ in range(count):
        at = again - again.clip(-high[:, None, None], high[:, None, None])
        again = at @ m + b
    z = np.zeros_like(v)
    compiled_steps()(z, v, b, m, -high, high, count)
    np.testing.assert_allclose(v, again, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(z, at, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("dim", [1, 6, 33])
def test_whole_runs_with_and_without_them_agree(dim, monkeypatch):
    problem = random_quadratic(5, dim, seed=1, condition=10.0 if dim > 1 else 1.0)
    method = FedElasticNetDyn(0.3, 30 * float(problem.beta_k.max()))
    called = []
    real = quadratic.compiled_steps
    monkeypatch.setattr(quadratic, "compiled_steps", lambda: called.append(1) or real())
    how = {"rounds": 3, "sampling": Uniform(2), "scenarios": 17, "seed": 2}
    plain = simulate(problem, method, **how).final.x
    assert not called, "so little work is not worth a compiled loop"
    monkeypatch.setattr(quadratic, "COMPILED", 0.0)
    fused = simulate(problem, method, **how).final.x
    assert called
    np.testing.assert_allclose(fused, plain, rtol=1e-12, atol=1e-14)


def test_a_number_that_is_none_stays_one():
    v = np.array([[[np.nan], [np.inf]]])
    z, b = np.zeros_like(v), np.zeros_like(v)
    compiled_steps()(z, v, b, np.ones((1, 1, 1)), np.array([-1.0]), np.array([1.0]), 1)
    assert np.isnan(z[0, 0, 0]) and np.isinf(z[0, 1, 0])
