"""Rounds to epsilon of FedMLS and of what it is compared with, as `fedtheory rates` measures
them."""

from typing import Any

from fedtheory.plotting.figure import Figure
from paper_figures.fedmls.rates import drawing, experiments

__all__ = ["ON_REQUEST"]

_SHARED: dict[str, Any] = {
    "quick": {"quick": True}, "number": "Selected Results", "takes": ("progress",),
    "caption": drawing.caption,
}
ON_REQUEST = (
    Figure(
        "rates", experiments.compute, drawing.draw,
        title="Rounds to ε of FedMLS and of seven other methods on five instances", **_SHARED,
    ),
    Figure(
        "rates_summary", experiments.compute, drawing.draw_summary,
        title="Rounds to ε of FedMLS on two instances", **_SHARED,
    ),
)
