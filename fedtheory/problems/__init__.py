"""Federated problems whose answer is known exactly, their generators and the real data sets."""

from fedtheory.problems.base import Constants, Problem
from fedtheory.problems.linear import LeastSquares, LinearModel
from fedtheory.problems.quadratic import Quadratic

__all__ = ["Constants", "LeastSquares", "LinearModel", "Problem", "Quadratic"]
