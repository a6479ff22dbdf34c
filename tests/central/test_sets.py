"""Constraint sets against cvxpy: projections, linear minimisers, diameters, and what is refused."""

from __future__ import annotations

import math

import cvxpy as cp
import numpy as np
import pytest

from fedtheory.central import (
    Ball,
    Box,
    Consensus,
    L1Ball,
    NuclearBall,
    Simplex,
)
from fedtheory.errors import InvalidInput, MissingCapability

SETS = [
    Ball(6, 1.3),
    Ball(6, 1.3, (0.5, -1.0, 0, 0, 2.0, 0)),
    Box(6, -0.5, 0.8),
    Box(6, (0, -1, -2, 0.3, -1, 0), (0, 1, 2, 0.4, 0, 0.1)),
    Simplex(6, 1.5),
    L1Ball(6, 1.3),
    NuclearBall(2, 3, 1.3),
    NuclearBall(3, 2, 0.7),
]
ids = [f"{type(s).__name__}-{i}" for i, s in enumerate(SETS)]
every_set = pytest.mark.parametrize("constraint", SETS, ids=ids)


def points(count=8):
    """Inside, outside, far outside, and with ties."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(count, 6)) * np.array([0.05, 0.3, 1, 1, 3, 30, 1, 1])[:count, None]
    x[-1] = 1.0
    x[-2, :3] = x[-2, 3]
    return x


@every_set
def test_projection_against_cvxpy(constraint):
    variable, target = cp.Variable(6), cp.Parameter(6)
    solve = cp.Problem(cp.Minimize(cp.sum_squares(variable - target)), constraint.constraints(variable))
    projected = constraint.project(points())
    for x, p in zip(points(), projected):
        target.value = x
        solve.solve(solver="CLARABEL", tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
        assert np.linalg.norm(p - variable.value) <= 1e-5 * max(1, np.linalg.norm(x))


@every_set
def test_projection_and_oracle_certify_each_other(constraint):
    """p = P(x) exactly when <x - p, s - p> <= 0 for every s of the set: its maximum is found by the oracle."""
    for x in points():
        p = constraint.project(x)
        farthest = constraint.linear_minimiser(p - x)
        assert (x - p) @ (farthest - p) <= 1e-12 * max(1.0, float(x @ x))
        assert constraint.distance(p) <= 1e-12 and constraint.distance(farthest) <= 1e-12
    assert np.allclose(constraint.project(points()), [constraint.project(x) for x in points()], atol=0)


@every_set
def test_oracle_against_cvxpy_and_diameter_by_ascent(constraint):
    variable, slope = cp.Variable(6), cp.Parameter(6)
    solve = cp.Problem(cp.Minimize(slope @ variable), constraint.constraints(variable))
    for x in points(6):
        slope.value = x
        assert x @ constraint.linear_minimiser(x) == pytest.approx(solve.solve(solver="CLARABEL"), rel=1e-6, abs=1e-6)
    # alternating oracle calls climb ||s - t||: a lower bound on the diameter, and in these sets from some start the diameter
    best, largest = 0.0, 0.0
    starts = [*np.random.default_rng(1).normal(size=(40, 6)), *np.eye(6), *-np.eye(6)]
    for g in starts:
        s, t = constraint.linear_minimiser(g), constraint.linear_minimiser(-g)
        for _ in range(5):
            s = constraint.linear_minimiser(-(s - t))
            t = constraint.linear_minimiser(s - t)
            best = max(best, float(np.linalg.norm(s - t)))
            largest = max(largest, float(np.linalg.norm(s)), float(np.linalg.norm(t)))
    assert best == pytest.approx(constraint.diameter, rel=1e-6)
    assert largest <= constraint.norm_bound * (1 + 1e-12) and largest >= 0.6 * constraint.norm_bound


def test_large_nuclear_oracle_agrees_with_the_full_decomposition():
    matrix = np.random.default_rng(0).normal(size=(230, 210))
    s = NuclearBall(230, 210, 2.0).linear_minimiser(matrix.ravel())
    assert matrix.ravel() @ s == pytest.approx(-2 * np.linalg.norm(matrix, 2), rel=1e-9)
    assert not NuclearBall(230, 210).linear_minimiser(np.zeros(230 * 210)).any()


def test_consensus():
    x = np.arange(12.0)
    assert Consensus(3, 4).project(x).tolist() == [4, 5, 6, 7] * 3
    short = Consensus(3, 4, radius=1.0)
    p = short.project(x)
    variable = cp.Variable(4)
    cp.Problem(cp.Minimize(cp.sum_squares(cp.hstack([variable] * 3) - x)), [cp.norm(variable) <= 1]).solve()
    assert np.allclose(p, np.tile(variable.value, 3), atol=1e-5)
    with pytest.raises(MissingCapability, match="MOPES"):
        Consensus(3, 4).linear_minimiser(x)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: L1Ball(0), "dim"),
        (lambda: L1Ball(3, 0.0), "radius"),
        (lambda: Ball(2, 1.0, (1.0,)), "center"),
        (lambda: Box(2, 1.0, 0.0), "empty"),
        (lambda: Box(2, (0, 0, 0), 1.0), "lower"),
        (lambda: Simplex(3, math.inf), "total"),
        (lambda: NuclearBall(0, 2), "rows"),
        (lambda: Consensus(2, 2, -1.0), "radius"),
    ],
)
def test_bad_sets(make, message):
    with pytest.raises(InvalidInput, match=message):
        make()
