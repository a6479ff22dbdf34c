"""Checks of what a caller hands in, as finite real numbers, before any work starts.

There is one function each for arrays, numbers and integers.

They refuse what NumPy would turn to a float without a word (complex numbers, text, dates, masked
entries, True for 1) and name what NumPy answers with an error of its own (ragged lists, sparse
matrices, None).
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import fields
from fractions import Fraction
from numbers import Real
from pathlib import Path
from typing import Any

import array_api_compat
import numpy as np

from fedtheory.arrays import Array, namespace, to_numpy
from fedtheory.errors import InvalidInput
from fedtheory.limits import must_fit

__all__ = [
    "LARGEST", "blocks", "check_array_size", "check_finite", "check_flags", "check_problem",
    "check_unit", "data_array", "file_path", "finite", "flag", "numbered", "points", "real_array",
    "real_number", "require", "shown", "unbounded", "whole_number",
]

LARGEST = 1e100  # of data: squares and sums of squares stay far below the largest float64, 1.8e308
SMALLEST = 1e-100  # the largest entry of data that are not all 0: its square must not underflow
# the largest whole number, where nothing else is said: products of several stay below the largest
# float64
COUNTED = 10**100
MOST_GIB = 16.0  # of one array that is made from a few numbers
WIDE = 80  # characters of a value that an error shows


def shown(value: Any) -> str:
    """The value as an error shows it: its repr, shortened; 'the class FedAvg' of a class."""
    if isinstance(value, type):
        return f"the class {value.__name__}"
    try:
        text = " ".join(repr(value).split())
    except ValueError:  # Python writes no whole number of more than 4,300 digits
        text = "a number of more than 4,300 digits"
    return text if len(text) <= WIDE else text[: WIDE - 3] + "..."


def require(condition: bool, name: str, value: Any, limit: str) -> None:
    """Raise `InvalidInput` that names the argument, its value and its limit."""
    if not condition:
        raise InvalidInput(f"{name} = {shown(value)}: {limit}")


def check_problem(value: Any) -> None:
    """Raise `InvalidInput` unless it has what every problem has, and none but a problem: its
    optimum can be asked for."""
    ok = (
        not isinstance(value, type)
        and all(hasattr(value, name) for name in ("dim", "objective", "structure"))
    )
    require(
        ok, "problem", value,
        "a problem is needed, for example problems.LeastSquares(features, targets)",
    )


def check_finite(name: str, values: np.ndarray) -> None:
    """Raise `InvalidInput` that says where the first NaN or infinity is."""
    bad = ~np.isfinite(values)
    if bad.any():
        where = tuple(int(i) for i in np.argwhere(bad)[0])
        raise InvalidInput(
            f"{name}{list(where) if where else ''} is {values[where]}: data must be finite; clean "
            "or drop that entry"
        )


def _refuse(name: str, what: str, remedy: str) -> InvalidInput:
    return InvalidInput(f"{name} {what}: real numbers are needed; {remedy}")


def real_array(name: str, value: Any, finite: bool = True) -> np.ndarray:
    """A float64 array of what was given (an array of any library, nested lists, a number); not
    copied where it is one.

    Raises
    ------
    InvalidInput
        Complex numbers, text, dates, ragged lists, sparse matrices, masked entries, other objects,
        and, unless finite=False, NaN and infinity.
    """
    if _is_sparse(value):
        raise _refuse(
            name, f"is a sparse matrix of type {type(value).__name__}",
            "make it dense with .toarray()",
        )
    if np.ma.is_masked(value):
        raise _refuse(name, "has masked entries", "fill them or drop them")
    try:
        raw = to_numpy(value)
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        ragged = "inhomogeneous" in str(error) or "sequence" in str(error)
        what = (
            "is ragged, its rows differ in length" if ragged
            else f"cannot be read as an array ({error})"
        )
        raise _refuse(name, what, "give every row the same number of entries") from error
    kind = raw.dtype.kind
    if kind == "O":
        raw = _from_objects(name, raw)
    elif kind == "c":
        raise _refuse(
            name, f"holds complex numbers ({raw.dtype})",
            "give the real part, or real and imaginary parts apart",
        )
    elif kind in "SUT":
        raise _refuse(
            name, f"holds text, as {shown(raw.flat[0].item() if raw.size else '')}",
            "convert it to numbers first",
        )
    elif kind not in "biuf":
        raise _refuse(name, f"holds entries of type {raw.dtype}", "convert them to numbers first")
    out = np.asarray(raw, dtype=float)
    if finite:
        check_finite(name, out)
    return out


def data_array(name: str, value: Any) -> np.ndarray:
    """`real_array` of data that are squared later on: finite, and of a size whose squares neither
    overflow nor vanish.

    Raises
    ------
    InvalidInput
        As `real_array`; an entry above `LARGEST`; entries that are all below `SMALLEST`, and not
        all 0.
    """
    out = real_array(name, value)
    largest = float(np.abs(out).max(initial=0.0))
    if largest > LARGEST:
        where = [int(i) for i in np.unravel_index(int(np.argmax(np.abs(out))), out.shape)]
        raise InvalidInput(
            f"{name}{where} is {out[tuple(where)]:g}: entries must be at most {LARGEST:g} in size, "
            "so that their squares do not overflow; rescale the data"
        )
    if 0 < largest < SMALLEST:
        raise InvalidInput(
            f"{name} has no entry above {largest:g}: the largest must be 0 or at least "
            f"{SMALLEST:g}, so that its square does not vanish; rescale the data"
        )
    return out


def _is_sparse(value: Any) -> bool:
    """True if it is a SciPy sparse matrix or array, or a sparse tensor."""
    if hasattr(value, "nnz") and hasattr(value, "toarray"):
        return True
    return bool(getattr(value, "is_sparse", False))


def _from_objects(name: str, raw: np.ndarray) -> np.ndarray:
    """Fractions and Python integers of any length as floats."""
    out = np.empty(raw.shape)
    for where, entry in np.ndenumerate(raw):
        at = f"{name}{list(where)}" if where else name
        if _is_sparse(entry):
            raise _refuse(
                at, f"is a sparse matrix of type {type(entry).__name__}",
                "make it dense with .toarray()",
            )
        if isinstance(entry, list | tuple | np.ndarray):
            raise _refuse(
                name, "is ragged, its rows differ in length",
                "give every row the same number of entries",
            )
        if not isinstance(entry, Real):
            raise _refuse(
                at, f"is {shown(entry)} of type {type(entry).__name__}", "replace it by a number"
            )
        try:
            out[where] = float(entry)
        except OverflowError:
            raise InvalidInput(
                f"{at} is beyond the largest float64, 1.8e308: rescale the data"
            ) from None
    return out


def blocks(name: str, value: Any) -> Sequence[Any]:
    """One entry a client: an array (N, ...), or a list or tuple of N.

    Raises
    ------
    InvalidInput
        Anything else, a single sparse matrix among it.
    """
    if _is_sparse(value):
        raise _refuse(
            name, f"is a single sparse matrix of type {type(value).__name__}",
            "give a list of dense arrays, one a client",
        )
    if isinstance(value, list | tuple) or getattr(value, "ndim", 0) >= 1:
        return value
    raise InvalidInput(
        f"{name} is {shown(value)}: give an array with the clients first, or a list of arrays, one "
        "a client"
    )


def real_number(
    name: str, value: Any, least: float | None = None, above: float | None = None,
    most: float | None = None, below: float | None = None, remedy: str = "",
) -> float:
    """A finite real number as a Python float, within limits: >= least, > above, <= most, < below.

    Raises
    ------
    InvalidInput
        Text, complex numbers, True and False, arrays, NaN and infinity; a number outside the
        limits.
    """
    if isinstance(value, Real) and not isinstance(value, bool | np.bool_):
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        ok = math.isfinite(number)
        ok = ok and (least is None or number >= least) and (above is None or number > above)
        if ok and (most is None or number <= most) and (below is None or number < below):
            return number
    low = f"[{least:g}" if least is not None else f"({above:g}" if above is not None else ""
    high = f"{most:g}]" if most is not None else f"{below:g})" if below is not None else ""
    wanted = "be a finite number"
    if low and high:
        wanted = f"lie in {low}, {high}"
    elif low or high:
        signs = [(">=", least), (">", above), ("<=", most), ("<", below)]
        wanted += "".join(f" {sign} {limit:g}" for sign, limit in signs if limit is not None)
    tail = f"; {remedy}" if remedy else ""
    raise InvalidInput(f"{name} is {shown(value)}: it must {wanted}{tail}")


def step_at(name: str, step: Any, round_index: int) -> Any:
    """A step size, or what a callable round (from 1) -> step size gives for the round, a float or a
    fraction.

    Raises
    ------
    InvalidInput
        The callable gives what is no finite number > 0.
    """
    if not callable(step):
        return step
    value = step(round_index)
    told = f"{name}({round_index})"
    size = real_number(told, value, above=0, remedy="a schedule must give such numbers")
    return value if isinstance(value, Fraction) else size


def file_path(name: str, value: Any, what: str) -> Path:
    """A path, from text or a path; no file handle, number or None."""
    if not isinstance(value, str | os.PathLike):
        raise InvalidInput(f"{name} = {shown(value)}: give the name of {what}")
    return Path(value)


def unbounded(value: Any) -> bool:
    """True for an infinite number, and for no array of such."""
    return isinstance(value, float) and value == math.inf


def flag(name: str, value: Any) -> bool:
    """True or False, and nothing that merely counts as one of them: 'no' would be True.

    Raises
    ------
    InvalidInput
        Anything else, 0 and 1 among it.
    """
    if not isinstance(value, bool | np.bool_):
        raise InvalidInput(f"{name} is {shown(value)}: use True or False")
    return bool(value)


def check_flags(owner: Any) -> None:
    """`flag` of every field of a dataclass that is declared as a bool."""
    for f in fields(owner):
        if f.type in ("bool", bool):
            flag(f.name, getattr(owner, f.name))


def finite(value: Any) -> bool:
    """True if it is a real number that a float holds: no True, and no whole number that is too
    large."""
    try:
        return (
            isinstance(value, Real) and not isinstance(value, bool | np.bool_)
            and math.isfinite(float(value))
        )
    except OverflowError:
        return False


def whole_number(
    name: str, value: Any, least: int = 1, most: int | None = None, remedy: str = ""
) -> int:
    """An integer as a Python int, within limits.

    Raises
    ------
    InvalidInput
        Floats, text, True and False; a number outside the limits.
    """
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        number = int(value)
        if least <= number <= (COUNTED if most is None else most):
            return number
        most = COUNTED if most is None and number > COUNTED else most
    limit = (
        f">= {least}" if most is None else f"from {least} to {most if most < COUNTED else '1e100'}"
    )
    tail = f"; {remedy}" if remedy else ""
    raise InvalidInput(f"{name} is {shown(value)}: it must be an integer {limit}{tail}")


def check_array_size(what: str, *sides: int, remedy: str = "take fewer", times: int = 1) -> None:
    """Raise `InvalidInput` before an array of float64 with these sides would be made that is larger
    than `MOST_GIB`, or that does not fit ``times`` times into the memory that is free."""
    numbers = min(math.prod(sides), 10**300)  # whole numbers may be larger than floats
    size = 8 * numbers / 2**30
    shape = " x ".join(shown(side) for side in sides)
    if size > MOST_GIB:
        raise InvalidInput(
            f"{what} takes an array of {shape} numbers, {size:.3g} GiB, the limit is {MOST_GIB:g} "
            f"GiB: {remedy}"
        )
    must_fit(f"{what}: an array of {shape} numbers", times * float(numbers), remedy)


def numbered(name: str, numbers: Any, count: int, what: str) -> np.ndarray:
    """At least one number of a client or sample, each from 0 to count - 1: (P,)."""
    out = np.asarray(numbers)
    known = out.ndim == 1 and out.dtype.kind in "iu" and out.size
    if not (known and 0 <= out.item(out.argmin()) <= out.item(out.argmax()) < count):
        raise InvalidInput(
            f"{name} is {shown(out)}: give at least one {what}'s number, from 0 to {count - 1}"
        )
    return out


def check_unit(name: str, value: Any) -> float:
    """A confidence or level as a float in (0, 1)."""
    if (
        not isinstance(value, Real) or isinstance(value, bool | np.bool_)
        or not 0 < float(value) < 1
    ):
        raise InvalidInput(
            f"{name} is {shown(value)}: it must lie strictly between 0 and 1, for example 0.95"
        )
    return float(value)


def points(name: str, value: Any) -> Array:
    """Points to evaluate at, as floating-point numbers of their own array library: integers become
    float64, lists NumPy arrays.

    A floating-point array comes back as it is; NaN and infinity are let through, as a run that
    diverges holds them.

    Raises
    ------
    InvalidInput
        Complex numbers, text, ragged lists and whatever else is no array of real numbers.
    """
    if type(value) is np.ndarray and value.dtype.kind == "f":
        return value  # the usual case, at the cost of one comparison
    if (
        isinstance(value, np.ndarray | np.generic) or not array_api_compat.is_array_api_obj(value)
        or _is_sparse(value)
    ):
        return real_array(name, value, finite=False)
    xp = namespace(value)
    if xp.isdtype(value.dtype, "real floating"):
        return value
    if xp.isdtype(value.dtype, "complex floating"):
        raise _refuse(name, f"holds complex numbers ({value.dtype})", "give the real part")
    return xp.astype(value, xp.float64)
