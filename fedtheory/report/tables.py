"""Rows of a campaign as what a reader looks at: one line a statement, for the terminal and for the reports."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from fedtheory.campaign import Row

__all__ = [
    "PAPERS",
    "WORDED",
    "WORDED_NOTE",
    "Line",
    "Paper",
    "by_paper",
    "check_table",
    "details_table",
    "disagreements",
    "instance_text",
    "lines",
    "number",
    "paper_of",
    "printed_form",
    "rule_text",
    "short",
    "statement_table",
    "styled",
    "tried",
]

MARKS = {"holds": "✓", "violated": "✗", "inconclusive": "?", "not applicable": "·"}
STYLES = {"holds": "green", "violated": "red", "inconclusive": "yellow", "not applicable": "dim", "open": "yellow"}
NO_FORM = "–"
WORDED = "°"
WORDED_NOTE = f"{WORDED}: the paper says it in words, or prints only the algorithm; the formula is ours."
# Under which rule a form is read "as printed": the first of these that it has.
PRINTED_RULES = ("sign", "any", "true-gradient", "deterministic", "stochastic", "C", "A", "B", "C-corrected")


@dataclass(frozen=True)
class Paper:
    """A paper whose statements are run.

    Attributes
    ----------
    name : as the headings say it
    about : one line on the paper
    printed : on what, or with what, "as printed" is judged
    rules : what the rules of a form are there; '' where there is one only
    """

    name: str
    about: str
    printed: str
    rules: str


PAPERS = {
    "fedelasticnet": Paper(
        "FedElasticNet",
        "the convergence theory of FedElasticNet (Appendix B)",
        "on the printed algorithm (sign rule)",
        "the sign rule and the true-gradient rule",
    ),
    "fedmls": Paper(
        "FedMLS",
        "the convergence theory of FedMLS (Theorems 1 and 2)",
        "with exact subgradients (deterministic)",
        "exact (deterministic) and noisy (stochastic) subgradients",
    ),
    "efl": Paper(
        "EFL",
        "the convergence theory of EFL (Theorems 1 and 2, Corollary 1, sections 3 and 4, Table 1)",
        "with the coefficients of scheme C, where a statement tells the schemes apart",
        "the schemes A, B, C of the aggregation coefficients where a statement tells them apart",
    ),
    "elastic-aggregation": Paper(
        "Elastic Aggregation",
        "what Elastic Aggregation does on convex problems (Algorithm 1; the paper states no theorem)",
        "as the paper's text claims or Algorithm 1 is printed",
        "",
    ),
}


def paper_of(statement: str) -> Paper:
    """The paper of a statement's id."""
    prefix = statement.split("/", 1)[0]
    return PAPERS.get(prefix, Paper(prefix, prefix, "on the printed text", "all rules"))


def by_paper(items: Sequence[Any], statement: Callable[[Any], str]) -> list[tuple[Paper, list[Any]]]:
    """Items grouped by the paper of their statement, in order."""
    groups: dict[Paper, list[Any]] = {}
    for item in items:
        groups.setdefault(paper_of(statement(item)), []).append(item)
    return list(groups.items())


def rule_text(rule: str) -> str:
    """'sign' -> 'sign rule'; FedMLS's rules say how subgradients are drawn, EFL's how coefficients are made."""
    if rule in ("A", "B", "C", "C-corrected"):
        return f"scheme {rule.replace('-', ', ')}"
    return rule if rule in ("deterministic", "stochastic") else f"{rule} rule"


def short(statement: str) -> str:
    """'fedelasticnet/eq-28' -> 'eq-28'."""
    return statement.split("/", 1)[-1]


def number(value: float, digits: int = 3) -> str:
    """A number for a table; '–' for NaN."""
    return NO_FORM if value is None or math.isnan(value) else f"{value:.{digits}g}"


def styled(verdict: str) -> Text:
    """A verdict with its mark and colour."""
    return Text(f"{MARKS.get(verdict, '')} {verdict}".strip(), STYLES.get(verdict, ""))


@dataclass(frozen=True)
class Line:
    """One statement in the main table.

    Attributes
    ----------
    printed, repaired : rows that the two columns show (printed: as `Paper.printed` says, where there is such a row)
    shown : the row whose tightness is shown, that of the form that stands
    """

    statement: str
    title: str
    printed: Row | None
    repaired: tuple[Row, ...]
    others: tuple[Row, ...]

    @property
    def mark(self) -> str:
        """`WORDED` where the paper prints no such formula."""
        return "" if self.printed is None or self.printed.form == "printed" else WORDED

    @property
    def shown(self) -> Row | None:
        return next(iter(self.repaired), self.printed)

    @property
    def witness(self) -> str | None:
        """The witness of the printed form, else that of any other."""
        rows = [r for r in (self.printed, *self.others) if r is not None and r.witness]
        return rows[0].witness if rows else None


def _first(rows: Iterable[Row], form: str) -> Row | None:
    found = {r.rule: r for r in rows if r.form == form}
    return next((found[rule] for rule in PRINTED_RULES if rule in found), None)


def printed_form(statement: str) -> str:
    """The name of the form that the column "as printed" shows; 'printed' where there is none."""
    from fedtheory.theorems import get

    form = get(statement).as_printed
    return "printed" if form is None else form.name


def lines(rows: Sequence[Row]) -> list[Line]:
    """Rows grouped by statement, in order."""
    from fedtheory.theorems import get

    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(row.statement, []).append(row)
    out = []
    for statement, group in groups.items():
        printed = _first(group, printed_form(statement))
        repaired = tuple(r for r in group if r.form == "repaired")
        others = tuple(r for r in group if r is not printed and r not in repaired)
        out.append(Line(statement, get(statement).title, printed, repaired, others))
    return out


def verdict_text(rows: Sequence[Row]) -> str:
    """One verdict where all rows agree, else each with its rule; '(!)' where it is not the recorded one."""
    if not rows:
        return NO_FORM
    verdicts = {r.verdict for r in rows}
    alarm = "" if all(r.ok for r in rows) else " (!)"
    if len(verdicts) == 1:
        (only,) = verdicts
        return f"{MARKS[only]} {only}{alarm}"
    return "; ".join(f"{MARKS[r.verdict]} {r.verdict} ({r.rule})" for r in rows) + alarm


def _cell(rows: Sequence[Row], brief: bool) -> Text:
    style = "dim"
    if rows:
        style = STYLES[rows[0].verdict] if all(r.ok for r in rows) else "bold white on red"
    text = verdict_text(rows)
    return Text(text.replace("not applicable", "n/a") if brief else text, style)


def instance_text(name: str) -> str:
    """An instance's name; of a witness only its sizes."""
    return "witness " + name.split("]: ", 1)[1] if "]: " in name else name


def tightness_text(row: Row | None) -> str:
    """'worst/median', largest first."""
    if row is None or math.isnan(row.tightness_worst):
        return NO_FORM
    return f"{number(row.tightness_worst)} / {number(row.tightness_median, 2)}"


def statement_table(rows: Sequence[Row], width: int) -> Table:
    """The main table, a heading for each paper; titles are shown where the terminal is wide enough."""
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 1))
    table.add_column("statement", no_wrap=True)
    if width >= 110:
        table.add_column("what it says", ratio=1, style="dim")
    table.add_column("as printed", no_wrap=True)
    table.add_column("as repaired", no_wrap=True)
    table.add_column("inst.", justify="right", no_wrap=True)
    table.add_column("tightness\nmax / med.", justify="right", no_wrap=True)
    table.add_column("wit-\nness", no_wrap=True)
    for n, (paper, group) in enumerate(by_paper(lines(rows), lambda line: line.statement)):
        if n:
            table.add_row()
        table.add_row(Text(paper.name, "bold"))
        for line in group:
            cells: list[Any] = [short(line.statement) + line.mark]
            if width >= 110:
                cells.append(line.title)
            shown = line.shown
            cells += [
                _cell([line.printed] if line.printed else [], width < 110),
                _cell(line.repaired, width < 110),
                str(shown.instances if shown else 0),
                tightness_text(shown),
                "file" if line.witness else "",
            ]
            table.add_row(*cells)
    return table


def details_table(rows: Sequence[Row], width: int) -> Table:
    """Every form under every rule, with the instance on which it is tightest (under the form in a narrow terminal)."""
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 1))
    wide = width >= 110
    names = ("statement", "form", "rule") if wide else ("statement, form and rule;\n  where it is tightest",)
    for name in names:
        table.add_column(name, no_wrap=name in ("statement", "rule"), ratio=None if wide else 1)
    table.add_column("verdict", no_wrap=True)
    table.add_column("recorded", no_wrap=True)
    table.add_column("violated\n/ inst.", justify="right", no_wrap=True)
    table.add_column("tight-\nest", justify="right", no_wrap=True)
    if wide:
        table.add_column("on", ratio=1, style="dim")
    paper: Paper | None = None
    for r in rows:
        if paper_of(r.statement) != paper:
            if paper is not None:
                table.add_row()
            paper = paper_of(r.statement)
            table.add_row(Text(paper.name, "bold"))
        rule = {"true-gradient": "true-gr."}.get(r.rule, r.rule)
        recorded = "same" if r.verdict == r.established else r.established
        where = Text(instance_text(r.tightest or r.worst), "dim")
        numbers = (styled(r.verdict), recorded, f"{r.violations}/{r.instances}", number(r.tightness_worst))
        if wide:
            table.add_row(short(r.statement), Text(r.form), rule, *numbers, where)
        else:
            table.add_row(Text.assemble(f"{short(r.statement)}, {r.form}, {rule}", "\n  " if where else "", where), *numbers)
    return table


def tried(searches: Sequence[dict[str, Any]]) -> str:
    """How many instances the searches looked at: least, most and in all."""
    counts = [s["evaluations"] for s in searches]
    return f"{min(counts):,} to {max(counts):,} instances each, {sum(counts):,} in all"


def disagreements(rows: Sequence[Row], complete: bool = True) -> list[str]:
    """What is not as recorded, in words; in an incomplete campaign a violation may just not have been met yet."""
    out = []
    for r in rows:
        if not r.ok and (complete or r.verdict == "violated"):
            detail = f" (worst: {instance_text(r.worst)}{_at(r.worst_where)})" if r.worst else ""
            out.append(f"{r.statement} [{r.form}, {rule_text(r.rule)}]: {r.verdict}, on record as {r.established}{detail}")
    return out


def _at(where: dict[str, Any]) -> str:
    from fedtheory.theorems.core import in_words

    place = in_words(where)
    return f", {place}" if place else ""


def check_table(checks: Sequence[Any], width: int = 120) -> Table:
    """Checks of one statement on one problem; how and where are left out in a narrow terminal. Reasons stand below the table."""
    from fedtheory.theorems import get

    wide = width >= 110
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 1))
    table.add_column("form", overflow="fold")
    for name in ("verdict", "on record", *(["how"] if wide else [])):
        table.add_column(name, no_wrap=True)
    for name in ("tightness", "slack"):
        table.add_column(name, justify="right", no_wrap=True)
    if wide:
        table.add_column("worst at, or why", ratio=1, style="dim")
    notes: dict[str, int] = {}
    for c in checks:
        why = f"({notes.setdefault(c.reason, len(notes) + 1)})" if c.reason else ""  # long, often the same for several forms
        where = why or c.place
        record = get(c.statement).form(c.form).established.get(c.rule, NO_FORM)
        verdict, numbers = styled(c.verdict), (number(c.tightness), number(c.slack))
        if wide:
            table.add_row(Text(c.form), verdict, record, c.mode, *numbers, Text(where))
        else:
            table.add_row(Text(c.form), Text.assemble(verdict, f" {why}" if why else ""), record, *numbers)
    table.caption = Text("\n".join(f"({n}) {reason}" for reason, n in notes.items())) if notes else None
    table.caption_justify, table.caption_style = "left", "dim"
    return table
