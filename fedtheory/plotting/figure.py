"""A figure by its name: how its data are computed, how they are drawn, and with how much effort."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Figure"]


@dataclass(frozen=True)
class Figure:
    """One figure.

    Attributes
    ----------
    name : of its files
    compute : callable(**effort) -> data
    draw : callable(data) -> matplotlib Figure
    quick, full : keyword arguments of ``compute`` for a quick look, and for a paper's resolution
    seeded : whether ``compute`` takes ``seed``
    """

    name: str
    compute: Callable[..., Any]
    draw: Callable[[Any], Any]
    quick: Mapping[str, Any] = field(default_factory=dict)
    full: Mapping[str, Any] = field(default_factory=dict)
    seeded: bool = True
