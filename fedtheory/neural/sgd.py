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
from fedtheory.neural.dropout import drawing_nothing
from fedtheory.neural.engines.base import Batch
from fedtheory.neural.engines.compiled import fits, one_blas_thread, walk_rows
from fedtheory.neural.engines.stacked import Stacked
from fedtheory.neural.interface import NetworkOnSamples
from fedtheory.neural.optimisers import BatchStep, LocalStep
from fedtheory.neural.plans import Plan, Tables
from fedtheory.neural.threads import side_by_side

__all__ = ["is_compiled", "walk"]


def walk(problem: NetworkOnSamples, solver: MiniBatchSolver, objective: LocalObjective, start: Tensor, rows: Rows) -> LocalResult:
    """The solver's steps on f_k + penalty for all rows: start (N, B, d)."""
    plan = problem.batch_plans.of(problem, solver, rows)
    out, width = start.new_empty(start.shape), plan.samples.shape[2]
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
        _steps(problem, solver, sub, y, plan, part, rows, stop, most)
        if not isinstance(at[0], slice):
            out[at] = y

    if is_compiled(problem, solver, objective):
        with one_blas_thread():
            problem.compiling.first(start.dtype, lambda: piece(slice(1), Event(), most=1))
            side_by_side(problem, plan.lengths, piece, singly=True, batch=width)
    else:
        with drawing_nothing(problem.flat.module, problem.device):  # as a module may that does so in some batches only
            # a function of the user's need not stand two threads at once
            side_by_side(problem, plan.lengths, piece, batch=width, alone=solver.on_gradient is not None)
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
    plain = isinstance(solver, SGD) and problem.augment is None and not problem.on_host
    plain = plain and solver.on_gradient is None
    return plain and fits(problem.engine, problem.device.type, objective.curvature)


def _steps(
    problem: NetworkOnSamples, solver: MiniBatchSolver, objective: LocalObjective, points: Tensor,
    plan: Plan, part: slice, rows: Rows, stop: Event, most: int | None = None,
) -> None:
    """All steps of the rows in `part`, in place in the points (R, D), until told to stop; of compiled ones so many at `most`.

    Running statistics, behind the parameters y (R, d), are moved by the forward passes alone.
    """
    engine, y = problem.engine, points[:, : problem.flat.trained]
    step = LocalStep(problem, solver, objective, y, partial(_told, problem, plan, part, rows))
    if isinstance(engine, Stacked) and engine.chain and engine.loss.slope and is_compiled(problem, solver, objective):
        lengths = plan.lengths[part] if most is None else np.minimum(plan.lengths[part], most)
        steps = plan.samples[part], plan.weights[part], plan.lr[part], lengths
        drawn = None if plan.keys is None else plan.keys[part]
        terms = step.penalty.terms(solver.clip, solver.clip_spares)
        walk_rows(engine.chain, engine.loss.slope, problem.inputs, problem.targets, terms, y.numpy(), *steps, drawn, stop)
        return
    tables = Tables(problem, plan, part, y.dtype)
    moving = problem.flat.dim > problem.flat.trained  # running statistics, whose steps are not recorded
    walks = None if moving or solver.on_gradient is not None else captured.of_problem(problem)
    if walks is not None and walks.walk(step, y, tables, stop):
        return
    here, bound = y, engine.bind(y)
    with torch.no_grad():
        for j, r in enumerate(tables.walking):
            if stop.is_set():
                return
            if r < len(here):
                here = y[:r]
                bound = engine.bind(here)
            batch = tables.batch(j)._replace(points=points[:r] if moving else None)
            step(here, batch, tables.size(j), j + 1, bound)


def _told(problem: NetworkOnSamples, plan: Plan, part: slice, rows: Rows, y: Tensor, batch: Batch, number: int) -> BatchStep:
    """The step as `on_gradient` is told of it."""
    n, b = (a[part][: len(y)] for a in (plan.clients, plan.columns))
    return BatchStep(rows.clients[n], rows.scenarios[n, b], rows.round_index, number, y, problem, batch, rows, (n, b))
