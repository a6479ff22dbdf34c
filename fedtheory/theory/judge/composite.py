"""Several settings of one paper as one: each statement is judged by the part that knows its kind of view."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

from fedtheory.theory.judge.case import Case, Plan
from fedtheory.theory.judge.check import Check
from fedtheory.theory.judge.record import OwnRun, Record
from fedtheory.theory.judge.request import Prepared, Request, Tuned
from fedtheory.theory.judge.search import SearchResult
from fedtheory.theory.judge.setting import LocalWork, Setting
from fedtheory.theory.judge.statement import Form, Sides, Statement
from fedtheory.theory.judge.witness import Witness

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

    def _shared(self, statements: Sequence[Statement]) -> list[tuple[Setting, list[Statement]]]:
        """The parts that have some of the statements, with these."""
        found = [(part, [s for s in statements if self.part(s) is part]) for part in self.parts]
        return [(part, mine) for part, mine in found if mine]

    # --- the campaign ---------------------------------------------------------------------------------------------------
    def instances(self, plan: Plan) -> list[Any]:
        return [i for part in self.parts for i in part.instances(plan)]

    def check(self, instance: Any, statements: Sequence[Statement]) -> list[Check]:
        part = self.of_kind(getattr(instance, "kind", None))
        return part.check(instance, [s for s in statements if self.part(s) is part])

    # --- a problem of the user's ----------------------------------------------------------------------------------------
    def refusal(self, statement: Statement) -> str | None:
        return self.part(statement).refusal(statement)

    def asks(self, statement: Statement) -> tuple[str, ...]:
        return self.part(statement).asks(statement)

    def declares(self, statement: Statement) -> dict[str, str]:
        return self.part(statement).declares(statement)

    def symbols(self, statement: Statement) -> dict[str, str]:
        return self.part(statement).symbols(statement)

    def takes(self, statement: Statement) -> dict[str, str]:
        return self.part(statement).takes(statement)

    def refuses(self, statement: Statement) -> tuple[str, ...]:
        return self.part(statement).refuses(statement)

    def local_work(self, statement: Statement) -> LocalWork | None:
        return self.part(statement).local_work(statement)

    def instance(self, statement: Statement, form: Form, case: Case) -> Any:
        return self.part(statement).instance(statement, form, case)

    def verify(self, statement: Statement, forms: Sequence[Form], case: Case) -> list[Check]:
        return self.part(statement).verify(statement, forms, case)

    def own_run(self, statement: Statement, form: Form, case: Case, record: Record) -> OwnRun:
        return self.part(statement).own_run(statement, form, case, record)

    def witness(self, statement: Statement, form: Form, case: Case) -> Witness:
        return self.part(statement).witness(statement, form, case)

    def prepare(self, statement: Statement, request: Request) -> Prepared:
        return self.part(statement).prepare(statement, request)

    def scope_in_words(self, statement: Statement) -> str:
        return self.part(statement).scope_in_words(statement)

    def example(self, statement: Statement) -> str | None:
        return self.part(statement).example(statement)

    def tuned(self, method: str, request: Request, rounds: Any = None, batch_size: int | None = None) -> Tuned | None:
        found = (part.tuned(method, request, rounds, batch_size) for part in self.parts)
        return next((made for made in found if made is not None), None)

    def step_sizes(self, algorithm: Any, problem: Any, participation: Any, rounds: int) -> Any:
        found = (part.step_sizes(algorithm, problem, participation, rounds) for part in self.parts)
        return next((steps for steps in found if steps is not None), None)

    # --- instances in fractions -----------------------------------------------------------------------------------------
    def exact_view(self, statement: Statement, form: Form, witness: Witness) -> Any:
        return self.part(statement).exact_view(statement, form, witness)

    def exact_check(self, statement: Statement, witness: Witness) -> tuple[Check, Fraction, Fraction, Fraction]:
        return self.part(statement).exact_check(statement, witness)

    def read_version_1(self, fields: dict[str, Any], label: str) -> Witness | None:
        found = (part.read_version_1(fields, label) for part in self.parts)
        return next((witness for witness in found if witness is not None), None)

    def summary(self, witness: Witness) -> str:
        return self.of_kind(witness.kind).summary(witness)

    def facts(self, witness: Witness) -> list[tuple[str, Any]]:
        return self.of_kind(witness.kind).facts(witness)

    # --- the search for counterexamples ---------------------------------------------------------------------------------
    def searches(self, statements: Sequence[Statement]) -> list[tuple[str, ...]]:
        return [job for part, mine in self._shared(statements) for job in part.searches(mine)]

    def run_search(
        self, job: tuple[str, ...], statements: Sequence[Statement], budget: int, seed: int, violated: bool = False
    ) -> list[SearchResult]:
        part = self.of_kind(job[0])
        return part.run_search(job, [s for s in statements if self.part(s) is part], budget, seed, violated)

    def search(
        self, statement: Statement, form: Form, rule: str, budget: int, seed: int, sides: Callable[[Any], Sides] | None = None
    ) -> SearchResult:
        return self.part(statement).search(statement, form, rule, budget, seed, sides)

    def study(
        self, statement: Statement, budget: int, seed: int, on_progress: Callable[[str], None] | None = None,
        checks: Sequence[Check] = (),
    ) -> Any:  # fmt: skip
        return self.part(statement).study(statement, budget, seed, on_progress, checks)
