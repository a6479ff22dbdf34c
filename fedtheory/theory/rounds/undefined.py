"""Undefined quantities: a form that uses one says nothing on that instance.

A statement's forms come from one function, so that an error while one is made would end those after
it. The function is then asked again, of a `Loose` view: there what does not exist is `Absent`,
which stays absent whatever is done with it. Only a branch on it (`if q.gap > 0`, Python's `max`)
cannot be followed: there the forms that come later say nothing on the instance, either.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from fedtheory.errors import MissingCapability, NotCertified
from fedtheory.theory.judge.statement import Undefined
from fedtheory.theory.rounds.losses import Unbounded
from fedtheory.theory.rounds.rational_clients import NotInFractions

__all__ = ["SILENT", "Absent", "Loose", "Undefined", "absent_among"]

# errors that are about one instance, of forms that use the number
SILENT = (Undefined, Unbounded, NotCertified, MissingCapability)


class Absent:
    """A number that does not exist, and why; what is computed with it does not exist either."""

    __slots__ = ("error",)
    shape: tuple[int, ...] = ()
    ndim = 0

    def __init__(self, error: Exception) -> None:
        self.error = error

    def _same(self, *args: Any, **how: Any) -> Absent:
        return self

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def _raise(self) -> Any:
        raise self.error

    __bool__ = __float__ = __index__ = __iter__ = _raise
    __call__ = __getitem__ = __array_ufunc__ = __array_function__ = _same
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __pow__ = __rpow__ = _same
    __truediv__ = __rtruediv__ = __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = _same
    __matmul__ = __rmatmul__ = __neg__ = __pos__ = __abs__ = _same
    __lt__ = __le__ = __gt__ = __ge__ = _same


def absent_among(*values: Any) -> Absent | None:
    """The first of some numbers or arrays, or of their entries, that does not exist; None where all
    do."""
    for value in values:
        if isinstance(value, Absent):
            return value
        if isinstance(value, np.ndarray) and value.dtype == object:
            for entry in value.ravel():
                if isinstance(entry, Absent):
                    return entry
    return None


def _tried(make: Callable[[], Any]) -> Any:
    """What is made, or `Absent` where that does not exist."""
    try:
        return make()
    except ZeroDivisionError:
        return _NONE
    except SILENT as error:
        return Absent(error)


class Ratio(Fraction):
    """A fraction whose quotient by 0 is `Absent`, as is what NumPy's functions would make of it."""

    __slots__ = ()

    def __index__(self) -> int:
        if self.denominator != 1:
            raise TypeError(f"{self} is no whole number")
        return self.numerator

    def _no_fraction(self, *args: Any) -> Absent:
        return Absent(
            NotInFractions(
                "a function of NumPy, which gives no fractions; the verdicts in floats stand"
            )
        )

    sqrt = cbrt = exp = exp2 = expm1 = log = log2 = log10 = log1p = _no_fraction
    sin = cos = tan = tanh = sinh = cosh = arctan = _no_fraction


class Count(int):
    """A whole number whose quotient by 0 is infinite, or no number, as an array's is."""

    def __truediv__(self, other: Any) -> Any:
        return np.float64(self) / other

    def __rtruediv__(self, other: Any) -> Any:
        return other / np.float64(self)


def _closed(plain: Callable[..., Any], by_zero: Any) -> Callable[..., Any]:
    """A method of numbers whose results are loose, too."""

    def method(*args: Any) -> Any:
        try:
            return _loose(plain(*args))
        except ZeroDivisionError:
            return by_zero

    return method


_NONE = Absent(Undefined("a division by 0 on this instance"))
for _name in "add radd sub rsub mul rmul pow rpow neg pos abs truediv rtruediv".split():
    setattr(Ratio, f"__{_name}__", _closed(getattr(Fraction, f"__{_name}__"), _NONE))
    if "div" not in _name:
        setattr(Count, f"__{_name}__", _closed(getattr(int, f"__{_name}__"), np.float64(np.inf)))


def _loose(value: Any) -> Any:
    """The same numbers, with quotients by 0 that raise nothing."""
    if isinstance(value, Fraction):
        return Ratio(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return Count(value)
    if isinstance(value, float):
        return np.float64(value)
    if isinstance(value, np.ndarray) and value.dtype == object:
        return np.asarray(np.frompyfunc(_loose, 1, 1)(value), dtype=object)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_loose(v) for v in value))
    return value


class Loose:
    """A view, or a method with its hyperparameters, that raises nothing for what does not exist: it
    is `Absent`."""

    def __init__(self, what: Any) -> None:
        self._what = what

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        value = _tried(lambda: getattr(self._what, name))
        if isinstance(value, Absent):
            return value
        if name == "method":
            return Loose(value)
        return _asked(value) if callable(value) and not isinstance(value, type) else _loose(value)


def _asked(function: Callable[..., Any]) -> Callable[..., Any]:
    def method(*args: Any, **how: Any) -> Any:
        gone = absent_among(*args, *how.values())
        return _tried(lambda: _loose(function(*args, **how))) if gone is None else gone

    return method
