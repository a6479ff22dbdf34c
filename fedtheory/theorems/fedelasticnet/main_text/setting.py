"""Judge the main text's statements: on instances in fractions, a user's problem, a file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from fedtheory.errors import InvalidInput
from fedtheory.theorems.fedelasticnet.main_text import instances
from fedtheory.theorems.fedelasticnet.main_text.cases import ACCEPTS, CASES, REFUSED, OfAProblem, steps_of
from fedtheory.theorems.fedelasticnet.main_text.notation import BUILDERS, CLAIM
from fedtheory.theorems.fedelasticnet.notation import EXACT
from fedtheory.theory.judge.search import SearchResult
from fedtheory.theory.judge.setting import Case, LocalWork, Plan, Prepared, Request, Setting
from fedtheory.theory.judge.statement import Form, Statement

__all__ = ["MainTextSetting"]

_NOT_OURS = ("inactive", "incomplete", "arrival", "departure", "batch_size", "noise", "lr_schedule", "lr_delay")
_LOCAL_WORK = ("local_steps", "local_lr")
AT_REST = ("fedelasticnet/consistency", "fedelasticnet/deviation")
WITHOUT_L1 = ("fedelasticnet/eq-6", "fedelasticnet/eq-8", "fedelasticnet/eq-9")


class MainTextSetting(Setting):
    """Single local problems, rounds of all clients, laws of signs, and messages, all in fractions."""

    kinds = (*instances.KINDS, CLAIM)
    builders = BUILDERS
    accepts = ACCEPTS

    # --- instances ------------------------------------------------------------------------------------------------------
    def instances(self, plan: Plan) -> Sequence[Any]:
        return instances.battery(plan.seed, plan.scale)

    def random_instance(self, kind: str, rng: Any) -> Any:
        return instances.random_instance(kind, rng)

    def run_search(
        self, job: tuple[str, ...], statements: Sequence[Statement], budget: int, seed: int, violated: bool = False
    ) -> list[SearchResult]:
        """With a third of the budget: there are eight kinds, and all their views are in fractions."""
        return super().run_search(job, statements, max(1, budget // 3), seed, violated)

    # --- a problem of the user's ----------------------------------------------------------------------------------------
    def refusal(self, statement: Statement) -> str | None:
        return REFUSED.get(statement.scope)

    def asks(self, statement: Statement) -> tuple[str, ...]:
        return CASES[statement.scope].needs if statement.scope in CASES else ()

    def takes(self, statement: Statement) -> dict[str, str]:
        names = CASES[statement.scope].given if statement.scope in CASES else ()
        return {name: ACCEPTS[name] for name in names}

    def local_work(self, statement: Statement) -> LocalWork | None:
        """Local minimisers; of statements about gradient steps `cases.steps` looks at them."""
        return None if statement.scope == "local-steps" else EXACT

    def scope_in_words(self, statement: Statement) -> str:
        if statement.scope in CASES:
            return CASES[statement.scope].about
        return "not provable here" if statement.scope == CLAIM else "about densities"

    def example(self, statement: Statement) -> str | None:
        """Of what is at rest with a lambda_1 above all slopes, so that the sign rule does not move."""
        if statement.scope not in CASES:
            return None
        return CASES[statement.scope].example + (" --l1 1000" if statement.id in AT_REST else "")

    def shares_view(self, form: Form) -> Any:
        """Of signs, forms about weights have a view of their own."""
        return form.kind, form.needs if form.kind == "signs" else ()

    def rule_of(self, case: Case) -> str:
        """FedDyn, lambda_1 = 0, where the two rules are one, goes by 'any'."""
        return "any" if getattr(case.algorithm, "l1", 1) == 0 else getattr(case.algorithm, "rule", "any")

    def instance(self, statement: Statement, form: Form, case: Case) -> Any:
        """The case as `cases.CASES` makes it of the problem. Raises `InvalidInput` or `MissingCapability` with what is missing."""
        if form.kind not in CASES:
            raise InvalidInput(str(self.refusal(statement)))
        return CASES[form.kind].make(form, case)

    def prepare(self, statement: Statement, request: Request) -> Prepared:
        """FedElasticNet's hyperparameters: lambda_1 = 0.1 (0 of FedDyn's statements), lambda_2 = beta, or 30 beta of Algorithm 3's."""
        reason = self.refusal(statement)
        if reason is not None:
            raise InvalidInput(f"{statement.id}: {reason}")
        kind: OfAProblem = CASES[statement.scope]
        no_run = f"{statement.id} is judged in fractions, without runs; leave it out"
        request.refuse((*_NOT_OURS, *(() if kind.local_work else _LOCAL_WORK)), no_run)
        if request.rounds is not None or request.mode != "auto":
            given = f"--mode {request.mode}" if request.rounds is None else f"--rounds {request.rounds}"
            raise InvalidInput(f"{given}: {no_run}")
        if request.participants is not None:
            raise InvalidInput(f"--participants {request.participants}: {statement.id} is {kind.about}; leave it out")
        problem, o = request.problem("diabetes"), request.options
        defaults: dict[str, Any] = {"l1": 0.0 if statement.id in WITHOUT_L1 else 0.1}
        if o.get("l2") is None:
            defaults |= {"l2": 0.0} if statement.id == "fedelasticnet/eq-6" else {"l2_over_beta": kind.ratio}
        algorithm = request.algorithm(kind.method, problem, **defaults)
        solver = None
        if any(o.get(name) is not None for name in _LOCAL_WORK):
            solver = steps_of(problem, o.get("local_steps"), o.get("local_lr"))
        head = (
            f"{problem.name}: m = {problem.num_clients}, d = {problem.dim}, lambda_1 = {algorithm.l1:g}, "
            f"lambda_2 = {algorithm.l2:.6g}; {kind.about}"
        )
        options = {"x0": request.start(problem), "seed": request.seed, "local_solver": solver, "given": o.get("given") or {}}
        details = {"algorithm": {"name": algorithm.name, **asdict(algorithm)}}
        return Prepared(problem, algorithm, options, [head], details)
