"""The worst value that a method can end with, over all losses of a class and all dimensions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from fedtheory.algorithms.base import Algorithm
from fedtheory.errors import InvalidInput, MissingCapability, NotCertified
from fedtheory.inputs import whole_number
from fedtheory.worst_cases.classes import Losses, Point
from fedtheory.worst_cases.coins import not_too_many_ways
from fedtheory.worst_cases.criteria import (
    CRITERIA,
    Criterion,
    Leaf,
    form_of,
    name_of,
    source_of,
)
from fedtheory.worst_cases.entries import SHOWN
from fedtheory.worst_cases.gram import Quadratic, value
from fedtheory.worst_cases.groups import Group, Groups, others, sized
from fedtheory.worst_cases.identity import Family
from fedtheory.worst_cases.methods import Scale, Subject, class_of, subject
from fedtheory.worst_cases.numbers import Units, exact
from fedtheory.worst_cases.programme import LARGEST, NoMultipliers, Solution, check, maximise
from fedtheory.worst_cases.runs import NeedsTree, Run, spread
from fedtheory.worst_cases.tree import Each, History, Tree

__all__ = [
    "CRITERIA", "Branch", "Question", "WorstCase", "alike", "answer", "asked", "asked_points", "assumed", "branches", "family",
    "grown", "relaxed", "walked", "worst_case",
]  # fmt: skip

BOUND = "minus the bound"
Announce = Callable[[str], None]
SOLVED, TURNED = 1.5e-5, 5e-4  # seconds: times the square of the conditions; times conditions and permutations (measured, one core)


@dataclass(frozen=True)
class Question:
    """A question for a worst case: the largest value of a criterion after some rounds.

    Parameters
    ----------
    subject : the method, with its hyperparameters and its local work
    losses : the class, or groups of clients with one each
    rounds : T
    criterion : a name of `CRITERIA`, or a function of `fedtheory.worst_cases.criteria.Models`
    heterogeneity : zeta, the largest root mean square of the clients' gradients at the optimum; None for no bound of its own
    distance : the largest ||x_0 - x*||
    clients, participants : N and P
    """

    subject: Subject
    losses: Losses
    rounds: int
    criterion: Criterion
    heterogeneity: Fraction | None
    distance: Fraction
    clients: int
    participants: int

    @property
    def asked(self) -> dict[str, Any]:
        """The question's parts, by name."""
        sources = {"source": self.subject.source, "criterion source": source_of(self.criterion)}
        sources = {name: text for name, text in sources.items() if text}
        return {
            "method": self.subject.name, **sources, "local steps": self.subject.local_steps or 1,
            "rounds": self.rounds, "criterion": name_of(self.criterion), "options": dict(self.subject.options),
            **self.losses.asked, "heterogeneity": self.heterogeneity,
            "distance": self.distance, "clients": self.clients, "participants": self.participants,
        }  # fmt: skip

    @property
    def units(self) -> Units:
        """R and L R, or R and G."""
        L = self.losses.smoothness
        R = self.distance or ((self.heterogeneity or Fraction(1)) / L if L else Fraction(1))
        return Units(R, L * R if L else self.losses.lipschitz or Fraction(1))

    @cached_property
    def tree(self) -> bool:
        """True if every cohort that may be drawn is looked at."""
        if self.participants == self.clients or self.rounds > 1 or self.criterion != "distance":
            return self.participants < self.clients
        try:
            walked(self)
        except NeedsTree:
            return True
        return False

    def check(self) -> None:
        """Refuse what cannot be asked.

        Raises
        ------
        InvalidInput
            What it is, and what there is instead.
        """
        if isinstance(self.losses, Groups):
            self._check_groups(self.losses)
        if isinstance(self.criterion, str) and self.criterion not in CRITERIA:
            raise InvalidInput(f"unknown criterion {self.criterion!r}: there are {', '.join(CRITERIA)}")
        for name in ("rounds", "clients", "participants"):
            whole_number(name, getattr(self, name))
        for name in ("distance", "heterogeneity"):
            number = getattr(self, name)
            if number is not None and number < 0:
                raise InvalidInput(f"{name} = {number}: it must be at least 0")
        if self.participants > self.clients:
            raise InvalidInput(f"participants = {self.participants} > clients = {self.clients}: at most all take part")
        if self.subject.algorithm.nonsmooth and self.losses.lipschitz is None:
            raise InvalidInput(f"{self.subject.name} needs losses whose gradients are bounded: give lipschitz")

    def _check_groups(self, groups: Groups) -> None:
        """Refuse what is not asked of groups of clients."""
        if self.participants < self.clients:
            raise MissingCapability(
                f"participants = {self.participants} < clients = {self.clients}: of groups with losses of different classes "
                "no cohorts are drawn; leave participants out"
            )
        if self.subject.one_loss:
            raise InvalidInput(f"{self.subject.name} has one loss and no clients: give one class, and no groups")
        if self.subject.algorithm.plain_mean and not groups.alike:
            raise InvalidInput(f"{self.subject.name} takes no weights: leave out how many clients the groups have")


@dataclass(frozen=True)
class WorstCase:
    """A bound on what a method ends with, proved in fractions.

    Attributes
    ----------
    bound : the proved bound
    best : the solver's worst value, in floats: the bound lies above it by what the rounding takes
    solution : multipliers and L D L'
    family : the identity that they are put into
    question : what was asked
    relaxed : what of the problem is left out, so that the value is an upper bound only; '' where nothing is
    """

    bound: Fraction
    best: float
    solution: Solution
    family: Family
    question: Question
    relaxed: str

    @cached_property
    def any_number(self) -> bool:
        """True if the value is the same for every number of clients from 2 on, as far as `alike` tells."""
        return alike(self.question)

    @property
    def asked(self) -> dict[str, Any]:
        """The question's parts, by name."""
        return self.question.asked

    @property
    def flips(self) -> bool:
        """True if the method flips coins, so that the value is an expectation over them."""
        return not self.question.tree and len(branches(self.question)[1]) > 1

    def __repr__(self) -> str:
        told = ", ".join(f"{name} {self.asked[name]}" for name in ("method", "rounds", "local steps", "criterion"))
        return f"WorstCase({told}: {self.best:.9g} by the solver, proved at most {float(self.bound):.9g})"


def worst_case(
    method: Algorithm | type[Algorithm] | str, *, local_steps: int = 1, rounds: int = 1,
    criterion: Criterion = "gap", losses: Losses | Sequence[Group] | None = None,
    heterogeneity: Fraction | int | None = None, distance: Fraction | int = 1, clients: int | None = None,
    participants: int | None = None, announce: Announce | None = None, **options: Any,
) -> WorstCase:
    """The largest value of a criterion after some rounds; its expectation where P of N clients are
    drawn in every round, or where the method flips coins.

    The method's own round is run on the vectors of the worst case: any `Algorithm` whose round is
    linear in vectors has one.

    Parameters
    ----------
    method : a method of anyone's with its hyperparameters, its class, or a name, such as 'feddyn'
    losses : the class (default: convex, 1-smooth; of a method that is ``nonsmooth`` convex, gradients
        of at most 1), or a `Group` for each group of clients with a class of its own
    heterogeneity : zeta, the largest root mean square of the clients' gradients at the optimum
        (default: 1; no bound beside the losses' own where they have bounded subgradients alone, or
        the method is made for such losses)
    distance : the largest ||x_0 - x*||
    clients, participants : N (default: 2, of groups the least with two clients in each) and P (default:
        all). Where all take part the value is the same for every N >= 2, unless the method's numbers
        depend on N.
    announce : is told how many conditions there are and about how long they take, where that is
        more than two seconds
    criterion : 'distance', 'gap', 'gradient' or 'best-gap', squares; or a function of the models, as
        ``lambda q: q.gap(sum(q.x[1:]) / 3)`` for the gap of an average (`worst_cases.criteria.Models`)
    local_steps : K
    options : hyperparameters of a class or a name, by default in the units of the losses, and
        ``step``, the size of K local gradient steps. Without a step local problems are solved
        exactly where they have a curvature, and elsewhere the step is 1/L. Numbers are taken
        exactly, a float as the decimal that it is written as.

    Returns
    -------
    WorstCase
        ``worst_case("fedavg", local_steps=4, rounds=2, step=0.25).bound``;
        `fedtheory.worst_cases.worst_function` makes the losses.

    Raises
    ------
    UnknownName, InvalidInput
        An unknown method, criterion or option, a number that is none, or a programme that is too
        large.
    MissingCapability
        What the round asks for that is not linear in vectors, with the line.
    NotCertified
        There is no worst value, or the solver's multipliers could not be rounded to ones that prove
        a bound.
    """
    q = asked(
        method, options, local_steps, rounds, criterion, losses, heterogeneity, distance, clients,
        participants,
    )  # fmt: skip
    return answer(q, announce)


def answer(q: Question, announce: Announce | None = None) -> WorstCase:
    """The answer to a question.

    Raises
    ------
    InvalidInput, MissingCapability, NotCertified
        As `worst_case`.
    """
    found, relaxed = _family(q, announce)
    solution = _solved(found, q.units)
    bound = -solution.numbers.get(BOUND, Fraction(0))
    return WorstCase(bound, -solution.best, solution, found, q, relaxed)


def asked(
    method: Any, options: Mapping[str, Any], local_steps: int = 1, rounds: int = 1,
    criterion: Criterion = "gap", losses: Losses | Sequence[Group] | None = None,
    heterogeneity: Any = None, distance: Any = 1, clients: int | None = None, participants: int | None = None,
) -> Question:
    """The question of `worst_case`, with its defaults.

    Raises
    ------
    UnknownName, InvalidInput
        As `worst_case`.
    """
    if isinstance(method, str):
        method = class_of(method)
    smooth = not getattr(method, "nonsmooth", False)
    if losses is None:
        losses = Losses() if smooth else Losses(None, lipschitz=Fraction(1))
    losses, N = sized(losses, clients)
    R, T = exact("distance", distance), whole_number("rounds", rounds)
    zeta = None if heterogeneity is None else exact("heterogeneity", heterogeneity)
    if zeta is None and smooth and (losses.smoothness or losses.lipschitz is None):
        zeta = Fraction(1)
    scale = Scale(losses.smoothness or Fraction(1), losses.lipschitz or Fraction(1), R, T)
    of = subject(method, options, local_steps, scale)
    return Question(of, losses, T, criterion, zeta, R, N, N if participants is None else participants)


def alike(q: Question) -> bool:
    """True if the value is the same for every number of clients from 2 on, in each group of more than one.

    Everybody takes part, and the run has the same numbers for the `others`. A coefficient that is a
    rational function of N, of a degree below their number, is constant then.
    """
    if not (found := others(q)):
        return False
    try:
        here = _told(walked(q, 1))
        return all(_told(walked(other, 1)) == here for other in found)
    except MissingCapability:  # a round of other clients is not linear
        return False


def _told(found: tuple[Run, Any, Any]) -> Any:
    """All that a worst case is made of."""
    run, *criterion = found
    return run.points, run.conditions, run.relaxed, *criterion


def _solved(found: Family, units: Units) -> Solution:
    """The best multipliers, found in units in which the numbers are near 1, and checked in the family's own."""
    plain = units == Units(Fraction(1), Fraction(1))
    changed, by, terms = (found, Fraction(1), {}) if plain else units.changed(found)
    try:
        solution = maximise(changed, BOUND)
    except NoMultipliers:
        raise
    except NotCertified as error:
        near = "the solver is accurate where step times L and heterogeneity/(L distance) are not far from 1"
        raise NotCertified(f"{error}; {near}") from error
    if plain:
        return solution
    numbers = units.back(solution.numbers, by, terms)
    sizes = {block: np.array([float(units.of(name)) for name in names]) for block, names in solution.rows.items()}
    gram = {block: matrix * np.outer(sizes[block], sizes[block]) for block, matrix in solution.gram.items()}
    best = solution.best * float(by / terms[BOUND])
    return Solution(numbers, check(found, numbers, solution.rows), best, gram, solution.rows)


def family(q: Question, announce: Announce | None = None) -> Family:
    """``bound - criterion - sum of multiplier x condition``, a form that must be at least 0.

    Raises
    ------
    InvalidInput
        What cannot be asked, or is too large.
    """
    return _family(q, announce)[0]


def relaxed(q: Question) -> str:
    """Say what of the problem is left out; '' where nothing is."""
    return _family(q)[1]


def assumed(q: Question) -> dict[str, str]:
    """Say what is assumed of vectors that the method begins with, by name."""
    return dict((grown(q)[0] if q.tree else branches(q)[0]).assumed)


def _family(q: Question, announce: Announce | None = None) -> tuple[Family, str]:
    """The identity, and what of the problem is left out."""
    q.check()
    if q.tree:
        return _of_the_tree(q, announce)
    found, relaxed = _of_exchangeable(q, announce)
    return found.of_one_client() if q.clients == 1 else found, relaxed


def asked_points(q: Question) -> list[Point]:
    """The points of a question in which everybody takes part, the optimum first."""
    return list(walked(q)[0].points.values())


def _of_exchangeable(q: Question, announce: Announce | None) -> tuple[Family, str]:
    """Everybody takes part, or one round of a cohort: two blocks for any number of clients."""
    run, start, extra = found = walked(q)
    _same_in_other_dimensions(q, _told(found), lambda d: _told(walked(q, d)))
    _tell(announce, run.pairs, 0)
    terms = _constraints(q, run.square(run.start), run.heterogeneity()) | extra
    conditions = run.of_losses(q.losses)
    _not_too_many(len(conditions))
    terms |= {name: -condition for name, condition in conditions.items()}
    return Family(start, terms, frozenset({BOUND})), run.relaxed


def _same_in_other_dimensions(q: Question, found: Any, again: Callable[[int], Any]) -> None:
    """Refuse a class of anyone's whose rounds are others when they are run once more, in another dimension."""
    if q.subject.source and again(SHOWN + 1) != found:
        raise MissingCapability(
            f"{q.subject.name}: its rounds differ between runs: they draw random numbers, keep something outside of the "
            "state, or depend on the dimension"
        )


class Branch(NamedTuple):
    """A way for the coins of a run to fall; of a method without coins there is one.

    Attributes
    ----------
    weight : its probability
    models : x_0, ..., x_T
    state : what the page keeps
    """

    weight: Fraction
    models: list[Any]
    state: Any = None

    @property
    def name(self) -> str:
        """The way that the coins fell, in the names of points."""
        return self.state.history if self.state else ""


def branches(q: Question, coordinates: int = SHOWN) -> tuple[Run, list[Branch]]:
    """The run of a question in which everybody takes part, with every way for its coins to fall."""
    smooth = q.losses.smoothness is not None
    groups = q.losses.groups if isinstance(q.losses, Groups) else ()
    run = Run(Fraction(q.participants, q.clients), spread(q.clients, q.participants), q.subject.one_loss, smooth, groups=groups)
    page = q.subject.page(q.clients, q.participants, coordinates)
    found = [Branch(Fraction(1), [run.start])]
    for t in range(q.rounds):
        after: list[Branch] = []
        for b in found:
            for weight, x, state in page.every_way(run, t, b.models[-1], b.state):
                after.append(Branch(b.weight * weight, [*b.models, x], state))
                not_too_many_ways(len(after))
            _not_too_many(run.pairs)
        found = after
    return run, found


def walked(q: Question, coordinates: int = SHOWN) -> tuple[Run, Quadratic, dict[str, Quadratic]]:
    """The run, minus the criterion, and what more has a multiplier."""
    run, found = branches(q, coordinates)
    if not isinstance(q.criterion, str):
        criterion = q.criterion
        return run, -_mean(found, lambda b: form_of(criterion, run, b.models, q.clients)), {}
    return run, *_criterion(q.criterion, run, found)


def _of_the_tree(q: Question, announce: Announce | None) -> tuple[Family, str]:
    """Every cohort that may be drawn."""
    tree, start, extra = grown(q, announce)
    first = tree.start.rows[0]
    terms = _constraints(q, first.inner(first), tree.heterogeneity()) | extra
    conditions = {name: -condition for name, condition in tree.of_losses(q.losses)}
    _not_too_many(len(conditions))
    found = Family(start, terms | conditions, frozenset({BOUND}))
    terms = {name: tree.blocks(of) for name, of in found.terms.items()}
    return replace(found, start=tree.blocks(found.start), terms=terms), tree.relaxed


def grown(q: Question, announce: Announce | None = None) -> tuple[Tree, Quadratic, dict[str, Quadratic]]:
    """The tree of cohorts, minus the criterion, and what more has a multiplier."""
    tree = Tree(q.clients, q.participants, q.losses.smoothness is not None)
    per_round = q.subject.local_steps or 1
    size = tree.size(q.rounds, per_round, 0 if q.criterion in ("distance", "best-gap") else 1)
    _not_too_many(size, "fewer rounds or clients")
    _tell(announce, size, len(tree.group))
    models = tree.walk(q.subject.page(q.clients, q.participants), q.rounds)

    def again(coordinates: int) -> Any:
        other = Tree(q.clients, q.participants, tree.smooth)
        ends = other.walk(q.subject.page(q.clients, q.participants, coordinates), q.rounds)
        return ends, other.points, other.extra

    _same_in_other_dimensions(q, (models, tree.points, tree.extra), again)
    if not isinstance(q.criterion, str):
        return tree, -_over_leaves(q.criterion, tree, models), {}
    return tree, *_criterion(q.criterion, tree, [Branch(Fraction(1), models)])


def _over_leaves(
    criterion: Callable[[Any], Any], tree: Tree, models: list[dict[History, Each]]
) -> Quadratic:
    """The expectation of a function of the models over every sequence of cohorts."""
    ends = [
        form_of(
            criterion, Leaf(tree, end), [x[end[:t]] for t, x in enumerate(models)], tree.clients
        )
        for end in models[-1]
    ]  # fmt: skip
    found = Fraction(1, len(ends)) * Quadratic.total(ends)
    if not tree.symmetric(found):
        told = "it is another one of other clients, or differs from call to call"
        raise MissingCapability(f"criterion {name_of(criterion)}: {told}")
    return found


def _tell(announce: Announce | None, conditions: int, permutations: int) -> None:
    seconds = SOLVED * conditions**2 + TURNED * conditions * permutations
    if announce is not None and seconds > 2:
        announce(f"{conditions:,} conditions on the losses: about {seconds:.0f} s")


def _not_too_many(conditions: int, remedy: str = "fewer rounds or local steps") -> None:
    if conditions > LARGEST:
        raise InvalidInput(f"{conditions:,} conditions on the losses: at most {LARGEST:,}; take {remedy}")


def _constraints(q: Question, distance: Quadratic, heterogeneity: Quadratic) -> dict[str, Quadratic]:
    terms = {BOUND: Quadratic(constant=Fraction(-1)), "start": distance - Quadratic(constant=q.distance**2)}
    if q.heterogeneity is not None:
        terms["heterogeneity"] = heterogeneity - Quadratic(constant=q.heterogeneity**2)
    return terms


def _mean(found: list[Branch], of: Callable[[Branch], Quadratic]) -> Quadratic:
    """The expectation of a form over the coins."""
    return Quadratic.total(b.weight * of(b) for b in found)


def _criterion(criterion: str, run: Any, found: list[Branch]) -> tuple[Quadratic, dict[str, Quadratic]]:
    """Minus the criterion, and what more has a multiplier."""
    if criterion == "distance":
        return -_mean(found, lambda b: run.square(b.models[-1])), {}
    if criterion == "best-gap":  # weights that add up to 1: 'weights' stands for the number 1, and must cancel as values do
        rounds = range(len(found[0].models) - 1)
        gaps = [_mean(found, lambda b: run.gap(f"gap{t}{b.name}", b.models[t])) for t in rounds]  # noqa: B023
        return -value("weights"), {f"weight {t}": value("weights") - gap for t, gap in enumerate(gaps)}
    if criterion == "gradient":
        return -_mean(found, lambda b: run.squared_gradient(f"end{b.name}", b.models[-1])), {}
    return -_mean(found, lambda b: run.gap(f"end{b.name}", b.models[-1])), {}
