"""EFL's Figure 1 and Table 2 on networks: accuracy when clients hold few classes, against the
methods that the paper compares with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedtheory.plotting.figure import Figure
from fedtheory.report.networks.runs import AS_SET, WHOLE, Change, Published

if TYPE_CHECKING:
    from fedtheory.neural.benchmarks.preset import Preset

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
    from fedtheory.neural.benchmarks import presets

    if method not in _ADDED:
        participation = "all" if method in ("fedgate", "vrl-sgd") else "10-of-100"
        return presets.get(f"efl/{dataset}/non-iid/{participation}/{method}")
    efl = presets.get(f"efl/{dataset}/non-iid/10-of-100/efl")
    return replace(efl, method=method, algorithm=method, hyperparameters=_ADDED[method])


def _small(method: str, deal: dict[str, Any], network: str, rounds: int) -> Preset:
    """On the digits: ten clients, all of which take part."""
    from fedtheory.report.networks.runs import on_digits

    given = on_digits(
        _preset("mnist", method), network, CLIENTS, partition=deal, participation="all", cohort=0,
        rounds=rounds, epochs=5,
    )
    if method == "fedamp":  # its step must fit the number of clients
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
    datasets: Sequence[str] = ("cifar100", "mnist"), own_deal: bool = False,
    published: Published = WHOLE, change: Change = AS_SET, seed: int = 0,
    data: Path | str | None = None, keep: Path | str | None = None, progress: Any = None,
) -> dict[str, Any]:
    """Runs of several methods on several splits.

    Parameters
    ----------
    classes : m of the splits, 0 for IID
    own_deal : on ``data``, the split and the participation of Table 2's presets, and not those of ``classes``
    The others are as `fedtheory.report.networks.families.compute` takes them.

    Returns
    -------
    dict
        'panels', a data set and split each: 'dataset', 'network', 'split', 'clients', 'participation', 'rounds', 'methods'.
    """
    from fedtheory.neural.data import digits
    from fedtheory.report.networks.runs import DIGITS, found_sets, measured, need_torch, quietly, seeds_from

    need_torch()
    presets: dict[tuple[str, str, str], Preset] = {}
    notes: list[str] = []
    if data is None:
        sets: dict[str, Any] = {DIGITS: digits()}
        for network in networks:
            presets |= {
                (network, s, m): _small(m, d, network, rounds) for s, d in _deals(classes).items() for m in methods
            }
    else:
        sets, notes = found_sets(datasets, data, seed, progress or quietly)
        for name in sets:
            for split, deal in {"non-IID": None}.items() if own_deal else _deals(classes).items():
                for m in methods:
                    preset = _preset(name, m)
                    last = preset.rounds if published.rounds is None else min(preset.rounds, published.rounds)
                    presets[name, split, m] = replace(preset, rounds=last, partition=preset.partition if deal is None else deal)
    presets = {key: change(p) for key, p in presets.items()}
    used = seeds_from(seed, seeds if data is None else published.seeds)
    options = {**({"most": SAMPLES} if data is None else published.options), **change.options}
    found = measured(presets, sets, used, keep, progress, **options)
    panels = []
    for name, split in dict.fromkeys((n, s) for n, s, _ in presets):
        first = presets[name, split, methods[-1]]
        about = {k: getattr(first, k) for k in ("dataset", "network", "clients", "rounds")}
        of = {m: found[name, split, m] for m in methods}
        panels.append(about | {"split": split, "participation": "100%" if data is None else "10%", "methods": of})
    about = {"notes": [*notes, *change.notes()], "published": data is not None, "most": options.get("most")}
    return {"panels": panels, "seeds": used, **about}


# --- Figure 1 -------------------------------------------------------------------------------------
def draw_figure_1(data: dict[str, Any]) -> Any:
    """A row a data set, a column a split, and on the right what each method loses from the first split to the last."""
    from fedtheory.plotting.style import (
        METHOD_COLOURS,
        METHOD_MARKERS,
        METHOD_NAMES,
        headline,
        method_style,
        new_figure,
    )
    from fedtheory.report.networks.drawing import band, dots, legend
    from fedtheory.report.networks.words import short

    rows = list(dict.fromkeys((p["dataset"], p["network"]) for p in data["panels"]))
    splits = list(dict.fromkeys(p["split"] for p in data["panels"]))
    figure, axes = new_figure(2.5 * len(splits) + 3.4, 2.9 * len(rows) + 1.2, len(rows), len(splits) + 1)
    for line, row in enumerate(rows):
        panels = [p for p in data["panels"] if (p["dataset"], p["network"]) == row]
        for n, (axis, panel) in enumerate(zip(axes[line], panels, strict=False)):
            for method, found in panel["methods"].items():
                values = 100 * np.asarray(found["test_accuracy"], dtype=float)
                band(axis, np.arange(values.shape[1]), values, **method_style(method))
            axis.set(
                title=f"{short(panel)}: {panel['split']}" if n == 0 else panel["split"], xlabel="round", ylim=(0, 101)
            )
        axes[line, 0].set_ylabel("test accuracy, %")
        last = axes[line, -1]
        for y, method in enumerate(panels[0]["methods"]):
            dots(last, -y, _lost(panels, method), METHOD_COLOURS[method], METHOD_MARKERS[method])
        last.set_yticks([-y for y in range(len(panels[0]["methods"]))], [METHOD_NAMES[m] for m in panels[0]["methods"]])
        last.set_ylim(0.6 - len(panels[0]["methods"]), 0.6)
        last.set_xlim(left=min(0.0, last.get_xlim()[0]))
        last.grid(axis="y", visible=False)
        last.set(title=f"lost from {splits[0]} to {splits[-1]}", xlabel="points of accuracy, at the end")
    legend(figure, axes[0, :-1])
    headline(
        figure, _finding_1(data),
        f"m: classes that a client holds; line: mean of {len(data['seeds'])} seeds, band and "
        "points: all",
    )
    return figure


def _lost(panels: list[dict[str, Any]], method: str) -> np.ndarray:
    """Points of accuracy between the first split and the last, at the runs' ends, by seed."""
    from fedtheory.report.networks.words import difference

    return difference(panels[0]["methods"][method]["test_accuracy"], panels[-1]["methods"][method]["test_accuracy"])


def _losses(data: dict[str, Any]) -> dict[str, float]:
    """Mean loss of each method over the data sets."""
    rows = list(dict.fromkeys((p["dataset"], p["network"]) for p in data["panels"]))
    of = {row: [p for p in data["panels"] if (p["dataset"], p["network"]) == row] for row in rows}
    return {
        m: float(np.mean([_lost(p, m).mean() for p in of.values() if _lost(p, m).size]))
        for m in data["panels"][0]["methods"]
    }


def _finding_1(data: dict[str, Any]) -> str:
    from fedtheory.plotting.style import METHOD_NAMES

    losses = _losses(data)
    least = min(losses, key=lambda m: losses[m])
    if least == "efl":
        return "EFL loses the least where clients hold few classes"
    return f"EFL loses {losses['efl']:.0f} points where clients hold few classes, {METHOD_NAMES[least]} {losses[least]:.0f}"


def caption_1(data: dict[str, Any]) -> str:
    """Say what each method loses, against 'EFL is affected by far the least'."""
    from fedtheory.plotting.style import METHOD_NAMES
    from fedtheory.report.networks.words import joined, where

    splits = list(dict.fromkeys(p["split"] for p in data["panels"]))
    losses = _losses(data)
    said = joined([f"{METHOD_NAMES[m]} {v:.1f}" for m, v in sorted(losses.items(), key=lambda item: item[1])])
    seen = min(losses, key=lambda m: losses[m]) == "efl"
    return " ".join(
        [
            where(data),
            f"Points of accuracy lost from {splits[0]} to {splits[-1]}, mean over the seeds: "
            f"{said}.",
            f"That 'EFL is affected by far the least' is {'seen' if seen else 'not seen here'}. "
            "The paper prints neither rounds, step sizes, compression nor who takes part; EFL is "
            "run with Table 2's settings here: sparse messages of a tenth of the numbers, λ = 0.1.",
            *data["notes"],
        ]
    )


# --- Table 2 --------------------------------------------------------------------------------------
def _best(found: dict[str, Any]) -> np.ndarray:
    """Best mean test accuracy over the rounds, in percent, seed by seed: NaN where nothing was measured."""
    values = 100 * np.asarray(found["client_accuracy"], dtype=float)[:, 1:]
    return np.where(
        np.isfinite(values).any(axis=1), np.nanmax(np.where(np.isfinite(values), values, -1), axis=1), np.nan
    )


def _printed(panel: dict[str, Any], method: str) -> float:
    from fedtheory.neural.benchmarks import printed_tables

    dataset = "mnist" if panel["dataset"] == "digits" else panel["dataset"]
    cell: Any = printed_tables.table("efl-table2").value("non-iid", dataset, method)
    return 100 * float(cell)


def draw_table_2(data: dict[str, Any]) -> Any:
    """A panel a data set: best mean test accuracy of each method, and the printed one."""
    from fedtheory.plotting.style import METHOD_COLOURS, METHOD_MARKERS, METHOD_NAMES, headline, new_figure
    from fedtheory.report.networks.drawing import dots
    from fedtheory.report.networks.words import short

    panels = data["panels"]
    figure, axes = new_figure(max(8.6, 4.0 * len(panels)), 4.0, 1, len(panels))
    for axis, panel in zip(axes.flat, panels, strict=True):
        methods = list(panel["methods"])
        for y, method in enumerate(methods):
            best = _best(panel["methods"][method])
            dots(axis, -y, best[np.isfinite(best)], METHOD_COLOURS[method], METHOD_MARKERS[method])
            axis.plot(_printed(panel, method), -y, "D", markerfacecolor="none", markeredgecolor="#000000", markersize=7)
        axis.set_yticks([-y for y in range(len(methods))], [METHOD_NAMES[m] for m in methods])
        axis.grid(axis="y", visible=False)
        axis.set(title=f"{short(panel)}, {panel['split']}", xlabel="best mean test accuracy over the clients, %")
    from matplotlib.lines import Line2D

    printed = "printed" if data["published"] else "printed for MNIST"
    hollow = Line2D(
        [], [], linestyle="", marker="D", markerfacecolor="none", markeredgecolor="#000000", markersize=7, label=printed
    )
    here = Line2D([], [], linestyle="", marker="o", color="#555555", label="here: a point a seed, a bar at their mean")
    figure.legend(handles=[here, hollow], loc="outside lower center", ncols=2)
    headline(
        figure, _finding_2(data),
        f"Table 2; {len(data['seeds'])} seeds; what each client's own model gets right, where it "
        "has one",
    )
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
    from fedtheory.plotting.style import METHOD_NAMES

    order = _order(data["panels"][0])
    place = [m for m, _ in order].index("efl") + 1
    return f"{METHOD_NAMES[order[0][0]]} {order[0][1]:.1f} %, EFL {dict(order)['efl']:.1f} %: place {place} of {len(order)}"


def caption_2(data: dict[str, Any]) -> str:
    """The order of the methods here and as printed."""
    from fedtheory.plotting.style import METHOD_NAMES
    from fedtheory.report.networks.words import joined, short, where

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
                "APFL and FedAMP are measured on each client's own classes with the client's own "
                "model, the others with the one shared model: that is why they lead where a client "
                "holds few classes."
            )
    return " ".join([*parts, *data["notes"]])


_QUICK = {"rounds": 12, "seeds": 3, "published": Published(8, 2, 60)}
_OWN = {
    "methods": TABLE_2,
    "classes": (2,),
    "own_deal": True,
    "datasets": ("mnist", "cifar100", "sent140", "shakespeare"),
}
_TAKES: dict[str, Any] = {"paper": "efl", "takes": ("data", "keep", "progress")}
FIGURES = (
    Figure(
        "efl_figure1", compute, draw_figure_1, _QUICK | {"classes": (0, 2, 1), "datasets": ("mnist",)}, {},
        title="Test accuracy against rounds, clients with fewer and fewer classes", number="Figure 1", caption=caption_1, **_TAKES,
    ),
    Figure(
        "efl_table2", compute, draw_table_2, _QUICK | _OWN | {"datasets": ("mnist",)}, _OWN,
        title="Best mean test accuracy on clients that differ", number="Table 2", caption=caption_2, **_TAKES,
    ),
)  # fmt: skip
