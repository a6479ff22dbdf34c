"""Local solvers, chosen independently of the federated method."""

from fedtheory.local.exact import Exact
from fedtheory.local.objective import LocalObjective, LocalResult, LocalSolver

__all__ = ["Exact", "LocalObjective", "LocalResult", "LocalSolver"]
