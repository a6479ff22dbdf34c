"""FedElasticNet's Figures 1, 6, 8 and 9: test accuracy against rounds, and whether the elastic nets keep up with their baselines."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedtheory.plotting.figure import Figure
from fedtheory.report.networks.families import PAIRS, compute, place
from fedtheory.report.networks.runs import Published

__all__ = ["FIGURES"]


def _pairs(panel: dict[str, Any]) -> list[tuple[str, str]]:
    """Baselines and their elastic nets, of which both were run."""
    return [pair for pair in PAIRS if set(pair) <= panel["methods"].keys()]


def _points(panel: dict[str, Any]) -> list[Any]:
    from fedtheory.report.networks.words import difference

    methods = panel["methods"]
    return [difference(methods[b]["test_accuracy"], methods[a]["test_accuracy"]) for a, b in _pairs(panel)]


def _reached(data: dict[str, Any]) -> str:
    """'FedDyn ends at 95.1 %, SCAFFOLD at 94.0 %': means over the panels and the seeds that did not diverge."""
    from fedtheory.plotting.style import METHOD_NAMES
    from fedtheory.report.networks.words import ends

    means = {}
    for m in dict.fromkeys(m for p in data["panels"] for m in p["methods"]):
        values = np.concatenate([100 * ends(p["methods"][m]["test_accuracy"]) for p in data["panels"] if m in p["methods"]])
        if np.isfinite(values).any():
            means[m] = float(np.nanmean(values))
    return ", ".join(f"{METHOD_NAMES[m]}{'' if n else ' ends'} at {v:.1f} %" for n, (m, v) in enumerate(means.items()))


def _largest_loss(data: dict[str, Any]) -> tuple[float, str, str]:
    """The mean difference that is furthest below 0 (or least above it), the elastic net and the split; where no run diverged."""
    from fedtheory.plotting.style import METHOD_NAMES

    losses = [
        (float(p.mean()), METHOD_NAMES[net], place(panel))
        for panel in data["panels"]
        for (_, net), p in zip(_pairs(panel), _points(panel), strict=True)
        if p.size == len(data["seeds"])
    ]
    return min(losses, default=(float("nan"), "no elastic net", "any split"))


def _diverged(data: dict[str, Any]) -> str:
    """'Algorithm 3 diverges in 2 of 9 runs', or '' where nothing does."""
    from fedtheory.plotting.style import METHOD_NAMES

    where = {m: [p["methods"][m] for p in data["panels"] if m in p["methods"]] for p in data["panels"] for m in p["methods"]}
    counts = {m: (sum(len(row["errors"]) for row in rows), len(rows) * len(data["seeds"])) for m, rows in where.items()}
    return ", ".join(f"{METHOD_NAMES[m]} diverges in {n} of {runs} runs" for m, (n, runs) in counts.items() if n)


def draw(data: dict[str, Any]) -> Any:
    """Curves with the range over the seeds, and the differences at the end."""
    from fedtheory.report.networks.drawing import accuracy_figure

    loss, net, _ = _largest_loss(data)
    finding = (
        f"Elastic nets lose at most {-loss:.1f} points against their baselines"
        if loss < 0
        else "No elastic net loses accuracy"
    )
    finding = f"{finding} ({net})" if loss < 0 else finding
    if not _pairs(data["panels"][0]):
        finding = _reached(data) or "Nothing to show"
    if diverged := _diverged(data):
        low = finding if not _pairs(data["panels"][0]) else f"{finding[0].lower()}{finding[1:]}"
        finding = f"{diverged}; where none does, {low}"
    n = len(data["seeds"])
    lines = f"line: mean of {n} seeds, band: all of them; " if n > 1 else "one seed; "
    several = f"{lines}dashed: the baseline, solid: its elastic net"
    shown = any(_pairs(panel) for panel in data["panels"])
    return accuracy_figure(data, finding, f"{several}; bar on the right: mean difference" if shown and n > 1 else several)


def caption(data: dict[str, Any]) -> str:
    """Say where it was run, the differences panel by panel, and what the paper says."""
    from fedtheory.report.networks.words import cited, data_words, where

    loss, net, split = _largest_loss(data)
    if not _pairs(data["panels"][0]):  # nothing that the paper compares
        return " ".join([where(data), f"{_reached(data)}.", *([f"{_diverged(data)}."] if _diverged(data) else []), *data["notes"]])
    said = [f"{data_words(p)}, {place(p)}: {cited(_pairs(p), _points(p))}" for p in data["panels"]]
    paper = (
        "The paper says that FedElasticNet 'maintains the classification accuracy or incurs marginal degradation', "
        "with a gap between "
        "FedProx and Algorithm 1 on CIFAR alone, and that FedDyn and Algorithm 3 are 'almost identical in the "
        "converged regime'."
    )
    verdict = (
        f"The largest mean loss here, where no run diverges, is {-loss:.1f} points ({net}, {split})."
        if loss < 0
        else "No elastic net loses here on the mean."
    )
    diverged = [f"{m}: {e}" for p in data["panels"] for m, row in p["methods"].items() for e in row["errors"]]
    more = [f"{_diverged(data)}: {'; '.join(diverged)}."] if diverged else []
    numbers = "Points of accuracy at the end, mean and range over the seeds. "
    return " ".join([where(data), numbers + ". ".join(said) + ".", paper, verdict, *more, *data["notes"]])


_ALL: dict[str, Any] = {"paper": "fedelasticnet", "takes": ("data", "keep", "progress"), "caption": caption}
_QUICK = {"rounds": 30, "seeds": 3, "published": Published(15, 2, 60)}
_ONE_SPLIT = {"splits": ("dirichlet-0.3",)}
_DENSE = {"datasets": ("mnist", "emnist-l"), "participation": "100%"}
_CIFAR = {"datasets": ("cifar10", "cifar100"), "participation": "100%", "networks": ("cnn-8-16",)}
FIGURES = (
    Figure(
        "fedelasticnet_figure1", compute, draw, _QUICK | _ONE_SPLIT, {"networks": ("mlp-100-100", "logistic")} | _ONE_SPLIT,
        title="Test accuracy against rounds, a tenth of the clients, Dirichlet (.3)", number="Figure 1", **_ALL,
    ),
    Figure(
        "fedelasticnet_figure6", compute, draw, _QUICK, {"networks": ("mlp-100-100", "logistic")},
        title="Test accuracy against rounds, a tenth of the clients, three splits", number="Figure 6", **_ALL,
    ),
    Figure(
        "fedelasticnet_figure8", compute, draw, _QUICK | _DENSE | _ONE_SPLIT | {"rounds": 20}, _DENSE | {"rounds": 60},
        title="Test accuracy against rounds, all clients, fully connected networks", number="Figure 8", **_ALL,
    ),
    Figure(
        "fedelasticnet_figure9", compute, draw, _QUICK | _CIFAR | _ONE_SPLIT | {"rounds": 8, "seeds": 2},
        _CIFAR | {"rounds": 25, "seeds": 3},
        title="Test accuracy against rounds, all clients, convolutional networks", number="Figure 9", **_ALL,
    ),
)  # fmt: skip
