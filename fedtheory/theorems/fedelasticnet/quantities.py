"""The letters of one round of FedElasticNet's Algorithm 3, and the constants of its theorems.

Numbers are floats or fractions, as the round's are. Axes: S states before the round, C cohorts (1
of what is the same for all of them), then m clients, then d coordinates.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from fedtheory.theory import derived
from fedtheory.theory.judge.statement import Undefined

__all__ = ["ElasticConstants", "RoundLetters", "exact_s", "inner", "norm_sq", "soft"]


@dataclass(frozen=True)
class ElasticConstants:
    """The constants of Theorems 3.1/B.1 and of their repairs; all numbers of one type.

    With c = 25, a = 10 (lambda2 + beta)/(lambda2 (lambda2^2 - 25 beta^2)) these are the paper's; Theorems A and B have their own.
    """

    m: Any
    P: Any
    beta: Any
    lambda1: Any
    lambda2: Any

    def family(self, lead: Any, c: Any) -> tuple[Any, Any, Any]:
        """(a, kappa, kappa_0) with a = kappa P/m = lead (l2 + b)/(l2 (l2^2 - c b^2)) and
        kappa_0 = (2/l2) (l2^2 - c b l2 - 2 c b^2)/(l2^2 - c b^2)."""
        b, l2 = self.beta, self.lambda2
        core = l2 * l2 - c * b * b
        if core == 0:
            raise Undefined(f"kappa and kappa_0 divide by lambda_2^2 - {c} beta^2, which is 0 here: take another lambda_2")
        a = lead * (l2 + b) / (l2 * core)
        return self._of(a, 2 * (core - c * b * l2 - c * b * b) / (l2 * core))

    printed = derived(lambda v: v.family(10, 25), "kappa P/m, kappa, kappa_0 of Theorem 3.1")
    theorem_a = derived(lambda v: v.family(3, 9), "of Theorem A (true-gradient rule)")

    theorem_b = derived(lambda v: v.family(3, 21), "of Theorem B (sign rule), tau = 2")

    def _of(self, a: Any, kappa_0: Any) -> tuple[Any, Any, Any]:
        return a, a * self.m / self.P, kappa_0

    @property
    def theorem_c(self) -> tuple[Any, Any, Any]:
        """Of strongly convex clients, in Theorem C."""
        b, l2 = self.beta, self.lambda2
        core = l2 * l2 - 21 * b * b
        kappa_0 = 2 * (core - 21 * b * l2 - 42 * b * b) / (l2 * core)
        return self._of(3 * (l2 + 2 * b) / (l2 * core), kappa_0)

    @property
    def theorem_e_small(self) -> tuple[Any, Any, Any]:
        """Of Theorem E up to lambda_2 = (2 + 2 sqrt 2) beta."""
        b, l2 = self.beta, self.lambda2
        a = (2 * b + 3 * l2) / (l2 * l2 * (2 * b + l2))
        return self._of(a, 4 * l2 / (2 * b + l2) ** 2)

    @property
    def theorem_e_large(self) -> tuple[Any, Any, Any]:
        """Of Theorem E beyond."""
        if self.beta == 0:
            raise Undefined("kappa of Theorem E divides by beta, which is 0 here: the losses have no curvature")
        return self._of(1 / (2 * self.beta * self.lambda2), 2 / self.lambda2)

    @property
    def theorem_e(self) -> tuple[Any, Any, Any]:
        """Of Theorem E (true-gradient rule): the best of this potential for one participant."""
        near = self.lambda2 * self.lambda2 <= 4 * self.beta * (self.lambda2 + self.beta)
        return self.theorem_e_small if near else self.theorem_e_large


def norm_sq(x: Any) -> Any:
    """||x||^2 over the last axis."""
    return (x * x).sum(axis=-1)


def inner(x: Any, y: Any) -> Any:
    """<x, y> over the last axis."""
    return (x * y).sum(axis=-1)


def soft(x: Any, level: Any) -> Any:
    """The soft threshold, entry by entry: what is left of x when it is moved by ``level`` towards 0."""
    return np.sign(x) * np.maximum(abs(x) - level, 0 * x)


def exact_s(moves: Any, l1: Any, slope: Any) -> Any:
    """lambda_1 s with the exact subgradient s at each move: the slope there, at most lambda_1, where it is 0."""
    return np.where(moves != 0, l1 * np.sign(moves), np.minimum(np.maximum(slope, -l1), l1))


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
    theta = derived(lambda v: v.q.x, "theta^{t-1}: (S, 1, d)")
    h = derived(lambda v: v.q.state.h, "h^{t-1}: (S, 1, d)")
    stored = derived(lambda v: v.q.state.stored, "g_k: (S, 1, m, d)")
    local = derived(lambda v: v.q.state.local, "theta_k^{t-1}: (S, 1, m, d)")
    gamma = derived(
        lambda v: v.q.near(v.theta, v.h / v.lambda2),
        "gamma^{t-1} = theta^{t-1} + h^{t-1}/lambda_2: (S, 1, d)",
    )
    away = derived(lambda v: v.gamma - v.q.x_star, "gamma^{t-1} - theta*: (S, 1, d)")
    tilde = derived(
        lambda v: v.q.local_models, "theta_tilde_k^t of (19), anchored at theta^{t-1}: (S, 1, m, d)"
    )
    tilde_own = derived(
        lambda v: v.q.minimised("tilde_own", v.local, v.stored, v.lambda2, v.lambda1),
        "the same anchored at theta_k^{t-1}, as Theorem 3.1 prints it",
    )
    delta = derived(
        lambda v: v.tilde - v.theta[:, :, None], "theta_tilde_k - theta^{t-1}: (S, 1, m, d)"
    )
    grad_star = derived(lambda v: v.q.gradients(v.q.x_star), "grad L_k(theta*): (m, d)")
    grad_gamma = derived(lambda v: v.q.gradients(v.gamma), "grad L_k(gamma^{t-1}): (S, 1, m, d)")
    grad_tilde = derived(
        lambda v: v.q.gradients_each(v.tilde), "grad L_k(theta_tilde_k^t): (S, 1, m, d)"
    )
    values_star = derived(lambda v: v.q.values(v.q.x_star), "L_k(theta*): (m,)")
    values_gamma = derived(lambda v: v.q.values(v.gamma), "L_k(gamma^{t-1}): (S, 1, m)")

    lambda1_s = derived(
        lambda v: exact_s(v.delta, v.lambda1, v.stored - v.grad_tilde),
        "lambda_1 s_k with the exact subgradient s_k that makes (11) true: (S, 1, m, d)",
    )
    lambda1_sign = derived(
        lambda v: v.lambda1 * np.sign(v.delta),
        "lambda_1 sign(delta) with sign(0) = 0, as printed: (S, 1, m, d)",
    )
    lambda1_sign_own = derived(
        lambda v: v.lambda1 * np.sign(v.tilde_own - v.theta[:, :, None]),
        "the same with theta_tilde anchored at theta_k^{t-1}",
    )
    zeros = derived(
        lambda v: v.over_k(np.asarray(v.delta == 0).astype(int).sum(axis=-1)),
        "z_t, the mean over the clients of the number of zero coordinates of delta_k: (S, 1)",
    )
    D = derived(lambda v: v.q.gap_at(v.gamma), "R(gamma^{t-1}) - R(theta*): (S, 1)")
    A = derived(lambda v: norm_sq(v.away), "||gamma^{t-1} - theta*||^2: (S, 1)")
    C = derived(
        lambda v: v.over_k(norm_sq(v.stored - v.grad_star)),
        "C_{t-1} of (20), from the stored gradients: (S, 1)",
    )
    epsilon = derived(
        lambda v: v.over_k(norm_sq(v.tilde - v.gamma[:, :, None])), "epsilon_t of (21): (S, 1)"
    )

    def last_term(self, lambda1_s: Any) -> Any:
        """-(2/lambda_2) <gamma^{t-1} - theta*, (1/m) sum_k lambda_1 s_k>: (S, 1)."""
        return -2 * inner(self.away, self.mean_k(lambda1_s)) / self.lambda2

    # --- after the round --------------------------------------------------------------------------
    members = derived(
        lambda v: v.q.members[..., None], "1 where a client is in the cohort, else 0: (S, C, m, 1)"
    )
    local_next = derived(lambda v: v.q.state_next.local, "theta_k^t: (S, C, m, d)")
    stored_next = derived(lambda v: v.q.state_next.stored, "g_k^t: (S, C, m, d)")
    theta_next = derived(lambda v: v.q.x_next, "theta^t: (S, C, d)")
    h_next = derived(lambda v: v.q.state_next.h, "h^t: (S, C, d)")
    gamma_next = derived(
        lambda v: v.q.near(v.theta_next, v.h_next / v.lambda2),
        "gamma^t = theta^t + h^t/lambda_2: (S, C, d)",
    )
    C_next = derived(
        lambda v: v.E(v.over_k(norm_sq(v.stored_next - v.grad_star))),
        "E C_t over the cohorts, from the stored gradients: (S, 1)",
    )
    A_next = derived(
        lambda v: v.E(norm_sq(v.gamma_next - v.q.x_star)), "E ||gamma^t - theta*||^2: (S, 1)"
    )
    move = derived(
        lambda v: v.E(norm_sq(v.gamma_next - v.gamma)), "E ||gamma^t - gamma^{t-1}||^2: (S, 1)"
    )
    drift = derived(lambda v: v.E(v.gamma_next - v.gamma), "E[gamma^t - gamma^{t-1}]: (S, 1, d)")
