"""A method's own round, run on the vectors of a worst case.

The class that trains a network is handed arrays whose entries are `Coordinate`s: of a vector that
is the same for all, or of one of each client. Sums, differences and multiples of them are vectors
again; whatever else a round asks for is no matter of vectors, and is refused with the line that
asked. Arrays have a row for every client, and a few coordinates that stand for the dimension, so
that a round that treats some unlike others is noticed. A sum or a mean over the cohort, a gradient
and a local solution are taken from the `Run`, or from the `Tree` of cohorts, that the vectors
belong to. There positions are counted from the optimum, which a method does not know: it may be
asked of none but points that move along where the start is moved.

A local problem that is solved exactly is its optimality condition. With an l1 term lambda ||m||_1
of the move m, p being lambda times its subgradient, <p, m> is at least <q, m> and -<q, m> for every
other such q, of another round or the clients' mean. That entries of p are at most lambda is not
used: a bound that is proved so is true, and may not be the least.

A round that flips a coin is run once for every way that its coins fall. Up to the coin all of them
ask for the same gradients, and after it each for its own, unless two are at one place.
"""

from __future__ import annotations

import copy
import inspect
import math
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from numbers import Rational
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, TypeVar, cast

import numpy as np

from fedtheory.algorithms.base import Algorithm
from fedtheory.clients.clients import Clients
from fedtheory.clients.pieces import Moved
from fedtheory.errors import FedTheoryError, InvalidInput, MissingCapability
from fedtheory.local.exact import Exact
from fedtheory.local.exact_prox import ExactProx
from fedtheory.local.objective import LocalObjective, LocalResult, LocalSolver, Rows
from fedtheory.local.shifted_gradients import OnView
from fedtheory.local.sliding import SubgradientSliding
from fedtheory.messages.base import Compressor
from fedtheory.participation.cohorts import NOT_DRAWN, Cohort
from fedtheory.rational import Whole, in_fractions
from fedtheory.worst_cases.gram import Quadratic

__all__ = [
    "Coins", "Contraction", "Coordinate", "NoCurvature", "Page", "Trace", "VectorClients", "every_way", "not_too_many_ways",
]  # fmt: skip

MOST_WAYS = 256  # for the coins of a run to fall
DIGITS = 15  # a float of more, the point included, was rounded
MOST_POINTS = 1000  # of a run; a programme of as many would take hours
SHOWN = 2  # coordinates, that stand for the dimension
ROUNDING = 1e-9  # of weights that a round makes of floats, which should add up to 1
RELAXED = "of the l1 term inequalities between its subgradients are used, and not what they are entry by entry"
NOT_LINEAR = "a worst case is computed of rounds that are linear in vectors"
LACKS = {  # what an error of NumPy, or of a local solver, is about
    "Coordinate": "NumPy cannot do this with vectors", "Square": "NumPy cannot do this with vectors",
    "Fraction": "numbers are fractions here: take math.sqrt or the like of them, or float(...) first",
    "Count": "numbers are fractions here: take math.sqrt or the like of them, or float(...) first",
    "VectorProblem": "asks for more of the losses than full gradients",
}  # fmt: skip
UNLIKE = (
    f"treats clients or coordinates unlike one another: {NOT_LINEAR}; means over clients are taken by clients.mean and clients.sum"
)


class NotLinear(MissingCapability):
    """A round asks for what is no sum, difference or multiple of vectors."""


class NoCurvature(NotLinear):
    """A local problem that is to be solved exactly, and has no curvature of its own."""


def exact(number: Any) -> Fraction:
    """A number as a fraction; a float stands for the decimal that it prints as.

    Raises
    ------
    NotLinear
        What is no finite number.
    """
    if isinstance(number, Rational):
        return Fraction(int(number.numerator), int(number.denominator))
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
        own = [k for k in parts if isinstance(k, int)]
        alone = len(own) == len(parts) == 1 < self.of.clients
        if not own or alone or any(not self._same(parts[k], parts[own[0]]) for k in own[1:]):
            return parts
        part, cohort = parts[own[0]], self.of.moment
        outside = cohort in parts and not {*own} & {*cohort[0]} and self._same(parts[cohort], part)
        if len(own) + outside * len(cohort[0]) == self.of.clients:
            left = {k: x for k, x in parts.items() if k not in own and not (outside and k == cohort)}
            return self._more(left, None, self._times(Fraction(self.of.clients), self._mean(part)))
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
        if name.startswith("_"):
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
    refused : the last error for what is not linear
    read : of 'N' and 't' those that a round asked for
    """

    def __init__(
        self, run: Any, clients: int, participants: int | None = None, coordinates: int = SHOWN, strict: bool = False
    ) -> None:  # fmt: skip
        self.run, self.clients, self.coordinates, self.strict = run, clients, coordinates, strict
        self.slots = range(clients if participants is None else participants)
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
        """What is made once under a key of identities, of things that are kept alive."""
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
        for _, i, axis in np.ndindex(out.shape):
            out[0, i, axis] = Coordinate(self, {members[i]: vector}, axis)
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
        first = values.flat[0]
        for at, x in np.ndenumerate(values):
            if not (isinstance(x, Coordinate) and isinstance(first, Coordinate) and x.axis == at[-1]):
                raise NotLinear(UNLIKE)
            if x.client not in (None, members[at[1]] if rows else self._alone):
                raise NotLinear(UNLIKE)
            if x.whole is not first.whole and not x.whole == first.whole:
                raise NotLinear(UNLIKE)
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


class Count(Whole):
    """A whole number of which sums, differences and remainders still count and index."""

    def __add__(self, other: Any) -> Any:
        return self._counted(super().__add__(other), other)

    def __sub__(self, other: Any) -> Any:
        return self._counted(super().__sub__(other), other)

    def __mod__(self, other: Any) -> Any:
        return self._counted(super().__mod__(other), other)

    def _counted(self, found: Any, other: Any) -> Any:
        return Count(found) if isinstance(other, int | Whole) else found


class VectorCohort(Cohort):
    """P of N clients."""

    def __init__(self, clients: int, participants: int) -> None:
        drawn = participants < clients
        self.__dict__.update(
            NOT_DRAWN, num_clients=clients, drawn=drawn, participants=participants,
            mask=None if drawn else np.ones((1, clients), dtype=bool),
            active_probability=np.full(clients, Fraction(participants, clients), dtype=object),
        )  # fmt: skip

    @property
    def members(self) -> Any:
        """None where everybody takes part; which clients do is no matter of vectors elsewhere."""
        if self.__dict__["drawn"]:
            raise NotLinear(f"asks which clients take part: {NOT_LINEAR}")
        return None

    @property
    def partial_mask(self) -> None:
        """None: no slot is empty."""
        return None

    @property
    def scenarios(self) -> int:
        """One."""
        return 1

    @property
    def slots(self) -> int:
        return int(self.__dict__["participants"])

    def size(self) -> np.ndarray:
        return np.array([self.slots])

    def taking_part(self) -> np.ndarray:
        return super().taking_part() if self.members is None else self.members

    def of_each(self, per_client: np.ndarray) -> np.ndarray:
        if any(x != per_client[0] for x in per_client):
            raise NotLinear(UNLIKE)
        return per_client[None, : self.slots]


class NoProblem:
    """The problem of a round: a worst case has none."""

    def __getattr__(self, name: str) -> Any:
        raise NotLinear(f"asks the problem for {name}: a worst case is that of all problems of a class")


@dataclass(frozen=True)
class Contraction(Compressor):
    """Any compressor with E||C(m) - m||^2 <= (1 - delta) ||m||^2, of which a worst case takes the worst.

    Parameters
    ----------
    delta : in (0, 1]

    Raises
    ------
    InvalidInput
        delta outside.
    MissingCapability
        Where a message is to be compressed by it: it stands for all compressors, and is none.
    """

    name: ClassVar[str] = "contraction"

    delta: Any = Fraction(1, 2)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "delta", exact(self.delta))
        if not 0 < self.delta <= 1:
            raise InvalidInput(f"contraction = {self.delta}: delta must lie in (0, 1]")

    def _compress(self, x: Any, uniforms: Any) -> Any:
        raise MissingCapability("a contraction stands for every compressor with its delta: run one of fedtheory.messages")

    _bits = _encode = _decode = _compress  # type: ignore[assignment]


class Coins:
    """The coins of a round: the first fall as it is given, and the others show heads.

    Parameters
    ----------
    given : faces, True for heads
    """

    def __init__(self, given: tuple[bool, ...] = ()) -> None:
        self.given, self.chances = given, list[Fraction]()
        self.faces: tuple[bool, ...] = ()

    def flip(self, p: Any) -> bool:
        """The face of the next coin, which shows heads with probability p."""
        p, at = exact(p), len(self.faces)
        if not 0 <= p <= 1:
            raise InvalidInput(f"coin({p}): a probability lies in [0, 1]")
        self.chances.append(p)
        self.faces += (self.given[at] if at < len(self.given) else p > 0,)
        return self.faces[-1]

    @property
    def weight(self) -> Fraction:
        """The probability of these faces."""
        return math.prod((p if face else 1 - p for p, face in zip(self.chances, self.faces, strict=True)), start=Fraction(1))

    @property
    def others(self) -> list[tuple[bool, ...]]:
        """The ways to fall that differ from this one first in a coin that was not given."""
        new = range(len(self.given), len(self.faces))
        return [(*self.faces[:i], False) for i in new if 0 < self.chances[i] < 1]

    def __str__(self) -> str:
        return "".join("+" if face else "-" for face in self.faces)


Made = TypeVar("Made")


def every_way(make: Callable[[Coins], Made]) -> list[tuple[Coins, Made]]:
    """What is made for each way that its coins may fall; of what flips none, one way.

    Raises
    ------
    InvalidInput
        There are too many ways.
    """
    left: list[tuple[bool, ...]] = [()]
    found: list[tuple[Coins, Made]] = []
    while left:
        coins = Coins(left.pop(0))
        found.append((coins, make(coins)))
        left += coins.others
        not_too_many_ways(len(found) + len(left))
    return found


def not_too_many_ways(ways: int) -> None:
    """Refuse more ways for the coins of a run to fall than are looked at."""
    if ways > MOST_WAYS:
        raise InvalidInput(f"more than {MOST_WAYS:,} ways for the coins to fall: take fewer rounds")


class VectorProblem:
    """The losses as a local solver sees them: their gradients."""

    few_samples, constant_hessian, ridge = True, False, 0

    def __init__(self, clients: VectorClients) -> None:
        self.clients = clients

    def client_gradient(self, y: Any) -> Any:
        """The gradients at a point of each client."""
        return self.clients.gradient(y)


class VectorClients(Clients):
    """One round's clients.

    Parameters
    ----------
    trace : `Trace`
    solver : LocalSolver, whose numbers are fractions
    clients, participants : N and P
    round_index : t, from 1 on
    moves : the subgradients of l1 terms so far with moves and weights, by name
    inside : the points of a convex set so far, with their names and normals
    label : in the names of the gradients that are asked for (default: t - 1)
    coins : how the round's coins fall; None: it may flip none
    """

    def __init__(
        self, trace: Trace, solver: LocalSolver, clients: int, participants: int, round_index: int,
        moves: dict[str, tuple[Any, Any, Fraction]], inside: list[tuple[str, Any, Any]], label: Any = None,
        coins: Coins | None = None,
    ) -> None:  # fmt: skip
        self.trace, self.run, self.solver, self.coins = trace, trace.run, solver, coins
        self.moves, self.inside = moves, inside
        self.label = round_index - 1 if label is None else label
        self.everybody = range(clients)
        self.slots = self.everybody if participants == clients else trace.cohort
        self._round, self.scenarios = Count(round_index), range(1)
        self.xp, self.problem = np, NoProblem()  # type: ignore[assignment]
        self._messages: list[Any] = []
        self._senders: list[np.ndarray | None] = []
        self.results: list[LocalResult] = []
        self._bits_up: list[Any] = []
        self._bits_down: list[Any] = []
        self._asked = self._compressed = 0
        self.cohort = VectorCohort(clients, participants)

    def __getattr__(self, name: str) -> Any:
        raise NotLinear(f"asks for clients.{name}: {NOT_LINEAR}")

    def _only(self, message: Any, who: Any) -> Any:
        if not np.any(who):
            return np.zeros_like(message)
        if not np.all(who):
            raise NotLinear(UNLIKE)
        return message

    # --- the cohort -------------------------------------------------------------------------------
    @property
    def round_index(self) -> Any:  # type: ignore[override]
        self.trace.read.add("t")
        return self._round

    @property
    def num_clients(self) -> int:
        self.trace.read.add("N")
        return Count(len(self.everybody))  # type: ignore[return-value]

    @property
    def size(self) -> Any:
        self.trace.read.add("N")
        return np.array([[Count(len(self.slots))]], dtype=object)

    def real(self, number: Any) -> Fraction:
        return exact(number)

    @property
    def float_bits(self) -> int:
        return 64

    @property
    def objective_weights(self) -> np.ndarray:
        return np.full(len(self.everybody), Fraction(1, len(self.everybody)), dtype=object)

    def weights(self) -> Any:
        return self.objective_weights[None, : len(self.slots), None]

    sample_shares = weights

    def take(self, memory: Any) -> Any:
        self._numbers(memory) or self.trace.vector(memory, self.everybody)
        return memory if len(self.slots) == len(self.everybody) else memory[:, list(self.slots)]

    def put(self, memory: Any, values: Any) -> Any:
        if len(self.slots) == len(self.everybody) and self._numbers(values):
            return values
        old, new = self.trace.vector(memory, self.everybody), self.trace.vector(values, self.slots)
        if len(self.slots) == len(self.everybody):
            return self.trace.of_clients(new)
        return self.trace.of_clients(self.run.put(old, new), self.everybody)

    def moved(self, y: Any, start: Any) -> Any:
        return y - start

    def sum(self, values: Any, weights: Any = None) -> Any:
        values = values[...] if type(values) is Moved else values
        shares = np.asarray(values if weights is None else weights)
        of_all = len(self.slots) == len(self.everybody)
        if not of_all or any(isinstance(x, _Entry) or x != Fraction(1, len(self.slots)) for x in shares.flat):
            self.trace.read.add("N")  # no mean over all
        return len(self.slots) * self.mean(values if weights is None else weights * values)

    def mean(self, values: Any) -> Any:
        values = values[...] if type(values) is Moved else values
        if self._numbers(values):
            return values[:, 0]
        if isinstance(values.flat[0], Square):
            found = [Square.of_all(column) for column in values[0].T]
            if any(x is None for x in found):
                raise NotLinear(UNLIKE)
            return np.array([found], dtype=object)
        vector = self._own(self.trace.vector, values)
        of_all = self.run.drawn and len(self.slots) == len(self.everybody)
        return self.trace.of_server(vector.average if of_all else self.trace.mean(vector))

    def _own(self, read: Callable[[Any, Sequence[int]], Any], values: Any) -> Any:
        """The vector of an array (1, P, d) of the cohort."""
        if np.ndim(values) != 3:
            raise NotLinear(f"gives an array of shape {np.shape(values)} where one of {(1, len(self.slots), 'd')} is needed")
        return read(values, self.slots)

    def _numbers(self, values: Any) -> bool:
        """True for numbers of each client, which must be the same."""
        values = np.asarray(values)
        if any(isinstance(x, _Entry) for x in values.flat):
            return False
        if any((values != values[:, :1]).flat):
            raise NotLinear(UNLIKE)
        return True

    # --- the round's coins ------------------------------------------------------------------------
    def coin(self, p: Any) -> np.ndarray:
        if self.coins is None or len(self.slots) < len(self.everybody):
            raise NotLinear("flips a coin: take a bound or a potential of it with everybody, and no cohorts")
        return np.array([[self.coins.flip(p)]])

    # --- the work ---------------------------------------------------------------------------------
    @property
    def _here(self) -> str:
        """The round and how its coins have fallen, in names."""
        return f"{self.label}{self.coins or ''}"

    def _name(self, solved: bool) -> str:
        """The name of the next point."""
        return f"g{self._here}" + ("" if solved and self._asked == 0 else f".{self._asked}")

    def gradient(self, y: Any) -> Any:
        at, name = self._own(self.trace.point, y), self._name(False)
        known, found = self.run.known(at) or (name, None)
        self._asked += known == name  # a tree knows it from another cohort
        if len(self.run.points) > MOST_POINTS:
            raise InvalidInput(f"more than {MOST_POINTS:,} points at which losses are asked: take fewer local steps or rounds")
        return self.trace.of_clients(self.run.gradient(name, at) if found is None else found, self.slots)

    def minimise(
        self, objective: LocalObjective, start: Any, solver: LocalSolver | None = None
    ) -> LocalResult:
        solver, problem = solver or self.solver, cast(Any, VectorProblem(self))
        if isinstance(solver, OnView):
            problem, solver = solver.view(problem, start), solver.solver
            if isinstance(solver, Exact | ExactProx):
                raise NotLinear("solves a local problem exactly that is not the client's own: take local gradient steps")
        if isinstance(solver, Exact | ExactProx):
            found = self._solved(objective, solver)
        elif isinstance(solver, SubgradientSliding):
            found = self._slid(objective, start, solver)
        else:
            rows = Rows(np.arange(len(self.slots)), np.zeros((1, 1), int), None, None, int(self._round))  # type: ignore[arg-type]
            found = solver.solve(problem, objective, start, rows)
        self.results.append(found)
        return found

    def _solved(self, objective: LocalObjective, solver: Exact | ExactProx) -> LocalResult:
        """The exact solution, by its optimality condition."""
        self._no_ball(solver)
        factor = self._curvature(objective)
        around = self._of_slots(objective.center)
        if objective.linear is not None:
            around = around + (1 / factor) * self._of_slots(objective.linear)
        weight = self._weight_of_l1(objective)
        anchor = self._of_slots(objective.l1_center) if weight else None
        asked, name = (around, factor, weight, anchor), self._name(True)
        known, y = next((made for of, made in self.trace.solutions if of == asked), (name, None))
        self._asked += known == name
        if y is None:
            y = self._solution(name, around, factor, weight, anchor)
            self.trace.solutions.append((asked, (name, y)))
        made = self.trace.of_clients(y, self.slots)
        return LocalResult(made, np.zeros((1, len(self.slots))), average=made if isinstance(solver, ExactProx) else None)

    def _solution(self, name: str, around: Any, factor: Fraction, weight: Fraction, anchor: Any) -> Any:
        """The point ``around`` less the gradient there, and less the l1 term's pull towards an anchor, over the curvature."""
        pull = None
        if anchor is not None:
            pull = self.run.vector(f"p{name[1:]}", beside=around)
            around = around - (1 / factor) * pull
        self.trace.point(self.trace.of_clients(around, self.slots), self.slots)
        y = around - (1 / factor) * self.run.solved(name, lambda g: around - (1 / factor) * g)
        if pull is not None:
            self._subgradients_of_l1(f"p{name[1:]}", pull, y - anchor, weight)
        return y

    def _of_slots(self, values: Any) -> Any:
        """The vector of an array (1, P, d), or what broadcasts to it."""
        values = np.asarray(values, dtype=object)
        shape = (1, len(self.slots), self.trace.coordinates)
        return self.trace.vector(np.broadcast_to(values, shape) if values.ndim == 3 else values, self.slots)

    def _no_ball(self, solver: Any) -> None:
        if np.isfinite(float(getattr(solver, "radius", np.inf))):
            raise NotLinear("projects local models onto a ball: take radius = inf")

    def _curvature(self, objective: LocalObjective) -> Fraction:
        factor = objective.curvature
        if np.ndim(factor) or not exact(factor) > 0:
            raise NoCurvature(
                "solves local problems exactly whose curvature is no number above 0: "
                "take local gradient steps"
            )
        return exact(factor)

    def _slid(
        self, objective: LocalObjective, start: Any, solver: SubgradientSliding
    ) -> LocalResult:
        """The last point and the average of T subgradient steps."""
        self._no_ball(solver)
        if solver.noise_std or solver.batch_size is not None or objective.l1:
            raise NotLinear("slides along noise, batches or an l1 term: take plain subgradients")
        beta = self._curvature(objective)
        u = average = start
        for t in range(1, int(solver.steps) + 1):
            slope = self.gradient(u) + objective.smooth_penalty_gradient(u)
            u = u - slope / ((1 + Fraction(t, 2)) * beta)
            theta = Fraction(2 * (t + 1), t * (t + 3))
            average = (1 - theta) * average + theta * u
        return LocalResult(u, average=average)

    @staticmethod
    def _weight_of_l1(objective: LocalObjective) -> Fraction:
        if np.ndim(objective.l1):
            raise NotLinear(f"has an l1 term whose weight is no number: {NOT_LINEAR}")
        return exact(objective.l1 or 0)

    def _subgradients_of_l1(self, name: str, pull: Any, move: Any, weight: Fraction) -> None:
        run, moves = self.run, self.moves
        run.relaxed = RELAXED
        run.require(f"{name}, 0", pull, move)
        for sign, word in ((1, ""), (-1, "minus ")):
            run.require(f"{name}, {word}mean {name}", pull - sign * pull.average, move)
            for of, (q, moved, other) in moves.items():
                here, there = sign * weight / other, sign * other / weight  # so that entries have the same bound
                run.require(f"{name}, {word}{of}", pull - here * q, move)
                run.require(f"{name}, {word}mean {of}", pull - here * q.average, move)
                run.require(f"{of}, {word}{name}", q - there * pull, moved)
                run.require(f"{of}, {word}mean {name}", q - there * pull.average, moved)
        self.moves = {**moves, name: (pull, move, weight)}

    def onto_any_set(self, z: Any) -> Any:
        """The projection of a vector that is the same for all onto any closed convex set (1, d).

        It is z less a normal of the set: <n, z' - z> <= 0 for a normal n at z and every z' of the set.
        The start is in it, and so is the optimum, where minus the gradient is a normal.
        """
        run, k = self.run, int(self._round)
        normal = run.vector(f"n{k}", everybody=True)
        end = self.trace.point(z) - normal
        if not self.inside:
            self.inside = [("x0", run.start, None), ("*", run.best, -1 * run.optimum)]
            run.require("*, x0", run.optimum, run.start - run.best)
        for name, other, turned in self.inside:
            run.require(f"z{k}, {name}", normal, end - other)
            if turned is not None:
                run.require(f"{name}, z{k}", turned, other - end)
        self.inside = [*self.inside, (f"z{k}", end, normal)]
        return self.trace.of_server(end)

    # --- what is no matter of vectors -------------------------------------------------------------
    def _compress(self, message: Any, compressor: Any, senders: Any = None) -> Any:
        if senders is not None and not np.any(senders):
            return np.zeros_like(message), 0
        self._only(message, True if senders is None else senders)
        return self.trace.of_clients(self._arrives_of(message, compressor, False), self.slots), 0

    def compress_down(self, message: Any, compressor: Any) -> Any:
        return self.trace.of_server(self._arrives_of(message, compressor, True)), np.zeros(1, dtype=np.int64)

    def _arrives_of(self, message: Any, compressor: Any, everybody: bool) -> Any:
        """Any vector that is as near to a message as the contraction says."""
        if not isinstance(compressor, Contraction):
            told = "a contraction stands for every compressor with its delta (contraction=1/2)"
            raise NotLinear(f"compresses messages by {compressor.name}: {NOT_LINEAR}; {told}")
        wanted = self.trace.vector(message) if everybody else self._own(self.trace.vector, message)
        if compressor.delta == 1:  # nothing is left out
            return wanted
        self._compressed += 1
        name = f"c{self._here}.{self._compressed}"
        found = self.run.vector(name, everybody, beside=wanted)
        self.run.contract(name, wanted, found, compressor.delta)
        return found

    def fisher(self, y: Any, kind: Any) -> Any:
        raise NotLinear(f"asks for Fisher information: {NOT_LINEAR}")

    def sensitivity(self, y: Any, batch_size: Any, mu: Any, ema: Any) -> Any:
        raise NotLinear(f"asks how a model's output moves: {NOT_LINEAR}")


class _State(NamedTuple):
    """What a page keeps from round to round: the method's state, moves and points of a set, and how the coins fell."""

    trace: Trace
    of_method: Any
    moves: dict[str, tuple[Any, Any, Fraction]]
    inside: list[tuple[str, Any, Any]]
    history: str = ""


class Page:
    """A round of a method on vectors: called with (run, t, model, state) it gives the next model and state.

    Parameters
    ----------
    solver : the local solver, `Exact` or `ExactProx` for exact solves
    clients, participants : N and P
    coordinates : how many stand for the dimension
    t : the rounds before it
    state : what the page gave back; None before the first round

    Raises
    ------
    MissingCapability
        What the round asks for that is no matter of vectors, with the line.
    """

    def __init__(
        self, algorithm: Algorithm, solver: LocalSolver, clients: int, participants: int, coordinates: int = SHOWN
    ) -> None:
        algorithm.check(solver)
        self.algorithm, self.method, self.solver = algorithm, in_fractions(algorithm), in_fractions(solver)
        self.clients, self.participants, self.coordinates = clients, participants, coordinates

    def __call__(self, run: Any, t: int, x: Any, state: Any) -> tuple[Any, Any]:
        """Of a round that flips no coin."""
        return self._told(run, t, x, state, None)

    def every_way(self, run: Any, t: int, x: Any, state: Any) -> list[tuple[Fraction, Any, Any]]:
        """Each way for the round's coins to fall: its probability, the next model and state."""
        ways = every_way(lambda coins: self._told(run, t, x, state, coins))
        return [(coins.weight, *after) for coins, after in ways]

    def _told(self, run: Any, t: int, x: Any, state: Any, coins: Coins | None) -> tuple[Any, Any]:
        algorithm = self.algorithm
        try:
            return self._round(run, t, x, state, coins)
        except NotLinear as error:
            raise MissingCapability(f"{algorithm.name}: {_line(error, algorithm)}{error}") from error
        except FedTheoryError:
            raise
        except Exception as error:
            lacks = [said for name, said in LACKS.items() if name in str(error) and isinstance(error, AttributeError | TypeError)]
            why = lacks[0] if lacks else f"{type(error).__name__}: {error}"
            raise MissingCapability(f"{algorithm.name}: {_line(error, algorithm)}{why}: {NOT_LINEAR}") from error

    def _round(self, run: Any, t: int, x: Any, state: _State | None, coins: Coins | None) -> tuple[Any, _State]:
        N, P = self.clients, self.participants
        if state is None:
            trace = Trace(run, N, P, self.coordinates)
            state = _State(trace, self.method.init(trace.of_server(x), N), {}, [])
        trace, begun, before = state.trace, state.of_method, state.history
        begun = copy.deepcopy(begun) if run.cohort or coins else begun  # other cohorts, or ways for coins, go on from it, too
        seen = VectorClients(trace, self.solver, N, P, t + 1, state.moves, state.inside, f"{t}{before}", coins)
        after = self.method.round(begun, seen)
        if trace.refused is not None:
            raise trace.refused
        history = f"{before}{coins or ''}/" if before or (coins is not None and coins.faces) else ""
        return trace.point(after.x), _State(trace, after, seen.moves, seen.inside, history)


def _line(error: BaseException, algorithm: Algorithm) -> str:
    """'mine.py, line 12, `x = abs(y)`: ' for the last line of a method's file that led to an error,
    or else for the last line that did, or else for the round that gave back what led to it."""
    ours, frames = Path(__file__).parent, traceback.extract_tb(error.__traceback__)
    try:
        file, round_, at = inspect.getfile(type(algorithm)), *inspect.getsourcelines(type(algorithm).round)
        back = f"{Path(inspect.getfile(type(algorithm).round)).name}, line {at}, what is given back by `{round_[0].strip()}`: "
    except (OSError, TypeError):  # typed at a prompt
        file, back = "", "what is given back by its round: "
    of_method = [f for f in frames if f.filename == file]
    others = [f for f in frames if Path(f.filename).parent != ours and "numpy" not in Path(f.filename).parts]
    if not (found := of_method or others):
        return back
    return f"{Path(found[-1].filename).name}, line {found[-1].lineno}, `{found[-1].line}`: "
