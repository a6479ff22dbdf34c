"""How FedMLS's statements about runs are judged.

They are judged on the battery's runs, on a user's, and in fractions in one dimension.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from fedtheory.algorithms.fedmls import FedMLS
from fedtheory.errors import InvalidInput, NotCertified
from fedtheory.theorems.fedmls import exact, search
from fedtheory.theorems.fedmls.instances import mls_battery
from fedtheory.theorems.fedmls.on_a_problem import UsersRuns
from fedtheory.theorems.fedmls.own_run import own_run
from fedtheory.theorems.fedmls.paper import ACCEPTS, FEWEST, MOST, SLIDING
from fedtheory.theorems.fedmls.parameters import ACCURACY, make_fedmls
from fedtheory.theorems.fedmls.requests import prepare_run, refuse_cohorts
from fedtheory.theory.judge.check import Check, judge_view, outside
from fedtheory.theory.judge.composite import Joined
from fedtheory.theory.judge.record import OwnRun, Record
from fedtheory.theory.judge.search import SearchResult, Target
from fedtheory.theory.judge.setting import Case, LocalWork, Plan, Prepared, Request, Setting, Tuned
from fedtheory.theory.judge.statement import Form, Sides, Statement
from fedtheory.theory.judge.witness import Witness
from fedtheory.theory.world_setting import WorldSetting

__all__ = ["FedMLSSetting", "joined"]

SCOPES = {
    "fedmls": "about a run of FedMLS with K rounds",
    "algebra": "no data enter",
    "claims": "a claim in words, not run",
}

COMPUTED = {  # what `tuned` finds itself
    "fedmls": {
        "--lam": "from --epsilon", "--D": "from --epsilon", "--rounds": "from --epsilon", "--radius": "least power of 2",
        "--lipschitz": "the problem's", "--epsilon": f"{ACCURACY:g}", "--noise": "0.0",
    }
}  # fmt: skip


class FedMLSSetting(Setting):
    """Instances are runs of FedMLS ('run'), and runs in one dimension in fractions ('lines')."""

    own_method = True  # MOPES and MOLES have parameters of their own
    kinds = ("run", "lines")
    accepts = ACCEPTS
    computed = COMPUTED

    # --- the campaign ---------------------------------------------------------------------------------------------------
    def instances(self, plan: Plan) -> Sequence[Any]:
        return mls_battery(plan.seed, plan.scale)

    # --- a problem of the user's ----------------------------------------------------------------------------------------
    def refusal(self, statement: Statement) -> str | None:
        runs = any(f.sides is not None or f.symbolic is not None for f in statement.forms)
        return None if runs else super().refusal(statement)

    def local_work(self, statement: Statement) -> LocalWork:
        """Its own: sliding, whose noise a user may set. `Exact`, the default of a run, stands for it."""
        return SLIDING

    def fewest(self, case: Case, statement: Statement) -> int:
        return FEWEST

    def verify(self, statement: Statement, forms: Sequence[Form], case: Case) -> list[Check]:
        """As always, with `MOST` runs at most, and `FEWEST` at least."""
        return super().verify(statement, forms, replace(case, scenarios=max(FEWEST, min(case.scenarios, MOST))))

    def verify_once(self, statement: Statement, forms: Sequence[Form], case: Case) -> list[Check]:
        runs = UsersRuns(case)
        return [self._judged(statement, form, case, runs) for form in forms]

    def _judged(self, statement: Statement, form: Form, case: Case, runs: UsersRuns) -> Check:
        """One form on the run that it is about, or why it is about none."""
        known = runs.rule
        if known not in form.established and statement.scope != "fedmls":
            known = next(iter(form.established))
        where, name = (statement, form, known), case.problem.name
        try:
            view = runs.view(statement, form)
        except NotCertified as error:
            return outside(*where, str(error), name, "inconclusive")
        if isinstance(view, str):
            return outside(*where, view, name)
        return judge_view(statement, form, view, name, confidence=case.confidence)

    def own_run(self, statement: Statement, form: Form, case: Case, record: Record) -> OwnRun:
        """Of statements about a run of FedMLS; `fedtheory.theorems.fedmls.own_run`."""
        own = own_run if statement.scope == "fedmls" else super().own_run
        return own(statement, form, case, record)

    def prepare(self, statement: Statement, request: Request) -> Prepared:
        return prepare_run(statement, request)

    def tuned(self, method: str, request: Request, rounds: Any = None, batch_size: int | None = None) -> Tuned | None:
        """FedMLS with Theorem 2's parameters for an accuracy, with as few rounds as suffice."""
        if method != FedMLS.name:
            return None
        problem = request.problem("lad")
        refuse_cohorts(request, problem)
        made = make_fedmls(problem, request.options, request.start(problem), rounds or "fewest", batch_size)
        last = made.algorithm.skip_last
        return Tuned(made.algorithm, problem, int(made.algorithm.rounds), made.radius, made.rows(last), made.to_json(last))

    def scope_in_words(self, statement: Statement) -> str:
        return SCOPES[statement.scope]

    def example(self, statement: Statement) -> str | None:
        if self.refusal(statement) is not None:
            return None
        return "" if statement.scope == "algebra" else "--problem lad"

    # --- instances in fractions -----------------------------------------------------------------------------------------
    def exact_check(self, statement: Statement, witness: Witness) -> tuple[Check, Fraction, Fraction, Fraction]:
        form = statement.form(witness.form)
        if witness.kind != "lines":
            raise InvalidInput(f"kind = {witness.kind!r}: witnesses of {statement.id} are of kind 'lines'")
        if witness.rule != "deterministic" or witness.rule not in form.established:
            raise InvalidInput(f"rule = {witness.rule!r}: a run in fractions has exact subgradients, rule 'deterministic'")
        clients, lam, d, radius, x0, rounds, variant, copies = exact.numbers_of(witness)
        lhs, rhs = exact.evaluate(clients, lam, d, radius, x0, rounds, variant, copies)
        scale = abs(lhs) + abs(rhs)
        check = Check(
            statement.id, form.name, witness.rule, "violated" if lhs > rhs else "holds", "rational",
            slack=float((rhs - lhs) / scale), tightness=float(lhs / rhs), lhs=float(lhs), rhs=float(rhs),
            where={"K": rounds, "exact": [str(lhs), str(rhs)]}, count=1,
        )  # fmt: skip
        return check, lhs, rhs, scale

    def read_version_1(self, fields: dict[str, Any], label: str) -> Witness | None:
        return exact.read_version_1(fields, label) if "variant" in fields else None

    def summary(self, witness: Witness) -> str:
        given = witness.data
        clients = sum(given.get("copies") or [1] * len(given["slopes"]))
        return f"{witness.statement} [{given['variant']}]: N = {clients}, d = 1, K = {given['rounds']}"

    def facts(self, witness: Witness) -> list[tuple[str, Any]]:
        given = witness.data
        copies = given.get("copies") or []
        pieces = [list(zip(a, b, strict=True)) for a, b in zip(given["slopes"], given["offsets"], strict=True)]
        clients = [" or ".join(f"{p} x + {q}" for p, q in lines) for lines in pieces]
        alike = len(set(clients)) == 1 and (len(clients) > 1 or copies)
        named = [f"{c} clients each" if c > 1 else "1 client" for c in copies] or [f"client {k}" for k in range(len(clients))]
        shown = [("every client", clients[0])] if alike else list(zip(named, clients, strict=True))
        return [
            ("reading", exact.VARIANTS[given["variant"]]),
            ("losses", "f_i(x) = the largest of"),
            *shown,
            ("lambda, D, R, K", f"{given['lam']}, {given['D']}, {given['radius']}, {given['rounds']}"),
            ("start", given["x0"]),
            ("G^2, ||x_0 - x*||^2", ", ".join(map(str, exact.in_the_bound(witness)))),
        ]

    # --- the search for counterexamples ---------------------------------------------------------------------------------
    def random_instance(self, kind: str, rng: Any) -> Any:
        return search.draw(rng)

    def searches(self, statements: Sequence[Statement]) -> list[tuple[str, ...]]:
        return [("lines",)] if search.targets_of(statements) else []

    def run_search(
        self, job: tuple[str, ...], statements: Sequence[Statement], budget: int, seed: int, violated: bool = False
    ) -> list[SearchResult]:
        return search.explore_lines(search.targets_of(statements, violated), max(1, budget // 4), seed)

    def search(
        self, statement: Statement, form: Form, rule: str, budget: int, seed: int, sides: Callable[[Any], Sides] | None = None
    ) -> SearchResult:
        if rule != "deterministic":
            raise InvalidInput(f"rule = {rule!r}: only runs with exact subgradients are searched, rule 'deterministic'")
        return search.search(statement, form, budget, seed, sides)

    def explore(self, kind: str, targets: list[Target], budget: int, seed: int) -> list[SearchResult]:
        return search.explore_lines(targets, budget, seed)

    def proved(self, target: Target) -> Witness | None:
        return search.proved(target)


def joined(statements: Sequence[Any]) -> Setting:
    """What judges the statements of FedMLS: those about its runs here, the others as worlds are."""
    others = [s for s in statements if s.over.kind not in ("run", "algebra")]
    return Joined(FedMLSSetting(), WorldSetting(others))
