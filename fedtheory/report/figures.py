"""All figures of a verification, each as PNG and PDF with its data as JSON beside it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from fedtheory.plotting.style import house_style, save
from fedtheory.pools import as_finished
from fedtheory.provenance import provenance, write_json
from fedtheory.report import figures_verdicts
from fedtheory.theorems.efl.figures import runs as figures_efl_runs
from fedtheory.theorems.efl.figures import statements as figures_efl
from fedtheory.theorems.elastic_aggregation import figures as figures_elastic
from fedtheory.theorems.fedelasticnet.figures import bounds as figures_bounds
from fedtheory.theorems.fedelasticnet.figures import rules as figures_rules
from fedtheory.theorems.fedelasticnet.figures import tightness as figures_tightness
from fedtheory.theorems.fedelasticnet.figures import traffic as figures_traffic

__all__ = ["FULL", "QUICK", "Effort", "draw_all"]


@dataclass(frozen=True)
class Effort:
    """How much is computed for each figure (keyword arguments of its ``compute``), and the resolution of the PNG."""

    bounds: Mapping[str, Any] = field(default_factory=dict)
    tightness: Mapping[str, Any] = field(default_factory=dict)
    rules: Mapping[str, Any] = field(default_factory=dict)
    traffic: Mapping[str, Any] = field(default_factory=dict)
    elastic: Mapping[str, Any] = field(default_factory=dict)
    efl_bounds: Mapping[str, Any] = field(default_factory=dict)
    efl_bias: Mapping[str, Any] = field(default_factory=dict)
    efl_plateaus: Mapping[str, Any] = field(default_factory=dict)
    efl_bits: Mapping[str, Any] = field(default_factory=dict)
    efl_shift: Mapping[str, Any] = field(default_factory=dict)
    dpi: int = 120


QUICK = Effort(
    bounds={"rounds": 500},
    tightness={"instances": 4, "ratios": 6},
    rules={"grid": 13, "rounds": 300, "l1_values": 4, "ratios": 6},
    traffic={"rounds": 50, "scenarios": 1},
    efl_bounds={"rounds": 500, "departed_rounds": 10_000},
    efl_bias={"rounds": 100, "scenarios": 50},
    efl_plateaus={"rounds": 200, "scenarios": 2},
    efl_bits={"rounds": 80},
    efl_shift={"rounds": 300},
)
FULL = Effort(
    bounds={"rounds": 10_000, "scenarios": 500},
    tightness={"instances": 36, "ratios": 25},
    rules={"grid": 31, "rounds": 1000, "l1_values": 12, "ratios": 25},
    traffic={"rounds": 300, "scenarios": 10},
    elastic={"instances": 200},
    efl_bounds={"rounds": 10_000, "departed_rounds": 100_000},
    efl_bias={"rounds": 2000, "scenarios": 400},
    efl_plateaus={"rounds": 5000, "scenarios": 8},
    efl_bits={"rounds": 400},
    efl_shift={"rounds": 2000, "scenarios": 200},
    dpi=250,
)


def draw_all(
    out_dir: Path | str,
    campaign: Mapping[str, Any] | Path | str | None = None,
    seed: int = 0,
    progress: Callable[..., Any] | None = None,
    effort: Effort = QUICK,
    family: Literal["fedelasticnet", "elastic", "efl"] | None = None,
    workers: int = 1,
) -> list[Path]:
    """Compute and draw every figure.

    Parameters
    ----------
    out_dir : folder, made if missing
    campaign : what `Campaign.to_json` returns, or the file it was written to; without it there is no chart of verdicts
    progress : callable(name)
        Called after each figure.
    family : 'fedelasticnet', 'elastic', 'efl' or None
        Only the figures of one paper; the names of the latter two's begin with elastic_ and efl_.
    workers : processes

    Returns
    -------
    list of Path
        PNG, PDF and JSON of each figure.
    """
    out = Path(out_dir)
    if isinstance(campaign, Path | str):
        campaign = json.loads(Path(campaign).read_text())
    jobs: dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]] = {
        "bound_vs_empirical": (lambda: figures_bounds.compute(seed=seed, **effort.bounds), figures_bounds.draw),
        "tightness": (lambda: figures_tightness.compute(seed=seed, **effort.tightness), figures_tightness.draw),
        "sign_vs_true_gradient": (lambda: figures_rules.compute(**effort.rules), figures_rules.draw),
        "nonzeros_and_entropy": (lambda: figures_traffic.compute(seed=seed, **effort.traffic), figures_traffic.draw),
        "elastic_aggregation": (lambda: figures_elastic.compute(seed=seed, **effort.elastic), figures_elastic.draw),
        "efl_bound_vs_empirical": (lambda: figures_efl.compute_bounds(seed=seed, **effort.efl_bounds), figures_efl.draw_bounds),
        "efl_bias": (lambda: figures_efl.compute_bias(seed=seed, **effort.efl_bias), figures_efl.draw_bias),
        "efl_plateaus": (lambda: figures_efl_runs.compute_plateaus(seed=seed, **effort.efl_plateaus), figures_efl_runs.draw_plateaus),
        "efl_bits": (lambda: figures_efl_runs.compute_bits(seed=seed, **effort.efl_bits), figures_efl_runs.draw_bits),
        "efl_shift": (lambda: figures_efl_runs.compute_shift(seed=seed, **effort.efl_shift), figures_efl_runs.draw_shift),
        "efl_theorem2": (figures_efl_runs.compute_theorem2, figures_efl_runs.draw_theorem2),
        "efl_table1": (figures_efl.compute_table, figures_efl.draw_table),
    }
    if campaign is not None:
        jobs["verdicts"] = (lambda: campaign, figures_verdicts.draw)
    chosen = {
        name: job
        for name, job in jobs.items()
        if family in (None, prefix if (prefix := name.split("_")[0]) in ("elastic", "efl") else "fedelasticnet")
    }
    tasks = [(name, *job, out / name, effort.dpi, seed) for name, job in chosen.items()]
    written: dict[int, list[Path]] = {}
    for i, files in as_finished(_one, tasks, min(workers, len(tasks))):
        written[i] = files
        if progress is not None:
            progress(tasks[i][0])
    return [file for i in sorted(written) for file in written[i]]


def _one(task: tuple[str, Callable[[], Any], Callable[[Any], Any], Path, int, int]) -> list[Path]:
    name, compute, draw, path, dpi, seed = task
    data = compute()
    with house_style():
        files = save(draw(data), path, dpi)
    shown = {"tiles": figures_verdicts.table(data)} if name == "verdicts" else data
    return [*files, write_json(path.parent / f"{name}.json", {"figure": name, "provenance": provenance(seed), "data": shown})]
