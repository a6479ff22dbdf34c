"""Bound against measured, drawn from a table alone: over a horizon, or entry by entry.

The table is what `fedtheory.verification.comparison.comparison` returns, or what `fedtheory.plotting.saved` reads back.
"""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fedtheory.plotting.failures import fails_at
from fedtheory.plotting.style import COLOURS, headline, new_figure

__all__ = ["draw", "finding"]

NUMBERS = ("at", "measured", "bound", "slack", "floor", "measured_low", "measured_high", "bound_low", "bound_high")
OTHERS = ("#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#5D3A9B")
WIDTHS = (4.0, 2.4, 1.4, 0.9)  # of one bound after another, so that none is hidden below the next
ALIKE = 0.01  # lines that are nowhere further apart, as a share, are drawn as one and named together
DECADES = 1.5  # from here on an axis is logarithmic
WIDTH = 116  # characters of the small print below it
LONGEST = 74  # characters of a headline
LETTERS = {"tau": "τ", "round": "round"}
SYMBOLS = (("lambda", "λ"), ("beta", "β"), ("_1", "₁"), ("_2", "₂"), ("_0", "₀"), ("mu", "μ"), ("tau", "τ"), ("||", "‖"))


def draw(data: Mapping[str, Any]) -> Any:
    """The picture; inside `fedtheory.plotting.style.house_style`."""
    lines = _lines(data)
    figure = _over_horizon(data, lines) if data["kind"] == "horizon" else _entry_by_entry(data, lines)
    detail = [f"{data['statement']}: {data['title'].rstrip('.')}. {_how(data)}", data["setup"] or data["problem"]]
    headline(figure, _plain(finding(data)), _plain("\n".join(textwrap.shorten(line, WIDTH, placeholder=" ...") for line in detail)))
    return figure


def finding(data: Mapping[str, Any]) -> str:
    """The headline: what becomes of the forms that are drawn, with the computed numbers."""
    forms = list(_shown(data).values())
    forms = [f for f in forms if f["reading"].startswith("as ")] or forms  # as printed, or what stands for it, and as repaired
    letter = data["horizon"]
    where = {f["reading"]: fails_at(data["rows"], name, LETTERS.get(letter, letter)) for name, f in _shown(data).items()}
    told = {f["reading"]: tuple(_outcome(f, where[f["reading"]], long) for long in (True, False)) for f in forms}
    texts = [_joined({r: words[i] for r, words in told.items()}) for i in (0, 1)] + [_counted(forms)]
    return next((t for t in texts if len(t) <= LONGEST), texts[-1])


def _joined(told: Mapping[str, str]) -> str:
    """'As printed it fails from T = 2 on; as repaired it holds'; forms with one outcome together."""
    together: dict[str, list[str]] = {}
    for how, outcome in told.items():
        together.setdefault(outcome, []).append(how)
    text = "; ".join(f"{' and '.join(hows)} it {outcome}" for outcome, hows in together.items())
    return text[:1].upper() + text[1:]


def _counted(forms: Sequence[Mapping[str, Any]]) -> str:
    counts = {v: sum(f["verdict"] == v for f in forms) for v in ("violated", "holds", "inconclusive")}
    words = {"violated": ("fails", "fail"), "holds": ("holds", "hold"), "inconclusive": ("is not decided", "are not decided")}
    return f"Of {len(forms)} forms " + ", ".join(f"{n} {words[v][n > 1]}" for v, n in counts.items() if n)


def _outcome(form: Mapping[str, Any], fails: str, long: bool) -> str:
    if form["verdict"] == "inconclusive":
        return "is not decided"
    if form["verdict"] == "holds":
        if fails:  # the check is of the whole run, and shorter runs are drawn, too
            return f"holds at the end and fails {fails}"
        most = form["largest_ratio"]
        return "holds" if most is None or not long else f"holds, measured/bound at most {_short(most)}"
    return f"fails {fails}".rstrip()


def _how(data: Mapping[str, Any]) -> str:
    forms = list(_shown(data).values())
    runs = max((f["scenarios"] or 0 for f in forms), default=0)
    if runs:
        return f"Means of {runs:,} runs, with bands at {100 * forms[0]['confidence']:g} %."
    return "Everything is enumerated: no error bars." if any(f["mode"] == "exact" for f in forms) else "In exact fractions."


def _plain(text: str) -> str:
    """Text that matplotlib takes for no formula."""
    return text.replace("$", r"\$")


def _short(value: float) -> str:
    return f"{value:,.0f}" if 1e3 <= abs(value) < 1e6 else f"{value:.3g}"


# --- the table as lines -----------------------------------------------------------------------------------------------------
def _shown(data: Mapping[str, Any]) -> dict[str, Any]:
    return {name: form for name, form in data["forms"].items() if form["shown"]}


def _lines(data: Mapping[str, Any]) -> dict[str, dict[str, np.ndarray]]:
    """form -> its columns, of the forms that are drawn; over a horizon in its order."""
    out = {}
    for name in _shown(data):
        rows = [r for r in data["rows"] if r["form"] == name]
        if data["kind"] == "horizon":
            rows = sorted((r for r in rows if r["at"] is not None), key=lambda r: r["at"])
        if rows:
            columns = {k: np.array([np.nan if r.get(k) is None else r[k] for r in rows], dtype=float) for k in NUMBERS}
            columns["seen"] = np.where(np.abs(columns["measured"]) > columns["floor"], columns["measured"], np.nan)
            out[name] = {**columns, "violated": np.array([bool(r["violated"]) for r in rows])}
    return out


def _colours(names: Sequence[str]) -> dict[str, str]:
    others = iter(OTHERS * (1 + len(names)))
    return {n: COLOURS[n] if n in ("printed", "repaired") else next(others) for n in names}


def _alike(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two lines are one to the eye."""
    if a.shape != b.shape:
        return False
    size = np.maximum(np.abs(a), np.abs(b))
    return bool(np.all(np.abs(a - b) <= ALIKE * np.where(size > 0, size, 1.0)))


def _together(lines: Mapping[str, Mapping[str, np.ndarray]], key: str) -> list[list[str]]:
    """The forms, those of one line together."""
    groups: list[list[str]] = []
    for name, line in lines.items():
        for group in groups:
            first = lines[group[0]]
            if _alike(line["at"], first["at"]) and _alike(line[key], first[key]):
                group.append(name)
                break
        else:
            groups.append([name])
    return groups


def _scale(ax: Any, values: Sequence[np.ndarray]) -> None:
    """A logarithmic axis where numbers span decades; of both signs linear around 0."""
    every = np.concatenate([v[np.isfinite(v)] for v in values] or [np.zeros(0)])
    sizes = np.abs(every[every != 0])
    if not len(sizes) or math.log10(sizes.max() / sizes.min()) < DECADES:
        return
    if (every >= 0).all():
        ax.set_yscale("log", nonpositive="mask")
        low, high = sizes.min(), sizes.max()
        ax.set_ylim(low / 1.8, high * 1.8)
    else:
        ax.set_yscale("symlog", linthresh=float(max(sizes.min(), sizes.max() * 1e-6)))


# --- over the horizon -------------------------------------------------------------------------------------------------------
def _over_horizon(data: Mapping[str, Any], lines: Mapping[str, Mapping[str, np.ndarray]]) -> Any:
    ratios = [n for n in lines if data["forms"][n]["relation"] == "<=" and (lines[n]["bound"] > 0).any()]
    size = {"height_ratios": [2, 1]} if ratios else {}
    figure, axes = new_figure(7.4, 5.9 if ratios else 4.4, 2 if ratios else 1, 1, sharex=True, gridspec_kw=size)
    top = axes[0, 0]
    colours = _colours(list(lines))
    _measured(top, data, lines, colours)
    _bounds(top, data, lines, colours)
    _scale(top, [line[k] for line in lines.values() for k in ("seen", "bound", "measured_high")])
    letter = data["horizon"]
    every = np.concatenate([line["at"] for line in lines.values()])
    if every.min() > 0 and every.max() / every.min() >= 100:
        top.set_xscale("log")
    else:
        top.xaxis.get_major_locator().set_params(integer=True)
    top.set_ylabel("the two sides")
    top.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    if ratios:
        _ratios(axes[1, 0], data, lines, ratios, colours)
    axes[-1, 0].set_xlabel(f"horizon {LETTERS.get(letter, letter)}" if letter != "round" else "round")
    return figure


def _label(names: Sequence[str], data: Mapping[str, Any]) -> str:
    """What a line stands for; several forms that are one line are named together."""
    readings = [data["forms"][n]["reading"].removeprefix("in the form ") for n in names]
    text = "bound " + ", ".join(readings)
    text += f"\n(within {100 * ALIKE:g} % of one another)" if len(names) > 1 else ""
    return "\n".join(part for line in text.split("\n") for part in textwrap.wrap(line, 30))


def _bounds(ax: Any, data: Mapping[str, Any], lines: Mapping[str, Any], colours: Mapping[str, str]) -> None:
    marked = False
    for count, names in enumerate(_together(lines, "bound")):
        line, colour = lines[names[0]], colours[names[0]]
        look = {"color": colour, "linestyle": "-" if len(names) == 1 else (0, (6, 2)), "linewidth": WIDTHS[min(count, len(WIDTHS) - 1)]}
        ax.plot(line["at"], line["bound"], label=_plain(_label(names, data)), **look, **_few(line["at"]))
        if np.isfinite(line["bound_low"]).any():
            ax.fill_between(line["at"], line["bound_low"], line["bound_high"], color=colour, alpha=0.18, linewidth=0)
        for name in names:
            bad = np.flatnonzero(lines[name]["violated"])
            if len(bad):
                i = bad[0]
                at, value = lines[name]["at"][i], lines[name]["bound"][i]
                label = None if marked else "first horizon at which\nthe bound fails"
                ax.plot([at], [value], "X", color=COLOURS["violated"], markeredgecolor="black", markersize=10, zorder=6, label=label,
                        linestyle="none")  # fmt: skip
                ax.plot([at, at], [value, lines[name]["measured"][i]], color=COLOURS["violated"], linewidth=1.0, linestyle=":")
                marked = True


def _measured(ax: Any, data: Mapping[str, Any], lines: Mapping[str, Any], colours: Mapping[str, str]) -> None:
    for count, names in enumerate(_together(lines, "measured")):
        line = lines[names[0]]
        colour = COLOURS["measured"] if count == 0 else colours[names[0]]
        whose = "" if count == 0 else f" of {', '.join(names)}"
        kind = "difference of the sides" if data["forms"][names[0]]["relation"] == "==" else "measured"
        nothing = "\n(0 up to rounding\nwhere no point is)" if np.isnan(line["seen"]).any() else ""
        ax.plot(line["at"], line["seen"], color=colour, linewidth=1.4, linestyle="-" if count == 0 else ":", zorder=5,
                label=_plain(f"{kind}{whose}{nothing}"), **_few(line["at"]))  # fmt: skip
        if np.isfinite(line["measured_low"]).any():
            ax.fill_between(line["at"], line["measured_low"], line["measured_high"], color=colour, alpha=0.25, linewidth=0, zorder=4)


def _few(at: np.ndarray) -> dict[str, Any]:
    """Points on a line that has few."""
    return {"marker": ".", "markersize": 7} if len(at) < 40 else {}


def _ratios(ax: Any, data: Mapping[str, Any], lines: Mapping[str, Any], forms: Sequence[str], colours: Mapping[str, str]) -> None:
    """measured/bound below the two sides, with the worst of all problems where it is known."""
    every = {}
    for name in forms:
        line = lines[name]
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.where(line["bound"] > 0, line["seen"] / line["bound"], np.nan)
        every[name] = {"at": line["at"], "ratio": ratio, "compared": np.nan_to_num(ratio, nan=-1.0)}
    for count, names in enumerate(_together(every, "compared")):
        first = every[names[0]]
        look = {"linestyle": "-" if len(names) == 1 else (0, (6, 2)), "linewidth": WIDTHS[min(count, len(WIDTHS) - 1)]}
        ax.plot(first["at"], first["ratio"], color=colours[names[0]], **look, **_few(first["at"]))
    values = [v["ratio"] for v in every.values()]
    worst = next((data["forms"][n] for n in forms if "worst" in data["forms"][n]), None)  # of several the first: the data have all
    if worst is not None:
        share = worst["worst"]["share"]
        values.append(np.array([share]))
        text = f"the worst of all problems with {_symbols(worst['worst']['at'])}: {_short(share)} of the bound {worst['reading']}"
        point = re.search(rf"\b{re.escape(data['horizon'])} = (\d+)", worst["worst"]["at"])
        look = {"color": COLOURS["worst case"], "label": "\n".join(textwrap.wrap(text, 30))}
        if point is None:
            ax.axhline(share, linewidth=1.2, linestyle="-.", **look)
        else:
            ax.plot([int(point[1])], [share], "D", markersize=6, linestyle="none", zorder=6, **look)
    finite = np.concatenate([v[np.isfinite(v)] for v in values] or [np.zeros(0)])
    positive = finite[finite > 0]
    high, low = max(1.0, float(positive.max(initial=0.0))), float(positive.min(initial=1.0))
    if high / low > 10**DECADES:
        ax.set_yscale("log", nonpositive="mask")
        ax.set_ylim(low / 2, high * 3)
    else:
        ax.set_ylim(min(0.0, float(finite.min(initial=0.0))), high * 1.15)
    ax.axhspan(1, ax.get_ylim()[1], color=COLOURS["violated"], alpha=0.1, linewidth=0, label="the bound fails")
    ax.axhline(1, color="#000000", linewidth=1.0)
    ax.set_ylabel("measured/bound")
    ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))


def _symbols(text: str) -> str:
    """'lambda_2 = 28 beta' -> 'λ₂ = 28 β'."""
    for words, symbol in SYMBOLS:
        text = text.replace(words, symbol)
    return text


# --- entry by entry ---------------------------------------------------------------------------------------------------------
def _entry_by_entry(data: Mapping[str, Any], lines: Mapping[str, Mapping[str, np.ndarray]]) -> Any:
    """A panel a form: both sides as points with the diagonal where they are positive; else the slack in its order."""
    columns = min(3, len(lines))
    rows = -(-len(lines) // columns)
    figure, axes = new_figure(max(7.4, 2.75 * columns), 1.3 + 3.0 * rows, rows, columns)
    pairs = {n: _positive(line) for n, line in lines.items()}
    sides = all(p is not None and data["forms"][n]["relation"] == "<=" for n, p in pairs.items())
    ends = np.concatenate([v for p in pairs.values() if p is not None for v in p]) if sides else np.array([1.0])
    for ax, (name, line) in zip(axes.ravel(), lines.items(), strict=False):
        form = data["forms"][name]
        if sides:
            _points(ax, line, (float(ends.min()), float(ends.max())))
        else:
            _in_order(ax, line, form["relation"])
        ax.set_title(_plain("\n".join(textwrap.wrap(f"{form['reading']}: {_outcome(form, data['horizon'], True)}", 36))), fontsize=9)
    for ax in axes.ravel()[len(lines) :]:
        ax.set_visible(False)
    return figure


def _positive(line: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray] | None:
    """Both sides, where all are positive; None else."""
    return (line["measured"], line["bound"]) if (line["measured"] > 0).all() and (line["bound"] > 0).all() else None


def _points(ax: Any, line: Mapping[str, np.ndarray], ends: tuple[float, float]) -> None:
    low, high = ends
    wide = high / low > 10**DECADES
    low, high = (low / 2, high * 2) if wide else (0.0, 1.1 * high)
    if wide:
        ax.set(xscale="log", yscale="log")
    ax.fill_between([low, high], [low, high], [high, high], color=COLOURS["violated"], alpha=0.08, linewidth=0)
    ax.plot([low, high], [low, high], color="#000000", linewidth=1.0)
    colours = [COLOURS["violated"] if v else COLOURS["holds"] for v in line["violated"]]
    ax.scatter(line["bound"], line["measured"], s=14 if len(colours) > 9 else 60, c=colours, alpha=0.55, linewidth=0, zorder=3)
    ax.set(xlim=(low, high), ylim=(low, high), xlabel="bound", ylabel="measured")
    ax.annotate("the bound fails", (0.04, 0.96), xycoords="axes fraction", va="top", fontsize=8, color=COLOURS["violated"])


def _in_order(ax: Any, line: Mapping[str, np.ndarray], relation: str) -> None:
    """(bound - measured)/(sizes of all terms), least first; of an equality how far its sides are apart, largest first."""
    order = np.argsort(line["slack"])
    slack, bad = line["slack"][order], line["violated"][order]
    rank = np.arange(1, len(slack) + 1)
    colours = [COLOURS["violated"] if v else COLOURS["holds"] for v in bad]
    if relation == "==":
        apart = np.maximum(-slack, 1e-17)
        ax.scatter(rank, apart, s=14, c=colours, alpha=0.7, linewidth=0, zorder=3)
        ax.set_yscale("log")
        ax.set_ylim(1e-18, 3.0)
        ax.set_ylabel("|difference|/(sizes of all terms)")
    else:
        ax.scatter(rank, slack, s=14, c=colours, alpha=0.7, linewidth=0, zorder=3)
        low = min(0.0, float(slack.min()))
        ax.set_ylim(low - 0.06, max(0.06, float(slack.max())) + 0.06)
        ax.axhspan(low - 0.06, 0, color=COLOURS["violated"], alpha=0.08, linewidth=0)
        ax.axhline(0, color="#000000", linewidth=1.0)
        ax.set_ylabel("(bound − measured)/(sizes of all terms)")
    ax.set_xlabel("entries, in order")
    ax.set_xlim(0.5 - 0.02 * len(rank), len(rank) + 0.5 + 0.02 * len(rank))
    ax.xaxis.get_major_locator().set_params(integer=True)
