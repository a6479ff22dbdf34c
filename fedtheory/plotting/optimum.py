"""A certified optimum: its coordinates, and the constants of every client."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from fedtheory.plotting.style import COLOURS, headline, new_figure

__all__ = ["draw"]

CLIENTS = {"beta_k": "smoothness β_k", "mu_k": "strong convexity μ_k", "lipschitz": "Lipschitz constant on the ball"}


def draw(data: Mapping[str, Any]) -> Any:
    """Draw what `fedtheory solve --out` wrote, inside `fedtheory.plotting.style.house_style`."""
    optimum, problem = data["optimum"], data["problem"]
    x = np.asarray(optimum["x"], dtype=float)
    known = {k: np.asarray(data["constants"][k], dtype=float) for k in CLIENTS if k in data["constants"]}
    known = {k: v for k, v in known.items() if v.ndim == 1 and len(v) > 0}
    figure, axes = new_figure(8.0, 3.6, 1, 1 + bool(known))
    ax = axes[0, 0]
    ax.vlines(np.arange(len(x)), 0, x, color=COLOURS["repaired"], linewidth=1.5 if len(x) < 60 else 0.8)
    ax.plot(np.arange(len(x)), x, ".", color=COLOURS["repaired"])
    ax.axhline(0, color="#000000", linewidth=0.8)
    ax.set(xlabel="coordinate", title=f"x*: {int((x != 0).sum())} of {len(x)} coordinates are not 0")
    ax.xaxis.get_major_locator().set_params(integer=True)
    if known:
        right = axes[0, 1]
        for (name, values), marker in zip(known.items(), "osD", strict=False):
            right.plot(np.arange(len(values)), np.where(values > 0, values, np.nan), marker, markersize=5, label=CLIENTS[name])
        every = np.concatenate([v[v > 0] for v in known.values()])
        if len(every) and every.max() / every.min() > 30:
            right.set_yscale("log")
        right.set(xlabel="client", title="constants of the clients")
        right.xaxis.get_major_locator().set_params(integer=True)
        right.legend()
    size = f"{problem['clients']} clients, d = {problem['dimension']}"
    found = f"F* = {float(optimum['value']):.6g} on {problem['name']}, certified to a relative gap of {float(optimum['gap']):.2g}"
    headline(figure, found.replace("$", r"\$"), f"{size}. {optimum['certificate']}"[:118].replace("$", r"\$"))
    return figure
