"""Running statements: assumptions first, then every form on exact or Monte Carlo expectations, then verdicts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from scipy import stats

from fedtheory.algorithms.fedelasticnet_dyn import FedElasticNetDyn, FedElasticNetDynState
from fedtheory.errors import InvalidInput, MissingCapability, NotCertified
from fedtheory.inputs import check_unit, whole_number
from fedtheory.local.objective import LocalSolver
from fedtheory.participation.cohorts import Full, Sampling, Uniform
from fedtheory.problems.base import Problem
from fedtheory.randomness import Stream
from fedtheory.simulation.arguments import check_algorithm, check_local_solver, check_problem, check_sampling
from fedtheory.simulation.simulate import check_start, simulate
from fedtheory.theorems.fedelasticnet.expectation import FederatedLosses, random_states, round_view, tree, tree_depth
from fedtheory.theorems.fedelasticnet.quantities import RoundView, RunView
from fedtheory.theorems.fedelasticnet.stages import OnProgress, growing_views, stage_sizes
from fedtheory.theorems.fedelasticnet.statements import algorithm_1 as fedelasticnet_algorithm1
from fedtheory.verification.statement import Check, Form, Sides, Statement, judge

__all__ = ["CONFIDENCE", "Checks", "assumption_failure", "check_view", "judge_statistical", "reachable_states", "verify"]

CONFIDENCE = 0.999  # one-sided, before the correction for the horizons looked at


class Checks(list[Check]):
    """Checks that print as a table."""

    def __str__(self) -> str:
        return "\n".join(str(c) for c in self)

    @property
    def verdict(self) -> str:
        """Verdict of the repaired form where there is one, else of the first form."""
        repaired = [c for c in self if c.form == "repaired"] or list(self)
        for verdict in ("violated", "inconclusive", "not applicable"):
            if any(c.verdict == verdict for c in repaired):
                return verdict
        return "holds"


def assumption_failure(form: Form, problem: Problem, algorithm: Any, sampling: Sampling) -> str | None:
    """The first assumption of FedElasticNet's Theorem 3.1 that fails, with value and limit; None when all hold."""
    if not isinstance(algorithm, FedElasticNetDyn):
        return f"the statement is about FedElasticNet's Algorithm 3 (FedElasticNetDyn), not {type(algorithm).__name__}"
    if not algorithm.l1 > 0:
        return f"lambda_1 = {algorithm.l1:g} is not above 0, as Algorithm 3 asks (with 0 it is FedDyn): choose lambda_1 > 0"
    if algorithm.rule not in form.established:
        return f"not claimed for the {algorithm.rule} rule"
    if algorithm.epsilon != 0:
        return f"threshold epsilon = {algorithm.epsilon:g}; the theorem has none (0)"
    if not problem.convex:
        return "some client's loss is not convex"
    try:
        beta = float(problem.beta_k.max())
    except MissingCapability as error:
        return str(error)
    if not isinstance(sampling, Full | Uniform):
        return f"cohorts are drawn by {type(sampling).__name__}; the theorem needs P of m uniformly (Uniform or Full)"
    spread = float(np.abs(problem.weights * problem.num_clients - 1).max())
    if spread > 1e-12:
        return f"R must be the plain mean of the losses, but the weights differ from 1/m by up to {spread:.3g}/m"
    ratio = algorithm.l2 / beta if beta > 0 else float("inf")
    if form.threshold is not None and not ratio > form.threshold:
        return f"lambda_2/beta = {ratio:.6g} is not above {form.threshold:.6g}"
    return None


def judge_statistical(sides: Sides, confidence: float, stages: int = 1, **fields: Any) -> Check:
    """One-sided Student-t statement on E[rhs - lhs] for each horizon (rows), scenarios along the last axis.

    The error probability 1 - confidence is divided by the number of horizons and of `stages`, the times
    that the same scenarios are judged while they grow (Bonferroni). 'holds' when every lower confidence
    limit is >= 0 up to rounding; 'violated' when some upper one is < 0; 'inconclusive' otherwise, and where
    a side is not finite. The limits are Student's, for this form by itself: they do not cover a rare event
    that no scenario met.

    Raises
    ------
    InvalidInput
        A confidence outside (0, 1).
    """
    confidence = check_unit("confidence", confidence)
    looks, scenarios = sides.lhs.shape
    finite = np.isfinite(sides.lhs) & np.isfinite(sides.rhs)
    if not finite.all():
        row, run = (int(i) for i in np.argwhere(~finite)[0])
        reason = f"a side is not finite (horizon {row}, scenario {run}, counted from 0): the run diverged"
        where = {**fields.pop("where", {}), "index": [row]}
        return Check(verdict="inconclusive", reason=reason, confidence=confidence, where=where, count=looks, **fields)
    slack = sides.rhs - sides.lhs
    mean, se = slack.mean(axis=1), slack.std(axis=1, ddof=1) / np.sqrt(scenarios)
    z = stats.t.ppf(1 - (1 - confidence) / (looks * stages), df=scenarios - 1)
    scale = np.maximum(np.asarray(sides.scale).mean(axis=1), np.finfo(float).tiny)
    tolerance = 1e-9 * scale + np.max(sides.noise)
    lower, upper = mean - z * se, mean + z * se
    worst = int(np.argmin(lower / scale))
    if (upper < -tolerance).any():
        verdict, worst = "violated", int(np.argmin(upper / scale))
    else:
        verdict = "holds" if (lower >= -tolerance).all() else "inconclusive"
    lhs, rhs = sides.lhs.mean(axis=1), sides.rhs.mean(axis=1)
    positive = rhs > 1e-6 * scale
    return Check(
        verdict=verdict,  # type: ignore[arg-type]
        slack=float(mean[worst] / scale[worst]),
        tightness=float(np.max(lhs[positive] / rhs[positive])) if positive.any() else float("nan"),
        lhs=float(lhs[worst]),
        rhs=float(rhs[worst]),
        standard_error=float(se[worst]),
        confidence=confidence,
        where={**fields.pop("where", {}), "index": [worst]},
        reason="" if verdict != "inconclusive" else "the confidence interval of the slack contains 0: raise scenarios, and take "
        "another seed, as the same one would begin with these again",
        count=looks,
        scenarios=scenarios,
        **fields,
    )


def check_view(
    statement: Statement,
    form: Form,
    view: RoundView | RunView | None,
    rule: str,
    instance: str = "",
    confidence: float = CONFIDENCE,
    sides: Callable[[Any], Sides] | None = None,
    stages: int = 1,
) -> Check:
    """Run one form (or, with `sides`, a mutant of it) on a view; assumptions are the caller's business.

    stages: how often a statistical view is judged while its scenarios grow.
    """
    fields = {"statement": statement.id, "form": form.name, "rule": rule, "instance": instance}
    if form.symbolic is not None:
        ok = form.symbolic()
        return Check(verdict="holds" if ok else "violated", mode="symbolic", count=1, **fields)
    with np.errstate(over="ignore", invalid="ignore"):
        result = (sides or form.sides)(view)  # type: ignore[misc]
    rational = np.asarray(result.lhs).dtype == object
    if isinstance(view, RunView) and not view.exact:
        check = judge_statistical(result, confidence, stages, mode="statistical", **fields)
    else:
        check = judge(result, mode="rational" if rational else "exact", **fields)
    if isinstance(view, RunView) and "index" in check.where:
        check.where["T"] = int(view.horizons[check.where["index"][0]])
    if isinstance(view, RoundView) and "index" in check.where:
        _name_axes(check.where, view)
    return check


def _name_axes(where: dict[str, Any], view: RoundView) -> None:
    """Entries of one axis are states; of a cohort its clients are told."""
    index, axes = where["index"], where.get("axes", [])
    if len(index) == 1:
        where["axes"] = ["state"]
    elif "cohort" in axes:
        where["cohort"] = [int(k) for k in np.flatnonzero(view.members[index[axes.index("cohort")]])]


def reachable_states(
    problem: Problem,
    algorithm: FedElasticNetDyn,
    sampling: Sampling,
    x0: Any = None,
    rounds: int = 8,
    scenarios: int = 2,
    seed: int = 0,
) -> FedElasticNetDynState:
    """States of a real run, all rounds and scenarios stacked: round 0 first."""
    run = simulate(problem, algorithm, rounds, x0, sampling, scenarios, seed, record=(), keep_states=True)
    return stack_states(*run.states)  # type: ignore[misc]


def resolved_states(
    problem: Problem, algorithm: FedElasticNetDyn, state: FedElasticNetDynState, resolution: float = 1e-6
) -> FedElasticNetDynState:
    """The states that float64 can judge: gamma and the stored gradients differ from theta* and grad L_k(theta*) by more than
    `resolution` relative to their own size. Closer ones compare rounding errors; an exact instance judges those."""
    star = problem.optimum().x
    grad_star = problem.gradient(star)
    gamma = state.x + state.h / algorithm.l2
    away = np.abs(gamma - star).max(axis=-1) > resolution * (np.abs(gamma).max(axis=-1) + np.abs(star).max())
    stored = np.abs(state.stored - grad_star).max(axis=(1, 2)) > resolution * (
        np.abs(state.stored).max(axis=(1, 2)) + np.abs(grad_star).max()
    )
    keep = away & stored
    return FedElasticNetDynState(*(a[keep] for a in state))


def stack_states(*parts: FedElasticNetDynState) -> FedElasticNetDynState:
    """Several batches of states as one."""
    return FedElasticNetDynState(*(np.concatenate(a) for a in zip(*parts, strict=True)))


def verify(
    statement: Statement,
    problem: Problem,
    algorithm: Any,
    *,
    sampling: Sampling | None = None,
    x0: Any = None,
    rounds: int | None = None,
    mode: Literal["auto", "exact", "monte-carlo"] = "auto",
    scenarios: int = 1000,
    states: int = 32,
    seed: int = 0,
    forms: Iterable[str] | None = None,
    confidence: float = CONFIDENCE,
    max_leaves: int = 50_000,
    local_solver: LocalSolver | None = None,
    on_progress: OnProgress | None = None,
    on_stage: Callable[[Checks], None] | None = None,
) -> Checks:
    """Check a statement on a problem of yours.

    Parameters
    ----------
    statement : Statement, from `theorems.get`
    sampling : default full participation
    rounds : int
        Horizon T of statements about runs. Default: 50 by Monte Carlo, or as deep as the tree of cohorts allows (at most 30).
    mode : 'exact' enumerates all cohorts; 'monte-carlo' takes runs; 'auto' takes exact where it is affordable.
    scenarios : int
        The most runs that Monte Carlo takes: of FedElasticNet in stages (`fedtheory.theorems.fedelasticnet.stages`), up to the
        first after which every form is decided.
    states : int
        Statements about one round are checked at that many random states and at the states of a real run, in this order.
    forms : names of forms, default all
    local_solver : the local work of a statement about EFL: a `LocalSGD`
    on_progress : callable(done, stage, most)
        During Monte Carlo of a run of FedElasticNet, after every round; counted in rounds of one scenario.
    on_stage : callable(checks)
        Called there after every stage, with the checks so far: what an interrupt would otherwise lose.

    Returns
    -------
    Checks
        One check a form. A form outside its assumptions is 'not applicable'; a problem whose optimum cannot be certified
        makes all of them 'inconclusive'.

    Raises
    ------
    InvalidInput
        Another mode; a confidence outside (0, 1), counts that are no whole numbers; a problem, an algorithm, sampling or local
        solver of another kind; more cohorts, or paths of cohorts, than can be enumerated; cohorts larger than the number of clients.
    """
    if mode not in ("auto", "exact", "monte-carlo"):
        raise InvalidInput(f"mode = {mode!r}: use 'auto', 'exact' or 'monte-carlo'")
    check_problem(problem), check_algorithm(algorithm), check_sampling(sampling), check_local_solver(local_solver)
    if rounds is not None:
        whole_number("rounds", rounds, remedy="None leaves it to the statement")
    whole_number("scenarios", scenarios, least=2, remedy="a mean needs at least two runs to have an error")
    whole_number("states", states, least=0), whole_number("max_leaves", max_leaves), whole_number("seed", seed, least=0)
    confidence = check_unit("confidence", confidence)
    sampling = sampling or Full()
    sampling.check(problem.num_clients)
    x0 = check_start(problem, x0, 1)[0]
    chosen = [f for f in statement.forms] if forms is None else [statement.form(n) for n in forms]
    rule = getattr(algorithm, "rule", "any")
    out = Checks()
    if statement.scope == "fedmls":
        from fedtheory.theorems.fedmls import setting as fedmls_battery

        seeds = max(50, min(scenarios, 200))
        return Checks(fedmls_battery.verify(statement, problem, algorithm, chosen, x0, seeds, seed, confidence))
    if statement.scope == "efl":
        from fedtheory.theorems.efl import setting as efl_verify

        how = {"sampling": sampling, "local_solver": local_solver, "x0": x0, "rounds": rounds, "mode": mode, "seed": seed}
        checks = efl_verify.verify(
            statement, problem, algorithm, forms=chosen, scenarios=max(200, min(scenarios, 1000)), confidence=confidence, **how
        )
        return Checks(checks)
    run: list[Form] = []
    for form in chosen:
        fields = {"statement": statement.id, "form": form.name, "rule": rule, "mode": "exact"}
        if form.symbolic is not None:
            out.append(check_view(statement, form, None, "any"))
            continue
        if statement.scope == "fixed-point":
            reason, fields["rule"] = fedelasticnet_algorithm1.assumption_failure(problem, algorithm), "any"
        else:
            reason = assumption_failure(form, problem, algorithm, sampling)
        if reason is None:
            run.append(form)
        else:
            out.append(Check(verdict="not applicable", reason=reason, **fields))
    if not run:
        return out
    try:
        if statement.scope == "fixed-point":
            fixed = fedelasticnet_algorithm1.fixed_point(problem, algorithm, x0)
            out += [check_view(statement, form, fixed, "any", problem.name) for form in run]
            return _in_order(out, chosen)
        losses = FederatedLosses(problem)
    except NotCertified as error:
        return Checks(
            [*out]
            + [Check(statement.id, f.name, rule, "inconclusive", "exact", reason=str(error)) for f in run]
        )
    if statement.scope == "run":
        kept = Checks(out)

        def after(found: Iterable[Check]) -> None:
            if on_stage is not None:
                on_stage(_in_order(Checks([*kept, *found]), chosen))

        how = (rounds, mode, stage_sizes(scenarios), seed, max_leaves, on_progress, after)
        out += _over_a_run(statement, run, problem, algorithm, sampling, losses, x0, how, rule, confidence)
    else:
        view = _one_round(problem, algorithm, sampling, losses, x0, states, seed, max_leaves)
        out += [check_view(statement, form, view, rule, problem.name, confidence) for form in run]
    return _in_order(out, chosen)


def _over_a_run(
    statement: Statement,
    forms: Sequence[Form],
    problem: Problem,
    algorithm: FedElasticNetDyn,
    sampling: Sampling,
    losses: FederatedLosses,
    x0: np.ndarray,
    how: tuple[Any, ...],
    rule: str,
    confidence: float,
) -> list[Check]:
    """One check a form: over all sequences of cohorts, or by Monte Carlo in stages."""
    rounds, mode, sizes, seed, max_leaves, on_progress, after = how
    count = sampling.count(problem.num_clients)
    depth = tree_depth(count, max_leaves)
    if _enumerates(mode, rounds, count, depth):
        view = tree(problem, algorithm, sampling, rounds or depth, x0, losses=losses, max_leaves=max_leaves)
        return [check_view(statement, form, view, rule, problem.name, confidence) for form in forms]
    views = growing_views(problem, algorithm, sampling, rounds or 50, x0, sizes, seed, losses, on_progress)
    return _staged(statement, forms, views, len(sizes), rule, problem.name, confidence, after)


def _staged(
    statement: Statement,
    forms: Sequence[Form],
    views: Iterable[RunView],
    stages: int,
    rule: str,
    instance: str,
    confidence: float,
    after: Callable[[Iterable[Check]], None] = lambda found: None,
) -> list[Check]:
    """One check a form: the first that decides it, else the last; ``after`` is called after every stage."""
    found: dict[str, Check] = {}
    for form in forms:
        if form.exact_only:
            found[form.name] = Check(
                statement.id, form.name, rule, "not applicable", "statistical", reason="needs exact expectations"
            )
    for view in views if len(found) < len(forms) else ():
        for form in forms:
            if form.name not in found or found[form.name].verdict == "inconclusive":
                found[form.name] = check_view(statement, form, view, rule, instance, confidence, stages=stages)
        after(found.values())
        if not any(c.verdict == "inconclusive" for c in found.values()):
            break
    return list(found.values())


def _in_order(checks: Checks, forms: Sequence[Form]) -> Checks:
    order = {f.name: i for i, f in enumerate(forms)}
    return Checks(sorted(checks, key=lambda c: order[c.form]))


def _enumerates(mode: str, rounds: int | None, count: int, depth: int) -> bool:
    """Whether a run is judged on all sequences of cohorts; a single cohort has one, however long the run."""
    return mode == "exact" or (mode == "auto" and (count == 1 or ((rounds or 0) <= depth and depth >= 3)))


def _one_round(
    problem: Problem,
    algorithm: FedElasticNetDyn,
    sampling: Sampling,
    losses: FederatedLosses,
    x0: np.ndarray,
    states: int,
    seed: int,
    max_leaves: int,
) -> RoundView:
    count = sampling.count(problem.num_clients)
    if count > max_leaves:
        raise InvalidInput(
            f"{count} cohorts of P among m = {problem.num_clients} clients are too many to enumerate (limit {max_leaves}): "
            "check a run-level statement by Monte Carlo, or use fewer clients"
        )
    rng = Stream(seed).generator("states")
    real = reachable_states(problem, algorithm, sampling, x0, seed=seed)
    batch = stack_states(random_states(problem, states, rng, algorithm.l2), resolved_states(problem, algorithm, real))
    return round_view(problem, algorithm, sampling, batch, losses=losses)


def with_instance(check: Check, instance: str) -> Check:
    """The check, labelled."""
    return replace(check, instance=instance)
