"""Elastic Aggregation (Chen et al., CVPR 2023), which states no theorem, on convex problems."""

from fedtheory.theorems.elastic_aggregation.paper import paper

paper.read(__name__, first=(
    "factors", "full_participation", "stability", "sign", "speed", "one_round",
    "zero_sensitivity", "exploration", "every_client", "unlabelled", "sampled_fixed_point",
    "sampled_stability", "sampled_bias", "sampled_attraction", "moving_average", "claims",
))
PAPER = paper

__all__ = ["PAPER"]
