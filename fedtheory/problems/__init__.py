"""Federated problems whose answer is known exactly, their generators and the real data sets."""

from fedtheory.problems import datasets, partitions
from fedtheory.problems.base import Constants, Problem
from fedtheory.problems.datasets import Dataset, load_svmlight
from fedtheory.problems.files import read_problem, write_problem
from fedtheory.problems.generators import (
    SyntheticData,
    random_huber,
    random_least_squares,
    random_logistic,
    random_quadratic,
    synthetic,
    synthetic_least_squares,
    synthetic_softmax,
)
from fedtheory.problems.glm import Huber, Logistic
from fedtheory.problems.held_out import hold_out
from fedtheory.problems.linear import LeastSquares, LinearModel
from fedtheory.problems.maximum_and_chain import MaximumAndChain
from fedtheory.problems.nonsmooth import LAD, EuclideanDistance, Hinge, L1Distance, MaxAffine, Quantile
from fedtheory.problems.nonsmooth_generators import (
    random_euclidean_distance,
    random_hinge,
    random_l1_distance,
    random_lad,
    random_max_affine,
    random_quantile,
)
from fedtheory.problems.nonsmooth_instances import ArjevaniShamir, NesterovWorst, TwoClientPull
from fedtheory.problems.partitions import Partition, federate
from fedtheory.problems.quadratic import Quadratic
from fedtheory.problems.smoothed import SmoothedMaxAffine
from fedtheory.problems.softmax import Softmax

__all__ = [
    "LAD", "ArjevaniShamir", "Constants", "Dataset", "EuclideanDistance", "Hinge", "Huber",
    "L1Distance", "LeastSquares", "LinearModel", "Logistic", "MaxAffine", "MaximumAndChain",
    "NesterovWorst", "Partition", "Problem", "Quadratic", "Quantile", "SmoothedMaxAffine",
    "Softmax", "SyntheticData", "TwoClientPull", "datasets", "federate", "hold_out",
    "load_svmlight", "partitions", "random_euclidean_distance", "random_hinge", "random_huber",
    "random_l1_distance", "random_lad", "random_least_squares", "random_logistic",
    "random_max_affine", "random_quadratic", "random_quantile", "read_problem", "synthetic",
    "synthetic_least_squares", "synthetic_softmax", "write_problem",
]
