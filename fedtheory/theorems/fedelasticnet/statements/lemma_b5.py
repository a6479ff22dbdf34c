"""FedElasticNet, (36)-(39): Lemma B.5, and its sharpened form without an l1 floor."""

from __future__ import annotations

from typing import Any

from fedtheory.theorems.fedelasticnet.letters import ROUND
from fedtheory.theorems.fedelasticnet.notation import BOTH_FAIL, BOTH_HOLD, nine_tenths, statement, total
from fedtheory.theorems.fedelasticnet.quantities import RoundView, norm_sq, sgn
from fedtheory.theory.judge.statement import Sides, eq, form, le
from fedtheory.theory.judge.symbolic import closed

__all__ = ["STATEMENTS", "drift_lines"]


# --- Lemma B.5 --------------------------------------------------------------------------------------------------------
def _b5(v: RoundView, c_factor: int = 10, floor: int = 5) -> Sides:
    b, l2 = v.beta, v.lambda2
    return le(
        (1 - 5 * b * b / (l2 * l2)) * v.epsilon,
        c_factor * v.C / (l2 * l2),
        10 * b * v.D / (l2 * l2),
        floor * v.lambda1 * v.lambda1 * v.d / (l2 * l2),
        noise=10 * b * v.noise_D / (l2 * l2),
    )


def _no_floor(v: RoundView, lead: int = 3) -> Sides:
    b, l2 = v.beta, v.lambda2
    return le(
        (1 - 3 * b * b / (l2 * l2)) * v.epsilon,
        lead * v.C / (l2 * l2),
        2 * lead * b * v.D / (l2 * l2),
        noise=6 * b * v.noise_D / (l2 * l2),
    )


def _diagonal(v: RoundView, factor: Any = 1) -> Sides:
    """mean ||D_k c_k - mean c||^2 <= mean ||c_k||^2 with the D_k the soft threshold gives: lambda_2 delta = D_k v_k."""
    c = v.stored - v.grad_star
    moved = v.stored - v.grad_tilde
    safe = moved + (1 - abs(sgn(moved)))  # 1 where v_k is 0
    d_k = v.lambda2 * v.delta / safe
    return le(v.mean_k(norm_sq(d_k * c - v.h[:, None, :])), factor * v.mean_k(norm_sq(c)))


def _sign_of_cohort(v: RoundView) -> Any:
    """lambda_1 sign(theta_k^t - theta^{t-1}) with theta_k^t of each cohort, as (36)-(38) print it: (S, C, m, d)."""
    return v.lambda1 * sgn(v.local_next - v.theta[:, None, None, :])


def _eq36_rhs(v: RoundView, subgradient: Any) -> Any:
    """(S,): subgradient (S, m, d) or, with a cohort axis, (S, C, m, d)."""
    base = v.stored - v.grad_tilde - v.h[:, None, :]
    if subgradient.ndim == v.tilde.ndim:
        return v.mean_k(norm_sq(base - subgradient)) / (v.lambda2 * v.lambda2)
    return v.E(norm_sq(base[:, None] - subgradient).sum(axis=2) / v.m) / (v.lambda2 * v.lambda2)


def _eq36(v: RoundView, subgradient: Any) -> Sides:
    size = (v.mean_k(norm_sq(v.stored)) + v.mean_k(norm_sq(v.grad_tilde))) / (v.lambda2 * v.lambda2)
    return eq(v.epsilon, _eq36_rhs(v, subgradient), size, noise=v.noise_sq)


def _mean_sq(v: RoundView, subgradient: Any) -> Any:
    if subgradient.ndim == v.tilde.ndim:
        return v.mean_k(norm_sq(subgradient))
    return v.E(norm_sq(subgradient).sum(axis=2) / v.m)


def _eq37_rhs(v: RoundView, subgradient: Any, factor: int = 5) -> list[Any]:
    f = factor / (v.lambda2 * v.lambda2)
    return [
        f * v.C,
        f * v.mean_k(norm_sq(v.grad_gamma - v.grad_star)),
        f * v.mean_k(norm_sq(v.grad_tilde - v.grad_gamma)),
        f * _mean_sq(v, subgradient),
        f * norm_sq(v.h),
    ]


def _eq38_rhs(v: RoundView, d: Any = None) -> list[Any]:
    f = 5 / (v.lambda2 * v.lambda2)
    d = v.d if d is None else d
    return [*_eq37_rhs(v, v.lambda1_s)[:3], f * v.lambda1 * v.lambda1 * d, f * v.C]


def _eq39_rhs(v: RoundView, gap: Any = 2) -> list[Any]:
    f, b = 5 / (v.lambda2 * v.lambda2), v.beta
    return [f * v.C, f * gap * b * v.D, f * b * b * v.epsilon, f * v.lambda1 * v.lambda1 * v.d, f * v.C]


def _eq38(v: RoundView, d: Any = None) -> Sides:
    return le(total(_eq37_rhs(v, _sign_of_cohort(v))), *_eq38_rhs(v, d))


def _eq39(v: RoundView, gap: Any = 2) -> Sides:
    noise = 10 * v.beta * v.noise_D / (v.lambda2 * v.lambda2)
    return le(total(_eq38_rhs(v)), *_eq39_rhs(v, gap), noise=noise)


def drift_lines(v: RoundView, subgradient: Any) -> dict[str, Sides]:
    """(37) and (38) with a subgradient of one's own, for the sign of theta_k^t that they print."""
    split = _eq37_rhs(v, subgradient)
    return {"eq-37": le(_eq36_rhs(v, subgradient), *split), "eq-38": le(total(split), *_eq38_rhs(v))}


def _shrunk(sides: Sides, factor: int) -> tuple[Any, Any]:
    return sides.lhs, sides.rhs / factor


# --- formulas ---------------------------------------------------------------------------------------------------------
_SIGN_OF_COHORT = r"\mathrm{sign}(\theta_k^t-\theta^{t-1})"


def _of_36(s: str) -> str:
    return r"\tfrac1{\lambda_2^2m}\sum_k\mathbb E\|g_k-\nabla L_k(\tilde\theta_k^t)-\lambda_1 " + s + r"-h^{t-1}\|^2"


_GRADIENTS = (
    r"\tfrac5{\lambda_2^2}\Big[\tfrac1m\sum_k\|g_k-\nabla L_k(\theta_*)\|^2"
    r"+\tfrac1m\sum_k\|\nabla L_k(\gamma^{t-1})-\nabla L_k(\theta_*)\|^2"
    r"+\tfrac1m\sum_k\|\nabla L_k(\tilde\theta_k^t)-\nabla L_k(\gamma^{t-1})\|^2"
)
_OF_37 = _GRADIENTS + r"+\tfrac1m\sum_k\mathbb E\|\lambda_1 " + _SIGN_OF_COHORT + r"\|^2+\|h^{t-1}\|^2\Big]"
_OF_38 = _GRADIENTS + r"+\lambda_1^2d+C_{t-1}\Big]"
_OF_39 = (
    r"\tfrac5{\lambda_2^2}\Big[C_{t-1}+2\beta(R(\gamma^{t-1})-R(\theta_*))+\beta^2\epsilon_t+\lambda_1^2d+C_{t-1}\Big]"
)

STATEMENTS = (
    statement(
        "lemma-b5",
        "drift of the clients",
        "Lemma B.5",
        closed(
            "printed",
            ROUND,
            _b5,
            BOTH_HOLD,
            ("C dropped", lambda v: _b5(v, c_factor=0)),
            note="true although (36) in its proof is not: |s| <= 1 is all that is used; and its last term is not needed "
            "(fedelasticnet/lemma-no-l1-floor)",
            proof="weaker than fedelasticnet/lemma-no-l1-floor: 5 for 3 on the left makes it "
            "smaller, and every term on the right is larger",
        ),
        measures="squared drift of the clients, times a constant",
    ),
    statement(
        "eq-36",
        "epsilon in terms of the gradients, by (11)",
        "proof of Lemma B.5, (36)",
        form(
            "printed",
            r"\epsilon_t=" + _of_36(_SIGN_OF_COHORT),
            lambda v: _eq36(v, _sign_of_cohort(v)),
            BOTH_FAIL,
            note="theta_k^t should be theta_tilde_k^t (a client that stays away keeps theta_k^{t-1}), and sign(0) = 0",
        ),
        form(
            "theta_tilde only",
            r"\epsilon_t=" + _of_36(r"\mathrm{sign}(\tilde\theta_k^t-\theta^{t-1})"),
            lambda v: _eq36(v, v.lambda1_sign),
            BOTH_FAIL,
            note="sign(0) = 0 alone already breaks it",
        ),
        form(
            "repaired",
            r"\epsilon_t=" + _of_36("s_k^t"),
            lambda v: _eq36(v, v.lambda1_s),
            BOTH_HOLD,
            ("s dropped", lambda v: _eq36(v, 0 * v.lambda1_s)),
            proof="the definitions of epsilon_t and gamma, and (11) with s",
        ),
    ),
    statement(
        "eq-37",
        "split into five by (17)",
        "proof of Lemma B.5, (37)",
        form(
            "printed",
            _of_36(_SIGN_OF_COHORT) + r"\le" + _OF_37,
            lambda v: le(_eq36_rhs(v, _sign_of_cohort(v)), *_eq37_rhs(v, _sign_of_cohort(v))),
            BOTH_HOLD,
            ("factor 1 for 5", lambda v: le(_eq36_rhs(v, _sign_of_cohort(v)), *_eq37_rhs(v, _sign_of_cohort(v), 1))),
            note="read with (1/m) sum over the sign term, whose index is free as printed, and gamma for gamma_k",
            proof="(17) with the five vectors as they stand",
        ),
    ),
    statement(
        "eq-38",
        "|sign| <= 1 and (27)",
        "proof of Lemma B.5, (38)",
        form(
            "printed",
            _OF_37 + r"\le" + _OF_38,
            _eq38,
            BOTH_HOLD,
            ("d dropped", lambda v: _eq38(v, d=0)),
            ("nine tenths of d", lambda v: _eq38(v, d=9 * v.d / (10 * v.P / v.P))),
            proof="every entry of a sign is at most 1 in size; (27)",
        ),
    ),
    statement(
        "eq-39",
        "C, smoothness and (16) put in",
        "proof of Lemma B.5, (39)",
        form(
            "printed",
            _OF_38 + r"\le" + _OF_39,
            _eq39,
            BOTH_HOLD,
            ("gap dropped", lambda v: _eq39(v, gap=0)),
            ("1.8 for 2", lambda v: _eq39(v, gap=18 / (10 * v.P / v.P))),
            proof="the definition of C_{t-1}, (16) and (14)",
        ),
    ),
    statement(
        "lemma-diagonal",
        "shrinking coordinates before averaging does not cost",
        "our repair: the lemma behind 'no l1 floor'",
        form(
            "repaired",
            r"c_k=g_k-\nabla L_k(\theta_*),\ h^{t-1}=\tfrac1m\sum_kc_k,\ D_k=\mathrm{diag}\in[0,1]\ \Rightarrow\ "
            r"\tfrac1m\sum_k\|D_kc_k-h^{t-1}\|^2\le\tfrac1m\sum_k\|c_k\|^2",
            _diagonal,
            BOTH_HOLD,
            ("half of the right side", lambda v: _diagonal(v, 1 / (2 * v.P / v.P))),
            ("nine tenths of the right side", lambda v: nine_tenths(_diagonal(v))),
            proof="docs/fedelasticnet.md#no-l1-floor-in-lemma-b5",
        ),
        kind="sharpened",
    ),
    statement(
        "lemma-no-l1-floor",
        "Lemma B.5 without its l1 floor",
        "our repair: sharpens Lemma B.5",
        closed(
            "repaired",
            ROUND,
            _no_floor,
            BOTH_HOLD,
            ("ten times smaller", lambda v: le(*_shrunk(_no_floor(v), 10))),
            proof="docs/fedelasticnet.md#no-l1-floor-in-lemma-b5",
        ),
        kind="sharpened",
        measures="squared drift of the clients, times a constant",
    ),
)
