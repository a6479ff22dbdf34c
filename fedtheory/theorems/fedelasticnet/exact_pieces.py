"""Convex piecewise quadratic losses, a coordinate at a time, in fractions: quadratics, Huber losses, clipped slopes, |x|.

A loss of one coordinate is given by its slope, which is nondecreasing and linear between breakpoints:

    L'(x) = slope + curvature (x - centre) + sum over the ramps (p, q, G) of G clip((x - p)/(q - p), 0, 1).

A ramp rises by G between p and q; with p = q it is a jump, and the slope at p is the interval between its two ends. |x - c| is
the slope -1 with the ramp (c, c, 2), and a Huber loss of width w is the slope -w with the ramp (c - w, c + w, 2 w).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from types import SimpleNamespace
from typing import Any

import numpy as np

from fedtheory.arrays import read_only
from fedtheory.errors import InvalidInput
from fedtheory.local.objective import LocalObjective, LocalResult, LocalSolver
from fedtheory.participation.cohorts import Cohort
from fedtheory.rational import fraction, objects
from fedtheory.theory import derived
from fedtheory.theory.rounds.losses import Unbounded, corners, minimum
from fedtheory.theory.rounds.rational_clients import SlotClients, SlotWork

__all__ = ["ZERO", "Everyone", "Piece", "PiecewiseLosses", "absolute", "clipped", "huber", "piece_of", "quadratic", "ramp"]

ZERO = Fraction(0)
_FIELDS = ("slope", "curvature", "centre", "ramps")


@dataclass(frozen=True)
class Piece:
    """A convex loss of one number, by its slope.

    Attributes
    ----------
    slope, curvature, centre : L'(x) without the ramps is slope + curvature (x - centre); curvature >= 0
    ramps : (p, q, G) with p <= q and G > 0
    """

    slope: Fraction = ZERO
    curvature: Fraction = ZERO
    centre: Fraction = ZERO
    ramps: tuple[tuple[Fraction, Fraction, Fraction], ...] = ()

    def __add__(self, other: Piece) -> Piece:
        slope = self.slope + other.slope - self.curvature * self.centre - other.curvature * other.centre
        return Piece(slope, self.curvature + other.curvature, ZERO, (*self.ramps, *other.ramps))

    def __mul__(self, factor: Fraction) -> Piece:
        """factor * L for a factor > 0."""
        ramps = tuple((p, q, factor * g) for p, q, g in self.ramps)
        return Piece(factor * self.slope, factor * self.curvature, self.centre, ramps)

    corners = derived(
        lambda v: corners(v.curvature, v.slope - v.curvature * v.centre, v.ramps),
        "the slope's `fedtheory.theory.rounds.losses.corners`",
    )

    def slopes(self, x: Fraction) -> tuple[Fraction, Fraction]:
        """The least and the largest subgradient at x."""
        points, pieces = self.corners
        (k, s), (k2, s2) = pieces[bisect_left(points, x)], pieces[bisect_right(points, x)]
        return k * x + s, k2 * x + s2

    def value(self, x: Fraction) -> Fraction:
        """L(x), with L = curvature (x - centre)^2/2 + slope x left of all ramps."""
        total = self.slope * x + self.curvature * (x - self.centre) ** 2 / 2
        for p, q, g in self.ramps:
            if x >= q:
                total += g * (x - (p + q) / 2)
            elif x > p:
                total += g * (x - p) ** 2 / (2 * (q - p))
        return total

    @property
    def limits(self) -> tuple[Fraction | None, Fraction | None]:
        """The slopes at minus and plus infinity; None where they are infinite."""
        pieces = self.corners[1]
        return (None, None) if self.curvature else (pieces[0][1], pieces[-1][1])

    breakpoints = derived(
        lambda v: v.corners[0], "The points at which the slope bends or jumps, in order"
    )

    @property
    def beta(self) -> Fraction | None:
        """The largest curvature; None where the slope jumps."""
        jumps = any(p == q for p, q, _ in self.ramps)
        return None if jumps else max(k for k, _ in self.corners[1])

    def where(self, level: Fraction) -> tuple[Fraction | None, Fraction | None] | None:
        """The closed interval of the x at which `level` is a subgradient; None for an end at infinity, or for no such x."""
        points, pieces = self.corners
        try:
            return minimum(points, [(k, s - level) for k, s in pieces])[:2]
        except Unbounded:
            return None

    def minimise(self, anchor: Fraction, g: Fraction, l1: Fraction, l2: Fraction) -> Fraction:
        """argmin over y of L(y) - g y + l2/2 (y - anchor)^2 + l1 |y - anchor|, l2 > 0."""
        low, high = self.slopes(anchor)
        if low - l1 <= g <= high + l1:
            return anchor
        level = g - l1 if g > high + l1 else g + l1  # to the right, or to the left
        if not self.ramps:
            return anchor + (level - low) / (self.curvature + l2)
        steeper = self + Piece(curvature=l2, centre=anchor)
        return steeper.where(level)[0]  # type: ignore[index, return-value]

    def to_file(self) -> dict[str, Any]:
        """As a witness holds it: what is 0 is left out."""
        out: dict[str, Any] = {k: str(v) for k in _FIELDS[:3] if (v := getattr(self, k))}
        return out | ({"ramps": [[str(x) for x in r] for r in self.ramps]} if self.ramps else {})


def quadratic(curvature: Any, centre: Any = 0) -> Piece:
    """curvature (x - centre)^2/2."""
    return Piece(curvature=Fraction(curvature), centre=Fraction(centre))


def ramp(low: Any, high: Any, p: Any, q: Any) -> Piece:
    """The loss whose slope is low left of p and high right of q."""
    low, high = Fraction(low), Fraction(high)
    return Piece(slope=low, ramps=((Fraction(p), Fraction(q), high - low),) if high > low else ())


def huber(centre: Any, width: Any, scale: Any = 1) -> Piece:
    """scale times the Huber loss: (x - centre)^2/2 within `width`, linear beyond."""
    c, w, s = (Fraction(v) for v in (centre, width, scale))
    return ramp(-s * w, s * w, c - w, c + w)


def absolute(centre: Any, scale: Any = 1) -> Piece:
    """scale |x - centre|."""
    return ramp(-Fraction(scale), scale, centre, centre)


def piece_of(data: Any, name: str) -> Piece:
    """A loss from a witness file.

    Raises
    ------
    InvalidInput
        Unknown fields, numbers that are no fractions, a negative curvature, a ramp that falls or ends before it begins.
    """
    if not isinstance(data, dict) or set(data) - set(_FIELDS):
        raise InvalidInput(f"{name} = {data!r}: expected some of the fields {', '.join(_FIELDS)}")
    slope, curvature, centre = (fraction(data.get(k, 0), f"{name}.{k}") for k in _FIELDS[:3])
    rows = data.get("ramps", [])
    if not isinstance(rows, list) or not all(isinstance(r, list) and len(r) == 3 for r in rows):
        raise InvalidInput(f"{name}.ramps = {rows!r}: expected rows of three fractions [p, q, G]")
    ramps = tuple(tuple(fraction(v, f"{name}.ramps[{i}]") for v in row) for i, row in enumerate(rows))
    if curvature < 0:
        raise InvalidInput(f"{name}.curvature = {curvature}: it must be >= 0, or the loss is not convex")
    for p, q, g in ramps:
        if not (p <= q and g > 0):
            raise InvalidInput(f"{name}.ramps: [{p}, {q}, {g}]: expected p <= q and G > 0, or the loss is not convex")
    return Piece(slope, curvature, centre, ramps)  # type: ignore[arg-type]


def clipped(x: Fraction, low: Fraction | None, high: Fraction | None) -> Fraction:
    """The point of an interval that is nearest to x; None for an end at infinity."""
    return low if low is not None and x < low else high if high is not None and x > high else x


@dataclass(frozen=True, eq=False)
class PiecewiseLosses:
    """L_k(x) = sum_i L_ki(x_i) of m clients in d coordinates, in fractions.

    Attributes
    ----------
    pieces : m rows of d losses
    near : (d,) or None
        Where R has several minimisers, theta_star is the one nearest to this point; None stands for 0.
    """

    pieces: Sequence[Sequence[Piece]]
    near: Any = None

    shape = derived(lambda v: (len(v.pieces), len(v.pieces[0])), "clients and coordinates")
    m = derived(lambda v: v.shape[0], "the number of clients")
    table = derived(lambda v: objects(v.pieces), "the losses as an array (m, d)")

    @cached_property
    def joint(self) -> list[Piece]:
        """R, a coordinate at a time."""
        return [sum(column[1:], column[0]) * Fraction(1, self.m) for column in zip(*self.pieces, strict=True)]

    @cached_property
    def minimisers(self) -> list[tuple[Fraction | None, Fraction | None]]:
        """The interval of R's minimisers in every coordinate; None for an end at infinity.

        Raises
        ------
        InvalidInput
            R has no minimiser: its slope is not 0 anywhere.
        """
        found = [r.where(ZERO) for r in self.joint]
        for i, interval in enumerate(found):
            if interval is None:
                low, high = self.joint[i].limits
                raise InvalidInput(
                    f"R has no minimiser: in coordinate {i} its slope runs from {low} to {high} and is never 0; "
                    "take losses whose mean slope changes sign"
                )
        return found  # type: ignore[return-value]

    @cached_property
    def theta_star(self) -> np.ndarray:
        """The minimiser of R nearest to `near`: (d,)."""
        near = [ZERO] * self.shape[1] if self.near is None else self.near
        ends = zip(near, self.minimisers, strict=True)
        return objects([clipped(Fraction(x), *pair) for x, pair in ends])

    @cached_property
    def beta(self) -> Fraction | None:
        """The largest curvature of a client; None where a slope jumps."""
        betas = [p.beta for row in self.pieces for p in row]
        return None if None in betas else max(betas)  # type: ignore[type-var]

    mu = derived(
        lambda v: min(r.curvature for r in v.joint), "a curvature that R has everywhere"
    )

    def nearest_gradients(self, y: Any, g: Any) -> Any:
        """The subgradient at y_k that is nearest to g_k: (..., m, d) each."""
        nearest = np.frompyfunc(lambda p, x, wanted: clipped(wanted, *p.slopes(x)), 3, 1)
        return nearest(self.table, y, g)

    def gradients_each(self, y: Any) -> Any:
        """The subgradient of least size at y_k: (..., m, d) -> (..., m, d)."""
        return self.nearest_gradients(y, 0 * y)

    def gradients(self, x: Any) -> Any:
        """The same at one point for all: (..., d) -> (..., m, d)."""
        return self.gradients_each(x[..., None, :])

    def excess(self, x: Any) -> Any:
        """R(x) - R*: (..., d) -> (...)."""
        gap = np.frompyfunc(lambda r, v, star: r.value(v) - r.value(star), 3, 1)
        return gap(objects(self.joint), x, self.theta_star).sum(axis=-1)

    def minimise(self, anchor: Any, stored: Any, l1: Any, l2: Any) -> Any:
        """The local models of (10): (..., m, d) each."""
        return np.frompyfunc(Piece.minimise, 5, 1)(self.table, anchor, stored, l1, l2)


class Everyone(SlotClients):
    """The clients of a round in which all take part (S, m, d), on losses of this kind.

    Where a slope jumps, a client's gradient at its local model is the one of its minimum.
    """

    def __init__(self, losses: PiecewiseLosses, like: Any) -> None:
        self.of_each, m = losses, losses.m
        own: Any = SimpleNamespace(pieces=losses, weights=np.full(m, Fraction(1, m)))
        super().__init__(own, Cohort(m, mask=np.ones((len(like), m), dtype=bool)), SlotWork(), like)

    def minimise(
        self, objective: LocalObjective, start: Any, solver: LocalSolver | None = None
    ) -> LocalResult:
        """Minimise exactly, entry by entry."""
        l1, l2, linear = objective.l1, objective.curvature, np.asarray(objective.linear)
        anchor = np.broadcast_to(start, linear.shape)
        y = self.of_each.minimise(anchor, linear, l1, l2)
        self.wanted = linear - l2 * (y - anchor) - l1 * np.sign(y - anchor)
        self.results.append(LocalResult(read_only(y)))
        return self.results[-1]

    def gradient(self, y: Any) -> Any:
        """The subgradients at the local models."""
        return self.of_each.nearest_gradients(y, self.wanted)
