"""The quantities of a round of FedElasticNet's Algorithm 3."""

from fedtheory.theorems.fedelasticnet.quantities.constants import ElasticConstants
from fedtheory.theorems.fedelasticnet.quantities.rounds import RoundLetters, inner, norm_sq, sgn

__all__ = ["ElasticConstants", "RoundLetters", "inner", "norm_sq", "sgn"]
