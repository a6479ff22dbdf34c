"""Shrink the data of a witness: shorter lists, then simpler numbers, while what they prove
stays."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from typing import Any

from fedtheory.rational import complexity, near, round_numbers

__all__ = ["Data", "numbers", "put", "simpler"]

WIDTHS = tuple(Fraction(1, n) for n in (2, 4, 10, 30, 100, 1000))  # relative, of simpler fractions
TRIALS = 600

Data = dict[str, Any]
Place = tuple[Any, ...]


def simpler(
    data: Data,
    keeps: Callable[[Data], bool],
    trials: int = TRIALS,
    shorter: Callable[[Data], Iterable[Data]] | None = None,
) -> Data:
    """Shorten the lists of the data and simplify their numbers; the same data give the same result.

    An entry is left out of several lists of one length at once, as a client stands in several.

    Parameters
    ----------
    data : dict
        Of a `fedtheory.theory.judge.witness.Witness`: fractions as strings, whole numbers, lists
        and dicts of them. Other strings and truth values are left alone.
    keeps : callable(data) -> bool
        Whether changed data still prove what they are there for.
    trials : the most data that `keeps` is asked about
    shorter : the data with something left out, of a kind whose lists hang together otherwise
    """
    left = trials
    known: dict[str, bool] = {}

    def first(made: Iterable[Data]) -> Data | None:
        nonlocal left
        for trial in made:
            if left == 0:
                return None
            left -= 1
            written = repr(trial)  # most are tried again after something else has changed in vain
            if written not in known:
                known[written] = keeps(trial)
            if known[written]:
                return trial
        return None

    while True:
        if (found := first((shorter or _shorter)(data))) is not None:
            data = found
            continue
        before = data
        for place, old in list(numbers(data)):
            data = first(put(data, place, new) for new in _candidates(old)) or data
        if data is before:
            return data


def numbers(value: Any, place: Place = ()) -> Iterator[tuple[Place, int | Fraction]]:
    """(place, number) of every number in the data; a whole number is an int only where it is not
    written as a string."""
    if isinstance(value, dict | list):
        for key, part in value.items() if isinstance(value, dict) else enumerate(value):
            yield from numbers(part, (*place, key))
    elif isinstance(value, int) and not isinstance(value, bool):
        yield place, value
    elif isinstance(value, str):
        try:
            yield place, Fraction(value)
        except (ValueError, ZeroDivisionError):
            return


def _lengths(value: Any) -> set[int]:
    """Collect the lengths of all lists in the data."""
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    inside = set().union(*(_lengths(part) for part in parts))
    return inside | ({len(value)} if isinstance(value, list) else set())


def _shorter(data: Data) -> Iterator[Data]:
    """Leave one entry out of all lists of a length, or of all but those under one name.

    The longest lists come first.
    """

    def without(value: Any, length: int, i: int) -> Any:
        if isinstance(value, dict):
            return {key: without(part, length, i) for key, part in value.items()}
        if not isinstance(value, list):
            return value
        kept = [without(part, length, i) for part in value]
        return kept[:i] + kept[i + 1 :] if len(value) == length else kept

    for length in sorted((n for n in _lengths(data) if n > 1), reverse=True):
        for i in reversed(range(length)):
            made = without(data, length, i)
            changed = [k for k, v in data.items() if made[k] != v]
            yield made
            yield from (made | {k: data[k]} for k in changed if len(changed) > 1)


def _candidates(old: int | Fraction) -> list[Any]:
    """Simpler numbers than this one as data have them, the simplest first."""
    if isinstance(old, int):
        sign, least = -1 if old < 0 else 1, abs(old)
        tried = {sign * n for n in (0, 1, 2, least // 2, least - 1) if 0 <= n < least}
        return sorted(tried, key=abs)
    new = {Fraction(0), Fraction(1), Fraction(-1), abs(old)}
    if old:
        new |= {*(near(old, width) for width in WIDTHS), *round_numbers(old)}

    def length(x: Fraction) -> tuple[float, bool]:
        return complexity(x), x < 0

    found = (x for x in new if length(x) < length(old))
    return list(map(str, sorted(found, key=lambda x: (complexity(x), abs(x - old), x))))


def put(data: Data, place: Place, new: Any) -> Data:
    """The data with another number at a place."""
    out = copy.deepcopy(data)
    *outer, last = place
    part: Any = out
    for key in outer:
        part = part[key]
    part[last] = new
    return out
