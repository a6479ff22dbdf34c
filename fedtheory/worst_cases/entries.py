"""Entries of arrays that stand for coordinates of the vectors of a run.

Sums, differences and multiples of them are vectors again, products are forms of vectors. Whatever else is asked of
them is refused. Arrays have rows for the clients, and a few coordinates that stand for the dimension, so that
what treats some unlike others is noticed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from itertools import accumulate, pairwise
from numbers import Rational
from typing import Any

import numpy as np

from fedtheory.errors import MissingCapability
from fedtheory.worst_cases.gram import Quadratic

__all__ = ["NOT_LINEAR", "ROUNDING", "SHOWN", "UNLIKE", "Coordinate", "NotLinear", "Square", "Trace", "exact", "is_entry"]

DIGITS = 15  # a float of more, the point included, was rounded
SHOWN = 2  # coordinates, that stand for the dimension
ROUNDING = 1e-9  # of weights that a round makes of floats, which should add up to 1
NOT_LINEAR = "a worst case is computed of rounds that are linear in vectors"
UNLIKE = (
    f"treats clients or coordinates unlike one another: {NOT_LINEAR}; means over clients are taken by clients.mean and clients.sum"
)


class NotLinear(MissingCapability):
    """A round asks for what is no sum, difference or multiple of vectors."""


def exact(number: Any) -> Fraction:
    """A number as a fraction; a float stands for the decimal that it prints as, and symbols stay.

    Raises
    ------
    NotLinear
        What is no finite number.
    """
    if isinstance(number, Rational):
        return Fraction(int(number.numerator), int(number.denominator))
    if hasattr(type(number), "free_symbols"):
        return number
    if isinstance(number, float | np.floating) and np.isfinite(number):
        return Fraction(repr(float(number)))
    raise NotLinear(f"{number!r} is no finite number: {NOT_LINEAR}")


class _Entry:
    """An entry of an array, of which only sums, differences and multiples are known."""

    __slots__ = ("of", "parts")

    def __init__(self, of: Trace, parts: Mapping[int | None, Any]) -> None:
        self.of, self.parts = of, parts

    def _like(self, parts: Mapping[int | None, Any]) -> Any:
        raise NotImplementedError

    def _plus(self, a: Any, b: Any, sign: int) -> Any:
        raise NotImplementedError

    def _times(self, number: Fraction, a: Any) -> Any:
        raise NotImplementedError

    def no(self, text: str) -> Any:
        """Refuse it, also where the round catches the error."""
        self.of.refused = error = NotLinear(f"{text}: {NOT_LINEAR}")
        raise error

    def _with(self, other: Any, sign: int) -> Any:
        if isinstance(other, np.ndarray):
            return NotImplemented
        if not isinstance(other, _Entry):
            return self if self.of.number(other) == 0 else self.no(f"adds {other!r} to a {self.what}")
        if type(other) is not type(self):
            self.no(f"adds a {other.what} to a {self.what}")
        if other.of is not self.of:
            self.no("keeps vectors of another run, outside of its state")
        parts = dict(self.parts)
        for client, b in other.parts.items():
            parts[client] = self._plus(parts[client], b, sign) if client in parts else self._times(Fraction(sign), b)
        return self._like(self._whole(parts))

    def _whole(self, parts: dict[Any, Any]) -> Mapping[Any, Any]:
        """The parts, of which one of each client is as many times their mean, and one of each of the
        cohort has the cohort's name."""
        if len(parts) - (None in parts) <= 1 < self.of.clients:
            return parts
        for members in self.of.groups:
            parts = self._of_group(parts, members)
        return parts

    def _of_group(self, parts: Any, members: range) -> Any:
        """The same of the clients of a group."""
        own, cohort = [k for k in parts if isinstance(k, int) and k in members], self.of.moment
        several = len(own) in (len(members), len(members) - len(cohort[0]), len(cohort[0]))
        if not own or not several or any(not self._same(parts[k], parts[own[0]]) for k in own[1:]):
            return parts
        part = parts[own[0]]
        outside = cohort in parts and not {*own} & {*cohort[0]} and self._same(parts[cohort], part)
        if len(own) + outside * len(cohort[0]) == len(members):
            left = {k: x for k, x in parts.items() if k not in own and not (outside and k == cohort)}
            return self._more(left, None, self._times(Fraction(len(members)), self._mean(part)))
        if len(own) > 1 and tuple(sorted(own)) == cohort[0]:
            return self._more({k: x for k, x in parts.items() if k not in own}, cohort, part)
        return parts

    def _more(self, parts: dict[Any, Any], key: Any, part: Any) -> Mapping[Any, Any]:
        return {**parts, key: self._plus(parts[key], part, 1) if key in parts else part}

    def _mean(self, part: Any) -> Any:
        raise NotImplementedError

    def _same(self, a: Any, b: Any) -> bool:
        return a is b or bool(a == b)

    def __add__(self, other: Any) -> Any:
        return self._with(other, 1)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        return self._with(other, -1)

    def __rsub__(self, other: Any) -> Any:
        return (-self)._with(other, 1)

    def __mul__(self, number: Any) -> Any:
        if isinstance(number, np.ndarray):
            return NotImplemented
        if isinstance(number, _Entry):
            return self._product(number)
        number = self.of.number(number)
        return self._like({client: self._times(number, a) for client, a in self.parts.items()})

    __rmul__ = __mul__

    def _product(self, other: Any) -> Any:
        self.no(f"multiplies a {self.what} by a {other.what}")

    def __truediv__(self, number: Any) -> Any:
        if isinstance(number, np.ndarray):
            return NotImplemented
        if isinstance(number, _Entry):
            self.no(f"divides by a {number.what}")
        return self * (1 / self.of.number(number))

    def __rtruediv__(self, number: Any) -> Any:
        self.no(f"divides by a {self.what}")

    def __neg__(self) -> Any:
        return self * -1

    def __pos__(self) -> Any:
        return self

    def __pow__(self, power: Any) -> Any:
        if exact(power) == 2:
            return self._product(self)
        return self._compare()

    what = "vector"

    def __deepcopy__(self, memo: Any) -> Any:
        return self

    def _compare(self, *_: Any) -> Any:
        self.no(f"compares a {self.what}, or takes its size, sign or power")

    def _number(self, *_: Any) -> Any:
        self.no(f"puts a {self.what} into an array of numbers: zeros_like of a vector makes one for vectors")

    __lt__ = __le__ = __gt__ = __ge__ = __eq__ = __ne__ = __abs__ = __bool__ = _compare
    __rpow__ = __mod__ = __floordiv__ = _compare
    __float__ = __int__ = __complex__ = _number
    __hash__ = None  # type: ignore[assignment]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "dtype":  # which np.mean asks for
            raise AttributeError(name)
        self.no(f"takes {name}(...) of a {self.what}")


class Coordinate(_Entry):
    """One coordinate of a vector of a run.

    Attributes
    ----------
    of : `Trace`, which knows the vectors
    parts : dict client -> a vector of every client, of which this is that client's; None -> one that is the same for all
    axis : which coordinate
    """

    __slots__ = ("axis",)

    def __init__(self, of: Trace, parts: Mapping[int | None, Any], axis: int) -> None:
        super().__init__(of, parts)
        self.axis = axis

    def _like(self, parts: Mapping[int | None, Any]) -> Any:
        return Coordinate(self.of, parts, self.axis)

    def _plus(self, a: Any, b: Any, sign: int) -> Any:
        return self.of.plus(a, b, sign)

    def _times(self, number: Fraction, a: Any) -> Any:
        return self.of.times(number, a)

    def _mean(self, part: Any) -> Any:
        return self.of.once(("average", id(part)), lambda: part.average, part)

    def _with(self, other: Any, sign: int) -> Any:
        if isinstance(other, Coordinate) and other.axis != self.axis:
            self.no("adds different coordinates of vectors")
        return super()._with(other, sign)

    def _product(self, other: Any) -> Any:
        if not isinstance(other, Coordinate) or other.axis != self.axis:
            return super()._product(other)
        client = self.client
        if other.client not in (None, client) and client is not None:
            self.no("multiplies vectors of different clients")
        client, a, b = other.client if client is None else client, self.whole, other.whole
        if client is not None and (getattr(a, "drawn", None) or getattr(b, "drawn", None)):
            self.no("multiplies a client's vector by one that depends on the cohort")
        product = self.of.run.product if client is None else self.of.run.product_of_each
        made = self.of.once(("inner", client is None, id(a), id(b)), lambda: product(a, b), a, b)
        return Square(self.of, {client: made}, frozenset({self.axis}))

    @property
    def expected(self) -> Coordinate:
        """Its expectation over the cohort that is drawn."""
        parts = {client: self.of.expectation(v) for client, v in self.settled.items()}
        return Coordinate(self.of, parts, self.axis)

    @property
    def settled(self) -> Mapping[int | None, Any]:
        """Its parts, with sums over cohorts as vectors that are the same for all."""
        found: dict[int | None, Any] = {k: v for k, v in self.parts.items() if not isinstance(k, tuple)}
        for moment, v in self.parts.items():
            if isinstance(moment, tuple):
                total = self._times(Fraction(len(moment[0])), self.of.mean(v, moment))
                found[None] = self._plus(found[None], total, 1) if None in found else total
        return found

    @property
    def client(self) -> int | None:
        """The client that it is of; None where it is the same for all."""
        own = [k for k in self.parts if isinstance(k, int)]
        if len(own) > 1:
            self.no("mixes some clients' vectors: take clients.sum or clients.mean")
        return own[0] if own else None

    @property
    def whole(self) -> Any:
        """The vector of which it is a coordinate."""
        first, *rest = self.settled.values()
        for other in rest:
            first = self.of.plus(first, other, 1)
        return first


class Square(_Entry):
    """A number that is quadratic in the vectors of a run, and linear in the values of losses.

    Attributes
    ----------
    parts : dict client -> `Quadratic`, what this is for that client; None -> one that is no client's
    axes : the coordinates over which products are added up
    """

    __slots__ = ("axes",)
    what = "number made of vectors"

    def __init__(self, of: Trace, parts: Mapping[int | None, Any], axes: frozenset[int]) -> None:
        super().__init__(of, parts)
        self.axes = axes

    def _like(self, parts: Mapping[int | None, Any]) -> Any:
        return Square(self.of, parts, self.axes)

    def _plus(self, a: Any, b: Any, sign: int) -> Any:
        return a + b if sign > 0 else a - b

    def _times(self, number: Fraction, a: Any) -> Any:
        return number * a

    def _mean(self, part: Any) -> Any:
        return part.over_all

    @staticmethod
    def of_all(squares: Sequence[Any]) -> Any:
        """The expected mean over a cohort of numbers of its clients in turn; None where they differ in more than the client."""
        first = squares[0]
        if not all(isinstance(x, Square) and x.axes == first.axes and set(x.parts) <= {k, None} for k, x in enumerate(squares)):
            return None
        told = [(x.parts.get(k), x.parts.get(None)) for k, x in enumerate(squares)]
        if any(x != told[0] for x in told):
            return None
        own, rest = told[0]
        parts = [q for q in (None if own is None else own.over_all, rest) if q is not None]
        return Square(first.of, {None: Quadratic.total(parts)}, first.axes)

    def _with(self, other: Any, sign: int) -> Any:
        every = frozenset(range(self.of.coordinates))
        if not isinstance(other, _Entry | np.ndarray | Size) and self.axes == every:
            other = Square(self.of, {None: Quadratic(constant=self.of.number(other))}, every)
        if isinstance(other, Square) and other.axes != self.axes:
            if sign < 0 or self.axes & other.axes or self.parts.keys() != other.parts.keys():
                self.no("adds different coordinates of vectors")
            if any(not self._same(self.parts[k], other.parts[k]) for k in self.parts):
                self.no("adds different coordinates of vectors")
            return Square(self.of, self.parts, self.axes | other.axes)
        return super()._with(other, sign)

    def __abs__(self) -> Any:
        return Size()

    @property
    def value(self) -> Any:
        """The `Quadratic` that it is.

        Raises
        ------
        NotLinear
            Something of one client, or of one coordinate.
        """
        parts: Mapping[Any, Quadratic] = self._whole(dict(self.parts))  # of one client of one there was no sum
        if len(self.axes) < self.of.coordinates or any(isinstance(k, int) for k in parts):
            raise NotLinear(f"is about one client, or one coordinate: {NOT_LINEAR}")
        # a sum over a cohort is its expectation
        return Quadratic.total(q if k is None else len(k[0]) * q.over_all for k, q in parts.items())


class Size:
    """The size of a number made of vectors, which is looked at nowhere."""

    def __repr__(self) -> str:
        return "the size of a number made of vectors"

    def _same(self, *others: Any) -> Any:
        return NotImplemented if any(isinstance(other, np.ndarray) for other in others) else self

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __neg__ = __pos__ = __abs__ = _same


class Trace:
    """A run's vectors, and arrays of their coordinates.

    Each sum and multiple is made once, whatever the number of entries that ask for it.

    Parameters
    ----------
    run : `Run` or `Tree`
    clients : N
    participants : P (default: all)
    coordinates : how many stand for the dimension
    strict : whether a float that was rounded is refused

    Attributes
    ----------
    groups, shares : the clients of each group, and what they weigh in the mean of the losses
    refused : the last error for what is not linear
    read : of 'N' and 't' those that a round asked for
    """

    def __init__(
        self, run: Any, clients: int, participants: int | None = None, coordinates: int = SHOWN, strict: bool = False
    ) -> None:  # fmt: skip
        self.run, self.clients, self.coordinates, self.strict = run, clients, coordinates, strict
        self.slots = range(clients if participants is None else participants)
        of = getattr(run, "groups", ())  # a tree has none
        ends = [*accumulate((g.clients for g in of), initial=0)]
        self.groups = [range(*pair) for pair in pairwise(ends)] or [range(clients)]
        self.shares = [g.share for g in of] or [Fraction(1)]
        self._group = [g for g, members in enumerate(self.groups) for _ in members]
        self.refused: NotLinear | None = None
        self.read: set[str] = set()
        self._made: dict[Any, tuple[Any, ...]] = {}
        self.solutions: list[tuple[Any, Any]] = []  # local problems that were solved exactly, with their solutions

    @property
    def cohort(self) -> Sequence[int]:
        """The clients that take part."""
        return self.run.cohort or self.slots

    def number(self, number: Any) -> Fraction:
        """A number that vectors are multiplied by, as a fraction."""
        if self.strict and isinstance(number, float) and len(repr(float(number)).split("e")[0].lstrip("-0.")) > DIGITS:
            raise NotLinear(f"multiplies vectors by {number!r}, which is rounded: write Fraction(1, 3) for 1/3, and no roots")
        return exact(number)

    def once(self, key: Any, make: Callable[[], Any], *kept: Any) -> Any:
        """Make a thing once for a key of identities, and keep alive the things that these are of."""
        if key not in self._made:
            self._made[key] = make(), *kept
        return self._made[key][0]

    def plus(self, a: Any, b: Any, sign: int) -> Any:
        """A vector plus, or less, another."""
        return self.once((id(a), id(b), sign), lambda: a + b if sign > 0 else a - b, a, b)

    def times(self, number: Fraction, a: Any) -> Any:
        """A multiple of a vector."""
        return a if number == 1 else self.once((id(a), number), lambda: number * a, a)

    @property
    def moment(self) -> tuple[tuple[int, ...], int]:
        """The cohort, and how many were drawn before it."""
        return tuple(self.cohort), len(self.run.history)

    def mean(self, a: Any, moment: Any = None) -> Any:
        """The mean of a vector over the cohort, or the one that was taken over an earlier cohort."""
        return self.once(("mean", id(a), moment or self.moment), lambda: self.run.mean(a), a)

    def expectation(self, a: Any) -> Any:
        """The expectation of a vector over the cohort that is drawn."""
        return self.once(("expectation", id(a)), lambda: self.run.expectation(a), a)

    def of_clients(self, vector: Any, members: Sequence[int] | None = None) -> np.ndarray:
        """The coordinates of a vector of some clients (1, P, d), by default of all."""
        members = range(self.clients) if members is None else members
        out = np.empty((1, len(members), self.coordinates), dtype=object)
        rows = self.run.rows(vector) if len(self.groups) > 1 else [vector]
        for _, i, axis in np.ndindex(out.shape):
            out[0, i, axis] = Coordinate(self, {members[i]: rows[self._group[members[i]]]}, axis)
        return out

    def of_server(self, vector: Any) -> np.ndarray:
        """The coordinates of a vector that is the same for all (1, d)."""
        out = np.empty((1, self.coordinates), dtype=object)
        out[0] = [Coordinate(self, {None: vector}, axis) for axis in range(self.coordinates)]
        return out

    def vector(self, values: Any, members: Sequence[int] | None = None) -> Any:
        """The vector whose coordinates an array has: (1, P, d) of some clients, by default of all, or
        (1, d) of the server.

        Raises
        ------
        NotLinear
            Entries that are not those of one vector.
        """
        values = np.asarray(values, dtype=object)
        members = range(self.clients) if members is None else members
        rows = (len(members),) if values.ndim == 3 else ()
        if values.shape != (1, *rows, self.coordinates):
            raise NotLinear(f"gives an array of shape {values.shape} where one of {(1, *rows, 'd')} is needed")
        if not any(isinstance(x, _Entry) for x in values.flat):
            if all(exact(x) == 0 for x in values.flat):
                return self.run.zero
            raise NotLinear(f"gives numbers where a vector is needed: {NOT_LINEAR}")
        firsts: dict[int, Any] = {}
        for at, x in np.ndenumerate(values):
            if not (isinstance(x, Coordinate) and x.axis == at[-1]):
                raise NotLinear(UNLIKE)
            if x.client not in (None, members[at[1]] if rows else self._alone):
                raise NotLinear(UNLIKE)
            first = firsts.setdefault(self._group[members[at[1]]] if rows else 0, x)
            if x.whole is not first.whole and not x.whole == first.whole:
                raise NotLinear(UNLIKE)
        if rows and len(self.groups) > 1:
            return self.run.each([x.whole for x in firsts.values()])
        first = firsts[0]
        return first.whole if rows or first.client is None else self.mean(first.whole)

    @property
    def _alone(self) -> int | None:
        """The client that is a cohort by itself."""
        return self.cohort[0] if len(self.cohort) == 1 else None

    def point(self, values: Any, members: Sequence[int] | None = None) -> Any:
        """The vector of an array that is a position, counted from the optimum where that is at 0.

        Raises
        ------
        NotLinear
            One that does not move along where the start is moved.
        """
        found = self.vector(values, members)
        if self.run.best == self.run.zero and any(abs(weight - 1) > ROUNDING for weight in self.run.weights_of_start(found)):
            raise NotLinear(
                "asks for a point that depends on where the origin is, as weight decay does, or a sum of models whose "
                "weights do not add up to 1: a worst case is that of any origin"
            )
        return found


def is_entry(x: Any) -> bool:
    """True of an entry that stands for vectors."""
    return isinstance(x, _Entry)
