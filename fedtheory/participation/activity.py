"""Laws of participation that change with time: activity that decays or grows, clients that are away for a while or come by turns.

The probability that client k is active in round t is that of a base law times a factor in [0, 1] for each of the client's shapes; what
it does when it is active, its local steps, stays the base law's. Rounds are counted from 1. Fractions stay exact: with a base law and
shapes of Fractions every moment of a round is one (`fedtheory.participation.moments`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol

import numpy as np

from fedtheory.errors import InvalidInput, MissingCapability
from fedtheory.inputs import real_number, shown, whole_number
from fedtheory.participation.irregular import Irregular
from fedtheory.participation.laws import JointLaw, Law, clients_of

__all__ = ["Away", "Cycle", "Decay", "Every", "Fade", "Grow", "Only", "Shape", "varying"]


class Shape(Protocol):
    """A factor on the probability of being active, for every round."""

    def __call__(self, round_index: int) -> Any:
        """The factor in [0, 1] in that round: a whole number, a float or a Fraction."""


def _share(name: str, value: Any) -> None:
    """Raise `InvalidInput` for what does not lie strictly between 0 and 1."""
    if not isinstance(value, Fraction):
        real_number(name, value)
    if not 0 < value < 1:
        raise InvalidInput(f"{name} = {value}: it must lie strictly between 0 and 1")


@dataclass(frozen=True)
class Decay:
    """rate^(t - 1): the client is active less and less, by the same factor each round. 0 < rate < 1."""

    rate: Any

    def __post_init__(self) -> None:
        _share("the rate of a decay", self.rate)

    def __call__(self, round_index: int) -> Any:
        return self.rate ** (round_index - 1)


@dataclass(frozen=True)
class Grow:
    """1 - rate^t: the client is active more and more, the rest is multiplied by the same factor each round. 0 < rate < 1."""

    rate: Any

    def __post_init__(self) -> None:
        _share("the rate of a growth", self.rate)

    def __call__(self, round_index: int) -> Any:
        return 1 - self.rate**round_index


@dataclass(frozen=True)
class Fade:
    """delay/(delay + t - 1): activity that falls like 1/t, halved after so many rounds. delay > 0."""

    delay: Any

    def __post_init__(self) -> None:
        if not isinstance(self.delay, Fraction):
            real_number("the delay of a fading activity", self.delay)
        if not self.delay > 0:
            raise InvalidInput(f"the delay of a fading activity = {self.delay}: it must be > 0, rounds until the activity is halved")

    def __call__(self, round_index: int) -> Any:
        delay = Fraction(self.delay) if isinstance(self.delay, int) else self.delay
        return delay / (delay + round_index - 1)


@dataclass(frozen=True)
class _Rounds:
    first: int
    last: int

    def __post_init__(self) -> None:
        whole_number("the first round", self.first)
        whole_number("the last round", self.last)
        if self.last < self.first:
            raise InvalidInput(f"rounds {self.first} to {self.last}: the last one must not come before the first one")

    def _within(self, round_index: int) -> bool:
        return self.first <= round_index <= self.last


class Away(_Rounds):
    """0 in rounds first..last, both included: inactive for a while, and counted in the objective all the same."""

    def __call__(self, round_index: int) -> int:
        return int(not self._within(round_index))


class Only(_Rounds):
    """0 outside rounds first..last: active for a while only, and counted in the objective all the same."""

    def __call__(self, round_index: int) -> int:
        return int(self._within(round_index))


@dataclass(frozen=True)
class Every:
    """1 in rounds first, first + period, ..., else 0."""

    period: int
    first: int = 1

    def __post_init__(self) -> None:
        whole_number("the period", self.period)
        whole_number("the first round", self.first)

    def __call__(self, round_index: int) -> int:
        return int(round_index >= self.first and (round_index - self.first) % self.period == 0)


@dataclass(frozen=True)
class Cycle:
    """1 in the first ``there`` rounds of every ``period``, else 0: a device that is plugged in at night."""

    there: int
    period: int

    def __post_init__(self) -> None:
        whole_number("the rounds of a cycle in which the client is there", self.there)
        whole_number("the period", self.period)
        if self.there > self.period:
            raise InvalidInput(f"a cycle of {self.period} rounds, {self.there} of them active: there are at most {self.period}")

    def __call__(self, round_index: int) -> int:
        return int((round_index - 1) % self.period < self.there)


@dataclass(frozen=True)
class _Varying:
    """Rows of probabilities of a round; a class, so that it can be sent to processes."""

    base: Irregular
    shapes: tuple[tuple[int, Shape], ...]

    def __call__(self, round_index: int) -> Law:
        rows = self.base._raw(round_index)
        if isinstance(rows, JointLaw):
            raise MissingCapability("clients that depend on each other: shapes of activity go with independent ones, use rows")
        factor = np.ones(len(rows), dtype=object)
        for client, shape in self.shapes:
            value = shape(round_index)
            if not 0 <= value <= 1:
                raise InvalidInput(f"{shape} gives client {client} the factor {value} in round {round_index}: it must lie in [0, 1]")
            factor[client] = factor[client] * value
        out = rows * factor[:, None]
        out[:, 0] = 1 - (rows[:, 1:] * factor[:, None]).sum(axis=1)
        return np.asarray(out)


def varying(base: Irregular, activity: Mapping[int, Shape | Sequence[Shape]]) -> Irregular:
    """The same law, with clients whose activity changes with the rounds.

    Parameters
    ----------
    base : independent clients; windows of arrival and departure are kept
    activity : {client: a shape, or several, whose factors are multiplied}
        `Decay`, `Grow`, `Fade`, `Away`, `Only`, `Every`, `Cycle`, or any function of the round that gives a number in [0, 1].

    Raises
    ------
    InvalidInput
        A law of another kind than `Irregular`, a client that the law has not, what is no shape. In a round, a factor outside [0, 1].
    """
    if not isinstance(base, Irregular):
        raise InvalidInput(f"shapes of activity go with a law of the local steps, not with {shown(base)}: give an Irregular")
    if not isinstance(activity, Mapping):
        raise InvalidInput(f"activity is {shown(activity)}: give a mapping {{client: shape}}, as in {{0: Decay(0.9)}}")
    clients, pairs = clients_of(base._raw(1)), []
    for k, given in activity.items():
        if isinstance(k, bool) or not isinstance(k, int | np.integer) or not 0 <= k < clients:
            raise InvalidInput(f"a shape for client {k!r}: clients are numbered 0..{clients - 1}")
        for shape in [given] if callable(given) else given if isinstance(given, Sequence) else [given]:
            if not callable(shape):
                remedy = "give a shape, as Decay(0.9), or a function of the round"
                raise InvalidInput(f"client {k} has the activity {shown(shape)}: {remedy}")
            pairs.append((int(k), shape))
    return Irregular(base.max_steps, _Varying(base, tuple(pairs)), base.present)
