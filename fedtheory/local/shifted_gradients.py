"""Problems as a client's local steps see them: what a local solver walks on where the step is not plainly along grad f_k.

A view stands in for the problem of a local solve: it gives gradients and mini-batch gradients, `subset`, and otherwise what the
problem has. The local solver does not know of it, so that every solver that walks (full or mini-batch gradients) can be used.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fedtheory.arrays import Array, astype_like, namespace
from fedtheory.errors import MissingCapability
from fedtheory.local.clipping import clipped_direction, clipped_factor
from fedtheory.local.objective import LocalObjective, LocalResult, LocalSolver, Rows
from fedtheory.problems.base import Problem

__all__ = ["MixedView", "OnView", "SameBatchView", "ScaledView", "View", "draws_batches", "refuse_noise"]


def draws_batches(solver: LocalSolver) -> bool:
    """True if the solver's gradients are those of mini-batches."""
    return getattr(solver, "batch_size", None) is not None


def refuse_noise(solver: LocalSolver, method: str) -> None:
    """Raise `MissingCapability` for a solver that adds noise to its gradients, which no mini-batch at another point carries."""
    if getattr(solver, "noise_std", 0.0):
        raise MissingCapability(
            f"noise_std = {solver.noise_std!r} belongs to no sample, and {method} needs gradients of the same samples at two points: "  # type: ignore[attr-defined]
            "use noise_std=0 and a batch_size"
        )


class View:
    """A problem, seen through. Arrays named in ``by_client`` have a client axis first and are cut by `subset`."""

    by_client: tuple[str, ...] = ()
    constant_hessian = False  # that of the problem is no derivative of the view's directions

    def __init__(self, problem: Problem) -> None:
        self.problem = problem

    def __getattr__(self, name: str) -> Any:
        # 'problem' is not yet there while a view is being copied; a problem's own walk would walk on the problem, not on the view
        if name in ("problem", "walk") or name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.problem, name)

    def subset(self, clients: np.ndarray) -> View:
        """The view of some of the clients only, in that order."""
        other = copy.copy(self)
        other.problem = self.problem.subset(clients)
        for name in self.by_client:
            data = getattr(self, name)
            setattr(other, name, namespace(data).take(data, astype_like(np.asarray(clients), data), axis=0))
        return other

    def client_gradient(self, y: Array) -> Array:
        """Directions of full gradient steps: (N, B, d) -> (N, B, d)."""
        return self.problem.client_gradient(y)

    def client_batch_gradient(self, y: Array, samples: Array) -> Array:
        """Directions of mini-batch steps: y (N, B, d), samples (N, B, b) -> (N, B, d)."""
        return self.problem.client_batch_gradient(y, samples)

    def clipped_direction(
        self, objective: LocalObjective, y: Array, direction: Array, prox: bool, limit: float, spares: str | None
    ) -> Array:
        """Return what a clipped step goes along; see `clipping.clipped_direction`."""
        return clipped_direction(objective, y, direction, self.problem.ridge, prox, limit, spares)


class ScaledView(View):
    """Gradients times a number. What is clipped is the gradient before it is scaled, with the objective's momentum left out."""

    def __init__(self, problem: Problem, scale: float) -> None:
        super().__init__(problem)
        self.scale = scale

    def client_gradient(self, y: Array) -> Array:
        return self.scale * self.problem.client_gradient(y)

    def client_batch_gradient(self, y: Array, samples: Array) -> Array:
        return self.scale * self.problem.client_batch_gradient(y, samples)

    def clipped_direction(
        self, objective: LocalObjective, y: Array, direction: Array, prox: bool, limit: float, spares: str | None
    ) -> Array:
        s, linear, momentum = self.scale, objective.linear, objective.momentum
        if momentum is not None:
            linear = linear + momentum  # linear holds -momentum: what is left is clipped
        whole = replace(
            objective, linear=None if linear is None else linear / s, curvature=objective.curvature / s, l1=objective.l1 / s
        )
        step = s * super().clipped_direction(whole, y, direction / s, prox, limit, spares)
        return step if momentum is None else step + momentum


class SameBatchView(ScaledView):
    """scale * (grad f_k(y; batch) - grad f_k(anchor; batch) + grad f_k(anchor)), both with the same mini-batch.

    A full gradient stays scale * grad f_k(y), of which the mini-batch one is an unbiased estimate whose variance vanishes at
    the anchor (N, B, d).
    """

    by_client = ("anchor", "at_anchor")

    def __init__(self, problem: Problem, anchor: Array, scale: float = 1.0) -> None:
        super().__init__(problem, scale)
        self.anchor, self.at_anchor = anchor, problem.client_gradient(anchor)

    def client_batch_gradient(self, y: Array, samples: Array) -> Array:
        there = self.problem.client_batch_gradient(self.anchor, samples)
        return self.scale * (self.problem.client_batch_gradient(y, samples) - there + self.at_anchor)


class MixedView(View):
    """Points (w, v, a) of dimension 2d + 1: a model, a second one, and how much of the second is in the mixture
    m = a v + (1 - a) w.

    The direction is the gradient of f_k(w) in w, and that of f_k(m) in v and, if `adaptive`, in a, all at the same point and with
    the same mini-batch: (grad f_k(w), a grad f_k(m), <v - w, grad f_k(m)> or 0). Where a has left [0, 1] its nearest end is used.

    Clipped are the gradients of the two models, each by its own norm and without the ridge's part of it, ridge w and a ridge m.
    """

    def __init__(self, problem: Problem, adaptive: bool) -> None:
        super().__init__(problem)
        self.adaptive = adaptive

    def client_gradient(self, y: Array) -> Array:
        return self._direction(y, self.problem.client_gradient)

    def client_batch_gradient(self, y: Array, samples: Array) -> Array:
        twice = namespace(samples).concat([samples, samples], axis=1)
        return self._direction(y, lambda points: self.problem.client_batch_gradient(points, twice))

    def _direction(self, y: Array, gradient: Callable[[Array], Array]) -> Array:
        xp, d, rows = namespace(y), self.problem.dim, y.shape[1]
        w, v, a = y[:, :, :d], y[:, :, d : 2 * d], xp.clip(y[:, :, 2 * d :], 0.0, 1.0)
        both = gradient(xp.concat([w, a * v + (1 - a) * w], axis=1))  # one kernel call for both models
        at_w, at_mixture = both[:, :rows, :], both[:, rows:, :]
        slope = xp.sum((v - w) * at_mixture, axis=-1, keepdims=True) if self.adaptive else xp.zeros_like(a)
        return xp.concat([at_w, a * at_mixture, slope], axis=-1)

    def clipped_direction(
        self, objective: LocalObjective, y: Array, direction: Array, prox: bool, limit: float, spares: str | None
    ) -> Array:
        xp, d, ridge = namespace(y), self.problem.dim, self.problem.ridge
        w, v, a = y[:, :, :d], y[:, :, d : 2 * d], xp.clip(y[:, :, 2 * d :], 0.0, 1.0)
        parts = []
        decays = ridge * w, ridge * a * (a * v + (1 - a) * w)
        for part, decay in zip((direction[:, :, :d], direction[:, :, d : 2 * d]), decays, strict=True):
            own = part - decay
            parts.append(own * clipped_factor(own, limit) + decay)
        return xp.concat([*parts, direction[:, :, 2 * d :]], axis=-1)


@dataclass(frozen=True)
class OnView(LocalSolver):
    """A local solver that walks on a view of the problem.

    Parameters
    ----------
    solver : LocalSolver
    view : callable(problem, start) -> View
        Makes the view from the row clients' problem and the start (N, B, d) of the local work.
    """

    solver: LocalSolver
    view: Callable[[Problem, Array], View]

    @property
    def honours_steps(self) -> bool:  # type: ignore[override]  # fixed once the solver is
        """As the solver's."""
        return self.solver.honours_steps

    @property
    def steps(self) -> int | None:
        """As the solver's."""
        return getattr(self.solver, "steps", None)

    def check(self, problem: Problem, objective: LocalObjective | None = None) -> None:
        self.solver.check(problem, objective)

    def solve(self, problem: Problem, objective: LocalObjective, start: Array, rows: Rows) -> LocalResult:
        return self.solver.solve(self.view(problem, start), objective, start, rows)  # type: ignore[arg-type]
