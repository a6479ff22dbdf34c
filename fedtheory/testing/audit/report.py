"""The report of an audit, as a table and in words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from fedtheory.testing.audit.finding import Finding
from fedtheory.testing.audit.mistakes import Mistake

__all__ = ["AuditReport"]

SHOWN = 3  # explanations in words
MARKS = {"pass": "pass", "fail": "FAIL", "note": "note", "does not apply": "-", "not run": "not run"}


@dataclass(frozen=True)
class AuditReport:
    """The findings on one implementation.

    Attributes
    ----------
    adapter, method, source : its name, the method that it was held to, and where that is printed
    findings : one a check, in the order in which they were made
    explanations : the known mistakes, each by itself enough (or, in a tuple of two, both together),
        with which the reference gives every number that the implementation gave
    """

    adapter: str
    method: str
    source: str
    findings: tuple[Finding, ...]
    explanations: tuple[tuple[Mistake, ...], ...]
    rtol: float

    @property
    def failed(self) -> tuple[Finding, ...]:
        return tuple(f for f in self.findings if f.verdict in ("fail", "not run"))

    @property
    def passed(self) -> bool:
        return not self.failed

    @property
    def diagnosis(self) -> str:
        """The mistake in one sentence, where a known one explains all numbers; '' otherwise."""
        if not self.explanations:
            return ""
        said = [" and ".join(m.words for m in found) for found in self.explanations]
        more = [f"one of {len(said) - SHOWN} more"] if len(said) > SHOWN else []
        text = f"{said[0]}." if len(said) == 1 else f"either {'; or '.join(said[:SHOWN] + more)}."
        named = list(dict.fromkeys(m for found in self.explanations[:SHOWN] for m in found))
        text += _of_lines(list(dict.fromkeys(m.line for m in named)))
        for m in named:
            if m.convention:
                meant = "that" if len(named) == 1 else f'"{m.words}"'
                text += f" If {meant} is meant, ask for the other convention: {m.convention}."
        return text

    @property
    def sentence(self) -> str:
        """The audit in a sentence or two."""
        made = sum(f.verdict in ("pass", "fail", "note") for f in self.findings)
        if self.passed:
            notes = [f for f in self.findings if f.check == "settings" and f.verdict == "note"]
            still = "".join(f" {f.hint}." for f in notes)
            return f"{self.adapter} is {self.method} in all {made} checks that apply to it.{still}"
        fails = [f for f in self.findings if f.verdict == "fail"]
        waiting = sum(f.verdict == "not run" for f in self.findings)
        if waiting and all(f.unfinished for f in fails):
            return (
                f"{self.adapter} was stopped in the check '{fails[0].check}': {fails[0].got}. "
                f"Whether it is {self.method} is open: {waiting} further checks were not run."
            )
        names = ", ".join(f.check for f in fails)
        head = f"{self.adapter} is not {self.method}: {len(fails)} of {made} checks fail ({names})."
        if waiting:
            head += f" {waiting} further checks were not run, as a call was stopped."
        if self.diagnosis:
            return f"{head} {self._named()}"
        if all(f.unfinished for f in fails):
            return f"{head} All of them end without numbers that could be compared: {fails[0].got}."
        begin = next(f for f in fails if not f.unfinished)
        there = f"{begin.check}: {begin.hint}" if begin.hint else begin.check
        text = (
            f"{head} No known mistake, nor two of them, explains all its numbers; "
            f"the first failed check is the place to begin ({there})."
        )
        wrong = {f.check for f in fails if not f.unfinished}
        if "order" in wrong:
            text += " The order of a cohort matters, which it must not: within a round one client changes what the next is handed."
            if "one local step" in wrong:
                text += (
                    " As a single local step is wrong, too: does it draw mini-batches, from a "
                    "generator that clients share? The audit compares full gradients."
                )
        return text

    def _named(self) -> str:
        """The known mistakes, all with equal weight where several give the same numbers."""
        many, both = len(self.explanations), len(self.explanations[0]) > 1
        if many == 1:
            label = "Likely mistakes" if both else "Likely mistake"
            alone = "these two mistakes together give" if both else "this mistake alone gives"
        else:
            what = "pairs of mistakes" if both else "mistakes"
            label = f"Likely one of {many} {what}, which nothing that is shown tells apart"
            alone = "each of these pairs gives" if both else "each of them alone gives"
        return f"{label}: {self.diagnosis} In the reference, {alone} all your numbers."

    def rows(self) -> list[dict[str, Any]]:
        """One dict a check: check, verdict, expected, got, hint."""
        return [asdict(f) for f in self.findings]

    def to_json(self) -> dict[str, Any]:
        return {
            "adapter": self.adapter, "method": self.method, "source": self.source, "passed": self.passed, "sentence": self.sentence,
            "diagnosis": self.diagnosis, "rtol": self.rtol, "checks": self.rows(),
            "explanations": [[{"name": m.name, "words": m.words, "line": m.line, "convention": m.convention} for m in e]
                             for e in self.explanations],
        }  # fmt: skip

    def __str__(self) -> str:
        lines = [self.sentence, ""]
        width = max((len(f.check) for f in self.findings), default=0)
        for f in self.findings:
            lines.append(f"{f.check:<{width}}  {MARKS[f.verdict]}{_told(f, bool(self.explanations))}")
        return "\n".join(lines)


def _of_lines(lines: list[str]) -> str:
    """Lines as they should be, with their numbers where the paper has some."""
    text, right = "", []
    for line in lines:
        if (numbered := re.match(r"(lines? [^:]+): (.*)", line)) is None:
            right.append(line)
        else:
            is_ = "are" if numbered[1].startswith("lines") else "is"
            text += f" The printed {numbered[1]} {is_}: {numbered[2]}."
    if right:
        lines_are = "lines are" if len(right) > 1 else "line is"
        text += f" The right {lines_are}: {'; and '.join(right)}."
    return text


def _told(f: Finding, explained: bool) -> str:
    if f.verdict in ("fail", "note"):
        hint = (
            "" if explained and f.verdict == "fail" else f.hint
        )  # where the mistake is named, hints lead away from it
        parts: Sequence[str] = (f"expected {f.expected}" if f.expected else "", f"got {f.got}" if f.got else "", hint)
        return ": " + "; ".join(p for p in parts if p)
    if f.verdict in ("does not apply", "not run"):
        return f"  {f.hint}" if f.hint else ""
    return ""
