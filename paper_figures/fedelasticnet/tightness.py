"""The tightness of each statement against lambda_2/beta, over a family of instances."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from fedtheory.algorithms.fedelasticnet_dyn import FedElasticNetDyn
from fedtheory.errors import InvalidInput
from fedtheory.participation.cohorts import Uniform
from fedtheory.plotting.style import COLOURS, headline, legend_below, page_figure
from fedtheory.problems.base import Problem
from fedtheory.randomness import Stream
from fedtheory.theorems.fedelasticnet.notation import (
    REPAIRED_THRESHOLD,
    RULES,
    THEOREM_A_THRESHOLD,
    THEOREM_B_THRESHOLD,
)
from fedtheory.theory.judge.registry import get
from fedtheory.theory.rounds.oracles import MAX_PATHS
from paper_figures.fedelasticnet.common import LINESTYLES, RULE_COLOURS, RULE_NAMES
from paper_figures.fedelasticnet.instances import L1, ProblemInstance

__all__ = ["PANELS", "caption", "compute", "draw", "family"]

# Panel title -> (statement, {rule: the form that holds under it}).
PANELS: dict[str, tuple[str, dict[str, str]]] = {
    "Lemma B.4 (repaired)": ("lemma-b4", {"sign": "repaired", "true-gradient": "repaired"}),
    "Lemma B.5 (as printed)": ("lemma-b5", {"sign": "printed", "true-gradient": "printed"}),
    r"B.5 without $\ell_1$ floor": ("lemma-no-l1-floor", {"sign": "repaired", "true-gradient": "repaired"}),
    "(28): sign rule repaired": ("eq-28", {"sign": "repaired", "true-gradient": "printed"}),
    "(29) (as printed)": ("eq-29", {"sign": "printed", "true-gradient": "printed"}),
    "B.6, one step (repaired)": ("theorem-b6", {"sign": "repaired", "true-gradient": "repaired"}),
    "Theorem 3.1 (repaired)": ("theorem-3.1", {"sign": "repaired", "true-gradient": "repaired"}),
    "Theorem A (true gradient)": ("theorem-a", {"true-gradient": "repaired"}),
    "Theorem B (sign rule)": ("theorem-b", {"sign": "repaired"}),
}
_THRESHOLDS = {"A": THEOREM_A_THRESHOLD, "B": THEOREM_B_THRESHOLD, "3.1": REPAIRED_THRESHOLD}
_ROUNDS = 30


def family(count: int, seed: int = 0) -> list[ProblemInstance]:
    """Small instances of three kinds; in every second one everybody takes part, so that a run of 30 rounds is one path."""
    kinds, out = ("quadratic", "logistic", "ill-conditioned"), []
    for n in range(count):
        m, dim = 2 + (n // 2) % 3, 2 + (n // 3) % 2
        cohort = 1 if n % 2 else m
        out.append(ProblemInstance(kinds[n % 3], m, cohort, dim, 1.0, L1[1 + n % (len(L1) - 1)], seed * 1000 + n))
    return out


@dataclass(frozen=True)
class _Given:
    """A problem of the user's in place of an instance of the family; lambda_1 is a third of the gradients at the optimum."""

    given: Problem
    sampling: Uniform
    seed: int

    @property
    def name(self) -> str:
        return self.given.name

    def problem(self) -> Problem:
        return self.given

    def start(self, problem: Problem) -> np.ndarray:
        return problem.optimum().x + Stream(self.seed).generator("start").standard_normal(problem.dim)

    def lambdas(self, problem: Problem) -> tuple[float, float]:
        pull = 0.3 * float(np.sqrt((problem.gradient(problem.optimum().x) ** 2).mean())) or 0.1
        return pull, 30 * float(problem.constants().beta)


def _given(problem: Problem, cohort: int | None, seed: int) -> _Given:
    """The user's problem, where its cohorts can be enumerated.

    Raises
    ------
    InvalidInput
        More cohorts than a run of two rounds can have.
    """
    law = Uniform(problem.num_clients if cohort is None else cohort)
    law.check(problem.num_clients)
    count = law.count(problem.num_clients)
    if count**2 > MAX_PATHS:
        many = f"{count} cohorts are too many to enumerate over 2 rounds (limit {MAX_PATHS} sequences)"
        raise InvalidInput(f"{many}: take fewer clients, or all in every round")
    return _Given(problem, law, seed)


def compute(
    instances: int = 6, ratios: int = 7, seed: int = 0, problem: Problem | None = None, cohort: int | None = None
) -> dict[str, Any]:
    """tightness[panel][rule] is (ratios, instances), NaN where the statement does not apply. Exact expectations throughout.

    ``problem``: one of the user's in place of the family, with ``cohort`` of its clients in a round (default all).
    """
    grid = np.unique(np.concatenate([np.geomspace(3, 1000, ratios), [t * 1.0005 for t in _THRESHOLDS.values()]]))
    chosen: Sequence[Any] = family(instances, seed) if problem is None else [_given(problem, cohort, seed)]
    nan = np.full((len(grid), len(chosen)), np.nan)
    out = {title: {rule: nan.copy() for rule in forms} for title, (_, forms) in PANELS.items()}
    for j, instance in enumerate(chosen):
        problem, sampling = instance.problem(), instance.sampling
        x0 = instance.start(problem)
        lambda1, _ = instance.lambdas(problem)
        count = sampling.count(problem.num_clients)
        rounds = _ROUNDS if count == 1 else max(t for t in range(1, 6) if count**t <= MAX_PATHS)
        for i, ratio in enumerate(grid):
            lambda2 = ratio * problem.constants().beta
            for rule in RULES:
                algorithm = FedElasticNetDyn(lambda1, lambda2, rule)
                for title, (name, forms) in PANELS.items():
                    if rule not in forms:
                        continue
                    statement = get(f"fedelasticnet/{name}")
                    how = {"sampling": sampling, "x0": x0, "seed": seed, "forms": [forms[rule]]}
                    how |= {"rounds": rounds, "mode": "exact"} if statement.scope == "run" else {}
                    [check] = statement.verify(problem, algorithm, **how)
                    out[title][rule][i, j] = check.tightness
    return {"ratios": grid, "instances": [i.name for i in chosen], "thresholds": _THRESHOLDS, "tightness": out}


def _worst(data: dict[str, Any]) -> dict[str, float]:
    """Panel -> the largest measured/bound of all rules, ratios and instances."""
    return {title: max(float(np.nanmax(v)) for v in rules.values()) for title, rules in data["tightness"].items()}


def caption(data: dict[str, Any]) -> str:
    """Say which statements are attained, and how tight the others are at most."""
    worst = _worst(data)
    attained = [title for title, value in worst.items() if value > 0.99]
    others = [f"{title} {value:.2g}" for title, value in worst.items() if value <= 0.99]
    return (
        f"Measured over bound, on {len(data['instances'])} instances, with exact expectations; at 1 the bound is attained. Attained: "
        f"{', '.join(attained) or 'none'}. At most: {', '.join(others) or 'none'}. Lines: medians, with a band up to the worst "
        f"instance; run statements at their worst T up to {_ROUNDS}. Dotted: the least λ₂/β of Theorems A, B and 3.1."
    )


def _thresholds(ax: Any, values: dict[str, float], labels: bool) -> None:
    """Thin vertical lines at the least lambda_2/beta of each theorem."""
    last = max(values.values(), default=0.0)
    for name, value in values.items():
        right = value == last  # the last two lines are close: their labels stand on either side
        ax.axvline(value, color="#555555", linewidth=0.8, linestyle=":")
        if labels:
            ax.annotate(
                f"{name} {value:.3f}", (value, 0), xycoords=("data", "axes fraction"),
                xytext=(2 if right else -2, 4), textcoords="offset points", rotation=90,
                ha="left" if right else "right", va="bottom", fontsize=7, color="#555555",
            )


def draw(data: dict[str, Any]) -> Figure:
    """One small panel a statement: median line and band up to the worst instance, for each rule."""
    figure, axes = page_figure(3, 3, ratio=0.78, sharex=True, sharey="row")
    ratios = np.asarray(data["ratios"])
    worst = _worst(data)
    for n, (ax, (title, rules)) in enumerate(zip(axes.ravel(), data["tightness"].items())):
        for rule, values in sorted(rules.items(), reverse=True):
            with_data = np.isfinite(values).any(axis=1)
            x, values = ratios[with_data], np.asarray(values)[with_data]
            if not len(x):
                continue
            median, most = np.nanmedian(values, axis=1), np.nanmax(values, axis=1)
            ax.fill_between(x, median, most, color=RULE_COLOURS[rule], alpha=0.22, linewidth=0)
            ax.plot(x, median, color=RULE_COLOURS[rule], linestyle=LINESTYLES[rule], label=RULE_NAMES[rule])
            ax.plot(x, most, color=RULE_COLOURS[rule], linestyle=LINESTYLES[rule], linewidth=0.7)
        ax.axhline(1, color=COLOURS["printed"], linewidth=1, label="the bound is attained")
        _thresholds(ax, data["thresholds"], labels=n == 0)
        ax.set(xscale="log", yscale="linear" if n < 6 else "log", title=f"{title}:\nat most {worst[title]:.2g}")
        ax.set_ylim(*((0, 1.09) if n < 6 else (1e-5, 3)))
        ax.set_xlim(ratios[0], ratios[-1])
        ax.minorticks_off()
        if n % 3 == 0:
            ax.set_ylabel("measured / bound")
        if n >= 6:
            ax.set_xlabel(r"$\lambda_2/\beta$")
    legend_below(figure, (axes[0, 0],), 3)
    attained = sum(value > 0.99 for value in worst.values())
    headline(
        figure,
        f"{attained} of {len(worst)} statements come within 1 % of equality; Theorems 3.1, A and B reach at most "
        f"{max(v for t, v in worst.items() if t.startswith('Theorem') and 'B.6' not in t):.2g} of their bounds",
        f"measured / bound, {len(data['instances'])} instances, exact expectations (run statements: worst T up to {_ROUNDS}): "
        "median line, band up to the worst; dotted: least λ₂/β of Theorems A, B and 3.1",
    )
    return figure
