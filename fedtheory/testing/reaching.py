"""Asserting that a run gets below a target in so many rounds."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import scipy  # its stats is loaded when first used

from fedtheory.errors import InvalidInput
from fedtheory.inputs import flag, real_array, real_number, shown
from fedtheory.rates.rounds import rounds_to_epsilon
from fedtheory.testing.failure import check_diverged, fail

__all__ = ["assert_reaches"]


def assert_reaches(
    values: Any, target: float, *, within: float, stay: bool = False,
    iterate: Literal["last", "best"] = "last", cost: Any = None,
) -> np.ndarray:
    """Assert that values fall below target in at most `within` rounds, in every run.

    Parameters
    ----------
    values : (rounds + 1,) or (rounds + 1, seeds)
        Entry 0 is the start.
    target : float > 0
    within : rounds allowed (or what `cost` counts)
    stay : bool
        Also stay below from then on to the end.
    iterate : 'last' or 'best'
    cost : (rounds + 1,)
        What to count instead of rounds.

    Returns
    -------
    array
        The round, one for each run.

    Raises
    ------
    AssertionError
        With the run, the best value within the limit, and how far the run would have to go; or
        'diverged', with the round and the run, where a value is NaN or infinite.
    InvalidInput
        Arguments out of range.

    Examples
    --------
    >>> from fedtheory.testing import assert_reaches
    >>> print(assert_reaches([1.0, 0.3, 0.09, 0.03], 0.1, within=3))
    [2.]
    """
    __tracebackhide__ = True
    if iterate not in ("last", "best"):
        raise InvalidInput(f"iterate = {iterate!r}: values are given as they are: use 'last' or 'best'")
    if not isinstance(stay, bool | np.bool_):
        raise InvalidInput(f"stay = {shown(stay)}: use True or False")
    flag("stay", stay)
    target, within = real_number("target", target, above=0), real_number("within", within, least=0)
    values = real_array("values", values, finite=False)
    evidence = {"kind": "reaching", "values": values, "target": target, "within": within, "cost": cost}
    if values.ndim in (1, 2):
        claim = f"target {target:.6g} within {within:g}"
        check_diverged("values", values, ("round", "run")[: values.ndim], claim, evidence=evidence)
    found = rounds_to_epsilon(values, [target], iterate=iterate, cost=cost)
    rounds = np.atleast_1d((found.first_from if stay else found.first_at)[0])
    if (rounds <= within).all():
        return rounds
    run = int(np.argmax(rounds))
    curves = values[:, None] if values.ndim == 1 else values
    count = np.arange(len(curves), dtype=float) if cost is None else real_array("cost", cost)
    early = count <= within
    late = int((rounds > within).sum())
    lines = [f"target {target:.6g} within {within:g}: {late} of {len(rounds)} runs fail; the latest is run {run}"]
    if early.any():
        best = int(np.argmin(np.where(early, curves[:, run], np.inf)))
        lines.append(
            f"run {run}: the best value within the limit is {curves[best, run]:.6g} (at {count[best]:g}), "
            f"{curves[best, run] / target:.4g} times the target; the last one {curves[early, run][-1]:.6g}"
        )
    at = np.atleast_1d(found.first_at[0])[run]
    if np.isfinite(rounds[run]):
        what = "it stays below only from" if stay and at <= within else "it gets there at"
        lines.append(f"{what} {rounds[run]:g}, {rounds[run] / max(within, 1):.3g} times the limit")
        hint = f"allow {rounds[run]:g}, or find out why the method is slower than expected"
    elif count[-1] < within:
        lines.append(f"the run ends at {count[-1]:g}, before the limit")
        hint = "run longer: the data do not cover the limit"
    elif np.isfinite(at):
        lines.append(f"it is below at {at:g} but does not stay there")
        hint = "use the best iterate, a smaller final step, or stay=False"
    else:
        lines.append(_forecast(count, curves[:, run], target))
        hint = "check the step sizes and the target (is it above the precision of F*?), or allow more rounds"
    fail("Target not reached.", lines, hint, evidence)


def _forecast(count: np.ndarray, curve: np.ndarray, target: float) -> str:
    """Say where the last half of the run points to, as a power law."""
    ok = (count >= count[-1] / 2) & (count > 0) & (curve > 0) & np.isfinite(curve)
    if ok.sum() < 3 or np.ptp(count[ok]) == 0:
        return "the run never gets there"
    line = scipy.stats.linregress(np.log(count[ok]), np.log(curve[ok]))
    if line.slope > 0.1:
        return f"the run never gets there: it grows (slope {line.slope:.2g} over its last half), as runs do that diverge"
    if line.slope > -1e-3:
        return f"the run never gets there and has stopped falling (slope {line.slope:.2g} over its last half)"
    reach = np.exp(np.clip((np.log(target) - line.intercept) / line.slope, None, 700))
    return f"the run never gets there; at its slope of {line.slope:.2f} over the last half it would at about {reach:.3g}"
