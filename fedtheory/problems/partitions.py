"""Partitions of samples among clients: iid (labels balanced or not), Dirichlet on labels, or m
classes a client; of equal or lognormal sizes."""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from fedtheory.arrays import OwnArrays, sealed
from fedtheory.errors import DataFileError, InvalidInput
from fedtheory.inputs import check_array_size, real_number, shown, whole_number
from fedtheory.problems.base import Problem
from fedtheory.problems.datasets import Dataset
from fedtheory.problems.glm import Logistic
from fedtheory.problems.linear import LeastSquares
from fedtheory.problems.softmax import Softmax
from fedtheory.provenance import provenance, write_json
from fedtheory.randomness import Stream
from fedtheory.untrusted import read_json

LARGEST = 2**30  # bytes of a file of a partition

__all__ = ["Heterogeneity", "Partition", "balanced_iid", "classes_per_client", "dirichlet", "federate", "iid", "lognormal_sizes"]


@dataclass(frozen=True)
class Heterogeneity(OwnArrays):
    """The heterogeneity of a partition, as it turned out.

    Attributes
    ----------
    classes : (C,) the labels, increasing
    counts : (N, C) samples of each class at each client
    total_variation : float
        Mean over the clients of the total variation distance between the client's label histogram and the pooled one
        (0: all alike; 1 - sum_c q_c^2 on average when every client holds one class, drawn from the pooled histogram q).
    size_min, size_median, size_max : samples a client
    imbalance : float
        size_max / size_min.
    """

    classes: np.ndarray
    counts: np.ndarray
    total_variation: float
    size_min: int
    size_median: float
    size_max: int
    imbalance: float


@dataclass(frozen=True)
class Partition(OwnArrays):
    """A partition: every sample at exactly one client, no client empty.

    Attributes
    ----------
    indices : N increasing index arrays
    name : str
    parameters : dict
        What the partition was made with.
    seed : int or None

    Raises
    ------
    InvalidInput
        A client without samples; an index that is missing, doubled or out of range.
    """

    indices: tuple[np.ndarray, ...]
    name: str = "given"
    parameters: Mapping[str, Any] = field(default_factory=dict)
    seed: int | None = None

    def __post_init__(self) -> None:
        for k, p in enumerate(self.indices):
            if np.size(p) and np.asarray(p).dtype.kind not in "iu":
                raise InvalidInput(f"the indices of client {k} are {shown(p)}: give the numbers of samples, integers from 0")
        parts = tuple(sealed(np.sort(np.asarray(p, dtype=np.int64))) for p in self.indices)
        object.__setattr__(self, "indices", parts)
        for k, p in enumerate(parts):
            if p.size == 0:
                raise InvalidInput(f"client {k} has no samples: drop it or give it data")
        if not parts:
            raise InvalidInput("no clients: a partition needs at least one")
        pooled = np.sort(np.concatenate(parts))
        wrong = np.flatnonzero(pooled != np.arange(pooled.size))
        if wrong.size:
            raise InvalidInput(
                f"the clients' indices are not 0..{pooled.size - 1} once each (sorted, entry "
                f"{wrong[0]} is {pooled[wrong[0]]}): every sample must be at exactly one client"
            )

    @property
    def num_clients(self) -> int:
        return len(self.indices)

    @cached_property
    def num_samples(self) -> int:
        return sum(len(p) for p in self.indices)

    @cached_property
    def sizes(self) -> np.ndarray:
        """(N,) samples a client."""
        return sealed(np.array([len(p) for p in self.indices]))

    @cached_property
    def sha256(self) -> str:
        """Hash of the indices: number of clients, then for each its size and its indices, as little-endian int64."""
        digest = hashlib.sha256(np.array([self.num_clients], dtype="<i8").tobytes())
        for part in self.indices:
            digest.update(np.array([len(part)], dtype="<i8").tobytes())
            digest.update(part.astype("<i8").tobytes())
        return digest.hexdigest()

    def heterogeneity(self, labels: np.ndarray) -> Heterogeneity:
        """The realised heterogeneity, given the (n,) discrete labels of all samples."""
        classes, numbers = _classes(labels)
        if len(numbers) != self.num_samples:
            raise InvalidInput(f"{len(numbers)} labels for a partition of {self.num_samples} samples: give one each")
        counts = np.stack([np.bincount(numbers[p], minlength=len(classes)) for p in self.indices])
        pooled = counts.sum(axis=0) / self.num_samples
        distances = np.abs(counts / self.sizes[:, None] - pooled).sum(axis=1) / 2
        least, most = int(self.sizes.min()), int(self.sizes.max())
        middle = float(np.median(self.sizes))
        return Heterogeneity(classes, counts, float(distances.mean()), least, middle, most, most / least)

    def save(self, path: str | Path) -> Path:
        """Write the indices, their hash and where they come from as JSON, whole or not at all."""
        content = {
            "name": self.name,
            "parameters": dict(self.parameters),
            "seed": self.seed,
            "num_clients": self.num_clients,
            "num_samples": self.num_samples,
            "sha256": self.sha256,
            "indices": self.indices,
            "provenance": provenance(self.seed),
        }
        return write_json(path, content)

    @classmethod
    def load(cls, path: str | Path) -> Partition:
        """Read what ``save`` wrote.

        Raises
        ------
        DataFileError
            Missing, not a partition file, or indices that do not have the stored hash.
        """
        path = Path(path)
        try:
            content = read_json(path, LARGEST, "a partition")
            indices = tuple(np.array(p, dtype=np.int64) for p in content["indices"])
            found = cls(indices, content["name"], content["parameters"], content["seed"])
            stored = content["sha256"]
        except (ValueError, KeyError, TypeError, OverflowError) as error:
            raise DataFileError(f"{path}: not a whole partition file ({error}): save the partition again") from error
        if found.sha256 != stored:
            raise DataFileError(
                f"{path}: the indices hash to {found.sha256[:12]}..., the file says {str(stored)[:12]}...: "
                "it was changed after it was saved; save the partition again"
            )
        return found


def _classes(labels: Any) -> tuple[np.ndarray, np.ndarray]:
    try:
        labels = np.asarray(labels)
    except ValueError as error:
        raise InvalidInput("labels is ragged: give one label a sample, (n,)") from error
    if labels.ndim != 1 or labels.size == 0:
        raise InvalidInput(f"labels has shape {labels.shape}: expected (n,) with n >= 1")
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        raise InvalidInput("labels hold NaN or infinite entries: labels must be finite")
    return np.unique(labels, return_inverse=True)


def _check_clients(num_samples: int, num_clients: int) -> None:
    whole_number("num_samples", num_samples)
    check_array_size(f"num_samples = {num_samples}", int(num_samples))
    whole_number("num_clients", num_clients, most=num_samples, remedy=f"with {num_samples} samples no client may be empty")


def lognormal_sizes(num_samples: int, num_clients: int, sigma: float, seed: int = 0) -> np.ndarray:
    """(N,) sizes >= 1 that sum to num_samples, in proportion to exp(sigma * normal); as equal as possible for sigma =
    0.

    FedDyn's procedure, but the samples left over by rounding go to the largest remainders and not all to the first
    client, and no client is left empty.

    Raises
    ------
    InvalidInput
        More clients than samples; sigma negative or not finite.
    """
    _check_clients(num_samples, num_clients)
    real_number("sigma", sigma, least=0)
    z = Stream(seed).generator("partition sizes").standard_normal(num_clients)
    raw = np.exp(sigma * (z - z.max()))
    share = raw / raw.sum() * num_samples
    sizes = np.maximum(np.floor(share), 1).astype(np.int64)
    missing = num_samples - int(sizes.sum())
    if missing > 0:  # fewer than N: one each to the largest remainders
        sizes[np.argsort(sizes - share, kind="stable")[:missing]] += 1
    while missing < 0:  # clients raised to 1 took too much: the largest give it back
        largest = int(np.argmax(sizes))
        give = min(-missing, max(1, int(sizes[largest] - np.partition(sizes, -2)[-2])), int(sizes[largest]) - 1)
        sizes[largest] -= give
        missing += give
    return sizes


def iid(num_samples: int, num_clients: int, sigma: float = 0.0, seed: int = 0) -> Partition:
    """A random permutation cut into pieces, equal (to one sample) or lognormal ones (sigma > 0).

    Raises
    ------
    InvalidInput
        More clients than samples; sigma negative or not finite.
    """
    sizes = lognormal_sizes(num_samples, num_clients, sigma, seed)
    order = Stream(seed).generator("partition iid").permutation(num_samples)
    parts = tuple(np.split(order, np.cumsum(sizes)[:-1]))
    return Partition(parts, "iid", {"num_clients": int(num_clients), "sigma": float(sigma)}, seed)


def balanced_iid(labels: Any, num_clients: int, seed: int = 0) -> Partition:
    """The samples dealt out in turn, class by class, in random order within a class.

    All clients have as many samples of each class, and as many in all, to one sample: exactly as
    many where the clients divide every class. FedDyn's public code deals CIFAR-100 so when it is
    told 'iid' (github.com/alpemreacar/FedDyn, utils_dataset.py).

    Raises
    ------
    InvalidInput
        More clients than samples; labels that are none.
    """
    _, numbers = _classes(labels)
    _check_clients(len(numbers), num_clients)
    order = Stream(seed).generator("partition balanced").permutation(len(numbers))
    order = order[np.argsort(numbers[order], kind="stable")]
    parts = tuple(order[k::num_clients] for k in range(num_clients))
    return Partition(parts, "balanced iid", {"num_clients": int(num_clients)}, seed)


def _deal(
    numbers: np.ndarray, room: list[int], priors: np.ndarray, g: np.random.Generator
) -> tuple[np.ndarray, ...]:
    """Samples dealt one by one: class numbers (n,), sizes that sum to n (used up), priors (N, C) -> N index arrays."""
    shuffled = g.permutation(len(numbers))
    stock = [shuffled[numbers[shuffled] == c].tolist() for c in range(priors.shape[1])]
    draws = g.random((len(numbers), 2)).tolist()

    def cumulative() -> list[list[float]]:
        # Redrawing until the class has samples left is drawing from the prior restricted to those
        # classes.
        left = np.array([len(s) for s in stock], dtype=float)
        mass = priors * (left > 0)
        empty = ~(mass.sum(axis=1) > 0)  # also where a tiny alpha made the prior NaN
        mass[empty] = left
        return np.cumsum(mass, axis=1).tolist()

    parts: list[list[int]] = [[] for _ in range(len(room))]
    open_clients = list(range(len(room)))
    table = cumulative()
    for u, v in draws:
        slot = int(u * len(open_clients))
        k = open_clients[slot]
        row = table[k]
        c = min(bisect_right(row, v * row[-1]), len(row) - 1)
        while not stock[c]:  # only ever when rounding put v at the very end of the table
            c -= 1
        parts[k].append(stock[c].pop())
        if not stock[c]:
            table = cumulative()
        room[k] -= 1
        if room[k] == 0:
            open_clients[slot] = open_clients[-1]
            open_clients.pop()
    return tuple(np.array(p) for p in parts)


def dirichlet(labels: Any, num_clients: int, alpha: float, sigma: float = 0.0, seed: int = 0) -> Partition:
    """FedDyn's Dirichlet partition on labels.

    Every client has a class prior drawn from Dirichlet(alpha, ..., alpha), and its size is fixed first. Then, sample
    after sample, a client is drawn among those not yet full and a class from its prior; a class that has run out is
    redrawn. Where a client's prior has no mass left on any remaining class (tiny alpha; the public code would redraw
    forever), the class is drawn in proportion to what remains.

    Parameters
    ----------
    labels : (n,) discrete
    alpha : float > 0
        Small: few classes a client; large: all clients alike.
    sigma : float >= 0
        Sizes: 0 equal, else lognormal (`lognormal_sizes`).

    Raises
    ------
    InvalidInput
        alpha not positive and finite, more clients than samples, sigma negative.

    References
    ----------
    Acar et al., Federated Learning Based on Dynamic Regularization (FedDyn), ICLR 2021, section 4 and its public code
    (github.com/alpemreacar/FedDyn, utils_dataset.py).
    """
    classes, numbers = _classes(labels)
    real_number("alpha", alpha, above=0)
    room = lognormal_sizes(len(numbers), num_clients, sigma, seed).tolist()
    g = Stream(seed).generator("partition dirichlet")
    priors = g.dirichlet(np.full(len(classes), float(alpha)), size=num_clients)
    parts = _deal(numbers, room, priors, g)
    parameters = {"num_clients": int(num_clients), "alpha": float(alpha), "sigma": float(sigma)}
    return Partition(parts, "dirichlet", parameters, seed)


def classes_per_client(labels: Any, num_clients: int, classes: int, seed: int = 0) -> Partition:
    """Every client holds samples of exactly that many classes.

    A class goes to a number of clients in proportion to its samples (highest averages, at least one client), which
    share it equally; which clients hold which classes is random.

    Raises
    ------
    InvalidInput
        More classes a client than there are; fewer places than classes (some would be nowhere); classes too small to
        reach all the clients they are needed at; more clients than samples.
    """
    names, numbers = _classes(labels)
    _check_clients(len(numbers), num_clients)
    whole_number("classes", classes, most=len(names), remedy=f"the labels name {len(names)} classes")
    places = num_clients * int(classes)
    if places < len(names):
        raise InvalidInput(
            f"{num_clients} clients of {classes} classes cannot hold {len(names)} classes: raise one of the two"
        )
    amount = np.bincount(numbers)
    most = np.minimum(amount, num_clients)
    if most.sum() < places:
        raise InvalidInput(
            f"{num_clients} clients of {classes} classes need {places} pairs of client and class, "
            f"but the samples allow {most.sum()}: take fewer clients or fewer classes a client"
        )
    clients_of = np.ones(len(names), dtype=np.int64)
    for _ in range(places - len(names)):
        clients_of[np.argmax(np.where(clients_of < most, amount / (clients_of + 1), -1.0))] += 1

    g = Stream(seed).generator("partition classes")
    # Dealing runs of one class round the table gives every client different classes; random trades
    # then mix the deal.
    order = g.permutation(len(names))
    dealt = np.repeat(order, clients_of[order])
    holds = [set(dealt[k::num_clients].tolist()) for k in range(num_clients)]
    for i, j in g.integers(num_clients, size=(20 * places, 2)).tolist():
        mine, theirs = sorted(holds[i] - holds[j]), sorted(holds[j] - holds[i])
        if mine:
            a, b = mine[g.integers(len(mine))], theirs[g.integers(len(theirs))]
            holds[i] ^= {a, b}
            holds[j] ^= {a, b}
    parts: list[list[np.ndarray]] = [[] for _ in range(num_clients)]
    for c in range(len(names)):
        holders = g.permutation([k for k in range(num_clients) if c in holds[k]])
        pieces = np.array_split(g.permutation(np.flatnonzero(numbers == c)), len(holders))
        for k, piece in zip(holders, pieces, strict=True):
            parts[k].append(piece)
    parameters = {"num_clients": int(num_clients), "classes": int(classes)}
    return Partition(tuple(np.concatenate(p) for p in parts), "classes per client", parameters, seed)


def federate(
    dataset: Dataset, partition: Partition, problem_class: type[Problem] | None = None,
    ridge: float = 0.0, weights: Any = "uniform", **options: Any,
) -> Problem:
    """Data and a partition of them as a problem.

    Parameters
    ----------
    problem_class : a class such as `LeastSquares`, or None
        None chooses by the task: `LeastSquares`, `Logistic` or `Softmax`.
    ridge, weights, options
        Passed to the class.

    Raises
    ------
    InvalidInput
        A partition of another number of samples; whatever the class refuses.
    """
    for name, value, kind in (("dataset", dataset, Dataset), ("partition", partition, Partition)):
        if not isinstance(value, kind):
            raise InvalidInput(f"{name} is {shown(value)}: give a {kind.__name__}")
    if partition.num_samples != dataset.num_samples:
        raise InvalidInput(
            f"the partition deals {partition.num_samples} samples, but {dataset.name} has "
            f"{dataset.num_samples}: make the partition for these data"
        )
    if problem_class is None:
        problem_class = {"regression": LeastSquares, "binary": Logistic, "multiclass": Softmax}[dataset.task]
    features = [dataset.features[p] for p in partition.indices]
    targets = [dataset.targets[p] for p in partition.indices]
    if issubclass(problem_class, Softmax):
        options.setdefault("num_classes", dataset.num_classes)
        if dataset.task == "binary":
            targets = [(t > 0).astype(float) for t in targets]
    make: Any = problem_class  # of any class that takes samples
    return make(features, targets, ridge=ridge, weights=weights, **options)
