"""Bound, worst case and one instance: what of the distance between a theorem and a run is the theorem's, and what the run's."""

from __future__ import annotations

import time
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from fedtheory.algorithms.fedelasticnet_dyn import FedElasticNetDyn
from fedtheory.participation.cohorts import Uniform
from fedtheory.plotting.style import COLOURS, headline, legend_below, page_figure, times
from fedtheory.problems import random_quadratic
from fedtheory.randomness import Stream
from fedtheory.theorems.fedelasticnet.notation import PRINTED_THRESHOLD, THEOREM_A_THRESHOLD, THEOREM_E_THRESHOLD
from fedtheory.theorems.fedelasticnet.quantities import ElasticConstants
from fedtheory.theorems.fedelasticnet.statements.theorem_3_1 import Letters
from fedtheory.theorems.fedelasticnet.worst_runs import best_kappas, worst_excess
from paper_figures.fedelasticnet.runs import runs

__all__ = ["BOUNDS", "PANELS", "bound_of", "caption", "compute", "draw"]

EVERYBODY, COHORTS = (10, 10), (3, 1)  # m, P: of all, every history of cohorts is in the programme
PANELS = ((1, EVERYBODY), (1, COHORTS), (12, EVERYBODY), (30, EVERYBODY))  # lambda_2/beta, (m, P)
BEST = "FedDyn's best potential"
# Name -> (above which lambda_2/beta, which of `ElasticConstants`, colour)
BOUNDS = {
    "Theorem 3.1": (PRINTED_THRESHOLD, "printed", COLOURS["printed"]),
    "Theorem A": (THEOREM_A_THRESHOLD, "theorem_a", COLOURS["theorem A"]),
    "Theorem E": (THEOREM_E_THRESHOLD, "theorem_e", COLOURS["theorem E"]),
}


def bound_of(kappas: tuple[Any, Any], rounds: Any, start_sq: Any, C0: Any) -> Any:
    """(||gamma^0 - theta*||^2 + kappa C_0)/(kappa_0 T)."""
    kappa, kappa_0 = kappas
    return (start_sq + kappa * C0) / (kappa_0 * rounds)


def _panel(ratio: int, clients: int, participants: int, horizons: Sequence[int], rounds: int, seed: int) -> dict[str, Any]:
    """One lambda_2/beta: everything over beta ||gamma^0 - theta*||^2."""
    problem = random_quadratic(clients, 3, condition=10.0, heterogeneity=1.0, seed=seed)
    beta, star = problem.constants().beta, problem.optimum().x
    x0 = star + Stream(seed).generator("start").standard_normal(3)
    feddyn = FedElasticNetDyn(float(np.nextafter(0, 1)), ratio * beta, "true-gradient")
    [view] = runs(problem, feddyn, Uniform(participants), rounds, x0)
    run = Letters(view)
    start, begun = float(run.start.mean()), float(run.C_0.mean())
    C0 = Fraction(begun / start / beta**2).limit_denominator(10**6)
    constants = ElasticConstants(clients, participants, 1.0, 0.0, float(ratio))
    T = np.arange(1, rounds + 1)
    chosen = {name: getattr(constants, which)[1:] for name, (least, which, _) in BOUNDS.items() if ratio > least}
    if not chosen:
        kappa_0, kappa, _ = best_kappas(ratio, clients, participants)
        chosen[BEST] = (float(kappa), float(kappa_0))
    began, worst = time.perf_counter(), []
    for horizon in horizons:
        bound, _ = worst_excess(Fraction(ratio), horizon, [(1, 0, 1), (0, 1, C0)], clients, participants)
        worst.append(float(bound))
    return {
        "ratio": ratio, "clients": clients, "participants": participants, "T": T,
        "bounds": {name: bound_of(kappas, T, 1.0, float(C0)) for name, kappas in chosen.items()},
        "measured": view.expectation(run.excess) / (beta * start), "horizons": list(horizons), "worst": np.array(worst),
        "C0": float(C0), "seconds": time.perf_counter() - began,
    }  # fmt: skip


def compute(
    horizons: Sequence[int] = (1, 2, 4, 8), cohorts: Sequence[int] = (1, 2, 3), seed: int = 0, panels: Sequence[Any] = PANELS
) -> dict[str, Any]:
    """Bounds V_0/(kappa_0 T), the worst case with the run's own ||gamma^0 - theta*||^2 and C_0, proved in fractions, and the run.

    ``horizons`` where everybody takes part, ``cohorts`` where some do: the programme has every history of cohorts.
    """
    sizes = [(ratio, who, horizons if who[0] == who[1] else cohorts) for ratio, who in panels]
    rounds = 3 * max(horizons)
    return {"panels": [_panel(r, who[0], who[1], at, rounds if who[0] == who[1] else max(at) + 3, seed) for r, who, at in sizes]}


def _said(data: dict[str, Any]) -> tuple[float, str]:
    """(largest worst case over the run, how far the bounds of the last panel are above the worst case at the end)."""
    panels = data["panels"]
    luck = max(float(np.max(p["worst"] / p["measured"][np.asarray(p["horizons"]) - 1])) for p in panels)
    end = panels[-1]
    last = int(end["horizons"][-1])
    above = [f"{name} is {times(bound[last - 1] / end['worst'][-1])} ×" for name, bound in end["bounds"].items()]
    return luck, f"at λ₂ = {end['ratio']} β, T = {last} {' and '.join(above[::2])} above that"


def caption(data: dict[str, Any]) -> str:
    """Say what is lost in the theorems, and what in the run."""
    luck, above = _said(data)
    share = [
        f"{np.max(p['worst'] / np.min(np.stack(list(p['bounds'].values())), axis=0)[np.asarray(p['horizons']) - 1]):.2g} "
        f"(λ₂/β = {p['ratio']:g}, {p['participants']} of {p['clients']})"
        for p in data["panels"]
    ]
    return (
        f"FedDyn's run (λ₁ = 0) is within {times(luck)} × of the worst of all convex β-smooth losses with its own distance and C₀; "
        f"{above}. The worst case as a share of the lowest bound drawn is at most {', '.join(share)}. Worst cases are proved in "
        f"fractions ({sum(float(p['seconds']) for p in data['panels']):.1f} s in all); the instance is quadratic, d = 3."
    )


def draw(data: dict[str, Any]) -> Figure:
    """A panel a lambda_2/beta and a law of cohorts."""
    panels = data["panels"]
    figure, axes = page_figure(-(-len(panels) // 2), min(2, len(panels)), ratio=0.8, more=0.5, sharey=True)
    drawn = list(zip(axes.ravel(), panels, strict=False))
    for ax, p in drawn:
        at = np.asarray(p["horizons"]) - 1
        least = np.min(np.stack(list(p["bounds"].values())), axis=0)
        for name, bound in p["bounds"].items():
            colour = BOUNDS[name][2] if name in BOUNDS else COLOURS["repaired"]
            ax.plot(p["T"], bound, color=colour, label=name if name in BOUNDS else f"{name}: V₀/(κ₀ T)")
        ax.fill_between(p["horizons"], p["worst"], least[at], color=COLOURS["worst case"], alpha=0.1, linewidth=0)
        worst = {"color": COLOURS["worst case"], "marker": "D", "label": "worst case over all losses"}
        ax.plot(p["horizons"], p["worst"], **worst)
        ax.plot(p["T"], p["measured"], color=COLOURS["measured"], label="this instance")
        share = p["worst"] / least[at]
        said = f"worst case/bound: {share[0]:.2f} at T = {at[0] + 1}, {share[-1]:.2f} at {at[-1] + 1}"
        ax.annotate(
            f"{said}\nworst case/instance: {p['worst'][-1] / p['measured'][at[-1]]:,.1f} at {at[-1] + 1}", (0.03, 0.02),
            xycoords="axes fraction", fontsize=6.5, color=COLOURS["worst case"], va="bottom",
        )  # fmt: skip
        everybody = p["clients"] == p["participants"]
        who = "everybody" if everybody else f"{p['participants']} of {p['clients']} clients a round"
        ax.set(xscale="log", yscale="log", xlabel="rounds $T$", title=rf"$\lambda_2/\beta$ = {p['ratio']:g}, {who}")
        ax.minorticks_off()
        ticks = [t for t in (1, 2, 5, 10, 30, 100) if t <= p["T"][-1]]
        ax.set_xticks(ticks, [str(t) for t in ticks])
    for ax in axes.ravel()[len(panels) :]:
        ax.set_visible(False)
    low, high = axes[0, 0].get_ylim()
    axes[0, 0].set_ylim(low / 6, high)
    for ax in axes[:, 0]:
        ax.set_ylabel(r"$R(\bar\gamma_T)-R_*$ over $\beta\|\gamma^0-\theta_*\|^2$")
    legend_below(figure, (ax for ax, _ in drawn), 3)
    luck, above = _said(data)
    who = next(p["clients"] for p in panels if p["clients"] == p["participants"])
    headline(
        figure,
        f"FedDyn's run is within {times(luck)} × of the worst of all losses; {above}",
        f"worst case: all convex β-smooth losses with this run's distance and C₀, proved in fractions; "
        f"instance: quadratics, d = 3, λ₁ = 0; everybody: m = {who}",
    )
    return figure
