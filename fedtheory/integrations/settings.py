"""Settings of an adapter: those that the functions it is made of have parameters for."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from fedtheory.errors import InvalidInput, MissingCapability

__all__ = ["equal_steps", "needed_package", "of_these", "taking"]

BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def needed_package(name: str, install: str) -> Any:
    """The module of that name; `MissingCapability` with what to install where there is none."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise MissingCapability(f"{name} cannot be imported ({error}): pip install '{install}'") from error


def _parameters(function: Callable[..., Any], first: int, what: str) -> tuple[list[inspect.Parameter], bool]:
    """List what a function takes by name after its first parameters; say if it takes anything."""
    if not callable(function):
        raise InvalidInput(f"{what} = {function!r}: it cannot be called; give a function or a class")
    try:
        found = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError) as error:
        raise InvalidInput(
            f"{what} = {function!r} has no signature to read ({error}): wrap it in a function"
        ) from error
    placed = [
        p for p in found if p.kind in (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    ]
    if len(placed) < first:
        raise InvalidInput(f"{what}{inspect.signature(function)}: it needs {first} parameters before the settings")
    rest = [p for p in found if p not in placed[:first]]
    return [p for p in rest if p.kind in BY_NAME], any(p.kind is p.VAR_KEYWORD for p in rest)


def of_these(function: Callable[..., Any], settings: Mapping[str, Any], first: int, what: str) -> dict[str, Any]:
    """The settings that a function takes after its first parameters."""
    named, everything = _parameters(function, first, what)
    return {name: value for name, value in settings.items() if everything or name in {p.name for p in named}}


def taking(run: Callable[..., Any], *parts: tuple[Callable[..., Any], int, str],
           hidden: tuple[str, ...] = (), also: tuple[str, ...] = ()) -> Callable[..., Any]:
    """A function ``run(start, clients, cohorts, **settings)`` that says which settings it takes.

    Parameters
    ----------
    parts : (function, how many of its first parameters are no settings, what to call it in an
        error); the first one gives the run its name
    hidden : names that are no settings though a part has them
    also : settings that the run itself takes
    """
    keyword = inspect.Parameter.KEYWORD_ONLY
    taken = {n: inspect.Parameter(n, keyword, default=None) for n in also}
    everything = False
    for function, first, what in parts:
        named, any_name = _parameters(function, first, what)
        everything |= any_name
        for p in named:
            if p.name not in hidden and (p.name not in taken or p.default is inspect.Parameter.empty):
                taken[p.name] = inspect.Parameter(p.name, keyword, default=p.default)
    fixed = [inspect.Parameter(n, inspect.Parameter.POSITIONAL_OR_KEYWORD) for n in ("start", "clients", "cohorts")]
    rest = [inspect.Parameter("settings", inspect.Parameter.VAR_KEYWORD)] if everything else []
    run.__signature__ = inspect.Signature([*fixed, *taken.values(), *rest])  # type: ignore[attr-defined]
    run.__name__ = getattr(parts[0][0], "__name__", type(parts[0][0]).__name__)
    return run


def equal_steps(steps: Any, framework: str) -> None:
    """Raise `InvalidInput` for a number of local steps of its own for each client."""
    if isinstance(steps, list | tuple):
        raise InvalidInput(
            f"local_steps = {steps}: {framework}'s clients take the same number of local epochs"
        )
