"""Theorem 3.1 at one lambda_2/beta, small enough for the top of a page."""

from __future__ import annotations

from fedtheory.plotting.figure import Figure
from fedtheory.theorems.fedelasticnet.figures import bounds

__all__ = ["FIGURE"]

FIGURE = Figure(
    "bound_vs_empirical_summary", bounds.compute, bounds.draw_summary, paper="fedelasticnet",
    caption=bounds.caption, quick={"rounds": 500, "ratios": (100.0,)},
    full={"rounds": 2000, "scenarios": 200, "ratios": (100.0,)},
    title="Theorem 3.1 of FedElasticNet: violated as printed, holds as repaired",
)
