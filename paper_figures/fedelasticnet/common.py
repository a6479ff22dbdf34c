"""The look of Algorithm 3's two rules; and for experiments problems of real data by heterogeneity,
local work, and the best of a grid."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any

import numpy as np

from fedtheory.local import GradientSteps
from fedtheory.participation.cohorts import Uniform
from fedtheory.plotting.style import METHOD_COLOURS
from fedtheory.problems import datasets, partitions
from fedtheory.simulation.simulate import simulate

__all__ = [
    "CLIENTS", "COHORT", "DATA", "LINESTYLES", "RULE_COLOURS", "RULE_NAMES", "STEPS", "best_of",
    "grid_of", "measured", "problem_of", "steps_of",
]  # fmt: skip

LINESTYLES = {"sign": "--", "true-gradient": "-"}
RULE_NAMES = {"sign": "sign rule", "true-gradient": "true-gradient rule"}
# What is printed, the sign rule of line 5, has the algorithm's own colour.
RULE_COLOURS = {"sign": METHOD_COLOURS["algorithm-3"], "true-gradient": "#56B4E9"}
CLIENTS, COHORT, STEPS = 10, 5, 10
RIDGE = 1e-2
DATA: dict[str, Callable[[], Any]] = {"breast cancer": datasets.breast_cancer, "digits, even or odd": datasets.digits_binary}


@cache
def problem_of(name: str, alpha: float | None, seed: int) -> Any:
    """Logistic regression with a ridge on ten clients, labels dealt by Dirichlet(alpha), or iid for None."""
    data = DATA[name]()
    if alpha is None:
        deal = partitions.iid(len(data.targets), CLIENTS, seed=seed)
    else:
        deal = partitions.dirichlet(data.targets, CLIENTS, alpha, seed=seed)
    problem = partitions.federate(data, deal, ridge=RIDGE)
    problem.optimum()
    return problem


def steps_of(problem: Any, steps: int = STEPS) -> GradientSteps:
    """The same local work for every method: so many gradient steps, the l1 penalty by its proximal step."""
    return GradientSteps(steps, 0.5 / problem.constants().beta, l1="prox")


def measured(problem: Any, algorithm: Any, rounds: int, scenarios: int, seed: int, solver: Any = None) -> dict[str, float]:
    """Means over the scenarios after the last round: suboptimality, bits sent in all, nonzeros a message (mean over the rounds)."""
    record = ("suboptimality", "bits_up", "nonzeros")
    run = simulate(problem, algorithm, rounds, None, Uniform(COHORT), scenarios, seed, solver or steps_of(problem), record)
    m = run.metrics
    return {
        "suboptimality": float(m["suboptimality"][-1].mean()), "bits": float(m["bits_up"][1:].sum(axis=0).mean()),
        "nonzeros": float(m["nonzeros"][1:].mean()), "start": float(m["suboptimality"][0].mean()),
    }  # fmt: skip


def best_of(run: Callable[[Any], dict[str, float]], choices: Iterable[Any]) -> dict[str, Any]:
    """The choice of a grid that ends lowest, with what was measured; a run that leaves the finite numbers counts as none."""
    from fedtheory.errors import Diverged, LocalSolveFailed

    best: dict[str, Any] = {"suboptimality": np.inf, "choice": None}
    for choice in choices:
        try:
            found = run(choice)
        except (Diverged, LocalSolveFailed):
            continue
        if found["suboptimality"] < best["suboptimality"]:
            best = {**found, "choice": choice}
    return best


def grid_of(low: float, high: float, count: int) -> Sequence[float]:
    """So many values, evenly spaced in their logarithms."""
    return [float(f"{v:.3g}") for v in np.geomspace(low, high, count)]
