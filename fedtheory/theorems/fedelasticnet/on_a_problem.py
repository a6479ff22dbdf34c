"""FedElasticNet's statements on a problem of the user's: assumptions first, then every form on exact or Monte Carlo expectations."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fedtheory.algorithms.fedelasticnet_dyn import FedElasticNetDyn
from fedtheory.errors import InvalidInput, MissingCapability, NotCertified
from fedtheory.participation.cohorts import Full, Sampling, Uniform
from fedtheory.problems.base import Problem
from fedtheory.randomness import Stream
from fedtheory.theorems.fedelasticnet.expectation import FederatedLosses, random_states, round_view, tree, tree_depth
from fedtheory.theorems.fedelasticnet.notation import RATIO
from fedtheory.theorems.fedelasticnet.quantities import RoundView, RunView
from fedtheory.theorems.fedelasticnet.stages import growing_views
from fedtheory.theorems.fedelasticnet.states import reachable_states, resolved_states, stack_states
from fedtheory.theory.judge.check import Check, judge_view, outside
from fedtheory.theory.judge.checks import Checks
from fedtheory.theory.judge.sequential import fewest, in_looks, looks
from fedtheory.theory.judge.setting import Case
from fedtheory.theory.judge.statement import Form, Statement

__all__ = ["ROUNDS", "assumption_failure", "verify"]

ROUNDS = 50  # of a run by Monte Carlo, where none are asked for


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
    if algorithm.compressor is not None:
        return f"compressor {algorithm.compressor.name}; the theorem is about messages that are sent whole (none)"
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
    limit = form.limits.get(RATIO)
    if limit is not None and not ratio > limit:
        return f"{RATIO} = {ratio:.6g} is not above {limit:.6g}"
    return None


def verify(statement: Statement, forms: Sequence[Form], case: Case) -> list[Check]:
    """One check a form on a user's problem.

    The horizon of a run is by default `ROUNDS` by Monte Carlo, or as deep as the tree of cohorts allows (at most 30). Monte Carlo
    grows up to the first look after which every form is decided (`fedtheory.theory.judge.sequential`).

    Raises
    ------
    InvalidInput
        More cohorts, or paths of cohorts, than can be enumerated.
    """
    problem, algorithm, sampling = case.problem, case.algorithm, case.sampling or Full()
    rule = getattr(algorithm, "rule", "any")
    out: list[Check] = []
    run: list[Form] = []
    for form in forms:
        reason = assumption_failure(form, problem, algorithm, sampling)
        if reason is None:
            run.append(form)
        else:
            out.append(outside(statement, form, rule, reason))
    if not run:
        return out
    try:
        losses = FederatedLosses(problem)
    except NotCertified as error:
        return out + [outside(statement, form, rule, str(error), verdict="inconclusive") for form in run]
    if statement.scope == "run":
        return out + _over_a_run(statement, run, case, sampling, losses, out)
    view = _one_round(case, sampling, losses)
    return out + [judge_view(statement, form, view, problem.name, confidence=case.confidence) for form in run]


def _over_a_run(
    statement: Statement, forms: Sequence[Form], case: Case, sampling: Sampling, losses: FederatedLosses, before: Sequence[Check]
) -> list[Check]:
    """One check a form: over all sequences of cohorts, or by Monte Carlo in looks. ``before``: checks of the other forms."""
    problem, algorithm = case.problem, case.algorithm
    count = sampling.count(problem.num_clients)
    depth = tree_depth(count, case.max_leaves)
    if _enumerates(case.mode, case.rounds, count, depth):
        view = tree(problem, algorithm, sampling, case.rounds or depth, case.x0, losses=losses, max_leaves=case.max_leaves)
        return [judge_view(statement, form, view, problem.name, confidence=case.confidence) for form in forms]

    def after(found: Iterable[Check]) -> None:
        if case.on_stage is not None:
            order = {f.name: i for i, f in enumerate(statement.forms)}
            case.on_stage(Checks(sorted([*before, *found], key=lambda c: order[c.form]), statement))

    rounds = case.rounds or ROUNDS
    least = case.scenarios if case.at_once else fewest(getattr(sampling, "size", problem.num_clients) / problem.num_clients, rounds)
    sizes = [n for n, _ in looks(case.scenarios, case.confidence, least)]
    views = growing_views(
        problem, algorithm, sampling, rounds, case.x0, sizes, case.seed, losses, case.on_progress,
        paired=any(form.exact_only for form in forms),
    )  # fmt: skip

    def judged(names: Sequence[str], scenarios: int, confidence: float) -> list[Check]:
        view = next(v for v in views if v.excess.shape[1] == scenarios)  # a look that was kept did not ask for its own
        return [_on_scenarios(statement, statement.form(name), view, case, least, confidence) for name in names]

    return in_looks(judged, [form.name for form in forms], case.scenarios, case.confidence, least, after)


def _on_scenarios(statement: Statement, form: Form, view: RunView, case: Case, least: int, confidence: float) -> Check:
    """One form on the scenarios so far; in pairs of them where it multiplies expectations."""
    on, so_far = view.pairs if form.exact_only else view, view.excess.shape[1]
    pairs = so_far if on is None else on.excess.shape[1]
    if form.exact_only and (pairs < 2 or (pairs < least and so_far < case.scenarios)):
        few = f"{so_far} scenarios are too few for pairs of them: take at least 4, better {2 * least} or more"
        open_ = outside(statement, form, case.algorithm.rule, few, verdict="inconclusive")
        return replace(open_, mode="statistical", scenarios=so_far)
    found = judge_view(statement, form, on, case.problem.name, confidence=confidence)
    return found if found.scenarios is None else replace(found, scenarios=so_far)


def _enumerates(mode: str, rounds: int | None, count: int, depth: int) -> bool:
    """True if a run is judged on all sequences of cohorts; a single cohort has only one."""
    return mode == "exact" or (mode == "auto" and (count == 1 or ((rounds or 0) <= depth and depth >= 3)))


def _one_round(case: Case, sampling: Sampling, losses: FederatedLosses) -> RoundView:
    problem, algorithm = case.problem, case.algorithm
    count = sampling.count(problem.num_clients)
    if count > case.max_leaves:
        raise InvalidInput(
            f"{count} cohorts of P among m = {problem.num_clients} clients are too many to enumerate (limit {case.max_leaves}): "
            "check a run-level statement by Monte Carlo, or use fewer clients"
        )
    rng = Stream(case.seed).generator("states")
    real = reachable_states(problem, algorithm, sampling, case.x0, seed=case.seed)
    batch = stack_states(random_states(problem, case.states, rng, algorithm.l2), resolved_states(problem, algorithm, real))
    return round_view(problem, algorithm, sampling, batch, losses=losses)
