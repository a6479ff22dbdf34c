"""FedElasticNet's statements about a round on a problem of the user's: assumptions first, then every form."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fedtheory.algorithms.fedelasticnet_dyn import FedElasticNetDyn
from fedtheory.errors import InvalidInput, MissingCapability, NotCertified
from fedtheory.participation.cohorts import Full, Sampling, Uniform
from fedtheory.problems.base import Problem
from fedtheory.randomness import Stream
from fedtheory.theorems.fedelasticnet.expectation import FederatedLosses, random_states, round_view
from fedtheory.theorems.fedelasticnet.notation import RATIO
from fedtheory.theorems.fedelasticnet.quantities import RoundView
from fedtheory.theorems.fedelasticnet.states import reachable_states, resolved_states, stack_states
from fedtheory.theory.judge.check import Check, judge_view, outside
from fedtheory.theory.judge.setting import Case
from fedtheory.theory.judge.statement import Form, Statement

__all__ = ["assumption_failure", "verify"]


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

    Raises
    ------
    InvalidInput
        More cohorts than can be enumerated.
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
    view = _one_round(case, sampling, losses)
    return out + [judge_view(statement, form, view, problem.name, confidence=case.confidence) for form in run]


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
