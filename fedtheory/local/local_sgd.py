"""Plain local SGD with a given number of steps a client: the local work of EFL's Theorem 1."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

import numpy as np

from fedtheory.arrays import Array, astype_like, is_numpy, namespace
from fedtheory.compiled import available, njit
from fedtheory.errors import InvalidInput, MissingCapability
from fedtheory.inputs import check_flags, finite, real_number, require, step_at, whole_number
from fedtheory.local.objective import LocalObjective, LocalResult, LocalSolver, Rows
from fedtheory.local.sgd import _move
from fedtheory.problems.base import Problem
from fedtheory.randomness import BLOCK

__all__ = ["Constant", "InverseTime", "LocalSGD", "TheoremStep"]


@dataclass(frozen=True)
class Constant:
    """The same step size in every round."""

    lr: float

    def __post_init__(self) -> None:
        real_number("lr", self.lr, above=0, remedy="the local step size")

    def __call__(self, round_index: int) -> float:
        return float(self.lr)


@dataclass(frozen=True)
class InverseTime:
    """lr/(1 + (t - 1)/delay) in round t = 1, 2, ...: halved after `delay` rounds."""

    lr: float
    delay: float = 1.0

    def __post_init__(self) -> None:
        real_number("lr", self.lr, above=0, remedy="the first local step size")
        real_number("delay", self.delay, above=0, remedy="the rounds until the step is halved")

    def __call__(self, round_index: int) -> float:
        return self.lr / (1.0 + (round_index - 1) / self.delay)


@dataclass(frozen=True)
class TheoremStep:
    """eta_tau = 16 E/(mu ((tau + 1) E + gamma) S_tau), tau = round - 1 (EFL, Theorem 1).

    Parameters
    ----------
    mu : float > 0
        Strong convexity.
    E : int >= 1
    gamma : float > 0
    S : float > 0, or a tuple of them
        S_tau = E[sum_k p_tau^k s_tau^k]; a tuple is one period, repeated.

    Raises
    ------
    InvalidInput
        Values out of range.
    """

    mu: float
    E: int
    gamma: float
    S: float | tuple[float, ...]

    def __post_init__(self) -> None:
        real_number("mu", self.mu, above=0, remedy="the strong convexity")
        whole_number("E", self.E, remedy="the number of local steps")
        real_number("gamma", self.gamma, above=0)
        sums = self.S if isinstance(self.S, tuple) else (self.S,)
        positive = len(sums) > 0 and all(finite(v) and v > 0 for v in sums)
        require(positive, "S", self.S, "E[sum p s] must be > 0 in every round")

    def __call__(self, round_index: int) -> float:
        tau = round_index - 1
        S = self.S[tau % len(self.S)] if isinstance(self.S, tuple) else self.S
        return 16 * self.E / (self.mu * ((tau + 1) * self.E + self.gamma) * S)


@dataclass(frozen=True)
class LocalSGD(LocalSolver):
    """E steps y <- y - lr_t g on the local objective, g from a fresh mini-batch each; a client that completes s of them stops there.

    Parameters
    ----------
    steps : int >= 1
        E. Where the cohort says how many steps each client completes, that many of the same E are made.
    lr : float > 0, or a callable round (from 1) -> float
        For example `TheoremStep`, `InverseTime`, or `fedtheory.local.Schedule(...).at`.
    batch_size : int >= 1 or None
        Samples a step, drawn anew; None: the full gradient.
    noise_std : float >= 0
        Adds N(0, noise_std^2/d I) to every gradient: E||noise||^2 = noise_std^2.
    replacement : bool
        Draw the mini-batch with replacement (independent samples), or without (then batch_size <= n_k for all k).

    Raises
    ------
    InvalidInput
        Values out of range; a mini-batch without replacement larger than a client's data.
    MissingCapability
        Mini-batches of a problem without samples.

    Notes
    -----
    Gradients are unbiased given all the past, which an epoch's shuffling is not. What is drawn is a function of (seed, round, step,
    scenario, client) alone: not of the cohort's layout, of who else takes part, the array library or the chunks. ``step_sum`` is
    lr_t times the number of steps.
    """

    honours_steps: ClassVar[bool] = True

    steps: int
    lr: float | Callable[[int], float]
    batch_size: int | None = None
    noise_std: float = 0.0
    replacement: bool = True

    def __post_init__(self) -> None:
        check_flags(self)
        whole_number("steps", self.steps, remedy="the number E of local steps")
        if not callable(self.lr):
            real_number("lr", self.lr, above=0, remedy="or a function of the round")
        if self.batch_size is not None:
            whole_number("batch_size", self.batch_size, remedy="None for all samples")
        real_number("noise_std", self.noise_std, least=0, remedy="a root mean square norm")

    def check(self, problem: Problem, objective: LocalObjective | None = None) -> None:
        if self.batch_size is None:
            return
        if type(problem).client_batch_gradient is Problem.client_batch_gradient:
            raise MissingCapability(f"{type(problem).__name__} has no samples to draw mini-batches from: use batch_size=None")
        fewest = int(np.min(problem.sample_counts))
        if not self.replacement and self.batch_size > fewest:
            raise InvalidInput(
                f"batch_size = {self.batch_size} without replacement, but a client has only {fewest} samples: use at most that, "
                "or replacement=True"
            )

    def step_size(self, round_index: int) -> float:
        """lr_t of a round.

        Raises
        ------
        InvalidInput
            The schedule gives what is no finite number > 0.
        """
        return float(step_at("lr", self.lr, round_index))

    def solve(self, problem: Problem, objective: LocalObjective, start: Array, rows: Rows) -> LocalResult:
        self.check(problem)
        xp, lr, y = namespace(start), self.step_size(rows.round_index), start
        if is_numpy(y) and rows.steps is not None and objective.none and self.batch_size is None and not self.noise_std:
            y = _plain_steps(problem, start, rows.steps, lr)
            return LocalResult(y, step_sum=astype_like(np.ascontiguousarray(rows.steps[:, :, None]) * lr, start))
        last = self.steps if rows.steps is None else int(rows.steps.max(initial=0))
        everyone = last if rows.steps is None else int(rows.steps.min(initial=self.steps))  # steps nobody stops before
        for step, (batch, noise) in zip(range(last), self._draws(problem, start, rows), strict=False):
            g = problem.client_gradient(y) if batch is None else problem.client_batch_gradient(y, batch)
            new = _move(objective, y, g if noise is None else g + noise, lr, "subgradient")
            if rows.steps is not None and step >= everyone and is_numpy(new):
                stopped = rows.steps <= step
                new[stopped] = y[stopped]
            elif rows.steps is not None and step >= everyone:
                going = astype_like(np.ascontiguousarray(rows.steps > step)[:, :, None], start)
                new = xp.where(going, new, y)  # chosen, not multiplied: who has stopped stays where it is, exactly
            y = new
        if rows.steps is None:
            return LocalResult(y, step_sum=self.steps * lr)
        return LocalResult(y, step_sum=astype_like(np.ascontiguousarray(rows.steps[:, :, None]) * lr, start))

    def _draws(self, problem: Problem, like: Array, rows: Rows) -> Iterator[tuple[Array | None, Array | None]]:
        """Samples (N, B, b) and noise (N, B, d) of one step after the other; None where not wanted."""
        counts = np.asarray(problem.sample_counts).astype(np.int64)[:, None, None]
        for step in range(self.steps):
            batch = noise = None
            if self.batch_size is not None:
                u = _per_row(rows, "local batch", step, self.batch_size, np.random.Generator.random)
                picks = (u * counts).astype(np.int64) if self.replacement else _distinct(u, counts)
                batch = astype_like(np.ascontiguousarray(picks), like)
            if self.noise_std:
                normal = _per_row(rows, "local noise", step, like.shape[-1], np.random.Generator.standard_normal)
                noise = astype_like(normal * (self.noise_std / math.sqrt(like.shape[-1])), like)
            yield batch, noise


JUMP = 1000  # numbers that are drawn in the time of one jump to where a row's own lie
IN_CACHE = 2**20  # bytes of the points that are walked side by side
COMPILED = 2**20  # numbers from which compiled loops are worth Numba's import
FEW = 2**9  # numbers of a client that are added in the time of a call


def _plain_steps(problem: Problem, start: np.ndarray, steps: np.ndarray, lr: float) -> np.ndarray:
    """y <- y - lr grad f_k(y), steps (N, B) times: a few clients at a time, and of each the rows that go furthest first.

    Then points stay in the cache from step to step, and next to no gradient is taken where a row has stopped.
    """
    clients, width, dim = start.shape
    out = np.empty(start.shape, dtype=start.dtype)
    size = max(1, IN_CACHE // max(1, width * dim * start.itemsize))
    order = np.argsort(-steps, axis=1, kind="stable")
    compiled = start.size >= COMPILED and start.dtype == np.float64 and available()
    for first in range(0, clients, size):
        block = np.arange(first, min(first + size, clients))
        where = order[block]
        left, y = np.take_along_axis(steps[block], where, axis=1), start[block[:, None], where]
        part = problem.subset(block) if len(block) < clients else problem
        for step in range(int(left.max(initial=0))):
            counts = (left > step).sum(axis=1)  # rows of each client that go on, the first of them
            at = y[:, : int(counts.max())]
            _move_first(at, part.client_gradient(at), lr, counts, compiled)
        out[block[:, None], where] = y
    return out


def _move_first(y: np.ndarray, gradient: np.ndarray, lr: float, counts: np.ndarray, compiled: bool = False) -> None:
    """y <- y - lr gradient in the first counts[k] rows of client k, (N, B, d) and (N,); the others stay exactly where they are."""
    if compiled and gradient.dtype == np.float64 and y[0].size >= FEW:
        _compiled_move()(y, np.ascontiguousarray(gradient), -lr, counts)
        return
    moves = -lr * gradient
    if counts.min() == y.shape[1]:
        y += moves
    elif y[0].size < FEW:
        np.add(y, moves, out=y, where=(np.arange(y.shape[1]) < counts[:, None])[:, :, None])
    else:
        for k, count in enumerate(counts):
            y[k, :count] += moves[k, :count]


@cache
def _compiled_move() -> Any:
    """move(y, gradient, factor, counts): `_move_first` in one pass, of float64, by Numba."""

    @njit(cache=True, nogil=True)
    def move(y: Any, gradient: Any, factor: float, counts: Any) -> None:
        for k in range(y.shape[0]):
            for r in range(counts[k]):
                to, by = y[k, r], gradient[k, r]
                for i in range(to.size):
                    to[i] += factor * by[i]

    return move


def _per_row(rows: Rows, purpose: str, step: int, width: int, draw: Any) -> np.ndarray:
    """(N, B, width) numbers of (seed, purpose, round, step, scenario, client).

    One generator a block of scenarios fills (clients, scenarios, width) in that order, so that a client's numbers do not depend on how
    many follow it.
    """
    clients, first, last = np.asarray(rows.clients), int(rows.scenarios.min()), int(rows.scenarios.max())
    block = first // BLOCK
    if last < (block + 1) * BLOCK:  # the usual case: all scenarios are of one block
        generator = rows.stream.generator(purpose, rows.round_index, step, block)
        inside, most = rows.scenarios - block * BLOCK, int(clients.max()) + 1
        if draw is np.random.Generator.random and JUMP * inside.size < most * BLOCK * width:
            return _by_jumps(generator, clients[:, None] * BLOCK + inside, width)
        return draw(generator, (most, BLOCK, width))[clients[:, None], inside]
    out = np.empty((*rows.scenarios.shape, width))
    blocks = rows.scenarios // BLOCK
    for block in np.unique(blocks):
        generator = rows.stream.generator(purpose, rows.round_index, step, int(block))
        drawn = draw(generator, (int(clients.max()) + 1, BLOCK, width))
        row, column = np.nonzero(blocks == block)
        out[row, column] = drawn[clients[row], rows.scenarios[row, column] - block * BLOCK]
    return out


def _by_jumps(generator: np.random.Generator, places: np.ndarray, width: int) -> np.ndarray:
    """``generator.random((places.max() + 1, width))[places]`` without what lies between: a uniform is one word, and a counter four."""
    philox: Any = generator.bit_generator
    start, out = philox.state, np.empty((*places.shape, width))
    for at, place in np.ndenumerate(places):
        counter, skipped = divmod(int(place) * width, 4)
        philox.state = start
        philox.advance(counter)
        out[at] = generator.random(skipped + width)[skipped:]
    return out


def _distinct(u: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """b different numbers below each count, from uniforms (N, B, b): the first b places of a Fisher-Yates shuffle."""
    order = np.tile(np.arange(int(counts.max())), (*u.shape[:2], 1))
    for j in range(u.shape[-1]):
        other = j + (u[..., j : j + 1] * (counts - j)).astype(np.int64)
        here = order[..., j : j + 1].copy()
        order[..., j : j + 1] = np.take_along_axis(order, other, axis=-1)
        np.put_along_axis(order, other, here, axis=-1)
    return order[..., : u.shape[-1]]
