"""Mini-batch SGD of many clients side by side, in place."""

from __future__ import annotations

from functools import partial
from threading import Event
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedtheory.local.objective import LocalObjective, LocalResult, Rows
from fedtheory.local.sgd import SGD, MiniBatchSolver
from fedtheory.neural import captured
from fedtheory.neural.augment import augmented
from fedtheory.neural.dropout import drawing_nothing
from fedtheory.neural.engines.base import Batch
from fedtheory.neural.engines.compiled import fits, one_blas_thread, walk_rows
from fedtheory.neural.engines.stacked import Stacked
from fedtheory.neural.interface import NetworkOnSamples
from fedtheory.neural.optimisers import RememberedSteps
from fedtheory.neural.parts import gathered
from fedtheory.neural.penalty import Penalty
from fedtheory.neural.plans import Plan
from fedtheory.neural.threads import side_by_side

__all__ = ["is_compiled", "walk"]


def walk(problem: NetworkOnSamples, solver: MiniBatchSolver, objective: LocalObjective, start: Tensor, rows: Rows) -> LocalResult:
    """The solver's steps on f_k + penalty for all rows: start (N, B, d)."""
    plan = problem.batch_plans.of(problem, solver, rows)
    out = start.new_empty(start.shape)
    if not rows.valid.all():
        out.copy_(start)

    def piece(part: slice, stop: Event, most: int | None = None) -> None:
        at = _places(plan, part, start.shape[1])
        if objective.none:
            sub = LocalObjective(center=start)  # which nothing reads
        else:  # no penalty acts on running statistics
            sub = objective.map(lambda a: torch.broadcast_to(a, start.shape)[at][:, : problem.flat.trained])
        y = out.data[at]  # with a version counter of its own: other threads write into other rows
        y.copy_(start[at])  # a piece that did not fit the memory begins again
        _steps(problem, solver, sub, y, plan, part, stop, most)
        if not isinstance(at[0], slice):
            out[at] = y

    if is_compiled(problem, solver, objective):
        with one_blas_thread():
            problem.compiling.first(start.dtype, lambda: piece(slice(1), Event(), most=1))
            side_by_side(problem, plan.lengths, piece, singly=True)
    else:
        with drawing_nothing(problem.flat.module, problem.device):  # as a module may that does so in some batches only
            side_by_side(problem, plan.lengths, piece)
    if not solver.reports_steps:
        return LocalResult(out)
    sums = plan.lr.sum(axis=1)
    if np.ptp(sums) == 0:
        return LocalResult(out, step_sum=float(sums[0]))
    taken = torch.zeros((*start.shape[:2], 1), dtype=start.dtype, device=start.device)
    taken[plan.clients, plan.columns, 0] = torch.from_numpy(sums).to(taken)
    return LocalResult(out, step_sum=taken)


def _places(plan: Plan, part: slice, columns: int) -> tuple[Any, Any]:
    """Return where in (N, B) the rows of `part` lie.

    As a slice, which copies nothing, where they are neighbours in the one column.
    """
    n, b = plan.clients[part], plan.columns[part]
    if columns == 1 and (n[1:] - n[:-1] == 1).all():
        return slice(int(n[0]), int(n[-1]) + 1), 0
    return torch.from_numpy(n), torch.from_numpy(b)


def is_compiled(problem: NetworkOnSamples, solver: MiniBatchSolver, objective: LocalObjective) -> bool:
    """True if the rows are walked by compiled code, one after the other."""
    plain = isinstance(solver, SGD) and problem.augment is None
    return plain and fits(problem.engine, problem.device.type, objective.curvature)


def _steps(
    problem: NetworkOnSamples, solver: MiniBatchSolver, objective: LocalObjective, points: Tensor,
    plan: Plan, part: slice, stop: Event, most: int | None = None,
) -> None:
    """All steps of the rows in `part`, in place in the points (R, D), until told to stop; of compiled ones so many at `most`.

    Running statistics, behind the parameters y (R, d), are moved by the forward passes alone.
    """
    device, engine, y = problem.device, problem.engine, points[:, : problem.flat.trained]
    penalty = Penalty(objective, problem.ridge, solver.l1 == "prox", y)
    if isinstance(engine, Stacked) and engine.chain and engine.loss.slope and is_compiled(problem, solver, objective):
        lengths = plan.lengths[part] if most is None else np.minimum(plan.lengths[part], most)
        steps = plan.samples[part], plan.weights[part], plan.lr[part], lengths
        drawn = None if plan.keys is None else plan.keys[part]
        terms = penalty.terms(solver.clip, solver.clip_spares)
        walk_rows(engine.chain, engine.loss.slope, problem.inputs, problem.targets, terms, y.numpy(), *steps, drawn, stop)
        return
    samples = torch.from_numpy(np.ascontiguousarray(plan.samples[part].swapaxes(0, 1))).to(device)  # (T, R, b)
    weights = None if plan.full.all() else torch.from_numpy(plan.weights[part]).to(device, y.dtype)
    lrs, lengths = plan.lr[part].T, plan.lengths[part]
    how = None if plan.how is None else torch.from_numpy(plan.how[part]).to(device)
    steps = torch.from_numpy(np.ascontiguousarray(lrs)).to(y)[..., None]  # (T, R, 1), for steps at which the rows' sizes differ
    keys = None if plan.keys is None else torch.from_numpy(np.ascontiguousarray(plan.keys[part].T)).to(device)  # (T, R)
    remembered = None if isinstance(solver, SGD) else RememberedSteps(solver, objective, problem.ridge, y)
    moving = problem.flat.dim > problem.flat.trained  # running statistics, whose steps are not recorded
    walks = captured.of_problem(problem, weights is not None) if remembered is None and not moving else None
    if walks is not None:
        tables = samples, None if weights is None else weights.transpose(0, 1), steps, keys
        if walks.walk(problem, penalty, (solver.clip, solver.clip_spares), y, tables):
            return
    walking = (lengths > np.arange(lengths.max())[:, None]).sum(axis=1).tolist()  # rows at each step
    rows, bound = y, engine.bind(y)
    with torch.no_grad():
        targets = problem.targets[samples]
        for j, r in enumerate(walking):
            if stop.is_set():
                return
            if r < len(rows):
                rows = y[:r]
                bound = engine.bind(rows)
            x = gathered(problem.inputs, samples[j, :r])
            if how is not None:
                x = augmented(x.flatten(0, 1), how[:r, j].reshape(-1, 3)).reshape(x.shape)
            w = None if weights is None or plan.full[j] else weights[:r, j]
            batch = Batch(x, targets[j, :r], w, None if keys is None else keys[j, :r], points[:r] if moving else None)
            now = lrs[j, :r]
            # rows in different epochs may have different step sizes
            lr: Any = float(now[0]) if (now == now[0]).all() else steps[j, :r]
            if remembered is not None:
                remembered.step(rows, engine.gradient(rows, batch), lr)
                continue
            if solver.clip is None:
                engine.step(rows, batch, lr, partial(penalty.before, rows, lr), bound)
            else:  # the whole gradient must be known before it moves anything
                gradient = engine.gradient(rows, batch)
                penalty.clipped_step(rows, gradient, lr, solver.clip, solver.clip_spares)
            penalty.after(rows, lr)
