"""The losses of a worst case of exchangeable clients, from the Gram matrices of their means and
their deviations.

Factored the two matrices are vectors: the mean of every gradient in one space, its deviation in
another. With unit vectors e_k that add up to 0, client k gets mean + deviation (x) e_k: +1 and -1
for halves of the clients, corners of a regular polygon where their number is odd. Every client then
has the same Gram matrix, that of means plus deviations, so that what the interpolation conditions
say in the mean holds for each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from fedtheory.errors import InvalidInput
from fedtheory.worst_cases.bounds import BOUND, Question, WorstCase, asked_points
from fedtheory.worst_cases.classes import Point
from fedtheory.worst_cases.gram import DEVIATION, MEAN, Quadratic, Vector, entry
from fedtheory.worst_cases.identity import Family
from fedtheory.worst_cases.interpolation import Pieces, Placed, factored, mixed, with_room, zero
from fedtheory.worst_cases.programme import Solution, maximise
from fedtheory.worst_cases.runs import OPTIMUM

__all__ = ["Same", "apart", "of_exchangeable"]

START, OWN = "x0", "g*"  # the vectors that every worst case has: x_0 - x*, and the clients' gradients at x*
Vectors = dict[str, dict[str, np.ndarray]]  # block -> name -> vector


def of_exchangeable(found: WorstCase, q: Question, clients: int) -> Pieces:
    """Return what the losses of that many clients are made of.

    Raises
    ------
    InvalidInput
        Losses with kinks that start at the optimum.
    NotCertified
        The solver's matrices are too far from any losses of the class.
    """
    points, same = apart(q)
    solver = _vectors(same.solution(found))
    vectors, placed, values, room = with_room(
        lambda share, other: {block: mixed(solver[block], other[block], share) for block in solver},
        lambda between: _on_parabolas(points, q, between), lambda v: _placed(points, v),
        lambda v, here: _within(v, here, q), q.losses,
    )
    split = len(zero(vectors[MEAN]))
    at, gradients = (_of_clients(v[0], split, clients) for v in placed)
    start = np.concatenate([vectors[MEAN].get(START, zero(vectors[MEAN])), np.zeros(at.shape[2] - split)])
    named = {p.name: float(value) for p, value in zip(points, values[0], strict=True)}
    return Pieces(at, gradients, np.repeat(values, clients, axis=0), start, room, vectors, named)


def apart(q: Question) -> tuple[list[Point], Same]:
    """Points of which no two have the same position: losses have one value there, and one gradient is enough.

    Raises
    ------
    InvalidInput
        Losses with kinks that are asked twice at the optimum, of which nothing says which subgradient comes.
    """
    same = Same({name: None for name, size in ((START, q.distance), (OWN, q.heterogeneity)) if size == 0})
    if q.losses.smoothness is None and START in same.as_:
        raise InvalidInput("distance = 0: losses with kinks may give any subgradient at the optimum; take a distance above 0")
    found: list[Point] = []
    for p in asked_points(q):
        at = same.of(p.at)
        other = next((o for o in found if (o.at.mean, o.at.deviation) == (at.mean, at.deviation)), None)
        if other is None:
            found.append(Point(p.name, at, same.of(p.gradient)))
        else:
            same.as_[p.name] = other.name
    return found, same


@dataclass(frozen=True)
class Same:
    """Vectors that are others, or 0: what is asked twice at a point, the start at distance 0,
    gradients that are 0 at the optimum.

    Attributes
    ----------
    as_ : dict name -> the name of the point whose gradient it is, or None for 0
    """

    as_: dict[str, str | None]

    def name(self, block: str, name: str) -> str | None:
        """Return the name that stands for the vector in that block; None for 0."""
        name_ = self.as_.get(name, name)
        if name_ == OPTIMUM:
            name_ = self.as_.get(OWN, OWN) if block == DEVIATION else None
        return name_

    def of(self, v: Vector) -> Vector:
        """The vector in what is left."""
        parts = []
        for block, part in ((MEAN, v.mean), (DEVIATION, v.deviation)):
            total = Vector()
            for name, c in part.items():
                if (left := self.name(block, name)) is not None:
                    total = total + Vector({left: c})
            parts.append(total.mean)
        return Vector(*parts)

    def form(self, q: Quadratic) -> Quadratic:
        """The form in what is left."""
        out = Quadratic(constant=q.constant)
        for (block, x, y), c in q.gram.items():
            left, right = self.name(block, x), self.name(block, y)
            if left is not None and right is not None:
                out = out + Quadratic({entry(block, left, right): c})
        return out + Quadratic.total(Quadratic(values={self.as_.get(p, p): c}) for p, c in q.values.items())

    def solution(self, found: WorstCase) -> Solution:
        """The solution, computed once more without the vectors that are 0: the solver knows these to 1e-5 only."""
        if None not in self.as_.values():
            return found.solution
        terms = {name: self.form(term) for name, term in found.family.terms.items()}
        terms = {name: term for name, term in terms.items() if term != Quadratic()}
        return maximise(Family(self.form(found.family.start), terms, found.family.signed), BOUND)


def _vectors(solution: Solution) -> Vectors:
    """Vectors whose inner products are the solver's."""
    out: Vectors = {MEAN: {}, DEVIATION: {}}
    for block, gram in solution.gram.items():
        out[block] = dict(zip(solution.rows[block], factored(gram), strict=True))
    return out


def _on_parabolas(points: Sequence[Point], q: Question, between: Sequence[float]) -> Vectors:
    """The vectors of a run of two clients on parabolas of curvatures inside the class: every
    condition holds strictly, and every limit.

    ``between`` says, coordinate by coordinate, where the first client's curvature lies between the
    least and the largest.
    """
    largest, mu = q.losses.smoothness, float(q.losses.strong_convexity)
    L = float(largest if largest is not None else (q.losses.lipschitz or 1) / q.distance)
    apart = q.heterogeneity if q.heterogeneity is not None else q.losses.lipschitz or Fraction(1)
    curvatures = mu + np.stack([np.array(between), 0.4 * np.array(between)]) * (L - mu)  # (2, n)
    signs, scale = np.array([[1.0], [-1.0]]), 0.5 / len(between)
    while True:
        out: Vectors = {
            MEAN: {START: np.full(len(between), scale * float(q.distance))},
            DEVIATION: {OWN: np.full(len(between), scale * float(apart))},
        }
        for p in points[1:]:
            mean, deviation = (
                _sum(out[block], {n: c for n, c in at.items() if n != p.name})
                for block, at in ((MEAN, p.at.mean), (DEVIATION, p.at.deviation))
            )
            found = curvatures * (mean + signs * deviation) + signs * out[DEVIATION][OWN]
            found = found / (1 - curvatures * float(p.at.mean.get(p.name, 0)))
            out[MEAN][p.name], out[DEVIATION][p.name] = (found[0] + found[1]) / 2, (found[0] - found[1]) / 2
        if _within(out, _placed(points, out), q, part=0.5):
            return out
        scale /= 2


def _sum(vectors: Mapping[str, np.ndarray], coefficients: Mapping[str, Any]) -> np.ndarray:
    """The combination of vectors of one block."""
    return sum((float(c) * vectors[name] for name, c in coefficients.items()), zero(vectors))


def _placed(points: Sequence[Point], vectors: Vectors) -> Placed:
    """Positions and gradients of the points (1, p, d), the same for every client: the mean's
    coordinates, then the deviation's."""
    def both(v: Vector) -> np.ndarray:
        return np.concatenate([_sum(vectors[MEAN], v.mean), _sum(vectors[DEVIATION], v.deviation)])

    return np.array([[both(p.at) for p in points]]), np.array([[both(p.gradient) for p in points]])


def _within(vectors: Vectors, placed: Placed, q: Question, part: float = 1.0) -> bool:
    """True if the distance, the gradients at the optimum and bounded gradients are within that part
    of their limits (squared)."""
    sizes = [(vectors[b][name], limit) for b, name, limit in ((MEAN, START, q.distance), (DEVIATION, OWN, q.heterogeneity))
             if limit is not None and name in vectors[b]]  # fmt: skip
    if q.losses.lipschitz is not None:
        sizes += [(g, q.losses.lipschitz) for g in placed[1][0]]
    return all(float(v @ v) <= part * float(limit) ** 2 for v, limit in sizes)


def _of_clients(vectors: np.ndarray, split: int, clients: int) -> np.ndarray:
    """Each client's vectors (N, p, d') from (p, d), of which the first ``split`` coordinates are the mean's."""
    if clients % 2 == 0:
        turns = np.where(np.arange(clients) % 2 == 0, 1.0, -1.0)[:, None]
    else:
        angles = 2 * np.pi * np.arange(clients) / clients
        turns = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    mean = np.repeat(vectors[None, :, :split], clients, axis=0)
    own = np.einsum("pi,nj->npij", vectors[:, split:], turns).reshape(clients, len(vectors), -1)
    return np.concatenate([mean, own], axis=2)
