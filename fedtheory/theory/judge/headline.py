"""The finding on a paper in one sentence: every clause rests on verdicts, and its numbers come from witnesses and forms."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from fedtheory.theory.judge.reviews import Rests

__all__ = ["Clause"]


@dataclass(frozen=True)
class Clause:
    """A part of the sentence.

    Attributes
    ----------
    text : with {sizes}, {lhs} and {rhs} of the witness, and the names of ``numbers``; symbols as in notes
    rests_on : the verdicts without which it is not said
    witness : the name of a witness that comes with the paper, '' where the clause names none
    numbers : callable() -> dict name -> what stands for it, from the forms and constants that are checked
    """

    text: str
    rests_on: tuple[Rests, ...]
    witness: str = ""
    numbers: Callable[[], Mapping[str, Any]] = dict
