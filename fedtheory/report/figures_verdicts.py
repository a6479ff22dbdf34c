"""All verdicts of a campaign at one glance."""

from __future__ import annotations

import math
from typing import Any

from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from fedtheory.report.style import COLOURS, headline, new_figure

__all__ = ["COLUMNS", "draw", "table"]

COLUMNS = (("printed", "sign"), ("printed", "true-gradient"), ("repaired", "sign"), ("repaired", "true-gradient"))


def table(campaign: dict[str, Any]) -> dict[str, dict[str, dict[str, Any]]]:
    """statement -> 'form/rule' -> its row; forms of algebra, for which no rule matters, stand under both rules."""
    out: dict[str, dict[str, dict[str, Any]]] = {}
    for row in campaign["rows"]:
        if row["rule"] in ("deterministic", "stochastic") or row["statement"].startswith("fedmls/"):
            continue  # the columns are the two rules of FedElasticNet's Algorithm 3
        rules = ("sign", "true-gradient") if row["rule"] == "any" else (row["rule"],)
        for rule in rules:
            if (row["form"], rule) in COLUMNS:
                out.setdefault(row["statement"], {})[f"{row['form']}/{rule}"] = row
    return out


def _tightness(row: dict[str, Any]) -> str:
    value = float(row["tightness_worst"]) if row["tightness_worst"] is not None else float("nan")
    if row["verdict"] == "violated" and not value > 1:  # violated where the bound is not positive: the ratio says nothing
        return ""
    return f"{value:.2g}" if math.isfinite(value) else ""


def draw(campaign: dict[str, Any]) -> Figure:
    """Tiles: statement by {printed, repaired} and rule; the number is the worst measured/bound."""
    rows = table(campaign)
    names = list(rows)
    half = max(1, math.ceil(len(names) / 2))
    figure, axes = new_figure(12.5, 1.6 + 0.29 * half, 1, 2)
    counts: dict[str, int] = {}
    for ax, part in zip(axes[0], (names[:half], names[half:])):
        for y, name in enumerate(part):
            for x, (form, rule) in enumerate(COLUMNS):
                row = rows[name].get(f"{form}/{rule}")
                if row is None:
                    continue
                verdict = row["verdict"]
                counts[verdict] = counts.get(verdict, 0) + 1
                at = x + (0.15 if x > 1 else 0.0)
                colour = COLOURS[verdict]
                ax.add_patch(Rectangle((at + 0.03, y + 0.06), 0.94, 0.88, facecolor=colour, alpha=0.85, linewidth=0))
                light = verdict in ("holds", "violated")
                mark = {"holds": "✓", "violated": "✗", "inconclusive": "?", "not applicable": "n/a"}[verdict]
                text = f"{mark} {_tightness(row)}".rstrip()
                if not row.get("ok", True):
                    text += "  (!)"
                style = {"ha": "center", "va": "center", "fontsize": 8, "color": "white" if light else "black"}
                ax.text(at + 0.5, y + 0.5, text, **style)
        ax.set(xlim=(0, 4.2), ylim=(half, 0))
        ax.grid(False)
        ax.tick_params(length=0)
        ax.set_yticks([i + 0.5 for i in range(len(part))], [n.split("/", 1)[-1] for n in part], fontsize=8)
        ax.xaxis.tick_top()
        heads = [f"{form}\n{rule} rule" for form, rule in COLUMNS]
        ax.set_xticks([0.5, 1.5, 2.65, 3.65], heads, fontsize=8)
        for spine in ax.spines.values():
            spine.set_visible(False)
    handles = [Rectangle((0, 0), 1, 1, facecolor=COLOURS[v], alpha=0.85) for v in counts]
    figure.legend(handles, [f"{v} ({n})" for v, n in counts.items()], loc="outside lower center", ncols=len(counts) or 1)
    printed = [[r["verdict"] for k, r in v.items() if k.startswith("printed")] for v in rows.values()]
    repaired = [[r["verdict"] for k, r in v.items() if k.startswith("repaired")] for v in rows.values()]
    bad = sum(any(verdict != "holds" for verdict in verdicts) for verdicts in repaired)
    finding = f"{sum('violated' in v for v in printed)} of {sum(map(bool, printed))} printed statements fail; "
    finding += f"{bad} repairs do not hold" if bad else "every repaired or sharpened one holds"
    headline(
        figure,
        finding,
        f"{campaign.get('instances', 0)} instances; the number is the largest measured / bound (1 = attained; equalities have "
        "none); (!): not the verdict on record",
    )
    return figure
