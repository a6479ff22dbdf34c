"""What the readings of EFL's compression keep as bias."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from fedtheory.algorithms.efl import EFL
from fedtheory.local import InverseTime, LocalSGD
from fedtheory.messages import ST
from fedtheory.participation.irregular import incomplete
from fedtheory.plotting.style import band, headline, legend_below, page_figure, times
from fedtheory.problems import random_quadratic
from fedtheory.simulation.simulate import simulate

__all__ = ["VARIANTS", "caption", "compute", "draw"]

# Label -> (hyperparameters, colour, line style, marker)
VARIANTS: dict[str, tuple[dict[str, Any], str, Any, str]] = {
    "no compression": ({"variant": "none"}, "#999999", "-", ""),
    "consistent": ({}, "#0072B2", "-", "o"),
    "consistent, but scaled after ST": ({"scale": "after"}, "#56B4E9", (0, (4, 1.5)), "s"),
    "as in the text": ({"variant": "text"}, "#E69F00", "-", "^"),
    "as in the text, clients add what they get": ({"variant": "text-received"}, "#CC79A7", "-", "v"),
    "literal formulas": ({"variant": "literal"}, "#D55E00", "-", "D"),
}
LAW_NAMES = {"constant": "constant steps: mean of the rounds τ/2..τ", "decaying": "decaying steps: the model itself"}


def compute(rounds: int = 600, scenarios: int = 8, seed: int = 0, q: float = 0.3) -> dict[str, Any]:
    """Distance to the optimum under every reading of EFL's compression, by horizon and run.

    ``constant``: of the mean iterate over the rounds t/2..t, constant steps. ``decaying``: of the iterate, steps that decay.
    """
    clients, dim, steps = 6, 10, 2
    problem = random_quadratic(clients, dim, condition=3.0, heterogeneity=1.0, seed=seed)
    star, sampling = problem.optimum().x, incomplete(clients, steps, [0, 0.5, 0.5])
    horizons = np.unique(np.round(np.geomspace(2, rounds, 50)).astype(int))
    curves = {}
    for name, (options, *_) in VARIANTS.items():
        squeeze: dict[str, Any] = {} if options.get("variant") == "none" else {"compressor": ST(q), "down_compressor": ST(q)}
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
            "constant": np.linalg.norm(window - star, axis=-1),
            "decaying": np.linalg.norm(models[1][horizons] - star, axis=-1),
        }
    return {"curves": curves, "horizons": horizons, "clients": clients, "dim": dim, "E": steps, "q": q, "scenarios": scenarios}


def _ends(data: dict[str, Any]) -> dict[str, dict[str, float]]:
    """Medians at the last horizon over that of no compression."""
    last = {name: {law: float(np.median(np.asarray(c[law])[-1])) for law in LAW_NAMES} for name, c in data["curves"].items()}
    return {name: {law: v[law] / last["no compression"][law] for law in LAW_NAMES} for name, v in last.items()}


def caption(data: dict[str, Any]) -> str:
    """Say how far each reading ends from the optimum, beside no compression."""
    ends = _ends(data)
    parts = {law: ", ".join(f"{times(v[law])} ({name})" for name, v in ends.items() if name != "no compression") for law in LAW_NAMES}
    return (
        f"After {int(np.max(data['horizons']))} rounds the distance to the optimum is, as a "
        f"multiple of that without compression: with constant steps {parts['constant']}; with "
        f"decaying steps {parts['decaying']}. Median and middle 80 % of {data['scenarios']} runs."
    )


def draw(data: dict[str, Any]) -> Figure:
    """Left: mean iterates at constant steps. Right: iterates at decaying steps."""
    figure, axes = page_figure(1, 2, ratio=0.85, more=0.5, sharey=True)
    for n, (ax, (law, title)) in enumerate(zip(axes[0], LAW_NAMES.items())):
        for i, (label, (_, colour, style, marker)) in enumerate(VARIANTS.items()):
            look = {"color": colour, "linestyle": style, "marker": marker, "markevery": (3 * i + n, 18)}
            band(ax, data["horizons"], data["curves"][label][law], label=label, **look)
        ax.set(xscale="log", yscale="log", xlabel="rounds τ", title=title)
        ax.minorticks_off()
    axes[0, 0].set_ylabel("distance to the optimum")
    legend_below(figure, axes[0, :1], 3)
    ends = _ends(data)
    best, worst = (pick((v["constant"], k) for k, v in ends.items() if "text" in k or "literal" in k) for pick in (min, max))
    headline(
        figure,
        f"EFL as printed keeps a bias: with constant steps {times(best[0])} to {times(worst[0])} times the error without compression, "
        f"consistent residuals {times(ends['consistent']['constant'])} times",
        f"EFL, scheme C, 1 or {data['E']} of E = {data['E']} steps, ST with q = {data['q']:g} both ways; quadratics, "
        f"N = {data['clients']}, d = {data['dim']}; median and middle 80 % of {data['scenarios']} runs",
    )
    return figure
