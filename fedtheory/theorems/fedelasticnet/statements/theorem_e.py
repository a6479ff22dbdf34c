"""FedElasticNet, Theorem E: constants of the paper's potential from lambda_2 = 1.5352 beta on, by sums of squares; for P = 1 the best.

The multipliers were found by a semidefinite programme and its pattern solved by hand: docs/worst_cases.md has both proofs.
"""

from typing import Any

from fedtheory.theorems.fedelasticnet.potential import (
    feddyn_is_best,
    feddyn_is_proved,
    fedelasticnet_is_proved,
)
from fedtheory.theorems.fedelasticnet.statements.theorem_3_1 import OF_E
from fedtheory.theorems.fedelasticnet.statements.theorem_b6 import algebra
from fedtheory.theorems.fedelasticnet.worst_runs import feddyn_share
from fedtheory.theory import form, repaired

V = r"\ V=\|\gamma-\theta_*\|^2+\kappa C"


@algebra("theorem-e-proof", source="ours: Theorem E", assumptions=OF_E, ours=True)
def theorem_e_proof(q: Any) -> Any:
    """the sum of squares behind Theorem E"""
    yield repaired(
        None,
        r"\mathbb EV^+\le V-\kappa_0^E(R(\gamma)-R(\theta_*))-\tfrac2{\lambda_2}\langle\gamma-\theta_*,\tfrac1m\sum_k"
        r"\lambda_1s_k\rangle,\quad" + V + r",\ \lambda_2\ge\tfrac{1+\sqrt{13}}3\beta",
        holds=True, symbolic=fedelasticnet_is_proved, proves=True,
        coq="validation/coq/fedelasticnet.v: theorem_e",
        note="four multipliers, and what is left is a sum of squares whose factors are at least 0 "
        "on the whole range. Of s_k only <s_k, theta_k - theta> >= 0 is used. Nothing follows for "
        "the sign rule, or for the printed constants",
    )  # fmt: skip


@algebra(
    "feddyn-every-lambda", source="ours: Algorithm 3 with lambda_1 = 0", ours=True,
    assumptions=(
        "every L_k is convex and beta-smooth",
        "P of the m clients are drawn uniformly; local problems solved exactly; lambda_1 = 0",
    ),
)
def feddyn_every_lambda(q: Any) -> Any:
    """FedDyn's rate without any condition on lambda_2"""
    yield repaired(
        None,
        r"\mathbb EV^+\le V-\kappa_0(R(\gamma)-R(\theta_*)),\quad" + V
        + r",\ s=1-\tfrac{m-P}{P(m-1)},\ \lambda=\tfrac{\lambda_2}\beta:\quad\beta\kappa_0=\min\{\tfrac2\lambda,"
        r"\tfrac{4(\lambda+2s)}{(2+\lambda)^2}\}\text{ if }s(2+2\lambda+\lambda^2)\le\lambda(1+\lambda),\text{ else }"
        r"\min\{\tfrac2\lambda,\tfrac{\sqrt{s^2\lambda^4+8\lambda s(1+\lambda)^2}-s\lambda^2}{(1+\lambda)^2}\}",
        holds=True, symbolic=feddyn_is_proved, proves=True, worst=feddyn_share(),
        coq="validation/coq/feddyn.v: feddyn_round_best",
        note="kappa_0 > 0 for every lambda_2 > 0, so that the mean of R(gamma) - R* over T rounds "
        "is at most V_0/(kappa_0 T). The start g = 0 need not be anybody's gradient: no multiplier "
        "stands at the points where the stored ones were taken",
    )  # fmt: skip
    yield form(
        "optimal", None,
        r"m\ge2,\ \kappa\ge0,\ \kappa'>\kappa_0:\quad\mathbb EV^+\le V-\kappa'(R(\gamma)-R(\theta_*))"
        r"\text{ is not true of all }L_k", holds=True, symbolic=feddyn_is_best, proves=True,
        note="the repaired form's kappa_0 is the largest: three tables of inner products, which "
        "instances have or come near to, on which C does not change and the squared distance falls "
        "by kappa_0 times the gap",
    )
