"""EFL (elastic term, sparse ternary compression, irregular clients): all its statements."""

from __future__ import annotations

from fedtheory.theorems.efl.statements import compression as efl_compression
from fedtheory.theorems.efl.statements import corollary_1 as efl_corollary
from fedtheory.theorems.efl.statements import corollary_1_deadlines as efl_epochs
from fedtheory.theorems.efl.statements import elastic_term as efl_elastic
from fedtheory.theorems.efl.statements import limit_points as efl_limits
from fedtheory.theorems.efl.statements import sections_4_1_and_4_2 as efl_irregular
from fedtheory.theorems.efl.statements import table_1 as efl_table
from fedtheory.theorems.efl.statements import theorem_1 as efl_theorem
from fedtheory.theorems.efl.statements import theorem_2 as efl_shift

__all__ = ["load"]


def load() -> None:
    """Register all statements about EFL (once)."""
    efl_theorem.load()
    for module in (
        efl_irregular, efl_corollary, efl_epochs, efl_shift, efl_limits, efl_elastic, efl_compression, efl_table,
    ):  # fmt: skip
        module.load()
