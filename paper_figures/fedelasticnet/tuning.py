"""Algorithm 3's end and traffic over a grid of lambda_1, lambda_2 and the threshold epsilon."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

from fedtheory import algorithms
from fedtheory.errors import Diverged, LocalSolveFailed
from fedtheory.local import Exact
from fedtheory.plotting.experiment import Table, number
from fedtheory.plotting.style import headline, page_figure
from fedtheory.theorems.fedelasticnet.notation import Rule
from paper_figures.fedelasticnet.common import CLIENTS, COHORT, grid_of, measured, problem_of

__all__ = ["compute", "draw", "finding", "table"]

DATA, ALPHA = "breast cancer", 0.3
RULES: dict[Rule, str] = {"sign": "sign rule", "true-gradient": "true-gradient rule"}


def _cell(problem: Any, l1: float, l2: float, rule: Rule, epsilon: float, how: tuple[int, int, int]) -> dict[str, Any]:
    try:
        found = measured(problem, algorithms.FedElasticNetDyn(l1, l2, rule, epsilon), *how, solver=Exact())
    except (Diverged, LocalSolveFailed):
        found = {"suboptimality": float("inf"), "nonzeros": float("nan"), "bits": float("nan")}
    return {"rule": rule, "l1": l1, "l2": l2, "epsilon": epsilon, **found}


def compute(rounds: int = 25, grid: int = 4, scenarios: int = 1, seed: int = 0) -> dict[str, Any]:
    """Both rules over lambda_1 and lambda_2, and the sign rule over epsilon at the lambda_2 that ends lowest."""
    problem, how = problem_of(DATA, ALPHA, seed), (rounds, scenarios, seed)
    l1s, l2s = grid_of(1e-4, 0.1, grid), grid_of(0.02, 20.0, grid)
    cells = [_cell(problem, l1, l2, rule, 0.0, how) for rule in RULES for l1 in l1s for l2 in l2s]
    best = min((c for c in cells if c["rule"] == "sign"), key=lambda c: c["suboptimality"])
    epsilons = [0.0, *grid_of(1e-4, 1e-1, grid)]
    by_epsilon = [_cell(problem, best["l1"], best["l2"], "sign", e, how) for e in epsilons]
    start = float(problem.client_losses(np.zeros((1, problem.dim))).mean() - problem.optimum().value)
    return {
        "cells": cells, "l1": l1s, "l2": l2s, "by_epsilon": by_epsilon, "best": best, "rounds": rounds, "dim": problem.dim,
        "start": start, "beta": problem.constants().beta,
    }  # fmt: skip


def _grid(data: dict[str, Any], rule: str, what: str) -> np.ndarray:
    """(lambda_1, lambda_2)."""
    found = {(c["l1"], c["l2"]): c[what] for c in data["cells"] if c["rule"] == rule}
    return np.array([[found[a, b] for b in data["l2"]] for a in data["l1"]])


def table(data: dict[str, Any]) -> Table:
    rows = []
    for rule, name in RULES.items():
        ends, sent = _grid(data, rule, "suboptimality"), _grid(data, rule, "nonzeros")
        for i, l1 in enumerate(data["l1"]):
            cells = (f"{number(e)} ({n:.0f})" for e, n in zip(ends[i], sent[i], strict=True))
            rows.append((f"{name}, l1 = {l1:g}", *cells))
    for c in data["by_epsilon"]:
        at = data["l2"].index(c["l2"])
        blank = [""] * len(data["l2"])
        blank[at] = f"{number(c['suboptimality'])} ({c['nonzeros']:.0f})"
        rows.append((f"sign rule, l1 = {c['l1']:g}, epsilon = {c['epsilon']:g}", *blank))
    headings = ("F - F* (nonzeros a message)", *(f"l2 = {v:g}" for v in data["l2"]))
    about = f"{DATA}, d = {data['dim']}, after {data['rounds']} rounds; F - F* = {number(data['start'])} at the start"
    return Table(headings, rows, about)


def finding(data: dict[str, Any]) -> list[str]:
    out = []
    for rule, name in RULES.items():
        ends = _grid(data, rule, "suboptimality")
        i, j = np.unravel_index(np.argmin(ends), ends.shape)
        near = int((ends <= 10 * ends.min()).sum())
        out.append(
            f"{name}: best at lambda_1 = {data['l1'][i]:g}, lambda_2 = {data['l2'][j]:g} with {number(float(ends.min()))}; {near} of "
            f"{ends.size} choices are within a factor 10 of it, and the worst ends at {number(float(ends.max()))}."
        )
    sparse = [c for c in data["by_epsilon"] if c["suboptimality"] <= 2 * data["by_epsilon"][0]["suboptimality"]]
    most = max(sparse, key=lambda c: c["epsilon"])
    out.append(
        f"A threshold up to epsilon = {most['epsilon']:g} at most doubles F - F*, and sends {most['nonzeros']:.1f} instead of "
        f"{data['by_epsilon'][0]['nonzeros']:.1f} entries a message."
    )
    best, least = data["best"]["l2"], 27 * data["beta"]
    far = "far below it: the theorem does not help to choose it"
    below = far if best < least / 10 else "of its size" if best < 10 * least else "above it"
    return [*out, f"The theorem asks for lambda_2 > 27 beta = {least:.3g}; the best lambda_2 of the grid, {best:g}, is {below}."]


def draw(data: dict[str, Any]) -> Figure:
    """Heat maps of F - F* for both rules with the nonzeros written in, and both against epsilon."""
    figure, axes = page_figure(1, 3, ratio=1.1, more=0.3, width_ratios=(1, 1, 0.9))
    all_ends = np.concatenate([_grid(data, r, "suboptimality").ravel() for r in RULES])
    finite = all_ends[np.isfinite(all_ends)]
    norm = LogNorm(max(finite.min(), 1e-10), finite.max())
    for axis, (rule, name) in zip(axes[0], RULES.items(), strict=False):
        ends, sent = _grid(data, rule, "suboptimality"), _grid(data, rule, "nonzeros")
        shown = axis.imshow(np.where(np.isfinite(ends), ends, np.nan), origin="lower", cmap="viridis_r", norm=norm, aspect="auto")
        for (i, j), n in np.ndenumerate(sent):
            axis.text(j, i, f"{n:.0f}", ha="center", va="center", fontsize=6, color="white", bbox={"facecolor": "#00000055", "lw": 0})
        axis.set_xticks(range(len(data["l2"])), [f"{v:.2g}" for v in data["l2"]])
        axis.set_yticks(range(len(data["l1"])), [f"{v:.2g}" for v in data["l1"]])
        axis.set(xlabel="λ₂", ylabel="λ₁", title=name)
        axis.grid(visible=False)
    figure.colorbar(shown, ax=axes[0, :2], label="F − F*; the number: nonzeros a message", orientation="horizontal", aspect=40)
    last, curve = axes[0, 2], data["by_epsilon"]
    x = range(len(curve))
    last.plot(x, [c["suboptimality"] for c in curve], "o-", color="#000000", label="F − F*")
    last.set(yscale="log", xlabel="threshold ε", ylabel="F − F*", title=f"sign rule,\nλ₁ = {curve[0]['l1']:g}, λ₂ = {curve[0]['l2']:g}")
    last.set_xticks(x, [f"{c['epsilon']:.0e}".replace("e-0", "e-") if c["epsilon"] else "0" for c in curve], rotation=45)
    other = last.twinx()
    other.plot(x, [c["nonzeros"] for c in curve], "s--", color="#D55E00")
    other.set_ylabel("nonzeros a message", color="#D55E00")
    other.set_ylim(bottom=0)
    other.grid(visible=False)
    headline(
        figure, "λ₂ decides where it ends; under the sign rule a large λ₁ buys sparsity with a floor",
        f"Algorithm 3, exact local solves, {DATA}, Dirichlet({ALPHA:g}), m = {CLIENTS}, P = {COHORT}, T = {data['rounds']}",
    )
    return figure
