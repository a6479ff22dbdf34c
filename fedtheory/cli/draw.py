"""`fedtheory draw`: a saved result drawn again from its data alone, or several runs on one axis."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedtheory.cli.common import emit, out_console, progress, writing

__all__ = ["draw"]


def draw(
    files: list[Path], dpi: int, as_json: bool, out: Path | None, metric: str | None = None,
    size: str = "page", title: bool = True,
) -> None:
    """Draw every file, beside it or in ``out``; a file that cannot be drawn ends the command, and what was drawn stays.

    Runs on the same problem are one picture of one metric. With a ``metric`` a single run is one as well.
    """
    from fedtheory.report.redraw import draw_runs, draw_saved

    told = []
    for group, runs in _groups(files, metric):
        names = ", ".join(map(str, group))
        with progress(f"drawing {', '.join(file.name for file in group)}"), writing(out or group[0].parent):
            if runs:
                found, written = draw_runs(runs, metric or "suboptimality", out, dpi)
            else:
                found, written = draw_saved(group[0], out, dpi, size, title)
        told.append({"file": group[0], "kind": found.kind, "files": written, **({"of": group} if len(group) > 1 else {})})
        if not as_json:
            out_console().print(f"{names}: {found.kind}; wrote {', '.join(map(str, written))}", markup=False, soft_wrap=True)
    if as_json:
        emit(told)


def _groups(files: list[Path], metric: str | None) -> list[tuple[list[Path], dict[Path, Mapping[str, Any]]]]:
    """The files of each picture, and their contents where it is one of runs together: those on the same problem."""
    from fedtheory.errors import InvalidInput
    from fedtheory.report.redraw import run_in

    if metric is None and len(files) == 1:
        return [(files, {})]
    runs = {file: run for file in files if (run := run_in(file)) is not None}
    if metric is not None and len(runs) < len(files):
        other = next(file for file in files if file not in runs)
        raise InvalidInput(f"--metric {metric}: {other} holds no run; name files run-METHOD-PROBLEM.json of `fedtheory run` only")
    pictures: list[tuple[list[Path], dict[Path, Mapping[str, Any]]]] = []
    for file in files:
        if file not in runs:
            pictures.append(([file], {}))
            continue
        problem = _problem(runs[file])
        same = [f for f in runs if _problem(runs[f]) == problem]
        if file == same[0]:
            alone = len(same) == 1 and metric is None
            pictures.append((same, {} if alone else {f: runs[f] for f in same}))
    return pictures


def _problem(run: Mapping[str, Any]) -> tuple[Any, Any]:
    """The problem of a run: as it is named, and its least value, which no other one has to the last bit."""
    optimum = run.get("optimum")
    return run.get("problem"), optimum.get("value") if isinstance(optimum, dict) else None
