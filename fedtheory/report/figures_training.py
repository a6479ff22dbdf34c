"""Test accuracy against rounds, one panel a data set, as FedElasticNet's Figure 1."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.ticker import MaxNLocator

from fedtheory.neural.benchmarks.run import claims
from fedtheory.plotting.style import headline, house_style, new_figure, save

__all__ = ["draw_accuracy"]

_STYLES = {  # a baseline and its elastic net form share a colour
    "fedprox": ("FedProx", "#E69F00", "--"),
    "algorithm-1": ("Algorithm 1", "#E69F00", "-"),
    "scaffold": ("SCAFFOLD", "#009E73", "--"),
    "algorithm-2": ("Algorithm 2", "#009E73", "-"),
    "feddyn": ("FedDyn", "#0072B2", "--"),
    "algorithm-3": ("Algorithm 3", "#0072B2", "-"),
}


def draw_accuracy(results: Sequence[Any], stem: Path, title: str) -> list[Path]:
    """Curves of all runs that have at least one round: <stem>.png and <stem>.pdf."""
    runs = [r for r in results if r.rounds]
    sets = list(dict.fromkeys(r.preset.dataset for r in runs))
    columns = min(2, len(sets))
    with house_style():
        height = -(-len(sets) // columns)
        figure, axes = new_figure(max(8.6, 4.6 * columns + 0.4), 3.3 * height + 1.0, height, columns)  # the headline needs 8.6
        panels = list(axes.flat)
        for panel, dataset in zip(panels, sets, strict=False):
            lows: list[float] = []
            for r in (r for r in runs if r.preset.dataset == dataset):
                label, colour, line = _STYLES.get(r.preset.method, (r.preset.method, "#000000", "-"))
                accuracy = 100 * r.series("test_accuracy")
                seen = np.isfinite(accuracy)
                rounds = np.arange(1, len(accuracy) + 1)
                above = {"zorder": 3} if line == "--" else {}
                panel.plot(rounds[seen], accuracy[seen], line, color=colour, label=label, linewidth=1.2, **above)
                late = accuracy[seen & (rounds > len(accuracy) / 5)]
                lows += [float(late.min())] if len(late) else []
            panel.set(title=dataset, xlabel="round", ylabel="test accuracy, %")
            if lows:  # what differs is the end: the first fifth of the rounds may leave the picture
                panel.set_ylim(bottom=min(lows) - 1)
            panel.xaxis.set_major_locator(MaxNLocator(integer=True))
        for panel in panels[len(sets) :]:
            panel.set_visible(False)
        named = {label: line for panel in panels[: len(sets)] for line, label in zip(*panel.get_legend_handles_labels(), strict=True)}
        figure.legend(named.values(), named.keys(), loc="outside lower center", ncols=6)
        name, _, detail = title.partition(": ")
        gap = _largest_gap(runs)
        finding = name if gap is None else f"{name}: elastic nets end at most {gap:.1f} points from their baselines"
        headline(figure, finding, f"{detail}; dashed: the baseline, solid: its elastic net form")
        return save(figure, stem)


def _largest_gap(runs: Sequence[Any]) -> float | None:
    """Largest difference, in points, between a baseline and its elastic net form, as `benchmarks.run.claims` takes it."""
    gaps = [abs(claim["points"]) for claim in claims(runs)]
    return max(gaps, default=None)
