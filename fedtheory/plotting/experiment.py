"""An experiment by its name: a question, what is run for it, and the answer as a table, a sentence and a picture."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from fedtheory.plotting.figure import Figure, no_caption

__all__ = ["Experiment", "Table", "number"]


@dataclass(frozen=True)
class Table:
    """Rows below headings, each row one cell a heading.

    Attributes
    ----------
    title : what the numbers are
    """

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    title: str = ""


@dataclass(frozen=True)
class Experiment(Figure):
    """A figure with a question, which is its title; the finding is its caption. Quick by default, in seconds.

    Attributes
    ----------
    question : in a line
    table : callable(data) -> Table
    finding : callable(data) -> what the data say, a sentence a line
    """

    question: str = ""
    table: Callable[[Any], Table] = field(default=lambda data: Table((), ()))
    finding: Callable[[Any], Sequence[str]] = field(default=lambda data: ())
    parts: ClassVar[tuple[str, ...]] = ("compute", "draw", "table", "finding")

    def __post_init__(self) -> None:
        if not self.title:
            object.__setattr__(self, "title", self.question)
        if self.caption is no_caption:
            object.__setattr__(self, "caption", self._as_caption)

    def _as_caption(self, data: Any) -> str:
        return " ".join(self.finding(data))


def number(value: float) -> str:
    """Three digits, as a table has it."""
    return f"{value:.3g}" if abs(value) < 1e5 else f"{value:.2e}".replace("e+0", "e").replace("e+", "e")
