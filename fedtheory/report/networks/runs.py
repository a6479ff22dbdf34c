"""Runs of the papers' settings, over several seeds, each finished run kept in a file until all are there."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedtheory.errors import CheckpointError, DataFileError, InvalidInput, MissingCapability
from fedtheory.provenance import provenance, to_jsonable, write_json
from fedtheory.untrusted import read_json

if TYPE_CHECKING:
    from fedtheory.neural.benchmarks.preset import Preset
    from fedtheory.neural.benchmarks.result import Result
    from fedtheory.neural.data import Data

__all__ = [
    "AS_SET", "DIGITS", "WHOLE", "Change", "Published", "Told", "check_local_work", "found_sets",
    "kept_or", "measured", "need_torch", "on_digits", "quietly", "seeds_from", "simulated",
]

DIGITS = "digits"
CLIENTS = 50  # of scikit-learn's digits: 28 or 29 samples each
METRICS = (
    "test_accuracy", "test_loss", "drift", "nonzeros", "participants", "entropy", "update_entropy",
    "bits", "client_accuracy",
)
_RELEASE = {"cinic10-200": "cinic10"}  # a second row of the same data

Told = Callable[[str], Any]


@dataclass(frozen=True)
class Published:
    """The share of the published data sets that is run.

    Attributes
    ----------
    rounds : at most so many; None: the paper's
    seeds : how many, or which
    most : samples of a client that are used; None: all
    """

    rounds: int | None = None
    seeds: int | Sequence[int] = 3
    most: int | None = None

    @property
    def options(self) -> dict[str, Any]:
        """As `Preset.make_problem` takes them."""
        return {} if self.most is None else {"most": self.most, "most_tested": 2000}


WHOLE = Published()


@dataclass(frozen=True)
class Change:
    """The changes of a figure's settings in all of its runs.

    Attributes
    ----------
    values : of 'lr', 'l1', 'l2' and 'epsilon', in the methods that have them
    fields : of `Preset`: epochs, clip...
    options : as `Preset.make_problem` takes them: device, dtype, autocast
    """

    values: Mapping[str, float] = field(default_factory=dict)
    fields: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)

    def __call__(self, preset: Preset) -> Preset:
        """The setting with these values."""
        return replace(preset.with_values(self.values), **self.fields)

    def notes(self) -> list[str]:
        """A sentence for a caption, where something differs."""
        both = [(k, v) for k, v in {**self.values, **self.fields}.items() if k != "rounds"]  # a caption says them anyway
        said = [f"{name} = {value:g}" if isinstance(value, float) else f"{name} = {value}" for name, value in both]
        return [f"Set by the caller in all runs that have it: {', '.join(said)}."] if said else []


AS_SET = Change()


def quietly(words: str) -> None:
    """Tells nobody."""


def need_torch() -> None:
    """Raise `MissingCapability` where torch is not installed."""
    try:
        import torch  # noqa: F401
    except ModuleNotFoundError as error:
        raise MissingCapability(
            "trained networks need torch, which is not installed: pip install 'fedtheory[torch]'"
        ) from error


def seeds_from(seed: int, seeds: int | Sequence[int]) -> list[int]:
    """So many seeds, the first of which is the one asked for; or those that are named."""
    return [seed + i for i in range(seeds)] if isinstance(seeds, int) else list(seeds)


def on_digits(preset: Preset, network: str = "mlp-100-100", clients: int = CLIENTS, **more: Any) -> Preset:
    """The same method, hyperparameters, split and participation on scikit-learn's digits and a small network."""
    cohort = preset.cohort and max(1, round(preset.cohort * clients / preset.clients))
    deal = preset.partition if preset.partition["partition"] != "users" else {"partition": "dirichlet", "alpha": 0.3}
    small = {
        "dataset": DIGITS,
        "network": network,
        "other_network": None,
        "clients": clients,
        "cohort": cohort,
        "partition": deal,
    }
    return replace(preset, **(small | more))


def found_sets(
    wanted: Sequence[str], folder: Path | str, seed: int, told: Told = quietly, first_only: bool = False
) -> tuple[dict[str, Data], list[str]]:
    """The data sets that the folder has, or the first one, and a sentence for each it has not.

    Raises
    ------
    DataFileError
        It has none of them; says what is missing of the first.
    """
    from fedtheory.neural.benchmarks.run import load_data

    sets: dict[str, Data] = {}
    left_out: list[str] = []
    first: DataFileError | None = None
    for name in dict.fromkeys(wanted):
        if sets and first_only:
            break
        try:
            sets[name] = load_data(_RELEASE.get(name, name), folder, seed, progress=False)
            told(f"{name}: {sets[name].num_train} training samples")
        except DataFileError as error:
            first = first or error
            left_out.append(name)
            told(f"{name} is left out: {error}")
    if not sets:
        raise DataFileError(f"none of {', '.join(wanted)} can be read from {folder}; the first: {first}") from first
    return sets, [f"{name} is not shown: its files could not be read from the folder given" for name in left_out]


def _digest(preset: Preset, data: Data, seed: int, options: Mapping[str, Any]) -> str:
    """Return a digest of setting, data and code, in which a kept run must agree with a new one."""
    made_with = provenance(seed, arrays="torch")
    samples = hashlib.blake2b(digest_size=16)
    for array in (data.train_x, data.train_y, data.test_x, data.test_y):
        samples.update(np.ascontiguousarray(array).data.cast("B"))
    key = {
        "preset": asdict(preset),
        "data": [data.name, samples.hexdigest()],
        "seed": seed,
        "options": dict(options),
        "code": [made_with["commit"], made_with["versions"]],
    }
    return hashlib.blake2b(json.dumps(to_jsonable(key), sort_keys=True).encode(), digest_size=12).hexdigest()


def _kept(path: Path) -> dict[str, Any] | None:
    """Read what a finished run has left; None where there is nothing that can be read."""
    try:
        found = read_json(path)
        return (
            found
            if isinstance(found["metrics"], dict) and (found["error"] or found["rounds"] == found["preset"]["rounds"])
            else None
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def kept_or(
    keep: Path | str | None, preset: Preset, data: Data, seed: int, what: Mapping[str, Any], make: Callable[[], Any]
) -> Any:
    """JSON values that ``make`` returns, or those it returned before for the same setting, data, code and ``what``."""
    if keep is None:
        return to_jsonable(make())
    path = Path(keep) / "networks" / f"{_digest(preset, data, seed, what)}.json"
    try:
        return read_json(path)["found"]
    except (OSError, ValueError, KeyError, TypeError):
        pass
    found = to_jsonable(make())
    write_json(path, {"found": found, "provenance": provenance(seed, arrays="torch")})
    return found


def simulated(
    preset: Preset, data: Data, seeds: Sequence[int], keep: Path | str | None = None,
    sampling: Any = None, solver: Any = None,
    record: Sequence[str] = ("test_accuracy", "objective"), **options: Any,
) -> dict[str, np.ndarray]:
    """A setting under another law of participation, or with other local work, than a preset has:
    {metric: (seeds, rounds + 1)}.

    After a divergence the metrics are NaN. ``options`` are as `Preset.make_problem` takes them.
    """
    from fedtheory import simulate
    from fedtheory.errors import Diverged

    need_torch()

    def run(seed: int) -> dict[str, Any]:
        problem = preset.make_problem(data, seed, **options)
        done: dict[str, Any] = {}

        def look(at: Any) -> None:
            done.update({m: np.array(v[: at.round_index + 1, 0]) for m, v in at.metrics.items()})

        try:
            simulate(
                problem, preset.make_algorithm(), preset.rounds, problem.initial(),
                sampling or preset.make_sampling(), seed=seed,
                local_solver=solver or preset.make_solver(problem.sample_counts),
                record=tuple(record), like=problem.like_array(), checkpoint=look,
            )
        except Diverged:
            pass
        return {
            m: _series([None if not np.isfinite(v) else v for v in done.get(m, [])], preset.rounds + 1) for m in record
        }

    about = {
        "simulated": list(record),
        "sampling": repr(sampling),
        "laws": getattr(sampling, "laws", None),
        "solver": repr(solver),
        **options,
    }
    rows = [kept_or(keep, preset, data, s, about, partial(run, s)) for s in seeds]
    return {m: np.array([[float(v) for v in row[m]] for row in rows]) for m in record}


def _finished(result: Result) -> dict[str, Any]:
    from fedtheory.neural.benchmarks.result import result_json

    return result_json(result)


def _one(preset: Preset, data: Data, seed: int, keep: Path | None, options: Mapping[str, Any]) -> dict[str, Any]:
    """One run as JSON values: a kept one, or run now, from its checkpoint on if there is one."""
    from fedtheory.neural.benchmarks.run import run_preset

    preset = replace(preset, seed=seed)
    if keep is None:
        return _finished(run_preset(preset, data, None, progress=False, **options))
    folder = keep / _digest(preset, data, seed, options)
    stem = folder / "runs" / preset.name
    path = stem.with_name(f"{stem.name}.json")
    checkpoint = stem.with_name(f"{stem.name}.ckpt")
    found = _kept(path)
    if found is None:
        try:
            found = _finished(run_preset(preset, data, folder, progress=False, **options))
        except CheckpointError:  # of another machine or library, or damaged: it may go, for nothing of it was shown
            checkpoint.unlink(missing_ok=True)
            found = _finished(run_preset(preset, data, folder, progress=False, **options))
        write_json(path, found)
        checkpoint.unlink(missing_ok=True)  # the models of all clients: large, and not needed once the run is done
    return found


def _series(values: Sequence[Any] | None, length: int) -> np.ndarray:
    """(length,) numbers, NaN where nothing was measured."""
    out = np.full(length, np.nan)
    if values is not None:
        numbers = [math.nan if v is None else float(v) for v in values][:length]
        out[: len(numbers)] = numbers
    return out


def measured(
    presets: Mapping[Any, Preset], sets: Mapping[str, Data], seeds: Sequence[int],
    keep: Path | str | None = None, progress: Told | None = None, **options: Any,
) -> dict[Any, dict[str, Any]]:
    """Every setting with every seed.

    Parameters
    ----------
    presets : by a key of the caller's; each runs its `rounds` on ``sets[preset.dataset]``
    keep : folder for finished runs, and for checkpoints of the running one; None keeps nothing
    options : as `fedtheory.neural.benchmarks.run.run_preset` takes them: most, most_tested, evaluate_every...

    Returns
    -------
    dict of key -> {metric: (seeds, rounds + 1), 'parameters': int, 'rounds': int, 'errors': list of str}
        NaN where nothing was measured, as after a run's divergence.

    Raises
    ------
    MissingCapability
        torch is not installed.
    InvalidInput
        No settings; local work that one of the methods is not made for, before any run.
    """
    need_torch()
    if not presets:
        raise InvalidInput("no settings to run: choose at least one data set, split and method that the paper has")
    check_local_work(presets.values())
    told, place = progress or quietly, None if keep is None else Path(keep) / "networks"
    out: dict[Any, dict[str, Any]] = {}
    for n, (key, preset) in enumerate(presets.items(), start=1):
        found = [_one(preset, sets[preset.dataset], s, place, options) for s in seeds]
        length = preset.rounds + 1
        row: dict[str, Any] = {m: np.stack([_series(f["metrics"].get(m), length) for f in found]) for m in METRICS}
        row = {name: values for name, values in row.items() if np.isfinite(values).any()}
        row |= {
            "parameters": found[0]["parameters"],
            "rounds": preset.rounds,
            "errors": [f["error"] for f in found if f["error"]],
        }
        out[key] = row
        ends = row["test_accuracy"][:, np.isfinite(row["test_accuracy"]).any(axis=0)][:, -1]
        told(f"{n}/{len(presets)} {preset.name}: accuracy {_percent(ends)} ({len(seeds)} seeds)")
    return out


def check_local_work(presets: Iterable[Preset]) -> None:
    """Raise `InvalidInput` where a method divides by a step size that its solver does not have."""
    refused: dict[str, str] = {}
    for preset in presets:
        solver = preset.make_solver()
        try:
            preset.make_algorithm().check(solver)
        except MissingCapability as error:
            refused[preset.method] = str(error).partition(": use ")[0]
    if refused:
        why = next(iter(refused.values()))
        raise InvalidInput(f"local work by {type(solver).__name__} is not for {', '.join(refused)}, which is among these runs: {why}")


def _percent(values: np.ndarray) -> str:
    kept = values[np.isfinite(values)]
    return f"{100 * kept.mean():.1f} %" if kept.size else "none, for every run diverged"
