"""The curves of one run."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from textwrap import fill
from typing import Any

import numpy as np

from fedtheory.provenance import write_atomic
from fedtheory.simulation.metrics import SENT_ENTROPIES

__all__ = ["curves", "draw_curves"]

_LOG = ("suboptimality", "gradient_norm", "distance")
_LABELS = {
    "objective": "F(x)",
    "suboptimality": "F(x) − F*",
    "gradient_norm": "‖∇F(x)‖",
    "distance": "‖x − x*‖",
    "nonzeros": "nonzeros sent, per participant",
    "entropy": "entropy of what is sent, bits per entry\n(several messages: the sum)",
    "entropy_1": "entropy of the first message, bits per entry",
    "entropy_2": "entropy of the second message, bits per entry",
    "entropy_pooled": "entropy of all messages together, bits per entry",
    "bits_up": "bits sent, all participants",
    "bits_down": "bits received, all participants",
    "bits": "bits so far, both ways",
}


def draw_curves(trajectory: Any, stem: Path, title: str, ended: str = "") -> list[Path]:
    """`curves` of a run, as <stem>.png and <stem>.pdf."""
    figure = curves(trajectory.metrics, title, ended)
    out = []
    for suffix, more in ((".png", {"dpi": 150}), (".pdf", {"metadata": {"CreationDate": None}})):
        buffer = io.BytesIO()
        figure.savefig(buffer, format=suffix[1:], **more)
        out.append(write_atomic(stem.with_name(stem.name + suffix), buffer.getvalue()))
    return out


def curves(metrics: Mapping[str, np.ndarray], title: str, ended: str = "") -> Any:
    """One panel a metric (rounds + 1, scenarios), mean over scenarios with the range between the 10 % and 90 % quantiles.

    ``ended`` says below the title how the run ended, where there is something to say.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    columns = min(3, len(metrics))
    rows = -(-len(metrics) // columns)
    figure = Figure(figsize=(4.2 * columns, 3.2 * rows), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(rows, columns, squeeze=False)
    for panel, (name, values) in zip(axes.flat, metrics.items(), strict=False):
        first = 1 if name in ("nonzeros", *SENT_ENTROPIES, "bits_up", "bits_down") else 0  # nothing is sent before round 1
        t, values = np.arange(first, len(values)), values[first:]
        panel.plot(t, values.mean(axis=1), color="#1f5fa8")
        if values.shape[1] > 1:
            low, high = np.quantile(values, [0.1, 0.9], axis=1)
            panel.fill_between(t, low, high, color="#1f5fa8", alpha=0.2, linewidth=0)
        if name in _LOG and (values.mean(axis=1) > 0).any():
            panel.set_yscale("log", nonpositive="mask")
        if first:
            panel.set_ylim(0, 1.05 * values.max() or 1)
        panel.set(xlabel="round", title=_LABELS.get(name, name))
        panel.grid(alpha=0.3)
    for panel in list(axes.flat)[len(metrics) :]:
        panel.set_visible(False)
    figure.suptitle(title + (f"\n{fill(ended, 24 * columns)}" if ended else ""))
    return figure
