"""Theorems 1 and 2 of FedMLS on a run of anyone's: their constants need the problem and the hyperparameters, the left side x_K."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedtheory.algorithms.fedmls import FedMLS
from fedtheory.errors import InvalidInput
from fedtheory.theorems.fedmls.notation import is_reading
from fedtheory.theorems.fedmls.on_a_problem import UsersRuns
from fedtheory.theorems.fedmls.quantities import Bounds, MLSConstants, MLSView
from fedtheory.theory.judge.case import Case
from fedtheory.theory.judge.record import Missing, OwnRun, Record, not_about_runs
from fedtheory.theory.judge.statement import Form, Statement

__all__ = ["own_run"]

LEFT = "F(x_K) - F*, x_K the server's model after the K rounds that FedMLS was made for, F* over the ball"


def own_run(statement: Statement, form: Form, case: Case, record: Record) -> OwnRun:
    """The sides of a form on a recorded run, at K.

    Raises
    ------
    InvalidInput, MissingCapability
        An assumption that fails; a run of other than K rounds.
    NotRecorded
        A form about iterates on the way.
    NotCertified
        An optimum that cannot be certified.
    """
    algorithm = case.algorithm
    if not isinstance(algorithm, FedMLS):
        raise InvalidInput(f"the statement is about FedMLS, not {type(algorithm).__name__}")
    if is_reading(form):
        raise InvalidInput(f"{statement.id} [{form.name}] is a reading that its witness refutes: take another form")
    if "steps" in form.name:
        raise InvalidInput(not_about_runs(f"{statement.id} [{form.name}] counts the local steps of the parameters"))
    start = record.common_start(case.x0)
    case = Case(case.problem, algorithm, case.sampling, case.local_solver, start, record.rounds, given=case.given)
    known = UsersRuns(case)
    reason = known.not_about(form) or known.assumption_failure(form)
    if reason is not None:
        raise InvalidInput(reason)
    view = _view(statement, form, known, record)
    return OwnRun(form.sides(view), np.array([record.rounds]), "K", view.exact, LEFT, view.rule, _letters(view))  # type: ignore[misc]


def _letters(view: MLSView) -> dict[str, Any]:
    c = view.constants
    return {"K": c.K, "lambda": c.lam, "D": c.D, "G_sq": c.G_sq, "sigma_sq": c.sigma_sq, "distance_sq": c.distance_sq, "T_k": c.steps}


def _view(statement: Statement, form: Form, known: UsersRuns, record: Record) -> MLSView:
    """The view of the last model; what happens on the way is not known."""
    problem, algorithm, optimum, start = known.problem, known.algorithm, known.optimum, known.x0
    bounds = Bounds(optimum, known.G_i, known.sigma_i)
    reach = (known.radius + float(np.linalg.norm(start))) ** 2
    steps = np.array([algorithm.steps(k) for k in range(1, algorithm.rounds + 1)])
    distance_sq = float(((start - optimum.x) ** 2).sum())
    constants = MLSConstants(
        algorithm.rounds, float(algorithm.lam), float(algorithm.D), bounds.G_i, bounds.sigma_i, distance_sq, steps, reach
    )
    x = np.zeros((record.rounds + 1, problem.dim, 1)) if record.models is None else np.moveaxis(record.models, 1, -1)
    excess = np.zeros((len(x), 1))
    if record.models is not None:
        longest = float(np.linalg.norm(record.models[-1], axis=-1).max())
        if longest > known.radius * (1 + 1e-9):
            raise InvalidInput(f"||x_K|| = {longest:.6g} is outside the ball of radius {known.radius:.6g}: the server does not project")
        excess = problem.objective(record.models) - optimum.lower_bound
    size = float(np.abs(excess).max() + 2 * abs(optimum.value))
    unknown = Missing(f"{statement.id} [{form.name}] needs the clients' iterates, which such runs do not hold: use verify")
    return MLSView(
        constants, x, unknown, unknown, unknown, unknown, unknown, unknown, excess=excess,  # type: ignore[arg-type]
        noise=optimum.value - optimum.lower_bound + 1e-12 * (1 + size), points=optimum.x[None], exact=known.rule == "deterministic",
    )  # fmt: skip
