"""Work on every entry as one kernel on a GPU: torch.compile makes one of a function's operations,
which alone would each pass over the memory once."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from types import FunctionType
from typing import Any

import torch

__all__ = ["fused"]

DEVICES = ("cuda",)  # a CPU's compiled walks are Numba's
BACKEND = "inductor"


def fused(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, compiled on the devices where that pays.

    It returns new tensors, or changes arguments that share no memory: where it changed several
    views of one tensor, torch 2.13 made a graph with other numbers. Where compiling fails (no
    Triton, say), a warning says so once and the function is called as it is: it fails before it has
    begun.
    """
    made: dict[Any, Callable[..., Any]] = {}

    @functools.wraps(function)
    def call(*arguments: Any) -> Any:
        device = next(a.device.type for a in arguments if isinstance(a, torch.Tensor))
        if device not in DEVICES or made.get("refused"):
            return function(*arguments)
        kind = tuple(_kind(a) for a in arguments)
        if kind in made:  # it has run: an error now is the device's, and may have left the arguments half changed
            return made[kind](*arguments)
        try:
            compiled = torch.compile(_copied(function), fullgraph=True, backend=BACKEND)
            found = compiled(*arguments)
            made[kind] = compiled
            return found
        except torch.OutOfMemoryError:
            raise
        except Exception as error:  # whatever a compiler raises
            made["refused"] = function
            warnings.warn(
                f"{function.__name__} cannot be compiled for this GPU ({type(error).__name__}: "
                f"{str(error)[:200]}), so that its operations are launched one by one, which is "
                "slower; the numbers are the same",
                UserWarning, stacklevel=2,
            )
            return function(*arguments)

    call.made = made  # type: ignore[attr-defined]  # for tests, which compile anew
    return call


def _kind(argument: Any) -> Any:
    """Return what of an argument makes another graph. Not a tensor's length nor a number's value,
    but for those that torch specialises on."""
    if isinstance(argument, torch.Tensor):
        return argument.dtype, tuple(size == 1 for size in argument.shape)
    return (type(argument), argument if argument in (0, 1) else None)


def _copied(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with code of its own: torch compiles a code object eight times at most, and raises at the ninth."""
    assert isinstance(function, FunctionType)
    code = function.__code__.replace()
    return FunctionType(code, function.__globals__, function.__name__, function.__defaults__, function.__closure__)
