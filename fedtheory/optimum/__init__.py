"""Certified optima: a solver's point, a polish, and a lower bound on F* that holds in float64."""

from importlib import import_module
from typing import Any

__all__ = ["Optimum", "assess", "certify"]


def __getattr__(name: str) -> Any:
    if name in ("Optimum", "assess", "certify"):
        return getattr(import_module("fedtheory.optimum.certify"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
