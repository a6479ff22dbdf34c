"""A run of Algorithm 3 in which everyone takes part, state by state."""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from fedtheory.theorems.fedelasticnet.quantities import norm_sq, soft
from fedtheory.theorems.fedelasticnet.world import ElasticWorld
from fedtheory.theory import Sides, derived
from fedtheory.theory.judge.statement import le

__all__ = ["MotionView"]


@dataclass(kw_only=True)
class MotionView(ElasticWorld):
    """The states of T rounds of Algorithm 3 with full participation; m clients, d coordinates.

    Numbers are fractions, or float64 with ``rounding`` > 0, the relative size below which a difference counts as none.

    Attributes
    ----------
    theta, h : (T + 1, d), and stored : (T + 1, m, d), the states 0..T
    y, grad_y : (T, m, d)
        The local models of the rounds, and the gradients there.
    grad : (T + 1, m, d)
        grad L_k(theta^t); where a slope jumps, the subgradient nearest to the stored one.
    excess, excess_gamma : (T + 1,)
        R - R* at theta^t and at gamma^t = theta^t + h^t/lambda_2.
    beta : the smoothness of the losses, None where a slope jumps
    mu, beta_joint : bounds of R's curvature; ``top`` (d,) is a unit vector along which it is beta_joint, for a quadratic R
    frozen : whether it is certified that no client ever moves again; None where that is not known
    noise : absolute uncertainty of ``excess``
    """

    rule: str
    lambda1: Any
    lambda2: Any
    theta: Any
    h: Any
    stored: Any
    y: Any
    excess: Any
    excess_gamma: Any
    theta_star: Any
    grad_y: Any = None
    grad: Any = None
    beta: Any = None
    mu: Any = None
    beta_joint: Any = None
    top: Any = None
    frozen: bool | None = None
    noise: Any = 0
    rounding: float = 0.0

    d = derived(lambda v: v.theta.shape[-1])
    delta = derived(
        lambda v: v.y - v.theta[:-1, None, :], "the moves of the clients in rounds 1..T: (T, m, d)"
    )
    pull = derived(
        lambda v: v.stored - v.grad,
        "v_k = g_k - grad L_k(theta) before each round, and after the last: (T + 1, m, d)",
    )

    push = derived(
        lambda v: soft(v.pull[:-1], v.lambda1),
        "the part of v_k beyond lambda_1, in rounds 1..T: (T, m, d)",
    )
    slope = derived(
        lambda v: v.mean(v.grad), "grad R(theta^t), the mean of the clients': (T + 1, d)"
    )
    still = derived(
        lambda v: ~np.asarray(v.delta != 0).any(axis=(1, 2)),
        "true where no client moves in round t = 1..T: (T,) bool",
    )
    at = derived(lambda v: np.flatnonzero(v.still), "the states before the rounds without moves")
    most = derived(
        lambda v: abs(v.pull[0]).max(),
        "the largest |g_k - grad L_k(theta)| of a client and coordinate at the first state",
    )

    def mean(self, values: Any) -> Any:
        """(1/m) sum over the clients, the axis before the last."""
        m = values.shape[-2]
        return values.sum(axis=-2) / (Fraction(m) if values.dtype == object else m)

    def at_most(self, found: Any, limit: Any = 0, noise: Any = None, axes: Any = ()) -> Sides:
        """Sides of found <= limit; the noise is by default that of a gradient."""
        noise = self.gradient_noise if noise is None else noise
        return le(found, limit + 0 * found, noise=noise, axes=axes)

    def same(self, s: int, t: int) -> bool:
        """True if the states s and t are one."""
        pairs = ((a[s], a[t]) for a in (self.theta, self.stored))
        return all(bool((abs(a - b) <= self.rounding * (1 + abs(a).max())).all()) for a, b in pairs)

    @cached_property
    def period(self) -> int:
        """After how many rounds the last state was reached again; 0 where it was not there before."""
        last = len(self.y)
        return next((last - s for s in range(last - 1, -1, -1) if self.same(s, last)), 0)

    mean_gradient = derived(
        lambda v: v.mean(v.grad_y[-v.period :]).sum(axis=0) / v.period,
        "the mean over the orbit and the clients of grad L_k(theta_k): (d,)",
    )

    @cached_property
    def gradient_noise(self) -> float:
        """The error that states equal up to rounding leave in a gradient."""
        if not self.rounding:
            return 0.0
        size = abs(self.theta).max() * (float(self.beta or 0) + self.lambda2) + abs(self.stored).max() + abs(self.grad).max()
        return float(8 * self.rounding * (size + self.lambda1 + self.lambda2))

    @property
    def excess_noise(self) -> Any:
        """The error of such states in R - R*, at most ||grad R||_inf ||theta - theta*||_1."""
        if not self.rounding:
            return self.noise
        away = abs(self.theta[-1] - self.theta_star).sum() + abs(self.h[-1]).sum() / self.lambda2
        return self.noise + self.gradient_noise * float(away)

    spread = derived(
        lambda v: v.mean(norm_sq(v.delta)[..., None])[..., 0],
        "D_t^2 = (1/m) sum_k ||delta_k^t||^2 of rounds 1..T: (T,)",
    )
    energy = derived(
        lambda v: norm_sq(v.h[1:]) + v.lambda2 * v.lambda2 * v.spread,
        "E_t = ||h^t||^2 + lambda_2^2 D_t^2 of rounds 1..T: (T,)",
    )

    @property
    def energy_noise(self) -> Any:
        """The part of it that states equal up to rounding leave."""
        moved = self.lambda2 * self.mean(abs(self.delta)).sum(axis=-1)
        size = (abs(self.h[1:]).sum(axis=-1) + moved).max()
        return 2 * self.gradient_noise * (size + self.d * self.gradient_noise)

    squares = derived(lambda v: norm_sq(v.theta - v.theta_star), "||theta^t - theta*||^2: (T + 1,)")
