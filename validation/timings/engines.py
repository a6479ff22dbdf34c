"""Costs of an engine: tasks a second, a second worker's gain, and a sweep's cells at several sizes.

    python validation/timings/engines.py --out validation/timings/engines.json

Empty tasks tell what handing out costs. Tasks that compute for a fiftieth of a second tell what a
second worker brings: the ratio of the times with one and with two, on the same tasks. ResultStore of a
sweep are runs of three rounds on a small quadratic: their whole cost is compared with that of the
plain calls of `simulate` in one loop.
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from fedtheory import algorithms, problems, simulate
from fedtheory.cli.sweep.cell import content, row_of
from fedtheory.cli.sweep.command import _Each, _task
from fedtheory.cli.sweep.spec import Grid, Spec
from fedtheory.parallel import as_finished, stop_workers, use_engine
from fedtheory.provenance import write_json
from fedtheory.store.result_store import ResultStore

MATRIX = np.random.default_rng(0).standard_normal((120, 120)) / 12


def nothing(n: int) -> int:
    return n


def work(n: int) -> float:
    """About a fiftieth of a second of one core."""
    x = np.eye(120)
    for _ in range(300):
        x = np.tanh(MATRIX @ x)
    return float(x.sum()) + n


def seconds(call: Any) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def engine(name: str, repeats: int = 3) -> dict[str, Any]:
    """Tasks a second, and the ratio of one worker to two; medians of repetitions."""
    found: dict[str, Any] = {}
    took: dict[int, float] = {}
    for workers in (1, 2):
        with use_engine(name, workers=workers):
            rates, times = _measured(workers, repeats)
            stop_workers()
        found[f"empty_tasks_a_second_{workers}"], took[workers] = round(float(np.median(rates))), float(np.median(times))
    return {**found, "one_worker_over_two": round(took[1] / took[2], 2), "seconds_of_80_tasks": [round(t, 2) for t in took.values()]}


def _measured(workers: int, repeats: int) -> tuple[list[float], list[float]]:
    list(as_finished(work, range(4), workers))  # starts the workers
    rates = [5000 / seconds(lambda: list(as_finished(nothing, range(5000), workers))) for _ in range(repeats)]
    return rates, [seconds(lambda: list(as_finished(work, range(80), workers))) for _ in range(repeats)]


def sweep(cells: int) -> dict[str, Any]:
    """Measure what so many cells cost beyond the runs themselves."""
    problem = problems.random_quadratic(5, 4, seed=0)
    problem.optimum()
    axes = {"problem": ["quadratic"], "seed": [0], "method": ["feddyn"], "rounds": [3], "alpha": list(np.linspace(0.1, 9, cells))}
    spec = Spec("", None, (("run", Grid(axes)),))

    def plain() -> None:
        for alpha in axes["alpha"]:
            simulate(problem, algorithms.FedDyn(float(alpha)), 3, record=("objective", "bits"), in_place=True)

    with tempfile.TemporaryDirectory() as folder, ResultStore(Path(folder) / "cells.sqlite") as store:
        contents, tasks = _Each(spec, content), _Each(spec, partial(_task, None))

        def all_cells() -> None:
            for _ in store.compute(row_of, tasks, contents):
                pass

        first, again = seconds(all_cells), seconds(all_cells)
        rows = seconds(lambda: sum(1 for _ in store.rows(contents)))
        size = sum(p.stat().st_size for p in Path(folder).iterdir())
    alone = seconds(plain)
    return {
        "cells": cells, "seconds": round(first, 2), "seconds_of_the_runs_alone": round(alone, 2), "ratio": round(first / alone, 2),
        "microseconds_a_known_cell": round(1e6 * again / cells, 1), "microseconds_a_row_read": round(1e6 * rows / cells, 1),
        "bytes_a_cell": round(size / cells), "peak_mib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--cells", type=int, nargs="*", default=[1000, 10_000, 100_000])
    o = parser.parse_args()
    told: dict[str, Any] = {"sweeps": [], "engines": {}}
    for cells in o.cells:
        told["sweeps"].append(sweep(cells))
        print(told["sweeps"][-1], flush=True)
    for name in ("local", "dask", "ray"):
        told["engines"][name] = engine(name)
        print(name, told["engines"][name], flush=True)
    if o.out is not None:
        write_json(o.out, told)


if __name__ == "__main__":
    sys.exit(main())
