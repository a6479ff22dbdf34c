"""Algorithm 1 (FedAvg + l1 + l2): its rate, and where it ends, with everyone taking part.

On quadratics of one parameter, f_k = h_k (x - c_k)^2/2, a client moves by delta_k = -soft(h_k (theta - c_k), lambda_1)/(h_k +
lambda_2). Without l1 that is linear: the distance to the end is multiplied by 1 - mean_k p_k in every round, p_k = h_k/(h_k +
lambda_2), and the end is sum p_k c_k/sum p_k, not the optimum sum h_k c_k/sum h_k. With l1 the mean move is piecewise linear and
falls with theta, so that a run from the right ends at its largest zero: the largest theta with sum_k s_k of the clients that move.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from fedtheory.algorithms.fedelasticnet_prox import FedElasticNetProx
from fedtheory.plotting.experiment import Table, number
from fedtheory.plotting.style import headline, page_figure
from fedtheory.problems import Quadratic
from fedtheory.simulation.simulate import simulate

__all__ = ["compute", "draw", "end_from_the_right", "finding", "linear_end", "linear_rate", "table"]

H, C = np.array([1.0, 0.25]), np.array([0.0, 3.0])  # the optimum is 3/5
L1 = (0.0, 0.1, 0.3, 0.9)
START = 4.0


def linear_rate(l2: float) -> float:
    """The share of the distance that a round leaves, without l1."""
    return 1 - float((H / (H + l2)).mean())


def linear_end(l2: float) -> float:
    """The point at which it ends without l1."""
    p = H / (H + l2)
    return float((p * C).sum() / p.sum())


def end_from_the_right(l1: float, l2: float) -> float:
    """The largest theta with mean delta_k = 0: on one of the pieces between the points c_k +- lambda_1/h_k, where it is linear."""
    kinks = np.unique(np.concatenate([C - l1 / H, C + l1 / H]))
    pieces = zip([-np.inf, *kinks], [*kinks, np.inf], strict=True)
    found = []
    for low, high in pieces:
        at = kinks[0] - 1 if low == -np.inf else kinks[-1] + 1 if high == np.inf else (low + high) / 2
        signs = np.sign(at - C) * (np.abs(at - C) > l1 / H)  # of the clients that move there
        slope, level = (np.abs(signs) * H / (H + l2)).sum(), ((np.abs(signs) * H * C + l1 * signs) / (H + l2)).sum()
        zero = high if slope == 0 else level / slope  # nobody moves: all of the piece is at rest
        if low - 1e-12 <= zero <= high + 1e-12:
            found.append(float(zero))
    return max(found)


def compute(rounds: int = 200, ratios: int = 9) -> dict[str, Any]:
    """Runs from 4 for every lambda_1 and lambda_2/beta: the path of one lambda_2, and every end and rate, beside the closed forms."""
    problem = Quadratic(H[:, None, None], C[:, None])
    star = float((H * C).sum() / H.sum())
    values = [float(v) for v in np.geomspace(0.05, 20, ratios)]
    paths, ends = {}, []
    for l1 in L1:
        for l2 in [*values, 1.0]:
            enough = max(rounds, int(60 / (1 - linear_rate(l2))))
            run = simulate(problem, FedElasticNetProx(l1, l2, "cohort"), enough, np.array([START]), keep_states=True, record=())
            x = run.server_models()[:, 0, 0]
            gaps = np.abs(x - x[-1])
            steady = np.nonzero(gaps > 1e-6 * gaps[0])[0]
            n = int(steady[-1]) if len(steady) else 0  # the last round before it is at rest
            rate = float(gaps[n] / gaps[n - 1]) if n > 1 else 0.0
            ends.append({"l1": l1, "l2": l2, "end": float(x[-1]), "bias": abs(float(x[-1]) - star), "rate": rate})
            if l2 == 1.0:
                paths[l1] = np.abs(x[:60] - star)
    closed = [
        {"l2": v, "rate": linear_rate(v), "bias": abs(linear_end(v) - star), "ends": [end_from_the_right(l1, v) for l1 in L1]}
        for v in values
    ]
    of_each = [paths[l1] for l1 in L1]
    return {"star": star, "ends": ends, "closed": closed, "paths": of_each, "values": values}


def table(data: dict[str, Any]) -> Table:
    rows = []
    for c in data["closed"][:: max(1, len(data["closed"]) // 5)]:
        found = {e["l1"]: e for e in data["ends"] if e["l2"] == c["l2"]}
        cells = [c["l2"], c["rate"], found[0.0]["rate"], c["bias"], *(found[v]["bias"] for v in L1)]
        rows.append(tuple(map(number, cells)))
    ends = (f"distance, l1 = {v:g}" for v in L1)
    headings = ("lambda_2/beta", "rate, formula", "rate, l1 = 0", "distance, formula", *ends)
    return Table(headings, rows, f"distance of the end to the optimum {data['star']:g}; the formulas are for l1 = 0")


def finding(data: dict[str, Any]) -> list[str]:
    ends = {(e["l1"], e["l2"]): e for e in data["ends"]}
    off = max(abs(ends[l1, c["l2"]]["end"] - x) for c in data["closed"] for l1, x in zip(L1, c["ends"], strict=True))
    first, last, most = data["closed"][0], data["closed"][-1], max(L1)
    rests = [ends[most, c["l2"]]["bias"] for c in data["closed"]]
    less = [l1 for l1 in L1[1:] if all(ends[l1, c["l2"]]["bias"] < c["bias"] for c in data["closed"])]
    said = [
        f"Runs end where the closed form says (to {number(off)}). Without l1 a larger lambda_2 lessens the bias, from "
        f"{number(first['bias'])} to {number(last['bias'])}, and slows the rate from {number(first['rate'])} to {number(last['rate'])} "
        "a round.",
        f"With lambda_1 = {most:g} the run from {START:g} ends at least {number(min(rests))} from the optimum for every lambda_2: "
        "it rests where no client's gradient exceeds lambda_1.",
    ]
    if less:
        words = " or ".join(f"{v:g}" for v in less)
        said.append(f"A small lambda_1 ({words}) lessens the bias here: it holds back two clients who pull apart. None removes it.")
    return said


def draw(data: dict[str, Any]) -> Figure:
    """Left: the path for lambda_2 = beta. Right: the end's distance to the optimum against lambda_2, dots on the closed form."""
    figure, axes = page_figure(1, 2, ratio=0.8, more=0.3)
    path, end = axes[0]
    colours = ("#000000", "#56B4E9", "#0072B2", "#D55E00")
    for l1, walked, colour in zip(L1, data["paths"], colours, strict=True):
        path.plot(walked, color=colour, label=f"λ₁ = {l1:g}")
        found = [e for e in data["ends"] if e["l1"] == l1 and e["l2"] in data["values"]]
        end.plot([e["l2"] for e in found], [e["bias"] for e in found], "o", color=colour, markersize=4.5, label=f"λ₁ = {l1:g}")
    for n, colour in enumerate(colours):
        label = "closed form" if n == 0 else None
        y = [abs(c["ends"][n] - data["star"]) for c in data["closed"]]
        end.plot(data["values"], y, color=colour, linewidth=1, label=label)
    path.set(xlabel="rounds", ylabel=r"$|\theta_t-\theta_*|$", title="the path, λ₂ = β", ylim=(0, None))
    end.set(xscale="log", xlabel="λ₂/β", title="distance of the end to the optimum")
    end.set_ylim(bottom=0)
    path.legend(), end.legend()
    headline(
        figure, "Algorithm 1 ends beside the optimum: λ₂ lessens the bias and slows it down, λ₁ moves the end or stops it",
        "two clients, h = (1, 1/4), c = (0, 3), everyone takes part, start 4; the optimum is 0.6",
    )
    return figure
