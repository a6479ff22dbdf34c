"""FedElasticNet's Figures 3 to 5: accuracy and sparsity against lambda_1, by algorithm."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import matplotlib
import numpy as np

from fedtheory.plotting.figure import Figure
from fedtheory.plotting.style import METHOD_NAMES, headline, legend_below, new_figure
from paper_figures.fedelasticnet.families import PAIRS, digits_of
from paper_figures.networks.drawing import band, from_below
from paper_figures.networks.runs import Published, Runs, about_of
from paper_figures.networks.words import accuracy, ends, gain, joined, percent, sent, short, spread, where

__all__ = ["FIGURES"]

PRINTED = (1e-8, 1e-6, 1e-4, 1e-2)  # what the paper tries
MORE = (0.0, *PRINTED, 1e-3, 3e-2)
BASELINES = {net: plain for plain, net in PAIRS}
LEAST_RANGE = 4.0  # points of accuracy that an axis shows
MARGIN = 1.0  # points of accuracy that we call a degradation, for the paper names no number


def compute(
    method: str, lambdas: Sequence[float] = MORE, rounds: int = 100, seeds: int | Sequence[int] = 5,
    datasets: Sequence[str] = ("cifar10", "mnist"), first_found: bool = False, **asked: Any,
) -> dict[str, Any]:
    """Runs of one algorithm with several lambda_1, all else as in Table 5, and of its baseline; Dirichlet (.3), a tenth of the clients.

    Parameters
    ----------
    lambdas : of the runs, in any order; 0 and that of Table 5, with which the others are compared, are run as well
    first_found : only the first of ``datasets`` that ``data`` has
    asked : as `Runs` takes them

    Returns
    -------
    dict
        'panels': data set, network, clients, rounds, epsilon and lambda_1 of Table 5, 'lambdas' (increasing), 'baseline', 'alone'
        (lambda_1 of Table 5, epsilon = 0) and 'runs' (one a lambda), each what `Runs.measured` returns.
    """
    from fedtheory.neural.benchmarks import presets

    runs = Runs(rounds, seeds, **asked)
    panels = []
    for name in runs.read(datasets, first_found):
        printed = [
            presets.get(f"fedelasticnet/{'mnist' if runs.small else name}/dirichlet-0.3/10%/{m}")
            for m in (BASELINES[method], method)
        ]
        plain, net = (runs.setting(p, partial(digits_of, network="mlp-100-100")) for p in printed)
        chosen = float(printed[1].hyperparameters["l1"])
        values = sorted({0.0, chosen, *lambdas})
        runs_of: dict[Any, Any] = {v: net.changed(l1=v) for v in values}
        found = runs.measured(runs_of | {"baseline": plain, "alone": net.changed(epsilon=0.0)})
        about = about_of(net) | {"epsilon": net.hyperparameters["epsilon"], "table_5": chosen, "lambdas": np.array(values)}
        panels.append(about | {k: found[k] for k in ("baseline", "alone")} | {"runs": [found[v] for v in values]})
    return runs.shown(panels) | {"method": method}


def _share(panel: dict[str, Any], run: dict[str, Any]) -> np.ndarray:
    """Numbers sent over all rounds, against its baseline's (seeds,): NaN where a run diverged."""
    return sent(run) / sent(panel["baseline"])


def _at_table_5(panel: dict[str, Any]) -> int:
    """The place of Table 5's lambda_1 among those that were run."""
    return int(np.argmin(abs(np.asarray(panel["lambdas"]) - panel["table_5"])))


def _largest_kept(panel: dict[str, Any]) -> float | None:
    """The largest lambda_1 up to which the mean accuracy stays within `MARGIN` points of that without an l1 term."""
    kept = None
    for value, run in zip(panel["lambdas"], panel["runs"], strict=True):
        points = gain(run, panel["runs"][0])
        if len(points) < len(run["test_accuracy"]) or points.mean() < -MARGIN:
            break
        kept = float(value)
    return kept


def _power(value: float) -> str:
    """'0', '10⁻⁴' or '3·10⁻²'."""
    if value == 0:
        return "0"
    digit, _, power = f"{value:.0e}".partition("e")
    raised = str(int(power)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"10{raised}" if digit == "1" else f"{digit}·10{raised}"


def _colours(values: Any) -> list[Any]:
    """From light to dark with lambda_1; black for 0."""
    ramp = matplotlib.colormaps["viridis_r"](np.linspace(0.15, 0.95, max(1, len(values) - 1)))
    shades = iter(ramp)
    return ["#000000" if v == 0 else next(shades) for v in values]


def draw(data: dict[str, Any], number: str) -> Any:
    """Curves of all lambda_1, the accuracy at the end, and what is sent."""
    panels = data["panels"]
    figure, axes = new_figure(10.4, 3.2 * len(panels) + 1.2, len(panels), 3, width_ratios=(1.35, 1, 1))
    for panel, (curves, at_end, shares) in zip(panels, axes, strict=True):
        colours = _colours(panel["lambdas"])
        every = [accuracy(r) for r in panel["runs"]]
        for value, colour, values in zip(panel["lambdas"], colours, every, strict=True):
            band(curves, values, color=colour, label=f"λ₁ = {_power(value)}")
        from_below(curves, [v for v in every if np.isfinite(v[:, -1]).all()])
        curves.set(title=short(panel), xlabel="round", ylabel="test accuracy, %")
        for x, (colour, run) in enumerate(zip(colours, panel["runs"], strict=True)):
            for axis, values in ((at_end, ends(accuracy(run))), (shares, 100 * _share(panel, run))):
                values = values[np.isfinite(values)]
                dots: dict[str, Any] = {"markersize": 5, "markeredgecolor": "white", "markeredgewidth": 0.5}
                axis.plot(np.full(len(values), x), values, "o", color=colour, **dots)
                if values.size:
                    axis.plot([x - 0.3, x + 0.3], [values.mean()] * 2, "-", color=colour, linewidth=2.2)
                else:
                    axis.annotate("diverged", (x, 0.02), xycoords=("data", "axes fraction"), rotation=90, ha="center", fontsize=7.5)
        base = np.nanmean(ends(accuracy(panel["baseline"])))
        at_end.axhline(base, color="#777777", linewidth=1, linestyle="--")
        plain = METHOD_NAMES[BASELINES[data["method"]]]
        at_end.annotate(plain, (0, base), xytext=(0, 3), textcoords="offset points", fontsize=7.5, color="#555555")
        for axis, what in ((at_end, "accuracy at the end, %"), (shares, f"numbers sent, % of {plain}'s")):
            axis.set_xticks(range(len(panel["lambdas"])), [_power(v) for v in panel["lambdas"]], fontsize=7.5)
            axis.set(title=what, xlabel="λ₁")
            axis.set_xlim(-0.6, len(panel["lambdas"]) - 0.4)
            chosen = _at_table_5(panel)
            axis.axvspan(chosen - 0.45, chosen + 0.45, color="#EEEEEE", zorder=0)
        shares.set_ylim(bottom=0)
        low, high = at_end.get_ylim()
        at_end.set_ylim(min(low, high - LEAST_RANGE), high)  # a tenth of a point is not to look like much
    legend_below(figure, axes[:, 0], 8)
    detail = f"{number}; band and points: all of {len(data['seeds'])} seeds; grey: the λ₁ of the paper's Table 5"
    headline(figure, _finding(data), detail)
    return figure


def _finding(data: dict[str, Any]) -> str:
    alone, both, cut = _three(data["panels"][0])
    name = METHOD_NAMES[data["method"]]
    return f"{name}: the paper's λ₁ alone leaves {alone} to send, ε alone {cut}, both {both}"


def _three(panel: dict[str, Any]) -> tuple[str, str, str]:
    """The shares sent with lambda_1 of Table 5 alone, with epsilon too, and with epsilon alone."""
    chosen = _at_table_5(panel)
    shares = [_share(panel, r) for r in (panel["alone"], panel["runs"][chosen], panel["runs"][0])]
    alone, both, cut = (
        percent(float(np.nanmean(s))) if np.isfinite(s).any() else "nothing, for it diverged" for s in shares
    )
    return alone, both, cut


def caption(data: dict[str, Any], number: str) -> str:
    """Say what lambda_1 does to both, where accuracy falls, and what the paper's rule picks."""
    parts = [where(data)]
    for panel in data["panels"]:
        values, runs = np.asarray(panel["lambdas"]), panel["runs"]
        shares = [_share(panel, r) for r in runs]
        said = [
            f"{_power(v)}: {percent(float(np.nanmean(s)))}" if np.isfinite(s).any() else f"{_power(v)}: diverged"
            for v, s in zip(values, shares, strict=True)
        ]
        parts.append(
            f"{METHOD_NAMES[data['method']]} with ε = {panel['epsilon']:g} sends, of its baseline's numbers, by λ₁, "
            f"{joined(said)}."
        )
        parts.append(f"Against λ₁ = 0 the largest changes the accuracy at the end by {spread(gain(runs[-1], runs[0]))} points.")
        kept = _largest_kept(panel)
        if kept is not None:
            same = "which is also the paper's" if np.isclose(kept, panel["table_5"]) else f"the paper's is {_power(panel['table_5'])}"
            parts.append(
                f"The paper takes the largest λ₁ that does not degrade accuracy; within {MARGIN:g} point of λ₁ = 0 that is "
                f"{_power(kept)} of those tried here, {same}."
            )
        falls = [float(np.nanmean(s)) for s in shares if np.isfinite(s).any()]
        falling = falls[-1] < 0.98 * falls[0] and bool(np.all(np.diff(falls) <= 0.02))
        parts.append(
            f"That a larger λ₁ makes the updates sparser is {'seen' if falling else 'not seen at every step here'}. With λ₁ of Table 5 "
            f"and ε = 0, {_three(panel)[0]} is sent: local steps are subgradient steps, which hardly leave a number at exactly 0, and "
            "what is not sent is what ε cuts off."
        )
    return " ".join([*parts, *data["notes"]])


_QUICK: dict[str, Any] = {
    "lambdas": (0.0, *PRINTED, 1e-3), "rounds": 30, "seeds": 3, "datasets": ("mnist", "cifar10"), "first_found": True,
    "published": Published(15, 2, 60),
}  # fmt: skip


def _figure(n: int, method: str) -> Figure:
    number = f"Figure {n + 2}"
    return Figure(
        f"fedelasticnet_figure{n + 2}", compute, partial(draw, number=number), _QUICK | {"method": method}, {"method": method},
        title=f"Algorithm {n}: accuracy and sparsity against λ₁", number=number, caption=partial(caption, number=number),
        takes=("data", "keep", "progress", "change"),
    )  # fmt: skip


FIGURES = tuple(_figure(n, f"algorithm-{n}") for n in (1, 2, 3))
