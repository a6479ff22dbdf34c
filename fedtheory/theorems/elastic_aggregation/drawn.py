"""Random numbers, matrices and clients of which the instances are made, in fractions."""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

Rng = np.random.Generator
Table = list[list[Fraction]]


def positive(rng: Rng, most: int = 8) -> Fraction:
    """A multiple of 1/4 up to `most`."""
    return Fraction(int(rng.integers(1, 4 * most + 1)), 4)


def signed(rng: Rng) -> Fraction:
    """A multiple of 1/2 from -8 to 8."""
    return Fraction(int(rng.integers(-8, 9)), int(rng.choice([1, 2])))


def rows(rng: Rng, n: int, d: int, each: Callable[[Rng], Fraction] = signed) -> Table:
    """A table (n, d) of such numbers."""
    return [[each(rng) for _ in range(d)] for _ in range(n)]


def tau(rng: Rng) -> Fraction:
    """A positive number below 2."""
    return Fraction(int(rng.integers(1, 8)), int(rng.choice([4, 8])))


def matrix(rng: Rng, d: int, zeros: float) -> list[Any]:
    """A diagonal, some of its entries 0, or a matrix that is diagonally dominant."""
    diagonal = [Fraction(0) if rng.random() < zeros else positive(rng) for _ in range(d)]
    if d == 1 or rng.random() < 0.75:
        return diagonal
    out = [[Fraction(0)] * d for _ in range(d)]
    for i in range(d):
        for j in range(i):
            out[i][j] = out[j][i] = Fraction(int(rng.integers(-2, 3)), 4)
    for i in range(d):
        out[i][i] = diagonal[i] + sum(abs(v) for v in out[i])
    return out


def of_sample(a: list[Fraction]) -> Table:
    """The Gram matrix of one sample."""
    return [[x * y for y in a] for x in a]


def largest(H: list[Any]) -> Fraction:
    """At least the largest eigenvalue."""
    return max(sum(abs(v) for v in row) if isinstance(row, list) else row for m in H for row in m)


def step(rng: Rng, H: list[Any]) -> Fraction:
    """A step of clients with these Hessians, of length at most 1/L."""
    return Fraction(int(rng.integers(1, 9)), 8) / largest(H)


def clients(rng: Rng, n: int, d: int) -> dict[str, Any]:
    """All fields of n clients in d dimensions but their minimisers."""
    H = [matrix(rng, d, 0.0) for _ in range(n)]
    how = rng.random()
    if how < 0.4:
        S = H  # what is held out looks like what is trained on
    else:
        S = [matrix(rng, d, 0.3 if how < 0.8 else 0.0) for _ in range(n)]
    if all(not isinstance(m[0], list) for m in H):
        S = [[m[i][i] for i in range(d)] if isinstance(m[0], list) else m for m in S]
    if how >= 0.85:  # one held-out sample a client
        S = [of_sample(a) for a in rows(rng, n, d)]
    alike = rng.random() < 0.6
    counts = [Fraction(int(v)) for v in ([1] * n if alike else rng.integers(1, 9, n))]
    return {
        "counts": counts, "H": H, "S": S, "theta": [signed(rng) for _ in range(d)],
        "tau": tau(rng), "E": int(rng.integers(1, 5)), "lr": step(rng, H),
    }


def gram(rng: Rng, d: int, samples: int, ridge: Fraction = Fraction(0)) -> Table:
    """The mean of a a' over the samples, plus a ridge: without, fewer than d leave it singular."""
    a = rng.integers(-3, 4, (samples, d))
    squares = [[Fraction(int(v), samples) for v in row] for row in a.T @ a]
    return [[v + ridge * (i == j) for j, v in enumerate(row)] for i, row in enumerate(squares)]


def of_samples(rng: Rng, least: int) -> dict[str, Any]:
    """Clients of several parameters and local steps, with 1 to d + 1 samples for either use."""
    n, d = int(rng.integers(least, 4)), int(rng.integers(2, 4))
    sizes = [int(v) for v in rng.integers(1, d + 2, n)]
    H = [gram(rng, d, m, Fraction(int(rng.integers(2)), 2)) for m in sizes[:-1]]
    H.append(gram(rng, d, d + 1, Fraction(1, 4)))
    S = [gram(rng, d, int(rng.integers(1, d + 2))) for _ in range(n)]
    return {
        "counts": [Fraction(m) for m in sizes], "H": H, "S": S,
        "theta": [signed(rng) or Fraction(1) for _ in range(d)],
        "tau": tau(rng), "E": int(rng.integers(2, 6)), "lr": step(rng, H), "c": rows(rng, n, d),
    }
