"""The worth of local work in Theorem 1's bound, by steps or solved, beside one loss's need."""

from __future__ import annotations

import math
import time
from fractions import Fraction
from typing import Any

from matplotlib.figure import Figure

from fedtheory.plotting.style import COLOURS, headline, page_figure
from fedtheory.theorems.fedmls import lines
from fedtheory.worst_cases import worst_case

__all__ = ["caption", "compute", "draw"]

SLOPE = [(Fraction(-1), Fraction(0))]  # f = -u on [-1, 1] from 0
ROUNDS = (2, 3, 5, 8, 12, 18, 27, 40, 60, 90, 130)


def compute(rounds: tuple[int, ...] = ROUNDS, worst_up_to: int = 5) -> dict[str, Any]:
    """F(x_K) - F* on f = -u in fractions as a share of the bound of each method, and the worst case
    of all losses as one.

    Solved: 8 ||x_0 - x*||^2/(lambda K (K+1)) + lambda/2 with lambda = 16/(K(K+1)+8). One step a
    round: (10 ||x_0 - x*||^2 + 8 D) in place of the 8, with lambda = 20/(K(K+1)+7) and the least D
    for which every T_k is 1, 2 lambda^2 K (K-1)^2. The worst case is that of MOPES, which is the
    method for one loss, over any closed convex set, with local training on all of space;
    ``worst_up_to``: the most rounds of it.
    """
    out: dict[str, Any] = {"rounds": list(rounds), "solved": [], "one step": [], "seconds": 0.0}
    out["worst"] = {"solved": [], "one step": []}
    for K in rounds:
        for name, start, lam in (("solved", 8, Fraction(16, K * (K + 1) + 8)), ("one step", 10, Fraction(20, K * (K + 1) + 7))):
            one = Fraction(1)
            d = max(2 * lam**2 * K * (K - 1) ** 2, lam**2)
            run = lines.Run((SLOPE,), lam, d, -one, one, one, Fraction(0), K, one, "exact" if name == "solved" else "sliding")
            reached = 1 - lines.history(run).x[-1]
            first = start + (8 * d if name == "one step" else 0)
            bound = first / (lam * K * (K + 1)) + lam / 2
            out[name].append(float(reached / bound))
            if worst_up_to >= K:
                began = time.perf_counter()
                options: dict[str, Any] = {"lam": lam} if name == "solved" else {"lam": lam, "D": d}
                found = worst_case("mopes", rounds=K, **options)
                out["worst"][name].append(float(found.bound / bound))
                out["seconds"] += time.perf_counter() - began
    return out


def draw(data: dict[str, Any]) -> Figure:
    """Measured over bound, against the rounds."""
    figure, axes = page_figure(1, 1, ratio=0.5, width=0.85)
    axis, last = axes[0, 0], 0
    for name, label, colour in (
        ("solved", "solved: 8 ‖x₀ − x*‖²", COLOURS["repaired"]),
        ("one step", "one step a round: 10 ‖x₀ − x*‖² + 8 D̃", COLOURS["printed"]),
    ):  # fmt: skip
        axis.plot(data["rounds"], data[name], "o-", color=colour, label=label)
        worst = data["worst"][name]
        last = max(last, len(worst))
        axis.plot(
            data["rounds"][: len(worst)], worst, "D", color=COLOURS["worst case"], markersize=7,
            markerfacecolor="none", label="worst case of all losses" if name == "solved" else None,
        )
    axis.axhline(1.0, color=COLOURS["measured"], linewidth=1, linestyle=":")
    axis.annotate("the bound", (data["rounds"][0], 1.0), xytext=(0, -3), textcoords="offset points", va="top", fontsize=7)
    axis.set(xscale="log", xlabel="rounds K", ylabel="(F(x_K) − F*) / bound", ylim=(0, 1.05))
    axis.set_xticks(data["rounds"], labels=[str(k) for k in data["rounds"]])
    axis.set_xticks([], minor=True)
    axis.legend(loc="center right")
    headline(
        figure,
        f"FedMLS, local problems solved, reaches {data['solved'][-1]:.0%} of its bound at K = {data['rounds'][-1]}{_said(data, last)}",
        "line: f = −u on [−1, 1] from 0, in fractions; λ of order 1/K², where either bound is attained in the limit; D̃ is the least "
        "for T_k = 1. Worst case: all convex losses with gradients of at most G, any closed convex set, local training on all of "
        f"space; proved in fractions ({data['seconds']:.1f} s)",
    )
    return figure


def _said(data: dict[str, Any], last: int) -> str:
    """Say how much worse than the line another loss can be, up to the last K that was tried."""
    away = max((w / m for name, worst in data["worst"].items() for w, m in zip(worst, data[name], strict=False)), default=1.0)
    return f"; to K = {data['rounds'][last - 1]} no loss is {math.ceil(1000 * (away - 1)) / 10} % worse" if last else ""


def caption(data: dict[str, Any]) -> str:
    """Say what share of each bound one loss needs."""
    last = max(len(worst) for worst in data["worst"].values())
    return (
        f"On one loss, f = −u on [−1, 1], FedMLS needs {data['solved'][-1]:.0%} of the bound with local problems solved at "
        f"K = {data['rounds'][-1]}, and {data['one step'][-1]:.0%} of Theorem 1's with one local step a round{_said(data, last)}: both "
        "constants are attained in the limit. Exact, in fractions."
    )
