"""The rounds of a picture beyond those that were judged: exact where that is affordable, else the mean of seeded runs.

The verdicts are made before, and do not depend on it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from fedtheory.errors import FedTheoryError
from fedtheory.plain_progress import duration
from fedtheory.steps import whole
from fedtheory.theory.judge.check import Check

__all__ = ["BAND", "JUDGED", "ROUNDS", "SCENARIOS", "SECONDS", "Again", "beyond"]

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
        if each:
            return _runs(again, last, rounds, forms, tell)
        most, scenarios = whole(
            "rounds of the picture", lambda: _affordable(again, last, rounds, forms, tell)
        )
        return _drawable(again(most, forms=forms, scenarios=scenarios), most) if most > last else []
    except FedTheoryError:
        return []


def _affordable(again: Again, last: int, rounds: int, forms: Sequence[str], tell: Any) -> tuple[int, int]:
    """The rounds and scenarios that there is time for, from the time of a few; 0 where that is long."""
    pilot = min(last + PILOT, rounds)
    most, took = (0, 0), 0.0
    for before, scenarios in pairwise((1, *SCENARIOS)):
        if took * scenarios / before > LONGEST:  # at most that long, where nothing is shared by the scenarios
            break
        made, took = _timed(again, pilot, forms, scenarios)
        enough = min(rounds, int(SECONDS / took * pilot))
        exact = bool(made) and all(c.scenarios is None for c in made)
        if exact or (scenarios >= FEWEST and (enough == rounds or not most[0])):
            most, seconds = (enough, scenarios), took / pilot * enough
        if exact:
            break
    if most[0] > last and seconds >= TOLD and tell is not None:
        tell(f"{most[0]:,} rounds for the picture take about {duration(seconds)} here")
    return most


def _timed(again: Again, rounds: int, forms: Any, scenarios: int) -> tuple[list[Check], float]:
    """The checks of a run, and how many seconds it took."""
    begin = time.perf_counter()
    made = list(again(rounds, forms=forms, scenarios=scenarios))
    return made, time.perf_counter() - begin


def _runs(again: Again, last: int, rounds: int, forms: Sequence[str], tell: Any) -> list[Check]:
    """A run for each of some horizons, as long as there is time for the next."""
    out: list[Check] = []
    took: dict[int, float] = {}
    horizons = np.round(np.geomspace(last, rounds, HORIZONS + 1)).astype(int)
    for horizon in map(int, np.unique(horizons)):
        expected = _expected(took, horizon)
        if sum(took.values()) + expected > SECONDS:
            break
        if expected >= TOLD and tell is not None:
            tell(f"a run of {horizon:,} rounds for the picture takes about {duration(expected)} here")
        found, took[horizon] = _timed(again, horizon, forms, SCENARIOS[-1])
        made = _drawable(found, horizon)
        if horizon > last:  # that was judged, and is only timed
            if not made:
                break
            out += made
    return out


def _expected(took: Mapping[int, float], rounds: int) -> float:
    """Seconds of so many rounds: a power of them, from 1 to 4, by the last two runs; 0 before."""
    if not took:
        return 0.0
    *before, (last, seconds) = took.items()
    power = 1.0
    if before:
        longer, slower = last / before[-1][0], seconds / max(before[-1][1], 1e-9)
        power = min(4.0, max(1.0, math.log(max(slower, 1e-9)) / math.log(longer)))
    return seconds * (rounds / last) ** power


def _drawable(checks: Iterable[Check], rounds: int) -> list[Check]:
    """Those that compared something as far as there; of others the statement has the length of its run from elsewhere."""
    judged = [c for c in checks if c.verdict in JUDGED and c.series is not None]
    return [c for c in judged if c.series.end == rounds]  # type: ignore[union-attr]
