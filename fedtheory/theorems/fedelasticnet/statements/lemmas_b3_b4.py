"""FedElasticNet, (23)-(35): Lemmas B.3 and B.4, and what FedDyn's analysis lends, (27)-(29)."""

from typing import Any

import numpy as np

from fedtheory.theorems.fedelasticnet.notation import LAST_SIGN, PROOF_OF_B, SIGN_NOTE, nine_tenths
from fedtheory.theorems.fedelasticnet.one_round import about_a_round
from fedtheory.theorems.fedelasticnet.quantities import inner, norm_sq
from fedtheory.theory import Sides, eq, form, le, printed, repaired, wrong

__all__ = ["bend_with", "eq28_sign"]

# --- formulas: G is what is taken off g_k, S the subgradient or sign ------------------------------
_SIGN = r"\mathrm{sign}(\tilde\theta_k^t-\theta^{t-1})"
_SIGN_OF_COHORT = r"\mathrm{sign}(\theta_k^t-\theta^{t-1})"
_MOVE = r"\mathbb E[\gamma^t-\gamma^{t-1}]="
_A_NEXT = r"\mathbb E\|\gamma^t-\theta_*\|^2"
_MOVED = r"\mathbb E\|\gamma^t-\gamma^{t-1}\|^2"
_A = r"\|\gamma^{t-1}-\theta_*\|^2"
_DECREASE = r"-\tfrac2{\lambda_2}(R(\gamma^{t-1})-R(\theta_*))+\tfrac\beta{\lambda_2}\epsilon_t"


def _over_cohort(g: str, s: str) -> str:
    mean = r"\tfrac1{\lambda_2P}\sum_{k\in\mathcal P_t}(g_k-" + g + r"-\lambda_1 " + s + ")"
    return r"\mathbb E\Big[" + mean + r"-\tfrac1{\lambda_2}h^{t-1}\Big]"


def _over_all(s: str) -> str:
    each = r"(g_k-\nabla L_k(\tilde\theta_k^t)-\lambda_1 " + s + ")"
    return r"\tfrac1{\lambda_2m}\sum_k" + each + r"-\tfrac1{\lambda_2}h^{t-1}"


def _without_memory(s: str) -> str:
    gradients = r"-\tfrac1{\lambda_2m}\sum_k\nabla L_k(\tilde\theta_k^t)"
    return gradients + r"-\tfrac{\lambda_1}{\lambda_2m}\sum_k" + s


def _inner_products(s: str) -> str:
    return r"\tfrac2{\lambda_2m}\sum_k\langle\gamma^{t-1}-\theta_*,-\lambda_1 " + s + r"\rangle"


def _of_32(s: str) -> str:
    pull = r"-\nabla L_k(\tilde\theta_k^t)-\lambda_1 " + s
    inner_products = r"+\tfrac2{\lambda_2m}\sum_k\langle\gamma^{t-1}-\theta_*," + pull + r"\rangle"
    return _A + "+" + _MOVED + inner_products


_BENT = (
    r"\tfrac2{\lambda_2m}\sum_k[L_k(\theta_*)-L_k(\gamma^{t-1})"
    r"+\tfrac\beta2\|\tilde\theta_k^t-\gamma^{t-1}\|^2]"
)
_OF_33 = _A + "+" + _MOVED + "+" + _BENT + "+" + _inner_products(_SIGN)
_OF_34 = _A + "+" + _MOVED + _DECREASE + "+" + _inner_products(_SIGN)


# --- Lemma B.3 ------------------------------------------------------------------------------------
@about_a_round("lemma-b3", source="Lemma B.3")
def lemma_b3(v):
    """expected move of gamma"""

    def of(subgradient: Any) -> Sides:
        grad, sub = v.mean_k(v.grad_tilde) / v.lambda2, v.mean_k(subgradient) / v.lambda2
        return eq(v.drift, -grad - sub, grad, sub, v.h / v.lambda2, vector=True)

    yield printed(
        lambda: of(v.lambda1_sign), _MOVE + _without_memory(_SIGN), note=SIGN_NOTE, fails=True,
    )
    yield repaired(
        lambda: of(v.lambda1_s), _MOVE + _without_memory("s_k^t"),
        wrong("wrong sign of s", lambda: of(-v.lambda1_s)),
        wrong("s dropped", lambda: of(0 * v.lambda1_s)),
        proof="(23) repaired, a client's chance of P/m to be in the cohort, and h = mean_k g_k "
        "(Lemma B.2)", holds=True,
    )


@about_a_round("eq-23", source="proof of Lemma B.3, (23)")
def eq_23(v):
    """first step of Lemma B.3, by (11)"""
    of_sign = v.rule == "sign"

    def of(gradient: Any, subgradient: Any) -> Sides:
        change = v.E(v.cohort_mean(v.stored - gradient - subgradient)) / v.lambda2
        parts = (change, v.h / v.lambda2, v.mean_k(v.stored) / v.lambda2)
        return eq(v.drift, change - v.h / v.lambda2, *parts, vector=True)

    yield printed(
        lambda: of(v.grad_tilde, v.lambda1_sign),
        _MOVE + _over_cohort(r"\nabla L_k(\theta_k^t)", _SIGN_OF_COHORT),
        note=SIGN_NOTE, fails=True,
    )
    yield form(
        "stored gradient", lambda: of(v.stored_next, v.lambda1_sign),
        _MOVE + _over_cohort("g_k^t", _SIGN_OF_COHORT),
        wrong("wrong sign", lambda: of(v.stored_next, -v.lambda1_sign)),
        note="with g_k^t, what line 5 stores, for the gradient; under the sign rule this is line 5 "
        "itself, but then (33) may not use (15)",
        proof="line 5 of the sign rule, solved for theta_k - theta",
        holds=of_sign, fails=not of_sign,
    )
    yield repaired(
        lambda: of(v.grad_tilde, v.lambda1_s),
        _MOVE + _over_cohort(r"\nabla L_k(\theta_k^t)", "s_k^t"),
        wrong("s dropped", lambda: of(v.grad_tilde, 0 * v.lambda1_s)),
        proof="the definition of gamma, and (11) with s, solved for theta_k - theta", holds=True,
    )


@about_a_round("eq-24", source="proof of Lemma B.3, (24)")
def eq_24(v):
    """theta_k replaced by theta_tilde_k on the cohort"""

    def of(anchor: Any) -> Sides:
        local = v.local_next
        here = v.q.gradients_each(local) + v.lambda1 * np.sign(local - anchor[:, :, None])
        there, h = v.grad_tilde + v.lambda1_sign, v.h / v.lambda2
        left, right = (v.E(v.cohort_mean(v.stored - g)) / v.lambda2 - h for g in (here, there))
        parts = (v.mean_k(p) / v.lambda2 for p in (v.stored, v.grad_tilde))
        return eq(left, right, *parts, vector=True)

    yield printed(
        lambda: of(v.theta),
        _over_cohort(r"\nabla L_k(\theta_k^t)", _SIGN_OF_COHORT)
        + "=" + _over_cohort(r"\nabla L_k(\tilde\theta_k^t)", _SIGN),
        wrong("sign taken from gamma", lambda: of(v.gamma)),
        proof="theta_tilde_k = theta_k on the cohort (19)", holds=True,
    )


@about_a_round("eq-25", source="proof of Lemma B.3, (25)")
def eq_25(v):
    """uniform cohorts: the cohort's mean is the clients' mean in expectation"""

    def of(divisor: Any) -> Sides:
        each = v.stored - v.grad_tilde - v.lambda1_sign
        left = (v.E(v.cohort_mean(each)) * v.P / divisor - v.h) / v.lambda2
        parts = (v.mean_k(p) / v.lambda2 for p in (v.stored, v.grad_tilde))
        return eq(left, (v.mean_k(each) - v.h) / v.lambda2, *parts, vector=True)

    yield printed(
        lambda: of(v.P),
        _over_cohort(r"\nabla L_k(\tilde\theta_k^t)", _SIGN) + "=" + _over_all(_SIGN),
        wrong("divided by m, not by P", lambda: of(v.m)),
        proof="each client is in the cohort with probability P/m", holds=True,
    )


@about_a_round("eq-26", source="proof of Lemma B.3, (26)")
def eq_26(v):
    """the stored gradients cancel against h (Lemma B.2)"""

    def of(h: Any) -> Sides:
        stored, grad, sign = map(v.mean_k, (v.stored, v.grad_tilde, v.lambda1_sign))
        left, right = (stored - grad - sign - h) / v.lambda2, -(grad + sign) / v.lambda2
        return eq(left, right, *(p / v.lambda2 for p in (stored, v.h, grad)), vector=True)

    yield printed(
        lambda: of(v.h), _over_all(_SIGN) + "=" + _without_memory(_SIGN),
        wrong("h dropped", lambda: of(0 * v.h)), proof="h = mean_k g_k (Lemma B.2)", holds=True,
    )

# --- (27)-(29) ------------------------------------------------------------------------------------
@about_a_round(
    "eq-27", source="Appendix B.2, (27) (proof omitted there)",
    measures="squared norm of the server state h",
)
def eq_27(v):
    """h is bounded by C"""

    def of() -> Sides:
        return le(v.E(norm_sq(v.h_next)), v.C_next)

    yield printed(
        of, r"\mathbb E\|h^t\|^2\le C_t", wrong("nine tenths of C", lambda: nine_tenths(of())),
        wrong("half of C", lambda: le(of().lhs, v.C_next / 2)),
        proof="h is the mean of g_k - grad L_k(theta_*), as grad R(theta_*) = 0; Jensen's "
        "inequality", holds=True,
    )


def eq28_sign(v: Any, tau: Any = 2, with_floor: bool = True) -> tuple[Any, ...]:
    """Terms of (28) under the sign rule (Theorem B)."""
    b, share = v.beta, v.P / v.m
    floor = share * (1 + tau) / tau * v.lambda1 * v.lambda1 * v.zeros
    return (
        (1 - share) * v.C,
        share * (1 + tau) * 2 * b * b * v.epsilon,
        share * (1 + tau) * 4 * b * v.D,
        floor if with_floor else 0 * floor,
    )


@about_a_round(
    "eq-28", source="Appendix B.2, (28) (proof omitted there)",
    measures="mean squared error of the stored gradients after a round",
)
def eq_28(v):
    """recursion of C"""
    of_sign = v.rule == "sign"

    def of(d_factor: Any = 4, e_factor: Any = 2) -> Sides:
        b, share = v.beta, v.P / v.m
        gap = d_factor * b * share
        return le(v.C_next, (1 - share) * v.C, e_factor * b * b * share * v.epsilon, gap * v.D)

    yield printed(
        of, wrong("factor 4 dropped", lambda: of(0)),
        wrong("3.6 for 4", lambda: of(d_factor=36 * v.P / (10 * v.P))),
        wrong("1.8 for 2", lambda: of(e_factor=18 * v.P / (10 * v.P))),
        note="the l1 penalty does affect it under the sign rule: stored gradients are off by up to "
        "lambda_1 a coordinate",
        proof="(20) repaired, with ||grad L_k(y_k) - grad L_k(theta_*)||^2 split at gamma by (17), "
        "then (14) and (16)", fails=of_sign, holds=not of_sign,
    )
    yield repaired(
        lambda: le(v.C_next, *eq28_sign(v)),
        wrong("floor dropped", lambda: le(v.C_next, *eq28_sign(v, with_floor=False))),
        note="tau = 2; z_t is the mean number of zero coordinates of theta_tilde_k - theta",
        proof=PROOF_OF_B, holds=True,
    )


@about_a_round(
    "eq-29", source="Appendix B.2, (29) (proof omitted there)",
    measures="squared move of gamma in a round",
)
def eq_29(v):
    """gamma moves no further than the clients"""

    def of() -> Sides:
        return le(v.move, v.epsilon)

    yield printed(
        of, wrong("nine tenths of epsilon", lambda: nine_tenths(of())),
        wrong("half of epsilon", lambda: le(v.move, v.epsilon / 2)),
        after=r"=\frac1m\sum_k\mathbb E\|\tilde\theta_k^t-\gamma^{t-1}\|^2",
        proof="gamma^t is the mean of theta_tilde_k over a uniform cohort; Jensen's inequality",
        holds=True,
    )

# --- Lemma B.4 ------------------------------------------------------------------------------------
@about_a_round(
    "lemma-b4", source="Lemma B.4, (30)-(31)",
    measures="squared distance to the optimum after a round",
)
def lemma_b4(v):
    """one step of ||gamma - theta*||^2"""

    def of(subgradient: Any, last: int = 1, quadratic: int = 1) -> Sides:
        bent = quadratic * v.beta * v.epsilon / v.lambda2
        last_term = last * v.last_term(subgradient)
        return le(v.A_next, v.A, -2 * v.D / v.lambda2, bent, v.move, last_term)

    yield printed(lambda: of(v.lambda1_sign), note=SIGN_NOTE, fails=True)
    yield repaired(
        lambda: of(v.lambda1_s), wrong("sign of the last term", lambda: of(v.lambda1_s, last=-1)),
        wrong("epsilon term dropped", lambda: of(v.lambda1_s, quadratic=0)),
        proof="(32) repaired, then (33), (34) and (35) with s for the sign", holds=True,
    )


def _eq32(v: Any, subgradient: Any) -> list[Any]:
    pull = -2 * inner(v.away, v.mean_k(v.grad_tilde)) / v.lambda2
    return [v.A, v.move, pull, v.last_term(subgradient)]


def _eq33(v: Any, subgradient: Any, quadratic: int = 1) -> list[Any]:
    values = v.values_star - v.values_gamma
    bend = quadratic * v.beta * norm_sq(v.tilde - v.gamma[:, :, None]) / 2
    return [v.A, v.move, 2 * v.over_k(values + bend) / v.lambda2, v.last_term(subgradient)]


def _eq34(v: Any, subgradient: Any, excess: int = 2) -> list[Any]:
    """The inner products with -s_k are averaged after they are taken."""
    last = 2 * v.over_k(inner(-v.away[:, :, None], subgradient)) / v.lambda2
    return [v.A, v.move, -excess * v.D / v.lambda2, v.beta * v.epsilon / v.lambda2, last]


def bend_with(v: Any, subgradient: Any, quadratic: int = 1) -> Sides:
    """(33), with a subgradient of one's own for the sign that it prints."""
    return le(sum(_eq32(v, subgradient)), *_eq33(v, subgradient, quadratic))


@about_a_round("eq-32", source="proof of Lemma B.4, (32)")
def eq_32(v):
    """the square expanded, Lemma B.3 put in"""

    def of(subgradient: Any) -> Sides:
        terms = _eq32(v, subgradient)
        return eq(v.A_next, sum(terms), *terms)

    yield printed(
        lambda: of(v.lambda1_sign), _A_NEXT + "=" + _of_32(_SIGN), note=SIGN_NOTE, fails=True,
    )
    yield repaired(
        lambda: of(v.lambda1_s), _A_NEXT + "=" + _of_32("s_k^t"),
        wrong("s dropped", lambda: of(0 * v.lambda1_s)),
        proof="the square expanded, and Lemma B.3 repaired in the middle term", holds=True,
    )


@about_a_round("eq-33", source="proof of Lemma B.4, (33)")
def eq_33(v):
    """(15) applied to each client"""
    yield printed(
        lambda: bend_with(v, v.lambda1_sign), _of_32(_SIGN) + r"\le" + _OF_33,
        wrong("quadratic term dropped", lambda: bend_with(v, v.lambda1_sign, quadratic=0)),
        proof="(15) at x = theta_tilde_k, y = theta_* and z = gamma, averaged over the clients",
        holds=True,
    )


@about_a_round("eq-34", source="proof of Lemma B.4, (34)")
def eq_34(v):
    """definitions of R and epsilon put in"""

    def of(excess: int = 2) -> Sides:
        left, right = _eq33(v, v.lambda1_sign), _eq34(v, v.lambda1_sign, excess)
        return eq(sum(left), sum(right), *left, *right)

    yield printed(
        of, _OF_33 + "=" + _OF_34, wrong("factor 1 for 2", lambda: of(excess=1)),
        proof="the definitions of R and epsilon_t", holds=True,
    )


@about_a_round("eq-35", source="proof of Lemma B.4, (35)")
def eq_35(v):
    """the mean taken inside the inner product"""

    def of(factor: int = 1) -> Sides:
        left = _eq34(v, v.lambda1_sign)
        return eq(sum(left), sum(left[:4]) + factor * v.last_term(v.lambda1_sign), *left)

    yield printed(
        of, _OF_34 + "=" + _A + "+" + _MOVED + _DECREASE + LAST_SIGN,
        wrong("last term twice", lambda: of(factor=2)),
        proof="the inner product is linear", holds=True,
    )
