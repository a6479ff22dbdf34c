"""Judge FedElasticNet's rounds and runs: in a campaign, on a user's problem, in fractions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from fedtheory.algorithms.fedelasticnet_dyn import FedElasticNetDyn
from fedtheory.errors import NotCertified
from fedtheory.randomness import Stream
from fedtheory.theorems.fedelasticnet.drawn import drawn
from fedtheory.theorems.fedelasticnet.exact_witness import (
    DiagonalWitness,
    at_the_last_horizon,
    exact_view,
    read_version_1,
)
from fedtheory.theorems.fedelasticnet.expectation import (
    FederatedLosses,
    monte_carlo,
    random_states,
    round_view,
    tree,
    tree_depth,
)
from fedtheory.theorems.fedelasticnet.instances import (
    ProblemInstance,
    long_runs,
    near_beta,
    random_battery,
    real_battery,
    stalled_battery,
)
from fedtheory.theorems.fedelasticnet.notation import EXACT, RULES, in_units_of
from fedtheory.theorems.fedelasticnet.on_a_problem import assumption_failure, verify
from fedtheory.theorems.fedelasticnet.own_run import in_states_of_algorithm_3, own_run
from fedtheory.theorems.fedelasticnet.paper import FILE
from fedtheory.theorems.fedelasticnet.states import reachable_states, resolved_states, stack_states
from fedtheory.theory.judge.check import Check, judge_view, outside, worst_sides
from fedtheory.theory.judge.composite import Joined
from fedtheory.theory.judge.record import OwnRun, Record
from fedtheory.theory.judge.search import SearchResult, Target
from fedtheory.theory.judge.setting import Case, DataInstance, LocalWork, Plan, Prepared, Request, Setting
from fedtheory.theory.judge.statement import Form, Sides, Statement
from fedtheory.theory.judge.witness import Witness
from fedtheory.theory.paper_adapter import AuthoredSetting
from fedtheory.theory.world_setting import WorldSetting

__all__ = ["SETTING", "FedElasticNetSetting", "Trial", "check_instance", "check_long_run"]

_NOT_OURS = (  # options of who takes part and of local work: cohorts are uniform, and local problems solved exactly
    "inactive", "incomplete", "activity", "arrival", "departure", "lr_schedule", "lr_delay", "local_steps", "local_lr", "batch_size",
    "noise",
)  # fmt: skip


@dataclass(frozen=True)
class Trial:
    """One piece of a campaign: an instance, and how its expectations are taken.

    Attributes
    ----------
    how : 'exact' (all cohorts, both rules) or 'monte-carlo' (a long run, under ``rule``)
    max_leaves : the most sequences of cohorts that are enumerated
    rounds, scenarios : of Monte Carlo
    states : how many random states rounds are judged from
    depth : rounds of the tree, where not as deep as ``max_leaves`` allows
    """

    how: str
    instance: ProblemInstance
    rule: str = ""
    max_leaves: int = 150
    rounds: int = 1000
    scenarios: int = 1000
    states: int = 16
    depth: int = 0

    @property
    def name(self) -> str:
        return self.instance.name

    @property
    def family(self) -> str:
        return self.instance.family


def _forms(statements: Sequence[Statement], scope: str) -> list[tuple[Statement, Form]]:
    return [(s, f) for s in statements if s.forms[0].kind == scope for f in s.forms]


def check_instance(trial: Trial, statements: Sequence[Statement]) -> list[Check]:
    """All round-level and run-level statements on one instance, under both rules, by enumeration."""
    instance = trial.instance
    problem = instance.problem()
    forms = _forms(statements, "round") + _forms(statements, "run")
    try:
        losses = FederatedLosses(problem)
    except NotCertified as error:
        return [outside(s, f, r, str(error), instance.name, "inconclusive") for s, f in forms for r in f.established]
    lambda1, lambda2 = instance.lambdas(problem)
    x0, sampling = instance.start(problem), instance.sampling
    rng = Stream(instance.seed).generator("states")
    states = random_states(problem, trial.states, rng, lambda2)
    depth = min(tree_depth(sampling.count(problem.num_clients), trial.max_leaves), 8 if trial.max_leaves <= 150 else 30)
    depth = trial.depth or depth
    out: list[Check] = []
    for rule in RULES:
        algorithm = FedElasticNetDyn(lambda1, lambda2, rule)
        views: dict[str, Any] = {}
        for statement, form in forms:
            if rule not in form.established:
                continue
            reason = assumption_failure(form, problem, algorithm, sampling)
            if reason is not None:
                out.append(outside(statement, form, rule, reason, instance.name))
                continue
            if statement.scope not in views:
                if statement.scope == "round":
                    real = reachable_states(problem, algorithm, sampling, x0, rounds=6, scenarios=1, seed=instance.seed)
                    batch = stack_states(states, resolved_states(problem, algorithm, real))
                    views["round"] = round_view(problem, algorithm, sampling, batch, losses=losses)
                else:
                    views["run"] = tree(
                        problem, algorithm, sampling, depth, x0, losses=losses, max_leaves=trial.max_leaves
                    )
            out.append(judge_view(statement, form, views[statement.scope], instance.name))
    return out


def check_long_run(trial: Trial, statements: Sequence[Statement]) -> list[Check]:
    """Run-level statements on one long Monte Carlo run under one rule."""
    instance = trial.instance
    problem = instance.problem()
    lambda1, lambda2 = instance.lambdas(problem)
    algorithm = FedElasticNetDyn(lambda1, lambda2, trial.rule)  # type: ignore[arg-type]
    view = monte_carlo(
        problem, algorithm, instance.sampling, trial.rounds, instance.start(problem), trial.scenarios, instance.seed
    )
    name = f"{instance.name} T={trial.rounds} scenarios={trial.scenarios}"
    return [
        judge_view(s, f, view, name)
        for s, f in _forms(statements, "run")
        if trial.rule in f.established
        and not f.exact_only
        and assumption_failure(f, problem, algorithm, instance.sampling) is None
    ]


class FedElasticNetSetting(Setting):
    """Rounds and runs of Algorithm 3."""

    kinds = ("round", "run")

    # --- the campaign -----------------------------------------------------------------------------------------------
    def instances(self, plan: Plan) -> list[Trial]:
        """Longest first: real data, long runs, stalled runs, the random battery."""
        trials = []
        if plan.real:  # ten classes of digits keep cvxpy busy for half a minute
            real = sorted(real_battery(plan.seed), key=lambda i: -i.dim)
            trials += [Trial("exact", i, states=4, max_leaves=100) for i in real]
        if plan.long:
            how = partial(Trial, rounds=plan.rounds, scenarios=plan.scenarios)
            trials += [how("monte-carlo", i, rule) for i in long_runs(plan.seed) for rule in RULES]
        trials += [Trial("exact", i, states=4, depth=200) for i in stalled_battery(plan.seed)]
        trials += [Trial("exact", i) for i in near_beta(plan.seed)]
        battery = random_battery(plan.seed, plan.scale)
        deep = {n for n in range(0, len(battery), max(1, len(battery) // 8))}  # whole trees near the limit
        return trials + [
            Trial("exact", i, max_leaves=50_000 if n in deep else 150)
            for n, i in enumerate(battery)
        ]

    def check(self, instance: Trial, statements: Sequence[Statement]) -> list[Check]:
        return check_long_run(instance, statements) if instance.how == "monte-carlo" else check_instance(instance, statements)

    # --- a problem of the user's ------------------------------------------------------------------------------------
    def refusal(self, statement: Statement) -> str | None:
        """None: every statement runs; identities between symbols hold or not whatever the problem."""
        return None

    def local_work(self, statement: Statement) -> LocalWork:
        """Exact: the theorems are about local minimisers."""
        return EXACT

    def verify(self, statement: Statement, forms: Sequence[Form], case: Case) -> list[Check]:
        return verify(statement, forms, case)

    def own_run(self, statement: Statement, form: Form, case: Case, record: Record) -> OwnRun:
        """Of theorems about a run; `fedtheory.theorems.fedelasticnet.own_run`."""
        own = own_run if statement.scope == "run" else super().own_run
        return own(statement, form, case, record)

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
        return Prepared(problem, algorithm, options, [head], details, staged=statement.scope == "run")

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
        """As `Setting.exact_check`; a run is judged at its last horizon."""
        form = statement.form(witness.form)
        view = self.exact_view(statement, form, witness)
        sides: Callable[[Any], Sides] = at_the_last_horizon(form.sides_on) if form.kind == "run" else form.sides_on
        check = judge_view(statement, form, view, self.summary(witness), sides=sides)
        if form.kind == "run":
            check.where["T"] = witness.data["T"]
        return check, *worst_sides(sides(view))

    def read_version_1(self, fields: dict[str, Any], label: str) -> Witness | None:
        return read_version_1(fields, label)

    def summary(self, witness: Witness) -> str:
        w = DiagonalWitness.from_witness(witness)
        return f"{w.statement} [{w.form}, {w.rule} rule]: {w.size}"

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

    def proved(self, target: Target) -> tuple[Witness | None, float | None]:
        """As `Setting.proved`; a run ends at the horizon at which the form fails most."""
        at = target.margin_at
        if at is not None and at.kind == "run":
            sides = target.sides(at.view())
            lhs, rhs, scale = (np.asarray(v, dtype=float) for v in (sides.lhs, sides.rhs, sides.scale))
            with np.errstate(all="ignore"):
                excess = (lhs - rhs) / scale
            excess = np.where(np.isfinite(excess), excess, -np.inf).reshape(len(excess), -1)
            T = 1 + int(excess.max(axis=1).argmax())
            target = replace(target, margin_at=replace(at, data={**at.data, "T": T}))
        return super().proved(target)


class FileSetting(AuthoredSetting):
    """The statements of one file each."""

    def own_run(self, statement: Statement, form: Form, case: Case, record: Record) -> OwnRun:
        """As `AuthoredSetting.own_run`; FedDyn is Algorithm 3 with a lambda_1 next to 0."""
        return super().own_run(statement, form, *in_states_of_algorithm_3(case, record))


WORLDS = WorldSetting([s for s in FILE.authored.values() if s.of_world])
WORLDS.kinds += ("claim",)
SETTING = Joined(
    FedElasticNetSetting(),
    WORLDS,
    FileSetting(FILE),
)
