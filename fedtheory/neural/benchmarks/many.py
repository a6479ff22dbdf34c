"""Many runs of settings: in this process one after the other, or as tasks of an engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import fields
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from fedtheory.cells import Cells, digest_of, key_of
from fedtheory.errors import CheckpointError, DataFileError, FedTheoryError
from fedtheory.neural.benchmarks.preset import Preset
from fedtheory.neural.benchmarks.result import Result, result_json
from fedtheory.neural.benchmarks.run import load_data, run_preset
from fedtheory.parallel import as_finished, chosen_engine
from fedtheory.provenance import write_json

if TYPE_CHECKING:
    from fedtheory.neural.data import Data

__all__ = ["Datasets", "read_all", "run_presets"]



def run_presets(
    presets: Sequence[Preset], folder_of_data: Path | None, out: Path,
    on_result: Callable[[Result], None], verify: bool = True, workers: int = 1,
    threads: int | None = None, cells: Cells | None = None, **options: Any,
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
    """
    data = read_all(presets, folder_of_data, verify, options.get("progress", True))
    engine = chosen_engine(workers)
    about = {k: v for k, v in options.items() if k not in ("resume", "replace_others", "progress", "tensorboard")}
    about |= {"threads": threads or (0 if engine is None else 1), "data": None if folder_of_data is None else digest_of(folder_of_data)}
    contents = [["bench", repr(preset), about] for preset in presets]
    if engine is None:
        told = _here(presets, data, out, contents, cells, options)
        kept: Path | None = out
    else:
        kept = out.absolute() if engine.shares_files else None  # elsewhere there is no such folder
        elsewhere = options | {"progress": False}
        jobs = [_Job(preset, Datasets(folder_of_data, verify, False), kept, threads or 1, elsewhere) for preset in presets]
        told = as_finished(_elsewhere, jobs, workers) if cells is None else cells.compute(
            _elsewhere, jobs, contents, workers, again=_without_a_run
        )  # fmt: skip
    for i, fields_told in told:
        result = Result(presets[i], **fields_told)
        if kept is None:
            write_json(out / "runs" / f"{presets[i].name}.json", result_json(result))
        on_result(result)
        yield result


def _here(
    presets: Sequence[Preset], data: Datasets, out: Path, contents: Sequence[Any], cells: Cells | None, options: dict[str, Any]
) -> Iterator[tuple[int, dict[str, Any]]]:
    """The runs one after the other in this process, with its threads."""
    for i, preset in enumerate(presets):
        told = None
        if cells is not None:
            with suppress(KeyError):
                told = cells.get(key_of(contents[i]))
        if told is None or _without_a_run(told):
            told = _fields(_run(preset, data, out, label=f"{i + 1}/{len(presets)} {preset.name}", **options))
            told = told if cells is None else cells.put(key_of(contents[i]), told)
        yield i, told


def _without_a_run(told: dict[str, Any]) -> bool:
    """Return whether a run was refused, as for want of memory; one that diverged was not."""
    return not told["provenance"]


def _fields(result: Result) -> dict[str, Any]:
    """A result as JSON can hold it, without its preset."""
    return {f.name: getattr(result, f.name) for f in fields(result) if f.name != "preset"}


def read_all(presets: Sequence[Preset], folder: Path | None, verify: bool, progress: bool) -> Datasets:
    """The data sets of these settings, which are all read."""
    data = Datasets(folder, verify, progress)
    for preset in presets:
        data.of(preset)
    return data


class Datasets:
    """The samples of a preset, read once in a process."""

    def __init__(self, folder: Path | None, verify: bool, progress: bool) -> None:
        self._how = (folder, verify, progress)

    def of(self, preset: Preset) -> Data:
        drawn = preset.dataset == "shakespeare"  # the seed says which roles are read
        return _read(preset.dataset, preset.seed if drawn else 0, *self._how)


@lru_cache(maxsize=8)
def _read(name: str, seed: int, folder: Path | None, verify: bool, progress: bool) -> Data:
    try:
        return load_data(name, folder, seed, progress, verify)
    except DataFileError as error:
        raise DataFileError(f"{error}; or leave {name} out: name the data sets that you have with --dataset") from error


def _run(preset: Preset, data: Datasets, out: Path | None, **options: Any) -> Result:
    try:
        return run_preset(preset, data.of(preset), out, **options)
    except (CheckpointError, OSError):  # files: the user's to decide
        raise
    except FedTheoryError as error:
        return Result(preset, error=str(error))


class _Job(NamedTuple):
    """A run in another process."""

    preset: Preset
    data: Datasets
    out: Path | None
    threads: int
    options: dict[str, Any]


def _elsewhere(job: _Job) -> dict[str, Any]:
    """A run done: the fields of `Result` but the preset."""
    import torch

    torch.set_num_threads(job.threads)
    return _fields(_run(job.preset, job.data, job.out, **job.options))
