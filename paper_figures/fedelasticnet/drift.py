"""One smooth convex client that the sign rule drives away from its optimum, and the true-gradient rule to it."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from fedtheory.plotting.style import headline, page_figure
from fedtheory.theorems.fedelasticnet.dynamics.losses import rows_of
from fedtheory.theorems.fedelasticnet.dynamics.motions import Motion, drift_of_one
from fedtheory.theory.rounds.losses import PieceTable
from paper_figures.fedelasticnet.common import LINESTYLES, RULE_COLOURS, RULE_NAMES

__all__ = ["caption", "compute", "draw"]

RATIOS = (3, 28)  # lambda_2/beta


def compute(rounds: int = 250) -> dict[str, Any]:
    """Exact runs under both rules, the client's slope, and what it has stored in the end; nothing is random."""
    table = PieceTable(rows_of("losses", drift_of_one()["losses"]))
    axis = np.linspace(-2, 5 / 2, 91)
    points = np.array([[[x]] for x in axis.tolist()], dtype=object)
    slope = table.gradient(points)[:, 0, 0].astype(float)
    runs, kept = {}, []
    for rule in LINESTYLES:
        for ratio in RATIOS:
            view = Motion.from_data(drift_of_one(ratio, rounds) | {"rule": rule})
            runs[f"{rule}, {ratio}"] = {"theta": view.theta[:, 0].astype(float), "excess": view.excess.astype(float)}
            if rule == "sign":
                kept.append([float(view.stored[t, 0, 0]) for t in (1, -1)])
    return {"rounds": rounds, "axis": axis, "slope": slope, "runs": runs, "kept": kept[0]}


def _growth(data: dict[str, Any], name: str) -> float:
    """The gain of R a round, over the second half of a run."""
    excess = np.asarray(data["runs"][name]["excess"])
    return float((excess[-1] - excess[len(excess) // 2]) / (len(excess) - 1 - len(excess) // 2))


def caption(data: dict[str, Any]) -> str:
    """The two rules' ends and the speed of the drift."""
    sign = f"sign, {RATIOS[0]}"
    return (
        f"One smooth convex client, in every round. Under the sign rule R − R* grows by {_growth(data, sign):.3g} a round at "
        f"λ₂ = {RATIOS[0]} β, where λ₁²/(4 λ₂) is the largest growth there can be, and has reached "
        f"{data['runs'][sign]['excess'][-1]:.2g} after {data['rounds']} rounds; a larger λ₂ slows the drift and does not end it. "
        "Under the true-gradient rule it tends to 0. Exact."
    )


def draw(data: dict[str, Any]) -> Figure:
    """The slope on the left; R(theta^t) - R* on the right."""
    figure, axes = page_figure(1, 2, ratio=0.75)
    left, right = axes[0]
    left.plot(data["axis"], data["slope"], color="black", linewidth=2, label="the client's slope, and R's")
    for stored, grey in zip(data["kept"], ("0.9", "0.75"), strict=True):
        left.axhspan(stored - 1, stored + 1, color=grey, alpha=0.6, zorder=0, label=f"no move with {stored:.3g} stored")
    left.set(xlabel="θ", ylabel="slope", title="one smooth convex loss; R is least at 0", ylim=(-1, 4))
    left.legend(loc="upper left")
    for name, run in data["runs"].items():
        rule, _, ratio = name.partition(", ")
        width = 2.2 if ratio == str(RATIOS[-1]) else 1.1
        label = f"{RULE_NAMES[rule]}, λ₂ = {ratio} β"
        right.plot(run["excess"], color=RULE_COLOURS[rule], linestyle=LINESTYLES[rule], linewidth=width, label=label)
    top = max(float(run["excess"].max()) for run in data["runs"].values())
    right.set(xlabel="rounds", ylabel=r"$R(\theta^t)-R_*$", title="a larger λ₂ only slows the drift", ylim=(-0.02 * top, 1.05 * top))
    right.legend(loc="upper left")
    headline(
        figure,
        "Under the sign rule R may grow for ever; with the exact subgradient it goes down",
        "Algorithm 3 from θ = 2, one client, λ₁ = β = 1; by λ₁²/(4 λ₂) a round R can grow at most",
    )
    return figure
