"""FedMLS and MOPES (gradient sliding): the statements of the poster, and how they are judged."""

from fedtheory.theorems.fedmls.notation import PAPER_ID
from fedtheory.theorems.fedmls.proofs import PROOFS
from fedtheory.theorems.fedmls.setting import FedMLSSetting
from fedtheory.theorems.fedmls.statements import STATEMENTS
from fedtheory.verification.registry import Paper

__all__ = ["PAPER"]

PAPER = Paper(
    PAPER_ID,
    "FedMLS",
    "the convergence theory of FedMLS (Theorems 1 and 2)",
    STATEMENTS,
    FedMLSSetting(),
    printed="with exact subgradients (deterministic)",
    rules="exact (deterministic) and noisy (stochastic) subgradients",
    figures="fedtheory.theorems.fedmls.local_work",
    headline="fedtheory.theorems.fedmls.headline",
    witnesses="fedtheory.theorems.fedmls",
    rule_order=("any", "deterministic", "stochastic"),
    rule_words={"deterministic": "deterministic", "stochastic": "stochastic"},
    rule_short={"deterministic": "exact", "stochastic": "noisy"},
    proofs=PROOFS,
)
