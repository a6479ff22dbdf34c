"""How the statements about Elastic Aggregation are judged: on instances in fractions, a user's problem, and what a file holds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fedtheory.errors import InvalidInput
from fedtheory.local import GradientSteps
from fedtheory.theorems.elastic_aggregation import exact, instances
from fedtheory.theorems.elastic_aggregation.cases import CASES
from fedtheory.verification.replay import read_kind_and_data
from fedtheory.verification.setting import Case, LocalWork, Plan, Prepared, Request, Setting
from fedtheory.verification.statement import Form, Statement
from fedtheory.verification.witness import Witness

__all__ = ["ElasticAggregationSetting"]

NUMBERS = LocalWork((), "the statement is about numbers, whatever clients do; leave local_solver out")
SHARE = {"linearised": 0.5, "labels": 0.3}  # of the search's budget: instances that take longer, and forms that need fewer


class ElasticAggregationSetting(Setting):
    """Quadratic clients in fractions, whose fixed points are known exactly."""

    kinds = instances.KINDS
    builders = exact.BUILDERS
    share = SHARE

    # --- instances ------------------------------------------------------------------------------------------------------
    def instances(self, plan: Plan) -> Sequence[Any]:
        return instances.battery(plan.seed, plan.scale)

    def random_instance(self, kind: str, rng: Any) -> Any:
        return instances.random_instance(kind, rng)

    def read_version_1(self, fields: dict[str, Any], label: str) -> Witness | None:
        """Files of version 1 had the kind and the data under "efl"; the statement's id tells whose it is."""
        mine = "efl" in fields and str(fields.get("statement")).startswith(f"{self.paper}/")
        return read_kind_and_data(fields, "efl", label) if mine else None

    # --- a problem of the user's ----------------------------------------------------------------------------------------
    def refusal(self, statement: Statement) -> str | None:
        """Why the statement does not run on a user's problem, or None where it does: only claims do not."""
        if statement.kind != "claim":
            return None
        return f"it is a claim that cannot be proved or refuted here, so there is nothing to run: {statement.forms[0].note}"

    def asks(self, statement: Statement) -> tuple[str, ...]:
        """What the statement asks of a user's problem, of who takes part and of the method."""
        return () if statement.kind == "claim" else CASES[statement.forms[0].kind].needs

    def local_work(self, statement: Statement) -> LocalWork | None:
        """Full gradient steps, which `cases` looks at; none of a statement about numbers alone."""
        return NUMBERS if {f.kind for f in statement.forms} == {"average"} else None

    def scope_in_words(self, statement: Statement) -> str:
        return "not provable here" if statement.kind == "claim" else CASES[statement.forms[0].kind].about

    def example(self, statement: Statement) -> str | None:
        """Options of `fedtheory verify` that show the statement at work; None where there is none to give."""
        return None if statement.kind == "claim" else CASES[statement.forms[0].kind].example

    def rule_of(self, case: Case) -> str:
        """There is one only."""
        return "any"

    def instance(self, statement: Statement, form: Form, case: Case) -> Any:
        """The data of the form's kind, as `cases.CASES` makes it of the case."""
        if statement.kind == "claim":
            return super().instance(statement, form, case)
        return CASES[form.kind].instance(form.kind, statement.id, case)

    def prepare(self, statement: Statement, request: Request) -> Prepared:
        """Gradient steps on a problem whose samples are partly held out, all clients or cohorts of P."""
        kind, o = statement.forms[0].kind, request.options
        no_use = f"{statement.id} is about quadratic clients with full gradient steps, and is judged without runs; leave it out"
        request.refuse(("inactive", "incomplete", "departure", "arrival", "batch_size", "noise", "lr_schedule", "lr_delay"), no_use)
        if request.rounds is not None or request.mode != "auto":
            given = f"--mode {request.mode}" if request.rounds is None else f"--rounds {request.rounds}"
            raise InvalidInput(f"{given}: {no_use}")
        if kind not in ("sampled", "linearised") and request.participants is not None:
            raise InvalidInput(f"--participants {request.participants}: {statement.id} is about all clients; leave it out")
        problem = request.problem("diabetes")
        algorithm = request.algorithm("elastic-aggregation", problem)
        steps, lr = o.get("local_steps"), o.get("local_lr")
        solver = None
        if steps is not None or lr is not None:
            solver = GradientSteps(2 if steps is None else steps, 1 / (2 * float(problem.beta_k.max())) if lr is None else lr)
        sampling = request.sampling(problem)
        held = "held-out samples" if problem.held_out is not None else "the samples that are trained on"
        head = (
            f"{problem.name}: N = {problem.num_clients}, P = {request.participants or problem.num_clients}, d = {problem.dim}, "
            f"tau = {algorithm.tau:g}, sensitivities on {held}"
        )
        options = {"sampling": sampling, "local_solver": solver, "x0": request.start(problem), "seed": request.seed}
        details = {"sampling": repr(sampling), "local_solver": repr(solver)}
        return Prepared(problem, algorithm, options, [head], details)
