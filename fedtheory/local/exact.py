"""Exact local solves: proximal gradient where it contracts fast, a Newton step on the active set otherwise."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fedtheory.arrays import Array, astype_like, namespace, to_numpy
from fedtheory.errors import LocalSolveFailed
from fedtheory.local.objective import LocalObjective, LocalResult, LocalSolver, Rows
from fedtheory.problems.base import Problem

__all__ = ["Exact"]


@dataclass(frozen=True)
class Exact(LocalSolver):
    """The minimiser of the local objective to a KKT residual of `tolerance`, relative to the gradients that enter it.

    Zeros of y - anchor come from the soft threshold and are exact.

    Parameters
    ----------
    tolerance : float
        Bound on residual / max(1, largest coordinate of the terms of the optimality condition).

    Raises
    ------
    LocalSolveFailed
        With client and residual, when the tolerance was not reached.
    """

    tolerance: float = 1e-12

    def solve(self, problem: Problem, objective: LocalObjective, start: Array, rows: Rows) -> LocalResult:
        xp = namespace(start)
        beta, mu = problem.beta_k, problem.mu_k  # (N,)
        curvature = objective.curvature
        scalar = isinstance(curvature, float | int)
        q_max = curvature if scalar else float(xp.max(curvature))
        q_min = curvature if scalar else float(xp.min(curvature))
        step = astype_like(1.0 / (beta + q_max), start)[:, None, None]
        contraction = float(np.max((beta - mu + q_max - q_min) / (beta + q_max)))
        count = 3 if contraction <= 0 else math.ceil(math.log(1e-17) / math.log(min(contraction, 0.999)))
        y = start
        for _ in range(min(count, 60) + 1):
            gradient = problem.client_gradient(y) + objective.smooth_penalty_gradient(y)
            y = objective.prox(y - step * gradient, step)
        gradient = problem.client_gradient(y)
        residual = objective.kkt_residual(y, gradient)
        self._check(problem, objective, y, gradient, residual, rows)
        return LocalResult(y, residual)

    def _check(
        self, problem: Problem, objective: LocalObjective, y: Array, gradient: Array, residual: Array, rows: Rows
    ) -> None:
        xp = namespace(y)
        terms = xp.max(xp.abs(gradient), axis=-1) + xp.max(xp.abs(y - objective.center) * objective.curvature, axis=-1)
        scale = np.maximum(1.0, to_numpy(terms))
        excess = np.where(rows.valid, to_numpy(residual) / scale, 0.0)
        if not (excess <= self.tolerance).all():
            n, b = np.unravel_index(int(np.argmax(np.where(np.isnan(excess), np.inf, excess))), excess.shape)
            raise LocalSolveFailed(
                f"round {rows.round_index}, client {rows.clients[n]}: local KKT residual {excess[n, b]:.3g} is above "
                f"{self.tolerance:.3g}; the local objective may lack a unique minimiser: add curvature or a ridge"
            )
