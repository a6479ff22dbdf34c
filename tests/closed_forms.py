"""A closed form's expression with the letters' numbers put in, against what its code gives."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from fedtheory.theory.judge.symbolic import expressions


def agrees(form, view, word: str = "") -> None:
    """Fail unless the expression that the formula is made from has the values of both sides on the view.

    Fractions must be equal; floats to nine digits. ``word``: which of the form's letters, where it has several.
    """
    import sympy as sp

    letters = form.letters[word] if isinstance(form.letters, dict) else form.letters
    lhs, relation, terms = expressions(form.sides, letters)
    numbers, run = letters.values(view), form.sides(view)
    assert relation == run.relation
    if relation == "==":
        lhs, terms = lhs - sum(terms), ()
    assert set().union(*(e.free_symbols for e in (lhs, *terms))) <= set(numbers)
    for expression, side in ((lhs, run.lhs), (sum(terms), run.rhs)):
        if all(isinstance(v, Fraction | int) for v in numbers.values()):
            exact = sp.sympify(expression).subs({s: sp.Rational(str(v)) for s, v in numbers.items()})
            assert Fraction(str(abs(exact) if relation == "==" else exact)) == np.asarray(side).item()
        else:
            floats = [np.asarray(v, dtype=float) for v in numbers.values()]
            value = sp.lambdify(list(numbers), expression)(*floats)
            value = abs(value) if relation == "==" else value
            np.testing.assert_allclose(np.broadcast_to(value, np.shape(side)), np.asarray(side, dtype=float), rtol=1e-9)
