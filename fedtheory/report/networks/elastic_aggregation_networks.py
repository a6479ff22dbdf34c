"""Elastic Aggregation's poster on networks: its table, and its figure over splits, participation and local epochs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from fedtheory.plotting.figure import Figure
from fedtheory.report.networks.runs import AS_SET, WHOLE, Change, Published

__all__ = ["FIGURES"]

CLIENTS, BATCH = 50, 10  # of scikit-learn's digits
METHODS = ("naive", "elastic")
_STYLE = {"naive": "fedavg", "elastic": "elastic-aggregation"}
_NAMES = {"naive": "naive aggregation", "elastic": "elastic aggregation"}


def _preset(dataset: str, method: str) -> Any:
    """The row of the poster's table."""
    from fedtheory.neural.benchmarks import presets

    return next(p for p in presets.of_table("elastic-table", dataset=dataset, method=method))


def _small(method: str, network: str, rounds: int, **more: Any) -> Any:
    """The MNIST row's setting on scikit-learn's digits: 5 of 50 clients a round, batches of 10; tau, mu and the "
    "share held out as there."""
    from fedtheory.report.networks.runs import on_digits

    preset = on_digits(_preset("mnist", method), network, CLIENTS)
    hyper = dict(preset.hyperparameters)
    if "probe_batch" in hyper:
        hyper["probe_batch"] = BATCH
    given: dict[str, Any] = {"batch_size": BATCH, "rounds": rounds, "cohort": 5, "hyperparameters": hyper}
    return replace(preset, **(given | more))


def _gain(methods: Mapping[str, Any]) -> np.ndarray:
    """Elastic minus naive at the end, in points, seed by seed."""
    from fedtheory.report.networks.words import difference

    return difference(methods["elastic"]["test_accuracy"], methods["naive"]["test_accuracy"])


# --- the table ------------------------------------------------------------------------------------
def compute_table(
    networks: Sequence[str] = ("logistic", "mlp-100-100", "cnn-8-16"), rounds: int = 40,
    seeds: int | Sequence[int] = 5,
    datasets: Sequence[str] = ("mnist", "cifar100", "emnist", "cifar10", "cinic10-200", "cinic10"),
    published: Published = WHOLE, change: Change = AS_SET, seed: int = 0,
    data: Path | str | None = None, keep: Path | str | None = None, progress: Any = None,
) -> dict[str, Any]:
    """Both aggregations on each row of the table, or on the digits with each network.

    Returns
    -------
    dict
        'panels': 'dataset', 'network', 'clients', 'cohort', 'rounds', 'methods' {'naive',
        'elastic': what `measured` returns}.
    """
    from fedtheory.neural.data import digits
    from fedtheory.report.networks.runs import DIGITS, found_sets, measured, need_torch, quietly, seeds_from

    need_torch()
    notes: list[str] = []
    if data is None:
        sets: dict[str, Any] = {DIGITS: digits()}
        presets = {(n, m): _small(m, n, rounds) for n in networks for m in METHODS}
    else:
        sets, notes = found_sets(datasets, data, seed, progress or quietly)
        presets = {(n, m): _preset(n, m) for n in sets for m in METHODS}
        if published.rounds is not None:
            presets = {key: replace(p, rounds=min(p.rounds, published.rounds)) for key, p in presets.items()}
    presets = {key: change(p) for key, p in presets.items()}
    used = seeds_from(seed, seeds if data is None else published.seeds)
    options = {**({} if data is None else published.options), **change.options}
    found = measured(presets, sets, used, keep, progress, **options)
    panels = []
    for name in dict.fromkeys(n for n, _ in presets):
        first = presets[name, "naive"]
        about = {k: getattr(first, k) for k in ("dataset", "network", "clients", "cohort", "rounds", "split")}
        panels.append(about | {"methods": {m: found[name, m] for m in METHODS}})
    return {
        "panels": panels, "seeds": used, "notes": [*notes, *change.notes()],
        "published": data is not None, "most": options.get("most"),
    }


def _printed_gains() -> dict[str, float]:
    """Elastic minus naive of every row of the poster's table, in points."""
    from fedtheory.neural.benchmarks import printed_tables

    table = printed_tables.table("elastic-table")
    cells: dict[str, Any] = {d: [table.value(s, d, m) for m in ("elastic", "naive")] for s, d in table.rows}
    return {dataset: 100 * (elastic - naive) for dataset, (elastic, naive) in cells.items()}


def draw_table(data: dict[str, Any]) -> Any:
    """Curves on the left; on the right the gain at the end beside every printed one."""
    from fedtheory.plotting.style import METHOD_COLOURS, headline, new_figure
    from fedtheory.report.networks.drawing import band, dots, from_below, legend
    from fedtheory.report.networks.words import name_of, short

    panels, printed = data["panels"], _printed_gains()
    figure, axes = new_figure(2.7 * len(panels) + 4.2, 4.0, 1, len(panels) + 1, width_ratios=[1] * len(panels) + [1.4])
    for axis, panel in zip(axes[0], panels, strict=False):
        curves = []
        for m in METHODS:
            values = 100 * np.asarray(panel["methods"][m]["test_accuracy"], dtype=float)
            band(axis, np.arange(values.shape[1]), values, color=METHOD_COLOURS[_STYLE[m]], label=_NAMES[m])
            curves.append(values)
        from_below(axis, curves)
        axis.set(title=short(panel), xlabel="round")
    axes[0, 0].set_ylabel("test accuracy, %")
    last, ticks = axes[0, -1], []
    for y, panel in enumerate(panels):
        dots(last, -y, _gain(panel["methods"]), METHOD_COLOURS["elastic-aggregation"])
        ticks.append(short(panel))
    for y, (dataset, gain) in enumerate(printed.items(), start=len(panels)):
        last.plot(gain, -y, "D", markerfacecolor="none", markeredgecolor="#000000", markersize=6)
        ticks.append(f"printed: {name_of(dataset)}")
    last.axvline(0, color="#000000", linewidth=0.9)
    last.set_yticks([-y for y in range(len(ticks))], ticks, fontsize=8)
    last.grid(axis="y", visible=False)
    last.set(title="elastic minus naive, at the end", xlabel="points of accuracy", xscale="symlog")
    last.set_xlim(right=45)
    last.set_xticks([-10, -1, 0, 1, 10], ["−10", "−1", "0", "1", "10"])
    legend(figure, axes[0, :-1])
    headline(
        figure, _finding_table(data),
        f"line: mean of {len(data['seeds'])} seeds, band and points: all; hollow: the poster's "
        "table",
    )
    return figure


def _finding_table(data: dict[str, Any]) -> str:
    gains = [_gain(p["methods"]).mean() for p in data["panels"]]
    printed = _printed_gains().values()
    low, high = (f"{v:+.1f}".replace("-", "−") for v in (min(gains), max(gains)))
    return f"Elastic aggregation changes the accuracy by {low} to {high} points; printed are +{min(printed):.1f} to +{max(printed):.1f}"


def caption_table(data: dict[str, Any]) -> str:
    """Gains here and as printed."""
    from fedtheory.report.networks.words import data_words, joined, name_of, seen, spread, where

    first = data["panels"][0]
    rounded = where(
        {**data, "panels": [p | {"participation": f"{100 * p['cohort'] / p['clients']:g}%"} for p in data["panels"]]}
    )
    said = [f"{data_words(p)} {spread(g)}, above 0 {seen(g)}" for p in data["panels"] for g in [_gain(p["methods"])]]
    printed = joined([f"{name_of(d)} {g:+.2f}" for d, g in _printed_gains().items()])
    held = "Elastic aggregation trains on the 70 % of the samples that are not held out for the sensitivity, the naive one on all."
    return (
        " ".join([rounded, f"Gains in points: {'; '.join(said)}.", f"Printed: {printed}.", held, *data["notes"]])
        if first
        else ""
    )


# --- the figure -----------------------------------------------------------------------------------
SETTINGS: dict[str, tuple[str, tuple[Any, ...]]] = {
    "split": ("Dirichlet parameter of the split", (0.1, 0.3, 1.0, 10.0)),
    "cohort": ("clients a round, of 50", (2, 5, 10, 25)),
    "epochs": ("local epochs", (1, 3, 10)),
}


def _varied(what: str, value: Any) -> dict[str, Any]:
    return {"partition": {"partition": "dirichlet", "alpha": value, "sigma": 0.3}} if what == "split" else {what: value}


def compute_settings(
    network: str = "mlp-100-100", rounds: int = 40, seeds: int | Sequence[int] = 5, seed: int = 0,
    keep: Path | str | None = None, progress: Any = None,
) -> dict[str, Any]:
    """Both aggregations on the digits, one thing varied at a time around Dirichlet (.3), 5 of 50 clients, 1 epoch.

    Returns
    -------
    dict
        'varied' {what: {'values', 'naive', 'elastic' (values, seeds): accuracies at the end, in percent}}, and what was run.
    """
    from fedtheory.neural.data import digits
    from fedtheory.report.networks.runs import DIGITS, measured, seeds_from
    from fedtheory.report.networks.words import ends

    presets = {
        (what, value, m): _small(m, network, rounds, **_varied(what, value))
        for what, (_, values) in SETTINGS.items() for value in values for m in METHODS
    }
    used = seeds_from(seed, seeds)
    found = measured(presets, {DIGITS: digits()}, used, keep, progress)
    varied = {
        what: {"values": np.array(values)}
        | {m: np.stack([100 * ends(found[what, v, m]["test_accuracy"]) for v in values]) for m in METHODS}
        for what, (_, values) in SETTINGS.items()
    }
    return {
        "varied": varied, "network": network, "dataset": DIGITS, "clients": CLIENTS,
        "rounds": rounds, "seeds": used,
    }


def draw_settings(data: dict[str, Any]) -> Any:
    """Accuracies above, gains below, one column for each thing that is varied."""
    from fedtheory.plotting.style import METHOD_COLOURS, headline, new_figure
    from fedtheory.report.networks.drawing import legend

    figure, axes = new_figure(10.4, 5.6, 2, len(SETTINGS), sharey="row", height_ratios=(1.2, 1))
    for (what, (words, _)), (above, below) in zip(SETTINGS.items(), axes.T, strict=True):
        found = data["varied"][what]
        x = np.arange(len(found["values"]))
        for m, shift in zip(METHODS, (-0.08, 0.08), strict=True):
            values = np.asarray(found[m], dtype=float)
            colour = METHOD_COLOURS[_STYLE[m]]
            above.plot(x + shift, values.mean(axis=1), "-", color=colour, label=_NAMES[m])
            above.plot(x + shift, values, "o", color=colour, markersize=3.5, alpha=0.6, label="_")
        gains = np.asarray(found["elastic"], dtype=float) - np.asarray(found["naive"], dtype=float)
        below.axhline(0, color="#000000", linewidth=0.9)
        below.plot(x, gains, "o", color=METHOD_COLOURS["elastic-aggregation"], markersize=4, alpha=0.7)
        below.plot(
            x, gains.mean(axis=1), "_", color=METHOD_COLOURS["elastic-aggregation"], markersize=18, markeredgewidth=2.2
        )
        for axis in (above, below):
            axis.set_xticks(x, [f"{v:g}" for v in found["values"]])
        below.set_xlabel(words)
    axes[0, 0].set_ylabel("test accuracy\nat the end, %")
    axes[1, 0].set_ylabel("elastic minus naive,\npoints")
    legend(figure, axes[0, :1])
    base = "varied one at a time around Dirichlet (.3), 5 of 50 clients, 1 epoch"
    headline(figure, _finding_settings(data), f"scikit-learn's digits, {base}; points: {len(data['seeds'])} seeds")
    return figure


def _all_gains(data: dict[str, Any]) -> np.ndarray:
    """Of all settings and seeds (settings, seeds)."""
    return np.concatenate(
        [np.asarray(f["elastic"], dtype=float) - np.asarray(f["naive"], dtype=float) for f in data["varied"].values()]
    )


def _finding_settings(data: dict[str, Any]) -> str:
    gains = _all_gains(data)
    return f"Elastic aggregation is ahead on the mean in {int((gains.mean(axis=1) > 0).sum())} of {len(gains)} settings"


def caption_settings(data: dict[str, Any]) -> str:
    """The mean gains, one by one, against 'significant improvements'."""
    from fedtheory.report.networks.words import data_words, joined, signed

    parts = [
        f"{data_words(data)}; {data['clients']} clients, {data['rounds']} rounds, "
        f"{len(data['seeds'])} seeds. These stand in for the poster's data and networks."
    ]
    for what, (words, _) in SETTINGS.items():
        found = data["varied"][what]
        gains = (np.asarray(found["elastic"], dtype=float) - np.asarray(found["naive"], dtype=float)).mean(axis=1)
        parts.append(
            f"Mean gain in points by {words}: "
            f"{joined([f'{v:g}: {signed(g)}' for v, g in zip(found['values'], gains, strict=True)])}."
        )
    gains = _all_gains(data)
    always = int((gains > 0).all(axis=1).sum())
    parts.append(
        "The poster speaks of 'significant improvements across different partitioning "
        "distributions, participation rates and numbers of local epochs'; here the gain is above 0 "
        f"in every seed in {always} of {len(gains)} settings, and its mean is "
        f"{signed(gains.mean())} points."
    )
    return " ".join(parts)


_TAKES: dict[str, Any] = {"paper": "elastic-aggregation"}
FIGURES = (
    Figure(
        "elastic_aggregation_table", compute_table, draw_table,
        {"networks": ("logistic", "mlp-100-100"), "rounds": 20, "seeds": 3, "datasets": ("mnist",), "published": Published(10, 2)},
        {"datasets": ("mnist", "cifar10")}, title="Naive and elastic aggregation: test accuracy", number="Table (upper)",
        caption=caption_table, takes=("data", "keep", "progress"), **_TAKES,
    ),
    Figure(
        "elastic_aggregation_settings", compute_settings, draw_settings, {"network": "logistic", "rounds": 20, "seeds": 3}, {},
        title="Naive and elastic aggregation over splits, participation and local epochs", number="Figure (results)",
        caption=caption_settings, takes=("keep", "progress"), **_TAKES,
    ),
)  # fmt: skip
