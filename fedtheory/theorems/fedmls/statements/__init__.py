"""The statements of the FedMLS poster about runs, the steps of the proof first, and its claims in words."""

from fedtheory.theorems.fedmls.statements.claims import CLAIMS
from fedtheory.theorems.fedmls.statements.few_steps import FEW_STEPS
from fedtheory.theorems.fedmls.statements.theorem_1_proof import PROOF
from fedtheory.theorems.fedmls.statements.theorems_1_and_2 import THEOREMS

__all__ = ["CLAIMS", "RUNS"]

RUNS = (*PROOF, *FEW_STEPS, *THEOREMS)
