"""FedElasticNet, (19)-(22): what theta_tilde, C_t, epsilon_t and gamma^t are, and Lemma B.2."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedtheory.theorems.fedelasticnet.notation import (
    ALGORITHM_3,
    BOTH_FAIL,
    BOTH_HOLD,
    CONVEX_SMOOTH,
    statement,
)
from fedtheory.theorems.fedelasticnet.quantities import RoundView, norm_sq
from fedtheory.theory.judge.statement import Form, Mutant, Sides, Verdict, eq

__all__ = ["STATEMENTS"]

COHORTS = ("state", "cohort")  # what entries are, where they are not states alone
INDUCTION = (
    "The input grad L_k(theta_k^0) = 0 makes it true at the start, where g_k^0 = 0, and a client that stays away keeps both "
    "(line 9). So a round is judged as the step of an induction, with what is stored for the gradients of those that stay away"
)
BY_RULE: dict[str, Verdict] = {"sign": "violated", "true-gradient": "holds"}


def _same_models(v: RoundView, tilde: Any) -> Sides:
    """theta_tilde_k = theta_k^t for the clients of each cohort: (S, C, m)."""
    part = v.members.astype(int)[None, :, :, None]
    return eq(tilde[:, None] * part, v.local_next * part, vector=True, axes=(*COHORTS, "client"))


def _stored_is_gradient(v: RoundView, gradient: Any = None) -> Sides:
    part = v.members.astype(int)[None, :, :, None]
    gradient = v.grad_tilde if gradient is None else gradient
    return eq(v.stored_next * part, gradient[:, None] * part, v.stored[:, None] * part, vector=True, axes=(*COHORTS, "client"))


def _gradients(v: RoundView, of_members: Any) -> Any:
    """The clients' gradients after the round (S, C, m, d): of those in the cohort as given (S, m, d), of others what is stored."""
    return np.where(v.members[None, :, :, None], of_members[:, None], v.stored[:, None])


def _c_from_the_gradients(v: RoundView, of_members: Any) -> Sides:
    """C_t from what is stored against (20) with the gradients of L_k at theta_k^t, over all m clients."""
    return eq(v.C_next, v.E(norm_sq(_gradients(v, of_members) - v.grad_star).sum(axis=2) / v.m))


def stored_virtual(v: RoundView) -> Any:
    """The gradients that each client would store if it took part: (S, m, d)."""
    return v.stored - v.lambda2 * v.delta - v.lambda1_sign if v.rule == "sign" else v.grad_tilde


def _c_recursion(v: RoundView, share: Any) -> Sides:
    new = v.mean_k(norm_sq(stored_virtual(v) - v.grad_star))
    return eq(v.C_next, (1 - share) * v.C + share * new, v.C, new)


def _epsilon_identity(v: RoundView, sign: int) -> Sides:
    shift = v.h[:, None, :] / v.lambda2
    return eq(v.epsilon, v.mean_k(norm_sq(v.delta - sign * shift)), v.mean_k(norm_sq(v.delta)), noise=v.noise_sq)


def _lemma_b2_literal(v: RoundView, of_members: Any) -> Sides:
    mean = _gradients(v, of_members).sum(axis=2) / v.m
    return eq(v.h_next, mean, v.stored.sum(axis=1)[:, None] / v.m, vector=True, axes=COHORTS)


STATEMENTS = (
    statement(
        "eq-19",
        "theta_tilde_k is theta_k for the clients that take part",
        "Appendix B.2, (19)",
        Form(
            "printed",
            r"\tilde\theta_k^t=\theta_k^t\ \ (k\in\mathcal P_t),\quad\tilde\theta_k^t\text{ anchored at }\theta^{t-1}",
            lambda v: _same_models(v, v.tilde),
            BOTH_HOLD,
            mutants=(Mutant("anchored at gamma", lambda v: _same_models(v, v.tilde + v.h[:, None, :] / v.lambda2)),),
            proof="line 4 of Algorithm 3 is (19) for the clients of the cohort",
        ),
        Form(
            "Theorem 3.1's anchor",
            r"\tilde\theta_k^t=\theta_k^t\ \ (k\in\mathcal P_t),\quad\tilde\theta_k^t\text{ anchored at }\theta_k^{t-1}",
            lambda v: _same_models(v, v.tilde_own),
            BOTH_FAIL,
            note="Theorem 3.1 prints the local problem with theta_k^{t-1} for theta^{t-1}; Algorithm 3 does not solve that one",
        ),
        assumptions=CONVEX_SMOOTH,
        kind="definition",
    ),
    statement(
        "eq-20",
        "C_t, and what the stored gradient is",
        "Appendix B.2, (20)",
        Form(
            "printed",
            r"\tfrac1m\sum_{k\in[m]}\mathbb E\|g_k^t-\nabla L_k(\theta_*)\|^2"
            r"=\tfrac1m\sum_{k\in[m]}\mathbb E\|\nabla L_k(\theta_k^t)-\nabla L_k(\theta_*)\|^2",
            lambda v: _c_from_the_gradients(v, v.grad_tilde),
            BY_RULE,
            mutants=(Mutant("gradient at gamma", lambda v: _c_from_the_gradients(v, v.grad_gamma)),),
            note="the right side is C_t as (20) prints it, with gradients of L_k; the left one, from what is stored, is "
            f"the C_t that (27) and (28) are about. {INDUCTION}. Under the sign rule a stored vector is off by up to "
            "lambda_1 a coordinate. From theta_k^0 = theta^0 in place of the input it is false under both rules: a client "
            "never sampled stores 0, not its gradient there",
            proof="the step of the note's induction: a client of the cohort stores its gradient "
            "under the true-gradient rule, another one keeps both",
        ),
        Form(
            "clients that took part",
            r"g_k^t=\nabla L_k(\theta_k^t)\ \ (k\in\mathcal P_t)",
            _stored_is_gradient,
            BY_RULE,
            mutants=(Mutant("gradient at gamma", lambda v: _stored_is_gradient(v, v.grad_gamma)),),
            note="what is stored in the round itself: the gradient under the true-gradient rule only",
            proof="the definition of the true-gradient rule",
        ),
        Form(
            "repaired",
            r"C_t:=\tfrac1m\sum_k\mathbb E\|g_k^t-\nabla L_k(\theta_*)\|^2"
            r"=(1-\tfrac Pm)C_{t-1}+\tfrac Pm\cdot\tfrac1m\sum_k\|\tilde g_k^t-\nabla L_k(\theta_*)\|^2",
            lambda v: _c_recursion(v, v.P / v.m),
            BOTH_HOLD,
            note="C_t from the stored gradients; the identity is what (28) starts from, with tilde g_k what client k would store",
            mutants=(Mutant("as if everyone took part", lambda v: _c_recursion(v, 1)),),
            proof="a client is in the cohort with probability P/m, and keeps what it stored "
            "otherwise (line 9)",
        ),
        assumptions=ALGORITHM_3,
        kind="definition",
    ),
    statement(
        "eq-21",
        "epsilon_t",
        "Appendix B.2, (21)",
        Form(
            "printed",
            r"\epsilon_t=\tfrac1m\sum_k\mathbb E\|\tilde\theta_k^t-\gamma^{t-1}\|^2"
            r"=\tfrac1m\sum_k\mathbb E\|\tilde\theta_k^t-\theta^{t-1}-\tfrac1{\lambda_2}h^{t-1}\|^2",
            lambda v: _epsilon_identity(v, 1),
            BOTH_HOLD,
            mutants=(Mutant("sign of h", lambda v: _epsilon_identity(v, -1)),),
            proof="the definition of gamma",
        ),
        assumptions=ALGORITHM_3,
        kind="definition",
    ),
    statement(
        "gamma",
        "gamma^t is both the cohort's mean model and theta^t + h^t/lambda_2",
        "Theorem B.1, definition of gamma^t",
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
            proof="line 12 of Algorithm 3, with h^t/lambda_2 brought to the other side",
        ),
        assumptions=ALGORITHM_3,
        kind="definition",
    ),
    statement(
        "lemma-b2",
        "h is the mean of the stored gradients",
        "Lemma B.2, (22)",
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
            proof="induction over the rounds: lines 5 and 11 change the mean of what is stored "
            "and h by the same, line 9 neither",
        ),
        Form(
            "literal",
            r"h^t=\frac1m\sum_{k\in[m]}\nabla L_k(\theta_k^t),\ \nabla L_k\text{ the gradient of }L_k",
            lambda v: _lemma_b2_literal(v, v.grad_tilde),
            BY_RULE,
            mutants=(Mutant("gradient at gamma", lambda v: _lemma_b2_literal(v, v.grad_gamma)),),
            note=f"{INDUCTION}. Under the sign rule what is stored differs from the gradient by up to lambda_1 a coordinate. "
            "From theta_k^0 = theta^0 in place of the input it is false under both rules, as (20) is",
            proof="the step of the note's induction: a client of the cohort stores its gradient "
            "under the true-gradient rule, another one keeps both; then the printed form",
        ),
        assumptions=ALGORITHM_3,
    ),
)
