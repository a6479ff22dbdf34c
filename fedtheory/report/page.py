"""Everything that the page of a campaign says, as the templates take it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedtheory.report.evidence import size_options, witnesses_of
from fedtheory.report.headlines import COUNTED, STATES, counts, counts_table, repairs_in_words, sentence, tiles
from fedtheory.report.pictures import pictures
from fedtheory.report.statements import Context, anchor, shown_statement
from fedtheory.report.tables import WORDED, WORDED_NOTE, WORST_CASE_NOTE, disagreements, known_key, lines
from fedtheory.report.words import findings, headline, subjects, summary, title
from fedtheory.theory.judge.registry import RegisteredPaper, by_paper, paper, paper_of, setting_of
from fedtheory.theory.judge.reviews import KINDS, told

if TYPE_CHECKING:
    from fedtheory.theory.judge.campaign import Row

__all__ = ["page"]


def page(
    rows: Sequence[Row], record: Mapping[str, Any], figures: Sequence[Path] = (), folder: Path | None = None
) -> dict[str, Any]:
    """Fill the template ``page.html.j2``; see `fedtheory.report.html.html_report`."""
    main = lines(rows)
    grouped: dict[str, list[Row]] = {}
    for row in rows:
        grouped.setdefault(row.statement, []).append(row)
    witnesses = witnesses_of(rows, folder)
    context = Context(
        grouped, record, witnesses,
        {setting_of(w.statement).summary(w): name for name, w in witnesses.items()},
        {s: f"#{anchor(s)}" for s in grouped}, findings(record),
    )
    papers = by_paper(main, lambda line: line.statement)
    drawn = pictures(figures, [p for p, _ in papers])
    return {
        "title": title(rows), "about": subjects(rows), "headline": headline(rows, record),
        "complete": record["complete"], "wrong": disagreements(rows, record["complete"]), "known": known_key(rows),
        "total": _counted(main), "counted": COUNTED, "states": STATES, "worded": WORDED,
        "worded_note": WORDED_NOTE, "worst_case_note": WORST_CASE_NOTE,
        "papers": [_paper(p, group, rows, context, drawn.get(p.id, [])) for p, group in papers],
        "figures": drawn.get("", []), "facts": summary(record), "again": _again(record),
    }


def _paper(chosen: RegisteredPaper, group: Sequence[Any], rows: Sequence[Row], context: Context, figures: list[Any]) -> dict[str, Any]:
    mine = [r for r in rows if paper_of(r.statement) is chosen]
    shown = tiles(group)
    return {
        "id": chosen.id, "name": chosen.title,
        "about": f"{chosen.about[0].upper()}{chosen.about[1:]}" if chosen.about else "",
        "printed": chosen.printed, "rules": chosen.rules,
        "sentence": context.prose(sentence(chosen, group, mine, context.witnesses)),
        "counts": _counted(group), "known": known_key(mine),
        "tiles": [
            (STATES[state], state, [(anchor(t.statement), t) for t in found])
            for state, found in shown.items()
        ],
        "statements": [shown_statement(line, context) for line in group],
        "points": [_point(p, chosen, context) for p in chosen.shown("reviews")], "figures": figures,
    }


def _counted(group: Sequence[Any]) -> dict[str, Any]:
    """Count the statements that fail, hold and are not settled, and say how their repairs fare."""
    n = counts(group)
    return {"rows": counts_table(n), "repairs": repairs_in_words(n)}


def _point(point: Any, chosen: RegisteredPaper, context: Context) -> dict[str, Any]:
    """A reviewer's point with its answer; where this campaign found otherwise than the record, it says so."""
    said = told(point, chosen.id)
    found = {(r.statement, r.form, r.rule): r.verdict for statement in context.rows.values() for r in statement}
    keys = [(r["statement"], r["form"], r["rule"]) for r in said["rests_on"]]
    rests = [(*key, found.get(key, ""), r["verdict"]) for key, r in zip(keys, said["rests_on"], strict=True)]
    return {
        "id": said["id"],
        "asks": context.prose(said["asks"]),
        "kind": KINDS[said["kind"]],
        "answer": context.prose(said["answer"]),
        "more": context.prose(said["more"]),
        "commands": said["commands"],
        "rests": [(context.links[s], s.partition("/")[2], form) for s, form, *_ in rests if s in context.links],
        "otherwise": [f"{s} [{form}, {rule}]: {now}, on record as {then}" for s, form, rule, now, then in rests
                      if now in ("holds", "violated") and then in ("holds", "violated") and now != then],
    }  # fmt: skip


def _again(record: Mapping[str, Any]) -> str:
    """The command that makes the campaign again."""
    settings = record["settings"]
    papers = [paper(id) for id in settings.get("papers") or ()]
    which = f" {shlex.quote(papers[0].file or papers[0].id + '/')}" if len(papers) == 1 else ""
    options = size_options(settings)
    options += f" --budget {settings['search_budget']}" if settings.get("search_budget", 1000) != 1000 else ""
    return f"fedtheory verify{which}{options}"
