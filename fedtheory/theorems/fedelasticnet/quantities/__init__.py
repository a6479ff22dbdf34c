"""The quantities of a round and of a run of FedElasticNet's Algorithm 3, and of a fixed point of Algorithm 1."""

from fedtheory.theorems.fedelasticnet.quantities.fixed_point import FixedPointView, fixed_point
from fedtheory.theorems.fedelasticnet.quantities.rounds_and_runs import (
    ElasticConstants,
    Losses,
    RoundView,
    RunView,
    inner,
    norm_sq,
    sgn,
)

__all__ = ["ElasticConstants", "FixedPointView", "Losses", "RoundView", "RunView", "fixed_point", "inner", "norm_sq", "sgn"]
