"""A certificate of a worst case in the units of a theorem of Coq: its points, and its multipliers.

The theorem is about every inner-product space, all losses of the class, every L (or G) and R, and
every number of clients where the run is the same for each that was looked at.
`worst_cases.coq.text` writes it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import permutations
from typing import Any, NamedTuple

from fedtheory.errors import InvalidInput, MissingCapability
from fedtheory.worst_cases.bounds import BOUND, Question, alike, branches, walked
from fedtheory.worst_cases.certificates import Certificate, asked_question, in_words
from fedtheory.worst_cases.classes import Point
from fedtheory.worst_cases.coq.places import Place, places
from fedtheory.worst_cases.gram import MEAN, Quadratic, Vector, own, square, value
from fedtheory.worst_cases.groups import Groups
from fedtheory.worst_cases.numbers import Units
from fedtheory.worst_cases.runs import OPTIMUM, Run, spread

__all__ = ["Goal", "Theorem", "theorem"]

THERE_IS = (
    "Coq's side has worst cases of convex losses, smooth or with bounded subgradients, where "
    "everybody takes part, the distance after one round of a cohort, and rates"
)
OTHER_COHORTS = ((7, 3), (11, 2), (101, 13))  # N and P at which a run is looked at
PULL = re.compile(r"p(?P<t>\d+), (?:0|(?P<minus>minus )?(?P<mean>mean )?p(?P<other>\d+))")


@dataclass(frozen=True)
class Goal:
    """The quantity that a certificate bounds.

    Attributes
    ----------
    kind : 'gap', 'distance', 'gradient', 'best-gap' or 'cohort', the expected distance
    at : the points that it is taken at
    unit : of it, in L and R
    """

    kind: str
    at: tuple[Point[Vector], ...]
    unit: Fraction


class Pull(NamedTuple):
    """A condition of an l1 term: the pull of round t less a multiple of another one, along its move.

    Attributes
    ----------
    multiplier : of the condition
    t, other : rounds, from 1 on
    sign : of the other pull: 0, 1 or -1
    mean : True of the other pull's mean
    """

    multiplier: Fraction
    t: int
    sign: int
    mean: bool
    other: int


@dataclass(frozen=True)
class Theorem:
    """A certificate in the units of its theorem: R, L R and L R^2.

    Attributes
    ----------
    question, words : what was asked, and the same in a line
    goal, bound : what is bounded, and by what
    points : where the losses are asked, the optimum first, and the last model
    pairs : (i, j) -> multiplier of the condition between these points
    start, heterogeneity, norms, weights : the other multipliers; norms has one for each point where
        losses are asked
    pulls : those of an l1 term, with a multiplier; None where there is none
    any_number : True if the run is the same for every number of clients that was looked at
    of_models : True if the goal is taken at the last model, and the best gap at all before
    numbers : name of a point -> its number
    """

    question: Question
    words: str
    goal: Goal
    bound: Fraction
    points: Sequence[Point[Vector]]
    pairs: Mapping[tuple[int, int], Fraction]
    start: Fraction
    heterogeneity: Fraction
    norms: Sequence[Fraction]
    weights: Sequence[Fraction]
    pulls: Sequence[Pull] | None
    any_number: bool
    of_models: bool
    numbers: Mapping[str, int]

    @property
    def name(self) -> str:
        """The method's, with its numbers of local steps and rounds, and the criterion's."""
        of = self.question.subject
        name = f"{of.name}_{of.local_steps or 1}_{self.question.rounds}_{self.goal.kind}"
        return re.sub(r"^(?=\d)", "method_", re.sub(r"\W+", "_", name, flags=re.ASCII))

    @property
    def smooth(self) -> bool:
        """True if the losses are smooth; else their subgradients are bounded."""
        return self.question.losses.smoothness is not None

    @cached_property
    def places(self) -> list[Place]:
        """Of the points, where these are a start plus gradients."""
        return places(self.points, self.slope, self.smooth)

    @property
    def spread(self) -> Fraction:
        """The share of the clients' variance that is left in a cohort's mean."""
        return spread(self.question.clients, self.question.participants)

    @property
    def slope(self) -> Fraction:
        """The unit of gradients over that of positions: L, or G/R."""
        return self.question.units.gradient / self.question.units.position

    @property
    def options(self) -> Mapping[str, Any]:
        """The hyperparameters of the method."""
        return self.question.subject.options

    @property
    def local_steps(self) -> int | None:
        """K; None where local problems are solved, or local work is the method's own."""
        return self.question.subject.local_steps

    @property
    def at(self) -> list[int]:
        """The numbers of the points that the goal is taken at."""
        return [self.numbers[str(p.name)] for p in self.goal.at]

    @property
    def in_words(self) -> str:
        """'gap <= 0.173168 L R^2'."""
        unit = {"distance": "R^2", "cohort": "R^2", "gradient": "L^2 R^2"}.get(
            self.goal.kind, "L R^2" if self.smooth else "G R"
        )
        return f"{self.goal.kind} <= {float(self.bound):.6g} {unit}"


def theorem(found: Certificate, method: Any = None, criterion: Any = None) -> Theorem:
    """The theorem that a certificate proves.

    Parameters
    ----------
    method, criterion : the class and the function, where they are none of the package's

    Raises
    ------
    InvalidInput
        A certificate of another kind; a multiplier of no condition.
    MissingCapability
        What Coq has no side for, and what there is.
    """
    if found.question.get("kind") != "worst-case":
        raise InvalidInput(f"it is a certificate of a {found.question.get('kind')}: {THERE_IS}")
    q = asked_question(found.question, method, criterion)
    _only_what_coq_has(q)
    run, form, extra = walked(q)
    models = _models_of_a_plain_run(q, run)
    units = q.units
    drawn = q.participants < q.clients
    goal = _of_cohort(models[-1], units) if drawn else _goal(run, -form, extra, units)
    points = list(run.points.values())
    points += [p for p in goal.at if p.name not in run.points]  # a distance asks no loss
    pulls = {name: PULL.fullmatch(name) for name in run.conditions}
    numbers = {str(p.name): i for i, p in enumerate(points)}
    conditions = {
        f"{i.name}, {j.name}": (numbers[i.name], numbers[j.name])
        for i, j in permutations(run.points.values(), 2)
    }
    norms = {f"|{name}|": numbers[name] for name in run.points}
    others = {
        BOUND,
        "start",
        "heterogeneity",
        *extra,
        *(norms if q.losses.smoothness is None else ()),
        *pulls,
    }
    if unknown := sorted(set(found.multipliers) - set(conditions) - others):
        raise InvalidInput(
            f"multipliers of {', '.join(unknown[:3])}: Coq's checker has no such condition"
        )
    squares = dict.fromkeys(("heterogeneity", *norms), units.gradient**2) | {
        "start": units.position**2
    }

    def multiplier(name: str) -> Fraction:
        number = found.multipliers.get(name, Fraction(0))
        return number * squares.get(name, units.position * units.gradient) / goal.unit

    pairs = {
        conditions[name]: multiplier(name)
        for name in found.multipliers
        if name in conditions and found.multipliers[name]
    }
    return Theorem(
        q,
        in_words({"kind": found.question["kind"], **q.asked}),
        goal,
        found.claim["bound"] / goal.unit,
        points,
        pairs,
        multiplier("start"),
        multiplier("heterogeneity"),
        [multiplier(name) for name in norms],
        [multiplier(name) for name in extra],
        [
            Pull(multiplier(name), *_rounds(found))
            for name, found in pulls.items()
            if found and multiplier(name)
        ]
        if pulls
        else None,
        _same_for_all_cohorts(q, points) if drawn else alike(q),
        [p.at for p in goal.at] == (models[:-1] if extra else models[-1:]),
        numbers,
    )


def _rounds(found: re.Match[str]) -> tuple[int, int, bool, int]:
    """t, sign, mean and the other round of a condition of an l1 term."""
    t = int(found["t"]) + 1
    if found["other"] is None:
        return t, 0, False, t
    return t, -1 if found["minus"] else 1, bool(found["mean"]), int(found["other"]) + 1


def _only_what_coq_has(q: Question) -> None:
    """Refuse a question that Coq has no side for."""
    q.check()
    smooth, bounded = q.losses.smoothness is not None, q.losses.lipschitz is not None
    refused = {
        "cohorts, but for the distance after one round": q.tree,
        "groups of clients": isinstance(q.losses, Groups),
        "one client alone, but for a last model and smooth losses": q.clients == 1
        and (not smooth or q.criterion == "best-gap"),
        "a method of one loss": q.subject.one_loss,
        "smooth losses whose gradients are bounded": smooth and bounded,
        "losses that are neither smooth nor of bounded subgradients": not (smooth or bounded),
        "a bound of the heterogeneity of losses that are not smooth": not smooth
        and q.heterogeneity is not None,
        "no bound of the heterogeneity": smooth and q.heterogeneity is None,
        "distance = 0, and theorems are in units of it": q.distance == 0,
    }
    for what, given in refused.items():
        if given:
            raise MissingCapability(
                f"no theorem of Coq is made of this certificate ({what}): {THERE_IS}"
            )


def _models_of_a_plain_run(q: Question, run: Run) -> list[Any]:
    """The models x_0, ..., x_T of a run that has nothing besides points.

    Raises
    ------
    MissingCapability
        What it has.
    """
    [branch, *others] = branches(q)[1]
    refused = {
        "the method flips coins": bool(others),
        "its messages are compressed": bool(run.messages),
        "the method has conditions besides those of the losses": any(
            not PULL.fullmatch(name) for name in run.conditions
        ),
    }
    for what, given in refused.items():
        if given:
            raise MissingCapability(
                f"no theorem of Coq is made of this certificate ({what}): {THERE_IS}"
            )
    return branch.models


def _of_cohort(model: Vector, units: Units) -> Goal:
    """The expected distance of the mean over a cohort of a vector of each client."""
    at = Vector(model.mean, model.drawn)
    return Goal("cohort", (Point("the model", at, own("the model")),), units.position**2)


def _same_for_all_cohorts(q: Question, points: Sequence[Point[Vector]]) -> bool:
    """True if the run is the same for other numbers of clients and of participants."""
    for clients, participants in OTHER_COHORTS:
        other = replace(q, clients=clients, participants=participants)
        run, found = branches(other)
        model = found[0].models[-1]
        if [*run.points.values(), Vector(model.mean, model.drawn)] != [*points[:-1], points[-1].at]:
            return False
    return True


def _goal(run: Run, form: Quadratic, extra: Mapping[str, Quadratic], units: Units) -> Goal:
    """Recognise a form: a gap, a distance or a squared gradient at a point, or the best of gaps.

    Raises
    ------
    MissingCapability
        Any other form.
    """
    of_values = units.position * units.gradient
    if extra:
        asked = [_gap_at(run, value("weights") - term) for term in extra.values()]
        return Goal("best-gap", tuple(p for p in asked if p is not None), of_values)
    if (p := _gap_at(run, form)) is not None:
        return Goal("gap", (p,), of_values)
    for p in run.points.values() if run.smooth else ():
        if form == square(p.gradient.average):
            return Goal("gradient", (p,), units.gradient**2)
    with_x0 = {
        (x, y): c for (block, x, y), c in form.gram.items() if block == MEAN and "x0" in (x, y)
    }
    halves = {x if y == "x0" else y: c / (1 if x == y else 2) for (x, y), c in with_x0.items()}
    at = Vector(halves)
    if halves.get("x0") == 1 and form == square(at):
        there = next(
            (p for p in run.points.values() if p.at == at), Point("the model", at, own("the model"))
        )
        return Goal("distance", (there,), units.position**2)
    raise MissingCapability(
        "no theorem of Coq is made of this criterion: there are the gap, the distance and the "
        "squared gradient at a combination of models, and the best gap"
    )


def _gap_at(run: Run, form: Quadratic) -> Point[Vector] | None:
    """The point at which a form is the gap; None where it is none."""
    at = [name for name, number in form.values.items() if name != OPTIMUM and number == 1]
    return run.points[at[0]] if len(at) == 1 and form == value(at[0]) - value(OPTIMUM) else None
