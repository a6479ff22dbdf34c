"""Forms as an author writes them, and the checks that what was written can be judged: every
error names file, line and statement."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from fedtheory.authoring.losses import Unbounded
from fedtheory.authoring.slots import NotInFractions
from fedtheory.errors import FedTheoryError, InvalidInput, MissingCapability, NotCertified, UnknownName
from fedtheory.verification.statement import Sides

__all__ = ["Claimed", "Undefined", "Wrong", "evaluate", "form", "printed", "reduced", "repaired", "wrong"]


class Undefined(InvalidInput):
    """A side divides by 0 on an instance: the statement says nothing there."""


@dataclass(frozen=True)
class Wrong:
    """A deliberately wrong variant of a form, which the study must reject."""

    name: str
    sides: Sides


@dataclass(frozen=True)
class Claimed:
    """One form, with its sides on one view: what `printed`, `repaired` and `form` make."""

    name: str
    sides: Sides
    latex: str = ""
    established: str = "open"
    pathwise: bool = False
    note: str = ""
    mutants: tuple[Wrong, ...] = ()


def form(
    name: str, sides: Sides, latex: str = "", *mutants: Wrong, fails: bool = False, holds: bool = False, pathwise: bool = False,
    note: str = "",
) -> Claimed:  # fmt: skip
    """A form of a statement.

    Parameters
    ----------
    name : 'printed', 'repaired', or another word
    sides : what `le` or `eq` gave
        ``le`` is claimed in expectation over the cohorts: E[lhs] <= E[rhs]. Write ``q.mean`` for
        expectations inside a side.
    latex : the formula
    mutants : what `wrong` gives
    fails, holds : bool
        On record: refuted by a counterexample, or proved. Neither: open. A study that finds
        otherwise says so.
    pathwise : bool
        Claimed for every sequence of cohorts, not only in expectation. ``eq`` is always entry by
        entry.
    """
    if fails and holds:
        raise InvalidInput(f"form {name!r}: it cannot both hold and fail; leave both out where it is open")
    return Claimed(name, sides, latex, "violated" if fails else "holds" if holds else "open", pathwise, note, mutants)


def printed(sides: Sides, latex: str = "", *mutants: Wrong, **how: Any) -> Claimed:
    """The form as the paper prints it; see `form`."""
    return form("printed", sides, latex, *mutants, **how)


def repaired(sides: Sides, latex: str = "", *mutants: Wrong, **how: Any) -> Claimed:
    """The form as it should read; see `form`."""
    return form("repaired", sides, latex, *mutants, **how)


def wrong(name: str, sides: Sides) -> Wrong:
    """A deliberately wrong variant: a term dropped, a constant halved. A study reports whether
    it is rejected."""
    return Wrong(name, sides)


def place(function: Callable[..., Any], error: BaseException | None, statement: str) -> str:
    """'file.py, line 12, my-paper/lemma-4': where in the author's function an error came up."""
    code = function.__code__
    lines = (
        [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == code.co_filename] if error else []
    )
    return f"{Path(code.co_filename).name}, line {lines[-1] if lines else code.co_firstlineno}, {statement}"


def evaluate(function: Callable[[Any], Iterable[Claimed]], view: Any, statement: str) -> dict[str, Claimed]:
    """The forms of a statement on one view, by name.

    Raises
    ------
    UnknownName, InvalidInput, MissingCapability
        With the place: an unknown quantity, sides of unequal shapes, no form, two forms of one
        name, a form that is none.
    NotInFractions
        The statement makes floats or square roots on a view in fractions.
    Undefined
        A side divides by 0.
    """
    out: dict[str, Claimed] = {}
    try:
        with np.errstate(all="ignore"):
            found = function(view)
            if not hasattr(found, "__iter__"):
                raise InvalidInput(
                    f"the function returned {found!r}: yield its forms, for example `yield printed(le(a, b))`"
                )
            for claimed in found:
                _add(out, claimed, view)
    except ZeroDivisionError as error:
        raise Undefined(f"{place(function, error, statement)}: a division by 0 on this instance") from error
    except NotInFractions as error:
        raise NotInFractions(f"{place(function, error, statement)}: {error}") from error
    except FedTheoryError as error:
        kinds = (Undefined, Unbounded, NotCertified, UnknownName, MissingCapability)
        kind = next((k for k in kinds if isinstance(error, k)), InvalidInput)
        raise kind(f"{place(function, error, statement)}: {error}") from error
    except ValueError as error:
        what = (
            "sides or terms of unequal shapes"
            if "broadcast" in str(error) or "shape" in str(error)
            else "a value is wrong"
        )
        raise InvalidInput(f"{place(function, error, statement)}: {what} ({error})") from error
    except (TypeError, AttributeError, IndexError, NameError, KeyError) as error:
        if view.rational and isinstance(error, TypeError | AttributeError):
            raise NotInFractions(
                f"{place(function, error, statement)}: this cannot be done in fractions ({error})"
            ) from error
        raise InvalidInput(f"{place(function, error, statement)}: {type(error).__name__}: {error}") from error
    if not out:
        raise InvalidInput(
            f"{place(function, None, statement)}: a statement without a form: yield printed(le(lhs, rhs), r'latex') or repaired(...)"
        )
    return out


def _add(out: dict[str, Claimed], claimed: Any, view: Any) -> None:
    if not isinstance(claimed, Claimed):
        raise InvalidInput(f"{claimed!r} is no form: yield what printed(...), repaired(...) or form(name, ...) gives")
    if claimed.name in out:
        raise InvalidInput(
            f"two forms are called {claimed.name!r}: give the second another name, form('sharpened', ...)"
        )
    for item in (claimed, *claimed.mutants):
        if not isinstance(item, Claimed | Wrong) or not isinstance(item.sides, Sides):
            raise InvalidInput(
                f"form {claimed.name!r}: its sides must be what le(lhs, rhs) or eq(lhs, rhs) gives, not {item!r}"
            )
    name, sides = claimed.name, _numbers(claimed.sides, view, claimed.name)
    mutants = tuple(Wrong(m.name, _numbers(m.sides, view, name)) for m in claimed.mutants)
    out[name] = Claimed(name, sides, claimed.latex, claimed.established, claimed.pathwise, claimed.note, mutants)


def _numbers(sides: Sides, view: Any, name: str) -> Sides:
    """The sides as fractions or as floats, whatever was mixed into them."""
    parts = [np.asarray(v) for v in (sides.lhs, sides.rhs, sides.scale)]
    wrong_shape = view.misshapen(parts[0].shape) if sides.relation == "<=" else None
    if wrong_shape is not None:
        raise InvalidInput(f"form {name!r}: {wrong_shape}")
    if view.rational:
        for v in (*parts[0].ravel().tolist(), *parts[1].ravel().tolist()):
            if not isinstance(v, Fraction | int):
                raise NotInFractions(
                    f"form {name!r} makes {type(v).__name__} numbers of fractions: write Fraction(1, 2) for 0.5, "
                    "q.power(rate, q.t) for rate ** q.t, and no functions of NumPy but sums; the verdicts in floats stand"
                )
        parts = [_objects(v) for v in parts]
    else:
        parts = [v.astype(float, copy=False) for v in parts]
    return Sides(*parts, sides.relation, sides.noise, sides.axes)


def _objects(values: np.ndarray) -> np.ndarray:
    out = np.empty(values.shape, dtype=object)
    for index, v in np.ndenumerate(values.astype(object)):
        out[index] = Fraction(v)
    return out


def reduced(view: Any, claimed: Claimed, sides: Sides | None = None) -> Sides:
    """The sides as they are compared: in expectation, or entry by entry."""
    sides = claimed.sides if sides is None else sides
    if claimed.pathwise or sides.relation == "==" or view.sampled:
        return sides
    parts = (np.asarray(view.expectation(v)) for v in (sides.lhs, sides.rhs, sides.scale))
    return Sides(*parts, sides.relation, sides.noise, sides.axes)
