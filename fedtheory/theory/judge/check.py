"""Judge the two sides of a form in one of three ways, which gives a `Check`.

Exact sides are compared beyond rounding, sides in fractions exactly, and scenarios by Student's t. A form that is an
identity between symbols is proved by SymPy.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from typing import Any, Literal

import numpy as np

from fedtheory.errors import InvalidInput, NotCertified
from fedtheory.inputs import check_unit, require, shown
from fedtheory.provenance import to_jsonable
from fedtheory.theory.judge.record import NotRecorded
from fedtheory.theory.judge.series import Series, horizons_of, kept_of, with_horizon
from fedtheory.theory.judge.statement import CONFIDENCE, Form, Sides, Statement, Undefined

__all__ = [
    "AT_A_POINT", "CONFIDENCE", "FREE", "RELATIVE_TOLERANCE", "SAME_AT_START", "Check", "Verdict",
    "after_start", "begins_as_one", "in_words", "judge", "judge_statistical",
    "judge_view", "judge_worst", "outside", "worst_sides",
]  # fmt: skip

AT_A_POINT = "proved at a point"
Verdict = Literal["holds", "violated", "not applicable", "inconclusive"]
RELATIVE_TOLERANCE = 1e-9  # of the sum of the absolute terms: float64 rounding and local KKT residuals stay far below


@dataclass(frozen=True)
class Check:
    """The outcome of one form on one instance.

    Attributes
    ----------
    slack : float
        Least (rhs - lhs) / scale (for equalities: minus the largest relative difference).
    tightness : float
        Largest lhs / rhs where the bound is positive (1 = attained); NaN for equalities.
    mode : 'exact' (enumerated), 'statistical' (Monte Carlo), 'rational', 'symbolic', 'proved' (for every instance), or `AT_A_POINT`
        (for every instance with the parameters of ``where['point']``)
    standard_error, confidence, scenarios : for statistical checks; the last is how many runs decided
    relation : '<=' or '=='; of an equality ``lhs`` is the difference of its sides, ``rhs`` is 0
    where : dict
        Of the worst case: 'index' into the entries compared, 'axes' where it is known what they are,
        the horizon 'T' or 'tau', `FREE` constants with the numbers taken, and what else is known of
        the instance; 'no_ratio' says why lhs/rhs means nothing of the form. `place` says it in words.
    series : what was compared, entry by entry, where it is kept (`fedtheory.theory.judge.series.keeping`); else None
    """

    statement: str
    form: str
    rule: str
    verdict: Verdict
    mode: str
    slack: float = float("nan")
    tightness: float = float("nan")
    lhs: float = float("nan")
    rhs: float = float("nan")
    standard_error: float = 0.0
    confidence: float | None = None
    where: dict[str, Any] = field(default_factory=dict)
    reason: str = ""
    instance: str = ""
    count: int = 0
    scenarios: int | None = None
    relation: str = "<="
    series: Series | None = field(default=None, repr=False, compare=False)

    def __str__(self) -> str:
        head = f"{self.statement} [{self.form}, {self.rule} rule]: {self.verdict}"
        if self.verdict == "not applicable" or self.verdict == "inconclusive":
            return f"{head} ({self.reason})"
        detail = f"tightness {self.tightness:.3g}, " if np.isfinite(self.tightness) else ""
        place = f", worst at {self.place}" if self.place else ""
        slack = f"slack {self.slack:.3g}, " if np.isfinite(self.slack) else ""
        return f"{head} ({detail}{slack}{self.mode}{place})"

    def to_json(self) -> dict[str, Any]:
        """Give all that JSON can hold: all but ``series``."""
        return to_jsonable({f.name: getattr(self, f.name) for f in fields(self) if f.name != "series"})

    @classmethod
    def from_json(cls, told: Any) -> Check:
        """The inverse of `to_json`. Raises `InvalidInput` on what it did not write."""
        try:
            return cls(**{f.name: _READ.get(str(f.type), lambda v: v)(told[f.name]) for f in fields(cls) if f.name != "series"})
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidInput(f"{shown(told)} is no check ({type(error).__name__}: {error})") from error

    @classmethod
    def unpacked(cls, told: dict[str, Any]) -> Check:
        """The inverse of `dataclasses.asdict`, as `fedtheory.store.resumable` keeps a check."""
        return cls(**told | {"series": told["series"] and Series(**told["series"])})

    @property
    def refutes(self) -> bool:
        """True of a violation, unless constants are `FREE`: with other numbers the form may hold."""
        return self.verdict == "violated" and FREE not in self.where

    @property
    def place(self) -> str:
        """The worst entry in words: 'T = 4', 'state 3, client 0 (counted from 0)'; '' of one comparison."""
        return in_words(self.where, self.count)


_READ: dict[str, Callable[[Any], Any]] = {  # what a field of `Check` is from JSON, by its type
    "float": float,
    "float | None": lambda v: None if v is None else float(v),
    "dict[str, Any]": dict,
}


# keys of `Check.where`: constants of which some number >= 0 is claimed to do, with those taken
FREE = "free"
# at t = 0 both sides are one number, and only later rounds are compared
SAME_AT_START = "same_at_start"


def begins_as_one(sides: Sides) -> bool:
    """True of a bound whose first row has the same number on both sides."""
    lhs, rhs = np.asarray(sides.lhs), np.asarray(sides.rhs)
    if sides.relation != "<=" or lhs.shape != rhs.shape:
        return False
    return bool(np.all(abs(lhs[0] - rhs[0]) <= (0 if lhs.dtype == object else 1e-13 * abs(rhs[0]))))


def after_start(sides: Sides) -> Sides:
    """The sides without their first row."""
    shape = np.shape(sides.lhs)

    def later(values: Any) -> Any:
        return np.broadcast_to(values, shape)[1:] if np.ndim(values) else values

    return sides.each(later, terms=tuple(map(later, sides.terms)))


def in_words(where: dict[str, Any], count: int = 0) -> str:
    """`Check.where` as people read it; ``count``: how many entries were compared."""
    free = [f"{name} = {value}" for name, value in where.get(FREE, {}).items()]
    return ", ".join(filter(None, [*free, _entry(where, count)]))


def _entry(where: dict[str, Any], count: int) -> str:
    """The entry that is worst, or its horizon."""
    horizons = [f"{name} = {value}" for name, value in where.get("choice", {}).items()]
    horizons += [f"{name} = {where[name]}" for name in ("T", "tau", "K", "t") if name in where]
    index, axes = where.get("index", []), where.get("axes", [])
    if horizons or not index or count == 1:
        return ", ".join(horizons)
    if len(axes) == len(index):
        known = {"cohort": f"cohort {{{', '.join(map(str, where['cohort']))}}}"} if "cohort" in where else {}
        return ", ".join(known.get(axis, f"{axis} {i}") for axis, i in zip(axes, index, strict=True)) + " (counted from 0)"
    at = str(index[0]) if len(index) == 1 else f"({', '.join(map(str, index))})"
    return f"entry {at} (counted from 0)" + (f" of the {count} compared" if count else "")


def judge(sides: Sides, **fields: Any) -> Check:
    """Verdict of an exact comparison: violated only beyond rounding and the noise of what was measured."""
    lhs, rhs, scale = (np.asarray(a).ravel() for a in (sides.lhs, sides.rhs, sides.scale))
    slack = rhs - lhs
    fields.setdefault("mode", "rational" if lhs.dtype == object else "exact")
    if lhs.dtype == object:
        worst, violated = min(range(len(slack)), key=slack.__getitem__), (slack < 0).astype(bool)
        floor: Any
        relative = float(slack[worst]) / float(scale[worst]) if scale[worst] else 0.0
        lhs, rhs, floor = lhs.astype(float), rhs.astype(float), 1e-12 * float(max(scale))
    else:
        noise = np.broadcast_to(np.asarray(sides.noise), np.shape(sides.lhs)).ravel()
        told = "a side is not finite (entry {})"
        unknown = _not_finite(np.isfinite(lhs) & np.isfinite(rhs), told)
        told = f"{_REACH} (entry {{}}){_RESCALE}"
        if unknown := unknown or _not_finite(np.isfinite(scale) & np.isfinite(noise), told):
            return Check(verdict="inconclusive", reason=unknown, **fields)
        size = np.maximum(scale + noise, np.finfo(float).tiny)
        margin = slack + RELATIVE_TOLERANCE * scale + noise
        worst, violated = int(np.argmin(margin / size)), ~(margin >= 0)
        relative, floor = float(slack[worst] / size[worst]), 1e-6 * scale
    index = [int(i) for i in np.unravel_index(worst, np.shape(sides.lhs))]
    axes = {"axes": list(sides.axes)} if len(sides.axes) == len(index) > 0 else {}
    return Check(
        verdict="violated" if violated.any() else "holds", slack=relative,
        tightness=_largest_ratio(lhs, rhs, floor) if sides.relation == "<=" else float("nan"),
        lhs=float(lhs[worst]), rhs=float(rhs[worst]), count=len(lhs), relation=sides.relation,
        where={**fields.pop("where", {}), "index": index, **axes},
        series=kept_of(sides, violated), **fields,
    )  # fmt: skip


_REACH, _RESCALE = "how far rounding reaches is not finite", ": rescale the problem"


def _not_finite(known: np.ndarray, words: str) -> str:
    """The words, with the first entry that is not known; '' where all are."""
    return "" if known.all() else words.format(*(int(i) for i in np.argwhere(~known)[0]))


def _largest_ratio(lhs: np.ndarray, rhs: np.ndarray, floor: Any) -> float:
    """Largest lhs/rhs over the entries whose bound is above a floor; NaN where there is none."""
    some = rhs > floor
    return float(np.max(lhs[some] / rhs[some])) if some.any() else float("nan")


def judge_statistical(sides: Sides, confidence: float, stages: int = 1, **fields: Any) -> Check:
    """One-sided Student-t statement on E[rhs - lhs] for each horizon (rows), scenarios along the last axis.

    The error probability 1 - confidence is divided by the number of horizons and of `stages`, the judgements
    that share it (Bonferroni). 'holds' when every lower confidence limit is >= 0 up to rounding; 'violated'
    when some upper one is < 0; 'inconclusive' otherwise, and where a side is not finite. The limits are
    Student's, for this form by itself: they do not cover a rare event that no scenario met. Where scenarios
    are judged while they grow, every look is paid for (`fedtheory.theory.judge.sequential`).

    Raises `InvalidInput` for a confidence outside (0, 1).
    """
    from scipy.special import stdtrit  # Student's quantiles, as of scipy.stats, which takes long to import

    confidence = check_unit("confidence", confidence)
    looks, scenarios = sides.lhs.shape
    fields = {"mode": "statistical", **fields, "confidence": confidence, "count": looks}
    finite = np.isfinite(sides.lhs) & np.isfinite(sides.rhs)
    diverged = "a side is not finite (horizon {}, scenario {}, counted from 0): the run diverged"
    if reason := _not_finite(finite, diverged):
        where = {**fields.pop("where", {}), "index": [int(np.argmin(finite.all(axis=1)))]}
        return Check(verdict="inconclusive", reason=reason, where=where, **fields)
    slack = sides.rhs - sides.lhs
    mean, se = slack.mean(axis=1), slack.std(axis=1, ddof=1) / np.sqrt(scenarios)
    z = -stdtrit(scenarios - 1, (1 - confidence) / (looks * stages))
    with np.errstate(over="ignore"):
        scale = np.maximum(np.asarray(sides.scale).mean(axis=1), np.finfo(float).tiny)
    tolerance = RELATIVE_TOLERANCE * scale + np.max(sides.noise)
    beyond = f"{_REACH} (horizon {{}}, counted from 0){_RESCALE}"
    if reason := _not_finite(np.isfinite(tolerance), beyond):
        return Check(verdict="inconclusive", reason=reason, **fields)
    lower, upper = mean - z * se, mean + z * se
    worst, violated, reason = int(np.argmin(lower / scale)), upper < -tolerance, ""
    verdict: Verdict = "holds"
    if violated.any():
        verdict, worst = "violated", int(np.argmin(upper / scale))
    elif not (lower >= -tolerance).all():
        verdict = "inconclusive"
        reason = (
            "the confidence interval of the slack contains 0: raise scenarios, and take another "
            "seed, as the same one would begin with these again"
        )
    lhs, rhs = sides.lhs.mean(axis=1), sides.rhs.mean(axis=1)
    return Check(
        verdict=verdict, reason=reason, slack=float(mean[worst] / scale[worst]),
        tightness=_largest_ratio(lhs, rhs, 1e-6 * scale), lhs=float(lhs[worst]),
        rhs=float(rhs[worst]), standard_error=float(se[worst]), scenarios=scenarios,
        where={**fields.pop("where", {}), "index": [worst]}, relation=sides.relation,
        series=kept_of(sides, violated, float(z), scenarios=True), **fields,
    )  # fmt: skip


def judge_view(
    statement: Statement,
    form: Form,
    view: Any,
    instance: str = "",
    *,
    rule: str | None = None,
    confidence: float = CONFIDENCE,
    sides: Callable[[Any], Sides] | None = None,
) -> Check:
    """Run one form (or, with ``sides``, a mutant of it) on a view; whether it applies is the caller's business.

    Parameters
    ----------
    view : as `fedtheory.theory.judge.view.ClosedView` says; None for an identity between symbols
    rule : key of `Form.established`; default the view's
    """
    rule = (view.rule if view is not None else "any") if rule is None else rule
    fields: dict[str, Any] = {"statement": statement.id, "form": form.name, "rule": rule, "instance": instance}
    if form.symbolic is not None:
        mode = "proved" if form.proves else "symbolic"
        return Check(verdict="holds" if form.symbolic() else "violated", mode=mode, count=1, **fields)
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            result = (sides or form.sides_on)(view)
    except Undefined as error:
        return outside(statement, form, rule, error, instance)
    constants = getattr(view, "printed_constants", None)
    if constants is not None:
        shown = constants().items()
        fields["where"] = {k: float(v) if isinstance(v, Fraction) else v for k, v in shown}
    certain = view.exact or np.asarray(result.lhs).dtype == object
    check = judge(result, **fields) if certain else judge_statistical(result, confidence, **fields)
    locate, index = getattr(view, "locate", None), check.where.get("index")
    if locate is not None and index is not None:
        locate(check.where)
    elif index is not None and len(index) == 1:
        at = horizons_of(view, check.count)
        if at is not None:
            check.where[getattr(view, "horizon", "T")] = int(at[check.where.pop("index")[0]])
    return check if check.series is None else replace(check, series=with_horizon(check.series, view))


def judge_worst(statement: Statement, form: Form) -> list[Check]:
    """The worst case of all problems against the form's bound, under each rule that it is about.

    Nothing larger than the bound is shown where the proved number is larger: then the checks are 'inconclusive'.

    Raises `InvalidInput` for what is no statement or no form.
    """
    require(isinstance(statement, Statement), "statement", statement, "use a Statement, as get(...) returns it")
    require(isinstance(form, Form), "form", form, "use a Form, one of statement.forms")
    if form.worst is None:
        return []
    fields: dict[str, Any] = {"mode": AT_A_POINT, "where": {"point": form.worst.at}}
    try:
        share = form.worst.share()
    except NotCertified as error:
        fields |= {"verdict": "inconclusive", "reason": f"no worst case: {error}"}
    else:
        value, fields["verdict"] = float(share), "holds"
        if share > 1:
            beyond = f"the worst case is only below {value:.4g} × the bound"
            fields |= {"verdict": "inconclusive", "reason": beyond}
        fields |= {"tightness": value, "lhs": value, "rhs": 1.0, "slack": float(1 - share)}
        fields["count"] = 1
    return [Check(statement.id, form.name, rule, **fields) for rule in form.worst.rules or form.established]


def outside(
    statement: Statement, form: Form, rule: str, reason: str | Exception, instance: str = ""
) -> Check:
    """The check of a form that was not run, and why; an error may say that it is not decided."""
    unknown = isinstance(reason, NotCertified | NotRecorded)
    verdict: Verdict = "inconclusive" if unknown else "not applicable"
    told: Any = {"reason": str(reason), "instance": instance}
    return Check(statement.id, form.name, rule, verdict, "exact", **told)


def apart_sides(sides: Sides) -> tuple[Any, Any] | None:
    """The two sides of an equation where they differ most; None of an inequality, and of sides that are one."""
    if sides.relation != "==" or len(sides.terms) != 2:
        return None
    left, right = (v.ravel() for v in np.broadcast_arrays(*(np.asarray(t, dtype=object) for t in sides.terms)))
    at = max(range(len(left)), key=lambda i: abs(left[i] - right[i]))
    return (left[at], right[at]) if left[at] != right[at] else None


def worst_sides(sides: Sides, claimed: tuple[str, str] = ("", "")) -> tuple[Fraction, Fraction, Fraction]:
    """(lhs, rhs, scale) where rhs - lhs is least, exactly; or as claimed, if the form fails there.

    Raises `InvalidInput` for sides that are no fractions, which prove nothing.
    """
    if np.asarray(sides.lhs).dtype != object:
        raise InvalidInput("the sides are not computed in fractions on these data: they prove nothing")
    entries = list(zip(*(np.asarray(a).ravel() for a in (sides.lhs, sides.rhs, sides.scale)), strict=True))
    mine = (e for e in entries if e[0] > e[1] and (str(e[0]), str(e[1])) == claimed)
    lhs, rhs, scale = next(mine, None) or min(entries, key=lambda e: e[1] - e[0])
    return Fraction(lhs), Fraction(rhs), Fraction(scale)
