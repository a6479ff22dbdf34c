"""Quadratic clients: f_k(x) = (x - c_k)' H_k (x - c_k) / 2."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from fedtheory.arrays import Array, namespace, unshared
from fedtheory.errors import InvalidInput
from fedtheory.inputs import data_array
from fedtheory.optimum.loss_enclosures import QuadraticForm
from fedtheory.optimum.lower_bounds import Structure
from fedtheory.problems.base import Problem, same_loss, same_smoothness

__all__ = ["Quadratic"]


class Quadratic(Problem):
    """f_k(x) = (x - c_k)' H_k (x - c_k) / 2.

    Parameters
    ----------
    hessians : (N, d, d)
        Symmetric; an indefinite one is accepted and marks the problem as not convex.
    minimisers : (N, d)
    weights : 'uniform', or N numbers that sum to 1.

    Raises
    ------
    InvalidInput
        Shapes that disagree, data that are no finite real numbers up to 1e100, Hessians that are not symmetric.
    """

    name = "quadratic"
    constant_hessian = True
    client_data = ("hessians", "minimisers")

    def __init__(self, hessians: Any, minimisers: Any, weights: Any = "uniform") -> None:
        h, c = data_array("hessians", hessians), np.array(data_array("minimisers", minimisers))
        if h.ndim != 3 or h.shape[1] != h.shape[2] or c.shape != h.shape[:2] or 0 in h.shape:
            raise InvalidInput(
                f"hessians {h.shape} and minimisers {c.shape} disagree: expected (N, d, d) and (N, d), none of them 0"
            )
        asymmetry = np.abs(h - h.transpose(0, 2, 1)).max(initial=0.0)
        if asymmetry > 1e-12 * max(1.0, np.abs(h).max(initial=0.0)):
            raise InvalidInput(f"hessians differ from their transposes by {asymmetry:.3g}: symmetrise them first")
        self.hessians, self.minimisers = (h + h.transpose(0, 2, 1)) / 2, c
        self._one_loss_each(len(c), c.shape[1], weights)
        self.convex = bool((self._spectra >= -1e-12 * np.abs(h).max(initial=1.0)).all())

    @cached_property
    def _spectra(self) -> np.ndarray:
        return np.linalg.eigvalsh(self.hessians)

    @cached_property
    def _joint_spectrum(self) -> np.ndarray:
        return np.linalg.eigvalsh(np.einsum("n,nij->ij", self.weights, self.hessians))

    def client_value(self, y: Array) -> Array:
        xp = namespace(y)
        r = y - self.minimisers[:, None, :]
        return xp.sum(r * xp.matmul(r, self.hessians), axis=-1) / 2

    def client_gradient(self, y: Array) -> Array:
        return namespace(y).matmul(y - self.minimisers[:, None, :], self.hessians)

    def client_hessian(self, y: Array) -> Array:
        return unshared(self.hessians)[:, None, :, :]

    def smoothness(self) -> np.ndarray:
        return np.abs(self._spectra).max(axis=1)

    def smoothness_exact(self) -> np.ndarray:
        """Everywhere: beta_k is the largest size of an eigenvalue of a constant Hessian."""
        return np.full(self.num_clients, same_smoothness(self, Quadratic))

    def strong_convexity(self) -> np.ndarray:
        return np.maximum(self._spectra[:, 0], 0.0)

    def joint_smoothness(self) -> float:
        return float(np.abs(self._joint_spectrum).max())

    def joint_strong_convexity(self) -> float:
        return float(max(self._joint_spectrum[0], 0.0))

    def structure(self) -> Structure:
        if not same_loss(self, Quadratic):
            return super().structure()
        return QuadraticForm(self.hessians, self.minimisers, self.weights)

    def cvxpy_objective(self, variable: Any) -> Any:
        import cvxpy as cp

        # One joint form keeps the conic problem small: sum_k w_k f_k = x'Hx/2 - b'x + const.
        h = np.einsum("n,nij->ij", self.weights, self.hessians)
        hc = np.einsum("nij,nj->ni", self.hessians, self.minimisers)
        const = float(self.weights @ np.einsum("ni,ni->n", self.minimisers, hc)) / 2
        return cp.quad_form(variable, cp.psd_wrap(h)) / 2 - (self.weights @ hc) @ variable + const
