"""A study in words: the table of its rows, and what was found below it."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import numpy as np

__all__ = ["renderables", "table"]


def table(study: Any) -> str:
    """The study as text, 120 columns wide."""
    from rich.console import Console

    buffer = io.StringIO()
    Console(file=buffer, width=120, color_system=None).print(study)
    return buffer.getvalue().rstrip()


def renderables(study: Any) -> Iterator[Any]:
    """The table of the rows, then what was found of each statement."""
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    grid = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("statement", "form", "verdict", "on record", "instances", "violations", "lhs/rhs up to", "how"):
        grid.add_column(title, overflow="fold")
    for row in study.rows:
        tight = f"{row.tightness_worst:.4g}" if np.isfinite(row.tightness_worst) else ""
        verdict = row.verdict if row.ok else f"{row.verdict} (!)"
        words = (row.statement, row.form, verdict, row.established, str(row.instances), str(row.violations), tight)
        grid.add_row(*words, ", ".join(row.modes))
    yield grid
    for one in study.studies:
        for indent, line in _below(one):
            yield Padding(Text(line), (0, 0, 0, indent))


def _below(one: Any) -> Iterator[tuple[int, str]]:
    """(indentation, line) of what was found of one statement."""
    sections = (
        ("counterexamples, proved in fractions", list(one.counterexamples.values())),
        ("tightness", [t for t in one.tightness if t.form not in one.counterexamples]),
        ("constants", one.constants),
        ("assumptions", one.assumptions),
        ("deliberately wrong variants", one.mutants),
    )
    yield 0, ""
    yield 0, f"{one.statement.id}: {one.statement.title}"
    yield 2, f"{one.searched} instances searched: {one.statement.problems}"
    if one.in_floats_only:
        yield 2, f"in floats only: {one.in_floats_only}"
    for title, items in sections:
        if items:
            yield 2, title
        for item in items:
            yield 4, str(item)
