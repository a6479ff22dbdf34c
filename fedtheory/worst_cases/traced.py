"""A method's own round, run on the vectors of a worst case.

The class that trains a network is handed arrays whose entries are `Coordinate`s: of a vector that
is the same for all, or of one of each client. Sums, differences and multiples of them are vectors
again; whatever else a round asks for is no matter of vectors, and is refused with the line that
asked. Two clients stand for all of them, and two coordinates for the dimension, so that a round
that mixes either by itself is noticed. A sum or a mean over the cohort, a gradient and a local
solution are taken from the `Run`, or from the `Tree` of cohorts, that the vectors belong to.

A local problem that is solved exactly is its optimality condition. With an l1 term lambda ||m||_1
of the move m, p being lambda times its subgradient, <p, m> is at least <q, m> and -<q, m> for every
other such q, of another round or the clients' mean. That entries of p are at most lambda is not
used: a bound that is proved so is true, and may not be the least.

A round that flips a coin is run once for every way that its coins fall. Up to the coin all of them
ask for the same gradients, and after it each for its own, unless two are at one place.
"""

from __future__ import annotations

import inspect
import math
import traceback
from collections.abc import Callable, Mapping
from fractions import Fraction
from numbers import Rational
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast

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
from fedtheory.participation.cohorts import NOT_DRAWN, Cohort
from fedtheory.rational import Whole, in_fractions

__all__ = ["Coins", "Coordinate", "NoCurvature", "Page", "Trace", "VectorClients", "cut", "every_way", "not_too_many_ways"]

MOST_WAYS = 256  # for the coins of a run to fall
MOST_POINTS = 1000  # of a run; a programme of as many would take hours
SHOWN = 2  # clients, and coordinates, that are carried along
RELAXED = "of the l1 term inequalities between its subgradients are used, and not what they are entry by entry"
NOT_LINEAR = "a worst case is computed of rounds that are linear in vectors"


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

    def _with(self, other: Any, sign: int) -> Any:
        if isinstance(other, np.ndarray):
            return NotImplemented
        if not isinstance(other, _Entry):
            if exact(other) == 0:
                return self
            raise NotLinear(f"adds {other!r} to a {self.what}: {NOT_LINEAR}")
        if type(other) is not type(self):
            raise NotLinear(f"adds a {other.what} to a {self.what}: {NOT_LINEAR}")
        parts = dict(self.parts)
        for client, b in other.parts.items():
            parts[client] = self._plus(parts[client], b, sign) if client in parts else self._times(Fraction(sign), b)
        return self._like(self._whole(parts))

    def _whole(self, parts: dict[int | None, Any]) -> Mapping[int | None, Any]:
        """The parts, of which one of each client is N times their mean."""
        own = [k for k in parts if k is not None]
        if len(own) < self.of.shown or any(not self._same(parts[k], parts[own[0]]) for k in own):
            return parts
        mean = self._times(Fraction(self.of.shown), self._mean(parts[own[0]]))
        return {None: self._plus(parts[None], mean, 1) if None in parts else mean}

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
        number = exact(number)
        return self._like({client: self._times(number, a) for client, a in self.parts.items()})

    __rmul__ = __mul__

    def _product(self, other: Any) -> Any:
        raise NotLinear(f"multiplies a {self.what} by a {other.what}: {NOT_LINEAR}")

    def __truediv__(self, number: Any) -> Any:
        if isinstance(number, np.ndarray):
            return NotImplemented
        if isinstance(number, _Entry):
            raise NotLinear(f"divides by a {number.what}: {NOT_LINEAR}")
        return self * (1 / exact(number))

    def __rtruediv__(self, number: Any) -> Any:
        raise NotLinear(f"divides by a {self.what}: {NOT_LINEAR}")

    def __neg__(self) -> Any:
        return self * -1

    def __pos__(self) -> Any:
        return self

    def __pow__(self, power: Any) -> Any:
        if exact(power) == 2:
            return self._product(self)
        return self._refuse()

    what = "vector"

    def _refuse(self, *_: Any) -> Any:
        raise NotLinear(f"compares a {self.what}, or takes its size, sign or power: {NOT_LINEAR}")

    __lt__ = __le__ = __gt__ = __ge__ = __eq__ = __ne__ = __abs__ = __bool__ = _refuse
    __float__ = __int__ = __rpow__ = __mod__ = __floordiv__ = _refuse
    __hash__ = None  # type: ignore[assignment]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        raise NotLinear(f"takes {name}(...) of a {self.what}: {NOT_LINEAR}")


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
        return self.of.mean(part)

    def _with(self, other: Any, sign: int) -> Any:
        if isinstance(other, Coordinate) and other.axis != self.axis:
            raise NotLinear(f"adds different coordinates of vectors: {NOT_LINEAR}")
        return super()._with(other, sign)

    def _product(self, other: Any) -> Any:
        if not isinstance(other, Coordinate) or other.axis != self.axis:
            return super()._product(other)
        client = self.client
        if other.client not in (None, client) and client is not None:
            raise NotLinear(f"multiplies vectors of different clients: {NOT_LINEAR}")
        client = other.client if client is None else client
        key = "inner", id(self.whole), id(other.whole)
        made = self.of.once(key, lambda: self.of.run.product(self.whole, other.whole), self.whole, other.whole)
        return Square(self.of, {client: made}, frozenset({self.axis}))

    @property
    def expected(self) -> Coordinate:
        """Its expectation over the cohort that is drawn."""
        parts = {client: self.of.expectation(v) for client, v in self.parts.items()}
        return Coordinate(self.of, parts, self.axis)

    @property
    def client(self) -> int | None:
        """The client that it is of; None where it is the same for all."""
        own = [k for k in self.parts if k is not None]
        if len(own) > 1:
            raise NotLinear(f"mixes some clients' vectors: {NOT_LINEAR}")
        return own[0] if own else None

    @property
    def whole(self) -> Any:
        """The vector of which it is a coordinate."""
        vectors = list(self.parts.values())
        return vectors[0] if len(vectors) == 1 else self.of.plus(vectors[0], vectors[1], 1)


class Square(_Entry):
    """A number that is quadratic in the vectors of a run, and linear in the values of losses.

    Attributes
    ----------
    parts : dict client -> `Quadratic`, the mean over the clients of what this is for that client; None ->
        one that is no client's
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
        return part

    def _with(self, other: Any, sign: int) -> Any:
        if isinstance(other, Square) and other.axes != self.axes:
            if sign < 0 or self.axes & other.axes or self.parts.keys() != other.parts.keys():
                raise NotLinear(f"adds different coordinates of vectors: {NOT_LINEAR}")
            if any(not self._same(self.parts[k], other.parts[k]) for k in self.parts):
                raise NotLinear(f"adds different coordinates of vectors: {NOT_LINEAR}")
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
        if len(self.axes) < SHOWN or set(self.parts) - {None}:
            raise NotLinear(f"is about one client, or one coordinate: {NOT_LINEAR}")
        return self.parts[None]


class Size:
    """The size of a number made of vectors, which is looked at nowhere."""

    def __add__(self, other: Any) -> Any:
        return self

    __radd__ = __add__


class Trace:
    """A run's vectors, and arrays of their coordinates.

    Each sum and multiple is made once, whatever the number of entries that ask for it.

    Parameters
    ----------
    run : `Run` or `Tree`
    clients : N
    shown : how many of them stand for all (default: `SHOWN`)
    """

    def __init__(self, run: Any, clients: int = SHOWN, shown: int | None = None) -> None:
        self.run, self.shown = run, min(SHOWN, clients) if shown is None else shown
        self.mixes = self.shown == clients and not run.drawn  # a sum that a round takes by itself is one over all
        self._made: dict[Any, tuple[Any, ...]] = {}
        self.solutions: list[tuple[Any, Any]] = []  # local problems that were solved exactly, with their solutions

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

    def mean(self, a: Any) -> Any:
        """The mean of a vector over all clients, where everybody takes part."""
        if not self.mixes:
            raise NotLinear("adds vectors of different clients: take clients.sum or clients.mean")
        return self.once(("mean", id(a)), lambda: a.average, a)

    def expectation(self, a: Any) -> Any:
        """The expectation of a vector over the cohort that is drawn."""
        return self.once(("expectation", id(a)), lambda: self.run.expectation(a), a)

    def of_clients(self, vector: Any) -> np.ndarray:
        """The coordinates of a vector of each client (1, P, d)."""
        return self._array(vector, (1, self.shown, SHOWN))

    def of_server(self, vector: Any) -> np.ndarray:
        """The coordinates of a vector that is the same for all (1, d)."""
        return self._array(vector, (1, SHOWN))

    def _array(self, vector: Any, shape: tuple[int, ...]) -> np.ndarray:
        out = np.empty(shape, dtype=object)
        for at in np.ndindex(shape):
            out[at] = Coordinate(self, {at[1] if len(shape) == 3 else None: vector}, at[-1])
        return out

    def vector(self, values: Any) -> Any:
        """The vector whose coordinates an array (1, P, d) or (1, d) has.

        Raises
        ------
        NotLinear
            Entries that are not those of one vector.
        """
        values = np.asarray(values, dtype=object)
        found = values.reshape(-1)
        if all(not isinstance(x, _Entry) and exact(x) == 0 for x in found):
            return self.run.zero
        first = found[0]
        for at, x in np.ndenumerate(values):
            if not (isinstance(x, Coordinate) and isinstance(first, Coordinate) and x.axis == at[-1]):
                raise NotLinear(f"treats clients or coordinates unlike one another: {NOT_LINEAR}")
            if x.client not in (None, at[1] if values.ndim == 3 else None):
                raise NotLinear(f"treats clients unlike one another: {NOT_LINEAR}")
            if x.whole is not first.whole and not x.whole == first.whole:
                raise NotLinear(f"treats clients or coordinates unlike one another: {NOT_LINEAR}")
        return first.whole


class VectorCohort(Cohort):
    """P of N clients, of whom some stand for all."""

    def __init__(self, clients: int, participants: int, shown: int) -> None:
        drawn = participants < clients
        slots = np.arange(shown)[None]
        self.__dict__.update(
            NOT_DRAWN, num_clients=clients, members=slots if drawn else None,
            mask=None if drawn else slots >= 0,
            active_probability=np.full(clients, Fraction(participants, clients), dtype=object),
        )  # fmt: skip
        self.__dict__["participants"], self.__dict__["shown"] = participants, shown

    @property
    def slots(self) -> int:
        return int(self.__dict__["shown"])

    def size(self) -> np.ndarray:
        return np.array([self.__dict__["participants"]])

    def taking_part(self) -> np.ndarray:
        raise NotLinear(f"asks which clients take part: {NOT_LINEAR}")

    def of_each(self, per_client: np.ndarray) -> np.ndarray:
        return per_client[None, : self.__dict__["shown"]]


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
    """One round's clients, of whom two stand for all.

    Parameters
    ----------
    trace : `Trace`
    solver : LocalSolver, whose numbers are fractions
    clients, participants : N and P
    round_index : t, from 1 on
    moves : the moves and subgradients of l1 terms so far, by name
    inside : the points of a convex set so far, with their names and normals
    label : in the names of the gradients that are asked for (default: t - 1)
    coins : how the round's coins fall; None: it may flip none
    """

    def __init__(
        self, trace: Trace, solver: LocalSolver, clients: int, participants: int, round_index: int,
        moves: dict[str, tuple[Any, Any]], inside: list[tuple[str, Any, Any]], label: Any = None,
        coins: Coins | None = None,
    ) -> None:  # fmt: skip
        self.trace, self.run, self.solver, self.coins = trace, trace.run, solver, coins
        self.moves, self.inside = moves, inside
        self.label = round_index - 1 if label is None else label
        self._number, self._participants = clients, participants
        self.round_index, self.scenarios = Whole(round_index), range(1)  # type: ignore[assignment]
        self.xp = np
        self.problem = VectorProblem(self)  # type: ignore[assignment]
        self._messages: list[Any] = []
        self._senders: list[np.ndarray | None] = []
        self.results: list[LocalResult] = []
        self._bits_up: list[Any] = []
        self._bits_down: list[Any] = []
        self._asked = 0
        self.shown = trace.shown
        self.cohort = VectorCohort(clients, participants, self.shown)

    def _only(self, message: Any, who: Any) -> Any:
        if not np.any(who):
            return np.zeros_like(message)
        if not np.all(who):
            raise NotLinear(f"treats clients unlike one another: {NOT_LINEAR}")
        return message

    # --- the cohort -------------------------------------------------------------------------------
    @property
    def num_clients(self) -> int:
        return self._number

    @property
    def size(self) -> Any:
        return np.array([[Whole(self._participants)]], dtype=object)

    def real(self, number: Any) -> Fraction:
        return exact(number)

    @property
    def float_bits(self) -> int:
        return 64

    @property
    def objective_weights(self) -> np.ndarray:
        return np.full(self._number, Fraction(1, self._number), dtype=object)

    def weights(self) -> Any:
        return self.objective_weights[None, : self.shown, None]

    sample_shares = weights

    def take(self, memory: Any) -> Any:
        return memory

    def put(self, memory: Any, values: Any) -> Any:
        old, new = self.trace.vector(memory), self.trace.vector(values)
        return self.trace.of_clients(self.run.put(old, new))

    def moved(self, y: Any, start: Any) -> Any:
        return y - start

    def sum(self, values: Any, weights: Any = None) -> Any:
        values = values[...] if type(values) is Moved else values
        return self._participants * self.mean(values if weights is None else weights * values)

    def mean(self, values: Any) -> Any:
        values = values[...] if type(values) is Moved else values
        if not any(isinstance(x, _Entry) for x in values.reshape(-1)):  # numbers of each client
            if any(x != values[0, 0, i % values.shape[2]] for i, x in enumerate(values.reshape(-1))):
                raise NotLinear(f"treats clients unlike one another: {NOT_LINEAR}")
            return values[:, 0]
        return self.trace.of_server(self.run.mean(self.trace.vector(values)))

    # --- the round's coins ------------------------------------------------------------------------
    def coin(self, p: Any) -> np.ndarray:
        if self.coins is None or self._participants < self._number:
            raise NotLinear("flips a coin: take a bound or a potential of it with everybody, and no cohorts")
        return np.array([[self.coins.flip(p)]])

    # --- the work ---------------------------------------------------------------------------------
    def _name(self, solved: bool) -> str:
        j, self._asked = self._asked, self._asked + 1
        return f"g{self.label}{self.coins or ''}" + ("" if solved and j == 0 else f".{j}")

    def gradient(self, y: Any) -> Any:
        at = self.trace.vector(y)
        if getattr(at, "drawn", None):
            raise NotLinear(f"asks for gradients at a model that depends on the cohort: {NOT_LINEAR}")
        known = self.run.known(at)
        if len(self.run.points) > MOST_POINTS:
            raise InvalidInput(f"more than {MOST_POINTS:,} points at which losses are asked: take fewer local steps or rounds")
        return self.trace.of_clients(self.run.gradient(self._name(False), at) if known is None else known)

    def minimise(
        self, objective: LocalObjective, start: Any, solver: LocalSolver | None = None
    ) -> LocalResult:
        solver, problem = solver or self.solver, cast(Any, self.problem)
        if isinstance(solver, OnView):
            problem = solver.view(self.problem, start)
            solver = solver.solver
        if isinstance(solver, Exact | ExactProx):
            found = self._solved(objective)
        elif isinstance(solver, SubgradientSliding):
            found = self._slid(objective, start, solver)
        else:
            rows = Rows(np.arange(self.shown), np.zeros((1, 1), int), None, None, int(self.round_index))  # type: ignore[arg-type]
            found = solver.solve(problem, objective, start, rows)
        self.results.append(found)
        return found

    def _solved(self, objective: LocalObjective) -> LocalResult:
        """The exact solution, by its optimality condition."""
        vector, factor = self.trace.vector, self._curvature(objective)
        center, linear = vector(objective.center), self.run.zero
        if objective.linear is not None:
            linear = vector(objective.linear)
        asked = center, linear, factor, bool(objective.l1)
        y = next((y for known, y in self.trace.solutions if known == asked), None)
        if y is None:
            name = self._name(True)
            if objective.l1:
                pull = self.run.vector(f"p{name[1:]}")
                linear = linear - pull
            found = self.run.solved(name, lambda g: center + (1 / factor) * (linear - g))
            y = center + (1 / factor) * (linear - found)
            if objective.l1:
                self._subgradients_of_l1(f"p{name[1:]}", pull, y - vector(objective.l1_center))
            self.trace.solutions.append((asked, y))
        made = self.trace.of_clients(y)
        return LocalResult(made, np.zeros((1, self.shown)), average=made)

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
        if not np.isinf(float(solver.radius)):
            raise NotLinear("projects local models onto a ball: take radius = inf")
        beta = self._curvature(objective)
        u = average = start
        for t in range(1, int(solver.steps) + 1):
            slope = self.gradient(u) + objective.smooth_penalty_gradient(u)
            u = u - slope / ((1 + Fraction(t, 2)) * beta)
            theta = Fraction(2 * (t + 1), t * (t + 3))
            average = (1 - theta) * average + theta * u
        return LocalResult(u, average=average)

    def _subgradients_of_l1(self, name: str, pull: Any, move: Any) -> None:
        run, moves = self.run, self.moves
        run.relaxed = RELAXED
        run.require(f"{name}, 0", pull, move)
        for sign, word in ((1, ""), (-1, "minus ")):
            run.require(f"{name}, {word}mean {name}", pull - sign * pull.average, move)
            for of, (q, moved) in moves.items():
                run.require(f"{name}, {word}{of}", pull - sign * q, move)
                run.require(f"{name}, {word}mean {of}", pull - sign * q.average, move)
                run.require(f"{of}, {word}{name}", q - sign * pull, moved)
                run.require(f"{of}, {word}mean {name}", q - sign * pull.average, moved)
        self.moves = {**moves, name: (pull, move)}

    def onto_any_set(self, z: Any) -> Any:
        """The projection of a vector that is the same for all onto any closed convex set (1, d).

        It is z less a normal of the set: <n, z' - z> <= 0 for a normal n at z and every z' of the set.
        The start is in it, and so is the optimum, where minus the gradient is a normal.
        """
        run, k = self.run, int(self.round_index)
        normal = run.vector(f"n{k}", everybody=True)
        end = self.trace.vector(z) - normal
        if not self.inside:
            self.inside = [("x0", run.start, None), ("*", run.zero, -1 * run.optimum)]
            run.require("*, x0", run.optimum, run.start)
        for name, other, turned in self.inside:
            run.require(f"z{k}, {name}", normal, end - other)
            if turned is not None:
                run.require(f"{name}, z{k}", turned, other - end)
        self.inside = [*self.inside, (f"z{k}", end, normal)]
        return self.trace.of_server(end)

    # --- what is no matter of vectors -------------------------------------------------------------
    def _compress(self, message: Any, compressor: Any, senders: Any = None) -> Any:
        raise NotLinear(f"compresses messages by {compressor.name}: {NOT_LINEAR}")

    def compress_down(self, message: Any, compressor: Any) -> Any:
        raise NotLinear(f"compresses messages by {compressor.name}: {NOT_LINEAR}")

    def fisher(self, y: Any, kind: Any) -> Any:
        raise NotLinear(f"asks for Fisher information: {NOT_LINEAR}")

    def sensitivity(self, y: Any, batch_size: Any, mu: Any, ema: Any) -> Any:
        raise NotLinear(f"asks how a model's output moves: {NOT_LINEAR}")


class _State(NamedTuple):
    """What a page keeps from round to round: the method's state, moves and points of a set, and how the coins fell."""

    trace: Trace
    of_method: Any
    moves: dict[str, tuple[Any, Any]]
    inside: list[tuple[str, Any, Any]]
    history: str = ""


class Page:
    """A round of a method on vectors: called with (run, t, model, state) it gives the next model and state.

    Parameters
    ----------
    solver : the local solver, `Exact` or `ExactProx` for exact solves
    clients, participants : N and P
    t : the rounds before it
    state : what the page gave back; None before the first round

    Raises
    ------
    MissingCapability
        What the round asks for that is no matter of vectors, with the line.
    """

    def __init__(self, algorithm: Algorithm, solver: LocalSolver, clients: int, participants: int) -> None:
        algorithm.check(solver)
        self.name, self.file = algorithm.name, inspect.getfile(type(algorithm))
        self.method, self.solver = in_fractions(algorithm), in_fractions(solver)
        self.clients, self.participants = clients, participants

    def __call__(self, run: Any, t: int, x: Any, state: Any) -> tuple[Any, Any]:
        """Of a round that flips no coin."""
        return self._told(run, t, x, state, None)

    def every_way(self, run: Any, t: int, x: Any, state: Any) -> list[tuple[Fraction, Any, Any]]:
        """Each way for the round's coins to fall: its probability, the next model and state."""
        ways = every_way(lambda coins: self._told(run, t, x, state, coins))
        return [(coins.weight, *after) for coins, after in ways]

    def _told(self, run: Any, t: int, x: Any, state: Any, coins: Coins | None) -> tuple[Any, Any]:
        try:
            return self._round(run, t, x, state, coins)
        except NotLinear as error:
            raise MissingCapability(f"{self.name}: {_line(error, self.file)}{error}") from error
        except FedTheoryError:
            raise
        except Exception as error:
            numpy_s = "Coordinate" in str(error) or "Square" in str(error)  # of a function that looks for a method of its entries
            why = "NumPy cannot do this with vectors" if numpy_s else f"{type(error).__name__}: {error}"
            raise MissingCapability(f"{self.name}: {_line(error, self.file)}{why}: {NOT_LINEAR}") from error

    def _round(self, run: Any, t: int, x: Any, state: _State | None, coins: Coins | None) -> tuple[Any, _State]:
        if state is None:
            trace = Trace(run, self.clients)
            begun = cut(self.method.init(trace.of_server(x), self.clients), self.clients, trace.shown)
            state = _State(trace, begun, {}, [])
        before = state.history
        seen = VectorClients(
            state.trace, self.solver, self.clients, self.participants, t + 1, state.moves, state.inside, f"{t}{before}", coins
        )
        after = self.method.round(state.of_method, seen)
        history = f"{before}{coins or ''}/" if before or (coins is not None and coins.faces) else ""
        return state.trace.vector(after.x), _State(state.trace, after, seen.moves, seen.inside, history)


def cut(state: Any, clients: int, shown: int) -> Any:
    """The state with the rows of the clients that stand for all."""
    fields = {}
    for name, value in state._asdict().items():
        if value is not None and np.ndim(value) >= 2 and value.shape[1] == clients:
            value = value[:, :shown] if np.ndim(value) == 3 or clients > SHOWN else value
        fields[name] = value
    return state._replace(**fields)


def _line(error: BaseException, file: str) -> str:
    """'mine.py, line 12, `x = abs(y)`: ' for the last line of a method's file that led to an error,
    or else for the last line that did."""
    ours, frames = Path(__file__).parent, traceback.extract_tb(error.__traceback__)
    of_method = [f for f in frames if f.filename == file]
    others = [f for f in frames if Path(f.filename).parent != ours and "numpy" not in Path(f.filename).parts]
    if not (found := of_method or others):
        return ""
    return f"{Path(found[-1].filename).name}, line {found[-1].lineno}, `{found[-1].line}`: "
