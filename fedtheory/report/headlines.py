"""The headline of a paper: one sentence, the counts of what holds, fails or is open, and tiles."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fedtheory.report.evidence import both_sides
from fedtheory.report.tables import MARKS, short
from fedtheory.theory.judge.registry import RegisteredPaper, get, paper_of, rule_words, setting_of
from fedtheory.theory.judge.reviews import Clause

if TYPE_CHECKING:
    from fedtheory.report.tables import Line
    from fedtheory.theory.judge.campaign import Row
    from fedtheory.theory.judge.witness import Witness

__all__ = [
    "COUNTED", "STATES", "Tile", "counts", "counts_markdown", "counts_table", "repairs_in_words",
    "sentence", "sizes", "state_of", "tiles",
]  # fmt: skip

STATES = {  # of a statement, in the order in which they are shown
    "fails": "fails as printed",
    "holds": "holds as printed",
    "unsettled": "not settled",
    "readings": "read in several ways",
    "ours": "ours",
}
COUNTED = ("fail", "hold", "not settled")  # of `counts_table`
_NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_SHORT = 24  # characters of a fraction in a sentence


@dataclass(frozen=True)
class Tile:
    """One statement in the picture.

    Attributes
    ----------
    state : key of `STATES`
    verdict, mark : of what is shown, and its sign
    worded : whether the paper says it in words, or prints only the algorithm
    """

    statement: str
    title: str
    state: str
    verdict: str
    mark: str
    worded: bool
    ok: bool


def state_of(line: Line) -> str:
    """Key of `STATES`: how a statement stands as it is printed, or that it is ours, as is one of a
    user's file that has a repaired form, or has readings only."""
    if line.printed is not None:
        if line.printed.claim == "violated":
            return "fails"
        recorded = line.printed.established != "open" or bool(paper_of(line.statement).file)
        return "holds" if line.printed.claim == "holds" and recorded else "unsettled"
    own = line.repaired and paper_of(line.statement).file
    return "ours" if own or get(line.statement).kind == "sharpened" else "readings"


def tiles(lines: Iterable[Line]) -> dict[str, list[Tile]]:
    """state -> the statements that stand so, for every state that there is."""
    out: dict[str, list[Tile]] = {}
    for line in lines:
        state = state_of(line)
        rows = [line.printed] if line.printed else [*line.repaired, *line.others]
        verdict = _worst(rows, state)
        ok = all(r.ok for r in rows)
        tile = Tile(line.statement, line.title, state, verdict, MARKS[verdict], bool(line.mark), ok)
        out.setdefault(state, []).append(tile)
    return {state: sorted(out[state], key=lambda t: t.worded) for state in STATES if state in out}


def _worst(rows: Sequence[Row], state: str) -> str:
    """One verdict for several rows: of readings 'violated' where one fails, of ours where the form that stands does."""
    found = [r.claim for r in rows if state != "ours" or r.form == "repaired"]
    found = found or [r.claim for r in rows if r.ok]
    return next((v for v in ("violated", "inconclusive", "holds") if v in found), "not applicable")


def counts(lines: Sequence[Line]) -> dict[str, int]:
    """Count printed statements by verdict, those in words likewise, and repairs that stand."""
    printed = [(state_of(line), bool(line.mark)) for line in lines if line.printed is not None]
    repairs = [line.repaired for line in lines if line.repaired]
    out = {f"{state}{' in words' * worded}": printed.count((state, worded)) for state in list(STATES)[:3] for worded in (False, True)}
    stands = sum(all(r.claim == "holds" for r in rows) for rows in repairs)
    return {
        **out, "printed": sum(not worded for _, worded in printed),
        "in words": sum(worded for _, worded in printed), "repairs": len(repairs),
        "repairs that hold": stands,
    }


def counts_table(n: Mapping[str, int]) -> list[tuple[str, int, int, int]]:
    """Two rows at most, (of what, and how many `COUNTED`): what is printed, and what is said in
    words and made precise by us."""
    rows = (("printed statements", "printed", ""), ("sentences made precise", "in words", " in words"))
    return [
        (what, n[f"fails{which}"], n[f"holds{which}"], n[f"unsettled{which}"]) for what, total, which in rows if n[total]
    ]


def counts_markdown(n: Mapping[str, int]) -> list[str]:
    """The same as a table in Markdown, and the sentence on the repairs below it."""
    rows = [f"| {what} | {' | '.join(map(str, numbers))} |" for what, *numbers in counts_table(n)]
    out = [f"| | {' | '.join(COUNTED)} |", "|---|---:|---:|---:|", *rows] if rows else ["No statement is printed."]
    return [*out, "", repairs_in_words(n)] if repairs_in_words(n) else out


def repairs_in_words(n: Mapping[str, int]) -> str:
    """'Every repair holds.', or how many do not; '' where there is none."""
    failing = n["repairs"] - n["repairs that hold"]
    if failing:
        return f"{failing} of {n['repairs']} repairs {'does' if failing == 1 else 'do'} not hold."
    return "Every repair holds." if n["repairs"] else ""


def sentence(paper: RegisteredPaper, lines: Sequence[Line], rows: Sequence[Row], witnesses: Mapping[str, Witness]) -> str:
    """Say in a sentence what is found of the paper. Its own clauses say it, as far as these rows
    bear them out, else a computed sentence."""
    parts = [_told(clause, paper, rows, witnesses) for clause in paper.shown("headline")]
    text = "; ".join(p for p in parts if p) or _computed(lines, witnesses)
    return f"{text[0].upper()}{text[1:]}."


def _told(clause: Clause, paper: RegisteredPaper, rows: Sequence[Row], witnesses: Mapping[str, Witness]) -> str:
    """The clause; what was found in its place, where that is otherwise; '' where a verdict or the witness is missing."""
    found = {(r.statement, r.form, r.rule): r.verdict for r in rows}
    for rest in clause.rests_on:
        key = (f"{paper.id}/{rest.statement}", rest.form, rest.rule)
        verdict = found.get(key, "not applicable")
        if verdict == rest.verdict:
            continue
        if verdict not in ("holds", "violated"):
            return ""
        rule = f", {rule_words(rest.rule, key[0])}" if rest.rule != "any" else ""
        told = "holds" if verdict == "holds" else "is violated"
        return f"otherwise than on record, {rest.statement} [{rest.form}{rule}] {told}"
    values: dict[str, Any] = {k: _number(v) for k, v in clause.numbers().items()}
    if clause.witness:
        witness = witnesses.get(clause.witness)
        if witness is None:
            return ""
        values |= {"sizes": sizes(witness), "lhs": witness.lhs, "rhs": witness.rhs}
    return clause.text.format(**values)


def _computed(lines: Sequence[Line], witnesses: Mapping[str, Witness]) -> str:
    """'lemma-1 is false as printed: one client, 0 > -1/2; every repair holds', of a paper without clauses of its own."""
    failing = [line for line in lines if state_of(line) == "fails"]
    n = counts(lines)
    if not failing:
        return "nothing that is printed was found to fail" if n["printed"] + n["in words"] else "no statement of it is printed"
    first = failing[0]
    witness = witnesses.get(first.witness or "")
    told = f"{short(first.statement)} is false as printed"
    if witness is not None:
        lhs, rhs, sign = both_sides(witness)
        sides = f"{lhs} {sign} {rhs}" if max(len(str(lhs)), len(str(rhs))) <= _SHORT else ""
        told += f": {', '.join(p for p in (sizes(witness), sides) if p)}".removesuffix(": ")
    more = f"{_number(len(failing) - 1)} more fail{'s' * (len(failing) == 2)}" if failing[1:] else ""
    bad = n["repairs"] - n["repairs that hold"]
    told_bad = f"{_number(bad)} of its repairs fail{'s' * (bad == 1)}"
    repairs = "" if not n["repairs"] else told_bad if bad else "every repair holds"
    return "; ".join(p for p in (told, more, repairs) if p)


def sizes(witness: Witness) -> str:
    """'two clients, one coordinate, T = 43': how large the instance of a witness is, as far as it says so."""
    summary = setting_of(witness.statement).summary(witness).partition("]: ")[2]
    named = dict(re.findall(r"(?<![\w\[])(\w+) = (\d+)(?=,|$)", summary))
    named |= {k: n for k in ("T", "K") if type(n := witness.data.get(k)) is int and k not in named}
    if not {"T", "K"} & set(named) and get(witness.statement).scope == "run" and "rounds" in witness.data:
        named["T"] = witness.data["rounds"]
    rows = next((witness.data[k] for k in ("h", "H") if _is_table(witness.data.get(k))), None)
    lines: Any = witness.data.get("slopes")  # of one coordinate; a client's loss is the largest of its lines
    if _is_table(lines) and not _is_table(lines[0][0]):
        rows = [[lines[0]]] * sum(witness.data.get("copies") or [1] * len(lines))
    clients = named.get("N") or named.get("m") or (rows and len(rows))
    coordinates = named.get("d") or (rows and len(rows[0]))
    parts = [_many(clients, "client"), _many(coordinates, "coordinate")]
    if lines and not {"T", "K"} & set(named):
        parts.append(_many(witness.data.get("rounds"), "round"))
    length = next((k for k in ("T", "K") if k in named), "")
    return ", ".join(p for p in (*parts, f"{length} = {named[length]}" if length else "") if p)


def _is_table(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], list)


def _many(number: Any, what: str) -> str:
    return f"{_number(int(number))} {what}{'s' * (int(number) != 1)}" if number else ""


def _number(value: Any) -> Any:
    return _NUMBERS[value] if isinstance(value, int) and 0 <= value < len(_NUMBERS) else value
