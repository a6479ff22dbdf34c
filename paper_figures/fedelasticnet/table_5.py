"""FedElasticNet's Table 5: what its lambda_1 and epsilon do, each by itself and together, beside
the values around them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any

import numpy as np
from matplotlib.patches import Rectangle

from fedtheory.plotting.figure import Figure
from fedtheory.plotting.style import METHOD_NAMES, headline, new_figure
from paper_figures.fedelasticnet.families import digits_of
from paper_figures.networks.runs import Runs
from paper_figures.networks.words import accuracy, ends, sent

__all__ = ["FIGURE"]

# Algorithm 2's messages are nearly dense whatever epsilon: Figure 4
METHODS = ("algorithm-1", "algorithm-3")
LAMBDAS = (0.0, 1e-6, 1e-4, 1e-3, 1e-2)
EPSILONS = (0.0, 1e-4, 1e-3, 5e-3, 2e-2)


def compute(
    methods: Sequence[str] = METHODS, lambdas: Sequence[float] = LAMBDAS,
    epsilons: Sequence[float] = EPSILONS, rounds: int = 100, seeds: int = 3, **asked: Any,
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

    runs = Runs(rounds, seeds, **asked)
    runs.read(())
    small = partial(digits_of, network="mlp-100-100")
    printed = {m: presets.get(f"fedelasticnet/mnist/dirichlet-0.3/10%/{m}") for m in methods}
    presets_of = {m: runs.setting(preset, small) for m, preset in printed.items()}
    grid = list(product(lambdas, epsilons))
    found = runs.measured({
        (m, a, e): replace(p, hyperparameters={**p.hyperparameters, "l1": a, "epsilon": e})
        for m, p in presets_of.items() for a, e in grid
    })  # fmt: skip

    def share(row: dict[str, Any]) -> np.ndarray:
        return sent(row) / row["participants"].sum(axis=1) / row["parameters"]

    def over_grid(method: str, value: Callable[[dict[str, Any]], np.ndarray]) -> np.ndarray:
        values = np.stack([value(found[method, a, e]) for a, e in grid])
        return values.reshape(len(lambdas), len(epsilons), -1)

    of = {
        m: {
            "accuracy": over_grid(m, lambda row: ends(accuracy(row))), "share": over_grid(m, share),
            "printed": np.array([p.hyperparameters[k] for k in ("l1", "l2", "epsilon")]),
        }
        for m, p in presets_of.items()
    }  # fmt: skip
    grids = {"lambdas": np.array(lambdas), "epsilons": np.array(epsilons)}
    return {"methods": of, **grids, "seeds": runs.used, "rounds": rounds}


def draw(data: dict[str, Any]) -> Any:
    """A row an algorithm: the share that is sent, and the accuracy at the end, over lambda_1 and
    epsilon."""
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
            limits = {"vmin": low - 0.25 * (high - low), "vmax": high + 0.5 * (high - low)}
            axis.imshow(values, cmap=colours, aspect="auto", origin="lower", **limits)
            for (i, j), value in np.ndenumerate(values):
                told = f"{value:.1f}" if np.isfinite(value) else "diverged"
                axis.text(j, i, told, ha="center", va="center", fontsize=8)
            axis.set_xticks(range(len(epsilons)), [f"{e:g}" for e in epsilons])
            axis.set_yticks(range(len(lambdas)), [f"{a:g}" for a in lambdas])
            axis.grid(visible=False)
            axis.set(title=f"{METHOD_NAMES[method]}: {words}", xlabel="ε", ylabel="λ₁")
            i, j = _at(data, found)
            frame: dict[str, Any] = {"fill": False, "edgecolor": "#D55E00", "linewidth": 2.2}
            axis.add_patch(Rectangle((j - 0.48, i - 0.48), 0.96, 0.96, **frame))
    headline(
        figure, _finding(data),
        f"framed: Table 5's values; mean of {len(data['seeds'])} seeds, scikit-learn's digits, "
        f"{data['rounds']} rounds",
    )
    return figure


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
    title="What λ₁ and ε of Table 5 do to sparsity and accuracy", number="Table 5",
    caption=caption, takes=("keep", "progress"),
)  # fmt: skip
