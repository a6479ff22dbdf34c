"""FedElasticNet's Figures 1 and 6 to 9: test accuracy against rounds, and whether the elastic nets keep up with their baselines."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.ticker import MaxNLocator

from fedtheory.plotting.figure import Figure
from fedtheory.plotting.style import (
    METHOD_COLOURS,
    METHOD_MARKERS,
    METHOD_NAMES,
    headline,
    legend_below,
    method_style,
    new_figure,
)
from paper_figures.fedelasticnet import next_character
from paper_figures.fedelasticnet.families import PAIRS, compute, place
from paper_figures.networks.drawing import band, dots, from_below
from paper_figures.networks.runs import Published
from paper_figures.networks.words import LAST, accuracy, cited, data_words, ends, gain, short, where

__all__ = ["FIGURES", "draw"]

_BENEATH: dict[str, dict[str, Any]] = {
    "-": {"linewidth": 2.8, "alpha": 0.5},
    "--": {"zorder": 3},
}  # so that both of a pair are seen where they agree


def _pairs(panel: dict[str, Any]) -> list[tuple[str, str]]:
    """Baselines and their elastic nets, of which both were run."""
    return [pair for pair in PAIRS if set(pair) <= panel["methods"].keys()]


def _points(panel: dict[str, Any]) -> list[Any]:
    return [gain(panel["methods"][net], panel["methods"][plain]) for plain, net in _pairs(panel)]


def _reached(data: dict[str, Any]) -> str:
    """'FedDyn ends at 95.1 %, SCAFFOLD at 94.0 %': means over the panels and the seeds that did not diverge."""
    means = {}
    for m in dict.fromkeys(m for p in data["panels"] for m in p["methods"]):
        values = np.concatenate([ends(accuracy(p["methods"][m])) for p in data["panels"] if m in p["methods"]])
        if np.isfinite(values).any():
            means[m] = float(np.nanmean(values))
    return ", ".join(f"{METHOD_NAMES[m]}{'' if n else ' ends'} at {v:.1f} %" for n, (m, v) in enumerate(means.items()))


def _largest_loss(data: dict[str, Any]) -> tuple[float, str, str]:
    """The mean difference that is furthest below 0 (or least above it), the elastic net and the split; where no run diverged."""
    losses = [
        (float(p.mean()), METHOD_NAMES[net], place(panel))
        for panel in data["panels"]
        for (_, net), p in zip(_pairs(panel), _points(panel), strict=True)
        if p.size == len(data["seeds"])
    ]
    return min(losses, default=(float("nan"), "no elastic net", "any split"))


def _diverged(data: dict[str, Any]) -> str:
    """'Algorithm 3 diverges in 2 of 9 runs', or '' where nothing does."""
    of = {m: [p["methods"][m] for p in data["panels"] if m in p["methods"]] for p in data["panels"] for m in p["methods"]}
    counts = {m: (sum(len(row["errors"]) for row in rows), len(rows) * len(data["seeds"])) for m, rows in of.items()}
    return ", ".join(f"{METHOD_NAMES[m]} diverges in {n} of {runs} runs" for m, (n, runs) in counts.items() if n)


def draw(data: dict[str, Any]) -> Any:
    """Curves with the range over the seeds, and the differences at the end."""
    loss, net, _ = _largest_loss(data)
    finding = "No elastic net loses accuracy"
    if loss < 0:
        finding = f"Elastic nets lose at most {-loss:.1f} points against their baselines ({net})"
    if not _pairs(data["panels"][0]):
        finding = _reached(data) or "Nothing to show"
    if diverged := _diverged(data):
        low = finding if not _pairs(data["panels"][0]) else f"{finding[0].lower()}{finding[1:]}"
        finding = f"{diverged}; where none does, {low}"
    n = len(data["seeds"])
    lines = f"line: mean of {n} seeds, band: all of them; " if n > 1 else "one seed; "
    several = f"{lines}dashed: the baseline, solid: its elastic net"
    shown = any(_pairs(panel) for panel in data["panels"])
    return _curves(data, finding, f"{several}; bar on the right: mean difference" if shown and n > 1 else several)


def _curves(data: dict[str, Any], finding: str, detail: str) -> Any:
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
            for method, found in panel["methods"].items():
                style = method_style(method, paired=True)
                band(axis, accuracy(found), **style, **_BENEATH.get(style["linestyle"], {}))
            axis.set(title=f"{short(panel) if n == 0 else ''}\n{place(panel)}", xlabel="round")
            axis.xaxis.set_major_locator(MaxNLocator(integer=True))
            if n:
                axis.sharey(axes[row, 0])
        for axis in axes[row, len(of_row) : -1]:
            axis.set_visible(False)
        from_below(axes[row, 0], [accuracy(m) for p in of_row for m in p["methods"].values()])
        axes[row, 0].set_ylabel("test accuracy, %")
        _differences(axes[row, -1], of_row)
    legend_below(figure, axes[0, :-1], 6)
    headline(figure, finding, detail)
    return figure


def _differences(axis: Any, panels: list[dict[str, Any]]) -> None:
    """Every pair of every panel on a line of its own, the first on top."""
    y, ticks, words = 0.0, [], []
    for panel in panels:
        for (plain, net), points in zip(_pairs(panel), _points(panel), strict=True):
            dots(axis, y, points, METHOD_COLOURS[net], METHOD_MARKERS[net])
            ticks.append(y)
            name = METHOD_NAMES[net].replace("Algorithm", "Alg.")
            words.append(f"{place(panel)}, {name}" if len(panels) > 1 else f"{name} − {METHOD_NAMES[plain]}")
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


def caption(data: dict[str, Any]) -> str:
    """Say where it was run, the differences panel by panel, and what the paper says."""
    loss, net, split = _largest_loss(data)
    if not _pairs(data["panels"][0]):  # nothing that the paper compares
        return " ".join([where(data), f"{_reached(data)}.", *([f"{_diverged(data)}."] if _diverged(data) else []), *data["notes"]])
    said = [f"{data_words(p)}, {place(p)}: {cited(_pairs(p), _points(p))}" for p in data["panels"]]
    paper = (
        "The paper says that FedElasticNet 'maintains the classification accuracy or incurs marginal degradation', with a gap "
        "between FedProx and Algorithm 1 on CIFAR alone, and that FedDyn and Algorithm 3 are 'almost identical in the converged "
        "regime'."
    )
    verdict = "No elastic net loses here on the mean."
    if loss < 0:
        verdict = f"The largest mean loss here, where no run diverges, is {-loss:.1f} points ({net}, {split})."
    diverged = [f"{m}: {e}" for p in data["panels"] for m, row in p["methods"].items() for e in row["errors"]]
    more = [f"{_diverged(data)}: {'; '.join(diverged)}."] if diverged else []
    numbers = "Points of accuracy at the end, mean and range over the seeds. "
    return " ".join([where(data), numbers + ". ".join(said) + ".", paper, verdict, *more, *data["notes"]])


_QUICK = {"rounds": 30, "seeds": 3, "published": Published(15, 2, 60)}
_ONE_SPLIT = {"splits": ("dirichlet-0.3",)}
_TWO = {"networks": ("mlp-100-100", "logistic")}
_DENSE = {"datasets": ("mnist", "emnist-l"), "participation": "100%"}
_CIFAR = {"datasets": ("cifar10", "cifar100"), "participation": "100%", "networks": ("cnn-8-16",)}


def _figure(number: int, title: str, quick: dict[str, Any], full: dict[str, Any], runs: Any = compute) -> Figure:
    return Figure(
        f"fedelasticnet_figure{number}", runs, draw, _QUICK | quick, full, title=f"Test accuracy against rounds, {title}",
        number=f"Figure {number}", caption=caption, takes=("data", "keep", "progress", "change"),
    )  # fmt: skip


FIGURES = (
    _figure(1, "a tenth of the clients, Dirichlet (.3)", _ONE_SPLIT, _TWO | _ONE_SPLIT),
    _figure(6, "a tenth of the clients, three splits", {}, _TWO),
    _figure(
        7, "the next character of a text", {"rounds": 8, "seeds": 2, "epochs": 2, "published": Published(4, 2, 60)},
        {"published": Published(seeds=2)}, next_character.compute,
    ),
    _figure(8, "all clients, fully connected networks", _DENSE | _ONE_SPLIT | {"rounds": 20}, _DENSE | {"rounds": 60}),
    _figure(
        9, "all clients, convolutional networks", _CIFAR | _ONE_SPLIT | {"rounds": 8, "seeds": 2},
        _CIFAR | {"rounds": 25, "seeds": 3},
    ),
)  # fmt: skip
