"""Elastic Aggregation's poster on networks: its table, and its figure over splits, participation and local epochs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from fedtheory.neural.benchmarks import presets, printed_tables
from fedtheory.plotting.figure import Figure
from fedtheory.plotting.style import METHOD_COLOURS, headline, legend_below, new_figure
from paper_figures.networks.drawing import band, dots, from_below, printed
from paper_figures.networks.runs import DIGITS, Published, Runs, on_digits
from paper_figures.networks.words import (
    accuracy,
    data_words,
    ends,
    gain,
    joined,
    name_of,
    seen,
    short,
    signed,
    spread,
    where,
)

__all__ = ["FIGURES"]

CLIENTS, BATCH = 50, 10  # of scikit-learn's digits
METHODS = ("naive", "elastic")
_COLOURS = {"naive": METHOD_COLOURS["fedavg"], "elastic": METHOD_COLOURS["elastic-aggregation"]}
_NAMES = {"naive": "naive aggregation", "elastic": "elastic aggregation"}


def _preset(dataset: str, method: str) -> Any:
    """The row of the poster's table."""
    return next(p for p in presets.of_table("elastic-table", dataset=dataset, method=method))


def _small(preset: Any, network: str, **more: Any) -> Any:
    """The MNIST row's setting on scikit-learn's digits: 5 of 50 clients a round, batches of 10; tau, mu and the
    share held out as there."""
    preset = on_digits(preset, network, CLIENTS)
    hyper = dict(preset.hyperparameters)
    if "probe_batch" in hyper:
        hyper["probe_batch"] = BATCH
    return replace(preset, **{"batch_size": BATCH, "cohort": 5, "hyperparameters": hyper, **more})


def _gain(methods: Mapping[str, Any]) -> np.ndarray:
    """Elastic minus naive at the end, in points, seed by seed."""
    return gain(methods["elastic"], methods["naive"])


# --- the table ------------------------------------------------------------------------------------
def compute_table(
    networks: Sequence[str] = ("logistic", "mlp-100-100", "cnn-8-16"), rounds: int = 40,
    seeds: int | Sequence[int] = 5,
    datasets: Sequence[str] = ("mnist", "cifar100", "cifar10"), **asked: Any,
) -> dict[str, Any]:
    """Both aggregations on each row of the table, or on the digits with each network.

    Returns
    -------
    dict
        'panels': 'dataset', 'network', 'clients', 'cohort', 'rounds', 'methods' {'naive',
        'elastic': what `Runs.measured` returns}.
    """
    runs = Runs(rounds, seeds, **asked)
    names = runs.read(datasets)
    return runs.panels({
        (n, m): runs.setting(_preset("mnist" if runs.small else n, m), partial(_small, network=n))
        for n, m in product(networks if runs.small else names, METHODS)
    })  # fmt: skip


def _printed_gains() -> dict[str, float]:
    """Elastic minus naive of every row of the poster's table, in points."""
    table = printed_tables.table("elastic-table")
    cells: dict[str, Any] = {d: [table.value(s, d, m) for m in ("elastic", "naive")] for s, d in table.rows}
    return {dataset: 100 * (elastic - naive) for dataset, (elastic, naive) in cells.items()}


def draw_table(data: dict[str, Any]) -> Any:
    """Curves on the left; on the right the gain at the end beside every printed one."""
    panels = data["panels"]
    figure, axes = new_figure(2.7 * len(panels) + 4.2, 4.0, 1, len(panels) + 1, width_ratios=[1] * len(panels) + [1.4])
    for axis, panel in zip(axes[0], panels, strict=False):
        curves = {m: accuracy(panel["methods"][m]) for m in METHODS}
        for m, values in curves.items():
            band(axis, values, color=_COLOURS[m], label=_NAMES[m])
        from_below(axis, list(curves.values()))
        axis.set(title=short(panel), xlabel="round")
    axes[0, 0].set_ylabel("test accuracy, %")
    last, ticks = axes[0, -1], []
    for y, panel in enumerate(panels):
        dots(last, -y, _gain(panel["methods"]), _COLOURS["elastic"])
        ticks.append(short(panel))
    for y, (dataset, points) in enumerate(_printed_gains().items(), start=len(panels)):
        printed(last, points, -y)
        ticks.append(f"printed: {name_of(dataset)}")
    last.axvline(0, color="#000000", linewidth=0.9)
    last.set_yticks([-y for y in range(len(ticks))], ticks, fontsize=8)
    last.grid(axis="y", visible=False)
    last.set(title="elastic minus naive, at the end", xlabel="points of accuracy", xscale="symlog")
    last.set_xlim(right=45)
    last.set_xticks([-10, -1, 0, 1, 10], ["−10", "−1", "0", "1", "10"])
    legend_below(figure, axes[0, :-1], 6)
    detail = f"line: mean of {len(data['seeds'])} seeds, band and points: all; hollow: the poster's table"
    headline(figure, _finding_table(data), detail)
    return figure


def _finding_table(data: dict[str, Any]) -> str:
    gains = [_gain(p["methods"]).mean() for p in data["panels"]]
    printed = _printed_gains().values()
    low, high = (f"{v:+.1f}".replace("-", "−") for v in (min(gains), max(gains)))
    return f"Elastic aggregation changes the accuracy by {low} to {high} points; printed are +{min(printed):.1f} to +{max(printed):.1f}"


def caption_table(data: dict[str, Any]) -> str:
    """Gains here and as printed."""
    panels = [p | {"participation": f"{100 * p['cohort'] / p['clients']:g}%"} for p in data["panels"]]
    said = [f"{data_words(p)} {spread(g)}, above 0 {seen(g)}" for p in panels for g in [_gain(p["methods"])]]
    poster = joined([f"{name_of(d)} {g:+.2f}" for d, g in _printed_gains().items()])
    held = "Elastic aggregation trains on the 70 % of the samples that are not held out for the sensitivity, the naive one on all."
    gains = f"Gains in points: {'; '.join(said)}. Printed: {poster}."
    return " ".join([where(data | {"panels": panels}), gains, held, *data["notes"]])


# --- the figure -----------------------------------------------------------------------------------
SETTINGS: dict[str, tuple[str, tuple[Any, ...]]] = {
    "split": ("Dirichlet parameter of the split", (0.1, 0.3, 1.0, 10.0)),
    "cohort": ("clients a round, of 50", (2, 5, 10, 25)),
    "epochs": ("local epochs", (1, 3, 10)),
}


def _varied(what: str, value: Any) -> dict[str, Any]:
    return {"partition": {"partition": "dirichlet", "alpha": value, "sigma": 0.3}} if what == "split" else {what: value}


def compute_settings(
    network: str = "mlp-100-100", rounds: int = 40, seeds: int | Sequence[int] = 5, **asked: Any
) -> dict[str, Any]:
    """Both aggregations on the digits, one thing varied at a time around Dirichlet (.3), 5 of 50 clients, 1 epoch.

    Returns
    -------
    dict
        'varied' {what: {'values', 'naive', 'elastic' (values, seeds): accuracies at the end, in percent}}, and what was run.
    """
    runs = Runs(rounds, seeds, **asked)
    runs.read(())
    each = [(what, value, m) for what, (_, values) in SETTINGS.items() for value in values for m in METHODS]
    found = runs.measured({
        (what, value, m): runs.setting(_preset("mnist", m), partial(_small, network=network, **_varied(what, value)))
        for what, value, m in each
    })  # fmt: skip
    varied = {
        what: {"values": np.array(values)} | {m: np.stack([ends(accuracy(found[what, v, m])) for v in values]) for m in METHODS}
        for what, (_, values) in SETTINGS.items()
    }
    return {
        "varied": varied, "network": network, "dataset": DIGITS, "clients": CLIENTS, "rounds": rounds, "seeds": runs.used,
    }


def draw_settings(data: dict[str, Any]) -> Any:
    """Accuracies above, gains below, one column for each thing that is varied."""
    figure, axes = new_figure(10.4, 5.6, 2, len(SETTINGS), sharey="row", height_ratios=(1.2, 1))
    for (what, (words, _)), (above, below) in zip(SETTINGS.items(), axes.T, strict=True):
        found = data["varied"][what]
        x = np.arange(len(found["values"]))
        for m, shift in zip(METHODS, (-0.08, 0.08), strict=True):
            values = np.asarray(found[m], dtype=float)
            above.plot(x + shift, values.mean(axis=1), "-", color=_COLOURS[m], label=_NAMES[m])
            above.plot(x + shift, values, "o", color=_COLOURS[m], markersize=3.5, alpha=0.6, label="_")
        gains = _gains_at_end(found)
        below.axhline(0, color="#000000", linewidth=0.9)
        below.plot(x, gains, "o", color=_COLOURS["elastic"], markersize=4, alpha=0.7)
        below.plot(x, gains.mean(axis=1), "_", color=_COLOURS["elastic"], markersize=18, markeredgewidth=2.2)
        for axis in (above, below):
            axis.set_xticks(x, [f"{v:g}" for v in found["values"]])
        below.set_xlabel(words)
    axes[0, 0].set_ylabel("test accuracy\nat the end, %")
    axes[1, 0].set_ylabel("elastic minus naive,\npoints")
    legend_below(figure, axes[0, :1], 6)
    base = "varied one at a time around Dirichlet (.3), 5 of 50 clients, 1 epoch"
    headline(figure, _finding_settings(data), f"scikit-learn's digits, {base}; points: {len(data['seeds'])} seeds")
    return figure


def _gains_at_end(found: Mapping[str, Any]) -> np.ndarray:
    """Elastic minus naive (values, seeds)."""
    return np.asarray(found["elastic"], dtype=float) - np.asarray(found["naive"], dtype=float)


def _all_gains(data: dict[str, Any]) -> np.ndarray:
    """Of all settings and seeds (settings, seeds)."""
    return np.concatenate([_gains_at_end(found) for found in data["varied"].values()])


def _finding_settings(data: dict[str, Any]) -> str:
    gains = _all_gains(data)
    return f"Elastic aggregation is ahead on the mean in {int((gains.mean(axis=1) > 0).sum())} of {len(gains)} settings"


def caption_settings(data: dict[str, Any]) -> str:
    """The mean gains, one by one, against 'significant improvements'."""
    parts = [
        f"{data_words(data)}; {data['clients']} clients, {data['rounds']} rounds, "
        f"{len(data['seeds'])} seeds. These stand in for the poster's data and networks."
    ]
    for what, (words, _) in SETTINGS.items():
        found = data["varied"][what]
        gains = zip(found["values"], _gains_at_end(found).mean(axis=1), strict=True)
        parts.append(f"Mean gain in points by {words}: {joined([f'{v:g}: {signed(g)}' for v, g in gains])}.")
    every = _all_gains(data)
    parts.append(
        "The poster speaks of 'significant improvements across different partitioning distributions, participation rates and "
        f"numbers of local epochs'; here the gain is above 0 in every seed in {int((every > 0).all(axis=1).sum())} of {len(every)} "
        f"settings, and its mean is {signed(every.mean())} points."
    )
    return " ".join(parts)


FIGURES = (
    Figure(
        "elastic_aggregation_table", compute_table, draw_table,
        {"networks": ("logistic", "mlp-100-100"), "rounds": 20, "seeds": 3, "datasets": ("mnist",), "published": Published(10, 2)},
        {"datasets": ("mnist", "cifar10")}, title="Naive and elastic aggregation: test accuracy", number="Table (upper)",
        caption=caption_table, takes=("data", "keep", "progress", "change"),
    ),
    Figure(
        "elastic_aggregation_settings", compute_settings, draw_settings, {"network": "logistic", "rounds": 20, "seeds": 3}, {},
        title="Naive and elastic aggregation over splits, participation and local epochs", number="Figure (results)",
        caption=caption_settings, takes=("keep", "progress"),
    ),
)  # fmt: skip
