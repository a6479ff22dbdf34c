"""FedElasticNet, Appendix B: every numbered statement, as printed and as repaired.

Reading adopted throughout: what Algorithm 3 stores and the paper writes grad L_k(theta_k^{t-1}) is g_k (line 5); gradients at
theta_k^t and theta_tilde_k^t in (11), (23)-(39) are gradients of L_k, since (15) and (16) are applied to them. "As printed" takes
sign(0) = 0, expectations over everything random, and (1/m) sum_k where an index k is left free.
"""

from fedtheory.theorems.fedelasticnet.proofs import PROOFS
from fedtheory.theorems.fedelasticnet.statements import (
    STATEMENTS,
)  # before SETTING, which asks what FILE holds

from fedtheory.theorems.fedelasticnet.setting import SETTING  # isort: skip
from fedtheory.theory.judge.registry import Paper

__all__ = ["PAPER"]

PAPER = Paper(
    "fedelasticnet",
    "FedElasticNet",
    "the convergence theory of FedElasticNet (Appendix B)",
    STATEMENTS,
    SETTING,
    printed="on the printed algorithm (sign rule)",
    rules="the sign rule and the true-gradient rule",
    aliases={
        "fedelasticnet/eq-13": "fedelasticnet/theorem-3.1",
        "fedelasticnet/eq-18": "fedelasticnet/theorem-b1",
        "fedelasticnet/eq-30": "fedelasticnet/lemma-b4",
        "fedelasticnet/eq-31": "fedelasticnet/lemma-b4",
        "fedelasticnet/eq-22": "fedelasticnet/lemma-b2",
    },
    figures="fedtheory.theorems.fedelasticnet.figures",
    experiments="fedtheory.theorems.fedelasticnet.experiments",
    reviews="fedtheory.theorems.fedelasticnet.reviews",
    headline="fedtheory.theorems.fedelasticnet.headline",
    witnesses="fedtheory.theorems.fedelasticnet",
    rule_order=("sign", "any", "true-gradient"),
    rule_short={"true-gradient": "true-gr."},
    proofs=PROOFS,
)
