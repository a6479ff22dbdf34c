"""Three smooth convex clients that the sign rule drives away from their optimum, and the true-gradient rule to it."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from fedtheory.plotting.style import COLOURS, LINESTYLES, RULE_NAMES, headline, new_figure
from fedtheory.theorems.fedelasticnet.dynamics.motion_instances import drift_of_three
from fedtheory.theorems.fedelasticnet.dynamics.motions import losses_of, motion

__all__ = ["compute", "draw"]

RATIOS = (3, 28)  # lambda_2/beta
OF_RULE = {"sign": "printed", "true-gradient": "repaired"}  # line 5 as it is printed, or with the exact subgradient


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


def draw(data: dict[str, Any]) -> Figure:
    """The slopes on the left; R(theta^t) - R* on the right."""
    figure, axes = new_figure(11.5, 4.4, 1, 2)
    left, right = axes[0]
    grey = {"color": "0.55", "linewidth": 1.6}
    left.plot(data["axis"], data["slopes"][:, 0], **grey, label="the steep client")
    left.plot(data["axis"], data["slopes"][:, 1], **grey, linestyle="--", label="the two others")
    left.plot(data["axis"], data["slopes"].mean(axis=1), color="black", linewidth=2.2, label="R, their mean")
    left.axhspan(-1, 1, color="0.93", zorder=0)
    left.text(3.95, -0.95, "slopes within λ₁ = 1 of g = 0: no move", ha="right", va="bottom", fontsize=8)
    left.set(xlabel="θ", ylabel="slope", title="three smooth convex losses; R is least at 3/2")
    left.legend(loc="upper left", bbox_to_anchor=(0, 0.95), fontsize=8)
    for name, run in data["runs"].items():
        rule, _, ratio = name.partition(", ")
        width = 2.4 if ratio == str(RATIOS[-1]) else 1.3
        label = f"{RULE_NAMES[rule]}, λ₂ = {ratio} β"
        right.plot(run["excess"], color=COLOURS[OF_RULE[rule]], linestyle=LINESTYLES[rule], linewidth=width, label=label)
    right.set(xlabel="rounds", ylabel=r"$R(\theta^t)-R_*$", title="a larger λ₂ only slows the drift")
    right.set_ylim(-0.1, 4)
    right.legend(fontsize=8)
    headline(
        figure,
        "Under the sign rule R may grow for ever; with the exact subgradient it goes down",
        "Algorithm 3 from θ = 0, everyone in every round, λ₁ = β = 1; the growth λ₁²/(4 λ₂) a round is the largest there can be",
    )
    return figure
