"""A statement on all losses of its class at once: its quantities as forms of vectors, and a proof.

The method's own round is run on the vectors of a worst case (`fedtheory.worst_cases.traced`), and
the statement's own function is given them: the sides of a form are then quadratic in finitely many
vectors and linear in values of losses. Where their difference is a sum of multiples of the
conditions of the class and of squares, in fractions, the form holds for every loss of the class, in
every dimension, and for every number of clients from two on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from itertools import combinations
from math import comb
from typing import Any, NamedTuple, TypeVar

import numpy as np

from fedtheory.errors import FedTheoryError, MissingCapability, NotCertified
from fedtheory.limits import announce
from fedtheory.local import Exact, GradientSteps
from fedtheory.participation.cohorts import Cohort, Full, Uniform
from fedtheory.rational import Whole, brief, in_fractions, simplest_between, small_root
from fedtheory.theory.rounds.declare import Above, Among, Watched
from fedtheory.theory.rounds.forms import Needed, Potential
from fedtheory.theory.rounds.method_setting import MethodSetting
from fedtheory.theory.rounds.of_each_client import CohortClients, LossesOf, RunOfEach
from fedtheory.theory.rounds.oracles import Best, everyone, probabilities, sequences
from fedtheory.theory.rounds.problem_classes import (
    Lipschitz,
    NonconvexQuadratics,
    Quadratics,
    Smooth,
    SmoothConvex,
    StronglyConvex,
    StronglyConvexSum,
)
from fedtheory.theory.rounds.rational_clients import SlotWork
from fedtheory.worst_cases.classes import Losses, Point, WeaklyConvex
from fedtheory.worst_cases.entries import NOT_LINEAR, SHOWN, Coordinate, NotLinear, Square, Trace, exact
from fedtheory.worst_cases.gram import Quadratic, Vector, common, own, square, value
from fedtheory.worst_cases.identity import Family
from fedtheory.worst_cases.numbers import Units
from fedtheory.worst_cases.programme import Solution, certify, check, optimum
from fedtheory.worst_cases.runs import OPTIMUM, STATE, X_STAR, Run, spread
from fedtheory.worst_cases.traced import VectorClients

__all__ = [
    "BestConstant", "Case", "CohortWorld", "Proved", "VectorWorld", "announce_proofs",
    "best_constant", "best_constants", "cases_of", "families", "followed", "names_minimiser", "proved",
    "scope_of", "scopes", "view_of",
]  # fmt: skip

M = TypeVar("M")

CLIENTS = (2, 3, 5)  # with as many the identity is written down, to see that it is the same
MOST_CROWDS = 4  # numbers of clients at which a statement about cohorts of one size is proved
COHORTS = ((2, 1), (3, 1), (3, 2), (5, 2))  # N and P at which a statement about cohorts of any size is proved
BETAS = (Fraction(3 * 10**6), Fraction(1, 7 * 10**6))  # and with these, beside 1
OTHERS = 3  # coordinates, beside `SHOWN`
EVERYBODY, EVERY_DIMENSION = "any number of clients", "every dimension"
NEAR = Fraction(1, 10**6)  # the solver's best and the number that it is, as a share of it
LEAST = Fraction(1, 10**3)  # numbers, of which it is a share; smaller ones are as far from another as these
OWN = "own optimum"
OF_LOSSES = frozenset({OPTIMUM, OWN, "g*"})  # names of what no state has a part in
CONSTANT = "constant "  # the term of a constant in an identity
FEW = 60  # the largest denominator of a number that is recognised
ROOMS = tuple(Fraction(1, 10**k) for k in (8, 7, 6, 5, 4))
MOST_ROUNDS = 3  # of a run that is proved
MOST_CONDITIONS = 300  # of the losses: a few seconds of the solver
MOST_OF_COHORTS = 600  # where each client has losses of its own
PROVED, BEST = 7e-3, 11e-3  # seconds for each condition: of a form, and of the best value of a constant (measured, one core)
ROUNDS_OF_COHORTS = 2  # that are proved, unless more are declared
CONVEXITY = Fraction(1, 10)  # mu/beta at which a statement about strongly convex losses is looked at


class VectorWorld:
    """All losses of a class: their values and gradients at the points that are asked for.

    The optimum is a vector like any other: a round, or a side, that is not the same wherever the
    origin is has it in its forms.

    Parameters
    ----------
    clients, participants : N, and P that are drawn in a round (default: all)
    dim : coordinates that stand for every dimension
    """

    exact, vectors = True, True

    def __init__(
        self, losses: Losses, clients: int = CLIENTS[0], participants: int | None = None, dim: int = SHOWN
    ) -> None:  # fmt: skip
        P = clients if participants is None else participants
        self.losses, self.num_clients, self.participants, self.dim = losses, clients, P, dim
        self.run = Run(Fraction(P, clients), spread(clients, P))
        self.run.points[OPTIMUM] = replace(self.run.points[OPTIMUM], at=common(X_STAR))
        self.run.start = common("x0") + common(X_STAR)
        self.trace = Trace(self.run, clients, P, dim, strict=True)
        self.run.smooth = losses.smoothness is not None
        self.weights = np.full(clients, Fraction(1, clients), dtype=object)
        self.start = np.zeros(dim, dtype=object)
        L, G = losses.smoothness, losses.lipschitz
        self.constants = {"beta": L, "G_sq": None if G is None else G * G}
        self._made: list[VectorClients] = []
        self.run_made = False

    @cached_property
    def watched(self) -> dict[str, Watched]:
        """Constants that are refused, as losses of the class have others, and the numbers of clients."""

        def refused(name: str) -> Watched:
            def read() -> Any:
                raise MissingCapability(f"{name} is not the same for all that the statement is about, and is left open in a proof")

            return Watched(read)

        def counted(number: int) -> Watched:
            def read() -> Any:
                self.trace.read.add("N")
                return Whole(number)

            return Watched(read)

        def read_mu() -> Any:
            self.trace.read.add("mu")
            return self.losses.strong_convexity

        found = {name: refused(name) for name in ("d", "mu", "beta_F", "mu_F")}
        if self.losses.strong_convexity > 0:
            found["mu"] = Watched(read_mu)
        return {**found, "N": counted(self.num_clients), "P": counted(self.participants)}

    @property
    def size(self) -> int:
        """How many conditions there are: one for every ordered pair of points, and of bounded gradients one for each."""
        points = len(self.run.points)
        return points * (points - 1) + points * (self.losses.lipschitz is not None) + len(self.run.conditions)

    def conditions(self) -> dict[str, Quadratic]:
        """name -> what is at least 0 for losses of the class; of nonconvex ones also that F* is the least value of F.

        A form that is not about x* may use it, too: to values of any smooth losses a far x* can be added.
        """
        found = dict(self.run.of_losses(self.losses))
        if self.losses.strong_convexity < 0:
            every = [p for p in self.run.points.values() if p.name != OPTIMUM]
            alike = [p for p in every if not (p.at.deviation or p.at.drawn)]
            found |= {f"F({p.name})": self._above(value(p.name) - value(OPTIMUM), p.gradient) for p in alike}
        return found

    def _above(self, gap: Quadratic, gradients: Vector) -> Quadratic:
        """F - F* less ||grad F||^2/(2 beta), which is at least 0 where F* is the least value."""
        return gap - 1 / (2 * self.losses.largest_curvature) * square(gradients.average)

    @cached_property
    def best(self) -> Best:
        """The optimum."""
        least = Square(self.trace, {None: value(OPTIMUM)}, frozenset(range(self.dim)))
        return Best(self.trace.of_server(common(X_STAR))[0], least, least, Fraction(0))

    def clients(self, cohort: Any, work: dict[str, Any], like: Any, stream: Any, t: int) -> VectorClients:
        """One round's clients: a cohort, but where a side asks for the local models of everybody."""
        solver: Any = Exact()
        if "E" in work:
            solver = in_fractions(GradientSteps(int(work["E"]), float(work["eta"])), {"lr": work["eta"]})
        kept = (self._made[-1].moves, self._made[-1].inside) if self._made else ({}, [])
        own = len(self._made)  # a name of its own for each gradient
        participants = self.num_clients if self.run_made else self.participants
        self._made.append(VectorClients(self.trace, solver, self.num_clients, participants, t, *kept, own))
        return self._made[-1]

    @property
    def minima(self) -> Any:
        """min f_k of every client (N,)."""
        if not self.losses.strong_convexity > 0:
            raise MissingCapability("a loss that is not strongly convex need not have a least value")
        self.run.points.setdefault(OWN, Point(OWN, own("x* of each"), Vector()))
        made = [Square(self.trace, {k: value(OWN)}, frozenset(range(self.dim))) for k in range(self.num_clients)]
        return np.array(made, dtype=object)

    def _points(self, y: Any) -> Iterator[tuple[tuple[int, ...], str, Any]]:
        """Where an array (..., N, d) of points stands, the point's name, and the gradients there."""
        for at in np.ndindex(y.shape[:-2]):
            vector = self.trace.vector(y[at][None])
            if getattr(vector, "drawn", None):
                raise NotLinear(f"asks for losses at a model that depends on the cohort: {NOT_LINEAR}")
            known = self.run.known(vector)
            if self.run.smooth and vector == self.run.best:  # else there may be another subgradient
                known = OPTIMUM, self.run.optimum
            name = f"q{len(self.run.points)}"
            yield at, *(known or (name, self.run.gradient(name, vector)))

    def _each(self, x: Any) -> Any:
        """The same points (..., d) for every client (..., N, d)."""
        x = np.asarray(x, dtype=object)
        return np.broadcast_to(x[..., None, :], (*x.shape[:-1], self.num_clients, self.dim))

    def over_clients(self, v: Any) -> Any:
        """The mean over the last axis; of a cohort's numbers its expectation, which is the mean over all."""
        v = np.asarray(v, dtype=object)
        of_cohort = self.run.drawn and v.shape[-1] == self.participants
        out = np.empty(v.shape[:-1], dtype=object)
        for at in np.ndindex(out.shape):
            if (found := Square.of_all(v[at])) is None and of_cohort:
                raise NotLinear(f"takes a mean over a cohort of what is no number of each client: {NOT_LINEAR}")
            out[at] = v[at].sum() / Whole(v.shape[-1]) if found is None else found
        return out

    def expected(self, v: Any) -> Any:
        """The expectation over the cohort, entry by entry; a number made of vectors is one already."""
        out = np.asarray(v, dtype=object).copy()
        for at, x in np.ndenumerate(out):
            out[at] = x.expected if isinstance(x, Coordinate) else x
        return out

    def values(self, x: Any) -> Any:
        """f_k at points (..., d): (..., N)."""
        y = self._each(x)
        out = np.empty(y.shape[:-1], dtype=object)
        for at, name, _ in self._points(y):
            for k in range(self.num_clients):
                out[(*at, k)] = Square(self.trace, {k: value(name)}, frozenset(range(self.dim)))
        return out

    def gradients(self, x: Any) -> Any:
        """grad f_k at points (..., d): (..., N, d)."""
        return self.gradients_each(self._each(x))

    def gradients_each(self, y: Any) -> Any:
        """grad f_k at a point of each client: (..., N, d) -> (..., N, d)."""
        out = np.empty(y.shape, dtype=object)
        for at, _, gradient in self._points(y):
            out[at] = self.trace.of_clients(gradient)[0]
        return out


class CohortWorld(VectorWorld):
    """All losses of a class, every client's by themselves, so that it is known who takes part."""

    def __init__(self, losses: Losses, clients: int, participants: int, dim: int = SHOWN) -> None:
        super().__init__(losses, clients, participants, dim)
        self.run: Any = RunOfEach(clients, self.run.start, self.run.best, self.run.smooth)
        self.trace = Trace(self.run, clients, participants, dim, strict=True)
        self.pieces = LossesOf(self.trace, np.arange(clients))

    @cached_property
    def best(self) -> Best:
        """The optimum."""
        x = self.trace.of_server(self.run.best)[0]
        forms = [value(of[0].name) for of in self.run.of]
        mean = Fraction(1, len(forms)) * Quadratic.total(forms)
        least = Square(self.trace, {None: mean}, frozenset(range(self.dim)))
        return Best(x, least, least, Fraction(0))

    def clients(self, cohort: Any, work: dict[str, Any], like: Any, stream: Any, t: int) -> Any:
        """One round's clients."""
        steps = int(work["E"]) if "E" in work else None
        return CohortClients(self, cohort, SlotWork(steps, work.get("eta")), like, t)

    @property
    def size(self) -> int:
        """As `VectorWorld.size`, of each client."""
        counts, bounded = map(len, self.run.of), self.losses.lipschitz is not None
        return sum(points * (points - 1 + bounded) for points in counts)

    def conditions(self) -> dict[str, Quadratic]:
        """As `VectorWorld.conditions`."""
        found, every = self.run.of_losses(self.losses), range(self.num_clients)
        star = Quadratic.total(value(of[0].name) for of in self.run.of)
        for at in self.run.of_everybody if self.losses.strong_convexity < 0 else ():
            gap = Quadratic.total(value(p.name) for p in at) - star
            mean = Fraction(1, len(every)) * sum((p.gradient for p in at), Vector())
            found[f"F({at[0].name})"] = self._above(Fraction(1, len(every)) * gap, mean)
        return found

    @property
    def minima(self) -> Any:
        """min f_k of every client (N,)."""
        if not self.losses.strong_convexity > 0:
            raise MissingCapability("a loss that is not strongly convex need not have a least value")
        forms = [value(self.run.flat(k, common(f"x* of each.{k}"), f"{OWN}.{k}").name) for k in range(self.num_clients)]
        return np.array([Square(self.trace, {None: q}, frozenset(range(self.dim))) for q in forms], dtype=object)

    def expected(self, v: Any) -> Any:
        """The mean over the cohorts, on the second axis."""
        v = np.asarray(v, dtype=object)
        return v if v.ndim < 2 else v.sum(axis=1, keepdims=True) / Whole(v.shape[1])

    def values(self, x: Any) -> Any:
        """f_k at points (..., d): (..., N)."""
        points = self.pieces.asked(self._each(x))
        out = np.empty(points.shape, dtype=object)
        for at, p in np.ndenumerate(points):
            out[at] = Square(self.trace, {None: value(p.name)}, frozenset(range(self.dim)))
        return out

    def gradients_each(self, y: Any) -> Any:
        """grad f_k at a point of each client: (..., N, d) -> (..., N, d)."""
        return self.pieces.gradient(y)


@dataclass(frozen=True)
class Proved:
    """A form that is proved for all losses of its class.

    Attributes
    ----------
    form : its name
    words : for which losses, numbers of clients and further numbers it is
    parts : for every inequality that it consists of, the identity and its multipliers with L D L'
    whole : whether it is for all that the statement is about
    constants : those with another value than the stated one
    chosen : of each case the values of the constants that are free
    follows : what a potential says of runs
    """

    form: str
    words: str
    parts: tuple[tuple[Family, Solution], ...]
    whole: bool = True
    constants: Mapping[str, Fraction] = field(default_factory=dict)
    chosen: tuple[Mapping[str, Fraction], ...] = ()
    follows: str = ""

    @property
    def told(self) -> str:
        """For what it is proved, and with which constants."""
        with_these = [f"{name} = {brief(value)}" for name, value in self.constants.items()]
        some = [", ".join(f"{n} = {brief(v)}" for n, v in one.items()) for one in self.chosen if one]
        with_these += [" or ".join(dict.fromkeys(some))] * bool(some)
        return self.words + f", with {', '.join(with_these)}" * bool(with_these)


@dataclass(frozen=True)
class BestConstant:
    """The best value of a constant for all losses of a class.

    Attributes
    ----------
    constant : its name
    best : the solver's value, which is not proved
    proved : a value with which the form is proved: the simplest number that the solver's is, where that is
    exact : True if that is a number of few digits, and no other is as near to the solver's
    recognised : the number with a small root that the solver's is, where one is; this is not proved
    whole : whether it is for all that the statement is about
    words : for which losses, numbers of clients and further numbers it is
    proof : of the form with the proved value
    """

    constant: str
    best: float
    proved: Fraction
    exact: bool
    words: str
    recognised: str = ""
    whole: bool = True
    proof: Proved | None = None


def losses_of(problems: Any, beta: Fraction = Fraction(1)) -> Losses:
    """A class of losses by its conditions; of nonsmooth ones beta is G.

    Raises
    ------
    MissingCapability
        A class without such conditions.
    """
    if problems is None:
        raise MissingCapability("a statement over a world of its own is about no class of losses")
    if problems.weights != "equal" or problems.identical:
        raise MissingCapability("what is proved is about equal weights, and clients of any kind")
    if isinstance(problems, Smooth | NonconvexQuadratics):
        return WeaklyConvex(beta, -beta)
    if type(problems) in (SmoothConvex, Quadratics, StronglyConvexSum):  # what holds for more losses holds for these
        return Losses(beta)
    if type(problems) is StronglyConvex:
        return Losses(beta, (problems.mu or CONVEXITY) * beta)
    if type(problems) is Lipschitz:
        return Losses(None, lipschitz=beta)
    raise MissingCapability(f"no conditions are known of {problems.words}")


@dataclass(frozen=True)
class _Generic(Uniform):
    """Cohorts of P clients, of which one stands for all."""

    def enumerate(self, num_clients: int) -> Cohort:
        return Cohort(num_clients, members=np.arange(self.size)[None], probability=np.ones(1))

    def count(self, num_clients: int) -> int:
        return 1


def view_of(
    setting: MethodSetting, drawn: dict[str, Fraction], rounds: int,
    crowd: tuple[int, int] = (CLIENTS[0], CLIENTS[0]), apart: bool = False,
    beta: Fraction = Fraction(1), dim: int = SHOWN,
) -> Any:  # fmt: skip
    """The quantities of a statement's round, after so many others, or of its run of so many.

    ``apart``: of cohorts every one is looked at, and every client has vectors of its own.

    Raises
    ------
    MissingCapability
        What is no form of vectors.
    """
    clients, participants = crowd
    if setting.scope == "fixed-point":
        raise MissingCapability("what is proved is about a round, or about a run")
    if setting.scope == "run" and setting.of_statement.starts > 1:
        raise MissingCapability("what is proved is about a run from one start, and not about several that are equally likely")
    if rounds and participants < clients and not apart:
        raise MissingCapability("of cohorts one round is proved: declare rounds=0, or what may be anything before it, states={...}")
    kind = CohortWorld if apart and participants < clients else VectorWorld
    world = kind(losses_of(setting.problems, beta), clients, participants, dim)
    with _told(setting.of_statement.id):
        view = _view(setting, world, drawn, rounds)
        if world.trace.refused is not None:  # and the method went on
            raise world.trace.refused
    world.run_made = True
    _not_too_many(setting.of_statement.id, world)
    if setting._free and "t" in world.trace.read:
        raise MissingCapability("the method asks which round it is, and the state before it may be anything")
    return view


@contextmanager
def _told(about: str) -> Iterator[None]:
    """Raise `MissingCapability` for whatever a method, or a statement, does not do with vectors."""
    try:
        yield
    except NotCertified:
        raise
    except FedTheoryError as error:
        raise MissingCapability(str(error)) from error
    except Exception as error:
        raise MissingCapability(f"{about}: not with vectors: {type(error).__name__}: {error}") from error


def _view(setting: MethodSetting, world: VectorWorld, drawn: dict[str, Fraction], rounds: int) -> Any:
    clients, participants = world.num_clients, world.participants
    each = isinstance(world, CohortWorld)
    full = participants == clients and isinstance(setting.sampling, Full)
    law = Full() if full else Uniform(participants) if each else _Generic(participants)
    start = world.trace.of_server(world.run.start)
    run = setting.scope == "run"
    if each and not setting._free:
        x, cohorts, chance = sequences(start, law, clients, rounds if run else rounds + 1, True)
        last = probabilities(law, law.enumerate(clients), True)  # after any cohorts before it
        return setting._made(world, x, law, cohorts, chance if run else last, drawn)
    if run:
        chance = np.array([Fraction(1)], dtype=object)
        return setting._made(world, start, law, [everyone(clients, 1)] * rounds, chance, drawn)
    kinds = {
        "N d": lambda n: (
            np.concatenate(
                [world.trace.of_server(common(f"{STATE}{n}.{k}")) for k in range(clients)]
            ) if each else world.trace.of_clients(own(STATE + n))[0]
        ),
        "d": lambda n: world.trace.of_server(common(STATE + n))[0],
    }
    if other := [axes for axes in setting._free.values() if axes not in kinds]:
        raise MissingCapability(f"a state with axes {other[0]!r} is no vector")
    state = {name: kinds[axes](name) for name, axes in setting._free.items()}
    return setting._round(world, start, law, rounds, (), drawn, state)


def families(statement: Any, view: Any, form: str) -> list[Family]:
    """rhs - lhs less the conditions of the class, and less what the form needs, for every inequality that it consists
    of; of an equality also for the other way round, of a potential also V itself.

    Raises
    ------
    MissingCapability
        A side that is no form of vectors.
    """
    world, made = view.world, list[tuple[Quadratic, dict[str, Quadratic]]]()
    with _told(f"{statement.id} [{form}]"):
        claimed = statement.on(view, mutants=False, only=form)[form]
        sides = claimed.sides
        if world.run.drawn and (claimed.pathwise or sides.relation == "=="):
            raise MissingCapability("it is claimed of every cohort by itself, and the mean over cohorts is proved")
        if sides.relation == "==":
            lhs, rhs = sides.terms[:2]
            every = [rhs - lhs, lhs - rhs]
        elif claimed.pathwise:
            every = [sides.rhs - sides.lhs]
        else:
            every = [view.expectation(sides.rhs) - view.expectation(sides.lhs)]
        needs = {need.words: _needed(view, need) for need in claimed.needed}
        for own in _histories(view, len(needs)):
            each = {words: _quadratics(own(side)) for words, side in needs.items()}
            needed = {f"{words}{f' {i}' * bool(i)}": q for words, of in each.items() for i, q in enumerate(of)}
            made += [(start, needed) for side in every for start in _quadratics(own(side))]
        of_states = _quadratics(sides.before) if isinstance(sides, Potential) else []
    _not_too_many(f"{statement.id} [{form}]", world)
    conditions = {name: -c for name, c in world.conditions().items()}
    needed_too = (q for _, needed in made for q in needed.values())
    if any(q.constant for q in (*(start for start, _ in made), *of_states, *needed_too)):
        conditions["1"] = Quadratic(constant=Fraction(-1))
    found = [Family(start, conditions | {name: -c for name, c in needed.items()}) for start, needed in made]
    found += [Family(start, conditions) for start in of_states]
    return [family.of_one_client() for family in found] if world.num_clients == 1 else found


def _needed(view: Any, need: Needed) -> Any:
    """rhs - lhs of what a form needs: of every cohort, or in the mean over them where one stands for all."""
    if isinstance(view.world, CohortWorld):
        return need.rhs - need.lhs
    return view.expectation(need.rhs) - view.expectation(need.lhs)


def _histories(view: Any, needs: int) -> Iterator[Callable[[Any], Any]]:
    """Where a form needs something, what each of the cohorts before a round leaves of a side: after one of them
    nothing is known of another."""
    count = len(view.x) if needs and view.axis == "state" else 1

    def of(at: int) -> Callable[[Any], Any]:
        return lambda side: side[at] if np.asarray(side, dtype=object).shape[:1] == (count,) else side

    yield from map(of, range(count)) if count > 1 else (lambda side: side,)


def _not_too_many(about: str, world: VectorWorld) -> None:
    """Raise `MissingCapability` where losses are asked at too many points, before their conditions are written down."""
    most = MOST_OF_COHORTS if isinstance(world, CohortWorld) else MOST_CONDITIONS
    if (count := world.size) > most:
        raise MissingCapability(
            f"{about}: losses at {len(world.run.points)} points have {count:,} conditions, and at most "
            f"{most} are looked at in a study: declare fewer local steps, or fewer rounds"
        )


def announce_proofs(statement: Any) -> None:
    """Announce the size of the proofs of all forms of a statement, and of the best values of their constants."""
    setting = MethodSetting.of(statement)
    with suppress(FedTheoryError):
        every = [[_size(setting, case) for case in cases] for cases in scopes(setting)]
        sizes = max(every, key=sum)
        told = f"{statement.id}: proofs with {sum(sizes):,} conditions on the losses in all, at most {max(sizes)} in one"
        announce(told, sum(sizes) * (PROVED * len(statement.forms) + BEST * len(statement.constants)))


def _size(setting: MethodSetting, case: Case) -> int:
    about = _conditions(setting, case) if case.apart else 0
    return about or view_of(setting, *case).world.size


def names_minimiser(q: Quadratic) -> bool:
    """True if a form is about x*: positions are counted from there, so that x0 is, too."""
    names = {*q.values, *(x for key in q.gram for x in key[1:])}
    return any(x in (X_STAR, "x0") or x.removeprefix("g").startswith(OPTIMUM) for x in names)


def _quadratics(side: Any) -> list[Quadratic]:
    """The entries of a side."""
    entries = np.asarray(side, dtype=object).reshape(-1)
    return [x.value if isinstance(x, Square) else Quadratic(constant=exact(x)) for x in entries]


def _with_terms(statement: Any, view: Any, form: str, names: Sequence[str]) -> list[Family]:
    """The inequalities of a form, in which constants are multipliers of their own.

    Raises
    ------
    MissingCapability
        It is not linear in one of them, or as `families`.
    """
    def at(**values: int) -> list[Family]:
        of = {**dict.fromkeys(names, Fraction(0)), **{name: Fraction(v) for name, v in values.items()}}
        return families(statement, view.other({**view.overrides, **of}), form)

    plain, single = at(), {name: at(**{name: 1}) for name in names}
    found = [dict(family.terms) for family in plain]
    for a, b in combinations(names, 2):
        for zero, one, two, both in zip(plain, single[a], single[b], at(**{a: 1, b: 1}), strict=True):
            if both.start - one.start != two.start - zero.start:
                raise MissingCapability(f"{statement.id} [{form}]: its sides have the product of the constants {a} and {b}")
    for name in names:
        for terms, zero, one, two in zip(found, plain, single[name], at(**{name: 2}), strict=True):
            step = one.start - zero.start
            if two.start - one.start != step or any(one.terms[n] != q for n, q in zero.terms.items()):
                raise MissingCapability(f"{statement.id} [{form}]: its sides are not linear in the constant {name}")
            if step != Quadratic():
                terms |= {**one.terms, CONSTANT + name: step}
    return [Family(family.start, terms) for family, terms in zip(plain, found, strict=True)]


def _solved(statement: Any, view: Any, form: str) -> tuple[dict[str, Fraction], list[tuple[Family, Solution]]]:
    """The values of constants that are free, and the proof of every inequality with them.

    Raises
    ------
    MissingCapability, NotCertified
        As `proved`.
    """
    families(statement, view, form)  # which declares them
    names, chosen, known = sorted(view.left_free - set(view.overrides)), dict[str, Fraction](), None
    if names:
        first, *_ = _with_terms(statement, view, form, names)
        known = certify(first)
        chosen = {n: known.numbers.get(CONSTANT + n, Fraction(0)) for n in names if CONSTANT + n in first.terms}
    every, found = families(statement, view.other({**view.overrides, **chosen}), form), list[tuple[Family, Solution]]()
    for i, family in enumerate(every):
        solution = None
        if i == 0 and known is not None:
            numbers = {n: x for n, x in known.numbers.items() if not n.startswith(CONSTANT)}
            with suppress(NotCertified):
                solution = Solution(numbers, check(family, numbers, known.rows), 0.0, {}, known.rows)
        found.append((family, solution or certify(family)))
    return chosen, found


class Case(NamedTuple):
    """Where a statement is proved: the numbers that it leaves open, the rounds, N and P, and
    whether every client has vectors of its own."""

    drawn: dict[str, Fraction]
    rounds: int
    crowd: tuple[int, int]
    apart: bool = False


def scopes(setting: MethodSetting) -> list[list[Case]]:
    """Where a statement is proved: the first of these at which it can be.

    Of one round of cohorts the expectations of squares are known for any number of clients. What
    depends on who takes part, and more rounds, are looked at with few clients, cohort by cohort.

    Raises
    ------
    MissingCapability
        Cohorts that are not uniform, or too many of them.
    """
    least, most = setting.usual_rounds
    fewest, largest = setting.problems.clients
    N = CLIENTS[0] if fewest <= CLIENTS[0] <= largest else fewest
    everybody, crowds = [(N, N)], list[tuple[int, int]]()
    if setting.sampling is Uniform:
        crowds = [c for c in COHORTS if fewest <= c[0] <= largest]
    elif isinstance(setting.sampling, Uniform):
        P = setting.sampling.size
        least_of = max(P, fewest)
        counts = range(least_of, min(largest, least_of + MOST_CROWDS - 1) + 1)
        everybody, crowds = [], [(n, P) for n in counts]
    elif not isinstance(setting.sampling, Full):
        raise MissingCapability(f"cohorts by {setting.sampling}: uniform ones are proved, and everybody")
    drawn, run = setting.choices(), setting.scope == "run"
    few = [0] if setting._free else list(range(least, max(least, min(most, MOST_ROUNDS)) + 1))
    if not run and not setting._free and all(_only_model(setting, numbers) for numbers in drawn):
        few = [0]  # any model is looked at, wherever it comes from

    def of(crowds: list[tuple[int, int]], apart: bool, lengths: list[int]) -> list[Case]:
        return [
            Case(numbers, rounds, crowd, apart)
            for numbers in drawn for rounds in lengths for crowd in crowds
        ]  # fmt: skip

    if all(n == p for n, p in crowds):
        return [of([*everybody, *crowds], False, few)]
    shorter = [T for T in few if T <= max(least, ROUNDS_OF_COHORTS if run else ROUNDS_OF_COHORTS - 1)]
    sizes = {c: max(_conditions(setting, case) for case in of([c], True, shorter)) for c in crowds}
    small = [crowd for crowd, size in sizes.items() if size <= MOST_OF_COHORTS]
    found = [] if run else [of([*everybody, *crowds], False, few)]
    if any(n > p for n, p in small):
        found.append(of([*everybody, *small], True, shorter))
    elif run and not everybody:
        least_of = min(size for (n, p), size in sizes.items() if n > p)
        raise MissingCapability(
            f"losses after every cohort of {shorter[-1]} rounds have about {least_of} conditions, and at "
            f"most {MOST_OF_COHORTS} are looked at in a study: declare fewer rounds, local steps or clients"
        )
    return [*found, of(everybody, False, few)] if run and everybody else found


def _conditions(setting: MethodSetting, case: Case) -> int:
    """How many conditions the losses of every client have about at the models of every history."""
    clients, participants = case.crowd
    steps = case.drawn.get("steps", getattr(setting.local, "steps", 1))
    ways, rounds = comb(clients, participants), case.rounds + (setting.scope == "round")
    before = sum(ways**t for t in range(rounds))
    points = 1 + (int(steps) if isinstance(steps, int | Fraction) else 1) * before + ways**rounds
    return 0 if clients == participants else clients * points * (points - 1)


def _only_model(setting: MethodSetting, drawn: dict[str, Fraction]) -> bool:
    """True if a method keeps nothing but the server's model, and does not ask which round it is."""
    view = view_of(setting, drawn, 0)
    return all(value is None for value in view.path.states[0][1:]) and "t" not in view.world.trace.read


def proved(statement: Any, form: str, constants: Mapping[str, Fraction] | None = None) -> Proved:
    """Prove a form for all losses of its class.

    constants : other values of some

    Raises
    ------
    MissingCapability
        A side that is no form of vectors, or a class without conditions, with the reason.
    NotCertified
        No proof of this kind was found.
    """
    return _first(
        MethodSetting.of(statement), lambda cases: _proved(statement, form, cases, constants)
    )


def _proved(
    statement: Any, form: str, cases: list[Case], constants: Mapping[str, Fraction] | None
) -> Proved:
    scope_of(statement, form, cases, constants)
    setting, given = MethodSetting.of(statement), dict(constants or {})
    chosen, parts = list[dict[str, Fraction]](), list[tuple[Family, Solution]]()
    for case in cases:
        free, found = _solved(statement, view_of(setting, *case).other(given), form)
        chosen.append(free)
        parts += found
    words, whole = scope_of(statement, form, cases, given, chosen)
    follows = followed(statement, form, cases, [{**given, **free} for free in chosen])
    return Proved(form, words, tuple(parts), whole, given, tuple(chosen), follows)


def _first(setting: MethodSetting, make: Callable[[list[Case]], M]) -> M:
    """What can be made where a statement is proved, at the first of its scopes that gives anything.

    Raises
    ------
    MissingCapability, NotCertified
        Why nothing can be made where every cohort is looked at.
    """
    made, failed, run = None, list[FedTheoryError](), setting.scope == "run"
    for cases in scopes(setting):
        try:
            if (made := make(cases)) or not run:
                return made
        except MissingCapability as error:
            failed.append(error)
        except NotCertified as error:
            if not run:  # there is nothing more to be known
                raise
            failed.append(error)
    if made is None:
        raise failed[0 if run else -1]
    return made


def best_constants(
    statement: Any, form: str, others: Mapping[str, Fraction] | None = None
) -> list[BestConstant]:
    """The best values of the constants that a form declares, for all losses of the class; of those that are free none is best.

    others : constants with other values, of which none is sought

    Raises
    ------
    MissingCapability
        As `proved`.
    """
    setting = MethodSetting.of(statement)

    def at(cases: list[Case]) -> list[BestConstant]:
        scope_of(statement, form, cases)
        if not setting.problems.interpolated:
            return []  # what is best for more losses need not be for these
        view = view_of(setting, *cases[0])
        every = families(statement, view, form)
        several = setting.problems.clients[1] > 1 and not setting.problems.convex
        if several and any(names_minimiser(family.start) for family in every):
            return []  # more may follow from x* being the minimiser than is known here
        known = {*view.left_free, *(others or {})}
        sought = [name for name in view.constants if name not in known]
        found = [_best(statement, form, name, cases, others or {}) for name in sought]
        return [one for one in found if one is not None]

    return _first(setting, at)


def best_constant(
    statement: Any, form: str, name: str, others: Mapping[str, Fraction] | None = None
) -> BestConstant | None:
    """The best value of a constant for all losses of the class; None where the form is not linear in it, or where no
    value is best. Those that are free are chosen for it.

    others : other values of further constants

    Raises
    ------
    MissingCapability, NotCertified
        As `proved`.
    """
    setting = MethodSetting.of(statement)
    return _first(setting, lambda cases: _best(statement, form, name, cases, others or {}))


def _best(
    statement: Any, form: str, name: str, cases: list[Case], others: Mapping[str, Fraction]
) -> BestConstant | None:
    setting, goal = MethodSetting.of(statement), CONSTANT + name
    every: list[Family] = []
    for case in cases:
        view = view_of(setting, *case).other(others)
        families(statement, view, form)
        try:
            every += _with_terms(statement, view, form, sorted({name, *view.left_free}))
        except MissingCapability:
            return None
    every = [family for family in every if goal in family.terms]  # others are other forms'
    for sign in (1, -1) if every else ():  # as large as may be, or as small
        signed = [replace(f, terms={**f.terms, goal: sign * f.terms[goal]}, signed=frozenset({goal})) for f in every]
        try:
            value = sign * min(optimum(family, goal) for family in signed)
        except NotCertified:
            continue
        near, size = Fraction(value), max(abs(Fraction(value)), LEAST)
        few = [x for x in (_simple(near, NEAR * size), Fraction(0)) if abs(x - near) <= NEAR and x.denominator <= FEW]
        rooms = sorted({room * of for room in ROOMS for of in (size, Fraction(1))})  # parts of it, then of 1
        less = (_simple(near - sign * room * Fraction(3, 4), room / 4) for room in rooms)
        for at_least in [*few, *less]:
            with suppress(NotCertified):
                proof = _proved(statement, form, cases, {**others, name: at_least})
                exact = at_least in few
                root = "" if exact else small_root(value, float(NEAR))
                return BestConstant(name, value, at_least, exact, proof.words, root, proof.whole, proof)
    return None


def followed(
    statement: Any, form: str, cases: list[Case], constants: Sequence[Mapping[str, Fraction]]
) -> str:
    """What a potential that is proved says of runs, in words; '' of another form.

    constants : of each case those with other values
    """
    setting = MethodSetting.of(statement)
    with_these = zip(cases, constants, strict=True)
    views = [view_of(setting, *case).other(dict(values)) for case, values in with_these]
    claimed = [statement.on(view, mutants=False, only=form)[form] for view in views]
    if not isinstance(claimed[0].sides, Potential):
        return ""
    if any(isinstance(view.world, CohortWorld) for view in views):
        return "one round, and not every number of rounds: cohort by cohort no state is followed"
    last = max(case.rounds for case in cases)
    whys = (_not_again(setting, view, last) or _of_another(view, one.sides.V) for view, one in zip(views, claimed, strict=True))
    if why := next(filter(None, whys), ""):
        return f"one round, and not every number of rounds: {why}"
    if any(np.any(np.asarray(one.sides.rho) < 0) for one in claimed):
        return "one round, and not every number of rounds: rho is negative"
    every = dict.fromkeys(_of_runs(one.sides) for one in claimed)
    needed = " and ".join(need.words for need in claimed[0].needed)
    return f"for every number of rounds T: {', or '.join(every)}" + f", where in every round {needed}" * bool(needed)


def _of_runs(of: Potential) -> str:
    """What E V_T is at most where a potential is one of every round."""
    noise, gains = _quadratics(of.added), any(q != Quadratic() for q in _quadratics(of.gain))
    noisy = any(q.gram or q.values or q.constant for q in noise)
    still = all({*q.values, *(n for key in q.gram for n in key[1:])} <= OF_LOSSES for q in noise)
    if np.all(np.asarray(of.rho) == 1):
        sum_ = "the sum of E D over T rounds is at most V_0" if gains else "E V_T is at most V_0"
        return sum_ + f" + {'T noise' if still else 'the sum of the noise'}" * noisy
    left = "E V_T + the sum over t < T of rho^(T-1-t) E D_t" if gains else "E V_T"
    more = " + noise (1 - rho^T)/(1 - rho)" if still else " + the sum over t < T of rho^(T-1-t) noise_t"
    return f"{left} is at most rho^T V_0{more * noisy}"


class _AnyState:
    """A state of vectors of its own, as a potential reads it."""

    def __init__(self, view: Any) -> None:
        self._view, trace = view, view.world.trace
        for name, now in zip(view.path.states[-2]._fields, view.path.states[-2], strict=True):
            if now is not None:
                made = trace.of_server(common(f"any {name}")) if np.ndim(now) == 2 else trace.of_clients(own(f"any {name}"))
                setattr(self, name, made[:, None])

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        view, x = self._view, self.x
        if name.startswith("gradient"):
            found = (view.world.weights[:, None] * view.world.gradients(x)).sum(axis=-2)
            return view.sq(found) if name == "gradient_sq" else found
        return {"F": view.value, "gap": view.gap_at, "distance_sq": lambda x: view.sq(x - view.x_star)}[name](x)


def _of_another(view: Any, V: Any) -> str:
    """Why V of a state depends on another state, or ''."""
    known = {*view.world.run.points} - OF_LOSSES
    try:
        with _told("V"):
            found = _quadratics(V(_AnyState(view)))
    except MissingCapability as error:
        return f"V of any state is no form of vectors ({error})"
    names = {n for q in found for n in (*q.values, *(n for key in q.gram for n in key[1:]))}
    others = known | {n for n in names if n == "x0" or n.startswith("state ")}
    return "V of the state after it depends on the state before it, too" if names & others else ""


def _undeclared(setting: MethodSetting, view: Any) -> list[str]:
    """What a method keeps, and the statement does not say what it is before the round."""
    before = view.path.states[-2]
    return [n for n in before._fields if n != "x" and getattr(before, n) is not None and n not in setting.of_statement.states]


def _not_again(setting: MethodSetting, view: Any, last: int) -> str:
    """Why the state after a round need not be one that the statement is about, or ''; and the one at the start."""
    if "t" in view.world.trace.read:
        return f"the method asks which round it is, and rounds after at most {last} others are looked at"
    if not setting._free:
        return f"the state before it is that of runs of up to {last} rounds" if _undeclared(setting, view) else ""
    if left := _undeclared(setting, view):
        return f"{left[0]} before the round is as at the start"
    world, (*_, before, after) = view.world, view.path.states
    begun = view.method.init(before.x, world.num_clients)
    for name, rule in setting.of_statement.states.items():
        for state, when in ((begun, "at the start"), (after, "after a round")):
            if callable(rule):
                made = rule({n: getattr(state, n)[0] for n in setting._free})
                if world.trace.vector(np.asarray(made, dtype=object)[None]) != world.trace.vector(getattr(state, name)):
                    return f"{name} {when} is not what the statement says of it"
    return ""


def _simple(value: Fraction, near: Fraction) -> Fraction:
    """The simplest number near to one."""
    size = simplest_between(abs(value) - near, abs(value) + near) if abs(value) > near else Fraction(0)
    return size if value > 0 else -size


def cases_of(
    statement: Any, form: str, words: str, constants: Mapping[str, Fraction] | None = None,
    chosen: Sequence[Mapping[str, Fraction]] = (),
) -> list[Case]:  # fmt: skip
    """Where a form is proved if it is proved for what is said in words.

    Raises
    ------
    NotCertified
        It cannot be proved for that.
    MissingCapability
        As `scope_of`.
    """
    told, failed = list[str](), None
    for cases in scopes(MethodSetting.of(statement)):
        if chosen and len(chosen) != len(cases):
            continue
        try:
            told.append(scope_of(statement, form, cases, constants, chosen)[0])
        except MissingCapability as error:
            failed = error
            continue
        if told[-1] == words:
            return cases
    if not told and failed is not None:
        raise failed
    raise NotCertified(f"it says that it is for {words}: it can be for {', or for '.join(told)}")


def scope_of(
    statement: Any, form: str, cases: list[Case], constants: Mapping[str, Fraction] | None = None,
    chosen: Sequence[Mapping[str, Fraction]] = (),
) -> tuple[str, bool]:  # fmt: skip
    """For which losses, clients and further numbers a form is proved, in words, and whether that is
    all that the statement is about.

    constants : other values of some
    chosen : of each case the values of those that are free

    Raises
    ------
    MissingCapability
        A side that is no form of vectors, or another one in another dimension.
    """
    setting = MethodSetting.of(statement)
    own = chosen or [{}] * len(cases)
    seen = [
        _changes(statement, setting, form, case, {**(constants or {}), **of})
        for case, of in zip(cases, own, strict=True)
    ]  # fmt: skip
    last = max(case.rounds for case in cases)
    fewest, largest = setting.problems.clients
    crowds = list(dict.fromkeys(case.crowd for case in cases))
    left: list[str] = []  # what more there is
    if all(n == p for n, p in crowds):
        counts = {counted for counted, *_ in seen}
        told = min(counts, key=[f"{fewest} client{'s' * (fewest > 1)}", "2 clients", "2, 3 or 5 clients", EVERYBODY].index)
        left += [told] * (fewest < largest and told != EVERYBODY)
        told = told if isinstance(setting.sampling, Full) else f"{told} who all take part"
        left += [told] * (not isinstance(setting.sampling, Full))
    else:
        told = ", ".join(f"{p} of {n}" for n, p in crowds) + " clients"
        left += [told] * (setting.sampling is Uniform or len(crowds) < largest - max(fewest, crowds[0][1]) + 1)
    more = []
    if not all(in_units for _, in_units, _ in seen):
        more.append("beta = 1" if setting.problems.__class__ is not Lipschitz else "G = 1")
    kind = setting.problems.words
    if type(setting.problems) is StronglyConvex:
        mu = setting.problems.mu
        if mu is None or any("mu" in read for *_, read in seen):
            more.append(f"mu = {mu or CONVEXITY} beta")
        else:
            kind += f" of mu >= {mu} beta"
    for name, family in setting.open_numbers().items():
        if isinstance(family, Above):
            more.append(f"{name} at {family.usual} above its limit")
        elif not isinstance(family, Among):
            more.append(f"{name} at its limit")
    if setting.scope == "run":
        more.append(f"runs of up to {last} rounds" if last > 1 else "runs of one round")
    elif not setting._free and not all(_only_model(setting, case.drawn) for case in cases):
        more.append(f"after at most {last} rounds")
    elif setting._free:
        more += [f"{name} as at the start" for name in _undeclared(setting, view_of(setting, *cases[0]))]
    every_length = setting.scope == "run" and setting.of_statement.rounds[1] <= last
    words = ", ".join([kind, told, EVERY_DIMENSION, *more])
    return words, not left and len(more) == every_length  # of a run the rounds are told in any case


def _changes(
    statement: Any, setting: MethodSetting, form: str, case: Case,
    constants: Mapping[str, Fraction],
) -> tuple[str, bool, set[str]]:  # fmt: skip
    """The numbers of clients for which a form's inequalities are the same, whether another beta only changes units, and
    what was read.

    Raises
    ------
    MissingCapability
        They are others in another dimension.
    """
    crowd = case.crowd

    def made(**other: Any) -> tuple[list[Family], set[str]]:
        view = view_of(setting, **{**case._asdict(), **other})
        return families(statement, view.other(constants), form), view.world.trace.read

    here, read = made()
    fewest, largest = setting.problems.clients
    if made(dim=OTHERS)[0] != here:
        raise MissingCapability(f"{statement.id} [{form}]: a side is another one in another dimension")
    try:
        in_units = _in_units(here, {beta: made(beta=beta)[0] for beta in BETAS}, list(setting._free))
    except MissingCapability:  # a need that is met in these units only
        in_units = False
    if crowd[0] > crowd[1] or fewest == largest:
        return f"{fewest} client{'s' * (fewest > 1)}", in_units, read
    try:
        alike = all(made(crowd=(n, n))[0] == here for n in CLIENTS)
    except MissingCapability:  # a need that is met by few clients only
        alike = False
    return "2 clients" if not alike else "2, 3 or 5 clients" if "N" in read else EVERYBODY, in_units, read


def _in_units(here: list[Family], there: Mapping[Fraction, list[Family]], fields: Sequence[str]) -> bool:
    """True if the sides and the conditions with another beta are those with beta = 1 in other units of the losses.

    fields : of the state before the round, that may be anything: gradients, or positions, for all beta alike
    """
    names = {name for family in here for of in family.names.values() for name in of}

    def alike(placed: frozenset[str]) -> bool:
        plain = [Units(Fraction(1), Fraction(1)).changed(a)[0] for a in here]
        return all([Units(Fraction(1), beta, placed).changed(b)[0] for b in of] == plain for beta, of in there.items())

    chosen = (some for n in range(len(fields) + 1) for some in combinations([STATE + f for f in fields], n))
    return any(
        alike(frozenset(name for name in names if name in some or name.rpartition(".")[0] in some)) for some in chosen
    )
