"""FedElasticNet's statements, in the order of the paper."""

from fedtheory.theorems.fedelasticnet.statements import (
    algorithm_1,
    algorithm_1_bias,
    algorithm_2,
    algorithm_2_at_rest,
    dynamics,
    equations_11_to_17,
    equations_19_to_22,
    lemma_b5,
    lemmas_b3_b4,
    theorem_3_1,
    theorem_b6,
    theorem_c,
    threshold,
)

__all__ = ["STATEMENTS"]

STATEMENTS = (
    *equations_11_to_17.STATEMENTS,
    *equations_19_to_22.STATEMENTS,
    *lemmas_b3_b4.STATEMENTS,
    *lemma_b5.STATEMENTS,
    *theorem_b6.STATEMENTS,
    *theorem_3_1.STATEMENTS,
    *theorem_c.STATEMENTS,
    *algorithm_1.STATEMENTS,
    *algorithm_1_bias.STATEMENTS,
    *dynamics.STATEMENTS,
    *algorithm_2.STATEMENTS,
    *algorithm_2_at_rest.STATEMENTS,
    *threshold.STATEMENTS,
)
