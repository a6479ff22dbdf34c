"""Bound against measured, drawn from a table alone: over the rounds, or entry by entry.

The table is what `fedtheory.theory.judge.comparison.comparison` returns, or what `fedtheory.plotting.saved` reads back.
"""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib as mpl
import numpy as np

from fedtheory.plotting.failures import fails_at
from fedtheory.plotting.formulas import left_side
from fedtheory.plotting.style import COLOURS, grows, headline, legend_below, new_figure, times

__all__ = ["draw", "finding"]

NUMBERS = ("at", "measured", "bound", "slack", "floor", "measured_low", "measured_high", "bound_low", "bound_high")
OTHERS = ("#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#5D3A9B")
WIDTHS = (1.7, 1.2, 0.9, 0.7)  # of one bound after another, so that none is hidden below the next
ALIKE = 0.01  # lines that are nowhere further apart, as a share, are drawn as one and named together
SAME = 1e-6  # left sides whose ratio varies by less are one up to a constant
DECADES = 1.5  # from here on an axis is logarithmic
WIDE = 30  # and that of the rounds from this largest over least
FEW = 30  # points of a line that are marked
WIDTH = 230  # characters of the small print above it
LONGEST = 130  # characters of a headline
LETTERS = {"tau": "τ"}


def draw(data: Mapping[str, Any], title: bool = True) -> Any:
    """The picture; inside `fedtheory.plotting.style.house_style`."""
    lines = _lines(data)
    if data["kind"] == "horizon":
        figure = _over_rounds(data, lines)
    elif all(len(line["bound"]) == 1 for line in lines.values()):
        figure = _one_pair(data, lines)
    elif all(data["forms"][n]["relation"] == "<=" and _has_ratio(line) for n, line in lines.items()):
        figure = _over_states(data, lines)
    else:
        figure = _in_order(data, lines)
    if title:
        nothing = data["kind"] == "horizon" and any(np.isnan(line["seen"]).any() for line in lines.values())
        how = _how(data) + " Where no point is, what is measured is 0 up to rounding." * nothing
        detail = [f"{data['statement']}: {data['title'].rstrip('.')}. {how}", data["setup"] or data["problem"]] if grows() else []
        small = _plain("\n".join(textwrap.shorten(line, WIDTH, placeholder=" ...") for line in detail))
        headline(figure, _plain(finding(data)), small)
    return figure


# --- in words -------------------------------------------------------------------------------------
def finding(data: Mapping[str, Any]) -> str:
    """The headline: what becomes of the forms that are drawn, and by what factor, with the computed numbers."""
    forms = _shown(data)
    main = {n: f for n, f in forms.items() if f["reading"].startswith("as ")} or forms  # as printed, or in its place, and as repaired
    texts = [_joined({f["reading"]: _outcome(data, n, long) for n, f in main.items()}) for long in (True, False)]
    texts.append(_counted(list(main.values())))
    return next((t for t in texts if len(t) <= LONGEST), texts[-1])


def _joined(told: Mapping[str, str]) -> str:
    """'As printed it is violated at T = 10 by a factor 54.8; as repaired it holds, 790 times too large'."""
    together: dict[str, list[str]] = {}
    for how, outcome in told.items():
        together.setdefault(outcome, []).append(how)
    text = "; ".join(f"{' and '.join(hows)} it {outcome}" for outcome, hows in together.items())
    return text[:1].upper() + text[1:]


def _counted(forms: Sequence[Mapping[str, Any]]) -> str:
    counts = {v: sum(f["verdict"] == v for f in forms) for v in ("violated", "holds", "inconclusive")}
    words = {"violated": ("is violated", "are violated"), "holds": ("holds", "hold")}
    words["inconclusive"] = ("is not decided", "are not decided")
    return f"Of {len(forms)} forms " + ", ".join(f"{n} {words[v][n > 1]}" for v, n in counts.items() if n)


def _outcome(data: Mapping[str, Any], name: str, long: bool) -> str:
    """'holds, 380,000 times too large at T = 300': of one form."""
    form, letter = data["forms"][name], _letter(data)
    if form["verdict"] == "inconclusive":
        return "is not decided"
    rows = [r for r in data["rows"] if r["form"] == name]
    if form["verdict"] == "violated":
        return "is violated" + _by(form, [r for r in rows if r["judged"]], letter)
    shorter = fails_at([r for r in rows if r["judged"]], name, letter)
    if shorter:  # the check is of the whole run, and shorter runs are drawn, too
        return f"holds at the end and fails {shorter}"
    later = fails_at([r for r in rows if not r["judged"]], name, letter)
    if later:
        beyond = data["beyond"]
        mean = f"the mean of {beyond['scenarios']:,} runs" if beyond["scenarios"] else "what is measured"
        return f"holds up to {letter} = {beyond['after']:,}, and {mean} is above it {later}"
    return "holds" + _room(data, form, rows, long)


def _by(form: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], letter: str) -> str:
    """' at T = 10 by a factor 54.8', ' in 7 of 40 cases by a factor of up to 1.6': where it is worst of what was judged."""
    bad, of = [r for r in rows if r["violated"]], len(rows)
    known = form["largest_ratio"] is not None  # of some forms, as of a bound on F itself, a ratio says nothing
    ratios = [(r["measured"] / r["bound"], r["at"]) for r in bad if r["bound"] > 0 and known]
    ratio, at = max(ratios, default=(math.nan, None), key=lambda v: v[0])
    factor = times(ratio) if ratio >= 1000 else f"{ratio:.3g}" if ratio >= 1.005 else f"1 + {ratio - 1:.1g}"
    if letter and at is not None:
        return f" at {letter} = {at:,} by a factor {factor}"
    if letter or not bad:
        return f" {fails_at(rows, bad[0]['form'], letter)}" if bad else ""
    where = f" in {len(bad):,} of {of:,} cases" if of > 1 else ""
    if not ratios:
        excess = max((r["measured"] - r["bound"] for r in bad), default=0.0)
        return where + f" by {'up to ' * (of > 1)}{excess:.3g}" * (form["relation"] == "<=" and excess > 0)
    return where + f" by a factor{' of up to' * (of > 1)} {factor}"


def _room(data: Mapping[str, Any], form: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], long: bool) -> str:
    """Say ', 380,000 times too large at T = 300': at the last round, or of many at the nearest."""
    if form["relation"] != "<=" or form["largest_ratio"] is None:
        return ""
    letter = _letter(data)
    rows = [r for r in rows if r["bound"] > 0]
    if letter:
        rows = sorted((r for r in rows if r["at"] is not None), key=lambda r: r["at"])[-1:]
    if not rows:
        return ""
    near = max(rows, key=lambda r: r["measured"] / r["bound"])
    if near["measured"] <= near["floor"]:
        return "; what it bounds is 0 up to rounding" if long else ""
    room = near["bound"] / near["measured"]
    mean = " in the mean" if not near["judged"] and data["beyond"]["scenarios"] else ""  # of the runs beyond what was judged
    where = mean + (f" at {letter} = {near['at']:,}" if letter and long else "")
    if room < 1.005:
        return f" and is attained{where}"
    factor = times(room) if room >= 1.1 else f"{room:.3g}"
    return f", {'at least ' * (len(rows) > 1)}{factor} times too large{where}"


def _letter(data: Mapping[str, Any]) -> str:
    return LETTERS.get(data["horizon"], data["horizon"]) if data["kind"] == "horizon" else ""


def _how(data: Mapping[str, Any]) -> str:
    forms, beyond = list(_shown(data).values()), data.get("beyond")
    runs = max((f["scenarios"] or 0 for f in forms), default=0)
    letter = _letter(data)
    if beyond is not None and beyond["scenarios"]:
        mean = f"mean of {beyond['scenarios']:,} runs"
        if runs:
            return f"The verdict is about {letter} up to {beyond['after']:,}, from {runs:,} runs; drawn is the {mean}."
        return f"Exact up to {letter} = {beyond['after']:,}, beyond it a {mean}."
    if runs:
        least = min(f["scenarios"] or runs for f in forms)
        fewer = f"; a form that {least:,} decide is judged by these" if least < runs else ""
        return f"Means of {runs:,} runs, with bands at {100 * forms[0]['confidence']:g} %{fewer}."
    judged = f" The verdict is about {letter} up to {beyond['after']:,}." if beyond is not None else ""
    exact = "Everything is enumerated: no error bars." if any(f["mode"] == "exact" for f in forms) else "In exact fractions."
    return exact + judged


def _measures(data: Mapping[str, Any], names: Sequence[str], share: bool = False) -> str:
    """The left side of these forms, for an axis: in words, where they are about it, and as a
    formula. ``share``: of the bound."""
    left = {n: left_side(f.get("latex") or "") for n, f in data["forms"].items()}
    formulas = {left[n] for n in names}
    main = left.get("repaired", next(iter(left.values())))  # the words of a statement are about that one
    formula = left_side(data["forms"][names[0]].get("latex") or "", 2.6) if len(formulas) == 1 else ""
    words = _plain(data.get("measures", "")) if formulas == {main} else ""
    if share:
        return "measured/bound" + f" of\n{textwrap.fill(words, _room_on_axis()) or formula}" * bool(words or formula)
    return ",\n".join(part for part in (textwrap.fill(words, _room_on_axis()), formula) if part) or "the two sides"


def _room_on_axis() -> int:
    """Characters that stand beside an axis three quarters as high as the figure."""
    return int(0.75 * 72 * mpl.rcParams["figure.figsize"][1] / (0.55 * mpl.rcParams["axes.labelsize"]))


def _plain(text: str) -> str:
    """Text that matplotlib takes for no formula."""
    return text.replace("$", r"\$")


def _name(names: Sequence[str], data: Mapping[str, Any], what: str = "bound ") -> str:
    """Name what a line stands for; several forms that are one line are named together."""
    readings = [data["forms"][n]["reading"].removeprefix("in the form ") for n in names]
    together = f" (within {100 * ALIKE:g} % of one another)" if len(names) > 1 else ""
    return _plain(textwrap.fill(what + ", ".join(readings) + together, 44))


# --- the table as lines ---------------------------------------------------------------------------
def _shown(data: Mapping[str, Any]) -> dict[str, Any]:
    return {name: form for name, form in data["forms"].items() if form["shown"]}


def _lines(data: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """form -> its columns, of the forms that are drawn; over a horizon in its order. Where the
    judged horizons are in the longer run as well, with another number of scenarios, that run is the
    line, and 'first' alone is of what was judged."""
    out = {}
    for name in _shown(data):
        rows = [r for r in data["rows"] if r["form"] == name]
        bad = [r["at"] for r in rows if r["violated"] and r["at"] is not None]
        if data["kind"] == "horizon":
            more = [r["at"] for r in rows if not r["judged"]]
            rows = [r for r in rows if r["at"] is not None and (not more or not r["judged"] or r["at"] < min(more))]
            rows.sort(key=lambda r: r["at"])
        if rows:
            columns: dict[str, Any] = {k: np.array([np.nan if r.get(k) is None else r[k] for r in rows], dtype=float) for k in NUMBERS}
            columns["seen"] = np.where(np.abs(columns["measured"]) > columns["floor"], columns["measured"], np.nan)
            out[name] = {**columns, "violated": np.array([bool(r["violated"]) for r in rows]), "first": min(bad, default=None)}
            out[name]["where"] = [r["where"] for r in rows]
    return out


def _colours(names: Sequence[str]) -> dict[str, str]:
    others = iter(OTHERS * (1 + len(names)))
    return {n: COLOURS[n] if n in ("printed", "repaired") else next(others) for n in names}


def _alike(a: np.ndarray, b: np.ndarray) -> bool:
    """True if two lines are one to the eye."""
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


def _share(line: Mapping[str, np.ndarray], of: Mapping[str, np.ndarray]) -> float | None:
    """The constant that a left side is of another one, at the horizons that both have; None where it is none."""
    theirs = dict(zip(of["at"], of["seen"], strict=True))
    ratios = np.array([seen / theirs.get(at, np.nan) for at, seen in zip(line["at"], line["seen"], strict=True)])
    if not set(line["at"]) <= set(of["at"]):
        return None
    ratios = ratios[np.isfinite(ratios)]
    if not len(ratios):
        return 1.0 if np.isnan(line["seen"]).all() else None
    return float(ratios[0]) if np.ptp(ratios) <= SAME * abs(ratios[0]) and ratios[0] > 0 else None


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


def _panel(rows: int = 1, columns: int = 1, share: float = 1.0) -> tuple[Any, Any]:
    """A figure of the size that `house_style` was asked for, and its axes; ``share``: of its height, on a page."""
    width, height = mpl.rcParams["figure.figsize"]
    return new_figure(width, height * (share if grows() else 1.0), rows, columns)


def _legend(figure: Any, axes: Any) -> None:
    """Put the legend below the panels, where no curve is; a page becomes as much taller."""
    legend = legend_below(figure, axes, 3)
    if grows():
        figure.set_figheight(figure.get_figheight() + legend.get_window_extent().height / figure.dpi)


# --- over the rounds ------------------------------------------------------------------------------
def _over_rounds(data: Mapping[str, Any], lines: dict[str, dict[str, Any]]) -> Any:
    """Each bound, and below them one curve of what was measured."""
    figure, axes = _panel()
    ax = axes[0, 0]
    colours = _colours(list(lines))
    separate, scaled = _measured(ax, data, lines, colours)
    _bounds(ax, data, lines, colours, scaled)
    _worst(ax, data, lines)
    _scale(ax, [line[k] for line in lines.values() for k in ("seen", "bound", "measured_high")])
    every = np.concatenate([line["at"] for line in lines.values()])
    if every.min() > 0 and every.max() / every.min() >= WIDE:
        ax.set_xscale("log")
        ax.xaxis.set_major_formatter(lambda x, _: f"{x:,.0f}")
    else:
        ax.xaxis.get_major_locator().set_params(integer=True)
    if data["forms"][next(iter(lines))]["relation"] == "==":
        ax.set_ylabel("difference of the two sides")
    else:
        ax.set_ylabel("the two sides" if separate else _measures(data, [n for n in lines if n not in scaled]))
    letter = "" if data["horizon"] == "round" else f" {_letter(data)}"
    ax.set_xlabel(f"communication rounds{letter} (a run of its own for each)" if data.get("reruns") else f"communication round{letter}")
    _legend(figure, [ax])
    return figure


def _measured(
    ax: Any, data: Mapping[str, Any], lines: dict[str, dict[str, Any]], colours: Mapping[str, str]
) -> tuple[bool, dict[str, float]]:
    """One curve for what was measured: whether there are others beside it, and by what a form's
    sides are divided to be beside it. Of one left side the mean of the most runs is drawn."""
    forms = data["forms"]
    reference = max(lines, key=lambda n: (len(lines[n]["at"]), forms[n]["scenarios"] or 0))
    left = {n: (left_side(forms[n].get("latex") or ""), len(lines[n]["at"])) for n in lines}
    fewer = [n for n in lines if left[n] == left[reference] != ("", len(lines[reference]["at"]))
             and forms[n]["scenarios"] != forms[reference]["scenarios"]]  # fmt: skip
    scaled: dict[str, float] = {}
    others: dict[str, Any] = {}
    for name, line in lines.items():
        if name in fewer:
            continue
        share = _share(line, lines[reference])
        if share is None and not (set(line["at"]) <= set(lines[reference]["at"]) and _alike(*_common(line, lines[reference]))):
            others[name] = line
        elif share is not None and abs(share - 1) > ALIKE:
            scaled[name] = share
            for key in ("measured", "seen", "bound", "bound_low", "bound_high", "measured_low", "measured_high"):
                line[key] = line[key] / share
    for name in [reference, *others]:
        line, main = lines[name], name == reference
        colour = COLOURS["measured"] if main else colours[name]
        kind = "difference of the sides" if data["forms"][name]["relation"] == "==" else "measured"
        whose = "" if main else f" of {name}"
        label = f"{kind}{whose}{_source(data, name)}"
        ax.plot(line["at"], line["seen"], color=colour, linestyle="-" if main else ":", zorder=5,
                label=_plain(textwrap.fill(label, 44)), **_few(line["at"]))  # fmt: skip
        if np.isfinite(line["measured_low"]).any():
            ax.fill_between(line["at"], line["measured_low"], line["measured_high"], color=colour,
                            alpha=0.25, linewidth=0, zorder=4,
                            label=_band(data, name) if main else None)
    return bool(others), scaled


def _common(line: Mapping[str, np.ndarray], of: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    theirs = dict(zip(of["at"], of["measured"], strict=True))
    return line["measured"], np.array([theirs[at] for at in line["at"]])


def _source(data: Mapping[str, Any], name: str) -> str:
    """': exact up to T = 8, then the mean of 200 runs', where some of it is a mean of runs."""
    beyond, runs = data.get("beyond"), data["forms"][name]["scenarios"]
    if beyond is not None and beyond["scenarios"]:
        mean = f"mean of {beyond['scenarios']:,} runs"
        return f": {mean}" if runs else f": exact up to {_letter(data)} = {beyond['after']:,}, then the {mean}"
    return f": mean of {runs:,} runs" if runs else ""


def _band(data: Mapping[str, Any], name: str) -> str:
    beyond = data.get("beyond")
    if beyond is not None and beyond["scenarios"]:
        return f"{100 * beyond['confidence']:g} % interval of that mean"
    return f"{100 * (data['forms'][name]['confidence'] or 0):g} % interval of that mean, for all rounds together"


def _bounds(
    ax: Any, data: Mapping[str, Any], lines: Mapping[str, Any], colours: Mapping[str, str], scaled: Mapping[str, float]
) -> None:
    marked = False
    for count, names in enumerate(_together(lines, "bound")):
        line, colour = lines[names[0]], colours[names[0]]
        label = _name(names, data) + ",\nboth its sides times a constant" * any(n in scaled for n in names)
        printed = names[0] == "printed" or len(names) > 1
        wide = mpl.rcParams["lines.linewidth"] * WIDTHS[min(count, len(WIDTHS) - 1)]
        ax.plot(line["at"], line["bound"], label=label, color=colour,
                linestyle=(0, (5, 2)) if printed else "-", linewidth=wide, **_few(line["at"]))
        if np.isfinite(line["bound_low"]).any():
            ax.fill_between(line["at"], line["bound_low"], line["bound_high"], color=colour, alpha=0.18, linewidth=0)
        for own in (lines[name] for name in names if lines[name]["first"] is not None):
            at, above = own["at"], own["violated"] & (own["seen"] > own["bound"])
            ax.fill_between(at, own["bound"], own["seen"], where=above, color=COLOURS["violated"], alpha=0.13, linewidth=0, zorder=1)
            i = int(np.argmin(np.abs(at - own["first"])))
            ax.plot([own["first"]], [own["bound"][i]], "X", color=COLOURS["violated"],
                    markeredgecolor="black", markersize=8, zorder=6, linestyle="none",
                    label=None if marked else f"first {_letter(data)} at which a bound fails")
            marked = True


def _few(at: np.ndarray) -> dict[str, Any]:
    """Points on a line that has few."""
    return {"marker": "o", "markersize": mpl.rcParams["lines.linewidth"] * 2} if len(at) < FEW else {}


def _worst(ax: Any, data: Mapping[str, Any], lines: Mapping[str, Any]) -> None:
    """The worst of all problems with the same parameters, where it is known: a share of the bound at one horizon."""
    name = next((n for n in lines if "worst" in data["forms"][n]), None)  # of several the first: the data have all
    if name is None:
        return
    form, line = data["forms"][name], lines[name]
    share, point = form["worst"]["share"], re.search(rf"\b{re.escape(data['horizon'])} = (\d+)", form["worst"]["at"])
    if point is None or float(point[1]) not in line["at"]:
        return
    i = int(np.flatnonzero(line["at"] == float(point[1]))[0])
    label = f"worst of all problems with these parameters: {share:.3g} of the bound {form['reading']}"
    ax.plot([line["at"][i]], [share * line["bound"][i]], "D", markersize=6, linestyle="none",
            zorder=6, color=COLOURS["worst case"], label=textwrap.fill(label, 44))


# --- one pair -------------------------------------------------------------------------------------
def _one_pair(data: Mapping[str, Any], lines: Mapping[str, Mapping[str, Any]]) -> Any:
    """A row a form: what was measured, the bound, and how many times larger that is; of an equality what becomes of it."""
    figure, axes = _panel(share=0.35 + 0.12 * len(lines))
    ax = axes[0, 0]
    pairs = {n: line for n, line in lines.items() if data["forms"][n]["relation"] == "<="}
    ends = np.array([float(line[k][0]) for line in pairs.values() for k in ("measured", "bound")] or [0.0, 1.0])
    wide = (ends > 0).all() and math.log10(ends.max() / ends.min()) >= 0.5
    for y, (name, line) in enumerate(lines.items()):
        measured, bound, bad = float(line["measured"][0]), float(line["bound"][0]), bool(line["violated"][0])
        colour = COLOURS["violated" if bad else "holds"]
        if name not in pairs:
            told = f"an equality, which {_outcome(data, name, False)}" + f": its sides differ by {measured:.3g}" * bad
            ax.annotate(told, (0.02, y), xycoords=("axes fraction", "data"), va="center",
                        color=colour, fontsize=mpl.rcParams["legend.fontsize"])
            continue
        ax.plot([measured, bound], [y, y], color=colour, alpha=0.5, zorder=2)
        ax.plot([measured], [y], "o", color=COLOURS["measured"], markersize=7, zorder=3, label="measured")
        ax.plot([bound], [y], "X" if bad else "s", color=colour, markersize=8, zorder=3,
                label="bound, which fails" if bad else "bound, which holds")  # fmt: skip
        ax.annotate(_plain(_outcome(data, name, False)), (max(measured, bound), y), xytext=(8, 0),
                    textcoords="offset points", va="center", color=colour,
                    fontsize=mpl.rcParams["legend.fontsize"], annotation_clip=False)
    if wide:
        ax.set_xscale("log")
        ax.set_xlim(ends.min() / 2, ends.max() * (ends.max() / ends.min()) ** 0.55 * 2)
    else:
        span = float(np.ptp(ends)) or 1.0
        low, high = float(ends.min()), float(ends.max())
        low = min(0.0, low) if low < 2 * span else low  # sides that differ by little of their size are looked at closely
        room = (high - low) or 1.0
        ax.set_xlim(low - 0.1 * room, high + 0.7 * room)
    names = [textwrap.fill(data["forms"][n]["reading"].removeprefix("in the form "), 22) for n in lines]
    ax.set_yticks(range(len(lines)), [_plain(n) for n in names])
    ax.set_ylim(len(lines) - 0.4, -0.6)
    ax.grid(axis="y", visible=False)
    if not pairs:
        ax.set_xticks([])
        return figure
    words, _, formula = _measures(data, list(pairs)).rpartition(",\n")
    ax.set_xlabel(f"{words.replace(chr(10), ' ')}, {formula}" if words and figure.get_figwidth() > 5 else f"{words}\n{formula}".strip())
    _legend(figure, [ax])
    return figure


# --- entry by entry -------------------------------------------------------------------------------
def _has_ratio(line: Mapping[str, np.ndarray]) -> bool:
    """True if measured/bound says how near each entry is: bounds above 0, and left sides that are not below."""
    return bool((line["bound"] > 0).all() and (line["measured"] >= -line["floor"]).all() and np.isfinite(line["seen"]).any())


def _entries(form: Mapping[str, Any], count: int) -> str:
    """'40 states', '240 pairs of state and client': what the entries are."""
    axes = [axis for axis in form.get("axes") or () if axis]
    if len(axes) == 2:
        return f"{count:,} pairs of {axes[0]} and {axes[1]}"
    if len(axes) == 1 and axes[0].isalpha():
        return f"{count:,} {axes[0]}{'s' * (count > 1)}"
    return f"{count:,} case{'s' * (count > 1)}" + (f" of {axes[0]}" if len(axes) == 1 else "")


def _over_states(data: Mapping[str, Any], lines: Mapping[str, Mapping[str, Any]]) -> Any:
    """measured/bound of every entry, largest first, a line a form; above 1 the bound fails."""
    figure, axes = _panel()
    ax = axes[0, 0]
    colours = _colours(list(lines))
    ratios = {n: np.sort(np.nan_to_num(line["seen"] / line["bound"], nan=0.0))[::-1] for n, line in lines.items()}
    every = np.concatenate(list(ratios.values()))
    positive, high = every[every > 0], max(1.0, float(every.max()))
    wide = math.log10(high / positive.min()) > DECADES
    for name, ratio in ratios.items():
        rank = np.arange(1, len(ratio) + 1)
        label = textwrap.fill(f"{data['forms'][name]['reading']}: {_nearest(ratio, int(lines[name]['violated'].sum()))}", 44)
        ax.plot(rank, np.where(ratio > 0, ratio, np.nan) if wide else ratio, "o-",
                color=colours[name], linewidth=0.6, zorder=3,
                markersize=4 if len(ratio) < 100 else 2, label=_plain(label))
    if wide:
        ax.set_yscale("log", nonpositive="mask")
        ax.set_ylim(positive.min() / 2, high * 2.5)
    else:
        ax.set_ylim(min(0.0, float(every.min())), high * 1.2)
    ax.axhspan(1, ax.get_ylim()[1], color=COLOURS["violated"], alpha=0.1, linewidth=0, label="the bound fails")
    ax.axhline(1, color="#000000", linewidth=1.0)
    longest = max(lines, key=lambda name: len(ratios[name]))
    entries = _entries(data["forms"][longest], len(ratios[longest]))
    ax.set_xlabel(f"{entries}, the nearest to its bound first")
    ax.xaxis.get_major_locator().set_params(integer=True)
    ax.set_ylabel(_measures(data, list(lines), share=True))
    _legend(figure, [ax])
    return figure


def _nearest(ratio: np.ndarray, bad: int) -> str:
    if bad:
        return f"above 1 in {bad:,} of {len(ratio):,}, at most {ratio[0]:.3g}"
    nothing = int((ratio == 0).sum())
    also = f", in {nothing:,} of {len(ratio):,} nothing is measured" if nothing else ""
    return f"at most {ratio[0]:.3g}{also}"


def _in_order(data: Mapping[str, Any], lines: Mapping[str, Mapping[str, Any]]) -> Any:
    """(bound - measured)/(sizes of all terms), least first; of an equality how far its sides are apart, largest first."""
    columns = min(3, len(lines))
    figure, axes = _panel(-(-len(lines) // columns), columns, share=float(-(-len(lines) // columns)))
    for ax, (name, line) in zip(axes.ravel(), lines.items(), strict=False):
        _slacks(ax, line, data["forms"][name])
        told = f"{data['forms'][name]['reading']}: it {_outcome(data, name, False)}"
        ax.set_title(_plain(textwrap.fill(told, {1: 90, 2: 44, 3: 28}[columns])))
    for ax in axes.ravel()[len(lines) :]:
        ax.set_visible(False)
    return figure


def _slacks(ax: Any, line: Mapping[str, Any], form: Mapping[str, Any]) -> None:
    order = np.argsort(line["slack"])
    slack, bad = line["slack"][order], line["violated"][order]
    rank = np.arange(1, len(slack) + 1)
    colours = [COLOURS["violated"] if v else COLOURS["holds"] for v in bad]
    if form["relation"] == "==":
        apart = np.maximum(-slack, 1e-17)
        ax.scatter(rank, apart, s=14, c=colours, alpha=0.7, linewidth=0, zorder=3)
        ax.set_yscale("log")
        ax.set_ylim(1e-18, 3.0)
        ax.set_ylabel("difference of the two sides,\nas a share of the sizes of all terms")
    else:
        ax.scatter(rank, slack, s=14, c=colours, alpha=0.7, linewidth=0, zorder=3)
        low = min(0.0, float(slack.min()))
        ax.set_ylim(low - 0.06, max(0.06, float(slack.max())) + 0.06)
        ax.axhspan(low - 0.06, 0, color=COLOURS["violated"], alpha=0.08, linewidth=0)
        ax.axhline(0, color="#000000", linewidth=1.0)
        ax.annotate("the bound fails", (0.03, 0.02), xycoords="axes fraction", va="bottom",
                    color=COLOURS["violated"], fontsize=mpl.rcParams["legend.fontsize"])
        ax.set_ylabel("bound − measured,\nas a share of the sizes of all terms")
    first = "the farthest apart" if form["relation"] == "==" else "the nearest to its bound"
    ax.set_xlabel(f"{_entries(form, len(rank))}, {first} first")
    ax.set_xlim(0.5 - 0.02 * len(rank), len(rank) + 0.5 + 0.02 * len(rank))
    ax.xaxis.get_major_locator().set_params(integer=True)
