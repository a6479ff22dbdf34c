"""Instances and their views: what one round, one run or one fixed point makes measurable."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np

from fedtheory.errors import FedTheoryError, InvalidInput
from fedtheory.rational import Builder, told
from fedtheory.theory.judge.statement import Form, Sides

__all__ = ["MISTAKES", "ClosedView", "DataInstance", "EachOf", "Fact"]

# What a slip in somebody's file raises.
MISTAKES = (TypeError, LookupError, AttributeError, ArithmeticError, ValueError)


class Fact(str):
    """A condition that an instance meets or does not, in the words that a reader is shown.

    ``SHORT = Fact("eta L <= 1", lambda q: q.eta * q.L <= 1)`` is named by ``needs=(SHORT,)`` of a
    form. Without a test it holds where it is among the view's ``facts``.

    Parameters
    ----------
    words : they follow "not an instance with"
    holds : callable(view) -> bool
    unmet : callable(view) -> str, why it does not hold there, with the numbers that decide it
    """

    holds: Callable[[Any], Any] | None
    unmet: Callable[[Any], str] | None

    def __new__(
        cls,
        words: str,
        holds: Callable[[Any], Any] | None = None,
        unmet: Callable[[Any], str] | None = None,
    ) -> Self:
        """Make the words, with their test."""
        made = super().__new__(cls, words)
        made.holds, made.unmet = holds, unmet
        return made

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        """Send the words alone to another process."""
        return str, (str(self),)


class ClosedView:
    """A view whose numbers are exact (fractions) or deterministic (floats): everything is known in
    closed form.

    Another view has at least ``exact``, ``rule`` and ``applies``. It may have ``locate(where)``,
    which adds to `Check.where` what the entries compared are, and, where the rows of its sides are
    horizons, ``horizons``, their values (n,), and ``horizon``, their letter (default 'T'). One of a
    user's problem may have ``for_form(form)``: the view that a form is judged on, or why there is
    none, in words.

    Attributes
    ----------
    exact : whether nothing in it is estimated; else scenarios lie along the last axis of every side
    rule : the key of `Form.established` that it belongs to
    facts : frozenset of str
        What holds of this instance, beside each `Fact` with a test of its own; a form names what it
        needs in `Form.needs`.
    shows : the attributes that are shown as constants with the verdict, or {name shown: attribute}
    """

    exact = True
    rule = "any"
    facts: frozenset[str] = frozenset()
    shows: ClassVar[Mapping[str, str] | tuple[str, ...]] = ()

    def applies(self, form: Form) -> str | None:
        """The first thing the form needs that this instance has not, or None."""
        for need in form.needs:
            if not self.has(need):
                if (why := getattr(need, "unmet", None)) is None:
                    return f"not an instance with {need}"
                return f"not {need} ({self._asked(need, why, 'reason')})"
        return None

    def has(self, fact: str) -> bool:
        """True if the fact holds here, by its own test or as one of ``facts``; tested once.

        Raises `InvalidInput` where the test fails, with what it stumbled over.
        """
        test = getattr(fact, "holds", None)
        if test is None:
            return fact in self.facts
        known: dict[Any, bool] = self.__dict__.setdefault("tested", {})
        if test not in known:
            known[test] = bool(self._asked(fact, test, "test"))
        return known[test]

    def _asked(self, fact: str, function: Callable[[Any], Any], name: str) -> Any:
        """What a function of a fact says of this instance."""
        try:
            return function(self)
        except FedTheoryError:
            raise
        except MISTAKES as error:
            what = f"{type(error).__name__}: {error}"
            raise InvalidInput(f"the {name} of the fact {str(fact)!r}: {what}") from error

    def printed_constants(self) -> dict[str, Any]:
        """Constants that are shown with the verdict."""
        shown = (
            self.shows if isinstance(self.shows, Mapping) else {name: name for name in self.shows}
        )
        return {name: told(getattr(self, of)) for name, of in shown.items()}


@dataclass
class EachOf(ClosedView):
    """Views of one kind, of a client or of a message each; a form is judged on all of them.

    Attributes
    ----------
    each, what : the views, and the word for what each of them is of
    constants : those that are shown with the verdict
    """

    each: list[Any]
    what: str = "client"
    constants: dict[str, Any] = field(default_factory=dict)

    def has(self, fact: str) -> bool:
        """True if the fact holds of all of them."""
        return all(view.has(fact) for view in self.each)

    def sides_of(self, sides: Callable[[Any], Sides]) -> Callable[[Any], Sides]:
        """Give the sides of all, one after the other."""

        def joined(_: Any) -> Sides:
            found = [sides(view) for view in self.each]
            lhs, rhs, scale = (
                np.stack([np.asarray(getattr(f, n), dtype=object) for f in found])
                for n in ("lhs", "rhs", "scale")
            )
            axes = {1: (self.what,), 2: (self.what, "entry")}.get(lhs.ndim, ())
            return Sides(lhs, rhs, scale, found[0].relation, axes=axes)

        return joined

    def printed_constants(self) -> dict[str, Any]:
        """The constants given."""
        return self.constants


@dataclass(frozen=True)
class DataInstance:
    """An instance given by the data of its kind's builder, so that it is a witness as it stands.

    Attributes
    ----------
    builders : what makes a view of the data, by kind
    kind, data : the kind, and what its builder takes: whole numbers, and fractions as strings
    label : what tells it from others of its kind
    seed : None where the label alone tells it
    rule : the variant of the method that it is drawn for
    of : its family, default the kind
    """

    builders: Mapping[str, Builder] = field(repr=False, hash=False, compare=False)
    kind: str
    label: str
    data: dict[str, Any] = field(hash=False)
    seed: int | None = 0
    rule: str = "any"
    of: str = ""

    @property
    def family(self) -> str:
        """The name of its family for reports."""
        return self.of or self.kind

    @property
    def name(self) -> str:
        seed = "" if self.seed is None else f" seed={self.seed}"
        return f"{self.kind}: {self.label}{seed}"

    def view(self) -> Any:
        """Make its view."""
        return self.builders[self.kind](self.data)

    def to_json(self) -> dict[str, Any]:
        """All its parameters."""
        rule = {} if self.rule == "any" else {"rule": self.rule}
        return {"kind": self.kind, "name": self.name, "seed": self.seed, "data": self.data, **rule}
