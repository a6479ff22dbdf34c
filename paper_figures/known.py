"""The list of the figures."""

from __future__ import annotations

import importlib
import pkgutil

import paper_figures
from fedtheory.errors import suggest
from fedtheory.plotting.figure import Figure
from fedtheory.report.figures import experiments_of, figures_of
from fedtheory.theory.judge.registry import papers

__all__ = ["chosen", "known"]


def known() -> dict[str, Figure]:
    """All figures by their names: the papers' rooms first, then the modules of this folder, then
    the papers' experiments."""
    found = [figure for paper in papers() for figure in figures_of(paper)]
    for module in sorted(
        m.name for m in pkgutil.iter_modules(paper_figures.__path__) if not m.name.startswith("_")
    ):
        content = importlib.import_module(f"paper_figures.{module}")
        found += [
            *getattr(content, "FIGURES", ()),
            *([content.FIGURE] if hasattr(content, "FIGURE") else []),
        ]
    found += [experiment for paper in papers() for experiment in experiments_of(paper)]
    out: dict[str, Figure] = {}
    for figure in found:
        if figure.name in out and out[figure.name] != figure:
            raise ValueError(f"two figures are called {figure.name}: give one of them another name")
        out[figure.name] = figure
    return out


def chosen(names: list[str]) -> list[Figure]:
    """The figures of these names, in the order asked for; without a name all.

    Raises
    ------
    UnknownName
        No such figure, with the nearest names.
    """
    every = known()
    for name in names:
        if name not in every:
            raise suggest(name, list(every), "figure", "`python -m paper_figures --list` has all")
    return [every[name] for name in dict.fromkeys(names or every)]
