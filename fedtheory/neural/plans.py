"""The plan of a round: each client's samples at every step, with their weights and step sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedtheory.errors import MissingCapability
from fedtheory.local.objective import LocalSolver, Rows
from fedtheory.local.sgd import MiniBatchSolver, sample_order
from fedtheory.neural.augment import augmented, draws, of_row
from fedtheory.neural.engines.base import Batch
from fedtheory.neural.interface import NetworkOnSamples
from fedtheory.neural.parts import gathered

__all__ = ["Plan", "Plans", "Tables", "taken"]


class Plan:
    """The samples, weights and step sizes of every row at every step.

    Rows are sorted by their number of steps, longest first, so that the rows still walking are
    always the first ones and no work is spent on those that have arrived. A batch cut short by the
    end of an epoch is padded, with weight 0.
    """

    def __init__(self, problem: NetworkOnSamples, solver: MiniBatchSolver, rows: Rows) -> None:
        if problem.flat.depends_on_batch or problem.flat.dim > problem.flat.trained:
            _check_batches(problem, solver, rows.round_index)
        clients, columns = np.nonzero(rows.valid)
        counts = problem.sample_counts[clients]
        schedules = {int(held): solver.schedule(int(held), rows.round_index) for held in np.unique(counts)}
        lengths = np.array([len(schedules[held]) for held in counts.tolist()])
        order = np.argsort(-lengths, kind="stable")
        self.clients, self.columns, self.lengths = clients[order], columns[order], lengths[order]
        self.active = (self.lengths[:, None] > np.arange(self.lengths[0])).sum(axis=0)  # (steps,) rows still walking
        # an entry's mask follows from its place in a batch, which must not follow from who else
        # takes part
        widest = min(solver.batch_size, problem.most_samples if problem.flat.dropout else int(problem.sample_counts.max()))
        shape = (len(order), int(self.lengths[0]), widest)
        self.samples = np.zeros(shape, dtype=np.int64)
        self.weights, self.counts = np.zeros(shape), np.zeros(shape[:2], dtype=np.int64)
        self.lr = np.zeros(shape[:2])
        self.how = None if problem.augment is None else np.zeros((*shape, 3), dtype=np.int64)
        self.keys = np.zeros(shape[:2], dtype=np.int64) if problem.flat.dropout else None
        tables = {held: _table(schedule, held, widest) for held, schedule in schedules.items()}
        of_clients = problem.client_samples
        for r, (n, b) in enumerate(zip(self.clients, self.columns, strict=True)):
            held = of_clients[n]
            place, weight, count, lr, epochs = tables[len(held)]
            shuffled = np.concatenate([held[sample_order(rows, int(n), int(b), len(held), e)] for e in range(epochs)])
            self.samples[r, : len(lr)] = shuffled[place]
            if self.how is not None:
                drawn = np.concatenate([draws(rows, int(n), int(b), len(held), e) for e in range(epochs)])
                self.how[r, : len(lr)] = drawn[place]
            if self.keys is not None:
                self.keys[r, : len(lr)] = _keys(rows, int(n), int(b), len(lr))
            self.weights[r, : len(lr)], self.counts[r, : len(lr)] = weight, count
            self.lr[r, : len(lr)] = lr
        walking = np.arange(len(order))[:, None] < self.active
        self.full = ((self.counts == widest) | ~walking).all(axis=0)


def _check_batches(problem: NetworkOnSamples, solver: MiniBatchSolver, round_index: int) -> None:
    """Raise `MissingCapability` where a client's batch of one sample has no statistics."""
    for held in np.unique(problem.sample_counts).tolist():
        if all(last - first > 1 for _, first, last, _ in solver.schedule(held, round_index)):
            continue
        k = int(np.flatnonzero(problem.sample_counts == held)[0])
        one = torch.from_numpy(problem.client_samples[k][:1]).to(problem.device)
        try:
            with torch.no_grad(), problem.flat.holding({}, train=True):
                problem.flat.call(problem.flat.initial(), problem.inputs[one])
        except ValueError as error:
            raise MissingCapability(
                f"client {k} has {held} samples, and batch_size = {solver.batch_size} leaves a batch of one, of which batch statistics "
                f"are not defined ({error}): choose another batch_size, or deal it another number of samples"
            ) from error


def _keys(rows: Rows, n: int, b: int, steps: int) -> np.ndarray:
    """Return the keys of a row's dropout at each of its steps: (steps,)."""
    return of_row(rows, "dropout", n, b, 0, lambda g, count: g.integers(2**63, size=(count, steps)))


def _table(schedule: list[tuple[int, int, int, float]], held: int, widest: int) -> tuple[Any, ...]:
    """Of every step: places (T, b) in the epochs' orders one after another, weights (T, b), counts
    of samples (T,), step sizes (T,); and the epochs."""
    epoch, first, last = (np.array(column, dtype=np.int64)[:, None] for column in list(zip(*schedule, strict=True))[:3])
    inside = np.arange(widest)
    real = inside < last - first
    place = np.where(real, epoch * held + first + inside, 0)
    lrs = np.array([lr for *_, lr in schedule])
    return place, real / (last - first), (last - first)[:, 0], lrs, int(epoch[-1, 0]) + 1


class Tables:
    """The plan of some rows, where they are trained: a step's samples and step sizes.

    Attributes
    ----------
    samples, weights, lr, keys, how : (T, R, b), (T, R, b), (T, R, 1), (T, R), (T, R, b, 3), or None
        On the device, but for samples of a problem `on_host`. Weights are None where all batches
        are full, or are cut. A row that has arrived has the step size 0.
    walking : list of int (T,)
        Rows on their way at each step, the first ones.
    alike : bool array (T,)
        The steps that a recording can do: batches of one shape, or padded ones that weights tell.
    """

    def __init__(self, problem: NetworkOnSamples, plan: Plan, part: slice, dtype: torch.dtype) -> None:
        def here(a: np.ndarray) -> Tensor:
            return torch.from_numpy(np.ascontiguousarray(a[part].swapaxes(0, 1)))

        def there(a: np.ndarray | None) -> Any:
            return None if a is None else here(a).to(problem.device)

        self.problem, self.full, self.counts = problem, plan.full, plan.counts[part].T
        lengths = plan.lengths[part]
        self.walking = (lengths > np.arange(lengths.max())[:, None]).sum(axis=1).tolist()
        self.samples = here(plan.samples) if problem.on_host else there(plan.samples)
        self.keys, self.how = there(plan.keys), there(plan.how)
        cut = problem.engine.cuts
        self.alike = plan.full[: len(self.walking)] if cut else np.ones(len(self.walking), bool)
        self.weights = None if cut or plan.full.all() else there(plan.weights).to(dtype)
        self.lrs = plan.lr[part].T
        self.lr = there(plan.lr)[..., None].to(dtype)

    def on_device(self) -> list[Tensor | None]:
        return [self.samples, self.weights, self.lr, self.keys, self.how]

    def batch(self, j: int) -> Batch:
        """The batch of the rows on their way at step j."""
        r = self.walking[j]
        counts = None if self.full[j] else self.counts[j, :r]
        weights = None if self.weights is None or self.full[j] else self.weights[j, :r]
        keys, how = (None if a is None else a[j, :r] for a in (self.keys, self.how))
        return taken(self.problem, self.samples[j, :r], weights, keys, how, counts)

    def size(self, j: int) -> Any:
        """Step j's size: a number, or (r, 1), as rows in different epochs may have different ones."""
        now = self.lrs[j, : self.walking[j]]
        return float(now[0]) if (now == now[0]).all() else self.lr[j, : self.walking[j]]


def taken(
    problem: NetworkOnSamples, samples: Tensor, weights: Tensor | None, keys: Tensor | None,
    how: Tensor | None, counts: np.ndarray | None = None,
) -> Batch:
    """The batch of the samples of these numbers (R, b), augmented as `how` (R, b, 3) says."""
    x = gathered(problem.inputs, samples)
    if how is not None:
        x = augmented(x.flatten(0, 1), how.reshape(-1, 3)).reshape(x.shape)
    return Batch(x, gathered(problem.targets, samples), weights, keys, counts)


class Plans:
    """The plan of the next round, made before it is asked for.

    Attributes
    ----------
    ahead : bool
        Whether the round loop is to call `prepare` for the next round before it reads what this one
        gave: on a GPU, which works on until then.
    """

    def __init__(self, ahead: bool) -> None:
        self.ahead = ahead
        self._next: tuple[NetworkOnSamples, LocalSolver, Rows, Plan] | None = None

    def __reduce__(self) -> tuple[type[Plans], tuple[bool]]:  # a plan is of this run
        return Plans, (self.ahead,)

    def prepare(self, problem: NetworkOnSamples, solver: LocalSolver, rows: Rows) -> None:
        if isinstance(solver, MiniBatchSolver):
            self._next = problem, solver, rows, Plan(problem, solver, rows)

    def of(self, problem: NetworkOnSamples, solver: MiniBatchSolver, rows: Rows) -> Plan:
        """The plan that was prepared for just these rows, or a new one."""
        if self._next is not None and self._next[0] is problem and self._next[1] == solver and self._next[2] is rows:
            return self._next[3]
        return Plan(problem, solver, rows)
