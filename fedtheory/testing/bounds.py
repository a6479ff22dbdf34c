"""Asserting that what was measured stays below a bound, entry by entry: exactly, or for the mean over seeds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy  # its stats is loaded when first used

from fedtheory.errors import InvalidInput
from fedtheory.inputs import check_unit, real_array, real_number, shown
from fedtheory.testing.failure import check_diverged, fail

__all__ = ["BoundCheck", "assert_bound_holds"]


def _broadcasts(shape: tuple[int, ...], to: tuple[int, ...]) -> bool:
    try:
        return np.broadcast_shapes(shape, to) == to
    except ValueError:
        return False


@dataclass(frozen=True)
class BoundCheck:
    """The finding of `assert_bound_holds`: the entry nearest its bound.

    Attributes
    ----------
    tightness : float
        Largest measured / bound over entries with a positive bound (1: attained).
    where : index of the worst entry
    """

    tightness: float
    where: tuple[int, ...]
    measured: float
    bound: float
    count: int
    mode: str

    def __str__(self) -> str:
        return (
            f"bound holds at {self.count} entries ({self.mode}); worst at {list(self.where)}: "
            f"{self.measured:.6g} <= {self.bound:.6g}, tightness {self.tightness:.3g}"
        )


def assert_bound_holds(
    measured: Any, bound: Any, *, confidence: float | None = None, rtol: float = 1e-9,
    noise: Any = 0.0, factor_hint: str = "",
) -> BoundCheck:
    """Assert measured <= bound, entry by entry, exactly or for the mean over seeds with confidence.

    Parameters
    ----------
    measured : exact: any shape; statistical: (..., seeds), with independent seeds along the last
        axis
    bound : broadcasts to measured (statistical: to its shape without the last axis); or a `Bound`
        of a statement
    confidence : float in (0, 1), or None
        None: exact, up to rtol (|measured| + |bound|) + noise. Otherwise the statement is about the
        expectation: one-sided Student-t limits, the error probability shared out over the entries
        (Bonferroni). They do not cover a rare event that no seed met. Seeds that do not vary at all
        at an entry are judged exactly there.
    rtol : float in [0, 1)
    noise : float or array >= 0, finite
        Absolute uncertainty of measured - bound, for example the optimum's certified gap.
    factor_hint : str
        Added to the failure message (what the bound is, where it stands).

    Raises
    ------
    AssertionError
        'violated', 'inconclusive' (statistical: the interval of the mean contains the bound), or
        'diverged': a measured entry is NaN or infinite, -inf included, which is no measurement.
    InvalidInput
        A bound that is NaN or infinite (an infinite one shows nothing), rtol or noise out of range,
        complex numbers, shapes that do not broadcast, fewer than two seeds.

    Examples
    --------
    >>> import numpy as np
    >>> from fedtheory.testing import assert_bound_holds
    >>> rounds = np.arange(1, 11)
    >>> print(assert_bound_holds(1 / rounds, 2 / rounds))
    bound holds at 10 entries (exact); worst at [0]: 1 <= 2, tightness 0.5
    """
    __tracebackhide__ = True
    theorem = bound if hasattr(bound, "in_expectation") else None
    measured, bound = real_array("measured", measured, finite=False), real_array("bound", np.asarray(bound), finite=False)
    if theorem is not None:
        factor_hint = factor_hint or f"the bound: {theorem}"
        _check_theorem(theorem, measured, confidence)
    rtol, noise = real_number("rtol", rtol, least=0, below=1), real_array("noise", noise)
    if (noise < 0).any():
        raise InvalidInput(f"noise = {shown(noise[noise < 0].flat[0].item())}: an uncertainty must be >= 0; give its absolute value")
    if confidence is not None:
        confidence = check_unit("confidence", confidence)
        if measured.ndim == 0 or measured.shape[-1] < 2:
            raise InvalidInput(f"measured has shape {measured.shape}: a statistical statement needs >= 2 seeds on the last axis")
    if measured.size == 0:
        raise InvalidInput("measured is empty: there is nothing to hold the bound against")
    evidence = {"kind": "bound", "measured": measured, "bound": bound, "confidence": confidence, "hint": factor_hint}
    check_diverged("measured", measured, () if confidence is None else ("seed",), factor_hint, evidence=evidence)
    if not np.isfinite(bound).all():
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(bound))[0])
        raise InvalidInput(f"bound{list(where)} is {bound[where]}: it shows nothing of what was measured; leave that entry out")
    shape = measured.shape if confidence is None else measured.shape[:-1]
    for name, a in (("bound", bound), ("noise", noise)):
        if not _broadcasts(a.shape, shape):
            raise InvalidInput(f"{name} has shape {a.shape}, measured {shape} (without seeds): they must broadcast")
    bound, noise = np.broadcast_to(bound, shape), np.broadcast_to(noise, shape)
    half, seeds = np.zeros(shape), 0
    with np.errstate(over="ignore", invalid="ignore"):  # what overflows makes an interval infinite, or a comparison fail
        value = measured if confidence is None else measured.mean(axis=-1)
        allowed = bound + (rtol * np.abs(value) + rtol * np.abs(bound)) + noise
        if confidence is not None:
            seeds = measured.shape[-1]
            z = scipy.stats.t.ppf(1 - (1 - confidence) / max(value.size, 1), df=seeds - 1)
            half = z * measured.std(axis=-1, ddof=1) / np.sqrt(seeds)
        beyond = value - allowed
        violated, open_ = beyond - half > 0, ~(beyond + half <= 0)
        rank = beyond / np.maximum(np.abs(value) / 2 + np.abs(bound) / 2, np.finfo(float).tiny)
    if violated.any() or open_.any():
        about = f" (mean of {seeds} seeds, {confidence:.4g} over {value.size} entries)" if seeds else ""
        wrong = bool(violated.any())
        _bound_fails(value, bound, allowed, half, violated if wrong else open_, rank, wrong, seeds, about, evidence)
    worst = np.unravel_index(int(np.argmax(rank)), value.shape)
    positive = bound > 0
    tightness = float((value[positive] / bound[positive]).max()) if positive.any() else float("nan")
    mode = "exact" if confidence is None else f"{seeds} seeds, confidence {confidence:g}"
    return BoundCheck(tightness, tuple(int(i) for i in worst), float(value[worst]), float(bound[worst]), value.size, mode)


def _check_theorem(theorem: Any, measured: np.ndarray, confidence: float | None) -> None:
    """Raise `InvalidInput` where a theorem's `fedtheory.theory.judge.Bound` is about something else
    than what was measured."""
    if theorem.in_expectation and confidence is None:
        raise InvalidInput(
            f"{theorem.statement} [{theorem.form}] bounds a mean over cohorts and mini-batches: "
            "give confidence=0.99, say, and seeds on the last axis"
        )
    if theorem.values.ndim > 1 and confidence is not None:
        raise InvalidInput(
            f"{theorem.statement} [{theorem.form}] is made from the run, so that each seed has a "
            "bound of its own: assert_statement compares the means of both sides"
        )
    if measured.ndim and len(measured) == len(theorem) + 1:
        raise InvalidInput(
            f"measured has {len(measured)} entries, and the bound is about {theorem.letter} = {theorem.horizons[0]} to "
            f"{theorem.horizons[-1]}: leave out round 0, and see that the left side is {theorem.left}"
        )


def _bound_fails(
    value: np.ndarray, bound: np.ndarray, allowed: np.ndarray, half: np.ndarray, bad: np.ndarray,
    rank: np.ndarray, is_wrong: bool, seeds: int, about: str, evidence: dict[str, Any],
) -> None:
    """The failure of `assert_bound_holds`, at the worst of the bad entries: 'violated' (is_wrong) or 'inconclusive'."""
    __tracebackhide__ = True
    worst = np.unravel_index(int(np.argmax(np.where(bad, rank, -np.inf))), value.shape)
    first = np.unravel_index(int(np.argmax(bad)), value.shape)
    half_width = f" +- {half[worst]:.3g}" if seeds else ""
    ratio = f", {value[worst] / bound[worst]:.4g} times the bound" if bound[worst] > 0 else ""
    lines = [
        f"worst entry {[int(i) for i in worst]}: measured {value[worst]:.10g}{half_width}{about}, bound {bound[worst]:.10g}{ratio}",
        f"excess {value[worst] - bound[worst]:.4g}, allowed for rounding and noise {allowed[worst] - bound[worst]:.3g}",
        f"{int(bad.sum())} of {value.size} entries, the first at {[int(i) for i in first]}",
    ]
    if evidence["hint"]:
        lines.append(evidence["hint"])
    evidence = evidence | {"value": value, "bound": bound, "half": half, "bad": bad}
    if is_wrong:
        fail("Bound violated.", lines, (
            "check the constants of the bound at that entry (a factor, a norm that is not squared, an index off by one), and that "
            "measured gaps use the optimum of the same set"), evidence)  # fmt: skip
    slack = float(bound[worst] - value[worst])
    known = slack > 0 and np.isfinite(half[worst])
    need = f"about {int(np.ceil(seeds * (half[worst] / slack) ** 2))} seeds" if known else "more seeds"
    fail("Bound inconclusive: the interval of the mean contains the bound.", lines, f"raise the number of seeds ({need})", evidence)
