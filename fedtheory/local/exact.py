"""Exact local solves: a direct or proximal gradient path where that is cheap, a semismooth Newton path otherwise."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, cast

import numpy as np

from fedtheory.arrays import Array, all_true, astype_like, epsilon, namespace, to_numpy
from fedtheory.errors import Diverged, InvalidInput, LocalSolveFailed
from fedtheory.local.newton import least_curvature, newton
from fedtheory.local.objective import (
    NUMBERS,
    LocalObjective,
    LocalResult,
    LocalSolver,
    Rows,
    residual_scale,
)
from fedtheory.local.quadratic import (
    REFINED,
    affine_proximal_gradient,
    curvature_bounds,
    direct_solve,
    inverses,
    is_affine,
    kept,
)
from fedtheory.problems.base import Problem

__all__ = ["Exact"]

_REDUCTION = 1e-16  # of the distance to the minimiser, by proximal gradient
_PROX_STEPS = 300  # the most for which proximal gradient is cheaper than Newton's linear systems (curvature about 0.06 beta)
_AFFINE_STEPS = 1000  # the same on the NumPy path of quadratic clients (curvature about 0.02 beta)
_FLAT = 1e-12  # curvature, relative to the largest, below which a minimiser does not count as unique
_METHODS = ("auto", "prox", "direct", "newton")


@dataclass(frozen=True)
class Exact(LocalSolver):
    """The minimiser of the local objective, to a KKT residual of `tolerance`.

    The residual is the largest coordinate of the distance of 0 to the subdifferential. It is compared with
    ``tolerance * max(1, |linear| + curvature |y - center| + l1)`` (largest coordinates) plus what rounding y alone can cause,
    ``32 eps (beta_k + curvature) ||y||``. A tolerance below 32 eps (3.8e-6 in single precision) counts as 32 eps. Zeros of
    y - anchor come from the soft threshold and are exact.

    Paths, chosen by the contraction (beta_k - mu_k)/(beta_k + mu_k + 2 curvature) of proximal gradient with the best step:

    - 'direct': quadratic f_k, one curvature, no l1: the inverse Hessian and refinement;
    - 'prox': proximal gradient, while it needs at most 300 steps (1,000 for quadratic f_k under NumPy);
    - 'newton': proximal gradient to guess the zeros, then semismooth Newton on the active set under a line search on the
      forward-backward envelope (Stella, Themelis, Patrinos, Comput. Optim. Appl. 67, 2017); finite for quadratic f_k.

    Parameters
    ----------
    tolerance : float > 0
    method : 'auto' or one of the paths
        A path that is not available for a problem raises `InvalidInput`.

    Raises
    ------
    LocalSolveFailed
        With round, client and residual: the tolerance was not reached, or the minimiser is not unique.
    Diverged
        The local models left the finite numbers.
    """

    tolerance: float = 1e-12
    method: Literal["auto", "prox", "direct", "newton"] = "auto"

    def __post_init__(self) -> None:
        if not (isinstance(self.tolerance, float) and 0 < self.tolerance < 1):
            raise InvalidInput(f"tolerance = {self.tolerance!r}: the KKT tolerance must lie in (0, 1)")
        if self.method not in _METHODS:
            raise InvalidInput(f"method = {self.method!r}: use one of {', '.join(map(repr, _METHODS))}")

    def solve(self, problem: Problem, objective: LocalObjective, start: Array, rows: Rows) -> LocalResult:
        if self._is_direct(problem, objective):
            fine, flat = _closeness(problem, objective, start)
            if np.count_nonzero(flat):
                n, (lower, upper) = int(np.argmax(flat)), curvature_bounds(problem, objective)
                self._not_unique(rows, n, float(lower[n] / max(upper[n], 1e-300)))
            result = _direct(problem, objective, start, fine)
            self._check(problem, objective, result, rows)
            return result
        lower, upper = curvature_bounds(problem, objective)
        fast = is_affine(problem, objective, start)
        path, count = self._plan(objective, lower, upper, fast)
        if path == "prox":
            run: Callable[..., LocalResult] = cast(Any, affine_proximal_gradient) if fast else _proximal_gradient
            result = run(problem, objective, start, rows, lower, upper, count)
            if not (self._excess(problem, objective, result, rows) <= self.tolerance).all():  # the start was very far
                result = run(problem, objective, result.y, rows, lower, upper, count)
        else:
            result = newton(problem, objective, start, upper, self.tolerance)
        self._check(problem, objective, result, rows)
        flat = lower <= _FLAT * upper
        if path == "newton" and flat.any():  # not known to be strongly convex: look at the curvature where it ended
            least = np.where(rows.valid, least_curvature(problem, objective, result.y, upper), np.inf)
            least = np.where(flat, least.min(axis=1), np.inf)
            if least.min() <= max(1e-9, 8 * epsilon(start)):
                self._not_unique(rows, int(np.argmin(least)), float(least.min()))
        return result

    def solve_slots(
        self, problem: Problem, objective: LocalObjective, start: Array, rows: Rows, slots: np.ndarray
    ) -> LocalResult | None:
        """Large batches on quadratics; what does not end within the tolerance is left to `solve`, which says why."""
        if not is_affine(problem, objective, start):
            return None
        lower, upper = curvature_bounds(problem, objective)
        if self._is_direct(problem, objective):
            if (lower <= _FLAT * upper).any():
                return None
            inverse = inverses(problem, float(objective.curvature), start)
            result = direct_solve(problem, objective, rows, slots, inverse, upper, 0.9 * self.tolerance)
        else:
            path, count = self._plan(objective, lower, upper, True)
            if path == "newton":
                return None
            result = affine_proximal_gradient(problem, objective, start, rows, lower, upper, count, slots)
        if result is None or result.residual is None or all_true(result.residual <= self.tolerance):
            return result
        each = np.zeros(result.residual.shape)
        each.flat[slots[rows.valid]] = np.broadcast_to(upper[:, None], slots.shape)[rows.valid]
        scale = residual_scale(objective, result.y, each, self.tolerance)[1]
        return result if all_true(result.residual <= self.tolerance * scale) else None

    def _is_direct(self, problem: Problem, objective: LocalObjective) -> bool:
        """True if the path is 'direct'."""
        plain = problem.constant_hessian and not objective.l1 and isinstance(objective.curvature, NUMBERS)
        return bool(plain) and self.method in ("auto", "direct")

    def _plan(self, objective: LocalObjective, lower: np.ndarray, upper: np.ndarray, fast: bool) -> tuple[str, int]:
        """Another path, and number of proximal gradient steps."""
        if self.method == "direct":
            raise InvalidInput("method = 'direct' needs a quadratic problem, one curvature and no l1: use 'auto'")
        count = _steps_needed(lower, upper)
        if self.method == "prox" and not math.isfinite(count):
            raise InvalidInput(
                f"method = 'prox' needs a strongly convex local objective (curvature at least {lower.min():.3g}): "
                "use 'auto', or add curvature or a ridge"
            )
        if self.method != "auto":
            return self.method, int(count) if math.isfinite(count) else 0
        most = _AFFINE_STEPS if fast else _PROX_STEPS
        return ("prox", int(count)) if count <= most else ("newton", 0)

    def _check(self, problem: Problem, objective: LocalObjective, result: LocalResult, rows: Rows) -> None:
        if all_true(to_numpy(result.residual) <= self.tolerance):
            return  # the usual case, in which no row needs the scale
        excess = self._excess(problem, objective, result, rows)
        if (excess <= self.tolerance).all():
            return
        residual, y = np.where(rows.valid, to_numpy(result.residual), 0.0), to_numpy(result.y)
        lost = rows.valid & ~(np.isfinite(y).all(axis=-1) & np.isfinite(residual))
        if lost.any():
            n, b = (int(i) for i in np.argwhere(lost)[0])
            client, scenario = int(rows.clients[n]), int(rows.scenarios[n, b])
            raise Diverged(
                f"diverged in round {rows.round_index} at client {client} (scenario {scenario}): the local model is not "
                "finite; raise lambda_2 or start closer to the optimum",
                rows.round_index,
                client,
                scenario,
            )
        n, b = map(int, np.unravel_index(int(np.argmax(np.where(np.isnan(excess), np.inf, excess))), excess.shape))
        raise LocalSolveFailed(
            f"round {rows.round_index}, client {rows.clients[n]}: local KKT residual {residual[n, b]:.3g} (relative "
            f"{excess[n, b]:.3g}) is above {self.tolerance:.3g}; the local objective may lack a unique minimiser: "
            "add curvature or a ridge"
        )

    def _excess(self, problem: Problem, objective: LocalObjective, result: LocalResult, rows: Rows) -> np.ndarray:
        """Residuals relative to what the tolerance is relative to (N, B); the scale is left out where no row needs it."""
        residual = np.where(rows.valid, to_numpy(result.residual), 0.0)
        if (residual <= self.tolerance).all():
            return residual
        upper = curvature_bounds(problem, objective)[1][:, None]
        return residual / residual_scale(objective, result.y, upper, self.tolerance)[1]

    def _not_unique(self, rows: Rows, n: int, curvature: float) -> None:
        raise LocalSolveFailed(
            f"round {rows.round_index}, client {rows.clients[n]}: the local objective has no unique minimiser (least "
            f"curvature {curvature:.3g} of the largest, limit {_FLAT:.0e}); its KKT residual is no measure of the error: "
            "add curvature or a ridge"
        )


def _steps_needed(lower: np.ndarray, upper: np.ndarray) -> float:
    """Proximal gradient steps after which every client's distance to its minimiser has shrunk by `_REDUCTION`."""
    if (lower <= 0).any():
        return math.inf
    contraction = float(((upper - lower) / (upper + lower)).max())
    if contraction >= 1 - 1e-9:
        return math.inf
    return 2 if contraction < 1e-8 else math.ceil(math.log(_REDUCTION) / math.log(contraction))


def _closeness(problem: Problem, objective: LocalObjective, like: Array) -> tuple[Array, np.ndarray]:
    """Of each client (N, 1), a residual over the largest entry of y that is rounding alone; and (N,), not 0 where there is no
    unique minimiser."""
    unit = REFINED / 2 * epsilon(like)

    def known(some: Problem) -> np.ndarray:
        lower, upper = curvature_bounds(some, objective)
        return np.stack([unit * upper, lower <= _FLAT * upper], axis=1)

    found = kept(problem, "closeness", (unit, float(objective.curvature)), known, None)
    return astype_like(found[:, :1], like), found[:, 1]


def _direct(problem: Problem, objective: LocalObjective, start: Array, fine: Array) -> LocalResult:
    """(H_k + q) (y - center) = linear - grad f_k(center), by the inverse; refined, twice at most, where rounding leaves more to do."""
    xp = namespace(start)
    center, inverse = objective.center, inverses(problem, float(objective.curvature), start)
    center = center if center is start else xp.broadcast_to(center, start.shape)
    gradient = problem.client_gradient(center)
    gradient = gradient if objective.linear is None else gradient - objective.linear
    y = center - xp.matmul(gradient, inverse)
    for refined in range(3):
        gradient = problem.client_gradient(y) + objective.smooth_penalty_gradient(y)
        residual = xp.max(xp.abs(gradient), axis=-1)
        done = residual <= fine * xp.max(xp.abs(y), axis=-1)
        if refined == 2 or all_true(done):
            break
        y = xp.where(done[..., None], y, y - xp.matmul(gradient, inverse))
    return LocalResult(y, residual)


def _proximal_gradient(
    problem: Problem, objective: LocalObjective, start: Array, rows: Rows, lower: np.ndarray,
    upper: np.ndarray, count: int,
) -> LocalResult:
    """Proximal gradient with step 2/(largest + least curvature), scaled by coordinate where the curvature is an array."""
    middle = astype_like((problem.beta_k + (problem.mu_k if problem.convex else -problem.beta_k)) / 2, start)
    step = 1.0 / (middle[:, None, None] + objective.curvature)
    y = start
    for _ in range(count):
        y = objective.prox(y - step * (problem.client_gradient(y) + objective.smooth_penalty_gradient(y)), step)
    return LocalResult(y, objective.kkt_residual(y, problem.client_gradient(y)))
