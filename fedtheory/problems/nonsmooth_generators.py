"""Seeded random nonsmooth problems, small ones with clients as unequal in slope as one likes."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedtheory.inputs import check_array_size, real_number, whole_number
from fedtheory.problems.nonsmooth import LAD, EuclideanDistance, Hinge, L1Distance, MaxAffine, Quantile
from fedtheory.randomness import Stream

__all__ = [
    "random_euclidean_distance", "random_hinge", "random_l1_distance", "random_lad",
    "random_max_affine", "random_quantile",
]


def _checked(unequal: float, spread: float, **counts: Any) -> None:
    """Check the counts, unequal >= 1, and how far apart clients are (drift or spread)."""
    for name, value in counts.items():
        whole_number(name, value)
    real_number("unequal", unequal, least=1, remedy="it is the ratio of the steepest to the flattest client")
    real_number("how far the clients are apart", spread)
    check_array_size(" x ".join(f"{name} = {value}" for name, value in counts.items()), *counts.values())


def _scales(clients: int, unequal: float) -> np.ndarray:
    """(N,) geometric from 1 to `unequal`: the clients' scales."""
    return unequal ** np.linspace(0.0, 1.0, clients) if clients > 1 else np.ones(1)


def _rows(g: np.random.Generator, clients: int, samples: int, dim: int, unequal: float) -> np.ndarray:
    """(N, n, d) rows of unit length on average, times the client's scale."""
    return g.standard_normal((clients, samples, dim)) / np.sqrt(dim) * _scales(clients, unequal)[:, None, None]


def _regression(
    g: np.random.Generator, clients: int, samples: int, dim: int, unequal: float, drift: float
) -> tuple[np.ndarray, np.ndarray]:
    rows = _rows(g, clients, samples, dim, unequal)
    truth = g.standard_normal(dim) / np.sqrt(dim) + drift * g.standard_normal((clients, dim)) / np.sqrt(dim)
    noise = 0.3 * g.laplace(size=(clients, samples)) * _scales(clients, unequal)[:, None]
    return rows, np.einsum("nij,nj->ni", rows, truth) + noise


def random_lad(
    num_clients: int = 4, samples: int = 10, dim: int = 3, seed: int = 0, unequal: float = 1.0, drift: float = 0.5
) -> LAD:
    """A `LAD` problem whose clients' slopes have the ratio `unequal` and whose truths differ by about `drift`.

    Raises
    ------
    InvalidInput
        A count that is not an integer >= 1, or unequal < 1.
    """
    _checked(unequal, drift, num_clients=num_clients, samples=samples, dim=dim)
    return LAD(*_regression(Stream(seed).generator("random_lad"), num_clients, samples, dim, unequal, drift))


def random_quantile(
    num_clients: int = 4, samples: int = 10, dim: int = 3, tau: float = 0.25, seed: int = 0,
    unequal: float = 1.0, drift: float = 0.5,
) -> Quantile:
    """A `Quantile` problem, made and refused as `random_lad`."""
    _checked(unequal, drift, num_clients=num_clients, samples=samples, dim=dim)
    return Quantile(*_regression(Stream(seed).generator("random_quantile"), num_clients, samples, dim, unequal, drift), tau)


def random_hinge(
    num_clients: int = 4, samples: int = 10, dim: int = 3, ridge: float = 0.0, seed: int = 0,
    unequal: float = 1.0, drift: float = 0.5,
) -> Hinge:
    """A `Hinge` problem with labels that no plane separates perfectly, made and refused as `random_lad`."""
    _checked(unequal, drift, num_clients=num_clients, samples=samples, dim=dim)
    rows, scores = _regression(Stream(seed).generator("random_hinge"), num_clients, samples, dim, unequal, drift)
    return Hinge(rows, np.where(scores < 0, -1.0, 1.0), ridge)


def random_max_affine(
    num_clients: int = 4, pieces: int = 6, dim: int = 3, seed: int = 0, unequal: float = 1.0
) -> MaxAffine:
    """A `MaxAffine` problem that is bounded below: each client's slopes come with a piece opposite to their mean.

    Raises
    ------
    InvalidInput
        A count that is not an integer >= 1, or unequal < 1.
    """
    _checked(unequal, 0.0, num_clients=num_clients, pieces=pieces, dim=dim)
    g = Stream(seed).generator("random_max_affine")
    slopes = _rows(g, num_clients, pieces, dim, unequal)
    slopes = np.concatenate([slopes, -slopes.mean(axis=1, keepdims=True)], axis=1)
    offsets = 0.5 * g.standard_normal((num_clients, pieces + 1)) * _scales(num_clients, unequal)[:, None]
    return MaxAffine(slopes, offsets)


def random_l1_distance(num_clients: int = 4, dim: int = 3, seed: int = 0, spread: float = 1.0) -> L1Distance:
    """An `L1Distance` problem with centres of norm about `spread`; raises `InvalidInput` as `random_lad`."""
    _checked(1.0, spread, num_clients=num_clients, dim=dim)
    centers = Stream(seed).generator("random_l1_distance").standard_normal((num_clients, dim))
    return L1Distance(spread * centers / np.sqrt(dim))


def random_euclidean_distance(num_clients: int = 4, dim: int = 3, seed: int = 0, spread: float = 1.0) -> EuclideanDistance:
    """A geometric-median problem with centres of norm about `spread`; raises `InvalidInput` as `random_lad`."""
    _checked(1.0, spread, num_clients=num_clients, dim=dim)
    centers = Stream(seed).generator("random_euclidean_distance").standard_normal((num_clients, dim))
    return EuclideanDistance(spread * centers / np.sqrt(dim))
