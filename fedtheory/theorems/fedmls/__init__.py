"""FedMLS and MOPES (gradient sliding): the statements of the poster, and how they are judged."""

from importlib import import_module
from typing import Any

from fedtheory.authoring.world_room import WorldSetting
from fedtheory.theorems.fedmls.notation import PAPER_ID
from fedtheory.theorems.fedmls.paper import paper
from fedtheory.theorems.fedmls.proofs import PROOFS
from fedtheory.theorems.fedmls.setting import FedMLSSetting
from fedtheory.theorems.fedmls.statements import CLAIMS, RUNS
from fedtheory.verification.joined import Joined
from fedtheory.verification.registry import Paper

__all__ = ["PAPER"]

for _file in (
    "orders", "conventional_rounds", "exact_prox", "moreau_envelope", "mopes", "mopes_is_fedmls"
):
    import_module(f"{__name__}.{_file}")

_said: list[Any] = [s.statement for s in paper.statements.values()]
_first = [s.id for s in _said].index(f"{PAPER_ID}/conventional-rounds") + 1  # the claims come next

PAPER = Paper(
    PAPER_ID,
    "FedMLS",
    "the convergence theory of FedMLS (Theorems 1 and 2)",
    (*RUNS, *_said[:_first], *CLAIMS, *_said[_first:]),
    Joined(FedMLSSetting(), WorldSetting(list(paper.statements.values()))),
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
