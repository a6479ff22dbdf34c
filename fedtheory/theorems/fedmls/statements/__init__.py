"""All statements of the FedMLS poster, the steps of the proof first; then those about MOPES and MOLES, on which it stands."""

from fedtheory.theorems.fedmls.statements.claims import CLAIMS
from fedtheory.theorems.fedmls.statements.envelope import ENVELOPE
from fedtheory.theorems.fedmls.statements.exact_prox import EXACT_PROX
from fedtheory.theorems.fedmls.statements.few_steps import FEW_STEPS
from fedtheory.theorems.fedmls.statements.mopes import MOPES
from fedtheory.theorems.fedmls.statements.orders import ORDERS
from fedtheory.theorems.fedmls.statements.theorem_1_proof import PROOF
from fedtheory.theorems.fedmls.statements.theorems_1_and_2 import THEOREMS

__all__ = ["STATEMENTS"]

STATEMENTS = (*PROOF, *FEW_STEPS, *THEOREMS, *ORDERS, *CLAIMS, *EXACT_PROX, *ENVELOPE, *MOPES)
