"""A worst case from below, in fractions: vectors and values that satisfy every condition of the
class exactly.

A certificate says that no loss makes a method end above a bound. This is the other side: the
gradients and values that a worst function has at the points of the run, as decimal fractions.
Positions follow from the method. Where every condition holds, checked in fractions, the class has
losses with these gradients and values (that is what interpolation conditions say), and a run on
them ends with the criterion's value. No solver, no quadratic programme and no rounding is left in
it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

from fedtheory.errors import DataFileError, InvalidInput, NotCertified
from fedtheory.rational import fraction
from fedtheory.untrusted import read_json
from fedtheory.worst_cases.bounds import BOUND, Question, relaxed
from fedtheory.worst_cases.bounds import family as family_of
from fedtheory.worst_cases.certificates import asked_question
from fedtheory.worst_cases.cohorts import whole_family
from fedtheory.worst_cases.exchangeable import Same, apart
from fedtheory.worst_cases.functions import WorstFunction
from fedtheory.worst_cases.gram import Quadratic
from fedtheory.worst_cases.identity import Family

__all__ = ["Below", "at_least", "below", "check", "read"]

UNIT = 10**16  # coordinates and values are whole multiples of its inverse
CLAIMED = 12  # of the value that is claimed
MOST_BYTES = 50_000_000
MOST = 10_000  # vectors, coordinates or values of a file
KEY = "in fractions"


@dataclass(frozen=True)
class Below:
    """A value that some losses of the class reach.

    Attributes
    ----------
    value : what is claimed
    vectors : dict block -> dict name -> coordinates: of the clients' means, and of their
        deviations; of every client and history where cohorts are drawn over several rounds
    values : dict point -> the mean of the losses there, 0 at the optimum; each client's where
        cohorts are drawn
    """

    value: Fraction
    vectors: Mapping[str, Mapping[str, tuple[Fraction, ...]]]
    values: Mapping[str, Fraction]

    def written(self) -> dict[str, Any]:
        """As a file has it."""
        return {
            "at least": str(self.value), "unit": str(Fraction(1, UNIT)),
            "vectors": {block: {name: [int(x * UNIT) for x in v] for name, v in of.items()} for block, of in self.vectors.items()},
            "values": {name: int(x * UNIT) for name, x in self.values.items()},
        }  # fmt: skip


def below(made: WorstFunction) -> Below:
    """The worst function's vectors and values, rounded and checked.

    Raises
    ------
    NotCertified
        A condition that the rounded numbers miss: its room is less than rounding takes.
    """
    q = made.found.question
    family = _family(q)
    same = Same({}) if q.tree else apart(q)[1]
    vectors = {}
    for block, names in family.names.items():
        kept = {name: tuple(map(_rounded, v)) for name, v in made.vectors[block].items()}
        zero = tuple(0 * x for x in next(iter(kept.values()), ()))
        parts = {name: {name: 1} if q.tree else same.parts(block, name) for name in names}
        vectors[block] = {name: _sum(part, kept, zero) for name, part in parts.items()}
    at = {p: made.values.get(same.as_.get(p, p) or "") for p in _points(family)}
    values = {p: _rounded(x) for p, x in at.items() if x is not None}
    for p in set(at) - set(values):  # the least gap, whose terms say that it is none above the gaps
        number = _evaluated(vectors, {**values, p: Fraction(0)})
        values[p] = min(-number(term) for term in family.terms.values() if p in term.values)
    reached = at_least(family, vectors, values)
    return Below(Fraction(int(reached * 10**CLAIMED), 10**CLAIMED), vectors, values)


def _family(q: Question) -> Family:
    return whole_family(q) if q.tree else family_of(q)


def _points(family: Family) -> set[str]:
    return {p for term in (family.start, *family.terms.values()) for p in term.values}


def _evaluated(
    vectors: Mapping[str, Mapping[str, tuple[Fraction, ...]]], values: Mapping[str, Fraction]
) -> Callable[[Quadratic], Fraction]:
    """A form -> its number at the vectors and values."""

    @cache
    def inner(block: str, x: str, y: str) -> Fraction:
        return sum((a * b for a, b in zip(vectors[block][x], vectors[block][y], strict=True)), Fraction(0))

    return lambda q: q.constant + sum(c * inner(*key) for key, c in q.gram.items()) + sum(c * values[p] for p, c in q.values.items())


def at_least(family: Family, vectors: Mapping[str, Mapping[str, tuple[Fraction, ...]]], values: Mapping[str, Fraction]) -> Fraction:
    """The criterion at the vectors and values, once every condition has been found to hold there.

    Raises
    ------
    NotCertified
        The condition that fails, and by how much.
    """
    number = _evaluated(vectors, values)
    for name, term in family.terms.items():
        if name != BOUND and number(term) > 0:
            raise NotCertified(f"the condition {name} is missed by {float(number(term)):.3g}")
    return -number(family.start)


def check(
    asked: Mapping[str, Any], found: Below, method: Any = None, criterion: Any = None
) -> None:
    """Check it in fractions, from the question alone.

    method, criterion : the class and the function, where they are none of the package's

    Raises
    ------
    InvalidInput
        A question that is none, or vectors that are missing.
    NotCertified
        A condition that fails, or a value that is not reached.
    """
    q = asked_question(asked, method, criterion)
    q.check()
    if q.clients < 2 or q.subject.one_loss or relaxed(q):
        raise InvalidInput(f"{q.subject.name} of {q.clients} clients: no losses are made of it")
    family = _family(q)
    for block, names in family.names.items():
        missing = sorted(set(names) - set(found.vectors.get(block, {})))
        if missing or len({len(v) for v in found.vectors[block].values()}) > 1:
            raise InvalidInput(f"vectors of the block {block!r}: {', '.join(missing[:3]) or 'lengths that differ'}")
    if not _points(family) <= set(found.values):
        raise InvalidInput(f"values: {', '.join(sorted(_points(family) - set(found.values))[:3])} missing")
    reached = at_least(family, found.vectors, found.values)
    if found.value > reached:
        raise NotCertified(f"the file claims {found.value}, its vectors reach {float(reached):.12g}")


def read(path: Path) -> tuple[dict[str, Any], Below] | None:
    """The question of a file and its numbers, or None where it has none.

    Raises
    ------
    InvalidInput
        Numbers that are none.
    """
    try:
        held = read_json(path, MOST_BYTES)
    except DataFileError:
        return None
    if not isinstance(held, dict) or not isinstance(held.get(KEY), dict) or not isinstance(held.get("question"), dict):
        return None
    blocks, values = held[KEY].get("vectors"), held[KEY].get("values")
    tables = [values, *(blocks.values() if isinstance(blocks, dict) else [None])]
    lists = [v for of in tables[1:] if isinstance(of, dict) for v in of.values()]
    if not all(isinstance(t, dict) and len(t) <= MOST for t in tables) or not all(isinstance(v, list) for v in lists):
        raise InvalidInput(f"{path}: tables of vectors, of values, and lists of coordinates are needed, at most {MOST} entries each")
    unit = fraction(held[KEY].get("unit"), "unit")

    def number(x: Any) -> Fraction:
        if not isinstance(x, int):
            raise InvalidInput(f"{path}: {x!r}: vectors and values are whole multiples of the unit")
        return x * unit

    vectors = {str(block): {str(name): tuple(map(number, v[:MOST])) for name, v in of.items()} for block, of in blocks.items()}
    claimed = fraction(held[KEY].get("at least"), "at least")
    return held["question"], Below(claimed, vectors, {str(p): number(x) for p, x in values.items()})


def _sum(part: Mapping[str, Any], of: Mapping[str, tuple[Fraction, ...]], zero: tuple[Fraction, ...]) -> tuple[Fraction, ...]:
    """The combination of vectors."""
    for name, c in part.items():
        zero = tuple(a + c * b for a, b in zip(zero, of[name], strict=True))
    return zero


def _rounded(x: float) -> Fraction:
    return Fraction(round(float(x) * UNIT), UNIT)
