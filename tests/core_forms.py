"""Forms as the core knows them, for tests of the core."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from fedtheory.theory.judge.checks import Checks
from fedtheory.theory.judge.statement import Form, Mutant, Sides
from fedtheory.theory.judge.symbolic import shown

__all__ = ["closed", "comparison", "form"]


def form(
    name: str,
    formula: str | Callable[[], str],
    sides: Callable[[Any], Sides] | None,
    established: Any,
    *mutants: tuple[str, Callable[[Any], Sides]],
    **more: Any,
) -> Form:
    """A `Form`; ``established`` may be one verdict for all rules, mutants are given as (name, sides)."""
    verdicts: Any = {"any": established} if isinstance(established, str) else established
    return Form(name, formula, sides, verdicts, mutants=tuple(Mutant(n, s) for n, s in mutants), **more)


def closed(
    name: str,
    letters: Any,
    sides: Callable[[Any], Sides],
    established: Any,
    *mutants: tuple[str, Callable[[Any], Sides]],
    before: str = "",
    after: str | Callable[[], str] = "",
    **more: Any,
) -> Form:
    """A `Form` whose formula is what ``sides`` makes of ``letters``.

    Parameters
    ----------
    letters : `Letters`, or a dict word -> `Letters` where the formula differs between the paper's rules
    sides : callable(view) -> `Sides` by `le` or `eq`, of arithmetic alone
    before : LaTeX before the formula: what it takes for granted
    after : LaTeX behind the formula, or a function that gives it: what a letter stands for, or the condition
    more : as for `fedtheory.theory.judge.statement.form`
    """
    formula = partial(shown, sides, letters, before, after)
    return form(name, formula, sides, established, *mutants, letters=letters, **more)


def comparison(checks, statement, again=None, worst=True, **how):
    """The data of a picture of these checks, as far as they were judged, with every worst case that is drawn."""
    return Checks(checks, statement, again).compared(worst=worst, rounds=None, **how)
