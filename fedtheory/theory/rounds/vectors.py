"""A statement on all losses of its class at once: its quantities as forms of vectors, and a proof.

The method's own round is run on the vectors of a worst case (`fedtheory.worst_cases.traced`), and
the statement's own function is given them: the sides of a form are then quadratic in finitely many
vectors and linear in values of losses. Where their difference is a sum of multiples of the
conditions of the class and of squares, in fractions, the form holds for every loss of the class, in
every dimension, and for every number of clients from two on.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from fedtheory.errors import MissingCapability
from fedtheory.local import Exact, GradientSteps
from fedtheory.participation.cohorts import Full
from fedtheory.rational import in_fractions
from fedtheory.theory.rounds.method_setting import MethodSetting
from fedtheory.theory.rounds.oracles import Best
from fedtheory.theory.rounds.problem_classes import Lipschitz, SmoothConvex, StronglyConvex
from fedtheory.worst_cases.classes import Losses
from fedtheory.worst_cases.gram import Quadratic, common, own, value
from fedtheory.worst_cases.identity import Family
from fedtheory.worst_cases.programme import Solution, certify
from fedtheory.worst_cases.runs import OPTIMUM, Run
from fedtheory.worst_cases.traced import SHOWN, NotLinear, Square, Trace, VectorClients

__all__ = ["Proved", "VectorWorld", "proved"]

CLIENTS = 2  # who stand for any number of them
MOST_ROUNDS = 3  # of a run that is proved
CONVEXITY = Fraction(1, 10)  # mu/beta at which a statement about strongly convex losses is looked at


class VectorWorld:
    """All losses of a class: their values and gradients at the points that are asked for."""

    exact, vectors = True, True
    num_clients, dim = CLIENTS, SHOWN

    def __init__(self, losses: Losses) -> None:
        self.losses, self.run = losses, Run()
        self.trace = Trace(self.run, CLIENTS)
        self.weights = np.full(CLIENTS, Fraction(1, CLIENTS), dtype=object)
        self.start = np.zeros(SHOWN, dtype=object)
        L, mu, G = losses.smoothness, losses.strong_convexity, losses.lipschitz
        squared = None if G is None else G * G
        self.constants = {"beta": L, "mu": mu, "G_sq": squared, "beta_F": L, "mu_F": mu}
        self._made: list[VectorClients] = []

    @cached_property
    def best(self) -> Best:
        """The optimum, to which positions are relative."""
        least = Square(self.trace, {None: value(OPTIMUM)}, frozenset(range(SHOWN)))
        return Best(np.array([Fraction(0)] * SHOWN, dtype=object), least, least, Fraction(0))

    def clients(self, cohort: Any, work: dict[str, Any], like: Any, stream: Any, t: int) -> VectorClients:
        """One round's clients, who all take part."""
        solver: Any = Exact()
        if "E" in work:
            solver = in_fractions(GradientSteps(int(work["E"]), float(work["eta"])), {"lr": work["eta"]})
        kept = (self._made[-1].moves, self._made[-1].inside) if self._made else ({}, [])
        self._made.append(VectorClients(self.trace, solver, CLIENTS, CLIENTS, t, *kept))
        return self._made[-1]

    def _points(self, y: Any) -> Iterator[tuple[tuple[int, ...], str, Any]]:
        """Where an array (..., N, d) of points stands, the point's name, and the gradients there."""
        for at in np.ndindex(y.shape[:-2]):
            vector = self.trace.vector(y[at][None])
            named = next((p for p in self.run.points.values() if p.at == vector and p.name != OPTIMUM), None)
            if named is None:
                name = f"q{len(self.run.points)}"
                yield at, name, self.run.gradient(name, vector)
            else:
                yield at, named.name, named.gradient

    def _each(self, x: Any) -> Any:
        """The same points (..., d) for every client (..., N, d)."""
        x = np.asarray(x, dtype=object)
        return np.broadcast_to(x[..., None, :], (*x.shape[:-1], CLIENTS, SHOWN))

    def values(self, x: Any) -> Any:
        """f_k at points (..., d): (..., N)."""
        y = self._each(x)
        out = np.empty(y.shape[:-1], dtype=object)
        for at, name, _ in self._points(y):
            for k in range(CLIENTS):
                out[(*at, k)] = Square(self.trace, {k: value(name)}, frozenset(range(SHOWN)))
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
    where : the numbers at which it is, in words; '' where there are no others
    solutions : multipliers and L D L', one for each inequality that the form consists of
    families : the identities that they are put into
    """

    form: str
    where: str
    solutions: tuple[Solution, ...]
    families: tuple[Family, ...]


def losses_of(setting: MethodSetting) -> Losses:
    """The class of a statement's losses in units in which beta, or G, is 1.

    Raises
    ------
    MissingCapability
        A class without interpolation conditions.
    """
    kind = setting.problems
    if kind.weights != "equal":
        raise MissingCapability("its clients have unequal weights")
    if kind.identical:
        raise MissingCapability("its clients' losses are identical")
    if type(kind) is SmoothConvex:
        return Losses()
    if type(kind) is StronglyConvex:
        return Losses(Fraction(1), CONVEXITY)
    if type(kind) is Lipschitz:
        return Losses(None, lipschitz=Fraction(1))
    raise MissingCapability(f"{kind.words}: no conditions of these are known")


def view_of(setting: MethodSetting, drawn: dict[str, Fraction], rounds: int) -> Any:
    """The quantities of a statement's round, after so many others, or of its run of so many.

    Raises
    ------
    MissingCapability
        What is no form of vectors.
    """
    if setting.scope == "fixed-point" or not isinstance(setting.sampling, Full):
        raise MissingCapability("everybody takes part in what is proved so")
    world = VectorWorld(losses_of(setting))
    start = world.trace.of_server(world.run.start)
    if setting.scope == "run":
        from fedtheory.theory.rounds.oracles import everyone

        chance = np.array([Fraction(1)], dtype=object)
        return setting._made(world, start, Full(), [everyone(CLIENTS, 1)] * rounds, chance, drawn)
    kinds = {"N d": lambda n: world.trace.of_clients(own(n))[0], "d": lambda n: world.trace.of_server(common(n))[0]}
    state = {name: kinds[axes](name) for name, axes in setting._free.items()}
    return setting._round(world, start, Full(), rounds, (), drawn, state)


def slacks(statement: Any, view: Any, form: str) -> list[Quadratic]:
    """rhs - lhs of every inequality that a form consists of; of an equality also the other way round."""
    claimed = statement.on(view, mutants=False, only=form)[form]
    sides = claimed.sides
    if sides.relation == "==":
        lhs, rhs = sides.terms[:2]
        both = [np.asarray(rhs - lhs, dtype=object), np.asarray(lhs - rhs, dtype=object)]
    else:
        both = [np.asarray(view.expectation(sides.rhs) - view.expectation(sides.lhs), dtype=object)]
    found = [x for part in both for x in part.reshape(-1)]
    return [x.value if isinstance(x, Square) else Quadratic(constant=Fraction(x)) for x in found]


def proved(statement: Any, form: str) -> Proved:
    """Prove a form for all losses of its class.

    Raises
    ------
    MissingCapability
        A side that is no form of vectors, or a class without conditions, with the reason.
    NotCertified
        No proof of this kind was found.
    """
    setting = MethodSetting.of(statement)
    found: list[tuple[Solution, Family]] = []
    least, most = setting.usual_rounds
    lengths = [0] if setting._free else range(least, min(most, MOST_ROUNDS) + 1)
    for drawn in setting.choices():
        for rounds in lengths:
            found += prove(statement, form, view_of(setting, drawn, rounds))
    return Proved(form, _where(setting, most, lengths), *zip(*found, strict=True))


def prove(statement: Any, form: str, view: Any) -> list[tuple[Solution, Family]]:
    """The proof of every inequality of a form on one view."""
    try:
        parts = slacks(statement, view, form)
    except NotLinear as error:
        raise MissingCapability(f"{statement.id} [{form}]: {error}") from error
    run, losses = view.world.run, view.world.losses
    conditions = {name: -c for name, c in run.of_losses(losses).items()}
    families = [Family(part, conditions) for part in parts]
    return [(certify(family), family) for family in families]


def _where(setting: MethodSetting, most: int, lengths: Any) -> str:
    """The numbers at which a statement was looked at, where it has others."""
    said = [f"{name} at its limit" for name in setting.open_numbers()]
    said += [f"mu = beta {CONVEXITY}"] * (type(setting.problems) is StronglyConvex)
    last = max(lengths)
    said += [f"after at most {last} rounds" if setting.scope == "round" else f"T up to {last}"] * (last < most and not setting._free)
    return ", ".join(said)
