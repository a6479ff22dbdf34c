"""Counter-based random streams, drawn on the host and keyed by (seed, purpose, round, step, scenario block).

The same key gives the same numbers for every algorithm, array library and device, so comparisons are paired. Scenarios are
drawn in fixed blocks: the first ten scenarios of a run of a thousand are those of a run of ten, however a run is chunked.
"""

from __future__ import annotations

import threading
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast

import numpy as np

from fedtheory.inputs import whole_number

__all__ = ["BLOCK", "Ahead", "Stream"]

BLOCK = 64  # scenarios that share one generator call
MANY = 32  # keys from which hashing them together is faster
AHEAD = 512  # keys of later rounds that are made at once


def _keys(before: list[int], numbers: np.ndarray, after: Sequence[int] = ()) -> np.ndarray:
    """The Philox keys (n, 2) of ``SeedSequence([*before, numbers[i], *after])``: NumPy's hash, of n seeds at once.

    Source: numpy/random/bit_generator.pyx, after M. E. O'Neill's randutils (pool of four words of 32 bits); compared with NumPy
    itself by the tests.
    """
    head, tail = ([word for number in part for word in _words(number)] for part in (before, after))
    out = np.empty((len(numbers), 2), dtype=np.uint64)
    long = numbers >= 2**32
    for where, parts in ((~long, 1), (long, 2)):
        if where.any():
            words = [(numbers[where] >> np.uint64(32 * i)).astype(np.uint32) for i in range(parts)]
            out[where] = _hashed([*head, *words, *tail])
    return out


class Ahead:
    """Numbers made ahead, round after round: the further a run gets, the more at once.

    Parameters
    ----------
    make : callable(range of rounds) -> list, a thing for each
    most : rounds that are made at once
    """

    def __init__(self, make: Callable[[range], list[Any]], most: int) -> None:
        self.make, self.most = make, most
        self.known: tuple[int, list[Any]] = 0, []  # the first round, and what is made for it and each later one

    def __call__(self, round_index: int) -> Any:
        first, made = self.known
        if not 0 <= round_index - first < len(made):
            count = min(2 * len(made), self.most) if round_index == first + len(made) else 1
            first, made = self.known = round_index, self.make(range(round_index, round_index + max(1, count)))
        return made[round_index - first]


@lru_cache(maxsize=256)
def _ahead(seed: int, purpose: str, step: int, block: int) -> Ahead:
    """The Philox keys of every round of one purpose, step and block."""
    before, after = [int(seed), zlib.crc32(purpose.encode())], [int(step), int(block)]

    def made(rounds: range) -> list[Any]:
        if len(rounds) >= MANY:
            return list(_keys(before, np.arange(rounds.start, rounds.stop, dtype=np.uint64), after).tolist())
        seeds = (_seeds([*before, int(t), *after]) for t in rounds)
        return [seed.generate_state(2, np.uint64).tolist() for seed in seeds]

    return Ahead(made, AHEAD)


def _seeds(numbers: list[int]) -> np.random.SeedSequence:
    if max(numbers) >> 32 or min(numbers) < 0:
        numbers = [word for number in numbers for word in _words(number)]
    return np.random.SeedSequence(np.array(numbers, dtype=np.uint32))  # NumPy's seed of the numbers in a list, in half the time


class _Reused(threading.local):
    """A generator of a thread's own, set to one key after the other: all of one is drawn before the next."""

    def __init__(self) -> None:
        self.philox = np.random.Philox(0)
        self.generator, self.fresh = np.random.Generator(self.philox), cast(Any, self.philox.state)
        self.fresh["state"]["counter"], self.fresh["buffer"] = [0] * 4, [0] * 4  # lists are read faster

    def at(self, key: Sequence[int]) -> np.random.Generator:
        self.fresh["state"]["key"] = key
        self.philox.state = self.fresh
        return self.generator


_reused = _Reused()


def _words(number: int) -> list[int]:
    """A number in words of 32 bits, the lowest first."""
    if number < 0:
        raise ValueError(f"a key has the number {number}: its numbers must be >= 0")
    return [number >> shift & 0xFFFFFFFF for shift in range(0, max(1, number.bit_length()), 32)]


def _hashed(entropy: list[Any]) -> np.ndarray:
    """The first two words of 64 bits that a SeedSequence of at least five words gives; some word is an array (n,)."""
    factor = _Factor(0x43B0D7E5, 0x931E8875)
    pool = [factor.hashed(word) for word in entropy[:4]]
    for source in range(4):
        for place in range(4):
            if source != place:
                pool[place] = _mixed(pool[place], factor.hashed(pool[source]))
    for word in entropy[4:]:
        pool = [_mixed(old, factor.hashed(word)) for old in pool]
    factor = _Factor(0x8B51F9DD, 0x58F38DED)
    low, high, low_2, high_2 = (factor.hashed(word).astype(np.uint64) for word in pool)
    return np.stack([low | high << np.uint64(32), low_2 | high_2 << np.uint64(32)], axis=-1)


class _Factor:
    """The multiplier of the hash, another one at each use."""

    def __init__(self, start: int, step: int) -> None:
        self.value, self.step = start, step

    def hashed(self, word: Any) -> np.ndarray:
        word = np.atleast_1d(np.asarray(word, dtype=np.uint32)) ^ np.uint32(self.value)  # arrays wrap around without a warning
        self.value = self.value * self.step & 0xFFFFFFFF
        return _folded(word * np.uint32(self.value))


def _mixed(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    return _folded(np.uint32(0xCA01F9DD) * one - np.uint32(0x4973F715) * other)


def _folded(word: np.ndarray) -> np.ndarray:
    return word ^ np.right_shift(word, 16)


@dataclass(frozen=True)
class Stream:
    """A family of independent generators under one seed.

    Parameters
    ----------
    seed : int
        Any integer >= 0.
    """

    seed: int

    def __post_init__(self) -> None:
        whole_number("seed", self.seed, least=0)

    def generator(self, purpose: str, round_index: int = 0, step: int = 0, block: int = 0) -> np.random.Generator:
        """The generator of one key; two different keys never share numbers."""
        seeds = _seeds([int(self.seed), zlib.crc32(purpose.encode()), int(round_index), int(step), int(block)])
        return np.random.Generator(np.random.Philox(seeds))

    def generators(
        self, purpose: str, round_index: int, step: int, blocks: Sequence[int]
    ) -> Iterator[np.random.Generator]:
        """`generator` of many blocks, one after the other: all of one is drawn before the next is asked for.

        Of many keys at once, NumPy's hash is computed for all of them together, which costs a quarter of their generators.
        """
        if len(blocks) < MANY:
            yield from (self.generator(purpose, round_index, step, block) for block in blocks)
            return
        reused, head = _Reused(), [int(self.seed), zlib.crc32(purpose.encode()), int(round_index), int(step)]
        for key in _keys(head, np.asarray(blocks, dtype=np.uint64)):
            yield reused.at(key)

    def per_scenario(
        self,
        draw: Callable[[np.random.Generator, int], np.ndarray],
        purpose: str,
        scenarios: range,
        round_index: int = 0,
        step: int = 0,
    ) -> np.ndarray:
        """draw(generator, count) -> (count, ...), for every block that meets the scenario range, cut to the range.

        draw fills its numbers row by row, so that the first rows are the same however many follow: a block's last ones are not drawn
        where the range ends before them.
        """
        first, last = scenarios.start // BLOCK, (scenarios.stop - 1) // BLOCK
        parts = []
        for block in range(first, last + 1):
            generator = _reused.at(_ahead(self.seed, purpose, step, block)(round_index))
            parts.append(draw(generator, min(BLOCK, scenarios.stop - block * BLOCK)))
        drawn = parts[0] if len(parts) == 1 else np.concatenate(parts)
        return drawn[scenarios.start - first * BLOCK :]
