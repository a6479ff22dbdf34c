"""The coins of a round, which is run once for every way that they fall."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, TypeVar

from fedtheory.errors import InvalidInput
from fedtheory.worst_cases.entries import exact

__all__ = ["Coins", "every_way", "not_too_many_ways"]

MOST_WAYS = 256  # for the coins of a run to fall

Made = TypeVar("Made")


class Coins:
    """The coins of a round: the first fall as it is given, and the others show heads.

    Parameters
    ----------
    given : faces, True for heads
    """

    def __init__(self, given: tuple[bool, ...] = ()) -> None:
        self.given, self.chances = given, list[Fraction]()
        self.faces: tuple[bool, ...] = ()

    def flip(self, p: Any) -> bool:
        """The face of the next coin, which shows heads with probability p."""
        p, at = exact(p), len(self.faces)
        if not 0 <= p <= 1:
            raise InvalidInput(f"coin({p}): a probability lies in [0, 1]")
        self.chances.append(p)
        self.faces += (self.given[at] if at < len(self.given) else p > 0,)
        return self.faces[-1]

    @property
    def weight(self) -> Fraction:
        """The probability of these faces."""
        return math.prod((p if face else 1 - p for p, face in zip(self.chances, self.faces, strict=True)), start=Fraction(1))

    @property
    def others(self) -> list[tuple[bool, ...]]:
        """The ways to fall that differ from this one first in a coin that was not given."""
        new = range(len(self.given), len(self.faces))
        return [(*self.faces[:i], False) for i in new if 0 < self.chances[i] < 1]

    def __str__(self) -> str:
        return "".join("+" if face else "-" for face in self.faces)


def every_way(make: Callable[[Coins], Made]) -> list[tuple[Coins, Made]]:
    """Make a thing once for each way that its coins may fall: once in all if it flips none.

    Raises
    ------
    InvalidInput
        There are too many ways.
    """
    left: list[tuple[bool, ...]] = [()]
    found: list[tuple[Coins, Made]] = []
    while left:
        coins = Coins(left.pop(0))
        found.append((coins, make(coins)))
        left += coins.others
        not_too_many_ways(len(found) + len(left))
    return found


def not_too_many_ways(ways: int) -> None:
    """Refuse more ways for the coins of a run to fall than are looked at."""
    if ways > MOST_WAYS:
        raise InvalidInput(f"more than {MOST_WAYS:,} ways for the coins to fall: take fewer rounds")
