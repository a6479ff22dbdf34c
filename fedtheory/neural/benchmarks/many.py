"""Many runs of settings: in this process one after the other, or as tasks of an engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from fedtheory.errors import CheckpointError, DataFileError, FedTheoryError
from fedtheory.neural.benchmarks.presets import Preset
from fedtheory.neural.benchmarks.run import Result, kept_of, load_data, result_json, run_preset
from fedtheory.parallel import as_finished, chosen_engine
from fedtheory.provenance import write_json
from fedtheory.store.result_store import ResultStore, digest_of, key_of

if TYPE_CHECKING:
    from fedtheory.neural.data import Data

__all__ = ["Datasets", "run_presets"]


class Datasets(NamedTuple):
    """The samples of presets, read once in a process."""

    folder: Path | None
    verify: bool = True

    def of(self, preset: Preset) -> Data:
        """The samples of one; Shakespeare's seed says which roles are read."""
        return _read(preset.dataset, preset.seed if preset.dataset == "shakespeare" else 0, *self)


@lru_cache(maxsize=8)
def _read(name: str, seed: int, folder: Path | None, verify: bool) -> Data:
    try:
        return load_data(name, folder, seed, verify=verify)
    except DataFileError as error:
        raise DataFileError(f"{error}; or leave {name} out: name the data sets that you have with --dataset") from error


class _Job(NamedTuple):
    """A run. threads : of torch; 0: what it takes"""

    preset: Preset
    data: Datasets
    out: Path | None
    threads: int
    options: dict[str, Any]


def _done(job: _Job) -> dict[str, Any]:
    """A run done: the fields of `Result` but the preset."""
    import torch

    if job.threads:
        torch.set_num_threads(job.threads)
    try:
        return kept_of(run_preset(job.preset, job.data.of(job.preset), job.out, **job.options))
    except (CheckpointError, OSError):  # files: the user's to decide
        raise
    except FedTheoryError as error:
        return kept_of(Result(job.preset, error=str(error)))


def _without_a_run(told: dict[str, Any]) -> bool:
    """Return whether a run was refused, as for want of memory; one that diverged was not."""
    return not told["provenance"]


def run_presets(
    presets: Sequence[Preset], data: Datasets, out: Path, on_result: Callable[[Result], None],
    workers: int = 1, threads: int | None = None, cells: ResultStore | None = None, **options: Any,
) -> Iterator[Result]:
    """All runs; data sets are read once, and all of them before the first run.

    Parameters
    ----------
    workers : int
        Processes. With 1 the runs are made in this one, one after the other, unless another engine is in use
        (`fedtheory.parallel.use_engine`): then each is a task there, and results come as they are finished.
    threads : int
        Of torch in each process; default 1 in other processes, and what torch takes in this one.
    cells
        Where finished runs are kept and found again.
    options : as `run_preset` takes them
    """
    for preset in presets:
        data.of(preset)
    engine = chosen_engine(workers)
    about = {k: v for k, v in options.items() if k not in ("resume", "replace_others", "progress", "tensorboard")}
    about |= {"threads": threads or (0 if engine is None else 1), "data": None if data.folder is None else digest_of(data.folder)}
    contents = [["bench", repr(preset), about] for preset in presets]
    kept = out if engine is None else out.absolute() if engine.shares_files else None  # elsewhere there is no such folder
    jobs = [
        _Job(preset, data, kept, about["threads"], options | (
            {"label": f"{i}/{len(presets)} {preset.name}"} if engine is None else {"progress": False}
        ))
        for i, preset in enumerate(presets, 1)
    ]  # fmt: skip
    if engine is None:
        told = _here(jobs, contents, cells)
    elif cells is None:
        told = as_finished(_done, jobs, workers)
    else:
        told = cells.compute(_done, jobs, contents, workers, again=_without_a_run)
    for i, fields_told in told:
        result = Result(presets[i], **fields_told)
        if kept is None:
            write_json(out / "runs" / f"{presets[i].name}.json", result_json(result))
        on_result(result)
        yield result


def _here(
    jobs: Sequence[_Job], contents: Sequence[Any], cells: ResultStore | None
) -> Iterator[tuple[int, dict[str, Any]]]:
    """The runs one after the other in this process, with its threads."""
    for i, job in enumerate(jobs):
        told = None
        if cells is not None:
            with suppress(KeyError):
                told = cells.get(key_of(contents[i]))
        if told is None or _without_a_run(told):
            told = _done(job) if cells is None else cells.put(key_of(contents[i]), _done(job))
        yield i, told
