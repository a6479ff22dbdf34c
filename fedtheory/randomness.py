"""Counter-based random streams, drawn on the host and keyed by (seed, purpose, round, step, scenario block).

The same key gives the same numbers for every algorithm, array library and device, so comparisons are paired. Scenarios are
drawn in fixed blocks: the first ten scenarios of a run of a thousand are those of a run of ten, however a run is chunked.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

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
        entropy: Any = [int(self.seed), zlib.crc32(purpose.encode()), int(round_index), int(step), int(block)]
        with suppress(OverflowError):  # of what is no word: SeedSequence takes words apart itself, and more slowly
            entropy = np.array(entropy, dtype=np.uint32)
        return np.random.Generator(np.random.Philox(np.random.SeedSequence(entropy)))

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
        parts = [
            draw(self.generator(purpose, round_index, step, b), min(BLOCK, scenarios.stop - b * BLOCK))
            for b in range(first, last + 1)
        ]
        drawn = parts[0] if len(parts) == 1 else np.concatenate(parts)
        return drawn[scenarios.start - first * BLOCK :]
