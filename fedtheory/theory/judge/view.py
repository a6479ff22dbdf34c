"""Instances and their views: what one round, one run or one fixed point makes measurable."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from fedtheory.rational import Builder
from fedtheory.theory.judge.statement import Form

__all__ = ["ClosedView", "DataInstance", "Instance", "View"]


class View(Protocol):
    """The measurable quantities of one instance.

    Attributes
    ----------
    exact : whether nothing in it is estimated; else scenarios lie along the last axis of every side
    rule : the key of `Form.established` it belongs to

    A view may also have ``printed_constants()``, constants that are shown with the verdict, and ``locate(where)``, which
    adds to `Check.where` what the entries compared are. Where the rows of its sides are horizons it has ``horizons``, their values
    (n,), and ``horizon``, their letter (default 'T').
    """

    exact: bool
    rule: str

    def applies(self, form: Form) -> str | None:
        """Why the form is not claimed for this view, or None."""


class Instance(Protocol):
    """One instance of a campaign."""

    name: str
    family: str
    kind: str

    def view(self) -> View:
        """Run it."""

    def to_json(self) -> dict[str, Any]:
        """All its parameters."""


class ClosedView:
    """A view whose numbers are exact (fractions) or deterministic (floats): everything is known in closed form.

    Attributes
    ----------
    facts : frozenset of str
        What holds of this instance; a form names what it needs in `Form.needs`.
    """

    exact = True
    rule = "any"
    facts: frozenset[str] = frozenset()

    def applies(self, form: Form) -> str | None:
        """The first thing the form needs that this instance has not, or None."""
        for need in form.needs:
            if need not in self.facts:
                return f"not an instance with {need}"
        return None

    def printed_constants(self) -> dict[str, Any]:
        """Constants that are shown with the verdict."""
        return {}


@dataclass(frozen=True)
class DataInstance:
    """An instance given by the data of its kind's builder, so that it is a witness as it stands.

    Attributes
    ----------
    builders : of the paper's setting
    kind, data : the kind, and what its builder takes: whole numbers, and fractions as strings
    label : what tells it from others of its kind
    """

    builders: Mapping[str, Builder] = field(repr=False, hash=False, compare=False)
    kind: str
    label: str
    data: dict[str, Any] = field(hash=False)
    seed: int = 0

    @property
    def family(self) -> str:
        return self.kind

    @property
    def name(self) -> str:
        return f"{self.kind}: {self.label} seed={self.seed}"

    def view(self) -> Any:
        """The exact view."""
        return self.builders[self.kind](self.data)

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.kind, "name": self.name, "seed": self.seed, "data": self.data}
