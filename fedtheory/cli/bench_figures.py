"""`fedtheory bench` of the papers' figures of networks: runs, then one picture, its data and its caption."""

from __future__ import annotations

import inspect
from dataclasses import fields as fields_of
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from fedtheory.cli.bench_options import numbers, seeds
from fedtheory.cli.options import flag
from fedtheory.errors import InvalidInput

if TYPE_CHECKING:
    from fedtheory.cli.bench_options import Options
    from fedtheory.plotting.figure import Figure

__all__ = ["FIGURES", "bench_figure"]

FIGURES = (
    *(f"fedelasticnet-figure{n}" for n in range(2, 10)), "efl-figure1", "efl-figure2",
    "efl-figure3", "elastic-aggregation-table", "elastic-aggregation-settings",
)
_OF_TABLES = ("record", "report", "tensorboard", "evaluate_every", "network")  # options that no figure takes


def _several(option: str, text: str, known: list[str], figure: str) -> tuple[str, ...]:
    """The names of an option, which the figure must know."""
    names = tuple(dict.fromkeys(part.strip().lower() for part in text.split(",") if part.strip()))
    if not names:
        raise InvalidInput(f"--{option} {text!r}: name at least one, with commas, or leave it out")
    for name in names:
        if name not in known:
            raise InvalidInput(f"{figure} has no {option} {name!r}: it has {', '.join(known)}")
    return names


def _grid(name: str, o: Options, takes: Any) -> dict[str, Any]:
    """Return the data sets, splits, methods and lambda_1 to run, where the figure does not say."""
    from fedtheory.neural.benchmarks import presets

    paper = name.partition("-")[0]
    have = [p for p in map(presets.get, presets.names()) if p.paper == paper]
    text = name == "fedelasticnet-figure7"
    have = [p for p in have if paper != "fedelasticnet" or (p.dataset == "shakespeare") == text]
    given: dict[str, Any] = {}
    for option, argument, value in (("dataset", "datasets", o.dataset), ("split", "splits", o.split), ("method", "methods", o.method)):
        if value is None:
            continue
        if argument not in takes:
            raise InvalidInput(f"--{option} {value}: {name} draws all of its own; leave it out")
        if option == "dataset" and o.data is None:
            raise InvalidInput(f"--dataset {value}: without --data runs are on scikit-learn's digits: name the folder, or leave it out")
        known = list(dict.fromkeys(getattr(p, option) for p in have))
        given[argument] = _several(option, value, known, name)
    if "efl" not in given.get("methods", ("efl",)) and paper == "efl":
        raise InvalidInput(f"--method {o.method}: {name} compares EFL with the others: name efl as well")
    if o.l1 is not None and "lambdas" in takes and paper == "fedelasticnet":
        given["lambdas"] = tuple(numbers("l1", o.l1))
    return given


def _change(name: str, figure: Figure, o: Options, takes: Any) -> Any:
    """Return the change that the options make in all runs of the figure."""
    from paper_figures.networks.runs import Change

    values = {}
    for option in ("lr", "l1", "l2", "epsilon"):
        text = getattr(o, option)
        if text is None or (option == "l1" and "lambdas" in takes and name.startswith("fedelasticnet")):
            continue
        if option != "lr" and not name.startswith("fedelasticnet"):
            raise InvalidInput(f"--{option} {text}: it is of FedElasticNet's figures; leave it out")
        found = numbers(option, text)
        if len(found) > 1:
            raise InvalidInput(f"--{option} {text}: {name} draws one value a call; the tables take several")
        values[option] = found[0]
    fields: dict[str, Any] = {k: v for k, v in (("epochs", o.epochs), ("clip", o.clip)) if v is not None}
    if o.cohorts == "feddyn":
        fields["feddyn_cohorts"] = True
    if o.augment:
        fields["augment"] = "flip-crop"
    fields |= o.solver_fields()
    usual = {f.name: f.default for f in fields_of(o) if f.name in ("device", "dtype", "autocast", "precision")}
    options = {k: getattr(o, k) for k, v in usual.items() if getattr(o, k) != v}
    if "change" not in figure.takes and (values or fields or options):
        said = ", ".join(map(flag, (*values, *fields, *options)))
        raise InvalidInput(f"{said}: the runs of {name} have settings of their own; leave it out")
    return Change(values, fields, options)


def _effort(name: str, figure: Figure, o: Options) -> dict[str, Any]:
    """Keyword arguments of the figure's ``compute``, by its own effort and the options."""
    from paper_figures.networks.runs import WHOLE

    for option in _OF_TABLES:
        if getattr(o, option):
            again = "; `fedtheory draw FILE.json` draws it again" if option == "report" else ""
            raise InvalidInput(f"{flag(option)}: it is of tables, and {name} is a figure; leave it out{again}")
    takes = inspect.signature(figure.compute).parameters
    effort = dict(figure.quick if o.quick else figure.full)
    effort |= _grid(name, o, takes)
    change = _change(name, figure, o, takes)
    if o.rounds is not None and "change" in figure.takes:
        change = replace(change, fields={**change.fields, "rounds": o.rounds})
    if change.values or change.fields or change.options:
        effort["change"] = change
    if o.seeds is not None:
        if o.seed:
            raise InvalidInput(f"--seed {o.seed} with --seeds {o.seeds}: leave one of them out")
        effort["seeds"] = seeds(o.seeds)
    if o.rounds is not None:
        effort["rounds"] = o.rounds
    if o.data is not None:
        published = effort.get("published", WHOLE)
        own = {k: effort[k] for k, value in (("rounds", o.rounds), ("seeds", o.seeds)) if value is not None}
        effort["published"] = replace(published, **own)
    return effort


def bench_figure(name: str, o: Options) -> dict[str, Any]:
    """Run and draw a figure: NAME.png, NAME.pdf and NAME.json; its title, caption and files.

    Finished runs are kept below the output folder, each in one of its own that is named after all
    it was made with, so that no run stands for another, and an interrupted figure goes on.
    """
    from fedtheory.cli.common import err_console, note, writing
    from fedtheory.cli.resumable import only_writer_of
    from fedtheory.report.figures import FULL, QUICK, Effort, computed, draw_one
    from fedtheory.report.redraw import known_figures

    key = name.replace("-", "_")
    figure = replace(known_figures()[key], name=name)
    if o.data is not None and "data" not in figure.takes:
        why = f"{name} is run on scikit-learn's digits, for the poster does not print what it ran"
        raise InvalidInput(f"--data {o.data}: {why}; leave it out")
    level = QUICK if o.quick else FULL
    effort = Effort(level.level, {name: _effort(name, figure, o)}, level.dpi)
    out: Path = o.out / "quick" if o.quick else o.out

    def told(words: str) -> None:
        if not o.json:
            note(f"  {words}")

    keep = out / "kept" if o.resume else None
    try:
        with writing(out), only_writer_of(out, key):
            data = computed(figure, o.seed, effort, data=o.data, keep=keep, progress=told)
            files = draw_one(replace(figure, name=key), out, o.seed, effort, data)
    except KeyboardInterrupt:
        err_console().print("interrupted" + (": the same command goes on from the runs that are finished" if keep else ""))
        raise typer.Exit(130) from None
    return {"figure": name, "title": figure.title, "caption": figure.caption(data), "files": files}
