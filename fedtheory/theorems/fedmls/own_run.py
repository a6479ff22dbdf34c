"""Theorems 1 and 2 of FedMLS on a run of anyone's, from its last model and the hyperparameters."""

from dataclasses import replace
from typing import Any

import numpy as np

from fedtheory.errors import InvalidInput
from fedtheory.theorems.fedmls.notation import is_reading
from fedtheory.theorems.fedmls.on_a_problem import UsersRuns
from fedtheory.theorems.fedmls.quantities import MLSView, constants_of
from fedtheory.theory import Case, Form, Statement
from fedtheory.theory.judge.record import Missing, OwnRun, Record, not_about_runs

LEFT = (
    "F(x_K) - F*, x_K the server's model after the K rounds that FedMLS was made for, F* over the "
    "ball"
)


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
    where = f"{statement.id} [{form.name}]"
    if is_reading(form):
        raise InvalidInput(f"{where} is a reading that its witness refutes: take another form")
    if "steps" in form.name:
        raise InvalidInput(not_about_runs(f"{where} counts the local steps of the parameters"))
    start = record.common_start(case.x0)
    known = UsersRuns(replace(case, x0=start, rounds=record.rounds))
    for reason in known.objections(form):
        raise InvalidInput(reason)
    c = constants_of(known.algorithm, known.bounds, start, known.radius)
    view = _view(where, known, c, record.models)
    letters = {
        "K": c.K, "lambda": c.lam, "D": c.D, "G_sq": c.G_sq, "sigma_sq": c.sigma_sq,
        "distance_sq": c.distance_sq, "T_k": c.steps,
    }  # fmt: skip
    return OwnRun(form.sides_on(view), view.horizons, "K", view.exact, LEFT, view.rule, letters)


def _view(where: str, known: UsersRuns, constants: Any, models: np.ndarray | None) -> MLSView:
    """The view of the last model; what happens on the way is not known."""
    excess, optimum = np.zeros((1, 1)), known.optimum
    if models is not None:
        longest = float(np.linalg.norm(models[-1], axis=-1).max())
        if longest > known.radius * (1 + 1e-9):
            raise InvalidInput(
                f"||x_K|| = {longest:.6g} is outside the ball of radius {known.radius:.6g}: the "
                "server does not project"
            )
        excess = known.problem.objective(models) - optimum.lower_bound
    size = float(np.abs(excess).max() + 2 * abs(optimum.value))
    unknown: Any = Missing(
        f"{where} needs the clients' iterates, which such runs do not hold: use verify"
    )
    return MLSView(
        constants, *(unknown,) * 7, excess=excess, noise=known.bounds.noise(size),
        points=optimum.x[None], exact=known.case_rule == "deterministic",
    )
