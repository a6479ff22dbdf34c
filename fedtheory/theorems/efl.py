"""EFL (elastic term, sparse ternary compression, irregular clients): all its statements."""

from __future__ import annotations

from fedtheory.theorems import (
    efl_compression,
    efl_corollary,
    efl_elastic,
    efl_epochs,
    efl_irregular,
    efl_limits,
    efl_shift,
    efl_table,
    efl_theorem,
)

__all__ = ["load"]


def load() -> None:
    """Register all statements about EFL (once)."""
    efl_theorem.load()
    for module in (
        efl_irregular, efl_corollary, efl_epochs, efl_shift, efl_limits, efl_elastic, efl_compression, efl_table,
    ):  # fmt: skip
        module.load()
