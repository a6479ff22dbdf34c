"""Builders of views, instances and short constructors for the main text and Appendix B.3."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from fedtheory.rational import Builders
from fedtheory.theorems.fedelasticnet import notation
from fedtheory.theory.judge.setting import DataInstance
from fedtheory.theory.judge.statement import Form, Sides, Statement, form

__all__ = ["BUILDERS", "CLAIM", "COUNTS", "IN_WORDS", "MainTextInstance", "by_a_tenth", "claim", "instance_of", "statement", "truth"]

BUILDERS = Builders()
CLAIM = "claim"  # the kind of what cannot be judged
COUNTS = "the mean has the weights n_k/n"  # what forms about unequal weights need
IN_WORDS = "in words"


class MainTextInstance(DataInstance):
    """An instance given by the data of its kind's builder."""

    @property
    def family(self) -> str:
        return f"main text, {self.kind}"


def instance_of(kind: str, label: str, data: dict[str, Any], seed: int = 0) -> MainTextInstance:
    """One instance of a kind of the main text's statements."""
    return MainTextInstance(BUILDERS, kind, label, data, seed)


def statement(
    id: str, title: str, source: str, kind: str, *forms: Form, assumptions: tuple[str, ...] = (), symbols: dict[str, str]
) -> Statement:
    """A statement whose forms are judged on one kind of view."""
    return notation.statement(id, title, source, *forms, scope=kind, assumptions=assumptions, symbols=symbols)


def claim(id: str, title: str, source: str, latex: str, note: str, shown_by: str) -> Statement:
    """A claim that nothing here can judge: the note says why, the command measures its subject."""
    only = form("printed", latex, None, "open", note=note, kind=CLAIM)
    made = notation.statement(id, title, source, only, kind="claim", scope=CLAIM, assumptions=(), symbols={})
    return replace(made, shown_by=shown_by)


def truth(condition: Any) -> Any:
    """1 where it is true and 0 where it is not, as fractions."""
    values = np.asarray(condition)
    out = np.empty(values.shape, dtype=object)
    for at, value in np.ndenumerate(values):
        out[at] = Fraction(int(bool(value)))
    return out if out.shape else out.item()


def by_a_tenth(sides: Sides) -> Sides:
    """The same with a tenth less on the right."""
    return notation.nine_tenths(sides)
