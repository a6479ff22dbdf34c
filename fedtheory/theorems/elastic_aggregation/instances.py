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

KINDS = ("aggregation", "labels", "sampled", "linearised", "average")
COUNTS = {"aggregation": 160, "labels": 20, "sampled": 160, "linearised": 60, "average": 60}
GRAM = {"aggregation": 24, "sampled": 24}  # more instances, with Gram matrices of samples in general position


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


# --- Gram matrices of samples in general position -----------------------------------------------------------------------------
def _gram(rng: np.random.Generator, d: int, samples: int, ridge: Fraction = Fraction(0)) -> list[list[Fraction]]:
    """The mean of a a' over so many samples, plus a ridge; singular with fewer samples than parameters and no ridge."""
    rows = rng.integers(-3, 4, (samples, d))
    square = rows.T @ rows
    return [[Fraction(int(square[i, j]), samples) + ridge * (i == j) for j in range(d)] for i in range(d)]


def _of_samples(rng: np.random.Generator, least: int) -> dict[str, Any]:
    """Clients with 1 to d + 1 samples to train on and to measure with, several parameters and several local steps."""
    n, d = int(rng.integers(least, 4)), int(rng.integers(2, 4))
    sizes = [int(v) for v in rng.integers(1, d + 2, n)]
    H = [_gram(rng, d, m, Fraction(int(rng.integers(2)), 2)) for m in sizes[:-1]] + [_gram(rng, d, d + 1, Fraction(1, 4))]
    S = [_gram(rng, d, int(rng.integers(1, d + 2))) for _ in range(n)]
    return {
        "counts": [Fraction(m) for m in sizes], "H": H, "S": S, "theta": [_signed(rng) or Fraction(1) for _ in range(d)],
        "tau": _tau(rng), "E": int(rng.integers(2, 6)), "lr": Fraction(int(rng.integers(1, 9)), 8) / _largest(H),
        "c": [[_signed(rng) for _ in range(d)] for _ in range(n)],
    }  # fmt: skip


def _aggregation_gram(rng: np.random.Generator) -> tuple[str, dict[str, Any]]:
    data = _of_samples(rng, 1)
    n, d = len(data["H"]), len(data["theta"])
    data["eta"] = Fraction(int(rng.integers(1, 9)), 8)
    if rng.random() < 0.4:  # fewer samples than parameters at every client: its fixed points are many
        data["H"] = [_gram(rng, d, 1) for _ in range(n)]
        data["lr"] = Fraction(1, 2) / (_largest(data["H"]) or 1)
    elif rng.random() < 0.5:  # from the optimum, which several local steps lead away from
        data["theta"] = list(BUILDERS["aggregation"](to_file(data)).star)
    return f"samples N={n} d={d}", to_file(data)


def _sampled_gram(rng: np.random.Generator) -> tuple[str, dict[str, Any]]:
    data = _of_samples(rng, 2)
    n, d = len(data["H"]), len(data["theta"])
    data |= {"c": data["c"][:-1], "P": int(rng.integers(1, n + 1))}
    return f"samples N={n} P={data['P']} d={d}", to_file(data)


# --- zeros of the mean motion, with the server's step -------------------------------------------------------------------------
def _mirrored(rng: np.random.Generator) -> dict[str, Any]:
    """Two clients, each the other's mirror image, one a round, near a limit of attraction; -J has the eigenvalues A and A + 2q.

    Client 1 is most sensitive in coordinate 1, and by r of that in coordinate 2. At theta = (1, 1) A = tau + (1 - r)/2 and q = x r/2, x
    being coordinate 1's update by client 2; client 1's, -x (1 + tau - r)/tau, makes the zero.
    """
    tau, r = Fraction(int(rng.integers(1, 5)), 4), Fraction(int(rng.integers(1, 4)), 4)
    eta, A = Fraction(int(rng.integers(8, 16)), 8) / (1 + tau), tau + (1 - r) / 2
    if rng.random() < 0.4:  # A > 1.95 |q|: it repels; or 2.05 |q|: it attracts
        q = -20 * A / int(rng.choice([39, 41]))
    else:  # eta (A + 2q) on both sides of 2
        q = (Fraction(int(rng.choice([31, 33])), 16) / eta - A) / 2
    one, x = Fraction(1), 2 * q / r
    return {
        "counts": [one, one], "H": [[one, one]] * 2, "S": [[one, r], [r, one]], "c": [[one - x * (1 + tau - r) / tau, one + x]],
        "theta": [one, one], "tau": tau, "lr": one, "E": 1, "P": 1, "eta": eta,
    }  # fmt: skip


def _linearised(rng: np.random.Generator) -> tuple[str, dict[str, Any]]:
    shape = rng.integers(8)
    if shape in (0, 5):
        label, data = "mirrored", to_file(_mirrored(rng))
    elif shape == 1:
        label, data = _sampled_gram(rng)
    elif shape in (2, 3):  # one parameter, often clients of one curvature
        n = int(rng.integers(2, 4))
        h = [[_positive(rng)]] * n if shape == 2 else [[_positive(rng)] for _ in range(n)]
        data = _clients(rng, n, 1) | {"H": h, "S": [[_positive(rng)] for _ in range(n)], "theta": [_signed(rng) or Fraction(1)]}
        data |= {"lr": Fraction(int(rng.integers(1, 9)), 8) / _largest(h), "c": [[_signed(rng)] for _ in range(n - 1)]}
        data["P"] = int(rng.integers(1, n + 1))
        label, data = f"N={n} P={data['P']} d=1", to_file(data)
    elif shape == 4:  # all take part, the steepest parameter is not sensitive
        n = int(rng.integers(2, 4))
        data = _clients(rng, n, 2) | {"H": [[Fraction(4), _positive(rng, 1)]] * n}
        data["S"] = [[Fraction(0), _positive(rng)] for _ in range(n)]
        data |= {"lr": Fraction(1, 8), "theta": [Fraction(1), Fraction(2)], "c": [[_signed(rng)] * 2 for _ in range(n - 1)], "P": n}
        label, data = f"all of {n}", to_file(data)
    else:
        label, data = _sampled(rng)
    return label, {"eta": str(Fraction(int(rng.integers(1, 17)), 8)), **data}


# --- samples with labels --------------------------------------------------------------------------------------------------------
def _labels(rng: np.random.Generator) -> tuple[str, dict[str, Any]]:
    n, d = int(rng.integers(1, 4)), int(rng.integers(1, 4))

    def inputs() -> list[Any]:
        return [[[_signed(rng) for _ in range(d)] for _ in range(int(rng.integers(1, 4)))] for _ in range(n)]

    def targets(rows: list[Any]) -> list[Any]:
        return [[_signed(rng) for _ in r] for r in rows]

    held, train = inputs(), inputs()
    steepest = max(sum(v * v for v in a) for rows in train for a in rows) or Fraction(1)
    data = {
        "held": held, "held_labels": targets(held), "train": train, "labels": targets(train), "others": targets(train),
        "counts": [Fraction(len(rows)) for rows in train], "theta": [_signed(rng) for _ in range(d)], "tau": _tau(rng),
        "eta": Fraction(1, int(rng.integers(1, 3))), "lr": Fraction(1, 2) / steepest, "E": int(rng.integers(1, 4)),
    }  # fmt: skip
    return f"N={n} d={d}", to_file(data)


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
    "aggregation": _aggregation, "labels": _labels, "sampled": _sampled, "linearised": _linearised, "average": _average,
}  # fmt: skip
_GRAM_MAKERS = {"aggregation": _aggregation_gram, "sampled": _sampled_gram}


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
    """Instances of every kind; those that a builder refuses are drawn again."""
    parts = [(kind, f"elastic aggregation battery {kind}", _MAKERS[kind], COUNTS[kind]) for kind in KINDS]
    parts += [(kind, f"elastic aggregation battery {kind}, samples", make, GRAM[kind]) for kind, make in _GRAM_MAKERS.items()]
    out = []
    for kind, stream, make, count in parts:
        rng, wanted = Stream(seed).generator(stream), max(count // 3, round(count * scale))
        while wanted:
            label, data = make(rng)
            instance = ElasticInstance(BUILDERS, kind, label, data, seed * 1000 + wanted)
            try:
                instance.view()
            except InvalidInput:
                continue
            out.append(instance)
            wanted -= 1
    return out
