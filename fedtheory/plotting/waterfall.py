"""A bound as a waterfall: from what is measured up to the bound, a bar for what each step of the proof loses."""

from __future__ import annotations

import textwrap
from typing import Any

from fedtheory.errors import InvalidInput
from fedtheory.plotting.style import COLOURS, house_style, new_figure

__all__ = ["draw"]

LOST, FAILS, MEASURED, BOUND = COLOURS["last"], COLOURS["violated"], COLOURS["measured"], COLOURS["repaired"]
SMALL = 5e-4  # of the largest bar: what is no more is told in words


def draw(data: dict[str, Any]) -> Any:
    """A matplotlib figure from the data of a walked proof alone (`fedtheory.theory.judge.proof_report.Walk.data`).

    Raises
    ------
    InvalidInput
        Data whose steps have no weights: nobody can say what each loses.
    """
    steps = [s for s in data["steps"] if s["lost"] is not None]
    if not steps:
        raise InvalidInput(
            f"the steps of {data['name']} have no weights, so there is no waterfall: the table shows each by itself"
        )
    largest = max(*(abs(s["lost"]) for s in steps), abs(data["lhs"]), abs(data["rhs"]))
    shown = [s for s in steps if abs(s["lost"]) > SMALL * largest or s["verdict"] == "violated"]
    left_out = [s for s in steps if s not in shown]
    fails = data["verdict"] == "violated"
    finding = f"The {data['form']} bound is {data['rhs']:.3g}, the run measures {data['lhs']:.2g}"
    title = textwrap.wrap(finding if fails else data["headline"], 84)
    run = ", ".join(filter(None, (data["instance"], data["rule_words"])))
    told = [*(textwrap.wrap(data["headline"], 112) if fails else []), *textwrap.wrap(run, 112)]
    note = "Lose nothing that could be seen: " + ", ".join(s["step"] for s in left_out) if left_out else ""
    below = textwrap.wrap(note, 108)
    height = 0.95 + 0.34 * (len(shown) + 2) + 0.2 * len(title) + 0.15 * len(told) + 0.17 * len(below)
    with house_style():
        figure, axes = new_figure(7.4, height)
        ax = axes[0, 0]
        bars = _bars(ax, data, shown)
        ax.set_yticks(range(len(bars)), [label for label, _ in bars])
        ax.invert_yaxis()
        ax.grid(axis="y", visible=False)
        ax.axvline(0, color="#555555", linewidth=0.8)
        ax.set_xlabel(_axis(data))
        ax.margins(x=0.16)
        for tick, (_, fails) in zip(ax.get_yticklabels(), bars, strict=True):
            if fails:
                tick.set_color(FAILS)
                tick.set_fontweight("bold")
        figure.suptitle("\n".join(title), x=0.01, ha="left", fontsize=10.5, fontweight="bold")
        ax.set_title("\n".join(told), fontsize=8, color="#444444", loc="right")
        if below:
            figure.supxlabel("\n".join(below), x=0.01, ha="left", fontsize=8, color="#444444")
    return figure


def _axis(data: dict[str, Any]) -> str:
    return "measured, what each step adds, and the bound" + ("" if data["exact"] else " (means over the scenarios)")


def _bars(ax: Any, data: dict[str, Any], shown: list[dict[str, Any]]) -> list[tuple[str, bool]]:
    """Draw them from above; (label, whether the step fails) of each."""
    at, out = data["lhs"], [("measured", False)]
    ax.barh(0, at, color=MEASURED, height=0.62)
    _tell(ax, 0, 0.0, at, f"{at:.3g}")
    for y, step in enumerate(shown, 1):
        fails = step["verdict"] == "violated"
        colour, marks = FAILS if fails or step["lost"] < 0 else LOST, {"hatch": "///", "edgecolor": "white"} if fails else {}
        ax.barh(y, step["lost"], left=at, color=colour, height=0.62, linewidth=0, **marks)
        share = "" if step["share"] is None else f"  ({100 * step['share']:.1f} %)"
        error = f" ± {step['error']:.1g}" if step["error"] > 0.02 * abs(step["lost"]) else ""
        _tell(
            ax, y, at, at + step["lost"],
            f"{step['lost']:+.3g}{error}{share}" + (f", fails at {step['worst']}" if fails else ""),
        )
        ax.plot([at, at], [y - 1 + 0.31, y - 0.31], color="#888888", linewidth=0.8)
        at += step["lost"]
        part = step["part_of"].removeprefix("the ")
        label = step["step"] if not part or step["step"].startswith(part) else f"{part}, {step['step']}"
        out.append((label, fails))
    last = len(shown) + 1
    ax.barh(last, data["rhs"], color=BOUND if data["verdict"] != "violated" else FAILS, height=0.62)
    fails = data["verdict"] == "violated"
    _tell(ax, last, 0.0, data["rhs"], f"{data['rhs']:.3g}" + (": below what is measured" if fails else ""))
    return [*out, ("the bound", fails)]


def _tell(ax: Any, y: float, start: float, end: float, text: str) -> None:
    """The number behind the bar, on its right."""
    ax.annotate(text, (max(start, end), y), xytext=(4, 0), textcoords="offset points", va="center", fontsize=8)
