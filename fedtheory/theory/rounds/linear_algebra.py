"""Linear algebra in fractions: systems, definite matrices, and maps whose powers tend to 0."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from fedtheory.errors import InvalidInput
from fedtheory.rational import objects

__all__ = [
    "contracts", "determinant", "identity", "lyapunov", "product", "semidefinite", "solve",
]  # fmt: skip


def identity(d: int, dtype: Any = object) -> np.ndarray:
    """The identity (d, d) in fractions, or in floats where dtype says so."""
    if np.dtype(dtype).kind == "f":
        return np.eye(d)
    return objects([[Fraction(int(i == j)) for j in range(d)] for i in range(d)])


def product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The matrix product; of fractions by whole numbers, as sums of fractions are reduced each."""
    if a.dtype != object:
        return a @ b
    (m, p), (n, q) = _whole(a), _whole(b)
    return (m @ n) * Fraction(1, p * q)


def _whole(a: np.ndarray) -> tuple[np.ndarray, int]:
    """The numerators of fractions over their least common denominator, and that."""
    under = math.lcm(*(v.denominator for v in a.flat))
    return np.frompyfunc(lambda v: v.numerator * (under // v.denominator), 1, 1)(a), under


def _eliminated(rows: list[list[Any]], d: int) -> tuple[list[list[Any]], list[int], Fraction]:
    """The rows after Gauss-Jordan elimination of the first d columns.

    Beside them are the columns with a pivot, and the determinant of the square of d rows.
    """
    pivots: list[int] = []
    rows, found = list(rows), Fraction(1)
    for i in range(d):
        at = len(pivots)
        pivot = next((r for r in range(at, d) if rows[r][i] != 0), None)
        if pivot is None:
            found = Fraction(0)
            continue
        if pivot != at:
            rows[at], rows[pivot], found = rows[pivot], rows[at], -found
        found *= rows[at][i]
        rows[at] = [v / rows[at][i] for v in rows[at]]
        for r in range(d):
            if r != at and rows[r][i] != 0:
                rows[r] = [v - rows[r][i] * w for v, w in zip(rows[r], rows[at], strict=True)]
        pivots.append(i)
    return rows, pivots, found


def determinant(A: np.ndarray) -> Fraction:
    """The determinant of a square matrix of fractions."""
    return _eliminated([list(row) for row in A], len(A))[2]


def semidefinite(A: np.ndarray) -> bool:
    """True of a symmetric matrix of fractions without a negative eigenvalue: A = L D L', D >= 0."""
    rest: Any = A
    while len(rest):
        pivot, column, rest = rest[0, 0], rest[1:, 0], rest[1:, 1:]
        if pivot < 0 or (pivot == 0 and (column != 0).any()):
            return False
        if pivot != 0:
            rest = rest - column[:, None] * column[None, :] / pivot
    return True


def solve(A: np.ndarray, b: np.ndarray, one_of_many: bool = False) -> np.ndarray:
    """Find A^-1 b, (d, d) and (d,), in fractions or in floats.

    With ``one_of_many`` A may be singular. The solution is then one whose free entries are 0.

    Raises `InvalidInput`: A is singular, or with ``one_of_many`` the system has no solution.
    """
    d = len(b)
    if A.dtype != object:
        return np.linalg.solve(A, b)
    rows, pivots, _ = _eliminated([[*A[i], b[i]] for i in range(d)], d)
    if len(pivots) < d and not one_of_many:
        raise InvalidInput("the matrix is singular: the solution is not unique")
    if any(row[-1] != 0 for row in rows[len(pivots) :]):
        raise InvalidInput("the linear system has no solution")
    found = objects([Fraction(0)] * d)
    for row, i in zip(rows, pivots, strict=False):
        found[i] = row[-1]
    return found


def lyapunov(operator: Callable[[np.ndarray], np.ndarray], d: int) -> np.ndarray | None:
    """The symmetric X (d, d) with operator(X) = I, or None where there is not exactly one.

    The operator is a linear one on symmetric matrices.
    """
    pairs = [(i, j) for i in range(d) for j in range(i + 1)]
    units = [0 * identity(d) for _ in pairs]
    for unit, (i, j) in zip(units, pairs, strict=True):
        unit[i, j] = unit[j, i] = Fraction(1)
    columns = [operator(unit) for unit in units]
    rows = objects([[column[i, j] for column in columns] for i, j in pairs])
    try:
        found = solve(rows, objects([Fraction(int(i == j)) for i, j in pairs]))
    except InvalidInput:
        return None
    return sum(x * unit for x, unit in zip(found, units, strict=True))


def _from_floats(maps: Sequence[np.ndarray]) -> np.ndarray | None:
    """A symmetric X of short fractions near the solution of X - mean A' X A = I, or None."""
    floats, d = [A.astype(float) for A in maps], len(maps[0])
    system = np.eye(d * d) - sum(np.kron(A.T, A.T) for A in floats) / len(floats)
    try:
        X = np.linalg.solve(system, np.eye(d).ravel()).reshape(d, d)
    except np.linalg.LinAlgError:
        return None
    if not np.isfinite(X).all() or abs(X).max() > 1e12:
        return None
    return objects([[Fraction(round(float(x) * 2**19), 2**20) for x in row] for row in X + X.T])


def contracts(maps: Sequence[np.ndarray]) -> bool:
    """True if the spectral radius of X -> mean of A' X A over the maps A (d, d) is below 1.

    For one map A this says that the spectral radius of A is. The operator keeps the cone of
    positive semidefinite matrices. So its spectral radius is below 1 exactly where
    X - mean A' X A = I has one solution and that is positive semidefinite. The solution is then the
    sum of the operator's powers at I. Any X >= 0 with X - mean A' X A >= I/2 shows it, too. One
    from floats, checked in fractions, spares solving in fractions of many digits.
    """

    def lost(X: np.ndarray) -> np.ndarray:
        return X - sum(A.T @ X @ A for A in maps) / Fraction(len(maps))

    d, guess = len(maps[0]), _from_floats(maps)
    if guess is not None and semidefinite(guess) and semidefinite(lost(guess) - identity(d) / 2):
        return True
    X = lyapunov(lost, d)
    return X is not None and semidefinite(X)
