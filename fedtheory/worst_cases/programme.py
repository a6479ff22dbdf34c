"""The best multipliers by a semidefinite programme, and their rounding to fractions in which the bound is checked.

The solver is not believed: what it returns is rounded, the equations between the multipliers are solved again in fractions,
and the two matrices must have L D L' with D >= 0. Where the programme has no interior, the rounded numbers would miss it.
Two reductions, exact ones, are made before: a row of a matrix whose diagonal entry can only be 0 must be 0, which gives
equations between the multipliers; and an equation in which numbers that are at least 0 add up to 0 makes each of them 0.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from fedtheory._cvxpy import cvxpy
from fedtheory.errors import NotCertified
from fedtheory.worst_cases.gram import Quadratic, plus
from fedtheory.worst_cases.identity import Factors, Family, factors, left_over, matrices

__all__ = ["LARGEST", "NoMultipliers", "Solution", "certify", "maximise", "optimum"]

DIGITS = 10  # of a rounded multiplier
ROOM = (Fraction(1, 10**8), Fraction(1, 10**7), Fraction(1, 10**6), Fraction(1, 10**5), Fraction(1, 10**4))
KERNELS = (12, 60, 1000)  # denominators of kernels that are tried
NOTHING, FLAT = 1e-7, 1e-6  # a multiplier that is 0, and an eigenvalue
MISSED = 1e-6  # how far from positive semidefinite a matrix is where there are surely no multipliers
SIMPLE = (1, 2, 4, 6, 12, 24, 60, 120, 1000)  # denominators that are tried
LARGEST = 4000  # multipliers: a minute of the solver

Equation = tuple[dict[str, Fraction], Fraction]  # sum of coefficient x number = right side


class NoMultipliers(NotCertified):
    """There are no multipliers, or none up to the solver's accuracy."""


@dataclass(frozen=True)
class Solution:
    """Multipliers that are proved, and what the solver said.

    Attributes
    ----------
    numbers : dict name -> multiplier, in fractions
    factors : dict block -> `Factors` of its matrix
    best : the solver's optimum, in floats, which is not proved
    gram : dict block -> matrix of the worst case, in floats, in the order of ``rows``
    rows : dict block -> names
    """

    numbers: Mapping[str, Fraction]
    factors: Mapping[str, Factors]
    best: float
    gram: Mapping[str, np.ndarray]
    rows: Mapping[str, tuple[str, ...]]


def maximise(family: Family, goal: str, scale: float = 0.0) -> Solution:
    """The largest number before ``goal`` for which the family has multipliers, up to a part in ten million or so.

    ``scale``: the size that the part is one of where the number itself is near 0.

    Raises
    ------
    NoMultipliers
        There are none, or the solver found none.
    NotCertified
        What it found could not be rounded.
    """
    numeric, rows, equations = _reduced(family, goal)
    best, gram, start = numeric.best()
    for room in ROOM:
        floats = numeric.inside(best - float(room) * max(abs(best), scale))
        for guess in ([] if floats is None else [floats]) + [start]:
            numbers = _rounded(guess, equations, family.signed)
            if numbers is None:
                continue
            try:
                found = check(family, numbers, rows)
            except (NotCertified, ValueError):
                continue
            return Solution(numbers, found, best, gram, rows)
    raise NotCertified("the solver's multipliers could not be rounded to ones that prove its value")


def certify(family: Family) -> Solution:
    """Multipliers with which the family is a sum of squares, nothing being sought.

    Raises
    ------
    NoMultipliers
        There are none, or the solver found none.
    NotCertified
        What it found could not be rounded.
    """
    numeric, rows, equations = _reduced(family, "")
    inside, fewest = numeric.inside(), numeric.fewest()
    if numeric.failed or inside is None:
        raise NoMultipliers("no multipliers found")
    tried = [guess for floats in (inside, fewest) if floats is not None for guess in _guesses(floats)]
    for guess in tried:
        numbers = _rounded(guess, equations, family.signed)
        with suppress(NotCertified, ValueError):
            if numbers is not None:
                return Solution(numbers, check(family, numbers, rows), 0.0, {}, rows)
    for most in KERNELS:
        with suppress(NotCertified, ValueError):
            numbers = _on_face(family, numeric, rows, equations, inside, most)
            return Solution(numbers, check(family, numbers, rows), 0.0, {}, rows)
    raise NotCertified("the solver's multipliers could not be rounded to ones that prove it")


def _on_face(
    family: Family, numeric: _Numeric, rows: Mapping[str, tuple[str, ...]], equations: list[Equation],
    floats: Mapping[str, float], most: int,
) -> dict[str, Fraction]:  # fmt: skip
    """Multipliers of matrices that must be singular: what their kernels contain becomes equations, in fractions of
    denominators up to ``most``, and what can only be 0 stays so.

    Raises
    ------
    NotCertified
        There are none with such kernels.
    """
    found, kept = list(equations), dict(rows)
    found += [({name: Fraction(1)}, Fraction(0)) for name, x in floats.items() if name not in family.signed and x < NOTHING]
    for block, names in rows.items():
        if not names:
            continue
        sizes, axes = np.linalg.eigh(numeric.matrix(block, floats))
        kernel, pivots = _echelon(axes[:, sizes < FLAT * max(float(sizes[-1]), 1.0)].T)
        for v in kernel:
            exact = {x: Fraction(float(c)).limit_denominator(most) for x, c in zip(names, v, strict=True)}
            for x in names:
                found.append(_equation(family, lambda q, x=x, exact=exact: _row(q, block, x, exact)))  # noqa: B023
        kept[block] = tuple(x for i, x in enumerate(names) if i not in pivots)
    left = _independent([e for e in found if e[0] or e[1]])
    smaller = _Numeric(family, kept, left, "")
    again = smaller.inside()
    numbers = None if again is None else _rounded(again, left, family.signed)
    if numbers is None:
        raise NotCertified("no multipliers on the face")
    return numbers


def _row(q: Quadratic, block: str, x: str, v: Mapping[str, Fraction]) -> Fraction:
    """An entry of the block's matrix times a vector."""
    total = Fraction(0)
    for (of, a, b), number in q.gram.items():
        if of == block and x in (a, b):
            total += number * v.get(a, 0) if a == b else number / 2 * v.get(b if a == x else a, 0)
    return total


def _echelon(rows: np.ndarray) -> tuple[np.ndarray, list[int]]:
    """Rows in reduced echelon form, and their pivots."""
    rows, pivots = np.array(rows, dtype=float), list[int]()
    for i in range(len(rows)):
        at = int(np.argmax(abs(rows[i:]).max(axis=0)))
        k = i + int(np.argmax(abs(rows[i:, at])))
        rows[[i, k]] = rows[[k, i]]
        rows[i] /= rows[i, at]
        for j in range(len(rows)):
            if j != i:
                rows[j] -= rows[j, at] * rows[i]
        pivots.append(at)
    return rows, pivots


def _guesses(floats: Mapping[str, float]) -> Iterator[Mapping[str, Any]]:
    """The multipliers as simple fractions, then with all their digits."""
    for most in SIMPLE:
        yield {name: Fraction(x).limit_denominator(most) for name, x in floats.items()}
    yield floats


def optimum(family: Family, goal: str) -> float:
    """The solver's largest number before ``goal``, which is not proved.

    Raises
    ------
    NoMultipliers
        There are none, or the solver found none.
    """
    return _reduced(family, goal)[0].best()[0]


def _reduced(family: Family, goal: str) -> tuple[_Numeric, dict[str, tuple[str, ...]], list[Equation]]:
    """The programme without what can only be 0, the rows that stay, and the equations."""
    rows, equations = _faces(family)
    equations, zero = _zeros(family, equations)
    smaller = replace(family, terms={name: term for name, term in family.terms.items() if name not in zero})
    return _Numeric(smaller, rows, equations, goal), rows, equations


def check(family: Family, numbers: Mapping[str, Fraction], rows: Mapping[str, tuple[str, ...]] | None = None) -> dict[str, Factors]:
    """L D L' of every block: the proof. ``rows`` may leave out vectors that then must not appear.

    Raises
    ------
    NotCertified
        What is wrong: a negative multiplier, values or a constant left over, a matrix that is not positive semidefinite.
    """
    form = left_over(family, numbers)
    rows = family.names if rows is None else rows
    for block, x, y in form.gram:
        if x not in rows.get(block, ()) or y not in rows.get(block, ()):
            raise NotCertified(f"<{x}, {y}> is left over")
    try:
        return {block: factors(matrix, rows[block]) for block, matrix in matrices(form, rows).items()}
    except ValueError as error:
        raise NotCertified(str(error)) from error


# --- reductions -----------------------------------------------------------------------------------
def _equation(family: Family, part: Any) -> Equation:
    """That a linear part of the family is 0."""
    row = {name: Fraction(part(q)) for name, q in family.terms.items() if part(q) != 0}
    return row, -Fraction(part(family.start))


def _faces(family: Family) -> tuple[dict[str, tuple[str, ...]], list[Equation]]:
    """The rows that stay, and the equations: values and constants vanish, and so do rows with a diagonal of 0."""
    points = {p for q in (family.start, *family.terms.values()) for p in q.values}
    equations = [_equation(family, lambda q, p=p: q.values.get(p, 0)) for p in sorted(points)]
    equations.append(_equation(family, lambda q: q.constant))
    rows: dict[str, tuple[str, ...]] = {}
    for block, names in family.names.items():
        entries = {key for q in (family.start, *family.terms.values()) for key in q.gram if key[0] == block}
        gone = [x for x in names if (block, x, x) not in entries]
        rows[block] = tuple(x for x in names if x not in gone)
        for key in sorted(entries):
            if key[1] in gone or key[2] in gone:
                equations.append(_equation(family, lambda q, key=key: q.gram.get(key, 0)))
    return rows, equations


def _zeros(family: Family, equations: list[Equation]) -> tuple[list[Equation], set[str]]:
    """The equations without the multipliers that must be 0, and those multipliers."""
    zero: set[str] = set()
    while True:
        left = [({n: c for n, c in row.items() if n not in zero}, right) for row, right in equations]
        new: set[str] = set()
        for row, right in left:
            if right == 0 and row and not set(row) & family.signed and (min(row.values()) > 0 or max(row.values()) < 0):
                new |= set(row)
        if not new:
            if any(not row and right != 0 for row, right in left):
                raise NoMultipliers("no multipliers: an equation between them cannot hold")
            return _independent([e for e in left if e[0]]), zero
        zero |= new


def _independent(equations: list[Equation]) -> list[Equation]:
    """Without those that follow from others before them."""
    kept: list[Equation] = []
    reduced: list[tuple[str, dict[str, Fraction], Fraction]] = []
    for row, right in equations:
        r, b = dict(row), right
        for pivot, other, value in reduced:
            if pivot in r:
                share = r[pivot]
                r, b = plus(r, other, -share), b - share * value
        if r:
            pivot = next(iter(r))
            reduced.append((pivot, {n: c / r[pivot] for n, c in r.items()}, b / r[pivot]))
            kept.append((row, right))
        elif b != 0:
            raise NoMultipliers("no multipliers: the equations between them contradict one another")
    return kept


# --- the solver -----------------------------------------------------------------------------------
class _Numeric:
    """The programme in floats."""

    def __init__(self, family: Family, rows: Mapping[str, tuple[str, ...]], equations: list[Equation], goal: str) -> None:
        cp = cvxpy()
        self.names, self.goal, self.rows = list(family.terms), goal, rows
        index = {name: i for i, name in enumerate(self.names)}
        n = len(self.names)
        self.x, self.slack = cp.Variable(n), cp.Variable()
        self.signs = np.array([name in family.signed for name in self.names], dtype=bool)
        left = np.zeros((len(equations), n))
        for i, (row, _) in enumerate(equations):
            for name, c in row.items():
                left[i, index[name]] = float(c)
        self.plain = [left @ self.x == np.array([float(right) for _, right in equations])]
        if (~self.signs).any():
            self.plain.append(self.x[np.flatnonzero(~self.signs)] >= 0)
        self.forms, self.dense = {}, {}
        for block, names in rows.items():
            if not names:
                continue
            size = len(names)
            stack = np.zeros((size * size, n))
            for name, q in family.terms.items():
                stack[:, index[name]] = _dense(q, block, names).ravel()
            constant = _dense(family.start, block, names)
            self.dense[block] = stack, constant
            self.forms[block] = cp.reshape(stack @ self.x, (size, size), order="C") + constant

    def best(self) -> tuple[float, dict[str, np.ndarray], dict[str, float]]:
        """The optimum, the Gram matrices of a worst case, and the multipliers."""
        import cvxpy as cp

        cones = {block: form >> 0 for block, form in self.forms.items()}
        problem = cp.Problem(cp.Maximize(self.x[self.names.index(self.goal)]), [*self.plain, *cones.values()])
        self._solve(problem)
        if problem.status not in ("optimal", "optimal_inaccurate"):
            raise NoMultipliers(f"no multipliers found: the solver says {problem.status}")
        gram = {block: np.asarray(cone.dual_value) for block, cone in cones.items()}
        return float(problem.value), gram, dict(zip(self.names, self.x.value, strict=True))

    def inside(self, level: float | None = None) -> dict[str, float] | None:
        """Multipliers with which the goal is a little less, and the matrices as far as can be from singular."""
        import cvxpy as cp

        cones = [form - self.slack * np.eye(form.shape[0]) >> 0 for form in self.forms.values()]
        goal = [] if level is None else [self.x[self.names.index(self.goal)] == level]
        problem = cp.Problem(cp.Maximize(self.slack), [*self.plain, *cones, *goal, self.slack <= 1])
        self._solve(problem)
        self.failed = problem.status not in ("optimal", "optimal_inaccurate") or float(problem.value) < -MISSED
        if problem.status not in ("optimal", "optimal_inaccurate") or self.x.value is None:
            return None
        return dict(zip(self.names, self.x.value, strict=True))

    def matrix(self, block: str, floats: Mapping[str, float]) -> np.ndarray:
        """A block's matrix at some multipliers."""
        size = len(self.rows[block])
        stack, constant = self.dense[block]
        return (stack @ np.array([floats[n] for n in self.names])).reshape(size, size) + constant

    def fewest(self) -> dict[str, float] | None:
        """Multipliers of the least sum, of which many are 0."""
        import cvxpy as cp

        cones = [form >> 0 for form in self.forms.values()]
        problem = cp.Problem(cp.Minimize(cp.norm1(self.x)), [*self.plain, *cones])
        self._solve(problem)
        if problem.status not in ("optimal", "optimal_inaccurate") or self.x.value is None:
            return None
        return dict(zip(self.names, self.x.value, strict=True))

    @staticmethod
    def _solve(problem: Any) -> None:
        import cvxpy as cp

        with warnings.catch_warnings(), suppress(cp.SolverError):
            warnings.simplefilter("ignore", UserWarning)  # an inaccurate answer is no worse than another: neither is believed
            problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)


def _dense(q: Quadratic, block: str, names: tuple[str, ...]) -> np.ndarray:
    out = np.zeros((len(names), len(names)))
    for (of, x, y), number in q.gram.items():
        if of == block and x in names and y in names:
            i, j = names.index(x), names.index(y)
            out[i, j] += float(number) / 2
            out[j, i] += float(number) / 2
    return out


# --- rounding -------------------------------------------------------------------------------------
def _rounded(floats: Mapping[str, Any], equations: list[Equation], signed: frozenset[str]) -> dict[str, Fraction] | None:
    """Fractions near the floats that satisfy the equations, or None where one would be negative."""
    numbers = {
        name: x if isinstance(x, Fraction) else Fraction(round(x * 10**DIGITS), 10**DIGITS)
        for name, x in floats.items()
    }
    for name, x in numbers.items():
        if name not in signed and x < 0:
            numbers[name] = Fraction(0)
    used: list[tuple[str, dict[str, Fraction], Fraction]] = []  # pivot, what it is: right - sum of the others
    for row, right in equations:
        r, b = dict(row), right
        for pivot, other, value in used:
            share = r.pop(pivot, Fraction(0))
            if share:
                r, b = plus(r, other, -share), b - share * value
        if not r:
            continue
        pivot = max(r, key=lambda name: abs(floats[name]))
        scale = r.pop(pivot)
        r, b = {n: c / scale for n, c in r.items()}, b / scale
        for i, (p, other, value) in enumerate(used):
            share = other.pop(pivot, Fraction(0))
            if share:
                used[i] = (p, plus(other, r, -share), value - share * b)
        used.append((pivot, r, b))
    for pivot, other, value in used:
        numbers[pivot] = value - sum(c * numbers[name] for name, c in other.items())
        if numbers[pivot] < 0 and pivot not in signed:
            return None
    return {name: x for name, x in numbers.items() if x != 0}
