"""Federated problems whose answer is known exactly, their generators and the real data sets."""

from fedtheory.problems.base import Constants, Problem
from fedtheory.problems.glm import Huber, Logistic
from fedtheory.problems.linear import LeastSquares, LinearModel
from fedtheory.problems.quadratic import Quadratic
from fedtheory.problems.softmax import Softmax

__all__ = ["Constants", "Huber", "LeastSquares", "LinearModel", "Logistic", "Problem", "Quadratic", "Softmax"]
