"""Runs of Algorithm 3 on a problem, as the statements about runs take them: for figures."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from fedtheory.algorithms.fedelasticnet_dyn import FedElasticNetDyn
from fedtheory.participation.cohorts import Sampling
from fedtheory.problems.base import Problem
from fedtheory.theorems.fedelasticnet.paper import FILE
from fedtheory.theory.rounds.measured import RunQuantities
from fedtheory.theory.rounds.method_setting import MethodSetting
from fedtheory.theory.rounds.run_matches_claim import as_said

__all__ = ["right_side", "runs"]


def runs(
    problem: Problem, algorithm: FedElasticNetDyn, sampling: Sampling, rounds: int, x0: Any,
    scenarios: int = 1, seed: int = 0, mode: str = "exact",
) -> Iterator[RunQuantities]:  # fmt: skip
    """One run over all sequences of cohorts, or with the mode 'monte-carlo' draws of them, as many at
    once as may be held."""
    setting = MethodSetting.of(FILE["theorem-3.1"].variants[algorithm.rule])
    facts = setting.facts(setting.world(problem), sampling, rounds)
    setting, done = as_said(setting, facts, algorithm, None), 0
    while done < scenarios:
        how: Any = sampling, scenarios, x0, rounds, seed, {}, mode
        view: Any = setting.problem_views(problem, np.random.default_rng(0), *how, first=done)
        yield view
        done += len(view.x[0]) if view.sampled else scenarios


def right_side(q: Any, name: str, form: str = "repaired") -> Any:
    """The right side of a form at every horizon, in every scenario, by the statement's own code."""
    made = next(c for c in FILE[name].function(q) if c.name == form)
    return made.sides().rhs
