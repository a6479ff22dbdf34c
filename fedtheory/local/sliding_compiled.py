"""The compiled engine of subgradient sliding: which problems have a compiled form, and the call of its loops on one core or several.

Numba is imported at the first compiled run, and what it compiles is kept on disk.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise
from typing import Any, NamedTuple, cast

import numpy as np

from fedtheory.arrays import Array, astype_like, to_numpy
from fedtheory.compiled import available
from fedtheory.local.objective import LocalObjective, LocalResult, Rows
from fedtheory.local.sliding_draws import Sliding, draws
from fedtheory.problems.base import Problem, prepared

__all__ = ["CompiledForm", "compiled_form", "solve"]

WORTH_A_THREAD = 6_000_000  # numbers touched by a thread, well above what starting it costs
A_STEP = 800  # numbers that are touched in the time that a step takes beside its subgradient


class CompiledForm(NamedTuple):
    """A problem in the form that a compiled loop needs."""

    walk: str  # a key of sliding_kernels.WALKS
    arguments: tuple[Any, ...]
    work: int  # numbers touched in one subgradient


def compiled_form(problem: Problem) -> CompiledForm | None:
    """The compiled form of a problem, kept with it; None where there is none (subclasses may override what is compiled)."""

    def make() -> CompiledForm | None:
        form = _forms().get(type(problem))
        return None if form is None or not available() else form(problem)

    return prepared(problem, "compiled form", make) if isinstance(problem, Problem) else None


def _plain(values: Array) -> np.ndarray:
    """A contiguous writeable float64 array: every loop is compiled for one type only."""
    return np.require(to_numpy(values), dtype=np.float64, requirements=("C", "W"))


def _forms() -> dict[type, Any]:
    from fedtheory.problems import maximum_and_chain, nonsmooth, nonsmooth_instances

    def linear(loss: int) -> Any:
        def make(p: Any) -> CompiledForm:
            from fedtheory.local.lanes import LANES, padded, zeros

            features = padded(padded(to_numpy(p.features), 1), 2)
            clients, samples, width = features.shape
            tiles = zeros(clients, samples // LANES, width, LANES)
            tiles[:] = features.reshape(clients, samples // LANES, LANES, width).swapaxes(2, 3)
            tau, ridge = float(getattr(p, "tau", 0.0)), float(p.ridge)
            arguments = (loss, tau, ridge, tiles, padded(to_numpy(p.targets)), padded(to_numpy(p.sample_weights)))
            return CompiledForm("linear model", arguments, 2 * tiles[0].size)

        return make

    def max_affine(p: Any) -> CompiledForm:
        from fedtheory.local.lanes import padded

        slopes = padded(to_numpy(p.slopes))
        return CompiledForm("max affine", (slopes, _plain(p.offsets)), slopes[0].size)

    def nesterov(p: Any) -> CompiledForm:
        return CompiledForm("largest coordinate", (float(p.mu),), 2 * p.dim)

    def l1_distance(p: Any) -> CompiledForm:
        points = _plain(p.centers)
        return CompiledForm("separable", (np.zeros_like(points), np.ones_like(points), points), 3 * p.dim)

    def pull(p: Any) -> CompiledForm:
        pulls, slopes = to_numpy(p.pulls), to_numpy(p.slopes)
        first = np.column_stack([pulls, np.zeros_like(pulls)])
        second = np.column_stack([slopes, np.full_like(slopes, p.shallow)])
        kinks = np.tile([p.first, p.second], (len(pulls), 1))
        return CompiledForm("separable", tuple(_plain(a) for a in (first, second, kinks)), 6)

    def distance(p: Any) -> CompiledForm:
        return CompiledForm("distance", (_plain(p.centers),), 3 * p.dim)

    def chain(p: Any) -> CompiledForm:
        return CompiledForm("chain", (_plain(p.heads), _plain(p.links), float(p.target)), 3 * p.dim)

    def maximum(p: Any) -> CompiledForm:
        starts = to_numpy(p.shares).argmax(axis=1).astype(np.int64)
        numbers = (maximum_and_chain.HALF, float(p.floor), float(p.target))
        work = 2 * p.share + 3 * p.dim
        return CompiledForm("maximum and chain", (starts, p.share, p.count, numbers, _plain(p.heads), _plain(p.links)), work)

    return {
        nonsmooth.LAD: linear(0),
        nonsmooth.Quantile: linear(1),
        nonsmooth.Hinge: linear(2),
        nonsmooth.MaxAffine: max_affine,
        nonsmooth.L1Distance: l1_distance,
        nonsmooth.EuclideanDistance: distance,
        nonsmooth_instances.NesterovWorst: nesterov,
        nonsmooth_instances.TwoClientPull: pull,
        nonsmooth_instances.ArjevaniShamir: chain,
        maximum_and_chain.MaximumAndChain: maximum,
    }


@cache
def _loops() -> tuple[Any, ...]:
    """The compiled kernels, imported at the first call."""
    from fedtheory.local.lanes import LANES, zeros
    from fedtheory.local.sliding_kernels import WALKS, Drawn, Pace, Points

    return WALKS, Drawn, Pace, Points, LANES, zeros


def solve(solver: Sliding, problem: Problem, objective: LocalObjective, start: Array, rows: Rows) -> LocalResult:
    """`SubgradientSliding.solve` for a problem with a compiled form; start (N, B, d) float64."""
    WALKS, Drawn, Pace, Points, LANES, zeros = _loops()
    form, shape = cast(CompiledForm, compiled_form(problem)), start.shape
    count, per, d = shape[0] * shape[1], shape[1], shape[2]
    walk, done = WALKS[form.walk], 0
    width = -(-d // LANES) * LANES
    room = zeros(4, *shape[:2], width)
    for place, values in zip(room, (start, None, objective.center, objective.linear), strict=True):
        if values is not None:
            place[..., :d] = to_numpy(values)
    points = Points(*room.reshape(4, count, width))
    no_noise, no_samples = np.empty((0, 0, d)), np.empty((0, 0, 0), dtype=np.int64)
    for size, noise, samples in draws(solver, problem, d, rows):
        noise = no_noise if noise is None else noise.reshape(count, size, d)
        samples = no_samples if samples is None else samples.reshape(count, size, -1)
        pace, drawn = Pace(float(objective.curvature), float(solver.radius), d, done, size), Drawn(noise, samples)

        def run(first: int, last: int, pace: Any = pace, drawn: Any = drawn) -> None:
            walk(first, last, per, form.arguments, points, pace, drawn)

        _share(run, count, solver.threads, count * size * (form.work + 6 * d + A_STEP))
        done += size
    y, average = (astype_like(a[..., :d].copy(), start) for a in room[:2])
    return LocalResult(y, average=average)


def cores() -> int:
    """Cores this process may use, at most OMP_NUM_THREADS where that is set."""
    own = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    wish = os.environ.get("OMP_NUM_THREADS", "").split(",")[0]
    return max(1, min(own, int(wish))) if wish.isascii() and wish.isdecimal() and len(wish) < 10 else own


def _share(run: Any, rows: int, threads: int | None, work: int) -> None:
    """run(first, last) over all rows, which do not touch each other, on as many threads as pay."""
    parts = min(rows, work // WORTH_A_THREAD)
    parts = min(parts, threads or cores()) if parts > 1 else 1
    cuts = list(pairwise(rows * i // parts for i in range(parts + 1)))
    if parts == 1:
        run(0, rows)
        return
    with ThreadPoolExecutor(parts - 1) as pool:  # the loops hold no interpreter lock
        others = [pool.submit(run, *cut) for cut in cuts[1:]]
        run(*cuts[0])
        for other in others:
            other.result()
