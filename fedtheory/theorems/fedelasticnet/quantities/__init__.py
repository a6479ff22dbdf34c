"""The quantities of a round of FedElasticNet's Algorithm 3."""

from fedtheory.theorems.fedelasticnet.quantities.constants import ElasticConstants
from fedtheory.theorems.fedelasticnet.quantities.rounds import RoundLetters, exact_s, inner, norm_sq, sgn

__all__ = ["ElasticConstants", "RoundLetters", "exact_s", "inner", "norm_sq", "sgn"]
