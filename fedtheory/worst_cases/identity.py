"""A bound as an identity, and its check in fractions.

Of a bound ``b >= criterion`` a proof of this kind is an identity

    b - criterion = sum of (multiplier x what is at least 0) + a quadratic form that is at least 0

with multipliers that are at least 0. The form has one matrix for the means of the clients' vectors and one for their
deviations; L D L' with D >= 0 shows in fractions that they are positive semidefinite. Nothing here knows of a solver.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from fedtheory.errors import InvalidInput, NotCertified
from fedtheory.rational import brief
from fedtheory.worst_cases.gram import DEVIATION, Quadratic

__all__ = ["Factors", "Family", "factors", "left_over", "matrices"]


@dataclass(frozen=True)
class Family:
    """``start + sum of number x term``: which must be a quadratic form without values of losses, at least 0.

    Attributes
    ----------
    start : what has no multiplier
    terms : dict name -> what a multiplier stands before
    signed : names whose multiplier may be negative
    """

    start: Quadratic
    terms: Mapping[str, Quadratic]
    signed: frozenset[str] = frozenset()

    def at(self, numbers: Mapping[str, Any]) -> Quadratic:
        """The sum, in the arithmetic of the numbers."""
        return self.start + Quadratic.total(number * self.terms[name] for name, number in numbers.items() if number != 0)

    def of_one_client(self) -> Family:
        """The same for N = 1: nothing deviates from the mean."""
        return Family(_means(self.start), {name: _means(q) for name, q in self.terms.items()}, self.signed)

    @property
    def names(self) -> dict[str, tuple[str, ...]]:
        """block -> the vectors of its matrix."""
        found: dict[str, dict[str, None]] = {}
        for q in (self.start, *self.terms.values()):
            for block, x, y in q.gram:
                found.setdefault(block, {}).update({x: None, y: None})
        return {block: tuple(names) for block, names in sorted(found.items())}


def _means(q: Quadratic) -> Quadratic:
    return Quadratic({key: number for key, number in q.gram.items() if key[0] != DEVIATION}, q.values, q.constant)


@dataclass(frozen=True)
class Factors:
    """L D L' of a symmetric matrix in fractions, in the order of ``names``.

    Attributes
    ----------
    names : what the rows stand for, in the order of elimination
    lower : L, unit lower triangular
    diagonal : D
    """

    names: tuple[str, ...]
    lower: tuple[tuple[Fraction, ...], ...]
    diagonal: tuple[Fraction, ...]

    def product(self) -> list[list[Fraction]]:
        """L D L'."""
        scaled = [[x * d for x, d in zip(row, self.diagonal, strict=True)] for row in self.lower]
        return [[sum((x * y for x, y in zip(row, other, strict=True)), Fraction(0)) for other in self.lower] for row in scaled]


def left_over(family: Family, numbers: Mapping[str, Fraction]) -> Quadratic:
    """The form that the multipliers leave, in which values of losses and constants have cancelled.

    Raises
    ------
    NotCertified
        A negative multiplier, or what has not cancelled.
    """
    for name, number in numbers.items():
        if number < 0 and name not in family.signed:
            raise NotCertified(f"the multiplier of {name} is {brief(number)} < 0")
    form = family.at(numbers)
    if form.values or form.constant != 0:
        left = ", ".join(f"{brief(x)} of {name}" for name, x in [*form.values.items(), ("the number", form.constant)][:6])
        raise NotCertified(f"values of losses are left over, which must cancel: {left}")
    return form


def matrices(q: Quadratic, names: Mapping[str, Sequence[str]]) -> dict[str, list[list[Any]]]:
    """The symmetric matrix of each block."""
    out = {block: [[Fraction(0)] * len(of) for _ in of] for block, of in names.items()}
    for (block, x, y), number in q.gram.items():
        i, j = names[block].index(x), names[block].index(y)
        half = number if i == j else number / 2
        out[block][i][j] = half
        out[block][j][i] = half
    return out


def factors(matrix: Sequence[Sequence[Fraction]], names: Sequence[str]) -> Factors:
    """L D L' with D >= 0, the largest diagonal entry first.

    Raises
    ------
    InvalidInput
        A matrix that is not positive semidefinite.
    """
    a = [list(row) for row in matrix]
    n = len(a)
    order, lower, diagonal = list(range(n)), [[Fraction(int(i == j)) for j in range(n)] for i in range(n)], []
    for k in range(n):
        best = max(range(k, n), key=lambda i: a[i][i])
        if best != k:
            a[k], a[best] = a[best], a[k]
            for row in a:
                row[k], row[best] = row[best], row[k]
            order[k], order[best] = order[best], order[k]
            lower[k][:k], lower[best][:k] = lower[best][:k], lower[k][:k]
        pivot = a[k][k]
        if pivot < 0 or (pivot == 0 and any(a[i][j] for i in range(k, n) for j in range(k, n))):
            raise InvalidInput(f"the matrix of {', '.join(names)} is not positive semidefinite")
        diagonal.append(pivot)
        if pivot == 0:
            continue
        for i in range(k + 1, n):
            lower[i][k] = a[i][k] / pivot
        for i in range(k + 1, n):
            for j in range(k + 1, n):
                a[i][j] -= lower[i][k] * a[k][j]
    return Factors(tuple(names[i] for i in order), tuple(map(tuple, lower)), tuple(diagonal))
