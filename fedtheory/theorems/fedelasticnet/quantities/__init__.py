"""The quantities of a round and of a run of FedElasticNet's Algorithm 3."""

from fedtheory.theorems.fedelasticnet.quantities.rounds_and_runs import (
    ElasticConstants,
    Losses,
    RoundView,
    RunView,
    inner,
    norm_sq,
    sgn,
)

__all__ = ["ElasticConstants", "Losses", "RoundView", "RunView", "inner", "norm_sq", "sgn"]
