"""A statement on all losses of its class at once: its quantities as forms of vectors, and a proof.

The method's own round is run on the vectors of a worst case (`fedtheory.worst_cases.traced`), and
the statement's own function is given them: the sides of a form are then quadratic in finitely many
vectors and linear in values of losses. Where their difference is a sum of multiples of the
conditions of the class and of squares, in fractions, the form holds for every loss of the class, in
every dimension, and for every number of clients from two on.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from fedtheory.errors import FedTheoryError, MissingCapability, NotCertified
from fedtheory.limits import announce
from fedtheory.local import Exact, GradientSteps
from fedtheory.participation.cohorts import Cohort, Full, Uniform
from fedtheory.rational import Whole, in_fractions, simplest_between, small_root
from fedtheory.theory.rounds.declare import Above, Among, Watched
from fedtheory.theory.rounds.method_setting import MethodSetting
from fedtheory.theory.rounds.oracles import Best, everyone
from fedtheory.theory.rounds.problem_classes import (
    Lipschitz,
    NonconvexQuadratics,
    Quadratics,
    Smooth,
    SmoothConvex,
    StronglyConvex,
    StronglyConvexSum,
)
from fedtheory.worst_cases.classes import Losses
from fedtheory.worst_cases.entries import NOT_LINEAR, SHOWN, Coordinate, NotLinear, Square, Trace, exact
from fedtheory.worst_cases.gram import Quadratic, common, own, value
from fedtheory.worst_cases.identity import Family
from fedtheory.worst_cases.numbers import Units
from fedtheory.worst_cases.potentials import WeaklyConvex
from fedtheory.worst_cases.programme import Solution, certify, optimum
from fedtheory.worst_cases.runs import OPTIMUM, STATE, X_STAR, Run, spread
from fedtheory.worst_cases.traced import VectorClients

__all__ = [
    "BestConstant", "Proved", "VectorWorld", "announce_proofs", "best_constant", "best_constants", "cases",
    "families", "proved", "view_of",
]  # fmt: skip

INTERPOLATED = (SmoothConvex, StronglyConvex, Smooth, Lipschitz)  # whose conditions are all that there is of them
CLIENTS = (2, 3, 5)  # with as many the identity is written down, to see that it is the same
MOST_CROWDS = 4  # numbers of clients at which a statement about cohorts of one size is proved
COHORTS = ((2, 1), (3, 1), (3, 2), (5, 2))  # N and P at which a statement about cohorts of any size is proved
BETAS = (Fraction(3 * 10**6), Fraction(1, 7 * 10**6))  # and with these, beside 1
OTHERS = 3  # coordinates, beside `SHOWN`
EVERYBODY, EVERY_DIMENSION = "any number of clients", "every dimension"
NEAR = Fraction(1, 10**6)  # the solver's best and the number that it is
FEW = 60  # the largest denominator of a number that is recognised
ROOMS = tuple(Fraction(1, 10**k) for k in (8, 7, 6, 5, 4))
MOST_ROUNDS = 3  # of a run that is proved
MOST_CONDITIONS = 300  # of the losses: a few seconds of the solver
PROVED, BEST = 7e-3, 11e-3  # seconds for each condition: of a form, and of the best value of a constant (measured, one core)
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

        found = {name: refused(name) for name in ("d", "mu", "beta_F", "mu_F")}
        if self.losses.strong_convexity > 0:
            found["mu"] = Watched(lambda: self.losses.strong_convexity)
        return {**found, "N": counted(self.num_clients), "P": counted(self.participants)}

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
        if not self.run.drawn or v.shape[-1] != self.participants:
            return v.sum(axis=-1) / Whole(v.shape[-1])
        out = np.empty(v.shape[:-1], dtype=object)
        for at in np.ndindex(out.shape):
            if (found := Square.of_all(v[at])) is None:
                raise NotLinear(f"takes a mean over a cohort of what is no number of each client: {NOT_LINEAR}")
            out[at] = found
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


@dataclass(frozen=True)
class Proved:
    """A form that is proved for all losses of its class.

    Attributes
    ----------
    form : its name
    words : for which losses, numbers of clients and further numbers it is
    parts : for every inequality that it consists of, the identity and its multipliers with L D L'
    whole : whether it is for all that the statement is about
    """

    form: str
    words: str
    parts: tuple[tuple[Family, Solution], ...]
    whole: bool = True


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
    """

    constant: str
    best: float
    proved: Fraction
    exact: bool
    words: str
    recognised: str = ""
    whole: bool = True


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
        return Losses(beta, CONVEXITY * beta)
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
    crowd: tuple[int, int] = (CLIENTS[0], CLIENTS[0]), beta: Fraction = Fraction(1), dim: int = SHOWN,
) -> Any:  # fmt: skip
    """The quantities of a statement's round, after so many others, or of its run of so many.

    Raises
    ------
    MissingCapability
        What is no form of vectors.
    """
    clients, participants = crowd
    if setting.scope == "fixed-point" or (setting.scope == "run" and participants < clients):
        raise MissingCapability("what is proved is about a round, or about a run in which everybody takes part")
    if setting.scope == "run" and setting.of_statement.starts > 1:
        raise MissingCapability("what is proved is about a run from one start, and not about several that are equally likely")
    if rounds and participants < clients:
        raise MissingCapability("of cohorts one round is proved: declare rounds=0, or what may be anything before it, states={...}")
    world = VectorWorld(losses_of(setting.problems, beta), clients, participants, dim)
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
    law = Full() if participants == clients and isinstance(setting.sampling, Full) else _Generic(participants)
    start = world.trace.of_server(world.run.start)
    if setting.scope == "run":
        chance = np.array([Fraction(1)], dtype=object)
        return setting._made(world, start, law, [everyone(clients, 1)] * rounds, chance, drawn)
    kinds = {
        "N d": lambda n: world.trace.of_clients(own(STATE + n))[0],
        "d": lambda n: world.trace.of_server(common(STATE + n))[0],
    }
    if other := [axes for axes in setting._free.values() if axes not in kinds]:
        raise MissingCapability(f"a state with axes {other[0]!r} is no vector")
    state = {name: kinds[axes](name) for name, axes in setting._free.items()}
    return setting._round(world, start, law, rounds, (), drawn, state)


def families(statement: Any, view: Any, form: str) -> list[Family]:
    """rhs - lhs less the conditions of the class, for every inequality that a form consists of; of an equality also
    for the other way round.

    Raises
    ------
    MissingCapability
        A side that is no form of vectors.
    """
    with _told(f"{statement.id} [{form}]"):
        claimed = statement.on(view, mutants=False, only=form)[form]
        sides = claimed.sides
        if view.world.run.drawn and (claimed.pathwise or sides.relation == "=="):
            raise MissingCapability("it is claimed of every cohort by itself, and the mean over cohorts is proved")
        if sides.relation == "==":
            lhs, rhs = sides.terms[:2]
            both = [rhs - lhs, lhs - rhs]
        else:
            both = [view.expectation(sides.rhs) - view.expectation(sides.lhs)]
        parts = [x for part in both for x in np.asarray(part, dtype=object).reshape(-1)]
        starts = [x.value if isinstance(x, Square) else Quadratic(constant=exact(x)) for x in parts]
    _not_too_many(f"{statement.id} [{form}]", view.world)
    conditions = {name: -c for name, c in view.world.run.of_losses(view.world.losses).items()}
    if any(start.constant for start in starts):
        conditions["1"] = Quadratic(constant=Fraction(-1))
    found = [Family(start, conditions) for start in starts]
    return [family.of_one_client() for family in found] if view.world.num_clients == 1 else found


def _not_too_many(about: str, world: VectorWorld) -> None:
    """Raise `MissingCapability` where losses are asked at too many points, before their conditions are written down."""
    if (count := _conditions(world)) > MOST_CONDITIONS:
        raise MissingCapability(
            f"{about}: losses at {len(world.run.points)} points have {count:,} conditions, and at most "
            f"{MOST_CONDITIONS} are looked at in a study: declare fewer local steps, or fewer rounds"
        )


def _conditions(world: VectorWorld) -> int:
    """How many conditions losses have: one for every ordered pair of points, and of bounded gradients one for each."""
    points = len(world.run.points)
    return points * (points - 1) + points * (world.losses.lipschitz is not None) + len(world.run.conditions)


def announce_proofs(statement: Any) -> None:
    """Announce the size of the proofs of all forms of a statement, and of the best values of their constants."""
    setting = MethodSetting.of(statement)
    with suppress(FedTheoryError):
        sizes = [_conditions(view_of(setting, *case).world) for case in cases(setting)]
        told = f"{statement.id}: proofs with {sum(sizes):,} conditions on the losses in all, at most {max(sizes)} in one"
        announce(told, sum(sizes) * (PROVED * len(statement.forms) + BEST * len(statement.constants)))


def cases(setting: MethodSetting) -> list[tuple[dict[str, Fraction], int, tuple[int, int]]]:
    """The numbers that a statement leaves open, the rounds, and N and P, with which it is proved."""
    least, most = setting.usual_rounds
    lengths = [0] if setting._free else range(least, max(least, min(most, MOST_ROUNDS)) + 1)
    fewest, largest = setting.problems.clients
    N = CLIENTS[0] if fewest <= CLIENTS[0] <= largest else fewest
    crowds = [(N, N)]
    if setting.sampling is Uniform:
        crowds += [c for c in COHORTS if fewest <= c[0] <= largest and setting.scope != "run"]
    elif isinstance(setting.sampling, Uniform):
        P = setting.sampling.size
        crowds = [(n, P) for n in range(max(P, fewest), min(largest, max(P, fewest) + MOST_CROWDS - 1) + 1)]
    elif not isinstance(setting.sampling, Full):
        raise MissingCapability(f"cohorts by {setting.sampling}: uniform ones are proved, and everybody")
    drawn = setting.choices()
    if setting.scope == "round" and not setting._free and all(_only_model(setting, numbers) for numbers in drawn):
        lengths = [0]  # any model is looked at, wherever it comes from
    return [(numbers, rounds, crowd) for numbers in drawn for rounds in lengths for crowd in crowds]


def _only_model(setting: MethodSetting, drawn: dict[str, Fraction]) -> bool:
    """True if a method keeps nothing but the server's model, and does not ask which round it is."""
    view = view_of(setting, drawn, 0)
    return all(value is None for value in view.path.states[0][1:]) and "t" not in view.world.trace.read


def proved(statement: Any, form: str) -> Proved:
    """Prove a form for all losses of its class.

    Raises
    ------
    MissingCapability
        A side that is no form of vectors, or a class without conditions, with the reason.
    NotCertified
        No proof of this kind was found.
    """
    words, whole = scope_of(statement, form)
    setting = MethodSetting.of(statement)
    found = [
        (family, certify(family)) for case in cases(setting)
        for family in families(statement, view_of(setting, *case), form)
    ]  # fmt: skip
    return Proved(form, words, tuple(found), whole)


def best_constants(statement: Any, form: str) -> list[BestConstant]:
    """The best values of the constants that a form declares, for all losses of the class.

    Raises
    ------
    MissingCapability
        As `proved`.
    """
    about(statement, form)
    setting = MethodSetting.of(statement)
    if type(setting.problems) not in INTERPOLATED:
        return []  # what is best for more losses need not be for these
    view = view_of(setting, *cases(setting)[0])
    families(statement, view, form)
    found = [best_constant(statement, form, name) for name in view.constants]
    return [one for one in found if one is not None]


def best_constant(statement: Any, form: str, name: str) -> BestConstant | None:
    """The best value of a constant for all losses of the class; None where the form is not linear in it, or where no
    value is best.

    Raises
    ------
    MissingCapability, NotCertified
        As `proved`.
    """
    setting = MethodSetting.of(statement)
    every: list[tuple[Quadratic, Quadratic, Family]] = []
    for case in cases(setting):
        view = view_of(setting, *case)
        at = [families(statement, view.other({name: Fraction(v)}), form) for v in (0, 1, 2)]
        for zero, one, two in zip(*at, strict=True):
            step = one.start - zero.start
            if two.start - one.start != step:
                return None
            every.append((zero.start, step, zero))
    if not any(step.gram or step.values or step.constant for _, step, _ in every):
        return None  # it is another form's
    for sign in (1, -1):  # as large as may be, or as small
        try:
            value = sign * min(
                optimum(Family(start, {**of.terms, name: sign * step}, frozenset({name})), name)
                for start, step, of in every
            )  # fmt: skip
        except NotCertified:
            continue
        near = Fraction(value)
        tried = [_simple(near), *(near - sign * room for room in ROOMS)]
        for at_least in tried:
            with suppress(NotCertified):
                for case in cases(setting):
                    for family in families(statement, view_of(setting, *case).other({name: at_least}), form):
                        certify(family)
                exact = at_least == tried[0] and at_least.denominator <= FEW
                root = "" if exact else small_root(value, float(NEAR))
                words, whole = scope_of(statement, form, {name: at_least})
                return BestConstant(name, value, at_least, exact, words, root, whole)
    return None


def _simple(value: Fraction) -> Fraction:
    """The simplest number near to one."""
    size = simplest_between(abs(value) - NEAR, abs(value) + NEAR) if abs(value) > NEAR else Fraction(0)
    return size if value > 0 else -size


def about(statement: Any, form: str, constants: dict[str, Fraction] | None = None) -> str:
    """For which losses, clients and further numbers a form is proved, in words, where it is.

    constants : other values of some

    Raises
    ------
    MissingCapability
        A side that is no form of vectors, or another one in another dimension.
    """
    return scope_of(statement, form, constants)[0]


def scope_of(statement: Any, form: str, constants: dict[str, Fraction] | None = None) -> tuple[str, bool]:
    """The words of `about`, and whether that is all that the statement is about.

    Raises
    ------
    MissingCapability
        As `about`.
    """
    setting = MethodSetting.of(statement)
    every = cases(setting)
    seen = [_changes(statement, setting, form, case, constants or {}) for case in every]
    last = max(rounds for _, rounds, _ in every)
    fewest, largest = setting.problems.clients
    crowds = list(dict.fromkeys(crowd for *_, crowd in every))
    left: list[str] = []  # what more there is
    if all(n == p for n, p in crowds):
        counts = {counted for counted, _ in seen}
        told = min(counts, key=[f"{fewest} client{'s' * (fewest > 1)}", "2 clients", "2, 3 or 5 clients", EVERYBODY].index)
        left += [told] * (fewest < largest and told != EVERYBODY)
        told = told if isinstance(setting.sampling, Full) else f"{told} who all take part"
        left += [told] * (not isinstance(setting.sampling, Full))
    else:
        told = ", ".join(f"{p} of {n}" for n, p in crowds) + " clients"
        left += [told] * (setting.sampling is Uniform or len(crowds) < largest - max(fewest, crowds[0][1]) + 1)
    more = []
    if not all(in_units for _, in_units in seen):
        more.append("beta = 1" if setting.problems.__class__ is not Lipschitz else "G = 1")
    more += [f"mu = {CONVEXITY} beta"] * (type(setting.problems) is StronglyConvex)
    for name, family in setting.open_numbers().items():
        if isinstance(family, Above):
            more.append(f"{name} at {family.usual} above its limit")
        elif not isinstance(family, Among):
            more.append(f"{name} at its limit")
    if setting.scope == "run":
        more.append(f"runs of up to {last} rounds" if last > 1 else "runs of one round")
    elif not setting._free and not all(_only_model(setting, drawn) for drawn, *_ in every):
        more.append(f"after at most {last} rounds")
    return ", ".join([setting.problems.words, told, EVERY_DIMENSION, *more]), not left and not more


def _changes(
    statement: Any, setting: MethodSetting, form: str, case: tuple[dict[str, Fraction], int, tuple[int, int]],
    constants: dict[str, Fraction],
) -> tuple[str, bool]:  # fmt: skip
    """The numbers of clients for which a form's inequalities are the same, and whether another beta only changes units.

    Raises
    ------
    MissingCapability
        They are others in another dimension.
    """
    drawn, rounds, crowd = case

    def made(**other: Any) -> tuple[list[Family], set[str]]:
        view = view_of(setting, drawn, rounds, **{"crowd": crowd, **other})
        return families(statement, view.other(constants), form), view.world.trace.read

    here, read = made()
    fewest, largest = setting.problems.clients
    if made(dim=OTHERS)[0] != here:
        raise MissingCapability(f"{statement.id} [{form}]: a side is another one in another dimension")
    in_units = all(_in_units(here, made(beta=beta)[0], beta) for beta in BETAS)
    if crowd[0] > crowd[1] or fewest == largest:
        return f"{fewest} client{'s' * (fewest > 1)}", in_units
    try:
        alike = all(made(crowd=(n, n))[0] == here for n in CLIENTS)
    except MissingCapability:  # a need that is met by few clients only
        alike = False
    return "2 clients" if not alike else "2, 3 or 5 clients" if "N" in read else EVERYBODY, in_units


def _in_units(here: list[Family], there: list[Family], beta: Fraction) -> bool:
    """True if the sides and the conditions with another beta are those with beta = 1 in other units of the losses."""
    units, plain = Units(Fraction(1), beta), Units(Fraction(1), Fraction(1))
    return len(here) == len(there) and all(
        plain.changed(a)[0] == units.changed(b)[0] for a, b in zip(here, there, strict=True)
    )
