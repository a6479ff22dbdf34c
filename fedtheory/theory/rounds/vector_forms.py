"""A statement's sides as forms of vectors: quadratic in finitely many vectors, and linear in values of losses.

The method's own round is run on the vectors of a worst case (`fedtheory.worst_cases.traced`), and
the statement's own function is given them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np

from fedtheory.errors import FedTheoryError, MissingCapability, NotCertified
from fedtheory.participation.cohorts import Cohort, Full, Uniform
from fedtheory.theory.rounds.forms import Needed, Potential
from fedtheory.theory.rounds.method_setting import MethodSetting
from fedtheory.theory.rounds.oracles import everyone, probabilities, sequences
from fedtheory.theory.rounds.vector_worlds import CLIENTS, FEW, CohortWorld, VectorWorld, losses_of
from fedtheory.worst_cases.entries import SHOWN, Square, exact
from fedtheory.worst_cases.gram import Quadratic
from fedtheory.worst_cases.identity import Family
from fedtheory.worst_cases.runs import OPTIMUM, STATE, X_STAR

__all__ = ["CONSTANT", "MOST_OF_COHORTS", "families", "names_minimiser", "only_vectors", "quadratics", "view_of", "with_terms"]

CONSTANT = "constant "  # the term of a constant in an identity
MOST_CONDITIONS = 300  # of the losses: a few seconds of the solver
MOST_OF_COHORTS = 600  # where each client has losses of its own
SIZES = {"len", "ndim", "shape", "size"}  # names by which arrays are asked how long they are


@dataclass(frozen=True)
class _Generic(Uniform):
    """Cohorts of P clients, of which one stands for all."""

    def enumerate(self, num_clients: int) -> Cohort:
        return Cohort(num_clients, members=np.arange(self.size)[None], probability=np.ones(1))

    def count(self, num_clients: int) -> int:
        return 1


def view_of(
    setting: MethodSetting, drawn: dict[str, Fraction], rounds: int,
    crowd: tuple[int, int] = (CLIENTS[0], CLIENTS[0]), apart: bool = False, rows: int = FEW,
    beta: Fraction = Fraction(1), dim: int = SHOWN,
) -> Any:  # fmt: skip
    """The quantities of a statement's round, after so many others, or of its run of so many.

    ``apart``: of cohorts every one is looked at, and every client has vectors of its own.
    ``rows``: the most that arrays have for the clients, where one stands for all.

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
    if participants < clients and not apart and _asks_for_shapes(setting.of_statement.function):
        told = "asks for the shape or length of an array, and one cohort stands for all"
        raise MissingCapability(f"{setting.of_statement.id}: {told}")
    of = losses_of(setting.problems, beta), clients, participants, dim
    world = CohortWorld(*of) if apart and participants < clients else VectorWorld(*of, rows)
    with only_vectors(setting.of_statement.id):
        view = _view(setting, world, drawn, rounds)
        if world.trace.refused is not None:  # and the method went on
            raise world.trace.refused
    world.run_made = True
    _not_too_many(setting.of_statement.id, world)
    if setting._free and "t" in world.trace.read:
        raise MissingCapability("the method asks which round it is, and the state before it may be anything")
    return view


def _asks_for_shapes(function: Any) -> bool:
    """True if a function's code, or that of a function that it names, reads how long arrays are."""
    seen: list[Any] = []
    left = [inspect.unwrap(function)]
    while left:
        if not inspect.isfunction(one := left.pop()) or one in seen:
            continue
        seen.append(one)
        codes = [one.__code__]
        for code in codes:
            codes += [c for c in code.co_consts if inspect.iscode(c)]
        names = {name for code in codes for name in code.co_names}
        if names & SIZES:
            return True
        left += [v for n in names if getattr(v := one.__globals__.get(n), "__module__", "") == one.__module__]
        for cell in one.__closure__ or ():
            with suppress(ValueError):  # of a variable that has no value yet
                left.append(cell.cell_contents)
    return False


@contextmanager
def only_vectors(about: str) -> Iterator[None]:
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
    if other := [axes for axes in setting._free.values() if axes not in ("N d", "d")]:
        raise MissingCapability(f"a state with axes {other[0]!r} is no vector")
    state = {name: world.any_vector(STATE + name, axes == "N d")[0] for name, axes in setting._free.items()}
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
    with only_vectors(f"{statement.id} [{form}]"):
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
            each = {words: quadratics(own(side)) for words, side in needs.items()}
            needed = {f"{words}{f' {i}' * bool(i)}": q for words, of in each.items() for i, q in enumerate(of)}
            made += [(start, needed) for side in every for start in quadratics(own(side))]
        of_states = quadratics(sides.before) if isinstance(sides, Potential) else []
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


def names_minimiser(q: Quadratic) -> bool:
    """True if a form is about x*: positions are counted from there, so that x0 is, too."""
    names = {*q.values, *(x for key in q.gram for x in key[1:])}
    return any(x in (X_STAR, "x0") or x.removeprefix("g").startswith(OPTIMUM) for x in names)


def quadratics(side: Any) -> list[Quadratic]:
    """The entries of a side."""
    entries = np.asarray(side, dtype=object).reshape(-1)
    return [x.value if isinstance(x, Square) else Quadratic(constant=exact(x)) for x in entries]


def with_terms(statement: Any, view: Any, form: str, names: Sequence[str]) -> list[Family]:
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
