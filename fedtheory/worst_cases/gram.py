"""Vectors of exchangeable clients, and averages of their inner products, in exact numbers.

A worst case over all losses of a class is a matter of finitely many vectors: positions and
gradients at the points that a method touches. *Common* vectors (the distance of a model from the
optimum) are the same for all clients. *Own* vectors (a gradient of client k) come once a client.
What a method makes of them is a `Vector`: coefficients of common vectors, of own vectors, and of
the means of own vectors over the clients.

All that a bound asks is the mean over the clients of inner products. A mean over the clients
splits: with u_k = u + (u_k - u), u the mean,

    (1/N) sum_k <a_k, b_k> = <mean a, mean b> + (1/N) sum_k <a_k - mean a, b_k - mean b>,

so that every such mean is linear in two Gram matrices: that of the common vectors and the means,
and that of the deviations, averaged over the clients. Their sizes do not depend on the number of
clients. Every pair of positive semidefinite matrices of these sizes comes from N >= 2 clients in a
space of enough dimensions, and where the matrix of one client's vectors is the same for each
client, an inequality that holds in the mean over the clients holds for each: nothing is lost.

Clients of several groups are alike within their group. Every group has means and deviations of its
own; the means of all groups share one Gram matrix, and the deviations of each have another, as no
product of deviations of two groups is ever asked for. Of a group of one client there are only means.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

__all__ = ["Grouped", "Quadratic", "Vector", "common", "inner", "inner_of_each", "own", "square", "value"]

MEAN, DEVIATION, CROSS = "mean", "deviation", "cross"  # the last one is 0 in the mean over the clients
Key = tuple[str, str]
Name = Any  # of a vector or a point: a word, or what stands for it in a tree of cohorts


def entry(block: str, x: Name, y: Name) -> tuple[str, Name, Name]:
    """The key of <x, y> in a Gram matrix: the names in order."""
    return (block, x, y) if x <= y else (block, y, x)


def without_zeros(table: Mapping[Any, Any]) -> dict[Any, Any]:
    """Return the entries of a table that are not 0."""
    return {key: number for key, number in table.items() if number != 0}


def plus(a: Mapping[Any, Any], b: Mapping[Any, Any], times: Any = 1) -> dict[Any, Any]:
    """The table of a plus a multiple of b, without entries that are 0."""
    out = dict(a)
    for key, x in b.items():
        out[key] = out.get(key, 0) + times * x
        if out[key] == 0:
            del out[key]
    return out


@dataclass(frozen=True)
class Vector:
    """A vector of the same form for every client.

    It is a sum of common vectors, of the client's own ones, and of means of own ones.

    Attributes
    ----------
    mean : dict name -> coefficient in the mean over the clients: of common vectors, and of the means of own ones
    deviation : dict name -> coefficient of the own vectors in the deviation from that mean
    drawn : dict name -> coefficient of what a cohort's mean of an own vector has more than the clients' mean
    block : the Gram matrix of the deviations
    """

    mean: Mapping[str, Any] = field(default_factory=dict)
    deviation: Mapping[str, Any] = field(default_factory=dict)
    drawn: Mapping[str, Any] = field(default_factory=dict)
    block: str = field(default=DEVIATION, compare=False, kw_only=True)

    def __add__(self, other: Vector) -> Vector:
        return NotImplemented if isinstance(other, Grouped) else self.plus(other, 1)

    def __sub__(self, other: Vector) -> Vector:
        return NotImplemented if isinstance(other, Grouped) else self.plus(other, -1)

    def plus(self, other: Vector, times: Any) -> Vector:
        """The sum of it and a multiple of another."""
        parts = [plus(a, b, times) for a, b in zip(self.parts, other.parts, strict=True)]
        return Vector(*parts, block=self.block if self.deviation else other.block)

    @property
    def parts(self) -> tuple[Mapping[str, Any], Mapping[str, Any], Mapping[str, Any]]:
        """Its three tables."""
        return self.mean, self.deviation, self.drawn

    def __rmul__(self, number: Any) -> Vector:
        return Vector(*(plus({}, part, number) for part in self.parts), block=self.block)

    def __neg__(self) -> Vector:
        return -1 * self

    @property
    def average(self) -> Vector:
        """Its mean over the clients."""
        return Vector(self.mean, {}, self.drawn)

    @property
    def own_part(self) -> Vector:
        """Its deviation from the mean over the clients."""
        return Vector({}, self.deviation, block=self.block)

    def inner(self, other: Vector) -> Quadratic:
        """(1/N) sum_k <a_k, b_k> of vectors without a drawn part."""
        gram: dict[tuple[str, str, str], Any] = {}
        for block, left, right in ((MEAN, self.mean, other.mean), (self.block, self.deviation, other.deviation)):
            for x, p in left.items():
                for y, q in right.items():
                    key = entry(block, x, y)
                    gram[key] = gram.get(key, 0) + p * q
        return Quadratic(without_zeros(gram))


def common(name: str) -> Vector:
    """A vector that is the same for all clients."""
    return Vector({name: Fraction(1)})


def own(name: str, mean_zero: bool = False, block: str = DEVIATION) -> Vector:
    """A vector of each client; ``mean_zero`` where the clients' add up to 0, as their gradients at the optimum do."""
    return Vector({} if mean_zero else {name: Fraction(1)}, {name: Fraction(1)}, block=block)


@dataclass(frozen=True)
class Grouped:
    """A vector of every client, of one form for all clients of a group.

    Attributes
    ----------
    of : a `Vector` for each group: its mean and the deviations from that
    shares : of the groups in the mean over all clients
    """

    of: tuple[Vector, ...]
    shares: tuple[Fraction, ...]

    def __add__(self, other: Grouped | Vector) -> Grouped:
        return self._with(other, 1)

    __radd__ = __add__

    def __sub__(self, other: Grouped | Vector) -> Grouped:
        return self._with(other, -1)

    def __rsub__(self, other: Vector) -> Grouped:
        return -1 * self + other

    def __rmul__(self, number: Any) -> Grouped:
        return Grouped(tuple(number * v for v in self.of), self.shares)

    def _with(self, other: Grouped | Vector, sign: int) -> Grouped:
        others = other.of if isinstance(other, Grouped) else [other] * len(self.of)
        return Grouped(tuple(a.plus(b, sign) for a, b in zip(self.of, others, strict=True)), self.shares)

    @property
    def average(self) -> Vector:
        """Its mean over the clients."""
        return self.in_shares(self.shares)

    def in_shares(self, shares: Sequence[Fraction]) -> Vector:
        """The mean over the clients in which groups have other shares."""
        return sum((share * v.average for share, v in zip(shares, self.of, strict=True)), Vector())

    def inner(self, other: Grouped) -> Quadratic:
        """The mean over the clients of <a_k, b_k>."""
        pairs = zip(self.shares, self.of, other.of, strict=True)
        return Quadratic.total(share * a.inner(b) for share, a, b in pairs)


@dataclass(frozen=True)
class Quadratic:
    """A mean over the clients of inner products, of values of their losses, and a number.

    Attributes
    ----------
    gram : dict (block, name, name) -> coefficient of that entry of a Gram matrix; names in order
    values : dict point -> coefficient of the mean of the losses there
    constant : a number
    """

    gram: Mapping[tuple[str, Name, Name], Any] = field(default_factory=dict)
    values: Mapping[Name, Any] = field(default_factory=dict)
    constant: Any = 0

    def __add__(self, other: Quadratic) -> Quadratic:
        gram, values = plus(self.gram, other.gram), plus(self.values, other.values)
        return Quadratic(gram, values, self.constant + other.constant)

    def __sub__(self, other: Quadratic) -> Quadratic:
        return self + -1 * other

    def __rmul__(self, number: Any) -> Quadratic:
        gram, values = plus({}, self.gram, number), plus({}, self.values, number)
        return Quadratic(gram, values, number * self.constant)

    def __neg__(self) -> Quadratic:
        return -1 * self

    @property
    def over_all(self) -> Quadratic:
        """The mean over the clients of what it is for one of them."""
        return Quadratic({key: number for key, number in self.gram.items() if key[0] != CROSS}, self.values, self.constant)

    @staticmethod
    def total(parts: Iterable[Quadratic]) -> Quadratic:
        """The sum of them."""
        gram: dict[Any, Any] = {}
        values: dict[Any, Any] = {}
        constant: Any = 0
        for part in parts:
            for table, more in ((gram, part.gram), (values, part.values)):
                for key, number in more.items():
                    table[key] = table.get(key, 0) + number
            constant = constant + part.constant
        return Quadratic(without_zeros(gram), without_zeros(values), constant)


def inner(a: Vector, b: Vector) -> Quadratic:
    """(1/N) sum_k <a_k, b_k>."""
    return a.inner(b)


def inner_of_each(a: Vector, b: Vector) -> Quadratic:
    """<a_k, b_k> of a client that stands for each: as `inner`, and the products of means and deviations."""
    gram: dict[Any, Any] = {}
    for u, v in ((a, b), (b, a)):
        for x, p in u.mean.items():
            for y, q in v.deviation.items():
                gram[CROSS, x, y] = gram.get((CROSS, x, y), 0) + p * q
    return inner(a, b) + Quadratic(without_zeros(gram))


def square(a: Vector) -> Quadratic:
    """(1/N) sum_k ||a_k||^2."""
    return inner(a, a)


def value(point: str) -> Quadratic:
    """The mean over the clients of their losses at a point."""
    return Quadratic(values={point: Fraction(1)})
