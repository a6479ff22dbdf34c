"""FedElasticNet, (11) and (14)-(22): the optimality condition, what smoothness gives, the definitions, Lemma B.2."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from fedtheory.theorems.core import Form, Mutant, Sides, Statement, eq, le
from fedtheory.theorems.fedelasticnet import SYMBOLS
from fedtheory.theorems.fedelasticnet_common import (
    ALGORITHM_3,
    BOTH_FAIL,
    BOTH_HOLD,
    CONVEX_SMOOTH,
    PRINTED_THRESHOLD,
    SMOOTH,
)
from fedtheory.theorems.views import RoundView, inner, norm_sq

__all__ = ["STATEMENTS"]


CLIENTS, COHORTS = ("state", "client"), ("state", "cohort")  # what entries are, where they are not states alone


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


def _value_noise(values: Any) -> Any:
    return 0 if values.dtype == object else 1e-14 * (1 + np.abs(values))


def _same_models(v: RoundView, tilde: Any) -> Sides:
    """theta_tilde_k = theta_k^t for the clients of each cohort: (S, C, m)."""
    part = v.members.astype(int)[None, :, :, None]
    return eq(tilde[:, None] * part, v.local_next * part, vector=True, axes=(*COHORTS, "client"))


def _stored_is_gradient(v: RoundView, gradient: Any = None) -> Sides:
    part = v.members.astype(int)[None, :, :, None]
    gradient = v.grad_tilde if gradient is None else gradient
    return eq(v.stored_next * part, gradient[:, None] * part, v.stored[:, None] * part, vector=True, axes=(*COHORTS, "client"))


def _c_from_the_gradients(v: RoundView) -> Sides:
    """C_t from what is stored against (20) with the gradients of L_k at theta_k^t, over all m clients."""
    gradients = v.losses.gradients_each(v.local_next)
    return eq(v.C_next, v.E(norm_sq(gradients - v.grad_star).sum(axis=2) / v.m))


def stored_virtual(v: RoundView) -> Any:
    """What each client would store if it took part: (S, m, d)."""
    return v.stored - v.lambda2 * v.delta - v.lambda1_sign if v.rule == "sign" else v.grad_tilde


def _c_recursion(v: RoundView, share: Any) -> Sides:
    new = v.mean_k(norm_sq(stored_virtual(v) - v.grad_star))
    return eq(v.C_next, (1 - share) * v.C + share * new, v.C, new)


def _epsilon_identity(v: RoundView, sign: int) -> Sides:
    shift = v.h[:, None, :] / v.lambda2
    return eq(v.epsilon, v.mean_k(norm_sq(v.delta - sign * shift)), v.mean_k(norm_sq(v.delta)), noise=v.noise_sq)


def _lemma_b2_literal(v: RoundView) -> Sides:
    grads = v.losses.gradients_each(v.local_next)
    return eq(v.h_next, grads.sum(axis=2) / v.m, v.stored.sum(axis=1)[:, None] / v.m, vector=True, axes=COHORTS)


_ALL = (
    Statement(
        "fedelasticnet/eq-11",
        "first-order condition of the local problem",
        "section 3.3, (11)",
        "round",
        (
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
            ),
        ),
        CONVEX_SMOOTH,
        SYMBOLS,
    ),
    Statement(
        "fedelasticnet/eq-12",
        "first-order condition where the model moves",
        "section 3.3, (12)",
        "round",
        (
            Form(
                "printed",
                r"\nabla L_k(\theta_k^t)_i-g_{k,i}+\lambda_2(\theta_k^t-\theta^{t-1})_i"
                r"=-\lambda_1\mathrm{sign}(\theta_k^t-\theta^{t-1})_i=\pm\lambda_1"
                r"\quad\text{for every }i\text{ with }(\theta_k^t)_i\neq(\theta^{t-1})_i",
                _on_support,
                BOTH_HOLD,
                note="(12) read coordinate by coordinate, which its 'i.e. sign = +-1' suggests",
                mutants=(Mutant("sign flipped", lambda v: _on_support(v, 1)),),
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
        ),
        CONVEX_SMOOTH,
        SYMBOLS,
    ),
    Statement(
        "fedelasticnet/eq-14",
        "beta-smoothness",
        "Definition B.0.1, (14)",
        "round",
        (
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
                ),
            ),
        ),
        SMOOTH,
        SYMBOLS,
        "assumption",
    ),
    Statement(
        "fedelasticnet/eq-15",
        "three-point inequality of convex smooth functions",
        "Appendix B.1, (15)",
        "round",
        (
            Form(
                "printed",
                r"-\langle\nabla L_k(x),z-y\rangle\le-L_k(z)+L_k(y)+\tfrac{\beta}{2}\|z-x\|^2"
                r"\quad(x=\tilde\theta_k^t,\ y=\theta_*,\ z=\gamma^{t-1})",
                _three_points,
                BOTH_HOLD,
                note="checked where (33) uses it",
                mutants=(Mutant("quadratic term dropped", lambda v: _three_points(v, with_quadratic=False)),),
            ),
        ),
        CONVEX_SMOOTH,
        SYMBOLS,
    ),
    Statement(
        "fedelasticnet/eq-16",
        "gradients at the optimum are bounded by the suboptimality",
        "Appendix B.1, (16) (Nesterov 2018, Theorem 2.1.5)",
        "round",
        (
            Form(
                "printed",
                r"\frac{1}{2\beta m}\sum_k\|\nabla L_k(x)-\nabla L_k(x_*)\|^2\le R(x)-R(x_*)"
                r"\quad(x=\gamma^{t-1},\ x_*=\theta_*)",
                lambda v: le(v.mean_k(norm_sq(v.grad_gamma - v.grad_star)) / (2 * v.beta), v.D, noise=v.noise_D),
                BOTH_HOLD,
                mutants=(
                    Mutant(
                        "1/beta for 1/(2 beta)",
                        lambda v: le(v.mean_k(norm_sq(v.grad_gamma - v.grad_star)) / v.beta, v.D, noise=v.noise_D),
                    ),
                ),
            ),
        ),
        CONVEX_SMOOTH,
        SYMBOLS,
    ),
    Statement(
        "fedelasticnet/eq-17",
        "relaxed triangle inequality",
        "Appendix B.1, (17)",
        "round",
        (
            Form(
                "printed",
                r"\Big\|\sum_{j=1}^n v_j\Big\|^2\le n\sum_{j=1}^n\|v_j\|^2\quad(n=5;\ v=g_k-\nabla L_k(\theta_*),"
                r"\nabla L_k(\theta_*)-\nabla L_k(\gamma^{t-1}),\nabla L_k(\gamma^{t-1})-\nabla L_k(\tilde\theta_k^t),"
                r"-\lambda_1s_k^t,-h^{t-1})",
                lambda v: _triangle(v, 5),
                BOTH_HOLD,
                note="checked at the vectors of (37), with s for the sign",
                mutants=(Mutant("factor 1 for n", lambda v: _triangle(v, 1)),),
            ),
        ),
        ALGORITHM_3,
        SYMBOLS,
    ),
    Statement(
        "fedelasticnet/eq-19",
        "theta_tilde_k is theta_k for the clients that take part",
        "Appendix B.2, (19)",
        "round",
        (
            Form(
                "printed",
                r"\tilde\theta_k^t=\theta_k^t\ \ (k\in\mathcal P_t),\quad\tilde\theta_k^t\text{ anchored at }\theta^{t-1}",
                lambda v: _same_models(v, v.tilde),
                BOTH_HOLD,
                mutants=(Mutant("anchored at gamma", lambda v: _same_models(v, v.tilde + v.h[:, None, :] / v.lambda2)),),
            ),
            Form(
                "Theorem 3.1's anchor",
                r"\tilde\theta_k^t=\theta_k^t\ \ (k\in\mathcal P_t),\quad\tilde\theta_k^t\text{ anchored at }\theta_k^{t-1}",
                lambda v: _same_models(v, v.tilde_own),
                BOTH_FAIL,
                note="Theorem 3.1 prints the local problem with theta_k^{t-1} for theta^{t-1}; Algorithm 3 does not solve that one",
            ),
        ),
        CONVEX_SMOOTH,
        SYMBOLS,
        "definition",
    ),
    Statement(
        "fedelasticnet/eq-20",
        "C_t, and what the stored gradient is",
        "Appendix B.2, (20)",
        "round",
        (
            Form(
                "printed",
                r"\tfrac1m\sum_{k\in[m]}\mathbb E\|g_k^t-\nabla L_k(\theta_*)\|^2"
                r"=\tfrac1m\sum_{k\in[m]}\mathbb E\|\nabla L_k(\theta_k^t)-\nabla L_k(\theta_*)\|^2",
                _c_from_the_gradients,
                BOTH_FAIL,
                note="the right side is C_t as (20) prints it, with gradients of L_k; the left one, from what is stored, is "
                "the C_t that (27) and (28) are about. Under the sign rule a stored vector is off by up to lambda_1 a "
                "coordinate, and under both rules a client never sampled stores 0, not its gradient at theta_k^0 = theta^0 "
                "(Algorithm 3 leaves theta_k^0 open)",
            ),
            Form(
                "clients that took part",
                r"g_k^t=\nabla L_k(\theta_k^t)\ \ (k\in\mathcal P_t)",
                _stored_is_gradient,
                {"sign": "violated", "true-gradient": "holds"},
                mutants=(Mutant("gradient at gamma", lambda v: _stored_is_gradient(v, v.grad_gamma)),),
                note="what is stored in the round itself: the gradient under the true-gradient rule only",
            ),
            Form(
                "repaired",
                r"C_t:=\tfrac1m\sum_k\mathbb E\|g_k^t-\nabla L_k(\theta_*)\|^2"
                r"=(1-\tfrac Pm)C_{t-1}+\tfrac Pm\cdot\tfrac1m\sum_k\|\tilde g_k^t-\nabla L_k(\theta_*)\|^2",
                lambda v: _c_recursion(v, v.P / v.m),
                BOTH_HOLD,
                note="C_t from the stored gradients; the identity is what (28) starts from, with tilde g_k what client k would store",
                mutants=(Mutant("as if everyone took part", lambda v: _c_recursion(v, 1)),),
            ),
        ),
        ALGORITHM_3,
        SYMBOLS,
        "definition",
    ),
    Statement(
        "fedelasticnet/eq-21",
        "epsilon_t",
        "Appendix B.2, (21)",
        "round",
        (
            Form(
                "printed",
                r"\epsilon_t=\tfrac1m\sum_k\mathbb E\|\tilde\theta_k^t-\gamma^{t-1}\|^2"
                r"=\tfrac1m\sum_k\mathbb E\|\tilde\theta_k^t-\theta^{t-1}-\tfrac1{\lambda_2}h^{t-1}\|^2",
                lambda v: _epsilon_identity(v, 1),
                BOTH_HOLD,
                mutants=(Mutant("sign of h", lambda v: _epsilon_identity(v, -1)),),
            ),
        ),
        ALGORITHM_3,
        SYMBOLS,
        "definition",
    ),
    Statement(
        "fedelasticnet/gamma",
        "gamma^t is both the cohort's mean model and theta^t + h^t/lambda_2",
        "Theorem B.1, definition of gamma^t",
        "round",
        (
            Form(
                "printed",
                r"\gamma^t=\frac1P\sum_{k\in\mathcal P_t}\theta_k^t=\theta^t+\frac1{\lambda_2}h^t\quad(t\ge1)",
                lambda v: eq(v.gamma_next, v.cohort_mean(v.local_next), v.theta_next, v.h_next / v.lambda2, vector=True, axes=COHORTS),
                BOTH_HOLD,
                note="gamma^0 is theta^0 + h^0/lambda_2: there is no cohort P_0",
                mutants=(
                    Mutant(
                        "minus h",
                        lambda v: eq(v.theta_next - v.h_next / v.lambda2, v.cohort_mean(v.local_next), vector=True, axes=COHORTS),
                    ),
                ),
            ),
        ),
        ALGORITHM_3,
        SYMBOLS,
        "definition",
    ),
    Statement(
        "fedelasticnet/lemma-b2",
        "h is the mean of the stored gradients",
        "Lemma B.2, (22)",
        "round",
        (
            Form(
                "printed",
                r"h^t=\frac1m\sum_{k\in[m]}\nabla L_k(\theta_k^t),\ \text{what is stored for }\nabla L_k(\theta_k^t)",
                lambda v: eq(v.h_next, v.stored_next.sum(axis=2) / v.m, v.h[:, None], vector=True, axes=COHORTS),
                BOTH_HOLD,
                note="with what line 5 stores for grad L_k(theta_k^t); its proof sums over [m] what is updated on P_t only",
                mutants=(
                    Mutant(
                        "mean over the cohort",
                        lambda v: eq(v.h_next, v.cohort_mean(v.stored_next), v.h[:, None], vector=True, axes=COHORTS),
                    ),
                ),
            ),
            Form(
                "literal",
                r"h^t=\frac1m\sum_{k\in[m]}\nabla L_k(\theta_k^t),\ \nabla L_k\text{ the gradient of }L_k",
                _lemma_b2_literal,
                BOTH_FAIL,
                note="the gradient at theta_k^t is not what is stored: under the sign rule it differs by up to lambda_1 a "
                "coordinate, and a client that never took part stores 0",
            ),
        ),
        ALGORITHM_3,
        SYMBOLS,
    ),
)

STATEMENTS = tuple(replace(s, witness_threshold=PRINTED_THRESHOLD) for s in _ALL)
