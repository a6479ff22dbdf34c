"""EFL's own row of Table 1, and those of the non-convex methods, on a problem of a user's."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from fedtheory.errors import InvalidInput
from fedtheory.rational import simplest, to_file
from fedtheory.theorems.efl.cases.deadlines import rates
from fedtheory.theorems.efl.cases.given import Made, given_number
from fedtheory.theorems.efl.cases.theorem_1 import constants_on, law_of, view_of
from fedtheory.theorems.efl.notation import instance_of
from fedtheory.theorems.efl.quantities.run import EFLRun
from fedtheory.theorems.efl.statements.table_1_rows import BY_DISTANCE
from fedtheory.theory.judge.setting import Case, ClosedView
from fedtheory.theory.judge.statement import Form

__all__ = ["MeasuredRowView", "row", "units"]


@dataclass
class MeasuredRowView(ClosedView):
    """The rounds that a run of the user's took until E||w_T - w*||^2 <= epsilon, in exact second moments, and the row.

    Attributes
    ----------
    needed, terms : the number of rounds, and both terms of the row
    K : the constant before the row
    epsilon, S : the accuracy, and the clients that take part in a round on average
    """

    needed: int
    terms: tuple[float, float]
    K: float
    epsilon: float
    S: float
    facts: frozenset[str] = frozenset({BY_DISTANCE})

    def printed_constants(self) -> dict[str, Any]:
        return {"needed": self.needed, "row": sum(self.terms), "factor": self.K, "epsilon": self.epsilon, "S": self.S}


def row(form: Form, case: Case) -> Any:
    """The user's run with Theorem 1's steps; epsilon is ||w_0 - w*||^2/2, and K 1, unless given.

    Raises
    ------
    InvalidInput
        A run without exact second moments; an accuracy that is not reached, or is there from the start.
    """
    view = view_of("run", case)
    if not isinstance(view, EFLRun) or not view.exact:
        raise InvalidInput("the run is sampled here: the rounds it needs are counted for quadratic losses and independent clients")
    c, path = view.constants, np.asarray(view.distance_sq, dtype=float)
    epsilon = float(given_number(case, "epsilon", float(path[0]) / 2, above=0))
    reached = np.flatnonzero(path <= epsilon)
    if not len(reached) or reached[0] == 0:
        what = "not reached: give a larger one, or more rounds" if not len(reached) else "there at the start: give a smaller one"
        found = f"||w_0 - w*||^2 = {path[0]:.6g}, {path[-1]:.6g} after {len(path) - 1} rounds"
        raise InvalidInput(f"epsilon = {epsilon:.6g} is {what}; {found}")
    active = float((1 - law_of(case).law(1)[:, 0]).sum())
    terms = float(c.G_sq) / (float(c.mu) * active * epsilon), float(c.L) / (float(c.mu) * epsilon**0.5)
    return Made(MeasuredRowView(int(reached[0]), terms, float(given_number(case, "K", 1, above=0)), epsilon, active))


def units(form: Form, case: Case) -> Any:
    """The data of kind 'units': as of kind 'rates', with the largest sigma_k and N, 1 for sigma where there is no noise."""
    data = rates(form, replace(case, given={"delta": 1, **case.given})).data
    found = case.given.get("sigma_sq")
    if found is None:
        found = np.asarray(constants_on(case).sigma_sq, dtype=float)
    most = float(np.max(np.asarray(found, dtype=float)))
    shared = {k: data[k] for k in ("G", "L", "mu", "S", "root")}
    sigma = simplest(most**0.5) if most > 0 else Fraction(1)
    more = to_file({"sigma": sigma, "clients": Fraction(case.problem.num_clients)})
    return instance_of("units", case.problem.name, {**shared, **more})
