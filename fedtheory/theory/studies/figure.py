"""The figure of a study: bound against measured, form by form, with the data of it.

Of a statement about a round, a row of points a form, one point an instance: how far the measured
side is from the bound, as a share of the sizes of all terms; right of the line the form fails
there, on it the bound is attained. Of a run, the largest measured/bound that the search found at
each horizon T, a triangle at the top where the bound is 0 and fails, and below T how many instances
the search tried. Beside each form stands its formula, where matplotlib can draw it.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fedtheory.plotting.figure import Figure
from fedtheory.plotting.formulas import formula
from fedtheory.theory.judge.search import Elite
from fedtheory.theory.judge.summary import upper
from fedtheory.theory.studies.counterexamples import sides_told, told

__all__ = ["data", "draw", "figure", "picture"]

WIDTH = 120  # characters of small print under a row's name
LINES = 2  # of an instance, or of constants
LOSS = re.compile(r"f\d+ = [^;,]+(; )?")  # of a client, in the words of an instance
# of a constant, with its instance
PROOF = re.compile(r" \(proved: .*?\)(?=; no violation found at )")
LONGEST = 76  # characters of a headline
FAR = 10.0  # ratios above it are drawn on a logarithmic axis
LINEAR = 0.9  # of `symlog`: up to 1 as long as a power of 10 above it
Names = list[str]
OTHERS = ("#009E73", "#CC79A7", "#E69F00", "#56B4E9")


def figure(one: Any) -> Figure:
    """The figure of what was found of one statement."""
    name = f"bound_{one.statement.name}" + f"_{one.statement.rule}" * (one.statement.rule != "any")
    return Figure(name, lambda: data(one), picture, seeded=False)


def data(one: Any) -> dict[str, Any]:
    """Give the data of the figure, form by form: 'points' (bound, measured, verdict and instance of
    each check), of a run also 'rounds' (T, largest measured/bound or None where the bound is 0 and
    fails, its instance) and 'tried' ([T, instances])."""
    verdicts = {row.form: _verdict(one, row) for row in one.rows}
    of, searched = one.statement, one.search.tried
    shown: dict[str, Any] = {"statement": of.id, "title": of.title, "searched": searched}
    shown |= {"rule": one.statement.rule, "forms": verdicts}
    shown["points"] = {name: [] for name in one.statement.forms}
    for c in one.checks:
        if c.form in shown["points"] and c.verdict in ("holds", "violated"):
            point = {"bound": c.rhs, "measured": c.lhs, "slack": c.slack, "verdict": c.verdict}
            shown["points"][c.form].append({**point, "instance": c.instance})
    horizons = {
        name: {} if verdicts[name]["no_ratio"] else one.horizons.get(name, {})
        for name in one.statement.forms
    }
    setting = one.setting
    if len({T for found in horizons.values() for T in found}) > 1:
        def at(T: int, best: Elite) -> dict[str, Any]:
            ratio = best.score if np.isfinite(best.score) else None
            return {"T": T, "ratio": ratio, "instance": setting.words(best.instance)}

        runs = {name: sorted(found.items()) for name, found in horizons.items()}
        shown["rounds"] = {name: [at(*pair) for pair in found] for name, found in runs.items()}
        shown["tried"] = sorted(one.search.lengths.items())
    return shown


def _verdict(one: Any, row: Any) -> dict[str, Any]:
    """A form's formula and verdict, on how many instances it fails, its worst instance and its
    constants in words."""
    out = {
        "verdict": row.verdict, "violations": row.violations, "instances": row.instances,
        "attained": False, "worst": ""
    }
    out["free"] = row.claim != row.verdict
    out |= {"latex": one.statement.forms[row.form].latex, "no_ratio": one.no_ratio(row.form)}
    out["constants"] = [need.words for need in one.constants if need.form == row.form]
    found = one.counterexamples.get(row.form)
    tight = next((t for t in one.tightness if t.form == row.form), None)
    if found is not None:
        out["worst"] = f"{sides_told(one.setting, found)} for {told(one.setting, found)}"
    elif tight is not None:
        out["attained"] = tight.attained
        near = (
            "nearest to equality" if out["no_ratio"]
            else tight.up_to.replace("lhs/rhs", "measured/bound")
        )
        how = "attained" if tight.attained else near
        out["worst"] = f"{how} for {tight.instance}"
    return out


def draw(one: Any, stem: Path) -> list[Path]:
    """Write stem.png, stem.pdf and stem.json."""
    from fedtheory.plotting.style import house_style, save
    from fedtheory.provenance import write_atomic

    shown, stem = (
        data(one), stem.with_suffix("") if stem.suffix in (".png", ".pdf", ".json") else stem
    )
    with house_style():
        paths = save(picture(shown), stem)
    return [*paths, write_atomic(stem.with_name(f"{stem.name}.json"), json.dumps(shown, indent=1))]


def picture(shown: Mapping[str, Any]) -> Any:
    """The drawing of `data`; inside `fedtheory.plotting.style.house_style`."""
    from fedtheory.plotting.style import headline, new_figure

    rounds = any(len(rows) > 1 for rows in shown.get("rounds", {}).values())
    name, rule = shown["statement"].partition("/")[2], shown.get("rule", "any")
    name += f", {rule} rule" * (rule != "any")
    title = f"{shown['title'].rstrip('.')}. {shown['searched']:,} instances tried in the search"
    each = {} if rounds else {form: _small_print(shown["forms"][form]) for form in shown["points"]}
    rows = sum(map(_height, each.values()))
    made, axes = new_figure(7.6, 4.0 + 0.2 * len(shown["points"]) if rounds else 1.6 + 1.05 * rows)
    _draw_rounds(axes[0, 0], shown) if rounds else _draw_points(axes[0, 0], shown, each)
    found = finding(shown)
    headline(made, _plain(f"{name}: {found[0].lower()}{found[1:]}"), _plain(title))
    return made


def _small_print(form: Mapping[str, Any]) -> list[str]:
    """A form's worst instance, and its constants without instances, in two lines each."""
    texts = form["worst"], PROOF.sub(" (proved)", "; ".join(form["constants"]))
    return [line for text in texts for line in _two_lines(text)]


def _two_lines(text: str) -> list[str]:
    """The text in two lines: of many clients the losses of a few, and how many more there are."""
    losses, cut = list(LOSS.finditer(text)), " ... (the rest is in the data of the picture)"
    fewer = []
    for left in range(1, len(losses)):
        more = f"{left} more loss{'es' * (left > 1)}"
        fewer.append(text[: losses[-left].start()] + more + text[losses[-1].end() :])
    shown = (t for t in (text, *fewer) if len(textwrap.wrap(t, WIDTH)) <= LINES)
    return textwrap.wrap(next(shown, text), WIDTH, max_lines=LINES, placeholder=cut)


def _height(small: list[str]) -> float:
    """The height of a form's row, in rows with two lines of small print."""
    return 1 + 0.14 * max(0, len(small) - 2)


def finding(shown: Mapping[str, Any]) -> str:
    """The headline: which forms fail, which hold, and which are attained; only how many, where
    their names are too long."""
    forms = shown["forms"]
    free = [n for n, f in forms.items() if f.get("free")]
    fail, hold = ([n for n, f in forms.items() if f["verdict"] == v] for v in ("violated", "holds"))
    fail = [n for n in fail if n not in free]
    sharp = [name for name in hold if forms[name]["attained"]]
    texts = [_sentence(fail, hold, sharp, free, told) for told in (_listed, _counted)]
    return next((t for t in texts if len(t) <= LONGEST), texts[-1])


def _sentence(
    fail: Names, hold: Names, sharp: Names, free: Names, told: Callable[[Names], str]
) -> str:
    parts = [f"{told(fail)} fail{'s' * (len(fail) == 1)}"] if fail else []
    if hold:
        equal = ", with equality" * (hold == sharp)
        parts.append(f"{told(hold)} hold{'s' * (len(hold) == 1)}{equal}")
        parts += [f"{told(sharp)} with equality"] if sharp and hold != sharp else []
    if free:
        parts.append(f"{told(free)} fail{'s' * (len(free) == 1)} with the free number stated")
    return upper("; ".join(parts) or "nothing could be decided")


def _listed(names: list[str]) -> str:
    """'printed, repaired and sharpened'."""
    return " and ".join([", ".join(names[:-1]), names[-1]][len(names) == 1 :])


def _counted(names: list[str]) -> str:
    """'printed', or '3 forms'."""
    return (
        names[0] if len(names) == 1 and len(names[0]) < 24
        else f"{len(names)} form{'s' * (len(names) != 1)}"
    )


def _plain(text: str) -> str:
    """Text that matplotlib takes for no formula."""
    return text.replace("$", r"\$")


def _excess(point: Mapping[str, Any]) -> float:
    """(measured - bound)/(the sum of all terms' sizes): 0 where the bound is attained, if only up
    to rounding."""
    excess = -point["slack"] if np.isfinite(point["slack"]) else 0.0
    return min(excess, 0.0) if point["verdict"] == "holds" else excess


def _draw_points(ax: Any, shown: Mapping[str, Any], small: Mapping[str, list[str]]) -> None:
    from fedtheory.plotting.style import COLOURS

    names, hollow = list(shown["points"]), False
    points = [p for points in shown["points"].values() for p in points]
    sizes = [abs(p["measured"]) + abs(p["bound"]) for p in points]
    least = 1e-12 * float(np.median(sizes)) if sizes else 0.0
    every = [0.0, *map(_excess, points)]
    left, right = min(every), max(every)
    margin = 0.06 * ((right - left) or 1.0)
    left, right = left - margin, right + margin
    ax.axvspan(0, right, color=COLOURS["violated"], alpha=0.07, linewidth=0)
    across = ax.get_yaxis_transform()  # x as a share of the axes
    y = 0.0
    for name in names:
        points, form = shown["points"][name], shown["forms"][name]
        end = y + _height(small[name])
        ax.plot([0, 0], [end - 0.5, end - 0.1], color="#000000", linewidth=1.2)
        # so that they do not hide each other
        height = [end - 0.3 + 0.3 * ((i * 0.618034) % 1 - 0.5) for i in range(len(points))]
        nothing = [abs(p["measured"]) + abs(p["bound"]) <= least for p in points]
        hollow = hollow or any(nothing)
        colours = [COLOURS[p["verdict"]] for p in points]
        faces = ["none" if n else c for n, c in zip(nothing, colours, strict=True)]
        ax.scatter(
            [_excess(p) for p in points], height, s=16, facecolors=faces, edgecolors=colours,
            alpha=0.6, linewidth=0.8, clip_on=False,
            zorder=3,
        )  # fmt: skip
        words = {
            "violated": f"fails on {form['violations']} of {form['instances']} instances judged",
            "holds": f"holds on all {form['instances']} instances judged",
        }.get(form["verdict"], form["verdict"])
        words += ", with the free number stated" * bool(form.get("free"))
        bold = {
            "fontsize": 9.5, "fontweight": "bold", "color": COLOURS[form["verdict"]],
            "va": "center", "transform": across
        }
        ax.text(0.01, y + 0.1, _plain(f"{name}: {words}"), **bold)
        drawn = formula(form["latex"], 6.6 - 0.085 * len(f"{name}: {words}"))
        ax.text(0.99, y + 0.1, drawn, fontsize=9.5, va="center", ha="right", transform=across)
        plain = {"fontsize": 7.5, "color": "#444444", "va": "center", "transform": across}
        for i, line in enumerate(small[name]):
            ax.text(0.01, y + 0.27 + 0.14 * i, _plain(line), **plain)
        y = end
    ax.set(xlim=(left, right), ylim=(y, -0.08), yticks=[])
    ax.xaxis.get_major_locator().set_params(nbins=7)
    also = "; hollow: both are 0" if hollow else ""
    measure = "(measured − bound)/(sizes of all terms): < 0 room, 0 attained, > 0 fails"
    ax.set_xlabel(f"{measure}; a point for each instance{also}", fontsize=8.5)
    ax.grid(False)
    ax.spines["left"].set_visible(False)
    ax.tick_params(length=3)


def _draw_rounds(ax: Any, shown: Mapping[str, Any]) -> None:
    from fedtheory.plotting.style import COLOURS

    zero, others, markers = (
        False, iter(OTHERS * (1 + len(shown["rounds"]))),
        iter("osD^vP*X" * (1 + len(shown["rounds"])))
    )
    top = max([1.0, *(r["ratio"] or 0.0 for rows in shown["rounds"].values() for r in rows)])
    far = top > FAR
    end = 10**0.3 * top if far else 1.12 * top
    for name, rows in shown["rounds"].items():
        form = shown["forms"][name]
        word = {"violated": "fails", "holds": "attained" if form["attained"] else "holds"}.get(
            form["verdict"], form["verdict"]
        )
        label = (
            f"{_plain(name)}: {word}   "
            f"{formula(form['latex'])}" + ("" if rows else "  (no measured/bound)")
        )
        colour = COLOURS[name] if name in ("printed", "repaired") else next(others)
        horizon, ratio = (
            [r["T"] for r in rows],
            [np.nan if r["ratio"] is None else max(r["ratio"], 0.0) for r in rows]
        )
        ax.plot(
            horizon, ratio, color=colour, marker=next(markers), markersize=5, label=label,
            clip_on=False, zorder=3, alpha=0.85
        )
        without = [r["T"] for r in rows if r["ratio"] is None]
        ax.plot(
            without, [end] * len(without), "^", color=colour, markersize=8, clip_on=False, zorder=4
        )
        zero = zero or bool(without)
    if far:
        ax.set_yscale("symlog", linthresh=1, linscale=LINEAR)
        ax.minorticks_off()
        powers = 10.0 ** np.arange(1, int(np.ceil(np.log10(top))) + 1)
        powers = powers[:: 1 + len(powers) // 6]
        ax.set_yticks([0, 0.5, 1, *powers], ["0", "0.5", "1", *(f"{p:g}" for p in powers)])
    ax.set_ylim(0, end)
    ax.axhspan(1, end, color=COLOURS["violated"], alpha=0.07, linewidth=0)
    ax.axhline(1, color="#000000", linewidth=1.2)
    ax.annotate(
        "the bound fails" + "  (▲: it is 0, or nearly)" * zero, (0, 1), xycoords="axes fraction",
        xytext=(4, -4),
        textcoords="offset points", ha="left", va="top", fontsize=8.5, color=COLOURS["violated"],
    )  # fmt: skip
    tried = dict(shown["tried"])
    ax.set_xlabel("rounds T, and the number of instances that the search tried")
    ax.set_ylabel("largest measured/bound" + "\n(logarithmic above 1)" * far)
    ax.xaxis.get_major_locator().set_params(integer=True)
    ax.xaxis.set_major_formatter(lambda T, _: f"{T:.0f}\n{tried.get(round(T), 0):,}")
    ax.figure.legend(loc="outside lower left", ncols=1)
