"""The figure of a failed assertion, and its data: what was claimed, beside what was measured."""

from __future__ import annotations

import csv
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np

from fedtheory.errors import InvalidInput
from fedtheory.plotting.saved import stem_of
from fedtheory.plotting.style import COLOURS, GREY, headline, house_style, new_figure, save
from fedtheory.provenance import provenance, to_jsonable, write_atomic, write_json

__all__ = ["columns", "draw", "write"]

MEASURED, CLAIMED, BAD = COLOURS["measured"], COLOURS["repaired"], COLOURS["violated"]
SIZE = (5.4, 3.1)
MARKS = 24  # entries that fail and are marked, evenly spread


def write(evidence: dict[str, Any], path: Path | str) -> Any:
    """Write FILE.png, FILE.csv with the curves and FILE.json with the rest; return the figure.

    Raises
    ------
    InvalidInput
        Nothing was compared.
    OSError
        A path where nothing can be written.
    """
    stem = stem_of(path)
    if evidence["kind"] == "statement" and _compared(evidence):
        figure = evidence["checks"].plot(stem, worst=False)
    else:
        figure = draw(evidence)
        with house_style():
            save(figure, stem, 130, formats=("png",))
        write_atomic(stem.with_name(f"{stem.name}.csv"), _csv(columns(evidence)))
    facts = {k: v for k, v in evidence.items() if k != "checks" and np.size(v) < 100}
    write_json(stem.with_name(f"{stem.name}.json"), to_jsonable({"failure": facts, "provenance": provenance()}))
    return figure


def _compared(evidence: dict[str, Any]) -> bool:
    return any(c.series is not None for c in evidence.get("checks", ()))


def _csv(table: dict[str, np.ndarray]) -> str:
    out = StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(table)
    writer.writerows([repr(float(v)) for v in row] for row in zip(*table.values(), strict=True))
    return out.getvalue()


def columns(evidence: dict[str, Any]) -> dict[str, np.ndarray]:
    """The curves as columns of one length."""
    kind = evidence["kind"]
    if kind in ("rate", "contraction", "reaching"):
        values = np.atleast_2d(np.asarray(evidence["values"], dtype=float).T).T
        x = evidence.get("x") if kind != "reaching" else evidence["cost"]
        x = np.arange(len(values)) if x is None or np.ndim(x) == 0 else np.asarray(x, dtype=float)
        table = {"x": x, "mean": values.mean(axis=1)}
        return table | ({"low": values.min(axis=1), "high": values.max(axis=1)} if values.shape[1] > 1 else {})
    if kind == "bound":
        measured = np.asarray(evidence["measured"], dtype=float)
        value = np.asarray(evidence.get("value", measured if evidence["confidence"] is None else measured.mean(axis=-1))).ravel()
        table = {"entry": np.arange(value.size), "measured": value}
        table["bound"] = np.broadcast_to(np.asarray(evidence["bound"], dtype=float), np.shape(evidence.get("value", value))).ravel()
        half = np.asarray(evidence.get("half", 0 * value)).ravel()
        return table | ({"low": value - half, "high": value + half} if half.any() else {})
    return {}


def draw(evidence: dict[str, Any]) -> Any:
    """The figure: a `matplotlib.figure.Figure`. Raises `InvalidInput` where nothing was compared."""
    painter: Callable[[dict[str, Any], Any], None] | None = {
        "rate": _rate, "contraction": _rate, "bound": _bound, "reaching": _reaching
    }.get(evidence["kind"])  # fmt: skip
    with house_style():
        if painter is None and evidence["kind"] == "statement" and _compared(evidence):
            return evidence["checks"].plot(worst=False)
        if painter is None:
            raise InvalidInput("nothing was compared, so that there is nothing to draw")
        figure, axes = new_figure(*SIZE)
        painter(evidence, axes[0, 0])
        headline(figure, _plain(evidence["title"]), _plain("\n".join(_short(line) for line in evidence["lines"][:3])))
        return figure


def _plain(text: str) -> str:
    return text.replace("$", r"\$")


def _short(line: str) -> str:
    return line if len(line) <= 150 else line[:147] + "..."


def _curve(axes: Any, table: dict[str, np.ndarray], x: str, y: str, label: str) -> np.ndarray:
    """The measured curve with its band; whether each entry can be drawn on a logarithmic axis."""
    ok = np.isfinite(table[y]) & (table[y] > 0)
    axes.plot(table[x][ok], table[y][ok], color=MEASURED, label=label, zorder=3)
    if "low" in table:
        some = ok & (table["low"] > 0) & np.isfinite(table["high"])
        axes.fill_between(table[x][some], table["low"][some], table["high"][some], color=MEASURED, alpha=0.18, linewidth=0)
    return ok


def _rate(evidence: dict[str, Any], axes: Any) -> None:
    power = evidence["kind"] == "rate"
    table = columns(evidence)
    table = {k: v[table["x"] > 0] for k, v in table.items()} if power else table
    ok = _curve(axes, table, "x", "mean", "measured")
    low, high = (float(v) for v in evidence["window"])
    x = table["x"][ok]
    inside = x[(x >= low) & (x <= high)]
    if len(inside):
        axes.axvspan(inside[0], inside[-1], color="#EEEEEE", zorder=0, label="window")
        grid = np.geomspace(inside[0], inside[-1], 50) if power else np.linspace(inside[0], inside[-1], 50)
        u = np.log(grid) if power else grid
        start = float(np.log(table["mean"][ok][x >= low][0]))
        slope = evidence["claimed"] if power else np.log(evidence["claimed"])
        words = f"claimed: x^{evidence['claimed']:g}" if power else f"claimed: factor {evidence['claimed']:g}"
        axes.plot(grid, np.exp(start + slope * (u - u[0])), "--", color=CLAIMED, label=words)
        if "fit" in evidence:
            slope, intercept = evidence["fit"]
            words = f"fitted: x^{slope:.3g}" if power else f"fitted: factor {np.exp(slope):.4g}"
            axes.plot(grid, np.exp(intercept + slope * u), color=BAD, label=words)
    if not np.isfinite(table["mean"]).all():
        axes.axvline(table["x"][~np.isfinite(table["mean"])][0], color=BAD, linestyle=":", label="not finite from here on")
    axes.set_yscale("log")
    if power:
        axes.set_xscale("log")
    axes.set_xlabel("x" if power and evidence.get("own_x") else "round")
    axes.set_ylabel("gap")
    axes.legend(loc="best")


def _bound(evidence: dict[str, Any], axes: Any) -> None:
    table = columns(evidence)
    _curve(axes, table, "entry", "measured", "measured" if evidence["confidence"] is None else "measured, mean over seeds")
    finite = np.isfinite(table["bound"]) & (table["bound"] > 0)
    axes.plot(table["entry"][finite], table["bound"][finite], color=CLAIMED, label="bound")
    bad = np.asarray(evidence.get("bad", np.zeros(len(table["entry"]), dtype=bool))).ravel() & (table["measured"] > 0)
    if bad.any():
        some = np.flatnonzero(bad)[np.unique(np.linspace(0, int(bad.sum()) - 1, MARKS).round().astype(int))]
        label = f"above it, or not shown below ({int(bad.sum())} of {len(bad)})"
        axes.plot(table["entry"][some], table["measured"][some], "o", color=BAD, label=label, zorder=4)
    if finite.any() or (table["measured"] > 0).any():
        axes.set_yscale("log")
    axes.set_xlabel("entry, counted from 0")
    axes.legend(loc="best")


def _reaching(evidence: dict[str, Any], axes: Any) -> None:
    table = columns(evidence)
    axes.set_yscale("log")  # before the target's line, which would else be left outside the limits
    _curve(axes, table, "x", "mean", "measured")
    axes.axhline(evidence["target"], color=CLAIMED, linestyle="--", label=f"target {evidence['target']:.4g}")
    axes.axvline(evidence["within"], color=GREY, linestyle=":", label=f"limit {evidence['within']:g}")
    axes.set_xlabel("round" if evidence["cost"] is None else "cost")
    axes.legend(loc="best")
