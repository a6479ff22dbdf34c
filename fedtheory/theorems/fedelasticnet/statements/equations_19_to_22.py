"""FedElasticNet, (19)-(22): what theta_tilde, C_t, epsilon_t and gamma^t are, and Lemma B.2."""

from typing import Any

import numpy as np

from fedtheory.theorems.fedelasticnet.notation import ALGORITHM_3, CONVEX_SMOOTH
from fedtheory.theorems.fedelasticnet.one_round import about_a_round
from fedtheory.theorems.fedelasticnet.quantities import norm_sq
from fedtheory.theory import Sides, eq, form, printed, repaired, wrong

COHORTS = ("state", "cohort")  # what entries are, where they are not states alone
CLIENTS = (*COHORTS, "client")
INDUCTION = (
    "The input grad L_k(theta_k^0) = 0 makes it true at the start, where g_k^0 = 0, and a client "
    "that stays away keeps both (line 9). So a round is judged as the step of an induction, with "
    "what is stored for the gradients of those that stay away"
)


def _gradients(v: Any, of_members: Any) -> Any:
    """The clients' gradients after the round (S, C, m, d): of those in the cohort as given, of
    others what is stored."""
    return np.where(v.members == 1, of_members, v.stored)


@about_a_round("eq-19", source="Appendix B.2, (19)", assumptions=CONVEX_SMOOTH)
def eq_19(v):
    """theta_tilde_k is theta_k for the clients that take part"""

    def of(tilde: Any) -> Sides:
        part = v.members
        return eq(tilde * part, v.local_next * part, vector=True, axes=CLIENTS)

    same = r"\tilde\theta_k^t=\theta_k^t\ \ (k\in\mathcal P_t)"
    words = same + r",\quad\tilde\theta_k^t\text{ anchored at }"
    yield printed(
        lambda: of(v.tilde), words + r"\theta^{t-1}",
        wrong("anchored at gamma", lambda: of(v.tilde + v.h[:, :, None] / v.lambda2)),
        proof="line 4 of Algorithm 3 is (19) for the clients of the cohort", holds=True,
    )
    yield form(
        "Theorem 3.1's anchor", lambda: of(v.tilde_own), words + r"\theta_k^{t-1}",
        note="Theorem 3.1 prints the local problem with theta_k^{t-1} for theta^{t-1}; Algorithm 3 "
        "does not solve that one", fails=True,
    )


@about_a_round("eq-20", source="Appendix B.2, (20)", assumptions=ALGORITHM_3)
def eq_20(v):
    """C_t, and what the stored gradient is"""

    def c_t(of_members: Any) -> Sides:
        apart = norm_sq(_gradients(v, of_members) - v.grad_star)
        return eq(v.C_next, v.E(v.over_k(apart)))

    def stored(gradient: Any) -> Sides:
        part = v.members
        return eq(v.stored_next * part, gradient * part, v.stored * part, vector=True, axes=CLIENTS)

    def recursion(share: Any) -> Sides:
        own = v.stored - v.lambda2 * v.delta - v.lambda1_sign if v.rule == "sign" else v.grad_tilde
        new = v.over_k(norm_sq(own - v.grad_star))
        return eq(v.C_next, (1 - share) * v.C + share * new, v.C, new)

    yield printed(
        lambda: c_t(v.grad_tilde),
        r"\tfrac1m\sum_{k\in[m]}\mathbb E\|g_k^t-\nabla L_k(\theta_*)\|^2"
        r"=\tfrac1m\sum_{k\in[m]}\mathbb E\|\nabla L_k(\theta_k^t)-\nabla L_k(\theta_*)\|^2",
        wrong("gradient at gamma", lambda: c_t(v.grad_gamma)),
        note="the right side is C_t as (20) prints it, with gradients of L_k; the left one, from "
        f"what is stored, is the C_t that (27) and (28) are about. {INDUCTION}. Under the sign "
        "rule a stored vector is off by up to lambda_1 a coordinate. From theta_k^0 = theta^0 in "
        "place of the input it is false under both rules: a client never sampled stores 0, not "
        "its gradient there",
        proof="the step of the note's induction: a client of the cohort stores its gradient under "
        "the true-gradient rule, another one keeps both", fails=v.rule == "sign", holds=v.rule != "sign",
    )
    yield form(
        "clients that took part", lambda: stored(v.grad_tilde),
        r"g_k^t=\nabla L_k(\theta_k^t)\ \ (k\in\mathcal P_t)",
        wrong("gradient at gamma", lambda: stored(v.grad_gamma)),
        note="what is stored in the round itself: the gradient under the true-gradient rule only",
        proof="the definition of the true-gradient rule",
        fails=v.rule == "sign", holds=v.rule != "sign",
    )
    yield repaired(
        lambda: recursion(v.P / v.m),
        r"C_t:=\tfrac1m\sum_k\mathbb E\|g_k^t-\nabla L_k(\theta_*)\|^2"
        r"=(1-\tfrac Pm)C_{t-1}"
        r"+\tfrac Pm\cdot\tfrac1m\sum_k\|\tilde g_k^t-\nabla L_k(\theta_*)\|^2",
        wrong("as if everyone took part", lambda: recursion(1)),
        note="C_t from the stored gradients; the identity is what (28) starts from, with tilde g_k "
        "what client k would store",
        proof="a client is in the cohort with probability P/m, and keeps what it stored otherwise "
        "(line 9)", holds=True,
    )


@about_a_round("eq-21", source="Appendix B.2, (21)", assumptions=ALGORITHM_3)
def eq_21(v):
    """epsilon_t"""

    def of(sign: int = 1) -> Sides:
        moved, gamma = v.delta - sign * v.h[:, :, None] / v.lambda2, v.gamma[:, :, None]
        off = v.q.rounding(abs(v.tilde) + abs(gamma))  # where models are added up, on one side only
        noise = v.over_k((off * (off + 2 * abs(moved))).sum(axis=-1))
        return eq(v.epsilon, v.over_k(norm_sq(moved)), v.over_k(norm_sq(v.delta)), noise=noise)

    yield printed(
        of,
        r"\epsilon_t=\tfrac1m\sum_k\mathbb E\|\tilde\theta_k^t-\gamma^{t-1}\|^2"
        r"=\tfrac1m\sum_k\mathbb E\|\tilde\theta_k^t-\theta^{t-1}-\tfrac1{\lambda_2}h^{t-1}\|^2",
        wrong("sign of h", lambda: of(-1)), proof="the definition of gamma", holds=True,
    )


@about_a_round("gamma", source="Theorem B.1, definition of gamma^t", assumptions=ALGORITHM_3)
def gamma(v):
    """gamma^t is both the cohort's mean model and theta^t + h^t/lambda_2"""

    def of(sign: int = 1) -> Sides:
        h, mean = sign * v.h_next / v.lambda2, v.cohort_mean(v.local_next)
        return eq(v.theta_next + h, mean, v.theta_next, h, vector=True, axes=COHORTS)

    yield printed(
        of,
        r"\gamma^t=\frac1P\sum_{k\in\mathcal P_t}\theta_k^t"
        r"=\theta^t+\frac1{\lambda_2}h^t\quad(t\ge1)", wrong("minus h", lambda: of(-1)),
        note="gamma^0 is theta^0 + h^0/lambda_2: there is no cohort P_0",
        proof="line 12 of Algorithm 3, with h^t/lambda_2 brought to the other side", holds=True,
    )


@about_a_round("lemma-b2", source="Lemma B.2, (22)", assumptions=ALGORITHM_3)
def lemma_b2(v):
    """h is the mean of the stored gradients"""

    def of(mean: Any) -> Sides:
        return eq(v.h_next, mean, v.h, vector=True, axes=COHORTS)

    def literal(of_members: Any) -> Sides:
        return of(v.mean_k(_gradients(v, of_members)))

    words = r"h^t=\frac1m\sum_{k\in[m]}\nabla L_k(\theta_k^t),\ "
    yield printed(
        lambda: of(v.mean_k(v.stored_next)),
        words + r"\text{what is stored for }\nabla L_k(\theta_k^t)",
        wrong("mean over the cohort", lambda: of(v.cohort_mean(v.stored_next))),
        note="with what line 5 stores for grad L_k(theta_k^t); its proof sums over [m] what is "
        "updated on P_t only",
        proof="induction over the rounds: lines 5 and 11 change the mean of what is stored and h "
        "by the same, line 9 neither", holds=True,
    )
    yield form(
        "literal", lambda: literal(v.grad_tilde), words + r"\nabla L_k\text{ the gradient of }L_k",
        wrong("gradient at gamma", lambda: literal(v.grad_gamma)),
        note=f"{INDUCTION}. Under the sign rule what is stored differs from the gradient by up to "
        "lambda_1 a coordinate. From theta_k^0 = theta^0 in place of the input it is false under "
        "both rules, as (20) is",
        proof="the step of the note's induction: a client of the cohort stores its gradient under "
        "the true-gradient rule, another one keeps both; then the printed form",
        fails=v.rule == "sign", holds=v.rule != "sign",
    )
