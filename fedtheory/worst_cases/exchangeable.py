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
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np

from fedtheory.errors import InvalidInput
from fedtheory.worst_cases.bounds import BOUND, Question, WorstCase, asked_points, branches
from fedtheory.worst_cases.classes import Losses, Point
from fedtheory.worst_cases.gram import DEVIATION, MEAN, Quadratic, Vector, entry, plus
from fedtheory.worst_cases.groups import Group, Groups
from fedtheory.worst_cases.identity import Family
from fedtheory.worst_cases.interpolation import Pieces, Placed, factored, mixed, with_room, zero
from fedtheory.worst_cases.programme import Solution, maximise
from fedtheory.worst_cases.runs import OPTIMUM

__all__ = ["Same", "apart", "of_exchangeable"]

START, OWN = "x0", "g*"  # the vectors that every worst case has: x_0 - x*, and the clients' gradients at x*
SMALLER = 0.618034  # of one group's mean gradient at the optimum to that before, and of the first to the start: no points meet
Vectors = dict[str, dict[str, np.ndarray]]  # block -> name -> vector


def of_exchangeable(found: WorstCase, q: Question, clients: int) -> Pieces:
    """Return what the losses of that many clients are made of; of groups of clients group by group.

    Raises
    ------
    InvalidInput
        Losses with kinks that start at the optimum.
    NotCertified
        The solver's matrices are too far from any losses of the class.
    """
    points, same = apart(q)
    solver, groups, run = _vectors(same.solution(found)), _groups(q), branches(q)[0]
    near = [same.form(run.conditions[name]) for name in run.assumed if name in run.conditions]
    of_each = [[p for p in points if p.group == g] for g in range(len(groups))]
    vectors, placed, values, room = with_room(
        lambda share, other: {block: mixed(solver.get(block, {}), other[block], share) for block in other},
        lambda between: _on_parabolas(points, q, between, near), lambda v: [_placed(of, v) for of in of_each],
        lambda v, here: _times(v, here, q, near) >= 1, [g.losses for g in groups],
    )
    split = len(zero(vectors[MEAN]))
    counts = [clients] if len(groups) == 1 else [g.clients or 1 for g in groups]
    at, gradients = (
        _together([_of_clients(here[part][0], split, n) for here, n in zip(placed, counts, strict=True)]) for part in (0, 1)
    )
    start = np.concatenate([vectors[MEAN].get(START, zero(vectors[MEAN])), np.zeros(at.shape[2] - split)])
    named = {p.name: float(x) for of, row in zip(of_each, values, strict=True) for p, x in zip(of, row[0], strict=True)}
    every = _together([np.repeat(row[:, :, None], n, axis=0) for row, n in zip(values, counts, strict=True)])[:, :, 0]
    begun = {}
    for name in run.assumed:
        rows = run.rows(run.vector(name)) if name in run.conditions else [of[0].gradient for of in of_each]
        own = [np.array([_both(same.of(v), of[0].gradient.block, vectors)]) for v, of in zip(rows, of_each, strict=True)]
        begun[name] = _together([_of_clients(v, split, n) for v, n in zip(own, counts, strict=True)])[:, 0]
    return Pieces(at, gradients, every, start, room, vectors, named, begun)


def _groups(q: Question) -> list[Group]:
    """The groups of clients, or all of them as one."""
    return list(q.losses.groups) if isinstance(q.losses, Groups) else [Group(1, q.losses, q.clients)]


def _together(parts: Sequence[np.ndarray]) -> np.ndarray:
    """Arrays (n, p, d) of groups as one: points are repeated, and coordinates that a group lacks are 0."""
    p, d = (max(part.shape[axis] for part in parts) for axis in (1, 2))
    longer = [part[:, [*range(part.shape[1]), *[0] * (p - part.shape[1])]] for part in parts]
    return np.concatenate([np.pad(part, ((0, 0), (0, 0), (0, d - part.shape[2]))) for part in longer])


def apart(q: Question) -> tuple[list[Point], Same]:
    """Points of which no two of a group have the same position: losses have one value there, and one gradient is enough.

    Raises
    ------
    InvalidInput
        Losses with kinks that are asked twice at the optimum, of which nothing says which subgradient comes.
    """
    every = asked_points(q)
    optima = {p.name: p.gradient for p in every[: len(_groups(q))]}
    own = dict.fromkeys(name for v in optima.values() for name in (*v.mean, *v.deviation))
    same = Same({name: None for name in ([START] if q.distance == 0 else [])}, optima)
    same.as_.update(own if q.heterogeneity == 0 else {})
    if q.losses.smoothness is None and START in same.as_:
        raise InvalidInput("distance = 0: losses with kinks may give any subgradient at the optimum; take a distance above 0")
    found: list[Point] = []
    for p in every:
        at = same.of(p.at)
        here = (o for o in found if o.group == p.group and (o.at.mean, o.at.deviation) == (at.mean, at.deviation))
        if (other := next(here, None)) is None:
            found.append(Point(p.name, at, same.of(p.gradient), p.group))
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
    optima : dict name of an optimum -> the gradients there
    """

    as_: dict[str, str | None]
    optima: Mapping[str, Vector] = field(default_factory=lambda: {OPTIMUM: Vector({}, {OWN: Fraction(1)})})

    def parts(self, block: str, name: str) -> dict[str, Any]:
        """Coefficients of the vectors that stand for one in that block."""
        left = self.as_.get(name, name)
        of = self.optima.get(left or "")
        made = {left: Fraction(1)} if of is None else of.mean if block == MEAN else of.deviation
        return {n: c for n, c in made.items() if n is not None and self.as_.get(n, n) is not None}

    def of(self, v: Vector) -> Vector:
        """The vector in what is left."""
        made = []
        for block, part in ((MEAN, v.mean), (DEVIATION, v.deviation)):
            total: dict[str, Any] = {}
            for name, c in part.items():
                total = plus(total, self.parts(block, name), c)
            made.append(total)
        return Vector(*made, block=v.block)

    def form(self, q: Quadratic) -> Quadratic:
        """The form in what is left."""
        out: dict[Any, Any] = {}
        for (block, x, y), c in q.gram.items():
            for (left, a), (right, b) in product(self.parts(block, x).items(), self.parts(block, y).items()):
                out = plus(out, {entry(block, left, right): a * b}, c)
        return Quadratic(out, {}, q.constant) + Quadratic.total(Quadratic(values={self.as_.get(p, p): c}) for p, c in q.values.items())

    def solution(self, found: WorstCase) -> Solution:
        """The solution, computed once more without the vectors that are 0: the solver knows these to 1e-5 only."""
        if None not in self.as_.values():
            return found.solution
        terms = {name: self.form(term) for name, term in found.family.terms.items()}
        terms = {name: term for name, term in terms.items() if term != Quadratic()}
        return maximise(Family(self.form(found.family.start), terms, found.family.signed), BOUND)


def _vectors(solution: Solution) -> Vectors:
    """Vectors whose inner products are the solver's."""
    out: Vectors = {}
    for block, gram in solution.gram.items():
        out[block] = dict(zip(solution.rows[block], factored(gram), strict=True))
    return out


def _on_parabolas(
    points: Sequence[Point], q: Question, between: Sequence[float], near: Sequence[Quadratic] = ()
) -> Vectors:  # fmt: skip
    """The vectors of a run of two clients, of each group of several, on parabolas of curvatures inside the class: every
    condition holds strictly, and squares are at most half of what the limits allow.

    ``between`` says, coordinate by coordinate, where the first client's curvature lies between the
    least and the largest; ``near`` what vectors are at least 0 in which the method begins.
    """
    groups = _groups(q)
    G = max(float(g.losses.lipschitz or 1) for g in groups)
    own = float(q.heterogeneity) if q.heterogeneity is not None else G
    share = np.stack([np.array(between), 0.4 * np.array(between)])  # (2, n)
    of_each = [[p for p in points if p.group == g] for g in range(len(groups))]
    firsts, optima = {of[0].name for of in of_each}, [of[0].gradient for of in of_each]
    size = np.ones(len(between))
    out: Vectors = {MEAN: {START: size * float(q.distance)}}
    for n, v in enumerate(optima, 1):
        out[MEAN].update({name: SMALLER**n * size * own for name in v.mean if name not in out[MEAN]})
        out.setdefault(v.block, {}).update({name: size * own for name in v.deviation})
    for block, name in {(block, x) for form in near for block, *pair in form.gram for x in pair}:
        out[block].setdefault(name, SMALLER * size * own)

    def total(block: str, part: Mapping[str, Any]) -> np.ndarray:
        return _sum(out[block], part) if part else 0 * size

    for p in (p for p in points if p.name not in firsts):
        group, star = groups[p.group], optima[p.group]
        signs = np.array([[1.0], [-1.0]] if group.clients != 1 or len(groups) == 1 else [[1.0]])
        mean, deviation = ({n: c for n, c in part.items() if n != p.name} for part in (p.at.mean, p.at.deviation))
        known, own_slope = (
            total(MEAN, a) + signs * total(star.block, b) for a, b in ((mean, deviation), (star.mean, star.deviation))
        )
        curvatures = _between(group.losses, q, share[: len(signs)])
        found = (curvatures * known + own_slope) / (1 - curvatures * float(p.at.mean.get(p.name, 0)))
        out[MEAN][p.name] = found.mean(axis=0)
        if len(signs) > 1:
            out[star.block][p.name] = (found[0] - found[1]) / 2
    times = 0.5**0.5 * _times(out, [_placed(of, out) for of in of_each], q, near)  # all of it grows alike
    return {block: {name: times * v for name, v in of.items()} for block, of in out.items()}


def _between(losses: Losses, q: Question, share: np.ndarray) -> np.ndarray:
    """Curvatures that lie a share of the way between the least and the largest of a class."""
    mu, largest = float(losses.strong_convexity), losses.smoothness
    return mu + share * (float(largest if largest is not None else (losses.lipschitz or 1) / q.distance) - mu)


def _sum(vectors: Mapping[str, np.ndarray], coefficients: Mapping[str, Any]) -> np.ndarray:
    """The combination of vectors of one block."""
    return sum((float(c) * vectors[name] for name, c in coefficients.items()), zero(vectors))


def _placed(points: Sequence[Point], vectors: Vectors) -> Placed:
    """Positions and gradients of the points (1, p, d) of a group, the same for every client: the mean's
    coordinates, then the deviation's."""
    block = points[0].gradient.block
    at, gradients = ([[_both(v, block, vectors) for v in of]] for of in ([p.at for p in points], [p.gradient for p in points]))
    return np.array(at), np.array(gradients)


def _both(v: Vector, block: str, vectors: Vectors) -> np.ndarray:
    """The mean's coordinates of a vector, then the deviation's."""
    return np.concatenate([_sum(vectors[MEAN], v.mean), _sum(vectors.get(block, {}), v.deviation)])


def _times(vectors: Vectors, placed: Sequence[Placed], q: Question, near: Sequence[Quadratic] = ()) -> float:
    """By how much the vectors may be multiplied: up to the limits on the distance, the gradients at the optimum, bounded
    gradients and vectors in which the method begins."""
    groups, start = _groups(q), vectors[MEAN].get(START, zero(vectors[MEAN]))
    sizes = [(float(start @ start), q.distance)]
    if q.heterogeneity is not None:
        stars = [float(g.share) * float((of[1][0, 0] ** 2).sum()) for g, of in zip(groups, placed, strict=True)]
        sizes.append((sum(stars), q.heterogeneity))
    for g, of in zip(groups, placed, strict=True):
        if (bound := g.losses.lipschitz) is not None:
            sizes += [(float(v @ v), bound) for v in of[1][0]]
    for form in near:
        size = -sum(float(c) * float(vectors[block][x] @ vectors[block][y]) for (block, x, y), c in form.gram.items())
        sizes.append((size, float(form.constant) ** 0.5))
    return min((float(limit) / size**0.5 for size, limit in sizes if size > 0), default=1.0)


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
