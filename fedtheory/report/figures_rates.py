"""Rounds to epsilon on four instances, and below each the local steps they cost; every line carries its measured slope."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from fedtheory.rates import experiments
from fedtheory.report.style import headline, new_figure

__all__ = ["compute", "draw"]

FEDMLS, BOUND = "#0072B2", "#000000"
_TITLES = {
    "pull": "Two clients that pull apart",
    "nesterov": "Nesterov's worst function",
    "chain": "Arjevani-Shamir chain",
    "lad": "Fixed data, d = {dim} (LAD)",
}
_CLAIMS = {
    "pull": "constant or 1/√t steps: 1/ε²",
    "nesterov": "one subgradient a round: 1/ε²",
    "chain": "nothing beats 1/ε here",
    "lad": "a tuned step wins",
}
# (method, schedule begins with) -> (short label, colour, marker)
_LOOKS: dict[tuple[str, str], tuple[str, str, str]] = {
    ("FedMLS", ""): ("FedMLS", FEDMLS, "o"),
    ("FedMLS, K_min", ""): ("FedMLS, proved", FEDMLS, ""),
    ("FedProx", "constant"): ("FedProx, constant", "#D55E00", "o"),
    ("FedProx", "h/sqrt"): ("FedProx, 1/√t", "#E69F00", "o"),
    ("FedProx", "h held"): ("FedProx, held, then cut", "#009E73", "o"),
    ("FedAvg", "constant"): ("FedAvg, constant", "#D55E00", "s"),
    ("FedAvg", "h/sqrt"): ("FedAvg, 1/√t", "#E69F00", "s"),
    ("FedAvg", "h held"): ("FedAvg, held, then cut", "#009E73", "s"),
    ("subgradient method", "constant h"): ("subgradient, constant", "#CC79A7", "^"),
    ("subgradient method", "h/sqrt"): ("subgradient, 1/√t", "#CC79A7", "v"),
    ("subgradient method", "h held"): ("subgradient, held, then cut", "#009E73", "^"),
    ("subgradient method", "constant eps"): ("subgradient, step ε/G²", "#D55E00", "^"),
    ("any span method", ""): ("lower bound", BOUND, ""),
    ("any method", ""): ("lower bound", BOUND, ""),
}


def compute(**options: Any) -> dict[str, Any]:
    """`fedtheory.rates.experiments.compute`."""
    return experiments.compute(**options)


def _look(series: Mapping[str, Any]) -> tuple[str, str, str] | None:
    for (method, start), look in _LOOKS.items():
        if series["method"] == method and series["schedule"].startswith(start):
            return look
    return None


def _spread(wanted: list[float], least: float) -> list[float]:
    """Positions at least `least` apart, as near to the wanted ones (ascending) as pushing up and down allows."""
    at = list(wanted)
    for _ in range(200):
        moved = False
        for i in range(len(at) - 1):
            short = least - (at[i + 1] - at[i])
            if short > 1e-9:
                at[i] -= short / 2
                at[i + 1] += short / 2
                moved = True
        if not moved:
            break
    return at


def _slope_text(series: Mapping[str, Any]) -> str:
    fit = series["fit"]
    return "" if fit is None else f"  {fit['slope']:.2f}".replace("-", "−")


def _panel(ax: Any, series: list[Mapping[str, Any]], key: str, epsilons: np.ndarray, labels: bool) -> None:
    ends: list[tuple[float, str, str, bool]] = []
    for s in series:
        look = _look(s)
        x, y = np.asarray(s["epsilons"]), np.asarray(s[key], dtype=float)
        ok = np.isfinite(y) & (y > 0)
        if look is None or not ok.any():
            continue
        name, colour, marker = look
        ours = s["method"] == "FedMLS"
        style = ":" if s["role"] == "theory" else "--" if s["role"] == "lower bound" else "-"
        ax.plot(
            x[ok], y[ok], color=colour, linestyle=style, marker=marker, markersize=5.5 if ours else 3.5,
            linewidth=3.2 if ours else 1.5, zorder=5 if ours else 3,
        )  # fmt: skip
        if s["role"] == "lower bound":
            ax.fill_between(x[ok], y[ok], 0.3, color=BOUND, alpha=0.06, linewidth=0, zorder=0)
        last = int(np.flatnonzero(ok)[np.argmin(x[ok])])
        ends.append((float(np.log10(y[last])), f"{name}{_slope_text(s)}", colour, ours))
    ax.set(xscale="log", yscale="log")
    low, high = float(epsilons.min()), float(epsilons.max())
    room = (high / low) ** 0.95 if labels else 1.15
    ax.set_xlim(high * 1.12, low / room)
    ticks = 10.0 ** np.arange(np.ceil(np.log10(low) - 1e-9), np.floor(np.log10(high) + 1e-9) + 1)
    ax.set_xticks(ticks, [f"{t:g}" for t in ticks])
    ax.minorticks_off()
    if labels and ends:
        ends.sort(key=lambda e: e[0])
        bottom, top = (float(np.log10(v)) for v in ax.get_ylim())
        for (_, text, colour, ours), at in zip(ends, _spread([e[0] for e in ends], (top - bottom) * 0.052), strict=True):
            ax.text(low / 1.18, 10**at, text, color=colour, va="center", fontsize=8.2, fontweight="bold" if ours else "normal")


def _guides(ax: Any, epsilons: np.ndarray, level: float) -> None:
    """Grey triangles' sides: 1/eps and 1/eps^2 from the same point."""
    x = np.array([epsilons.max(), epsilons.max() / 10**0.75])
    for power in (1, 2):
        y = level * (x[0] / x) ** power
        ax.plot(x, y, color="#999999", linewidth=1.0, zorder=1)
        ax.annotate(f"1/ε{'²' if power == 2 else ''}", (x[1], y[1]), xytext=(2, 0), textcoords="offset points", fontsize=8, color="#777777", va="center")


def draw(data: dict[str, Any]) -> Figure:
    """Rounds above, local steps of one client below; epsilon falls to the right."""
    figure, axes = new_figure(16.5, 8.6, 2, len(_TITLES), height_ratios=[1.75, 1])
    epsilons = np.asarray(data["epsilons"], dtype=float)
    for i, (instance, title) in enumerate(_TITLES.items()):
        series = [s for s in data["series"] if s["instance"] == instance]
        shown = [s for s in series if s["method"] != "FedMLS, printed K"]
        top, bottom = axes[0, i], axes[1, i]
        _panel(top, shown, "rounds", epsilons, True)
        top.set_title(f"{title.format(dim=data['lad']['dim'])}\n{_CLAIMS[instance]}", fontsize=10.5, fontweight="bold")
        _panel(bottom, shown, "local_steps", epsilons, True)
        bottom.set_xlabel("accuracy ε (smaller to the right)")
        if i == 0:
            top.set_ylabel("rounds to ε")
            bottom.set_ylabel("local steps of a client to ε")
    for row in axes:
        low, high = min(a.get_ylim()[0] for a in row), max(a.get_ylim()[1] for a in row)
        for a in row:
            a.set_ylim(max(low, 0.7), high)
    headline(
        figure,
        "FedMLS needs rounds like 1/ε everywhere; plain steps need 1/ε² where the instance is hard, and beat it where it is easy",
        "number behind each name: fitted slope of log rounds (below: of rounds too) against log ε; FedMLS: smallest K found by bisection, "
        "λ = ε/G²; dotted: K_min, for which ε is proved; every other step tuned on a grid for each ε unless stated",
    )
    return figure
