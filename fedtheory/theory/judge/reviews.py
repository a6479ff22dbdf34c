"""The answers that a paper's page gives: the finding in one sentence, and to reviewers' questions.

Every one rests on verdicts: a statement's record, a run, or nothing that can be run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from fedtheory.errors import suggest
from fedtheory.theory.judge.registry import get

__all__ = ["KINDS", "Clause", "Point", "Rests", "told"]

KINDS = {
    "statement": "settled by statement",
    "run": "settled by run",
    "partly": "partly",
    "opinion": "opinion",
}


@dataclass(frozen=True)
class Rests:
    """The evidence of an answer: the verdict of one form, as the answer was written for it.

    Attributes
    ----------
    statement : id without the paper's
    form, rule : as the statement has them
    verdict : 'holds', 'violated' or 'open'; a test compares it with the record
    """

    statement: str
    form: str
    rule: str
    verdict: Literal["holds", "violated", "open"]

    def recorded(self, paper: str) -> str:
        """The verdict on record. Raises `UnknownName` where the statement, the form or the rule is
        not there."""
        form = get(f"{paper}/{self.statement}").form(self.form)
        if self.rule not in form.established:
            raise suggest(
                self.rule, list(form.established), f"rule of {paper}/{self.statement} [{self.form}]"
            )
        return form.established[self.rule]


@dataclass(frozen=True)
class Clause:
    """A part of the sentence.

    Attributes
    ----------
    text : with {sizes}, {lhs}, {rhs} of the witness and the names of ``numbers``
    rests_on : the verdicts without which it is not said
    witness : the name of a witness that comes with the paper, '' where the clause names none
    numbers : callable() -> dict name -> what stands for it, from what is checked
    """

    text: str
    rests_on: tuple[Rests, ...]
    witness: str = ""
    numbers: Callable[[], Mapping[str, Any]] = dict


@dataclass(frozen=True)
class Point:
    """One point of a review.

    Attributes
    ----------
    id : such as 'R2.2', reviewer and number
    asks : the point in a line, in our words
    kind : key of `KINDS`
    answer : in a line; {0}, {1}... stand for the recorded verdicts of ``rests_on``
    more : what there is to add, '' for nothing
    commands : what shows it, the first one in seconds
    rests_on : the records that the answer names
    """

    id: str
    asks: str
    kind: Literal["statement", "run", "partly", "opinion"]
    answer: str
    more: str = ""
    commands: tuple[str, ...] = ()
    rests_on: tuple[Rests, ...] = ()


def told(point: Point, paper: str) -> dict[str, Any]:
    """A point with the verdicts as they are on record, as a file has it."""
    found = [r.recorded(paper) for r in point.rests_on]
    return {
        "id": point.id, "asks": point.asks, "kind": point.kind,
        "answer": point.answer.format(*found), "more": point.more.format(*found),
        "commands": list(point.commands),
        "rests_on": [
            {
                "statement": f"{paper}/{r.statement}", "form": r.form, "rule": r.rule, "verdict": v,
                "as_written": r.verdict
            }
            for r, v in zip(point.rests_on, found, strict=True)
        ],
    }  # fmt: skip
