r"""Make the LaTeX of a form whose sides are closed expressions from its code.

The function of a form's two sides is written with plain arithmetic, so that it runs on floats and
on fractions. It runs on SymPy's symbols as well: `Letters` is a view of which every attribute is
one. What comes out is the one expression that the code stands for, and its LaTeX is the formula
that a reader is shown.

    letters = {"epsilon": r"\epsilon_t", "C": "C_{t-1}", "lambda2": r"\lambda_2"}
    ROUND = Letters(letters, measured=("epsilon", "C"))
    shown(lambda v: le(v.epsilon, 3 * v.C / v.lambda2**2), ROUND, "", "")

gives \epsilon_{t} \le \frac{3 C_{t-1}}{\lambda_2^{2}}. Change the 3, and the formula changes with
it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from inspect import getattr_static
from typing import Any

import numpy as np

from fedtheory.theory.judge.statement import Sides

__all__ = [
    "SYMPY", "Letters", "contradicted", "expressions", "greek", "maximum", "minimum", "shown",
    "sum_of", "symbol", "written",
]  # fmt: skip


def greek(name: str) -> str:
    """The LaTeX of a name, a letter of it or as it is."""
    import sympy as sp

    return re.sub(r"_\{(\w)\}", r"_\1", sp.latex(sp.Symbol(name)))


# what SymPy, or code that is no closed expression, raises
SYMPY = (TypeError, AttributeError, ValueError, LookupError, NotImplementedError)


@cache
def symbol(name: str, latex: str) -> Any:
    """A real SymPy symbol that is written as ``latex``."""
    import sympy as sp

    return _written_as(sp)(name, latex)


def minimum(a: Any, b: Any) -> Any:
    """The smaller one, entry by entry as NumPy has it, or of expressions."""
    return _extreme("Min", np.minimum, a, b)


def maximum(a: Any, b: Any) -> Any:
    """The larger one, entry by entry as NumPy has it, or of expressions."""
    return _extreme("Max", np.maximum, a, b)


def _extreme(name: str, of_numbers: Any, a: Any, b: Any) -> Any:
    if not any(type(x).__module__.startswith("sympy") or hasattr(x, "_latex") for x in (a, b)):
        return of_numbers(a, b)
    import sympy as sp

    return getattr(sp, name)(a, b, evaluate=False)


@cache
def _written_as(sp: Any) -> Any:
    class Written(sp.Symbol):
        """A symbol with LaTeX of its own."""

        __slots__ = ("bare", "drawn", "latex", "states")
        _iterable = False  # for SymPy, which asks iter(...) otherwise

        def __new__(cls, name: str, latex: str) -> Any:
            # none that SymPy keeps for the name, which may be written otherwise
            made = cls.__xnew__(cls, name, real=True)
            made.latex = latex
            return made

        def _hashable_content(self) -> tuple[Any, ...]:
            return (*super()._hashable_content(), self.latex)

        def _latex(self, printer: Any) -> str:
            return self.latex

        def __getitem__(self, index: Any) -> Any:
            """Of a quantity of a run: the symbol for some of its states."""
            return self.states(index)

    return Written


class Letters:
    """A view whose attributes are symbols; what has no letter follows as the class of the views
    says.

    Parameters
    ----------
    latex : dict attribute of the view -> its letter
        That is LaTeX, '' for that of its name. With <t>, where the time of a state stands, and <i>,
        that of a step within its round, the attribute may be indexed; with {}, where the arguments
        stand, it is a method. Or callable(letters) -> what the attribute is of others, or the
        `Letters` of what it is.
    measured : attributes that stand behind the constants in a product
    zero : attributes that are 0 in a formula, such as what float64 does not resolve
    of : the class of the views, default the one in whose body it is said

    A subclass may have attributes and methods of its own where the views have methods, and
    ``rule``: one of the paper's rules.
    """

    def __init__(
        self, latex: Mapping[str, Any], measured: tuple[str, ...] = (), zero: tuple[str, ...] = (),
        of: Any = None,
    ) -> None:  # fmt: skip
        self._latex, self._measured, self._zero, self._of = dict(latex), measured, zero, of
        self._asked: dict[Any, tuple[str, Any]] = {}  # symbols of states, and of what methods give

    def __set_name__(self, owner: Any, name: str) -> None:
        self._of = self._of or owner

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if name in self._zero:
            return 0
        if name not in self._latex:
            own = getattr_static(self._of, name, self)
            if own is self:
                known = ", ".join(sorted(self._latex))
                raise AttributeError(f"no letter for {name!r}: a formula has those of {known}")
            return own.__get__(self, self._of) if hasattr(own, "__get__") else own
        letter = self._latex[name] or greek(name)
        if isinstance(letter, Letters):
            return letter
        if callable(letter):
            return letter(self)
        if "{}" in letter:
            return lambda *inside: self._made(
                name, letter.format(*map(written, inside)), "".join(map(str, inside)), inside
            )
        made = self._made(name, _state(letter, slice(None)))
        if "<" in letter:
            made.states = lambda at: self._made(name, _state(letter, at), str(at), at)
        return made

    def _made(self, name: str, latex: str, more: str = "", asked: Any = None) -> Any:
        last = "~" * (1 + (r"\sum" in latex)) if name in self._measured else ""
        made = symbol(last + name + more, latex)
        if more:
            self._asked[made] = name, asked
        return made

    def once(self, of: Callable[[Any], Any]) -> Any:
        """Stand for what a function would make of a view."""
        return self

    @property
    def names(self) -> tuple[str, ...]:
        """The attributes that are letters."""
        return tuple(self._latex)

    def values(self, view: Any) -> dict[Any, Any]:
        """Give each letter's value on a view: symbol -> number or array."""
        found: dict[Any, Any] = {}
        for name, latex in self._latex.items():
            if (value := getattr(view, name, None)) is None or callable(latex):
                continue
            if isinstance(latex, Letters):
                found |= latex.values(value)
            elif "{}" not in latex:
                found[getattr(self, name)] = value
        for made, (name, asked) in tuple(self._asked.items()):
            of = getattr(view, name, None)
            if of is not None and "{}" in self._latex[name]:
                found[made] = of(*(_value(inside, found) for inside in asked))
            elif of is not None:
                found[made] = of[asked]
        return found


def _value(expression: Any, numbers: dict[Any, Any]) -> Any:
    """An expression with numbers or arrays for its symbols."""
    import sympy as sp

    expression = sp.sympify(expression)
    known = [s for s in numbers if s in expression.free_symbols]
    return sp.lambdify(known, expression, [])(*(numbers[s] for s in known))


def contradicted(
    sides: Callable[[Any], Sides], letters: Letters, make: Callable[[], Any]
) -> bool:
    """True if the expressions have other values on a view than what runs: code that branches.

    A comparison by == takes letters for what is never equal. Where the expressions have no value
    on the view that is made, nothing is said.
    """
    try:
        lhs, _, terms = expressions(sides, letters)
        view = make()
        left, *right = sides(view).terms
        numbers = letters.values(view)
        for found, expression in ((left, lhs), (sum(right), sum(terms))):
            value = np.asarray(_value(expression, numbers), dtype=float)
            if not np.allclose(np.asarray(found, dtype=float), value, rtol=1e-6, atol=1e-12):
                return True
        return False
    except Exception:  # whatever an author's code raises on a view
        return False


def _state(template: str, index: Any) -> str:
    """Fill a template for the states, and steps within a round, that an index takes."""
    t, i = (*index, slice(None))[:2] if isinstance(index, tuple) else (index, slice(None))
    before, after = slice(None, -1), slice(1, None)
    told = {"<t>": "t-1" if t == before else "t" if isinstance(t, slice) else str(t)}
    told["<i>"] = "i+1" if i == after else "i" if isinstance(i, slice) else str(i)
    for place, text in told.items():
        template = template.replace("_" + place, "_" + (text if len(text) == 1 else f"{{{text}}}"))
        template = template.replace(place, text)
    return template


def expressions(sides: Callable[[Any], Sides], letters: Any) -> tuple[Any, str, tuple[Any, ...]]:
    """(lhs, relation, terms of the right side) as SymPy expressions."""
    import sympy as sp

    made = sides(letters)
    lhs, *terms = (sp.sympify(t.item() if hasattr(t, "item") else t) for t in made.terms)
    return lhs, made.relation, tuple(t for t in terms if t != 0)


@cache
def _formula(sides: Callable[[Any], Sides], letters: Any) -> str:
    lhs, relation, terms = expressions(sides, letters)
    return written(lhs) + {"<=": r"\le ", "==": "="}[relation] + sum_of(terms)


def sum_of(terms: tuple[Any, ...], told: Callable[[Any], str] | None = None) -> str:
    """The LaTeX of a sum; ``told`` writes a term, default `written`."""
    out = ""
    for term in terms:
        text = (told or written)(term)
        out += text if not out or text.startswith("-") else "+" + text
    return out or "0"


def written(expression: Any, times: bool = False) -> str:
    """The LaTeX of an expression; with ``times`` a dot stands in its products, as between
    numbers."""
    return _printer(times).doprint(expression)


@cache
def _printer(times: bool) -> Any:
    from sympy.printing.latex import LatexPrinter

    class Printer(LatexPrinter):
        """SymPy's LaTeX, with what is taken off behind what it is taken off from, and sums before
        the letters they multiply."""

        def _as_ordered_terms(self, expr: Any, order: Any = None) -> list[Any]:
            return sorted(expr.as_ordered_terms(), key=lambda term: term.could_extract_minus_sign())

    return Printer({"order": "none", "mul_symbol": "dot"} if times else {"order": "none"})


def shown(
    sides: Callable[[Any], Sides], letters: Any, before: str, after: str | Callable[[], str]
) -> str:
    """The LaTeX of what the sides make of the letters, between two pieces of LaTeX."""
    by_word = letters if isinstance(letters, dict) else {"": letters}
    texts = {word: _formula(sides, each) for word, each in by_word.items()}
    text = next(iter(texts.values()))
    if len(set(texts.values())) > 1:
        text = r";\quad ".join(rf"\text{{{word}: }}" + one for word, one in texts.items())
    return before + text + (after() if callable(after) else after)
