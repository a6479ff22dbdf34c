"""A fixed point of FedElasticNet's Algorithm 1: how it is found, and what it makes measurable."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy  # its optimize is loaded when first used

from fedtheory.clients.clients import Clients
from fedtheory.errors import NotCertified
from fedtheory.local.exact import Exact
from fedtheory.participation.cohorts import Full
from fedtheory.simulation.simulate import check_start
from fedtheory.steps import Loop
from fedtheory.theory.judge.setting import ClosedView

__all__ = ["FixedPointView", "fixed_point"]


@dataclass
class FixedPointView(ClosedView):
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


def fixed_point(problem: Any, algorithm: Any, x0: Any = None, rounds: int = 300, tolerance: float = 1e-11) -> FixedPointView:
    """Run Algorithm 1 with everyone taking part, then let scipy's root finder bring it to a standstill.

    Raises
    ------
    NotCertified
        When neither leaves a mean update below `tolerance` times the largest update (or the model's rounding error).
    """
    everyone = Full().enumerate(problem.num_clients)
    solver = Exact(method="newton")  # to the last digits: those of a proximal gradient end at the tolerance
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

    loop = Loop("rounds", (check_start(problem, x0, 1)[0],))
    (x,) = loop.state
    delta, mean = move(x)
    for _ in loop.upto(rounds):
        if still(x, delta, mean):
            break
        x = x + mean
        delta, mean = move(x)
        loop.state = (x,)
    else:
        for _ in range(3):
            x = scipy.optimize.root(lambda z: move(z)[1], x, method="hybr", tol=1e-14).x
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
