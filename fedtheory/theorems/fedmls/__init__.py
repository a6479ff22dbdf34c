"""FedMLS and MOPES (gradient sliding): the statements of the poster, and how they are judged."""

from fedtheory.theorems.fedmls.paper import paper

paper.read(__name__, first=(
    "theorem_1_proof", "few_steps", "theorem_1", "theorem_2", "orders", "conventional_rounds",
    "claims", "exact_prox", "moreau_envelope", "mopes", "mopes_is_fedmls",
))

from fedtheory.theorems.fedmls.proofs import PROOFS  # noqa: E402 - after the statements
from fedtheory.theorems.fedmls.runs import COMPUTED, tuned  # noqa: E402

paper.proofs.extend(PROOFS)
paper.tuned, paper.computed = tuned, {"fedmls": COMPUTED}
PAPER = paper

__all__ = ["PAPER"]
