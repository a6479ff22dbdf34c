"""The options of a command as a specification may set them: their names, types and defaults, read
from the command itself."""

from __future__ import annotations

import inspect
import math
import re
import types
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from fedtheory.errors import InvalidInput, suggest
from fedtheory.inputs import COUNTED

__all__ = ["Option", "as_keys", "options_of", "taken"]

_OPTION = re.compile(r"`[^`]*`|--([a-z][a-z0-9-]*)(?: (-?[0-9][^ ,;:)]*|[a-z][a-z0-9-]*))?")


@dataclass(frozen=True)
class Option:
    """One option of a command: its type without None, its choices (empty for none), its default, and its range."""

    name: str
    kind: type
    choices: tuple[Any, ...]
    default: Any
    least: float = -math.inf
    most: float = math.inf


@cache
def options_of(command: str) -> dict[str, Option]:
    """The options of `fedtheory run` or `fedtheory bench`, by name."""
    from fedtheory.cli.app import app

    (callback,) = [c.callback for c in app.registered_commands if c.name == command]
    assert callback is not None
    signature = inspect.signature(callback, eval_str=True)
    return {name: _option(name, p) for name, p in signature.parameters.items() if p.kind is not inspect.Parameter.VAR_KEYWORD}


def _option(name: str, parameter: inspect.Parameter) -> Option:
    hint, limits = parameter.annotation, {}
    if get_origin(hint) is Annotated:
        hint, *told = get_args(hint)
        bounds = {"least": next((t.min for t in told if hasattr(t, "min")), None)}
        bounds |= {"most": next((t.max for t in told if hasattr(t, "max")), None)}
        limits = {k: v for k, v in bounds.items() if v is not None}
    if get_origin(hint) in (Union, types.UnionType):
        (hint,) = [a for a in get_args(hint) if a is not types.NoneType]
    choices = get_args(hint) if get_origin(hint) is Literal else ()
    default = None if parameter.default is inspect.Parameter.empty else getattr(parameter.default, "default", parameter.default)
    return Option(name, str if choices or not isinstance(hint, type) else hint, choices, None if default is ... else default, **limits)


def as_keys(command: str, message: str) -> str:
    """A message of a command with its options as a specification has them: 'alpha = 0.1' for
    '--alpha 0.1', 'data' for '--data'."""
    known = options_of(command)

    def key(found: re.Match[str]) -> str:
        name, value = (found[1] or "").replace("-", "_"), found[2]
        if name not in known or name in ("out", "json", "figures"):  # the sweep's own
            return found[0]
        if known[name].kind is bool:
            return f"{name} = true" + f" {value}" * bool(value)
        if value is None:
            return name
        if value[0].isalpha():
            return f'{name} = "{value}"' if value in known[name].choices else f"{name} {value}"
        return f"{name} = {value}"

    return _OPTION.sub(key, message)


def taken(command: str, name: str, value: Any, where: str) -> Any:
    """A value of an option as the command would take it."""
    known = options_of(command)
    key = name.replace("-", "_")
    if key not in known:
        there = f"they are the options of `fedtheory {command} --help-all`"
        raise suggest(name, known, f"key of {where}", there)
    option = known[key]
    if isinstance(value, float) and math.isnan(value):
        raise InvalidInput(f"{where}: {name} = nan: it must be a finite number")
    if isinstance(value, int | float) and not option.least <= value <= option.most:
        limit = f"at least {option.least:g}" if value < option.least else f"at most {option.most:g}"
        raise InvalidInput(f"{where}: {name} = {value!r}: it must be {limit}")
    if option.choices:
        if value not in option.choices:
            raise InvalidInput(f"{where}: {name} = {value!r}: choose one of {', '.join(map(str, option.choices))}")
        return value
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if isinstance(value, int) and abs(value) > COUNTED:
        raise InvalidInput(f"{where}: {name} is a whole number of more than 100 digits")
    if option.kind is float and number:
        return float(value)
    if option.kind in (str, Path) and (isinstance(value, str) or number):
        return str(value)
    if type(value) is option.kind:
        return value
    wanted = {int: "a whole number", float: "a number", bool: "true or false", str: "a text", Path: "a text"}.get(option.kind, "a text")
    raise InvalidInput(f"{where}: {name} = {value!r}: it must be {wanted}, or a list of them")
