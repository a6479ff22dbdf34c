"""Generators by key: each way to ask for them gives the numbers that NumPy's own SeedSequence gives."""

import zlib
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from cases import each

from fedtheory.randomness import AHEAD, BLOCK, MANY, Stream

SEEDS = (0, 1, 2**32 - 1, 2**32, 2**70 + 3)
BLOCKS = [0, 1, 2**32 - 1, 2**32, 7 << 32 | 2, 2**31 << 32, *range(5, 5 + MANY)]


def by_numpy(seed: int, block: int) -> np.ndarray:
    entropy = [seed, zlib.crc32(b"of a test"), 3, 4, block]
    return np.random.Generator(np.random.Philox(np.random.SeedSequence(entropy))).random(5)


@pytest.mark.parametrize("seed", SEEDS)
def test_one_key_is_numpys(seed):
    for block in BLOCKS:
        assert np.array_equal(Stream(seed).generator("of a test", 3, 4, block).random(5), by_numpy(seed, block))


@each("seed", SEEDS)
@each("count", [3, MANY, len(BLOCKS)])
def test_many_keys_are_numpys_one_by_one(seed, count):
    drawn = [g.random(5) for g in Stream(seed).generators("of a test", 3, 4, BLOCKS[:count])]
    assert np.array_equal(drawn, [by_numpy(seed, block) for block in BLOCKS[:count]])


def test_each_of_many_keys_begins_anew():
    """Half a word that the draw before has left over is not the next key's."""
    stream = Stream(3)
    small = [g.integers(0, 99, 3, dtype=np.uint32) for g in stream.generators("of a test", 1, 2, BLOCKS)]
    for block, values in zip(BLOCKS, small, strict=True):
        assert np.array_equal(values, stream.generator("of a test", 1, 2, block).integers(0, 99, 3, dtype=np.uint32))


@pytest.mark.parametrize("scenarios", [range(1), range(3, 7), range(60, 70), range(2 * BLOCK)])
def test_scenarios_do_not_depend_on_how_many_follow(scenarios):
    drawn: list[int] = []

    def draw(generator: np.random.Generator, count: int) -> np.ndarray:
        drawn.append(count)
        return generator.random((count, 4))

    stream = Stream(5)
    whole = np.concatenate([stream.generator("of a test", 2, 0, b).random((BLOCK, 4)) for b in range(2)])
    assert np.array_equal(stream.per_scenario(draw, "of a test", scenarios, 2), whole[scenarios.start : scenarios.stop])
    assert sum(drawn) == scenarios.stop - scenarios.start // BLOCK * BLOCK  # none after the last one wanted


@pytest.mark.parametrize("seed", [4, 2**70 + 3])
def test_rounds_in_any_order_have_the_draws_of_their_keys(seed):
    """One after the other, so that keys are made ahead, backwards, with gaps, and from several threads at once."""
    stream = Stream(seed)

    def of(t):
        return stream.per_scenario(lambda g, count: g.random((count, 3)), "of rounds", range(BLOCK, BLOCK + 2), t, 5).tolist()

    wanted = {t: stream.generator("of rounds", t, 5, 1).random((2, 3)).tolist() for t in (*range(4 * AHEAD), 2**32 - 1, 2**32, 2**40)}
    orders = [range(4 * AHEAD), [7, 7, 3, 2, 1, 0, 2**32 - 1, 2**32, 2**40, 9, 10, 11], range(3 * AHEAD, 0, -7)]
    for order in orders:
        assert all(of(t) == wanted[t] for t in order)
    with ThreadPoolExecutor(4) as pool:
        for t, drawn in zip(order, pool.map(of, order), strict=True):
            assert drawn == wanted[t]
