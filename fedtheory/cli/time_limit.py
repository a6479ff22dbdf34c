"""The time that `fedtheory run` or `verify STATEMENT` would take, measured as it starts.

FedMLS, whose steps grow with the rounds, measures its own.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np

from fedtheory.algorithms.fedmls import ALWAYS_SHORT, LONG, duration
from fedtheory.arrays import Array
from fedtheory.clients.clients import Clients
from fedtheory.errors import FedTheoryError, InvalidInput
from fedtheory.local import GradientSteps, LocalObjective, LocalSGD
from fedtheory.local.sgd import MiniBatchSolver
from fedtheory.participation.cohorts import Cohort
from fedtheory.simulation.simulate import check_start

__all__ = ["RoundClock", "ScenarioClock", "refuse_long_rounds"]

REMEDY = "or pass --allow-long to go on"


def _local_steps(solver: Any, problem: Any) -> int:
    """Steps of the client that makes most in a round."""
    if isinstance(solver, MiniBatchSolver) and solver.steps is None and solver.epochs is not None:
        most = int(np.max(problem.sample_counts))
        return solver.epochs * -(-most // min(solver.batch_size, most))
    return int(solver.steps)


def _seconds_per_step(solver: Any, problem: Any, participants: int, scenarios: int, like: Array | None) -> float:
    """Seconds of one local step of a whole cohort, in all scenarios; the first call compiles and warms up."""
    x = check_start(problem, None, scenarios, like)
    members = np.tile(np.arange(participants), (scenarios, 1))
    clients = Clients(problem, Cohort(problem.num_clients, members=members), solver, x)
    point = clients.broadcast(x)

    def timed(steps: int) -> float:
        few = {"steps": steps, "epochs": None} if isinstance(solver, MiniBatchSolver) else {"steps": steps}
        begin = time.perf_counter()
        clients.minimise(LocalObjective(center=point), point, replace(solver, **few))
        return time.perf_counter() - begin

    timed(1)
    count = 4
    while (seconds := timed(count)) < 0.01 and count < 2**16:
        count *= 4
    return seconds / count


def refuse_long_rounds(
    solver: Any, problem: Any, rounds: int, participants: int | None, scenarios: int, allow_long: bool, like: Array | None = None
) -> None:
    """Raise `InvalidInput`, with the estimate, where local steps alone would take over an hour."""
    if allow_long or not isinstance(solver, GradientSteps | MiniBatchSolver | LocalSGD):
        return
    cohort, steps = min(participants or problem.num_clients, problem.num_clients), _local_steps(solver, problem)
    if steps * rounds * cohort * scenarios < ALWAYS_SHORT:
        return
    try:
        with np.errstate(all="ignore"):
            seconds = _seconds_per_step(solver, problem, max(1, cohort), max(1, scenarios), like) * steps * rounds
    except FedTheoryError:  # the run itself says in which round, and at which client
        return
    if seconds > LONG:
        raise InvalidInput(
            f"{rounds:,} rounds of {steps:,} local steps would take about {duration(seconds)} "
            f"here: ask for fewer --local-steps (--epochs), --rounds or --scenarios, {REMEDY}"
        )


class RoundClock:
    """Refuses a run whose first rounds say that all of them would take more than an hour; call it after every round.

    Round 1, which compiles and warms up, counts only where it took a minute by itself.
    """

    def __init__(self, rounds: int, allow_long: bool) -> None:
        self.rounds, self.judged = rounds, allow_long
        self.begin = self.second = time.perf_counter()

    def __call__(self, t: int) -> None:
        """Raise `InvalidInput`, with the estimate, once two seconds of rounds were seen."""
        if self.judged:
            return
        now = time.perf_counter()
        if t == 1:
            self.second = now
            each = now - self.begin
            enough = each > 60
        else:
            each = (now - self.second) / (t - 1)
            enough = now - self.second > 2
        if not enough:
            return
        self.judged, seconds = True, each * self.rounds
        if seconds > LONG:
            raise InvalidInput(
                f"{self.rounds:,} rounds would take about {duration(seconds)} here ({each:.3g} s each, over the first {t}): "
                f"ask for fewer --rounds, --local-steps or --scenarios, {REMEDY}"
            )


class ScenarioClock:
    """Tells how long Monte Carlo in stages will take, once two seconds of it were seen.

    It refuses what may take more than an hour. It is called with the rounds of one scenario that are
    done, that the next verdict needs, and that are needed at most.

    again : whether the first of them were done by another process, and so tell nothing
    """

    def __init__(self, rounds: int, allow_long: bool, advance: Any, again: bool = False) -> None:
        self.rounds, self.allow_long, self.advance, self.again = rounds, allow_long, advance, again
        self.begin, self.last, self.judged = time.perf_counter(), 0, False
        self.stage = self.known = 0

    def __str__(self) -> str:
        """Say how far it came, as in 'after about 40 of 125 scenarios', or ''."""
        done, stage = self.last // self.rounds, self.stage // self.rounds
        return f" after about {done:,} of {stage:,} scenarios" if stage else ""

    def __call__(self, done: int, stage: int, most: int) -> None:
        """Raise `InvalidInput`, with the estimate, where all scenarios would take over an hour."""
        if self.again:
            self.advance(done, known=True)
            self.last = self.known = done
            self.begin, self.again = time.perf_counter(), False
        else:
            self.advance(done - self.last)
        self.last, self.stage, seen = done, stage, time.perf_counter() - self.begin
        if self.judged or seen < 2:
            return
        self.judged, each = True, seen / (done - self.known)
        first, all_of_them = (duration(each * n) for n in (stage, most))
        if each * most > LONG and not self.allow_long:
            raise InvalidInput(
                f"{self.rounds:,} rounds of {most // self.rounds:,} scenarios, which may all be needed, would take about {all_of_them} "
                f"here (the first verdict comes after {first}): ask for fewer --rounds or --scenarios, {REMEDY}"
            )
        if stage == most:
            self.advance.say(f"{self.rounds:,} rounds of {most // self.rounds:,} scenarios take about {all_of_them} here")
            return
        self.advance.say(
            f"{self.rounds:,} rounds of {stage // self.rounds:,} scenarios take about {first} here, and all {most // self.rounds:,} "
            f"about {all_of_them}; it ends as soon as every form is decided"
        )
