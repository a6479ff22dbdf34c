"""Everything one round of FedElasticNet's Algorithm 3 makes measurable, in the paper's symbols.

A `RoundView` holds, for a batch of S states before a round, the virtual local models of all m clients (19) and the states after each
of the C possible cohorts, so that conditional expectations are finite sums. Its numbers are float64 or `fractions.Fraction`
(object arrays): nothing here assumes which.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from fedtheory.theorems.fedelasticnet.quantities.constants import ElasticConstants
from fedtheory.theory.judge.statement import Form

__all__ = ["ElasticConstants", "Losses", "RoundView", "inner", "norm_sq", "sgn"]


def norm_sq(x: Any) -> Any:
    """||x||^2 over the last axis."""
    return (x * x).sum(axis=-1)


def inner(x: Any, y: Any) -> Any:
    """<x, y> over the last axis."""
    return (x * y).sum(axis=-1)


def sgn(x: Any) -> Any:
    """sign with sign(0) = 0, as integers; works for float64 and Fraction arrays."""
    return np.asarray(x > 0).astype(int) - np.asarray(x < 0).astype(int)


class Losses(Protocol):
    """The m losses as a view needs them; points are (..., d)."""

    @property
    def theta_star(self) -> Any:
        """(d,)."""

    @property
    def grad_star(self) -> Any:
        """grad L_k(theta*), (m, d)."""

    def values(self, x: Any) -> Any:
        """L_k(x): (..., d) -> (..., m)."""

    def gradients(self, x: Any) -> Any:
        """grad L_k(x): (..., d) -> (..., m, d)."""

    def gradients_each(self, y: Any) -> Any:
        """grad L_k(y_k): (..., m, d) -> (..., m, d)."""

    def excess(self, x: Any) -> Any:
        """R(x) - R(theta*), judged against the certified lower bound: (..., d) -> (...)."""

    def noise(self, x: Any) -> Any:
        """Absolute uncertainty of `excess`: (..., d) -> (...)."""


@dataclass
class RoundView:
    """One round from S states. Shapes: S states, C cohorts, m clients, d coordinates.

    Attributes
    ----------
    theta, h : (S, d); stored (g_k), local (theta_k) : (S, m, d)
    tilde : (S, m, d)
        theta_tilde_k of (19), anchored at theta^{t-1}.
    tilde_own : (S, m, d)
        The same anchored at theta_k^{t-1}, as Theorem 3.1 prints it.
    members : (C, m) bool; probability : (C,)
    theta_next, h_next : (S, C, d); stored_next, local_next : (S, C, m, d)
    rule : 'sign' or 'true-gradient'
    """

    losses: Losses
    constants: ElasticConstants
    rule: str
    theta: Any
    h: Any
    stored: Any
    local: Any
    tilde: Any
    tilde_own: Any
    members: Any
    probability: Any
    theta_next: Any
    h_next: Any
    stored_next: Any
    local_next: Any
    exact = True  # all cohorts are enumerated

    def applies(self, form: Form) -> str | None:
        """Why the form is not claimed here, or None."""
        return self.constants.outside(form, self.rule)

    def locate(self, where: dict[str, Any]) -> None:
        """Entries of one axis are states; of a cohort its clients are told."""
        index, axes = where["index"], where.get("axes", [])
        if len(index) == 1:
            where["axes"] = ["state"]
        elif "cohort" in axes:
            where["cohort"] = [int(k) for k in np.flatnonzero(self.members[index[axes.index("cohort")]])]

    # --- the letters --------------------------------------------------------------------------------------------------
    @property
    def m(self) -> Any:
        return self.constants.m

    @property
    def P(self) -> Any:
        return self.constants.P

    @property
    def beta(self) -> Any:
        return self.constants.beta

    @property
    def lambda1(self) -> Any:
        return self.constants.lambda1

    @property
    def lambda2(self) -> Any:
        return self.constants.lambda2

    @property
    def d(self) -> int:
        return self.theta.shape[-1]

    # --- expectations -------------------------------------------------------------------------------------------------
    def mean_k(self, values: Any, axis: int = 1) -> Any:
        """(1/m) sum_k over the client axis."""
        return values.sum(axis=axis) / self.m

    def E(self, values: Any) -> Any:
        """Expectation over the cohorts: (S, C, ...) -> (S, ...)."""
        weights = self.probability.reshape((1, -1) + (1,) * (values.ndim - 2))
        return (values * weights).sum(axis=1)

    def cohort_mean(self, values: Any) -> Any:
        """(1/P) sum_{k in P_t}: (S, m, ...) or (S, C, m, ...) -> (S, C, ...)."""
        if values.ndim == self.tilde.ndim:  # the same for every cohort
            values = values[:, None]
        mask = self.members.astype(int).reshape((1, *self.members.shape) + (1,) * (values.ndim - 3))
        return (values * mask).sum(axis=2) / self.P

    # --- before the round ---------------------------------------------------------------------------------------------
    @cached_property
    def gamma(self) -> Any:
        """gamma^{t-1} = theta^{t-1} + h^{t-1}/lambda_2: (S, d)."""
        return self.theta + self.h / self.lambda2

    @cached_property
    def grad_star(self) -> Any:
        return self.losses.grad_star

    @cached_property
    def grad_gamma(self) -> Any:
        """grad L_k(gamma^{t-1}): (S, m, d)."""
        return self.losses.gradients(self.gamma)

    @cached_property
    def grad_tilde(self) -> Any:
        """grad L_k(theta_tilde_k^t): (S, m, d)."""
        return self.losses.gradients_each(self.tilde)

    @cached_property
    def delta(self) -> Any:
        """theta_tilde_k - theta^{t-1}: (S, m, d)."""
        return self.tilde - self.theta[:, None, :]

    @cached_property
    def lambda1_s(self) -> Any:
        """lambda_1 s_k with the exact subgradient s_k that makes (11) true: (S, m, d)."""
        v = self.stored - self.grad_tilde  # lambda_2 delta + lambda_1 s
        on = self.lambda1 * sgn(self.delta)
        off = np.minimum(np.maximum(v, -self.lambda1), self.lambda1)
        return np.where(self.delta != 0, on, off)

    @cached_property
    def lambda1_sign(self) -> Any:
        """lambda_1 sign(delta) with sign(0) = 0, as printed: (S, m, d)."""
        return self.lambda1 * sgn(self.delta)

    @cached_property
    def lambda1_sign_own(self) -> Any:
        """lambda_1 sign(theta_tilde_k - theta^{t-1}) with theta_tilde anchored at theta_k^{t-1}: (S, m, d)."""
        return self.lambda1 * sgn(self.tilde_own - self.theta[:, None, :])

    @cached_property
    def zeros(self) -> Any:
        """Mean over the clients of the number of zero coordinates of delta_k: (S,)."""
        return self.mean_k(np.asarray(self.delta == 0).astype(int).sum(axis=-1))

    @cached_property
    def D(self) -> Any:
        """R(gamma^{t-1}) - R(theta*): (S,)."""
        return self.losses.excess(self.gamma)

    @cached_property
    def noise_D(self) -> Any:
        return self.losses.noise(self.gamma)

    @cached_property
    def C(self) -> Any:
        """C_{t-1} of (20), from the stored gradients: (S,)."""
        return self.mean_k(norm_sq(self.stored - self.grad_star))

    @cached_property
    def epsilon(self) -> Any:
        """epsilon_t of (21): (S,)."""
        return self.mean_k(norm_sq(self.tilde - self.gamma[:, None, :]))

    @cached_property
    def A(self) -> Any:
        """||gamma^{t-1} - theta*||^2: (S,)."""
        return norm_sq(self.gamma - self.losses.theta_star)

    def last_term(self, lambda1_s: Any) -> Any:
        """-(2/lambda_2) <gamma^{t-1} - theta*, (1/m) sum_k lambda_1 s_k>: (S,)."""
        return -2 * inner(self.gamma - self.losses.theta_star, self.mean_k(lambda1_s)) / self.lambda2

    # --- what float64 resolves ------------------------------------------------------------------------------------------
    @cached_property
    def position_noise(self) -> Any:
        """Absolute error of differences of models, coordinate-wise: (S,); 0 in rational arithmetic.

        Rounding of the models themselves, and what local KKT residuals of 1e-12 (relative to the gradients) leave in them.
        """
        if self.theta.dtype == object:
            return 0 * self.D
        gradients = (np.abs(self.stored).max(axis=(1, 2)) + np.abs(self.grad_tilde).max(axis=(1, 2))) / self.lambda2
        models = np.abs(self.tilde).max(axis=(1, 2)) + np.abs(self.gamma).max(axis=-1)
        return 64 * np.finfo(float).eps * models + 1e-12 * gradients

    def noise_of_sq(self, *squares: Any) -> Any:
        """Absolute rounding error of squared distances between models, given those squares: (S, ...)."""
        noise = self.position_noise
        if self.theta.dtype == object:
            return noise
        size = sum(np.sqrt(np.maximum(q, 0)) for q in squares)
        noise = noise.reshape(noise.shape + (1,) * (np.ndim(size) - 1))
        return self.d * noise * (noise + 2 * size)

    @cached_property
    def noise_sq(self) -> Any:
        """Absolute rounding error of a mean squared distance the size of epsilon_t: (S,)."""
        return self.noise_of_sq(self.epsilon)

    @cached_property
    def noise_A(self) -> Any:
        """The same for ||gamma - theta*||^2 and what is added to it in one round: (S,)."""
        return self.noise_of_sq(self.A, self.A_next, self.epsilon) if self.theta.dtype != object else self.position_noise

    # --- after the round ----------------------------------------------------------------------------------------------
    @cached_property
    def gamma_next(self) -> Any:
        """gamma^t = theta^t + h^t/lambda_2: (S, C, d)."""
        return self.theta_next + self.h_next / self.lambda2

    @cached_property
    def C_next(self) -> Any:
        """E C_t over the cohorts, from the stored gradients: (S,)."""
        return self.E(norm_sq(self.stored_next - self.grad_star).sum(axis=2) / self.m)

    @cached_property
    def A_next(self) -> Any:
        """E ||gamma^t - theta*||^2: (S,)."""
        return self.E(norm_sq(self.gamma_next - self.losses.theta_star))

    @cached_property
    def move(self) -> Any:
        """E ||gamma^t - gamma^{t-1}||^2: (S,)."""
        return self.E(norm_sq(self.gamma_next - self.gamma[:, None, :]))

    @cached_property
    def drift(self) -> Any:
        """E[gamma^t - gamma^{t-1}]: (S, d)."""
        return self.E(self.gamma_next - self.gamma[:, None, :])
