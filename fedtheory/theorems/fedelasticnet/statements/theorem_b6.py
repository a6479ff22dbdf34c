"""FedElasticNet, (40)-(41) and what follows, and one step of Theorems A and B."""

from __future__ import annotations

from functools import partial
from typing import Any

from fedtheory.theorems.fedelasticnet.letters import BY_RULE, ROUND, definition
from fedtheory.theorems.fedelasticnet.notation import (
    BOTH_FAIL,
    BOTH_HOLD,
    PRINTED_THRESHOLD,
    PROOF_OF_A,
    PROOF_OF_B,
    REPAIRED_THRESHOLD,
    SIGN_NOTE,
    THEOREM_A_THRESHOLD,
    THEOREM_B_THRESHOLD,
    above,
    statement,
)
from fedtheory.theorems.fedelasticnet.quantities import RoundView, sgn
from fedtheory.theorems.fedelasticnet.statements.identities import (
    chain_after_41,
    constants_identities,
    kappa_is_positive,
)
from fedtheory.theorems.fedelasticnet.statements.lemmas_b3_b4 import eq28_sign
from fedtheory.theorems.fedelasticnet.statements.one_step import theorem_b6
from fedtheory.theory.judge.statement import Sides, eq, form, le
from fedtheory.theory.judge.symbolic import closed

__all__ = ["STATEMENTS", "potential_step"]


def _eq40(v: RoundView, subgradient: Any, sign_floor: bool = False, gap: int = 4) -> Sides:
    kappa, l2, b, share = v.constants.printed[1], v.lambda2, v.beta, v.P / v.m
    noise = (12 * b * kappa + 2 / l2) * v.noise_D + v.noise_A
    if sign_floor:
        recursion = [kappa * t for t in eq28_sign(v)]
    else:
        recursion = [kappa * (1 - share) * v.C, kappa * 2 * b * b * share * v.epsilon, kappa * gap * b * share * v.D]
    rest = [v.A, -2 * v.D / l2, b * v.epsilon / l2, v.move, v.last_term(subgradient)]
    return le(v.A_next + kappa * v.C_next, *recursion, *rest, noise=noise)


def _eq41(v: RoundView, factor: Any = 1) -> Sides:
    kappa, b, share = v.constants.printed[1], v.beta, v.P / v.m
    common = [kappa * 2 * b * b * share * v.epsilon, b * v.epsilon / v.lambda2]
    return le(common[0] + common[1] + v.move, *common, factor * v.epsilon, noise=v.noise_sq)


def potential_step(
    v: RoundView, family: tuple[Any, Any, Any], floor: Any, subgradient: Any, kappa_scale: Any = 1
) -> Sides:
    """kappa_0 D <= (A + kappa C)_{t-1} - E(A + kappa C)_t + floor + last term."""
    _, kappa, kappa_0 = family
    kappa = kappa * kappa_scale
    return le(
        kappa_0 * v.D,
        v.A,
        kappa * v.C,
        -v.A_next,
        -kappa * v.C_next,
        floor,
        v.last_term(subgradient),
        noise=kappa_0 * v.noise_D + v.noise_A,
    )


def _theorem_b_step(v: RoundView, tau: int = 2, with_floor: bool = True) -> Sides:
    family = v.constants.theorem_b(tau)
    floor = family[0] * (tau + 1) / tau * v.lambda1 * v.lambda1 * v.zeros
    return potential_step(v, family, floor if with_floor else 0 * floor, v.lambda1_s)


def _sag(v: RoundView, step: Any = 1) -> Sides:
    """While no participant moves: theta^t = theta^{t-1} - h^t/lambda_2 with h^t SAG's average."""
    still = (abs(sgn(v.delta)).max(axis=-1)[:, None, :] * v.members.astype(int)[None]).max(axis=-1) == 0  # (S, C)
    here = v.losses.gradients(v.theta)
    h = v.h[:, None] + v.cohort_mean(here - v.stored) * v.P / v.m
    expected = v.theta[:, None] - step * h / v.lambda2
    keep = still.astype(int)[:, :, None]
    return eq(v.theta_next * keep, expected * keep, v.h[:, None] / v.lambda2 * keep, vector=True, axes=("state", "cohort"))


STATEMENTS = (
    statement(
        "eq-40",
        "Lemma B.4 plus kappa times (28)",
        "proof of Theorem B.6, (40)",
        closed(
            "printed",
            ROUND,
            lambda v: _eq40(v, v.lambda1_sign),
            BOTH_FAIL,
            limits=above(PRINTED_THRESHOLD),
            note=SIGN_NOTE,
        ),
        closed(
            "repaired",
            BY_RULE,
            lambda v: _eq40(v, v.lambda1_s, sign_floor=v.rule == "sign"),
            BOTH_HOLD,
            ("last term dropped", lambda v: _eq40(v, 0 * v.lambda1_s, sign_floor=v.rule == "sign")),
            (
                "last term a tenth smaller",
                lambda v: _eq40(v, 9 * v.lambda1_s / (10 * v.P / v.P), sign_floor=v.rule == "sign"),
            ),
            limits=above(REPAIRED_THRESHOLD),
            proof="Lemma B.4 repaired plus kappa times (28), under the sign rule (28) repaired",
        ),
        measures="potential after a round",
    ),
    statement(
        "eq-41",
        "(29) put in",
        "proof of Theorem B.6, (41)",
        closed(
            "printed",
            ROUND,
            _eq41,
            BOTH_HOLD,
            ("epsilon halved", lambda v: _eq41(v, 1 / (2 * v.P / v.P))),
            ("epsilon a tenth smaller", lambda v: _eq41(v, 9 / (10 * v.P / v.P))),
            limits=above(PRINTED_THRESHOLD),
            proof="(29)",
        ),
    ),
    statement(
        "eq-41-chain",
        "the chain of equalities after (41), and kappa_0",
        "proof of Theorem B.6, after (41)",
        form(
            "printed",
            r"\kappa\tfrac{2\beta^2P}m+\tfrac\beta{\lambda_2}+1=\tfrac{20(\lambda_2+\beta)\beta^2"
            r"+\beta(\lambda_2^2-25\beta^2)+\lambda_2(\lambda_2^2-25\beta^2)}{\lambda_2(\lambda_2^2-25\beta^2)}"
            r"=f(1-5\tfrac{\beta^2}{\lambda_2^2}),\quad f=\tfrac{\lambda_2(\lambda_2+\beta)}{\lambda_2^2-25\beta^2};"
            r"\quad f\cdot\tfrac{10C+10\beta D+5\lambda_1^2d}{\lambda_2^2}=\kappa\tfrac PmC+\kappa\tfrac{\beta P}mD"
            r"+\kappa\tfrac P{2m}\lambda_1^2d;\quad "
            r"\kappa_0=\tfrac2{\lambda_2}-5\beta\kappa\tfrac Pm",
            None,
            "holds",
            symbolic=chain_after_41,
        ),
        scope="algebra",
        assumptions=(),
    ),
    statement(
        "constants",
        "kappa_0, its threshold, and the constants of Theorems A and B",
        "Theorem B.1 and our repairs",
        form(
            "printed",
            r"\lambda_2>27\beta\Rightarrow\kappa>0\quad(\text{exactly }\lambda_2>5\beta)",
            None,
            "holds",
            symbolic=kappa_is_positive,
            note="the end of the proof drops -kappa C_T, for which kappa > 0 is what it needs",
        ),
        form(
            "repaired",
            r"\lambda_2>27\beta\Rightarrow\kappa_0>0\quad"
            r"(\text{exactly }\lambda_2>\tfrac{25+\sqrt{825}}2\beta);\quad "
            r"a=\tfrac{3(\lambda_2+\beta)}{\lambda_2(\lambda_2^2-c\beta^2)},\ c=9+6\tau:\quad "
            r"3\Big(1+\tfrac\beta{\lambda_2}+2(1+\tau)\beta^2a\Big)=(\lambda_2^2-3\beta^2)a,\quad"
            r"\tfrac2{\lambda_2}-4(1+\tau)\beta a-2\beta a"
            r"=\tfrac2{\lambda_2}\tfrac{\lambda_2^2-c\beta\lambda_2-2c\beta^2}{\lambda_2^2-c\beta^2}",
            None,
            "holds",
            symbolic=constants_identities,
            note="kappa_0 > 0 is needed for the division by kappa_0 T that comes next, which the paper does not say; then "
            "the algebra of Theorem A (tau = 0) and of Theorem B (tau > 0), where a = kappa P/m",
        ),
        scope="algebra",
        assumptions=(),
    ),
    theorem_b6.statement,
    statement(
        "theorem-a-step",
        "one step of Theorem A's potential",
        "our repair: Theorem A, one round",
        closed(
            "repaired",
            ROUND,
            lambda v: potential_step(v, v.constants.theorem_a, 0 * v.D, v.lambda1_s),
            {"true-gradient": "holds"},
            (
                "kappa ten times smaller",
                lambda v: potential_step(v, v.constants.theorem_a, 0 * v.D, v.lambda1_s, 1 / (10 * v.P / v.P)),
            ),
            ("last term dropped", lambda v: potential_step(v, v.constants.theorem_a, 0 * v.D, 0 * v.lambda1_s)),
            after=partial(definition, "A"),
            limits=above(THEOREM_A_THRESHOLD),
            proof=PROOF_OF_A,
        ),
        kind="sharpened",
        measures="suboptimality before the round, times a constant",
    ),
    statement(
        "theorem-b-step",
        "one step of Theorem B's potential",
        "our repair: Theorem B, one round, tau = 2",
        closed(
            "repaired",
            ROUND,
            _theorem_b_step,
            {"sign": "holds"},
            ("floor dropped", lambda v: _theorem_b_step(v, with_floor=False)),
            after=partial(definition, "B"),
            limits=above(THEOREM_B_THRESHOLD),
            proof=PROOF_OF_B,
        ),
        kind="sharpened",
        measures="suboptimality before the round, times a constant",
    ),
    statement(
        "sag-identity",
        "while nobody moves, the true-gradient rule is SAG with step 1/lambda_2",
        "our reading: identity",
        form(
            "repaired",
            r"\delta_k=0\ (k\in\mathcal P_t)\ \Rightarrow\ \theta^t=\theta^{t-1}-\tfrac1{\lambda_2}"
            r"\big(h^{t-1}+\tfrac1m\sum_{k\in\mathcal P_t}(\nabla L_k(\theta^{t-1})-g_k)\big)",
            _sag,
            {"true-gradient": "holds"},
            ("step doubled", lambda v: _sag(v, step=2)),
            ("step a tenth larger", lambda v: _sag(v, step=11 / (10 * v.P / v.P))),
            proof="line 5 of the true-gradient rule stores grad L_k(theta^{t-1}) where delta_k = "
            "0; then lines 11 and 12",
        ),
        kind="sharpened",
    ),
)
