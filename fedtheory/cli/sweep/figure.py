"""The summary figure of a sweep: what every method reaches, against what it sends."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import cycle
from pathlib import Path
from textwrap import wrap
from typing import Any, NamedTuple

from fedtheory.cli.sweep.table import Group, best_of, number

__all__ = ["draw"]

PANELS = 6
SHAPES = "os^DvP*X<>"  # of cohort sizes
NETS = {  # they have their plain methods' colours elsewhere, where they stand beside them as pairs
    "fedelasticnet-prox": ("#B45F06", "FedElasticNet, Algorithm 1"),
    "fedelasticnet-scaffold": ("#7FBF3F", "FedElasticNet, Algorithm 2"),
    "fedelasticnet-dyn": ("#882255", "FedElasticNet, Algorithm 3"),
}
NETS |= {f"algorithm-{i}": look for i, look in enumerate(NETS.values(), 1)}  # what networks call them
LEAST = {"bits": 10.0, "bits_to_target": 10.0, "nonzeros": 4.0}  # ends of the axis across differ by this factor at least
LEAST_ACCURACY = 0.1  # those of a network's axis up by this


class _Look(NamedTuple):
    """The look of settings: colours and names of methods, and the marker of a setting."""

    of_method: dict[str, dict[str, Any]]
    marker: Callable[[Group], str]
    sizes: dict[Any, str]
    seeds: int


def draw(found: Sequence[Group], title: str, target: float | None, stem: Path) -> list[Path]:
    """One panel a problem, or a table of networks: a point for every setting (the median over
    seeds, with their range), and the best one of each method with a ring. Settings of which a seed
    diverged have no point; the panel says how many there are.
    """
    from fedtheory.plotting.style import headline, house_style, legend_below, page_figure, save

    panels: dict[str, list[Group]] = {}
    for group in found:
        panels.setdefault(_place(group), []).append(group)
    shown = dict(list(panels.items())[:PANELS])
    look, columns = _look([g for some in shown.values() for g in some]), min(3, len(shown))
    most = max(len({g.keys["method"] for g in some}) for some in shown.values())
    with house_style():
        height = 0.85 + 0.06 * columns * min(most, 8)  # with the lines below a panel
        figure, axes = page_figure(-(-len(shown) // columns), columns, ratio=height, width=(0.6, 0.8, 1.0)[columns - 1])
        for ax, (place, some) in zip(axes.flat, shown.items()):
            _panel(ax, place, some, target, look, columns)
        for ax in list(axes.flat)[len(shown):]:
            ax.set_visible(False)
        for size, marker in look.sizes.items():
            shape = {"linestyle": "", "marker": marker, "markersize": 5, "markerfacecolor": "none", "color": "black"}
            axes.flat[0].plot([], [], label=f"P = {size}", **shape)
        more = f"; {len(panels) - PANELS} more are in the table only" if len(panels) > PANELS else ""
        told = "each point: a setting, the median of its seeds, with their range" if look.seeds > 1 else "each point: a setting"
        headline(figure, title or "What every setting reaches, and what it sends", f"{told}; a ring: a method's best{more}")
        legend_below(figure, axes.flat, columns=4)
        return save(figure, stem)


def _look(found: Sequence[Group]) -> _Look:
    """Colours for methods; markers for cohort sizes where these are varied, else for methods."""
    from fedtheory.plotting.style import METHOD_MARKERS, method_style

    styles = {}
    for method in dict.fromkeys(g.keys["method"] for g in found):
        style = method_style(method)
        color, label = NETS.get(method, (style["color"], style["label"]))
        styles[method] = {"color": color, "label": label}
    participants = sorted({g.keys["participants"] for g in found if "participants" in g.keys})
    sizes = dict(zip(participants, cycle(SHAPES))) if len(participants) > 1 else {}

    def marker(group: Group) -> str:
        return sizes.get(group.keys.get("participants"), "o") if sizes else METHOD_MARKERS.get(group.keys["method"], "o")

    return _Look(styles, marker, sizes, max(len(values) for g in found for values in [*g.values.values(), [0.0]]))


def _place(group: Group) -> str:
    told = [Path(str(group.keys[k])).name for k in ("table", "problem", "data", "dataset", "split") if k in group.keys]
    return ", ".join(told)


def _panel(ax: Any, place: str, some: Sequence[Group], target: float | None, look: _Look, columns: int) -> None:
    lower, without = some[0].kind == "run", (sum(bool(g.diverged) for g in some), sum(bool(g.failed) for g in some))
    up = "suboptimality" if lower else "test_accuracy"
    whole = [g for g in some if math.isfinite(g.middle(up))]
    reached = any(math.isfinite(g.middle("bits_to_target")) for g in whole)
    across = ("bits_to_target" if reached else "bits") if lower else "nonzeros"
    floor = max((g.middle("certain_to") for g in whole), default=0.0) if lower else -math.inf
    whole = [g for g in whole if not math.isnan(g.middle(across))]
    ax.set_title(place)
    titles = {"bits_to_target": "bits until the target", "bits": "bits sent and received", "nonzeros": "nonzeros a participant sends"}
    ax.set_xlabel(titles[across])
    ax.set_ylabel("F(x) − F* after the last round" if lower else "test accuracy")
    if whole:
        at = _across(ax, whole, across)
        if lower:
            _up_to_the_floor(ax, [v for g in whole for v in g.values[up]], floor, target)
        else:
            _not_too_close(ax, [v for g in whole for v in g.values[up]])
        _settings(ax, whole, (across, up), at, floor, look)
    rings = []
    for method in dict.fromkeys(g.keys["method"] for g in some):
        own = [g for g in some if g.keys["method"] == method]
        if (best := best_of([g for g in own if g in whole])) is not None:
            rings.append((look.of_method[method]["label"], best.setting(own)))
    _named(ax, rings, columns)
    if told := [f"{n} {what}" for n, what in zip(without, ("diverged", "failed")) if n]:
        ax.annotate(", ".join(told), (0, 1.0), (3, -3), xycoords="axes fraction",
                    textcoords="offset points", va="top", fontsize=7, color="#B00020")


def _across(ax: Any, whole: Sequence[Group], across: str) -> Callable[[Group], float]:
    """The axis across, with a strip at its right end for settings that never reach the target;
    where each setting stands on it."""
    from matplotlib.ticker import EngFormatter, FixedLocator, LogLocator, NullFormatter

    found = [max(v, 1.0) for g in whole if math.isfinite(v := g.middle(across))]
    centre, factor = math.sqrt(min(found) * max(found)), max(max(found) / min(found), LEAST[across])
    low, high = centre / math.sqrt(factor), centre * math.sqrt(factor)
    never = [g for g in whole if math.isinf(g.middle(across))]
    left, right = low / factor**0.08, high * factor**0.08
    end = right * factor**0.3 if never else right
    ax.set_xscale("log")
    ax.set_xlim(left, end)
    locator = LogLocator(subs=(1.0, 2.0, 5.0) if factor < 300 else (1.0,), numticks=6)
    ticks = [t for t in locator.tick_values(left, right) if left <= t <= right]
    ax.xaxis.set_major_locator(FixedLocator(ticks))
    ax.xaxis.set_minor_locator(FixedLocator([]))
    ax.xaxis.set_major_formatter(EngFormatter(sep=""))
    ax.xaxis.set_minor_formatter(NullFormatter())
    methods = list(dict.fromkeys(g.keys["method"] for g in never))
    if never:
        ax.axvspan(right, end, color="#F0F0F0", linewidth=0, zorder=0)
        ax.annotate("never", (math.sqrt(right * end), 1.0), (0, -3),
                    xycoords=("data", "axes fraction"), textcoords="offset points", ha="center",
                    va="top", fontsize=7, color="#555555")

    def at(group: Group) -> float:
        if group not in never:
            return max(group.middle(across), 1.0)
        return float(right * (end / right) ** ((1 + methods.index(group.keys["method"])) / (1 + len(methods))))

    return at


def _up_to_the_floor(ax: Any, values: Sequence[float], floor: float, target: float | None) -> None:
    """F(x) - F* on a log axis; what is 0 as far as can be told stands in a strip at the bottom."""
    top = max([*values, floor, target or 0.0])
    bottom = min([v for v in values if v > floor] + [target or top])
    ax.set_yscale("log")
    if min(values) < floor:
        span = max(top / floor, 10.0)
        ax.set_ylim(floor / span**0.16, top * span**0.1)
        ax.axhspan(floor / span**0.16, floor * span**0.03, color="#F0F0F0", linewidth=0, zorder=0)
        ax.annotate("0 to within what F* is known to", (1, 0), (-3, 2), xycoords="axes fraction",
                    textcoords="offset points", ha="right", va="bottom", fontsize=7,
                    color="#555555")
    else:
        span = max(top / bottom, 10.0)
        ax.set_ylim(bottom / span**0.08, top * span**0.1)
    if target is not None:
        ax.axhline(target, color="#777777", linewidth=0.8, linestyle=":")
        ax.annotate(f"target {number(target)}", (0, target), (3, 2),
                    xycoords=("axes fraction", "data"), textcoords="offset points", ha="left",
                    va="bottom", fontsize=7, color="#555555")


def _not_too_close(ax: Any, values: Sequence[float]) -> None:
    """Accuracies on an axis that does not make much of little."""
    low, high = min(values), max(values)
    room = max(high - low, LEAST_ACCURACY)
    ax.set_ylim((low + high - 1.2 * room) / 2, (low + high + 1.2 * room) / 2)


def _settings(
    ax: Any, whole: Sequence[Group], columns: tuple[str, str], at: Callable[[Group], float], floor: float, look: _Look
) -> None:
    """The points, their seeds' ranges, and a ring around each method's best."""
    across, up = columns
    for method, style in look.of_method.items():
        own = [g for g in whole if g.keys["method"] == method]
        if not own:
            continue
        for g in own:
            x, y = at(g), max(g.middle(up), floor)
            ax.plot([x], [y], linestyle="", markersize=5, alpha=0.8, marker=look.marker(g), color=style["color"])
            ends = [max(v, floor) for v in g.values[up]]
            ax.plot([x, x], [min(ends), max(ends)], color=style["color"], linewidth=0.8)
            if math.isfinite(max(g.values[across])):
                ax.plot([max(min(g.values[across]), 1.0), max(*g.values[across], 1.0)], [y, y], color=style["color"], linewidth=0.8)
        shape = "o" if look.sizes else look.marker(own[0])
        ax.plot([], [], linestyle="", markersize=5, alpha=0.8, marker=shape, **style)
        best = best_of(own)
        assert best is not None  # each has a result
        x, y = at(best), max(best.middle(up), floor)
        ax.plot([x], [y], marker="o", markersize=11, markerfacecolor="none", markeredgecolor=style["color"], linestyle="")


def _named(ax: Any, best: Sequence[tuple[str, str]], columns: int) -> None:
    """The settings of the best ones in lines below the panel."""
    width = (70, 48, 36)[columns - 1]
    told = [f"best of {method}: {words}".replace(" = ", "\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}") for method, words in best if words]
    lines = [line for text in told for line in wrap(text, width, subsequent_indent="    ")]
    if lines:
        place = {"xytext": (0, -32), "textcoords": "offset points", "ha": "left", "va": "top"}
        ax.annotate("\n".join(lines), (0, 0), xycoords="axes fraction", **place, fontsize=7, color="#555555", linespacing=1.3)
