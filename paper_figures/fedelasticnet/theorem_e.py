"""The allowed lambda_2: the theorems' thresholds, and the least at which the potential can fall."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from fedtheory.errors import NotCertified
from fedtheory.plotting.style import COLOURS, GREY, headline, legend_below, page_figure
from fedtheory.theorems.fedelasticnet.notation import (
    PRINTED_THRESHOLD,
    REPAIRED_THRESHOLD,
    THEOREM_A_THRESHOLD,
    THEOREM_B_THRESHOLD,
    THEOREM_E_THRESHOLD,
)
from fedtheory.theorems.fedelasticnet.quantities import ElasticConstants
from fedtheory.theorems.fedelasticnet.worst_runs import best_kappas
from paper_figures.fedelasticnet.common import LINESTYLES

__all__ = ["THRESHOLDS", "caption", "compute", "draw", "least_ratio"]

CLIENTS = 20
REPAIRED = "Theorem 3.1 as repaired"
# Name -> (least lambda_2/beta, which of `ElasticConstants`, colour, rule)
THRESHOLDS = {
    "Theorem 3.1 as printed": (PRINTED_THRESHOLD, "printed", COLOURS["printed"], "true-gradient"),
    REPAIRED: (REPAIRED_THRESHOLD, "printed", COLOURS["repaired"], "true-gradient"),
    "Theorem B (sign rule)": (THEOREM_B_THRESHOLD, "theorem_b", COLOURS["theorem B"], "sign"),
    "Theorem A": (THEOREM_A_THRESHOLD, "theorem_a", COLOURS["theorem A"], "true-gradient"),
    "Theorem E": (THEOREM_E_THRESHOLD, "theorem_e", COLOURS["theorem E"], "true-gradient"),
}
_LARGEST = 200.0


def _found(ratio: Fraction, participants: int) -> Fraction | None:
    """kappa_0 of the best potential with the l1 term, proved in fractions; None where nothing could be proved."""
    try:
        return best_kappas(ratio, CLIENTS, participants, l1=True)[0]
    except NotCertified:
        return None


def least_ratio(participants: int, halvings: int) -> tuple[Fraction, Fraction]:
    """Two ratios lambda_2/beta: at the first no kappa_0 > 0 is found, at the second one is proved."""
    low, high = Fraction(1), Fraction(math.ceil(100 * THEOREM_E_THRESHOLD), 100)
    if _found(low, participants) is not None or _found(high, participants) is None:
        raise NotCertified(f"P = {participants} of {CLIENTS}: the least lambda_2/beta is not between {low} and {high}")
    for _ in range(halvings):
        middle = (low + high) / 2
        low, high = (low, middle) if _found(middle, participants) is not None else (middle, high)
    return low, high


def _kappa_0(name: str, ratio: float) -> float:
    """Of a theorem at lambda_2/beta, for beta = 1; NaN below its threshold."""
    least, which, _, _ = THRESHOLDS[name]
    constants = ElasticConstants(CLIENTS, 1, 1.0, 0.0, ratio)
    chosen = getattr(constants, which)
    return chosen[2] if ratio > least else float("nan")


def compute(participants: Sequence[int] = (1, 5, 20), halvings: int = 5, ratios: int = 8) -> dict[str, Any]:
    """Thresholds, the brackets of the least lambda_2/beta by participants, and kappa_0 of all theorems and at best.

    best[P] has kappa_0 proved in fractions at the ratios of ``best_at``, which begin above Theorem E's threshold.
    """
    brackets = {P: least_ratio(P, halvings) for P in participants}
    beyond = np.geomspace(1.001 * THEOREM_E_THRESHOLD, _LARGEST, ratios)
    best_at = [Fraction(float(x)).limit_denominator(1000) for x in beyond]
    best = {P: [_found(x, P) for x in best_at] for P in (participants[0], participants[-1])}
    grid = np.geomspace(1, _LARGEST, 400)
    return {
        "clients": CLIENTS,
        "thresholds": {name: row[0] for name, row in THRESHOLDS.items()},
        "brackets": {P: [float(x) for x in ends] for P, ends in brackets.items()},
        "grid": grid,
        "kappa_0": {name: np.array([_kappa_0(name, x) for x in grid]) for name in THRESHOLDS},
        "best_at": [float(x) for x in best_at],
        "best": {P: [float("nan") if kappa_0 is None else float(kappa_0) for kappa_0 in found] for P, found in best.items()},
    }


def _bracket(data: dict[str, Any]) -> tuple[float, float]:
    """(largest ratio up to which no potential is found, smallest from which on one is), whatever the participants."""
    ends = data["brackets"].values()
    return min(float(e[0]) for e in ends), max(float(e[1]) for e in ends)


def caption(data: dict[str, Any]) -> str:
    """The thresholds, and the least lambda_2 of all."""
    none, lowest = _bracket(data)
    said = ", ".join(f"{name} {float(least):.5g}" for name, least in data["thresholds"].items())
    return (
        f"The least λ₂/β that each theorem asks for: {said}. With the ℓ₁ term a potential of this kind is found, and proved in "
        f"fractions, from {lowest:.5g} on, and none is found at {none:.5g}, for {min(data['brackets'])} to {max(data['brackets'])} of "
        f"{data['clients']} clients. Without the ℓ₁ term every λ₂ > 0 will do. On the right: κ₀ of each theorem, and the largest "
        "κ₀ that a potential of this kind can have. Storing the true gradient sends a dense vector."
    )


def _thresholds(ax: Any, data: dict[str, Any]) -> None:
    m = data["clients"]
    none, lowest = _bracket(data)
    both = f"Theorem 3.1: printed {PRINTED_THRESHOLD:.5g}, repaired {REPAIRED_THRESHOLD:.5g}"  # too close for labels of their own
    labels = {name: f"{name}: {row[0]:.5g}" for name, row in THRESHOLDS.items()} | {"Theorem 3.1 as printed": both, REPAIRED: ""}
    for name, (least, _, colour, rule) in THRESHOLDS.items():
        ax.axhline(least, color=colour, linestyle=LINESTYLES[rule])
        below = rule == "sign"  # where there is room
        ax.annotate(
            labels[name], (0.015, least), xycoords=("axes fraction", "data"), xytext=(0, -2 if below else 2),
            textcoords="offset points", va="top" if below else "bottom", fontsize=6.5, color=colour, fontweight="bold",
        )  # fmt: skip
    for P, (low, high) in data["brackets"].items():
        ax.plot([P / m, P / m], [low, high], color="black", linewidth=1)
        ax.plot(P / m, high, marker=6, color="black", markersize=6, clip_on=False, zorder=4)  # the tip at the number
    ax.annotate(
        f"a potential is found, and proved,\nfrom {lowest:.5g} on (▲), none at {none:.5g}",
        (0.015, none), xycoords=("axes fraction", "data"), xytext=(0, -9), textcoords="offset points", va="top", fontsize=6.5,
    )  # fmt: skip
    ax.axhspan(0.01, none, color="#EEEEEE", zorder=0)
    feddyn = "FedDyn, without the ℓ₁ term: every λ₂ > 0"
    ax.annotate(feddyn, (0.015, 0.03), xycoords="axes fraction", fontsize=6.5, color=GREY, fontweight="bold")
    ax.set(yscale="log", ylim=(0.3, 60), xlim=(0, 1.02), xlabel=f"participants P/m (m = {m})", ylabel=r"least $\lambda_2/\beta$")
    ax.set_yticks([0.3, 1, 3, 10, 30], ["0.3", "1", "3", "10", "30"])
    ax.minorticks_off()
    ax.set_title("no threshold depends on how many take part")


def draw(data: dict[str, Any]) -> Figure:
    """Left: thresholds against P/m. Right: kappa_0 against lambda_2/beta."""
    figure, axes = page_figure(1, 2, ratio=0.95, more=0.35)
    left, right = axes[0]
    _thresholds(left, data)
    for name, (_, _, colour, rule) in THRESHOLDS.items():
        if name != "Theorem 3.1 as printed":  # its kappa_0 is the repaired one's
            right.plot(data["grid"], data["kappa_0"][name], color=colour, linestyle=LINESTYLES[rule], label=name)
    for (P, values), marker in zip(data["best"].items(), ("o", "s"), strict=False):
        right.plot(
            data["best_at"], values, color="black", marker=marker, markersize=5 - (marker == "o"), markerfacecolor="none",
            linestyle="none", label=f"best possible, P = {P}", zorder=4,
        )  # fmt: skip
    right.set(xscale="log", yscale="log", xlabel=r"$\lambda_2/\beta$", ylabel=r"$\kappa_0\beta$: the larger, the faster")
    right.set_ylim(1e-3, 1.5)
    right.set_xticks([1, 3, 10, 30, 100], ["1", "3", "10", "30", "100"])
    right.minorticks_off()
    legend_below(figure, (right,), 3)
    right.set_title(r"what it costs: $\kappa_0$, and the largest there is")
    headline(
        figure,
        f"With the true gradient stored, which sends a dense vector, the bound holds from λ₂ = "
        f"{THEOREM_E_THRESHOLD:.4g} β on, however many take part; the paper asks for {PRINTED_THRESHOLD:g} β",
        "all convex β-smooth losses; best possible: semidefinite programme, each point proved in fractions; "
        "the bound after T rounds: V₀/(κ₀ T) and the term with s",
    )
    return figure
