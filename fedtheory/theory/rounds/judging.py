"""Judging a form on a view: in fractions as it stands, in floats with what rounding and an
inexact optimum may do."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from fedtheory.errors import NotCertified
from fedtheory.theory.judge.check import (
    CONFIDENCE,
    RELATIVE_TOLERANCE,
    SAME_AT_START,
    Check,
    Verdict,
    after_start,
    judge,
    judge_statistical,
)
from fedtheory.theory.judge.statement import Sides
from fedtheory.theory.rounds.forms import Claimed, Undefined, reduced
from fedtheory.theory.rounds.measured import NUDGE, ROUNDING, Quantities, RunQuantities
from fedtheory.theory.rounds.rational_clients import NotInFractions
from fedtheory.theory.rounds.ratios import same_at_start, with_ratio
from fedtheory.theory.rounds.undefined import SILENT

__all__ = ["check", "exact_sides", "judged", "with_noise"]

MET = 5  # runs in which every client must take part before draws decide anything
NUDGES = 6  # each of three moves, and its opposite
CORNERS = ((1, -1), (1, 1))  # F* as high, and ||x - x*|| as small, or as large, as they may be


def with_noise(statement: Any, view: Quantities, name: str, pick: Any = None) -> Sides:
    """A form's sides in floats, with what rounding may do and what is not known of the optimum
    as their noise.

    Noise never makes a form that holds fail. Where it holds with what one move and its opposite
    show, by which it is seen that its sides exist, further ones change nothing and are not made.
    """

    def sides_on(v: Quantities) -> Sides:
        claimed: Claimed = statement.on(v, pick is not None)[name]
        return reduced(v, claimed, None if pick is None else pick(claimed))

    def reach(make: Callable[..., Quantities], *how: Any) -> Any:
        if how not in kept:
            kept[how] = make(*how)
        moved = sides_on(kept[how])
        return np.abs(moved.rhs - moved.lhs - slack)

    def doubtful() -> Any:
        return mean(slack) + mean(RELATIVE_TOLERANCE * scale + rounding) < 0

    def mean(values: Any) -> Any:
        return view.expectation(values) if by_draws else values

    sides = sides_on(view)
    if view.rational:
        return sides
    by_draws = _by_draws(statement, view, name, sides, pick)
    slack, kept = sides.rhs - sides.lhs, view.__dict__.setdefault("companions", {})
    own, farthest = np.asarray(sides.noise, dtype=float) + 0 * slack, 0 * slack
    for again in range(NUDGES):  # whatever cancels inside the author's formulas is moved apart
        farthest = np.maximum(farthest, reach(view.nudged, again))
        rounding = own + farthest * (ROUNDING / NUDGE)
        scale = sides.scale + rounding / ROUNDING  # the terms, as far as rounding feels them
        if again == 1 and not doubtful().any():
            break
    optimum = 0 * slack
    for corner in CORNERS[: view.uses_optimum + view.uses_distance]:
        optimum = optimum + reach(view.at_corner, *corner)
    undecided = np.isfinite(slack) & ~np.isfinite(rounding + optimum)
    if undecided.any():  # as the root of a gap that rounding makes negative
        raise Undefined(f"{statement.id} [{name}]: rounding decides whether a side exists here")
    if (doubtful() & (mean(slack + optimum) >= 0) & (mean(optimum) > 1e-6 * mean(scale))).any():
        raise NotCertified("what is not known of the optimum is as large as the slack")
    return replace(sides, scale=scale, noise=rounding + optimum)


def _by_draws(statement: Any, view: Quantities, name: str, sides: Sides, pick: Any) -> bool:
    """True if the mean over the scenarios is what a form is about, and draws estimate it."""
    if not view.sampled or sides.relation == "==":
        return False
    scenarios = np.shape(sides.lhs)[-1:] == (len(view.path.states[-1].x),)
    return scenarios and not statement.on(view, pick is not None)[name].pathwise


def judged(
    statement: Any, view: Quantities, name: str, instance: str = "", confidence: float = CONFIDENCE, pick: Any = None
) -> Check:
    """One form, or with ``pick`` a mutant of it, on a view. Raises `NotInFractions` where the view is in
    fractions and the form is not."""
    fields: dict[str, Any] = {
        "statement": statement.id, "form": name, "rule": view.rule, "instance": instance,
    }  # fmt: skip
    try:
        with np.errstate(all="ignore"):
            sides = with_noise(statement, view, name, pick)
            _check_defined(statement, view, name, sides)
    except NotInFractions:
        raise
    except SILENT as error:
        verdict: Verdict = "inconclusive" if isinstance(error, NotCertified) else "not applicable"
        return Check(verdict=verdict, mode="exact", reason=str(error), **fields)
    by_draws = not view.rational and _by_draws(statement, view, name, sides, pick)
    if len(view.path.states) > 1 and same_at_start(sides, view):
        sides, fields["where"] = after_start(sides), {SAME_AT_START: True}
    if not by_draws:
        mode = "rational" if view.rational else "exact"
        return with_ratio(judge(sides, mode=mode, **fields), statement, name, sides)
    parts = (sides.lhs, sides.rhs, sides.scale)
    lhs, rhs, scale = (np.reshape(v, (-1, np.shape(v)[-1])) for v in parts)
    sides = replace(sides, lhs=lhs, rhs=rhs, scale=scale)
    made = judge_statistical(sides, confidence, mode="statistical", **fields)
    means = replace(sides, lhs=lhs.mean(axis=1), rhs=rhs.mean(axis=1), scale=scale.mean(axis=1))
    return _met(with_ratio(made, statement, name, means), view)


def _met(check: Check, view: Quantities) -> Check:
    """Nothing is decided by draws in which some client hardly took part: all may hang on it."""
    cohorts = [c.cohort.dense() for c in view.path.clients]
    seldom = min(int(n) for n in np.any([c.mask for c in cohorts], axis=0).sum(axis=0))
    if seldom >= MET or check.verdict not in ("holds", "violated"):
        return check
    reason = f"some client took part in {seldom} of the {check.scenarios} runs, which say nothing of it: raise scenarios"
    return replace(check, verdict="inconclusive", reason=reason)


def _check_defined(statement: Any, view: Quantities, name: str, sides: Sides) -> None:
    """Raise `Undefined` where a side is not finite although the run is: it divides by 0."""
    finite = view.rational or (np.isfinite(sides.lhs).all() and np.isfinite(sides.rhs).all())
    if not finite and all(np.isfinite(s.x).all() for s in view.path.states):
        raise Undefined(f"{statement.id} [{name}]: a side is not finite here, as where it divides by 0")


def check(
    statement: Any,
    view: Quantities,
    names: Iterable[str] | None = None,
    instance: str = "",
    confidence: float = CONFIDENCE,
) -> list[Check]:
    """One check a form; on a view in fractions only of the forms that are in fractions."""
    out = []
    for name in statement.forms if names is None else names:
        try:
            out.append(_with_rounds(judged(statement, view, name, instance, confidence), view))
        except NotInFractions:
            if not view.rational:
                raise
    return out


def _with_rounds(check: Check, view: Quantities) -> Check:
    """The check with the rounds that its entries are about: of a run the last ones, a single one of
    its horizon T; of a round which start."""
    series, index = check.series, check.where.get("index", ())
    if not isinstance(view, RunQuantities):
        if series is None or series.index.shape[1] > 1:
            return check
        return replace(check, series=replace(series, axes=(view.axis,) * series.index.shape[1]))
    last = len(view.path.states) - 1
    if len(index) == 1 and 1 < check.count <= last + 1:
        where = {k: v for k, v in check.where.items() if k not in ("index", "axes")}
        check = replace(check, where={**where, "t": index[0] + last + 1 - check.count})
    if series is None or series.index.shape[1] > 1 or series.total > last + 1:
        return check
    if series.total == 1:
        return replace(check, series=replace(series, horizon="T", at=np.array([last])))
    at = series.index[:, 0] + last + 1 - series.total
    return replace(check, series=replace(series, horizon="round", at=at))


def exact_sides(statement: Any, view: Quantities, name: str, pick: Any = None) -> tuple[Fraction, Fraction]:
    """(lhs, rhs) in fractions where rhs - lhs is least. Raises `NotInFractions` where the sides
    are none."""
    if not view.rational:
        raise NotInFractions(f"{statement.id} [{name}] was run in floats")
    claimed = statement.on(view)[name]
    sides = reduced(view, claimed, None if pick is None else pick(claimed))
    pairs = zip(np.asarray(sides.lhs, dtype=object).ravel(), np.asarray(sides.rhs, dtype=object).ravel(), strict=True)
    lhs, rhs = min(pairs, key=lambda p: p[1] - p[0])
    return Fraction(lhs), Fraction(rhs)
