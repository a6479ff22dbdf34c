"""Fractions: read from files with suspicion, held in object arrays, written, and simplified.

Object arrays of `fractions.Fraction` go through the same lines of code as floats, so that a form needs to be written once.
"""

from __future__ import annotations

import copy
import dataclasses
import math
import re
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from itertools import product
from typing import Any, TypeVar

import numpy as np

from fedtheory.errors import InvalidInput

__all__ = [
    "Builders", "Whole", "brief", "complexity", "fraction", "in_fractions", "integer", "made_with",
    "near", "number", "objects", "round_numbers", "simplest", "simplest_between", "simplest_each", "small_root",
    "table", "text", "to_file", "told", "vector", "with_floats",
]

_PLAIN = re.compile(r"[+-]?[0-9]{1,4000}(/[0-9]{1,4000}|\.[0-9]{1,4000})?")
Builder = Callable[[dict[str, Any]], Any]
B = TypeVar("B", bound=Builder)


class Builders(Mapping[str, Builder]):
    """The builders of views from a witness file's data, by kind, each beside what it builds."""

    def __init__(self) -> None:
        self._known: dict[str, Builder] = {}

    def add(self, kind: str) -> Callable[[B], B]:
        """Register what makes views of one kind, as a decorator."""

        def keep(make: B) -> B:
            self._known[kind] = make
            return make

        return keep

    def __getitem__(self, kind: str) -> Builder:
        return self._known[kind]

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)


class Whole(Fraction):
    """A whole number whose arithmetic is that of fractions (1 / T is no float), and that still
    counts and indexes."""

    def __index__(self) -> int:
        return self.numerator


def number(value: Any, exact: bool) -> Any:
    """The number as a fraction, or as a float. As a fraction a float is what it prints as: 0.1 is a
    tenth, here as in the constants of a bound."""
    if not exact:
        return float(value)
    return Fraction(repr(float(value))) if isinstance(value, float | np.floating) else Fraction(value)


def made_with(made: Any) -> list[str]:
    """The names of all that a method, or a local solver, has."""
    own = dataclasses.is_dataclass(made)
    return [f.name for f in dataclasses.fields(made)] if own else sorted(vars(made))


def in_fractions(made: Any, numbers: Mapping[str, Any] | None = None) -> Any:
    """A copy of a method, or of a local solver, whose floats are fractions: those given by name,
    else what the float prints as; so are those of a method that it wraps."""

    def changed(key: str, value: Any) -> Any:
        value = (numbers or {}).get(key, value)
        if _wraps(value):
            return in_fractions(value)
        return number(value, True) if isinstance(value, float) and np.isfinite(value) else value

    return _copied(made, changed)


def with_floats(made: Any) -> Any:
    """A copy of a method whose fractions are floats, but for its ``exact_numbers``; so are those of
    a method that it wraps."""
    keeps = getattr(made, "exact_numbers", ())

    def changed(key: str, value: Any) -> Any:
        if _wraps(value):
            return with_floats(value)
        return float(value) if isinstance(value, Fraction) and key not in keeps else value

    return _copied(made, changed)


def _wraps(value: Any) -> bool:
    """True of a method that another one has."""
    return callable(getattr(value, "round", None)) and dataclasses.is_dataclass(value)


def _copied(made: Any, changed: Callable[[str, Any], Any]) -> Any:
    out = copy.copy(made)
    for key in made_with(out):
        object.__setattr__(out, key, changed(key, getattr(out, key)))
    return out


# --- from files and back --------------------------------------------------------------------------
def fraction(value: Any, name: str = "number") -> Fraction:
    """'-3/7', '2' or an int as a fraction. Raises `InvalidInput` on anything else: a float is not
    the number it prints as."""
    if isinstance(value, bool) or not isinstance(value, int | str | Fraction):
        raise InvalidInput(f'{name} = {value!r}: write it as a string that holds a fraction, for example "1/2"')
    try:
        if isinstance(value, str) and not _PLAIN.fullmatch(value):  # "1e999999999" would be computed for hours
            raise ValueError
        return Fraction(value)
    except (ValueError, ZeroDivisionError) as error:
        told = repr(value) if len(str(value)) <= 40 else f"{str(value)[:40]!r}... ({len(str(value))} characters)"
        raise InvalidInput(f'{name} = {told} is not a fraction: write it like "-3/7"') from error


def integer(value: Any, name: str, least: int = 0, most: int = 10_000) -> int:
    """A whole number within limits."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise InvalidInput(f"{name} = {value!r}: expected a whole number from {least} to {most}")
    return value


def vector(values: Any, name: str = "list") -> np.ndarray:
    """A list of fractions as an object array (n,)."""
    if not isinstance(values, list) or not values:
        raise InvalidInput(f"{name} = {values!r}: expected a list of fractions")
    out = np.empty(len(values), dtype=object)
    out[:] = [fraction(v, f"{name}[{i}]") for i, v in enumerate(values)]
    return out


def table(values: Any, name: str = "rows") -> np.ndarray:
    """Rows of fractions, all of one length, as an object array (n, d)."""
    if not isinstance(values, list) or not values or len({len(r) if isinstance(r, list) else -1 for r in values}) != 1:
        raise InvalidInput(f"{name} = {values!r}: expected rows of fractions, all of one length")
    return np.stack([vector(row, f"{name}[{i}]") for i, row in enumerate(values)])


def to_file(value: Any) -> Any:
    """Fractions and object arrays as what a file holds: strings and lists of them."""
    if isinstance(value, np.ndarray | list | tuple):
        return [to_file(v) for v in value]
    if isinstance(value, dict):
        return {k: to_file(v) for k, v in value.items()}
    return str(value) if isinstance(value, Fraction) else value


def text(value: Any) -> Any:
    """A constant for the reader: fractions as floats."""
    return float(value) if isinstance(value, Fraction | np.floating) else value


def told(value: Any) -> Any:
    """A constant for the reader, or a list of them."""
    return [told(v) for v in value] if isinstance(value, np.ndarray | list) else text(value)


def brief(x: Fraction, most: int = 300) -> str:
    """The fraction, or how long it is: Python writes no number of more than 4,300 digits."""
    if (x.numerator * x.denominator).bit_length() < 4 * most and len(text := str(x)) <= most:
        return text
    above, below = (math.ceil(n.bit_length() * math.log10(2)) for n in (x.numerator, x.denominator))
    return f"a fraction of about {above:,} over {below:,} digits"


def objects(values: Any) -> np.ndarray:
    """A list (or list of lists) of fractions as an object array, so that arithmetic stays exact."""
    values = list(values)
    if values and isinstance(values[0], list | tuple | np.ndarray):
        return np.stack([objects(v) for v in values])
    out = np.empty(len(values), dtype=object)
    out[:] = values
    return out


# --- simpler numbers ------------------------------------------------------------------------------
def simplest_between(low: Fraction, high: Fraction) -> Fraction:
    """The fraction of least denominator (then numerator) in [low, high], 0 < low <= high, by continued fractions."""
    whole = math.floor(low)
    if whole == low or whole + 1 <= high:
        return Fraction(whole if whole == low else whole + 1)
    return whole + 1 / simplest_between(1 / (high - whole), 1 / (low - whole))


def simplest(x: float) -> Fraction:
    """The simplest fraction that rounds to x: 1/3 of 0.3333333333333333, 1/10 of 0.1.

    Raises
    ------
    InvalidInput
        A number that is not finite.
    """
    x = float(x)
    if not math.isfinite(x):
        raise InvalidInput(f"{x} is no number that a fraction could stand for")
    size = abs(x)
    if size == 0:
        return Fraction(0)
    at, below, above = (Fraction(v) for v in (size, math.nextafter(size, 0), math.nextafter(size, math.inf)))
    found = simplest_between(at - (at - below) * Fraction(49, 100), at + (above - at) * Fraction(49, 100))
    return found if x > 0 else -found


def simplest_each(values: Any) -> np.ndarray:
    """`simplest` of every entry, as an object array; fractions and whole numbers stay as they are.

    Raises
    ------
    InvalidInput
        Entries that are no finite numbers.
    """
    given = np.asarray(values)
    out = np.empty(given.shape, dtype=object)
    for at, value in np.ndenumerate(given):
        whole = isinstance(value, Fraction | int | np.integer) and not isinstance(value, bool)
        try:
            out[at] = Fraction(int(value) if isinstance(value, np.integer) else value) if whole else simplest(value)
        except (TypeError, ValueError) as error:
            raise InvalidInput(f"{value!r} is no number") from error
    return out


def small_root(x: float, error: float) -> str:
    """The simplest (a + b sqrt(c))/d of small whole numbers within an error of a number, as 'sqrt(2)/2'; '' for none."""
    from sympy import Rational, sqrt

    found = []
    for c, d, size, sign in product((2, 3, 5, 6, 7, 10), range(1, 13), range(1, 13), (1, -1)):
        b = sign * size
        a = round(d * x - b * c**0.5)
        if abs(a) <= 24 and abs((a + b * c**0.5) / d - x) <= error:
            found.append((abs(a) + size + c + d, str(Rational(a, d) + Rational(b, d) * sqrt(c))))
    return min(found)[1] if found else ""


def near(x: Fraction, width: Fraction) -> Fraction:
    """The simplest fraction within a relative distance of x, which is not 0."""
    size = abs(x)
    found = simplest_between(size * (1 - width), size * (1 + width))
    return found if x > 0 else -found


def complexity(x: Fraction) -> float:
    """Digits, trailing zeros apart, and a little for numbers far from 1."""
    digits = len(str(abs(x.numerator)).rstrip("0")) + len(str(x.denominator).rstrip("0"))
    return digits + (0.25 * abs(math.log10(abs(x))) if x else 0.0)


def round_numbers(x: Fraction) -> list[Fraction]:
    """Powers of ten from 1 to x, and one or two digits of x or 1/x, whichever is above 1.

    x is not 0.
    """
    size = abs(x)
    last = round(math.log10(size))
    found = [Fraction(10) ** k for k in {last, *range(1, last), *range(-1, last, -1)}]
    for digits in (1, 2):
        large = Fraction(f"{float(max(size, 1 / size)):.{digits}g}")
        found.append(large if size >= 1 else 1 / large)
    return found if x > 0 else [-y for y in found]
