"""EFL's Figures 2 and 3 on networks: what the elastic term does to accuracy and training loss, and
how few clients are enough."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any

import numpy as np
from matplotlib.ticker import LogLocator

from fedtheory.local import LocalSGD
from fedtheory.neural.benchmarks import presets
from fedtheory.participation.irregular import Irregular
from fedtheory.plotting.figure import Figure
from fedtheory.plotting.style import METHOD_COLOURS, headline, legend_below, new_figure
from paper_figures.networks.drawing import band
from paper_figures.networks.runs import DIGITS, Published, Runs, about_of, on_digits
from paper_figures.networks.words import ends, joined, short, signed, spread, where

__all__ = ["FIGURES"]

CLIENTS, SAMPLES, BATCH, STEPS = 10, 60, 10, 12  # of scikit-learn's digits
DEAL = {"partition": "classes", "classes": 2}
LAMBDAS = (0.0, 0.01, 0.1, 1.0, 10.0)


def _setting(runs: Runs, dataset: str, network: str, lam: float, **more: Any) -> Any:
    """EFL without compression, so that the elastic term is all that changes; on the digits ten clients with two
    classes each."""
    efl = presets.get(f"efl/{'mnist' if dataset == DIGITS else dataset}/non-iid/10-of-100/efl")
    efl = replace(efl, hyperparameters={"lam": lam, "fisher": "empirical", **more}, cohort=0, participation="100%")
    return runs.setting(efl, partial(on_digits, network=network, clients=CLIENTS, partition=DEAL, cohort=0))


def _solver(preset: Any, lr: float) -> Any:
    return LocalSGD(STEPS, lr, min(BATCH, preset.batch_size))


# --- Figure 2 -------------------------------------------------------------------------------------
def compute_figure_2(
    networks: Sequence[str] = ("logistic", "mlp-100-100"), lambdas: Sequence[float] = LAMBDAS,
    steps: Sequence[float] = (0.1, 1.0), rounds: int = 60, seeds: int | Sequence[int] = 5,
    datasets: Sequence[str] = ("cifar100", "mnist", "shakespeare"), first_found: bool = False, **asked: Any,
) -> dict[str, Any]:
    """EFL with several lambda at two step sizes, the second too large to be stable, all clients
    taking part.

    The best lambda > 0 of each panel is chosen by its accuracy on one more seed than is shown, the
    first, so that its curves are not those that it was chosen by.

    Returns
    -------
    dict
        'panels': 'dataset', 'network', 'step', 'lambdas', 'best' (index), 'trial' (the first seed's
        accuracy at the end, one a lambda), 'accuracy' and 'loss' (lambdas, seeds, rounds + 1); NaN
        after a divergence.
    """
    runs = Runs(rounds, seeds, most=SAMPLES, **asked)
    names = runs.read(datasets, first_found)
    used = [max(runs.used) + 1, *runs.used]  # the first chooses the best lambda, and is not shown
    panels = []
    for name, network, step in product(names, networks if runs.small else networks[:1], steps):
        found = []
        for lam in lambdas:
            preset = _setting(runs, name, network, lam)
            found.append(runs.simulated(preset, used, solver=_solver(preset, step)))
            runs.told(f"{name}, {preset.network}, step {step:g}: lambda = {lam:g} done")
        accuracy, loss = (np.stack([f[m] for f in found]) for m in ("test_accuracy", "objective"))
        trial = np.nan_to_num(accuracy[:, 0, -5:], nan=0.0).mean(axis=1)
        panels.append(about_of(preset) | {
            "step": step, "lambdas": np.array(lambdas), "best": int(1 + np.argmax(trial[1:])), "trial": trial,
            "accuracy": accuracy[:, 1:], "loss": loss[:, 1:],
        })  # fmt: skip
    return runs.shown(panels)


def _curves(panel: dict[str, Any]) -> list[tuple[int, str, dict[str, Any]]]:
    """(index of lambda, label, style) of what is drawn: 0, the best, and the largest where that is another."""
    last = len(panel["lambdas"]) - 1
    out: list[tuple[int, str, dict[str, Any]]] = [
        (0, "λ = 0", {"color": "#000000", "linestyle": "--", "zorder": 3}),
        (panel["best"], "best λ > 0 of those tried", {"color": METHOD_COLOURS["efl"]}),
    ]
    return out if panel["best"] == last else [*out, (last, "largest λ tried", {"color": "#C9A8A0", "linewidth": 1.1})]


def draw_figure_2(data: dict[str, Any]) -> Any:
    """A column a network and step; test accuracy above, training loss below."""
    panels = data["panels"]
    figure, axes = new_figure(max(8.6, 3.0 * len(panels) + 0.6), 6.0, 2, len(panels), sharex=False)
    for n, panel in enumerate(panels):
        for index, label, style in _curves(panel):
            for axis, what, unit in zip(axes[:, n], ("accuracy", "loss"), (100, 1), strict=True):
                values = unit * np.asarray(panel[what], dtype=float)[index]
                band(axis, values[np.isfinite(values).all(axis=1)], label=label, **style)  # of the seeds that did not diverge
        lam = np.asarray(panel["lambdas"])[panel["best"]]
        axes[0, n].set(title=f"{short(panel)}\nstep {panel['step']:g}, best λ {lam:g}", ylim=(0, 101))
        axes[1, n].set(xlabel="round", yscale="log")
        axes[1, n].yaxis.set_minor_locator(LogLocator(subs=(0.2, 0.5)))
        axes[1, n].yaxis.set_major_formatter("{x:g}")
        axes[1, n].yaxis.set_minor_formatter("{x:g}")
        axes[1, n].tick_params(axis="y", which="both", labelsize=8)
        lost = {panel["lambdas"][i]: _diverged(panel, i) for i, _, _ in _curves(panel)}
        lines = [f"λ = {lam:g}: {count} of {len(data['seeds'])} diverged" for lam, count in lost.items() if count]
        axes[0, n].annotate("\n".join(lines), (0.97, 0.3), xycoords="axes fraction", ha="right", va="bottom", fontsize=7.5)
    axes[0, 0].set_ylabel("test accuracy, %")
    axes[1, 0].set_ylabel("training loss F(x)")
    legend_below(figure, axes[0], 6)
    detail = f"EFL with all clients, two classes each; the best λ chosen on another seed than these {len(data['seeds'])}"
    headline(figure, _finding_2(data), detail)
    return figure


def _diverged(panel: dict[str, Any], index: int) -> int:
    return int((~np.isfinite(np.asarray(panel["accuracy"], dtype=float)[index]).all(axis=1)).sum())


def _gain(panel: dict[str, Any]) -> np.ndarray:
    """Best lambda minus lambda = 0 at the end, in points, over seeds where neither diverges."""
    best, none = (ends(np.asarray(panel["accuracy"], dtype=float)[i]) for i in (panel["best"], 0))
    points = 100 * (best - none)
    return points[np.isfinite(points)]


def _finding_2(data: dict[str, Any]) -> str:
    gains = [_gain(p).mean() for p in data["panels"] if len(_gain(p))]
    lost = len(data["panels"]) - len(gains)
    also = f", and diverges in {lost} of {len(data['panels'])} panels" if lost else ""
    if not gains:
        return "With the best λ tried, some runs of every panel diverge"
    if max(gains) < 1:
        low, high = (round(g, 1) + 0.0 for g in (min(gains), max(gains)))  # no -0.0
        by = f"{low:+.1f}" if low == high else f"{low:+.1f} to {high:+.1f}"
        return f"The elastic term changes the accuracy by {by} points{also}"
    return f"The elastic term gains up to {max(gains):.1f} points of accuracy, and loses up to {max(0.0, -min(gains)):.1f}{also}"


def _change(panel: dict[str, Any], lam: float) -> str:
    if len(gain := _gain(panel)):
        return f"λ = {lam:g} changes the accuracy at the end by {spread(gain)} points"
    without = 100 * ends(np.asarray(panel["accuracy"], dtype=float)[0])
    return f"with λ = {lam:g} all runs diverge, without it the accuracy ends at {np.nanmean(without):.0f} %"


def caption_2(data: dict[str, Any]) -> str:
    """Gains panel by panel, stability, and what the paper says of it."""
    parts = [where(data)]
    rescued, broken = 0, 0
    for panel in data["panels"]:
        lam = np.asarray(panel["lambdas"])[panel["best"]]
        none, best, last = (_diverged(panel, i) for i in (0, panel["best"], -1))
        parts.append(
            f"{short(panel)}, step {panel['step']:g}: {_change(panel, lam)}; of {len(data['seeds'])} runs {none} diverge with "
            f"λ = 0, {best} with this λ and {last} with λ = {panel['lambdas'][-1]:g}."
        )
        rescued += none > best
        broken += last > none
    among = f"{len(data['panels'])} panels"
    seen = f"seen in {rescued} of {among}" if rescued else "no run here diverges that such a λ brings back"
    parts.append(f"The paper says that an appropriate λ 'can force divergent methods to converge': {seen}.")
    if broken:
        parts.append(f"Too large a λ makes runs diverge that do not without it, in {broken} of {among}.")
    return " ".join([*parts, *data["notes"]])


# --- Figure 3 -------------------------------------------------------------------------------------
RULES = {"EFL, all that was done": ("efl", "C", 0.1), "FedAvg, complete work only": ("fedavg", "A", 0.0)}


def _law(clients: int, active: float) -> Any:
    """Each client is active with this probability; half of the active ones complete their steps, the others stop
    after 1..E - 1."""
    row = np.concatenate([[1 - active], np.full(STEPS - 1, active / 2 / (STEPS - 1)), [active / 2]])
    return Irregular(STEPS, np.tile(row, (clients, 1)))


def compute_figure_3(
    network: str = "mlp-100-100", rates: Sequence[float] = (1.0, 0.5, 0.2), rounds: int = 80,
    seeds: int | Sequence[int] = 5, datasets: Sequence[str] = ("shakespeare", "mnist"),
    first_found: bool = False, **asked: Any,
) -> dict[str, Any]:
    """EFL, which takes what each active client has done, beside averaging over those that completed their work.

    Returns
    -------
    dict
        'panels': 'dataset', 'network', 'rates', 'rules', 'accuracy' (rules, rates, seeds, rounds + 1).
    """
    runs = Runs(rounds, seeds, most=SAMPLES, **asked)
    panels = []
    for name in runs.read(datasets, first_found):
        found = []
        for (words, (_, scheme, lam)), rate in product(RULES.items(), rates):
            preset = _setting(runs, name, network, lam, scheme=scheme)
            law, solver = _law(preset.clients, rate), _solver(preset, preset.lr)
            found.append(runs.simulated(preset, runs.used, law, solver, ("test_accuracy",))["test_accuracy"])
            runs.told(f"{name}: {words}, {100 * rate:.0f} % active")
        accuracy = np.stack(found).reshape(len(RULES), len(rates), len(runs.used), -1)
        panels.append(about_of(preset) | {"rates": np.array(rates), "rules": list(RULES), "accuracy": accuracy})
    return runs.shown(panels)


def draw_figure_3(data: dict[str, Any]) -> Any:
    """A column a share of active clients, a row a data set."""
    panels, rates = data["panels"], data["panels"][0]["rates"]
    size = max(8.6, 3.3 * len(rates)), 3.1 * len(panels) + 1.0
    figure, axes = new_figure(*size, len(panels), len(rates), sharey="row")
    for row, panel in zip(axes, panels, strict=True):
        for n, (axis, rate) in enumerate(zip(row, rates, strict=True)):
            for rule, (method, _, _) in enumerate(RULES.values()):
                values = 100 * np.asarray(panel["accuracy"], dtype=float)[rule, n]
                band(axis, values, color=METHOD_COLOURS[method], label=panel["rules"][rule])
            axis.set(title=f"{short(panel)}: {100 * rate:.0f} % active", xlabel="round", ylim=(0, 101))
        row[0].set_ylabel("test accuracy, %")
    legend_below(figure, axes[0], 6)
    detail = f"of the active clients half stop early; line: mean of {len(data['seeds'])} seeds, band: all of them"
    headline(figure, _finding_3(data), detail)
    return figure


def _ends_3(panel: dict[str, Any]) -> np.ndarray:
    """Accuracy at the end in percent (rules, rates, seeds)."""
    values = np.asarray(panel["accuracy"], dtype=float)
    return 100 * np.stack([[ends(v) for v in rule] for rule in values])


def _finding_3(data: dict[str, Any]) -> str:
    at = _ends_3(data["panels"][0])[:, -1].mean(axis=1)
    rate = f"{100 * data['panels'][0]['rates'][-1]:.0f} %"
    return f"With {rate} active EFL ends at {at[0]:.0f} %, averaging the complete clients alone at {at[1]:.0f} %"


def caption_3(data: dict[str, Any]) -> str:
    """Both rules at every rate, and what the paper says."""
    parts = [where(data)]
    for panel in data["panels"]:
        ends = _ends_3(panel).mean(axis=2)
        said = [
            f"{100 * r:.0f} % active: {a:.1f} against {b:.1f} %"
            for r, a, b in zip(panel["rates"], ends[0], ends[1], strict=True)
        ]
        parts.append(f"{short(panel)}, EFL against complete work only, at the end: {joined(said)}.")
        lost = ends[:, 0] - ends[:, -1]
        parts.append(
            f"From the most to the fewest active clients EFL loses {signed(lost[0]).lstrip('+')} points, the other "
            f"{signed(lost[1]).lstrip('+')}; that EFL 'is robust to the low participation rate' is "
            f"{'seen' if lost[0] < lost[1] else 'not seen here'}."
        )
    parts.append(
        "EFL's coefficients do not grow when others are away, so that its step shrinks with the "
        "share of active clients; averaging divides by those that completed."
    )
    return " ".join([*parts, *data["notes"]])


_QUICK: dict[str, Any] = {"seeds": 3, "datasets": ("mnist",), "published": Published(6, 2, 60)}
_FULL = {"published": Published(30, 2)}
_TAKES = ("data", "keep", "progress")
FIGURES = (
    Figure(
        "efl_figure2", compute_figure_2, draw_figure_2, _QUICK | {"networks": ("logistic",), "rounds": 30}, _FULL,
        title="The elastic term: test accuracy and training loss without it and with the best λ", number="Figure 2",
        caption=caption_2, takes=_TAKES,
    ),
    Figure(
        "efl_figure3", compute_figure_3, draw_figure_3, _QUICK | {"network": "logistic", "rounds": 40}, _FULL,
        title="Test accuracy when few clients take part and some stop early", number="Figure 3", caption=caption_3, takes=_TAKES,
    ),
)  # fmt: skip
