"""Elastic Aggregation's drawing of two clients, which no campaign makes."""

from paper_figures.elastic_aggregation.one_round import FIGURE

__all__ = ["ON_REQUEST"]

ON_REQUEST = (FIGURE,)
