"""Steps of subgradient methods: schedules over rounds, and local subgradient steps on them for FedAvg and FedProx."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from fedtheory.arrays import Array
from fedtheory.errors import InvalidInput
from fedtheory.inputs import COUNTED, finite, shown
from fedtheory.local.objective import LocalObjective, LocalResult, LocalSolver, Rows
from fedtheory.local.sgd import _move
from fedtheory.local.sliding import project_ball
from fedtheory.problems.base import Problem

__all__ = ["CUT", "Schedule", "ScheduleKind", "SubgradientSteps"]

ScheduleKind = Literal["constant", "inverse-sqrt", "hold-and-cut"]
CUT = 0.8  # halving is too fast for the two-client pull: what is left of the way is then longer than all steps to come


def _number(value: Any) -> bool:
    return finite(value)


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
        if not (_number(self.step) and self.step > 0):
            raise InvalidInput(f"step = {self.step!r}: it must be a finite number > 0")
        if not isinstance(self.hold, int | np.integer) or isinstance(self.hold, bool) or self.hold < 0:
            raise InvalidInput(f"hold = {self.hold!r}: the rounds before the first cut must be an integer >= 0")
        if not (_number(self.cut) and 0 < self.cut < 1):
            raise InvalidInput(f"cut = {self.cut!r}: the step's factor a round must lie strictly between 0 and 1")

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
        if not isinstance(self.steps, int | np.integer) or isinstance(self.steps, bool) or not 1 <= self.steps <= COUNTED:
            raise InvalidInput(f"steps = {shown(self.steps)}: the number of local steps must be an integer >= 1")
        if not isinstance(self.schedule, Schedule):
            raise InvalidInput(f"schedule = {self.schedule!r}: give a Schedule, for example Schedule('constant', 0.1)")
        if not (_number(self.radius) or self.radius == math.inf) or not self.radius > 0:
            raise InvalidInput(f"radius = {self.radius!r}: the ball's radius must be > 0 (math.inf for no ball)")

    def solve(self, problem: Problem, objective: LocalObjective, start: Array, rows: Rows) -> LocalResult:
        step, y = self.schedule.at(rows.round_index), start
        for _ in range(self.steps):
            y = project_ball(_move(objective, y, problem.client_gradient(y), step, "subgradient"), self.radius)
        return LocalResult(y, step_sum=self.steps * step)
