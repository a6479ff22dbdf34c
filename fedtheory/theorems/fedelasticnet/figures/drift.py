"""Three smooth convex clients that the sign rule drives away from their optimum, and the true-gradient rule to it."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from fedtheory.plotting.style import LINESTYLES, RULE_COLOURS, RULE_NAMES, headline, page_figure
from fedtheory.theorems.fedelasticnet.dynamics.motion_instances import drift_of_three
from fedtheory.theorems.fedelasticnet.dynamics.motions import losses_of, motion

__all__ = ["caption", "compute", "draw"]

RATIOS = (3, 28)  # lambda_2/beta


def compute(rounds: int = 250) -> dict[str, Any]:
    """Exact runs under both rules, and the slopes of the three losses and of R; nothing is random."""
    losses, axis = losses_of(drift_of_three()["losses"]), np.linspace(0, 4, 81)
    points = np.array([[x] for x in axis.tolist()], dtype=object)
    slopes = losses.gradients(points)[:, :, 0].astype(float)
    runs = {}
    for rule in LINESTYLES:
        for ratio in RATIOS:
            view = motion(drift_of_three(ratio, rounds) | {"rule": rule})
            runs[f"{rule}, {ratio}"] = {"theta": view.theta[:, 0].astype(float), "excess": view.excess.astype(float)}
    return {"rounds": rounds, "axis": axis, "slopes": slopes, "runs": runs}


def _growth(data: dict[str, Any], name: str) -> float:
    """What R gains a round, over the second half of a run."""
    excess = np.asarray(data["runs"][name]["excess"])
    return float((excess[-1] - excess[len(excess) // 2]) / (len(excess) - 1 - len(excess) // 2))


def caption(data: dict[str, Any]) -> str:
    """The two rules' ends and the speed of the drift."""
    ends = {name: float(run["excess"][-1]) for name, run in data["runs"].items()}
    sign, true = (f"{rule}, {RATIOS[0]}" for rule in ("sign", "true-gradient"))
    return (
        f"Three smooth convex clients, all in every round. Under the sign rule R − R* grows by {_growth(data, sign):.3g} a round at "
        f"λ₂ = {RATIOS[0]} β, λ₁²/(4 λ₂), the largest growth there can be, and has reached {ends[sign]:.2g} after {data['rounds']} "
        f"rounds; a larger λ₂ slows the drift and does not end it. Under the true-gradient rule it ends at {ends[true]:.1g}. Exact."
    )


def draw(data: dict[str, Any]) -> Figure:
    """The slopes on the left; R(theta^t) - R* on the right."""
    figure, axes = page_figure(1, 2, ratio=0.75)
    left, right = axes[0]
    left.plot(data["axis"], data["slopes"][:, 0], color="0.55", label="the steep client")
    left.plot(data["axis"], data["slopes"][:, 1], color="0.55", linestyle="--", label="the two others")
    left.plot(data["axis"], data["slopes"].mean(axis=1), color="black", linewidth=2, label="R, their mean")
    left.axhspan(-1, 1, color="0.93", zorder=0)
    left.text(3.95, -0.95, "slopes within λ₁ = 1 of g = 0: no move", ha="right", va="bottom", fontsize=6.5)
    left.set(xlabel="θ", ylabel="slope", title="three smooth convex losses; R is least at 3/2")
    left.legend(loc="upper left", bbox_to_anchor=(0, 0.95))
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
        "Algorithm 3 from θ = 0, everyone in every round, λ₁ = β = 1; the growth λ₁²/(4 λ₂) a round is the largest there can be",
    )
    return figure
