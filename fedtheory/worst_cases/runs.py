"""A run as the points at which the clients' losses are asked, with the vectors that exchangeable
clients have.

Positions are relative to the optimum. A gradient that a method takes is a vector of its own, so
that a step that is implicit, such as an exact local solve, is written as its optimality condition:
the gradient at the solution comes first, the solution is what the condition says of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, ClassVar

from fedtheory.errors import MissingCapability
from fedtheory.worst_cases.classes import Losses, Point
from fedtheory.worst_cases.gram import (
    DEVIATION,
    Grouped,
    Quadratic,
    Vector,
    common,
    inner,
    inner_of_each,
    own,
    plus,
    square,
    value,
)
from fedtheory.worst_cases.groups import Group

__all__ = ["NEAR", "OPTIMUM", "STATE", "X_STAR", "NeedsTree", "Run", "spread"]

OPTIMUM = "*"
NEAR = "the mean of ||{} - grad f_k(x*)||^2 is at most ({})^2"
X_STAR, STATE = "x*", "state "  # vectors of a statement: the optimum, and what a state before the round keeps


class NeedsTree(MissingCapability):
    """The answer depends on who takes part."""


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
    messages : dict name of what arrives -> the message that was compressed, and delta
    relaxed : what of the problem is left out, so that the value is an upper bound only
    assumed : dict name -> what is assumed of vectors that a method begins with, in words
    smooth : a loss has one gradient at a point
    weights : dict name -> by how much that vector moves where the start is moved by 1
    groups : of clients with losses of different classes, each with its points; () where all clients are one group
    """

    share: Fraction = Fraction(1)
    spread: Fraction = Fraction(0)
    one_loss: bool = False
    smooth: bool = True
    points: dict[str, Point] = field(default_factory=dict)
    conditions: dict[str, Quadratic] = field(default_factory=dict)
    messages: dict[str, tuple[Vector, Any]] = field(default_factory=dict)
    relaxed: str = ""
    assumed: dict[str, str] = field(default_factory=dict)
    weights: Mapping[str, Any] = field(default_factory=lambda: {"x0": 1})
    groups: tuple[Group, ...] = ()

    zero = Vector()
    start = common("x0")
    cohort: ClassVar[tuple[int, ...]] = ()
    history: ClassVar[tuple[Any, ...]] = ()

    def __post_init__(self) -> None:
        self.optimum: Any = common("g*") if self.one_loss else own("g*", mean_zero=True)
        if self.groups:  # the means of the groups' gradients at the optimum add up to 0
            *others, last = self.vector("g*").of
            rest = sum((-s * v.average for s, v in zip(self.shares, others, strict=False)), Vector())
            self.optimum = self.each([*others, 1 / self.shares[-1] * rest + last.own_part])
        for g, (at, gradient) in enumerate(zip(self.rows(Vector()), self.rows(self.optimum), strict=True)):
            self._put(OPTIMUM, g, at, gradient)
        self._asked: set[str] = set()

    @property
    def best(self) -> Vector:
        """The point that is the optimum."""
        return next(iter(self.points.values())).at

    @property
    def pairs(self) -> int:
        """The number of conditions on the losses."""
        return sum(n * (n - 1) for n in Counter(p.group for p in self.points.values()).values())

    # --- groups of clients ------------------------------------------------------------------------
    @property
    def shares(self) -> tuple[Fraction, ...]:
        """Of the groups in the mean of the losses."""
        return tuple(g.share for g in self.groups) or (Fraction(1),)

    def rows(self, v: Any) -> tuple[Vector, ...]:
        """The vector of each group's clients."""
        return v.of if isinstance(v, Grouped) else (v,) * max(len(self.groups), 1)

    def each(self, rows: Sequence[Vector]) -> Any:
        """The vector of every client with these of the groups."""
        return Grouped(tuple(rows), self.shares) if self.groups else rows[0]

    def named(self, name: str, group: int) -> str:
        """The name of a point, or of a vector, of a group."""
        return f"{name}({group + 1})" if self.groups else name

    def _put(self, name: str, group: int, at: Vector, gradient: Vector) -> Vector:
        if at.drawn:
            raise NeedsTree("gradients at a point that depends on the cohort: ask for the tree of cohorts")
        name = self.named(name, group)
        self.points[name] = Point(name, at, gradient, group)
        return gradient

    def _known(self, at: Vector, group: int) -> Point | None:
        """The point there at which the group's losses were asked for a gradient."""
        for p in self.points.values():
            base = self._base(p)
            if p.group == group and p.at == at and base != OPTIMUM and (self.smooth or base in self._asked):
                return p
        return None

    def _base(self, p: Point) -> str:
        return p.name.rpartition("(")[0] if self.groups else p.name

    # --- what a method writes ---------------------------------------------------------------------
    def gradient(self, name: str, at: Any) -> Any:
        """The clients' gradients at a point; a group that was asked there before is not asked again."""
        self._asked.add(name)
        found, made = self.vector(name, self.one_loss), []
        for g, (where, new) in enumerate(zip(self.rows(at), self.rows(found), strict=True)):
            known = self._known(where, g) if self.groups else None
            made.append(self._put(name, g, where, new) if known is None else known.gradient)
        return self.each(made)

    def solved(self, name: str, where: Callable[[Any], Any]) -> Any:
        """The clients' gradients at the point that an optimality condition makes of them.

        Raises
        ------
        NeedsTree
            A point that depends on who takes part.
        """
        found = self.vector(name, self.one_loss)
        for g, (at, new) in enumerate(zip(self.rows(where(found)), self.rows(found), strict=True)):
            self._put(name, g, at, new)
        return found

    def known(self, at: Any) -> tuple[str, Any] | None:
        """The name of a point and the clients' gradients where they were asked before; None elsewhere.

        Two vectors of one point would leave the programme no interior. A loss that has a kink at the
        solution of a local problem may be asked for another subgradient there.
        """
        found = [self._known(where, g) for g, where in enumerate(self.rows(at))]
        there = [p for p in found if p is not None]
        if len(there) < len(found):
            return None
        every = list(self.points)
        return self._base(max(there, key=lambda p: every.index(p.name))), self.each([p.gradient for p in there])

    def weights_of_start(self, v: Any) -> list[Any]:
        """By how much a vector moves, for the clients of each group, where the start is moved by 1."""
        return [sum((c * self.weights.get(name, 0) for name, c in row.mean.items()), 0) for row in self.rows(v)]

    def vector(self, name: str, everybody: bool = False, beside: Any = None) -> Any:
        """A vector of every client, or one that is the same for all."""
        if everybody or not self.groups:
            return common(name) if everybody else own(name)
        names = [self.named(name, g) for g in range(len(self.groups))]
        blocks = [f"{DEVIATION} {g + 1}" for g in range(len(self.groups))]
        several = [g.clients != 1 for g in self.groups]
        return self.each([own(n, block=b) if many else common(n) for n, b, many in zip(names, blocks, several, strict=True)])

    def require(self, name: str, a: Any, b: Any) -> None:
        """<a_k, b_k> >= 0 for every client."""
        for g, (x, y) in enumerate(zip(self.rows(a), self.rows(b), strict=True)):
            self.conditions[self.named(name, g)] = inner(x, y)

    def near_the_optimum(self, name: str, distance: Fraction) -> Any:
        """Vectors v_k with (1/N) sum_k ||v_k - grad f_k(x*)||^2 <= distance^2."""
        self.assumed[name] = NEAR.format(name, distance)
        found = self.vector(name) if distance else self.optimum
        if distance:
            self.conditions[name] = Quadratic(constant=distance**2) - square(found - self.optimum)
        return found

    def contract(self, name: str, wanted: Any, found: Any, delta: Any) -> None:
        """||found - wanted||^2 <= (1 - delta) ||wanted||^2."""
        self.messages[name] = wanted, delta
        for g, (v, left) in enumerate(zip(self.rows(wanted), self.rows(found - wanted), strict=True)):
            if v.drawn:
                raise NeedsTree("compresses what depends on who takes part: ask for the tree of cohorts, or for everybody")
            self.conditions[self.named(name, g)] = (1 - delta) * self.product(v, v) - self.product(left, left)

    def mean(self, v: Any) -> Vector:
        """The mean over the cohort."""
        if isinstance(v, Grouped):
            many = [Fraction(g.clients or 0) for g in self.groups]
            return v.in_shares([n / sum(many) for n in many])
        return Vector(v.mean, {}, plus(v.drawn, v.deviation) if self.spread else v.drawn)

    def put(self, old: Vector, new: Vector) -> Vector | _Kept:
        """Return what the clients keep: those of the cohort the new, the others the old."""
        return new if self.share == 1 else _Kept(old, new, self.share)

    @property
    def drawn(self) -> bool:
        """True if some clients take part, and others do not."""
        return self.share != 1

    def product(self, a: Vector, b: Vector) -> Quadratic:
        """E <a, b> of vectors of the server."""
        return inner(a, b) + self.spread * inner(Vector({}, a.drawn), Vector({}, b.drawn))

    def product_of_each(self, a: Any, b: Any) -> Quadratic:
        """E <a_k, b_k> of vectors of a client that stands for each, none of which has a drawn part."""
        if isinstance(a, _Kept) or isinstance(b, _Kept):
            a, b = (v if isinstance(v, _Kept) else _Kept(v, v, self.share) for v in (a, b))
            return (1 - self.share) * inner_of_each(a.old, b.old) + self.share * inner_of_each(a.new, b.new)
        return inner_of_each(a, b)

    def expectation(self, a: Any) -> Vector:
        """E of a vector of every client, or of the server's, over the cohort."""
        if isinstance(a, _Kept):
            if a.drawn:
                raise MissingCapability("what clients keep depends on who else takes part")
            a = (1 - self.share) * a.old + self.share * a.new
        return replace(a, drawn={})

    # --- what is asked of it ----------------------------------------------------------------------
    def square(self, v: Vector) -> Quadratic:
        """E ||v||^2 of a server's vector."""
        return square(Vector(v.mean)) + self.spread * square(Vector({}, v.drawn))

    def gap(self, name: str, at: Vector) -> Quadratic:
        """E F(at) - F*; a point that the method touches itself is not asked again."""
        def there() -> dict[int, str]:
            return {p.group: p.name for p in reversed(self.points.values()) if p.at == at}

        if len(there()) < len(self.shares):
            self.gradient(name, at)
        gaps = ((share, value(there()[g]) - value(self.named(OPTIMUM, g))) for g, share in enumerate(self.shares))
        return Quadratic.total(share * gap for share, gap in gaps)

    def squared_gradient(self, name: str, at: Vector) -> Quadratic:
        """E ||grad F(at)||^2."""
        known = self.known(at)
        return square((self.gradient(name, at) if known is None else known[1]).average)

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
    def drawn(self) -> dict[str, Any]:
        return {**self.old.drawn, **self.new.drawn}

    @property
    def average(self) -> Vector:
        turned = self.new - self.old
        return self.old.average + self.share * Vector(turned.mean, {}, plus(turned.drawn, turned.deviation))

    def __getattr__(self, name: str) -> Any:
        raise NeedsTree("a second round of a cohort: ask for the tree of cohorts")
