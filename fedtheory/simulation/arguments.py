"""Arguments of another kind than asked for, told in words before work starts."""

from __future__ import annotations

import textwrap
from dataclasses import MISSING, fields
from typing import Any

from array_api_compat import is_array_api_obj

from fedtheory.arrays import namespace
from fedtheory.errors import InvalidInput
from fedtheory.local.objective import LocalSolver
from fedtheory.participation.cohorts import Sampling

__all__ = ["check_algorithm", "check_like", "check_local_solver", "check_sampling"]


def _is(value: Any) -> str:
    """'the class FedAvg', or the value with its type."""
    if isinstance(value, type):
        return f"the class {value.__name__}"
    return f"{textwrap.shorten(repr(value), 60, placeholder=' ...')} of type {type(value).__name__}"


def _call(cls: type) -> str:
    """'(mu=...)': what an instance of a dataclass needs."""
    needed = [f.name for f in fields(cls) if f.init and f.default is MISSING and f.default_factory is MISSING]
    return f"({', '.join(f'{name}=...' for name in needed)})"


def check_like(value: Any) -> None:
    """Raise `InvalidInput` unless it is None or an array of floating-point numbers."""
    if value is None:
        return
    if not is_array_api_obj(value):
        raise InvalidInput(f"like = {_is(value)}: give an array of the library, dtype and device to run in, or None for NumPy")
    xp = namespace(value)
    if value.dtype not in (xp.float64, xp.float32):  # optima, local solves and certificates are of these
        raise InvalidInput(f"like has dtype {value.dtype}: a run needs floating-point numbers of float64 or float32")


def check_algorithm(value: Any) -> None:
    """Raise `InvalidInput` unless it is an instance of a method.

    Raises
    ------
    InvalidInput
        With the call that makes one, where the method can be told from what was given.
    UnknownName
        The name of no method.
    """
    from fedtheory import algorithms

    if isinstance(value, algorithms.Algorithm):
        return
    remedy = "make one, as algorithms.get('fedavg')()"
    if isinstance(value, str):
        cls = algorithms.get(value)
        remedy = f"use algorithms.get({cls.name!r}){_call(cls)}"
    elif isinstance(value, type) and issubclass(value, algorithms.Algorithm):
        remedy = f"use {value.__name__}{_call(value)}"
    raise InvalidInput(f"algorithm = {_is(value)}: an instance of a method is needed; {remedy}")


def check_sampling(value: Any) -> None:
    """Raise `InvalidInput` unless it is None or a law of cohorts."""
    if value is not None and not isinstance(value, Sampling):
        number = isinstance(value, int) and not isinstance(value, bool)
        remedy = f"for cohorts of {value} clients use Uniform({value})" if number else "use Full(), Uniform(P) or Bernoulli(p)"
        raise InvalidInput(f"sampling = {_is(value)}: a law of cohorts is needed; {remedy}")


def check_local_solver(value: Any) -> None:
    """Raise `InvalidInput` unless it is None or a local solver."""
    if value is not None and not isinstance(value, LocalSolver):
        raise InvalidInput(
            f"local_solver = {_is(value)}: an instance of a local solver is needed; use local.Exact(), "
            "local.GradientSteps(steps=..., lr=...), for a network local.SGD(batch_size, lr, epochs=...) or local.Adam(...), or "
            "another of fedtheory.local"
        )
