"""Theorem 2 in one dimension: how far the optimum moves when a client leaves or arrives, and both bounds."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from fedtheory.plotting.style import COLOURS, GREY, headline, legend_below, page_figure, times
from fedtheory.theorems.efl.shift_world import ShiftView
from fedtheory.theory.judge.registry import get

__all__ = ["caption", "compute", "draw"]


def compute(points: int = 41, curvature: int = 4) -> dict[str, Any]:
    """||w* - new w*||^2 against n_a/n, and bounds (10) and (11) as printed and as repaired.

    F_o = w^2/2 for the others, F_a = c (w - 1)^2/2 for the client that leaves or arrives, with c = ``curvature`` = kappa.
    """
    out: dict[str, Any] = {"curvature": curvature}
    ranges = {"departure": np.linspace(0.02, 0.98, points), "arrival": np.geomspace(0.05, 20, points)}
    for event, ratios in ranges.items():
        statement, sharp = get(f"efl/theorem-2-{event}"), "sharp" if event == "departure" else "repaired"
        rows = []
        for ratio in ratios:
            others = 1000 - round(1000 * ratio) if event == "departure" else 1000
            data = {"event": event, "samples": [str(others), str(round(1000 * ratio))], "h": [["1"], [str(curvature)]]}
            view = ShiftView.from_data({**data, "c": [["0"], ["1"]]})
            rows.append([float(view.distance_sq), *(float(statement.form(f).sides_on(view).rhs) for f in ("printed", sharp))])
        true, printed, repaired = np.array(rows).T
        out[event] = {"ratio": ratios, "true": true, "printed": printed, "repaired": repaired}
    return out


def _worst(data: dict[str, Any]) -> tuple[float, float]:
    """(largest true/printed of an arrival, at which n_a/n the printed bound is first crossed; inf where never)."""
    p = data["arrival"]
    ratio, at = np.asarray(p["true"]) / np.asarray(p["printed"]), np.asarray(p["ratio"])
    crossed = at[ratio > 1 + 1e-12]
    return float(ratio.max()), float(crossed[0]) if len(crossed) else float("inf")


def caption(data: dict[str, Any]) -> str:
    """Say where the printed bound fails, and by how much."""
    most, first = _worst(data)
    loose = float(np.min(np.asarray(data["departure"]["printed"]) / np.asarray(data["departure"]["true"])))
    return (
        f"How far the optimum moves when a client leaves (left) or arrives (right). The printed bound (11) of an arrival is false from "
        f"n_a/n = {first:.2g} on, where the newcomer has more samples than all others together: the optimum moves {times(most)} times "
        f"the bound at most. The printed bound (10) of a departure is {times(loose)} times too large or more. With the sharp constant "
        "(11) is attained. Exact, one dimension."
    )


def draw(data: dict[str, Any]) -> Figure:
    """Left: departure. Right: arrival."""
    figure, axes = page_figure(1, 2, ratio=0.72, more=0.35, sharey=True)
    titles = {"departure": "(10): a client leaves", "arrival": "(11): a client arrives"}
    for ax, (event, title) in zip(axes[0], titles.items()):
        p = data[event]
        x, broken = p["ratio"], p["printed"] < p["true"] * (1 - 1e-12)
        ax.plot(x, p["repaired"], color=COLOURS["repaired"], linewidth=4.5, alpha=0.5, label="with the sharp constant (wide: attained)")
        ax.plot(x, p["printed"], color=COLOURS["printed"], linestyle=(0, (4, 1.5)), label="as printed")
        ax.plot(x, p["true"], color=COLOURS["measured"], label="true squared distance")
        if broken.any():
            ax.fill_between(x, p["printed"], p["true"], where=broken, color=COLOURS["printed"], alpha=0.3, linewidth=0)
            ax.axvline(1, color=GREY, linewidth=0.8, linestyle=":")
            words = f"false: up to {times(_worst(data)[0])} ×\nthe printed bound"
            ax.annotate(
                words, (0.97, 0.98), xycoords="axes fraction", ha="right", va="top", fontsize=7, color=COLOURS["printed"], weight="bold"
            )
        ax.set(yscale="log", xlabel="$n_a/n$: the client's samples over all before", title=title)
    axes[0, 1].set_xscale("log")
    for ax in axes[0]:
        ax.minorticks_off()
    axes[0, 0].set_ylabel("squared distance of the two optima")
    legend_below(figure, axes[0, :1], 3)
    headline(
        figure,
        "EFL's Theorem 2: the printed bound for an arrival fails as soon as the newcomer has more samples than all others",
        f"one dimension, others w²/2, client a {data['curvature']}(w − 1)²/2; exact",
    )
    return figure
