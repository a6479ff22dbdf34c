"""The words of a sweep: the best settings as a table, how they were found, and its dry run."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from fedtheory.cli.common import emit, out_console, wrote
from fedtheory.cli.sweep.spec import Spec
from fedtheory.cli.sweep.table import RULE, number
from fedtheory.report.stacked import NARROW, Stacked, items, plain_table

__all__ = ["dry", "said", "table_of"]

_PLACE = ("table", "problem", "data", "dataset", "split", "participants")
_NUMBERS = {  # column -> its title
    "run": {"suboptimality": "F(x) - F*", "bits": "bits", "rounds_to_target": "rounds to it", "bits_to_target": "bits to it"},
    "network": {"test_accuracy": "test accuracy", "nonzeros": "nonzeros"},
}


def said(spec: Spec, result: dict[str, Any], files: list[Path], as_json: bool, seconds: float) -> None:
    """The end of a sweep."""
    if as_json:
        emit({**result, "files": files})
        return
    console = out_console()
    console.print(Text(spec.title or f"{len(spec):,} cells", "bold"))
    kinds = list(dict.fromkeys(kind for kind, _ in spec.grids))
    for kind in kinds:
        console.print(table_of(kind, [row for row in result["best"] if row["kind"] == kind], console.width))
    told = ", ".join(f"{n:,} {what}" for what, n in result["status"].items() if n)
    went_on = f"{result['went_on']:,} went on in their middle, " if result["went_on"] else ""
    console.print(f"{len(spec):,} cells: {told}; {result['found_again']:,} were known, {went_on}{seconds:.1f} s", style="dim")
    for kind in kinds:
        console.print(_how(spec, kind), style="dim", markup=False)
    wrote(files)


def _how(spec: Spec, kind: str) -> str:
    """The rule in words, and what the table's headings mean."""
    to = f"'to it': to F(x) - F* <= {number(spec.target)}. '<': 0 to within what F* is known to. " if spec.target is not None else ""
    seeds = " The medians over seeds are compared; settings of which a seed has no result are not." if spec.seeds > 1 else ""
    rule = RULE[kind] if spec.target is not None else RULE[kind].replace("bits to the target, then bits", "bits")
    return f"{to if kind == 'run' else ''}Best: {rule}.{seeds}"


def table_of(kind: str, best: list[dict[str, Any]], width: int) -> Table | Stacked:
    """The best settings of the runs or of the networks, without columns that would be empty."""
    rows: list[tuple[str, str, list[str], list[str]]] = []
    for row in best:
        where = ", ".join(f"{'P = ' if k == 'participants' else ''}{row[k]}" for k in _PLACE if k in row)
        setting = [f"{k} = {v}" for k, v in row.get("setting", {}).items()]
        lost = row["diverged"] + row["failed"]
        without = f"{lost} of {row['settings']}" if lost else ""
        setting = [f"{text}," for text in setting[:-1]] + setting[-1:]
        rows.append((where, str(row["method"]), setting, [*(_number(row, n) for n in _NUMBERS[kind]), without]))
    places = list(dict.fromkeys(place for place, *_ in rows))
    rows.sort(key=lambda row: places.index(row[0]))
    used = [i for i in range(len(_NUMBERS[kind]) + 1) if any(numbers[i] for *_, numbers in rows)]
    titles = [[*_NUMBERS[kind].values(), "no result"][i] for i in used]
    lines = [["where", "method", "best setting", *titles]]
    lines += [[where, method, " ".join(setting), *(numbers[i] for i in used)] for where, method, setting, numbers in rows]
    if width < max(NARROW, sum(max(map(cell_len, column)) + 2 for column in zip(*lines)) - 2):
        return _stacked(rows, titles, used, width)
    columns = range(len(lines[0]))
    table = plain_table(lines[0], right=columns[3:], whole=columns)
    for texts in lines[1:]:
        table.add_row(*(Text(text) for text in texts))
    return table


def _stacked(rows: list[tuple[str, str, list[str], list[str]]], titles: list[str], used: list[int], width: int) -> Stacked:
    """The same for narrow terminals: a line for each place, below each method its best setting."""
    headings = [title.replace(" to it", "\nto it").replace("no result", "no\nresult") for title in titles]
    table, before = Stacked(["where;\n  method, and its best setting", *headings], right=range(1, len(headings) + 1)), None
    for where, method, setting, numbers in rows:
        if where != before:
            table.add_row(where)
        before = where
        below = "\n".join(f"  {line}" for line in items(setting, width, 4).splitlines())
        table.add_row(f"  {method}", *(numbers[i] for i in used), below=[below])
    return table


def _number(row: dict[str, Any], name: str) -> str:
    value = row.get(name)
    if value is None or math.isnan(value):
        return ""
    certain = row.get("certain_to", 0.0)
    if name == "suboptimality" and value < certain:
        return "<" + _number({name: certain}, name)
    if 100 <= value < 1e5:
        return f"{value:.0f}"
    return "never" if math.isinf(value) else f"{value:.2g}".replace("e-0", "e-").replace("e+0", "e")


def dry(spec: Spec, as_json: bool, known: int, out: Path) -> int:
    """Print the number of cells, how many of them are known, and the first ones; run nothing."""
    first = [spec[i] for i in range(min(5, len(spec)))]
    if as_json:
        emit({"cells": len(spec), "known": known, "varied": spec.varied, "first": [dict(cell) for _, cell in first]})
        return 0
    console = out_console()
    console.print(f"{len(spec):,} cells, of which {known:,} are known in {out}; all that is varied goes together. The first of them:")
    for kind, cell in first:
        console.print(Text(f"  {kind}: " + ", ".join(f"{k} = {v}" for k, v in cell.items())))
    return 0
