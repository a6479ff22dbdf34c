"""EFL's Figure 1 and Table 2 on networks: accuracy when clients hold few classes, against the
methods that the paper compares with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from fedtheory.neural.benchmarks import presets, printed_tables
from fedtheory.plotting.figure import Figure
from fedtheory.plotting.style import METHOD_NAMES, headline, legend_below, method_style, new_figure
from paper_figures.networks.drawing import band, key_to_dots, lines_of, printed
from paper_figures.networks.runs import Published, Runs, on_digits
from paper_figures.networks.words import accuracy, gain, joined, short, where

if TYPE_CHECKING:
    from fedtheory.neural.benchmarks.presets import Preset

__all__ = ["FIGURES"]

CLIENTS, SAMPLES = 10, 60  # of scikit-learn's digits; equal sizes, which FedGATE and VRL-SGD need
FIGURE_1 = ("fedprox", "scaffold", "apfl", "efl")
TABLE_2 = ("fedavg", "fedgate", "vrl-sgd", "apfl", "fedamp", "efl")
_ADDED: dict[str, dict[str, Any]] = {
    "fedprox": {"mu": 0.01},
    "scaffold": {"option": "difference"},
}  # no preset of EFL's table has these


def _preset(dataset: str, method: str) -> Preset:
    """The setting of Table 2, where it has the method; else EFL's with the method in its place."""
    if method not in _ADDED:
        participation = "all" if method in ("fedgate", "vrl-sgd") else "10-of-100"
        return presets.get(f"efl/{dataset}/non-iid/{participation}/{method}")
    efl = presets.get(f"efl/{dataset}/non-iid/10-of-100/efl")
    return replace(efl, method=method, algorithm=method, hyperparameters=_ADDED[method])


def _small(preset: Preset, deal: dict[str, Any], network: str) -> Preset:
    """On the digits: ten clients, all of which take part."""
    given = on_digits(preset, network, CLIENTS, partition=deal, participation="all", cohort=0, epochs=5)
    if given.method == "fedamp":  # its step must fit the number of clients
        return replace(given, hyperparameters={**given.hyperparameters, "alpha": 0.1})
    return given


def _deals(classes: Sequence[int]) -> dict[str, dict[str, Any]]:
    """0 stands for IID."""
    return {
        ("IID" if m == 0 else f"m = {m}"): {"partition": "iid"} if m == 0 else {"partition": "classes", "classes": m}
        for m in classes
    }


def compute(
    methods: Sequence[str] = FIGURE_1, classes: Sequence[int] = (0, 5, 2, 1),
    networks: Sequence[str] = ("mlp-100-100",), rounds: int = 40, seeds: int | Sequence[int] = 5,
    datasets: Sequence[str] = ("cifar100", "mnist"), own_deal: bool = False, **asked: Any,
) -> dict[str, Any]:
    """Runs of several methods on several splits.

    Parameters
    ----------
    classes : m of the splits, 0 for IID
    own_deal : on ``data``, the split and the participation of Table 2's presets, and not those of ``classes``
    asked : as `Runs` takes them

    Returns
    -------
    dict
        'panels', a data set and split each: 'dataset', 'network', 'split', 'clients', 'participation', 'rounds', 'methods'.
    """
    runs = Runs(rounds, seeds, most=SAMPLES, **asked)
    names = runs.read(datasets)
    deals = _deals(classes) if runs.small or not own_deal else {"non-IID": None}
    settings = {}
    for name, (split, deal), m in product(networks if runs.small else names, deals.items(), methods):
        preset = _preset("mnist" if runs.small else name, m)
        dealt = replace(preset, partition=deal or preset.partition)
        settings[name, split, m] = runs.setting(dealt, partial(_small, deal=deal, network=name))
    return runs.panels(settings, participation="100%" if runs.small else "10%")


# --- Figure 1 -------------------------------------------------------------------------------------
def draw_figure_1(data: dict[str, Any]) -> Any:
    """A row a data set, a column a split, and on the right what each method loses from the first split to the last."""
    rows, splits = _rows(data), _splits(data)
    figure, axes = new_figure(2.5 * len(splits) + 3.4, 2.9 * len(rows) + 1.2, len(rows), len(splits) + 1)
    for line, panels in zip(axes, rows, strict=True):
        for n, (axis, panel) in enumerate(zip(line, panels, strict=False)):
            for method, found in panel["methods"].items():
                band(axis, accuracy(found), **method_style(method))
            title = f"{short(panel)}: {panel['split']}" if n == 0 else panel["split"]
            axis.set(title=title, xlabel="round", ylim=(0, 101))
        line[0].set_ylabel("test accuracy, %")
        lost, last = {m: _lost(panels, m) for m in panels[0]["methods"]}, line[-1]
        lines_of(last, lost, [METHOD_NAMES[m] for m in lost])
        last.set_ylim(0.6 - len(lost), 0.6)
        last.set_xlim(left=min(0.0, last.get_xlim()[0]))
        last.set(title=f"lost from {splits[0]} to {splits[-1]}", xlabel="points of accuracy, at the end")
    legend_below(figure, axes[0, :-1], 6)
    detail = f"m: classes that a client holds; line: mean of {len(data['seeds'])} seeds, band and points: all"
    headline(figure, _finding_1(data), detail)
    return figure


def _rows(data: dict[str, Any]) -> list[list[dict[str, Any]]]:
    """The panels of each data set and network."""
    of: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for panel in data["panels"]:
        of.setdefault((panel["dataset"], panel["network"]), []).append(panel)
    return list(of.values())


def _splits(data: dict[str, Any]) -> list[str]:
    return list(dict.fromkeys(p["split"] for p in data["panels"]))


def _lost(panels: list[dict[str, Any]], method: str) -> np.ndarray:
    """Points of accuracy between the first split and the last, at the runs' ends, by seed."""
    return gain(panels[0]["methods"][method], panels[-1]["methods"][method])


def _losses(data: dict[str, Any]) -> dict[str, float]:
    """Mean loss of each method over the data sets."""
    lost = {m: [_lost(panels, m) for panels in _rows(data)] for m in data["panels"][0]["methods"]}
    return {m: float(np.mean([points.mean() for points in of if points.size])) for m, of in lost.items()}


def _finding_1(data: dict[str, Any]) -> str:
    losses = _losses(data)
    least = min(losses, key=lambda m: losses[m])
    if least == "efl":
        return "EFL loses the least where clients hold few classes"
    return f"EFL loses {losses['efl']:.0f} points where clients hold few classes, {METHOD_NAMES[least]} {losses[least]:.0f}"


def caption_1(data: dict[str, Any]) -> str:
    """Say what each method loses, against 'EFL is affected by far the least'."""
    splits, losses = _splits(data), sorted(_losses(data).items(), key=lambda item: item[1])
    said = joined([f"{METHOD_NAMES[m]} {v:.1f}" for m, v in losses])
    seen = "seen" if losses[0][0] == "efl" else "not seen here"
    parts = [
        where(data), f"Points of accuracy lost from {splits[0]} to {splits[-1]}, mean over the seeds: {said}.",
        f"That 'EFL is affected by far the least' is {seen}. The paper prints neither rounds, step sizes, compression nor who takes "
        "part; EFL is run with Table 2's settings here: sparse messages of a tenth of the numbers, λ = 0.1.",
    ]
    return " ".join([*parts, *data["notes"]])


# --- Table 2 --------------------------------------------------------------------------------------
def _best(found: dict[str, Any]) -> np.ndarray:
    """Best mean test accuracy over the rounds, in percent, seed by seed: NaN where nothing was measured."""
    values = 100 * np.asarray(found["client_accuracy"], dtype=float)[:, 1:]
    return np.where(np.isfinite(values).any(axis=1), np.where(np.isfinite(values), values, -1).max(axis=1), np.nan)


def _printed(panel: dict[str, Any], method: str) -> float:
    dataset = "mnist" if panel["dataset"] == "digits" else panel["dataset"]
    cell: Any = printed_tables.table("efl-table2").value("non-iid", dataset, method)
    return 100 * float(cell)


def draw_table_2(data: dict[str, Any]) -> Any:
    """A panel a data set: best mean test accuracy of each method, and the printed one."""
    panels = data["panels"]
    figure, axes = new_figure(max(8.6, 4.0 * len(panels)), 4.0, 1, len(panels))
    for axis, panel in zip(axes.flat, panels, strict=True):
        methods = list(panel["methods"])
        lines_of(axis, {m: _best(panel["methods"][m]) for m in methods}, [METHOD_NAMES[m] for m in methods])
        for y, method in enumerate(methods):
            printed(axis, _printed(panel, method), -y)
        axis.set(title=f"{short(panel)}, {panel['split']}", xlabel="best mean test accuracy over the clients, %")
    key_to_dots(figure, "printed" if data["published"] else "printed for MNIST")
    detail = f"Table 2; {len(data['seeds'])} seeds; what each client's own model gets right, where it has one"
    headline(figure, _finding_2(data), detail)
    return figure


def _order(panel: dict[str, Any]) -> list[tuple[str, float]]:
    """Methods with the mean of their best accuracies, the best first; those that diverged on every seed left out."""
    means = {
        m: float(np.nanmean(_best(f)))
        for m, f in panel["methods"].items()
        if "client_accuracy" in f and np.isfinite(_best(f)).any()
    }
    return sorted(means.items(), key=lambda item: -item[1])


def _finding_2(data: dict[str, Any]) -> str:
    order = _order(data["panels"][0])
    place = [m for m, _ in order].index("efl") + 1
    return f"{METHOD_NAMES[order[0][0]]} {order[0][1]:.1f} %, EFL {dict(order)['efl']:.1f} %: place {place} of {len(order)}"


def caption_2(data: dict[str, Any]) -> str:
    """The order of the methods here and as printed."""
    parts = [where(data)]
    for panel in data["panels"]:
        order = _order(panel)
        printed = sorted(panel["methods"], key=lambda m: -_printed(panel, m))
        parts.append(
            f"{short(panel)}, {panel['split']}: {joined([f'{METHOD_NAMES[m]} {v:.1f} %' for m, v in order])}. Printed"
            f"{'' if data['published'] else ' for MNIST'}: "
            f"{joined([f'{METHOD_NAMES[m]} {_printed(panel, m):.2f} %' for m in printed])}."
        )
        personal = [v for m, v in order if m in ("apfl", "fedamp")]
        shared = [v for m, v in order if m not in ("apfl", "fedamp")]
        if personal and shared and min(personal) > max(shared):
            parts.append(
                "APFL and FedAMP are measured on each client's own classes with the client's own model, the others with the one "
                "shared model: that is why they lead where a client holds few classes."
            )
    return " ".join([*parts, *data["notes"]])


_QUICK = {"rounds": 12, "seeds": 3, "published": Published(8, 2, 60)}
_OWN = {"methods": TABLE_2, "classes": (2,), "own_deal": True, "datasets": ("mnist", "cifar100", "shakespeare")}
_TAKES = ("data", "keep", "progress", "change")
FIGURES = (
    Figure(
        "efl_figure1", compute, draw_figure_1, _QUICK | {"classes": (0, 2, 1), "datasets": ("mnist",)}, {},
        title="Test accuracy against rounds, clients with fewer and fewer classes", number="Figure 1", caption=caption_1, takes=_TAKES,
    ),
    Figure(
        "efl_table2", compute, draw_table_2, _QUICK | _OWN | {"datasets": ("mnist",)}, _OWN,
        title="Best mean test accuracy on clients that differ", number="Table 2", caption=caption_2, takes=_TAKES,
    ),
)  # fmt: skip
