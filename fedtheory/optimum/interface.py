"""The interface of a problem for certificates: nothing here knows a problem by its class.

A problem hands over the form that its certificate needs, `structure()` on R^d and
`nonsmooth_structure()` on a ball. So a loss of anybody's own is certified as the built-in ones are,
and this package imports no problem.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from fedtheory.optimum.duality import NonsmoothStructure
from fedtheory.optimum.lower_bounds import Structure

__all__ = ["Certifiable", "CertifiableOnBall", "DeclaredLoss", "LinearSamples"]


class Certifiable(Protocol):
    """F on R^d as `certify` needs it; x is (d,) float64."""

    dim: int

    def objective(self, x: Any) -> Any:
        """F: (..., d) -> (...)."""

    def full_gradient(self, x: Any) -> Any:
        """grad F: (..., d) -> (..., d)."""

    def structure(self) -> Structure:
        """F in enclosures; raises `NotCertified` where nothing can be proven."""

    def cvxpy_objective(self, variable: Any) -> Any:
        """F as a cvxpy expression of a (d,) variable."""

    def cvxpy_form(self) -> str:
        """Say in a few words what `cvxpy_objective` makes of the data."""


class CertifiableOnBall(Protocol):
    """F on a ball as `certify_on_ball` needs it."""

    dim: int

    def nonsmooth_structure(self) -> NonsmoothStructure:
        """F as a sum of kinks, maxima and distances."""


class LinearSamples(Protocol):
    """Samples a_kj of weight w_k w_kj, and the ridge: F(x) = sum_kj w_k w_kj loss_kj(a_kj'x) + ridge/2 ||x||^2."""

    dim: int
    ridge: float
    weights: np.ndarray  # w_k (N,)
    features: np.ndarray  # (N, n, p)
    sample_weights: np.ndarray  # w_kj (N, n), 0 for padding


class DeclaredLoss(LinearSamples, Protocol):
    """Samples with a loss phi(z, b) of which the class declares sup phi'' and the relative error of phi and dphi."""

    targets: np.ndarray  # b (N, n)
    curvature_max: float
    rounding: float  # in units of roundoff, 2**-53

    def phi(self, z: Any, b: Any) -> Any:
        """The loss of a prediction, elementwise."""

    def dphi(self, z: Any, b: Any) -> Any:
        """Its derivative in z."""

    def d2phi(self, z: Any, b: Any) -> Any:
        """Its second derivative in z."""
