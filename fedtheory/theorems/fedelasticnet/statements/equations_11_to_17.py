"""FedElasticNet, (11), (12) and (14)-(17): the optimality condition, and what smoothness gives."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedtheory.theorems.fedelasticnet.notation import (
    ALGORITHM_3,
    BOTH_FAIL,
    BOTH_HOLD,
    CONVEX_SMOOTH,
    SMOOTH,
    nine_tenths,
    statement,
)
from fedtheory.theorems.fedelasticnet.quantities import RoundView, inner, norm_sq
from fedtheory.theory.judge.statement import Form, Mutant, Sides, eq, le

__all__ = ["STATEMENTS"]


CLIENTS = ("state", "client")  # what entries are, where they are not states alone


def _first_order(v: RoundView, subgradient: Any) -> Sides:
    pull = v.lambda2 * v.delta
    parts = (v.grad_tilde, v.stored, pull, subgradient)
    return eq(v.grad_tilde - v.stored + pull + subgradient, 0, *parts, vector=True, noise=_pull_noise(v), axes=CLIENTS)


def _pull_noise(v: RoundView) -> Any:
    """lambda_2 times the rounding error of theta_tilde - theta: (S, 1)."""
    return (v.lambda2 * v.position_noise)[:, None]


def _on_support(v: RoundView, sign: int = -1) -> Sides:
    """(12) in the coordinates that move."""
    pull = v.lambda2 * v.delta
    moved = np.asarray(v.delta != 0).astype(int)
    parts = (v.grad_tilde, v.stored, pull)
    left = (v.grad_tilde - v.stored + pull) * moved
    return eq(left, sign * v.lambda1_sign, *parts, vector=True, noise=_pull_noise(v), axes=CLIENTS)


def _where_the_model_moves(v: RoundView) -> Sides:
    """(12) in every coordinate of a model that moves in some coordinate."""
    pull = v.lambda2 * v.delta
    moved = np.asarray(v.delta != 0).astype(int).max(axis=-1)[..., None]
    parts = (v.grad_tilde, v.stored, pull)
    left = abs(v.grad_tilde - v.stored + pull) * moved
    return eq(left, v.lambda1 * moved, *parts, vector=True, noise=_pull_noise(v), axes=CLIENTS)


def _five_vectors(v: RoundView) -> list[Any]:
    """The five differences the proof of Lemma B.5 adds up in (37)."""
    return [
        v.stored - v.grad_star,
        v.grad_star - v.grad_gamma,
        v.grad_gamma - v.grad_tilde,
        -v.lambda1_s,
        -v.h[:, None, :] + 0 * v.stored,
    ]


def _triangle(v: RoundView, factor: int) -> Sides:
    parts = _five_vectors(v)
    return le(norm_sq(sum(parts[1:], parts[0])), *[factor * norm_sq(p) for p in parts], axes=CLIENTS)


def _smooth(v: RoundView, divisor: int = 1) -> Sides:
    """(14) squared, at x = theta_tilde_k, y = gamma^{t-1}."""
    apart = norm_sq(v.tilde - v.gamma[:, None, :])
    noise = v.beta * v.beta * v.noise_of_sq(apart)
    return le(norm_sq(v.grad_tilde - v.grad_gamma), v.beta * v.beta * apart / divisor, noise=noise, axes=CLIENTS)


def _three_points(v: RoundView, with_quadratic: bool = True) -> Sides:
    """(15) at x = theta_tilde_k, y = theta*, z = gamma^{t-1}, as (33) uses it."""
    star = v.losses.theta_star
    at_gamma, at_star = v.losses.values(v.gamma), v.losses.values(star)
    lhs = -inner(v.grad_tilde, v.gamma[:, None, :] - star)
    quadratic = v.beta * norm_sq(v.gamma[:, None, :] - v.tilde) / 2
    return le(lhs, at_star - at_gamma, quadratic if with_quadratic else 0 * quadratic, noise=_value_noise(at_gamma), axes=CLIENTS)


def _cocoercive(v: RoundView) -> Sides:
    """(16) at x = gamma^{t-1}."""
    return le(v.mean_k(norm_sq(v.grad_gamma - v.grad_star)) / (2 * v.beta), v.D, noise=v.noise_D)


def _value_noise(values: Any) -> Any:
    return 0 if values.dtype == object else 1e-14 * (1 + np.abs(values))


STATEMENTS = (
    statement(
        "eq-11",
        "first-order condition of the local problem",
        "section 3.3, (11)",
        Form(
            "printed",
            r"\nabla L_k(\theta_k^t)-g_k+\lambda_2(\theta_k^t-\theta^{t-1})"
            r"+\lambda_1\,\mathrm{sign}(\theta_k^t-\theta^{t-1})=0",
            lambda v: _first_order(v, v.lambda1_sign),
            BOTH_FAIL,
            note="at a zero coordinate of the update the condition holds with a subgradient in [-1, 1], not with sign(0) = 0",
        ),
        Form(
            "repaired",
            r"\nabla L_k(\theta_k^t)-g_k+\lambda_2(\theta_k^t-\theta^{t-1})+\lambda_1 s_k^t=0,"
            r"\quad s_k^t\in\partial\|\cdot\|_1(\theta_k^t-\theta^{t-1})",
            lambda v: _first_order(v, v.lambda1_s),
            BOTH_HOLD,
            mutants=(
                Mutant("wrong sign of s", lambda v: _first_order(v, -v.lambda1_s)),
                Mutant("s dropped", lambda v: _first_order(v, 0 * v.lambda1_s)),
            ),
            proof="0 is a subgradient of what the client minimises at its minimiser",
        ),
        assumptions=CONVEX_SMOOTH,
    ),
    statement(
        "eq-12",
        "first-order condition where the model moves",
        "section 3.3, (12)",
        Form(
            "printed",
            r"\nabla L_k(\theta_k^t)_i-g_{k,i}+\lambda_2(\theta_k^t-\theta^{t-1})_i"
            r"=-\lambda_1\mathrm{sign}(\theta_k^t-\theta^{t-1})_i=\pm\lambda_1"
            r"\quad\text{for every }i\text{ with }(\theta_k^t)_i\neq(\theta^{t-1})_i",
            _on_support,
            BOTH_HOLD,
            note="(12) read coordinate by coordinate, which its 'i.e. sign = +-1' suggests",
            mutants=(Mutant("sign flipped", lambda v: _on_support(v, 1)),),
            proof="(11) with s, which is the sign where a coordinate moves",
        ),
        Form(
            "printed, as vectors",
            r"\theta_k^t\neq\theta^{t-1}\ \Rightarrow\ "
            r"\nabla L_k(\theta_k^t)_i-g_{k,i}+\lambda_2(\theta_k^t-\theta^{t-1})_i=\pm\lambda_1\quad\text{for all }i",
            _where_the_model_moves,
            BOTH_FAIL,
            note="(12) read as an equation of vectors, lambda_1 being 'a vectorized one': a model that moves may keep "
            "coordinates, and there the left side lies anywhere in [-lambda_1, lambda_1]; with one coordinate the two "
            "readings agree",
        ),
        assumptions=CONVEX_SMOOTH,
    ),
    statement(
        "eq-14",
        "beta-smoothness",
        "Definition B.0.1, (14)",
        Form(
            "printed",
            r"\|\nabla L_k(x)-\nabla L_k(y)\|\le\beta\|x-y\|\quad(x=\tilde\theta_k^t,\ y=\gamma^{t-1})",
            _smooth,
            BOTH_HOLD,
            note="checked squared, where Lemma B.5 uses it",
            mutants=(
                Mutant(
                    "half of beta",
                    lambda v: _smooth(v, 4),
                ),
                Mutant("a tenth less than beta^2", lambda v: nine_tenths(_smooth(v))),
            ),
            proof="the definition of beta-smoothness, squared",
        ),
        assumptions=SMOOTH,
        kind="assumption",
        measures="distance between two gradients",
    ),
    statement(
        "eq-15",
        "three-point inequality of convex smooth functions",
        "Appendix B.1, (15)",
        Form(
            "printed",
            r"-\langle\nabla L_k(x),z-y\rangle\le-L_k(z)+L_k(y)+\tfrac{\beta}{2}\|z-x\|^2"
            r"\quad(x=\tilde\theta_k^t,\ y=\theta_*,\ z=\gamma^{t-1})",
            _three_points,
            BOTH_HOLD,
            note="checked where (33) uses it",
            mutants=(Mutant("quadratic term dropped", lambda v: _three_points(v, with_quadratic=False)),),
            proof="L_k(z) <= L_k(x) + <grad L_k(x), z - x> + beta/2 ||z - x||^2 by smoothness, "
            "less L_k(y) >= L_k(x) + <grad L_k(x), y - x> by convexity",
        ),
        assumptions=CONVEX_SMOOTH,
    ),
    statement(
        "eq-16",
        "gradients at the optimum are bounded by the suboptimality",
        "Appendix B.1, (16) (Nesterov 2018, Theorem 2.1.5)",
        Form(
            "printed",
            r"\frac{1}{2\beta m}\sum_k\|\nabla L_k(x)-\nabla L_k(x_*)\|^2\le R(x)-R(x_*)"
            r"\quad(x=\gamma^{t-1},\ x_*=\theta_*)",
            _cocoercive,
            BOTH_HOLD,
            mutants=(
                Mutant(
                    "1/beta for 1/(2 beta)",
                    lambda v: le(v.mean_k(norm_sq(v.grad_gamma - v.grad_star)) / v.beta, v.D, noise=v.noise_D),
                ),
                Mutant("10/(18 beta) for 1/(2 beta)", lambda v: nine_tenths(_cocoercive(v))),
            ),
            proof="Nesterov 2018, Theorem 2.1.5 at x and x_*, averaged over the clients, as grad "
            "R(x_*) = 0",
        ),
        assumptions=CONVEX_SMOOTH,
        measures="mean squared distance of the gradients from those at the optimum, over 2 beta",
    ),
    statement(
        "eq-17",
        "relaxed triangle inequality",
        "Appendix B.1, (17)",
        Form(
            "printed",
            r"\Big\|\sum_{j=1}^n v_j\Big\|^2\le n\sum_{j=1}^n\|v_j\|^2\quad(n=5;\ v=g_k-\nabla L_k(\theta_*),"
            r"\nabla L_k(\theta_*)-\nabla L_k(\gamma^{t-1}),\nabla L_k(\gamma^{t-1})-\nabla L_k(\tilde\theta_k^t),"
            r"-\lambda_1s_k^t,-h^{t-1})",
            lambda v: _triangle(v, 5),
            BOTH_HOLD,
            note="checked at the vectors of (37), with s for the sign",
            mutants=(Mutant("factor 1 for n", lambda v: _triangle(v, 1)),),
            proof="Jensen's inequality for the square of the norm",
        ),
        assumptions=ALGORITHM_3,
    ),
)
