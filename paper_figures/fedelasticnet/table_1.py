"""FedElasticNet's Table 1, whose cells are symbols: communication and heterogeneity measured,
beside the symbols."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedtheory.plotting.figure import Figure
from fedtheory.report.networks.families import METHODS, compute
from fedtheory.report.networks.runs import Published

__all__ = ["FIGURE"]

# communication and heterogeneity, as printed; the three algorithms are the paper's FedElasticNet
SYMBOLS = {
    "fedprox": "△ △",
    "scaffold": "× ○",
    "feddyn": "△ ○",
    "algorithm-1": "○ ○",
    "algorithm-2": "○ ○",
    "algorithm-3": "○ ○",
}


def _measured(panels: list[dict[str, Any]]) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Of one data set: numbers sent in percent of FedProx's, and points of accuracy lost from IID
    to Dirichlet (.3), seed by seed."""
    from fedtheory.report.networks.words import difference

    of = {p["split"]: p["methods"] for p in panels}
    uneven, even = of["dirichlet-0.3"], of["iid"]

    def sent(method: str) -> np.ndarray:
        row = uneven[method]
        return (
            np.asarray(row["nonzeros"], dtype=float)[:, 1:]
            * np.asarray(row["participants"], dtype=float)[:, 1:]
        ).sum(axis=1)

    lost = {m: difference(even[m]["test_accuracy"], uneven[m]["test_accuracy"]) for m in METHODS}
    return {m: (100 * sent(m) / sent("fedprox"), lost[m]) for m in METHODS}


def _sets(data: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """The panels of each data set and network."""
    from fedtheory.report.networks.words import data_words

    return {
        name: [p for p in data["panels"] if data_words(p) == name]
        for name in dict.fromkeys(data_words(p) for p in data["panels"])
    }


def draw(data: dict[str, Any]) -> Any:
    """A panel a data set; each method where it was measured, with its two symbols."""
    from fedtheory.plotting.style import METHOD_COLOURS, METHOD_MARKERS, METHOD_NAMES, headline, new_figure
    from fedtheory.report.networks.drawing import dots
    from fedtheory.report.networks.words import short

    sets = _sets(data)
    figure, axes = new_figure(10.4, 3.0 * len(sets) + 0.8, len(sets), 2, sharey="row")
    for row, panels in zip(axes, sets.values(), strict=True):
        found = _measured(panels)
        for y, method in enumerate(METHODS):
            for axis, values in zip(row, found[method], strict=True):
                dots(
                    axis, -y, values[np.isfinite(values)], METHOD_COLOURS[method],
                    METHOD_MARKERS[method],
                )
        for axis, n, words in zip(
            row,
            (0, 1),
            ("communication: numbers sent, % of FedProx's", "heterogeneity: points lost from IID"),
            strict=True,
        ):
            for y, method in enumerate(METHODS):
                axis.annotate(
                    SYMBOLS[method].split()[n], (1.01, -y), xycoords=("axes fraction", "data"),
                    va="center", fontsize=11,
                )
            axis.set(title=f"{short(panels[0])}, {words}" if n == 0 else words)
            axis.grid(axis="y", visible=False)
        row[0].set_xlim(left=0)
        row[1].axvline(0, color="#000000", linewidth=0.9)
        row[0].set_yticks([-y for y in range(len(METHODS))], [METHOD_NAMES[m] for m in METHODS])
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
    from fedtheory.plotting.style import METHOD_NAMES
    from fedtheory.report.networks.words import joined, spread, where

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
    "fedelasticnet_table1",
    compute,
    draw,
    {"splits": _SPLITS, "rounds": 30, "seeds": 3, "published": Published(15, 2, 60)},
    {"splits": _SPLITS, "networks": ("mlp-100-100", "logistic")},
    title="Communication and heterogeneity of the six methods, beside the printed symbols",
    paper="fedelasticnet",
    number="Table 1",
    caption=caption,
    takes=("data", "keep", "progress"),
)
