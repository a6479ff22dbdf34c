"""Counter-based random streams, drawn on the host and keyed by (seed, purpose, round, step, scenario block).

The same key gives the same numbers for every algorithm, array library and device, so comparisons are paired. Scenarios are
drawn in fixed blocks: the first ten scenarios of a run of a thousand are those of a run of ten, however a run is chunked.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fedtheory.inputs import whole_number

__all__ = ["BLOCK", "Stream"]

BLOCK = 64  # scenarios that share one generator call


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
        entropy = [int(self.seed), zlib.crc32(purpose.encode()), round_index, step, block]
        return np.random.Generator(np.random.Philox(np.random.SeedSequence(entropy)))

    def per_scenario(
        self,
        draw: Callable[[np.random.Generator, int], np.ndarray],
        purpose: str,
        scenarios: range,
        round_index: int = 0,
        step: int = 0,
    ) -> np.ndarray:
        """draw(generator, BLOCK) -> (BLOCK, ...), for every block that meets the scenario range, cut to the range."""
        first, last = scenarios.start // BLOCK, (scenarios.stop - 1) // BLOCK
        parts = [draw(self.generator(purpose, round_index, step, b), BLOCK) for b in range(first, last + 1)]
        return np.concatenate(parts)[scenarios.start - first * BLOCK : scenarios.stop - first * BLOCK]
