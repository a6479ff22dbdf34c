"""Shrink the data of a witness: shorter lists, then simpler numbers, while what they prove stays."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

from fedtheory.rational import complexity, near, round_numbers

__all__ = ["simpler"]

WIDTHS = tuple(Fraction(1, n) for n in (2, 4, 10, 30, 100, 1000))  # relative distances within which a simpler fraction is tried
PASSES = 4
TRIALS = 600

Place = tuple[Any, ...]


def simpler(data: dict[str, Any], keeps: Callable[[dict[str, Any]], bool], trials: int = TRIALS) -> dict[str, Any]:
    """Shorten the lists of the data and simplify their numbers; the same data give the same result.

    An entry is left out of several lists of one length at once, as a client stands in several.

    Parameters
    ----------
    data : dict
        Of a `fedtheory.theory.judge.witness.Witness`: fractions as strings, whole numbers, lists and dicts of them. Other strings
        and truth values are left alone.
    keeps : callable(data) -> bool
        Whether changed data still prove what they are there for.
    trials : the most data that `keeps` is asked about
    """
    left = trials
    for _ in range(PASSES + sum(_lengths(data))):
        before = data
        for trial in _shorter(data):
            if left == 0:
                return data
            left -= 1
            if keeps(trial):
                data = trial
                break
        if data is not before:
            continue
        for place, old in list(_numbers(data)):
            for new in _candidates(old):
                if left == 0:
                    return data
                left -= 1
                trial = _with(data, place, new if isinstance(old, int) else str(new))
                if keeps(trial):
                    data = trial
                    break
        if data is before:
            break
    return data


def _numbers(value: Any, place: Place = ()) -> Iterator[tuple[Place, int | Fraction]]:
    """(place, number) of every number in the data; a whole number is an int only where it is not written as a string."""
    if isinstance(value, dict | list):
        for key, part in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _numbers(part, (*place, key))
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


def _shorter(data: dict[str, Any]) -> Iterator[dict[str, Any]]:
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
    """Simpler numbers than this one, the simplest first."""
    if isinstance(old, int):
        sign = -1 if old < 0 else 1
        return sorted({sign * n for n in (0, 1, 2, abs(old) // 2, abs(old) - 1) if 0 <= n < abs(old)}, key=abs)
    tried = {Fraction(0), Fraction(1), Fraction(-1)}
    if old:
        tried |= {*(near(old, width) for width in WIDTHS), *round_numbers(old)}
    return sorted((x for x in tried if complexity(x) < complexity(old)), key=lambda x: (complexity(x), abs(x - old), x))


def _with(data: dict[str, Any], place: Place, new: Any) -> dict[str, Any]:
    out = copy.deepcopy(data)
    *outer, last = place
    part: Any = out
    for key in outer:
        part = part[key]
    part[last] = new
    return out
