"""MOPES and MOLES on a user's problem over a convex set, and Theorem 2's counts for a user's accuracy."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from fedtheory.algorithms.fedmls import FedMLS
from fedtheory.central.plan import ACCURACY, Planned, plan
from fedtheory.central.sets import Ball, ConstraintSet
from fedtheory.errors import InvalidInput
from fedtheory.inputs import shown
from fedtheory.theorems.fedmls.data import BUILDERS, FractionInstance
from fedtheory.theorems.fedmls.mopes_instances import view_of_central_run
from fedtheory.theorems.fedmls.views import MopesView, OrdersView
from fedtheory.verification.rational import simplest
from fedtheory.verification.setting import Case
from fedtheory.verification.statement import Statement

__all__ = ["SET_ACCEPTS", "method_of", "mopes_view_of_case", "orders_view_of_case", "planned_of"]

FEWEST, MOST = 50, 200  # runs that a statement about expectations is judged on
SET_ACCEPTS = {
    "X": "the convex set, of `fedtheory.central` (default: the ball of radius 1); --set and --set-size at the command line",
    "epsilon": f"the accuracy in units of G ||x_0 - x*|| (default {ACCURACY:g})",
    "noise": "noise added to every subgradient, in units of G (default 0)",
    "K": "rounds (default: what the bound asks for)",
    "lam": "lambda (default epsilon/G^2)", "D": "D-tilde (default ||x_0 - x*||^2)",
    "C": "moles' allowance for inexact projections (default the squared diameter)",
    "local_training": "'sliding' (default) or 'exact-prox'",
}  # fmt: skip


def method_of(statement: Statement) -> str:
    """'moles' for its statements, else 'mopes'."""
    return "moles" if statement.id.split("/")[-1].startswith("moles") else "mopes"


def planned_of(statement: Statement, problem: Any, given: Mapping[str, Any], x0: np.ndarray, batch_size: int | None = None) -> Planned:
    """The run that is meant; from 0, or the set's point nearest to 0, where x_0 is 0."""
    constraint = given.get("X", Ball(problem.dim, 1.0))
    if not isinstance(constraint, ConstraintSet):
        raise InvalidInput(f"X is {shown(constraint)}: give a set of fedtheory.central, such as Box(dim, -1, 1)")
    start = None if not x0.any() else np.tile(x0, constraint.dim // problem.dim)
    options = {k: given.get(k) for k in SET_ACCEPTS if k not in ("X", "K")}
    return plan(problem, constraint, method_of(statement), start, rounds=given.get("K"), batch_size=batch_size, **options)


def mopes_view_of_case(statement: Statement, case: Case) -> MopesView | str:
    """The run on a user's problem, or why the statement does not apply to it.

    Raises
    ------
    InvalidInput, MissingCapability, NotCertified
        As `fedtheory.central.plan` raises them.
    """
    if case.algorithm is not None:
        return f"the statement is about {method_of(statement).upper()} with parameters of its own: give None for the method"
    if not case.problem.convex:
        return "some client's loss is not convex"
    made = planned_of(statement, case.problem, case.given, case.x0)
    noisy = bool(made.method.noise_std)
    if case.mode == "exact" and noisy:
        return "mode = 'exact': what noise does is not enumerated, use mode='auto'"
    count = max(FEWEST, min(case.scenarios, MOST)) if noisy else 1
    optimum = made.optimum
    return view_of_central_run(
        made.method, made.problem, made.constraint, made.x0, optimum.x, optimum.lower_bound, noise=optimum.value - optimum.lower_bound,
        seeds=range(case.seed, case.seed + count), distance_sq=made.distance**2,
    )  # fmt: skip


def orders_view_of_case(case: Case, rounds: str) -> OrdersView | str:
    """Theorem 2's counts for the accuracy that a user's FedMLS is made for, lambda = epsilon/G^2."""
    a = case.algorithm
    if not isinstance(a, FedMLS):
        return f"the statement is about FedMLS, not {type(a).__name__}"
    reach = math.sqrt(float(a.D)) / (float(a.lam) * float(a.lipschitz))
    given = {"reach": str(simplest(reach)), "sigma": str(simplest(float(a.sigma) / float(a.lipschitz))), "rounds": rounds}
    return FractionInstance(BUILDERS, "orders", case.problem.name, given).view()
