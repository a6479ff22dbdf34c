"""The look of curves of trained networks: a line for the mean over seeds, a band for all."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.ticker import MaxNLocator

from fedtheory.plotting.style import METHOD_COLOURS, METHOD_MARKERS, METHOD_NAMES, headline, method_style, new_figure
from fedtheory.report.networks.families import PAIRS, place
from fedtheory.report.networks.words import LAST, data_words, difference, short

_BENEATH: dict[str, dict[str, Any]] = {
    "-": {"linewidth": 2.8, "alpha": 0.5},
    "--": {"zorder": 3},
}  # so that both of a pair are seen where they agree

__all__ = ["accuracy_figure", "band", "dots", "from_below", "legend"]


def band(panel: Any, x: Any, values: Any, **style: Any) -> None:
    """Mean over the seeds, and the range of all of them: values (seeds, len(x)), NaN where a round was not measured.

    A seed without a number at the end is not drawn at all, for its run diverged.
    """
    x, values = np.asarray(x, dtype=float), np.asarray(values, dtype=float)
    values = values[np.isfinite(values[:, -1])]
    kept = np.isfinite(values).all(axis=0)
    if not values.size or not kept.any():
        return
    x, values = x[kept], values[:, kept]
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


def legend(figure: Any, panels: Any, columns: int = 6) -> None:
    """One for all panels, below them."""
    named = {label: line for panel in panels for line, label in zip(*panel.get_legend_handles_labels(), strict=True)}
    figure.legend(named.values(), named.keys(), loc="outside lower center", ncols=min(columns, len(named)))


def dots(panel: Any, y: float, points: np.ndarray, colour: str, marker: str = "o") -> None:
    """A point for each seed at height y, and a bar at their mean."""
    if points.size:
        panel.plot(points, np.full(len(points), y), marker, color=colour, markersize=4.5, alpha=0.75, markeredgewidth=0)
        panel.plot([points.mean()] * 2, [y - 0.3, y + 0.3], "-", color=colour, linewidth=2.2)


def accuracy_figure(data: dict[str, Any], finding: str, detail: str) -> Any:
    """A row a data set (or network), a column a split; on the right each elastic net minus its
    baseline at the end, seed by seed.

    Where values were tried, a row a data set and split, a column a value.
    """
    panels = data["panels"]
    rows = [(data_words(p), p["split"] if any(q.get("own") for q in panels) else "") for p in panels]
    names = list(dict.fromkeys(rows))
    columns = 1 + max(map(rows.count, names))
    figure, axes = new_figure(max(8.6, 3.1 * columns), 3.0 * len(names) + 1.3, len(names), columns)
    for row, name in enumerate(names):
        of_row = [p for p, its in zip(panels, rows, strict=True) if its == name]
        for n, (panel, axis) in enumerate(zip(of_row, axes[row], strict=False)):
            curves = [100 * np.asarray(m["test_accuracy"], dtype=float) for m in panel["methods"].values()]
            for method, values in zip(panel["methods"], curves, strict=True):
                style = method_style(method, paired=True)
                band(axis, np.arange(values.shape[1]), values, **style, **_BENEATH.get(style["linestyle"], {}))
            axis.set(title=f"{short(panel) if n == 0 else ''}\n{place(panel)}", xlabel="round")
            axis.xaxis.set_major_locator(MaxNLocator(integer=True))
            if n:
                axis.sharey(axes[row, 0])
        for axis in axes[row, len(of_row) : -1]:
            axis.set_visible(False)
        from_below(
            axes[row, 0],
            [100 * np.asarray(m["test_accuracy"], dtype=float) for p in of_row for m in p["methods"].values()],
        )
        axes[row, 0].set_ylabel("test accuracy, %")
        _differences(axes[row, -1], of_row)
    legend(figure, axes[0, :-1])
    headline(figure, finding, detail)
    return figure


def _differences(axis: Any, panels: list[dict[str, Any]]) -> None:
    """Every pair of every panel on a line of its own, the first on top."""
    y, ticks, words = 0.0, [], []
    for panel in panels:
        for plain, net in PAIRS:
            if plain in panel["methods"] and net in panel["methods"]:
                pair = (panel["methods"][net]["test_accuracy"], panel["methods"][plain]["test_accuracy"])
                dots(axis, y, difference(*pair), METHOD_COLOURS[net], METHOD_MARKERS[net])
                ticks.append(y)
                short = METHOD_NAMES[net].replace("Algorithm", "Alg.")
                words.append(
                    f"{place(panel)}, {short}" if len(panels) > 1 else f"{short} − {METHOD_NAMES[plain]}"
                )
                y -= 1.0
        y -= 0.5
    axis.set_visible(bool(ticks))
    axis.axvline(0, color="#000000", linewidth=0.9)
    left, right = axis.get_xlim()
    axis.set_xlim(min(left, -1.0), max(right, 1.0))  # a tenth of a point is not to look like much
    axis.set_yticks(ticks, words, fontsize=7.5)
    axis.set_ylim(y + 0.8, 0.7)
    axis.grid(axis="y", visible=False)
    last = min([LAST, *(p["rounds"] for p in panels)])
    axis.set(title=f"elastic net minus its baseline,\nmean of the last {last} rounds", xlabel="points of accuracy")
