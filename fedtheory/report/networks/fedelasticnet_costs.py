"""FedElasticNet's Tables 2, 3 and 4: what is sent, measured and printed, method by method."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from fedtheory.plotting.figure import Figure
from fedtheory.report.networks.families import METHODS, SPLIT_WORDS, compute
from fedtheory.report.networks.runs import Published

__all__ = ["FIGURES"]

UPDATES = "feddyn, updates"  # of Tables 3 and 4: FedDyn's second number
_ROWS = {"nonzeros": METHODS, "entropy": (*METHODS[:5], UPDATES, METHODS[5])}
_LABELS = {
    "nonzeros": "numbers sent, as a share of FedProx's",
    "entropy": "entropy of what is sent, bits a number and round",
}


def _ours(panel: dict[str, Any], what: str) -> dict[str, np.ndarray]:
    """Return each row of a table as measured here, seed by seed (seeds,).

    Nonzeros are against FedProx's; otherwise bits a number and round.
    """
    methods = panel["methods"]

    def total(method: str, name: str) -> np.ndarray:
        values = np.asarray(methods[method][name], dtype=float)[:, 1:]
        factor = np.asarray(methods[method]["participants"], dtype=float)[:, 1:] if name == "nonzeros" else 1.0
        return (values * factor).sum(axis=1)  # NaN where a run diverged

    if what == "nonzeros":
        return {m: total(m, "nonzeros") / total("fedprox", "nonzeros") for m in METHODS}
    rounds = panel["rounds"]
    out = {m: total(m, "entropy") / rounds for m in METHODS}
    return out | {UPDATES: total("feddyn", "update_entropy") / rounds}


def _printed(panel: dict[str, Any], what: str, number: str) -> dict[str, float]:
    """The same of the printed table; scikit-learn's digits stand beside MNIST, whose hyperparameters they have."""
    from fedtheory.neural.benchmarks import presets, printed_tables

    dataset = "mnist" if panel["dataset"] == "digits" else panel["dataset"]
    table = printed_tables.table(f"fedelasticnet-table{number[-1]}")
    cells: dict[str, Any] = {m: table.value(panel["split"], dataset, m) for m in METHODS}
    if any(v is None for v in cells.values()):
        return {}
    if what == "nonzeros":
        return {m: float(v) / float(cells["fedprox"]) for m, v in cells.items()}
    rounds = presets.get(f"fedelasticnet/{dataset}/{panel['split']}/10%/fedprox").rounds
    models, updates = cells["feddyn"]
    return {m: (models if m == "feddyn" else float(v)) / rounds for m, v in cells.items()} | {UPDATES: updates / rounds}


def _name(row: str) -> str:
    from fedtheory.plotting.style import METHOD_NAMES

    return "FedDyn (updates)" if row == UPDATES else METHOD_NAMES[row]


def draw(data: dict[str, Any], what: str, number: str) -> Any:
    """A panel a data set and split: one line a method, a point a seed, and the printed number."""
    from fedtheory.plotting.style import METHOD_COLOURS, METHOD_MARKERS, headline, new_figure
    from fedtheory.report.networks.drawing import dots
    from fedtheory.report.networks.words import short

    panels, rows = data["panels"], _ROWS[what]
    columns = min(3, len(panels))
    height = -(-len(panels) // columns)
    figure, axes = new_figure(
        max(8.6, 3.5 * columns + 1), 3.1 * height + 1.0, height, columns, sharex=True, sharey=True
    )
    for panel, axis in zip(panels, axes.flat, strict=False):
        ours, printed = _ours(panel, what), _printed(panel, what, number)
        for y, row in enumerate(rows):
            method = "feddyn" if row == UPDATES else row
            dots(axis, -y, ours[row][np.isfinite(ours[row])], METHOD_COLOURS[method], METHOD_MARKERS[method])
            if row in printed:
                axis.plot(printed[row], -y, "D", markerfacecolor="none", markeredgecolor="#000000", markersize=7)
        axis.set_yticks([-y for y in range(len(rows))], [_name(row) for row in rows])
        axis.set(title=f"{short(panel)}\n{SPLIT_WORDS[panel['split']]}", xlabel=_LABELS[what])
        axis.set_xlim(left=0)
        axis.grid(axis="y", visible=False)
    for axis in list(axes.flat)[len(panels) :]:
        axis.set_visible(False)
    figure.legend(handles=_handles(data["published"]), loc="outside lower center", ncols=2)
    headline(figure, _finding(data, what), f"{number}: {_LABELS[what]}")
    return figure


def _handles(published: bool) -> list[Any]:
    from matplotlib.lines import Line2D

    printed = "what the paper prints" + ("" if published else " for MNIST")
    hollow = Line2D(
        [], [], linestyle="", marker="D", markerfacecolor="none", markeredgecolor="#000000", markersize=7, label=printed
    )
    return [
        Line2D([], [], linestyle="", marker="o", color="#555555", label="here: a point a seed, a bar at their mean"),
        hollow,
    ]


def _range(data: dict[str, Any], what: str, row: str) -> tuple[float, float]:
    """Least and largest mean over the panels."""
    means = [float(np.nanmean(v)) for p in data["panels"] if np.isfinite(v := _ours(p, what)[row]).any()]
    return min(means, default=np.nan), max(means, default=np.nan)


def _shown(low: float, high: float, what: str) -> str:
    a, b = (f"{100 * v:.0f}" if what == "nonzeros" else f"{v:.2f}" for v in (low, high))
    unit = " %" if what == "nonzeros" else ""
    return f"{a}{unit}" if a == b else f"{a} to {b}{unit}"


def _finding(data: dict[str, Any], what: str) -> str:
    shown = _shown(*_range(data, what, "algorithm-3"), what)
    if what == "nonzeros":
        return f"Algorithm 3 sends {shown} of the numbers that FedProx and FedDyn send"
    dyn = _shown(*_range(data, what, "feddyn"), what)
    return f"Algorithm 3's messages have {shown} bits a number, FedDyn's models {dyn}"


def caption(data: dict[str, Any], what: str, number: str) -> str:
    """Say where it was run, every method's figure, and what the paper claims of them."""
    from fedtheory.report.networks.words import joined, where

    rows = _ROWS[what]
    said = joined([f"{_name(row)} {_shown(*_range(data, what, row), what)}" for row in rows])
    beside = "printed" if data["published"] else "printed for MNIST (the digits have MNIST's hyperparameters)"
    parts = [where(data), f"{_LABELS[what][0].upper()}{_LABELS[what][1:]}: {said}. Hollow diamonds: {beside}."]
    if what == "nonzeros":
        parts.append(_sparser(data, rows))
    else:
        parts.append(_less(data))
    return " ".join([*parts, *data["notes"]])


def _in_how_many(data: dict[str, Any], what: str, less: str, more: str) -> str:
    """In how many of all runs the first row is below the second."""
    both = [(o[less], o[more]) for o in (_ours(p, what) for p in data["panels"])]
    each = np.concatenate([(a < b)[np.isfinite(a) & np.isfinite(b)] for a, b in both])
    return f"{int(each.sum())} of {len(each)}"


def _sparser(data: dict[str, Any], rows: Sequence[str]) -> str:
    pairs = [("algorithm-1", "fedprox"), ("algorithm-2", "scaffold"), ("algorithm-3", "feddyn")]
    counts = ", ".join(f"{_name(a)} below {_name(b)} in {_in_how_many(data, 'nonzeros', a, b)} runs" for a, b in pairs)
    return (
        f"The paper's claim that its forms sparsify what is sent is seen: {counts}."
        if _all(counts)
        else f"The paper's claim: {counts}."
    )


def _all(counts: str) -> bool:
    """True if every 'n of m' in it has n = m."""
    words = counts.replace(",", "").split()
    return all(words[i - 1] == words[i + 1] for i, w in enumerate(words) if w == "of")


def _less(data: dict[str, Any]) -> str:
    updates = _in_how_many(data, "entropy", UPDATES, "feddyn")
    least = _in_how_many(data, "entropy", "algorithm-3", UPDATES)
    one = _in_how_many(data, "entropy", "algorithm-3", "algorithm-1")
    return (
        f"The paper's advice to send updates in place of models lowers FedDyn's entropy in {updates} runs. Algorithm "
        "3 is below FedDyn's "
        f"updates in {least} runs and below Algorithm 1 in {one}; the paper says that it has the minimum."
    )


def _figure(name: str, title: str, what: str, number: str, quick: dict[str, Any], full: dict[str, Any]) -> Figure:
    return Figure(
        name, compute, partial(draw, what=what, number=number), quick, full, title=title, paper="fedelasticnet", number=number,
        caption=partial(caption, what=what, number=number), takes=("data", "keep", "progress"),
    )  # fmt: skip


_QUICK = {"rounds": 30, "seeds": 3, "published": Published(15, 2, 60)}
_ALL = _QUICK | {"rounds": 20, "participation": "100%", "splits": ("dirichlet-0.3",), "datasets": ("mnist", "emnist-l")}
_FULL = {"networks": ("mlp-100-100", "logistic")}
_FULL_ALL = {"rounds": 60, "participation": "100%", "datasets": ("mnist", "emnist-l")}
FIGURES = (
    _figure(
        "fedelasticnet_table2",
        "Numbers sent over all rounds, beside the printed ones",
        "nonzeros",
        "Table 2",
        _QUICK,
        _FULL,
    ),
    _figure(
        "fedelasticnet_table3", "Entropy of what is sent, a tenth of the clients", "entropy", "Table 3", _QUICK, _FULL
    ),
    _figure("fedelasticnet_table4", "Entropy of what is sent, all clients", "entropy", "Table 4", _ALL, _FULL_ALL),
)
