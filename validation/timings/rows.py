"""The rows that every file of timings hands to the table."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Figure"]


class Figure(NamedTuple):
    """One row of the table; the fields of validation/timings/performance.py's rows."""

    name: str
    value: float
    unit: str
    target: str = ""
    note: str = ""
