"""The look of curves of trained networks: a line for the mean over seeds, a band for all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.lines import Line2D

from fedtheory.plotting.style import GREY, METHOD_COLOURS, METHOD_MARKERS

__all__ = ["band", "dots", "from_below", "key_to_dots", "lines_of", "printed"]

_HOLLOW: dict[str, Any] = {
    "linestyle": "", "marker": "D", "markerfacecolor": "none", "markeredgecolor": "#000000",
    "markersize": 7,
}


def band(panel: Any, values: Any, **style: Any) -> None:
    """Mean over the seeds, and the range of all of them.

    Values are (seeds, rounds + 1), NaN where a round was not measured. A seed without a number at
    the end is not drawn at all, for its run diverged.
    """
    values = np.asarray(values, dtype=float)
    values = values[np.isfinite(values[:, -1])]
    kept = np.isfinite(values).all(axis=0)
    if not values.size or not kept.any():
        return
    x, values = np.flatnonzero(kept), values[:, kept]
    style = {"linewidth": 1.4, **style}
    panel.fill_between(x, values.min(axis=0), values.max(axis=0), color=style["color"], alpha=0.14, linewidth=0)
    panel.plot(x, values.mean(axis=0), **style)


def from_below(panel: Any, curves: list[Any], share: float = 0.2) -> None:
    """Let the first fifth of the rounds leave the picture below, as curves differ at the end."""
    late = [c[:, int(share * c.shape[1]) :] for c in (np.asarray(c, dtype=float) for c in curves)]
    lows = [float(np.nanmin(c)) for c in late if np.isfinite(c).any()]
    highs = [float(np.nanmax(c)) for c in late if np.isfinite(c).any()]
    if lows:
        room = 0.06 * max(max(highs) - min(lows), 1.0)
        panel.set_ylim(min(lows) - room, max(highs) + room)


def dots(panel: Any, y: float, points: np.ndarray, colour: str, marker: str = "o") -> None:
    """A point for each seed at height y, and a bar at their mean."""
    if points.size:
        panel.plot(points, np.full(len(points), y), marker, color=colour, markersize=4.5, alpha=0.75, markeredgewidth=0)
        panel.plot([points.mean()] * 2, [y - 0.3, y + 0.3], "-", color=colour, linewidth=2.2)


def lines_of(
    panel: Any, points: Mapping[str, np.ndarray], names: Sequence[str], methods: Sequence[str] = ()
) -> None:
    """A line of `dots` for each method, the first on top; points (seeds,), NaN where a run diverged.

    methods : whose colours and markers they have, where the keys are not methods
    """
    for y, (method, values) in enumerate(zip(methods or points, points.values(), strict=True)):
        dots(panel, -y, values[np.isfinite(values)], METHOD_COLOURS[method], METHOD_MARKERS[method])
    panel.set_yticks([-y for y in range(len(names))], names)
    panel.grid(axis="y", visible=False)


def printed(panel: Any, value: float, y: float) -> None:
    """A hollow diamond: what the paper prints."""
    panel.plot(value, y, **_HOLLOW)


def key_to_dots(figure: Any, label: str) -> None:
    """What a point and a hollow diamond are, below the panels."""
    ours = "here: a point a seed, a bar at their mean"
    here = Line2D([], [], linestyle="", marker="o", color=GREY, label=ours)
    hollow = Line2D([], [], label=label, **_HOLLOW)
    figure.legend(handles=[here, hollow], loc="outside lower center", ncols=2)
