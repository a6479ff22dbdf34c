"""Several settings of one paper as one: each statement is judged by the part that knows its kind of view."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from inspect import isfunction, signature
from typing import Any

from fedtheory.theory.judge.case import Plan
from fedtheory.theory.judge.check import Check
from fedtheory.theory.judge.request import Request, Tuned
from fedtheory.theory.judge.search import SearchResult
from fedtheory.theory.judge.setting import Setting
from fedtheory.theory.judge.statement import Statement

__all__ = ["Joined"]


class Joined(Setting):
    """A setting made of parts, for a paper whose statements are about instances of quite different kinds.

    A statement belongs to the part that lists the kind of its first form among its ``kinds``; so does an instance, by its
    ``kind``, and a job of the search, by its first word. What no part lists is the first part's.

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
        return self.of_kind(statement.forms[0].kind)

    def _mine(self, part: Setting, statements: Sequence[Statement]) -> list[Statement]:
        return [s for s in statements if self.part(s) is part]

    def _first(self, asked: Callable[[Setting], Any]) -> Any:
        """The first answer of a part that is not None."""
        return next((found for part in self.parts if (found := asked(part)) is not None), None)

    def instances(self, plan: Plan) -> list[Any]:
        return [i for part in self.parts for i in part.instances(plan)]

    def check(self, instance: Any, statements: Sequence[Statement]) -> list[Check]:
        part = self.of_kind(getattr(instance, "kind", None))
        return part.check(instance, self._mine(part, statements))

    def tuned(self, method: str, request: Request, rounds: Any = None, batch_size: int | None = None) -> Tuned | None:
        return self._first(lambda part: part.tuned(method, request, rounds, batch_size))

    def step_sizes(self, algorithm: Any, problem: Any, participation: Any, rounds: int) -> Any:
        return self._first(lambda part: part.step_sizes(algorithm, problem, participation, rounds))

    def searches(self, statements: Sequence[Statement]) -> list[tuple[str, ...]]:
        shared = ((part, self._mine(part, statements)) for part in self.parts)
        return [job for part, mine in shared if mine for job in part.searches(mine)]

    def run_search(
        self, job: tuple[str, ...], statements: Sequence[Statement], budget: int, seed: int, violated: bool = False
    ) -> list[SearchResult]:
        part = self.of_kind(job[0])
        return part.run_search(job, self._mine(part, statements), budget, seed, violated)


def _delegated(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def of_part(self: Joined, about: Any, *args: Any, **more: Any) -> Any:
        part = self.part(about) if isinstance(about, Statement) else self.of_kind(about.kind)
        return getattr(part, method.__name__)(about, *args, **more)

    return of_part


for _name, _method in vars(Setting).items():  # those that are about a statement, or a witness
    if isfunction(_method) and [*signature(_method).parameters][1:2] in (["statement"], ["witness"]):
        setattr(Joined, _name, _delegated(_method))
