"""The list of the figures."""

from __future__ import annotations

from fedtheory.errors import suggest
from fedtheory.plotting.figure import Figure
from fedtheory.report.redraw import known_figures
from paper_figures import verdicts

__all__ = ["chosen", "known"]


def known() -> dict[str, Figure]:
    """All figures by their names: the papers', what they show on request, and those of networks."""
    return {**known_figures(), verdicts.FIGURE.name: verdicts.FIGURE}


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
