"""The losses of clients one by one, on the vectors of a worst case, where it matters who takes part.

Every cohort is a scenario, as in fractions, and every vector is there once for each client that has
it. Of N clients so all is known, and nothing of another number of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from fedtheory.theory.rounds.rational_clients import SlotClients, SlotWork
from fedtheory.worst_cases.classes import Losses, Point
from fedtheory.worst_cases.entries import NotLinear, Trace, exact, is_entry
from fedtheory.worst_cases.gram import Quadratic, Vector, common, inner
from fedtheory.worst_cases.runs import OPTIMUM
from fedtheory.worst_cases.traced import NoCurvature

__all__ = ["CohortClients", "LossesOf", "RunOfEach"]


class RunOfEach:
    """The points at which the losses of N clients are asked.

    Attributes
    ----------
    of : for every client its points, the optimum first
    start, best : vectors, x_0 and x*
    smooth : a loss has one gradient at a point
    """

    zero, cohort, history, drawn = Vector(), (), (), False
    product = staticmethod(inner)

    def __init__(self, clients: int, start: Vector, best: Vector, smooth: bool) -> None:
        self.start, self.best, self.smooth = start, best, smooth
        slopes = [common(f"g{OPTIMUM}.{k}") for k in range(clients - 1)]
        slopes.append(-sum(slopes, Vector()))  # their sum is 0
        self.of = [[Point(f"{OPTIMUM}.{k}", best, slope)] for k, slope in enumerate(slopes)]
        self._known: dict[Any, Point[Vector]] = {
            (k, _key(best)): of[0] for k, of in enumerate(self.of) if smooth
        }

    @property
    def points(self) -> dict[str, Point[Vector]]:
        """Every client's points by name."""
        return {p.name: p for of in self.of for p in of}

    def asked(self, client: int, at: Vector) -> Point[Vector]:
        """A client's loss at a point, which is the one where it was asked before."""
        return self._once((client, _key(at)), client, lambda _: at)

    def solved(self, client: int, around: Vector, share: Fraction) -> Point[Vector]:
        """A client's loss where ``around`` less a share of the gradient there is the point itself."""
        found = self._once(
            (client, _key(around), share), client, lambda slope: around - share * slope
        )
        if self.smooth:  # else there may be another subgradient
            self._known.setdefault((client, _key(found.at)), found)
        return found

    def flat(self, client: int, at: Vector, name: str) -> Point[Vector]:
        """Where a client's loss is least by itself."""
        key = client, name, None
        if key not in self._known:
            self._known[key] = Point(name, at, Vector())
            self.of[client].append(self._known[key])
        return self._known[key]

    @property
    def of_everybody(self) -> list[list[Point[Vector]]]:
        """The points of all clients at every place but the optimum where all of them are asked."""
        places: dict[Any, list[Point[Vector]]] = {}
        for (k, *rest), p in self._known.items():
            if len(rest) == 1 and p is not self.of[k][0]:
                places.setdefault(rest[0], []).append(p)
        return [found for found in places.values() if len(found) == len(self.of)]

    def _once(self, key: Any, client: int, where: Callable[[Vector], Vector]) -> Point[Vector]:
        if key not in self._known:
            name = f"q{len(self.of[client])}.{client}"
            slope = common(name)
            self._known[key] = Point(name, where(slope), slope)
            self.of[client].append(self._known[key])
        return self._known[key]

    def of_losses(self, losses: Losses) -> dict[str, Quadratic]:
        """name -> what is at least 0 for losses of the class, of each client by itself."""
        return {name: q for of in self.of for name, q in losses.conditions(of).items()}


def _key(v: Vector) -> frozenset[Any]:
    return frozenset(v.mean.items())


@dataclass(frozen=True)
class LossesOf:
    """Losses of some clients (..., P), each asked at a point of its own (..., P, d)."""

    trace: Trace
    members: np.ndarray

    def take(self, members: np.ndarray) -> LossesOf:
        """Those of other clients."""
        return LossesOf(self.trace, members)

    def asked(self, y: Any) -> np.ndarray:
        """The points (..., P)."""
        return self._each(y, self.trace.run.asked)

    def gradient(self, y: Any) -> Any:
        """The gradients (..., P, d)."""
        return self._arrays(self.asked(y), lambda p: p.gradient)

    def minimise(
        self, linear: Any, curvature: Any, center: Any, l1: Any = 0, anchor: Any = None
    ) -> Any:
        """argmin f_k(y) - <linear, y> + curvature/2 ||y - center||^2, by its optimality condition."""
        if np.any(l1):
            raise NotLinear(
                "solves local problems with an l1 term, which is known where everybody takes part"
            )
        if np.ndim(curvature) or not exact(curvature) > 0:
            raise NoCurvature(
                "solves local problems exactly whose curvature is no number above 0: take local gradient steps"
            )
        share = 1 / exact(curvature)
        found = self._each(
            center + share * linear, lambda k, around: self.trace.run.solved(k, around, share)
        )
        return self._arrays(found, lambda p: p.at)

    def _each(self, y: Any, make: Callable[[int, Vector], Point[Vector]]) -> np.ndarray:
        members = np.broadcast_to(self.members, y.shape[:-1])
        out = np.empty(members.shape, dtype=object)
        for at in np.ndindex(out.shape):
            out[at] = make(int(members[at]), self.trace.vector(y[at][None]))
        return out

    def _arrays(self, points: np.ndarray, of: Callable[[Point[Vector]], Vector]) -> np.ndarray:
        out = np.empty((*points.shape, self.trace.coordinates), dtype=object)
        for at, p in np.ndenumerate(points):
            out[at] = self.trace.of_server(of(p))[0]
        return out


class CohortClients(SlotClients):
    """One round's clients, every cohort a scenario."""

    def __init__(
        self, world: Any, cohort: Any, work: SlotWork, like: Any, round_index: int
    ) -> None:
        super().__init__(world, cohort, work, like, round_index)
        self.trace = world.trace

    def put(self, memory: Any, values: Any) -> Any:
        """As in fractions; where vectors are put, zeros of those who do not take part are vectors, too."""
        found = super().put(memory, values)
        return (
            found + self.trace.of_server(self.trace.run.zero)[0]
            if is_entry(values.flat[0])
            else found
        )

    @property
    def round_index(self) -> int:
        """t, which a state that may be anything does not know."""
        self.trace.read.add("t")
        return self._round

    @round_index.setter
    def round_index(self, number: int) -> None:
        self._round = number
