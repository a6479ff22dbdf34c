"""FedElasticNet, (11), (12), (14)-(17) and (19)-(22): optimality, smoothness, and what letters stand for."""

from fractions import Fraction
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
    yield printed(
        lambda: le(v.over_k(norm_sq(v.grad_gamma - v.grad_star)) / (2 * v.beta), v.D),
        r"\frac{1}{2\beta m}\sum_k\|\nabla L_k(x)-\nabla L_k(x_*)\|^2\le R(x)-R(x_*)"
        r"\quad(x=\gamma^{t-1},\ x_*=\theta_*)",
        wrong("1/beta for 1/(2 beta)", share=Fraction(1, 2)),
        wrong("10/(18 beta) for 1/(2 beta)", share=Fraction(9, 10)),
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


COHORTS = ("state", "cohort")  # what entries are, where they are not states alone
OF_COHORTS = (*COHORTS, "client")
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
        return eq(tilde * part, v.local_next * part, vector=True, axes=OF_COHORTS)

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
        return eq(v.stored_next * part, gradient * part, v.stored * part, vector=True, axes=OF_COHORTS)

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
