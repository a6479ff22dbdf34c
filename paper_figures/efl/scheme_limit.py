"""Where the schemes end when clients differ in data and in participation."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from fedtheory.algorithms.efl import EFL
from fedtheory.local import InverseTime, LocalSGD
from fedtheory.participation.irregular import Irregular
from fedtheory.participation.moments import moments
from fedtheory.plotting.style import headline, legend_below, page_figure
from fedtheory.problems import Quadratic
from fedtheory.simulation.simulate import simulate
from paper_figures.efl.theorem_1 import SCHEMES

__all__ = ["caption", "compute", "draw", "limit", "uneven_laws"]

SCHEME_MARKERS = {"A": "o", "B": "s", "C": "^", "C-corrected": "D"}
SCHEME_COLOURS = {"A": "#E69F00", "B": "#CC79A7", "C": "#0072B2", "C-corrected": "#009E73"}


def uneven_laws(c: float, E: int = 4, clients: int = 4) -> np.ndarray:
    """Laws (N, E + 1) of s, equal for c = 0; client k is away and stops early the more often the
    larger c and k.

    Client k is away with probability 0.1 + 0.6 c k/(N - 1), else makes E steps with probability
    1 - q_k and any of 1..E - 1 with probability q_k = 0.1 + 0.6 c k/(N - 1) together.
    """
    q = 0.1 + 0.6 * c * np.arange(clients) / (clients - 1)
    law = np.empty((clients, E + 1))
    law[:, 0], law[:, E] = q, (1 - q) ** 2
    law[:, 1:E] = ((1 - q) * q / (E - 1))[:, None]
    return law


def limit(problem: Quadratic, scheme: str, law: np.ndarray) -> np.ndarray:
    """argmin sum_k E[p^k s^k] f_k, where decaying steps end: (d,)."""
    ps = moments(scheme, law, law.shape[1] - 1, problem.weights).ps  # type: ignore[arg-type]
    h = np.einsum("n,nij->ij", ps, problem.hessians)
    return np.linalg.solve(h, np.einsum("n,nij,nj->i", ps, problem.hessians, problem.minimisers))


def _levels(levels: np.ndarray, clients: int = 4) -> Quadratic:
    """One coordinate for each level of heterogeneity: client k has its minimiser at level * m_k, with sum m_k = 0."""
    m = np.linspace(-1, 1, clients)
    return Quadratic(np.broadcast_to(np.eye(len(levels)), (clients, len(levels), len(levels))), m[:, None] * levels)


def _end(problem: Quadratic, scheme: str, law: np.ndarray, rounds: int, scenarios: int, seed: int) -> np.ndarray:
    """Mean end of EFL with decaying steps: (d,)."""
    E = law.shape[1] - 1
    solver = LocalSGD(E, InverseTime(0.4, 4.0))
    run = simulate(problem, EFL(scheme=scheme), rounds, None, Irregular(E, law), scenarios, seed, solver)  # type: ignore[arg-type]
    return run.x.mean(axis=0)


def compute(rounds: int = 200, scenarios: int = 100, seed: int = 0) -> dict[str, Any]:
    """Distance from the limit to the optimum, exactly, and where runs with decaying steps end.

    ``data``: against the distance between the clients' minimisers, at c = 1. ``participation``: against c, at distance 1.
    """
    levels, runs = np.linspace(0, 2, 9), slice(0, 9, 2)
    problem, law = _levels(levels), uneven_laws(1.0)
    star = problem.optimum().x
    one = _levels(np.ones(1))
    spread, measured_at = np.linspace(0, 1, 21), np.array([0.5, 1.0])  # c = 1 is a coordinate of the other run
    out: dict[str, Any] = {"levels": levels, "measured_levels": levels[runs], "spread": spread, "measured_spread": measured_at}
    for scheme in SCHEMES:
        ends = _end(problem, scheme, law, rounds, scenarios, seed)
        out[scheme] = {
            "data": np.abs(limit(problem, scheme, law) - star),
            "data_measured": np.abs(ends - star)[runs],
            "participation": np.array([abs(limit(one, scheme, uneven_laws(c))[0]) for c in spread]),
            "participation_measured": np.abs([_end(one, scheme, uneven_laws(0.5), rounds, scenarios, seed)[0], ends[4]]),
        }
    return {**out, "rounds": rounds, "scenarios": scenarios}


def caption(data: dict[str, Any]) -> str:
    """Say where each scheme ends with the most different data."""
    ends = ", ".join(f"{float(data[scheme]['data'][-1]):.2g} ({label})" for scheme, label in SCHEMES.items())
    return (
        f"Distance from where the run ends to the optimum, when data and participation differ most: {ends}. It is 0 for every scheme "
        f"when clients have the same data, or take part by the same law. Lines: exact limits; dots: mean ends of {data['scenarios']} "
        f"runs of {data['rounds']} rounds with decaying steps."
    )


def draw(data: dict[str, Any]) -> Figure:
    """Left: against heterogeneity of the data. Right: against heterogeneity of participation."""
    figure, axes = page_figure(1, 2, ratio=0.72, more=0.35, sharey=True)
    views = (("data", "levels", "measured_levels"), ("participation", "spread", "measured_spread"))
    for ax, (name, x, where) in zip(axes[0], views):
        for scheme, label in SCHEMES.items():
            style = {"color": SCHEME_COLOURS[scheme], "zorder": 3 + (scheme == "C-corrected")}
            ax.plot(data[x], data[scheme][name], label=label, **style)
            ax.plot(data[where], data[scheme][f"{name}_measured"], SCHEME_MARKERS[scheme],
                    markersize=5, markeredgecolor="white", markeredgewidth=0.5, **style)
    axes[0, 0].set_ylim(bottom=-0.02 * axes[0, 0].get_ylim()[1])
    axes[0, 0].set(ylabel="distance of the end to the optimum", xlabel="spread of the data: minimisers lie in [−h, h]")
    axes[0, 0].set_title("uneven participation (c = 1)")
    axes[0, 1].set(xlabel="unevenness of participation c", title="different data (h = 1)")
    legend_below(figure, axes[0, :1], 4)
    far = [float(data[s]["data"][-1]) for s in ("A", "B", "C")]
    headline(
        figure,
        f"Schemes A, B and C end {min(far):.2g} to {max(far):.2g} from the optimum when data and "
        "participation differ most; the corrected C ends at it",
        "N = 4 quadratics, E = 4; lines: argmin Σ E[p s] f, exact; dots: mean end of "
        f"{data['scenarios']} runs of {data['rounds']} rounds with decaying steps",
    )
    return figure
