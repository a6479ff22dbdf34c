r"""A formula with the numbers of a run put in: from the code that judges it, where the formula is
made by that code.

A form by `fedtheory.theory.judge.symbolic` has letters, and a view has a number for each. Where the
numbers, put into the terms, give the terms that were judged, the formula is shown with them; over
several states the letters are means, which products of them do not always allow. Other forms show
the terms that were added up.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from math import floor, isfinite, log10
from typing import Any

import numpy as np

from fedtheory.theory.judge.statement import Form, Sides
from fedtheory.theory.judge.symbolic import expressions, sum_of, symbol, written

__all__ = ["Part", "Put", "figures", "right_side"]


def figures(value: Any) -> str:
    """A number as LaTeX: a short fraction as it is, else three digits."""
    if isinstance(value, Fraction) and len(str(value)) <= 5:
        if value.denominator == 1:
            return str(value.numerator)
        sign = "-" if value < 0 else ""
        return rf"{sign}\tfrac{{{abs(value.numerator)}}}{{{value.denominator}}}"
    number = float(value)
    if not isfinite(number):
        return r"\infty" if number > 0 else r"-\infty" if number < 0 else r"\text{nan}"
    if number == 0:
        return "0"
    power = floor(log10(abs(number)))
    if -4 <= power <= 4:
        text = f"{number:.3g}"
        return text if "e" not in text else f"{number:.0f}"
    return rf"{number / 10.0**power:.3g}\cdot10^{{{power}}}"


@dataclass(frozen=True)
class Part:
    """A term of a right side, or a constant in it: its LaTeX, '' where the code has none, and its
    value."""

    latex: str
    value: Fraction


def right_side(
    form: Form, view: Any, lhs: Fraction, rhs: Fraction
) -> tuple[list[Part], list[Part]]:
    """The terms that add up to ``rhs`` where the sides of a form are ``lhs`` and ``rhs``, and the
    constants in them.

    Both are empty where the right side is no sum, or where no entry of the sides has these values.
    """
    sides = form.sides_on(view)
    if sides.relation != "<=" or len(sides.terms) < 3:
        return [], []
    shape = np.shape(sides.lhs)
    left, *terms = (
        np.broadcast_to(np.asarray(t, dtype=object), shape).ravel() for t in sides.terms
    )
    at = [
        i for i, values in enumerate(zip(left, *terms, strict=True))
        if values[0] == lhs and sum(values[1:]) == rhs
    ]
    if not at:
        return [], []
    values, letters = [Fraction(t[at[-1]]) for t in terms], _letters(form, view)
    if letters is None or form.sides is None:
        return [Part("", v) for v in values if v], []
    _, _, formulas = expressions(form.sides, letters)
    if len(formulas) != len(values):
        return [Part("", v) for v in values if v], []
    inside = set().union(*(f.free_symbols for f in formulas))
    constants = []
    for each, value in letters.values(view).items():
        array = np.asarray(value, dtype=object)
        one = (
            array.ravel()[at[-1] if array.size == left.size else 0] if array.size in (1, left.size)
            else None
        )
        if each in inside and isinstance(one, int | Fraction):
            constants.append(Part(written(each), Fraction(one)))
    return [Part(written(f), v) for f, v in zip(formulas, values, strict=True)], constants


def _letters(form: Form, view: Any) -> Any:
    """The letters of a form's formula, of several those of the view's rule, or None."""
    if not isinstance(form.letters, dict):
        return form.letters if form.letters and form.latex else None
    rule = getattr(view, "rule", "")
    return next((one for one in form.letters.values() if getattr(one, "rule", None) == rule), None)


@dataclass(frozen=True)
class Put:
    """The numbers of a view that its formula is filled with: numbers only, so that the view can go.

    Attributes
    ----------
    terms : the means of the left side and of each term of the right one
    letters, values : what the formula is made of; None where it is not made by what runs
    """

    relation: str
    terms: tuple[Any, ...]
    sides: Any = None
    letters: Any = None
    values: Any = None

    @classmethod
    def of(
        cls, step: Any, sides: Sides, view: Any, form: Form | None, mean: Callable[[Any], Any]
    ) -> Put:
        """Of a step in one round; ``mean`` takes the expectation over its states."""
        shape, size = np.shape(sides.lhs), np.size(sides.lhs)

        def number(values: Any) -> Any:
            array = np.asarray(values)
            if array.size == 1:
                return array.ravel()[0]
            return mean(array) if array.size == size else None  # else a vector in every state

        terms = tuple(
            number(np.broadcast_to(t, shape) if np.ndim(t) <= len(shape) else t)
            for t in sides.terms
        )
        letters = None if form is None or step.sides is not None else _letters(form, view)
        if form is None or letters is None:
            return cls(sides.relation, terms)
        values = {each: number(value) for each, value in letters.values(view).items()}
        return cls(sides.relation, terms, form.sides, letters, values)

    def latex(self) -> str:
        """The formula with the numbers put in, or the terms as numbers; '' of vectors."""
        if not self.terms or any(t is None for t in self.terms):
            return ""
        sign = r"\le " if self.relation == "<=" else "="
        if (made := _substituted(self)) is not None:
            return made[0] + sign + made[1]
        return figures(self.terms[0]) + sign + sum_of(
            tuple(t for t in self.terms[1:] if t != 0), figures
        )


def _substituted(put: Put) -> tuple[str, str] | None:
    """Both sides with numbers for letters, where these give what was judged."""
    if put.letters is None:
        return None
    lhs, _, terms = expressions(put.sides, put.letters)
    actual = [t for t in put.terms[1:] if t != 0]
    numbers = {s: v for s, v in put.values.items() if v is not None}
    exact = [float(_number(e, numbers)) for e in (lhs, *terms)]
    if len(exact) != 1 + len(put.terms[1:]) and len(exact) != 1 + len(actual):
        return None
    given = [float(put.terms[0]), *(float(t) for t in put.terms[1:])]
    given = given if len(given) == len(exact) else [given[0], *(float(t) for t in actual)]
    scale = max(map(abs, given), default=0.0)
    if not all(abs(a - b) <= 1e-6 * scale for a, b in zip(exact, given, strict=True)):
        return None
    written_out = {s: _enclosed(figures(v)) for s, v in numbers.items()}
    # a symbol is known by its name
    shown = {s: symbol(f"{s.name} = {text}", text) for s, text in written_out.items()}
    texts = [written(e.xreplace(shown), times=True) for e in (lhs, *terms)]
    return texts[0], sum_of(tuple(texts[1:]), str)


def _number(expression: Any, values: Any) -> float:
    import sympy as sp

    def exact(value: Any) -> Any:
        if isinstance(value, Fraction):
            return sp.Rational(value.numerator, value.denominator)
        return sp.Float(float(value), 17)

    found = expression.xreplace({s: exact(v) for s, v in values.items()})
    return float(found) if not found.free_symbols else float("nan")


def _enclosed(text: str) -> str:
    return rf"({text})" if text.startswith("-") or "cdot" in text or "frac" in text else text
