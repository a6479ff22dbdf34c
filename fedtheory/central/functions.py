"""Convex functions for the centralised methods, as problems with one client, so that the federated
local solvers serve them too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fedtheory.arrays import Array, astype_like, namespace, to_numpy
from fedtheory.errors import InvalidInput, MissingCapability
from fedtheory.inputs import real_number, shown, whole_number
from fedtheory.optimum.duality import NonsmoothStructure
from fedtheory.problems.base import Problem

__all__ = ["Function", "Joint"]


class Function(Problem):
    """A convex function given by its value and one subgradient.

    Parameters
    ----------
    dim : int >= 1
    value : callable (B, d) -> (B,)
    subgradient : callable (B, d) -> (B, d)
    lipschitz : float or callable(radius) -> float, or None
        A Lipschitz constant (on the ball of that radius around 0).
    cvxpy : callable(variable) -> cvxpy expression, or None
    """

    name = "function"

    def __init__(
        self, dim: int, value: Callable[[np.ndarray], np.ndarray],
        subgradient: Callable[[np.ndarray], np.ndarray],
        lipschitz: float | Callable[[float], float] | None = None,
        cvxpy: Callable[[Any], Any] | None = None,
    ) -> None:
        self._one_loss_each(1, whole_number("dim", dim))
        for name, given in (("value", value), ("subgradient", subgradient)):
            if not callable(given):
                raise InvalidInput(f"{name} is {shown(given)}: give a function of points (B, d)")
        if lipschitz is not None and not callable(lipschitz):
            real_number("lipschitz", lipschitz, above=0, remedy="or give a function of the radius")
        self._value, self._subgradient, self._constant, self._cvxpy = value, subgradient, lipschitz, cvxpy

    def client_value(self, y: Array) -> Array:
        return self._value(y[0, ...])[None, ...]

    def client_gradient(self, y: Array) -> Array:
        return self._subgradient(y[0, ...])[None, ...]

    def lipschitz(self, radius: float) -> np.ndarray:
        """(1,)."""
        if self._constant is None:
            raise MissingCapability("this Function was given no Lipschitz constant: pass lipschitz=...")
        return np.array([float(self._constant(radius) if callable(self._constant) else self._constant)])

    def cvxpy_objective(self, variable: Any) -> Any:
        return super().cvxpy_objective(variable) if self._cvxpy is None else self._cvxpy(variable)


class Joint(Problem):
    """F = sum_k w_k f_k of a federated problem as the loss of one client: all data in one place.

    One subgradient of F costs one subgradient of each f_k.
    """

    name = "joint"

    def __init__(self, problem: Problem) -> None:
        if not isinstance(problem, Problem):
            raise InvalidInput(f"problem is {shown(problem)}: give the federated problem that is to be one client")
        self.problem = problem
        self.num_clients, self.dim = 1, problem.dim
        self.weights, self.sample_counts = np.ones(1), np.array([float(np.sum(problem.sample_counts))])

    def _spread(self, y: Array) -> Array:
        return namespace(y).broadcast_to(y, (self.problem.num_clients, *y.shape[1:]))

    def client_value(self, y: Array) -> Array:
        xp, w = namespace(y), astype_like(self.problem.weights, y)
        return xp.sum(self.problem.like(y).client_value(self._spread(y)) * w[:, None], axis=0, keepdims=True)

    def client_gradient(self, y: Array) -> Array:
        xp, w = namespace(y), astype_like(self.problem.weights, y)
        return xp.sum(self.problem.like(y).client_gradient(self._spread(y)) * w[:, None, None], axis=0, keepdims=True)

    def lipschitz(self, radius: float) -> np.ndarray:
        """(1,): sum_k w_k G_k, an upper bound."""
        return np.array([float(self.problem.weights @ to_numpy(self.problem.lipschitz(radius)))])

    def lipschitz_exact(self, radius: float) -> np.ndarray:
        """(1,): only one client's own constant is known to be sharp."""
        exact = getattr(self.problem, "lipschitz_exact", None)
        known = exact is not None and self.problem.num_clients == 1 and exact(radius)[0]
        return np.array([bool(known)])

    def nonsmooth_structure(self) -> NonsmoothStructure:
        return self.problem.nonsmooth_structure()

    def cvxpy_objective(self, variable: Any) -> Any:
        return self.problem.cvxpy_objective(variable)
