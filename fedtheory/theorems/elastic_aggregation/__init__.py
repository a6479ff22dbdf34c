"""Elastic Aggregation: what its aggregation does on convex problems (Chen et al., CVPR 2023; the paper states no theorem)."""

from fedtheory.theorems.elastic_aggregation.setting import ElasticAggregationSetting
from fedtheory.theorems.elastic_aggregation.statements.all_clients import FULL
from fedtheory.theorems.elastic_aggregation.statements.attraction import ATTRACTION
from fedtheory.theorems.elastic_aggregation.statements.poster import CLAIMS, WORDS
from fedtheory.theorems.elastic_aggregation.statements.sampled_clients import AVERAGES, SAMPLED
from fedtheory.verification.registry import Paper

PAPER = Paper(
    "elastic-aggregation",
    "Elastic Aggregation",
    "what Elastic Aggregation does on convex problems (Algorithm 1; the paper states no theorem)",
    (*FULL, *WORDS, *SAMPLED, *ATTRACTION, *AVERAGES, *CLAIMS),
    ElasticAggregationSetting(),
    printed="as the paper's text claims or Algorithm 1 is printed",
    figures="fedtheory.theorems.elastic_aggregation.figures",
    headline="fedtheory.theorems.elastic_aggregation.headline",
    witnesses="fedtheory.theorems.elastic_aggregation",
)

__all__ = ["PAPER"]
