"""FedElasticNet's Table 5: what its lambda_1 and epsilon do, each by itself and together, beside
the values around them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from fedtheory.plotting.figure import Figure

__all__ = ["FIGURE"]

# Algorithm 2's messages are nearly dense whatever epsilon: Figure 4
METHODS = ("algorithm-1", "algorithm-3")
LAMBDAS = (0.0, 1e-6, 1e-4, 1e-3, 1e-2)
EPSILONS = (0.0, 1e-4, 1e-3, 5e-3, 2e-2)


def compute(
    methods: Sequence[str] = METHODS,
    lambdas: Sequence[float] = LAMBDAS,
    epsilons: Sequence[float] = EPSILONS,
    rounds: int = 100,
    seeds: int = 3,
    seed: int = 0,
    keep: Path | str | None = None,
    progress: Any = None,
) -> dict[str, Any]:
    """Every pair on scikit-learn's digits, Dirichlet (.3), a tenth of the clients; lambda_2 as
    Table 5 has it for MNIST.

    Returns
    -------
    dict
        'methods' {name: {'accuracy', 'share' (lambdas, epsilons, seeds), 'printed' [lambda_1,
        lambda_2, epsilon]}}: accuracies at the end in percent, and what is sent as a share of all
        numbers.
    """
    from fedtheory.neural.benchmarks import presets
    from fedtheory.neural.data import digits
    from fedtheory.report.networks.families import digits_of
    from fedtheory.report.networks.runs import DIGITS, measured, need_torch, seeds_from
    from fedtheory.report.networks.words import ends

    need_torch()
    settings, printed = {}, {}
    for m in methods:
        preset = replace(
            digits_of(presets.get(f"fedelasticnet/mnist/dirichlet-0.3/10%/{m}"), "mlp-100-100"),
            rounds=rounds,
        )
        printed[m] = np.array([preset.hyperparameters[k] for k in ("l1", "l2", "epsilon")])
        for a in lambdas:
            for e in epsilons:
                settings[m, a, e] = replace(
                    preset, hyperparameters={**preset.hyperparameters, "l1": a, "epsilon": e}
                )
    used = seeds_from(seed, seeds)
    found = measured(settings, {DIGITS: digits()}, used, keep, progress)
    of = {}
    for m in methods:
        grid = [[found[m, a, e] for e in epsilons] for a in lambdas]
        share = [
            [
                (r["nonzeros"] * r["participants"]).sum(axis=1) / r["participants"].sum(axis=1)
                / r["parameters"]
                for r in row
            ]
            for row in grid
        ]
        accuracy = [[100 * ends(r["test_accuracy"]) for r in row] for row in grid]
        of[m] = {"accuracy": np.array(accuracy), "share": np.array(share), "printed": printed[m]}
    return {
        "methods": of,
        "lambdas": np.array(lambdas),
        "epsilons": np.array(epsilons),
        "seeds": used,
        "rounds": rounds,
    }


def draw(data: dict[str, Any]) -> Any:
    """A row an algorithm: the share that is sent, and the accuracy at the end, over lambda_1 and
    epsilon."""
    from fedtheory.plotting.style import METHOD_NAMES, headline, new_figure

    lambdas, epsilons = (np.asarray(data[k], dtype=float) for k in ("lambdas", "epsilons"))
    figure, axes = new_figure(9.4, 3.2 * len(data["methods"]) + 0.9, len(data["methods"]), 2)
    for row, (method, found) in zip(axes, data["methods"].items(), strict=True):
        share = 100 * np.asarray(found["share"], dtype=float).mean(axis=2)
        accuracy = np.asarray(found["accuracy"], dtype=float).mean(axis=2)
        best = np.nanmax(accuracy)
        shown = (
            ("numbers sent, %", share, "Blues", 0, 100),
            ("test accuracy at the end, %", accuracy, "Greens", best - 10, best),
        )
        for axis, (words, values, colours, low, high) in zip(row, shown, strict=True):
            axis.imshow(
                values,
                cmap=colours,
                vmin=low - 0.25 * (high - low),
                vmax=high + 0.5 * (high - low),
                aspect="auto",
                origin="lower",
            )
            for (i, j), value in np.ndenumerate(values):
                axis.text(
                    j, i, f"{value:.1f}" if np.isfinite(value) else "diverged", ha="center",
                    va="center", fontsize=8,
                )
            axis.set_xticks(range(len(epsilons)), [f"{e:g}" for e in epsilons])
            axis.set_yticks(range(len(lambdas)), [f"{a:g}" for a in lambdas])
            axis.grid(visible=False)
            axis.set(title=f"{METHOD_NAMES[method]}: {words}", xlabel="ε", ylabel="λ₁")
            i, j = _at(data, found)
            axis.add_patch(_frame(j, i))
    headline(
        figure, _finding(data),
        f"framed: Table 5's values; mean of {len(data['seeds'])} seeds, scikit-learn's digits, "
        f"{data['rounds']} rounds",
    )
    return figure


def _frame(x: int, y: int) -> Any:
    from matplotlib.patches import Rectangle

    return Rectangle(
        (x - 0.48, y - 0.48), 0.96, 0.96, fill=False, edgecolor="#D55E00", linewidth=2.2
    )


def _at(data: dict[str, Any], found: dict[str, Any]) -> tuple[int, int]:
    """Return where Table 5's lambda_1 and epsilon stand in the grid, or the nearest."""
    l1, _, epsilon = (float(v) for v in found["printed"])
    near = ((data["lambdas"], l1), (data["epsilons"], epsilon))
    i, j = (int(np.argmin(abs(np.asarray(grid, dtype=float) - v))) for grid, v in near)
    return i, j


def _changes(data: dict[str, Any], method: str) -> dict[str, float]:
    """Shares in percent with both printed values, and with lambda_1 or epsilon set to 0 instead."""
    found = data["methods"][method]
    share = 100 * np.asarray(found["share"], dtype=float).mean(axis=2)
    i, j = _at(data, found)
    return {"both": share[i, j], "without λ₁": share[0, j], "without ε": share[i, 0]}


def _finding(data: dict[str, Any]) -> str:
    method = list(data["methods"])[-1]
    c = _changes(data, method)
    return (
        f"Sparsity is ε's doing: without λ₁ Algorithm {method[-1]} sends {c['without λ₁']:.0f} %, "
        f"without ε {c['without ε']:.0f} %"
    )


def caption(data: dict[str, Any]) -> str:
    """Say what each of the two values does, algorithm by algorithm."""
    from fedtheory.plotting.style import METHOD_NAMES

    parts = [
        "Table 5 prints values and no effect; here are both around them, on scikit-learn's digits "
        f"with MNIST's λ₂, {data['rounds']} rounds, {len(data['seeds'])} seeds."
    ]
    for method, found in data["methods"].items():
        l1, l2, epsilon = (float(v) for v in found["printed"])
        c = _changes(data, method)
        accuracy = np.asarray(found["accuracy"], dtype=float).mean(axis=2)
        i, j = _at(data, found)
        parts.append(
            f"{METHOD_NAMES[method]} (λ₁ = {l1:g}, λ₂ = {l2:g}, ε = {epsilon:g}) sends "
            f"{c['both']:.1f} % of its numbers; with λ₁ = 0 {c['without λ₁']:.1f} %, with ε = 0 "
            f"{c['without ε']:.1f} %. Its accuracy is {accuracy[i, j]:.1f} %, the best of the grid "
            f"{np.nanmax(accuracy):.1f} %."
        )
    return " ".join(parts)


FIGURE = Figure(
    "fedelasticnet_table5", compute, draw,
    {
        "lambdas": (0.0, 1e-6, 1e-4, 1e-2), "epsilons": (0.0, 1e-3, 5e-3, 2e-2), "rounds": 20,
        "seeds": 2,
    },
    {}, title="What λ₁ and ε of Table 5 do to sparsity and accuracy", paper="fedelasticnet",
    number="Table 5", caption=caption, takes=("keep", "progress"),
)
