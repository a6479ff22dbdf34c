"""EFL at work in pictures: what the readings of its compression keep as bias, error against bits, clients that leave and arrive."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from fedtheory.algorithms import FedAvg, FedElasticNetProx
from fedtheory.algorithms.base import Algorithm
from fedtheory.algorithms.efl import EFL
from fedtheory.algorithms.feedback import debt, debt_after
from fedtheory.clients.clients import Clients
from fedtheory.errors import Diverged
from fedtheory.local import GradientSteps, InverseTime, LocalSGD
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
from fedtheory.participation.irregular import complete, incomplete, windows
from fedtheory.plotting.style import headline, new_figure
from fedtheory.problems import random_logistic, random_quadratic
from fedtheory.problems.base import Problem
from fedtheory.simulation.simulate import simulate

__all__ = [
    "COMPRESSORS",
    "VARIANTS",
    "compute_bits",
    "compute_plateaus",
    "compute_shift",
    "draw_bits",
    "draw_plateaus",
    "draw_shift",
]

# Label -> (hyperparameters, colour, line style)
VARIANTS: dict[str, tuple[dict[str, Any], str, Any]] = {
    "no compression": ({"variant": "none"}, "#999999", "-"),
    "consistent": ({}, "#0072B2", "-"),
    "consistent, but scaled after ST": ({"scale": "after"}, "#56B4E9", (0, (4, 2))),
    "as in the text": ({"variant": "text"}, "#E69F00", "-"),
    "as in the text, clients add what they get": ({"variant": "text-received"}, "#CC79A7", "-"),
    "literal formulas": ({"variant": "literal"}, "#D55E00", "-"),
}


# --- plateaus ------------------------------------------------------------------------------------------------------------
def compute_plateaus(rounds: int = 600, scenarios: int = 4, seed: int = 0, q: float = 0.3) -> dict[str, Any]:
    """Distance to the optimum under every reading of EFL's compression.

    ``constant``: of the mean iterate over the rounds t/2..t, constant steps. ``decaying``: of the iterate, steps that decay.
    """
    clients, dim, steps = 6, 10, 2
    problem = random_quadratic(clients, dim, condition=3.0, heterogeneity=1.0, seed=seed)
    star, sampling = problem.optimum().x, incomplete(clients, steps, [0, 0.5, 0.5])
    horizons = np.unique(np.round(np.geomspace(2, rounds, 50)).astype(int))
    curves = {}
    for name, (options, _, _) in VARIANTS.items():
        squeeze = {} if options.get("variant") == "none" else {"compressor": ST(q), "down_compressor": ST(q)}
        method = EFL(scheme="C", **squeeze, **options)
        models = []
        for lr in (0.1, InverseTime(0.2, 50.0)):
            run = simulate(
                problem, method, rounds, None, sampling, scenarios, seed, LocalSGD(steps, lr), (), keep_states=True
            )
            models.append(run.server_models())
        sums = np.concatenate([np.zeros_like(models[0][:1]), np.cumsum(models[0], axis=0)])
        half = horizons // 2
        window = (sums[horizons + 1] - sums[half]) / (horizons + 1 - half)[:, None, None]
        curves[name] = {
            "constant": np.linalg.norm(window - star, axis=-1).mean(axis=1),
            "decaying": np.linalg.norm(models[1][horizons] - star, axis=-1).mean(axis=1),
        }
    return {"curves": curves, "horizons": horizons, "clients": clients, "dim": dim, "E": steps, "q": q, "scenarios": scenarios}


def draw_plateaus(data: dict[str, Any]) -> Figure:
    """Left: mean iterates at constant steps. Right: iterates at decaying steps."""
    figure, axes = new_figure(11.5, 5.0, 1, 2, sharey=True)
    titles = {"constant": "constant steps: mean of the rounds τ/2..τ", "decaying": "decaying steps: the model itself"}
    for ax, (name, title) in zip(axes[0], titles.items()):
        for label, (_, colour, style) in VARIANTS.items():
            y = data["curves"][label][name]
            ax.plot(data["horizons"], y, color=colour, linestyle=style, linewidth=2.3, label=label)
        ax.set(xscale="log", yscale="log", xlabel="rounds τ", title=title)
        ax.minorticks_off()
    axes[0, 0].set_ylabel("distance to the optimum")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    headline(
        figure,
        "With constant steps every reading of the print keeps a bias; with decaying ones the text's shrinks, but slowly",
        f"EFL, scheme C, s = 1 or {data['E']} of E = {data['E']} steps, ST with q = {data['q']:g} both ways; "
        f"quadratics, N = {data['clients']}, d = {data['dim']}, mean of {data['scenarios']} runs",
    )
    return figure


# --- bits ----------------------------------------------------------------------------------------------------------------
COMPRESSORS: dict[str, tuple[Compressor, str]] = {
    "ST, q = 0.1": (ST(0.1), "#D55E00"),
    "top-k, k = d/10": (TopK(q=0.1), "#E69F00"),
    "random-k, k = d/10": (RandomK(q=0.1), "#E69F00"),
    "scaled sign": (ScaledSign(), "#009E73"),
    "QSGD, 10 levels": (QSGD(10), "#0072B2"),
    "natural rounding": (NaturalRounding(), "#56B4E9"),
    "stochastic rounding": (StochasticRounding(), "#CC79A7"),
    "threshold 0.003": (Threshold(0.003), "#999999"),
}
DASHED = ("random-k, k = d/10",)  # has top-k's colour: the palette's yellow is not seen as a line on white
L1_VALUES = (0.03, 0.01, 0.003, 0.0)
_SPARSE = Threshold(0.0)  # the nonzeros as they are: positions and floats


@dataclass
class SparseWire:
    """Counts what FedElasticNet's messages take on a sparse wire, both ways; give ``count`` to `simulate` as on_round.

    Up: each client's update without its zeros. Down: the server's step without its zeros to everybody who was there, and what was
    missed to those who were not, never more than a dense model.

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
        down = np.take_along_axis(owed, clients.cohort.members, axis=1).sum(axis=1)
        self.owed = debt_after(clients, owed, np.asarray(_SPARSE.bits(new.x - old.x)), dim)
        self.bits.append(up + down + (self.bits[-1] if self.bits else 0))


def _curve(problem: Problem, method: Algorithm, rounds: int, cohort: int, seed: int) -> dict[str, Any]:
    """Suboptimality and all bits so far, after every round; what diverges is cut off."""
    solver = GradientSteps(5, 0.1 / problem.constants().beta, l1="prox")
    sparse = SparseWire([])
    counts = {"on_round": sparse.count} if isinstance(method, FedElasticNetProx) else {}
    try:
        run = simulate(problem, method, rounds, None, Uniform(cohort), 1, seed, solver, ("suboptimality", "bits"), **counts)
    except Diverged:
        return {"diverged": True, "bits": np.zeros(1), "error": np.zeros(1)}
    bits = np.stack(sparse.bits)[:, 0] if counts else run.metrics["bits"][1:, 0]
    return {"diverged": False, "bits": bits / 1e6, "error": run.metrics["suboptimality"][1:, 0]}


def compute_bits(rounds: int = 120, seed: int = 0, target: float = 0.01) -> dict[str, Any]:
    """Error against bits, both ways: FedAvg with every compressor, with and without error feedback; FedElasticNet; EFL.

    ``target``: the suboptimality of which ``needed`` says the Mbit, None where it is not reached, with the round's number.
    """
    clients, cohort, dim = 20, 10, 100
    problem = random_logistic(clients, dim, samples=40, condition=10.0, heterogeneity=1.0, ridge=0.05, seed=seed)
    squeeze = {"compressor": ST(0.1), "down_compressor": ST(0.1)}
    methods: dict[str, Algorithm] = {"FedAvg, dense": FedAvg("cohort", "update")}
    for name, (c, _) in COMPRESSORS.items():
        plain = FedAvg("cohort", "update", c, c, client_feedback=False, server_feedback=False)
        methods |= {f"{name}, feedback": replace(plain, client_feedback=True, server_feedback=True), f"{name}, none": plain}
    methods |= {f"FedElasticNet, λ₁ = {v:g}": FedElasticNetProx(v, 1.0, "cohort") for v in L1_VALUES}
    methods["EFL, ST, elastic term (λ = 0.1)"] = EFL(scheme="A", lam=0.1, **squeeze)  # type: ignore[arg-type]
    curves = {name: _curve(problem, method, rounds, cohort, seed) for name, method in methods.items()}
    needed: dict[str, float | None] = {}
    for name, curve in curves.items():
        hit = np.nonzero(curve["error"] <= target)[0]
        needed[name] = None if curve["diverged"] or not len(hit) else float(curve["bits"][hit[0]])
    return {
        "curves": curves,
        "needed": needed,
        "target": target,
        "rounds": rounds,
        "clients": clients,
        "cohort": cohort,
        "dim": dim,
    }


def _bits_panel(ax: Any, data: dict[str, Any], suffix: str) -> None:
    curves = data["curves"]
    for name, (_, colour) in COMPRESSORS.items():
        c = curves[f"{name}, {suffix}"]
        ax.plot(c["bits"], c["error"], color=colour, linestyle=(0, (3, 1.5)) if name in DASHED else "-", label=name)
        ax.plot(c["bits"][-1:], c["error"][-1:], "o", color=colour, markersize=4)
    for i, value in enumerate(L1_VALUES):
        c = curves[f"FedElasticNet, λ₁ = {value:g}"]
        label = "FedElasticNet, λ₁ = " + ", ".join(f"{v:g}" for v in L1_VALUES) if i == 0 else None
        ax.plot(c["bits"], c["error"], color="black", linewidth=1.2 + 0.4 * (len(L1_VALUES) - i), alpha=1 - 0.2 * i, label=label)
    c = curves["FedAvg, dense"]
    ax.plot(c["bits"], c["error"], color="black", linestyle=":", linewidth=1.6, label="FedAvg, dense")
    ax.axhline(data["target"], color="#555555", linewidth=0.8, linestyle="--")
    ax.set(xscale="log", yscale="log", xlabel="Mbit sent so far, both ways, all clients")
    ax.minorticks_off()


def _needed_panel(ax: Any, data: dict[str, Any]) -> None:
    """Bars: bits to the target, with and without feedback."""
    needed = data["needed"]
    rows: list[tuple[str, list[tuple[str, str, float]]]] = []
    for name, (_, colour) in COMPRESSORS.items():
        rows.append((name, [(f"{name}, feedback", colour, 1.0), (f"{name}, none", colour, 0.4)]))
    rows.append(("EFL, ST, elastic term", [("EFL, ST, elastic term (λ = 0.1)", "#F0E442", 1.0)]))
    rows += [(n, [(n, "black", 0.85)]) for n in needed if n.startswith("FedElasticNet")]
    rows.append(("FedAvg, dense", [("FedAvg, dense", "#777777", 1.0)]))
    ends = [v for v in needed.values() if v is not None]
    left = min(ends, default=1.0) / 3
    for y, (_, bars) in enumerate(rows):
        height = 0.8 / len(bars)
        for j, (key, colour, alpha) in enumerate(bars):
            at = y - 0.4 + height * (j + 0.5)
            value = needed[key]
            if value is None:
                said = "diverges" if data["curves"][key]["diverged"] else "not reached"
                ax.text(left * 1.1, at, said, va="center", fontsize=7, color="#777777")
            else:
                edge = "#555555" if colour == "#F0E442" else "none"  # yellow has no edge of its own on white
                ax.barh(at, value - left, height * 0.9, left=left, color=colour, alpha=alpha, edgecolor=edge)
                ax.text(value * 1.07, at, f"{value:.2g}", va="center", fontsize=7)
    ax.set_yticks(range(len(rows)), [label for label, _ in rows], fontsize=8)
    ax.invert_yaxis()
    ax.set(xscale="log", xlim=(left, max(ends, default=1.0) * 3), xlabel="Mbit")
    ax.set_title(f"Mbit until F − F⋆ ≤ {data['target']:g} (pale: without feedback)", fontsize=9)
    ax.grid(axis="y", visible=False)
    ax.minorticks_off()


def _verdict(needed: dict[str, float | None], target: float) -> str:
    """The reviewers' question, answered by the data: the best compressor with feedback against the best lambda_1."""
    fed = {name: v for name in COMPRESSORS if (v := needed[f"{name}, feedback"]) is not None}
    nets = {value: v for value in L1_VALUES if (v := needed[f"FedElasticNet, λ₁ = {value:g}"]) is not None}
    if not fed or not nets:
        return "Neither was shown to need fewer bits: " + ("no λ₁" if fed else "no compressor") + f" reaches {target:g}"
    best, value = min(fed, key=lambda k: fed[k]), min(nets, key=lambda k: nets[k])
    ratio = nets[value] / fed[best]
    ours, theirs = f"FedAvg + {best} + error feedback", f"FedElasticNet (best λ₁: {value:g})"
    if ratio >= 1:
        return f"To {target:g}, {ours} needs {ratio:.0f} times fewer bits than {theirs}"
    return f"To {target:g}, {theirs} needs {1 / ratio:.1f} times fewer bits than {ours}"


def draw_bits(data: dict[str, Any]) -> Figure:
    """With feedback, without it, and the bits to one accuracy."""
    figure, axes = new_figure(14.5, 5.9, 1, 3)
    for ax, suffix, title in zip(axes[0], ("feedback", "none"), ("with error feedback", "without error feedback")):
        _bits_panel(ax, data, suffix)
        ax.set_title(f"FedAvg + compressor, {title}")
    axes[0, 0].set_ylabel("suboptimality")
    worst = max(float(c["error"][0]) for c in data["curves"].values())
    least = min(float(c["error"].min()) for c in data["curves"].values() if not c["diverged"])
    for ax in axes[0, :2]:
        ax.set_ylim(least / 2, worst * 3)
    _needed_panel(axes[0, 2], data)
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=5)

    def lowest(begins: str) -> float:
        return min(float(c["error"].min()) for n, c in data["curves"].items() if n.startswith(begins) and not c["diverged"])

    headline(
        figure,
        _verdict(data["needed"], data["target"]),
        f"logistic regression, d = {data['dim']}, {data['cohort']} of {data['clients']} clients a round, 5 local steps, λ₂ = 1, "
        f"{data['rounds']} rounds; downlink with catch-up; the elastic term costs 2d floats more each way.  "
        f"Least error: ST {lowest('ST'):.1g}, QSGD {lowest('QSGD'):.1g}, FedElasticNet {lowest('FedElastic'):.1g}",
    )
    return figure


# --- departure and arrival -----------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Restarted:
    """A schedule that starts again in one round."""

    schedule: InverseTime
    at: int

    def __call__(self, round_index: int) -> float:
        return self.schedule(round_index if round_index < self.at else round_index - self.at + 1)


def _optimum(problem: Any, who: slice) -> np.ndarray:
    h = problem.hessians[who]
    return np.linalg.solve(h.sum(axis=0), np.einsum("nij,nj->i", h, problem.minimisers[who]))


def compute_shift(rounds: int = 500, scenarios: int = 30, seed: int = 0) -> dict[str, Any]:
    """Root mean square distances to the optimum before and after a shift in the middle of the run.

    ``far``: a client with other data leaves. ``near``: one with similar data arrives. ``stale``: as far, elastic term, full gradients,
    with the departed client's anchor removed and kept.
    """
    n, dim, at = 5, 2, rounds // 2
    base = random_quadratic(n, dim, condition=2.0, heterogeneity=0.5, seed=seed)
    schedule = InverseTime(0.25, 10.0)
    out: dict[str, Any] = {"rounds": rounds, "at": at, "scenarios": scenarios, "clients": n}
    for name, offset, window, noise in (
        ("far", 5.0, (None, at), 0.5),
        ("near", 0.1, (at, None), 0.5),
        ("stale", 5.0, (None, at), 0.0),
    ):
        minimisers = base.minimisers.copy()
        minimisers[-1] = minimisers[:-1].mean(axis=0) + offset / np.sqrt(dim)
        problem = type(base)(base.hessians, minimisers)
        every, others = _optimum(problem, slice(None)), _optimum(problem, slice(-1))
        before, after = (every, others) if window[0] is None else (others, every)
        sampling = windows(complete(n, 2), {n - 1: window})
        if name == "stale":
            runs = {kept: (EFL(lam=0.2, departed=kept), Restarted(schedule, at)) for kept in ("remove", "stale")}
        else:
            runs = {"continue": (EFL(), schedule), "restart": (EFL(), Restarted(schedule, at))}
        panel: dict[str, Any] = {"shift": float(np.linalg.norm(before - after))}
        for key, (method, lr) in runs.items():
            solver = LocalSGD(2, lr, noise_std=noise)
            run = simulate(
                problem, method, rounds, None, sampling, scenarios if noise else 1, seed, solver, (), keep_states=True
            )
            models = run.server_models()
            panel[key] = {
                which: np.sqrt(((models - star) ** 2).sum(axis=-1).mean(axis=1)) for which, star in (("old", before), ("new", after))
            }
        out[name] = panel
    return out


def draw_shift(data: dict[str, Any]) -> Figure:
    """A large shift, a small one, and anchors that stay."""
    figure, axes = new_figure(13.5, 4.7, 1, 3)
    t = np.arange(data["rounds"] + 1)
    looks = {"continue": ("steps go on decaying", "#0072B2"), "restart": ("steps start afresh", "#E69F00")}
    looks |= {"remove": ("anchor removed", "#0072B2"), "stale": ("stale anchor kept", "#D55E00")}
    titles = {
        "far": "a client with other data leaves: a fresh start helps",
        "near": "one with similar data arrives: a fresh start hurts",
        "stale": "elastic term: the departed client's anchor",
    }
    for ax, (name, title) in zip(axes[0], titles.items()):
        panel = data[name]
        for i, (key, curve) in enumerate((k, v) for k, v in panel.items() if k != "shift"):
            label, colour = looks[key]
            if i == 0:
                ax.plot(t[1:], curve["old"][1:], color="#999999", linewidth=1.4, linestyle="--", label=f"to the old optimum, {label}")
            new = np.where(t >= data["at"] - 1, curve["new"], np.nan)
            ax.plot(t, new, color=colour, label=f"to the new optimum, {label}")
        ax.axvline(data["at"], color="#555555", linewidth=0.8, linestyle=":")
        ax.set(yscale="log", xlabel="rounds", title=title)
        ax.minorticks_off()
        ax.legend(loc="upper left", bbox_to_anchor=(0, -0.16))
    axes[0, 0].set_ylabel("root mean square distance")
    headline(
        figure,
        "With noise, a fresh start helps after a large move of the optimum and hurts after a small one; an anchor that stays biases",
        f"EFL on quadratics, N = {data['clients']}, E = 2, shift at round {data['at']}; left and middle: gradient noise, "
        f"{data['scenarios']} runs; right: λ = 0.2, full gradients",
    )
    return figure
