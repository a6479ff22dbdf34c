"""The theorem campaign: all statements on the whole battery, in parallel, with one row a form and rule.

`run` yields checks as they come, so that a progress bar moves and an interrupted campaign keeps what it has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from fedtheory.algorithms.fedelasticnet_dyn import FedElasticNetDyn
from fedtheory.algorithms.fedelasticnet_prox import FedElasticNetProx
from fedtheory.errors import NotCertified
from fedtheory.inputs import real_number, whole_number
from fedtheory.parallel import as_finished
from fedtheory.randomness import Stream
from fedtheory.theorems.fedelasticnet.expectation import (
    FederatedLosses,
    monte_carlo,
    random_states,
    round_view,
    tree,
    tree_depth,
)
from fedtheory.theorems.fedelasticnet.instances import (
    Instance,
    long_runs,
    random_battery,
    real_battery,
    stalled_battery,
)
from fedtheory.theorems.fedelasticnet.statements.algorithm_1 import fixed_point
from fedtheory.verification.statement import Check, Statement, all_statements
from fedtheory.verification.verify import (
    assumption_failure,
    check_view,
    reachable_states,
    resolved_states,
    stack_states,
)

__all__ = ["Campaign", "Row", "Task", "check_instance", "check_long_run", "plan", "run", "summarise"]

RULES = ("sign", "true-gradient")


@dataclass(frozen=True)
class Task:
    """One unit of work: an instance, and how its expectations are taken."""

    kind: str  # 'exact', 'monte-carlo', 'fedmls' or 'efl'
    instance: Any  # an `Instance`, a `fedmls_battery.MLSInstance` or an `efl_battery.EFLInstance`
    rule: str = ""
    max_leaves: int = 150
    rounds: int = 1000
    scenarios: int = 1000
    states: int = 16
    fixed_point: bool = False  # also look at a fixed point of Algorithm 1
    depth: int = 0  # rounds of the tree, where not as deep as max_leaves allows


@dataclass
class Row:
    """All checks of one form under one rule.

    Attributes
    ----------
    verdict : over all instances: 'violated' if any is
    established : what is on record; `ok` is False where the two differ
    tightness_worst, tightness_median : over the instances where the bound is positive
    """

    statement: str
    form: str
    rule: str
    established: str
    verdict: str
    instances: int
    violations: int
    inconclusive: int
    not_applicable: int
    evaluations: int
    tightness_worst: float
    tightness_median: float
    tightest: str
    worst_slack: float
    worst: str
    worst_where: dict[str, Any]
    modes: list[str]
    witness: str | None = None

    @property
    def ok(self) -> bool:
        """Whether the verdict is the one on record ('open' records nothing)."""
        return self.established == "open" or self.verdict == self.established


@dataclass
class Campaign:
    """Rows, and what it took."""

    rows: list[Row] = field(default_factory=list)
    seconds: float = 0.0
    instances: int = 0
    complete: bool = True
    settings: dict[str, Any] = field(default_factory=dict)
    searches: list[dict[str, Any]] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return self.complete and all(row.ok for row in self.rows)

    def row(self, statement: str, form: str, rule: str) -> Row | None:
        """The row of one form under one rule."""
        for row in self.rows:
            if (row.statement, row.form, row.rule) == (statement, form, rule):
                return row
        return None

    def to_json(self) -> dict[str, Any]:
        return {
            "ok": self.ok,
            "complete": self.complete,
            "seconds": self.seconds,
            "instances": self.instances,
            "settings": self.settings,
            "rows": [{**asdict(r), "ok": r.ok} for r in self.rows],
            "searches": self.searches,
        }


def plan(
    seed: int = 0, scale: float = 1.0, real: bool = True, long: bool = True, rounds: int = 1000, scenarios: int = 1000
) -> list[Task]:
    """The tasks of a campaign, longest first."""
    whole_number("seed", seed, least=0), whole_number("rounds", rounds), whole_number("scenarios", scenarios, least=2)
    real_number("scale", scale, above=0)
    tasks = []
    if real:  # ten classes of digits keep cvxpy busy for half a minute
        tasks += [Task("exact", i, states=4, max_leaves=100) for i in sorted(real_battery(seed), key=lambda i: -i.dim)]
    if long:
        tasks += [Task("monte-carlo", i, rule, rounds=rounds, scenarios=scenarios) for i in long_runs(seed) for rule in RULES]
    tasks += [Task("exact", i, states=4, depth=200) for i in stalled_battery(seed)]
    battery = random_battery(seed, scale)
    deep = {n for n in range(0, len(battery), max(1, len(battery) // 8))}  # whole trees near the limit
    tasks += [
        Task("exact", i, max_leaves=50_000 if n in deep else 150, fixed_point=n % 20 == 5) for n, i in enumerate(battery)
    ]
    from fedtheory.theorems.fedmls.setting import mls_battery
    from fedtheory.verification.setting import battery as efl_battery

    tasks += [Task("fedmls", i) for i in mls_battery(seed, scale)]
    tasks += [Task("efl", i) for i in efl_battery(seed, scale)]
    return tasks


def _forms(statements: Iterable[Statement], scope: str) -> list[tuple[Statement, Any]]:
    return [(s, f) for s in statements if s.scope == scope for f in s.forms]


def check_instance(task: Task, statements: Sequence[Statement] | None = None) -> list[Check]:
    """All round-level and run-level statements on one instance, under both rules, by enumeration."""
    statements = all_statements() if statements is None else statements
    instance, out = task.instance, []
    problem = instance.problem()
    forms = _forms(statements, "round") + _forms(statements, "run")
    try:
        losses = FederatedLosses(problem)
    except NotCertified as error:
        return [
            Check(s.id, f.name, r, "inconclusive", "exact", reason=str(error), instance=instance.name)
            for s, f in forms
            for r in f.established
        ]
    lambda1, lambda2 = instance.lambdas(problem)
    x0, sampling = instance.start(problem), instance.sampling
    rng = Stream(instance.seed).generator("states")
    states = random_states(problem, task.states, rng, lambda2)
    depth = min(tree_depth(sampling.count(problem.num_clients), task.max_leaves), 8 if task.max_leaves <= 150 else 30)
    depth = task.depth or depth
    for rule in RULES:
        algorithm = FedElasticNetDyn(lambda1, lambda2, rule)
        views: dict[str, Any] = {}
        for statement, form in forms:
            if rule not in form.established:
                continue
            reason = assumption_failure(form, problem, algorithm, sampling)
            if reason is not None:
                out.append(
                    Check(statement.id, form.name, rule, "not applicable", "exact", reason=reason, instance=instance.name)
                )
                continue
            if statement.scope not in views:
                if statement.scope == "round":
                    real = reachable_states(problem, algorithm, sampling, x0, rounds=6, scenarios=1, seed=instance.seed)
                    batch = stack_states(states, resolved_states(problem, algorithm, real))
                    views["round"] = round_view(problem, algorithm, sampling, batch, losses=losses)
                else:
                    views["run"] = tree(
                        problem, algorithm, sampling, depth, x0, losses=losses, max_leaves=task.max_leaves
                    )
            out.append(check_view(statement, form, views[statement.scope], rule, instance.name))
    if task.fixed_point:
        out += _check_fixed_point(instance, problem, lambda1, statements)
    return out


def _check_fixed_point(
    instance: Instance, problem: Any, lambda1: float, statements: Sequence[Statement]
) -> list[Check]:
    """Algorithm 1 with lambda_2 of the order of beta, so that its fixed points differ visibly from the optimum."""
    algorithm = FedElasticNetProx(l1=lambda1, l2=float(problem.beta_k.max()), aggregation="cohort")
    forms = _forms(statements, "fixed-point")
    try:
        view = fixed_point(problem, algorithm, instance.start(problem))
    except NotCertified as error:
        return [
            Check(s.id, f.name, "any", "inconclusive", "exact", reason=str(error), instance=instance.name)
            for s, f in forms
        ]
    return [check_view(s, f, view, "any", instance.name) for s, f in forms]


def check_long_run(task: Task, statements: Sequence[Statement] | None = None) -> list[Check]:
    """Run-level statements on one long Monte Carlo run under one rule."""
    statements = all_statements() if statements is None else statements
    instance = task.instance
    problem = instance.problem()
    lambda1, lambda2 = instance.lambdas(problem)
    algorithm = FedElasticNetDyn(lambda1, lambda2, task.rule)
    view = monte_carlo(
        problem, algorithm, instance.sampling, task.rounds, instance.start(problem), task.scenarios, instance.seed
    )
    name = f"{instance.name} T={task.rounds} scenarios={task.scenarios}"
    return [
        check_view(s, f, view, task.rule, name)
        for s, f in _forms(statements, "run")
        if task.rule in f.established
        and not f.exact_only
        and assumption_failure(f, problem, algorithm, instance.sampling) is None
    ]


def _work(task: Task) -> list[Check]:
    if task.kind == "fedmls":
        from fedtheory.theorems.fedmls import setting as fedmls_battery

        return fedmls_battery.check_instance(task.instance)
    if task.kind == "efl":
        from fedtheory.verification import setting as efl_battery

        return efl_battery.check_instance(task.instance)
    return check_long_run(task) if task.kind == "monte-carlo" else check_instance(task)


def run(
    tasks: Sequence[Task],
    workers: int = 2,
    on_task: Callable[[int, list[Check]], None] | None = None,
) -> tuple[list[Check], bool]:
    """Run the tasks on `workers` processes.

    Returns
    -------
    checks, complete
        With KeyboardInterrupt the checks so far and False.
    """
    checks: list[Check] = []
    algebra = [check_view(s, f, None, "any") for s, f in _forms(all_statements(), "algebra")]
    checks += algebra
    try:
        for done, (_, result) in enumerate(as_finished(_work, tasks, workers), 1):
            checks += result
            if on_task is not None:
                on_task(done, result)
    except KeyboardInterrupt:
        return checks, False
    return checks, True


def summarise(checks: Sequence[Check], witnesses: Sequence[tuple[str, Check]] = ()) -> list[Row]:
    """One row a statement, form and rule, in the statements' order; witnesses are (file, replayed check)."""
    groups: dict[tuple[str, str, str], list[Check]] = {}
    for check in checks:
        groups.setdefault((check.statement, check.form, check.rule), []).append(check)
    files: dict[tuple[str, str, str], str] = {}
    for file, check in witnesses:
        key = (check.statement, check.form, check.rule)
        groups.setdefault(key, []).append(check)
        if check.verdict == "violated":
            files[key] = file
    rows = []
    for statement in all_statements():
        for form in statement.forms:
            for rule, established in form.established.items():
                key = (statement.id, form.name, rule)
                rows.append(_row(key, established, groups.get(key, []), files.get(key)))
    return rows


def _row(key: tuple[str, str, str], established: str, group: list[Check], witness: str | None) -> Row:
    judged = [c for c in group if c.verdict in ("holds", "violated")]
    violated = [c for c in judged if c.verdict == "violated"]
    inconclusive = [c for c in group if c.verdict == "inconclusive"]
    if violated:
        verdict = "violated"
    elif inconclusive:
        verdict = "inconclusive"
    else:
        verdict = "holds" if judged else "not applicable"
    tight = [c for c in judged if np.isfinite(c.tightness)]
    worst = min(judged, key=lambda c: c.slack, default=None)
    tightest = max(tight, key=lambda c: c.tightness, default=None)
    return Row(
        *key,
        established=established,
        verdict=verdict,
        instances=len(judged),
        violations=len(violated),
        inconclusive=len(inconclusive),
        not_applicable=sum(c.verdict == "not applicable" for c in group),
        evaluations=sum(c.count for c in judged),
        tightness_worst=tightest.tightness if tightest else float("nan"),
        tightness_median=float(np.median([c.tightness for c in tight])) if tight else float("nan"),
        tightest=tightest.instance if tightest else "",
        worst_slack=worst.slack if worst else float("nan"),
        worst=worst.instance if worst else "",
        worst_where=worst.where if worst else {},
        modes=sorted({c.mode for c in judged}),
        witness=witness,
    )
