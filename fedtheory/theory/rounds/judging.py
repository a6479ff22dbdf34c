"""Judging a form on a view: in fractions as it stands, in floats with what rounding and an
inexact optimum may do."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from fedtheory.errors import NotCertified
from fedtheory.theory.judge.check import (
    CONFIDENCE,
    FREE,
    RELATIVE_TOLERANCE,
    SAME_AT_START,
    Check,
    after_start,
    judge,
    judge_statistical,
    worst_sides,
)
from fedtheory.theory.judge.sequential import FIRST
from fedtheory.theory.judge.statement import Sides
from fedtheory.theory.rounds.forms import Claimed, Undefined, reduced
from fedtheory.theory.rounds.measured import NUDGE, ROUNDING, Quantities, RunQuantities
from fedtheory.theory.rounds.rational_clients import NotInFractions
from fedtheory.theory.rounds.ratios import same_at_start, with_ratio
from fedtheory.theory.rounds.undefined import SILENT

__all__ = ["Drawn", "check", "chosen", "exact_sides", "judged", "noisy", "with_noise"]

MET = 5  # runs in which every client must take part before draws decide anything
FEW = 8  # draws that are moved
NUDGES = 6  # each of three moves, and its opposite
CLEAR = 1000  # times what rounding was seen to do
CORNERS = ((1, -1), (1, 1))  # F* as high, and ||x - x*|| as small, or as large, as they may be


def with_noise(statement: Any, view: Quantities, name: str, pick: Any = None) -> Sides:
    """A form's sides, or with ``pick`` those of a mutant, as `noisy` gives them."""

    def sides_on(v: Quantities) -> Sides:
        alone = getattr(v, "seldom", False) and statement.on(view, pick is not None).by_functions
        claimed: Claimed = statement.on(v, pick is not None, name if alone else "")[name]
        return reduced(v, claimed, None if pick is None else pick(claimed))

    def by_draws(sides: Sides) -> bool:
        return _by_draws(statement, view, name, sides, pick)

    return noisy(sides_on, view, f"{statement.id} [{name}]", by_draws)


def noisy(
    sides_on: Callable[[Quantities], Sides],
    view: Quantities,
    label: str,
    drawn: Callable[[Sides], bool] = lambda sides: False,
) -> Sides:
    """Sides in floats, with what rounding may do and what is not known of the optimum as their
    noise.

    Noise never makes a form that holds fail. Where it holds, further moves than one change nothing
    and are not made, nor where it fails by far more than a move and its opposite reach.

    drawn : whether draws estimate what they are about
    """

    def reach(make: str, *how: Any) -> Any:
        if (key := f"{make}{how}") not in kept:
            kept[key] = getattr(begun(), make)(*how)
            kept[key].seldom = how != (0,)
        moved = sides_on(kept[key])
        if not by_draws:
            return np.abs(moved.rhs - moved.lhs - slack)
        few, size = slack[..., :FEW], np.maximum(sides.scale, np.finfo(float).tiny)
        return (np.abs(moved.rhs - moved.lhs - few) / size[..., :FEW]).max(axis=-1, keepdims=True) * size

    def begun() -> Any:
        if by_draws and "few" not in kept:  # of draws a few tell how far rounding reaches
            kept["few"] = view.few(FEW)
        return kept["few"] if by_draws else view

    def doubtful(times: float = 1) -> Any:
        return mean(slack) + mean(RELATIVE_TOLERANCE * scale + times * rounding) < 0

    def mean(values: Any) -> Any:
        return view.expectation(values) if by_draws else values

    sides = sides_on(view)
    if view.rational or not view.judged:
        return sides
    by_draws = drawn(sides)
    kept = view.__dict__.setdefault(f"companions {by_draws}", {})
    slack = sides.rhs - sides.lhs
    if not view.path.alike and np.isnan(slack).any():  # of a run of anyone's, what is not known
        return sides
    own, farthest = np.asarray(sides.noise, dtype=float) + 0 * slack, 0 * slack
    for again in range(NUDGES):  # whatever cancels inside the author's formulas is moved apart
        farthest = np.maximum(farthest, reach("nudged", again))
        rounding = own + farthest * (ROUNDING / NUDGE)
        scale = sides.scale + rounding / ROUNDING  # the terms, as far as rounding feels them
        if again == 0 and np.isfinite(slack + rounding).all() and not doubtful().any():
            return replace(sides, scale=scale, noise=rounding)
        if again == 1 and (doubtful() == doubtful(CLEAR)).all():
            break
    optimum = 0 * slack
    for corner in CORNERS[: view.uses_optimum + view.uses_distance]:
        optimum = optimum + reach("other", view.overrides, corner)
    undecided = np.isfinite(slack) & ~np.isfinite(rounding + optimum)
    if undecided.any():  # as the root of a gap that rounding makes negative
        raise Undefined(f"{label}: rounding decides whether a side exists here")
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
    found = [_compared(statement, view, name, pick)]
    return _judged(statement, view, name, found, _seen(view), instance, confidence)


def _compared(statement: Any, view: Quantities, name: str, pick: Any = None) -> Any:
    """The sides as they are compared, and whether draws estimate their mean: then as (horizons,
    samples); or a verdict, and the reason why they do not exist here."""
    try:
        with np.errstate(all="ignore"):
            sides = with_noise(statement, view, name, pick)
            _check_defined(statement, view, name, sides)
    except NotInFractions:
        raise
    except SILENT as error:
        return "inconclusive" if isinstance(error, NotCertified) else "not applicable", str(error)
    if view.rational or not _by_draws(statement, view, name, sides, pick):
        return sides, False
    crossed = statement.on(view, pick is not None)[name].more.get("exact_only")

    def of(v: Any) -> Any:
        v = np.broadcast_to(v, sides.lhs.shape).reshape(-1, sides.lhs.shape[-1])
        return _two_by_two(v) if crossed else v

    return sides.each(of, terms=()), True


def _two_by_two(v: np.ndarray) -> np.ndarray:
    """The means of draws 0 and 1, 2 and 3, ...: what multiplies expectations takes of each of two
    one factor, so that two are one sample."""
    n = v.shape[-1] // 2 * 2
    return (v[:, 0:n:2] + v[:, 1:n:2]) / 2


def _seen(view: Quantities) -> Any:
    """In how many scenarios each client took part; 0 of a run that is not drawn."""
    if not view.sampled:
        return 0
    masks = [c.cohort.dense().mask for c in view.path.clients]
    return np.any(masks, axis=0).sum(axis=0)


def _judged(
    statement: Any, view: Quantities, name: str, found: Sequence[Any], seen: Any, instance: str, confidence: float
) -> Check:
    """The check of sides as `_compared` gives them, of draws in one part or in several.

    view : of the last part
    """
    fields: dict[str, Any] = {
        "statement": statement.id, "form": name, "rule": view.rule, "instance": instance,
    }  # fmt: skip
    if silent := next((f for f in found if isinstance(f[0], str)), None):
        return Check(verdict=silent[0], mode="exact", reason=silent[1], **fields)
    sides, by_draws = found[-1]
    fields["where"] = chosen(statement, name, view)
    if len(view.path.states) > 1 and same_at_start(sides, view):
        found = [(after_start(part), drawn) for part, drawn in found]
        fields["where"][SAME_AT_START] = True
    if len(found) > 1:
        names = ("lhs", "rhs", "scale", "noise")
        parts: dict[str, list[Any]] = {
            n: [np.broadcast_to(getattr(part, n), part.lhs.shape) for part, _ in found] for n in names
        }
        joined: dict[str, Any] = {n: np.concatenate(v, axis=-1) for n, v in parts.items()}
        found = [(replace(sides, **joined, terms=()), by_draws)]
    sides = found[0][0]
    if not by_draws:
        mode = "rational" if view.rational else "exact"
        return with_ratio(judge(sides, mode=mode, **fields), statement, name, sides)
    count = sides.lhs.shape[-1]
    if count < 2:
        why = f"too few scenarios for pairs of them: take at least 4, better {2 * FIRST} or more"
        return Check(verdict="inconclusive", mode="statistical", reason=why, scenarios=count, **fields)
    made = judge_statistical(sides, confidence, mode="statistical", **fields)
    means = replace(
        sides, lhs=sides.lhs.mean(axis=1), rhs=sides.rhs.mean(axis=1), scale=sides.scale.mean(axis=1)
    )
    return _met(with_ratio(made, statement, name, means), int(np.min(seen)))


def chosen(statement: Any, name: str, view: Quantities) -> dict[str, Any]:
    """The free constants of a form for `Check.where`, with the numbers that it was judged with."""
    free = statement.free_constants(name, view) if view.left_free else {}
    return {FREE: {name: str(value) for name, value in free.items()}} if free else {}


def _met(check: Check, seldom: int) -> Check:
    """Nothing is decided by draws in which some client hardly took part: all may hang on it."""
    if seldom >= MET or check.verdict not in ("holds", "violated"):
        return check
    reason = f"some client took part in {seldom} of the {check.scenarios} runs, which say nothing of it: raise scenarios"
    return replace(check, verdict="inconclusive", reason=reason)


class Drawn:
    """Scenarios that are drawn in parts, of which no more is kept than the sides of forms.

    Attributes
    ----------
    view : of the last part; None where that was made by an earlier process
    """

    def __init__(self, statement: Any) -> None:
        self.statement, self.count, self.seen = statement, 0, np.zeros(1, dtype=int)
        self.view: Any = None
        self.found: dict[str, list[Any]] = {}

    def part(self, view: Any, names: Iterable[str]) -> dict[str, Any]:
        """Give the forms of these names on a part, as `cached_step` keeps them."""
        self.view, found = view, {name: _compared(self.statement, view, name) for name in names}
        plain = {n: (vars(of) if isinstance(of, Sides) else of, how) for n, (of, how) in found.items()}
        return {"count": len(view.path.states[0].x), "seen": _seen(view), "found": plain}

    def add(self, part: dict[str, Any], names: Iterable[str]) -> None:
        """Take a part of which the forms of these names are judged."""
        for name in names:
            of, how = part["found"][name]
            self.found.setdefault(name, []).append((of if isinstance(of, str) else Sides(**of), how))
        self.seen = self.seen + part["seen"]
        self.count += part["count"]

    def check(self, name: str, instance: str, confidence: float, most: int) -> Check:
        """One form on all that was drawn so far, of which there may be so many."""
        parts = self.found[name]
        made = _judged(self.statement, self.view, name, parts, self.seen, instance, confidence)
        if made.mode != "statistical":
            return _with_rounds(made, self.view)
        crossed = self.statement.form(name).more.get("exact_only")
        if crossed and self.count < min(2 * FIRST, most):  # fewer pairs than a look has draws
            made = replace(made, verdict="inconclusive")
        return _with_rounds(replace(made, scenarios=self.count), self.view)


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
        where = view.placed(check.where, check.relation, check.count)
        if series is not None and series.index.shape[1] <= 1:
            series = replace(series, axes=(view.axis,) * series.index.shape[1])
        return replace(check, where=where, series=series)
    last = len(view.path.states) - 1
    letter, looked = view.looked(check.count)
    if len(index) == 1 and 1 < check.count <= last + 1:
        where = {k: v for k, v in check.where.items() if k not in ("index", "axes")}
        check = replace(check, where={**where, letter: int(looked[index[0]])})
    if series is None or series.index.shape[1] > 1 or series.total > last + 1:
        return check
    if series.total == 1:
        return replace(check, series=replace(series, horizon="T", at=np.array([last])))
    letter, looked = view.looked(series.total)
    letter = "round" if letter == "t" else letter
    return replace(check, series=replace(series, horizon=letter, at=looked[series.index[:, 0]]))


def exact_sides(statement: Any, view: Quantities, name: str, pick: Any = None) -> tuple[Fraction, Fraction]:
    """(lhs, rhs) in fractions where rhs - lhs is least. Raises `NotInFractions` where the sides
    are none."""
    if not view.rational:
        raise NotInFractions(f"{statement.id} [{name}] was run in floats")
    claimed = statement.on(view)[name]
    return worst_sides(reduced(view, claimed, None if pick is None else pick(claimed)))[:2]
