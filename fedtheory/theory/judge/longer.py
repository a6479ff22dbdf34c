"""The rounds of a picture beyond those that were judged: exact where that is affordable, else the mean of seeded runs.

The verdicts are made before, and do not depend on it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from fedtheory.errors import FedTheoryError
from fedtheory.plain_progress import duration
from fedtheory.steps import whole
from fedtheory.theory.judge.check import Check

__all__ = ["BAND", "ROUNDS", "SCENARIOS", "SECONDS", "Again", "beyond", "with_band"]

ROUNDS = 300  # of a picture, where nobody chose a horizon
SECONDS = 10.0  # that they may take, where fewer rounds were judged
SCENARIOS = (2, 50, 200)  # runs that are timed, and then drawn as their mean: as many as there is time for
FEWEST = 50  # of a mean that is drawn
LONGEST = 40.0  # seconds that the next timing may take, if every scenario takes as long as those before
BAND = 0.95  # two-sided confidence of the mean at each horizon by itself
PILOT = 10  # rounds that are timed
HORIZONS = 8  # of runs that are made again for each
TOLD = 2.0  # seconds from which on a picture is announced

Again = Callable[..., Iterable[Check]]
JUDGED = ("holds", "violated", "inconclusive")


@dataclass
class Clock:
    """The time that runs of so many rounds took, and that longer ones are expected to take."""

    rounds: list[int]
    seconds: list[float]

    def expected(self, rounds: int) -> float:
        """Seconds: a power of the rounds between the first and the fourth, as the last two runs have it."""
        power = 1.0
        if len(self.rounds) > 1:
            longer, took = self.rounds[-1] / self.rounds[-2], self.seconds[-1] / max(self.seconds[-2], 1e-9)
            power = min(4.0, max(1.0, math.log(max(took, 1e-9)) / math.log(longer)))
        return self.seconds[-1] * (rounds / self.rounds[-1]) ** power


def beyond(
    again: Again, last: int, rounds: int, forms: Sequence[str], each: bool, tell: Callable[[str], Any] | None = None
) -> list[Check]:
    """The checks of forms on longer runs, with their series; none where nothing longer can be run, or it takes more than `SECONDS`.

    Parameters
    ----------
    again : callable(rounds, forms=, scenarios=) -> the checks of a run of so many rounds
    last : the longest horizon that was judged
    rounds : the longest that is wanted
    each : whether every horizon takes a run of its own
    tell : callable(text), with how long it will take, where that is more than `TOLD`
    """
    if rounds <= last:
        return []
    try:
        return _runs(again, last, rounds, forms, tell) if each else _one_run(again, last, rounds, forms, tell)
    except FedTheoryError:
        return []


def _one_run(again: Again, last: int, rounds: int, forms: Sequence[str], tell: Any) -> list[Check]:
    """One run whose horizons are all compared: 300 rounds, or as many as there is time for."""
    most, scenarios = whole("rounds of the picture", lambda: _affordable(again, last, rounds, forms, tell))
    return _drawable(again(most, forms=forms, scenarios=scenarios), most) if most > last else []


def _affordable(again: Again, last: int, rounds: int, forms: Sequence[str], tell: Any) -> tuple[int, int]:
    """The rounds and scenarios that there is time for, from the time of a few; 0 where that is long."""
    pilot = min(last + PILOT, rounds)
    most, took = (0, 0), 0.0
    for before, scenarios in pairwise((1, *SCENARIOS)):
        if took * scenarios / before > LONGEST:  # at most that long, where nothing is shared by the scenarios
            break
        begin = time.perf_counter()
        made = list(again(pilot, forms=forms, scenarios=scenarios))
        took = time.perf_counter() - begin
        enough = min(rounds, int(SECONDS / took * pilot))
        exact = bool(made) and all(c.scenarios is None for c in made)
        if exact or (scenarios >= FEWEST and (enough == rounds or not most[0])):
            most, seconds = (enough, scenarios), took / pilot * enough
        if exact:
            break
    if most[0] > last and seconds >= TOLD and tell is not None:
        tell(f"{most[0]:,} rounds for the picture take about {duration(seconds)} here")
    return most


def _runs(again: Again, last: int, rounds: int, forms: Sequence[str], tell: Any) -> list[Check]:
    """A run for each of some horizons, as long as there is time for the next."""
    out: list[Check] = []
    begin = time.perf_counter()
    list(again(last, forms=forms, scenarios=SCENARIOS[-1]))
    clock = Clock([last], [time.perf_counter() - begin])
    spent = clock.seconds[0]
    for horizon in (int(t) for t in np.unique(np.round(np.geomspace(last, rounds, HORIZONS + 1)).astype(int))[1:]):
        expected = clock.expected(horizon)
        if spent + expected > SECONDS:
            break
        if expected >= TOLD and tell is not None:
            tell(f"a run of {horizon:,} rounds for the picture takes about {duration(expected)} here")
        begin = time.perf_counter()
        made = _drawable(again(horizon, forms=forms, scenarios=SCENARIOS[-1]), horizon)
        if not made:
            break
        out += made
        clock.rounds.append(horizon)
        clock.seconds.append(time.perf_counter() - begin)
        spent += clock.seconds[-1]
    return out


def _drawable(checks: Iterable[Check], rounds: int) -> list[Check]:
    """Those that compared something as far as there; of others the statement has the length of its run from elsewhere."""
    judged = [c for c in checks if c.verdict in JUDGED and c.series is not None and c.series.at is not None]
    return [c for c in judged if c.series.at.max() == rounds]  # type: ignore[union-attr]


def with_band(rows: Iterable[Mapping[str, Any]], check: Check, each: bool = False) -> list[dict[str, Any]]:
    """Rows of a longer run, marked as not judged; of scenarios with the interval of the mean at `BAND`, but where each horizon has a
    run of its own, as those that were judged, with the interval of those."""
    from scipy.special import stdtrit

    series, out = check.series, []
    for i, row in enumerate(rows):
        drawn = {**row, "judged": False}
        if check.scenarios and not each:
            reach = float(stdtrit(check.scenarios - 1, (1 + BAND) / 2))
            for name, error in (("measured", series.lhs_error), ("bound", series.rhs_error)):  # type: ignore[union-attr]
                half = reach * float(error[i]) if error is not None else 0.0
                drawn[f"{name}_low"], drawn[f"{name}_high"] = row[name] - half, row[name] + half
        out.append(drawn)
    return out
