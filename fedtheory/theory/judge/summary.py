"""Checks (`fedtheory.theory.judge.check.Check`) in one sentence, as rows, and as the table that Jupyter shows."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from html import escape
from typing import Any

from fedtheory.theory.judge.check import SAME_AT_START
from fedtheory.theory.judge.statement import Form, Statement

__all__ = [
    "as_html", "as_rows", "as_sentence", "number", "ratio_text", "reading", "reasons_once",
    "reasons_told", "upper",
]  # fmt: skip

READINGS = {
    "printed": "as printed",
    "repaired": "as repaired",
    "in words": "as the paper says it in words",
    "algorithm": "as we read it off the printed algorithm",
}
COLUMNS = {  # of `as_rows`, as Jupyter heads them
    "form": "form", "rule": "rule", "verdict": "verdict", "mode": "how", "measured_over_bound": "measured/bound",
    "measured": "measured", "bound": "bound", "slack": "slack", "place": "worst at", "reason": "why",
}  # fmt: skip

KEYS = (
    "statement", "form", "rule", "verdict", "mode", "measured_over_bound", "measured", "bound",
    "standard_error", "slack", "place", "compared", "runs", "instance", "reason",
)  # fmt: skip
CALLED = {  # of these by a name that a check does not have: its name there
    "measured_over_bound": "tightness", "measured": "lhs", "bound": "rhs", "compared": "count",
    "runs": "scenarios",
}  # fmt: skip


def number(value: float, digits: int = 3) -> str:
    """Three digits; whole thousands without an exponent, as in 885,460."""
    if math.isfinite(value) and 1e3 <= abs(value) < 1e7:
        return f"{float(f'{value:.{digits}g}'):,.{max(0, digits - len(str(int(abs(value)))))}f}"
    return f"{value:.{digits}g}"


def ratio_text(value: float, digits: int = 3) -> str:
    """measured/bound; what is apart from 1 beyond rounding is never '1', but '<1 (0.9999998)' or '>1 (1.00001)'."""
    text = number(value, digits)
    if text != "1" or abs(value - 1) < 1e-9:
        return text
    longer = (f"{value:.{more}g}" for more in range(digits + 1, 18))
    return f"{'<' if value < 1 else '>'}1 ({next(text for text in longer if float(text) != 1)})"


def apart(left: float, right: float, digits: int = 4, show: Callable[[float, int], str] = "{:.{}g}".format) -> tuple[str, str]:
    """Two numbers in as many digits as it takes to tell them apart: ('1.0004', '1.0001'), and not '1' twice."""
    for more in range(digits, 18):
        shown = show(left, more), show(right, more)
        if shown[0] != shown[1] or left == right:
            break
    return shown


def reading(check: Any, statement: Statement | None = None) -> str:
    """The reading of a form in words: 'as printed', 'as repaired', "in the form 'sharpened'"."""
    form = _form(check, statement)
    return READINGS.get((form.wording if form else "") or check.form, f"in the form '{check.form}'")


def as_sentence(checks: Sequence[Any], statement: Statement | None = None) -> str:
    """Say what was found in a sentence or two: of the printed form (or what stands in its place) and of the repaired one.

    Where there is neither, of the first form. Numbers are those of the checks: of `Check.lhs` and `Check.rhs` where the form
    is worst, and the largest measured/bound.
    """
    if not checks:
        return "Nothing was checked."
    told = _told(checks, statement)
    found = [(reading(c, statement), _finding(c)) for c in told]
    if len({words for _, words in found}) == 1 and all(c.reason for c in told):
        return f"It {found[0][1]}."
    if len(told) == 2 and {c.verdict for c in told} == {"holds"} and all(math.isfinite(c.tightness) for c in told):
        ratios = [ratio_text(c.tightness) for c in told]
        at_most = ratios[0] if len(set(ratios)) == 1 else f"{ratios[0]} and {ratios[1]}"
        alone = any(_negative_bounds(c) or SAME_AT_START in c.where for c in told)  # of which more is to be said
        if len({_runs(c) for c in told}) == 1 and min(c.tightness for c in told) > 0 and not alone:
            how = f"{upper(found[0][0])} and {found[1][0]}"
            return f"{how} it holds here{_runs(told[0])}, with measured/bound at most {at_most}."
    return " ".join(f"{upper(how)} it {words}." for how, words in found)


def _told(checks: Sequence[Any], statement: Statement | None) -> list[Any]:
    """The printed form and the repaired one, under the first rule of each; else the first form."""
    printed = next((c for c in checks if c.form == "printed"), None)
    if printed is None:
        printed = next((c for c in checks if (f := _form(c, statement)) is not None and f.wording), None)
    repaired = next((c for c in checks if c.form == "repaired"), None)
    return [c for c in (printed, repaired) if c is not None] or list(checks[:1])


def _form(check: Any, statement: Statement | None) -> Form | None:
    return next((f for f in statement.forms if f.name == check.form), None) if statement is not None else None


def _finding(check: Any) -> str:
    """'is false here: at T = 43 the left side is 0.53, the bound 0.12', without a full stop."""
    reason = check.reason.rstrip(".")
    if check.verdict == "not applicable":
        return f"does not apply here: {reason}"
    if check.verdict == "inconclusive":
        return f"is not decided here: {reason}"
    if check.mode in ("symbolic", "proved"):
        known = "an identity between symbols" if check.mode == "symbolic" else "a proof for every instance"
        return f"holds, by {known}" if check.verdict == "holds" else f"is false: {known} was tried and fails"
    if check.verdict == "holds":
        return f"holds here{_runs(check)}{_ratio(check)}"
    return f"is false here{_sides(check)}"


def _runs(check: Any) -> str:
    """' in the mean of 200 runs' of what was decided by scenarios."""
    return f" in the mean of {check.scenarios:,} runs" if check.scenarios else ""


def _negative_bounds(check: Any) -> bool:
    """True if some bound that was compared is below 0, so that measured/bound is told of the others only."""
    return check.rhs < 0 or (check.series is not None and bool((check.series.rhs < -check.series.floor).any()))


def _ratio(check: Any) -> str:
    """', with measured/bound at most 0.3'; '' where the ratio says nothing."""
    if not math.isfinite(check.tightness):
        return ""
    where = " where the bound is positive" if _negative_bounds(check) else ""
    where += " after t = 0, where both sides are one number" if SAME_AT_START in check.where else ""
    if check.tightness <= 0:
        return f", with a left side that is nowhere above 0{where}"
    return f", with measured/bound at most {ratio_text(check.tightness)}{where}"


def _sides(check: Any) -> str:
    """': at T = 43 the left side is 0.53, the bound 0.12'; of an equality by how much its sides differ."""
    place = f"at {check.place} " if check.place else ""
    if check.relation == "==":
        share = f", {number(-check.slack)} of their size" if math.isfinite(check.slack) else ""
        return f": {place}its two sides differ by {number(check.lhs)}{share}"
    left, right = apart(check.lhs, check.rhs, 3, number)
    return f": {place}the left side is {left}{_runs(check)}, the bound {right}"


def upper(text: str) -> str:
    """The text with a capital first letter."""
    return text[:1].upper() + text[1:]


def as_rows(checks: Sequence[Any]) -> list[dict[str, Any]]:
    """One dict a check, of plain values, as `pandas.DataFrame` takes them.

    Keys: statement, form, rule, verdict, mode, measured_over_bound (`Check.tightness`), measured and bound (the two sides where
    the form is worst), standard_error, slack, place, compared, runs (None where nothing is random), instance, reason.
    """
    return [{key: getattr(c, CALLED.get(key, key)) for key in KEYS} for c in checks]


def reasons_told(checks: Sequence[Any], statement: Statement | None = None) -> set[str]:
    """The reasons that `as_sentence` tells."""
    return {check.reason for check in _told(checks, statement)} - {""}


def reasons_once(checks: Sequence[Any], statement: Statement | None = None) -> list[str]:
    """The reason of each check, and 'as above' for one that the sentence or a check before it tells."""
    told, out = reasons_told(checks, statement), []
    for check in checks:
        out.append("as above" if check.reason in told else check.reason)
        told |= {check.reason} - {""}
    return out


def as_html(checks: Sequence[Any], statement: Statement | None = None) -> str:
    """The sentence, and a table below it: a row a form; everything escaped, no script, no colour of its own but the verdict's."""
    said = as_sentence(checks, statement)
    rows = [row | {"reason": why} for row, why in zip(as_rows(checks), reasons_once(checks, statement), strict=True)]
    empty = {"rule"} if {r["rule"] for r in rows} <= {"any"} else set()
    shown = {k: v for k, v in COLUMNS.items() if k not in empty and any(_cell(r[k]) for r in rows)}
    head = "".join(f'<th style="text-align:left">{escape(v)}</th>' for v in shown.values())
    body = "".join(f"<tr>{''.join(_td(k, r[k]) for k in shown)}</tr>" for r in rows)
    names = dict.fromkeys(c.statement for c in checks)
    title = ", ".join(f"<strong>{escape(n)}</strong>" for n in names)
    return f"<div><p>{title}: {escape(said)}</p><table><tr>{head}</tr>{body}</table></div>"


def _td(key: str, value: Any) -> str:
    right = isinstance(value, float)
    mark = {"violated": "✗ ", "holds": "✓ "}.get(value, "") if key == "verdict" else ""
    weight = ";font-weight:bold" if value == "violated" else ""
    return f'<td style="text-align:{"right" if right else "left"}{weight}">{mark}{escape(_cell(value))}</td>'


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return number(value) if math.isfinite(value) else ""
    return "" if value is None else str(value)
