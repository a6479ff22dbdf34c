"""The report of a campaign as Markdown: a table a paper, and one of every form."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedtheory.report.evidence import witnesses_of
from fedtheory.report.headlines import counts, counts_markdown, sentence
from fedtheory.report.tables import (
    disagreements,
    instance_text,
    known_key,
    known_text,
    lines,
    other_forms,
    short,
    tightness_text,
    verdict_text,
    worst_case_key,
    worst_case_text,
)
from fedtheory.report.words import findings, headline, subjects, summary, title, worded
from fedtheory.theory.judge.registry import by_paper, get, paper_of

if TYPE_CHECKING:
    from fedtheory.theory.judge.campaign import Row

__all__ = ["markdown_report"]


_STATEMENTS = (
    "statement", "what it says", "as printed", "as repaired", "proved", "instances", "tightness worst / median",
    "worst case/bound", "witness",
)  # fmt: skip
_FORMS = (
    "paper", "statement", "form", "rule", "verdict", "on record", "known", "violated / instances", "tightness",
    "tightest on", "worst case/bound",
)  # fmt: skip


def _table(headings: Sequence[str], right: Sequence[int], rows: Iterable[Sequence[str]]) -> list[str]:
    """A table in Markdown; ``right``: columns that are aligned to the right."""
    rule = "".join("|---:" if i in right else "|---" for i in range(len(headings)))
    lines = (" | ".join(cell.replace("|", "\\|") for cell in row) for row in (headings, *rows))
    first, *rest = (f"| {line} |" for line in lines)
    return [first, f"{rule}|", *rest]


def _findings_markdown(record: Mapping[str, Any]) -> list[str]:
    out: list[str] = []
    for statement, groups in findings(record).items():
        out += ["", f"### {short(statement)}: {get(statement).title}", ""]
        out += [f"- **{label}**: {line}" for label, lines in groups for line in lines]
    return ["", "## What was found", *out] if out else []


def markdown_report(rows: Sequence[Row], record: Mapping[str, Any], figures: Sequence[Path] = (), out: Path | None = None) -> str:
    """The report as Markdown; figures are linked relative to `out`."""
    text = [f"# {title(rows)}", "", subjects(rows), "", headline(rows, record), ""]
    text += [*counts_markdown(counts(lines(rows))), ""]
    text += [known_key(rows), ""] if known_key(rows) else []
    text += [f"- **Not as recorded:** {w}" for w in disagreements(rows, record["complete"])]
    text += [f"- {k}: {v}" for k, v in summary(record)]
    witnesses = witnesses_of(rows, out)
    for paper, group in by_paper(lines(rows), lambda ln: ln.statement):
        mine = [r for r in rows if paper_of(r.statement) is paper]
        text += ["", f"## {paper.title}", "", f"**{sentence(paper, group, mine, witnesses)}**", "", *counts_markdown(counts(group))]
        text += ["", f"“As printed” is judged {paper.printed}.{worded(group)}", ""]
        text += _table(_STATEMENTS, (5, 6, 7), (
            [
                short(ln.statement) + ln.mark, ln.title,
                verdict_text([ln.printed] if ln.printed else []),
                other_forms(ln) or verdict_text(ln.repaired), known_text(ln), str(ln.instances),
                tightness_text(ln.shown), worst_case_text(ln.shown), ln.witness or "",
            ]
            for ln in group
        ))
    text += ["", worst_case_key(rows).strip()] if worst_case_key(rows) else []
    text += _findings_markdown(record)
    text += ["", "## Every form", ""]
    text += _table(_FORMS, (7, 8), (
        [
            paper_of(r.statement).title, short(r.statement), r.form, r.rule, r.verdict, r.established, r.known,
            f"{r.violations} / {r.instances}", tightness_text(r), instance_text(r.tightest),
            f"{worst_case_text(r)} ({r.worst_case_at})" if worst_case_text(r) else "",
        ]
        for r in rows
    ))
    if figures:
        text += ["", "## Figures", ""]
        for path in figures:
            if path.suffix == ".png":
                link = path.relative_to(out) if out is not None and path.is_relative_to(out) else path
                text += [f"![{path.stem.replace('_', ' ')}]({link.as_posix()})", ""]
    return "\n".join(text).rstrip() + "\n"
