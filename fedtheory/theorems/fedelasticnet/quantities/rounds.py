"""The letters of one round of FedElasticNet's Algorithm 3, in the paper's symbols.

Numbers are floats or fractions, as the round's are. Axes: S states before the round, C cohorts (1
of what is the same for all of them), then m clients, then d coordinates.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from fedtheory.theorems.fedelasticnet.quantities.constants import ElasticConstants

__all__ = ["RoundLetters", "inner", "norm_sq", "sgn"]


def norm_sq(x: Any) -> Any:
    """||x||^2 over the last axis."""
    return (x * x).sum(axis=-1)


def inner(x: Any, y: Any) -> Any:
    """<x, y> over the last axis."""
    return (x * y).sum(axis=-1)


def sgn(x: Any) -> Any:
    """sign with sign(0) = 0, as integers; works for float64 and Fraction arrays."""
    return np.asarray(x > 0).astype(int) - np.asarray(x < 0).astype(int)


class RoundLetters:
    """What the paper's formulas name in a round, each worked out when it is first asked for.

    Parameters
    ----------
    q : RoundQuantities, under one of the two rules
    """

    def __init__(self, q: Any) -> None:
        self.q, self.rule, self.d = q, q.rule, q.d
        self.m, self.P, self.beta = q.N, q.P, q.beta
        self.lambda1, self.lambda2 = q.method.l1, q.method.l2
        self.constants = ElasticConstants(self.m, self.P, self.beta, self.lambda1, self.lambda2)

    # --- expectations -----------------------------------------------------------------------------
    def mean_k(self, values: Any) -> Any:
        """(1/m) sum_k of vectors: (..., m, d) -> (..., d)."""
        return values.sum(axis=-2) / self.m

    def over_k(self, values: Any) -> Any:
        """(1/m) sum_k of numbers: (..., m) -> (...)."""
        return values.sum(axis=-1) / self.m

    def E(self, values: Any) -> Any:
        """Expectation over the cohorts: (S, C, ...) -> (S, 1, ...)."""
        return self.q.mean(values)

    def cohort_mean(self, values: Any) -> Any:
        """(1/P) sum_{k in P_t}: (S, 1 or C, m, d) -> (S, C, d)."""
        return (values * self.members).sum(axis=2) / self.P

    # --- before the round -------------------------------------------------------------------------
    @cached_property
    def theta(self) -> Any:
        """theta^{t-1}: (S, 1, d)."""
        return self.q.x

    @cached_property
    def h(self) -> Any:
        """h^{t-1}: (S, 1, d)."""
        return self.q.state.h

    @cached_property
    def stored(self) -> Any:
        """g_k: (S, 1, m, d)."""
        return self.q.state.stored

    @cached_property
    def local(self) -> Any:
        """theta_k^{t-1}: (S, 1, m, d)."""
        return self.q.state.local

    @cached_property
    def gamma(self) -> Any:
        """gamma^{t-1} = theta^{t-1} + h^{t-1}/lambda_2: (S, 1, d)."""
        return self.q.near(self.theta, self.h / self.lambda2)

    @cached_property
    def away(self) -> Any:
        """gamma^{t-1} - theta*: (S, 1, d)."""
        return self.gamma - self.q.x_star

    @cached_property
    def tilde(self) -> Any:
        """theta_tilde_k^t of (19), anchored at theta^{t-1}: (S, 1, m, d)."""
        return self.q.local_models

    @cached_property
    def tilde_own(self) -> Any:
        """The same anchored at theta_k^{t-1}, as Theorem 3.1 prints it."""
        return self.q.minimised("tilde_own", self.local, self.stored, self.lambda2, self.lambda1)

    @cached_property
    def delta(self) -> Any:
        """theta_tilde_k - theta^{t-1}: (S, 1, m, d)."""
        return self.tilde - self.theta[:, :, None]

    @cached_property
    def grad_star(self) -> Any:
        """grad L_k(theta*): (m, d)."""
        return self.q.gradients(self.q.x_star)

    @cached_property
    def grad_gamma(self) -> Any:
        """grad L_k(gamma^{t-1}): (S, 1, m, d)."""
        return self.q.gradients(self.gamma)

    @cached_property
    def grad_tilde(self) -> Any:
        """grad L_k(theta_tilde_k^t): (S, 1, m, d)."""
        return self.q.gradients_each(self.tilde)

    @cached_property
    def values_star(self) -> Any:
        """L_k(theta*): (m,)."""
        return self.q.values(self.q.x_star)

    @cached_property
    def values_gamma(self) -> Any:
        """L_k(gamma^{t-1}): (S, 1, m)."""
        return self.q.values(self.gamma)

    @cached_property
    def lambda1_s(self) -> Any:
        """lambda_1 s_k with the exact subgradient s_k that makes (11) true: (S, 1, m, d)."""
        v = self.stored - self.grad_tilde  # lambda_2 delta + lambda_1 s
        off = np.minimum(np.maximum(v, -self.lambda1), self.lambda1)
        return np.where(self.delta != 0, self.lambda1_sign, off)

    @cached_property
    def lambda1_sign(self) -> Any:
        """lambda_1 sign(delta) with sign(0) = 0, as printed: (S, 1, m, d)."""
        return self.lambda1 * sgn(self.delta)

    @cached_property
    def lambda1_sign_own(self) -> Any:
        """The same with theta_tilde anchored at theta_k^{t-1}."""
        return self.lambda1 * sgn(self.tilde_own - self.theta[:, :, None])

    @cached_property
    def zeros(self) -> Any:
        """z_t, the mean over the clients of the number of zero coordinates of delta_k: (S, 1)."""
        return self.over_k(np.asarray(self.delta == 0).astype(int).sum(axis=-1))

    @cached_property
    def D(self) -> Any:
        """R(gamma^{t-1}) - R(theta*): (S, 1)."""
        return self.q.gap_at(self.gamma)

    @cached_property
    def A(self) -> Any:
        """||gamma^{t-1} - theta*||^2: (S, 1)."""
        return norm_sq(self.away)

    @cached_property
    def C(self) -> Any:
        """C_{t-1} of (20), from the stored gradients: (S, 1)."""
        return self.over_k(norm_sq(self.stored - self.grad_star))

    @cached_property
    def epsilon(self) -> Any:
        """epsilon_t of (21): (S, 1)."""
        return self.over_k(norm_sq(self.tilde - self.gamma[:, :, None]))

    def last_term(self, lambda1_s: Any) -> Any:
        """-(2/lambda_2) <gamma^{t-1} - theta*, (1/m) sum_k lambda_1 s_k>: (S, 1)."""
        return -2 * inner(self.away, self.mean_k(lambda1_s)) / self.lambda2

    # --- after the round --------------------------------------------------------------------------
    @cached_property
    def members(self) -> Any:
        """1 where a client is in the cohort, else 0: (S, C, m, 1)."""
        return self.q.members[..., None]

    @cached_property
    def local_next(self) -> Any:
        """theta_k^t: (S, C, m, d)."""
        return self.q.state_next.local

    @cached_property
    def stored_next(self) -> Any:
        """g_k^t: (S, C, m, d)."""
        return self.q.state_next.stored

    @cached_property
    def theta_next(self) -> Any:
        """theta^t: (S, C, d)."""
        return self.q.x_next

    @cached_property
    def h_next(self) -> Any:
        """h^t: (S, C, d)."""
        return self.q.state_next.h

    @cached_property
    def gamma_next(self) -> Any:
        """gamma^t = theta^t + h^t/lambda_2: (S, C, d)."""
        return self.q.near(self.theta_next, self.h_next / self.lambda2)

    @cached_property
    def C_next(self) -> Any:
        """E C_t over the cohorts, from the stored gradients: (S, 1)."""
        return self.E(self.over_k(norm_sq(self.stored_next - self.grad_star)))

    @cached_property
    def A_next(self) -> Any:
        """E ||gamma^t - theta*||^2: (S, 1)."""
        return self.E(norm_sq(self.gamma_next - self.q.x_star))

    @cached_property
    def move(self) -> Any:
        """E ||gamma^t - gamma^{t-1}||^2: (S, 1)."""
        return self.E(norm_sq(self.gamma_next - self.gamma))

    @cached_property
    def drift(self) -> Any:
        """E[gamma^t - gamma^{t-1}]: (S, 1, d)."""
        return self.E(self.gamma_next - self.gamma)
