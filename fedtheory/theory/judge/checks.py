"""The checks of one statement together: in a sentence, as a table, as a picture."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from fedtheory.provenance import provenance
from fedtheory.theory.judge.case import Case
from fedtheory.theory.judge.check import SAME_AT_START, Check
from fedtheory.theory.judge.comparison import comparison
from fedtheory.theory.judge.statement import Statement
from fedtheory.theory.judge.summary import (
    finding,
    form_of,
    in_runs,
    negative_bounds,
    number,
    ratio_text,
    reading,
    upper,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Checks"]

COLUMNS = {  # of `as_rows`, as Jupyter heads them
    "form": "form", "rule": "rule", "verdict": "verdict", "mode": "how",
    "measured_over_bound": "measured/bound",
    "measured": "measured", "bound": "bound", "slack": "slack", "place": "worst at",
    "reason": "why",
}  # fmt: skip

KEYS = (
    "statement", "form", "rule", "verdict", "mode", "measured_over_bound", "measured", "bound",
    "standard_error", "slack", "place", "compared", "runs", "instance", "reason",
)  # fmt: skip
CALLED = {  # of these by a name that a check does not have: its name there
    "measured_over_bound": "tightness", "measured": "lhs", "bound": "rhs", "compared": "count",
    "runs": "scenarios",
}  # fmt: skip


class Checks(list[Check]):
    """Checks of one statement: they print as a sentence and a line each, and Jupyter shows them as
    a table.

    Parameters
    ----------
    checks : one a form
    statement : what was checked, where it is known
    again : callable(rounds) -> the checks of a shorter run, where there is one
    setup : what was run, in words
    case : what was run, where it is a problem of the user's
    """

    def __init__(
        self, checks: Iterable[Check] = (), statement: Statement | None = None,
        again: Callable[..., Iterable[Check]] | None = None, setup: str = "",
        case: Case | None = None,
    ) -> None:  # fmt: skip
        super().__init__(checks)
        self.statement, self.again, self.setup, self.case = statement, again, setup, case

    def __str__(self) -> str:
        told = zip(self, self.reasons, strict=True)
        return "\n".join([self.sentence, *(str(replace(check, reason=why)) for check, why in told)])

    @property
    def sentence(self) -> str:
        """The finding in words: 'As printed it is false here: at T = 43 the left side is 0.53, the
        bound 0.12. ...'.

        It is of the printed form (or what stands in its place) and of the repaired one; where there
        is neither, of the first. Numbers are those of the checks: of `Check.lhs` and `Check.rhs`
        where the form is worst, and the largest measured/bound.
        """
        if not self:
            return "Nothing was checked."
        told = self._told()
        found = [(reading(c, self.statement), finding(c)) for c in told]
        if len({words for _, words in found}) == 1 and all(c.reason for c in told):
            return f"It {found[0][1]}."
        ratios = [c.tightness for c in told]
        if (
            len(told) == 2 and {c.verdict for c in told} == {"holds"}
            and all(map(math.isfinite, ratios))
        ):
            at_most = " and ".join(dict.fromkeys(map(ratio_text, ratios)))
            more = any(negative_bounds(c) or SAME_AT_START in c.where for c in told)
            if len({in_runs(c) for c in told}) == 1 and min(ratios) > 0 and not more:
                how = f"{upper(found[0][0])} and {found[1][0]}"
                return (
                    f"{how} it holds here{in_runs(told[0])}, with measured/bound at most {at_most}."
                )
        return " ".join(f"{upper(how)} it {words}." for how, words in found)

    def _told(self) -> list[Check]:
        """The printed form and the repaired one, under the first rule of each; else the first
        form."""
        printed = [c for c in self if c.form == "printed"]
        forms = ((c, form_of(c, self.statement)) for c in self)
        printed = printed or [c for c, form in forms if form is not None and form.wording]
        repaired = [c for c in self if c.form == "repaired"]
        return [*printed[:1], *repaired[:1]] or self[:1]

    @property
    def reasons_told(self) -> set[str]:
        """The reasons that the sentence tells."""
        return {check.reason for check in self._told()} - {""}

    @property
    def reasons(self) -> list[str]:
        """The reason of each check, and 'as above' for one that the sentence or a check before it
        tells."""
        told, out = self.reasons_told, []
        for check in self:
            out.append("as above" if check.reason in told else check.reason)
            told |= {check.reason} - {""}
        return out

    def rows(self) -> list[dict[str, Any]]:
        """One dict a check, of plain values, as `pandas.DataFrame` takes them.

        Keys: statement, form, rule, verdict, mode, measured_over_bound (`Check.tightness`),
        measured and bound (the two sides where the form is worst), standard_error, slack, place,
        compared, runs (None where nothing is random), instance, reason.
        """
        return [{key: getattr(c, CALLED.get(key, key)) for key in KEYS} for c in self]

    def _repr_html_(self) -> str:
        """The sentence, and a row a form below it; everything escaped, without script or
        colours."""
        rows = [row | {"reason": why} for row, why in zip(self.rows(), self.reasons, strict=True)]
        empty = {"rule"} if {r["rule"] for r in rows} <= {"any"} else set()
        shown = {
            k: v for k, v in COLUMNS.items() if k not in empty and any(_cell(r[k]) for r in rows)
        }
        head = "".join(f'<th style="text-align:left">{escape(v)}</th>' for v in shown.values())
        body = "".join(f"<tr>{''.join(_td(k, r[k]) for k in shown)}</tr>" for r in rows)
        names = dict.fromkeys(c.statement for c in self)
        title = ", ".join(f"<strong>{escape(n)}</strong>" for n in names)
        table = f"<table><tr>{head}</tr>{body}</table>"
        return f"<div><p>{title}: {escape(self.sentence)}</p>{table}</div>"

    def plot(
        self,
        path: Path | str | None = None,
        *,
        size: str = "page",
        title: bool = True,
        forms: Iterable[str] | None = None,
        worst: bool | None = None,
        setup: str | None = None,
        on_progress: Callable[[], None] | None = None,
        rounds: int | Literal["auto"] | None = "auto",
        tell: Callable[[str], Any] | None = None,
    ) -> Figure:
        """Bound, as each form has it, against what was measured: over the rounds, or entry by entry
        where there is no horizon.

        Where nobody chose a horizon the picture goes on to 300 rounds, or as many as some ten
        seconds allow: exactly, or by the mean of seeded runs with its interval. The verdicts are
        those of before.

        Parameters
        ----------
        path : where to write FILE.png, FILE.pdf and FILE.csv, which has the data and from which
            `fedtheory draw` draws again; default nowhere
        size : 'page', 'neurips', 'icml', 'ieee' or 'slide' (`fedtheory.plotting.style.SIZES`)
        title : whether the finding stands above, and what was run
        forms, worst, setup, on_progress, rounds, tell : as of `compared`

        Returns
        -------
        matplotlib.figure.Figure

        Raises
        ------
        UnknownName
            Another size.
        OSError
            A path where nothing can be written.
        """
        # matplotlib takes half a second to import
        from fedtheory.plotting.bound_against_measured import draw
        from fedtheory.plotting.saved import write
        from fedtheory.plotting.style import house_style

        with house_style(size):
            data = self.compared(
                forms=forms, worst=worst, setup=setup, on_progress=on_progress, rounds=rounds,
                tell=tell
            )
            if path is not None:
                figure: Figure = write(
                    data, path, {"provenance": provenance()}, size=size, title=title
                )[1]
                return figure
            return draw(data, title)

    compared = comparison

    @property
    def verdict(self) -> str:
        """Verdict of the repaired form where there is one, else of the first form."""
        repaired = [c for c in self if c.form == "repaired"] or list(self)
        for verdict in ("violated", "inconclusive", "not applicable"):
            if any(c.verdict == verdict for c in repaired):
                return verdict
        return "holds"


def _td(key: str, value: Any) -> str:
    right = isinstance(value, float)
    mark = {"violated": "✗ ", "holds": "✓ "}.get(value, "") if key == "verdict" else ""
    weight = ";font-weight:bold" if value == "violated" else ""
    style = f"text-align:{'right' if right else 'left'}{weight}"
    return f'<td style="{style}">{mark}{escape(_cell(value))}</td>'


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return number(value) if math.isfinite(value) else ""
    return "" if value is None else str(value)
