"""The figure of a study: bound against measured, form by form, with the data of it.

Of a statement about a round, a row of points a form, one point an instance: how far the measured
side is from the bound, as a share of both; right of the line the form fails there, on it the bound
is attained. Of a run, the largest measured/bound that was found at each horizon T.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fedtheory.plotting.figure import Figure

__all__ = ["data", "draw", "figure", "picture"]

WIDTH = 96  # characters of small print under a row's name
OTHERS = ("#009E73", "#CC79A7", "#E69F00", "#56B4E9")


def figure(one: Any) -> Figure:
    """The figure of what was found of one statement."""
    return Figure(f"bound_{one.statement.name}", lambda: data(one), picture, seeded=False)


def data(one: Any) -> dict[str, Any]:
    """What the figure shows, form by form: 'points' (bound, measured, verdict and instance of each check), of a run also
    'rounds' (T, largest measured/bound, its instance)."""
    verdicts = {row.form: _verdict(one, row) for row in one.rows}
    shown: dict[str, Any] = {"statement": one.statement.id, "title": one.statement.title, "searched": one.searched}
    shown["forms"] = verdicts
    shown["points"] = {
        name: [
            {"bound": c.rhs, "measured": c.lhs, "verdict": c.verdict, "instance": c.instance}
            for c in one.checks
            if c.form == name and c.verdict in ("holds", "violated")
        ]
        for name in one.statement.forms
    }
    if len({T for horizons in one.horizons.values() for T in horizons}) > 1:
        shown["rounds"] = {
            name: [{"T": T, "ratio": e.score, "instance": str(e.instance)} for T, e in sorted(one.horizons.get(name, {}).items())]
            for name in one.statement.forms
        }
    return shown


def _verdict(one: Any, row: Any) -> dict[str, Any]:
    """A form's verdict, on how many instances it fails, and its worst instance in words."""
    out = {"verdict": row.verdict, "violations": row.violations, "instances": row.instances, "attained": False, "worst": ""}
    found = one.counterexamples.get(row.form)
    tight = next((t for t in one.tightness if t.form == row.form), None)
    if found is not None:
        out["worst"] = f"{found.sides} for {found.instance}"
    elif tight is not None:
        out["attained"] = tight.attained
        how = "attained" if tight.attained else f"measured/bound up to {tight.ratio:.4g}"
        out["worst"] = f"{how} for {tight.instance}"
    return out


def draw(one: Any, stem: Path) -> list[Path]:
    """Write stem.png, stem.pdf and stem.json."""
    from fedtheory.plotting.style import house_style, save
    from fedtheory.provenance import write_atomic

    shown, stem = data(one), stem.with_suffix("") if stem.suffix in (".png", ".pdf", ".json") else stem
    with house_style():
        paths = save(picture(shown), stem)
    return [*paths, write_atomic(stem.with_name(f"{stem.name}.json"), json.dumps(shown, indent=1))]


def picture(shown: Mapping[str, Any]) -> Any:
    """The drawing of `data`; inside `fedtheory.plotting.style.house_style`."""
    from fedtheory.plotting.style import headline, new_figure

    rounds = any(len(rows) > 1 for rows in shown.get("rounds", {}).values())
    made, axes = new_figure(7.6, 4.4 if rounds else 1.9 + 0.95 * len(shown["points"]))
    (_draw_rounds if rounds else _draw_points)(axes[0, 0], shown)
    title = textwrap.shorten(shown["title"], 70, placeholder=" ...")
    detail = f"{shown['statement'].partition('/')[2]}: {title} {shown['searched']:,} instances were searched"
    headline(made, finding(shown), detail)
    return made


def finding(shown: Mapping[str, Any]) -> str:
    """The headline: which forms fail, which hold, and which are attained."""
    fail = [name for name, f in shown["forms"].items() if f["verdict"] == "violated"]
    hold = [name for name, f in shown["forms"].items() if f["verdict"] == "holds"]
    sharp = [name for name in hold if shown["forms"][name]["attained"]]
    parts = [f"{' and '.join(fail)} fail{'s' * (len(fail) == 1)}"] if fail else []
    if hold and hold == sharp:
        parts.append(f"{' and '.join(hold)} hold{'s' * (len(hold) == 1)}, with equality")
    elif hold:
        parts.append(f"{' and '.join(hold)} hold{'s' * (len(hold) == 1)}")
        parts += [f"{' and '.join(sharp)} with equality"] if sharp else []
    text = "; ".join(parts) or "nothing could be decided"
    return textwrap.shorten(text[0].upper() + text[1:], 76, placeholder=" ...")


def _share(point: Mapping[str, Any]) -> float:
    """(measured - bound)/(|measured| + |bound|), in [-1, 1]: 0 where the bound is attained, if only up to rounding."""
    size = abs(point["measured"]) + abs(point["bound"])
    share = (point["measured"] - point["bound"]) / size if size else 0.0
    return min(share, 0.0) if point["verdict"] == "holds" else share


def _draw_points(ax: Any, shown: Mapping[str, Any]) -> None:
    from fedtheory.plotting.style import COLOURS

    names, hollow = list(shown["points"]), False
    sizes = [abs(p["measured"]) + abs(p["bound"]) for points in shown["points"].values() for p in points]
    least = 1e-12 * float(np.median(sizes)) if sizes else 0.0
    ax.axvspan(0, 1.06, color=COLOURS["violated"], alpha=0.07, linewidth=0)
    for y, name in enumerate(names):
        points, form = shown["points"][name], shown["forms"][name]
        ax.plot([0, 0], [y + 0.38, y + 0.76], color="#000000", linewidth=1.2)
        height = [y + 0.5 + 0.3 * ((i * 0.618034) % 1 - 0.3) for i in range(len(points))]  # so that they do not hide each other
        nothing = [abs(p["measured"]) + abs(p["bound"]) <= least for p in points]
        hollow = hollow or any(nothing)
        colours = [COLOURS[p["verdict"]] for p in points]
        faces = ["none" if n else c for n, c in zip(nothing, colours, strict=True)]
        ax.scatter(
            [_share(p) for p in points], height, s=16, facecolors=faces, edgecolors=colours, alpha=0.6, linewidth=0.8, clip_on=False,
            zorder=3,
        )  # fmt: skip
        count = f"fails on {form['violations']} of {form['instances']} instances"
        words = count if form["verdict"] == "violated" else f"holds on all {form['instances']} instances"
        words = words if form["verdict"] in ("holds", "violated") else form["verdict"]
        ax.text(-1.03, y + 0.1, f"{name}: {words}", fontsize=9.5, fontweight="bold", color=COLOURS[form["verdict"]], va="center")
        small = textwrap.shorten(form["worst"], WIDTH, placeholder=" ...")
        ax.text(-1.03, y + 0.28, small, fontsize=7.5, color="#444444", va="center")
    ax.set(xlim=(-1.06, 1.06), ylim=(len(names), -0.08), yticks=[])
    ax.set_xticks([-1, -0.5, 0, 0.5, 1], ["", "the bound has room", "attained", "the form fails", ""])
    also = "; hollow: both are 0" if hollow else ""
    ax.set_xlabel(f"(measured − bound) / (|measured| + |bound|), a point for each instance{also}")
    ax.grid(False)
    ax.spines["left"].set_visible(False)
    ax.tick_params(length=0)


def _draw_rounds(ax: Any, shown: Mapping[str, Any]) -> None:
    from fedtheory.plotting.style import COLOURS

    others = iter(OTHERS * (1 + len(shown["rounds"])))
    top = 1.0
    for name, rows in shown["rounds"].items():
        if not rows:
            continue
        colour = COLOURS[name] if name in ("printed", "repaired") else next(others)
        horizon, ratio = [r["T"] for r in rows], [r["ratio"] for r in rows]
        form = shown["forms"][name]
        word = {"violated": "fails", "holds": "attained" if form["attained"] else "holds"}.get(form["verdict"], form["verdict"])
        ax.plot(horizon, ratio, color=colour, marker="o", markersize=5, label=f"{name}: {word}", clip_on=False, zorder=3)
        top = max(top, *ratio)
    ax.set_ylim(0, 1.12 * top)
    ax.axhspan(1, 1.12 * top, color=COLOURS["violated"], alpha=0.07, linewidth=0)
    ax.axhline(1, color="#000000", linewidth=1.2)
    ax.annotate(
        "the bound fails", (1, 1), xycoords="axes fraction", xytext=(-4, -4), textcoords="offset points", ha="right", va="top",
        fontsize=8.5, color=COLOURS["violated"],
    )  # fmt: skip
    ax.set(xlabel="rounds T", ylabel="largest measured/bound that was found")
    ax.xaxis.get_major_locator().set_params(integer=True)
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=3)
