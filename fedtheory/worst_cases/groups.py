"""Groups of clients: the losses of each are of a class of its own, and clients have weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import lcm
from typing import Any

import numpy as np

from fedtheory.errors import InvalidInput
from fedtheory.inputs import shown, whole_number
from fedtheory.worst_cases.classes import Losses, Point
from fedtheory.worst_cases.numbers import exact

__all__ = ["Group", "Groups", "others", "sized"]

MOST_CLIENTS = 10_000  # that a run on vectors has rows for
TIMES = (2, 3, 4)  # the clients of groups, with which a run is compared
MOST_APART = 2  # groups whose numbers of clients are changed by themselves
OTHERS = (2, 3, 7, 101)  # numbers of clients at which a round is looked at
MOST_COMPARED = 10_000  # clients of all these


@dataclass(frozen=True)
class Group:
    """Clients of equal weight whose losses are of one class.

    Parameters
    ----------
    share : of the weights of all clients, which add up to 1
    losses : the class
    clients : how many; None where all clients of all groups have one weight, so that it is their share of any number

    Raises
    ------
    InvalidInput
        share <= 0 or above 1, no `Losses`, clients < 1.
    """

    share: Any
    losses: Losses
    clients: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "share", exact("share", self.share))
        if not 0 < self.share <= 1:
            raise InvalidInput(f"share = {self.share} of a group: it lies above 0, and at most at 1; the shares add up to 1")
        if not isinstance(self.losses, Losses) or isinstance(self.losses, Groups):
            raise InvalidInput(f"losses = {shown(self.losses)} of a group: give worst_cases.Losses")
        if self.clients is not None:
            whole_number("clients", self.clients)


@dataclass(frozen=True)
class Groups(Losses):
    """Losses of which every group of clients has a class of its own.

    Attributes
    ----------
    groups : each with its number of clients
    smoothness, lipschitz : the largest; None where it is None of a group
    strong_convexity : the least
    """

    groups: tuple[Group, ...] = ()

    def __post_init__(self) -> None:
        every = [g.losses for g in self.groups]
        for name in ("smoothness", "lipschitz"):
            numbers = [getattr(of, name) for of in every]
            object.__setattr__(self, name, None if None in numbers else max(numbers))
        object.__setattr__(self, "strong_convexity", min(of.strong_convexity for of in every))

    def of(self, point: Point[Any]) -> Losses:
        return self.groups[point.group].losses

    @staticmethod
    def sized(groups: Sequence[Any], clients: int | None = None) -> Groups:
        """The groups of so many clients in all; None for as few as there can be, at least two in each.

        Raises
        ------
        InvalidInput
            No `Group`, shares that do not add up to 1, numbers of clients that are no whole ones, or others than said.
        """
        of = tuple(groups) if isinstance(groups, Sequence) else ()
        if not of or not all(isinstance(g, Group) for g in of):
            raise InvalidInput(f"losses = {shown(groups)}: give worst_cases.Losses, or worst_cases.Group for each group of clients")
        if (total := sum(g.share for g in of)) != 1:
            raise InvalidInput(f"the shares of the groups add up to {total}: they must add up to 1")
        counted = [g.clients for g in of if g.clients is not None]
        if 0 < len(counted) < len(of):
            raise InvalidInput("some groups say how many clients they have: say it of all, or of none, where all weigh the same")
        if counted and clients not in (None, sum(counted)):
            raise InvalidInput(f"clients = {clients}: the groups have {sum(counted)}; leave it out")
        least = lcm(*(g.share.denominator for g in of))
        few = any(g.share * least == 1 for g in of)
        N = sum(counted) or clients or least * (1 + few)
        if N > MOST_CLIENTS:
            told = f"at most {MOST_CLIENTS:,} can be told apart; take shares of smaller denominators, or fewer clients"
            raise InvalidInput(f"groups of {N:,} clients in all: {told}")
        if counted:
            return Groups(groups=of)
        if N % least:
            told = ", ".join(str(g.share) for g in of)
            raise InvalidInput(f"clients = {N}: the shares {told} are whole numbers of clients of a multiple of {least}; take one")
        return Groups(groups=tuple(replace(g, clients=int(g.share * N)) for g in of))

    @property
    def asked(self) -> dict[str, Any]:
        """The groups' shares, numbers of clients and classes of losses, by name."""
        numbered = enumerate(self.groups, 1)
        return {"groups": {str(i): {"share": g.share, "clients": g.clients, **g.losses.asked} for i, g in numbered}}

    @property
    def alike(self) -> bool:
        """True if all clients weigh the same."""
        return len({g.share / (g.clients or 1) for g in self.groups}) == 1

    @property
    def grow_alike(self) -> bool:
        """True if all clients weigh the same, and still do where each group has twice as many: none has one client."""
        return self.alike and all(g.clients != 1 for g in self.groups)

    def others(self) -> list[Groups]:
        """The same with up to four times the clients in groups of several: in all of them at once where clients go on
        weighing the same, and else in one or two by themselves; none of more groups."""
        several = sum(g.clients != 1 for g in self.groups)
        if several > MOST_APART and not self.grow_alike:
            return []
        found = []
        for way in [(n,) * several for n in TIMES] if self.grow_alike else product((1, *TIMES), repeat=several):
            times = iter(way)
            made = (g if g.clients == 1 else replace(g, clients=next(times) * (g.clients or 1)) for g in self.groups)
            found.append(Groups(groups=tuple(made)))
        return [of for of in found if of != self]

    @property
    def of_clients(self) -> list[Losses]:
        """The class of each client."""
        return [g.losses for g in self.groups for _ in range(g.clients or 0)]

    @property
    def weights(self) -> np.ndarray:
        """Of the clients in F (N,)."""
        return np.array([float(g.share / (g.clients or 1)) for g in self.groups for _ in range(g.clients or 0)])

    @property
    def clients(self) -> int:
        """The number of all clients."""
        return sum(g.clients or 0 for g in self.groups)


def sized(losses: Any, clients: int | None) -> tuple[Losses, int]:
    """The class of losses, or the groups, and the number of clients: 2, or of groups the least with two in each.

    Raises
    ------
    InvalidInput
        As `Groups.sized`, and a number that is none.
    """
    N = None if clients is None else whole_number("clients", clients)
    if isinstance(losses, Losses) and not isinstance(losses, Groups):
        return losses, 2 if N is None else N
    grouped = Groups.sized(losses.groups if isinstance(losses, Groups) else losses, N)
    return grouped if len(grouped.groups) > 1 else grouped.groups[0].losses, grouped.clients


def others(q: Any) -> list[Any]:
    """The question with other numbers of clients, with which its rounds are compared; [] where it is about one number, or
    there are too many clients."""
    if q.participants < q.clients or q.clients == 1:
        return []
    if isinstance(q.losses, Groups):
        found = [replace(q, losses=of, clients=of.clients, participants=of.clients) for of in q.losses.others()]
    else:
        found = [replace(q, clients=n, participants=n) for n in OTHERS]
    return found if sum(other.clients for other in found) <= MOST_COMPARED else []
