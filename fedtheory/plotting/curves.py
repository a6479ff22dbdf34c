"""The curves of one run, a panel a metric, and of several methods on one axis."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from fedtheory.rates.endings import ending
from fedtheory.rates.fits import precision_floor
from fedtheory.simulation.metrics import SENT_ENTROPIES
from fedtheory.simulation.over_scenarios import over_scenarios

__all__ = ["curves", "draw_curves", "title_of", "together", "worth_a_panel"]

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
SWINGS = 1.5  # largest over least gap of the second half: below, the last one stands for all
_SENT = ("nonzeros", *SENT_ENTROPIES, "bits_up", "bits_down", "bits")
_SHORTENS = ("l1", "compressor", "down_compressor", "control_compressor")  # hyperparameters: less is sent
_ENDS = {  # how `ending` is said of one method, and of several
    "reached": ("reaches the optimum", "reach the optimum"),
    "above": ("ends above its start, at {}", "end above their start, at {}"),
    "rests": ("stops at {}", "stop at {}"),
    "stopped": ("makes no more progress, {}", "make no more progress, {}"),
    "moves": ("is at {} after round {}", "are at {} after round {}"),
}


def worth_a_panel(metrics: Iterable[str], hyperparameters: Mapping[str, Any]) -> list[str]:
    """The metrics that a picture of the run shows: what is sent only where a compressor or an l1 term makes it shorter."""
    shorter = any(hyperparameters.get(name) not in (None, 0, "None") for name in _SHORTENS)
    return [name for name in metrics if shorter or name not in _SENT]


def _floor(run: Mapping[str, Any]) -> float:
    """`precision_floor` of the optimum that a result of `run` holds."""
    return precision_floor(SimpleNamespace(value=run["optimum"]["value"], lower_bound=run["optimum"]["lower_bound"]))


def title_of(run: Mapping[str, Any], gaps: Any) -> str:
    """Name the method, the problem and the run's end, of a result of `run` and its F(x) - F*."""
    head = f"{run['method']} on {run['problem']['name']}"
    if gaps is None or "optimum" not in run:
        return head
    mean = np.asarray(gaps, dtype=float).reshape(len(gaps), -1).mean(axis=1)
    return f"{head} {_said(mean, _floor(run), 4, 'F(x) − F*')[0]}"


def _said(mean: np.ndarray, floor: float, digits: int, what: str = "") -> tuple[str, str]:
    """How a run ends, of one method and of several; without progress with what it swings between."""
    end, name = ending(mean, floor), f"{what} = " * bool(what)
    last = f"{name}{mean[-1]:.{digits}g}"
    if end == "stopped":
        half = mean[len(mean) // 2 + 1 :]
        low, high = (f"{v:.{digits}g}" for v in (half.min(), half.max()))
        swings = f"{what} between {low} and {high}".strip()
        last = f"at {last}" if half.max() < SWINGS * half.min() else swings
    one, several = _ENDS[end]
    return one.format(last, len(mean) - 1), several.format(last, len(mean) - 1)


def together(runs: Sequence[Mapping[str, Any]], labels: Sequence[str], metric: str) -> Any:
    """One metric of several runs on the same problem against rounds, a curve a run; the title says where each one ends.

    Parameters
    ----------
    runs : results of `run`, whose ``metrics`` hold what `over_scenarios` makes of each
    labels : the runs' names, one each
    """
    from fedtheory.plotting.style import (
        METHOD_COLOURS,
        METHOD_MARKERS,
        headline,
        house_style,
        legend_below,
        log_decades,
        page_figure,
    )

    floors = [_floor(run) if metric == "suboptimality" else 0.0 for run in runs]
    with house_style():
        figure, axes = page_figure(1, 1, ratio=0.55, width=0.75, more=0.25)
        ax, seen = axes[0, 0], list[str]()
        for run, label, floor in zip(runs, labels, floors, strict=True):
            method, values = run["method"], run["metrics"][metric]
            first = 1 if metric in _SENT else 0
            mean = np.asarray(values["mean"], dtype=float)
            t = np.arange(len(mean))
            again, colour = seen.count(method), METHOD_COLOURS.get(method, COLOUR)
            seen.append(method)
            shown = np.where(mean > floor, mean, np.nan)[first:] if metric in _LOG else mean[first:]
            line = {"linestyle": ("-", "--", ":", "-.")[again % 4], "marker": METHOD_MARKERS.get(method), "markevery": 0.1}
            ax.plot(t[first:], shown, color=colour, label=label, **line)
            if values["scenarios"] > 1:
                low, high = (values[f"quantile_{q}"][first:] for q in ("0.1", "0.9"))
                ax.fill_between(t[first:], low, high, color=colour, alpha=0.2, linewidth=0)
        if metric in _LOG:
            log_decades(ax)
        ax.set(xlabel="rounds", ylabel=_LABELS.get(metric, metric))
        legend_below(figure, [ax], 5)
        ends = [np.asarray(run["metrics"][metric]["mean"], dtype=float) for run in runs]
        headline(figure, _where_they_end(ends, labels, metric, floors), _detail(runs, labels, metric))
    return figure


def _detail(runs: Sequence[Mapping[str, Any]], labels: Sequence[str], metric: str) -> str:
    works = [str(run.get("local_work", "")).removeprefix("Local work a round: ") for run in runs]
    parts = [f"On {runs[0]['problem']['name']}"]
    parts += [f"Local work a round: {'; '.join(f'{n}: {w}' for n, w in zip(labels, works, strict=True) if w)}"] if any(works) else []
    laws = [_cohorts(run) for run in runs]
    parts += [f"Taking part: {'; '.join(f'{n}: {law}' for n, law in zip(labels, laws, strict=True) if law)}"] if any(laws) else []
    parts += ["A line ends where F(x) − F* cannot be told from 0"] if metric == "suboptimality" else []
    several = max(run["metrics"][metric]["scenarios"] for run in runs)
    parts += [f"Mean of up to {several:,} runs, and where the middle 80 % of them are"] if several > 1 else []
    return ". ".join(parts)


def _cohorts(run: Mapping[str, Any]) -> str:
    """'2 of 3 clients', 'all clients'; of another law its name, and '' where a result has none."""
    law = run.get("sampling", "").replace("Full()", "all clients")
    return re.sub(r"^Uniform\(size=(\d+)\)$", rf"\1 of {run['problem'].get('clients')} clients", law)


def _where_they_end(means: Sequence[np.ndarray], labels: Sequence[str], metric: str, floors: Sequence[float]) -> str:
    """'scaffold and feddyn reach the optimum, fedavg stops at 0.08'; of another metric than the gap, its last numbers."""
    if metric != "suboptimality":
        last = ", ".join(f"{label} {mean[-1]:.3g}" for label, mean in zip(labels, means, strict=True))
        return f"{_LABELS.get(metric, metric)} at the end: {last}".replace("\n", " ")
    said: dict[tuple[str, str], list[str]] = {}
    for label, mean, floor in zip(labels, means, floors, strict=True):
        said.setdefault(_said(mean, floor, 2), []).append(label)
    parts = []
    for (one, several), names in sorted(said.items(), key=lambda item: "optimum" not in item[0][0]):
        subject = " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
        parts.append(f"{subject} {several if len(names) > 1 else one}")
    return ", ".join(parts)


def draw_curves(trajectory: Any, stem: Path, title: str, ended: str = "", work: str = "") -> list[Path]:
    """`curves` of a run, as <stem>.png and <stem>.pdf."""
    from fedtheory.plotting.style import save

    return save(curves(trajectory.metrics, title, ended, work), stem, dpi=150)


def curves(metrics: Mapping[str, Any], title: str, ended: str = "", work: str = "") -> Any:
    """One panel a metric (rounds + 1, scenarios), mean over scenarios with the range between the 10
    % and 90 % quantiles; or what `over_scenarios` makes of one.

    A title that begins with a method's name gives the lines that method's colour. Below the title
    stand ``work``, the local work, and ``ended``, how the run ended, where there is something to
    say.
    """
    from fedtheory.plotting.style import METHOD_COLOURS, headline, house_style, log_decades, page_figure

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
                log_decades(panel)
            if first:
                panel.set_ylim(0, 1.05 * of["largest"].max() or 1)
            panel.set(xlabel="round", title=_LABELS.get(name, name))
        for panel in list(axes.flat)[len(metrics) :]:
            panel.set_visible(False)
        runs = max((v["scenarios"] for v in metrics.values()), default=1)
        several = f"Mean of {runs:,} runs, and where the middle 80 % of them are" if runs > 1 else ""
        headline(figure, title, ". ".join(part.rstrip(".") for part in (work, ended, several) if part))
    return figure
