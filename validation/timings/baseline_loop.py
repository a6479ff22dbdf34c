"""The yardstick of the speed figures: FedElasticNet's Algorithm 3 as a plain NumPy loop over scenarios and clients.

It does the arithmetic of the batched run: the same cohorts, as many gradient evaluations of the same form.
What does not depend on the scenario is computed once, outside the loops.
"""

from __future__ import annotations

import numpy as np

__all__ = ["run"]


def run(
    gram: np.ndarray,
    moment: np.ndarray,
    step: np.ndarray,
    count: int,
    l1: float,
    l2: float,
    cohorts: np.ndarray,
) -> tuple[np.ndarray, float]:
    """Server models (S, d) after all rounds, and the largest last step of a local solve.

    gram (N, d, d), moment (N, d): gradients gram_k y - moment_k. step (N,): proximal gradient's. cohorts: (rounds, S, P).
    """
    clients, dim = moment.shape
    rounds, scenarios, size = cohorts.shape
    matrix = np.eye(dim) - step[:, None, None] * (gram + l2 * np.eye(dim))
    x = np.zeros((scenarios, dim))
    stored = np.zeros((scenarios, clients, dim))
    local = np.zeros((scenarios, clients, dim))
    h = np.zeros((scenarios, dim))
    worst = 0.0
    for t in range(rounds):
        for s in range(scenarios):
            theta, total, change = x[s], np.zeros(dim), np.zeros(dim)
            for k in cohorts[t, s]:
                threshold = step[k] * l1
                m, g = matrix[k], stored[s, k]
                b = -step[k] * (gram[k] @ theta - moment[k] - g)
                z, v = np.zeros(dim), b
                for _ in range(count - 1):
                    z = v - v.clip(-threshold, threshold)
                    v = z @ m + b
                p = v - v.clip(-threshold, threshold)
                worst = max(worst, np.sqrt((z - p) @ (z - p)))
                y = theta + p
                delta = y - theta
                new = g - l2 * delta - l1 * np.sign(delta)
                change += new - g
                stored[s, k] = new
                local[s, k] = y
                total += y
            h[s] += change / clients
            x[s] = total / size - h[s] / l2
    return x, worst
