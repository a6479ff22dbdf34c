"""The papers' tables, run: resumable runs, and our figures beside the printed ones. Imports no torch."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedtheory.errors import CheckpointError, DataFileError, Diverged, InvalidInput
from fedtheory.neural.benchmarks import printed_tables as papers
from fedtheory.neural.benchmarks.presets import OPTIONS, Preset
from fedtheory.provenance import to_jsonable, write_json
from fedtheory.untrusted import read_json

if TYPE_CHECKING:
    from fedtheory.neural.data import Data
    from fedtheory.neural.training import TrainingRun

__all__ = [
    "ENTROPIES", "LOADERS", "TWO_MESSAGES", "Result", "cells", "each_message", "headings", "kept_of", "load_data", "markdown",
    "over_seeds", "read_result", "result_json", "run_preset", "texts",
]  # fmt: skip

ENTROPIES = ("entropy", "entropy_1", "entropy_2", "entropy_pooled", "update_entropy")
WITH_ENTROPY = ("fedelasticnet-table3", "fedelasticnet-table4")
TWO_MESSAGES = ("scaffold", "algorithm-2")  # of these tables: a model or an update, and a control variate's change
LOADERS: dict[str, tuple[str, dict[str, Any]]] = {  # of each data set: its loader, and what that is given
    "mnist": ("load_mnist", {}), "emnist-l": ("load_emnist_letters", {}),
    "cifar10": ("load_cifar10", {}), "cifar100": ("load_cifar100", {}),
    "shakespeare": ("load_shakespeare", {"clients": 100, "samples": 2000}),
}  # fmt: skip
_MORE = {"efl": ("client_accuracy",)}  # what a paper's table asks for beyond `fedtheory.neural.training.RECORD`
_SAME = (  # what one row of several seeds agrees in
    "dataset", "split", "participation", "method", *OPTIONS, "network", "epochs", "clip", "augment", "cohorts", "solver",
)  # fmt: skip


@dataclass
class Result:
    """One run and what it measured so far.

    Attributes
    ----------
    preset : Preset
    metrics : dict of (rounds done + 1,) lists
    rounds : int
        Done.
    error : str or None
        Why it ended early.
    """

    preset: Preset
    metrics: dict[str, list[float | None]] = field(default_factory=dict)
    rounds: int = 0
    seconds: float = 0.0
    provenance: dict[str, Any] = field(default_factory=dict)
    parameters: int = 0
    error: str | None = None

    @property
    def problem(self) -> dict[str, Any]:
        """The problem as the run's configuration tells it; empty where nothing was run."""
        return self.provenance.get("configuration", {}).get("problem", {})

    def series(self, name: str) -> np.ndarray:
        """A metric in every round from the first one (rounds,)."""
        return np.array([np.nan if v is None else float(v) for v in self.metrics[name]])[1:]

    @property
    def entropies(self) -> dict[str, float | None]:
        """Each entropy's sum over the rounds; None where it was not kept.

        A run without 'entropy_pooled' is older, and 'entropy' was another thing: that of all messages in one histogram.
        """
        kept = self.metrics if "entropy_pooled" in self.metrics else {}
        return {name: float(self.series(name).sum()) if name in kept else None for name in ENTROPIES}

    def fill(self, metrics: Mapping[str, Any], rounds: int, seconds: Sequence[float], provenance: dict[str, Any]) -> None:
        """Take what a run measured: metrics (rounds + 1, 1) each, of which NaN becomes None, and seconds of each round."""
        columns = {name: np.asarray(values)[:, 0] for name, values in metrics.items()}
        self.metrics = {name: [float(v) if np.isfinite(v) else None for v in column] for name, column in columns.items()}
        self.rounds, self.seconds, self.provenance = rounds, float(sum(seconds)), provenance


def kept_of(result: Result) -> dict[str, Any]:
    """A result as JSON can hold it, without its preset."""
    return {name: getattr(result, name) for name in ("metrics", "rounds", "seconds", "provenance", "parameters", "error")}


def result_json(result: Result) -> dict[str, Any]:
    """A result as JSON values."""
    return to_jsonable({**asdict(result), "preset": {"name": result.preset.name, **asdict(result.preset)}})


def load_data(dataset: str, folder: Path | str | None, seed: int = 0, verify: bool = True) -> Data:
    """The samples of a data set, from the folder that the user names.

    Parameters
    ----------
    seed : int
        Shakespeare: which roles are drawn.
    verify : bool
        Hold the files against the release's checksums, where there are some.

    Raises
    ------
    InvalidInput
        No folder where one is needed.
    DataFileError
        What is missing or damaged, by the loader.
    """
    from fedtheory.neural import data

    if dataset == "digits":
        return data.digits()
    if folder is None:
        raise InvalidInput(f"{dataset} needs its files: name their folder with --data, or use --quick alone (scikit-learn's digits)")
    if dataset not in LOADERS:
        raise InvalidInput(f"no loader for {dataset!r}: there are {', '.join(LOADERS)}")
    name, options = LOADERS[dataset]
    if options and (below := Path(folder) / dataset).is_dir():
        folder = below
    return getattr(data, name)(folder, **options, **({"seed": seed} if options else {"verify": verify}))


def run_preset(
    preset: Preset, data: Data, folder: Path | None, rounds: int | None = None, resume: bool = True,
    progress: bool = True, evaluate_every: int = 1, tensorboard: Path | None = None,
    label: str | None = None, replace_others: bool = False, **options: Any,
) -> Result:
    """Run one setting, or go on with it; its checkpoint and result lie in the folder under the preset's name.

    Parameters
    ----------
    rounds to label : as `fedtheory.neural.train` takes them
        Without rounds, as many as the paper's.
    replace_others : bool
        A checkpoint of another run of that name is replaced, not refused.
    options : as `Preset.make_problem` takes them
        Fewer samples (most, most_tested), device, dtype, engine, autocast...

    Raises whatever training raises but divergence, which is a result: the rounds before it stay.
    """
    from fedtheory.neural.training import RECORD, train
    from fedtheory.neural.training_run import scalars

    problem = preset.make_problem(data, preset.seed, **options)
    stem = None if folder is None else folder / "runs" / preset.name
    path = None if stem is None else stem.with_name(f"{stem.name}.ckpt")
    if stem is not None and not resume:
        stem.with_name(f"{stem.name}.json").unlink(missing_ok=True)  # what is read until this one ends is not another's
    total = preset.rounds if rounds is None else rounds
    result = Result(preset, parameters=problem.dim)
    trained = partial(
        train, problem, preset.make_algorithm(), total, preset.make_sampling(),
        preset.make_solver(problem.sample_counts), preset.seed,
        tuple(dict.fromkeys(RECORD + _MORE.get(preset.paper, ()) + preset.more)), checkpoint=path,
        evaluate_every=evaluate_every,
        on_round=None if tensorboard is None else scalars(tensorboard / preset.name), progress=progress,
        label=label or preset.name,
    )
    try:
        try:
            run: TrainingRun = trained(resume=resume)
        except CheckpointError:
            if not replace_others:
                raise
            run = trained(resume=False)
    except Diverged as error:
        run, result.error = error.measured, str(error)
    result.fill(run.metrics, run.rounds, run.seconds, run.provenance)
    if stem is not None:
        write_json(stem.with_name(f"{stem.name}.json"), result_json(result))
    return result


def read_result(preset: Preset, folder: Path) -> Result | None:
    """Read a run's measurements: what was written at its end, or its checkpoint where that is
    another run's or goes further. None without any."""
    from fedtheory.store import checkpoints

    stem = folder / "runs" / preset.name
    path = stem.with_name(f"{stem.name}.ckpt")
    kept = checkpoints.load(path, with_state=False) if path.exists() else None
    try:
        written = read_json(stem.with_name(f"{stem.name}.json"))
        of_this_run = kept is None or (
            written["provenance"]["configuration"] == to_jsonable(kept.configuration) and written["rounds"] >= kept.round_index
        )
        if of_this_run:
            metrics = {name: [None if v is None else float(v) for v in values] for name, values in written["metrics"].items()}
            of = (int(written["rounds"]), float(written["seconds"]), dict(written["provenance"]), int(written["parameters"]))
            return Result(preset, metrics, *of, written["error"] and str(written["error"]))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, DataFileError):  # nothing there, or nothing that can be read
        pass
    if kept is None:
        return None
    result = Result(preset, parameters=int(kept.configuration["problem"]["parameters"]))
    made_with = {"parts": kept.about["parts"], "configuration": kept.configuration}
    result.fill(kept.metrics, kept.round_index, kept.about["seconds"], made_with)
    return result


# --- tables ---------------------------------------------------------------------------------------
def measured(table: str, result: Result) -> float | tuple[float | None, ...] | None:
    """Our figure for the cell of a table, None where nothing was measured."""
    if result.rounds == 0:
        return None
    if table == "fedelasticnet-table2":
        return float((result.series("nonzeros") * result.series("participants")).sum())
    if table in WITH_ENTROPY:
        first, second = (result.entropies[name] for name in ("entropy", "update_entropy"))
        return (first, second) if result.preset.method == "feddyn" and first is not None else first
    best = table == "efl-table2"
    accuracy = result.series("client_accuracy" if best else "test_accuracy")
    accuracy = accuracy[np.isfinite(accuracy)]
    if not accuracy.size:
        return None
    return float(accuracy.max() if best else accuracy[-1])


def cells(table: str, results: Sequence[Result], quick: bool = False) -> list[dict[str, Any]]:
    """A row of JSON values for each run: our figure, the paper's, and ours over the paper's.

    Sums over rounds are compared a round: after half the rounds, against half the printed sum. On
    other data than the paper's (quick) there is nothing to compare.
    """
    paper = None if table == "fedelasticnet-figure1" else papers.table(table)
    out = []
    for r in results:
        ours, printed, ratio = measured(table, r), None, None
        whole = r.preset.rounds
        if paper is not None:
            printed = paper.value(r.preset.split, r.preset.dataset, r.preset.method)
            share = r.rounds / whole if table.startswith("fedelasticnet") else 1.0
            if not quick and ours is not None and printed is not None and share > 0:
                pairs = zip(*(v if isinstance(v, tuple) else (v,) for v in (ours, printed)), strict=True)
                ratio = [a / (b * share) for a, b in pairs]
        accuracy = r.series("test_accuracy") if r.rounds else np.array([np.nan])
        accuracy = accuracy[np.isfinite(accuracy)]
        out.append(
            {
                "dataset": r.preset.dataset, "split": r.preset.split,
                "participation": r.preset.participation, "method": r.preset.method,
                "rounds": r.rounds, "rounds_of_paper": None if quick else whole, "measured": ours,
                "paper": printed,
                "paper_text": None if paper is None else paper.printed(
                    r.preset.split, r.preset.dataset, r.preset.method
                ),
                "ratio": ratio, "entropies": r.entropies if r.rounds else None,
                "test_accuracy": float(accuracy[-1]) if accuracy.size else None,
                "best_accuracy": float(accuracy.max()) if accuracy.size else None,
                "parameters": r.parameters, "network": r.preset.network, "epochs": r.preset.epochs,
                "clip": r.preset.clip, "augment": r.preset.augment,
                "cohorts": "feddyn" if r.preset.feddyn_cohorts else "drawn",
                "solver": r.preset.solver, **{option: r.preset.value(option) for option in OPTIONS},
                "seed": r.preset.seed, "seconds": round(r.seconds, 1), "error": r.error,
            }
        )
    return out


def each_message(sums: Mapping[str, float | None]) -> str:
    """'73.41 = 73.4 + 0.01': the sum of two messages' entropies and each one's own; '?' for what was not kept."""
    total, first, second = ("?" if v is None else f"{v:.4g}" if v >= 1 else f"{v:.2g}" for v in map(sums.get, ENTROPIES[:3]))
    return f"{first} + {second}" if total == "?" else f"{total} = {first} + {second}"


def _mean(values: Sequence[Any]) -> Any:
    """Mean of numbers, or of tuples of them place by place; None where one is missing."""
    if any(v is None for v in values):
        return None
    if isinstance(values[0], list | tuple):
        return [_mean(place) for place in zip(*values, strict=True)]
    return float(np.mean(values))


def _first(value: Any) -> Any:
    return value[0] if isinstance(value, list | tuple) else value


def over_seeds(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """One row for all seeds of a setting: means, with 'range' (lowest, highest) and
    'standard_error' of measured and accuracy.

    Of several seeds only those count that ended without an error and after the most rounds; 'seeds'
    lists them, and 'error' says what befell the others.
    """
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault(tuple(row.get(name) for name in _SAME), []).append(row)
    return [group[0] if len(group) == 1 else _joined(group) for group in groups.values()]


def _joined(group: list[dict[str, Any]]) -> dict[str, Any]:
    fine = [row for row in group if not row["error"]]
    most = max((row["rounds"] for row in fine), default=0)
    used = [row for row in fine if row["rounds"] == most]
    left = [f"seed {row['seed']}: " + (row["error"] or f"only {row['rounds']} rounds") for row in group if row not in used]
    joined = {**(used or group)[0], "seed": None, "seeds": [row["seed"] for row in used], "error": "; ".join(left) or None}
    joined["seconds"] = round(sum(row["seconds"] for row in group), 1)
    joined["range"], joined["standard_error"] = {}, {}
    for name in ("measured", "ratio", "test_accuracy", "best_accuracy"):
        joined[name] = _mean([row[name] for row in used]) if used else None
    if joined["entropies"] and used:
        joined["entropies"] = {k: _mean([row["entropies"][k] for row in used]) for k in joined["entropies"]}
    for name in ("measured", "test_accuracy"):
        values = [_first(row[name]) for row in used if row[name] is not None]
        if len(values) > 1:
            joined["range"][name] = [min(values), max(values)]
            joined["standard_error"][name] = float(np.std(values, ddof=1) / math.sqrt(len(values)))
    return joined


def _range(row: Mapping[str, Any], name: str, unit: float) -> str:
    """' [low, high]' over the seeds, '' where there is one."""
    low_high = row.get("range", {}).get(name)
    return "" if low_high is None else f" [{low_high[0] / unit:.4g}, {low_high[1] / unit:.4g}]"


def _number(value: Any, unit: float) -> str:
    if value is None:
        return ""
    if isinstance(value, list | tuple):
        return f"{_number(value[0], unit)} ({_number(value[1], unit)})"
    return f"{value / unit:.4g}"


def texts(table: str, row: dict[str, Any], swept: Sequence[str] = ()) -> list[str]:
    """The cells of a row as they are shown: data, split, method, what is swept, rounds, ours, the paper's, ratio, accuracy.

    Where a row is several seeds', the lowest and the highest stand after the mean, in brackets.
    """
    unit = papers.table(table).unit if table in papers.TABLES else 0.01  # Figure 1: percent
    ratio = " ".join(f"{v:.2f}" if i == 0 else f"({v:.2f})" for i, v in enumerate(row["ratio"] or ()))
    accuracy = "" if row["test_accuracy"] is None else f"{100 * row['test_accuracy']:.2f}" + _range(row, "test_accuracy", 0.01)
    done, whole = row["rounds"], row["rounds_of_paper"]  # a quick run has rounds of its own, and more may be asked for
    done = f"{done}" if whole is None else f"{done}/{whole}" if done <= whole else f"{done} (paper {whole})"
    ours = row["error"].split(":")[0] if row["error"] and row["measured"] is None else _number(row["measured"], unit)
    if table in WITH_ENTROPY and row["method"] in TWO_MESSAGES and row["entropies"]:
        ours = each_message(row["entropies"])
    ours += _range(row, "measured", unit) if row["measured"] is not None else ""
    printed = row["paper_text"]
    printed = f"{printed[0]} ({printed[1]})" if isinstance(printed, tuple | list) else printed or ""
    values = ["" if row[name] is None else f"{row[name]:g}" for name in swept]
    return [row["dataset"], row["split"], row["method"], *values, done, ours, printed, ratio, accuracy]


HEADINGS = ("data", "split", "method", "rounds", "ours", "paper", "ratio", "acc. %")


def headings(swept: Sequence[str] = ()) -> list[str]:
    """The titles of `texts`."""
    return [*HEADINGS[:3], *swept, *HEADINGS[3:]]


def markdown(table: str, rows: Sequence[dict[str, Any]], title: str, notes: Sequence[str], swept: Sequence[str] = ()) -> str:
    """The table and what is to be said of it, as Markdown."""
    titles = headings(swept)
    lines = [f"# {title}", "", "| " + " | ".join(titles) + " |", "|" + " --- |" * len(titles)]
    lines += ["| " + " | ".join(c.replace("|", "/") for c in texts(table, row, swept)) + " |" for row in rows]
    return "\n".join([*lines, "", *(f"- {note}" for note in notes), ""])
