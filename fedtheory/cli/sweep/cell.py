"""One cell of a sweep: what it depends on, and the row that is made of it, in whatever process."""

from __future__ import annotations

import json
import os
from contextlib import nullcontext, redirect_stderr
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from fedtheory.cli.sweep.options import as_keys, options_of
from fedtheory.errors import Diverged, FedTheoryError, InvalidInput, MissingCapability
from fedtheory.limits import unlimited
from fedtheory.store.result_store import digest_of

if TYPE_CHECKING:
    from fedtheory.cli.run_made import Made, RunOptions
    from fedtheory.neural.benchmarks.presets import Preset

__all__ = ["COLUMNS", "Task", "check", "content", "data_of", "row_of"]

COLUMNS = {  # of a row, after its keys
    "status": "ok, diverged or failed",
    "error": "why it has no result",
    "rounds_done": "rounds that were run",
    "suboptimality": "F(x) - F* after the last round, the mean over its scenarios",
    "suboptimality_se": "the standard error of that mean; empty with one scenario",
    "certain_to": "F* and F(x) are known to this: a smaller F(x) - F* is 0 as far as can be told, and its size and sign say nothing",
    "best_suboptimality": "the smallest of the means of all rounds",
    "distance": "||x - x*|| after the last round",
    "bits": "bits sent and received by then",
    "rounds_to_target": "the first round in which the mean is at most the target; inf where none is",
    "bits_to_target": "bits sent and received by then",
    "test_accuracy": "of the last measured round of a network",
    "best_test_accuracy": "of all measured rounds",
    "nonzeros": "nonzero entries that a participant sends in a round, the mean over the rounds",
}


RECORD = ("objective", "bits")


class Task(NamedTuple):
    """A task for another process: the cell, the target, and its checkpoint's folder, or None."""

    kind: str
    cell: dict[str, Any]
    target: float | None
    folder: str | None


def content(kind: str, cell: dict[str, Any], target: float | None) -> Any:
    """Return what the row depends on: its options, and the files that they name."""
    files = {key: _digest(str(cell[key])) for key in ("problem", "data") if key in cell and Path(str(cell[key])).exists()}
    return ["sweep", kind, cell, target, files]


@lru_cache(maxsize=64)
def _digest(path: str) -> str:
    return digest_of(Path(path))


def check(kind: str, cell: dict[str, Any]) -> None:
    """Make everything that a cell runs, without running it."""
    if kind == "run":
        from fedtheory.simulation.rounds import Kept
        from fedtheory.simulation.simulate import check_run

        with _limits(cell):
            made = _made(cell, solved=False)
            check_run(made.problem, made.algorithm, made.rounds, made.sampling, _options(cell).scenarios, made.solver, Kept(RECORD))
        return
    try:
        import torch  # noqa: F401
    except ModuleNotFoundError as error:
        raise MissingCapability("networks need torch: pip install 'fedtheory[torch]', or leave [[network]] out") from error
    from fedtheory.cli.bench_options import check_options

    check_options(o := _bench(cell))
    _data(o).of(_preset(cell))


def _limits(cell: dict[str, Any]) -> Any:
    """True if runs that cannot end are refused, as `--allow-long` says."""
    return unlimited() if cell.get("allow_long") else nullcontext()


def row_of(task: Task) -> dict[str, Any]:
    """The row of a cell, without its keys."""
    row: dict[str, Any] = {"status": "ok", "error": ""}
    try:
        with open(os.devnull, "w") as nowhere, redirect_stderr(nowhere):  # a sweep tells its own progress
            with _limits(task.cell):
                return row | (_run(task) if task.kind == "run" else _network(task))
    except Diverged as error:
        return row | {"status": "diverged", "error": _why(task, error), "rounds_done": error.round_index}
    except (FedTheoryError, MemoryError) as error:
        return row | {"status": "failed", "error": "not enough memory: " * isinstance(error, MemoryError) + _why(task, error)}


def _why(task: Task, error: Exception) -> str:
    return as_keys("run" if task.kind == "run" else "bench", " ".join(str(error).split()))


# --- runs on convex problems ----------------------------------------------------------------------
def _options(cell: dict[str, Any]) -> RunOptions:
    from fedtheory.cli.run_made import options_from

    return options_from({**{name: o.default for name, o in options_of("run").items()}, **cell})


@lru_cache(maxsize=8)
def _problem(told: str, read: float) -> Any:
    """The problem of some options, shared by neighbouring cells, with its optimum once it is known.

    ``read``: when its file was written; the workers of a cluster outlive a sweep.
    """
    from fedtheory.cli.common import problem_of

    o = _options(json.loads(told))
    return problem_of(o.problem, o.options, o.seed)


def _made(cell: dict[str, Any], solved: bool = True) -> Made:
    from fedtheory.central.plan import METHODS
    from fedtheory.cli.options import PROBLEM_OPTIONS
    from fedtheory.cli.run_made import make

    if cell["method"] in METHODS:
        raise InvalidInput(f"method = {cell['method']!r}: it runs over a set, in `fedtheory run` only; leave it out of the sweep")
    of_problem = {"problem", "seed", "method", *(p.name for p in PROBLEM_OPTIONS)}
    told = json.dumps({k: v for k, v in cell.items() if k in of_problem and k != "method"} | {"method": "fedavg"}, sort_keys=True)
    files = [Path(str(cell[key])) for key in ("problem", "data") if key in cell]
    return make(_options(cell), solved, _problem(told, max((f.stat().st_mtime for f in files if f.is_file()), default=0.0)))


def _run(task: Task) -> dict[str, Any]:
    from fedtheory.rates import precision_floor
    from fedtheory.simulation.simulate import check_start, simulate
    from fedtheory.store.checkpoints import RunCheckpoint

    made, o, record = _made(task.cell), _options(task.cell), RECORD
    kept, past, keep = None, None, None
    if task.folder is not None:
        kept = RunCheckpoint(Path(task.folder) / "run.ckpt", task._asdict() | {"folder": None}, lambda line: None)
        x = check_start(made.problem, made.x0, o.scenarios, made.like)
        past, _ = kept.found(made.algorithm.init(x, made.problem.num_clients), x, record)
        keep = kept.keep
    trajectory = simulate(
        made.problem, made.algorithm, made.rounds, made.x0, sampling=made.sampling,
        scenarios=o.scenarios, seed=o.seed, resume=past, local_solver=made.solver, record=record,
        like=made.like, in_place=True, checkpoint=keep,
    )
    gap, bits = trajectory.metrics["objective"] - made.optimum.value, trajectory.metrics["bits"].mean(axis=1)
    mean = gap.mean(axis=1)
    row: dict[str, Any] = {
        "rounds_done": trajectory.rounds,
        "suboptimality": float(mean[-1]),
        "certain_to": precision_floor(made.optimum),
        "best_suboptimality": float(mean.min()),
        "distance": float(np.linalg.norm(trajectory.x - made.optimum.x, axis=-1).mean()),
        "bits": float(bits[-1]),
    }
    if o.scenarios > 1:
        row["suboptimality_se"] = float(gap[-1].std(ddof=1) / np.sqrt(o.scenarios))
    if task.target is not None:
        reached = np.flatnonzero(mean <= task.target)
        row["rounds_to_target"] = float(reached[0]) if reached.size else float("inf")
        row["bits_to_target"] = float(bits[reached[0]]) if reached.size else float("inf")
    return row


# --- networks -------------------------------------------------------------------------------------
def _bench(cell: dict[str, Any]) -> Any:
    from dataclasses import fields

    from fedtheory.cli.bench_options import Options
    from fedtheory.cli.local_solvers import MEMORY_OPTIONS

    kinds: dict[str, Any] = {"data": Path, **dict.fromkeys(("lr", "l1", "l2", "epsilon"), str)}
    known = {f.name for f in fields(Options)}
    given = {name: kinds[name](value) if name in kinds else value for name, value in cell.items() if name in known}
    return Options(**given, memory={option.name: cell.get(option.name) for option in MEMORY_OPTIONS})


def _preset(cell: dict[str, Any]) -> Preset:
    """The one setting that the cell names."""
    from fedtheory.cli.bench import TABLES, chosen
    from fedtheory.errors import suggest

    if cell["table"] not in TABLES:
        raise suggest(cell["table"], TABLES, "table")
    found = chosen(cell["table"], _bench(cell))
    if len(found) != 1:
        differ = [name for name in ("dataset", "split", "method") if len({getattr(p, name) for p in found}) > 1]
        raise InvalidInput(
            f"table = {cell['table']!r}: {len(found)} settings fit a cell, which must name one: give {' and '.join(differ) or 'more'}, "
            f"as in {', '.join(f'{name} = {sorted({str(getattr(p, name)) for p in found})}' for name in differ)}"
        )
    return found[0]


def _data(o: Any) -> Any:
    """The data sets, as `fedtheory bench` reads them."""
    from fedtheory.neural.benchmarks.many import Datasets

    return Datasets(None if o.quick and o.data is None else o.data, o.verify)


def data_of(cell: dict[str, Any]) -> dict[str, str]:
    """The data set of a network's cell and how it is split, also where the cell names neither."""
    o, preset = _bench(cell), _preset(cell)
    return {"dataset": "digits" if o.quick and o.data is None else preset.dataset, "split": preset.split}


def _network(task: Task) -> dict[str, Any]:
    import torch

    from fedtheory.cli.bench_options import run_options
    from fedtheory.neural.benchmarks.run import run_preset

    o, preset = _bench(task.cell), _preset(task.cell)
    torch.set_num_threads(o.threads or 1)
    data = _data(o).of(preset)
    options = {**run_options(task.cell["table"], o), "progress": False, "resume": True}  # its folder has no other's checkpoint
    result = run_preset(preset, data, None if task.folder is None else Path(task.folder), **options)
    if result.error is not None:
        return {"status": "diverged", "error": result.error, "rounds_done": result.rounds}
    accuracy = result.series("test_accuracy")
    accuracy = accuracy[np.isfinite(accuracy)]
    row: dict[str, Any] = {"rounds_done": result.rounds}
    if accuracy.size:
        row |= {"test_accuracy": float(accuracy[-1]), "best_test_accuracy": float(accuracy.max())}
    if "nonzeros" in result.metrics:
        row["nonzeros"] = float(np.nanmean(result.series("nonzeros")))
    return row
