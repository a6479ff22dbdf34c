"""Elastic Aggregation's figure, which a campaign draws."""

from fedtheory.plotting.figure import Figure
from paper_figures.elastic_aggregation import sampled_fixed_point

__all__ = ["FIGURES"]

FIGURES = (
    Figure.of(
        sampled_fixed_point, "elastic_aggregation", full={"instances": 200},
        title="Where Elastic Aggregation ends under client sampling",
    ),
)  # fmt: skip
