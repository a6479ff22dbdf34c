"""Clients that leave and arrive: steps that go on or start afresh, and anchors that stay."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from fedtheory.algorithms.efl import EFL
from fedtheory.local import InverseTime, LocalSGD
from fedtheory.participation.irregular import complete, windows
from fedtheory.plotting.style import GREY, band, headline, legend_below, middle, page_figure, times
from fedtheory.problems import random_quadratic
from fedtheory.simulation.simulate import simulate

__all__ = ["Restarted", "caption", "compute", "draw"]


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


def compute(rounds: int = 500, scenarios: int = 30, seed: int = 0) -> dict[str, Any]:
    """Distances to the optimum before ('old') and after ('new') a shift in the middle of the run,
    as `middle` has them.

    ``far``: a client with other data leaves. ``near``: one with similar data arrives. ``stale``: as
    far, elastic term, full gradients, with the departed client's anchor removed and kept.
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
        runs: dict[str, tuple[EFL, Callable[[int], float]]]
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
                which: middle(np.linalg.norm(models - star, axis=-1)) for which, star in (("old", before), ("new", after))
            }
        out[name] = panel
    return out


LOOKS = {  # name -> (label, colour, line style)
    "continue": ("steps go on decaying", "#0072B2", "-"),
    "restart": ("steps start afresh", "#E69F00", "-"),
    "remove": ("departed client's anchor removed", "#009E73", "-"),
    "stale": ("departed client's anchor kept", "#CC79A7", "-"),
}
SHIFTS = {
    "far": "far: a client with\nother data leaves",
    "near": "near: one with\nsimilar data arrives",
    "stale": "far, with the\nelastic term",
}


def _last(data: dict[str, Any], panel: str, key: str) -> float:
    """Median distance to the new optimum over the last tenth of the run."""
    new = np.asarray(data[panel][key]["new"]["middle"])
    return float(np.median(new[-max(1, data["rounds"] // 10) :]))


def caption(data: dict[str, Any]) -> str:
    """Say what each choice leaves at the end."""
    ends = {(p, k): _last(data, p, k) for p in SHIFTS for k in data[p] if k != "shift"}
    return (
        f"Distance to the optimum, which moves at round {data['at']}: by {data['far']['shift']:.2g} (far) or "
        f"{data['near']['shift']:.2g} (near). Over the last tenth of the run it is {ends['far', 'continue']:.2g} where steps go on "
        f"decaying and {ends['far', 'restart']:.2g} where they start afresh (far), {ends['near', 'continue']:.2g} and "
        f"{ends['near', 'restart']:.2g} (near); with the elastic term {ends['stale', 'remove']:.2g} where the departed client's anchor "
        f"is removed, {ends['stale', 'stale']:.2g} where it is kept. Median and middle 80 % of {data['scenarios']} runs; without noise "
        "on the right."
    )


def draw(data: dict[str, Any]) -> Figure:
    """A large shift, a small one, and anchors that stay: the distance to whichever optimum is the present one."""
    figure, axes = page_figure(1, 3, ratio=1.15, more=0.35, sharey=True)
    t, at = np.arange(data["rounds"] + 1), data["at"]
    for ax, (name, title) in zip(axes[0], SHIFTS.items()):
        panel = data[name]
        for i, (key, curve) in enumerate((k, v) for k, v in panel.items() if k != "shift"):
            label, colour, line = LOOKS[key]
            if i == 0:
                band(ax, t[1:at], {end: v[1:at] for end, v in curve["old"].items()}, color=GREY, label="before the shift")
            band(ax, t[at - 1 :], {end: v[at - 1 :] for end, v in curve["new"].items()}, color=colour, linestyle=line, label=label)
        ax.axvline(at, color=GREY, linewidth=0.8, linestyle=":")
        ax.set(yscale="log", xlabel="rounds", title=title)
        ax.minorticks_off()
    axes[0, 0].set_ylabel("distance to the present optimum")
    legend_below(figure, axes[0], 3)
    gain, loss = (_last(data, p, "restart") / _last(data, p, "continue") for p in ("far", "near"))
    kept = _last(data, "stale", "stale") / _last(data, "stale", "remove")
    headline(
        figure,
        f"A fresh start of the steps divides the error by {times(1 / gain)} after a large move and multiplies it by {times(loss)} "
        f"after a small one; an anchor that stays multiplies it by {times(kept)}",
        f"EFL on quadratics, N = {data['clients']}, E = 2, the optimum moves at round {at}; left and middle: gradient noise, "
        f"{data['scenarios']} runs, median and middle 80 %; right: λ = 0.2, full gradients, one run",
    )
    return figure
