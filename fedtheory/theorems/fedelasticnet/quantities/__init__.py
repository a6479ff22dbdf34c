"""The quantities of a round of FedElasticNet's Algorithm 3."""

from fedtheory.theorems.fedelasticnet.quantities.rounds_and_runs import (
    ElasticConstants,
    Losses,
    RoundView,
    inner,
    norm_sq,
    sgn,
)

__all__ = ["ElasticConstants", "Losses", "RoundView", "inner", "norm_sq", "sgn"]
