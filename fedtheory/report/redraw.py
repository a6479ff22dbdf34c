"""Any saved result of ours as a picture, from its data alone: nothing is computed.

A file of someone else's is not trusted: what cannot be drawn ends in one `DataFileError` that names the file and says why.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fedtheory.errors import DataFileError, UnknownName, suggest
from fedtheory.plotting import bound_against_measured, optimum, saved
from fedtheory.plotting.curves import curves, title_of, together, worth_a_panel
from fedtheory.plotting.figure import Figure, restored
from fedtheory.plotting.style import house_style, save
from fedtheory.report import figures_verdicts
from fedtheory.report.figures import figures_of
from fedtheory.report.saved import read_campaign
from fedtheory.simulation.over_scenarios import over_scenarios
from fedtheory.theory.judge.registry import papers
from fedtheory.untrusted import parse_json, read_text

__all__ = ["KINDS", "Saved", "draw_runs", "draw_saved", "known_figures", "opened", "run_in"]

MAX_BYTES = 50_000_000
TABLE = "bound against measured"
STUDIES = "fedtheory.theory.studies.figure"
STUDY = {"statement", "forms", "points"}
KINDS = (
    ("FILE.csv of `verify --figure`", TABLE),
    ("FILE.json beside a figure or of `experiment`", "that figure"),
    ("run-METHOD-PROBLEM.json of `run`", "the curves of the run; of several runs on one problem, a curve each on one axis"),
    ("rates.json of `rates`", "rounds to epsilon"),
    ("solve-PROBLEM.json of `solve`", "the optimum's coordinates and the clients' constants"),
    ("campaign.json of `verify`", "the chart of verdicts"),
)
NOT_DRAWN = (KeyError, TypeError, ValueError, IndexError, AttributeError, ArithmeticError, RecursionError)


@dataclass(frozen=True)
class Saved:
    """A file that was read: what it holds in words, the name of its picture, and what draws it."""

    kind: str
    name: str
    draw: Callable[[], Any]


def opened(path: Path | str, title: bool = True) -> Saved:
    """Read a file that can be drawn.

    title : of bound against measured, whether the finding stands above it

    Raises
    ------
    DataFileError
        No such file, too large, no text, no JSON, or none of `KINDS`; a table of bound against
        measured, or a campaign, that is wrong.
    UnknownName
        A campaign on statements that are not known here.
    """
    path = Path(path)
    text = read_text(path, MAX_BYTES, "a saved result")
    if saved.is_table(text):
        data = saved.read(path)
        return Saved(TABLE, path.stem, lambda: bound_against_measured.draw(data, title))
    try:
        content = parse_json(text, "it")
    except DataFileError as error:
        raise DataFileError(f"{path}: neither JSON nor a table of ours ({error}); {_drawable()}") from error
    if isinstance(content, dict):
        for recognise in (_figure, _study, _run, _other):
            found = recognise(content, path)
            if found is not None:
                return found
        if {"statement", "checks"} <= content.keys():
            raise DataFileError(f"{path}: verdicts without the sides that were compared; run `fedtheory verify` again with --figure")
    raise DataFileError(f"{path}: not a result that can be drawn; {_drawable()}")


def _drawable() -> str:
    return "what can be drawn: " + ", ".join(file for file, _ in KINDS)


def draw_saved(
    path: Path | str, out: Path | None = None, dpi: int = 130, size: str = "page", title: bool = True
) -> tuple[Saved, list[Path]]:
    """The PNG and PDF of a saved result, beside it or in ``out``.

    Raises
    ------
    DataFileError
        As `opened` raises it, or for wrong data; a size, or no title, for a figure that is laid out in one way only.
    """
    path, found = Path(path), opened(path, title)
    folder = path.parent if out is None else out
    if (size != "page" or not title) and found.kind != TABLE:
        raise DataFileError(f"{path}: {found.kind} has one look; --size and --no-title are for a CSV of `verify --figure`")
    try:
        with house_style(size):
            figure = found.draw()
            return found, save(figure, folder / found.name, dpi)
    except NOT_DRAWN as error:
        raise DataFileError(f"{path}: {found.kind} cannot be drawn from its data ({type(error).__name__}: {error})") from error


def known_figures() -> dict[str, Figure]:
    """Every figure by its name: of the registered papers, and that of a campaign."""
    kinds = ("figures", "on_request")
    every = [figure for what in kinds for paper in papers() for figure in figures_of(paper, what)]
    return {f.name: f for f in (*every, figures_verdicts.FIGURE)}


def _drawn(name: str, path: Path, data: Any) -> Saved:
    """The figure of that name; one of bounds that a study drew is known by its data."""
    known = known_figures()
    if name not in known:
        where = "those of a file of yours are drawn by `fedtheory verify FILE.py`"
        raise DataFileError(f"{path}: {suggest(name, list(known), 'figure', where)}") from UnknownName(name)
    return Saved(f"the figure {name}", path.stem, lambda: known[name].draw(restored(data)))


def _figure(content: Mapping[str, Any], path: Path) -> Saved | None:
    name = content.get("figure")
    if not isinstance(name, str):
        return None
    data = content.get("data")
    if isinstance(data, dict) and STUDY <= data.keys():
        return _study(data, path)
    return _drawn(name, path, data) if "data" in content else None


def _study(data: Mapping[str, Any], path: Path) -> Saved | None:
    """The figure of a statement in a file of a user's, which says all itself."""
    if not STUDY <= data.keys():
        return None
    return Saved("bound against measured of a study", path.stem, lambda: importlib.import_module(STUDIES).picture(restored(data)))


def _other(content: Mapping[str, Any], path: Path) -> Saved | None:
    """What is known by its keys alone: an experiment, `rates`, `solve`, a campaign."""
    keys, name = content.keys(), content.get("experiment")
    if isinstance(name, str) and "data" in content:
        return _drawn(name, path, content["data"])
    if {"series", "crossovers", "epsilons"} <= keys:
        return _drawn("rates", path, content)
    if {"problem", "optimum", "constants"} <= keys:
        return Saved("a certified optimum", path.stem, lambda: optimum.draw(content))
    if isinstance(content.get("rows"), list) and "instances" in content:
        figure, (_, record) = figures_verdicts.FIGURE, read_campaign(path)
        return Saved("a campaign's verdicts", figure.name, lambda: figure.draw(figure.compute(record)))
    return None


def _run(content: Mapping[str, Any], path: Path) -> Saved | None:
    metrics = content.get("metrics")
    if not isinstance(metrics, dict) or not isinstance(content.get("method"), str):
        return None

    def draw() -> Any:
        table = _metrics(metrics, path)
        gaps = table["suboptimality"]["mean"] if "suboptimality" in table else None
        shown = worth_a_panel(table, content.get("hyperparameters", {})) or list(table)
        told = str(content.get("ended", "")), str(content.get("local_work", ""))
        return curves({name: table[name] for name in shown}, title_of(content, gaps), *told)

    return Saved("the curves of a run", path.stem, draw)


def _metrics(metrics: Mapping[str, Any], path: Path) -> dict[str, dict[str, Any]]:
    """Every metric of a run over its scenarios."""
    values = {str(k): _of_scenarios(v) for k, v in metrics.items() if v}
    table = {k: v for k, v in values.items() if len(v["mean"])}
    if not table or len({len(of) for v in table.values() for k, of in v.items() if k != "scenarios"}) != 1:
        raise DataFileError(f"{path}: metrics must be lists of one length, a row a round")
    return table


def run_in(path: Path) -> Mapping[str, Any] | None:
    """The content of a file of `run`, or None where it holds something else."""
    text = read_text(path, MAX_BYTES, "a saved result")
    try:
        content = None if saved.is_table(text) else parse_json(text, "it")
    except DataFileError:
        return None
    return content if isinstance(content, dict) and _run(content, path) is not None else None


def draw_runs(
    runs: Mapping[Path, Mapping[str, Any]], metric: str, out: Path | None = None, dpi: int = 130
) -> tuple[Saved, list[Path]]:
    """One picture of several runs on one problem, a curve a run, as runs-PROBLEM-METRIC beside the first file or in ``out``.

    Raises
    ------
    DataFileError
        A run without that metric, or wrong data.
    """
    paths = list(runs)

    def draw() -> Any:
        made = [{**run, "metrics": _metrics(run["metrics"], path)} for path, run in runs.items()]
        for path, run in zip(paths, made, strict=True):
            if metric not in run["metrics"]:
                raise DataFileError(f"{path}: no {metric} among its metrics, which are {', '.join(run['metrics'])}")
        return together(made, _names(runs), metric)

    try:
        name = f"runs-{next(iter(runs.values()))['problem']['name']}-{metric}"
        name = "".join(c if c.isalnum() or c in "-_." else "-" for c in name)
        kind = f"{len(runs)} runs together" if len(runs) > 1 else f"{metric} of a run"
        found = Saved(kind, name, draw)
        folder = paths[0].parent if out is None else out
        with house_style():
            return found, save(found.draw(), folder / found.name, dpi)
    except NOT_DRAWN as error:
        told = ", ".join(map(str, paths))
        raise DataFileError(f"{told}: the runs cannot be drawn from their data ({type(error).__name__}: {error})") from error


def _names(runs: Mapping[Path, Mapping[str, Any]]) -> Sequence[str]:
    """The methods' names, with the file's folder where a method has several runs."""
    methods = [str(run["method"]) for run in runs.values()]
    return [m if methods.count(m) == 1 else f"{m} ({path.parent.name or path.stem})" for m, path in zip(methods, runs, strict=True)]


def _of_scenarios(values: Any) -> dict[str, Any]:
    """A metric of all rounds over the scenarios: as it was written, or made of every scenario's numbers."""
    if isinstance(values, dict):
        return {k: int(v) if k == "scenarios" else np.asarray(restored(v), dtype=float).reshape(-1) for k, v in values.items()}
    each = np.asarray(restored(values), dtype=float)
    return over_scenarios(each.reshape(len(each), -1))
