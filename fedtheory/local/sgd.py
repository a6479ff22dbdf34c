"""Local solvers that walk: full gradient steps and mini-batch SGD."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, cast

import numpy as np

from fedtheory.arrays import Array, astype_like, namespace
from fedtheory.errors import InvalidInput, MissingCapability
from fedtheory.inputs import finite, real_number, require, whole_number
from fedtheory.local.clipping import SPARED, clipped_direction
from fedtheory.local.objective import LocalObjective, LocalResult, LocalSolver, Rows
from fedtheory.local.quadratic import affine_steps, is_affine
from fedtheory.local.shifted_gradients import View
from fedtheory.problems.base import Problem
from fedtheory.randomness import BLOCK

__all__ = ["SGD", "GradientSteps", "MiniBatchSolver"]


def _check_walk(lr: Any, decay: Any, l1: Any) -> None:
    positive = finite(lr) and lr > 0
    require(positive, "lr", lr, "the local step size must be a finite number > 0")
    real_number("decay", decay, above=0, most=1, remedy="the step size's factor a round")
    require(l1 in ("subgradient", "prox"), "l1", l1, "use 'subgradient' (as printed) or 'prox'")


def _with_penalty(objective: LocalObjective, y: Array, gradient: Array, l1: str) -> Array:
    """The gradient of f_k and of the penalty, of which a prox takes the l1 part later."""
    if objective.none:
        return gradient
    gradient = gradient + objective.smooth_penalty_gradient(y)
    if objective.l1 and l1 != "prox":
        sign = namespace(y).sign(y - objective.l1_center)  # sign(0) = 0
        gradient = gradient + objective.l1 * sign
    return gradient


def _move(objective: LocalObjective, y: Array, gradient: Array, lr: float, l1: str) -> Array:
    """One step of size lr along grad f_k + penalty."""
    if objective.none:
        return -lr * gradient + y  # in this order the product's memory becomes the sum's
    y = y - lr * _with_penalty(objective, y, gradient, l1)
    return objective.prox(y, lr) if l1 == "prox" else y


@dataclass(frozen=True)
class GradientSteps(LocalSolver):
    """`steps` full gradient steps on the local objective.

    Parameters
    ----------
    steps : int >= 1
    lr : float > 0
        y <- y - lr * gradient; it has the unit of 1/curvature, and steps are stable for lr < 2/(beta_k + curvature).
    l1 : 'subgradient' or 'prox'
        'subgradient': l1 sign(y - anchor) with sign(0) = 0, as printed (FedElasticNet, Algorithm 2, line 7). 'prox': the soft
        threshold after the smooth step, which gives exact zeros.
    decay : float in (0, 1]
        In round t the step size is lr * decay**(t - 1).

    Notes
    -----
    The result's ``step_sum`` is steps * (the round's step size).
    """

    steps: int
    lr: float
    l1: Literal["subgradient", "prox"] = "subgradient"
    decay: float = 1.0

    def __post_init__(self) -> None:
        whole_number("steps", self.steps, remedy="the number of local steps")
        _check_walk(self.lr, self.decay, self.l1)

    def solve(self, problem: Problem, objective: LocalObjective, start: Array, rows: Rows) -> LocalResult:
        found = self.solve_slots(problem, objective, start, rows, None)
        if found is not None:
            return found
        lr = self.lr * self.decay ** (rows.round_index - 1)
        y = start
        for _ in range(self.steps):
            y = _move(objective, y, problem.client_gradient(y), lr, self.l1)
        return LocalResult(y, step_sum=self.steps * lr)

    def solve_slots(
        self, problem: Problem, objective: LocalObjective, start: Array, rows: Rows, slots: np.ndarray | None
    ) -> LocalResult | None:
        """Steps on quadratics, which are affine; on rows where there are no slots."""
        plain = (not objective.l1 or self.l1 == "prox") and not problem.few_samples
        if not (plain and is_affine(problem, objective, start)):
            return None
        lr = self.lr * self.decay ** (rows.round_index - 1)
        result = affine_steps(problem, objective, start, rows, slots, self.steps, lr, lambda some: lr)
        return None if result is None else LocalResult(result.y, step_sum=self.steps * lr)


@dataclass(frozen=True)
class MiniBatchSolver(LocalSolver):
    """A solver that walks through mini-batches: the samples of a step, its size, and the clipping.

    The parameters are those of `SGD`.
    """

    batch_size: int
    lr: float
    epochs: int | None = None
    steps: int | None = None
    decay: float = 1.0
    epoch_decay: float = 1.0
    l1: Literal["subgradient", "prox"] = "subgradient"
    clip: float | None = None
    clip_spares: Literal["curvature"] | None = None
    on_gradient: Callable[[Any, Any], Any] | None = None

    def __post_init__(self) -> None:
        whole_number("batch_size", self.batch_size)
        given = [v for v in (self.epochs, self.steps) if v is not None]
        if len(given) != 1:
            raise InvalidInput(f"epochs = {self.epochs!r}, steps = {self.steps!r}: give exactly one of the two")
        whole_number("epochs" if self.steps is None else "steps", given[0])
        _check_walk(self.lr, self.decay, self.l1)
        real_number("epoch_decay", self.epoch_decay, above=0, most=1)
        allowed = self.clip is None or (finite(self.clip) and self.clip > 0)
        require(allowed, "clip", self.clip, "use a finite norm > 0, or None for no clipping")
        known = self.clip_spares in SPARED
        require(known, "clip_spares", self.clip_spares, "use None or 'curvature'")
        if self.clip is None and self.clip_spares is not None:
            raise InvalidInput(f"clip_spares = {self.clip_spares!r} without clip: give the norm to clip at, or leave both out")
        callable_or_none = self.on_gradient is None or callable(self.on_gradient)
        require(callable_or_none, "on_gradient", self.on_gradient, "use a function(gradients, step) that returns the gradients to use")

    def check(self, problem: Problem, objective: LocalObjective | None = None) -> None:
        if type(problem).client_batch_gradient is Problem.client_batch_gradient:
            raise MissingCapability(
                f"{type(problem).__name__} has no samples to draw mini-batches from: use GradientSteps or Exact"
            )
        if self.on_gradient is not None and not hasattr(problem, "walk"):
            raise MissingCapability(
                f"on_gradient goes with networks, which walk all rows side by side, and not with {type(problem).__name__}: leave it out"
            )

    def schedule(self, samples: int, round_index: int = 1) -> list[tuple[int, int, int, float]]:
        """(epoch, first sample, last sample, step size) of every step of a client with that many samples."""
        batch, out = min(self.batch_size, samples), []
        base = self.lr * self.decay ** (round_index - 1)
        epochs = self.epochs if self.epochs is not None else -(-cast(int, self.steps) // -(-samples // batch))
        for epoch in range(epochs):
            lr = base * self.epoch_decay**epoch
            out += [(epoch, a, min(a + batch, samples), lr) for a in range(0, samples, batch)]
        return out if self.steps is None else out[: self.steps]

    def solve(self, problem: Problem, objective: LocalObjective, start: Array, rows: Rows) -> LocalResult:
        self.check(problem)
        if hasattr(problem, "walk"):  # a problem that trains all rows side by side itself, to the same numbers
            return problem.walk(self, objective, start, rows)
        xp = namespace(start)
        objective = objective.map(lambda a: xp.broadcast_to(a, start.shape))
        sizes = np.asarray(problem.sample_counts).astype(int)
        groups = [np.nonzero(sizes == size)[0] for size in np.unique(sizes)]  # one schedule a group: batches stay dense
        if len(groups) == 1:
            y, taken = self._walk(problem, objective, start, rows, int(sizes[0]))
            return LocalResult(y, step_sum=taken if self.reports_steps else None)
        parts, sums = [], np.zeros((len(sizes), 1, 1))
        for group in groups:
            index = astype_like(group, start)
            part = Rows(rows.clients[group], rows.scenarios[group], rows.valid[group], rows.stream, rows.round_index)
            pick = objective.map(lambda a, i=index: xp.take(a, i, axis=0))
            y, sums[group] = self._walk(
                problem.subset(group), pick, xp.take(start, index, axis=0), part, int(sizes[group[0]])
            )
            parts.append(y)
        back = astype_like(np.argsort(np.concatenate(groups)), start)
        y = xp.take(xp.concat(parts, axis=0), back, axis=0)
        if not self.reports_steps:
            return LocalResult(y)
        step_sum = astype_like(np.ascontiguousarray(np.broadcast_to(sums, (*start.shape[:2], 1))), start)
        return LocalResult(y, step_sum=step_sum)

    def _walk(
        self, problem: Problem, objective: LocalObjective, y: Array, rows: Rows, samples: int
    ) -> tuple[Array, float]:
        """All steps of clients that hold `samples` samples each: the last point and the sum of the step sizes."""
        total, epoch_now, order, memory = 0.0, -1, np.empty((0, 0, 0), dtype=int), None
        for epoch, first, last, lr in self.schedule(samples, rows.round_index):
            if epoch != epoch_now:
                order, epoch_now = _orders(rows, samples, epoch), epoch
            batch = astype_like(np.ascontiguousarray(order[:, :, first:last]), y)
            y, memory = self._step(problem, objective, y, problem.client_batch_gradient(y, batch), lr, memory)
            total += lr
        return y, total

    def _step(
        self, problem: Problem, objective: LocalObjective, y: Array, gradient: Array, lr: float, memory: Any
    ) -> tuple[Array, Any]:
        """The point after one step, and what the solver remembers of its steps, which is None before the first."""
        raise NotImplementedError

    def _clipped(self, problem: Problem, objective: LocalObjective, y: Array, gradient: Array) -> Array:
        """Return what a clipped step goes along."""
        limit, prox = cast(float, self.clip), self.l1 == "prox"
        if isinstance(problem, View):
            return problem.clipped_direction(objective, y, gradient, prox, limit, self.clip_spares)
        return clipped_direction(objective, y, gradient, problem.ridge, prox, limit, self.clip_spares)


@dataclass(frozen=True)
class SGD(MiniBatchSolver):
    """Mini-batch SGD on the local objective, without replacement within an epoch.

    Each client shuffles its samples anew in every epoch and takes them `batch_size` at a time; the last batch of an epoch holds what is
    left. Clients of unequal size therefore make unequal numbers of steps, unless `steps` is given. The order is a function of
    (seed, round, epoch, scenario, client) alone: it does not depend on the cohort's layout, the array library or the chunks.

    Parameters
    ----------
    batch_size : int >= 1
        A client with fewer samples uses all of them.
    lr : float > 0
        y <- y - lr * gradient; it has the unit of 1/curvature.
    epochs, steps : int >= 1
        Exactly one: passes through the client's samples, or steps.
    decay, epoch_decay : float in (0, 1]
        In round t and epoch e (from 0) the step size is lr * decay**(t - 1) * epoch_decay**e.
    l1 : 'subgradient' or 'prox'
        As in `GradientSteps`.
    clip : float > 0 or None
        Every client's gradient is multiplied by min(1, clip/(norm + 1e-6)) at every step, as torch.nn.utils.clip_grad_norm_ does it and
        FedDyn's public code with clip = 10 (github.com/alpemreacar/FedDyn, utils_general.py). It takes the gradient of the mini-batch's
        loss and of the penalty, the l1 subgradient included (not the prox, which comes after the step); the problem's ridge, weight
        decay there, is added afterwards, and so is the momentum of `Mime`. `APFL` clips the gradients of its two models one by one.
    clip_spares : None or 'curvature'
        'curvature': the penalty's curvature * y is added after the clipping too, its -curvature * center is clipped. So does FedDyn's
        public code in FedDyn itself, which leaves alpha to the optimizer's weight decay, but not in FedProx.
    on_gradient : callable(gradients, step) -> gradients, or None
        For networks (`fedtheory.neural.NeuralProblem`): called at every step with the gradients (r, d) of r clients' mini-batch losses,
        as a tensor, and a `fedtheory.neural.optimisers.BatchStep`; the gradients that it returns are used instead. Weight decay,
        penalty and `clip` come after it. Steps are then neither compiled nor recorded on a GPU.

    Notes
    -----
    ``step_sum`` is a number when all clients of the problem make the same steps, and (..., 1) otherwise. It counts a clipped step as a
    whole one.
    """

    def _step(
        self, problem: Problem, objective: LocalObjective, y: Array, gradient: Array, lr: float, memory: Any
    ) -> tuple[Array, Any]:
        if self.clip is None:
            return _move(objective, y, gradient, lr, self.l1), None
        y = y - lr * self._clipped(problem, objective, y, gradient)
        return objective.prox(y, lr) if self.l1 == "prox" else y, None


def sample_order(rows: Rows, n: int, b: int, samples: int, epoch: int) -> np.ndarray:
    """A random order of one row's samples (samples,), a function of (seed, round, epoch, scenario, client) alone."""
    return _client_orders(rows, n, rows.scenarios[n, b : b + 1], samples, epoch)[0]


def _orders(rows: Rows, samples: int, epoch: int) -> np.ndarray:
    """`sample_order` of all rows: (N, B, samples)."""
    if rows.scenarios.shape[1] > 1:
        return np.stack([_client_orders(rows, n, rows.scenarios[n], samples, epoch) for n in range(len(rows.clients))])
    scenarios = rows.scenarios[:, 0]
    keys = np.empty((len(scenarios), samples))
    names = [(int(client) << 32) | int(s) // BLOCK for client, s in zip(rows.clients, scenarios, strict=True)]
    generators = rows.stream.generators("minibatch", rows.round_index, epoch, names)
    for out, generator, inside in zip(keys, generators, (scenarios % BLOCK).tolist(), strict=True):
        if inside == 0:
            generator.random(out=out)
        else:
            out[:] = generator.random((inside + 1, samples))[inside]
    return np.argsort(keys, axis=-1)[:, None, :]


def _client_orders(rows: Rows, n: int, scenarios: np.ndarray, samples: int, epoch: int) -> np.ndarray:
    out = np.empty((len(scenarios), samples), dtype=np.int64)
    blocks = scenarios // BLOCK
    for block in np.unique(blocks):
        here = blocks == block
        # client in the high word: one generator for each client and block of scenarios
        generator = rows.stream.generator("minibatch", rows.round_index, epoch, (int(rows.clients[n]) << 32) | int(block))
        inside = scenarios[here] - block * BLOCK
        keys = generator.random((int(inside.max()) + 1, samples))[inside]  # the first rows of the whole block's draw
        out[here] = np.argsort(keys, axis=-1)
    return out
