"""Try the mutants of a statement over a world: each must fail on some random instance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from fedtheory.theory.judge.check import judge_view
from fedtheory.theory.judge.statement import Statement

__all__ = ["Fate", "WorldMutants"]


@dataclass(frozen=True)
class Fate:
    """Say which instance rejected one mutant.

    Attributes
    ----------
    form, mutant : their names
    rejected : the name of an instance on which it is violated; '' where there was none
    tried : instances that the form is about
    """

    form: str
    mutant: str
    rejected: str
    tried: int


@dataclass(frozen=True)
class WorldMutants:
    """The fates of all mutants of a statement."""

    statement: str
    fates: tuple[Fate, ...]

    @classmethod
    def of(cls, statement: Statement, instances: Sequence[Any]) -> WorldMutants:
        """Judge every mutant on the instances of its kind, until one rejects it."""
        views = [(i.name, i.view()) for i in instances if i.kind == statement.forms[0].kind]
        fates = []
        for form in statement.forms:
            about = [(name, view) for name, view in views if view.applies(form) is None]
            for mutant in form.mutants:
                found = ""
                for name, view in about:
                    check = judge_view(statement, form, view, name, sides=mutant.sides)
                    if check.verdict == "violated":
                        found = name
                        break
                fates.append(Fate(form.name, mutant.name, found, len(about)))
        return cls(statement.id, tuple(fates))

    def findings(self) -> list[tuple[str, str]]:
        """Give (label, words) of each mutant for reports."""
        return [(f"[{f.form}], {f.mutant}", self._told(f)) for f in self.fates]

    @staticmethod
    def _told(fate: Fate) -> str:
        if fate.rejected:
            return f"wrong variant rejected on {fate.rejected}"
        if not fate.tried:
            return "wrong variant not tried: no random instance has what the form needs"
        return (
            f"wrong variant NOT rejected on {fate.tried} instances: it may be true, or hard to "
            "refute"
        )

    def to_json(self) -> dict[str, Any]:
        """Give the fates as plain data."""
        return {"mutants": [asdict(f) for f in self.fates]}

    def __str__(self) -> str:
        lost = [f for f in self.fates if not f.rejected]
        tried, rejected = len(self.fates), len(self.fates) - len(lost)
        head = f"{self.statement}: {rejected} of {tried} wrong variants rejected"
        return "\n".join([head, *(f"  [{f.form}] {f.mutant}: {self._told(f)}" for f in lost)])
