"""FedElasticNet's Tables 2, 3 and 4: what is sent, measured and printed, method by method."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from fedtheory.neural.benchmarks import presets, printed_tables
from fedtheory.plotting.figure import Figure
from fedtheory.plotting.style import METHOD_NAMES, headline, new_figure
from paper_figures.fedelasticnet.families import METHODS, PAIRS, SPLIT_WORDS, compute
from paper_figures.networks.drawing import key_to_dots, lines_of, printed
from paper_figures.networks.runs import Published
from paper_figures.networks.words import joined, sent, short, where

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
    if what == "nonzeros":
        return {m: sent(methods[m]) / sent(methods["fedprox"]) for m in METHODS}
    named = {m: (m, "entropy") for m in METHODS} | {UPDATES: ("feddyn", "update_entropy")}
    bits = {row: np.asarray(methods[m][name], dtype=float)[:, 1:] for row, (m, name) in named.items()}
    return {row: values.sum(axis=1) / panel["rounds"] for row, values in bits.items()}  # NaN where a run diverged


def _printed(panel: dict[str, Any], what: str, number: str) -> dict[str, float]:
    """The same of the printed table; scikit-learn's digits stand beside MNIST, whose hyperparameters they have."""
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
    return "FedDyn (updates)" if row == UPDATES else METHOD_NAMES[row]


def draw(data: dict[str, Any], what: str, number: str) -> Any:
    """A panel a data set and split: one line a method, a point a seed, and the printed number."""
    panels, rows = data["panels"], _ROWS[what]
    columns = min(3, len(panels))
    height = -(-len(panels) // columns)
    figure, axes = new_figure(
        max(8.6, 3.5 * columns + 1), 3.1 * height + 1.0, height, columns, sharex=True, sharey=True
    )
    for panel, axis in zip(panels, axes.flat, strict=False):
        ours, beside = _ours(panel, what), _printed(panel, what, number)
        names, methods = [_name(row) for row in rows], ["feddyn" if row == UPDATES else row for row in rows]
        lines_of(axis, {row: ours[row] for row in rows}, names, methods)
        for y, row in enumerate(rows):
            if row in beside:
                printed(axis, beside[row], -y)
        axis.set(title=f"{short(panel)}\n{SPLIT_WORDS[panel['split']]}", xlabel=_LABELS[what])
        axis.set_xlim(left=0)
    for axis in list(axes.flat)[len(panels) :]:
        axis.set_visible(False)
    key_to_dots(figure, "what the paper prints" + ("" if data["published"] else " for MNIST"))
    headline(figure, _finding(data, what), f"{number}: {_LABELS[what]}")
    return figure


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
    rows = _ROWS[what]
    said = joined([f"{_name(row)} {_shown(*_range(data, what, row), what)}" for row in rows])
    beside = "printed" if data["published"] else "printed for MNIST (the digits have MNIST's hyperparameters)"
    parts = [where(data), f"{_LABELS[what][0].upper()}{_LABELS[what][1:]}: {said}. Hollow diamonds: {beside}."]
    claims = _sparser(data) if what == "nonzeros" else _less(data)
    return " ".join([*parts, claims, *data["notes"]])


def _in_how_many(data: dict[str, Any], what: str, less: str, more: str) -> str:
    """In how many of all runs the first row is below the second."""
    below = _below(data, what, less, more)
    return f"{int(below.sum())} of {len(below)}"


def _below(data: dict[str, Any], what: str, less: str, more: str) -> np.ndarray:
    """Run by run, True where the first row is below the second."""
    both = [(o[less], o[more]) for o in (_ours(p, what) for p in data["panels"])]
    return np.concatenate([(a < b)[np.isfinite(a) & np.isfinite(b)] for a, b in both])


def _sparser(data: dict[str, Any]) -> str:
    pairs = [(net, plain) for plain, net in PAIRS]
    counts = ", ".join(f"{_name(a)} below {_name(b)} in {_in_how_many(data, 'nonzeros', a, b)} runs" for a, b in pairs)
    if all(_below(data, "nonzeros", *pair).all() for pair in pairs):
        return f"The paper's claim that its forms sparsify what is sent is seen: {counts}."
    return f"The paper's claim: {counts}."


def _less(data: dict[str, Any]) -> str:
    pairs = ((UPDATES, "feddyn"), ("algorithm-3", UPDATES), ("algorithm-3", "algorithm-1"))
    updates, least, one = (_in_how_many(data, "entropy", *pair) for pair in pairs)
    return (
        f"The paper's advice to send updates in place of models lowers FedDyn's entropy in {updates} runs. Algorithm 3 is "
        f"below FedDyn's updates in {least} runs and below Algorithm 1 in {one}; the paper says that it has the minimum."
    )


def _figure(number: int, title: str, what: str, quick: dict[str, Any], full: dict[str, Any]) -> Figure:
    said: dict[str, Any] = {"what": what, "number": f"Table {number}"}
    return Figure(
        f"fedelasticnet_table{number}", compute, partial(draw, **said), quick, full, title=title, number=said["number"],
        caption=partial(caption, **said), takes=("data", "keep", "progress", "change"),
    )


_QUICK = {"rounds": 30, "seeds": 3, "published": Published(15, 2, 60)}
_ALL = _QUICK | {"rounds": 20, "participation": "100%", "splits": ("dirichlet-0.3",), "datasets": ("mnist", "emnist-l")}
_FULL = {"networks": ("mlp-100-100", "logistic")}
_FULL_ALL = {"rounds": 60, "participation": "100%", "datasets": ("mnist", "emnist-l")}
FIGURES = (
    _figure(2, "Numbers sent over all rounds, beside the printed ones", "nonzeros", _QUICK, _FULL),
    _figure(3, "Entropy of what is sent, a tenth of the clients", "entropy", _QUICK, _FULL),
    _figure(4, "Entropy of what is sent, all clients", "entropy", _ALL, _FULL_ALL),
)
