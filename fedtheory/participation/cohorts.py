"""Cohorts of clients, the laws they are drawn from, and the exact enumeration of those laws."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, cast

import numpy as np

from fedtheory.arrays import all_true, owned, sealed, take_slots, to_numpy
from fedtheory.errors import InvalidInput, MissingCapability
from fedtheory.inputs import real_array, real_number, shown, whole_number
from fedtheory.limits import must_end, must_fit
from fedtheory.randomness import Ahead, Stream

__all__ = ["Bernoulli", "Cohort", "FedDynBernoulli", "Full", "Sampling", "Uniform"]


NOT_DRAWN = dict.fromkeys(("mask", "probability", "steps", "max_steps", "present"))
ARRAYS = ("members", "mask", "probability", "steps", "active_probability", "present")


@dataclass(frozen=True)
class Cohort:
    """The clients of one round, for S scenarios at once; its arrays are read-only.

    Gathered layout: ``members`` (S, P), increasing client numbers, P slots. Dense layout: ``mask`` (S, N), one slot a
    client, those outside the cohort computed and ignored. Exactly one of the two is given.

    Attributes
    ----------
    probability : (S,) or None
        Weights of the scenarios when they enumerate a law; None when they are equally likely draws.
    steps : (S, N) of ints or None
        Local steps each client completes this round, 0 where it is inactive (dense layout only; EFL's s_tau^k). With it a
        round in which nobody takes part is allowed; without it every participant does all its local work.
    max_steps : int or None
        E, of which ``steps`` are a part.
    active_probability : (N,) or None
        P(s^k > 0) this round, under the law the cohort was drawn from.
    present : (N,) of bools or None
        Clients that belong to the federation this round (None: all); the others have left, or have not come yet.

    Raises
    ------
    InvalidInput
        Members that are no increasing client numbers from 0 to N - 1, a mask of another shape than (S, N) or not of bools, a cohort
        without anybody, steps that do not fit the mask or E.
    """

    num_clients: int
    members: np.ndarray | None = None
    mask: np.ndarray | None = None
    probability: np.ndarray | None = None
    steps: np.ndarray | None = None
    max_steps: int | None = None
    active_probability: np.ndarray | None = None
    present: np.ndarray | None = None

    def __post_init__(self) -> None:
        if (self.members is None) == (self.mask is None):
            raise InvalidInput("a cohort has either members (S, P) or a mask (S, N), not both and not neither")
        self._check_members() if self.mask is None else self._check_mask()
        if self.steps is not None:
            self._check_steps(self.steps)
        elif self.mask is not None and not (self.everyone or self.mask.any(axis=1).all()):
            raise InvalidInput("a cohort without any client: raise the participation probability")
        for name in ARRAYS:
            array = self.__dict__[name]
            if array is not None and (array.base is not None or array.flags.writeable):
                self.__dict__[name] = owned(array)

    @classmethod
    def drawn(cls, num_clients: int, members: np.ndarray, active_probability: np.ndarray) -> Cohort:
        """Make a cohort of read-only arrays that a law has drawn, without checking them again."""
        made = cls.__new__(cls)
        made.__dict__.update(NOT_DRAWN, num_clients=num_clients, members=members)
        made.__dict__["active_probability"] = active_probability
        return made

    def taking_part(self) -> np.ndarray:
        """Return who takes part, bool (S, N)."""
        return self.dense_mask if self.members is None else self._taking_part

    def _check_members(self) -> None:
        members, last = np.asarray(self.members), self.num_clients - 1
        object.__setattr__(self, "members", members)
        if members.ndim != 2 or members.dtype.kind not in "iu" or not members.shape[1]:
            raise InvalidInput(f"members are {shown(members.tolist())}: give client numbers (S, P), P >= 1 of them in each scenario")
        if members.size and not 0 <= members.item(members.argmin()) <= members.item(members.argmax()) <= last:
            wrong = int(members.min() if members.min() < 0 else members.max())
            raise InvalidInput(f"members name client {wrong} of {self.num_clients}: clients are numbered 0..{last}")
        if not all_true(members[:, 1:] > members[:, :-1]):
            row = int(np.nonzero((members[:, 1:] <= members[:, :-1]).any(axis=1))[0][0])
            raise InvalidInput(f"members of scenario {row} are {shown(members[row].tolist())}: each client once, in increasing order")

    def _check_mask(self) -> None:
        mask = np.asarray(self.mask)
        object.__setattr__(self, "mask", mask)
        if mask.dtype != bool or mask.ndim != 2 or mask.shape[1] != self.num_clients:
            raise InvalidInput(f"a mask of shape {mask.shape} and dtype {mask.dtype}: give bools (S, N), here N = {self.num_clients}")

    def _check_steps(self, steps: np.ndarray) -> None:
        if self.mask is None or self.mask.shape != steps.shape:
            raise InvalidInput(f"steps of shape {steps.shape}: they go with a mask (S, N) of the same shape")
        if self.max_steps is None or steps.min() < 0 or steps.max() > self.max_steps:
            raise InvalidInput(
                f"local steps from {steps.min()} to {steps.max()} with E = {self.max_steps}: each must lie in 0..E"
            )
        if np.any(self.mask != (steps > 0)):
            raise InvalidInput("the mask of a cohort with steps is where they are > 0: leave out clients that do none")

    @property
    def dense_mask(self) -> np.ndarray:
        """(S, N) of bools, of a cohort in the dense layout: one that has no members has it."""
        return cast(np.ndarray, self.mask)

    @property
    def scenarios(self) -> int:
        return len(self.dense_mask if self.members is None else self.members)

    @property
    def slots(self) -> int:
        """P in the gathered layout, N in the dense one."""
        return self.members.shape[1] if self.members is not None else self.num_clients

    @cached_property
    def everyone(self) -> bool:
        """True if all clients take part in every scenario of a cohort in the dense layout."""
        return self.mask is not None and all_true(self.mask)

    @property
    def partial_mask(self) -> np.ndarray | None:
        """The mask (S, N) where some slot is of a client that does not take part; None: all slots count."""
        return None if self.members is not None or self.everyone else self.mask

    def size(self) -> np.ndarray:
        """(S,) clients that take part."""
        return self._size

    @cached_property
    def divisor(self) -> np.ndarray:
        """(S,) by how many a sum over the cohort is divided: clients that take part, 1 where there are none."""
        return sealed(np.maximum(self.size(), 1).astype(float))

    @cached_property
    def _size(self) -> np.ndarray:
        size = self.dense_mask.sum(axis=1) if self.members is None else np.full(self.scenarios, self.members.shape[1])
        return sealed(size)

    def of_slots(self, per_client: np.ndarray) -> np.ndarray:
        """The slots' entries of an array of all clients: (S, N) -> (S, P)."""
        return per_client if self.members is None else take_slots(per_client, self.members)

    def of_each(self, per_client: np.ndarray) -> np.ndarray:
        """One number of each client (N,), as that of each slot: (S, P)."""
        if self.members is None:
            return np.repeat(per_client[None], self.scenarios, axis=0)
        return per_client[self.members]

    def dense(self) -> Cohort:
        """The same cohort in the dense layout."""
        return self if self.members is None else self._dense

    @cached_property
    def _dense(self) -> Cohort:
        return Cohort(
            self.num_clients, mask=self._taking_part, probability=self.probability, active_probability=self.active_probability
        )

    @cached_property
    def _taking_part(self) -> np.ndarray:
        mask = np.zeros((self.scenarios, self.num_clients), dtype=bool)
        first = 0 if self.scenarios == 1 else np.arange(0, mask.size, self.num_clients)[:, None]
        mask.put(cast(Any, self.members) + first, True)
        return sealed(mask)

    def gathered(self) -> Cohort:
        """The same cohort in the gathered layout; all scenarios must have cohorts of one size."""
        if self.members is not None:
            return self
        if self.steps is not None:
            raise MissingCapability("a cohort that says how many local steps clients complete has the dense layout only")
        size = self.size()
        if (size != size[0]).any():
            raise MissingCapability("cohorts of different sizes have no gathered layout: use the dense one")
        members = np.nonzero(self.dense_mask)[1].reshape(self.scenarios, int(size[0]))
        return Cohort(
            self.num_clients, members=members, probability=self.probability, active_probability=self.active_probability
        )


class Sampling:
    """A law of cohorts. Subclasses give ``sample`` and, where the law is finite and small, ``enumerate``."""

    def check(self, num_clients: int) -> None:
        """Raise `InvalidInput` when the law does not fit a problem with that many clients."""

    def check_run(self, num_clients: int, rounds: int) -> None:
        """Also: when it does not fit a run of that many rounds."""
        self.check(num_clients)

    def sample(self, stream: Stream, round_index: int, scenarios: range, num_clients: int) -> Cohort:
        """Draw one cohort a scenario."""
        raise NotImplementedError

    def enumerate(self, num_clients: int) -> Cohort:
        """All cohorts of the law with their probabilities."""
        raise MissingCapability(f"{type(self).__name__} sampling cannot be enumerated: use Monte Carlo")

    def count(self, num_clients: int) -> int:
        """Number of cohorts ``enumerate`` would give."""
        raise MissingCapability(f"{type(self).__name__} sampling cannot be enumerated: use Monte Carlo")


@dataclass(frozen=True)
class Full(Sampling):
    """Every client, every round."""

    def sample(self, stream: Stream, round_index: int, scenarios: range, num_clients: int) -> Cohort:
        few = len(scenarios) * num_clients <= FEW
        return (_everyone if few else _everyone.__wrapped__)(len(scenarios), num_clients)

    def enumerate(self, num_clients: int) -> Cohort:
        _check_enumerable(1, whole_number("num_clients", num_clients))
        mask = np.ones((1, num_clients), dtype=bool)
        return Cohort(num_clients, mask=mask, probability=np.ones(1), active_probability=np.ones(num_clients))

    def count(self, num_clients: int) -> int:
        return 1


FEW = 2**16  # slots of a cohort that is kept


@lru_cache(maxsize=16)
def _everyone(scenarios: int, num_clients: int) -> Cohort:
    """All clients in every scenario; one object for all rounds, with what was worked out of it."""
    mask = sealed(np.ones((scenarios, num_clients), dtype=bool))
    return Cohort(num_clients, mask=mask, active_probability=_equal(num_clients, 1.0))


MANY = 10**300  # what is more is not counted: the number itself would take memory and time


def _check_enumerable(count: int, size: int) -> None:
    """Raise `InvalidInput` before more cohorts of that size are listed than fit into memory, or than a day is enough for."""
    what = f"a list of all {count:,} cohorts" if count < 10**15 else f"a list of all {float(min(count, MANY)):.3g} cohorts"
    must_fit(what, min(count, MANY) * (2.0 * size + 10), "draw them, by Monte Carlo, or take fewer clients")
    must_end(what, min(count, MANY) * 1e-7, "draw them, by Monte Carlo, or take fewer clients")


SMALL, TOGETHER = 2**10, 64  # numbers that a round draws, and the rounds that are drawn at once where it draws no more
ENOUGH = 32  # rows from which looking for all of them at once is faster


def _least(values: np.ndarray, count: int) -> np.ndarray:
    """Return where the `count` smallest of each row (S, N) lie, in increasing order: (S, count)."""
    if len(values) >= ENOUGH:
        chosen = values <= np.partition(values, count - 1, axis=1)[:, count - 1, None]
        where = np.flatnonzero(chosen)
        if where.size == len(values) * count:  # else there are equal ones
            return where.reshape(-1, count) - np.arange(0, values.size, values.shape[1])[:, None]
    found = values.argpartition(count - 1, axis=1)[:, :count]
    found.sort(axis=1)
    return found


@dataclass(frozen=True)
class Uniform(Sampling):
    """P clients drawn uniformly without replacement, independently each round (the law of FedElasticNet's Theorem 3.1)."""

    size: int  # P

    def __post_init__(self) -> None:
        """Raise `InvalidInput` unless P is an integer >= 1; that it is at most m, `check` sees to."""
        whole_number("cohort size P", self.size, remedy="Bernoulli(p) takes probabilities")

    def check(self, num_clients: int) -> None:
        if not 1 <= self.size <= whole_number("num_clients", num_clients):
            raise InvalidInput(
                f"cohort size P = {self.size} with m = {num_clients} clients: P must be between 1 and m"
            )

    def sample(self, stream: Stream, round_index: int, scenarios: range, num_clients: int) -> Cohort:
        self.check(num_clients)
        if len(scenarios) * num_clients > SMALL or type(stream) is not Stream:
            return self._drawn(stream, range(round_index, round_index + 1), scenarios, num_clients)[0]
        return _cohorts(self.size, stream.seed, scenarios.start, scenarios.stop, num_clients)(round_index)

    def _drawn(self, stream: Stream, rounds: range, scenarios: range, num_clients: int) -> list[Cohort]:
        """The cohorts of some rounds."""

        def draw(generator: np.random.Generator, count: int) -> np.ndarray:
            return generator.random((count, num_clients))

        drawn = [stream.per_scenario(draw, "cohort", scenarios, t) for t in rounds]
        members = sealed(_least(drawn[0] if len(drawn) == 1 else np.concatenate(drawn), self.size))
        active, size = self._active(num_clients), len(scenarios)
        return [Cohort.drawn(num_clients, members[i * size : (i + 1) * size], active) for i in range(len(rounds))]

    def enumerate(self, num_clients: int) -> Cohort:
        self.check(num_clients)
        few = min(self.size, num_clients - self.size)
        many = few * math.log2(num_clients / max(few, 1)) > 1000  # there are at least (N / few)^few
        _check_enumerable(MANY if many else self.count(num_clients), self.size)
        members = sealed(np.array(list(itertools.combinations(range(num_clients), self.size))))
        count = members.shape[0]
        return Cohort(
            num_clients, members=members, probability=np.full(count, 1.0 / count), active_probability=self._active(num_clients)
        )

    def _active(self, num_clients: int) -> np.ndarray:
        return _equal(num_clients, self.size / num_clients)

    def count(self, num_clients: int) -> int:
        self.check(num_clients)
        return math.comb(num_clients, self.size)


@lru_cache(maxsize=16)
def _cohorts(size: int, seed: int, first: int, end: int, num_clients: int) -> Ahead:
    """`Uniform`'s cohorts of every round, which cost less where those of many are looked for together."""
    law, stream, scenarios = Uniform(size), Stream(seed), range(first, end)
    return Ahead(lambda rounds: law._drawn(stream, rounds, scenarios, num_clients), TOGETHER)


@lru_cache(maxsize=64)
def _equal(count: int, value: float) -> np.ndarray:
    return cast(np.ndarray, sealed(np.full(count, value)))


RARE = 0.99  # P(nobody takes part) above which cohorts are not drawn until one is not empty


def rarely_somebody(p: np.ndarray) -> bool:
    """True if P(nobody takes part) > `RARE`, of independent clients with probabilities p (N,)."""
    return float(np.prod(1 - p)) > RARE


def somebody(p: np.ndarray) -> float:
    """P(somebody takes part), of independent clients with the probabilities p (N,)."""
    return float(-np.expm1(np.log1p(-p).sum())) if rarely_somebody(p) else float(1 - np.prod(1 - p))


def _not_empty(u: np.ndarray, p: np.ndarray) -> np.ndarray:
    """Cohorts (S, N) that are not empty, from uniforms (S, N + 1): the first client, and whether each later one takes part.

    Which client is the first one splits the cohorts that are not empty into disjoint events: P(the first is at most j) is
    1 - prod_{i <= j} (1 - p_i), over the same with all clients. Those before it do not take part, and those after it are
    independent of it.
    """
    nobody = np.expm1(np.cumsum(np.log1p(-p)))
    first = np.searchsorted(nobody / nobody[-1], u[:, 0], side="right")
    number = np.arange(len(p))
    return (number == first[:, None]) | ((number > first[:, None]) & (u[:, 1:] < p))


@dataclass(frozen=True)
class Bernoulli(Sampling):
    """Each client takes part independently with its own probability, given that at least one does.

    Empty cohorts are drawn again. Where that would be most of them, P(nobody) > 0.99, the first client is drawn instead.

    Parameters
    ----------
    probability : float or tuple of N floats, each in (0, 1].

    Raises
    ------
    InvalidInput
        Values out of range.
    """

    probability: float | tuple[float, ...]

    def __post_init__(self) -> None:
        if np.ndim(self.probability) == 0:
            real_number("participation probability", self.probability, above=0, most=1, remedy="P clients a round are Uniform(P)")
        p = real_array("participation probability", self.probability)
        if p.ndim > 1 or not p.size or not ((p > 0) & (p <= 1)).all():
            raise InvalidInput(
                f"participation probability {self.probability!r}: it must lie in (0, 1], one number or one a client; "
                "P clients a round are Uniform(P)"
            )
        if p.ndim and not isinstance(self.probability, tuple):  # the caller's array or list may change
            given = self.probability if isinstance(self.probability, list) else to_numpy(self.probability).tolist()
            object.__setattr__(self, "probability", tuple(given))

    @cached_property
    def _numbers(self) -> np.ndarray:
        return sealed(np.array(self.probability, dtype=float))

    def _p(self, num_clients: int) -> np.ndarray:
        return np.broadcast_to(self._numbers, (num_clients,))

    def check(self, num_clients: int) -> None:
        p = np.asarray(self.probability)
        if p.ndim == 1 and len(p) != num_clients:
            raise InvalidInput(f"{len(p)} probabilities for {num_clients} clients: give one a client")
        self._p(num_clients)

    def sample(self, stream: Stream, round_index: int, scenarios: range, num_clients: int) -> Cohort:
        p = self._p(num_clients)
        mask = np.zeros((len(scenarios), num_clients), dtype=bool)
        if rarely_somebody(p):
            u = stream.per_scenario(lambda g, s: g.random((s, num_clients + 1)), "rare cohort", scenarios, round_index)
            return Cohort(num_clients, mask=sealed(_not_empty(u, p)), active_probability=p / somebody(p))
        for step in itertools.count():  # redraw the scenarios that came out empty
            empty = ~mask.any(axis=1)
            if not empty.any():
                return Cohort(num_clients, mask=sealed(mask), active_probability=p / somebody(p))
            u = stream.per_scenario(lambda g, s: g.random((s, num_clients)), "cohort", scenarios, round_index, step)
            mask[empty] = (u < p)[empty]
        raise AssertionError("unreachable")

    def enumerate(self, num_clients: int) -> Cohort:
        many = whole_number("num_clients", num_clients) > 1000
        _check_enumerable(MANY if many else self.count(num_clients), num_clients)
        p = self._p(num_clients)
        mask = np.array(list(itertools.product([False, True], repeat=num_clients)))[1:]
        probability = np.where(mask, p, 1 - p).prod(axis=1)
        keep = probability > 0
        total = probability[keep].sum()
        return Cohort(num_clients, mask=mask[keep], probability=probability[keep] / total, active_probability=p / total)

    def count(self, num_clients: int) -> int:
        return 2**num_clients - 1


MOST_SEEDS = 100_000  # that FedDyn's code would go through for one cohort: about a second


@dataclass(frozen=True)
class FedDynBernoulli(Sampling):
    """The very cohorts of FedDyn's public code (github.com/alpemreacar/FedDyn, utils_methods.py), a fixed sequence and no law.

    In round t = 1, 2, ... the clients whose number of NumPy's ``RandomState(t - 1 + seed).uniform(size=N)`` is at most `probability`;
    where there are none, those of the next seed. The run's own seed has no say, and all scenarios have the same cohorts: use
    `Bernoulli` for anything that is averaged over cohorts.

    Parameters
    ----------
    probability : float in (0, 1]
    seed : int >= 0
        ``rand_seed`` there; its default, 0, is what FedElasticNet's Table 2 was made with.

    Raises
    ------
    InvalidInput
        Values out of range.
    """

    probability: float
    seed: int = 0

    def __post_init__(self) -> None:
        what = "one for all clients"
        real_number("participation probability", self.probability, above=0, most=1, remedy=what)
        whole_number("seed", self.seed, least=0, most=2**31 - 1)

    def check(self, num_clients: int) -> None:
        """Raise `InvalidInput` where more than `MOST_SEEDS` seeds would be tried for a cohort, on average."""
        if (seeds := self._seeds(num_clients)) > MOST_SEEDS:
            raise InvalidInput(
                f"participation probability {self.probability:g} of {num_clients} clients: FedDyn's code tries about {seeds:.2g} "
                f"seeds until a cohort is not empty, the limit is {MOST_SEEDS:,}: raise it, or take Bernoulli({self.probability:g})"
            )

    def check_run(self, num_clients: int, rounds: int) -> None:
        self.check(num_clients)
        seconds = rounds * self._seeds(num_clients) * 2e-6
        must_end(f"{rounds:,} cohorts of {self!r}", seconds, "raise the probability, or take Bernoulli")

    def _seeds(self, num_clients: int) -> float:
        """Return how many seeds are tried for one cohort, on average."""
        if self.probability == 1:
            return 1.0
        return -1 / math.expm1(max(whole_number("num_clients", num_clients) * math.log1p(-self.probability), -700.0))

    def sample(self, stream: Stream, round_index: int, scenarios: range, num_clients: int) -> Cohort:
        self.check(num_clients)
        for seed in itertools.count(round_index - 1 + self.seed):
            taken = np.random.RandomState(seed).uniform(size=num_clients) <= self.probability
            if taken.any():
                break
        return Cohort(num_clients, mask=np.repeat(taken[None], len(scenarios), axis=0))

    def enumerate(self, num_clients: int) -> Cohort:
        raise MissingCapability("FedDyn's cohorts are a fixed sequence, no law to enumerate: use Bernoulli")

    count = enumerate  # type: ignore[assignment]  # it refuses in the same words
