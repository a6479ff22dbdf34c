"""The quantities that a statement's function reads: their values on one instance, for a reader who
checks a verdict by hand, and slices of them that mean something else than they seem to."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from fedtheory.errors import FedTheoryError, InvalidInput
from fedtheory.rational import brief
from fedtheory.theory.rounds.forms import place, reduced
from fedtheory.theory.rounds.instances import Draw
from fedtheory.theory.rounds.method_setting import MethodSetting
from fedtheory.theory.rounds.quantities import ROUND, RUN, Fields
from fedtheory.theory.rounds.undefined import SILENT

__all__ = ["check_slices", "read_there"]

MOST = 24  # numbers of one quantity that are written out
DIGITS = 60  # of one of them


class _Read:
    """A view, its method or its state, that notes what is read of it: {name: value}."""

    def __init__(self, what: Any, seen: dict[str, Any], prefix: str = "") -> None:
        self._what, self._seen, self._prefix = what, seen, prefix

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._what, name)
        if not self._prefix and (name == "method" or isinstance(value, Fields)):
            return _Read(value, self._seen, f"{name}.")
        if name == "constant" and not self._prefix:
            return self._constant
        if _numbers(value):
            self._seen[f"{self._prefix}{name}"] = value
        return value

    def __getitem__(self, name: str) -> Any:
        return getattr(self, name)

    def _constant(self, name: str, value: Any, free: bool = False) -> Any:
        self._seen[f"constant {name}"] = out = self._what.constant(name, value, free)
        return out


def _numbers(value: Any) -> bool:
    numbers = int | float | Fraction | np.number | np.ndarray
    return isinstance(value, numbers) and not isinstance(value, bool)


def read_there(setting: MethodSetting, form: str, instance: Draw) -> dict[str, str]:
    """Give what the statement's function reads up to a form, in fractions on an instance: {'q.F':
    '1/2'}; of a run also the round at which lhs - rhs is largest ('worst at'). Nothing where the
    form says nothing there."""
    statement, seen = setting.of_statement, dict[str, Any]()
    try:
        view = setting.view(instance, exact=True)
        with np.errstate(all="ignore"):
            for claimed in statement.function(_Read(view, seen)):
                if claimed.name == form:
                    break
        sides = reduced(view, statement.on(view)[form])
    except (*SILENT, InvalidInput, ZeroDivisionError):
        return {}
    out = {
        f"q.{name}" if not name.startswith("constant") else name: _text(value)
        for name, value in seen.items()
    }
    excess = np.asarray(sides.lhs - sides.rhs, dtype=object)
    if setting.scope == "run" and excess.ndim == 1 and 1 < len(excess) <= instance.rounds + 1:
        first = instance.rounds + 1 - len(excess)
        out["worst at"] = f"t = {first + max(range(len(excess)), key=lambda i: excess[i])}"
    return out


def _text(value: Any) -> str:
    """'1/2', or of several numbers '(1, 1/4), shape (2, 1)'."""
    values = np.asarray(value, dtype=object)
    if values.size == 1:
        return brief(Fraction(values.ravel()[0]), DIGITS)
    if values.size > MOST:
        return f"{values.size} numbers, shape {values.shape}"
    return f"{_nested(np.squeeze(values))}, shape {values.shape}"


def _nested(values: np.ndarray) -> str:
    inside = (brief(Fraction(v), DIGITS) if values.ndim == 1 else _nested(v) for v in values)
    return f"({', '.join(inside)})"


# --- slices ---------------------------------------------------------------------------------------
class _Watched:
    """A view whose quantities refuse a slice that takes a part of the scenarios, or of the cohorts,
    and all that stands before, and whose mean refuses vectors of one round without the axis of the
    rounds."""

    def __init__(self, view: Any, over: str) -> None:
        self._view, self._table = view, RUN if over == "run" else ROUND

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._view, name)
        shape = self._table[name].shape if name in self._table else ""
        second = shape.strip("()").split(", ")[1:2]
        if second not in (["S"], ["C"]):
            return value
        watched = np.asarray(value).view(_Sliced)
        watched.name, watched.of_run = name, second == ["S"]
        return watched

    def mean(self, v: Any) -> Any:
        """As the view's own."""
        name, axes = getattr(v, "of_one", ("", 0))
        if name and np.ndim(v) == axes:
            raise _WrongAxis(
                f"q.mean of vectors q.{name}[t] of one round, whose axes are scenarios, "
                f"then coordinates, and are to be rounds, then scenarios: take q.{name}[t:t+1], or "
                f"q.{name}[-1:] for the last"
            )
        return self._view.mean(v)


class _WrongAxis(InvalidInput):
    """A slice of scenarios or of cohorts."""


class _Sliced(np.ndarray):
    """An array whose second axis must not be sliced; what is computed with it is a plain one again
    in that.

    of_one : the quantity of which it holds vectors of one round, and its number of axes
    """

    name, of_run, of_one = "", False, ("", 0)

    def __array_finalize__(self, made_from: Any) -> None:
        self.name, self.of_one = "", getattr(made_from, "of_one", ("", 0))

    def __getitem__(self, index: Any) -> Any:
        parts = list(index) if isinstance(index, tuple) else [index]
        if self.name and all(isinstance(p, slice) or p is Ellipsis for p in parts):
            if Ellipsis in parts:
                at = parts.index(Ellipsis)
                parts[at : at + 1] = [slice(None)] * (self.ndim + 1 - len(parts))
            first, second = [*parts, slice(None), slice(None)][:2]
            if first == slice(None) != second:
                raise _WrongAxis(_told(self.name, self.of_run, second))
        found = super().__getitem__(index)
        if isinstance(found, _Sliced):
            one = (
                self.name and self.of_run and self.ndim > 2
                and isinstance(parts[0], int | np.integer)
            )
            found.of_one = (self.name, found.ndim) if one else ("", 0)
        return found


def _told(name: str, of_run: bool, part: slice) -> str:
    ends = ["" if v is None else str(v) for v in (part.start, part.stop)]
    taken = f"q.{name}[:, {':'.join(ends)}]"
    if of_run:
        return (
            f"{taken} takes some scenarios (sequences of cohorts) at all rounds: the axes are "
            f"rounds t = 0..T, then scenarios. The start is q.{name}[0], the end q.{name}[-1]"
        )
    return (
        f"{taken} takes some cohorts only: the axes are starts, then cohorts. Write "
        f"q.mean(q.{name}) for the expectation"
    )


def check_slices(statement: Any, view: Any) -> None:
    """Raise `InvalidInput`, with file and line, where the function slices the scenarios of a run,
    or the cohorts of a round, as if they were its rounds: with one scenario such a slice is all
    there is, and a claim about x_0 one about every x_t."""
    function = statement.function
    try:
        with np.errstate(all="ignore"):
            for _ in function(_Watched(view, statement.over)):
                pass
    except _WrongAxis as error:
        raise InvalidInput(f"{place(function, error, statement.id)}: {error}") from error
    except (FedTheoryError, ValueError, TypeError, ArithmeticError, LookupError, AttributeError):
        return  # told elsewhere
