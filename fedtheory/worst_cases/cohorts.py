"""The losses of a worst case over all cohorts, from the blocks of its Gram matrix.

A block is the Gram matrix on the image of a Young symmetriser, whose basis b_1, b_2, ... has integer coefficients on the
labels (vector, client, history). The Gram matrix of the labels themselves is

    M(x, y) = mean over the permutations g of sum over blocks, i and j of Z_ij b_i(g x) b_j(g y),

which is positive semidefinite and the same for all orders of the clients. Factored it gives every label a vector, and every
client gradients at the models of every history.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np

from fedtheory.participation.cohorts import Cohort, Sampling
from fedtheory.randomness import Stream
from fedtheory.worst_cases.bounds import Question, WorstCase, grown
from fedtheory.worst_cases.classes import Point
from fedtheory.worst_cases.gram import Quadratic, entry
from fedtheory.worst_cases.identity import Family
from fedtheory.worst_cases.interpolation import Pieces, Placed, factored, mixed, with_room
from fedtheory.worst_cases.programme import Solution
from fedtheory.worst_cases.runs import OPTIMUM
from fedtheory.worst_cases.tree import COMMON, WHOLE, Label, Row, Tree, moved, written

__all__ = ["EveryCohort", "of_cohorts", "whole_family"]

START: Label = ("x0", COMMON, ())
Vectors = dict[Label, np.ndarray]


@dataclass(frozen=True)
class EveryCohort(Sampling):
    """P clients in every round, in scenario s those of the s-th of all ways to draw them."""

    size: int

    def sample(self, stream: Stream, round_index: int, scenarios: range, num_clients: int) -> Cohort:
        every = np.array(list(combinations(range(num_clients), self.size)))
        which = np.array(scenarios) // len(every) ** (round_index - 1) % len(every)
        return Cohort(num_clients, members=every[which], active_probability=np.full(num_clients, self.size / num_clients))


def of_cohorts(found: WorstCase, q: Question) -> Pieces:
    """Return what the losses are made of.

    Raises
    ------
    NotCertified
        The solver's matrices are too far from any losses of the class.
    """
    tree = grown(q)[0]
    labels = sorted({label for points in tree.points.values() for p in points for row in (p.at, p.gradient) for label in row.of})
    points, same = _apart(tree)
    solver = dict(zip(labels, factored(_gram(tree, found.solution, labels)), strict=True))
    vectors, [(at, gradients)], [values], room = with_room(
        lambda share, other: mixed(solver, other, share),
        lambda between: _on_parabolas(tree, q, between), lambda v: [_placed(points, v)],
        lambda v, here: _within(v, here[0], q), [q.losses],
    )
    vectors |= {label: vectors[to] for label, to in same.items()}
    named = {p.name: float(x) for of, row in zip(points, values, strict=True) for p, x in zip(of, row, strict=True)}
    named |= {label: named[to] for label, to in same.items()}
    words = {written(label): v for label, v in vectors.items()}
    return Pieces(at, gradients, values, vectors[START], room, {WHOLE: words}, {written(p): x for p, x in named.items()})


def whole_family(q: Question) -> Family:
    """The criterion and the conditions of every client, no symmetry used: names are words."""
    tree, start, extra = grown(q)
    terms = {"start": tree.square({(): tree.start}) - Quadratic(constant=q.distance**2), **extra}
    if q.heterogeneity is not None:
        terms["heterogeneity"] = tree.heterogeneity() - Quadratic(constant=q.heterogeneity**2)
    for of in zip(*tree.points.values(), strict=True):
        terms |= {name: -condition for name, condition in q.losses.conditions(of).items()}
    terms |= {f"<{written(label)}>": -condition for label, condition in tree.extra.items()}
    return Family(_worded(start), {str(name): _worded(term) for name, term in terms.items()}, frozenset())


def _worded(q: Quadratic) -> Quadratic:
    gram = {entry(block, written(x), written(y)): c for (block, x, y), c in q.gram.items()}
    return Quadratic(gram, {p if isinstance(p, str) else written(p): c for p, c in q.values.items()}, q.constant)


def _gram(tree: Tree, solution: Solution, labels: Sequence[Label]) -> np.ndarray:
    """M of the labels."""
    index = {label: i for i, label in enumerate(labels)}
    total = np.zeros((len(labels), len(labels)))
    bases = tree.bases(labels)
    for block, names in solution.rows.items():
        basis = np.zeros((len(labels), len(names)))
        for j, name in enumerate(names):
            for label, number in bases[block, name].items():
                basis[index[label], j] = number
        total += basis @ solution.gram[block] @ basis.T
    turns = [[index[moved(label, g)] for label in labels] for g in tree.group]
    return sum((total[np.ix_(turn, turn)] for turn in turns), np.zeros_like(total)) / len(turns)


def _apart(tree: Tree) -> tuple[list[list[Point[Row]]], dict[Label, Label]]:
    """Every client's points, of which no two have the same position, and which stands for one that was left out."""
    out: list[list[Point[Row]]] = [[] for _ in range(tree.clients)]
    same: dict[Any, Any] = {}
    for points in tree.points.values():
        for kept, p in zip(out, points, strict=True):
            other = next((o for o in kept if dict(p.at.of) == dict(o.at.of)), None)
            if other is None:
                kept.append(p)
            else:
                same[p.name] = other.name
    return out, same


def _placed(points: Sequence[Sequence[Point[Row]]], vectors: Vectors) -> Placed:
    """Positions and gradients (N, p, d)."""
    at, gradients = ([[_sum(getattr(p, name), vectors) for p in of] for of in points] for name in ("at", "gradient"))
    return np.array(at), np.array(gradients)


def _sum(row: Row, vectors: Vectors, without: Label | None = None) -> np.ndarray:
    """The combination of vectors."""
    return sum((float(c) * vectors[x] for x, c in row.of.items() if x != without), np.zeros_like(vectors[START]))


def _on_parabolas(tree: Tree, q: Question, between: Sequence[float]) -> Vectors:
    """The vectors of a run on parabolas of curvatures inside the class, another for each client and
    coordinate, within the limits."""
    largest, mu, N = q.losses.smoothness, float(q.losses.strong_convexity), tree.clients
    L = float(largest if largest is not None else (q.losses.lipschitz or 1) / (q.distance or 1))
    apart = q.heterogeneity if q.heterogeneity is not None else q.losses.lipschitz or Fraction(1)
    curvatures = mu + np.linspace(1, 0.4, N)[:, None] * np.array(between) * (L - mu)
    scale = 0.5 / len(between)
    while True:
        out: Vectors = {START: np.full(len(between), scale * float(q.distance))}
        for k, size in enumerate(np.cos(1 + 2 * np.arange(N))):  # no client's is 0 once the mean is taken
            out[_at_optimum(k)] = np.full(len(between), scale * float(apart) * size)
        own = [_sum(row, out) for row in tree.optimum.rows]
        for (name, history), points in tree.points.items():
            for k, p in enumerate(points if name != OPTIMUM else ()):
                label = (name, k, history)
                known = _sum(p.at, out, without=label)
                out[label] = (curvatures[k] * known + own[k]) / (1 - curvatures[k] * float(p.at.of.get(label, 0)))
        every = [list(of) for of in zip(*tree.points.values(), strict=True)]
        if _within(out, _placed(every, out), q, part=0.5):
            return out
        scale /= 2


def _at_optimum(client: int) -> Label:
    """The label of a client's gradient at the optimum, from which the mean is to be taken."""
    return ("g*", client, ())


def _within(vectors: Vectors, placed: Placed, q: Question, part: float = 1.0) -> bool:
    """True if the distance, the gradients at the optimum and bounded gradients are within that part
    of their limits (squared)."""
    squares = (placed[1] ** 2).sum(axis=-1)
    sizes = [(float(vectors[START] @ vectors[START]), q.distance)]
    if q.heterogeneity is not None:
        sizes.append((float(squares[:, 0].mean()), q.heterogeneity))
    if q.losses.lipschitz is not None:
        sizes.append((float(squares.max()), q.losses.lipschitz))
    return all(has <= part * float(limit) ** 2 for has, limit in sizes)
