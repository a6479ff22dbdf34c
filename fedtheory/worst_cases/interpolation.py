"""Interpolation: losses of a class that have given gradients, and values that their conditions
allow.

Values that satisfy f_i - f_j >= c_ij for all pairs of points are differences along a graph: the
largest are lengths of shortest paths from the optimum. The loss is the least one of the class with
these gradients and values: a maximum of affine functions, smoothed where the class is smooth
(Taylor, Hendrickx and Glineur 2017, Theorem 4 and its proof).

A solver's vectors miss the conditions by 1e-9 or so, and a condition that is missed by epsilon
moves a gradient by sqrt(2 L epsilon). So they are mixed with a little of a run on parabolas, which
has every condition strictly. The conditions are linear in the Gram matrices and the values: the
mixture has them all with room, and its value is less by as little. The room also decides which
subgradient a loss with kinks has at a model: the worst case's alone is steepest there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np

from fedtheory.errors import NotCertified
from fedtheory.problems import MaxAffine, SmoothedMaxAffine
from fedtheory.problems.base import Problem
from fedtheory.worst_cases.classes import Losses, Point
from fedtheory.worst_cases.gram import common
from fedtheory.worst_cases.groups import Groups

__all__ = ["Pieces", "Placed", "factored", "least_losses", "mixed", "with_room", "zero"]

MIXED = tuple(10 ** (-9 + i / 4) for i in range(21))  # shares of the run on parabolas
LEAST = 1e-13  # room, of the largest difference of values: rounding to sixteen digits takes less
CURVATURES = ((0.381966,), (0.8, 0.3), (0.41, 0.041, 0.0041))  # of the parabolas in the class: no step makes them special
DROPPED = 1e-9  # of the largest eigenvalue of a Gram matrix of unit vectors: below it a direction is the solver's noise
Placed = tuple[np.ndarray, np.ndarray]  # positions and gradients (n, p, d) of the points of n clients, the optimum first


@dataclass(frozen=True)
class Pieces:
    """The parts of which a worst case's losses are made.

    Attributes
    ----------
    at, gradients : (N, p, d), relative to the optimum, which is the first point
    values : (N, p), 0 at the optimum
    start : (d,) x_0 - x*
    margin : by how much every condition holds at least
    vectors : dict block -> dict name -> the vectors that all of this is made of
    named : dict point -> the value there
    begun : dict name -> vectors of the clients (N, d) in which the method begins
    """

    at: np.ndarray
    gradients: np.ndarray
    values: np.ndarray
    start: np.ndarray
    margin: float
    vectors: Mapping[str, Mapping[str, np.ndarray]]
    named: Mapping[str, float]
    begun: Mapping[str, np.ndarray] = field(default_factory=dict)


def factored(gram: np.ndarray) -> np.ndarray:
    """Vectors (n, r) whose inner products are the solver's (n, n), without the directions that are noise."""
    lengths = np.sqrt(np.maximum(gram.diagonal(), 1e-300))
    sizes, axes = np.linalg.eigh((gram + gram.T) / 2 / np.outer(lengths, lengths))
    kept = sizes > DROPPED * sizes.max(initial=0.0)
    return lengths[:, None] * axes[:, kept] * np.sqrt(sizes[kept])


def zero(vectors: Mapping[Any, np.ndarray]) -> np.ndarray:
    """0 in the space of the vectors."""
    return np.zeros_like(next(iter(vectors.values()), np.zeros(0)))


def mixed(a: Mapping[Any, np.ndarray], b: Mapping[Any, np.ndarray], share: float) -> dict[Any, np.ndarray]:
    """Vectors whose Gram matrix is (1 - share) of the first ones' and share of the second's.

    They lie in orthogonal spaces; a vector that one side lacks is 0 there.
    """
    parts = [((1 - share) ** 0.5, a, zero(a)), (share**0.5, b, zero(b))]
    return {x: np.concatenate([c * of.get(x, nothing) for c, of, nothing in parts]) for x in {**a, **b}}


def with_room(
    mixed: Callable[[float, Any], Any], parabolas: Callable[[tuple[float, ...]], Any],
    placed: Callable[[Any], list[Placed]], within: Callable[[Any, list[Placed]], bool], losses: Sequence[Losses],
) -> tuple[Any, list[Placed], list[np.ndarray], float]:
    """The solver's vectors with the least share of a run on parabolas that gives conditions room.

    Parameters
    ----------
    mixed : callable(share, vectors of a run on parabolas) -> vectors
    parabolas : callable(curvatures) -> vectors
    placed : callable(vectors) -> positions and gradients of the clients of each class
    within : callable(vectors, placed) -> whether they are within the limits on distance and gradients
    losses : the classes

    Returns
    -------
    vectors, of each class positions and gradients, and values (n, p), and the room

    Raises
    ------
    NotCertified
        No share is enough.
    """
    def differences(here: list[Placed]) -> list[np.ndarray]:
        return [_least_differences(of, kind) for of, kind in zip(here, losses, strict=True)]

    runs = [parabolas(curvatures) for curvatures in CURVATURES]
    rooms = [min(_room(least) for of in differences(placed(run)) for least in of) for run in runs]
    for share, (run, room) in product(MIXED, zip(runs, rooms, strict=True)):
        vectors = mixed(share, run)
        here = placed(vectors)
        least = differences(here)
        if share * room < LEAST * max(float(np.abs(of).max()) for of in least):
            continue
        values = [[_values(own, share * room) for own in of] for of in least]
        if all(v is not None for of in values for v in of) and within(vectors, here):
            return vectors, here, [np.stack(of) for of in values], share * room  # type: ignore[arg-type]
    raise NotCertified(
        f"the solver's Gram matrices miss the conditions of the class by more than {MIXED[-1]:g} of a strictly convex run mends: "
        "ask for fewer rounds or local steps, or for numbers nearer to 1"
    )


def _least_differences(placed: Placed, losses: Losses) -> np.ndarray:
    """c_ij of f_i - f_j >= c_ij (n, p, p): the condition of two points, of which every pair has the same form."""
    condition = losses.condition(*(Point(name, common(f"x {name}"), common(f"g {name}")) for name in "ij"))
    values = {"x": placed[0], "g": placed[1]}
    products = {a + b: values[a] @ values[b].transpose(0, 2, 1) for a in "xg" for b in "xg"}
    out = np.zeros_like(products["xx"])
    for (_, a, b), number in condition.gram.items():
        product = products[a[0] + b[0]]
        if a[2] == b[2]:
            own = np.diagonal(product, axis1=1, axis2=2)
            product = own[:, :, None] if a[2] == "i" else own[:, None, :]
        elif a[2] == "j":
            product = product.transpose(0, 2, 1)
        out = out - float(number) * product
    return out


def _values(least: np.ndarray, room: float) -> np.ndarray | None:
    """The largest values with f_i - f_j >= c_ij + room, and 0 at the optimum, or None where there are none."""
    paths = -least - room  # f_j <= f_i + paths_ij
    np.fill_diagonal(paths, 0.0)
    for k in range(len(paths)):
        paths = np.minimum(paths, paths[:, k : k + 1] + paths[k : k + 1, :])
    return None if (paths.diagonal() < 0).any() else paths[0]


def _room(least: np.ndarray) -> float:
    """Half of the largest room for which there are values, or nearly so."""
    low, high = 0.0, float(np.abs(least).max())
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if _values(least, middle) is not None else (low, middle)
    return low / 2


def _balanced(gradients: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
    """The gradients (N, p, d), of which those at the optimum, the first ones, are rounded so that
    they add up to 0 with their weights: exactly where these are equal (None)."""
    own = gradients[:, 0]
    unit = 2.0 ** (np.ceil(np.log2(max(float(np.abs(own).max()), 2.0**-500))) - 48)
    own = np.round(own / unit) * unit
    own[-1] = -own[:-1].sum(axis=0) if weights is None else -(weights[:-1] @ own[:-1]) / weights[-1]
    return np.concatenate([own[:, None], gradients[:, 1:]], axis=1)


def least_losses(losses: Losses, at: np.ndarray, gradients: np.ndarray, values: np.ndarray) -> Problem:
    """The least losses of the class, or of each client's in groups, with these gradients and values, (N, p) or the same for
    all, at positions (N, p, d)."""
    every = losses.of_clients if isinstance(losses, Groups) else [losses] * len(at)
    weights: Any = losses.weights if isinstance(losses, Groups) and not losses.alike else None
    gradients, shares = _balanced(gradients, weights), "uniform" if weights is None else weights
    if losses.smoothness is None:
        made: Problem = MaxAffine(gradients, values - (gradients * at).sum(axis=-1), weights=shares)
    else:
        L, mu = (np.array([float(getattr(of, name)) for of in every]) for name in ("largest_curvature", "strong_convexity"))
        slopes = gradients - mu[:, None, None] * at  # of the loss without mu/2 ||x||^2, which is convex and (L - mu)-smooth
        offsets = values - mu[:, None] / 2 * (at * at).sum(axis=-1) - (slopes * at).sum(axis=-1)
        offsets = offsets + (slopes * slopes).sum(axis=-1) / (2 * (L - mu)[:, None])
        made = SmoothedMaxAffine(slopes, offsets, L, mu, minimiser=at[0, 0], weights=shares)
    if weights is not None:
        made.sample_counts = weights * len(weights)  # by which some methods average
    return made
