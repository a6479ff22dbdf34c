"""How the statements about Elastic Aggregation are judged: on instances in fractions, and on what a file holds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fedtheory.errors import InvalidInput
from fedtheory.theorems.elastic_aggregation import exact, instances
from fedtheory.verification.replay import builtin_witnesses, read_kind_and_data
from fedtheory.verification.setting import Plan, Prepared, Request, Setting
from fedtheory.verification.statement import Statement
from fedtheory.verification.witness import Witness

__all__ = ["ElasticAggregationSetting"]

ABOUT = {
    "aggregation": "about one round of Elastic Aggregation in which all clients take part",
    "sampled": "about where its mean motion is 0 when some clients take part",
    "average": "about its moving averages",
}


class ElasticAggregationSetting(Setting):
    """Quadratic clients in fractions, whose fixed points are known exactly."""

    kinds = instances.KINDS
    builders = exact.BUILDERS

    def instances(self, plan: Plan) -> Sequence[Any]:
        return instances.battery(plan.seed, plan.scale)

    def random_instance(self, kind: str, rng: Any) -> Any:
        return instances.random_instance(kind, rng)

    def read_version_1(self, fields: dict[str, Any], label: str) -> Witness | None:
        """Files of version 1 had the kind and the data under "efl"; the statement's id tells whose it is."""
        mine = "efl" in fields and str(fields.get("statement")).startswith(f"{self.paper}/")
        return read_kind_and_data(fields, "efl", label) if mine else None

    def scope_in_words(self, statement: Statement) -> str:
        return ABOUT[statement.forms[0].kind]

    def refusal(self, statement: Statement) -> str | None:
        """Why the statement does not run on a user's problem."""
        return f"it is about instances of its own kind ({statement.forms[0].kind}), not about a problem's run"

    def prepare(self, statement: Statement, request: Request) -> Prepared:
        """Refuses: no problem can be given to these statements."""
        found = [w.name for w in builtin_witnesses(self.paper) if w.statement == statement.id]
        replay = f"; `fedtheory replay {found[0]}` reruns a counterexample" if found else ""
        raise InvalidInput(
            f"{statement.id}: {self.refusal(statement)}: `fedtheory verify` judges it on some of them with all other statements{replay}"
        )
