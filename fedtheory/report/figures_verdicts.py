"""All verdicts of a campaign at one glance."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping
from typing import Any

from matplotlib.figure import Figure as MatplotlibFigure
from matplotlib.patches import Rectangle

from fedtheory.plotting.figure import Figure
from fedtheory.plotting.style import COLOURS, headline, new_figure
from fedtheory.report.tables import WORDED, is_repaired, printed_form, rule_rank, short
from fedtheory.theory.judge.registry import paper_of, rule_words

__all__ = ["FIGURE", "compute", "draw", "table"]

FORMS = ("printed", "repaired")
WORST_FIRST = ("violated", "inconclusive", "holds", "not applicable")
LINES = 16  # in one column, before there is a second
WIDTH = 7.5  # the least, in inches, for the headline
CHARACTERS = 17  # of the line below it, an inch
MARKS = {"holds": "✓", "violated": "✗", "inconclusive": "?", "not applicable": "n/a"}


def table(campaign: dict[str, Any]) -> dict[str, dict[str, dict[str, Any]]]:
    """statement -> form -> its row under the rule that captions name, as in the tables.

    'printed' stands for what takes its place, too (`Form.wording`). A repaired form that fares worse under another
    rule is shown under that one. Statements that have neither form are left out, and so are claims on which nothing
    can be run.
    """
    groups: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for row in campaign["rows"]:
        row = row | {"verdict": row.get("claim", row["verdict"])}  # any number where one is free
        role = "printed" if row["form"] == printed_form(row["statement"]) else row["form"]
        role = "repaired" if is_repaired(row["form"], row["rule"], row["statement"]) else role
        if role in FORMS and row["verdict"] != "not applicable":
            groups.setdefault(row["statement"], {}).setdefault(role, []).append(row)
    out: dict[str, dict[str, dict[str, Any]]] = {}
    for statement, forms in groups.items():
        tiles = out.setdefault(statement, {})
        for form, rows in forms.items():
            tiles[form] = min(rows, key=lambda r: rule_rank(r["rule"], r["statement"]))
        if "repaired" in forms:
            worst = min(forms["repaired"], key=lambda r: WORST_FIRST.index(r["verdict"]))
            if worst["verdict"] != tiles["repaired"]["verdict"]:
                tiles["repaired"] = worst
    return out


def _number(value: Any) -> float:
    """A JSON number; -1 for none."""
    return float(value) if value is not None and math.isfinite(float(value)) else -1.0


def _ratio(value: float, violated: bool) -> str:
    """Two digits, or for a violated bound as many as show that it is above 1, up to '>1'."""
    if not violated:  # above 1 by rounding at most
        return f"{value:.2g}"
    shown = (f"{value:.{digits}g}" for digits in range(2, 7))
    return next((text for text in shown if float(text) > 1), ">1")


def _text(row: dict[str, Any]) -> str:
    value = _number(row["tightness_worst"])
    # a violation where the bound is not positive has no ratio that says anything
    ratio = "" if value < 0 or (row["verdict"] == "violated" and value <= 1) else _ratio(value, row["verdict"] == "violated")
    alarm = "" if row.get("ok", True) else "(!)"
    return " ".join(part for part in (MARKS[row["verdict"]], ratio, alarm) if part)


def _name(statement: str, tiles: dict[str, dict[str, Any]]) -> str:
    """A statement without its paper, marked where what is 'as printed' is a wording of our own."""
    return short(statement) + (WORDED if tiles.get("printed", {}).get("form", "printed") != "printed" else "")


def _shape(lines: int, most: int) -> tuple[int, int]:
    """Columns, and lines in the longest of them, for so many lines."""
    height = max(1, math.ceil(lines / max(1, min(most, math.ceil(lines / LINES)))))
    return max(1, math.ceil(lines / height)), height


def compute(campaign: Mapping[str, Any]) -> dict[str, Any]:
    """The tiles of a campaign, and how many instances it has."""
    return {"tiles": table(dict(campaign)), "instances": campaign.get("instances", 0)}


def draw(data: dict[str, Any], columns: int = 3) -> MatplotlibFigure:
    """Tiles, paper by paper: a statement as printed and as repaired; the number is the worst measured/bound.

    data : what `compute` returned, or a campaign
    columns : the most there are; few statements stand in fewer
    """
    rows = data["tiles"] if "tiles" in data else table(data)
    lines: list[tuple[str, str | None]] = []  # (a paper's name, None) or (its name, a statement)
    for statement in rows:
        name = paper_of(statement).title
        if (name, None) not in lines:
            lines.append((name, None))
        lines.append((name, statement))
    shown = [form for form in FORMS if any(form in tiles for tiles in rows.values())]
    columns, height = _shape(len(lines), columns)
    width = max(WIDTH, 13 / 3 * columns)
    figure, axes = new_figure(width, 1.8 + 0.27 * height, 1, columns)
    counts: dict[str, int] = {}
    for n, ax in enumerate(axes[0]):
        part = lines[n * height : (n + 1) * height]
        for y, (paper, statement) in enumerate(part):
            if statement is None:
                ax.text(0.03, y + 0.55, paper, parse_math=False, ha="left", va="center", fontsize=9, fontweight="bold")
                continue
            for x, form in enumerate(shown):
                row = rows[statement].get(form)
                if row is None:
                    continue
                verdict = row["verdict"]
                counts[verdict] = counts.get(verdict, 0) + 1
                ax.add_patch(Rectangle((x + 0.03, y + 0.06), 0.94, 0.88, facecolor=COLOURS[verdict], alpha=0.85, linewidth=0))
                ax.text(x + 0.5, y + 0.5, _text(row), ha="center", va="center", fontsize=8, color="white")
        ax.set(xlim=(0, len(shown)), ylim=(height, 0))
        ax.grid(False)
        ax.tick_params(length=0)
        named = [(y + 0.5, _name(s, rows[s])) for y, (_, s) in enumerate(part) if s is not None]
        ax.set_yticks([y for y, _ in named], [name for _, name in named], fontsize=8)
        ax.xaxis.tick_top()
        ax.set_xticks([x + 0.5 for x in range(len(shown))], [f"as {form}" for form in shown], fontsize=8)
        for spine in ax.spines.values():
            spine.set_visible(False)
    handles = [Rectangle((0, 0), 1, 1, facecolor=COLOURS[v], alpha=0.85) for v in counts]
    figure.legend(handles, [f"{v} ({n})" for v, n in counts.items()], loc="outside lower center", ncols=len(counts) or 1)
    rules = dict.fromkeys((v["printed"]["rule"], s.partition("/")[0]) for s, v in rows.items() if "printed" in v)
    means = ", ".join(dict.fromkeys(rule_words(rule, paper) for rule, paper in rules if rule != "any")) or "any rule"
    detail = (
        f"{data.get('instances', 0)} instances; judged under {means}; the number is the largest measured/bound (1 = attained; "
        f"equalities have none); {WORDED}: in words, or of the algorithm only; (!): not the verdict on record"
    )
    headline(figure, _finding(rows), textwrap.fill(detail, int(CHARACTERS * width)))
    return figure


def _finding(rows: dict[str, Any]) -> str:
    """Say how many statements fail as printed and as repaired."""
    stated = [v["printed"] for v in rows.values() if "printed" in v]
    printed = [row["verdict"] for row in stated if row["form"] == "printed"]
    worded = [row["verdict"] for row in stated if row["form"] != "printed"]
    bad = sum(v["repaired"]["verdict"] != "holds" for v in rows.values() if "repaired" in v)
    failing = printed.count("violated")
    one = "fails" if failing else "holds" if printed == ["holds"] else "is not decided"
    many = f"{failing} of {len(printed)} printed statements fail{'s' * (failing == 1)}"
    finding = f"the printed statement {one}" if len(printed) == 1 else many
    finding += f", {worded.count('violated')} of {len(worded)} in words{WORDED}" if worded else ""
    if any("repaired" in v for v in rows.values()):
        finding += f"; {bad} repair{'s do' if bad > 1 else ' does'} not hold" if bad else "; every repaired one holds"
    return finding[:1].upper() + finding[1:]


def caption(data: dict[str, Any]) -> str:
    """The counts, and how to read a tile."""
    return (
        f"{_finding(data['tiles'])}. A tile is one statement, as printed or as repaired: ✓ no instance violates it, ✗ one does, "
        f"? not decided. Its number is the largest ratio of what was measured to the bound, over {data['instances']} instances; at 1 "
        "the bound is attained."
    )


FIGURE = Figure(
    "verdicts", compute, draw, seeded=False, title="Every statement as printed and as repaired, with its verdict", caption=caption
)
