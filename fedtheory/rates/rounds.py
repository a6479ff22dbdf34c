"""Rounds until the gap is below epsilon, and where two methods change places."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from fedtheory.arrays import OwnArrays
from fedtheory.errors import InvalidInput
from fedtheory.inputs import real_array, real_number, shown
from fedtheory.rates.fits import FLOOR_MULTIPLE, UNSTATED, Slope, fit_slope, not_finite, precision_floor

__all__ = ["RoundsToEpsilon", "crossover", "join", "rounds_to_epsilon"]


@dataclass(frozen=True)
class RoundsToEpsilon(OwnArrays):
    """Rounds (or local steps) until a gap is below epsilon.

    Attributes
    ----------
    epsilons : (E,)
    first_at : (E,) or (E, seeds)
        The first round *at* which the gap is below epsilon; inf: never.
    first_from : as first_at
        The first round *from* which on it stays below epsilon to the end of the run; inf: never.
        Equal to first_at for monotone gaps.
    unresolved : (E,) bool
        epsilon is at or below the stated multiple of the precision floor: F* is not known well
        enough to tell (entries NaN).
    iterate : what the gaps belong to
    horizon : last round of the run
    """

    epsilons: np.ndarray
    first_at: np.ndarray
    first_from: np.ndarray
    unresolved: np.ndarray
    iterate: str
    horizon: float
    schedule: str

    def slope(
        self, window: tuple[float, float], which: Literal["at", "from"] = "at", confidence: float = 0.95, **options: Any
    ) -> Slope:
        """The exponent of rounds against epsilon in the window: -1 means rounds ~ 1/epsilon.

        An epsilon that some seed never reaches is left out, and said so: the mean over the others would be too small.
        """
        if which not in ("at", "from"):
            raise InvalidInput(f"which = {which!r}: use 'at' (first round below) or 'from' (first round from which on)")
        rounds = self.first_at if which == "at" else self.first_from
        ok = ~self.unresolved
        if not ok.all():
            options["schedule"] = f"{self.schedule}; {int((~ok).sum())} epsilons not resolved by the certified optimum"
        options.setdefault("schedule", self.schedule)
        return fit_slope(self.epsilons[ok], rounds[ok], window=window, confidence=confidence, **options)

    def __str__(self) -> str:
        lines = [f"rounds to epsilon, {self.iterate} iterate (schedule: {self.schedule})"]
        for i, epsilon in enumerate(self.epsilons):
            at, kept = (np.atleast_1d(a[i]) for a in (self.first_at, self.first_from))
            if self.unresolved[i]:
                lines.append(f"  {epsilon:<8.3g} not resolved: the optimum is not certified well enough")
            elif np.isinf(at).any():
                lines.append(f"  {epsilon:<8.3g} not reached within {self.horizon:g} rounds by {np.isinf(at).sum()} of {at.size} runs")
            else:
                lines.append(f"  {epsilon:<8.3g} first at {at.mean():.6g}, from {kept.mean():.6g} on")
        return "\n".join(lines)


ITERATES = ("last", "best", "averaged")


def _gaps(source: Any, iterate: str, optimum: Any) -> tuple[np.ndarray, float]:
    """Gaps (T + 1, seeds) of a trajectory or an array, and the precision floor."""
    floor = 0.0 if optimum is None else precision_floor(optimum)
    if hasattr(source, "metrics") and hasattr(source, "problem"):
        if optimum is None:
            optimum = source.problem.optimum()
            floor = precision_floor(optimum)
        if iterate == "averaged":
            models = source.server_models()[1:]  # the mean of x_1..x_t, the start does not count
            means = np.cumsum(models, axis=0) / np.arange(1, len(models) + 1)[:, None, None]
            points = np.concatenate([source.server_models()[:1], means])
            gaps = np.asarray(source.problem.objective(points)) - optimum.value
        elif "objective" in source.metrics:
            gaps = np.asarray(source.metrics["objective"], dtype=float) - optimum.value
        else:
            raise InvalidInput("the trajectory holds no 'objective': simulate(..., record=('objective',))")
    else:
        if iterate == "averaged":
            raise InvalidInput(
                "gaps alone do not tell those of averaged iterates: give the trajectory "
                "(keep_states=True), or gaps computed at the averages with iterate='last'"
            )
        gaps = real_array("gaps", source, finite=False)
        if gaps.ndim not in (1, 2) or len(gaps) == 0:
            raise InvalidInput(f"gaps have shape {gaps.shape}: expected (rounds + 1,) or (rounds + 1, seeds)")
    return (np.minimum.accumulate(gaps, axis=0) if iterate == "best" else gaps), floor


def rounds_to_epsilon(
    source: Any, epsilons: Any, *, iterate: Literal["last", "best", "averaged"] = "last",
    optimum: Any = None, cost: Any = None, floor_multiple: float = FLOOR_MULTIPLE,
    schedule: str = UNSTATED,
) -> RoundsToEpsilon:
    """First round at which, and first round from which on, the gap F(x_t) - F* is below epsilon.

    Parameters
    ----------
    source : Trajectory, or gaps (rounds + 1,) or (rounds + 1, seeds)
        Entry 0 is the start. A trajectory's gaps are F - optimum.value.
    epsilons : (E,) positive
    iterate : 'last' (x_t as given), 'best' (least gap so far) or 'averaged' (mean of x_1..x_t;
        needs a trajectory with its states)
    optimum : with ``value`` and ``lower_bound``; default for a trajectory: the problem's own
        Sets the precision floor: an epsilon at or below floor_multiple * floor is not resolved.
    cost : (rounds + 1,)
        What to count instead of rounds, for example local steps taken so far.

    Raises
    ------
    InvalidInput
        epsilon <= 0, unknown iterate, gaps that are NaN or -inf, a cost that falls, shapes that
        disagree.
    """
    if iterate not in ITERATES:
        raise InvalidInput(f"iterate = {iterate!r}: use one of {', '.join(ITERATES)}")
    epsilons = np.atleast_1d(real_array("epsilons", epsilons))
    floor_multiple = real_number("floor_multiple", floor_multiple, least=0)
    if epsilons.ndim != 1 or not (epsilons > 0).all():
        raise InvalidInput(f"epsilons = {epsilons.tolist()}: they must be finite numbers > 0")
    gaps, floor = _gaps(source, iterate, optimum)
    flat = gaps[:, None] if gaps.ndim == 1 else gaps
    if bad := not_finite("gaps", flat, ("round", "run"), never=True):
        raise InvalidInput(f"{bad}: the run diverged; lower its step size")
    count = np.arange(len(flat), dtype=float) if cost is None else real_array("cost", cost)
    if count.shape != (len(flat),):
        raise InvalidInput(f"cost has shape {count.shape}: expected one number a round, ({len(flat)},)")
    if (np.diff(count) < 0).any():
        first = int(np.argmax(np.diff(count) < 0))
        raise InvalidInput(f"cost[{first + 1}] is {count[first + 1]:g}, after {count[first]:g}: what is counted so far cannot fall")
    below = flat[None] < epsilons[:, None, None]  # (E, T + 1, seeds)
    at = np.where(below.any(axis=1), count[below.argmax(axis=1)], np.inf)
    last_above = len(flat) - 1 - (~below[:, ::-1]).argmax(axis=1)  # meaningless where all are below
    start = np.where(below.all(axis=1), 0, last_above + 1)
    kept = np.where(start < len(flat), count[np.minimum(start, len(flat) - 1)], np.inf)
    unresolved = epsilons <= floor_multiple * floor
    at[unresolved] = kept[unresolved] = np.nan
    if gaps.ndim == 1:
        at, kept = at[:, 0], kept[:, 0]
    return RoundsToEpsilon(epsilons, at, kept, unresolved, iterate, float(count[-1]), schedule)


def join(parts: Sequence[RoundsToEpsilon]) -> RoundsToEpsilon:
    """One result from runs made for one epsilon each (a method whose parameters depend on epsilon is a new run for each).

    Raises
    ------
    InvalidInput
        No parts, or parts that differ in their iterate or in their number of seeds.
    """
    if not all(isinstance(part, RoundsToEpsilon) for part in parts):
        raise InvalidInput(f"parts = {shown(parts)}: give RoundsToEpsilon, as rounds_to_epsilon makes them")
    if not parts:
        raise InvalidInput("nothing to join: give one RoundsToEpsilon for each epsilon")
    for name, what in (("iterate", lambda r: r.iterate), ("number of seeds", lambda r: r.first_at.shape[1:])):
        if len({what(r) for r in parts}) > 1:
            raise InvalidInput(f"the parts differ in their {name} ({sorted({str(what(r)) for r in parts})}): measure all of them alike")
    at, first_at, first_from, unresolved = (
        np.concatenate([getattr(r, f) for r in parts]) for f in ("epsilons", "first_at", "first_from", "unresolved")
    )
    schedule = "; ".join(dict.fromkeys(r.schedule for r in parts))
    return RoundsToEpsilon(at, first_at, first_from, unresolved, parts[0].iterate, max(r.horizon for r in parts), schedule)


def crossover(a: RoundsToEpsilon, b: RoundsToEpsilon, which: Literal["at", "from"] = "at") -> list[float]:
    """The epsilons at which two methods need equally many rounds: log-log interpolation on their common epsilons.

    Returns
    -------
    list of float
        Empty where one of them is ahead throughout. Epsilons that either did not reach are skipped.

    Raises
    ------
    InvalidInput
        The two were measured at different epsilons.
    """
    if not (isinstance(a, RoundsToEpsilon) and isinstance(b, RoundsToEpsilon)):
        raise InvalidInput(f"a = {shown(a)}, b = {shown(b)}: give RoundsToEpsilon, as rounds_to_epsilon makes them")
    if not np.array_equal(a.epsilons, b.epsilons):
        raise InvalidInput("the two runs were measured at different epsilons: use the same list for both")
    rounds = [(r.first_at if which == "at" else r.first_from) for r in (a, b)]
    p, q = (r if r.ndim == 1 else r.mean(axis=1) for r in rounds)
    ok = np.flatnonzero(np.isfinite(p) & np.isfinite(q) & (p > 0) & (q > 0))
    ok = ok[np.argsort(a.epsilons[ok])]
    log, ratio = np.log(a.epsilons[ok]), np.log(p[ok] / q[ok])
    found = [float(np.exp(log[i])) for i in np.flatnonzero(ratio == 0)]
    for i in range(len(ok) - 1):
        if ratio[i] * ratio[i + 1] < 0:
            found.append(float(np.exp(log[i] + (log[i + 1] - log[i]) * ratio[i] / (ratio[i] - ratio[i + 1]))))
    return sorted(found)
