"""The penalties of the local objectives: slopes by finite differences, the prox by its optimality, and mutants of both."""

from __future__ import annotations

import copy
import pickle
from dataclasses import dataclass, replace

import numpy as np
import pytest

from fedtheory.errors import UnknownName
from fedtheory.local.objective import LocalObjective

SHAPE = (2, 3, 5)  # (S, P, d)


def draw(seed=0):
    rng = np.random.default_rng(seed)
    return {name: rng.normal(size=SHAPE) for name in ("center", "linear", "anchor", "y")}


DATA = draw()
SMOOTH = {
    "FedAvg": {"center": DATA["center"]},
    "FedProx": {"center": DATA["center"], "curvature": 0.7},
    "SCAFFOLD": {"center": DATA["center"], "linear": DATA["linear"]},
    "FedDyn": {"center": DATA["center"], "linear": DATA["linear"], "curvature": 2.5},
    "curvature by coordinate": {"center": DATA["center"], "curvature": np.linspace(0.1, 2.0, 5)},
}
ELASTIC = {
    "Algorithm 1": {"center": DATA["center"], "curvature": 0.7, "l1": 0.3},
    "Algorithm 2": {"center": DATA["center"], "linear": DATA["linear"], "curvature": 0.2, "l1": 0.3},
    "Algorithm 3": {"center": DATA["center"], "linear": DATA["linear"], "curvature": 2.5, "l1": 0.3},
    "another anchor": {"center": DATA["center"], "curvature": 0.7, "l1": 0.3, "anchor": DATA["anchor"]},
}


def check_slope(objective, y):
    """Central differences of the penalty's value, exact for a quadratic up to rounding; y has no coordinate at the anchor."""
    slope = objective.smooth_penalty_gradient(y)
    if objective.l1:
        slope = slope + objective.l1 * np.sign(y - objective.l1_center)
    step = 1e-4
    assert np.abs(y - objective.l1_center).min() > step
    for i in range(y.shape[-1]):
        e = step * np.eye(y.shape[-1])[i]
        difference = (objective.penalty_value(y + e) - objective.penalty_value(y - e)) / (2 * step)
        np.testing.assert_allclose(np.broadcast_to(slope, y.shape)[..., i], difference, rtol=0, atol=1e-9)


def check_value(objective, y):
    """The printed form, term by term: -<linear, y> + 1/2 sum curvature (y - center)^2 + l1 ||y - anchor||_1."""
    for s, p in np.ndindex(*y.shape[:2]):
        expected = 0.0
        for i in range(y.shape[-1]):
            curvature = objective.curvature if np.ndim(objective.curvature) == 0 else objective.curvature[i]
            expected += curvature * (y[s, p, i] - objective.center[s, p, i]) ** 2 / 2
            if objective.linear is not None:
                expected -= objective.linear[s, p, i] * y[s, p, i]
            anchor = objective.center if objective.anchor is None else objective.anchor
            expected += objective.l1 * abs(y[s, p, i] - anchor[s, p, i])
        np.testing.assert_allclose(objective.penalty_value(y)[s, p], expected, rtol=1e-13)


@pytest.mark.parametrize("case", SMOOTH | ELASTIC)
def test_slope_is_the_derivative_of_the_value(case):
    objective = LocalObjective(**(SMOOTH | ELASTIC)[case])
    check_value(objective, DATA["y"])
    check_slope(objective, DATA["y"])


@dataclass(frozen=True)
class Detached(LocalObjective):
    """The penalty is computed on detached values: it has a value and no gradient."""

    def smooth_penalty_gradient(self, y):
        return np.zeros_like(y)


@dataclass(frozen=True)
class NormNotSquared(LocalObjective):
    def penalty_value(self, y):
        return self.curvature / 2 * np.sqrt(np.sum((y - self.center) ** 2, axis=-1))


@dataclass(frozen=True)
class WrongSign(LocalObjective):
    def smooth_penalty_gradient(self, y):
        return (y - self.center) * self.curvature + self.linear


@dataclass(frozen=True)
class WithoutHalf(LocalObjective):
    def penalty_value(self, y):
        return super().penalty_value(y) + self.curvature / 2 * np.sum((y - self.center) ** 2, axis=-1)


@pytest.mark.parametrize("mutant", [Detached, NormNotSquared, WrongSign, WithoutHalf])
def test_mutants_of_the_penalty_are_rejected(mutant):
    with pytest.raises(AssertionError):
        check_slope(mutant(**SMOOTH["FedDyn"]), DATA["y"])


def check_prox(objective, v, step):
    """p = prox(v) iff (v - p)/step is in l1 times the subdifferential of ||p - anchor||_1; compared with a grid as well."""
    p = objective.prox(v, step)
    step = np.broadcast_to(step, v.shape)
    dual, offset = (v - p) / step, p - objective.l1_center
    assert (np.abs(dual) <= objective.l1 + 1e-12).all()
    np.testing.assert_allclose(dual[offset != 0], objective.l1 * np.sign(offset[offset != 0]), rtol=0, atol=1e-12)
    assert 0 < (offset == 0).mean() < 1  # both branches, and the zeros are exact
    for other in np.linspace(-4, 4, 81):

        def value(z):
            return (z - v) ** 2 / (2 * step) + objective.l1 * np.abs(z - objective.l1_center)

        assert (value(p) <= value(np.full_like(p, other)) + 1e-12).all()


STEPS = [1.5, np.array([1.0, 2.0])[:, None, None]]


@pytest.mark.parametrize("case", ELASTIC)
@pytest.mark.parametrize("step", STEPS, ids=["scalar", "by scenario"])
def test_prox_is_optimal(case, step):
    check_prox(LocalObjective(**ELASTIC[case]), DATA["y"], step)


@dataclass(frozen=True)
class ProxAtZero(LocalObjective):
    """Sparsifies the model instead of the update."""

    def prox(self, v, step):
        return v - np.clip(v, -step * self.l1, step * self.l1)


@dataclass(frozen=True)
class ProxWithoutStep(LocalObjective):
    def prox(self, v, step):
        return super().prox(v, 1.0 + 0 * np.asarray(step))


@dataclass(frozen=True)
class HardThreshold(LocalObjective):
    def prox(self, v, step):
        offset = v - self.l1_center
        return self.l1_center + np.where(np.abs(offset) > step * self.l1, offset, 0.0)


@pytest.mark.parametrize("mutant", [ProxAtZero, ProxWithoutStep, HardThreshold])
def test_mutants_of_the_prox_are_rejected(mutant):
    with pytest.raises(AssertionError):
        check_prox(mutant(**ELASTIC["Algorithm 1"]), DATA["y"], 1.5)


def test_the_kkt_residual_vanishes_at_the_minimiser_only():
    """With f_k = 0 the minimiser of the elastic net penalty is center + soft(linear, l1)/curvature."""
    objective = LocalObjective(**ELASTIC["Algorithm 3"])
    linear = DATA["linear"]
    y = DATA["center"] + np.sign(linear) * np.maximum(np.abs(linear) - 0.3, 0) / 2.5
    y = np.where(np.abs(linear) <= 0.3, DATA["center"], y)
    zero = np.zeros(SHAPE)
    assert objective.kkt_residual(y, zero).max() < 1e-14
    off = y + np.where(y == DATA["center"], 1e-9, 0.0)  # an interior-point solver's zeros
    assert (np.abs(linear) <= 0.3).any() and objective.kkt_residual(off, zero).max() > 0.05
    assert (objective.kkt_residual(y + 1e-3, zero) > 1e-3).all()


def test_another_name_of_a_penalty_is_told_what_there_is():
    with pytest.raises(UnknownName, match=r"LocalObjective takes no mu: it takes center, .*; curvature is the coefficient of the quad"):
        LocalObjective(center=np.zeros((1, 1, 2)), mu=1.0)
    made = LocalObjective(np.zeros((1, 1, 2)), curvature=2.0)
    for same in (copy.copy(made), pickle.loads(pickle.dumps(made)), replace(made, l1=0.0), made.map(lambda v: v)):
        assert same.curvature == 2.0 and (same.center == made.center).all()
