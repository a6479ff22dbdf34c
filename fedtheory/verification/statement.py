"""Statements, their forms, and what running one returns.

A *statement* is a numbered claim of a paper. It exists in *forms*: as printed, as repaired, sometimes sharpened, sometimes with one
repair undone. A form turns a *view* (everything one round or one run makes measurable) into two sides, and running it gives a `Check`.

Forms are written with plain arithmetic, so the same code judges float64 views and exact rational ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from fedtheory.errors import FedTheoryError, suggest

__all__ = [
    "WORDINGS", "Check", "Form", "Mutant", "Sides", "Statement", "Verdict", "all_statements", "eq", "get", "le", "register",
]  # fmt: skip

Verdict = Literal["holds", "violated", "not applicable", "inconclusive"]
WORDINGS = {
    "in words": "the paper says this in words only, the formula is ours",
    "algorithm": "the paper prints the algorithm only, the statement about it is ours",
}
RELATIVE_TOLERANCE = 1e-9  # of the sum of the absolute terms: float64 rounding and local KKT residuals stay far below


@dataclass(frozen=True)
class Sides:
    """lhs <= rhs (or lhs == rhs) over a batch, with the size of what was added up.

    Attributes
    ----------
    lhs, rhs, scale : arrays of one shape
        ``scale`` is the sum of the absolute values of all terms: rounding errors are proportional to it.
    noise : float or array
        Absolute uncertainty beyond rounding of the terms (for example of R - R*).
    axes : tuple of str
        What the entries along each axis are, for words ('state', 'client'...); empty: not said.
    """

    lhs: Any
    rhs: Any
    scale: Any
    relation: Literal["<=", "=="]
    noise: Any = 0
    axes: tuple[str, ...] = ()


def le(lhs: Any, *terms: Any, noise: Any = 0, axes: tuple[str, ...] = ()) -> Sides:
    """lhs <= sum of terms."""
    rhs = terms[0]
    for term in terms[1:]:
        rhs = rhs + term
    scale = abs(lhs)
    for term in terms:
        scale = scale + abs(term)
    shape = np.shape(lhs + rhs)
    return Sides(*(np.broadcast_to(np.asarray(a), shape) for a in (lhs, rhs, scale)), "<=", noise, axes)


def eq(lhs: Any, rhs: Any, *parts: Any, vector: bool = False, noise: Any = 0, axes: tuple[str, ...] = ()) -> Sides:
    """lhs == rhs, entry by entry; ``vector`` reduces the last axis by the largest difference.

    ``parts`` are what lhs and rhs were made of; they only enter the scale.
    """
    lhs, rhs = np.asarray(lhs), np.asarray(rhs)
    difference, scale = abs(lhs - rhs), abs(lhs) + abs(rhs)
    for part in parts:
        scale = scale + abs(np.asarray(part))
    shape = np.broadcast_shapes(np.shape(difference), np.shape(scale))  # single fractions lose their array
    difference, scale = np.broadcast_to(difference, shape), np.broadcast_to(scale, shape)
    if vector:
        difference, scale = difference.max(axis=-1), scale.max(axis=-1)
    return Sides(difference, np.asarray(difference * 0), scale, "==", noise, axes)


@dataclass(frozen=True)
class Mutant:
    """A deliberately wrong variant of a form; the tests demand that it is rejected somewhere in the battery."""

    name: str
    sides: Callable[[Any], Sides]


@dataclass(frozen=True)
class Form:
    """One reading of a statement.

    Attributes
    ----------
    name : 'printed', 'repaired', or another word for a further reading
    sides : callable(view) -> Sides, or None for symbolic identities
    established : dict rule -> verdict
        What is established for each rule of Algorithm 3 ('sign', 'true-gradient'; 'any' where no rule enters): 'holds' (proved),
        'violated' (by a witness), or 'open' (neither). A campaign that finds otherwise fails. A rule that is absent is not run.
    threshold : callable(constants) -> float, or None
        The least lambda_2 / beta (exclusive) the form is claimed for.
    wording : key of `WORDINGS`, or ''
        Of a form that stands where others have what is printed, although the paper prints no such formula. Only what
        is printed, or an instance of it, is called 'printed'.
    """

    name: str
    latex: str
    sides: Callable[[Any], Sides] | None
    established: dict[str, Verdict | Literal["open"]]
    threshold: float | None = None
    note: str = ""
    mutants: tuple[Mutant, ...] = ()
    symbolic: Callable[[], bool] | None = None
    exact_only: bool = False
    requires: tuple[str, ...] = ()
    wording: str = ""


@dataclass(frozen=True)
class Statement:
    """A numbered claim.

    Attributes
    ----------
    id : str, such as 'fedelasticnet/eq-28'
    source : where it stands in the paper
    scope : 'round' (given the state before a round), 'run' (a horizon T), 'fixed-point' (of Algorithm 1), or 'algebra'
        (no data enter); 'fedmls' (a run of FedMLS); 'efl' (what EFL states: the kind of view is the first thing a form requires)
    symbols : dict symbol -> where it lives in the code
    witness_threshold : float
        Witnesses must have lambda_2/beta above it: a step that fails inside its theorem's assumptions is a stronger finding.
    """

    id: str
    title: str
    source: str
    scope: Literal["round", "run", "fixed-point", "fedmls", "efl", "algebra"]
    forms: tuple[Form, ...]
    assumptions: tuple[str, ...] = ()
    symbols: dict[str, str] = field(default_factory=dict)
    kind: str = "statement"
    witness_threshold: float = 0.0

    def form(self, name: str) -> Form:
        for form in self.forms:
            if form.name == name:
                return form
        raise suggest(name, [f.name for f in self.forms], f"form of {self.id}")

    @property
    def as_printed(self) -> Form | None:
        """The printed form, else the one that stands in its place (`Form.wording`), else None."""
        return next((f for f in self.forms if f.name == "printed" or f.wording), None)

    def verify(self, problem: Any, algorithm: Any, **options: Any) -> Any:
        """Run every form of this statement; see `fedtheory.verification.verify`."""
        from fedtheory.verification.verify import verify

        return verify(self, problem, algorithm, **options)


@dataclass(frozen=True)
class Check:
    """The outcome of one form on one instance.

    Attributes
    ----------
    slack : float
        Least (rhs - lhs) / scale (for equalities: minus the largest relative difference).
    tightness : float
        Largest lhs / rhs where the bound is positive (1 = attained); NaN for equalities.
    mode : 'exact' (enumerated), 'statistical' (Monte Carlo), 'rational', or 'symbolic'
    standard_error, confidence, scenarios : for statistical checks; the last is how many runs decided
    where : dict
        Of the worst case: 'index' into the entries compared, 'axes' where it is known what they are, the horizon 'T' or 'tau', and
        what else is known of the instance. `place` says it in words.
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

    def __str__(self) -> str:
        head = f"{self.statement} [{self.form}, {self.rule} rule]: {self.verdict}"
        if self.verdict == "not applicable" or self.verdict == "inconclusive":
            return f"{head} ({self.reason})"
        detail = f"tightness {self.tightness:.3g}, " if np.isfinite(self.tightness) else ""
        place = f", worst at {self.place}" if self.place else ""
        slack = f"slack {self.slack:.3g}, " if np.isfinite(self.slack) else ""
        return f"{head} ({detail}{slack}{self.mode}{place})"

    @property
    def place(self) -> str:
        """Where it is worst, in words: 'T = 4', 'state 3, client 0 (counted from 0)'; '' where there is one comparison only."""
        return in_words(self.where, self.count)


def in_words(where: dict[str, Any], count: int = 0) -> str:
    """`Check.where` as people read it; ``count``: how many entries were compared."""
    horizons = [f"{name} = {where[name]}" for name in ("T", "tau", "K") if name in where]
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
    rational = lhs.dtype == object
    slack = rhs - lhs
    if rational:
        worst = min(range(len(slack)), key=lambda i: slack[i])
        ok = bool(slack[worst] >= 0)
        relative = np.array([float(s) / float(c) if c else 0.0 for s, c in zip(slack, scale, strict=True)])
    else:
        noise = np.broadcast_to(np.asarray(sides.noise), np.shape(sides.lhs)).ravel()
        if not (np.isfinite(lhs).all() and np.isfinite(rhs).all()):
            bad = int(np.argmin(np.isfinite(lhs) & np.isfinite(rhs)))
            return Check(verdict="inconclusive", reason=f"a side is not finite (entry {bad})", **fields)
        tiny = np.finfo(float).tiny
        relative = slack / np.maximum(scale + noise, tiny)
        margin = slack + RELATIVE_TOLERANCE * scale + noise
        worst = int(np.argmin(margin / np.maximum(scale + noise, tiny)))
        ok = bool((margin >= 0).all())
    positive = np.asarray([float(r) for r in rhs]) if rational else rhs
    left = np.asarray([float(v) for v in lhs]) if rational else lhs
    index = [int(i) for i in np.unravel_index(worst, np.shape(sides.lhs))]
    axes = {"axes": list(sides.axes)} if len(sides.axes) == len(index) > 0 else {}
    tightness = float("nan")
    if sides.relation == "<=":
        floor = 1e-12 * float(max(float(s) for s in scale)) if rational else 1e-6 * scale
        some = positive > floor
        if np.any(some):
            tightness = float(np.max(left[some] / positive[some]))
    return Check(
        verdict="holds" if ok else "violated",
        slack=float(relative[worst]),
        tightness=tightness,
        lhs=float(lhs[worst]),
        rhs=float(rhs[worst]),
        where={**fields.pop("where", {}), "index": index, **axes},
        count=len(lhs),
        **fields,
    )


_REGISTRY: dict[str, Statement] = {}
_ALIASES: dict[str, str] = {}


def register(*statements: Statement, aliases: dict[str, str] | None = None) -> None:
    """Add statements to what `get` and `all_statements` know."""
    for s in statements:
        if s.id in _REGISTRY:
            raise FedTheoryError(f"statement {s.id} is registered twice")
        _REGISTRY[s.id] = s
    _ALIASES.update(aliases or {})


def get(name: str) -> Statement:
    """The statement of that id, for example 'fedelasticnet/theorem-3.1'.

    Raises
    ------
    UnknownName
        With the nearest ids.
    """
    name = _ALIASES.get(name, name)
    if name not in _REGISTRY:
        raise suggest(name, [*_REGISTRY, *_ALIASES], "statement", "`fedtheory list` has all")
    return _REGISTRY[name]


def all_statements(prefix: str = "") -> Sequence[Statement]:
    """All statements in the order of their papers, or those whose id starts with the prefix."""
    return [s for s in _REGISTRY.values() if s.id.startswith(prefix)]
