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
"""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from numbers import Rational
from pathlib import Path
from typing import Any, cast

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
from fedtheory.worst_cases.gram import Quadratic
from fedtheory.worst_cases.runs import OPTIMUM

__all__ = ["Coordinate", "NoCurvature", "Page", "Trace", "VectorClients", "cut", "page"]

DIGITS = 15  # a float of more, the point included, was rounded
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
            if self.of.number(other) == 0:
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
        number = self.of.number(number)
        return self._like({client: self._times(number, a) for client, a in self.parts.items()})

    __rmul__ = __mul__

    def _product(self, other: Any) -> Any:
        raise NotLinear(f"multiplies a {self.what} by a {other.what}: {NOT_LINEAR}")

    def __truediv__(self, number: Any) -> Any:
        if isinstance(number, np.ndarray):
            return NotImplemented
        if isinstance(number, _Entry):
            raise NotLinear(f"divides by a {number.what}: {NOT_LINEAR}")
        return self * (1 / self.of.number(number))

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
        client, a, b = other.client if client is None else client, self.whole, other.whole
        if client is not None and (getattr(a, "drawn", None) or getattr(b, "drawn", None)):
            raise NotLinear(f"multiplies a client's vector by one that depends on the cohort: {NOT_LINEAR}")
        product = self.of.run.product if client is None else self.of.run.product_of_each
        made = self.of.once(("inner", client is None, id(a), id(b)), lambda: product(a, b), a, b)
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
        every = frozenset(range(self.of.dim))
        if not isinstance(other, _Entry | np.ndarray | Size) and self.axes == every:
            other = Square(self.of, {None: Quadratic(constant=self.of.number(other))}, every)
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
        parts = self._whole(dict(self.parts))
        if len(self.axes) < self.of.dim or set(parts) - {None}:
            raise NotLinear(f"is about one client, or one coordinate: {NOT_LINEAR}")
        return parts[None]


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
    shown : how many of them stand for all (default: `SHOWN`)
    rows : how many of a cohort do (default: as many)
    dim : coordinates
    strict : whether a float that was rounded is refused

    Attributes
    ----------
    read : of 'N' and 't' those that a round asked for
    """

    def __init__(
        self, run: Any, clients: int = SHOWN, shown: int | None = None, rows: int | None = None, dim: int = SHOWN,
        strict: bool = False,
    ) -> None:  # fmt: skip
        self.run, self.shown, self.dim = run, min(SHOWN, clients) if shown is None else shown, dim
        self.strict = strict
        self.rows = self.shown if rows is None else rows
        # a sum over all rows is one over all clients
        self.mixes = self.shown == clients and not (run.drawn and self.rows == self.shown)
        self.read: set[str] = set()
        self._made: dict[Any, tuple[Any, ...]] = {}
        self.solutions: list[tuple[Any, Any]] = []  # local problems that were solved exactly, with their solutions

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

    def mean(self, a: Any) -> Any:
        """The mean of a vector over all clients, where everybody takes part."""
        if not self.mixes:
            raise NotLinear("adds vectors of different clients: take clients.sum or clients.mean")
        return self.once(("mean", id(a)), lambda: a.average, a)

    def expectation(self, a: Any) -> Any:
        """The expectation of a vector over the cohort that is drawn."""
        return self.once(("expectation", id(a)), lambda: self.run.expectation(a), a)

    def of_clients(self, vector: Any, rows: int | None = None) -> np.ndarray:
        """The coordinates of a vector of each client (1, N, d), or of some of them."""
        return self._array(vector, (1, self.shown if rows is None else rows, self.dim))

    def of_server(self, vector: Any) -> np.ndarray:
        """The coordinates of a vector that is the same for all (1, d)."""
        return self._array(vector, (1, self.dim))

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
    moves : the subgradients of l1 terms so far with moves and weights, by name
    inside : the points of a convex set so far, with their names and normals
    label : in the names of the gradients that are asked for (default: t - 1)
    """

    def __init__(
        self, trace: Trace, solver: LocalSolver, clients: int, participants: int, round_index: int,
        moves: dict[str, tuple[Any, Any, Fraction]], inside: list[tuple[str, Any, Any]], label: Any = None,
    ) -> None:  # fmt: skip
        self.trace, self.run, self.solver = trace, trace.run, solver
        self.moves, self.inside = moves, inside
        self.label = round_index - 1 if label is None else label
        self._number, self._participants = clients, participants
        self._round, self.scenarios = Whole(round_index), range(1)
        self.xp = np
        self.problem = VectorProblem(self)  # type: ignore[assignment]
        self._messages: list[Any] = []
        self._senders: list[np.ndarray | None] = []
        self.results: list[LocalResult] = []
        self._bits_up: list[Any] = []
        self._bits_down: list[Any] = []
        self._asked = 0
        self.everybody = participants == clients and self.run.drawn  # of a run of cohorts
        self.shown = trace.shown if self.everybody else trace.rows
        self.cohort = VectorCohort(clients, participants, self.shown)

    def _only(self, message: Any, who: Any) -> Any:
        if not np.all(who):
            raise NotLinear(f"treats clients unlike one another: {NOT_LINEAR}")
        return message

    # --- the cohort -------------------------------------------------------------------------------
    @property
    def round_index(self) -> Any:  # type: ignore[override]
        self.trace.read.add("t")
        return self._round

    @property
    def num_clients(self) -> int:
        self.trace.read.add("N")
        return self._number

    @property
    def size(self) -> Any:
        self.trace.read.add("N")
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
        return memory[:, : self.shown]

    def put(self, memory: Any, values: Any) -> Any:
        old, new = self.trace.vector(memory), self.trace.vector(values)
        return self.trace.of_clients(new if self.everybody else self.run.put(old, new))

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
        if isinstance(values.reshape(-1)[0], Square):
            found = [Square.of_all(column) for column in values[0].T]
            if any(x is None for x in found):
                raise NotLinear(f"treats clients unlike one another: {NOT_LINEAR}")
            return np.array([found], dtype=object)
        vector = self.trace.vector(values)
        return self.trace.of_server(vector.average if self.everybody else self.run.mean(vector))

    # --- the work ---------------------------------------------------------------------------------
    def _name(self, solved: bool) -> str:
        j, self._asked = self._asked, self._asked + 1
        return f"g{self.label}" + ("" if solved and j == 0 else f".{j}")

    def gradient(self, y: Any) -> Any:
        at = self.trace.vector(y)
        if getattr(at, "drawn", None):
            raise NotLinear(f"asks for gradients at a model that depends on the cohort: {NOT_LINEAR}")
        known = self.run.known(at)
        if len(self.run.points) > MOST_POINTS:
            raise InvalidInput(f"more than {MOST_POINTS:,} points at which losses are asked: take fewer local steps or rounds")
        return self.trace.of_clients(self.run.gradient(self._name(False), at) if known is None else known, self.shown)

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
            rows = Rows(np.arange(self.shown), np.zeros((1, 1), int), None, None, int(self._round))  # type: ignore[arg-type]
            found = solver.solve(problem, objective, start, rows)
        self.results.append(found)
        return found

    def _solved(self, objective: LocalObjective) -> LocalResult:
        """The exact solution, by its optimality condition."""
        vector, factor = self.trace.vector, self._curvature(objective)
        center, linear = vector(objective.center), self.run.zero
        if objective.linear is not None:
            linear = vector(objective.linear)
        if any(getattr(v, "drawn", None) for v in (center, linear)):
            raise NotLinear(f"solves local problems at a model that depends on the cohort: {NOT_LINEAR}")
        asked = center, linear, factor, self._weight_of_l1(objective), vector(objective.l1_center) if objective.l1 else None
        y = next((y for known, y in self.trace.solutions if known == asked), None)
        if y is None:
            name = self._name(True)
            if objective.l1:
                pull = self.run.vector(f"p{name[1:]}")
                linear = linear - pull
            found = self.run.solved(name, lambda g: center + (1 / factor) * (linear - g))
            y = center + (1 / factor) * (linear - found)
            if objective.l1:
                self._subgradients_of_l1(f"p{name[1:]}", pull, y - vector(objective.l1_center), self._weight_of_l1(objective))
            self.trace.solutions.append((asked, y))
        made = self.trace.of_clients(y, self.shown)
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
        end = self.trace.vector(z) - normal
        if not self.inside:
            best = run.points[OPTIMUM].at
            self.inside = [("x0", run.start, None), ("*", best, -1 * run.optimum)]
            run.require("*, x0", run.optimum, run.start - best)
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


Page = Callable[[Any, int, Any, Any], tuple[Any, Any]]


def page(algorithm: Algorithm, solver: LocalSolver, clients: int, participants: int) -> Page:
    """A round of a method: callable(run, t, model, state) -> the next model and state.

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
    algorithm.check(solver)
    method, local = in_fractions(algorithm), in_fractions(solver)

    file = inspect.getfile(type(algorithm))

    def of_round(run: Any, t: int, x: Any, state: Any) -> tuple[Any, Any]:
        if state is None:
            trace = Trace(run, clients)
            begun, moves = cut(method.init(trace.of_server(x), clients), clients, trace.shown), {}
            inside: list[Any] = []
        else:
            trace, begun, moves, inside = state
        seen = VectorClients(trace, local, clients, participants, t + 1, moves, inside)
        after = method.round(begun, seen)
        return trace.vector(after.x), (trace, after, seen.moves, seen.inside)

    def told(run: Any, t: int, x: Any, state: Any) -> tuple[Any, Any]:
        try:
            return of_round(run, t, x, state)
        except NotLinear as error:
            raise MissingCapability(f"{algorithm.name}: {_line(error, file)}{error}") from error
        except FedTheoryError:
            raise
        except Exception as error:
            numpy_s = "Coordinate" in str(error) or "Square" in str(error)  # of a function that looks for a method of its entries
            why = "NumPy cannot do this with vectors" if numpy_s else f"{type(error).__name__}: {error}"
            raise MissingCapability(f"{algorithm.name}: {_line(error, file)}{why}: {NOT_LINEAR}") from error

    return told


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
