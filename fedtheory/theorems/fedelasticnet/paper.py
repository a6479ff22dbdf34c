"""The statements of FedElasticNet that are said in the language of a one-file theorem."""

from fedtheory.theorems.fedelasticnet.exact_witness import as_draw
from fedtheory.theory.paper import Paper

__all__ = ["FILE"]

FILE = Paper("fedelasticnet", title="FedElasticNet", tested=True, older=as_draw)
