"""Strengths of heterogeneity: methods that correct drift, and FedElasticNet, each at its best over a small grid."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from fedtheory import algorithms
from fedtheory.plotting.experiment import Table, number
from fedtheory.plotting.style import METHOD_COLOURS, headline, page_figure
from paper_figures.fedelasticnet.common import (
    CLIENTS,
    COHORT,
    DATA,
    RIDGE,
    RULE_COLOURS,
    best_of,
    grid_of,
    measured,
    problem_of,
    steps_of,
)

__all__ = ["ALPHAS", "METHODS", "compute", "draw", "finding", "table"]

ALPHAS: tuple[float | None, ...] = (0.03, 0.3, None)
L1 = 1e-3
# Label -> (method of lambda_2, whether there is one to choose, colour, line style)
METHODS: dict[str, tuple[Callable[[float], Any], bool, str, str]] = {
    "FedAvg": (lambda v: algorithms.FedAvg("cohort"), False, METHOD_COLOURS["fedavg"], "-"),
    "FedProx": (lambda v: algorithms.FedProx(v), True, METHOD_COLOURS["fedprox"], "--"),
    "SCAFFOLD": (lambda v: algorithms.Scaffold(), False, METHOD_COLOURS["scaffold"], "--"),
    "FedDyn": (lambda v: algorithms.FedDyn(v), True, METHOD_COLOURS["feddyn"], "--"),
    "Algorithm 1": (lambda v: algorithms.FedElasticNetProx(L1, v, "cohort"), True, METHOD_COLOURS["algorithm-1"], "-"),
    "Algorithm 2": (lambda v: algorithms.FedElasticNetScaffold(L1, v), True, METHOD_COLOURS["algorithm-2"], "-"),
    "Algorithm 3, sign rule": (lambda v: algorithms.FedElasticNetDyn(L1, v), True, RULE_COLOURS["sign"], "-"),
    "Algorithm 3, true gradient": (
        lambda v: algorithms.FedElasticNetDyn(L1, v, "true-gradient"), True, RULE_COLOURS["true-gradient"], "-",
    ),
}


def compute(
    rounds: int = 40, scenarios: int = 1, grid: int = 2, seed: int = 0, sets: int = 1, steps: tuple[int, ...] = (5, 40)
) -> dict[str, Any]:  # fmt: skip
    """Suboptimality after the last round at the best lambda_2 of the grid, for data sets, local steps, alpha and method."""
    values = grid_of(0.03, 0.3, grid)
    panels = [(name, E) for name in list(DATA)[:sets] for E in steps]
    cells = []
    for name, E in panels:
        for alpha in ALPHAS:
            problem = problem_of(name, alpha, seed)
            solver = steps_of(problem, E)
            for method, (make, chosen, _, _) in METHODS.items():

                def run(v: float, make: Any = make, problem: Any = problem, solver: Any = solver) -> dict[str, float]:
                    return measured(problem, make(v), rounds, scenarios, seed, solver)

                found = best_of(run, values if chosen else values[:1])
                cells.append({"data": name, "E": E, "alpha": alpha, "method": method, **found})
    return {"cells": cells, "panels": panels, "rounds": rounds, "scenarios": scenarios, "values": values, "lambda1": L1}


def _word(alpha: float | None) -> str:
    return "iid" if alpha is None else f"{alpha:g}"


def _of(data: dict[str, Any], panel: tuple[str, int], method: str) -> list[dict[str, Any]]:
    return [c for c in data["cells"] if (c["data"], c["E"], c["method"]) == (*panel, method)]


def table(data: dict[str, Any]) -> Table:
    rows = []
    for panel in data["panels"]:
        for method in METHODS:
            found = _of(data, panel, method)
            bits = f"{found[0]['bits'] / data['rounds'] / 1e3:.0f}"
            rows.append((f"{panel[0]}, E = {panel[1]}: {method}", *(number(c["suboptimality"]) for c in found), bits))
    headings = ("data, local steps: method", *(f"Dir({_word(a)})" if a else "iid" for a in ALPHAS), "kbit a round")
    return Table(headings, rows, f"F - F* after {data['rounds']} rounds, at the best lambda_2 of {data['values']}; lambda_1 = {L1:g}")


def finding(data: dict[str, Any]) -> list[str]:
    out = []
    rivals = [m for m in METHODS if m.startswith("Algorithm")]
    for panel in data["panels"]:
        own = {c["alpha"]: c["suboptimality"] for c in _of(data, panel, "SCAFFOLD")}
        behind = {m: [c["alpha"] for c in _of(data, panel, m) if own[c["alpha"]] < c["suboptimality"]] for m in rivals}
        words = [f"{m} at {'every alpha' if len(at) == len(ALPHAS) else ', '.join(map(_word, at))}" for m, at in behind.items() if at]
        out.append(f"{panel[0]}, E = {panel[1]}: SCAFFOLD ends lower than {'; '.join(words) if words else 'none of the Algorithms'}.")
    bits = {c["method"]: c["bits"] for c in data["cells"]}
    twice = [m for m in METHODS if bits[m] > 1.5 * bits["FedAvg"]]
    out.append(f"Two messages a client and round are sent by {', '.join(twice)}; one by the others.")
    return out


def draw(data: dict[str, Any]) -> Figure:
    """One panel a data set and number of local steps: suboptimality against alpha."""
    figure, axes = page_figure(1, len(data["panels"]), ratio=0.8, more=0.5, sharey=True)
    x = np.arange(len(ALPHAS))
    for axis, panel in zip(axes[0], data["panels"], strict=True):
        for method, (_, _, colour, style) in METHODS.items():
            y = [c["suboptimality"] for c in _of(data, panel, method)]
            axis.plot(x, np.maximum(y, 1e-12), style, color=colour, marker="o", markersize=3.5, label=method)
        axis.set(yscale="log", title=f"{panel[0]}, E = {panel[1]} local steps", xlabel="α of the labels: clients alike →")
        axis.set_xticks(x, [_word(a) for a in ALPHAS])
        axis.minorticks_off()
    axes[0, 0].set_ylabel(rf"$F(\theta_T)-F_*$, T = {data['rounds']}")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, handlelength=2.4)
    headline(
        figure, "Local work and how unlike clients are both decide between SCAFFOLD and FedElasticNet",
        f"logistic loss, ridge {RIDGE:g}, m = {CLIENTS}, P = {COHORT}, gradient steps for all; λ₁ = {L1:g}, λ₂ the best of "
        f"{len(data['values'])}",
    )
    return figure
