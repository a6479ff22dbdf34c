"""Several settings of one paper as one: each statement is judged by the part that knows its kind of view."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import isfunction, signature
from operator import attrgetter, itemgetter
from typing import Any

from fedtheory.theory.judge.case import Plan
from fedtheory.theory.judge.setting import Setting
from fedtheory.theory.judge.statement import Statement

__all__ = ["Joined"]


class Joined(Setting):
    """A setting made of parts, for a paper whose statements are about instances of quite different kinds.

    A statement belongs to the part that lists the kind of its first form among its ``kinds``. So
    does an instance or a witness, by its ``kind``, and a job of the search, by its first word. What
    no part lists is the first part's.

    Parameters
    ----------
    parts : the settings, no two of which list the same kind
    """

    def __init__(self, *parts: Setting) -> None:
        self.parts = parts
        self.kinds = tuple(kind for part in parts for kind in part.kinds)
        self.own_method, self.scenarios = parts[0].own_method, parts[0].scenarios
        self.computed = {method: options for part in parts for method, options in part.computed.items()}

    @property
    def paper(self) -> str:
        """The paper's id."""
        return self.parts[0].paper

    @paper.setter
    def paper(self, id: str) -> None:
        for part in self.parts:
            part.paper = id

    def of_kind(self, kind: Any) -> Setting:
        """The part that lists the kind, else the first."""
        return next((part for part in self.parts if kind in part.kinds), self.parts[0])

    def part(self, statement: Statement) -> Setting:
        """The part that judges the statement."""
        return self.of_kind(_KIND["statement"](statement))

    def instances(self, plan: Plan) -> list[Any]:
        return [i for part in self.parts for i in part.instances(plan)]


def _delegated(method: Callable[..., Any], kind: Callable[[Any], Any]) -> Callable[..., Any]:
    """The method of the part that knows the kind of its first argument."""

    @wraps(method)
    def of_part(self: Joined, about: Any, *args: Any, **more: Any) -> Any:
        return getattr(self.of_kind(kind(about)), method.__name__)(about, *args, **more)

    return of_part


def _first(method: Callable[..., Any]) -> Callable[..., Any]:
    """The first answer of a part that is not None."""

    @wraps(method)
    def of_parts(self: Joined, *args: Any, **more: Any) -> Any:
        found = (getattr(part, method.__name__)(*args, **more) for part in self.parts)
        return next((one for one in found if one is not None), None)

    return of_parts


_KIND: dict[str, Callable[[Any], Any]] = {  # of a method's first argument, by its name
    "statement": lambda statement: statement.forms[0].kind,
    "witness": attrgetter("kind"),
    "instance": attrgetter("kind"),
    "job": itemgetter(0),
}
for _name, _method in vars(Setting).items():
    _about = [*signature(_method).parameters][1:2] if isfunction(_method) else []
    if _about and _about[0] in _KIND:
        setattr(Joined, _name, _delegated(_method, _KIND[_about[0]]))
for _method in (Setting.tuned, Setting.step_sizes):
    setattr(Joined, _method.__name__, _first(_method))
