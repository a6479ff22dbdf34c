"""Witnesses about EFL: an instance in fractions, rebuilt and judged in exact arithmetic.

A file's key "efl" holds {"kind": ..., "data": {...}}; `BUILDERS` turns the data of one kind into a view whose numbers are fractions,
and the forms of that kind are judged on it as on any other view.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from fedtheory.errors import DataFileError, InvalidInput
from fedtheory.verification.statement import Check, Sides, get, judge

__all__ = ["BUILDERS", "EFLWitness", "builder", "exact_sides", "fraction", "integer", "parse", "replay", "table", "to_file", "vector"]

Builder = Callable[[dict[str, Any]], Any]
BUILDERS: dict[str, Builder] = {}


def builder(kind: str) -> Callable[[Builder], Builder]:
    """Register what makes views of one kind from the data of a witness file."""

    def add(make: Builder) -> Builder:
        BUILDERS[kind] = make
        return make

    return add


# --- fractions from files -----------------------------------------------------------------------------------------------
def fraction(value: Any, name: str = "number") -> Fraction:
    """'-3/7', '2' or an int as a fraction. Raises `InvalidInput` on anything else: a float is not the number it prints as."""
    if isinstance(value, bool) or not isinstance(value, int | str | Fraction):
        raise InvalidInput(f'{name} = {value!r}: write it as a string that holds a fraction, for example "1/2"')
    try:
        return Fraction(value)
    except (ValueError, ZeroDivisionError) as error:
        raise InvalidInput(f'{name} = {value!r} is not a fraction: write it like "-3/7"') from error


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


# --- witnesses ----------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class EFLWitness:
    """An instance on which one form of a statement about EFL fails.

    Attributes
    ----------
    kind : key of `BUILDERS`
    data : what its builder takes; all numbers are fraction strings or whole numbers
    lhs, rhs : the claimed sides where the violation is worst (for equalities the largest difference, and 0)
    """

    statement: str
    form: str
    rule: str
    kind: str
    data: dict[str, Any]
    lhs: str = ""
    rhs: str = ""
    found_by: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """File name without extension."""
        text = f"{self.statement}-{self.form}" + ("" if self.rule == "any" else f"-{self.rule}")
        return re.sub(r"[^a-z0-9.]+", "-", text.lower().replace("=", "is")).strip("-")

    def __str__(self) -> str:
        numbers = ", ".join(f"{k} = {_short(v)}" for k, v in self.data.items())
        return f"{self.statement} [{self.form}]: {numbers}"

    def to_json(self) -> dict[str, Any]:
        """The fields of its file."""
        return {
            "statement": self.statement, "form": self.form, "rule": self.rule, "efl": {"kind": self.kind, "data": self.data},
            "lhs": self.lhs, "rhs": self.rhs, "found_by": self.found_by,
        }  # fmt: skip


def _short(value: Any) -> str:
    text = "[" + ", ".join(_short(v) for v in value) + "]" if isinstance(value, list) else str(value)
    return text if len(text) <= 60 else text[:57] + "..."


_NEEDED = ("statement", "form", "rule", "efl", "lhs", "rhs")


def parse(data: dict[str, Any], label: str) -> EFLWitness:
    """A witness from the fields of its JSON file. Raises `DataFileError` that names missing and unknown fields."""
    missing, unknown = [k for k in _NEEDED if k not in data], sorted(set(data) - {*_NEEDED, "found_by", "provenance"})
    if missing or unknown:
        raise DataFileError(f"{label}: wrong fields (missing: {', '.join(missing) or 'none'}; unknown: {', '.join(unknown) or 'none'})")
    about = data["efl"]
    if not isinstance(about, dict) or set(about) != {"kind", "data"} or not isinstance(about["data"], dict):
        raise DataFileError(f'{label}: "efl" must hold "kind" and "data" and nothing else')
    for key in ("statement", "form", "rule", "lhs", "rhs"):
        if not isinstance(data[key], str):
            raise DataFileError(f"{label}: {key} is {data[key]!r}; write it as a string, for example \"1/2\"")
    return EFLWitness(
        data["statement"], data["form"], data["rule"], about["kind"], about["data"], data["lhs"], data["rhs"], data.get("found_by", {})
    )


def exact_sides(witness: EFLWitness) -> tuple[Any, Sides]:
    """The view, and the form's sides on it, in exact arithmetic.

    Raises
    ------
    UnknownName
        The statement or form does not exist.
    InvalidInput
        No such kind; malformed data; a form that is not about this kind, or whose assumptions fail; sides that are not fractions.
    """
    statement = get(witness.statement)
    form = statement.form(witness.form)
    if form.sides is None:
        raise InvalidInput(f"{statement.id} [{form.name}] has no sides to compare: it cannot have a witness")
    if witness.kind not in BUILDERS:
        raise InvalidInput(f"kind = {witness.kind!r}: use one of {', '.join(BUILDERS)}")
    if witness.kind != form.requires[0]:
        raise InvalidInput(f"{statement.id} [{form.name}] is judged on instances of kind {form.requires[0]!r}, not {witness.kind!r}")
    try:
        view = BUILDERS[witness.kind](witness.data)
    except (KeyError, TypeError, AttributeError) as error:
        raise InvalidInput(f"data of kind {witness.kind!r}: missing or malformed ({error})") from error
    if view.rule != witness.rule or witness.rule not in form.established:
        raise InvalidInput(f"rule = {witness.rule!r}: the data are of rule {view.rule!r}, claimed are {', '.join(form.established)}")
    reason = view.applies(form)
    if reason is not None:
        raise InvalidInput(f"the assumptions of {statement.id} [{form.name}] fail: {reason}")
    sides = form.sides(view)
    if np.asarray(sides.lhs).dtype != object:
        raise InvalidInput(f"{statement.id} [{form.name}] is not computed in fractions on these data: it proves nothing")
    return view, sides


def worst(sides: Sides) -> tuple[Fraction, Fraction]:
    """(lhs, rhs) where rhs - lhs is least, exactly."""
    pairs = zip(np.asarray(sides.lhs).ravel(), np.asarray(sides.rhs).ravel(), strict=True)
    lhs, rhs = min(pairs, key=lambda p: p[1] - p[0])
    return Fraction(lhs), Fraction(rhs)


def replay(witness: EFLWitness) -> Check:
    """Rerun a witness exactly.

    Raises
    ------
    InvalidInput
        As `exact_sides`; when the data do not violate the form, or the recorded sides are not what comes out.
    """
    view, sides = exact_sides(witness)
    lhs, rhs = worst(sides)
    if not lhs > rhs:
        raise InvalidInput(
            f"not a witness: {witness.statement} [{witness.form}] holds here, {float(lhs):.6g} <= {float(rhs):.6g}"
        )
    if (witness.lhs, witness.rhs) != ("", "") and (fraction(witness.lhs, "lhs"), fraction(witness.rhs, "rhs")) != (lhs, rhs):
        raise InvalidInput(
            f"the file claims {witness.lhs} > {witness.rhs}, but {lhs} > {rhs} comes out: it was changed after it was found"
        )
    where = {**view.printed_constants(), "exact": [str(lhs), str(rhs)]}
    return judge(
        sides, statement=witness.statement, form=witness.form, rule=witness.rule, mode="rational", where=where, instance=str(witness)
    )
