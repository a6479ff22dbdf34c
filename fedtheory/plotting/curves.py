"""The curves of one run."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fedtheory.provenance import write_atomic
from fedtheory.simulation.metrics import SENT_ENTROPIES
from fedtheory.simulation.over_scenarios import over_scenarios

__all__ = ["curves", "draw_curves"]

COLOUR = "#1f5fa8"  # of what is no method of ours
_LOG = ("suboptimality", "gradient_norm", "distance")
_LABELS = {
    "objective": "F(x)",
    "suboptimality": "F(x) − F*",
    "gradient_norm": "‖∇F(x)‖",
    "distance": "‖x − x*‖",
    "nonzeros": "nonzeros sent,\nper participant",
    "entropy": "entropy of what is sent,\nbits per entry",
    "entropy_1": "entropy of the first\nmessage, bits per entry",
    "entropy_2": "entropy of the second\nmessage, bits per entry",
    "entropy_pooled": "entropy of all messages\ntogether, bits per entry",
    "bits_up": "bits sent,\nall participants",
    "bits_down": "bits received,\nall participants",
    "bits": "bits so far, both ways",
}


def draw_curves(trajectory: Any, stem: Path, title: str, ended: str = "", work: str = "") -> list[Path]:
    """`curves` of a run, as <stem>.png and <stem>.pdf."""
    figure = curves(trajectory.metrics, title, ended, work)
    out = []
    for suffix, more in ((".png", {"dpi": 150}), (".pdf", {"metadata": {"CreationDate": None}})):
        buffer = io.BytesIO()
        figure.savefig(buffer, format=suffix[1:], **more)
        out.append(write_atomic(stem.with_name(stem.name + suffix), buffer.getvalue()))
    return out


def curves(metrics: Mapping[str, Any], title: str, ended: str = "", work: str = "") -> Any:
    """One panel a metric (rounds + 1, scenarios), mean over scenarios with the range between the 10 % and 90 % quantiles; or what
    `over_scenarios` makes of one.

    A title that begins with a method's name gives the lines that method's colour. Below the title stand ``work``, the local work,
    and ``ended``, how the run ended, where there is something to say.
    """
    from fedtheory.plotting.style import METHOD_COLOURS, headline, house_style, page_figure

    colour = METHOD_COLOURS.get(title.partition(" ")[0], COLOUR)
    metrics = {name: v if isinstance(v, Mapping) else over_scenarios(v) for name, v in metrics.items()}
    columns = min(3, len(metrics))
    with house_style():
        figure, axes = page_figure(-(-len(metrics) // columns), columns, ratio=0.8, width=(0.5, 0.75, 1.0)[columns - 1])
        for panel, (name, values) in zip(axes.flat, metrics.items(), strict=False):
            first = 1 if name in ("nonzeros", *SENT_ENTROPIES, "bits_up", "bits_down") else 0  # nothing is sent before round 1
            runs, of = values["scenarios"], {k: v[first:] for k, v in values.items() if k != "scenarios"}
            t = np.arange(first, first + len(of["mean"]))
            panel.plot(t, of["mean"], color=colour)
            if runs > 1:
                panel.fill_between(t, of["quantile_0.1"], of["quantile_0.9"], color=colour, alpha=0.2, linewidth=0)
            if name in _LOG and (of["mean"] > 0).any():
                panel.set_yscale("log", nonpositive="mask")
                panel.minorticks_off()
            if first:
                panel.set_ylim(0, 1.05 * of["largest"].max() or 1)
            panel.set(xlabel="round", title=_LABELS.get(name, name))
        for panel in list(axes.flat)[len(metrics) :]:
            panel.set_visible(False)
        runs = max((v["scenarios"] for v in metrics.values()), default=1)
        several = f"Mean of {runs:,} runs, and where the middle 80 % of them are" if runs > 1 else ""
        headline(figure, title, ". ".join(part.rstrip(".") for part in (work, ended, several) if part))
    return figure
