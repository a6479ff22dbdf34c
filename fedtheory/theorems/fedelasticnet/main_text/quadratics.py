"""Quadratics in fractions: linear systems, semidefinite matrices, and exact minimisers with an l1 term."""

from __future__ import annotations

from fractions import Fraction
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np

from fedtheory.errors import InvalidInput, NotCertified
from fedtheory.rational import fraction, objects, table, to_file, vector

__all__ = [
    "WIDEST", "Quadratics", "identity", "matrices", "matrix", "minimiser", "minimisers", "number", "semidefinite", "sign", "soft",
    "solve", "sq",
]  # fmt: skip

WIDEST = 5  # coordinates up to which every pattern of signs is tried


def sq(x: Any) -> Any:
    """||x||^2 over the last axis."""
    return (x * x).sum(axis=-1)


def sign(x: Any) -> Any:
    """sign with sign(0) = 0, in fractions."""
    x = np.asarray(x)
    return (x > 0) * Fraction(1) - (x < 0) * Fraction(1)


def soft(x: Any, level: Any) -> Any:
    """The soft threshold, entry by entry: what is left of x when it is moved by ``level`` towards 0."""
    x = np.asarray(x)
    return sign(x) * np.maximum(abs(x) - level, 0 * x)


def identity(d: int) -> np.ndarray:
    """The identity matrix (d, d)."""
    return np.stack([objects([Fraction(int(i == j)) for j in range(d)]) for i in range(d)])


def solve(A: np.ndarray, b: np.ndarray) -> np.ndarray | None:
    """x with A x = b, by Gaussian elimination; None where A (d, d) is singular."""
    d = len(b)
    rows = [[*A[i], b[i]] for i in range(d)]
    for i in range(d):
        pivot = next((j for j in range(i, d) if rows[j][i]), None)
        if pivot is None:
            return None
        rows[i], rows[pivot] = rows[pivot], rows[i]
        rows[i] = [v / rows[i][i] for v in rows[i]]
        for j in range(d):
            if j != i and rows[j][i]:
                rows[j] = [v - rows[j][i] * w for v, w in zip(rows[j], rows[i], strict=True)]
    return objects([row[-1] for row in rows])


class Quadratics:
    """A view of m clients with L_k(y) = y'H_k y/2 - q_k'y: H (m, d, d), q (m, d), theta (d,)."""

    H: np.ndarray
    q: np.ndarray
    theta: np.ndarray

    @property
    def m(self) -> int:
        return len(self.H)

    @property
    def d(self) -> int:
        return len(self.theta)

    def gradients(self, points: Any) -> np.ndarray:
        """grad L_k at the k-th point: (m, d)."""
        return np.stack([h @ x - q for h, x, q in zip(self.H, points, self.q, strict=True)])

    @cached_property
    def star(self) -> np.ndarray | None:
        """theta_*, where R has one minimiser."""
        return solve(self.H.sum(axis=0), self.q.sum(axis=0))


def semidefinite(A: np.ndarray) -> bool:
    """True if a symmetric matrix (d, d) is positive semidefinite: no pivot < 0, 0 with a zero row."""
    A = A.copy()
    for i in range(len(A)):
        if A[i, i] < 0 or (A[i, i] == 0 and (A[i, i:] != 0).any()):
            return False
        if A[i, i] > 0:
            A[i + 1 :, i:] = A[i + 1 :, i:] - np.multiply.outer(A[i + 1 :, i], A[i, i:]) / A[i, i]
    return True


def matrix(value: Any, d: int, name: str) -> np.ndarray:
    """A symmetric (d, d) matrix from a file; a row of d numbers stands for a diagonal.

    Raises
    ------
    InvalidInput
        Another shape, or a matrix that is not symmetric.
    """
    flat = not isinstance(value, list) or not value or not isinstance(value[0], list)
    m = identity(d) * vector(value, name) if flat and isinstance(value, list) and len(value) == d else None
    m = table(value, name) if not flat else m
    if m is None or m.shape != (d, d) or (m != m.T).any():
        raise InvalidInput(f"{name} = {value!r}: expected a symmetric ({d}, {d}) matrix, or its diagonal")
    return m


def matrices(values: Any, d: int, name: str = "H", convex: bool = True) -> np.ndarray:
    """Symmetric matrices (m, d, d) from a file, positive semidefinite ones where the losses are ``convex``."""
    if not isinstance(values, list) or not values:
        raise InvalidInput(f"{name} = {values!r}: expected one matrix, or its diagonal, a client")
    found = np.stack([matrix(v, d, f"{name}[{k}]") for k, v in enumerate(values)])
    for k, m in enumerate(found):
        if convex and not semidefinite(m):
            raise InvalidInput(f"{name}[{k}] = {to_file(m)}: a convex loss has a positive semidefinite Hessian")
    return found


def _candidate(Q: np.ndarray, b: np.ndarray, level: Fraction, signs: Any) -> np.ndarray | None:
    """The point that is optimal with these signs; None where there is none, or several."""
    signs = objects([Fraction(int(s)) for s in signs])
    on = np.flatnonzero(signs != 0)
    x = objects([Fraction(0)] * len(b))
    if len(on):
        part = solve(Q[np.ix_(on, on)], b[on] - level * signs[on])
        if part is None or (part * signs[on] < 0).any():
            return None
        x[on] = part
    pull = b - Q @ x
    off = np.flatnonzero(signs == 0)
    return None if (abs(pull[off]) > level).any() else x


def minimisers(Q: np.ndarray, b: np.ndarray, level: Fraction) -> list[np.ndarray]:
    """The vertices of the set of minimisers of x'Qx/2 - b'x + level ||x||_1, Q (d, d) positive semidefinite, level > 0.

    A vertex is a minimiser the rows of whose support are independent, so each is found by its signs. The set is their
    convex hull: ||x||_1 is bounded on it.

    Raises
    ------
    InvalidInput
        More than five coordinates.
    """
    if len(b) > WIDEST:
        raise InvalidInput(f"d = {len(b)}: all minimisers are found for at most {WIDEST} coordinates")
    found: list[np.ndarray] = []
    for signs in product((0, 1, -1), repeat=len(b)):
        x = _candidate(Q, b, level, signs)
        if x is not None and not any((x == y).all() for y in found):
            found.append(x)
    return found


def minimiser(Q: np.ndarray, b: np.ndarray, level: Fraction) -> np.ndarray:
    """The minimiser of x'Qx/2 - b'x + level ||x||_1, (d,), Q (d, d) positive definite, level >= 0.

    Its signs are guessed by coordinate descent in floats, and the guess is proved in fractions.

    Raises
    ------
    NotCertified
        Signs that are not found for more than five coordinates.
    """
    A, c, t = Q.astype(float), b.astype(float), float(level)
    x = np.zeros(len(c))
    for _ in range(20_000):
        before = x.copy()
        for i in range(len(c)):
            pull = c[i] - A[i] @ x + A[i, i] * x[i]
            x[i] = np.sign(pull) * max(abs(pull) - t, 0.0) / A[i, i]
        if abs(x - before).max() <= 1e-13 * abs(x).max():
            break
    found = _candidate(Q, b, level, np.sign(x))
    if found is not None:
        return found
    if len(b) > WIDEST:
        raise NotCertified(f"the signs of the minimiser in {len(b)} coordinates are not found: use fewer features")
    return minimisers(Q, b, level)[0]


def number(data: dict[str, Any], name: str, default: Any = None, least: Any = None, above: Any = None) -> Fraction:
    """A fraction of an instance's data, within its limits."""
    value = fraction(data.get(name, default) if default is not None else data[name], name)
    if (least is not None and value < least) or (above is not None and value <= above):
        raise InvalidInput(f"{name} = {value}: it must be {f'> {above}' if above is not None else f'>= {least}'}")
    return value
