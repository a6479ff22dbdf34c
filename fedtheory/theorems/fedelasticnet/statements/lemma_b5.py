"""FedElasticNet, (36)-(39): Lemma B.5, and its sharpened form without an l1 floor."""

from typing import Any

import numpy as np

from fedtheory.theorems.fedelasticnet.notation import nine_tenths
from fedtheory.theorems.fedelasticnet.one_round import about_a_round
from fedtheory.theorems.fedelasticnet.quantities import norm_sq
from fedtheory.theory import Sides, eq, form, le, printed, repaired, wrong

__all__ = ["drift_lines"]

PROOF = "docs/fedelasticnet.md#no-l1-floor-in-lemma-b5"

# --- formulas -------------------------------------------------------------------------------------
_SIGN = r"\mathrm{sign}(\tilde\theta_k^t-\theta^{t-1})"
_SIGN_OF_COHORT = r"\mathrm{sign}(\theta_k^t-\theta^{t-1})"


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
        wrong("nine tenths of the right side", lambda: nine_tenths(of())), proof=PROOF, holds=True,
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

    yield repaired(of, wrong("ten times smaller", lambda: of(10)), proof=PROOF, holds=True)
