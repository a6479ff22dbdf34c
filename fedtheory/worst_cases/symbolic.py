"""Closed forms that are proved for all numbers at once: a method's round in symbols, and the signs of what is left.

A `Symbolic` is a rational function of symbols in lowest terms, so that two that are the same compare
as equal. `SymbolicClients` are one round's clients with such numbers: the class that trains the
network is run on vectors with a step, a curvature, N and P that are symbols. What the multipliers of
a proof leave is then compared with sums of squares (`==`), or found `semidefinite` on a range of one
symbol.

    (step, N), run = symbols("step N"), Run()
    clients = SymbolicClients(run, in_fractions(GradientSteps(2, 1.0), {"lr": step}), N)
    clients.after(FedAvg(), x=run.start), run.points  # the model, and where losses were asked
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np

from fedtheory.algorithms.base import Algorithm
from fedtheory.errors import InvalidInput, MissingCapability
from fedtheory.local.objective import LocalSolver
from fedtheory.worst_cases.entries import NotLinear, Trace, exact
from fedtheory.worst_cases.gram import Quadratic, Vector, entry
from fedtheory.worst_cases.runs import Run
from fedtheory.worst_cases.traced import VectorClients

__all__ = ["Symbolic", "SymbolicClients", "Table", "at_least_0", "is_form", "semidefinite", "symbols"]

ARRAYS = (3, 2), (5, 3)  # N and P of the arrays, with which a round is run: no coefficient may have their numbers


class Symbolic:
    """A rational function of symbols, each of which stands for any number above 0.

    Sums, products and quotients are in lowest terms, and a `Fraction` where no symbol is left. As a
    function it is equal to no number: a round that treats one number apart is looked at elsewhere. Of
    comparisons those are answered that hold for all numbers above 0 because all coefficients have
    one sign.

    Raises
    ------
    MissingCapability
        A comparison that depends on the numbers.
    """

    __slots__ = ("of",)
    __array_ufunc__ = None  # an array times it is made entry by entry, by `__rmul__`

    def __init__(self, of: Any) -> None:
        self.of = of  # of a field of fractions of SymPy

    def _with(self, other: Any, make: Callable[[Any, Any], Any]) -> Any:
        if isinstance(other, np.ndarray):
            out = np.empty(other.shape, dtype=object)
            for at, x in np.ndenumerate(other):
                out[at] = make(self, x)
            return out
        if isinstance(other, Symbolic):
            return _lowest(make(self.of, other.of))
        return _lowest(make(self.of, _rational(other))) if isinstance(other, Fraction | int | np.integer) else NotImplemented

    def __add__(self, other: Any) -> Any:
        return self._with(other, lambda a, b: a + b)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        return self._with(other, lambda a, b: a - b)

    def __rsub__(self, other: Any) -> Any:
        return self._with(other, lambda a, b: b - a)

    def __mul__(self, other: Any) -> Any:
        return self._with(other, lambda a, b: a * b)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Any:
        return self._with(other, lambda a, b: a / b)

    def __rtruediv__(self, other: Any) -> Any:
        return self._with(other, lambda a, b: b / a)

    def __pow__(self, power: int) -> Any:
        return _lowest(self.of**power)

    def __neg__(self) -> Symbolic:
        return Symbolic(-self.of)

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, Symbolic) and bool(self.of == other.of)

    def __hash__(self) -> int:
        return hash(self.of)

    @property
    def sign(self) -> int:
        """1 or -1 where it is one for all numbers above 0, by its coefficients; else an error."""
        signs = [{c > 0 for c in part.coeffs()} for part in (self.of.numer, self.of.denom)]
        if any(len(found) > 1 for found in signs):
            raise MissingCapability(f"asks for the sign of {self}, which depends on the numbers")
        return 1 if signs[0] == signs[1] else -1

    def __gt__(self, other: Any) -> bool:
        less = self - (other if isinstance(other, Symbolic) else exact(other))
        return (less.sign if isinstance(less, Symbolic) else less) > 0

    def __lt__(self, other: Any) -> bool:
        return -self > -other

    def __ge__(self, other: Any) -> bool:
        return self == other or self > other

    def __le__(self, other: Any) -> bool:
        return self == other or self < other

    def __abs__(self) -> Any:
        return self.sign * self

    def at(self, **numbers: Any) -> Any:
        """Its value where every symbol is a number, by name."""
        at = [_rational(Fraction(numbers[str(name)])) for name in self.of.field.symbols]
        return _fraction(self.of.numer(*at)) / _fraction(self.of.denom(*at))

    @property
    def free_symbols(self) -> set[Any]:
        """The symbols that it has, as SymPy's."""
        return set(self._sympy_().free_symbols)

    def _sympy_(self) -> Any:
        return self.of.as_expr()

    def __repr__(self) -> str:
        return str(self.of.as_expr())


def symbols(names: str) -> tuple[Symbolic, ...]:
    """Symbols that stand for numbers above 0, and go together: ``lam, N = symbols("lambda N")``."""
    import sympy as sp
    from sympy.polys.fields import field

    _, *found = field(sp.symbols(names.split(), positive=True), sp.QQ)
    return tuple(map(Symbolic, found))


def _rational(number: Any) -> Any:
    from sympy import QQ

    return QQ(int(number.numerator), int(number.denominator))


def _fraction(x: Any) -> Fraction:
    return Fraction(int(x.numerator), int(x.denominator))


def _lowest(of: Any) -> Any:
    """The number, where it is one."""
    if of.numer.is_ground and of.denom.is_ground:
        return _fraction(of.numer.coeff(1)) / _fraction(of.denom.coeff(1))
    return Symbolic(of)


# --- a method's round -----------------------------------------------------------------------------
class SymbolicClients(VectorClients):
    """One round's clients, whose numbers may be symbols.

    Parameters
    ----------
    run : the points at which losses are asked, with the share and the spread of the cohort
    solver : the local solver
    clients, participants : N and P (default: everybody)
    round_index : t
    label : in the names of what the round asks for, 'g0' and so on
    arrays : N and P of the arrays

    Raises
    ------
    InvalidInput
        A run whose share is not P/N.
    """

    def __init__(
        self, run: Run, solver: LocalSolver, clients: Any, participants: Any = None,
        round_index: Any = 1, label: Any = 0, arrays: tuple[int, int] = ARRAYS[0],
    ) -> None:  # fmt: skip
        N, P = arrays[0], arrays[0 if participants is None else 1]
        counts = clients, clients if participants is None else participants
        super().__init__(Trace(run, N, P), solver, N, P, 1, {}, [], label, counts=counts)
        self._round, self._asked_for = round_index, (clients, participants, round_index, label)
        share = exact(counts[1]) / exact(clients)
        if run.share != share:
            told = f"{counts[1]} of {clients} clients are {share}"
            raise InvalidInput(f"the run's share is {run.share}, and {told}: make it Run({share}, ...)")

    def after(self, method: Algorithm, **state: Vector) -> Any:
        """The method's state after a round from one of vectors, field by field.

        Of what the clients keep of a cohort's round only means over all of them can be asked.

        Raises
        ------
        NotLinear
            What the round asks for that is not linear in vectors; sums over clients that are not taken
            by `Clients.sum` or `Clients.mean`, which have the number of rows of an array.
        """
        other = copy.copy(self.run)
        vars(other).update({name: copy.copy(x) for name, x in vars(other).items() if isinstance(x, dict | set)})
        found = self._after(method, state)
        again = SymbolicClients(other, self.solver, *self._asked_for, arrays=ARRAYS[1])._after(method, state)
        if self.run != other or any(getattr(found, n) != getattr(again, n) for n in state):
            raise NotLinear("counts the rows of an array: take sums and means over clients by clients.sum and clients.mean")
        return found

    def _after(self, method: Algorithm, state: Mapping[str, Vector]) -> Any:
        trace, N = self.trace, len(self.everybody)
        begun = method.begin(trace.of_server(self.run.start), N, lambda: self)
        made = {n: trace.of_clients(v) if np.ndim(getattr(begun, n)) == 3 else trace.of_server(v) for n, v in state.items()}
        found = method.round(begun._replace(**made), self)
        if trace.refused is not None:
            raise trace.refused
        return found._replace(**{n: trace.vector(getattr(found, n)) for n in state})


# --- what is left of a proof ----------------------------------------------------------------------
def is_form(q: Quadratic) -> bool:
    """True if values of losses and the number have cancelled."""
    return not q.values and q.constant == 0


def at_least_0(expressions: Sequence[Any], symbol: Any, low: Any, high: Any) -> bool:
    """True if rational functions of one symbol are at least 0 between two numbers, or from one on (``high`` None).

    Between two neighbours of their zeros and poles the sign is that of the point in the middle.
    """
    import sympy as sp

    of = sp.sympify(symbol)
    for expression in expressions:
        told = sp.cancel(sp.together(sp.sympify(expression)))
        roots = {root for part in sp.fraction(told) for root in sp.Poly(part, of).real_roots()}
        inside = sorted((root for root in roots if root > low and (high is None or root < high)), key=float)
        marks = [low, *inside, high if high is not None else (inside[-1] if inside else low) + 2]
        if any(sp.N(told.subs(of, (a + b) / 2), 40) < 0 for a, b in pairwise(marks)):
            return False
    return True


def semidefinite(form: Quadratic, block: str, order: Sequence[str], symbol: Any, low: Any, high: Any) -> bool:
    """True for a block of a form with these rows only whose pivots, in this order, are at least 0 on a range of a symbol.

    A pivot that is 0 for all numbers has nothing beside it. Where one is 0 at a single number the
    matrix is a limit of semidefinite ones.
    """
    if not {x for of, *pair in form.gram if of == block for x in pair} <= set(order):
        return False
    half = Fraction(1, 2)
    left = [[form.gram.get(entry(block, x, y), Fraction(0)) * (1 if x == y else half) for y in order] for x in order]
    pivots = []
    while left:
        (pivot, *rest), *below = left
        if pivot == 0 and any(x != 0 for x in rest):
            return False
        pivots.append(pivot)
        left = [[x - row[0] * y / pivot if pivot else x for x, y in zip(row[1:], rest, strict=True)] for row in below]
    return at_least_0(pivots, symbol, low, high)


@dataclass(frozen=True)
class Table:
    """An instance, or a limit of instances: its inner products (block, x, y), in any order of x and y, and values of losses.

    What is not written is 0.
    """

    gram: Mapping[tuple[str, str, str], Any]
    values: Mapping[str, Any]

    def of(self, q: Quadratic) -> Any:
        """The value of a form on it."""
        gram = {entry(*key): number for key, number in self.gram.items()}
        products = [c * gram.get(key, 0) for key, c in q.gram.items()]
        return sum([*products, *(c * self.values.get(point, 0) for point, c in q.values.items())], q.constant)
