"""The statements of FedElasticNet that are said in the language of a one-file theorem."""

from fedtheory.theory.paper import Paper

__all__ = ["FILE"]

FILE = Paper("fedelasticnet", title="FedElasticNet", tested=True)
