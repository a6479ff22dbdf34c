"""FedElasticNet, (23)-(35): Lemmas B.3 and B.4, and what FedDyn's analysis lends, (27)-(29)."""

from __future__ import annotations

from typing import Any

from fedtheory.theorems.fedelasticnet.letters import ROUND
from fedtheory.theorems.fedelasticnet.notation import (
    BOTH_FAIL,
    BOTH_HOLD,
    LAST_SIGN,
    PROOF_OF_B,
    SIGN_NOTE,
    nine_tenths,
    statement,
)
from fedtheory.theorems.fedelasticnet.quantities import RoundView, inner, norm_sq, sgn
from fedtheory.theory.judge.statement import Sides, eq, form, le
from fedtheory.theory.judge.symbolic import closed

__all__ = ["STATEMENTS", "bend_with", "eq28_sign"]


# --- Lemma B.3 --------------------------------------------------------------------------------------------------------
def _b3(v: RoundView, subgradient: Any) -> Sides:
    grad, sub = v.mean_k(v.grad_tilde) / v.lambda2, v.mean_k(subgradient) / v.lambda2
    return eq(v.drift, -grad - sub, grad, sub, v.h / v.lambda2, vector=True, noise=v.position_noise)


def _eq23(v: RoundView, gradient: Any, subgradient: Any) -> Sides:
    change = v.E(v.cohort_mean(v.stored[:, None] - gradient - subgradient)) / v.lambda2
    parts = (change, v.h / v.lambda2, v.mean_k(v.stored) / v.lambda2)
    return eq(v.drift, change - v.h / v.lambda2, *parts, vector=True, noise=v.position_noise)


def _eq24(v: RoundView, anchor: Any) -> Sides:
    """Cohort means computed from theta_k^t of each cohort, and from theta_tilde."""
    here = v.losses.gradients_each(v.local_next) + v.lambda1 * sgn(v.local_next - anchor[:, None, None, :])
    there = v.grad_tilde + v.lambda1_sign
    left = v.E(v.cohort_mean(v.stored[:, None] - here)) / v.lambda2 - v.h / v.lambda2
    right = v.E(v.cohort_mean(v.stored - there)) / v.lambda2 - v.h / v.lambda2
    return eq(left, right, v.mean_k(v.stored) / v.lambda2, v.mean_k(v.grad_tilde) / v.lambda2, vector=True)


def _eq25(v: RoundView, divisor: Any) -> Sides:
    each = v.stored - v.grad_tilde - v.lambda1_sign
    left = (v.E(v.cohort_mean(each)) * v.P / divisor - v.h) / v.lambda2
    parts = (v.mean_k(p) / v.lambda2 for p in (v.stored, v.grad_tilde))
    return eq(left, (v.mean_k(each) - v.h) / v.lambda2, *parts, vector=True)


def _eq26(v: RoundView, h: Any) -> Sides:
    left = (v.mean_k(v.stored - v.grad_tilde - v.lambda1_sign) - h) / v.lambda2
    right = -v.mean_k(v.grad_tilde) / v.lambda2 - v.mean_k(v.lambda1_sign) / v.lambda2
    return eq(left, right, *(p / v.lambda2 for p in (v.mean_k(v.stored), v.h, v.mean_k(v.grad_tilde))), vector=True)


# --- (27)-(29) --------------------------------------------------------------------------------------------------------
def _eq27(v: RoundView) -> Sides:
    return le(v.E(norm_sq(v.h_next)), v.C_next)


def _eq28(v: RoundView, d_factor: Any = 4, e_factor: Any = 2) -> Sides:
    b, share = v.beta, v.P / v.m
    gap = d_factor * b * share
    return le(v.C_next, (1 - share) * v.C, e_factor * b * b * share * v.epsilon, gap * v.D, noise=gap * v.noise_D)


def eq28_sign(v: RoundView, tau: Any = 2, with_floor: bool = True) -> tuple[Any, ...]:
    """Terms of (28) under the sign rule (Theorem B)."""
    b, share = v.beta, v.P / v.m
    floor = share * (1 + 1 / (v.P / v.P * tau)) * v.lambda1 * v.lambda1 * v.zeros
    return (
        (1 - share) * v.C,
        share * (1 + tau) * 2 * b * b * v.epsilon,
        share * (1 + tau) * 4 * b * v.D,
        floor if with_floor else 0 * floor,
    )


def _eq28_sign(v: RoundView, with_floor: bool = True) -> Sides:
    return le(v.C_next, *eq28_sign(v, 2, with_floor), noise=12 * v.beta * v.noise_D)


def _eq29(v: RoundView) -> Sides:
    return le(v.move, v.epsilon, noise=v.noise_sq)


# --- Lemma B.4 --------------------------------------------------------------------------------------------------------
def _b4(v: RoundView, subgradient: Any, last: int = 1, quadratic: int = 1) -> Sides:
    l2 = v.lambda2
    return le(
        v.A_next,
        v.A,
        -2 * v.D / l2,
        quadratic * v.beta * v.epsilon / l2,
        v.move,
        last * v.last_term(subgradient),
        noise=2 * v.noise_D / l2 + v.noise_A,
    )


def _eq32_rhs(v: RoundView, subgradient: Any) -> list[Any]:
    away = v.gamma - v.losses.theta_star
    return [v.A, v.move, -2 * inner(away, v.mean_k(v.grad_tilde)) / v.lambda2, v.last_term(subgradient)]


def _eq32(v: RoundView, subgradient: Any) -> Sides:
    terms = _eq32_rhs(v, subgradient)
    return eq(v.A_next, terms[0] + terms[1] + terms[2] + terms[3], *terms, noise=v.noise_A)


def _eq33_rhs(v: RoundView, subgradient: Any, quadratic: int = 1) -> list[Any]:
    values = v.losses.values(v.losses.theta_star) - v.losses.values(v.gamma)
    bend = quadratic * v.beta * norm_sq(v.tilde - v.gamma[:, None, :]) / 2
    return [v.A, v.move, 2 * v.mean_k(values + bend) / v.lambda2, v.last_term(subgradient)]


def _eq33(v: RoundView, subgradient: Any, quadratic: int = 1) -> Sides:
    left = _eq32_rhs(v, subgradient)
    noise = (v.noise_D + 1e-13 * abs(v.losses.values(v.gamma)).sum(axis=-1)) / v.lambda2 if v.noise_D.dtype != object else 0
    return le(left[0] + left[1] + left[2] + left[3], *_eq33_rhs(v, subgradient, quadratic), noise=noise + v.noise_A)


def bend_with(v: RoundView, subgradient: Any) -> Sides:
    """(33), with a subgradient of one's own for the sign that it prints."""
    return _eq33(v, subgradient)


def _eq34_rhs(v: RoundView, subgradient: Any, excess: int = 2) -> list[Any]:
    each = v.losses.theta_star - v.gamma  # <gamma - theta*, -s_k>, averaged after the inner product
    last = 2 * v.mean_k(inner(each[:, None, :], subgradient)) / v.lambda2
    return [v.A, v.move, -excess * v.D / v.lambda2, v.beta * v.epsilon / v.lambda2, last]


def _eq34(v: RoundView, subgradient: Any, excess: int = 2) -> Sides:
    left, right = _eq33_rhs(v, subgradient), _eq34_rhs(v, subgradient, excess)
    values = 0 if v.D.dtype == object else v.mean_k(abs(v.losses.values(v.gamma))) / v.lambda2 * 1e-4
    return eq(sum(left[1:], left[0]), sum(right[1:], right[0]), *left, *right, values, noise=v.noise_A)


def _eq35(v: RoundView, subgradient: Any, factor: int = 1) -> Sides:
    left = _eq34_rhs(v, subgradient)
    right = left[0] + left[1] + left[2] + left[3] + factor * v.last_term(subgradient)
    return eq(sum(left[1:], left[0]), right, *left, noise=v.noise_A)


# --- formulas: G is what is taken off g_k, S the subgradient or sign --------------------------------------------------
_SIGN = r"\mathrm{sign}(\tilde\theta_k^t-\theta^{t-1})"
_SIGN_OF_COHORT = r"\mathrm{sign}(\theta_k^t-\theta^{t-1})"
_MOVE = r"\mathbb E[\gamma^t-\gamma^{t-1}]="
_A_NEXT, _MOVED = r"\mathbb E\|\gamma^t-\theta_*\|^2", r"\mathbb E\|\gamma^t-\gamma^{t-1}\|^2"
_A = r"\|\gamma^{t-1}-\theta_*\|^2"
_DECREASE = r"-\tfrac2{\lambda_2}(R(\gamma^{t-1})-R(\theta_*))+\tfrac\beta{\lambda_2}\epsilon_t"


def _over_cohort(g: str, s: str) -> str:
    mean = r"\tfrac1{\lambda_2P}\sum_{k\in\mathcal P_t}(g_k-" + g + r"-\lambda_1 " + s + ")"
    return r"\mathbb E\Big[" + mean + r"-\tfrac1{\lambda_2}h^{t-1}\Big]"


def _over_all(s: str) -> str:
    return r"\tfrac1{\lambda_2m}\sum_k(g_k-\nabla L_k(\tilde\theta_k^t)-\lambda_1 " + s + r")-\tfrac1{\lambda_2}h^{t-1}"


def _without_memory(s: str) -> str:
    return r"-\tfrac1{\lambda_2m}\sum_k\nabla L_k(\tilde\theta_k^t)-\tfrac{\lambda_1}{\lambda_2m}\sum_k" + s


def _inner_products(s: str) -> str:
    return r"\tfrac2{\lambda_2m}\sum_k\langle\gamma^{t-1}-\theta_*,-\lambda_1 " + s + r"\rangle"


def _of_32(s: str) -> str:
    pull = r"-\nabla L_k(\tilde\theta_k^t)-\lambda_1 " + s
    return _A + "+" + _MOVED + r"+\tfrac2{\lambda_2m}\sum_k\langle\gamma^{t-1}-\theta_*," + pull + r"\rangle"


_BENT = r"\tfrac2{\lambda_2m}\sum_k[L_k(\theta_*)-L_k(\gamma^{t-1})+\tfrac\beta2\|\tilde\theta_k^t-\gamma^{t-1}\|^2]"
_OF_33 = _A + "+" + _MOVED + "+" + _BENT + "+" + _inner_products(_SIGN)
_OF_34 = _A + "+" + _MOVED + _DECREASE + "+" + _inner_products(_SIGN)

STATEMENTS = (
    statement(
        "lemma-b3",
        "expected move of gamma",
        "Lemma B.3",
        form(
            "printed",
            _MOVE + _without_memory(_SIGN),
            lambda v: _b3(v, v.lambda1_sign),
            BOTH_FAIL,
            note=SIGN_NOTE,
        ),
        form(
            "repaired",
            _MOVE + _without_memory("s_k^t"),
            lambda v: _b3(v, v.lambda1_s),
            BOTH_HOLD,
            ("wrong sign of s", lambda v: _b3(v, -v.lambda1_s)),
            ("s dropped", lambda v: _b3(v, 0 * v.lambda1_s)),
            proof="(23) repaired, a client's chance of P/m to be in the cohort, and h = mean_k "
            "g_k (Lemma B.2)",
        ),
    ),
    statement(
        "eq-23",
        "first step of Lemma B.3, by (11)",
        "proof of Lemma B.3, (23)",
        form(
            "printed",
            _MOVE + _over_cohort(r"\nabla L_k(\theta_k^t)", _SIGN_OF_COHORT),
            lambda v: _eq23(v, v.grad_tilde[:, None], v.lambda1_sign[:, None]),
            BOTH_FAIL,
            note=SIGN_NOTE,
        ),
        form(
            "stored gradient",
            _MOVE + _over_cohort("g_k^t", _SIGN_OF_COHORT),
            lambda v: _eq23(v, v.stored_next, v.lambda1_sign[:, None]),
            {"sign": "holds", "true-gradient": "violated"},
            ("wrong sign", lambda v: _eq23(v, v.stored_next, -v.lambda1_sign[:, None])),
            note="with g_k^t, what line 5 stores, for the gradient; under the sign rule this is line 5 itself, but then (33) "
            "may not use (15)",
            proof="line 5 of the sign rule, solved for theta_k - theta",
        ),
        form(
            "repaired",
            _MOVE + _over_cohort(r"\nabla L_k(\theta_k^t)", "s_k^t"),
            lambda v: _eq23(v, v.grad_tilde[:, None], v.lambda1_s[:, None]),
            BOTH_HOLD,
            ("s dropped", lambda v: _eq23(v, v.grad_tilde[:, None], 0 * v.lambda1_s[:, None])),
            proof="the definition of gamma, and (11) with s, solved for theta_k - theta",
        ),
    ),
    statement(
        "eq-24",
        "theta_k replaced by theta_tilde_k on the cohort",
        "proof of Lemma B.3, (24)",
        form(
            "printed",
            _over_cohort(r"\nabla L_k(\theta_k^t)", _SIGN_OF_COHORT)
            + "=" + _over_cohort(r"\nabla L_k(\tilde\theta_k^t)", _SIGN),
            lambda v: _eq24(v, v.theta),
            BOTH_HOLD,
            ("sign taken from gamma", lambda v: _eq24(v, v.gamma)),
            proof="theta_tilde_k = theta_k on the cohort (19)",
        ),
    ),
    statement(
        "eq-25",
        "uniform cohorts: the cohort's mean is the clients' mean in expectation",
        "proof of Lemma B.3, (25)",
        form(
            "printed",
            _over_cohort(r"\nabla L_k(\tilde\theta_k^t)", _SIGN) + "=" + _over_all(_SIGN),
            lambda v: _eq25(v, v.P),
            BOTH_HOLD,
            ("divided by m, not by P", lambda v: _eq25(v, v.m)),
            proof="each client is in the cohort with probability P/m",
        ),
    ),
    statement(
        "eq-26",
        "the stored gradients cancel against h (Lemma B.2)",
        "proof of Lemma B.3, (26)",
        form(
            "printed",
            _over_all(_SIGN) + "=" + _without_memory(_SIGN),
            lambda v: _eq26(v, v.h),
            BOTH_HOLD,
            ("h dropped", lambda v: _eq26(v, 0 * v.h)),
            proof="h = mean_k g_k (Lemma B.2)",
        ),
    ),
    statement(
        "eq-27",
        "h is bounded by C",
        "Appendix B.2, (27) (proof omitted there)",
        form(
            "printed",
            r"\mathbb E\|h^t\|^2\le C_t",
            _eq27,
            BOTH_HOLD,
            ("nine tenths of C", lambda v: nine_tenths(_eq27(v))),
            ("half of C", lambda v: le(v.E(norm_sq(v.h_next)), v.C_next / 2)),
            proof="h is the mean of g_k - grad L_k(theta_*), as grad R(theta_*) = 0; Jensen's "
            "inequality",
        ),
        measures="squared norm of the server state h",
    ),
    statement(
        "eq-28",
        "recursion of C",
        "Appendix B.2, (28) (proof omitted there)",
        closed(
            "printed",
            ROUND,
            _eq28,
            {"sign": "violated", "true-gradient": "holds"},
            ("factor 4 dropped", lambda v: _eq28(v, 0)),
            ("3.6 for 4", lambda v: _eq28(v, d_factor=36 / (10 * v.P / v.P))),
            ("1.8 for 2", lambda v: _eq28(v, e_factor=18 / (10 * v.P / v.P))),
            note="the l1 penalty does affect it under the sign rule: stored gradients are off by up to lambda_1 a coordinate",
            proof="(20) repaired, with ||grad L_k(y_k) - grad L_k(theta_*)||^2 split at gamma by "
            "(17), then (14) and (16)",
        ),
        closed(
            "repaired",
            ROUND,
            _eq28_sign,
            BOTH_HOLD,
            ("floor dropped", lambda v: _eq28_sign(v, with_floor=False)),
            note="tau = 2; z_t is the mean number of zero coordinates of theta_tilde_k - theta",
            proof=PROOF_OF_B,
        ),
        measures="mean squared error of the stored gradients after a round",
    ),
    statement(
        "eq-29",
        "gamma moves no further than the clients",
        "Appendix B.2, (29) (proof omitted there)",
        closed(
            "printed",
            ROUND,
            _eq29,
            BOTH_HOLD,
            ("nine tenths of epsilon", lambda v: nine_tenths(_eq29(v))),
            ("half of epsilon", lambda v: le(v.move, v.epsilon / 2, noise=v.noise_sq)),
            after=r"=\frac1m\sum_k\mathbb E\|\tilde\theta_k^t-\gamma^{t-1}\|^2",
            proof="gamma^t is the mean of theta_tilde_k over a uniform cohort; Jensen's "
            "inequality",
        ),
        measures="squared move of gamma in a round",
    ),
    statement(
        "lemma-b4",
        "one step of ||gamma - theta*||^2",
        "Lemma B.4, (30)-(31)",
        closed(
            "printed",
            ROUND,
            lambda v: _b4(v, v.lambda1_sign),
            BOTH_FAIL,
            note=SIGN_NOTE,
        ),
        closed(
            "repaired",
            ROUND,
            lambda v: _b4(v, v.lambda1_s),
            BOTH_HOLD,
            ("sign of the last term", lambda v: _b4(v, v.lambda1_s, last=-1)),
            ("epsilon term dropped", lambda v: _b4(v, v.lambda1_s, quadratic=0)),
            proof="(32) repaired, then (33), (34) and (35) with s for the sign",
        ),
        measures="squared distance to the optimum after a round",
    ),
    statement(
        "eq-32",
        "the square expanded, Lemma B.3 put in",
        "proof of Lemma B.4, (32)",
        form(
            "printed",
            _A_NEXT + "=" + _of_32(_SIGN),
            lambda v: _eq32(v, v.lambda1_sign),
            BOTH_FAIL,
            note=SIGN_NOTE,
        ),
        form(
            "repaired",
            _A_NEXT + "=" + _of_32("s_k^t"),
            lambda v: _eq32(v, v.lambda1_s),
            BOTH_HOLD,
            ("s dropped", lambda v: _eq32(v, 0 * v.lambda1_s)),
            proof="the square expanded, and Lemma B.3 repaired in the middle term",
        ),
    ),
    statement(
        "eq-33",
        "(15) applied to each client",
        "proof of Lemma B.4, (33)",
        form(
            "printed",
            _of_32(_SIGN) + r"\le" + _OF_33,
            lambda v: _eq33(v, v.lambda1_sign),
            BOTH_HOLD,
            ("quadratic term dropped", lambda v: _eq33(v, v.lambda1_sign, quadratic=0)),
            proof="(15) at x = theta_tilde_k, y = theta_* and z = gamma, averaged over the "
            "clients",
        ),
    ),
    statement(
        "eq-34",
        "definitions of R and epsilon put in",
        "proof of Lemma B.4, (34)",
        form(
            "printed",
            _OF_33 + "=" + _OF_34,
            lambda v: _eq34(v, v.lambda1_sign),
            BOTH_HOLD,
            ("factor 1 for 2", lambda v: _eq34(v, v.lambda1_sign, excess=1)),
            proof="the definitions of R and epsilon_t",
        ),
    ),
    statement(
        "eq-35",
        "the mean taken inside the inner product",
        "proof of Lemma B.4, (35)",
        form(
            "printed",
            _OF_34 + "=" + _A + "+" + _MOVED + _DECREASE + LAST_SIGN,
            lambda v: _eq35(v, v.lambda1_sign),
            BOTH_HOLD,
            ("last term twice", lambda v: _eq35(v, v.lambda1_sign, factor=2)),
            proof="the inner product is linear",
        ),
    ),
)
