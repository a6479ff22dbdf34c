"""Elastic Aggregation's drawing of two clients: one round of both rules, from near the optimum and
from far."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedtheory.plotting.figure import Figure

__all__ = ["FIGURE"]

DISTANCES, STEPS = (0.03, 0.1, 0.3, 1.0, 3.0), 8


def _clients(rng: np.random.Generator) -> Any:
    """Two clients with 40 samples of two features, the first the larger, and both scaled anew for
    each client.

    They want different parameters around (2, 2).
    """
    from fedtheory import problems

    scale = np.array([1.0, 0.5]) * np.exp(rng.uniform(-0.5, 0.5, (2, 1, 2)))
    features = rng.normal(size=(2, 40, 2)) * scale
    wanted = 2 + rng.uniform(-1, 1, (2, 2))
    return problems.LeastSquares(features, np.einsum("kid,kd->ki", features, wanted)), wanted


def _round(problem: Any, elastic: bool, start: np.ndarray, seed: int) -> np.ndarray:
    """The server's model (2,) after one round from there."""
    from fedtheory import simulate
    from fedtheory.algorithms import ElasticAggregation, FedAvg
    from fedtheory.local import LocalSGD

    algorithm = ElasticAggregation(tau=0.5) if elastic else FedAvg()
    step = 0.5 / problem.constants().beta
    return simulate(problem, algorithm, 1, start, seed=seed, local_solver=LocalSGD(STEPS, step)).x[
        0
    ]


def compute_two(instances: int = 200, seed: int = 0) -> dict[str, Any]:
    """One round on many pairs of clients, from starts at several distances from the least of their
    mean loss; the first pair in full.

    Returns
    -------
    dict
        'excess' (2, distances, instances): F minus its least value after the round, naive and
        elastic; 'before' (distances, instances) the same at the start. 'shown': Hessians, the
        clients' minimisers, the optimum and the three points, at distance 1.
    """
    from fedtheory.randomness import Stream

    excess, before = np.empty((2, len(DISTANCES), instances)), np.empty((len(DISTANCES), instances))
    shown: dict[str, Any] = {}
    rng = Stream(seed).generator("figure elastic aggregation of two clients")
    for i in range(instances):
        problem, wanted = _clients(rng)
        optimum = problem.optimum()
        angle = rng.uniform(0, 2 * np.pi)
        for n, distance in enumerate(DISTANCES):
            start = optimum.x + distance * np.array([np.cos(angle), np.sin(angle)])
            points = [start, *(_round(problem, elastic, start, seed) for elastic in (False, True))]
            values = [float(problem.objective(p)) - optimum.value for p in points]
            before[n, i], excess[:, n, i] = values[0], values[1:]
            if i == 0 and distance == 1.0:
                hessians = np.einsum(
                    "kid,kie->kde", problem.features, problem.features
                ) / problem.features.shape[1]
                shown = {
                    "hessians": hessians, "wanted": wanted, "optimum": optimum.x,
                    "points": np.stack(points),
                }
    return {
        "excess": excess,
        "before": before,
        "distances": np.array(DISTANCES),
        "shown": shown,
        "tau": 0.5,
        "steps": STEPS,
    }


def _closer(data: dict[str, Any]) -> np.ndarray:
    """In which share of the pairs the elastic round ends lower than the naive one (distances,)."""
    excess = np.asarray(data["excess"], dtype=float)
    return (excess[1] < excess[0]).mean(axis=1)


def draw_two(data: dict[str, Any]) -> Any:
    """The first pair as the poster draws it, and all pairs."""
    from fedtheory.plotting.style import METHOD_COLOURS, headline, new_figure

    figure, axes = new_figure(10.4, 4.4, 1, 2, width_ratios=(1.2, 1))
    plane, all_pairs = axes[0]
    shown = {k: np.asarray(v, dtype=float) for k, v in data["shown"].items()}
    every = np.concatenate([shown["wanted"], shown["points"], shown["optimum"][None]])
    low, high = every.min(axis=0) - 0.4, every.max(axis=0) + 0.4
    x, y = np.meshgrid(np.linspace(low[0], high[0], 120), np.linspace(low[1], high[1], 120))
    grid = np.stack([x, y], axis=-1)
    for k, (colour, name) in enumerate((("#999999", "A"), ("#56B4E9", "B"))):
        away = grid - shown["wanted"][k]
        loss = 0.5 * np.einsum("...d,de,...e->...", away, shown["hessians"][k], away)
        plane.contour(
            x, y, loss, levels=loss.max() * np.array([0.02, 0.08, 0.2]), colors=colour,
            linewidths=0.8,
        )
        plane.plot(
            *shown["wanted"][k], "o", color=colour,
            label=f"least for client {name}, and its contours",
        )
    start, naive, elastic = shown["points"]
    for point, method, words in (
        (naive, "fedavg", "naive"), (elastic, "elastic-aggregation", "elastic")
    ):
        plane.annotate(
            "", point, start,
            arrowprops={"arrowstyle": "->", "color": METHOD_COLOURS[method], "linewidth": 1.8},
        )
        plane.plot(*point, "o", color=METHOD_COLOURS[method], label=f"after the round, {words}")
    plane.plot(*start, "s", color="#000000", label="θ before it")
    plane.plot(*shown["optimum"], "*", color="#000000", markersize=11, label="least for both")
    plane.set(xlabel="θx, sensitive", ylabel="θy, less sensitive", title="one pair of clients")
    plane.legend(fontsize=7.5)
    all_pairs.axhline(50, color="#000000", linewidth=0.9)
    all_pairs.plot(
        data["distances"], 100 * _closer(data), "-o", color=METHOD_COLOURS["elastic-aggregation"]
    )
    all_pairs.set(
        xscale="log", ylim=(-3, 103),
        xlabel="distance of θ from the least for both, before the round",
    )
    all_pairs.set_xticks(data["distances"], [f"{d:g}" for d in data["distances"]])
    all_pairs.set_title(
        f"pairs in which elastic ends lower than naive, % of {np.asarray(data['before']).shape[1]}"
    )
    headline(
        figure, _finding_two(data),
        f"least squares, two clients, {data['steps']} local steps, τ = {data['tau']:g}",
    )
    return figure


def _finding_two(data: dict[str, Any]) -> str:
    closer = [f"{100 * c:.0f} %" for c in _closer(data)]
    return (
        f"Near the least loss elastic aggregation ends lower in {closer[0]} of the pairs, far from "
        f"it in {closer[-1]}"
    )


def caption_two(data: dict[str, Any]) -> str:
    """Say what the drawing shows and in how many instances."""
    from paper_figures.networks.words import joined

    excess, before = (
        np.asarray(data["excess"], dtype=float), np.asarray(data["before"], dtype=float)
    )
    left = np.median(excess / before, axis=2)
    each = joined(
        [f"{100 * c:.0f} % at {d:g}" for d, c in zip(data["distances"], _closer(data), strict=True)]
    )
    return (
        "Two clients of least squares whose losses are least at different parameters; one round of "
        f"{data['steps']} local steps. The poster draws a pair in which elastic aggregation, which "
        "restrains the sensitive θx and boosts θy, ends with a lower loss than the naive mean. Of "
        f"{before.shape[1]} random pairs it does so in these shares, by the distance of the start: "
        f"{each}. From the farthest start the median excess loss that is left is "
        f"{100 * left[1, -1]:.1f} % against {100 * left[0, -1]:.1f} % of that before. Where all "
        "clients take part both rules have the same fixed points, so that only the way differs."
    )


FIGURE = Figure(
    "elastic_aggregation_two_clients",
    compute_two,
    draw_two,
    {"instances": 40},
    {},
    title="Naive and elastic aggregation of two clients, one round",
    paper="elastic-aggregation",
    number="Figure (left)",
    caption=caption_two,
)
