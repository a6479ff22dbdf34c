"""All losses of a class as a world whose quantities are forms of vectors.

In `VectorWorld` one client stands for all, so that what holds is for every number of clients, and
arrays need not have a row for each. In `CohortWorld` every client has vectors of its own, so that
it is known who takes part.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from fedtheory.errors import MissingCapability
from fedtheory.local import Exact, GradientSteps
from fedtheory.rational import Whole, in_fractions
from fedtheory.theory.rounds.declare import Watched
from fedtheory.theory.rounds.of_each_client import CohortClients, LossesOf, RunOfEach
from fedtheory.theory.rounds.oracles import Best
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
from fedtheory.worst_cases.entries import NOT_LINEAR, SHOWN, Coordinate, NotLinear, Square, Trace
from fedtheory.worst_cases.gram import Quadratic, Vector, common, own, square, value
from fedtheory.worst_cases.runs import OPTIMUM, X_STAR, Run, spread
from fedtheory.worst_cases.traced import Count, VectorClients

__all__ = ["CLIENTS", "CONVEXITY", "FEW", "OWN", "OWN_X", "CohortWorld", "VectorWorld", "losses_of"]

OWN, OWN_X = "own optimum", "x* of each"
CONVEXITY = Fraction(1, 10)  # mu/beta at which a statement about strongly convex losses is looked at
CLIENTS = (2, 3, 5)  # with as many the identity is written down, to see that it is the same
FEW = 5  # rows of the clients' arrays, which are enough where a round does not count them


class VectorWorld:
    """All losses of a class: their values and gradients at the points that are asked for.

    The optimum is a vector like any other: a round, or a side, that is not the same wherever the
    origin is has it in its forms.

    Parameters
    ----------
    clients, participants : N, and P that are drawn in a round (default: all)
    dim : coordinates that stand for every dimension
    rows : of the clients' arrays, where there are more clients

    Attributes
    ----------
    counts : N and P
    num_clients, participants : the rows of arrays
    """

    exact, vectors = True, True

    def __init__(
        self, losses: Losses, clients: int = CLIENTS[0], participants: int | None = None, dim: int = SHOWN,
        rows: int = FEW,
    ) -> None:  # fmt: skip
        P = clients if participants is None else participants
        self.counts, self.losses, self.dim = (Count(clients), Count(P)), losses, dim
        self.run = Run(Fraction(P, clients), spread(clients, P))
        clients, P = min(clients, rows), min(P, rows - (P < clients))
        self.num_clients, self.participants = clients, P
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

        def known(number: Any, name: str) -> Watched:
            def read() -> Any:
                self.trace.read.add(name)
                return number

            return Watched(read)

        found = {name: refused(name) for name in ("d", "mu", "beta_F", "mu_F")}
        if self.losses.strong_convexity > 0:
            found["mu"] = known(self.losses.strong_convexity, "mu")
        return {**found, **{name: known(n, "N") for name, n in zip("NP", self.counts, strict=True)}}

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
        rows, counts = (self.num_clients, self.participants), self.counts
        if self.run_made or (cohort.mask is not None and cohort.mask.all()):  # everybody
            rows, counts = rows[:1] * 2, counts[:1] * 2
        self._made.append(VectorClients(self.trace, solver, *rows, t, *kept, own, counts=counts))
        return self._made[-1]

    def any_vector(self, name: str, of_each: bool) -> Any:
        """A vector that may be anything (1, d), or one of each client (1, N, d)."""
        return self.trace.of_clients(own(name)) if of_each else self.trace.of_server(common(name))

    @property
    def minima(self) -> Any:
        """min f_k of every client (N,)."""
        if not self.losses.strong_convexity > 0:
            raise MissingCapability("a loss that is not strongly convex need not have a least value")
        self.run.points.setdefault(OWN, Point(OWN, own(OWN_X), Vector()))
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
        super().__init__(losses, clients, participants, dim, clients)
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

    def any_vector(self, name: str, of_each: bool) -> Any:
        """As `VectorWorld.any_vector`."""
        made = [super(CohortWorld, self).any_vector(f"{name}.{k}", False) for k in range(self.num_clients)]
        return np.stack(made, axis=1) if of_each else super().any_vector(name, False)

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
        forms = [value(self.run.flat(k, common(f"{OWN_X}.{k}"), f"{OWN}.{k}").name) for k in range(self.num_clients)]
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
