"""Give the formula of a form about rounds or runs: its function, run on SymPy symbols."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache, partial
from typing import Any

from fedtheory.errors import FedTheoryError
from fedtheory.participation.cohorts import Full
from fedtheory.theory.judge.symbolic import SYMPY, expressions, greek, sum_of, symbol, written
from fedtheory.theory.rounds.declare import hyperparameters
from fedtheory.theory.rounds.forms import outlined
from fedtheory.theory.rounds.quantities import ROUND, RUN
from fedtheory.theory.rounds.undefined import Absent, Undefined, absent_among

__all__ = ["Notation", "formula"]

FACTS = {"G_sq": "G^2", "beta_F": r"\beta_F", "mu_F": r"\mu_F", "eta": r"\eta", "beta": r"\beta"}
# where the method has a hyperparameter of that name
TAKEN = {"mu": r"\mu_{\min}", "beta": r"\beta_{\max}", "eta": r"\eta_{\ell}"}
FACTS |= {"mu": r"\mu"} | {name: name for name in ("N", "P", "d", "E", "T")}
WRITTEN = {  # what functions make of their arguments
    "sq": r"\|{}\|^2", "dot": r"\langle {},{}\rangle", "value": "F({})", "gap_at": "F({})-F^*",
    "mean": r"\mathbb{{E}}[{}]",
}  # fmt: skip
INSIDE = re.compile(r"\\\|.*?\\\||\([^()]*\)|_\{[^{}]*\}")  # of norms, brackets and indices


@cache
def _measured(name: str, latex: str, drawn: bool = False) -> Any:
    """Make a symbol that stands behind constants; ``drawn``: it depends on who takes part."""
    sums = re.search(r"-|\\sum|\\frac|\\min", INSIDE.sub("", latex))
    made = symbol("~" + name, rf"\bigl({latex}\bigr)" if sums else latex)
    made.bare, made.drawn = latex, drawn
    return made


def _over_run(name: str, template: str, first: int) -> Any:
    """Make the symbol of a quantity of a run, which may be indexed by its states."""

    def at(index: Any) -> Any:
        drawn = index != 0 and template != "<t>" and "<" in template
        return _measured(f"{name}[{index}]", _at(template, index, first), drawn)

    made = at(slice(None))
    made.states = at
    return made


def _at(template: str, index: Any, first: int) -> str:
    """Fill a template of a run for the states that an index takes; ``first``: the round of [0]."""
    index = index[0] if isinstance(index, tuple) else index
    if isinstance(index, int):
        t = str(index + first) if index >= 0 else "T" if index == -1 else f"T{index + 1}"
    elif index == slice(None, -1):
        t = "t-1"
    elif index in (slice(None), slice(1, None)):
        t = "t"
    else:
        raise TypeError(f"no letter for the states {index}")
    before = str(int(t) - 1) if t.isdigit() else f"{t}-1".replace("-1-1", "-2")
    out = template.replace("<x>", "x_<t>").replace("<before>", f"x_{_braced(before)}")
    return re.sub(r"_<t>|<t>", lambda found: "_" * (found[0][0] == "_") + _braced(t, found[0]), out)


def _braced(text: str, where: str = "_") -> str:
    return text if len(text) == 1 or where[0] != "_" else f"{{{text}}}"


class _Named:
    """Hyperparameters of a method, or the fields of a state: each is a letter of its name."""

    def __init__(self, after: str = "", drawn: bool = False) -> None:
        self._of = after, drawn

    def __getattr__(self, name: str) -> Any:
        after, drawn = self._of
        return _measured(name + after, written(symbol(name, greek(name))) + after, drawn)

    __getitem__ = __getattr__


class Notation:
    """Stands for the quantities ``q`` of a round or a run: every attribute is a SymPy symbol."""

    rational, exact, sampled, fixed = True, True, False, False

    def __init__(self, over: str, rule: str = "any", taken: Iterable[str] = ()) -> None:
        self._over, self.rule = "run" if over == "run" else "round", rule
        self._facts = FACTS | {name: TAKEN[name] for name in taken if name in TAKEN}
        self._x = r"x^\infty" if over == "fixed-point" else "x"
        self.method, self.state, self.state_next = _Named(), _Named(), _Named("^+", drawn=True)

    def __getattr__(self, name: str) -> Any:
        if name in RUN and self._over == "run":
            return _over_run(name, RUN[name].latex, int(RUN[name].shape.startswith("(T,")))
        if name in ROUND and self._over == "round":
            after = name.endswith("_next") or name in ("moved_sq", "client_models", "drift")
            return _measured(name, ROUND[name].latex.replace("<x>", self._x), after)
        if name in self._facts:
            return symbol(name, self._facts[name])
        if name in WRITTEN:
            return partial(self._of, WRITTEN[name], drawn=False if name == "mean" else None)
        if name.startswith("__"):
            raise AttributeError(name)
        return Absent(Undefined(f"no letter for q.{name}"))

    def constant(self, name: str, value: Any, free: bool = False) -> Any:
        """Give a declared constant as the number that it is."""
        import sympy as sp

        return sp.Rational(str(value))

    def sqrt(self, value: Any) -> Any:
        """Write a square root."""
        import sympy as sp

        return sp.sqrt(value)

    def power(self, base: Any, exponent: Any) -> Any:
        """Write a power."""
        return base**exponent

    def _of(self, template: str, *inside: Any, drawn: bool | None = None) -> Any:
        if (gone := absent_among(*inside)) is not None:
            return gone
        texts = [_bare(v) for v in inside]
        among = any(_drawn(v) for v in inside) if drawn is None else drawn
        latex = template.format(*texts)
        return _measured(latex, latex, among)


def _bare(expression: Any) -> str:
    """Write a term by itself, without the brackets that it needs in products."""
    return getattr(expression, "bare", None) or written(expression)


def _drawn(expression: Any) -> bool:
    return any(getattr(s, "drawn", False) for s in expression.free_symbols)


@cache
def formula(statement: Any, name: str) -> str:
    """Give the LaTeX of a form that has none, or '' where its code says no closed formula.

    A form that is claimed in expectation has it around what depends on the cohorts.
    """
    try:
        variants = statement.variants.values()
        variant = next(v for v in variants if name in v.forms)
        letters = Notation(statement.over, variant.rule, hyperparameters(statement.about))
        claimed = outlined(statement.function, letters, statement.id, whole=False)[name]
        made = claimed.sides() if callable(claimed.sides) else claimed.sides
        lhs, relation, terms = expressions(lambda _: made, None)
        expected = relation == "<=" and not claimed.pathwise

        def told(term: Any) -> str:
            text = _bare(term)
            law = expected and not isinstance(statement.sampling, Full) and _drawn(term)
            return rf"\mathbb{{E}}\bigl[{text}\bigr]" if law else text

        return told(lhs) + {"<=": r"\le ", "==": "="}[relation] + sum_of(terms, told)
    except (FedTheoryError, *SYMPY):
        return ""
