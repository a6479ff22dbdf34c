"""A user's problem as a world may take it: quadratic losses, in fractions, other weights.

A number of a problem's is read as the simplest fraction that rounds to it, so that 1/3 and 0.1 are
what they are meant to be, and weights are divided by their sum: a problem is judged that rounds to
the user's.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fedtheory.errors import InvalidInput, MissingCapability
from fedtheory.problems.base import Problem
from fedtheory.problems.linear import LeastSquares
from fedtheory.problems.quadratic import Quadratic
from fedtheory.rational import simplest_each

__all__ = ["coordinates_of", "distance_off", "quadratics_of", "reweighted", "weights_of"]


def distance_off(problem: Problem, found: Any) -> float:
    """Bound the distance of a certified point from the minimiser: ||g||/mu for a gradient g.

    The gradient itself is known up to the rounding of what it is made of, the clients' gradients
    and L ||x||.
    """
    at = np.stack([found.x, 0 * found.x])
    steepest, L = np.linalg.norm(problem.gradient(at), axis=-1).max(), problem.beta_k.max()
    made_of = float(steepest) + float(L) * float(np.linalg.norm(found.x))
    return (float(found.kkt_residual) + 1e-14 * made_of) / float(problem.mu_k.min())


def weights_of(problem: Problem) -> np.ndarray:
    """p^k (N,) in fractions, of sum 1. Raises `InvalidInput` where one of them is 0."""
    if not problem.weights.min() > 0:
        k = int(np.argmin(problem.weights))
        raise InvalidInput(f"client {k} has p^k = 0, the limit is > 0: leave it out")
    w = simplest_each(problem.weights)
    return w / w.sum()


def quadratics_of(problem: Problem) -> tuple[np.ndarray, np.ndarray]:
    """Hessians (N, d, d) and H_k c_k (N, d) of quadratic clients, in floats.

    Raises `MissingCapability` for other losses.
    """
    if isinstance(problem, LeastSquares):
        return np.asarray(problem.gram), np.asarray(problem.moment)
    if isinstance(problem, Quadratic):
        return problem.hessians, (problem.hessians * problem.minimisers[:, None, :]).sum(axis=-1)
    name = type(problem).__name__
    raise MissingCapability(
        f"{name} is no quadratic loss: use problems.Quadratic or problems.LeastSquares"
    )


def coordinates_of(problem: Problem) -> tuple[np.ndarray, np.ndarray]:
    """h and c (N, d) of clients sum_i h_ki (x_i - c_ki)^2/2, in fractions.

    Raises `MissingCapability`: losses that are not quadratic, or whose coordinates mix: what is not
    0 is named.
    """
    H, b = quadratics_of(problem)
    h = np.diagonal(H, axis1=1, axis2=2)
    off = abs(H - h[:, :, None] * np.eye(problem.dim))
    if off.max() > 1e-12 * abs(H).max():
        k, i, j = (int(v) for v in np.unravel_index(np.argmax(off), off.shape))
        raise MissingCapability(
            f"the Hessian of client {k} has {float(H[k, i, j]):.6g} at ({i}, {j}), the limit is 0: "
            "the form is about quadratics whose coordinates do not mix; use diagonal Hessians"
        )
    if not h.min() > 0:
        k = int(np.argmin(h.min(axis=1)))
        least = float(h[k].min())
        raise InvalidInput(
            f"client {k} has the curvature {least:.6g}, the limit is > 0: add a ridge"
        )
    c = problem.minimisers if isinstance(problem, Quadratic) else b / h
    return simplest_each(h), simplest_each(c)


def reweighted(problem: Problem, weights: np.ndarray) -> Problem:
    """The same clients with other weights (N,) over their sum; those of weight 0 are left out."""
    some = np.flatnonzero(weights > 0)
    other = problem.subset(some)
    kept = np.asarray(weights, dtype=float)[some]
    other.weights = kept / float(kept.sum())
    return other
