"""Tell the forms whose lhs/rhs says how tight they are from those where it says nothing.

F is known up to a constant only: F and F + c have the same minimisers, rounds and gaps. A form
whose sides move with c, as F(x+) <= F(x) - ..., has any ratio one likes; and of sides that may be
negative the ratio has no meaning. Such forms are shown without one: whether they are attained is
known all the same.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from fedtheory.errors import FedTheoryError
from fedtheory.theory.judge.check import Check, begins_as_one
from fedtheory.theory.judge.statement import Sides
from fedtheory.theory.rounds.forms import reduced

__all__ = ["NO_RATIO", "moves_with_offset", "same_at_start", "with_ratio"]

NO_RATIO = "no_ratio"  # key of `Check.where`, with the reason
OFFSET = "its sides move with a constant that is added to F"
NEGATIVE = "a side of it is negative on some instance"


class _Raised:
    """A world whose losses are all one higher."""

    def __init__(self, world: Any) -> None:
        self._world = world

    def __getattr__(self, name: str) -> Any:
        own = getattr(self._world, name)
        if name == "values":
            return lambda x: own(x) + 1
        return replace(own, F_low=own.F_low + 1, F_high=own.F_high + 1) if name == "best" else own


def moves_with_offset(statement: Any, view: Any) -> frozenset[str]:
    """The forms of which a side is another when all losses are one higher, on a view of the
    statement's."""
    raised = view.like(world=_Raised(view.world))
    try:
        with np.errstate(all="ignore"):
            plain, moved = statement.on(view), statement.on(raised)
            return frozenset(
                n for n in plain if _differ(reduced(view, plain[n]), reduced(raised, moved[n]))
            )
    except (FedTheoryError, ArithmeticError):
        # as the square root of a side that is one on this view only by chance
        return frozenset()


def _differ(a: Sides, b: Sides) -> bool:
    scale = np.asarray(a.scale, dtype=float) + 1.0
    pairs = ((a.lhs, b.lhs), (a.rhs, b.rhs))
    return any(
        (np.abs(np.asarray(v, dtype=float) - np.asarray(w, dtype=float)) > 1e-6 * scale).any()
        for v, w in pairs
    )


def with_ratio(check: Check, statement: Any, name: str, sides: Sides) -> Check:
    """The check without a tightness, and with the reason, where lhs/rhs says nothing."""
    if sides.relation != "<=" or check.verdict not in ("holds", "violated", "inconclusive"):
        return check
    reason = OFFSET if name in statement.moving else NEGATIVE if _negative(sides) else ""
    if not reason:
        return check
    return replace(check, tightness=float("nan"), where={**check.where, NO_RATIO: reason})


def same_at_start(sides: Sides, view: Any) -> bool:
    """True if the entries are the states t = 0..T of a run, and both sides are the same number at t
    = 0."""
    of_states = np.shape(sides.lhs)[:1] == (len(view.path.states),)
    return view.axis == "round" and of_states and begins_as_one(sides)


def _negative(sides: Sides) -> bool:
    """True if a side is negative beyond rounding."""
    floor = -1e-9 * np.asarray(sides.scale, dtype=float) - float(
        np.max(np.asarray(sides.noise, dtype=float), initial=0.0)
    )
    return any(bool((np.asarray(v, dtype=float) < floor).any()) for v in (sides.lhs, sides.rhs))
