"""Test accuracy against rounds, one panel a data set, as FedElasticNet's Figure 1."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.ticker import MaxNLocator

from fedtheory.neural.benchmarks.run import claims
from fedtheory.plotting.style import (
    METHOD_COLOURS,
    headline,
    house_style,
    legend_below,
    method_style,
    page_figure,
    save,
)

__all__ = ["draw_accuracy"]

def draw_accuracy(results: Sequence[Any], stem: Path, title: str) -> list[Path]:
    """Curves of all runs that have at least one round and did not diverge: <stem>.png and <stem>.pdf; none where there is no such run.

    A panel for each data set and split. Runs that differ in the seed alone are one line with a band from the lowest to the highest;
    other values than the paper's are lines of their own, from dark to light.
    """
    runs = [r for r in results if r.rounds and not r.error]
    if not runs:
        return []
    sets = list(dict.fromkeys((r.preset.dataset, r.preset.split) for r in runs))
    columns = min(3 if len({split for _, split in sets}) == 3 else 2, len(sets))
    with house_style():
        figure, axes = page_figure(-(-len(sets) // columns), columns, ratio=0.7, more=0.4)
        panels = list(axes.flat)
        most = 1
        for panel, (dataset, split) in zip(panels, sets, strict=False):
            lows: list[float] = []
            lines: dict[tuple[Any, ...], list[Any]] = {}
            for r in runs:
                if (r.preset.dataset, r.preset.split) == (dataset, split):
                    lines.setdefault((r.preset.method, tuple(r.preset.own.items())), []).append(r)
            for (method, own), seeds in lines.items():
                most = max(most, len(seeds))
                values = list(dict.fromkeys(o for m, o in lines if m == method))
                strength = 1 - 0.7 * values.index(own) / len(values)
                accuracies = [100 * np.asarray(r.series("test_accuracy"), dtype=float) for r in seeds]
                lows += _line(panel, accuracies, method, ", ".join(f"{k} {v:g}" for k, v in own), strength)
            panel.set(title=f"{dataset}, {split}", xlabel="round", ylabel="test accuracy, %")
            if lows:  # what differs is the end: the first fifth of the rounds may leave the picture
                panel.set_ylim(bottom=min(lows) - 1)
            panel.xaxis.set_major_locator(MaxNLocator(integer=True))
        for panel in panels[len(sets) :]:
            panel.set_visible(False)
        legend_below(figure, panels[: len(sets)], 6)
        name, _, detail = title.partition(": ")
        gap = _largest_gap(runs)
        finding = name if gap is None else f"{name}: elastic nets end at most {gap:.1f} points from their baselines"
        over = f"mean of {most} seeds, band from the lowest to the highest" if most > 1 else "one seed"
        lost = sum(bool(r.error) for r in results)
        left_out = f"; {lost} {'run' if lost == 1 else 'runs'} diverged and not drawn" if lost else ""
        headline(figure, finding, f"{detail}; dashed: the baseline, solid: its elastic net form; {over}{left_out}")
        return save(figure, stem)


def _line(panel: Any, accuracies: Sequence[np.ndarray], method: str, own: str, strength: float) -> list[float]:
    """One method's line, with a band where there are several seeds; its lowest values after the first fifth of the rounds."""
    length = min(len(a) for a in accuracies)
    values = np.stack([a[:length] for a in accuracies])
    seen = np.isfinite(values).all(axis=0)
    rounds = np.arange(1, length + 1)
    look = method_style(method, paired=True) if method in METHOD_COLOURS else {"color": "#000000", "label": method}
    look |= {"alpha": strength, "label": f"{look['label']}, {own}"} if own else {"alpha": strength}
    above = {"zorder": 3} if look.get("linestyle") == "--" else {}
    panel.plot(rounds[seen], values.mean(axis=0)[seen], linewidth=1.2, **look, **above)
    if len(values) > 1:
        low, high = values.min(axis=0)[seen], values.max(axis=0)[seen]
        panel.fill_between(rounds[seen], low, high, color=look["color"], alpha=0.15, linewidth=0)
    late = values[:, seen & (rounds > length / 5)]
    return [float(late.min())] if late.size else []


def _largest_gap(runs: Sequence[Any]) -> float | None:
    """Largest difference, in points, between a baseline and its elastic net form, as `benchmarks.run.claims` takes it."""
    gaps = [abs(claim["points"]) for claim in claims(runs)]
    return max(gaps, default=None)
