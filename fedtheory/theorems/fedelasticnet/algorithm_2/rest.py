"""The points at which Algorithm 2 rests with everybody taking part, and its rounds near them.

On L_k(x) = sum_i a_ki (x_i - c_ki)^2/2 write q = 1 - eta_l (a + lambda_2) for every client and coordinate,
S_n = 1 + ... + q^(n-1), and r_k = grad L_k(theta) - c_k + c. The B local steps of line 7 are
y_{b+1} = q y_b - eta_l r - eta_l lambda_1 sign(y_b) from y_0 = 0: they move by -eta_l S_B r plus what the signs give.
With 0 < q < 1:

* a client comes back to theta with one sign all the way where |r| = rho = lambda_1 S_{B-1}/S_B, and never where |r| > rho;
* near r = 0 the signs alternate, and what they give is (-1)^B eta_l lambda_1 (1 - (-q)^(B-1))/(1 + q) sign(r),
  however small r is.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from fedtheory.algorithms.fedelasticnet_scaffold import FedElasticNetScaffoldState
from fedtheory.errors import InvalidInput
from fedtheory.rational import integer, table, vector
from fedtheory.theorems.fedelasticnet.algorithm_2.rounds import (
    BUILDERS,
    Method,
    numbers_of,
    play,
    quadratics,
    scaffold,
    sums,
    trace,
    without_l1,
)
from fedtheory.theory.judge.setting import ClosedView

__all__ = ["AT_OPTIMUM", "AWAY", "STEADY", "RestView", "kept_share", "one_round", "state_of"]


# what a form may need
AT_OPTIMUM, AWAY = "c_k = grad L_k(theta_*), theta_* the point of rest", "theta^{t-1} is not the point of rest"
STEADY = "the signs of the local moves are those at the point of rest"


def kept_share(h: Any, method: Method) -> Any:
    """q = 1 - eta_l (a + lambda_2); raises `InvalidInput` unless 0 < q < 1 everywhere."""
    q = 1 - method.eta * (h + method.lambda2)
    if not ((q > 0) & (q < 1)).all():
        raise InvalidInput(f"eta_l (a + lambda_2) = {1 - q}: it must lie strictly between 0 and 1 for every client and coordinate")
    return q


def one_round(world: Any, method: Method, state: FedElasticNetScaffoldState) -> FedElasticNetScaffoldState:
    """One round of everybody."""
    everyone = [list(range(world.num_clients))]
    return play(world, scaffold(method), method.B, method.eta, state, everyone)[0][-1]


def state_of(theta: Any, c_k: Any) -> FedElasticNetScaffoldState:
    return FedElasticNetScaffoldState(theta[None], c_k[None], c_k.sum(axis=0)[None] / len(c_k))


class RestView(ClosedView):
    """A point at which Algorithm 2 rests, and one round from close by.

    Attributes
    ----------
    sigma : (m, d) of -1, 0, 1: r_k = sigma rho there; all 0 is the optimum with c_k = grad L_k(theta)
    rho, q : (m, d)
    theta, grad : (d,), the point and grad R(theta); c_k : (m, d)
    shift : (d,) and shift_k : (m, d), from the point of rest to where the round begins
    """

    def __init__(self, h: Any, c: Any, sigma: Any, method: Method, shift: Any, shift_k: Any) -> None:
        self.h, self.c, self.sigma, self.method, self.shift, self.shift_k = h, c, sigma, method, shift, shift_k
        self.m, self.world, self.q = len(h), quadratics(h, c), kept_share(h, method)
        self.rho = method.lambda1 * sums(self.q, method.B - 1) / sums(self.q, method.B)
        r = sigma * self.rho
        self.theta = ((h * c).sum(axis=0) + r.sum(axis=0)) / h.sum(axis=0)
        gradients = h * (self.theta - c)
        self.c_k, self.grad = gradients - r, gradients.sum(axis=0) / self.m
        at_optimum = bool((sigma == 0).all())
        facts = {AT_OPTIMUM: at_optimum, STEADY: self._steady, AWAY: bool(shift.any())}
        self.facts = frozenset(name for name, true in facts.items() if true)

    @cached_property
    def after(self) -> FedElasticNetScaffoldState:
        """A round from the point of rest."""
        return one_round(self.world, self.method, state_of(self.theta, self.c_k))

    def at_zero(self, sign: int) -> Any:
        """The clients' moves (m, d) in a round from the point of rest, were sign(0) this number."""
        slopes, _, _ = trace(self.world, self.method._replace(B=1), self.theta, self.c_k, 0 * self.theta)
        return -self.method.eta * (slopes[0] + sign * self.method.lambda1)

    @cached_property
    def near(self) -> FedElasticNetScaffoldState:
        """A round from the point of rest plus the shifts."""
        return one_round(self.world, self.method, state_of(self.theta + self.shift, self.c_k + self.shift_k))

    @cached_property
    def linear(self) -> FedElasticNetScaffoldState:
        """The shifts after a round of SCAFFOLD with lambda_2 and without lambda_1, on the same curvatures with all minimisers 0."""
        return one_round(quadratics(self.h, 0 * self.c), without_l1(self.method), state_of(self.shift, self.shift_k))

    @cached_property
    def residual(self) -> Any:
        """r_k where the round begins (m, d)."""
        c_k = self.c_k + self.shift_k
        return self.h * (self.theta + self.shift - self.c) - c_k + c_k.sum(axis=0) / self.m

    def jump(self, odd: int = -1) -> Any:
        """The terms of the signs near r = 0, where a client rests with r = 0; 0 elsewhere: (m, d)."""
        B, q = self.method.B, self.q
        size = self.method.eta * self.method.lambda1 * (1 - (-q) ** (B - 1)) / (1 + q)
        return np.where(self.sigma == 0, odd**B * size * np.sign(self.residual), 0 * size)

    @cached_property
    def _steady(self) -> bool:
        """True if the signs of the round from close by are those that the formulas assume."""
        c_k = self.c_k + self.shift_k
        _, signs, _ = trace(self.world, self.method, self.theta + self.shift, c_k, c_k.sum(axis=0) / self.m)
        first = np.sign(self.residual)
        return all(
            (signs[b] == np.where(self.sigma == 0, (-1) ** b * first, -self.sigma)).all() for b in range(1, self.method.B)
        )


@BUILDERS.add("algorithm-2 at rest")
def rest_view(data: dict[str, Any]) -> RestView:
    """From h, c, sigma, lambda1, lambda2, eta, B, eta_g, and the shifts of theta and of the c_k."""
    h, c, shift_k = (table(data[name], name) for name in ("h", "c", "shift_k"))
    sigma = np.array([[integer(s, "sigma", -1, 1) for s in row] for row in data["sigma"]])
    shift = vector(data["shift"], "shift")
    if sigma.shape != h.shape or shift_k.shape != h.shape or len(shift) != h.shape[1]:
        raise InvalidInput(f"sigma {sigma.shape}, shift {shift.shape} and shift_k {shift_k.shape} must go with h {h.shape}")
    return RestView(h, c, sigma + Fraction(0), numbers_of(data), shift, shift_k)

