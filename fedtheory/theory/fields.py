"""Fields of a world: what the numbers of its data are, their shape and their limits, said once.

    @dataclass
    class Averages(World):
        weights: np.ndarray = number("N", "w_k", above=0, total=1)
        c: np.ndarray = number("N d", "the minimisers")
        rounds: int = whole(1, 100)
        mean = derived(lambda q: q.weights @ q.c, "the mean of the minimisers (d,)")

is a dataclass of three fields, which `World.from_data` reads and checks, and of a number that
follows. A letter of a shape stands for one length; one that is the name of a whole number before
it has that value, and a plain list is then every row of such an array. A ``letter`` is the LaTeX
of a number in the formulas that are made of the code of forms
(`fedtheory.theory.world.letters_of`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, is_dataclass
from dataclasses import fields as fields_of
from functools import cached_property
from operator import ge, gt, le, lt
from typing import Any

import numpy as np

from fedtheory.errors import InvalidInput
from fedtheory.rational import fraction, integer, table, vector

__all__ = ["Read", "anything", "derived", "flag", "number", "read", "reads_of", "whole", "word"]

NEEDED: Any = object()  # in place of a default
LIMITS = {
    "above": (gt, min, ">"), "least": (ge, min, ">="), "below": (lt, max, "<"),
    "most": (le, max, "<="),
}  # fmt: skip


class derived(cached_property[Any]):
    """What follows from the fields, computed once.

    Parameters
    ----------
    of : callable(instance) -> its value
    what : its meaning, in words
    letter : its LaTeX in formulas; without one they have what it follows from
    """

    def __init__(self, of: Callable[[Any], Any], what: str = "", letter: Any = None) -> None:
        super().__init__(of)
        self.__doc__, self.letter = what, letter


@dataclass(frozen=True)
class Read:
    """A field of data.

    Attributes
    ----------
    take : callable(name, value, fields read before), which gives the value or raises `InvalidInput`
    what : its meaning, in words
    shape : the letters of its axes
    default : its value where data leave it out, if they may
    letter : as of `fedtheory.theory.judge.symbolic.Letters`, None where it has none
    """

    take: Callable[[str, Any, Mapping[str, Any]], Any]
    what: str = ""
    shape: tuple[str, ...] = ()
    default: Any = NEEDED
    letter: Any = None

    @property
    def told(self) -> str:
        """The meaning, in brackets."""
        return f" ({self.what})" if self.what else ""


def _declared(
    take: Callable[..., Any], what: str, shape: str = "", default: Any = NEEDED, letter: Any = None
) -> Any:
    one = Read(take, what, tuple(shape.split()), default, letter)
    return field(metadata={"read": one}, **({} if default is NEEDED else {"default": default}))


def number(
    shape: str = "", what: str = "", *, total: Any = None, default: Any = NEEDED, letter: Any = "",
    **limits: Any,
) -> Any:  # fmt: skip
    """Declare fractions: one, or an array of a shape such as ``"N d"``.

    Parameters
    ----------
    total : the sum of every row
    letter : its LaTeX in formulas, default the name of a single number; or callable(q) -> what it
        is of the others
    limits : ``above``, ``least``, ``below`` or ``most`` of every number
    """
    axes = shape.split()

    def take(name: str, value: Any, before: Mapping[str, Any]) -> Any:
        found: Any
        if not axes:
            found = fraction(value, name)
        elif len(axes) == 1:
            found = vector(value, name)
        elif axes[0] in before and isinstance(value, list) and not isinstance((*value, 0)[0], list):
            found = np.stack([vector(value, name)] * before[axes[0]])
        else:
            found = table(value, name)
        for word, limit in limits.items():
            within, extreme, sign = LIMITS[word]
            entry = extreme(np.ravel(found)) if axes else found
            if not within(entry, limit):
                told = f" ({what})" if what else ""
                raise InvalidInput(f"{name} = {entry}{told}: it must be {sign} {limit}")
        if total is not None and any(row.sum() != total for row in np.atleast_2d(found)):
            each = ", in every row" if len(axes) > 1 else ""
            raise InvalidInput(f"{name}: the numbers must sum to {total}{each}")
        return found

    return _declared(take, what, shape, default, letter or (None if axes else ""))


def whole(least: int = 0, most: int = 10_000, what: str = "", **more: Any) -> Any:
    """Declare a whole number within limits; it may have a default and a letter."""
    more = {"letter": "", **more}
    return _declared(lambda name, value, before: integer(value, name, least, most), what, **more)


def word(*words: str, what: str = "", **default: Any) -> Any:
    """Declare one of some words."""

    def take(name: str, value: Any, before: Mapping[str, Any]) -> Any:
        if value not in words:
            raise InvalidInput(f"{name} = {value!r}: use {', '.join(words)}")
        return value

    return _declared(take, what, **default)


def flag(what: str = "") -> Any:
    """Declare true or false."""

    def take(name: str, value: Any, before: Mapping[str, Any]) -> Any:
        if not isinstance(value, bool):
            raise InvalidInput(f"{name} = {value!r}: write true or false")
        return value

    return _declared(take, what)


def anything(what: str = "", **default: Any) -> Any:
    """Declare data that `World.made` reads by itself."""
    return _declared(lambda name, value, before: value, what, **default)


def reads_of(cls: Any) -> dict[str, Read]:
    """The fields that a world reads from data: its ``reads``, else those of the dataclass."""
    own = {f.name: f for f in fields_of(cls)} if is_dataclass(cls) else {}
    declared = {
        name: one if isinstance(one, Read) else one.metadata.get("read")
        for name, one in (cls.reads or own).items()
    }
    return {name: one for name, one in declared.items() if one is not None}


def read(reads: Mapping[str, Read], data: Mapping[str, Any]) -> dict[str, Any]:
    """Read fields of data.

    With ``"arithmetic": "float"`` fractions become floats, for long runs, which prove nothing.

    Raises
    ------
    InvalidInput
        One that is missing, that is out of its limits, or that does not fit those before it.
    """
    found: dict[str, Any] = {}
    sizes: dict[str, int] = {}
    for name, one in reads.items():
        if name not in data:
            if one.default is NEEDED:
                raise InvalidInput(f"{name}{one.told} is missing: give {', '.join(reads)}")
            found[name] = one.default
            continue
        found[name] = one.take(name, data[name], found)
        sizes_here = np.shape(found[name]) if one.shape else ()
        for letter, size in zip(one.shape, sizes_here, strict=True):
            wanted = found[letter] if letter in found else sizes.setdefault(letter, size)
            if size != wanted:
                others, axes = ", ".join([*found][:-1]), ", ".join(one.shape)
                raise InvalidInput(
                    f"{name} {np.shape(found[name])} does not fit {others}: it has the shape "
                    f"({axes}), with {letter} = {wanted}"
                )
    if data.get("arithmetic") == "float":
        return {name: _in_floats(value) for name, value in found.items()}
    return found


def _in_floats(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.astype(float)
    return value if isinstance(value, bool | int | str | None) else float(value)
