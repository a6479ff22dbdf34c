"""Theorem 1 where everybody completes every step without noise: the bound, the worst of all losses, and one run."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from fedtheory.plotting.style import COLOURS, headline, legend_below, page_figure, times
from fedtheory.problems import random_quadratic
from fedtheory.theorems.efl.quantities.exact_run import quadratic_run, round_laws
from fedtheory.theorems.efl.worst_runs import SCHEME, constants_of, worst_distance
from fedtheory.theory.judge.registry import get
from fedtheory.theory.rounds.second_moments import oracles_of

__all__ = ["QUICK", "caption", "compute", "draw"]

QUICK = {1: (1, 2, 4), 2: (1, 2)}  # E: the taus of which worst cases are computed
FORMS = {"printed": COLOURS["printed"], "repaired": COLOURS["repaired"], "sharpened": COLOURS["theorem A"]}
CLIENTS, AWAY = 4, 2.0


def _rounded_up(x: float) -> Fraction:
    """A short fraction that is at least the float."""
    return Fraction(x).limit_denominator(10**6) + Fraction(1, 10**6)


def _panel(E: int, horizons: Sequence[int], rounds: int, seed: int) -> dict[str, Any]:
    """One number of local steps: everything over ||w_0 - w*||^2."""
    problem = random_quadratic(CLIENTS, 2, condition=2.0, heterogeneity=1.0, seed=seed)
    oracles, taus = oracles_of(problem), np.arange(1, rounds + 1)
    law = np.zeros((CLIENTS, E + 1))
    law[:, E] = 1
    laws = round_laws(SCHEME, [law], rounds, oracles.weights)
    view = quadratic_run(oracles, laws, oracles.star + AWAY, taus)
    c = view.constants
    limits = [(1, 0, 0, _rounded_up(c.start_sq)), (0, 1, 0, _rounded_up(float(c.D.mean()))), (0, 0, 1, _rounded_up(c.G_sq))]
    L, mu = (Fraction(x).limit_denominator(10**6) for x in (c.L, c.mu))
    began = time.perf_counter()
    worst = [float(worst_distance(constants_of(E, L, mu, tau), limits)) for tau in horizons]
    return {
        "E": E, "tau": taus, "horizons": list(horizons), "worst": np.array(worst) / c.start_sq, "measured": view.lhs / c.start_sq,
        "bounds": {name: get("efl/theorem-1").form(name).sides_on(view).rhs / c.start_sq for name in FORMS},
        "seconds": time.perf_counter() - began,
    }  # fmt: skip


def compute(rounds: int = 30, seed: int = 0, horizons: Mapping[int, Sequence[int]] = QUICK) -> dict[str, Any]:
    """Bounds, the worst case with the run's own ||w_0 - w*||^2, D and G, proved in fractions, and the run."""
    return {"panels": [_panel(E, at, rounds, seed) for E, at in horizons.items()], "clients": CLIENTS}


def _above(data: dict[str, Any]) -> tuple[int, float, float]:
    """(last horizon with one local step, repaired bound over the worst case there, largest worst case over the run)."""
    first = data["panels"][0]
    end = int(first["horizons"][-1])
    luck = max(float(np.max(p["worst"] / p["measured"][np.asarray(p["horizons"]) - 1])) for p in data["panels"])
    return end, float(first["bounds"]["repaired"][end - 1] / first["worst"][-1]), luck


def caption(data: dict[str, Any]) -> str:
    """Say how much of the distance between bound and run is the theorem's."""
    end, above, luck = _above(data)
    return (
        f"After {end} rounds of E = {data['panels'][0]['E']} the repaired bound of Theorem 1 is {times(above)} times the worst of all "
        f"losses, which is at most {times(luck)} times this run: what is lost is the theorem's. Worst case: all L-smooth, μ-strongly "
        f"convex losses with this run's L, μ, ‖w₀ − w*‖, D and G, proved in fractions in {data_seconds(data):.1f} s. Instance: "
        f"quadratics, N = {data['clients']}, d = 2; everybody completes every step, without noise."
    )


def data_seconds(data: dict[str, Any]) -> float:
    """Return the seconds that the worst cases took."""
    return sum(float(p["seconds"]) for p in data["panels"])


def draw(data: dict[str, Any]) -> Figure:
    """A panel a number of local steps."""
    panels = data["panels"]
    figure, axes = page_figure(1, len(panels), ratio=1.15, more=0.4, sharey=True)
    for ax, p in zip(axes[0], panels, strict=True):
        at = np.asarray(p["horizons"]) - 1
        for name, bound in p["bounds"].items():
            style = {"linestyle": (0, (4, 1.5))} if name == "printed" else {}
            ax.plot(p["tau"], bound, color=FORMS[name], label=f"Theorem 1 {name}", **style)
        ax.fill_between(p["horizons"], p["worst"], p["bounds"]["sharpened"][at], color=COLOURS["worst case"], alpha=0.1, linewidth=0)
        ax.plot(p["horizons"], p["worst"], color=COLOURS["worst case"], marker="D", label="worst case over all losses")
        ax.plot(p["tau"], p["measured"], color=COLOURS["measured"], label="this instance")
        share, luck = p["worst"] / p["bounds"]["repaired"][at], p["worst"] / p["measured"][at]
        ax.annotate(
            f"at τ = {at[-1] + 1}: worst case/repaired {share[-1]:.2g},\nworst case/instance "
            f"{luck[-1]:,.1f}",
            (0.03, 0.02), xycoords="axes fraction", fontsize=6.5, color=COLOURS["worst case"],
            va="bottom",
        )
        ax.set(xscale="log", yscale="log", xlabel="rounds τ", title=f"E = {p['E']} local step{'s' * (p['E'] > 1)}")
        ax.minorticks_off()
        ax.set_xticks([1, 2, 5, 10, 30], ["1", "2", "5", "10", "30"])
    low, high = axes[0, 0].get_ylim()
    axes[0, 0].set_ylim(low / 6, high)
    axes[0, 0].set_ylabel("‖w − w*‖² over ‖w₀ − w*‖²")
    legend_below(figure, axes[0, :1], 3)
    end, above, luck = _above(data)
    headline(
        figure,
        f"After {end} rounds of E = {panels[0]['E']} EFL's Theorem 1 is {times(above)} × above the worst of all losses; this run is "
        f"within {times(luck)} × of it",
        f"worst case: all L-smooth, μ-strongly convex losses with this run's L, μ, ‖w₀ − w*‖, D and G, proved in fractions; "
        f"instance: quadratics, N = {data['clients']}, d = 2, everybody, no noise",
    )
    return figure
