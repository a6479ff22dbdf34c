"""Steps of subgradient methods: schedules over rounds, and local subgradient steps on them for FedAvg and FedProx."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from fedtheory.arrays import Array
from fedtheory.errors import InvalidInput
from fedtheory.inputs import real_number, whole_number
from fedtheory.local.objective import LocalObjective, LocalResult, LocalSolver, Rows
from fedtheory.local.sgd import _move
from fedtheory.local.sliding import project_ball
from fedtheory.optimum.duality import check_radius
from fedtheory.problems.base import Problem

__all__ = ["CUT", "Schedule", "ScheduleKind", "SubgradientSteps"]

ScheduleKind = Literal["constant", "inverse-sqrt", "hold-and-cut"]
CUT = 0.8  # halving is too fast for the two-client pull: what is left of the way is then longer than all steps to come


@dataclass(frozen=True)
class Schedule:
    """The step of round t = 1, 2, ...: h ('constant'), h/sqrt(t) ('inverse-sqrt'), or h cut**max(0, t - hold) ('hold-and-cut').

    Raises
    ------
    InvalidInput
        An unknown kind, a step that is not > 0, hold not an integer >= 0, cut outside (0, 1).
    """

    kind: ScheduleKind
    step: float
    hold: int = 0
    cut: float = CUT

    def __post_init__(self) -> None:
        if self.kind not in ("constant", "inverse-sqrt", "hold-and-cut"):
            raise InvalidInput(f"kind = {self.kind!r}: use one of constant, inverse-sqrt, hold-and-cut")
        real_number("step", self.step, above=0)
        whole_number("hold", self.hold, least=0, remedy="the rounds before the first cut")
        real_number("cut", self.cut, above=0, below=1, remedy="the step's factor a round")

    def at(self, t: int) -> float:
        """The step of round t."""
        if self.kind == "inverse-sqrt":
            return float(self.step / math.sqrt(t))
        if self.kind == "hold-and-cut" and t > self.hold:
            return float(self.step * self.cut ** (t - self.hold))
        return float(self.step)


@dataclass(frozen=True)
class SubgradientSteps(LocalSolver):
    """`steps` projected subgradient steps on the local objective, all as long as the schedule says for the round.

    Parameters
    ----------
    steps : int >= 1
    schedule : Schedule
    radius : float > 0
        Every step ends with the projection onto the ball ||y|| <= radius; ``math.inf`` (the default) for none.

    Raises
    ------
    InvalidInput
        Values out of range.

    Notes
    -----
    ``step_sum`` is steps times the round's step. At a kink of the l1 penalty, sign(0) = 0.
    """

    steps: int
    schedule: Schedule
    radius: float = math.inf

    def __post_init__(self) -> None:
        whole_number("steps", self.steps, remedy="the number of local steps")
        if not isinstance(self.schedule, Schedule):
            raise InvalidInput(f"schedule = {self.schedule!r}: give a Schedule, for example Schedule('constant', 0.1)")
        check_radius(self.radius, finite=False)

    def solve(self, problem: Problem, objective: LocalObjective, start: Array, rows: Rows) -> LocalResult:
        step, y = self.schedule.at(rows.round_index), start
        for _ in range(self.steps):
            y = project_ball(_move(objective, y, problem.client_gradient(y), step, "subgradient"), self.radius)
        return LocalResult(y, step_sum=self.steps * step)
