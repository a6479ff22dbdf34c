"""Elastic Aggregation's figure, which a campaign draws."""

from fedtheory.plotting.figure import Figure
from paper_figures.elastic_aggregation import sampled_fixed_point

__all__ = ["FIGURES"]

FIGURES = (
    Figure(
        "elastic_aggregation", sampled_fixed_point.compute, sampled_fixed_point.draw,
        full={"instances": 200}, caption=sampled_fixed_point.caption,
        title="Where Elastic Aggregation ends under client sampling",
    ),
)  # fmt: skip
