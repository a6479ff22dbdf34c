"""The sign rule and the true-gradient rule: where runs end, what stalls, and what small lambda_2/beta does."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from fedtheory.algorithms.fedelasticnet_dyn import FedElasticNetDyn
from fedtheory.participation.cohorts import Full
from fedtheory.plotting.style import GREY, METHOD_COLOURS, headline, page_figure
from fedtheory.problems import Quadratic
from fedtheory.problems.base import Problem
from fedtheory.simulation.simulate import simulate
from fedtheory.theorems.fedelasticnet.notation import RULES, Rule
from paper_figures.fedelasticnet.common import RULE_COLOURS, RULE_NAMES

__all__ = ["against_l1", "caption", "compute", "draw", "plane_problem", "rest_set", "start_set"]

_HALF = 1.8  # the maps show [-1.8, 1.8]^2
_LAMBDA1 = 0.5
_MAP_RATIO = 30.0
_LINE_RATIO = 10.0


def plane_problem() -> Problem:
    """Three quadratics in the plane with different Hessians and minimisers."""
    hessians = [[[1.0, 0.3], [0.3, 0.5]], [[0.6, -0.2], [-0.2, 1.0]], [[0.9, 0.1], [0.1, 0.7]]]
    return Quadratic(hessians, [[0.25, -0.1], [-0.1, 0.2], [-0.15, -0.1]])


def rest_set(problem: Problem, x: np.ndarray) -> np.ndarray:
    """max_i |dR/dtheta_i| <= lambda_1: where the sign rule can rest for some stored gradients with h = 0. (..., d) -> (...)."""
    return np.abs(problem.full_gradient(x)).max(axis=-1) / _LAMBDA1


def start_set(problem: Problem, x: np.ndarray) -> np.ndarray:
    """max_{k,i} |dL_k/dtheta_i| <= lambda_1: starts (g_k = 0) that no client leaves. (..., d) -> (...)."""
    return np.abs(problem.gradient(x)).max(axis=(-1, -2)) / _LAMBDA1


def _map(rule: Rule, grid: int, rounds: int) -> dict[str, Any]:
    problem = plane_problem()
    axis = np.linspace(-_HALF, _HALF, grid)
    starts = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    algorithm = FedElasticNetDyn(_LAMBDA1, _MAP_RATIO * problem.constants().beta, rule)
    run = simulate(problem, algorithm, rounds, starts, Full(), len(starts), keep_states=True, record=("suboptimality",))
    models = run.server_models()
    middle = grid // 2
    sides = [middle, grid * middle, grid * middle + grid - 1, grid * (grid - 1) + middle]
    return {
        "starts": starts,
        "ends": models[-1],
        "paths": models[:, sides],
        "moved": np.abs(models - models[0]).max(axis=(0, 2)),
        "wander": np.ptp(models[-rounds // 10 :], axis=0).max(axis=-1),
        "suboptimality": run.metrics["suboptimality"][-1],
    }


def against_l1(values: np.ndarray, rounds: int) -> dict[str, Any]:
    """One dimension, two clients: farthest and median end over many starts."""
    problem = Quadratic([[[1.0]], [[0.5]]], [[0.4], [-0.8]])  # theta* = 0
    starts = np.linspace(-3, 3, 25)[:, None]
    out: dict[str, Any] = {"lambda1": values, "ceiling": values / problem.constants().beta_joint}
    for rule in RULES:
        ends = []
        for l1 in values:
            algorithm = FedElasticNetDyn(float(l1), _LINE_RATIO, rule)
            run = simulate(problem, algorithm, rounds // 2, starts, Full(), len(starts), record=("distance",))
            ends.append(run.metrics["distance"][-1])
        out[rule] = np.stack(ends)
    return out


def _against_ratio(ratios: np.ndarray) -> dict[str, Any]:
    """Worst suboptimality of the last quarter of a run, over starts: does it settle, wander, or run away?"""
    problem = plane_problem()
    beta = problem.constants().beta
    angles = np.linspace(0, 2 * np.pi, 8, endpoint=False)
    starts = 2 * np.stack([np.cos(angles), np.sin(angles)], axis=-1)
    out: dict[str, Any] = {"ratios": ratios, "rounds": []}
    runs: dict[str, tuple[Rule, float]]
    runs = {"sign": ("sign", _LAMBDA1), "true-gradient": ("true-gradient", _LAMBDA1), "feddyn": ("sign", 0.0)}
    for name, (rule, l1) in runs.items():
        worst = []
        for ratio in ratios:
            rounds = int(100 + 25 * ratio)
            algorithm = FedElasticNetDyn(l1, float(ratio) * beta, rule)
            run = simulate(problem, algorithm, rounds, starts, Full(), len(starts), record=("suboptimality",))
            worst.append(run.metrics["suboptimality"][-rounds // 4 :].max())
            if name == "sign":
                out["rounds"].append(rounds)
        out[name] = np.array(worst)
    return out


def compute(grid: int = 15, rounds: int = 400, l1_values: int = 6, ratios: int = 9) -> dict[str, Any]:
    """Data of the four panels; full participation, so nothing is random."""
    return {
        "lambda1": _LAMBDA1,
        "ratio": _MAP_RATIO,
        "rounds": rounds,
        "map": {rule: _map(rule, grid, rounds) for rule in RULES},
        "against_l1": against_l1(np.geomspace(0.03, 1.0, l1_values), rounds),
        "against_ratio": _against_ratio(np.geomspace(0.05, 10, ratios)),
    }


def _draw_map(ax: Any, data: dict[str, Any], rule: str) -> None:
    problem, m = plane_problem(), data["map"][rule]
    axis = np.linspace(-_HALF, _HALF, 161)
    points = np.stack(np.meshgrid(axis, axis), axis=-1)
    rest, start = rest_set(problem, points), start_set(problem, points)
    ax.grid(False)
    if rule == "sign":
        ax.contourf(axis, axis, rest, levels=[0, 1], colors=["#000000"], alpha=0.07)
        ax.contourf(axis, axis, start, levels=[0, 1], colors=["#000000"], alpha=0.14)
    ax.contour(axis, axis, rest, levels=[1], colors=[GREY], linewidths=0.8)
    ax.plot(*m["starts"].T, ".", color="#BBBBBB", markersize=2, label="starts")
    for n, path in enumerate(np.moveaxis(m["paths"], 1, 0)):
        ax.plot(*path.T, color=RULE_COLOURS[rule], linewidth=0.8, label="four of the runs" if n == 0 else None)
    label = f"after {data['rounds']} rounds"
    ax.plot(*m["ends"].T, "o", color=RULE_COLOURS[rule], markersize=2.8, markeredgewidth=0, label=label)
    ax.plot(*problem.optimum().x, "*", color="black", markersize=9, markeredgecolor="white", markeredgewidth=0.6, label=r"$\theta_*$")
    ax.set(xlim=(-_HALF, _HALF), ylim=(-_HALF, _HALF), aspect="equal", xlabel=r"$\theta_1$", ylabel=r"$\theta_2$")
    legend = ax.legend(loc="upper right", framealpha=0.9, frameon=True, edgecolor="none", fontsize=6.5)
    legend.legend_handles[0].set_markersize(5)  # a start's own dot is too small to be seen here


def _counts(data: dict[str, Any]) -> tuple[int, int, int, float]:
    """(starts, that never move, that still wander at the end: sign rule; the farthest end of the true-gradient rule)."""
    sign, true = data["map"]["sign"], data["map"]["true-gradient"]
    far = float(np.linalg.norm(np.asarray(true["ends"]) - plane_problem().optimum().x, axis=-1).max())
    return len(sign["ends"]), int((np.asarray(sign["moved"]) == 0).sum()), int((np.asarray(sign["wander"]) > 1e-6).sum()), far


def caption(data: dict[str, Any]) -> str:
    """Say where runs end, and what small lambda_2 does."""
    starts, stuck, wandering, far = _counts(data)
    scan, ratios = data["against_ratio"], np.asarray(data["against_ratio"]["ratios"])
    settled = ratios[np.asarray(scan["true-gradient"]) < 1e-6]
    least = f"it settles from λ₂/β = {settled.min():.2g} on" if len(settled) else "it does not settle"
    return (
        f"Three quadratics in the plane, everybody in every round. Under the sign rule {stuck} of {starts} starts never move (dark), "
        f"and {wandering} still wander after {data['rounds']} rounds, in and around the set where every |∂R/∂θ_i| is at most λ₁ "
        "(light). "
        f"Under the true-gradient rule every run ends within {far:.1g} of the optimum. Below: the sign rule's error grows with λ₁, and "
        f"no λ₂ mends it; of the true-gradient rule {least}. FedDyn has λ₁ = 0."
    )


def draw(data: dict[str, Any]) -> Figure:
    """Two maps of where runs end, and two scans."""
    figure, axes = page_figure(2, 2, ratio=0.9)
    starts, stuck, wandering, far = _counts(data)
    _draw_map(axes[0, 0], data, "sign")
    axes[0, 0].set_title(f"sign rule: {stuck} of {starts} never move,\n{wandering} still wander at the end")
    axes[0, 0].annotate(
        "dark: no client moves from here\n" r"light: $\max_i|\partial R/\partial\theta_i|\leq\lambda_1$, can rest", (0.02, 0.02),
        xycoords="axes fraction", fontsize=6, color=GREY, bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.9, "pad": 1},
    )  # fmt: skip
    _draw_map(axes[0, 1], data, "true-gradient")
    axes[0, 1].set_title(f"true-gradient rule: every run ends\nwithin {far:.1g} of " r"$\theta_*$")

    ax, scan = axes[1, 0], data["against_l1"]
    for rule, marker in (("sign", "o"), ("true-gradient", "s")):
        ends = np.maximum(scan[rule], 1e-16)
        label = f"{RULE_NAMES[rule]}, farthest of {ends.shape[1]} starts"
        ax.plot(scan["lambda1"], ends.max(axis=1), color=RULE_COLOURS[rule], marker=marker, label=label)
    ax.plot(scan["lambda1"], scan["ceiling"], color=GREY, linestyle=":", label=r"edge of the rest set, $\lambda_1/R''$")
    ax.set(xscale="log", yscale="log", xlabel=r"$\lambda_1$", ylabel=rf"$|\theta_T-\theta_*|$ after T = {data['rounds'] // 2} rounds")
    ax.set_title(rf"one dimension, $\lambda_2/\beta$ = {_LINE_RATIO:g}: the sign rule's" "\n" r"error grows with $\lambda_1$")
    ax.legend(loc="lower left", bbox_to_anchor=(0, 0.12))  # where no curve is

    ax, scan = axes[1, 1], data["against_ratio"]
    looks = {name: (RULE_COLOURS[name], RULE_NAMES[name], "-", marker) for name, marker in (("sign", "o"), ("true-gradient", "s"))}
    looks["feddyn"] = (METHOD_COLOURS["feddyn"], r"FedDyn ($\lambda_1=0$)", "--", "D")
    for name, (colour, label, line, marker) in looks.items():
        white = "white" if name == "feddyn" else colour  # where it lies on the true-gradient rule both are seen
        y = np.clip(scan[name], 1e-14, None)
        ax.plot(scan["ratios"], y, color=colour, linestyle=line, marker=marker, markerfacecolor=white, label=label)
    ax.set(xscale="log", yscale="log", xlabel=r"$\lambda_2/\beta$", ylabel=r"worst $R(\theta_t)-R_*$, last quarter")
    ax.set_title("small " r"$\lambda_2/\beta$: neither rule settles," "\nFedDyn does")
    ax.legend(loc="center right")
    for a in axes[1]:
        a.minorticks_off()
    headline(
        figure,
        f"The sign rule ends in and around the set where it stalls; the true-gradient rule ends within {far:.1g} of the optimum",
        rf"three quadratics in the plane, full participation, $\lambda_1$ = {data['lambda1']:g}, $\lambda_2/\beta$ = {data['ratio']:g}",
    )
    return figure
