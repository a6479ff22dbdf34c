"""`fedtheory sweep`: every cell of a specification on any engine, once; its table, its figure, and what it says."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from fedtheory.cli.common import check_out, err_console, note, progress, writing
from fedtheory.cli.resumable import result_store_at
from fedtheory.cli.sweep import cell as cells_of
from fedtheory.cli.sweep.options import as_keys
from fedtheory.cli.sweep.running import Running
from fedtheory.cli.sweep.said import dry, said
from fedtheory.cli.sweep.spec import KINDS, Spec, read
from fedtheory.cli.sweep.table import Group, best_of, groups, write_csv, write_parquet
from fedtheory.errors import FedTheoryError, InvalidInput
from fedtheory.store.result_store import known_in

__all__ = ["SweepOptions", "sweep"]

CELLS = "sweep.cells.sqlite"


@dataclass(frozen=True)
class SweepOptions:
    """The options of a sweep, by name."""

    spec: Path
    out: Path
    workers: int
    engine: str = "local"
    address: str | None = None
    format: str = "csv"
    figures: bool = True
    dry_run: bool = False
    json: bool = False


class _Each(Sequence[Any]):
    """Something of each cell of a sweep, made as it is asked for: ``make(kind, cell, target)``."""

    def __init__(self, spec: Spec, make: Callable[..., Any]) -> None:
        self._spec, self._make = spec, make

    def __len__(self) -> int:
        return len(self._spec)

    def __getitem__(self, index: Any) -> Any:
        return self._make(*self._spec[index], self._spec.target)


def _task(running: Running | None, kind: str, cell: dict[str, Any], target: float | None) -> cells_of.Task:
    """The task of a cell, with the folder of its checkpoint."""
    folder = None if running is None else str(running.of(cells_of.content(kind, cell, target)))
    return cells_of.Task(kind, cell, target, folder)


def sweep(o: SweepOptions) -> int:
    """Check all that is varied, run what is not known yet, write and tell; the exit code."""
    spec = read(o.spec)
    check_out(o.out)
    if o.format == "parquet":
        from fedtheory.cli.sweep.table import _pyarrow

        _pyarrow()
    _check(spec)
    if o.dry_run:
        return dry(spec, o.json, known_in(o.out / CELLS, _Each(spec, cells_of.content), _failed), o.out)
    start, complete = time.perf_counter(), True
    with ExitStack() as stack:
        from fedtheory.parallel import chosen_engine, stop_workers, use_engine

        stack.enter_context(use_engine(o.engine, o.address, o.workers))
        engine = chosen_engine(o.workers)
        store = stack.enter_context(result_store_at(o.out / CELLS))
        running, contents = Running(o.out), _Each(spec, cells_of.content)
        running.set_aside_damaged(note)
        shared = engine is None or engine.shares_files
        if begun := running.begun(contents, store) if shared else 0:
            note(f"{begun:,} {'cell goes on in its' if begun == 1 else 'cells go on in their'} middle")
        tasks = _Each(spec, partial(_task, running if shared else None))
        try:
            with progress("cells", len(spec)) as advance:
                for i, _ in store.compute(cells_of.row_of, tasks, contents, o.workers, again=_failed):
                    running.finished(contents[i])
                    advance(known=store.recalled)
        except KeyboardInterrupt:
            complete = False
            err_console().print("interrupted: the same command goes on from here", style="yellow")
        stop_workers()
        if not complete:
            return 130
        running.remove()
        rows = [_numbers(row) for row in store.rows(contents)]
        with writing(o.out):
            files, result = _written(spec, rows, o)
        result |= {"found_again": store.found, "went_on": begun}
    said(spec, result, files, o.json, time.perf_counter() - start)
    if why := next((row["error"] for row in rows if _failed(row)), ""):
        err_console().print(f"the first that failed: {why}; the same command tries again", style="yellow", markup=False, soft_wrap=True)
    return int(bool(why))


def _failed(row: dict[str, Any]) -> bool:
    """A row that is none: what it was for want of, a file or memory, may be there the next time."""
    return bool(row["status"] == "failed")


def _numbers(row: dict[str, Any]) -> dict[str, Any]:
    """'inf' and 'nan', which JSON has no numbers for, as numbers."""
    return {k: float(v) if k not in ("status", "error") and isinstance(v, str) else v for k, v in row.items()}


def _check(spec: Spec) -> None:
    """Make a run for every value that is varied, and run none: what does not go together is told before any work."""
    total = sum(sum(map(len, grid.axes.values())) - len(grid.axes) + 1 for _, grid in spec.grids)
    with progress("checking what is varied", total) as advance:
        for number, (kind, grid) in enumerate(spec.grids, 1):
            for some in grid.one_of_each():
                try:
                    cells_of.check(kind, some)
                except FedTheoryError as error:
                    told = ", ".join(f"{k} = {v}" for k, v in some.items())
                    raise InvalidInput(f"table {number}, [[{kind}]], at {told}: {as_keys(KINDS[kind], str(error))}") from error
                advance()


def _written(spec: Spec, rows: list[dict[str, Any]], o: SweepOptions) -> tuple[list[Path], dict[str, Any]]:
    """The files of a finished sweep, and what it says."""
    from fedtheory.provenance import provenance, to_jsonable, write_json

    found = groups(spec, rows)
    seeds = {seed for _, grid in spec.grids for seed in grid.axes.get("seed", [0])}
    where = provenance() | {"seed": "varied" if len(seeds) > 1 else seeds.pop()}
    about: dict[str, Any] = {"title": spec.title, "target": spec.target, "cells": len(spec), "columns": cells_of.COLUMNS}
    about |= {"provenance": where, "specification": o.spec.read_text(encoding="utf-8")}
    if o.format == "parquet":
        table = write_parquet(o.out / "sweep.parquet", spec, rows, about)
    else:
        table = write_csv(o.out / "sweep.csv", spec, rows)
    result = {**about, "status": {s: sum(r["status"] == s for r in rows) for s in ("ok", "diverged", "failed")}, "best": _best(found)}
    if (other := table.with_suffix({".csv": ".parquet", ".parquet": ".csv"}[table.suffix])).exists():
        when = f"{datetime.fromtimestamp(other.stat().st_mtime):%d %B %Y, %H:%M}"
        written = f"an earlier `fedtheory sweep --format {other.suffix[1:]}`, of {when}"
        note(f"{other} is by {written}, and left as it was. sweep.json is about {table.name}; delete the other to have one table.")
    files = [table, write_json(o.out / "sweep.json", to_jsonable(result))]
    if o.figures and any(g.values for g in found):
        from fedtheory.cli.sweep.figure import draw

        with progress("drawing"):
            files += draw(found, spec.title, spec.target, o.out / "sweep")
    return files, result


def _best(found: Sequence[Group]) -> list[dict[str, Any]]:
    """The best setting of each method in each place, as `RULE` has it of the medians over seeds;
    without one where none is whole."""
    places: dict[tuple[Any, ...], list[Group]] = {}
    for group in found:
        where = ("table", "problem", "data", "dataset", "split", "participants", "participation", "method")
        places.setdefault(tuple((k, group.keys[k]) for k in where if k in group.keys), []).append(group)
    out = []
    for place, some in places.items():
        best = best_of(some)
        counted = {"settings": len(some), "diverged": sum(g.diverged > 0 for g in some), "failed": sum(g.failed > 0 for g in some)}
        row: dict[str, Any] = {"kind": some[0].kind, **dict(place), **counted}
        if best is not None:
            alike = {k for k in best.keys if len({repr(g.keys.get(k)) for g in some}) == 1}
            row["setting"] = {k: v for k, v in best.keys.items() if k not in alike}
            row |= {name: best.middle(name) for name in best.values}
        out.append(row)
    return out
