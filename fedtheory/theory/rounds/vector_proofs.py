"""Proofs of a statement's forms for all losses of its class, and the best values of its constants.

Where the difference of the sides of a form is a sum of multiples of the conditions of the class and
of squares, in fractions, the form holds for every loss of the class, in every dimension, and for
every number of clients from two on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, TypeVar

from fedtheory.errors import FedTheoryError, MissingCapability, NotCertified
from fedtheory.rational import brief, simplest_between, small_root
from fedtheory.theory.rounds.followed_potentials import followed
from fedtheory.theory.rounds.method_setting import MethodSetting
from fedtheory.theory.rounds.proof_scopes import Case, scope_of, scopes
from fedtheory.theory.rounds.vector_forms import CONSTANT, families, names_minimiser, view_of, with_terms
from fedtheory.worst_cases.identity import Family
from fedtheory.worst_cases.programme import Solution, certify, check, optimum

__all__ = ["BestConstant", "Proved", "best_constant", "best_constants", "proved"]

M = TypeVar("M")
NEAR = Fraction(1, 10**6)  # the solver's best and the number that it is, as a share of it
LEAST = Fraction(1, 10**3)  # numbers, of which it is a share; smaller ones are as far from another as these
FEW = 60  # the largest denominator of a number that is recognised
ROOMS = tuple(Fraction(1, 10**k) for k in (8, 7, 6, 5, 4))


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
    for cases in (every := scopes(setting)):
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
        raise failed[0 if every[0][0].apart else -1]
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
    def at(cases: list[Case]) -> BestConstant | None:
        scope_of(statement, form, cases)
        return _best(statement, form, name, cases, others or {})

    return _first(MethodSetting.of(statement), at)


def _best(
    statement: Any, form: str, name: str, cases: list[Case], others: Mapping[str, Fraction]
) -> BestConstant | None:
    setting, goal = MethodSetting.of(statement), CONSTANT + name
    every: list[Family] = []
    for case in cases:
        view = view_of(setting, *case).other(others)
        families(statement, view, form)
        try:
            every += with_terms(statement, view, form, sorted({name, *view.left_free}))
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
        first, *_ = with_terms(statement, view, form, names)
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


def _simple(value: Fraction, near: Fraction) -> Fraction:
    """The simplest number near to one."""
    size = simplest_between(abs(value) - near, abs(value) + near) if abs(value) > near else Fraction(0)
    return size if value > 0 else -size
