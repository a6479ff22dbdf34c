"""Work on every entry as one kernel on a GPU: torch.compile makes one of a function's operations, which alone would each pass over
the memory once."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

import torch

__all__ = ["fused"]

DEVICES = ("cuda",)  # a CPU's compiled walks are Numba's
BACKEND = "inductor"


def fused(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, compiled on the devices where that pays.

    It returns new tensors, or changes arguments that share no memory: where it changed several views of one tensor, torch 2.13 made a
    graph with other numbers. Where compiling fails (no Triton, say), a warning says so once and the function is called as it is: it
    fails before it has begun.
    """
    made: dict[str, Callable[..., Any]] = {}

    @functools.wraps(function)
    def call(*arguments: Any) -> Any:
        device = next(a.device.type for a in arguments if isinstance(a, torch.Tensor))
        if device not in DEVICES or made.get("now") is function:
            return function(*arguments)
        try:
            if "now" not in made:
                made["now"] = torch.compile(function, fullgraph=True, backend=BACKEND)
            return made["now"](*arguments)
        except torch.OutOfMemoryError:
            raise
        except Exception as error:  # whatever a compiler raises
            made["now"] = function
            warnings.warn(
                f"{function.__name__} cannot be compiled for this GPU ({type(error).__name__}: {str(error)[:200]}), so that its "
                "operations are launched one by one, which is slower; the numbers are the same",
                UserWarning,
                stacklevel=2,
            )
            return function(*arguments)

    call.made = made  # type: ignore[attr-defined]  # for tests, which compile anew
    return call
