"""Try the mutants of a statement: each wrong variant must fail on some instance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from fedtheory.theory.judge.check import judge_view
from fedtheory.theory.judge.statement import Statement
from fedtheory.theory.judge.witness import Witness

__all__ = ["MutantFate", "Mutants"]


@dataclass(frozen=True)
class MutantFate:
    """Say how one deliberately wrong variant of a form fared.

    Attributes
    ----------
    form, mutant : their names
    rejected : True if it is violated somewhere
    by : the instance that rejected it, in words; '' where there was none in fractions
    tried : instances of a world that the form is about; None where a search tried as many as it
        took
    example : the violation in fractions
    searched : True of a constant if a search of its own found no violation at this value either
    """

    form: str
    mutant: str
    rejected: bool
    by: str = ""
    tried: int | None = None
    example: Witness | None = None
    searched: bool = False

    @property
    def fate(self) -> str:
        """Say what became of it; a mutant that is not rejected is not proved either."""
        if self.rejected:
            return f"rejected by {self.by}" if self.by else "rejected"
        if self.searched:
            return "no violation found at this value, in a search of its own"
        if self.tried is None:
            return "NOT rejected: study it longer, or think again"
        if self.tried:
            return f"NOT rejected on {self.tried} instances: it may be true, or hard to refute"
        return "not tried: no random instance has what the form needs"

    def __str__(self) -> str:
        return f"[{self.form}] {self.mutant}: {self.fate}"


@dataclass(frozen=True)
class Mutants:
    """The fates of all mutants of a statement over a world."""

    statement: str
    fates: tuple[MutantFate, ...]

    @classmethod
    def of(cls, statement: Statement, instances: Sequence[Any]) -> Mutants:
        """Judge every mutant on the instances of its kind, until one rejects it."""
        views = [(i.name, i.view()) for i in instances if i.kind == statement.forms[0].kind]
        fates = []
        for form in statement.forms:
            about = [(name, view) for name, view in views if view.applies(form) is None]
            for mutant in form.mutants:
                sides = mutant.sides
                tried = (judge_view(statement, form, v, name, sides=sides) for name, v in about)
                by = next((check.instance for check in tried if check.verdict == "violated"), "")
                fates.append(MutantFate(form.name, mutant.name, bool(by), by, len(about)))
        return cls(statement.id, tuple(fates))

    def findings(self) -> list[tuple[str, str]]:
        """Give (label, words) of each mutant for reports."""
        return [(f"[{f.form}], {f.mutant}", f"wrong variant {f.fate}") for f in self.fates]

    def to_json(self) -> dict[str, Any]:
        """Give the fates as plain data."""
        return {"mutants": [asdict(f) for f in self.fates]}

    def __str__(self) -> str:
        lost = [f for f in self.fates if not f.rejected]
        tried = len(self.fates)
        head = f"{self.statement}: {tried - len(lost)} of {tried} wrong variants rejected"
        return "\n".join([head, *(f"  {f}" for f in lost)])
