"""FedMLS written a second time, plainly and for one scenario, from the poster's pseudocode and the
reading notes: what the library is compared with, and what the proof steps are tested on without
it."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import ceil

import numpy as np

from fedtheory.theorems.fedmls.quantities import MLSConstants, MLSView


def project(u: np.ndarray, radius: float) -> np.ndarray:
    norm = np.linalg.norm(u, axis=-1, keepdims=True)
    return u * np.minimum(1.0, radius / np.maximum(norm, 1e-300))


def steps(k: int, rounds: int, g_sq: float, sigma_sq: float, lam: float, d: float) -> int:
    exact = (4 * Fraction(g_sq) + Fraction(sigma_sq)) * Fraction(lam) ** 2 * rounds * k**2 / (2 * Fraction(d))
    return max(1, ceil(exact))


def fedmls(
    subgradient: Callable[[np.ndarray], np.ndarray],
    x0: np.ndarray,
    clients: int,
    rounds: int,
    lam: float,
    d: float,
    radius: float,
    g_sq: float,
    noise: float = 0.0,
    rng: np.random.Generator | None = None,
    average_line_14: bool = True,
) -> dict[str, np.ndarray]:
    """All iterates of one run; subgradient maps (N, d) to (N, d)."""
    dim = len(x0)
    x = [x0.copy()]
    z = [x0.copy()]
    xp = [np.tile(x0, (clients, 1))]
    zp = [np.tile(x0, (clients, 1))]
    zt = [np.tile(x0, (clients, 1))]
    grads = [np.zeros((clients, dim))]
    counts = []
    for k in range(1, rounds + 1):
        beta, gamma = 4 / (lam * k), 2 / (k + 1)
        t_k = steps(k, rounds, g_sq, noise**2, lam, d)
        counts.append(t_k)
        yp = (1 - gamma) * xp[-1] + gamma * zp[-1]
        y = (1 - gamma) * x[-1] + gamma * z[-1]
        z.append(project(z[-1] - (y - yp.mean(axis=0)) * k / 4, radius))
        x.append((1 - gamma) * x[-1] + gamma * z[-1])
        g = (yp - y) / lam
        u = u0 = zp[-1]
        average = np.zeros_like(u)
        for t in range(1, t_k + 1):
            s = subgradient(u)
            if noise:
                s = s + rng.standard_normal(s.shape) * noise / np.sqrt(dim)
            u = project(u - (s + beta * (u - u0) + g) / ((1 + t / 2) * beta), radius)
            theta = 2 * (t + 1) / (t * (t + 3))
            average = (1 - theta) * average + theta * u
        grads.append(g)
        zp.append(u)
        zt.append(average)
        xp.append((1 - gamma) * xp[-1] + gamma * (average if average_line_14 else u))
    names = ("x", "z", "x_client", "z_client", "z_average", "gradient")
    out = {n: np.stack(v) for n, v in zip(names, (x, z, xp, zp, zt, grads), strict=True)}
    return out | {"steps": np.array(counts)}


def view(
    runs: list[dict[str, np.ndarray]],
    values: Callable[[np.ndarray], np.ndarray],
    lam: float,
    d: float,
    g_i: np.ndarray,
    sigma: float,
    x_star: np.ndarray,
    points: np.ndarray,
) -> MLSView:
    """A view of equally likely runs; values maps (..., N, d) to (..., N)."""
    stacked = {n: np.stack([r[n] for r in runs], axis=-1) for n in runs[0] if n != "steps"}

    def scenario_values(u: np.ndarray) -> np.ndarray:
        return np.moveaxis(values(np.moveaxis(u, -1, 0)), 0, -1)

    x = stacked["x"]
    everyone = np.repeat(x[:, None], len(g_i), axis=1)
    best = float(values(np.repeat(x_star[None], len(g_i), axis=0)).mean())
    constants = MLSConstants(
        len(runs[0]["steps"]), lam, d, g_i, np.full(len(g_i), sigma), float(((x[0, :, 0] - x_star) ** 2).sum()), runs[0]["steps"]
    )
    return MLSView(
        constants,
        **stacked,
        values=scenario_values,
        excess=scenario_values(everyone).mean(axis=1) - best,
        noise=1e-12,
        points=np.concatenate([x_star[None], points]),
        exact=sigma == 0,
    )
