"""The worst functions of a worst case: losses of the class on which the method ends with the
solver's value.

`exchangeable` makes them of the Gram matrices where clients look alike, `cohorts` of those of the
tree of cohorts; how losses have given gradients is said in `interpolation`. What is here runs the
method on them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import comb
from typing import Any, cast

import numpy as np

from fedtheory.algorithms.compressed import Compressed
from fedtheory.errors import InvalidInput, MissingCapability
from fedtheory.inputs import require, whole_number
from fedtheory.local import Exact, ExactProx
from fedtheory.problems.base import Problem
from fedtheory.simulation import simulate
from fedtheory.worst_cases.bounds import Question, WorstCase, assumed, branches, relaxed
from fedtheory.worst_cases.cohorts import EveryCohort, of_cohorts
from fedtheory.worst_cases.criteria import Measured
from fedtheory.worst_cases.exchangeable import of_exchangeable
from fedtheory.worst_cases.groups import Groups
from fedtheory.worst_cases.interpolation import least_losses

__all__ = ["WorstFunction", "check_question", "worst_function"]

MOST_RUNS = 20_000  # of the ways to draw the cohorts


@dataclass(frozen=True)
class WorstFunction:
    """Losses on which a method ends with its worst value.

    Attributes
    ----------
    found : the worst case that they belong to
    problem : the losses; the method starts at 0
    optimum : (d,) the minimiser x* of their mean, whose value there is 0
    margin : by how much every interpolation condition holds at least
    vectors : dict block -> dict name -> the clients' means and deviations, of which losses and x*
        are made; where cohorts are drawn over several rounds, the vectors of every client and
        history
    values : dict point -> every client's loss there, in the order of the losses' pieces; each
        client's where cohorts are drawn
    begun : dict name -> vectors of the clients (N, d) in which the method begins, where it may begin in any
    """

    found: WorstCase
    problem: Problem
    optimum: np.ndarray
    margin: float
    vectors: Mapping[str, Mapping[str, np.ndarray]]
    values: Mapping[str, float]
    begun: Mapping[str, np.ndarray] = field(default_factory=dict)

    @property
    def ways(self) -> int:
        """In how many equally likely ways cohorts can be drawn: 1 where everybody takes part."""
        q = self.found.question
        return comb(q.clients, q.participants) ** q.rounds

    def models(self) -> np.ndarray:
        """The server's models when `fedtheory.simulate` runs the method on the losses, for all ways
        to draw the cohorts: (ways, T + 1, d), the start first.

        Raises
        ------
        InvalidInput
            More ways than can be run.
        """
        q = self.found.question
        if self.ways > MOST_RUNS:
            raise InvalidInput(f"{self.ways:,} ways to draw the cohorts: at most {MOST_RUNS:,} are run; take fewer clients or rounds")
        kinks = isinstance(q.subject.local, Exact) and q.losses.smoothness is None
        seen, N = [np.zeros((self.ways, self.problem.dim))], self.problem.num_clients
        begun = q.subject.made.begin(seen[0], N, lambda: cast(Any, _Begins(self.begun))) if self.begun else None
        simulate(
            self.problem, q.subject.made, rounds=q.rounds, scenarios=self.ways, resume=begun and (0, begun),
            local_solver=ExactProx() if kinks else q.subject.local,
            sampling=EveryCohort(q.participants) if q.participants < q.clients else None,
            on_round=lambda t, old, new, clients: seen.append(np.array(new.x)),
        )  # fmt: skip
        return np.stack(seen, axis=1)

    def measured(self) -> float:
        """The criterion, or its expectation, after that run, which should be the solver's worst."""
        models, criterion = self.models(), self.found.question.criterion
        if not isinstance(criterion, str):
            return float(np.mean(criterion(Measured(self.problem, self.optimum, models))))
        if criterion == "distance":
            return float(((models[:, -1] - self.optimum) ** 2).sum(axis=-1).mean())
        if criterion == "gradient":
            return float((self.problem.full_gradient(models[:, -1]) ** 2).sum(axis=-1).mean())
        gaps = (self.problem.objective(models) - self.problem.objective(self.optimum)).mean(axis=0)
        return float(gaps[:-1].min() if criterion == "best-gap" else gaps[-1])


@dataclass(frozen=True)
class _Begins:
    """The clients before round 1, whose vectors are given."""

    begun: Mapping[str, np.ndarray]

    def any_near_the_optimum(self, name: str, distance: Any) -> np.ndarray:
        """The vectors (1, N, d)."""
        return self.begun[name][None]

    def mean(self, values: np.ndarray) -> np.ndarray:
        """Over all clients."""
        return values.mean(axis=1)


def check_question(q: Question) -> None:
    """Refuse a question of which no losses are made.

    Raises
    ------
    MissingCapability
        Groups of clients of which some have smooth losses, and others need not.
    InvalidInput
        A method that flips coins, whose messages are compressed in any way, which begins with any vectors where cohorts
        are drawn, or whose
        worst case is a relaxation; losses that are strongly convex and not smooth.
    """
    none, kinds = f"no worst function of {q.subject.name}", q.losses.of_clients if isinstance(q.losses, Groups) else [q.losses]
    if isinstance(q.subject.made, Compressed):
        raise InvalidInput(f"{none} under a contraction: its worst compressor is none that can be run")
    if q.tree and (starts := ", ".join(assumed(q))):
        raise InvalidInput(f"{none}: of any {starts} and cohorts its bound alone is proved")
    if (left_out := relaxed(q)) or q.subject.one_loss:
        raise InvalidInput(f"{none}, whose value is {f'an upper bound only: {left_out}' if left_out else 'that of any convex set'}")
    if len({kind.smoothness is None for kind in kinds}) > 1:
        raise MissingCapability(f"{none} where the losses of some groups are smooth and those of others need not be")
    if any(kind.smoothness is None and kind.strong_convexity > 0 for kind in kinds):
        raise InvalidInput("worst functions that are strongly convex and not smooth are not made: leave one of the two out")
    if not q.tree and len(branches(q)[1]) > 1:
        raise InvalidInput(f"{none}, whose rounds flip coins: its bound alone is proved")


def worst_function(found: WorstCase, clients: int | None = None) -> WorstFunction:
    """Losses of that many clients, at least 2 (default: those of the worst case), on which the method ends with its value.

    Raises
    ------
    MissingCapability, InvalidInput
        As `check_question`; no `WorstCase`; clients < 2, or other clients than were asked in groups or where cohorts are drawn.
    NotCertified
        The solver's matrices are too far from any losses of the class.
    """
    require(isinstance(found, WorstCase), "found", found, "use the WorstCase that worst_case(...) returned")
    q = found.question
    clients = whole_number("clients", q.clients if clients is None else clients, least=2, remedy="one client is a mean, too: take 2")
    check_question(q)
    if isinstance(q.losses, Groups) and clients != q.clients:
        raise InvalidInput(f"clients = {clients}: the groups have {q.clients} in all; leave it out, or ask the worst case with others")
    if q.participants < q.clients != clients:
        raise InvalidInput(f"clients = {clients}: cohorts of {q.participants} of {q.clients} clients were asked; make losses of those")
    made = of_cohorts(found, q) if q.tree else of_exchangeable(found, q, clients)
    problem = least_losses(q.losses, made.at - made.start, made.gradients, made.values)
    return WorstFunction(found, problem, -made.start, made.margin, made.vectors, made.named, made.begun)
