"""Quadratics in fractions: their Hessians in a file, and exact minimisers with an l1 term."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np

from fedtheory.errors import InvalidInput, NotCertified
from fedtheory.rational import objects, table, to_file, vector
from fedtheory.theorems.fedelasticnet.quantities import norm_sq as sq
from fedtheory.theory import Fact, derived, number
from fedtheory.theory.fields import Read
from fedtheory.theory.rounds.linear_algebra import identity, semidefinite, solve

__all__ = [
    "BETA_SMOOTH", "SOLVED", "WIDEST", "Quadratics", "hessian", "hessians", "identity", "minimiser",
    "minimisers", "semidefinite", "solved", "sq",
]  # fmt: skip

WIDEST = 5  # coordinates up to which every pattern of signs is tried

SOLVED = Fact("R has one minimiser", lambda v: v.star is not None)
BETA_SMOOTH = Fact(
    "beta-smooth losses", lambda v: all(semidefinite(v.beta * identity(v.d) - h) for h in v.H),
)


def solved(A: np.ndarray, b: np.ndarray) -> np.ndarray | None:
    """x with A x = b; None where A (d, d) is singular."""
    try:
        return solve(A, b)
    except InvalidInput:
        return None


def hessian(name: str, value: Any, before: Mapping[str, Any] | None = None) -> np.ndarray:
    """Read a symmetric matrix (d, d), or its diagonal."""
    if isinstance(value, list) and value and not isinstance(value[0], list):
        return identity(len(value)) * vector(value, name)
    found = table(value, name)
    if found.shape != found.T.shape or (found != found.T).any():
        raise InvalidInput(f"{name} = {value!r}: expected a symmetric matrix, or its diagonal")
    return found


def hessians(name: str, value: Any, before: Mapping[str, Any] | None = None) -> np.ndarray:
    """Read positive semidefinite matrices (m, d, d), or their diagonals."""
    if not isinstance(value, list) or not value:
        raise InvalidInput(f"{name} = {value!r}: expected one matrix, or its diagonal, a client")
    found = [hessian(f"{name}[{k}]", rows) for k, rows in enumerate(value)]
    for k, H in enumerate(found):
        if H.shape != found[0].shape:
            raise InvalidInput(f"{name}[{k}] is {H.shape}, and {name}[0] {found[0].shape}")
        if not semidefinite(H):
            raise InvalidInput(
                f"{name}[{k}] = {to_file(H)}: a convex loss has a positive semidefinite Hessian"
            )
    return np.stack(found)


@dataclass(kw_only=True)
class Quadratics:
    """m clients with L_k(y) = y'H_k y/2 - q_k'y, and a model theta."""

    H: np.ndarray = field(metadata={"read": Read(hessians, shape=("m", "d", "d"))})
    q: np.ndarray = number("m d")
    theta: np.ndarray = number("d")

    m = derived(lambda v: len(v.H))
    d = derived(lambda v: len(v.theta))
    star = derived(
        lambda v: solved(v.H.sum(axis=0), v.q.sum(axis=0)), "theta_*, None where R has not one"
    )
    slopes = derived(lambda v: v.gradients([v.theta] * v.m), "grad L_k(theta), (m, d)")

    def gradients(self, points: Any) -> np.ndarray:
        """grad L_k at the k-th point: (m, d)."""
        return np.stack([h @ x - q for h, x, q in zip(self.H, points, self.q, strict=True)])

    def mean(self, values: np.ndarray) -> Any:
        """(1/m) sum_k."""
        return values.sum(axis=0) / Fraction(self.m)


def _candidate(Q: np.ndarray, b: np.ndarray, level: Fraction, signs: Any) -> np.ndarray | None:
    """The point that is optimal with these signs; None where there is none, or several."""
    signs = objects([Fraction(int(s)) for s in signs])
    on = np.flatnonzero(signs != 0)
    x = objects([Fraction(0)] * len(b))
    if len(on):
        part = solved(Q[np.ix_(on, on)], b[on] - level * signs[on])
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
