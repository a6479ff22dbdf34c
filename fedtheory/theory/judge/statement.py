"""Statements and their forms.

A *statement* is a numbered claim of a paper. It exists in *forms*: as printed, as repaired,
sometimes sharpened, sometimes with one repair undone. A form turns a *view* (everything one round
or one run makes measurable) into two sides, and running it gives a
`fedtheory.theory.judge.check.Check`.

Forms are written with plain arithmetic, so the same code judges float64 views and exact rational
ones.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np

from fedtheory.errors import InvalidInput, suggest
from fedtheory.inputs import check_flags
from fedtheory.theory.judge.mathml import unbalanced

if TYPE_CHECKING:  # its methods, which stand above this file and give themselves to it
    from fedtheory.theory.judge.own_run import bound as _bound
    from fedtheory.theory.judge.verify import verify as _verify

__all__ = [
    "CONFIDENCE", "KNOWN", "WORDINGS", "Authored", "Form", "Known", "Mutant", "Sides", "Statement",
    "Undefined", "Worst", "eq", "known", "le",
]  # fmt: skip

# of a verdict by Monte Carlo, one-sided, before the correction for the horizons looked at
CONFIDENCE = 0.999
Verdict = Literal["holds", "violated", "open"]
Known = Literal["proved", "in words", "tested", "refuted", "open"]

KNOWN: Mapping[Known, str] = {  # how a verdict is known, the strongest first
    "proved": "proved by machine",
    "in words": "proved in words (cited)",
    "tested": "only tested",
    "refuted": "refuted",
    "open": "open",
}
WORDINGS = {
    "in words": "the paper says this in words only, the formula is ours",
    "algorithm": "the paper prints the algorithm only, the statement about it is ours",
}


class Undefined(InvalidInput):
    """A form's own expression has no value there, as a denominator in it is 0: nothing is
    claimed."""


@dataclass(frozen=True)
class Sides:
    """lhs <= rhs (or lhs == rhs) over a batch, with the size of what was added up.

    Attributes
    ----------
    lhs, rhs, scale : arrays of one shape
        ``scale`` is the sum of the absolute values of all terms: rounding errors are proportional
        to it.
    noise : float or array
        Absolute uncertainty beyond rounding of the terms (for example of R - R*).
    axes : tuple of str
        What the entries along each axis are, for words ('state', 'client'...); empty: not said.
    terms : tuple
        The left side and the terms of the right one as they were handed in.
    """

    lhs: Any
    rhs: Any
    scale: Any
    relation: Literal["<=", "=="]
    noise: Any = 0
    axes: tuple[str, ...] = ()
    terms: tuple[Any, ...] = ()

    def each(self, change: Callable[[Any], Any], **more: Any) -> Sides:
        """The sides with both of them, their scale and their noise changed, and further fields."""
        names = ("lhs", "rhs", "scale", "noise")
        return replace(self, **{name: change(getattr(self, name)) for name in names} | more)

    @property
    def compared(self) -> tuple[Any, Any]:
        """Both sides; of an equation of numbers what stands on each, and of vectors the largest
        difference against 0."""
        if (
            self.relation == "==" and len(self.terms) == 2
            and np.shape(self.terms[0]) == np.shape(self.lhs)
        ):
            lhs, rhs = (
                np.broadcast_to(np.asarray(term), np.shape(self.lhs)) for term in self.terms
            )
            return lhs, rhs
        return self.lhs, self.rhs

    @property
    def rows(self) -> list[Sides]:
        """The sides apart at each entry of their first axis."""

        def row(values: Any, i: int) -> Any:
            return np.broadcast_to(values, np.shape(self.lhs))[i]

        terms = [tuple(row(term, i) for term in self.terms) for i in range(len(self.lhs))]
        return [
            self.each(partial(row, i=i), axes=self.axes[1:], terms=own)
            for i, own in enumerate(terms)
        ]

    def at_the_end(self, exact: bool = True) -> Sides:
        """The sides at the last of the horizons that a bound is stated for; of scenarios each has
        its own there."""

        def last(values: Any) -> Any:
            values = np.broadcast_to(values, np.shape(self.lhs))
            return (
                values[-1:] if values.ndim > 1 or (exact and values.ndim) else np.atleast_1d(values)
            )

        return self.each(last, axes=(), terms=())


def le(lhs: Any, *terms: Any, noise: Any = 0, axes: tuple[str, ...] = ()) -> Sides:
    """lhs <= sum of terms."""
    rhs = terms[0]
    for term in terms[1:]:
        rhs = rhs + term
    scale = abs(lhs)
    for term in terms:
        scale = scale + abs(term)
    # a sum of all: of the shape that they all have
    shape, parts = np.shape(scale), [np.asarray(a) for a in (lhs, rhs, scale)]
    if parts[2].dtype == object:  # a whole number beside fractions
        parts = [a.astype(object) if a.dtype.kind in "iu" else a for a in parts]
    left, right, size = (a if a.shape == shape else np.broadcast_to(a, shape) for a in parts)
    return Sides(left, right, size, "<=", noise, axes, (lhs, *terms))


def eq(
    lhs: Any, rhs: Any, *parts: Any, vector: bool = False, noise: Any = 0,
    axes: tuple[str, ...] = ()
) -> Sides:
    """lhs == rhs, entry by entry; ``vector`` reduces the last axis by the largest difference.

    ``parts`` are what lhs and rhs were made of; they only enter the scale.
    """
    lhs, rhs = np.asarray(lhs), np.asarray(rhs)
    terms = (lhs, rhs)
    difference, scale = abs(lhs - rhs), abs(lhs) + abs(rhs)
    for part in parts:
        scale = scale + abs(np.asarray(part))
    # single fractions lose their array
    shape = np.broadcast_shapes(np.shape(difference), np.shape(scale))
    difference, scale = np.broadcast_to(difference, shape), np.broadcast_to(scale, shape)
    if vector and shape:
        difference, scale = difference.max(axis=-1), scale.max(axis=-1)
    return Sides(difference, np.asarray(difference * 0), scale, "==", noise, axes, terms)


@dataclass(frozen=True)
class Mutant:
    """A deliberately wrong variant of a form; the tests demand that it is rejected somewhere in the
    battery."""

    name: str
    sides: Callable[[Any], Sides]


@dataclass(frozen=True)
class Worst:
    """The worst case over all problems of a class, at one point of the parameters.

    Attributes
    ----------
    at : the point, in words
    share : callable() -> worst case/bound, a fraction that is proved: no problem of the class has a
        larger ratio
    rules : those under which the method is the one whose worst case it is; default all of the form
    belongs : callable(case) -> whether a user's case has just these parameters, so that it may be
        drawn beside that
    """

    at: str
    share: Callable[[], Fraction]
    rules: tuple[str, ...] = ()
    belongs: Callable[[Any], bool] = lambda case: False


@dataclass(frozen=True)
class Form:
    """One reading of a statement.

    Attributes
    ----------
    name : 'printed', 'repaired', or another word for a further reading
    formula : its LaTeX, or a function that gives it
    sides : callable(view) -> Sides, or None for identities between symbols
    established : dict rule -> verdict
        What is established for each rule: 'holds' (proved), 'violated' (by a witness), or 'open'
        (neither). A rule is a variant of the method that the paper tells apart; 'any' where there
        is one only. A campaign that finds otherwise fails. A rule that is absent is not run.
    kind : the kind of view that it is judged on, of those that the paper's setting knows
    needs : what must be among the facts of an instance for the form to be about it
    limits : dict parameter -> number
        The values above which (exclusive) the form is claimed, such as {'lambda_2/beta': 27}.
    exact_only : whether a campaign judges it on exact expectations only: it multiplies
        expectations, so that scenarios can be judged in pairs only, of which each gives one factor
    symbolic : callable() -> bool, for identities between symbols
    proves : whether what `symbolic` checks is a proof for every instance of a class, and no
        identity between constants alone
    coq : 'FILE.v: THEOREM' where a theorem that Coq accepts says the same; '' where none does
    wording : key of `WORDINGS`, or ''
        Of a form that stands where others have what is printed, although the paper prints no such
        formula. Only what is printed, or an instance of it, is called 'printed'.
    proof : where the proof is that it holds
        A page with its anchor, a source of the literature, or the argument in a sentence; 'note'
        where the note has it. A form on record as holding without one is marked as only tested.
    letters : the symbols that its formula is made with, where that is made by what runs
        (`fedtheory.theory.judge.symbolic`)
    worst : how near the bound the worst of all problems comes, where that can be computed; a
        campaign does
    """

    name: str
    formula: str | Callable[[], str]
    sides: Callable[[Any], Sides] | None
    established: Mapping[str, Verdict]
    note: str = ""
    proof: str = ""
    mutants: tuple[Mutant, ...] = ()
    kind: str = ""
    needs: tuple[str, ...] = ()
    limits: Mapping[str, float] = field(default_factory=dict)
    exact_only: bool = False
    symbolic: Callable[[], bool] | None = None
    proves: bool = False
    coq: str = ""
    wording: str = ""
    letters: Any = None
    worst: Worst | None = None

    def __post_init__(self) -> None:
        check_flags(self)
        if isinstance(self.formula, str) and (why := unbalanced(self.formula)):
            raise InvalidInput(
                f"form {self.name!r}: {why}. Close it, or the formula would be shown wrong."
            )

    def sides_on(self, view: Any) -> Sides:
        """Its two sides on a view. Raises `InvalidInput` for a form without sides."""
        if self.sides is None:
            raise InvalidInput(
                f"form {self.name!r} has no sides to compare: it is an identity between symbols"
            )
        return self.sides(view)

    def rule_among(self, *rules: str) -> str:
        """The first of these rules that it is claimed for, or else the first of its own."""
        return next((r for r in rules if r in self.established), next(iter(self.established)))

    @cached_property
    def latex(self) -> str:
        """Its formula."""
        return self.formula() if callable(self.formula) else self.formula

    @property
    def conditions(self) -> tuple[str, ...]:
        """Its needs and limits in words: where it is claimed, beyond its statement's
        assumptions."""
        above = (f"{name} > {limit:.6g}" for name, limit in self.limits.items())
        return tuple(dict.fromkeys([*self.needs, *above]))

    @property
    def evidence(self) -> str:
        """The proof behind 'holds' in words; empty where nothing is on record as holding."""
        if "holds" not in self.established.values():
            return ""
        if self.symbolic is not None:
            coq = f"; Coq accepts it too, {self.coq}" if self.coq else ""
            return f"Proof: an identity between symbols, which every campaign checks{coq}"
        if self.proof:
            return f"Proof: {'see the note' if self.proof == 'note' else self.proof}"
        return f"{KNOWN['tested'].capitalize()}: no proof is cited"

    def known(self, rule: str) -> Known:
        """How its verdict on record under a rule is known."""
        modes = () if self.symbolic is None else ("symbolic",)
        return known(self.established[rule], modes, self.proof, refuted=True)


def known(
    verdict: str, modes: Collection[str] = (), proof: str = "", refuted: bool = False
) -> Known:
    """Say how a verdict on a form is known, one of `KNOWN`.

    Parameters
    ----------
    verdict : of a `fedtheory.theory.judge.check.Check`
    modes : how it was judged: 'proved' and 'symbolic' are a certificate or an identity that was
        checked
    proof : where a proof in words is cited
    refuted : whether an instance refutes it in fractions
    """
    if verdict == "violated":
        return "refuted" if refuted else "tested"
    if verdict != "holds":
        return "open"
    if "proved" in modes or "symbolic" in modes:
        return "proved"
    return "in words" if proof else "tested"


@dataclass(frozen=True)
class Statement:
    """A numbered claim.

    Attributes
    ----------
    id : str, such as 'my-paper/eq-28'
        What stands before the slash is the paper's; its setting judges the statement.
    source : where it stands in the paper
    scope : a word of the paper's setting: what a view of this statement holds (one round, a run...)
    symbols : dict symbol -> where it lives in the code
    kind : 'statement', or 'claim' for what is stated but cannot be run
    shown_by : of a claim, the command that measures what it is about, or several with '; ' between
        them
    measures : its left side in words, for the axis of a picture; '' where its formula is to stand
        there
    home : the paper that it was declared in; None: the one that is registered with its id
    """

    id: str
    title: str
    source: str
    scope: str
    forms: tuple[Form, ...]
    assumptions: tuple[str, ...] = ()
    symbols: dict[str, str] = field(default_factory=dict)
    kind: str = "statement"
    shown_by: str = ""
    measures: str = ""
    home: Any = field(default=None, compare=False, repr=False)

    if TYPE_CHECKING:
        verify = _verify
        bound = _bound

    @property
    def paper(self) -> str:
        """The id of its paper."""
        return self.id.partition("/")[0]

    def form(self, name: str) -> Form:
        """The form of that name. Raises `UnknownName` with those there are."""
        for form in self.forms:
            if form.name == name:
                return form
        raise suggest(name, [f.name for f in self.forms], f"form of {self.id}")

    @property
    def as_printed(self) -> Form | None:
        """The printed form, else the one that stands in its place (`Form.wording`), else None."""
        return next((f for f in self.forms if f.name == "printed" or f.wording), None)


class Authored(Protocol):
    """A statement as its author wrote it: `fedtheory.theory.AuthoredStatement`."""

    @property
    def statement(self) -> Statement:
        """As the core knows it."""
