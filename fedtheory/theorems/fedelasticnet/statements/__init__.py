"""FedElasticNet's statements, in the order of the paper: Appendix B and (11) to (17) first, then the rest of the main text and B.3."""

from fedtheory.theorems.fedelasticnet.statements import (
    algorithm_1,
    concentration,
    equations_11_to_17,
    equations_19_to_22,
    everybody,
    lemma_b5,
    lemmas_b3_b4,
    local_problem,
    messages,
    objective,
    regression,
    scaffold_steps,
    table_1,
    theorem_3_1,
    theorem_b6,
)

__all__ = ["STATEMENTS"]

STATEMENTS = (
    *equations_11_to_17.STATEMENTS,
    *equations_19_to_22.STATEMENTS,
    *lemmas_b3_b4.STATEMENTS,
    *lemma_b5.STATEMENTS,
    *theorem_b6.STATEMENTS,
    *theorem_3_1.STATEMENTS,
    *algorithm_1.STATEMENTS,
    *regression.STATEMENTS,
    *objective.STATEMENTS,
    *local_problem.STATEMENTS,
    *scaffold_steps.STATEMENTS,
    *everybody.STATEMENTS,
    *concentration.STATEMENTS,
    *messages.STATEMENTS,
    *table_1.STATEMENTS,
)
