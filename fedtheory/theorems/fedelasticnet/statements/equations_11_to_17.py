"""FedElasticNet, (11), (12) and (14)-(17): the optimality condition, and what smoothness gives."""

from typing import Any

import numpy as np

from fedtheory.theorems.fedelasticnet.notation import (
    ALGORITHM_3,
    CONVEX_SMOOTH,
    SMOOTH,
    nine_tenths,
)
from fedtheory.theorems.fedelasticnet.one_round import about_a_round
from fedtheory.theorems.fedelasticnet.quantities import inner, norm_sq
from fedtheory.theory import Sides, eq, form, le, printed, repaired, wrong

CLIENTS = ("state", "", "client")  # what entries of equations are, the same for all cohorts
BOUNDED = ("state", "client")  # what those of bounds are
STEP = r"\nabla L_k(\theta_k^t)-g_k+\lambda_2(\theta_k^t-\theta^{t-1})+\lambda_1"
EACH = r"\nabla L_k(\theta_k^t)_i-g_{k,i}+\lambda_2(\theta_k^t-\theta^{t-1})_i="


@about_a_round("eq-11", source="section 3.3, (11)", assumptions=CONVEX_SMOOTH)
def eq_11(v):
    """first-order condition of the local problem"""

    def of(subgradient: Any) -> Sides:
        parts = (v.grad_tilde, v.stored, v.lambda2 * v.delta, subgradient)
        left = parts[0] - parts[1] + parts[2] + parts[3]
        return eq(left, 0, *parts, vector=True, axes=CLIENTS)

    yield printed(
        lambda: of(v.lambda1_sign), STEP + r"\,\mathrm{sign}(\theta_k^t-\theta^{t-1})=0",
        note="at a zero coordinate of the update the condition holds with a subgradient in [-1, "
        "1], not with sign(0) = 0", fails=True,
    )
    yield repaired(
        lambda: of(v.lambda1_s),
        STEP + r" s_k^t=0,\quad s_k^t\in\partial\|\cdot\|_1(\theta_k^t-\theta^{t-1})",
        wrong("wrong sign of s", lambda: of(-v.lambda1_s)),
        wrong("s dropped", lambda: of(0 * v.lambda1_s)),
        proof="0 is a subgradient of what the client minimises at its minimiser", holds=True,
    )


@about_a_round("eq-12", source="section 3.3, (12)", assumptions=CONVEX_SMOOTH)
def eq_12(v):
    """first-order condition where the model moves"""

    def coordinates(sign: int = -1) -> Sides:
        parts = (v.grad_tilde, v.stored, v.lambda2 * v.delta)
        left = (parts[0] - parts[1] + parts[2]) * np.asarray(v.delta != 0).astype(int)
        return eq(left, sign * v.lambda1_sign, *parts, vector=True, axes=CLIENTS)

    def vectors() -> Sides:
        parts = (v.grad_tilde, v.stored, v.lambda2 * v.delta)
        moved = np.asarray(v.delta != 0).astype(int).max(axis=-1)[..., None]
        left = abs(parts[0] - parts[1] + parts[2]) * moved
        return eq(left, v.lambda1 * moved, *parts, vector=True, axes=CLIENTS)

    yield printed(
        coordinates,
        EACH + r"-\lambda_1\mathrm{sign}(\theta_k^t-\theta^{t-1})_i=\pm\lambda_1"
        r"\quad\text{for every }i\text{ with }(\theta_k^t)_i\neq(\theta^{t-1})_i",
        wrong("sign flipped", lambda: coordinates(1)),
        note="(12) read coordinate by coordinate, which its 'i.e. sign = +-1' suggests",
        proof="(11) with s, which is the sign where a coordinate moves", holds=True,
    )
    yield form(
        "printed, as vectors", vectors,
        r"\theta_k^t\neq\theta^{t-1}\ \Rightarrow\ " + EACH + r"\pm\lambda_1\quad\text{for all }i",
        note="(12) read as an equation of vectors, lambda_1 being 'a vectorized one': a model that "
        "moves may keep coordinates, and there the left side lies anywhere in [-lambda_1, "
        "lambda_1]; with one coordinate the two readings agree", fails=True,
    )


@about_a_round(
    "eq-14", source="Definition B.0.1, (14)", assumptions=SMOOTH,
    measures="distance between two gradients",
)
def eq_14(v):
    """beta-smoothness"""

    def of(divisor: int = 1) -> Sides:
        apart = norm_sq(v.tilde - v.gamma[:, :, None])
        gradients = norm_sq(v.grad_tilde - v.grad_gamma)
        return le(gradients, v.beta * v.beta * apart / divisor, axes=BOUNDED)

    yield printed(
        of,
        r"\|\nabla L_k(x)-\nabla L_k(y)\|\le\beta\|x-y\|\quad(x=\tilde\theta_k^t,\ y=\gamma^{t-1})",
        wrong("half of beta", lambda: of(4)),
        wrong("a tenth less than beta^2", lambda: nine_tenths(of())),
        note="checked squared, where Lemma B.5 uses it",
        proof="the definition of beta-smoothness, squared", holds=True,
    )


@about_a_round("eq-15", source="Appendix B.1, (15)", assumptions=CONVEX_SMOOTH)
def eq_15(v):
    """three-point inequality of convex smooth functions"""

    def of(times: int = 1) -> Sides:
        quadratic = times * v.beta * norm_sq(v.gamma[:, :, None] - v.tilde) / 2
        left = -inner(v.grad_tilde, v.away[:, :, None])
        return le(left, v.values_star - v.values_gamma, quadratic, axes=BOUNDED)

    yield printed(
        of,
        r"-\langle\nabla L_k(x),z-y\rangle\le-L_k(z)+L_k(y)+\tfrac{\beta}{2}\|z-x\|^2"
        r"\quad(x=\tilde\theta_k^t,\ y=\theta_*,\ z=\gamma^{t-1})",
        wrong("quadratic term dropped", lambda: of(0)), note="checked where (33) uses it",
        proof="L_k(z) <= L_k(x) + <grad L_k(x), z - x> + beta/2 ||z - x||^2 by smoothness, less "
        "L_k(y) >= L_k(x) + <grad L_k(x), y - x> by convexity", holds=True,
    )


@about_a_round(
    "eq-16", source="Appendix B.1, (16) (Nesterov 2018, Theorem 2.1.5)", assumptions=CONVEX_SMOOTH,
    measures="mean squared distance of the gradients from those at the optimum, over 2 beta",
)
def eq_16(v):
    """gradients at the optimum are bounded by the suboptimality"""

    def of() -> Sides:
        return le(v.over_k(norm_sq(v.grad_gamma - v.grad_star)) / (2 * v.beta), v.D)

    yield printed(
        of,
        r"\frac{1}{2\beta m}\sum_k\|\nabla L_k(x)-\nabla L_k(x_*)\|^2\le R(x)-R(x_*)"
        r"\quad(x=\gamma^{t-1},\ x_*=\theta_*)",
        wrong("1/beta for 1/(2 beta)", lambda: le(2 * of().lhs, v.D)),
        wrong("10/(18 beta) for 1/(2 beta)", lambda: nine_tenths(of())),
        proof="Nesterov 2018, Theorem 2.1.5 at x and x_*, averaged over the clients, as grad "
        "R(x_*) = 0", holds=True,
    )


@about_a_round("eq-17", source="Appendix B.1, (17)", assumptions=ALGORITHM_3)
def eq_17(v):
    """relaxed triangle inequality"""

    def of(factor: int) -> Sides:
        apart = [v.stored - v.grad_star, v.grad_star - v.grad_gamma, v.grad_gamma - v.grad_tilde]
        parts = [*apart, -v.lambda1_s, -v.h[:, :, None] + 0 * v.stored]
        return le(norm_sq(sum(parts)), *(factor * norm_sq(p) for p in parts), axes=BOUNDED)

    yield printed(
        lambda: of(5),
        r"\Big\|\sum_{j=1}^n v_j\Big\|^2\le n\sum_{j=1}^n\|v_j\|^2\quad(n=5;\ "
        r"v=g_k-\nabla L_k(\theta_*),"
        r"\nabla L_k(\theta_*)-\nabla L_k(\gamma^{t-1}),"
        r"\nabla L_k(\gamma^{t-1})-\nabla L_k(\tilde\theta_k^t),"
        r"-\lambda_1s_k^t,-h^{t-1})", wrong("factor 1 for n", lambda: of(1)),
        note="checked at the vectors of (37), with s for the sign",
        proof="Jensen's inequality for the square of the norm", holds=True,
    )
