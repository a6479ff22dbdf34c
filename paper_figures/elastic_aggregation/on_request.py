"""Elastic Aggregation's drawing of two clients, and its poster's table and figure of trained networks, which no campaign makes."""

from paper_figures.elastic_aggregation import one_round, poster

__all__ = ["ON_REQUEST"]

ON_REQUEST = (one_round.FIGURE, *poster.FIGURES)
