"""Witnesses: an instance in fractions on which one form of a statement was judged, as data that
anyone can rerun."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from typing import Any

__all__ = ["FORMAT", "Witness"]

FORMAT = "fedtheory witness, version 2"


@dataclass(frozen=True)
class Witness:
    """An instance on which one form of a statement fails, or, where it says so, holds.

    All numbers are fraction strings ('-3/7') or whole numbers, so that the file is the instance and
    not an approximation.

    Attributes
    ----------
    statement, form, rule : what is judged
    kind : of the instance, one that the paper's setting knows
    data : dict
        What the setting makes the instance from.
    lhs, rhs : the claimed sides where rhs - lhs is least (for equalities the largest difference,
        and 0)
    verdict : 'violated', or 'holds' for a case that is kept although the form holds there
    label : its name where that is not made of statement, form and rule
    without : the assumption that the instance breaks, so that it says nothing of the statement as
        it stands; else ''
    constants : the values of the bound's declared constants that are not as stated, as fraction
        strings
    found_by, provenance : how it was found; not part of the claim
    """

    statement: str
    form: str
    rule: str
    kind: str
    data: dict[str, Any]
    lhs: str = ""
    rhs: str = ""
    verdict: str = "violated"
    label: str = ""
    without: str = ""
    constants: dict[str, str] = field(default_factory=dict)
    found_by: dict[str, Any] = field(default_factory=dict)
    provenance: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """File name without extension."""
        text = (
            self.label
            or f"{self.statement}-{self.form}" + ("" if self.rule == "any" else f"-{self.rule}")
        )
        return re.sub(r"[^a-z0-9.]+", "-", text.lower().replace("=", "is")).strip("-")

    def __str__(self) -> str:
        rule = "" if self.rule == "any" else f", {self.rule} rule"
        sides = f": {self.sides}" if self.lhs and self.rhs else ""
        return f"{self.statement} [{self.form}{rule}]: {self.kind}{sides}"

    @property
    def sides(self) -> str:
        """'lhs 0 > rhs -1/2'; long fractions as floats."""
        return told_sides(self.lhs, self.rhs, ">" if self.verdict == "violated" else "<=")

    def claiming(self, lhs: Fraction, rhs: Fraction) -> Witness:
        """The same instance with these sides, and the verdict they mean."""
        return replace(
            self, lhs=str(lhs), rhs=str(rhs), verdict="violated" if lhs > rhs else "holds"
        )

    def to_json(self) -> dict[str, Any]:
        """The fields of its file."""
        told = {f.name: getattr(self, f.name) for f in fields(self)}
        optional = ("label", "without", "constants", "found_by", "provenance")
        return {"format": FORMAT} | {k: v for k, v in told.items() if v or k not in optional}


def told_sides(lhs: str, rhs: str, sign: str) -> str:
    """'lhs 0 > rhs -1/2'; long fractions as floats."""
    left, right = (v if len(v) <= 24 else f"{float(Fraction(v)):.6g}" for v in (lhs, rhs))
    return f"lhs {left} {sign} rhs {right}"
