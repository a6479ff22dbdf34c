"""The runs of a table as the picture of FedElasticNet's Figures 1 and 6 to 9, and what the paper says of the first."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedtheory.neural.benchmarks.presets import OPTIONS
from fedtheory.neural.benchmarks.printed_tables import FIGURE_1
from fedtheory.plotting.style import house_style, save
from paper_figures.fedelasticnet.accuracy import draw

if TYPE_CHECKING:
    from fedtheory.neural.benchmarks.presets import Preset
    from fedtheory.neural.benchmarks.run import Result

__all__ = ["accuracy_data", "claims", "draw_accuracy"]

Own = tuple[tuple[str, float], ...]  # options and their values


def draw_accuracy(results: Sequence[Result], stem: Path) -> list[Path]:
    """Curves of all runs that have at least one round: <stem>.png and <stem>.pdf; none where every run diverged."""
    if not any(r.rounds and not r.error for r in results):
        return []
    with house_style():
        return save(draw(accuracy_data(results)), stem)


def accuracy_data(results: Sequence[Result]) -> dict[str, Any]:
    """Return the data of `families.compute` from the same runs.

    There is a panel for each data set, split and set of values that were tried.

    A method that lacks an option stands in the panels of all its values. Seeds whose run diverged,
    or has fewer rounds than the method's others, have no numbers.
    """
    begun = [r for r in results if r.rounds or r.error]
    seeds = sorted({r.preset.seed for r in begun})
    panels = []
    for dataset, network, split in dict.fromkeys((r.preset.dataset, r.preset.network, r.preset.split) for r in begun):
        here = [r for r in begun if (r.preset.dataset, r.preset.network, r.preset.split) == (dataset, network, split)]
        for own, of_methods in _variants(here).items():
            first = next(iter(of_methods.values()))[0].preset
            about = {"dataset": dataset, "network": network, "split": split, "participation": first.participation}
            methods = {m: _row(runs, seeds) for m, runs in of_methods.items()}
            done = max(len(row["test_accuracy"][0]) for row in methods.values()) - 1
            panels.append({**about, "own": dict(own), "clients": first.clients, "rounds": done, "methods": methods})
    return {"panels": panels, "seeds": seeds, "notes": [], "published": True, "most": None}


def _variants(runs: Sequence[Result]) -> dict[Own, dict[str, list[Result]]]:
    """{values: {method: its runs with them}}, of the options that some run has another value of than the paper."""
    options = sorted({option for r in runs for option in r.preset.own})
    swept = {r.preset.method: [o for o in options if r.preset.value(o) is not None] for r in runs}
    by: dict[tuple[str, Own], list[Result]] = {}
    for r in runs:
        has = swept[r.preset.method]
        by.setdefault((r.preset.method, tuple((o, float(r.preset.value(o) or 0.0)) for o in has)), []).append(r)
    most = max(len(own) for _, own in by)
    out: dict[Own, dict[str, list[Result]]] = {}
    for own in sorted({own for _, own in by if len(own) == most}):
        shown = {m: tuple(pair for pair in own if pair[0] in swept[m]) for m in swept}
        out[own] = {m: by[m, theirs] for m, theirs in shown.items() if (m, theirs) in by}
    return out


def _row(runs: Sequence[Result], seeds: Sequence[int]) -> dict[str, Any]:
    """Test accuracy (seeds, rounds + 1) up to the last measured round, and what went wrong."""
    series = {r.preset.seed: np.array(r.metrics["test_accuracy"], dtype=float) for r in runs if r.rounds and not r.error}
    series = {seed: s[: 1 + int(np.flatnonzero(np.isfinite(s)).max(initial=0))] for seed, s in series.items()}
    values = np.full((len(seeds), max((len(s) for s in series.values()), default=1)), np.nan)
    for seed, found in series.items():
        if len(found) == values.shape[1]:
            values[seeds.index(seed)] = found
    return {"test_accuracy": values, "errors": [r.error for r in runs if r.error]}


def claims(results: Sequence[Result], last: int = 10) -> list[dict[str, Any]]:
    """Compare what FedElasticNet says of Figure 1 with the measurements, in points of accuracy.

    The points are the accuracy of the elastic net form minus the baseline's.

    Accuracies are means over the last rounds of both runs, `last` of them at most, up to the round that both have reached.
    """
    runs = [r for r in results if r.rounds and not r.error]
    out: dict[tuple[Any, ...], dict[str, Any]] = {}
    for kind, baseline, ours, text in FIGURE_1:
        for run in runs:
            preset = run.preset
            plain = _baseline(run, [r for r in runs if r.preset.method == baseline])
            large = preset.dataset in ("cifar10", "cifar100") and ours == "algorithm-1"
            if preset.method != ours or plain is None or (kind == "gap") != large:
                continue
            rounds = min(run.rounds, plain.rounds)
            ends = [r.series("test_accuracy")[max(0, rounds - last) : rounds] for r in (plain, run)]
            if not all(np.isfinite(e).any() for e in ends):
                continue
            key = (preset.dataset, preset.split, baseline, ours, tuple(preset.own.items()))
            found = {"dataset": preset.dataset, "split": preset.split, "baseline": baseline, "method": ours, "paper": text}
            claim = out.setdefault(key, {**found, "own": dict(preset.own), "rounds": rounds, "seeds": []})
            claim["rounds"] = min(claim["rounds"], rounds)
            claim["seeds"].append([100 * float(np.nanmean(e)) for e in ends])
    for claim in out.values():
        pairs = np.array(claim.pop("seeds"))
        differ = pairs[:, 1] - pairs[:, 0]
        claim |= {"accuracy": pairs.mean(axis=0).tolist(), "points": float(differ.mean()), "points_of_seeds": differ.tolist()}
    return list(out.values())


def _baseline(run: Result, plain: Sequence[Result]) -> Result | None:
    """The run of another method that this one is to be held against: all but its own hyperparameters, and l2, alike."""

    def alike(p: Preset) -> tuple[Any, ...]:
        return p.dataset, p.split, p.participation, p.seed, {k: v for k, v in p.others.items() if k not in OPTIONS or k == "lr"}

    of = run.preset
    found = [other for other in plain if alike(other.preset) == alike(of)]
    return min(found, key=lambda r: (r.preset.value("l2") != of.value("l2"), len(r.preset.own)), default=None)
