"""The least values of strongly convex clients, each bounded from below by its gradient."""

from typing import Any

import numpy as np

from fedtheory.errors import NotCertified
from fedtheory.store.resumable import cached_step

__all__ = ["client_minima"]


def client_minima(problem: Any, gap: float = 1e-10) -> np.ndarray:
    """Certified lower bounds of F_k^* over R^d, (N,): F_k(y) - ||grad F_k(y)||^2/(2 mu_k) after
    Newton steps from 0."""
    mu = problem.mu_k
    if not (mu > 0).all():
        raise NotCertified(f"client {int(np.argmin(mu))} is not strongly convex: no bound of F_k^* from its gradient; add a ridge")
    return cached_step("client minima", lambda: _descended(problem, mu, gap))


def _descended(problem: Any, mu: np.ndarray, gap: float) -> np.ndarray:
    """The bounds, by Newton steps that are halved where the value does not fall enough."""
    y = np.zeros((problem.num_clients, 1, problem.dim))
    value = problem.client_value(y)
    for _ in range(60):
        g = problem.client_gradient(y)
        left = (g**2).sum(axis=-1) / (2 * mu[:, None])
        if (left <= gap * np.maximum(1, np.abs(value))).all():
            return (value - left)[:, 0]
        step = np.linalg.solve(problem.client_hessian(y), g[..., None])[..., 0]
        slope, size = (g * step).sum(axis=-1), np.ones(value.shape)
        for _ in range(40):  # halve where the value does not fall enough
            new = problem.client_value(y - size[..., None] * step)
            rough = new > value - 1e-4 * size * slope + 1e-15 * np.abs(value)
            if not rough.any():
                break
            size = np.where(rough, size / 2, size)
        y, value = y - size[..., None] * step, new
    worst = int(np.argmax(left))
    raise NotCertified(f"the minimum of client {worst} is known to {float(left[worst, 0]):.3g} only, after 60 Newton steps")
