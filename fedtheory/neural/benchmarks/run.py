"""The papers' tables, run: settings, resumable runs, and our figures beside the printed ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedtheory.errors import CheckpointError, Diverged, InvalidInput
from fedtheory.neural.benchmarks import printed_tables as papers
from fedtheory.neural.benchmarks.entropies import TWO_MESSAGES, WITH_ENTROPY, each_message, entropies, in_todays_names
from fedtheory.neural.benchmarks.preset import Preset
from fedtheory.neural.benchmarks.result import Result, result_json
from fedtheory.neural.benchmarks.sweeps import OPTIONS
from fedtheory.provenance import write_json
from fedtheory.untrusted import read_json

if TYPE_CHECKING:
    from fedtheory.neural.data import Data
    from fedtheory.neural.training import TrainingRun

__all__ = ["LOADERS", "Result", "cells", "claims", "load_data", "markdown", "read_result", "run_preset", "unrun_rows"]

LOADERS: dict[str, tuple[str, dict[str, Any]]] = {  # of each data set: its loader, and what that is given
    "mnist": ("load_mnist", {}), "emnist-l": ("load_emnist_letters", {}),
    "cifar10": ("load_cifar10", {}), "cifar100": ("load_cifar100", {}),
    "shakespeare": ("load_shakespeare", {"clients": 100, "samples": 2000}),
}  # fmt: skip
_ALIKE = (  # fields of a preset in which a method and the baseline that it is held against agree
    "dataset", "split", "participation", "seed", "lr", "epochs", "network", "clip", "augment", "feddyn_cohorts", "solver",
    "solver_options",
)  # fmt: skip
_MORE = {"efl": ("client_accuracy",)}  # what a paper's table asks for beyond `fedtheory.neural.training.RECORD`


def load_data(dataset: str, folder: Path | str | None, seed: int = 0, progress: bool = True, verify: bool = True) -> Data:
    """The samples of a data set, from the folder that the user names.

    Parameters
    ----------
    seed : int
        Shakespeare: which roles are drawn.
    progress : bool
        Not used today, for nothing that is read takes long.
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

    problem = preset.make_problem(data, preset.seed, **options)
    stem = None if folder is None else folder / "runs" / preset.name
    path = None if stem is None else stem.with_name(f"{stem.name}.ckpt")
    total = preset.rounds if rounds is None else rounds
    result = Result(preset, parameters=problem.dim)
    trained = partial(
        train, problem, preset.make_algorithm(), total, preset.make_sampling(),
        preset.make_solver(problem.sample_counts), preset.seed,
        tuple(dict.fromkeys(RECORD + _MORE.get(preset.paper, ()) + preset.more)), checkpoint=path,
        evaluate_every=evaluate_every,
        tensorboard=None if tensorboard is None else tensorboard / preset.name, progress=progress,
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


def _diverged(path: Path, kept: Any) -> dict[str, Any] | None:
    """Read what was written of a run that diverged; None where there is nothing, or the checkpoint
    is another run's, or goes further."""
    try:
        found = read_json(path)
        if not found["error"]:
            return None
        later = kept is not None and (found["provenance"]["configuration"] != kept.configuration or found["rounds"] < kept.round_index)
        return None if later else found
    except (OSError, ValueError, KeyError, TypeError):
        return None


def read_result(preset: Preset, folder: Path) -> Result | None:
    """Read a run's measurements from its checkpoint, or up to where it diverged; None without any.

    The result's preset has the network, epochs, clipping, cohorts and augmentation that the run was
    made with, not those asked for now.
    """
    from fedtheory.simulation import checkpoints

    stem = folder / "runs" / preset.name
    path = stem.with_name(f"{stem.name}.ckpt")
    kept = checkpoints.load(path, with_state=False) if path.exists() else None
    metrics: Mapping[str, np.ndarray]
    written = _diverged(stem.with_name(f"{stem.name}.json"), kept)
    if written is not None:
        made_with, error = written["provenance"], written["error"]
        metrics = {name: np.array(values, dtype=float)[:, None] for name, values in written["metrics"].items()}
        done, seconds = written["rounds"], [written["seconds"]]
    elif kept is not None:
        made_with, error = {"parts": kept.about["parts"], "configuration": kept.configuration}, None
        metrics, done, seconds = kept.metrics, kept.round_index, kept.about["seconds"]
    else:
        return None
    configuration = made_with["configuration"]
    problem, solver = configuration["problem"], configuration["solver"]
    preset = replace(
        preset,
        network=problem["name"].rpartition(", ")[2],
        epochs=preset.epochs if solver["epochs"] is None else solver["epochs"],  # equal steps stand for epochs
        clip=solver.get("clip"),
        augment=problem.get("augment"),
        feddyn_cohorts=configuration["sampling"][""] == "FedDynBernoulli",
        solver=solver[""].lower(),
    )
    result = Result(preset, parameters=int(problem["parameters"]), error=error)
    result.fill(in_todays_names(metrics, preset.method), done, seconds, made_with)
    return result


# --- tables ---------------------------------------------------------------------------------------
def measured(table: str, result: Result) -> float | tuple[float | None, ...] | None:
    """Our figure for the cell of a table, None where nothing was measured."""
    if result.rounds == 0:
        return None
    if table == "fedelasticnet-table2":
        return float((result.series("nonzeros") * result.series("participants")).sum())
    if table in WITH_ENTROPY:
        sums = entropies(result)
        return (sums["entropy"], sums["update_entropy"]) if result.preset.method == "feddyn" else sums["entropy"]
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
                "ratio": ratio, "entropies": entropies(r) if r.rounds else None,
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


def claims(results: Sequence[Result], last: int = 10) -> list[dict[str, Any]]:
    """Compare what FedElasticNet says of Figure 1 with the measurements, in points of accuracy.

    The points are the accuracy of the elastic net form minus the baseline's.

    Accuracies are means over the last rounds of both runs, `last` of them at most, up to the round that both have reached.
    """
    runs = [r for r in results if r.rounds and not r.error]
    out: dict[tuple[Any, ...], dict[str, Any]] = {}
    for kind, baseline, ours, text in papers.FIGURE_1:
        for run in runs:
            preset = run.preset
            plain = _baseline(run, [r for r in runs if r.preset.method == baseline])
            large = preset.dataset in ("cifar10", "cifar100") and ours == "algorithm-1"
            if preset.method != ours or plain is None or (kind == "gap") != large:
                continue
            rounds = min(run.rounds, plain.rounds)
            ends = [r.series("test_accuracy")[max(0, rounds - last) : rounds] for r in (plain, run)]
            if not all(np.isfinite(e).any() for e in ends):
                continue
            key = (preset.dataset, preset.split, baseline, ours, tuple(preset.own.items()))
            found = {"dataset": preset.dataset, "split": preset.split, "baseline": baseline, "method": ours, "paper": text}
            claim = out.setdefault(key, {**found, "own": dict(preset.own), "rounds": rounds, "seeds": []})
            claim["rounds"] = min(claim["rounds"], rounds)
            claim["seeds"].append([100 * float(np.nanmean(e)) for e in ends])
    for claim in out.values():
        pairs = np.array(claim.pop("seeds"))
        differ = pairs[:, 1] - pairs[:, 0]
        claim |= {"accuracy": pairs.mean(axis=0).tolist(), "points": float(differ.mean()), "points_of_seeds": differ.tolist()}
    return list(out.values())


def _baseline(run: Result, plain: Sequence[Result]) -> Result | None:
    """The run of another method that this one is to be held against: all but its own hyperparameters, and l2, alike."""
    of, alike = run.preset, []
    for other in plain:
        p = other.preset
        if all(getattr(p, k) == getattr(of, k) for k in _ALIKE):
            alike.append((p.value("l2") != of.value("l2"), len(p.own), other))
    return min(alike, key=lambda a: a[:2])[2] if alike else None


def unrun_rows(table: str) -> list[str]:
    """Rows of the printed table that there is no preset for: their data have no reader."""
    from fedtheory.neural.benchmarks.presets import of_table

    if table == "fedelasticnet-figure1":
        return []
    have = {(p.split, p.dataset) for p in of_table(table)}
    rows = [row for row in papers.table(table).rows if row not in have]
    return [f"{dataset} ({split}): not run, for there is no reader of these data" for split, dataset in rows]


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
