"""All figures of a verification, each as PNG and PDF with its data as JSON beside it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedtheory.provenance import provenance, write_json
from fedtheory.report import figures_bounds, figures_rules, figures_tightness, figures_traffic, figures_verdicts
from fedtheory.report.style import house_style, save

__all__ = ["FULL", "QUICK", "Effort", "draw_all"]


@dataclass(frozen=True)
class Effort:
    """How much is computed for each figure (keyword arguments of its ``compute``), and the resolution of the PNG."""

    bounds: Mapping[str, Any] = field(default_factory=dict)
    tightness: Mapping[str, Any] = field(default_factory=dict)
    rules: Mapping[str, Any] = field(default_factory=dict)
    traffic: Mapping[str, Any] = field(default_factory=dict)
    dpi: int = 120


QUICK = Effort(
    bounds={"rounds": 500},
    tightness={"instances": 4, "ratios": 6},
    rules={"grid": 13, "rounds": 300, "l1_values": 4, "ratios": 6},
    traffic={"rounds": 50, "scenarios": 1},
)
FULL = Effort(
    bounds={"rounds": 10_000, "scenarios": 500},
    tightness={"instances": 36, "ratios": 25},
    rules={"grid": 31, "rounds": 1000, "l1_values": 12, "ratios": 25},
    traffic={"rounds": 300, "scenarios": 10},
    dpi=250,
)


def draw_all(
    out_dir: Path | str,
    campaign: Mapping[str, Any] | Path | str | None = None,
    seed: int = 0,
    progress: Callable[..., Any] | None = None,
    effort: Effort = QUICK,
) -> list[Path]:
    """Compute and draw every figure.

    Parameters
    ----------
    out_dir : folder, made if missing
    campaign : what `Campaign.to_json` returns, or the file it was written to; without it there is no chart of verdicts
    progress : callable(name)
        Called after each figure.

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
    }
    if campaign is not None:
        jobs["verdicts"] = (lambda: campaign, figures_verdicts.draw)
    written: list[Path] = []
    for name, (compute, draw) in jobs.items():
        data = compute()
        with house_style():
            written += save(draw(data), out / name, effort.dpi)
        shown = {"tiles": figures_verdicts.table(data)} if name == "verdicts" else data
        written.append(write_json(out / f"{name}.json", {"figure": name, "provenance": provenance(seed), "data": shown}))
        if progress is not None:
            progress(name)
    return written
