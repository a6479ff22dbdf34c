"""The words of the reports for a campaign as a whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fedtheory.report.tables import WORDED_NOTE, disagreements, tried
from fedtheory.theory.judge.registry import by_paper, is_ours

if TYPE_CHECKING:
    from fedtheory.report.tables import Line
    from fedtheory.theory.judge.campaign import Row

__all__ = ["TITLE", "findings", "headline", "subjects", "summary", "title", "worded"]

TITLE = "Verdicts on the theory of federated optimisation"


def headline(rows: Sequence[Row], record: Mapping[str, Any]) -> str:
    """Say if the verdicts on record are the recorded ones, and how many are not on record, as in somebody's own file."""
    recorded = sum(r.established != "open" for r in rows)
    wrong = disagreements(rows, record["complete"])
    if not record["complete"]:
        return "Incomplete: the campaign was interrupted, and what follows is what had been checked by then."
    if wrong:
        return f"{len(wrong)} of {recorded} verdicts are not the recorded ones."
    if rows and not recorded:
        return f"Nothing is on record for {'this statement' if len(rows) == 1 else 'these statements'}."
    more = f"; {len(rows) - recorded} more {'are' if len(rows) - recorded > 1 else 'is'} not on record" * (recorded < len(rows))
    return f"All {recorded} verdicts are the recorded ones{more}." if recorded != 1 else f"The one verdict on record came out{more}."


def summary(record: Mapping[str, Any]) -> list[tuple[str, str]]:
    """(what, how much) of a campaign: its effort, and where it comes from."""
    where, memory = record["provenance"], record["memory_mib"]
    search = record["searches"]
    out = [
        ("instances", f"{record['checked']} of {record['instances']}, {record['comparisons']:,} comparisons"),
        ("witnesses", f"{record['witnesses']['replayed']} replayed in exact arithmetic"),
        ("time", f"{record['seconds']:.0f} s on {record['settings']['workers']} worker processes"),
        ("peak memory", f"{memory['main']:.0f} MiB, and {memory['largest_worker']:.0f} MiB in the largest worker"),
        ("seed", str(where["seed"])),
        ("commit", str(where["commit"])),
        ("device", where["device"]),
        ("python, platform", f"{where['python']}, {where['platform']}"),
        ("packages", ", ".join(f"{k} {v}" for k, v in where["versions"].items())),
        ("written", where["written"]),
    ]
    if search:
        found = sum(bool(s["found"]) for s in search)
        out.insert(1, ("counterexample search", f"{len(search)} forms, {tried(search)}: {found or 'none'} found"))
    return out


def findings(record: Mapping[str, Any]) -> dict[str, list[tuple[str, list[str]]]]:
    """statement -> [(label, lines)] of its study, where it has one: refuted, constants, what is needed, mutants..."""
    out: dict[str, list[tuple[str, list[str]]]] = {}
    for statement, pairs in record.get("findings", {}).items():
        groups: dict[str, list[str]] = {}
        for label, words in pairs:
            groups.setdefault(label, []).append(words)
        out[statement] = list(groups.items())
    return out


def title(rows: Sequence[Row]) -> str:
    """The title of a report: this package's, or of papers of somebody's own their names."""
    papers = [paper for paper, _ in by_paper(rows, lambda r: r.statement)]
    return TITLE if any(map(is_ours, papers)) or not papers else f"Verdicts: {', '.join(paper.title for paper in papers)}"


def subjects(rows: Sequence[Row]) -> str:
    """Say what the papers are about."""
    about = [paper.about for paper, _ in by_paper(rows, lambda r: r.statement)]
    text = ", ".join(about[:-1]) + (", and " if about[1:] else "") + about[-1] if about else "no statement"
    return f"{text[0].upper()}{text[1:]}."


def worded(group: Sequence[Line]) -> str:
    """The note on the sign for what is said in words, where it is used."""
    return f" {WORDED_NOTE}" if any(ln.mark for ln in group) else ""
