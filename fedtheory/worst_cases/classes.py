"""Classes of losses by their interpolation conditions.

A loss of the class with given positions, gradients and values exists if and only if the conditions hold for every pair of
points (Taylor, Hendrickx and Glineur, "Smooth strongly convex interpolation and exact worst-case performance of first-order
methods", Mathematical Programming 161, 2017).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import permutations
from typing import Any, Generic, TypeVar

from fedtheory.errors import InvalidInput
from fedtheory.worst_cases.gram import Name, Quadratic, inner, square, value
from fedtheory.worst_cases.numbers import exact

__all__ = ["Losses", "Point", "WeaklyConvex"]


V = TypeVar("V")  # `Vector`, or what a tree of cohorts has in its place


@dataclass(frozen=True)
class Point(Generic[V]):
    """A point where a client's loss is asked for its gradient; `at` is relative to the optimum, `group` the client's."""

    name: Name
    at: V
    gradient: V
    group: int = 0


@dataclass(frozen=True)
class Losses:
    """Convex losses.

    Parameters
    ----------
    smoothness : L, the largest curvature; None for losses that need not be smooth
    strong_convexity : mu, the least curvature
    lipschitz : G, the longest gradient, in the root mean square over the clients; None for no bound

    Raises
    ------
    InvalidInput
        mu < 0, L <= 0, or mu >= L; mu > 0 with bounded gradients.
    """

    smoothness: Fraction | None = Fraction(1)
    strong_convexity: Fraction = Fraction(0)
    lipschitz: Fraction | None = None

    def __post_init__(self) -> None:
        self.made_exact()
        L, mu = self.smoothness, self.strong_convexity
        if mu is None:
            raise InvalidInput("strong_convexity is None: it must be a number >= 0")
        if mu < 0 or (L is not None and (L <= 0 or mu >= L)):
            raise InvalidInput(f"smoothness {L}, strong convexity {mu}: 0 <= strong convexity < smoothness is needed")
        if self.lipschitz is not None and mu > 0:
            raise InvalidInput(f"strong convexity {mu} and gradients of at most {self.lipschitz}: no loss on all of space has both")
        if self.lipschitz is not None and self.lipschitz <= 0:
            raise InvalidInput(f"gradients of at most {self.lipschitz}: the bound must be > 0")

    def made_exact(self) -> None:
        """Every number a fraction (see `exact`); SymPy's symbols, with which families are proved for all numbers, stay."""
        for name in ("smoothness", "strong_convexity", "lipschitz"):
            number = getattr(self, name)
            if number is not None and not getattr(number, "free_symbols", None):
                object.__setattr__(self, name, exact(name, number))

    @property
    def asked(self) -> dict[str, Any]:
        """The constants of the class, by name."""
        return {"smoothness": self.smoothness, "strong convexity": self.strong_convexity, "lipschitz": self.lipschitz}

    @property
    def largest_curvature(self) -> Fraction:
        """L, of losses that are smooth.

        Raises
        ------
        InvalidInput
            Losses that need not be.
        """
        if self.smoothness is None:
            raise InvalidInput("losses without a largest curvature: this method's inequality needs smooth ones; give smoothness")
        return self.smoothness

    @property
    def bound(self) -> Fraction:
        """G, of losses whose gradients are bounded.

        Raises
        ------
        InvalidInput
            Losses whose gradients need not be.
        """
        if self.lipschitz is None:
            raise InvalidInput("losses without a bound of their gradients: give lipschitz")
        return self.lipschitz

    def condition(self, i: Point[Any], j: Point[Any]) -> Quadratic:
        """f_i - f_j - <g_j, x_i - x_j> - (what smoothness and strong convexity add), which is at least 0."""
        L, mu = self.of(i).smoothness, self.of(i).strong_convexity
        apart, turned = i.at - j.at, i.gradient - j.gradient
        out = value(i.name) - value(j.name) - inner(j.gradient, apart)
        if L is None:
            return out if mu == 0 else out - mu / 2 * square(apart)
        share = 1 / (2 * (1 - mu / L))
        return out - share / L * square(turned) - share * mu * square(apart) + 2 * share * mu / L * inner(turned, apart)

    def conditions(self, points: Sequence[Point[Any]]) -> dict[str, Quadratic]:
        """'i, j' -> what is at least 0, of every ordered pair of a group, and of every point where gradients are bounded."""
        found = {f"{i.name}, {j.name}": self.condition(i, j) for i, j in permutations(points, 2) if i.group == j.group}
        for p in points:
            if (bound := self.of(p).lipschitz) is not None:
                found[f"|{p.name}|"] = Quadratic(constant=bound**2) - square(p.gradient)
        return found

    def of(self, point: Point[Any]) -> Losses:
        """The class of the losses that are asked at a point."""
        return self

@dataclass(frozen=True)
class WeaklyConvex(Losses):
    """L-smooth losses whose curvature is at least ``strong_convexity``, which may be below 0.

    f less mu/2 ||x||^2 is convex and (L - mu)-smooth: the conditions are the same.

    Raises
    ------
    InvalidInput
        L <= 0, mu >= L or mu < -L.
    """

    def __post_init__(self) -> None:
        self.made_exact()
        L, mu = self.smoothness, self.strong_convexity
        if L is None or not -L <= mu < L:  # which no L <= 0 has
            raise InvalidInput(f"smoothness {L}, curvature of at least {mu}: -L <= curvature < L and 0 < L are needed")
