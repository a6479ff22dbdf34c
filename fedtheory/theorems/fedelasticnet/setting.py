"""Judge FedElasticNet's rounds: in a campaign, on a user's problem, in fractions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from fractions import Fraction
from typing import Any

import numpy as np

from fedtheory.algorithms.fedelasticnet_dyn import FedElasticNetDyn
from fedtheory.errors import InvalidInput, NotCertified
from fedtheory.participation.cohorts import Full
from fedtheory.randomness import Stream
from fedtheory.theorems.fedelasticnet.drawn import drawn
from fedtheory.theorems.fedelasticnet.exact_identical_clients import StillRun
from fedtheory.theorems.fedelasticnet.exact_witness import (
    DiagonalWitness,
    at_the_last_horizon,
    exact_view,
    read_version_1,
)
from fedtheory.theorems.fedelasticnet.expectation import FederatedLosses, random_states, round_view
from fedtheory.theorems.fedelasticnet.instances import ProblemInstance, near_beta, random_battery, stalled_battery
from fedtheory.theorems.fedelasticnet.notation import EXACT, RULES, in_units_of
from fedtheory.theorems.fedelasticnet.on_a_problem import assumption_failure, verify
from fedtheory.theorems.fedelasticnet.own_run import in_states_of_algorithm_3
from fedtheory.theorems.fedelasticnet.paper import FILE
from fedtheory.theorems.fedelasticnet.statements.theorem_3_1 import METHOD, Letters
from fedtheory.theorems.fedelasticnet.states import reachable_states, resolved_states, stack_states
from fedtheory.theory.judge.check import Check, judge_view, outside, worst_sides
from fedtheory.theory.judge.checks import Checks
from fedtheory.theory.judge.composite import Joined
from fedtheory.theory.judge.record import OwnRun, Record
from fedtheory.theory.judge.search import SearchResult, Target
from fedtheory.theory.judge.setting import Case, DataInstance, LocalWork, Plan, Prepared, Request, Setting
from fedtheory.theory.judge.statement import Form, Statement
from fedtheory.theory.judge.witness import Witness
from fedtheory.theory.paper_adapter import AuthoredSetting
from fedtheory.theory.rounds.oracles import MAX_PATHS
from fedtheory.theory.world_setting import WorldSetting

__all__ = ["SETTING", "FedElasticNetSetting", "check_instance"]

DEEPEST = 30  # rounds that are enumerated where nobody says how many
STATES, FEW = 16, 4  # of any kind, from which a round of an instance, or of a stalled one, is judged

_NOT_OURS = (  # options of who takes part and of local work: cohorts are uniform, and local problems solved exactly
    "inactive", "incomplete", "activity", "arrival", "departure", "lr_schedule", "lr_delay", "local_steps", "local_lr", "batch_size",
    "noise",
)  # fmt: skip


def check_instance(instance: ProblemInstance, statements: Sequence[Statement]) -> list[Check]:
    """All statements about a round on one instance, under both rules, over all cohorts."""
    problem = instance.problem()
    forms = [(s, f) for s in statements if s.forms[0].kind == "round" for f in s.forms]
    try:
        losses = FederatedLosses(problem)
    except NotCertified as error:
        return [outside(s, f, r, str(error), instance.name, "inconclusive") for s, f in forms for r in f.established]
    lambda1, lambda2 = instance.lambdas(problem)
    x0, sampling = instance.start(problem), instance.sampling
    count = FEW if instance.family == "stalled" else STATES
    states = random_states(problem, count, Stream(instance.seed).generator("states"), lambda2)
    out: list[Check] = []
    for rule in RULES:
        algorithm, view = FedElasticNetDyn(lambda1, lambda2, rule), None
        for statement, form in forms:
            if rule not in form.established:
                continue
            reason = assumption_failure(form, problem, algorithm, sampling)
            if reason is not None:
                out.append(outside(statement, form, rule, reason, instance.name))
                continue
            if view is None:
                real = reachable_states(problem, algorithm, sampling, x0, rounds=6, scenarios=1, seed=instance.seed)
                batch = stack_states(states, resolved_states(problem, algorithm, real))
                view = round_view(problem, algorithm, sampling, batch, losses=losses)
            out.append(judge_view(statement, form, view, instance.name))
    return out


class FedElasticNetSetting(Setting):
    """Rounds of Algorithm 3."""

    kinds = ("round",)

    # --- the campaign -----------------------------------------------------------------------------------------------
    def instances(self, plan: Plan) -> list[ProblemInstance]:
        """Stalled rounds, those with lambda_2 of a few beta, and the random battery."""
        return stalled_battery(plan.seed) + near_beta(plan.seed) + random_battery(plan.seed, plan.scale)

    def check(self, instance: ProblemInstance, statements: Sequence[Statement]) -> list[Check]:
        return check_instance(instance, statements)

    # --- a problem of the user's ------------------------------------------------------------------------------------
    def refusal(self, statement: Statement) -> str | None:
        """None: every statement runs; identities between symbols hold or not whatever the problem."""
        return None

    def local_work(self, statement: Statement) -> LocalWork:
        """Exact: the theorems are about local minimisers."""
        return EXACT

    def verify(self, statement: Statement, forms: Sequence[Form], case: Case) -> list[Check]:
        return verify(statement, forms, case)

    def prepare(self, statement: Statement, request: Request) -> Prepared:
        """Algorithm 3 with lambda_1 = 0.1 and lambda_2 = 30 beta, unless others are given."""
        problem = request.problem("quadratic")
        start = request.start(problem)
        request.refuse(_NOT_OURS, "does not apply to statements about FedElasticNet: leave it out")
        sampling = request.sampling(problem)
        beta = float(problem.beta_k.max())  # what is not smooth is told before any work
        defaults: dict[str, Any] = {"l1": 0.1}
        if request.options.get("l2") is None:
            defaults["l2_over_beta"] = 30.0
        algorithm = request.algorithm("fedelasticnet-dyn", problem, **defaults)
        problem.optimum()  # after what is wrong with the options, and before what else takes long
        head = (
            f"{problem.name}: m = {problem.num_clients}, P = {request.participants or problem.num_clients}, d = {problem.dim}, "
            f"lambda_1 = {algorithm.l1:g}, lambda_2 = {algorithm.l2:.6g}{in_units_of(algorithm.l2, beta)}, "
            f"{algorithm.rule} rule"
        )
        details = {"algorithm": {"name": algorithm.name, **asdict(algorithm)}, "sampling": repr(sampling)}
        options = {"sampling": sampling, "x0": start}
        return Prepared(problem, algorithm, options, [head], details)

    def scope_in_words(self, statement: Statement) -> str:
        return {
            "round": "about one round from a given state",
            "run": "about a run of T rounds",
            "algebra": "no data enter",
        }[statement.scope]

    def example(self, statement: Statement) -> str:
        return "" if statement.scope == "algebra" else "--problem diabetes --participants 2"

    # --- instances in fractions -------------------------------------------------------------------------------------
    def exact_view(self, statement: Statement, form: Form, witness: Witness) -> Any:
        return exact_view(statement, form, DiagonalWitness.from_witness(witness))

    def exact_check(self, statement: Statement, witness: Witness) -> tuple[Check, Fraction, Fraction, Fraction]:
        form = statement.form(witness.form)
        view = self.exact_view(statement, form, witness)
        check = judge_view(statement, form, view, self.summary(witness))
        return check, *worst_sides(form.sides_on(view))

    def read_version_1(self, fields: dict[str, Any], label: str) -> Witness | None:
        return read_version_1(fields, label)

    def summary(self, witness: Witness) -> str:
        return summary(witness)

    def facts(self, witness: Witness) -> list[tuple[str, Any]]:
        w = DiagonalWitness.from_witness(witness)
        rows, d = range(len(w.h)), len(w.h[0])
        alike = [f" ({n} identical)" if n > 1 else "" for n in w.copies or [1] * len(w.h)]
        found: list[tuple[str, Any]] = [
            ("losses", "L_k(x) = sum_i h_ki (x_i - c_ki)^2 / 2" if d > 1 else "L_k(x) = h_k (x - c_k)^2 / 2"),
            *((f"client {k}{alike[k]}", f"h = {', '.join(w.h[k])}; c = {', '.join(w.c[k])}") for k in rows),
            ("lambda_1, lambda_2", f"{w.lambda1}, {w.lambda2}"),
            ("start" if len(w.starts) == 1 else "equally likely starts", "; ".join(", ".join(p) for p in w.starts)),
        ]
        if w.cohorts:
            found.append(("cohorts before", "; ".join(str([int(k) for k in c]) for c in w.cohorts)))
        return found

    # --- the search for counterexamples -----------------------------------------------------------------------------
    def random_instance(self, kind: str, rng: Any) -> DataInstance:
        """Diagonal quadratics, under either rule."""
        return drawn(kind, rng)

    def explore(
        self, kind: str, targets: list[Target], budget: int, seed: int
    ) -> list[SearchResult]:
        """As `Setting.explore`; what fails is looked for where its witnesses may be."""
        for target in targets:
            if target.form.established[target.rule] == "violated":
                limits = {**target.statement.witness_limits, **target.form.limits}
                target.form = replace(target.form, limits=limits)
        return super().explore(kind, targets, budget, seed)


def summary(witness: Witness) -> str:
    """One line on a witness in the fields of `DiagonalWitness`."""
    w = DiagonalWitness.from_witness(witness)
    return f"{w.statement} [{w.form}, {w.rule} rule]: {w.size}"


class FileSetting(AuthoredSetting):
    """The statements of one file each; those about the runs of Theorem 3.1 are asked of a user as
    those about rounds are."""

    rounds = FedElasticNetSetting()

    def _asks(self, statement: Statement) -> Setting | None:
        """The setting that a user's options are read by, where it is not a file's."""
        return self.rounds if self.authored[statement.id].about is METHOD else None

    def local_work(self, statement: Statement) -> LocalWork:
        return EXACT if self._asks(statement) else super().local_work(statement)

    def prepare(self, statement: Statement, request: Request) -> Prepared:
        asks = self._asks(statement)
        made = asks.prepare(statement, request) if asks else super().prepare(statement, request)
        return replace(made, staged=statement.scope == "run")

    def refuses(self, statement: Statement) -> tuple[str, ...]:
        asks = self._asks(statement)
        return asks.refuses(statement) if asks else super().refuses(statement)

    def example(self, statement: Statement) -> str | None:
        asks = self._asks(statement)
        return asks.example(statement) if asks else super().example(statement)

    def scope_in_words(self, statement: Statement) -> str:
        asks = self._asks(statement)
        return asks.scope_in_words(statement) if asks else super().scope_in_words(statement)

    def verify(self, statement: Statement, forms: Sequence[Form], case: Case) -> list[Check]:
        """As `AuthoredSetting.verify`, where the assumptions hold; everybody takes part by default."""
        if not self._asks(statement):
            return super().verify(statement, forms, case)
        case = replace(case, sampling=case.sampling or Full())
        if case.rounds is None and case.mode != "monte-carlo":  # as many as can be enumerated, if some
            count = case.sampling.count(case.problem.num_clients)
            deep = max((t for t in range(3, DEEPEST + 1) if count**t <= MAX_PATHS), default=None)
            case = replace(case, rounds=deep)
        rule = getattr(case.algorithm, "rule", "any")
        reasons = {f.name: assumption_failure(f, case.problem, case.algorithm, case.sampling) for f in forms}
        found = [outside(statement, f, rule, why) for f in forms if (why := reasons[f.name])]
        judged = [f for f in forms if not reasons[f.name]]
        if not judged:
            return found
        tell = case.on_stage
        if tell is not None:
            case = replace(case, on_stage=lambda checks: tell(Checks([*found, *checks], statement)))
        return found + super().verify(statement, judged, case)

    def own_run(self, statement: Statement, form: Form, case: Case, record: Record) -> OwnRun:
        """As `AuthoredSetting.own_run`; FedDyn is Algorithm 3 with a lambda_1 next to 0."""
        case, record = in_states_of_algorithm_3(form, case, record)
        reason = assumption_failure(form, case.problem, case.algorithm, case.sampling or Full())
        if reason is not None:
            raise InvalidInput(reason)
        return replace(super().own_run(statement, form, case, record), letter="T")

    def built(self, witness: Witness) -> Any:
        """As `AuthoredSetting.built`; of many identical clients the letters of a run at rest."""
        if "copies" in witness.data:
            return StillRun(DiagonalWitness.from_witness(witness))
        view = super().built(witness)
        if self.authored[witness.statement].about is METHOD:
            view.printed_constants = lambda: view.once(Letters).numbers()
        return view

    def summary(self, witness: Witness) -> str:
        """As `AuthoredSetting.summary`; of merged clients as of one round's."""
        merged = witness.data.get("copies") is not None
        return summary(witness) if merged else super().summary(witness)

    def exact_check(
        self, statement: Statement, witness: Witness
    ) -> tuple[Check, Fraction, Fraction, Fraction]:
        """As `Setting.exact_check`; a run is judged at its last horizon."""
        if statement.scope == "run":
            form = statement.form(witness.form)
            last = replace(form, sides=at_the_last_horizon(form.sides_on))
            statement = replace(statement, forms=(last,))
        return super().exact_check(statement, witness)

    def proved(self, target: Target) -> tuple[Witness | None, float | None]:
        """As `Setting.proved`; a run ends at the horizon at which the form fails most."""
        at = target.margin_at
        if at is not None and target.statement.scope == "run":
            sides = target.sides(at.view())
            lhs, rhs, scale = (np.asarray(v, dtype=float) for v in (sides.lhs, sides.rhs, sides.scale))
            with np.errstate(all="ignore"):
                excess = (lhs - rhs) / scale
            excess = np.where(np.isfinite(excess), excess, -np.inf).reshape(len(excess), -1)
            T = 1 + int(excess.max(axis=1).argmax())
            target = replace(target, margin_at=replace(at, data={**at.data, "rounds": T}))
        return super().proved(target)


WORLDS = WorldSetting([s for s in FILE.authored.values() if s.of_world])
WORLDS.kinds += ("claim",)
SETTING = Joined(
    FedElasticNetSetting(),
    WORLDS,
    FileSetting(FILE),
)
