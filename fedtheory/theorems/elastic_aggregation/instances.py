"""The instances of the statements about Elastic Aggregation; all are given in fractions, so that a violation is a witness."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from fedtheory.errors import InvalidInput
from fedtheory.randomness import Stream
from fedtheory.theorems.elastic_aggregation.notation import BUILDERS
from fedtheory.verification.rational import to_file
from fedtheory.verification.setting import DataInstance

__all__ = ["KINDS", "battery", "random_instance"]

KINDS = ("aggregation", "sampled", "average")
COUNTS = {"aggregation": 160, "sampled": 160, "average": 60}


class ElasticInstance(DataInstance):
    """An instance given by the data of its kind's builder."""

    @property
    def family(self) -> str:
        return f"elastic aggregation, {self.kind}"


def _positive(rng: np.random.Generator, most: int = 8) -> Fraction:
    return Fraction(int(rng.integers(1, 4 * most + 1)), 4)


def _signed(rng: np.random.Generator) -> Fraction:
    return Fraction(int(rng.integers(-8, 9)), int(rng.choice([1, 2])))


def _tau(rng: np.random.Generator) -> Fraction:
    return Fraction(int(rng.integers(1, 8)), int(rng.choice([4, 8])))


def _matrix(rng: np.random.Generator, d: int, zeros: float) -> list[Any]:
    """A diagonal, some of its entries 0, or a matrix that is diagonally dominant."""
    diagonal = [Fraction(0) if rng.random() < zeros else _positive(rng) for _ in range(d)]
    if d == 1 or rng.random() < 0.75:
        return diagonal
    out = [[Fraction(0)] * d for _ in range(d)]
    for i in range(d):
        for j in range(i):
            out[i][j] = out[j][i] = Fraction(int(rng.integers(-2, 3)), 4)
    for i in range(d):
        out[i][i] = diagonal[i] + sum(abs(out[i][j]) for j in range(d) if j != i)
    return out


def _of_sample(a: list[Fraction]) -> list[list[Fraction]]:
    """The Gram matrix of one sample."""
    return [[x * y for y in a] for x in a]


def _largest(H: list[Any]) -> Fraction:
    """At least the largest eigenvalue."""
    return max(sum(abs(v) for v in row) if isinstance(row, list) else row for m in H for row in m)


def _clients(rng: np.random.Generator, n: int, d: int) -> dict[str, Any]:
    H = [_matrix(rng, d, 0.0) for _ in range(n)]
    how = rng.random()
    if how < 0.4:
        S = H  # what is held out looks like what is trained on
    else:
        S = [_matrix(rng, d, 0.3 if how < 0.8 else 0.0) for _ in range(n)]
    if all(not isinstance(m[0], list) for m in H):
        S = [[m[i][i] for i in range(d)] if isinstance(m[0], list) else m for m in S]
    if how >= 0.85:  # one held-out sample a client
        S = [_of_sample([_signed(rng) for _ in range(d)]) for _ in range(n)]
    counts = [Fraction(1)] * n if rng.random() < 0.6 else [Fraction(int(v)) for v in rng.integers(1, 9, n)]
    return {
        "counts": counts, "H": H, "S": S, "theta": [_signed(rng) for _ in range(d)], "tau": _tau(rng), "E": int(rng.integers(1, 5)),
        "lr": Fraction(int(rng.integers(1, 9)), 8) / _largest(H),
    }  # fmt: skip


def _aggregation(rng: np.random.Generator) -> tuple[str, dict[str, Any]]:
    n, d = int(rng.integers(1, 4)), int(rng.integers(1, 4))
    data = _clients(rng, n, d) | {"c": [[_signed(rng) for _ in range(d)] for _ in range(n)]}
    data["eta"] = Fraction(int(rng.integers(1, 17)), int(rng.choice([4, 8, 16])))
    shape = rng.integers(12)
    if shape == 0:  # a dead layer, where zeta = 1 may be less than tau
        data["theta"] = [Fraction(0)] * d
        data["tau"] = data["tau"] * int(rng.choice([1, 4]))
    elif shape == 1:
        data["tau"] = Fraction(0)
    elif shape == 2 and d > 1:  # held-out samples that leave some coordinates alone
        data["S"] = [[Fraction(0), *[_positive(rng)] * (d - 1)]] * n
        data["theta"] = [_signed(rng), *[Fraction(0)] * (d - 1)]
    return f"N={n} d={d}", to_file(data)


def _sampled(rng: np.random.Generator) -> tuple[str, dict[str, Any]]:
    n, d = int(rng.integers(2, 5)), int(rng.integers(1, 4))
    shape = rng.integers(6)
    if shape <= 1:
        n = 2
    data = _clients(rng, n, d)
    if shape <= 1:  # two clients of diagonal curvature; one a round
        data |= {"H": [[_positive(rng) for _ in range(d)] for _ in range(n)], "counts": [Fraction(1)] * n}
        data["S"] = data["H"] if shape == 0 else [[_positive(rng) for _ in range(d)] for _ in range(n)]
        data["lr"] = Fraction(int(rng.integers(1, 9)), 8) / _largest(data["H"])
    elif shape == 2 and d > 1:  # each client sensitive in another coordinate
        data["S"] = [[_positive(rng) if i % n == k else Fraction(0) for i in range(d)] for k in range(n)]
    data["theta"] = [v if v else Fraction(1) for v in data["theta"]]
    P = 1 if shape <= 2 else int(rng.integers(1, n + 1))
    data |= {"c": [[_signed(rng) for _ in range(d)] for _ in range(n - 1)], "P": P}
    return f"N={n} P={P} d={d}", to_file(data)


def _average(rng: np.random.Generator) -> tuple[str, dict[str, Any]]:
    n, d, shape = int(rng.integers(1, 4)), int(rng.integers(1, 4)), rng.integers(4)
    sizes = [int(v) for v in rng.integers(1, 5, n)]
    if shape == 0:
        sizes = [sizes[0]] * n
    weights = [Fraction(int(v)) for v in rng.integers(1, 6, n)]
    mu = Fraction(int(rng.integers(1, 20)), 20)

    def row() -> list[Fraction]:
        return [_positive(rng) for _ in range(d)]

    if shape == 1:  # alike
        batches = [[row()] * m for m in sizes]
    elif shape == 2:  # two clients of one sensitivity, each in another coordinate: where the distance is attained
        sizes = [int(rng.integers(1, 3)), int(rng.integers(3, 6))]
        weights, value, zero = [Fraction(1), Fraction(1)], _positive(rng), Fraction(0)
        batches = [[[value, zero]] * sizes[0], [[zero, value]] * sizes[1]]
    else:
        batches = [[row() for _ in range(m)] for m in sizes]
    data = {"weights": weights, "batches": batches, "mu": mu, "tau": _tau(rng)}
    return f"batches {sizes}", to_file(data)


_MAKERS: dict[str, Callable[[np.random.Generator], tuple[str, dict[str, Any]]]] = {
    "aggregation": _aggregation, "sampled": _sampled, "average": _average,
}  # fmt: skip


def random_instance(kind: str, rng: np.random.Generator) -> ElasticInstance:
    """One instance of a kind, over all shapes of its parameters.

    Raises
    ------
    InvalidInput
        A kind that is not in `KINDS`; data that its builder refuses, when the view is made (then draw again).
    """
    if kind not in _MAKERS:
        raise InvalidInput(f"kind = {kind!r}: use one of {', '.join(KINDS)}")
    return ElasticInstance(BUILDERS, kind, *_MAKERS[kind](rng))


def battery(seed: int = 0, scale: float = 1.0) -> list[ElasticInstance]:
    """Instances of every kind; those that a builder refuses (a cohort that sees no sensitivity) are drawn again."""
    out = []
    for kind in KINDS:
        rng = Stream(seed).generator(f"elastic aggregation battery {kind}")
        wanted = max(COUNTS[kind] // 3, round(COUNTS[kind] * scale))
        while wanted:
            label, data = _MAKERS[kind](rng)
            instance = ElasticInstance(BUILDERS, kind, label, data, seed * 1000 + wanted)
            try:
                instance.view()
            except InvalidInput:
                continue
            out.append(instance)
            wanted -= 1
    return out
