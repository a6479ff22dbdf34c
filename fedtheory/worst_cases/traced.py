"""One round's clients, whose arrays are vectors of a worst case.

A sum or a mean over the cohort, a gradient and a local solution are taken from the `Run`, or from the `Tree` of
cohorts, that the vectors belong to. There positions are counted from the optimum, which a method does not know: it
may be asked of none but points that move along where the start is moved.

A local problem that is solved exactly is its optimality condition. With an l1 term lambda ||m||_1
of the move m, p being lambda times its subgradient, <p, m> is at least <q, m> and -<q, m> for every
other such q, of another round or the clients' mean. That entries of p are at most lambda is not
used: a bound that is proved so is true, and may not be the least.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, cast

import numpy as np

from fedtheory.clients.clients import Clients
from fedtheory.clients.pieces import Moved
from fedtheory.errors import InvalidInput, MissingCapability
from fedtheory.local.exact import Exact
from fedtheory.local.exact_prox import ExactProx
from fedtheory.local.objective import LocalObjective, LocalResult, LocalSolver, Rows
from fedtheory.local.sgd import GradientSteps
from fedtheory.local.shifted_gradients import OnView
from fedtheory.local.sliding import SubgradientSliding
from fedtheory.messages.base import Compressor
from fedtheory.participation.cohorts import NOT_DRAWN, Cohort
from fedtheory.rational import Whole
from fedtheory.worst_cases.coins import Coins
from fedtheory.worst_cases.entries import NOT_LINEAR, UNLIKE, NotLinear, Square, Trace, exact, is_entry

__all__ = ["Contraction", "Count", "NoCurvature", "VectorClients"]

MOST_POINTS = 1000  # of a run; a programme of as many would take hours
RELAXED = "of the l1 term inequalities between its subgradients are used, and not what they are entry by entry"


class NoCurvature(NotLinear):
    """A local problem that is to be solved exactly, and has no curvature of its own."""


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
    """P of N clients.

    clients, participants : for which an array has rows; P/N is the share
    read : what was asked for, to which N is added
    """

    def __init__(self, clients: int, participants: int, share: Any, read: set[str]) -> None:
        drawn = participants < clients
        self.__dict__.update(
            NOT_DRAWN, rows=clients, read=read, drawn=drawn, participants=participants,
            mask=None if drawn else np.ones((1, clients), dtype=bool),
            active_probability=np.full(clients, share, dtype=object),
        )  # fmt: skip

    @property
    def num_clients(self) -> int:
        """For how many clients an array has rows."""
        self.__dict__["read"].add("N")
        return int(self.__dict__["rows"])

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
        if self.__dict__["drawn"] and any(x != per_client[0] for x in per_client):
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
    clients, participants : for which arrays have rows
    round_index : t, from 1 on
    moves : the subgradients of l1 terms so far with moves and weights, by name
    inside : the points of a convex set so far, with their names and normals
    label : in the names of the gradients that are asked for (default: t - 1)
    coins : how the round's coins fall; None: it may flip none
    counts : N and P (default: the rows); symbols stand for any
    """

    def __init__(
        self, trace: Trace, solver: LocalSolver, clients: int, participants: int, round_index: int,
        moves: dict[str, tuple[Any, Any, Fraction]], inside: list[tuple[str, Any, Any]], label: Any = None,
        coins: Coins | None = None, counts: tuple[Any, Any] | None = None,
    ) -> None:  # fmt: skip
        self.trace, self.run, self.solver, self.coins = trace, trace.run, solver, coins
        self.counts: tuple[Any, Any] = counts or (Count(clients), Count(participants))
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
        self.begun_with: list[str] = []  # names of vectors that are any near the optimum
        share = exact(self.counts[1]) / exact(self.counts[0])
        self.cohort = VectorCohort(clients, participants, share, trace.read)

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
        return self.counts[0]

    @property
    def size(self) -> Any:
        self.trace.read.add("N")
        return np.array([[self.counts[1]]], dtype=object)

    def real(self, number: Any) -> Fraction:
        return exact(number)

    @property
    def float_bits(self) -> int:
        return 64

    @property
    def objective_weights(self) -> np.ndarray:
        rows = len(self.everybody) / exact(self.counts[0])  # each of which stands for some clients
        shares = [share * rows / len(of) for of, share in zip(self.trace.groups, self.trace.shares, strict=True) for _ in of]
        return np.array(shares, dtype=object)

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
        if not of_all or any(is_entry(x) or x * self.counts[1] != 1 for x in shares.flat):
            self.trace.read.add("N")  # no mean over all
        return self.counts[1] * self.mean(values if weights is None else weights * values)

    def mean(self, values: Any) -> Any:
        values = values[...] if type(values) is Moved else values
        if self._numbers(values):
            means = [values[:, of.start] for of in self.trace.groups]
            same = all((x == means[0]).all() for x in means)
            sizes = [Fraction(len(of), len(self.everybody)) for of in self.trace.groups]
            return means[0] if same else sum(n * x for n, x in zip(sizes, means, strict=True))
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
        """True for numbers of each client, which must be the same for those of a group."""
        values = np.asarray(values)
        if any(is_entry(x) for x in values.flat):
            return False
        if any((values[:, of.start : of.stop] != values[:, of.start : of.start + 1]).any() for of in self.trace.groups):
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

    @property
    def named(self) -> tuple[int, int]:
        """The numbers of points and of messages that have names of this round."""
        return self._asked, self._compressed

    @named.setter
    def named(self, counts: tuple[int, int]) -> None:
        self._asked, self._compressed = counts

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
            if not isinstance(solver, GradientSteps) or not solver.one_size:
                self.trace.read.add("t")  # by which steps may be smaller
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

    def any_near_the_optimum(self, name: str, distance: Any) -> Any:
        if name in self.begun_with:
            told = "those of one name are the same vectors"
            raise NotLinear(f"begins with any {name} twice, or after its start: {told}")
        self.begun_with.append(name)
        return self.trace.of_clients(self.run.near_the_optimum(name, exact(distance)), self.slots)

    def onto_any_set(self, z: Any) -> Any:
        """The projection of a vector that is the same for all onto any closed convex set (1, d).

        It is z less a normal of the set: <n, z' - z> <= 0 for a normal n at z and every z' of the set.
        The start is in it, and so is the optimum, where minus the gradient is a normal.
        """
        run, k = self.run, int(self._round)
        if any(name == f"z{k}" for name, *_ in self.inside):
            raise NotLinear("projects onto the set twice in a round, or in its start and round 1")
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
