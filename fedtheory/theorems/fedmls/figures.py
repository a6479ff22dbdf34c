"""Rounds to epsilon on four instances, and below each the local steps they cost; every line carries its measured slope."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from fedtheory.plotting.style import headline, new_figure
from fedtheory.theorems.fedmls.rates import experiments

__all__ = ["compute", "draw", "draw_summary"]

FEDMLS, BOUND = "#0072B2", "#000000"
_TITLES = {
    "pull": ("Two-client pull, made for each ε", "constant or 1/√t: FedAvg, FedProx 1/ε²"),
    "nesterov": ("Nesterov's function, made for each ε", "one client, one subgradient a round: 1/ε²"),
    "chain": ("Arjevani-Shamir chain, made for each ε", "1/ε, and no method can do better"),
    "lad": ("Fixed data, d = {dim} (LAD)", "a tuned subgradient step is ahead"),
}
# label -> (what the figure calls it, colour, marker)
_LOOKS = {
    "FedMLS": ("FedMLS", FEDMLS, "o"),
    "FedMLS, K_min": ("FedMLS, proved", FEDMLS, ""),
    "FedProx, constant": ("FedProx, constant", "#D55E00", "o"),
    "FedProx, 1/sqrt(t)": ("FedProx, 1/√t", "#E69F00", "o"),
    "FedProx, held, cut": ("FedProx, held, then cut", "#009E73", "o"),
    "FedAvg, constant": ("FedAvg, constant", "#D55E00", "s"),
    "FedAvg, 1/sqrt(t)": ("FedAvg, 1/√t", "#E69F00", "s"),
    "FedAvg, held, cut": ("FedAvg, held, then cut", "#009E73", "s"),
    "subgradient, constant": ("subgradient, constant", "#CC79A7", "^"),
    "subgradient, 1/sqrt(t)": ("subgradient, 1/√t", "#A0522D", "v"),
    "subgradient, held, cut": ("subgradient, held, cut", "#009E73", "^"),
    "subgradient, eps/G^2": ("not tuned: step ε/G²", "#D55E00", "^"),
    "one subgradient a round": ("lower bound", BOUND, ""),
    "any method at all": ("lower bound", BOUND, ""),
}


def compute(**options: Any) -> dict[str, Any]:
    """`fedtheory.theorems.fedmls.rates.experiments.compute`."""
    return experiments.compute(**options)


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


def _panel(ax: Any, series: list[Mapping[str, Any]], key: str, epsilons: np.ndarray) -> tuple[float, list[Any]]:
    """Lines of one panel; their names and slopes stand at their right ends."""
    ends: list[tuple[float, str, str, bool]] = []
    low, high = float(epsilons.min()), float(epsilons.max())
    for s in series:
        look = _LOOKS.get(s["label"])
        x, y = np.asarray(s["epsilons"]), np.asarray(s[key], dtype=float)
        ok = np.isfinite(y) & (y > 0)
        if look is None or not ok.any():
            continue
        name, colour, marker = look
        ours = s["label"] == "FedMLS"
        style = ":" if s["role"] == "theory" else "--" if s["role"] == "lower bound" else "-"
        ax.plot(
            x[ok], y[ok], color=colour, linestyle=style, marker=marker, markersize=5.5 if ours else 3.5,
            linewidth=3.2 if ours else 1.5, zorder=5 if ours else 3,
        )  # fmt: skip
        if s["role"] == "lower bound":
            ax.fill_between(x[ok], y[ok], 0.3, color=BOUND, alpha=0.06, linewidth=0, zorder=0)
            ax.lines[-1].set(zorder=4, linewidth=2.2)
            who = "by one subgradient a round" if s["instance"] == "nesterov" else "by any method"
            if key == "rounds":
                ax.annotate(f"proved out of reach\n{who}", (low * 1.1, 1), ha="right", va="bottom", fontsize=8, color="#555555")
        last = int(np.flatnonzero(ok)[np.argmin(x[ok])])
        fit = s["fit" if key == "rounds" else "fit_local"]
        slope = "" if fit is None else f"  {fit['slope']:.2f}".replace("-", "−")
        ends.append((float(np.log10(y[last])), name + slope, colour, ours))
    ax.set(xscale="log", yscale="log")
    ax.set_xlim(high * 1.12, low / (high / low) ** 0.95)  # room for the names
    ticks = 10.0 ** np.arange(np.ceil(np.log10(low) - 1e-9), np.floor(np.log10(high) + 1e-9) + 1)
    ax.set_xticks(ticks, [f"{t:g}" for t in ticks])
    ax.minorticks_off()
    return low, sorted(ends, key=lambda e: e[0])


def _names(ax: Any, low: float, ends: list[tuple[float, str, str, bool]], least: float, size: float = 8.2) -> None:
    """Names right of the lines' ends, once the axes' limits are known."""
    bottom, top = (float(np.log10(v)) for v in ax.get_ylim())
    places = _spread([e[0] for e in ends], (top - bottom) * least)
    for (_, text, colour, ours), at in zip(ends, places, strict=True):
        ax.text(low / 1.18, 10**at, text, color=colour, va="center", fontsize=size, fontweight="bold" if ours else "normal")


def _guides(ax: Any, high: float, low: float) -> None:
    """Two short grey lines in the upper left corner: what slopes -1 and -2 look like."""
    bottom, top = (float(np.log10(v)) for v in ax.get_ylim())
    x = np.array([high, high * (low / high) ** 0.3])
    for power in (1, 2):
        y = 10 ** (bottom + 0.72 * (top - bottom)) * (high / x) ** power
        ax.plot(x, y, color="#AAAAAA", linewidth=1.2, zorder=1)
        ax.annotate(
            f"1/ε{'²' if power == 2 else ''}", (x[1], y[1]), xytext=(3, 0), textcoords="offset points", fontsize=8.5,
            color="#888888", va="center",
        )  # fmt: skip


SUMMARY = {"pull": "Two clients that pull apart, made for each ε", "lad": "One fixed data set, d = {dim} (LAD)"}


def draw_summary(data: dict[str, Any]) -> Figure:
    """Rounds to epsilon on two instances: small enough for a page's width."""
    figure, axes = new_figure(9.2, 4.4, 1, len(SUMMARY), sharey=True)
    epsilons = np.asarray(data["epsilons"], dtype=float)
    names = []
    for ax, (instance, title) in zip(axes[0], SUMMARY.items(), strict=True):
        series = [s for s in data["series"] if s["instance"] == instance]
        names.append((ax, *_panel(ax, series, "rounds", epsilons)))
        ax.set_title(title.format(dim=data["lad"]["dim"]), fontsize=10, fontweight="bold")
        ax.set_xlabel("accuracy ε (smaller to the right)")
    axes[0, 0].set_ylabel("rounds to ε")
    low, high = axes[0, 0].get_ylim()
    axes[0, 0].set_ylim(max(low, 0.7), high * 2)
    for ax, end, ends in names:
        _names(ax, end, ends, 0.052, size=9)
        _guides(ax, float(epsilons.max()), float(epsilons.min()))
    headline(
        figure,
        "FedMLS needs 1/ε rounds on both; tuned subgradient steps h/√t need fewer",
        "number: fitted slope against ε (−1: 1/ε, −2: 1/ε²); steps tuned for each ε, but for ε/G²; dotted: enough by Theorem 1",
    )
    return figure


def draw(data: dict[str, Any]) -> Figure:
    """Rounds above, local steps of one client below; epsilon falls to the right."""
    figure, axes = new_figure(16.5, 8.8, 2, len(_TITLES), height_ratios=[1.75, 1])
    epsilons = np.asarray(data["epsilons"], dtype=float)
    names = []
    for i, (instance, (title, claim)) in enumerate(_TITLES.items()):
        series = [s for s in data["series"] if s["instance"] == instance]
        for row, key in enumerate(("rounds", "local_steps")):
            names.append((axes[row, i], *_panel(axes[row, i], series, key, epsilons)))
        axes[0, i].set_title(f"{title.format(dim=data['lad']['dim'])}\n{claim}", fontsize=10, fontweight="bold")
        axes[1, i].set_xlabel("accuracy ε (smaller to the right)")
    axes[0, 0].set_ylabel("rounds to ε")
    axes[1, 0].set_ylabel("local steps of one client to ε")
    for row, height in ((0, 2.0), (1, 3.0)):
        low, high = (pick(a.get_ylim()[end] for a in axes[row]) for end, pick in ((0, min), (1, max)))
        for a in axes[row]:
            a.set_ylim(max(low, 0.7), high * height)
    for ax, low, ends in names:
        _names(ax, low, ends, 0.043 if ax in axes[0] else 0.072)
    for ax in axes[0]:
        _guides(ax, float(epsilons.max()), float(epsilons.min()))
    headline(
        figure,
        "FedMLS needs 1/ε rounds on these four; tuned subgradient steps h/√t need fewer on the pull and on fixed data",
        "number behind a name: fitted slope against ε (−1: 1/ε, −2: 1/ε²); every step is tuned on a grid for each ε, except ε/G²; "
        "FedMLS: λ = ε/G² and the smallest K that reaches ε; dotted: K_min, enough by Theorem 1; FedProx solves exactly",
    )
    return figure
