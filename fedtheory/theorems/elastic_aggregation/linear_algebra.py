"""Linear algebra in fractions, and the derivative of Omega/Omega' in the server's model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from fedtheory.errors import InvalidInput
from fedtheory.verification.rational import objects

__all__ = ["contracts", "determinant", "lyapunov", "ratio_slopes", "semidefinite", "solve"]


def ratio_slopes(S: np.ndarray, theta: np.ndarray, w: np.ndarray) -> tuple[int, np.ndarray] | None:
    """The most sensitive coordinate a of one cohort, and the derivative (d, d) of Omega^i/Omega' in theta_j.

    S (N, d, d), theta (d,), w (N,) with w_k = 0 outside the cohort. None where there is no derivative: two coordinates are the most
    sensitive, or a client's output passes 0.
    """
    members = [k for k in range(len(w)) if w[k] != 0]
    seen = np.stack([S[k] @ theta for k in members])
    if any(seen[n, i] == 0 and (S[k][i] != 0).any() for n, k in enumerate(members) for i in range(len(theta))):
        return None
    omega = sum(w[k] * abs(2 * seen[n]) for n, k in enumerate(members))
    tops = [i for i in range(len(theta)) if omega[i] == omega.max()]
    if len(tops) > 1 or omega.max() == 0:
        return None
    (a,) = tops
    signs = [np.array([Fraction(int(v > 0) - int(v < 0)) for v in row], dtype=object) for row in seen]
    slopes = sum(2 * w[k] * signs[n][:, None] * S[k] for n, k in enumerate(members))
    return a, (slopes - (omega / omega[a])[:, None] * slopes[a][None, :]) / omega[a]


def determinant(A: np.ndarray) -> Fraction:
    """Of a square matrix of fractions."""
    rows, found = [list(row) for row in A], Fraction(1)
    for i in range(len(rows)):
        pivot = next((r for r in range(i, len(rows)) if rows[r][i] != 0), None)
        if pivot is None:
            return Fraction(0)
        if pivot != i:
            rows[i], rows[pivot], found = rows[pivot], rows[i], -found
        found *= rows[i][i]
        for r in range(i + 1, len(rows)):
            share = rows[r][i] / rows[i][i]
            rows[r] = [v - share * u for v, u in zip(rows[r], rows[i], strict=True)]
    return found


def semidefinite(A: np.ndarray) -> bool:
    """Whether a symmetric matrix of fractions has no negative eigenvalue: A = L D L' with D >= 0, by elimination."""
    rest: Any = A
    while len(rest):
        pivot, column = rest[0, 0], rest[1:, 0]
        if pivot < 0 or (pivot == 0 and (column != 0).any()):
            return False
        rest = rest[1:, 1:] if pivot == 0 else rest[1:, 1:] - column[:, None] * column[None, :] / pivot
    return True


def solve(A: np.ndarray, b: np.ndarray, one_of_many: bool = False) -> np.ndarray:
    """A^-1 b in fractions, (d, d) and (d,).

    With ``one_of_many`` A may be singular: one solution then, its free entries 0.

    Raises
    ------
    InvalidInput
        A singular A; with ``one_of_many`` a system without a solution.
    """
    d, rows = len(b), [[*A[i], b[i]] for i in range(len(b))]
    pivots: list[int] = []
    for i in range(d):
        at = len(pivots)
        pivot = next((r for r in range(at, d) if rows[r][i] != 0), None)
        if pivot is None:
            if not one_of_many:
                raise InvalidInput("the matrix is singular: the solution is not unique")
            continue
        rows[at], rows[pivot] = rows[pivot], rows[at]
        rows[at] = [v / rows[at][i] for v in rows[at]]
        for r in range(d):
            if r != at and rows[r][i] != 0:
                rows[r] = [v - rows[r][i] * w for v, w in zip(rows[r], rows[at], strict=True)]
        pivots.append(i)
    if any(row[-1] != 0 for row in rows[len(pivots) :]):
        raise InvalidInput("the linear system has no solution")
    found = objects([Fraction(0)] * d)
    for row, i in zip(rows, pivots, strict=False):
        found[i] = row[-1]
    return found


def lyapunov(operator: Callable[[np.ndarray], np.ndarray], d: int) -> np.ndarray | None:
    """The symmetric X (d, d) with operator(X) = I, for a linear operator on symmetric matrices; None where there is not exactly one."""
    pairs = [(i, j) for i in range(d) for j in range(i + 1)]

    def unit(i: int, j: int) -> np.ndarray:
        return objects([[Fraction(int((r, c) in ((i, j), (j, i)))) for c in range(d)] for r in range(d)])

    columns = [operator(unit(i, j)) for i, j in pairs]
    rows = objects([[column[i, j] for column in columns] for i, j in pairs])
    try:
        found = solve(rows, objects([Fraction(int(i == j)) for i, j in pairs]))
    except InvalidInput:
        return None
    return sum(x * unit(i, j) for x, (i, j) in zip(found, pairs, strict=True))


def _from_floats(maps: Sequence[np.ndarray]) -> np.ndarray | None:
    """A symmetric X (d, d) of short fractions near the solution of X - mean A' X A = I; None where floats find none."""
    floats, d = [A.astype(float) for A in maps], len(maps[0])
    system = np.eye(d * d) - sum(np.kron(A.T, A.T) for A in floats) / len(floats)
    try:
        X = np.linalg.solve(system, np.eye(d).ravel()).reshape(d, d)
    except np.linalg.LinAlgError:
        return None
    if not np.isfinite(X).all() or abs(X).max() > 1e12:
        return None
    return objects([[Fraction(round(float(X[i, j] + X[j, i]) * 2**19), 2**20) for j in range(d)] for i in range(d)])


def contracts(maps: Sequence[np.ndarray]) -> bool:
    """Whether the spectral radius of X -> mean of A' X A over the maps A (d, d) is below 1: of one map, its own is.

    The operator keeps the cone of positive semidefinite matrices. So its spectral radius is below 1 exactly where X - mean A' X A = I
    has one solution and that is positive semidefinite: then it is the sum of the operator's powers at I. Any X >= 0 with
    X - mean A' X A >= I/2 shows it, too: one from floats, checked in fractions, spares solving in fractions of many digits.
    """
    guess = _from_floats(maps)
    if guess is not None:
        moved = guess - sum(A.T @ guess @ A for A in maps) / Fraction(len(maps))
        half = objects([[Fraction(int(i == j), 2) for j in range(len(guess))] for i in range(len(guess))])
        if semidefinite(guess) and semidefinite(moved - half):
            return True
    X = lyapunov(lambda X: X - sum(A.T @ X @ A for A in maps) / Fraction(len(maps)), len(maps[0]))
    return X is not None and semidefinite(X)
