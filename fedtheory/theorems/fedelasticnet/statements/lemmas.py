"""FedElasticNet, (23)-(39): Lemmas B.3 to B.5, and what FedDyn's analysis lends, (27)-(29).

Lemma B.5 has a sharpened form without an l1 floor.
"""

from fractions import Fraction
from typing import Any

import numpy as np

from fedtheory.theorems.fedelasticnet.notation import LAST_SIGN, PROOF_OF_B, SIGN_NOTE, nine_tenths
from fedtheory.theorems.fedelasticnet.one_round import about_a_round
from fedtheory.theorems.fedelasticnet.quantities import inner, norm_sq
from fedtheory.theory import Sides, eq, form, le, printed, repaired, wrong

__all__ = ["bend_with", "drift_lines", "eq28_sign"]

# --- formulas: G is what is taken off g_k, S the subgradient or sign ------------------------------
HALF = Fraction(1, 2)
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
    yield printed(
        lambda: le(v.E(norm_sq(v.h_next)), v.C_next), r"\mathbb E\|h^t\|^2\le C_t",
        wrong("nine tenths of C", share=Fraction(9, 10)), wrong("half of C", share=HALF),
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
    yield printed(
        lambda: le(v.move, v.epsilon), wrong("nine tenths of epsilon", share=Fraction(9, 10)),
        wrong("half of epsilon", share=HALF),
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


PROOF_OF_B5 = "docs/fedelasticnet.md#no-l1-floor-in-lemma-b5"


def _of_36(s: str) -> str:
    inside = r"g_k-\nabla L_k(\tilde\theta_k^t)-\lambda_1 " + s + r"-h^{t-1}"
    return r"\tfrac1{\lambda_2^2m}\sum_k\mathbb E\|" + inside + r"\|^2"


_GRADIENTS = (
    r"\tfrac5{\lambda_2^2}\Big[\tfrac1m\sum_k\|g_k-\nabla L_k(\theta_*)\|^2"
    r"+\tfrac1m\sum_k\|\nabla L_k(\gamma^{t-1})-\nabla L_k(\theta_*)\|^2"
    r"+\tfrac1m\sum_k\|\nabla L_k(\tilde\theta_k^t)-\nabla L_k(\gamma^{t-1})\|^2"
)
_OF_37 = (
    _GRADIENTS
    + r"+\tfrac1m\sum_k\mathbb E\|\lambda_1 " + _SIGN_OF_COHORT + r"\|^2+\|h^{t-1}\|^2\Big]"
)
_OF_38 = _GRADIENTS + r"+\lambda_1^2d+C_{t-1}\Big]"
_OF_39 = (
    r"\tfrac5{\lambda_2^2}\Big[C_{t-1}+2\beta(R(\gamma^{t-1})-R(\theta_*))"
    r"+\beta^2\epsilon_t+\lambda_1^2d+C_{t-1}\Big]"
)


# --- Lemma B.5 ------------------------------------------------------------------------------------
@about_a_round(
    "lemma-b5", source="Lemma B.5", measures="squared drift of the clients, times a constant",
)
def lemma_b5(v):
    """drift of the clients"""

    def of(c_factor: int = 10) -> Sides:
        b, l2 = v.beta, v.lambda2
        floor = 5 * v.lambda1 * v.lambda1 * v.d
        terms = (c_factor * v.C, 10 * b * v.D, floor)
        return le((1 - 5 * b * b / (l2 * l2)) * v.epsilon, *(t / (l2 * l2) for t in terms))

    yield printed(
        of, wrong("C dropped", lambda: of(c_factor=0)),
        note="true although (36) in its proof is not: |s| <= 1 is all that is used; and its last "
        "term is not needed (fedelasticnet/lemma-no-l1-floor)",
        proof="weaker than fedelasticnet/lemma-no-l1-floor: 5 for 3 on the left makes it smaller, "
        "and every term on the right is larger", holds=True,
    )

def _sign_of_cohort(v: Any) -> Any:
    """lambda_1 sign(theta_k^t - theta^{t-1}) with theta_k^t of each cohort, as (36)-(38) print it:
    theta_tilde_k^t of its clients (19), and what others keep (line 9)."""
    kept = v.local - v.theta[:, :, None]
    return v.lambda1 * np.sign(np.where(v.members == 1, v.delta, kept))


def _eq36(v: Any, subgradient: Any) -> Any:
    moved = v.stored - v.grad_tilde - v.h[:, :, None] - subgradient
    return v.E(v.over_k(norm_sq(moved))) / (v.lambda2 * v.lambda2)


def _eq37(v: Any, subgradient: Any, factor: int = 5) -> list[Any]:
    apart = (v.grad_gamma - v.grad_star, v.grad_tilde - v.grad_gamma)
    signs = v.E(v.over_k(norm_sq(subgradient)))
    parts = (v.C, *(v.over_k(norm_sq(p)) for p in apart), signs, norm_sq(v.h))
    return [factor * p / (v.lambda2 * v.lambda2) for p in parts]


def _eq38(v: Any, share: Any = 1) -> list[Any]:
    """``share``: of d."""
    f = 5 / (v.lambda2 * v.lambda2)
    return [*_eq37(v, v.lambda1_s)[:3], f * v.lambda1 * v.lambda1 * v.d * share, f * v.C]


def _eq39(v: Any, gap: Any = 2) -> list[Any]:
    b = v.beta
    parts = (v.C, gap * b * v.D, b * b * v.epsilon, v.lambda1 * v.lambda1 * v.d, v.C)
    return [5 * p / (v.lambda2 * v.lambda2) for p in parts]


def drift_lines(v: Any, subgradient: Any) -> dict[str, Sides]:
    """(37) and (38) with a subgradient of one's own, for the sign of theta_k^t that they print."""
    split = _eq37(v, subgradient)
    return {"eq-37": le(_eq36(v, subgradient), *split), "eq-38": le(sum(split), *_eq38(v))}


@about_a_round("eq-36", source="proof of Lemma B.5, (36)")
def eq_36(v):
    """epsilon in terms of the gradients, by (11)"""

    def of(subgradient: Any) -> Sides:
        parts = (v.over_k(norm_sq(g)) / (v.lambda2 * v.lambda2) for g in (v.stored, v.grad_tilde))
        return eq(v.epsilon, _eq36(v, subgradient), *parts)

    yield printed(
        lambda: of(_sign_of_cohort(v)), r"\epsilon_t=" + _of_36(_SIGN_OF_COHORT),
        note="theta_k^t should be theta_tilde_k^t (a client that stays away keeps theta_k^{t-1}), "
        "and sign(0) = 0", fails=True,
    )
    yield form(
        "theta_tilde only", lambda: of(v.lambda1_sign), r"\epsilon_t=" + _of_36(_SIGN),
        note="sign(0) = 0 alone already breaks it", fails=True,
    )
    yield repaired(
        lambda: of(v.lambda1_s), r"\epsilon_t=" + _of_36("s_k^t"),
        wrong("s dropped", lambda: of(0 * v.lambda1_s)),
        proof="the definitions of epsilon_t and gamma, and (11) with s", holds=True,
    )


@about_a_round("eq-37", source="proof of Lemma B.5, (37)")
def eq_37(v):
    """split into five by (17)"""

    def of(factor: int = 5) -> Sides:
        sign = _sign_of_cohort(v)
        return le(_eq36(v, sign), *_eq37(v, sign, factor))

    yield printed(
        of, _of_36(_SIGN_OF_COHORT) + r"\le" + _OF_37, wrong("factor 1 for 5", lambda: of(1)),
        note="read with (1/m) sum over the sign term, whose index is free as printed, and gamma "
        "for gamma_k", proof="(17) with the five vectors as they stand", holds=True,
    )


@about_a_round("eq-38", source="proof of Lemma B.5, (38)")
def eq_38(v):
    """|sign| <= 1 and (27)"""

    def of(share: Any = 1) -> Sides:
        return le(sum(_eq37(v, _sign_of_cohort(v))), *_eq38(v, share))

    yield printed(
        of, _OF_37 + r"\le" + _OF_38, wrong("d dropped", lambda: of(0)),
        wrong("nine tenths of d", lambda: of(9 * v.P / (10 * v.P))),
        proof="every entry of a sign is at most 1 in size; (27)", holds=True,
    )


@about_a_round("eq-39", source="proof of Lemma B.5, (39)")
def eq_39(v):
    """C, smoothness and (16) put in"""

    def of(gap: Any = 2) -> Sides:
        return le(sum(_eq38(v)), *_eq39(v, gap))

    yield printed(
        of, _OF_38 + r"\le" + _OF_39, wrong("gap dropped", lambda: of(0)),
        wrong("1.8 for 2", lambda: of(18 * v.P / (10 * v.P))),
        proof="the definition of C_{t-1}, (16) and (14)", holds=True,
    )


@about_a_round("lemma-diagonal", source="our repair: the lemma behind 'no l1 floor'", ours=True)
def lemma_diagonal(v):
    """shrinking coordinates before averaging does not cost"""

    def of() -> Sides:
        c, moved = v.stored - v.grad_star, v.stored - v.grad_tilde
        safe = moved + (1 - abs(np.sign(moved)))  # 1 where v_k is 0
        shrunk = v.lambda2 * v.delta / safe * c
        return le(v.over_k(norm_sq(shrunk - v.h[:, :, None])), v.over_k(norm_sq(c)))

    yield repaired(
        of,
        r"c_k=g_k-\nabla L_k(\theta_*),\ h^{t-1}=\tfrac1m\sum_kc_k,\ "
        r"D_k=\mathrm{diag}\in[0,1]\ \Rightarrow\ "
        r"\tfrac1m\sum_k\|D_kc_k-h^{t-1}\|^2\le\tfrac1m\sum_k\|c_k\|^2",
        wrong("half of the right side", lambda: le(of().lhs, of().rhs / 2)),
        wrong("nine tenths of the right side", lambda: nine_tenths(of())), proof=PROOF_OF_B5, holds=True,
    )


@about_a_round(
    "lemma-no-l1-floor", source="our repair: sharpens Lemma B.5", ours=True,
    measures="squared drift of the clients, times a constant",
)
def lemma_no_l1_floor(v):
    """Lemma B.5 without its l1 floor"""

    def of(times: Any = 1) -> Sides:
        b, l2 = v.beta, v.lambda2
        terms = (3 * v.C / (l2 * l2), 6 * b * v.D / (l2 * l2))
        return le((1 - 3 * b * b / (l2 * l2)) * v.epsilon, *(t / times for t in terms))

    yield repaired(of, wrong("ten times smaller", lambda: of(10)), proof=PROOF_OF_B5, holds=True)
