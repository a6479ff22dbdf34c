"""Local solvers, chosen independently of the federated method."""

from fedtheory.local.exact import Exact
from fedtheory.local.objective import LocalObjective, LocalResult, LocalSolver
from fedtheory.local.sliding import SubgradientSliding
from fedtheory.local.steps import SGD, GradientSteps

__all__ = ["SGD", "Exact", "GradientSteps", "LocalObjective", "LocalResult", "LocalSolver", "SubgradientSliding"]
