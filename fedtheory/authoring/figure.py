"""The figure of a study: bound against measured, with the data of it.

Of a statement about a round, lhs against rhs on the study's instances: above the diagonal the
form fails. Of a run, both sides round by round on one instance: where the repaired form is tightest.
"""

from __future__ import annotations

import json
import textwrap
from pathlib import Path
from typing import Any

import numpy as np

from fedtheory.authoring.claims import Undefined, reduced
from fedtheory.authoring.losses import Unbounded
from fedtheory.authoring.setting import MethodSetting
from fedtheory.errors import InvalidInput, MissingCapability

__all__ = ["data", "draw"]

MARKS = {"printed": ("x", "#D55E00"), "repaired": ("o", "#0072B2")}
OTHERS = (("s", "#009E73"), ("^", "#CC79A7"), ("v", "#E69F00"))


def data(one: Any, seed: int = 0) -> dict[str, Any]:
    """What the figure shows: of a run 'rounds', of anything else 'points', form by form."""
    return _over_rounds(one) if one.statement.over == "run" else _over_instances(one)


def _over_instances(one: Any) -> dict[str, Any]:
    points: dict[str, list[list[float]]] = {name: [] for name in one.statement.forms}
    for c in one.checks:
        if c.verdict in ("holds", "violated"):
            points[c.form].append([c.rhs, c.lhs])
    return {"statement": one.statement.id, "axes": ["bound (rhs)", "measured (lhs)"], "points": points}


def _over_rounds(one: Any) -> dict[str, Any]:
    """lhs and rhs at every horizon, all forms on one instance: where the repaired form, else the first, is tightest."""
    statement, setting = one.statement, MethodSetting.of(one.statement)
    instance = one.instances.get("repaired") or next(iter(one.instances.values()), None)
    rounds: dict[str, list[list[float]]] = {name: [] for name in statement.forms}
    for horizon in range(statement.rounds[0], statement.rounds[1] + 1) if instance is not None else ():
        try:
            view = setting.view(instance.changed(rounds=horizon), exact=False)
            forms = statement.on(view)
        except (Unbounded, Undefined, MissingCapability, InvalidInput):
            continue
        for name, claimed in forms.items():
            sides = reduced(view, claimed)
            lhs, rhs = (np.asarray(v, dtype=float).ravel() for v in (sides.lhs, sides.rhs))
            worst = int(np.argmin(rhs - lhs))
            rounds[name].append([horizon, float(lhs[worst]), float(rhs[worst])])
    axes = ["T", "measured (lhs)", "bound (rhs)"]
    return {"statement": statement.id, "axes": axes, "instance": str(instance), "rounds": rounds}


def draw(one: Any, stem: Path, seed: int = 0) -> list[Path]:
    """Write stem.png, stem.pdf and stem.json."""
    from fedtheory.plotting.style import headline, house_style, new_figure, save
    from fedtheory.provenance import write_atomic

    shown, stem = data(one, seed), stem.with_suffix("") if stem.suffix in (".png", ".pdf", ".json") else stem
    with house_style():
        figure, axes = new_figure(6.4, 4.6)
        ax = axes[0, 0]
        (_draw_rounds if "rounds" in shown else _draw_points)(ax, shown)
        if ax.get_legend_handles_labels()[0]:
            ax.legend()
        verdicts = "; ".join(f"{row.form}: {row.verdict}" for row in one.rows)
        headline(figure, textwrap.shorten(one.statement.title, 60), f"{one.statement.id}: {verdicts}")
        paths = save(figure, stem)
    return [*paths, write_atomic(stem.with_name(f"{stem.name}.json"), json.dumps(shown, indent=1))]


def _style(names: list[str]) -> dict[str, tuple[str, str]]:
    others = [n for n in names if n not in MARKS]
    return {**MARKS, **{n: OTHERS[i % len(OTHERS)] for i, n in enumerate(others)}}


def _draw_points(ax: Any, shown: dict[str, Any]) -> None:
    style = _style(list(shown["points"]))
    flat = [abs(v) for pairs in shown["points"].values() for pair in pairs for v in pair if np.isfinite(v) and v != 0]
    threshold = float(np.quantile(flat, 0.1)) if flat else 1.0
    for name, pairs in shown["points"].items():
        if pairs:
            x, y = np.array(pairs).T
            mark, colour = style[name]
            ax.scatter(x, y, s=18, marker=mark, color=colour, label=name, alpha=0.7, linewidth=1)
    ax.set_xscale("symlog", linthresh=threshold)
    ax.set_yscale("symlog", linthresh=threshold)
    low, high = min(ax.get_xlim()[0], ax.get_ylim()[0]), max(ax.get_xlim()[1], ax.get_ylim()[1])
    ax.plot([low, high], [low, high], color="#000000", linewidth=1, label="lhs = rhs")
    ax.set(xlabel="bound (rhs)", ylabel="measured (lhs): above the line the form fails")


def _draw_rounds(ax: Any, shown: dict[str, Any]) -> None:
    style = _style(list(shown["rounds"]))
    found = {name: np.array(rows).T for name, rows in shown["rounds"].items() if rows}
    together = len({tuple(lhs) for _, lhs, _ in found.values()}) == 1
    for i, (name, (horizon, lhs, rhs)) in enumerate(found.items()):
        colour = style[name][1]
        if not together or i == 0:
            words = "measured" if together else f"{name}: measured"
            ax.plot(horizon, lhs, color="#000000" if together else colour, marker="o", label=words)
        ax.plot(horizon, rhs, color=colour, linestyle="--", label=f"{name}: bound")
    if found and all((lhs > 0).all() and (rhs > 0).all() for _, lhs, rhs in found.values()):
        ax.set_yscale("log")
    ax.set(xlabel="rounds T", ylabel=f"both sides on\n{textwrap.shorten(shown['instance'], 60)}")
    ax.xaxis.get_major_locator().set_params(integer=True)
