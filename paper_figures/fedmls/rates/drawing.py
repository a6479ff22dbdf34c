"""Rounds to epsilon on five instances, local steps on one; every line carries its slope."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from fedtheory.plotting.style import METHOD_COLOURS, headline, page_figure

__all__ = ["caption", "draw", "draw_summary"]

FEDMLS, BOUND = METHOD_COLOURS["fedmls"], "#000000"
_TITLES = {
    "pull": "Two clients that pull apart, made for each ε",
    "fixed-pull": "Two clients that pull apart, one problem",
    "chain": "Arjevani-Shamir chain, made for each ε",
    "split": "Split maximum and chain, made for each ε",
    "lad": "One data set, d = {dim} (LAD)",
}
_PLACES = {"split": "the split maximum", "chain": "the chain", "lad": "the data set"}
# label of a series, or of the best of a method's -> (what the figure calls it, colour, marker)
_LOOKS = {
    "FedMLS": ("FedMLS, λ = ε/G²", FEDMLS, "o"),
    "FedMLS, exact": ("FedMLS, exact, λ tuned", "#7B6FD0", "o"),
    "FedMLS, K_min": ("FedMLS, proved", FEDMLS, ""),
    "FedDyn, exact": ("FedDyn = ADMM, exact", METHOD_COLOURS["feddyn"], "D"),
    "FedProx": ("FedProx, exact", METHOD_COLOURS["fedprox"], "s"),
    "FedAvg": ("FedAvg", METHOD_COLOURS["fedavg"], "^"),
    "subgradient": ("subgradient", METHOD_COLOURS["subgradient"], "v"),
    "any method at all": ("any method", BOUND, ""),
    "one subgradient a round": ("one subgradient", "#999999", ""),
}
_CONSTANTS = {  # of the lower bounds, as `ArjevaniShamir` and `MaximumAndChain` derive them, for two clients
    ("chain", "any method at all"): " ≥ 1/(2√2 ε) − 2",
    ("split", "any method at all"): " ≥ 1/(4ε) − 2", ("split", "one subgradient a round"): " ≥ 1/(4ε²) − 1",
}  # fmt: skip
_FAINT = {name: METHOD_COLOURS[name.lower()] for name in ("FedProx", "FedAvg", "subgradient")}  # their schedules, one by one


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


def _shown(data: Mapping[str, Any], instance: str) -> list[Mapping[str, Any]]:
    """The series named in the figure: single ones, and the best of a method's schedules."""
    return [s for s in (*data["series"], *data["best"]) if s["instance"] == instance and s["label"] in _LOOKS]


def _schedules(ax: Any, data: Mapping[str, Any], instance: str) -> None:
    """Faint lines of every schedule, behind the best of a method."""
    for s in data["series"]:
        y = np.asarray(s["rounds"], dtype=float)
        if s["instance"] == instance and s["method"] in _FAINT and np.isfinite(y).any():
            ax.plot(s["epsilons"], np.where(np.isfinite(y), y, np.nan), color=_FAINT[s["method"]], linewidth=0.6, alpha=0.35, zorder=1)


def _panel(ax: Any, series: list[Mapping[str, Any]], key: str, epsilons: np.ndarray) -> tuple[float, list[Any]]:
    """Lines of one panel; their names and slopes stand at their right ends."""
    ends: list[tuple[float, str, str, bool]] = []
    low, high = float(epsilons.min()), float(epsilons.max())
    for s in series:
        x, y = np.asarray(s["epsilons"]), np.asarray(s[key], dtype=float)
        ok = np.isfinite(y) & (y > 0)
        if not ok.any():
            continue
        name, colour, marker = _LOOKS[s["label"]]
        ours = s["label"] == "FedMLS"
        style = ":" if s["role"] == "theory" else "--" if s["role"] == "lower bound" else "-"
        ax.plot(
            x[ok], y[ok], color=colour, linestyle=style, marker=marker,
            markersize=4 if ours else 2.5, linewidth=2.4 if ours else 1.2, zorder=5 if ours else 3,
        )
        if s["label"] == "any method at all":
            ax.fill_between(x[ok], y[ok], 0.3, color=BOUND, alpha=0.08, linewidth=0, zorder=0)
            ax.annotate("proved out of reach\nof any method", (low * 1.1, 1), ha="right", va="bottom", fontsize=6, color="#555555")
        last = int(np.flatnonzero(ok)[np.argmin(x[ok])])
        fit = s["fit" if key == "rounds" else "fit_local"]
        if s["role"] == "lower bound":
            name, fit = name + _CONSTANTS[s["instance"], s["label"]], None
        slope = "" if fit is None else f"  {fit['slope']:.2f} ± {(fit['high'] - fit['low']) / 2:.2f}".replace("-", "−")
        ends.append((float(np.log10(y[last])), name + slope, colour, ours))
    ax.set(xscale="log", yscale="log")
    ax.set_xlim(high * 1.12, low / (high / low) ** 1.4)  # room for the names
    ticks = 10.0 ** np.arange(np.ceil(np.log10(low) - 1e-9), np.floor(np.log10(high) + 1e-9) + 1)
    ax.set_xticks(ticks, [f"{t:g}" for t in ticks])
    ax.minorticks_off()
    return low, sorted(ends, key=lambda e: e[0])


def _names(ax: Any, low: float, ends: list[tuple[float, str, str, bool]], least: float, size: float = 6.2) -> None:
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
            f"1/ε{'²' if power == 2 else ''}", (x[1], y[1]), xytext=(2, 0),
            textcoords="offset points", fontsize=6.5, color="#888888", va="center",
        )


def caption(data: Mapping[str, Any]) -> str:
    """Say who is ahead where, and by what rule everything was tuned."""
    ours = [s for s in data["series"] if s["label"] == "FedMLS" and s["fit"] is not None]
    names = {name: title.format(dim=data["lad"]["dim"]) for name, title in _TITLES.items()}
    slopes = ", ".join(f"{s['fit']['slope']:.2f} ({names.get(s['instance'], s['instance'])})" for s in ours)
    return (
        f"Rounds until F(x) − F⋆ ≤ ε. {_claim(data, tuple(_TITLES), _PLACES)}. Fitted slopes of FedMLS with the λ of Theorem 2: "
        f"{slopes}; −1 is 1/ε, −2 is 1/ε². Every method but that one is tuned by one rule, the same grid for each; what no method "
        "can undercut is shaded where it is proved. Deterministic: nothing is sampled but the data."
    )


SUMMARY = {"split": "Made for each ε, so that it needs several clients", "lad": "One fixed data set, d = {dim} (LAD)"}
_NOTE = "number: fitted slope against ε with its 95 % interval (−1: 1/ε, −2: 1/ε²); ahead: at the smallest ε; dotted: proved enough"


def _ahead(data: Mapping[str, Any], instances: Sequence[str], others: Sequence[str]) -> list[str]:
    """The instances on which FedMLS, exact and tuned, is ahead of all of these at the smallest
    epsilon at which both were measured."""
    found = {(c["instance"], c["other"]): c["ahead_at_smallest"] for c in data["crossovers"] if c["ours"] == "FedMLS, exact"}
    return [i for i in instances if all(found.get((i, o)) == "FedMLS, exact" for o in others)]


def _claim(data: Mapping[str, Any], instances: Sequence[str], names: Mapping[str, str]) -> str:
    won, dyn = _ahead(data, instances, tuple(_FAINT)), _ahead(data, instances, ("FedDyn, exact",))
    places = " and ".join(names.get(i, i) for i in won)
    ours = "Tuned FedMLS is nowhere ahead of all"
    if won:
        ours = f"Tuned FedMLS is ahead of FedAvg, FedProx and subgradients on {places} only"
    if len(won) == len(instances):
        ours = ours.removesuffix(" only")
    return f"{ours}, of FedDyn on {'none' if not dyn else ' and '.join(names.get(i, i) for i in dyn)}"


def draw_summary(data: dict[str, Any]) -> Figure:
    """Rounds to epsilon on two instances: small enough for a page's width."""
    figure, axes = page_figure(1, len(SUMMARY), ratio=0.85, sharey=True)
    epsilons = np.asarray(data["epsilons"], dtype=float)
    names = []
    for ax, (instance, title) in zip(axes[0], SUMMARY.items(), strict=True):
        names.append((ax, *_panel(ax, _shown(data, instance), "rounds", epsilons)))
        ax.set_title(title.format(dim=data["lad"]["dim"]), fontweight="bold")
        ax.set_xlabel("accuracy ε (smaller to the right)")
    axes[0, 0].set_ylabel("rounds to ε")
    low, high = axes[0, 0].get_ylim()
    axes[0, 0].set_ylim(max(low, 0.7), high * 2)
    for ax, end, ends in names:
        _names(ax, end, ends, 0.056, size=6.5)
    headline(figure, _claim(data, tuple(SUMMARY), {"split": "the left", "lad": "the right"}), _NOTE)
    return figure


def draw(data: dict[str, Any]) -> Figure:
    """Rounds to epsilon on five instances, and local steps on the split maximum; epsilon falls to the right."""
    figure, axes = page_figure(3, 2, ratio=0.8)
    epsilons = np.asarray(data["epsilons"], dtype=float)
    panels, names = list(zip(axes.ravel(), _TITLES.items(), strict=False)), []
    for ax, (instance, title) in panels:
        _schedules(ax, data, instance)
        names.append((ax, *_panel(ax, _shown(data, instance), "rounds", epsilons)))
        ax.set_title(title.format(dim=data["lad"]["dim"]), fontweight="bold")
        ax.set_ylabel("rounds to ε")
    low, high = (pick(ax.get_ylim()[end] for ax, _ in panels) for end, pick in ((0, min), (1, max)))
    for ax, _ in panels:
        ax.set_ylim(max(low, 0.7), high * 2)
        ax.set_xlabel("accuracy ε (smaller to the right)")
        _guides(ax, float(epsilons.max()), float(epsilons.min()))
    last = axes.ravel()[-1]
    names.append((last, *_panel(last, _shown(data, "split"), "local_steps", epsilons)))
    last.set_title("Its cost: local steps, split maximum", fontweight="bold")
    last.set(ylabel="local steps of one client to ε", xlabel="accuracy ε (smaller to the right)")
    for ax, end, ends in names:
        _names(ax, end, ends, 0.055)
    headline(
        figure, _claim(data, tuple(_TITLES), _PLACES),
        f"{_NOTE}; all but λ = ε/G² tuned on one grid; faint: every schedule by itself; exact: "
        "local problems solved exactly",
    )
    return figure
