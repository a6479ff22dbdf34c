"""Runs of the papers' settings over several seeds, each finished run kept until all are there."""

from __future__ import annotations

import hashlib
import json
import math
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedtheory.errors import DataFileError, InvalidInput, MissingCapability
from fedtheory.provenance import provenance, to_jsonable, write_json
from fedtheory.untrusted import read_json

if TYPE_CHECKING:
    from fedtheory.neural.benchmarks.presets import Preset
    from fedtheory.neural.data import Data

__all__ = [
    "AS_SET", "DIGITS", "WHOLE", "Change", "Published", "Runs", "about_of", "check_local_work", "on_digits",
]

DIGITS = "digits"
CLIENTS = 50  # of scikit-learn's digits: 28 or 29 samples each
METRICS = (
    "test_accuracy", "test_loss", "drift", "nonzeros", "participants", "entropy", "update_entropy",
    "bits", "client_accuracy",
)

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
        return preset.changed(**self.values, **self.fields)

    def notes(self) -> list[str]:
        """A sentence for a caption, where something differs."""
        both = {**self.values, **self.fields}
        both.pop("rounds", None)  # a caption says them anyway
        said = [f"{k} = {v:g}" if isinstance(v, float) else f"{k} = {v}" for k, v in both.items()]
        return [f"Set by the caller in all runs that have it: {', '.join(said)}."] if said else []


AS_SET = Change()


@dataclass
class Runs:
    """The runs of one figure: on a stand-in that a CPU trains in seconds, or on published data.

    Attributes
    ----------
    rounds : of the runs on the stand-in
    seeds : of the same: so many from ``seed`` on, or those that are named
    published : how much is run on ``data``
    change : of the settings, in all runs
    data : folder with published data sets; None: the stand-in
    keep : folder for finished runs, and for checkpoints of the running one; None keeps nothing
    progress : callable(words), called after each setting
    most : samples of a client of the stand-in; None: all
    stand_in : its name and its data; None: scikit-learn's digits
    sets, notes : what `read` has found, and a sentence for each data set that it has not
    """

    rounds: int
    seeds: int | Sequence[int]
    published: Published = WHOLE
    change: Change = AS_SET
    seed: int = 0
    data: Path | str | None = None
    keep: Path | str | None = None
    progress: Told | None = None
    most: int | None = None
    stand_in: Callable[[], Data] | None = None
    sets: dict[str, Data] = field(default_factory=dict, init=False)
    notes: list[str] = field(default_factory=list, init=False)

    @property
    def small(self) -> bool:
        """True on the stand-in."""
        return self.data is None

    @property
    def used(self) -> list[int]:
        """The seeds."""
        seeds = self.seeds if self.small else self.published.seeds
        return [self.seed + i for i in range(seeds)] if isinstance(seeds, int) else list(seeds)

    @property
    def options(self) -> dict[str, Any]:
        """As `Preset.make_problem` takes them."""
        small = {} if self.most is None else {"most": self.most}
        return {**(small if self.small else self.published.options), **self.change.options}

    def told(self, words: str) -> None:
        """Pass on what is done."""
        if self.progress is not None:
            self.progress(words)

    def read(self, wanted: Sequence[str], first_only: bool = False) -> list[str]:
        """Read the stand-in, or what the folder has of the data sets, or the first of these; the names.

        Raises
        ------
        MissingCapability
            torch is not installed.
        DataFileError
            The folder has none of them; says what is missing of the first.
        """
        from fedtheory.neural.benchmarks.run import load_data
        from fedtheory.neural.data import digits

        _need_torch()
        if self.data is None:
            found = (self.stand_in or digits)()
            self.sets = {found.name: found}
            return list(self.sets)
        errors: dict[str, DataFileError] = {}
        for name in dict.fromkeys(wanted):
            if self.sets and first_only:
                break
            try:
                self.sets[name] = load_data(name, self.data, self.seed)
                self.told(f"{name}: {self.sets[name].num_train} training samples")
            except DataFileError as error:
                errors[name] = error
                self.told(f"{name} is left out: {error}")
        if not self.sets:
            first = next(iter(errors.values()))
            none = f"none of {', '.join(wanted)} can be read from {self.data}"
            raise DataFileError(f"{none}; the first: {first}") from first
        why = "its files could not be read from the folder given"
        self.notes = [f"{name} is not shown: {why}" for name in errors]
        return list(self.sets)

    def setting(self, preset: Preset, small: Callable[[Preset], Preset]) -> Preset:
        """The paper's setting with no more rounds than are asked for, or for the stand-in what ``small`` makes of it."""
        if self.small:
            return self.change(replace(small(preset), rounds=self.rounds))
        most = self.published.rounds or preset.rounds
        return self.change(replace(preset, rounds=min(preset.rounds, most)))

    def measured(self, presets: Mapping[Any, Preset]) -> dict[Any, dict[str, Any]]:
        """Every setting with every seed, on ``sets[preset.dataset]``.

        Returns
        -------
        dict of key -> {metric: (seeds, rounds + 1), 'parameters': int, 'rounds': int, 'errors': list of str}
            NaN where nothing was measured, as after a run's divergence.

        Raises
        ------
        InvalidInput
            No settings; local work that one of the methods is not made for, before any run.
        """
        if not presets:
            raise InvalidInput("no settings to run: choose at least one data set, split and method that the paper has")
        check_local_work(presets.values())
        out: dict[Any, dict[str, Any]] = {}
        for n, (key, preset) in enumerate(presets.items(), start=1):
            found = [self._one(replace(preset, seed=s)) for s in self.used]
            length, metrics = preset.rounds + 1, [f["metrics"] for f in found]
            row: dict[str, Any] = {m: np.stack([_series(of.get(m), length) for of in metrics]) for m in METRICS}
            row = {name: values for name, values in row.items() if np.isfinite(values).any()}
            errors = [f["error"] for f in found if f["error"]]
            parameters = found[0]["parameters"]
            out[key] = row | {"parameters": parameters, "rounds": preset.rounds, "errors": errors}
            accuracy = row["test_accuracy"]
            ends = _percent(accuracy[:, np.isfinite(accuracy).any(axis=0)][:, -1])
            self.told(f"{n}/{len(presets)} {preset.name}: accuracy {ends} ({len(self.used)} seeds)")
        return out

    def _one(self, preset: Preset) -> dict[str, Any]:
        """One run as JSON values: a kept one, or run now, from its checkpoint on if there is one."""
        from fedtheory.neural.benchmarks import run

        def make(folder: Path | None) -> dict[str, Any]:
            how = {"progress": False, "replace_others": True, **self.options}
            found = run.run_preset(preset, self.sets[preset.dataset], folder, **how)
            if folder is not None:  # all clients' models: large, and not needed once the run is done
                shutil.rmtree(folder, ignore_errors=True)
            return run.result_json(found)

        return self.kept_or(preset, self.options, make)

    def kept_or(
        self, preset: Preset, what: Mapping[str, Any], make: Callable[[Path | None], Mapping[str, Any]]
    ) -> dict[str, Any]:
        """JSON values that ``make(folder)`` returns, or has returned before for the same setting, data, code and ``what``.

        folder : for its checkpoints, or None
        """
        if self.keep is None:
            return dict(to_jsonable(make(None)))
        path = Path(self.keep) / "networks" / f"{_digest(preset, self.sets[preset.dataset], what)}.json"
        try:
            found = dict(read_json(path))
            del found["provenance"]
        except (OSError, ValueError, KeyError, TypeError):  # nothing there, or nothing that can be read
            found = to_jsonable(make(path.with_suffix("")))
            write_json(path, {"provenance": provenance(preset.seed, arrays="torch"), **found})
        return found

    def simulated(
        self, preset: Preset, seeds: Sequence[int], sampling: Any = None, solver: Any = None,
        record: Sequence[str] = ("test_accuracy", "objective"),
    ) -> dict[str, np.ndarray]:
        """A setting under another law of participation, or with other local work, than a preset has:
        {metric: (seeds, rounds + 1)}. After a divergence the metrics are NaN."""
        from fedtheory import simulate
        from fedtheory.errors import Diverged

        def run(preset: Preset, folder: Path | None) -> dict[str, Any]:
            problem = preset.make_problem(self.sets[preset.dataset], preset.seed, **self.options)
            done: dict[str, Any] = {}

            def look(at: Any) -> None:
                seen = {m: v[: at.round_index + 1, 0] for m, v in at.metrics.items()}
                done.update({m: np.where(np.isfinite(v), v, np.nan) for m, v in seen.items()})

            try:
                simulate(
                    problem, preset.make_algorithm(), preset.rounds, problem.initial(),
                    sampling or preset.make_sampling(), seed=preset.seed,
                    local_solver=solver or preset.make_solver(problem.sample_counts),
                    record=tuple(record), like=problem.like_array(), checkpoint=look,
                )
            except Diverged:
                pass
            return {m: _series(list(done.get(m, ())), preset.rounds + 1) for m in record}

        laws = {"sampling": repr(sampling), "laws": getattr(sampling, "laws", None)}
        about = {"simulated": list(record), **laws, "solver": repr(solver), **self.options}
        seeded = [replace(preset, seed=s) for s in seeds]
        rows = [self.kept_or(p, about, partial(run, p)) for p in seeded]
        return {m: np.array([[float(v) for v in row[m]] for row in rows]) for m in record}

    def panels(self, settings: Mapping[tuple[Any, ...], Preset], **said: Any) -> dict[str, Any]:
        """The data of a figure with several methods in each panel, which is of a data set, or of one and a split.

        Parameters
        ----------
        settings : by (name, method) or (name, split, method)
        said : of every panel, in place of what the settings have
        """
        found = self.measured(settings)
        panels: dict[tuple[Any, ...], dict[str, Any]] = {}
        for key, preset in settings.items():
            *where, method = key
            about = about_of(preset) | {"split": where[-1] if len(where) > 1 else preset.split} | said
            methods = panels.get(tuple(where), {}).get("methods", {})
            panels[tuple(where)] = about | {"methods": methods | {method: found[key]}}
        return self.shown(list(panels.values()))

    def shown(self, panels: list[dict[str, Any]]) -> dict[str, Any]:
        """The panels, and how they were made."""
        return {
            "panels": panels, "seeds": self.used, "notes": [*self.notes, *self.change.notes()],
            "published": not self.small, "most": self.options.get("most"),
        }


def about_of(preset: Preset) -> dict[str, Any]:
    """A panel's data set, network and who takes part for how long."""
    told = ("dataset", "network", "clients", "participation", "cohort", "rounds")
    return {k: getattr(preset, k) for k in told}


def _need_torch() -> None:
    """Raise `MissingCapability` where torch is not installed."""
    try:
        import torch  # noqa: F401
    except ModuleNotFoundError as error:
        raise MissingCapability(
            "trained networks need torch, which is not installed: pip install 'fedtheory[torch]'"
        ) from error


def on_digits(preset: Preset, network: str = "mlp-100-100", clients: int = CLIENTS, **more: Any) -> Preset:
    """The same method, hyperparameters, split and participation on the digits and a small network."""
    cohort = preset.cohort and max(1, round(preset.cohort * clients / preset.clients))
    by_users = preset.partition["partition"] == "users"
    deal = {"partition": "dirichlet", "alpha": 0.3} if by_users else preset.partition
    small = {
        "dataset": DIGITS,
        "network": network,
        "other_network": None,
        "clients": clients,
        "cohort": cohort,
        "partition": deal,
    }
    return replace(preset, **(small | more))


def _digest(preset: Preset, data: Data, what: Mapping[str, Any]) -> str:
    """Return a digest of setting, data and code, in which a kept run must agree with a new one."""
    made_with = provenance(preset.seed, arrays="torch")
    samples = hashlib.blake2b(digest_size=16)
    for array in (data.train_x, data.train_y, data.test_x, data.test_y):
        samples.update(np.ascontiguousarray(array).data.cast("B"))
    key = {
        "preset": asdict(preset),
        "data": [data.name, samples.hexdigest()],
        "options": dict(what),
        "code": [made_with["commit"], made_with["versions"]],
    }
    text = json.dumps(to_jsonable(key), sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()


def _series(values: Sequence[Any] | None, length: int) -> np.ndarray:
    """(length,) numbers, NaN where nothing was measured."""
    out = np.full(length, np.nan)
    numbers = [math.nan if v is None else float(v) for v in values or ()][:length]
    out[: len(numbers)] = numbers
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
        whose, why = ", ".join(refused), next(iter(refused.values()))
        work = f"local work by {type(solver).__name__}"
        raise InvalidInput(f"{work} is not for {whose}, which is among these runs: {why}")


def _percent(values: np.ndarray) -> str:
    kept = values[np.isfinite(values)]
    return f"{100 * kept.mean():.1f} %" if kept.size else "none, for every run diverged"
