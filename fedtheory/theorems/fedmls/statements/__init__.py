"""All statements of the FedMLS poster, the steps of the proof first."""

from fedtheory.theorems.fedmls.statements.theorem_1_proof import PROOF
from fedtheory.theorems.fedmls.statements.theorems_1_and_2 import THEOREMS

__all__ = ["STATEMENTS"]

STATEMENTS = (*PROOF, *THEOREMS)
