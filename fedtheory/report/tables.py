"""Rows of a campaign as what a reader looks at: one line a statement, for the terminal and for the reports."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from fedtheory.report.stacked import NARROW, Stacked, plain_table
from fedtheory.theory.judge.campaign import counts_known
from fedtheory.theory.judge.check import in_words
from fedtheory.theory.judge.registry import RegisteredPaper, by_paper, get, paper_of, rule_words
from fedtheory.theory.judge.statement import KNOWN, Known

if TYPE_CHECKING:
    from fedtheory.theory.judge.campaign import Row

__all__ = [
    "WORDED", "WORDED_NOTE", "WORST_CASE_NOTE", "Line", "check_table", "details_table",
    "disagreements", "instance_text", "is_repaired", "known_key", "known_text", "lines", "number", "other_forms", "printed_form",
    "replay_example", "rule_rank", "short", "shown_rule", "statement_table", "styled", "table_key",
    "tried", "worst_case_key", "worst_case_text",
]

MARKS = {"holds": "✓", "violated": "✗", "inconclusive": "?", "not applicable": "·"}
STYLES = {"holds": "green", "violated": "red", "inconclusive": "yellow", "not applicable": "dim", "open": "yellow"}
NO_FORM = "–"
WIDE = 132  # columns of a terminal in which the main table has room for the worst cases
WORDED = "°"
WORST_CASE_NOTE = (
    "worst case/bound: the same ratio for the worst of all problems of the class, proved in fractions at one point of the parameters "
    "(the report says which); empty where none is computed: most statements are no final bounds, or of a class or method that no "
    "programme represents."
)
WORDED_NOTE = f"{WORDED}: the paper says it in words, or prints only the algorithm; the formula is ours."


def short(statement: str) -> str:
    """'my-paper/eq-28' -> 'eq-28'."""
    return statement.split("/", 1)[-1]


def number(value: float, digits: int = 3) -> str:
    """A number for a table; '–' for NaN, and no minus sign before a zero."""
    return NO_FORM if value is None or math.isnan(value) else f"{value + 0.0:.{digits}g}"


def below_one(value: float, digits: int = 3) -> str:
    """measured/bound for a table: '<1' where it is below 1 and its digits would say 1."""
    text = number(value, digits)
    return "<1" if text == "1" and value < 1 - 1e-9 else text


def styled(verdict: str) -> Text:
    """A verdict with its mark and colour."""
    return Text(f"{MARKS.get(verdict, '')} {verdict}".strip(), STYLES.get(verdict, ""))


@dataclass(frozen=True)
class Line:
    """One statement in the main table.

    Attributes
    ----------
    printed, repaired : rows that the two columns show (printed: as `Paper.printed` says, where
        there is such a row)
    shown : the row whose instances and tightness are shown: of the form that stands, under the rule
        that `Paper.printed` names; None where the statement has several forms and none of them is
        the printed or the repaired one
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
        alone = self.others[0] if len({r.form for r in self.others}) == 1 else None
        return shown_rule(self.repaired) or self.printed or (alone and shown_rule(self.others))

    @property
    def instances(self) -> int:
        """On how many the form that is shown was judged; where none is, the most that any form was judged on."""
        return self.shown.instances if self.shown else max((r.instances for r in self.others), default=0)

    @property
    def known(self) -> Known | None:
        """How it is known that the form that is shown holds, or of several forms those that hold: the weakest way."""
        rows = [self.shown] if self.shown else self.others
        holding = [r.known for r in rows if r.claim == "holds"]
        return max(holding, key=list(KNOWN).index, default=None)

    @property
    def witness(self) -> str | None:
        """The witness of the printed form, else that of any other."""
        rows = [r for r in (self.printed, *self.others) if r is not None and r.witness]
        return rows[0].witness if rows else None


def shown_rule(rows: Iterable[Row]) -> Row | None:
    """Of a form's rows the one under the rule that captions name."""
    return min(rows, key=lambda r: rule_rank(r.rule, r.statement), default=None)


def rule_rank(rule: str, statement: str) -> int:
    """Least for the rule that captions name: the order is the paper's."""
    order = paper_of(statement).rule_order
    return order.index(rule) if rule in order else len(order)


def printed_form(statement: str) -> str:
    """The name of the form that the column "as printed" shows; 'printed' where there is none."""
    form = get(statement).as_printed
    return "printed" if form is None else form.name


def is_repaired(form: str, rule: str, statement: str) -> bool:
    """True of what the column "as repaired" shows: the repaired form, or the printed one under a rule of that name."""
    if any(f.name == "repaired" for f in get(statement).forms):
        return form == "repaired"
    return rule == "repaired" and form == printed_form(statement)


def lines(rows: Sequence[Row]) -> list[Line]:
    """Rows grouped by statement, in order."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(row.statement, []).append(row)
    out = []
    for statement, group in groups.items():
        name = printed_form(statement)
        repaired = tuple(r for r in group if is_repaired(r.form, r.rule, statement))
        printed = shown_rule(r for r in group if r.form == name and r not in repaired)
        others = tuple(r for r in group if r is not printed and r not in repaired)
        out.append(Line(statement, get(statement).title, printed, repaired, others))
    return out


def other_forms(line: Line) -> str:
    """'forms: ✓ 4, ✗ 1' of a statement whose forms have names of their own; '' of any other."""
    if line.printed or line.repaired:
        return ""
    counts: dict[str, set[str]] = {}
    for r in line.others:
        counts.setdefault(r.verdict, set()).add(r.form)
    alarm = "" if all(r.ok for r in line.others) else " (!)"
    return "forms: " + ", ".join(f"{MARKS[verdict]} {len(counts[verdict])}" for verdict in MARKS if verdict in counts) + alarm


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


def tightness_text(row: Row | None, brief: bool = False) -> str:
    """'worst/median', largest first; '<0' where what is measured is negative and the bound is not.
    Brief: small ones as 1.2e-5."""
    if row is None or math.isnan(row.tightness_worst):
        return NO_FORM
    ratios = (row.tightness_worst, 3), (row.tightness_median, 2)

    def shown(value: float, digits: int) -> str:
        return f"{value:.1e}".replace("e-0", "e-") if brief and 0 < value < 1e-3 else below_one(value, digits)

    texts = (shown(*ratio) for ratio in ratios)
    return ("/" if brief else " / ").join("<0" if text.startswith("-") else text for text in texts)


def known_text(line: Line, brief: bool = False) -> str:
    """The word of `Line.known` for a table, with '(Coq)' where Coq accepts the form that is shown; '–' where nothing holds."""
    if line.known is None:
        return NO_FORM
    coq = line.shown is not None and get(line.statement).form(line.shown.form).coq
    return line.known.removeprefix("in " if brief else "") + (" (Coq)" if line.known == "proved" and coq else "")


def known_key(rows: Sequence[Row]) -> str:
    """'620 verdicts “holds”: 15 proved by machine, 605 in words (cited), 0 only tested'; '' where nothing holds."""
    n = counts_known([r for r in rows if r.verdict == "holds"])
    total = sum(n.values())
    if not total:
        return ""
    told = f"{n['proved']} proved by machine, {n['in words']} in words (cited), {n['tested']} only tested"
    return f"{total:,} verdict{'s' * (total != 1)} “holds”: {told}"


def worst_case_text(row: Row | None) -> str:
    """'0.27': worst case/bound at a point of the parameters; '' where none is computed."""
    return "" if row is None or math.isnan(row.worst_case) else number(row.worst_case, 2)


_BRIEF = ("statement", "as\nprinted", "as\nrepaired", "proved", "inst.", "tightness\nmax/med.", "rerun")  # for a narrow terminal


def statement_table(rows: Sequence[Row], width: int) -> Table | Stacked:
    """The main table, a heading for each paper; titles are shown where there is room."""
    narrow = width < NARROW
    worst = ["worst case\n/bound"] if width >= WIDE and any(worst_case_text(r) for r in rows) else []
    headings = ("statement", "what it says", "as printed", "as repaired", "proved", "inst.", "tightness\nmax / med.", *worst, "witness")
    table: Table | Stacked = Stacked(_BRIEF, right=(4, 5))
    if not narrow:
        table = plain_table(headings, right=range(5, 7 + len(worst)), whole={0, *range(2, 9)}, wide=(1,), dim=(1,))
    for n, (paper, group) in enumerate(by_paper(lines(rows), lambda line: line.statement)):
        if n:
            table.add_row("")
        table.add_row(Text(paper.title, "bold"))
        for line in group:
            name, *cells, witness = _cells(line, narrow)
            title, ratio = ([], []) if narrow else ([line.title], [worst_case_text(line.shown)] if worst else [])
            table.add_row(name, *title, *cells, *ratio, witness)
    return table


def _cells(line: Line, brief: bool) -> tuple[str | Text, ...]:
    """Name, as printed, as repaired, how it is known, instances, tightness, witness."""
    forms = other_forms(line)
    return (
        short(line.statement) + line.mark, _cell([line.printed] if line.printed else [], brief),
        Text(forms.removeprefix("forms: ") if brief else forms) if forms
        else _cell(line.repaired, brief),
        known_text(line, brief), str(line.instances), tightness_text(line.shown, brief), _witness_cell(line.witness),
    )


def _witness_cell(witness: str | None) -> str:
    """'yes' for a witness that comes with a paper, 'file' for one that was written, '' for none."""
    return "" if not witness else "file" if "/" in witness else "yes"


def table_key(rows: Sequence[Row], width: int = WIDE) -> str:
    """Explain the words and numbers of the main table. Worst cases are listed where the table has
    no room for them."""
    judged = ", ".join(f"for {paper.title} {paper.printed}" for paper, _ in by_paper(rows, lambda r: r.statement))
    forms = "✓ 4, ✗ 1: how many of a statement's own forms hold and fail. " * any(map(other_forms, lines(rows)))
    return (
        f"as printed is judged {judged}. proved, inst. and tightness are of the repaired form, where there is one, else of the printed "
        "one, judged in the same way. –: there is no such form (a repair where none is needed, a print of our own sharpening). "
        "proved: “proved” by machine, “in words” that are cited, or only “tested”; – where nothing holds. "
        f"{WORDED_NOTE} {forms}tightness: measured/bound, 1 is attained, <0 where what is measured is negative."
        f"{worst_case_key(rows)}{_worst_cases(rows, width)}{_witness_key(rows)}"
    )


def _worst_cases(rows: Sequence[Row], width: int) -> str:
    """' They are: theorem-a 0.15, ...' in a terminal without the column."""
    several = len(by_paper(rows, lambda r: r.statement)) > 1
    named = [(line.statement if several else short(line.statement), line.shown) for line in lines(rows)] if width < WIDE else []
    shown = [(name, worst_case_text(row)) for name, row in named]
    found = ", ".join(f"{name} {text}" for name, text in shown if text)
    return f" They are: {found}." if found else ""


def worst_case_key(rows: Sequence[Row]) -> str:
    """Explain the numbers of the worst cases in these rows; '' where there are none."""
    return f" {WORST_CASE_NOTE}" if any(worst_case_text(r) for r in rows) else ""


def _witness_key(rows: Sequence[Row]) -> str:
    """Say how to rerun these rows' witnesses: a paper's by the statement, others by the path."""
    kinds = {"FILE" if "/" in row.witness else "STATEMENT" for row in rows if row.witness}
    if not kinds:
        return ""
    listed = "; `fedtheory list witnesses` has those of all forms" if "STATEMENT" in kinds else ""
    which = " or ".join(sorted(kinds, reverse=True))
    what = "rerun, witness: of an instance that refutes a form, in fractions"
    return f" {what}; `fedtheory replay {which}` reruns it{replay_example(rows)}{listed}."


def replay_example(rows: Sequence[Row]) -> str:
    """', as in `fedtheory replay eq-11`' with a witness of these rows; '' without one."""
    row, witness = next(((r, r.witness) for r in rows if r.witness), (None, ""))
    if row is None:
        return ""
    source = paper_of(row.statement).file
    file = f" --paper {source}" if source else ""
    return f", as in `fedtheory replay {witness}{file}` for {short(row.statement)}" if "/" in witness else (
        f", as in `fedtheory replay {row.statement}{file}`"
    )


def details_table(rows: Sequence[Row], width: int) -> Table | Stacked:
    """Every form under every rule, with the instance on which it is tightest (below the form in a narrow terminal)."""
    headings = ("verdict", "recorded", "violated\n/ inst.", "tight-\nest")
    if width < NARROW:
        stacked = Stacked(("statement, form and rule;\n  where it is tightest", *headings), right=(3, 4))
        for heading, name, numbers, where in _details(rows):
            if heading is not None:
                stacked.add_row(heading)
            stacked.add_row(", ".join(name), *numbers, below=[where])
        return stacked
    table = plain_table(("statement", "form", "rule", *headings, "on"), right=(5, 6), whole={0, *range(2, 7)}, wide=(7,), dim=(7,))
    for heading, (statement, form, rule), numbers, where in _details(rows):
        if heading is not None:
            if table.row_count:
                table.add_row()
            table.add_row(heading)
        table.add_row(statement, Text(form), rule, *numbers, where)
    return table


def _details(rows: Sequence[Row]) -> Iterator[tuple[Text | None, tuple[str, str, str], tuple[Any, ...], Text]]:
    """(the paper's name before its first row, (statement, form, rule), verdict and numbers, where
    it is tightest) of every row."""
    before: RegisteredPaper | None = None
    for r in rows:
        paper = paper_of(r.statement)
        recorded = "same" if r.verdict == r.established else r.established
        numbers = (styled(r.verdict), recorded, f"{r.violations}/{r.instances}", below_one(r.tightness_worst))
        where = Text(instance_text(r.tightest or r.worst), "dim")
        name = (short(r.statement), r.form, paper.rule_short.get(r.rule, r.rule))
        yield Text(paper.title, "bold") if paper != before else None, name, numbers, where
        before = paper


def tried(searches: Sequence[dict[str, Any]]) -> str:
    """Say how many instances the searches looked at: least, most and in all."""
    counts = [s["evaluations"] for s in searches]
    if min(counts) == max(counts):  # all forms on the same ones, it may be
        return f"{counts[0]:,} instances each"
    return f"{min(counts):,} to {max(counts):,} instances each, {sum(counts):,} in all"


def disagreements(rows: Sequence[Row], complete: bool = True) -> list[str]:
    """List in words what is not as recorded. In an incomplete campaign a violation may just not
    have been met yet."""
    out = []
    for r in rows:
        if not r.ok and (complete or r.verdict == "violated"):
            detail = f" (worst: {instance_text(r.worst)}{_at(r.worst_where)})" if r.worst else ""
            which = f"{r.statement} [{r.form}, {rule_words(r.rule, r.statement)}]"
            out.append(f"{which}: {r.verdict}, on record as {r.established}{detail}")
    return out


def _at(where: dict[str, Any]) -> str:
    place = in_words(where)
    return f", {place}" if place else ""


def _how(check: Any) -> str:
    return check.mode + (f" at {100 * check.confidence:.6g} %" if check.confidence else "")


def _how_and_where(checks: Sequence[Any]) -> list[str]:
    """Lines on how the forms were judged and where each is worst; without their names where that is the same of all."""
    judged = [c for c in checks if c.verdict != "not applicable"]
    lines = []
    for what, word in (("how: ", _how), ("worst at ", lambda c: "" if c.reason else c.place)):
        found: dict[str, list[str]] = {}
        for c in judged:
            found.setdefault(word(c), []).append(c.form)
        names = {k: "" if len(found) == 1 else f" ({'; '.join(dict.fromkeys(v))})" for k, v in found.items() if k}
        lines += [f"{what}{k}{forms}" for k, forms in names.items()]
    return lines


def check_table(checks: Sequence[Any], width: int = 120, told: Collection[str] = ()) -> Table:
    """Checks of one statement on one problem; reasons stand below, and in a narrow terminal how and where as well.

    Parameters
    ----------
    told : reasons that stand above the table: where there is no other, the table does not repeat it
    """
    wide = width >= NARROW
    headings = ["form", "verdict", "on record", "how", "tightness", "slack", "worst at, or why"]
    if wide:
        table = plain_table(headings, right=(4, 5), whole=range(1, 6), wide=(6,), dim=(6,))
    else:
        table = plain_table([h for h in headings[:6] if h != "how"], right=(3, 4), whole=range(1, 5))
    notes: dict[str, int] = {}
    reasons = {c.reason for c in checks if c.reason}
    known = len(reasons) == 1 and reasons <= set(told)
    for c in checks:
        why = f"({notes.setdefault(c.reason, len(notes) + 1)})" if c.reason and not known else ""  # often the same for several forms
        where = why or c.place
        record = get(c.statement).form(c.form).established.get(c.rule, NO_FORM)
        verdict, numbers = styled(c.verdict), (below_one(c.tightness), number(c.slack))
        if wide:
            table.add_row(Text(c.form), verdict, record, c.mode, *numbers, Text(where))
        else:
            table.add_row(Text(c.form), Text.assemble(verdict, f" {why}" if why else ""), record, *numbers)
    below = [f"({n}) {reason}" for reason, n in notes.items()] + ([] if wide else _how_and_where(checks))
    table.caption = Text("\n".join(below)) if below else None
    table.caption_justify, table.caption_style = "left", "dim"
    return table
