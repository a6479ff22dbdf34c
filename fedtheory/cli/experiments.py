"""`fedtheory experiment`: a paper's experiments, each a question with a table and a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.text import Text

from fedtheory.cli.common import emit, out_console, progress, save, writing, wrote
from fedtheory.cli.resumable import only_writer_of
from fedtheory.errors import suggest
from fedtheory.report.stacked import plain_table

__all__ = ["all_experiments", "experiment"]


def all_experiments() -> dict[str, tuple[Any, Any]]:
    """Name -> (paper, experiment), of all papers."""
    from fedtheory.plotting.experiment import Experiment
    from fedtheory.report.figures import figures_of
    from fedtheory.theory.judge.registry import papers

    every = ((p, f) for p in papers() for f in figures_of(p, "on_request"))
    return {f.name: (p, f) for p, f in every if isinstance(f, Experiment)}


def experiment(name: str | None, full: bool, figures: bool, seed: int, as_json: bool, out: Path) -> None:
    """List the experiments, or run one: table, finding, picture, data with provenance."""
    known = all_experiments()
    if name is None:
        _list(known, as_json)
        return
    if name not in known:
        raise suggest(name, list(known), "experiment", "`fedtheory experiment` has all")
    with only_writer_of(out, name):
        _experiment(known[name][1], name, full, figures, seed, as_json, out)


def _experiment(chosen: Any, name: str, full: bool, figures: bool, seed: int, as_json: bool, out: Path) -> None:
    from fedtheory.provenance import provenance
    from fedtheory.report.figures import FULL, QUICK, computed, draw_one

    effort = FULL if full else QUICK
    with progress(chosen.name):
        data = computed(chosen, seed, effort)
    table, finding = chosen.table(data), list(chosen.finding(data))
    told = {
        "experiment": name, "question": chosen.question, "finding": finding,
        "headings": list(table.headings), "rows": [list(r) for r in table.rows], "data": data,
        "provenance": provenance(seed),
    }
    if figures:
        with writing(out), progress("drawing"):
            files = [f for f in draw_one(chosen, out, seed, effort, data) if f.suffix != ".json"]
    else:
        files = []
    files.append(save(out, name, told))
    if as_json:
        emit({**told, "files": files})
        return
    _show(chosen, table, finding, files, full)


def _list(known: dict[str, tuple[Any, Any]], as_json: bool) -> None:
    rows = [{"name": n, "paper": p.id, "question": e.question} for n, (p, e) in known.items()]
    if as_json:
        emit(rows)
        return
    table = plain_table(rows[0] if rows else (), whole=(0, 1))
    for row in rows:
        table.add_row(*row.values())
    out_console().print(table)


def _show(chosen: Any, table: Any, finding: list[str], files: list[Any], full: bool) -> None:
    console = out_console()
    console.print(Text(f"{chosen.name}: {chosen.question}", "bold"))
    if table.title:
        console.print(Text(table.title, "dim"))
    shown = plain_table(table.headings, right=range(1, len(table.headings)))
    for row in table.rows:
        shown.add_row(*row)
    console.print(shown)
    for sentence in finding:
        console.print(Text(sentence))
    if not full:
        console.print("quick: --full runs more instances, rounds and repetitions", style="dim")
    wrote(files)
