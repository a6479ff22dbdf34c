"""Theorem 1 of EFL on a run of anyone's: its constants need the law of participation and no run,
its left side the server's models."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fedtheory.errors import InvalidInput
from fedtheory.local import LocalSGD
from fedtheory.participation.irregular import Participation
from fedtheory.theorems.efl.cases.given import distance_off
from fedtheory.theorems.efl.cases.theorem_1 import (
    anchors_of,
    assumption_failure,
    check_present,
    check_step_sizes,
    constants_on,
    law_of,
    local_sgd_of,
)
from fedtheory.theorems.efl.quantities.run import EFLRun
from fedtheory.theory.judge.case import Case
from fedtheory.theory.judge.record import OwnRun, Record
from fedtheory.theory.judge.statement import Form, Statement

__all__ = ["own_run"]

LEFT = "||w_tau - w*||^2, w_tau the server's model after tau rounds"


def own_run(statement: Statement, form: Form, case: Case, record: Record) -> OwnRun:
    """The sides of a form on a recorded run, from tau = 1 on.

    Raises
    ------
    InvalidInput, MissingCapability
        An assumption that fails; steps that are not the theorem's.
    NotCertified
        An optimum that cannot be certified.
    """
    problem, law = case.problem, law_of(case)
    if anchors_of(case) is not None:
        raise InvalidInput("u_0, v_0: frozen anchors are judged on runs of this package only; leave them out")
    reason = assumption_failure(problem, case.algorithm, case.local_solver)
    if reason is not None:
        raise InvalidInput(reason)
    if not isinstance(case.sampling, Participation) and case.local_solver is None:
        raise InvalidInput(
            "the local steps E of the run are not said: give sampling=participation.complete(N, E) "
            "or another law of s_k, or local_solver=LocalSGD(E, 1.0)"
        )
    solver = local_sgd_of(case, law)
    check_present(law, record.rounds)
    check_step_sizes(problem, case.algorithm, law, record.rounds, solver, case.given)
    start = record.common_start(case.x0)
    constants = constants_on(replace(case, x0=start, rounds=record.rounds), law)
    optimum = problem.optimum()
    if record.models is None:
        distance_sq = np.zeros((record.rounds + 1, 1))
    else:
        distance_sq = ((record.models - optimum.x) ** 2).sum(axis=-1)
    off = distance_off(problem, optimum)
    noise = off * (2 * float(np.sqrt(distance_sq.max())) + off)
    horizons, rule = np.arange(1, record.rounds + 1), case.algorithm.scheme
    view = EFLRun(constants, distance_sq, rule, horizons, exact=False, noise=noise)
    reason = view.applies(form)
    if reason is None and rule not in form.established:
        reason = f"not claimed for {rule}, only for {', '.join(form.established)}"
    if reason is not None:
        raise InvalidInput(reason)
    sure = _nothing_random(law, solver, record.rounds)
    known = {**constants.summary(), "eta": np.asarray(constants.eta, dtype=float)}
    return OwnRun(form.sides(view), horizons, "tau", sure, LEFT, rule, known)  # type: ignore[misc]


def _nothing_random(law: Participation, solver: LocalSGD, rounds: int) -> bool:
    """Return whether everybody completes every round with full gradients."""
    complete = all((law.law(t)[:, -1] == 1).all() for t in range(1, rounds + 1))
    return complete and solver.batch_size is None and not solver.noise_std
