"""FedElasticNet's Table 1, whose cells are symbols: communication and heterogeneity measured,
beside the symbols."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedtheory.plotting.figure import Figure
from fedtheory.plotting.style import METHOD_NAMES, headline, new_figure
from paper_figures.fedelasticnet.families import METHODS, compute
from paper_figures.networks.drawing import lines_of
from paper_figures.networks.runs import Published
from paper_figures.networks.words import data_words, gain, joined, sent, short, spread, where

__all__ = ["FIGURE"]

# communication and heterogeneity, as printed; the three algorithms are the paper's FedElasticNet
SYMBOLS = {"fedprox": "△ △", "scaffold": "× ○", "feddyn": "△ ○"}
SYMBOLS |= {f"algorithm-{n}": "○ ○" for n in (1, 2, 3)}


def _measured(panels: list[dict[str, Any]]) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Of one data set: numbers sent in percent of FedProx's, and points of accuracy lost from IID
    to Dirichlet (.3), seed by seed."""
    of = {p["split"]: p["methods"] for p in panels}
    uneven, even = of["dirichlet-0.3"], of["iid"]
    dense = sent(uneven["fedprox"])
    return {m: (100 * sent(uneven[m]) / dense, gain(even[m], uneven[m])) for m in METHODS}


def _sets(data: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """The panels of each data set and network."""
    return {
        name: [p for p in data["panels"] if data_words(p) == name]
        for name in dict.fromkeys(data_words(p) for p in data["panels"])
    }


def draw(data: dict[str, Any]) -> Any:
    """A panel a data set; each method where it was measured, with its two symbols."""
    sets = _sets(data)
    figure, axes = new_figure(10.4, 3.0 * len(sets) + 0.8, len(sets), 2, sharey="row")
    titles = ("communication: numbers sent, % of FedProx's", "heterogeneity: points lost from IID")
    for row, panels in zip(axes, sets.values(), strict=True):
        found = _measured(panels)
        for n, (axis, words) in enumerate(zip(row, titles, strict=True)):
            points = {m: values[n] for m, values in found.items()}
            lines_of(axis, points, [METHOD_NAMES[m] for m in METHODS])
            for y, method in enumerate(METHODS):
                at: dict[str, Any] = {"xycoords": ("axes fraction", "data"), "va": "center", "fontsize": 11}
                axis.annotate(SYMBOLS[method].split()[n], (1.01, -y), **at)
            axis.set(title=f"{short(panels[0])}, {words}" if n == 0 else words)
        row[0].set_xlim(left=0)
        row[1].axvline(0, color="#000000", linewidth=0.9)
    headline(
        figure, _finding(data),
        f"points: {len(data['seeds'])} seeds, bar: their mean; on the right of each panel the "
        "symbol that Table 1 prints",
    )
    return figure


def _finding(data: dict[str, Any]) -> str:
    found = _measured(next(iter(_sets(data).values())))
    second, third = (found[m][0].mean() for m in ("algorithm-2", "algorithm-3"))
    return (
        f"Both are printed ○: Algorithm 2 sends {second:.0f} % of FedProx's numbers, Algorithm 3 "
        f"{third:.0f} %"
    )


def caption(data: dict[str, Any]) -> str:
    """Both columns in numbers, and that the symbols are not explained."""
    parts = [where(data)]
    for name, panels in _sets(data).items():
        found = _measured(panels)
        said = [
            f"{METHOD_NAMES[m]} ({SYMBOLS[m]}) {sent.mean():.0f} %, {spread(lost)}"
            for m, (sent, lost) in found.items()
        ]
        parts.append(
            f"{name}: numbers sent against FedProx's, and points of accuracy lost from IID to "
            f"Dirichlet (.3): {joined(said)}."
        )
    parts.append(
        "The paper does not explain its symbols △, × and ○, of which the first is for "
        "communication and the second for heterogeneity; FedAvg (△ ×) is close to FedProx here, "
        "whose λ₂ is 0.0001, and is not run."
    )
    return " ".join([*parts, *data["notes"]])


_SPLITS = ("dirichlet-0.3", "iid")
FIGURE = Figure(
    "fedelasticnet_table1", compute, draw,
    {"splits": _SPLITS, "rounds": 30, "seeds": 3, "published": Published(15, 2, 60)},
    {"splits": _SPLITS, "networks": ("mlp-100-100", "logistic")},
    title="Communication and heterogeneity of the six methods, beside the printed symbols",
    number="Table 1", caption=caption, takes=("data", "keep", "progress"),
)  # fmt: skip
