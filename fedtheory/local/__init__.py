"""Local solvers, chosen independently of the federated method."""

from fedtheory.local.exact import Exact
from fedtheory.local.exact_prox import ExactProx
from fedtheory.local.local_sgd import Constant, InverseTime, LocalSGD, TheoremStep
from fedtheory.local.objective import LocalObjective, LocalResult, LocalSolver
from fedtheory.local.optimisers import Adam, Momentum
from fedtheory.local.sgd import SGD, GradientSteps
from fedtheory.local.sliding import SubgradientSliding
from fedtheory.local.subgradient import Schedule, SubgradientSteps

__all__ = [
    "SGD", "Adam", "Constant", "Exact", "ExactProx", "GradientSteps", "InverseTime",
    "LocalObjective", "LocalResult", "LocalSGD", "LocalSolver", "Momentum", "Schedule",
    "SubgradientSliding", "SubgradientSteps", "TheoremStep",
]
