"""Rounds to epsilon of FedMLS and of what it is compared with, as `fedtheory rates` measures
them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fedtheory.plotting.figure import Figure
from fedtheory.theorems.fedmls import figures

__all__ = ["FIGURES"]


def compute(
    quick: bool = False, seed: int = 0, progress: Callable[[str], Any] | None = None
) -> dict[str, Any]:
    """All series; ``quick``: five accuracies from 0.1 to 0.01."""
    return figures.compute(quick=quick, seed=seed, progress=progress)


_SHARED: dict[str, Any] = {
    "quick": {"quick": True}, "paper": "fedmls", "number": "Selected Results",
    "takes": ("progress",),
}
_SHARED["caption"] = figures.caption
FIGURES = (
    Figure(
        "rates", compute, figures.draw,
        title="Rounds to ε of FedMLS and of seven other methods on five instances", **_SHARED,
    ),
    Figure(
        "rates_summary", compute, figures.draw_summary,
        title="Rounds to ε of FedMLS on two instances", **_SHARED,
    ),
)
