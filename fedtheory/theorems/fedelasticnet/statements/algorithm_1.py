"""FedElasticNet, Algorithm 1: what its fixed points are. The paper states no theorem for it; this is ours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fedtheory.verification.statement import Form, Mutant, Sides, Statement, eq, le

__all__ = ["STATEMENTS", "FixedPointView", "assumption_failure", "fixed_point"]


@dataclass
class FixedPointView:
    """A fixed point of Algorithm 1 under full participation. One state; m clients, d coordinates.

    Attributes
    ----------
    theta : (1, d); delta, grad, lambda1_s : (1, m, d)
        grad is grad L_k(theta + delta_k).
    grad_theta : (1, m, d)
    weights : (m, 1)
    residual : float
        Largest coordinate of |sum_k w_k delta_k|.
    """

    theta: Any
    delta: Any
    grad: Any
    grad_theta: Any
    lambda1_s: Any
    weights: Any
    beta: float
    lambda1: float
    lambda2: float
    residual: float

    def mean(self, values: Any) -> Any:
        """sum_k w_k over the clients: (1, m, ...) -> (1, ...)."""
        return (values * self.weights).sum(axis=1)


def assumption_failure(problem: Any, algorithm: Any) -> str | None:
    """Why the statement does not apply, or None."""
    from fedtheory.algorithms.fedelasticnet_prox import FedElasticNetProx

    if not isinstance(algorithm, FedElasticNetProx):
        return f"the statement is about FedElasticNet's Algorithm 1 (FedElasticNetProx), not {type(algorithm).__name__}"
    if algorithm.epsilon != 0:
        return f"threshold epsilon = {algorithm.epsilon:g}; the statement has none (0)"
    if algorithm.l2 <= 0:
        return f"lambda_2 = {algorithm.l2:g} is not > 0: the local minimisers need not be unique"
    return None if problem.convex else "some client's loss is not convex"


def fixed_point(problem: Any, algorithm: Any, x0: Any = None, rounds: int = 300, tolerance: float = 1e-11) -> FixedPointView:
    """Run Algorithm 1 with everyone taking part, then let scipy's root finder bring it to a standstill.

    Raises
    ------
    NotCertified
        When neither leaves a mean update below `tolerance` times the largest update (or the model's rounding error).
    """
    from scipy.optimize import root

    from fedtheory.clients.clients import Clients
    from fedtheory.errors import NotCertified
    from fedtheory.local.exact import Exact
    from fedtheory.participation.cohorts import Full
    from fedtheory.simulation.simulate import check_start

    everyone, solver = Full().enumerate(problem.num_clients), Exact()
    counts = problem.sample_counts if algorithm.aggregation != "cohort" else np.ones(problem.num_clients)
    weights = (counts / counts.sum())[:, None]

    def move(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        state = algorithm.init(x[None, :], problem.num_clients)
        clients = Clients(problem, everyone, solver, state.x)
        algorithm.round(state, clients)
        delta = clients.results[-1].y - state.x[:, None, :]
        return delta, (delta * weights).sum(axis=1)[0]

    def still(x: np.ndarray, delta: np.ndarray, mean: np.ndarray) -> bool:
        size = max(tolerance * np.abs(delta).max(), 8 * np.finfo(float).eps * (1 + np.abs(x).max()))
        return bool(np.abs(mean).max() <= size)

    x = check_start(problem, x0, 1)[0]
    delta, mean = move(x)
    for _ in range(rounds):
        if still(x, delta, mean):
            break
        x = x + mean
        delta, mean = move(x)
    else:
        for _ in range(3):
            x = root(lambda z: move(z)[1], x, method="hybr", tol=1e-14).x
            delta, mean = move(x)
            if still(x, delta, mean):
                break
        else:
            raise NotCertified(f"Algorithm 1 still moves by {np.abs(mean).max():.2g} a round: give a start nearer to rest")
    theta = x[None, :]
    grad = problem.gradient_each(theta[:, None, :] + delta)
    sub = np.where(delta != 0, algorithm.l1 * np.sign(delta), np.clip(-grad, -algorithm.l1, algorithm.l1))
    return FixedPointView(
        theta, delta, grad, problem.gradient(theta), sub, weights,
        float(problem.beta_k.max()), algorithm.l1, algorithm.l2, float(np.abs(mean).max()),
    )  # fmt: skip


def _noise(v: FixedPointView) -> float:
    """What standing still only up to `residual`, local KKT residuals and rounding leave in a gradient."""
    size = np.abs(v.grad).max() + v.lambda1 + v.beta * (1 + np.abs(v.theta).max())
    return (v.lambda2 + v.beta) * v.residual + 1e-11 * size


def _identity(v: FixedPointView, sign: int = -1) -> Sides:
    return eq(v.mean(v.grad), sign * v.mean(v.lambda1_s), v.mean(np.abs(v.grad)), vector=True, noise=_noise(v))


def _bound(v: FixedPointView, with_drift: bool = True) -> Sides:
    norm = np.sqrt((v.mean(v.grad_theta) ** 2).sum(axis=-1))
    drift = v.beta * v.mean(np.sqrt((v.delta**2).sum(axis=-1))[..., None])[..., 0]
    signs = np.sqrt((v.mean(v.lambda1_s) ** 2).sum(axis=-1))
    return le(norm, drift if with_drift else 0 * drift, signs, noise=_noise(v))


STATEMENTS = (
    Statement(
        "fedelasticnet/algorithm-1-fixed-point",
        "fixed points of Algorithm 1, and how far from stationary they are",
        "our statement on Algorithm 1 (the paper has none)",
        "fixed-point",
        (
            Form(
                "repaired",
                r"\sum_kw_k\delta_k=0,\quad\sum_kw_k\nabla L_k(\theta+\delta_k)=-\lambda_1\sum_kw_ks_k",
                _identity,
                {"any": "holds"},
                note="a fixed point may be an optimum though the clients disagree (L_k = (x - c_k)^2/2, c = +-1, lambda_1 = 1/10, "
                "lambda_2 = 1, x = 0), and another point though they agree (L_k = x^2/2 for all k, lambda_1 = 1, x = 1/2)",
                mutants=(Mutant("sign of s", lambda v: _identity(v, 1)),),
            ),
            Form(
                "distance to stationarity",
                r"\|\nabla R_w(\theta)\|\le\beta\sum_kw_k\|\delta_k\|+\lambda_1\|\sum_kw_ks_k\|",
                _bound,
                {"any": "holds"},
                mutants=(Mutant("drift dropped", lambda v: _bound(v, with_drift=False)),),
            ),
        ),
        ("every L_k is convex and beta-smooth", "full participation", "lambda_2 > 0, local problems solved exactly"),
        {"theta": "state.x", "delta_k": "theta_k - theta", "s_k": "exact subgradient of the l1 norm at delta_k", "w_k": "n_k/n or 1/m"},
        "sharpened",
    ),
)
