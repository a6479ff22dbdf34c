"""Where each row of Table 1 is the smallest."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from fedtheory.plotting.style import METHOD_COLOURS, headline, page_figure
from fedtheory.theorems.efl.table_1_world import STRONGLY_CONVEX, rounds

__all__ = ["caption", "compute", "draw", "smallest"]


def smallest(G: Any, L: Any, mu: Any, S: Any, root: Any, delta: Any) -> np.ndarray:
    """Index into `STRONGLY_CONVEX` of the smallest row (the first of equal ones), elementwise over broadcast arrays."""
    values = [rounds(row, G, L, mu, S, root, delta) for row in STRONGLY_CONVEX]
    shape = np.broadcast_shapes(*(np.shape(v) for v in values))
    return np.stack([np.broadcast_to(np.asarray(v, dtype=float), shape) for v in values]).argmin(axis=0)


def compute(grid: int = 121, ratios: tuple[float, ...] = (0.1, 1.0, 10.0)) -> dict[str, Any]:
    """The smallest of the strongly convex rows over epsilon and delta/L, one map for each G/L; L = 1, mu = 1/100, S = 10."""
    epsilon, delta = np.geomspace(1e-4, 1e4, grid), np.geomspace(1e-2, 1e2, grid)
    maps = [smallest(g, 1.0, 0.01, 10, np.sqrt(epsilon)[None], delta[:, None]) for g in ratios]
    return {"epsilon": epsilon, "delta": delta, "ratios": ratios, "rows": STRONGLY_CONVEX, "smallest": maps}


def _own_share(data: dict[str, Any]) -> float:
    """The share of the plane delta <= L, epsilon <= 1 where EFL's row is the smallest, at the G for which it is largest."""
    mine, possible = list(data["rows"]).index("EFL"), np.ix_(np.asarray(data["delta"]) <= 1, np.asarray(data["epsilon"]) <= 1)
    return max(float((np.asarray(which)[possible] == mine).mean()) for which in data["smallest"])


def caption(data: dict[str, Any]) -> str:
    """Say where EFL's row is smallest."""
    return (
        "Which of the strongly convex rows of EFL's Table 1 asks for the fewest rounds, for every accuracy ε and dissimilarity δ/L of "
        "the Hessians. Convex clients that are L-smooth have δ ≤ L: the hatched half cannot occur. Where it can and ε ≤ 1, EFL's row "
        f"is the smallest on {_own_share(data):.0%} of the plane. Printed expressions, constants and logarithms left out as in print."
    )


def draw(data: dict[str, Any]) -> Figure:
    """One map for each G/L; hatched: delta > L, which strongly convex clients cannot have."""
    colours = [METHOD_COLOURS[row.lower()] for row in data["rows"]]
    figure, axes = page_figure(1, len(data["ratios"]), ratio=1.0, more=0.35, sharey=True)
    x, y = data["epsilon"], data["delta"]
    for ax, ratio, which in zip(axes[0], data["ratios"], data["smallest"]):
        ax.pcolormesh(x, y, which, cmap=ListedColormap(colours), vmin=-0.5, vmax=2.5, shading="nearest", rasterized=True)
        ax.fill_between(x, 1, y[-1], facecolor="none", edgecolor="white", hatch="//", linewidth=0, alpha=0.6)
        ax.axvline(1, color="black", linewidth=1, linestyle=":")
        ax.axhline(1, color="black", linewidth=1)
        ax.set(xscale="log", yscale="log", xlabel="accuracy ε", title=f"G/L = {ratio:g}", xlim=(x[0], x[-1]), ylim=(y[0], y[-1]))
        ax.grid(False)
        ax.minorticks_off()
        ax.set_xticks([1e-4, 1e-2, 1, 1e2, 1e4])
    axes[0, 0].set_ylabel("dissimilarity of the Hessians δ/L")
    handles = [Patch(color=c, label=f"{row} smallest") for c, row in zip(colours, data["rows"])]
    hatched = Patch(facecolor="#DDDDDD", hatch="//", edgecolor="white", label="δ > L: impossible for convex L-smooth clients")
    figure.legend(handles=[*handles, hatched], loc="outside lower center", ncols=4)
    share = _own_share(data)
    finding = "EFL's row is nowhere the smallest" if share == 0 else f"EFL's row is the smallest on at most {share:.0%} of the plane"
    headline(
        figure, f"EFL's Table 1: where δ ≤ L and ε ≤ 1, {finding}, whatever G",
        "the printed expressions of the strongly convex rows, constants and logarithms left out as "
        "in print; L/µ = 100, S = 10",
    )
    return figure
