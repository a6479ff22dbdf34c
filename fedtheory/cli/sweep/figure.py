"""The summary figure of a sweep: what every method reaches, against what it sends."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from textwrap import wrap
from typing import Any

from fedtheory.cli.sweep.table import Group

__all__ = ["draw"]

PANELS = 6
FLOOR = 1e-16  # what F(x) - F* is drawn at where rounding hides it


def draw(found: Sequence[Group], title: str, target: float | None, stem: Path) -> list[Path]:
    """One panel a problem, or a table of networks: a point for every setting (the median over seeds, with their range), and the best
    one of each method with a ring. Settings of which a seed diverged have no point; the panel says how many there are.
    """
    from fedtheory.plotting.style import (
        METHOD_MARKERS,
        headline,
        house_style,
        legend_below,
        method_style,
        page_figure,
        save,
    )

    def look(method: str) -> dict[str, Any]:
        style = method_style(method)
        look = {"color": style["color"], "label": style["label"], "marker": METHOD_MARKERS.get(method, "o")}
        if method.startswith("fedelasticnet"):  # it has its plain method's colour; its number in the paper says little here
            look |= {"markerfacecolor": "white", "label": method}
        return look

    panels: dict[str, list[Group]] = {}
    for group in found:
        panels.setdefault(_place(group), []).append(group)
    shown = dict(list(panels.items())[:PANELS])
    columns = min(3, len(shown))
    most = max(len({g.keys["method"] for g in some}) for some in shown.values())
    with house_style():
        height = 0.85 + 0.06 * columns * min(most, 8)  # with the lines below a panel
        figure, axes = page_figure(-(-len(shown) // columns), columns, ratio=height, width=(0.6, 0.8, 1.0)[columns - 1])
        for ax, (place, some) in zip(axes.flat, shown.items()):
            _panel(ax, place, some, target, look, columns)
        for ax in list(axes.flat)[len(shown):]:
            ax.set_visible(False)
        more = f"; {len(panels) - PANELS} more are in the table only" if len(panels) > PANELS else ""
        told = "each point: a setting, the median of its seeds; a ring: a method's best"
        headline(figure, title or "What every setting reaches, and what it sends", told + more)
        legend_below(figure, axes.flat, columns=4)
        return save(figure, stem)


def _place(group: Group) -> str:
    told = [str(group.keys[k]) for k in ("table", "problem", "data", "dataset") if k in group.keys]
    return ", ".join(told)


def _measure(group: Group) -> tuple[str, str]:
    """The columns of a panel: across, and up."""
    return ("bits", "suboptimality") if group.kind == "run" else ("nonzeros", "test_accuracy")


def _panel(ax: Any, place: str, some: Sequence[Group], target: float | None, look: Any, columns: int) -> None:
    from matplotlib.ticker import EngFormatter, LogLocator, NullFormatter

    across, up = _measure(some[0])
    lower = up == "suboptimality"
    without = sum(bool(g.diverged) for g in some), sum(bool(g.failed) for g in some)
    methods = list(dict.fromkeys(g.keys["method"] for g in some))
    floor, rings = FLOOR if lower else -math.inf, list[tuple[str, str]]()
    for method in methods:
        points = [(g.middle(across), max(g.middle(up), floor), g) for g in some if g.keys["method"] == method]
        points = [p for p in points if math.isfinite(p[0]) and math.isfinite(p[1])]
        if not points:
            continue
        style = look(method)
        ax.plot([p[0] for p in points], [p[1] for p in points], linestyle="", markersize=5, alpha=0.8, **style)
        for x, _, g in points:
            ends = [max(v, floor) for v in g.values[up]]
            ax.plot([x, x], [min(ends), max(ends)], color=style["color"], linewidth=0.8)
        x, y, best = (min if lower else max)(points, key=lambda p: p[1])
        ax.plot([x], [y], marker="o", markersize=11, markerfacecolor="none", markeredgecolor=style["color"], linestyle="")
        rings.append((style["label"], best.setting([g for g in some if g.keys["method"] == method])))
    ax.set_title(place)
    if lower:
        ax.set_yscale("log")
        if target is not None:
            ax.axhline(target, color="#777777", linewidth=0.8, linestyle=":")
    if ax.lines:
        ax.set_xscale("log")
        ax.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0), numticks=6))
        ax.xaxis.set_major_formatter(EngFormatter(sep=""))
        ax.xaxis.set_minor_formatter(NullFormatter())
    ax.set_xlabel("bits sent and received" if lower else "nonzeros a participant sends")
    ax.set_ylabel("F(x) − F* at the end" if lower else "test accuracy")
    _named(ax, rings, columns)
    told = [f"{n} {what}" for n, what in zip(without, ("diverged", "failed")) if n]
    if told:
        ax.annotate(", ".join(told), (0.98, 0.97), xycoords="axes fraction", ha="right", va="top", fontsize=7, color="#B00020")


def _named(ax: Any, best: Sequence[tuple[str, str]], columns: int) -> None:
    """The settings of the best ones in lines below the panel."""
    width = (70, 48, 36)[columns - 1]
    lines = [line for method, words in best if words for line in wrap(f"{method}'s best: {words}", width, subsequent_indent="    ")]
    if lines:
        place = {"xytext": (0, -32), "textcoords": "offset points", "ha": "left", "va": "top"}
        ax.annotate("\n".join(lines), (0, 0), xycoords="axes fraction", **place, fontsize=7, color="#555555", linespacing=1.3)
