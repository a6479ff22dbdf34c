"""Names that problems had before."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from fedtheory._moved import GOES_IN

if TYPE_CHECKING:
    from fedtheory.arrays import Array

__all__ = ["OldNames"]


class OldNames:
    """What a `fedtheory.problems.Problem` was called by, with a warning that says what is meant."""

    def value(self, x: Array) -> Array:
        """`Problem.client_losses`: one loss a client, which was taken for F."""
        warnings.warn(
            "problem.value(x) is one loss a client, (..., N), and not F: write problem.objective(x) for F, or "
            f"problem.client_losses(x) for these; the old name goes in fedtheory {GOES_IN}",
            FutureWarning,
            stacklevel=2,
        )
        return self.client_losses(x)  # type: ignore[attr-defined]
