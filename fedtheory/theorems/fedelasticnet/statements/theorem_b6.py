r"""FedElasticNet, (40)-(41) and Theorem B.6: one step of A + kappa C, and its repairs.

In the paper's letters gamma = theta + h/lambda_2, and g_k is what client k stores. From any state,
with uniform cohorts of any size P,

    kappa_0 D <= (A + kappa C) - E(A + kappa C)^+ + floor
                 - (2/lambda_2) <gamma - theta*, mean_k lambda_1 s_k>.
"""

from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from fedtheory.theorems.fedelasticnet.letters import definition
from fedtheory.theorems.fedelasticnet.notation import (
    PRINTED_THRESHOLD,
    PROOF_OF_A,
    PROOF_OF_B,
    PROOF_OF_B6,
    REPAIRED_THRESHOLD,
    SAMPLED,
    SIGN_NOTE,
    STORED_GRADIENTS,
    SYMBOLS,
    THEOREM_A_THRESHOLD,
    THEOREM_B_THRESHOLD,
    THEOREM_E_THRESHOLD,
)
from fedtheory.theorems.fedelasticnet.one_round import about_a_round, ratio_above
from fedtheory.theorems.fedelasticnet.paper import FILE
from fedtheory.theorems.fedelasticnet.statements.identities import (
    chain_after_41,
    constants_identities,
    kappa_is_positive,
)
from fedtheory.theorems.fedelasticnet.statements.lemmas import eq28_sign
from fedtheory.theory import Identities, Sides, eq, form, le, printed, repaired, wrong

__all__ = ["algebra", "potential_step", "theorem_b6"]

TRUE_GRADIENT, SIGN_RULE = ({rule: {"rule": rule}} for rule in ("true-gradient", "sign"))
STEP = (
    r"\kappa_0(R(\gamma^{t-1})-R(\theta_*))\le\|\gamma^{t-1}-\theta_*\|^2+\kappa C_{t-1}"
    r"-\mathbb E\|\gamma^t-\theta_*\|^2-\kappa C_t%s"
    r"-\tfrac{2\lambda_1}{\lambda_2}\langle\gamma^{t-1}-\theta_*,\tfrac1m\sum_k%s\rangle"
)
FLOOR = r"+%s\lambda_1^2%s"
SIGN = r"\mathrm{sign}(\tilde\theta_k^t-\theta^{t-1})"


@about_a_round("eq-40", source="proof of Theorem B.6, (40)", measures="potential after a round")
def eq_40(v):
    """Lemma B.4 plus kappa times (28)"""
    of_sign = v.rule == "sign"

    def of(subgradient: Any, sign_floor: bool = False) -> Sides:
        kappa, l2, b, share = v.constants.printed[1], v.lambda2, v.beta, v.P / v.m
        recursion = [(1 - share) * v.C, 2 * b * b * share * v.epsilon, 4 * b * share * v.D]
        recursion = [kappa * t for t in (eq28_sign(v) if sign_floor else recursion)]
        rest = [v.A, -2 * v.D / l2, b * v.epsilon / l2, v.move, v.last_term(subgradient)]
        return le(v.A_next + kappa * v.C_next, *recursion, *rest)

    yield printed(
        lambda: of(v.lambda1_sign), needs=ratio_above(v, PRINTED_THRESHOLD), note=SIGN_NOTE,
        fails=True,
    )
    yield repaired(
        lambda: of(v.lambda1_s, of_sign),
        wrong("last term dropped", lambda: of(0 * v.lambda1_s, of_sign)),
        wrong("last term a tenth smaller", lambda: of(9 * v.lambda1_s / 10, of_sign)),
        needs=ratio_above(v, REPAIRED_THRESHOLD),
        proof="Lemma B.4 repaired plus kappa times (28), under the sign rule (28) repaired",
        holds=True,
    )


@about_a_round("eq-41", source="proof of Theorem B.6, (41)")
def eq_41(v):
    """(29) put in"""

    def of(tenths: int = 10) -> Sides:
        kappa, b, share = v.constants.printed[1], v.beta, v.P / v.m
        common = [kappa * 2 * b * b * share * v.epsilon, b * v.epsilon / v.lambda2]
        return le(common[0] + common[1] + v.move, *common, tenths * v.epsilon / 10)

    yield printed(
        of, wrong("epsilon halved", lambda: of(5)), wrong("epsilon a tenth smaller", lambda: of(9)),
        needs=ratio_above(v, PRINTED_THRESHOLD), proof="(29)", holds=True,
    )

algebra = partial(FILE.statement, over=Identities, symbols=SYMBOLS)


@algebra("eq-41-chain", source="proof of Theorem B.6, after (41)")
def eq_41_chain(q: Any) -> Any:
    """the chain of equalities after (41), and kappa_0"""
    yield printed(
        None,
        r"\kappa\tfrac{2\beta^2P}m+\tfrac\beta{\lambda_2}+1=\tfrac{20(\lambda_2+\beta)\beta^2"
        r"+\beta(\lambda_2^2-25\beta^2)+\lambda_2(\lambda_2^2-25\beta^2)}{\lambda_2(\lambda_2^2-25\beta^2)}"
        r"=f(1-5\tfrac{\beta^2}{\lambda_2^2}),\quad f=\tfrac{\lambda_2(\lambda_2+\beta)}{\lambda_2^2-25\beta^2};"
        r"\quad f\cdot\tfrac{10C+10\beta D+5\lambda_1^2d}{\lambda_2^2}=\kappa\tfrac PmC+\kappa\tfrac{\beta P}mD"
        r"+\kappa\tfrac P{2m}\lambda_1^2d;\quad "
        r"\kappa_0=\tfrac2{\lambda_2}-5\beta\kappa\tfrac Pm", holds=True, symbolic=chain_after_41,
    )


@algebra("constants", source="Theorem B.1 and our repairs")
def constants(q: Any) -> Any:
    """kappa_0, its threshold, and the constants of Theorems A and B"""
    yield printed(
        None, r"\lambda_2>27\beta\Rightarrow\kappa>0\quad(\text{exactly }\lambda_2>5\beta)",
        holds=True, symbolic=kappa_is_positive,
        note="the end of the proof drops -kappa C_T, for which kappa > 0 is what it needs",
    )
    yield repaired(
        None,
        r"\lambda_2>27\beta\Rightarrow\kappa_0>0\quad"
        r"(\text{exactly }\lambda_2>\tfrac{25+\sqrt{825}}2\beta);\quad "
        r"a=\tfrac{3(\lambda_2+\beta)}{\lambda_2(\lambda_2^2-c\beta^2)},\ c=9+6\tau:\quad "
        r"3\Big(1+\tfrac\beta{\lambda_2}+2(1+\tau)\beta^2a\Big)=(\lambda_2^2-3\beta^2)a,\quad"
        r"\tfrac2{\lambda_2}-4(1+\tau)\beta a-2\beta a"
        r"=\tfrac2{\lambda_2}\tfrac{\lambda_2^2-c\beta\lambda_2-2c\beta^2}{\lambda_2^2-c\beta^2}",
        holds=True, symbolic=constants_identities,
        note="kappa_0 > 0 is needed for the division by kappa_0 T that comes next, which the paper "
        "does not say; then the algebra of Theorem A (tau = 0) and of Theorem B (tau > 0), where "
        "a = kappa P/m",
    )


def potential_step(v: Any, kappa: Any, kappa_0: Any, floor: Any, last: Any) -> Sides:
    """kappa_0 D <= (A + kappa C)_{t-1} - E(A + kappa C)_t + floor + last term."""
    before, after = (v.A, kappa * v.C), (-v.A_next, -kappa * v.C_next)
    return le(kappa_0 * v.D, *before, *after, floor, last)


@about_a_round(
    "theorem-b6", source="Theorem B.6", measures="suboptimality before the round, times kappa_0",
)
def theorem_b6(v):
    """one step of the potential"""
    of_sign = v.rule == "sign"
    as_printed, as_repaired = (
        ratio_above(v, limit) for limit in (PRINTED_THRESHOLD, REPAIRED_THRESHOLD)
    )
    half, share = Fraction(1, 2), Fraction(1, 100)

    def step(floor: Any, last: Any = None, times: Any = 1) -> Sides:
        a, kappa, kappa_0 = v.constants.printed
        last = v.last_term(v.lambda1_s) if last is None else last
        return potential_step(v, times * kappa, kappa_0, floor * a * v.lambda1 * v.lambda1, last)

    def told(name: str, floor: Callable[[], Any], words: str, *more: Any, **how: Any) -> Any:
        small = wrong("kappa a hundred times smaller", lambda: step(floor(), times=share))
        how = {"needs": as_repaired, **how}
        return form(name, lambda: step(floor()), STEP % (words, "s_k^t"), small, *more, **how)

    yield printed(
        lambda: step(half, v.last_term(v.lambda1_sign)),
        STEP % (FLOOR % (r"\tfrac{\kappa P}{2m}", ""), SIGN), needs=as_printed,
        note="sign(0) = 0, and the factor d is missing", fails=True,
    )
    yield told(
        "repaired", lambda: half * v.d, FLOOR % (r"\tfrac{\kappa P}{2m}", "d"),
        wrong("last term dropped", lambda: step(0, 0 * v.D)),
        note="true for both rules, though the printed proof uses (28), which the sign rule breaks",
        proof=PROOF_OF_B6, holds=True,
    )
    yield told(
        "d missing", lambda: half, FLOOR % (r"\tfrac{\kappa P}{2m}", ""), needs=as_printed,
        note="exact s, but no factor d: the sign rule breaks it with five coordinates or more; "
        "with four or fewer it holds, by the small floor",
        proof="weaker than the form without a floor", fails=of_sign, holds=not of_sign,
    )
    yield told(
        "no floor", lambda: 0, "",
        note="the true-gradient rule needs no l1 floor, with the paper's own kappa; a stalled "
        "state shows the sign rule does", proof=PROOF_OF_A, fails=of_sign, holds=not of_sign,
    )
    if of_sign:
        yield told(
            "sharpened", lambda: Fraction(33, 80) * v.zeros,
            FLOOR % (r"\tfrac{33\kappa P}{80m}", "z_t"),
            note="the floor counts only the zero coordinates: there the stored gradient stays what "
            "it was", proof=PROOF_OF_B6, holds=True,
        )
        yield told(
            "small floor", lambda: Fraction(11, 100) * v.zeros,
            FLOOR % (r"\tfrac{11\kappa P}{100m}", "z_t"),
            note="proved in docs/fedelasticnet.md; a stalled state needs 0.2 as lambda_2/beta "
            "grows, and a little more before",
            proof="docs/fedelasticnet.md#a-smaller-floor-and-the-factor-d", holds=True,
        )

about_a_step = partial(
    about_a_round, ours=True, measures="suboptimality before the round, times a constant"
)
LAST = ("last term dropped", {"last": 0})


def of_a_repair(
    v: Any, letter: str, limit: Any, *mutants: tuple[str, dict[str, Any]], paid: int = 0, **more: Any
) -> Any:
    """One step of the potential of Theorem A, B or E; of B with a floor that is paid for zeros."""

    def of(smaller: int = 1, last: int = 1, paid: int = paid) -> Sides:
        a, kappa, kappa_0 = getattr(v.constants, f"theorem_{letter.lower()}")
        floor = 3 * paid * a / 2 * v.lambda1 * v.lambda1 * v.zeros if paid else 0
        return potential_step(v, kappa / smaller, kappa_0, floor, last * v.last_term(v.lambda1_s))

    return repaired(
        of, *(wrong(words, **change) for words, change in mutants), holds=True,
        after=partial(definition, letter), needs=ratio_above(v, limit), **more,
    )


@about_a_step("theorem-a-step", source="our repair: Theorem A, one round", rules=TRUE_GRADIENT)
def theorem_a_step(v):
    """one step of Theorem A's potential"""
    smaller = ("kappa ten times smaller", {"smaller": 10})
    yield of_a_repair(v, "A", THEOREM_A_THRESHOLD, smaller, LAST, proof=PROOF_OF_A)


@about_a_step("theorem-b-step", source="our repair: Theorem B, one round, tau = 2", rules=SIGN_RULE)
def theorem_b_step(v):
    """one step of Theorem B's potential"""
    dropped = ("floor dropped", {"paid": 0})
    yield of_a_repair(v, "B", THEOREM_B_THRESHOLD, dropped, paid=1, proof=PROOF_OF_B)


@about_a_step(
    "theorem-e-step", source="ours: Theorem E, one round (lambda_2 > 1.5352 beta)",
    rules=TRUE_GRADIENT, assumptions=(*SAMPLED, STORED_GRADIENTS),
)
def theorem_e_step(v):
    """one step of Theorem E's potential"""
    yield of_a_repair(
        v, "E", THEOREM_E_THRESHOLD, ("kappa a hundred times smaller", {"smaller": 100}), LAST,
        note="proved for every N, P and loss of the class: theorem-e-proof",
        proof="docs/worst_cases.md#theorem-e-fedelasticnets-true-gradient-rule-from-15352-beta-on",
    )


@about_a_round("sag-identity", source="our reading: identity", rules=TRUE_GRADIENT, ours=True)
def sag_identity(v):
    """while nobody moves, the true-gradient rule is SAG with step 1/lambda_2"""

    def of(step: Any = 1) -> Sides:
        moved = (abs(np.sign(v.delta)) * v.members).max(axis=(-2, -1))
        keep = (moved == 0).astype(int)[..., None]  # (S, C, 1)
        h = v.h + v.cohort_mean(v.q.gradients(v.theta) - v.stored) * v.P / v.m
        expected = v.theta - step * h / v.lambda2
        axes = ("state", "cohort")
        parts = (v.theta_next * keep, expected * keep, v.h / v.lambda2 * keep)
        return eq(*parts, vector=True, axes=axes)

    yield repaired(
        of,
        r"\delta_k=0\ (k\in\mathcal P_t)\ \Rightarrow\ \theta^t=\theta^{t-1}-\tfrac1{\lambda_2}"
        r"\big(h^{t-1}+\tfrac1m\sum_{k\in\mathcal P_t}(\nabla L_k(\theta^{t-1})-g_k)\big)",
        wrong("step doubled", lambda: of(2)),
        wrong("step a tenth larger", lambda: of(11 * v.P / (10 * v.P))),
        proof="line 5 of the true-gradient rule stores grad L_k(theta^{t-1}) where delta_k = 0; "
        "then lines 11 and 12", holds=True,
    )
