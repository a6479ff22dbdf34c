"""A check (`fedtheory.theory.judge.check.Check`) in words, and its numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from fedtheory.theory.judge.check import FREE, SAME_AT_START
from fedtheory.theory.judge.statement import Form, Statement

__all__ = [
    "apart", "finding", "form_of", "in_runs", "negative_bounds", "number", "ratio_text", "reading", "upper",
]  # fmt: skip

READINGS = {
    "printed": "as printed",
    "repaired": "as repaired",
    "in words": "as the paper says it in words",
    "algorithm": "as we read it off the printed algorithm",
}
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
    form = form_of(check, statement)
    return READINGS.get((form.wording if form else "") or check.form, f"in the form '{check.form}'")


def form_of(check: Any, statement: Statement | None) -> Form | None:
    """The form of a check, where its statement is known."""
    return next((f for f in statement.forms if f.name == check.form), None) if statement is not None else None


def finding(check: Any) -> str:
    """'is false here: at T = 43 the left side is 0.53, the bound 0.12', without a full stop."""
    reason = check.reason.rstrip(".")
    if check.verdict == "not applicable":
        return f"does not apply here: {reason}"
    if check.verdict == "inconclusive":
        return f"is not decided here: {reason}"
    if check.mode in ("symbolic", "proved"):
        known = "an identity between symbols" if check.mode == "symbolic" else "a proof for every instance"
        whatever = "whatever problem and method are given: it looks at neither"
        return f"holds, by {known}, {whatever}" if check.verdict == "holds" else f"is false: {known} was tried and fails"
    if check.verdict == "holds":
        return f"holds here{in_runs(check)}{_ratio(check)}"
    if not check.refutes:
        free = " and ".join(check.where[FREE])
        return f"is violated here{_sides(check)}; it is claimed of some {free} >= 0, maybe another"
    return f"is false here{_sides(check)}"


def in_runs(check: Any) -> str:
    """' in the mean of 200 runs' of what was decided by scenarios."""
    return f" in the mean of {check.scenarios:,} runs" if check.scenarios else ""


def negative_bounds(check: Any) -> bool:
    """True if some bound that was compared is below 0, so that measured/bound is told of the others only."""
    return check.rhs < 0 or (check.series is not None and bool((check.series.rhs < -check.series.floor).any()))


def _ratio(check: Any) -> str:
    """', with measured/bound at most 0.3'; '' where the ratio says nothing."""
    if not math.isfinite(check.tightness):
        return ""
    where = " where the bound is positive" if negative_bounds(check) else ""
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
    return f": {place}the left side is {left}{in_runs(check)}, the bound {right}"


def upper(text: str) -> str:
    """The text with a capital first letter."""
    return text[:1].upper() + text[1:]
