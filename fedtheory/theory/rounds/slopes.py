"""Piecewise quadratic functions of one number, in fractions: quadratics, Huber losses, clipped
slopes, |x|.

A function is given by its slope, which is linear between breakpoints:

    f'(x) = slope + curvature (x - centre) + sum over the ramps (p, q, G) of G r(x),
    r(x) = clip((x - p)/(q - p), 0, 1).

A ramp rises by G between p and q; with p = q it is a jump, and the slope at p is the interval
between its two ends. |x - c| is the slope -1 with the ramp (c, c, 2), and a Huber loss of width w
is the slope -w with the ramp (c - w, c + w, 2 w).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

from fedtheory.errors import InvalidInput
from fedtheory.theory.fields import derived

__all__ = ["ZERO", "Piece", "Unbounded", "absolute", "clipped", "huber", "quadratic", "ramp"]

ZERO = Fraction(0)


class Unbounded(InvalidInput):
    """A function has no minimiser, or none that can be computed here."""


@dataclass(frozen=True)
class Piece:
    """A function of one number, by its slope. It is convex where no curvature is below 0 and every
    ramp rises.

    Attributes
    ----------
    slope, curvature, centre : f'(x) without the ramps is slope + curvature (x - centre)
    ramps : (p, q, G) with p <= q
    """

    slope: Fraction = ZERO
    curvature: Fraction = ZERO
    centre: Fraction = ZERO
    ramps: tuple[tuple[Fraction, Fraction, Fraction], ...] = ()

    def __add__(self, other: Piece) -> Piece:
        slope = (
            self.slope + other.slope - self.curvature * self.centre - other.curvature * other.centre
        )
        return Piece(slope, self.curvature + other.curvature, ZERO, (*self.ramps, *other.ramps))

    def __mul__(self, factor: Fraction) -> Piece:
        """factor * f for a factor > 0."""
        ramps = tuple((p, q, factor * g) for p, q, g in self.ramps)
        return Piece(factor * self.slope, factor * self.curvature, self.centre, ramps)

    @cached_property
    def corners(self) -> tuple[list[Fraction], list[tuple[Fraction, Fraction]]]:
        """The corners of the slope, in order, and its pieces between them: (k, s) stands for k x +
        s."""
        change: dict[Fraction, tuple[Fraction, Fraction]] = {}
        for p, q, g in self.ramps:
            rate = g / (q - p) if q != p else ZERO
            for x, k, s in (
                ((p, rate, -rate * p), (q, -rate, rate * q)) if rate else ((p, ZERO, g),)
            ):
                before = change.get(x, (ZERO, ZERO))
                change[x] = before[0] + k, before[1] + s
        points, pieces = (
            sorted(change), [(self.curvature, self.slope - self.curvature * self.centre)]
        )
        for x in points:
            k, s = change[x]
            pieces.append((pieces[-1][0] + k, pieces[-1][1] + s))
        return points, pieces

    breakpoints = derived(
        lambda v: v.corners[0], "the points at which the slope bends or jumps, in order"
    )

    def slopes(self, x: Fraction) -> tuple[Fraction, Fraction]:
        """The least and the largest subgradient at x, of a convex one."""
        points, pieces = self.corners
        (k, s), (k2, s2) = pieces[bisect_left(points, x)], pieces[bisect_right(points, x)]
        return k * x + s, k2 * x + s2

    def value(self, x: Fraction) -> Fraction:
        """f(x), with f = curvature (x - centre)^2/2 + slope x left of all ramps."""
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

    @property
    def beta(self) -> Fraction | None:
        """The largest curvature; None where the slope jumps."""
        jumps = any(p == q for p, q, _ in self.ramps)
        return None if jumps else max(k for k, _ in self.corners[1])

    def least(self, level: Fraction = ZERO) -> tuple[Fraction | None, Fraction | None, bool]:
        """The global minimisers of f(x) - level x.

        Where f is convex they are all of [low, high], and None stands for no end. Elsewhere the
        pieces are gone through, and low = high is one of them; the third entry says whether it is
        the only one (of a convex f it is True).

        Raises `Unbounded`: there is none.
        """
        points, pieces = self.corners
        pieces = [(k, s - level) for k, s in pieces] if level else pieces
        (first, before), (last, after) = pieces[0], pieces[-1]  # curvature and slope at 0 far away
        if last < 0:
            raise Unbounded("F is not convex, and falls for ever: it has no least value")
        if last == 0 and (before > 0 or after < 0):
            raise Unbounded(
                f"F falls for ever in some direction, as its slope runs from {before} to {after}: "
                "it has no minimiser; take losses whose mean slope changes sign"
            )
        if not points:
            x = -before / first if first else None
            return x, x, True

        def slope(i: int, x: Fraction) -> Fraction:
            k, s = pieces[i]
            return k * x + s

        where = [x for i, x in enumerate(points) if slope(i, x) <= 0 <= slope(i + 1, x)]
        for i, (k, s) in enumerate(pieces):
            falls = i == 0 or slope(i, points[i - 1]) < 0
            if k > 0 and falls and (i == len(points) or slope(i, points[i]) > 0):
                where.append(-s / k)
        convex = all(k >= 0 for k, _ in pieces)
        if not convex:
            values = [self.value(x) - level * x for x in where]
            where = [x for x, value in zip(where, values, strict=True) if value == min(values)]
        low = None if pieces[0] == (0, 0) and points[0] in where else min(where)
        high = None if pieces[-1] == (0, 0) and points[-1] in where else max(where)
        return (low, high, True) if convex else (where[0], where[0], low == high is not None)

    def where(self, level: Fraction) -> tuple[Fraction | None, Fraction | None] | None:
        """The closed interval of the x at which `level` is a subgradient of a convex f.

        None stands for an end at infinity, or for no such x.
        """
        try:
            return self.least(level)[:2]
        except Unbounded:
            return None

    def minimise(
        self, linear: Fraction, curvature: Fraction, center: Fraction, l1: Fraction = ZERO,
        anchor: Fraction | None = None,
    ) -> Fraction:  # fmt: skip
        """argmin over y of f(y) - linear y + curvature/2 (y - center)^2 + l1 |y - anchor|, of a
        convex f.

        Parameters
        ----------
        curvature : above 0
        anchor : the center, where there is none
        """
        anchor = center if anchor is None else anchor
        low, high = self.slopes(anchor)
        pull = linear if anchor == center else linear - curvature * (anchor - center)
        if low - l1 <= pull <= high + l1:
            return anchor
        side = l1 if pull > high + l1 else -l1  # to the right, or to the left
        if not self.ramps:
            return anchor + (pull - side - low) / (self.curvature + curvature)
        steeper = self + Piece(curvature=curvature, centre=center)
        return steeper.where(linear - side)[0]  # type: ignore[index, return-value]


def quadratic(curvature: Any, centre: Any = 0) -> Piece:
    """curvature (x - centre)^2/2."""
    return Piece(curvature=Fraction(curvature), centre=Fraction(centre))


def ramp(low: Any, high: Any, p: Any, q: Any) -> Piece:
    """The function whose slope is low left of p and high right of q."""
    low, high = Fraction(low), Fraction(high)
    return Piece(slope=low, ramps=((Fraction(p), Fraction(q), high - low),) if high > low else ())


def huber(centre: Any, width: Any, scale: Any = 1) -> Piece:
    """scale times the Huber loss: (x - centre)^2/2 within `width`, linear beyond."""
    c, w, s = (Fraction(v) for v in (centre, width, scale))
    return ramp(-s * w, s * w, c - w, c + w)


def absolute(centre: Any, scale: Any = 1) -> Piece:
    """scale |x - centre|."""
    return ramp(-Fraction(scale), scale, centre, centre)


def clipped(x: Fraction, low: Fraction | None, high: Fraction | None) -> Fraction:
    """The point of an interval that is nearest to x; None for an end at infinity."""
    return low if low is not None and x < low else high if high is not None and x > high else x
