"""Theorem 1 of FedMLS against the gap after K rounds: as printed, as repaired and sharpened, with
the local steps of its own T_k."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure as MatplotlibFigure

from fedtheory.algorithms.fedmls import FedMLS
from fedtheory.optimum.on_ball import choose_radius
from fedtheory.plotting.style import COLOURS, band, headline, legend_below, middle, page_figure, times
from fedtheory.problems import TwoClientPull, random_lad
from fedtheory.problems.base import Problem
from fedtheory.theorems.fedmls.quantities import Bounds, view_of_run
from fedtheory.theory.judge.registry import get

__all__ = ["FORMS", "caption", "compute", "draw"]

# form -> (label, colour, line style)
FORMS = {
    "printed": ("Theorem 1 as printed, G of the joint F", COLOURS["printed"], (0, (4, 1.5))),
    "repaired": ("Theorem 1 as repaired", COLOURS["repaired"], "-"),
    "sharpened": ("sharpened: 4 for 8", COLOURS["theorem A"], "-"),
    "a posteriori": ("with the local steps that were taken", COLOURS["theorem E"], "-"),
}
TITLES = {
    "lad": "data that differ (LAD), λ of least bound",
    "pull": "two clients that pull apart, λ of least bound",
    "noise": "LAD, noise of 2 G, λ of least bound",
    "fixed": "LAD, one λ for all K",
}
RADIUS, EPSILON = 4.0, 2.0


def _panel(
    problem: Problem, rounds: Sequence[int], fixed: bool, noise: float, scenarios: int, seed: int, radius: float
) -> dict[str, Any]:
    """The gap and the bounds, a run of its own for every K, since T_k depends on it; ``noise`` in units of G."""
    optimum, G_i = problem.optimum_on_ball(radius), np.asarray(problem.lipschitz(radius), dtype=float)
    G = math.sqrt(float(np.mean(G_i**2)))
    x0 = np.zeros(problem.dim)
    noise *= G
    sigma_i = np.full(problem.num_clients, noise)
    D = float(np.sum((x0 - optimum.x) ** 2))
    gaps, steps = [], []
    bounds: dict[str, list[float]] = {name: [] for name in FORMS}
    for K in rounds:
        lam = EPSILON / G**2 if fixed else math.sqrt(2 * 18 * D / (K * (K + 1))) / G  # least (10 + 8) D/(lam K (K+1)) + lam G^2/2
        method = FedMLS(lam, D, K, radius, G, sigma=noise, noise_std=noise, skip_last=False)
        view = view_of_run(problem, method, x0, scenarios if noise else 1, seed, bounds=Bounds(optimum, G_i, sigma_i))
        gaps.append(view.last_excess[0])
        steps.append(int(view.constants.total_steps))
        for name in FORMS:
            bounds[name].append(float(np.asarray(get("fedmls/theorem-1").form(name).sides_on(view).rhs)[0, 0]))
    gap = np.stack(gaps)
    return {
        "gap": middle(gap), "mean": gap.mean(axis=1), "steps": steps, "G": G,
        "distance": math.sqrt(D), "bounds": {name: np.array(v) for name, v in bounds.items()},
    }


def compute(
    rounds: Sequence[int] = (1, 2, 4, 8, 16, 32), scenarios: int = 20, seed: int = 0,
    problem: Problem | None = None, radius: float | None = None,
) -> dict[str, Any]:
    """Four panels: two problems, one with noise, and one with a lambda that is the same for all K.

    ``problem``: in place of the least absolute deviations of three panels, on the ball of
    ``radius``; without a radius the least power of 2 whose ball provably holds a minimiser.

    Raises
    ------
    InvalidInput, MissingCapability
        Losses of which no Lipschitz constant or no optimum on a ball is known.
    """
    name, R = "LAD", RADIUS
    if problem is not None:
        name, R = problem.name, choose_radius(problem, radius)[0]
    lad = random_lad(5, 12, 4, seed=seed, unequal=4.0) if problem is None else problem
    chosen: dict[str, tuple[Problem, bool, float]] = {"lad": (lad, False, 0.0), "pull": (TwoClientPull(0.1), False, 0.0)}
    chosen |= {"noise": (lad, False, 2.0), "fixed": (lad, True, 0.0)}
    radii = {"pull": RADIUS}
    panels = {key: _panel(p, rounds, fixed, noise, scenarios, seed, radii.get(key, R)) for key, (p, fixed, noise) in chosen.items()}
    return {"panels": panels, "rounds": list(rounds), "scenarios": scenarios, "epsilon": EPSILON, "radius": R, "problem": name}


def _titles(data: dict[str, Any]) -> dict[str, str]:
    """Of the panels, with the name of the user's problem where there is one."""
    own = data.get("problem", "LAD")
    if own == "LAD":
        return TITLES
    return {key: title.replace("data that differ (LAD)", own).replace("LAD", own) for key, title in TITLES.items()}


def _slope(x: Any, y: Any) -> float:
    """Of log y against log x, over the upper half of x; NaN where that is one point."""
    x, y = (np.log(np.asarray(v, dtype=float)[max(0, min(len(x) // 2, len(x) - 2)) :]) for v in (x, y))
    return float(np.polyfit(x, y, 1)[0]) if len(x) > 1 else float("nan")


def _loose(data: dict[str, Any], name: str) -> float:
    p = data["panels"][name]
    return float(p["bounds"]["repaired"][-1] / p["mean"][-1])


def _crossed(data: dict[str, Any]) -> list[str]:
    """Panels in which the printed bound is below what is measured somewhere."""
    return [n for n, p in data["panels"].items() if (np.asarray(p["bounds"]["printed"]) < np.asarray(p["mean"]) * (1 - 1e-9)).any()]


def caption(data: dict[str, Any]) -> str:
    """The slopes, and how far the bound is above the gap."""
    K, lad = data["rounds"], data["panels"]["lad"]
    titles = _titles(data)
    fitted = [(_slope(K, data["panels"][n]["mean"]), titles[n].partition(", λ")[0]) for n in ("lad", "pull", "noise")]
    slopes, loose = ", ".join(f"{slope:.2f} ({name})" for slope, name in fitted), ", ".join(times(_loose(data, n)) for n in TITLES)
    crossed = _crossed(data)
    printed = f"is crossed by the gap in {len(crossed)} of {len(TITLES)} panels" if crossed else "is not crossed here"
    return (
        "The gap F(x_K) − F⋆ after K rounds, a run of its own for each K, since T_k depends on K. With the λ of the least bound the "
        f"repaired bound falls like K^{_slope(K, lad['bounds']['repaired']):.2f}; fitted slopes of the gap over the upper half of "
        f"K: {slopes}. With one λ for all K the bound levels off at λG²/2 = {data['epsilon'] / 2:g}. At K = {K[-1]} the repaired bound "
        f"is {loose} times the gap, panel by panel; the first run takes {lad['steps'][-1]:,} local steps of a client. The printed "
        f"bound, whose G is that of the joint F on the product space, {printed}. With noise: mean and middle 80 % of "
        f"{data['scenarios']} runs."
    )


def draw(data: dict[str, Any]) -> MatplotlibFigure:
    """A panel a case; both axes are the same in all."""
    figure, axes = page_figure(2, 2, ratio=0.68, more=0.5, sharex=True, sharey=True)
    K = np.asarray(data["rounds"])
    for ax, (name, title) in zip(axes.ravel(), _titles(data).items(), strict=True):
        p = data["panels"][name]
        for form, (label, colour, line) in FORMS.items():
            ax.plot(K, p["bounds"][form], color=colour, linestyle=line, label=label)
        band(ax, K, {**p["gap"], "middle": p["mean"]}, color=COLOURS["measured"], marker="o", label="F(x_K) − F⋆, measured")
        ax.set(xscale="log", yscale="log", title=title)
        ax.minorticks_off()
        ax.set_xticks(K, [str(k) for k in K])
        said = f"at K = {K[-1]}: repaired = {times(_loose(data, name))} × measured"
        ax.annotate(said, (0.03, 0.04), xycoords="axes fraction", fontsize=6.5, color=COLOURS["repaired"], fontweight="bold")
    low, high = axes[0, 0].get_ylim()
    axes[0, 0].set_ylim(low / 3, high)
    for ax in axes[-1]:
        ax.set_xlabel("rounds K")
    for ax in axes[:, 0]:
        ax.set_ylabel("suboptimality")
    legend_below(figure, axes[0, :1], 3)
    loose = [_loose(data, n) for n in TITLES]
    crossed = _crossed(data)
    lad = "LAD: 5 clients, d = 4, steepest 4 times the flattest; " if data.get("problem", "LAD") == "LAD" else ""
    printed = f"printed, it is false in {len(crossed)} of {len(TITLES)} cases; repaired, it" if crossed else "it"
    headline(
        figure,
        f"FedMLS's Theorem 1 over K: {printed} holds, at K = {K[-1]} with {times(min(loose))} to {times(max(loose))} times the gap",
        f"ball of radius {data['radius']:g}, D̃ = ‖x₀ − x⋆‖², T_k local steps as the theorem says, a run of its own for each K; "
        f"{lad}noise: mean and middle 80 % of {data['scenarios']} runs",
    )
    return figure
