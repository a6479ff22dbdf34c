"""EFL's Figures 2 and 3 on networks: what the elastic term does to accuracy and training loss, and
how few clients are enough."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from fedtheory.plotting.figure import Figure
from fedtheory.report.networks.runs import Published

__all__ = ["FIGURES"]

CLIENTS, SAMPLES, BATCH, STEPS = 10, 60, 10, 12  # of scikit-learn's digits
DEAL = {"partition": "classes", "classes": 2}
THIRTY = Published(30, 2)
LAMBDAS = (0.0, 0.01, 0.1, 1.0, 10.0)


def _sets(
    data: Any, datasets: Sequence[str], first_found: bool, seed: int, progress: Any
) -> tuple[dict[str, Any], list[str]]:
    """Return the data sets to train on: the digits, or what of ``datasets`` the folder has."""
    from fedtheory.neural.data import digits
    from fedtheory.report.networks.runs import DIGITS, found_sets, need_torch, quietly

    need_torch()
    if data is None:
        return {DIGITS: digits()}, []
    return found_sets(datasets, data, seed, progress or quietly, first_found)


def _setting(dataset: str, network: str | None, lam: float, rounds: int | None, **more: Any) -> Any:
    """EFL without compression, so that the elastic term is all that changes; on the digits ten clients with two "
    "classes each."""
    from fedtheory.neural.benchmarks import presets
    from fedtheory.report.networks.runs import DIGITS, on_digits

    efl = presets.get(f"efl/{'mnist' if dataset == DIGITS else dataset}/non-iid/10-of-100/efl")
    hyper = {"lam": lam, "fisher": "empirical", **more}
    if dataset == DIGITS:
        return replace(
            on_digits(efl, network or "logistic", CLIENTS, partition=DEAL, cohort=0, rounds=rounds),
            hyperparameters=hyper,
        )
    return replace(efl, hyperparameters=hyper, rounds=min(rounds or efl.rounds, efl.rounds), cohort=0)


def _solver(preset: Any, lr: float) -> Any:
    from fedtheory.local import LocalSGD

    return LocalSGD(STEPS, lr, min(BATCH, preset.batch_size))


# --- Figure 2 -------------------------------------------------------------------------------------
def compute_figure_2(
    networks: Sequence[str] = ("logistic", "mlp-100-100"), lambdas: Sequence[float] = LAMBDAS,
    steps: Sequence[float] = (0.1, 1.0), rounds: int = 60, seeds: int | Sequence[int] = 5,
    datasets: Sequence[str] = ("cifar100", "mnist", "sent140", "shakespeare"),
    first_found: bool = False, published: Published = THIRTY, seed: int = 0,
    data: Path | str | None = None, keep: Path | str | None = None, progress: Any = None,
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
    from fedtheory.report.networks.runs import DIGITS, quietly, seeds_from, simulated

    sets, notes = _sets(data, datasets, first_found, seed, progress)
    told, shown = progress or quietly, seeds_from(seed, seeds if data is None else published.seeds)
    used = [max(shown) + 1, *shown]  # the first chooses the best lambda, and is not shown
    options = {"most": SAMPLES} if data is None else published.options
    panels = []
    for name in sets:
        for network in networks if name == DIGITS else (None,):
            for step in steps:
                found = []
                for lam in lambdas:
                    preset = _setting(name, network, lam, rounds if data is None else published.rounds)
                    found.append(simulated(preset, sets[name], used, keep, solver=_solver(preset, step), **options))
                    told(f"{name}, {preset.network}, step {step:g}: lambda = {lam:g} done")
                accuracy = np.stack([f["test_accuracy"] for f in found])
                trial = np.nan_to_num(accuracy[:, 0, -5:], nan=0.0).mean(axis=1)
                best = int(1 + np.argmax(trial[1:]))
                panels.append(
                    {
                        "dataset": name, "network": preset.network, "clients": preset.clients,
                        "rounds": preset.rounds, "participation": "100%", "step": step,
                        "lambdas": np.array(lambdas), "best": best, "trial": trial,
                        "accuracy": accuracy[:, 1:],
                        "loss": np.stack([f["objective"] for f in found])[:, 1:],
                    }
                )
    return {
        "panels": panels, "seeds": used[1:], "notes": notes, "published": data is not None,
        "most": options.get("most"),
    }


def _curves(panel: dict[str, Any]) -> list[tuple[int, str, dict[str, Any]]]:
    """(index of lambda, label, style) of what is drawn: 0, the best, and the largest where that is another."""
    from fedtheory.plotting.style import METHOD_COLOURS

    last = len(panel["lambdas"]) - 1
    out: list[tuple[int, str, dict[str, Any]]] = [
        (0, "λ = 0", {"color": "#000000", "linestyle": "--", "zorder": 3}),
        (panel["best"], "best λ > 0 of those tried", {"color": METHOD_COLOURS["efl"]}),
    ]
    return out if panel["best"] == last else [*out, (last, "largest λ tried", {"color": "#C9A8A0", "linewidth": 1.1})]


def draw_figure_2(data: dict[str, Any]) -> Any:
    """A column a network and step; test accuracy above, training loss below."""
    from matplotlib.ticker import LogLocator

    from fedtheory.plotting.style import headline, new_figure
    from fedtheory.report.networks.drawing import band, legend
    from fedtheory.report.networks.words import short

    panels = data["panels"]
    figure, axes = new_figure(max(8.6, 3.0 * len(panels) + 0.6), 6.0, 2, len(panels), sharex=False)
    for n, panel in enumerate(panels):
        for index, label, style in _curves(panel):
            for axis, values in zip(
                axes[:, n], (100 * np.asarray(panel["accuracy"])[index], np.asarray(panel["loss"])[index]), strict=True
            ):
                kept = values[np.isfinite(values).all(axis=1)]  # the seeds that did not diverge
                if len(kept):
                    band(axis, np.arange(values.shape[1]), kept, label=label, **style)
        lam = np.asarray(panel["lambdas"])[panel["best"]]
        axes[0, n].set(title=f"{short(panel)}\nstep {panel['step']:g}, best λ {lam:g}", ylim=(0, 101))
        axes[1, n].set(xlabel="round", yscale="log")
        axes[1, n].yaxis.set_minor_locator(LogLocator(subs=(0.2, 0.5)))
        axes[1, n].yaxis.set_major_formatter("{x:g}")
        axes[1, n].yaxis.set_minor_formatter("{x:g}")
        axes[1, n].tick_params(axis="y", which="both", labelsize=8)
        told = [
            f"λ = {panel['lambdas'][i]:g}: {_diverged(panel, i)} of {len(data['seeds'])} diverged"
            for i, _, _ in _curves(panel)
        ]
        lines = [line for i, line in zip([i for i, _, _ in _curves(panel)], told, strict=True) if _diverged(panel, i)]
        axes[0, n].annotate(
            "\n".join(lines), (0.97, 0.3), xycoords="axes fraction", ha="right", va="bottom", fontsize=7.5
        )
    axes[0, 0].set_ylabel("test accuracy, %")
    axes[1, 0].set_ylabel("training loss F(x)")
    legend(figure, axes[0])
    headline(
        figure, _finding_2(data),
        "EFL with all clients, two classes each; the best λ chosen on another seed than these "
        f"{len(data['seeds'])}",
    )
    return figure


def _diverged(panel: dict[str, Any], index: int) -> int:
    return int((~np.isfinite(np.asarray(panel["accuracy"], dtype=float)[index]).all(axis=1)).sum())


def _gain(panel: dict[str, Any]) -> np.ndarray:
    """Best lambda minus lambda = 0 at the end, in points, over seeds where neither diverges."""
    from fedtheory.report.networks.words import ends

    accuracy = np.asarray(panel["accuracy"], dtype=float)
    best, none = (ends(accuracy[i]) for i in (panel["best"], 0))
    gain = 100 * (best - none)
    return gain[np.isfinite(gain)]


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
    from fedtheory.report.networks.words import ends, spread

    if len(gain := _gain(panel)):
        return f"λ = {lam:g} changes the accuracy at the end by {spread(gain)} points"
    without = 100 * ends(np.asarray(panel["accuracy"], dtype=float)[0])
    return f"with λ = {lam:g} all runs diverge, without it the accuracy ends at {np.nanmean(without):.0f} %"


def caption_2(data: dict[str, Any]) -> str:
    """Gains panel by panel, stability, and what the paper says of it."""
    from fedtheory.report.networks.words import short, where

    parts = [where(data)]
    rescued, broken = 0, 0
    for panel in data["panels"]:
        lam = np.asarray(panel["lambdas"])[panel["best"]]
        last = len(panel["lambdas"]) - 1
        parts.append(
            f"{short(panel)}, step {panel['step']:g}: {_change(panel, lam)}; "
            f"of {len(data['seeds'])} runs {_diverged(panel, 0)} diverge with λ = 0, "
            f"{_diverged(panel, panel['best'])} with this λ and "
            f"{_diverged(panel, last)} with λ = {panel['lambdas'][last]:g}."
        )
        rescued += _diverged(panel, 0) > _diverged(panel, panel["best"])
        broken += _diverged(panel, last) > _diverged(panel, 0)
    parts.append(
        "The paper says that an appropriate λ 'can force divergent methods to converge': "
        + (
            f"seen in {rescued} of {len(data['panels'])} panels."
            if rescued
            else "no run here diverges that such a λ brings back."
        )
    )
    if broken:
        parts.append(
            f"Too large a λ makes runs diverge that do not without it, in {broken} of {len(data['panels'])} panels."
        )
    return " ".join([*parts, *data["notes"]])


# --- Figure 3 -------------------------------------------------------------------------------------
RULES = {"EFL, all that was done": ("efl", "C", 0.1), "FedAvg, complete work only": ("fedavg", "A", 0.0)}


def _law(clients: int, active: float) -> Any:
    """Each client is active with this probability; half of the active ones complete their steps, the others stop "
    "after 1..E - 1."""
    from fedtheory.participation.irregular import Irregular

    row = np.concatenate([[1 - active], np.full(STEPS - 1, active / 2 / (STEPS - 1)), [active / 2]])
    return Irregular(STEPS, np.tile(row, (clients, 1)))


def compute_figure_3(
    network: str = "mlp-100-100", rates: Sequence[float] = (1.0, 0.5, 0.2), rounds: int = 80,
    seeds: int | Sequence[int] = 5, datasets: Sequence[str] = ("sent140", "shakespeare", "mnist"),
    first_found: bool = False, published: Published = THIRTY, seed: int = 0,
    data: Path | str | None = None, keep: Path | str | None = None, progress: Any = None,
) -> dict[str, Any]:
    """EFL, which takes what each active client has done, beside averaging over those that completed their work.

    Returns
    -------
    dict
        'panels': 'dataset', 'network', 'rates', 'rules', 'accuracy' (rules, rates, seeds, rounds + 1).
    """
    from fedtheory.report.networks.runs import DIGITS, quietly, seeds_from, simulated

    sets, notes = _sets(data, datasets, first_found, seed, progress)
    told, used = progress or quietly, seeds_from(seed, seeds if data is None else published.seeds)
    options = {"most": SAMPLES} if data is None else published.options
    panels = []
    for name in sets:
        found = []
        for words, (_, scheme, lam) in RULES.items():
            for rate in rates:
                preset = _setting(
                    name, network if name == DIGITS else None, lam,
                    rounds if data is None else published.rounds, scheme=scheme,
                )
                of = simulated(
                    preset, sets[name], used, keep, _law(preset.clients, rate),
                    _solver(preset, preset.lr), ("test_accuracy",), **options,
                )
                found.append(of["test_accuracy"])
                told(f"{name}: {words}, {100 * rate:.0f} % active")
        panels.append(
            {
                "dataset": name, "network": preset.network, "clients": preset.clients,
                "rounds": preset.rounds, "participation": "100%", "rates": np.array(rates),
                "rules": list(RULES),
                "accuracy": np.stack(found).reshape(len(RULES), len(rates), len(used), -1),
            }
        )
    return {"panels": panels, "seeds": used, "notes": notes, "published": data is not None, "most": options.get("most")}


def draw_figure_3(data: dict[str, Any]) -> Any:
    """A column a share of active clients, a row a data set."""
    from fedtheory.plotting.style import METHOD_COLOURS, headline, new_figure
    from fedtheory.report.networks.drawing import band, legend
    from fedtheory.report.networks.words import short

    panels, rates = data["panels"], data["panels"][0]["rates"]
    figure, axes = new_figure(
        max(8.6, 3.3 * len(rates)), 3.1 * len(panels) + 1.0, len(panels), len(rates), sharey="row"
    )
    for row, panel in zip(axes, panels, strict=True):
        for n, (axis, rate) in enumerate(zip(row, rates, strict=True)):
            for rule, (method, _, _) in enumerate(RULES.values()):
                values = 100 * np.asarray(panel["accuracy"], dtype=float)[rule, n]
                band(axis, np.arange(values.shape[1]), values, color=METHOD_COLOURS[method], label=panel["rules"][rule])
            axis.set(title=f"{short(panel)}: {100 * rate:.0f} % active", xlabel="round", ylim=(0, 101))
        row[0].set_ylabel("test accuracy, %")
    legend(figure, axes[0])
    headline(
        figure, _finding_3(data),
        f"of the active clients half stop early; line: mean of {len(data['seeds'])} seeds, band: "
        "all of them",
    )
    return figure


def _ends_3(panel: dict[str, Any]) -> np.ndarray:
    """Accuracy at the end in percent (rules, rates, seeds)."""
    from fedtheory.report.networks.words import ends

    values = np.asarray(panel["accuracy"], dtype=float)
    return 100 * np.stack([[ends(v) for v in rule] for rule in values])


def _finding_3(data: dict[str, Any]) -> str:
    at = _ends_3(data["panels"][0])[:, -1].mean(axis=1)
    rate = f"{100 * data['panels'][0]['rates'][-1]:.0f} %"
    return f"With {rate} active EFL ends at {at[0]:.0f} %, averaging the complete clients alone at {at[1]:.0f} %"


def caption_3(data: dict[str, Any]) -> str:
    """Both rules at every rate, and what the paper says."""
    from fedtheory.report.networks.words import joined, short, signed, where

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
            f"From the most to the fewest active clients EFL loses {signed(lost[0]).lstrip('+')} "
            f"points, the other {signed(lost[1]).lstrip('+')}; that EFL 'is robust to the low "
            f"participation rate' is {'seen' if lost[0] < lost[1] else 'not seen here'}."
        )
    parts.append(
        "EFL's coefficients do not grow when others are away, so that its step shrinks with the "
        "share of active clients; averaging divides by those that completed."
    )
    return " ".join([*parts, *data["notes"]])


_TAKES: dict[str, Any] = {"paper": "efl", "takes": ("data", "keep", "progress")}
_QUICK: dict[str, Any] = {"seeds": 3, "datasets": ("mnist",), "published": Published(6, 2, 60)}
FIGURES = (
    Figure(
        "efl_figure2", compute_figure_2, draw_figure_2, _QUICK | {"networks": ("logistic",), "rounds": 30}, {},
        title="The elastic term: test accuracy and training loss without it and with the best λ", number="Figure 2",
        caption=caption_2, **_TAKES,
    ),
    Figure(
        "efl_figure3", compute_figure_3, draw_figure_3, _QUICK | {"network": "logistic", "rounds": 40}, {},
        title="Test accuracy when few clients take part and some stop early", number="Figure 3", caption=caption_3, **_TAKES,
    ),
)  # fmt: skip
