"""Checks, and what they find."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from fedtheory.testing.audit.session import Session

__all__ = ["Check", "Finding", "Verdict"]

FAILURES = frozenset(("raises", "too slow", "wrong state", "wrong shape", "not finite", "needs a GPU"))  # of an `AdapterError`

Verdict = Literal["pass", "fail", "note", "does not apply", "not run"]


@dataclass(frozen=True)
class Finding:
    """The finding of one check.

    Attributes
    ----------
    expected, got : in words or numbers
    hint : where to look, or why the check does not apply
    """

    check: str
    verdict: Verdict
    expected: str = ""
    got: str = ""
    hint: str = ""

    @property
    def unfinished(self) -> bool:
        """True if a call gave nothing to compare: it raised, was stopped, or gave no model."""
        return self.verdict == "fail" and self.got.partition(": ")[0] in FAILURES


@dataclass(frozen=True)
class Check:
    """A check by its name; ``what`` says in a line what passes."""

    name: str
    what: str
    look: Callable[[Session, str], Finding]
