"""Judge the statements on the dynamics, of Algorithm 3 and of Algorithm 1 with everyone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedtheory.theorems.fedelasticnet.dynamics import motion_instances, standstills
from fedtheory.theorems.fedelasticnet.dynamics.motions import BUILDERS
from fedtheory.theorems.fedelasticnet.notation import EXACT
from fedtheory.theory.judge.setting import Case, LocalWork, Plan, Prepared, Request, Setting
from fedtheory.theory.judge.statement import Form, Statement
from fedtheory.theory.judge.witness import Witness

__all__ = ["DynamicsSetting"]

_PARTS: dict[str, Any] = {"motion": motion_instances, "standstill": standstills}
_NOT_OURS = (  # everyone takes part, and local problems are solved exactly
    "inactive", "incomplete", "arrival", "departure", "lr_schedule", "lr_delay", "local_steps", "local_lr", "batch_size", "noise",
)  # fmt: skip


class DynamicsSetting(Setting):
    """Instances in fractions, and a user's problem in fractions where its losses are separable."""

    kinds = tuple(_PARTS)
    builders = BUILDERS
    share: Mapping[str, float] = dict.fromkeys(_PARTS, 0.3)

    # --- instances ------------------------------------------------------------------------------------------------------
    def instances(self, plan: Plan) -> list[Any]:
        return [i for part in _PARTS.values() for i in part.battery(plan.seed, plan.scale)]

    def random_instance(self, kind: str, rng: Any) -> Any:
        return _PARTS[kind].random_instance(kind, rng)

    # --- a problem of the user's ----------------------------------------------------------------------------------------
    def refusal(self, statement: Statement) -> None:
        """None: every statement runs on a user's problem."""

    def local_work(self, statement: Statement) -> LocalWork:
        return EXACT

    def instance(self, statement: Statement, form: Form, case: Case) -> Any:
        return _PARTS[form.kind].on_a_problem(case)

    def prepare(self, statement: Statement, request: Request) -> Prepared:
        """The method with lambda_1 = 0.1, and lambda_2 = 30 beta (Algorithm 3) or beta (Algorithm 1), unless others are given."""
        problem = request.problem("quadratic")
        request.refuse("participants", f"{statement.id} is about rounds in which all m clients take part; leave it out")
        request.refuse(_NOT_OURS, "does not apply to statements about FedElasticNet: leave it out")
        request.refuse("mode", f"{statement.id} is judged without Monte Carlo, as nothing is random; leave it out")
        return _PARTS[statement.scope].prepared(statement, request, problem)

    def scope_in_words(self, statement: Statement) -> str:
        return str(_PARTS[statement.scope].ABOUT)

    def example(self, statement: Statement) -> str:
        return str(_PARTS[statement.scope].EXAMPLES.get(statement.id.partition("/")[2], _PARTS[statement.scope].EXAMPLE))

    # --- what a witness shows -------------------------------------------------------------------------------------------
    def summary(self, witness: Witness) -> str:
        return motion_instances.summary(witness)

    def facts(self, witness: Witness) -> list[tuple[str, Any]]:
        return list(motion_instances.facts(witness))
