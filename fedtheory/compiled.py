"""Numba where there is one; elsewhere the same loops as Python or NumPy run them, slower, after one
notice.

A browser's Python has no Numba, and a Numba that is older than its NumPy refuses to be imported.
"""

from __future__ import annotations

import hashlib
import sys
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

__all__ = ["Worth", "available", "njit", "tell_once"]


@cache
def _why_not() -> str:
    """Why Numba cannot be imported; '' where it can. It is imported here."""
    try:
        import numba  # noqa: F401
    except ImportError as error:
        return " ".join(str(error).split())
    return ""


def available() -> bool:
    """True if Numba can be imported, which is tried once; where it cannot, `tell_once` says so."""
    if _why_not():
        tell_once()
    return not _why_not()


class Worth:
    """True if loops that NumPy has, too, are worth Numba by now: it is imported already, or was
    asked for so many calls."""

    def __init__(self, calls: int) -> None:
        self.left, self.there = calls, False

    def __call__(self) -> bool:
        if not self.there and ("numba" in sys.modules or self.left <= 0):
            self.there = available()
        self.left -= 1
        return self.there


@cache
def tell_once() -> None:
    """A warning that loops are not compiled, at the first call."""
    warnings.warn(
        f"no compiled loops ({_why_not()}): the same loops run uncompiled, with the same results "
        "to rounding, and slower. Where Numba exists, `pip install --upgrade numba` brings them "
        "back",
        stacklevel=3,
    )


def njit(**options: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """`numba.njit(**options)`, or a decorator that leaves the function as it is.

    With ``cache=True`` what is kept on the disk goes by all that it was compiled from; Numba itself
    looks at the function's own file.
    """
    if not available():
        return lambda function: function
    import numba

    def made(function: Callable[..., Any]) -> Any:
        found = numba.njit(**options)(function)
        kept = getattr(getattr(found, "_cache", None), "_cache_file", None)
        if kept is not None and hasattr(kept, "_source_stamp"):
            kept._source_stamp = (kept._source_stamp, *_sources(function))
        return found

    return made


def _sources(function: Any, above: tuple[Any, ...] = ()) -> list[str]:
    """The constants that a function names, and the files of other compiled functions that it does,
    with what these name."""
    found: list[str] = []
    for name in function.__code__.co_names:
        value = function.__globals__.get(name)
        # of a compiled function, of an intrinsic
        inner = getattr(value, "py_func", getattr(value, "_defn", None))
        if inner is not None and inner not in (function, *above):  # some call themselves
            found += [_digest(inner.__code__.co_filename), *_sources(inner, (function, *above))]
        elif isinstance(value, int | float | str | tuple):
            found.append(f"{name} = {value!r}")
    return found


@cache
def _digest(file: str) -> str:
    return hashlib.sha256(Path(file).read_bytes()).hexdigest() if Path(file).is_file() else ""
