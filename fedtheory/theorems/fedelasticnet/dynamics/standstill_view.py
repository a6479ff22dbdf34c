"""All fixed points of Algorithm 1 with everyone taking part, by coordinates, in fractions."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from fedtheory.errors import InvalidInput
from fedtheory.theorems.fedelasticnet.exact_pieces import PiecewiseLosses
from fedtheory.theorems.fedelasticnet.quantities import exact_s
from fedtheory.theorems.fedelasticnet.world import ElasticWorld
from fedtheory.theory.fields import derived
from fedtheory.theory.judge.view import Fact

__all__ = ["AGREE", "PARABOLAS", "SMOOTH_CLIENTS", "StandstillView"]

PARABOLAS = Fact("quadratic losses", lambda q: not any(p.ramps for row in q.pieces for p in row))
AGREE = Fact(
    "points where every client's slope is at most lambda_1", lambda q: q.agreed is not None
)
SMOOTH_CLIENTS = Fact("smooth losses", lambda q: q.beta is not None)
ZERO = Fraction(0)


@dataclass(kw_only=True)
class StandstillView(ElasticWorld):
    """Algorithm 1 with full participation on separable losses; m clients, d coordinates, fractions.

    Attributes
    ----------
    pieces : m rows of d losses (`fedtheory.theorems.fedelasticnet.exact_pieces.Piece`)
    weights : (m,) w_k = n_k/n
    start : (d,) theta^0
    rounds : how many rounds are followed
    """

    pieces: Sequence[Sequence[Any]]
    weights: Any
    lambda1: Any
    lambda2: Any
    start: Any
    rounds: int

    d = derived(lambda v: len(v.start))

    losses = derived(lambda v: PiecewiseLosses(v.pieces, v.start))
    beta = derived(
        lambda v: v.losses.beta, "the largest curvature of a client; None where a slope jumps"
    )

    def moves(self, x: Any) -> Any:
        """delta_k at the model x (d,): (m, d)."""
        every = np.stack([x] * len(self.pieces))
        return self.losses.minimise(every, 0 * every, self.lambda1, self.lambda2) - every

    def mean(self, values: Any) -> Any:
        """sum_k w_k over the clients: (m, d) -> (d,)."""
        return (values * self.weights[:, None]).sum(axis=0)

    def slopes(self, x: Any) -> Any:
        """L_k' at x (d,), at a jump the subgradient of least size: (m, d)."""
        return self.losses.gradients(x)

    def slopes_each(self, y: Any) -> Any:
        """L_k' at a point of its own each: (m, d) -> (m, d)."""
        return self.losses.gradients_each(y)

    def subgradients(self, x: Any) -> Any:
        """lambda_1 s_k at the model x, from the optimality of the local models: (m, d)."""
        return exact_s(self.moves(x), self.lambda1, -self.slopes(x))

    @cached_property
    def weighted(self) -> PiecewiseLosses:
        """Losses whose plain mean is R_w = sum_k w_k L_k."""
        parts = zip(self.pieces, self.weights * len(self.pieces), strict=True)
        return PiecewiseLosses([[p * w for p in row] for row, w in parts], self.start)

    star = derived(lambda v: v.weighted.theta_star, "the minimiser of R_w nearest to the start")

    def excess(self, x: Any) -> Any:
        """R_w(x) - R*."""
        return self.weighted.excess(x)

    @cached_property
    def agreed(self) -> tuple[Any, Any] | None:
        """The ends of the box in which every |L_k'| <= lambda_1, (d,) each; None where it is empty or not bounded."""
        low, high = [], []
        for column in zip(*self.pieces, strict=True):
            ends = [_between(p, -self.lambda1, self.lambda1) for p in column]
            if None in ends:
                return None
            lows = [e[0] for e in ends if e[0] is not None]  # type: ignore[index]
            highs = [e[1] for e in ends if e[1] is not None]  # type: ignore[index]
            if not lows or not highs or max(lows) > min(highs):
                return None
            low.append(max(lows))
            high.append(min(highs))
        return np.array(low, dtype=object), np.array(high, dtype=object)

    @cached_property
    def ends(self) -> tuple[Any, Any]:
        """The least and the largest fixed point of every coordinate: (d,) each.

        Raises
        ------
        InvalidInput
            A coordinate without a fixed point, or whose fixed points have no end.
        """
        found = [self._zeros(i) for i in range(self.d)]
        return tuple(np.array([pair[n] for pair in found], dtype=object) for n in (0, 1))  # type: ignore[return-value]

    def _corners(self, i: int) -> list[Fraction]:
        """The models at which some delta_k bends, or any one where none does: between them the mean move is linear."""
        corners: set[Fraction] = set()
        for row in self.pieces:
            p = row[i]
            for level in (-self.lambda1, self.lambda1):
                corners |= {x for x in (p.where(level) or ()) if x is not None}
            for b in p.breakpoints:
                corners |= {b + (s + sign * self.lambda1) / self.lambda2 for s in p.slopes(b) for sign in (-1, 1)}
                corners.add(b)
        return sorted(corners) or [ZERO]

    def _zeros(self, i: int) -> tuple[Fraction, Fraction]:
        """The points at which the mean move of coordinate i, nonincreasing in the model, is 0."""

        def move(x: Fraction) -> Fraction:
            local = (row[i].minimise(x, ZERO, self.lambda1, self.lambda2) for row in self.pieces)
            return sum((w * (y - x) for w, y in zip(self.weights, local, strict=True)), ZERO)

        points = self._corners(i)
        points = [points[0] - 2, points[0] - 1, *points, points[-1] + 1, points[-1] + 2]
        values = [move(x) for x in points]
        zeros: list[Fraction] = []
        for (x, a), (y, b) in zip(zip(points, values, strict=True), zip(points[1:], values[1:], strict=True), strict=False):
            if a != b:
                root = x + a * (y - x) / (a - b)
                first, last = x == points[0], y == points[-1]
                if (x <= root <= y) or (first and root < x) or (last and root > y):
                    zeros.append(root)
        flat = any(a == b == 0 for a, b in (values[:2], values[-2:]))
        if flat or not zeros:
            why = "has no end" if flat else "has none: the mean move is 0 nowhere"
            remedy = "take losses whose slopes exceed lambda_1 on both sides"
            raise InvalidInput(f"fixed points of coordinate {i}: the interval {why}; {remedy}")
        return min(zeros), max(zeros)

    @cached_property
    def limit(self) -> Any:
        """The fixed point nearest to the start: (d,)."""
        return np.array([_clipped(x, a, b) for x, a, b in zip(self.start, *self.ends, strict=True)], dtype=object)

    @cached_property
    def path(self) -> Any:
        """theta^0..theta^T: (T + 1, d)."""
        out = [self.start]
        for _ in range(self.rounds):
            out.append(out[-1] + self.mean(self.moves(out[-1])))
        return np.stack(out)


def _clipped(x: Fraction, low: Fraction | None, high: Fraction | None) -> Fraction:
    return low if low is not None and x < low else high if high is not None and x > high else x


def _between(p: Any, low: Fraction, high: Fraction) -> tuple[Fraction | None, Fraction | None] | None:
    """The interval in which some subgradient lies in [low, high]; None for an end at infinity, or where there is none."""
    first, last = p.limits
    if (first is not None and first > high) or (last is not None and last < low):
        return None
    left, right = p.where(low), p.where(high)
    return left[0] if left else None, right[1] if right else None
