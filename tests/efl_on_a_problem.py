"""Small problems, laws of participation and cases for EFL's statements on a problem of a user's."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction as F
from types import SimpleNamespace

import numpy as np

from fedtheory import messages, problems
from fedtheory.algorithms import EFL
from fedtheory.participation.irregular import Irregular
from fedtheory.theorems import get
from fedtheory.theory.judge.registry import setting_of
from fedtheory.theory.judge.setting import Case, Plan
from fedtheory.theory.world import WorldInstance

SETTING = setting_of("efl/theorem-1")
BUILDERS = SETTING.builders
KINDS = tuple(kind for kind in SETTING.worlds if kind not in ("run", "step"))  # in fractions
TWO = problems.Quadratic([[[1.0]], [[1.0]]], [[0.0], [1.0]])  # (w - 0)^2/2 and (w - 1)^2/2, of weight 1/2
MIXED = problems.Quadratic([[[2.0, 1.0], [1.0, 2.0]]] * 2, [[0.0, 0.0], [1.0, 1.0]])  # the same with coordinates that mix
SIGNS = problems.Quadratic([[[1.0]], [[1.0]]], [[1.0], [-1.0]])
HALF_IDLE = Irregular(1, [[0.0, 1.0], [0.5, 0.5]])  # the second client is away every other round
LAW = Irregular(2, [[0.1, 0.2, 0.7], [0.3, 0.3, 0.4], [0.5, 0.25, 0.25]])
DIAGONAL = problems.Quadratic(
    [np.diag([1.0, 2.0]), np.diag([2.0, 0.5]), np.diag([1.5, 1.0])], [[1.0, -1.0], [0.5, 2.0], [-2.0, 0.25]], [0.2, 0.3, 0.5]
)
LOGISTIC = problems.random_logistic(3, 2, ridge=0.5, seed=0)
ST = messages.ST(0.5)
BOTH_WAYS = EFL(compressor=ST, down_compressor=ST)


def case_of(problem, algorithm, **how):
    x0 = np.asarray(how.pop("x0", np.zeros(problem.dim)), dtype=float)
    return Case(problem, algorithm, x0=x0, **how)


def battery(seed, scale=1.0):
    """The instances of a campaign of these kinds."""
    return [made for kind in KINDS for made in SETTING.worlds[kind].runs(Plan(seed, scale))]


def _maker(world):
    def make(form, case):
        made = world.on_problem(f"efl/{world.kind}", replace(case, form=form))
        if isinstance(made, dict):
            return world.instance(case.problem.name, made)
        return made if isinstance(made, WorldInstance) else SimpleNamespace(view=lambda: made)

    return make


MAKE = {kind: _maker(world) for kind, world in SETTING.worlds.items()}  # (form, case) -> instance


def view_of(statement, form, problem, algorithm, **how):
    s = get(f"efl/{statement}")
    return SETTING.instance(s, s.form(form), case_of(problem, algorithm, **how)).view()


def checks_of(statement, problem, algorithm=None, **how):
    return {c.form: c for c in get(f"efl/{statement}").verify(problem, algorithm or EFL(), **how)}


def sides_of(check):
    return [F(v) for v in (check.lhs, check.rhs)]
