"""A run as the points at which the clients' losses are asked, with the vectors that exchangeable
clients have.

Positions are relative to the optimum. A gradient that a method takes is a vector of its own, so
that a step that is implicit, such as an exact local solve, is written as its optimality condition:
the gradient at the solution comes first, the solution is what the condition says of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from fedtheory.errors import InvalidInput
from fedtheory.worst_cases.classes import Losses, Point
from fedtheory.worst_cases.gram import Quadratic, Vector, common, inner, own, square, value

__all__ = ["OPTIMUM", "Run", "spread"]

OPTIMUM = "*"


def spread(clients: int, participants: int) -> Fraction:
    """(N - P)/(P (N - 1)): what of the clients' variance is left in the mean of P that are drawn without replacement."""
    return Fraction(clients - participants, participants * (clients - 1)) if clients > 1 else Fraction(0)


@dataclass
class Run:
    """The points of a run in which everybody takes part, or of one round of a cohort.

    After a round of a cohort the model has a drawn part: the only thing that can be asked of it is
    the expectation of its square.

    Attributes
    ----------
    share, spread : P/N, and what of the clients' variance the cohort's mean has; None for N = P
    one_loss : there are no clients, but one loss
    points : the optimum first
    conditions : dict name -> what is at least 0 besides the losses' conditions
    relaxed : what of the problem is left out, so that the value is an upper bound only
    """

    share: Fraction = Fraction(1)
    spread: Fraction = Fraction(0)
    one_loss: bool = False
    points: dict[str, Point] = field(default_factory=dict)
    conditions: dict[str, Quadratic] = field(default_factory=dict)
    relaxed: str = ""

    zero = Vector()
    start = common("x0")

    def __post_init__(self) -> None:
        self.optimum = common("g*") if self.one_loss else own("g*", mean_zero=True)
        self.points[OPTIMUM] = Point(OPTIMUM, Vector(), self.optimum)

    # --- what a method writes ---------------------------------------------------------------------
    def gradient(self, name: str, at: Vector) -> Vector:
        """The clients' gradients at a point."""
        return self.solved(name, lambda _: at)

    def solved(self, name: str, where: Callable[[Vector], Vector]) -> Vector:
        """The clients' gradients at the point that an optimality condition makes of them."""
        found = common(name) if self.one_loss else own(name)
        self.points[name] = Point(name, where(found), found)
        return found

    def known(self, at: Vector) -> Vector | None:
        """The clients' gradients where they were asked before; None elsewhere.

        Two vectors of one point would leave the programme no interior.
        """
        return next((p.gradient for p in self.points.values() if p.at == at and p.name != OPTIMUM), None)

    def vector(self, name: str, everybody: bool = False) -> Vector:
        """A vector of every client, or one that is the same for all."""
        return common(name) if everybody else own(name)

    def require(self, name: str, a: Vector, b: Vector) -> None:
        """<a_k, b_k> >= 0 for every client."""
        self.conditions[name] = inner(a, b)

    def mean(self, v: Vector) -> Vector:
        """The mean over the cohort."""
        return Vector(v.mean, {}, v.deviation if self.spread else {})

    def put(self, old: Vector, new: Vector) -> Vector | _Kept:
        """Return what the clients keep: those of the cohort the new, the others the old."""
        return new if self.share == 1 else _Kept(old, new, self.share)

    @property
    def drawn(self) -> bool:
        """True if some clients take part, and others do not."""
        return self.share < 1

    def product(self, a: Any, b: Any) -> Quadratic:
        """E of the mean over the clients of <a_k, b_k>."""
        if isinstance(a, _Kept) or isinstance(b, _Kept):
            a, b = (v if isinstance(v, _Kept) else _Kept(v, v, self.share) for v in (a, b))
            return (1 - self.share) * inner(a.old, b.old) + self.share * inner(a.new, b.new)
        return inner(a, b) + self.spread * inner(Vector({}, a.drawn), Vector({}, b.drawn))

    def expectation(self, a: Any) -> Vector:
        """E of a vector of every client, or of the server's, over the cohort."""
        if isinstance(a, _Kept):
            a = (1 - self.share) * a.old + self.share * a.new
        return Vector(a.mean, a.deviation)

    # --- what is asked of it ----------------------------------------------------------------------
    def square(self, v: Vector) -> Quadratic:
        """E ||v||^2 of a server's vector."""
        return square(Vector(v.mean)) + self.spread * square(Vector({}, v.drawn))

    def gap(self, name: str, at: Vector) -> Quadratic:
        """E F(at) - F*; a point that the method touches itself is not asked again."""
        for known in self.points.values():
            if known.at == at:
                return value(known.name) - value(OPTIMUM)
        self.gradient(name, at)
        return value(name) - value(OPTIMUM)

    def squared_gradient(self, name: str, at: Vector) -> Quadratic:
        """E ||grad F(at)||^2."""
        known = self.known(at)
        return square((self.gradient(name, at) if known is None else known).average)

    def heterogeneity(self) -> Quadratic:
        """(1/N) sum_k ||grad f_k(x*)||^2."""
        return square(self.optimum)

    def of_losses(self, losses: Losses) -> dict[str, Quadratic]:
        """name -> what is at least 0 for losses of the class, and what the method added."""
        return losses.conditions(list(self.points.values())) | self.conditions


@dataclass(frozen=True)
class _Kept:
    """After one round: what the clients keep, of which only the mean over all of them is asked."""

    old: Vector
    new: Vector
    share: Fraction

    def __add__(self, other: Any) -> _Kept:
        return self._with(other, 1)

    def __sub__(self, other: Any) -> _Kept:
        return self._with(other, -1)

    def __rmul__(self, number: Any) -> _Kept:
        return _Kept(number * self.old, number * self.new, self.share)

    def _with(self, other: Any, sign: int) -> _Kept:
        a, b = (other.old, other.new) if isinstance(other, _Kept) else (other, other)
        return _Kept(self.old.plus(a, sign), self.new.plus(b, sign), self.share)

    @property
    def average(self) -> Vector:
        turned = self.new - self.old
        return self.old.average + self.share * Vector(turned.mean, {}, turned.deviation)

    def __getattr__(self, name: str) -> Any:
        raise InvalidInput("a second round of a cohort: ask for the tree of cohorts")
