"""A study in words: the table of its rows, and what was found below it."""

from __future__ import annotations

import io
from typing import Any

import numpy as np

__all__ = ["table"]


def table(study: Any) -> str:
    """The study as text, 120 columns wide."""
    from rich.console import Console
    from rich.table import Table

    grid = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("statement", "form", "verdict", "on record", "instances", "violations", "lhs/rhs up to", "how"):
        grid.add_column(title, overflow="fold")
    for row in study.rows:
        tight = f"{row.tightness_worst:.4g}" if np.isfinite(row.tightness_worst) else ""
        verdict = row.verdict if row.ok else f"{row.verdict} (!)"
        grid.add_row(
            row.statement, row.form, verdict, row.established, str(row.instances), str(row.violations), tight, ", ".join(row.modes)
        )
    buffer = io.StringIO()
    console = Console(file=buffer, width=120, color_system=None)
    console.print(grid)
    for one in study.studies:
        _below(console, one)
    return buffer.getvalue().rstrip()


def _below(console: Any, one: Any) -> None:
    """What was found of one statement."""
    sections = (
        ("counterexamples, proved in fractions", list(one.counterexamples.values())),
        ("tightness", [t for t in one.tightness if t.form not in one.counterexamples]),
        ("constants", one.constants),
        ("assumptions", one.assumptions),
        ("deliberately wrong variants", one.mutants),
    )
    console.print(f"\n{one.statement.id}: {one.statement.title}", markup=False, highlight=False)
    console.print(f"  {one.searched} instances searched: {one.statement.problems}", markup=False, highlight=False)
    if one.in_floats_only:
        console.print(f"  in floats only: {one.in_floats_only}", markup=False, highlight=False)
    for title, items in sections:
        if not items:
            continue
        console.print(f"  {title}", markup=False, highlight=False)
        for item in items:
            console.print(f"    {item}", markup=False, highlight=False)
