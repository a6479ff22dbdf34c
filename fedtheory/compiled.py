"""Numba where there is one; elsewhere the same loops as Python or NumPy run them, slower, after one notice.

A browser's Python has no Numba, and a Numba that is older than its NumPy refuses to be imported.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from functools import cache
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
    """Whether Numba can be imported, which is tried once; where it cannot, `tell_once` says so."""
    if _why_not():
        tell_once()
    return not _why_not()


class Worth:
    """Whether loops that NumPy has, too, are worth Numba by now: it is imported already, or was asked for so many calls."""

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
        f"no compiled loops ({_why_not()}): the same loops run uncompiled, with the same results to rounding, and slower. "
        "Where Numba exists, `pip install --upgrade numba` brings them back",
        stacklevel=3,
    )


def njit(**options: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """`numba.njit(**options)`, or a decorator that leaves the function as it is."""
    if not available():
        return lambda function: function
    import numba

    return numba.njit(**options)
