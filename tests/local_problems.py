"""Small problems of every smooth kind, elastic objectives on them, and the residual of their optimality condition."""

from __future__ import annotations

import numpy as np

from fedtheory import problems
from fedtheory.local import LocalObjective


def quadratic(rng: np.random.Generator, clients: int = 3, dim: int = 8, condition: float = 1e4) -> problems.Quadratic:
    turns = np.linalg.qr(rng.standard_normal((clients, dim, dim)))[0]
    hessians = np.einsum("nij,j,nkj->nik", turns, np.geomspace(1 / condition, 1, dim), turns)
    return problems.Quadratic((hessians + hessians.transpose(0, 2, 1)) / 2, rng.standard_normal((clients, dim)))


def least_squares(rng: np.random.Generator, clients: int = 3, dim: int = 8) -> problems.LeastSquares:
    return problems.LeastSquares(
        rng.standard_normal((clients, 20, dim)), rng.standard_normal((clients, 20)), ridge=0.01
    )


def logistic(rng: np.random.Generator, clients: int = 3, dim: int = 8, ridge: float = 1e-3) -> problems.Logistic:
    labels = np.where(rng.random((clients, 20)) < 0.5, -1.0, 1.0)
    return problems.Logistic(rng.standard_normal((clients, 20, dim)), labels, ridge=ridge)


def huber(rng: np.random.Generator, clients: int = 3, dim: int = 8) -> problems.Huber:
    return problems.Huber(rng.standard_normal((clients, 20, dim)), rng.standard_normal((clients, 20)), ridge=0.01)


PROBLEMS = {"quadratic": quadratic, "least squares": least_squares, "logistic": logistic, "huber": huber}


def elastic(rng: np.random.Generator, problem: problems.Problem, curvature: float, l1: float, points: int = 5):
    shape = (problem.num_clients, points, problem.dim)
    center = rng.standard_normal(shape)
    return LocalObjective(center, 0.1 * rng.standard_normal(shape), curvature * float(problem.beta_k.max()), l1), center


def kkt(problem: problems.Problem, o: LocalObjective, y: np.ndarray) -> np.ndarray:
    """Largest violation of -gradient in l1 * (subdifferential of |.|), written apart from the library."""
    g = problem.client_gradient(y) - o.linear + o.curvature * (y - o.center)
    out = np.zeros(y.shape)
    offset = y - o.center
    for sign in (-1, 1):
        here = np.sign(offset) == sign
        out[here] = np.abs(g + o.l1 * sign)[here]
    zero = offset == 0
    out[zero] = np.maximum(np.abs(g) - o.l1, 0)[zero]
    return out.max(axis=-1)
