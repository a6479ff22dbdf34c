"""How FedMLS's statements are judged: on the battery's runs, on a run of a user's, and in fractions in one dimension."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from fractions import Fraction
from typing import Any

from fedtheory import algorithms
from fedtheory.algorithms.fedmls import FedMLS
from fedtheory.central.named_sets import named_set, shape_of
from fedtheory.errors import InvalidInput, MissingCapability, NotCertified
from fedtheory.local import Exact, ExactProx, SubgradientSliding
from fedtheory.theorems.fedmls import data, exact, search
from fedtheory.theorems.fedmls.instances import mls_battery
from fedtheory.theorems.fedmls.mopes_instances import mopes_battery
from fedtheory.theorems.fedmls.notation import ROUNDS
from fedtheory.theorems.fedmls.on_a_problem import ACCEPTS, FEWEST, MOST, UsersRuns, given_numbers
from fedtheory.theorems.fedmls.on_a_set import (
    SET_ACCEPTS,
    method_of,
    mopes_view_of_case,
    orders_view_of_case,
    planned_of,
)
from fedtheory.theorems.fedmls.own_run import own_run
from fedtheory.theorems.fedmls.parameters import ACCURACY, make_fedmls
from fedtheory.theorems.fedmls.prox_runs import prox_battery
from fedtheory.theorems.fedmls.views import PRINTED_COUNTS
from fedtheory.verification.check import Check, judge_view, outside
from fedtheory.verification.record import OwnRun, Record
from fedtheory.verification.search import SearchResult, Target
from fedtheory.verification.setting import Case, LocalWork, Plan, Prepared, Request, Setting, Tuned
from fedtheory.verification.statement import Form, Sides, Statement
from fedtheory.verification.witness import Witness

__all__ = ["FedMLSSetting"]

PARTICIPATION = (
    "inactive", "incomplete", "activity", "arrival", "departure", "lr_schedule", "lr_delay", "local_steps", "local_lr", "batch_size",
)  # fmt: skip
SCOPES = {
    "fedmls": "about a run of FedMLS with K rounds", "algebra": "no data enter",
    "counts": "about Theorem 2's K and T_k, whatever the data",
    "exact-prox": "about a run of FedMLS in which the local problems are solved", "envelope": "about minimisers, whatever the method",
    "mopes": "about a run of MOPES or MOLES over a convex set", "identity": "about two runs from the same data",
    "conventional": "about runs of other methods on functions of its own", "claims": "a claim in words, not run",
}  # fmt: skip
RENAMED = {"tau": "elastic_tau"}  # a problem has a tau, too

SLIDING = LocalWork(
    (SubgradientSliding, ExactProx, Exact), "the method's local work is its own; leave local_solver out, or use SubgradientSliding()"
)
COMPUTED = {  # what `tuned` finds itself
    "fedmls": {
        "--lam": "from --epsilon", "--D": "from --epsilon", "--rounds": "from --epsilon", "--radius": "least power of 2",
        "--lipschitz": "the problem's", "--epsilon": f"{ACCURACY:g}", "--noise": "0.0",
    }
}  # fmt: skip


class FedMLSSetting(Setting):
    """Instances are runs of FedMLS ('run'), runs in one dimension with fractions for data ('lines'), and those of `data`."""

    own_method = True  # of MOPES and MOLES
    kinds = ("run", "lines", *data.KINDS)
    builders = data.BUILDERS
    accepts = ACCEPTS
    computed = COMPUTED

    # --- the campaign ---------------------------------------------------------------------------------------------------
    def instances(self, plan: Plan) -> Sequence[Any]:
        in_floats = (*mls_battery(plan.seed, plan.scale), *mopes_battery(plan.seed), *prox_battery(plan.seed))
        return [*in_floats, *data.battery(plan.seed, plan.scale)]

    # --- a problem of the user's ----------------------------------------------------------------------------------------
    def refusal(self, statement: Statement) -> str | None:
        runs = any(f.sides is not None or f.symbolic is not None for f in statement.forms)
        return super().refusal(statement) if not runs or statement.scope in ("envelope", "identity", "conventional") else None

    def takes(self, statement: Statement) -> dict[str, str]:
        """Of MOPES and MOLES the set and the accuracy; of a run of FedMLS the constants."""
        return {"mopes": SET_ACCEPTS, "counts": {}}.get(statement.scope, ACCEPTS)

    def local_work(self, statement: Statement) -> LocalWork:
        """Its own: sliding, whose noise a user may set. `Exact`, the default of a run, stands for it."""
        return SLIDING

    def fewest(self, case: Case, statement: Statement) -> int:
        return FEWEST

    def verify(self, statement: Statement, forms: Sequence[Form], case: Case) -> list[Check]:
        """As always, with `MOST` runs at most, and `FEWEST` at least."""
        return super().verify(statement, forms, replace(case, scenarios=max(FEWEST, min(case.scenarios, MOST))))

    def verify_once(self, statement: Statement, forms: Sequence[Form], case: Case) -> list[Check]:
        runs, once = UsersRuns(case), Once()

        def view_of(form: Form) -> Any:
            if statement.scope == "mopes":
                return once(lambda: mopes_view_of_case(statement, case))
            if statement.scope == "counts":
                return orders_view_of_case(case, "printed" if PRINTED_COUNTS in form.needs else "fewest")
            return once(lambda: runs.prox_view(form)) if statement.scope == "exact-prox" else runs.view(statement, form)

        return [self._judged(statement, form, case, view_of, runs.rule) for form in forms]

    def _judged(self, statement: Statement, form: Form, case: Case, view_of: Callable[[Form], Any], rule: str) -> Check:
        """One form on the view that it is about, or why it is about none."""
        known = rule if rule in form.established or statement.scope == "fedmls" else next(iter(form.established))
        where, name = (statement, form, known), case.problem.name
        try:
            view = view_of(form)
        except NotCertified as error:
            return outside(*where, str(error), name, "inconclusive")
        except (InvalidInput, MissingCapability) as error:
            if statement.scope == "fedmls":
                raise
            return outside(*where, str(error), name)
        if not isinstance(view, str) and statement.scope != "fedmls":
            reason = view.applies(form)
            if reason is None and view.rule not in form.established:
                reason = f"not claimed for {view.rule} subgradients"
            view = view if reason is None else reason
        if isinstance(view, str):
            return outside(*where, view, name)
        return judge_view(statement, form, view, name, confidence=case.confidence)

    def own_run(self, statement: Statement, form: Form, case: Case, record: Record) -> OwnRun:
        """Of statements about a run of FedMLS; `fedtheory.theorems.fedmls.own_run`."""
        own = own_run if statement.scope == "fedmls" else super().own_run
        return own(statement, form, case, record)

    def prepare(self, statement: Statement, request: Request) -> Prepared:
        problem = request.problem("lad")
        if statement.scope == "mopes":
            return _prepare_on_a_set(statement, request, problem)
        given = dict(request.options)
        if statement.scope == "exact-prox":
            if given.get("local_training") == "sliding":
                raise InvalidInput("local_training = 'sliding': the statement is about 'exact-prox'; leave it out")
            given["local_training"] = "exact-prox"
        if all(f.sides is None for f in statement.forms):
            return Prepared(problem, FedMLS(1.0, 1.0, 1, 1.0, 1.0), head=["an identity between symbols: no data enter"])
        x0 = request.start(problem)
        refuse_others(request, problem)
        given_numbers(request.options.get("given") or {}, problem.num_clients)
        rounds: Any = request.rounds
        if rounds is None:  # Theorem 2 is about the printed K, which is at least K_min
            rounds = "printed" if any({ROUNDS["printed"], PRINTED_COUNTS} & set(f.needs) for f in statement.forms) else "fewest"
        made = make_fedmls(problem, given, x0, rounds)
        rule = "noisy" if made.algorithm.noise_std else "exact"
        rows = made.rows(skip_last=False)
        return Prepared(
            problem, made.algorithm, {"x0": x0},
            head=[f"{problem.name}: N = {problem.num_clients}, d = {problem.dim}, {rule} subgradients"],
            details={"algorithm": made.to_json(skip_last=False)},
            facts=lambda checks: rows,
        )  # fmt: skip

    def tuned(self, method: str, request: Request, rounds: Any = None, batch_size: int | None = None) -> Tuned | None:
        """FedMLS with Theorem 2's parameters for an accuracy, with as few rounds as suffice."""
        if method != FedMLS.name:
            return None
        problem = request.problem("lad")
        _refuse_cohorts(request, problem)
        made = make_fedmls(problem, request.options, request.start(problem), rounds or "fewest", batch_size)
        last = made.algorithm.skip_last
        return Tuned(made.algorithm, problem, int(made.algorithm.rounds), made.radius, made.rows(last), made.to_json(last))

    def scope_in_words(self, statement: Statement) -> str:
        return SCOPES[statement.scope]

    def example(self, statement: Statement) -> str | None:
        if self.refusal(statement) is not None:
            return None
        return {"algebra": "", "mopes": "--problem lad --set simplex"}.get(statement.scope, "--problem lad")

    # --- instances in fractions -----------------------------------------------------------------------------------------
    def exact_check(self, statement: Statement, witness: Witness) -> tuple[Check, Fraction, Fraction, Fraction]:
        form = statement.form(witness.form)
        if form.kind in data.KINDS:
            return super().exact_check(statement, witness)
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
        if witness.kind in data.KINDS:
            return super().summary(witness)
        given = witness.data
        clients = sum(given.get("copies") or [1] * len(given["slopes"]))
        return f"{witness.statement} [{given['variant']}]: N = {clients}, d = 1, K = {given['rounds']}"

    def facts(self, witness: Witness) -> list[tuple[str, Any]]:
        if witness.kind in data.KINDS:
            return super().facts(witness)
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
        return search.draw(rng) if kind == "lines" else data.random_instance(kind, rng)

    def searches(self, statements: Sequence[Statement]) -> list[tuple[str, ...]]:
        known = {f.kind for s in statements for f in s.forms if f.sides is not None}
        return [*([("lines",)] if search.targets_of(statements) else []), *((kind,) for kind in data.KINDS if kind in known)]

    def run_search(
        self, job: tuple[str, ...], statements: Sequence[Statement], budget: int, seed: int, violated: bool = False
    ) -> list[SearchResult]:
        if job[0] in data.KINDS:  # in fractions: exact subgradients only
            exactly = [replace(s, forms=tuple(map(_without_noise, s.forms))) for s in statements]
            return super().run_search(job, exactly, budget, seed, violated)
        return search.explore_lines(search.targets_of(statements, violated), max(1, budget // 4), seed)

    def search(
        self, statement: Statement, form: Form, rule: str, budget: int, seed: int, sides: Callable[[Any], Sides] | None = None
    ) -> SearchResult:
        if form.kind in data.KINDS:
            return super().search(statement, form, rule, budget, seed, sides)
        if rule != "deterministic":
            raise InvalidInput(f"rule = {rule!r}: only runs with exact subgradients are searched, rule 'deterministic'")
        return search.search(statement, form, budget, seed, sides)

    def explore(self, kind: str, targets: list[Target], budget: int, seed: int) -> list[SearchResult]:
        return super().explore(kind, targets, budget, seed) if kind in data.KINDS else search.explore_lines(targets, budget, seed)

    def proved(self, target: Target) -> Witness | None:
        return super().proved(target) if target.form.kind in data.KINDS else search.proved(target)


def prepare_run(statement: Statement, request: Request, exact_prox: bool = False) -> Prepared:
    """The run of FedMLS that was asked for; with ``exact_prox`` one whose local problems are solved."""
    problem, given = request.problem("lad"), dict(request.options)
    if exact_prox:
        if given.get("local_training") == "sliding":
            raise InvalidInput("local_training = 'sliding': the statement is about 'exact-prox'; leave it out")
        given["local_training"] = "exact-prox"
    if all(f.sides is None for f in statement.forms):
        return Prepared(problem, FedMLS(1.0, 1.0, 1, 1.0, 1.0), head=["an identity between symbols: no data enter"])
    x0 = request.start(problem)
    refuse_others(request, problem)
    given_numbers(request.options.get("given") or {}, problem.num_clients)
    rounds: Any = request.rounds
    if rounds is None:  # Theorem 2 is about the printed K, which is at least K_min
        rounds = "printed" if any({ROUNDS["printed"], PRINTED_COUNTS} & set(f.needs) for f in statement.forms) else "fewest"
    made = make_fedmls(problem, given, x0, rounds)
    rule = "noisy" if made.algorithm.noise_std else "exact"
    rows = made.rows(skip_last=False)
    return Prepared(
        problem, made.algorithm, {"x0": x0},
        head=[f"{problem.name}: N = {problem.num_clients}, d = {problem.dim}, {rule} subgradients"],
        details={"algorithm": made.to_json(skip_last=False)},
        facts=lambda checks: rows,
    )  # fmt: skip


class Once:
    """Calls what it is first given, and gives its result from then on."""

    def __init__(self) -> None:
        self._found: list[Any] = []

    def __call__(self, make: Callable[[], Any]) -> Any:
        if not self._found:
            self._found.append(make())
        return self._found[0]


def _prepare_on_a_set(statement: Statement, request: Request, problem: Any) -> Prepared:
    """MOPES or MOLES as the options ask for it; what it is about is given to the statement."""
    others = ("batch_size", "radius", "lipschitz", "sigma", "noise_std", "average", "server_projection", "norm", "skip_last")
    refuse_others(request, problem, others)
    o, x0 = request.options, request.start(problem)
    shape = shape_of(o.get("set_shape"))
    size = 1.0 if o.get("set_size") is None else o["set_size"]
    given = dict(o.get("given") or {})
    given.setdefault("X", named_set(o.get("set") or "ball", problem.dim, size, shape, problem.num_clients))
    names = {"epsilon": "epsilon", "noise": "noise", "lam": "lam", "D": "D", "local_training": "local_training", "allowance": "C"}
    given |= {mine: o[theirs] for theirs, mine in names.items() if o.get(theirs) is not None and mine not in given}
    if request.rounds is not None:
        given.setdefault("K", request.rounds)
    made = planned_of(statement, problem, given, x0)
    head = [f"{method_of(statement)} on {problem.name}: N = {problem.num_clients}, d = {problem.dim}"]
    rows = made.rows()
    return Prepared(problem, None, {"x0": x0, "given": given, "rounds": None}, head, {"method": made.to_json()}, lambda checks: rows)


def _without_noise(form: Form) -> Form:
    return replace(form, established={rule: verdict for rule, verdict in form.established.items() if rule != "stochastic"})


def refuse_others(request: Request, problem: Any, also: Sequence[str] = ()) -> None:
    """Options of other methods, cohorts and modes mean nothing to FedMLS."""
    request.refuse(also, "does not apply to statements about MOPES and MOLES: leave it out")
    mine = [f.name for f in fields(FedMLS)]
    every = [RENAMED.get(f.name, f.name) for name in algorithms.names() for f in fields(algorithms.get(name))]
    for name in [*dict.fromkeys(every), "l2_over_beta"]:
        value = request.options.get(name)
        if value is not None and name not in (*mine, "epsilon", "noise"):
            raise InvalidInput(f"fedmls has no hyperparameter {name}={value!r}: it takes {', '.join((*mine, 'epsilon', 'noise'))}")
    _refuse_cohorts(request, problem)
    request.refuse(PARTICIPATION, "does not apply to statements about FedMLS: leave it out")
    if request.mode != "auto":
        raise InvalidInput(f"mode = {request.mode!r}: a run of FedMLS is exact without noise, and Monte Carlo with it; leave it out")


def _refuse_cohorts(request: Request, problem: Any) -> None:
    if request.participants is not None and request.participants != problem.num_clients:
        n = problem.num_clients
        raise InvalidInput(f"participants = {request.participants}: FedMLS needs all N = {n} clients in every round; leave it out")
