"""Numbers as they are given, exactly; and a programme in units in which its numbers are near 1."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from fedtheory.errors import InvalidInput
from fedtheory.untrusted import ratio
from fedtheory.worst_cases.gram import Quadratic
from fedtheory.worst_cases.identity import Family

__all__ = ["Units", "exact"]

POSITION = re.compile(r"(x0|n\d+)\b|x\*")  # names of vectors that are positions: the start, normals of a convex set, the optimum


def exact(name: str, number: Any) -> Fraction:
    """A number as a fraction; a float stands for the shortest decimal that reads as it, so that 0.1 is 1/10.

    Raises
    ------
    InvalidInput
        What is no finite number.
    """
    try:
        if isinstance(number, bool):
            raise TypeError
        if isinstance(number, str):
            return ratio(number)
        return Fraction(repr(float(number))) if isinstance(number, float) else Fraction(number)
    except (ValueError, TypeError, OverflowError, ZeroDivisionError):
        raise InvalidInput(f"{name} = {number!r}: it must be a finite number, such as 2, 0.1, '1/3' or Fraction(1, 3)") from None


@dataclass(frozen=True)
class Units:
    """Of positions and of gradients; values of losses have their product.

    A solver is accurate where its numbers are near 1. A class with L = 10^6 and a start at the
    distance 10^-3 is solved in units of them, and the multipliers are put back, exactly.
    """

    position: Fraction
    gradient: Fraction
    placed: frozenset[str] = frozenset()  # names of more vectors that are positions

    def of(self, vector: str) -> Fraction:
        """The unit of a vector."""
        return self.position if POSITION.match(vector) or vector in self.placed else self.gradient

    def changed(self, family: Family) -> tuple[Family, Fraction, dict[str, Fraction]]:
        """The family in these units, what its start was divided by, and what each term was."""
        start, by = self._changed(family.start)
        both = {name: self._changed(q) for name, q in family.terms.items()}
        terms, divided = {name: q for name, (q, _) in both.items()}, {name: number for name, (_, number) in both.items()}
        return Family(start, terms, family.signed), by, divided

    def back(self, numbers: Mapping[str, Fraction], by: Fraction, terms: Mapping[str, Fraction]) -> dict[str, Fraction]:
        """The multipliers of the family itself."""
        return {name: number * by / terms[name] for name, number in numbers.items()}

    def _changed(self, q: Quadratic) -> tuple[Quadratic, Fraction]:
        gram = {key: number * self.of(key[1]) * self.of(key[2]) for key, number in q.gram.items()}
        values = {point: number * self.position * self.gradient for point, number in q.values.items()}
        numbers = values.values() or gram.values() or [q.constant]
        by = max(map(abs, numbers)) or Fraction(1)  # 0 of one client's heterogeneity that is to be 0
        return Fraction(1) / by * Quadratic(gram, values, q.constant), by
