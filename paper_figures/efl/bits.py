"""Error against bits on the wire: compressors with and without error feedback, FedElasticNet's sparse updates, and EFL."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from fedtheory.algorithms import Compressed, FedAvg, FedElasticNetProx
from fedtheory.algorithms.base import Algorithm
from fedtheory.algorithms.efl import EFL
from fedtheory.algorithms.feedback import debt, debt_after
from fedtheory.clients.clients import Clients
from fedtheory.errors import Diverged
from fedtheory.local import GradientSteps
from fedtheory.messages import (
    QSGD,
    ST,
    Compressor,
    NaturalRounding,
    RandomK,
    ScaledSign,
    StochasticRounding,
    Threshold,
    TopK,
)
from fedtheory.participation.cohorts import Uniform
from fedtheory.plotting.style import GREY, METHOD_COLOURS, band, headline, legend_below, page_figure
from fedtheory.problems import random_logistic
from fedtheory.problems.base import Problem
from fedtheory.simulation.simulate import simulate

__all__ = ["COMPRESSORS", "L1_VALUES", "SparseWire", "caption", "compute", "draw", "verdict"]

COMPRESSORS: dict[str, Compressor] = {
    "ST, q = 0.1": ST(0.1),
    "scaled sign": ScaledSign(),
    "QSGD, 10 levels": QSGD(10),
    "top-k, k = d/10": TopK(q=0.1),
    "random-k, k = d/10": RandomK(q=0.1),
    "natural rounding": NaturalRounding(),
    "stochastic rounding": StochasticRounding(),
    "threshold 0.003": Threshold(0.003),
}
L1_VALUES = (0.03, 0.01, 0.003, 0.0)
EFL_NAME, DENSE = "EFL, ST, elastic term (λ = 0.1)", "FedAvg, dense"
# What the curves show, name -> (colour, marker): with all of them a reader sees none; the lower
# panel has everything.
CURVES = {"ST, q = 0.1": ("#D55E00", "o"), "scaled sign": ("#CC79A7", "^"), "QSGD, 10 levels": ("#56B4E9", "D")}
_SPARSE = Threshold(0.0)  # the nonzeros as they are: positions and floats
_POINTS = 100  # of a curve


def net(value: float) -> str:
    """Name FedElasticNet for FedProx with this lambda_1."""
    return f"FedElasticNet, λ₁ = {value:g}"


@dataclass
class SparseWire:
    """Counts what FedElasticNet's messages take on a sparse wire, both ways; give ``count`` to
    `simulate` as on_round.

    Up: each client's update without its zeros. Down: the server's step without its zeros to
    everybody who was there, and what was missed to those who were not, never more than a dense
    model.

    Attributes
    ----------
    bits : list of (S,) cumulative totals, one a round
    """

    bits: list[np.ndarray]
    owed: np.ndarray | None = None

    def count(self, round_index: int, old: Any, new: Any, clients: Clients) -> None:
        """One round."""
        dim = old.x.shape[1]
        owed = debt(old.x, clients.num_clients) if self.owed is None else self.owed
        dense = clients.float_bits * dim
        up = np.minimum(_SPARSE.bits(clients.sent[0]), dense).sum(axis=1)
        down = np.take_along_axis(owed, np.asarray(clients.cohort.members), axis=1).sum(axis=1)
        self.owed = debt_after(clients, owed, np.asarray(_SPARSE.bits(new.x - old.x)), dim)
        self.bits.append(up + down + (self.bits[-1] if self.bits else 0))


def _curve(problem: Problem, method: Algorithm, rounds: int, cohort: int, seed: int, scenarios: int) -> dict[str, Any]:
    """Suboptimality and all bits so far after every round (rounds, S); what diverges is cut off."""
    solver = GradientSteps(5, 0.1 / problem.constants().beta, l1="prox")
    sparse = SparseWire([])
    counts: dict[str, Any] = {"on_round": sparse.count} if isinstance(method, FedElasticNetProx) else {}
    try:
        run = simulate(
            problem, method, rounds, None, Uniform(cohort), scenarios, seed, solver, ("suboptimality", "bits"), **counts
        )
    except Diverged:
        return {"diverged": True, "bits": np.zeros((1, 1)), "error": np.zeros((1, 1))}
    bits = np.stack(sparse.bits) if counts else run.metrics["bits"][1:]
    return {"diverged": False, "bits": bits / 1e6, "error": run.metrics["suboptimality"][1:]}


def _needed(curve: dict[str, Any], target: float) -> list[float]:
    """Mbit of each seed when its error first is at most the target; inf where it never is."""
    hit = curve["error"] <= target
    found = np.take_along_axis(curve["bits"], hit.argmax(axis=0)[None], axis=0)[0]
    return np.where(hit.any(axis=0) & (not curve["diverged"]), found, np.inf).tolist()


def compute(rounds: int = 120, scenarios: int = 5, seed: int = 0, target: float = 0.01) -> dict[str, Any]:
    """Error against bits, both ways: FedAvg with every compressor, with and without error feedback;
    FedElasticNet; EFL.

    ``scenarios``: seeds of cohorts and of what compressors draw; the problem is one. ``needed``:
    Mbit of each seed to the target.
    """
    clients, cohort, dim = 20, 10, 100
    problem = random_logistic(clients, dim, samples=40, condition=10.0, heterogeneity=1.0, ridge=0.05, seed=seed)
    squeeze = {"compressor": ST(0.1), "down_compressor": ST(0.1)}
    methods: dict[str, Algorithm] = {DENSE: FedAvg("cohort", "update")}
    for name, c in COMPRESSORS.items():
        methods |= {
            f"{name}, {word}": Compressed(FedAvg("cohort"), up=c, down=c, feedback=kept)
            for word, kept in (("feedback", True), ("none", False))
        }
    methods |= {net(v): FedElasticNetProx(v, 1.0, "cohort") for v in L1_VALUES}
    methods[EFL_NAME] = EFL(scheme="A", lam=0.1, **squeeze)  # type: ignore[arg-type]
    curves = {name: _curve(problem, method, rounds, cohort, seed, scenarios) for name, method in methods.items()}
    needed = {name: _needed(curve, target) for name, curve in curves.items()}
    keep = np.unique(np.round(np.geomspace(1, rounds, _POINTS)).astype(int)) - 1
    for curve in curves.values():
        if not curve["diverged"]:
            curve |= {"bits": np.median(curve["bits"], axis=1)[keep], "error": curve["error"][keep]}
    shape = {"rounds": rounds, "scenarios": scenarios, "clients": clients, "cohort": cohort, "dim": dim}
    return {"curves": curves, "needed": needed, "target": target, **shape}


def verdict(needed: dict[str, list[float]], target: float) -> str:
    """The reviewers' question, answered by the data: the best compressor with feedback against the best lambda_1 > 0."""
    median = {name: float(np.median(v)) for name, v in needed.items()}
    fed = {name: v for name in COMPRESSORS if np.isfinite(v := median[f"{name}, feedback"])}
    nets = {value: v for value in L1_VALUES if value > 0 and np.isfinite(v := median[net(value)])}
    if not fed or not nets:
        return "Neither was shown to need fewer bits: " + ("no λ₁ > 0" if fed else "no compressor") + f" reaches {target:g}"
    best, value = min(fed, key=lambda k: fed[k]), min(nets, key=lambda k: nets[k])
    ratio = nets[value] / fed[best]
    ours, theirs = f"FedAvg with {best} and error feedback", f"FedElasticNet at its best λ₁ > 0 ({value:g})"
    if ratio >= 1:
        return f"To {target:g}, {ours} needs {ratio:.0f} times fewer bits than {theirs}"
    return f"To {target:g}, {theirs} needs {1 / ratio:.1f} times fewer bits than {ours}"


def caption(data: dict[str, Any]) -> str:
    """The verdict, what the l1 term itself saves, and what does not get there."""
    median = {name: float(np.median(v)) for name, v in data["needed"].items()}
    nets = {value: median[net(value)] for value in L1_VALUES if value > 0}
    best = min(nets, key=lambda k: nets[k])
    ratio = nets[best] / median[net(0.0)]
    saved = f"needs {ratio:.2f} times the bits of λ₁ = 0" if np.isfinite(ratio) else "or λ₁ = 0 does not get there at all"
    never = [name for name, v in median.items() if not np.isfinite(v)]
    ends = {", none": " without feedback", ", feedback": " with feedback"}
    missing = "; ".join(next((n.removesuffix(e) + words for e, words in ends.items() if n.endswith(e)), n) for n in never)
    return (
        f"{verdict(data['needed'], data['target'])}. The ℓ₁ term by itself: the best λ₁ > 0 ({best:g}) {saved}. "
        f"Median of {data['scenarios']} runs, which differ in cohorts and in what compressors draw. "
        + (f"Not reached within {data['rounds']} rounds: {missing}." if never else "")
    )


def _curves(ax: Any, data: dict[str, Any], suffix: str, best: float) -> None:
    curves = data["curves"]
    lines: dict[str, tuple[Any, dict[str, Any]]]
    lines = {f"FedAvg, {name}": (f"{name}, {suffix}", {"color": c, "marker": m}) for name, (c, m) in CURVES.items()}
    lines |= {
        net(best): (net(best), {"color": METHOD_COLOURS["algorithm-1"], "marker": "s"}),
        net(0.0): (net(0.0), {"color": METHOD_COLOURS["algorithm-1"], "linestyle": (0, (3, 1.5))}),
        DENSE: (DENSE, {"color": METHOD_COLOURS["fedavg"], "linestyle": ":"}),
        EFL_NAME: (EFL_NAME, {"color": METHOD_COLOURS["efl"], "marker": "P"}),
    }
    for n, (label, (key, look)) in enumerate(lines.items()):
        if not curves[key]["diverged"]:
            band(ax, curves[key]["bits"], curves[key]["error"], label=label, markevery=(3 * n, 25), **look)
    ax.axhline(data["target"], color=GREY, linewidth=0.8, linestyle="--")
    ax.set(xscale="log", yscale="log", xlabel="Mbit so far, both ways, all clients")


def _dots(ax: Any, data: dict[str, Any]) -> None:
    """Mbit to the target: a row a method, filled with feedback, hollow without, a line from the
    least to the most of the seeds."""
    needed, rows = data["needed"], [DENSE, *(net(v) for v in reversed(L1_VALUES)), EFL_NAME]
    colours = {EFL_NAME: METHOD_COLOURS["efl"], **{f"FedAvg, {name}": colour for name, (colour, _) in CURVES.items()}}
    order = sorted(COMPRESSORS, key=lambda name: -min(np.median(needed[f"{name}, {s}"]) for s in ("feedback", "none")))
    at = {name: [(name, 0.0, True)] for name in rows}
    at |= {f"FedAvg, {name}": [(f"{name}, feedback", 0.2, True), (f"{name}, none", -0.2, False)] for name in order}
    ends = [v for values in needed.values() for v in values if np.isfinite(v)] or [1.0]
    for y, (label, entries) in enumerate(at.items()):
        colour = colours.get(label, METHOD_COLOURS["algorithm-1" if label.startswith("FedElasticNet") else "fedavg"])
        said, both = [], sum(np.isfinite(np.median(needed[key])) for key, _, _ in entries) == 2
        for key, place, filled in entries:
            values, shift = np.asarray(needed[key]), place if both else 0.0
            if not np.isfinite(np.median(values)):
                words = "diverges" if data["curves"][key]["diverged"] else "not reached"
                said.append(words if len(entries) == 1 else f"{'with' if filled else 'without'}: {words}")
                continue
            seen = values[np.isfinite(values)]
            ax.plot([seen.min(), seen.max()], [y + shift] * 2, color=colour, linewidth=1.2)
            ax.plot(np.median(values), y + shift, "o", color=colour, markersize=5, markerfacecolor=colour if filled else "white")
            ax.annotate(f"{np.median(values):.2g}", (seen.max(), y + shift), xytext=(5, 8 * shift),
                        textcoords="offset points", va="center", fontsize=6)
        ax.text(1.0, y, "; ".join(said), transform=ax.get_yaxis_transform(), ha="right", va="center", fontsize=6, color=GREY)
    ax.plot([], [], "o", color=GREY, markersize=5, label="with error feedback, or none needed")
    ax.plot([], [], "o", color=GREY, markersize=5, markerfacecolor="white", label="without error feedback")
    ax.set_yticks(range(len(at)), list(at))
    ax.set(xscale="log", xlim=(min(ends) / 1.5, max(ends) * 6), ylim=(-0.6, len(at) - 0.4))
    ax.set(xlabel=f"Mbit until F − F⋆ ≤ {data['target']:g}: median, and the range of the seeds")
    ax.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, borderaxespad=0.2)
    ax.minorticks_off()


def draw(data: dict[str, Any]) -> Figure:
    """Draw above the bits to one accuracy, below some curves, with feedback and without it."""
    figure, axes = page_figure(2, 2, ratio=0.66, more=1.4, height_ratios=(1.25, 1))
    grid = axes[0, 0].get_gridspec()
    for ax in axes[0]:
        ax.remove()
    above, lower = figure.add_subplot(grid[0, :]), axes[1]
    nets = {v: float(np.median(data["needed"][net(v)])) for v in L1_VALUES if v > 0}
    best = min(nets, key=lambda v: nets[v])
    shown = [c for n, c in data["curves"].items() if not c["diverged"] and n.rpartition(", ")[0] in (*CURVES, "FedElasticNet")]
    top, least = max(float(np.max(c["error"])) for c in shown), min(float(np.min(c["error"])) for c in shown)
    for ax, suffix, title in zip(lower, ("feedback", "none"), ("compressors with error feedback", "compressors without")):
        _curves(ax, data, suffix, best)
        ax.set(title=title, ylim=(least / 2, top * 2))
        ax.minorticks_off()
    lower[0].set_ylabel("F − F⋆, median and middle 80 %")
    _dots(above, data)
    legend_below(figure, lower, 4)
    headline(
        figure, verdict(data["needed"], data["target"]),
        f"Logistic regression, d = {data['dim']}, {data['cohort']} of {data['clients']} clients a "
        f"round, 5 local steps, λ₂ = 1, {data['rounds']} rounds, {data['scenarios']} seeds. A "
        "client that comes back is sent what it missed. EFL's elastic term takes 2d floats more "
        "each way.",
    )
    return figure
