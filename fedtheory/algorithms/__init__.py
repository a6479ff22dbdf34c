"""The federated methods, one a file."""

from fedtheory.algorithms.base import Algorithm
from fedtheory.algorithms.fedelasticnet_dyn import FedElasticNetDyn

__all__ = ["Algorithm", "FedElasticNetDyn"]
